//===- Schedules.cpp - serial against double_buffer, layer by layer -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/systemc/SystemCModel.h"
#include "tests/bench/Bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace tw;
using namespace tw::bench;
using stats::Label;

namespace {

/// A layer counts where both sides are in use for at least this part of its cycles under serial.
constexpr double kBoth = 0.3;

bool isDma(unsigned engine) {
  timing::EngineKind kind = stats::engineKind(engine);
  return kind == timing::EngineKind::Load || kind == timing::EngineKind::Store;
}

/// Cycles of [begin, end) that lie in one of `intervals`, which are sorted.
uint64_t covered(const std::vector<stats::BusInterval> &intervals, uint64_t begin, uint64_t end) {
  uint64_t sum = 0, from = begin;
  auto at = std::partition_point(intervals.begin(), intervals.end(), [&](const auto &i) { return i.end <= begin; });
  for (; at != intervals.end() && at->begin < end; ++at) {
    uint64_t low = std::max(from, at->begin), high = std::min(end, at->end);
    if (high > low) {
      sum += high - low;
      from = high;
    }
  }
  return sum;
}

/// When at least one of the engines was in one of the labels: sorted, not overlapping.
template <typename Counts> std::vector<stats::BusInterval> unionOf(const stats::SimResult &result, Counts counts) {
  std::vector<stats::BusInterval> all, merged;
  for (const stats::EngineResult &engine : result.engines)
    for (const stats::Interval &interval : engine.intervals)
      if (counts(engine.engine, interval.label))
        all.push_back({interval.begin, interval.end});
  std::sort(all.begin(), all.end(), [](const auto &a, const auto &b) { return a.begin < b.begin; });
  for (const stats::BusInterval &interval : all)
    if (!merged.empty() && interval.begin <= merged.back().end)
      merged.back().end = std::max(merged.back().end, interval.end);
    else
      merged.push_back(interval);
  return merged;
}

std::string text(const char *format, double value) {
  char buffer[48];
  snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

struct GeometricMean {
  double logs = 0;
  unsigned count = 0;

  void add(double value) {
    logs += std::log(value);
    ++count;
  }
  std::string str() const {
    return count ? text("%.3f over ", std::exp(logs / count)) + std::to_string(count) + (count == 1 ? " layer" : " layers")
                 : "none: no such layer";
  }
};

} // namespace

llvm::Error bench::compareSchedules(const Arguments &arguments) {
  auto lowered = lower(arguments);
  if (!lowered)
    return lowered.takeError();
  std::vector<stats::SimResult> results;
  std::vector<pipeline::CompiledNetwork> networks;
  for (accel::Schedule schedule : {accel::Schedule::Serial, accel::Schedule::DoubleBuffer}) {
    auto compiled = (*lowered)->compile(schedule);
    if (!compiled)
      return compiled.takeError();
    core::MachineState state((*lowered)->machine);
    if (auto problem = state.load(compiled->program))
      return llvm::createStringError(*problem);
    systemc::SimOptions options;
    options.timingOnly = true;
    options.trace = schedule == accel::Schedule::Serial;
    results.push_back(systemc::SystemCModel().run(compiled->program, state, options));
    if (results.back().fault)
      return llvm::createStringError("fault: " + results.back().fault->str());
    networks.push_back(std::move(*compiled));
  }
  const stats::SimResult &serial = results[0], &twofold = results[1];
  if (serial.layers.size() != twofold.layers.size())
    return llvm::createStringError("the schedules have different layers");

  auto dmaBusy = unionOf(serial, [](unsigned e, Label label) { return isDma(e) && label == Label::Busy; });
  auto dmaInFlight = unionOf(serial, [](unsigned e, Label label) {
    return isDma(e) && (label == Label::Busy || label == Label::DramBandwidth || label == Label::DramLatency);
  });
  auto computing = unionOf(serial, [](unsigned e, Label label) { return (e == stats::kTensor || e == stats::kVector) && label == Label::Busy; });

  std::vector<std::vector<std::string>> rows = {{"layer", "serial", "double_buffer", "ratio", "DMA busy", "DMA in flight", "compute busy", "both"}};
  GeometricMean byBusy, byFlight;
  unsigned slower = 0;
  double worst = INFINITY;
  uint64_t begin = 0;
  for (size_t i = 0; i < serial.layers.size(); ++i) {
    const stats::LayerResult &layer = serial.layers[i];
    uint64_t from = begin, to = from + layer.cycles;
    begin = to;
    double ratio = twofold.layers[i].cycles ? double(layer.cycles) / double(twofold.layers[i].cycles) : 1;
    double cycles = double(std::max<uint64_t>(layer.cycles, 1));
    double busy = double(covered(dmaBusy, from, to)) / cycles, flight = double(covered(dmaInFlight, from, to)) / cycles,
           compute = double(covered(computing, from, to)) / cycles;
    bool both = busy >= kBoth && compute >= kBoth, bothInFlight = flight >= kBoth && compute >= kBoth;
    if (both)
      byBusy.add(ratio);
    if (bothInFlight)
      byFlight.add(ratio);
    slower += ratio < 1;
    worst = std::min(worst, ratio);
    rows.push_back({layer.name, std::to_string(layer.cycles), std::to_string(twofold.layers[i].cycles), text("%.3f", ratio),
                    text("%.0f %%", busy * 100), text("%.0f %%", flight * 100), text("%.0f %%", compute * 100),
                    both ? "busy" : bothInFlight ? "in flight" : ""});
  }
  rows.push_back({"all", std::to_string(serial.totalCycles), std::to_string(twofold.totalCycles),
                  text("%.3f", double(serial.totalCycles) / double(twofold.totalCycles)), "", "", "", ""});
  print(rows, 1, arguments.markdown);
  llvm::outs() << "\n";

  std::vector<std::vector<std::string>> totals = {{"", "serial", "double_buffer"}};
  auto addTotal = [&](const std::string &name, auto value) { totals.push_back({name, value(0), value(1)}); };
  const timing::MachineParams &machine = (*lowered)->machine;
  addTotal("cycles", [&](unsigned k) { return std::to_string(results[k].totalCycles); });
  addTotal("lower bound, cycles", [&](unsigned k) { return std::to_string(networks[k].lowerBoundCycles); });
  addTotal("utilisation", [&](unsigned k) {
    return text("%.1f %%", 100 * double(networks[k].macs) / (machine.peakMacsPerCycle() * double(results[k].totalCycles)));
  });
  addTotal("DRAM bytes", [&](unsigned k) { return std::to_string(results[k].dramReadBytes + results[k].dramWriteBytes); });
  for (unsigned label = 0; label < stats::kNumLabels; ++label)
    addTotal(std::string("tensor engine ") + stats::labelName(Label(label)), [&](unsigned k) {
      for (const stats::EngineResult &engine : results[k].engines)
        if (engine.engine == stats::kTensor)
          return text("%.1f %%", 100 * double(engine.cycles[label]) / double(results[k].totalCycles));
      return std::string();
    });
  print(totals, 1, arguments.markdown);
  const char *item = arguments.markdown ? "- " : "";
  llvm::outs() << "\n"
               << item << "geometric mean of the ratios where DMA is busy and compute is busy >= 30 % each: " << byBusy.str() << "\n"
               << item << "geometric mean of the ratios where DMA is in flight and compute is busy >= 30 % each: " << byFlight.str() << "\n"
               << item << "layers slower than under serial: " << slower << " of " << serial.layers.size()
               << text(", smallest ratio %.3f", worst) << "\n";
  return llvm::Error::success();
}
