//===- Report.cpp - What a run comes to, for people and programs ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Report.h"
#include "hw-configs/Machine.h"
#include "isa/timing/Dram.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

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

/// Useful MACs of a layer: the compiler's count, or the simulator's where the program does not say.
static uint64_t layerMacs(const RunReport &report, size_t i) {
  return report.macs && i < report.layers.size() ? report.layers[i].macs : report.sim->layers[i].macs;
}

cost::LayerTraffic RunReport::layerSerialTraffic() const {
  cost::LayerTraffic sum;
  for (const cost::LayerTraffic &layer : layerTraffic) {
    sum.compulsoryBytes += layer.compulsoryBytes;
    sum.unavoidableBytes += layer.unavoidableBytes;
    sum.threeMemoryBytes += layer.threeMemoryBytes;
    sum.referenceBytes += layer.referenceBytes;
  }
  return sum;
}

double RunReport::dataBusBusy() const {
  if (!sim || !sim->totalCycles)
    return 0;
  // Bytes are whole bursts, each of which takes its fixed time of a bus.
  timing::Ratio rate = timing::dramPeakBytesPerCycle(machine);
  uint64_t bytes = sim->dramReadBytes + sim->dramWriteBytes + sim->fetchBytes;
  double busy = double(bytes) * double(rate.denominator) / double(rate.numerator), cycles = double(sim->totalCycles);
  const timing::DramParams &dram = machine.dram;
  if (dram.kind == timing::DramKind::Ideal)
    return busy / cycles;
  // Refreshes fall due at multiples of nREFI; of the last one counts what lies in the run.
  double ticks = cycles * dram.clockMhz / machine.clockMhz, due = std::floor(ticks / dram.nREFI);
  double refresh = due ? (due - 1) * dram.nRFC + std::min(double(dram.nRFC), ticks - due * dram.nREFI) : 0;
  return busy / (cycles * (1 - refresh / ticks));
}

static std::string layerTable(const RunReport &report) {
  const stats::SimResult &sim = *report.sim;
  Table table({"layer", "cycles", "ms", "MACs", "util %", "tensor busy", "operand", "interlock", "bank", "DRAM KiB", "least", "ref.", "bound", "cycles/bound", "bound by"}, 1);
  for (size_t i = 0; i < sim.layers.size(); ++i) {
    const stats::LayerResult &layer = sim.layers[i];
    const auto &tensor = layer.labels[stats::kTensor];
    auto cycles = [&](Label label) { return grouped(tensor[size_t(label)]); };
    uint64_t bound = i < report.layers.size() ? report.layers[i].boundCycles : 0;
    const cost::LayerTraffic *traffic = report.trafficOf(i);
    table.add({shortened(layer.name, 36), grouped(layer.cycles), milliseconds(report, layer.cycles), grouped(layerMacs(report, i)),
               percent(report.utilisation(layerMacs(report, i), layer.cycles)), cycles(Label::Busy), cycles(Label::Operand), cycles(Label::Interlock),
               cycles(Label::BankConflict), kilobytes(layer.dramReadBytes + layer.dramWriteBytes), traffic ? kilobytes(traffic->unavoidableBytes) : "-",
               traffic ? kilobytes(traffic->referenceBytes) : "-", bound ? grouped(bound) : "-",
               ratio(layer.cycles, bound), bound ? report.layers[i].boundBy : "-"});
  }
  table.rule();
  std::array<uint64_t, stats::kNumLabels> tensor{};
  for (const stats::EngineResult &engine : sim.engines)
    if (engine.engine == stats::kTensor)
      tensor = engine.cycles;
  auto cycles = [&](Label label) { return grouped(tensor[size_t(label)]); };
  uint64_t bound = report.lowerBoundCycles.value_or(0);
  bool counted = !report.layerTraffic.empty();
  table.add({"total", grouped(sim.totalCycles), milliseconds(report, sim.totalCycles), grouped(report.countedMacs()),
             percent(report.utilisation(report.countedMacs(), sim.totalCycles)), cycles(Label::Busy), cycles(Label::Operand),
             cycles(Label::Interlock), cycles(Label::BankConflict), kilobytes(sim.dramReadBytes + sim.dramWriteBytes),
             counted ? kilobytes(report.lowerBoundBytes.value_or(0)) : "-",
             counted ? kilobytes(report.layerSerialTraffic().referenceBytes) : "-", bound ? grouped(bound) : "-",
             ratio(sim.totalCycles, bound), bound ? report.boundBy : "-"});
  return table.str();
}

static std::string engineTable(const RunReport &report) {
  static constexpr const char *heads[stats::kNumLabels] = {"busy",      "operand", "interlock", "bank conflict", "DRAM bandwidth", "DRAM latency",
                                                           "buffer full", "starved", "idle"};
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

/// Names of targets with their nodes: one line a target, the CPU's nodes one by one with their reasons.
static std::string offloadText(const RunReport &report) {
  std::map<std::string, size_t> counts;
  for (const Offload &entry : report.offload)
    ++counts[entry.target];
  std::string text;
  if (!report.offload.empty()) {
    text = "nodes:";
    for (const auto &[target, count] : counts)
      text += (text == "nodes:" ? " " : ", ") + std::to_string(count) + " on " + target;
    text += "\n";
  }
  for (const Offload &entry : report.offload)
    if (entry.target != "accelerator")
      text += "  " + entry.node + " on " + entry.target + ": " + entry.reason + "\n";
  if (report.fallback.kernels)
    text += "fallback on this CPU (not in the cycles above): " + std::to_string(report.fallback.kernels) + " kernels, " +
            fixed(report.fallback.seconds * 1e3, 3) + " ms measured, " + kilobytes(report.fallback.hostLinkBytes) + " KiB over the host link\n";
  return text;
}

/// What is in an output, in one line.
static std::string outputText(const HostTensor &tensor) {
  std::string text = "output '" + tensor.name + "' " + frontend::elementName(tensor.type) + " [" + shapeText(tensor.shape) + "]";
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
  std::string text = grouped(sim.totalCycles) + " cycles = " + milliseconds(report, sim.totalCycles) + " ms at " + std::to_string(report.machine.clockMhz) +
                     " MHz; utilisation " + percent(report.utilisation(report.countedMacs(), sim.totalCycles)) + " % (" + grouped(report.countedMacs()) +
                     " MACs / (" + grouped(uint64_t(report.machine.peakMacsPerCycle())) + " MACs per cycle x cycles))\n";
  if (report.lowerBoundCycles && *report.lowerBoundCycles)
    text += "lower bound " + grouped(*report.lowerBoundCycles) + " cycles (" + report.boundBy + "), reached " +
            ratio(sim.totalCycles, *report.lowerBoundCycles) + "x";
  if (report.lowerBoundCycles && *report.lowerBoundCycles && report.layerSerialCycles)
    text += "; layer by layer " + grouped(*report.layerSerialCycles) + " (not a bound)";
  if (report.lowerBoundCycles && *report.lowerBoundCycles)
    text += "\n";
  if (report.lowerBoundBytes && !report.layerTraffic.empty()) {
    cost::LayerTraffic sum = report.layerSerialTraffic();
    text += "DRAM " + kilobytes(sim.dramReadBytes + sim.dramWriteBytes) + " KiB; at least " + kilobytes(*report.lowerBoundBytes) +
            ", layer by layer " + kilobytes(sum.unavoidableBytes) + " (" + kilobytes(sum.threeMemoryBytes) +
            " with a memory for each operand); schedule reference " + kilobytes(sum.referenceBytes) + " (not a bound)\n";
  }
  text += "DRAM data bus busy " + percent(report.dataBusBusy()) + " % of the time outside refresh, " +
          kilobytes(sim.fetchBytes) + " KiB of program included\n";
  return text;
}

std::string runtime::tables(const RunReport &report) {
  std::string text = report.model + " on " + report.machine.title() + " (" + hwconfigs::typeName(report.machine.arrayType) + " " +
                     std::to_string(report.machine.rows) + "x" + std::to_string(report.machine.cols) + ", " +
                     std::to_string(report.machine.clockMhz) + " MHz)" + (report.schedule.empty() ? "" : ", schedule " + report.schedule) + ", " +
                     modelName(report.simulator) + " model\n";
  if (report.sim) {
    if (!report.sim->layers.empty())
      text += "\n" + layerTable(report);
    text += "\n" + engineTable(report) + "\n" + summary(report);
  }
  text += offloadText(report);
  if (report.seed)
    text += "random inputs, seed " + std::to_string(*report.seed) + "\n";
  for (const HostTensor &output : report.outputs)
    if (report.batch == 1)
      text += outputText(output);
  if (report.batch > 1 && report.sim)
    text += grouped(report.batch) + " inputs one after the other: " + grouped(report.batch * report.sim->totalCycles) + " cycles = " +
            milliseconds(report, report.batch * report.sim->totalCycles) + " ms (no cycle depends on a value)\n";
  for (const Comparison &comparison : report.comparisons)
    text += runtime::text(comparison) + "\n";
  if (report.compileSeconds > 0)
    text += "compiled in " + fixed(report.compileSeconds, 2) + " s, ";
  text += "simulated in " + fixed(report.simulateSeconds, 2) + " s";
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

static json layerJson(const RunReport &report, size_t i) {
  const stats::LayerResult &layer = report.sim->layers[i];
  json entry = {{"name", layer.name}, {"nodes", json::array()}};
  if (i < report.layers.size())
    entry["nodes"] = report.layers[i].nodes;
  entry["cycles"] = layer.cycles;
  entry["milliseconds"] = report.milliseconds(layer.cycles);
  entry["macs"] = layerMacs(report, i);
  entry["utilisation"] = report.utilisation(layerMacs(report, i), layer.cycles);
  entry["bound_cycles"] = i < report.layers.size() ? report.layers[i].boundCycles : 0;
  entry["bound_by"] = i < report.layers.size() ? report.layers[i].boundBy : "";
  entry["dram_bytes"] = layer.dramReadBytes + layer.dramWriteBytes;
  const cost::LayerTraffic *traffic = report.trafficOf(i);
  auto bytes = [&](uint64_t cost::LayerTraffic::*which) { return traffic ? json(traffic->*which) : json(); };
  entry["compulsory_dram_bytes"] = bytes(&cost::LayerTraffic::compulsoryBytes);
  entry["unavoidable_dram_bytes"] = bytes(&cost::LayerTraffic::unavoidableBytes);
  entry["three_memory_dram_bytes"] = bytes(&cost::LayerTraffic::threeMemoryBytes);
  entry["schedule_reference_dram_bytes"] = bytes(&cost::LayerTraffic::referenceBytes);
  bool tiled = report.tiles.size() == report.layers.size() && i < report.tiles.size();
  entry["tile"] = tiled ? json(report.tiles[i].choice) : json();
  entry["tile_bytes"] = tiled ? json(report.tiles[i].bytes) : json();
  entry["dram_read_bytes"] = layer.dramReadBytes;
  entry["dram_write_bytes"] = layer.dramWriteBytes;
  json engines = json::array();
  for (const stats::EngineResult &engine : report.sim->engines) {
    const auto &labels = layer.labels[engine.engine];
    if (std::any_of(labels.begin(), labels.end(), [](stats::Cycle cycles) { return cycles != 0; }))
      engines.push_back({{"name", engine.name}, {"busy_cycles", labels[size_t(Label::Busy)]}, {"stalls", stallsOf(labels)}});
  }
  entry["engines"] = engines;
  return entry;
}

static json dramJson(const timing::MachineParams &machine) {
  timing::Ratio rate = timing::dramPeakBytesPerCycle(machine);
  return {{"ideal", machine.dram.kind == timing::DramKind::Ideal},
          {"burst_bytes", machine.dram.burstBytes},
          {"peak_bytes_per_cycle", double(rate.numerator) / double(rate.denominator)},
          {"row_conflict_latency_cycles", timing::dramConflictLatencyCycles(machine)}};
}

/// JSON has no infinity.
static json numberOrText(double value) { return std::isfinite(value) ? json(value) : json("infinite"); }

std::string runtime::toJson(const RunReport &report, const std::vector<std::string> &outputFiles) {
  json document;
  uint64_t scratchpadBytes = 0;
  for (const timing::MemoryParams &memory : report.machine.scratchpads)
    scratchpadBytes += memory.capacityBytes;
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
                         {"dram", dramJson(report.machine)}};
  document["schedule"] = report.schedule.empty() ? json() : json(report.schedule);
  document["simulator"] = modelName(report.simulator);
  document["inputs_seed"] = report.seed ? json(*report.seed) : json();
  document["batch"] = report.batch;
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
    document["engines"] = json::array();
    for (const stats::EngineResult &engine : sim.engines)
      document["engines"].push_back(engineJson(engine));
    document["layers"] = json::array();
    for (size_t i = 0; i < sim.layers.size(); ++i)
      document["layers"].push_back(layerJson(report, i));
  }
  document["offload"] = json::array();
  for (const Offload &entry : report.offload)
    document["offload"].push_back({{"node", entry.node}, {"target", entry.target}, {"reason", entry.reason}});
  document["fallback"] = {{"kernels", report.fallback.kernels},
                          {"measured_seconds", report.fallback.seconds},
                          {"host_link_bytes", report.fallback.hostLinkBytes}};
  document["outputs"] = json::array();
  for (size_t i = 0; i < report.outputs.size(); ++i) {
    const HostTensor &output = report.outputs[i];
    bool written = i < outputFiles.size() && !outputFiles[i].empty();
    document["outputs"].push_back({{"name", output.name},
                                   {"type", frontend::elementName(output.type)},
                                   {"shape", output.shape},
                                   {"file", written ? json(outputFiles[i]) : json()}});
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
                                       {"expected_range", c.expectedRange},
                                       {"max_error_of_range", numberOrText(c.maxRelativeError)},
                                       {"difference_sizes", sizes},
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
  all.macs += next.macs;
  for (stats::LayerResult layer : next.layers) {
    layer.firstStart += before;
    layer.lastRetire += before;
    all.layers.push_back(std::move(layer));
  }
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
}
