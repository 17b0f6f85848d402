//===- TestMachine.h - Small machines and programs for tests ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_UNIT_FUNCTIONAL_TESTMACHINE_H
#define TESTS_UNIT_FUNCTIONAL_TESTMACHINE_H

#include "isa/Legality.h"
#include "isa/Program.h"
#include "simulator/core/MachineState.h"

#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace tw::test {

/// Two scratchpads of 16 KiB with 4 banks, an accumulator of 256 rows, 64 KiB of DRAM.
inline timing::MachineParams testMachine(timing::ArrayType type, uint32_t rows = 4, uint32_t cols = 4, uint32_t lanes = 4) {
  timing::MachineParams machine;
  machine.name = "test";
  machine.arrayType = type;
  machine.rows = rows;
  machine.cols = cols;
  machine.lanes = lanes;
  machine.scratchpads = {{"activation", 16384, 4}, {"weight", 16384, 4}};
  machine.accumulator = {"accumulator", uint64_t(256) * cols * 4, 4};
  machine.dram.capacityBytes = 65536;
  return machine;
}

inline isa::Instruction parseLine(const std::string &line) {
  Result<isa::Instruction> instruction = isa::parse(line);
  EXPECT_TRUE(bool(instruction)) << line << ": " << instruction.message();
  return instruction ? *instruction : isa::Instruction{};
}

/// A program whose code lies at 32 KiB. Lines may be empty.
inline isa::Program assemble(const std::vector<std::string> &lines) {
  isa::Program program;
  program.codeAddress = 32768;
  program.dramBytes = 65536;
  for (const std::string &line : lines)
    isa::encode(parseLine(line), program.code);
  return program;
}

template <typename T> std::vector<uint8_t> bytesOf(const std::vector<T> &values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T> std::vector<T> readValues(const uint8_t *from, size_t count) {
  std::vector<T> values(count);
  std::memcpy(values.data(), from, count * sizeof(T));
  return values;
}

template <typename T> void writeValues(uint8_t *to, const std::vector<T> &values) {
  std::memcpy(to, values.data(), values.size() * sizeof(T));
}

inline void addInput(isa::Program &program, uint64_t address, uint64_t bytes) {
  program.inputs.push_back(
      {"in" + std::to_string(program.inputs.size()), isa::ElementKind::U8, {int64_t(bytes)}, address, bytes});
}
inline void addOutput(isa::Program &program, uint64_t address, uint64_t bytes) {
  program.outputs.push_back(
      {"out" + std::to_string(program.outputs.size()), isa::ElementKind::U8, {int64_t(bytes)}, address, bytes});
}

} // namespace tw::test

#endif // TESTS_UNIT_FUNCTIONAL_TESTMACHINE_H
