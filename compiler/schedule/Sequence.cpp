//===- Sequence.cpp - Tile programs one after the other ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Sequence.h"

using namespace tw;
using namespace tw::schedule;

TileProgram schedule::inSequence(std::vector<TileProgram> parts, const timing::MachineParams &machine) {
  // A border is bytes behind all memory, one for each engine: the last operation of every engine before it reads all of them, the
  // first one of an engine behind it writes that engine's. Unlike Operation::barrier, which also waits for its own part.
  constexpr uint64_t kBehindMemory = uint64_t(1) << (kAddressBits - 1);
  const unsigned engines = numEngines(machine);
  TileProgram program;
  // Where each engine's last operation is: block and index.
  std::vector<std::pair<int64_t, size_t>> latest(engines, {-1, 0});
  uint64_t border = kBehindMemory;
  for (TileProgram &part : parts) {
    for (auto [block, index] : latest)
      if (block >= 0)
        program.blocks[size_t(block)].operations[index].regions.push_back({kDramSpace, border, border + engines, false});
    std::vector<bool> begun(engines, false);
    for (Block &block : part.blocks) {
      for (size_t i = 0; i < block.operations.size(); ++i) {
        Operation &operation = block.operations[i];
        unsigned engine = engineIndex(operation.instruction, machine);
        if (!begun[engine])
          operation.regions.push_back({kDramSpace, border + engine, border + engine + 1, true});
        begun[engine] = true;
        latest[engine] = {int64_t(program.blocks.size()), i};
      }
      program.blocks.push_back(std::move(block));
    }
    border += engines;
  }
  return program;
}
