//===- MachinePackage.h - A machine's numbers for the RTL -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_COSIM_MACHINEPACKAGE_H
#define SIMULATOR_COSIM_MACHINEPACKAGE_H

#include "isa/timing/MachineParams.h"

#include <string>

namespace tw::cosim {

/// The SystemVerilog package tw_machine_pkg: every parameter of the machine that its RTL depends on, and all timing
/// constants. What only the DRAM model knows, and the machine's name, are left out: machines that differ in nothing else
/// share one RTL model.
std::string rtlMachinePackage(const timing::MachineParams &machine);

/// How many reads, or writes, of the DRAM can complete in one cycle at most: the width of the RTL's response ports.
uint32_t dramResponsesPerCycle(const timing::MachineParams &machine);

} // namespace tw::cosim

#endif // SIMULATOR_COSIM_MACHINEPACKAGE_H
