//===- OnnxGraph.cpp - Changing ONNX models in place ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/quantize/OnnxGraph.h"
#include "compiler/frontend/OnnxTensor.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <cstring>

using namespace tw;
using namespace tw::quantize;

//===----------------------------------------------------------------------===//
// Attributes, tensors
//===----------------------------------------------------------------------===//

std::string quantize::nodeText(const onnx::NodeProto &node) {
  std::string name = !node.name().empty() || node.output_size() == 0 ? node.name() : node.output(0);
  return "node \"" + name + "\" (" + node.op_type() + ")";
}

const onnx::AttributeProto *quantize::findAttribute(const onnx::NodeProto &node, const std::string &name) {
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

int64_t quantize::intAttribute(const onnx::NodeProto &node, const std::string &name, int64_t fallback) {
  const onnx::AttributeProto *attribute = findAttribute(node, name);
  return attribute ? attribute->i() : fallback;
}

float quantize::floatAttribute(const onnx::NodeProto &node, const std::string &name, float fallback) {
  const onnx::AttributeProto *attribute = findAttribute(node, name);
  return attribute ? attribute->f() : fallback;
}

void quantize::removeAttribute(onnx::NodeProto &node, const std::string &name) {
  for (int i = node.attribute_size(); i-- > 0;)
    if (node.attribute(i).name() == name)
      node.mutable_attribute()->DeleteSubrange(i, 1);
}

void quantize::setAttribute(onnx::NodeProto &node, const std::string &name, int64_t value) {
  removeAttribute(node, name);
  onnx::AttributeProto *attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

template <typename T>
static onnx::TensorProto tensorOf(const std::string &name, int type, const std::vector<int64_t> &shape,
                                  const std::vector<T> &values) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (int64_t dim : shape)
    tensor.add_dims(dim);
  tensor.set_raw_data(values.data(), values.size() * sizeof(T));
  return tensor;
}

onnx::TensorProto quantize::floatTensor(const std::string &name, const std::vector<int64_t> &shape,
                                        const std::vector<float> &values) {
  return tensorOf(name, onnx::TensorProto::FLOAT, shape, values);
}
onnx::TensorProto quantize::intTensor(const std::string &name, const std::vector<int64_t> &values) {
  return tensorOf(name, onnx::TensorProto::INT64, {int64_t(values.size())}, values);
}
onnx::TensorProto quantize::int32Tensor(const std::string &name, const std::vector<int64_t> &shape,
                                        const std::vector<int32_t> &values) {
  return tensorOf(name, onnx::TensorProto::INT32, shape, values);
}
onnx::TensorProto quantize::int8Tensor(const std::string &name, const std::vector<int64_t> &shape,
                                       const std::vector<int8_t> &values) {
  return tensorOf(name, onnx::TensorProto::INT8, shape, values);
}

onnx::TensorProto quantize::uint8Tensor(const std::string &name, const std::vector<int64_t> &shape,
                                        const std::vector<uint8_t> &values) {
  return tensorOf(name, onnx::TensorProto::UINT8, shape, values);
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

GraphNames::GraphNames(onnx::GraphProto &graph) : graph(graph) {
  for (int i = 0; i < graph.initializer_size(); ++i) {
    initializers.emplace(graph.initializer(i).name(), i);
    names.insert(graph.initializer(i).name());
  }
  for (const onnx::ValueInfoProto &input : graph.input())
    names.insert(input.name());
  for (const onnx::NodeProto &node : graph.node()) {
    names.insert(node.name());
    names.insert(node.output().begin(), node.output().end());
  }
}

std::string GraphNames::fresh(const std::string &base) {
  std::string name = base;
  for (unsigned i = 1; !names.insert(name).second; ++i)
    name = base + "_" + std::to_string(i);
  return name;
}

std::string GraphNames::add(onnx::TensorProto tensor) {
  std::string name = fresh(tensor.name());
  tensor.set_name(name);
  initializers.emplace(name, graph.initializer_size());
  *graph.add_initializer() = std::move(tensor);
  return name;
}

const onnx::TensorProto *GraphNames::initializer(const std::string &name) const {
  auto found = initializers.find(name);
  return found == initializers.end() ? nullptr : &graph.initializer(found->second);
}

std::optional<std::vector<float>> GraphNames::floats(const std::string &name) const {
  const onnx::TensorProto *tensor = initializer(name);
  if (!tensor || tensor->data_type() != onnx::TensorProto::FLOAT)
    return std::nullopt;
  Result<frontend::HostTensor> host = frontend::decodeTensor(*tensor);
  if (!host)
    return std::nullopt;
  std::vector<float> values(host->bytes.size() / sizeof(float));
  if (!values.empty())
    std::memcpy(values.data(), host->bytes.data(), host->bytes.size());
  return values;
}

std::vector<int64_t> GraphNames::shape(const std::string &name) const {
  const onnx::TensorProto *tensor = initializer(name);
  return tensor ? std::vector<int64_t>(tensor->dims().begin(), tensor->dims().end()) : std::vector<int64_t>();
}

//===----------------------------------------------------------------------===//
// Simplification
//===----------------------------------------------------------------------===//

void quantize::removeUnusedInitializers(onnx::GraphProto &graph) {
  std::set<std::string> used;
  for (const onnx::NodeProto &node : graph.node())
    used.insert(node.input().begin(), node.input().end());
  for (const onnx::ValueInfoProto &output : graph.output())
    used.insert(output.name());
  std::set<std::string> removed;
  auto *initializers = graph.mutable_initializer();
  initializers->erase(std::remove_if(initializers->begin(), initializers->end(),
                                     [&](const onnx::TensorProto &tensor) {
                                       if (used.count(tensor.name()))
                                         return false;
                                       removed.insert(tensor.name());
                                       return true;
                                     }),
                      initializers->end());
  auto *inputs = graph.mutable_input();
  inputs->erase(std::remove_if(inputs->begin(), inputs->end(),
                               [&](const onnx::ValueInfoProto &input) { return removed.count(input.name()); }),
                inputs->end());
}

const std::set<std::string> quantize::kReadsConstants = {"Conv", "Gemm", "MatMul", "Add", "Clip", "BatchNormalization"};

void quantize::materializeConstants(onnx::GraphProto &graph, const TensorInfos &tensors) {
  auto valuesOf = [&](const onnx::NodeProto &node) -> const TensorInfo * {
    auto found = node.output_size() == 1 ? tensors.find(node.output(0)) : tensors.end();
    return found == tensors.end() || found->second.values.empty() ? nullptr : &found->second;
  };
  for (const onnx::NodeProto &node : graph.node())
    if (const TensorInfo *info = valuesOf(node))
      *graph.add_initializer() = floatTensor(node.output(0), info->shape, info->values);
  auto *nodes = graph.mutable_node();
  nodes->erase(std::remove_if(nodes->begin(), nodes->end(), [&](const onnx::NodeProto &node) { return valuesOf(node); }),
               nodes->end());
}

/// Removes nodes that nothing reads.
static void removeDeadNodes(onnx::GraphProto &graph) {
  std::set<std::string> used;
  for (const onnx::ValueInfoProto &output : graph.output())
    used.insert(output.name());
  std::set<const onnx::NodeProto *> live;
  for (const onnx::NodeProto &node : llvm::reverse(graph.node()))
    if (llvm::any_of(node.output(), [&](const std::string &name) { return used.count(name) > 0; })) {
      used.insert(node.input().begin(), node.input().end());
      live.insert(&node);
    }
  auto *nodes = graph.mutable_node();
  nodes->erase(std::remove_if(nodes->begin(), nodes->end(), [&](const onnx::NodeProto &node) { return !live.count(&node); }),
               nodes->end());
}

/// The tensor of a Constant node; nothing for strings and sparse tensors.
static std::optional<onnx::TensorProto> constantOf(const onnx::NodeProto &node) {
  if (const onnx::AttributeProto *value = findAttribute(node, "value"))
    return value->t();
  if (const onnx::AttributeProto *value = findAttribute(node, "value_float"))
    return floatTensor("", {}, {value->f()});
  if (const onnx::AttributeProto *value = findAttribute(node, "value_floats"))
    return floatTensor("", {value->floats_size()}, {value->floats().begin(), value->floats().end()});
  if (const onnx::AttributeProto *value = findAttribute(node, "value_ints"))
    return intTensor("", {value->ints().begin(), value->ints().end()});
  if (const onnx::AttributeProto *value = findAttribute(node, "value_int")) {
    onnx::TensorProto tensor = intTensor("", {value->i()});
    tensor.clear_dims();
    return tensor;
  }
  return std::nullopt;
}

/// Whether the node's one result is its first input.
static bool isAlias(const onnx::NodeProto &node) {
  if (node.op_type() == "Identity")
    return true;
  // Inference; the mask is not known to be unused here, so only the form without it counts.
  return node.op_type() == "Dropout" && node.output_size() == 1 && node.input_size() < 3;
}

/// Folds `norm`, which reads only `conv`, into it. False if a parameter is no initializer.
static bool foldBatchNorm(GraphNames &names, onnx::NodeProto &conv, const onnx::NodeProto &norm) {
  std::vector<float> parts[4];
  for (int i = 0; i < 4; ++i) {
    auto values = names.floats(norm.input_size() == 5 ? norm.input(i + 1) : "");
    if (!values)
      return false;
    parts[i] = *values;
  }
  auto weights = conv.input_size() >= 2 ? names.floats(conv.input(1)) : std::nullopt;
  size_t channels = parts[0].size();
  if (!weights || channels == 0 || weights->size() % channels || names.shape(conv.input(1))[0] != int64_t(channels))
    return false;
  std::vector<float> bias(channels, 0);
  if (conv.input_size() == 3 && !conv.input(2).empty()) {
    auto given = names.floats(conv.input(2));
    if (!given || given->size() != channels)
      return false;
    bias = *given;
  }
  double epsilon = floatAttribute(norm, "epsilon", 1e-5f);
  size_t perChannel = weights->size() / channels;
  for (size_t c = 0; c < channels; ++c) {
    double factor = parts[0][c] / std::sqrt(double(parts[3][c]) + epsilon);
    for (size_t i = 0; i < perChannel; ++i)
      (*weights)[c * perChannel + i] = float((*weights)[c * perChannel + i] * factor);
    bias[c] = float((double(bias[c]) - parts[2][c]) * factor + parts[1][c]);
  }
  std::string old = conv.input(1);
  std::string newWeights = names.add(floatTensor(old + "_folded", names.shape(old), *weights));
  std::string newBias = names.add(floatTensor(old + "_folded_bias", {int64_t(channels)}, bias));
  while (conv.input_size() < 3)
    conv.add_input();
  conv.set_input(1, newWeights);
  conv.set_input(2, newBias);
  return true;
}

void quantize::simplify(onnx::GraphProto &graph) {
  std::set<std::string> outputs;
  for (const onnx::ValueInfoProto &output : graph.output())
    outputs.insert(output.name());
  std::map<std::string, unsigned> reads;
  for (const onnx::NodeProto &node : graph.node())
    for (const std::string &input : node.input())
      ++reads[input];
  std::map<std::string, std::string> alias;
  std::map<std::string, onnx::NodeProto *> convs;
  GraphNames names(graph);
  std::set<const onnx::NodeProto *> dead;
  for (onnx::NodeProto &node : *graph.mutable_node()) {
    for (std::string &input : *node.mutable_input())
      if (auto found = alias.find(input); found != alias.end())
        input = found->second;
    if (!node.domain().empty() && node.domain() != "ai.onnx")
      continue;
    bool isOutput = llvm::any_of(node.output(), [&](const std::string &name) { return outputs.count(name) > 0; });
    if (node.op_type() == "Constant" && !isOutput) {
      if (std::optional<onnx::TensorProto> value = constantOf(node)) {
        value->set_name(node.output(0));
        alias[node.output(0)] = names.add(*value);
        dead.insert(&node);
      }
    } else if (isAlias(node) && !isOutput) {
      alias[node.output(0)] = node.input(0);
      reads[node.input(0)] += reads[node.output(0)] - 1;
      dead.insert(&node);
    } else if (node.op_type() == "Conv") {
      if (reads[node.output(0)] == 1 && !isOutput)
        convs[node.output(0)] = &node;
    } else if (node.op_type() == "BatchNormalization" && node.output_size() == 1) {
      auto conv = convs.find(node.input(0));
      if (conv != convs.end() && reads[node.input(0)] == 1 && foldBatchNorm(names, *conv->second, node)) {
        conv->second->set_output(0, node.output(0));
        dead.insert(&node);
      }
    }
  }
  auto *nodes = graph.mutable_node();
  nodes->erase(std::remove_if(nodes->begin(), nodes->end(), [&](const onnx::NodeProto &node) { return dead.count(&node); }),
               nodes->end());
  removeDeadNodes(graph);
  removeUnusedInitializers(graph);
}

//===----------------------------------------------------------------------===//
// Opset 13
//===----------------------------------------------------------------------===//

/// Operators of opsets 7 to 12 that mean the same in opset 13. source: ONNX Operators, version histories
static const std::set<std::string> kUnchanged = {"Abs",
                                                 "Acos",
                                                 "Add",
                                                 "And",
                                                 "ArgMax",
                                                 "ArgMin",
                                                 "AveragePool",
                                                 "BatchNormalization",
                                                 "Cast",
                                                 "Ceil",
                                                 "Concat",
                                                 "Constant",
                                                 "ConstantOfShape",
                                                 "Conv",
                                                 "ConvTranspose",
                                                 "Cos",
                                                 "DepthToSpace",
                                                 "Div",
                                                 "Elu",
                                                 "Equal",
                                                 "Erf",
                                                 "Exp",
                                                 "Expand",
                                                 "Flatten",
                                                 "Floor",
                                                 "GRU",
                                                 "Gather",
                                                 "GatherElements",
                                                 "Gemm",
                                                 "GlobalAveragePool",
                                                 "GlobalMaxPool",
                                                 "Greater",
                                                 "HardSigmoid",
                                                 "Identity",
                                                 "InstanceNormalization",
                                                 "LRN",
                                                 "LSTM",
                                                 "LeakyRelu",
                                                 "Less",
                                                 "Log",
                                                 "LpNormalization",
                                                 "MatMul",
                                                 "Max",
                                                 "MaxPool",
                                                 "Mean",
                                                 "Min",
                                                 "Mod",
                                                 "Mul",
                                                 "Neg",
                                                 "Not",
                                                 "Or",
                                                 "PRelu",
                                                 "Pow",
                                                 "Range",
                                                 "Reciprocal",
                                                 "ReduceL1",
                                                 "ReduceL2",
                                                 "ReduceMax",
                                                 "ReduceMean",
                                                 "ReduceMin",
                                                 "ReduceProd",
                                                 "ReduceSumSquare",
                                                 "Relu",
                                                 "Reshape",
                                                 "Round",
                                                 "Selu",
                                                 "Shape",
                                                 "Sigmoid",
                                                 "Sign",
                                                 "Sin",
                                                 "Size",
                                                 "Softplus",
                                                 "Softsign",
                                                 "SpaceToDepth",
                                                 "Sqrt",
                                                 "Sub",
                                                 "Sum",
                                                 "Tanh",
                                                 "ThresholdedRelu",
                                                 "Tile",
                                                 "Transpose",
                                                 "Where",
                                                 "Xor"};

/// Turns the attribute `name` (a list) into input `index`.
static void listToInput(GraphNames &names, onnx::NodeProto &node, const std::string &name, int index) {
  const onnx::AttributeProto *attribute = findAttribute(node, name);
  if (!attribute)
    return;
  std::string tensor = names.add(intTensor(node.output(0) + "_" + name, {attribute->ints().begin(), attribute->ints().end()}));
  while (node.input_size() <= index)
    node.add_input();
  node.set_input(index, tensor);
  removeAttribute(node, name);
}

static void numberToInput(GraphNames &names, onnx::NodeProto &node, const std::string &name, int index) {
  const onnx::AttributeProto *attribute = findAttribute(node, name);
  if (!attribute)
    return;
  std::string tensor = names.add(floatTensor(node.output(0) + "_" + name, {}, {attribute->f()}));
  while (node.input_size() <= index)
    node.add_input();
  node.set_input(index, tensor);
  removeAttribute(node, name);
}

llvm::Error quantize::upgradeOpset(onnx::ModelProto &model, const TensorInfos &tensors) {
  onnx::OperatorSetIdProto *own = nullptr;
  for (onnx::OperatorSetIdProto &opset : *model.mutable_opset_import())
    if (opset.domain().empty() || opset.domain() == "ai.onnx")
      own = &opset;
  // source: onnx.proto3: opset 13 came with IR version 7
  model.set_ir_version(std::max<int64_t>(model.ir_version(), 7));
  if (!own || own->version() >= 13)
    return llvm::Error::success();
  int64_t version = own->version();
  onnx::GraphProto &graph = *model.mutable_graph();
  GraphNames names(graph);
  auto fail = [&](const onnx::NodeProto &node, const std::string &text) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   nodeText(node) + ": the model is of opset " + std::to_string(version) +
                                       ", scales per channel need 13, and " + text + ": convert the model");
  };
  for (onnx::NodeProto &node : *graph.mutable_node()) {
    if (!node.domain().empty() && node.domain() != "ai.onnx")
      continue;
    const std::string &type = node.op_type();
    if (type == "Softmax" || type == "LogSoftmax") {
      // Below 13 all dims from axis on are one vector.
      auto x = tensors.find(node.input(0));
      int64_t rank = x == tensors.end() ? 0 : int64_t(x->second.shape.size()), axis = intAttribute(node, "axis", 1);
      axis += axis < 0 ? rank : 0;
      bool isVector = axis >= 0 && axis < rank;
      for (int64_t i = axis + 1; isVector && i < rank; ++i)
        isVector = x->second.shape[size_t(i)] == 1;
      if (!isVector)
        return fail(node, "its vectors span several dims");
      setAttribute(node, "axis", axis);
    } else if (type == "Squeeze" || type == "Unsqueeze" || type == "ReduceSum") {
      listToInput(names, node, "axes", 1);
    } else if (type == "Split") {
      listToInput(names, node, "split", 1);
    } else if (type == "Clip" && version < 11) {
      numberToInput(names, node, "min", 1);
      numberToInput(names, node, "max", 2);
    } else if (type == "Pad" && version < 11) {
      listToInput(names, node, "pads", 1);
      numberToInput(names, node, "value", 2);
    } else if (type == "Slice" && version < 10) {
      listToInput(names, node, "starts", 1);
      listToInput(names, node, "ends", 2);
      listToInput(names, node, "axes", 3);
    } else if (type == "Dropout" && version < 12) {
      removeAttribute(node, "ratio");
    } else if ((type == "Resize" && version < 11) || !(kUnchanged.count(type) || type == "Clip" || type == "Pad" ||
                                                       type == "Slice" || type == "Dropout" || type == "Resize")) {
      return fail(node, "this operator changed in between");
    }
    if (type == "BatchNormalization")
      removeAttribute(node, "spatial");
  }
  own->set_version(13);
  return llvm::Error::success();
}
