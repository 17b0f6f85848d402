//===- SteppedModel.cpp - The timing rules, one cycle at a time -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/timing/engines/SteppedModel.h"

#include "isa/Legality.h"
#include "isa/Odometer.h"
#include "isa/timing/Dma.h"
#include "isa/timing/Dram.h"
#include "isa/timing/InstructionTiming.h"

#include <deque>
#include <map>

namespace tw::test {
namespace {

using stats::Label;
using timing::Cycle;
constexpr Cycle kUnknown = timing::kNever;

struct Queued {
  isa::Instruction instruction;
  Cycle visible;
  uint64_t banks;
  size_t record;
};

struct Running {
  isa::Header header;
  uint64_t banks;
  size_t record;
  Cycle readyAt = kUnknown; ///< retires then, or later to keep the order
};

/// One piece that moves through a load engine's scratchpad port.
struct Segment {
  int64_t burst = -1; ///< -1: fill
  Cycle notBefore = 0;
  bool lastOfBurst = false, lastOfBox = false;
};

struct EngineState {
  std::deque<Queued> queue;
  std::deque<Cycle> slotReturns; ///< when slots of started instructions become free
  Cycle issueFree = 0;
  std::deque<Running> running;
  Cycle lastRetire = 0;
  bool hasRetired = false;
  Cycle lastFed = 0;

  // Loads and stores.
  std::deque<timing::BoxBurst> bursts;            ///< of the current box, not requested or not gathered
  Cycle boxFrom = 0;                              ///< end of set-up
  std::deque<bool> walk;                          ///< loads: segments the request side has not passed; true needs a request
  uint32_t steps = 0;                             ///< loads: segments it may still pass in this cycle
  std::deque<Segment> segments;                   ///< loads
  std::vector<Cycle> returned;                    ///< loads: R_i
  std::vector<unsigned> channel;                  ///< loads: of burst i
  std::vector<Cycle> raw;                         ///< completions as the DRAM gives them
  uint64_t freed = 0;                             ///< loads: bursts whose last segment has moved
  std::deque<size_t> boxes;                       ///< loads: records of boxes with segments left
  uint32_t gatherLeft = 0;                        ///< stores: segments of the burst being gathered
  std::deque<std::pair<uint64_t, Cycle>> offered; ///< stores: address, offered from
  std::vector<Cycle> accepts;
  uint64_t gathered = 0;

  // This cycle.
  bool active = false;
  std::optional<Label> held;
};

class Stepped {
public:
  Stepped(const isa::Program &program, const timing::MachineParams &machine)
      : program(program), machine(machine), time(machine.timing), dram(timing::makeDram(machine)), counts(64, 0),
        odometers(program.code.size()) {}

  SteppedResult run(Cycle limit);

private:
  static constexpr unsigned kFetch = stats::kMaxLoadEngines, kWrites = kFetch + 1;

  void retirements();
  void starts();
  bool canStart(unsigned e, const Queued &head, Label &why);
  void start(unsigned e);
  void sequencer();
  void port();
  void dataPaths();
  void labels();
  void complete(const timing::DramCompletion &completion);
  void walk(EngineState &engine);
  bool wants(unsigned requester);
  uint64_t nextAddress(unsigned requester);
  void request(unsigned requester, uint64_t address);
  void stop(core::FaultKind kind) {
    if (!result.fault)
      result.fault = kind;
  }

  const isa::Program &program;
  const timing::MachineParams &machine;
  const timing::TimingConstants &time;
  std::unique_ptr<timing::DramTiming> dram;
  SteppedResult result;
  Cycle t = 0;

  std::array<EngineState, stats::kSequencer> engines;
  std::vector<int64_t> counts;
  std::multimap<Cycle, std::pair<unsigned, int64_t>> posts;         ///< visible at
  std::multimap<Cycle, std::pair<unsigned, uint64_t>> bankReleases; ///< oldest mask of an engine
  std::array<std::deque<uint64_t>, stats::kSequencer> ownedBanks;

  bool shadowFull = false;
  Cycle shadowFreeFrom = 0, shadowReadyFrom = kUnknown;
  std::vector<std::array<Cycle, 3>> tensors; ///< start, first row, one past the last row

  // Sequencer.
  std::vector<isa::OdometerState> odometers;
  uint64_t pc = 0, frontier = 0, fetched = 0;
  unsigned taken = 0;
  struct Loop {
    uint64_t begin, end, left;
  };
  std::vector<Loop> loops;
  bool halted = false;
  std::vector<Cycle> wordReady; ///< per word: takeable from
  std::vector<Cycle> wordTaken; ///< per word: first taken in
  std::vector<Cycle> fetchRaw, fetchReturned;
  std::optional<std::optional<isa::Instruction>> resolved;
  bool fetchActive = false, took = false, queueFull = false;
  Cycle haltAt = 0;

  // Port.
  uint64_t nextId = 0;
  std::map<uint64_t, std::pair<unsigned, uint64_t>> inFlight; ///< id -> requester, burst
  std::map<uint64_t, Cycle> readDone;                         ///< reads in flight -> completion
  int granted = -1;
  Cycle grantedIn = 0;
  uint32_t grantLength = 0;
  struct Write {
    uint64_t address;
    Cycle accepted;
    bool submitted = false;
    Cycle done = kUnknown;
  };
  std::deque<Write> buffer;
  bool draining = false;
  Cycle lastWriteDone = 0;

  // Labels that need the bus are decided at the end: engine, cycle, channel (kUnknown: always latency).
  std::vector<std::tuple<unsigned, Cycle, Cycle>> busQuestions;
  std::vector<std::pair<unsigned, Cycle>> rest; ///< starved or idle
};

void Stepped::retirements() {
  for (unsigned e = 0; e < engines.size(); ++e) {
    EngineState &engine = engines[e];
    if (engine.running.empty())
      continue;
    Running &oldest = engine.running.front();
    if (oldest.readyAt > t || (engine.hasRetired && engine.lastRetire >= t))
      continue;
    engine.hasRetired = true;
    engine.lastRetire = t;
    result.instructions[oldest.record].retire = t;
    for (size_t i = 0; i < 3; ++i)
      if (oldest.header.post_count[i])
        posts.insert({t + time.semaphore_cycles, {unsigned(oldest.header.post_semaphore[i]), oldest.header.post_count[i]}});
    bankReleases.insert({t + time.bank_release_cycles, {e, 0}});
    if (e == stats::kPreload)
      shadowReadyFrom = t + time.shadow_ready_cycles;
    engine.running.pop_front();
  }
  // Posts and releases of this cycle; an overflow is seen after all takes of earlier cycles.
  for (; !posts.empty() && posts.begin()->first <= t; posts.erase(posts.begin())) {
    counts[posts.begin()->second.first] += posts.begin()->second.second;
    if (counts[posts.begin()->second.first] > machine.semaphoreMax)
      stop(core::FaultKind::SemaphoreOverflow);
  }
  for (; !bankReleases.empty() && bankReleases.begin()->first <= t; bankReleases.erase(bankReleases.begin()))
    ownedBanks[bankReleases.begin()->second.first].pop_front();
}

bool Stepped::canStart(unsigned e, const Queued &head, Label &why) {
  std::map<int64_t, int64_t> need;
  const isa::Header &header = head.instruction.header;
  for (size_t i = 0; i < 3; ++i)
    if (header.wait_count[i])
      need[header.wait_semaphore[i]] += header.wait_count[i];
  for (const auto &[semaphore, count] : need)
    if (counts[size_t(semaphore)] < count) {
      why = Label::Operand;
      return false;
    }
  why = Label::Interlock;
  if (head.instruction.getIf<isa::Preload>() && (shadowFull || t < shadowFreeFrom))
    return false;
  if (const isa::Tensor *tensor = head.instruction.getIf<isa::Tensor>()) {
    if (tensor->swap && (!shadowFull || t < shadowReadyFrom))
      return false;
    for (const auto &[start, begin, end] : tensors)
      if (int64_t(begin) < tensor->acc_address + tensor->acc_span && tensor->acc_address < int64_t(end) &&
          t < start + timing::accumulatorDistance(machine))
        return false;
  }
  const EngineState &engine = engines[e];
  const bool isDma = stats::engineKind(e) == timing::EngineKind::Load || stats::engineKind(e) == timing::EngineKind::Store;
  const bool retiredNow = engine.hasRetired && engine.lastRetire == t;
  if (isDma && engine.running.size() + retiredNow >= time.dma_boxes)
    return false;
  why = Label::BankConflict;
  for (unsigned other = 0; other < ownedBanks.size(); ++other)
    if (other != e)
      for (const uint64_t banks : ownedBanks[other])
        if (banks & head.banks)
          return false;
  return true;
}

void Stepped::start(unsigned e) {
  EngineState &engine = engines[e];
  const Queued head = engine.queue.front();
  engine.queue.pop_front();
  engine.slotReturns.push_back(t + time.queue_free_cycles);
  const isa::Header &header = head.instruction.header;
  for (size_t i = 0; i < 3; ++i)
    if (header.wait_count[i])
      counts[size_t(header.wait_semaphore[i])] -= header.wait_count[i];
  ownedBanks[e].push_back(head.banks);
  stats::InstructionRecord &record = result.instructions[head.record];
  record.start = t;
  Running running{header, head.banks, head.record};
  auto closedForm = [&](timing::InstructionTime instruction) {
    engine.issueFree = record.issueFree = t + instruction.occupancy;
    running.readyAt = engine.issueFree + instruction.drain;
  };
  if (const isa::Preload *preload = head.instruction.getIf<isa::Preload>()) {
    shadowFull = true;
    shadowReadyFrom = kUnknown;
    closedForm(timing::timeOf(*preload, machine));
  } else if (const isa::Tensor *tensor = head.instruction.getIf<isa::Tensor>()) {
    if (tensor->swap) {
      shadowFull = false;
      shadowFreeFrom = t + time.shadow_free_cycles;
    }
    tensors.push_back({t, Cycle(tensor->acc_address), Cycle(tensor->acc_address + tensor->acc_span)});
    if (tensors.size() > 16)
      tensors.erase(tensors.begin());
    closedForm(timing::timeOf(*tensor, machine));
  } else if (const isa::Vector *vector = head.instruction.getIf<isa::Vector>()) {
    closedForm(timing::timeOf(*vector, machine));
  } else {
    const isa::Load *load = head.instruction.getIf<isa::Load>();
    const timing::Box box = load ? timing::boxOf(*load) : timing::boxOf(head.instruction.as<isa::Store>());
    timing::BurstCutter cutter(box, machine.dram.burstBytes);
    engine.boxFrom = t + time.dma_setup_cycles;
    engine.issueFree = kUnknown;
    if (load) {
      engine.boxes.push_back(head.record);
      for (uint64_t i = 0; i < cutter.leadingFills(); ++i)
        engine.segments.push_back({-1, engine.boxFrom, false, false});
      engine.walk.assign(cutter.leadingFills(), false);
      int64_t burst = int64_t(engine.raw.size() + engine.bursts.size());
      while (!cutter.done()) {
        const timing::BoxBurst cut = cutter.next();
        engine.bursts.push_back(cut);
        for (uint32_t i = 0; i < cut.segments; ++i) {
          engine.segments.push_back({burst, 0, i + 1 == cut.segments, false});
          engine.walk.push_back(i == 0);
        }
        ++burst;
      }
      engine.segments.back().lastOfBox = true;
    } else {
      while (!cutter.done())
        engine.bursts.push_back(cutter.next());
      engine.gatherLeft = engine.bursts.front().segments;
    }
  }
  engine.running.push_back(running);
}

void Stepped::starts() {
  for (unsigned e = 0; e < engines.size(); ++e) {
    EngineState &engine = engines[e];
    engine.held.reset();
    if (engine.queue.empty() || engine.queue.front().visible > t || engine.issueFree > t)
      continue;
    Label why;
    if (!canStart(e, engine.queue.front(), why)) {
      engine.held = why;
      continue;
    }
    if (isa::outOfRange(engine.queue.front().instruction, machine)) {
      stop(core::FaultKind::OutOfRange);
      return;
    }
    start(e);
  }
}

void Stepped::sequencer() {
  took = queueFull = false;
  if (halted)
    return;
  if (pc + taken >= program.code.size())
    return stop(core::FaultKind::IllegalInstruction);
  if (t < wordReady[pc + taken])
    return;
  const uint64_t word = pc + taken;
  const unsigned length = std::max(1u, unsigned(program.code[pc][0] >> 6) & 15);
  auto take = [&] {
    took = true;
    ++taken;
    if (word == frontier) {
      wordTaken[word] = t;
      ++frontier;
    }
  };
  auto finish = [&] {
    pc += length;
    taken = 0;
    resolved.reset();
    while (!loops.empty() && pc == loops.back().end) {
      if (--loops.back().left) {
        pc = loops.back().begin;
        break;
      }
      loops.pop_back();
    }
  };
  if (taken + 1 < length)
    return take();
  const isa::Decoded decoded = isa::decode(&program.code[pc], program.code.size() - pc);
  if (!decoded || isa::illegal(decoded.instruction, machine))
    return stop(core::FaultKind::IllegalInstruction);
  // Nothing reaches beyond the body that it is in.
  const isa::Loop *loop = decoded.instruction.getIf<isa::Loop>();
  if (!loops.empty() && pc + length + uint64_t(loop ? loop->body_words : 0) > loops.back().end)
    return stop(core::FaultKind::IllegalInstruction);
  if (loop && loops.size() == size_t(isa::kMaxLoopDepth))
    return stop(core::FaultKind::IllegalInstruction);
  if (decoded.instruction.getIf<isa::Halt>()) {
    take();
    halted = true;
    haltAt = t;
    return;
  }
  if (loop) {
    take();
    if (loops.empty())
      for (uint64_t i = pc + length; i < pc + length + uint64_t(loop->body_words); ++i)
        odometers[i].reset();
    loops.push_back({pc + length, pc + length + uint64_t(loop->body_words), uint64_t(loop->count)});
    return finish();
  }
  if (!resolved)
    resolved = isa::resolve(decoded.instruction, odometers[pc]);
  if (!*resolved) {
    take();
    return finish();
  }
  const unsigned e = stats::engineNumber((*resolved)->engine(), unsigned((*resolved)->header.unit));
  EngineState &engine = engines[e];
  while (!engine.slotReturns.empty() && engine.slotReturns.front() <= t)
    engine.slotReturns.pop_front();
  if (engine.queue.size() + engine.slotReturns.size() >= machine.queueDepth) {
    queueFull = true;
    return;
  }
  take();
  stats::InstructionRecord record;
  record.pc = pc;
  record.engine = e;
  record.dispatched = t;
  record.visible = engine.lastFed = t + time.dispatch_cycles;
  engine.queue.push_back({**resolved, record.visible,
                          isa::outOfRange(**resolved, machine) ? 0 : isa::bankMask(**resolved, machine),
                          result.instructions.size()});
  result.instructions.push_back(record);
  finish();
}

/// Passes what needs no request, as far as this cycle's steps go.
void Stepped::walk(EngineState &engine) {
  if (engine.issueFree != kUnknown || t < engine.boxFrom)
    return;
  for (; engine.steps && !engine.walk.empty() && !engine.walk.front(); --engine.steps)
    engine.walk.pop_front();
  if (engine.walk.empty()) {
    engine.issueFree = t + 1;
    result.instructions[engine.boxes.back()].issueFree = t + 1;
  }
}

bool Stepped::wants(unsigned requester) {
  if (requester == kFetch) {
    if (t < time.start_cycles || fetched >= program.code.size())
      return false;
    // Words this burst completes, and room for them in what was taken before this cycle.
    const uint64_t base = program.codeAddress & ~uint64_t(machine.dram.burstBytes - 1);
    const uint64_t end = base + (fetchRaw.size() + 1) * machine.dram.burstBytes;
    const uint64_t after =
        std::min<uint64_t>(program.code.size(), (end - std::min(end, program.codeAddress)) / isa::kWordBytes);
    uint64_t takenBefore = frontier;
    while (takenBefore && wordTaken[takenBefore - 1] >= t)
      --takenBefore;
    return after - takenBefore <= machine.prefetchWords || takenBefore == fetched;
  }
  if (requester < kFetch) {
    EngineState &engine = engines[stats::kFirstLoad + requester];
    return !engine.walk.empty() && engine.walk.front() && engine.steps && t >= engine.boxFrom &&
           engine.raw.size() - engine.freed < machine.outstandingBursts;
  }
  for (const Write &write : buffer)
    if (!write.submitted)
      return write.accepted < t;
  return false;
}

uint64_t Stepped::nextAddress(unsigned requester) {
  if (requester == kFetch)
    return (program.codeAddress & ~uint64_t(machine.dram.burstBytes - 1)) + fetchRaw.size() * machine.dram.burstBytes;
  if (requester < kFetch)
    return engines[stats::kFirstLoad + requester].bursts.front().address;
  for (const Write &write : buffer)
    if (!write.submitted)
      return write.address;
  return 0;
}

void Stepped::request(unsigned requester, uint64_t address) {
  const uint64_t id = nextId++;
  uint64_t burst = 0;
  if (requester == kFetch) {
    burst = fetchRaw.size();
    fetchRaw.push_back(kUnknown);
    fetchReturned.push_back(kUnknown);
    const uint64_t base = program.codeAddress & ~uint64_t(machine.dram.burstBytes - 1);
    const uint64_t end = base + (burst + 1) * machine.dram.burstBytes;
    fetched = std::min<uint64_t>(program.code.size(), (end - std::min(end, program.codeAddress)) / isa::kWordBytes);
    fetchActive = true;
    readDone[id] = kUnknown;
  } else if (requester < kFetch) {
    EngineState &engine = engines[stats::kFirstLoad + requester];
    burst = engine.raw.size();
    engine.raw.push_back(kUnknown);
    engine.returned.push_back(kUnknown);
    engine.channel.push_back(dram->channelOf(address));
    engine.bursts.pop_front();
    engine.active = true;
    readDone[id] = kUnknown;
    engine.walk.pop_front();
    --engine.steps;
    walk(engine);
  } else {
    for (Write &write : buffer)
      if (!write.submitted) {
        write.submitted = true;
        burst = id;
        write.address = id; // from here on the entry is known by its request
        break;
      }
  }
  inFlight[id] = {requester, burst};
  if (const std::optional<timing::DramCompletion> completion = dram->submit({id, address, requester == kWrites, t}))
    complete(*completion);
}

void Stepped::complete(const timing::DramCompletion &completion) {
  const auto [requester, burst] = inFlight.at(completion.id);
  inFlight.erase(completion.id);
  if (requester == kWrites) {
    for (Write &write : buffer)
      if (write.submitted && write.address == completion.id)
        write.done = completion.completionCycle;
    lastWriteDone = std::max(lastWriteDone, completion.completionCycle);
    return;
  }
  readDone[completion.id] = completion.completionCycle;
  std::vector<Cycle> &raw = requester == kFetch ? fetchRaw : engines[stats::kFirstLoad + requester].raw;
  std::vector<Cycle> &returned = requester == kFetch ? fetchReturned : engines[stats::kFirstLoad + requester].returned;
  raw[burst] = completion.completionCycle;
  for (size_t i = burst; i < raw.size() && raw[i] != kUnknown && (i == 0 || returned[i - 1] != kUnknown); ++i)
    returned[i] = std::max(raw[i], i ? returned[i - 1] : 0);
  if (requester != kFetch)
    return;
  const uint64_t base = program.codeAddress & ~uint64_t(machine.dram.burstBytes - 1);
  for (uint64_t word = 0; word < program.code.size(); ++word) {
    const uint64_t last = (program.codeAddress + (word + 1) * isa::kWordBytes - 1 - base) / machine.dram.burstBytes;
    if (last >= burst && last < fetchReturned.size() && fetchReturned[last] != kUnknown)
      wordReady[word] = fetchReturned[last] + time.fetch_cycles;
    if (last > burst + 64)
      break;
  }
}

void Stepped::port() {
  const timing::DramParams &params = machine.dram;
  while (!buffer.empty() && buffer.front().done <= t)
    buffer.pop_front();
  for (auto read = readDone.begin(); read != readDone.end();)
    read = read->second < t ? readDone.erase(read) : std::next(read);
  for (unsigned e = stats::kFirstLoad; e < stats::kSequencer; ++e) {
    engines[e].steps = machine.burstsPerCycle;
    walk(engines[e]);
  }
  // The search order: draining writes, loads, fetch, idle writes.
  struct Requester {
    unsigned who;
    bool keeps;
    bool wants;
  };
  std::vector<Requester> order;
  order.push_back({kWrites, true, draining && wants(kWrites)});
  for (unsigned reader = 0; reader <= kFetch; ++reader)
    order.push_back({reader, true, wants(reader)});
  order.push_back({kWrites, false, readDone.empty() && wants(kWrites)});

  int choice = -1;
  size_t first = 0;
  if (granted >= 0 && grantedIn + 1 == t && order[granted].wants) {
    if (grantLength < params.grantBursts)
      choice = granted;
    else
      first = size_t(granted) + 1;
  }
  if (choice < 0) {
    for (size_t i = 0; i < order.size() && choice < 0; ++i)
      if (order[(first + i) % order.size()].wants)
        choice = int((first + i) % order.size());
    grantLength = 0;
  }
  granted = -1;
  if (choice >= 0) {
    if (order[choice].keeps) {
      granted = choice;
      grantedIn = t;
    }
    std::vector<bool> used(dram->channels(), false);
    for (uint32_t n = 0; n < machine.burstsPerCycle && wants(order[choice].who); ++n) {
      const uint64_t address = nextAddress(order[choice].who);
      if (used[dram->channelOf(address)])
        break;
      used[dram->channelOf(address)] = true;
      request(order[choice].who, address);
      ++grantLength;
    }
  }
  // Accepts.
  uint32_t accepts = 0;
  for (unsigned e = 0; e < stats::kMaxStoreEngines; ++e) {
    EngineState &engine = engines[e];
    while (!engine.offered.empty() && engine.offered.front().second <= t && buffer.size() < params.writeBufferBursts &&
           accepts < machine.burstsPerCycle) {
      ++accepts;
      buffer.push_back({engine.offered.front().first, t});
      engine.offered.pop_front();
      engine.accepts.push_back(t);
      engine.active = true;
      if (engine.offered.empty() && engine.bursts.empty()) {
        engine.issueFree = t + 1;
        result.instructions[engine.running.back().record].issueFree = t + 1;
        engine.running.back().readyAt = t + time.dma_drain_cycles;
      }
    }
  }
  uint32_t waiting = 0;
  for (const Write &write : buffer)
    waiting += !write.submitted;
  const timing::Watermarks marks = timing::portWatermarks(params);
  if (waiting >= marks.high)
    draining = true;
  else if (waiting <= marks.low)
    draining = false;
  while (dram->nextDecisionCycle() <= t) {
    std::vector<timing::DramCompletion> completions;
    dram->advance(t, completions);
    for (const timing::DramCompletion &completion : completions)
      complete(completion);
  }
}

void Stepped::dataPaths() {
  for (unsigned e = stats::kFirstLoad; e < stats::kSequencer; ++e) {
    EngineState &engine = engines[e];
    for (uint32_t n = 0; n < machine.burstsPerCycle && !engine.segments.empty(); ++n) {
      const Segment segment = engine.segments.front();
      if (segment.burst >= 0) {
        const size_t burst = size_t(segment.burst);
        if (burst >= engine.returned.size() || engine.returned[burst] == kUnknown || engine.returned[burst] >= t)
          break;
      } else if (segment.notBefore > t) {
        break;
      }
      engine.segments.pop_front();
      engine.active = true;
      engine.freed += segment.lastOfBurst;
      if (segment.lastOfBox) {
        for (Running &running : engine.running)
          if (running.record == engine.boxes.front())
            running.readyAt = t + time.dma_drain_cycles;
        engine.boxes.pop_front();
      }
    }
  }
  for (unsigned e = 0; e < stats::kMaxStoreEngines; ++e) {
    EngineState &engine = engines[e];
    for (uint32_t n = 0; n < machine.burstsPerCycle && !engine.bursts.empty() && t >= engine.boxFrom; ++n) {
      if (engine.gathered >= machine.outstandingBursts) {
        const size_t before = engine.gathered - machine.outstandingBursts;
        if (before >= engine.accepts.size() || engine.accepts[before] >= t)
          break;
      }
      engine.active = true;
      if (--engine.gatherLeft)
        continue;
      engine.offered.push_back({engine.bursts.front().address, t + 1});
      engine.bursts.pop_front();
      ++engine.gathered;
      if (!engine.bursts.empty())
        engine.gatherLeft = engine.bursts.front().segments;
    }
  }
}

void Stepped::labels() {
  auto note = [&](unsigned e, Label label) { ++result.labels[e][unsigned(label)]; };
  for (unsigned e = 0; e < engines.size(); ++e) {
    EngineState &engine = engines[e];
    const bool dma = stats::engineKind(e) == timing::EngineKind::Load || stats::engineKind(e) == timing::EngineKind::Store;
    const bool busy = dma ? engine.active : engine.issueFree > t;
    engine.active = false;
    if (busy) {
      note(e, Label::Busy);
      continue;
    }
    if (engine.held) {
      note(e, *engine.held);
      continue;
    }
    if (stats::engineKind(e) == timing::EngineKind::Load && !engine.segments.empty()) {
      // Waiting for a burst, or for the end of set-up.
      const Segment &next = engine.segments.front();
      if (next.burst < 0)
        busQuestions.push_back({e, t, kUnknown});
      else if (size_t(next.burst) < engine.channel.size())
        busQuestions.push_back({e, t, engine.channel[size_t(next.burst)]});
      else
        busQuestions.push_back({e, t, dram->channelOf(engine.bursts.front().address)});
      continue;
    }
    if (stats::engineKind(e) == timing::EngineKind::Store) {
      if (!engine.bursts.empty() && t < engine.boxFrom) {
        note(e, Label::DramLatency);
        continue;
      }
      if (!engine.offered.empty() && engine.offered.front().second <= t) {
        note(e, Label::BufferFull);
        continue;
      }
    }
    rest.push_back({e, t});
  }
  const unsigned s = stats::kSequencer;
  if (took || fetchActive)
    note(s, Label::Busy);
  else if (queueFull)
    note(s, Label::BufferFull);
  else if (halted)
    note(s, Label::Idle);
  else {
    const uint64_t word = pc + taken;
    const uint64_t address = program.codeAddress + (word + 1) * isa::kWordBytes - 1;
    busQuestions.push_back({s, t, dram->channelOf(address / machine.dram.burstBytes * machine.dram.burstBytes)});
  }
  fetchActive = false;
}

SteppedResult Stepped::run(Cycle limit) {
  const size_t words = program.code.size();
  wordReady.assign(words + 1, kUnknown);
  wordTaken.assign(words + 1, kUnknown);
  for (; t < limit; ++t) {
    retirements();
    starts();
    if (result.fault)
      break;
    sequencer();
    if (result.fault)
      break;
    port();
    dataPaths();
    labels();
    bool quiet = halted && buffer.empty() && inFlight.empty();
    for (const EngineState &engine : engines)
      quiet &= engine.queue.empty() && engine.running.empty();
    if (quiet)
      break;
  }
  Cycle end = haltAt;
  for (const EngineState &engine : engines)
    end = std::max(end, engine.lastRetire);
  end = std::max(end, lastWriteDone);
  result.totalCycles = result.fault || t == limit ? t : end + time.done_cycles;
  // Cycles after the last that was stepped are idle.
  for (Cycle cycle = t + 1; cycle < result.totalCycles; ++cycle)
    for (unsigned e = 0; e < stats::kNumEngines; ++e)
      ++result.labels[e][unsigned(Label::Idle)];
  for (const auto &[e, cycle, channel] : busQuestions)
    ++result.labels[e][unsigned(channel != kUnknown && dram->busBusy(uint32_t(channel), cycle) ? Label::DramBandwidth
                                                                                               : Label::DramLatency)];
  for (const auto &[e, cycle] : rest)
    ++result.labels[e][unsigned(cycle < engines[e].lastFed ? Label::Starved : Label::Idle)];
  return result;
}

} // namespace

SteppedResult runStepped(const isa::Program &program, const timing::MachineParams &machine, Cycle limit) {
  return Stepped(program, machine).run(limit);
}

} // namespace tw::test
