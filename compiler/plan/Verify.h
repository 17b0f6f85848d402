//===- Verify.h - Whether kernels and a machine allow a plan -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks a plan against the shapes of its kernels and the sizes of the machine,
// before anything is emitted. It shares nothing with what makes plans. What depends
// on where tensors lie is checked when a kernel is emitted.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PLAN_VERIFY_H
#define COMPILER_PLAN_VERIFY_H

#include "compiler/codegen/accel/Kernel.h"
#include "compiler/plan/NetworkPlan.h"

namespace tw::plan {

/// What is wrong with the plans of `kernels`, each in the form that its plan wants: a line each, "place: knob is value but kernel 'name'
/// allows this". Empty: nothing.
std::vector<std::string> verify(const std::vector<accel::Kernel> &kernels, const timing::MachineParams &machine,
                                Schedule schedule);

} // namespace tw::plan

#endif // COMPILER_PLAN_VERIFY_H
