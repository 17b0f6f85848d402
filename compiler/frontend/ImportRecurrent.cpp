//===- ImportRecurrent.cpp - RNN, GRU and LSTM ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A layer is one product of all inputs with W, and steps. Steps of short layers
// are unrolled; those of others are the body of a Scan, which the host calls
// for each step and which is compiled as a network of its own. Both come from
// one description of a step.
// source: ONNX, operators RNN, GRU, LSTM
//===----------------------------------------------------------------------===//
#include "compiler/frontend/Composition.h"
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/operators/Operator.h"
#include "compiler/operators/Recurrent.h"

#include <onnx/onnx_pb.h>

namespace tw::frontend {

using Activation = operators::RecurrentActivation;
using Kind = Activation::Kind;

/// Layers of more steps are not unrolled: an unrolled step takes 35 ms to compile (pipelined, one core).
static constexpr int64_t kMaxUnrolledSteps = 64;
/// Nor are those whose copies of R, one for each step in a program, take more.
static constexpr int64_t kMaxUnrolledBytes = int64_t(64) << 20;

namespace {

/// Sizes of a layer.
struct Layer {
  int64_t steps, batch, inputs, hidden, gates;
  bool isBatchFirst;
  std::vector<bool> reversed;          ///< of each direction
  std::vector<int64_t> lengths;        ///< of each sequence of the batch
  std::vector<Activation> activations; ///< of all directions
  float clip = 0;                      ///< 0: inputs of activations are not bounded
  bool isLinearBefore = false;         ///< GRU: the reset comes behind the product with R
  bool isCoupled = false;              ///< LSTM: the forget gate is what the input gate leaves

  int64_t directions() const { return int64_t(reversed.size()); }
  int64_t width() const { return gates * hidden; }
  bool isRagged() const {
    return llvm::any_of(lengths, [&](int64_t length) { return length != steps; });
  }
};

/// Weights of one direction, R turned.
struct Direction {
  ArrayRef<Activation> activations;
  std::vector<Tensor> r;           ///< [hidden, any], one for each product of a step
  std::vector<Tensor> p;           ///< peepholes i, o and f, [1, hidden] each; none: there are none
  std::optional<Tensor> bias;      ///< of the product with W, [1, gates * hidden]
  std::optional<Tensor> resetBias; ///< of GRU's last gate, under the reset: [1, hidden]
};

//===----------------------------------------------------------------------===//
// What steps are written in
//===----------------------------------------------------------------------===//

/// Ops of the function, at once.
class UnrolledStep {
public:
  using Value = Tensor;

  explicit UnrolledStep(const Node &n) : n(n) {}

  static bool has(Kind activation) { return activation != Kind::Softplus && activation != Kind::ThresholdedRelu; }

  Value weight(const Tensor &x) { return x; }
  Value add(const Value &a, const Value &b) { return frontend::add(n, a, b); }
  Value mul(const Value &a, const Value &b) { return frontend::mul(n, a, b); }
  Value product(const Value &a, const Value &b) { return frontend::product(n, a, b); }
  Value complement(const Value &x) { return sub(n, scalarLike(x, 1), x); }
  Value columns(const Value &x, int64_t first, int64_t size) { return part(n, x, 1, first, size); }
  Value clip(const Value &x, float bound) { return frontend::clip(n, x, -bound, bound); }
  /// Precondition: has(activation.kind).
  Value activate(const Activation &activation, const Value &x) {
    const double alpha = activation.alpha, beta = activation.beta;
    switch (activation.kind) {
    case Kind::Affine:
      return frontend::add(n, frontend::mul(n, x, alpha), beta);
    case Kind::Elu:
      return elu(n, x, alpha);
    case Kind::HardSigmoid:
      return n.emit<graph::HardSigmoidOp>(x.kind, x.shape, n.value(x), n.builder().getF32FloatAttr(float(alpha)),
                                          n.builder().getF32FloatAttr(float(beta)));
    case Kind::LeakyRelu:
      return n.emit<graph::LeakyReluOp>(x.kind, x.shape, n.value(x), n.builder().getF32FloatAttr(float(alpha)));
    case Kind::Relu:
      return n.emitUnary<graph::ReluOp>(x);
    case Kind::ScaledTanh:
      return frontend::mul(n, n.emitUnary<graph::TanhOp>(frontend::mul(n, x, beta)), alpha);
    case Kind::Sigmoid:
      return n.emitUnary<graph::SigmoidOp>(x);
    case Kind::Softsign:
      return div(n, x, frontend::add(n, n.emitUnary<graph::AbsOp>(x), 1));
    case Kind::Tanh:
      return n.emitUnary<graph::TanhOp>(x);
    case Kind::Softplus:
    case Kind::ThresholdedRelu:
      break;
    }
    llvm_unreachable("no op of the graph dialect computes it");
  }

private:
  const Node &n;
};

/// ONNX nodes of the body of a Scan.
class ScanStep {
public:
  using Value = std::string;

  static constexpr int64_t kOpset = 13;

  /// Nodes have the name `name`, so that a report says of the layer what becomes of them.
  ScanStep(std::string name, ElementKind kind) : name(std::move(name)), kind(kind) {}

  onnx::GraphProto body;
  /// Weights that only a run knows, by the names that the body reads from around it.
  std::vector<std::pair<std::string, Tensor>> captured;

  Value weight(const Tensor &x) {
    const std::string made = fresh();
    if (x.constant)
      *body.add_initializer() = encodeTensor(*x.constant->tensor(), made);
    else
      captured.emplace_back(made, x);
    return made;
  }
  Value add(const Value &a, const Value &b) { return node("Add", {a, b}); }
  Value mul(const Value &a, const Value &b) { return node("Mul", {a, b}); }
  Value product(const Value &a, const Value &b) { return node("MatMul", {a, b}); }
  Value complement(const Value &x) { return node("Sub", {scalar(1), x}); }
  Value columns(const Value &x, int64_t first, int64_t size) {
    return node("Slice", {x, integer(first), integer(first + size), integer(1)});
  }
  Value clip(const Value &x, float bound) { return node("Clip", {x, scalar(-bound), scalar(bound)}); }
  Value activate(const Activation &activation, const Value &x) {
    const double alpha = activation.alpha, beta = activation.beta;
    switch (activation.kind) {
    case Kind::Affine:
      return add(mul(x, scalar(alpha)), scalar(beta));
    case Kind::Elu:
      return node("Elu", {x}, {{"alpha", alpha}});
    case Kind::HardSigmoid:
      return node("HardSigmoid", {x}, {{"alpha", alpha}, {"beta", beta}});
    case Kind::LeakyRelu:
      return node("LeakyRelu", {x}, {{"alpha", alpha}});
    case Kind::Relu:
      return node("Relu", {x});
    case Kind::ScaledTanh:
      return mul(node("Tanh", {mul(x, scalar(beta))}), scalar(alpha));
    case Kind::Sigmoid:
      return node("Sigmoid", {x});
    case Kind::Softplus:
      return node("Softplus", {x});
    case Kind::Softsign:
      return node("Softsign", {x});
    case Kind::Tanh:
      return node("Tanh", {x});
    case Kind::ThresholdedRelu:
      return node("ThresholdedRelu", {x}, {{"alpha", alpha}});
    }
    llvm_unreachable("an activation that nobody listed");
  }

  Value input(const std::string &made) {
    body.add_input()->set_name(made);
    return made;
  }
  /// A result of the body; one of its own, where several are the same value.
  void output(const Value &x) { body.add_output()->set_name(node("Identity", {x})); }

private:
  std::string fresh() { return "v" + std::to_string(next++); }
  Value node(const char *op, std::initializer_list<Value> operands,
             std::initializer_list<std::pair<const char *, double>> attributes = {}) {
    onnx::NodeProto &made = *body.add_node();
    made.set_op_type(op);
    made.set_name(name);
    for (const Value &operand : operands)
      made.add_input(operand);
    for (auto [key, number] : attributes) {
      onnx::AttributeProto &attribute = *made.add_attribute();
      attribute.set_name(key);
      attribute.set_type(onnx::AttributeProto::FLOAT);
      attribute.set_f(float(number));
    }
    made.add_output(fresh());
    return made.output(0);
  }
  Value scalar(double x) { return weight(makeSplat(kind, {}, x)); }
  Value integer(int64_t x) { return weight(makeSplat(ElementKind::I64, {1}, double(x))); }

  std::string name;
  ElementKind kind;
  int next = 0;
};

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// What a step reads and writes, [batch, hidden]; nothing stands for zeros.
template <typename Value> struct State { std::optional<Value> h, c; };

/// One step of a direction. `xw`: x * W of the step, [batch, gates * hidden], with the biases that are not in `direction`.
template <typename Step>
using Cell = void (*)(Step &step, const Layer &layer, const Direction &direction, const typename Step::Value &xw,
                      State<typename Step::Value> &state);

template <typename Step>
typename Step::Value activate(Step &step, const Layer &layer, const Activation &activation, const typename Step::Value &x) {
  return step.activate(activation, layer.clip > 0 ? step.clip(x, layer.clip) : x);
}

template <typename Step>
void stepRnn(Step &step, const Layer &layer, const Direction &direction, const typename Step::Value &xw,
             State<typename Step::Value> &state) {
  typename Step::Value sum = xw;
  if (state.h)
    sum = step.add(sum, step.product(*state.h, step.weight(direction.r[0])));
  state.h = activate(step, layer, direction.activations[0], sum);
}

/// Gates z, r, h. R is in two parts: the first two gates, and the last.
template <typename Step>
void stepGru(Step &step, const Layer &layer, const Direction &direction, const typename Step::Value &xw,
             State<typename Step::Value> &state) {
  using Value = typename Step::Value;
  const int64_t hidden = layer.hidden;
  Value gates = step.columns(xw, 0, 2 * hidden), candidate = step.columns(xw, 2 * hidden, hidden);
  if (state.h)
    gates = step.add(gates, step.product(*state.h, step.weight(direction.r[0])));
  gates = activate(step, layer, direction.activations[0], gates);
  const Value update = step.columns(gates, 0, hidden), reset = step.columns(gates, hidden, hidden);
  if (layer.isLinearBefore) {
    std::optional<Value> turned;
    if (state.h)
      turned = step.product(*state.h, step.weight(direction.r[1]));
    if (direction.resetBias) {
      const Value bias = step.weight(*direction.resetBias);
      turned = turned ? step.add(*turned, bias) : bias;
    }
    if (turned)
      candidate = step.add(candidate, step.mul(reset, *turned));
  } else if (state.h) {
    candidate = step.add(candidate, step.product(step.mul(reset, *state.h), step.weight(direction.r[1])));
  }
  Value fresh = step.mul(step.complement(update), activate(step, layer, direction.activations[1], candidate));
  state.h = state.h ? step.add(fresh, step.mul(update, *state.h)) : fresh;
}

/// Gates i, o, f, c.
template <typename Step>
void stepLstm(Step &step, const Layer &layer, const Direction &direction, const typename Step::Value &xw,
              State<typename Step::Value> &state) {
  using Value = typename Step::Value;
  const int64_t hidden = layer.hidden;
  Value sum = xw;
  if (state.h)
    sum = step.add(sum, step.product(*state.h, step.weight(direction.r[0])));
  const bool hasPeepholes = !direction.p.empty();
  std::optional<Value> gates; // together, where each needs its part of the sum alone
  if (!hasPeepholes)
    gates = activate(step, layer, direction.activations[0], step.columns(sum, 0, 3 * hidden));
  auto gate = [&](int64_t i, const std::optional<Value> &c) {
    if (gates)
      return step.columns(*gates, i * hidden, hidden);
    Value x = step.columns(sum, i * hidden, hidden);
    if (c)
      x = step.add(x, step.mul(step.weight(direction.p[size_t(i)]), *c));
    return activate(step, layer, direction.activations[0], x);
  };
  const Value in = gate(0, state.c);
  Value fresh = step.mul(in, activate(step, layer, direction.activations[1], step.columns(sum, 3 * hidden, hidden)));
  if (state.c) {
    const Value forget = layer.isCoupled ? step.complement(in) : gate(2, state.c);
    fresh = step.add(step.mul(forget, *state.c), fresh);
  }
  state.c = fresh;
  state.h = step.mul(gate(1, state.c), activate(step, layer, direction.activations[2], fresh));
}

/// The step where `mask`, [batch, 1], is 1; where it is 0 the state stays, and the result of the step is 0.
template <typename Step>
typename Step::Value maskedStep(Step &step, Cell<Step> cell, const Layer &layer, const Direction &direction,
                                const typename Step::Value &xw, const std::optional<typename Step::Value> &mask,
                                State<typename Step::Value> &state) {
  const State<typename Step::Value> old = state;
  cell(step, layer, direction, xw, state);
  if (!mask)
    return *state.h;
  auto choose = [&](std::optional<typename Step::Value> &fresh, const std::optional<typename Step::Value> &before) {
    if (!fresh)
      return;
    fresh = step.mul(*fresh, *mask);
    if (before)
      fresh = step.add(*fresh, step.mul(*before, step.complement(*mask)));
  };
  choose(state.h, old.h);
  choose(state.c, old.c);
  return step.mul(*state.h, *mask);
}

/// A layer's type: how many gates it has, its activations, its steps, and how R and the biases enter them.
struct Recipe {
  int64_t gates;
  std::vector<std::string> activations;
  bool hasCellState;
  Cell<UnrolledStep> unrolled;
  Cell<ScanStep> scanned;
};

} // namespace

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

static Layer readLayer(Node &n, const Recipe &recipe) {
  requireFloats(n, {1, 2, 3, 5, 6, 7});
  if (n.opset() < 7)
    n.inexpressible("it is of an opset below 7");
  Layer layer;
  const Tensor &x = n.input(0, "X"), &w = n.input(1, "W"), &r = n.input(2, "R");
  requireShape(n, x, "X", {-1, -1, -1});
  const std::string direction = n.stringAttr("direction", "forward");
  if (direction == "bidirectional")
    layer.reversed = {false, true};
  else if (direction == "forward" || direction == "reverse")
    layer.reversed = {direction == "reverse"};
  else
    n.fail("direction is \"" + direction + "\", expected forward, reverse or bidirectional");
  layer.isBatchFirst = n.flagAttr("layout", false);
  layer.steps = x.shape[layer.isBatchFirst ? 1 : 0];
  layer.batch = x.shape[layer.isBatchFirst ? 0 : 1];
  layer.inputs = x.shape[2];
  layer.gates = recipe.gates;
  requireShape(n, r, "R", {layer.directions(), -1, -1});
  layer.hidden = r.shape[2];
  if (const int64_t given = n.intAttr("hidden_size", layer.hidden); given != layer.hidden)
    n.fail("hidden_size is " + llvm::Twine(given) + ", R has shape " + formatShape(r.shape));
  requireShape(n, r, "R", {layer.directions(), layer.width(), layer.hidden});
  requireShape(n, w, "W", {layer.directions(), layer.width(), layer.inputs});
  if (n.has(3))
    requireShape(n, n.input(3, "B"), "B", {layer.directions(), 2 * layer.width()});
  layer.lengths.assign(size_t(layer.batch), layer.steps);
  if (n.has(4)) {
    const Constant &lengths = *n.constant(4, "sequence_lens");
    requireShape(n, n.input(4, "sequence_lens"), "sequence_lens", {layer.batch});
    for (int64_t i = 0; i < layer.batch; ++i) {
      layer.lengths[size_t(i)] = lengths.integer(i);
      if (lengths.integer(i) < 0 || lengths.integer(i) > layer.steps)
        n.fail("sequence_lens has " + llvm::Twine(lengths.integer(i)) + ", X has " + llvm::Twine(layer.steps) + " steps");
    }
  }
  if (n.has(7))
    requireShape(n, n.input(7, "P"), "P", {layer.directions(), 3 * layer.hidden});
  auto numbers = [&](const char *name) { return n.hasAttr(name) ? n.floatsAttr(name) : std::vector<float>(); };
  try {
    layer.activations = operators::recurrentActivations(n.stringsAttr("activations"), recipe.activations, layer.directions(),
                                                        numbers("activation_alpha"), numbers("activation_beta"));
  } catch (const operators::Error &error) {
    n.fail(error.message);
  }
  layer.clip = n.floatAttr("clip", 0.f);
  if (layer.clip < 0)
    n.fail("clip is " + std::to_string(layer.clip) + ", expected at least 0");
  return layer;
}

/// X, [steps * batch, inputs], with zeros behind the end of each sequence, where anything may stand.
static Tensor inputsOf(const Node &n, const Layer &layer) {
  Tensor x = n.input(0, "X");
  if (layer.isBatchFirst)
    x = n.transpose(x, {1, 0, 2});
  if (layer.isRagged()) {
    llvm::SmallVector<Tensor> sequences;
    for (int64_t b = 0; b < layer.batch; ++b) {
      const int64_t length = layer.lengths[size_t(b)];
      llvm::SmallVector<Tensor> parts;
      if (length > 0)
        parts.push_back(part(n, part(n, x, 1, b, 1), 0, 0, length));
      if (length < layer.steps)
        parts.push_back(makeSplat(x.kind, {layer.steps - length, 1, layer.inputs}, 0));
      sequences.push_back(parts.size() == 1 ? parts[0] : n.concat(parts, 0));
    }
    x = sequences.size() == 1 ? sequences[0] : n.concat(sequences, 1);
  }
  return n.reshape(x, {layer.steps * layer.batch, layer.inputs});
}

/// 1 where a step is in a sequence, 0 behind its end: [steps, batch, 1]. Nothing where all are.
static std::optional<Tensor> maskOf(const Node &n, const Layer &layer, ElementKind kind) {
  if (!layer.isRagged())
    return std::nullopt;
  llvm::SmallVector<Tensor> sequences;
  for (int64_t length : layer.lengths) {
    llvm::SmallVector<Tensor> parts;
    if (length > 0)
      parts.push_back(makeSplat(kind, {length, 1, 1}, 1));
    if (length < layer.steps)
      parts.push_back(makeSplat(kind, {layer.steps - length, 1, 1}, 0));
    sequences.push_back(parts.size() == 1 ? parts[0] : n.concat(parts, 0));
  }
  return sequences.size() == 1 ? sequences[0] : n.concat(sequences, 1);
}

/// Entry `d` along dim 0, which goes.
static Tensor entryOf(const Node &n, const Tensor &all, int64_t d) {
  Shape shape = all.shape;
  shape.erase(shape.begin());
  return n.reshape(part(n, all, 0, d, 1), shape);
}

static Direction readDirection(const Node &n, const Layer &layer, int64_t d) {
  const int64_t hidden = layer.hidden, width = layer.width();
  Direction direction;
  const size_t activations = layer.activations.size() / size_t(layer.directions());
  direction.activations = ArrayRef<Activation>(layer.activations).slice(size_t(d) * activations, activations);
  const Tensor r = n.transpose(entryOf(n, n.input(2, "R"), d), {1, 0});
  if (layer.gates == 3)
    direction.r = {part(n, r, 1, 0, 2 * hidden), part(n, r, 1, 2 * hidden, hidden)};
  else
    direction.r = {r};
  if (n.has(7))
    for (int64_t gate = 0; gate < 3; ++gate)
      direction.p.push_back(part(n, part(n, n.input(7, "P"), 0, d, 1), 1, gate * hidden, hidden));
  if (n.has(3)) {
    const Tensor both = part(n, n.input(3, "B"), 0, d, 1), wb = part(n, both, 1, 0, width), rb = part(n, both, 1, width, width);
    if (layer.isLinearBefore) { // the bias of R's last gate is under the reset
      const Tensor gates = add(n, part(n, wb, 1, 0, 2 * hidden), part(n, rb, 1, 0, 2 * hidden));
      direction.bias = n.concat({gates, part(n, wb, 1, 2 * hidden, hidden)}, 1);
      direction.resetBias = part(n, rb, 1, 2 * hidden, hidden);
    } else {
      direction.bias = add(n, wb, rb);
    }
  }
  return direction;
}

/// Entry `d` of a state that the node is given.
static std::optional<Tensor> initialState(const Node &n, const Layer &layer, size_t i, llvm::StringRef name, int64_t d) {
  if (!n.has(i))
    return std::nullopt;
  Tensor all = n.input(i, name);
  if (layer.isBatchFirst) {
    requireShape(n, all, name, {layer.batch, layer.directions(), layer.hidden});
    all = n.transpose(all, {1, 0, 2});
  }
  requireShape(n, all, name, {layer.directions(), layer.batch, layer.hidden});
  return entryOf(n, all, d);
}

//===----------------------------------------------------------------------===//
// All steps of a direction
//===----------------------------------------------------------------------===//

/// Ops of all steps, one behind the other. `xw`: [steps * batch, gates * hidden]. Returns the results of the steps, [steps, batch, hidden], if they
/// are wanted; `state` becomes the last one.
static std::optional<Tensor> unroll(const Node &n, const Layer &layer, const Recipe &recipe, const Direction &direction,
                                    bool isReversed, const Tensor &xw, State<Tensor> &state) {
  UnrolledStep step(n);
  const Tensor none = makeSplat(xw.kind, {layer.batch, layer.hidden}, 0);
  const std::optional<Tensor> masks = maskOf(n, layer, xw.kind);
  std::vector<Tensor> steps(size_t(layer.steps), none);
  for (int64_t i = 0; i < layer.steps; ++i) {
    const int64_t t = isReversed ? layer.steps - 1 - i : i;
    auto isIn = [&](int64_t length) { return t < length; };
    if (llvm::none_of(layer.lengths, isIn))
      continue;
    std::optional<Tensor> mask;
    if (!llvm::all_of(layer.lengths, isIn))
      mask = entryOf(n, *masks, t);
    steps[size_t(t)] =
        maskedStep(step, recipe.unrolled, layer, direction, part(n, xw, 0, t * layer.batch, layer.batch), mask, state);
  }
  for (std::optional<Tensor> *each : {&state.h, &state.c})
    if (!*each)
      *each = none;
  if (!n.wants(0))
    return std::nullopt;
  for (Tensor &each : steps)
    each = n.reshape(each, {1, layer.batch, layer.hidden});
  return n.concat(steps, 0);
}

static void setInts(onnx::NodeProto &node, const char *name, std::initializer_list<int64_t> values) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values)
    attribute.add_ints(value);
}

/// The same as a Scan.
static std::optional<Tensor> scan(const Node &n, const Layer &layer, const Recipe &recipe, const Direction &direction,
                                  bool isReversed, const Tensor &xw, State<Tensor> &state, llvm::StringRef reason) {
  const Tensor none = makeSplat(xw.kind, {layer.batch, layer.hidden}, 0);
  const Shape stateShape{layer.batch, layer.hidden};
  onnx::ModelProto model;
  onnx::OperatorSetIdProto &opset = *model.add_opset_import();
  opset.set_version(ScanStep::kOpset);
  onnx::GraphProto &graph = *model.mutable_graph();
  onnx::NodeProto &node = *graph.add_node();
  node.set_op_type("Scan");
  node.set_name(n.name());
  llvm::SmallVector<Tensor> operands;
  llvm::SmallVector<std::pair<ElementKind, Shape>> results;
  auto addInput = [&](const std::string &name, const Tensor &x, bool isRead) {
    graph.add_input()->set_name(name);
    operands.push_back(x);
    if (isRead)
      node.add_input(name);
  };
  auto addResult = [&](const char *name, const Shape &shape) {
    graph.add_output()->set_name(name);
    node.add_output(name);
    results.emplace_back(xw.kind, shape);
  };

  ScanStep step(n.name(), xw.kind);
  State<std::string> inside;
  addInput("initial_h", state.h.value_or(none), true);
  inside.h = step.input("h");
  addResult("last_h", stateShape);
  if (recipe.hasCellState) {
    addInput("initial_c", state.c.value_or(none), true);
    inside.c = step.input("c");
    addResult("last_c", stateShape);
  }
  addInput("xw", n.reshape(xw, {layer.steps, layer.batch, layer.width()}), true);
  const std::string xwOfStep = step.input("xw_of_step");
  const std::optional<Tensor> masks = maskOf(n, layer, xw.kind);
  std::optional<std::string> mask;
  if (masks) {
    addInput("mask", *masks, true);
    mask = step.input("mask_of_step");
  }
  const std::string y = maskedStep(step, recipe.scanned, layer, direction, xwOfStep, mask, inside);
  step.output(*inside.h);
  if (inside.c)
    step.output(*inside.c);
  step.output(y);
  addResult("y", {layer.steps, layer.batch, layer.hidden});
  for (const auto &[name, x] : step.captured)
    addInput(name, x, false);

  onnx::AttributeProto &body = *node.add_attribute();
  body.set_name("body");
  body.set_type(onnx::AttributeProto::GRAPH);
  *body.mutable_g() = step.body;
  onnx::AttributeProto &count = *node.add_attribute();
  count.set_name("num_scan_inputs");
  count.set_type(onnx::AttributeProto::INT);
  count.set_i(masks ? 2 : 1);
  if (masks)
    setInts(node, "scan_input_directions", {isReversed, isReversed});
  else
    setInts(node, "scan_input_directions", {isReversed});
  setInts(node, "scan_output_directions", {isReversed});

  const std::vector<Tensor> made = n.emitFallback(model, operands, results, reason);
  state.h = made[0];
  if (recipe.hasCellState)
    state.c = made[1];
  return made.back();
}

/// Why the steps are a Scan; empty: they are unrolled.
static std::string reasonAgainstUnrolling(const Layer &layer, const Tensor &r) {
  if (layer.steps > kMaxUnrolledSteps)
    return "X has " + std::to_string(layer.steps) + " steps, at most " + std::to_string(kMaxUnrolledSteps) +
           " are unrolled: the host calls each";
  if (layer.steps > 1 && layer.steps * countOf(r.shape) * elementBytes(r.kind) > kMaxUnrolledBytes)
    return "R is large, and unrolled steps would have a copy each: the host calls each of " + std::to_string(layer.steps);
  for (const Activation &activation : layer.activations)
    if (!UnrolledStep::has(activation.kind))
      return "it has an activation that no kernel computes";
  return "";
}

/// Y, Y_h and, with a cell state, Y_c.
static Tensors importLayer(Node &n, const Layer &layer, const Recipe &recipe) {
  const Tensor x = inputsOf(n, layer);
  const std::string reason = reasonAgainstUnrolling(layer, n.input(2, "R"));
  llvm::SmallVector<Tensor> sequences, lastStates, lastCells;
  for (int64_t d = 0; d < layer.directions(); ++d) {
    const Direction direction = readDirection(n, layer, d);
    Tensor xw = product(n, x, n.transpose(entryOf(n, n.input(1, "W"), d), {1, 0}));
    if (direction.bias)
      xw = add(n, xw, *direction.bias);
    State<Tensor> state;
    state.h = initialState(n, layer, 5, "initial_h", d);
    if (recipe.hasCellState)
      state.c = initialState(n, layer, 6, "initial_c", d);
    const bool isReversed = layer.reversed[size_t(d)];
    const std::optional<Tensor> steps = reason.empty() ? unroll(n, layer, recipe, direction, isReversed, xw, state)
                                                       : scan(n, layer, recipe, direction, isReversed, xw, state, reason);
    if (steps && n.wants(0))
      sequences.push_back(n.reshape(*steps, {layer.steps, 1, layer.batch, layer.hidden}));
    lastStates.push_back(n.reshape(*state.h, {1, layer.batch, layer.hidden}));
    if (recipe.hasCellState)
      lastCells.push_back(n.reshape(*state.c, {1, layer.batch, layer.hidden}));
  }
  auto joined = [&](ArrayRef<Tensor> parts) {
    Tensor all = n.concat(parts, 0);
    return layer.isBatchFirst ? n.transpose(all, {1, 0, 2}) : all;
  };
  Tensors results;
  results.push_back(n.wants(0) ? n.concat(sequences, 1) : Tensor());
  if (n.wants(0) && layer.isBatchFirst)
    results[0] = n.transpose(results[0], {2, 0, 1, 3});
  results.push_back(n.wants(1) ? joined(lastStates) : Tensor());
  if (recipe.hasCellState)
    results.push_back(n.wants(2) ? joined(lastCells) : Tensor());
  return results;
}

static Tensors importRnn(Node &n) {
  n.checkInputCount(3, 6);
  const Recipe recipe{1, {"Tanh"}, false, stepRnn<UnrolledStep>, stepRnn<ScanStep>};
  return importLayer(n, readLayer(n, recipe), recipe);
}

static Tensors importGru(Node &n) {
  n.checkInputCount(3, 6);
  const Recipe recipe{3, {"Sigmoid", "Tanh"}, false, stepGru<UnrolledStep>, stepGru<ScanStep>};
  Layer layer = readLayer(n, recipe);
  layer.isLinearBefore = n.flagAttr("linear_before_reset", false);
  return importLayer(n, layer, recipe);
}

static Tensors importLstm(Node &n) {
  n.checkInputCount(3, 8);
  const Recipe recipe{4, {"Sigmoid", "Tanh", "Tanh"}, true, stepLstm<UnrolledStep>, stepLstm<ScanStep>};
  Layer layer = readLayer(n, recipe);
  layer.isCoupled = n.flagAttr("input_forget", false);
  return importLayer(n, layer, recipe);
}

void addRecurrentImports(ImportTable &table) {
  table[":RNN"] = composed<importRnn>;
  table[":GRU"] = composed<importGru>;
  table[":LSTM"] = composed<importLstm>;
}

} // namespace tw::frontend
