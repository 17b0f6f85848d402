//===- LoopStack.cpp - Hardware loops in program order --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulator/core/LoopStack.h"

using namespace tw;
using namespace tw::core;

std::optional<std::string> LoopStack::illegal(uint64_t pc, const isa::Loop &loop) const {
  if (loop.count < 1)
    return "loop count is 0 but must be at least 1";
  if (loop.body_words < 1)
    return "loop body is empty";
  if (loop.body_words > int64_t(bufferWords))
    return "loop body has " + std::to_string(loop.body_words) + " words but the loop buffer holds " +
           std::to_string(bufferWords);
  if (int64_t(frames.size()) >= isa::kMaxLoopDepth)
    return "loops nest deeper than " + std::to_string(isa::kMaxLoopDepth);
  if (!frames.empty() && pc + 1 + loop.body_words > frames.back().end)
    return "loop body ends after the body that holds it";
  return std::nullopt;
}

void LoopStack::enter(uint64_t begin, const isa::Loop &loop) {
  frames.push_back({begin, begin + uint64_t(loop.body_words), loop.count - 1});
}

std::optional<std::string> LoopStack::illegal(uint64_t pc, unsigned words) const {
  if (!frames.empty() && pc + words > frames.back().end)
    return "a loop body ends inside the instruction";
  return std::nullopt;
}

uint64_t LoopStack::next(uint64_t pc) {
  while (!frames.empty() && frames.back().end == pc) {
    if (frames.back().iterationsLeft-- > 0)
      return frames.back().begin;
    frames.pop_back();
  }
  return pc;
}
