//===- ValueFlow.h - Does every read find the write it means? ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// verifySchedule() judges that accesses are ordered, not that the order is right: a load that goes ahead of the last reader of its slot is
// ordered behind nothing that a semaphore could show, as its engine is the same. This verifier judges values, as a validator of register
// allocation does (S. Rideau, X. Leroy, "Validating register allocation and spilling", CC 2010): the program that kernels emit, in the order
// in which they emit it and with memory of its own for every value, says which operation wrote each byte that an operation reads. The final
// order and the final addresses must say the same. It shares no code with the allocation of buffers nor with any scheduler.
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
