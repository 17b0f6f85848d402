//===- RtlModel.cpp - The Verilated machine as a model --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/cosim/RtlModel.h"

#include "isa/Legality.h"
#include "isa/timing/Dma.h"
#include "simulator/core/FaultText.h"
#include "simulator/cosim/MachinePackage.h"
#include "simulator/cosim/Replay.h"
#include "simulator/cosim/RtlAbi.h"
#include "simulator/systemc/SystemCModel.h"

#include <systemc>

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <utility>

using namespace tw;
using namespace tw::cosim;
using timing::Cycle;
using timing::kNever;

namespace {

/// Upper bits of a tag: who asked.
constexpr unsigned kFetchRequester = 4, kWriteRequester = 5;
/// Cycles per activation of the SystemC process: nothing but the RTL and its DRAM is active meanwhile.
constexpr Cycle kBatch = 1024;

/// One run of the RTL with its DRAM.
class Run {
public:
  Run(const isa::Program &program, core::MachineState &state, const RtlOptions &options, const RtlTable &table)
      : program(program), machine(state.machine()), state(state), options(options), table(table),
        dram(timing::makeDram(machine)), buses(dram->channels()) {
    dram->setCommandLog(options.commands);
    host.context = this;
    host.burstBytes = machine.dram.burstBytes;
    host.burstsPerCycle = machine.burstsPerCycle;
    host.responses = dramResponsesPerCycle(machine);
    host.nextInput = 0;
    host.nextDecision = kNever;
    host.before = [](void *context, uint64_t cycle, RtlInputs *inputs) { static_cast<Run *>(context)->before(cycle, *inputs); };
    host.after = [](void *context, uint64_t cycle, const RtlRequest *requests, uint32_t count) {
      static_cast<Run *>(context)->after(cycle, requests, count);
    };
    host.events = [](void *context, uint64_t cycle, const RtlEvents *events) {
      static_cast<Run *>(context)->events(cycle, *events);
    };
    rtl = table.create(&host);
    if (!options.dumpFile.empty())
      table.dump(rtl, options.dumpFile.c_str(), options.dumpFrom, options.dumpTo);
    table.write(rtl, kRtlCodeAddress, program.codeAddress);
    table.write(rtl, kRtlCodeWords, program.code.size());
  }
  ~Run() { table.destroy(rtl); }

  /// Steps up to `cycles` cycles. False once the machine has stopped, or the limit is reached.
  bool step(Cycle cycles) {
    cycle = table.run(rtl, std::min(cycles, options.maxCycles - cycle), &stopped);
    return !stopped && contradiction.empty() && cycle < options.maxCycles;
  }
  stats::SimResult finish();

  std::string contradiction;

private:
  struct Flight {
    uint16_t tag;
    bool write;
    std::vector<uint8_t> data;
  };

  void before(Cycle t, RtlInputs &inputs);
  void after(Cycle t, const RtlRequest *requests, uint32_t count);
  void events(Cycle t, const RtlEvents &events);
  void complete(const timing::DramCompletion &completion);
  void contradict(const std::string &text) {
    if (contradiction.empty())
      contradiction = text;
  }
  void readFault(stats::SimResult &result);
  std::string faultText(core::FaultKind kind, unsigned engine, Cycle at, uint64_t pc);
  uint32_t layerOf(uint64_t pc) const {
    return pc < program.layerOf.size() && program.layerOf[pc] < program.layers.size() ? program.layerOf[pc] : stats::kNoLayer;
  }

  const isa::Program &program;
  const timing::MachineParams &machine;
  core::MachineState &state;
  const RtlOptions &options;
  const RtlTable &table;
  std::unique_ptr<timing::DramTiming> dram;
  RtlHost host{};
  void *rtl = nullptr;
  Cycle cycle = 0;
  bool stopped = false;

  uint64_t nextId = 0;
  std::map<uint64_t, Flight> flights;                ///< by id, until delivered
  std::multimap<Cycle, uint64_t> arrivals;           ///< completion -> id
  std::vector<std::deque<stats::BusInterval>> buses; ///< what is left of each channel's transfers
  std::vector<uint64_t> delivered;
  uint64_t readBytes = 0, writeBytes = 0, fetchBytes = 0;

  std::vector<stats::InstructionRecord> records;
  /// Per engine: its instructions in order, and how many have started, become issue-free and retired.
  struct Engine {
    std::vector<uint32_t> records;
    size_t started = 0, free = 0, retired = 0;
  };
  std::array<Engine, stats::kSequencer> engines;
};

void Run::before(Cycle t, RtlInputs &inputs) {
  for (uint64_t id : delivered)
    flights.erase(id);
  delivered.clear();
  inputs.reads = inputs.writes = 0;
  inputs.busBusy = 0;
  while (!arrivals.empty() && arrivals.begin()->first <= t) {
    const uint64_t id = arrivals.begin()->second;
    const Flight &flight = flights.at(id);
    if (arrivals.begin()->first < t || (flight.write ? inputs.writes : inputs.reads) >= host.responses) {
      contradict("more than " + std::to_string(host.responses) + " bursts complete in cycle " + std::to_string(t));
      arrivals.erase(arrivals.begin());
      continue;
    }
    if (flight.write) {
      inputs.writeTag[inputs.writes++] = flight.tag;
    } else {
      inputs.readTag[inputs.reads] = flight.tag;
      inputs.readData[inputs.reads++] = flight.data.data();
    }
    delivered.push_back(id);
    arrivals.erase(arrivals.begin());
  }
  // Responses stand for one cycle, so there is something to say in the next one too.
  host.nextInput = inputs.reads + inputs.writes ? t + 1 : kNever;
  if (!arrivals.empty())
    host.nextInput = std::min(host.nextInput, arrivals.begin()->first);
  for (size_t channel = 0; channel < buses.size(); ++channel) {
    std::deque<stats::BusInterval> &bus = buses[channel];
    while (!bus.empty() && bus.front().end < t)
      bus.pop_front();
    if (bus.empty())
      continue;
    // The cycle before t lies in the front interval, or before it.
    const bool busy = bus.front().begin < t && t <= bus.front().end;
    inputs.busBusy |= uint64_t(busy) << channel;
    host.nextInput = std::min(host.nextInput, (busy ? bus.front().end : bus.front().begin) + 1);
  }
}

void Run::complete(const timing::DramCompletion &completion) {
  arrivals.insert({completion.completionCycle, completion.id});
  host.nextInput = std::min(host.nextInput, completion.completionCycle);
  std::deque<stats::BusInterval> &bus = buses[completion.channel];
  if (!bus.empty() && bus.back().end >= completion.busStartCycle)
    bus.back().end = std::max(bus.back().end, completion.busEndCycle);
  else
    bus.push_back({completion.busStartCycle, completion.busEndCycle});
  host.nextInput = std::min(host.nextInput, completion.busStartCycle + 1);
}

void Run::after(Cycle t, const RtlRequest *requests, uint32_t count) {
  const uint32_t burstBytes = host.burstBytes;
  for (uint32_t i = 0; i < count; ++i) {
    const RtlRequest &request = requests[i];
    const unsigned requester = request.tag >> kRtlTagBits;
    if (request.address % burstBytes || request.address + burstBytes > state.dramSize() ||
        (request.write ? requester != kWriteRequester : requester > kFetchRequester)) {
      contradict("cycle " + std::to_string(t) + ": requester " + std::to_string(requester) +
                 (request.write ? " writes" : " reads") + " a burst at " + std::to_string(request.address));
      continue;
    }
    const uint64_t id = nextId++;
    Flight &flight = flights[id];
    flight.tag = uint16_t(request.tag);
    flight.write = request.write;
    uint8_t *memory = state.dram(request.address + burstBytes) + request.address;
    if (request.write) {
      for (uint32_t byte = 0; byte < burstBytes; ++byte)
        if (request.mask[byte / 8] >> (byte % 8) & 1)
          memory[byte] = request.data[byte];
      writeBytes += burstBytes;
    } else {
      flight.data.assign(memory, memory + burstBytes);
      (requester == kFetchRequester ? fetchBytes : readBytes) += burstBytes;
    }
    if (const std::optional<timing::DramCompletion> completion = dram->submit({id, request.address, request.write, t}))
      complete(*completion);
  }
  while (dram->nextDecisionCycle() <= t) {
    std::vector<timing::DramCompletion> completions;
    dram->advance(t, completions);
    for (const timing::DramCompletion &completion : completions)
      complete(completion);
  }
  host.nextDecision = dram->nextDecisionCycle();
}

void Run::events(Cycle t, const RtlEvents &events) {
  auto strange = [&](const std::string &what) { contradict(what + " in cycle " + std::to_string(t)); };
  // An instruction that starts in t was dispatched before.
  for (unsigned e = 0; e < engines.size(); ++e) {
    Engine &engine = engines[e];
    if (events.retire >> e & 1) {
      if (engine.retired == engine.started)
        strange(stats::engineName(e) + " retires an instruction that has not started");
      else
        records[engine.records[engine.retired++]].retire = t;
    }
    if (events.issueFree >> e & 1) {
      if (engine.free == engine.started)
        strange(stats::engineName(e) + " is issue-free without an instruction");
      else
        records[engine.records[engine.free++]].issueFree = t;
    }
    if (events.start >> e & 1) {
      if (engine.started == engine.records.size())
        strange(stats::engineName(e) + " starts an instruction that was not dispatched");
      else
        records[engine.records[engine.started++]].start = t;
    }
  }
  if (!events.dispatch)
    return;
  if (events.dispatchEngine >= engines.size())
    return strange("an instruction is dispatched to engine " + std::to_string(events.dispatchEngine));
  stats::InstructionRecord record;
  record.pc = events.dispatchPc;
  record.engine = events.dispatchEngine;
  record.layer = layerOf(record.pc);
  record.dispatched = t;
  record.visible = t + machine.timing.dispatch_cycles;
  engines[record.engine].records.push_back(uint32_t(records.size()));
  records.push_back(record);
}

/// The message of a fault, from what was dispatched, started and retired.
std::string Run::faultText(core::FaultKind kind, unsigned engine, Cycle at, uint64_t pc) {
  Replay replay(program, machine);
  if (kind == core::FaultKind::IllegalInstruction) {
    for (size_t i = 0; i < records.size(); ++i)
      replay.next();
    if (replay.next() || replay.error().empty())
      contradict("the RTL refuses word " + std::to_string(pc) + ", which is legal");
    return replay.error();
  }
  std::vector<Dispatch> dispatched;
  while (dispatched.size() < records.size()) {
    std::optional<Dispatch> next = replay.next();
    if (!next)
      break;
    dispatched.push_back(std::move(*next));
  }
  if (dispatched.size() < records.size()) {
    contradict("the RTL dispatches more than the program holds");
    return "";
  }
  if (kind == core::FaultKind::OutOfRange) {
    if (engine >= engines.size() || engines[engine].started == engines[engine].records.size()) {
      contradict("an address is out of range in an engine without an instruction");
      return "";
    }
    const Dispatch &head = dispatched[engines[engine].records[engines[engine].started]];
    const std::optional<std::string> why = isa::outOfRange(head.instruction, machine);
    if (!why)
      contradict("the RTL finds word " + std::to_string(pc) + " out of range, which it is not");
    return why.value_or("");
  }
  // Counts: posts that are visible, less what was taken.
  struct Post {
    Cycle visible;
    unsigned engine;
    uint64_t pc, semaphore, count;
  };
  std::vector<Post> posts;
  std::vector<int64_t> counts(std::max<size_t>(machine.semaphores, 64), 0);
  for (size_t i = 0; i < records.size(); ++i) {
    const isa::Header &header = dispatched[i].instruction.header;
    for (size_t j = 0; j < header.wait_count.size(); ++j) {
      if (records[i].start && (kind == core::FaultKind::Deadlock || records[i].start < at))
        counts[size_t(header.wait_semaphore[j])] -= header.wait_count[j];
      const Cycle visible = records[i].retire + machine.timing.semaphore_cycles;
      if (records[i].retire && visible <= at && header.post_count[j])
        posts.push_back(
            {visible, records[i].engine, records[i].pc, uint64_t(header.post_semaphore[j]), uint64_t(header.post_count[j])});
    }
  }
  std::stable_sort(posts.begin(), posts.end(), [](const Post &a, const Post &b) {
    return std::tie(a.visible, a.engine, a.pc) < std::tie(b.visible, b.engine, b.pc);
  });
  for (const Post &post : posts) {
    counts[post.semaphore] += int64_t(post.count);
    if (kind == core::FaultKind::SemaphoreOverflow && post.visible == at && post.engine == engine &&
        counts[post.semaphore] > int64_t(machine.semaphoreMax))
      return core::semaphoreOverflowText(post.semaphore, uint64_t(counts[post.semaphore]), machine.semaphoreMax);
  }
  if (kind == core::FaultKind::SemaphoreOverflow) {
    contradict("no semaphore overflows");
    return "";
  }
  std::vector<core::WaitingHead> heads;
  for (unsigned e = 0; e < engines.size(); ++e) {
    if (engines[e].started == engines[e].records.size())
      continue;
    const uint32_t record = engines[e].records[engines[e].started];
    core::WaitingHead head;
    head.engine = stats::engineName(e);
    head.pc = records[record].pc;
    if (records[record].layer != stats::kNoLayer)
      head.layer = program.layers[records[record].layer].name;
    head.instruction = &dispatched[record].instruction;
    const isa::Header &header = head.instruction->header;
    // Two waits for one semaphore need the sum.
    for (size_t i = 0; i < header.wait_count.size() && head.missingWait < 0; ++i) {
      int64_t need = header.wait_count[i];
      for (size_t j = 0; j < i; ++j)
        if (header.wait_semaphore[j] == header.wait_semaphore[i])
          need += header.wait_count[j];
      if (header.wait_count[i] && counts[size_t(header.wait_semaphore[i])] < need) {
        head.missingWait = int(i);
        head.count = uint64_t(counts[size_t(header.wait_semaphore[i])]);
      }
    }
    heads.push_back(head);
  }
  const std::optional<Dispatch> next = replay.next();
  return core::deadlockText(heads, next ? core::sequencerWaitText(stats::engineName(next->engine)) : "");
}

void Run::readFault(stats::SimResult &result) {
  const uint64_t status = table.read(rtl, kRtlStatus);
  core::Fault fault;
  unsigned engine = stats::kSequencer;
  // Done, fault, kind, engine.
  if (status & ~uint64_t(0xfff3))
    return contradict("the status register has bits that mean nothing");
  if (stopped && (status & 2)) {
    const unsigned kind = status >> 4 & 15;
    constexpr core::FaultKind kinds[] = {core::FaultKind::IllegalInstruction, core::FaultKind::OutOfRange,
                                         core::FaultKind::SemaphoreOverflow, core::FaultKind::Deadlock};
    if (kind < 1 || kind > 4)
      return contradict("the status register tells of fault kind " + std::to_string(kind));
    fault.kind = kinds[kind - 1];
    engine = status >> 8 & 255;
    fault.pc = table.read(rtl, kRtlFaultPc);
    fault.cycle = table.read(rtl, kRtlCycles);
    if (engine >= stats::kNumEngines)
      return contradict("the status register tells of engine " + std::to_string(engine));
    fault.message = faultText(fault.kind, engine, fault.cycle, fault.pc);
  } else if (!stopped && contradiction.empty()) {
    fault.kind = core::FaultKind::LimitReached;
    fault.cycle = options.maxCycles;
    fault.message = "the program is not finished";
    Replay replay(program, machine);
    for (size_t i = 0; i < records.size(); ++i)
      replay.next();
    fault.pc = replay.pc();
  } else {
    return;
  }
  fault.engine = stats::engineName(engine);
  if (const uint32_t layer = layerOf(fault.pc); layer != stats::kNoLayer)
    fault.layer = program.layers[layer].name;
  result.fault = std::move(fault);
}

stats::SimResult Run::finish() {
  stats::SimResult result;
  const Cycle visible = cycle;
  readFault(result);
  result.totalCycles = result.fault ? result.fault->cycle : table.read(rtl, kRtlCycles);
  if (!result.fault && contradiction.empty() && result.totalCycles != visible)
    contradict("done is visible in cycle " + std::to_string(visible) + ", and the cycle register holds " +
               std::to_string(result.totalCycles));
  result.dramReadBytes = readBytes;
  result.dramWriteBytes = writeBytes;
  result.fetchBytes = fetchBytes;
  result.dramActivates = dram->activates();
  result.dram = dram->counts();

  for (unsigned number = 0; number < stats::kNumEngines; ++number) {
    if (!stats::hasEngine(machine, number))
      continue;
    stats::EngineResult engine;
    engine.engine = number;
    engine.name = stats::engineName(number);
    if (number < engines.size())
      engine.instructions = engines[number].started;
    Cycle sum = 0;
    for (unsigned label = 0; label < stats::kNumLabels; ++label) {
      engine.cycles[label] = table.read(rtl, kRtlCounters + 8 * (number * stats::kNumLabels + label));
      sum += engine.cycles[label];
    }
    if (stopped && sum != result.totalCycles)
      contradict("the labels of " + engine.name + " add up to " + std::to_string(sum) + " cycles of " +
                 std::to_string(result.totalCycles));
    result.instructionCount += engine.instructions;
    result.engines.push_back(std::move(engine));
  }

  // What the trace leaves out follows from the order of dispatch.
  result.layers.resize(program.layers.size());
  for (size_t i = 0; i < program.layers.size(); ++i)
    result.layers[i].name = program.layers[i].name;
  Replay replay(program, machine);
  std::deque<uint64_t> shadowColumns;
  uint64_t activeColumns = 0;
  for (const stats::InstructionRecord &record : records) {
    const std::optional<Dispatch> next = replay.next();
    if (!next || next->pc != record.pc || next->engine != record.engine) {
      contradict("cycle " + std::to_string(record.dispatched) + ": the RTL dispatches word " + std::to_string(record.pc) +
                 " to " + stats::engineName(record.engine) +
                 (next ? ", and the program has word " + std::to_string(next->pc) + " for " + stats::engineName(next->engine)
                       : ", and the program has nothing more"));
      break;
    }
    uint64_t macs = 0, vectorMacs = 0, read = 0, written = 0;
    const isa::Instruction &instruction = next->instruction;
    if (const isa::Preload *preload = instruction.getIf<isa::Preload>()) {
      shadowColumns.push_back(uint64_t(preload->n_count));
    } else if (const isa::Tensor *tensor = instruction.getIf<isa::Tensor>()) {
      if (tensor->swap && !shadowColumns.empty()) {
        activeColumns = shadowColumns.front();
        shadowColumns.pop_front();
      }
      macs = uint64_t(tensor->counts[0] * tensor->counts[1] * tensor->counts[2] * tensor->k_count) * activeColumns;
    } else if (const isa::Vector *vector = instruction.getIf<isa::Vector>()) {
      if (isa::WindowOp(vector->window_op) == isa::WindowOp::Mac)
        macs = vectorMacs = uint64_t(vector->counts[0] * vector->counts[1] * vector->counts[2] * vector->counts[3] *
                                     vector->window[0] * vector->window[1]) *
                            machine.lanes;
    } else if (const isa::Load *load = instruction.getIf<isa::Load>()) {
      read = timing::costOf(timing::boxOf(*load), machine.dram.burstBytes).bursts * machine.dram.burstBytes;
    } else if (const isa::Store *store = instruction.getIf<isa::Store>()) {
      written = timing::costOf(timing::boxOf(*store), machine.dram.burstBytes).bursts * machine.dram.burstBytes;
    }
    result.macs += macs;
    stats::LayerResult &layer = result.layer(record.layer);
    if (record.start && layer.instructions++ == 0)
      layer.firstStart = record.start;
    layer.firstStart = record.start ? std::min(layer.firstStart, record.start) : layer.firstStart;
    layer.lastRetire = std::max(layer.lastRetire, record.retire);
    layer.macs += macs;
    layer.vectorMacs += vectorMacs;
    layer.dramReadBytes += read;
    layer.dramWriteBytes += written;
  }
  if (!result.fault && contradiction.empty()) {
    if (replay.next() || !replay.error().empty())
      contradict("the RTL halts before the program does");
    for (const Engine &engine : engines)
      if (engine.retired != engine.records.size() || engine.free != engine.records.size())
        contradict("the RTL is done before its instructions are");
  }
  result.dispatchedWords = replay.words();
  for (uint32_t memory : {0u, 1u, uint32_t(isa::Memory::Accumulator)})
    if (state.hasMemory(memory) && !table.memory(rtl, memory, state.memory(memory), state.memorySize(memory)))
      contradict("the RTL has no memory " + std::to_string(memory) + " of " + std::to_string(state.memorySize(memory)) +
                 " bytes");
  if (options.trace)
    result.instructions = std::move(records);
  return result;
}

/// The RTL's place in the SystemC simulation.
class RtlProcess : public sc_core::sc_module {
public:
  explicit RtlProcess(sc_core::sc_module_name name) : sc_module(name), go("go") {
    SC_HAS_PROCESS(RtlProcess);
    SC_METHOD(step);
    sensitive << go;
    dont_initialize();
  }
  void execute(Run &next) {
    run = &next;
    go.notify(sc_core::SC_ZERO_TIME);
    sc_core::sc_start(sc_core::sc_max_time() - sc_core::sc_time_stamp(), sc_core::SC_EXIT_ON_STARVATION);
    if (thrown)
      std::rethrow_exception(std::exchange(thrown, nullptr));
  }

private:
  void step() {
    // One cycle is 1 ns, as in the SystemC model.
    try {
      if (run->step(kBatch))
        next_trigger(sc_core::sc_time(double(kBatch), sc_core::SC_NS));
    } catch (...) {
      thrown = std::current_exception(); // SystemC itself would only report that a process failed
    }
  }

  sc_core::sc_event go;
  Run *run = nullptr;
  std::exception_ptr thrown;
};

RtlProcess *process = nullptr;

/// Its module must exist before anything runs.
struct Registration {
  Registration() {
    systemc::SystemCModel::alsoMake([] { process = new RtlProcess("rtl"); });
  }
} registration;

} // namespace

stats::SimResult RtlModel::run(const isa::Program &program, core::MachineState &state, const RtlOptions &options) {
  contradicts.clear();
  stats::SimResult result;
  auto bad = [&](const std::string &message) {
    result.fault = core::Fault{core::FaultKind::BadInput, 0, stats::engineName(stats::kSequencer), message, "", 0};
    return result;
  };
  const Result<const RtlTable *> table = loadRtl(state.machine(), !options.dumpFile.empty(), options.progress);
  if (!table)
    return bad(table.message());
  systemc::SystemCModel::elaborate();
  Run run(program, state, options, **table);
  process->execute(run);
  result = run.finish();
  contradicts = run.contradiction;
  return result;
}

stats::SimResult RtlModel::run(const isa::Program &program, const timing::MachineParams &machine,
                               const std::vector<std::vector<uint8_t>> &inputs, std::vector<std::vector<uint8_t>> &outputs,
                               const RtlOptions &options) {
  outputs.clear();
  core::MachineState state(machine);
  stats::SimResult result;
  result.fault = state.prepare(program, inputs);
  if (result.fault)
    return result;
  result = run(program, state, options);
  if (!result.fault)
    outputs = state.readOutputs(program);
  return result;
}
