//===- Main.cpp - tilewright-bench ----------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewright-bench schedules MODEL MACHINE [--shape NAME=DIMS] [--markdown]
// tilewright-bench speed MODEL MACHINE [--shape NAME=DIMS] [--markdown] [--runs N]
// tilewright-bench session MODEL MACHINE [--runs N]
// tilewright-bench random-networks FOLDER [--count N] [--seed N]
//===----------------------------------------------------------------------===//
#include "tests/bench/Bench.h"

#include "compiler/graph/Graph.h"
#include "hw-configs/Machine.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <CLI/CLI.hpp>

using namespace tw;
using namespace tw::bench;

namespace {
void loadDialects(mlir::MLIRContext &context) {
  context.loadDialect<graph::GraphDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::arith::ArithDialect,
                      mlir::math::MathDialect, mlir::tensor::TensorDialect>();
}
} // namespace

llvm::Expected<pipeline::CompiledNetwork> Lowered::compile(accel::Schedule schedule) {
  options.machine = &machine;
  options.schedule = schedule;
  return pipeline::compileForAccelerator(*module, options);
}

llvm::Expected<std::unique_ptr<Lowered>> bench::lower(const Arguments &arguments) {
  auto result = std::make_unique<Lowered>();
  Result<timing::MachineParams> machine = hwconfigs::loadMachine(arguments.machine);
  if (!machine)
    return llvm::createStringError(machine.message());
  result->machine = *machine;
  result->options.machine = &result->machine;
  for (const std::string &text : arguments.shapes) {
    auto [name, list] = llvm::StringRef(text).rsplit('=');
    llvm::SmallVector<llvm::StringRef> parts;
    llvm::SplitString(list, parts, "x,");
    std::vector<int64_t> dims;
    for (llvm::StringRef part : parts)
      if (int64_t dim = 0; part.getAsInteger(10, dim) || dim < 1)
        return llvm::createStringError("--shape " + text + ": '" + part.str() + "' must be a positive number");
      else
        dims.push_back(dim);
    if (name.empty() || dims.empty())
      return llvm::createStringError("--shape " + text + " must be NAME=DIMS, as in x=1x3x224x224");
    result->options.import.shapes[name.str()] = dims;
  }
  result->context = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  loadDialects(*result->context);
  auto start = std::chrono::steady_clock::now();
  auto module = pipeline::importModel(*result->context, arguments.model, result->options);
  if (!module)
    return module.takeError();
  result->module = std::move(*module);
  result->importSeconds = secondsSince(start);
  start = std::chrono::steady_clock::now();
  if (llvm::Error error = pipeline::optimizeGraph(*result->module, result->options))
    return std::move(error);
  if (llvm::Error error = pipeline::lowerToLinalg(*result->module, result->options))
    return std::move(error);
  result->graphSeconds = secondsSince(start);
  return std::move(result);
}

void bench::print(const std::vector<std::vector<std::string>> &rows, unsigned leftColumns, bool markdown) {
  std::vector<size_t> widths(rows[0].size());
  for (const std::vector<std::string> &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < rows[r].size(); ++i) {
      const std::string &cell = rows[r][i];
      std::string padding(markdown ? 0 : widths[i] - cell.size(), ' ');
      line += (markdown ? "| " : i ? "  " : "") + (i < leftColumns ? cell + padding : padding + cell) + (markdown ? " " : "");
    }
    llvm::outs() << llvm::StringRef(line).rtrim() << (markdown ? " |\n" : "\n");
    if (r || !markdown)
      continue;
    for (size_t i = 0; i < widths.size(); ++i)
      llvm::outs() << (i < leftColumns ? "|---" : "|---:");
    llvm::outs() << "|\n";
  }
}

int main(int argc, char **argv) {
  CLI::App app("Measures Tilewright: what schedules bring in simulated cycles, what compiling and simulating take on this host",
               "tilewright-bench");
  app.require_subcommand(1);
  Arguments arguments;
  unsigned runs = 5;
  auto addMode = [&](const char *name, const char *help) {
    CLI::App *mode = app.add_subcommand(name, help);
    mode->add_option("MODEL", arguments.model, "an ONNX file")->required();
    mode->add_option("MACHINE", arguments.machine, "a shipped machine or a YAML file")->required();
    mode->add_option("--shape", arguments.shapes, "NAME=DIMS: shape of an input with dynamic dimensions")
        ->take_all()
        ->expected(1);
    mode->add_flag("--markdown", arguments.markdown, "print Markdown tables");
    return mode;
  };
  CLI::App *schedules = addMode("schedules", "cycles of serial and double_buffer, layer by layer");
  CLI::App *speed = addMode("speed", "wall time of the compiler and of the simulator, on one thread");
  CLI::App *session = addMode("session", "wall time of one run of a compiled network");
  for (CLI::App *mode : {speed, session})
    mode->add_option("--runs", runs, "simulations to take the median of, after one to warm up")->check(CLI::Range(1, 1000));
  CLI::App *networks = app.add_subcommand("random-networks", "writes random networks and names a machine for each");
  std::string folder;
  unsigned count = 400;
  uint64_t seed = 1;
  networks->add_option("FOLDER", folder, "where the files go")->required()->check(CLI::ExistingDirectory);
  networks->add_option("--count", count, "networks");
  networks->add_option("--seed", seed, "of the first network; the next ones have the numbers behind it");
  CLI11_PARSE(app, argc, argv);
  auto run = [&]() -> llvm::Error {
    if (schedules->parsed())
      return compareSchedules(arguments);
    if (speed->parsed())
      return measureSpeed(arguments, runs);
    if (session->parsed())
      return measureSession(arguments, runs);
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    loadDialects(context);
    return writeRandomNetworks(context, folder, count, seed);
  };
  llvm::Error error = run();
  if (!error)
    return 0;
  llvm::errs() << "tilewright-bench: " << llvm::toString(std::move(error)) << "\n";
  return 1;
}
