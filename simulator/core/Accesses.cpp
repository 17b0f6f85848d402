//===- Accesses.cpp - Which bytes an instruction touches ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulator/core/Accesses.h"
#include "isa/Legality.h"

#include <cstdlib>

using namespace tw;
using namespace tw::core;

std::string tw::core::memoryName(unsigned memory) {
  if (memory == kDramMemory)
    return "dram";
  return memory == unsigned(isa::Memory::Accumulator) ? "accumulator" : "scratchpad" + std::to_string(memory);
}

void RunSet::unite() {
  std::vector<Dimension> kept;
  for (Dimension d : dimensions) {
    if (d.count == 1 || d.stride == 0)
      continue;
    if (d.stride < 0) {
      begin += d.stride * (d.count - 1);
      d.stride = -d.stride;
    }
    kept.push_back(d);
  }
  std::stable_sort(kept.begin(), kept.end(), [](const Dimension &a, const Dimension &b) { return a.stride < b.stride; });
  dimensions.clear();
  for (const Dimension &d : kept) {
    if (dimensions.empty() && d.stride <= bytes)
      bytes += d.stride * (d.count - 1);
    else
      dimensions.push_back(d);
  }
}

namespace {

using Sets = std::vector<RunSet>;

/// The box in the scratchpad, whole.
template <typename Transfer> RunSet scratchpadBox(const Transfer &transfer, bool write) {
  RunSet set{unsigned(transfer.memory), write, transfer.address, transfer.counts[0] << transfer.element_log2, {}};
  for (unsigned d = 0; d < 4; ++d)
    set.dimensions.push_back({transfer.counts[d + 1], transfer.strides[d]});
  return set;
}

Sets accesses(const isa::Load &load, const timing::MachineParams &) {
  int64_t elementBytes = int64_t(1) << load.element_log2;
  RunSet dram{kDramMemory, false, load.dram_address, 0, {}};
  int64_t inside = load.counts[0] - load.low[0] - load.high[0];
  dram.bytes = (load.broadcast ? std::min<int64_t>(inside, 1) : inside) * elementBytes;
  bool isEmpty = inside <= 0;
  for (unsigned d = 1; d < 5; ++d) {
    int64_t count = load.counts[d] - load.low[d] - load.high[d];
    dram.dimensions.push_back({count, load.dram_strides[d - 1]});
    isEmpty |= count <= 0;
  }
  Sets sets;
  if (!isEmpty)
    sets.push_back(dram);
  sets.push_back(scratchpadBox(load, true));
  return sets;
}

Sets accesses(const isa::Store &store, const timing::MachineParams &) {
  RunSet dram{kDramMemory, true, store.dram_address, store.counts[0] << store.element_log2, {}};
  for (unsigned d = 0; d < 4; ++d)
    dram.dimensions.push_back({store.counts[d + 1], store.dram_strides[d]});
  return {scratchpadBox(store, false), dram};
}

Sets accesses(const isa::Preload &preload, const timing::MachineParams &machine) {
  int64_t elementBytes = timing::elementBytes(machine.arrayType);
  int64_t run = preload.transpose ? preload.k_count : preload.n_count;
  int64_t rows = preload.transpose ? preload.n_count : preload.k_count;
  return {{unsigned(preload.memory), false, preload.address, run * elementBytes, {{rows, preload.row_stride}}}};
}

Sets accesses(const isa::Tensor &tensor, const timing::MachineParams &machine) {
  int64_t rowBytes = machine.accumulatorRowBytes();
  RunSet activations{
      unsigned(tensor.memory), false, tensor.address, tensor.k_count * timing::elementBytes(machine.arrayType), {}};
  RunSet rows{unsigned(isa::Memory::Accumulator), true, tensor.acc_address * rowBytes, rowBytes, {}};
  for (unsigned d = 0; d < 3; ++d) {
    activations.dimensions.push_back({tensor.counts[d], tensor.strides[d]});
    rows.dimensions.push_back({tensor.counts[d], tensor.acc_strides[d] * rowBytes});
  }
  Sets sets = {activations};
  if (tensor.accumulate) {
    sets.push_back(rows);
    sets.back().write = false;
  }
  sets.push_back(rows);
  return sets;
}

/// Reads of a window: the last horizontal tap may use fewer lanes.
void window(Sets &sets, const isa::Vector &vector, RunSet set, int64_t elementBytes, int64_t horizontal, int64_t vertical,
            int64_t lanes) {
  int64_t width = vector.window[0], height = vector.window[1];
  bool isPartial = vector.lane_reduce && vector.tail_lanes && vector.tail_lanes < lanes;
  set.bytes = lanes * elementBytes;
  set.dimensions.push_back({height, vertical});
  if (width > 1 || !isPartial) {
    sets.push_back(set);
    sets.back().dimensions.push_back({width - isPartial, horizontal});
  }
  if (isPartial) {
    set.begin += (width - 1) * horizontal;
    set.bytes = vector.tail_lanes * elementBytes;
    sets.push_back(set);
  }
}

Sets accesses(const isa::Vector &vector, const timing::MachineParams &machine) {
  int64_t lanes = machine.lanes;
  auto along = [&](const std::array<int64_t, 4> &strides) {
    std::vector<RunSet::Dimension> dimensions;
    for (unsigned d = 0; d < 4; ++d)
      dimensions.push_back({vector.counts[d], strides[d]});
    return dimensions;
  };
  Sets sets;
  window(sets, vector, {unsigned(vector.a_memory), false, vector.a_address, 0, along(vector.a_strides)},
         isa::elementBytes(isa::VectorType(vector.a_type)), vector.a_window_strides[0], vector.a_window_strides[1], lanes);
  if (vector.b_enable) {
    int64_t bBytes = isa::elementBytes(isa::VectorType(vector.b_type));
    if (isa::WindowOp(vector.window_op) == isa::WindowOp::Mac)
      window(sets, vector, {unsigned(vector.b_memory), false, vector.b_address, 0, {{vector.counts[3], vector.b_strides[3]}}},
             bBytes, vector.b_tap_stride, vector.window[0] * vector.b_tap_stride, lanes);
    else
      sets.push_back({unsigned(vector.b_memory), false, vector.b_address, lanes * bBytes, along(vector.b_strides)});
  }
  if (vector.p_count)
    sets.push_back({unsigned(vector.p_memory), false, vector.p_address, vector.counts[3] * vector.p_count * lanes * 4, {}});
  sets.push_back({unsigned(vector.d_memory), true, vector.d_address, lanes * isa::elementBytes(isa::VectorType(vector.d_type)),
                  along(vector.d_strides)});
  return sets;
}

/// One source of mayReadOwnResult().
bool sourceMeetsResult(const isa::Vector &vector, int64_t lanes, int64_t memory, int64_t address, int64_t span, int64_t type,
                       const std::array<int64_t, 4> &strides, bool isWindow) {
  if (memory != vector.d_memory || address >= vector.d_address + vector.d_span || vector.d_address >= address + span)
    return false;
  int64_t bytes = isa::elementBytes(isa::VectorType(type));
  if (isWindow || address != vector.d_address || bytes != isa::elementBytes(isa::VectorType(vector.d_type)))
    return true;
  std::vector<std::pair<int64_t, int64_t>> dimensions; // stride, count
  for (unsigned d = 0; d < 4; ++d) {
    if (vector.counts[d] == 1)
      continue;
    if (strides[d] != vector.d_strides[d])
      return true;
    dimensions.emplace_back(std::abs(strides[d]), vector.counts[d]);
  }
  // Vectors of one walk must lie apart from each other too.
  std::sort(dimensions.begin(), dimensions.end());
  int64_t extent = lanes * bytes;
  for (auto [stride, count] : dimensions) {
    if (stride < extent)
      return true;
    extent += stride * (count - 1);
  }
  return false;
}

} // namespace

bool tw::core::mayReadOwnResult(const isa::Vector &vector, const timing::MachineParams &machine) {
  bool isMac = isa::WindowOp(vector.window_op) == isa::WindowOp::Mac;
  bool isWindow = vector.window[0] != 1 || vector.window[1] != 1;
  int64_t lanes = machine.lanes;
  if (sourceMeetsResult(vector, lanes, vector.a_memory, vector.a_address, vector.a_span, vector.a_type, vector.a_strides,
                        isWindow))
    return true;
  if (vector.b_enable && sourceMeetsResult(vector, lanes, vector.b_memory, vector.b_address, vector.b_span, vector.b_type,
                                           vector.b_strides, isMac))
    return true;
  return vector.p_count && sourceMeetsResult(vector, lanes, vector.p_memory, vector.p_address, vector.p_span,
                                             int64_t(isa::VectorType::I32), vector.a_strides, true);
}

std::vector<RunSet> tw::core::accessesOf(const isa::Instruction &resolved, const timing::MachineParams &machine) {
  switch (resolved.opcode()) {
  case isa::Opcode::Load:
    return accesses(resolved.as<isa::Load>(), machine);
  case isa::Opcode::Preload:
    return accesses(resolved.as<isa::Preload>(), machine);
  case isa::Opcode::Tensor:
    return accesses(resolved.as<isa::Tensor>(), machine);
  case isa::Opcode::Vector:
    return accesses(resolved.as<isa::Vector>(), machine);
  case isa::Opcode::Store:
    return accesses(resolved.as<isa::Store>(), machine);
  case isa::Opcode::Halt:
  case isa::Opcode::Loop:
    break;
  }
  return {};
}
