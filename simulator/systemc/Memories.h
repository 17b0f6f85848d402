//===- Memories.h - Scratchpads, accumulator and their banks ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_SYSTEMC_MEMORIES_H
#define SIMULATOR_SYSTEMC_MEMORIES_H

#include "simulator/core/RaceChecker.h"
#include "simulator/systemc/Interfaces.h"

#include <deque>
#include <memory>
#include <tuple>

namespace tw::systemc {

/// Who owns which bank of the scratchpads and the accumulator, and the contents of all memories.
class Memories : public sc_core::sc_module, public MemoriesIf {
public:
  sc_core::sc_export<MemoriesIf> access;
  sc_core::sc_port<ArbiterIf> arbiter;
  sc_core::sc_port<ControlIf> host;

  explicit Memories(sc_core::sc_module_name name);
  void reset(RunContext &context);

  void update(Cycle cycle) override;
  unsigned ownerOf(unsigned engine, uint64_t banks) const override;
  void own(unsigned engine, uint64_t banks) override;
  void retire(unsigned engine, uint64_t pc, Cycle retire) override;
  void execute(const Entry &entry, unsigned engine, Cycle cycle) override;

private:
  struct Ownership {
    uint64_t banks;
    Cycle releaseAt; ///< kNever until the retirement is known
  };
  struct Owner {
    uint64_t banks = 0;         ///< the union of `held`
    std::deque<Ownership> held; ///< oldest first
    size_t withRetirement = 0;  ///< how many of `held` have a release cycle
  };

  void countMacs(const Entry &entry);

  RunContext *context = nullptr;
  uint64_t shadowColumns = 0, activeColumns = 0; ///< n_count of the weight tiles in the array
  std::unique_ptr<core::RaceChecker> checker;    ///< with SimOptions::checks
  struct Retirement {
    Cycle cycle;
    unsigned engine;
    uint64_t pc;
    bool operator<(const Retirement &other) const { return std::tie(cycle, engine) > std::tie(other.cycle, other.engine); }
  };
  std::vector<Retirement> retirements; ///< checked runs: a heap, earliest first
  std::array<Owner, stats::kNumEngines> owners;
  Cycle nextUpdate = kNever; ///< the first cycle in which update() has something to do
};

} // namespace tw::systemc

#endif // SIMULATOR_SYSTEMC_MEMORIES_H
