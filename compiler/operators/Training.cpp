//===- Training.cpp - Optimizers, of ai.onnx.preview.training -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/MachineLearning.h"

using namespace tw;
using namespace tw::operators;

namespace {

/// Inputs are the learning rate, the number of updates before, then `groups` groups of tensors, one tensor of each for each that is optimized;
/// results are all groups but the gradients, which are the second. `update` changes the numbers of one element: [group].
template <typename F> void optimize(Call &call, size_t groups, F &&update) {
  if (call.numInputs() < 2 + groups || (call.numInputs() - 2) % groups != 0)
    call.fail("it has " + std::to_string(call.numInputs()) + " inputs, expected 2 and a multiple of " + std::to_string(groups));
  const size_t tensors = (call.numInputs() - 2) / groups;
  for (size_t i = 0; i < tensors; ++i) {
    const HostTensor &x = call.input(2 + i);
    if (x.type != ElementKind::F32 && x.type != ElementKind::F64)
      call.fail(std::string("input ") + std::to_string(2 + i) + " is " + frontend::elementName(x.type) +
                ", expected float or double");
    std::vector<const HostTensor *> given;
    std::vector<HostTensor *> made;
    for (size_t group = 0; group < groups; ++group) {
      given.push_back(&call.input(2 + group * tensors + i));
      if (given.back()->shape != x.shape)
        call.fail("input " + std::to_string(2 + group * tensors + i) + " has shape " + textOf(given.back()->shape) +
                  ", and what is optimized " + textOf(x.shape));
      call.requireSameType(*given.back(), x);
      made.push_back(group == 1 ? nullptr : &call.output((group == 0 ? 0 : group - 1) * tensors + i, x.type, x.shape));
    }
    std::vector<double> values(groups);
    for (int64_t at = 0; at < countOf(x); ++at) {
      for (size_t group = 0; group < groups; ++group)
        values[group] = realAt(*given[group], at);
      update(values.data());
      for (size_t group = 0; group < groups; ++group)
        if (made[group])
          setReal(*made[group], at, values[group]);
    }
  }
}

// source: ONNX, operator Adagrad. Groups: tensors, gradients, accumulated squares of gradients.
void evaluateAdagrad(Call &call) {
  const double decay = double(call.floatAttr("decay_factor", 0.0f)), epsilon = double(call.floatAttr("epsilon", 0.0f));
  const double regular = double(call.floatAttr("norm_coefficient", 0.0f));
  const double rate = call.realScalar(0) / (1 + call.realScalar(1) * decay);
  optimize(call, 3, [&](double *v) {
    const double gradient = regular * v[0] + v[1];
    v[2] += gradient * gradient;
    v[0] -= rate * gradient / (std::sqrt(v[2]) + epsilon);
  });
}

// source: ONNX, operator Adam. Groups: tensors, gradients, averages of gradients, averages of their squares.
void evaluateAdam(Call &call) {
  const double alpha = double(call.floatAttr("alpha", 0.9f)), beta = double(call.floatAttr("beta", 0.999f));
  const double epsilon = double(call.floatAttr("epsilon", 1e-6f)), regular = double(call.floatAttr("norm_coefficient", 0.0f));
  const double after = double(call.floatAttr("norm_coefficient_post", 0.0f)), count = call.realScalar(1);
  double rate = call.realScalar(0);
  if (count > 0)
    rate *= std::sqrt(1 - std::pow(beta, count)) / (1 - std::pow(alpha, count));
  optimize(call, 4, [&](double *v) {
    const double gradient = regular * v[0] + v[1];
    v[2] = alpha * v[2] + (1 - alpha) * gradient;
    v[3] = beta * v[3] + (1 - beta) * gradient * gradient;
    v[0] = (1 - after) * (v[0] - rate * v[2] / (std::sqrt(v[3]) + epsilon));
  });
}

// source: ONNX, operator Momentum. Groups: tensors, gradients, momentums.
void evaluateMomentum(Call &call) {
  const double rate = call.realScalar(0), alpha = double(call.floatAttr("alpha")),
               regular = double(call.floatAttr("norm_coefficient"));
  const double beta = call.realScalar(1) > 0 ? double(call.floatAttr("beta")) : 1;
  const std::string mode = call.stringAttr("mode");
  if (mode != "standard" && mode != "nesterov")
    call.fail("mode is \"" + mode + "\", expected standard or nesterov");
  optimize(call, 3, [&](double *v) {
    const double gradient = regular * v[0] + v[1];
    v[2] = alpha * v[2] + beta * gradient;
    v[0] -= rate * (mode == "nesterov" ? gradient + alpha * v[2] : v[2]);
  });
}

} // namespace

void operators::addTraining(Table &table) {
  table["ai.onnx.preview.training:Adagrad"] = {evaluateAdagrad, {}};
  table["ai.onnx.preview.training:Adam"] = {evaluateAdam, {}};
  table["ai.onnx.preview.training:Momentum"] = {evaluateMomentum, {}};
}
