//===- RandomInstruction.h - Inputs of the ISA tests ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESTS_ISA_RANDOMINSTRUCTION_H
#define TESTS_ISA_RANDOMINSTRUCTION_H

#include "isa/Isa.h"
#include "isa/timing/MachineParams.h"

#include <random>

namespace tw::isa::test {

/// TILEWRIGHT_SEED if it is set, else a fixed number. Print it where a test
/// that uses it fails.
uint64_t seed();

/// Any value that fits the field; extremes are as likely as all others.
int64_t randomValue(const FieldInfo &field, std::mt19937_64 &random);

/// Any encodable instruction, legal or not.
Instruction randomInstruction(Opcode opcode, std::mt19937_64 &random);

/// 8x8 int8 array, 8 lanes, scratchpads of 4096 (8 banks) and 2048 bytes (4
/// banks), 64 accumulator rows (4 banks of 16 rows), 1 MiB of DRAM.
timing::MachineParams testMachine();

} // namespace tw::isa::test

#endif // TESTS_ISA_RANDOMINSTRUCTION_H
