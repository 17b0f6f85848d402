//===- RandomVector.h - Random vector instructions --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_RTL_VECTOR_RANDOMVECTOR_H
#define TESTS_RTL_VECTOR_RANDOMVECTOR_H

#include "isa/Isa.h"
#include "isa/timing/MachineParams.h"
#include "simulator/core/MachineState.h"

#include <random>

namespace tw::test {

/// Random legal vector instructions and memories for one machine. Sources lie in the lower half of a memory,
/// destinations in the upper half: no instruction depends on another one, or on an earlier position of its own.
class RandomVector {
public:
  RandomVector(uint64_t seed, const timing::MachineParams &machine) : random(seed), machine(machine) {}

  int64_t pick(int64_t low, int64_t high) { return low + int64_t(random() % uint64_t(high - low + 1)); }
  bool flip() { return random() & 1; }

  /// Fills all on-chip memories, with integers or with what is special among floats.
  void fill(core::MachineState &state);
  isa::Vector vector();
  /// Elementwise, its result in place of source A: only the first of several instructions may do this.
  isa::Vector inPlace();

private:
  uint32_t floatPattern();
  int64_t anyMemory();
  int64_t capacity(int64_t memory) const;
  int64_t zeroPoint(int64_t type);
  void sourceB(isa::Vector &vector);
  bool chain(isa::Vector &vector);
  /// An address within [begin, end), both multiples of `align`, for so many bytes, and a span that covers them. False if
  /// there is none.
  bool place(int64_t bytes, int64_t begin, int64_t end, int64_t align, int64_t &address, int64_t &span);

  std::mt19937_64 random;
  const timing::MachineParams &machine;
};

} // namespace tw::test

#endif // TESTS_RTL_VECTOR_RANDOMVECTOR_H
