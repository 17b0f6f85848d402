//===- RandomInstruction.cpp - Inputs of the ISA tests ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/isa/RandomInstruction.h"

#include <cstdlib>

namespace tw::isa::test {

uint64_t seed() {
  const char *text = std::getenv("TILEWRIGHT_SEED");
  return text ? std::strtoull(text, nullptr, 0) : 20240607;
}

int64_t randomValue(const FieldInfo &field, std::mt19937_64 &random) {
  if (field.values)
    return field.values->cases[random() % field.values->cases.size()].value;
  switch (random() % 4) {
  case 0:
    return 0;
  case 1:
    return field.minimum;
  case 2:
    return field.maximum;
  default:
    return field.minimum + int64_t(random() % uint64_t(field.maximum - field.minimum + 1));
  }
}

Instruction randomInstruction(Opcode opcode, std::mt19937_64 &random) {
  Instruction instruction(makeOperands(opcode));
  for (const FieldInfo &field : headerFields())
    set(field, &instruction.header, randomValue(field, random));
  for (int64_t i = 0; i < instruction.header.num_levels; ++i)
    for (const FieldInfo &field : levelFields())
      set(field, &instruction.levels[i], randomValue(field, random));
  for (const FieldInfo &field : fieldsOf(opcode))
    set(field, instruction.operandBase(), randomValue(field, random));
  return instruction;
}

timing::MachineParams testMachine() {
  timing::MachineParams machine;
  machine.name = "test";
  machine.arrayType = timing::ArrayType::Int8;
  machine.rows = machine.cols = machine.lanes = 8;
  machine.scratchpads = {{"activation", 4096, 8}, {"weight", 2048, 4}};
  machine.accumulator = {"accumulator", 64 * 8 * 4, 4};
  machine.loadEngines = 2;
  machine.storeEngines = 1;
  machine.semaphores = 16;
  machine.semaphoreMax = 15;
  machine.loopBufferWords = 64;
  machine.dram.capacityBytes = 1 << 20;
  return machine;
}

} // namespace tw::isa::test
