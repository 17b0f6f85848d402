//===- Session.cpp - Compile once, run many inputs ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Session.h"
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/operators/Elements.h"
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
  energy::EventTable all = *events;
  all.append(report.partEvents);
  report.energy = energyModel->report(all, *report.sim);
  report.energy->isDefaultTechnology = asked.empty();
  return {};
}

/// Outputs that the program writes at the place of an input, with its name.
static std::map<std::string, std::string> aliasesOf(const Network &network) {
  std::map<std::string, std::string> aliases;
  if (network.steps.size() != 1 || !network.steps.front().program)
    return aliases;
  const isa::Program &program = *network.steps.front().program;
  for (const isa::TensorInfo &output : program.outputs)
    for (const isa::TensorInfo &input : program.inputs)
      if (output.bytes && output.address == input.address)
        aliases[output.name] = input.name;
  return aliases;
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
  report.peak = loaded.peak;
  report.tiles = loaded.tiles;
  report.layerReads = loaded.layerReads;
  report.groups = loaded.groups;
  report.aliases = aliasesOf(loaded);
  report.targets = loaded.targets;
  report.offload = loaded.offload;
  report.openCl = loaded.openCl;
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

/// Adds what a part of a run came to, which was a run of its own.
static void absorb(RunReport &all, RunReport &part) {
  auto sum = [](auto &to, const auto &more) {
    if (more)
      to = to.value_or(0) + *more;
  };
  const bool isCounted = all.layerTraffic.size() == all.layers.size() && part.layerTraffic.size() == part.layers.size();
  const bool isTiled = all.tiles.size() == all.layers.size() && part.tiles.size() == part.layers.size();
  for (auto [first, last] : part.groups)
    all.groups.push_back({all.layers.size() + first, all.layers.size() + last});
  all.layerTraffic.insert(all.layerTraffic.end(), part.layerTraffic.begin(), part.layerTraffic.end());
  all.tiles.insert(all.tiles.end(), part.tiles.begin(), part.tiles.end());
  if (!isCounted)
    all.layerTraffic.clear();
  if (!isTiled)
    all.tiles.clear();
  // Numbers of layers and kernels are those of one compilation.
  all.layerReads.clear();
  for (FallbackReport::Call &call : all.fallback.calls)
    call.reads.clear();
  all.layers.insert(all.layers.end(), part.layers.begin(), part.layers.end());
  all.programs += part.programs;
  all.boundBy = all.programs == 1 ? part.boundBy : "sum of " + std::to_string(all.programs) + " programs";
  sum(all.macs, part.macs);
  sum(all.lowerBoundCycles, part.lowerBoundCycles);
  sum(all.layerSerialCycles, part.layerSerialCycles);
  sum(all.lowerBoundBytes, part.lowerBoundBytes);
  all.simulateSeconds += part.simulateSeconds;
  if (part.sim && all.sim)
    append(*all.sim, *part.sim);
  else if (part.sim)
    all.sim = std::move(part.sim);
  all.fallback.kernels += part.fallback.kernels;
  all.fallback.macs += part.fallback.macs;
  all.fallback.seconds += part.fallback.seconds;
  all.fallback.hostCycles += part.fallback.hostCycles;
  all.fallback.crossings += part.fallback.crossings;
  all.fallback.hostLinkBytes += part.fallback.hostLinkBytes;
  all.fallback.linkCycles += part.fallback.linkCycles;
  all.timeline.insert(all.timeline.end(), part.timeline.begin(), part.timeline.end());
  for (const std::string &device : part.fallback.devices)
    if (!llvm::is_contained(all.fallback.devices, device))
      all.fallback.devices.push_back(device);
  for (const Offload &node : part.offload) {
    auto known = llvm::find_if(all.offload, [&](const Offload &other) { return other.node == node.node; });
    if (known == all.offload.end())
      all.offload.push_back(node); // of a graph in a node
    else if (node.target != "folded")
      *known = {node.node, node.target, node.reason, node.fellBack, known->hostLinkBytes + node.hostLinkBytes};
  }
}

void Session::attach(operators::Evaluator &evaluated, RunReport &report, RunReport &partsReport) {
  evaluated.observe([&](const onnx::NodeProto &node, uint64_t bytes, const std::vector<operators::Shape> &read,
                        const std::vector<operators::Shape> &computed) {
    const std::string name = !node.name().empty() ? node.name() : node.output_size() ? node.output(0) : node.op_type();
    report.fallback.macs += pipeline::macsOf(node, read, computed);
    addHostTime(name, bytes, hostCycles(loaded.machine.host, bytes, pipeline::operationsOf(node, read, computed)), report);
  });
  if (loaded.options && !loaded.options->machine.empty() && loaded.options->targets.empty())
    evaluated.offerTo([&](const onnx::GraphProto &graph, const std::map<std::string, int64_t> &opsets,
                          const std::vector<std::pair<std::string, operators::Value>> &known) {
      return runPart(graph, opsets, known, partsReport);
    });
}

static void detachFrom(operators::Evaluator &evaluated) {
  evaluated.observe(nullptr);
  evaluated.offerTo(nullptr);
}

StatusOr<Launch> Session::runWithGraphs(const Step &step, operators::Evaluator &graphs, const std::vector<HostTensor> &inputs,
                                        RunReport &report, RunReport &partsReport) {
  attach(graphs, report, partsReport);
  const auto detach = llvm::make_scope_exit([&] { detachFrom(graphs); });
  const double before = partsReport.compileSeconds + partsReport.simulateSeconds;
  StatusOr<Launch> launch = runFallback(step, inputs);
  if (launch)
    launch->wallSeconds -= partsReport.compileSeconds + partsReport.simulateSeconds - before;
  // In its place between the other steps.
  report.timeline.insert(report.timeline.end(), partsReport.timeline.begin(), partsReport.timeline.end());
  partsReport.timeline.clear();
  return launch;
}

Status Session::runSteps(std::vector<HostTensor> &values, RunReport &report) {
  RunReport partsReport; // absorbed behind the layers and groups of the steps, which have their numbers already
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
    if (step.openCl && !step.device)
      return internalError("a run of kernels for OpenCL was placed on no device");
    addCrossings(estimates[i], report);
    operators::Evaluator *graphs = step.library ? step.library->evaluatorOf(step.kernel) : nullptr;
    StatusOr<Launch> launch = devices[i]    ? devices[i]->launch(arguments)
                              : step.device ? step.device->launch(arguments)
                              : graphs      ? runWithGraphs(step, *graphs, arguments, report, partsReport)
                                            : runFallback(step, arguments);
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
      if (step.device && report.openCl)
        report.openCl->seconds += launch->wallSeconds;
      if (graphs)
        continue;
      report.fallback.macs += step.macs;
      addHostTime(step.nodes.empty() ? step.kernel : llvm::join(step.nodes, ", "), estimates[i].bytes, estimates[i].cycles,
                  report);
      continue;
    }
    ++report.programs;
    report.simulateSeconds += launch->wallSeconds;
    report.layers.insert(report.layers.end(), step.program->layers.begin(), step.program->layers.end());
    if (!launch->sim)
      continue;
    if (options.trace && (options.isPart || !loaded.isOneProgram()))
      report.timeline.push_back({stats::TimelineStep::Kind::Program, std::make_shared<const isa::Program>(*step.program),
                                 std::make_shared<const stats::SimResult>(*launch->sim), "", 0, 0});
    if (report.sim)
      append(*report.sim, *launch->sim);
    else
      report.sim = std::move(launch->sim);
  }
  if (partsReport.programs + partsReport.fallback.kernels == 0)
    return {};
  report.compileSeconds += partsReport.compileSeconds;
  report.partEvents.append(partsReport.partEvents);
  absorb(report, partsReport);
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

/// Whether the value of input `name` decides shapes of some node's results.
static bool decidesShapes(const onnx::GraphProto &graph, const std::string &name) {
  for (const onnx::NodeProto &node : graph.node())
    if (const operators::Operator *op = operators::find(node.domain(), node.op_type()))
      for (unsigned input : op->shapeInputs)
        if (int(input) < node.input_size() && node.input(int(input)) == name)
          return true;
  return false;
}

std::optional<std::vector<operators::Value>>
Session::runPart(const onnx::GraphProto &graph, const std::map<std::string, int64_t> &opsets,
                 const std::vector<std::pair<std::string, operators::Value>> &inputs, RunReport &report) {
  constexpr size_t kMostParts = 64; // a part whose shapes change with every run is evaluated
  std::string key = std::to_string(reinterpret_cast<uintptr_t>(&graph));
  std::vector<operators::Value> arguments;
  std::vector<bool> isConstant;
  for (const auto &[name, value] : inputs) {
    if (value.form != operators::Value::Form::Tensor || frontend::isHostOnly(value.tensor->type) ||
        operators::countOf(*value.tensor) == 0)
      return std::nullopt;
    isConstant.push_back(value.tensor->type == ElementKind::I64 && operators::countOf(*value.tensor) <= 64 &&
                         decidesShapes(graph, name));
    key += ";" + std::to_string(int(value.tensor->type)) + operators::textOf(value.tensor->shape);
    if (isConstant.back())
      key += operators::textOf(operators::integersOf(*value.tensor));
    else
      arguments.push_back(value);
  }
  auto known = parts.find(key);
  if (known == parts.end()) {
    if (parts.size() >= kMostParts)
      return std::nullopt;
    onnx::ModelProto model;
    for (const auto &[domain, version] : opsets) {
      onnx::OperatorSetIdProto &opset = *model.add_opset_import();
      opset.set_domain(domain);
      opset.set_version(version);
    }
    *model.mutable_graph() = graph;
    model.mutable_graph()->clear_input();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const HostTensor &tensor = *inputs[i].second.tensor;
      if (isConstant[i]) {
        *model.mutable_graph()->add_initializer() = frontend::encodeTensor(tensor, inputs[i].first);
        continue;
      }
      onnx::ValueInfoProto &input = *model.mutable_graph()->add_input();
      input.set_name(inputs[i].first);
      onnx::TypeProto::Tensor &type = *input.mutable_type()->mutable_tensor_type();
      type.set_elem_type(frontend::onnxTypeOf(tensor.type));
      type.mutable_shape();
      for (int64_t dim : tensor.shape)
        type.mutable_shape()->add_dim()->set_dim_value(dim);
    }
    SessionOptions asked{*loaded.options, options};
    asked.simulator.isPart = true;
    asked.network.modelBytes = std::make_shared<const std::string>(model.SerializeAsString());
    asked.network.import.shapes.clear();
    asked.network.import.constants.clear();
    asked.network.import.values.clear();
    asked.network.import.given.clear();
    StatusOr<std::unique_ptr<Session>> session = create(loaded.model, asked);
    // Without work for the accelerator it is evaluated where it stands.
    const bool isWorth = session && ((*session)->loaded.runsOnAccelerator() || (*session)->loaded.remainder);
    if (isWorth)
      report.compileSeconds += (*session)->loaded.compileSeconds;
    known = parts.emplace(key, isWorth ? std::move(*session) : nullptr).first;
  }
  if (!known->second)
    return std::nullopt;
  StatusOr<RunReport> part = known->second->runValues(arguments);
  if (!part)
    throw operators::Error{part.error().message};
  std::vector<operators::Value> results = std::move(part->values);
  if (results.empty())
    for (HostTensor &tensor : part->outputs)
      results.emplace_back(std::move(tensor));
  if (known->second->events)
    report.partEvents.append(*known->second->events);
  report.partEvents.append(part->partEvents);
  absorb(report, *part);
  return results;
}

Status Session::runRemainder(const std::vector<operators::Value> &inputs, std::vector<HostTensor> results, RunReport &report) {
  const frontend::Remainder &rest = loaded.remainder;
  std::map<std::string, operators::Value> known;
  for (size_t i = 0; i < rest.inputs.size(); ++i)
    known[rest.inputs[i].name] = inputs[i];
  for (size_t i = 0; i < rest.results.size(); ++i)
    known[rest.results[i]] = operators::Value(std::move(results[i]));
  addCrossings(estimates.back(), report);
  attach(*evaluator, report, report);
  const auto detach = llvm::make_scope_exit([&] { detachFrom(*evaluator); });
  const auto begin = std::chrono::steady_clock::now();
  const double compiled = report.compileSeconds, simulated = report.simulateSeconds;
  std::map<std::string, operators::Value> made;
  try {
    made = evaluator->run(known);
  } catch (const operators::Error &error) {
    return userError(loaded.model + ": " + error.message);
  }
  const double others = report.compileSeconds - compiled + report.simulateSeconds - simulated;
  report.fallback.seconds +=
      std::max(0.0, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() - others);
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
  return runValues(values);
}

StatusOr<RunReport> Session::runValues(const std::vector<operators::Value> &inputs) {
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
