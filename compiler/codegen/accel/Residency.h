//===- Residency.h - Tensors that stay on chip --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tensor between two kernels that fits the first scratchpad beside what the
// kernels themselves need stays there: its producer writes it where its consumers
// read it, and DRAM never sees it.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_ACCEL_RESIDENCY_H
#define COMPILER_CODEGEN_ACCEL_RESIDENCY_H

#include "compiler/codegen/accel/Kernel.h"
#include "compiler/plan/NetworkPlan.h"
#include "isa/timing/MachineParams.h"

#include <memory>

namespace tw::accel {

/// Rows or bytes [begin, end).
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool isEmpty() const { return end <= begin; }
};

/// Where a dense row-major tensor [..., rows, width, channels] lies in scratchpad 0: blocks of `lanes` channels, rows with room
/// for the padding of those who read windows of it. Blocks follow one another within a pixel, for kernels that work row by row,
/// or each is a plane of its own, for kernels that work channel by channel: an instruction owns all banks from its first byte to
/// its last, so what it touches should lie together.
struct Resident {
  int64_t address = 0; ///< of the first byte, padding included
  int64_t bytes = 0;
  int64_t channels = 1, width = 1, rows = 1; ///< elements; rows: all outer dimensions
  int64_t from = 0;                          ///< pixels before these lie in DRAM; `width` does not count them
  int64_t elementBytes = 1, lanes = 1;
  bool isPlanar = false;
  bool hasVectorReaders = false; ///< the vector engine reads it: whole vectors, whatever lies behind the channels
  int64_t blockBytes = 0, pixelBytes = 0, rowBytes = 0; ///< from one to the next
  std::array<int64_t, 2> padLow{}, padHigh{};           ///< along the width and the rows, pixels
  uint32_t padPattern = 0;
  bool placedFirst = false; ///< as NetworkUses says
  bool takesPlace = false;  ///< it lies where its writer finds another tensor of this form for the last time, padding included

  int64_t blocks() const { return (channels + lanes - 1) / lanes; }
  /// The channels of neighbours lie side by side, without the room between them that fills a vector of lanes.
  bool isDense() const { return pixelBytes < lanes * elementBytes; }
  /// Bytes behind the last pixel that a vector of lanes reaches.
  int64_t slackBytes() const { return isDense() ? lanes * elementBytes : 0; }
  bool isPadded() const { return padLow[0] || padLow[1] || padHigh[0] || padHigh[1]; }
  /// Address of the element at `offset` of the dense tensor.
  int64_t at(int64_t offset) const;
  /// Bytes on chip that a step of `elements` of the dense tensor, pixels or rows, is.
  int64_t stride(int64_t elements) const;
  /// Whether `count` steps of `elements` each are equally far apart on chip.
  bool canWalk(int64_t elements, int64_t count) const;
  /// Whether each element, and each one of the padding, lies as far from the first byte as in `other`.
  bool hasFormOf(const Resident &other) const;
};

/// What a kernel takes at least: for its transfers if it runs alone, and on the busier of the array and the vector engine.
struct KernelCycles {
  double transfer = 0, compute = 0;
};
std::vector<KernelCycles> cyclesAlone(const std::vector<const Kernel *> &kernels, const timing::MachineParams &machine);

/// How the kernels of a network use its tensors, and what its plan says of them. `kernels[i].tensors[j]` is tensor `tensorOf[i][j]`.
struct NetworkUses {
  plan::NetworkKnobs knobs = plan::NetworkKnobs().withDefaults(); ///< no knob is open
  std::vector<const Kernel *> kernels;                            ///< each with its plan
  std::vector<KernelCycles> cycles; ///< cyclesAlone(kernels), for networks that are looked at often; empty: not known yet
  std::vector<std::vector<size_t>> tensorOf;
  /// Per tensor: dense shape of the whole (outermost first); empty: the tensor must lie in DRAM.
  std::vector<std::vector<int64_t>> shapes;
  /// Per tensor: DRAM needs a copy as well (a result of the network).
  std::vector<bool> alsoInDram;
  /// Per kernel: the kernel needs the whole scratchpad for its own buffers.
  std::vector<bool> alone;
  /// Bytes at the end of scratchpad 0 that stay unused.
  int64_t spare = 0;
  /// Per tensor: whether the plan keeps the tensor on chip as a whole. Empty: the plan says nothing.
  std::vector<std::optional<bool>> wanted;
  /// Per tensor: of the wanted tensors, this one has its place before the others. Empty: none has.
  std::vector<bool> placedFirst;
  /// Per tensor: the pixel from which on the tensor stays on chip. More than 0 only between two kernels that follow one another and take
  /// each pixel alone. Empty: 0.
  std::vector<int64_t> keptFrom;
  /// Per tensor: rows of the last kernel's result in a row tile, where the plan wants the tensor in row tiles; 0: the plan does not.
  std::vector<int64_t> wantedBands;
  /// Per tensor: the tensor may stay for products of several matrices that find each matrix in some of its channels, or take the tensor as
  /// weights. Empty: no tensor may.
  std::vector<bool> holdsMatrices;
};

/// Kernels that run side by side take the first `bytes` of scratchpad 0; the tensors between them never lie anywhere else.
struct Reserved {
  unsigned first = 0, last = 0; ///< kernels
  int64_t bytes = 0;
  std::vector<size_t> tensors;
};

struct Residency {
  /// Per tensor: nothing if it lies in DRAM.
  std::vector<std::optional<Resident>> tensors;
  /// Per kernel: bytes of scratchpad 0, from 0 on, that are left for its own buffers.
  std::vector<int64_t> room;
  /// Per kernel: a run of whole banks between tensors, or behind them, that is larger than that; empty: none.
  std::vector<Range> gap;
  /// Tensors that are wanted on chip and cannot be there, and why.
  std::vector<std::pair<size_t, std::string>> refused;
  /// Tensors that only lack the room that others take, those first that would save most bytes.
  std::vector<size_t> leftOut;
};

/// A tensor that goes to one kernel with an anchor and nowhere else, as rows that all can use.
struct RowsBetween {
  Resident layout;
  unsigned firstWriter = 0, reader = 0; ///< kernels; each one from the first to the reader writes a part of the channels
  int addend = -1; ///< of the reader's tensors, where a step behind its anchor reads it; -1: the anchor does
};
/// Finds both for one network, whatever else is reserved: what only the uses say is found out once. They outlive it.
class ResidentChooser {
public:
  ResidentChooser(const NetworkUses &uses, const timing::MachineParams &machine);
  ~ResidentChooser();
  /// Chooses the tensors that save most transfers for the room and time they take. Deterministic.
  Residency choose(const std::vector<Reserved> &reserved = {}) const;
  /// Bytes of the tensors of `whole`, which choose() gave, that have to leave if the group alone is reserved. Looks at the group's
  /// neighbourhood only: at all of a network of up to 150 kernels.
  int64_t bytesLeaving(const Residency &whole, const Reserved &group) const;
  /// The tensor that kernel `writer` writes, if the next kernel reads it, or the next one behind others that write parts of it: rows of
  /// pixels, or of matrices (Kernel::makesMatrixRows()), which are one pixel wide.
  std::optional<RowsBetween> rowsBetween(unsigned writer) const;

private:
  class Network;
  std::unique_ptr<const Network> network;
};

/// ResidentChooser::choose() and rowsBetween(), once.
Residency chooseResidents(const NetworkUses &uses, const timing::MachineParams &machine,
                          const std::vector<Reserved> &reserved = {});
std::optional<RowsBetween> rowsBetween(const NetworkUses &uses, unsigned writer, const timing::MachineParams &machine);

} // namespace tw::accel

#endif // COMPILER_CODEGEN_ACCEL_RESIDENCY_H
