//===- EnergyModel.cpp - Events to joules, a machine to area --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/energy/EnergyModel.h"

#include <cassert>
#include <cmath>
#include <numeric>

using namespace tw;
using namespace tw::energy;
using timing::ArrayType;

static constexpr double kPico = 1e-12;

double energy::sum(const Joules &joules) { return std::accumulate(joules.begin(), joules.end(), 0.0); }

static double &at(Joules &joules, Component component) { return joules[size_t(component)]; }

static void add(Joules &sum, const Joules &more) {
  for (size_t i = 0; i < sum.size(); ++i)
    sum[i] += more[i];
}

static void addScaled(Joules &sum, const Joules &more, double factor) {
  for (size_t i = 0; i < sum.size(); ++i)
    sum[i] += factor * more[i];
}

EnergyModel::EnergyModel(const timing::MachineParams &machine, const hwconfigs::Technology &technology)
    : machine(machine), technology(technology) {
  const hwconfigs::Technology &t = technology;
  const double macPj = machine.arrayType == ArrayType::Int8   ? t.int8MultiplyPj + t.int32AddPj
                       : machine.arrayType == ArrayType::Bf16 ? t.bf16MultiplyPj + t.fp32AddPj
                                                              : t.fp32MultiplyPj + t.fp32AddPj;
  macJoules = macPj * kPico;
  registerBitJoules = t.registerBitPj * kPico;
  // An activation and a partial sum of 32 bits go on to the next element of the array.
  macRegisterJoules = (8 * timing::elementBytes(machine.arrayType) + 32) * registerBitJoules;
  for (size_t memory = 0; memory < machine.scratchpads.size(); ++memory)
    wordJoules[memory] = t.sramAccessPj(double(machine.scratchpads[memory].bankBytes())) * kPico;
  wordJoules[kAccumulatorIndex] = t.sramAccessPj(double(machine.accumulator.bankBytes())) * kPico;
  const double buffer = double(machine.loopBufferWords) * isa::kWordBytes;
  instructionWordJoules = isa::kWordBits / 64 * t.sramAccessPj(buffer) * kPico;
  laneJoules = {t.int32AddPj,     t.int8MultiplyPj, t.int32MultiplyPj,  t.int32DividePj, t.fp32AddPj,
                t.fp32MultiplyPj, t.fp32DividePj,   t.fp32SquareRootPj, t.convertPj,     t.functionPj};
  for (double &joules : laneJoules)
    joules *= kPico;
  deriveDram();
  for (const Part &part : parts())
    leakage += (logicMm2(part) * t.logicLeakageMwPerMm2 + memoryMm2(part) * t.sramLeakageMwPerMm2) * 1e-3;
}

void EnergyModel::deriveDram() {
  const timing::DramParams &dram = machine.dram;
  const double bits = 8.0 * dram.burstBytes;
  if (dram.kind == timing::DramKind::Ideal) {
    read = write = technology.dramAccessPj / 64 * bits * kPico;
    return;
  }
  const hwconfigs::DramEnergy &device = technology.dram[size_t(dram.kind)];
  const double nanoseconds = 1e3 / dram.clockMhz, ras = dram.nRAS * nanoseconds, rp = dram.nRP * nanoseconds;
  const double burst = dram.nBurst * 1e3 / (std::isnan(device.currentClockMhz) ? dram.clockMhz : device.currentClockMhz);
  const double refreshTime = dram.nRFC * nanoseconds;
  // Volts, milliamperes and nanoseconds make picojoules.
  double activatePj = 0, readPj = 0, writePj = 0, refreshPj = 0, backgroundMw = 0;
  for (const hwconfigs::DramSupply &supply : device.supplies) {
    const double volts = supply.volts * device.devicesPerChannel;
    activatePj += volts * (supply.idd0 * (ras + rp) - supply.idd3n * ras - supply.idd2n * rp);
    readPj += volts * (supply.idd4r - supply.idd3n) * burst;
    writePj += volts * (supply.idd4w - supply.idd3n) * burst;
    refreshPj += volts * (supply.idd5b - supply.idd3n) * refreshTime;
    backgroundMw += volts * supply.idd3n;
  }
  auto given = [](double value, double derived) { return std::isnan(value) ? derived : value; };
  activate = given(device.activatePj, activatePj) * kPico;
  read = (given(device.readPjPerBit * bits, readPj) + device.ioPjPerBit * bits) * kPico;
  write = (given(device.writePjPerBit * bits, writePj) + device.ioPjPerBit * bits) * kPico;
  refresh = given(device.refreshPj, refreshPj) * kPico;
  background = given(device.backgroundMw, backgroundMw) * dram.channels * dram.ranks * 1e-3;
}

std::vector<std::string> EnergyModel::componentNames() const {
  std::vector<std::string> names = {
      "array_macs",      "array_registers", "weight_registers", "",          "",           "accumulator",
      "vector_engine",   "instructions",    "dram_activate",    "dram_read", "dram_write", "dram_refresh",
      "dram_background", "leakage"};
  // A unified scratchpad has no second one beside it, whose energy stays 0.
  names[size_t(Component::Scratchpad0)] = "scratchpad_" + machine.scratchpads.front().name;
  names[size_t(Component::Scratchpad1)] = machine.scratchpads.size() > 1 ? "scratchpad_" + machine.scratchpads[1].name : "";
  return names;
}

Joules EnergyModel::dynamic(const EventCounts &counts) const {
  Joules joules{};
  at(joules, Component::ArrayMacs) = double(counts.arrayMacs) * macJoules;
  at(joules, Component::ArrayRegisters) = double(counts.arrayMacs) * macRegisterJoules;
  at(joules, Component::WeightRegisters) = double(counts.weightRegisterBits) * registerBitJoules;
  static constexpr Component memories[] = {Component::Scratchpad0, Component::Scratchpad1, Component::Accumulator};
  for (size_t i = 0; i < kNumMemories; ++i)
    at(joules, memories[i]) = double(counts.memories[i].read + counts.memories[i].written) * wordJoules[i];
  double vector = double(counts.laneRegisterBits) * registerBitJoules;
  for (size_t i = 0; i < kNumLaneOps; ++i)
    vector += double(counts.laneOps[i]) * laneJoules[i];
  at(joules, Component::VectorEngine) = vector;
  // What enters a queue leaves it.
  at(joules, Component::Instructions) =
      double(counts.dispatchedWords) * instructionWordJoules + 2 * double(counts.queueBits) * registerBitJoules;
  at(joules, Component::DramRead) = double(counts.dramReadBursts) * read;
  at(joules, Component::DramWrite) = double(counts.dramWriteBursts) * write;
  return joules;
}

uint64_t EnergyModel::refreshesIn(double seconds) const {
  const timing::DramParams &dram = machine.dram;
  if (dram.kind == timing::DramKind::Ideal)
    return 0;
  // Bank after bank or all at once: every bank is refreshed once in this time.
  return uint64_t(seconds * dram.clockMhz * 1e6 / dram.nREFI) * dram.ranks * dram.channels;
}

std::vector<EnergyModel::Part> EnergyModel::parts() const {
  const hwconfigs::LogicUnits &units = technology.logic;
  const double flipFlop = technology.flipFlopGates;
  const bool isInt = machine.arrayType == ArrayType::Int8, isBf16 = machine.arrayType == ArrayType::Bf16;
  const double peGates = isInt ? units.peInt8Gates : isBf16 ? units.peBf16Gates : units.peFp32Gates;
  const double peFlipFlops = isInt ? units.peInt8FlipFlops : isBf16 ? units.peBf16FlipFlops : units.peFp32FlipFlops;
  std::vector<Part> parts;
  parts.push_back({"array", machine.peakMacsPerCycle() * (peGates + flipFlop * peFlipFlops), 0});
  const double lanes = machine.lanes, stages = machine.vectorStages;
  parts.push_back({"vector_engine",
                   lanes * (units.laneGates + flipFlop * units.laneFlipFlops +
                            stages * (units.stageGates + flipFlop * units.stageFlipFlops)),
                   lanes * (units.laneMemoryBits * technology.sramBitUm2 + units.laneRomBits * technology.romBitUm2)});
  const double bankGates = units.bankGates + flipFlop * units.bankFlipFlops;
  auto addMemory = [&](const std::string &name, const timing::MemoryParams &memory, double moreGates) {
    parts.push_back({name, memory.banks * bankGates + moreGates, 8.0 * double(memory.capacityBytes) * technology.sramBitUm2});
  };
  for (const timing::MemoryParams &memory : machine.scratchpads)
    addMemory("scratchpad_" + memory.name, memory, 0);
  addMemory("accumulator", machine.accumulator, machine.cols * (isInt ? units.columnIntGates : units.columnFloatGates));
  auto engines = [&](const char *name, double number, double gates, double flipFlops, double bits) {
    parts.push_back({name, number * (gates + flipFlop * flipFlops), number * bits * technology.sramBitUm2});
  };
  engines("load_engines", machine.loadEngines, units.loadGates, units.loadFlipFlops, units.loadMemoryBits);
  engines("store_engines", machine.storeEngines, units.storeGates, units.storeFlipFlops, units.storeMemoryBits);
  engines("write_buffer", machine.dram.writeBufferBursts, units.writeBufferGates, units.writeBufferFlipFlops, 0);
  engines("control", 1, units.controlGates, units.controlFlipFlops,
          double(machine.loopBufferWords + machine.prefetchWords) * isa::kWordBits);
  return parts;
}

double EnergyModel::logicMm2(const Part &part) const {
  return part.gates * technology.gateUm2 / technology.logicDensity * 1e-6;
}
double EnergyModel::memoryMm2(const Part &part) const { return part.cellsUm2 / technology.sramEfficiency * 1e-6; }

Areas EnergyModel::areas() const {
  Areas areas;
  for (const Part &part : parts())
    areas.emplace_back(part.name, logicMm2(part) + memoryMm2(part));
  return areas;
}

EnergyReport EnergyModel::report(const EventTable &events, const stats::SimResult &sim) const {
  assert(events.layers.size() == sim.layers.size() && "events and cycles are of the same programs");
  EnergyReport report;
  report.technology = technology.name;
  report.components = componentNames();
  report.areas = areas();
  report.events = events.total();
  report.seconds = double(sim.totalCycles) / (machine.clockMhz * 1e6);
  report.fetchBursts = sim.fetchBytes / machine.dram.burstBytes;
  report.activates = sim.dramActivates;
  report.refreshes = refreshesIn(report.seconds);

  Joules standing{};
  at(standing, Component::DramRefresh) = double(report.refreshes) * refresh;
  at(standing, Component::DramBackground) = background * report.seconds;
  at(standing, Component::Leakage) = leakage * report.seconds;
  report.standing = standing;

  // The sequencer's own: program words are written to its buffer once, and their bursts read.
  uint64_t programWords = events.noLayerWords;
  for (uint64_t words : events.layerWords)
    programWords += words;
  Joules fetch{};
  at(fetch, Component::Instructions) = double(programWords) * instructionWordJoules;
  at(fetch, Component::DramRead) = double(report.fetchBursts) * read;

  report.total = dynamic(report.events);
  add(report.total, fetch);
  add(report.total, standing);
  at(report.total, Component::DramActivate) = double(report.activates) * activate;

  const uint64_t bursts = report.events.dramReadBursts + report.events.dramWriteBursts + report.fetchBursts;
  const double activatePerBurst = bursts ? double(report.activates) * activate / double(bursts) : 0;
  std::array<Joules, stats::kNumEngines> engines{};
  auto layerJoules = [&](const EngineEvents &layer, uint64_t words, const stats::LayerResult &result, bool isRest) {
    Joules joules{};
    const double fetchShare = programWords ? double(words) / double(programWords) : isRest ? 1 : 0;
    for (unsigned engine = 0; engine < stats::kNumEngines; ++engine) {
      Joules own = dynamic(layer[engine]);
      double ownBursts = double(layer[engine].dramReadBursts + layer[engine].dramWriteBursts);
      if (engine == stats::kSequencer) {
        addScaled(own, fetch, fetchShare);
        ownBursts += fetchShare * double(report.fetchBursts);
      }
      at(own, Component::DramActivate) = ownBursts * activatePerBurst;
      add(engines[engine], own);
      add(joules, own);
    }
    const double time = sim.hasLayerCauses && sim.totalCycles ? double(result.critical) / double(sim.totalCycles)
                        : isRest                              ? 1
                                                              : 0;
    addScaled(joules, standing, time);
    return joules;
  };
  for (size_t i = 0; i < events.layers.size(); ++i)
    report.layers.push_back(layerJoules(events.layers[i], events.layerWords[i], sim.layers[i], false));
  report.noLayer = layerJoules(events.noLayer, events.noLayerWords, sim.noLayer, true);
  for (unsigned engine = 0; engine < stats::kNumEngines; ++engine)
    if (stats::hasEngine(machine, engine))
      report.engines.emplace_back(stats::engineName(engine), engines[engine]);
  return report;
}
