//===- InstructionTest.cpp - Each instruction on cases worked by hand -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "TestMachine.h"
#include "isa/timing/FunctionTables.h"
#include "simulator/functional/Execute.h"

#include <limits>

using namespace tw;
using namespace tw::functional;
using namespace tw::test;
using timing::ArrayType;

namespace {

/// Every case runs with every kernel of the host.
class InstructionTest : public testing::TestWithParam<Kernel> {
protected:
  void execute(core::MachineState &state, const std::string &line) {
    isa::Instruction instruction = parseLine(line);
    ASSERT_EQ(isa::illegal(instruction, state.machine()).value_or(""), "") << line;
    ASSERT_EQ(isa::outOfRange(instruction, state.machine()).value_or(""), "") << line;
    functional::execute(instruction, state, GetParam());
  }
};
std::string kernelName(const testing::TestParamInfo<Kernel> &info) {
  static const char *const names[] = {"Plain", "Portable", "Avx2", "Avx512"};
  return names[size_t(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Kernels, InstructionTest, testing::ValuesIn(availableKernels()), kernelName);

using Bytes = std::vector<uint8_t>;
using Ints = std::vector<int32_t>;
using Floats = std::vector<float>;
using Words = std::vector<uint32_t>;

TEST_P(InstructionTest, LoadCopiesABoxWithPadding) {
  core::MachineState state(testMachine(ArrayType::Int8));
  // A 2 x 3 picture in rows of 4 bytes becomes 4 x 5 with a border of 9.
  writeValues(state.dram() + 100, Bytes{1, 2, 3, 0, 4, 5, 6});
  execute(state, "load dram_address=100 address=8 span=20 counts=[5,4,1,1,1] dram_strides=[4] strides=[5] low=[1,1] high=[1,1] "
                 "fill=9");
  EXPECT_EQ(readValues<uint8_t>(state.memory(0) + 8, 20), (Bytes{9, 9, 9, 9, 9, 9, 1, 2, 3, 9, 9, 4, 5, 6, 9, 9, 9, 9, 9, 9}));
  EXPECT_EQ(state.memory(0)[7], 0);
  EXPECT_EQ(state.memory(0)[28], 0);
}

TEST_P(InstructionTest, LoadRepeatsOneElement) {
  core::MachineState state(testMachine(ArrayType::Int8));
  writeValues(state.dram() + 64, Words{0x11223344, 0x55667788});
  execute(state, "load memory=scratchpad1 dram_address=64 address=0 span=24 element_log2=2 counts=[3,2,1,1,1] dram_strides=[4] "
                 "strides=[12] broadcast=1");
  EXPECT_EQ(readValues<uint32_t>(state.memory(1), 6),
            (Words{0x11223344, 0x11223344, 0x11223344, 0x55667788, 0x55667788, 0x55667788}));
}

TEST_P(InstructionTest, StoreTransposesByStrides) {
  core::MachineState state(testMachine(ArrayType::Int8));
  writeValues(state.memory(0), Bytes{1, 2, 3, 4, 5, 6}); // 2 x 3 of bytes, written 3 x 2
  execute(state, "store dram_address=200 address=0 span=6 counts=[1,3,2,1,1] dram_strides=[2,1] strides=[1,3]");
  EXPECT_EQ(readValues<uint8_t>(state.dram() + 200, 6), (Bytes{1, 4, 2, 5, 3, 6}));
}

TEST_P(InstructionTest, TensorMultipliesWithZeroPoints) {
  core::MachineState state(testMachine(ArrayType::Int8));
  // Weights 2 x 2, stored by rows, minus 1: {{1, -3}, {0, 4}}.
  writeValues(state.memory(1), std::vector<int8_t>{2, -2, 1, 5});
  // Activations, unsigned, minus 128: {2, -1} and {127, 127}; the second row's third byte must not matter.
  writeValues(state.memory(0), Bytes{130, 127, 99, 255, 255, 99});
  execute(state, "preload memory=scratchpad1 address=0 span=4 row_stride=2 k_count=2 n_count=2 is_signed=1 zero_point=1");
  execute(state, "tensor address=0 span=5 acc_address=3 acc_span=2 counts=[2,1,1] strides=[3] acc_strides=[1] swap=1 "
                 "zero_point=128 k_count=2");
  // {2 * 1 + -1 * 0, 2 * -3 + -1 * 4} and {127 * 1, 127 * -3 + 127 * 4}; the unused columns get 0.
  EXPECT_EQ(readValues<int32_t>(state.memory(7) + 3 * 16, 8), (Ints{2, -10, 0, 0, 127, 127, 0, 0}));
  execute(state, "tensor address=0 span=5 acc_address=3 acc_span=2 counts=[2,1,1] strides=[3] acc_strides=[1] accumulate=1 "
                 "zero_point=128 k_count=2");
  EXPECT_EQ(readValues<int32_t>(state.memory(7) + 3 * 16, 8), (Ints{4, -20, 0, 0, 254, 254, 0, 0}));
}

TEST_P(InstructionTest, TensorSumsAreModulo2To32) {
  core::MachineState state(testMachine(ArrayType::Int8));
  writeValues(state.memory(7), Ints{INT32_MAX, INT32_MIN, 0, 0});
  writeValues(state.memory(1), std::vector<int8_t>{1, -1});
  writeValues(state.memory(0), Bytes{1});
  execute(state, "preload memory=scratchpad1 address=0 span=2 row_stride=2 k_count=1 n_count=2 is_signed=1");
  execute(state, "tensor address=0 span=1 acc_span=1 counts=[1,1,1] swap=1 accumulate=1 k_count=1");
  EXPECT_EQ(readValues<int32_t>(state.memory(7), 2), (Ints{INT32_MIN, INT32_MAX}));
}

TEST_P(InstructionTest, TransposedPreload) {
  core::MachineState state(testMachine(ArrayType::Fp32));
  writeValues(state.memory(0), Floats{1, 2, 3, 4, 5, 6}); // n = 2 rows of k = 3
  writeValues(state.memory(1), Floats{1, 10, 100});
  execute(state, "preload address=0 span=24 row_stride=12 k_count=3 n_count=2 transpose=1");
  execute(state, "tensor memory=scratchpad1 address=0 span=12 acc_span=1 counts=[1,1,1] swap=1 k_count=3");
  EXPECT_EQ(readValues<float>(state.memory(7), 4), (Floats{321, 654, 0, 0}));
}

TEST_P(InstructionTest, FloatSumsGoUpATreeOfNeighbours) {
  core::MachineState state(testMachine(ArrayType::Fp32));
  // (2^24 + 1) + (1 - 2^24): the first sum rounds to 2^24, the second is exact, together 1; one by one it would be 0.
  writeValues(state.memory(0), Floats{0x1p24f, 1, 1, -0x1p24f});
  writeValues(state.memory(1), Floats{1, 1, 1, 1});
  execute(state, "preload memory=scratchpad1 address=0 span=16 row_stride=4 k_count=4 n_count=1");
  execute(state, "tensor address=0 span=16 acc_span=1 counts=[1,1,1] swap=1 k_count=4");
  EXPECT_EQ(readValues<float>(state.memory(7), 1), (Floats{1}));
  writeValues(state.memory(0), Floats{1, 1, 0x1p24f, -0x1p24f});
  writeValues(state.memory(7), Floats{0x1p24f});
  execute(state, "tensor address=0 span=16 acc_span=1 counts=[1,1,1] accumulate=1 k_count=4");
  // The tree gives 2 and only then meets the accumulator; one by one both units would be lost.
  EXPECT_EQ(readValues<float>(state.memory(7), 1), (Floats{0x1p24f + 2}));
}

TEST_P(InstructionTest, NanInTheAccumulatorIsCanonical) {
  core::MachineState state(testMachine(ArrayType::Bf16));
  writeValues(state.memory(0), std::vector<uint16_t>{0xff81}); // negative signalling NaN
  writeValues(state.memory(1), std::vector<uint16_t>{0x3f80});
  execute(state, "preload memory=scratchpad1 address=0 span=2 row_stride=2 k_count=1 n_count=1");
  execute(state, "tensor address=0 span=2 acc_span=1 counts=[1,1,1] swap=1 k_count=1");
  // The weights of the other columns are 0, and NaN * 0 is NaN.
  EXPECT_EQ(readValues<uint32_t>(state.memory(7), 4), (Words{0x7fc00000, 0x7fc00000, 0x7fc00000, 0x7fc00000}));
}

TEST_P(InstructionTest, SubnormalProductsAreKept) {
  core::MachineState state(testMachine(ArrayType::Fp32));
  writeValues(state.memory(0), Floats{0x1p-100f});
  writeValues(state.memory(1), Floats{0x1p-40f});
  execute(state, "preload memory=scratchpad1 address=0 span=4 row_stride=4 k_count=1 n_count=1");
  execute(state, "tensor address=0 span=4 acc_span=1 counts=[1,1,1] swap=1 k_count=1");
  EXPECT_EQ(readValues<float>(state.memory(7), 1), (Floats{0x1p-140f}));
}

TEST_P(InstructionTest, RequantiseRoundsToEvenThenAddsTheZeroPoint) {
  core::MachineState state(testMachine(ArrayType::Int8));
  // acc + bias, times 0.5: {2.5, 3.5, -2.5, 1000}; to even {2, 4, -2, 1000}; plus 3; saturated.
  writeValues(state.memory(7), Ints{4, 5, -6, 1995});
  writeValues(state.memory(1), Ints{1, 2, 1, 5}); // bias
  writeValues(state.memory(1) + 16, Floats{0.5f, 0.5f, 0.5f, 0.5f});
  execute(state,
          "vector a_memory=accumulator a_type=i32 a_span=16 d_type=i8 d_address=0 d_span=4 p_memory=scratchpad1 p_span=32 "
          "p_count=2 counts=[1,1,1,1] window=[1,1] num_stages=4 stage=[iadd:p0,i2f:none,fmul:p1,quantize:imm0] immediates=[3]");
  EXPECT_EQ(readValues<int8_t>(state.memory(0), 4), (std::vector<int8_t>{5, 7, 1, 127}));
}

TEST_P(InstructionTest, WindowMaximumPoolsTwoByTwo) {
  core::MachineState state(testMachine(ArrayType::Int8));
  // 2 x 4 pixels of 4 channels.
  writeValues(state.memory(0), std::vector<int8_t>{1, 2, 3, 4, 5, 1, -1, 0,  9, 9, 9, 9, 0, 0, 0, -9,
                                                   0, 3, 3, 8, 2, 2, 2,  -7, 1, 1, 1, 1, 8, 8, 8, -8});
  execute(state, "vector a_type=i8 a_span=32 a_strides=[8] a_window_strides=[4,16] d_memory=scratchpad1 d_type=i8 d_span=8 "
                 "d_strides=[4] counts=[2,1,1,1] window=[2,2] window_op=max");
  EXPECT_EQ(readValues<int8_t>(state.memory(1), 8), (std::vector<int8_t>{5, 3, 3, 8, 9, 9, 9, 9}));
}

TEST_P(InstructionTest, DepthwiseMacTakesItsWeightsPerTapAndBlock) {
  core::MachineState state(testMachine(ArrayType::Int8));
  writeValues(state.memory(0), std::vector<int8_t>{1, 2, 3, 4, 5, 6, 7, 8}); // two pixels
  writeValues(state.memory(1), std::vector<int8_t>{1, 1, 1, 1, 2, 0, -1, 10});
  execute(state, "vector a_type=i8 a_span=8 a_window_strides=[4,0] a_zero_point=1 b_enable=1 b_memory=scratchpad1 b_type=i8 "
                 "b_span=8 b_tap_stride=4 d_type=i32 d_address=16 d_span=16 counts=[1,1,1,1] window=[2,1] window_op=mac");
  // (a0 - 1) * b0 + (a1 - 1) * b1
  EXPECT_EQ(readValues<int32_t>(state.memory(0) + 16, 4), (Ints{0 + 8, 1 + 0, 2 - 6, 3 + 70}));
}

TEST_P(InstructionTest, LaneReduceLeavesOutTheTail) {
  core::MachineState state(testMachine(ArrayType::Int8));
  writeValues(state.memory(0), Floats{1, 2, 3, 4, 10, 20, 1000, 2000});
  execute(state, "vector a_type=f32 a_span=32 a_window_strides=[16] d_type=f32 d_address=64 d_span=16 counts=[1,1,1,1] "
                 "window=[2,1] window_op=sum lane_reduce=1 tail_lanes=2");
  EXPECT_EQ(readValues<float>(state.memory(0) + 64, 4), (Floats{40, 40, 40, 40}));
  execute(state, "vector a_type=f32 a_span=32 d_type=f32 d_address=64 d_span=16 counts=[1,1,1,1] "
                 "window=[1,1] window_op=max lane_reduce=1 tail_lanes=3");
  EXPECT_EQ(readValues<float>(state.memory(0) + 64, 4), (Floats{3, 3, 3, 3}));
}

TEST_P(InstructionTest, SumsOfSquaresRoundEachSquare) {
  core::MachineState state(testMachine(ArrayType::Int8));
  // 4097^2 = 16785409 is rounded to 16785408, and so are 16785409, 16785433 to 16785432.
  writeValues(state.memory(0), Floats{4097, -3, 0, 2, 1, 4, 1000, 2000});
  execute(state, "vector a_type=f32 a_span=32 a_window_strides=[16] d_type=f32 d_address=64 d_span=16 counts=[1,1,1,1] "
                 "window=[2,1] window_op=sum_squares");
  EXPECT_EQ(readValues<float>(state.memory(0) + 64, 4), (Floats{16785408, 25, 1e6, 4000004}));
  execute(state, "vector a_type=f32 a_span=32 a_window_strides=[16] d_type=f32 d_address=64 d_span=16 counts=[1,1,1,1] "
                 "window=[2,1] window_op=sum_squares lane_reduce=1 tail_lanes=2");
  EXPECT_EQ(readValues<float>(state.memory(0) + 64, 4), (Floats{16785436, 16785436, 16785436, 16785436}));
  writeValues(state.memory(0), std::vector<int8_t>{-128, 3, 0, 2});
  execute(state, "vector a_type=i8 a_span=4 a_zero_point=1 d_type=i32 d_address=64 d_span=16 counts=[1,1,1,1] window=[1,1] "
                 "window_op=sum_squares");
  EXPECT_EQ(readValues<int32_t>(state.memory(0) + 64, 4), (std::vector<int32_t>{16641, 4, 1, 1}));
}

TEST_P(InstructionTest, MaximumKnowsZerosAndNan) {
  core::MachineState state(testMachine(ArrayType::Int8));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  writeValues(state.memory(0), Floats{0.0f, -0.0f, -nan, 1});
  writeValues(state.memory(1), Floats{-0.0f, 0.0f, 1, nan});
  execute(state, "vector a_type=f32 a_span=16 b_enable=1 b_memory=scratchpad1 b_type=f32 b_span=16 d_type=f32 d_address=64 "
                 "d_span=16 counts=[1,1,1,1] window=[1,1] num_stages=1 stage=[fmax:b]");
  EXPECT_EQ(readValues<uint32_t>(state.memory(0) + 64, 4), (Words{0, 0, 0x7fc00000, 0x7fc00000}));
  execute(state, "vector a_type=f32 a_span=16 b_enable=1 b_memory=scratchpad1 b_type=f32 b_span=16 d_type=f32 d_address=64 "
                 "d_span=16 counts=[1,1,1,1] window=[1,1] num_stages=1 stage=[fmin:b]");
  EXPECT_EQ(readValues<uint32_t>(state.memory(0) + 64, 4), (Words{0x80000000, 0x80000000, 0x7fc00000, 0x7fc00000}));
}

TEST_P(InstructionTest, IntegerDivisionHasNoTraps) {
  core::MachineState state(testMachine(ArrayType::Int8));
  writeValues(state.memory(0), Ints{7, -7, INT32_MIN, 5});
  writeValues(state.memory(1), Ints{2, 2, -1, 0});
  execute(state, "vector a_type=i32 a_span=16 b_enable=1 b_memory=scratchpad1 b_type=i32 b_span=16 d_type=i32 d_address=64 "
                 "d_span=16 counts=[1,1,1,1] window=[1,1] num_stages=1 stage=[idiv:b]");
  EXPECT_EQ(readValues<int32_t>(state.memory(0) + 64, 4), (Ints{3, -3, INT32_MIN, 0}));
}

TEST_P(InstructionTest, FloatToIntegerSaturatesAndNanIsZero) {
  core::MachineState state(testMachine(ArrayType::Int8));
  writeValues(state.memory(0), Floats{3e9f, -3e9f, std::numeric_limits<float>::quiet_NaN(), -2.5f});
  execute(state, "vector a_type=f32 a_span=16 d_type=i32 d_address=64 d_span=16 counts=[1,1,1,1] window=[1,1] num_stages=1 "
                 "stage=[f2i:none]");
  EXPECT_EQ(readValues<int32_t>(state.memory(0) + 64, 4), (Ints{INT32_MAX, INT32_MIN, 0, -2}));
  execute(state, "vector a_type=f32 a_span=16 d_type=i32 d_address=64 d_span=16 counts=[1,1,1,1] window=[1,1] num_stages=1 "
                 "stage=[quantize:imm0] immediates=[5]");
  EXPECT_EQ(readValues<int32_t>(state.memory(0) + 64, 4), (Ints{INT32_MAX, INT32_MIN + 5, 5, 3}));
}

TEST_P(InstructionTest, Bf16IsWrittenRoundedToEven) {
  core::MachineState state(testMachine(ArrayType::Int8));
  writeValues(state.memory(0), Words{0x3f808000, 0x3f818000, 0x7f7fffff, 0xffffffff});
  execute(state, "vector a_type=f32 a_span=16 d_type=bf16 d_address=64 d_span=8 counts=[1,1,1,1] window=[1,1]");
  EXPECT_EQ(readValues<uint16_t>(state.memory(0) + 64, 4), (std::vector<uint16_t>{0x3f80, 0x3f82, 0x7f80, 0x7fc0}));
}

TEST_P(InstructionTest, SavedValuesMakeAHardSwish) {
  core::MachineState state(testMachine(ArrayType::Int8));
  // x * min(max(x / 6 + 1/2, 0), 1), with 1/4 instead of 1/6 so that every step is exact.
  writeValues(state.memory(0), Floats{-4, -1, 1, 8});
  execute(state, "vector a_type=f32 a_span=16 d_type=f32 d_address=64 d_span=16 counts=[1,1,1,1] window=[1,1] num_stages=4 "
                 "stage=[ffma:imm0,fmax:imm2,fmin:imm3,fmul:saved] immediates=[0.25f,0.5f,0.0f,1.0f]");
  EXPECT_EQ(readValues<float>(state.memory(0) + 64, 4), (Floats{-0.0f, -0.25f, 0.75f, 8}));
}

TEST_P(InstructionTest, FmaRoundsOnce) {
  core::MachineState state(testMachine(ArrayType::Int8));
  // (1 + 2^-12)^2 - (1 + 2^-11) = 2^-24; with a rounded product the difference would be 0.
  float x = 1 + 0x1p-12f;
  writeValues(state.memory(0), Floats{x, x, x, x});
  execute(state, "vector a_type=f32 a_span=16 d_type=f32 d_address=64 d_span=16 counts=[1,1,1,1] window=[1,1] num_stages=1 "
                 "stage=[ffma:imm0] immediates=[0x3f800800,0xbf801000]");
  EXPECT_EQ(readValues<float>(state.memory(0) + 64, 1), (Floats{0x1p-24f}));
}

TEST_P(InstructionTest, ResidualIsDequantisedOnTheWay) {
  core::MachineState state(testMachine(ArrayType::Int8));
  writeValues(state.memory(0), std::vector<int8_t>{10, 20, 30, 40});
  writeValues(state.memory(1), Bytes{130, 128, 126, 0});
  // (a + 10) * 0.5 + (b - 128) * 0.25
  execute(state, "vector a_type=i8 a_span=4 a_zero_point=-10 b_enable=1 b_memory=scratchpad1 b_type=u8 b_span=4 "
                 "b_zero_point=128 b_convert=dequantize b_scale=1 d_type=f32 d_address=64 d_span=16 counts=[1,1,1,1] "
                 "window=[1,1] num_stages=3 stage=[i2f:none,fmul:imm0,fadd:b] immediates=[0.5f,0.25f]");
  EXPECT_EQ(readValues<float>(state.memory(0) + 64, 4), (Floats{10.5f, 15, 19.5f, -7}));
}

} // namespace
