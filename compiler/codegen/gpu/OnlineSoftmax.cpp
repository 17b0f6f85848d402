//===- OnlineSoftmax.cpp - Rows of attention in a warp's registers --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/OnlineSoftmax.h"

#include "llvm/IR/IntrinsicsNVPTX.h"

#include <limits>

using namespace llvm;
using namespace tw;
using namespace tw::gpu;

static constexpr double kLog2E = 1.4426950408889634, kNone = -std::numeric_limits<double>::infinity();

OnlineSoftmax::State OnlineSoftmax::begin() {
  State state{{number(kNone), number(kNone)}, {number(0), number(0)}, {}};
  state.context.assign(kernel.headSize / 2, number(0));
  return state;
}

SmallVector<Value *> OnlineSoftmax::packed(const State &state) {
  SmallVector<Value *> values{state.largest[0], state.largest[1], state.total[0], state.total[1]};
  values.append(state.context.begin(), state.context.end());
  return values;
}

OnlineSoftmax::State OnlineSoftmax::unpacked(ArrayRef<Value *> values) {
  return {{values[0], values[1]}, {values[2], values[3]}, SmallVector<Value *>(values.drop_front(4))};
}

SmallVector<Value *> OnlineSoftmax::take(State &state, SmallVector<Value *> scores, const Place &place, bool isTail,
                                         Function *function) {
  Value *column = b.CreateShl(b.CreateAnd(place.lane, 3), 1);
  if (kernel.function) {
    auto inside = [&](Value *value, Value *size) {
      Value *last = b.CreateSub(size, constant(1));
      return b.CreateSelect(b.CreateICmpULT(value, last), value, last);
    };
    for (unsigned i = 0; i < scores.size(); ++i) {
      Value *key = b.CreateAdd(b.CreateAdd(place.firstKey, column), constant(i / 4 * 8 + i % 2));
      Value *row = b.CreateAdd(place.row, constant(i % 4 / 2 * 8));
      scores[i] =
          kernel.function(b, scores[i], place.batch, inside(row, place.rows), isTail ? inside(key, place.keys) : key, function);
    }
  }
  Value *keysLeft = b.CreateSub(b.CreateSub(place.keys, place.firstKey), column);
  if (isTail)
    for (unsigned i = 0; i < scores.size(); ++i)
      scores[i] = b.CreateSelect(b.CreateICmpSGT(keysLeft, constant(i / 4 * 8 + i % 2)), scores[i], number(kNone));

  auto fma = [&](Value *x, Value *y, Value *z) { return b.CreateIntrinsic(b.getFloatTy(), Intrinsic::fma, {x, y, z}); };
  auto exp2 = [&](Value *x) { return b.CreateIntrinsic(b.getFloatTy(), Intrinsic::nvvm_ex2_approx_ftz_f, {x}); };
  Value *const factor = number(kernel.scale * kLog2E);
  for (unsigned half = 0; half < 2; ++half) {
    Value *largest = state.largest[half];
    for (unsigned i = half * 2; i < scores.size(); i += 4)
      largest = b.CreateMaxNum(b.CreateMaxNum(largest, scores[i]), scores[i + 1]);
    for (unsigned apart : {1u, 2u})
      largest = b.CreateMaxNum(largest, ampere.ofOtherLane(largest, apart));
    // While all scores of the row are -inf, any finite number gives exponentials of 0.
    Value *isNone = b.CreateFCmpOEQ(largest, number(kNone));
    Value *offset = b.CreateFNeg(b.CreateFMul(b.CreateSelect(isNone, number(0), largest), factor));
    Value *less = exp2(fma(state.largest[half], factor, offset));
    state.largest[half] = largest;
    Value *total = b.CreateFMul(state.total[half], less);
    for (unsigned i = half * 2; i < scores.size(); i += 4)
      for (unsigned j : {i, i + 1}) {
        scores[j] = exp2(fma(scores[j], factor, offset));
        total = b.CreateFAdd(total, scores[j]);
      }
    state.total[half] = total;
    for (unsigned i = half * 2; i < state.context.size(); i += 4)
      for (unsigned j : {i, i + 1})
        state.context[j] = b.CreateFMul(state.context[j], less);
  }
  // Scores of 16 columns lie in registers as an operand of 16 steps of k does: rows r, r + 8, then the same 8 columns further.
  SmallVector<Value *> weights;
  for (unsigned i = 0; i < scores.size(); i += 2)
    weights.push_back(ampere.pack(kernel.element, scores[i], scores[i + 1]));
  return weights;
}

SmallVector<Value *> OnlineSoftmax::context(const State &state) {
  SmallVector<Value *> values(state.context);
  for (unsigned half = 0; half < 2; ++half) {
    Value *total = state.total[half];
    for (unsigned apart : {1u, 2u})
      total = b.CreateFAdd(total, ampere.ofOtherLane(total, apart));
    Value *share = b.CreateFDiv(number(1), total);
    for (unsigned i = half * 2; i < values.size(); i += 4)
      for (unsigned j : {i, i + 1})
        values[j] = b.CreateFMul(values[j], share);
  }
  return values;
}
