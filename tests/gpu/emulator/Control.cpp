//===- Control.cpp - Branches, exits and the instructions that are hints here ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Decoder.h"

using namespace tw::ptxemu;

static Step next(Thread &, const Instruction &) { return Step::Next; }

bool tw::ptxemu::decodeControl(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  if (decoder.is("bra")) {
    decoder.take("uni");
    instruction.execute = [](Thread &thread, const Instruction &instruction) {
      thread.pc = instruction.target;
      return Step::Jump;
    };
    return true;
  }
  if (decoder.is("ret") || decoder.is("exit")) {
    decoder.take("uni");
    instruction.execute = [](Thread &, const Instruction &) { return Step::Exit; };
    return true;
  }
  if (decoder.is("trap") || decoder.is("brkpt")) {
    instruction.execute = [](Thread &, const Instruction &) -> Step { fail(ErrorKind::Trap, "the kernel traps"); };
    return true;
  }
  if (decoder.is("nanosleep")) {
    decoder.take("u32");
    instruction.execute = [](Thread &, const Instruction &) { return Step::Yield; };
    return true;
  }
  if (decoder.is("griddepcontrol")) {
    if (decoder.take("wait"))
      instruction.execute = [](Thread &thread, const Instruction &) {
        thread.cta->dependencyWaited = true;
        return Step::Next;
      };
    else if (decoder.take("launch_dependents"))
      instruction.execute = next;
    else
      decoder.unsupported();
    return true;
  }
  if (decoder.is("prefetch") || decoder.is("prefetchu") || decoder.is("applypriority") || decoder.is("discard")) {
    decoder.takeSpace();
    decoder.takeMemoryOrder();
    decoder.take("tensormap");
    decoder.take("L1");
    decoder.take("L2");
    instruction.execute = next;
    return true;
  }
  if (decoder.is("call"))
    decoder.unsupported("calls are not modelled: inline the function");
  return false;
}
