//===- Sequencer.h - Fetch, loops and dispatch ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_SYSTEMC_SEQUENCER_H
#define SIMULATOR_SYSTEMC_SEQUENCER_H

#include "isa/Odometer.h"
#include "simulator/core/LoopStack.h"
#include "simulator/systemc/Interfaces.h"

#include <tlm>
#include <tlm_utils/simple_target_socket.h>

#include <memory>

namespace tw::systemc {

/// Control registers of the machine, byte offsets of 8-byte words in the sequencer's socket.
enum ControlRegister : uint64_t {
  kCodeAddressRegister = 0, ///< DRAM byte address of the first program word
  kCodeWordsRegister = 8,   ///< program length in words
  kStartRegister = 16       ///< any write starts the program
};

/// Reads the program from DRAM in sequence, takes one word per cycle, runs the hardware loops, resolves odometers and
/// dispatches to the engines' queues. It works ahead of SystemC time as far as arrivals and free queue slots are known.
class Sequencer : public sc_core::sc_module, public SlotListenerIf, public DramReaderIf {
public:
  tlm_utils::simple_target_socket<Sequencer> socket;
  sc_core::sc_export<SlotListenerIf> slots;
  sc_core::sc_export<DramReaderIf> fetch;
  sc_core::sc_vector<sc_core::sc_port<QueueIf>> queues; ///< by engine number
  sc_core::sc_port<DramPortIf> dram;
  sc_core::sc_port<DramControllerIf> controller;
  sc_core::sc_port<ControlIf> host;

  Sequencer(sc_core::sc_module_name name, Timebase &timebase);
  void reset(RunContext &context);
  void slotFreed(unsigned engine) override;

  Cycle nextRequest() const override;
  uint64_t address() const override { return firstBurst + requestedBursts * burstBytes; }
  Destination destination() override;
  void requested(Cycle cycle) override;
  void completed(uint64_t burst, Cycle cycle, unsigned channel) override;

  /// What the sequencer waits for, in words, when nothing moves any more.
  std::string waiting() const;
  /// First word of the instruction that it works on.
  uint64_t position() const { return pc; }

private:
  /// An instruction with its state; kept from iteration to iteration while a loop runs.
  struct Body {
    Body(const isa::Word *words, size_t available, const timing::MachineParams &machine);
    isa::Decoded decoded; ///< its error also says why the machine refuses it
    isa::OdometerState odometer;
  };
  enum class Wait : uint8_t { Nothing, Word, Slot };

  void transport(tlm::tlm_generic_payload &payload, sc_core::sc_time &delay);
  void run();
  /// One instruction as far as it goes; false if it has to wait.
  bool advance();
  /// First cycle in which word `word` may be taken; kNever while that is not known.
  Cycle availableAt(uint64_t word) const;
  void take(uint64_t word, Cycle available, Cycle cycle);
  Body &body();
  /// Goes to the next instruction after the current one was taken as a whole.
  void finish();
  /// The illegal instruction at `pc` stops the machine in `cycle`. Returns false.
  bool stop(Cycle cycle, std::string message);
  uint64_t burstOf(uint64_t word) const { return (codeAddress + (word + 1) * isa::kWordBytes - 1 - firstBurst) >> burstShift; }
  /// Words that are complete once `bursts` bursts are here.
  uint64_t wordsIn(uint64_t bursts) const;

  RunContext *context = nullptr;
  const Timebase &timebase;
  Alarm alarm;

  // Registers and fetch.
  uint64_t codeAddress = 0, codeWords = 0, firstBurst = 0, burstBytes = 64, burstCount = 0;
  unsigned burstShift = 6;
  bool running = false;
  std::vector<isa::Word> words;
  uint64_t requestedBursts = 0, arrivedBursts = 0;
  std::vector<Cycle> arrivals; ///< by burst, in-order return; beyond arrivedBursts the raw completion
  std::vector<uint16_t> channels;
  std::vector<Cycle> takenAt; ///< of the last prefetchWords words taken for the first time

  // Execution.
  uint64_t pc = 0;       ///< first word of the current instruction
  uint64_t frontier = 0; ///< words before it have been taken once; in loops they come from the loop buffer
  unsigned wordsTaken = 0;
  Cycle nextTake = 0;
  stats::Path path; ///< up to the last word that was taken
  core::LoopStack loops{0};
  std::vector<std::unique_ptr<Body>> bodies; ///< of the outermost loop's body, by word from its begin
  uint64_t bodiesBegin = 0;
  std::optional<Body> straight; ///< the current instruction outside loops
  Wait wait = Wait::Nothing;
  unsigned waitEngine = stats::kNoEngine;
};

} // namespace tw::systemc

#endif // SIMULATOR_SYSTEMC_SEQUENCER_H
