//===- Chain.h - Element arithmetic as stages of the vector engine -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef COMPILER_CODEGEN_ACCEL_CHAIN_H
#define COMPILER_CODEGEN_ACCEL_CHAIN_H

#include "compiler/codegen/accel/Kernel.h"

namespace tw::accel {

/// The body of one step as a vector chain.
struct Chain {
  int a = 0;  ///< source (block argument) that enters the chain
  int b = -1; ///< source that is B, or -1
  LaneType aType = LaneType::F32, bType = LaneType::F32, dType = LaneType::F32;
  int64_t aZero = 0, bZero = 0;
  isa::Conversion bConversion = isa::Conversion::None;
  unsigned bScale = 0;
  struct Stage {
    isa::StageOp op;
    int64_t operand;
  };
  std::vector<Stage> stages;
  std::vector<uint32_t> immediates;
  std::vector<int> parameters; ///< sources that are per-channel parameters, in order
};

/// Builds the chain of `step`. `sourceTypes` gives each source's element type with its sign (U8 where bytes are unsigned).
/// Fails with an error on the operation the engine has no stage for, or when the chain is too long.
mlir::FailureOr<Chain> buildChain(const Step &step, llvm::ArrayRef<LaneType> sourceTypes);

/// The chain of each step of the kernel, after the steps are made as few as there are instructions: an element-by-element one goes where
/// each of its readers can do its work too. That is another one of its kind, if a chain of `maxStages` holds both; a maximum over
/// channels, if the order of elements stays; or a sum over channels of what it squares.
mlir::FailureOr<std::vector<Chain>> chainsOf(Kernel &kernel, size_t maxStages);

} // namespace tw::accel

#endif // COMPILER_CODEGEN_ACCEL_CHAIN_H
