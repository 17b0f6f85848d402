//===- Reference.h - A second reading of the instruction set ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Written from the prose of isa/Isa.td, sharing no arithmetic with the
// simulator but for the function tables. Slow and literal.
//===----------------------------------------------------------------------===//
#ifndef TESTS_UNIT_FUNCTIONAL_REFERENCE_H
#define TESTS_UNIT_FUNCTIONAL_REFERENCE_H

#include "isa/Isa.h"
#include "simulator/core/MachineState.h"

#include <map>
#include <string>
#include <vector>

namespace tw::test {

/// All state of a machine as plain arrays.
struct Image {
  std::vector<uint8_t> dram;
  std::map<int64_t, std::vector<uint8_t>> memories;
  std::vector<double> shadow, active; ///< [rows][cols]; int or fp32 values, both exact in double

  explicit Image(const core::MachineState &state);
  /// "" or the first difference, bit by bit but for weights.
  std::string difference(const Image &other) const;
};

/// Executes one resolved instruction on `image`.
void refer(const isa::Instruction &instruction, const timing::MachineParams &machine, Image &image);

} // namespace tw::test

#endif // TESTS_UNIT_FUNCTIONAL_REFERENCE_H
