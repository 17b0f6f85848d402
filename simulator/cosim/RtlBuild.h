//===- RtlBuild.h - Verilated machines, built when needed -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each machine has an RTL model of its own: Verilator and a C++ compiler make a
// shared object of it when it is first asked for. Objects are kept in a folder:
// $TILEWRIGHT_RTL_CACHE, or tilewright/rtl in $XDG_CACHE_HOME or ~/.cache. Beside
// each stands a record of its size and digest: an object that differs is built
// again. What others than the user and root can write is refused, as it is code.
//===----------------------------------------------------------------------===//
#ifndef SIMULATOR_COSIM_RTLBUILD_H
#define SIMULATOR_COSIM_RTLBUILD_H

#include "isa/Diagnostic.h"
#include "isa/timing/MachineParams.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tw::cosim {

struct RtlTable;

/// Told what takes long: "building the RTL model of tiny_8x8".
using RtlProgress = std::function<void(const std::string &)>;

/// The SystemVerilog files of a machine in the order in which they are read. `machinePackage`: where rtlMachinePackage()
/// was or will be written.
Result<std::vector<std::string>> rtlSources(const std::string &machinePackage);

/// What of the machine is beyond the RTL, which runs most legal machines, not all (docs/rtl.md); nothing: it runs it.
std::optional<std::string> whyNoRtl(const timing::MachineParams &machine);

/// The machine's RTL model, built if it is not in the cache. `traced`: one that can dump waves. Any number of processes may
/// build at once. Errors: whyNoRtl(), Verilator or the compiler is missing or fails (with the end of its output), the folder cannot be
/// written, or it or the model can be written by others. The table stays valid until the process ends.
Result<const RtlTable *> loadRtl(const timing::MachineParams &machine, bool traced, const RtlProgress &progress = {});

} // namespace tw::cosim

#endif // SIMULATOR_COSIM_RTLBUILD_H
