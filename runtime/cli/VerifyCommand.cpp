//===- VerifyCommand.cpp - tilewright verify ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/cli/Cli.h"
#include "simulator/cosim/Compare.h"

#include <cstdio>

using namespace tw;
using namespace tw::cli;
using runtime::HostTensor;

namespace {

struct VerifyArguments {
  ModelArguments model;
  std::vector<std::string> inputs;
  uint64_t maxCycles = 0;
};

void print(const std::vector<cosim::Agreement> &agreements) {
  runtime::Table table({"program", "cycles", "instructions", "DRAM commands", "memory KiB", "SystemC kcycles/s", "MMAC/s",
                        "RTL kcycles/s", "MMAC/s"});
  for (size_t i = 0; i < agreements.size(); ++i) {
    const cosim::Agreement &agreement = agreements[i];
    auto rate = [](const cosim::Observation &model, uint64_t count, double unit) {
      return model.seconds > 0 ? runtime::fixed(double(count) / model.seconds / unit, 0) : "-";
    };
    auto cyclesRate = [&](const cosim::Observation &model) { return rate(model, model.result.totalCycles, 1e3); };
    auto macsRate = [&](const cosim::Observation &model) { return rate(model, model.result.macs, 1e6); };
    table.add({std::to_string(i), runtime::grouped(agreement.rtl.result.totalCycles),
               runtime::grouped(agreement.rtl.result.instructions.size()), runtime::grouped(agreement.rtl.commands.size()),
               runtime::grouped(agreement.memoryBytes / 1024), cyclesRate(agreement.systemc), macsRate(agreement.systemc),
               cyclesRate(agreement.rtl), macsRate(agreement.rtl)});
  }
  std::fputs(table.str().c_str(), stdout);
}

Status verify(const VerifyArguments &arguments) {
  StatusOr<std::vector<TensorArgument>> files = readTensorFiles(arguments.inputs);
  if (!files)
    return files.error();
  StatusOr<runtime::NetworkOptions> network = arguments.model.options(*files);
  if (!network)
    return network.error();
  Progress progress;
  std::vector<cosim::Agreement> agreements;
  runtime::SessionOptions options;
  options.network = *network;
  options.simulator.agreements = &agreements;
  options.simulator.maxCycles = arguments.maxCycles;
  options.simulator.progress = [&progress](const std::string &what) { progress.show(what); };
  progress.show("compiling " + arguments.model.model);
  StatusOr<std::unique_ptr<runtime::Session>> session = runtime::Session::create(arguments.model.model, options);
  progress.clear();
  if (!session)
    return session.error();
  printNotes((*session)->network().notes);
  if (Status status = requireAccelerator((*session)->network(), "there is nothing to verify"); !status)
    return status;
  StatusOr<std::vector<HostTensor>> inputs = fitInputs(std::move(*files), arguments.model.seed, (*session)->inputs());
  if (!inputs)
    return inputs.error();
  progress.show("simulating");
  StatusOr<runtime::RunReport> report = (*session)->run(*inputs);
  progress.clear();
  if (!report && (agreements.empty() || !agreements.back().difference.empty() || !agreements.back().rtl.result.fault ||
                  agreements.back().rtl.result.fault->kind == core::FaultKind::BadInput))
    return report.error();
  print(agreements);
  if (arguments.inputs.empty() && !(*session)->inputs().empty())
    std::printf("random inputs, seed %llu\n", static_cast<unsigned long long>(arguments.model.seed));
  if (!report)
    std::printf("both models stop: %s\n", agreements.back().rtl.result.fault->str().c_str());
  std::printf("SystemC and RTL agree: cycles, instructions, labels, memories, DRAM commands\n");
  return {};
}

} // namespace

void cli::addVerifyCommand(CLI::App &app, Action &action) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App *command =
      app.add_subcommand("verify", "run the SystemC model and the RTL side by side; they must agree in every cycle");
  arguments->model.addTo(*command);
  addRepeated(*command, "--input", arguments->inputs, "an input, .npy or .pb; in order, or by name")->type_name("[NAME=]FILE");
  command->add_option("--max-cycles", arguments->maxCycles, "stop with a fault after so many cycles")->check(wholeNumber());
  command->callback([arguments, &action] { action = [arguments] { return verify(*arguments); }; });
}
