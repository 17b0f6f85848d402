//===- TileKernel.h - Matrix products and convolutions for sm_90a -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One template for every contraction. One warpgroup, the producer, copies tiles
// of A and B into a ring of stages; the others, the consumers, multiply 64 rows
// each and apply f. Blocks stay and take one tile after another, then their
// piece of split tiles.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_GPU_TILEKERNEL_H
#define COMPILER_CODEGEN_GPU_TILEKERNEL_H

#include "compiler/codegen/gpu/Hopper.h"
#include "compiler/codegen/gpu/ProductKernel.h"

#include <string>
#include <vector>

namespace tw::gpu {

/// A tile of the output, and how a block computes it.
struct TileShape {
  unsigned rows = 128, columns = 256;
  unsigned stages = 4;
  /// Blocks of a cluster that share the k of one tile; 1: none.
  unsigned splitK = 1;

  /// Warpgroups that multiply, 64 rows each.
  unsigned consumers() const { return rows / 64; }
  unsigned threads() const { return 128 * (consumers() + 1); }
  /// "128x256", "64x64/4" with split k.
  std::string name() const;
};

/// The map of A is tiled, {k, rows}, or of Pixels im2col, {c, w, h, n}. Of a batch, which is of matrices, maps have a dim more, the outermost.
/// Of columns inside, the map of B has boxes of 64 x 64. A grid of split tiles has as many blocks as there are pieces, of which the number of
/// whole tiles is a multiple.
struct TileKernel : ProductKernel {
  TileShape shape;
  /// The batch has two dims, the inner one of kInnerBatches: maps have two dims more.
  bool splitsBatch = false;
  /// The result leaves through a tensor map; else by stores of pairs, where rows are no multiple of 16 bytes. Never with split k.
  bool storesBoxes = true;
  /// The rows of B are permuted by bytePosition().
  bool permutesColumns = false;
  /// The grid may begin before the one in front of it ends, and loads B until that has.
  bool overlapsGrids = false;
  bool knowsB = true; ///< B is a constant: only then it can be loaded so early
  /// Those of the pointers that hold a number of `bytes` for each column, by their index: copied into shared memory once for each tile. Only
  /// where the result leaves in boxes.
  struct Vector {
    unsigned pointer, bytes;
  };
  std::vector<Vector> vectors;
  /// A tensor of the output's shape and bytes that the epilogue reads, through a map with the output's boxes, which is the last parameter.
  /// While the tile is multiplied, its boxes are copied to where the tile's result will lie. Only where the result leaves in boxes.
  bool hasResidual = false;

  unsigned stageBytes() const { return (shape.rows + shape.columns) * kStageRowBytes; }
  /// Buffers of 64 x 64 results for each consumer: with a residual one for each 64 columns, else two in turns.
  unsigned outBuffers() const;
  bool copiesAhead() const { return hasResidual || !vectors.empty(); }
  /// Of a tile's vectors.
  unsigned vectorBytes() const;
  /// Of dynamic shared memory: stages, output buffers, vectors, barriers, and what it takes to begin at a multiple of 1024.
  unsigned sharedBytes() const;
};

/// Parameters of a tile kernel. Maps: 128 bytes each, of A, B ({k, columns}) and the output ({columns, rows}; boxes of 64 x 64). i32: products,
/// rows and columns of the output of each, stages of k, then what Pixels needs, products of the inner batch dim, and split tiles. Pointers: the
/// output, the slots of split tiles (SplitSum::Slots), and those of the epilogue.
enum TileParameter : unsigned {
  kMapA,
  kMapB,
  kMapOut,
  kBatches,
  kRows,
  kColumns,
  kStages,
  kOutHeight,
  kOutWidth,
  kStrideHeight,
  kStrideWidth,
  kPadTop,
  kPadLeft,
  kDilationHeight,
  kDilationWidth,
  kFilterWidth,
  kChannelBlocks,
  kInnerBatches,
  kSplit,
  kOut,
  kSlots,
  kFirstPointer
};

/// Adds the kernel to `module`, whose triple is nvptx64-nvidia-cuda. Boxes of int8 need permuted columns.
llvm::Function *emitTileKernel(llvm::Module &module, const TileKernel &kernel);

/// The four columns of each 16 that a thread owns lie side by side in the output if row p of B is that of this column.
inline unsigned bytePosition(unsigned p) { return p / 16 * 16 + p % 8 / 2 * 4 + p % 16 / 8 * 2 + p % 2; }

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_TILEKERNEL_H
