//===- ChannelOrders.h - Channel shuffles without movement ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_CHANNELORDERS_H
#define COMPILER_GRAPH_TRANSFORMS_CHANNELORDERS_H

#include "mlir/IR/Block.h"

namespace tw::graph {

/// Removes shuffles of channels from a function's only block. Channels are the last dim; a shuffle is a reshape, a transpose and a reshape, or a
/// slice that goes backwards. A shuffle is removed where every value computed from the shuffle ends in constant weights, of a convolution or a
/// product, whose rows can be reordered. Values in between keep the order of channels that the shuffle's operand has: constants and the taps
/// of depthwise convolutions are reordered, and slices take runs of that order.
void absorbChannelShuffles(mlir::Block &body);

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_CHANNELORDERS_H
