//===- NodeConformance.cpp - ONNX's node tests on every target ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// node-conformance FOLDER [--target host|cpu|accel|gpu|opencl] [--inputs run|exported|constant] [--shard I/N] [--only TEXT]...
//                  [--float-machine M] [--integer-machine M] [--schedule NAME]
//
// Runs the node tests in FOLDER as `tilewright run` would, on random places of a hash in N shards, and prints a line of JSON for each that
// fails, then the counts. Random outputs are compared by type, shape and range. host: compiler/operators alone, no compiled code. Inputs are
// given when the network runs; `exported`: those whose values decide shapes are constants, as exporters write them; `constant`: all but the
// first are. gpu: on the emulator of PTX; opencl: on the first device, with the CPU for what only the host evaluates. A test that gpu has no
// code for is counted, and no failure.
// Exit status 1 if FOLDER holds no test.
//===----------------------------------------------------------------------===//
#include "compiler/operators/Elements.h"
#include "compiler/operators/Evaluator.h"
#include "runtime/OpenClDevice.h"
#include "runtime/Session.h"
#include "tests/conformance/NodeTests.h"
#include "tests/gpu/EmulatedNetwork.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

using namespace tw;
using namespace tw::conformance;
using operators::Value;

namespace {

struct Arguments {
  std::string folder, target = "host", inputs = "run", floatMachine = "gemmini_16x16_fp32",
                      integerMachine = "gemmini_16x16_int8", schedule = "pipelined";
  std::vector<std::string> only;
  unsigned shard = 0, shards = 1;
};

/// Inputs of the graph that some node reads as one whose value decides shapes.
std::set<std::string> shapeInputsOf(const onnx::GraphProto &graph) {
  std::set<std::string> names;
  for (const onnx::NodeProto &node : graph.node())
    if (const operators::Operator *op = operators::find(node.domain(), node.op_type()))
      for (unsigned input : op->shapeInputs)
        if (int(input) < node.input_size())
          names.insert(node.input(int(input)));
  return names;
}

bool isTensor(const Value &value) { return value.form == Value::Form::Tensor; }

/// What the test runs: its model, some inputs turned into constants, and what is left of its inputs.
std::vector<Value> bind(NodeTest &test, const std::string &which) {
  std::vector<Value> left;
  onnx::GraphProto &graph = *test.model.mutable_graph();
  const std::set<std::string> shapes = shapeInputsOf(graph);
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> inputs;
  inputs.Swap(graph.mutable_input());
  for (int i = 0; i < inputs.size(); ++i) {
    const Value &value = test.inputs[size_t(i)];
    const bool isInitializer = std::any_of(graph.initializer().begin(), graph.initializer().end(),
                                           [&](const onnx::TensorProto &tensor) { return tensor.name() == inputs[i].name(); });
    if (isInitializer && value.form == Value::Form::Empty) // as models of IR version 3 have them
      continue;
    const bool isConstant =
        isTensor(value) && (which == "constant" ? i > 0 : which == "exported" && shapes.count(inputs[i].name()));
    if (isConstant) {
      *graph.add_initializer() = protoOf(*value.tensor, inputs[i].name());
      continue;
    }
    left.push_back(value);
    graph.add_input()->Swap(&inputs[i]);
  }
  return left;
}

/// Whether a tensor of the test has 8 bits: such tests are for a machine that multiplies them.
bool isOfBytes(const NodeTest &test) {
  bool isBytes = false;
  for (const std::vector<Value> *values : {&test.inputs, &test.outputs})
    for (const Value &value : *values)
      isBytes |= isTensor(value) &&
                 (value.tensor->type == frontend::ElementKind::I8 || value.tensor->type == frontend::ElementKind::U8);
  return isBytes;
}

std::vector<Value> runOnHost(const NodeTest &test, std::vector<Value> inputs) {
  return operators::Evaluator(test.model, test.folder).run(std::move(inputs));
}

/// The network on the first device of OpenCL, with the CPU for what only the host evaluates.
runtime::StatusOr<std::unique_ptr<runtime::Session>> sessionOnOpenCl(const std::string &model,
                                                                     runtime::NetworkOptions options) {
  static const auto loader = runtime::opencl::Loader::open();
  if (!loader) {
    fprintf(stderr, "node-conformance: %s\n", loader.error().message.c_str());
    exit(1);
  }
  const runtime::opencl::DeviceInfo &device = (*loader)->devices().front();
  options.targets = {"opencl", "cpu"};
  options.openClDevice = device.type;
  runtime::StatusOr<runtime::Network> network = runtime::loadNetwork(model, options);
  if (!network)
    return network.error();
  if (runtime::Status status = runtime::placeOnOpenCl(*network, *loader, device); !status)
    return status.error();
  return std::make_unique<runtime::Session>(std::move(*network), runtime::SimulatorOptions());
}

std::vector<Value> runCompiled(const NodeTest &test, const std::vector<Value> &inputs, const Arguments &arguments,
                               bool &isOnTarget) {
  runtime::SessionOptions options;
  options.network.modelBytes = std::make_shared<const std::string>(test.model.SerializeAsString());
  options.network.schedule = arguments.schedule;
  if (arguments.target == "cpu")
    options.network.targets = {"cpu"};
  else if (arguments.target == "accel")
    options.network.machine = isOfBytes(test) ? arguments.integerMachine : arguments.floatMachine;
  for (int i = 0; i < test.model.graph().input_size(); ++i)
    if (isTensor(inputs[size_t(i)]) && test.model.graph().input(i).type().has_tensor_type())
      options.network.import.shapes[test.model.graph().input(i).name()] = inputs[size_t(i)].tensor->shape;
  const std::string model = test.folder + "/model.onnx";
  auto session =
      arguments.target == "opencl" ? sessionOnOpenCl(model, options.network) : runtime::Session::create(model, options);
  if (!session)
    throw operators::Error{session.error().message};
  runtime::StatusOr<runtime::RunReport> report = (*session)->runValues(inputs);
  if (!report)
    throw operators::Error{report.error().message};
  isOnTarget = report->runsOnAccelerator() || (report->openCl && report->openCl->kernels);
  if (!report->values.empty())
    return report->values;
  std::vector<Value> outputs;
  for (frontend::HostTensor &tensor : report->outputs)
    outputs.emplace_back(std::move(tensor));
  return outputs;
}

/// What one test showed besides whether its values are right.
struct Outcome {
  bool isOnTarget = false; ///< a part of it at least is on the accelerator or on the device of OpenCL
  bool isRefused = false;  ///< the target has no code for it
};

using Bytes = std::vector<std::vector<uint8_t>>; ///< of inputs or outputs

/// On a target that has programs of whole networks: what `compile` makes of the model, by `execute`.
template <typename Compile, typename Execute>
std::vector<Value> runWhole(const NodeTest &test, const std::vector<Value> &inputs, Outcome &outcome, const Compile &compile,
                            const Execute &execute) {
  runtime::NetworkOptions options;
  options.modelBytes = std::make_shared<const std::string>(test.model.SerializeAsString());
  Bytes bytes;
  outcome.isRefused = true;
  for (int i = 0; i < test.model.graph().input_size(); ++i) {
    if (!isTensor(inputs[size_t(i)]))
      return {};
    options.import.shapes[test.model.graph().input(i).name()] = inputs[size_t(i)].tensor->shape;
    bytes.push_back(inputs[size_t(i)].tensor->bytes);
  }
  auto program = compile(test.folder + "/model.onnx", options);
  // A program for other types than the model's is one for other bytes, and one of less results was folded in part.
  if (!program || program->inputs.size() != bytes.size() || program->outputs.size() != test.outputs.size())
    return {};
  for (size_t i = 0; i < bytes.size(); ++i)
    if (test::bytesOf(program->inputs[i]) != bytes[i].size())
      return {};
  outcome.isRefused = false;
  const std::vector<gpu::Tensor> results = program->outputs;
  bytes = execute(std::move(*program), bytes);
  std::vector<Value> outputs;
  for (size_t i = 0; i < bytes.size(); ++i) {
    frontend::HostTensor tensor;
    tensor.type = test.outputs[i].tensor->type; // bytes do not say whether they have a sign
    tensor.shape = results[i].shape;
    tensor.bytes = std::move(bytes[i]);
    if (frontend::elementBytes(tensor.type) != gpu::bytesOf(results[i].element))
      throw operators::Error{std::string("output ") + std::to_string(i) + " is " + gpu::nameOf(results[i].element)};
    outputs.emplace_back(std::move(tensor));
  }
  return outputs;
}

std::vector<Value> runOnGpu(const NodeTest &test, const std::vector<Value> &inputs, Outcome &outcome) {
  return runWhole(
      test, inputs, outcome, [](const std::string &model, auto &options) { return runtime::compileOnGpu(model, options); },
      [](gpu::Program program, const Bytes &bytes) {
        try {
          return test::EmulatedNetwork(std::move(program)).run(bytes, 0, {});
        } catch (const std::exception &error) {
          throw operators::Error{error.what()};
        }
      });
}

std::string run(const std::string &name, const Arguments &arguments, Outcome &outcome) {
  try {
    NodeTest test = readTest(arguments.folder, name);
    std::vector<Value> inputs = bind(test, arguments.inputs);
    std::vector<Value> outputs = arguments.target == "host"  ? runOnHost(test, inputs)
                                 : arguments.target == "gpu" ? runOnGpu(test, inputs, outcome)
                                                             : runCompiled(test, inputs, arguments, outcome.isOnTarget);
    if (outcome.isRefused)
      return "";
    if (outputs.size() != test.outputs.size())
      return std::to_string(outputs.size()) + " outputs, expected " + std::to_string(test.outputs.size());
    const auto compare = isRandom(test.model) ? differenceOfDraws : difference;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (std::string text = compare(outputs[i], test.outputs[i]); !text.empty())
        return "output " + std::to_string(i) + ": " + text;
    return "";
  } catch (const operators::Error &error) {
    return error.message;
  }
}

/// FNV-1a: the same place on every host.
uint32_t hashOf(const std::string &text) {
  uint32_t hash = 2166136261u;
  for (unsigned char c : text)
    hash = (hash ^ c) * 16777619u;
  return hash;
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    auto value = [&]() -> std::string {
      if (i + 1 >= argc) {
        fprintf(stderr, "node-conformance: %s needs a value\n", word.c_str());
        exit(1);
      }
      return argv[++i];
    };
    if (word == "--target")
      arguments.target = value();
    else if (word == "--inputs")
      arguments.inputs = value();
    else if (word == "--only")
      arguments.only.push_back(value());
    else if (word == "--float-machine")
      arguments.floatMachine = value();
    else if (word == "--integer-machine")
      arguments.integerMachine = value();
    else if (word == "--schedule")
      arguments.schedule = value();
    else if (word == "--shard") {
      if (sscanf(value().c_str(), "%u/%u", &arguments.shard, &arguments.shards) != 2 || arguments.shard >= arguments.shards) {
        fprintf(stderr, "node-conformance: --shard is I/N, I from 0 to N - 1\n");
        return 1;
      }
    } else
      arguments.folder = word;
  }
  size_t passed = 0, all = 0, onTarget = 0, refused = 0;
  for (const std::string &name : testsIn(arguments.folder)) {
    bool isWanted = arguments.only.empty();
    for (const std::string &text : arguments.only)
      isWanted |= name.find(text) != std::string::npos;
    if (!isWanted || hashOf(name) % arguments.shards != arguments.shard)
      continue;
    ++all;
    Outcome outcome;
    const std::string problem = run(name, arguments, outcome);
    refused += outcome.isRefused;
    passed += problem.empty() && !outcome.isRefused;
    onTarget += problem.empty() && outcome.isOnTarget;
    if (!problem.empty())
      printf("%s\n", nlohmann::json{{"test", name}, {"problem", problem}}
                         .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                         .c_str());
    fflush(stdout);
  }
  printf("%s\n",
         nlohmann::json{{"tests", all}, {"passed", passed}, {"on_target", onTarget}, {"refused", refused}}.dump().c_str());
  return all ? 0 : 1;
}
