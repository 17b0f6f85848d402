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
  uint64_t bytes = 0; ///< that the layer touches at least
  /// How the layer walks it, if it does so plainly: inputs as a whole, each element once.
  std::optional<Grid> grid;
  uint64_t elementBytes = 1;
};

/// A constant of a layer. Two with the same key, unless it is null, are the same bytes.
struct ConstantUse {
  const void *key = nullptr;
  uint64_t bytes = 0;
  uint64_t elementBytes = 1;
};

/// How the results of a layer hang on inputs[0], as far as cuts need to know: on what LayerWork::window says of the
/// positions, and of the channels there on
enum class Dependence {
  None,        ///< nothing is known
  Elementwise, ///< their own, and of the other inputs too
  Window,      ///< their own
  Channels,    ///< all
};

/// What one layer asks of the engines at least.
struct LayerWork {
  uint64_t arrayCycles = 0;   ///< streaming through the array, any packing
  uint64_t preloadCycles = 0; ///< weights through the preload port
  uint64_t preloadTiles = 0;  ///< that these weights fill at least
  uint64_t vectorCycles = 0;  ///< results through the vector engine
  /// Depthwise windows may run on either engine: so many cycles more on the vector engine, or so many on the array.
  uint64_t windowVectorCycles = 0, windowArrayCycles = 0;
  std::optional<Contraction> contraction; ///< on the array
  bool operandsLoaded = false;            ///< its input and weights are two tensors that come from DRAM
  std::vector<TensorUse> inputs;          ///< a contraction's or window's own input first
  std::vector<ConstantUse> constants;
  TensorUse output;
  Dependence dependence = Dependence::None;
  std::array<PositionAxis, 3> window;                ///< which positions of inputs[0] a result takes, unless nothing is known
  bool poolsPositions = false;                       ///< the results of all positions of an image are summed
  std::optional<std::array<PositionAxis, 3>> maxima; ///< which sums of the contraction a result is the largest of
  std::optional<size_t> weights;                     ///< among the constants, what the contraction multiplies by

  /// Results that lie in the output in one way, and what they take: one of a layer that computes, several of one that copies.
  struct Piece {
    ResultSpace space;
    std::vector<Access> reads;
  };
  std::vector<Piece> pieces; ///< all results; none: nothing is known of what they take
  // Of a layer with one piece, what its results take of what the layer makes on the way:
  std::optional<Access> sums; ///< sums of the contraction or window, numbered by n, h, w, group and channel
  std::vector<Access>
      passes; ///< for each pass of the vector engine, the elements that it reads or writes, one a lane and cycle
  std::optional<Access> looked;         ///< elements that the vector engine looks at, before all others
  std::optional<Contraction> depthwise; ///< a window that may run on either engine, as a contraction

  /// Whether all results of a channel are one.
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
  uint64_t threeMemoryBytes = 0; ///< nor does one with a memory for each operand move less than this
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

/// Bytes that no schedule of the network avoids: constants, network inputs as far as results hang on them, and outputs, as intermediate
/// tensors may stay on chip; of a network of one layer what that layer cannot avoid.
uint64_t networkBytes(const std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors,
                      const timing::MachineParams &machine);

/// Lower bound of a network, layers in the order of their dependences: the largest of the sums over layers, never a sum
/// of per-layer maxima. LayerWork's tensors index `tensors`.
Bound networkBound(const std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors,
                   const timing::MachineParams &machine);

} // namespace tw::cost

#endif // COMPILER_COST_BOUNDS_H
