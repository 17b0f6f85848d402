//===- MachineLearning.h - Parts of the family of ai.onnx.ml ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_OPERATORS_MACHINELEARNING_H
#define COMPILER_OPERATORS_MACHINELEARNING_H

#include "compiler/operators/Elements.h"
#include "compiler/operators/Operator.h"

namespace tw::operators {

void addTrees(Table &table);       ///< TreeEnsemble, TreeEnsembleClassifier, TreeEnsembleRegressor
void addClassifiers(Table &table); ///< LinearClassifier, LinearRegressor, SVMClassifier, SVMRegressor
void addTraining(Table &table);    ///< ai.onnx.preview.training

/// A tensor of one or two dims, [n, c] or [c], as rows of features.
struct Rows {
  const HostTensor &x;
  int64_t count = 1, features = 0;

  Rows(const Call &call, size_t input);
  std::vector<double> row(int64_t i) const;
};

enum class PostTransform { None, Softmax, Logistic, SoftmaxZero, Probit };
PostTransform postTransformOf(const Call &call);
/// Transforms the scores of one example.
void transform(std::vector<double> &scores, PostTransform kind);

/// What classes are called: attribute `strings` or attribute `ints`, exactly one of them.
struct Labels {
  std::vector<std::string> strings;
  std::vector<int64_t> ints;

  Labels(const Call &call, const char *strings, const char *ints);
  size_t size() const { return strings.empty() ? ints.size() : strings.size(); }
  /// Makes result 0, a label for each example.
  HostTensor &makeOutput(Call &call, int64_t count) const;
  /// Precondition: `label` < size().
  void set(HostTensor &y, int64_t i, size_t label) const;
  /// The label of what is not of the only class.
  void setNone(HostTensor &y, int64_t i) const;
};

/// Stores a row of [n, c], c the number of `values`.
void setRow(HostTensor &y, int64_t row, const std::vector<double> &values);
/// The index of the largest, the first of several.
size_t indexOfLargest(const std::vector<double> &values);

} // namespace tw::operators

#endif // COMPILER_OPERATORS_MACHINELEARNING_H
