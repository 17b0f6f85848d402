//===- AssemblerTest.cpp - Whole programs as text ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/Assembler.h"

#include "isa/timing/Digest.h"
#include "tests/isa/RandomInstruction.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::isa;
using namespace tw::isa::test;

namespace {

std::string error(const std::string &text, const timing::MachineParams *machine = nullptr) {
  Result<Program> program = assemble(text, "t.s", machine);
  return program ? "good" : program.message();
}

} // namespace

TEST(AssemblerTest, DirectivesSayEverything) {
  Result<Program> assembled = assemble(R"(# a program
.machine tiny   # the name
.digests 0x10 17
.dram 0x2000
.code 64
.input x i8 [1, 3] 0x1000
.output "the \"y\"" f32 [] 0x1010
.data 0x400 00ff 7A
.bytes 01
.data 2048
.layer conv macs=12 bound_cycles=3 bound_by=dram nodes=[Conv_0,"a b"]
loop count=4 {
  preload k_count=8
}
.layer end
halt
)",
                                       "t.s");
  ASSERT_TRUE(assembled) << assembled.message();
  const Program &p = *assembled;
  EXPECT_EQ(p.machine, "tiny");
  EXPECT_EQ(p.architecturalDigest, 16u);
  EXPECT_EQ(p.timingDigest, 17u);
  EXPECT_EQ(p.dramBytes, 0x2000u);
  EXPECT_EQ(p.codeAddress, 64u);
  ASSERT_EQ(p.inputs.size(), 1u);
  EXPECT_EQ(p.inputs[0].bytes, 3u);
  ASSERT_EQ(p.outputs.size(), 1u);
  EXPECT_EQ(p.outputs[0].name, "the \"y\"");
  EXPECT_EQ(p.outputs[0].bytes, 4u);
  ASSERT_EQ(p.constants.size(), 2u);
  EXPECT_EQ(p.constants[0].address, 0x400u);
  EXPECT_EQ(p.constants[0].bytes, (std::vector<uint8_t>{0, 0xff, 0x7a, 1}));
  EXPECT_TRUE(p.constants[1].bytes.empty());
  ASSERT_EQ(p.layers.size(), 2u);
  EXPECT_EQ(p.layers[0].nodes, (std::vector<std::string>{"Conv_0", "a b"}));
  EXPECT_EQ(p.layers[0].macs, 12u);
  EXPECT_EQ(p.layers[0].boundCycles, 3u);
  EXPECT_EQ(p.layers[0].boundBy, "dram");
  EXPECT_EQ(p.layerOf, (std::vector<uint32_t>{0, 0, 1}));
  ASSERT_EQ(p.code.size(), 3u);
  EXPECT_EQ(decode(p.code.data(), 3).instruction.as<Loop>().body_words, 1);
}

TEST(AssemblerTest, BracesCountNestedBodies) {
  Result<Program> p = assemble("loop count=2 {\n load\n loop count=3 {\n"
                               "  preload\n }\n}\nhalt\n",
                               "t.s");
  ASSERT_TRUE(p) << p.message();
  EXPECT_EQ(decode(&p->code[0], 1).instruction.as<Loop>().body_words, 5);
  EXPECT_EQ(decode(&p->code[4], 1).instruction.as<Loop>().body_words, 1);
}

TEST(AssemblerTest, TheMachineGivesNameDigestsAndRules) {
  timing::MachineParams machine = testMachine();
  Result<Program> p = assemble("halt", "t.s", &machine);
  ASSERT_TRUE(p) << p.message();
  EXPECT_EQ(p->machine, "test");
  EXPECT_EQ(p->architecturalDigest, timing::architecturalDigest(machine));
  EXPECT_EQ(p->timingDigest, timing::timingDigest(machine));
  EXPECT_EQ(p->dramBytes, 64u);
  EXPECT_EQ(error("halt\n  preload span=1 k_count=9 n_count=1", &machine),
            "t.s:2:3: preload: k_count is 9, the machine has rows = 8");
}

TEST(AssemblerTest, EveryFaultyLineIsReported) {
  EXPECT_EQ(error("laod\nhalt\n.dta 0\n\tload unti=1\n"), "t.s:1:1: unknown instruction 'laod'; did you mean 'load'?\n"
                                                          "t.s:3:1: unknown directive '.dta'; did you mean '.data'?\n"
                                                          "t.s:4:7: unknown field 'unti' of load; did you mean 'unit'?");
}

TEST(AssemblerTest, DirectiveErrorsNameTheirPlace) {
  EXPECT_EQ(error(".code x"), "t.s:1:7: expected a number, found 'x'");
  EXPECT_EQ(error(".code"), "t.s:1:6: expected a number, found the end of the line");
  EXPECT_EQ(error(".code 1 2"), "t.s:1:9: expected the end of the line, found '2'");
  EXPECT_EQ(error(".dram 18446744073709551616"), "t.s:1:7: expected a number below 2^64, found "
                                                 "'18446744073709551616'");
  EXPECT_EQ(error(".data 0 123"), "t.s:1:9: expected bytes of two hexadecimal digits, found '123'");
  EXPECT_EQ(error(".bytes 00"), "t.s:1:1: .bytes without a .data before it");
  EXPECT_EQ(error(".input x i9 [1] 0"), "t.s:1:10: unknown element type 'i9', allowed are i8, u8, i32, "
                                        "f32, bf16, i64, bool");
  EXPECT_EQ(error(".input x i64 [4294967296,4294967296] 0"), "t.s:1:26: the tensor is larger than 2^64 bytes");
  EXPECT_EQ(error(".layer a mac=1"), "t.s:1:10: unknown property 'mac' of a layer, allowed are macs, "
                                     "bound_cycles, bound_by, nodes");
  EXPECT_EQ(error(".machine \"a"), "t.s:1:10: the string has no closing '\"'");
  EXPECT_EQ(error(".machine \"\\q\""), "t.s:1:11: unknown escape, allowed are \\\", \\\\ and \\xHH");
  EXPECT_EQ(error("halt\n.layer a"), "t.s:2:1: the first .layer must stand before the first "
                                     "instruction, which is on line 1");
  EXPECT_EQ(error(".in_layer 0"), "t.s:1:11: layer 0 is unknown, there are 0 so far");
  EXPECT_EQ(error("loop count=1 {\nhalt"), "t.s:1:1: the loop's body is not closed by '}'");
  EXPECT_EQ(error("}"), "t.s:1:1: '}' closes no loop");
  EXPECT_EQ(error("halt {"), "t.s:1:6: only a loop has a body in braces");
  EXPECT_EQ(error("loop count=1 {\n}"), "t.s:1:1: the loop's body is empty");
  EXPECT_EQ(error(".code 32\nhalt"), "t.s: the code's address 32 is not a multiple of 64");
}

TEST(AssemblerTest, DisassemblyOfAnyProgramGivesItBack) {
  std::mt19937_64 random(seed());
  SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed()));
  for (int round = 0; round < 50; ++round) {
    Program program;
    program.machine = round % 2 ? "m" : "a \"b\\\n\x01\xc3\xa9 #";
    program.architecturalDigest = random();
    program.timingDigest = random();
    for (int i = 0; i < 20; ++i) {
      // The last opcode but one stands for words that are no instruction.
      size_t kind = random() % (std::size(kInstructions) + 1);
      if (kind == std::size(kInstructions))
        program.code.push_back({random(), random(), random(), random()});
      else
        encode(randomInstruction(kInstructions[kind].opcode, random), program.code);
    }
    program.codeAddress = 64 * (random() % 100);
    program.dramBytes = 1 << 20;
    for (int i = 0; i < 3; ++i) {
      Segment segment{random() % 1000, {}};
      for (size_t n = random() % 100; n > 0; --n)
        segment.bytes.push_back(uint8_t(random()));
      program.constants.push_back(segment);
    }
    program.inputs = {{"x y", ElementKind::Bf16, {2, 3}, 8, 12}};
    program.outputs = {{"", ElementKind::Bool, {}, 0, 1}};
    if (round % 3) {
      for (int i = 0; i < 4; ++i)
        program.layers.push_back(
            {"l" + std::to_string(i % 2), {"n", "[m,]"}, random() % 3, random() % 3, round % 2 ? "" : "dram"});
      // Some rounds change layers anywhere, even within an instruction.
      for (size_t i = 0; i < program.code.size(); ++i)
        program.layerOf.push_back(round % 3 == 1 ? random() % 3 : i * 4 / program.code.size());
    }
    std::string text = disassemble(program);
    Result<Program> again = assemble(text, "t.s");
    ASSERT_TRUE(again) << again.message();
    EXPECT_EQ(serialize(*again), serialize(program)) << text;
    EXPECT_EQ(disassemble(*again), text);
  }
}

TEST(AssemblerTest, DisassemblyIsReadable) {
  Result<Program> p = assemble(".layer a\nloop count=2 {\npreload k_count=8\n"
                               "}\n.layer b\nhalt",
                               "t.s");
  ASSERT_TRUE(p) << p.message();
  EXPECT_EQ(disassemble(*p), ".machine \"\"\n.digests 0x0 0x0\n.dram 0x80\n"
                             ".code 0x0\n.layer \"a\"\n"
                             "loop count=2 body_words=1\n  preload k_count=8\n"
                             ".layer \"b\"\nhalt\n");
}

TEST(AssemblerTest, DamagedTextNeverCrashes) {
  std::mt19937_64 random(seed());
  SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed()));
  const std::string text = ".machine \"m\"\n.code 64\n.input x i8 [1,2] 0\n"
                           ".data 0 00ff\n.layer a macs=1 nodes=[x,y]\n"
                           "loop count=2 {\npreload k_count=8\n}\n"
                           ".word 1 2 3 4\nhalt\n";
  const std::string alphabet = "[]{}=:,# -x0f\"\\.\n";
  for (size_t length = 0; length <= text.size(); ++length)
    error(text.substr(0, length));
  for (int i = 0; i < 5000; ++i) {
    std::string damaged = text;
    for (int j = 0; j < 3; ++j)
      damaged[random() % damaged.size()] = alphabet[random() % alphabet.size()];
    EXPECT_FALSE(error(damaged).empty());
  }
}
