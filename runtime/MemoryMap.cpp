//===- MemoryMap.cpp - What lies in the on-chip memories when -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/MemoryMap.h"

#include "simulator/core/Accesses.h"
#include "simulator/cosim/Replay.h"

#include <algorithm>
#include <tuple>

using namespace tw;
using namespace tw::runtime;
using timing::Cycle;

namespace {

constexpr uint32_t kMostRows = 128, kSteps = 4096;
/// Boxes of more runs count as a whole.
constexpr int64_t kMostRuns = 256;

using Span = MemoryMap::Span;

/// One memory while the run is walked through.
class Rows {
public:
  Rows(std::string name, const timing::MemoryParams &params, Cycle step) : step(step) {
    memory.name = std::move(name);
    memory.bytes = params.capacityBytes;
    memory.banks = std::max(1u, params.banks);
    const uint64_t perBank = std::max(1u, kMostRows / memory.banks);
    memory.rowBytes = std::max<uint64_t>(1, (params.bankBytes() + perBank - 1) / perBank);
    rows.resize(size_t((memory.bytes + memory.rowBytes - 1) / memory.rowBytes));
  }

  void add(core::RunSet set, Cycle begin, Cycle end, uint32_t layer) {
    set.unite();
    int64_t runs = 1;
    for (const core::RunSet::Dimension &dimension : set.dimensions)
      runs = std::min(runs * dimension.count, kMostRuns + 1);
    auto touch = [&](int64_t from, int64_t to) {
      for (int64_t row = from / int64_t(memory.rowBytes); row * int64_t(memory.rowBytes) < to; ++row)
        if (row >= 0 && row < int64_t(rows.size()))
          add(uint32_t(row), set.write, begin, end, layer);
    };
    if (runs > kMostRuns)
      touch(set.bounds().first, set.bounds().second);
    else
      set.forEach(touch);
  }

  /// Ends everything; rows side by side with the same times become one span.
  MemoryMap::Memory finish() {
    for (uint32_t row = 0; row < rows.size(); ++row)
      close(row);
    std::vector<Span> &spans = memory.spans;
    std::sort(spans.begin(), spans.end(), [](const Span &a, const Span &b) {
      return std::tie(a.begin, a.end, a.layer, a.firstRow) < std::tie(b.begin, b.end, b.layer, b.firstRow);
    });
    size_t count = 0;
    for (const Span &span : spans) {
      Span *before = count ? &spans[count - 1] : nullptr;
      if (before && before->begin == span.begin && before->end == span.end && before->layer == span.layer &&
          before->firstRow + before->numRows == span.firstRow)
        before->numRows += span.numRows;
      else
        spans[count++] = span;
    }
    spans.resize(count);
    return std::move(memory);
  }

private:
  struct Row {
    Cycle begin = 0, end = 0; ///< of what lives there; end 0: nothing does
    Cycle shownUntil = 0;     ///< end of the last span
    uint32_t layer = stats::kNoLayer;
  };

  void add(uint32_t number, bool isWrite, Cycle begin, Cycle end, uint32_t layer) {
    Row &row = rows[number];
    if (!isWrite || (row.end && row.layer == layer && begin <= row.end + step)) {
      if (row.end)
        row.end = std::max(row.end, end);
      return;
    }
    close(number, begin);
    row.begin = begin;
    row.end = end;
    row.layer = layer;
  }

  /// Ends a row, at the latest at `until`.
  void close(uint32_t number, Cycle until = ~Cycle(0)) {
    Row &row = rows[number];
    const Cycle begin = std::max(row.begin / step * step, row.shownUntil);
    const Cycle end = (std::min(row.end, until) + step - 1) / step * step;
    if (end > begin) {
      memory.spans.push_back({number, 1, begin, end, row.layer});
      row.shownUntil = end;
    }
    row.end = 0;
  }

  const Cycle step;
  MemoryMap::Memory memory;
  std::vector<Row> rows;
};

MemoryMap mapWithStep(const isa::Program &program, const timing::MachineParams &machine, const stats::SimResult &result,
                      Cycle step) {
  std::vector<Rows> memories;
  std::vector<int> indexOf(core::kNumMemories, -1);
  auto add = [&](unsigned number, const timing::MemoryParams &params) {
    indexOf[number] = int(memories.size());
    memories.emplace_back(core::memoryName(number), params, step);
  };
  for (size_t i = 0; i < machine.scratchpads.size(); ++i)
    add(unsigned(i), machine.scratchpads[i]);
  add(unsigned(isa::Memory::Accumulator), machine.accumulator);

  // Instructions that touch the same bytes do it in the order of dispatch, whatever their engines.
  cosim::Replay replay(program, machine);
  cosim::Dispatch dispatch;
  for (const stats::InstructionRecord &record : result.instructions) {
    if (!replay.next(dispatch) || dispatch.pc != record.pc)
      break;
    if (!record.start && !record.issueFree)
      continue;
    const Cycle end = std::max({record.retire, record.issueFree, record.start + 1});
    for (core::RunSet &set : core::accessesOf(dispatch.instruction, machine))
      if (set.memory < indexOf.size() && indexOf[set.memory] >= 0)
        memories[size_t(indexOf[set.memory])].add(std::move(set), record.start, end, record.layer);
  }
  MemoryMap map;
  map.step = step;
  for (Rows &rows : memories)
    map.memories.push_back(rows.finish());
  return map;
}

} // namespace

MemoryMap runtime::memoryMap(const isa::Program &program, const timing::MachineParams &machine, const stats::SimResult &result,
                             size_t mostSpans) {
  for (Cycle step = std::max<Cycle>(1, result.totalCycles / kSteps);; step *= 4) {
    MemoryMap map = mapWithStep(program, machine, result, step);
    if (step > result.totalCycles ||
        std::all_of(map.memories.begin(), map.memories.end(),
                    [&](const MemoryMap::Memory &memory) { return memory.spans.size() <= mostSpans; }))
      return map;
  }
}
