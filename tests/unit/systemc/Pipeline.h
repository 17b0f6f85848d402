//===- Pipeline.h - A double-buffered matrix product ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_UNIT_SYSTEMC_PIPELINE_H
#define TESTS_UNIT_SYSTEMC_PIPELINE_H

#include "tests/unit/systemc/TestPrograms.h"

#include <random>

namespace tw::test {

/// `tiles` independent products of a 64 x 8 by an 8 x 8 int8 tile, saturated to int8, on smallMachine(): two loads,
/// preload, tensor, vector and store per tile, every buffer doubled, every hazard ordered by a semaphore. All six engines
/// overlap.
class Pipeline {
public:
  explicit Pipeline(unsigned tiles, unsigned seed = 1) : tiles(tiles) {
    std::mt19937 random(seed);
    activations.resize(tiles * kActivationBytes);
    weights.resize(tiles * kWeightBytes);
    for (std::vector<uint8_t> *bytes : {&activations, &weights})
      for (uint8_t &byte : *bytes)
        byte = static_cast<uint8_t>(random() % 7 - 3);
  }

  static constexpr unsigned kActivationBytes = 512, kWeightBytes = 64;
  uint64_t activationAddress() const { return 0; }
  uint64_t weightAddress() const { return uint64_t(tiles) * 512; }
  uint64_t outputAddress() const { return uint64_t(tiles) * 576; }

  isa::Program program() const {
    // Semaphores: 0/1 activations full/free, 2/3 weights full/free, 4/5 accumulator full/free, 6/7 output full/free.
    std::vector<std::string> lines;
    for (unsigned t = 0; t < tiles; ++t) {
      const unsigned half = t % 2;
      const bool again = t >= 2;
      const std::string activation = std::to_string(half * 2048), weight = std::to_string(4096 + half * 2048);
      const std::string output = std::to_string(8192 + half * 2048);
      lines.push_back("load unit=0 dram_address=" + std::to_string(activationAddress() + t * 512) + " address=" + activation +
                      " span=512 counts=[512,1,1,1,1] post=[0:1]" + (again ? " wait=[1:1]" : ""));
      lines.push_back("load unit=1 dram_address=" + std::to_string(weightAddress() + t * 64) + " address=" + weight +
                      " span=64 counts=[64,1,1,1,1] post=[2:1]" + (again ? " wait=[3:1]" : ""));
      lines.push_back("preload address=" + weight +
                      " span=64 row_stride=8 k_count=8 n_count=8 is_signed=1 wait=[2:1] post=[3:1]");
      lines.push_back(
          "tensor address=" + activation + " span=512 acc_address=" + std::to_string(half * 64) +
          " acc_span=64 counts=[64,1,1] strides=[8] acc_strides=[1] swap=1 is_signed=1 k_count=8 post=[1:1,4:1] wait=[0:1" +
          (again ? ",5:1]" : "]"));
      lines.push_back("vector a_memory=accumulator a_type=i32 a_address=" + std::to_string(half * 2048) +
                      " a_span=2048 a_strides=[32] d_type=i8 d_address=" + output +
                      " d_span=512 d_strides=[8] counts=[64,1,1,1] window=[1,1] post=[5:1,6:1] wait=[4:1" +
                      (again ? ",7:1]" : "]"));
      lines.push_back("store dram_address=" + std::to_string(outputAddress() + t * 512) + " address=" + output +
                      " span=512 counts=[512,1,1,1,1] wait=[6:1] post=[7:1]");
    }
    lines.push_back("halt");
    isa::Program program = assemble(lines);
    program.codeAddress = (uint64_t(tiles) * 1088 + 63) / 64 * 64;
    program.dramBytes = program.codeAddress + program.code.size() * 32;
    program.inputs = {{"a", isa::ElementKind::I8, {tiles, 64, 8}, activationAddress(), activations.size()},
                      {"w", isa::ElementKind::I8, {tiles, 8, 8}, weightAddress(), weights.size()}};
    program.outputs = {{"y", isa::ElementKind::I8, {tiles, 64, 8}, outputAddress(), uint64_t(tiles) * 512}};
    return program;
  }
  std::vector<std::vector<uint8_t>> inputs() const { return {activations, weights}; }

  /// The product by the textbook loops.
  std::vector<uint8_t> expected() const {
    std::vector<uint8_t> output(uint64_t(tiles) * 512);
    for (unsigned t = 0; t < tiles; ++t)
      for (unsigned m = 0; m < 64; ++m)
        for (unsigned n = 0; n < 8; ++n) {
          int sum = 0;
          for (unsigned k = 0; k < 8; ++k)
            sum += int8_t(activations[t * 512 + m * 8 + k]) * int8_t(weights[t * 64 + k * 8 + n]);
          output[t * 512 + m * 8 + n] = static_cast<uint8_t>(std::max(-128, std::min(127, sum)));
        }
    return output;
  }

private:
  unsigned tiles;
  std::vector<uint8_t> activations, weights;
};

/// Runs a program with its inputs; `outputs` gets its outputs.
inline stats::SimResult runWith(const isa::Program &program, const std::vector<std::vector<uint8_t>> &inputs,
                                const timing::MachineParams &machine, std::vector<std::vector<uint8_t>> &outputs,
                                systemc::SimOptions options = {}) {
  return systemc::SystemCModel().run(program, machine, inputs, outputs, options);
}

} // namespace tw::test

#endif // TESTS_UNIT_SYSTEMC_PIPELINE_H
