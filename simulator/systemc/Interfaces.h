//===- Interfaces.h - What the modules say to each other --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Modules meet only through ports bound to these interfaces, TLM-2.0 sockets
// and events. Every call carries the cycle it belongs to: a module may know its
// future (credits, closed forms) and says so ahead of SystemC time.
//===----------------------------------------------------------------------===//
#ifndef SIMULATOR_SYSTEMC_INTERFACES_H
#define SIMULATOR_SYSTEMC_INTERFACES_H

#include "isa/Isa.h"
#include "isa/Program.h"
#include "simulator/core/MachineState.h"
#include "simulator/stats/CriticalPath.h"
#include "simulator/stats/SimResult.h"
#include "simulator/stats/Track.h"
#include "simulator/systemc/SystemCModel.h"
#include "simulator/systemc/Timebase.h"

namespace tw::systemc {

constexpr uint32_t kNoRecord = ~0u;

/// One run: set before reset() of the modules, unchanged until the run ends.
struct RunContext {
  const isa::Program *program = nullptr;
  const timing::MachineParams *machine = nullptr;
  core::MachineState *state = nullptr;
  SimOptions options;

  // Filled while running.
  std::array<stats::Track, stats::kNumEngines> tracks;
  std::array<uint64_t, stats::kNumEngines> instructions{};
  stats::SimResult result;

  /// Whether paths are kept.
  bool followsPath() const { return !options.timingOnly; }
  /// Paths up to the last retirements of each engine, to the last start that freed the shadow registers, to what of the stores'
  /// bursts went last, and to the last retirement or halt of all.
  std::array<stats::Retirements, stats::kNumEngines> retirements;
  stats::Path lastSwap, lastWrite, lastEvent;
  Cycle lastEventAt = 0;

  uint32_t layerOf(uint64_t pc) const {
    return pc < program->layerOf.size() && program->layerOf[pc] < program->layers.size() ? program->layerOf[pc]
                                                                                         : stats::kNoLayer;
  }
};

/// A resolved instruction in an engine's queue.
struct Entry {
  isa::Instruction instruction;
  uint64_t pc = 0;
  uint32_t layer = stats::kNoLayer;
  uint32_t record = kNoRecord; ///< index into SimResult::instructions
  Cycle visible = 0;           ///< first cycle in which the engine sees it
  stats::Path path;            ///< up to its dispatch
  uint64_t banks = 0;          ///< isa::bankMask()
  std::optional<std::string> outOfRange;
};

/// The sequencer's side of an engine queue.
class QueueIf : virtual public sc_core::sc_interface {
public:
  /// First cycle in which an instruction may be dispatched to the queue; kNever while full with nothing started.
  virtual Cycle slotAt() const = 0;
  /// The path up to the start that freed the slot.
  virtual const stats::Path &slotPath() const = 0;
  /// The free slot, to be filled in before push(). Precondition: slotAt() is known.
  virtual Entry &freeSlot() = 0;
  /// Dispatches what freeSlot() holds in `cycle` >= slotAt().
  virtual void push(Cycle cycle) = 0;
};

/// What holds an engine's oldest instruction back.
struct Obstacle {
  enum class Kind : uint8_t { None, Operand, Interlock, Bank } kind = Kind::None;
  uint16_t detail = 0; ///< semaphore, InterlockKind, owner engine
  bool operator==(const Obstacle &other) const { return kind == other.kind && detail == other.detail; }
};

/// The arbiter's side of an engine.
class EngineIf : virtual public sc_core::sc_interface {
public:
  virtual unsigned number() const = 0;
  /// The oldest instruction that has not started; nullptr if there is none.
  virtual const Entry *head() const = 0;
  /// First cycle in which one more instruction may be in flight; kNever while it is not known.
  virtual Cycle roomAt() const = 0;
  /// Starts head() in `cycle`. Returns its retirement, kNever if not known yet.
  virtual Cycle start(Cycle cycle) = 0;
  /// The visible head cannot start in `cycle`, or (None) there is nothing to hold back.
  virtual void obstacle(Cycle cycle, Obstacle obstacle) = 0;
};

/// Where a free queue slot is told.
class SlotListenerIf : virtual public sc_core::sc_interface {
public:
  /// An instruction of `engine` has started in the current cycle.
  virtual void slotFreed(unsigned engine) = 0;
};

class ArbiterIf : virtual public sc_core::sc_interface {
public:
  /// From `cycle` on the head of `engine` is visible and the engine issue-free; kNever while that is not known.
  virtual void ready(unsigned engine, Cycle cycle) = 0;
  /// Something a start depends on changes in `cycle`.
  virtual void wake(Cycle cycle) = 0;
};

class SemaphoreIf : virtual public sc_core::sc_interface {
public:
  /// Makes posts that are visible from `cycle` on count. Whoever looks in a cycle calls this first.
  virtual void update(Cycle cycle) = 0;
  /// Which wait of the header is not satisfied; -1 if all are.
  virtual int missing(const isa::Header &header) const = 0;
  /// Takes what the header waits for. Precondition: missing() < 0.
  virtual void take(const Entry &entry) = 0;
  /// The posts of an instruction that retires in `retire`.
  virtual void post(const isa::Header &header, Cycle retire, unsigned engine, uint64_t pc, uint32_t record) = 0;
  /// Who posted the semaphore last, kNoEngine if nobody has.
  virtual unsigned producer(unsigned semaphore) const = 0;
  virtual unsigned count(unsigned semaphore) const = 0;
};

class MemoriesIf : virtual public sc_core::sc_interface {
public:
  /// Releases the banks that are free from `cycle` on. Whoever looks in a cycle calls this first.
  virtual void update(Cycle cycle) = 0;
  /// The lowest engine other than `engine` that owns one of `banks`; kNoEngine if none does.
  virtual unsigned ownerOf(unsigned engine, uint64_t banks) const = 0;
  /// An instruction of `engine` owns `banks` from now on.
  virtual void own(unsigned engine, uint64_t banks) = 0;
  /// The oldest owning instruction of `engine`, at `pc`, retires in `retire`.
  virtual void retire(unsigned engine, uint64_t pc, Cycle retire) = 0;
  /// Carries the instruction out, in one lump.
  virtual void execute(const Entry &entry, unsigned engine, Cycle cycle) = 0;
};

/// The controller of the machine: faults and the end of the program.
class ControlIf : virtual public sc_core::sc_interface {
public:
  virtual void fault(core::FaultKind kind, unsigned engine, uint64_t pc, Cycle cycle, std::string message) = 0;
  /// An instruction was dispatched that is visible from `visible` on.
  virtual void dispatched(Cycle visible) = 0;
  /// One dispatched instruction retires in `cycle`.
  virtual void retired(Cycle cycle) = 0;
  /// Something that may let an instruction start, or be dispatched, happens in `cycle`: no deadlock before it.
  virtual void moves(Cycle cycle) = 0;
  /// The sequencer takes `halt` in `cycle`.
  virtual void halted(Cycle cycle) = 0;
};

/// A reader at the DRAM port: a load engine or the program fetch.
class DramReaderIf : virtual public sc_core::sc_interface {
public:
  /// First cycle in which the next burst is asked for; kNever if there is none or its credit is not known yet.
  virtual Cycle nextRequest() const = 0;
  /// Address of the next burst. Precondition: nextRequest() != kNever.
  virtual uint64_t address() const = 0;
  /// Where the data of the next burst go, for readers that look at them at once: [begin, begin + length) lie in the burst.
  struct Destination {
    uint8_t *data = nullptr;
    uint64_t begin = 0;
    uint32_t length = 0;
  };
  virtual Destination destination() { return {}; }
  /// The next burst was requested in `cycle`.
  virtual void requested(Cycle cycle) = 0;
  /// The reader's burst number `burst`, counted from 0, arrives in `cycle`.
  virtual void completed(uint64_t burst, Cycle cycle, unsigned channel) = 0;
};

/// A store engine at the DRAM port.
class DramWriterIf : virtual public sc_core::sc_interface {
public:
  /// First cycle in which the next burst is offered to the write buffer; kNever if there is none.
  virtual Cycle nextOffer() const = 0;
  virtual uint64_t address() const = 0;
  virtual void accepted(Cycle cycle) = 0;
};

class DramPortIf : virtual public sc_core::sc_interface {
public:
  /// nextRequest() or nextOffer() of some client has changed.
  virtual void changed() = 0;
};

/// The DRAM controller's clockless side; bursts themselves go through the TLM socket.
class DramControllerIf : virtual public sc_core::sc_interface {
public:
  virtual unsigned channelOf(uint64_t address) const = 0;
  /// The cycle that advance() must not miss; kNever if the controller has decided everything.
  virtual Cycle nextDecision() const = 0;
  /// Every request of `cycle` has been made. Appends what is decided; completions lie in later cycles.
  virtual void advance(Cycle cycle, std::vector<timing::DramCompletion> &completions) = 0;
};

} // namespace tw::systemc

#endif // SIMULATOR_SYSTEMC_INTERFACES_H
