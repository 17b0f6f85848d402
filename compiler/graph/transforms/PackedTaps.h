//===- PackedTaps.h - Convolutions of few channels --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_PACKEDTAPS_H
#define COMPILER_GRAPH_TRANSFORMS_PACKEDTAPS_H

#include "compiler/graph/Graph.h"
#include "compiler/graph/transforms/KernelTarget.h"

namespace tw::graph {

/// Whether the load engine lays the taps of `conv`, a convolution of either layout, side by side, if its input comes from DRAM. No other op has
/// taps.
bool packsTaps(mlir::Operation *conv, const ArrayMachine &array);

/// Whether the accelerator reads the input of `conv` in the model's layout (NCHW), with packed taps, faster than it transposes the image and
/// reads that; see Passes.td.
bool readsPlanes(mlir::Operation *conv, const ArrayMachine &array);

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_PACKEDTAPS_H
