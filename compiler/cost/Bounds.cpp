//===- Bounds.cpp - Cycles no schedule can beat ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/cost/Bounds.h"

#include <algorithm>
#include <cmath>

using namespace tw;
using namespace tw::cost;

namespace {
/// Cycles the data bus needs for `bytes` at its peak, after the latency of the first access.
uint64_t dramCycles(uint64_t bytes, const timing::MachineParams &machine) {
  const timing::DramParams &dram = machine.dram;
  if (bytes == 0)
    return 0;
  if (dram.kind == timing::DramKind::Ideal)
    return dram.pathLatencyCycles + dram.latencyCycles +
           bytes * dram.bytesPerCycleDenominator / dram.bytesPerCycleNumerator;
  double peak = double(dram.burstBytes) * dram.channels / dram.nBurst * dram.clockMhz / machine.clockMhz;
  double latency = double(dram.nRCD + dram.nCL) * machine.clockMhz / dram.clockMhz;
  return dram.pathLatencyCycles + uint64_t(latency + double(bytes) / peak);
}

/// The least max(array, vector) over all ways to split depthwise windows between the two engines (fractions allowed).
std::pair<double, double> balance(const std::vector<LayerWork> &layers) {
  double array = 0, vector = 0;
  std::vector<std::pair<double, double>> windows; // vector cycles, array cycles
  for (const LayerWork &layer : layers) {
    array += double(layer.arrayCycles);
    vector += double(layer.vectorCycles);
    if (layer.windowVectorCycles && layer.windowArrayCycles) {
      windows.push_back({double(layer.windowVectorCycles), double(layer.windowArrayCycles)});
      vector += double(layer.windowVectorCycles);
    }
  }
  // Move to the array first what relieves the vector engine most for an array cycle.
  std::stable_sort(windows.begin(), windows.end(),
                   [](const auto &a, const auto &b) { return a.first * b.second > b.first * a.second; });
  for (auto [v, a] : windows) {
    if (array >= vector)
      break;
    double share = std::min(1.0, (vector - array) / (v + a));
    array += share * a;
    vector -= share * v;
  }
  return {array, vector};
}

Bound largest(std::initializer_list<std::pair<double, const char *>> candidates) {
  Bound bound;
  for (auto [cycles, by] : candidates)
    if (bound.by.empty() || uint64_t(cycles) > bound.cycles)
      bound = {uint64_t(cycles), by};
  return bound;
}
} // namespace

Bound cost::layerBound(const LayerWork &layer, const timing::MachineParams &machine) {
  auto [array, vector] = balance({layer});
  return largest({{array, "array"},
                  {double(layer.preloadCycles), "preload"},
                  {vector, "vector"},
                  {double(dramCycles(layer.constantBytes, machine)), "dram"}});
}

Bound cost::networkBound(const std::vector<LayerWork> &layers, uint64_t boundaryBytes,
                         const timing::MachineParams &machine) {
  auto [array, vector] = balance(layers);
  uint64_t preload = 0, bytes = boundaryBytes;
  for (const LayerWork &layer : layers) {
    preload += layer.preloadCycles;
    bytes += layer.constantBytes;
  }
  return largest({{array, "array"},
                  {double(preload), "preload"},
                  {vector, "vector"},
                  {double(dramCycles(bytes, machine)), "dram"}});
}
