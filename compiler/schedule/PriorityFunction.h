//===- PriorityFunction.h - Priorities of the list scheduler -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which ready operation an engine takes first, by a function in place of knob
// `priority`. A plug-in compiles against this header and links with nothing.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_SCHEDULE_PRIORITYFUNCTION_H
#define COMPILER_SCHEDULE_PRIORITYFUNCTION_H

#include "isa/Diagnostic.h"
#include "isa/timing/MachineParams.h"

#include <functional>
#include <string>
#include <vector>

namespace tw::cost {
struct StepsWork;
} // namespace tw::cost
namespace tw::plan {
enum class Bus : uint8_t;
} // namespace tw::plan

namespace tw::schedule {

/// The operations of a whole network, in the order of its kernels' steps. Times are accelerator cycles, estimated as the list scheduler does.
struct PriorityProblem {
  struct Operation {
    unsigned engine = 0;    ///< as engines are numbered in reports: stores, vector, tensor, preload, loads
    uint32_t layer = 0;     ///< the kernel
    uint32_t step = 0;      ///< of the network: a tile's loads and what they are for
    double occupancy = 0;   ///< until the engine takes its next operation
    double drain = 0;       ///< from there until the result is there
    double bus = 0;         ///< of the DRAM data bus
    double latestStart = 0; ///< the ALAP priority: when the array, if it never stood still, would need it; infinite: never
  };
  /// `to` starts when `from` has retired, or else when it has started.
  struct Dependence {
    uint32_t from = 0, to = 0;
    bool waitsForRetirement = false;
  };
  const timing::MachineParams &machine;
  std::vector<Operation> operations;
  std::vector<Dependence> dependences; ///< sorted by `to`; `from` is less than `to`
};

/// A number for every operation: of those that are ready, an engine takes the one with the smallest. Any numbers but NaN are legal: no
/// dependence is ever violated, only cycles are lost.
using PriorityFunction = std::function<std::vector<double>(const PriorityProblem &)>;

/// Priorities by name.
class PriorityRegistry {
public:
  virtual ~PriorityRegistry() = default;
  /// False, and nothing is added, if the name is taken, empty, or that of a value of knob `priority`.
  virtual bool add(const std::string &name, PriorityFunction function) = 0;
  /// Null if there is none of this name. Valid as long as the process.
  virtual const PriorityFunction *find(const std::string &name) const = 0;
  /// In the order of registration.
  virtual std::vector<std::string> names() const = 0;
};

/// What plug-ins have added to this process.
PriorityRegistry &priorities();

struct Step;
struct TileProgram;

/// As overlap() (Overlap.h), by `priority` alone: no other order is tried. Errors: it does not give a number for each operation.
Result<TileProgram> overlapBy(const PriorityFunction &priority, std::vector<Step> steps, const timing::MachineParams &machine,
                              cost::StepsWork *work, double limit, plan::Bus bus);

} // namespace tw::schedule

#endif // COMPILER_SCHEDULE_PRIORITYFUNCTION_H
