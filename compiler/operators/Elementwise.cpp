//===- Elementwise.cpp - Operators of several operands, by element --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arithmetic, comparisons, logic and bits under numpy broadcasting. Integers
// wrap; what has no value (a division by zero) is 0, as in numpy.
//===----------------------------------------------------------------------===//
#include "compiler/operators/ElementLoops.h"
#include "compiler/operators/Widened.h"

#include <limits>

using namespace tw;
using namespace tw::operators;

//===----------------------------------------------------------------------===//
// Functions of two elements. T is what is computed in, see Computed.
//===----------------------------------------------------------------------===//

namespace {
/// The unsigned type in which arithmetic on T wraps; never promoted to int.
template <typename T> using Wrapping = std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>;

struct Add {
  template <typename T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return T(Wrapping<T>(a) + Wrapping<T>(b));
    else
      return a + b;
  }
};
struct Sub {
  template <typename T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return T(Wrapping<T>(a) - Wrapping<T>(b));
    else
      return a - b;
  }
};
struct Mul {
  template <typename T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return T(Wrapping<T>(a) * Wrapping<T>(b));
    else
      return a * b;
  }
};
/// Integers: towards zero.
struct Div {
  template <typename T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0)
        return 0;
      // The smallest integer over -1 traps.
      if (std::is_signed_v<T> && b == T(-1))
        return T(Wrapping<T>(0) - Wrapping<T>(a));
      return T(a / b);
    } else {
      return a / b;
    }
  }
};
/// The remainder with the sign of the dividend, as C's fmod and %.
struct Fmod {
  template <typename T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return b == 0 || (std::is_signed_v<T> && b == T(-1)) ? T(0) : T(a % b);
    else
      return std::fmod(a, b);
  }
};
/// The remainder with the sign of the divisor.
struct Mod {
  template <typename T> T operator()(T a, T b) const {
    const T remainder = Fmod()(a, b);
    return std::is_signed_v<T> && remainder != 0 && (remainder < 0) != (b < 0) ? T(remainder + b) : remainder;
  }
};
/// NaN wins.
struct Max {
  template <typename T> T operator()(T a, T b) const {
    const T larger = a > b ? a : b;
    return a != a ? a : larger;
  }
};
struct Min {
  template <typename T> T operator()(T a, T b) const {
    const T smaller = a < b ? a : b;
    return a != a ? a : smaller;
  }
};
struct PRelu {
  template <typename T> T operator()(T x, T slope) const { return x < 0 ? Mul()(x, slope) : x; }
};
struct Equal {
  template <typename T> bool operator()(T a, T b) const { return a == b; }
};
struct Less {
  template <typename T> bool operator()(T a, T b) const { return a < b; }
};
struct LessOrEqual {
  template <typename T> bool operator()(T a, T b) const { return a <= b; }
};
struct Greater {
  template <typename T> bool operator()(T a, T b) const { return a > b; }
};
struct GreaterOrEqual {
  template <typename T> bool operator()(T a, T b) const { return a >= b; }
};
struct And {
  bool operator()(bool a, bool b) const { return a && b; }
};
struct Or {
  bool operator()(bool a, bool b) const { return a || b; }
};
struct Xor {
  bool operator()(bool a, bool b) const { return a != b; }
};
struct BitAnd {
  template <typename T> T operator()(T a, T b) const { return T(a & b); }
};
struct BitOr {
  template <typename T> T operator()(T a, T b) const { return T(a | b); }
};
struct BitXor {
  template <typename T> T operator()(T a, T b) const { return T(a ^ b); }
};
/// Bits that are shifted by the width of T or more are gone.
struct ShiftLeft {
  template <typename T> T operator()(T a, T b) const { return b >= sizeof(T) * 8 ? T(0) : T(uint64_t(a) << b); }
};
struct ShiftRight {
  template <typename T> T operator()(T a, T b) const { return b >= sizeof(T) * 8 ? T(0) : T(uint64_t(a) >> b); }
};
} // namespace

[[noreturn]] static void failOnType(const Call &call, const HostTensor &x, const char *allowed) {
  call.fail(std::string("a tensor of ") + frontend::elementName(x.type) + " is given, expected " + allowed);
}

/// Before opset 7, broadcasting was an attribute, and along other dims.
static void requireNumpyBroadcasting(const Call &call) {
  if (call.hasAttr("broadcast") || call.hasAttr("axis"))
    call.fail("attributes broadcast and axis of opsets before 7 are not supported");
}

static HostTensor &outputLike(Call &call, ElementKind kind, const HostTensor &x, const HostTensor &y) {
  return call.output(0, kind, x.shape == y.shape ? x.shape : broadcast(x.shape, y.shape));
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

template <typename F> static void evaluateArithmetic(Call &call) {
  requireNumpyBroadcasting(call);
  const HostTensor &x = call.input(0), &y = call.input(1);
  call.requireSameType(x, y);
  const bool done = visitNumber(x.type, [&](auto zero) {
    using T = decltype(zero);
    zipElements<T, T, T>(x, y, outputLike(call, x.type, x, y), F());
  });
  if (!done)
    failOnType(call, x, "numbers of 8 bits and more");
}

static void evaluateMod(Call &call) {
  if (call.flagAttr("fmod", false))
    return evaluateArithmetic<Fmod>(call);
  const HostTensor &x = call.input(0), &y = call.input(1);
  call.requireSameType(x, y);
  if (frontend::isFloat(x.type))
    call.fail("attribute fmod is 0, expected 1 for floats");
  const bool done = visitInteger(x.type, [&](auto zero) {
    using T = decltype(zero);
    zipElements<T, T, T>(x, y, outputLike(call, x.type, x, y), Mod());
  });
  if (!done)
    failOnType(call, x, "numbers of 8 bits and more");
}

static void evaluatePRelu(Call &call) {
  const HostTensor &x = call.input(0), &slope = call.input(1);
  call.requireSameType(x, slope);
  if (broadcast(x.shape, slope.shape) != x.shape)
    call.fail("the slope's shape " + textOf(slope.shape) + " does not broadcast to the input's, " + textOf(x.shape));
  const bool done = visitNumber(x.type, [&](auto zero) {
    using T = decltype(zero);
    zipElements<T, T, T>(x, slope, call.output(0, x.type, x.shape), PRelu());
  });
  if (!done)
    failOnType(call, x, "numbers of 8 bits and more");
}

/// Wraps; a power that is a fraction is truncated, and 0 to a negative power is 0.
template <typename T> static T powerOf(T base, bool isNegative, uint64_t exponent) {
  if (isNegative)
    return base == T(1) || (std::is_signed_v<T> && base == T(-1) && exponent % 2 == 0) ? T(1)
           : std::is_signed_v<T> && base == T(-1)                                      ? T(-1)
                                                                                       : T(0);
  uint64_t result = 1, square = uint64_t(base);
  for (; exponent; exponent >>= 1, square *= square)
    if (exponent & 1)
      result *= square;
  return T(result);
}

static void evaluatePow(Call &call) {
  requireNumpyBroadcasting(call);
  const HostTensor &x = call.input(0), &given = call.input(1);
  const bool isInteger = visitInteger(given.type, [](auto) {});
  if (!isInteger && !frontend::isFloat(given.type))
    failOnType(call, given, "an exponent of floats, or of integers of 8 bits and more");
  HostTensor &z = outputLike(call, x.type, x, given);
  // The exponent as it is if both are float, else as one of three types.
  if (given.type == ElementKind::F32 && x.type == ElementKind::F32) {
    // A square is exact to half a unit: no need of the general function.
    if (countOf(given) == 1 && data<float>(given)[0] == 2.0f)
      zipElements<float, float, float>(x, given, z, [](float a, float) { return a * a; });
    else
      zipElements<float, float, float>(x, given, z, [](float a, float b) { return std::pow(a, b); });
    return;
  }
  const ElementKind kind = !isInteger ? ElementKind::F64 : given.type == ElementKind::U64 ? ElementKind::U64 : ElementKind::I64;
  const HostTensor converted = given.type == kind ? HostTensor() : toKind(given, kind);
  const HostTensor &y = given.type == kind ? given : converted;
  auto run = [&](auto zero, auto exponentZero) {
    using T = decltype(zero);
    using E = decltype(exponentZero);
    zipElements<T, E, T>(x, y, z, [](Computed<T> a, E b) -> Computed<T> {
      if constexpr (kIsFloat<T>)
        return Computed<T>(std::pow(double(a), double(b)));
      else if constexpr (std::is_integral_v<E>)
        return std::is_signed_v<E> && b < 0 ? powerOf<T>(a, true, uint64_t(0) - uint64_t(b))
                                            : powerOf<T>(a, false, uint64_t(b));
      else
        return fromReal<T>(std::pow(double(a), b));
    });
  };
  const bool done = visitNumber(x.type, [&](auto zero) {
    if (kind == ElementKind::F64)
      run(zero, double());
    else if (kind == ElementKind::U64)
      run(zero, uint64_t());
    else
      run(zero, int64_t());
  });
  if (!done)
    failOnType(call, x, "a base of floats, or of integers of 8 bits and more");
}

//===----------------------------------------------------------------------===//
// Any number of operands
//===----------------------------------------------------------------------===//

/// f(f(x0, x1), x2) ... on all inputs. Sums of narrow floats are kept in float, so that they round once.
template <typename F> static HostTensor folded(Call &call, bool isSum) {
  if (call.numInputs() == 0)
    call.fail("it has no input, expected at least one");
  const ElementKind given = call.input(0).type;
  const ElementKind kind = isSum && (given == ElementKind::F16 || given == ElementKind::BF16) ? ElementKind::F32 : given;
  HostTensor sum = toKind(call.input(0), kind);
  sum.name.clear();
  for (size_t i = 1; i < call.numInputs(); ++i) {
    const HostTensor &next = call.input(i);
    call.requireSameType(call.input(0), next);
    const HostTensor converted = next.type == kind ? HostTensor() : toKind(next, kind);
    const HostTensor &y = next.type == kind ? next : converted;
    HostTensor result = makeTensor(kind, sum.shape == y.shape ? sum.shape : broadcast(sum.shape, y.shape));
    visitNumber(kind, [&](auto zero) {
      using T = decltype(zero);
      zipElements<T, T, T>(sum, y, result, F());
    });
    sum = std::move(result);
  }
  if (!visitNumber(given, [](auto) {}))
    failOnType(call, call.input(0), "numbers of 8 bits and more");
  return sum;
}

template <typename F> static void evaluateFolded(Call &call) { call.set(0, folded<F>(call, false)); }

static void evaluateSum(Call &call) { call.set(0, toKind(folded<Add>(call, true), call.input(0).type)); }

static void evaluateMean(Call &call) {
  HostTensor sum = folded<Add>(call, true);
  if (!frontend::isFloat(sum.type))
    failOnType(call, call.input(0), "floats");
  visitFloat(sum.type, [&](auto zero) {
    using T = decltype(zero);
    const Computed<T> count = Computed<T>(call.numInputs());
    mapElements(data<T>(sum), data<T>(sum), countOf(sum), [count](Computed<T> x) { return x / count; });
  });
  call.set(0, toKind(sum, call.input(0).type));
}

//===----------------------------------------------------------------------===//
// Comparisons, logic, bits
//===----------------------------------------------------------------------===//

template <typename F> static void evaluateComparison(Call &call) {
  requireNumpyBroadcasting(call);
  const HostTensor &x = call.input(0), &y = call.input(1);
  call.requireSameType(x, y);
  HostTensor &z = outputLike(call, ElementKind::Bool, x, y);
  if constexpr (std::is_same_v<F, Equal>) {
    if (x.type == ElementKind::String) {
      walk<2>(z.shape, {broadcastStrides(x.shape, z.shape), broadcastStrides(y.shape, z.shape)},
              [&](int64_t i, const std::array<int64_t, 2> &at) {
                z.bytes[size_t(i)] = x.strings[size_t(at[0])] == y.strings[size_t(at[1])];
              });
      return;
    }
    if (x.type == ElementKind::Bool)
      return zipElements<Bool, Bool, Bool>(x, y, z, F());
  }
  const bool done = visitNumber(x.type, [&](auto zero) {
    using T = decltype(zero);
    zipElements<T, T, Bool>(x, y, z, F());
  });
  if (!done)
    failOnType(call, x, "numbers of 8 bits and more");
}

template <typename F> static void evaluateLogic(Call &call) {
  requireNumpyBroadcasting(call);
  const HostTensor &x = call.input(0), &y = call.input(1);
  for (const HostTensor *each : {&x, &y})
    if (each->type != ElementKind::Bool)
      failOnType(call, *each, "bool");
  zipElements<Bool, Bool, Bool>(x, y, outputLike(call, ElementKind::Bool, x, y), F());
}

template <typename F> static void evaluateBits(Call &call) {
  const HostTensor &x = call.input(0), &y = call.input(1);
  call.requireSameType(x, y);
  const bool done = visitInteger(x.type, [&](auto zero) {
    using T = decltype(zero);
    zipElements<T, T, T>(x, y, outputLike(call, x.type, x, y), F());
  });
  if (!done)
    failOnType(call, x, "integers of 8 bits and more");
}

static void evaluateBitShift(Call &call) {
  const HostTensor &x = call.input(0), &y = call.input(1);
  call.requireSameType(x, y);
  const std::string direction = call.stringAttr("direction");
  if (direction != "LEFT" && direction != "RIGHT")
    call.fail("attribute direction must be LEFT or RIGHT");
  const bool done = visitInteger(x.type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_unsigned_v<T>) {
      HostTensor &z = outputLike(call, x.type, x, y);
      if (direction == "LEFT")
        zipElements<T, T, T>(x, y, z, ShiftLeft());
      else
        zipElements<T, T, T>(x, y, z, ShiftRight());
    } else {
      failOnType(call, x, "unsigned integers");
    }
  });
  if (!done)
    failOnType(call, x, "unsigned integers");
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

static void evaluateWhere(Call &call) {
  const HostTensor &condition = call.input(0), &x = call.input(1), &y = call.input(2);
  if (condition.type != ElementKind::Bool)
    failOnType(call, condition, "a condition of bool");
  call.requireSameType(x, y);
  HostTensor &z = call.output(0, x.type, broadcast(condition.shape, broadcast(x.shape, y.shape)));
  if (x.type == ElementKind::String) {
    walk<3>(
        z.shape,
        {broadcastStrides(condition.shape, z.shape), broadcastStrides(x.shape, z.shape), broadcastStrides(y.shape, z.shape)},
        [&](int64_t i, const std::array<int64_t, 3> &at) {
          z.strings[size_t(i)] = condition.bytes[size_t(at[0])] ? x.strings[size_t(at[1])] : y.strings[size_t(at[2])];
        });
    return;
  }
  auto run = [&](auto zero) {
    using T = decltype(zero);
    forEachRow<3>(z.shape, {&condition.shape, &x.shape, &y.shape},
                  [&](int64_t i, const std::array<int64_t, 3> &at, int64_t count, const std::array<int64_t, 3> &steps) {
                    const uint8_t *choice = condition.bytes.data() + at[0];
                    const T *a = data<T>(x) + at[1], *b = data<T>(y) + at[2];
                    T *to = data<T>(z) + i;
                    for (int64_t j = 0; j < count; ++j)
                      to[j] = choice[j * steps[0]] ? a[j * steps[1]] : b[j * steps[2]];
                  });
  };
  switch (frontend::elementBytes(x.type)) {
  case 1:
    return run(uint8_t());
  case 2:
    return run(uint16_t());
  case 4:
    return run(uint32_t());
  case 8:
    return run(uint64_t());
  default:
    return run(std::array<uint64_t, 2>());
  }
}

/// Bounds are attributes until opset 10, optional inputs of one element from opset 11 on.
static void evaluateClip(Call &call) {
  const HostTensor &x = call.input(0);
  const bool done = visitNumber(x.type, [&](auto zero) {
    using T = decltype(zero);
    using C = Computed<T>;
    C low = std::is_floating_point_v<C> ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::lowest();
    C high = std::is_floating_point_v<C> ? std::numeric_limits<C>::infinity() : std::numeric_limits<C>::max();
    if (call.opset() < 11) {
      if (!kIsFloat<T>)
        failOnType(call, x, "floats before opset 12");
      if (call.hasAttr("min"))
        low = C(T(C(call.floatAttr("min"))));
      if (call.hasAttr("max"))
        high = C(T(C(call.floatAttr("max"))));
    } else {
      auto bound = [&](size_t i, C &value) {
        if (!call.has(i))
          return;
        call.requireSameType(x, call.input(i));
        if (countOf(call.input(i)) != 1)
          call.fail("input " + std::to_string(i) + " has shape " + textOf(call.input(i).shape) + ", expected a scalar");
        value = C(data<T>(call.input(i))[0]);
      };
      bound(1, low);
      bound(2, high);
    }
    // Above both, the upper bound wins; NaN stays.
    mapElements(data<T>(x), data<T>(call.output(0, x.type, x.shape)), countOf(x), [low, high](C value) {
      const C raised = value < low ? low : value;
      return raised > high ? high : raised;
    });
  });
  if (!done)
    failOnType(call, x, "numbers of 8 bits and more");
}

/// source: ONNX, operator SwiGLU: a * sigmoid(alpha * a) * b
static void evaluateSwiGlu(Call &call) {
  const HostTensor &a = call.input(0), &b = call.input(1);
  call.requireSameType(a, b);
  if (a.shape != b.shape)
    call.fail("inputs have shapes " + textOf(a.shape) + " and " + textOf(b.shape) + ", expected one shape");
  const float alpha = call.floatAttr("alpha", 1.0f);
  const bool done = visitFloat(a.type, [&](auto zero) {
    using T = decltype(zero);
    using C = Computed<T>;
    zipElements<T, T, T>(a, b, call.output(0, a.type, a.shape),
                         [alpha](C gate, C value) { return gate / (C(1) + std::exp(-C(alpha) * gate)) * value; });
  });
  if (!done)
    failOnType(call, a, "floats");
}

void operators::addElementwise(Table &table) {
  table[":Add"] = {evaluateArithmetic<Add>};
  table[":Sub"] = {evaluateArithmetic<Sub>};
  table[":Mul"] = {evaluateArithmetic<Mul>};
  table[":Div"] = {evaluateArithmetic<Div>};
  table[":Mod"] = {evaluateMod};
  table[":Pow"] = {evaluatePow};
  table[":PRelu"] = {evaluatePRelu};
  table[":Max"] = {evaluateFolded<Max>};
  table[":Min"] = {evaluateFolded<Min>};
  table[":Sum"] = {evaluateSum};
  table[":Mean"] = {evaluateMean};
  table[":Equal"] = {evaluateComparison<Equal>};
  table[":Less"] = {evaluateComparison<Less>};
  table[":LessOrEqual"] = {evaluateComparison<LessOrEqual>};
  table[":Greater"] = {evaluateComparison<Greater>};
  table[":GreaterOrEqual"] = {evaluateComparison<GreaterOrEqual>};
  table[":And"] = {evaluateLogic<And>};
  table[":Or"] = {evaluateLogic<Or>};
  table[":Xor"] = {evaluateLogic<Xor>};
  table[":BitwiseAnd"] = {evaluateBits<BitAnd>};
  table[":BitwiseOr"] = {evaluateBits<BitOr>};
  table[":BitwiseXor"] = {evaluateBits<BitXor>};
  table[":BitShift"] = {evaluateBitShift};
  table[":Where"] = {evaluateWhere};
  table[":Clip"] = {evaluateClip};
  table[":SwiGLU"] = {evaluateSwiGlu};
  addActivations(table);
}
