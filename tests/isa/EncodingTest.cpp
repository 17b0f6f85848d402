//===- EncodingTest.cpp - Words and text of single instructions -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/FieldLimits.h"
#include "tests/isa/RandomInstruction.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::isa;
using namespace tw::isa::test;

namespace {

std::vector<Word> encoded(const Instruction &instruction) {
  std::vector<Word> words;
  encode(instruction, words);
  return words;
}

/// encode, decode, encode and print, parse give back what went in.
void expectRoundTrip(const Instruction &instruction) {
  std::string why;
  ASSERT_TRUE(fits(instruction, &why)) << why;
  std::vector<Word> words = encoded(instruction);
  ASSERT_EQ(words.size(), instruction.words());
  Decoded decoded = decode(words.data(), words.size());
  ASSERT_TRUE(decoded) << decoded.error;
  EXPECT_EQ(decoded.instruction, instruction) << print(instruction);
  EXPECT_EQ(encoded(decoded.instruction), words) << print(instruction);
  std::string text = print(instruction);
  Result<Instruction> parsed = parse(text);
  ASSERT_TRUE(parsed) << text << "\n" << parsed.message();
  EXPECT_EQ(*parsed, instruction) << text;
}

std::string parseError(const std::string &text) {
  Result<Instruction> parsed = parse(text, "f.s", 7);
  return parsed ? "parsed as: " + print(*parsed) : parsed.message();
}

} // namespace

// Positions written down from isa/Isa.td by hand, not read from the tables.
TEST(EncodingTest, BitsLieWhereTheDescriptionSays) {
  EXPECT_EQ(encoded(Halt{}), (std::vector<Word>{{0x40, 0, 0, 0}}));

  Loop loop;
  loop.count = 5;      // bits 140 to 159: element 2, from bit 12
  loop.body_words = 7; // bits 160 to 175: element 2, from bit 32
  EXPECT_EQ(encoded(loop), (std::vector<Word>{{0x1 | 1 << 6, 0, 5ull << 12 | 7ull << 32, 0}}));

  Preload preload;
  preload.zero_point = -1;   // bits 243 to 251: element 3, from bit 51
  preload.row_stride = -256; // bits 199 to 222: element 3, from bit 7
  preload.memory = 7;        // bits 140 to 142
  Instruction instruction(preload);
  instruction.header.wait_semaphore[2] = 63; // bits 24 to 29
  instruction.header.wait_count[1] = 2;      // bits 34 to 37
  instruction.header.edge_value[1] = 0xabcd; // bits 124 to 139: over elements
  EXPECT_EQ(encoded(instruction), (std::vector<Word>{{3 | 1 << 6 | 63 << 24 | 2ull << 34, 0xdull << 60, 0xabcull | 7 << 12,
                                                      0xffff00ull << 7 | 0x1ffull << 51}}));
}

TEST(EncodingTest, LevelsFollowTheOperandsTwoToAWord) {
  Instruction instruction(Halt{});
  instruction.header.num_levels = 3; // bits 72 to 74; 3 words in all
  instruction.levels[0].count = 1;
  instruction.levels[1].stride_d = -1; // bits 104 to 127 of the level
  instruction.levels[2].wrap = 2;      // bits 16 to 23
  EXPECT_EQ(encoded(instruction),
            (std::vector<Word>{{3 << 6, 3 << 8, 0, 0}, {1, 0, 0, 0xffffffull << 40}, {2 << 16, 0, 0, 0}}));
}

// Alone, so that a field that spills into a neighbour shows.
TEST(EncodingTest, EveryFieldRoundTripsAtItsExtremes) {
  auto extremes = [](const FieldInfo &field) {
    std::vector<int64_t> values{0, field.minimum, field.maximum};
    if (field.values) {
      values.clear();
      for (const CaseInfo &c : field.values->cases)
        values.push_back(c.value);
    }
    return values;
  };
  for (const InstructionInfo &info : kInstructions) {
    SCOPED_TRACE(info.mnemonic);
    for (const FieldInfo &field : info.layout->fields)
      for (int64_t value : extremes(field)) {
        Instruction instruction(makeOperands(info.opcode));
        set(field, instruction.operandBase(), value);
        expectRoundTrip(instruction);
      }
    for (const FieldInfo &field : headerFields())
      for (int64_t value : extremes(field)) {
        Instruction instruction(makeOperands(info.opcode));
        set(field, &instruction.header, value);
        expectRoundTrip(instruction);
      }
    for (int64_t level = 0; level < kMaxLevels; ++level)
      for (const FieldInfo &field : levelFields())
        for (int64_t value : extremes(field)) {
          Instruction instruction(makeOperands(info.opcode));
          instruction.header.num_levels = level + 1;
          set(field, &instruction.levels[level], value);
          expectRoundTrip(instruction);
        }
  }
}

TEST(EncodingTest, RandomInstructionsRoundTrip) {
  std::mt19937_64 random(seed());
  SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed()));
  for (const InstructionInfo &info : kInstructions)
    for (int i = 0; i < 300; ++i)
      expectRoundTrip(randomInstruction(info.opcode, random));
}

// Whatever decodes must encode to the same words: no bit goes unseen.
TEST(EncodingTest, EveryFlippedBitIsAnErrorOrAnotherInstruction) {
  std::mt19937_64 random(seed());
  SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed()));
  for (const InstructionInfo &info : kInstructions) {
    Instruction instruction = randomInstruction(info.opcode, random);
    std::vector<Word> words = encoded(instruction);
    for (size_t bit = 0; bit < words.size() * kWordBits; ++bit) {
      std::vector<Word> damaged = words;
      damaged[bit / kWordBits][bit % kWordBits / 64] ^= uint64_t(1) << bit % 64;
      Decoded decoded = decode(damaged.data(), damaged.size());
      if (!decoded)
        continue;
      damaged.resize(decoded.instruction.words());
      EXPECT_EQ(encoded(decoded.instruction), damaged) << info.mnemonic << " bit " << bit;
    }
  }
}

TEST(EncodingTest, DecodeNamesWhatIsWrong) {
  auto error = [](std::vector<Word> words) { return decode(words.data(), words.size()).error; };
  EXPECT_EQ(error({}), "no word left for an instruction");
  EXPECT_EQ(error({{63, 0, 0, 0}}), "opcode 63 is unknown");
  EXPECT_EQ(error({{2 << 6, 0, 0, 0}}), "halt: words is 2, with 0 levels it must be 1");
  EXPECT_EQ(error({{1 << 6, 7 << 8, 0, 0}}), "halt: num_levels is 7, allowed is 0 to 6");
  EXPECT_EQ(error({{2 | 3 << 6, 0, 0, 0}}), "load: 3 words needed, 1 left");
  EXPECT_EQ(error({{1 << 6, 0, 0, 1ull << 63}}), "halt: reserved bits 140 to 255 are not all 0");
  EXPECT_EQ(error({{1 << 6, 5ull << 29, 0, 0}}), "halt: predicate is 5, allowed is always, first, not_first, last, "
                                                 "not_last");
  EXPECT_EQ(error({{2 << 6, 1 << 8, 0, 0}, {0, 0, 1, 0}}), "halt: bits after the last level are not all 0");
}

TEST(EncodingTest, FitsNamesTheFieldAndTheRange) {
  std::string why;
  Vector vector;
  vector.a_strides[2] = 1 << 23;
  EXPECT_FALSE(fits(vector, &why));
  EXPECT_EQ(why, "vector: a_strides[2] is 8388608, allowed is -8388608 to "
                 "8388607");
  vector = {};
  vector.num_stages = 13;
  EXPECT_FALSE(fits(vector, &why));
  EXPECT_EQ(why, "vector: num_stages is 13, allowed is 0 to 12");
  vector = {};
  vector.b_memory = 2;
  EXPECT_FALSE(fits(vector, &why));
  EXPECT_EQ(why, "vector: b_memory is 2, allowed is scratchpad0, scratchpad1, "
                 "accumulator");
  Instruction halt(Halt{});
  halt.levels[1].count = 1;
  halt.header.num_levels = 1;
  EXPECT_FALSE(fits(halt, &why));
  EXPECT_EQ(why, "halt: level 1: not all 0, but num_levels is 1");
}

TEST(EncodingTest, LimitsOfFieldsAreConstants) {
  static_assert(maximumOf(Opcode::Load, "low") == (1 << 12) - 1);
  static_assert(maximumOf(Opcode::Vector, "d_strides") == (1 << 23) - 1);
  static_assert(maximumOf(levelFields(), "count") == (1 << 16) - 1);
}

TEST(TextTest, PrintsAsDocumented) {
  Load load;
  load.dram_address = 0x1000;
  load.counts = {64, 4, 1, 1, 1};
  load.strides = {256, 0, 0, 0};
  load.memory = int64_t(Memory::Scratchpad1);
  Instruction instruction(load);
  instruction.header.unit = 1;
  instruction.header.wait_semaphore[1] = 3;
  instruction.header.wait_count[1] = 1;
  instruction.header.post_semaphore[0] = 4;
  instruction.header.post_count[0] = 1;
  instruction.header.predicate = int64_t(Predicate::NotFirst);
  instruction.header.predicate_mask = 1;
  instruction.header.num_levels = 2;
  instruction.levels[0].count = 4;
  instruction.levels[0].stride_b = 256;
  EXPECT_EQ(print(instruction), "load unit=1 wait=[0:0,3:1] post=[4:1] predicate_mask=0x1 "
                                "predicate=not_first dram_address=0x1000 memory=scratchpad1 "
                                "counts=[64,4,1,1,1] strides=[256] "
                                "levels=[{count=4 stride_b=256},{}]");
}

TEST(TextTest, ReadsWhatPeopleWrite) {
  Result<Instruction> parsed = parse("  vector num_stages=2 stage=[ffma:imm0, fmax : imm2 ] "
                                     "immediates=[1.5f,0x40000000,-2.5e-1f] counts = [ 1, 2 ,3,4] # end");
  ASSERT_TRUE(parsed) << parsed.message();
  const Vector &vector = parsed->as<Vector>();
  EXPECT_EQ(vector.stage_op[0], 24);
  EXPECT_EQ(vector.stage_op[1], 22);
  EXPECT_EQ(vector.stage_operand[0], 16);
  EXPECT_EQ(vector.stage_operand[1], 18);
  EXPECT_EQ(vector.immediates[0], 0x3fc00000);
  EXPECT_EQ(vector.immediates[1], 0x40000000);
  EXPECT_EQ(vector.immediates[2], 0xbe800000);
  EXPECT_EQ(vector.counts, (std::array<int64_t, 4>{1, 2, 3, 4}));
}

TEST(TextTest, ErrorsNameThePlaceAndTheNearestName) {
  EXPECT_EQ(parseError(" laod unit=1"), "f.s:7:2: unknown instruction 'laod'; did you mean 'load'?");
  EXPECT_EQ(parseError("load dram_adress=1"), "f.s:7:6: unknown field 'dram_adress' of load; did you mean "
                                              "'dram_address'?");
  EXPECT_EQ(parseError("load levels=[{cuont=1}]"), "f.s:7:15: unknown field 'cuont' of a level; did you mean "
                                                   "'count'?");
  EXPECT_EQ(parseError("load memory=scratchpad2"), "f.s:7:13: unknown memory 'scratchpad2'; did you mean "
                                                   "'scratchpad0'?");
  EXPECT_EQ(parseError("loop count=1048576"), "f.s:7:12: count is 1048576, allowed is 0 to 1048575");
  EXPECT_EQ(parseError("loop count=12x"), "f.s:7:12: '12x' is not a number that count can hold");
  EXPECT_EQ(parseError("loop count=99999999999999999999"), "f.s:7:12: '99999999999999999999' is not a number that count can "
                                                           "hold");
  EXPECT_EQ(parseError("loop count=1 count=2"), "f.s:7:14: field 'count' is given twice");
  EXPECT_EQ(parseError("loop count"), "f.s:7:11: expected '=', found the end of the line");
  EXPECT_EQ(parseError("loop count="), "f.s:7:12: expected a value for count, found the end of the line");
  EXPECT_EQ(parseError("load counts=[1,2,3,4,5,6]"), "f.s:7:24: 'counts' has at most 5 elements");
  EXPECT_EQ(parseError("load counts=[1"), "f.s:7:15: expected ']', found the end of the line");
  EXPECT_EQ(parseError("load wait=[1]"), "f.s:7:13: expected ':', found ']'");
  EXPECT_EQ(parseError("load levels=[{},{},{},{},{},{},{}]"), "f.s:7:32: an instruction has at most 6 levels");
  EXPECT_EQ(parseError("load opcode=1").substr(0, 36), "f.s:7:6: unknown field 'opcode' of l");
  EXPECT_EQ(parseError("loop ="), "f.s:7:6: expected a field name, found '='");
  EXPECT_EQ(parseError(""), "f.s:7:1: expected an instruction, found the end of the line");
}

TEST(TextTest, DamagedLinesNeverCrash) {
  std::mt19937_64 random(seed());
  SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed()));
  for (const InstructionInfo &info : kInstructions) {
    std::string text = print(randomInstruction(info.opcode, random));
    for (size_t length = 0; length <= text.size(); ++length)
      parse(text.substr(0, length));
    const std::string alphabet = "[]{}=:,# -x0f\"a";
    for (int i = 0; i < 2000; ++i) {
      std::string damaged = text;
      for (int j = 0; j < 3; ++j)
        damaged[random() % damaged.size()] = alphabet[random() % alphabet.size()];
      Result<Instruction> parsed = parse(damaged);
      if (parsed) {
        EXPECT_TRUE(fits(*parsed)) << damaged;
      } else {
        EXPECT_FALSE(parsed.message().empty());
      }
    }
  }
}
