//===- OperatorTest.cpp - Random operators against plain loops ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What ONNX's node tests leave out: groups, dilation, many channels, more than
// one tile, batches, broadcasting in every dim, all types. Models are made at
// random (each from its own seed), compiled, run on the SystemC model and the
// functional model, and compared with loops written here after the operators'
// definitions. Integers must be equal, floats may differ by the order of sums.
//===----------------------------------------------------------------------===//
#include "tests/e2e/models/SimulatedNetwork.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <random>
#include <set>

using namespace tw;
using frontend::ElementKind;
using frontend::HostTensor;
using Shape = std::vector<int64_t>;
using Numbers = std::vector<double>;

namespace {

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

int64_t sizeOf(const Shape &shape) {
  int64_t size = 1;
  for (int64_t dim : shape)
    size *= dim;
  return size;
}

std::string print(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? "," : "") + std::to_string(shape[i]);
  return text + "]";
}

/// A tensor of numbers, all of which `kind` holds exactly (float32: after rounding).
struct Values {
  Shape shape;
  ElementKind kind = ElementKind::F32;
  Numbers at;
};

HostTensor hostTensor(const std::string &name, const Values &values) {
  HostTensor tensor{name, values.kind, values.shape, {}};
  auto append = [&](auto value) {
    auto *bytes = reinterpret_cast<const uint8_t *>(&value);
    tensor.bytes.insert(tensor.bytes.end(), bytes, bytes + sizeof(value));
  };
  for (double number : values.at)
    switch (values.kind) {
    case ElementKind::F32:
      append(float(number));
      break;
    case ElementKind::I32:
      append(int32_t(number));
      break;
    case ElementKind::I64:
      append(int64_t(number));
      break;
    case ElementKind::I8:
      append(int8_t(number));
      break;
    default:
      append(uint8_t(number));
    }
  return tensor;
}

int32_t onnxType(ElementKind kind) {
  switch (kind) {
  case ElementKind::F32:
    return onnx::TensorProto::FLOAT;
  case ElementKind::I32:
    return onnx::TensorProto::INT32;
  case ElementKind::I64:
    return onnx::TensorProto::INT64;
  case ElementKind::I8:
    return onnx::TensorProto::INT8;
  default:
    return onnx::TensorProto::UINT8;
  }
}

/// Random choices. Only the generator of the standard library is the same everywhere, not its distributions.
class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  int64_t pick(int64_t low, int64_t high) { return low + int64_t(engine() % uint64_t(high - low + 1)); }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  template <typename T> T one(std::initializer_list<T> list) { return list.begin()[pick(0, int64_t(list.size()) - 1)]; }
  double real(double low, double high) { return double(float(low + (high - low) * double(pick(0, 1 << 20)) / (1 << 20))); }

  Values tensor(ElementKind kind, const Shape &shape, double low, double high) {
    Values values{shape, kind, {}};
    for (int64_t i = 0; i < sizeOf(shape); ++i)
      values.at.push_back(kind == ElementKind::F32 ? real(low, high) : double(pick(int64_t(low), int64_t(high))));
    return values;
  }
  /// The whole range of an 8-bit type; smaller ranges of others.
  Values tensor(ElementKind kind, const Shape &shape) {
    if (kind == ElementKind::I8)
      return tensor(kind, shape, -128, 127);
    if (kind == ElementKind::U8)
      return tensor(kind, shape, 0, 255);
    return kind == ElementKind::I32 ? tensor(kind, shape, -100000, 100000) : tensor(kind, shape, -2, 2);
  }

private:
  std::mt19937 engine;
};

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

class Model {
public:
  explicit Model(int opset) {
    proto.set_ir_version(8);
    auto *own = proto.add_opset_import();
    own->set_version(opset);
    auto *microsoft = proto.add_opset_import();
    microsoft->set_domain("com.microsoft");
    microsoft->set_version(1);
    proto.mutable_graph()->set_name("test");
  }

  std::string input(const Values &values) {
    std::string name = "x" + std::to_string(inputs.size());
    declare(*proto.mutable_graph()->add_input(), name, values.kind, values.shape);
    inputs.push_back(hostTensor(name, values));
    return name;
  }

  std::string constant(const Values &values) {
    std::string name = "c" + std::to_string(proto.graph().initializer_size());
    onnx::TensorProto *tensor = proto.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnxType(values.kind));
    for (int64_t dim : values.shape)
      tensor->add_dims(dim);
    HostTensor host = hostTensor(name, values);
    tensor->set_raw_data(host.bytes.data(), host.bytes.size());
    return name;
  }
  std::string scalar(ElementKind kind, double value) { return constant({{}, kind, {value}}); }
  std::string ints(const Shape &values) {
    return constant({{int64_t(values.size())}, ElementKind::I64, Numbers(values.begin(), values.end())});
  }

  std::string node(const std::string &type, const std::vector<std::string> &operands,
                   const std::function<void(onnx::NodeProto &)> &attributes = nullptr) {
    onnx::NodeProto *node = proto.mutable_graph()->add_node();
    node->set_op_type(type);
    std::string name = "n" + std::to_string(proto.graph().node_size());
    node->set_name(name);
    for (const std::string &operand : operands)
      node->add_input(operand);
    node->add_output(name);
    if (attributes)
      attributes(*node);
    return name;
  }

  /// Compiles, runs, and compares with `expected`. `tolerance`: allowed difference by the largest number of `expected`;
  /// `absolute`: the same as it is.
  void check(const std::string &result, const Values &expected, const std::string &machine, accel::Schedule schedule,
             double tolerance = 0, double absolute = 0) {
    declare(*proto.mutable_graph()->add_output(), result, expected.kind, expected.shape);
    auto network = e2e::SimulatedNetwork::compileBytes(proto.SerializeAsString(), "test", machine, {}, schedule);
    ASSERT_TRUE(bool(network)) << network.message();
    auto run = (*network)->run(inputs, /*functional=*/true);
    ASSERT_TRUE(bool(run)) << run.message();
    EXPECT_GE(run->result.totalCycles, (*network)->compiled().lowerBoundCycles);
    ASSERT_EQ(run->outputs.size(), 1u);
    ASSERT_EQ(run->outputs[0].shape, expected.shape);
    ASSERT_EQ(run->outputs[0].type, expected.kind);
    Numbers actual = e2e::numbersOf(run->outputs[0]);
    double largest = tolerance > 0 ? 1 : 0; // sums of small numbers may cancel
    for (double number : expected.at)
      largest = std::max(largest, std::abs(number));
    size_t wrong = 0;
    for (size_t i = 0; i < actual.size(); ++i)
      if (!(std::abs(actual[i] - expected.at[i]) <= tolerance * largest + absolute) && wrong++ < 3)
        ADD_FAILURE() << "element " << i << " is " << actual[i] << " instead of " << expected.at[i];
    EXPECT_EQ(wrong, 0u) << "of " << actual.size();
  }

private:
  static void declare(onnx::ValueInfoProto &info, const std::string &name, ElementKind kind, const Shape &shape) {
    info.set_name(name);
    auto *type = info.mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnxType(kind));
    auto *dims = type->mutable_shape(); // of a scalar there are none
    for (int64_t dim : shape)
      dims->add_dim()->set_dim_value(dim);
  }

  onnx::ModelProto proto;
  std::vector<HostTensor> inputs;
};

void setInt(onnx::NodeProto &node, const char *name, int64_t value) {
  auto *attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

void setFloat(onnx::NodeProto &node, const char *name, float value) {
  auto *attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::FLOAT);
  attribute->set_f(value);
}

void setInts(onnx::NodeProto &node, const char *name, const Shape &values) {
  auto *attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values)
    attribute->add_ints(value);
}

/// One seed; the parameter of every test here.
class OperatorTest : public testing::TestWithParam<unsigned> {
protected:
  Random random{GetParam() * 7919 + 17};
  accel::Schedule schedule = random.one({accel::Schedule::Serial, accel::Schedule::DoubleBuffer, accel::Schedule::Pipelined});
  std::string integerMachine = random.one({"tiny_8x8", "gemmini_16x16_int8", "vdla_16x16"});
  bool bfloat = random.chance(25);
  std::string floatMachine = bfloat ? "gemmini_16x16_bf16" : "gemmini_16x16_fp32";
  /// bfloat16 has 8 significant bits: wrong elements show, not wrong digits.
  double floatTolerance = bfloat ? 3e-2 : 1e-5;
  /// Machines differ in nothing but sizes where the array is not needed; the tiny one has the most tiles.
  std::string anyMachine = random.one({"tiny_8x8", "gemmini_16x16_fp32", "vdla_16x16"});
};

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

struct Window {
  int64_t n, h, w, kh, kw;
  Shape strides, dilations, pads; ///< pads: top, left, bottom, right
  int64_t oh() const { return (h + pads[0] + pads[2] - ((kh - 1) * dilations[0] + 1)) / strides[0] + 1; }
  int64_t ow() const { return (w + pads[1] + pads[3] - ((kw - 1) * dilations[1] + 1)) / strides[1] + 1; }

  static Window make(Random &random, bool dilated = true) {
    while (true) {
      Window window;
      int64_t most = random.one<int64_t>({3, 8, 20, 33});
      window.n = random.one<int64_t>({1, 1, 1, 2, 3});
      window.h = random.pick(1, most);
      window.w = random.pick(1, most);
      window.kh = random.pick(1, random.one<int64_t>({1, 3, 5}));
      window.kw = random.pick(1, random.one<int64_t>({1, 3, 7}));
      window.strides = {random.one<int64_t>({1, 1, 2, 3}), random.one<int64_t>({1, 1, 2, 3})};
      window.dilations = {1, 1};
      if (dilated && random.chance(30))
        window.dilations = {random.pick(1, 3), random.pick(1, 2)};
      window.pads = {0, 0, 0, 0};
      if (random.chance(70))
        window.pads = {random.pick(0, window.kh - 1), random.pick(0, window.kw - 1), random.pick(0, window.kh - 1),
                       random.pick(0, window.kw - 1)};
      auto fits = [](int64_t size, int64_t before, int64_t behind, int64_t kernel, int64_t dilation) {
        return size + before + behind >= (kernel - 1) * dilation + 1;
      };
      if (fits(window.h, window.pads[0], window.pads[2], window.kh, window.dilations[0]) &&
          fits(window.w, window.pads[1], window.pads[3], window.kw, window.dilations[1]))
        return window;
    }
  }

  void set(onnx::NodeProto &node, bool dilated = true) const {
    setInts(node, "kernel_shape", {kh, kw});
    setInts(node, "strides", strides);
    setInts(node, "pads", pads);
    if (dilated)
      setInts(node, "dilations", dilations);
  }

  /// Calls visit(y, x, tap row, tap column) for the taps of output position (oy, ox) that lie in the image.
  template <typename Visit> void taps(int64_t oy, int64_t ox, Visit visit) const {
    for (int64_t ky = 0; ky < kh; ++ky)
      for (int64_t kx = 0; kx < kw; ++kx) {
        int64_t y = oy * strides[0] + ky * dilations[0] - pads[0], x = ox * strides[1] + kx * dilations[1] - pads[1];
        if (y >= 0 && y < h && x >= 0 && x < w)
          visit(y, x, ky, kx);
      }
  }
  std::string text() const {
    return "n " + std::to_string(n) + " image " + print({h, w}) + " kernel " + print({kh, kw}) + " strides " + print(strides) +
           " dilations " + print(dilations) + " pads " + print(pads);
  }
};

struct Channels {
  int64_t groups = 1, in = 1, out = 1; ///< in, out: of one group

  static Channels make(Random &random) {
    int64_t most = random.one<int64_t>({4, 20, 40, 80});
    switch (random.pick(0, 5)) {
    case 0: // depthwise
      return {random.pick(2, most), 1, 1};
    case 1:
      return {random.pick(2, 5), random.pick(1, 12), random.pick(1, 12)};
    case 2: // depthwise with several outputs each
      return {random.pick(2, 12), 1, random.pick(2, 3)};
    default:
      return {1, random.pick(1, most), random.pick(1, most)};
    }
  }
  std::string text() const {
    return " groups " + std::to_string(groups) + " of " + std::to_string(in) + " to " + std::to_string(out);
  }
};

/// Sums of products, before bias and scale. Float sums in double.
Values convolve(const Values &x, const Values &w, const Window &window, const Channels &c, double xZero, double wZero) {
  Values y{{window.n, c.groups * c.out, window.oh(), window.ow()}, ElementKind::I32, {}};
  for (int64_t n = 0; n < window.n; ++n)
    for (int64_t o = 0; o < c.groups * c.out; ++o)
      for (int64_t oy = 0; oy < window.oh(); ++oy)
        for (int64_t ox = 0; ox < window.ow(); ++ox) {
          double sum = 0;
          window.taps(oy, ox, [&](int64_t iy, int64_t ix, int64_t ky, int64_t kx) {
            for (int64_t i = 0; i < c.in; ++i) {
              int64_t channel = o / c.out * c.in + i;
              sum += (x.at[size_t(((n * c.groups * c.in + channel) * window.h + iy) * window.w + ix)] - xZero) *
                     (w.at[size_t(((o * c.in + i) * window.kh + ky) * window.kw + kx)] - wZero);
            }
          });
          y.at.push_back(sum);
        }
  return y;
}

TEST_P(OperatorTest, Conv) {
  Window window = Window::make(random);
  Channels c = Channels::make(random);
  SCOPED_TRACE(floatMachine + " " + window.text() + c.text());
  Values x = random.tensor(ElementKind::F32, {window.n, c.groups * c.in, window.h, window.w});
  Values w = random.tensor(ElementKind::F32, {c.groups * c.out, c.in, window.kh, window.kw});
  Values expected = convolve(x, w, window, c, 0, 0);
  expected.kind = ElementKind::F32;
  int64_t outputs = c.groups * c.out, area = window.oh() * window.ow();
  Model model(13);
  bool weightsAtRunTime = random.chance(15);
  std::vector<std::string> operands{model.input(x), weightsAtRunTime ? model.input(w) : model.constant(w)};
  if (random.chance(60)) {
    Values bias = random.tensor(ElementKind::F32, {outputs});
    operands.push_back(model.constant(bias));
    for (size_t i = 0; i < expected.at.size(); ++i)
      expected.at[i] += bias.at[i / size_t(area) % size_t(outputs)];
  }
  std::string y = model.node("Conv", operands, [&](onnx::NodeProto &node) {
    window.set(node);
    setInt(node, "group", c.groups);
  });
  if (random.chance(30)) {
    Values other = random.tensor(ElementKind::F32, expected.shape);
    y = model.node("Add", {y, model.input(other)});
    for (size_t i = 0; i < expected.at.size(); ++i)
      expected.at[i] += other.at[i];
  }
  if (random.chance(40)) {
    y = model.node("Relu", {y});
    for (double &number : expected.at)
      number = std::max(number, 0.0);
  }
  model.check(y, expected, floatMachine, schedule, floatTolerance);
}

/// sat(rne(fp32(sum) * multiplier) + zero point). source: docs/design/quantised-arithmetic.md
double requantised(double sum, float multiplier, double zero, ElementKind kind) {
  double low = kind == ElementKind::U8 ? 0 : -128;
  double rounded = std::nearbyint(float(sum) * multiplier);
  return std::min(std::max(rounded + zero, low), low + 255);
}

TEST_P(OperatorTest, QLinearConv) {
  Window window = Window::make(random);
  Channels c = Channels::make(random);
  SCOPED_TRACE(integerMachine + " " + window.text() + c.text());
  int64_t outputs = c.groups * c.out, area = window.oh() * window.ow();
  ElementKind xKind = random.one({ElementKind::I8, ElementKind::U8}), wKind = random.one({ElementKind::I8, ElementKind::U8});
  auto zero = [&](ElementKind kind) { return double(kind == ElementKind::U8 ? random.pick(0, 255) : random.pick(-128, 127)); };
  double xZero = zero(xKind), wZero = wKind == ElementKind::U8 ? zero(wKind) : 0, yZero = zero(xKind);
  Values x = random.tensor(xKind, {window.n, c.groups * c.in, window.h, window.w});
  Values w = random.tensor(wKind, {outputs, c.in, window.kh, window.kw});
  Values expected = convolve(x, w, window, c, xZero, wZero);
  expected.kind = xKind;
  // About the width of the result's range.
  float xScale = float(random.real(0.01, 0.1)),
        yScale = float(xScale * 0.02 * std::sqrt(double(c.in * window.kh * window.kw)) * 70);
  bool perChannel = random.chance(60);
  Values wScales = random.tensor(ElementKind::F32, perChannel ? Shape{outputs} : Shape{}, 0.01, 0.03);
  Values bias = random.tensor(ElementKind::I32, {outputs}, -20000, 20000);
  bool withBias = random.chance(70);
  for (size_t i = 0; i < expected.at.size(); ++i) {
    size_t o = i / size_t(area) % size_t(outputs);
    float multiplier = float(xScale * float(wScales.at[perChannel ? o : 0])) / yScale;
    expected.at[i] = requantised(expected.at[i] + (withBias ? bias.at[o] : 0), multiplier, yZero, xKind);
  }
  Model model(13);
  Values wZeros{perChannel ? Shape{outputs} : Shape{}, wKind, Numbers(size_t(perChannel ? outputs : 1), wZero)};
  std::vector<std::string> operands{model.input(x),
                                    model.scalar(ElementKind::F32, xScale),
                                    model.scalar(xKind, xZero),
                                    model.constant(w),
                                    model.constant(wScales),
                                    model.constant(wZeros),
                                    model.scalar(ElementKind::F32, yScale),
                                    model.scalar(xKind, yZero)};
  if (withBias)
    operands.push_back(model.constant(bias));
  std::string y = model.node("QLinearConv", operands, [&](onnx::NodeProto &node) {
    window.set(node);
    setInt(node, "group", c.groups);
  });
  model.check(y, expected, integerMachine, schedule);
}

TEST_P(OperatorTest, ConvInteger) {
  Window window = Window::make(random);
  Channels c = Channels::make(random);
  SCOPED_TRACE(integerMachine + " " + window.text() + c.text());
  ElementKind xKind = random.one({ElementKind::I8, ElementKind::U8});
  double xZero = xKind == ElementKind::U8 ? double(random.pick(0, 255)) : double(random.pick(-128, 127));
  Values x = random.tensor(xKind, {window.n, c.groups * c.in, window.h, window.w});
  Values w = random.tensor(ElementKind::I8, {c.groups * c.out, c.in, window.kh, window.kw});
  bool perChannel = random.chance(25), withZero = perChannel || random.chance(30);
  Values wZeros =
      random.tensor(ElementKind::I8, perChannel ? Shape{c.groups * c.out} : Shape{}, withZero ? -20 : 0, withZero ? 20 : 0);
  Values shifted = w;
  for (size_t i = 0; i < w.at.size(); ++i)
    shifted.at[i] -= wZeros.at[perChannel ? i / size_t(c.in * window.kh * window.kw) : 0];
  Values expected = convolve(x, shifted, window, c, xZero, 0);
  Model model(13);
  std::vector<std::string> operands{model.input(x), model.constant(w), model.scalar(xKind, xZero)};
  if (withZero)
    operands.push_back(model.constant(wZeros));
  std::string y = model.node("ConvInteger", operands, [&](onnx::NodeProto &node) {
    window.set(node);
    setInt(node, "group", c.groups);
  });
  model.check(y, expected, integerMachine, schedule);
}

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

struct Product {
  Shape aShape, bShape, yShape;
  int64_t batches = 1, m, k, n;
  bool aBatched, bBatched;

  static Product make(Random &random) {
    Product p;
    int64_t most = random.one<int64_t>({5, 20, 70, 150});
    p.m = random.one<int64_t>({1, random.pick(1, most), random.pick(1, most)});
    p.k = random.pick(1, most);
    p.n = random.pick(1, most);
    Shape batch;
    if (random.chance(40))
      batch.push_back(random.pick(2, 4));
    for (int64_t dim : batch)
      p.batches *= dim;
    p.aBatched = batch.empty() || random.chance(80);
    p.bBatched = !batch.empty() && (!p.aBatched || random.chance(50));
    p.aShape = p.aBatched ? batch : Shape{};
    p.bShape = p.bBatched ? batch : Shape{};
    p.yShape = batch;
    p.aShape.insert(p.aShape.end(), {p.m, p.k});
    p.bShape.insert(p.bShape.end(), {p.k, p.n});
    p.yShape.insert(p.yShape.end(), {p.m, p.n});
    return p;
  }
  /// `bZero`: per column, or one.
  Values multiply(const Values &a, const Values &b, double aZero, const Numbers &bZero) const {
    Values y{yShape, ElementKind::I32, {}};
    for (int64_t batch = 0; batch < batches; ++batch)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (int64_t l = 0; l < k; ++l)
            sum += (a.at[size_t(((aBatched ? batch : 0) * m + i) * k + l)] - aZero) *
                   (b.at[size_t(((bBatched ? batch : 0) * k + l) * n + j)] - bZero[bZero.size() > 1 ? size_t(j) : 0]);
          y.at.push_back(sum);
        }
    return y;
  }
  std::string text() const { return print(aShape) + " x " + print(bShape); }
};

TEST_P(OperatorTest, MatMul) {
  Product p = Product::make(random);
  SCOPED_TRACE(floatMachine + " " + p.text());
  Values a = random.tensor(ElementKind::F32, p.aShape), b = random.tensor(ElementKind::F32, p.bShape);
  Values expected = p.multiply(a, b, 0, {0});
  expected.kind = ElementKind::F32;
  Model model(13);
  std::string y = model.node("MatMul", {model.input(a), random.chance(50) ? model.constant(b) : model.input(b)});
  if (random.chance(50)) {
    Values bias = random.tensor(ElementKind::F32, {p.n});
    y = model.node("Add", {y, model.constant(bias)});
    for (size_t i = 0; i < expected.at.size(); ++i)
      expected.at[i] += bias.at[i % size_t(p.n)];
  }
  model.check(y, expected, floatMachine, schedule, floatTolerance);
}

TEST_P(OperatorTest, MatMulInteger) {
  Product p = Product::make(random);
  SCOPED_TRACE(integerMachine + " " + p.text());
  ElementKind aKind = random.one({ElementKind::I8, ElementKind::U8}), bKind = random.one({ElementKind::I8, ElementKind::U8});
  Values a = random.tensor(aKind, p.aShape), b = random.tensor(bKind, p.bShape);
  double aZero = random.tensor(aKind, {1}).at[0];
  bool perColumn = random.chance(30) && p.n > 1 && !p.bBatched;
  Values bZero = random.tensor(bKind, perColumn ? Shape{p.n} : Shape{});
  Values expected = p.multiply(a, b, aZero, bZero.at);
  const bool isKnown = random.chance(50); // else a run decides the zero point, as behind DynamicQuantizeLinear
  Model model(13);
  std::string y = model.node("MatMulInteger",
                             {model.input(a), random.chance(50) ? model.constant(b) : model.input(b),
                              isKnown ? model.scalar(aKind, aZero) : model.input({{}, aKind, {aZero}}), model.constant(bZero)});
  model.check(y, expected, integerMachine, schedule);
}

TEST_P(OperatorTest, Gemm) {
  int64_t m = random.pick(1, 40), k = random.pick(1, 90), n = random.pick(1, 90);
  bool ta = random.chance(40), tb = random.chance(50);
  float alpha = random.one({1.0f, 1.0f, 0.5f}), beta = random.one({1.0f, 1.0f, 0.25f});
  SCOPED_TRACE(floatMachine + " " + print({m, k, n}));
  Values a = random.tensor(ElementKind::F32, ta ? Shape{k, m} : Shape{m, k}),
         b = random.tensor(ElementKind::F32, tb ? Shape{n, k} : Shape{k, n});
  Values c = random.tensor(ElementKind::F32, random.one<Shape>({{n}, {1, n}, {m, n}, {m, 1}, {1}}));
  Values expected{{m, n}, ElementKind::F32, {}};
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += a.at[size_t(ta ? l * m + i : i * k + l)] * b.at[size_t(tb ? j * k + l : l * n + j)];
      bool rows = c.shape.size() == 2 && c.shape[0] == m && m > 1, columns = c.shape.back() == n && n > 1;
      int64_t at = (rows ? i * (columns ? n : 1) : 0) + (columns ? j : 0);
      expected.at.push_back(alpha * sum + beta * c.at[size_t(at)]);
    }
  Model model(13);
  std::string y =
      model.node("Gemm", {model.input(a), random.chance(70) ? model.constant(b) : model.input(b), model.constant(c)},
                 [&](onnx::NodeProto &node) {
                   setFloat(node, "alpha", alpha);
                   setFloat(node, "beta", beta);
                   setInt(node, "transA", ta);
                   setInt(node, "transB", tb);
                 });
  model.check(y, expected, floatMachine, schedule, floatTolerance);
}

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

TEST_P(OperatorTest, Pool) {
  bool average = random.chance(50);
  Window window = Window::make(random, /*dilated=*/!average);
  int64_t channels = random.pick(1, 40);
  ElementKind kind = average ? ElementKind::F32 : random.one({ElementKind::F32, ElementKind::I8, ElementKind::U8});
  bool countPadding = random.chance(50);
  SCOPED_TRACE(anyMachine + (average ? " average " : " max ") + frontend::elementName(kind) + " " + window.text() +
               " channels " + std::to_string(channels));
  Values x = random.tensor(kind, {window.n, channels, window.h, window.w});
  Values expected{{window.n, channels, window.oh(), window.ow()}, kind, {}};
  bool empty = false;
  for (int64_t plane = 0; plane < window.n * channels; ++plane)
    for (int64_t oy = 0; oy < window.oh(); ++oy)
      for (int64_t ox = 0; ox < window.ow(); ++ox) {
        double sum = 0, most = -INFINITY;
        int64_t count = 0;
        window.taps(oy, ox, [&](int64_t iy, int64_t ix, int64_t, int64_t) {
          double number = x.at[size_t((plane * window.h + iy) * window.w + ix)];
          sum += number;
          most = std::max(most, number);
          ++count;
        });
        empty |= count == 0;
        expected.at.push_back(average ? sum / double(countPadding ? window.kh * window.kw : count) : most);
      }
  if (empty)
    GTEST_SKIP() << "a window without elements has no defined result";
  Model model(13);
  std::string y = model.node(average ? "AveragePool" : "MaxPool", {model.input(x)}, [&](onnx::NodeProto &node) {
    window.set(node, !average);
    if (average)
      setInt(node, "count_include_pad", countPadding);
  });
  model.check(y, expected, anyMachine, schedule, average ? 1e-6 : 0);
}

//===----------------------------------------------------------------------===//
// Element by element
//===----------------------------------------------------------------------===//

double wrap(double value, ElementKind kind) {
  auto integer = int64_t(value);
  switch (kind) {
  case ElementKind::I8:
    return int8_t(integer);
  case ElementKind::U8:
    return uint8_t(integer);
  case ElementKind::I32:
    return int32_t(integer);
  default:
    return double(float(value));
  }
}

Shape randomShape(Random &random, int64_t leastRank, int64_t mostRank, int64_t elements = 6000) {
  while (true) {
    Shape shape;
    for (int64_t rank = random.pick(leastRank, mostRank); rank > 0; --rank)
      shape.push_back(random.pick(1, random.one<int64_t>({2, 5, 17, 40})));
    if (sizeOf(shape) <= elements)
      return shape;
  }
}

/// Index into a tensor of `shape` for element `index` of a tensor of shape `result`, to which it is broadcast.
int64_t broadcastIndex(int64_t index, const Shape &shape, const Shape &result) {
  int64_t at = 0, stride = 1;
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t coordinate = index % result[result.size() - 1 - i];
    index /= result[result.size() - 1 - i];
    if (i < shape.size()) {
      int64_t dim = shape[shape.size() - 1 - i];
      at += dim == 1 ? 0 : coordinate * stride;
      stride *= dim;
    }
  }
  return at;
}

TEST_P(OperatorTest, Binary) {
  ElementKind kind = random.one({ElementKind::F32, ElementKind::F32, ElementKind::I32, ElementKind::I8, ElementKind::U8});
  std::string type = random.one({"Add", "Sub", "Mul", "Div", "Max", "Min"});
  Shape shape = randomShape(random, 1, 4), other = shape;
  if (random.chance(60)) {
    for (int64_t &dim : other)
      if (random.chance(50))
        dim = 1;
    other.erase(other.begin(), other.begin() + random.pick(0, int64_t(other.size()) - 1));
  }
  bool swapped = random.chance(40), constant = random.chance(40);
  SCOPED_TRACE(anyMachine + " " + type + " " + frontend::elementName(kind) + " " + print(shape) + " " + print(other) +
               (swapped ? " swapped" : "") + (constant ? " constant" : ""));
  Values a = random.tensor(kind, shape), b = random.tensor(kind, other);
  if (type == "Div")
    for (double &number : (swapped ? a : b).at)
      number = number == 0 || std::abs(number) < 0.01 ? 1 : number;
  Values expected{shape, kind, {}};
  for (int64_t i = 0; i < sizeOf(shape); ++i) {
    double l = a.at[size_t(i)], r = b.at[size_t(broadcastIndex(i, other, shape))];
    if (swapped)
      std::swap(l, r);
    double y = type == "Add"   ? l + r
               : type == "Sub" ? l - r
               : type == "Mul" ? l * r
               : type == "Div" ? l / r
               : type == "Max" ? std::max(l, r)
                               : std::min(l, r);
    expected.at.push_back(wrap(kind == ElementKind::F32 ? y : std::trunc(y), kind));
  }
  Model model(14);
  std::string x = model.input(a), z = constant ? model.constant(b) : model.input(b);
  std::string y = swapped ? model.node(type, {z, x}) : model.node(type, {x, z});
  model.check(y, expected, anyMachine, schedule, kind == ElementKind::F32 ? 3e-7 : 0);
}

TEST_P(OperatorTest, Chain) {
  Shape shape = randomShape(random, 2, 4);
  Values expected = random.tensor(ElementKind::F32, shape, -4, 4);
  Model model(14);
  std::string y = model.input(expected), text = anyMachine + " " + print(shape);
  for (int64_t length = random.pick(1, 8); length > 0; --length) {
    auto apply = [&](const std::string &type, const std::vector<std::string> &more,
                     const std::function<double(double)> &function,
                     const std::function<void(onnx::NodeProto &)> &attributes = nullptr) {
      text += " " + type;
      std::vector<std::string> operands{y};
      operands.insert(operands.end(), more.begin(), more.end());
      y = model.node(type, operands, attributes);
      for (double &number : expected.at)
        number = float(function(number));
    };
    switch (random.pick(0, 11)) {
    case 0:
      apply("Relu", {}, [](double x) { return std::max(x, 0.0); });
      break;
    case 1:
      apply("Clip", {model.scalar(ElementKind::F32, -1), model.scalar(ElementKind::F32, 1.5)},
            [](double x) { return std::min(std::max(x, -1.0), 1.5); });
      break;
    case 2:
      apply("Sigmoid", {}, [](double x) { return 1 / (1 + std::exp(-x)); });
      break;
    case 3:
      apply("Tanh", {}, [](double x) { return std::tanh(x); });
      break;
    case 4:
      apply("HardSigmoid", {}, [](double x) { return std::min(std::max(0.2f * x + 0.5, 0.0), 1.0); });
      break;
    case 5:
      apply("HardSwish", {}, [](double x) { return x * std::min(std::max(x / 6 + 0.5, 0.0), 1.0); });
      break;
    case 6:
      apply(
          "LeakyRelu", {}, [](double x) { return x < 0 ? x * 0.125 : x; },
          [](onnx::NodeProto &node) { setFloat(node, "alpha", 0.125f); });
      break;
    case 7:
    case 8: {
      // Two functions of one value.
      auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
      auto leaky = [](double x) { return x < 0 ? x * 0.01f : x; };
      std::string type = random.one({"Mul", "Add", "Max"});
      bool right = random.chance(50), both = random.chance(50);
      std::string l = model.node("Sigmoid", {y}), r = both ? model.node("LeakyRelu", {y}) : y;
      text += " " + type + (right ? " of x and f(x)" : " of f(x) and x") + (both ? ", f'(x)" : "");
      y = right ? model.node(type, {r, l}) : model.node(type, {l, r});
      for (double &number : expected.at) {
        double a = sigmoid(number), b = both ? leaky(number) : number;
        number = float(type == "Mul" ? a * b : type == "Add" ? a + b : std::max(a, b));
      }
      break;
    }
    default: {
      // By a constant or a tensor, per channel or whole.
      bool add = random.chance(50);
      Shape other = random.one<Shape>({{}, {shape.back()}, shape});
      Values b = random.tensor(ElementKind::F32, other, -1.5, 1.5);
      text += add ? " Add" : " Mul";
      text += print(other);
      y = model.node(add ? "Add" : "Mul", {y, other == shape && random.chance(70) ? model.input(b) : model.constant(b)});
      for (int64_t i = 0; i < sizeOf(shape); ++i) {
        double r = b.at[size_t(broadcastIndex(i, other, shape))];
        double &number = expected.at[size_t(i)];
        number = float(add ? number + r : number * r);
      }
    }
    }
  }
  SCOPED_TRACE(text);
  model.check(y, expected, anyMachine, schedule, 1e-5);
}

TEST_P(OperatorTest, QuantizeAndDequantize) {
  Shape shape = randomShape(random, 2, 4);
  int64_t axis = random.pick(0, int64_t(shape.size()) - 1), channels = shape[size_t(axis)], inner = 1;
  for (size_t i = size_t(axis) + 1; i < shape.size(); ++i)
    inner *= shape[i];
  ElementKind kind = random.one({ElementKind::I8, ElementKind::U8});
  bool perChannel = random.chance(60);
  Shape parameters = perChannel ? Shape{channels} : Shape{};
  Values scales = random.tensor(ElementKind::F32, parameters, 0.01, 0.05), zeros = random.tensor(kind, parameters);
  bool back = random.chance(50);
  SCOPED_TRACE(anyMachine + " " + print(shape) + " axis " + std::to_string(axis) + (perChannel ? " per channel" : "") +
               (back ? " and back" : ""));
  Values x = random.tensor(ElementKind::F32, shape, -4, 4);
  Values expected{shape, back ? ElementKind::F32 : kind, {}};
  double low = kind == ElementKind::U8 ? 0 : -128;
  for (int64_t i = 0; i < sizeOf(shape); ++i) {
    size_t c = perChannel ? size_t(i / inner % channels) : 0;
    double q = std::nearbyint(float(x.at[size_t(i)]) / float(scales.at[c])) + zeros.at[c];
    q = std::min(std::max(q, low), low + 255);
    expected.at.push_back(back ? double(float(q - zeros.at[c]) * float(scales.at[c])) : q);
  }
  Model model(13);
  std::string s = model.constant(scales), z = model.constant(zeros);
  auto setAxis = [&](onnx::NodeProto &node) { setInt(node, "axis", axis); };
  std::string y = model.node("QuantizeLinear", {model.input(x), s, z}, setAxis);
  if (back)
    y = model.node("DequantizeLinear", {y, s, z}, setAxis);
  model.check(y, expected, anyMachine, schedule);
}

TEST_P(OperatorTest, Softmax) {
  Shape shape = randomShape(random, 1, 4);
  // A row lies in the scratchpad as a whole, four times.
  if (random.chance(30)) {
    shape = {random.pick(1, 3), random.pick(200, 1000)};
    anyMachine = random.one({"gemmini_16x16_fp32", "vdla_16x16"});
  }
  int64_t axis = random.pick(0, int64_t(shape.size()) - 1), inner = 1;
  for (size_t i = size_t(axis) + 1; i < shape.size(); ++i)
    inner *= shape[i];
  int64_t size = shape[size_t(axis)];
  SCOPED_TRACE(anyMachine + " " + print(shape) + " axis " + std::to_string(axis));
  Values x = random.tensor(ElementKind::F32, shape, -6, 6);
  Values expected{shape, ElementKind::F32, Numbers(x.at.size())};
  for (int64_t row = 0; row < sizeOf(shape) / size; ++row) {
    int64_t first = row / inner * inner * size + row % inner;
    double sum = 0;
    for (int64_t i = 0; i < size; ++i)
      sum += std::exp(x.at[size_t(first + i * inner)]);
    for (int64_t i = 0; i < size; ++i)
      expected.at[size_t(first + i * inner)] = std::exp(x.at[size_t(first + i * inner)]) / sum;
  }
  Model model(13);
  std::string y = model.node("Softmax", {model.input(x)}, [&](onnx::NodeProto &node) { setInt(node, "axis", axis); });
  model.check(y, expected, anyMachine, schedule, 1e-5);
}

TEST_P(OperatorTest, MaximumOfDequantised) {
  Window window = Window::make(random, false);
  window.pads = {0, 0, 0, 0};
  if (window.kh > window.h || window.kw > window.w)
    GTEST_SKIP() << "the image has no window";
  int64_t channels = random.pick(1, 40);
  double zero = double(random.pick(-128, 127)), scale = 0.25;
  SCOPED_TRACE(anyMachine + " " + window.text() + " channels " + std::to_string(channels) + " zero point " +
               std::to_string(int(zero)));
  Values x = random.tensor(ElementKind::I8, {window.n, channels, window.h, window.w});
  Values expected{{window.n, channels, window.oh(), window.ow()}, ElementKind::F32, {}};
  for (int64_t plane = 0; plane < window.n * channels; ++plane)
    for (int64_t oy = 0; oy < window.oh(); ++oy)
      for (int64_t ox = 0; ox < window.ow(); ++ox) {
        double most = -128;
        window.taps(oy, ox, [&](int64_t iy, int64_t ix, int64_t, int64_t) {
          most = std::max(most, x.at[size_t((plane * window.h + iy) * window.w + ix)]);
        });
        expected.at.push_back((most - zero) * scale);
      }
  Model model(13);
  std::string real = model.node("DequantizeLinear",
                                {model.input(x), model.scalar(ElementKind::F32, scale), model.scalar(ElementKind::I8, zero)});
  std::string y = model.node("MaxPool", {real}, [&](onnx::NodeProto &node) { window.set(node, false); });
  model.check(y, expected, integerMachine, schedule);
}

//===----------------------------------------------------------------------===//
// Reductions and normalisation
//===----------------------------------------------------------------------===//

TEST_P(OperatorTest, Reduce) {
  Shape shape = randomShape(random, 1, 4), axes, kept, result;
  for (size_t i = 0; i < shape.size(); ++i)
    if (random.chance(50))
      axes.push_back(int64_t(i));
  if (axes.empty())
    axes.push_back(random.pick(0, int64_t(shape.size()) - 1));
  bool keepdims = random.chance(50);
  std::string type = random.one({"ReduceSum", "ReduceMean", "ReduceMax"});
  std::set<int64_t> reduced(axes.begin(), axes.end());
  int64_t count = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    bool isReduced = reduced.count(int64_t(i)) > 0;
    count *= isReduced ? shape[i] : 1;
    kept.push_back(isReduced ? 1 : shape[i]);
    if (!isReduced || keepdims)
      result.push_back(kept.back());
  }
  bool follows = random.chance(40);
  SCOPED_TRACE(floatMachine + " " + type + " " + print(shape) + " axes " + print(axes) + (keepdims ? " kept" : "") +
               (follows ? ", Abs" : ""));
  Values x = random.tensor(ElementKind::F32, shape);
  Values expected{result, ElementKind::F32, Numbers(size_t(sizeOf(kept)), type == "ReduceMax" ? -INFINITY : 0.0)};
  Shape at(shape.size(), 0);
  for (double value : x.at) {
    int64_t index = 0;
    for (size_t i = 0; i < shape.size(); ++i)
      index = index * kept[i] + (kept[i] == 1 ? 0 : at[i]);
    double &sum = expected.at[size_t(index)];
    sum = type == "ReduceMax" ? std::max(sum, value) : sum + value / (type == "ReduceMean" ? double(count) : 1.0);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d])
        break;
      at[d] = 0;
    }
  }
  if (follows)
    for (double &value : expected.at)
      value = std::abs(value);
  Model model(13);
  std::vector<std::string> operands{model.input(x)};
  if (type == "ReduceSum")
    operands.push_back(model.ints(axes));
  std::string y = model.node(type, operands, [&](onnx::NodeProto &node) {
    if (type != "ReduceSum")
      setInts(node, "axes", axes);
    setInt(node, "keepdims", keepdims);
  });
  if (follows)
    y = model.node("Abs", {y});
  model.check(y, expected, floatMachine, schedule, floatTolerance);
}

TEST_P(OperatorTest, LayerNormalization) {
  Shape shape = randomShape(random, 1, 4);
  // Rows of more than 1024 elements are normalised step by step.
  if (random.chance(30))
    shape = {random.pick(1, 3), random.pick(500, 1500)};
  int64_t axis = random.pick(0, int64_t(shape.size()) - 1);
  Shape row(shape.begin() + axis, shape.end());
  size_t size = size_t(sizeOf(row));
  bool spelledOut = random.chance(50);
  SCOPED_TRACE(floatMachine + " " + print(shape) + " axis " + std::to_string(axis) + (spelledOut ? " spelled out" : ""));
  Values x = random.tensor(ElementKind::F32, shape), scale = random.tensor(ElementKind::F32, row),
         bias = random.tensor(ElementKind::F32, row);
  Values expected{shape, ElementKind::F32, {}};
  constexpr double epsilon = 0.5; // rows of one element stay far from 0 / 0
  for (size_t first = 0; first < x.at.size(); first += size) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < size; ++i)
      mean += x.at[first + i] / double(size);
    for (size_t i = 0; i < size; ++i)
      variance += (x.at[first + i] - mean) * (x.at[first + i] - mean) / double(size);
    for (size_t i = 0; i < size; ++i)
      expected.at.push_back((x.at[first + i] - mean) / std::sqrt(variance + epsilon) * scale.at[i] + bias.at[i]);
  }
  Model model(17);
  std::string in = model.input(x), g = model.constant(scale), b = model.constant(bias), y;
  if (spelledOut) {
    Shape axes;
    for (int64_t i = axis; i < int64_t(shape.size()); ++i)
      axes.push_back(i);
    auto mean = [&](const std::string &of) {
      return model.node("ReduceMean", {of}, [&](onnx::NodeProto &node) { setInts(node, "axes", axes); });
    };
    std::string centred = model.node("Sub", {in, mean(in)});
    std::string variance = mean(model.node("Pow", {centred, model.scalar(ElementKind::F32, 2)}));
    std::string deviation = model.node("Sqrt", {model.node("Add", {variance, model.scalar(ElementKind::F32, epsilon)})});
    y = model.node("Add", {model.node("Mul", {model.node("Div", {centred, deviation}), g}), b});
  } else {
    y = model.node("LayerNormalization", {in, g, b}, [&](onnx::NodeProto &node) {
      setInt(node, "axis", axis);
      setFloat(node, "epsilon", float(epsilon));
    });
  }
  model.check(y, expected, floatMachine, schedule, floatTolerance);
}

//===----------------------------------------------------------------------===//
// Data movement
//===----------------------------------------------------------------------===//

/// The tensor of shape `shape` whose element at some coordinates is `from`(coordinates).
Values gather(const Shape &shape, ElementKind kind, const std::function<double(const Shape &)> &from) {
  Values result{shape, kind, {}};
  Shape at(shape.size(), 0);
  for (int64_t i = 0; i < sizeOf(shape); ++i) {
    result.at.push_back(from(at));
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d])
        break;
      at[d] = 0;
    }
  }
  return result;
}

double valueAt(const Values &values, const Shape &at) {
  int64_t index = 0;
  for (size_t i = 0; i < at.size(); ++i)
    index = index * values.shape[i] + at[i];
  return values.at[size_t(index)];
}

TEST_P(OperatorTest, Movement) {
  ElementKind kind = random.one({ElementKind::F32, ElementKind::I8, ElementKind::U8, ElementKind::I32});
  Values value = random.tensor(kind, randomShape(random, 1, 5));
  Model model(13);
  std::string y = model.input(value), text = anyMachine + " " + frontend::elementName(kind) + " " + print(value.shape);
  for (int64_t length = random.pick(1, 4); length > 0; --length) {
    size_t rank = value.shape.size();
    switch (random.pick(0, 4)) {
    case 0: {
      Shape perm(rank), shape(rank);
      for (size_t i = 0; i < rank; ++i)
        perm[i] = int64_t(i);
      for (size_t i = rank; i-- > 1;)
        std::swap(perm[i], perm[size_t(random.pick(0, int64_t(i)))]);
      for (size_t i = 0; i < rank; ++i)
        shape[i] = value.shape[size_t(perm[i])];
      text += " Transpose" + print(perm);
      y = model.node("Transpose", {y}, [&](onnx::NodeProto &node) { setInts(node, "perm", perm); });
      value = gather(shape, kind, [&](const Shape &at) {
        Shape from(rank);
        for (size_t i = 0; i < rank; ++i)
          from[size_t(perm[i])] = at[i];
        return valueAt(value, from);
      });
      break;
    }
    case 1: {
      Shape starts, ends, axes, steps, shape;
      for (size_t i = 0; i < rank; ++i) {
        int64_t dim = value.shape[i], step = random.one<int64_t>({1, 1, 2, 3, -1, -2}), first = random.pick(0, dim - 1);
        int64_t count = random.pick(1, (step > 0 ? dim - 1 - first : first) / std::abs(step) + 1);
        int64_t end = first + count * step;
        starts.push_back(first);
        ends.push_back(end < 0 ? -dim - 1 : end);
        axes.push_back(int64_t(i));
        steps.push_back(step);
        shape.push_back(count);
      }
      text += " Slice" + print(starts) + print(steps) + print(shape);
      y = model.node("Slice", {y, model.ints(starts), model.ints(ends), model.ints(axes), model.ints(steps)});
      value = gather(shape, kind, [&](const Shape &at) {
        Shape from(rank);
        for (size_t i = 0; i < rank; ++i)
          from[i] = starts[i] + at[i] * steps[i];
        return valueAt(value, from);
      });
      break;
    }
    case 2: {
      Shape pads(2 * rank), shape = value.shape;
      for (size_t i = 0; i < rank; ++i)
        if (random.chance(50)) {
          pads[i] = random.pick(0, 3);
          pads[rank + i] = random.pick(0, 3);
          shape[i] += pads[i] + pads[rank + i];
        }
      if (sizeOf(shape) > 20000)
        break;
      double fill = random.pick(0, 9);
      text += " Pad" + print(pads);
      y = model.node("Pad", {y, model.ints(pads), model.scalar(kind, fill)});
      value = gather(shape, kind, [&](const Shape &at) {
        Shape from(rank);
        for (size_t i = 0; i < rank; ++i) {
          from[i] = at[i] - pads[i];
          if (from[i] < 0 || from[i] >= value.shape[i])
            return fill;
        }
        return valueAt(value, from);
      });
      break;
    }
    case 3: {
      size_t axis = size_t(random.pick(0, int64_t(rank) - 1));
      Shape other = value.shape, shape = value.shape;
      other[axis] = random.pick(1, 5);
      shape[axis] += other[axis];
      if (sizeOf(shape) > 20000)
        break;
      Values second = random.tensor(kind, other);
      bool constant = random.chance(30), before = random.chance(40);
      text += " Concat" + print(other) + (constant ? " of a constant" : "") + (before ? " before" : "");
      std::string z = constant ? model.constant(second) : model.input(second);
      y = model.node("Concat", before ? std::vector<std::string>{z, y} : std::vector<std::string>{y, z},
                     [&](onnx::NodeProto &node) { setInt(node, "axis", int64_t(axis)); });
      const Values &l = before ? second : value, &r = before ? value : second;
      value = gather(shape, kind, [&](const Shape &at) {
        Shape from = at;
        if (at[axis] < l.shape[axis])
          return valueAt(l, from);
        from[axis] -= l.shape[axis];
        return valueAt(r, from);
      });
      break;
    }
    default: {
      // Merge two dims or split off a factor.
      Shape shape = value.shape;
      if (rank > 1 && random.chance(50)) {
        size_t i = size_t(random.pick(0, int64_t(rank) - 2));
        shape[i] *= shape[i + 1];
        shape.erase(shape.begin() + long(i) + 1);
      } else if (rank < 5) {
        size_t i = size_t(random.pick(0, int64_t(rank) - 1));
        int64_t factor = shape[i] % 2 == 0 ? 2 : shape[i] % 3 == 0 ? 3 : 1;
        shape[i] /= factor;
        shape.insert(shape.begin() + long(i), factor);
      }
      text += " Reshape" + print(shape);
      y = model.node("Reshape", {y, model.ints(shape)});
      value.shape = shape;
    }
    }
  }
  SCOPED_TRACE(text);
  // Something must run even if only reshapes were chosen.
  if (kind == ElementKind::F32 && random.chance(50)) {
    y = model.node("Relu", {y});
    for (double &number : value.at)
      number = std::max(number, 0.0);
  }
  model.check(y, value, anyMachine, schedule);
}

/// DequantizeLinear, a float operator, QuantizeLinear: integer arithmetic where there is a form for it, and else floats inside
/// one kernel. A result near a tie may be rounded the other way.
TEST_P(OperatorTest, QuantizedByPairs) {
  ElementKind kind = random.one({ElementKind::I8, ElementKind::U8});
  std::string machine = random.chance(80) ? integerMachine : "gemmini_16x16_fp32";
  Window window = Window::make(random, /*dilated=*/false);
  Channels c = Channels::make(random);
  Model model(13);
  struct Quantized {
    std::string name; ///< after DequantizeLinear
    Values real;
  };
  auto quantized = [&](Values values, float scale, double zero, bool constant) {
    Quantized q;
    std::string tensor = constant ? model.constant(values) : model.input(values);
    q.name = model.node("DequantizeLinear", {tensor, model.scalar(ElementKind::F32, scale), model.scalar(values.kind, zero)});
    q.real = {values.shape, ElementKind::F32, {}};
    for (double number : values.at)
      q.real.at.push_back(float(number - zero) * scale);
    return q;
  };
  auto zeroPoint = [&] { return double(kind == ElementKind::U8 ? random.pick(0, 255) : random.pick(-128, 127)); };
  float xScale = float(random.real(0.01, 0.1));
  double xZero = zeroPoint();
  Shape shape{window.n, c.groups * c.in, window.h, window.w};
  Quantized x = quantized(random.tensor(kind, shape), xScale, xZero, false);
  Values y{shape, ElementKind::F32, {}};
  std::string name, text;
  float yScale = xScale;
  double yZero = xZero;
  auto newScale = [&](double factor) {
    yScale = float(xScale * factor);
    yZero = zeroPoint();
  };
  switch (random.pick(0, 5)) {
  case 0:
  case 1: {
    text = "Conv " + window.text() + c.text();
    float wScale = float(random.real(0.005, 0.02));
    Quantized w = quantized(random.tensor(ElementKind::I8, {c.groups * c.out, c.in, window.kh, window.kw}), wScale, 0, true);
    y = convolve(x.real, w.real, window, c, 0, 0);
    std::vector<std::string> operands{x.name, w.name};
    if (random.chance(60)) {
      Values bias = random.tensor(ElementKind::I32, {c.groups * c.out}, -5000, 5000);
      operands.push_back(
          model.node("DequantizeLinear", {model.constant(bias), model.scalar(ElementKind::F32, xScale * wScale)}));
      int64_t area = window.oh() * window.ow();
      for (size_t i = 0; i < y.at.size(); ++i)
        y.at[i] += bias.at[i / size_t(area) % bias.at.size()] * double(xScale * wScale);
    }
    name = model.node("Conv", operands, [&](onnx::NodeProto &node) {
      window.set(node);
      setInt(node, "group", c.groups);
    });
    if (random.chance(50)) {
      text += " Relu";
      name = model.node("Relu", {name});
      for (double &number : y.at)
        number = std::max(number, 0.0);
    }
    newScale(std::sqrt(double(c.in * window.kh * window.kw)));
    break;
  }
  case 2: {
    text = "Binary " + print(shape);
    std::string type = random.one({"Add", "Mul", "Sub", "Max"});
    float scale = float(random.real(0.01, 0.1));
    Shape other =
        random.chance(60) ? shape : random.one<Shape>({{shape[1], 1, 1}, {1, 1, 1, shape[3]}, {shape[0], shape[1], 1, 1}});
    Quantized z = quantized(random.tensor(kind, other), scale, zeroPoint(), random.chance(30));
    text += " " + type + print(other);
    name = model.node(type, {x.name, z.name});
    for (int64_t i = 0; i < sizeOf(shape); ++i) {
      double l = x.real.at[size_t(i)], r = z.real.at[size_t(broadcastIndex(i, other, shape))];
      y.at.push_back(float(type == "Add" ? l + r : type == "Sub" ? l - r : type == "Mul" ? l * r : std::max(l, r)));
    }
    newScale(type == "Mul" ? 5 : 1.5);
    break;
  }
  case 3: {
    bool average = random.chance(50);
    text = (average ? "AveragePool " : "MaxPool ") + window.text();
    y.shape = {window.n, shape[1], window.oh(), window.ow()};
    for (int64_t plane = 0; plane < window.n * shape[1]; ++plane)
      for (int64_t oy = 0; oy < window.oh(); ++oy)
        for (int64_t ox = 0; ox < window.ow(); ++ox) {
          double sum = 0, most = -INFINITY;
          int64_t count = 0;
          window.taps(oy, ox, [&](int64_t iy, int64_t ix, int64_t, int64_t) {
            double number = x.real.at[size_t((plane * window.h + iy) * window.w + ix)];
            sum += number;
            most = std::max(most, number);
            ++count;
          });
          if (count == 0)
            GTEST_SKIP() << "a window without elements has no defined result";
          y.at.push_back(average ? sum / double(count) : most);
        }
    name = model.node(average ? "AveragePool" : "MaxPool", {x.name}, [&](onnx::NodeProto &node) { window.set(node, false); });
    if (average)
      newScale(0.7);
    break;
  }
  case 4: {
    std::string type = random.one({"Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Relu"});
    text = type + " " + print(shape);
    name = model.node(type, {x.name});
    for (double number : x.real.at)
      y.at.push_back(type == "Sigmoid"     ? 1 / (1 + std::exp(-number))
                     : type == "Tanh"      ? std::tanh(number)
                     : type == "LeakyRelu" ? (number < 0 ? 0.01f * number : number)
                     : type == "Relu"      ? std::max(number, 0.0)
                                           : std::min(std::max(0.2f * number + 0.5, 0.0), 1.0));
    newScale(type == "LeakyRelu" || type == "Relu" ? 1.1 : 1.0 / 200 / xScale);
    break;
  }
  default: {
    Shape other = shape;
    other[1] = random.pick(1, 5);
    bool same = random.chance(50);
    Quantized z = quantized(random.tensor(kind, other), same ? xScale : xScale * 1.5f, same ? xZero : zeroPoint(), false);
    text = "Concat " + print(shape) + print(other) + (same ? " of one scale" : "");
    name = model.node("Concat", {x.name, z.name}, [](onnx::NodeProto &node) { setInt(node, "axis", 1); });
    Shape joined = shape;
    joined[1] += other[1];
    y = gather(joined, ElementKind::F32, [&](const Shape &at) {
      Shape from = at;
      if (at[1] < shape[1])
        return valueAt(x.real, from);
      from[1] -= shape[1];
      return valueAt(z.real, from);
    });
  }
  }
  SCOPED_TRACE(machine + " " + frontend::elementName(kind) + " " + text);
  std::string result = model.node("QuantizeLinear", {name, model.scalar(ElementKind::F32, yScale), model.scalar(kind, yZero)});
  double low = kind == ElementKind::U8 ? 0 : -128;
  for (double &number : y.at)
    number = std::min(std::max(std::nearbyint(float(number) / yScale) + yZero, low), low + 255);
  y.kind = kind;
  model.check(result, y, machine, schedule, 0, 1);
}

//===----------------------------------------------------------------------===//
// Networks
//===----------------------------------------------------------------------===//

/// Images with branches: what the graph passes see of a network.
TEST_P(OperatorTest, Network) {
  struct Tensor {
    std::string name;
    Values values; ///< NCHW
  };
  Model model(13);
  std::vector<Tensor> tensors;
  std::string text;
  Values image =
      random.tensor(ElementKind::F32, {random.pick(1, 2), random.pick(1, 6), random.pick(6, 16), random.pick(6, 16)}, -1, 1);
  tensors.push_back({model.input(image), image});
  for (int64_t length = random.pick(2, 9); length > 0; --length) {
    Tensor x = tensors[random.chance(70) ? tensors.size() - 1 : size_t(random.pick(0, int64_t(tensors.size()) - 1))];
    const Shape &shape = x.values.shape;
    Tensor y;
    y.values.kind = ElementKind::F32;
    int64_t kind = random.pick(0, 9);
    if (kind <= 3) {
      Window window{shape[0], shape[2], shape[3], 1, 1, {1, 1}, {1, 1}, {0, 0, 0, 0}};
      if (random.chance(60) && shape[2] > 2 && shape[3] > 2) {
        window.kh = window.kw = 3;
        window.pads = {1, 1, 1, 1};
        if (random.chance(30))
          window.strides = {2, 2};
      }
      Channels c{1, shape[1], random.pick(1, 24)};
      if (random.chance(25) && shape[1] > 1)
        c = {shape[1], 1, 1};
      double scale = 1 / std::sqrt(double(c.in * window.kh * window.kw));
      Values w = random.tensor(ElementKind::F32, {c.groups * c.out, c.in, window.kh, window.kw}, -2 * scale, 2 * scale);
      y.values = convolve(x.values, w, window, c, 0, 0);
      y.values.kind = ElementKind::F32;
      std::vector<std::string> operands{x.name, model.constant(w)};
      size_t area = size_t(window.oh() * window.ow()), outputs = size_t(c.groups * c.out);
      if (random.chance(50)) {
        Values bias = random.tensor(ElementKind::F32, {c.groups * c.out}, -1, 1);
        operands.push_back(model.constant(bias));
        for (size_t i = 0; i < y.values.at.size(); ++i)
          y.values.at[i] += bias.at[i / area % outputs];
      }
      y.name = model.node("Conv", operands, [&](onnx::NodeProto &node) {
        window.set(node);
        setInt(node, "group", c.groups);
      });
      text += " Conv" + c.text();
      if (random.chance(40)) {
        Values parameters[4];
        std::vector<std::string> more{y.name};
        for (size_t i = 0; i < 4; ++i) {
          parameters[i] = random.tensor(ElementKind::F32, {int64_t(outputs)}, i == 3 ? 0.5 : -1, i == 3 ? 2 : 1);
          more.push_back(model.constant(parameters[i]));
        }
        y.name = model.node("BatchNormalization", more);
        for (size_t i = 0; i < y.values.at.size(); ++i) {
          size_t o = i / area % outputs;
          y.values.at[i] =
              (y.values.at[i] - parameters[2].at[o]) / std::sqrt(parameters[3].at[o] + 1e-5f) * parameters[0].at[o] +
              parameters[1].at[o];
        }
        text += " BatchNormalization";
      }
    } else if (kind == 4 && shape[2] > 1 && shape[3] > 1) {
      Window window{shape[0], shape[2], shape[3], 2, 2, {2, 2}, {1, 1}, {0, 0, 0, 0}};
      y.values.shape = {shape[0], shape[1], window.oh(), window.ow()};
      for (int64_t plane = 0; plane < shape[0] * shape[1]; ++plane)
        for (int64_t oy = 0; oy < window.oh(); ++oy)
          for (int64_t ox = 0; ox < window.ow(); ++ox) {
            double most = -INFINITY;
            window.taps(oy, ox, [&](int64_t iy, int64_t ix, int64_t, int64_t) {
              most = std::max(most, x.values.at[size_t((plane * shape[2] + iy) * shape[3] + ix)]);
            });
            y.values.at.push_back(most);
          }
      y.name = model.node("MaxPool", {x.name}, [&](onnx::NodeProto &node) { window.set(node); });
      text += " MaxPool";
    } else if (kind == 5) {
      y.values = x.values;
      for (double &number : y.values.at)
        number = std::max(number, 0.0);
      y.name = model.node("Relu", {x.name});
      text += " Relu";
    } else if (kind == 6) {
      // Squeeze and excitation: a factor per channel from the mean of the image.
      int64_t planes = shape[0] * shape[1], area = shape[2] * shape[3];
      std::string mean = model.node("GlobalAveragePool", {x.name});
      y.name = model.node("Mul", {x.name, model.node("HardSigmoid", {mean})});
      y.values = x.values;
      for (int64_t plane = 0; plane < planes; ++plane) {
        double sum = 0;
        for (int64_t i = 0; i < area; ++i)
          sum += x.values.at[size_t(plane * area + i)];
        double factor = std::min(std::max(0.2f * sum / double(area) + 0.5, 0.0), 1.0);
        for (int64_t i = 0; i < area; ++i)
          y.values.at[size_t(plane * area + i)] *= factor;
      }
      text += " Excite";
    } else {
      const Tensor *other = nullptr;
      for (const Tensor &candidate : tensors)
        if (candidate.values.shape[0] == shape[0] && candidate.values.shape[2] == shape[2] &&
            candidate.values.shape[3] == shape[3] && (!other || random.chance(50)))
          other = &candidate;
      if (other->values.shape == shape && random.chance(60)) {
        y.values = x.values;
        for (size_t i = 0; i < y.values.at.size(); ++i)
          y.values.at[i] += other->values.at[i];
        y.name = model.node("Add", {x.name, other->name});
        text += " Add";
      } else {
        Shape joined = shape;
        joined[1] += other->values.shape[1];
        y.values = gather(joined, ElementKind::F32, [&](const Shape &at) {
          Shape from = at;
          if (at[1] < shape[1])
            return valueAt(x.values, from);
          from[1] -= shape[1];
          return valueAt(other->values, from);
        });
        y.name = model.node("Concat", {x.name, other->name}, [](onnx::NodeProto &node) { setInt(node, "axis", 1); });
        text += " Concat";
      }
    }
    if (!y.name.empty())
      tensors.push_back(y);
  }
  Tensor last = tensors.back();
  if (random.chance(40)) {
    // The order of the channels' elements matters to what follows.
    int64_t rows = last.values.shape[0], k = sizeOf(last.values.shape) / rows, n = random.pick(1, 12);
    Values w = random.tensor(ElementKind::F32, {k, n}, -1, 1);
    std::string flat = model.node("Flatten", {last.name});
    Values y{{rows, n}, ElementKind::F32, {}};
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += last.values.at[size_t(i * k + l)] * w.at[size_t(l * n + j)];
        y.at.push_back(sum);
      }
    last = {model.node("Gemm", {flat, model.constant(w)}), y};
    text += " Flatten Gemm";
  }
  SCOPED_TRACE(floatMachine + " " + print(image.shape) + text);
  if (last.name == "x0")
    GTEST_SKIP() << "nothing was chosen";
  model.check(last.name, last.values, floatMachine, schedule, bfloat ? 1e-1 : 2e-5);
}

INSTANTIATE_TEST_SUITE_P(Seeds, OperatorTest, testing::Range(0u, 40u));

} // namespace
