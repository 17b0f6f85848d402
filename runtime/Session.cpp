//===- Session.cpp - Compile once, run many inputs ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Session.h"
#include "compiler/pipeline/Target.h"
#include "runtime/ReportRules.h"

#include "llvm/ADT/StringExtras.h"

#include <chrono>
#include <cstdlib>

using namespace tw;
using namespace tw::runtime;

StatusOr<std::unique_ptr<Session>> Session::create(const std::string &model, const SessionOptions &options) {
  StatusOr<Network> network = loadNetwork(model, options.network);
  if (!network)
    return network.error();
  return std::make_unique<Session>(std::move(*network), options.simulator);
}

Session::Session(Network network, const SimulatorOptions &options) : loaded(std::move(network)), options(options) {
  for (unsigned value : loaded.inputs)
    inputSpecs.push_back(loaded.values[value]);
  for (unsigned value : loaded.outputs)
    outputSpecs.push_back(loaded.values[value]);
  for (Step &step : loaded.steps) {
    if (!step.program) {
      devices.push_back(nullptr);
      continue;
    }
    // The constants are the largest part of a program, and only the device needs them.
    std::vector<isa::Segment> constants = std::move(step.program->constants);
    step.program->constants.clear();
    isa::Program program = *step.program;
    program.constants = std::move(constants);
    devices.push_back(makeSimulatorDevice(std::move(program), loaded.machine, options));
  }
}

std::vector<HostTensor> Session::randomInputs(uint64_t seed) const { return randomTensors(inputSpecs, seed); }

StatusOr<Launch> Session::runFallback(const Step &step, const std::vector<HostTensor> &inputs) {
  Launch launch;
  for (unsigned value : step.outputs) {
    const TensorSpec &spec = loaded.values[value];
    launch.outputs.push_back({spec.name, spec.stored(), spec.shape, {}});
  }
  auto begin = std::chrono::steady_clock::now();
  if (llvm::Error error = step.library->run(step.kernel, inputs, launch.outputs))
    return internalError("kernel '" + step.kernel + "' on " + step.target->device().str() + ": " +
                         llvm::toString(std::move(error)));
  launch.wallSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return launch;
}

Status Session::addEnergy(RunReport &report) {
  const std::string asked = options.technology.empty() ? loaded.technology : options.technology;
  if (!energyModel) {
    Result<hwconfigs::Technology> technology = hwconfigs::loadTechnology(asked.empty() ? hwconfigs::kDefaultTechnology : asked);
    if (!technology)
      return asked.empty() ? Status() : Status(userError(technology.message()));
    energyModel.emplace(loaded.machine, *technology);
  }
  if (!events) {
    events.emplace();
    for (const Step &step : loaded.steps)
      if (step.program)
        events->append(energy::countEvents(*step.program, loaded.machine));
  }
  report.energy = energyModel->report(*events, *report.sim);
  report.energy->isDefaultTechnology = asked.empty();
  return {};
}

StatusOr<RunReport> Session::run(const std::vector<HostTensor> &inputs) {
  if (inputs.size() != inputSpecs.size())
    return userError(std::to_string(inputs.size()) + " inputs given but the network takes " +
                     std::to_string(inputSpecs.size()));
  std::vector<HostTensor> values(loaded.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    StatusOr<HostTensor> fitted = fitTo(inputs[i], inputSpecs[i]);
    if (!fitted)
      return fitted.error();
    values[loaded.inputs[i]] = toStored(std::move(*fitted), inputSpecs[i]);
  }

  RunReport report;
  report.model = loaded.model;
  report.schedule = loaded.schedule;
  report.choice = loaded.choice;
  report.simulator = options.model;
  report.machine = loaded.machine;
  report.precision = loaded.precision;
  report.macs = loaded.macs;
  report.lowerBoundCycles = loaded.lowerBoundCycles;
  report.boundBy = loaded.boundBy;
  report.layerSerialCycles = loaded.layerSerialCycles;
  report.lowerBoundBytes = loaded.lowerBoundBytes;
  report.layerTraffic = loaded.layerTraffic;
  report.tiles = loaded.tiles;
  report.layerReads = loaded.layerReads;
  report.groups = loaded.groups;
  report.targets = loaded.targets;
  report.offload = loaded.offload;
  report.compileSeconds = loaded.compileSeconds;
  for (size_t i = 0; i < loaded.steps.size(); ++i) {
    const Step &step = loaded.steps[i];
    std::vector<HostTensor> arguments;
    for (unsigned value : step.inputs)
      arguments.push_back(values[value]);
    if (!step.program && step.kernel.empty()) {
      HostTensor &output = values[step.outputs[0]];
      output = arguments[0];
      output.shape = loaded.values[step.outputs[0]].shape;
      continue;
    }
    StatusOr<Launch> launch = devices[i] ? devices[i]->launch(arguments) : runFallback(step, arguments);
    if (!launch)
      return launch.error();
    for (size_t j = 0; j < step.outputs.size(); ++j)
      values[step.outputs[j]] = std::move(launch->outputs[j]);
    if (!devices[i]) {
      ++report.fallback.kernels;
      if (const std::string device = step.target->device().str(); !llvm::is_contained(report.fallback.devices, device))
        report.fallback.devices.push_back(device);
      report.fallback.seconds += launch->wallSeconds;
      report.fallback.calls.push_back({step.kernel, step.target->title().str(), launch->wallSeconds, step.reads});
      for (const HostTensor &tensor : arguments)
        report.fallback.hostLinkBytes += tensor.bytes.size();
      for (unsigned value : step.outputs)
        report.fallback.hostLinkBytes += values[value].bytes.size();
      continue;
    }
    ++report.programs;
    report.simulateSeconds += launch->wallSeconds;
    report.layers.insert(report.layers.end(), step.program->layers.begin(), step.program->layers.end());
    if (!launch->sim)
      continue;
    if (report.sim)
      append(*report.sim, *launch->sim);
    else
      report.sim = std::move(launch->sim);
  }
  for (size_t i = 0; i < outputSpecs.size(); ++i)
    report.outputs.push_back(fromStored(values[loaded.outputs[i]], outputSpecs[i]));
  if (report.sim)
    if (Status status = addEnergy(report); !status)
      return status.error();
  // Tests look at every report that is made.
  if (std::getenv("TILEWRIGHT_CHECK_REPORTS"))
    if (std::vector<std::string> wrong = contradictions(toJson(report, {})); !wrong.empty())
      return internalError("the report contradicts itself: " + llvm::join(wrong, "; "));
  return report;
}
