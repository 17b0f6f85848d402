//===- TileCost.cpp - Estimated times of contractions ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/TileCost.h"
#include "compiler/codegen/gpu/ProductKernel.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace tw;
using namespace tw::gpu;

TileCost::TileCost(const DeviceModel &device, unsigned multiprocessors, const ProductSize &size, const TileSize &tile)
    : multiprocessors(multiprocessors), stages(size.stages),
      count(size.batches * llvm::divideCeil(size.rows, tile.rows) * llvm::divideCeil(size.columns, tile.columns)) {
  const double depth = double(kStageRowBytes) / size.elementBytes;
  // Bytes are twice as fast as bf16, floats half.
  const double cycles =
      double(tile.rows) * tile.columns * depth / (device.productsPerCycle * 2 / size.elementBytes) / tile.rate;
  stageMicroseconds = cycles / (device.clockGigahertz * 1e3);
  memoryMicroseconds = size.bytes / device.memoryGigabytes / 1e3;
  slotMicroseconds = 2.0 * tile.rows * tile.columns * 4 / device.memoryGigabytes / 1e3;
}

double TileCost::whole(unsigned clusterBlocks) const {
  const double waves = double(llvm::divideCeil(count * clusterBlocks, multiprocessors));
  return kLaunchMicroseconds + std::max(computing(waves, double(llvm::divideCeil(stages, clusterBlocks))), memoryMicroseconds);
}

double TileCost::split(const TileSplit &split) const {
  const uint64_t units = split.tiles * stages;
  const double wholeWaves = double((count - split.tiles) / multiprocessors);
  // A piece ends with its tile or inside of one.
  uint64_t parts = split.blocks;
  for (uint64_t tile = 1; tile < split.tiles; ++tile) {
    const uint64_t unit = tile * stages, block = ((unit + 1) * split.blocks - 1) / units;
    parts += block * units / split.blocks != unit;
  }
  const double compute = computing(wholeWaves, double(stages)) + computing(1, double(llvm::divideCeil(units, split.blocks)));
  // The sums come behind the last product, when nothing is computed.
  return 2 * kLaunchMicroseconds + std::max(compute, memoryMicroseconds) + double(parts) * slotMicroseconds;
}

std::optional<TileSplit> TileCost::bestSplit() const {
  const uint64_t left = count % multiprocessors;
  if (!left)
    return std::nullopt;
  std::optional<TileSplit> best;
  auto consider = [&](uint64_t blocks) {
    // What a kernel counts in 32 bits.
    if (blocks <= left || blocks > left * stages || left * stages * blocks > INT32_MAX)
      return;
    const TileSplit candidate{uint32_t(left), uint32_t(blocks)};
    if (!best || split(candidate) < split(*best))
      best = candidate;
  };
  if (count < multiprocessors)
    for (uint64_t parts = 2; parts * left <= multiprocessors; ++parts)
      consider(parts * left);
  consider(multiprocessors);
  return best;
}
