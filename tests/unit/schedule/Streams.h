//===- Streams.h - Tile programs from text, for tests of schedules -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_UNIT_SCHEDULE_STREAMS_H
#define TESTS_UNIT_SCHEDULE_STREAMS_H

#include "compiler/schedule/TileProgram.h"
#include "hw-configs/Machine.h"
#include "isa/Assembler.h"

namespace tw::schedule {

inline timing::MachineParams tiny() { return *hwconfigs::loadMachine("tiny_8x8"); }

/// One block for each line of assembler.
inline TileProgram stream(const std::vector<std::string> &lines, const timing::MachineParams &machine) {
  TileProgram program;
  for (const std::string &line : lines) {
    Operation operation;
    operation.instruction = *isa::parse(line);
    operation.regions = regionsOf(operation.instruction, machine);
    program.blocks.push_back({1, {operation}});
  }
  return program;
}

/// The operations in order and a halt; loops of blocks are not expanded.
inline isa::Program encode(const TileProgram &tiles) {
  isa::Program program;
  for (const Block &block : tiles.blocks)
    for (const Operation &operation : block.operations)
      isa::encode(operation.instruction, program.code);
  isa::encode(isa::Instruction(isa::Halt()), program.code);
  program.codeAddress = 1 << 20; // behind all that streams touch
  return program;
}

inline int64_t waits(const Operation &operation) {
  int64_t count = 0;
  for (int64_t n : operation.instruction->header.wait_count)
    count += n;
  return count;
}

} // namespace tw::schedule

#endif // TESTS_UNIT_SCHEDULE_STREAMS_H
