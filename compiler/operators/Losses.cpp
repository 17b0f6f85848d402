//===- Losses.cpp - NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Widened.h"

using namespace tw;
using namespace tw::operators;

namespace {

/// `logs`: log-likelihoods [N, C, inner] of `shape`. Inputs 1 and 2 are the classes [N, inner] and their weights [C].
void lossOf(Call &call, ElementKind kind, const Shape &shape, const std::vector<double> &logs) {
  const std::string reduction = call.stringAttr("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    call.fail("reduction is \"" + reduction + "\", expected none, sum or mean");
  const HostTensor &labels = call.input(1);
  Shape places = shape;
  places.erase(places.begin() + 1);
  requireShape(call, 1, labels, places);
  if (labels.type != ElementKind::I32 && labels.type != ElementKind::I64)
    failType(call, 1, labels);
  const int64_t classes = shape[1], count = countOf(places), inner = shape[0] ? count / shape[0] : 0;
  if (call.has(2))
    requireShape(call, 2, call.input(2), {classes});
  const bool ignores = call.hasAttr("ignore_index");
  const int64_t ignored = ignores ? call.intAttr("ignore_index") : 0;
  std::vector<double> losses(static_cast<size_t>(count));
  double sum = 0, weights = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t label = integerAt(labels, i);
    if (ignores && label == ignored)
      continue;
    if (label < 0 || label >= classes)
      call.fail("label " + std::to_string(i) + " is " + std::to_string(label) + ", expected one of " + std::to_string(classes) +
                " classes");
    const double weight = call.has(2) ? realAt(call.input(2), label) : 1;
    sum += losses[size_t(i)] = -weight * logs[size_t((i / inner * classes + label) * inner + i % inner)];
    weights += weight;
  }
  if (reduction != "none")
    losses = {reduction == "sum" ? sum : sum / weights};
  HostTensor &y = call.output(0, kind, reduction == "none" ? places : Shape{});
  for (size_t i = 0; i < losses.size(); ++i)
    setReal(y, int64_t(i), losses[i]);
}

/// Input 0, [N, C, ...], as double.
std::vector<double> scoresOf(const Call &call) {
  const HostTensor &x = call.input(0);
  requireRank(call, 0, x, 2);
  std::vector<double> scores(size_t(countOf(x)));
  if (!visitFloat(x.type, [&](auto zero) {
        using T = decltype(zero);
        for (size_t i = 0; i < scores.size(); ++i)
          scores[i] = double(Computed<T>(data<T>(x)[i]));
      }))
    failType(call, 0, x);
  return scores;
}

void evaluateNegativeLogLikelihoodLoss(Call &call) {
  const std::vector<double> logs = scoresOf(call);
  lossOf(call, call.input(0).type, call.input(0).shape, logs);
}

void evaluateSoftmaxCrossEntropyLoss(Call &call) {
  std::vector<double> logs = scoresOf(call);
  const HostTensor &x = call.input(0);
  const AroundAxis around(x.shape, 1);
  for (int64_t outer = 0; outer < around.outer; ++outer)
    for (int64_t inner = 0; inner < around.inner; ++inner) {
      double *row = logs.data() + outer * around.count * around.inner + inner;
      double best = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t i = 0; i < around.count; ++i)
        best = std::max(best, row[i * around.inner]);
      for (int64_t i = 0; i < around.count; ++i)
        sum += std::exp(row[i * around.inner] - best);
      for (int64_t i = 0; i < around.count; ++i)
        row[i * around.inner] -= best + std::log(sum);
    }
  lossOf(call, x.type, x.shape, logs);
  HostTensor &logProb = call.output(1, x.type, x.shape);
  for (size_t i = 0; i < logs.size(); ++i)
    setReal(logProb, int64_t(i), logs[i]);
}

} // namespace

void operators::addLosses(Table &table) {
  table[":NegativeLogLikelihoodLoss"].evaluate = evaluateNegativeLogLikelihoodLoss;
  table[":SoftmaxCrossEntropyLoss"].evaluate = evaluateSoftmaxCrossEntropyLoss;
}
