//===- Bounds.cpp - Cycles no schedule can beat ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/cost/Bounds.h"

#include <algorithm>
#include <map>
#include <set>

using namespace tw;
using namespace tw::cost;

namespace {
//===----------------------------------------------------------------------===//
// Latencies, from docs/timing.md. None is longer than the machine's.
//===----------------------------------------------------------------------===//

struct Latencies {
  const timing::MachineParams &machine;
  const timing::TimingConstants &t = machine.timing;
  const timing::DramParams &dram = machine.dram;
  bool ideal = dram.kind == timing::DramKind::Ideal;

  /// DRAM ticks in whole cycles, rounded down.
  uint64_t ticks(uint64_t n) const { return n * machine.clockMhz / dram.clockMhz; }
  uint64_t idealBurst() const {
    return ceilDiv(uint64_t(dram.burstBytes) * dram.bytesPerCycleDenominator, dram.bytesPerCycleNumerator);
  }
  /// Request of a burst of an open row to its data.
  uint64_t read() const {
    return dram.pathLatencyCycles + (ideal ? dram.latencyCycles + idealBurst() : ticks(dram.nCL + dram.nBurst));
  }
  uint64_t write() const {
    return dram.pathLatencyCycles + (ideal ? dram.latencyCycles + idealBurst() : ticks(dram.nCWL + dram.nBurst));
  }
  /// First request of a load: the program's first burst, from a closed row, has arrived and an instruction has started.
  uint64_t firstRequest() const {
    return t.start_cycles + read() + (ideal ? 0 : ticks(dram.nRCD)) + t.fetch_cycles + t.dispatch_cycles +
           t.dma_setup_cycles;
  }
  /// First use of what a load brings.
  uint64_t firstOperand() const { return firstRequest() + read() + 1 + t.dma_drain_cycles + t.semaphore_cycles; }
  uint64_t tensorDrain() const {
    return machine.arrayType == timing::ArrayType::Int8 ? tensorDrainInt(t, machine.rows)
                                                        : tensorDrainFloat(t, machine.rows);
  }
  uint64_t vectorDrain() const { return timing::vectorDrain(t, machine.vectorStages, machine.lanes); }
  /// Retirement of a vector instruction to the end of the program, its result stored.
  uint64_t store() const {
    return t.semaphore_cycles + t.dma_setup_cycles + 1 + std::max<uint64_t>(t.dma_drain_cycles, 1 + write()) +
           t.done_cycles;
  }
  /// Cycles the data bus needs for `bytes` at its peak.
  uint64_t bus(uint64_t bytes) const {
    using Wide = unsigned __int128;
    if (ideal)
      return uint64_t(Wide(bytes) * dram.bytesPerCycleDenominator / dram.bytesPerCycleNumerator);
    return uint64_t(Wide(bytes) * dram.nBurst * machine.clockMhz /
                    (Wide(dram.burstBytes) * dram.channels * dram.clockMhz));
  }
  /// From the start to the first transfer that is not a program fetch, and from the last one to the end.
  uint64_t busFill() const {
    return firstRequest() + (ideal ? dram.latencyCycles : ticks(std::min(dram.nCL, dram.nCWL))) +
           dram.pathLatencyCycles + t.done_cycles;
  }
  /// Cycles the load engines need: segments on the scratchpad side, and bursts under way, each until its data have
  /// moved.
  uint64_t loadPorts(uint64_t bytes) const {
    uint64_t burst = dram.burstBytes, engines = machine.loadEngines;
    uint64_t bursts = bytes / burst / engines;
    uint64_t rounds = bursts / machine.outstandingBursts;
    return std::max(bytes / (burst * engines * machine.burstsPerCycle), rounds ? (rounds - 1) * (read() + 1) : 0);
  }
  uint64_t storePorts(uint64_t bytes) const {
    return bytes / (uint64_t(dram.burstBytes) * machine.storeEngines * machine.burstsPerCycle);
  }
};

//===----------------------------------------------------------------------===//
// Engines
//===----------------------------------------------------------------------===//

/// The least max(array, vector) over all ways to split depthwise windows between the two engines (fractions allowed), if the array
/// has `others` to do beside these layers.
std::pair<uint64_t, uint64_t> balance(const std::vector<const LayerWork *> &layers, uint64_t others = 0) {
  double array = double(others), vector = 0;
  std::vector<std::pair<double, double>> windows; // vector cycles, array cycles
  for (const LayerWork *layer : layers) {
    array += double(layer->arrayCycles);
    vector += double(layer->vectorCycles);
    if (layer->windowVectorCycles && layer->windowArrayCycles) {
      windows.push_back({double(layer->windowVectorCycles), double(layer->windowArrayCycles)});
      vector += double(layer->windowVectorCycles);
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
  return {uint64_t(array), uint64_t(vector)};
}

struct Candidate {
  const char *by;
  uint64_t work, fill;
};

Bound largest(const std::vector<Candidate> &candidates) {
  Bound bound;
  for (const Candidate &c : candidates)
    if (bound.by.empty() || c.work + c.fill > bound.cycles)
      bound = {c.work + c.fill, c.fill > c.work ? "fill" : c.by, c.fill};
  return bound;
}

uint64_t constantBytes(const std::vector<const LayerWork *> &layers, std::set<const void *> except = {}) {
  uint64_t bytes = 0;
  for (const LayerWork *layer : layers)
    for (const ConstantUse &use : layer->constants)
      if (!use.key || except.insert(use.key).second)
        bytes += use.bytes;
  return bytes;
}

uint64_t inputBytes(const LayerWork &layer) {
  std::map<unsigned, uint64_t> most;
  for (const TensorUse &use : layer.inputs)
    most[use.tensor] = std::max(most[use.tensor], use.bytes);
  uint64_t bytes = 0;
  for (auto [tensor, touched] : most)
    bytes += touched;
  return bytes;
}
} // namespace

//===----------------------------------------------------------------------===//
// One layer
//===----------------------------------------------------------------------===//

/// All but the reference, which takes a search.
static LayerTraffic boundsOf(const LayerWork &layer, const timing::MachineParams &machine, uint64_t *beside = nullptr) {
  LayerTraffic traffic;
  uint64_t loads = inputBytes(layer) + constantBytes({&layer}), stores = layer.output.bytes;
  traffic.compulsoryBytes = traffic.unavoidableBytes = traffic.threeMemoryBytes = traffic.referenceBytes =
      loads + stores;
  if (!layer.contraction)
    return traffic;
  const Contraction &c = *layer.contraction;
  // What is neither input nor weights of the products is loaded beside them.
  uint64_t operands = c.inputs() * c.inputBytes + c.weights() * c.weightBytes;
  uint64_t others = loads > operands ? loads - operands : 0;
  if (beside)
    *beside = others;
  if (layer.operandsLoaded && !c.inputOverlaps) {
    Products products = productsOf(c);
    traffic.unavoidableBytes = stores + std::max(loads, others + segmentLoads(products, onChipBytes(machine)));
    traffic.threeMemoryBytes =
        std::max(traffic.unavoidableBytes, stores + others + segmentLoads(products, capacitiesOf(machine)));
  }
  return traffic;
}

LayerTraffic cost::layerTraffic(const LayerWork &layer, const timing::MachineParams &machine) {
  uint64_t beside = 0;
  LayerTraffic traffic = boundsOf(layer, machine, &beside);
  uint64_t reference = layer.contraction ? referenceLoads(*layer.contraction, machine) : UINT64_MAX;
  if (reference != UINT64_MAX)
    traffic.referenceBytes = std::max(traffic.referenceBytes, layer.output.bytes + beside + reference);
  return traffic;
}

Bound cost::layerBound(const LayerWork &layer, const timing::MachineParams &machine) {
  Latencies l{machine};
  LayerTraffic traffic = boundsOf(layer, machine);
  auto [array, vector] = balance({&layer});
  // Every result hangs on an input, passes the vector engine and is stored.
  uint64_t head = layer.inputs.empty() ? 0 : l.firstOperand(), tail = l.vectorDrain() + l.store();
  uint64_t loads = traffic.unavoidableBytes - layer.output.bytes;
  std::vector<Candidate> candidates;
  if (layer.contraction) {
    uint64_t tensorTail = l.tensorDrain() + l.t.semaphore_cycles + 1 + tail;
    candidates.push_back({"array", array, head + tensorTail});
    candidates.push_back(
        {"preload", layer.preloadCycles, l.t.preload_drain_cycles + l.t.shadow_ready_cycles + 1 + tensorTail});
    candidates.push_back({"vector", vector, head + 1 + l.tensorDrain() + l.t.semaphore_cycles + tail});
  } else if (vector) {
    candidates.push_back({"array", array, head});
    candidates.push_back({"vector", vector, head + tail});
  }
  candidates.push_back({traffic.unavoidableBytes > traffic.compulsoryBytes ? "dram segments" : "dram",
                        l.bus(traffic.unavoidableBytes), traffic.unavoidableBytes ? l.busFill() : 0});
  candidates.push_back({"port", std::max(l.loadPorts(loads), l.storePorts(layer.output.bytes)), l.t.start_cycles});
  return largest(candidates);
}

//===----------------------------------------------------------------------===//
// Networks
//===----------------------------------------------------------------------===//

namespace {
/// Bytes that `layers` move from or to DRAM, whatever stays on chip: of each tensor what one layer reads at most.
uint64_t boundaryLoads(const std::vector<const LayerWork *> &layers, const std::vector<NetworkTensor> &tensors) {
  std::vector<uint64_t> read(tensors.size(), 0);
  for (const LayerWork *layer : layers)
    for (const TensorUse &use : layer->inputs)
      read[use.tensor] = std::max(read[use.tensor], use.bytes);
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].input || tensors[i].constant)
      bytes += std::min(tensors[i].bytes, read[i]);
  return bytes;
}

uint64_t boundaryStores(const std::vector<const LayerWork *> &layers, const std::vector<NetworkTensor> &tensors) {
  std::vector<uint64_t> written(tensors.size(), 0);
  for (const LayerWork *layer : layers)
    written[layer->output.tensor] += layer->output.bytes;
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].output)
      bytes += std::min(tensors[i].bytes, written[i]);
  return bytes;
}

/// A network split in two by layers all of whose results hang on everything before: no operation of `after` can begin
/// before the last one of `before` has ended.
struct Cut {
  std::vector<const LayerWork *> before, after;
};

class CutFinder {
public:
  CutFinder(const std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors)
      : layers(layers), tensors(tensors) {
    writers.resize(tensors.size());
    for (size_t i = 0; i < layers.size(); ++i)
      writers[layers[i].output.tensor].push_back(i);
  }

  std::vector<Cut> cuts() const {
    std::vector<Cut> all;
    for (size_t i = 0; i < layers.size(); ++i) {
      std::optional<unsigned> needed = neededBy(i);
      if (!needed)
        continue;
      Cut cut{before(*needed), after(i)};
      if (!cut.before.empty() && !cut.after.empty())
        all.push_back(std::move(cut));
    }
    return all;
  }

private:
  const std::vector<LayerWork> &layers;
  const std::vector<NetworkTensor> &tensors;
  std::vector<std::vector<size_t>> writers;

  bool whole(const TensorUse &use) const { return use.bytes >= tensors[use.tensor].bytes; }

  /// The tensor every element of which every result of layer `i` hangs on, if there is one.
  std::optional<unsigned> neededBy(size_t i) const {
    const LayerWork *layer = &layers[i];
    if (layer->dependence != Dependence::All && layer->dependence != Dependence::GlobalWindow)
      return std::nullopt;
    // Back from the window, channel by channel, to the contraction that mixes the channels.
    while (!layer->inputs.empty()) {
      bool mixes = layer->dependence == Dependence::All || layer->dependence == Dependence::Channels;
      bool passes = layer->dependence != Dependence::None;
      const TensorUse &use = layer->inputs.front();
      if (!passes || !whole(use))
        return std::nullopt;
      if (mixes)
        return use.tensor;
      if (writers[use.tensor].size() != 1 || layers[writers[use.tensor].front()].channels != layer->channels)
        return std::nullopt;
      layer = &layers[writers[use.tensor].front()];
    }
    return std::nullopt;
  }

  /// Layers all of whose results `tensor` hangs on, given that all of it is needed.
  std::vector<const LayerWork *> before(unsigned tensor) const {
    std::vector<bool> needed(layers.size(), false);
    std::vector<unsigned> open{tensor};
    std::set<unsigned> seen{tensor};
    std::vector<const LayerWork *> result;
    while (!open.empty()) {
      unsigned next = open.back();
      open.pop_back();
      for (size_t writer : writers[next]) {
        if (needed[writer])
          continue;
        needed[writer] = true;
        result.push_back(&layers[writer]);
        for (const TensorUse &use : layers[writer].inputs)
          if (whole(use) && seen.insert(use.tensor).second)
            open.push_back(use.tensor);
      }
    }
    return result;
  }

  /// Layers all of whose operations hang on a result of layer `i`.
  std::vector<const LayerWork *> after(size_t i) const {
    std::vector<size_t> dependent(tensors.size(), 0); // writers that do
    std::vector<const LayerWork *> result;
    auto hangs = [&](unsigned tensor) {
      return !writers[tensor].empty() && dependent[tensor] == writers[tensor].size();
    };
    ++dependent[layers[i].output.tensor];
    for (size_t j = i + 1; j < layers.size(); ++j) {
      const LayerWork &layer = layers[j];
      auto of = [&](const TensorUse &use) { return hangs(use.tensor); };
      bool yes = false;
      if (layer.inputs.empty() || layer.dependence == Dependence::None)
        continue;
      if (layer.dependence == Dependence::Elementwise)
        yes = std::any_of(layer.inputs.begin(), layer.inputs.end(), of);
      else
        yes = of(layer.inputs.front());
      if (!yes)
        continue;
      ++dependent[layer.output.tensor];
      result.push_back(&layer);
    }
    return result;
  }
};
} // namespace

/// Whether the network is one layer whose inputs and results cross the bus.
static bool isOneLayer(const std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors) {
  if (layers.size() != 1 || layers[0].inputs.empty() || !tensors[layers[0].output.tensor].output)
    return false;
  auto crosses = [&](const TensorUse &use) { return tensors[use.tensor].input || tensors[use.tensor].constant; };
  return std::all_of(layers[0].inputs.begin(), layers[0].inputs.end(), crosses);
}

uint64_t cost::networkBytes(const std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors,
                            const timing::MachineParams &machine) {
  std::vector<const LayerWork *> all;
  for (const LayerWork &layer : layers)
    all.push_back(&layer);
  uint64_t bytes = constantBytes(all) + boundaryLoads(all, tensors) + boundaryStores(all, tensors);
  return isOneLayer(layers, tensors) ? std::max(bytes, boundsOf(layers[0], machine).unavoidableBytes) : bytes;
}

Bound cost::networkBound(const std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors,
                         const timing::MachineParams &machine) {
  Latencies l{machine};
  std::vector<const LayerWork *> all;
  bool inputsFirst = true; // no layer works on constants alone
  for (const LayerWork &layer : layers) {
    all.push_back(&layer);
    inputsFirst &= std::any_of(layer.inputs.begin(), layer.inputs.end(), [&](const TensorUse &use) {
      auto writes = [&](const LayerWork &other) { return other.output.tensor == use.tensor; };
      const NetworkTensor &tensor = tensors[use.tensor];
      return tensor.input || tensor.constant || std::any_of(layers.begin(), layers.end(), writes);
    });
  }
  uint64_t head = inputsFirst ? l.firstOperand() : 0;
  auto preload = [](const std::vector<const LayerWork *> &some) {
    uint64_t cycles = 0;
    for (const LayerWork *layer : some)
      cycles += layer->preloadCycles;
    return cycles;
  };
  auto [array, vector] = balance(all);
  uint64_t stores = boundaryStores(all, tensors), bytes = networkBytes(layers, tensors, machine);
  std::vector<Candidate> candidates = {
      {"array", array, array ? head + l.tensorDrain() + l.t.done_cycles : 0},
      {"preload", preload(all), l.t.done_cycles},
      {"vector", vector, vector ? head + l.vectorDrain() + l.t.done_cycles : 0},
      {"dram", l.bus(bytes), bytes ? l.busFill() : 0},
      {"port", std::max(l.loadPorts(bytes - stores), l.storePorts(stores)), l.t.start_cycles}};
  for (const Cut &cut : CutFinder(layers, tensors).cuts()) {
    auto [arrayBefore, vectorBefore] = balance(cut.before);
    auto [arrayAfter, vectorAfter] = balance(cut.after);
    uint64_t bytesBefore = constantBytes(cut.before) + boundaryLoads(cut.before, tensors);
    Bound before = largest({{"array", arrayBefore, arrayBefore ? head : 0},
                            {"preload", preload(cut.before), 0},
                            {"vector", vectorBefore, vectorBefore ? head : 0},
                            {"dram", l.bus(bytesBefore), l.firstRequest()}});
    // One weight tile and a chip full of constants may be there already.
    std::set<const void *> earlier;
    for (const LayerWork *layer : cut.before)
      for (const ConstantUse &use : layer->constants)
        earlier.insert(use.key);
    uint64_t constants = constantBytes(cut.after, earlier), onChip = onChipBytes(machine);
    uint64_t tile = ceilDiv(std::max(machine.rows, machine.cols), machine.preloadRowsPerCycle);
    uint64_t bytesAfter = (constants > onChip ? constants - onChip : 0) + boundaryStores(cut.after, tensors);
    uint64_t preloadAfter = preload(cut.after);
    uint64_t after =
        std::max({arrayAfter, vectorAfter, preloadAfter > tile ? preloadAfter - tile : 0, l.bus(bytesAfter)});
    candidates.push_back({"cut", before.cycles - before.fillCycles + after, before.fillCycles + l.t.done_cycles});
    // On the array nothing is left out: neither what lies between, nor weights that come for fewer rows than the next ones take.
    if (machine.rows != machine.cols)
      continue;
    uint64_t others = 0;
    auto contains = [](const std::vector<const LayerWork *> &some, const LayerWork *layer) {
      return std::find(some.begin(), some.end(), layer) != some.end();
    };
    for (const LayerWork *layer : all)
      if (!contains(cut.before, layer)) {
        const uint64_t least = layer->contraction ? layer->contraction->macs() / (machine.rows * machine.cols) : 0;
        others += contains(cut.after, layer) ? std::max(least, layer->preloadCycles) : least;
      }
    if (others > tile)
      candidates.push_back({"cut", balance(cut.before, others - tile).first, head + l.tensorDrain() + l.t.done_cycles});
  }
  Bound bound = largest(candidates);
  if (isOneLayer(layers, tensors))
    if (Bound alone = layerBound(layers[0], machine); alone.cycles > bound.cycles)
      bound = alone;
  return bound;
}
