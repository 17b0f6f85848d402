//===- WriteMachine.cpp - tw_machine_pkg of a tested machine --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/cosim/MachinePackage.h"
#include "tests/rtl/sequencer/Machines.h"

#include <fstream>

int main(int argc, char **argv) {
  if (argc != 3)
    return 1;
  const bool plain = std::string(argv[1]) == "Plain";
  std::ofstream file(argv[2]);
  file << tw::cosim::rtlMachinePackage(plain ? tw::test::plainMachine() : tw::test::oddMachine());
  return file.good() ? 0 : 1;
}
