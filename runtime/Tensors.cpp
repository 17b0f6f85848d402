//===- Tensors.cpp - Host tensors: making, fitting, comparing -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Tensors.h"
#include "isa/Printable.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

using namespace tw;
using namespace tw::runtime;

static ElementKind hostKind(isa::ElementKind kind) {
  switch (kind) {
  case isa::ElementKind::I8:
    return ElementKind::I8;
  case isa::ElementKind::U8:
    return ElementKind::U8;
  case isa::ElementKind::I32:
    return ElementKind::I32;
  case isa::ElementKind::F32:
    return ElementKind::F32;
  case isa::ElementKind::Bf16:
    return ElementKind::BF16;
  case isa::ElementKind::I64:
    return ElementKind::I64;
  case isa::ElementKind::Bool:
    return ElementKind::Bool;
  }
  return ElementKind::F32;
}

TensorSpec runtime::specOf(const isa::TensorInfo &info) { return {printable(info.name), hostKind(info.type), info.shape}; }

int64_t runtime::elementCount(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

std::string runtime::shapeText(const std::vector<int64_t> &shape) {
  std::string result;
  for (int64_t extent : shape)
    result += (result.empty() ? "" : "x") + std::to_string(extent);
  return result.empty() ? "scalar" : result;
}

template <typename T> static void appendDoubles(const HostTensor &tensor, std::vector<double> &out) {
  for (size_t at = 0; at + sizeof(T) <= tensor.bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, tensor.bytes.data() + at, sizeof value);
    out.push_back(double(value));
  }
}

std::vector<double> runtime::toDoubles(const HostTensor &tensor) {
  std::vector<double> out;
  out.reserve(tensor.bytes.size() / std::max(1u, frontend::elementBytes(tensor.type)));
  switch (tensor.type) {
  case ElementKind::F32:
    appendDoubles<float>(tensor, out);
    break;
  case ElementKind::F64:
    appendDoubles<double>(tensor, out);
    break;
  case ElementKind::F16:
  case ElementKind::BF16:
    for (size_t at = 0; at + 2 <= tensor.bytes.size(); at += 2) {
      uint16_t bits;
      std::memcpy(&bits, tensor.bytes.data() + at, 2);
      out.push_back(tensor.type == ElementKind::F16 ? frontend::halfToFloat(bits) : frontend::bfloatToFloat(bits));
    }
    break;
  case ElementKind::I8:
    appendDoubles<int8_t>(tensor, out);
    break;
  case ElementKind::U8:
  case ElementKind::Bool:
    appendDoubles<uint8_t>(tensor, out);
    break;
  case ElementKind::I16:
    appendDoubles<int16_t>(tensor, out);
    break;
  case ElementKind::U16:
    appendDoubles<uint16_t>(tensor, out);
    break;
  case ElementKind::I32:
    appendDoubles<int32_t>(tensor, out);
    break;
  case ElementKind::U32:
    appendDoubles<uint32_t>(tensor, out);
    break;
  case ElementKind::I64:
    appendDoubles<int64_t>(tensor, out);
    break;
  case ElementKind::U64:
    appendDoubles<uint64_t>(tensor, out);
    break;
  case ElementKind::I4:
  case ElementKind::I2:
    appendDoubles<int8_t>(tensor, out);
    break;
  case ElementKind::U4:
  case ElementKind::U2:
    appendDoubles<uint8_t>(tensor, out);
    break;
  case ElementKind::Complex64:
    appendDoubles<float>(tensor, out);
    break;
  case ElementKind::Complex128:
    appendDoubles<double>(tensor, out);
    break;
  case ElementKind::String:
    break;
  default: // floats of 8 and 4 bits
    for (uint8_t bits : tensor.bytes)
      out.push_back(frontend::smallToFloat(tensor.type, bits));
  }
  return out;
}

/// A shape without its leading ones.
static std::vector<int64_t> significant(const std::vector<int64_t> &shape) {
  return {std::find_if(shape.begin(), shape.end(), [](int64_t extent) { return extent != 1; }), shape.end()};
}

static std::string typeAndShape(ElementKind type, const std::vector<int64_t> &shape) {
  return std::string(frontend::elementName(type)) + " [" + shapeText(shape) + "]";
}

static bool hasSixteenBits(ElementKind type) { return type == ElementKind::F16 || type == ElementKind::BF16; }

/// The tensor in type `to`; nothing unless one of both is float, and the other float of 16 or 32 bits.
static std::optional<HostTensor> convert(const HostTensor &tensor, ElementKind to) {
  if (tensor.type == to)
    return tensor;
  HostTensor result{tensor.name, to, tensor.shape, {}};
  if (to == ElementKind::F32 && hasSixteenBits(tensor.type)) {
    result.bytes.resize(tensor.bytes.size() * 2);
    for (size_t i = 0; i < tensor.bytes.size() / 2; ++i) {
      uint16_t bits;
      std::memcpy(&bits, tensor.bytes.data() + 2 * i, 2);
      float value = tensor.type == ElementKind::F16 ? frontend::halfToFloat(bits) : frontend::bfloatToFloat(bits);
      std::memcpy(result.bytes.data() + 4 * i, &value, 4);
    }
    return result;
  }
  if (tensor.type != ElementKind::F32 || !hasSixteenBits(to))
    return std::nullopt;
  result.bytes.resize(tensor.bytes.size() / 2);
  for (size_t i = 0; i < tensor.bytes.size() / 4; ++i) {
    float value;
    std::memcpy(&value, tensor.bytes.data() + 4 * i, 4);
    uint16_t bits = to == ElementKind::F16 ? frontend::floatToHalf(value) : frontend::floatToBfloat(value);
    std::memcpy(result.bytes.data() + 2 * i, &bits, 2);
  }
  return result;
}

HostTensor runtime::toStored(HostTensor tensor, const TensorSpec &spec) {
  return spec.isWidened ? *convert(tensor, spec.stored()) : std::move(tensor);
}

HostTensor runtime::fromStored(HostTensor tensor, const TensorSpec &spec) {
  // The program knows bytes; name, shape and signedness are the model's.
  tensor.name = spec.name;
  tensor.shape = spec.shape;
  tensor.type = spec.stored();
  return spec.isWidened ? *convert(tensor, spec.type) : std::move(tensor);
}

StatusOr<HostTensor> runtime::fitTo(const HostTensor &tensor, const TensorSpec &spec) {
  std::optional<HostTensor> result;
  if (significant(tensor.shape) == significant(spec.shape))
    result = convert(tensor, spec.type);
  if (!result)
    return userError("input '" + spec.name + "' is " + typeAndShape(tensor.type, tensor.shape) + " but must be " +
                     typeAndShape(spec.type, spec.shape));
  result->name = spec.name;
  result->shape = spec.shape;
  return std::move(*result);
}

StatusOr<std::vector<HostTensor>> runtime::splitBatch(const HostTensor &tensor, const TensorSpec &spec) {
  bool fits = !spec.shape.empty() && tensor.shape.size() == spec.shape.size() && spec.shape[0] > 0 && tensor.shape[0] > 0 &&
              tensor.shape[0] % spec.shape[0] == 0 &&
              std::equal(spec.shape.begin() + 1, spec.shape.end(), tensor.shape.begin() + 1);
  std::optional<HostTensor> all = fits ? convert(tensor, spec.type) : std::nullopt;
  if (!all)
    return userError("batch for input '" + spec.name + "' is " + typeAndShape(tensor.type, tensor.shape) + " but must be " +
                     typeAndShape(spec.type, spec.shape) + " with dim 0 times any number");
  size_t count = size_t(tensor.shape[0] / spec.shape[0]), bytes = all->bytes.size() / count;
  std::vector<HostTensor> parts;
  for (size_t i = 0; i < count; ++i)
    parts.push_back({spec.name, spec.type, spec.shape, {all->bytes.begin() + i * bytes, all->bytes.begin() + (i + 1) * bytes}});
  return parts;
}

HostTensor runtime::stack(const std::vector<HostTensor> &tensors) {
  HostTensor result{tensors.front().name, tensors.front().type, tensors.front().shape, {}};
  if (result.shape.empty())
    result.shape.push_back(1);
  result.shape[0] *= int64_t(tensors.size());
  for (const HostTensor &tensor : tensors)
    result.bytes.insert(result.bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
  return result;
}

namespace {
/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014): the standard library's
/// distributions differ between implementations.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// In [0, bound).
  uint64_t below(uint64_t bound) { return (next() >> 32) * bound >> 32; }
  /// In [-1, 1), a multiple of 2^-23: exact in a float.
  float unit() { return float(int64_t(next() >> 40) - (1 << 23)) / float(1 << 23); }

private:
  uint64_t state;
};
} // namespace

HostTensor runtime::randomTensor(const TensorSpec &spec, uint64_t seed) {
  Random random(seed);
  HostTensor tensor{spec.name, spec.type, spec.shape, {}};
  unsigned size = frontend::elementBytes(spec.type);
  tensor.bytes.resize(size_t(elementCount(spec.shape)) * size);
  auto put = [&](size_t at, auto value) { std::memcpy(tensor.bytes.data() + at, &value, sizeof value); };
  for (size_t at = 0; at < tensor.bytes.size(); at += size)
    switch (spec.type) {
    case ElementKind::F32:
      put(at, random.unit());
      break;
    case ElementKind::F64:
      put(at, double(random.unit()));
      break;
    case ElementKind::F16:
      put(at, frontend::floatToHalf(random.unit()));
      break;
    case ElementKind::BF16:
      put(at, frontend::floatToBfloat(random.unit()));
      break;
    case ElementKind::I8:
    case ElementKind::U8:
      put(at, uint8_t(random.below(256)));
      break;
    case ElementKind::I32: // ids, types of tokens, masks: 0 and 1 are allowed wherever integers of the run choose something
    case ElementKind::I64: // little-endian: the low byte comes first, the others stay 0
    case ElementKind::Bool:
      put(at, uint8_t(random.below(2)));
      break;
    default:
      // Little-endian: the low byte comes first, the others stay 0.
      tensor.bytes[at] = uint8_t(random.below(10));
    }
  return tensor;
}

std::vector<HostTensor> runtime::randomTensors(const std::vector<TensorSpec> &specs, uint64_t seed) {
  std::vector<HostTensor> tensors;
  for (size_t i = 0; i < specs.size(); ++i)
    tensors.push_back(randomTensor(specs[i], seed + i));
  return tensors;
}

/// Index of the first largest element of values[begin, begin + count).
static int64_t argmax(const std::vector<double> &values, int64_t begin, int64_t count) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; ++i)
    if (values[begin + i] > values[begin + best])
      best = i;
  return best;
}

/// The integers of a tensor, all of them exact.
static std::vector<__int128> toIntegers(const HostTensor &tensor) {
  const unsigned size = frontend::elementBytes(tensor.type);
  const bool isSigned = tensor.type == ElementKind::I8 || tensor.type == ElementKind::I16 || tensor.type == ElementKind::I32 ||
                        tensor.type == ElementKind::I64;
  std::vector<__int128> out;
  out.reserve(tensor.bytes.size() / size);
  for (size_t at = 0; at + size <= tensor.bytes.size(); at += size) {
    uint64_t bits = 0;
    std::memcpy(&bits, tensor.bytes.data() + at, size); // little-endian
    const unsigned unused = 64 - 8 * size;
    out.push_back(isSigned ? __int128(int64_t(bits << unused) >> unused) : __int128(bits));
  }
  return out;
}

/// Without dims of 1 in front.
static std::vector<int64_t> coreShape(const std::vector<int64_t> &shape) {
  return {std::find_if(shape.begin(), shape.end(), [](int64_t extent) { return extent != 1; }), shape.end()};
}

Tolerance runtime::defaultTolerance(ElementKind type, Precision precision) {
  if (!isFloat(type)) {
    if (precision == Precision::Quantised && frontend::elementBytes(type) == 1 && type != ElementKind::Bool)
      return {2e-2, 1, "int8: single quantisation steps"};
    return {0, 0, "integers are exact"};
  }
  if (type == ElementKind::BF16 && precision != Precision::Quantised)
    precision = Precision::Bfloat;
  if (type == ElementKind::F16 && precision == Precision::Single)
    precision = Precision::Half;
  switch (precision) {
  case Precision::Single:
    return {1e-4, 0, "fp32: order of sums"};
  case Precision::Half:
    return {4e-3, 0, "fp16: 11 bits of precision"};
  case Precision::Bfloat:
    return {3e-2, 0, "bf16: 8 bits of precision"};
  case Precision::Quantised:
    return {2e-2, 0, "int8: single quantisation steps"};
  }
  return {};
}

static double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b)))
    return 0;
  double result = std::abs(a - b);
  return std::isnan(result) ? std::numeric_limits<double>::infinity() : result;
}

/// Rounded to four digits, so that differences of one quantisation step count as one size.
static double fourDigits(double value) {
  if (value == 0 || !std::isfinite(value))
    return value;
  double unit = std::pow(10.0, std::floor(std::log10(value)) - 3);
  return std::round(value / unit) * unit;
}

StatusOr<Comparison> runtime::compare(const HostTensor &actual, const HostTensor &expected) {
  if (isFloat(actual.type) != isFloat(expected.type) || coreShape(actual.shape) != coreShape(expected.shape))
    return userError("output '" + actual.name + "' is " + typeAndShape(actual.type, actual.shape) +
                     " but the expected one is " + typeAndShape(expected.type, expected.shape));
  std::vector<double> a = toDoubles(actual), e = toDoubles(expected), errors(a.size());
  if (isFloat(actual.type)) {
    std::transform(a.begin(), a.end(), e.begin(), errors.begin(), distance);
  } else {
    std::vector<__int128> found = toIntegers(actual), wanted = toIntegers(expected);
    std::transform(found.begin(), found.end(), wanted.begin(), errors.begin(),
                   [](__int128 x, __int128 y) { return double(x < y ? y - x : x - y); });
  }
  Comparison result;
  result.name = actual.name;
  result.elements = int64_t(a.size());
  double low = std::numeric_limits<double>::infinity(), high = -low, magnitude = 0;
  std::map<double, int64_t> sizes;
  constexpr size_t kMaxSizes = 6;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(e[i])) {
      low = std::min(low, e[i]);
      high = std::max(high, e[i]);
      magnitude = std::max(magnitude, std::abs(e[i]));
    }
    const double error = errors[i];
    if (error == 0)
      continue;
    ++result.differing;
    result.maxAbsError = std::max(result.maxAbsError, error);
    if (std::isfinite(a[i]) && std::isfinite(e[i]))
      result.maxFiniteError = std::max(result.maxFiniteError, error);
    else
      ++result.notFinite;
    if (sizes.size() <= kMaxSizes)
      ++sizes[fourDigits(error)];
  }
  if (sizes.size() <= kMaxSizes)
    result.sizes.assign(sizes.begin(), sizes.end());
  result.expectedRange = std::max(high - low, magnitude); // nothing is finite: 0
  if (result.differing)
    result.maxRelativeError =
        result.expectedRange > 0 ? result.maxAbsError / result.expectedRange : std::numeric_limits<double>::infinity();
  int64_t rows = actual.shape.size() > 1 ? actual.shape[0] : 1;
  int64_t columns = rows > 0 ? result.elements / rows : 0;
  if (columns > 1) {
    result.top1Rows = rows;
    for (int64_t row = 0; row < rows; ++row)
      result.top1Agree += argmax(a, row * columns, columns) == argmax(e, row * columns, columns);
  }
  return result;
}

double Comparison::largestAllowed() const { return std::max(tolerance.absolute, tolerance.ofRange * expectedRange); }

bool Comparison::isWithinTolerance() const {
  return differing == 0 || (std::isfinite(maxAbsError) && maxAbsError <= largestAllowed());
}

static std::string number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.4g", value);
  return buffer;
}

std::string runtime::text(const Tolerance &tolerance) {
  std::string text = number(tolerance.ofRange) + " of the output's range";
  if (tolerance.absolute > 0)
    text += " or " + number(tolerance.absolute);
  return tolerance.reason.empty() ? text : text + " (" + tolerance.reason + ")";
}

std::string runtime::text(const Comparison &c) {
  std::string line = "output '" + c.name + "': ";
  if (c.differing == 0)
    line += "all " + std::to_string(c.elements) + " values equal";
  else {
    line += std::to_string(c.differing) + " of " + std::to_string(c.elements) + " values differ, max abs error " +
            number(c.maxAbsError) + " (" + number(c.maxRelativeError) + " of the output's range " + number(c.expectedRange) +
            ")";
    if (!c.sizes.empty()) {
      line += ", sizes";
      for (auto [size, count] : c.sizes)
        line += (size == c.sizes.front().first ? " " : ", ") + std::to_string(count) + " x " + number(size);
    }
  }
  if (c.top1Rows)
    line += "; top-1 agrees on " + std::to_string(c.top1Agree) + " of " + std::to_string(c.top1Rows);
  return line;
}
