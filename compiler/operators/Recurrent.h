//===- Recurrent.h - What recurrent operators share -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_OPERATORS_RECURRENT_H
#define COMPILER_OPERATORS_RECURRENT_H

#include "compiler/operators/Operator.h"

namespace tw::operators {

/// An activation of a recurrent layer (source: ONNX, operator LSTM, attribute activations).
struct RecurrentActivation {
  enum class Kind { Affine, Elu, HardSigmoid, LeakyRelu, Relu, ScaledTanh, Sigmoid, Softplus, Softsign, Tanh, ThresholdedRelu };
  Kind kind;
  double alpha, beta;
};

/// The activations of all directions, each direction's behind those of the one before. `given`: attribute activations; empty: `defaults` for each
/// direction. Numbers of `alphas` and `betas` go to those that take one, in their order. Throws Error for a wrong count or an unknown name.
std::vector<RecurrentActivation> recurrentActivations(std::vector<std::string> given, const std::vector<std::string> &defaults,
                                                      int64_t directions, const std::vector<float> &alphas,
                                                      const std::vector<float> &betas);

/// W, [directions, gates * hidden, inputs], and R, [directions, gates * hidden, hidden].
struct RecurrentWeights {
  const HostTensor &w, &r;
  /// Rounds what they are multiplied with, all inputs or a state, to the grid that it is quantised to; null: nothing is.
  void (*round)(float *x, int64_t count) = nullptr;
};

/// LSTM with weights of another place than inputs 1 and 2; B, sequence_lens, initial_h, initial_c and P are inputs 3 to 7.
void evaluateLstmWith(Call &call, const RecurrentWeights &weights);

} // namespace tw::operators

#endif // COMPILER_OPERATORS_RECURRENT_H
