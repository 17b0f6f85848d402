//===- Quantised.h - Operands with scales and zero points -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_OPERATORS_QUANTISED_H
#define COMPILER_OPERATORS_QUANTISED_H

#include "compiler/operators/Widened.h"

namespace tw::operators {

inline bool isQuantisedInteger(ElementKind kind) { return kind == ElementKind::I8 || kind == ElementKind::U8; }

/// `parameter`, what input `i` says, repeated to `shape`.
std::vector<float> spread(const Call &call, size_t i, const HostTensor &parameter, const Shape &shape);
/// Input `i` (int8 or uint8) less its zero point, which repeats along it; sums of products of these wrap as those of int32 do.
std::vector<uint32_t> centred(const Call &call, size_t i, const HostTensor &zeroPoint, bool hasZeroPoint);
/// The same of a small float.
std::vector<float> centredFloats(const Call &call, size_t i, const HostTensor &zeroPoint);
/// Stores `value`, in steps of the result's scale, rounded to nearest even and saturated.
void storeQuantised(HostTensor &y, int64_t i, float value, float zeroPoint);

} // namespace tw::operators

#endif // COMPILER_OPERATORS_QUANTISED_H
