//===- MmaKernel.h - Matrix products and convolutions for sm_80 -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The template of TileKernel.h for devices without TMA and wgmma. All threads of
// a block copy 16 bytes each into a ring of stages (cp.async), whose rows of 128
// bytes have their units of 16 XORed with the row, and all warps multiply (mma).
// What lies outside is filled with zeros. Sums go through shared memory, so that
// neighbouring threads read what the epilogue reads, and write, side by side.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_GPU_MMAKERNEL_H
#define COMPILER_CODEGEN_GPU_MMAKERNEL_H

#include "compiler/codegen/gpu/ProductKernel.h"

#include "llvm/ADT/ArrayRef.h"

#include <string>

namespace tw::gpu {

/// A tile of the output, and the warps of the block that computes it.
struct MmaShape {
  unsigned rows = 128, columns = 128; ///< multiples of 64
  unsigned stages = 3;
  unsigned warpsDown = 2, warpsAcross = 4; ///< a warp has rows and columns in multiples of 16

  unsigned threads() const { return 32 * warpsDown * warpsAcross; }
  /// "128x64".
  std::string name() const;
};

/// `rate`: about the part of the tensor cores' peak that a tile reaches, an estimate.
struct MmaTile {
  MmaShape shape;
  double rate;
};
/// The tiles there are. All but the first fit into the 99 KB that a block has on sm_86 and sm_89.
llvm::ArrayRef<MmaTile> mmaTiles();

struct MmaKernel : ProductKernel {
  MmaShape shape;
  /// Neighbouring columns that the epilogue is given: 4, 2 or 1. The number of columns is a multiple of it.
  unsigned lanes = 4;

  unsigned stageBytes() const { return (shape.rows + shape.columns) * kStageRowBytes; }
  /// Of dynamic shared memory: the stages, or the sums of the tile.
  unsigned sharedBytes() const;

  /// Parameters: pointers, and i32. A unit is 16 bytes.
  enum Parameter : unsigned {
    A,
    B,
    Out,
    Slots,        ///< SplitSum::Slots, of split tiles
    Batches,      ///< products
    Rows,         ///< of the output of each product
    Columns,      ///< of the output of each product
    Stages,       ///< of k
    DepthA,       ///< units of a row of A; of Pixels, of the channels of a pixel
    DepthB,       ///< units of a row of B; of columnsInner, rows of B
    RowStrideA,   ///< units; of Pixels, of a pixel
    RowStrideB,   ///< units
    RowStrideOut, ///< elements
    InnerBatches, ///< of the inner one of two batch dims
    InnerStrideA, ///< units
    OuterStrideA,
    InnerStrideB, ///< units
    OuterStrideB,
    InnerStrideOut, ///< elements
    OuterStrideOut,
    // Of Pixels.
    Height,
    Width,
    OutHeight,
    OutWidth,
    StrideHeight,
    StrideWidth,
    PadTop,
    PadLeft,
    DilationHeight,
    DilationWidth,
    FilterWidth,
    ChannelBlocks, ///< stages of a tap
    Split,         ///< tiles
    Blocks,        ///< that have the pieces of split tiles
    FirstPointer
  };
};

/// Adds the kernel to `module`, whose triple is nvptx64-nvidia-cuda. A grid has a block for each piece of split tiles, then one for each whole
/// tile.
llvm::Function *emitMmaKernel(llvm::Module &module, const MmaKernel &kernel);

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_MMAKERNEL_H
