//===- FunctionalModel.cpp - Programs in program order --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulator/functional/FunctionalModel.h"
#include "isa/Legality.h"
#include "isa/Odometer.h"
#include "isa/timing/Engines.h"
#include "simulator/core/LoopStack.h"
#include "simulator/functional/Execute.h"

using namespace tw;
using namespace tw::functional;
using core::Fault;
using core::FaultKind;
using timing::EngineKind;

namespace {

/// One run: the sequencer's view of the program and what happens to each instruction.
class Run {
public:
  Run(core::MachineState &state, const isa::Program &program, const RunOptions &options)
      : state(state), machine(state.machine()), program(program), options(options), checker(machine, program, options.checks),
        loops(machine.loopBufferWords), counts(machine.semaphores), entryOf(program.code.size(), -1) {}

  /// Runs to the halt or the first fault.
  std::optional<Fault> toHalt();

  uint64_t executed = 0;

private:
  /// An instruction of the program, decoded and found legal once.
  struct Entry {
    isa::Instruction instruction;
    isa::OdometerState odometer;
  };

  Fault fault(FaultKind kind, EngineKind engine, unsigned unit, const std::string &message) const;
  Fault fault(FaultKind kind, const isa::Instruction &instruction, const std::string &message) const {
    return fault(kind, instruction.engine(), unsigned(instruction.header.unit), message);
  }
  std::optional<Fault> decodeAt();
  std::optional<Fault> step(const isa::Instruction &resolved);
  std::optional<Fault> takeWaits(const isa::Instruction &resolved);
  std::optional<Fault> checkWeights(const isa::Instruction &resolved);
  std::optional<Fault> makePosts(const isa::Instruction &resolved);

  core::MachineState &state;
  const timing::MachineParams &machine;
  const isa::Program &program;
  const RunOptions &options;
  core::RaceChecker checker;
  core::LoopStack loops;
  std::vector<int64_t> counts;  ///< of each semaphore
  std::vector<int32_t> entryOf; ///< by word: index into entries, or -1
  std::vector<Entry> entries;
  uint64_t pc = 0;
  /// A tile waits in the shadow registers; the active registers hold one.
  bool shadowFull = false, activeFull = false;
};

Fault Run::fault(FaultKind kind, EngineKind engine, unsigned unit, const std::string &message) const {
  Fault fault{kind, pc, timing::engineName(engine, unit), message, "", 0};
  if (pc < program.layerOf.size() && program.layerOf[pc] < program.layers.size())
    fault.layer = program.layers[program.layerOf[pc]].name;
  return fault;
}

std::optional<Fault> Run::decodeAt() {
  if (pc >= program.code.size())
    return fault(FaultKind::IllegalInstruction, EngineKind::Sequencer, 0, "the program ends without halt");
  if (entryOf[pc] >= 0)
    return std::nullopt;
  isa::Decoded decoded = isa::decode(&program.code[pc], program.code.size() - pc);
  if (!decoded)
    return fault(FaultKind::IllegalInstruction, EngineKind::Sequencer, 0, decoded.error);
  if (std::optional<std::string> why = isa::illegal(decoded.instruction, machine))
    return fault(FaultKind::IllegalInstruction, EngineKind::Sequencer, 0, *why);
  entryOf[pc] = int32_t(entries.size());
  entries.push_back({std::move(decoded.instruction), {}});
  return std::nullopt;
}

std::optional<Fault> Run::toHalt() {
  auto illegal = [&](const std::string &why) { return fault(FaultKind::IllegalInstruction, EngineKind::Sequencer, 0, why); };
  for (uint64_t steps = 0;; ++steps) {
    if (std::optional<Fault> problem = decodeAt())
      return problem;
    if (steps >= options.maxInstructions)
      return fault(FaultKind::LimitReached, EngineKind::Sequencer, 0,
                   "the run was limited to " + std::to_string(options.maxInstructions) + " instructions");
    Entry &entry = entries[entryOf[pc]];
    const isa::Instruction &instruction = entry.instruction;
    unsigned words = instruction.words();
    if (std::optional<std::string> why = loops.illegal(pc, words))
      return illegal(*why);

    if (instruction.getIf<isa::Halt>()) {
      if (!loops.empty())
        return illegal("halt inside a loop");
      if (pc + words != program.code.size())
        return illegal("halt is not the last instruction");
      return std::nullopt;
    }
    if (const isa::Loop *loop = instruction.getIf<isa::Loop>()) {
      if (std::optional<std::string> why = loops.illegal(pc, *loop))
        return illegal(*why);
      uint64_t begin = pc + words, end = begin + uint64_t(loop->body_words);
      if (loops.empty())
        for (uint64_t word = begin; word < std::min<uint64_t>(end, entryOf.size()); ++word)
          if (entryOf[word] >= 0)
            entries[entryOf[word]].odometer.reset();
      loops.enter(begin, *loop);
      pc = begin;
      continue;
    }
    if (std::optional<isa::Instruction> resolved = isa::resolve(instruction, entry.odometer))
      if (std::optional<Fault> problem = step(*resolved))
        return problem;
    pc = loops.next(pc + words);
  }
}

std::optional<Fault> Run::takeWaits(const isa::Instruction &resolved) {
  const isa::Header &header = resolved.header;
  // Taken together: two waits for one semaphore need both counts.
  std::string missing;
  for (size_t i = 0; i < header.wait_count.size(); ++i) {
    if (!header.wait_count[i])
      continue;
    int64_t &count = counts[header.wait_semaphore[i]];
    if (count < header.wait_count[i])
      missing += (missing.empty() ? "" : "; ") + std::string("waits for ") + std::to_string(header.wait_count[i]) +
                 " posts of semaphore " + std::to_string(header.wait_semaphore[i]) + " but earlier instructions leave " +
                 std::to_string(count);
    else
      count -= header.wait_count[i];
  }
  if (!missing.empty())
    return fault(FaultKind::Deadlock, resolved, missing);
  return std::nullopt;
}

std::optional<Fault> Run::checkWeights(const isa::Instruction &resolved) {
  if (resolved.getIf<isa::Preload>()) {
    if (shadowFull)
      return fault(FaultKind::Deadlock, resolved, "the shadow registers hold a tile that no earlier tensor instruction takes");
    shadowFull = true;
  }
  if (const isa::Tensor *tensor = resolved.getIf<isa::Tensor>()) {
    if (tensor->swap) {
      if (!shadowFull)
        return fault(FaultKind::Deadlock, resolved, "no earlier preload fills the shadow registers");
      shadowFull = false;
      activeFull = true;
    } else if (!activeFull && options.checks.unwritten) {
      return fault(FaultKind::UnwrittenRead, resolved, "no tile was ever made active in the array");
    }
  }
  return std::nullopt;
}

std::optional<Fault> Run::makePosts(const isa::Instruction &resolved) {
  const isa::Header &header = resolved.header;
  for (size_t i = 0; i < header.post_count.size(); ++i) {
    if (!header.post_count[i])
      continue;
    int64_t &count = counts[header.post_semaphore[i]];
    count += header.post_count[i];
    if (count > int64_t(machine.semaphoreMax))
      return fault(FaultKind::SemaphoreOverflow, resolved,
                   "semaphore " + std::to_string(header.post_semaphore[i]) + " reaches " + std::to_string(count) +
                       " but holds at most " + std::to_string(machine.semaphoreMax));
  }
  return std::nullopt;
}

std::optional<Fault> Run::step(const isa::Instruction &resolved) {
  if (std::optional<std::string> why = isa::outOfRange(resolved, machine))
    return fault(FaultKind::OutOfRange, resolved, *why);
  if (std::optional<Fault> problem = takeWaits(resolved))
    return problem;
  if (std::optional<Fault> problem = checkWeights(resolved))
    return problem;
  if (options.checks.any()) {
    std::optional<core::Violation> violation = checker.start(resolved, pc);
    if (!violation)
      violation = checker.retire(resolved.engine(), unsigned(resolved.header.unit));
    if (violation)
      return fault(violation->kind, resolved, violation->message);
  }
  execute(resolved, state);
  ++executed;
  return makePosts(resolved);
}

} // namespace

core::RunResult FunctionalModel::run(const isa::Program &program, const std::vector<std::vector<uint8_t>> &inputs,
                                     const RunOptions &options) {
  core::RunResult result;
  result.fault = machineState.prepare(program, inputs);
  if (result.fault)
    return result;
  Run run(machineState, program, options);
  result.fault = run.toHalt();
  result.instructions = run.executed;
  if (!result.fault)
    result.outputs = machineState.readOutputs(program);
  return result;
}

core::RunResult tw::functional::run(const isa::Program &program, const timing::MachineParams &machine,
                                    const std::vector<std::vector<uint8_t>> &inputs, const RunOptions &options) {
  return FunctionalModel(machine).run(program, inputs, options);
}
