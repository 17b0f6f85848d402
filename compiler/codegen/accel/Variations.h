//===- Variations.h - Other values for the knobs of a kernel ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_ACCEL_VARIATIONS_H
#define COMPILER_CODEGEN_ACCEL_VARIATIONS_H

#include "compiler/codegen/accel/Kernel.h"
#include "isa/timing/MachineParams.h"

#include <functional>
#include <vector>

namespace tw::accel {

/// A knob, for people, and other values of it.
struct Variation {
  std::string knob;
  std::vector<std::function<void(KernelPlan &)>> values;
};

/// The knobs of `chosen`, a complete plan of `kernel`, but for those that `kernel.plan` decides. Not every value can be had: what does not
/// fit, or not with the other knobs, is refused as if a plan file had asked for it.
std::vector<Variation> variationsOf(const KernelPlan &chosen, const Kernel &kernel, const timing::MachineParams &machine);

} // namespace tw::accel

#endif // COMPILER_CODEGEN_ACCEL_VARIATIONS_H
