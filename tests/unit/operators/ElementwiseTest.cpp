//===- ElementwiseTest.cpp - Operators by element, and casts --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What ONNX's node tests leave out: divisions by zero, overflow, every rank,
// NaN, and casts between any two types against formulas of their own.
//===----------------------------------------------------------------------===//
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/operators/Elements.h"
#include "compiler/operators/Operator.h"

#include <gtest/gtest.h>
#include <limits>
#include <onnx/onnx_pb.h>
#include <random>

using namespace tw;
using namespace tw::operators;

namespace {

/// An operator with attributes.
struct Op {
  onnx::NodeProto node;

  explicit Op(const std::string &type) {
    node.set_op_type(type);
    node.add_output("y");
  }
  onnx::AttributeProto &add(const char *name, onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto &attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }
  Op &integer(const char *name, int64_t value) { return add(name, onnx::AttributeProto::INT).set_i(value), *this; }
  Op &text(const char *name, const std::string &value) { return add(name, onnx::AttributeProto::STRING).set_s(value), *this; }

  HostTensor operator()(std::vector<Value> inputs, int64_t opset = 25) const {
    Call call(node, opset, std::move(inputs));
    find("", node.op_type())->evaluate(call);
    return *call.takeOutputs().at(0).tensor;
  }
};

template <typename T>
HostTensor make(ElementKind kind, const std::vector<T> &values, std::optional<Shape> shape = std::nullopt) {
  HostTensor x = makeTensor(kind, shape.value_or(Shape{int64_t(values.size())}));
  std::copy(values.begin(), values.end(), data<T>(x));
  return x;
}
HostTensor floats(const std::vector<float> &values, std::optional<Shape> shape = std::nullopt) {
  return make(ElementKind::F32, values, std::move(shape));
}
HostTensor strings(const std::vector<std::string> &values) {
  HostTensor x = makeTensor(ElementKind::String, {int64_t(values.size())});
  x.strings = values;
  return x;
}
template <typename T> std::vector<T> valuesOf(const HostTensor &x) { return {data<T>(x), data<T>(x) + countOf(x)}; }

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
constexpr ElementKind kIntegers[] = {ElementKind::I8,  ElementKind::U8,  ElementKind::I16, ElementKind::U16,
                                     ElementKind::I32, ElementKind::U32, ElementKind::I64, ElementKind::U64};

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

TEST(ElementwiseTest, IntegersWrapAndDivisionsNeverTrap) {
  for (ElementKind kind : kIntegers)
    visitInteger(kind, [&](auto zero) {
      using T = decltype(zero);
      std::mt19937_64 random(7);
      std::vector<T> a, b;
      for (T edge : {T(0), T(1), T(-1), std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), T(5)})
        for (T other : {T(0), T(1), T(-1), std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), T(3), T(-3)}) {
          a.push_back(edge);
          b.push_back(other);
        }
      for (int i = 0; i < 200; ++i) {
        a.push_back(T(random()));
        b.push_back(i % 2 ? T(random()) : T(random() % 7));
      }
      const HostTensor x = make(kind, a), y = make(kind, b);
      const auto sum = valuesOf<T>(Op("Add")({x, y})), difference = valuesOf<T>(Op("Sub")({x, y})),
                 product = valuesOf<T>(Op("Mul")({x, y})), quotient = valuesOf<T>(Op("Div")({x, y})),
                 modulo = valuesOf<T>(Op("Mod")({x, y})), remainder = valuesOf<T>(Op("Mod").integer("fmod", 1)({x, y}));
      for (size_t i = 0; i < a.size(); ++i) {
        const __int128 p = a[i], q = b[i];
        EXPECT_EQ(sum[i], T(p + q));
        EXPECT_EQ(difference[i], T(p - q));
        EXPECT_EQ(product[i], T(p * q));
        EXPECT_EQ(quotient[i], q == 0 ? T(0) : T(p / q));
        EXPECT_EQ(remainder[i], q == 0 ? T(0) : T(p % q));
        EXPECT_EQ(modulo[i], q == 0 ? T(0) : T(((p % q) + q) % q));
      }
    });
}

TEST(ElementwiseTest, PowersOfIntegers) {
  const HostTensor base = make<int32_t>(ElementKind::I32, {2, -1, -1, 0, 0, 3, 2, -3});
  const HostTensor exponent = make<int64_t>(ElementKind::I64, {31, -3, -4, -1, 0, -1, 40, 3});
  EXPECT_EQ(valuesOf<int32_t>(Op("Pow")({base, exponent})),
            (std::vector<int32_t>{std::numeric_limits<int32_t>::min(), -1, 1, 0, 1, 0, 0, -27}));
  EXPECT_EQ(valuesOf<int32_t>(Op("Pow")({base, floats({0.5f}, Shape{})})), (std::vector<int32_t>{1, 0, 0, 0, 0, 1, 1, 0}));
  EXPECT_EQ(valuesOf<float>(Op("Pow")({floats({2, -2}), make<int64_t>(ElementKind::I64, {-1, 3})})),
            (std::vector<float>{0.5f, -8}));
}

TEST(ElementwiseTest, ShiftsByTheWidthAndMoreGiveZero) {
  const HostTensor x = make<uint64_t>(ElementKind::U64, {3, 3, 3}), by = make<uint64_t>(ElementKind::U64, {1, 64, ~0ull});
  EXPECT_EQ(valuesOf<uint64_t>(Op("BitShift").text("direction", "LEFT")({x, by})), (std::vector<uint64_t>{6, 0, 0}));
  EXPECT_EQ(valuesOf<uint64_t>(Op("BitShift").text("direction", "RIGHT")({x, by})), (std::vector<uint64_t>{1, 0, 0}));
  EXPECT_THROW(Op("BitShift").text("direction", "UP")({x, by}), Error);
}

//===----------------------------------------------------------------------===//
// Broadcasting
//===----------------------------------------------------------------------===//

/// Element of `x` at `index` of a shape that it broadcasts to.
int64_t placeOf(const HostTensor &x, const Shape &index) {
  int64_t place = 0;
  for (size_t i = 0; i < x.shape.size(); ++i)
    place = place * x.shape[i] + (x.shape[i] == 1 ? 0 : index[index.size() - x.shape.size() + i]);
  return place;
}

TEST(ElementwiseTest, BroadcastsShapesOfAnyRank) {
  std::mt19937 random(3);
  int empty = 0;
  for (int round = 0; round < 400; ++round) {
    Shape shape(random() % 9);
    for (int64_t &dim : shape)
      dim = random() % 12 == 0 ? 0 : 1 + int64_t(random() % 3);
    // Each operand leaves out leading dims, and has 1 in place of some others.
    auto operand = [&](ElementKind kind) {
      Shape own(shape.begin() + (round % 3 ? int64_t(random() % (shape.size() + 1)) : 0), shape.end());
      for (int64_t &dim : own)
        dim = random() % 3 ? dim : 1;
      HostTensor x = makeTensor(kind, own);
      for (int64_t i = 0; i < countOf(x); ++i)
        setInteger(x, i, int64_t(random() % 100));
      return x;
    };
    const HostTensor x = operand(ElementKind::F32), y = operand(ElementKind::F32);
    HostTensor condition = operand(ElementKind::U8);
    condition.type = ElementKind::Bool;
    for (uint8_t &byte : condition.bytes)
      byte &= 1;
    const HostTensor difference = Op("Sub")({x, y}), chosen = Op("Where")({condition, x, y});
    ASSERT_EQ(difference.shape, broadcast(x.shape, y.shape));
    ASSERT_EQ(chosen.shape, broadcast(condition.shape, broadcast(x.shape, y.shape)));
    empty += difference.bytes.empty();
    int64_t i = 0;
    forEachIndex(difference.shape, [&](const Shape &index) {
      ASSERT_EQ(data<float>(difference)[i++], data<float>(x)[placeOf(x, index)] - data<float>(y)[placeOf(y, index)]);
    });
    i = 0;
    forEachIndex(chosen.shape, [&](const Shape &index) {
      ASSERT_EQ(data<float>(chosen)[i++], condition.bytes[size_t(placeOf(condition, index))]
                                              ? data<float>(x)[placeOf(x, index)]
                                              : data<float>(y)[placeOf(y, index)]);
    });
  }
  EXPECT_GT(empty, 10);
}

TEST(ElementwiseTest, RefusesShapesAndTypesThatDoNotFit) {
  const HostTensor two = floats({1, 2}), three = floats({1, 2, 3});
  EXPECT_THROW(Op("Add")({two, three}), Error);
  EXPECT_THROW(Op("Add")({two}), Error);
  EXPECT_THROW(Op("Add")({two, Value()}), Error);
  EXPECT_THROW(Op("Add")({two, make<int32_t>(ElementKind::I32, {1, 2})}), Error);
  EXPECT_THROW(Op("Add")({strings({"a"}), strings({"b"})}), Error);
  EXPECT_THROW(Op("Add").integer("axis", 0).integer("broadcast", 1)({two, two}, 6), Error);
  EXPECT_THROW(Op("PRelu")({two, floats({1, 2, 3, 4}, Shape{2, 2})}), Error);
  EXPECT_THROW(Op("Mod")({two, two}), Error);
  EXPECT_THROW(Op("Sum")({}), Error);
  EXPECT_THROW(Op("Sum")({strings({"a"})}), Error);
  EXPECT_THROW(Op("Not")({two}), Error);
  EXPECT_THROW(Op("Neg")({make<uint8_t>(ElementKind::U8, {1})}), Error);
  EXPECT_THROW(Op("Clip")({two, two}), Error);
  EXPECT_THROW(Op("SwiGLU")({two, floats({1}, Shape{1})}), Error);
  EXPECT_THROW(Op("Where")({two, two, two}), Error);
  EXPECT_THROW(Op("Exp")({make<int32_t>(ElementKind::I32, {1})}), Error);
}

//===----------------------------------------------------------------------===//
// Floats
//===----------------------------------------------------------------------===//

TEST(ElementwiseTest, MinAndMaxAndClipKeepNan) {
  const HostTensor x = floats({kNan, 1, 2, -kInfinity}), y = floats({1, kNan, 3, kNan}), z = floats({0, 0, kNan, 0});
  for (const char *type : {"Max", "Min"})
    for (float value : valuesOf<float>(Op(type)({x, y, z})))
      EXPECT_NE(value, value) << type;
  const auto clipped = valuesOf<float>(Op("Clip")({floats({kNan, -5, 5}), floats({2}, Shape{}), floats({1}, Shape{})}));
  EXPECT_NE(clipped[0], clipped[0]);
  // Where the bounds cross, the upper one wins.
  EXPECT_EQ(clipped[1], 1);
  EXPECT_EQ(clipped[2], 1);
  const auto rectified = valuesOf<float>(Op("Relu")({floats({kNan, -1, 2})}));
  EXPECT_NE(rectified[0], rectified[0]);
  EXPECT_EQ(rectified[1], 0);
}

TEST(ElementwiseTest, ActivationsHoldFarFromZero) {
  const HostTensor x = floats({-1000, -50, 50, 1000});
  EXPECT_EQ(valuesOf<float>(Op("Softplus")({x})), (std::vector<float>{0, std::exp(-50.0f), 50, 1000}));
  EXPECT_EQ(valuesOf<float>(Op("Sigmoid")({x}))[0], 0);
  EXPECT_EQ(valuesOf<float>(Op("Sigmoid")({x}))[3], 1);
  EXPECT_EQ(valuesOf<float>(Op("Mish")({x}))[3], 1000);
  EXPECT_EQ(valuesOf<float>(Op("Elu")({x}))[0], -1);
  EXPECT_EQ(valuesOf<float>(Op("Round")({floats({0.5f, 1.5f, 2.5f, -2.5f, -0.4f})})), (std::vector<float>{0, 2, 2, -2, -0.0f}));
}

TEST(ElementwiseTest, SumsOfHalvesRoundOnce) {
  // 2048 + 1 is a tie in float16: adding one by one would stay at 2048.
  HostTensor large = makeScalar(ElementKind::F16, Half(2048.0f)), one = makeScalar(ElementKind::F16, Half(1.0f));
  EXPECT_EQ(realAt(Op("Sum")({large, one, one}), 0), 2050);
  HostTensor most = makeScalar(ElementKind::F16, Half(65504.0f));
  EXPECT_EQ(realAt(Op("Mean")({most, most}), 0), 65504);
}

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

using Real = long double; // 64 bits of fraction: exact for every element

/// Exponent and fraction bits, and the bias, of a narrow float. source: IEEE 754; ONNX, "Float stored in 8 bits"; OCP MX 1.0
struct Format {
  int exponent, fraction, bias;
  bool hasInfinity, isFnuz;
  int largest; ///< last finite code
};
std::optional<Format> formatOf(ElementKind kind) {
  switch (kind) {
  case ElementKind::F16:
    return Format{5, 10, 15, true, false, 0x7bff};
  case ElementKind::BF16:
    return Format{8, 7, 127, true, false, 0x7f7f};
  case ElementKind::F8E4M3FN:
    return Format{4, 3, 7, false, false, 0x7e};
  case ElementKind::F8E4M3FNUZ:
    return Format{4, 3, 8, false, true, 0x7f};
  case ElementKind::F8E5M2:
    return Format{5, 2, 15, true, false, 0x7b};
  case ElementKind::F8E5M2FNUZ:
    return Format{5, 2, 16, false, true, 0x7f};
  case ElementKind::F4E2M1:
    return Format{2, 1, 1, false, false, 0x7};
  default:
    return std::nullopt;
  }
}
Real magnitudeOf(const Format &format, int code) {
  const int exponent = code >> format.fraction, fraction = code & ((1 << format.fraction) - 1);
  return exponent == 0 ? std::ldexp(Real(fraction), 1 - format.bias - format.fraction)
                       : std::ldexp(Real(fraction + (1 << format.fraction)), exponent - format.bias - format.fraction);
}

/// An element as a number, from its bits.
Real valueOf(const HostTensor &x, size_t i) {
  uint64_t bits = 0;
  std::memcpy(&bits, x.bytes.data() + i * frontend::elementBytes(x.type), frontend::elementBytes(x.type));
  if (auto format = formatOf(x.type)) {
    const int signAt = format->exponent + format->fraction, code = int(bits & ((1u << signAt) - 1));
    const bool isNegative = (bits >> signAt) & 1;
    if (format->isFnuz && isNegative && code == 0)
      return kNan;
    const Real magnitude = code <= format->largest                              ? magnitudeOf(*format, code)
                           : format->hasInfinity && code == format->largest + 1 ? Real(kInfinity)
                                                                                : Real(kNan);
    return isNegative ? -magnitude : magnitude;
  }
  switch (x.type) {
  case ElementKind::F32:
    return data<float>(x)[i];
  case ElementKind::F64:
    return data<double>(x)[i];
  case ElementKind::F8E8M0:
    return bits == 255 ? Real(kNan) : std::ldexp(Real(1), int(bits) - 127);
  case ElementKind::U64:
    return Real(bits);
  case ElementKind::I16:
    return int16_t(bits);
  case ElementKind::I32:
    return int32_t(bits);
  case ElementKind::I64:
    return Real(int64_t(bits));
  case ElementKind::I8:
  case ElementKind::I4:
  case ElementKind::I2:
    return int8_t(bits);
  default:
    return Real(bits);
  }
}

int bitsOf(ElementKind kind) {
  if (kind == ElementKind::I4 || kind == ElementKind::U4)
    return 4;
  return kind == ElementKind::I2 || kind == ElementKind::U2 ? 2 : int(frontend::elementBytes(kind) * 8);
}
bool isSigned(ElementKind kind) {
  return kind == ElementKind::I8 || kind == ElementKind::I16 || kind == ElementKind::I32 || kind == ElementKind::I64 ||
         kind == ElementKind::I4 || kind == ElementKind::I2;
}

/// What casting `value` of type `from` to `kind` gives, as a number; `saturates` is for floats of 8 bits.
Real expected(Real value, ElementKind from, ElementKind kind, bool saturates) {
  if (auto format = formatOf(kind)) {
    const bool isWide = kind == ElementKind::F16 || kind == ElementKind::BF16, isFour = kind == ElementKind::F4E2M1;
    if (value != value)
      return isFour ? Real(0) : Real(kNan);
    const Real magnitude = std::fabs(value);
    int code = 0;
    for (int step = 1 << 15; step; step >>= 1)
      if (code + step <= format->largest && magnitudeOf(*format, code + step) <= magnitude)
        code += step;
    const Real below = magnitudeOf(*format, code), above = magnitudeOf(*format, code + 1), middle = (below + above) / 2;
    if (magnitude > middle || (magnitude == middle && code % 2))
      ++code;
    Real rounded = magnitudeOf(*format, code);
    if (code > format->largest)
      rounded = isFour || (saturates && !isWide) ? magnitudeOf(*format, format->largest)
                : format->hasInfinity            ? Real(kInfinity)
                                                 : Real(kNan);
    return value < 0 ? -rounded : rounded;
  }
  if (kind == ElementKind::F32)
    return float(value);
  if (kind == ElementKind::F64)
    return double(value);
  if (kind == ElementKind::Bool)
    return value != 0;
  if (kind == ElementKind::F8E8M0) {
    const Real magnitude = std::fabs(value), least = std::ldexp(Real(1), -127), most = std::ldexp(Real(1), 127);
    if (value != value)
      return kNan;
    if (magnitude < least || magnitude > most)
      return !saturates ? Real(kNan) : magnitude < least ? least : most;
    Real power = least;
    while (power < magnitude)
      power *= 2;
    return power;
  }
  // Towards zero, within 64 bits, then the low bits.
  const Real limit = std::ldexp(Real(1), 63);
  const Real whole = value != value ? 0 : std::trunc(value);
  uint64_t bits = 0;
  if ((kind == ElementKind::U64 || from == ElementKind::U64) && whole >= limit)
    bits = whole >= 2 * limit ? ~uint64_t(0) : uint64_t(whole);
  else
    bits = uint64_t(whole >= limit    ? std::numeric_limits<int64_t>::max()
                    : whole <= -limit ? std::numeric_limits<int64_t>::min()
                                      : int64_t(whole));
  const int width = bitsOf(kind);
  if (width < 64)
    bits &= (uint64_t(1) << width) - 1;
  if (isSigned(kind))
    return Real(int64_t(bits << (64 - width)) >> (64 - width));
  return Real(bits);
}

/// Elements of any bits, many of them near the edges of narrower types.
HostTensor samples(ElementKind kind, std::mt19937_64 &random) {
  const int width = kind == ElementKind::Bool ? 1 : kind == ElementKind::F4E2M1 ? 4 : bitsOf(kind);
  const size_t size = frontend::elementBytes(kind);
  std::vector<uint64_t> patterns;
  if (width <= 8)
    for (uint64_t code = 0; code < (1u << width); ++code)
      patterns.push_back(isSigned(kind) ? uint64_t(int64_t(code << (64 - width)) >> (64 - width)) : code);
  else
    for (int i = 0; i < 1500; ++i)
      patterns.push_back(i % 3 == 0 ? random() : random() >> (random() % 64));
  if (kind == ElementKind::F32 || kind == ElementKind::F64)
    // Numbers of a few bits: ties, ends of ranges, and what is next to them.
    for (int i = 0; i < 3000; ++i) {
      double value = std::ldexp(double(random() % 4097), int(random() % 60) - 35) * (random() % 2 ? 1 : -1);
      uint64_t bits = 0;
      if (kind == ElementKind::F32) {
        const float narrow = float(value);
        std::memcpy(&bits, &narrow, 4);
      } else {
        std::memcpy(&bits, &value, 8);
      }
      patterns.push_back(bits + (random() % 3 - 1));
    }
  HostTensor x = makeTensor(kind, {int64_t(patterns.size())});
  for (size_t i = 0; i < patterns.size(); ++i)
    std::memcpy(x.bytes.data() + i * size, &patterns[i], size);
  return x;
}

TEST(CastTest, AnyTypeToAnyOther) {
  std::mt19937_64 random(11);
  for (int from = 0; from <= int(ElementKind::U2); ++from) {
    const HostTensor x = samples(ElementKind(from), random);
    for (int to = 0; to <= int(ElementKind::U2); ++to)
      for (bool saturates : {true, false}) {
        if (from == to)
          continue;
        const HostTensor y =
            Op("Cast").integer("to", frontend::onnxTypeOf(ElementKind(to))).integer("saturate", saturates)({Value(x)});
        ASSERT_EQ(y.type, ElementKind(to));
        ASSERT_EQ(y.shape, x.shape);
        for (size_t i = 0; i < size_t(countOf(x)); ++i) {
          const Real value = valueOf(x, i), wanted = expected(value, x.type, y.type, saturates), got = valueOf(y, i);
          ASSERT_TRUE(got == wanted || (got != got && wanted != wanted))
              << frontend::elementName(x.type) << " " << value << " to " << frontend::elementName(y.type)
              << (saturates ? "" : ", not saturating") << ": " << got << ", expected " << wanted;
        }
      }
  }
}

TEST(CastTest, PowersOfTwoRoundAsAsked) {
  const HostTensor x = floats({1.0f, 1.25f, 1.5f, 1.75f, 0x1p-127f, 0x1.8p-127f});
  auto cast = [&](const char *mode) {
    return Op("Cast").integer("to", frontend::onnxTypeOf(ElementKind::F8E8M0)).text("round_mode", mode)({x}).bytes;
  };
  EXPECT_EQ(cast("up"), (std::vector<uint8_t>{127, 128, 128, 128, 0, 1}));
  EXPECT_EQ(cast("down"), (std::vector<uint8_t>{127, 127, 127, 127, 0, 0}));
  EXPECT_EQ(cast("nearest"), (std::vector<uint8_t>{127, 127, 128, 128, 0, 1}));
  EXPECT_THROW(cast("sideways"), Error);
}

TEST(CastTest, NumbersAndText) {
  auto toText = [](const HostTensor &x) { return Op("Cast").integer("to", onnx::TensorProto::STRING)({x}).strings; };
  using Strings = std::vector<std::string>;
  EXPECT_EQ(toText(floats({0, -0.0f, 1, -2.5f, 0.1f, 314.15926f, 1e-5f, 1e15f, 1e16f, 123456, 0.0001f})),
            (Strings{"0.0", "-0.0", "1.0", "-2.5", "0.1", "314.15927", "1e-05", "1000000000000000.0", "1e+16", "123456.0",
                     "0.0001"}));
  EXPECT_EQ(toText(floats({kNan, kInfinity, -kInfinity})), (Strings{"nan", "inf", "-inf"}));
  EXPECT_EQ(toText(makeScalar(ElementKind::F16, Half(0.1f))), (Strings{"0.1"}));
  EXPECT_EQ(toText(make<uint64_t>(ElementKind::U64, {~0ull})), (Strings{"18446744073709551615"}));
  EXPECT_EQ(toText(make<int8_t>(ElementKind::I8, {-128})), (Strings{"-128"}));

  auto fromText = [](const Strings &text, int type) { return Op("Cast").integer("to", type)({strings(text)}); };
  EXPECT_EQ(valuesOf<float>(fromText({"3.14", "1e-5", "1E8", "+INF", "inf", "-Inf", "+2", "1e999"}, onnx::TensorProto::FLOAT)),
            (std::vector<float>{3.14f, 1e-5f, 1e8f, kInfinity, kInfinity, -kInfinity, 2, kInfinity}));
  EXPECT_EQ(valuesOf<int64_t>(fromText({"9223372036854775807", "-7", "100.5"}, onnx::TensorProto::INT64)),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::max(), -7, 100}));
  EXPECT_EQ(fromText({"True", "0"}, onnx::TensorProto::BOOL).bytes, (std::vector<uint8_t>{1, 0}));
  for (const char *bad : {"", "+", "+-1", "Hello World!", "1.5x", " 1"})
    for (int type : {onnx::TensorProto::FLOAT, onnx::TensorProto::INT32, onnx::TensorProto::UINT64, onnx::TensorProto::FLOAT16})
      EXPECT_THROW(fromText({bad}, type), Error) << bad;
  // Each text is read as the number that it was made of.
  std::mt19937_64 random(5);
  const HostTensor x = samples(ElementKind::F32, random);
  const HostTensor back = fromText(toText(x), onnx::TensorProto::FLOAT);
  for (int64_t i = 0; i < countOf(x); ++i)
    if (data<float>(x)[i] == data<float>(x)[i])
      ASSERT_EQ(data<float>(back)[i], data<float>(x)[i]);
}

TEST(CastTest, RefusesTypesThatAreNone) {
  for (int64_t type : {int64_t(-1), int64_t(0), int64_t(27), int64_t(1) << 32, int64_t(onnx::TensorProto::COMPLEX64)})
    EXPECT_THROW(Op("Cast").integer("to", type)({floats({1})}), Error);
  EXPECT_THROW(Op("Cast")({floats({1})}), Error);
  EXPECT_THROW(Op("BitCast").integer("to", onnx::TensorProto::DOUBLE)({floats({1})}), Error);
  EXPECT_THROW(Op("BitCast").integer("to", onnx::TensorProto::STRING)({floats({1})}), Error);
}

//===----------------------------------------------------------------------===//
// Quantization
//===----------------------------------------------------------------------===//

TEST(QuantizeTest, SaturatesWhatIsNoFiniteNumber) {
  const HostTensor x = floats({kInfinity, -kInfinity, 1e30f, 2.5f, 3.5f, -1e30f}), one = floats({1}, Shape{});
  EXPECT_EQ(valuesOf<int8_t>(Op("QuantizeLinear")({x, one, makeScalar(ElementKind::I8, int8_t(3))})),
            (std::vector<int8_t>{127, -128, 127, 5, 7, -128}));
  EXPECT_EQ(valuesOf<uint8_t>(Op("QuantizeLinear")({x, one})), (std::vector<uint8_t>{255, 0, 255, 2, 4, 0}));
  // A scale of zero, and NaN: anything, but no trap.
  Op("QuantizeLinear")({floats({0, kNan, 1}), floats({0}, Shape{})});
}

TEST(QuantizeTest, BlocksTakeTheirScalesAlongTheAxis) {
  // [2, 5] in blocks of 2 along axis 1, and [3, 2] in blocks of 2 along axis 0; the last block is short.
  const HostTensor scale = floats({1, 2, 4, 8, 16, 32}, Shape{2, 3}),
                   x = make<int8_t>(ElementKind::I8, std::vector<int8_t>(10, 1), Shape{2, 5});
  EXPECT_EQ(valuesOf<float>(Op("DequantizeLinear").integer("axis", -1).integer("block_size", 2)({x, scale})),
            (std::vector<float>{1, 1, 2, 2, 4, 8, 8, 16, 16, 32}));
  const HostTensor tall = make<int8_t>(ElementKind::I8, std::vector<int8_t>(6, 1), Shape{3, 2});
  EXPECT_EQ(valuesOf<float>(
                Op("DequantizeLinear").integer("axis", 0).integer("block_size", 2)({tall, floats({1, 2, 4, 8}, Shape{2, 2})})),
            (std::vector<float>{1, 2, 1, 2, 4, 8}));
}

TEST(QuantizeTest, RefusesScalesThatDoNotFit) {
  const HostTensor x = floats(std::vector<float>(6, 1), Shape{2, 3}), three = floats({1, 2, 3});
  EXPECT_NO_THROW(Op("QuantizeLinear")({x, three}));
  EXPECT_THROW(Op("QuantizeLinear").integer("axis", 0)({x, three}), Error);
  EXPECT_THROW(Op("QuantizeLinear").integer("axis", 2)({x, three}), Error);
  EXPECT_THROW(Op("QuantizeLinear").integer("block_size", 2)({x, three}), Error);
  EXPECT_THROW(Op("QuantizeLinear").integer("block_size", -1)({x, three}), Error);
  EXPECT_THROW(Op("QuantizeLinear")({x, floats({1, 2, 3, 1, 2, 3}, Shape{2, 3})}), Error);
  EXPECT_THROW(Op("QuantizeLinear")({x, three, make<uint8_t>(ElementKind::U8, {1, 2})}), Error);
  EXPECT_THROW(Op("QuantizeLinear").integer("output_dtype", onnx::TensorProto::DOUBLE)({x, three}), Error);
  EXPECT_THROW(Op("QuantizeLinear")
                   .integer("output_dtype", onnx::TensorProto::INT8)({x, three, make<uint8_t>(ElementKind::U8, {1, 2, 3})}),
               Error);
  EXPECT_THROW(Op("DequantizeLinear")({x, three}), Error);
  EXPECT_THROW(Op("QuantizeLinear").integer("axis", 0)({floats({1}, Shape{}), three}), Error);
}

TEST(QuantizeTest, DynamicScaleOfZerosIsNoDivisionByZero) {
  EXPECT_EQ(Op("DynamicQuantizeLinear")({floats({0, 0})}).bytes, (std::vector<uint8_t>{0, 0}));
  EXPECT_EQ(Op("DynamicQuantizeLinear")({floats({}, Shape{0})}).bytes.size(), 0u);
}

} // namespace
