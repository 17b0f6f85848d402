//===- InstructionTiming.cpp - Closed forms of compute instructions -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/timing/InstructionTiming.h"

#include <algorithm>

namespace tw::timing {
namespace {

Cycle ceilDiv(Cycle a, Cycle b) { return (a + b - 1) / b; }

/// Whether two operand ranges of one memory share a bank, so that one read port serves both.
bool shareBank(int64_t memory, int64_t a, int64_t aSpan, int64_t b, int64_t bSpan, const MachineParams &machine) {
  const isa::Memory which = static_cast<isa::Memory>(memory);
  const size_t index = static_cast<size_t>(memory);
  if (which != isa::Memory::Accumulator && index >= machine.scratchpads.size())
    return false;
  const MemoryParams &params = which == isa::Memory::Accumulator ? machine.accumulator : machine.scratchpads[index];
  const int64_t bank = static_cast<int64_t>(params.bankBytes());
  const int64_t aLast = (a + std::max<int64_t>(aSpan, 1) - 1) / bank, bLast = (b + std::max<int64_t>(bSpan, 1) - 1) / bank;
  return a / bank <= bLast && b / bank <= aLast;
}

} // namespace

InstructionTime timeOf(const isa::Preload &preload, const MachineParams &machine) {
  const int64_t rows = preload.transpose ? preload.n_count : preload.k_count;
  return {std::max<Cycle>(1, ceilDiv(static_cast<Cycle>(rows), machine.preloadRowsPerCycle)),
          machine.timing.preload_drain_cycles};
}

InstructionTime timeOf(const isa::Tensor &tensor, const MachineParams &machine) {
  const Cycle positions = static_cast<Cycle>(tensor.counts[0]) * tensor.counts[1] * tensor.counts[2];
  const Cycle drain = machine.arrayType == ArrayType::Int8 ? tensorDrainInt(machine.timing, machine.rows)
                                                           : tensorDrainFloat(machine.timing, machine.rows);
  return {std::max<Cycle>(1, positions), drain};
}

VectorShape shapeOf(const isa::Vector &vector, const MachineParams &machine) {
  const isa::WindowOp window = static_cast<isa::WindowOp>(vector.window_op);
  const bool isMac = window == isa::WindowOp::Mac;
  const Cycle kw = window == isa::WindowOp::None ? 1 : static_cast<Cycle>(vector.window[0]);
  const Cycle kh = window == isa::WindowOp::None ? 1 : static_cast<Cycle>(vector.window[1]);
  const int64_t step = window == isa::WindowOp::None ? 0 : vector.window_step;
  const Cycle columns = static_cast<Cycle>(newColumns(static_cast<int64_t>(kw), static_cast<int64_t>(kh), step));

  VectorShape shape;
  Cycle reads = kh * columns;
  if (vector.b_enable && !isMac && vector.b_memory == vector.a_memory &&
      shareBank(vector.a_memory, vector.a_address, vector.a_span, vector.b_address, vector.b_span, machine))
    ++reads;
  shape.blocks = static_cast<Cycle>(vector.counts[3]);
  shape.setup = static_cast<Cycle>(vector.p_count) + (isMac ? kh * kw : 0);
  shape.rows = static_cast<Cycle>(vector.counts[1]) * vector.counts[2];
  shape.fillPerRow = kh * (kw - columns);
  shape.positions = shape.rows * vector.counts[0];
  shape.perOutput = reads;
  return shape;
}

InstructionTime timeOf(const isa::Vector &vector, const MachineParams &machine) {
  const VectorShape shape = shapeOf(vector, machine);
  InstructionTime time;
  time.occupancy =
      std::max<Cycle>(1, shape.blocks * (shape.setup + shape.rows * shape.fillPerRow + shape.positions * shape.perOutput));
  time.drain = vectorDrain(machine.timing, machine.vectorStages, machine.lanes);
  return time;
}

Cycle accumulatorDistance(const MachineParams &machine) {
  return machine.arrayType == ArrayType::Int8 ? machine.timing.acc_rmw_int_cycles : machine.timing.acc_rmw_float_cycles;
}

} // namespace tw::timing
