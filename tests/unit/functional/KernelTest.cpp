//===- KernelTest.cpp - Every kernel against the reference, bit by bit ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Reference.h"
#include "TestMachine.h"
#include "isa/timing/FunctionTables.h"
#include "simulator/functional/Execute.h"

#include <algorithm>
#include <cfenv>
#include <random>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace tw;
using namespace tw::functional;
using namespace tw::test;
using isa::StageOp;
using isa::VectorType;

namespace {

/// Random legal instructions for one machine.
class Generator {
public:
  Generator(uint64_t seed, const timing::MachineParams &machine) : random(seed), machine(machine) {}

  int64_t pick(int64_t low, int64_t high) { return low + int64_t(random() % uint64_t(high - low + 1)); }
  bool flip() { return random() & 1; }

  /// A binary32 pattern: plain numbers, and often enough zeros, subnormals, infinities and NaN.
  uint32_t floatPattern() {
    static const uint32_t special[] = {0,          0x80000000, 1,          0x807fffff, 0x7f800000, 0xff800000,
                                       0x7fc00000, 0xffc12345, 0x7f7fffff, 0x3f000000, 0x4f000000, 0xcf000000};
    switch (pick(0, 7)) {
    case 0:
      return special[pick(0, 11)];
    case 1:
      return uint32_t(random());
    default: {
      float f = float(pick(-100000, 100000)) / float(pick(1, 2000));
      return timing::floatBits(f);
    }
    }
  }

  void fill(core::MachineState &state) {
    auto fillMemory = [&](uint8_t *memory, uint64_t bytes, bool floats) {
      for (uint64_t i = 0; i + 4 <= bytes; i += 4) {
        uint32_t value = floats ? floatPattern() : uint32_t(random());
        std::memcpy(memory + i, &value, 4);
      }
    };
    bool floats = flip();
    fillMemory(state.dram(), machine.dram.capacityBytes, false);
    for (int64_t memory : {0, 1, 7})
      fillMemory(state.memory(memory), state.memorySize(memory), floats);
    for (core::WeightTile *tile : {&state.shadow, &state.active}) {
      tile->clear();
      const bool fitsBytes = flip();
      for (uint32_t k = 0; k < machine.rows; ++k)
        for (uint32_t n = 0; n < machine.cols; ++n) {
          if (machine.arrayType == timing::ArrayType::Int8)
            tile->integer(k, n) = int16_t(fitsBytes ? pick(-128, 127) : pick(-255, 255));
          else
            tile->real(k, n) = timing::floatFromBits(floatPattern());
        }
    }
  }

  isa::Instruction load() {
    isa::Load load;
    box(load);
    for (int d = 0; d < 5; ++d)
      if (flip()) {
        load.low[d] = pick(0, load.counts[d]);
        load.high[d] = pick(0, load.counts[d] - load.low[d]);
      }
    load.fill = pick(0, (int64_t(1) << (8 << load.element_log2)) - 1);
    load.broadcast = pick(0, 3) == 0;
    return {isa::Operands(load)};
  }

  isa::Instruction store() {
    isa::Store store;
    box(store);
    return {isa::Operands(store)};
  }

  isa::Instruction preload() {
    isa::Preload preload;
    preload.memory = pick(0, 1);
    preload.k_count = pick(1, machine.rows);
    preload.n_count = pick(1, machine.cols);
    preload.transpose = flip();
    int64_t bytes = timing::elementBytes(machine.arrayType);
    preload.address = 4096 + pick(0, 100) * bytes;
    preload.row_stride = pick(0, 40) * bytes;
    preload.span = 8192;
    arrayOperand(preload.is_signed, preload.zero_point);
    return {isa::Operands(preload)};
  }

  isa::Instruction tensor() {
    isa::Tensor tensor;
    tensor.memory = pick(0, 1);
    tensor.swap = flip();
    tensor.accumulate = flip();
    tensor.k_count = flip() ? machine.rows : pick(1, machine.rows);
    tensor.counts = {pick(1, 12), pick(1, 4), pick(1, 3)};
    int64_t bytes = timing::elementBytes(machine.arrayType);
    tensor.address = pick(0, 100) * bytes;
    tensor.span = 8192;
    for (int64_t &stride : tensor.strides)
      stride = pick(0, 60) * bytes;
    // Each row once: the dimensions nest in a random order.
    std::array<int, 3> order = {0, 1, 2};
    std::shuffle(order.begin(), order.end(), random);
    int64_t extent = 1;
    for (int d : order) {
      tensor.acc_strides[d] = extent;
      extent *= tensor.counts[d];
    }
    tensor.acc_address = pick(0, 256 - extent);
    tensor.acc_span = extent;
    arrayOperand(tensor.is_signed, tensor.zero_point);
    return {isa::Operands(tensor)};
  }

  isa::Instruction vector() {
    isa::Vector v;
    int64_t lanes = machine.lanes;
    v.counts = {flip() ? pick(1, 6) : pick(1, 40), pick(1, 3), pick(1, 2), pick(1, 3)};
    v.window = {1, 1};
    v.window_op = pick(0, 4);
    isa::WindowOp window = isa::WindowOp(v.window_op);
    if (window != isa::WindowOp::None)
      v.window = {pick(1, 3), pick(1, 3)};
    v.a_type = pick(0, 4);
    int64_t aBytes = isa::elementBytes(VectorType(v.a_type));
    v.a_memory = pick(0, 2) == 2 ? 7 : 0;
    v.a_address = pick(0, 30) * 4;
    v.a_span = memorySpan(v.a_memory);
    for (int64_t &stride : v.a_strides)
      stride = pick(0, 8) * aBytes;
    if (flip())
      v.a_strides[0] = lanes * aBytes;
    for (int64_t &stride : v.a_window_strides)
      stride = pick(0, 6) * aBytes;
    v.a_zero_point = zeroPoint(v.a_type);
    if (window != isa::WindowOp::None && window != isa::WindowOp::Mac)
      v.lane_reduce = flip();
    if (v.lane_reduce)
      v.tail_lanes = pick(0, lanes);

    v.b_enable = window == isa::WindowOp::Mac || flip();
    v.b_type = window == isa::WindowOp::Mac ? (isFloat(v.a_type) ? pick(3, 4) : pick(0, 2)) : pick(0, 4);
    int64_t bBytes = isa::elementBytes(VectorType(v.b_type));
    v.b_memory = pick(0, 1);
    v.b_address = 2048;
    v.b_span = 6144;
    for (int64_t &stride : v.b_strides)
      stride = pick(0, 8) * bBytes;
    v.b_tap_stride = pick(0, 20) * bBytes;
    v.b_zero_point = zeroPoint(v.b_type);
    v.b_convert = window == isa::WindowOp::Mac || isFloat(v.b_type) ? 0 : pick(0, 2);
    v.b_scale = pick(0, 7);
    if (!v.b_enable)
      v.b_memory = v.b_type = v.b_address = v.b_span = v.b_tap_stride = v.b_zero_point = v.b_convert = v.b_scale = 0,
      v.b_strides = {};
    v.p_count = pick(0, 4);
    if (v.p_count) {
      v.p_memory = 1;
      v.p_address = 12288;
      v.p_span = 4096;
    }
    for (int64_t &immediate : v.immediates)
      immediate = flip() ? int64_t(floatPattern()) : pick(0, 40);
    bool endsFloat = chain(v, window == isa::WindowOp::Mac);
    v.d_type = endsFloat ? pick(3, 4) : pick(0, 2);
    int64_t dBytes = isa::elementBytes(VectorType(v.d_type));
    v.d_memory = v.a_memory == 7 && flip() ? 0 : 7;
    if (pick(0, 3) == 0)
      v.d_memory = v.a_memory;
    v.d_address = v.d_memory == v.a_memory && flip() ? v.a_address / dBytes * dBytes : pick(0, 100) * 4;
    v.d_span = memorySpan(v.d_memory);
    int64_t extent = lanes * dBytes;
    std::array<int, 4> order = {0, 1, 2, 3};
    if (flip())
      std::shuffle(order.begin(), order.end(), random);
    for (int d : order) {
      v.d_strides[d] = pick(0, 3) ? extent : extent + 4;
      extent = v.d_strides[d] * v.counts[d];
    }
    if (aBytes == dBytes && flip())
      v.a_strides = v.d_strides;
    if (v.d_address + extent > v.d_span)
      v.d_strides = {0, 4, 8, 0};
    fit(v);
    return {isa::Operands(v)};
  }

private:
  static bool isFloat(int64_t type) { return isa::isFloat(VectorType(type)); }
  int64_t memorySpan(int64_t memory) const { return memory == 7 ? int64_t(machine.accumulator.capacityBytes) - 512 : 8192; }
  /// Fewer vectors where source or destination would leave their spans.
  void fit(isa::Vector &v) {
    auto reach = [&](const std::array<int64_t, 4> &strides, int64_t extra) {
      int64_t end = extra;
      for (int d = 0; d < 4; ++d)
        end += strides[d] * (v.counts[d] - 1);
      return end;
    };
    auto tooFar = [&] {
      int64_t lanes = machine.lanes;
      int64_t a = reach(v.a_strides, lanes * isa::elementBytes(VectorType(v.a_type)) +
                                         v.a_window_strides[0] * (v.window[0] - 1) + v.a_window_strides[1] * (v.window[1] - 1));
      return a > v.a_span || reach(v.d_strides, lanes * isa::elementBytes(VectorType(v.d_type))) > v.d_span ||
             v.a_address + v.a_span > capacity(v.a_memory) || v.d_address + v.d_span > capacity(v.d_memory);
    };
    v.a_span = std::min(v.a_span, capacity(v.a_memory) - v.a_address);
    v.d_span = std::min(v.d_span, capacity(v.d_memory) - v.d_address);
    while (tooFar()) {
      int64_t *largest = std::max_element(v.counts.begin(), v.counts.end());
      if (*largest == 1) {
        v.a_address = v.d_address = 0;
        break;
      }
      *largest = (*largest + 1) / 2;
    }
  }
  int64_t capacity(int64_t memory) const { return memory == 7 ? int64_t(machine.accumulator.capacityBytes) : 16384; }

  void arrayOperand(int64_t &isSigned, int64_t &zero) {
    if (machine.arrayType != timing::ArrayType::Int8)
      return;
    isSigned = flip();
    zero = isSigned ? pick(-128, 127) : pick(0, 255);
  }
  int64_t zeroPoint(int64_t type) {
    if (VectorType(type) == VectorType::I8)
      return pick(-128, 127);
    return VectorType(type) == VectorType::U8 ? pick(0, 255) : 0;
  }

  template <typename Box> void box(Box &box) {
    box.memory = pick(0, 1);
    box.element_log2 = pick(0, 2);
    int64_t bytes = int64_t(1) << box.element_log2;
    box.counts = {pick(1, 20), pick(1, 4), pick(1, 4), pick(1, 3), pick(1, 3)};
    box.address = 4096 + bytes * pick(0, 10);
    box.span = 8192;
    box.dram_address = 8192 + bytes * pick(0, 10);
    if (flip()) { // dense on both sides, where runs merge
      int64_t extent = box.counts[0] * bytes;
      for (int d = 0; d < 4; ++d) {
        box.strides[d] = box.dram_strides[d] = extent;
        extent *= box.counts[d + 1];
      }
      if (extent <= 8000)
        return;
    }
    for (int d = 0; d < 4; ++d) {
      box.strides[d] = pick(0, 100) * bytes;
      box.dram_strides[d] = pick(-100, 100) * bytes;
    }
  }

  /// Fills the chain; true if it ends in the float domain.
  bool chain(isa::Vector &v, bool isMac) {
    v.num_stages = pick(0, 12);
    bool isFloatNow = isFloat(v.a_type), savedFloat = isFloatNow;
    bool hasB = v.b_enable && !isMac, bFloat = isFloat(v.b_type) || v.b_convert != 0;
    static const StageOp binaryInt[] = {StageOp::Iadd, StageOp::Isub, StageOp::Irsub, StageOp::Imul,
                                        StageOp::Imax, StageOp::Imin, StageOp::Idiv,  StageOp::Iridiv,
                                        StageOp::Ishr, StageOp::Iand, StageOp::Ior,   StageOp::Ixor};
    static const StageOp binaryFloat[] = {StageOp::Fadd, StageOp::Fsub,  StageOp::Frsub, StageOp::Fmul,
                                          StageOp::Fdiv, StageOp::Frdiv, StageOp::Fmax,  StageOp::Fmin};
    static const StageOp unaryFloat[] = {StageOp::Fabs, StageOp::Fneg,     StageOp::Ffloor, StageOp::Fsqrt, StageOp::Frsqrt,
                                         StageOp::Fexp, StageOp::Fsigmoid, StageOp::Ftanh,  StageOp::Ferf,  StageOp::Flog};
    for (int64_t s = 0; s < v.num_stages; ++s) {
      StageOp op = StageOp::Nop;
      int64_t operand = 0;
      auto binaryOperand = [&] {
        for (;;) {
          int64_t choice = pick(0, 3);
          if (choice == 0 && hasB && bFloat == isFloatNow)
            return int64_t(1);
          if (choice == 1 && savedFloat == isFloatNow)
            return int64_t(2);
          if (choice == 2 && v.p_count)
            return 8 + pick(0, v.p_count - 1);
          if (choice == 3)
            return 16 + pick(0, 7);
        }
      };
      switch (pick(0, 9)) {
      case 0:
        op = StageOp::Save, savedFloat = isFloatNow;
        break;
      case 1:
        op = StageOp::LoadSaved, isFloatNow = savedFloat;
        break;
      case 2:
        if (hasB)
          op = StageOp::LoadB, isFloatNow = bFloat;
        break;
      case 3: // to the other domain
        if (isFloatNow) {
          op = std::array{StageOp::F2i, StageOp::F2iTrunc, StageOp::Quantize}[pick(0, 2)];
          if (op == StageOp::Quantize)
            operand = 16 + pick(0, 7);
        } else {
          op = flip() ? StageOp::I2f : StageOp::Dequantize;
          if (op == StageOp::Dequantize)
            operand = 16 + pick(0, 6);
        }
        isFloatNow = !isFloatNow;
        break;
      case 4:
        if (isFloatNow)
          op = unaryFloat[pick(0, 9)];
        break;
      case 5:
        if (isFloatNow && hasB && bFloat)
          op = StageOp::FfmaB, operand = 16 + pick(0, 7);
        break;
      case 6:
        if (isFloatNow)
          op = StageOp::Ffma, operand = 16 + pick(0, 6);
        break;
      default:
        op = isFloatNow ? binaryFloat[pick(0, 7)] : binaryInt[pick(0, 11)];
        operand = binaryOperand();
      }
      v.stage_op[s] = int64_t(op);
      v.stage_operand[s] = operand;
    }
    return isFloatNow;
  }

  std::mt19937_64 random;
  const timing::MachineParams &machine;
};

using Make = isa::Instruction (Generator::*)();

/// Runs `count` random instructions through the reference and all kernels of the host.
void compare(const timing::MachineParams &machine, Make make, int count) {
  core::MachineState state(machine);
  for (int seed = 1; seed <= count; ++seed) {
    Generator generator(uint64_t(seed), machine);
    isa::Instruction instruction = (generator.*make)();
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + isa::print(instruction));
    std::optional<std::string> problem = isa::illegal(instruction, machine);
    ASSERT_FALSE(problem) << *problem;
    problem = isa::outOfRange(instruction, machine);
    ASSERT_FALSE(problem) << *problem;

    generator.fill(state);
    Image expected(state);
    refer(instruction, machine, expected);
    for (Kernel kernel : availableKernels()) {
      Generator again(uint64_t(seed), machine);
      (again.*make)();
      again.fill(state);
      execute(instruction, state, kernel);
      ASSERT_EQ(Image(state).difference(expected), "") << "kernel " << int(kernel);
    }
  }
}

std::vector<timing::MachineParams> machines() {
  std::vector<timing::MachineParams> machines;
  for (timing::ArrayType type : {timing::ArrayType::Int8, timing::ArrayType::Bf16, timing::ArrayType::Fp32})
    for (auto [rows, cols] :
         {std::pair(8u, 8u), std::pair(16u, 16u), std::pair(32u, 16u), std::pair(4u, 32u), std::pair(1u, 2u)})
      machines.push_back(testMachine(type, rows, cols, cols));
  return machines;
}

TEST(KernelTest, LoadsEqualTheReference) { compare(testMachine(timing::ArrayType::Int8), &Generator::load, 600); }
TEST(KernelTest, StoresEqualTheReference) { compare(testMachine(timing::ArrayType::Int8), &Generator::store, 300); }

TEST(KernelTest, PreloadsEqualTheReference) {
  for (const timing::MachineParams &machine : machines())
    compare(machine, &Generator::preload, 20);
}

TEST(KernelTest, TensorInstructionsEqualTheReference) {
  for (const timing::MachineParams &machine : machines())
    compare(machine, &Generator::tensor, 80);
}

TEST(KernelTest, VectorInstructionsEqualTheReference) {
  for (uint32_t lanes : {4u, 8u, 16u, 32u, 6u})
    compare(testMachine(timing::ArrayType::Int8, 4, 16, lanes), &Generator::vector, 300);
}

TEST(KernelTest, LargeArraysEqualTheReference) {
  compare(testMachine(timing::ArrayType::Bf16, 128, 128, 128), &Generator::tensor, 3);
  compare(testMachine(timing::ArrayType::Int8, 128, 128, 128), &Generator::tensor, 3);
}

TEST(KernelTest, ResultsDoNotDependOnTheCallersFloatingPointMode) {
  timing::MachineParams machine = testMachine(timing::ArrayType::Fp32, 16, 16, 16);
  core::MachineState state(machine);
  Generator generator(7, machine);
  isa::Instruction instruction = generator.tensor();
  generator.fill(state);
  Image expected(state);
  refer(instruction, machine, expected);
  int rounding = std::fegetround();
  std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
#endif
  execute(instruction, state);
#if defined(__x86_64__)
  EXPECT_EQ(unsigned(_MM_GET_FLUSH_ZERO_MODE()), unsigned(_MM_FLUSH_ZERO_ON));
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_OFF);
#endif
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(rounding);
  EXPECT_EQ(Image(state).difference(expected), "");
}

} // namespace
