//===- CpuMachineTest.cpp - Which instructions code may use ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/CpuMachine.h"
#include "compiler/codegen/cpu/CpuRequest.h"
#include <gtest/gtest.h>

using namespace tw::cpu;

namespace {

CpuMachine machineOf(const CpuChoice &choice) {
  llvm::Expected<CpuMachine> machine = selectMachine(choice);
  if (!machine) {
    ADD_FAILURE() << choice.cpu << choice.features << ": " << llvm::toString(machine.takeError());
    return {};
  }
  return *machine;
}

std::string errorOf(const CpuChoice &choice) {
  llvm::Expected<CpuMachine> machine = selectMachine(choice);
  return machine ? "" : llvm::toString(machine.takeError());
}

struct Row {
  CpuChoice choice;
  unsigned vectorBits, vectorRegisters, integerProducts;
  bool hasFma, hasBfloatProducts;
};

/// What the vendors' manuals say of each processor.
TEST(CpuMachineTest, InstructionsFollowFromFeatures) {
  const Row rows[] = {
      {{"x86_64", "x86-64", ""}, 128, 16, 2, false, false},
      {{"x86_64", "nehalem", ""}, 128, 16, 2, false, false},
      {{"x86_64", "sandybridge", ""}, 128, 16, 2, false, false}, // AVX alone has no integers of 256 bits
      {{"x86_64", "haswell", ""}, 256, 16, 2, true, false},
      {{"x86_64", "x86-64-v3", ""}, 256, 16, 2, true, false},
      {{"x86_64", "alderlake", ""}, 256, 16, 4, true, false}, // AVX-VNNI
      {{"x86_64", "skylake-avx512", ""}, 512, 32, 2, true, false},
      {{"x86_64", "cascadelake", ""}, 512, 32, 4, true, false},
      {{"x86_64", "znver4", ""}, 512, 32, 4, true, true},
      {{"x86_64", "znver4", "-avx512bf16"}, 512, 32, 4, true, false},
      {{"x86_64", "znver4", "-avx512f"}, 256, 16, 2, true, false}, // takes away all that needs it
      {{"x86_64", "znver4", "-avx512vnni"}, 512, 32, 2, true, true},
      {{"x86_64", "haswell", "-fma"}, 256, 16, 2, false, false},
      {{"x86_64", "haswell", "+avxvnni"}, 256, 16, 4, true, false},
      {{"aarch64", "", ""}, 128, 32, 1, true, false},
      {{"aarch64", "cortex-a53", ""}, 128, 32, 1, true, false},
      {{"aarch64", "neoverse-n1", ""}, 128, 32, 4, true, false}, // SDOT
      {{"aarch64", "neoverse-n1", "-dotprod"}, 128, 32, 1, true, false},
      {{"aarch64", "", "+i8mm"}, 128, 32, 4, true, false}, // USDOT
      {{"riscv64", "", ""}, 64, 32, 1, true, false},
      {{"riscv64", "", "+v"}, 128, 32, 1, true, false},
      {{"riscv64", "", "+v,+zvl256b"}, 256, 32, 1, true, false},
      {{"riscv64", "", "+zvl256b"}, 64, 32, 1, true, false}, // a length of vectors without vectors
      {{"riscv64", "sifive-x280", ""}, 512, 32, 1, true, false},
  };
  for (const Row &row : rows) {
    const CpuMachine machine = machineOf(row.choice);
    const std::string what = row.choice.arch + " " + row.choice.cpu + " " + row.choice.features;
    EXPECT_EQ(machine.vectorBits, row.vectorBits) << what;
    EXPECT_EQ(machine.vectorRegisters, row.vectorRegisters) << what;
    EXPECT_EQ(machine.integerProducts, row.integerProducts) << what;
    EXPECT_EQ(machine.hasFma, row.hasFma) << what;
    EXPECT_EQ(machine.hasBfloatProducts, row.hasBfloatProducts) << what;
  }
}

TEST(CpuMachineTest, LimitsNarrowTheProcessor) {
  llvm::Expected<CpuMachine> machine = selectMachine({"x86_64", "cascadelake", ""}, /*vectorBits=*/128, /*integerProducts=*/2);
  ASSERT_TRUE(static_cast<bool>(machine)) << llvm::toString(machine.takeError());
  EXPECT_EQ(machine->vectorBits, 128u);
  EXPECT_EQ(machine->integerProducts, 2u);
}

TEST(CpuMachineTest, ThisProcessorRunsItsOwnCode) {
  EXPECT_FALSE(static_cast<bool>(checkRunsHere(machineOf({}))));
  EXPECT_FALSE(static_cast<bool>(checkRunsHere(machineOf({"", "native", ""}))));
}

TEST(CpuMachineTest, CodeForAnotherArchitectureDoesNotRunHere) {
  for (const std::string &arch : archNames()) {
    const CpuMachine machine = machineOf({arch, "", ""});
    const std::string error = llvm::toString(checkRunsHere(machine));
    if (machine.triple == machineOf({}).triple)
      EXPECT_EQ(error, "");
    else
      EXPECT_NE(error.find("code for " + arch + " cannot run here: this processor is "), std::string::npos) << error;
  }
}

TEST(CpuMachineTest, RefusesWhatThereIsNot) {
  EXPECT_EQ(errorOf({"sparc", "", ""}), "there is no code for architecture 'sparc', only for x86_64, aarch64, riscv64");
  EXPECT_EQ(errorOf({"x86_64", "hasswell", ""}),
            "--cpu is 'hasswell' but x86_64 has no such processor; did you mean 'haswell'?");
  EXPECT_NE(errorOf({"aarch64", "zzz", ""}).find("--cpu is 'zzz' but aarch64 has no such processor; it has a64fx, "),
            std::string::npos);
  EXPECT_EQ(errorOf({"x86_64", "cortex-a53", ""}),
            "--cpu cortex-a53 is a processor of aarch64, not of x86_64: compile --target cpu takes --arch aarch64");
  EXPECT_EQ(errorOf({"x86_64", "haswell", "+avx521f"}),
            "--features has 'avx521f' but x86_64 has no such feature; did you mean 'avx512f'?");
  for (const char *features : {"avx2", "+avx2,", "+", "+avx2 -fma"})
    EXPECT_NE(errorOf({"x86_64", "haswell", features}), "") << features;
  EXPECT_EQ(errorOf({"x86_64", "haswell", "avx2"}),
            "--features is 'avx2' but must be +NAME,-NAME,...: 'avx2' has no sign or no name");
}

TEST(CpuMachineTest, RefusesWhatLinuxCannotRunOn) {
  EXPECT_EQ(errorOf({"x86_64", "pentium4", ""}), "processor 'pentium4' has no 64bit, which x86_64 code for Linux needs");
  EXPECT_EQ(errorOf({"x86_64", "haswell", "-sse2"}),
            "processor 'haswell' with --features -sse2 has no sse2, which x86_64 code for Linux needs");
  EXPECT_EQ(errorOf({"aarch64", "", "-neon"}),
            "processor 'generic' with --features -neon has no neon, which aarch64 code for Linux needs");
  EXPECT_EQ(errorOf({"riscv64", "sifive-e20", ""}), "processor 'sifive-e20' has no 64bit, which riscv64 code for Linux needs");
  EXPECT_EQ(errorOf({"riscv64", "", "-d"}),
            "processor 'generic-rv64' with --features -d has no d, which riscv64 code for Linux needs");
}

TEST(CpuMachineTest, NamesBecomeCIdentifiers) {
  EXPECT_EQ(cIdentifier("resnet-18.v2"), "resnet_18_v2");
  EXPECT_EQ(cIdentifier("3x3"), "net_3x3");
  EXPECT_EQ(cIdentifier("int"), "net_int");
  EXPECT_EQ(cIdentifier("_x"), "net__x");
  EXPECT_EQ(cIdentifier(""), "net_");
  EXPECT_EQ(cIdentifier("digits"), "digits");
}

} // namespace
