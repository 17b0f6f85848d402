//===- ComposedTest.cpp - Operators made of other ops, by value -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The importer expresses activations, norms, attention, recurrent layers and
// fused operators as graphs of other ops. A model of one such node in a random
// form is run by compiler/operators, on the CPU and on the accelerator; results
// must agree, and the accelerator must have no node left to the host.
//===----------------------------------------------------------------------===//
#include "compiler/operators/Elements.h"
#include "compiler/operators/Evaluator.h"
#include "runtime/Session.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <random>

using namespace tw;
using frontend::ElementKind;
using frontend::HostTensor;
using operators::Value;
using Shape = std::vector<int64_t>;

namespace {

/// A model of one node that is made at random. Only the generator of the standard library is the same everywhere, not its distributions.
class Maker {
public:
  explicit Maker(unsigned seed) : engine(seed) {}

  int64_t pick(int64_t low, int64_t high) { return low + int64_t(engine() % uint64_t(high - low + 1)); }
  bool chance(int percent = 50) { return pick(1, 100) <= percent; }
  int64_t one(std::initializer_list<int64_t> list) { return list.begin()[pick(0, int64_t(list.size()) - 1)]; }
  float real(double low, double high) { return float(low + (high - low) * double(pick(0, 1 << 20)) / (1 << 20)); }
  Shape shape(int64_t least, int64_t most) {
    Shape dims(static_cast<size_t>(pick(least, most)));
    for (int64_t &dim : dims)
      dim = pick(1, 7);
    return dims;
  }

  /// Floats that are known when the network runs.
  std::string input(const Shape &shape, double low = -2, double high = 2) {
    return input(shape, [&](size_t) { return real(low, high); });
  }
  std::string input(const Shape &shape, const std::function<float(size_t)> &value) {
    const std::string name = "x" + std::to_string(inputs.size());
    auto *info = model.mutable_graph()->add_input();
    info->set_name(name);
    auto *type = info->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    for (int64_t dim : shape)
      type->mutable_shape()->add_dim()->set_dim_value(dim);
    HostTensor tensor = operators::makeTensor(ElementKind::F32, shape);
    for (size_t i = 0; i < tensor.bytes.size() / 4; ++i)
      put(tensor.bytes.data() + 4 * i, value(i));
    inputs.push_back(std::move(tensor));
    return name;
  }
  std::string constant(const Shape &shape, const std::function<float(size_t)> &value) {
    onnx::TensorProto &tensor = initializer(onnx::TensorProto::FLOAT, shape);
    for (int64_t i = 0; i < count(shape); ++i)
      tensor.add_float_data(value(size_t(i)));
    return tensor.name();
  }
  std::string constant(const Shape &shape, double low = -1, double high = 1) {
    return constant(shape, [&](size_t) { return real(low, high); });
  }
  /// Either.
  std::string tensor(const Shape &shape, double low = -1, double high = 1) {
    return chance() ? input(shape, low, high) : constant(shape, low, high);
  }
  std::string integers(int type, const Shape &shape, const std::function<int64_t(size_t)> &value) {
    onnx::TensorProto &tensor = initializer(type, shape);
    for (int64_t i = 0; i < count(shape); ++i)
      if (type == onnx::TensorProto::INT64)
        tensor.add_int64_data(value(size_t(i)));
      else
        tensor.add_int32_data(int32_t(value(size_t(i))));
    return tensor.name();
  }

  /// The node. `outputs`: how many results it has.
  void node(const std::string &type, const std::vector<std::string> &operands, int outputs = 1) {
    op = model.mutable_graph()->add_node();
    const size_t colon = type.find(':');
    op->set_op_type(type.substr(colon + 1));
    op->set_domain(type.substr(0, colon));
    op->set_name("node");
    for (const std::string &operand : operands)
      op->add_input(operand);
    for (int i = 0; i < outputs; ++i) {
      const std::string name = "y" + std::to_string(i);
      op->add_output(name);
      auto *info = model.mutable_graph()->add_output();
      info->set_name(name);
      info->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
    }
  }
  onnx::AttributeProto &attribute(const char *name, onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto &attribute = *op->add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }
  void set(const char *name, int64_t value) { attribute(name, onnx::AttributeProto::INT).set_i(value); }
  void setFloat(const char *name, float value) { attribute(name, onnx::AttributeProto::FLOAT).set_f(value); }
  void setText(const char *name, const std::string &value) { attribute(name, onnx::AttributeProto::STRING).set_s(value); }

  static int64_t count(const Shape &shape) {
    int64_t count = 1;
    for (int64_t dim : shape)
      count *= dim;
    return count;
  }

  onnx::ModelProto model;
  std::vector<HostTensor> inputs;
  int64_t opset = 24;
  std::vector<std::string> overrides; ///< of the machine

private:
  static void put(uint8_t *to, float value) { std::memcpy(to, &value, sizeof(value)); }
  onnx::TensorProto &initializer(int type, const Shape &shape) {
    onnx::TensorProto &tensor = *model.mutable_graph()->add_initializer();
    tensor.set_name("c" + std::to_string(model.graph().initializer_size()));
    tensor.set_data_type(type);
    for (int64_t dim : shape)
      tensor.add_dims(dim);
    return tensor;
  }

  std::mt19937 engine;
  onnx::NodeProto *op = nullptr;
};

constexpr float kInfinity = std::numeric_limits<float>::infinity();

//===----------------------------------------------------------------------===//
// Forms
//===----------------------------------------------------------------------===//

void activation(Maker &m, const std::string &type, const char *alpha) {
  m.node(type, {m.input(m.shape(1, 4), -6, 6)});
  if (alpha && m.chance())
    m.setFloat(alpha, m.real(0.3, 2));
}

void groupNorm(Maker &m, int64_t opset) {
  m.opset = opset;
  const int64_t groups = m.pick(1, 3), channels = groups * m.pick(1, 4);
  Shape shape = m.shape(0, 2);
  shape.insert(shape.begin(), {m.pick(1, 2), channels, 5});
  const Shape scale{opset < 21 ? groups : channels};
  m.node(":GroupNormalization", {m.input(shape), m.tensor(scale), m.tensor(scale)});
  m.set("num_groups", groups);
}

void rmsNorm(Maker &m, const std::string &type) {
  const Shape shape = m.shape(2, 4);
  const int64_t rank = int64_t(shape.size()), axis = m.chance() ? -1 : m.pick(0, rank - 1);
  const Shape inner(shape.end() - (axis < 0 ? 1 : rank - axis), shape.end());
  m.node(type, {m.input(shape), m.tensor(inner)}, type == ":RMSNormalization" ? 1 : int(m.pick(1, 2)));
  m.set("axis", axis);
}

void skipNorm(Maker &m, bool hasMean) {
  const Shape shape{m.pick(1, 3), m.pick(1, 5), m.pick(4, 20)};
  const Shape row{shape[2]};
  std::vector<std::string> operands{m.input(shape), m.input(m.chance(70) ? shape : Shape{shape[1], shape[2]}), m.tensor(row)};
  if (hasMean)
    operands.push_back(m.chance() ? m.tensor(row) : "");
  if (m.chance())
    operands.push_back(m.tensor(row));
  m.node(hasMean ? "com.microsoft:SkipLayerNormalization" : "com.microsoft:SkipSimplifiedLayerNormalization", operands,
         hasMean && m.chance() ? 4 : 1);
  m.setFloat("epsilon", 1e-5f);
}

void meanVariance(Maker &m) {
  m.node(":MeanVarianceNormalization", {m.input({2, 3, 4, 5})});
  if (m.chance()) {
    auto &axes = m.attribute("axes", onnx::AttributeProto::INTS);
    axes.add_ints(1);
    axes.add_ints(-1);
  }
}

void lpNorm(Maker &m) {
  const Shape shape = m.shape(1, 4);
  // Zeros stay zeros.
  m.node(":LpNormalization", {m.input(shape, [&](size_t) { return m.chance(60) ? 0 : m.real(-2, 2); })});
  m.set("p", m.one({1, 2}));
  m.set("axis", m.pick(-int64_t(shape.size()), int64_t(shape.size()) - 1));
}

/// Reductions of more than the scratchpad holds.
constexpr const char *kSmallScratchpad = "scratchpads.unified.capacity_bytes=16384";

void ints(Maker &m, const char *name, const Shape &values) {
  auto &attribute = m.attribute(name, onnx::AttributeProto::INTS);
  for (int64_t value : values)
    attribute.add_ints(value);
}

void largeImage(Maker &m) {
  m.overrides = {kSmallScratchpad};
  m.node(m.chance() ? ":GlobalAveragePool" : ":GlobalMaxPool",
         {m.input({m.pick(1, 2), m.pick(1, 20), m.pick(17, 40), m.pick(17, 40)})});
}

void largeWindow(Maker &m) {
  m.overrides = {kSmallScratchpad};
  const int64_t h = m.pick(17, 24), w = m.pick(17, 24);
  const bool isMax = m.chance();
  m.node(isMax ? ":MaxPool" : ":AveragePool", {m.input({1, m.pick(1, 5), h + m.pick(0, 9), w + m.pick(0, 9)})});
  ints(m, "kernel_shape", {h, w});
  ints(m, "strides", {m.one({1, 2, h / 2, h}), m.one({1, 3, w / 2, w})});
  if (isMax && m.chance())
    ints(m, "pads", {m.pick(0, 3), m.pick(0, 3), m.pick(0, 3), m.pick(0, 3)});
}

void largeReduce(Maker &m) {
  m.overrides = {kSmallScratchpad};
  static const char *const kNames[] = {":ReduceSum", ":ReduceMax", ":ReduceMean", ":ReduceL2"};
  const std::string name = kNames[m.pick(0, 3)];
  const Shape axes = m.chance() ? Shape{1, 2} : Shape{2, 3};
  m.node(name, {m.input({m.pick(1, 3), 12 * m.pick(2, 4), 16 * m.pick(8, 14), m.chance() ? 1 : 3}),
                m.integers(onnx::TensorProto::INT64, {2}, [&](size_t i) { return axes[i]; })});
  m.set("keepdims", m.chance());
}

void largeSoftmax(Maker &m) {
  m.overrides = {kSmallScratchpad};
  m.node(":Softmax", {m.input({m.pick(1, 3), 12 * m.pick(120, 500)}, -6, 6)});
  m.set("axis", -1);
}

void fusedActivation(Maker &m) {
  static const char *const kNames[] = {"Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid"};
  const std::string name = kNames[m.pick(0, 5)];
  m.setText("activation", name);
  auto &params = m.attribute("activation_params", onnx::AttributeProto::FLOATS);
  if (name == "LeakyRelu" || name == "HardSigmoid" || name == "Clip")
    params.add_floats(name == "Clip" ? -0.5f : 0.3f);
  if (name == "HardSigmoid" || name == "Clip")
    params.add_floats(0.75f);
}

void fusedConv(Maker &m) {
  const int64_t channels = m.pick(1, 5), out = m.pick(1, 6), h = m.pick(3, 8), w = m.pick(3, 8);
  std::vector<std::string> operands{m.input({2, channels, h, w}), m.tensor({out, channels, 3, 3})};
  if (m.chance())
    operands.push_back(m.tensor({out}));
  else if (m.chance())
    operands.insert(operands.end(), {"", m.input({2, out, h - 2, w - 2})});
  m.node("com.microsoft:FusedConv", operands);
  fusedActivation(m);
}

void fusedGemm(Maker &m) {
  const int64_t rows = m.pick(1, 6), inner = m.pick(1, 20), columns = m.pick(1, 9);
  const bool turnsA = m.chance(), turnsB = m.chance();
  std::vector<std::string> operands{m.input(turnsA ? Shape{inner, rows} : Shape{rows, inner}),
                                    m.tensor(turnsB ? Shape{columns, inner} : Shape{inner, columns})};
  if (m.chance())
    operands.push_back(m.tensor(m.chance() ? Shape{columns} : Shape{rows, 1}));
  m.node("com.microsoft:FusedGemm", operands);
  m.set("transA", turnsA);
  m.set("transB", turnsB);
  m.setFloat("alpha", m.real(0.5, 2));
  m.setFloat("beta", m.real(0.5, 2));
  fusedActivation(m);
}

void fusedMatMul(Maker &m, const std::string &type) {
  const int64_t batch = m.pick(1, 3), rows = m.pick(1, 6), inner = m.pick(1, 20), columns = m.pick(1, 9);
  const bool turnsA = m.chance(), turnsB = m.chance(), isBatchA = m.chance(30);
  Shape a = turnsA ? Shape{batch, inner, rows} : Shape{batch, rows, inner};
  if (isBatchA)
    a = turnsA ? Shape{inner, batch, rows} : Shape{rows, batch, inner};
  m.node(type, {m.input(a), m.tensor(turnsB ? Shape{columns, inner} : Shape{inner, columns})});
  m.set("transA", turnsA);
  m.set("transB", turnsB);
  if (isBatchA)
    m.set("transBatchA", 1);
  m.setFloat("alpha", m.real(0.5, 2));
}

void matMulNBits(Maker &m) {
  const int64_t bits = m.one({2, 4, 8}), size = m.one({16, 32}), k = m.pick(1, 70), columns = m.pick(1, 20);
  const int64_t blocks = (k + size - 1) / size;
  auto byte = [&](size_t) { return m.pick(0, 255); };
  std::vector<std::string> operands{m.input({m.pick(1, 4), k}),
                                    m.integers(onnx::TensorProto::UINT8, {columns, blocks, size * bits / 8}, byte),
                                    m.constant({columns, blocks}, 0.01, 0.1)};
  operands.push_back(m.chance() ? m.integers(onnx::TensorProto::UINT8, {columns, (blocks * bits + 7) / 8}, byte) : "");
  operands.push_back(m.chance(30) ? m.integers(onnx::TensorProto::INT32, {k}, [&](size_t) { return m.pick(0, blocks - 1); })
                                  : "");
  if (m.chance())
    operands.push_back(m.constant({columns}));
  m.node("com.microsoft:MatMulNBits", operands);
  m.set("K", k);
  m.set("N", columns);
  m.set("bits", bits);
  m.set("block_size", size);
}

void einsum(Maker &m) {
  struct Form {
    const char *equation;
    std::vector<const char *> terms;
  };
  static const std::vector<Form> kForms = {{"ij,jk->ik", {"ij", "jk"}},
                                           {"bij,bkj->bik", {"bij", "bkj"}},
                                           {"bhid,bhjd->bhij", {"bhid", "bhjd"}},
                                           {"bhij,bjhd->bihd", {"bhij", "bjhd"}},
                                           {"ij,jk", {"ij", "jk"}},
                                           {"i,j->ij", {"i", "j"}},
                                           {"ijk->kj", {"ijk"}},
                                           {"nchw,kc->nkhw", {"nchw", "kc"}},
                                           {"ab,bc,cd->ad", {"ab", "bc", "cd"}},
                                           {"bi,bi->b", {"bi", "bi"}},
                                           {"bij,k->kb", {"bij", "k"}}};
  const Form &form = kForms[size_t(m.pick(0, int64_t(kForms.size()) - 1))];
  std::map<char, int64_t> sizes;
  std::vector<std::string> operands;
  for (const std::string term : form.terms) {
    Shape shape;
    for (char label : term)
      shape.push_back(sizes.emplace(label, m.pick(1, 6)).first->second);
    operands.push_back(operands.empty() ? m.input(shape) : m.tensor(shape));
  }
  m.node(":Einsum", operands);
  m.setText("equation", form.equation);
}

/// Of floats: some keys masked, but not the first of a query; `masksAll`: the first query has none.
std::string floatMask(Maker &m, const Shape &shape, bool isConstant, bool masksAll = false) {
  auto value = [&m, keys = size_t(shape.back()), masksAll](size_t i) {
    if (masksAll && i < keys)
      return -kInfinity;
    return i % keys && m.chance(30) ? (m.chance() ? -kInfinity : -3e38f) : m.real(-1, 1);
  };
  return isConstant ? m.constant(shape, value) : m.input(shape, value);
}

void attention(Maker &m) {
  m.opset = m.one({23, 24});
  const int64_t batch = m.pick(1, 2), group = m.pick(1, 2), kvHeads = m.pick(1, 2), heads = group * kvHeads,
                size = m.one({4, 8}), valueSize = m.one({4, 6}), queries = m.pick(1, 7), keys = m.pick(1, 7),
                past = m.chance(30) ? m.pick(1, 4) : 0;
  const bool isFlat = m.chance(), isCausal = m.chance(30);
  auto heads4 = [&](int64_t count, int64_t length, int64_t width) {
    return isFlat ? Shape{batch, length, count * width} : Shape{batch, count, length, width};
  };
  std::vector<std::string> operands{m.input(heads4(heads, queries, size)), m.input(heads4(kvHeads, keys, size)),
                                    m.input(heads4(kvHeads, keys, valueSize))};
  const Shape mask = m.chance() ? Shape{queries, past + keys} : Shape{batch, 1, queries, past + keys};
  const int64_t kind = m.pick(0, 3);
  if (kind == 0)
    operands.push_back(
        m.integers(onnx::TensorProto::BOOL, mask, [&](size_t i) { return i % size_t(past + keys) == 0 || m.chance(); }));
  else if (kind == 1)
    operands.push_back(floatMask(m, mask, true));
  else if (kind == 2)
    operands.push_back(floatMask(m, mask, false, m.chance()));
  else
    operands.push_back("");
  if (past) {
    operands.push_back(m.input({batch, kvHeads, past, size}));
    operands.push_back(m.input({batch, kvHeads, past, valueSize}));
  }
  m.node(":Attention", operands, past || m.chance(30) ? 3 : 1);
  if (isFlat) {
    m.set("q_num_heads", heads);
    m.set("kv_num_heads", kvHeads);
  }
  m.set("is_causal", isCausal);
  if (m.chance(30))
    m.setFloat("softcap", 1.5);
  if (m.chance(30))
    m.setFloat("scale", 0.4f);
}

/// An integer mask of ONNX Runtime.
std::string keyMask(Maker &m, int64_t batch, int64_t queries, int64_t keys) {
  switch (m.pick(0, 3)) {
  case 0:
    return m.integers(onnx::TensorProto::INT32, {batch}, [&](size_t) { return m.pick(1, keys); });
  case 1:
    return m.integers(onnx::TensorProto::INT32, {batch, keys}, [&](size_t) { return m.chance(70); });
  case 2:
    return m.integers(onnx::TensorProto::INT32, {batch, queries, keys}, [&](size_t) { return m.chance(70); });
  default:
    return "";
  }
}

void runtimeAttention(Maker &m) {
  const int64_t batch = m.pick(1, 2), steps = m.pick(1, 6), width = m.pick(3, 12), heads = m.pick(1, 3), size = m.one({2, 4});
  const int64_t valueSize = m.chance(70) ? size : 3, columns = heads * (2 * size + valueSize);
  std::vector<std::string> operands{m.input({batch, steps, width}), m.tensor({width, columns}),
                                    m.chance(70) ? m.tensor({columns}) : "", keyMask(m, batch, steps, steps)};
  if (m.chance(30))
    operands.insert(operands.end(), {"", m.input({1, heads, steps, steps})});
  m.node("com.microsoft:Attention", operands, size == valueSize && m.chance(30) ? 2 : 1);
  m.set("num_heads", heads);
  m.set("unidirectional", m.chance(30));
  auto &sizes = m.attribute("qkv_hidden_sizes", onnx::AttributeProto::INTS);
  for (int64_t each : {size, size, valueSize})
    sizes.add_ints(heads * each);
}

void multiHead(Maker &m) {
  const int64_t batch = m.pick(1, 2), queries = m.pick(1, 6), heads = m.pick(1, 3), size = m.one({2, 4});
  const int64_t form = m.pick(0, 4), keys = form < 2 ? queries : m.pick(1, 6), width = heads * size;
  std::vector<std::string> operands;
  if (form == 0)
    operands = {m.input({batch, queries, heads, 3, size}), "", ""};
  else if (form == 1)
    operands = {m.input({batch, queries, 3 * width}), "", ""};
  else if (form == 2)
    operands = {m.input({batch, queries, width}), m.input({batch, keys, heads, 2, size}), ""};
  else if (form == 3)
    operands = {m.input({batch, queries, width}), m.input({batch, heads, keys, size}), m.input({batch, heads, keys, size})};
  else
    operands = {m.input({batch, queries, width}), m.input({batch, keys, width}), m.input({batch, keys, width})};
  operands.push_back(m.chance() ? m.tensor({3 * width}) : "");
  operands.push_back(keyMask(m, batch, queries, keys));
  if (m.chance(40))
    operands.push_back(floatMask(m, {1, 1, queries, keys}, false));
  m.node("com.microsoft:MultiHeadAttention", operands, m.chance(30) ? 3 : 1);
  m.set("num_heads", heads);
}

void rotary(Maker &m, bool isRuntime) {
  const int64_t batch = m.pick(1, 2), steps = m.pick(1, 5), heads = m.pick(1, 3), half = m.pick(1, 4), longest = 9;
  const int64_t size = m.chance(60) ? 2 * half : 2 * half + m.pick(1, 3);
  const bool isFlat = m.chance(), hasPositions = isRuntime || m.chance(70), isOffset = isRuntime && m.chance();
  const std::string x = m.input(isFlat ? Shape{batch, steps, heads * size} : Shape{batch, heads, steps, size});
  const Shape table = hasPositions ? Shape{longest, half} : Shape{batch, steps, half};
  const std::string cosines = hasPositions ? m.constant(table) : m.tensor(table), sines = m.constant(table);
  std::string positions;
  if (isOffset)
    positions = m.integers(onnx::TensorProto::INT64, {1}, [&](size_t) { return m.pick(0, longest - steps); });
  else if (hasPositions)
    positions = m.integers(onnx::TensorProto::INT64, {batch, steps}, [&](size_t) { return m.pick(0, longest - 1); });
  m.node(isRuntime ? "com.microsoft:RotaryEmbedding" : ":RotaryEmbedding",
         isRuntime ? std::vector<std::string>{x, positions, cosines, sines}
                   : std::vector<std::string>{x, cosines, sines, positions});
  m.set("interleaved", m.chance());
  m.set("num_heads", heads);
  if (size != 2 * half)
    m.set("rotary_embedding_dim", 2 * half);
}

/// What an activation of a recurrent layer takes, and whether its results are bounded.
struct LayerActivation {
  const char *name;
  bool takesAlpha, takesBeta, isBounded;
};
constexpr LayerActivation kInKernels[] = {
    {"Sigmoid", false, false, true},   {"Tanh", false, false, true},     {"HardSigmoid", true, true, true},
    {"ScaledTanh", true, true, true},  {"Softsign", false, false, true}, {"relu", false, false, false},
    {"LeakyRelu", true, false, false}, {"Elu", true, false, false},      {"Affine", true, true, false},
};
constexpr LayerActivation kOnHost[] = {{"Softplus", false, false, false}, {"ThresholdedRelu", true, false, false}};

/// A recurrent layer in any form that the importer expresses. `onHost`: with an activation that no kernel has.
void recurrent(Maker &m, const std::string &type, int64_t gates, int64_t steps, bool onHost = false) {
  const int64_t batch = m.pick(1, 3), inputs = m.pick(1, 9), hidden = m.pick(1, 9);
  const int64_t direction = m.pick(0, 2), directions = direction == 2 ? 2 : 1;
  const bool isBatchFirst = m.chance(30);
  auto tensor = [&](const Shape &shape, double most = 1) {
    return m.chance(80) ? m.constant(shape, -most, most) : m.input(shape, -most, most);
  };
  // Over many steps rounding must not grow from each to the next.
  const double mostOfR = steps > 13 ? 0.5 / double(hidden) : 1;
  const Shape state = isBatchFirst ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  std::vector<std::string> operands{m.input(isBatchFirst ? Shape{batch, steps, inputs} : Shape{steps, batch, inputs}),
                                    tensor({directions, gates * hidden, inputs}),
                                    tensor({directions, gates * hidden, hidden}, mostOfR),
                                    m.chance(70) ? tensor({directions, 2 * gates * hidden}) : ""};
  const int64_t lengths = m.pick(0, 2); // none, whole sequences, any
  operands.push_back(lengths == 0 ? "" : m.integers(onnx::TensorProto::INT32, {batch}, [&](size_t i) {
    return lengths == 1 ? steps : m.pick(i ? 0 : 1, steps);
  }));
  operands.push_back(m.chance() ? m.input(state) : "");
  if (type == ":LSTM") {
    operands.push_back(m.chance() ? m.input(state) : "");
    operands.push_back(m.chance(40) ? tensor({directions, 3 * hidden}) : "");
  }
  m.node(type, operands, type == ":LSTM" ? 3 : 2);
  m.set("hidden_size", hidden);
  m.setText("direction", direction == 0 ? "forward" : direction == 1 ? "reverse" : "bidirectional");
  m.set("layout", isBatchFirst);
  if (type == ":GRU")
    m.set("linear_before_reset", m.chance());
  if (type == ":LSTM")
    m.set("input_forget", m.chance(20));
  bool isBounded = true;
  if (onHost || m.chance(40)) {
    auto &names = m.attribute("activations", onnx::AttributeProto::STRINGS);
    auto &alphas = m.attribute("activation_alpha", onnx::AttributeProto::FLOATS);
    auto &betas = m.attribute("activation_beta", onnx::AttributeProto::FLOATS);
    const int64_t count = directions * (type == ":LSTM" ? 3 : type == ":GRU" ? 2 : 1);
    for (int64_t i = 0; i < count; ++i) {
      const LayerActivation &chosen =
          onHost && i == 0 ? kOnHost[m.pick(0, 1)] : kInKernels[m.pick(0, int64_t(std::size(kInKernels)) - 1)];
      names.add_strings(chosen.name);
      isBounded &= chosen.isBounded;
      if (chosen.takesAlpha)
        alphas.add_floats(m.real(0.25, 0.5));
      if (chosen.takesBeta)
        betas.add_floats(m.real(0.25, 0.5));
    }
  }
  // Without a bound a state may grow with every step, and its rounding with it. With it a gate is at most 1.
  if (!isBounded || m.chance(20))
    m.setFloat("clip", m.real(0.25, 1));
}

int64_t fewSteps(Maker &m) { return m.one({1, 1, 2, 3, 8, 13}); }

struct Form {
  const char *name;
  std::function<void(Maker &)> make;
};

const std::vector<Form> &forms() {
  static const std::vector<Form> all = {
      {"Gelu",
       [](Maker &m) {
         activation(m, ":Gelu", nullptr);
         m.setText("approximate", m.chance(70) ? "tanh" : "none");
       }},
      {"Elu", [](Maker &m) { activation(m, ":Elu", "alpha"); }},
      {"Selu", [](Maker &m) { activation(m, ":Selu", "gamma"); }},
      {"Celu", [](Maker &m) { activation(m, ":Celu", "alpha"); }},
      {"Swish", [](Maker &m) { activation(m, ":Swish", "alpha"); }},
      {"SwiGLU",
       [](Maker &m) {
         const Shape shape = m.shape(1, 3);
         m.node(":SwiGLU", {m.input(shape), m.tensor(shape)});
         m.setFloat("alpha", m.real(0.5, 2));
       }},
      {"Softsign", [](Maker &m) { activation(m, ":Softsign", nullptr); }},
      {"QuickGelu", [](Maker &m) { activation(m, "com.microsoft:QuickGelu", "alpha"); }},
      {"BiasGelu",
       [](Maker &m) {
         const Shape shape = m.shape(1, 3);
         m.node("com.microsoft:BiasGelu", {m.input(shape), m.tensor({shape.back()})});
       }},
      {"FastGelu",
       [](Maker &m) {
         const Shape shape = m.shape(1, 3);
         m.node("com.microsoft:FastGelu", {m.input(shape), m.chance() ? m.tensor({shape.back()}) : ""});
       }},
      {"LargeImage", largeImage},
      {"LargeWindow", largeWindow},
      {"LargeReduce", largeReduce},
      {"LargeSoftmax", largeSoftmax},
      {"GroupNormalization18", [](Maker &m) { groupNorm(m, 18); }},
      {"GroupNormalization21", [](Maker &m) { groupNorm(m, 21); }},
      {"RMSNormalization", [](Maker &m) { rmsNorm(m, ":RMSNormalization"); }},
      {"SimplifiedLayerNormalization",
       [](Maker &m) {
         rmsNorm(m, m.chance() ? ":SimplifiedLayerNormalization" : "com.microsoft:SimplifiedLayerNormalization");
       }},
      {"SkipLayerNormalization", [](Maker &m) { skipNorm(m, true); }},
      {"SkipSimplifiedLayerNormalization", [](Maker &m) { skipNorm(m, false); }},
      {"MeanVarianceNormalization", meanVariance},
      {"LpNormalization", lpNorm},
      {"FusedConv", fusedConv},
      {"FusedGemm", fusedGemm},
      {"FusedMatMul", [](Maker &m) { fusedMatMul(m, "com.microsoft:FusedMatMul"); }},
      {"TransposeMatMul", [](Maker &m) { fusedMatMul(m, "com.microsoft:TransposeMatMul"); }},
      {"FusedMatMulActivation",
       [](Maker &m) {
         fusedMatMul(m, "com.microsoft:FusedMatMulActivation");
         fusedActivation(m);
       }},
      {"GemmFastGelu",
       [](Maker &m) {
         const int64_t inner = m.pick(1, 20), columns = m.pick(1, 9);
         m.node("com.microsoft:GemmFastGelu",
                {m.input({2, m.pick(1, 5), inner}), m.tensor({inner, columns}), m.tensor({columns})});
       }},
      {"MatMulNBits", matMulNBits},
      {"Einsum", einsum},
      {"Attention", attention},
      {"RuntimeAttention", runtimeAttention},
      {"MultiHeadAttention", multiHead},
      {"RotaryEmbedding", [](Maker &m) { rotary(m, false); }},
      {"RuntimeRotaryEmbedding", [](Maker &m) { rotary(m, true); }},
      {"RNN", [](Maker &m) { recurrent(m, ":RNN", 1, fewSteps(m)); }},
      {"GRU", [](Maker &m) { recurrent(m, ":GRU", 3, fewSteps(m)); }},
      {"LSTM", [](Maker &m) { recurrent(m, ":LSTM", 4, fewSteps(m)); }},
  };
  return all;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

/// The compiled model; null if it fails.
std::unique_ptr<runtime::Session> compile(const Maker &m, bool isOnCpu) {
  runtime::SessionOptions options;
  options.network.modelBytes = std::make_shared<const std::string>(m.model.SerializeAsString());
  if (isOnCpu) {
    options.network.targets = {"cpu"};
  } else {
    options.network.machine = "gemmini_16x16_fp32";
    options.network.overrides = m.overrides;
  }
  auto session = runtime::Session::create("test.onnx", options);
  if (!session) {
    ADD_FAILURE() << session.error().message;
    return nullptr;
  }
  EXPECT_FALSE((*session)->network().remainder.model) << "the host evaluates a part of the network";
  return std::move(*session);
}

/// Results of the compiled model; none if it fails.
std::vector<HostTensor> run(const Maker &m, bool isOnCpu) {
  const std::unique_ptr<runtime::Session> session = compile(m, isOnCpu);
  if (!session)
    return {};
  const runtime::Network &network = session->network();
  EXPECT_FALSE(network.offload.empty());
  for (const runtime::Offload &node : network.offload)
    EXPECT_TRUE(node.target == "folded" || node.target == (isOnCpu ? "cpu" : "accelerator"))
        << node.node << ": " << node.reason;
  auto report = session->run(m.inputs);
  if (!report) {
    ADD_FAILURE() << report.error().message;
    return {};
  }
  return report->outputs;
}

/// Fills the model's head and computes what it gives.
std::vector<Value> expectedOf(Maker &m) {
  m.model.set_ir_version(10);
  m.model.mutable_graph()->set_name("test");
  auto *own = m.model.add_opset_import();
  own->set_version(m.opset);
  auto *runtime = m.model.add_opset_import();
  runtime->set_domain("com.microsoft");
  runtime->set_version(1);
  try {
    return operators::Evaluator(m.model).run(std::vector<Value>(m.inputs.begin(), m.inputs.end()));
  } catch (const operators::Error &error) {
    ADD_FAILURE() << error.message;
    return {};
  }
}

void expectNear(const Maker &m, const std::vector<HostTensor> &actual, const std::vector<Value> &expected) {
  ASSERT_EQ(actual.size(), expected.size()) << m.model.ShortDebugString().substr(0, 2000);
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].shape, expected[i].tensor->shape) << "output " << i;
    ASSERT_EQ(actual[i].type, expected[i].tensor->type) << "output " << i;
    double largest = 1;
    const int64_t count = Maker::count(actual[i].shape);
    for (int64_t at = 0; at < count; ++at)
      largest = std::max(largest, std::abs(operators::realAt(*expected[i].tensor, at)));
    for (int64_t at = 0; at < count; ++at)
      ASSERT_NEAR(operators::realAt(actual[i], at), operators::realAt(*expected[i].tensor, at), 2e-5 * largest)
          << "output " << i << ", element " << at << " of " << m.model.ShortDebugString().substr(0, 2000);
  }
}

/// The parameter: an index into forms(), and a seed.
class ComposedTest : public testing::TestWithParam<std::tuple<size_t, unsigned>> {};

TEST_P(ComposedTest, AgreesWithTheEvaluator) {
  const auto [form, seed] = GetParam();
  Maker m(seed * 7919 + unsigned(form) * 104729 + 17);
  forms()[form].make(m);
  SCOPED_TRACE(std::string(forms()[form].name) + ", seed " + std::to_string(seed));
  const std::vector<Value> expected = expectedOf(m);
  for (bool isOnCpu : {false, true}) {
    SCOPED_TRACE(isOnCpu ? "cpu" : "accelerator");
    expectNear(m, run(m, isOnCpu), expected);
  }
}

constexpr unsigned kSeeds = 12;

INSTANTIATE_TEST_SUITE_P(Forms, ComposedTest,
                         testing::Combine(testing::Range(size_t(0), forms().size()), testing::Range(0u, kSeeds)),
                         [](const auto &info) {
                           return std::string(forms()[std::get<0>(info.param)].name) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

/// A prime number of elements has no parts: the CPU reduces such a row, and the report says why.
TEST(LargeReduction, WhatNoTileHoldsRunsOnTheCpu) {
  constexpr int64_t kPrime = 65537; // floats of 256 KiB and a burst
  Maker m(1);
  m.model.set_ir_version(10);
  m.model.mutable_graph()->set_name("test");
  m.node(":ReduceSum", {m.input({2, kPrime}, [](size_t i) { return float(i % 3); }),
                        m.integers(onnx::TensorProto::INT64, {1}, [](size_t) { return 1; })});
  m.model.add_opset_import()->set_version(m.opset);
  runtime::SessionOptions options;
  options.network.modelBytes = std::make_shared<const std::string>(m.model.SerializeAsString());
  options.network.machine = "gemmini_16x16_fp32";
  auto session = runtime::Session::create("test.onnx", options);
  ASSERT_TRUE(bool(session)) << session.error().message;
  ASSERT_EQ((*session)->network().offload.size(), 1u);
  const runtime::Offload &node = (*session)->network().offload.front();
  EXPECT_EQ(node.target, "cpu");
  EXPECT_NE(node.reason.find("no tile fits machine 'gemmini_16x16_fp32'"), std::string::npos) << node.reason;
  auto report = (*session)->run(m.inputs);
  ASSERT_TRUE(bool(report)) << report.error().message;
  for (int64_t row = 0; row < 2; ++row) {
    double sum = 0; // of whole numbers: exact
    for (int64_t i = 0; i < kPrime; ++i)
      sum += double((row * kPrime + i) % 3);
    EXPECT_EQ(operators::realAt(report->outputs[0], row), sum);
  }
  options.network.targets = {"accel"};
  auto refused = runtime::Session::create("test.onnx", options);
  ASSERT_FALSE(bool(refused));
  EXPECT_NE(refused.error().message.find("no tile fits"), std::string::npos) << refused.error().message;
}

//===----------------------------------------------------------------------===//
// Long recurrent layers
//===----------------------------------------------------------------------===//

struct LongLayer {
  const char *type;
  int64_t gates;
  bool onHost; ///< an activation
};

class LongLayerTest : public testing::TestWithParam<std::tuple<LongLayer, unsigned>> {};

/// Their steps are compiled once and called one by one: the products are the accelerator's all the same.
TEST_P(LongLayerTest, MultipliesOnTheAccelerator) {
  const auto [layer, seed] = GetParam();
  Maker m(seed * 7919 + unsigned(layer.gates) * 104729 + layer.onHost);
  recurrent(m, layer.type, layer.gates, layer.onHost ? fewSteps(m) : m.pick(65, 70), layer.onHost);
  const std::vector<Value> expected = expectedOf(m);
  for (bool isOnCpu : {false, true}) {
    SCOPED_TRACE(isOnCpu ? "cpu" : "accelerator");
    const std::unique_ptr<runtime::Session> session = compile(m, isOnCpu);
    ASSERT_TRUE(session);
    for (int again = 0; again < 2; ++again) { // nothing of a run is left for the next one
      auto report = session->run(m.inputs);
      ASSERT_TRUE(bool(report)) << report.error().message;
      expectNear(m, report->outputs, expected);
      if (isOnCpu)
        continue;
      EXPECT_GT(report->countedMacs(), 0u);
      EXPECT_EQ(report->fallback.macs, 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, LongLayerTest,
                         testing::Combine(testing::Values(LongLayer{":RNN", 1, false}, LongLayer{":GRU", 3, false},
                                                          LongLayer{":LSTM", 4, false}, LongLayer{":RNN", 1, true},
                                                          LongLayer{":GRU", 3, true}, LongLayer{":LSTM", 4, true}),
                                          testing::Range(0u, 4u)),
                         [](const auto &info) {
                           const LongLayer &layer = std::get<0>(info.param);
                           return std::string(layer.type + 1) + (layer.onHost ? "_activation_" : "_long_") +
                                  std::to_string(std::get<1>(info.param));
                         });

//===----------------------------------------------------------------------===//
// Nodes that the host evaluates between kernels
//===----------------------------------------------------------------------===//

/// On a machine that multiplies bfloat16, tensors between kernels are bfloat16; the node's own are float.
TEST(EvaluatedNodeTest, ReadsAndWritesBetweenKernelsOfBfloat16) {
  Maker m(3);
  const std::string x = m.input({4, 6}), w = m.constant({6, 5}), v = m.constant({5, 3});
  auto add = [&](const char *type, std::initializer_list<std::string> operands, const char *result) {
    onnx::NodeProto &node = *m.model.mutable_graph()->add_node();
    node.set_op_type(type);
    node.set_name(result);
    for (const std::string &operand : operands)
      node.add_input(operand);
    node.add_output(result);
  };
  add("MatMul", {x, w}, "product");
  add("LogSoftmax", {"product"}, "logs");
  m.node(":MatMul", {"logs", v});
  const std::vector<Value> expected = expectedOf(m);
  runtime::SessionOptions options;
  options.network.modelBytes = std::make_shared<const std::string>(m.model.SerializeAsString());
  options.network.machine = "gemmini_16x16_bf16";
  auto session = runtime::Session::create("test.onnx", options);
  ASSERT_TRUE(bool(session)) << session.error().message;
  auto report = (*session)->run(m.inputs);
  ASSERT_TRUE(bool(report)) << report.error().message;
  EXPECT_EQ(report->programs, 2u);
  EXPECT_EQ(report->fallback.kernels, 1u);
  // Each of 5 summands is rounded to 8 bits once, and its factors once.
  for (int64_t at = 0; at < 12; ++at)
    EXPECT_NEAR(operators::realAt(report->outputs[0], at), operators::realAt(*expected[0].tensor, at), 5 * 3 * 8 * 0x1p-8);
}

} // namespace
