//===- RandomVector.cpp - Random vector instructions ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tests/rtl/vector/RandomVector.h"

#include "isa/Legality.h"
#include "isa/timing/FunctionTables.h"

#include <algorithm>
#include <cstring>

using namespace tw;
using namespace tw::test;
using isa::Conversion;
using isa::StageOp;
using isa::StageOperand;
using isa::VectorType;
using isa::WindowOp;

namespace {
int64_t bytesOf(int64_t type) { return isa::elementBytes(VectorType(type)); }
bool isFloat(int64_t type) { return isa::isFloat(VectorType(type)); }

/// The most that strides and counts add to an address.
template <size_t N> int64_t reachOf(const std::array<int64_t, N> &strides, const std::array<int64_t, N> &counts) {
  int64_t reach = 0;
  for (size_t d = 0; d < N; ++d)
    reach += strides[d] * (counts[d] - 1);
  return reach;
}
} // namespace

int64_t RandomVector::capacity(int64_t memory) const {
  return int64_t(isa::memoryOf(isa::Memory(memory), machine)->capacityBytes);
}

int64_t RandomVector::anyMemory() {
  int64_t which = pick(0, int64_t(machine.scratchpads.size()));
  return which == int64_t(machine.scratchpads.size()) ? int64_t(isa::Memory::Accumulator) : which;
}

uint32_t RandomVector::floatPattern() {
  static const uint32_t special[] = {0,          0x80000000, 1,          0x807fffff, 0x7f800000, 0xff800000,
                                     0x7fc00000, 0xffc12345, 0x7f7fffff, 0x3f000000, 0x4f000000, 0xcf000000};
  switch (pick(0, 9)) {
  case 0:
    return special[pick(0, 11)];
  case 1:
    return uint32_t(random());
  default:
    return timing::floatBits(float(pick(-100000, 100000)) / float(pick(1, 4000)));
  }
}

void RandomVector::fill(core::MachineState &state) {
  bool floats = flip();
  for (int64_t memory : {0, 1, 7})
    for (uint64_t i = 0; i < state.memorySize(memory); i += 4) {
      uint32_t value = floats ? floatPattern() : uint32_t(random());
      std::memcpy(state.memory(memory) + i, &value, 4);
    }
}

int64_t RandomVector::zeroPoint(int64_t type) {
  if (VectorType(type) == VectorType::I8)
    return pick(-128, 127);
  return VectorType(type) == VectorType::U8 ? pick(0, 255) : 0;
}

bool RandomVector::place(int64_t bytes, int64_t begin, int64_t end, int64_t align, int64_t &address, int64_t &span) {
  if (begin + bytes > end)
    return false;
  address = pick(begin, end - bytes) / align * align;
  span = std::min(bytes + (flip() ? 0 : pick(0, 600)), end - address);
  return true;
}

bool RandomVector::chain(isa::Vector &v) {
  bool isMac = WindowOp(v.window_op) == WindowOp::Mac;
  v.stage_op = {}, v.stage_operand = {};
  v.num_stages = flip() ? pick(0, 4) : pick(0, machine.vectorStages);
  bool isReal = isFloat(v.a_type), savedReal = isReal;
  bool hasB = v.b_enable && !isMac, bReal = isFloat(v.b_type) || v.b_convert != 0;
  static const StageOp binaryInt[] = {StageOp::Iadd, StageOp::Isub, StageOp::Irsub, StageOp::Imul,
                                      StageOp::Imax, StageOp::Imin, StageOp::Idiv,  StageOp::Iridiv,
                                      StageOp::Ishr, StageOp::Iand, StageOp::Ior,   StageOp::Ixor};
  static const StageOp binaryReal[] = {StageOp::Fadd, StageOp::Fsub,  StageOp::Frsub, StageOp::Fmul,
                                       StageOp::Fdiv, StageOp::Frdiv, StageOp::Fmax,  StageOp::Fmin};
  static const StageOp unaryReal[] = {StageOp::Fabs, StageOp::Fneg,     StageOp::Ffloor, StageOp::Fsqrt, StageOp::Frsqrt,
                                      StageOp::Fexp, StageOp::Fsigmoid, StageOp::Ftanh,  StageOp::Ferf,  StageOp::Flog};
  auto immediate = [&](int64_t last) { return int64_t(StageOperand::Imm0) + pick(0, last); };
  auto binaryOperand = [&] {
    for (;;) {
      int64_t choice = pick(0, 3);
      if (choice == 0 && hasB && bReal == isReal)
        return int64_t(StageOperand::B);
      if (choice == 1 && savedReal == isReal)
        return int64_t(StageOperand::Saved);
      if (choice == 2 && v.p_count)
        return int64_t(StageOperand::P0) + pick(0, v.p_count - 1);
      if (choice == 3)
        return immediate(7);
    }
  };
  for (int64_t s = 0; s < v.num_stages; ++s) {
    StageOp op = StageOp::Nop;
    int64_t operand = 0;
    switch (pick(0, 10)) {
    case 0:
      op = StageOp::Save, savedReal = isReal;
      break;
    case 1:
      op = StageOp::LoadSaved, isReal = savedReal;
      break;
    case 2:
      if (hasB)
        op = StageOp::LoadB, isReal = bReal;
      break;
    case 3: // to the other domain
      if (isReal) {
        op = std::array{StageOp::F2i, StageOp::F2iTrunc, StageOp::Quantize}[pick(0, 2)];
        if (op == StageOp::Quantize)
          operand = immediate(7);
      } else {
        op = flip() ? StageOp::I2f : StageOp::Dequantize;
        if (op == StageOp::Dequantize)
          operand = immediate(6);
      }
      isReal = !isReal;
      break;
    case 4:
      if (isReal)
        op = unaryReal[pick(0, 9)];
      break;
    case 5:
      if (isReal && hasB && bReal)
        op = StageOp::FfmaB, operand = immediate(7);
      break;
    case 6:
      if (isReal)
        op = StageOp::Ffma, operand = immediate(6);
      break;
    default:
      op = isReal ? binaryReal[pick(0, 7)] : binaryInt[pick(0, 11)];
      operand = binaryOperand();
    }
    v.stage_op[s] = int64_t(op);
    v.stage_operand[s] = operand;
  }
  return isReal;
}

void RandomVector::sourceB(isa::Vector &v) {
  bool isMac = WindowOp(v.window_op) == WindowOp::Mac;
  v.b_enable = isMac || flip();
  if (!v.b_enable)
    return;
  v.b_type = isMac ? (isFloat(v.a_type) ? pick(3, 4) : pick(0, 2)) : pick(0, 4);
  v.b_memory = flip() ? v.a_memory : anyMemory();
  v.b_zero_point = zeroPoint(v.b_type);
  v.b_convert = isMac ? 0 : pick(0, 2);
  v.b_scale = pick(0, 7);
  for (int64_t &stride : v.b_strides)
    stride = pick(0, 6) * bytesOf(v.b_type);
  v.b_tap_stride = pick(0, 9) * bytesOf(v.b_type);
}

isa::Vector RandomVector::vector() {
  for (;;) {
    isa::Vector v;
    int64_t lanes = machine.lanes;
    v.counts = {flip() ? 1 : pick(1, 9), flip() ? 1 : pick(1, 3), flip() ? 1 : pick(1, 3), flip() ? 1 : pick(1, 4)};
    v.window_op = pick(0, 4);
    WindowOp window = WindowOp(v.window_op);
    v.window = {1, 1};
    if (window != WindowOp::None) {
      v.window = {pick(1, 3), pick(1, 3)};
      if (pick(0, 7) == 0)
        v.window = {pick(1, 7), pick(1, 7)};
    }
    v.a_type = pick(0, 4);
    v.a_memory = anyMemory();
    int64_t aBytes = bytesOf(v.a_type);
    for (int64_t &stride : v.a_strides)
      stride = pick(0, 12) * aBytes;
    for (int64_t &stride : v.a_window_strides)
      stride = pick(0, 9) * aBytes;
    if (flip()) {
      v.window_step = pick(1, pick(0, 3) ? 3 : 7);
      v.a_strides[0] = v.window_step * v.a_window_strides[0];
    }
    v.a_zero_point = zeroPoint(v.a_type);
    if (window != WindowOp::None && window != WindowOp::Mac)
      v.lane_reduce = flip();
    if (v.lane_reduce)
      v.tail_lanes = pick(0, lanes);
    sourceB(v);
    v.p_count = flip() ? 0 : pick(1, 4);
    for (int64_t &immediate : v.immediates)
      immediate = flip() ? int64_t(floatPattern()) : pick(0, 40);
    v.d_type = chain(v) ? pick(3, 4) : pick(0, 2);
    v.d_memory = anyMemory();
    int64_t dBytes = bytesOf(v.d_type);
    int64_t extent = lanes * dBytes;
    for (int d = 0; d < 4; ++d) {
      v.d_strides[d] = pick(0, 3) ? extent : pick(0, 30) * dBytes;
      extent = std::max(extent, v.d_strides[d] * v.counts[d]);
    }

    int64_t a = reachOf(v.a_strides, v.counts) + reachOf(v.a_window_strides, v.window) + lanes * aBytes;
    int64_t b = window == WindowOp::Mac ? v.b_strides[3] * (v.counts[3] - 1) + v.b_tap_stride * (v.window[0] * v.window[1] - 1)
                                        : reachOf(v.b_strides, v.counts);
    b += lanes * bytesOf(v.b_type);
    int64_t p = v.counts[3] * v.p_count * lanes * 4;
    int64_t d = reachOf(v.d_strides, v.counts) + lanes * dBytes;
    if (!place(a, 0, capacity(v.a_memory) / 2, aBytes, v.a_address, v.a_span))
      continue;
    if (v.b_enable && !place(b, 0, capacity(v.b_memory) / 2, bytesOf(v.b_type), v.b_address, v.b_span))
      continue;
    v.p_memory = anyMemory();
    if (!v.p_count)
      v.p_memory = 0;
    else if (!place(p, 0, capacity(v.p_memory) / 2, 4, v.p_address, v.p_span))
      continue;
    if (!place(d, capacity(v.d_memory) / 2, capacity(v.d_memory), dBytes, v.d_address, v.d_span))
      continue;
    return v;
  }
}

isa::Vector RandomVector::inPlace() {
  isa::Vector v;
  v.counts = {pick(1, 10), pick(1, 3), 1, 1};
  v.window = {1, 1};
  v.a_memory = v.d_memory = anyMemory();
  do {
    v.a_type = pick(0, 4);
    for (int64_t &immediate : v.immediates)
      immediate = floatPattern();
    v.d_type = chain(v) ? pick(3, 4) : pick(0, 2);
  } while (bytesOf(v.a_type) != bytesOf(v.d_type));
  int64_t extent = int64_t(machine.lanes) * bytesOf(v.a_type);
  v.a_strides = v.d_strides = {extent, extent * v.counts[0], 0, 0};
  v.a_address = v.d_address = capacity(v.a_memory) / 2;
  v.a_span = v.d_span = extent * v.counts[0] * v.counts[1];
  return v;
}
