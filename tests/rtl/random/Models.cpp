//===- Models.cpp - One program on every model ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/rtl/random/Models.h"

#include "simulator/core/Accesses.h"
#include "simulator/functional/FunctionalModel.h"
#include "simulator/systemc/SystemCModel.h"
#include "tests/timing/engines/SteppedModel.h"

#include <cstring>

namespace tw::programs {
namespace {

/// A run that takes longer hangs.
constexpr timing::Cycle kMaxCycles = 2000000;

std::string firstDifference(const uint8_t *a, const uint8_t *b, uint64_t bytes, const std::string &memory,
                            const std::string &first, const std::string &second) {
  if (std::memcmp(a, b, bytes) == 0)
    return "";
  uint64_t at = 0;
  while (a[at] == b[at])
    ++at;
  return "byte " + std::to_string(at) + " of " + memory + " is " + std::to_string(a[at]) + " in the " + first + " and " +
         std::to_string(b[at]) + " in the " + second + " model";
}

std::string memoriesDiffer(const core::MachineState &functional, const core::MachineState &systemc, uint64_t dramBytes) {
  for (const isa::CaseInfo &memory : isa::kMemoryEnumeration.cases)
    if (functional.hasMemory(memory.value))
      if (std::string difference = firstDifference(functional.memory(memory.value), systemc.memory(memory.value),
                                                   functional.memorySize(memory.value), memory.name, "functional", "SystemC");
          !difference.empty())
        return difference;
  return firstDifference(functional.dram(), systemc.dram(), dramBytes, "dram", "functional", "SystemC");
}

std::string timesDiffer(const stats::SimResult &systemc, const test::SteppedResult &stepped) {
  const std::string models = " in the SystemC and the stepped model";
  if (systemc.fault.has_value() != stepped.fault.has_value() || (systemc.fault && systemc.fault->kind != *stepped.fault))
    return "faults differ" + models + ": " + (systemc.fault ? systemc.fault->str() : "none") + " and " +
           (stepped.fault ? core::faultKindName(*stepped.fault) : "none");
  for (size_t i = 0; i < std::min(systemc.instructions.size(), stepped.instructions.size()); ++i) {
    const stats::InstructionRecord &a = systemc.instructions[i], &b = stepped.instructions[i];
    const std::pair<const char *, std::pair<uint64_t, uint64_t>> times[] = {
        {"word", {a.pc, b.pc}},        {"engine", {a.engine, b.engine}},           {"dispatch", {a.dispatched, b.dispatched}},
        {"start", {a.start, b.start}}, {"issue-free", {a.issueFree, b.issueFree}}, {"retirement", {a.retire, b.retire}}};
    for (const auto &[what, values] : times)
      if (values.first != values.second && !systemc.fault)
        return std::string(what) + " of instruction " + std::to_string(i) + ", at word " + std::to_string(a.pc) + ", is " +
               std::to_string(values.first) + " and " + std::to_string(values.second) + models;
  }
  if (systemc.totalCycles != stepped.totalCycles)
    return std::to_string(systemc.totalCycles) + " and " + std::to_string(stepped.totalCycles) + " cycles" + models;
  if (systemc.fault)
    return "";
  if (systemc.instructions.size() != stepped.instructions.size())
    return std::to_string(systemc.instructions.size()) + " and " + std::to_string(stepped.instructions.size()) +
           " instructions" + models;
  for (const stats::EngineResult &engine : systemc.engines)
    for (unsigned label = 0; label < stats::kNumLabels; ++label)
      if (engine.cycles[label] != stepped.labels[engine.engine][label])
        return engine.name + " has " + std::to_string(engine.cycles[label]) + " and " +
               std::to_string(stepped.labels[engine.engine][label]) + " cycles of " + stats::labelName(stats::Label(label)) +
               models;
  return "";
}

} // namespace

Verdict runModels(const isa::Program &program, const timing::MachineParams &machine, const ModelOptions &options,
                  std::optional<core::FaultKind> fault, std::optional<uint64_t> faultPc) {
  Verdict verdict;
  auto invalid = [&](const std::string &why) {
    verdict.isValid = false;
    verdict.difference = why;
    return verdict;
  };
  auto faultOf = [](const std::optional<core::Fault> &found) { return found ? found->str() : std::string("no fault"); };
  functional::FunctionalModel functional(machine);
  functional::RunOptions functionalOptions;
  functionalOptions.checks.unwritten = false;
  functionalOptions.maxInstructions = 1000000;
  const core::RunResult reference = functional.run(program, {}, functionalOptions);
  if (fault ? !reference.fault || reference.fault->kind != *fault : reference.fault.has_value())
    return invalid("the functional model ends with " + faultOf(reference.fault));
  if (faultPc && reference.fault->pc != *faultPc)
    return invalid("the functional model faults elsewhere: " + faultOf(reference.fault));

  core::MachineState state(machine);
  if (const std::optional<std::string> problem = state.load(program))
    return invalid(*problem);
  systemc::SimOptions systemcOptions;
  systemcOptions.trace = true;
  systemcOptions.maxCycles = kMaxCycles;
  // What the fault leaves undone would look like a race.
  systemcOptions.checks = !fault;
  systemcOptions.unwritten = false;
  verdict.systemc = systemc::SystemCModel().run(program, state, systemcOptions);
  const stats::SimResult &result = verdict.systemc;
  if (fault ? !result.fault || result.fault->kind != *fault : result.fault.has_value())
    return invalid("the SystemC model ends with " + faultOf(result.fault));
  if (faultPc && result.fault->pc != *faultPc)
    return invalid("the SystemC model faults elsewhere: " + faultOf(result.fault));
  if (!fault)
    verdict.difference = memoriesDiffer(functional.state(), state, program.dramBytes);
  if (verdict.difference.empty() && options.stepped && fault != core::FaultKind::Deadlock)
    verdict.difference = timesDiffer(result, test::runStepped(program, machine, kMaxCycles));
  if (verdict.difference.empty() && options.rtl)
    verdict.difference = options.rtl(program, machine);
  return verdict;
}

} // namespace tw::programs
