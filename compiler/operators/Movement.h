//===- Movement.h - Shared by the files that move elements ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_OPERATORS_MOVEMENT_H
#define COMPILER_OPERATORS_MOVEMENT_H

#include "compiler/operators/Operator.h"

namespace tw::operators {

/// The elements of input `i`, of int32 or int64 and rank 0 or 1. Throws Error for others.
std::vector<int64_t> listInput(const Call &call, size_t i);
/// Fails unless `split` are sizes of parts of a dim of `extent`.
void requireParts(const Call &call, const std::vector<int64_t> &split, int64_t extent);
/// Sets all elements of `y` to element 0 of `value`, of its type.
void fill(HostTensor &y, const HostTensor &value);

//===--- Parts of addMovement() ---===//
void addConstants(Table &table); ///< what makes tensors: constants, ranges, shapes, masks, grids
void addIndexing(Table &table);  ///< gathers, scatters, and what else takes places from tensors

} // namespace tw::operators

#endif // COMPILER_OPERATORS_MOVEMENT_H
