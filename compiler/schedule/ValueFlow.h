//===- ValueFlow.h - Does every read find the write it means? ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// verifySchedule() judges whether accesses are ordered, not whether the order is right. Loads of one engine are always ordered, even where one
// fills a slot ahead of the slot's last reader. This verifier judges values, as validators of register allocation do (S. Rideau, X. Leroy,
// "Validating register allocation and spilling", CC 2010). The program as kernels emit it says which operation wrote each byte that an
// operation reads: in the order of emission, with separate memory for every value. The final order and the final addresses must say the
// same. The verifier shares no code with the allocation of buffers or with a scheduler.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_SCHEDULE_VALUEFLOW_H
#define COMPILER_SCHEDULE_VALUEFLOW_H

#include "compiler/schedule/Overlap.h"
#include "compiler/schedule/Reroll.h"
#include "compiler/schedule/TileProgram.h"
#include "isa/Diagnostic.h"

namespace tw::schedule {

/// Every read of `program` (at most 20) whose bytes were last written by another operation than Operation::number and
/// Operation::values say, or which reads a value of which no operation writes a byte; two operations of one number. Bytes that the value
/// does not define, as lanes behind the last channel, are not judged, nor are accesses of more than 4096 separate runs. A program with an
/// operation without a number is not judged at all. Linear in operations but for sorting them.
Diagnostics verifyValueFlow(const TileProgram &program, const timing::MachineParams &machine);

/// Nothing, if `code` executes what `program` executes, instruction by instruction; else the first one that differs. Hardware loops take operands
/// from slot to slot in turn: this finds an iteration in the wrong slot. Linear in executed instructions.
Diagnostics verifyCode(const std::vector<Code> &code, const TileProgram &program);

/// Gives the operations of `steps` from index `first` on the numbers that they have together, step by step: kernels of a fusion group are
/// emitted one after the other, and mean the order of their steps.
void numberBySteps(std::vector<Step> &steps, size_t first);

} // namespace tw::schedule

#endif // COMPILER_SCHEDULE_VALUEFLOW_H
