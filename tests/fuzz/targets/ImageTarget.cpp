//===- ImageTarget.cpp - Program images -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Length and checksum are set right, so that what is behind them is reached.
//===----------------------------------------------------------------------===//
#include "hw-configs/Machine.h"
#include "isa/Assembler.h"
#include "isa/Program.h"
#include "isa/ProgramImage.h"
#include "tests/fuzz/targets/Target.h"

using namespace tw;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const Result<timing::MachineParams> machine = hwconfigs::loadMachine("tiny_8x8");
  std::vector<uint8_t> image(data, data + size);
  isa::sealImage(image);
  Result<isa::Program> program = isa::deserialize(image, "fuzz.twp");
  if (!program) {
    fuzz::checkMessage(program.message());
    return 0;
  }
  if (isa::serialize(*program) != image)
    fuzz::finding("an image that is not what its program is written as");
  const std::string text = isa::disassemble(*program);
  if (text.empty())
    fuzz::finding("a program without a text");
  const Diagnostics problems = isa::verify(*program, *machine, "fuzz.twp");
  for (const Diagnostic &problem : problems)
    fuzz::checkMessage(problem.str());
  return 0;
}
