//===- Machine.h - Machines from YAML ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fills isa/timing's parameter structs from machine files and DRAM device
// files. The keys are described in hw-configs/README.md.
//===----------------------------------------------------------------------===//
#ifndef HW_CONFIGS_MACHINE_H
#define HW_CONFIGS_MACHINE_H

#include "isa/Diagnostic.h"
#include "isa/timing/MachineParams.h"

#include <string>
#include <utility>
#include <vector>

namespace tw::hwconfigs {

/// Reads a machine. `machine` is a file, or the name of a shipped machine. Each override is `key=value` as the command
/// line's --set gives it ("dram.clock_mhz=800"); it wins over the files, needs no provenance, and stands in
/// MachineParams::overrides.
/// A failure holds every problem of the machine file, its device file and the overrides. `warnings`, if given, receives
/// what is legal but unwise: so few outstanding bursts that one engine cannot keep the DRAM busy (Little's law). `technology`, if
/// given, receives the technology that the machine names (Technology.h), or nothing.
Result<timing::MachineParams> loadMachine(const std::string &machine, const std::vector<std::string> &overrides = {},
                                          Diagnostics *warnings = nullptr, std::string *technology = nullptr);

/// The same from text; `file` names it in messages, and device files are looked up beside it.
Result<timing::MachineParams> loadMachineText(const std::string &text, const std::string &file,
                                              const std::vector<std::string> &overrides = {}, Diagnostics *warnings = nullptr,
                                              std::string *technology = nullptr);

/// A machine of which only the DRAM counts: the device, a name or a path ending in .yaml, with overrides of keys that begin with
/// `dram.`. Its clock is the device's, or that of `ideal`'s cycles, 1000 MHz.
Result<timing::MachineParams> loadDevice(const std::string &device, const std::vector<std::string> &overrides = {});

/// Every parameter that the machine has, by its key and as --set takes it, in the order of the manual. Applied as overrides to the
/// machine, they change nothing.
std::vector<std::pair<std::string, std::string>> parametersOf(const timing::MachineParams &machine);

struct ShippedMachine {
  std::string name, path;
};

/// Where machines are looked up by name: the folders in the environment variable TILEWRIGHT_HW (separated by colons), then the
/// installation's hw-configs (isa/files/Installation.h).
std::vector<std::string> machineFolders();

/// The machine files of those folders, sorted by name. A name of an earlier folder hides the same name of a later one.
std::vector<ShippedMachine> shippedMachines();

/// A page for people: array, memories, engines, DRAM with peak rates.
std::string describe(const timing::MachineParams &machine);

/// "int8", "bf16", "fp32".
const char *typeName(timing::ArrayType type);

} // namespace tw::hwconfigs

#endif // HW_CONFIGS_MACHINE_H
