//===- MachineTarget.cpp - Machine files ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "hw-configs/Machine.h"
#include "isa/timing/Digest.h"
#include "tests/fuzz/targets/Target.h"

using namespace tw;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Diagnostics warnings;
  Result<timing::MachineParams> machine =
      hwconfigs::loadMachineText(std::string(data, data + size), "fuzz.yaml", {}, &warnings);
  if (!machine) {
    fuzz::checkMessage(machine.message());
    return 0;
  }
  if (hwconfigs::describe(*machine).empty())
    fuzz::finding("a machine without a description");
  timing::architecturalDigest(*machine);
  return 0;
}
