//===- CostModel.h - Cycles of kernels, steps and programs -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the compiler's choices go by. A model is a function of numbers: who asks
// counts the work. A plug-in compiles against this header and links with nothing.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_COST_COSTMODEL_H
#define COMPILER_COST_COSTMODEL_H

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tw::isa {
struct Program;
} // namespace tw::isa

namespace tw::cost {

/// Accelerator cycles of each engine as if it were alone.
struct EngineCycles {
  double array = 0, vector = 0, dram = 0;

  /// The roofline: what limits the work if nothing else does.
  double longest() const { return std::max({array, vector, dram}); }
  EngineCycles &operator+=(const EngineCycles &other) {
    array += other.array;
    vector += other.vector;
    dram += other.dram;
    return *this;
  }
};

/// A kernel under one choice of tile, in accelerator cycles but for counts. Numbers of all its tiles, where they do not say otherwise.
struct KernelWork {
  /// What works side by side.
  enum class Overlap : uint8_t {
    None,   ///< each operation waits for the one before
    Stores, ///< the loads of a tile follow the computation of the tile before, beside its store: one slot
    All,
  };
  Overlap overlap = Overlap::All;
  bool hasNeighbours = false; ///< other kernels are beside it, in the order of the list scheduler
  bool exposesEnds = false;   ///< no engine has other work before its first operands come, or behind its last ones

  double array = 0, vector = 0;
  double loads[2] = {0, 0}; ///< of each load engine
  double stores = 0;
  double bus = 0;        ///< of the DRAM data bus, with what channels that are left out cost, and turnarounds
  double sharedBus = 0;  ///< the same without such channels: what neighbours cannot have
  double turnaround = 1; ///< factor in both
  double slotTurns =
      0; ///< until every slot of a streamed operand has been loaded and used as often as it has to be; 0: no limit

  double latency = 0;   ///< of DRAM
  double loadCount = 0; ///< loads
  double visits = 0;    ///< of the array: tiles, each for each block of its input channels
  double results = 0;   ///< tiles of results

  double firstLoad = 0;  ///< of operands before the array can begin, and at each change of the stationary operand
  double arrayTile = 0;  ///< passes of a tile, all its input channels
  double arrayVisit = 0; ///< passes of a tile for its last block of input channels, as far as nothing hides them
  double vectorTile = 0, storeTile = 0;

  unsigned bankConflicts =
      0;                   ///< ways in which several engines meet in one bank: slots that share one, pieces of a tensor in all
  bool hasFewSums = false; ///< of a fusion group: its accumulators do not hold two row tiles
  unsigned crowdings = 0;  ///< ways in which the kernel is in the way of itself or of what follows
  unsigned doubts = 0;     ///< ways in which the numbers say a little too little
  bool mustGain = false;   ///< they say much too little: worth it only if far faster
};

/// Steps of a kernel or a network in the order that the list scheduler has given them, in accelerator cycles.
struct StepsWork {
  double scheduled = 0; ///< until everything has retired, by the list scheduler
  double array = 0, vector = 0, bus = 0;
  double loads = 0, stores = 0; ///< of the engine that is busy longest
};

/// Estimates never fall when a number of the work rises: tiles are left out because a part of their work is as long already. NaN and
/// negative cycles count as infinitely many. Models must not throw.
class CostModel {
public:
  virtual ~CostModel() = default;
  /// Cycles of a kernel: which tile it gets. Asked for each of up to millions of tiles.
  virtual double cyclesOfKernel(const KernelWork &work) const = 0;
  /// Cycles of a kernel alone or of a network: which of the best tiles a kernel gets, which plan the network.
  virtual double cyclesOfSteps(const StepsWork &work) const = 0;
  /// StepsWork::scheduled from which on cyclesOfSteps() is `limit` or more, whatever else the work is: the list scheduler stops there.
  virtual double scheduleLimit(double limit) const {
    (void)limit;
    return std::numeric_limits<double>::infinity();
  }
  /// Cycles of a program, which chooses among the best plans of a network; nothing: unknown, or it takes too long to say.
  virtual std::optional<uint64_t> cyclesOfProgram(const isa::Program &program) const {
    (void)program;
    return std::nullopt;
  }
};

/// The compiler's own model: a closed form for tiles, the list scheduler's estimate for steps. It does not know programs.
class ClosedForm : public CostModel {
public:
  double cyclesOfKernel(const KernelWork &work) const override;
  double cyclesOfSteps(const StepsWork &work) const override { return work.scheduled; }
  double scheduleLimit(double limit) const override { return limit; }
};

/// `cycles`, if it is a number of cycles; else infinitely many.
inline double checked(double cycles) { return cycles >= 0 ? cycles : std::numeric_limits<double>::infinity(); }

/// Cost models by name.
class CostModelRegistry {
public:
  virtual ~CostModelRegistry() = default;
  /// False, and nothing is added, if there is no model, or the name is taken or empty.
  virtual bool add(const std::string &name, std::unique_ptr<CostModel> model) = 0;
  /// Null if there is none of this name. Valid as long as the process.
  virtual const CostModel *find(const std::string &name) const = 0;
  /// In the order of registration.
  virtual std::vector<std::string> names() const = 0;
};

/// The compiler's own, "closed_form", then those of plug-ins.
CostModelRegistry &costModels();
/// The compiler's own.
const CostModel &closedForm();

} // namespace tw::cost

#endif // COMPILER_COST_COSTMODEL_H
