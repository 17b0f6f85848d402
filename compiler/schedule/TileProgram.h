//===- TileProgram.h - Instructions in order, before synchronisation -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What tiling and placement hand to synchronisation: the instructions of all
// engines in program order, with final addresses and without semaphores. The
// order is a legal execution on its own; synchronisation only makes it hold when
// the engines run side by side.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_SCHEDULE_TILEPROGRAM_H
#define COMPILER_SCHEDULE_TILEPROGRAM_H

#include "isa/Isa.h"
#include "isa/timing/Engines.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tw::schedule {

/// Address spaces a region can lie in: isa::Memory values, and DRAM.
constexpr unsigned kDramSpace = 8;

/// Of an address in any of them: more than machines have.
constexpr unsigned kAddressBits = 56;

/// Bytes [begin, end) of one space that an operation reads or writes over all its executions. Strided accesses are several
/// regions, or one around them all if they are many.
struct Region {
  uint64_t space : 8, begin : kAddressBits, end : 63, write : 1; // programs have many
};

/// An instruction that copies share until one of them changes it: instructions are large, and programs of them are moved about
/// and weighed against each other.
class SharedInstruction {
public:
  SharedInstruction() = default; ///< none yet
  SharedInstruction(const isa::Instruction &instruction) : shared(std::make_shared<isa::Instruction>(instruction)) {}

  operator const isa::Instruction &() const { return *shared; }
  const isa::Instruction *operator->() const { return shared.get(); }
  isa::Instruction &edit() {
    if (shared.use_count() > 1)
      shared = std::make_shared<isa::Instruction>(*shared);
    return *shared;
  }

private:
  std::shared_ptr<isa::Instruction> shared;
};

/// Which bytes the operands of an instruction are, whatever place they have in the end: for verifyValueFlow() alone. Operands: of loads, stores
/// and preloads their place on chip; of tensor instructions the input and the sums; of vector instructions a, b, the parameters and d.
struct OperandValues {
  /// Numbers what fills one slot of a buffer until it is filled anew, or a tensor that stays on chip. 0: whatever memory holds there.
  std::array<uint32_t, 4> value{};
  /// Of the operand as the kernel emitted it, bytes. Two operands of one value with the same address are the same bytes.
  std::array<uint32_t, 4> address{};
};

/// One instruction of the stream. Inside a loop it stands for all its executions: its waits are taken in the first one, its
/// posts made in the last.
struct Operation {
  SharedInstruction instruction;
  std::vector<Region> regions;
  /// Index into TileProgram::layers.
  uint32_t layer = 0;
  /// serial schedules: starts only after everything before it has retired.
  bool barrier = false;
  /// Posts to (tensor) or waits for (preload) its partner in every iteration of a serial loop, so that the two do not overlap.
  bool alternates = false;
  /// A transfer that waits for those before it in the other direction to retire, if waits and semaphores are left.
  bool turns = false;
  /// Not 0: two engines load side by side from the same rows of DRAM. Rounds of a layer are numbered; one begins, on either engine, when
  /// the other has done the round before, if waits and semaphores are left. Apart they would close each other's rows.
  uint32_t round = 0;
  /// It waits, if it can, until so many operations of the vector engine have retired: one of them wants its banks meanwhile.
  uint32_t yieldsTo = 0;
  /// overlap(): a load for later steps is planned behind the array's first pass of this step, or of the next one that has any. 0: anywhere.
  uint32_t notBefore = 0;
  /// The place in the order in which kernels emit operations, which is the meaning of the program; no two have the same. 0: not known.
  uint64_t number = 0;
  OperandValues values;
};

/// A run of operations that a hardware loop repeats; `count` 1 means straight line.
struct Block {
  uint64_t count = 1;
  std::vector<Operation> operations;
  /// A list in braces would copy them.
  template <typename... Operations> static Block of(uint64_t count, Operations &&...operations) {
    Block block;
    block.count = count;
    block.operations.reserve(sizeof...(operations));
    (block.operations.push_back(std::forward<Operations>(operations)), ...);
    return block;
  }
  /// overlap(): the cycle in which the first iteration is estimated to start, and cycles from one iteration to the next.
  double plannedStart = 0, plannedEvery = 0;
};

struct TileProgram {
  std::vector<Block> blocks;
};

/// Follows the rounds of operations that come in order: which was each engine's last in the round before.
class Rounds {
public:
  /// Records `number` for `engine`, in the round of `operation`. Returns what other engines have recorded last before that round.
  std::vector<std::pair<unsigned, uint32_t>> record(const Operation &operation, unsigned engine, uint32_t number);

private:
  struct Layer {
    uint32_t round = 0;
    std::map<unsigned, uint32_t> before, now; ///< by engine
  };
  std::map<uint32_t, Layer> layers;
};

/// The engines of a machine as timing::EngineTable numbers them, without the sequencer.
unsigned engineIndex(const isa::Instruction &instruction, const timing::MachineParams &machine);
unsigned numEngines(const timing::MachineParams &machine);
std::string engineName(unsigned engine, const timing::MachineParams &machine);

/// The addresses of an instruction's operands on chip, bytes, as OperandValues numbers them; -1: it has no such operand.
std::array<int64_t, 4> operandAddresses(const isa::Instruction &instruction, const timing::MachineParams &machine);

/// The regions `instruction` (addresses final, odometer levels included) touches over all its executions.
/// More runs than `most` become the range from the first to the last. By default as many are told apart as the verifier can: what one
/// kernel needs may be there while the rest of the tensor is written.
std::vector<Region> regionsOf(const isa::Instruction &instruction, const timing::MachineParams &machine, int64_t most = 256);

} // namespace tw::schedule

#endif // COMPILER_SCHEDULE_TILEPROGRAM_H
