//===- LoopStack.h - Hardware loops in program order ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_CORE_LOOPSTACK_H
#define SIMULATOR_CORE_LOOPSTACK_H

#include "isa/Isa.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tw::core {

/// The sequencer's nest of loops. Program counters are word indices.
class LoopStack {
public:
  explicit LoopStack(uint32_t loopBufferWords) : bufferWords(loopBufferWords) {}

  bool empty() const { return frames.empty(); }
  void clear() { frames.clear(); }

  /// Why the loop at `pc` may not be entered: nesting, loop buffer, or a body that leaves the surrounding one.
  std::optional<std::string> illegal(uint64_t pc, const isa::Loop &loop) const;
  /// Enters the body that starts at `begin`. Precondition: illegal() found nothing.
  void enter(uint64_t begin, const isa::Loop &loop);
  /// Why an instruction of `words` words may not stand at `pc`: a body ends inside it.
  std::optional<std::string> illegal(uint64_t pc, unsigned words) const;
  /// The word that follows once everything before `pc` is done: `pc` itself, or the start of a body that runs again.
  uint64_t next(uint64_t pc);

private:
  struct Frame {
    uint64_t begin, end;
    int64_t iterationsLeft;
  };
  uint32_t bufferWords;
  std::vector<Frame> frames;
};

} // namespace tw::core

#endif // SIMULATOR_CORE_LOOPSTACK_H
