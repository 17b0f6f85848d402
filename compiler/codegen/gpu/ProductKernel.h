//===- ProductKernel.h - What both templates of contractions share -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A contraction is out[row, column] = f(sum over k of a[row, k] * b[column, k]).
// TileKernel.h (sm_90a) and MmaKernel.h (sm_80) compute it in tiles of the output.
//
// Stream-K (Osama et al., PPoPP 2023): tiles that do not fill the last wave of
// blocks are split. Their stages of k, tile after tile, are one line, which is
// cut into a piece for each block. A piece lies in one tile or in two
// neighbours. The block writes the sums of each part to a slot of its own; a
// second kernel adds up the slots of a tile in the order of k, so that the same
// input gives the same bytes, and applies the epilogue once.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_GPU_PRODUCTKERNEL_H
#define COMPILER_CODEGEN_GPU_PRODUCTKERNEL_H

#include "compiler/codegen/gpu/Program.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include <functional>
#include <string>

namespace tw::gpu {

/// Where the rows of A come from.
enum class RowSource : uint8_t {
  Matrix, ///< [rows, k], row-major
  Pixels  ///< the windows of a convolution of NHWC; k is (filter row, filter column, channel block)
};

/// Which tiles of a kernel are split.
enum class Splitting : uint8_t {
  None,
  Last, ///< those behind the whole waves of blocks
  All
};

/// Bytes of one row of a stage: what a swizzle of 128 bytes spans.
constexpr unsigned kStageRowBytes = 128;

/// What an epilogue is given for 1, 2 or 4 neighbouring columns of a row. `row` and `column` lie inside of the output.
struct EpilogueInput {
  llvm::ArrayRef<llvm::Value *> sums; ///< floats, or i32 of bytes
  llvm::Value *row, *column;          ///< of the first one
  llvm::Value *columns;               ///< that a row has
  /// Of the residual, as the output's elements; empty without TileKernel::hasResidual.
  llvm::ArrayRef<llvm::Value *> residual;
  /// ProductKernel::pointers of them. Those of TileKernel::vectors point to shared memory, so that the vector's element of a column lies at
  /// that index.
  llvm::ArrayRef<llvm::Value *> pointers;
};
/// The floats that are written.
using Epilogue = std::function<llvm::SmallVector<llvm::Value *>(llvm::IRBuilder<> &, const EpilogueInput &)>;

struct ProductKernel {
  std::string name;
  Element in = Element::Bf16, out = Element::Bf16;
  RowSource source = RowSource::Matrix;
  /// Many products of one shape. Rows that the epilogue sees count through all of them.
  bool isBatched = false;
  /// B lies [k, columns], 16-bit elements; else [columns, k].
  bool columnsInner = false;
  Splitting splitting = Splitting::None;
  unsigned pointers = 0; ///< that the epilogue reads
  Epilogue epilogue;

  /// Elements of k in a stage.
  unsigned depth() const { return kStageRowBytes / bytesOf(in); }
  /// Of what is summed up: float, or i32 of bytes.
  llvm::Type *sumType(llvm::LLVMContext &context) const;
};

/// A tile of the output, by its number: rows and columns in tiles, and the product.
struct TilePlace {
  llvm::Value *row, *column, *batch;
};
/// Groups of 8 tile rows, column by column inside a group, so that what tiles share stays in L2. i32.
TilePlace placeOfTile(llvm::IRBuilder<> &b, llvm::Value *tile, llvm::Value *rowTiles, llvm::Value *columnTiles, bool isBatched);
/// Tiles along a dim of `size`.
llvm::Value *tilesAlong(llvm::IRBuilder<> &b, llvm::Value *size, unsigned tile);

/// Pieces of split tiles. Items number what blocks do: whole tiles first, then every stage of k of every split tile. i32.
class SplitTiles {
public:
  /// The last `split` of the tiles are split into pieces for `blocks` blocks. `split` * `stages` * `blocks` < 2^32, and
  /// `split` <= `blocks` <= `split` * `stages`.
  SplitTiles(llvm::IRBuilder<> &builder, llvm::Value *tiles, llvm::Value *split, llvm::Value *blocks, llvm::Value *stages);

  /// The first item of a block's piece; that of the block behind it ends the piece.
  llvm::Value *pieceOf(llvm::Value *block);
  /// Whose piece a stage lies in: `unit` counts from the first split tile.
  llvm::Value *blockOf(llvm::Value *unit);
  struct Part {
    llvm::Value *tile;
    llvm::Value *firstStage, *endStage; ///< of k
    llvm::Value *isWhole;               ///< i1
    llvm::Value *slot;                  ///< of a split tile: where the sums of this part go
    llvm::Value *next;                  ///< of a split tile: the item behind the part
  };
  /// From `item` of `block` on, up to `end` or the end of the tile.
  Part partAt(llvm::Value *item, llvm::Value *end, llvm::Value *block);
  /// Slots are counted through blocks and tiles, which grow together: there are fewer than `split` + `blocks`.
  llvm::Value *slotOf(llvm::Value *block, llvm::Value *splitTile) { return b.CreateAdd(block, splitTile); }
  llvm::Value *wholeTiles() const { return whole; }

private:
  llvm::IRBuilder<> &b;
  llvm::Value *whole, *blocks, *stages, *units;
};

/// Where results go: [outer batch][inner batch][row][column], strides in elements. i32, and the pointer.
struct ResultPlace {
  llvm::Value *out, *rows, *columns, *rowStride, *innerBatches, *innerStride, *outerStride;
};
/// Stores what the epilogue makes of the sums of 1, 2 or 4 neighbours. The number of columns is a multiple of theirs, and `column` too.
void finishNeighbours(llvm::IRBuilder<> &b, const ProductKernel &kernel, const ResultPlace &place,
                      llvm::ArrayRef<llvm::Value *> pointers, llvm::ArrayRef<llvm::Value *> sums, llvm::Value *batch,
                      llvm::Value *row, llvm::Value *column);

/// The kernel that adds up the slots of split tiles. `kernel`: that of the tiles, with the epilogue.
struct SplitSum {
  ProductKernel kernel;
  unsigned rows, columns; ///< of a tile
  unsigned lanes;         ///< neighbouring columns of a thread: 4, 2 or 1. The number of columns is a multiple of it.

  static constexpr unsigned kThreads = 256; ///< of a block
  /// Blocks of the grid for so many split tiles.
  uint32_t blocks(uint32_t split) const { return split * rows * columns / lanes / kThreads; }

  /// Parameters: pointers, and i32.
  enum Parameter : unsigned {
    Slots, ///< [slot][row of the tile][column of the tile], floats or i32
    Out,
    Batches, ///< products
    Rows,    ///< of the output of each product
    Columns, ///< of the output of each product
    Stages,  ///< of k
    Split,   ///< tiles
    Blocks,  ///< that have the pieces
    RowStride,
    InnerBatches, ///< of the inner one of two batch dims
    InnerStride,
    OuterStride,
    FirstPointer
  };
};
llvm::Function *emitSplitSum(llvm::Module &module, const SplitSum &sum);

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_PRODUCTKERNEL_H
