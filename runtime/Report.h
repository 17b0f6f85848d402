//===- Report.h - What a run comes to, for people and programs --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers carry their units, in table heads and in key names. Utilisation is
// useful MACs / (peak MACs per cycle x cycles) everywhere. docs/profile.md says
// what each column means.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_REPORT_H
#define RUNTIME_REPORT_H

#include "compiler/memory/PeakMemory.h"
#include "compiler/operators/Value.h"
#include "isa/Program.h"
#include "runtime/MemoryMap.h"
#include "runtime/Network.h"
#include "runtime/Tensors.h"
#include "runtime/energy/EnergyModel.h"
#include "simulator/stats/SimResult.h"
#include "simulator/stats/Timeline.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tw::runtime {

/// Kernels that ran on another target than the accelerator, and what they make cross the link. Cycles are the accelerator's, estimated from
/// bytes and operations (HostEstimate.h), and never part of those of its programs.
struct FallbackReport {
  std::vector<std::string> devices; ///< what ran them, for people, each once
  uint64_t kernels = 0;
  uint64_t macs = 0; ///< multiply-accumulates, from shapes
  /// A kernel, and what made its inputs: numbers as RunReport::layerReads has them.
  struct Call {
    std::string name, target;
    double seconds = 0; ///< measured
    std::vector<size_t> reads;
  };
  std::vector<Call> calls;
  uint64_t hostCycles = 0;
  uint64_t crossings = 0, hostLinkBytes = 0, linkCycles = 0;
  double seconds = 0; ///< of the host, measured; reports show it where RunReport::measuresHost
};

struct RunReport {
  std::string model, schedule;
  std::optional<ScheduleChoice> choice; ///< what of it ran
  uint64_t programs = 0;                ///< that ran on the accelerator, one after the other
  Model simulator = Model::SystemC;
  timing::MachineParams machine;

  /// Cycles, engines and layers of all programs together; absent from the functional model.
  std::optional<stats::SimResult> sim;
  /// What the layers of `sim` compute, in the same order.
  std::vector<isa::Layer> layers;
  std::optional<uint64_t> macs; ///< useful ones, counted by the compiler
  std::optional<uint64_t> lowerBoundCycles;
  std::string boundBy;
  std::optional<uint64_t> layerSerialCycles; ///< not a bound
  std::optional<uint64_t> lowerBoundBytes;   ///< between DRAM and chip
  /// Of each layer if it ran alone; empty where nobody counted.
  std::vector<cost::LayerTraffic> layerTraffic;
  std::optional<memory::PeakMemory> peak; ///< live bytes between kernels; absent for programs
  std::vector<LayerTile> tiles;           ///< of each layer; empty for programs
  /// See Network::layerReads; kernels are fallback.calls.
  std::vector<std::vector<size_t>> layerReads;
  /// First and last layers of fusion groups, ascending; empty for programs.
  std::vector<std::pair<size_t, size_t>> groups;
  std::vector<std::string> targets; ///< titles of the targets that nodes could run on
  std::vector<Offload> offload;
  FallbackReport fallback;
  bool measuresHost = false;       ///< seconds of fallback are shown
  std::optional<OpenClUse> openCl; ///< its seconds: of all runs
  /// With SimulatorOptions::trace, where a network is more than one program: what ran, in its order.
  std::vector<stats::TimelineStep> timeline;
  Precision precision = Precision::Single;
  std::optional<MemoryMap> memoryMap; ///< of runs with a timeline
  /// Of one run; only with `sim`.
  std::optional<energy::EnergyReport> energy;

  /// A sequence stands here as its tensors, NAME[0], NAME[1] ...
  std::vector<HostTensor> outputs;
  /// Outputs that lie at the place of an input, with its name.
  std::map<std::string, std::string> aliases;
  /// One for each output of the model, in the form that it has; empty where all are tensors.
  std::vector<operators::Value> values;
  std::vector<Comparison> comparisons;
  /// Set where inputs were random.
  std::optional<uint64_t> seed;
  /// Number of inputs that were run one after the other; everything else describes the first run.
  uint64_t batch = 1;
  /// Events of parts that were compiled during the run, for `energy`.
  energy::EventTable partEvents;
  double compileSeconds = 0, simulateSeconds = 0; ///< wall time; the latter of all runs
  uint64_t peakMemoryBytes = 0;                   ///< of this process so far; 0: nobody asked

  /// False where every kernel fell back to the CPU.
  bool runsOnAccelerator() const { return programs > 0; }
  /// Programs, link and host one after the other: an estimate.
  std::optional<uint64_t> allCycles() const {
    return sim ? std::optional(sim->totalCycles + fallback.linkCycles + fallback.hostCycles) : std::nullopt;
  }
  /// MACs to state utilisation with: the compiler's, or else those the simulator counted.
  uint64_t countedMacs() const { return macs ? *macs : sim ? sim->macs : 0; }
  double milliseconds(uint64_t cycles) const { return double(cycles) / (machine.clockMhz * 1e3); }
  /// The layers one after the other: sums of their lines.
  cost::LayerTraffic layerSerialTraffic() const;
  /// macs / (peak MACs per cycle x cycles), 0 to 1. The peak is the array's: MACs of windows on the vector engine could exceed it
  /// only beside a full array, and count up to it.
  double utilisation(uint64_t macs, uint64_t cycles) const {
    return cycles ? std::min(1.0, double(macs) / (machine.peakMacsPerCycle() * double(cycles))) : 0;
  }
  /// Part of the time outside refresh in which the DRAM's data buses move something, program fetch included.
  double dataBusBusy() const;
  double cyclesPerWallSecond() const {
    return sim && simulateSeconds > 0 ? double(sim->totalCycles) * double(batch) / simulateSeconds : 0;
  }
};

/// A row of the layer tables: a layer, or a fusion group with the rows of its members.
struct LayerRow {
  std::string name;
  std::vector<std::string> nodes;
  /// Of a group: sums, and the span from the first start of all to the last retirement of all.
  stats::LayerResult result;
  uint64_t macs = 0; ///< useful ones
  /// What the engines and the DRAM need for this row in this program; 0 where the model does not note it.
  uint64_t boundCycles = 0;
  std::string boundBy; ///< an engine, or "dram"
  /// The least that any program needs for the layer alone, from DRAM to DRAM; of a group the sum. 0: nobody counted.
  uint64_t aloneCycles = 0;
  std::string aloneBy;
  std::optional<cost::LayerTraffic> traffic;
  std::optional<LayerTile> tile;
  std::optional<size_t> number; ///< absent: a group, or what belongs to no layer
  /// What made the values that it reads, others than its members; absent: nobody knows.
  std::optional<std::vector<size_t>> reads;
  std::vector<LayerRow> members; ///< empty: a layer
};

/// The rows of `report`, in the order of the program; what belongs to no layer comes last. Precondition: report.sim.
std::vector<LayerRow> layerRows(const RunReport &report);

/// Cycles that the engines and the DRAM need for `layer`, and which of them needs most.
std::pair<uint64_t, std::string> programBound(const RunReport &report, const stats::LayerResult &layer);

/// Appends the result of a program that ran after those in `all`: cycles and engines add up, layers follow one another. What
/// is only for timelines is dropped.
void append(stats::SimResult &all, const stats::SimResult &next);

/// The schedule, and which of its candidates ran.
std::string scheduleText(const RunReport &report);

/// A line that says what is in an output.
std::string outputText(const HostTensor &tensor);

/// The tables `run` prints.
std::string tables(const RunReport &report);

/// How many nodes of the model each target has, and those of the CPU one by one with their reasons; lines.
std::string offloadText(const std::vector<Offload> &offload);

/// The document of `run --json`. `outputFiles`: where each output was written, empty where it was not.
std::string toJson(const RunReport &report, const std::vector<std::string> &outputFiles);

/// Text in columns: the first and the last `leftTail` columns to the left, the others to the right.
class Table {
public:
  explicit Table(std::vector<std::string> head, size_t leftTail = 0) : rows{std::move(head)}, leftTail(leftTail) {}
  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }
  /// A line across before the next row.
  void rule() { rules.push_back(rows.size()); }
  std::string str() const;

private:
  std::vector<std::vector<std::string>> rows;
  std::vector<size_t> rules;
  size_t leftTail;
};

/// "1,234,567".
std::string grouped(uint64_t value);
/// With `digits` behind the point.
std::string fixed(double value, int digits);

} // namespace tw::runtime

#endif // RUNTIME_REPORT_H
