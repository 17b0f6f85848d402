//===- MachineLearning.cpp - Features and labels, of ai.onnx.ml -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/MachineLearning.h"
#include "isa/Printable.h"

#include <limits>
#include <map>

using namespace tw;
using namespace tw::operators;

namespace {

bool isInteger(ElementKind kind) { return kind == ElementKind::I64 || kind == ElementKind::I32; }

void requireNumbers(const Call &call, const HostTensor &x) {
  if (!visitNumber(x.type, [](auto) {}))
    call.fail(std::string("input is ") + frontend::elementName(x.type) + ", expected numbers");
}

/// Number of features: the last dim.
int64_t featuresOf(const HostTensor &x) { return x.shape.empty() ? 1 : x.shape.back(); }

/// Fails unless an attribute of `size` numbers fits: one for all features, or one for each.
void requireOnePerFeature(const Call &call, const char *name, size_t size, int64_t features) {
  if (size != 1 && int64_t(size) != features)
    call.fail(std::string(name) + " has " + std::to_string(size) + " numbers for " + std::to_string(features) + " features");
}

// source: ONNX, operator ArrayFeatureExtractor
void evaluateArrayFeatureExtractor(Call &call) {
  const HostTensor &x = call.input(0);
  const std::vector<int64_t> indices = call.ints(1);
  if (x.shape.empty() || indices.empty())
    call.fail("the data is a scalar, or there are no indices");
  const int64_t features = x.shape.back();
  for (int64_t index : indices)
    if (index < 0 || index >= features)
      call.fail("an index is " + std::to_string(index) + ", expected 0 to " + std::to_string(features - 1));
  const int64_t count = int64_t(indices.size());
  Shape shape = x.shape;
  shape.back() = count;
  HostTensor &y = call.output(0, x.type, x.shape.size() == 1 ? Shape{1, count} : shape);
  take(x, y, [&](int64_t i) { return i / count * features + indices[size_t(i % count)]; });
}

// source: ONNX, operator Binarizer
void evaluateBinarizer(Call &call) {
  const HostTensor &x = call.input(0);
  requireNumbers(call, x);
  const double threshold = double(call.floatAttr("threshold", 0.0f));
  HostTensor &y = call.output(0, x.type, x.shape);
  for (int64_t i = 0; i < countOf(x); ++i)
    setReal(y, i, realAt(x, i) > threshold ? 1 : 0);
}

//===----------------------------------------------------------------------===//
// Maps
//===----------------------------------------------------------------------===//

HostTensor makeStrings(std::vector<std::string> values) {
  HostTensor x = makeTensor(ElementKind::String, {int64_t(values.size())});
  x.strings = std::move(values);
  return x;
}

HostTensor makeFloats(const std::vector<float> &values) {
  HostTensor x = makeTensor(ElementKind::F32, {int64_t(values.size())});
  std::copy(values.begin(), values.end(), data<float>(x));
  return x;
}

/// Numbers of the elements of a tensor: places of keys. Equal are equal numbers, and NaN and NaN.
class Keys {
public:
  explicit Keys(const HostTensor &keys) : kind(keys.type) {
    // The first of equal keys counts.
    for (int64_t i = 0; i < countOf(keys); ++i)
      if (kind == ElementKind::String)
        strings.emplace(keys.strings[size_t(i)], i);
      else if (frontend::isFloat(kind))
        realAt(keys, i) == realAt(keys, i) ? void(reals.emplace(realAt(keys, i), i)) : setNan(i);
      else
        ints.emplace(integerAt(keys, i), i);
  }

  /// -1 for what is no key. Precondition: `x` is of the keys' type.
  int64_t find(const HostTensor &x, int64_t i) const {
    auto look = [](const auto &map, const auto &key) {
      const auto found = map.find(key);
      return found == map.end() ? -1 : found->second;
    };
    if (kind == ElementKind::String)
      return look(strings, x.strings[size_t(i)]);
    if (!frontend::isFloat(kind))
      return look(ints, integerAt(x, i));
    const double real = realAt(x, i);
    return real == real ? look(reals, real) : nan;
  }

private:
  void setNan(int64_t i) { nan = nan < 0 ? i : nan; }

  ElementKind kind;
  std::map<std::string, int64_t> strings;
  std::map<int64_t, int64_t> ints;
  std::map<double, int64_t> reals;
  int64_t nan = -1;
};

/// Result 0: each element of input 0 looked up in `keys`. A missing default is an error for what is no key.
void mapElements(Call &call, const HostTensor &keys, const HostTensor &values, const HostTensor &other) {
  const HostTensor &x = call.input(0);
  if (x.type != keys.type)
    call.fail(std::string("input is ") + frontend::elementName(x.type) + " and the keys are " +
              frontend::elementName(keys.type));
  if (countOf(keys) != countOf(values))
    call.fail("there are " + std::to_string(countOf(keys)) + " keys and " + std::to_string(countOf(values)) + " values");
  const Keys known(keys);
  HostTensor &y = call.output(0, values.type, x.shape);
  for (int64_t i = 0; i < countOf(x); ++i) {
    const int64_t found = known.find(x, i);
    found < 0 ? copyElement(other, 0, y, i) : copyElement(values, found, y, i);
  }
}

// source: ONNX, operator CategoryMapper
void evaluateCategoryMapper(Call &call) {
  const HostTensor ints = makeInts(call.intsAttr("cats_int64s")), strings = makeStrings(call.stringsAttr("cats_strings"));
  if (call.input(0).type == ElementKind::String)
    mapElements(call, strings, ints, makeInts({call.intAttr("default_int64", -1)}));
  else
    mapElements(call, ints, strings, makeStrings({call.stringAttr("default_string", "_Unused")}));
}

/// The attribute `name` followed by _strings, _int64s, _floats or _tensor.
HostTensor listOf(const Call &call, const std::string &name) {
  if (call.hasAttr((name + "_tensor").c_str()))
    return call.tensorAttr((name + "_tensor").c_str());
  if (call.hasAttr((name + "_strings").c_str()))
    return makeStrings(call.stringsAttr((name + "_strings").c_str()));
  if (call.hasAttr((name + "_int64s").c_str()))
    return makeInts(call.intsAttr((name + "_int64s").c_str()));
  if (call.hasAttr((name + "_floats").c_str()))
    return makeFloats(call.floatsAttr((name + "_floats").c_str()));
  call.fail("attribute " + name + "_strings, " + name + "_int64s, " + name + "_floats or " + name + "_tensor is missing");
}

// source: ONNX, operator LabelEncoder
void evaluateLabelEncoder(Call &call) {
  if (call.opset() < 2) {
    std::vector<std::string> classes = call.stringsAttr("classes_strings");
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < classes.size(); ++i)
      numbers.push_back(int64_t(i));
    const HostTensor strings = makeStrings(std::move(classes)), ints = makeInts(numbers);
    if (call.input(0).type == ElementKind::String)
      mapElements(call, strings, ints, makeInts({call.intAttr("default_int64", -1)}));
    else
      mapElements(call, ints, strings, makeStrings({call.stringAttr("default_string", "_Unused")}));
    return;
  }
  const HostTensor keys = listOf(call, "keys"), values = listOf(call, "values");
  HostTensor other;
  if (call.hasAttr("default_tensor")) {
    other = call.tensorAttr("default_tensor");
    if (countOf(other) != 1 || other.type != values.type)
      call.fail(std::string("default_tensor is ") + frontend::elementName(other.type) + " of shape " + textOf(other.shape) +
                ", expected one element of " + frontend::elementName(values.type));
  } else {
    other = makeTensor(values.type, {1});
    if (values.type == ElementKind::String)
      other.strings[0] = call.stringAttr("default_string", "_Unused");
    else if (frontend::isFloat(values.type))
      setReal(other, 0, double(call.floatAttr("default_float", -0.0f)));
    else
      setInteger(other, 0, call.intAttr("default_int64", -1));
  }
  mapElements(call, keys, values, other);
}

// source: ONNX, operator OneHotEncoder
void evaluateOneHotEncoder(Call &call) {
  const HostTensor &given = call.input(0);
  const bool isOfStrings = given.type == ElementKind::String;
  const HostTensor x = isOfStrings ? given : toKind(given, ElementKind::I64);
  const HostTensor categories =
      isOfStrings ? makeStrings(call.stringsAttr("cats_strings")) : makeInts(call.intsAttr("cats_int64s"));
  const Keys known(categories);
  const int64_t count = countOf(categories);
  Shape shape = x.shape;
  shape.push_back(count);
  HostTensor &y = call.output(0, ElementKind::F32, shape);
  const bool allowsOthers = call.flagAttr("zeros", true);
  for (int64_t i = 0; i < countOf(x); ++i) {
    const int64_t found = known.find(x, i);
    if (found >= 0)
      data<float>(y)[i * count + found] = 1;
    else if (!allowsOthers)
      call.fail("element " + std::to_string(i) + " is of no category");
  }
}

void evaluateZipMap(Call &call) { call.fail("its results are maps, which are not supported"); }

//===----------------------------------------------------------------------===//
// Features
//===----------------------------------------------------------------------===//

// source: ONNX, operator FeatureVectorizer
void evaluateFeatureVectorizer(Call &call) {
  if (call.numInputs() == 0)
    call.fail("it has no inputs");
  const std::vector<int64_t> sizes = call.intsAttr("inputdimensions", std::vector<int64_t>());
  if (!sizes.empty() && sizes.size() != call.numInputs())
    call.fail("inputdimensions has " + std::to_string(sizes.size()) + " sizes for " + std::to_string(call.numInputs()) +
              " inputs");
  std::vector<Rows> parts;
  std::vector<int64_t> widths;
  int64_t width = 0;
  for (size_t i = 0; i < call.numInputs(); ++i) {
    parts.emplace_back(call, i);
    if (parts[i].count != parts[0].count)
      call.fail("inputs have " + std::to_string(parts[0].count) + " and " + std::to_string(parts[i].count) + " rows");
    widths.push_back(sizes.empty() ? parts[i].features : sizes[i]);
    if (widths[i] < 0 || widths[i] > std::numeric_limits<int32_t>::max())
      call.fail("a size of inputdimensions is " + std::to_string(widths[i]));
    width += widths[i];
  }
  const int64_t rows = parts[0].count;
  HostTensor &y = call.output(0, ElementKind::F32, {rows, width});
  for (int64_t row = 0; row < rows; ++row) {
    int64_t to = row * width;
    for (size_t i = 0; i < parts.size(); to += widths[i], ++i)
      for (int64_t k = 0; k < std::min(widths[i], parts[i].features); ++k)
        setReal(y, to + k, realAt(parts[i].x, row * parts[i].features + k));
  }
}

// source: ONNX, operator Imputer
void evaluateImputer(Call &call) {
  const HostTensor &x = call.input(0);
  const int64_t features = featuresOf(x);
  HostTensor &y = call.output(0, x.type, x.shape);
  if (isInteger(x.type)) {
    const std::vector<int64_t> imputed = call.intsAttr("imputed_value_int64s");
    const int64_t replaced = call.intAttr("replaced_value_int64", 0);
    requireOnePerFeature(call, "imputed_value_int64s", imputed.size(), features);
    for (int64_t i = 0; i < countOf(x); ++i) {
      const int64_t value = integerAt(x, i);
      setInteger(y, i, value == replaced ? imputed[imputed.size() == 1 ? 0 : size_t(i % features)] : value);
    }
    return;
  }
  if (!visitFloat(x.type, [](auto) {}))
    call.fail(std::string("input is ") + frontend::elementName(x.type) + ", expected floats, int32 or int64");
  const std::vector<float> imputed = call.floatsAttr("imputed_value_floats");
  const float replaced = call.floatAttr("replaced_value_float", 0.0f);
  requireOnePerFeature(call, "imputed_value_floats", imputed.size(), features);
  for (int64_t i = 0; i < countOf(x); ++i) {
    const double value = realAt(x, i);
    const bool isReplaced = value == double(replaced) || (value != value && replaced != replaced);
    setReal(y, i, isReplaced ? double(imputed[imputed.size() == 1 ? 0 : size_t(i % features)]) : value);
  }
}

// source: ONNX, operator Normalizer
void evaluateNormalizer(Call &call) {
  const Rows rows(call, 0);
  const std::string norm = call.stringAttr("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2")
    call.fail("norm is \"" + printable(norm) + "\", expected MAX, L1 or L2");
  HostTensor &y = call.output(0, ElementKind::F32, rows.x.shape);
  for (int64_t i = 0; i < rows.count; ++i) {
    const std::vector<double> row = rows.row(i);
    double divisor = norm == "MAX" && !row.empty() ? *std::max_element(row.begin(), row.end()) : 0;
    for (double value : row)
      divisor += norm == "L1" ? std::fabs(value) : norm == "L2" ? value * value : 0;
    if (norm == "L2")
      divisor = std::sqrt(divisor);
    for (int64_t k = 0; k < rows.features; ++k)
      setReal(y, i * rows.features + k, divisor == 0 ? row[size_t(k)] : row[size_t(k)] / divisor);
  }
}

// source: ONNX, operator Scaler
void evaluateScaler(Call &call) {
  const HostTensor &x = call.input(0);
  requireNumbers(call, x);
  const int64_t features = featuresOf(x);
  const std::vector<float> offset = call.floatsAttr("offset", std::vector<float>{0}),
                           scale = call.floatsAttr("scale", std::vector<float>{1});
  requireOnePerFeature(call, "offset", offset.size(), features);
  requireOnePerFeature(call, "scale", scale.size(), features);
  HostTensor &y = call.output(0, ElementKind::F32, x.shape);
  for (int64_t i = 0; i < countOf(x); ++i)
    setReal(y, i,
            (realAt(x, i) - double(offset[offset.size() == 1 ? 0 : size_t(i % features)])) *
                double(scale[scale.size() == 1 ? 0 : size_t(i % features)]));
}

} // namespace

//===----------------------------------------------------------------------===//
// Shared with classifiers and trees
//===----------------------------------------------------------------------===//

Rows::Rows(const Call &call, size_t input) : x(call.input(input)) {
  requireNumbers(call, x);
  if (x.shape.size() != 1 && x.shape.size() != 2)
    call.fail("input " + std::to_string(input) + " has shape " + textOf(x.shape) + ", expected [n, c] or [c]");
  count = x.shape.size() == 2 ? x.shape[0] : 1;
  features = x.shape.back();
}

std::vector<double> Rows::row(int64_t i) const {
  std::vector<double> values(static_cast<size_t>(features));
  for (int64_t k = 0; k < features; ++k)
    values[size_t(k)] = realAt(x, i * features + k);
  return values;
}

PostTransform operators::postTransformOf(const Call &call) {
  static const std::pair<const char *, PostTransform> known[] = {{"NONE", PostTransform::None},
                                                                 {"SOFTMAX", PostTransform::Softmax},
                                                                 {"LOGISTIC", PostTransform::Logistic},
                                                                 {"SOFTMAX_ZERO", PostTransform::SoftmaxZero},
                                                                 {"PROBIT", PostTransform::Probit}};
  const std::string text = call.stringAttr("post_transform", "NONE");
  for (const auto &[name, kind] : known)
    if (text == name)
      return kind;
  call.fail("post_transform is \"" + printable(text) + "\", expected NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO or PROBIT");
}

/// The inverse of the error function: a start by S. Winitzki's formula, then Newton's method.
static double inverseErf(double y) {
  if (!(std::fabs(y) < 1))
    return y == 1 ? HUGE_VAL : y == -1 ? -HUGE_VAL : std::nan("");
  const double a = 0.147, logarithm = std::log(1 - y * y), half = 2 / (3.14159265358979323846 * a) + logarithm / 2;
  double x = std::copysign(std::sqrt(std::max(0.0, std::sqrt(half * half - logarithm / a) - half)), y);
  for (int i = 0; i < 3; ++i)
    x -= (std::erf(x) - y) / (1.12837916709551257390 * std::exp(-x * x));
  return x;
}

void operators::transform(std::vector<double> &scores, PostTransform kind) {
  if (scores.empty())
    return;
  switch (kind) {
  case PostTransform::None:
    return;
  case PostTransform::Logistic:
    for (double &score : scores)
      score = score >= 0 ? 1 / (1 + std::exp(-score)) : std::exp(score) / (1 + std::exp(score));
    return;
  case PostTransform::Probit:
    for (double &score : scores)
      score = 1.41421356237309504880 * inverseErf(2 * score - 1);
    return;
  case PostTransform::Softmax:
  case PostTransform::SoftmaxZero: {
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double &score : scores) {
      // Scores of zero stay zero.
      score = kind == PostTransform::SoftmaxZero && std::fabs(score) <= 1e-7 ? score * std::exp(-largest)
                                                                             : std::exp(score - largest);
      sum += score;
    }
    for (double &score : scores)
      score = sum == 0 ? score : score / sum;
    return;
  }
  }
}

Labels::Labels(const Call &call, const char *stringsName, const char *intsName)
    : strings(call.stringsAttr(stringsName, std::vector<std::string>())),
      ints(call.intsAttr(intsName, std::vector<int64_t>())) {
  if (strings.empty() == ints.empty())
    call.fail(std::string(strings.empty() ? "neither " : "both ") + stringsName + (strings.empty() ? " nor " : " and ") +
              intsName + (strings.empty() ? " is given" : " are given"));
}

HostTensor &Labels::makeOutput(Call &call, int64_t count) const {
  return call.output(0, strings.empty() ? ElementKind::I64 : ElementKind::String, {count});
}

void Labels::set(HostTensor &y, int64_t i, size_t label) const {
  if (strings.empty())
    data<int64_t>(y)[i] = ints[label];
  else
    y.strings[size_t(i)] = strings[label];
}

void Labels::setNone(HostTensor &y, int64_t i) const {
  if (strings.empty())
    data<int64_t>(y)[i] = 0;
}

void operators::setRow(HostTensor &y, int64_t row, const std::vector<double> &values) {
  for (size_t i = 0; i < values.size(); ++i)
    setReal(y, row * int64_t(values.size()) + int64_t(i), values[i]);
}

size_t operators::indexOfLargest(const std::vector<double> &values) {
  return size_t(std::max_element(values.begin(), values.end()) - values.begin());
}

void operators::addMachineLearning(Table &table) {
  const std::pair<const char *, Evaluate> known[] = {{"ArrayFeatureExtractor", evaluateArrayFeatureExtractor},
                                                     {"Binarizer", evaluateBinarizer},
                                                     {"CategoryMapper", evaluateCategoryMapper},
                                                     {"FeatureVectorizer", evaluateFeatureVectorizer},
                                                     {"Imputer", evaluateImputer},
                                                     {"LabelEncoder", evaluateLabelEncoder},
                                                     {"Normalizer", evaluateNormalizer},
                                                     {"OneHotEncoder", evaluateOneHotEncoder},
                                                     {"Scaler", evaluateScaler},
                                                     {"ZipMap", evaluateZipMap}};
  for (const auto &[name, evaluate] : known)
    table[std::string("ai.onnx.ml:") + name] = {evaluate, {}};
  addClassifiers(table);
  addTrees(table);
  addTraining(table);
}
