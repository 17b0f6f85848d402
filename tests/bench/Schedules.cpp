//===- Schedules.cpp - serial against double_buffer, layer by layer -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/systemc/SystemCModel.h"
#include "tests/bench/Bench.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

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

/// Cycles of a program that holds nothing but `kernel`.
llvm::Expected<uint64_t> cyclesAlone(mlir::func::FuncOp kernel, const Lowered &lowered, accel::Schedule schedule) {
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(kernel.getLoc());
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(module->getBody());
  auto copy = mlir::cast<mlir::func::FuncOp>(builder.clone(*kernel));
  auto main = builder.create<mlir::func::FuncOp>(kernel.getLoc(), "main", kernel.getFunctionType());
  builder.setInsertionPointToStart(main.addEntryBlock());
  auto call = builder.create<mlir::func::CallOp>(kernel.getLoc(), copy, main.getArguments());
  builder.create<mlir::func::ReturnOp>(kernel.getLoc(), call.getResults());
  pipeline::CompileOptions options = lowered.options;
  options.schedule = schedule;
  auto compiled = pipeline::compileForAccelerator(*module, options);
  if (!compiled)
    return compiled.takeError();
  core::MachineState state(lowered.machine);
  if (auto problem = state.load(compiled->program))
    return llvm::createStringError(*problem);
  systemc::SimOptions simulation;
  simulation.timingOnly = true;
  stats::SimResult result = systemc::SystemCModel().run(compiled->program, state, simulation);
  if (result.fault)
    return llvm::createStringError("fault: " + result.fault->str());
  return result.totalCycles;
}

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
  auto computing = unionOf(
      serial, [](unsigned e, Label label) { return (e == stats::kTensor || e == stats::kVector) && label == Label::Busy; });

  std::vector<std::vector<std::string>> rows = {{"layer", "serial", "double_buffer", "ratio", "serial alone",
                                                 "double_buffer alone", "ratio alone", "DMA busy", "DMA in flight",
                                                 "compute busy", "both"}};
  GeometricMean byBusy, byFlight;
  unsigned slower = 0, slowerAlone = 0;
  double worst = INFINITY, worstAlone = INFINITY;
  uint64_t begin = 0;
  const std::vector<stats::Cycle> advances = stats::endAdvances(serial), twofoldAdvances = stats::endAdvances(twofold);
  for (size_t i = 0; i < serial.layers.size(); ++i) {
    const stats::LayerResult &layer = serial.layers[i];
    uint64_t from = begin, to = from + advances[i];
    begin = to;
    double ratio = twofoldAdvances[i] ? double(advances[i]) / double(twofoldAdvances[i]) : 1;
    double cycles = double(std::max<uint64_t>(advances[i], 1));
    double busy = double(covered(dmaBusy, from, to)) / cycles, flight = double(covered(dmaInFlight, from, to)) / cycles,
           compute = double(covered(computing, from, to)) / cycles;
    bool both = busy >= kBoth && compute >= kBoth, bothInFlight = flight >= kBoth && compute >= kBoth;
    if (both)
      byBusy.add(ratio);
    if (bothInFlight)
      byFlight.add(ratio);
    auto kernel = (*lowered)->module->lookupSymbol<mlir::func::FuncOp>(layer.name);
    uint64_t alone[2] = {0, 0};
    for (unsigned k = 0; kernel && k < 2; ++k) {
      auto measured = cyclesAlone(kernel, **lowered, k ? accel::Schedule::DoubleBuffer : accel::Schedule::Serial);
      if (!measured)
        return measured.takeError();
      alone[k] = *measured;
    }
    double ratioAlone = alone[1] ? double(alone[0]) / double(alone[1]) : 1;
    slowerAlone += ratioAlone < 1;
    worstAlone = std::min(worstAlone, ratioAlone);
    slower += ratio < 1;
    worst = std::min(worst, ratio);
    rows.push_back({layer.name, std::to_string(advances[i]), std::to_string(twofoldAdvances[i]), text("%.3f", ratio),
                    std::to_string(alone[0]), std::to_string(alone[1]), text("%.3f", ratioAlone), text("%.0f %%", busy * 100),
                    text("%.0f %%", flight * 100), text("%.0f %%", compute * 100),
                    both           ? "busy"
                    : bothInFlight ? "in flight"
                                   : ""});
  }
  rows.push_back({"all", std::to_string(serial.totalCycles), std::to_string(twofold.totalCycles),
                  text("%.3f", double(serial.totalCycles) / double(twofold.totalCycles)), "", "", "", "", "", "", ""});
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
               << item << "geometric mean of the ratios where DMA is busy and compute is busy >= 30 % each: " << byBusy.str()
               << "\n"
               << item
               << "geometric mean of the ratios where DMA is in flight and compute is busy >= 30 % each: " << byFlight.str()
               << "\n"
               << item << "layers slower than under serial, each as a program of its own: " << slowerAlone << " of "
               << serial.layers.size() << text(", smallest ratio %.3f", worstAlone) << "\n"
               << item << "layers slower than under serial, inside the network: " << slower << " of " << serial.layers.size()
               << text(", smallest ratio %.3f", worst) << "\n";
  return llvm::Error::success();
}
