//===- Engine.h - Queue, start and retirement of an engine ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_SYSTEMC_ENGINE_H
#define SIMULATOR_SYSTEMC_ENGINE_H

#include "simulator/systemc/Interfaces.h"

namespace tw::systemc {

/// What every engine has: an in-order queue that the sequencer fills and the arbiter empties, and in-order retirement.
/// Subclasses say how long an instruction takes.
class Engine : public sc_core::sc_module, public QueueIf, public EngineIf {
public:
  sc_core::sc_export<QueueIf> queue;
  sc_core::sc_export<EngineIf> control;
  sc_core::sc_port<ArbiterIf> arbiter;
  sc_core::sc_port<SemaphoreIf> semaphores;
  sc_core::sc_port<MemoriesIf> memories;
  sc_core::sc_port<SlotListenerIf> sequencer;
  sc_core::sc_port<ControlIf> host;

  Engine(sc_core::sc_module_name name, unsigned number);
  virtual void reset(RunContext &context);

  Cycle slotAt() const override { return slotFreeAt[last]; }
  const stats::Path &slotPath() const override { return slotPaths[last]; }
  Entry &freeSlot() override { return slots[last]; }
  void push(Cycle cycle) override;
  unsigned number() const override { return engine; }
  const Entry *head() const override { return started == pushed ? nullptr : &slots[first]; }
  Cycle roomAt() const override {
    return started < retirements.size()              ? 0
           : retired + retirements.size() <= started ? kNever
                                                     : retirements[started % retirements.size()] + 1;
  }
  Cycle start(Cycle cycle) override;
  void obstacle(Cycle cycle, Obstacle now) override;

protected:
  /// What is left of an instruction once it has started.
  struct InFlight {
    isa::Header header;
    uint64_t pc = 0;
    uint32_t layer = stats::kNoLayer;
    uint32_t record = kNoRecord;
    Cycle start = 0;
    stats::Path path; ///< up to its start
  };
  /// Begins the instruction. Calls setIssueFree() and retire() now if their cycles are known, else when they are.
  /// Returns the retirement, kNever if it is not known yet.
  virtual Cycle begin(const Entry &entry, const InFlight &inFlight) = 0;
  /// The next instruction may start from `cycle` on.
  void setIssueFree(const InFlight &inFlight, Cycle cycle);
  /// The oldest instruction in flight retires in `cycle`, or one cycle after the one before it, whichever is later.
  /// Returns that.
  Cycle retire(const InFlight &inFlight, Cycle cycle);
  stats::Track &track() { return context->tracks[engine]; }

  RunContext *context = nullptr;
  const unsigned engine;

private:
  /// Tells the arbiter when the head is visible and the engine issue-free.
  void announceHead() { arbiter->ready(engine, started == pushed ? kNever : std::max(slots[first].visible, issueFreeAt)); }
  /// The path up to the start of `entry` in `cycle`: what it waited for last.
  stats::Path pathTo(const Entry &entry, Cycle cycle) const;
  size_t after(size_t slot) const { return slot + 1 == slots.size() ? 0 : slot + 1; }

  Cycle issueFreeAt = 0;
  std::vector<Entry> slots;      ///< a ring: [first, last) wait
  std::vector<Cycle> slotFreeAt; ///< kNever while an instruction that has not started is in the slot
  std::vector<stats::Path> slotPaths;
  stats::Path lastStart; ///< up to the last start
  size_t first = 0, last = 0;
  uint64_t pushed = 0, started = 0, retired = 0;
  std::vector<Cycle> retirements; ///< of the last instructions, as many as may be in flight, by number modulo that
  Obstacle current;
  Cycle obstacleSince = 0;
};

/// An engine whose instructions take a closed form of their operands.
template <typename Instruction> class ComputeEngine : public Engine {
public:
  using Engine::Engine;

protected:
  Cycle begin(const Entry &entry, const InFlight &inFlight) override;
};

using PreloadEngine = ComputeEngine<isa::Preload>;
using TensorEngine = ComputeEngine<isa::Tensor>;
using VectorEngine = ComputeEngine<isa::Vector>;

} // namespace tw::systemc

#endif // SIMULATOR_SYSTEMC_ENGINE_H
