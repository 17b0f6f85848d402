//===- Codegen.h - Kernels to tile programs ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef COMPILER_CODEGEN_ACCEL_CODEGEN_H
#define COMPILER_CODEGEN_ACCEL_CODEGEN_H

#include "compiler/codegen/accel/Chain.h"
#include "compiler/codegen/accel/Kernel.h"
#include "compiler/cost/Bounds.h"
#include "compiler/schedule/TileProgram.h"
#include "isa/Program.h"

#include "llvm/Support/Error.h"

namespace tw::accel {

/// How the tiles of a kernel follow one another.
enum class Schedule {
  Serial,       ///< one buffer per operand, no two engines overlap
  DoubleBuffer, ///< up to two buffers per streamed operand, loads one tile ahead; a kernel that this cannot help stays serial
};

/// The growing program of a network: instructions in order, and constants laid out in DRAM.
struct NetworkProgram {
  schedule::TileProgram tiles;
  std::vector<isa::Segment> constants;
  uint64_t nextAddress = 0; ///< where the next constant goes
  /// Per layer: the tile that was chosen, for people.
  std::vector<std::string> choices;

  /// Places `bytes` at the next burst-aligned address.
  uint64_t addConstant(std::vector<uint8_t> bytes);
};

/// What the kernel asks of each engine at least, whatever the tiling: the operands of the lower bound.
cost::LayerWork workOf(const Kernel &kernel, const timing::MachineParams &machine);

/// Bytes of kernel.tensors[tensor] that every program of the kernel reads or writes at least once.
uint64_t touchedBytes(const Kernel &kernel, int tensor);

/// Tiles `kernel` for `machine`, picks the cheapest tile that fits, and appends its instructions to `network` as layer `layer`.
/// `addresses[i]` is the DRAM address of kernel.tensors[i] (ignored for constants).
/// Fails where no tile fits, naming what was needed and what the machine has.
llvm::Error emitKernel(const Kernel &kernel, const timing::MachineParams &machine, Schedule schedule,
                       const std::vector<uint64_t> &addresses, uint32_t layer, NetworkProgram &network);

} // namespace tw::accel

#endif // COMPILER_CODEGEN_ACCEL_CODEGEN_H
