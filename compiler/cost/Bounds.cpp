//===- Bounds.cpp - Cycles no schedule can beat ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/cost/Bounds.h"
#include "compiler/cost/Cuts.h"
#include "compiler/cost/Needed.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

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
    return t.start_cycles + read() + (ideal ? 0 : ticks(dram.nRCDRD)) + t.fetch_cycles + t.dispatch_cycles + t.dma_setup_cycles;
  }
  /// First use of what a load brings.
  uint64_t firstOperand() const { return firstRequest() + read() + 1 + t.dma_drain_cycles + t.semaphore_cycles; }
  uint64_t tensorDrain() const {
    return machine.arrayType == timing::ArrayType::Int8 ? tensorDrainInt(t, machine.rows) : tensorDrainFloat(t, machine.rows);
  }
  /// Cycles of the preload port for `cycles` of weights in at least `tiles` tiles: there is one shadow plane, so that the next tile begins
  /// when the array has taken the one before.
  uint64_t preload(uint64_t cycles, uint64_t tiles) const {
    const uint64_t turnaround = t.preload_drain_cycles + t.shadow_ready_cycles + t.shadow_free_cycles;
    return cycles + (tiles > 1 ? (tiles - 1) * turnaround : 0);
  }
  uint64_t vectorDrain() const { return timing::vectorDrain(t, machine.vectorStages, machine.lanes); }
  /// Retirement of a vector instruction to the end of the program, its result stored.
  uint64_t store() const {
    return t.semaphore_cycles + t.dma_setup_cycles + 1 + std::max<uint64_t>(t.dma_drain_cycles, 1 + write()) + t.done_cycles;
  }
  /// Ticks around each refresh without data: no column command from the tick it is due until its rows are open again. While one
  /// bank is refreshed, others move data.
  uint64_t refreshTicks() const {
    if (dram.refresh == timing::DramRefresh::PerBank)
      return 0;
    uint64_t shift = std::max(dram.nCL, dram.nCWL) - std::min(dram.nCL, dram.nCWL) + dram.nBurst;
    uint64_t without = uint64_t(dram.nRFC) + std::min(dram.nRCDRD, dram.nRCDWR);
    return without > shift && without < dram.nREFI ? without - shift : 0;
  }
  /// Cycles the data bus needs for `bytes` at its peak, and the refreshes in between.
  uint64_t bus(uint64_t bytes) const {
    using Wide = unsigned __int128;
    if (ideal)
      return uint64_t(Wide(bytes) * dram.bytesPerCycleDenominator / dram.bytesPerCycleNumerator);
    uint64_t data = uint64_t(Wide(bytes) * dram.nBurst / (uint64_t(dram.burstBytes) * dram.channels));
    uint64_t refreshes = data ? (data - 1) / (dram.nREFI - refreshTicks()) : 0;
    return uint64_t(Wide(data + refreshes * refreshTicks()) * machine.clockMhz / dram.clockMhz);
  }
  /// What bus() counts for each byte, and by how much it may count less in all: its part of a refresh, and what is rounded.
  double busCyclesPerByte() const {
    if (ideal)
      return double(dram.bytesPerCycleDenominator) / double(dram.bytesPerCycleNumerator);
    double ticks = double(dram.nBurst) / (double(dram.burstBytes) * dram.channels);
    return ticks * (1 + double(refreshTicks()) / double(dram.nREFI - refreshTicks())) * machine.clockMhz / dram.clockMhz;
  }
  uint64_t busRounding() const { return ideal ? 1 : ticks(refreshTicks() + 3) + 2; }
  /// From the start to the first transfer that is not a program fetch, and from the last one to the end.
  uint64_t busFill() const {
    return firstRequest() + (ideal ? dram.latencyCycles : ticks(std::min(dram.nCL, dram.nCWL))) + dram.pathLatencyCycles +
           t.done_cycles;
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

/// What some layers ask of the array and of the vector engine. Depthwise windows may run on either.
struct EngineWork {
  double array = 0, vector = 0; ///< with all windows on the vector engine
  std::vector<std::pair<double, double>>
      windows; ///< vector cycles, array cycles; first what relieves the vector engine most for an array cycle

  /// `isFirst`: the layer comes before those that are there.
  void add(const LayerWork &layer, bool isFirst = false) {
    array += double(layer.arrayCycles);
    vector += double(layer.vectorCycles);
    if (!layer.windowVectorCycles || !layer.windowArrayCycles)
      return;
    vector += double(layer.windowVectorCycles);
    const std::pair window(double(layer.windowVectorCycles), double(layer.windowArrayCycles));
    auto relievesMore = [](const auto &a, const auto &b) { return a.first * b.second > b.first * a.second; };
    auto place = isFirst ? std::lower_bound(windows.begin(), windows.end(), window, relievesMore)
                         : std::upper_bound(windows.begin(), windows.end(), window, relievesMore);
    windows.insert(place, window);
  }

  /// The least max(array, vector) over all ways to split the windows between the two engines (fractions allowed), if the array has
  /// `others` to do beside these layers.
  std::pair<uint64_t, uint64_t> balance(uint64_t others = 0) const {
    double array = double(others) + this->array, vector = this->vector;
    for (auto [v, a] : windows) {
      if (array >= vector)
        break;
      double share = std::min(1.0, (vector - array) / (v + a));
      array += share * a;
      vector -= share * v;
    }
    return {uint64_t(array), uint64_t(vector)};
  }
};

std::pair<uint64_t, uint64_t> balance(const std::vector<const LayerWork *> &layers, uint64_t others = 0) {
  EngineWork work;
  for (const LayerWork *layer : layers)
    work.add(*layer);
  return work.balance(others);
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
  traffic.compulsoryBytes = traffic.unavoidableBytes = traffic.threeMemoryBytes = traffic.referenceBytes = loads + stores;
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
    candidates.push_back({"preload", l.preload(layer.preloadCycles, layer.preloadTiles),
                          l.t.preload_drain_cycles + l.t.shadow_ready_cycles + 1 + tensorTail});
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

/// What some layers ask for together.
struct Side {
  std::pair<uint64_t, uint64_t> engines; ///< EngineWork::balance()
  uint64_t preload = 0, tiles = 0, constants = 0, loads = 0, stores = 0;
};

Side sideOf(const std::vector<const LayerWork *> &layers, const std::vector<NetworkTensor> &tensors) {
  Side side{balance(layers), 0, 0, constantBytes(layers), boundaryLoads(layers, tensors), boundaryStores(layers, tensors)};
  for (const LayerWork *layer : layers) {
    side.preload += layer->preloadCycles;
    side.tiles += layer->preloadTiles;
  }
  return side;
}

/// sideOf() layers that become more.
class GrowingSide {
public:
  explicit GrowingSide(const std::vector<NetworkTensor> &tensors)
      : tensors(tensors), read(tensors.size(), 0), written(tensors.size(), 0) {}

  EngineWork work;

  /// `isFirst`: the layer comes before those that are there.
  void add(const LayerWork &layer, bool isFirst) {
    work.add(layer, isFirst);
    side.preload += layer.preloadCycles;
    side.tiles += layer.preloadTiles;
    addConstants(layer, isFirst);
    for (const TensorUse &use : layer.inputs) {
      const NetworkTensor &tensor = tensors[use.tensor];
      const uint64_t most = std::max(read[use.tensor], use.bytes), before = std::exchange(read[use.tensor], most);
      if (tensor.input || tensor.constant)
        side.loads += std::min(tensor.bytes, most) - std::min(tensor.bytes, before);
    }
    const NetworkTensor &output = tensors[layer.output.tensor];
    uint64_t &bytes = written[layer.output.tensor];
    const uint64_t before = std::exchange(bytes, bytes + layer.output.bytes);
    if (output.output)
      side.stores += std::min(output.bytes, bytes) - std::min(output.bytes, before);
  }
  Side get() const {
    Side result = side;
    result.engines = work.balance();
    return result;
  }

private:
  const std::vector<NetworkTensor> &tensors;
  Side side;
  std::vector<uint64_t> read, written;      ///< bytes, per tensor
  std::map<const void *, uint64_t> counted; ///< bytes of constants: those of the first layer that has each

  void addConstants(const LayerWork &layer, bool isFirst) {
    auto add = [&](const ConstantUse &use) {
      if (!use.key) {
        side.constants += use.bytes;
        return;
      }
      auto [known, isNew] = counted.try_emplace(use.key, use.bytes);
      if (isNew)
        side.constants += use.bytes;
      else if (isFirst)
        side.constants += use.bytes - std::exchange(known->second, use.bytes);
    };
    if (isFirst)
      std::for_each(layer.constants.rbegin(), layer.constants.rend(), add);
    else
      std::for_each(layer.constants.begin(), layer.constants.end(), add);
  }
};

/// Tensors at which cuts are looked for: of deeper networks those that may give the most, each a true bound.
constexpr size_t kMostCutTensors = 150;

/// What layers, or parts of them, do on the two sides of a cut.
class Parts {
public:
  Parts(const std::vector<LayerWork> &layers, const timing::MachineParams &machine) : layers(layers), machine(machine) {
    for (const LayerWork &layer : layers)
      for (const ConstantUse &use : layer.constants)
        if (use.key && !constants.insert(use.key).second)
          shared.insert(use.key);
  }

  /// The pointers are valid until the next call for another cut.
  std::vector<const LayerWork *> before(const Cut &cut) {
    std::vector<const LayerWork *> pointers;
    partsBefore.clear();
    for (const Cut::Before &part : cut.before) {
      const LayerWork &layer = layers[part.layer];
      if (part.whole) {
        pointers.push_back(&layer);
        continue;
      }
      LayerWork &work = partsBefore.emplace_back();
      pointers.push_back(&work);
      work.vectorCycles = vectorCycles(layer, part.outputs);
      if (!layer.contraction)
        continue;
      const Products &products = productsOf(part.layer, part.outputs, withOutputs);
      work.arrayCycles = products.arrayCycles;
      work.preloadCycles = products.preloadCycles;
      work.preloadTiles = products.preloadTiles;
      if (layer.weights)
        work.constants.push_back({layer.constants[*layer.weights].key, products.weightBytes});
    }
    return pointers;
  }

  std::vector<const LayerWork *> after(const Cut &cut) {
    std::vector<const LayerWork *> pointers;
    partsAfter.clear();
    for (const Cut::After &part : cut.after) {
      const LayerWork &layer = layers[part.layer];
      if (part.whole) {
        pointers.push_back(&layer);
        continue;
      }
      LayerWork &work = partsAfter.emplace_back();
      pointers.push_back(&work);
      work.vectorCycles = vectorCycles(layer, part.outputs, true);
      if (layer.contraction)
        work.arrayCycles = productsOf(part.layer, part.inputs, withInputs).arrayCycles;
      if (part.weights) {
        work.preloadCycles = layer.preloadCycles;
        work.preloadTiles = layer.preloadTiles;
        work.constants.push_back(layer.constants[*layer.weights]);
      }
    }
    return pointers;
  }

  /// What the weights of the layers between cost at least beside before() and after(), if a byte takes `cyclesPerByte`:
  /// each either the array, for the products that are not in before(), or the bus.
  double between(const Cut &cut, double cyclesPerByte) {
    std::vector<const Cut::Before *> made(layers.size());
    std::vector<bool> counted(layers.size());
    for (const Cut::Before &part : cut.before) {
      made[part.layer] = &part;
      counted[part.layer] = part.whole;
    }
    for (const Cut::After &part : cut.after)
      if (part.whole || part.weights)
        counted[part.layer] = true;
    const double cells = double(machine.rows * machine.cols);
    double cycles = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      const LayerWork &layer = layers[i];
      // Those that several layers share, or that not all images have, would have to be looked at one by one.
      if (counted[i] || !layer.contraction || layer.contraction->batchAxis >= 0 || !layer.weights ||
          shared.count(layer.constants[*layer.weights].key))
        continue;
      std::vector<uint64_t> macs = macsOfTaps(*layer.contraction), before(macs.size());
      double idle = 0; // cells, while the products before the moment are formed
      if (made[i]) {
        before = macsOfTaps(withOutputs(*layer.contraction, made[i]->outputs));
        idle = cells * double(productsOf(i, made[i]->outputs, withOutputs).arrayCycles) -
               double(std::accumulate(before.begin(), before.end(), uint64_t(0)));
      }
      const double taps = double(std::count_if(macs.begin(), macs.end(), [](uint64_t m) { return m > 0; }));
      const double loaded = cyclesPerByte * double(layer.constants[*layer.weights].bytes) / taps;
      double least = 0;
      for (size_t k = 0; k < macs.size(); ++k)
        if (macs[k])
          least += std::min(double(macs[k] - before[k]) / cells, loaded);
      cycles += std::max(0.0, least - idle / cells);
    }
    return cycles;
  }

private:
  struct Products {
    uint64_t arrayCycles = 0, preloadCycles = 0, preloadTiles = 0, weightBytes = 0;
  };
  using Restriction = Contraction (*)(Contraction, const Box &);

  const std::vector<LayerWork> &layers;
  const timing::MachineParams &machine;
  /// Many cuts have the same parts.
  std::map<std::tuple<size_t, Restriction, std::array<int64_t, 6>>, Products> known;

  const Products &productsOf(size_t layer, const Box &box, Restriction restricted) {
    std::array<int64_t, 6> ends;
    int64_t positions = 1;
    for (size_t a = 0; a < 3; ++a) {
      ends[2 * a] = box[a].first;
      ends[2 * a + 1] = box[a].last;
      positions *= box[a].size();
    }
    auto [entry, isNew] = known.try_emplace({layer, restricted, ends});
    if (!isNew || positions == 0)
      return entry->second;
    Contraction c = restricted(*layers[layer].contraction, box);
    entry->second.arrayCycles = streamCycles(c, machine.rows, machine.cols);
    entry->second.preloadCycles = c.weights() / (std::max(machine.rows, machine.cols) * machine.preloadRowsPerCycle);
    entry->second.preloadTiles = ceilDiv(c.weights(), uint64_t(machine.rows) * machine.cols);
    entry->second.weightBytes = c.weights() * c.weightBytes;
    return entry->second;
  }

  std::deque<LayerWork> partsBefore, partsAfter;
  std::set<const void *> constants, shared; ///< shared: by several layers

  /// Of the results at the positions `outputs`, or of writing them only. What was rounded up to whole vectors counts for
  /// less.
  uint64_t vectorCycles(const LayerWork &layer, const Box &outputs, bool onlyWrites = false) const {
    if (layer.poolsPositions || !layer.output.grid || layer.dependence == Dependence::Window)
      return 0;
    double all = double(layer.output.grid->channels), part = all, lanes = double(machine.lanes);
    for (size_t a = 0; a < 3; ++a) {
      all *= double(layer.window[a].size);
      part *= double(outputs[a].size());
    }
    double cycles = double(layer.vectorCycles) * part / (all + lanes);
    return uint64_t(onlyWrites ? std::min(cycles, part / lanes) : cycles);
  }
};

std::vector<const LayerWork *> pointersTo(const std::vector<LayerWork> &layers) {
  std::vector<const LayerWork *> all;
  for (const LayerWork &layer : layers)
    all.push_back(&layer);
  return all;
}
} // namespace

/// Whether the network is one layer whose inputs and results cross the bus.
static bool isOneLayer(const std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors) {
  if (layers.size() != 1 || layers[0].inputs.empty() || !tensors[layers[0].output.tensor].output)
    return false;
  auto crosses = [&](const TensorUse &use) { return tensors[use.tensor].input || tensors[use.tensor].constant; };
  return std::all_of(layers[0].inputs.begin(), layers[0].inputs.end(), crosses);
}

/// networkBytes() of what neededWork() gives.
static uint64_t bytesOf(const NeededWork &needed, const std::vector<NetworkTensor> &tensors,
                        const timing::MachineParams &machine) {
  std::vector<const LayerWork *> all = pointersTo(needed.layers);
  uint64_t bytes = constantBytes(all) + boundaryStores(all, tensors);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].input || tensors[i].constant)
      bytes += std::min(tensors[i].bytes, needed.readBytes[i]);
  return isOneLayer(needed.layers, tensors) ? std::max(bytes, boundsOf(needed.layers[0], machine).unavoidableBytes) : bytes;
}

uint64_t cost::networkBytes(const std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors,
                            const timing::MachineParams &machine) {
  return bytesOf(neededWork(layers, tensors, machine), tensors, machine);
}

Bound cost::networkBound(const std::vector<LayerWork> &given, const std::vector<NetworkTensor> &tensors,
                         const timing::MachineParams &machine) {
  NeededWork needed = neededWork(given, tensors, machine);
  describeMovement(needed.layers, tensors);
  const std::vector<LayerWork> &layers = needed.layers;
  Latencies l{machine};
  std::vector<const LayerWork *> all = pointersTo(layers);
  std::vector<bool> isMade(tensors.size(), false);
  for (const LayerWork &layer : layers)
    isMade[layer.output.tensor] = true;
  bool inputsFirst = true; // no layer works on constants alone
  for (const LayerWork &layer : layers)
    inputsFirst &= std::any_of(layer.inputs.begin(), layer.inputs.end(), [&](const TensorUse &use) {
      const NetworkTensor &tensor = tensors[use.tensor];
      return tensor.input || tensor.constant || isMade[use.tensor];
    });
  uint64_t head = inputsFirst ? l.firstOperand() : 0;
  const Side whole = sideOf(all, tensors);
  auto [array, vector] = whole.engines;
  uint64_t stores = whole.stores, bytes = bytesOf(needed, tensors, machine);
  std::vector<Candidate> candidates = {{"array", array, array ? head + l.tensorDrain() + l.t.done_cycles : 0},
                                       {"preload", l.preload(whole.preload, whole.tiles), l.t.done_cycles},
                                       {"vector", vector, vector ? head + l.vectorDrain() + l.t.done_cycles : 0},
                                       {"dram", l.bus(bytes), bytes ? l.busFill() : 0},
                                       {"port", std::max(l.loadPorts(bytes - stores), l.storePorts(stores)), l.t.start_cycles}};
  Bound bound = largest(candidates);

  auto workBefore = [&](const Side &before) {
    auto [array, vector] = before.engines;
    uint64_t loads = before.constants + before.loads;
    return largest({{"array", array, array ? head : 0},
                    {"preload", l.preload(before.preload, before.tiles), 0},
                    {"vector", vector, vector ? head : 0},
                    {"dram", l.bus(loads), l.firstRequest()},
                    {"port", l.loadPorts(loads), l.t.start_cycles}});
  };
  const uint64_t tile = ceilDiv(std::max(machine.rows, machine.cols), machine.preloadRowsPerCycle);
  auto workAfter = [&](const Side &after) {
    auto [array, vector] = after.engines;
    // A chip full of constants, and weights in both planes, may be there already.
    uint64_t onChip = onChipBytes(machine), weights = after.preload > 2 * tile ? after.preload - 2 * tile : 0;
    uint64_t preload = l.preload(weights, after.tiles > 2 ? after.tiles - 2 : 0);
    uint64_t loads = after.constants > onChip ? after.constants - onChip : 0;
    return std::max({array, vector, preload, l.bus(loads + after.stores), l.loadPorts(loads)});
  };
  // On the array nothing is left out: neither what lies between, nor weights that come for fewer rows than the next ones take.
  // Of layers that are whole on one side of a cut.
  std::vector<uint64_t> least;
  for (const LayerWork &layer : layers)
    least.push_back(layer.contraction ? layer.contraction->macs() / (machine.rows * machine.cols) : 0);
  auto onArray = [&](uint64_t cycles) -> Candidate { return {"cut", cycles, head + l.tensorDrain() + l.t.done_cycles}; };
  auto workOnArray = [&](const std::vector<const LayerWork *> &before,
                         const std::vector<const LayerWork *> &after) -> Candidate {
    std::vector<uint64_t> cycles = least;
    for (const LayerWork *layer : before)
      cycles[size_t(layer - layers.data())] = 0;
    for (const LayerWork *layer : after)
      cycles[size_t(layer - layers.data())] = std::max(least[size_t(layer - layers.data())], layer->preloadCycles);
    const uint64_t others = std::accumulate(cycles.begin(), cycles.end(), uint64_t(0));
    if (machine.rows != machine.cols || others <= tile)
      return {"cut", 0, 0};
    return onArray(balance(before, others - tile).first);
  };
  Parts parts(layers, machine);
  // Weights that are late, and those of the layers on neither side: of these each is late as well, or all that it is
  // part of lies before the moment.
  auto workWithBetween = [&](const Cut &cut, const std::vector<const LayerWork *> &before,
                             const std::vector<const LayerWork *> &after) -> Candidate {
    const double perByte = l.busCyclesPerByte();
    double cycles = parts.between(cut, perByte) - double(l.busRounding()) +
                    perByte * (double(constantBytes(after) + boundaryStores(after, tensors)) - double(onChipBytes(machine)));
    for (const LayerWork *layer : before)
      cycles += double(layer->arrayCycles);
    return {"cut", uint64_t(std::max(0.0, cycles)), head + l.t.done_cycles};
  };
  // The most that a cut can give is what all layers up to its tensor and all behind ask for. Tensors with more first.
  std::vector<Side> behind(layers.size()); // each layer, without it
  std::vector<uint64_t> leastBehind(layers.size(), 0);
  GrowingSide back(tensors);
  uint64_t leastOnArray = 0;
  for (size_t i = layers.size(); i-- > 0;) {
    behind[i] = back.get();
    leastBehind[i] = leastOnArray;
    back.add(layers[i], /*isFirst=*/true);
    leastOnArray += std::max(least[i], layers[i].preloadCycles);
  }
  std::vector<size_t> writers(tensors.size(), layers.size()); // the last ones; the number of layers: none
  for (size_t i = 0; i < layers.size(); ++i)
    writers[layers[i].output.tensor] = i;
  std::vector<uint64_t> limits(tensors.size(), 0);
  GrowingSide front(tensors);
  uint64_t inFront = head + l.t.done_cycles;
  for (size_t i = 0; i < layers.size(); ++i) {
    front.add(layers[i], /*isFirst=*/false);
    inFront += layers[i].arrayCycles;
    const unsigned tensor = layers[i].output.tensor;
    if (writers[tensor] != i)
      continue;
    uint64_t cycles = workBefore(front.get()).cycles + workAfter(behind[i]) + l.t.done_cycles;
    if (machine.rows == machine.cols && leastBehind[i] > tile) {
      const Candidate array = onArray(front.work.balance(leastBehind[i] - tile).first);
      cycles = std::max(cycles, array.work + array.fill);
    }
    limits[tensor] = std::max(cycles, inFront + l.bus(behind[i].constants + behind[i].stores));
  }
  std::vector<std::pair<uint64_t, unsigned>> most;
  for (unsigned tensor = 0; tensor < tensors.size(); ++tensor)
    if (writers[tensor] < layers.size())
      most.push_back({limits[tensor], tensor});
  std::stable_sort(most.begin(), most.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
  most.resize(std::min(most.size(), kMostCutTensors));
  for (auto [limit, tensor] : most) {
    if (limit <= bound.cycles)
      break;
    for (const Cut &cut : cutsAt(tensor, layers, tensors)) {
      std::vector<const LayerWork *> before, after; // whole ones
      for (const Cut::Before &part : cut.before)
        if (part.whole)
          before.push_back(&layers[part.layer]);
      for (const Cut::After &part : cut.after)
        if (part.whole)
          after.push_back(&layers[part.layer]);
      candidates.push_back(workOnArray(before, after));
      before = parts.before(cut);
      after = parts.after(cut);
      Bound first = workBefore(sideOf(before, tensors));
      uint64_t second = workAfter(sideOf(after, tensors));
      candidates.push_back(workWithBetween(cut, before, after));
      candidates.push_back({"cut", first.cycles - first.fillCycles + second, first.fillCycles + l.t.done_cycles});
    }
    bound = largest(candidates);
  }
  if (isOneLayer(layers, tensors))
    if (Bound alone = layerBound(layers[0], machine); alone.cycles > bound.cycles)
      bound = alone;
  return bound;
}
