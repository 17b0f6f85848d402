//===- Panels.h - Constant operands of products, packed ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packs the weights of a matrix product or convolution. A panel holds the
// weights of one register block, in the order in which the micro-kernel reads
// them: for each summed position those of neighbouring results.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_PANELS_H
#define COMPILER_CODEGEN_CPU_PANELS_H

#include "compiler/codegen/cpu/KernelWriter.h"

#include <functional>

namespace tw::cpu {

/// How input `input` of stage 0 of a nest can be packed: as panels [positions, width] of neighbouring lanes, all of them `width` wide but
/// the last one, which has the lanes that are left.
struct FactorPacking {
  unsigned input = 0;
  /// The loop of the nest that counts lanes.
  int lane = 0;
  /// Elements for each lane, and their distance for each loop of the nest, in positions; 0 for the lanes.
  int64_t positions = 1;
  llvm::SmallVector<int64_t> strides;
  /// The nest cannot read the factor as it is.
  bool isNeeded = false;
  /// Emits the packing in panels of `width` lanes; returns a pointer to the first one.
  std::function<mlir::Value(int64_t width)> pack;
};

/// The packing of a constant factor of a reducing `op`, whose operands are the inputs of stage 0 in their order; nothing if it has none
/// that is worth it.
std::optional<FactorPacking> packingOf(KernelWriter &writer, mlir::linalg::GenericOp op);

/// The packing of a factor that is computed, in each run: if it is large, far apart in memory along a summed loop, and many rows of
/// results read it. Loops of `nest` that can be merged have been.
std::optional<FactorPacking> packingOfComputed(KernelWriter &writer, mlir::Location loc, const LoopNest &nest);

/// Packs the factor if it is needed or pays. The nests that do the work of `nest`: of the full panels, and of the last one.
llvm::SmallVector<LoopNest, 2> packInPanels(KernelWriter &writer, mlir::Location loc, LoopNest nest,
                                            const FactorPacking &packing);

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_PANELS_H
