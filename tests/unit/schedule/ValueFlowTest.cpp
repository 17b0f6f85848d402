//===- ValueFlowTest.cpp - Wrong values are refused, right ones are not ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel with two slots of each buffer, one tile ahead, as double_buffer orders it, and programs with one fault each. verifySchedule() accepts
// most of them: their accesses are ordered, but not as the kernel means.
//===----------------------------------------------------------------------===//

#include "tests/unit/schedule/Streams.h"

#include "compiler/schedule/Synchronize.h"
#include "compiler/schedule/ValueFlow.h"
#include "compiler/schedule/Verifier.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::schedule;

namespace {

constexpr int kTileBytes = 64, kTiles = 4;

/// Operations in the order in which a kernel emits them: it numbers them, and their operands belong to the values that it names.
class Kernel {
public:
  explicit Kernel(const timing::MachineParams &machine) : machine(machine) {}

  Operation emit(const std::string &line, std::array<uint32_t, 4> values) {
    Operation operation;
    operation.instruction = *isa::parse(line);
    operation.regions = regionsOf(operation.instruction, machine);
    operation.number = ++number;
    operation.values.value = values;
    const std::array<int64_t, 4> addresses = operandAddresses(operation.instruction, machine);
    for (size_t i = 0; i < addresses.size(); ++i)
      operation.values.address[i] = uint32_t(std::max<int64_t>(addresses[i], 0));
    return operation;
  }
  Operation load(int address, int dram, uint32_t value) {
    return emit("load counts=[64,1,1,1,1] span=64 address=" + std::to_string(address) + " dram_address=" + std::to_string(dram),
                {value});
  }
  Operation store(int address, int dram, uint32_t value) {
    return emit("store counts=[64,1,1,1,1] span=64 address=" + std::to_string(address) +
                    " dram_address=" + std::to_string(dram),
                {value});
  }
  Operation vector(int from, uint32_t fromValue, int to, uint32_t toValue) {
    return emit(
        "vector a_type=i8 d_type=i8 a_span=64 d_span=64 a_strides=[8] d_strides=[8] counts=[8,1,1,1] window=[1,1] a_address=" +
            std::to_string(from) + " d_address=" + std::to_string(to),
        {fromValue, 0, 0, toValue});
  }

private:
  const timing::MachineParams &machine;
  uint64_t number = 0;
};

int inputSlot(int tile) { return tile % 2 * kTileBytes; }
int resultSlot(int tile) { return 256 + tile % 2 * kTileBytes; }

/// load 0, load 1, vector 0, store 0, load 2, vector 1, ...: indices of what the kernel emits as load, vector and store of each tile in turn.
struct DoubleBuffered {
  timing::MachineParams machine = tiny();
  std::vector<Operation> loads, vectors, stores;

  DoubleBuffered() {
    Kernel kernel(machine);
    for (int tile = 0; tile < kTiles; ++tile) {
      const uint32_t input = uint32_t(2 * tile + 1), result = input + 1;
      loads.push_back(kernel.load(inputSlot(tile), tile * kTileBytes, input));
      vectors.push_back(kernel.vector(inputSlot(tile), input, resultSlot(tile), result));
      stores.push_back(kernel.store(resultSlot(tile), 4096 + tile * kTileBytes, result));
    }
  }
  std::vector<Operation> operations() const {
    std::vector<Operation> order = {loads[0]};
    for (size_t tile = 0; tile < size_t(kTiles); ++tile) {
      if (tile + 1 < size_t(kTiles))
        order.push_back(loads[tile + 1]);
      order.push_back(vectors[tile]);
      order.push_back(stores[tile]);
    }
    return order;
  }
};

TileProgram programOf(const std::vector<Operation> &operations) {
  TileProgram program;
  for (const Operation &operation : operations)
    program.blocks.push_back(Block::of(1, operation));
  return program;
}

std::string problemsOf(const TileProgram &program, const timing::MachineParams &machine) {
  std::string text;
  for (const Diagnostic &problem : verifyValueFlow(program, machine))
    text += problem.str() + "\n";
  return text;
}
std::string problemsOf(const std::vector<Operation> &operations, const timing::MachineParams &machine) {
  return problemsOf(programOf(operations), machine);
}

/// verifyValueFlow() refuses the operations with `reason`, and with semaphores every hazard of their order is kept all the same.
void expectWrongValues(const std::vector<Operation> &operations, const timing::MachineParams &machine,
                       const std::string &reason) {
  const std::string problems = problemsOf(operations, machine);
  EXPECT_NE(problems.find(reason), std::string::npos) << "problems: " << problems;
  TileProgram program = programOf(operations);
  ASSERT_TRUE(schedule::synchronize(program, machine));
  const Diagnostics hazards = verifySchedule(encode(program), machine);
  EXPECT_TRUE(hazards.empty()) << hazards.front().str();
}

Operation moved(Operation operation, int64_t bytes) {
  isa::Instruction &instruction = operation.instruction.edit();
  if (auto *load = instruction.getIf<isa::Load>())
    load->address += bytes;
  else if (auto *vector = instruction.getIf<isa::Vector>())
    vector->a_address += bytes;
  operation.regions = regionsOf(instruction, tiny());
  return operation;
}

TEST(ValueFlowTest, AcceptsLoadsOneTileAhead) {
  const DoubleBuffered kernel;
  EXPECT_EQ(problemsOf(kernel.operations(), kernel.machine), "");
}

TEST(ValueFlowTest, RefusesALoadAheadOfTheLastReaderOfItsSlot) {
  const DoubleBuffered kernel;
  std::vector<Operation> order = kernel.operations(); // load 0, load 1, vector 0, store 0, load 2
  std::rotate(order.begin() + 2, order.begin() + 4, order.begin() + 5);
  expectWrongValues(order, kernel.machine,
                    "reads scratchpad0 bytes [0, 64), which must be those of operation 1 of layer 0 (load");
}

TEST(ValueFlowTest, RefusesAStoreAheadOfItsComputation) {
  const DoubleBuffered kernel;
  std::vector<Operation> order = kernel.operations();
  std::swap(order[2], order[3]);
  const std::string problems = problemsOf(order, kernel.machine);
  EXPECT_NE(problems.find("reads scratchpad0 bytes [256, 320), which must be those of operation 2 of layer 0 (vector"),
            std::string::npos)
      << problems;
  EXPECT_NE(problems.find("and are not written yet"), std::string::npos) << problems;
}

// The result slot holds the tile before the last one: it is written, and its engine is ordered.
TEST(ValueFlowTest, RefusesAStoreOfAnEarlierTile) {
  const DoubleBuffered kernel;
  std::vector<Operation> order = kernel.operations(); // ..., load 3, vector 2, store 2, vector 3, store 3
  std::swap(order[8], order[9]);
  expectWrongValues(order, kernel.machine,
                    "reads scratchpad0 bytes [256, 320), which must be those of operation 8 of layer 0 (vector");
}

TEST(ValueFlowTest, RefusesALoadToTheOtherSlot) {
  const DoubleBuffered kernel;
  std::vector<Operation> order = kernel.operations();
  order[7] = moved(order[7], -kTileBytes); // load 3
  expectWrongValues(order, kernel.machine, "which must be those of operation 10 of layer 0 (load");
}

TEST(ValueFlowTest, RefusesAReaderOfTheOtherSlot) {
  const DoubleBuffered kernel;
  std::vector<Operation> order = kernel.operations();
  order[5] = moved(order[5], -kTileBytes); // vector 1
  expectWrongValues(order, kernel.machine,
                    "reads scratchpad0 bytes [0, 64), which must be those of operation 4 of layer 0 (load");
}

TEST(ValueFlowTest, RefusesLoadsOfOneSlotInTheOtherOrder) {
  const DoubleBuffered kernel;
  std::vector<Operation> order = kernel.operations();
  std::swap(order[1], order[7]); // loads 1 and 3
  expectWrongValues(order, kernel.machine, "which must be those of operation 4 of layer 0 (load");
}

// The fault of a kernel of several copies that forgot between two of them what its slots hold.
TEST(ValueFlowTest, RefusesCopiesThatShareASlot) {
  const timing::MachineParams machine = tiny();
  Kernel kernel(machine);
  const Operation load = kernel.load(0, 0, 1), store = kernel.store(0, 4096, 1), nextLoad = kernel.load(0, 1024, 2),
                  nextStore = kernel.store(0, 8192, 2);
  EXPECT_EQ(problemsOf({load, store, nextLoad, nextStore}, machine), "");
  expectWrongValues({load, nextLoad, store, nextStore}, machine, "operation 2 of layer 0 (store");
}

TEST(ValueFlowTest, RefusesAnOperationThatIsMissingOrThereTwice) {
  const DoubleBuffered kernel;
  std::vector<Operation> order = kernel.operations(), twice = order;
  order.erase(order.begin() + 4); // load 2: what load 0 brought is there
  expectWrongValues(order, kernel.machine, "operation 8 of layer 0 (vector");
  twice.push_back(twice[3]);
  expectWrongValues(twice, kernel.machine, "is there twice");
}

TEST(ValueFlowTest, AcceptsAValueThatMovesWithItsReaders) {
  const DoubleBuffered kernel;
  std::vector<Operation> order = kernel.operations();
  order[1] = moved(order[1], 1024);
  EXPECT_NE(problemsOf(order, kernel.machine), "") << "its reader does not move";
  order[5] = moved(order[5], 1024);
  EXPECT_EQ(problemsOf(order, kernel.machine), "");
}

// A vector reads lanes behind the last channel: whatever is there.
TEST(ValueFlowTest, DoesNotJudgeBytesThatTheValueDoesNotDefine) {
  const timing::MachineParams machine = tiny();
  Kernel kernel(machine);
  const Operation before = kernel.load(0, 0, 1), reader = kernel.store(0, 8192, 1),
                  half = kernel.emit("load counts=[32,1,1,1,1] span=32 dram_address=64", {2}), whole = kernel.store(0, 4096, 2);
  EXPECT_EQ(problemsOf({before, reader, half, whole}, machine), "");
  EXPECT_NE(problemsOf({before, reader, whole, half}, machine), "");
}

// A block of a transpose that is smaller than the one before: planes behind it hold what its slot held.
TEST(ValueFlowTest, AcceptsAnOperandThatReadsNothingOfItsValue) {
  const timing::MachineParams machine = tiny();
  Kernel kernel(machine);
  const Operation whole = kernel.load(0, 0, 1), first = kernel.store(0, 4096, 1),
                  half = kernel.emit("load counts=[32,1,1,1,1] span=32 dram_address=64", {2}),
                  behind = kernel.emit("store counts=[32,1,1,1,1] span=32 address=32 dram_address=8192", {2});
  EXPECT_EQ(problemsOf({whole, first, half, behind}, machine), "");
}

TEST(ValueFlowTest, RefusesALoadAheadOfTheStoreOfItsTensor) {
  const timing::MachineParams machine = tiny();
  Kernel kernel(machine);
  const Operation load = kernel.load(0, 0, 1), store = kernel.store(0, 4096, 1), reader = kernel.load(64, 4096, 2),
                  last = kernel.store(64, 8192, 2);
  EXPECT_EQ(problemsOf({load, store, reader, last}, machine), "");
  expectWrongValues({load, reader, store, last}, machine,
                    "reads dram bytes [4096, 4160), which must be those of operation 2 of layer 0 (store");
}

// Two accumulator slots; loops of passes over two blocks, which begin their sums.
TEST(ValueFlowTest, FollowsSumsOfLoops) {
  const timing::MachineParams machine = tiny();
  Kernel kernel(machine);
  auto pass = [&](int slot, uint32_t sums) {
    return kernel.emit("tensor address=1024 span=64 acc_address=" + std::to_string(slot * 8) +
                           " acc_span=8 counts=[8,1,1] strides=[8] acc_strides=[1] swap=1 is_signed=1 k_count=8 clear_mask=1 "
                           "levels=[{count=2 stride_b=64}]",
                       {1, sums});
  };
  auto drain = [&](int slot, uint32_t sums) {
    return kernel.emit("vector a_memory=accumulator a_type=i32 a_address=" + std::to_string(slot * 256) +
                           " a_span=256 a_strides=[32] d_type=i8 d_address=" + std::to_string(2048 + slot * 64) +
                           " d_span=64 d_strides=[8] counts=[8,1,1,1] window=[1,1]",
                       {sums, 0, 0, sums + 10});
  };
  const Operation load = kernel.emit("load counts=[128,1,1,1,1] span=128 address=1024", {1}), first = pass(0, 2),
                  firstDrain = drain(0, 2), second = pass(1, 3), secondDrain = drain(1, 3), third = pass(0, 4),
                  thirdDrain = drain(0, 4);
  EXPECT_EQ(problemsOf({load, first, second, firstDrain, third, secondDrain, thirdDrain}, machine), "");
  EXPECT_NE(problemsOf({load, first, second, third, firstDrain, secondDrain, thirdDrain}, machine)
                .find("reads accumulator bytes [0, 256), which must be those of operation 2 of layer 0 (tensor"),
            std::string::npos);
}

TEST(ValueFlowTest, SaysNothingOfOperationsWithoutNumbers) {
  DoubleBuffered kernel;
  std::vector<Operation> order = kernel.operations();
  std::swap(order[2], order[3]);
  order[0].number = 0;
  EXPECT_EQ(problemsOf(order, kernel.machine), "");
}

// The kernels of a fusion group take turns: the second one reads a slot before the first one fills it again.
TEST(ValueFlowTest, NumbersOperationsOfAGroupByItsSteps) {
  const timing::MachineParams machine = tiny();
  Kernel kernel(machine);
  std::vector<Operation> writers, readers;
  for (int band = 0; band < 2; ++band)
    writers.push_back(kernel.load(0, band * 64, 0));
  for (int band = 0; band < 2; ++band)
    readers.push_back(kernel.store(0, 4096 + band * 64, 0));
  std::vector<Step> steps(4);
  for (size_t band = 0; band < 2; ++band) {
    steps[2 * band].loads = {writers[band]};
    steps[2 * band + 1].compute.push_back(Block::of(1, readers[band]));
  }
  EXPECT_NE(problemsOf({writers[0], readers[0], writers[1], readers[1]}, machine), "");
  numberBySteps(steps, 0);
  std::vector<Operation> order;
  for (const Step &step : steps) {
    order.insert(order.end(), step.loads.begin(), step.loads.end());
    for (const Block &block : step.compute)
      order.insert(order.end(), block.operations.begin(), block.operations.end());
  }
  EXPECT_EQ(problemsOf(order, machine), "");
}

} // namespace
