//===- PackedTaps.cpp - Convolutions of few channels ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/PackedTaps.h"
#include "compiler/cost/Contraction.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tw::graph {

namespace {

/// Of a convolution in either layout.
struct Sizes {
  int64_t height, width, channels; ///< of the input
  int64_t taps[2];                 ///< of a window, down and across
  int64_t rows, columns, outputs;  ///< of the result, and its channels
  int64_t dilations[2];
  int64_t group;
  bool hasConstantWeights;
};

template <typename ConvT> Sizes sizesOf(ConvT conv) {
  ArrayRef<int64_t> x = shapeOf(conv.getX()), w = shapeOf(conv.getW()), y = shapeOf(conv.getY()),
                    dilations = conv.getDilations();
  const bool last = conv.getLayout() == "nhwc";
  const size_t image = last ? 1 : 2, window = last ? 0 : 2, channels = last ? 3 : 1;
  return {x[image],
          x[image + 1],
          x[channels],
          {w[window], w[window + 1]},
          y[image],
          y[image + 1],
          y[channels],
          {dilations[0], dilations[1]},
          int64_t(conv.getGroup()),
          bool(constantOf(conv.getW()))};
}

std::optional<Sizes> sizesOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<Sizes>>(op)
      .Case<ConvOp, ConvIntegerOp>([](auto conv) { return sizesOf(conv); })
      .Default([](Operation *) { return std::nullopt; });
}

bool packsTaps(const Sizes &conv, const ArrayMachine &array) {
  return array.rows > 0 && conv.hasConstantWeights && conv.group == 1 && conv.dilations[0] == 1 &&
         cost::tapsShareRows(uint64_t(conv.taps[0] * conv.taps[1]), uint64_t(conv.channels), uint64_t(array.rows));
}

} // namespace

bool packsTaps(Operation *conv, const ArrayMachine &array) {
  const std::optional<Sizes> sizes = sizesOf(conv);
  return sizes && packsTaps(*sizes, array);
}

// A load engine starts a run of neighbours a cycle, the array takes a position a cycle and pass.
bool readsPlanes(Operation *conv, const ArrayMachine &array) {
  const std::optional<Sizes> sizes = sizesOf(conv);
  if (!sizes || !packsTaps(*sizes, array))
    return false;
  const Sizes &of = *sizes;
  const int64_t positions = of.rows * of.columns,
                packedPasses = int64_t(llvm::divideCeil(of.taps[0] * of.taps[1] * of.channels, array.rows));
  const int64_t packed = positions * of.taps[0] * (of.dilations[1] == 1 ? 1 : of.taps[1]);
  const int64_t passes = positions * packedPasses * int64_t(llvm::divideCeil(of.outputs, array.columns));
  const int64_t planes = packed * of.channels / std::min<int64_t>(array.loadEngines, 2);
  return std::max(planes, passes) <= of.height * of.width * of.channels + std::max(packed, passes);
}

} // namespace tw::graph
