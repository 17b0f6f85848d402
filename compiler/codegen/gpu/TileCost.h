//===- TileCost.h - Estimated times of contractions -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How long tiles take, and whether their k is worth splitting. Tiles of one wave
// run side by side, one on each multiprocessor; a started wave takes as long as
// a full one. Split tiles end together, at the price of a launch and of sums
// that are written and read once. Estimates only order the variants of a step.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_GPU_TILECOST_H
#define COMPILER_CODEGEN_GPU_TILECOST_H

#include <cstdint>
#include <optional>
#include <string>

namespace tw::gpu {

/// The time of a launch with its first and last copies (short kernels in a graph, measured on an H100).
constexpr double kLaunchMicroseconds = 2.5;

/// For estimates: the clock under load, memory (10^9 bytes in a second), and products of bf16 of a multiprocessor in a cycle.
struct DeviceModel {
  double clockGigahertz, memoryGigabytes, productsPerCycle;
  unsigned multiprocessors;
};
constexpr DeviceModel kH100{1.7, 2900, 2048, 132};  ///< measured
constexpr DeviceModel kA100{1.41, 1400, 1024, 108}; ///< of its data sheet, memory less a tenth

/// Products of one shape as a kernel of tiles sees them.
struct ProductSize {
  uint64_t batches, rows, columns, stages; ///< stages: of k
  unsigned elementBytes;
  double bytes; ///< that are read and written, without partial sums
};
/// `rate`: about the part of the tensor cores' peak that such a tile reaches.
struct TileSize {
  unsigned rows, columns;
  double rate;
};

/// The last `tiles` tiles are split among `blocks` blocks.
struct TileSplit {
  uint32_t tiles, blocks;
  uint32_t slots() const { return tiles + blocks - 1; }
  /// " stream-k 24/108": 24 tiles by 108 blocks. Behind the name of a tile.
  std::string name() const { return " stream-k " + std::to_string(tiles) + "/" + std::to_string(blocks); }
};

class TileCost {
public:
  TileCost(const DeviceModel &device, unsigned multiprocessors, const ProductSize &size, const TileSize &tile);

  uint64_t tiles() const { return count; }
  /// Microseconds of whole tiles, each by one block, or with each tile's k shared by a cluster of `clusterBlocks`.
  double whole(unsigned clusterBlocks = 1) const;
  double split(const TileSplit &split) const;
  /// The fastest split: of the tiles behind the last full wave, among all multiprocessors; where there is no full wave, of all tiles, into
  /// equal parts or among all multiprocessors. Nothing if no tile is left over or k is too short.
  std::optional<TileSplit> bestSplit() const;

private:
  double computing(double waves, double stages) const { return waves * stages * stageMicroseconds; }

  uint64_t multiprocessors, stages, count;
  double stageMicroseconds, memoryMicroseconds, slotMicroseconds;
};

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_TILECOST_H
