//===- IntegerProduct.h - Sums of products of bytes -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Processors add several neighbouring products of small integers in one
// instruction. This finds the convolutions and matrix products that may use it
// and rewrites them.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_INTEGERPRODUCT_H
#define COMPILER_CODEGEN_CPU_INTEGERPRODUCT_H

#include "compiler/codegen/cpu/Panels.h"

namespace tw::cpu {

/// Rewrites a reducing `op` for those instructions, if it is a sum of products of bytes and the processor has them. `nest` comes
/// with the loops of `op`; if there is a result, it also has its stage and accumulators, and one loop is shorter. The result says how the
/// packed factor is made, which has to be done; what prepares the other one is emitted at once.
///
/// One factor is streamed, a group of neighbours at a time; the other is packed so that the groups of neighbouring results
/// follow one another. With groups of 4 bytes, the streamed factor must be unsigned and the packed one signed, and the zero
/// points are taken out: sum((a - z) * (w - v)) = sum(a * w) - z * sum(w - v) - v * sum(a). The first sum is part of the initial
/// accumulators, the second one is made of the streamed factor in each run. With groups of 2 numbers of 16 bits, both are stored without
/// their zero points. All of it is exact modulo 2^32.
llvm::Expected<std::optional<FactorPacking>> buildIntegerProduct(KernelWriter &writer, mlir::linalg::GenericOp op,
                                                                 LoopNest &nest);

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_INTEGERPRODUCT_H
