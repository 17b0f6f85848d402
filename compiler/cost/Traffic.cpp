//===- Traffic.cpp - Bytes between DRAM and chip ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/cost/Traffic.h"

#include "isa/IsaStructs.h"

#include <algorithm>
#include <cmath>

using namespace tw;
using namespace tw::cost;

Products cost::productsOf(const Contraction &c) {
  return {c.macs(), c.outputs(), reuseFactor(c), c.inputBytes, c.weightBytes, kPartialBytes};
}

//===----------------------------------------------------------------------===//
// Capacity
//===----------------------------------------------------------------------===//

namespace {
uint64_t weightPlanes(const timing::MachineParams &machine) {
  return 2ull * machine.rows * machine.cols * elementBytes(machine.arrayType);
}

uint64_t loadBuffers(const timing::MachineParams &machine) {
  return uint64_t(machine.loadEngines) * machine.outstandingBursts * machine.dram.burstBytes;
}

/// Values on their way through the array or the vector engine.
uint64_t pipelines(const timing::MachineParams &machine) {
  uint64_t array = uint64_t(tensorDrainFloat(machine.timing, machine.rows)) *
                   (uint64_t(machine.rows) * elementBytes(machine.arrayType) + machine.cols * kPartialBytes);
  uint64_t vectors = vectorDrain(machine.timing, machine.vectorStages, machine.lanes) + 2 * isa::kMaxMacTaps + isa::kMaxParams;
  return array + vectors * machine.lanes * 4;
}
} // namespace

uint64_t cost::onChipBytes(const timing::MachineParams &machine) {
  uint64_t bytes = machine.accumulator.capacityBytes + weightPlanes(machine) + loadBuffers(machine) + pipelines(machine);
  for (const timing::MemoryParams &memory : machine.scratchpads)
    bytes += memory.capacityBytes;
  bytes += uint64_t(machine.storeEngines) * machine.outstandingBursts * machine.dram.burstBytes;
  return bytes + uint64_t(machine.dram.writeBufferBursts) * machine.dram.burstBytes;
}

Capacities cost::capacitiesOf(const timing::MachineParams &machine) {
  return {machine.scratchpads.front().capacityBytes + loadBuffers(machine),
          machine.scratchpads.back().capacityBytes + loadBuffers(machine) + weightPlanes(machine),
          machine.accumulator.capacityBytes};
}

//===----------------------------------------------------------------------===//
// Segments
//===----------------------------------------------------------------------===//

namespace {
/// How much of a segment's traffic X, relative to the capacity, is tried: every X gives a bound.
constexpr double kSegments[] = {0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 4, 6};
/// Rounding may not make a quotient of whole numbers a little more than it is.
double ceilOf(double x) { return std::ceil(x * (1 - 1e-12)); }

uint64_t wholeBytes(double bytes) { return bytes > 0 ? uint64_t(ceilOf(bytes)) : 0; }
} // namespace

uint64_t cost::segmentLoads(const Products &p, uint64_t onChip) {
  double best = 0, capacity = double(onChip), price = double(p.inputBytes) * double(p.weightBytes) * double(p.partialBytes);
  for (double part : kSegments) {
    double segment = part * capacity;
    double most = std::sqrt(double(p.reuse) / price * std::pow((capacity + segment) / 3, 3));
    if (double(p.macs) > most)
      best = std::max(best, capacity + segment * (ceilOf(double(p.macs) / most) - 1));
  }
  return wholeBytes(best - double(p.partialBytes) * double(p.outputs));
}

namespace {
/// Most products of a segment of cost X, given what the memories may hold at its start, in cost: X is poured over the
/// levels.
double mostProducts(const std::array<double, 3> &levels, double segment, double scale) {
  std::array<double, 3> sorted = levels;
  std::sort(sorted.begin(), sorted.end());
  double level = 0, sum = sorted[0] + sorted[1] + sorted[2];
  for (int lowest = 3; lowest > 0; --lowest) {
    level = (sum + segment) / lowest;
    if (level >= sorted[size_t(lowest - 1)])
      break;
    sum -= sorted[size_t(lowest - 1)];
  }
  double volume = scale;
  for (double l : levels)
    volume *= std::max(l, level);
  return std::sqrt(volume);
}
} // namespace

uint64_t cost::segmentLoads(const Products &p, const Capacities &capacities, uint64_t priceCap) {
  double best = 0, macs = double(p.macs);
  double elements = std::floor(double(capacities.partials) / double(p.partialBytes));
  // The creation of a partial sum may have any price; with spills at most what a spill costs.
  for (double price = double(p.partialBytes) / 8; price <= 1048576 && (!priceCap || price <= double(priceCap)); price *= 2) {
    std::array<double, 3> levels = {double(capacities.inputs), double(capacities.weights), price * elements};
    double capacity = levels[0] + levels[1] + levels[2];
    double scale = double(p.reuse) / (double(p.inputBytes) * double(p.weightBytes) * price);
    for (double part : kSegments) {
      double segment = part * capacity;
      double most = mostProducts(levels, segment, scale);
      // The first segment starts empty and may spend all it has on two of the three.
      double first = mostProducts({0, 0, 0}, capacity + segment, scale);
      double cost = segment * (ceilOf(macs / most) - 1);
      if (macs > first)
        cost = std::max(cost, capacity + segment * ceilOf((macs - first) / most));
      best = std::max(best, cost - price * double(p.outputs));
    }
  }
  return wholeBytes(best);
}

//===----------------------------------------------------------------------===//
// Schedule reference
//===----------------------------------------------------------------------===//

std::vector<uint64_t> cost::tileSizes(uint64_t extent, uint64_t unit) {
  std::vector<uint64_t> sizes;
  for (uint64_t units = ceilDiv(extent, unit), tiles = 1; tiles <= units;) {
    uint64_t size = ceilDiv(units, tiles);
    sizes.push_back(size * unit);
    if (size == 1)
      break;
    tiles = ceilDiv(units, size - 1); // the next number of tiles that makes them smaller
  }
  return sizes;
}

namespace {
/// Tiles of one size along one axis.
struct AxisTiles {
  uint64_t size = 1, tiles = 1;
  uint64_t span = 1;   ///< input positions on chip for one tile, padding included
  uint64_t loaded = 1; ///< input positions that all tiles together load: what two tiles share counts twice
};

std::vector<AxisTiles> tilesOf(const PositionAxis &axis, bool single) {
  std::vector<AxisTiles> result;
  for (uint64_t size : single ? std::vector<uint64_t>{1} : tileSizes(uint64_t(axis.size), 1)) {
    AxisTiles t{size, single ? 1 : ceilDiv(uint64_t(axis.size), size), 1, 0};
    uint64_t reach = axis.broadcast ? 1 : uint64_t((axis.kernel - 1) * axis.dilation + 1);
    t.span = axis.broadcast ? 1 : (size - 1) * uint64_t(axis.stride) + reach;
    for (uint64_t tile = 0; tile < t.tiles; ++tile) {
      PositionAxis part = axis;
      part.size = int64_t(std::min(size, uint64_t(axis.size) - tile * size));
      part.padLow = axis.padLow - int64_t(tile * size) * axis.stride;
      t.loaded += inputsUsed(part);
    }
    result.push_back(t);
  }
  return result;
}

/// One operand of a tiling: what it loads if nothing stays, and what staying saves.
struct Operand {
  double least = 0, most = 0; ///< bytes loaded, all and nothing of it resident
  double resident = 0;        ///< bytes on chip if all of it stays
  double streamed = 0;        ///< bytes on chip for the part that does not
  double saving() const { return resident > 0 ? (most - least) / resident : 0; }
  /// Least bytes in `capacity`, a part of it staying if not all can.
  double loads(double capacity) const {
    if (most <= least || capacity >= resident)
      return least;
    return most - saving() * std::max(0.0, capacity - streamed);
  }
};
} // namespace

uint64_t cost::referenceLoads(const Contraction &c, const timing::MachineParams &machine) {
  std::array<std::vector<AxisTiles>, 3> tiles;
  uint64_t products = c.groups;                                                               // independent ones
  double weights = double(c.ic * c.oc * c.weightBytes), inputs = double(c.ic * c.inputBytes); // of one of them
  for (size_t i = 0; i < 3; ++i) {
    bool batch = c.batchAxis == int(i);
    tiles[i] = tilesOf(c.axes[i], batch);
    products *= batch ? uint64_t(c.axes[i].size) : 1;
    weights *= double(tapsUsed(c.axes[i]));
    inputs *= batch ? 1 : double(inputsUsed(c.axes[i]));
  }
  double taps = double(c.axes[0].kernel * c.axes[1].kernel * c.axes[2].kernel);
  double channels = double(ceilDiv(c.ic, machine.rows) * machine.rows);
  double weightTile = double(uint64_t(machine.rows) * machine.cols * c.weightBytes);
  double first = double(machine.scratchpads.front().capacityBytes), last = double(machine.scratchpads.back().capacityBytes);
  bool unified = machine.scratchpads.size() == 1;
  double best = -1;
  auto consider = [&](const Operand &a, const Operand &b) {
    if (a.streamed > first || b.streamed > last || (unified && a.streamed + b.streamed > first))
      return;
    double loads;
    if (!unified) {
      loads = a.loads(first) + b.loads(last);
    } else {
      // The operand that saves more for a byte stays first, or, if it does not fit whole, the other way round.
      auto inTurn = [&](const Operand &x, const Operand &y) {
        double own = std::min(x.resident, first - y.streamed);
        return x.loads(own) + y.loads(first - std::max(own, x.streamed));
      };
      loads = std::min(inTurn(a, b), inTurn(b, a));
    }
    if (best < 0 || loads < best)
      best = loads;
  };
  std::vector<uint64_t> blocks = tileSizes(c.oc, machine.cols);
  for (const AxisTiles &h : tiles[1])
    for (const AxisTiles &n : tiles[2])
      for (const AxisTiles &w : tiles[0]) {
        uint64_t rows = w.size * h.size * n.size;
        if (rows > machine.accumulatorRows())
          continue;
        double positionTiles = double(w.tiles * h.tiles * n.tiles);
        double pixel = double(c.inputBytes) * double(w.span * h.span * n.span);
        double passes = double(w.loaded * h.loaded * n.loaded) * double(c.ic * c.inputBytes);
        for (uint64_t size : blocks) {
          if (rows * (size / machine.cols) > machine.accumulatorRows())
            continue;
          double channelTiles = double(ceilDiv(c.oc, size));
          double wholeWeights = taps * channels * double(ceilDiv(c.oc, machine.cols) * machine.cols * c.weightBytes);
          double slice = pixel * double(machine.rows);
          // Positions outer: the inputs of a block of positions may stay for all output channels, weights for all
          // positions.
          consider({passes, passes * channelTiles, pixel * channels, slice},
                   {weights, weights * positionTiles, wholeWeights, weightTile});
          // Channels outer: the weights of a block of channels may stay for all positions, the whole input for all
          // channels.
          consider({inputs, passes * channelTiles, inputs / double(c.ic) * channels, slice},
                   {weights, weights * positionTiles, taps * channels * double(size * c.weightBytes), weightTile});
        }
      }
  return best < 0 ? UINT64_MAX : uint64_t(std::ceil(best * double(products)));
}
