//===- Jit.h - Machine code in this process ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_JIT_H
#define COMPILER_CODEGEN_CPU_JIT_H

#include "llvm/ExecutionEngine/Orc/LLJIT.h"

namespace tw::cpu {

/// A linker of object files into this process. The environment variable TILEWRIGHT_JIT_SYMBOLS lists who is told the names of
/// functions, separated by commas:
/// - perf: they go to /tmp/perf-PID.map, where `perf report` looks;
/// - gdb: objects are registered as debuggers expect it, in __jit_debug_descriptor.
/// Errors: anything else in the variable, a map that cannot be written.
llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>> makeJit();

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_JIT_H
