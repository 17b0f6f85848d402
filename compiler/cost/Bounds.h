//===- Bounds.h - Cycles no schedule can beat --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Depends on the layers of a network, machine and element type, never on a
// decision of ours. The derivation is in docs/bounds.md.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_COST_BOUNDS_H
#define COMPILER_COST_BOUNDS_H

#include "compiler/cost/Access.h"
#include "compiler/cost/Traffic.h"

#include <optional>
#include <string>
#include <vector>

namespace tw::cost {

/// Where the positions w, h and n of a tensor lie, in elements; the channels of a position lie side by side.
struct Grid {
  std::array<int64_t, 3> size{1, 1, 1}, stride{};
  int64_t channels = 1, offset = 0;

  bool hasPositionsOf(const Grid &other) const {
    for (size_t a = 0; a < 3; ++a)
      if (size[a] != other.size[a] || (size[a] > 1 && stride[a] != other.stride[a]))
        return false;
    return true;
  }
};

/// A tensor in DRAM of a network: an index into the list that networkBound takes.
struct TensorUse {
  unsigned tensor = 0;
  uint64_t bytes = 0; ///< a lower bound of the bytes that the layer touches
  /// Set where the layer reads the whole tensor and each element once: the positions in the order of the layer's loops.
  std::optional<Grid> grid;
  uint64_t elementBytes = 1;
};

/// A constant of a layer. Constants with the same key are the same bytes; a constant with a null key is like no other.
struct ConstantUse {
  const void *key = nullptr;
  uint64_t bytes = 0;
  uint64_t elementBytes = 1;
};

/// Which channels of inputs[0] a result depends on. LayerWork::window holds the positions.
enum class Dependence {
  None,        ///< unknown
  Elementwise, ///< the channel of the result, of the other inputs too
  Window,      ///< the channel of the result
  Channels,    ///< all channels
};

/// The least work of one layer on each engine.
struct LayerWork {
  uint64_t arrayCycles = 0;   ///< rows streaming through the array, for any packing
  uint64_t preloadCycles = 0; ///< weights through the preload port
  uint64_t preloadTiles = 0;  ///< the least number of tiles that the weights fill
  uint64_t vectorCycles = 0;  ///< results through the vector engine
  /// Depthwise windows run on either engine: cycles in addition to vectorCycles, or cycles on the array.
  uint64_t windowVectorCycles = 0, windowArrayCycles = 0;
  std::optional<Contraction> contraction; ///< on the array
  bool operandsLoaded = false;            ///< input and weights are two tensors in DRAM
  std::vector<TensorUse> inputs;          ///< a contraction's or window's own input first
  std::vector<ConstantUse> constants;
  TensorUse output;
  Dependence dependence = Dependence::None;
  std::array<PositionAxis, 3> window;                ///< positions of inputs[0] that a result reads; see `dependence`
  bool poolsPositions = false;                       ///< the results of all positions of an image are summed
  std::optional<std::array<PositionAxis, 3>> maxima; ///< window of the contraction's sums whose maximum is the result
  std::optional<size_t> weights;                     ///< index of the contraction's weights among `constants`

  /// A part of the output whose results have one access relation. A layer that computes has one piece; a layer that copies may have several.
  struct Piece {
    ResultSpace space;
    std::vector<Access> reads;
  };
  std::vector<Piece> pieces; ///< all results; empty: the access relations are unknown
  // Access relations between the results and intermediate values of a layer with one piece.
  std::optional<Access> sums; ///< sums of the contraction or window, numbered by n, h, w, group and channel
  std::vector<Access>
      passes; ///< for each pass of the vector engine, the elements that the pass reads or writes, one a lane and cycle
  std::optional<Access> looked;         ///< elements that the vector engine reads in front of all passes
  std::optional<Contraction> depthwise; ///< a window that may run on either engine, as a contraction

  /// Whether each channel has one result.
  bool onePosition() const { return window[0].size == 1 && window[1].size == 1 && window[2].size == 1; }
};

struct Bound {
  uint64_t cycles = 0;
  /// "array", "preload", "vector", "dram", "dram segments", "port", "cut", or "fill" where the fixed part is the larger
  /// one.
  std::string by;
  uint64_t fillCycles = 0; ///< of `cycles`: before the engine can begin and after it has ended
};

/// DRAM bytes of a layer that runs alone: inputs, weights and results cross the bus.
struct LayerTraffic {
  uint64_t compulsoryBytes = 0;  ///< everything once
  uint64_t unavoidableBytes = 0; ///< no schedule moves less
  uint64_t threeMemoryBytes = 0; ///< no schedule of a machine with one memory for each operand moves less
  uint64_t referenceBytes = 0;   ///< the best tiling; not a bound
};

/// A tensor that layers share.
struct NetworkTensor {
  uint64_t bytes = 0;
  bool input = false, output = false, constant = false;
};

LayerTraffic layerTraffic(const LayerWork &layer, const timing::MachineParams &machine);

/// Lower bound of a layer that runs alone.
Bound layerBound(const LayerWork &layer, const timing::MachineParams &machine);

/// Bytes that no schedule of the network avoids: constants, outputs, and the parts of network inputs that results depend on. Intermediate
/// tensors may stay on chip. For a network of one layer: LayerTraffic::unavoidableBytes.
uint64_t networkBytes(const std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors,
                      const timing::MachineParams &machine);

/// Lower bound of a network: the largest of the sums over layers, never a sum of per-layer maxima. `layers` are in topological order;
/// TensorUse::tensor indexes `tensors`.
Bound networkBound(const std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors,
                   const timing::MachineParams &machine);

} // namespace tw::cost

#endif // COMPILER_COST_BOUNDS_H
