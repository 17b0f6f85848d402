//===- MachineState.h - Everything a program can change ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_CORE_MACHINESTATE_H
#define SIMULATOR_CORE_MACHINESTATE_H

#include "isa/Program.h"
#include "isa/timing/MachineParams.h"
#include "simulator/core/RunResult.h"
#include "simulator/core/ZeroedMemory.h"

#include <array>
#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tw::core {

/// One set of the array's weight registers, zero point already subtracted.
class WeightTile {
public:
  WeightTile() = default;
  WeightTile(timing::ArrayType type, uint32_t rows, uint32_t cols);

  void clear();
  /// Int8 arrays. Weight of row k and column n; the sums of two neighbouring rows take one multiply-add of the host, so
  /// they lie in pairs: [k / 2][paddedCols][k % 2].
  int16_t &integer(uint32_t k, uint32_t n) { return integers[((k / 2) * size_t(padded) + n) * 2 + k % 2]; }
  int16_t integer(uint32_t k, uint32_t n) const { return integers[((k / 2) * size_t(padded) + n) * 2 + k % 2]; }
  const int16_t *pairs() const { return integers.data(); }
  /// Int8 arrays, if the tile was packed and all weights fit bytes: [k / 4][paddedCols][k % 4]. Else null.
  const int8_t *quads() const { return quadsHold ? bytes.data() : nullptr; }
  /// pack(pairs, quads, rows) fills the quads; false if a weight does not fit. `rows` is a multiple of 4.
  template <typename Pack> void packQuads(Pack pack) {
    bytes.resize(integers.size());
    quadsHold = pack(pairs(), bytes.data(), integers.size() / padded);
  }
  /// Float arrays: [k][paddedCols].
  float &real(uint32_t k, uint32_t n) { return reals[k * size_t(padded) + n]; }
  float real(uint32_t k, uint32_t n) const { return reals[k * size_t(padded) + n]; }
  const float *floats() const { return reals.data(); }
  /// Columns rounded up to 16, the widest vector of the host; the padding stays 0.
  uint32_t paddedCols() const { return padded; }

private:
  uint32_t padded = 0;
  bool quadsHold = false;
  std::vector<int16_t> integers;
  std::vector<int8_t> bytes;
  std::vector<float> reals;
};

/// Memories and registers of one machine between two instructions. All memory starts as zero.
class MachineState {
public:
  explicit MachineState(const timing::MachineParams &machine);

  /// Back to power-on.
  void reset();
  /// reset(), then the program's constants and code go to DRAM. A message if the image does not fit this machine.
  std::optional<std::string> load(const isa::Program &program);
  /// Writes input tensors, in the order of Program::inputs. A message if their number or a size is wrong.
  std::optional<std::string> writeInputs(const isa::Program &program, const std::vector<std::vector<uint8_t>> &inputs);
  /// load(), then writeInputs(); what does not fit is a BadInput fault of the sequencer.
  std::optional<Fault> prepare(const isa::Program &program, const std::vector<std::vector<uint8_t>> &inputs);
  /// Reads all output tensors, in the order of Program::outputs.
  std::vector<std::vector<uint8_t>> readOutputs(const isa::Program &program) const;

  const timing::MachineParams &machine() const { return params; }
  /// DRAM, of which the first `end` bytes may be accessed, until dram() is called again; without `end` all. Throws OutOfMemory if
  /// there is no address space for them. Precondition: end <= dramSize().
  uint8_t *dram(uint64_t end) { return dramBytes.data(end); }
  const uint8_t *dram(uint64_t end) const { return dramBytes.data(end); }
  uint8_t *dram() { return dram(dramSize()); }
  const uint8_t *dram() const { return dram(dramSize()); }
  uint64_t dramSize() const { return dramBytes.size(); }

  /// On-chip memory, a value of isa::Memory. Precondition: the machine has it.
  uint8_t *memory(int64_t which) {
    assert(hasMemory(which) && "checked by isa::illegal()");
    return onChip[which].data();
  }
  const uint8_t *memory(int64_t which) const { return const_cast<MachineState *>(this)->memory(which); }
  bool hasMemory(int64_t which) const { return which >= 0 && which < int64_t(onChip.size()) && !onChip[which].empty(); }
  uint64_t memorySize(int64_t which) const { return hasMemory(which) ? onChip[which].size() : 0; }

  WeightTile shadow, active;

private:
  timing::MachineParams params;
  ZeroedMemory dramBytes;
  /// Indexed by isa::Memory.
  std::array<std::vector<uint8_t>, 8> onChip;
};

} // namespace tw::core

#endif // SIMULATOR_CORE_MACHINESTATE_H
