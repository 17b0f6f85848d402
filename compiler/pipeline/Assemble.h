//===- Assemble.h - Steps in order to a verified program ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_PIPELINE_ASSEMBLE_H
#define COMPILER_PIPELINE_ASSEMBLE_H

#include "compiler/pipeline/PlanEmitter.h"

namespace tw::pipeline {

/// Semaphores, loops, encoding, constants and the verifier. With `onlyTimed` the program has no constants and no text. Errors: the machine
/// has too few semaphores or too little DRAM; `noGoods` then may say what another attempt must leave out.
llvm::Expected<CompiledNetwork> assemble(const NetworkKernels &network, EmittedNetwork emitted, const CompileOptions &options,
                                         NoGoods &noGoods, bool onlyTimed);

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_ASSEMBLE_H
