//===- Recurrent.h - What recurrent operators share -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_OPERATORS_RECURRENT_H
#define COMPILER_OPERATORS_RECURRENT_H

#include "compiler/operators/Operator.h"

namespace tw::operators {

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
