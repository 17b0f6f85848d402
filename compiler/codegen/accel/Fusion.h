//===- Fusion.h - Kernels side by side, a band of rows at a time --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tensor between two kernels that does not fit the first scratchpad as a whole
// may still pass through it: the kernels take turns, each a band of rows at a time
// (docs/design/depth-first-fusion.md).
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_ACCEL_FUSION_H
#define COMPILER_CODEGEN_ACCEL_FUSION_H

#include "compiler/codegen/accel/Residency.h"

namespace tw::accel {

/// A tensor of which scratchpad 0 holds a few bands at a time.
struct BandedTensor {
  size_t tensor = 0; ///< of NetworkUses
  /// Of the group's kernels; each one from the first to the reader writes a part of the channels.
  size_t firstWriter = 0, reader = 0;
  int addend = -1;          ///< of the reader's tensors, where a step behind its anchor reads it; -1: the anchor does
  Resident layout;          ///< of a band; its address is not used, it has no padding rows of its own
  int64_t rows = 1;         ///< of the whole
  std::vector<Range> bands; ///< the rows that the reader's band needs: padding, and rows of other bands, included
  /// Bands that follow one another in memory, so that rows of two of them lie there once. The last band of a run ends it: no window
  /// wraps around.
  size_t bandsPerRun = 1;
  /// Rows of a ring: a row lies where the one lay that is so many rows above. A window reads all of them, and its rows of taps go round
  /// as they do. 0: none.
  int64_t ring = 0;
  std::vector<int64_t> slots; ///< addresses; run r lies in slot r % slots
  /// Where the array and the vector engine both read windows of it, each block of channels is a plane, and those from this one on have
  /// banks of their own. 0: blocks follow one another within a pixel.
  int64_t arrayFrom = 0;

  size_t runOf(size_t band) const { return band / bandsPerRun; }
  size_t runs() const { return (bands.size() + bandsPerRun - 1) / bandsPerRun; }
  Range rowsOfRun(size_t run) const;
  int64_t slotRows() const; ///< that a slot has room for
  int64_t slotBytes() const { return slotRows() * layout.rowBytes * (arrayFrom ? layout.blocks() : 1); }
  /// The place in the ring of a row, counted from its first.
  int64_t placeOf(int64_t row) const { return (row - bands[0].begin) % ring; }
  /// Those of `rows` that follow one another in memory, and what is added to an address of inRun() for them.
  std::vector<std::pair<Range, int64_t>> pieces(Range rows) const;
  /// The whole tensor as far as it lies in that run.
  Resident inRun(size_t run) const;
};

/// What a kernel of a group has to know.
struct Banding {
  /// What buffers are for; each use has bytes of its own. An engine that owns a bank keeps the others out, so what different
  /// engines read should not lie side by side.
  enum Use { Streams, Weights, Parameters, Sums, kUses };
  /// Of its result, one after the other: each row is computed once. Where the kernel makes rows of matrices, those of all matrices
  /// follow one another.
  std::vector<Range> rows;
  std::array<Range, kUses> own; ///< Weights: of a contraction; Sums: of the accumulator
  const BandedTensor *input = nullptr, *addend = nullptr, *output = nullptr; ///< null: elsewhere
  bool fillsBorders = false;                                                 ///< of `output`: the first of its writers
  unsigned strips = 0;        ///< of columns, whose windows find the sums that they share with the band above; 0: they do not
  int64_t copiedRows = 0;     ///< of packed taps, from the band above
  bool maxLineBuffer = false; ///< a line buffer has room for the maxima of sums that its windows share with the band above
  bool loadsWhole = false;    ///< these are loaded by one engine, as there is no room for parts
  uint32_t behind = 0;        ///< bands: what the first kernel makes meanwhile is so many bands further on
};

/// Kernels first, first + 1, ... whose steps are merged, band by band.
struct Group {
  unsigned first = 0;
  int64_t rowsPerBand = 1;           ///< of the last kernel's result
  std::vector<BandedTensor> tensors; ///< in the order of their writers: every kernel but the last writes one, or a part of it
  std::vector<Banding> kernels;
  bool maxLineBuffers = false; ///< kernels that can have such a line buffer do, unless their plans say otherwise
  int64_t bytes = 0;           ///< of scratchpad 0, from 0 on
  /// Who shares banks: all kernels, slots of one kernel, or none.
  enum class Banks { Shared, OfKernel, Own } banks = Banks::Shared;

  unsigned last() const { return first + unsigned(kernels.size()) - 1; }
  /// What the i-th of its kernels writes in bands, reads with its anchor, or with a step behind it; null: nothing.
  const BandedTensor *outputOf(size_t i) const;
  const BandedTensor *inputOf(size_t i) const;
  const BandedTensor *addendOf(size_t i) const;
  const BandedTensor *readBy(size_t i) const; ///< either
  bool hasRing() const {
    return llvm::any_of(tensors, [](const BandedTensor &tensor) { return tensor.ring > 0; });
  }
};

struct Fusion {
  std::vector<Group> groups; ///< in the order of the kernels, apart
  Residency residency;       ///< what stays as a whole beside them
  /// Tensors that are wanted in bands and cannot be, and why.
  std::vector<std::pair<size_t, std::string>> refused;

  const Group *groupOf(unsigned kernel) const;
  bool isSameChoice(const Fusion &other) const;
};

/// Chooses the groups that save most time, without the `banned` ones (first and last kernel), and what stays on chip beside them.
/// Deterministic.
Fusion chooseGroups(const NetworkUses &uses, const std::vector<std::pair<unsigned, unsigned>> &banned,
                    const timing::MachineParams &machine);

} // namespace tw::accel

#endif // COMPILER_CODEGEN_ACCEL_FUSION_H
