//===- IsaTblgen.cpp - Generator of everything that names the ISA *- C++ -*-==//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   isa-tblgen -gen-structs -I isa isa/Tilewright.td -o IsaStructs.h
//===----------------------------------------------------------------------===//
#include "isa/tblgen/Model.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/TableGen/Main.h"

using namespace llvm;
using namespace tw::tblgen;

namespace {

enum class Action { Check, Structs, Timing };

cl::opt<Action> action(
    cl::desc("what to write:"), cl::init(Action::Check),
    cl::values(clEnumValN(Action::Check, "check",
                          "nothing: only check the description"),
               clEnumValN(Action::Structs, "gen-structs", "isa/IsaStructs.h"),
               clEnumValN(Action::Timing, "gen-timing",
                          "isa/timing/TimingConstants.h")));

bool generate(raw_ostream &os, RecordKeeper &records) {
  Model model = readModel(records);
  switch (action) {
  case Action::Check:
    break;
  case Action::Structs:
    emitStructs(model, os);
    break;
  case Action::Timing:
    emitTiming(model, os);
    break;
  }
  return false;
}

} // namespace

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(
      argc, argv, "generator of everything that names the instruction set\n");
  return TableGenMain(argv[0], generate);
}
