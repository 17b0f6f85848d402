//===- MachinePackage.cpp - A shipped machine's numbers for the RTL -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "simulator/cosim/MachinePackage.h"

#include "hw-configs/Machine.h"

#include <fstream>
#include <iostream>

using namespace tw;

int main(int argc, char **argv) {
  if (argc != 3) {
    std::cerr << "usage: rtl-machine-package <machine> <output>\n";
    return 2;
  }
  Result<timing::MachineParams> machine = hwconfigs::loadMachine(argv[1]);
  if (!machine) {
    std::cerr << machine.message() << "\n";
    return 1;
  }
  std::ofstream out(argv[2]);
  out << cosim::rtlMachinePackage(*machine);
  out.close();
  if (out)
    return 0;
  std::cerr << "rtl-machine-package: cannot write " << argv[2] << "\n";
  return 1;
}
