//===- Session.cpp - Compile once, run many inputs ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Session.h"
#include "compiler/pipeline/KernelOperations.h"
#include "compiler/pipeline/Target.h"
#include "isa/Printable.h"
#include "runtime/ReportRules.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"

#include <onnx/onnx_pb.h>

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
  if (loaded.remainder) {
    auto specs = [](const std::vector<frontend::Remainder::Port> &ports) {
      std::vector<TensorSpec> specs;
      for (const frontend::Remainder::Port &port : ports)
        specs.push_back({printable(port.name), port.kind.value_or(ElementKind::F32), port.shape});
      return specs;
    };
    inputSpecs = specs(loaded.remainder.inputs);
    outputSpecs = specs(loaded.remainder.outputs);
    for (size_t i = 0, argument = 0; i < inputSpecs.size(); ++i)
      if (loaded.remainder.inputs[i].isMain)
        inputSpecs[i] = loaded.values[loaded.inputs[argument++]];
    evaluator = std::make_unique<operators::Evaluator>(loaded.remainder.model, loaded.remainder.folder);
  } else {
    for (unsigned value : loaded.inputs)
      inputSpecs.push_back(loaded.values[value]);
    for (unsigned value : loaded.outputs)
      outputSpecs.push_back(loaded.values[value]);
  }
  estimates = estimateSteps(loaded);
  addLinkBytes(loaded.offload, estimates);
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
    return compilerError(llvm::toString(std::move(error)), loaded.model);
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

RunReport Session::emptyReport() const {
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
  report.groups = loaded.groups;
  report.targets = loaded.targets;
  report.offload = loaded.offload;
  report.compileSeconds = loaded.compileSeconds;
  return report;
}

void Session::addCrossings(const StepEstimate &estimate, RunReport &report) const {
  for (const Crossing &crossing : estimate.crossings) {
    ++report.fallback.crossings;
    report.fallback.hostLinkBytes += crossing.bytes;
    report.fallback.linkCycles += crossing.cycles;
    if (options.trace)
      report.timeline.push_back({stats::TimelineStep::Kind::Link, nullptr, nullptr,
                                 (crossing.toHost ? "to the host for " : "to the accelerator from ") + crossing.node,
                                 crossing.cycles, crossing.bytes});
  }
}

void Session::addHostTime(const std::string &name, uint64_t bytes, uint64_t cycles, RunReport &report) const {
  report.fallback.hostCycles += cycles;
  if (options.trace)
    report.timeline.push_back({stats::TimelineStep::Kind::Host, nullptr, nullptr, name, cycles, bytes});
}

Status Session::runSteps(std::vector<HostTensor> &values, RunReport &report) {
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
    addCrossings(estimates[i], report);
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
      addHostTime(step.nodes.empty() ? step.kernel : llvm::join(step.nodes, ", "), estimates[i].bytes, estimates[i].cycles,
                  report);
      continue;
    }
    ++report.programs;
    report.simulateSeconds += launch->wallSeconds;
    report.layers.insert(report.layers.end(), step.program->layers.begin(), step.program->layers.end());
    if (!launch->sim)
      continue;
    if (options.trace && (loaded.steps.size() > 1 || loaded.remainder))
      report.timeline.push_back({stats::TimelineStep::Kind::Program, std::make_shared<const isa::Program>(*step.program),
                                 std::make_shared<const stats::SimResult>(*launch->sim), "", 0, 0});
    if (report.sim)
      append(*report.sim, *launch->sim);
    else
      report.sim = std::move(launch->sim);
  }
  return {};
}

/// Tensors of `value`, named after `name`.
static void flatten(const operators::Value &value, const std::string &name, std::vector<HostTensor> &tensors) {
  if (value.form == operators::Value::Form::Tensor) {
    tensors.push_back(*value.tensor);
    tensors.back().name = name;
  } else if (value.form == operators::Value::Form::Sequence) {
    for (size_t i = 0; i < value.sequence->size(); ++i)
      flatten((*value.sequence)[i], name + "[" + std::to_string(i) + "]", tensors);
  }
}

Status Session::runRemainder(const std::vector<operators::Value> &inputs, std::vector<HostTensor> results, RunReport &report) {
  const frontend::Remainder &rest = loaded.remainder;
  std::map<std::string, operators::Value> known;
  for (size_t i = 0; i < rest.inputs.size(); ++i)
    known[rest.inputs[i].name] = inputs[i];
  for (size_t i = 0; i < rest.results.size(); ++i)
    known[rest.results[i]] = operators::Value(std::move(results[i]));
  addCrossings(estimates.back(), report);
  evaluator->observe([&](const onnx::NodeProto &node, uint64_t bytes, const std::vector<operators::Shape> &read,
                         const std::vector<operators::Shape> &computed) {
    const std::string name = !node.name().empty() ? node.name() : node.output_size() ? node.output(0) : node.op_type();
    addHostTime(name, bytes, hostCycles(loaded.machine.host, bytes, pipeline::operationsOf(node, read, computed)),
                report);
  });
  const auto forget = llvm::make_scope_exit([&] { evaluator->observe(nullptr); });
  const auto begin = std::chrono::steady_clock::now();
  std::map<std::string, operators::Value> made;
  try {
    made = evaluator->run(known);
  } catch (const operators::Error &error) {
    return userError(loaded.model + ": " + error.message);
  }
  report.fallback.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  report.fallback.kernels += rest.nodes.size();
  if (const std::string device = pipeline::targetNamed(graph::kCpuTarget)->device().str();
      !llvm::is_contained(report.fallback.devices, device))
    report.fallback.devices.push_back(device);
  for (const frontend::Remainder::Port &port : rest.outputs) {
    report.values.push_back(port.isMain ? known[port.name] : made[port.name]);
    flatten(report.values.back(), printable(port.name), report.outputs);
  }
  return {};
}

StatusOr<RunReport> Session::run(const std::vector<HostTensor> &inputs) {
  std::vector<operators::Value> values;
  for (const HostTensor &tensor : inputs)
    values.emplace_back(tensor);
  return run(values);
}

StatusOr<RunReport> Session::run(const std::vector<operators::Value> &inputs) {
  if (inputs.size() != inputSpecs.size())
    return userError(std::to_string(inputs.size()) + " inputs given but the network takes " +
                     std::to_string(inputSpecs.size()));
  std::vector<HostTensor> values(loaded.values.size());
  std::vector<operators::Value> fitted = inputs;
  for (size_t i = 0, argument = 0; i < inputs.size(); ++i) {
    const frontend::Remainder::Port *port = loaded.remainder ? &loaded.remainder.inputs[i] : nullptr;
    if (port && !port->kind)
      continue; // the evaluator looks at it
    if (inputs[i].form != operators::Value::Form::Tensor)
      return userError("input '" + inputSpecs[i].name + "' is no tensor, but the network takes one");
    StatusOr<HostTensor> tensor = fitTo(*inputs[i].tensor, inputSpecs[i]);
    if (!tensor)
      return tensor.error();
    if (loaded.remainder)
      fitted[i] = operators::Value(*tensor);
    if (!port || port->isMain)
      values[loaded.inputs[argument++]] = toStored(std::move(*tensor), inputSpecs[i]);
  }

  RunReport report = emptyReport();
  if (Status status = runSteps(values, report); !status)
    return status.error();
  std::vector<HostTensor> results;
  for (unsigned value : loaded.outputs)
    results.push_back(fromStored(values[value], loaded.values[value]));
  if (!loaded.remainder)
    report.outputs = std::move(results);
  else if (Status status = runRemainder(fitted, std::move(results), report); !status)
    return status.error();
  if (report.sim)
    if (Status status = addEnergy(report); !status)
      return status.error();
  // Tests look at every report that is made.
  if (std::getenv("TILEWRIGHT_CHECK_REPORTS"))
    if (std::vector<std::string> wrong = contradictions(toJson(report, {})); !wrong.empty())
      return internalError("the report contradicts itself: " + llvm::join(wrong, "; "));
  return report;
}
