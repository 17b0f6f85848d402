//===- Replay.cpp - What a program dispatches, in order -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/cosim/Replay.h"

#include "isa/Legality.h"
#include "simulator/stats/SimResult.h"

using namespace tw;
using namespace tw::cosim;

Replay::Replay(const isa::Program &program, const timing::MachineParams &machine)
    : program(program), machine(machine), loops(machine.loopBufferWords), bodies(program.code.size()) {}

/// Makes bodies[at]. Why it is illegal, if it is.
std::optional<std::string> Replay::decode() {
  if (at >= program.code.size())
    return "the program ends without halt";
  if (!bodies[at]) {
    isa::Decoded decoded = isa::decode(&program.code[at], program.code.size() - at);
    if (!decoded)
      return decoded.error;
    if (std::optional<std::string> why = isa::illegal(decoded.instruction, machine))
      return why;
    bodies[at] = std::make_unique<Body>(Body{std::move(decoded.instruction), {}});
  }
  const isa::Instruction &instruction = bodies[at]->instruction;
  if (std::optional<std::string> why = loops.illegal(at, instruction.words()))
    return why;
  if (const isa::Loop *loop = instruction.getIf<isa::Loop>())
    return loops.illegal(at, *loop);
  if (instruction.getIf<isa::Halt>()) {
    if (!loops.empty())
      return "halt inside a loop";
    if (at + instruction.words() != program.code.size())
      return "halt is not the last instruction";
  }
  return std::nullopt;
}

std::optional<Dispatch> Replay::next() {
  Dispatch dispatch;
  if (next(dispatch))
    return dispatch;
  return std::nullopt;
}

bool Replay::next(Dispatch &dispatch) {
  while (!over) {
    if (std::optional<std::string> why = decode()) {
      problem = *why;
      over = true;
      break;
    }
    Body &body = *bodies[at];
    const isa::Instruction &instruction = body.instruction;
    const uint64_t here = at, after = at + instruction.words();
    taken += instruction.words();
    if (const isa::Loop *loop = instruction.getIf<isa::Loop>()) {
      if (loops.empty())
        for (uint64_t word = after; word < std::min<uint64_t>(after + uint64_t(loop->body_words), bodies.size()); ++word)
          if (bodies[word])
            bodies[word]->odometer.reset();
      loops.enter(after, *loop);
      at = loops.next(after);
      continue;
    }
    if (instruction.getIf<isa::Halt>()) {
      over = true;
      break;
    }
    const bool isRun = isa::resolve(instruction, body.odometer, dispatch.instruction);
    at = loops.next(after);
    if (isRun) {
      dispatch.pc = here;
      dispatch.engine = stats::engineNumber(instruction.engine(), unsigned(instruction.header.unit));
      return true;
    }
  }
  return false;
}
