//===- TileProgram.cpp - Engines and regions of instructions ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/TileProgram.h"

#include <algorithm>

using namespace tw;
using namespace tw::schedule;
using timing::EngineKind;

unsigned schedule::numEngines(const timing::MachineParams &machine) {
  return machine.storeEngines + 3 + machine.loadEngines;
}

unsigned schedule::engineIndex(const isa::Instruction &instruction, const timing::MachineParams &machine) {
  unsigned unit = unsigned(instruction.header.unit);
  switch (instruction.engine()) {
  case EngineKind::Store:
    return unit;
  case EngineKind::Vector:
    return machine.storeEngines;
  case EngineKind::Tensor:
    return machine.storeEngines + 1;
  case EngineKind::Preload:
    return machine.storeEngines + 2;
  case EngineKind::Load:
    return machine.storeEngines + 3 + unit;
  case EngineKind::Sequencer:
    break;
  }
  assert(false && "control instructions have no engine of their own");
  return 0;
}

std::string schedule::engineName(unsigned engine, const timing::MachineParams &machine) {
  if (engine < machine.storeEngines)
    return "store" + std::to_string(engine);
  switch (engine - machine.storeEngines) {
  case 0:
    return "vector";
  case 1:
    return "tensor";
  case 2:
    return "preload";
  default:
    return "load" + std::to_string(engine - machine.storeEngines - 3);
  }
}

namespace {
/// Least and greatest offset the odometer adds to one address.
struct Sweep {
  int64_t low = 0, high = 0;
};

Sweep sweep(const isa::Instruction &instruction, int64_t isa::Level::*stride) {
  Sweep result;
  for (int64_t i = 0; i < instruction.header.num_levels; ++i) {
    const isa::Level &level = instruction.levels[i];
    int64_t steps = (level.wrap ? std::min(level.wrap, level.count) : level.count) - 1;
    int64_t reach = steps * (level.*stride);
    result.low += std::min<int64_t>(reach, 0);
    result.high += std::max<int64_t>(reach, 0);
  }
  return result;
}

template <typename Box> Region dramRegion(const Box &box, const Sweep &s, int64_t firstCount, bool write) {
  int64_t low = box.dram_address + s.low;
  int64_t high = box.dram_address + s.high + (firstCount << box.element_log2);
  return {kDramSpace, uint64_t(low), uint64_t(high), write};
}
} // namespace

std::vector<Region> schedule::regionsOf(const isa::Instruction &instruction, const timing::MachineParams &machine) {
  std::vector<Region> regions;
  auto onChip = [&](int64_t memory, int64_t address, int64_t span, const Sweep &s, bool write) {
    regions.push_back({unsigned(memory), uint64_t(address + s.low), uint64_t(address + s.high + span), write});
  };
  auto b = sweep(instruction, &isa::Level::stride_b);
  auto a = sweep(instruction, &isa::Level::stride_a);
  auto c = sweep(instruction, &isa::Level::stride_c);
  auto d = sweep(instruction, &isa::Level::stride_d);
  if (auto *load = std::get_if<isa::Load>(&instruction.operands)) {
    bool reads = true;
    for (int i = 0; i < 5; ++i)
      reads &= load->counts[i] > load->low[i] + load->high[i];
    if (reads) {
      Region region =
          dramRegion(*load, a, load->broadcast ? 1 : load->counts[0] - load->low[0] - load->high[0], false);
      for (int i = 0; i < 4; ++i) {
        int64_t reach = (load->counts[i + 1] - load->low[i + 1] - load->high[i + 1] - 1) * load->dram_strides[i];
        (reach < 0 ? region.begin : region.end) += reach;
      }
      regions.push_back(region);
    }
    onChip(load->memory, load->address, load->span, b, true);
  } else if (auto *store = std::get_if<isa::Store>(&instruction.operands)) {
    Region region = dramRegion(*store, a, store->counts[0], true);
    for (int i = 0; i < 4; ++i) {
      int64_t reach = (store->counts[i + 1] - 1) * store->dram_strides[i];
      (reach < 0 ? region.begin : region.end) += reach;
    }
    regions.push_back(region);
    onChip(store->memory, store->address, store->span, b, false);
  } else if (auto *preload = std::get_if<isa::Preload>(&instruction.operands)) {
    onChip(preload->memory, preload->address, preload->span, b, false);
  } else if (auto *tensor = std::get_if<isa::Tensor>(&instruction.operands)) {
    onChip(tensor->memory, tensor->address, tensor->span, b, false);
    int64_t row = machine.accumulatorRowBytes();
    onChip(int64_t(isa::Memory::Accumulator), tensor->acc_address * row, tensor->acc_span * row,
           {c.low * row, c.high * row}, true);
  } else if (auto *vector = std::get_if<isa::Vector>(&instruction.operands)) {
    onChip(vector->a_memory, vector->a_address, vector->a_span, b, false);
    if (vector->b_enable)
      onChip(vector->b_memory, vector->b_address, vector->b_span, c, false);
    if (vector->p_count)
      onChip(vector->p_memory, vector->p_address, vector->p_span, a, false);
    onChip(vector->d_memory, vector->d_address, vector->d_span, d, true);
  }
  return regions;
}
