//===- CodeSize.cpp - Words of code with and without rerolling ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewright-code-size MACHINE MODEL... [--shape NAME=DIMS] [--schedule NAME] [--layers] [--markdown]
//
// Also executes both codes and fails where they differ in anything.
//===----------------------------------------------------------------------===//
#include "compiler/graph/Graph.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/schedule/Reroll.h"
#include "compiler/schedule/Synchronize.h"
#include "hw-configs/Machine.h"
#include "runtime/InlineKernel.h"
#include "simulator/systemc/SystemCModel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <CLI/CLI.hpp>

using namespace tw;
using schedule::Code;

namespace {

struct Options {
  std::string machine, schedule = "double_buffer";
  std::vector<std::string> models, shapes;
  bool layers = false, markdown = false;
};

using Row = std::vector<std::string>;

void print(const std::vector<Row> &rows, bool markdown) {
  std::vector<size_t> widths(rows[0].size());
  for (const Row &row : rows)
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < rows[r].size(); ++i) {
      std::string padding(widths[i] - rows[r][i].size(), ' ');
      llvm::outs() << (markdown ? "| "
                       : i      ? "  "
                                : "")
                   << (i ? padding + rows[r][i] : rows[r][i] + padding) << (markdown ? " " : "");
    }
    llvm::outs() << (markdown ? "|\n" : "\n");
    for (size_t i = 0; markdown && r == 0 && i < widths.size(); ++i)
      llvm::outs() << (i ? "---:|" : "|---|");
    llvm::outs() << (markdown && r == 0 ? "\n" : "");
  }
}

/// One number for everything that is executed, and how many tiles are stored.
std::pair<uint64_t, uint64_t> executed(const std::vector<Code> &code) {
  uint64_t hash = 1469598103934665603u, stores = 0;
  std::vector<isa::Word> words;
  schedule::execute(code, [&](const isa::Instruction &instruction, uint32_t layer) {
    words.clear();
    isa::encode(instruction, words);
    hash = (hash ^ layer) * 1099511628211u;
    for (const isa::Word &word : words)
      for (uint64_t bits : word)
        hash = (hash ^ bits) * 1099511628211u;
    stores += instruction.opcode() == isa::Opcode::Store;
  });
  return {hash, stores};
}

void append(const std::vector<Code> &code, isa::Program &program) {
  for (const Code &c : code) {
    isa::encode(c.instruction, program.code);
    program.layerOf.resize(program.code.size(), c.layer);
    append(c.body, program);
  }
}

/// Cycles of `program` with this code in place of its own.
llvm::Expected<uint64_t> cycles(isa::Program program, const std::vector<Code> &code, const timing::MachineParams &machine) {
  program.code.clear();
  program.layerOf.clear();
  append(code, program);
  isa::encode(isa::Instruction(isa::Halt()), program.code);
  program.layerOf.resize(program.code.size(), uint32_t(program.layers.size()) - 1);
  program.dramBytes = std::max<uint64_t>(program.dramBytes, program.codeAddress + program.code.size() * isa::kWordBytes);
  program.dramBytes = (program.dramBytes + 63) / 64 * 64;
  core::MachineState state(machine);
  if (auto problem = state.load(program))
    return llvm::createStringError(*problem);
  systemc::SimOptions simulation;
  simulation.timingOnly = true;
  stats::SimResult result = systemc::SystemCModel().run(program, state, simulation);
  if (result.fault)
    return llvm::createStringError("fault: " + result.fault->str());
  return result.totalCycles;
}

llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> lower(mlir::MLIRContext &context, const std::string &model,
                                                        const pipeline::CompileOptions &options) {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  if (runtime::isInlineKernel(model)) {
    auto kernel = runtime::parseInlineKernel(model);
    if (!kernel)
      return llvm::createStringError(kernel.error().message);
    module = runtime::buildInlineKernel(context, *kernel, 1);
  } else {
    auto imported = pipeline::importModel(context, model, options);
    if (!imported)
      return imported.takeError();
    module = std::move(*imported);
  }
  if (llvm::Error error = pipeline::optimizeGraph(*module, options))
    return std::move(error);
  if (llvm::Error error = pipeline::lowerToLinalg(*module, options))
    return std::move(error);
  return std::move(module);
}

llvm::Error measure(const std::string &model, const pipeline::CompileOptions &compileOptions, const Options &options,
                    std::vector<Row> &rows) {
  const timing::MachineParams &machine = *compileOptions.machine;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<graph::GraphDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::arith::ArithDialect,
                      mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  auto module = lower(context, model, compileOptions);
  if (!module)
    return module.takeError();
  auto compiled = pipeline::compileForAccelerator(**module, compileOptions);
  if (!compiled)
    return compiled.takeError();
  auto tiles = pipeline::emitTiles(**module, compileOptions);
  if (!tiles)
    return tiles.takeError();
  schedule::TileProgram &program = tiles->network.tiles;
  if (Result<bool> done = schedule::synchronize(program, machine); !done)
    return llvm::createStringError(done.message());
  std::vector<Code> straight = schedule::codeOf(program), rolled = schedule::reroll(program, machine);
  auto [before, stores] = executed(straight);
  if (executed(rolled).first != before)
    return llvm::createStringError(model + ": rerolled code executes something else");
  auto cyclesBefore = cycles(compiled->program, straight, machine);
  if (!cyclesBefore)
    return cyclesBefore.takeError();
  auto cyclesAfter = cycles(compiled->program, rolled, machine);
  if (!cyclesAfter)
    return cyclesAfter.takeError();
  llvm::StringRef name(model);
  if (name.consume_back("/model.onnx") || name.consume_back(".onnx"))
    name = name.rsplit('/').second.empty() ? name : name.rsplit('/').second;
  rows.push_back({name.str(), std::to_string(stores), std::to_string(schedule::wordsOf(straight)),
                  std::to_string(schedule::wordsOf(rolled)), std::to_string(*cyclesBefore), std::to_string(*cyclesAfter)});
  if (!options.layers)
    return llvm::Error::success();
  size_t count = compiled->program.layers.size();
  std::vector<std::array<uint64_t, 3>> sums(count);
  for (const Code &c : straight)
    sums[c.layer][1] += schedule::wordsOf({c});
  for (const Code &c : rolled)
    sums[c.layer][2] += schedule::wordsOf({c});
  schedule::execute(rolled, [&](const isa::Instruction &instruction, uint32_t layer) {
    sums[layer][0] += instruction.opcode() == isa::Opcode::Store;
  });
  for (size_t i = 0; i < count; ++i)
    rows.push_back({"  " + compiled->program.layers[i].name, std::to_string(sums[i][0]), std::to_string(sums[i][1]),
                    std::to_string(sums[i][2]), "", ""});
  return llvm::Error::success();
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Words of code and simulated cycles of networks, as tiles are written out and as hardware loops repeat them",
               "tilewright-code-size");
  Options options;
  app.add_option("MACHINE", options.machine, "a shipped machine or a YAML file")->required();
  app.add_option("MODEL", options.models, "ONNX files, or kernels as gemm:MxNxK:TYPE and conv:...")->required();
  app.add_option("--shape", options.shapes, "NAME=DIMS: shape of an input with dynamic dimensions")->take_all()->expected(1);
  app.add_option("--schedule", options.schedule, "how tiles follow one another")
      ->check(CLI::IsMember({"serial", "double_buffer", "pipelined"}));
  app.add_flag("--layers", options.layers, "also each layer");
  app.add_flag("--markdown", options.markdown, "print Markdown tables");
  CLI11_PARSE(app, argc, argv);
  auto run = [&]() -> llvm::Error {
    Result<timing::MachineParams> machine = hwconfigs::loadMachine(options.machine);
    if (!machine)
      return llvm::createStringError(machine.message());
    pipeline::CompileOptions compileOptions;
    compileOptions.machine = &*machine;
    compileOptions.schedule = options.schedule == "serial"      ? accel::Schedule::Serial
                              : options.schedule == "pipelined" ? accel::Schedule::Pipelined
                                                                : accel::Schedule::DoubleBuffer;
    for (const std::string &text : options.shapes) {
      auto [name, list] = llvm::StringRef(text).rsplit('=');
      llvm::SmallVector<llvm::StringRef> parts;
      llvm::SplitString(list, parts, "x,");
      for (llvm::StringRef part : parts) {
        int64_t dim = 0;
        if (part.getAsInteger(10, dim) || dim < 1 || name.empty())
          return llvm::createStringError("--shape " + text + " must be NAME=DIMS, as in x=1,3,224,224");
        compileOptions.import.shapes[name.str()].push_back(dim);
      }
    }
    std::vector<Row> rows = {{"model", "tiles stored", "words straight", "words rolled", "cycles straight", "cycles rolled"}};
    for (const std::string &model : options.models)
      if (llvm::Error error = measure(model, compileOptions, options, rows))
        return error;
    print(rows, options.markdown);
    return llvm::Error::success();
  };
  llvm::Error error = run();
  if (!error)
    return 0;
  llvm::errs() << "tilewright-code-size: " << llvm::toString(std::move(error)) << "\n";
  return 1;
}
