//===- LegalityTest.cpp - What a machine accepts ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/Legality.h"

#include "isa/Odometer.h"
#include "tests/isa/RandomInstruction.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::isa;
using namespace tw::isa::test;

namespace {

const std::string kLoad = "load address=0 span=64 counts=[64,1,1,1,1] ";
const std::string kStore = "store address=0 span=64 counts=[64,1,1,1,1] ";
const std::string kPreload = "preload memory=scratchpad1 span=64 row_stride=8 k_count=8 n_count=8 ";
const std::string kTensor = "tensor span=64 acc_span=8 counts=[8,1,1] "
                            "strides=[8] acc_strides=[1] k_count=8 ";
const std::string kVector = "vector a_memory=accumulator a_type=i32 a_span=32 d_type=i32 d_span=32 "
                            "counts=[1,1,1,1] window=[1,1] ";

Instruction parsed(const std::string &text) {
  Result<Instruction> instruction = parse(text);
  EXPECT_TRUE(instruction) << text << "\n" << instruction.message();
  return instruction ? *instruction : Instruction();
}

std::string whyIllegal(const std::string &text, const timing::MachineParams &machine = testMachine()) {
  return illegal(parsed(text), machine).value_or("legal");
}

std::string whyOut(const std::string &text) {
  EXPECT_EQ(whyIllegal(text), "legal");
  return outOfRange(parsed(text), testMachine()).value_or("in range");
}

} // namespace

TEST(LegalityTest, PlainInstructionsAreLegal) {
  for (const std::string &text :
       {std::string("halt"), std::string("loop count=1 body_words=1"), kLoad, kStore, kPreload, kTensor, kVector}) {
    EXPECT_EQ(whyIllegal(text), "legal");
    EXPECT_EQ(whyOut(text), "in range");
  }
}

TEST(LegalityTest, UnitsAndMemoriesMustExist) {
  EXPECT_EQ(whyIllegal(kLoad + "unit=1"), "legal");
  EXPECT_EQ(whyIllegal(kLoad + "unit=2"), "load: unit is 2, the machine has 2");
  EXPECT_EQ(whyIllegal(kTensor + "unit=1"), "tensor: unit is 1, the machine has 1");
  EXPECT_EQ(whyIllegal(kLoad + "memory=accumulator"), "load: memory is accumulator, must be a scratchpad");
  timing::MachineParams unified = testMachine();
  unified.scratchpads.resize(1);
  EXPECT_EQ(whyIllegal(kLoad + "memory=scratchpad1", unified), "load: memory is scratchpad1, which this machine has not got");
}

TEST(LegalityTest, SemaphoresMustExist) {
  EXPECT_EQ(whyIllegal(kLoad + "wait=[15:15]"), "legal");
  EXPECT_EQ(whyIllegal(kLoad + "wait=[0:0,16:1]"), "load: wait_semaphore[1] is 16, the machine has 16");
  EXPECT_EQ(whyIllegal(kLoad + "post=[63:0]"), "legal");
  timing::MachineParams small = testMachine();
  small.semaphoreMax = 7;
  EXPECT_EQ(whyIllegal(kLoad + "post=[1:8]", small), "load: post_count[0] is 8, the machine has semaphore_max = 7");
}

TEST(LegalityTest, TheSequencerHasNoSynchronisation) {
  EXPECT_EQ(whyIllegal("halt wait=[1:1]"), "halt: wait_semaphore[0] is 1, must be 0 for the sequencer");
  EXPECT_EQ(whyIllegal("loop count=0 body_words=1"), "loop: count is 0, must be at least 1");
  EXPECT_EQ(whyIllegal("loop count=1 body_words=65"), "loop: body_words is 65, the machine has loop_buffer_words = 64");
}

TEST(LegalityTest, MasksLevelsAndEdges) {
  EXPECT_EQ(whyIllegal(kLoad + "wait_mask=2 levels=[{count=1}]"), "load: wait_mask is 2, but there are only 1 levels");
  EXPECT_EQ(whyIllegal(kLoad + "levels=[{count=0}]"), "load: level 0: count is 0, must be at least 1");
  EXPECT_EQ(whyIllegal(kLoad + "levels=[{count=2 stride_c=4}]"),
            "load: level 0: stride_c is 4, but the instruction has no such address");
  EXPECT_EQ(whyIllegal(kTensor + "clear_mask=1"), "tensor: clear_mask is 1, but there are only 0 levels");
  EXPECT_EQ(whyIllegal(kTensor + "edge=[0:2:1] levels=[{count=2}]"), "legal");
  EXPECT_EQ(whyIllegal(kTensor + "edge=[0:3:1] levels=[{count=2}]"),
            "tensor: edge_index[0] is 3, but counts has no such element");
  EXPECT_EQ(whyIllegal(kTensor + "edge=[1:0:1] levels=[{count=2}]"), "tensor: edge_level[0] is 1, but there are only 1 levels");
}

TEST(LegalityTest, ElementsAreAligned) {
  EXPECT_EQ(whyIllegal(kLoad + "element_log2=2 dram_address=0x2"),
            "load: dram_address is 2, not a multiple of the element size 4");
  EXPECT_EQ(whyIllegal(kLoad + "element_log2=1 strides=[0,3]"), "load: strides[1] is 3, not a multiple of the element size 2");
  EXPECT_EQ(whyIllegal(kLoad + "element_log2=1 levels=[{count=2 stride_b=1}]"),
            "load: level 0: stride_b is 1, not a multiple of the element size 2");
  EXPECT_EQ(whyIllegal(kVector + "a_address=2"), "vector: a_address is 2, not a multiple of the element size 4");
  timing::MachineParams bf16 = testMachine();
  bf16.arrayType = timing::ArrayType::Bf16;
  EXPECT_EQ(whyIllegal(kTensor + "address=3", bf16), "tensor: address is 3, not a multiple of the element size 2");
  EXPECT_EQ(whyIllegal(kPreload + "zero_point=1", bf16), "preload: zero_point is 1, allowed is 0 to 0");
}

TEST(LegalityTest, TilesFitTheArray) {
  EXPECT_EQ(whyIllegal("tensor span=64 acc_span=8 counts=[8,1,1] k_count=9"), "tensor: k_count is 9, the machine has rows = 8");
  EXPECT_EQ(whyIllegal("preload span=1 k_count=1 n_count=9"), "preload: n_count is 9, the machine has cols = 8");
  EXPECT_EQ(whyIllegal(kTensor + "zero_point=200"), "legal");
  EXPECT_EQ(whyIllegal(kTensor + "is_signed=1 zero_point=200"), "tensor: zero_point is 200, allowed is -128 to 127");
  EXPECT_EQ(whyIllegal(kLoad + "low=[60] high=[5]"), "load: low + high of dimension 0 is 65, more than counts[0] = 64");
  EXPECT_EQ(whyIllegal(kLoad + "fill=256"), "load: fill is 256, more than an element holds");
}

TEST(LegalityTest, ChainsKeepTheirDomain) {
  auto chain = [](const std::string &stages) { return whyIllegal(kVector + stages); };
  EXPECT_EQ(chain("num_stages=2 stage=[iadd:p0,imax:imm0] p_count=1 p_span=32"), "legal");
  EXPECT_EQ(chain("num_stages=1 stage=[fadd:imm0]"), "vector: stage 0 (fadd): the chain's value is an integer, must be "
                                                     "a float");
  EXPECT_EQ(chain("num_stages=1 stage=[i2f:none]"), "vector: the chain ends with a float, but d_type is i32");
  EXPECT_EQ(chain("num_stages=2 stage=[i2f:none,f2i:none]"), "legal");
  EXPECT_EQ(chain("num_stages=3 stage=[dequantize:imm0,fexp:none,quantize:imm7]"), "legal");
  EXPECT_EQ(chain("num_stages=1 stage=[dequantize:imm7]"), "vector: stage 0 (dequantize): needs 2 immediates from imm7 on");
  EXPECT_EQ(chain("num_stages=1 stage=[iadd:p1] p_count=1 p_span=32"), "vector: stage 0 (iadd): operand p1, but p_count is 1");
  EXPECT_EQ(chain("num_stages=1 stage=[iadd:none]"), "vector: stage 0 (iadd): needs an operand");
  EXPECT_EQ(chain("num_stages=1 stage=[i2f:imm0]"), "vector: stage 0 (i2f): takes no operand, found imm0");
  EXPECT_EQ(chain("num_stages=1 stage=[iadd:b]"), "vector: stage 0 (iadd): source B is not available: b_enable is 0");
  EXPECT_EQ(chain("num_stages=0 stage=[iadd:imm0]"), "vector: stage 0 (iadd): beyond num_stages = 0");
  // Saved keeps the domain it was saved in: int, then float.
  EXPECT_EQ(chain("num_stages=4 stage=[i2f:none,save:none,f2i:none,iadd:saved]"),
            "vector: stage 3 (iadd): operand saved is a float, must be an integer");
  EXPECT_EQ(chain("num_stages=3 stage=[i2f:none,f2i:none,iadd:saved]"), "legal");
  EXPECT_EQ(chain("num_stages=2 stage=[i2f:none,load_saved:none]"), "legal");
}

TEST(LegalityTest, SourceBFollowsItsConversion) {
  const std::string b = "b_enable=1 b_type=i8 b_span=8 ";
  EXPECT_EQ(whyIllegal(kVector + b + "num_stages=1 stage=[iadd:b]"), "legal");
  EXPECT_EQ(whyIllegal(kVector + b + "b_convert=dequantize num_stages=1 stage=[iadd:b]"),
            "vector: stage 0 (iadd): operand b is a float, must be an integer");
  EXPECT_EQ(whyIllegal(kVector + b +
                       "b_convert=to_float num_stages=3 "
                       "stage=[i2f:none,ffma_b:imm0,f2i:none]"),
            "legal");
  EXPECT_EQ(whyIllegal(kVector + b + "num_stages=1 stage=[load_b:none]"), "legal");
  EXPECT_EQ(whyIllegal(kVector + b + "window_op=mac"), "legal");
  EXPECT_EQ(whyIllegal(kVector + b + "window_op=mac num_stages=1 stage=[iadd:b]"),
            "vector: stage 0 (iadd): source B is not available: window_op is mac");
  EXPECT_EQ(whyIllegal(kVector + "window_op=mac"), "vector: window_op is mac, but b_enable is 0");
  std::string large = kVector + b;
  large.replace(large.find("window=[1,1]"), 12, "window=[16,16]");
  EXPECT_EQ(whyIllegal(large + "window_op=mac"), "legal");
  large.replace(large.find("window=[16,16]"), 14, "window=[1,257]");
  EXPECT_EQ(whyIllegal(large + "window_op=max"), "legal");
  EXPECT_EQ(whyIllegal(large + "window_op=mac"), "vector: window is 1 x 257, but window_op mac takes at most 256 taps");
  EXPECT_EQ(whyIllegal(kVector + "b_enable=1 b_type=f32 b_span=32 window_op=mac"),
            "vector: window_op is mac, but a_type and b_type are not both integer or "
            "both float");
}

TEST(LegalityTest, WindowsAndReductions) {
  auto with = [](const std::string &rest) {
    return whyIllegal("vector a_type=i32 a_span=32 d_type=i32 d_span=32 counts=[1,1,1,1] " + rest);
  };
  EXPECT_EQ(with("window=[2,1]"), "vector: window is 2 x 1, must be 1 x 1 without a window_op");
  EXPECT_EQ(with("window=[2,1] window_op=max"), "legal");
  EXPECT_EQ(with("window=[1]"), "vector: window[1] is 0, must be at least 1");
  EXPECT_EQ(with("window=[2,1] window_op=max lane_reduce=1 tail_lanes=8"), "legal");
  EXPECT_EQ(with("window=[2,1] window_op=sum_squares lane_reduce=1 tail_lanes=8"), "legal");
  EXPECT_EQ(with("window=[2,1] window_op=max lane_reduce=1 tail_lanes=9"),
            "vector: tail_lanes is 9, the machine has lanes = 8");
  EXPECT_EQ(with("window=[1,1] lane_reduce=1"),
            "vector: lane_reduce is 1, but window_op is neither max nor sum nor sum_squares");
  EXPECT_EQ(with("window=[3,1] window_op=sum window_step=2 a_strides=[64] "
                 "a_window_strides=[32]"),
            "legal");
  EXPECT_EQ(with("window=[3,1] window_op=sum window_step=1 a_strides=[64] "
                 "a_window_strides=[32]"),
            "vector: window_step is 1, but a_strides[0] = 64 is not so many "
            "times a_window_strides[0] = 32");
}

TEST(RangeTest, SpansEndWithTheirMemory) {
  EXPECT_EQ(whyOut(kLoad + "memory=scratchpad0"), "in range");
  EXPECT_EQ(whyOut("load address=4032 span=64 counts=[64,1,1,1,1]"), "in range");
  EXPECT_EQ(whyOut("load address=4033 span=64 counts=[64,1,1,1,1]"),
            "load: address 4033 + span 64 is not within scratchpad0 of 4096");
  EXPECT_EQ(whyOut("load memory=scratchpad1 address=2000 span=64 counts=[1,1,1,1,1]"),
            "load: address 2000 + span 64 is not within scratchpad1 of 2048");
  EXPECT_EQ(whyOut("tensor span=64 acc_address=60 acc_span=8 counts=[4,1,1] k_count=1"),
            "tensor: acc_address 60 + acc_span 8 is not within accumulator rows of "
            "64");
}

TEST(RangeTest, AccessesStayInTheirSpan) {
  // 4 rows of 16 bytes, 100 apart: the last byte is 3 * 100 + 15.
  EXPECT_EQ(whyOut("load span=316 counts=[16,4,1,1,1] strides=[100]"), "in range");
  EXPECT_EQ(whyOut("load span=315 counts=[16,4,1,1,1] strides=[100]"),
            "load: span is 315, but accesses reach from address + 0 to + 315");
  EXPECT_EQ(whyOut("load span=400 counts=[16,4,1,1,1] strides=[-100]"),
            "load: span is 400, but accesses reach from address + -300 to + 15");
  // 8 vectors, 8 apart; only k_count = 5 bytes of the last are read.
  EXPECT_EQ(whyOut("tensor span=61 acc_span=8 counts=[8,1,1] strides=[8] "
                   "acc_strides=[1] k_count=5"),
            "in range");
  EXPECT_EQ(whyOut("tensor span=60 acc_span=8 counts=[8,1,1] strides=[8] "
                   "acc_strides=[1] k_count=5"),
            "tensor: span is 60, but accesses reach from address + 0 to + 60");
  EXPECT_EQ(whyOut("tensor span=64 acc_span=7 counts=[8,1,1] strides=[8] "
                   "acc_strides=[1] k_count=8"),
            "tensor: acc_span is 7, but accesses reach from acc_address + 0 to + 7");
  // Transposed: n_count = 2 rows of k_count = 8.
  EXPECT_EQ(whyOut("preload span=108 row_stride=100 k_count=8 n_count=2 transpose=1"), "in range");
  EXPECT_EQ(whyOut("preload span=108 row_stride=100 k_count=8 n_count=2"),
            "preload: span is 108, but accesses reach from address + 0 to + 701");
  // 2 blocks x 1 parameter x 8 lanes x 4 bytes.
  EXPECT_EQ(whyOut("vector a_type=i32 a_span=32 d_type=i32 d_span=32 "
                   "counts=[1,1,1,2] window=[1,1] p_count=1 p_span=63"),
            "vector: p_span is 63, but accesses reach from p_address + 0 to + 63");
}

TEST(RangeTest, DramBoxesEndWithTheDram) {
  EXPECT_EQ(whyOut(kLoad + "dram_address=0xfffc0"), "in range");
  EXPECT_EQ(whyOut(kLoad + "dram_address=0xfffc1"), "load: dram bytes 1048513 to 1048576 are not within the capacity "
                                                    "1048576");
  // The filled border is not read: 64 - 1 elements from the end.
  EXPECT_EQ(whyOut(kLoad + "dram_address=0xfffc1 low=[1]"), "in range");
  EXPECT_EQ(whyOut(kLoad + "dram_address=0xfffff broadcast=1"), "in range");
  EXPECT_EQ(whyOut("store span=2 counts=[1,2,1,1,1] strides=[1] "
                   "dram_strides=[-8] dram_address=0x4"),
            "store: dram bytes -4 to 4 are not within the capacity 1048576");
}

TEST(RangeTest, EdgesCountAndSoDoNegativeAddresses) {
  Instruction instruction = parsed("load span=64 counts=[64,1,1,1,1] levels=[{count=2 stride_b=-8}]");
  OdometerState state;
  EXPECT_FALSE(outOfRange(*resolve(instruction, state), testMachine()));
  EXPECT_EQ(*outOfRange(*resolve(instruction, state), testMachine()),
            "load: address -8 + span 64 is not within scratchpad0 of 4096");
  instruction = parsed("load span=64 counts=[64,1,1,1,1] low=[60] "
                       "edge=[0:0:59] levels=[{count=1}]");
  EXPECT_EQ(*outOfRange(*resolve(instruction, state), testMachine()),
            "load: low + high of dimension 0 is 60, more than counts[0] = 59");
}

// Banks of 512 bytes: scratchpad0 in bits 0 to 7, scratchpad1 in 8 to 11, the
// accumulator (16 rows a bank) in 12 to 15.
TEST(BankTest, SpansOwnTheirBanks) {
  auto banks = [](const std::string &text) { return bankMask(parsed(text), testMachine()); };
  EXPECT_EQ(banks("halt"), 0u);
  EXPECT_EQ(banks("load address=0 span=512"), 0x1u);
  EXPECT_EQ(banks("load address=0 span=513"), 0x3u);
  EXPECT_EQ(banks("load address=511 span=1"), 0x1u);
  EXPECT_EQ(banks("load address=512 span=1"), 0x2u);
  EXPECT_EQ(banks("store address=3584 span=512"), 0x80u);
  EXPECT_EQ(banks("preload memory=scratchpad1 address=0 span=64"), 0x100u);
  EXPECT_EQ(banks("tensor address=1024 span=8 acc_address=15 acc_span=2"), 0x3004u);
  EXPECT_EQ(banks("vector a_memory=accumulator a_address=1536 a_span=512 "
                  "d_memory=scratchpad1 d_address=2047 d_span=1 d_type=i8"),
            0x8800u);
  // B and the parameters count only when they are used.
  const std::string vector = "vector a_span=1 d_span=1 b_address=512 b_span=1 p_address=1024 p_span=1";
  EXPECT_EQ(banks(vector), 0x1u);
  EXPECT_EQ(banks(vector + " b_enable=1"), 0x3u);
  EXPECT_EQ(banks(vector + " p_count=1"), 0x5u);
}

TEST(BankTest, RegionsSayWhatIsWritten) {
  Regions regions = regionsOf(parsed("tensor address=64 span=8 acc_address=2 acc_span=3"), testMachine());
  ASSERT_EQ(regions.count, 2u);
  EXPECT_FALSE(regions.items[0].write);
  EXPECT_EQ(regions.items[1].memory, Memory::Accumulator);
  EXPECT_TRUE(regions.items[1].write);
  EXPECT_EQ(regions.items[1].begin, 2u * 32);
  EXPECT_EQ(regions.items[1].end, 5u * 32);
}

// Whatever encodes may be asked: the answer must never be a crash, and banks
// of what is legal and in range must exist.
TEST(LegalityTest, AnyEncodableInstructionHasAnAnswer) {
  std::mt19937_64 random(seed());
  SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed()));
  const timing::MachineParams machine = testMachine();
  for (const InstructionInfo &info : kInstructions)
    for (int i = 0; i < 2000; ++i) {
      Instruction instruction = randomInstruction(info.opcode, random);
      if (illegal(instruction, machine))
        continue;
      OdometerState state;
      std::optional<Instruction> now = resolve(instruction, state);
      if (now && !outOfRange(*now, machine))
        EXPECT_EQ(bankMask(*now, machine) >> 16, 0u) << print(instruction);
    }
}
