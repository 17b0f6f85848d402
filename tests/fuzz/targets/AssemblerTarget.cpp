//===- AssemblerTarget.cpp - Assembler text -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "hw-configs/Machine.h"
#include "isa/Assembler.h"
#include "isa/Program.h"
#include "tests/fuzz/targets/Target.h"

using namespace tw;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const Result<timing::MachineParams> machine = hwconfigs::loadMachine("tiny_8x8");
  const std::string text(data, data + size);
  Result<isa::Program> checked = isa::assemble(text, "fuzz.tasm", &*machine);
  if (!checked)
    fuzz::checkMessage(checked.message());
  // Without a machine more is let through.
  Result<isa::Program> program = isa::assemble(text, "fuzz.tasm");
  if (!program) {
    fuzz::checkMessage(program.message());
    return 0;
  }
  const std::string written = isa::disassemble(*program);
  Result<isa::Program> again = isa::assemble(written, "again.tasm");
  if (!again)
    fuzz::finding("a program whose text is refused: " + again.message());
  if (isa::serialize(*again) != isa::serialize(*program))
    fuzz::finding("a program whose text is another program");
  return 0;
}
