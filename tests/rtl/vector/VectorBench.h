//===- VectorBench.h - The vector engine between flat memories --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_RTL_VECTOR_VECTORBENCH_H
#define TESTS_RTL_VECTOR_VECTORBENCH_H

#include "isa/Isa.h"
#include "simulator/core/MachineState.h"

#include <memory>
#include <vector>

class Vtw_vector;
class VerilatedContext;

namespace tw::test {

/// tw_vector with memories that answer a read in the next cycle.
class VectorBench {
public:
  explicit VectorBench(const timing::MachineParams &machine);
  ~VectorBench();

  struct Times {
    uint64_t start = 0, issueFree = 0, retire = 0;
  };
  /// Runs the instructions on the on-chip memories of `state`; instruction i starts in the first cycle that is at least
  /// gaps[i] later than the one in which the instruction before it became issue-free. Cycles count from 0 with each call.
  std::vector<Times> run(const std::vector<isa::Vector> &instructions, const std::vector<uint64_t> &gaps,
                         core::MachineState &state);

private:
  void clock();
  /// What the port brings in the next cycle; without a read something that must not be used.
  static void read(bool valid, int64_t memory, uint64_t address, const core::MachineState &state, std::vector<uint32_t> &data);

  uint32_t lanes;
  std::unique_ptr<VerilatedContext> context;
  std::unique_ptr<Vtw_vector> model;
};

} // namespace tw::test

#endif // TESTS_RTL_VECTOR_VECTORBENCH_H
