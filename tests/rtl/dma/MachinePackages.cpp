//===- MachinePackages.cpp - Packages of the tested machines --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// dma-machine-package <name> <output>
//===----------------------------------------------------------------------===//
#include "simulator/cosim/MachinePackage.h"
#include "tests/rtl/dma/Machines.h"

#include <fstream>

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  std::ofstream file(argv[2]);
  file << tw::cosim::rtlMachinePackage(tw::test::dmaMachine(argv[1]));
  return file.flush() ? 0 : 1;
}
