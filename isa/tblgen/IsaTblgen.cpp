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

using Backend = void (*)(const Model &, raw_ostream &);

void check(const Model &, raw_ostream &) {}

enum class Action { Check, Structs, Timing, SystemVerilog, Manual, Dialect };
constexpr Backend kBackends[] = {check, emitStructs, emitTiming, emitSystemVerilog, emitManual, emitDialect};

cl::opt<Action> action(cl::desc("what to write:"), cl::init(Action::Check),
                       cl::values(clEnumValN(Action::Check, "check", "nothing: only check the description"),
                                  clEnumValN(Action::Structs, "gen-structs", "isa/IsaStructs.h"),
                                  clEnumValN(Action::Timing, "gen-timing", "isa/timing/TimingConstants.h"),
                                  clEnumValN(Action::SystemVerilog, "gen-sv-package", "the package tw_isa_pkg"),
                                  clEnumValN(Action::Manual, "gen-manual", "docs/isa.md"),
                                  clEnumValN(Action::Dialect, "gen-dialect-td", "ODS definitions of the isa dialect's ops")));

bool generate(raw_ostream &os, RecordKeeper &records) {
  kBackends[size_t(action.getValue())](readModel(records), os);
  return false;
}

} // namespace

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(argc, argv, "generator of everything that names the instruction set\n");
  return TableGenMain(argv[0], generate);
}
