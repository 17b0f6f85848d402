//===- Variations.h - What a kernel's request could say instead --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_ACCEL_VARIATIONS_H
#define COMPILER_CODEGEN_ACCEL_VARIATIONS_H

#include "compiler/codegen/accel/Kernel.h"
#include "isa/timing/MachineParams.h"

#include <functional>
#include <vector>

namespace tw::accel {

/// A key of a request, for people, and other values of it.
struct Variation {
  const char *key;
  std::vector<std::function<void(TileRequest &)>> values;
};

/// The keys of `chosen`, a request that says all of what `kernel` does on `machine`, but for those that `kernel.request` asks for. Not
/// everything can be had: what does not fit, or not with the other keys, is refused as if a schedule file had asked for it.
std::vector<Variation> variationsOf(const TileRequest &chosen, const Kernel &kernel, const timing::MachineParams &machine);

} // namespace tw::accel

#endif // COMPILER_CODEGEN_ACCEL_VARIATIONS_H
