//===- Register.h - Dialects and passes of Tilewright -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_REGISTER_H
#define COMPILER_PIPELINE_REGISTER_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace tw::pipeline {

/// Adds every dialect that Tilewright reads or writes, ours and MLIR's, with the interfaces that bufferisation, tiling and
/// transform scripts need.
void registerTilewright(mlir::DialectRegistry &registry);

/// Makes every pass that `tilewright-opt` offers known by name. To be called once.
void registerTilewrightPasses();

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_REGISTER_H
