//===- DramReplay.cpp - A DRAM alone, with a trace ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/DramReplay.h"
#include "isa/Printable.h"
#include "isa/dramcheck/DramChecker.h"
#include "runtime/Report.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

using namespace tw;
using namespace tw::runtime;
using timing::Cycle;
using timing::DramCommand;
using timing::DramCommandKind;

//===----------------------------------------------------------------------===//
// Trace
//===----------------------------------------------------------------------===//

bool DramTrace::refuse(size_t column, std::string message) {
  found = Diagnostic{file, line, unsigned(column + 1), std::move(message)};
  return false;
}

bool DramTrace::next(timing::DramRequest &access) {
  while (!found && begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view here = text.substr(begin, end - begin);
    begin = end + 1;
    ++line;
    here = here.substr(0, here.find('#'));
    size_t at = 0;
    auto skip = [&] { at = std::min(here.find_first_not_of(" \t\r", at), here.size()); };
    auto word = [&] {
      skip();
      const std::string_view rest = here.substr(at);
      return rest.substr(0, rest.find_first_of(" \t\r"));
    };
    auto shown = [](std::string_view text) {
      return text.empty() ? std::string("the line ends") : "found '" + printable(std::string(text.substr(0, 40))) + "'";
    };
    auto number = [](std::string_view digits, int base, uint64_t &value) {
      auto [stop, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
      return failure == std::errc() && stop == digits.data() + digits.size();
    };
    std::string_view field = word();
    if (field.empty())
      continue;
    if (!number(field, 10, access.arrivalCycle) || access.arrivalCycle > kLastDramArrival)
      return refuse(at, shown(field) + " where a line begins with its arrival, a whole number up to " +
                            std::to_string(kLastDramArrival));
    if (access.arrivalCycle < lastArrival)
      return refuse(at, "the arrival is " + std::string(field) + " but must be at least that of the access before, " +
                            std::to_string(lastArrival));
    at += field.size();
    field = word();
    if (field != "R" && field != "W")
      return refuse(at, shown(field) + " where R or W must stand");
    access.write = field == "W";
    at += field.size();
    field = word();
    std::string_view digits = field;
    if (digits.substr(0, 2) == "0x" || digits.substr(0, 2) == "0X")
      digits.remove_prefix(2);
    if (!number(digits, 16, access.address))
      return refuse(at, shown(field) + " where an address must stand, at most 16 hexadecimal digits");
    at += field.size();
    if (field = word(); !field.empty())
      return refuse(at, shown(field) + " where the line must end");
    if (count == kMostDramAccesses)
      return refuse(0, "the trace has more than " + std::to_string(kMostDramAccesses) + " accesses");
    lastArrival = access.arrivalCycle;
    access.id = count++;
    return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Statistics
//===----------------------------------------------------------------------===//

uint64_t Distribution::size() const {
  uint64_t all = 0;
  for (const auto &[cycles, count] : counts)
    all += count;
  return all;
}

double Distribution::mean() const {
  double sum = 0;
  for (const auto &[cycles, count] : counts)
    sum += double(cycles) * double(count);
  return counts.empty() ? 0 : sum / double(size());
}

uint64_t Distribution::percentile(double percent) const {
  const uint64_t wanted = std::max<uint64_t>(1, uint64_t(std::ceil(double(size()) * percent / 100)));
  uint64_t met = 0;
  for (const auto &[cycles, count] : counts)
    if ((met += count) >= wanted)
      return cycles;
  return 0;
}

namespace {

/// One replay: the DRAM, and what watches its commands.
class Replay {
public:
  Replay(const timing::MachineParams &machine, DramReplayReport &report)
      : machine(machine), report(report), clocks(machine.clockMhz, machine.dram.clockMhz), dram(timing::makeDram(machine)),
        checker(machine.dram) {
    dram->setCommandLog(&log);
  }

  void submit(const timing::DramRequest &request) {
    advance(request.arrivalCycle);
    (request.write ? report.writes : report.reads) += 1;
    isWrite.push_back(request.write);
    if (auto completion = dram->submit(request))
      complete(*completion);
  }

  void finish() {
    while (dram->nextDecisionCycle() != timing::kNever)
      advance(std::max(now, dram->nextDecisionCycle()) + 1);
    flush(timing::kNever);
    report.violations = checker.violations();
    for (const timing::DramChannelCounts &channel : dram->counts()) {
      const timing::DramBankCounts sum = channel.sum();
      report.rowHits += sum.rowHits;
      report.rowMisses += sum.rowMisses;
      report.rowConflicts += sum.rowConflicts;
    }
    const timing::DramParams &params = machine.dram;
    double busy = double(report.reads + report.writes), ticks = double(report.totalCycles);
    if (params.kind == timing::DramKind::Ideal) {
      busy *= double(params.burstBytes) * params.bytesPerCycleDenominator / params.bytesPerCycleNumerator;
    } else {
      busy *= double(params.nBurst) / params.channels;
      ticks *= double(params.clockMhz) / machine.clockMhz;
    }
    report.dataBusPercent = ticks ? 100 * busy / ticks : 0;
  }

private:
  /// Decides everything before `cycle`.
  void advance(Cycle cycle) {
    // Long pauses are full of refreshes: not all of their commands at once.
    constexpr Cycle kStep = 1 << 20;
    while (now < cycle) {
      now = std::min(cycle, now + kStep);
      completions.clear();
      dram->advance(now - 1, completions);
      for (const timing::DramCompletion &completion : completions)
        complete(completion);
      if (log.size() > mostLog)
        flush(clocks.tickAtOrAfter(now));
    }
  }

  void complete(const timing::DramCompletion &completion) {
    report.totalCycles = std::max(report.totalCycles, completion.completionCycle);
    if (!isWrite[completion.id])
      report.readLatency.add(completion.completionCycle - completion.enteredCycle);
  }

  /// Gives away the commands before a tick, after which no earlier ones come.
  void flush(uint64_t before) {
    sortCommands(log);
    const auto end =
        std::partition_point(log.begin(), log.end(), [&](const DramCommand &command) { return command.tick < before; });
    for (auto at = log.begin(); at != end; ++at)
      checker.add(*at);
    report.commands += uint64_t(end - log.begin());
    log.erase(log.begin(), end);
    // What stays is sorted again; not too often.
    mostLog = std::max<size_t>(1 << 20, 2 * log.size());
  }

  const timing::MachineParams &machine;
  DramReplayReport &report;
  timing::ClockRatio clocks;
  std::unique_ptr<timing::DramTiming> dram;
  timing::DramCommandLog log;
  size_t mostLog = 1 << 20;
  dramcheck::DramChecker checker;
  std::vector<bool> isWrite; ///< by id
  std::vector<timing::DramCompletion> completions;
  Cycle now = 0; ///< everything before is decided
};

} // namespace

Result<DramReplayReport> runtime::replayDram(const timing::MachineParams &machine, DramTrace &trace) {
  DramReplayReport report;
  report.machine = machine;
  Replay replay(machine, report);
  timing::DramRequest request;
  for (Cycle free = 0; trace.next(request); free = request.arrivalCycle + 1) {
    request.arrivalCycle = std::max(request.arrivalCycle, free);
    replay.submit(request);
  }
  if (trace.problem())
    return *trace.problem();
  replay.finish();
  return report;
}

//===----------------------------------------------------------------------===//
// Report
//===----------------------------------------------------------------------===//

namespace {

const std::vector<std::pair<const char *, double>> kPercentiles = {
    {"min", 0}, {"median", 50}, {"p90", 90}, {"p99", 99}, {"max", 100}};

std::string controllerName(const timing::DramParams &dram) {
  return dram.kind == timing::DramKind::Ideal                  ? "none"
         : dram.controller == timing::DramController::Windowed ? "windowed"
                                                               : "in_order";
}

} // namespace

std::string runtime::dramReplayText(const DramReplayReport &report) {
  const timing::DramParams &dram = report.machine.dram;
  const bool hasRows = dram.kind != timing::DramKind::Ideal;
  std::string text = dram.device + (report.machine.overrides.empty() ? "" : " (" + report.machine.overrides + ")") +
                     ", controller " + controllerName(dram) + ", cycles of " + std::to_string(report.machine.clockMhz) +
                     " MHz\n";
  auto line = [&](std::string label, const std::string &value) {
    text += "  " + label + std::string(14 - label.size(), ' ') + value + "\n";
  };
  line("total", grouped(report.totalCycles) + " cycles");
  line("accesses", grouped(report.reads) + " reads, " + grouped(report.writes) + " writes");
  if (hasRows)
    line("rows", grouped(report.rowHits) + " hits, " + grouped(report.rowMisses) + " misses, " + grouped(report.rowConflicts) +
                     " conflicts");
  line("data bus", fixed(report.dataBusPercent, 1) + " % used");
  if (report.reads) {
    std::string values = "mean " + fixed(report.readLatency.mean(), 1);
    for (const auto &[name, percent] : kPercentiles)
      values += std::string(", ") + name + " " + grouped(report.readLatency.percentile(percent));
    line("read latency", values);
  }
  if (hasRows)
    line("commands", grouped(report.commands) + (report.violations.empty() ? ", all legal" : ", not all legal"));
  return text;
}

std::string runtime::toJson(const DramReplayReport &report) {
  nlohmann::ordered_json latency = nlohmann::ordered_json::object();
  latency["mean"] = report.readLatency.mean();
  for (const auto &[name, percent] : kPercentiles)
    latency[name] = report.readLatency.percentile(percent);
  nlohmann::ordered_json json = {{"schema", "tilewright.dram/1"},
                                 {"device", report.machine.dram.device},
                                 {"overrides", report.machine.overrides},
                                 {"controller", controllerName(report.machine.dram)},
                                 {"clock_mhz", report.machine.clockMhz},
                                 {"total_cycles", report.totalCycles},
                                 {"reads", report.reads},
                                 {"writes", report.writes},
                                 {"row_hits", report.rowHits},
                                 {"row_misses", report.rowMisses},
                                 {"row_conflicts", report.rowConflicts},
                                 {"data_bus_percent", report.dataBusPercent},
                                 {"read_latency_cycles", latency},
                                 {"commands", report.commands},
                                 {"violations", report.violations}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}
