//===- ChannelOrders.h - Channel shuffles without movement ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_CHANNELORDERS_H
#define COMPILER_GRAPH_TRANSFORMS_CHANNELORDERS_H

#include "mlir/IR/Block.h"

namespace tw::graph {

/// Takes shuffles of channels that are the last dim (reshape, transpose, reshape; a slice backwards) out of a function's only block, where all
/// that is made of them ends in weights whose rows can follow: a convolution or a product with a constant. In between values keep the order
/// in which their channels lie; constants and the taps of depthwise convolutions follow it, and slices take runs of it.
void absorbChannelShuffles(mlir::Block &body);

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_CHANNELORDERS_H
