//===- Losses.cpp - Why the tensor engine was not busy --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/stats/Losses.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>

namespace tw::stats {

const char *phaseName(Phase phase) {
  static constexpr const char *names[] = {"prologue", "body", "epilogue"};
  return names[static_cast<unsigned>(phase)];
}

const char *lossKindName(LossKind kind) {
  static constexpr const char *names[] = {"operand", "interlock", "bank_conflict", "starved", "no_tensor_work", "drain"};
  return names[static_cast<unsigned>(kind)];
}

const char *progressName(Progress progress) {
  static constexpr const char *names[] = {"none", "not_dispatched", "queued", "running", "draining", "hand_over"};
  return names[static_cast<unsigned>(progress)];
}

namespace {

class Attribution {
public:
  Attribution(const isa::Program &program, const SimResult &result);
  std::vector<Loss> run();

private:
  static constexpr uint32_t kNoRecord = ~0u;

  void decode();
  void add(LossCause cause, Cycle begin, Cycle end);
  /// The cycles of `interval`, which `next` (kNoRecord: nobody) was held back in.
  void attribute(const Interval &interval, uint32_t next);
  /// Cuts [begin, end) at the steps of `record` and by what its engine did.
  void blame(LossCause cause, uint32_t record, Cycle begin, Cycle end);
  /// Cuts [begin, end) by what `engine` did.
  void splitByLabel(LossCause cause, unsigned engine, Cycle begin, Cycle end);
  void starved(LossCause cause, uint32_t next, Cycle begin, Cycle end);
  /// Cuts [begin, end) by which of `records` is in flight, engines of lower number first.
  void splitByWork(LossCause cause, const std::vector<uint32_t> &records, Cycle begin, Cycle end);
  uint32_t posterOf(uint32_t consumer, uint32_t semaphore) const;
  uint32_t ownerAt(unsigned engine, Cycle cycle) const;
  bool hasTensorWork(uint32_t layer) const { return layer == kNoLayer || tensorLayers.count(layer); }

  const isa::Program &program;
  const SimResult &result;
  std::array<const EngineResult *, kNumEngines> engines{};
  std::array<std::vector<uint32_t>, kNumEngines> recordsOf; ///< started ones, in order
  std::vector<uint64_t> loopOf;                             ///< per word, the innermost loop around it
  std::vector<bool> swaps;                                  ///< per word
  std::map<uint32_t, uint32_t> preloadOf;                   ///< tensor record -> the preload whose tile it swaps in
  std::set<uint32_t> tensorLayers;
  std::multimap<uint32_t, SemaphoreFlow> flowsTo;
  std::map<LossCause, Loss> rows;
};

void Attribution::decode() {
  loopOf.assign(program.code.size(), kNoWord);
  swaps.assign(program.code.size(), false);
  std::vector<std::pair<uint64_t, uint64_t>> open; // word, end
  for (size_t word = 0; word < program.code.size();) {
    const isa::Decoded decoded = isa::decode(&program.code[word], program.code.size() - word);
    assert(decoded && "a program that ran can be decoded");
    const size_t end = word + std::max(1u, decoded.instruction.words());
    while (!open.empty() && open.back().second <= word)
      open.pop_back();
    for (size_t i = word; i < std::min(end, program.code.size()); ++i)
      loopOf[i] = open.empty() ? kNoWord : open.back().first;
    if (const isa::Tensor *tensor = decoded.instruction.getIf<isa::Tensor>())
      swaps[word] = tensor->swap != 0;
    if (const isa::Loop *loop = decoded.instruction.getIf<isa::Loop>())
      open.push_back({word, end + static_cast<uint64_t>(loop->body_words)});
    word = end;
  }
}

Attribution::Attribution(const isa::Program &program, const SimResult &result) : program(program), result(result) {
  assert(result.ok() && "losses of a run without a fault");
  decode();
  for (const EngineResult &engine : result.engines)
    engines[engine.engine] = &engine;
  for (uint32_t i = 0; i < result.instructions.size(); ++i) {
    const InstructionRecord &record = result.instructions[i];
    recordsOf[record.engine].push_back(i);
    if (record.engine == kTensor)
      tensorLayers.insert(record.layer);
  }
  // Preloads and swaps alternate, so the n-th swap takes the tile of the n-th preload.
  size_t swap = 0;
  for (const uint32_t i : recordsOf[kTensor])
    if (swaps[result.instructions[i].pc] && swap < recordsOf[kPreload].size())
      preloadOf[i] = recordsOf[kPreload][swap++];
  for (const SemaphoreFlow &flow : result.flows)
    if (result.instructions[flow.to].engine == kTensor)
      flowsTo.insert({flow.to, flow});
}

void Attribution::add(LossCause cause, Cycle begin, Cycle end) {
  if (begin >= end)
    return;
  Loss &loss = rows[cause];
  loss.cause = cause;
  loss.cycles += end - begin;
  ++loss.times;
}

/// The post that came last: without it the wait went on.
uint32_t Attribution::posterOf(uint32_t consumer, uint32_t semaphore) const {
  uint32_t last = kNoRecord;
  const auto range = flowsTo.equal_range(consumer);
  for (auto it = range.first; it != range.second; ++it)
    if (it->second.semaphore == semaphore &&
        (last == kNoRecord || result.instructions[it->second.from].retire > result.instructions[last].retire))
      last = it->second.from;
  return last;
}

/// The oldest instruction of `engine` that has not given its banks back in `cycle`.
uint32_t Attribution::ownerAt(unsigned engine, Cycle cycle) const {
  const std::vector<uint32_t> &records = recordsOf[engine];
  const auto it = std::lower_bound(records.begin(), records.end(), cycle,
                                   [&](uint32_t record, Cycle at) { return result.instructions[record].retire < at; });
  return it != records.end() && result.instructions[*it].start <= cycle ? *it : kNoRecord;
}

void Attribution::splitByLabel(LossCause cause, unsigned engine, Cycle begin, Cycle end) {
  if (engine >= kNumEngines || !engines[engine] || begin >= end)
    return add(cause, begin, end);
  const std::vector<Interval> &intervals = engines[engine]->intervals;
  auto it = std::upper_bound(intervals.begin(), intervals.end(), begin,
                             [](Cycle cycle, const Interval &interval) { return cycle < interval.end; });
  for (; it != intervals.end() && it->begin < end; ++it) {
    cause.label = it->label;
    cause.waitsFor = it->label == Label::Operand ? it->producer : kNoEngine;
    // What an engine with work in flight waits for beside it is the next instruction's matter.
    if (cause.progress == Progress::Draining && it->label != Label::DramBandwidth && it->label != Label::DramLatency) {
      cause.label = Label::Busy;
      cause.waitsFor = kNoEngine;
    }
    add(cause, std::max(begin, it->begin), std::min(end, it->end));
  }
}

void Attribution::blame(LossCause cause, uint32_t record, Cycle begin, Cycle end) {
  if (record == kNoRecord)
    return add(cause, begin, end);
  const InstructionRecord &waited = result.instructions[record];
  cause.engine = waited.engine;
  cause.engineWord = waited.pc;
  cause.engineLayer = waited.layer;
  const std::array<Cycle, 5> steps = {waited.visible, waited.start, waited.issueFree, waited.retire, end};
  Cycle at = begin;
  for (unsigned step = 0; step < steps.size(); ++step) {
    const Cycle until = std::min(end, std::max(at, steps[step]));
    cause.progress = static_cast<Progress>(static_cast<unsigned>(Progress::NotDispatched) + step);
    cause.label = Label::Busy;
    cause.waitsFor = kNoEngine;
    // Of a compute engine that drains, the label speaks of the next instruction; a load still waits for its bursts.
    const bool load = timing::EngineKind::Load == engineKind(waited.engine);
    if (cause.progress == Progress::NotDispatched)
      splitByLabel(cause, kSequencer, at, until);
    else if (cause.progress == Progress::Queued || cause.progress == Progress::Running ||
             (cause.progress == Progress::Draining && load))
      splitByLabel(cause, waited.engine, at, until);
    else
      add(cause, at, until);
    at = until;
  }
}

void Attribution::starved(LossCause cause, uint32_t next, Cycle begin, Cycle end) {
  const Cycle dispatched = std::min(end, std::max(begin, result.instructions[next].dispatched));
  const std::vector<InstructionRecord> &all = result.instructions;
  cause.progress = Progress::NotDispatched;
  for (Cycle at = begin; at < dispatched;) {
    // The instruction whose words the sequencer takes or holds.
    const auto held = std::lower_bound(all.begin(), all.end(), at,
                                       [](const InstructionRecord &record, Cycle cycle) { return record.dispatched < cycle; });
    const Cycle until = held == all.end() ? dispatched : std::min(dispatched, held->dispatched + 1);
    LossCause piece = cause;
    if (held != all.end()) {
      piece.engine = held->engine;
      piece.engineWord = held->pc;
      piece.engineLayer = held->layer;
    }
    splitByLabel(piece, kSequencer, at, until);
    at = until;
  }
  cause.progress = Progress::HandOver;
  add(cause, dispatched, end);
}

void Attribution::splitByWork(LossCause cause, const std::vector<uint32_t> &records, Cycle begin, Cycle end) {
  // Work that begins or ends in these cycles cuts them.
  std::map<Cycle, std::pair<std::vector<uint32_t>, std::vector<uint32_t>>> changes; // ends, begins
  Cycle last = begin;
  for (const uint32_t i : records) {
    const InstructionRecord &record = result.instructions[i];
    last = std::max(last, record.retire);
    const Cycle from = std::max(begin, record.start), to = std::min(end, record.retire);
    if (from >= to)
      continue;
    changes[from].second.push_back(i);
    changes[to].first.push_back(i);
  }
  changes[end];
  if (begin < result.writesDone && result.writesDone < end)
    changes[result.writesDone];
  std::set<std::pair<unsigned, uint32_t>> active;
  Cycle at = begin;
  for (const auto &[cycle, change] : changes) {
    LossCause piece = cause;
    if (!active.empty()) {
      const InstructionRecord &record = result.instructions[active.begin()->second];
      piece.engine = record.engine;
      piece.engineWord = record.pc;
      piece.engineLayer = record.layer;
      piece.progress = Progress::Running;
      if (piece.kind == LossKind::Drain)
        piece.layer = record.layer;
    } else if (piece.kind == LossKind::Drain && last <= at && cycle <= result.writesDone) {
      piece.progress = Progress::Draining; // the write buffer
    }
    add(piece, at, cycle);
    at = cycle;
    for (const uint32_t i : change.first)
      active.erase({result.instructions[i].engine, i});
    for (const uint32_t i : change.second)
      active.insert({result.instructions[i].engine, i});
  }
}

void Attribution::attribute(const Interval &interval, uint32_t next) {
  LossCause cause;
  const InstructionRecord &held = result.instructions[next];
  cause.layer = held.layer;
  cause.word = held.pc;
  cause.loopWord = loopOf[held.pc];
  cause.phase = next == recordsOf[kTensor].front() ? Phase::Prologue : Phase::Body;
  switch (interval.label) {
  case Label::Operand:
    cause.kind = LossKind::Operand;
    cause.detail = interval.detail;
    cause.engine = interval.producer;
    return blame(cause, posterOf(next, interval.detail), interval.begin, interval.end);
  case Label::Interlock: {
    cause.kind = LossKind::Interlock;
    cause.detail = interval.detail;
    const auto preload = preloadOf.find(next);
    const bool shadow = interval.detail == static_cast<uint16_t>(InterlockKind::ShadowNotReady);
    return blame(cause, shadow && preload != preloadOf.end() ? preload->second : kNoRecord, interval.begin, interval.end);
  }
  case Label::BankConflict: {
    cause.kind = LossKind::BankConflict;
    cause.engine = interval.detail;
    const uint32_t owner = ownerAt(interval.detail, interval.begin);
    return blame(cause, owner, interval.begin, interval.end);
  }
  default:
    cause.kind = LossKind::Starved;
    return starved(cause, next, interval.begin, interval.end);
  }
}

std::vector<Loss> Attribution::run() {
  const EngineResult &tensor = *engines[kTensor];
  const std::vector<uint32_t> &order = recordsOf[kTensor];
  size_t following = 0; // the first tensor instruction that starts behind the interval
  size_t gap = ~size_t(0);
  // Layers without tensor work whose instructions stand between two tensor instructions: when they run.
  struct Window {
    Cycle begin, end;
    uint32_t layer;
    /// Computes or stores; loads alone run ahead for later.
    bool works;
    std::vector<uint32_t> records;
  };
  std::vector<Window> windows;
  for (const Interval &interval : tensor.intervals) {
    if (interval.label == Label::Busy)
      continue;
    while (following < order.size() && result.instructions[order[following]].start < interval.end)
      ++following;
    if (following == order.size()) {
      LossCause cause;
      cause.phase = order.empty() ? Phase::Body : Phase::Epilogue;
      cause.kind = order.empty() ? LossKind::NoTensorWork : LossKind::Drain;
      std::vector<uint32_t> rest;
      for (uint32_t i = 0; i < result.instructions.size(); ++i)
        if (result.instructions[i].engine != kTensor && result.instructions[i].retire > interval.begin)
          rest.push_back(i);
      splitByWork(cause, rest, interval.begin, interval.end);
      continue;
    }
    if (gap != following) {
      gap = following;
      windows.clear();
      for (uint32_t i = following ? order[following - 1] + 1 : 0; i < order[following]; ++i) {
        const InstructionRecord &record = result.instructions[i];
        if (hasTensorWork(record.layer))
          continue;
        if (windows.empty() || windows.back().layer != record.layer)
          windows.push_back({record.start, record.retire, record.layer, false, {}});
        windows.back().begin = std::min(windows.back().begin, record.start);
        windows.back().end = std::max(windows.back().end, record.retire);
        windows.back().works |= record.engine <= kVector;
        windows.back().records.push_back(i);
      }
    }
    // Windows in program order take what they cover; the rest is told by its label.
    Interval rest = interval;
    for (const Window &window : windows) {
      const Cycle begin = std::max(rest.begin, window.begin), end = std::min(rest.end, window.end);
      if (begin >= end || !window.works)
        continue;
      Interval before = rest;
      before.end = begin;
      if (before.begin < before.end)
        attribute(before, order[following]);
      LossCause cause;
      cause.phase = following ? Phase::Body : Phase::Prologue;
      cause.kind = LossKind::NoTensorWork;
      cause.layer = window.layer;
      splitByWork(cause, window.records, begin, end);
      rest.begin = end;
    }
    if (rest.begin < rest.end)
      attribute(rest, order[following]);
  }
  std::vector<Loss> sorted;
  Cycle sum = tensor.cycles[static_cast<unsigned>(Label::Busy)];
  for (const auto &[cause, loss] : rows) {
    sorted.push_back(loss);
    sum += loss.cycles;
  }
  assert(sum == result.totalCycles && "every lost cycle has one cause");
  (void)sum;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Loss &a, const Loss &b) { return a.cycles > b.cycles; });
  return sorted;
}

} // namespace

std::vector<Loss> losses(const isa::Program &program, const SimResult &result) { return Attribution(program, result).run(); }

std::vector<Loss> byLayer(const std::vector<Loss> &rows) {
  std::map<LossCause, Loss> merged;
  for (const Loss &row : rows) {
    LossCause cause = row.cause;
    cause.word = cause.loopWord = cause.engineWord = kNoWord;
    // Semaphores are numbers of the compiler's; the engine says what is waited for.
    if (cause.kind == LossKind::Operand)
      cause.detail = 0;
    auto [it, isNew] = merged.insert({cause, row});
    if (isNew)
      continue; // rows come by size: the first one names the place
    it->second.cycles += row.cycles;
    it->second.times += row.times;
    it->second.places += row.places;
  }
  std::vector<Loss> sorted;
  for (const auto &[cause, loss] : merged)
    sorted.push_back(loss);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Loss &a, const Loss &b) { return a.cycles > b.cycles; });
  return sorted;
}

} // namespace tw::stats
