//===- ProgramTest.cpp - Program images and whole-program rules -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/Program.h"
#include "isa/ProgramImage.h"

#include "isa/Assembler.h"
#include "tests/isa/RandomInstruction.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::isa;
using namespace tw::isa::test;

namespace {

Program sample() {
  Program program;
  program.machine = "test";
  program.architecturalDigest = 0x0123456789abcdef;
  program.timingDigest = 42;
  encode(Load{}, program.code);
  encode(Halt{}, program.code);
  program.codeAddress = 128;
  program.dramBytes = 4096;
  program.constants = {{1024, {1, 2, 3}}, {2048, {}}};
  program.inputs = {{"x", ElementKind::I8, {1, 3, 4}, 512, 12}};
  program.outputs = {{"y", ElementKind::I64, {2}, 640, 16}, {"z", ElementKind::Bool, {}, 656, 1}};
  program.layers = {{"conv", {"Conv_0", "Relu_1"}, 1000, 10, "tensor"}, {"end", {}, 0, 0, ""}};
  program.layerOf = {0, 0, 0, 1};
  return program;
}

std::string error(const std::vector<uint8_t> &image) {
  Result<Program> program = deserialize(image, "p.tw");
  return program ? "good" : program.message();
}

/// `text` assembled without a machine, then verified for the test machine.
std::string verified(const std::string &text) {
  Result<Program> program = assemble(text, "t.s");
  if (!program)
    return program.message();
  std::string all;
  for (const Diagnostic &problem : verify(*program, testMachine(), "p"))
    all += (all.empty() ? "" : "\n") + problem.str();
  return all;
}

} // namespace

TEST(ProgramTest, ImagesRoundTrip) {
  Program program = sample();
  std::vector<uint8_t> image = serialize(program);
  Result<Program> read = deserialize(image);
  ASSERT_TRUE(read) << read.message();
  EXPECT_EQ(serialize(*read), image);
  EXPECT_EQ(read->isaVersion, 1u);
  EXPECT_EQ(read->machine, "test");
  EXPECT_EQ(read->architecturalDigest, 0x0123456789abcdefu);
  EXPECT_EQ(read->timingDigest, 42u);
  EXPECT_EQ(read->code, program.code);
  EXPECT_EQ(read->codeAddress, 128u);
  EXPECT_EQ(read->dramBytes, 4096u);
  ASSERT_EQ(read->constants.size(), 2u);
  EXPECT_EQ(read->constants[0].address, 1024u);
  EXPECT_EQ(read->constants[0].bytes, (std::vector<uint8_t>{1, 2, 3}));
  ASSERT_EQ(read->inputs.size(), 1u);
  EXPECT_EQ(read->inputs[0].shape, (std::vector<int64_t>{1, 3, 4}));
  ASSERT_EQ(read->outputs.size(), 2u);
  EXPECT_EQ(read->outputs[0].name, "y");
  EXPECT_EQ(read->outputs[0].type, ElementKind::I64);
  ASSERT_EQ(read->layers.size(), 2u);
  EXPECT_EQ(read->layers[0].nodes, (std::vector<std::string>{"Conv_0", "Relu_1"}));
  EXPECT_EQ(read->layers[0].macs, 1000u);
  EXPECT_EQ(read->layers[0].boundBy, "tensor");
  EXPECT_EQ(read->layerOf, program.layerOf);
}

TEST(ProgramTest, EveryTruncationIsAnError) {
  std::vector<uint8_t> image = serialize(sample());
  for (size_t size = 0; size < image.size(); ++size) {
    std::vector<uint8_t> cut(image.begin(), image.begin() + size);
    EXPECT_NE(error(cut), "good") << size << " bytes";
  }
  image.push_back(0);
  EXPECT_NE(error(image), "good");
}

TEST(ProgramTest, EveryFlippedBitIsAnError) {
  const std::vector<uint8_t> image = serialize(sample());
  for (size_t bit = 0; bit < image.size() * 8; ++bit) {
    std::vector<uint8_t> damaged = image;
    damaged[bit / 8] ^= 1 << bit % 8;
    EXPECT_NE(error(damaged), "good") << "bit " << bit;
  }
}

// As a hostile or buggy writer would: the checksum is right, the rest is not.
TEST(ProgramTest, NoImageWithAGoodChecksumCrashes) {
  std::mt19937_64 random(seed());
  SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed()));
  const Program program = sample();
  const std::vector<uint8_t> image = serialize(program);
  auto checksum = [](std::vector<uint8_t> &bytes) {
    // Written down from the description in Program.cpp.
    const size_t start = 28, size = bytes.size() - start;
    uint64_t hash = 0xcbf29ce484222325ull ^ size;
    for (size_t i = 0; i < size; i += 8) {
      uint64_t piece = 0;
      for (size_t j = 0; j < 8 && i + j < size; ++j)
        piece |= uint64_t(bytes[start + i + j]) << 8 * j;
      hash = (hash ^ piece) * 0x100000001b3ull;
      hash ^= hash >> 29;
    }
    for (int i = 0; i < 8; ++i) {
      bytes[12 + i] = uint8_t(uint64_t(size) >> 8 * i);
      bytes[20 + i] = uint8_t(hash >> 8 * i);
    }
  };
  std::vector<uint8_t> same = image;
  checksum(same);
  ASSERT_EQ(same, image);
  int good = 0;
  for (size_t at = 28; at < image.size(); ++at)
    for (uint8_t value : {uint8_t(0), uint8_t(0xff), uint8_t(random())}) {
      std::vector<uint8_t> damaged = image;
      damaged[at] = value;
      checksum(damaged);
      good += error(damaged) == "good";
      damaged.resize(at);
      checksum(damaged);
      EXPECT_NE(error(damaged), "good");
    }
  EXPECT_GT(good, 0); // changed constants and names are still programs
}

TEST(ProgramTest, SealingMakesAnImageOfAnyBytes) {
  const std::vector<uint8_t> image = serialize(sample());
  std::vector<uint8_t> sealed = image;
  std::fill(sealed.begin(), sealed.begin() + 28, uint8_t(7));
  sealImage(sealed);
  EXPECT_EQ(sealed, image);
  for (size_t size : {size_t(0), size_t(27), size_t(28), size_t(40)}) {
    std::vector<uint8_t> bytes(size, 9);
    sealImage(bytes);
    EXPECT_EQ(bytes.size(), std::max<size_t>(size, 28));
    EXPECT_EQ(error(bytes).find("checksum"), std::string::npos) << error(bytes);
    EXPECT_NE(error(bytes), "good");
  }
}

TEST(ProgramTest, MessagesSayWhatIsWrong) {
  EXPECT_EQ(error({}), "p.tw: not a program image: it does not begin with TWPROG");
  std::vector<uint8_t> image = serialize(sample());
  image[8] = 9;
  EXPECT_EQ(error(image), "p.tw: the program image has format version 9, this "
                          "build reads version 1");
  image = serialize(sample());
  image.resize(20);
  EXPECT_EQ(error(image), "p.tw: the program image is cut off in its first 28 bytes");
  image = serialize(sample());
  image.pop_back();
  EXPECT_EQ(error(image).substr(0, 26), "p.tw: the program image ha");
  image = serialize(sample());
  image.back() ^= 1;
  EXPECT_EQ(error(image), "p.tw: the program image is damaged: its checksum "
                          "does not match");
}

TEST(ProgramTest, ContradictionsAreErrors) {
  auto broken = [](auto change) {
    Program program = sample();
    change(program);
    return error(serialize(program));
  };
  EXPECT_EQ(broken([](Program &p) { p.isaVersion = 2; }), "p.tw: the program is for ISA version 2, this build has version 1");
  EXPECT_EQ(broken([](Program &p) { p.codeAddress = 32; }), "p.tw: the code's address 32 is not a multiple of 64");
  EXPECT_EQ(broken([](Program &p) { p.codeAddress = 4032; }), "p.tw: code: 128 bytes at address 4032 do not fit dram_bytes = "
                                                              "4096");
  EXPECT_EQ(broken([](Program &p) { p.constants[1].address = 4097; }),
            "p.tw: constants: 0 bytes at address 4097 do not fit dram_bytes "
            "= 4096");
  EXPECT_EQ(broken([](Program &p) { p.inputs[0].bytes = 13; }), "p.tw: 'x' has 13 bytes, which its shape contradicts");
  EXPECT_EQ(broken([](Program &p) { p.inputs[0].shape = {-12}; }), "p.tw: 'x' has the extent -12");
  // 2^62 * 4 * 8 wraps to 0 in 64 bits.
  EXPECT_EQ(broken([](Program &p) {
              p.outputs[0].shape = {int64_t(1) << 62, 4};
              p.outputs[0].bytes = 0;
            }),
            "p.tw: 'y' has 0 bytes, which its shape contradicts");
  EXPECT_EQ(broken([](Program &p) { p.outputs[0].address = 4081; }),
            "p.tw: 'y': 16 bytes at address 4081 do not fit dram_bytes = "
            "4096");
  EXPECT_EQ(broken([](Program &p) { p.layerOf[3] = 2; }), "p.tw: layer 2 is named, there are 2");
  EXPECT_EQ(broken([](Program &p) { p.layerOf.pop_back(); }), "p.tw: 3 words have a layer, the code has 4 words and 2 layers");
}

TEST(VerifyTest, LoopsNestAndTheCodeEndsWithHalt) {
  EXPECT_EQ(verified("halt"), "");
  EXPECT_EQ(verified("loop count=2 {\nloop count=2 {\nloop count=2 {\n"
                     "loop count=2 {\npreload span=1 k_count=1 n_count=1\n"
                     "}\n}\n}\n}\nhalt"),
            "");
  EXPECT_EQ(verified(""), "p: word 0: the code does not end with halt");
  EXPECT_EQ(verified("halt\nhalt"), "p: word 1: an instruction after halt");
  EXPECT_EQ(verified("loop count=1 body_words=1\nhalt"), "p: word 1: halt inside a loop");
  EXPECT_EQ(verified("loop count=1 body_words=2\nhalt"), "p: word 0: the loop body ends at word 3, after the end of the "
                                                         "code\np: word 1: halt inside a loop");
  EXPECT_EQ(verified("loop count=1 body_words=2\nload span=1 "
                     "counts=[1,1,1,1,1]\nhalt"),
            "p: word 1: the loop body ends at word 3, inside this instruction");
  EXPECT_EQ(verified("loop count=1 body_words=1\nloop count=1 body_words=1\n"
                     "preload span=1 k_count=1 n_count=1\nhalt"),
            "p: word 1: the loop body ends at word 3, after the end of the "
            "loop around it");
  EXPECT_EQ(verified("loop count=2 {\nloop count=2 {\nloop count=2 {\n"
                     "loop count=2 {\nloop count=2 {\npreload span=1 k_count=1 "
                     "n_count=1\n}\n}\n}\n}\n}\nhalt"),
            "p: word 4: loops nest 5 deep, allowed are 4");
}

TEST(VerifyTest, IllegalInstructionsNameTheirWord) {
  EXPECT_EQ(verified("preload span=1 k_count=1 n_count=1\n"
                     "preload span=1 k_count=9 n_count=1\nhalt"),
            "p: word 1: preload: k_count is 9, the machine has rows = 8");
  EXPECT_EQ(verified(".word 63 0 0 0\nhalt"), "p: word 0: opcode 63 is unknown");
}
