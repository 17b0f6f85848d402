//===- Profile.cpp - Where the tensor engine's cycles went ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Profile.h"
#include "isa/Printable.h"
#include "runtime/EnergyText.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <nlohmann/json.hpp>

using namespace tw;
using namespace tw::runtime;
using stats::Label;
using stats::Loss;
using stats::LossCause;
using stats::LossKind;
using stats::Progress;
using timing::EngineKind;
using json = nlohmann::ordered_json;

//===----------------------------------------------------------------------===//
// What if
//===----------------------------------------------------------------------===//

std::vector<TimingChange> runtime::timingChanges(const timing::MachineParams &machine) {
  std::string settings;
  auto set = [&](const char *key, uint32_t &value, uint32_t to) {
    if (value == to)
      return;
    value = to;
    settings += (settings.empty() ? "" : " ") + std::string(key) + "=" + std::to_string(to);
  };
  TimingChange fast{"twice the DRAM bandwidth", "", machine}, near{"half the DRAM latency", "", machine};
  bool ideal = machine.dram.kind == timing::DramKind::Ideal;
  timing::DramParams &wide = fast.machine.dram, &quick = near.machine.dram;
  if (ideal) {
    wide.bytesPerCycleNumerator *= 2;
    settings = "dram.bytes_per_cycle=" + std::to_string(wide.bytesPerCycleNumerator) +
               (wide.bytesPerCycleDenominator == 1 ? "" : "/" + std::to_string(wide.bytesPerCycleDenominator));
  } else {
    set("dram.channels", wide.channels, wide.channels * 2);
    // As many bursts of a grant for each channel as before, or streams close each other's rows.
    set("dram.grant_bursts", wide.grantBursts, wide.grantBursts * 2);
  }
  fast.settings = settings;
  settings = "";
  if (ideal)
    set("dram.latency_cycles", quick.latencyCycles, quick.latencyCycles / 2);
  else
    for (auto [key, ticks] : {std::pair("dram.cl_ticks", &quick.nCL), std::pair("dram.rcd_read_ticks", &quick.nRCDRD),
                              std::pair("dram.rp_ticks", &quick.nRP)})
      set(key, *ticks, std::max(1u, *ticks / 2));
  set("dram.path_latency_cycles", quick.pathLatencyCycles, quick.pathLatencyCycles / 2);
  near.settings = settings;
  return {fast, near};
}

//===----------------------------------------------------------------------===//
// Planned against simulated
//===----------------------------------------------------------------------===//

void runtime::compareWithPlan(Profile &profile, const std::vector<std::vector<uint64_t>> &plannedStarts) {
  struct Span {
    uint64_t first = ~uint64_t(0), last = 0;
    void add(uint64_t start) {
      first = std::min(first, start);
      last = std::max(last, start);
    }
  };
  const stats::SimResult &sim = *profile.report.sim;
  std::map<uint32_t, std::pair<Span, Span>> spans;
  for (size_t i = 0; i < plannedStarts.size(); ++i) {
    unsigned engine = sim.engines[i].engine;
    std::vector<uint64_t> errors;
    EnginePlan plan;
    plan.engine = engine;
    if (plannedStarts[i].empty())
      continue;
    for (const stats::InstructionRecord &record : sim.instructions) {
      if (record.engine != engine)
        continue;
      assert(errors.size() < plannedStarts[i].size() && "an engine executes what was planned");
      uint64_t planned = plannedStarts[i][errors.size()];
      plan.drift = int64_t(record.start) - int64_t(planned);
      errors.push_back(uint64_t(std::abs(plan.drift)));
      if (stats::engineKind(engine) == EngineKind::Load)
        continue;
      spans[record.layer].first.add(planned);
      spans[record.layer].second.add(record.start);
    }
    assert(errors.size() == plannedStarts[i].size() && "an engine executes what was planned");
    std::sort(errors.begin(), errors.end());
    plan.instructions = errors.size();
    plan.median = errors[(errors.size() - 1) / 2];
    plan.ninetieth = errors[(errors.size() - 1) * 9 / 10];
    plan.largest = errors.back();
    profile.enginePlans.push_back(plan);
  }
  for (const auto &[layer, span] : spans)
    profile.layerPlans.push_back({layer, span.first.last - span.first.first, span.second.last - span.second.first});
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

static std::string layerName(const isa::Program &program, uint32_t layer) {
  return layer < program.layers.size() ? program.layers[layer].name : "-";
}

static std::string words(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string runtime::causeText(const LossCause &cause, const isa::Program &program) {
  std::string engine = cause.engine == stats::kNoEngine ? "" : stats::engineName(cause.engine);
  if (cause.engineWord != stats::kNoWord)
    engine += " word " + std::to_string(cause.engineWord);
  if (cause.engineLayer != stats::kNoLayer && cause.engineLayer != cause.layer)
    engine += " of " + layerName(program, cause.engineLayer);
  std::string label = cause.label == Label::Busy ? "" : " (" + words(stats::labelName(cause.label)) + ")";
  if (cause.waitsFor != stats::kNoEngine)
    label = " (waits for " + stats::engineName(cause.waitsFor) + ")";
  switch (cause.kind) {
  case LossKind::NoTensorWork:
    return engine.empty() ? "no tensor work; nothing in flight" : "no tensor work; " + engine + " busy";
  case LossKind::Drain:
    return !engine.empty()                        ? engine + " busy"
           : cause.progress == Progress::Draining ? "write buffer to DRAM"
                                                  : "nothing in flight";
  case LossKind::Starved:
    if (cause.progress == Progress::HandOver)
      return "dispatched, on the way to the queue";
    if (cause.label == Label::BufferFull)
      return "sequencer holds " + engine + ": queue full";
    return "sequencer at " + (engine.empty() ? "the end" : engine) + label;
  default:
    break;
  }
  std::string what = cause.kind == LossKind::Operand        ? "semaphore " + std::to_string(cause.detail)
                     : cause.kind == LossKind::BankConflict ? "bank"
                                                            : stats::interlockName(stats::InterlockKind(cause.detail));
  if (engine.empty())
    return what;
  std::string progress =
      cause.progress == Progress::NotDispatched ? "not dispatched" : words(stats::progressName(cause.progress));
  if (cause.progress == Progress::NotDispatched && !label.empty())
    label = " (sequencer: " + words(stats::labelName(cause.label)) + ")";
  return what + ": " + engine + " " + progress + label;
}

static bool isOf(EngineKind kind, unsigned engine) { return engine != stats::kNoEngine && stats::engineKind(engine) == kind; }

std::string runtime::remedyText(const LossCause &cause) {
  auto isEngine = [&](EngineKind kind) { return isOf(kind, cause.engine); };
  bool load = isEngine(EngineKind::Load);
  switch (cause.kind) {
  case LossKind::NoTensorWork:
    return "fuse the layer with a tensor layer, or run it beside one";
  case LossKind::Drain:
    return isEngine(EngineKind::Store)            ? "smaller last tiles"
           : isEngine(EngineKind::Vector)         ? "shorter chain or smaller last tiles"
           : cause.progress == Progress::Draining ? "more DRAM bandwidth, smaller last tiles"
                                                  : "-";
  case LossKind::Starved:
    if (cause.label == Label::BufferFull)
      return "deeper queue, or dispatch in another order";
    if (cause.label == Label::DramLatency || cause.label == Label::DramBandwidth)
      return "shorter code (loops), faster fetch";
    return "fewer words before it: loops, larger tiles";
  case LossKind::Interlock:
    if (stats::InterlockKind(cause.detail) == stats::InterlockKind::AccumulatorDistance)
      return "other accumulator rows between";
    break;
  case LossKind::BankConflict:
    return "buffers in other banks, or more banks";
  case LossKind::Operand:
    break;
  }
  switch (cause.progress) {
  case Progress::NotDispatched:
    return cause.label == Label::BufferFull ? "deeper queue, or dispatch in another order"
                                            : "dispatch it earlier, shorter code";
  case Progress::Queued:
    if (cause.label == Label::Operand && load) // for a store where a tensor goes through DRAM, else for its buffer
      return isOf(EngineKind::Store, cause.waitsFor) ? "keep the tensor on chip" : "one more buffer";
    if (cause.label == Label::Operand)
      return isOf(EngineKind::Load, cause.waitsFor) ? "load its operand earlier" : "what it waits for earlier";
    if (cause.label == Label::BankConflict)
      return "buffers in other banks, or more banks";
    if (cause.label == Label::Interlock && isEngine(EngineKind::Preload))
      return "larger tiles: shadow registers in use";
    return load ? "less traffic, another load engine" : "less work before it";
  case Progress::Running:
  case Progress::Draining:
    if (cause.label == Label::DramBandwidth)
      return "more DRAM bandwidth, less traffic";
    if (cause.label == Label::DramLatency)
      return "lower DRAM latency, load earlier";
    if (load)
      return "load earlier, wider DMA";
    if (cause.progress == Progress::Draining)
      return "another tile meanwhile";
    if (isEngine(EngineKind::Preload))
      return "more rows a cycle, larger tiles";
    if (isEngine(EngineKind::Vector))
      return "shorter chain, more lanes, another tile meanwhile";
    return "another tile meanwhile";
  case Progress::HandOver:
    return "another tile meanwhile";
  case Progress::None:
    return "-";
  }
  return "-";
}

static std::string shortened(const std::string &text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

static uint64_t busyCycles(const Profile &profile) {
  for (const stats::EngineResult &engine : profile.report.sim->engines)
    if (engine.engine == stats::kTensor)
      return engine.cycles[size_t(Label::Busy)];
  return 0;
}

static std::string percent(uint64_t part, uint64_t whole) { return whole ? fixed(100 * double(part) / double(whole), 1) : "-"; }

/// `merged`: rows of many places, of which only the layer is told.
static std::string lossTable(const Profile &profile, const std::vector<Loss> &rows, size_t top, bool merged) {
  uint64_t total = profile.report.sim->totalCycles, shown = 0, all = 0;
  Table table({"lost", "% of all", merged ? "places" : "times", "layer", merged ? "largest at" : "word", "phase", "kind",
               "cause", "would help"},
              6);
  for (const Loss &row : rows)
    all += row.cycles;
  for (size_t i = 0; i < std::min(top, rows.size()); ++i) {
    const Loss &row = rows[i];
    shown += row.cycles;
    LossCause cause = row.cause;
    std::string place = cause.word == stats::kNoWord ? "-" : std::to_string(cause.word);
    if (cause.loopWord != stats::kNoWord)
      place += ", loop " + std::to_string(cause.loopWord);
    if (merged)
      cause.engineWord = stats::kNoWord;
    std::string text = causeText(cause, profile.program);
    if (merged && cause.kind == LossKind::Operand)
      text = text.substr(text.find(": ") == std::string::npos ? 0 : text.find(": ") + 2);
    table.add({grouped(row.cycles), percent(row.cycles, total), grouped(merged ? row.places : row.times),
               shortened(layerName(profile.program, cause.layer), 28), place, stats::phaseName(cause.phase),
               words(stats::lossKindName(cause.kind)), shortened(text, 64), remedyText(cause)});
  }
  std::string text = table.str();
  if (shown < all)
    text += grouped(all - shown) + " cycles in " + grouped(rows.size() - top) + " smaller rows (--top, --json)\n";
  return text;
}

static std::string withSign(int64_t cycles) { return (cycles < 0 ? "-" : "") + grouped(uint64_t(std::abs(cycles))); }

static std::string planTables(const Profile &profile, size_t top) {
  if (profile.enginePlans.empty())
    return "";
  Table engines({"engine", "instructions", "median", "90th percentile", "largest", "drift at the end"}, 1);
  for (const EnginePlan &plan : profile.enginePlans)
    engines.add({stats::engineName(plan.engine), grouped(plan.instructions), grouped(plan.median), grouped(plan.ninetieth),
                 grouped(plan.largest), withSign(plan.drift)});
  Table layers({"layer", "planned", "simulated", "difference", "%"}, 1);
  std::vector<LayerPlan> plans = profile.layerPlans;
  auto difference = [](const LayerPlan &plan) { return int64_t(plan.simulated) - int64_t(plan.planned); };
  std::stable_sort(plans.begin(), plans.end(),
                   [&](const LayerPlan &a, const LayerPlan &b) { return std::abs(difference(a)) > std::abs(difference(b)); });
  for (size_t i = 0; i < std::min(top, plans.size()); ++i) {
    const LayerPlan &plan = plans[i];
    std::string share = plan.planned ? fixed(100 * double(difference(plan)) / double(plan.planned), 1) : "-";
    layers.add({shortened(layerName(profile.program, plan.layer), 28), grouped(plan.planned), grouped(plan.simulated),
                withSign(difference(plan)), share});
  }
  return "\nplanned against simulated: starts of instructions, cycles apart\n" + engines.str() +
         "\nplanned against simulated: from a layer's first start to its last\n" + layers.str();
}

std::string runtime::tables(const Profile &profile, size_t top) {
  const RunReport &report = profile.report;
  uint64_t total = report.sim->totalCycles, busy = busyCycles(profile);
  std::string text = printable(report.model) + " on " + report.machine.title() +
                     (report.schedule.empty() ? "" : ", schedule " + scheduleText(report)) + "\n" + grouped(total) +
                     " cycles: tensor engine busy in " + grouped(busy) + " (" + percent(busy, total) + " %), " +
                     grouped(total - busy) + " lost\n";
  std::array<uint64_t, 3> phases{};
  for (const Loss &row : profile.losses)
    phases[size_t(row.cause.phase)] += row.cycles;
  text += "lost before the first tensor instruction " + grouped(phases[0]) + ", between " + grouped(phases[1]) +
          ", after the last " + grouped(phases[2]) + "\n";
  text += "\nby layer and cause\n" + lossTable(profile, stats::byLayer(profile.losses), top, true);
  text += "\nby instruction\n" + lossTable(profile, profile.losses, top, false);
  text += "\nwhat if\n";
  Table table({"change", "cycles", "gain", "gain %", "how"}, 1);
  for (const WhatIf &whatIf : profile.whatIfs) {
    std::string gain = "-";
    if (whatIf.cycles)
      gain = *whatIf.cycles <= total ? grouped(total - *whatIf.cycles) : "-" + grouped(*whatIf.cycles - total);
    table.add({whatIf.name, whatIf.cycles ? grouped(*whatIf.cycles) : "-", gain,
               whatIf.cycles && total ? fixed(100 * (double(total) - double(*whatIf.cycles)) / double(total), 1) : "-",
               whatIf.how});
  }
  return text + table.str() + planTables(profile, top);
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static json wordOf(uint64_t word) { return word == stats::kNoWord ? json() : json(word); }

static json lossJson(const Profile &profile, const Loss &row) {
  const LossCause &cause = row.cause;
  json entry = {{"cycles", row.cycles},
                {"times", row.times},
                {"places", row.places},
                {"phase", stats::phaseName(cause.phase)},
                {"kind", stats::lossKindName(cause.kind)}};
  bool known = cause.layer < profile.program.layers.size();
  entry["layer"] = known ? json(profile.program.layers[cause.layer].name) : json();
  entry["nodes"] = known ? json(profile.program.layers[cause.layer].nodes) : json::array();
  entry["word"] = wordOf(cause.word);
  entry["loop_word"] = wordOf(cause.loopWord);
  entry["semaphore"] = cause.kind == LossKind::Operand ? json(cause.detail) : json();
  entry["interlock"] =
      cause.kind == LossKind::Interlock ? json(stats::interlockName(stats::InterlockKind(cause.detail))) : json();
  entry["engine"] = cause.engine == stats::kNoEngine ? json() : json(stats::engineName(cause.engine));
  entry["engine_word"] = wordOf(cause.engineWord);
  entry["engine_layer"] =
      cause.engineLayer < profile.program.layers.size() ? json(profile.program.layers[cause.engineLayer].name) : json();
  entry["progress"] = stats::progressName(cause.progress);
  entry["label"] = stats::labelName(cause.label);
  entry["waits_for"] = cause.waitsFor == stats::kNoEngine ? json() : json(stats::engineName(cause.waitsFor));
  entry["cause"] = causeText(cause, profile.program);
  entry["remedy"] = remedyText(cause);
  return entry;
}

std::string runtime::toJson(const Profile &profile) {
  const RunReport &report = profile.report;
  uint64_t total = report.sim->totalCycles, busy = busyCycles(profile);
  json document = {{"schema", "tilewright.profile/1"},
                   {"model", report.model},
                   {"machine", report.machine.title()},
                   {"schedule", report.schedule.empty() ? json() : json(report.schedule)},
                   {"total_cycles", total},
                   {"tensor_busy_cycles", busy},
                   {"lost_cycles", total - busy}};
  if (report.choice)
    document["schedule_ran"] = report.choice->ran;
  document["losses"] = json::array();
  for (const Loss &row : profile.losses)
    document["losses"].push_back(lossJson(profile, row));
  document["what_if"] = json::array();
  for (const WhatIf &whatIf : profile.whatIfs)
    document["what_if"].push_back({{"name", whatIf.name},
                                   {"how", whatIf.how},
                                   {"simulated", whatIf.simulated},
                                   {"cycles", whatIf.cycles ? json(*whatIf.cycles) : json()},
                                   {"gain_cycles", whatIf.cycles ? json(int64_t(total) - int64_t(*whatIf.cycles)) : json()}});
  document["plan"] = json();
  if (!profile.enginePlans.empty()) {
    json engines = json::array(), layers = json::array();
    for (const EnginePlan &plan : profile.enginePlans)
      engines.push_back({{"engine", stats::engineName(plan.engine)},
                         {"instructions", plan.instructions},
                         {"median_error_cycles", plan.median},
                         {"ninetieth_percentile_error_cycles", plan.ninetieth},
                         {"largest_error_cycles", plan.largest},
                         {"drift_cycles", plan.drift}});
    for (const LayerPlan &plan : profile.layerPlans)
      layers.push_back({{"layer", layerName(profile.program, plan.layer)},
                        {"planned_cycles", plan.planned},
                        {"simulated_cycles", plan.simulated}});
    document["plan"] = {{"engines", engines}, {"layers", layers}};
  }
  if (report.energy) {
    document["energy"] = energyJson(report);
    document["area"] = areaJson(*report.energy);
  }
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}
