//===- Types.cpp - Operators that change element types --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/operators/Elements.h"
#include "compiler/operators/Operator.h"
#include "isa/Printable.h"

#include <charconv>
#include <cstdlib>
#include <limits>

using namespace tw;
using namespace tw::operators;
using frontend::elementName;
using frontend::PowerRounding;

static bool isSmallFloat(ElementKind kind) { return kind >= ElementKind::F8E4M3FN && kind <= ElementKind::F4E2M1; }
static bool isTinyInteger(ElementKind kind) { return kind >= ElementKind::I4 && kind <= ElementKind::U2; }
static bool isComplex(ElementKind kind) { return kind == ElementKind::Complex64 || kind == ElementKind::Complex128; }

//===----------------------------------------------------------------------===//
// One number. C is what its type is computed in: float, double, bool or an integer.
//===----------------------------------------------------------------------===//

/// The number, towards zero, as the low bits of an integer. Floats are kept within the 64 bits of T's signedness; NaN is 0.
template <typename T, typename C> static T toInteger(C x) {
  if constexpr (std::is_floating_point_v<C>) {
    if (x >= C(-9223372036854775808.0) && x < C(9223372036854775808.0))
      return T(int64_t(x));
    if (x != x)
      return T(0);
    if (x < 0)
      return T(std::numeric_limits<int64_t>::min());
    if constexpr (std::is_same_v<T, uint64_t>)
      return x < C(18446744073709551616.0) ? T(x) : std::numeric_limits<T>::max();
    return T(std::numeric_limits<int64_t>::max());
  } else {
    return T(x);
  }
}

/// The number as a float that rounds further, to 16 bits and less, as the number itself does.
template <typename C> static float toOddFloat(C x) {
  if constexpr (std::is_same_v<C, float> || std::is_same_v<C, bool>)
    return float(x);
  else if constexpr (std::is_floating_point_v<C> || sizeof(C) <= 4)
    return frontend::roundToOdd(double(x));
  else {
    // 53 bits are exact in a double; what is below them shows in the last one.
    uint64_t magnitude = uint64_t(x);
    if (std::is_signed_v<C> && x < 0)
      magnitude = uint64_t(0) - magnitude;
    if (magnitude >> 53)
      magnitude = (magnitude & ~uint64_t(0x7ff)) | ((magnitude & 0x7ff) ? 0x800 : 0);
    const double real = double(magnitude);
    return frontend::roundToOdd(std::is_signed_v<C> && x < 0 ? -real : real);
  }
}

/// T is an element type of 8 bits and more.
template <typename T, typename C> static T toElement(C x) {
  if constexpr (std::is_same_v<T, Bool>)
    return Bool(x != C(0));
  else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat>)
    return T(toOddFloat(x));
  else if constexpr (std::is_integral_v<T>)
    return toInteger<T>(x);
  else
    return T(x);
}

template <typename C> static uint8_t toSmall(ElementKind kind, C x, SmallRounding rounding) {
  return kind == ElementKind::F8E8M0 ? frontend::floatToPower(toOddFloat(x), rounding.power, rounding.saturates)
                                     : frontend::floatToSmall(kind, toOddFloat(x), rounding.saturates);
}

template <typename C> static uint8_t toTiny(ElementKind kind, C x) {
  const int64_t value = toInteger<int64_t>(x);
  switch (kind) {
  case ElementKind::I4:
    return Tiny<4, true>(value).bits;
  case ElementKind::U4:
    return Tiny<4, false>(value).bits;
  case ElementKind::I2:
    return Tiny<2, true>(value).bits;
  default:
    return Tiny<2, false>(value).bits;
  }
}

/// Calls `f` with a zero of the element type, of 8 bits and more, bool included. False for other kinds.
template <typename F> static bool visitWide(ElementKind kind, F &&f) {
  return visitNumber(kind, f) || (kind == ElementKind::Bool && (f(Bool()), true));
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Digits that tell a number from its neighbours, as Python writes them: "0.1", "1.0", "1e-05", "inf". `isSame` tells whether
/// the value of a text, read as R, is the number.
template <typename R, typename F> static std::string textOfReal(double x, F &&isSame) {
  if (x != x)
    return "nan";
  if (std::isinf(x))
    return x < 0 ? "-inf" : "inf";
  char buffer[64];
  std::string text;
  for (int digits = 0; digits <= 17; ++digits) {
    auto end = std::to_chars(buffer, buffer + sizeof(buffer), std::fabs(x), std::chars_format::scientific, digits);
    text.assign(buffer, end.ptr);
    R back = 0;
    std::from_chars(buffer, end.ptr, back);
    if (isSame(std::signbit(x) ? -back : back))
      break;
  }
  // "d.ddde+XX"
  const size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  std::string digits = text.substr(0, 1) + (e > 2 ? text.substr(2, e - 2) : "");
  const int count = int(digits.size());
  std::string sign = std::signbit(x) ? "-" : "";
  if (exponent < -4 || exponent >= 16)
    return sign + digits.substr(0, 1) + (count > 1 ? "." + digits.substr(1) : "") + text.substr(e);
  if (exponent < 0)
    return sign + "0." + std::string(size_t(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return sign + digits + std::string(size_t(exponent + 1 - count), '0') + ".0";
  return sign + digits.substr(0, size_t(exponent + 1)) + "." + digits.substr(size_t(exponent + 1));
}

static std::string textOfElement(const HostTensor &x, int64_t i) {
  if (x.type == ElementKind::Bool)
    return x.bytes[size_t(i)] ? "True" : "False";
  if (x.type == ElementKind::U64)
    return std::to_string(data<uint64_t>(x)[i]);
  if (!frontend::isFloat(x.type) && !isSmallFloat(x.type))
    return std::to_string(integerAt(x, i));
  const double value = realAt(x, i);
  switch (x.type) {
  case ElementKind::F32:
    return textOfReal<float>(value, [&](float back) { return back == float(value); });
  case ElementKind::F16:
    return textOfReal<double>(value, [&](double back) { return Half(frontend::roundToOdd(back)) == float(value); });
  case ElementKind::BF16:
    return textOfReal<double>(value, [&](double back) { return Bfloat(frontend::roundToOdd(back)) == float(value); });
  default:
    return textOfReal<double>(value, [&](double back) { return back == value; });
  }
}

/// The text in lower case, and without the plus sign of a number, which from_chars() does not know.
static std::string normalised(const std::string &text) {
  std::string lower = text.size() > 1 && text[0] == '+' && text[1] != '-' ? text.substr(1) : text;
  for (char &c : lower)
    c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  return lower;
}

/// Fails for what is no number.
template <typename T> static T realOf(const std::string &given) {
  const std::string text = normalised(given);
  T value = 0;
  const char *end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  // Beyond the range: infinity, or nearly zero.
  if (error == std::errc::result_out_of_range && at == end)
    return T(std::strtod(text.c_str(), nullptr));
  if (error != std::errc() || at != end)
    throw Error{"the string \"" + printable(given) + "\" is no number"};
  return value;
}

template <typename T> static T integerOf(const std::string &given) {
  const std::string text = normalised(given);
  const char *end = text.data() + text.size();
  T value = 0;
  if (const auto [at, error] = std::from_chars(text.data(), end, value); error == std::errc() && at == end)
    return value;
  return toInteger<T>(realOf<double>(given));
}

static HostTensor fromStrings(const HostTensor &x, ElementKind kind, SmallRounding rounding) {
  HostTensor y = makeTensor(kind, x.shape);
  for (size_t i = 0; i < x.strings.size(); ++i) {
    const std::string &text = x.strings[i];
    if (kind == ElementKind::F32)
      data<float>(y)[i] = realOf<float>(text);
    else if (kind == ElementKind::U64)
      data<uint64_t>(y)[i] = integerOf<uint64_t>(text);
    else if (kind == ElementKind::Bool && (normalised(text) == "true" || normalised(text) == "false"))
      y.bytes[i] = normalised(text) == "true";
    else if (isSmallFloat(kind))
      y.bytes[i] = toSmall(kind, realOf<double>(text), rounding);
    else if (frontend::isFloat(kind) || kind == ElementKind::Bool)
      setReal(y, int64_t(i), realOf<double>(text));
    else
      setInteger(y, int64_t(i), integerOf<int64_t>(text));
  }
  return y;
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

HostTensor operators::toKind(const HostTensor &x, ElementKind kind, SmallRounding rounding) {
  if (x.type == kind)
    return x;
  for (ElementKind each : {x.type, kind})
    if (isComplex(each))
      throw Error{std::string("a tensor of ") + elementName(x.type) + " cannot become one of " + elementName(kind)};
  if (x.type == ElementKind::String)
    return fromStrings(x, kind, rounding);
  const int64_t count = countOf(x);
  HostTensor y = makeTensor(kind, x.shape);
  if (kind == ElementKind::String) {
    for (int64_t i = 0; i < count; ++i)
      y.strings[size_t(i)] = textOfElement(x, i);
    return y;
  }
  if (isSmallFloat(x.type) || isTinyInteger(x.type)) {
    // A byte has 256 values: each is converted once.
    HostTensor codes, values;
    codes.type = isSmallFloat(x.type) ? ElementKind::F32 : ElementKind::I8;
    codes.shape = {256};
    codes.bytes.resize(256 * size_t(frontend::elementBytes(codes.type)));
    for (int code = 0; code < 256; ++code)
      if (isSmallFloat(x.type))
        data<float>(codes)[code] = frontend::smallToFloat(x.type, uint8_t(code));
      else
        data<int8_t>(codes)[code] = int8_t(code);
    values = toKind(codes, kind, rounding);
    for (int64_t i = 0; i < count; ++i)
      copyElement(values, x.bytes[size_t(i)], y, i);
    return y;
  }
  visitWide(x.type, [&](auto zero) {
    using From = decltype(zero);
    using C = Computed<From>;
    const From *from = data<From>(x);
    if (isSmallFloat(kind)) {
      for (int64_t i = 0; i < count; ++i)
        y.bytes[size_t(i)] = toSmall(kind, C(from[i]), rounding);
    } else if (isTinyInteger(kind)) {
      for (int64_t i = 0; i < count; ++i)
        y.bytes[size_t(i)] = toTiny(kind, C(from[i]));
    } else {
      visitWide(kind, [&](auto zeroOfTo) {
        using To = decltype(zeroOfTo);
        To *to = data<To>(y);
        for (int64_t i = 0; i < count; ++i)
          to[i] = toElement<To>(C(from[i]));
      });
    }
  });
  return y;
}

/// The type of an attribute that names one; nothing where it is absent or 0.
static std::optional<ElementKind> kindAttr(const Call &call, const char *name) {
  const int64_t type = call.intAttr(name, 0);
  if (type == 0)
    return std::nullopt;
  const auto kind = type < 0 || type > frontend::kLastOnnxType ? std::nullopt : frontend::elementKindOf(int32_t(type));
  if (!kind)
    call.fail(std::string("attribute ") + name + " is " + std::to_string(type) + ", which is no type of elements");
  return kind;
}

static SmallRounding roundingOf(const Call &call) {
  SmallRounding rounding;
  rounding.saturates = call.flagAttr("saturate", true);
  const std::string mode = call.stringAttr("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest")
    call.fail("attribute round_mode must be up, down or nearest");
  rounding.power = mode == "up" ? PowerRounding::Up : mode == "down" ? PowerRounding::Down : PowerRounding::Nearest;
  return rounding;
}

static void castInput(Call &call, ElementKind kind) {
  const SmallRounding rounding = roundingOf(call);
  if (call.input(0).type == kind)
    return call.set(0, call.value(0));
  call.set(0, toKind(call.input(0), kind, rounding));
}

static void evaluateCast(Call &call) {
  const auto kind = kindAttr(call, "to");
  if (!kind)
    call.fail("attribute to is missing");
  castInput(call, *kind);
}

static void evaluateCastLike(Call &call) { castInput(call, call.input(1).type); }

/// Bits of one element: those of less than 8 take a byte here, and only their own bits count.
static unsigned bitsOf(ElementKind kind) {
  if (kind == ElementKind::F4E2M1 || kind == ElementKind::I4 || kind == ElementKind::U4)
    return 4;
  return kind == ElementKind::I2 || kind == ElementKind::U2 ? 2 : 8 * frontend::elementBytes(kind);
}

static void evaluateBitCast(Call &call) {
  const HostTensor &x = call.input(0);
  const auto kind = kindAttr(call, "to");
  if (!kind)
    call.fail("attribute to is missing");
  if (x.type == ElementKind::String || *kind == ElementKind::String || bitsOf(x.type) != bitsOf(*kind))
    call.fail(std::string("a tensor of ") + elementName(x.type) + " cannot be taken as one of " + elementName(*kind) +
              ": elements must have as many bits");
  HostTensor y = x;
  y.name.clear();
  y.type = *kind;
  for (uint8_t &byte : y.bytes) {
    if (*kind == ElementKind::Bool)
      byte = byte != 0;
    else if (*kind == ElementKind::F4E2M1)
      byte &= 0xf;
    else if (isTinyInteger(*kind))
      byte = toTiny(*kind, int64_t(byte));
    else
      break;
  }
  call.set(0, std::move(y));
}

//===----------------------------------------------------------------------===//
// Quantization
//===----------------------------------------------------------------------===//

namespace {
/// Which scale belongs to an element: x is [outer, dim, inner].
struct Granularity {
  int64_t outer = 1, dim = 1, inner = 1;
  /// Elements of `dim` that share a scale, and scales along `dim`. One scale for all: dim and inner are one row.
  int64_t block = 1, scales = 1;
  bool isBlocked = false;

  /// Calls `f(first, count, scale, step)` for rows of elements, `scale` and `step` saying where the scales of theirs lie.
  template <typename F> void forEachRow(F &&f) const {
    for (int64_t o = 0, first = 0; o < outer; ++o)
      for (int64_t d = 0; d < dim; ++d, first += inner)
        f(first, inner, isBlocked ? (o * scales + d / block) * inner : d, int64_t(isBlocked));
  }
};
} // namespace

/// source: ONNX, operators QuantizeLinear and DequantizeLinear: per tensor, per axis or blocked, by the rank of the scale
static Granularity granularityOf(const Call &call, const HostTensor &x, const HostTensor &scale) {
  Granularity by;
  const int64_t block = call.intAttr("block_size", 0);
  if (block < 0)
    call.fail("attribute block_size is " + std::to_string(block) + ", expected at least 0");
  const int64_t rank = int64_t(x.shape.size());
  if (block == 0 && scale.shape.size() <= 1 && countOf(scale) == 1) {
    by.inner = countOf(x);
    return by;
  }
  if (rank == 0)
    call.fail("the input is a scalar, and the scale has shape " + textOf(scale.shape) + ", expected one element");
  const int64_t axis = call.axis(call.intAttr("axis", 1), rank);
  by.dim = x.shape[size_t(axis)];
  for (int64_t i = 0; i < rank; ++i)
    (i < axis ? by.outer : by.inner) *= i == axis ? 1 : x.shape[size_t(i)];
  if (block == 0) {
    if (scale.shape.size() != 1 || scale.shape[0] != by.dim)
      call.fail("the scale has shape " + textOf(scale.shape) + ", expected one element or [" + std::to_string(by.dim) + "]");
    return by;
  }
  by.isBlocked = true;
  by.block = block;
  by.scales = by.dim / block + (by.dim % block != 0);
  Shape expected = x.shape;
  expected[size_t(axis)] = by.scales;
  if (scale.shape != expected)
    call.fail("the scale has shape " + textOf(scale.shape) + ", expected " + textOf(expected) + " for blocks of " +
              std::to_string(block));
  return by;
}

/// The zero point, if there is one, has the shape of the scale, or both are one element.
static void checkZeroPoint(const Call &call, const HostTensor &scale) {
  if (call.has(2) && call.input(2).shape != scale.shape && (countOf(call.input(2)) != 1 || countOf(scale) != 1))
    call.fail("the zero point has shape " + textOf(call.input(2).shape) + ", and the scale " + textOf(scale.shape) +
              ", expected one shape");
}

static bool isQuantized(ElementKind kind) {
  return (isSmallFloat(kind) && kind != ElementKind::F8E8M0) || isTinyInteger(kind) || kind == ElementKind::I8 ||
         kind == ElementKind::U8 || kind == ElementKind::I16 || kind == ElementKind::U16;
}

/// Least and largest integer of a type of at most 16 bits.
static std::pair<int, int> rangeOf(ElementKind kind) {
  const unsigned bits = bitsOf(kind);
  const bool isSigned =
      kind == ElementKind::I2 || kind == ElementKind::I4 || kind == ElementKind::I8 || kind == ElementKind::I16;
  return isSigned ? std::pair(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) : std::pair(0, (1 << bits) - 1);
}

/// Numbers as float. They are exact there but for integers of 32 bits.
static std::vector<float> floatsOf(const HostTensor &x) {
  const HostTensor as = toKind(x, ElementKind::F32);
  return std::vector<float>(data<float>(as), data<float>(as) + countOf(as));
}

/// y = saturate(round(x / scale) + zero point). The quotient is rounded to P; NaN becomes the least integer.
template <typename P>
static void quantize(const Granularity &by, const HostTensor &x, const HostTensor &scale, const std::vector<float> &zeroPoint,
                     bool saturates, HostTensor &y) {
  using C = Computed<P>;
  const P *from = data<P>(x), *scales = data<P>(scale);
  if (isSmallFloat(y.type)) {
    by.forEachRow([&](int64_t first, int64_t count, int64_t at, int64_t step) {
      for (int64_t i = 0; i < count; ++i, at += step) {
        const C quotient = C(P(C(from[first + i]) / C(scales[at])));
        const C moved = zeroPoint.empty() ? quotient : C(P(quotient + C(zeroPoint[size_t(at)])));
        y.bytes[size_t(first + i)] = frontend::floatToSmall(y.type, toOddFloat(moved), saturates);
      }
    });
    return;
  }
  const auto [least, most] = rangeOf(y.type);
  auto run = [&, low = double(least), high = double(most)](auto zero) {
    using S = decltype(zero);
    S *to = data<S>(y);
    by.forEachRow([&](int64_t first, int64_t count, int64_t at, int64_t step) {
      for (int64_t i = 0; i < count; ++i, at += step) {
        const double quotient = double(std::nearbyint(C(P(C(from[first + i]) / C(scales[at])))));
        const double moved = zeroPoint.empty() ? quotient : quotient + double(zeroPoint[size_t(at)]);
        to[first + i] = S(int(moved > low ? std::min(moved, high) : low));
      }
    });
  };
  switch (y.type) {
  case ElementKind::I16:
    return run(int16_t());
  case ElementKind::U16:
    return run(uint16_t());
  case ElementKind::U8:
  case ElementKind::U4:
  case ElementKind::U2:
    return run(uint8_t());
  default:
    return run(int8_t());
  }
}

static void evaluateQuantizeLinear(Call &call) {
  const HostTensor &x = call.input(0), &scale = call.input(1);
  if (!frontend::isFloat(x.type) && x.type != ElementKind::I32)
    call.fail(std::string("a tensor of ") + elementName(x.type) + " is given, expected floats or int32");
  if (!frontend::isFloat(scale.type) && scale.type != ElementKind::F8E8M0)
    call.fail(std::string("the scale is of ") + elementName(scale.type) + ", expected floats");
  checkZeroPoint(call, scale);
  const auto asked = kindAttr(call, "output_dtype");
  const ElementKind kind = call.has(2) ? call.input(2).type : asked.value_or(ElementKind::U8);
  if (asked && *asked != kind)
    call.fail(std::string("attribute output_dtype is ") + elementName(*asked) + ", and the zero point is of " +
              elementName(kind));
  if (!isQuantized(kind))
    call.fail(std::string("the result would be of ") + elementName(kind) +
              ", expected integers or floats of at most 8 bits, or 16-bit integers");
  // The division is done in the scale's type unless it is a mere power of two.
  const ElementKind ofInput = frontend::isFloat(x.type) ? x.type : ElementKind::F32;
  const ElementKind precision = kindAttr(call, "precision").value_or(frontend::isFloat(scale.type) ? scale.type : ofInput);
  if (!frontend::isFloat(precision))
    call.fail(std::string("attribute precision is ") + elementName(precision) + ", expected floats of 16 bits and more");
  const Granularity by = granularityOf(call, x, scale);
  const bool saturates = call.flagAttr("saturate", true);
  const std::vector<float> zeroPoint = call.has(2) ? floatsOf(call.input(2)) : std::vector<float>();
  const HostTensor converted = x.type == precision ? HostTensor() : toKind(x, precision);
  const HostTensor scales = toKind(scale, precision);
  HostTensor &y = call.output(0, kind, x.shape);
  visitFloat(precision, [&](auto zero) {
    quantize<decltype(zero)>(by, x.type == precision ? x : converted, scales, zeroPoint, saturates, y);
  });
}

static void evaluateDequantizeLinear(Call &call) {
  const HostTensor &x = call.input(0), &scale = call.input(1);
  if (!isQuantized(x.type) && x.type != ElementKind::I32)
    call.fail(std::string("a tensor of ") + elementName(x.type) +
              " is given, expected integers or floats of at most 8 bits, or integers of 16 or 32 bits");
  if (!frontend::isFloat(scale.type) && scale.type != ElementKind::F8E8M0)
    call.fail(std::string("the scale is of ") + elementName(scale.type) + ", expected floats");
  checkZeroPoint(call, scale);
  if (call.has(2))
    call.requireSameType(x, call.input(2));
  const ElementKind kind =
      kindAttr(call, "output_dtype").value_or(frontend::isFloat(scale.type) ? scale.type : ElementKind::F32);
  if (!frontend::isFloat(kind))
    call.fail(std::string("attribute output_dtype is ") + elementName(kind) + ", expected floats of 16 bits and more");
  const Granularity by = granularityOf(call, x, scale);
  const std::vector<float> scales = floatsOf(scale);
  HostTensor &y = call.output(0, kind, x.shape);
  /// Elements and zero points as numbers whose difference is exact.
  auto run = [&](auto zero, auto valueOf) {
    using T = decltype(zero);
    std::vector<decltype(valueOf(int64_t()))> zeroPoint(scales.size());
    if (call.has(2))
      for (size_t i = 0; i < zeroPoint.size(); ++i)
        zeroPoint[i] = isSmallFloat(x.type) ? realAt(call.input(2), int64_t(i)) : double(integerAt(call.input(2), int64_t(i)));
    T *to = data<T>(y);
    by.forEachRow([&](int64_t first, int64_t count, int64_t at, int64_t step) {
      for (int64_t i = 0; i < count; ++i, at += step)
        to[first + i] = toElement<T>(float(valueOf(first + i) - zeroPoint[size_t(at)]) * scales[size_t(at)]);
    });
  };
  visitFloat(kind, [&](auto zero) {
    if (isSmallFloat(x.type))
      run(zero, [&](int64_t i) { return frontend::smallToFloat(x.type, x.bytes[size_t(i)]); });
    else if (x.type == ElementKind::I32)
      run(zero, [&](int64_t i) { return int64_t(data<int32_t>(x)[i]); });
    else if (x.type == ElementKind::I16)
      run(zero, [&](int64_t i) { return int(data<int16_t>(x)[i]); });
    else if (x.type == ElementKind::U16)
      run(zero, [&](int64_t i) { return int(data<uint16_t>(x)[i]); });
    else if (x.type == ElementKind::I8 || x.type == ElementKind::I4 || x.type == ElementKind::I2)
      run(zero, [&](int64_t i) { return int(data<int8_t>(x)[i]); });
    else
      run(zero, [&](int64_t i) { return int(data<uint8_t>(x)[i]); });
  });
}

/// To uint8, by the range of the values together with zero. source: ONNX, operator DynamicQuantizeLinear
static void evaluateDynamicQuantizeLinear(Call &call) {
  const HostTensor &x = call.input(0);
  if (x.type != ElementKind::F32)
    call.fail(std::string("a tensor of ") + elementName(x.type) + " is given, expected float");
  const int64_t count = countOf(x);
  const float *from = data<float>(x);
  float low = 0, high = 0;
  for (int64_t i = 0; i < count; ++i) {
    low = from[i] < low ? from[i] : low;
    high = from[i] > high ? from[i] : high;
  }
  // Zeros alone have no range: any scale does.
  const float scale = high > low ? (high - low) / 255.0f : 1.0f;
  auto saturated = [](float value) { return value > 0 ? std::min(value, 255.0f) : 0.0f; };
  const float zeroPoint = std::nearbyint(saturated(-low / scale));
  HostTensor &y = call.output(0, ElementKind::U8, x.shape);
  for (int64_t i = 0; i < count; ++i)
    y.bytes[size_t(i)] = uint8_t(saturated(std::nearbyint(from[i] / scale) + zeroPoint));
  call.set(1, makeScalar(ElementKind::F32, scale));
  call.set(2, makeScalar(ElementKind::U8, uint8_t(zeroPoint)));
}

void operators::addTypes(Table &table) {
  table[":Cast"] = {evaluateCast};
  table[":CastLike"] = {evaluateCastLike};
  table[":BitCast"] = {evaluateBitCast};
  table[":QuantizeLinear"] = {evaluateQuantizeLinear};
  table[":DequantizeLinear"] = {evaluateDequantizeLinear};
  table[":DynamicQuantizeLinear"] = {evaluateDynamicQuantizeLinear};
}
