//===- Contraction.h - Matrix products and convolutions in a kernel -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_CODEGEN_GPU_CONTRACTION_H
#define COMPILER_CODEGEN_GPU_CONTRACTION_H

#include "compiler/codegen/gpu/Program.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include <optional>
#include <string>
#include <vector>

namespace tw::gpu {

/// Products of one shape: out[row, column] = sum over k of a[row, k] * b[k, column], where the rows of A are those of a matrix or the windows of an image.
struct Contraction {
  mlir::linalg::LinalgOp op;
  mlir::Value a, b;                                      ///< operands; of an image padded with the zero point the image itself
  Element element;                                       ///< of both
  int64_t zeroPoint = 0;                                 ///< what is taken off each element of A
  int64_t batches = 1, rows = 0, columns = 0, depth = 0; ///< of each product
  /// Loop dims, outermost first: of products, rows, and k. Columns are the innermost dim of the output.
  llvm::SmallVector<unsigned> batchDims, rowDims, depthDims;
  unsigned columnDim = 0;

  /// Of a convolution of an NHWC image. Filters of 1x1 with stride 1 and no padding are matrix products.
  struct Window {
    int64_t images, height, width, channels, outHeight, outWidth, filterHeight, filterWidth;
    int64_t strideHeight, strideWidth, dilationHeight, dilationWidth;
    int64_t padTop, padLeft;
  };
  std::optional<Window> window;
  /// Of a grouped convolution: each is a product of the batch, whose image is these channels of a pixel, and whose result these columns of a
  /// row of the output; `window.channels` and `columns` are those of a group. Loop dim of the groups: the only one of batchDims.
  int64_t groups = 1;

  /// Taps of a window that lie in the image, along one dim: [first, end).
  struct Taps {
    int64_t first, end;
    bool operator==(const Taps &other) const { return first == other.first && end == other.end; }
  };
  static Taps tapsInside(int64_t output, int64_t stride, int64_t pad, int64_t dilation, int64_t taps, int64_t size);
};

/// What the op is as a contraction; else why it is none that the tensor cores do, in words: "its operands are f32 and i8".
struct Match {
  std::optional<Contraction> contraction;
  std::string why;
};
Match matchContraction(mlir::linalg::LinalgOp op);

/// Bytes of a constant tensor, row-major; truth values are a byte each.
std::vector<uint8_t> bytesOfConstant(mlir::Value constant);

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_CONTRACTION_H
