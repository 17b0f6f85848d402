//===- TileProgram.cpp - Engines and regions of instructions ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/TileProgram.h"

#include "isa/FieldLimits.h"
#include "isa/Legality.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <initializer_list>
#include <utility>

using namespace tw;
using namespace tw::schedule;
using timing::EngineKind;

static_assert(isa::maximumOf(isa::Opcode::Load, "dram_address") < int64_t(1) << (kAddressBits - 1),
              "no address lies behind a Region's");

unsigned schedule::numEngines(const timing::MachineParams &machine) { return timing::EngineTable(machine).size() - 1; }

std::vector<std::pair<unsigned, uint32_t>> Rounds::record(const Operation &operation, unsigned engine, uint32_t number) {
  Layer &layer = layers[operation.layer];
  if (layer.round != operation.round)
    layer.before = layer.now;
  layer.round = operation.round;
  layer.now[engine] = number;
  std::vector<std::pair<unsigned, uint32_t>> others;
  for (const auto &entry : layer.before)
    if (entry.first != engine)
      others.push_back(entry);
  return others;
}

unsigned schedule::engineIndex(const isa::Instruction &instruction, const timing::MachineParams &machine) {
  assert(instruction.engine() != EngineKind::Sequencer && "control instructions have no engine of their own");
  return timing::EngineTable(machine).indexOf(instruction.engine(), unsigned(instruction.header.unit));
}

std::string schedule::engineName(unsigned engine, const timing::MachineParams &machine) {
  return timing::EngineTable(machine).nameOf(engine);
}

std::array<int64_t, 4> schedule::operandAddresses(const isa::Instruction &instruction, const timing::MachineParams &machine) {
  if (auto *load = instruction.getIf<isa::Load>())
    return {load->address, -1, -1, -1};
  if (auto *store = instruction.getIf<isa::Store>())
    return {store->address, -1, -1, -1};
  if (auto *preload = instruction.getIf<isa::Preload>())
    return {preload->address, -1, -1, -1};
  if (auto *tensor = instruction.getIf<isa::Tensor>())
    return {tensor->address, tensor->acc_address * int64_t(machine.accumulatorRowBytes()), -1, -1};
  if (auto *vector = instruction.getIf<isa::Vector>())
    return {vector->a_address, vector->b_enable ? vector->b_address : -1, vector->p_count ? vector->p_address : -1,
            vector->d_address};
  return {-1, -1, -1, -1};
}

namespace {
struct Step {
  int64_t count, stride;
};

/// As many as an instruction and its odometer can have.
class Steps {
public:
  static constexpr size_t kMost = 16;

  Steps() = default;
  Steps(std::initializer_list<Step> list) {
    for (const Step &step : list)
      push_back(step);
  }
  void push_back(const Step &step) { insert(size, step); }
  void insert(size_t at, const Step &step) {
    assert(size < all.size() && "an instruction has fewer dimensions");
    std::copy_backward(all.begin() + at, all.begin() + size, all.begin() + size + 1);
    all[at] = step;
    ++size;
  }
  void pop_front() { std::copy(all.begin() + 1, all.begin() + size--, all.begin()); }
  bool empty() const { return size == 0; }
  const Step &front() const { return all.front(); }
  const Step *begin() const { return all.data(); }
  const Step *end() const { return all.data() + size; }

private:
  std::array<Step, kMost> all;
  size_t size = 0;
};

/// Runs of `bytes`, the first at `begin`, the others at all multiples of `steps` from there.
struct Runs {
  unsigned space = 0;
  bool write = false;
  int64_t begin = 0, bytes = 0, count = 1;
  Steps steps; ///< the shortest first
};

/// Those that begin at `begin` and all multiples of steps from there, `most` at most.
Runs runsOf(unsigned space, int64_t begin, int64_t bytes, const Steps &all, bool write, int64_t most) {
  Runs runs{space, write, begin, bytes};
  Steps &steps = runs.steps;
  for (Step step : all) {
    if (step.count <= 1 || step.stride == 0)
      continue;
    if (step.stride < 0) {
      runs.begin += step.stride * (step.count - 1);
      step.stride = -step.stride;
    }
    auto isShorter = [](const Step &x, const Step &y) { return x.stride < y.stride; };
    steps.insert(size_t(std::upper_bound(steps.begin(), steps.end(), step, isShorter) - steps.begin()), step);
  }
  for (const Step &step : steps)
    runs.count *= step.count;
  // Runs that touch are one; the shortest steps are given up first.
  while (!steps.empty() && (steps.front().stride <= runs.bytes || runs.count > most)) {
    runs.bytes += steps.front().stride * (steps.front().count - 1);
    runs.count /= steps.front().count;
    steps.pop_front();
  }
  return runs;
}

void append(std::vector<Region> &regions, const Runs &runs) {
  std::array<int64_t, Steps::kMost> done{}; // of each step
  int64_t at = runs.begin;
  for (int64_t left = runs.count; left > 0; --left) {
    regions.push_back({runs.space, uint64_t(at), uint64_t(at + runs.bytes), runs.write});
    size_t i = 0;
    for (const Step &step : runs.steps) {
      at += step.stride;
      if (++done[i] < step.count)
        break;
      at -= step.stride * std::exchange(done[i++], 0);
    }
  }
}
} // namespace

std::vector<Region> schedule::regionsOf(const isa::Instruction &instruction, const timing::MachineParams &machine,
                                        int64_t most) {
  std::array<Runs, 4> accesses; // a vector instruction has so many
  size_t count = 0;
  // The odometer's steps of one address, in units of `scale` bytes.
  auto turns = [&](int64_t isa::Level::*stride, int64_t scale = 1) {
    Steps steps;
    for (int64_t i = 0; i < instruction.header.num_levels; ++i) {
      const isa::Level &level = instruction.levels[size_t(i)];
      steps.push_back({level.wrap ? std::min(level.wrap, level.count) : level.count, level.*stride * scale});
    }
    return steps;
  };
  auto add = [&](int64_t space, int64_t begin, int64_t bytes, Steps steps, const Steps &odometer, bool write) {
    for (const Step &step : odometer)
      steps.push_back(step);
    accesses[count++] = runsOf(unsigned(space), begin, bytes, steps, write, most);
  };
  const Steps a = turns(&isa::Level::stride_a), b = turns(&isa::Level::stride_b), c = turns(&isa::Level::stride_c),
              d = turns(&isa::Level::stride_d);
  auto box = [&](const auto &transfer, bool write) {
    Steps steps;
    for (size_t i = 1; i < 5; ++i)
      steps.push_back({transfer.counts[i], transfer.strides[i - 1]});
    add(transfer.memory, transfer.address, transfer.counts[0] << transfer.element_log2, steps, b, write);
  };
  if (auto *load = instruction.getIf<isa::Load>()) {
    std::array<int64_t, 5> inside;
    bool reads = true;
    for (size_t i = 0; i < 5; ++i) {
      inside[i] = load->counts[i] - load->low[i] - load->high[i];
      reads &= inside[i] > 0;
    }
    if (reads) {
      Steps steps;
      for (size_t i = 1; i < 5; ++i)
        steps.push_back({inside[i], load->dram_strides[i - 1]});
      add(kDramSpace, load->dram_address, (load->broadcast ? 1 : inside[0]) << load->element_log2, steps, a, false);
    }
    box(*load, true);
  } else if (auto *store = instruction.getIf<isa::Store>()) {
    Steps steps;
    for (size_t i = 1; i < 5; ++i)
      steps.push_back({store->counts[i], store->dram_strides[i - 1]});
    add(kDramSpace, store->dram_address, store->counts[0] << store->element_log2, steps, a, true);
    box(*store, false);
  } else if (auto *preload = instruction.getIf<isa::Preload>()) {
    int64_t bytes = timing::elementBytes(machine.arrayType);
    int64_t run = preload->transpose ? preload->k_count : preload->n_count;
    int64_t rows = preload->transpose ? preload->n_count : preload->k_count;
    add(preload->memory, preload->address, run * bytes, {{rows, preload->row_stride}}, b, false);
  } else if (auto *tensor = instruction.getIf<isa::Tensor>()) {
    int64_t row = machine.accumulatorRowBytes();
    Steps reads, accumulates;
    for (size_t i = 0; i < 3; ++i) {
      reads.push_back({tensor->counts[i], tensor->strides[i]});
      accumulates.push_back({tensor->counts[i], tensor->acc_strides[i] * row});
    }
    add(tensor->memory, tensor->address, tensor->k_count * timing::elementBytes(machine.arrayType), reads, b, false);
    add(int64_t(isa::Memory::Accumulator), tensor->acc_address * row, row, accumulates, turns(&isa::Level::stride_c, row),
        true);
  } else if (auto *vector = instruction.getIf<isa::Vector>()) {
    int64_t lanes = machine.lanes;
    auto bytesOf = [&](int64_t type) { return lanes * isa::elementBytes(isa::VectorType(type)); };
    auto along = [&](const std::array<int64_t, 4> &strides) {
      Steps steps;
      for (size_t i = 0; i < 4; ++i)
        steps.push_back({vector->counts[i], strides[i]});
      return steps;
    };
    Steps window = along(vector->a_strides);
    for (size_t i = 0; i < 2; ++i)
      window.push_back({vector->window[i], vector->a_window_strides[i]});
    add(vector->a_memory, vector->a_address, bytesOf(vector->a_type), window, b, false);
    if (vector->b_enable && isa::WindowOp(vector->window_op) == isa::WindowOp::Mac)
      add(vector->b_memory, vector->b_address, bytesOf(vector->b_type),
          {{vector->counts[3], vector->b_strides[3]}, {vector->window[0] * vector->window[1], vector->b_tap_stride}}, c, false);
    else if (vector->b_enable)
      add(vector->b_memory, vector->b_address, bytesOf(vector->b_type), along(vector->b_strides), c, false);
    if (vector->p_count)
      add(vector->p_memory, vector->p_address, vector->counts[3] * vector->p_count * lanes * 4, {}, a, false);
    add(vector->d_memory, vector->d_address, bytesOf(vector->d_type), along(vector->d_strides), d, true);
  }
  size_t size = 0;
  for (size_t i = 0; i < count; ++i)
    size += size_t(accesses[i].count);
  std::vector<Region> regions;
  regions.reserve(size);
  for (size_t i = 0; i < count; ++i)
    append(regions, accesses[i]);
  return regions;
}
