//===- Activations.cpp - Operators of one operand, by element -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Floats of 16 bits are computed in float and rounded once.
//===----------------------------------------------------------------------===//
#include "compiler/operators/ElementLoops.h"

#include <limits>

using namespace tw;
using namespace tw::operators;

[[noreturn]] static void failOnType(const Call &call, const HostTensor &x, const char *allowed) {
  call.fail(std::string("a tensor of ") + frontend::elementName(x.type) + " is given, expected " + allowed);
}

/// `f` maps an element, in the type that is computed in.
template <typename F> static void mapFloats(Call &call, F &&f) {
  const HostTensor &x = call.input(0);
  const bool done = visitFloat(x.type, [&](auto zero) {
    using T = decltype(zero);
    mapElements(data<T>(x), data<T>(call.output(0, x.type, x.shape)), countOf(x), f);
  });
  if (!done)
    failOnType(call, x, "floats");
}

/// The same for integers of 8 to 64 bits too.
template <typename F> static void mapNumbers(Call &call, F &&f) {
  const HostTensor &x = call.input(0);
  const bool done = visitNumber(x.type, [&](auto zero) {
    using T = decltype(zero);
    mapElements(data<T>(x), data<T>(call.output(0, x.type, x.shape)), countOf(x), f);
  });
  if (!done)
    failOnType(call, x, "numbers of 8 bits and more");
}

//===----------------------------------------------------------------------===//
// Functions without attributes
//===----------------------------------------------------------------------===//

namespace {
// clang-format off
struct Acos { template <typename T> T operator()(T x) const { return std::acos(x); } };
struct Acosh { template <typename T> T operator()(T x) const { return std::acosh(x); } };
struct Asin { template <typename T> T operator()(T x) const { return std::asin(x); } };
struct Asinh { template <typename T> T operator()(T x) const { return std::asinh(x); } };
struct Atan { template <typename T> T operator()(T x) const { return std::atan(x); } };
struct Atanh { template <typename T> T operator()(T x) const { return std::atanh(x); } };
struct Ceil { template <typename T> T operator()(T x) const { return std::ceil(x); } };
struct Cos { template <typename T> T operator()(T x) const { return std::cos(x); } };
struct Cosh { template <typename T> T operator()(T x) const { return std::cosh(x); } };
struct Exp { template <typename T> T operator()(T x) const { return std::exp(x); } };
struct Floor { template <typename T> T operator()(T x) const { return std::floor(x); } };
struct Log { template <typename T> T operator()(T x) const { return std::log(x); } };
struct Reciprocal { template <typename T> T operator()(T x) const { return T(1) / x; } };
/// Ties to even.
struct Round { template <typename T> T operator()(T x) const { return std::nearbyint(x); } };
struct Sigmoid { template <typename T> T operator()(T x) const { return T(1) / (T(1) + std::exp(-x)); } };
struct Sin { template <typename T> T operator()(T x) const { return std::sin(x); } };
struct Sinh { template <typename T> T operator()(T x) const { return std::sinh(x); } };
struct Softsign { template <typename T> T operator()(T x) const { return x / (T(1) + std::fabs(x)); } };
struct Sqrt { template <typename T> T operator()(T x) const { return std::sqrt(x); } };
struct Tan { template <typename T> T operator()(T x) const { return std::tan(x); } };
struct Tanh { template <typename T> T operator()(T x) const { return std::tanh(x); } };
// clang-format on

struct HardSwish {
  template <typename T> T operator()(T x) const {
    const T gate = x / T(6) + T(0.5);
    return x * (gate < 0 ? T(0) : gate > 1 ? T(1) : gate);
  }
};
/// log(1 + exp(x)), without overflow.
struct Softplus {
  template <typename T> T operator()(T x) const { return (x < 0 ? T(0) : x) + std::log1p(std::exp(-std::fabs(x))); }
};
struct Mish {
  template <typename T> T operator()(T x) const { return x * std::tanh(Softplus()(x)); }
};

/// Integers wrap: the smallest one stays.
struct Abs {
  template <typename T> T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::fabs(x);
    else if constexpr (std::is_signed_v<T>)
      return x < 0 ? T(uint64_t(0) - uint64_t(x)) : x;
    else
      return x;
  }
};
struct Neg {
  template <typename T> T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return -x;
    else
      return T(uint64_t(0) - uint64_t(x));
  }
};
/// NaN stays.
struct Sign {
  template <typename T> T operator()(T x) const { return x > 0 ? T(1) : x == 0 ? T(0) : x < T(0) ? T(-1) : x; }
};
/// NaN stays.
struct Relu {
  template <typename T> T operator()(T x) const { return x < T(0) ? T(0) : x; }
};
/// Of integers it is truncated.
struct Erf {
  template <typename T> T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::erf(x);
    else
      return T(std::erf(double(x)));
  }
};
} // namespace

template <typename F> static void evaluateFloats(Call &call) { mapFloats(call, F()); }
template <typename F> static void evaluateNumbers(Call &call) { mapNumbers(call, F()); }

static void evaluateNeg(Call &call) {
  const HostTensor &x = call.input(0);
  visitInteger(x.type, [&](auto zero) {
    if (std::is_unsigned_v<decltype(zero)>)
      failOnType(call, x, "floats or signed integers");
  });
  mapNumbers(call, Neg());
}

static void evaluateNot(Call &call) {
  const HostTensor &x = call.input(0);
  if (x.type != ElementKind::Bool)
    failOnType(call, x, "bool");
  mapElements(data<Bool>(x), data<Bool>(call.output(0, x.type, x.shape)), countOf(x), [](bool value) { return !value; });
}

static void evaluateBitwiseNot(Call &call) {
  const HostTensor &x = call.input(0);
  const bool done = visitInteger(x.type, [&](auto zero) {
    using T = decltype(zero);
    mapElements(data<T>(x), data<T>(call.output(0, x.type, x.shape)), countOf(x), [](T value) { return T(~value); });
  });
  if (!done)
    failOnType(call, x, "integers of 8 bits and more");
}

//===----------------------------------------------------------------------===//
// Predicates
//===----------------------------------------------------------------------===//

/// Floats of 8 bits and fewer are looked at one by one.
template <typename F> static void testFloats(Call &call, F &&f) {
  const HostTensor &x = call.input(0);
  HostTensor &y = call.output(0, ElementKind::Bool, x.shape);
  const int64_t count = countOf(x);
  const bool done = visitFloat(x.type, [&](auto zero) {
    using T = decltype(zero);
    mapElements(data<T>(x), data<Bool>(y), count, f);
  });
  if (done)
    return;
  if (x.type < ElementKind::F8E4M3FN || x.type > ElementKind::F4E2M1)
    failOnType(call, x, "floats");
  for (int64_t i = 0; i < count; ++i)
    y.bytes[size_t(i)] = f(realAt(x, i));
}

static void evaluateIsNan(Call &call) {
  testFloats(call, [](auto x) { return x != x; });
}

static void evaluateIsInf(Call &call) {
  const bool detectsPositive = call.flagAttr("detect_positive", true), detectsNegative = call.flagAttr("detect_negative", true);
  testFloats(call, [=](auto x) {
    using T = decltype(x);
    constexpr T infinity = std::numeric_limits<T>::infinity();
    return (detectsPositive && x == infinity) || (detectsNegative && x == -infinity);
  });
}

//===----------------------------------------------------------------------===//
// Functions with attributes. source: ONNX, the operators' pages, also of the defaults
//===----------------------------------------------------------------------===//

static void evaluateCelu(Call &call) {
  const float alpha = call.floatAttr("alpha", 1.0f);
  mapFloats(call, [alpha](auto x) {
    using T = decltype(x);
    return x > 0 ? x : T(alpha) * std::expm1(x / T(alpha));
  });
}

static void evaluateElu(Call &call) {
  const float alpha = call.floatAttr("alpha", 1.0f);
  mapFloats(call, [alpha](auto x) {
    using T = decltype(x);
    return x < 0 ? T(alpha) * std::expm1(x) : x;
  });
}

static void evaluateSelu(Call &call) {
  const float alpha = call.floatAttr("alpha", 1.67326319217681884765625f);
  const float gamma = call.floatAttr("gamma", 1.05070102214813232421875f);
  mapFloats(call, [=](auto x) {
    using T = decltype(x);
    return T(gamma) * (x > 0 ? x : T(alpha) * std::expm1(x));
  });
}

static void evaluateLeakyRelu(Call &call) {
  const float alpha = call.floatAttr("alpha", 0.01f);
  mapFloats(call, [alpha](auto x) {
    using T = decltype(x);
    return x < 0 ? T(alpha) * x : x;
  });
}

static void evaluateThresholdedRelu(Call &call) {
  const float alpha = call.floatAttr("alpha", 1.0f);
  mapFloats(call, [alpha](auto x) {
    using T = decltype(x);
    return x > T(alpha) ? x : T(0);
  });
}

static void evaluateHardSigmoid(Call &call) {
  const float alpha = call.floatAttr("alpha", 0.2f), beta = call.floatAttr("beta", 0.5f);
  mapFloats(call, [=](auto x) {
    using T = decltype(x);
    const T value = T(alpha) * x + T(beta);
    return value < 0 ? T(0) : value > 1 ? T(1) : value;
  });
}

static void evaluateSwish(Call &call) {
  const float alpha = call.floatAttr("alpha", 1.0f);
  mapFloats(call, [alpha](auto x) {
    using T = decltype(x);
    return x / (T(1) + std::exp(-T(alpha) * x));
  });
}

static void evaluateGelu(Call &call) {
  const std::string approximate = call.stringAttr("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    call.fail("attribute approximate must be none or tanh");
  if (approximate == "tanh")
    return mapFloats(call, [](auto x) {
      using T = decltype(x);
      // sqrt(2 / pi)
      return T(0.5) * x * (T(1) + std::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
    });
  mapFloats(call, [](auto x) {
    using T = decltype(x);
    // 1 + erf(a) is erfc(-a), which keeps its digits where it is small.
    return T(0.5) * x * std::erfc(-x * T(0.70710678118654752440));
  });
}

static void evaluateShrink(Call &call) {
  const double lambda = call.floatAttr("lambd", 0.5f), bias = call.floatAttr("bias", 0.0f);
  mapNumbers(call, [=](auto x) {
    using T = decltype(x);
    if constexpr (std::is_floating_point_v<T>) {
      return x < -T(lambda) ? x + T(bias) : x > T(lambda) ? x - T(bias) : x == x ? T(0) : x;
    } else {
      // Integers are compared and moved as real numbers, then truncated.
      const double value = double(x);
      const double moved = value < -lambda ? value + bias : value > lambda ? value - bias : 0.0;
      if (moved <= double(std::numeric_limits<T>::min()) || moved != moved)
        return std::numeric_limits<T>::min();
      return moved >= double(std::numeric_limits<T>::max()) ? std::numeric_limits<T>::max() : T(moved);
    }
  });
}

void operators::addActivations(Table &table) {
  table[":Abs"] = {evaluateNumbers<Abs>};
  table[":Neg"] = {evaluateNeg};
  table[":Sign"] = {evaluateNumbers<Sign>};
  table[":Relu"] = {evaluateNumbers<Relu>};
  table[":Erf"] = {evaluateNumbers<Erf>};
  table[":Not"] = {evaluateNot};
  table[":BitwiseNot"] = {evaluateBitwiseNot};
  table[":IsNaN"] = {evaluateIsNan};
  table[":IsInf"] = {evaluateIsInf};
  table[":Acos"] = {evaluateFloats<Acos>};
  table[":Acosh"] = {evaluateFloats<Acosh>};
  table[":Asin"] = {evaluateFloats<Asin>};
  table[":Asinh"] = {evaluateFloats<Asinh>};
  table[":Atan"] = {evaluateFloats<Atan>};
  table[":Atanh"] = {evaluateFloats<Atanh>};
  table[":Ceil"] = {evaluateFloats<Ceil>};
  table[":Cos"] = {evaluateFloats<Cos>};
  table[":Cosh"] = {evaluateFloats<Cosh>};
  table[":Exp"] = {evaluateFloats<Exp>};
  table[":Floor"] = {evaluateFloats<Floor>};
  table[":HardSwish"] = {evaluateFloats<HardSwish>};
  table[":Log"] = {evaluateFloats<Log>};
  table[":Mish"] = {evaluateFloats<Mish>};
  table[":Reciprocal"] = {evaluateFloats<Reciprocal>};
  table[":Round"] = {evaluateFloats<Round>};
  table[":Sigmoid"] = {evaluateFloats<Sigmoid>};
  table[":Sin"] = {evaluateFloats<Sin>};
  table[":Sinh"] = {evaluateFloats<Sinh>};
  table[":Softplus"] = {evaluateFloats<Softplus>};
  table[":Softsign"] = {evaluateFloats<Softsign>};
  table[":Sqrt"] = {evaluateFloats<Sqrt>};
  table[":Tan"] = {evaluateFloats<Tan>};
  table[":Tanh"] = {evaluateFloats<Tanh>};
  table[":Celu"] = {evaluateCelu};
  table[":Elu"] = {evaluateElu};
  table[":Selu"] = {evaluateSelu};
  table[":LeakyRelu"] = {evaluateLeakyRelu};
  table[":ThresholdedRelu"] = {evaluateThresholdedRelu};
  table[":HardSigmoid"] = {evaluateHardSigmoid};
  table[":Swish"] = {evaluateSwish};
  table[":Gelu"] = {evaluateGelu};
  table[":Shrink"] = {evaluateShrink};
}
