//===- Compare.cpp - SystemC and RTL side by side -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/cosim/Compare.h"

#include "isa/timing/Dma.h"
#include "simulator/cosim/Replay.h"
#include "simulator/cosim/RtlModel.h"
#include "simulator/systemc/SystemCModel.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <sstream>

using namespace tw;
using namespace tw::cosim;
using timing::Cycle;
using timing::kNever;

namespace {

std::string number(Cycle cycle) { return cycle == kNever ? "never" : std::to_string(cycle); }

/// `start of instruction 7: SystemC 120, RTL 121`, the instruction and its layer.
std::string describe(const isa::Program &program, size_t index, const stats::InstructionRecord &record) {
  std::string text =
      "instruction " + std::to_string(index) + ", word " + std::to_string(record.pc) + ", " + stats::engineName(record.engine);
  if (record.pc < program.code.size())
    if (const isa::Decoded decoded = isa::decode(&program.code[record.pc], program.code.size() - record.pc))
      text += "\n  " + isa::print(decoded.instruction);
  if (record.layer < program.layers.size()) {
    const isa::Layer &layer = program.layers[record.layer];
    text += "\n  in layer '" + layer.name + "'";
    for (size_t i = 0; i < layer.nodes.size(); ++i)
      text += (i ? ", " : ", of ") + ("'" + layer.nodes[i] + "'");
  }
  return text;
}

std::string describe(const std::optional<core::Fault> &fault) { return fault ? fault->str() : "no fault"; }

std::string describe(const timing::DramCommandLog &log, size_t index) {
  if (index >= log.size())
    return "nothing more\n";
  std::ostringstream text;
  timing::writeCommands(text, {log[index]});
  return text.str();
}

bool same(const timing::DramCommand &a, const timing::DramCommand &b) {
  return a.tick == b.tick && a.kind == b.kind && a.channel == b.channel && a.rank == b.rank && a.bankGroup == b.bankGroup &&
         a.bank == b.bank && a.row == b.row && a.column == b.column;
}

/// A limit is the run's, not an instruction's: the SystemC model has looked at instructions of later cycles already.
bool same(const std::optional<core::Fault> &a, const std::optional<core::Fault> &b) {
  if (!a || !b)
    return !a && !b;
  const bool limit = a->kind == core::FaultKind::LimitReached;
  return a->kind == b->kind && a->cycle == b->cycle &&
         (limit || (a->pc == b->pc && a->engine == b->engine && a->message == b->message));
}

/// Keeps the earliest of all differences; of one cycle, the first that was told.
struct Earliest {
  Cycle cycle = kNever;
  std::string text;
  void tell(Cycle at, const std::string &what) {
    if (text.empty() || at < cycle) {
      cycle = at;
      text = what;
    }
  }
};

class Stopwatch {
public:
  double seconds() const { return double(std::clock() - begin) / CLOCKS_PER_SEC; }

private:
  std::clock_t begin = std::clock();
};

/// One past the last byte of DRAM that the program names: its image, and whatever its stores reach.
uint64_t dramEnd(const isa::Program &program, const timing::MachineParams &machine) {
  uint64_t end = program.dramBytes;
  Replay replay(program, machine);
  while (const std::optional<Dispatch> next = replay.next()) {
    const isa::Store *store = next->instruction.getIf<isa::Store>();
    if (!store)
      continue;
    const timing::Box box = timing::boxOf(*store);
    uint64_t last = box.dramAddress + uint64_t(box.counts[0]) * box.elementBytes;
    for (size_t i = 0; i < box.dramStrides.size(); ++i)
      if (box.dramStrides[i] > 0)
        last += uint64_t(box.counts[i + 1] - 1) * uint64_t(box.dramStrides[i]);
    end = std::max(end, last);
  }
  return std::min(end, machine.dram.capacityBytes);
}

} // namespace

std::string cosim::firstDifference(const isa::Program &program, const timing::MachineParams &machine,
                                   const Observation &systemc, const Observation &rtl) {
  const stats::SimResult &a = systemc.result, &b = rtl.result;
  Earliest first;
  // Nothing is told apart from the cycle of a fault on: a model may look at it before or after the others' doings.
  const Cycle horizon = std::min(a.fault ? a.fault->cycle : kNever, b.fault ? b.fault->cycle : kNever);
  auto known = [&](Cycle cycle) { return cycle == 0 || cycle >= horizon ? kNever : cycle; };
  const size_t records = std::max(a.instructions.size(), b.instructions.size());
  for (size_t i = 0; i < records; ++i) {
    static const stats::InstructionRecord none;
    const stats::InstructionRecord &x = i < a.instructions.size() ? a.instructions[i] : none,
                                   &y = i < b.instructions.size() ? b.instructions[i] : none;
    if (std::min(known(x.dispatched), known(y.dispatched)) == kNever)
      break;
    const stats::InstructionRecord &either = known(x.dispatched) != kNever ? x : y;
    auto check = [&](const char *what, Cycle left, Cycle right) {
      left = known(left);
      right = known(right);
      if (left != right)
        first.tell(std::min(left, right), std::string(what) + " of " + describe(program, i, either) + "\n  SystemC: cycle " +
                                              number(left) + "\n  RTL: cycle " + number(right));
    };
    check("dispatch", x.dispatched, y.dispatched);
    if (known(x.dispatched) == known(y.dispatched) && (x.pc != y.pc || x.engine != y.engine))
      first.tell(known(x.dispatched), "dispatch in cycle " + number(x.dispatched) + "\n  SystemC: " + describe(program, i, x) +
                                          "\n  RTL: " + describe(program, i, y));
    check("start", x.start, y.start);
    check("issue-free", x.issueFree, y.issueFree);
    check("retirement", x.retire, y.retire);
  }
  // A controller may decide ahead of time, so logs end anywhere after a fault.
  if (horizon == kNever) {
    const size_t commands = std::max(systemc.commands.size(), rtl.commands.size());
    for (size_t i = 0; i < commands; ++i) {
      const bool both = i < systemc.commands.size() && i < rtl.commands.size();
      if (both && same(systemc.commands[i], rtl.commands[i]))
        continue;
      const uint64_t tick = std::min(i < systemc.commands.size() ? systemc.commands[i].tick : kNever,
                                     i < rtl.commands.size() ? rtl.commands[i].tick : kNever);
      std::string text = "DRAM command " + std::to_string(i) + "\n  SystemC: " + describe(systemc.commands, i) +
                         "  RTL: " + describe(rtl.commands, i);
      text.pop_back();
      first.tell(tick * machine.clockMhz / std::max(machine.dram.clockMhz, 1u), text);
      break;
    }
  }
  if (!same(a.fault, b.fault))
    first.tell(horizon, "fault\n  SystemC: " + describe(a.fault) + "\n  RTL: " + describe(b.fault));
  if (!first.text.empty())
    return first.text;

  auto differ = [](const std::string &what, uint64_t left, uint64_t right) {
    return what + "\n  SystemC: " + std::to_string(left) + "\n  RTL: " + std::to_string(right);
  };
  if (a.totalCycles != b.totalCycles)
    return differ("total cycles", a.totalCycles, b.totalCycles);
  // What an engine does in a cycle that ends in a fault is nobody's measure.
  if (horizon != kNever)
    return "";
  for (size_t i = 0; i < std::min(a.engines.size(), b.engines.size()); ++i) {
    for (unsigned label = 0; label < stats::kNumLabels; ++label)
      if (a.engines[i].cycles[label] != b.engines[i].cycles[label])
        return differ("cycles with label '" + std::string(stats::labelName(stats::Label(label))) + "' of " + a.engines[i].name,
                      a.engines[i].cycles[label], b.engines[i].cycles[label]);
    if (a.engines[i].instructions != b.engines[i].instructions)
      return differ("instructions of " + a.engines[i].name, a.engines[i].instructions, b.engines[i].instructions);
  }
  if (a.fetchBytes != b.fetchBytes)
    return differ("bytes of program fetch", a.fetchBytes, b.fetchBytes);
  if (a.dramActivates != b.dramActivates)
    return differ("DRAM activates", a.dramActivates, b.dramActivates);
  if (a.dramReadBytes != b.dramReadBytes)
    return differ("bytes read by loads", a.dramReadBytes, b.dramReadBytes);
  if (a.dramWriteBytes != b.dramWriteBytes)
    return differ("bytes written by stores", a.dramWriteBytes, b.dramWriteBytes);
  if (a.macs != b.macs)
    return differ("multiply-accumulates", a.macs, b.macs);
  return "";
}

std::string cosim::firstDifference(const core::MachineState &systemc, const core::MachineState &rtl, uint64_t dramBytes,
                                   uint64_t &compared) {
  auto look = [&](const std::string &name, const uint8_t *a, const uint8_t *b, uint64_t size) -> std::string {
    compared += size;
    if (!size || std::memcmp(a, b, size) == 0)
      return "";
    const uint64_t at = uint64_t(std::mismatch(a, a + size, b).first - a);
    uint64_t differing = 0;
    for (uint64_t i = at; i < size; ++i)
      differing += a[i] != b[i];
    return "byte " + std::to_string(at) + " of " + name + " after the run (" + std::to_string(differing) +
           " bytes differ)\n  SystemC: " + std::to_string(a[at]) + "\n  RTL: " + std::to_string(b[at]);
  };
  // On-chip memories first: DRAM only shows what came out of them.
  const std::pair<isa::Memory, const char *> memories[] = {{isa::Memory::Scratchpad0, "scratchpad 0"},
                                                           {isa::Memory::Scratchpad1, "scratchpad 1"},
                                                           {isa::Memory::Accumulator, "the accumulator"}};
  for (const auto &[which, name] : memories)
    if (systemc.hasMemory(int64_t(which)))
      if (std::string text =
              look(name, systemc.memory(int64_t(which)), rtl.memory(int64_t(which)), systemc.memorySize(int64_t(which)));
          !text.empty())
        return text;
  const uint64_t size = std::min(dramBytes, systemc.dramSize());
  return look("DRAM", systemc.dram(size), rtl.dram(size), size);
}

Agreement cosim::compare(const isa::Program &program, const timing::MachineParams &machine,
                         const std::vector<std::vector<uint8_t>> &inputs, const CompareOptions &options) {
  Agreement agreement;
  core::MachineState systemcState(machine), rtlState(machine);
  for (core::MachineState *state : {&systemcState, &rtlState})
    if (std::optional<core::Fault> fault = state->prepare(program, inputs)) {
      agreement.rtl.result.fault = agreement.systemc.result.fault = fault;
      return agreement;
    }
  // Building is not running.
  const Result<const RtlTable *> table = loadRtl(machine, false, options.progress);
  RtlOptions rtl;
  rtl.trace = true;
  rtl.maxCycles = options.maxCycles;
  rtl.commands = &agreement.rtl.commands;
  RtlModel model;
  Stopwatch rtlWatch;
  agreement.rtl.result = model.run(program, rtlState, rtl);
  agreement.rtl.seconds = rtlWatch.seconds();
  if (!table) {
    agreement.systemc.result.fault = agreement.rtl.result.fault;
    return agreement;
  }
  systemc::SimOptions timed;
  timed.trace = true;
  timed.maxCycles = options.maxCycles;
  timed.commands = &agreement.systemc.commands;
  Stopwatch systemcWatch;
  agreement.systemc.result = systemc::SystemCModel().run(program, systemcState, timed);
  agreement.systemc.seconds = systemcWatch.seconds();
  timing::sortCommands(agreement.systemc.commands);
  timing::sortCommands(agreement.rtl.commands);

  agreement.difference = firstDifference(program, machine, agreement.systemc, agreement.rtl);
  if (agreement.difference.empty() && !agreement.rtl.result.fault)
    agreement.difference = firstDifference(systemcState, rtlState, dramEnd(program, machine), agreement.memoryBytes);
  if (!model.contradiction().empty())
    agreement.difference = "the RTL contradicts itself: " + model.contradiction() +
                           (agreement.difference.empty() ? "" : "\n" + agreement.difference);
  if (!agreement.rtl.result.fault)
    agreement.outputs = rtlState.readOutputs(program);
  return agreement;
}
