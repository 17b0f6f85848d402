//===- EnergyText.cpp - Energy and area in reports ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/EnergyText.h"
#include "runtime/Report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using namespace tw;
using namespace tw::runtime;
using json = nlohmann::ordered_json;

static double totalMm2(const energy::Areas &areas) {
  double total = 0;
  for (const auto &[name, mm2] : areas)
    total += mm2;
  return total;
}

static double picojoulesPerMac(const RunReport &report) {
  return report.countedMacs() ? report.energy->totalJoules() * 1e12 / double(report.countedMacs()) : 0;
}

std::string runtime::energyTable(const RunReport &report) {
  constexpr size_t kRows = 6;
  const energy::EnergyReport &energy = *report.energy;
  const double total = energy.totalJoules();
  std::vector<size_t> order;
  for (size_t i = 0; i < energy.total.size(); ++i)
    if (energy.total[i] > 0)
      order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return energy.total[a] > energy.total[b]; });
  Table table({"energy, estimated", "uJ", "%"});
  auto add = [&](const std::string &name, double joules) {
    table.add({name, fixed(joules * 1e6, 3), fixed(total > 0 ? 100 * joules / total : 0, 1)});
  };
  double others = 0;
  for (size_t i = 0; i < order.size(); ++i)
    if (i < kRows)
      add(energy.components[order[i]], energy.total[order[i]]);
    else
      others += energy.total[order[i]];
  if (others > 0)
    add("others", others);
  table.rule();
  add("total", total);
  return table.str() + "average " + fixed(energy.averageWatts(), 3) + " W at " + std::to_string(report.machine.clockMhz) +
         " MHz" + (report.countedMacs() ? ", " + fixed(picojoulesPerMac(report), 2) + " pJ per MAC" : "") + "; technology " +
         energy.technology + (energy.isDefaultTechnology ? " (the default)" : "") + ", area " +
         fixed(totalMm2(energy.areas), 2) + " mm2 (estimate)\n";
}

static json joulesJson(const energy::EnergyReport &energy, const energy::Joules &joules) {
  json components = json::object();
  for (size_t i = 0; i < joules.size(); ++i)
    if (!energy.components[i].empty())
      components[energy.components[i]] = joules[i];
  return components;
}

static json entryJson(const energy::EnergyReport &energy, const std::string &name, const energy::Joules &joules) {
  return {{"name", name}, {"joules", energy::sum(joules)}, {"components", joulesJson(energy, joules)}};
}

static json eventsJson(const RunReport &report) {
  static constexpr const char *kLaneOps[energy::kNumLaneOps] = {
      "simple",        "int8_multiply", "int32_multiply",   "int32_divide", "fp32_add",
      "fp32_multiply", "fp32_divide",   "fp32_square_root", "convert",      "function"};
  const energy::EnergyReport &energy = *report.energy;
  const energy::EventCounts &counts = energy.events;
  json events = {{"array_macs", counts.arrayMacs}, {"weight_register_bits", counts.weightRegisterBits}};
  for (size_t i = 0; i < energy::kNumMemories; ++i) {
    if (i < energy::kAccumulatorIndex && i >= report.machine.scratchpads.size())
      continue;
    const std::string name =
        i == energy::kAccumulatorIndex ? "accumulator" : "scratchpad_" + report.machine.scratchpads[i].name;
    events[name + "_read_words"] = counts.memories[i].read;
    events[name + "_write_words"] = counts.memories[i].written;
  }
  for (size_t i = 0; i < energy::kNumLaneOps; ++i)
    events[std::string("lane_") + kLaneOps[i]] = counts.laneOps[i];
  events["lane_register_bits"] = counts.laneRegisterBits;
  events["dispatched_words"] = counts.dispatchedWords;
  events["queue_bits"] = counts.queueBits;
  events["dram_read_bursts"] = counts.dramReadBursts;
  events["dram_write_bursts"] = counts.dramWriteBursts;
  events["dram_fetch_bursts"] = energy.fetchBursts;
  events["dram_activates"] = energy.activates;
  events["dram_refreshes"] = energy.refreshes;
  return events;
}

json runtime::energyJson(const RunReport &report) {
  const energy::EnergyReport &energy = *report.energy;
  json document = {{"estimate", true},
                   {"technology", energy.technology},
                   {"technology_is_default", energy.isDefaultTechnology},
                   {"total_joules", energy.totalJoules()},
                   {"average_watts", energy.averageWatts()},
                   {"picojoules_per_mac", picojoulesPerMac(report)},
                   {"components", joulesJson(energy, energy.total)},
                   {"standing_joules", energy::sum(energy.standing)}};
  document["engines"] = json::array();
  for (const auto &[name, joules] : energy.engines)
    document["engines"].push_back(entryJson(energy, name, joules));
  document["layers"] = json::array();
  for (size_t i = 0; i < energy.layers.size(); ++i)
    document["layers"].push_back(entryJson(energy, report.sim->layers[i].name, energy.layers[i]));
  document["no_layer"] = entryJson(energy, "", energy.noLayer);
  document["events"] = eventsJson(report);
  return document;
}

json runtime::areaJson(const energy::EnergyReport &energy) {
  json components = json::object();
  for (const auto &[name, mm2] : energy.areas)
    components[name] = mm2;
  return {
      {"estimate", true}, {"technology", energy.technology}, {"total_mm2", totalMm2(energy.areas)}, {"components", components}};
}

std::string runtime::areaText(const energy::Areas &areas, const std::string &technology) {
  std::string text = "  area          " + fixed(totalMm2(areas), 3) + " mm2 (estimate, technology " + technology + ")\n";
  for (const auto &[name, mm2] : areas)
    text += "                " + fixed(mm2, 3) + " mm2 " + name + "\n";
  return text;
}
