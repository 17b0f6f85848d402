//===- Report.cpp - What a run comes to, for people and programs ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Report.h"
#include "hw-configs/Machine.h"
#include "isa/Printable.h"
#include "isa/timing/Dram.h"
#include "runtime/EnergyText.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

using namespace tw;
using namespace tw::runtime;
using stats::Label;
using json = nlohmann::ordered_json;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

std::string runtime::grouped(uint64_t value) {
  std::string digits = std::to_string(value), result;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i && (digits.size() - i) % 3 == 0)
      result += ',';
    result += digits[i];
  }
  return result;
}

std::string runtime::fixed(double value, int digits) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return buffer;
}

/// Cells may be cut to keep lines readable; the JSON report has everything.
static std::string shortened(const std::string &text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

std::string Table::str() const {
  std::vector<size_t> widths;
  for (const auto &row : rows)
    for (size_t column = 0; column < row.size(); ++column) {
      if (column >= widths.size())
        widths.push_back(0);
      widths[column] = std::max(widths[column], row[column].size());
    }
  size_t total = 0;
  for (size_t width : widths)
    total += width + 2;
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == 1 || std::find(rules.begin(), rules.end(), i) != rules.end())
      text += std::string(total - 2, '-') + "\n";
    std::string line;
    for (size_t column = 0; column < rows[i].size(); ++column) {
      const std::string &cell = rows[i][column];
      std::string padding(widths[column] - cell.size(), ' ');
      bool left = column == 0 || column + leftTail >= widths.size();
      line += (column ? "  " : "") + (left ? cell + padding : padding + cell);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

static std::string milliseconds(const RunReport &report, uint64_t cycles) { return fixed(report.milliseconds(cycles), 4); }
static std::string percent(double fraction) { return fixed(100 * fraction, 1); }
static std::string kilobytes(uint64_t bytes) { return fixed(double(bytes) / 1024, 1); }
static std::string ratio(uint64_t cycles, uint64_t bound) { return bound ? fixed(double(cycles) / double(bound), 2) : "-"; }

double RunReport::dataBusBusy() const {
  if (!sim || !sim->totalCycles)
    return 0;
  // Bytes are whole bursts, each of which takes its fixed time of a bus.
  timing::Ratio rate = timing::dramPeakBytesPerCycle(machine);
  uint64_t bytes = sim->dramReadBytes + sim->dramWriteBytes + sim->fetchBytes;
  double busy = double(bytes) * double(rate.denominator) / double(rate.numerator), cycles = double(sim->totalCycles);
  const timing::DramParams &dram = machine.dram;
  if (!timing::dramRefreshShare(dram))
    return busy / cycles;
  // Refreshes fall due at multiples of nREFI; of the last one counts what lies in the run.
  double ticks = cycles * dram.clockMhz / machine.clockMhz, due = std::floor(ticks / dram.nREFI);
  double refresh = due ? (due - 1) * dram.nRFC + std::min(double(dram.nRFC), ticks - due * dram.nREFI) : 0;
  return busy / (cycles * (1 - refresh / ticks));
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

static void add(stats::LayerResult &sum, const stats::LayerResult &layer) {
  if (layer.instructions) {
    sum.firstStart = sum.instructions ? std::min(sum.firstStart, layer.firstStart) : layer.firstStart;
    sum.lastRetire = std::max(sum.lastRetire, layer.lastRetire);
  }
  sum.instructions += layer.instructions;
  sum.critical += layer.critical;
  sum.dramReadBytes += layer.dramReadBytes;
  sum.dramWriteBytes += layer.dramWriteBytes;
  sum.macs += layer.macs;
  sum.vectorMacs += layer.vectorMacs;
  for (unsigned engine = 0; engine < stats::kNumEngines; ++engine)
    for (unsigned label = 0; label < stats::kNumLabels; ++label)
      sum.labels[engine][label] += layer.labels[engine][label];
}

static void add(cost::LayerTraffic &sum, const cost::LayerTraffic &layer) {
  sum.compulsoryBytes += layer.compulsoryBytes;
  sum.unavoidableBytes += layer.unavoidableBytes;
  sum.threeMemoryBytes += layer.threeMemoryBytes;
  sum.referenceBytes += layer.referenceBytes;
}

cost::LayerTraffic RunReport::layerSerialTraffic() const {
  cost::LayerTraffic sum;
  for (const cost::LayerTraffic &layer : layerTraffic)
    add(sum, layer);
  return sum;
}

/// Cycles of `bytes` at the peak rate of the data buses.
static uint64_t dramCycles(const timing::MachineParams &machine, uint64_t bytes) {
  const timing::Ratio rate = timing::dramPeakBytesPerCycle(machine);
  return (bytes * rate.denominator + rate.numerator - 1) / rate.numerator;
}

std::pair<uint64_t, std::string> runtime::programBound(const RunReport &report, const stats::LayerResult &layer) {
  std::pair<uint64_t, std::string> bound{0, ""};
  auto needs = [&](uint64_t cycles, const std::string &who) {
    if (cycles > bound.first)
      bound = {cycles, who};
  };
  if (!report.sim->hasLayerCauses)
    return bound;
  for (const stats::EngineResult &engine : report.sim->engines)
    if (engine.engine != stats::kSequencer)
      needs(layer.labels[engine.engine][size_t(Label::Busy)], engine.name);
  // A store is done when the write buffer has its bursts: as many as fit there may go to DRAM later.
  const uint64_t buffered = uint64_t(report.machine.dram.writeBufferBursts) * report.machine.dram.burstBytes;
  needs(dramCycles(report.machine, layer.dramReadBytes + layer.dramWriteBytes - std::min(layer.dramWriteBytes, buffered)),
        "dram");
  return bound;
}

/// A row of the layer's own numbers.
static LayerRow layerRow(const RunReport &report, size_t i) {
  LayerRow row;
  row.result = report.sim->layers[i];
  row.name = row.result.name;
  row.macs = row.result.macs;
  if (i < report.layers.size()) {
    const isa::Layer &layer = report.layers[i];
    row.nodes = layer.nodes;
    row.aloneCycles = layer.boundCycles;
    row.aloneBy = layer.boundBy;
    if (report.macs)
      row.macs = layer.macs;
  }
  std::tie(row.boundCycles, row.boundBy) = programBound(report, row.result);
  if (report.layerTraffic.size() == report.layers.size() && i < report.layerTraffic.size())
    row.traffic = report.layerTraffic[i];
  if (report.tiles.size() == report.layers.size() && i < report.tiles.size())
    row.tile = report.tiles[i];
  row.number = i;
  if (i < report.layerReads.size())
    row.reads = report.layerReads[i];
  return row;
}

static LayerRow groupRow(const RunReport &report, std::vector<LayerRow> members) {
  LayerRow row;
  for (const LayerRow &member : members) {
    row.name += (row.name.empty() ? "" : " + ") + member.name;
    row.nodes.insert(row.nodes.end(), member.nodes.begin(), member.nodes.end());
    add(row.result, member.result);
    row.macs += member.macs;
    row.aloneCycles += member.aloneCycles;
    if (member.reads) {
      if (!row.reads)
        row.reads.emplace();
      for (size_t number : *member.reads)
        if ((number < *members.front().number || number > *members.back().number) &&
            std::find(row.reads->begin(), row.reads->end(), number) == row.reads->end())
          row.reads->push_back(number);
    }
    if (member.traffic) {
      if (!row.traffic)
        row.traffic.emplace();
      add(*row.traffic, *member.traffic);
    }
  }
  row.result.name = row.name;
  row.aloneBy = row.aloneCycles ? "sum of its layers" : "";
  std::tie(row.boundCycles, row.boundBy) = programBound(report, row.result);
  row.members = std::move(members);
  return row;
}

std::vector<LayerRow> runtime::layerRows(const RunReport &report) {
  std::vector<LayerRow> rows;
  auto group = report.groups.begin();
  const size_t count = report.sim->layers.size();
  for (size_t i = 0; i < count; ++i) {
    while (group != report.groups.end() && group->first < i)
      ++group;
    if (group == report.groups.end() || group->first != i || group->second >= count) {
      rows.push_back(layerRow(report, i));
      continue;
    }
    std::vector<LayerRow> members;
    for (; i <= group->second; ++i)
      members.push_back(layerRow(report, i));
    --i;
    rows.push_back(groupRow(report, std::move(members)));
  }
  if (report.sim->noLayer.instructions || report.sim->noLayer.critical) {
    LayerRow row;
    row.result = report.sim->noLayer;
    row.name = row.result.name = "(no layer)";
    row.macs = row.result.macs;
    std::tie(row.boundCycles, row.boundBy) = programBound(report, row.result);
    rows.push_back(std::move(row));
  }
  return rows;
}

/// All rows as one.
static LayerRow totalRow(const RunReport &report) {
  const stats::SimResult &sim = *report.sim;
  LayerRow row;
  row.name = "total";
  for (const stats::LayerResult &layer : sim.layers)
    add(row.result, layer);
  add(row.result, sim.noLayer);
  row.macs = report.countedMacs();
  row.aloneCycles = report.layerSerialCycles.value_or(0);
  if (!report.layerTraffic.empty())
    row.traffic = report.layerSerialTraffic();
  std::tie(row.boundCycles, row.boundBy) = programBound(report, row.result);
  return row;
}

static std::string orDash(bool known, const std::string &text) { return known ? text : "-"; }

/// A layer's name in a table: members of a group stand a little to the right.
static std::string rowName(const LayerRow &row, bool isMember) {
  return (isMember ? "  " : "") + shortened(row.name, isMember ? 34 : 36);
}

/// Calls add(row, whether it is a member of a group) in the order of the table.
template <typename Add> static void forEachRow(const std::vector<LayerRow> &rows, Add add) {
  for (const LayerRow &row : rows) {
    add(row, false);
    for (const LayerRow &member : row.members)
      add(member, true);
  }
}

static std::string layerTable(const RunReport &report) {
  const stats::SimResult &sim = *report.sim;
  Table table({"layer", "cycles", "critical", "% of all", "MACs", "util %", "DRAM KiB", "least", "ref.", "bound",
               "cycles/bound", "bound by", "alone"});
  auto add = [&](const LayerRow &row, const std::string &name, uint64_t cycles, uint64_t leastBytes) {
    const bool known = sim.hasLayerCauses;
    table.add({name, grouped(cycles), orDash(known, grouped(row.result.critical)),
               orDash(known && sim.totalCycles, percent(double(row.result.critical) / double(sim.totalCycles))),
               grouped(row.macs), percent(report.utilisation(row.macs, cycles)),
               kilobytes(row.result.dramReadBytes + row.result.dramWriteBytes),
               orDash(row.traffic.has_value(), kilobytes(leastBytes)),
               orDash(row.traffic.has_value(), row.traffic ? kilobytes(row.traffic->referenceBytes) : ""),
               orDash(row.boundCycles, grouped(row.boundCycles)), ratio(cycles, row.boundCycles),
               orDash(row.boundCycles, row.boundBy), orDash(row.aloneCycles, grouped(row.aloneCycles))});
  };
  forEachRow(layerRows(report), [&](const LayerRow &row, bool isMember) {
    add(row, rowName(row, isMember), row.result.cycles(), row.traffic ? row.traffic->unavoidableBytes : 0);
  });
  table.rule();
  add(totalRow(report), "total", sim.totalCycles, report.lowerBoundBytes.value_or(0));
  return table.str() + "layers overlap: cycles and bounds do not sum to the total, critical cycles do\n";
}

/// Busy cycles of each engine, and why the tensor engine was not busy.
static std::string busyTable(const RunReport &report) {
  std::vector<std::string> head = {"busy cycles"};
  for (const stats::EngineResult &engine : report.sim->engines)
    if (engine.engine != stats::kSequencer)
      head.push_back(engine.name);
  for (const char *stall : {"tensor: operand", "interlock", "bank conflict"})
    head.push_back(stall);
  Table table(head);
  auto add = [&](const LayerRow &row, const std::string &name) {
    std::vector<std::string> cells = {name};
    for (const stats::EngineResult &engine : report.sim->engines)
      if (engine.engine != stats::kSequencer)
        cells.push_back(grouped(row.result.labels[engine.engine][size_t(Label::Busy)]));
    for (Label label : {Label::Operand, Label::Interlock, Label::BankConflict})
      cells.push_back(grouped(row.result.labels[stats::kTensor][size_t(label)]));
    table.add(cells);
  };
  forEachRow(layerRows(report), [&](const LayerRow &row, bool isMember) { add(row, rowName(row, isMember)); });
  table.rule();
  add(totalRow(report), "total");
  return table.str();
}

//===----------------------------------------------------------------------===//
// Text of a run
//===----------------------------------------------------------------------===//

static std::string engineTable(const RunReport &report) {
  static constexpr const char *heads[stats::kNumLabels] = {
      "busy", "operand", "interlock", "bank conflict", "DRAM bandwidth", "DRAM latency", "buffer full", "starved", "idle"};
  std::vector<std::string> head = {"engine"};
  head.insert(head.end(), std::begin(heads), std::end(heads));
  head.push_back("sum");
  head.push_back("busy %");
  Table table(head);
  for (const stats::EngineResult &engine : report.sim->engines) {
    std::vector<std::string> row = {engine.name};
    uint64_t sum = 0;
    for (uint64_t cycles : engine.cycles) {
      row.push_back(grouped(cycles));
      sum += cycles;
    }
    row.push_back(grouped(sum));
    row.push_back(percent(sum ? double(engine.cycles[size_t(Label::Busy)]) / double(sum) : 0));
    table.add(row);
  }
  return table.str();
}

std::string runtime::offloadText(const std::vector<Offload> &offload) {
  std::map<std::string, size_t> counts;
  for (const Offload &entry : offload)
    ++counts[entry.target];
  std::string text;
  if (!offload.empty()) {
    text = "nodes:";
    for (const auto &[target, count] : counts)
      text += (text == "nodes:" ? " " : ", ") + std::to_string(count) + (target == "folded" ? " " : " on ") + target;
    text += "\n";
  }
  for (const Offload &entry : offload)
    if (entry.fellBack)
      text += "  " + entry.node + " on " + entry.target + ": " + entry.reason + "\n";
  return text;
}

namespace {
/// Layers of no node of the model, which the compiler put in: transposes between layouts and conversions of types.
struct Conversions {
  uint64_t layers = 0, cycles = 0, criticalCycles = 0, dramBytes = 0;

  explicit Conversions(const RunReport &report) {
    if (!report.sim || report.offload.empty()) // not a network
      return;
    for (size_t i = 0; i < std::min(report.layers.size(), report.sim->layers.size()); ++i) {
      if (!report.layers[i].nodes.empty())
        continue;
      const stats::LayerResult &layer = report.sim->layers[i];
      ++layers;
      cycles += layer.cycles();
      criticalCycles += layer.critical;
      dramBytes += layer.dramReadBytes + layer.dramWriteBytes;
    }
  }
};
} // namespace

static std::string conversionText(const RunReport &report) {
  const Conversions conversions(report);
  if (conversions.layers == 0)
    return "";
  std::string text = "conversions that the model does not contain: " + grouped(conversions.layers);
  if (report.sim->hasLayerCauses)
    text += ", " + grouped(conversions.criticalCycles) + " critical cycles";
  return text + ", DRAM " + kilobytes(conversions.dramBytes) + " KiB\n";
}

/// The accelerator's part of all multiply-accumulates and of the estimated time.
static std::string sharesText(const RunReport &report) {
  auto share = [](uint64_t part, uint64_t all) { return percent(all ? double(part) / double(all) : 1) + " %"; };
  const uint64_t macs = report.countedMacs();
  return "on the accelerator: " + share(macs, macs + report.fallback.macs) + " of the multiply-accumulates, " +
         share(report.sim->totalCycles, *report.allCycles()) + " of that time\n";
}

/// What lies between kernels at most, where the order of kernels matters.
static std::string peakText(const RunReport &report) {
  if (!report.peak || report.peak->modelBytes == report.peak->leastBytes)
    return "";
  const memory::PeakMemory &peak = *report.peak;
  return "tensors between kernels: at most " + kilobytes(peak.takenBytes) + " KiB at once; in the model's order " +
         kilobytes(peak.modelBytes) + ", with --order memory " + kilobytes(peak.leastBytes) + ", no order has less than " +
         kilobytes(peak.boundBytes) + "\n";
}

static std::string fallbackText(const RunReport &report) {
  if (!report.fallback.kernels)
    return "";
  const FallbackReport &fallback = report.fallback;
  const std::string also = report.runsOnAccelerator() ? " (not in the cycles above)" : "";
  std::string devices;
  for (const std::string &device : fallback.devices)
    devices += (devices.empty() ? "" : " and ") + device;
  auto estimate = [&](uint64_t cycles) {
    return (report.runsOnAccelerator() ? grouped(cycles) + " cycles = " : "") + milliseconds(report, cycles) + " ms";
  };
  std::string text = "fallback on " + devices + also + ": " + grouped(fallback.kernels) +
                     (fallback.kernels == 1 ? " kernel, " : " kernels, ") + estimate(fallback.hostCycles) + " estimated\n";
  if (report.runsOnAccelerator())
    text += "host link" + also + ": " + grouped(fallback.crossings) + (fallback.crossings == 1 ? " tensor, " : " tensors, ") +
            kilobytes(fallback.hostLinkBytes) + " KiB, " + estimate(fallback.linkCycles) + " estimated\n";
  if (report.runsOnAccelerator() && report.sim)
    text += "accelerator, link and host one after the other: " + estimate(*report.allCycles()) + " (an estimate)\n" +
            sharesText(report);
  if (report.measuresHost)
    text += "host measured: " + fixed(fallback.seconds * 1e3, 3) + " ms\n";
  return text;
}

/// What is in an output, in one line.
std::string runtime::outputText(const HostTensor &tensor) {
  std::string text =
      "output '" + tensor.name + "' " + frontend::elementName(tensor.type) + " [" + shapeText(tensor.shape) + "]";
  std::vector<double> values = toDoubles(tensor);
  char buffer[64];
  auto number = [&](double value) {
    std::snprintf(buffer, sizeof buffer, "%.6g", value);
    return std::string(buffer);
  };
  if (values.size() > 1) {
    size_t largest = 0;
    for (size_t i = 1; i < values.size(); ++i)
      if (values[i] > values[largest])
        largest = i;
    text += ": largest " + number(values[largest]) + " at " + std::to_string(largest);
  } else if (values.size() == 1) {
    text += ": " + number(values[0]);
  }
  return text + "\n";
}

static std::string summary(const RunReport &report) {
  const stats::SimResult &sim = *report.sim;
  std::string text = grouped(sim.totalCycles) + " cycles = " + milliseconds(report, sim.totalCycles) + " ms at " +
                     std::to_string(report.machine.clockMhz) + " MHz; utilisation " +
                     percent(report.utilisation(report.countedMacs(), sim.totalCycles)) + " % (" +
                     grouped(report.countedMacs()) + " MACs / (" + grouped(uint64_t(report.machine.peakMacsPerCycle())) +
                     " MACs per cycle x cycles))\n";
  if (report.lowerBoundCycles && *report.lowerBoundCycles)
    text += "lower bound " + grouped(*report.lowerBoundCycles) + " cycles (" + report.boundBy + "), reached " +
            ratio(sim.totalCycles, *report.lowerBoundCycles) + "x";
  if (report.lowerBoundCycles && *report.lowerBoundCycles && report.layerSerialCycles)
    text += "; layer by layer " + grouped(*report.layerSerialCycles) + " (not a bound)";
  if (report.lowerBoundCycles && *report.lowerBoundCycles)
    text += "\n";
  if (report.lowerBoundBytes && !report.layerTraffic.empty()) {
    cost::LayerTraffic sum = report.layerSerialTraffic();
    text += "DRAM " + kilobytes(sim.dramReadBytes + sim.dramWriteBytes) + " KiB; at least " +
            kilobytes(*report.lowerBoundBytes) + ", layer by layer " + kilobytes(sum.unavoidableBytes) + " (" +
            kilobytes(sum.threeMemoryBytes) + " with a memory for each operand); schedule reference " +
            kilobytes(sum.referenceBytes) + " (not a bound)\n";
  }
  text += "DRAM data bus busy " + percent(report.dataBusBusy()) + " % of the time outside refresh, " +
          kilobytes(sim.fetchBytes) + " KiB of program included\n";
  return text;
}

std::string runtime::scheduleText(const RunReport &report) {
  if (!report.choice)
    return report.schedule;
  const ScheduleChoice &choice = *report.choice;
  std::string text = report.schedule + " (" + choice.ran + " ran";
  if (choice.candidates.empty())
    return text + ", not compared: more than " + grouped(choice.mostCycles) + " cycles)";
  std::optional<uint64_t> own, others; // the list-scheduled one against the others, or the least of these
  for (const ScheduleChoice::Candidate &candidate : choice.candidates) {
    if (candidate.schedule == choice.ran)
      own = candidate.cycles;
    else if (candidate.cycles && (!others || *candidate.cycles < *others))
      others = candidate.cycles;
  }
  if (own)
    text += ": " + grouped(*own) + " cycles";
  if (own && others)
    text += " against " + grouped(*others);
  return text + ")";
}

/// What a device of OpenCL took, and the host between its runs.
static std::string openClText(const RunReport &report) {
  const OpenClUse &use = *report.openCl;
  std::string text =
      printable(report.model) + " on " + use.device + " (" + use.platform + "): " + grouped(use.kernels) +
      (use.kernels == 1 ? " kernel" : " kernels") + (use.runs > 1 ? " in " + grouped(use.runs) + " runs" : std::string()) +
      ", " + fixed(use.seconds * 1e3, 3) + " ms" + (report.batch == 1 ? "" : " for " + grouped(report.batch) + " inputs") +
      ", without copies of what they read and make\n";
  return text + (report.fallback.kernels > use.runs ? offloadText(report.offload) : "");
}

/// What a simulated accelerator did.
static std::string simulatedText(const RunReport &report) {
  std::string text = printable(report.model) + " on " + report.machine.title() + " (" +
                     hwconfigs::typeName(report.machine.arrayType) + " " + std::to_string(report.machine.rows) + "x" +
                     std::to_string(report.machine.cols) + ", " + std::to_string(report.machine.clockMhz) + " MHz)" +
                     (report.schedule.empty() ? "" : ", schedule " + scheduleText(report)) + ", " +
                     modelName(report.simulator) + " model\n";
  if (report.sim) {
    if (!report.sim->layers.empty())
      text += "\n" + layerTable(report) + (report.sim->hasLayerCauses ? "\n" + busyTable(report) : "");
    text += "\n" + engineTable(report) + "\n" + summary(report);
    if (report.energy)
      text += "\n" + energyTable(report);
  }
  if (!report.runsOnAccelerator())
    text += "nothing runs on the accelerator\n";
  return text + offloadText(report.offload) + conversionText(report) + peakText(report) + fallbackText(report);
}

std::string runtime::tables(const RunReport &report) {
  std::string text = report.openCl ? openClText(report) : simulatedText(report);
  if (report.seed)
    text += "random inputs, seed " + std::to_string(*report.seed) + "\n";
  for (const HostTensor &output : report.outputs)
    if (report.batch == 1)
      text += outputText(output);
  if (report.batch > 1 && report.sim)
    text += grouped(report.batch) + " inputs one after the other: " + grouped(report.batch * report.sim->totalCycles) +
            " cycles = " + milliseconds(report, report.batch * report.sim->totalCycles) + " ms (no cycle depends on a value)\n";
  for (const Comparison &comparison : report.comparisons)
    text += runtime::text(comparison) + "\n";
  if (report.compileSeconds > 0)
    text += "compiled in " + fixed(report.compileSeconds, 2) + " s, ";
  if (report.openCl)
    text += "kernels built in " + fixed(report.openCl->buildSeconds, 2) + " s";
  else
    text += report.runsOnAccelerator() ? "simulated in " + fixed(report.simulateSeconds, 2) + " s" : "nothing simulated";
  if (report.sim)
    text += " (" + fixed(report.cyclesPerWallSecond() / 1e6, 2) + " million cycles per wall second)";
  if (report.peakMemoryBytes)
    text += ", peak memory " + fixed(double(report.peakMemoryBytes) / (1 << 20), 0) + " MiB";
  return text + "\n";
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

/// Without busy and idle, which are no stalls.
static json stallsOf(const std::array<stats::Cycle, stats::kNumLabels> &cycles) {
  json stalls = json::object();
  for (unsigned i = 0; i < stats::kNumLabels; ++i)
    if (Label(i) != Label::Busy && Label(i) != Label::Idle)
      stalls[std::string(stats::labelName(Label(i))) + "_cycles"] = cycles[i];
  return stalls;
}

static json engineJson(const stats::EngineResult &engine) {
  json causes = json::array();
  for (const stats::StallCause &cause : engine.causes)
    causes.push_back({{"label", stats::labelName(cause.label)}, {"cause", cause.str()}, {"cycles", cause.cycles}});
  return {{"name", engine.name},
          {"instructions", engine.instructions},
          {"busy_cycles", engine.cycles[size_t(Label::Busy)]},
          {"stalls", stallsOf(engine.cycles)},
          {"idle_cycles", engine.cycles[size_t(Label::Idle)]},
          {"causes", causes}};
}

static json layerJson(const RunReport &report, const LayerRow &row) {
  const stats::LayerResult &layer = row.result;
  const bool known = report.sim->hasLayerCauses;
  json entry = {{"name", row.name}, {"nodes", row.nodes}};
  entry["number"] = row.number ? json(*row.number) : json();
  entry["reads"] = row.reads ? json(*row.reads) : json();
  entry["cycles"] = layer.cycles();
  entry["milliseconds"] = report.milliseconds(layer.cycles());
  entry["first_start_cycle"] = layer.firstStart;
  entry["last_retirement_cycle"] = layer.lastRetire;
  entry["critical_cycles"] = known ? json(layer.critical) : json();
  entry["instructions"] = layer.instructions;
  entry["macs"] = row.macs;
  entry["vector_macs"] = layer.vectorMacs;
  entry["utilisation"] = report.utilisation(row.macs, layer.cycles());
  entry["bound_cycles"] = known ? json(row.boundCycles) : json();
  entry["bound_by"] = known ? json(row.boundBy) : json();
  entry["alone_bound_cycles"] = row.aloneCycles ? json(row.aloneCycles) : json();
  entry["alone_bound_by"] = row.aloneCycles ? json(row.aloneBy) : json();
  entry["dram_bytes"] = layer.dramReadBytes + layer.dramWriteBytes;
  auto bytes = [&](uint64_t cost::LayerTraffic::*which) { return row.traffic ? json((*row.traffic).*which) : json(); };
  entry["compulsory_dram_bytes"] = bytes(&cost::LayerTraffic::compulsoryBytes);
  entry["unavoidable_dram_bytes"] = bytes(&cost::LayerTraffic::unavoidableBytes);
  entry["three_memory_dram_bytes"] = bytes(&cost::LayerTraffic::threeMemoryBytes);
  entry["schedule_reference_dram_bytes"] = bytes(&cost::LayerTraffic::referenceBytes);
  entry["tile"] = row.tile ? json(row.tile->choice) : json();
  entry["tile_bytes"] = row.tile ? json(row.tile->bytes) : json();
  entry["dram_read_bytes"] = layer.dramReadBytes;
  entry["dram_write_bytes"] = layer.dramWriteBytes;
  json engines = json::array();
  for (const stats::EngineResult &engine : report.sim->engines) {
    const auto &labels = layer.labels[engine.engine];
    if (std::any_of(labels.begin(), labels.end(), [](stats::Cycle cycles) { return cycles != 0; }))
      engines.push_back({{"name", engine.name}, {"busy_cycles", labels[size_t(Label::Busy)]}, {"stalls", stallsOf(labels)}});
  }
  entry["engines"] = known ? engines : json();
  entry["members"] = json::array();
  for (const LayerRow &member : row.members)
    entry["members"].push_back(layerJson(report, member));
  return entry;
}

static json dramJson(const timing::MachineParams &machine) {
  timing::Ratio rate = timing::dramPeakBytesPerCycle(machine);
  return {{"ideal", machine.dram.kind == timing::DramKind::Ideal},
          {"burst_bytes", machine.dram.burstBytes},
          {"peak_bytes_per_cycle", double(rate.numerator) / double(rate.denominator)},
          {"row_conflict_latency_cycles", timing::dramConflictLatencyCycles(machine)}};
}

static json bankJson(const timing::DramBankCounts &bank, const timing::MachineParams &machine) {
  json entry = {{"read_bytes", bank.reads * machine.dram.burstBytes}, {"write_bytes", bank.writes * machine.dram.burstBytes}};
  const bool hasRows = machine.dram.kind != timing::DramKind::Ideal;
  entry["row_hits"] = hasRows ? json(bank.rowHits) : json();
  entry["row_misses"] = hasRows ? json(bank.rowMisses) : json();
  entry["row_conflicts"] = hasRows ? json(bank.rowConflicts) : json();
  return entry;
}

/// What each channel did, and each of its banks.
static json channelsJson(const RunReport &report) {
  json channels = json::array();
  const timing::Ratio rate = timing::dramPeakBytesPerCycle(report.machine);
  for (const timing::DramChannelCounts &channel : report.sim->dram) {
    const timing::DramBankCounts sum = channel.sum();
    json entry = bankJson(sum, report.machine);
    // A burst takes its fixed time of the channel's bus.
    const double busy = double((sum.reads + sum.writes) * report.machine.dram.burstBytes * report.sim->dram.size()) *
                        double(rate.denominator) / double(rate.numerator);
    entry["data_bus_busy"] = report.sim->totalCycles ? busy / double(report.sim->totalCycles) : 0;
    entry["refreshes"] = channel.refreshes;
    entry["banks"] = json::array();
    if (channel.banks.size() > 1)
      for (const timing::DramBankCounts &bank : channel.banks)
        entry["banks"].push_back(bankJson(bank, report.machine));
    channels.push_back(std::move(entry));
  }
  return channels;
}

static json memoryJson(const MemoryMap &map, size_t numLayers) {
  json memories = json::array();
  for (const MemoryMap::Memory &memory : map.memories) {
    json spans = json::array();
    for (const MemoryMap::Span &span : memory.spans)
      spans.push_back(
          {span.firstRow, span.numRows, span.begin, span.end, span.layer < numLayers ? int64_t(span.layer) : int64_t(-1)});
    memories.push_back({{"name", memory.name},
                        {"bytes", memory.bytes},
                        {"banks", memory.banks},
                        {"row_bytes", memory.rowBytes},
                        {"spans", std::move(spans)}});
  }
  return {{"step_cycles", map.step}, {"memories", std::move(memories)}};
}

/// JSON has no infinity.
static json numberOrText(double value) { return std::isfinite(value) ? json(value) : json("infinite"); }

std::string runtime::toJson(const RunReport &report, const std::vector<std::string> &outputFiles) {
  json document;
  uint64_t scratchpadBytes = 0;
  for (const timing::MemoryParams &memory : report.machine.scratchpads)
    scratchpadBytes += memory.capacityBytes;
  document["schema"] = "tilewright.run/1";
  document["model"] = report.model;
  document["machine"] = {{"name", report.machine.name},
                         {"overrides", report.machine.overrides},
                         {"array_type", hwconfigs::typeName(report.machine.arrayType)},
                         {"rows", report.machine.rows},
                         {"cols", report.machine.cols},
                         {"clock_mhz", report.machine.clockMhz},
                         {"peak_macs_per_cycle", report.machine.peakMacsPerCycle()},
                         {"scratchpad_bytes", scratchpadBytes},
                         {"outstanding_bursts", report.machine.outstandingBursts},
                         {"write_buffer_bursts", report.machine.dram.writeBufferBursts},
                         {"dram", dramJson(report.machine)}};
  document["schedule"] = report.schedule.empty() ? json() : json(report.schedule);
  if (report.choice) {
    document["schedule_ran"] = report.choice->ran;
    document["schedule_candidates"] = json::array();
    for (const ScheduleChoice::Candidate &candidate : report.choice->candidates) {
      document["schedule_candidates"].push_back(
          {{"schedule", candidate.schedule}, {"cycles", candidate.cycles ? json(*candidate.cycles) : json()}});
      if (!candidate.cycles)
        document["schedule_candidates"].back()["why"] = candidate.why;
    }
  }
  document["simulator"] = modelName(report.simulator);
  document["peak_live_bytes"] = json();
  if (report.peak)
    document["peak_live_bytes"] = {{"taken_order", report.peak->takenBytes},
                                   {"model_order", report.peak->modelBytes},
                                   {"memory_order", report.peak->leastBytes},
                                   {"lower_bound", report.peak->boundBytes}};
  document["inputs_seed"] = report.seed ? json(*report.seed) : json();
  document["batch"] = report.batch;
  document["programs"] = report.programs;
  document["macs"] = report.countedMacs();
  if (report.sim) {
    const stats::SimResult &sim = *report.sim;
    document["total_cycles"] = sim.totalCycles;
    document["total_milliseconds"] = report.milliseconds(sim.totalCycles);
    document["utilisation"] = report.utilisation(report.countedMacs(), sim.totalCycles);
    document["utilisation_denominator"] = "peak_macs_per_cycle * total_cycles";
    document["lower_bound_cycles"] = report.lowerBoundCycles ? json(*report.lowerBoundCycles) : json();
    document["bound_by"] = report.boundBy;
    document["layer_serial_cycles"] = report.layerSerialCycles ? json(*report.layerSerialCycles) : json();
    bool counted = !report.layerTraffic.empty();
    cost::LayerTraffic sum = report.layerSerialTraffic();
    document["lower_bound_dram_bytes"] = counted ? json(report.lowerBoundBytes.value_or(0)) : json();
    document["layer_serial_dram_bytes"] = counted ? json(sum.unavoidableBytes) : json();
    document["three_memory_dram_bytes"] = counted ? json(sum.threeMemoryBytes) : json();
    document["schedule_reference_dram_bytes"] = counted ? json(sum.referenceBytes) : json();
    document["instructions"] = sim.instructionCount;
    document["dram_read_bytes"] = sim.dramReadBytes;
    document["dram_write_bytes"] = sim.dramWriteBytes;
    document["fetch_bytes"] = sim.fetchBytes;
    document["data_bus_busy"] = report.dataBusBusy();
    document["data_bus_busy_denominator"] = "cycles outside refresh";
    document["dram_channels"] = channelsJson(report);
    document["engines"] = json::array();
    for (const stats::EngineResult &engine : sim.engines)
      document["engines"].push_back(engineJson(engine));
    document["layers"] = json::array();
    for (const LayerRow &row : layerRows(report))
      document["layers"].push_back(layerJson(report, row));
    const Conversions conversions(report);
    document["conversions"] = {{"layers", conversions.layers},
                               {"cycles", conversions.cycles},
                               {"critical_cycles", sim.hasLayerCauses ? json(conversions.criticalCycles) : json()},
                               {"dram_bytes", conversions.dramBytes}};
    if (report.memoryMap)
      document["memory_map"] = memoryJson(*report.memoryMap, report.layers.size());
    if (report.energy) {
      document["energy"] = energyJson(report);
      document["area"] = areaJson(*report.energy);
    }
  }
  if (report.openCl)
    document["opencl"] = {{"device", report.openCl->device},
                          {"platform", report.openCl->platform},
                          {"runs", report.openCl->runs},
                          {"kernels", report.openCl->kernels},
                          {"build_wall_seconds", report.openCl->buildSeconds},
                          {"measured_seconds", report.openCl->seconds}};
  document["targets"] = report.targets;
  document["offload"] = json::array();
  for (const Offload &entry : report.offload)
    document["offload"].push_back(
        {{"node", entry.node}, {"target", entry.target}, {"reason", entry.reason}, {"host_link_bytes", entry.hostLinkBytes}});
  const FallbackReport &fallback = report.fallback;
  json calls = json::array();
  for (const FallbackReport::Call &call : fallback.calls)
    calls.push_back({{"name", call.name},
                     {"number", report.layers.size() + calls.size()},
                     {"reads", call.reads},
                     {"target", call.target},
                     {"measured_seconds", report.measuresHost ? json(call.seconds) : json()}});
  document["fallback"] = {{"devices", fallback.devices},
                          {"calls", calls},
                          {"kernels", fallback.kernels},
                          {"macs", fallback.macs},
                          {"estimated_host_cycles", fallback.hostCycles},
                          {"crossings", fallback.crossings},
                          {"host_link_bytes", fallback.hostLinkBytes},
                          {"estimated_link_cycles", fallback.linkCycles},
                          {"estimated_total_cycles", report.sim ? json(*report.allCycles()) : json()},
                          {"measured_seconds", report.measuresHost ? json(fallback.seconds) : json()}};
  document["outputs"] = json::array();
  for (size_t i = 0; i < report.outputs.size(); ++i) {
    const HostTensor &output = report.outputs[i];
    bool written = i < outputFiles.size() && !outputFiles[i].empty();
    const auto alias = report.aliases.find(output.name);
    document["outputs"].push_back({{"name", output.name},
                                   {"type", frontend::elementName(output.type)},
                                   {"shape", output.shape},
                                   {"file", written ? json(outputFiles[i]) : json()},
                                   {"alias", alias != report.aliases.end() ? json(alias->second) : json()}});
  }
  document["comparisons"] = json::array();
  for (const Comparison &c : report.comparisons) {
    json sizes = json::array();
    for (auto [size, count] : c.sizes)
      sizes.push_back({{"size", numberOrText(size)}, {"count", count}});
    document["comparisons"].push_back({{"name", c.name},
                                       {"elements", c.elements},
                                       {"differing", c.differing},
                                       {"max_abs_error", numberOrText(c.maxAbsError)},
                                       {"expected_range", numberOrText(c.expectedRange)},
                                       {"max_error_of_range", numberOrText(c.maxRelativeError)},
                                       {"difference_sizes", sizes},
                                       {"tolerance_of_range", c.tolerance.ofRange},
                                       {"tolerance_abs", c.tolerance.absolute},
                                       {"within_tolerance", c.isWithinTolerance()},
                                       {"top1_agree", c.top1Agree},
                                       {"top1_rows", c.top1Rows}});
  }
  document["compile_wall_seconds"] = report.compileSeconds;
  document["simulate_wall_seconds"] = report.simulateSeconds;
  document["cycles_per_wall_second"] = report.cyclesPerWallSecond();
  document["peak_memory_bytes"] = report.peakMemoryBytes;
  // Names come from models: bytes that are no UTF-8 are replaced, not fatal.
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

//===----------------------------------------------------------------------===//
// Several programs
//===----------------------------------------------------------------------===//

void runtime::append(stats::SimResult &all, const stats::SimResult &next) {
  stats::Cycle before = all.totalCycles;
  all.totalCycles += next.totalCycles;
  all.instructionCount += next.instructionCount;
  all.dispatchedWords += next.dispatchedWords;
  all.dramReadBytes += next.dramReadBytes;
  all.dramWriteBytes += next.dramWriteBytes;
  all.fetchBytes += next.fetchBytes;
  all.dramActivates += next.dramActivates;
  assert(all.dram.size() == next.dram.size() && "programs of one machine");
  for (size_t channel = 0; channel < all.dram.size(); ++channel) {
    all.dram[channel].refreshes += next.dram[channel].refreshes;
    for (size_t bank = 0; bank < all.dram[channel].banks.size(); ++bank)
      all.dram[channel].banks[bank].add(next.dram[channel].banks[bank]);
  }
  all.macs += next.macs;
  auto later = [before](stats::LayerResult layer) {
    layer.firstStart += before;
    layer.lastRetire += before;
    return layer;
  };
  for (const stats::LayerResult &layer : next.layers)
    all.layers.push_back(later(layer));
  add(all.noLayer, later(next.noLayer));
  all.hasLayerCauses &= next.hasLayerCauses;
  assert(all.engines.size() == next.engines.size() && "programs of one machine");
  for (size_t i = 0; i < all.engines.size(); ++i) {
    stats::EngineResult &engine = all.engines[i];
    engine.instructions += next.engines[i].instructions;
    for (unsigned label = 0; label < stats::kNumLabels; ++label)
      engine.cycles[label] += next.engines[i].cycles[label];
    for (const stats::StallCause &cause : next.engines[i].causes) {
      auto same = std::find_if(engine.causes.begin(), engine.causes.end(), [&](const stats::StallCause &other) {
        return other.label == cause.label && other.detail == cause.detail && other.producer == cause.producer;
      });
      if (same != engine.causes.end())
        same->cycles += cause.cycles;
      else
        engine.causes.push_back(cause);
    }
    std::stable_sort(engine.causes.begin(), engine.causes.end(),
                     [](const stats::StallCause &a, const stats::StallCause &b) { return a.cycles > b.cycles; });
    engine.intervals.clear();
  }
  all.instructions.clear();
  all.flows.clear();
  all.channels.clear();
  all.criticalPath.clear();
}
