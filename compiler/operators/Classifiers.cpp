//===- Classifiers.cpp - Linear models and support vectors ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/MachineLearning.h"
#include "isa/Printable.h"

#include <limits>

using namespace tw;
using namespace tw::operators;

namespace {

/// Coefficients, of one line for each target, times a row, and intercepts.
struct LinearModel {
  std::vector<float> coefficients, intercepts;
  size_t targets = 0, features = 0;

  LinearModel(const Call &call, size_t targets, int64_t features)
      : coefficients(call.floatsAttr("coefficients")), intercepts(call.floatsAttr("intercepts", std::vector<float>())),
        targets(targets), features(size_t(features)) {
    if (targets == 0 || coefficients.size() / targets != this->features || coefficients.size() % targets != 0)
      call.fail("there are " + std::to_string(coefficients.size()) + " coefficients for " + std::to_string(targets) +
                " targets and " + std::to_string(features) + " features");
    if (!intercepts.empty() && intercepts.size() != targets)
      call.fail("there are " + std::to_string(intercepts.size()) + " intercepts for " + std::to_string(targets) + " targets");
  }

  std::vector<double> scores(const std::vector<double> &row) const {
    std::vector<double> sums(targets);
    for (size_t t = 0; t < targets; ++t) {
      sums[t] = intercepts.empty() ? 0 : double(intercepts[t]);
      for (size_t k = 0; k < features; ++k)
        sums[t] += double(coefficients[t * features + k]) * row[k];
    }
    return sums;
  }
};

// source: ONNX, operator LinearRegressor
void evaluateLinearRegressor(Call &call) {
  const Rows rows(call, 0);
  const int64_t targets = call.intAttr("targets", 1);
  const PostTransform post = postTransformOf(call);
  if (targets < 1 || targets > std::numeric_limits<int32_t>::max())
    call.fail("targets is " + std::to_string(targets) + ", expected at least 1");
  const LinearModel model(call, size_t(targets), rows.features);
  HostTensor &y = call.output(0, ElementKind::F32, {rows.count, targets});
  for (int64_t i = 0; i < rows.count; ++i) {
    std::vector<double> scores = model.scores(rows.row(i));
    transform(scores, post);
    setRow(y, i, scores);
  }
}

// source: ONNX, operator LinearClassifier
void evaluateLinearClassifier(Call &call) {
  const Rows rows(call, 0);
  const Labels labels(call, "classlabels_strings", "classlabels_ints");
  const PostTransform post = postTransformOf(call);
  // One line of coefficients tells the second of two classes from the first.
  const size_t coefficients = call.floatsAttr("coefficients").size();
  const bool isBinary = labels.size() == 2 && int64_t(coefficients) == rows.features;
  const LinearModel model(call, isBinary ? 1 : labels.size(), rows.features);
  HostTensor &y = labels.makeOutput(call, rows.count);
  HostTensor &z = call.output(1, ElementKind::F32, {rows.count, int64_t(labels.size())});
  for (int64_t i = 0; i < rows.count; ++i) {
    std::vector<double> scores = model.scores(rows.row(i));
    if (isBinary)
      scores.insert(scores.begin(), -scores[0]);
    const size_t largest = indexOfLargest(scores);
    const bool isPositive = scores[0] >= 0;
    transform(scores, post);
    if (labels.size() > 1 || isPositive)
      labels.set(y, i, largest);
    else
      labels.setNone(y, i);
    setRow(z, i, scores);
  }
}

//===----------------------------------------------------------------------===//
// Support vectors
//===----------------------------------------------------------------------===//

struct Kernel {
  std::string type;
  double gamma = 0, coef0 = 0, degree = 0;

  explicit Kernel(const Call &call) : type(call.stringAttr("kernel_type", "LINEAR")) {
    if (type != "LINEAR" && type != "POLY" && type != "RBF" && type != "SIGMOID")
      call.fail("kernel_type is \"" + printable(type) + "\", expected LINEAR, POLY, RBF or SIGMOID");
    const std::vector<float> params = call.floatsAttr("kernel_params", std::vector<float>{0, 0, 0});
    if (params.size() != 3)
      call.fail("kernel_params has " + std::to_string(params.size()) + " numbers, expected gamma, coef0 and degree");
    gamma = double(params[0]);
    coef0 = double(params[1]);
    degree = double(params[2]);
  }

  /// `vector` has as many elements as `row`.
  double operator()(const std::vector<double> &row, const float *vector) const {
    double sum = 0;
    for (size_t k = 0; k < row.size(); ++k) {
      const double other = double(vector[k]);
      sum += type == "RBF" ? (row[k] - other) * (row[k] - other) : row[k] * other;
    }
    if (type == "POLY")
      return std::pow(gamma * sum + coef0, degree);
    if (type == "SIGMOID")
      return std::tanh(gamma * sum + coef0);
    return type == "RBF" ? std::exp(-gamma * sum) : sum;
  }
};

// source: ONNX, operator SVMRegressor
void evaluateSvmRegressor(Call &call) {
  const Rows rows(call, 0);
  const Kernel kernel(call);
  const PostTransform post = postTransformOf(call);
  const int64_t count = call.intAttr("n_supports", 0);
  const std::vector<float> coefficients = call.floatsAttr("coefficients"), rho = call.floatsAttr("rho");
  const std::vector<float> vectors = call.floatsAttr("support_vectors", std::vector<float>());
  // Without support vectors, the coefficients are those of a linear model.
  const bool isLinear = count <= 0;
  if (rho.empty())
    call.fail("rho is empty");
  if (isLinear ? int64_t(coefficients.size()) != rows.features
               : int64_t(coefficients.size()) != count || int64_t(vectors.size()) / count != rows.features ||
                     int64_t(vectors.size()) % count != 0)
    call.fail("there are " + std::to_string(coefficients.size()) + " coefficients and " + std::to_string(vectors.size()) +
              " numbers of support vectors for " + std::to_string(count) + " vectors of " + std::to_string(rows.features) +
              " features");
  const bool isOneClass = call.flagAttr("one_class", false);
  HostTensor &y = call.output(0, ElementKind::F32, {rows.count, 1});
  for (int64_t i = 0; i < rows.count; ++i) {
    const std::vector<double> row = rows.row(i);
    double sum = double(rho[0]);
    if (isLinear)
      sum += kernel(row, coefficients.data());
    for (int64_t k = 0; k < count; ++k)
      sum += double(coefficients[size_t(k)]) * kernel(row, vectors.data() + k * rows.features);
    std::vector<double> scores = {isOneClass ? (sum > 0 ? 1 : -1) : sum};
    transform(scores, post);
    setReal(y, i, scores[0]);
  }
}

/// Probabilities of `count` classes from those of each pair, [i * count + j] that of i against j.
/// source: T. Wu et al., Probability estimates for multi-class classification by pairwise coupling, 2004, algorithm 2
std::vector<double> coupled(const std::vector<double> &pairs, size_t count) {
  std::vector<double> p(count, 1 / double(count)), q(count * count), qp(count);
  for (size_t t = 0; t < count; ++t)
    for (size_t j = 0; j < count; ++j)
      if (j != t) {
        q[t * count + t] += pairs[j * count + t] * pairs[j * count + t];
        q[t * count + j] = -pairs[j * count + t] * pairs[t * count + j];
      }
  for (size_t step = 0; step < std::max<size_t>(100, count); ++step) {
    double product = 0, error = 0;
    for (size_t t = 0; t < count; ++t) {
      qp[t] = 0;
      for (size_t j = 0; j < count; ++j)
        qp[t] += q[t * count + j] * p[j];
      product += p[t] * qp[t];
    }
    for (size_t t = 0; t < count; ++t)
      error = std::max(error, std::fabs(qp[t] - product));
    if (error < 0.005 / double(count))
      break;
    for (size_t t = 0; t < count; ++t) {
      const double change = (product - qp[t]) / q[t * count + t];
      p[t] += change;
      product = (product + change * (change * q[t * count + t] + 2 * qp[t])) / ((1 + change) * (1 + change));
      for (size_t j = 0; j < count; ++j) {
        qp[j] = (qp[j] + change * q[t * count + j]) / (1 + change);
        p[j] /= 1 + change;
      }
    }
  }
  return p;
}

/// Vectors of each class, and a decision for each pair of classes. source: libsvm, svm_predict_values
struct VectorMachine {
  size_t classes, total = 0;
  std::vector<size_t> first, size;
  std::vector<float> coefficients, vectors, rho, probA, probB;

  VectorMachine(const Call &call, size_t classes, int64_t features)
      : classes(classes), coefficients(call.floatsAttr("coefficients")), vectors(call.floatsAttr("support_vectors")),
        rho(call.floatsAttr("rho")), probA(call.floatsAttr("prob_a", std::vector<float>())),
        probB(call.floatsAttr("prob_b", std::vector<float>())) {
    const std::vector<int64_t> sizes = call.intsAttr("vectors_per_class");
    if (sizes.size() != classes)
      call.fail("vectors_per_class has " + std::to_string(sizes.size()) + " sizes for " + std::to_string(classes) + " classes");
    for (int64_t each : sizes) {
      if (each < 0 || each > int64_t(coefficients.size()))
        call.fail("a size of vectors_per_class is " + std::to_string(each));
      first.push_back(total);
      size.push_back(size_t(each));
      total += size_t(each);
    }
    if (vectors.size() != total * size_t(features) || coefficients.size() < total * (classes - 1))
      call.fail("there are " + std::to_string(coefficients.size()) + " coefficients and " + std::to_string(vectors.size()) +
                " numbers of support vectors for " + std::to_string(total) + " vectors of " + std::to_string(features) +
                " features and " + std::to_string(classes) + " classes");
    const size_t pairs = classes * (classes - 1) / 2;
    if (rho.size() < pairs || probA.size() != probB.size() || (!probA.empty() && probA.size() < pairs))
      call.fail("rho, prob_a and prob_b have " + std::to_string(rho.size()) + ", " + std::to_string(probA.size()) + " and " +
                std::to_string(probB.size()) + " numbers for " + std::to_string(pairs) + " pairs of classes");
  }

  /// The decisions of all pairs, and votes for classes.
  std::vector<double> decide(const Kernel &kernel, const std::vector<double> &row, std::vector<double> &votes) const {
    std::vector<double> kernels(total), decisions;
    for (size_t k = 0; k < total; ++k)
      kernels[k] = kernel(row, vectors.data() + k * row.size());
    votes.assign(classes, 0);
    for (size_t i = 0; i < classes; ++i)
      for (size_t j = i + 1; j < classes; ++j) {
        double sum = double(rho[decisions.size()]);
        for (size_t k = first[i]; k < first[i] + size[i]; ++k)
          sum += double(coefficients[(j - 1) * total + k]) * kernels[k];
        for (size_t k = first[j]; k < first[j] + size[j]; ++k)
          sum += double(coefficients[i * total + k]) * kernels[k];
        ++votes[sum > 0 ? i : j];
        decisions.push_back(sum);
      }
    return decisions;
  }

  std::vector<double> probabilities(const std::vector<double> &decisions) const {
    std::vector<double> pairs(classes * classes);
    size_t at = 0;
    for (size_t i = 0; i < classes; ++i)
      for (size_t j = i + 1; j < classes; ++j, ++at) {
        const double logit = decisions[at] * double(probA[at]) + double(probB[at]);
        pairs[i * classes + j] = std::clamp(1 / (1 + std::exp(logit)), 1e-7, 1 - 1e-7);
        pairs[j * classes + i] = 1 - pairs[i * classes + j];
      }
    return coupled(pairs, classes);
  }
};

// source: ONNX, operator SVMClassifier
void evaluateSvmClassifier(Call &call) {
  const Rows rows(call, 0);
  const Labels labels(call, "classlabels_strings", "classlabels_ints");
  const Kernel kernel(call);
  const PostTransform post = postTransformOf(call);
  const size_t classes = labels.size();
  const std::vector<int64_t> sizes = call.intsAttr("vectors_per_class", std::vector<int64_t>());
  HostTensor &y = labels.makeOutput(call, rows.count);
  if (std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == 0; })) {
    // Without support vectors, a linear model with one intercept.
    const std::vector<float> coefficients = call.floatsAttr("coefficients"), rho = call.floatsAttr("rho");
    if (rho.empty() || coefficients.size() / classes != size_t(rows.features) || coefficients.size() % classes != 0)
      call.fail("there are " + std::to_string(coefficients.size()) + " coefficients and " + std::to_string(rho.size()) +
                " of rho for " + std::to_string(classes) + " classes and " + std::to_string(rows.features) + " features");
    Kernel linear = kernel;
    linear.type = "LINEAR";
    HostTensor &z = call.output(1, ElementKind::F32, {rows.count, int64_t(classes)});
    for (int64_t i = 0; i < rows.count; ++i) {
      std::vector<double> scores;
      const std::vector<double> row = rows.row(i);
      for (size_t c = 0; c < classes; ++c)
        scores.push_back(double(rho[0]) + linear(row, coefficients.data() + c * row.size()));
      if (classes > 1 || scores[0] > 0)
        labels.set(y, i, indexOfLargest(scores));
      else
        labels.setNone(y, i);
      transform(scores, post);
      setRow(z, i, scores);
    }
    return;
  }
  if (classes < 2)
    call.fail("support vectors of one class tell nothing apart");
  const VectorMachine machine(call, classes, rows.features);
  const bool hasProbabilities = !machine.probA.empty();
  const int64_t width = int64_t(hasProbabilities || classes == 2 ? classes : classes * (classes - 1) / 2);
  HostTensor &z = call.output(1, ElementKind::F32, {rows.count, width});
  for (int64_t i = 0; i < rows.count; ++i) {
    std::vector<double> votes, scores = machine.decide(kernel, rows.row(i), votes);
    labels.set(y, i, indexOfLargest(votes));
    if (hasProbabilities)
      scores = machine.probabilities(scores);
    else if (classes == 2)
      scores.insert(scores.begin(), -scores[0]);
    transform(scores, post);
    setRow(z, i, scores);
  }
}

} // namespace

void operators::addClassifiers(Table &table) {
  table["ai.onnx.ml:LinearClassifier"] = {evaluateLinearClassifier, {}};
  table["ai.onnx.ml:LinearRegressor"] = {evaluateLinearRegressor, {}};
  table["ai.onnx.ml:SVMClassifier"] = {evaluateSvmClassifier, {}};
  table["ai.onnx.ml:SVMRegressor"] = {evaluateSvmRegressor, {}};
}
