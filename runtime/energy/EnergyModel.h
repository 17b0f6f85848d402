//===- EnergyModel.h - Events to joules, a machine to area ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An estimate: the method, its sources and its limits are in docs/energy.md.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_ENERGY_ENERGYMODEL_H
#define RUNTIME_ENERGY_ENERGYMODEL_H

#include "hw-configs/Technology.h"
#include "runtime/energy/EventCounts.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace tw::energy {

/// Where energy goes.
enum class Component : uint8_t {
  ArrayMacs,
  ArrayRegisters, ///< activations and partial sums on their way through the array
  WeightRegisters,
  Scratchpad0,
  Scratchpad1,
  Accumulator,
  VectorEngine,
  Instructions, ///< fetch buffer, dispatch and engine queues
  DramActivate,
  DramRead,
  DramWrite,
  DramRefresh,
  DramBackground,
  Leakage
};
constexpr size_t kNumComponents = 14;

/// Joules by Component.
using Joules = std::array<double, kNumComponents>;
double sum(const Joules &joules);

/// Square millimetres of a machine, by name.
using Areas = std::vector<std::pair<std::string, double>>;

/// The energy of one run, three times: by layer, by engine, and in all.
struct EnergyReport {
  std::string technology;
  bool isDefaultTechnology = false;
  std::vector<std::string> components; ///< names, by Component
  Joules total{};
  std::vector<Joules> layers; ///< as in the run
  Joules noLayer{};
  std::vector<std::pair<std::string, Joules>> engines; ///< those of the machine
  Joules standing{};                                   ///< of no engine: refresh, background and leakage
  EventCounts events;
  uint64_t fetchBursts = 0, activates = 0, refreshes = 0;
  double seconds = 0;
  Areas areas;

  double totalJoules() const { return sum(total); }
  double averageWatts() const { return seconds > 0 ? totalJoules() / seconds : 0; }
};

class EnergyModel {
public:
  EnergyModel(const timing::MachineParams &machine, const hwconfigs::Technology &technology);

  /// Names by Component; scratchpads have the machine's names.
  std::vector<std::string> componentNames() const;
  /// What events cost that no clock decides.
  Joules dynamic(const EventCounts &counts) const;
  /// Joules of opening and closing a row, of a burst, of refreshing all banks of a rank.
  double activateJoules() const { return activate; }
  double readJoules() const { return read; }
  double writeJoules() const { return write; }
  double refreshJoules() const { return refresh; }
  /// Watts of DRAM in standby with rows open, and of leakage.
  double backgroundWatts() const { return background; }
  double leakageWatts() const { return leakage; }
  /// Refreshes of ranks that fall due in `seconds`.
  uint64_t refreshesIn(double seconds) const;
  Areas areas() const;

  /// The energy of a run whose programs have `events`. Activates are shared out by bursts, and what only time decides by critical
  /// cycles; where the model knows none of these, it belongs to no layer. Precondition: as many layers in both.
  EnergyReport report(const EventTable &events, const stats::SimResult &sim) const;

private:
  /// A part of the chip: two-input gates (flip-flops included), and square micrometres of memory cells.
  struct Part {
    std::string name;
    double gates = 0, cellsUm2 = 0;
  };
  std::vector<Part> parts() const;
  double logicMm2(const Part &part) const;
  double memoryMm2(const Part &part) const;
  void deriveDram();

  timing::MachineParams machine;
  hwconfigs::Technology technology;
  double macJoules = 0, macRegisterJoules = 0, registerBitJoules = 0, instructionWordJoules = 0;
  std::array<double, kNumMemories> wordJoules{};
  std::array<double, kNumLaneOps> laneJoules{};
  double activate = 0, read = 0, write = 0, refresh = 0, background = 0, leakage = 0;
};

} // namespace tw::energy

#endif // RUNTIME_ENERGY_ENERGYMODEL_H
