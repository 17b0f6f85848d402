//===- Timeline.cpp - A run as a trace for viewers ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/stats/Timeline.h"

#include "simulator/stats/TimelineSink.h"
#include "simulator/stats/Track.h"

#include <algorithm>
#include <map>
#include <set>

namespace tw::stats {
namespace {

std::string number(uint64_t value) { return std::to_string(value); }

/// Walks through the run.
class Writer {
public:
  Writer(TimelineSink &sink, const isa::Program &program, const SimResult &result,
         const std::vector<std::vector<Cycle>> &plannedStarts)
      : sink(sink), program(program), result(result), plannedStarts(plannedStarts) {}
  void write();
  /// The same without start and finish of the sink.
  void writeParts();

private:
  static constexpr unsigned kCriticalTrack = 0;
  static unsigned engineTrack(unsigned engine) { return 1 + 3 * (kNumEngines - 1 - engine); }
  static unsigned plannedTrack(unsigned engine) { return engineTrack(engine) + 1; }
  static unsigned queueTrack(unsigned engine) { return engineTrack(engine) + 2; }

  std::string layerName(uint32_t layer) const { return layer < program.layers.size() ? program.layers[layer].name : ""; }
  std::string mnemonic(const InstructionRecord &record) const {
    const isa::InstructionInfo *info = isa::findInstruction(program.code[record.pc][0] & 63);
    return info ? info->mnemonic : "instruction";
  }
  void instructions();
  /// Precondition: plannedStarts has some for engine number `index` of the result.
  void planned(size_t index);
  bool isPlanned(size_t index) const { return index < plannedStarts.size() && !plannedStarts[index].empty(); }
  void stalls(const EngineResult &engine);
  void queues();
  void flows();
  void buses();
  void criticalPath();

  TimelineSink &sink;
  const isa::Program &program;
  const SimResult &result;
  const std::vector<std::vector<Cycle>> &plannedStarts;
  std::map<unsigned, std::vector<const InstructionRecord *>> byEngine; ///< those that started, in order
};

void Writer::instructions() {
  for (const auto &[engine, records] : byEngine)
    for (const InstructionRecord *record : records)
      sink.slice(engineTrack(engine), mnemonic(*record), record->start, std::max(record->issueFree, record->start + 1),
                 {{"layer", layerName(record->layer)},
                  {"word", record->pc},
                  {"visible", record->visible},
                  {"issue_free", record->issueFree},
                  {"retire", record->retire}});
}

/// An instruction that was planned to start no earlier than the next one is left out.
void Writer::planned(size_t index) {
  const unsigned engine = result.engines[index].engine;
  const std::vector<const InstructionRecord *> &records = byEngine[engine];
  std::vector<std::pair<Cycle, const InstructionRecord *>> starts;
  for (size_t i = 0; i < std::min(records.size(), plannedStarts[index].size()); ++i)
    starts.push_back({plannedStarts[index][i], records[i]});
  std::stable_sort(starts.begin(), starts.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto &[start, record] = starts[i];
    Cycle end = start + std::max<Cycle>(1, record->issueFree > record->start ? record->issueFree - record->start : 1);
    if (i + 1 < starts.size())
      end = std::min(end, starts[i + 1].first);
    if (start < end)
      sink.slice(plannedTrack(engine), mnemonic(*record), start, end,
                 {{"layer", layerName(record->layer)}, {"simulated", record->start}});
  }
}

/// Stalls lie between instructions, or (DMA) inside one: they are cut where an instruction begins or ends, so that slices nest.
void Writer::stalls(const EngineResult &engine) {
  const auto found = byEngine.find(engine.engine);
  static const std::vector<const InstructionRecord *> none;
  const std::vector<const InstructionRecord *> &records = found == byEngine.end() ? none : found->second;
  size_t next = 0;
  for (const Interval &interval : engine.intervals) {
    if (interval.label == Label::Starved || interval.label == Label::Idle ||
        (interval.label == Label::Busy && engine.engine != kSequencer))
      continue;
    std::string name = labelName(interval.label), cause;
    if (interval.label == Label::DramBandwidth || interval.label == Label::DramLatency)
      cause = interval.detail == Track::kNoChannel ? "set-up" : "channel " + number(interval.detail);
    else if (interval.label != Label::Busy)
      cause = StallCause{interval.label, interval.detail, interval.producer, 0}.str();
    Cycle begin = interval.begin;
    while (begin < interval.end) {
      while (next < records.size() && records[next]->issueFree <= begin)
        ++next;
      Cycle end = interval.end;
      if (next < records.size())
        end = std::min(end, begin < records[next]->start ? records[next]->start : records[next]->issueFree);
      sink.slice(engineTrack(engine.engine), name, begin, end, {{"cause", cause}, {"layer", layerName(interval.layer)}});
      begin = end;
    }
  }
}

void Writer::queues() {
  for (const auto &[engine, records] : byEngine) {
    std::vector<std::pair<Cycle, int>> changes;
    Cycle before = 0;
    for (const InstructionRecord *record : records) {
      const Cycle head = std::max(record->visible, before);
      if (head < record->start)
        sink.slice(queueTrack(engine), mnemonic(*record), head, record->start,
                   {{"layer", layerName(record->layer)}, {"word", record->pc}});
      before = record->start;
      changes.push_back({record->visible, 1});
      changes.push_back({record->start, -1});
    }
    std::sort(changes.begin(), changes.end());
    int length = 0;
    for (size_t i = 0; i < changes.size(); ++i) {
      length += changes[i].second;
      if (i + 1 == changes.size() || changes[i + 1].first != changes[i].first)
        sink.counter("queue of " + engineName(engine), "instructions", changes[i].first, uint64_t(length));
    }
  }
}

void Writer::flows() {
  for (size_t i = 0; i < result.flows.size(); ++i) {
    const SemaphoreFlow &flow = result.flows[i];
    const InstructionRecord &from = result.instructions[flow.from], &to = result.instructions[flow.to];
    sink.flow({i, flow.semaphore, engineTrack(from.engine), engineTrack(to.engine), from.start,
               std::max(from.start, from.issueFree ? from.issueFree - 1 : 0), to.start});
  }
}

void Writer::buses() {
  // About a thousand points, whatever the length of the run.
  const Cycle window = std::max<Cycle>(1, (result.totalCycles + 1023) / 1024);
  for (size_t channel = 0; channel < result.channels.size(); ++channel) {
    size_t next = 0;
    const std::vector<BusInterval> &bus = result.channels[channel];
    for (Cycle begin = 0; begin < result.totalCycles; begin += window) {
      const Cycle end = std::min(begin + window, result.totalCycles);
      Cycle busy = 0;
      while (next < bus.size() && bus[next].begin < end) {
        const Cycle from = std::max(begin, bus[next].begin), to = std::min(end, bus[next].end);
        busy += to > from ? to - from : 0;
        if (bus[next].end > end)
          break;
        ++next;
      }
      sink.counter("dram channel " + number(channel), "percent", begin, busy * 100 / (end - begin));
    }
  }
}

void Writer::criticalPath() {
  sink.track(kCriticalTrack, "critical path");
  for (const PathStep &step : result.criticalPath) {
    const std::string name = step.layer == kNoLayer ? "no layer" : layerName(step.layer);
    sink.slice(kCriticalTrack, name, step.begin, step.end, {});
  }
}

void Writer::write() {
  sink.start(program.machine.empty() ? "machine" : program.machine, result.totalCycles);
  writeParts();
  sink.finish();
}

void Writer::writeParts() {
  for (const InstructionRecord &record : result.instructions)
    if (record.start || record.issueFree)
      byEngine[record.engine].push_back(&record);
  for (const EngineResult &engine : result.engines) {
    sink.track(engineTrack(engine.engine), engine.name);
    if (isPlanned(size_t(&engine - result.engines.data())))
      sink.track(plannedTrack(engine.engine), engine.name + " planned");
    if (engine.engine != kSequencer)
      sink.track(queueTrack(engine.engine), engine.name + " queue");
  }
  criticalPath();
  instructions();
  for (size_t i = 0; i < result.engines.size(); ++i)
    if (isPlanned(i))
      planned(i);
  for (const EngineResult &engine : result.engines)
    stalls(engine);
  queues();
  flows();
  buses();
}

constexpr unsigned kHostTrack = 3 * kNumEngines + 1, kLinkTrack = kHostTrack + 1;

/// Moves what one program gives to where it stands among others.
class LaterSink : public TimelineSink {
public:
  explicit LaterSink(TimelineSink &sink) : sink(sink) {}
  /// What comes next begins there.
  void moveTo(Cycle cycle) {
    begin = cycle;
    firstFlow = nextFlow;
  }

  void start(const std::string &name, Cycle totalCycles) override { sink.start(name, totalCycles); }
  void track(unsigned track, const std::string &name) override {
    if (tracks.insert(track).second)
      sink.track(track, name);
  }
  void slice(unsigned track, const std::string &name, Cycle first, Cycle end,
             std::initializer_list<SliceArgument> arguments) override {
    sink.slice(track, name, begin + first, begin + end, arguments);
  }
  void counter(const std::string &name, const char *unit, Cycle at, uint64_t value) override {
    sink.counter(name, unit, begin + at, value);
  }
  void flow(const SliceFlow &flow) override {
    SliceFlow moved = flow;
    moved.id += firstFlow;
    nextFlow = std::max(nextFlow, moved.id + 1);
    moved.fromBegin += begin;
    moved.fromLast += begin;
    moved.toBegin += begin;
    sink.flow(moved);
  }
  void finish() override { sink.finish(); }

private:
  TimelineSink &sink;
  std::set<unsigned> tracks;
  Cycle begin = 0;
  uint64_t firstFlow = 0, nextFlow = 0;
};

} // namespace

void writeTimeline(std::ostream &out, const std::string &machine, const std::vector<TimelineStep> &steps,
                   TimelineFormat format) {
  const std::unique_ptr<TimelineSink> file = format == TimelineFormat::Perfetto ? makePerfettoSink(out) : makeChromeSink(out);
  LaterSink sink(*file);
  auto cyclesOf = [](const TimelineStep &step) {
    return step.kind == TimelineStep::Kind::Program ? step.result->totalCycles : step.cycles;
  };
  Cycle total = 0;
  for (const TimelineStep &step : steps)
    total += cyclesOf(step);
  sink.start(machine, total);
  Cycle begin = 0;
  for (const TimelineStep &step : steps) {
    sink.moveTo(begin);
    const Cycle cycles = cyclesOf(step);
    if (step.kind == TimelineStep::Kind::Program) {
      Writer(sink, *step.program, *step.result, {}).writeParts();
    } else {
      const bool isHost = step.kind == TimelineStep::Kind::Host;
      const unsigned track = isHost ? kHostTrack : kLinkTrack;
      sink.track(track, isHost ? "host" : "link");
      if (cycles)
        sink.slice(track, step.name, 0, cycles, {{"bytes", step.bytes}, {"time", "estimated"}});
    }
    begin += cycles;
  }
  sink.finish();
}

void writeTimeline(std::ostream &out, const isa::Program &program, const SimResult &result, TimelineFormat format,
                   const std::vector<std::vector<Cycle>> &plannedStarts) {
  const std::unique_ptr<TimelineSink> sink = format == TimelineFormat::Perfetto ? makePerfettoSink(out) : makeChromeSink(out);
  Writer(*sink, program, result, plannedStarts).write();
}

} // namespace tw::stats
