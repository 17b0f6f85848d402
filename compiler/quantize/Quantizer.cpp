//===- Quantizer.cpp - Post-training quantisation of ONNX models ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/quantize/Quantizer.h"
#include "compiler/frontend/OnnxImport.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/quantize/OnnxGraph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>

using namespace tw;
using namespace tw::quantize;
using frontend::ElementKind;
using llvm::StringRef;

namespace {

enum class Role {
  Contraction, ///< convolution or matrix product on integers
  Window,      ///< pool: reads int8
  Movement,    ///< moves elements: int8 where its readers want it, with the scale of its input
  Elementwise, ///< shares a kernel with what made its input
  Other
};

/// source: the operators that graph-convert-qdq moves below dequantize, and graph::isElementwise
const std::set<std::string> kMovements = {"Reshape", "Flatten", "Squeeze",      "Unsqueeze",    "Transpose", "Slice",
                                          "Concat",  "MaxPool", "DepthToSpace", "SpaceToDepth", "Split",     "Expand"};
const std::set<std::string> kElementwise = {
    "Add",       "Sub",         "Mul", "Div",  "Relu", "Clip", "LeakyRelu", "PRelu", "Sigmoid", "Tanh",
    "HardSwish", "HardSigmoid", "Erf", "Gelu", "Exp",  "Sqrt", "Pow",       "Abs",   "Neg",     "BatchNormalization"};
const std::set<std::string> kContractions = {"Conv", "Gemm", "MatMul"};
const std::set<std::string> kQuantised = {"QuantizeLinear", "DequantizeLinear",   "DynamicQuantizeLinear",
                                          "ConvInteger",    "MatMulInteger",      "QLinearConv",
                                          "QLinearMatMul",  "QLinearAdd",         "QLinearMul",
                                          "QLinearConcat",  "QLinearAveragePool", "QLinearGlobalAveragePool",
                                          "QLinearSigmoid", "QLinearSoftmax"};

/// Scale and zero point of an 8-bit tensor.
struct Parameters {
  float scale = 1;
  int zeroPoint = 0; ///< of the tensor's type
  /// Names of the initializers that hold them.
  std::string scaleName, zeroPointName;
};

/// Scales stay far enough from the smallest float that the product of two is a normal number.
constexpr float kLeastScale = 0x1p-60f;

Parameters parametersOf(const Range &range, Form form) {
  const double least = form == Form::Fused ? -128 : 0;
  double low = std::min(range.low, 0.0f), high = std::max(range.high, 0.0f);
  Parameters parameters;
  parameters.scale = std::max(float((high - low) / 255.0), kLeastScale);
  parameters.zeroPoint = int(std::clamp(std::nearbyint(least - low / double(parameters.scale)), least, least + 255));
  return parameters;
}

} // namespace

struct Quantizer::Impl {
  Form form = Form::Fused;
  onnx::ModelProto model;
  TensorInfos infos;
  Summary summary;

  std::map<std::string, int> producers; ///< of results; inputs of the network have none
  std::map<std::string, std::vector<std::pair<int, int>>> readers;
  std::set<std::string> outputs;
  std::set<std::string> eightBit;     ///< inputs and outputs
  std::vector<std::string> quantised; ///< tensors, in the order of their making
  std::set<std::string> isQuantised;
  /// A tensor that shares its scale with another: a step towards the one that owns the group's.
  std::map<std::string, std::string> group;

  llvm::Error read(StringRef bytes, StringRef file, const Shapes &shapes);
  void connect();
  llvm::Error checkEightBit() const;
  void plan();
  std::string quantize(const Ranges &ranges);

  const onnx::NodeProto &node(int i) const { return model.graph().node(i); }
  Role roleOf(int i) const;
  bool isActivation(const std::string &name) const;
  bool isReadOnceBy(const std::string &name, int reader) const;
  /// Why a contraction stays float; empty if it does not.
  std::string reasonAgainst(const onnx::NodeProto &node, const GraphNames &names) const;
  std::map<int, std::string> reasons;
  std::set<int> zeroPads;
  bool wantsInt8(const std::string &name);
  std::map<std::string, bool> wanted;
  bool comesFromIntegers(const std::string &name) const;
  void roundSums();
  void joinResiduals();
  std::string &ownerOf(const std::string &name);
  void tie(const std::string &a, const std::string &b);
};

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static llvm::Error error(const llvm::Twine &text) { return llvm::createStringError(llvm::inconvertibleErrorCode(), text); }

/// What the importer makes of the network's inputs and of what nodes give, by name.
static llvm::Expected<TensorInfos> inferTypes(const onnx::ModelProto &model, StringRef file, const Shapes &shapes) {
  onnx::ModelProto exposed = model;
  onnx::GraphProto &graph = *exposed.mutable_graph();
  std::set<std::string> read;
  for (const onnx::NodeProto &node : graph.node())
    read.insert(node.input().begin(), node.input().end());
  for (const onnx::ValueInfoProto &output : graph.output())
    read.insert(output.name());
  std::set<std::string> seen;
  for (const onnx::ValueInfoProto &output : graph.output())
    seen.insert(output.name());
  auto expose = [&](const std::string &name) {
    if (!name.empty() && read.count(name) && seen.insert(name).second)
      graph.add_output()->set_name(name);
  };
  for (const onnx::ValueInfoProto &input : graph.input())
    expose(input.name());
  for (const onnx::NodeProto &node : graph.node())
    for (const std::string &output : node.output())
      expose(output);
  std::set<std::string> parameters;
  for (const onnx::NodeProto &node : graph.node())
    if (kReadsConstants.count(node.op_type()))
      parameters.insert(node.input().begin(), node.input().end());
  mlir::MLIRContext context;
  frontend::ImportOptions options;
  options.shapes = shapes;
  auto module = frontend::importOnnx(context, exposed.SerializeAsString(), file, options);
  if (!module)
    return module.takeError();
  auto function = (*module)->lookupSymbol<mlir::func::FuncOp>("main");
  TensorInfos infos;
  for (auto [i, value] : llvm::enumerate(function.getBody().front().getTerminator()->getOperands())) {
    auto type = llvm::cast<mlir::RankedTensorType>(value.getType());
    TensorInfo info;
    info.kind = type.getElementType().isF32() ? ElementKind::F32 : ElementKind::I64; // only whether it is float matters
    info.shape.assign(type.getShape().begin(), type.getShape().end());
    const std::string &name = graph.output(int(i)).name();
    info.isConstant = value.getDefiningOp<graph::ConstantOp>() != nullptr;
    if (info.isConstant && info.kind == ElementKind::F32 && parameters.count(name))
      info.values = graph::readFloats(graph::constantOf(value));
    infos[name] = std::move(info);
  }
  return infos;
}

llvm::Error Quantizer::Impl::read(StringRef bytes, StringRef file, const Shapes &shapes) {
  {
    // The importer's checks and messages.
    mlir::MLIRContext context;
    frontend::ImportOptions options;
    options.shapes = shapes;
    if (auto module = frontend::importOnnx(context, bytes, file, options); !module)
      return module.takeError();
  }
  if (!model.ParseFromArray(bytes.data(), int(bytes.size())))
    return error(file + ": not a valid ONNX model");
  for (const onnx::NodeProto &node : model.graph().node())
    if (kQuantised.count(node.op_type()))
      return error(file + ": " + nodeText(node) + ": the model is quantised already, expected a float model");
  for (const onnx::TensorProto &tensor : model.graph().initializer())
    if (tensor.data_type() == onnx::TensorProto::FLOAT16 || tensor.data_type() == onnx::TensorProto::BFLOAT16)
      return error(file + ": initializer \"" + tensor.name() +
                   "\" is of a 16-bit float type, expected float: convert the model to float32");
  auto types = inferTypes(model, file, shapes);
  if (!types)
    return types.takeError();
  infos = std::move(*types);
  materializeConstants(*model.mutable_graph(), infos);
  simplify(*model.mutable_graph());
  if (llvm::Error problem = upgradeOpset(model, infos))
    return error(file + ": " + llvm::toString(std::move(problem)));
  connect();
  if (llvm::Error problem = checkEightBit())
    return error(file + ": " + llvm::toString(std::move(problem)));
  plan();
  unsigned integer = 0;
  for (auto &entry : summary.integer)
    integer += entry.second;
  if (integer == 0) {
    std::string text;
    for (auto &[name, reason] : summary.floating)
      text += (text.empty() ? ": " : "; ") + name + ": " + reason;
    return error(file + ": nothing to quantise, expected a Conv, Gemm or MatMul that can compute on integers" + text);
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Deciding
//===----------------------------------------------------------------------===//

void Quantizer::Impl::connect() {
  for (int i = 0; i < model.graph().node_size(); ++i) {
    for (int j = 0; j < node(i).input_size(); ++j)
      if (!node(i).input(j).empty())
        readers[node(i).input(j)].emplace_back(i, j);
    for (const std::string &output : node(i).output())
      producers[output] = i;
  }
  for (const onnx::ValueInfoProto &output : model.graph().output())
    outputs.insert(output.name());
}

llvm::Error Quantizer::Impl::checkEightBit() const {
  for (const std::string &name : eightBit) {
    auto hasName = [&](const onnx::ValueInfoProto &value) { return value.name() == name; };
    if (!llvm::any_of(model.graph().input(), hasName) && !outputs.count(name))
      return error("tensor '" + name + "' is to be 8-bit, but the network has no such input or output");
    if (!isActivation(name))
      return error("tensor '" + name + "' is to be 8-bit, but is not a float tensor that is computed or given");
  }
  return llvm::Error::success();
}

/// A float tensor that the network's inputs decide.
bool Quantizer::Impl::isActivation(const std::string &name) const {
  auto info = infos.find(name);
  return info != infos.end() && info->second.kind == ElementKind::F32 && !info->second.isConstant;
}

bool Quantizer::Impl::isReadOnceBy(const std::string &name, int reader) const {
  auto found = readers.find(name);
  return found != readers.end() && found->second.size() == 1 && found->second[0].first == reader && !outputs.count(name);
}

std::string Quantizer::Impl::reasonAgainst(const onnx::NodeProto &node, const GraphNames &names) const {
  if (!isActivation(node.input(0)))
    return "its first operand is constant";
  bool isMatMul = node.op_type() == "MatMul";
  auto weights = names.floats(node.input(1));
  if (!weights && !(isMatMul && isActivation(node.input(1))))
    return "its weights are computed";
  for (float value : weights ? *weights : std::vector<float>())
    if (!std::isfinite(value))
      return "its weights are not finite";
  std::vector<int64_t> shape = weights ? names.shape(node.input(1)) : infos.at(node.input(1)).shape;
  if (isMatMul && (shape.size() < 2 || infos.at(node.input(0)).shape.size() < 2))
    return "an operand is a vector";
  if (node.op_type() == "Conv" && shape.size() > 4)
    return "only 1-D and 2-D convolutions are supported";
  if (isMatMul || node.input_size() < 3 || node.input(2).empty())
    return "";
  auto bias = names.floats(node.input(2));
  int64_t channels = shape[node.op_type() == "Gemm" && !intAttribute(node, "transB", 0) ? 1 : 0];
  if (!bias)
    return "its bias is computed";
  std::vector<int64_t> biasShape = names.shape(node.input(2));
  if (int64_t(bias->size()) != channels || biasShape.empty() || biasShape.back() != channels)
    return "its bias has not one number per output channel";
  if (!llvm::all_of(*bias, [](float value) { return std::isfinite(value); }))
    return "its bias is not finite";
  if (node.op_type() == "Gemm" && (floatAttribute(node, "alpha", 1) != 1 || floatAttribute(node, "beta", 1) != 1))
    return "alpha or beta is not 1";
  return "";
}

Role Quantizer::Impl::roleOf(int i) const {
  const std::string &type = node(i).op_type();
  if (!node(i).domain().empty() && node(i).domain() != "ai.onnx" && type != "Gelu")
    return Role::Other;
  if (kContractions.count(type))
    return reasons.count(i) ? Role::Other : Role::Contraction;
  if (type == "AveragePool" || type == "GlobalAveragePool")
    return Role::Window;
  if (kMovements.count(type))
    return type != "Concat" || llvm::all_of(node(i).input(), [&](const std::string &x) { return isActivation(x); })
               ? Role::Movement
               : Role::Other;
  if (zeroPads.count(i))
    return Role::Movement;
  return kElementwise.count(type) ? Role::Elementwise : Role::Other;
}

/// Whether an operator that computes on integers reads `name`, perhaps behind movements.
bool Quantizer::Impl::wantsInt8(const std::string &name) {
  auto known = wanted.find(name);
  if (known != wanted.end())
    return known->second;
  bool &wants = wanted[name] = false;
  if (!isActivation(name))
    return false;
  for (auto [reader, index] : readers[name]) {
    Role role = roleOf(reader);
    bool isData = index == 0 || node(reader).op_type() == "MatMul" || node(reader).op_type() == "Concat";
    if (!isData)
      continue;
    if (role == Role::Contraction || role == Role::Window || node(reader).op_type() == "MaxPool")
      wants = true;
    else if (role == Role::Movement)
      wants |= llvm::any_of(node(reader).output(), [&](const std::string &output) { return wantsInt8(output); });
  }
  return wanted[name];
}

/// Whether `name` is an input of the network, or made by an operator on integers, movements and operators element by
/// element aside.
bool Quantizer::Impl::comesFromIntegers(const std::string &name) const {
  auto producer = producers.find(name);
  if (producer == producers.end())
    return true;
  Role role = roleOf(producer->second);
  if (role != Role::Movement && role != Role::Elementwise)
    return role == Role::Contraction || role == Role::Window;
  for (const std::string &input : node(producer->second).input())
    if (isActivation(input))
      return comesFromIntegers(input);
  return false;
}

/// Form::Portable: what a convolution gives is 8-bit, and what an Add of 8-bit operands gives, behind the activation that follows.
void Quantizer::Impl::roundSums() {
  auto want = [&](std::string tensor) {
    // A Relu or Clip shares the rounding: saturation does its work.
    if (auto found = readers.find(tensor); found != readers.end() && found->second.size() == 1 && !outputs.count(tensor)) {
      const onnx::NodeProto &reader = node(found->second[0].first);
      if (found->second[0].second == 0 && (reader.op_type() == "Relu" || reader.op_type() == "Clip"))
        tensor = reader.output(0);
    }
    wanted[tensor] = isActivation(tensor);
  };
  // Nodes are in the order of execution: the operands of an Add are known.
  for (int i = 0; i < model.graph().node_size(); ++i) {
    const bool isConv = node(i).op_type() == "Conv" && roleOf(i) == Role::Contraction;
    const bool isAdd = node(i).op_type() == "Add" && roleOf(i) == Role::Elementwise && wantsInt8(node(i).input(0)) &&
                       wantsInt8(node(i).input(1));
    if (isConv || isAdd)
      want(node(i).output(0));
  }
}

/// The residual of an Add comes from memory: it is int8, unless it is the sum that the Add joins in one kernel.
void Quantizer::Impl::joinResiduals() {
  for (int i = 0; i < model.graph().node_size(); ++i) {
    if (node(i).op_type() != "Add" || roleOf(i) != Role::Elementwise || node(i).input(0) == node(i).input(1))
      continue;
    const std::string &a = node(i).input(0), &b = node(i).input(1);
    if (!isActivation(a) || !isActivation(b) || infos[a].shape != infos[b].shape)
      continue;
    // The later of two contractions can carry on with the Add.
    auto joins = [&](const std::string &name) {
      int at = -1;
      for (std::string tensor = name; isReadOnceBy(tensor, at < 0 ? i : at);) {
        auto producer = producers.find(tensor);
        if (producer == producers.end() || wantsInt8(tensor))
          return -1;
        at = producer->second;
        if (roleOf(at) == Role::Contraction)
          return at;
        if (roleOf(at) != Role::Elementwise)
          return -1;
        auto input = llvm::find_if(node(at).input(), [&](const std::string &x) { return isActivation(x); });
        tensor = input == node(at).input().end() ? "" : *input;
      }
      return -1;
    };
    int fromA = joins(a), fromB = joins(b);
    for (const std::string &name : {a, b}) {
      bool carries = name == a ? fromA > fromB : fromB > fromA;
      if (carries || !comesFromIntegers(name))
        continue;
      // What moves it moves int8, too.
      for (std::string tensor = name;;) {
        wanted[tensor] = isActivation(tensor);
        auto producer = producers.find(tensor);
        if (producer == producers.end() || roleOf(producer->second) != Role::Movement ||
            node(producer->second).op_type() == "Concat")
          break;
        tensor = node(producer->second).input(0);
      }
    }
  }
}

std::string &Quantizer::Impl::ownerOf(const std::string &name) {
  auto [found, isNew] = group.emplace(name, name);
  while (found->second != found->first)
    found = group.find(found->second);
  return found->second;
}

void Quantizer::Impl::tie(const std::string &a, const std::string &b) {
  std::string &owner = ownerOf(a);
  owner = ownerOf(b);
}

void Quantizer::Impl::plan() {
  GraphNames names(*model.mutable_graph());
  for (int i = 0; i < model.graph().node_size(); ++i) {
    if (node(i).op_type() == "Pad") {
      const onnx::AttributeProto *mode = findAttribute(node(i), "mode");
      auto value =
          node(i).input_size() > 2 && !node(i).input(2).empty() ? names.floats(node(i).input(2)) : std::vector<float>{0};
      if ((!mode || mode->s() == "constant") && value && *value == std::vector<float>{0})
        zeroPads.insert(i);
    }
    if (!kContractions.count(node(i).op_type()))
      continue;
    std::string reason = reasonAgainst(node(i), names);
    if (reason.empty()) {
      ++summary.integer[node(i).op_type()];
    } else {
      reasons[i] = reason;
      summary.floating.emplace_back(nodeText(node(i)), reason);
    }
  }
  for (const std::string &name : eightBit)
    wanted[name] = true;
  for (const auto &[name, info] : infos)
    wantsInt8(name);
  if (form == Form::Portable)
    roundSums();
  joinResiduals();
  auto take = [&](const std::string &name) {
    if (auto found = wanted.find(name); found != wanted.end() && found->second && isActivation(name)) {
      quantised.push_back(name);
      isQuantised.insert(name);
    }
  };
  for (const onnx::ValueInfoProto &input : model.graph().input())
    take(input.name());
  for (const onnx::NodeProto &each : model.graph().node())
    for (const std::string &output : each.output())
      take(output);
  summary.tensors = unsigned(quantised.size());
  for (int i = 0; i < model.graph().node_size(); ++i) {
    if (roleOf(i) != Role::Movement)
      continue;
    int inputs = node(i).op_type() == "Concat" ? node(i).input_size() : 1;
    for (const std::string &output : node(i).output())
      for (int j = 0; j < inputs; ++j)
        if (isQuantised.count(output) && isQuantised.count(node(i).input(j)))
          tie(node(i).input(j), output);
  }
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

namespace {

/// Builds the nodes of the quantised graph.
class Rewriter {
public:
  Rewriter(onnx::GraphProto &graph) : graph(graph), names(graph) {}

  onnx::NodeProto &append(const std::string &type, const std::string &name, const std::vector<std::string> &inputs,
                          const std::string &output) {
    onnx::NodeProto &node = *nodes.Add();
    node.set_op_type(type);
    node.set_name(names.fresh(name));
    for (const std::string &input : inputs)
      node.add_input(input);
    node.add_output(output);
    return node;
  }

  void quantize(const std::string &tensor, const std::string &value, const std::string &stored, const Parameters &parameters) {
    append("QuantizeLinear", tensor + "_QuantizeLinear", {value, parameters.scaleName, parameters.zeroPointName}, stored);
  }
  void dequantize(const std::string &tensor, const std::string &stored, const std::string &result,
                  const Parameters &parameters) {
    append("DequantizeLinear", tensor + "_DequantizeLinear", {stored, parameters.scaleName, parameters.zeroPointName}, result);
  }

  /// value -> QuantizeLinear -> DequantizeLinear -> result
  void quantizeDequantize(const std::string &tensor, const std::string &value, const std::string &result,
                          const Parameters &parameters) {
    std::string stored = names.fresh(tensor + "_quantized");
    quantize(tensor, value, stored, parameters);
    dequantize(tensor, stored, result, parameters);
  }

  /// A constant int8 or int32 tensor behind DequantizeLinear. `scales`: one, or one per index of dim `axis`.
  std::string dequantized(onnx::TensorProto stored, const std::string &tensor, const std::vector<float> &scales, int64_t axis) {
    stored.set_name(tensor + "_quantized");
    bool perChannel = scales.size() > 1;
    std::string scale = names.add(floatTensor(
        tensor + "_scale", perChannel ? std::vector<int64_t>{int64_t(scales.size())} : std::vector<int64_t>{}, scales));
    std::string result = names.fresh(tensor + "_dequantized");
    onnx::NodeProto &node =
        append("DequantizeLinear", tensor + "_DequantizeLinear", {names.add(std::move(stored)), scale}, result);
    if (perChannel)
      setAttribute(node, "axis", axis);
    return result;
  }

  onnx::GraphProto &graph;
  GraphNames names;
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
};

/// int8 weights, symmetric. `axis` names the output channels; -1: one scale for all.
struct Weights {
  std::vector<int8_t> values;
  std::vector<float> scales;
};

/// A scale must also leave room for the bias: |bias| <= scale * inputScale * 2^30.
Weights quantizeWeights(const std::vector<float> &values, const std::vector<int64_t> &shape, int64_t axis,
                        const std::vector<float> &bias, float inputScale) {
  int64_t channels = axis < 0 ? 1 : shape[size_t(axis)], stride = 1;
  for (size_t i = size_t(axis + 1); axis >= 0 && i < shape.size(); ++i)
    stride *= shape[i];
  auto channelOf = [&](size_t i) { return axis < 0 ? size_t(0) : size_t(int64_t(i) / stride % channels); };
  std::vector<float> most(size_t(channels), 0.0f);
  for (size_t i = 0; i < values.size(); ++i)
    most[channelOf(i)] = std::max(most[channelOf(i)], std::fabs(values[i]));
  Weights weights;
  for (size_t c = 0; c < most.size(); ++c)
    weights.scales.push_back(std::max(most[c] / 127.0f, kLeastScale));
  for (size_t c = 0; c < bias.size(); ++c) {
    float &scale = weights.scales[axis < 0 ? 0 : c];
    scale = std::max(scale, float(std::fabs(double(bias[c])) / inputScale * 0x1p-30));
  }
  for (size_t i = 0; i < values.size(); ++i)
    weights.values.push_back(
        int8_t(std::clamp(std::nearbyint(double(values[i]) / weights.scales[channelOf(i)]), -127.0, 127.0)));
  return weights;
}

/// The bias in units of inputScale * scales[c].
std::vector<int32_t> quantizeBias(const std::vector<float> &bias, const std::vector<float> &unit) {
  std::vector<int32_t> values;
  for (size_t c = 0; c < bias.size(); ++c) {
    double value = std::nearbyint(double(bias[c]) / unit[unit.size() == 1 ? 0 : c]);
    values.push_back(int32_t(std::clamp(value, -2147483647.0, 2147483647.0)));
  }
  return values;
}

} // namespace

std::string Quantizer::Impl::quantize(const Ranges &ranges) {
  onnx::GraphProto &graph = *model.mutable_graph();
  Rewriter rewriter(graph);
  GraphNames &names = rewriter.names;

  std::map<std::string, Range> groupRanges;
  for (const std::string &tensor : quantised) {
    assert(ranges.count(tensor) && "a range is missing");
    const Range &range = ranges.at(tensor);
    auto [entry, isNew] = groupRanges.emplace(ownerOf(tensor), range);
    entry->second.low = std::min(entry->second.low, range.low);
    entry->second.high = std::max(entry->second.high, range.high);
  }
  std::map<std::string, Parameters> groups;
  for (const auto &[owner, range] : groupRanges) {
    Parameters parameters = parametersOf(range, form);
    parameters.scaleName = names.add(floatTensor(owner + "_scale", {}, {parameters.scale}));
    const std::string zeroPoint = owner + "_zero_point";
    parameters.zeroPointName = names.add(form == Form::Fused ? int8Tensor(zeroPoint, {}, {int8_t(parameters.zeroPoint)})
                                                             : uint8Tensor(zeroPoint, {}, {uint8_t(parameters.zeroPoint)}));
    groups[owner] = parameters;
  }
  auto parametersFor = [&](const std::string &tensor) -> const Parameters & { return groups.at(ownerOf(tensor)); };
  auto rangeFor = [&](const std::string &tensor) -> const Range & { return groupRanges.at(ownerOf(tensor)); };

  // Inputs keep their names, so their readers get another one; results keep theirs behind DequantizeLinear.
  std::map<std::string, std::string> renamed;
  const auto storedType = form == Form::Fused ? onnx::TensorProto::INT8 : onnx::TensorProto::UINT8;
  for (onnx::ValueInfoProto &input : *graph.mutable_input())
    if (isQuantised.count(input.name())) {
      std::string result = names.fresh(input.name() + "_dequantized");
      if (eightBit.count(input.name())) {
        input.mutable_type()->mutable_tensor_type()->set_elem_type(storedType);
        rewriter.dequantize(input.name(), input.name(), result, parametersFor(input.name()));
      } else {
        rewriter.quantizeDequantize(input.name(), input.name(), result, parametersFor(input.name()));
      }
      renamed[input.name()] = result;
    }
  for (onnx::ValueInfoProto &output : *graph.mutable_output())
    if (eightBit.count(output.name()))
      output.mutable_type()->mutable_tensor_type()->set_elem_type(storedType);
  /// `tensor`, whose float form is `value`, as an 8-bit output keeps its name in front of DequantizeLinear.
  auto store = [&](const std::string &tensor, const std::string &value) {
    if (!eightBit.count(tensor) || !outputs.count(tensor))
      return rewriter.quantizeDequantize(tensor, value, tensor, parametersFor(tensor));
    rewriter.quantize(tensor, value, tensor, parametersFor(tensor));
    if (readers[tensor].empty())
      return;
    renamed[tensor] = names.fresh(tensor + "_dequantized");
    rewriter.dequantize(tensor, tensor, renamed[tensor], parametersFor(tensor));
  };

  /// The vector that the reader of `tensor`, the product `index`, adds to it; the Add's other operand.
  auto biasBehind = [&](int index, const std::vector<int64_t> &weightShape) -> std::pair<int, std::string> {
    const std::string &tensor = node(index).output(0);
    auto &uses = readers[tensor];
    if (uses.size() != 1 || outputs.count(tensor) || isQuantised.count(tensor) || node(uses[0].first).op_type() != "Add")
      return {-1, ""};
    const std::string &other = node(uses[0].first).input(1 - uses[0].second);
    auto values = names.floats(other);
    bool fits = values && weightShape.size() == 2 && int64_t(values->size()) == weightShape[1] && !names.shape(other).empty() &&
                names.shape(other).back() == weightShape[1] &&
                llvm::all_of(*values, [](float value) { return std::isfinite(value); });
    return fits ? std::pair(uses[0].first, other) : std::pair(-1, std::string());
  };
  std::map<int, std::pair<std::string, std::string>> biasOfAdd; // the operand, and what replaces it

  for (int i = 0; i < graph.node_size(); ++i) {
    onnx::NodeProto each = graph.node(i);
    const std::string type = each.op_type();
    // Saturation does the work of a Relu or Clip that ends where the quantised range ends.
    if (isQuantised.count(each.output(0)) && (type == "Relu" || type == "Clip") && each.output_size() == 1) {
      const Range &range = rangeFor(each.output(0));
      auto bound = [&](int k, float none) -> float {
        if (type == "Relu" || each.input_size() <= k || each.input(k).empty())
          return type == "Relu" && k == 1 ? 0 : none;
        auto value = names.floats(each.input(k));
        return value && value->size() == 1 ? (*value)[0] : NAN;
      };
      constexpr float infinity = std::numeric_limits<float>::infinity();
      if (bound(1, -infinity) == 0 && range.low >= 0 && bound(2, infinity) >= range.high) {
        auto source = renamed.find(each.input(0));
        store(each.output(0), source == renamed.end() ? each.input(0) : source->second);
        continue;
      }
    }
    if (roleOf(i) == Role::Contraction) {
      const std::string weightName = each.input(1);
      if (auto values = names.floats(weightName)) {
        std::vector<int64_t> shape = names.shape(weightName);
        int64_t axis = type == "Conv" ? (shape.size() == 4 ? 0 : -1) : shape.size() > 2 ? -1 : 1;
        if (type == "Gemm" && intAttribute(each, "transB", 0))
          axis = 0;
        auto [addIndex, behind] = type == "MatMul" ? biasBehind(i, shape) : std::pair(-1, std::string());
        bool hasBias = type != "MatMul" && each.input_size() > 2 && !each.input(2).empty();
        std::string biasName = hasBias ? each.input(2) : behind;
        std::vector<float> bias = biasName.empty() ? std::vector<float>() : *names.floats(biasName);
        float inputScale = parametersFor(each.input(0)).scale;
        Weights weights = quantizeWeights(*values, shape, axis, bias, inputScale);
        each.set_input(1, rewriter.dequantized(int8Tensor("", shape, weights.values), weightName, weights.scales, axis));
        if (!bias.empty()) {
          std::vector<float> unit;
          for (float scale : weights.scales)
            unit.push_back(inputScale * scale);
          const std::vector<int32_t> counts = quantizeBias(bias, unit);
          const size_t rank = infos.at(each.output(0)).shape.size();
          if (!hasBias && form == Form::Portable && rank > 2) {
            // Runtimes fuse the product and a bias of one dim to a Gemm in float. The bias stays an Add of multiples of the unit, which
            // is the same number.
            std::vector<int64_t> biasShape(rank, 1);
            biasShape.back() = int64_t(counts.size());
            std::vector<float> values;
            for (size_t c = 0; c < counts.size(); ++c)
              values.push_back(float(counts[c]) * unit[unit.size() == 1 ? 0 : c]);
            biasOfAdd[addIndex] = {biasName, names.add(floatTensor(biasName + "_rounded", biasShape, values))};
          } else {
            std::string dequantized =
                rewriter.dequantized(int32Tensor("", {int64_t(counts.size())}, counts), biasName, unit, 0);
            if (hasBias)
              each.set_input(2, dequantized);
            else
              biasOfAdd[addIndex] = {biasName, dequantized};
          }
        }
      }
    }
    if (auto bias = biasOfAdd.find(i); bias != biasOfAdd.end())
      for (std::string &input : *each.mutable_input())
        if (input == bias->second.first)
          input = bias->second.second;
    for (std::string &input : *each.mutable_input())
      if (auto found = renamed.find(input); found != renamed.end())
        input = found->second;
    std::vector<std::pair<std::string, std::string>> stored; // tensor, its float form
    for (std::string &output : *each.mutable_output())
      if (isQuantised.count(output)) {
        stored.emplace_back(output, names.fresh(output + "_float"));
        output = stored.back().second;
      }
    *rewriter.nodes.Add() = std::move(each);
    for (auto &[tensor, value] : stored)
      store(tensor, value);
  }
  graph.mutable_node()->Swap(&rewriter.nodes);
  removeUnusedInitializers(graph);
  model.set_producer_name("tilewright");
  model.clear_producer_version();
  return model.SerializeAsString();
}

//===----------------------------------------------------------------------===//
// Interface
//===----------------------------------------------------------------------===//

Quantizer::Quantizer() : impl(std::make_unique<Impl>()) {}
Quantizer::~Quantizer() = default;

llvm::Expected<std::unique_ptr<Quantizer>> Quantizer::create(StringRef bytes, StringRef file, const Shapes &shapes, Form form,
                                                             const std::vector<std::string> &eightBit) {
  std::unique_ptr<Quantizer> quantizer(new Quantizer);
  quantizer->impl->form = form;
  quantizer->impl->eightBit.insert(eightBit.begin(), eightBit.end());
  if (llvm::Error problem = quantizer->impl->read(bytes, file, shapes))
    return problem;
  return quantizer;
}

const std::vector<std::string> &Quantizer::tensors() const { return impl->quantised; }
const Summary &Quantizer::summary() const { return impl->summary; }
std::string Quantizer::quantize(const Ranges &ranges) { return impl->quantize(ranges); }

std::string Quantizer::observedModel() const {
  onnx::ModelProto observed = impl->model;
  for (const std::string &tensor : impl->quantised)
    if (impl->producers.count(tensor) && !impl->outputs.count(tensor))
      observed.mutable_graph()->add_output()->set_name(tensor);
  return observed.SerializeAsString();
}
