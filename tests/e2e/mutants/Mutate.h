//===- Mutate.h - Plants one fault in a program -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a wrong scheduler or a wrong synchronisation would emit: the program as
// it is but for one fault, at a place that a random number chooses.
//===----------------------------------------------------------------------===//
#ifndef TESTS_E2E_MUTANTS_MUTATE_H
#define TESTS_E2E_MUTANTS_MUTATE_H

#include "isa/Program.h"

#include <optional>
#include <random>
#include <string>

namespace tw::e2e {

enum class FaultClass {
  DropWait,     ///< one wait of one instruction
  DropPost,     ///< one post; what waits for it takes a later one
  DropPair,     ///< a post and the wait that takes it: a semaphore that was never there
  FlipMask,     ///< a wait or post in a loop is made in other iterations
  SurplusPost,  ///< a post is made once more
  Swap,         ///< two neighbouring instructions of one engine change places
  MergeSlots,   ///< two buffers of equal size become one: a ring one slot too small
  ShiftAddress, ///< one operand of one instruction lies one vector further or nearer
  Accumulate,   ///< a tensor instruction adds to what it should overwrite
  VisitTwice,   ///< a tensor instruction comes to a row again
  StoreAway     ///< a store lies on the code or on a constant
};
constexpr unsigned kNumFaultClasses = 11;
constexpr const char *kFaultNames[kNumFaultClasses] = {"drop_wait",    "drop_post",   "drop_pair",   "flip_mask",
                                                       "surplus_post", "swap",        "merge_slots", "shift_address",
                                                       "accumulate",   "visit_twice", "store_away"};

struct Mutant {
  isa::Program program;
  /// Where the fault is, for people.
  std::string place;
};

/// Nothing if the program has no place for such a fault.
std::optional<Mutant> mutate(const isa::Program &program, const timing::MachineParams &machine, FaultClass fault,
                             std::mt19937_64 &random);

} // namespace tw::e2e

#endif // TESTS_E2E_MUTANTS_MUTATE_H
