//===- ArrayTest.cpp - Preload and tensor engine in RTL -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random preloads and tensor instructions, started as early as the interlocks allow or later, against the functional
// model. Every accumulator row is compared in the cycle in which it changes.
//===----------------------------------------------------------------------===//

#include "VArrayBf16.h"
#include "VArrayFp32.h"
#include "VArrayInt8.h"
#include "isa/Isa.h"
#include "simulator/functional/Execute.h"
#include "tests/rtl/tensor/Machines.h"
#include "verilated.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <random>

using namespace tw;

namespace {

using timing::Cycle;

uint64_t ceilLog2(uint64_t value) {
  uint64_t bits = 0;
  while ((uint64_t(1) << bits) < value)
    ++bits;
  return bits;
}

template <typename Model> class Bench {
public:
  Bench(const timing::MachineParams &machine, uint32_t seed)
      : machine(machine), state(machine), random(seed), top(std::make_unique<Model>(&context)) {
    rowBytes = sizeof top->tensor_rd_data_i;
    accumulator.resize(machine.accumulator.capacityBytes);
    const timing::TimingConstants &c = machine.timing;
    const bool integer = machine.arrayType == timing::ArrayType::Int8;
    accCycles = integer ? c.acc_rmw_int_cycles : c.acc_rmw_float_cycles;
    drain = c.tensor_read_cycles + (integer ? c.tensor_multiply_int_cycles : c.tensor_multiply_float_cycles) +
            ceilLog2(machine.rows) * (integer ? c.tensor_add_int_cycles : c.tensor_add_float_cycles) + accCycles;
    fillMemories();
  }

  void run(unsigned tensors) {
    reset();
    drawPreload();
    drawTensor();
    for (unsigned started = 0; started < tensors || tensorRetire >= t || !writes.empty(); ++t) {
      top->preload_start_i = top->tensor_start_i = 0;
      top->eval();
      ASSERT_EQ(bool(top->preload_ready_o), t >= preloadFree) << "cycle " << t;
      ASSERT_EQ(bool(top->tensor_ready_o), t >= tensorFree) << "cycle " << t;
      ASSERT_EQ(bool(top->preload_retire_o), retires(preloadRetires)) << "cycle " << t;
      ASSERT_EQ(bool(top->tensor_retire_o), retires(tensorRetires)) << "cycle " << t;

      if (started < tensors && mayStartTensor()) {
        startTensor();
        ++started;
        drawTensor();
      }
      if (mayStartPreload()) {
        startPreload();
        drawPreload();
      }
      top->eval();
      accesses();
      if (HasFatalFailure())
        return;
      top->clk_i = 1;
      top->eval();
      top->clk_i = 0;
      offer();
    }
    EXPECT_EQ(std::memcmp(accumulator.data(), state.memory(int64_t(isa::Memory::Accumulator)), accumulator.size()), 0);
    EXPECT_GT(swaps, tensors / 8);
  }

  static bool HasFatalFailure() { return testing::Test::HasFatalFailure(); }

private:
  int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); }
  bool chance(int percent) { return draw(1, 100) <= percent; }

  /// Integers are random bytes; floats mostly of similar size, so that sums round, some of any kind.
  void fillMemories() {
    uint8_t *bytes = state.memory(0);
    const uint64_t size = state.memorySize(0);
    for (uint64_t i = 0; i < size; ++i)
      bytes[i] = uint8_t(draw(0, 255));
    const unsigned element = timing::elementBytes(machine.arrayType);
    if (element > 1)
      for (uint64_t i = 0; i + element <= size; i += element)
        if (!chance(3))
          bytes[i + element - 1] = uint8_t((draw(0, 1) << 7) | draw(60, 66));
  }

  void reset() {
    top->rst_ni = 0;
    for (int i = 0; i < 4; ++i) {
      top->clk_i = i % 2;
      top->eval();
    }
    top->clk_i = 0;
    top->rst_ni = 1;
    offer();
  }

  bool retires(std::deque<Cycle> &cycles) {
    if (cycles.empty() || cycles.front() != t)
      return false;
    cycles.pop_front();
    return true;
  }

  //===--- Instructions ---===//

  void drawPreload() {
    const unsigned element = timing::elementBytes(machine.arrayType);
    preload = {};
    preload.k_count = chance(50) ? machine.rows : draw(1, machine.rows);
    preload.n_count = chance(50) ? machine.cols : draw(1, machine.cols);
    preload.transpose = draw(0, 1);
    preload.is_signed = draw(0, 1);
    preload.zero_point = chance(30) ? (chance(50) ? -256 : 255) : draw(-256, 255);
    preload.row_stride = draw(-8, 8) * element + (machine.arrayType == timing::ArrayType::Int8 ? draw(0, 99) : 0);
    preload.address = draw(512, 700) * element;
    if (element == 1)
      preload.address += 2000;
    preloadDelay = chance(60) ? 0 : draw(0, 40);
  }

  void drawTensor() {
    const unsigned element = timing::elementBytes(machine.arrayType);
    tensor = {};
    const int largest = chance(70) ? 3 : 6;
    for (int64_t &count : tensor.counts)
      count = draw(1, largest);
    tensor.k_count = chance(60) ? machine.rows : draw(1, machine.rows);
    tensor.is_signed = draw(0, 1);
    tensor.zero_point = draw(-256, 255);
    tensor.accumulate = chance(70);
    tensor.swap = chance(40);
    for (int64_t &stride : tensor.strides)
      stride = draw(-20, 20) * element;
    tensor.address = draw(600, 800) * element;
    // No row twice: the dimensions lie in any order, with gaps, and may run backwards.
    std::array<int, 3> order = {0, 1, 2};
    std::shuffle(order.begin(), order.end(), random);
    int64_t stride = draw(1, 2), lowest = 0, highest = 0;
    for (int d : order) {
      tensor.acc_strides[d] = chance(30) ? -stride : stride;
      (tensor.acc_strides[d] < 0 ? lowest : highest) += tensor.acc_strides[d] * (tensor.counts[d] - 1);
      stride *= tensor.counts[d];
    }
    const int64_t rows = machine.accumulatorRows();
    if (highest - lowest >= rows) {
      drawTensor();
      return;
    }
    tensor.acc_address = draw(-lowest, rows - 1 - highest);
    firstRow = tensor.acc_address + lowest;
    lastRow = tensor.acc_address + highest;
    tensorDelay = chance(60) ? 0 : draw(0, 40);
  }

  bool mayStartPreload() {
    if (t < preloadFree || shadowFull || t < shadowFreeFrom)
      return false;
    return preloadDelay-- <= 0;
  }

  bool mayStartTensor() {
    if (t < tensorFree || (tensor.swap && (!shadowFull || t < shadowReadyFrom)))
      return false;
    for (const auto &[start, first, last] : recent)
      if (t < start + accCycles && first <= lastRow && firstRow <= last)
        return false;
    return tensorDelay-- <= 0;
  }

  template <typename Operands> void encode(const Operands &operands, void *port, size_t bytes) {
    isa::Instruction instruction;
    instruction.operands = operands;
    std::vector<isa::Word> words;
    isa::encode(instruction, words);
    ASSERT_EQ(words.size() * sizeof(isa::Word), bytes);
    std::memcpy(port, words.data(), bytes);
  }

  void startPreload() {
    encode(preload, &top->preload_operands_i, sizeof top->preload_operands_i);
    top->preload_start_i = 1;
    const Cycle rows = preload.transpose ? preload.n_count : preload.k_count;
    preloadFree = t + (rows + machine.preloadRowsPerCycle - 1) / machine.preloadRowsPerCycle;
    preloadRetires.push_back(preloadFree + machine.timing.preload_drain_cycles);
    shadowFull = true;
    shadowReadyFrom = preloadRetires.back() + machine.timing.shadow_ready_cycles;
    functional::executePreload(preload, state);
  }

  void startTensor() {
    encode(tensor, &top->tensor_operands_i, sizeof top->tensor_operands_i);
    top->tensor_start_i = 1;
    if (tensor.swap) {
      ++swaps;
      active = state.shadow;
      shadowFull = false;
      shadowFreeFrom = t + machine.timing.shadow_free_cycles;
    }
    recent.push_back({t, firstRow, lastRow});
    if (recent.size() > 8)
      recent.pop_front();
    Cycle issued = t;
    for (int64_t i2 = 0; i2 < tensor.counts[2]; ++i2)
      for (int64_t i1 = 0; i1 < tensor.counts[1]; ++i1)
        for (int64_t i0 = 0; i0 < tensor.counts[0]; ++i0, ++issued) {
          isa::Tensor one = tensor;
          one.swap = 0;
          one.counts = {1, 1, 1};
          one.address += i0 * tensor.strides[0] + i1 * tensor.strides[1] + i2 * tensor.strides[2];
          one.acc_address += i0 * tensor.acc_strides[0] + i1 * tensor.acc_strides[1] + i2 * tensor.acc_strides[2];
          writes.push_back({issued + drain, one, active});
        }
    tensorFree = issued;
    tensorRetire = issued + drain;
    tensorRetires.push_back(tensorRetire);
  }

  //===--- Memories ---===//

  /// `bytes` of a memory from an address on; behind its end zeros.
  std::vector<uint8_t> read(const uint8_t *memory, uint64_t size, uint64_t address, size_t bytes) {
    std::vector<uint8_t> data(bytes);
    for (size_t i = 0; i < bytes && address + i < size; ++i)
      data[i] = memory[address + i];
    return data;
  }

  /// What the engines ask for and write in this cycle.
  void accesses() {
    asked.clear();
    uint64_t addresses = 0;
    std::memcpy(&addresses, &top->preload_rd_address_o, sizeof top->preload_rd_address_o);
    for (unsigned p = 0; p < machine.preloadRowsPerCycle; ++p)
      if (top->preload_rd_valid_o >> p & 1)
        asked[p] = read(state.memory(0), state.memorySize(0), addresses >> 28 * p & 0xfffffff, rowBytes);
    if (top->tensor_rd_valid_o)
      asked[kActivations] = read(state.memory(0), state.memorySize(0), top->tensor_rd_address_o, rowBytes);
    if (top->acc_rd_valid_o)
      asked[kAccumulator] = read(accumulator.data(), accumulator.size(), top->acc_rd_address_o, machine.accumulatorRowBytes());

    const bool expected = !writes.empty() && writes.front().cycle == t;
    ASSERT_EQ(bool(top->acc_wr_valid_o), expected) << "cycle " << t;
    if (!expected)
      return;
    Write &write = writes.front();
    const uint32_t bytes = machine.accumulatorRowBytes();
    const uint64_t address = write.tensor.acc_address * bytes;
    ASSERT_EQ(top->acc_wr_address_o, address) << "cycle " << t;
    state.active = write.weights;
    functional::executeTensor(write.tensor, state, functional::Kernel::Plain);
    std::memcpy(accumulator.data() + address, &top->acc_wr_data_o, bytes);
    const uint8_t *right = state.memory(int64_t(isa::Memory::Accumulator)) + address;
    for (uint32_t n = 0; n < machine.cols; ++n) {
      uint32_t value, wanted;
      std::memcpy(&value, accumulator.data() + address + 4 * n, 4);
      std::memcpy(&wanted, right + 4 * n, 4);
      ASSERT_EQ(value, wanted) << "cycle " << t << " row " << write.tensor.acc_address << " column " << n;
    }
    writes.pop_front();
  }

  /// Data for the next cycle: what was asked for, noise elsewhere.
  void offer() {
    noise(&top->preload_rd_data_i, sizeof top->preload_rd_data_i);
    noise(&top->tensor_rd_data_i, sizeof top->tensor_rd_data_i);
    noise(&top->acc_rd_data_i, sizeof top->acc_rd_data_i);
    for (const auto &[port, data] : asked) {
      uint8_t *to = port == kActivations   ? reinterpret_cast<uint8_t *>(&top->tensor_rd_data_i)
                    : port == kAccumulator ? reinterpret_cast<uint8_t *>(&top->acc_rd_data_i)
                                           : reinterpret_cast<uint8_t *>(&top->preload_rd_data_i) + port * rowBytes;
      std::memcpy(to, data.data(), data.size());
    }
  }
  void noise(void *port, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 4) {
      const uint32_t word = uint32_t(random());
      std::memcpy(static_cast<uint8_t *>(port) + i, &word, 4);
    }
  }

  static constexpr unsigned kActivations = 100, kAccumulator = 101;

  /// A position: the last cycle before its row changes.
  struct Write {
    Cycle cycle;
    isa::Tensor tensor;
    core::WeightTile weights;
  };

  timing::MachineParams machine;
  core::MachineState state; ///< as the functional model has it
  std::mt19937 random;
  VerilatedContext context;
  std::unique_ptr<Model> top;
  std::vector<uint8_t> accumulator; ///< as the RTL has it
  size_t rowBytes;
  Cycle accCycles, drain;
  Cycle t = 0;

  isa::Preload preload;
  isa::Tensor tensor;
  int64_t preloadDelay = 0, tensorDelay = 0, firstRow = 0, lastRow = 0;
  unsigned swaps = 0;
  core::WeightTile active = state.active;
  bool shadowFull = false;
  Cycle shadowFreeFrom = 0, shadowReadyFrom = 0, preloadFree = 0, tensorFree = 0, tensorRetire = 0;
  std::deque<Cycle> preloadRetires, tensorRetires;
  std::deque<std::tuple<Cycle, int64_t, int64_t>> recent;
  std::deque<Write> writes;
  std::map<unsigned, std::vector<uint8_t>> asked;
};

TEST(ArrayTest, IntegersMatchTheFunctionalModelInEveryCycle) { Bench<VArrayInt8>(test::arrayMachine("int8"), 1).run(3000); }
TEST(ArrayTest, Fp32MatchesTheFunctionalModelInEveryCycle) { Bench<VArrayFp32>(test::arrayMachine("fp32"), 2).run(3000); }
TEST(ArrayTest, Bf16WithOtherLatenciesMatchesTheFunctionalModelInEveryCycle) {
  Bench<VArrayBf16>(test::arrayMachine("bf16"), 3).run(3000);
}

} // namespace
