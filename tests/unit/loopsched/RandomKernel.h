//===- RandomKernel.h - Small tile loops by seed ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_UNIT_LOOPSCHED_RANDOMKERNEL_H
#define TESTS_UNIT_LOOPSCHED_RANDOMKERNEL_H

#include "compiler/research/loopsched/Problem.h"

namespace tw::loopsched::test {

/// One output tile of a matrix product or convolution: loads, one to three pairs of preload and tensor instruction, one
/// or two vector instructions, a store; one DRAM bus, one scratchpad, one accumulator. At least three resources have
/// several users. Three kernels of four get memories that hold little more than one slot of each buffer.
Problem randomKernel(uint64_t seed);

} // namespace tw::loopsched::test

#endif // TESTS_UNIT_LOOPSCHED_RANDOMKERNEL_H
