//===- SemaphoreUnit.h - Counting semaphores --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_SYSTEMC_SEMAPHOREUNIT_H
#define SIMULATOR_SYSTEMC_SEMAPHOREUNIT_H

#include "simulator/systemc/Interfaces.h"

#include <deque>

namespace tw::systemc {

/// Counts. A post becomes visible semaphore_cycles after its instruction retires; a count above the machine's maximum is
/// a fault of the posting engine in that cycle.
class SemaphoreUnit : public sc_core::sc_module, public SemaphoreIf {
public:
  sc_core::sc_export<SemaphoreIf> counts;
  sc_core::sc_port<ArbiterIf> arbiter;
  sc_core::sc_port<ControlIf> host;

  explicit SemaphoreUnit(sc_core::sc_module_name name);
  void reset(RunContext &context);

  void update(Cycle cycle) override;
  int missing(const isa::Header &header) const override;
  void take(const Entry &entry) override;
  void post(const isa::Header &header, Cycle retire, unsigned engine, uint64_t pc, uint32_t record) override;
  unsigned producer(unsigned semaphore) const override { return semaphores[semaphore].producer; }
  unsigned count(unsigned semaphore) const override { return semaphores[semaphore].count; }

private:
  struct Post {
    Cycle visible;
    uint32_t semaphore, count, engine, record;
    uint64_t pc;
    /// A heap of these has the earliest on top, in engine order within a cycle.
    bool operator<(const Post &other) const {
      return visible != other.visible ? visible > other.visible
             : engine != other.engine ? engine > other.engine
                                      : pc > other.pc;
    }
  };
  struct Semaphore {
    uint32_t count = 0;
    uint32_t producer = stats::kNoEngine;
    std::deque<uint32_t> records; ///< traced runs: who made the posts that are left, oldest first
  };

  RunContext *context = nullptr;
  std::vector<Semaphore> semaphores;
  std::vector<Post> pending; ///< a heap
};

} // namespace tw::systemc

#endif // SIMULATOR_SYSTEMC_SEMAPHOREUNIT_H
