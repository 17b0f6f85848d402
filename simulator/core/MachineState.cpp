//===- MachineState.cpp - Everything a program can change -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulator/core/MachineState.h"
#include "isa/Isa.h"
#include "isa/timing/Engines.h"

#include <algorithm>
#include <cstring>

using namespace tw;
using namespace tw::core;

WeightTile::WeightTile(timing::ArrayType type, uint32_t rows, uint32_t cols) : padded((cols + 15) / 16 * 16) {
  if (type == timing::ArrayType::Int8)
    integers.resize(size_t(rows + 3) / 4 * 4 * padded);
  else
    reals.resize(size_t(rows) * padded);
}

void WeightTile::clear() {
  std::fill(integers.begin(), integers.end(), int16_t(0));
  std::fill(reals.begin(), reals.end(), 0.0f);
  quadsHold = false;
}

MachineState::MachineState(const timing::MachineParams &machine)
    : shadow(machine.arrayType, machine.rows, machine.cols), active(shadow), params(machine),
      dramBytes(machine.dram.capacityBytes, "the simulated DRAM") {
  assert(machine.scratchpads.size() <= 2 && "isa::Memory names two scratchpads");
  for (size_t i = 0; i < machine.scratchpads.size(); ++i)
    onChip[i].resize(machine.scratchpads[i].capacityBytes);
  onChip[size_t(isa::Memory::Accumulator)].resize(machine.accumulator.capacityBytes);
}

void MachineState::reset() {
  dramBytes.clear();
  for (std::vector<uint8_t> &memory : onChip)
    std::fill(memory.begin(), memory.end(), uint8_t(0));
  shadow.clear();
  active.clear();
}

std::optional<std::string> MachineState::load(const isa::Program &program) {
  reset();
  auto fits = [&](uint64_t address, uint64_t bytes) { return address <= dramSize() && bytes <= dramSize() - address; };
  auto complaint = [&](const std::string &what, uint64_t address, uint64_t bytes) {
    return what + " needs " + std::to_string(bytes) + " bytes of DRAM from " + std::to_string(address) +
           " but the machine has " + std::to_string(dramSize());
  };
  if (!fits(0, program.dramBytes))
    return complaint("the program", 0, program.dramBytes);
  for (const isa::Segment &segment : program.constants) {
    if (!fits(segment.address, segment.bytes.size()))
      return complaint("a constant segment", segment.address, segment.bytes.size());
    if (!segment.bytes.empty())
      std::memcpy(dram(segment.address + segment.bytes.size()) + segment.address, segment.bytes.data(), segment.bytes.size());
  }
  uint64_t codeBytes = program.code.size() * sizeof(isa::Word);
  if (!fits(program.codeAddress, codeBytes))
    return complaint("the code", program.codeAddress, codeBytes);
  if (codeBytes)
    std::memcpy(dram(program.codeAddress + codeBytes) + program.codeAddress, program.code.data(), codeBytes);
  for (const std::vector<isa::TensorInfo> *tensors : {&program.inputs, &program.outputs})
    for (const isa::TensorInfo &tensor : *tensors)
      if (!fits(tensor.address, tensor.bytes))
        return complaint("tensor '" + tensor.name + "'", tensor.address, tensor.bytes);
  return std::nullopt;
}

std::optional<std::string> MachineState::writeInputs(const isa::Program &program,
                                                     const std::vector<std::vector<uint8_t>> &inputs) {
  if (inputs.size() != program.inputs.size())
    return "got " + std::to_string(inputs.size()) + " input tensors but the program has " +
           std::to_string(program.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const isa::TensorInfo &tensor = program.inputs[i];
    if (inputs[i].size() != tensor.bytes)
      return "input '" + tensor.name + "' has " + std::to_string(inputs[i].size()) + " bytes but the program takes " +
             std::to_string(tensor.bytes);
    if (tensor.bytes)
      std::memcpy(dram(tensor.address + tensor.bytes) + tensor.address, inputs[i].data(), tensor.bytes);
  }
  return std::nullopt;
}

std::optional<Fault> MachineState::prepare(const isa::Program &program, const std::vector<std::vector<uint8_t>> &inputs) {
  std::optional<std::string> problem = load(program);
  if (!problem)
    problem = writeInputs(program, inputs);
  if (!problem)
    return std::nullopt;
  return Fault{FaultKind::BadInput, 0, timing::engineName(timing::EngineKind::Sequencer, 0), *problem, "", 0};
}

std::vector<std::vector<uint8_t>> MachineState::readOutputs(const isa::Program &program) const {
  std::vector<std::vector<uint8_t>> outputs;
  for (const isa::TensorInfo &tensor : program.outputs) {
    const uint8_t *bytes = dram(tensor.address + tensor.bytes) + tensor.address;
    outputs.emplace_back(bytes, bytes + tensor.bytes);
  }
  return outputs;
}
