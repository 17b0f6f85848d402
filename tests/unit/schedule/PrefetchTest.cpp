//===- PrefetchTest.cpp - Weights that come early --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Prefetch.h"
#include "compiler/schedule/Synchronize.h"
#include "compiler/schedule/Verifier.h"
#include "hw-configs/Machine.h"

#include <gtest/gtest.h>
#include <map>

using namespace tw;
using schedule::Operation;
using schedule::Step;

namespace {

const timing::MachineParams &tiny() {
  static const timing::MachineParams machine = *hwconfigs::loadMachine("tiny_8x8");
  return machine;
}

Operation operation(const std::string &line) {
  Operation result;
  result.instruction = *isa::parse(line);
  result.regions = schedule::regionsOf(result.instruction, tiny());
  return result;
}

Operation load(unsigned memory, int64_t address, int64_t bytes, int64_t dram) {
  const std::string size = std::to_string(bytes);
  return operation("load unit=" + std::to_string(memory) + " memory=" + std::to_string(memory) +
                   " address=" + std::to_string(address) + " dram_address=" + std::to_string(dram) + " counts=[" + size +
                   ",1,1,1,1] span=" + size);
}

/// A product of `positions` vectors from 0 on of the first scratchpad with the weights at `weights` of the second.
schedule::Block product(int64_t weights, int64_t positions) {
  const std::string count = std::to_string(positions), bytes = std::to_string(positions * 8);
  return {1,
          {operation("preload memory=1 address=" + std::to_string(weights) + " span=64 row_stride=8 k_count=8 n_count=8"),
           operation("tensor address=0 span=" + bytes + " counts=[" + count +
                     ",1,1] strides=[8,0,0] acc_strides=[1,0,0] acc_span=" + count + " k_count=8 swap=1")}};
}

constexpr size_t kEarly = 32, kLate = 8; ///< steps

/// Steps that keep the array busy, on a tensor in the lower half of the first scratchpad; then some whose weights, `bytes` in one of two
/// slots and each brought by so many loads, take longer than their `positions`. The last step needs those of the first late one as well,
/// which have a slot of their own, and the tensor.
std::vector<Step> steps(int64_t bytes, int64_t positions = 8, int pieces = 1) {
  std::vector<Step> list(kEarly + kLate);
  list[0].loads.push_back(load(0, 0, 4096, 0));
  for (size_t i = 0; i < kEarly; ++i) {
    list[i].loads.push_back(load(1, i % 2 * 64, 64, int64_t(8192 + 64 * i)));
    list[i].compute.push_back(product(i % 2 * 64, 128));
  }
  const int64_t piece = bytes / pieces, within = pieces > 1 ? piece - 32 : 0;
  for (size_t i = 0; i < kLate; ++i) {
    Step &late = list[kEarly + i];
    const int64_t slot = i ? 1024 * int64_t(1 + i % 2) : 3072;
    for (int k = 0; k < pieces; ++k)
      late.loads.push_back(load(1, slot + piece * k, piece, 65536 + bytes * int64_t(i) + piece * k));
    late.compute.push_back(product(slot + within, positions));
  }
  list.back().compute.push_back(product(3072 + within, positions));
  list.back().compute.push_back(
      {1, {operation("store memory=0 address=0 dram_address=4194304 counts=[4096,1,1,1,1] span=4096")}});
  return list;
}

/// Of every read on chip, in the order of the steps: where in DRAM its bytes come from.
std::vector<std::vector<int64_t>> readsOf(const std::vector<Step> &steps) {
  std::map<std::pair<unsigned, uint64_t>, int64_t> from;
  std::vector<std::vector<int64_t>> reads;
  auto run = [&](const Operation &op) {
    auto *loads = op.instruction->getIf<isa::Load>();
    for (const schedule::Region &region : schedule::regionsOf(op.instruction, tiny())) {
      if (region.space >= tiny().scratchpads.size())
        continue;
      if (!region.write)
        reads.emplace_back();
      for (uint64_t byte = region.begin; byte < region.end; ++byte)
        if (region.write)
          from[{region.space, byte}] = loads->dram_address + int64_t(byte - region.begin);
        else
          reads.back().push_back(from.at({region.space, byte}));
    }
  };
  for (const Step &step : steps) {
    for (const Operation &op : step.loads)
      run(op);
    for (const schedule::Block &block : step.compute)
      for (const Operation &op : block.operations)
        run(op);
  }
  return reads;
}

std::string textOf(const std::vector<Step> &steps) {
  std::string all;
  for (const Step &step : steps) {
    for (const Operation &op : step.loads)
      all += isa::print(op.instruction) + "\n";
    for (const schedule::Block &block : step.compute)
      for (const Operation &op : block.operations)
        all += isa::print(op.instruction) + "\n";
  }
  return all;
}

TEST(PrefetchTest, WeightsThatWouldBeLateComeEarlierAndEveryReadFindsWhatItFound) {
  const std::vector<Step> before = steps(1024);
  std::vector<Step> after = before;
  ASSERT_TRUE(schedule::prefetch(after, tiny()));
  EXPECT_EQ(readsOf(after), readsOf(before));
  EXPECT_LT(schedule::estimateOverlapped(after, tiny()), schedule::estimateOverlapped(before, tiny()));
  // Those behind the first load are in time where they are, and the late ones do not come before them.
  for (size_t i = 1; i < kEarly / 2; ++i)
    EXPECT_EQ(isa::print(after[i].loads.back().instruction), isa::print(before[i].loads.back().instruction));
  for (size_t i = kEarly; i < kEarly + kLate; ++i)
    EXPECT_GT(after[i].loads[0].notBefore, 1u);
}

TEST(PrefetchTest, WhatItMovesVerifiesOnceSynchronised) {
  std::vector<Step> list = steps(1024);
  ASSERT_TRUE(schedule::prefetch(list, tiny()));
  schedule::TileProgram tiles = schedule::overlap(list, tiny());
  ASSERT_TRUE(schedule::synchronize(tiles, tiny()));
  isa::Program program;
  for (const schedule::Block &block : tiles.blocks)
    for (const Operation &op : block.operations)
      isa::encode(op.instruction, program.code);
  isa::encode(isa::Instruction(isa::Halt()), program.code);
  const Diagnostics problems = schedule::verifySchedule(program, tiny());
  EXPECT_TRUE(problems.empty()) << problems.front().str();
}

TEST(PrefetchTest, WeightsInTimeStay) {
  std::vector<Step> list = steps(64, 128);
  list.erase(list.begin()); // with the load of the tensor
  const std::string before = textOf(list);
  EXPECT_FALSE(schedule::prefetch(list, tiny()));
  EXPECT_EQ(textOf(list), before);
}

TEST(PrefetchTest, WeightsInPiecesStay) {
  std::vector<Step> list = steps(1024, 8, 2);
  list.erase(list.begin(), list.begin() + kEarly);
  const std::string before = textOf(list);
  EXPECT_FALSE(schedule::prefetch(list, tiny()));
  EXPECT_EQ(textOf(list), before);
}

TEST(PrefetchTest, WhatIsKeptFreeStaysFree) {
  // The end of the first scratchpad up to which weights are moved, all of which is unused but for the tensor.
  auto endWith = [](uint64_t room) {
    std::vector<Step> list = steps(1024);
    EXPECT_TRUE(schedule::prefetch(list, tiny(), room));
    int64_t end = 0;
    for (const Step &step : list)
      for (const Operation &load : step.loads)
        if (const auto &box = load.instruction->as<isa::Load>(); box.memory == 0)
          end = std::max<int64_t>(end, box.address + box.span);
    return end;
  };
  EXPECT_EQ(endWith(8192), 8192);
  EXPECT_LE(endWith(8191), 8192 - 512) << "not a byte of the last bank";
}

TEST(PrefetchTest, WhatIsInUseIsNotOverwritten) {
  std::vector<Step> list = steps(1024);
  // All but the slots, from the first step to the last.
  list.front().loads.push_back(load(0, 4096, 4096, 1 << 20));
  list.front().loads.push_back(load(1, 4096, 4096, 1 << 21));
  list.back().compute.push_back(
      {1, {operation("store memory=0 address=4096 dram_address=4198400 counts=[4096,1,1,1,1] span=4096")}});
  list.back().compute.push_back(
      {1, {operation("store memory=1 address=4096 dram_address=4202496 counts=[4096,1,1,1,1] span=4096")}});
  const auto before = readsOf(list);
  schedule::prefetch(list, tiny());
  EXPECT_EQ(readsOf(list), before);
}

} // namespace
