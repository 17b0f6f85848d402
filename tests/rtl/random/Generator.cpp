//===- Generator.cpp - Random programs for any machine --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/rtl/random/Generator.h"

#include "isa/Legality.h"
#include "isa/Odometer.h"
#include "simulator/core/Accesses.h"
#include "tests/rtl/random/Synchronize.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace tw::programs {
namespace {

using isa::StageOp;
using isa::StageOperand;
using isa::VectorType;

/// Where things lie in DRAM: data, what stores write, code, and a second window of the same size in other rows.
constexpr int64_t kDataBytes = 24 << 10, kDramUsed = 40 << 10, kCode = 64 << 10, kFar = 512 << 10;

constexpr StageOp kIntBinary[] = {StageOp::Iadd, StageOp::Isub,   StageOp::Irsub, StageOp::Imul, StageOp::Imax, StageOp::Imin,
                                  StageOp::Idiv, StageOp::Iridiv, StageOp::Ishr,  StageOp::Iand, StageOp::Ior,  StageOp::Ixor};
constexpr StageOp kFloatBinary[] = {StageOp::Fadd, StageOp::Fsub,  StageOp::Frsub, StageOp::Fmul,
                                    StageOp::Fdiv, StageOp::Frdiv, StageOp::Fmax,  StageOp::Fmin};
constexpr StageOp kFloatUnary[] = {StageOp::Fabs, StageOp::Fneg,     StageOp::Ffloor, StageOp::Fsqrt, StageOp::Frsqrt,
                                   StageOp::Fexp, StageOp::Fsigmoid, StageOp::Ftanh,  StageOp::Ferf,  StageOp::Flog};

/// A binary32 pattern: everyday numbers, and everything that is special about the format.
uint32_t floatBits(Rng &random) {
  const uint32_t sign = uint32_t(random.in(0, 1)) << 31, bits = uint32_t(random.bits());
  switch (random.in(0, 15)) {
  case 0: // a NaN, quiet or signalling, with any payload
    return sign | 0x7f800000 | std::max(1u, bits & 0x7fffff);
  case 1:
    return sign | 0x7f800000;
  case 2:
    return sign;
  case 3: // subnormal
    return sign | (bits & 0x7fffff);
  case 4: // at the ends of the range
    return sign | uint32_t(random.of({1, 2, 253, 254})) << 23 | (bits & 0x7fffff);
  case 5: // about the range of int32, and halves
    return sign | uint32_t(random.in(145, 160)) << 23 | (bits & 0x7fffff);
  case 6: { // a small integer and a half
    const float value = float(random.in(-40, 40)) / 2;
    uint32_t pattern;
    std::memcpy(&pattern, &value, sizeof pattern);
    return pattern;
  }
  case 7:
    return bits;
  default: // about 2^-6 to 2^6
    return sign | uint32_t(random.in(121, 133)) << 23 | (bits & 0x7fffff);
  }
}

uint32_t immediate(Rng &random) {
  switch (random.in(0, 3)) {
  case 0:
    return uint32_t(random.in(-9, 9));
  case 1:
    return uint32_t(random.of({INT32_MIN, INT32_MAX, -1, 0, 1, 31, 32, 255, -128}));
  default:
    return floatBits(random);
  }
}

struct Levels {
  std::vector<int64_t> loops; ///< counts of the loops around an instruction, outermost first
  int64_t turns() const {
    int64_t product = 1;
    for (int64_t count : loops)
      product *= count;
    return product;
  }
};

/// How an instruction meets the machine's width; Coverage counts the same three.
enum class Edge { One, Partial, Full };

class Generator {
public:
  Generator(const timing::MachineParams &machine, Rng &random) : machine(machine), random(random) {
    reserve.scratchpad = int64_t(machine.scratchpads[0].capacityBytes) - Reserve::kBytes;
    reserve.accumulatorRow = int64_t(machine.accumulatorRows()) - 1;
    reserve.dram = kDramUsed;
    for (unsigned m = 0; m < 8; ++m)
      if (exists(m))
        for (int i = 0; i < 9; ++i)
          hot[m].push_back(random.chance(50) ? random.in(0, 15) * int64_t(params(m).bankBytes()) % limit(m)
                                             : random.in(0, limit(m) - 1));
    for (unsigned e = 0; e < 5; ++e)
      weight[e] = random.chance(25) ? random.in(20, 100) : random.in(3, 25);
  }

  /// The nodes of a program; nothing if semaphores run out.
  std::optional<std::vector<Node>> make() {
    std::vector<Node> nodes;
    // Something to compute with.
    for (int64_t n = random.in(2, 5); n > 0; --n)
      if (std::optional<isa::Instruction> load = filler())
        nodes.emplace_back(*load, nextId++);
    const int64_t length = random.in(2, 17);
    for (int64_t n = 0; n < length; ++n) {
      if (random.chance(5))
        many(nodes);
      else if (random.chance(25))
        chains(nodes);
      else if (random.chance(11))
        loop(nodes, {});
      else
        single(nodes, {});
    }
    if (!synchronize(nodes, machine, reserve, orders, unsigned(random.in(0, 6)), random))
      return std::nullopt;
    return nodes;
  }

  isa::Program finish(const std::vector<Node> &nodes, bool halt = true) {
    isa::Program program;
    program.codeAddress = uint64_t(kCode + 64 * random.in(0, 40));
    encode(nodes, program.code);
    if (halt)
      isa::encode(isa::Instruction(isa::Halt{}), program.code);
    program.dramBytes = kFar + kDramUsed;
    program.machine = machine.name;
    isa::Segment data;
    for (int64_t at = 0; at < kDataBytes;) {
      // Stretches of one kind, so that an operand finds what it is made for.
      const int64_t kind = random.in(0, 3), end = std::min<int64_t>(kDataBytes, at + 4 * random.in(8, 200));
      for (; at < end; at += 4) {
        uint32_t word = uint32_t(random.bits());
        if (kind == 0)
          word = floatBits(random);
        else if (kind == 1)
          word = floatBits(random) >> 16 | (floatBits(random) & 0xffff0000u);
        else if (kind == 2)
          word = uint32_t(random.in(-300, 300));
        for (unsigned byte = 0; byte < 4; ++byte)
          data.bytes.push_back(uint8_t(word >> 8 * byte));
      }
    }
    isa::Segment far;
    far.address = kFar;
    far.bytes.assign(data.bytes.begin(), data.bytes.begin() + kDataBytes / 2);
    program.constants.push_back(std::move(data));
    program.constants.push_back(std::move(far));
    return program;
  }

  const Reserve &reserved() const { return reserve; }

private:
  bool exists(unsigned m) const { return isa::memoryOf(isa::Memory(m), machine); }
  const timing::MemoryParams &params(unsigned m) const { return *isa::memoryOf(isa::Memory(m), machine); }
  /// Bytes of a memory that programs use.
  int64_t limit(unsigned m) const {
    if (m == 0)
      return reserve.scratchpad;
    if (m == unsigned(isa::Memory::Accumulator))
      return reserve.accumulatorRow * machine.accumulatorRowBytes();
    return int64_t(params(m).capacityBytes);
  }
  unsigned scratchpad(unsigned weights = 40) {
    if (spot && random.chance(90))
      return spot->memory;
    return exists(1) && random.chance(weights) ? 1 : 0;
  }
  unsigned anyMemory() { return random.chance(35) ? unsigned(isa::Memory::Accumulator) : scratchpad(); }
  Edge edge() { return Edge(random.in(0, 2)); }
  int64_t countOf(Edge edge, int64_t width) {
    return edge == Edge::One ? 1 : edge == Edge::Full || width < 3 ? width : random.in(2, width - 1);
  }

  /// An address for `span` bytes, a multiple of `align`; -1 if they have no room.
  int64_t place(unsigned m, int64_t span, int64_t align) {
    if (span > limit(m))
      return -1;
    const bool isSpot = spot && spot->memory == m;
    int64_t at = isSpot ? spot->address + random.in(0, spot->bytes - 1) : random.of(hot[m]);
    if (!isSpot && random.chance(30))
      at += random.in(-64, 64);
    at = std::max<int64_t>(0, std::min(at, limit(m) - span));
    return at / align * align;
  }

  static int64_t reachOf(const int64_t *strides, const int64_t *counts, size_t n) {
    int64_t reach = 0;
    for (size_t i = 0; i < n; ++i)
      reach += strides[i] * (counts[i] - 1);
    return reach;
  }

  std::optional<isa::Instruction> filler() {
    isa::Load load;
    load.memory = scratchpad();
    load.span = std::min<int64_t>(limit(unsigned(load.memory)), random.in(4, 16) * 64);
    load.dram_address = random.in(0, (kDataBytes - load.span) / 4) * 4;
    load.address = place(unsigned(load.memory), load.span, 4);
    load.counts = {load.span, 1, 1, 1, 1};
    isa::Instruction instruction(load);
    instruction.header.unit = random.in(0, machine.loadEngines - 1);
    return instruction;
  }

  template <typename T> bool box(T &transfer, bool isLoad) {
    transfer.element_log2 = random.in(0, 2);
    const int64_t bytes = int64_t(1) << transfer.element_log2;
    const int64_t burst = machine.dram.burstBytes;
    const Edge width = edge();
    auto &counts = transfer.counts;
    counts[0] = width == Edge::One    ? 1
                : width == Edge::Full ? burst / bytes * random.in(1, 3)
                                      : random.in(2, random.chance(60) ? 40 : 300);
    int64_t runs = 1, size = counts[0] * bytes, extent = size;
    for (size_t d = 1; d < 5; ++d) {
      counts[d] = random.chance(35) ? random.in(1, 6) : 1;
      if (runs * counts[d] > 24 || runs * counts[d] * size > 1500)
        counts[d] = 1;
      runs *= counts[d];
      transfer.dram_strides[d - 1] = random.chance(50)   ? extent
                                     : random.chance(15) ? 0
                                     : random.chance(15) ? random.of({512, 1024, 4096, 8192})
                                                         : random.in(-40, 100) * bytes;
      transfer.strides[d - 1] = random.chance(70) ? extent : random.chance(15) ? 0 : extent + random.in(0, 20) * bytes;
      extent += transfer.strides[d - 1] * (counts[d] - 1);
    }
    transfer.memory = scratchpad();
    transfer.span = extent;
    transfer.address = place(unsigned(transfer.memory), extent, bytes);
    if (transfer.address < 0)
      return false;
    if (random.chance(20))
      transfer.span = std::min(limit(unsigned(transfer.memory)) - transfer.address, extent + random.in(0, 300));
    const int64_t base = isLoad ? 0 : random.chance(80) ? kDataBytes : 0;
    transfer.dram_address =
        (random.chance(40) ? random.in(base / 64, kDramUsed / 64 - 1) * 64 : random.in(base, kDramUsed - 1)) / bytes * bytes;
    if (width == Edge::Full)
      transfer.dram_address = transfer.dram_address / burst * burst;
    if (random.chance(25))
      transfer.dram_address += kFar;
    return true;
  }

  std::optional<isa::Instruction> makeLoad() {
    isa::Load load;
    if (!box(load, true))
      return std::nullopt;
    if (random.chance(40))
      for (size_t d = 0; d < 5; ++d) {
        if (random.chance(35))
          load.low[d] = random.in(0, std::min<int64_t>(load.counts[d], random.chance(80) ? 3 : 4095));
        if (random.chance(35))
          load.high[d] = random.in(0, std::min<int64_t>(load.counts[d] - load.low[d], random.chance(80) ? 3 : 4095));
      }
    load.fill = int64_t(immediate(random) & (load.element_log2 == 2 ? 0xffffffffu : (1u << (8 << load.element_log2)) - 1));
    load.broadcast = random.chance(15);
    isa::Instruction instruction(load);
    instruction.header.unit = random.in(0, machine.loadEngines - 1);
    return instruction;
  }

  std::optional<isa::Instruction> makeStore() {
    isa::Store store;
    if (!box(store, false))
      return std::nullopt;
    isa::Instruction instruction(store);
    instruction.header.unit = random.in(0, machine.storeEngines - 1);
    return instruction;
  }

  template <typename T> void sign(T &operands) {
    if (machine.arrayType != timing::ArrayType::Int8)
      return;
    operands.is_signed = random.chance(50);
    operands.zero_point = random.chance(50) ? 0 : operands.is_signed ? random.in(-128, 127) : random.in(0, 255);
  }

  std::optional<isa::Instruction> makePreload() {
    isa::Preload preload;
    const int64_t bytes = timing::elementBytes(machine.arrayType);
    preload.memory = scratchpad(/*weights=*/70);
    const Edge size = edge();
    preload.k_count = random.chance(75) ? countOf(size, machine.rows) : random.in(1, machine.rows);
    preload.n_count = random.chance(75) ? countOf(size, machine.cols) : random.in(1, machine.cols);
    preload.transpose = random.chance(40);
    // Many short rows take longer, so that more finds the preload at work.
    if (spot && preload.k_count != preload.n_count)
      preload.transpose = preload.n_count > preload.k_count;
    const int64_t run = (preload.transpose ? preload.k_count : preload.n_count) * bytes;
    const int64_t rows = preload.transpose ? preload.n_count : preload.k_count;
    preload.row_stride = random.chance(60) ? run : random.chance(20) ? 0 : run + random.in(0, 9) * bytes;
    preload.span = preload.row_stride * (rows - 1) + run;
    preload.address = place(unsigned(preload.memory), preload.span, bytes);
    sign(preload);
    if (preload.address < 0)
      return std::nullopt;
    return preload;
  }

  std::optional<isa::Instruction> makeTensor() {
    isa::Tensor tensor;
    const int64_t bytes = timing::elementBytes(machine.arrayType);
    tensor.memory = scratchpad(/*weights=*/20);
    tensor.k_count = countOf(edge(), machine.rows);
    tensor.counts = {random.chance(30) ? 1 : random.in(1, 14), random.in(1, 3), random.chance(80) ? 1 : random.in(1, 3)};
    const int64_t row = machine.rows * bytes;
    int64_t extent = row, step = random.chance(80) ? 1 : random.in(1, 3);
    for (size_t d = 0; d < 3; ++d) {
      tensor.strides[d] = random.chance(60) ? extent : random.of({0, bytes, row, 3 * bytes});
      extent = std::max(extent, tensor.strides[d] * tensor.counts[d]);
      // No row twice.
      tensor.acc_strides[d] = step;
      step *= tensor.counts[d];
      if (random.chance(15))
        step += random.in(1, 4);
    }
    if (random.chance(25)) {
      // The same rows, in another order.
      std::swap(tensor.counts[0], tensor.counts[1]);
      std::swap(tensor.acc_strides[0], tensor.acc_strides[1]);
    }
    tensor.span = reachOf(tensor.strides.data(), tensor.counts.data(), 3) + tensor.k_count * bytes;
    tensor.acc_span = reachOf(tensor.acc_strides.data(), tensor.counts.data(), 3) + 1;
    const unsigned accumulator = unsigned(isa::Memory::Accumulator);
    const int64_t rowBytes = machine.accumulatorRowBytes();
    tensor.address = place(unsigned(tensor.memory), tensor.span, bytes);
    if (tensor.address < 0 || tensor.acc_span * rowBytes > limit(accumulator))
      return std::nullopt;
    tensor.acc_address = place(accumulator, tensor.acc_span * rowBytes, rowBytes) / rowBytes;
    tensor.accumulate = random.chance(50);
    sign(tensor);
    return tensor;
  }

  int64_t zeroPoint(int64_t type) {
    if (random.chance(50))
      return 0;
    return VectorType(type) == VectorType::I8   ? random.in(-128, 127)
           : VectorType(type) == VectorType::U8 ? random.in(0, 255)
                                                : 0;
  }

  std::optional<isa::Instruction> makeVector() {
    isa::Vector v;
    const int64_t lanes = machine.lanes;
    auto bytesOf = [](int64_t type) { return int64_t(isa::elementBytes(VectorType(type))); };
    v.counts = {random.chance(25) ? 1 : random.in(1, 9), random.chance(60) ? 1 : random.in(1, 3),
                random.chance(80) ? 1 : random.in(1, 3), random.chance(60) ? 1 : random.in(1, 3)};
    const Edge size = edge();
    if (size == Edge::One)
      v.counts = {1, 1, 1, 1};
    else if (size == Edge::Partial)
      v.counts[0] = random.in(2, 9);
    v.window = {1, 1};
    v.a_type = random.in(0, 4);
    v.a_memory = anyMemory();
    v.a_zero_point = zeroPoint(v.a_type);
    const int64_t es = bytesOf(v.a_type), block = lanes * es;
    if (size == Edge::Partial || random.chance(45)) {
      // Only a reduction over lanes leaves some out.
      v.window_op =
          size == Edge::Partial
              ? random.of({int64_t(isa::WindowOp::Max), int64_t(isa::WindowOp::Sum), int64_t(isa::WindowOp::SumSquares)})
              : random.in(1, 4);
      v.window = {random.of({1, 2, 3, 3, 4, 5}), random.of({1, 1, 2, 3, 3, 4})};
      if (random.chance(4)) {
        v.window = {random.of({16, 32, 7}), random.of({8, 16, 5})};
        v.counts = {size == Edge::One ? 1 : 2, 1, 1, 1};
        if (v.window[0] * v.window[1] > isa::kMaxMacTaps)
          v.window[1] = 8;
      }
    }
    const bool isMac = v.window_op == int64_t(isa::WindowOp::Mac);
    v.a_window_strides = {random.chance(60) ? block : random.of({0, es, 2 * block}), 0};
    v.a_window_strides[1] = random.chance(60) ? v.a_window_strides[0] * v.window[0] : random.of({0, es, block, 3 * block});
    if (v.window_op && random.chance(65))
      v.window_step = random.chance(70) ? random.in(1, 3) : random.in(4, 7);
    int64_t extent = block;
    for (size_t d = 0; d < 4; ++d) {
      v.a_strides[d] = random.chance(65) ? extent : random.of({0, es, block, 2 * block});
      if (d == 0 && v.window_step)
        v.a_strides[0] = v.window_step * v.a_window_strides[0];
      extent = std::max(extent, v.a_strides[d] * v.counts[d]);
    }
    v.a_span = reachOf(v.a_strides.data(), v.counts.data(), 4) + reachOf(v.a_window_strides.data(), v.window.data(), 2) + block;
    v.a_address = place(unsigned(v.a_memory), v.a_span, es);
    if (v.a_address < 0)
      return std::nullopt;
    const bool isFloat = isa::isFloat(VectorType(v.a_type));
    if (isMac || random.chance(45)) {
      v.b_enable = 1;
      v.b_type = isMac ? (isFloat ? random.of({3, 4}) : random.of({0, 1, 2})) : random.in(0, 4);
      v.b_memory = random.chance(40) ? v.a_memory : int64_t(anyMemory());
      v.b_zero_point = zeroPoint(v.b_type);
      const int64_t bytes = bytesOf(v.b_type), vector = lanes * bytes;
      int64_t reach = vector;
      if (isMac) {
        v.b_tap_stride = random.chance(70) ? vector : random.of({0, bytes});
        v.b_strides[3] = random.chance(70) ? v.b_tap_stride * v.window[0] * v.window[1] : random.of({0, vector});
        reach += v.b_tap_stride * (v.window[0] * v.window[1] - 1) + v.b_strides[3] * (v.counts[3] - 1);
      } else {
        int64_t dense = vector;
        for (size_t d = 0; d < 4; ++d) {
          v.b_strides[d] = random.chance(65) ? dense : random.of({0, bytes, vector});
          dense = std::max(dense, v.b_strides[d] * v.counts[d]);
        }
        reach += reachOf(v.b_strides.data(), v.counts.data(), 4);
        v.b_convert = random.in(0, 2);
        v.b_scale = random.in(0, 7);
      }
      v.b_span = reach;
      v.b_address = place(unsigned(v.b_memory), reach, bytes);
      // Beside A, for the shared port.
      if (random.chance(25) && v.b_memory == v.a_memory)
        v.b_address = std::min(v.a_address, limit(unsigned(v.b_memory)) - reach) / bytes * bytes;
      if (v.b_address < 0)
        return std::nullopt;
    }
    if (random.chance(45)) {
      v.p_count = random.in(1, isa::kMaxParams);
      v.p_memory = anyMemory();
      v.p_span = v.counts[3] * v.p_count * lanes * 4;
      v.p_address = place(unsigned(v.p_memory), v.p_span, 4);
      if (v.p_address < 0)
        return std::nullopt;
    }
    if (v.window_op && !isMac)
      if (size == Edge::Partial || random.chance(40)) {
        v.lane_reduce = 1;
        v.tail_lanes =
            size == Edge::Full ? random.of({0, lanes}) : countOf(random.chance(50) ? Edge::One : Edge::Partial, lanes);
      }
    const bool endsFloat = chain(v, isFloat, isMac);
    v.d_type = endsFloat ? random.of({3, 4}) : random.of({0, 1, 2});
    const int64_t bytes = bytesOf(v.d_type), vector = lanes * bytes;
    v.d_memory = anyMemory();
    if (bytes == es && random.chance(12)) {
      v.d_memory = v.a_memory; // in place
      v.d_strides = v.a_strides;
      v.d_address = v.a_address;
      v.d_span = v.a_span;
    } else {
      int64_t dense = vector;
      for (size_t d = 0; d < 4; ++d) {
        v.d_strides[d] = random.chance(75) ? dense : random.of({0, bytes, vector, 2 * vector});
        dense = std::max(dense, v.d_strides[d] * v.counts[d]);
      }
      v.d_span = reachOf(v.d_strides.data(), v.counts.data(), 4) + vector;
      v.d_address = place(unsigned(v.d_memory), v.d_span, bytes);
      if (v.d_address < 0)
        return std::nullopt;
    }
    for (int64_t &value : v.immediates)
      value = int64_t(immediate(random));
    return v;
  }

  /// Fills in the stages; returns whether they end with a float.
  bool chain(isa::Vector &v, bool isFloat, bool isMac) {
    bool x = isFloat, saved = isFloat;
    const bool hasB = v.b_enable && !isMac;
    const bool b = v.b_convert != int64_t(isa::Conversion::None) || isa::isFloat(VectorType(v.b_type));
    v.num_stages = random.chance(15) ? 0 : random.in(1, std::min<int64_t>(machine.vectorStages, random.chance(70) ? 5 : 12));
    for (size_t s = 0; s < size_t(v.num_stages); ++s) {
      StageOp op = StageOp::Nop;
      StageOperand operand = StageOperand::None;
      auto immediateUpTo = [&](int64_t last) { return StageOperand(int64_t(StageOperand::Imm0) + random.in(0, last)); };
      const int64_t pick = random.in(0, 99);
      if (pick < 4) {
        op = StageOp::Nop;
      } else if (pick < 10) {
        op = StageOp::Save;
        saved = x;
      } else if (pick < 14) {
        op = StageOp::LoadSaved;
        x = saved;
      } else if (pick < 19 && hasB) {
        op = StageOp::LoadB;
        x = b;
      } else if (pick < 65 || (pick < 80 && !x)) {
        op = x ? kFloatBinary[random.in(0, 7)] : kIntBinary[random.in(0, 11)];
        std::vector<StageOperand> operands = {immediateUpTo(7), immediateUpTo(7)};
        if (hasB && b == x)
          operands.insert(operands.end(), 2, StageOperand::B);
        if (saved == x)
          operands.push_back(StageOperand::Saved);
        for (int64_t p = 0; p < v.p_count; ++p)
          operands.push_back(StageOperand(int64_t(StageOperand::P0) + p));
        operand = random.of(operands);
      } else if (pick < 80) {
        op = kFloatUnary[random.in(0, 9)];
      } else if (pick < 90) {
        if (!x) {
          op = random.chance(60) ? StageOp::I2f : StageOp::Dequantize;
          operand = op == StageOp::Dequantize ? immediateUpTo(6) : operand;
        } else {
          const StageOp ops[] = {StageOp::F2i, StageOp::F2iTrunc, StageOp::Quantize};
          op = ops[random.in(0, 2)];
          operand = op == StageOp::Quantize ? immediateUpTo(7) : operand;
        }
        x = !x;
      } else if (x) {
        op = hasB && b && random.chance(50) ? StageOp::FfmaB : StageOp::Ffma;
        operand = immediateUpTo(op == StageOp::Ffma ? 6 : 7);
      }
      v.stage_op[s] = int64_t(op);
      v.stage_operand[s] = int64_t(operand);
    }
    return x;
  }

  /// Gives an instruction in loops an odometer.
  void turn(isa::Instruction &instruction, const Levels &around) {
    if (around.loops.empty() || random.chance(20))
      return;
    isa::Header &header = instruction.header;
    if (random.chance(75)) {
      header.num_levels = int64_t(around.loops.size());
      for (size_t i = 0; i < around.loops.size(); ++i)
        instruction.levels[i].count = around.loops[around.loops.size() - 1 - i];
    } else {
      header.num_levels = random.in(1, 6);
      for (int64_t i = 0; i < header.num_levels; ++i)
        instruction.levels[size_t(i)].count = random.in(1, 3);
    }
    const int64_t all = (int64_t(1) << header.num_levels) - 1;
    auto step = [&](int64_t bytes, int64_t low, int64_t high) { return random.chance(50) ? 0 : random.in(low, high) * bytes; };
    for (int64_t i = 0; i < header.num_levels; ++i) {
      isa::Level &level = instruction.levels[size_t(i)];
      if (random.chance(15))
        level.wrap = random.in(1, 3);
      if (const isa::Vector *v = instruction.getIf<isa::Vector>()) {
        auto lane = [&](int64_t type) { return int64_t(isa::elementBytes(VectorType(type))); };
        const int64_t many = machine.lanes;
        level.stride_a = v->p_count ? step(4, 0, 2 * many) : 0;
        level.stride_b = step(lane(v->a_type), -many, 2 * many);
        level.stride_c = v->b_enable ? step(lane(v->b_type), -many, 2 * many) : 0;
        level.stride_d = step(lane(v->d_type), -many, 4 * many);
      } else if (instruction.getIf<isa::Tensor>()) {
        level.stride_b = step(timing::elementBytes(machine.arrayType), -20, 80);
        level.stride_c = step(1, -4, 12);
      } else if (instruction.getIf<isa::Preload>()) {
        level.stride_b = step(timing::elementBytes(machine.arrayType), -20, 80);
      } else {
        const int64_t log2 = instruction.getIf<isa::Load>() ? instruction.as<isa::Load>().element_log2
                                                            : instruction.as<isa::Store>().element_log2;
        level.stride_a = step(int64_t(1) << log2, -64, 256);
        level.stride_b = step(int64_t(1) << log2, -64, 256);
      }
    }
    if (isa::Tensor *tensor = instruction.getIf<isa::Tensor>(); tensor && random.chance(40))
      tensor->clear_mask = random.in(0, all);
    for (size_t e = 0; e < header.edge_value.size(); ++e)
      if (random.chance(25)) {
        const int64_t index = random.in(0, 4);
        if (const int64_t *count = isa::countOf(instruction, index)) {
          header.edge_level[e] = random.in(0, header.num_levels - 1);
          header.edge_index[e] = index;
          header.edge_value[e] = random.in(1, instruction.getIf<isa::Tensor>() || random.chance(80) ? *count : *count + 3);
        }
      }
    if (random.chance(15)) {
      header.predicate = random.in(1, 4);
      header.predicate_mask = random.in(0, all);
    }
  }

  /// Whether the instruction may run as often as the loops say.
  bool isGood(const isa::Instruction &instruction, const Levels &around) const {
    if (!isa::fits(instruction) || isa::illegal(instruction, machine))
      return false;
    isa::OdometerState odometer;
    for (int64_t turn = around.turns(); turn > 0; --turn) {
      const std::optional<isa::Instruction> now = isa::resolve(instruction, odometer);
      if (!now)
        continue;
      if (isa::outOfRange(*now, machine))
        return false;
      if (const isa::Vector *vector = now->getIf<isa::Vector>(); vector && core::mayReadOwnResult(*vector, machine))
        return false;
      // Only what carriers do not touch, and neither data that nobody may write nor the code.
      for (const core::RunSet &set : core::accessesOf(*now, machine)) {
        const auto [begin, end] = set.bounds();
        const bool isDram = set.memory == core::kDramMemory;
        const int64_t window = isDram && begin >= kFar ? kFar : 0;
        if (begin < 0 || end > window + (isDram ? kDramUsed : limit(set.memory)))
          return false;
      }
    }
    return true;
  }

  std::optional<isa::Instruction> make(unsigned kind) {
    switch (kind) {
    case 0:
      return makeLoad();
    case 1:
      return makeStore();
    case 2:
      return makeVector();
    case 3:
      return makeTensor();
    default:
      return makePreload();
    }
  }

  unsigned kind() {
    int64_t sum = 0;
    for (int64_t w : weight)
      sum += w;
    int64_t pick = random.in(0, sum - 1);
    for (unsigned e = 0; e < 5; ++e)
      if ((pick -= weight[e]) < 0)
        return e;
    return 0;
  }

  /// A good instruction of a kind. Tries until one fits.
  isa::Instruction good(unsigned kind, const Levels &around) {
    for (;;) {
      std::optional<isa::Instruction> instruction = make(kind);
      if (!instruction)
        continue;
      if (!isGood(*instruction, {}))
        continue;
      isa::Instruction plain = *instruction;
      turn(*instruction, around);
      if (isGood(*instruction, around))
        return *instruction;
      return plain;
    }
  }

  /// Makes the instruction one that no turn drops.
  void always(isa::Instruction &instruction, const Levels &around) const {
    instruction.header.predicate = instruction.header.predicate_mask = 0;
    if (isGood(instruction, around))
      return;
    // The predicate dropped turns that leave the memory.
    instruction.header = isa::Header{};
    instruction.levels = {};
    if (isa::Tensor *operands = instruction.getIf<isa::Tensor>())
      operands->clear_mask = 0;
  }

  void single(std::vector<Node> &nodes, const Levels &around) {
    const unsigned which = kind();
    isa::Instruction instruction = good(which, around);
    if (which < 3) {
      nodes.emplace_back(instruction, nextId++);
      return;
    }
    // Tiles and the instructions that take them come in pairs; the first use of the array takes a tile.
    if (which == 3 && hasTile && random.chance(60)) {
      nodes.emplace_back(instruction, nextId++);
      return;
    }
    isa::Instruction preload = which == 4 ? instruction : good(4, around);
    isa::Instruction tensor = which == 3 ? instruction : good(3, around);
    tensor.as<isa::Tensor>().swap = 1;
    // Both run, or none does.
    always(preload, around);
    always(tensor, around);
    nodes.emplace_back(preload, nextId++);
    if (random.chance(30))
      nodes.emplace_back(good(unsigned(random.in(0, 2)), around), nextId++);
    nodes.emplace_back(tensor, nextId++);
    hasTile = true;
  }

  /// Instructions of all kinds on the same bytes, each of which waits for one before it, or on different bytes of one
  /// bank, so that each waits for the bank.
  void chain(std::vector<Node> &nodes, const Levels &around, bool isOrdered) {
    const unsigned memory = scratchpad();
    const int64_t bank = int64_t(params(memory).bankBytes());
    spot = {memory, random.in(0, std::max<int64_t>(1, limit(memory) / bank) - 1) * bank, isOrdered ? 1 : bank};
    unsigned previous = 0, last[5] = {};
    bool isPending = false; // a tile that nobody has taken yet
    auto add = [&](unsigned kind) {
      isa::Instruction instruction = good(kind, around);
      if (kind == 4 || (kind == 3 && isPending)) {
        if (kind == 3)
          instruction.as<isa::Tensor>().swap = 1;
        always(instruction, around);
        isPending = kind == 4;
        hasTile = true;
      }
      const unsigned id = nextId++;
      const unsigned from = last[kind] && random.chance(30) ? last[kind] : previous;
      if (isOrdered && from)
        orders.push_back({from, id});
      nodes.emplace_back(instruction, id);
      previous = last[kind] = id;
    };
    for (int64_t n = random.in(3, 8); n > 0; --n) {
      unsigned kind = unsigned(random.of({0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4}));
      // A preload holds its bank so shortly that few see it, and starts after stores and vector instructions that wait too.
      if (!isOrdered && previous && previous == last[4] && random.chance(65))
        kind = unsigned(random.of({1, 2, 2}));
      if (kind == 3 && !hasTile)
        add(4);
      if (kind == 4 && isPending)
        add(3);
      add(kind);
    }
    if (isPending)
      add(3);
    spot.reset();
  }

  /// A chain, or a loop of one: from the loop buffer the next instruction comes before the shortest one is over.
  void chains(std::vector<Node> &nodes) {
    const bool isOrdered = random.chance(45);
    if (random.chance(isOrdered ? 60 : 30)) {
      chain(nodes, {}, isOrdered);
      return;
    }
    isa::Loop loop;
    loop.count = random.in(2, 4);
    Node node{isa::Instruction(loop), nextId++};
    chain(node.body, {{loop.count}}, isOrdered);
    nodes.push_back(std::move(node));
  }

  /// Leaves one run of few bursts.
  template <typename T> void shorten(T &transfer) {
    const int64_t few = int64_t(machine.dram.burstBytes) >> transfer.element_log2;
    int64_t count = transfer.counts[0];
    count = count % few ? std::min<int64_t>(count, 3) : few;
    transfer.counts = {count, 1, 1, 1, 1};
  }

  /// Small instructions for one engine in a row, so that its queue fills up and many boxes are in flight.
  void many(std::vector<Node> &nodes) {
    isa::Loop loop;
    loop.count = random.in(4, 14);
    Node node{isa::Instruction(loop), nextId++};
    const Levels around{{loop.count}};
    const unsigned which = unsigned(random.of({0, 0, 0, 1, 2, 3}));
    if (which == 3 && !hasTile)
      return;
    isa::Instruction first = good(which, {});
    for (int64_t n = random.in(1, 3); n > 0; --n) {
      isa::Instruction instruction = good(which, {});
      instruction.header.unit = first.header.unit;
      if (isa::Load *load = instruction.getIf<isa::Load>()) {
        shorten(*load);
        load->low = load->high = {};
        if (random.chance(60))
          load->low[0] = load->counts[0];
      } else if (isa::Store *store = instruction.getIf<isa::Store>()) {
        shorten(*store);
      } else if (isa::Vector *vector = instruction.getIf<isa::Vector>()) {
        vector->counts = {1, 1, 1, 1};
      } else {
        instruction.as<isa::Tensor>().counts = {random.in(1, 2), 1, 1};
      }
      turn(instruction, around);
      if (isGood(instruction, around))
        node.body.emplace_back(instruction, nextId++);
    }
    if (!node.body.empty())
      nodes.push_back(std::move(node));
  }

  void loop(std::vector<Node> &nodes, Levels around) {
    isa::Loop loop;
    loop.count = random.chance(70) ? random.in(1, 4) : random.in(2, 7);
    if (around.turns() * loop.count > 16)
      loop.count = 2;
    around.loops.push_back(loop.count);
    Node node{isa::Instruction(loop), nextId++};
    for (int64_t n = random.in(1, 4); n > 0; --n) {
      if (around.loops.size() < size_t(isa::kMaxLoopDepth) && around.turns() <= 8 && random.chance(25))
        this->loop(node.body, around);
      else
        single(node.body, around);
    }
    nodes.push_back(std::move(node));
  }

  const timing::MachineParams &machine;
  Rng &random;
  Reserve reserve;
  std::vector<int64_t> hot[8]; ///< addresses that many instructions use
  struct Spot {
    unsigned memory;
    int64_t address, bytes;
  };
  std::optional<Spot> spot; ///< while a chain is made: where its instructions meet
  Orders orders;            ///< that chains ask for
  std::array<int64_t, 5> weight{};
  unsigned nextId = 1;
  bool hasTile = false;
};

uint64_t wordsIn(const std::vector<Node> &nodes) {
  std::vector<isa::Word> words;
  encode(nodes, words);
  return words.size();
}

uint64_t bodyWords(const std::vector<Node> &nodes) {
  uint64_t longest = 0;
  for (const Node &node : nodes)
    if (node.isLoop())
      longest = std::max(longest, wordsIn(node.body));
  return longest;
}

/// A legal tree, from as many tries as it takes.
std::vector<Node> legalTree(const timing::MachineParams &machine, Rng &random, std::optional<Generator> &generator) {
  for (;;) {
    generator.emplace(machine, random);
    if (std::optional<std::vector<Node>> nodes = generator->make(); nodes && bodyWords(*nodes) <= machine.loopBufferWords)
      return std::move(*nodes);
  }
}

/// All nodes that are instructions.
void collect(std::vector<Node> &nodes, std::vector<Node *> &all) {
  for (Node &node : nodes)
    if (node.isLoop())
      collect(node.body, all);
    else
      all.push_back(&node);
}

/// A loop, the one around it (null: none), and how many loops it is in, itself counted.
struct LoopPlace {
  Node *loop, *around;
  int64_t depth;
};

/// All loops.
void collect(std::vector<Node> &nodes, Node *around, int64_t depth, std::vector<LoopPlace> &all) {
  for (Node &node : nodes)
    if (node.isLoop()) {
      all.push_back({&node, around, depth});
      collect(node.body, &node, depth + 1, all);
    }
}

/// Word index of a node.
bool wordOf(const std::vector<Node> &nodes, const Node *wanted, uint64_t &at) {
  for (const Node &node : nodes) {
    if (&node == wanted)
      return true;
    if (node.isLoop()) {
      ++at;
      if (wordOf(node.body, wanted, at))
        return true;
    } else {
      at += node.instruction.words();
    }
  }
  return false;
}

bool usesSemaphore(const std::vector<Node> &nodes, int64_t semaphore) {
  for (const Node &node : nodes) {
    const isa::Header &h = node.instruction.header;
    for (size_t i = 0; i < 3; ++i)
      if ((h.wait_count[i] && h.wait_semaphore[i] == semaphore) || (h.post_count[i] && h.post_semaphore[i] == semaphore))
        return true;
    if (usesSemaphore(node.body, semaphore))
      return true;
  }
  return false;
}

} // namespace

isa::Program randomProgram(const timing::MachineParams &machine, uint64_t seed) {
  Rng random(seed);
  std::optional<Generator> generator;
  const std::vector<Node> nodes = legalTree(machine, random, generator);
  return generator->finish(nodes);
}

timing::MachineParams otherDram(const timing::MachineParams &machine, uint64_t seed) {
  Rng random(seed ^ 0x6472616d);
  timing::MachineParams other = machine;
  timing::DramParams &dram = other.dram;
  dram.pathLatencyCycles = uint32_t(random.chance(50) ? random.in(0, 40) : 0);
  if (dram.kind == timing::DramKind::Ideal) {
    dram.latencyCycles = uint32_t(random.in(0, 60));
    // Not faster: the width of the RTL's response ports follows the rate.
    dram.bytesPerCycleDenominator = machine.dram.bytesPerCycleDenominator * uint32_t(random.in(1, 4));
    dram.bytesPerCycleNumerator =
        uint32_t(random.in(1, int64_t(machine.dram.bytesPerCycleNumerator) * dram.bytesPerCycleDenominator /
                                  machine.dram.bytesPerCycleDenominator));
    return other;
  }
  dram.window = uint32_t(1) << random.in(0, 5);
  dram.ageCapTicks = uint32_t(random.of({16, 200, 2048}));
  dram.interleaveBankGroups = random.chance(50);
  if (random.chance(40))
    dram.nREFI = uint32_t(std::max<int64_t>(4 * dram.nRFC, random.in(600, 4000)));
  if (random.chance(30))
    for (uint32_t *ticks : {&dram.nRCDRD, &dram.nRCDWR, &dram.nRP, &dram.nWR, &dram.nRTP, &dram.nRTW})
      *ticks = uint32_t(random.in(1, 30));
  return other;
}

Faulty randomFaultyProgram(const timing::MachineParams &machine, uint64_t seed) {
  Rng random(seed ^ 0x6661756c74);
  for (;;) {
    std::optional<Generator> generator;
    std::vector<Node> nodes = legalTree(machine, random, generator);
    std::vector<Node *> all;
    collect(nodes, all);
    Node &victim = *all[size_t(random.in(0, int64_t(all.size()) - 1))];
    isa::Header &header = victim.instruction.header;
    Faulty faulty;
    auto finish = [&](bool halt = true) {
      faulty.program = generator->finish(nodes, halt);
      faulty.pc = 0;
      wordOf(nodes, &victim, faulty.pc);
      return faulty;
    };
    int64_t unused = int64_t(machine.semaphores) - 1;
    while (unused >= 0 && usesSemaphore(nodes, unused))
      --unused;
    switch (random.in(0, 7)) {
    case 0: { // A value that the machine does not accept.
      faulty.kind = core::FaultKind::IllegalInstruction;
      for (int tries = 0; tries < 200; ++tries) {
        isa::Instruction changed = victim.instruction;
        if (isa::Vector *vector = changed.getIf<isa::Vector>(); vector && vector->num_stages && random.chance(30)) {
          // A stage that does not fit those before it.
          const auto &ops = isa::kStageOpEnumeration.cases;
          const size_t stage = size_t(random.in(0, vector->num_stages - 1));
          vector->stage_op[stage] = ops.begin()[size_t(random.in(0, int64_t(ops.size()) - 1))].value;
          if (isa::illegal(changed, machine)) {
            faulty.planted = "stage_op[" + std::to_string(stage) + "] = " + std::to_string(vector->stage_op[stage]);
            victim.instruction = changed;
            return finish();
          }
          continue;
        }
        const auto fields = isa::fieldsOf(changed.opcode());
        const isa::FieldInfo &field = fields[size_t(random.in(0, int64_t(fields.size()) - 1))];
        const int64_t value = field.values
                                  ? field.values->cases[size_t(random.in(0, int64_t(field.values->cases.size()) - 1))].value
                              : random.chance(50) ? random.of({field.minimum, field.maximum})
                                                  : random.in(field.minimum, field.maximum);
        isa::set(field, changed.operandBase(), value);
        if (isa::fits(changed) && isa::illegal(changed, machine)) {
          faulty.planted = isa::nameOf(field) + " = " + std::to_string(value);
          victim.instruction = changed;
          return finish();
        }
      }
      break;
    }
    case 1: { // A header that the machine does not accept.
      faulty.kind = core::FaultKind::IllegalInstruction;
      isa::Instruction changed = victim.instruction;
      const int64_t which = random.in(0, 3);
      if (which == 0) {
        changed.header.unit = 3;
      } else if (which == 1) {
        changed.header.predicate_mask |= int64_t(1)
                                         << random.in(changed.header.num_levels, 5 + (changed.header.num_levels > 5));
      } else if (which == 2) {
        changed.header.edge_level[0] = changed.header.num_levels;
        changed.header.edge_value[0] = 1;
      } else if (changed.header.num_levels) {
        changed.levels[0].count = 0;
      }
      if (!isa::fits(changed) || !isa::illegal(changed, machine))
        break;
      victim.instruction = changed;
      faulty.planted = "a bad header";
      return finish();
    }
    case 2: { // Words that are no instruction.
      faulty.kind = core::FaultKind::IllegalInstruction;
      finish();
      isa::Word &word = faulty.program.code[faulty.pc];
      const unsigned length = victim.instruction.words();
      for (int tries = 0; tries < 200; ++tries) {
        const isa::Word before = word;
        // Opcode and length, reserved bits, enumerations: any bit may make it one, most do not.
        word[size_t(random.in(0, 3))] ^= uint64_t(1) << random.in(0, 63);
        if (random.chance(40))
          word[0] ^= uint64_t(random.in(1, 63));
        // A length beyond the loop's body would decode something else; only the length that it says counts.
        const isa::Decoded decoded = isa::decode(&word, faulty.program.code.size() - faulty.pc);
        if (!decoded && (word[0] >> 6 & 15) == length) {
          faulty.planted = "bits that are no instruction: " + decoded.error;
          return faulty;
        }
        word = before;
      }
      break;
    }
    case 3: // No halt.
      faulty.kind = core::FaultKind::IllegalInstruction;
      finish(false);
      faulty.pc = faulty.program.code.size();
      faulty.planted = "no halt";
      return faulty;
    case 4: { // A loop that the loop buffer does not hold, without body or turns, beyond the one around it, or too deep.
      faulty.kind = core::FaultKind::IllegalInstruction;
      std::vector<LoopPlace> loops;
      collect(nodes, nullptr, 1, loops);
      const int64_t which = random.in(0, 4);
      if (which == 3)
        loops.erase(std::remove_if(loops.begin(), loops.end(), [](const LoopPlace &place) { return !place.around; }),
                    loops.end());
      if (loops.empty())
        break;
      const LoopPlace place = loops[size_t(random.in(0, int64_t(loops.size()) - 1))];
      Node *loop = place.loop;
      if (which == 4) {
        // Turns once more around the first of its body, until one loop is too much.
        for (int64_t depth = place.depth; depth <= isa::kMaxLoopDepth; ++depth) {
          Node turn{isa::Instruction(isa::Loop{})};
          turn.instruction.as<isa::Loop>().count = 1;
          turn.body.push_back(std::move(loop->body.front()));
          loop->body.front() = std::move(turn);
          loop = &loop->body.front();
        }
        if (bodyWords(nodes) > machine.loopBufferWords)
          break;
        faulty.planted = "a loop nested too deep";
      }
      finish();
      faulty.pc = 0;
      wordOf(nodes, loop, faulty.pc);
      if (which == 4)
        return faulty;
      isa::Instruction changed = loop->instruction;
      isa::Loop &bad = changed.as<isa::Loop>();
      bad.body_words = int64_t(wordsIn(loop->body));
      if (which == 0) {
        bad.body_words = int64_t(machine.loopBufferWords) + random.in(1, 100);
      } else if (which == 1) {
        bad.body_words = 0;
      } else if (which == 2) {
        bad.count = 0;
      } else {
        uint64_t outer = 0;
        wordOf(nodes, place.around, outer);
        bad.body_words = int64_t(outer + wordsIn(place.around->body) - faulty.pc) + random.in(1, 3);
      }
      std::vector<isa::Word> words;
      isa::encode(changed, words);
      faulty.program.code[faulty.pc] = words[0];
      faulty.planted = which == 3 ? "a loop beyond the one around it" : "a bad loop";
      return faulty;
    }
    case 5: { // An address outside of its memory, in one turn or in all.
      faulty.kind = core::FaultKind::OutOfRange;
      for (int tries = 0; tries < 200; ++tries) {
        isa::Instruction changed = victim.instruction;
        for (const isa::FieldInfo &field : isa::fieldsOf(changed.opcode())) {
          const std::string name = field.name;
          if (name.find("address") == std::string::npos && name.find("span") == std::string::npos)
            continue;
          if (random.chance(25))
            isa::set(field, changed.operandBase(),
                     random.chance(50) ? field.maximum & ~int64_t(63)
                                       : random.in(0, field.maximum >> random.in(0, 20)) & ~int64_t(3));
        }
        if (changed.header.num_levels && random.chance(50))
          changed.levels[0].stride_b = random.in(-1000, 1000) * 64;
        if (!isa::fits(changed) || isa::illegal(changed, machine))
          continue;
        // Nobody may touch what it should not before the fault: all its turns but the bad one are dropped or as before.
        isa::OdometerState odometer;
        const std::optional<isa::Instruction> first = isa::resolve(changed, odometer);
        if (!first || !isa::outOfRange(*first, machine))
          continue;
        victim.instruction = changed;
        faulty.planted = "an address outside of its memory";
        return finish();
      }
      break;
    }
    case 6: { // More posts than a semaphore counts.
      if (unused < 0 || header.post_count[2] || (header.post_count[0] && header.post_mask))
        break;
      faulty.kind = core::FaultKind::SemaphoreOverflow;
      isa::Store poster;
      poster.address = generator->reserved().scratchpad;
      poster.dram_address = generator->reserved().dram + 1024;
      poster.span = 1;
      poster.counts = {1, 1, 1, 1, 1};
      isa::Instruction store(poster);
      const int64_t most = std::min<int64_t>(15, machine.semaphoreMax);
      store.header.post_semaphore = {unused, unused, unused};
      store.header.post_count = {most, most, most};
      const int64_t needed = int64_t(machine.semaphoreMax) / (3 * most) + 1;
      const size_t at = size_t(random.in(0, int64_t(nodes.size())));
      nodes.insert(nodes.begin() + int64_t(at), size_t(needed), Node(store));
      faulty.program = generator->finish(nodes);
      faulty.pc = 0;
      wordOf(nodes, &nodes[at + size_t(needed) - 1], faulty.pc);
      faulty.planted = "posts that nobody takes";
      return faulty;
    }
    default: // Nobody posts what it waits for.
      if (unused < 0 || header.wait_count[2] || header.predicate || header.wait_mask)
        break;
      faulty.kind = core::FaultKind::Deadlock;
      header.wait_semaphore[2] = unused;
      header.wait_count[2] = random.in(1, std::min<int64_t>(15, machine.semaphoreMax));
      faulty.planted = "a wait without a post";
      return finish();
    }
  }
}

} // namespace tw::programs
