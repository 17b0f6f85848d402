//===- RandomProgram.h - Programs and machines for comparisons --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_TIMING_ENGINES_RANDOMPROGRAM_H
#define TESTS_TIMING_ENGINES_RANDOMPROGRAM_H

#include "tests/unit/systemc/TestPrograms.h"

#include <random>

namespace tw::test {

/// Random choices from a printed seed.
class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  /// In [low, high].
  int64_t in(int64_t low, int64_t high) { return low + int64_t(engine() % uint64_t(high - low + 1)); }
  bool chance(unsigned percent) { return engine() % 100 < percent; }

private:
  std::mt19937 engine;
};

/// smallMachine() with other constants, depths, widths and memory.
inline timing::MachineParams randomMachine(Random &random) {
  timing::MachineParams machine = smallMachine();
  machine.queueDepth = uint32_t(random.in(1, 8));
  machine.prefetchWords = uint32_t(random.in(2, 32));
  machine.outstandingBursts = uint32_t(random.in(1, 20));
  machine.storeEngines = uint32_t(random.in(1, 2));
  machine.loadEngines = uint32_t(random.in(1, 3));
  machine.preloadRowsPerCycle = uint32_t(random.in(1, 4));
  machine.vectorStages = uint32_t(random.in(1, 12));
  machine.clockMhz = uint32_t(random.in(2, 12) * 100);
  timing::DramParams &dram = machine.dram;
  dram.burstBytes = 32u << random.in(0, 2);
  dram.grantBursts = uint32_t(random.in(1, 33));
  dram.writeBufferBursts = uint32_t(random.in(1, 32));
  dram.writeHighWatermark = uint32_t(random.in(1, dram.writeBufferBursts));
  dram.writeLowWatermark = uint32_t(random.in(0, dram.writeHighWatermark - 1));
  dram.pathLatencyCycles = uint32_t(random.in(0, 30));
  dram.latencyCycles = uint32_t(random.in(0, 60));
  dram.bytesPerCycleNumerator = uint32_t(random.in(3, 100));
  dram.bytesPerCycleDenominator = uint32_t(random.in(1, 3));
  if (random.chance(70)) {
    dram.kind = timing::DramKind::Ddr4;
    dram.rowBytes = 1024;
    dram.capacityBytes = 1 << 22;
    dram.nREFI = 3000;
    dram.controller = random.chance(50) ? timing::DramController::Windowed : timing::DramController::InOrder;
    dram.rowColumnBuses = random.chance(30);
    if (random.chance(30)) {
      dram.refresh = timing::DramRefresh::PerBank;
      dram.nREFIPB = 300;
      dram.nRFCPB = 100;
      dram.nRREFD = 10;
    }
    dram.window = uint32_t(1) << random.in(0, 5);
    dram.channels = uint32_t(1) << random.in(0, 2);
    machine.burstsPerCycle = uint32_t(random.in(1, int64_t(dram.channels)));
  }
  for (const auto &constant : timing::kTimingConstants)
    if (random.chance(60))
      machine.timing.*constant.member = uint32_t(random.in(1, 6));
  return machine;
}

/// A legal program that cannot deadlock: every wait is covered by posts that stand before it.
class RandomProgram {
public:
  RandomProgram(const timing::MachineParams &machine, Random &random) : machine(machine), random(random) {}

  isa::Program make(unsigned length) {
    while (length--) {
      if (random.chance(10))
        loop();
      else
        emit(single(nullptr), code);
    }
    emit(isa::Instruction(isa::Halt{}), code);
    isa::Program program;
    program.codeAddress = uint64_t(0x80000 + 64 * random.in(0, 5));
    program.dramBytes = 1 << 20;
    program.code = code;
    return program;
  }

private:
  struct Semaphore {
    int poster = -1, waiter = -1;
    int64_t available = 0; ///< posts made before, not yet waited for
  };

  static void emit(const isa::Instruction &instruction, std::vector<isa::Word> &out) {
    std::string why;
    ASSERT_TRUE(isa::fits(instruction, &why)) << why;
    isa::encode(instruction, out);
  }

  int64_t scratchpad(int64_t span) { return random.chance(50) ? random.in(0, 7) * 2048 : random.in(0, (16384 - span) / 8) * 8; }

  isa::Instruction dma(bool isLoad) {
    std::array<int64_t, 5> counts{1, 1, 1, 1, 1}, low{}, high{};
    std::array<int64_t, 4> strides{}, dramStrides{};
    counts[0] = random.chance(50) ? random.in(1, 40) : random.in(64, 700);
    int64_t size = counts[0];
    for (unsigned d = 1; d < 5; ++d) {
      counts[d] = random.chance(40) ? random.in(1, 5) : 1;
      if (size * counts[d] > 1800)
        counts[d] = 1;
      strides[d - 1] = size;
      dramStrides[d - 1] = random.chance(50) ? size : random.in(0, 900);
      size *= counts[d];
    }
    if (isLoad && random.chance(30))
      for (unsigned d = 0; d < 5; ++d) {
        low[d] = random.chance(30) ? random.in(0, counts[d]) : 0;
        high[d] = random.chance(30) ? random.in(0, counts[d] - low[d]) : 0;
      }
    const int64_t dramAddress = 0x8000 + random.in(0, 0x8000),
                  address = random.chance(50) ? random.in(0, 7) * 2048 : random.in(0, 16384 - 1900);
    if (isLoad) {
      isa::Load load;
      load.dram_address = dramAddress;
      load.address = std::min<int64_t>(address, 16384 - size);
      load.span = size;
      load.counts = counts;
      load.strides = strides;
      load.dram_strides = dramStrides;
      load.low = low;
      load.high = high;
      load.broadcast = random.chance(10);
      isa::Instruction instruction(load);
      instruction.header.unit = random.in(0, machine.loadEngines - 1);
      return instruction;
    }
    isa::Store store;
    store.dram_address = dramAddress;
    store.address = std::min<int64_t>(address, 16384 - size);
    store.span = size;
    store.counts = counts;
    store.strides = strides;
    store.dram_strides = dramStrides;
    isa::Instruction instruction(store);
    instruction.header.unit = random.in(0, machine.storeEngines - 1);
    return instruction;
  }

  isa::Instruction compute() {
    switch (random.in(0, 2)) {
    case 0:
      // Preloads and swaps alternate.
      if (!tilePending) {
        tilePending = true;
        isa::Preload preload;
        preload.address = scratchpad(64);
        preload.address = std::min<int64_t>(preload.address, 16384 - 64);
        preload.span = 64;
        preload.row_stride = 8;
        preload.k_count = random.in(1, 8);
        preload.n_count = random.in(1, 8);
        preload.transpose = random.chance(50);
        return preload;
      }
      [[fallthrough]];
    case 1: {
      isa::Tensor tensor;
      const int64_t positions = random.chance(40) ? random.in(1, 3) : random.in(1, 40);
      tensor.address = scratchpad(positions * 8);
      tensor.address = std::min<int64_t>(tensor.address, 16384 - positions * 8);
      tensor.span = positions * 8;
      tensor.acc_address = random.in(0, 3) * 64 + random.in(0, 20);
      tensor.acc_span = positions;
      tensor.counts = {positions, 1, 1};
      tensor.strides = {8, 0, 0};
      tensor.acc_strides = {1, 0, 0};
      tensor.k_count = random.in(1, 8);
      tensor.swap = tilePending && random.chance(70);
      tensor.accumulate = random.chance(50);
      if (tensor.swap)
        tilePending = false;
      return tensor;
    }
    default: {
      isa::Vector vector;
      const int64_t outputs = random.in(1, 30);
      vector.a_span = vector.d_span = outputs * 8;
      vector.a_address = std::min<int64_t>(scratchpad(256), 16384 - 512);
      vector.d_address = std::min<int64_t>(scratchpad(256), 16384 - 512);
      vector.a_strides[0] = vector.d_strides[0] = 8;
      vector.counts = {outputs, 1, 1, 1};
      vector.window = {1, 1};
      vector.num_stages = random.in(0, machine.vectorStages);
      for (int64_t i = 0; i < vector.num_stages; ++i)
        vector.stage_op[size_t(i)] = int64_t(random.chance(5) ? isa::StageOp::Idiv : isa::StageOp::Iadd);
      for (int64_t i = 0; i < vector.num_stages; ++i)
        vector.stage_operand[size_t(i)] = 16;
      return vector;
    }
    }
  }

  /// One instruction. `inLoop`: semaphores of the body, which must come out even there.
  isa::Instruction single(std::vector<Semaphore> *inLoop) {
    isa::Instruction instruction = random.chance(55) ? dma(random.chance(70)) : compute();
    const int engine = int(stats::engineNumber(instruction.engine(), unsigned(instruction.header.unit)));
    std::vector<Semaphore> &list = inLoop ? *inLoop : straight;
    const int64_t offset = inLoop ? 32 : 0;
    size_t waits = 0, posts = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      Semaphore &semaphore = list[i];
      if (semaphore.available && waits < 3 && (semaphore.waiter == engine || semaphore.waiter < 0) && random.chance(40)) {
        semaphore.waiter = engine;
        const int64_t count = random.in(1, std::min<int64_t>(semaphore.available, 15));
        instruction.header.wait_semaphore[waits] = int64_t(i) + offset;
        instruction.header.wait_count[waits++] = count;
        semaphore.available -= count;
      } else if (semaphore.available < 40 && posts < 3 && (semaphore.poster == engine || semaphore.poster < 0) &&
                 random.chance(12)) {
        semaphore.poster = engine;
        const int64_t count = random.in(1, 3);
        instruction.header.post_semaphore[posts] = int64_t(i) + offset;
        instruction.header.post_count[posts++] = count;
        semaphore.available += count;
      }
    }
    return instruction;
  }

  void loop() {
    const bool pendingBefore = tilePending;
    // Poster and waiter of a semaphore stay the same in all loops, so that no loop takes another's posts.
    std::vector<Semaphore> &semaphores = looped;
    std::vector<isa::Instruction> body;
    const int64_t inner = random.chance(30) ? random.in(1, 3) : 1, count = random.in(1, 5);
    for (int64_t n = random.in(1, 5); n > 0; --n) {
      const std::vector<Semaphore> before = semaphores;
      isa::Instruction instruction = single(&semaphores);
      if (tilePending != pendingBefore) {
        // Keep the alternation of preloads and swaps whole in every iteration: leave both out of loops.
        tilePending = pendingBefore;
        semaphores = before;
        continue;
      }
      if (isa::Load *load = instruction.getIf<isa::Load>(); load && random.chance(50)) {
        instruction.header.num_levels = 1;
        instruction.levels[0].count = count * inner;
        instruction.levels[0].stride_a = random.in(-64, 64);
        if (load->counts[0] > 1 && load->low[0] + load->high[0] < load->counts[0] && random.chance(50)) {
          instruction.header.edge_level[0] = 0;
          instruction.header.edge_index[0] = 0;
          instruction.header.edge_value[0] = load->low[0] + load->high[0] + 1;
        }
      }
      body.push_back(instruction);
    }
    if (body.empty())
      return;
    // What the body posts and does not wait for would pile up: such semaphores are dropped from it.
    for (size_t s = 0; s < semaphores.size(); ++s) {
      if (!semaphores[s].available)
        continue;
      semaphores[s].available = 0;
      for (isa::Instruction &instruction : body)
        for (size_t i = 0; i < 3; ++i) {
          if (instruction.header.wait_semaphore[i] == int64_t(s) + 32)
            instruction.header.wait_count[i] = 0;
          if (instruction.header.post_semaphore[i] == int64_t(s) + 32)
            instruction.header.post_count[i] = 0;
        }
    }
    std::vector<isa::Word> words;
    for (const isa::Instruction &instruction : body)
      emit(instruction, words);
    if (inner > 1) {
      isa::Loop nested;
      nested.count = inner;
      nested.body_words = int64_t(words.size());
      std::vector<isa::Word> both;
      emit(nested, both);
      both.insert(both.end(), words.begin(), words.end());
      words = both;
    }
    isa::Loop outer;
    outer.count = count;
    outer.body_words = int64_t(words.size());
    emit(outer, code);
    code.insert(code.end(), words.begin(), words.end());
  }

  const timing::MachineParams &machine;
  Random &random;
  std::vector<isa::Word> code;
  std::vector<Semaphore> straight = std::vector<Semaphore>(12), looped = std::vector<Semaphore>(16);
  bool tilePending = false;
};

} // namespace tw::test

#endif // TESTS_TIMING_ENGINES_RANDOMPROGRAM_H
