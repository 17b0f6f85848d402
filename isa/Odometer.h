//===- Odometer.h - What an instruction in a loop does this time *- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each instruction in a loop body carries its own counters, advanced once per
// execution. resolve() turns it into the plain instruction of one execution.
//===----------------------------------------------------------------------===//
#ifndef ISA_ODOMETER_H
#define ISA_ODOMETER_H

#include "isa/Isa.h"

#include <array>
#include <optional>

namespace tw::isa {

/// The counters of one instruction; all 0 when the outermost loop around it is
/// entered.
struct OdometerState {
  std::array<uint16_t, kMaxLevels> counter{};

  void reset() { counter.fill(0); }
};

/// True while every level in `mask` is in its first (last) iteration; an empty
/// mask holds always.
bool inFirstIteration(const Instruction &instruction, const OdometerState &state, int64_t mask);
bool inLastIteration(const Instruction &instruction, const OdometerState &state, int64_t mask);

/// Turns the counters by one execution, level 0 fastest; after the last
/// execution they are all 0 again.
void advance(const Instruction &instruction, OdometerState &state);

/// The instruction of this execution: addresses with the odometer's
/// contribution, waits and posts whose mask does not hold with count 0,
/// clear_mask resolved into accumulate, edges applied to counts; no levels,
/// masks, predicate or edges are left. Advances the state. Nothing: the
/// predicate drops this execution, its waits and posts with it; the state
/// advances all the same. Addresses are not range-checked and may be negative;
/// see outOfRange().
std::optional<Instruction> resolve(const Instruction &instruction, OdometerState &state);

/// The same into `now`, whatever that held before; false if the predicate drops
/// this execution.
bool resolve(const Instruction &instruction, OdometerState &state, Instruction &now);
/// Whether the predicate drops this execution. Leaves the state alone.
bool isDropped(const Instruction &instruction, const OdometerState &state);

/// Element `index` of the operand's counts; nullptr if it has no such element
/// (preload, sequencer instructions).
int64_t *countOf(Instruction &instruction, int64_t index);

} // namespace tw::isa

#endif // ISA_ODOMETER_H
