//===- Limits.h - Machines that code is not made for ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_CODEGEN_ACCEL_LIMITS_H
#define COMPILER_CODEGEN_ACCEL_LIMITS_H

#include "isa/timing/MachineParams.h"

#include <optional>
#include <string>

namespace tw::accel {

/// Why no contraction has code on `machine`, whatever its size; nothing if some may. A legal machine may be beyond the compiler.
std::optional<std::string> whyNoContraction(const timing::MachineParams &machine);

} // namespace tw::accel

#endif // COMPILER_CODEGEN_ACCEL_LIMITS_H
