//===- Machines.h - Machines whose array is tested --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_RTL_TENSOR_MACHINES_H
#define TESTS_RTL_TENSOR_MACHINES_H

#include "isa/timing/MachineParams.h"

#include <string>

namespace tw::test {

/// Small machines: "int8" and "fp32" with the default latencies, "bf16" with a flat array, two weight rows per cycle and
/// latencies of its own.
inline timing::MachineParams arrayMachine(const std::string &name) {
  timing::MachineParams machine;
  machine.name = name;
  machine.scratchpads = {{"unified", 16384, 8}};
  machine.accumulator = {"accumulator", 4096, 4};
  machine.rows = machine.cols = machine.lanes = name == "int8" ? 16 : 8;
  if (name == "fp32")
    machine.arrayType = timing::ArrayType::Fp32;
  if (name == "bf16") {
    machine.arrayType = timing::ArrayType::Bf16;
    machine.rows = 4;
    machine.preloadRowsPerCycle = 2;
    machine.timing.shadow_free_cycles = 2;
    machine.timing.preload_drain_cycles = 3;
    machine.timing.tensor_read_cycles = 5; // a swap takes the tile with the edge that writes the next one
    machine.timing.tensor_multiply_float_cycles = 1;
    machine.timing.tensor_add_float_cycles = 2;
    machine.timing.acc_rmw_float_cycles = 2;
  }
  return machine;
}

} // namespace tw::test

#endif // TESTS_RTL_TENSOR_MACHINES_H
