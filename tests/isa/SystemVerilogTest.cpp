//===- SystemVerilogTest.cpp - The package against the C++ codec -*- C++ -*-==//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verilator evaluates the package's structs and functions on constants while it
// elaborates a module written here: a difference becomes an $error.
//===----------------------------------------------------------------------===//
#include "isa/Isa.h"
#include "isa/timing/TimingConstants.h"
#include "tests/isa/RandomInstruction.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>

using namespace tw;
using namespace tw::isa;
using namespace tw::isa::test;

namespace {

const std::string kPackage = TILEWRIGHT_BINARY_DIR "/isa/tw_isa_pkg.sv";

std::string outputOf(const std::string &command, int &code) {
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (size_t size = fread(buffer.data(), 1, buffer.size(), pipe))
    output.append(buffer.data(), size);
  int status = pclose(pipe);
  code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return output;
}

std::string lint(const std::string &arguments, int &code) { return outputOf("verilator --lint-only " + arguments, code); }

/// A module whose elaboration fails unless every added equality holds.
class Module {
public:
  void define(const std::string &text) { body += "  " + text + "\n"; }
  void equal(const std::string &expression, const std::string &expected) {
    body += "  if ((" + expression + ") != (" + expected + ")) $error(\"" + expression + " is not " + expected + "\");\n";
  }
  std::string elaborate(const std::string &name, int &code) const {
    const std::string file = testing::TempDir() + name + ".sv";
    std::ofstream(file) << "module top;\n  import tw_isa_pkg::*;\n" << body << "endmodule\n";
    std::string output = lint("--top-module top '" + kPackage + "' '" + file + "'", code);
    std::filesystem::remove(file);
    return output;
  }

private:
  std::string body;
};

/// The operand words as one constant.
std::string constant(const std::vector<Word> &words, size_t count) {
  std::string digits;
  for (size_t i = count; i-- > 0;)
    for (size_t j = words[i].size(); j-- > 0;) {
      char text[20];
      std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(words[i][j]));
      digits += text;
    }
  return std::to_string(count * kWordBits) + "'h" + digits;
}

/// The bits of a field's value: members of the package are raw encodings.
std::string number(const FieldInfo &field, int64_t value) {
  const uint64_t mask = field.width == 64 ? ~uint64_t(0) : (uint64_t(1) << field.width) - 1;
  return std::to_string(field.width) + "'d" + std::to_string(uint64_t(value) & mask);
}

/// `start_cycles` is DefaultStartCycles.
std::string parameterOf(const std::string &constant) {
  std::string name = "Default";
  bool upper = true;
  for (char c : constant) {
    if (c != '_')
      name += upper ? char(std::toupper(c)) : c;
    upper = c == '_';
  }
  return name;
}

std::vector<Word> encoded(const Instruction &instruction) {
  std::vector<Word> words;
  encode(instruction, words);
  return words;
}

} // namespace

TEST(SystemVerilogTest, ThePackagePassesLint) {
  int code = 0;
  std::string output = lint("-Wall '" + kPackage + "'", code);
  EXPECT_EQ(code, 0);
  EXPECT_EQ(output, "");
}

// The subset that synthesis takes is smaller than Verilator's.
TEST(SystemVerilogTest, YosysReadsThePackage) {
  int code = 0;
  std::string output = outputOf("yosys -q -p 'read_verilog -sv " + kPackage + "'", code);
  EXPECT_EQ(code, 0);
  EXPECT_EQ(output, "");
}

TEST(SystemVerilogTest, StructsHaveTheFieldsOfTheEncoder) {
  std::mt19937_64 random(seed());
  SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed()));
  Module module;
  for (const InstructionInfo &info : kInstructions) {
    const std::string mnemonic = info.mnemonic;
    module.equal("$bits(" + mnemonic + "_t)", std::to_string(info.words * kWordBits));
    module.equal("operand_words(" + std::to_string(int(info.opcode)) + ")", std::to_string(info.words));
    module.equal("engine_of(" + std::to_string(int(info.opcode)) + ")", std::to_string(info.engine));
    for (int i = 0; i < 3; ++i) {
      Instruction instruction = randomInstruction(info.opcode, random);
      std::vector<Word> words = encoded(instruction);
      const std::string name = mnemonic + std::to_string(i);
      module.define("localparam " + mnemonic + "_t " + name + " = " + constant(words, info.words) + ";");
      auto fields = [&](FieldSpan table, const void *base, const std::string &prefix) {
        for (const FieldInfo &field : table) {
          int64_t value = get(field, base);
          if (std::string(field.name) == "opcode")
            value = int64_t(info.opcode);
          if (std::string(field.name) == "words")
            value = int64_t(words.size());
          module.equal(prefix + nameOf(field), number(field, value));
        }
      };
      fields(headerFields(), &instruction.header, name + ".header.");
      fields(info.layout->fields, instruction.operandBase(), name + ".");
      module.equal("is_" + mnemonic + "_encoding(" + name + ")", "1");
    }
  }
  module.equal("$bits(level_t)", "128");
  int code = 0;
  std::string output = module.elaborate("structs", code);
  EXPECT_EQ(code, 0) << output.substr(0, 4000);
}

// Operand words with one bit flipped: the package accepts what decode() does.
TEST(SystemVerilogTest, DecodersAgreeOnWhatIsNoEncoding) {
  std::mt19937_64 random(seed());
  SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed()));
  Module module;
  int accepted = 0, rejected = 0;
  for (const InstructionInfo &info : kInstructions) {
    Instruction instruction = randomInstruction(info.opcode, random);
    instruction.header.num_levels = 0;
    instruction.levels = {};
    const std::vector<Word> words = encoded(instruction);
    for (size_t bit = 0; bit < words.size() * kWordBits; ++bit) {
      // All of the header, and a sample of the operands.
      if (bit >= 140 && random() % 8 != 0)
        continue;
      std::vector<Word> damaged = words;
      damaged[bit / kWordBits][bit % kWordBits / 64] ^= uint64_t(1) << bit % 64;
      const bool good = bool(decode(damaged.data(), damaged.size())) && (damaged[0][0] & 63) == uint64_t(info.opcode);
      ++(good ? accepted : rejected);
      module.equal("is_" + std::string(info.mnemonic) + "_encoding(" + constant(damaged, info.words) + ")", good ? "1" : "0");
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(rejected, 100);
  int code = 0;
  std::string output = module.elaborate("decoders", code);
  EXPECT_EQ(code, 0) << output.substr(0, 4000);
}

TEST(SystemVerilogTest, TimingIsThatOfTheModels) {
  const timing::TimingConstants constants;
  Module module;
  for (const timing::TimingConstantInfo &info : timing::kTimingConstants)
    module.equal(parameterOf(info.name), std::to_string(constants.*info.member));
  // The constants a formula uses, in the order of isa/Timing.td, come before its own arguments.
  auto call = [](const std::string &name, const std::vector<std::string> &constants, const std::vector<uint32_t> &arguments) {
    std::string text;
    for (const std::string &constant : constants)
      text += (text.empty() ? "" : ", ") + parameterOf(constant);
    for (uint32_t argument : arguments)
      text += ", " + std::to_string(argument);
    return name + "(" + text + ")";
  };
  for (uint32_t rows : {1, 2, 3, 4, 8, 9, 16, 32, 128, 256}) {
    module.equal(call("tensor_drain_int",
                      {"tensor_read_cycles", "tensor_multiply_int_cycles", "tensor_add_int_cycles", "acc_rmw_int_cycles"},
                      {rows}),
                 std::to_string(timing::tensorDrainInt(constants, rows)));
    module.equal(call("tensor_drain_float",
                      {"tensor_read_cycles", "tensor_multiply_float_cycles", "tensor_add_float_cycles", "acc_rmw_float_cycles"},
                      {rows}),
                 std::to_string(timing::tensorDrainFloat(constants, rows)));
  }
  for (uint32_t stages : {1, 8, 12})
    for (uint32_t lanes : {1, 7, 16, 128})
      module.equal(call("vector_drain", {"vector_base_cycles", "vector_stage_cycles"}, {stages, lanes}),
                   std::to_string(timing::vectorDrain(constants, stages, lanes)));
  int code = 0;
  std::string output = module.elaborate("timing", code);
  EXPECT_EQ(code, 0) << output.substr(0, 4000);
}

// The tests above can fail.
TEST(SystemVerilogTest, ADifferenceIsAnError) {
  Module module;
  module.equal("DefaultStartCycles", "77");
  module.define("localparam halt_t H = " + constant(encoded(Halt{}), 1) + ";");
  module.equal("H.header.words", "2");
  module.equal("is_halt_encoding(H)", "0");
  int code = 0;
  std::string output = module.elaborate("different", code);
  EXPECT_NE(code, 0);
  for (const char *text : {"DefaultStartCycles is not 77", "H.header.words is not 2", "is_halt_encoding(H) is not 0"})
    EXPECT_NE(output.find(text), std::string::npos) << output;
}

// By hand from isa/Timing.td: 2 + 1 + 4 * 1 + 2, 2 + 3 + 4 * 3 + 4 and 4 + (12 + 1 + 4) * 2.
TEST(TimingFormulaTest, FormulasAreThoseOfTheDescription) {
  const timing::TimingConstants constants;
  EXPECT_EQ(timing::tensorDrainInt(constants, 16), 9u);
  EXPECT_EQ(timing::tensorDrainInt(constants, 17), 10u);
  EXPECT_EQ(timing::tensorDrainFloat(constants, 16), 21u);
  EXPECT_EQ(timing::vectorDrain(constants, 12, 16), 38u);
}
