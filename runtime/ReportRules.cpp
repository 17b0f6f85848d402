//===- ReportRules.cpp - What every report must fulfil --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/ReportRules.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

using namespace tw;
using json = nlohmann::json;

namespace {

/// Cycles by engine and label, "busy_cycles" among the labels.
using EngineCycles = std::map<std::string, std::map<std::string, uint64_t>>;

/// What rows add up to.
struct Sums {
  uint64_t macs = 0, readBytes = 0, writeBytes = 0, critical = 0, instructions = 0;
  EngineCycles engines;
};

class Rules {
public:
  explicit Rules(const json &report) : report(report) {}
  std::vector<std::string> run();

private:
  void require(bool holds, const std::string &what) {
    if (!holds)
      violated.push_back(what);
  }
  void equal(const std::string &what, uint64_t value, uint64_t expected) {
    require(value == expected, what + " is " + std::to_string(value) + ", expected " + std::to_string(expected));
  }
  void atMost(const std::string &what, uint64_t value, uint64_t most) {
    require(value <= most, what + " is " + std::to_string(value) + ", allowed are " + std::to_string(most));
  }
  void utilisation(const std::string &place, double value, uint64_t macs, uint64_t cycles);
  void row(const std::string &place, const json &row, Sums &sums);
  void members(const std::string &place, const json &row, const Sums &own);
  void engines(const Sums &rows);
  void nodes();
  void fallback();
  void energy();
  void channels();

  const json &report;
  double peak = 0;
  bool hasCauses = false;
  std::vector<std::string> violated;
};

/// Stalls that belong to an instruction, and so to its layer.
bool isOfLayers(const std::string &label) { return label != "starved_cycles" && label != "idle_cycles"; }

void addTo(EngineCycles &sums, const json &engines) {
  for (const json &engine : engines) {
    std::map<std::string, uint64_t> &labels = sums[engine.at("name")];
    labels["busy_cycles"] += engine.at("busy_cycles").get<uint64_t>();
    for (const auto &[label, cycles] : engine.at("stalls").items())
      labels[label] += cycles.get<uint64_t>();
  }
}

void Rules::utilisation(const std::string &place, double value, uint64_t macs, uint64_t cycles) {
  require(value >= 0 && value <= 1, place + "utilisation is " + std::to_string(value) + ", allowed are 0 to 1");
  const double expected = cycles ? std::min(1.0, double(macs) / (peak * double(cycles))) : 0;
  require(std::abs(value - expected) <= 1e-9,
          place + "utilisation is " + std::to_string(value) + ", MACs over peak and cycles are " + std::to_string(expected));
}

void Rules::row(const std::string &place, const json &row, Sums &sums) {
  const uint64_t cycles = row.at("cycles"), first = row.at("first_start_cycle"), last = row.at("last_retirement_cycle");
  const uint64_t macs = row.at("macs"), instructions = row.at("instructions");
  const uint64_t read = row.at("dram_read_bytes"), written = row.at("dram_write_bytes");
  equal(place + "cycles", cycles, last - first);
  atMost(place + "last_retirement_cycle", last, report.at("total_cycles"));
  require(instructions == 0 || cycles > 0, place + std::to_string(instructions) + " instructions run in no cycle");
  utilisation(place, row.at("utilisation"), macs, cycles);
  equal(place + "dram_bytes", row.at("dram_bytes"), read + written);
  sums.macs += macs;
  sums.readBytes += read;
  sums.writeBytes += written;
  sums.instructions += instructions;
  if (!hasCauses)
    return;
  const uint64_t bound = row.at("bound_cycles");
  atMost(place + "bound_cycles", bound, cycles);
  EngineCycles own;
  addTo(own, row.at("engines"));
  for (const auto &[engine, labels] : own)
    if (engine != "sequencer")
      atMost(place + "busy_cycles of " + engine, labels.at("busy_cycles"), bound);
  const json &dram = report.at("machine").at("dram");
  const uint64_t buffer =
      report.at("machine").at("write_buffer_bursts").get<uint64_t>() * dram.at("burst_bytes").get<uint64_t>();
  const double moved = double(read) + double(written > buffer ? written - buffer : 0);
  require(moved <= double(bound) * dram.at("peak_bytes_per_cycle").get<double>() * (1 + 1e-12) + 1e-6,
          place + std::to_string(uint64_t(moved)) + " bytes cannot cross the bus in bound_cycles " + std::to_string(bound));
  const uint64_t streamed = own.count("tensor") ? own["tensor"]["busy_cycles"] : 0;
  require(double(macs) <= peak * double(streamed) + row.at("vector_macs").get<double>(),
          place + std::to_string(macs) + " MACs in " + std::to_string(streamed) + " cycles of the array");
  sums.critical += row.at("critical_cycles").get<uint64_t>();
  for (const auto &[engine, labels] : own)
    for (const auto &[label, count] : labels)
      sums.engines[engine][label] += count;
}

/// A group is what its members are.
void Rules::members(const std::string &place, const json &group, const Sums &own) {
  Sums sums;
  uint64_t first = ~uint64_t(0), last = 0;
  for (const json &member : group.at("members")) {
    row(place + "member '" + member.at("name").get<std::string>() + "': ", member, sums);
    require(member.at("members").empty(), place + "a member has members");
    if (member.at("instructions") == 0)
      continue;
    first = std::min<uint64_t>(first, member.at("first_start_cycle"));
    last = std::max<uint64_t>(last, member.at("last_retirement_cycle"));
  }
  equal(place + "first_start_cycle", group.at("first_start_cycle"), first);
  equal(place + "last_retirement_cycle", group.at("last_retirement_cycle"), last);
  equal(place + "macs of its members", sums.macs, own.macs);
  equal(place + "dram_read_bytes of its members", sums.readBytes, own.readBytes);
  equal(place + "dram_write_bytes of its members", sums.writeBytes, own.writeBytes);
  equal(place + "instructions of its members", sums.instructions, own.instructions);
  equal(place + "critical_cycles of its members", sums.critical, own.critical);
  require(sums.engines == own.engines, place + "its engines' cycles are not those of its members");
}

void Rules::engines(const Sums &rows) {
  for (const json &engine : report.at("engines")) {
    const std::string name = engine.at("name");
    uint64_t sum = engine.at("busy_cycles").get<uint64_t>() + engine.at("idle_cycles").get<uint64_t>();
    for (const json &cycles : engine.at("stalls"))
      sum += cycles.get<uint64_t>();
    equal("labels of " + name, sum, report.at("total_cycles"));
    // The sequencer also fetches what is of no layer.
    if (name == "sequencer" || !hasCauses || report.at("layers").empty())
      continue;
    EngineCycles whole;
    addTo(whole, json::array({engine}));
    for (const auto &[label, cycles] : whole[name]) {
      if (!isOfLayers(label))
        continue;
      auto found = rows.engines.find(name);
      const bool isKnown = found != rows.engines.end() && found->second.count(label);
      equal(label + " of " + name + " in all rows", isKnown ? found->second.at(label) : 0, cycles);
    }
  }
}

void Rules::nodes() {
  std::set<std::string> targets = report.at("targets");
  targets.insert("folded");
  for (const json &entry : report.at("offload")) {
    require(targets.count(entry.at("target")), "node '" + entry.at("node").get<std::string>() + "' is on '" +
                                                   entry.at("target").get<std::string>() + "', which is no target");
    require(!entry.at("reason").get<std::string>().empty(),
            "node '" + entry.at("node").get<std::string>() + "' is where it is for no reason");
  }
}

void Rules::fallback() {
  const json &fallback = report.at("fallback");
  const uint64_t host = fallback.at("estimated_host_cycles"), link = fallback.at("estimated_link_cycles");
  uint64_t bytes = 0;
  for (const json &entry : report.at("offload"))
    bytes += entry.at("host_link_bytes").get<uint64_t>();
  atMost("host_link_bytes of all nodes", bytes, fallback.at("host_link_bytes"));
  require(fallback.at("kernels") != 0 || (host == 0 && fallback.at("crossings") == 0), "host or link take time for no kernel");
  require(fallback.at("crossings") != 0 || (link == 0 && fallback.at("host_link_bytes") == 0),
          "nothing crosses the link, but it takes time");
  if (report.contains("total_cycles"))
    equal("estimated_total_cycles", fallback.at("estimated_total_cycles"),
          report.at("total_cycles").get<uint64_t>() + link + host);
}

/// The energy is told three times, by component, by layer and by engine: each time the same. Sums of doubles are compared.
void Rules::energy() {
  const json &energy = report.at("energy");
  const double total = energy.at("total_joules");
  auto same = [&](const std::string &what, double value, double expected) {
    require(std::abs(value - expected) <= 1e-9 * std::max(std::abs(total), std::abs(expected)),
            "energy: " + what + " is " + std::to_string(value * 1e6) + " uJ, expected " + std::to_string(expected * 1e6));
  };
  auto components = [&](const std::string &what, const json &entry, double joules) {
    double sum = 0;
    for (const auto &[name, part] : entry.at("components").items()) {
      require(part.get<double>() >= 0, "energy: " + name + " of " + what + " is negative");
      sum += part.get<double>();
    }
    same("sum of components of " + what, sum, joules);
  };
  components("the run", energy, total);
  double layers = energy.at("no_layer").at("joules"), engines = energy.at("standing_joules");
  components("no layer", energy.at("no_layer"), layers);
  for (const json &layer : energy.at("layers")) {
    components("layer '" + layer.at("name").get<std::string>() + "'", layer, layer.at("joules"));
    layers += layer.at("joules").get<double>();
  }
  for (const json &engine : energy.at("engines")) {
    components(engine.at("name"), engine, engine.at("joules"));
    engines += engine.at("joules").get<double>();
  }
  same("sum of layers", layers, total);
  same("sum of engines and of what stands", engines, total);
  const double seconds = report.at("total_milliseconds").get<double>() / 1e3;
  same("average_watts in the time of the run", energy.at("average_watts").get<double>() * seconds, seconds > 0 ? total : 0);
  const uint64_t burstBytes = report.at("machine").at("dram").at("burst_bytes");
  const json &events = energy.at("events");
  for (auto [count, bytes] :
       {std::pair("dram_read_bursts", "dram_read_bytes"), std::pair("dram_write_bursts", "dram_write_bytes"),
        std::pair("dram_fetch_bursts", "fetch_bytes")})
    equal("energy: bytes of " + std::string(count), events.at(count).get<uint64_t>() * burstBytes, report.at(bytes));
}

/// The channels have moved what loads, stores and the sequencer did, and each access has met a row.
void Rules::channels() {
  uint64_t read = 0, written = 0;
  const uint64_t burstBytes = report.at("machine").at("dram").at("burst_bytes");
  for (size_t i = 0; i < report.at("dram_channels").size(); ++i) {
    const json &channel = report.at("dram_channels")[i];
    const std::string place = "channel " + std::to_string(i) + ": ";
    read += channel.at("read_bytes").get<uint64_t>();
    written += channel.at("write_bytes").get<uint64_t>();
    std::map<std::string, uint64_t> sums;
    for (const json &bank : channel.at("banks"))
      for (const auto &[key, value] : bank.items())
        sums[key] += value.get<uint64_t>();
    for (const auto &[key, sum] : sums)
      equal(place + key + " of its banks", sum, channel.at(key));
    if (channel.at("row_hits").is_null())
      continue;
    const uint64_t bytes = channel.at("read_bytes").get<uint64_t>() + channel.at("write_bytes").get<uint64_t>();
    equal(place + "row hits, misses and conflicts",
          channel.at("row_hits").get<uint64_t>() + channel.at("row_misses").get<uint64_t>() +
              channel.at("row_conflicts").get<uint64_t>(),
          bytes / burstBytes);
    require(channel.at("data_bus_busy").get<double>() <= 1 + 1e-9, place + "its bus is busier than always");
  }
  equal("bytes that channels read", read,
        report.at("dram_read_bytes").get<uint64_t>() + report.at("fetch_bytes").get<uint64_t>());
  equal("bytes that channels wrote", written, report.at("dram_write_bytes"));
}

std::vector<std::string> Rules::run() {
  nodes();
  fallback();
  if (!report.contains("total_cycles"))
    return violated;
  if (report.contains("energy"))
    energy();
  if (report.contains("dram_channels") && !report.at("dram_channels").empty())
    channels();
  peak = report.at("machine").at("peak_macs_per_cycle");
  utilisation("", report.at("utilisation"), report.at("macs"), report.at("total_cycles"));
  if (!report.at("lower_bound_cycles").is_null())
    atMost("lower_bound_cycles", report.at("lower_bound_cycles"), report.at("total_cycles"));
  const json &layers = report.at("layers");
  hasCauses = !layers.empty() && !layers.front().at("critical_cycles").is_null();
  Sums all;
  for (const json &layer : layers) {
    const std::string place = "layer '" + layer.at("name").get<std::string>() + "': ";
    Sums own;
    row(place, layer, own);
    if (!layer.at("members").empty())
      members(place, layer, own);
    all.macs += own.macs;
    all.readBytes += own.readBytes;
    all.writeBytes += own.writeBytes;
    all.critical += own.critical;
    all.instructions += own.instructions;
    for (const auto &[engine, labels] : own.engines)
      for (const auto &[label, count] : labels)
        all.engines[engine][label] += count;
  }
  engines(all);
  if (layers.empty())
    return violated;
  equal("macs of all rows", all.macs, report.at("macs"));
  equal("dram_read_bytes of all rows", all.readBytes, report.at("dram_read_bytes"));
  equal("dram_write_bytes of all rows", all.writeBytes, report.at("dram_write_bytes"));
  equal("instructions of all rows", all.instructions, report.at("instructions"));
  if (hasCauses)
    equal("critical_cycles of all rows", all.critical, report.at("total_cycles"));
  return violated;
}

} // namespace

std::vector<std::string> runtime::contradictions(const std::string &report) { return Rules(json::parse(report)).run(); }
