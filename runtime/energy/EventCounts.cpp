//===- EventCounts.cpp - How often what costs energy happens --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/energy/EventCounts.h"

#include "isa/Legality.h"
#include "isa/timing/Dma.h"
#include "isa/timing/InstructionTiming.h"
#include "simulator/cosim/Replay.h"

#include <algorithm>
#include <deque>

using namespace tw;
using namespace tw::energy;

void EventCounts::add(const EventCounts &other) {
  arrayMacs += other.arrayMacs;
  weightRegisterBits += other.weightRegisterBits;
  for (size_t i = 0; i < kNumMemories; ++i) {
    memories[i].read += other.memories[i].read;
    memories[i].written += other.memories[i].written;
  }
  for (size_t i = 0; i < kNumLaneOps; ++i)
    laneOps[i] += other.laneOps[i];
  laneRegisterBits += other.laneRegisterBits;
  dispatchedWords += other.dispatchedWords;
  queueBits += other.queueBits;
  dramReadBursts += other.dramReadBursts;
  dramWriteBursts += other.dramWriteBursts;
}

void EventTable::append(const EventTable &next) {
  layers.insert(layers.end(), next.layers.begin(), next.layers.end());
  layerWords.insert(layerWords.end(), next.layerWords.begin(), next.layerWords.end());
  for (size_t engine = 0; engine < noLayer.size(); ++engine)
    noLayer[engine].add(next.noLayer[engine]);
  noLayerWords += next.noLayerWords;
}

EventCounts EventTable::total() const {
  EventCounts sum;
  for (const EngineEvents &layer : layers)
    for (const EventCounts &counts : layer)
      sum.add(counts);
  for (const EventCounts &counts : noLayer)
    sum.add(counts);
  return sum;
}

namespace {

uint64_t wordsOf(int64_t bytes) { return uint64_t(bytes + 7) / 8; }

MemoryWords &memoryOf(EventCounts &counts, int64_t memory) {
  return counts.memories[memory == int64_t(isa::Memory::Accumulator) ? kAccumulatorIndex : size_t(memory)];
}

bool isInteger(int64_t type) {
  const auto which = isa::VectorType(type);
  return which == isa::VectorType::I8 || which == isa::VectorType::U8 || which == isa::VectorType::I32;
}

/// Segments of a DMA enter or leave the scratchpad one by one, each at least one word.
template <typename Transfer>
uint64_t boxWords(const Transfer &transfer, const timing::MachineParams &machine, timing::BoxCost &cost) {
  cost = timing::costOf(timing::boxOf(transfer), machine.dram.burstBytes);
  uint64_t elements = 1;
  for (int64_t count : transfer.counts)
    elements *= uint64_t(count);
  return std::max(cost.segments, wordsOf(int64_t(elements << transfer.element_log2)));
}

void count(const isa::Load &load, const timing::MachineParams &machine, EventCounts &counts) {
  timing::BoxCost cost;
  memoryOf(counts, load.memory).written += boxWords(load, machine, cost);
  counts.dramReadBursts += cost.bursts;
}

void count(const isa::Store &store, const timing::MachineParams &machine, EventCounts &counts) {
  timing::BoxCost cost;
  memoryOf(counts, store.memory).read += boxWords(store, machine, cost);
  counts.dramWriteBursts += cost.bursts;
}

/// Bits of one tile of weights: of every register, whatever part of the array the tile fills.
uint64_t tileBits(const timing::MachineParams &machine) {
  return uint64_t(machine.rows) * machine.cols * 8 * timing::elementBytes(machine.arrayType);
}

void count(const isa::Preload &preload, const timing::MachineParams &machine, EventCounts &counts) {
  const int64_t run = preload.transpose ? preload.k_count : preload.n_count;
  const int64_t rows = preload.transpose ? preload.n_count : preload.k_count;
  memoryOf(counts, preload.memory).read += uint64_t(rows) * wordsOf(run * timing::elementBytes(machine.arrayType));
  counts.weightRegisterBits += tileBits(machine);
}

void count(const isa::Tensor &tensor, const timing::MachineParams &machine, uint64_t activeColumns, EventCounts &counts) {
  const uint64_t positions = uint64_t(tensor.counts[0]) * uint64_t(tensor.counts[1]) * uint64_t(tensor.counts[2]);
  counts.arrayMacs += positions * uint64_t(tensor.k_count) * activeColumns;
  memoryOf(counts, tensor.memory).read += positions * wordsOf(tensor.k_count * timing::elementBytes(machine.arrayType));
  const uint64_t rowWords = positions * wordsOf(machine.accumulatorRowBytes());
  counts.memories[kAccumulatorIndex].written += rowWords;
  if (tensor.accumulate)
    counts.memories[kAccumulatorIndex].read += rowWords;
  if (tensor.swap)
    counts.weightRegisterBits += tileBits(machine);
}

/// Adds `times` operations of a stage of a chain.
void addStage(isa::StageOp op, uint64_t times, std::array<uint64_t, kNumLaneOps> &ops) {
  using isa::StageOp;
  auto add = [&](LaneOp which) { ops[size_t(which)] += times; };
  switch (op) {
  case StageOp::Nop:
  case StageOp::Fabs:
  case StageOp::Fneg:
  case StageOp::Save:
  case StageOp::LoadB:
  case StageOp::LoadSaved:
    return;
  case StageOp::Iadd:
  case StageOp::Isub:
  case StageOp::Irsub:
  case StageOp::Imax:
  case StageOp::Imin:
  case StageOp::Ishr:
  case StageOp::Iand:
  case StageOp::Ior:
  case StageOp::Ixor:
  case StageOp::Fmax:
  case StageOp::Fmin:
    return add(LaneOp::Simple);
  case StageOp::Imul:
    return add(LaneOp::IntMultiply);
  case StageOp::Idiv:
  case StageOp::Iridiv:
    return add(LaneOp::IntDivide);
  case StageOp::Fadd:
  case StageOp::Fsub:
  case StageOp::Frsub:
    return add(LaneOp::FloatAdd);
  case StageOp::Fmul:
    return add(LaneOp::FloatMultiply);
  case StageOp::Fdiv:
  case StageOp::Frdiv:
    return add(LaneOp::FloatDivide);
  case StageOp::Ffma:
  case StageOp::FfmaB:
    add(LaneOp::FloatMultiply);
    return add(LaneOp::FloatAdd);
  case StageOp::Ffloor:
  case StageOp::I2f:
  case StageOp::F2i:
  case StageOp::F2iTrunc:
    return add(LaneOp::Convert);
  case StageOp::Fsqrt:
    return add(LaneOp::SquareRoot);
  case StageOp::Frsqrt:
    add(LaneOp::SquareRoot);
    return add(LaneOp::FloatDivide);
  case StageOp::Fexp:
  case StageOp::Fsigmoid:
  case StageOp::Ftanh:
  case StageOp::Ferf:
  case StageOp::Flog:
    return add(LaneOp::Function);
  case StageOp::Quantize:
    add(LaneOp::Convert);
    return add(LaneOp::Simple);
  case StageOp::Dequantize:
    add(LaneOp::Simple);
    add(LaneOp::Convert);
    return add(LaneOp::FloatMultiply);
  }
}

void count(const isa::Vector &vector, const timing::MachineParams &machine, EventCounts &counts) {
  const timing::VectorShape shape = timing::shapeOf(vector, machine);
  const auto window = isa::WindowOp(vector.window_op);
  const bool isMac = window == isa::WindowOp::Mac;
  const uint64_t across = window == isa::WindowOp::None ? 1 : uint64_t(vector.window[1]);
  const uint64_t taps = window == isa::WindowOp::None ? 1 : across * uint64_t(vector.window[0]);
  const uint64_t lanes = machine.lanes, outputs = shape.blocks * shape.positions;
  auto words = [&](int64_t type) { return wordsOf(int64_t(lanes) * isa::elementBytes(isa::VectorType(type))); };

  // What the reuse registers hold is not read again.
  const uint64_t columns =
      window == isa::WindowOp::None ? 1 : uint64_t(timing::newColumns(vector.window[0], vector.window[1], vector.window_step));
  memoryOf(counts, vector.a_memory).read +=
      shape.blocks * (shape.rows * shape.fillPerRow + shape.positions * across * columns) * words(vector.a_type);
  if (vector.b_enable)
    memoryOf(counts, vector.b_memory).read += (isMac ? shape.blocks * taps : outputs) * words(vector.b_type);
  if (vector.p_count)
    memoryOf(counts, vector.p_memory).read += shape.blocks * uint64_t(vector.p_count) * wordsOf(int64_t(lanes) * 4);
  memoryOf(counts, vector.d_memory).written += outputs * words(vector.d_type);

  auto add = [&](LaneOp op, uint64_t times) { counts.laneOps[size_t(op)] += times * lanes; };
  const bool isInt = isInteger(vector.a_type);
  const LaneOp plus = isInt ? LaneOp::Simple : LaneOp::FloatAdd;
  switch (window) {
  case isa::WindowOp::None:
    break;
  case isa::WindowOp::Max:
    add(LaneOp::Simple, outputs * (taps - 1));
    break;
  case isa::WindowOp::Sum:
    add(plus, outputs * (taps - 1));
    break;
  case isa::WindowOp::Mac:
  case isa::WindowOp::SumSquares:
    add(!isInt                                                   ? LaneOp::FloatMultiply
        : isa::VectorType(vector.a_type) == isa::VectorType::I32 ? LaneOp::IntMultiply
                                                                 : LaneOp::Int8Multiply,
        outputs * taps);
    add(plus, outputs * taps);
    break;
  }
  if (vector.lane_reduce)
    counts.laneOps[size_t(window == isa::WindowOp::Max ? LaneOp::Simple : plus)] += outputs * (lanes - 1);
  if (vector.b_enable && !isMac && isInteger(vector.b_type)) {
    const auto conversion = isa::Conversion(vector.b_convert);
    if (conversion != isa::Conversion::None)
      add(LaneOp::Convert, outputs);
    if (conversion == isa::Conversion::Dequantize)
      add(LaneOp::FloatMultiply, outputs);
  }
  for (int64_t stage = 0; stage < vector.num_stages; ++stage)
    addStage(isa::StageOp(vector.stage_op[size_t(stage)]), outputs * lanes, counts.laneOps);
  counts.laneRegisterBits += outputs * lanes * machine.vectorStages * 32;
}

void count(const isa::Instruction &resolved, const timing::MachineParams &machine, uint64_t activeColumns,
           EventCounts &counts) {
  if (const isa::Load *load = resolved.getIf<isa::Load>())
    count(*load, machine, counts);
  else if (const isa::Store *store = resolved.getIf<isa::Store>())
    count(*store, machine, counts);
  else if (const isa::Preload *preload = resolved.getIf<isa::Preload>())
    count(*preload, machine, counts);
  else if (const isa::Tensor *tensor = resolved.getIf<isa::Tensor>())
    count(*tensor, machine, activeColumns, counts);
  else if (const isa::Vector *vector = resolved.getIf<isa::Vector>())
    count(*vector, machine, counts);
}

} // namespace

EventTable energy::countEvents(const isa::Program &program, const timing::MachineParams &machine) {
  EventTable table;
  const size_t numLayers = program.layers.size();
  table.layers.resize(numLayers);
  table.layerWords.resize(numLayers);
  auto layerOf = [&](uint64_t word) {
    return word < program.layerOf.size() && program.layerOf[word] < numLayers ? size_t(program.layerOf[word]) : numLayers;
  };
  auto eventsAt = [&](uint64_t word, unsigned engine) -> EventCounts & {
    const size_t layer = layerOf(word);
    return (layer < numLayers ? table.layers[layer] : table.noLayer)[engine];
  };
  for (uint64_t word = 0; word < program.code.size(); ++word) {
    const size_t layer = layerOf(word);
    ++(layer < numLayers ? table.layerWords[layer] : table.noLayerWords);
  }

  cosim::Replay replay(program, machine);
  // A tile of weights waits in the shadow registers: tensor instructions take tiles in the order of preloads.
  std::deque<uint64_t> shadowColumns;
  uint64_t activeColumns = 0, words = 0;
  cosim::Dispatch dispatch;
  while (replay.next(dispatch)) {
    const isa::Instruction &instruction = dispatch.instruction;
    if (const isa::Preload *preload = instruction.getIf<isa::Preload>()) {
      shadowColumns.push_back(uint64_t(preload->n_count));
    } else if (const isa::Tensor *tensor = instruction.getIf<isa::Tensor>(); tensor && tensor->swap && !shadowColumns.empty()) {
      activeColumns = shadowColumns.front();
      shadowColumns.pop_front();
    }
    count(instruction, machine, activeColumns, eventsAt(dispatch.pc, dispatch.engine));
    EventCounts &sequencer = eventsAt(dispatch.pc, stats::kSequencer);
    sequencer.dispatchedWords += replay.words() - words;
    sequencer.queueBits += uint64_t(instruction.info().words) * isa::kWordBits;
    words = replay.words();
  }
  table.noLayer[stats::kSequencer].dispatchedWords += replay.words() - words;
  return table;
}
