//===- Verifier.cpp - Is every hazard of a program ordered? ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Verifier.h"

#include "isa/Legality.h"
#include "isa/Odometer.h"
#include "isa/timing/Engines.h"
#include "isa/timing/InstructionTiming.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

using namespace tw;
using timing::EngineKind;

namespace {
constexpr size_t kMaxProblems = 20;
constexpr unsigned kMaxEngines = timing::kAllEngines.size() - 1; ///< without the sequencer
constexpr unsigned kDram = 8;                                    ///< behind all isa::Memory

/// clock[e]: the first so many instructions of engine e have retired.
using Clock = std::array<uint32_t, kMaxEngines>;

void raise(Clock &clock, const Clock &other) {
  for (size_t i = 0; i < clock.size(); ++i)
    clock[i] = std::max(clock[i], other[i]);
}

/// The order in which a tensor instruction visits accumulator rows.
struct Walk {
  int64_t address = 0;
  std::array<int64_t, 3> counts{}, strides{};
  bool operator==(const Walk &other) const {
    return address == other.address && counts == other.counts && strides == other.strides;
  }
  int64_t rows() const { return counts[0] * counts[1] * counts[2]; }
  template <typename Visit> void forEach(Visit visit) const {
    int64_t index = 0;
    for (int64_t z = 0; z < counts[2]; ++z)
      for (int64_t y = 0; y < counts[1]; ++y)
        for (int64_t x = 0; x < counts[0]; ++x)
          visit(address + x * strides[0] + y * strides[1] + z * strides[2], index++);
  }
};

/// Least number of cycles between two visits of one row, if `later` starts as soon as `earlier` has visited all of its rows, a row
/// a cycle, and the interlock lets it, after `interlock` cycles; nothing if they have no row in common.
std::optional<int64_t> leastDistance(const Walk &earlier, const Walk &later, int64_t interlock) {
  std::map<int64_t, int64_t> last; // visit of a row
  earlier.forEach([&](int64_t row, int64_t index) { last[row] = index; });
  std::optional<int64_t> least;
  later.forEach([&](int64_t row, int64_t index) {
    if (auto visit = last.find(row); visit != last.end()) {
      int64_t distance = std::max(earlier.rows(), interlock) - visit->second + index;
      least = least ? std::min(*least, distance) : distance;
    }
  });
  return least;
}

/// Bytes that have the same history.
struct Cell {
  bool written = false;
  bool initial = false; ///< DRAM contents from before the start
  uint8_t writer = 0;
  uint32_t write = 0;                       ///< 1-based position in the writer's order
  uint32_t walk = 0;                        ///< of the tensor instruction that wrote it, index into Checker::walks; 0: none did
  std::array<uint32_t, kMaxEngines> read{}; ///< last reader of each engine, 1-based
};

/// Runs of sums are long, and mostly as long as the ones before; others may be cut to a few bytes each.
constexpr unsigned kPageLog2 = 11, kSumPageLog2 = 13;

/// The cells of a memory, in order. None reaches from one page into the next, so that few lie between an access and its own.
class Cells {
public:
  struct Page {
    std::vector<uint16_t> begins; ///< of each cell, bytes into the page
    std::vector<Cell> cells;
    std::vector<uint32_t> repeated; ///< reads that may have been repeated since, as Checker::repeats has them
  };

  Cells(bool initial, unsigned pageLog2) : initial(initial), pageLog2(pageLog2), pageBytes(uint64_t(1) << pageLog2) {}
  /// The cell that is [begin, end); null if none is.
  Cell *find(uint64_t begin, uint64_t end) {
    const uint64_t index = begin >> pageLog2, start = index << pageLog2;
    if (index >= pages.size() || pages[index].begins.empty())
      return nullptr;
    Page &page = pages[index];
    const size_t cell = cellOf(page, uint16_t(begin - start));
    const uint64_t next = cell + 1 < page.begins.size() ? page.begins[cell + 1] : pageBytes;
    return start + page.begins[cell] == begin && start + next == end ? &page.cells[cell] : nullptr;
  }
  /// Calls visit(page, first, last) for the cells of each page in [begin, end), cut to exactly that run.
  template <typename Visit> void forEachPage(uint64_t begin, uint64_t end, Visit visit) {
    while (begin < end) {
      const uint64_t index = begin >> pageLog2, start = index << pageLog2, stop = std::min(end, start + pageBytes);
      if (index >= pages.size())
        pages.resize(index + 1);
      Page &page = pages[index];
      if (page.begins.empty()) {
        page.begins.push_back(0);
        page.cells.push_back({false, initial});
      }
      const uint16_t from = uint16_t(begin - start), to = uint16_t(stop - start);
      size_t first = cellOf(page, from);
      if (page.begins[first] != from)
        cut(page, ++first, from);
      size_t last = first + 1;
      while (last < page.begins.size() && page.begins[last] < to)
        ++last;
      if (to < pageBytes && (last == page.begins.size() || page.begins[last] != to))
        cut(page, last, to);
      visit(page, first, last);
      begin = stop;
    }
  }
  /// Whether each byte of [begin, end) was written by a write that `isKnown(cell)`.
  template <typename IsKnown> bool allOf(uint64_t begin, uint64_t end, IsKnown isKnown) const {
    for (uint64_t at = begin; at < end;) {
      const uint64_t index = at >> pageLog2, start = index << pageLog2, stop = std::min(end, start + pageBytes);
      if (index >= pages.size() || pages[index].begins.empty())
        return false;
      const Page &page = pages[index];
      for (size_t cell = cellOf(page, uint16_t(at - start)); cell < page.begins.size() && start + page.begins[cell] < stop;
           ++cell)
        if (!isKnown(page.cells[cell]))
          return false;
      at = stop;
    }
    return true;
  }
  /// Notes a read that may be repeated in the pages of [begin, end).
  void noteRepeated(uint64_t begin, uint64_t end, uint32_t read) {
    for (uint64_t index = begin >> pageLog2; index << pageLog2 < end; ++index) {
      std::vector<uint32_t> &list = pages[index].repeated;
      if (list.empty() || list.back() != read)
        list.push_back(read);
    }
  }
  /// Calls isOver(read, isCovered) for what noteRepeated() has noted where [begin, end) lies; forgets it in a page where that is true.
  /// isCovered: [begin, end) is all of the page.
  template <typename IsOver> void updateRepeated(uint64_t begin, uint64_t end, IsOver isOver) {
    for (uint64_t index = begin >> pageLog2; index << pageLog2 < end && index < pages.size(); ++index) {
      const uint64_t start = index << pageLog2;
      const bool isCovered = begin <= start && start + pageBytes <= end;
      std::vector<uint32_t> &list = pages[index].repeated;
      list.erase(std::remove_if(list.begin(), list.end(), [&](uint32_t read) { return isOver(read, isCovered); }), list.end());
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  }
  /// Makes them one, with that history.
  static void join(Page &page, size_t first, size_t last, const Cell &cell) {
    page.cells[first] = cell;
    page.begins.erase(page.begins.begin() + long(first) + 1, page.begins.begin() + long(last));
    page.cells.erase(page.cells.begin() + long(first) + 1, page.cells.begin() + long(last));
  }

private:
  /// The cell with that byte. Runs mostly come in order, as far apart as those before: from the last one it is as many steps as then.
  size_t cellOf(const Page &page, uint16_t at) const {
    size_t cell = latest < page.begins.size() && page.begins[latest] <= at ? latest : 0;
    while (cell + 1 < page.begins.size() && page.begins[cell + 1] <= at)
      ++cell;
    return latest = cell;
  }
  static void cut(Page &page, size_t index, uint16_t at) {
    Cell cell = page.cells[index - 1];
    page.begins.insert(page.begins.begin() + long(index), at);
    page.cells.insert(page.cells.begin() + long(index), cell);
  }

  bool initial;
  unsigned pageLog2;
  uint64_t pageBytes;
  mutable size_t latest = 0; ///< that cellOf() found, whatever the page was
  std::vector<Page> pages;
};

/// A nest of equally spaced runs of bytes.
struct Runs {
  int64_t memory = 0, begin = 0, bytes = 0;
  bool write = false;
  struct Step {
    int64_t count, stride;
  };
  std::array<Step, 6> nest;
  size_t depth = 0;
  int64_t most = 256; ///< runs that are looked at one by one

  using Key = std::tuple<int64_t, int64_t, int64_t, std::array<int64_t, 6>, std::array<int64_t, 6>>;
  /// From the first byte to behind the last.
  std::pair<uint64_t, uint64_t> hull() const {
    int64_t low = begin, high = begin + bytes;
    for (size_t i = 0; i < depth; ++i)
      (nest[i].stride < 0 ? low : high) += nest[i].stride * (nest[i].count - 1);
    return {uint64_t(low), uint64_t(high)};
  }
  /// Of all but `most` and whether they are written.
  Key key() const {
    std::array<int64_t, 6> counts{}, strides{};
    for (size_t i = 0; i < depth; ++i)
      std::tie(counts[i], strides[i]) = std::pair(nest[i].count, nest[i].stride);
    return {memory, begin, bytes, counts, strides};
  }

  Runs(int64_t memory, int64_t begin, int64_t bytes, bool write) : memory(memory), begin(begin), bytes(bytes), write(write) {}
  void along(int64_t count, int64_t stride) { nest[depth++] = {count, stride}; }
  template <typename Range> void along(const Range &counts, const Range &strides, int64_t scale = 1) {
    for (size_t i = 0; i < counts.size(); ++i)
      along(counts[i], strides[i] * scale);
  }
  /// Calls visit(begin, end, exact) for every run, joined where they touch. If there are more than `most` they are joined over
  /// their gaps too, and exact is false.
  template <typename Visit> void forEach(Visit visit) const {
    int64_t low = begin, width = bytes, number = 1;
    std::array<Step, 6> rest;
    size_t size = 0;
    for (size_t i = 0; i < depth; ++i)
      if (auto [count, stride] = nest[i]; count > 1 && stride != 0) {
        low += std::min<int64_t>(0, stride) * (count - 1);
        rest[size++] = {count, std::abs(stride)};
      }
    std::sort(rest.begin(), rest.begin() + size,
              [](const Step &a, const Step &b) { return std::tie(a.stride, a.count) < std::tie(b.stride, b.count); });
    size_t inner = 0;
    for (; inner < size && rest[inner].stride <= width; ++inner)
      width += rest[inner].stride * (rest[inner].count - 1);
    for (size_t i = inner; i < size; ++i)
      number *= rest[i].count;
    const bool exact = number <= most;
    for (; number > most; ++inner) {
      number /= rest[inner].count;
      width += rest[inner].stride * (rest[inner].count - 1);
    }
    std::array<int64_t, 6> turn{};
    for (int64_t at = low; number > 0; --number) {
      visit(uint64_t(at), uint64_t(at + width), exact);
      for (size_t i = inner; i < size; ++i) {
        at += rest[i].stride;
        if (++turn[i] < rest[i].count)
          break;
        at -= rest[i].stride * turn[i];
        turn[i] = 0;
      }
    }
  }
};

struct Semaphore {
  int poster = -1, waiter = -1;
  std::deque<Clock> tokens;
  uint64_t posted = 0;
  /// For each taken token: the waiter's instruction that took it.
  std::vector<uint32_t> takenBy;
};

class Checker {
public:
  Checker(const isa::Program &program, const timing::MachineParams &machine)
      : program(program), machine(machine), table(machine) {
    engines = table.size() - 1;
    clocks.assign(engines, Clock{});
    counts.assign(engines, 0);
    words.resize(engines);
    semaphores.resize(machine.semaphores);
    for (unsigned space = 0; space <= kDram; ++space)
      memories.emplace_back(space == kDram, space == unsigned(isa::Memory::Accumulator) ? kSumPageLog2 : kPageLog2);
    kept.push_back({program.codeAddress, program.codeAddress + program.code.size() * isa::kWordBytes});
    for (const isa::Segment &constant : program.constants)
      if (!constant.bytes.empty())
        kept.push_back({constant.address, constant.address + constant.bytes.size()});
    std::sort(kept.begin(), kept.end());
  }

  Diagnostics run();

private:
  const isa::Program &program;
  const timing::MachineParams &machine;
  Diagnostics problems;
  const timing::EngineTable table;
  unsigned engines;          ///< without the sequencer
  std::vector<Clock> clocks; ///< what each engine knew at its last start
  std::vector<uint32_t> counts;
  std::vector<std::vector<uint32_t>> words; ///< per engine: where its instructions stand, in its order
  std::vector<Semaphore> semaphores;
  std::vector<Cells> memories; ///< by isa::Memory, and DRAM
  /// A read that an engine mostly does again and again. Cells do not know of it: it is noted in the pages where it lies, until all
  /// of a page is written.
  struct Repeat {
    Runs runs;
    unsigned engine;
    bool isOpen = false;   ///< nobody has written there since: it needs no new look
    uint32_t position = 0; ///< of the last such read
  };
  std::map<std::pair<unsigned, Runs::Key>, uint32_t> repeatOf; ///< indices into:
  std::vector<Repeat> repeats;
  std::vector<Walk> walks{Walk()};
  using WalkPair =
      std::tuple<std::array<int64_t, 3>, std::array<int64_t, 3>, std::array<int64_t, 3>, std::array<int64_t, 3>, int64_t>;
  std::map<WalkPair, bool> distances;                                               ///< see keepsDistance()
  std::map<std::pair<std::array<int64_t, 3>, std::array<int64_t, 3>>, bool> visits; ///< see visitsOnce()
  std::vector<std::pair<uint64_t, uint64_t>> kept;   ///< DRAM bytes of code and constants, in order
  std::vector<std::pair<uint64_t, uint64_t>> stored; ///< DRAM bytes that are written, in order and apart
  uint32_t word = 0;
  /// Preloads and swaps alternate.
  bool shadowFull = false, activeFull = false;
  Clock preloadClock{};

  void problem(const std::string &text, DiagnosticKind kind = DiagnosticKind::Other) {
    std::string where = "word " + std::to_string(word);
    if (word < program.layerOf.size() && program.layerOf[word] < program.layers.size())
      where += " (layer " + program.layers[program.layerOf[word]].name + ")";
    // One access may meet the same other one in many cells.
    Diagnostic found{"", 0, 0, where + ": " + text, kind, word};
    auto isSame = [&](const Diagnostic &other) { return other.message == found.message; };
    if (std::none_of(problems.begin(), problems.end(), isSame))
      problems.push_back(std::move(found));
  }
  unsigned engineOf(const isa::Instruction &i) const { return table.indexOf(i.engine(), unsigned(i.header.unit)); }
  std::string nameOf(unsigned engine) const { return table.nameOf(engine); }
  void execute(const isa::Instruction &instruction);
  uint32_t startedBefore(unsigned self, unsigned engine) const;
  /// `exact`: every byte of [begin, end) is accessed, else at least one. `adds`: what is written is read before.
  void access(unsigned self, const Clock &clock, unsigned space, uint64_t begin, uint64_t end, bool exact, bool write,
              uint32_t walk, bool adds);
  void readAgain(unsigned self, const Clock &clock, const Runs &runs);
  void closeRepeats(unsigned self, const Clock &clock, unsigned space, uint64_t begin, uint64_t end);
  void checkKept(unsigned self, uint64_t begin, uint64_t end);
  void findStored();
  /// Whether some store of the program writes there: else reads need no order.
  bool isStored(uint64_t begin, uint64_t end) const {
    auto next =
        std::upper_bound(stored.begin(), stored.end(), begin, [](uint64_t at, const auto &run) { return at < run.second; });
    return next != stored.end() && next->first < end;
  }
  /// Calls visit(instruction, odometer) for each instruction that is executed, but Halt. Loops without any that `isWanted` are
  /// left out.
  template <typename Wanted, typename Visit> void forEachExecuted(Wanted isWanted, Visit visit);
  bool keepsDistance(const Walk &earlier, const Walk &later);
  bool visitsOnce(const Walk &walk);
  void accessDram(unsigned self, const Clock &clock, const isa::Instruction &instruction);
  void accessOnChip(unsigned self, const Clock &clock, const isa::Instruction &instruction);
};

/// Whether one byte is in a run of both. Where runs are joined over gaps, maybe also if none is.
bool meet(const Runs &a, const Runs &b) {
  if (a.memory != b.memory)
    return false;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  a.forEach([&](uint64_t begin, uint64_t end, bool) { ranges.push_back({begin, end}); });
  std::sort(ranges.begin(), ranges.end());
  bool found = false;
  b.forEach([&](uint64_t begin, uint64_t end, bool) {
    // Runs of one set may overlap each other, but not end in another order than they begin.
    auto it = std::lower_bound(ranges.begin(), ranges.end(), begin,
                               [](const auto &range, uint64_t at) { return range.second <= at; });
    found |= it != ranges.end() && it->first < end;
  });
  return found;
}

bool Checker::keepsDistance(const Walk &earlier, const Walk &later) {
  if (earlier == later)
    return true;
  // Tiles repeat: only where the walks lie to each other counts.
  auto [known, isNew] =
      distances.insert({{earlier.counts, earlier.strides, later.counts, later.strides, later.address - earlier.address}, true});
  if (isNew) {
    const int64_t needed = int64_t(timing::accumulatorDistance(machine));
    std::optional<int64_t> least = leastDistance(earlier, later, needed);
    known->second = !least || *least >= needed;
  }
  return known->second;
}

/// Rows are read, added to and written one behind the other: an instruction that comes to one again may find its old sum.
bool Checker::visitsOnce(const Walk &walk) {
  // More visits than rows need no list, which would have no end.
  if (walk.rows() > int64_t(machine.accumulatorRows()))
    return false;
  auto [known, isNew] = visits.insert({{walk.counts, walk.strides}, true});
  if (isNew) {
    std::vector<int64_t> rows;
    walk.forEach([&](int64_t row, int64_t) { rows.push_back(row); });
    std::sort(rows.begin(), rows.end());
    known->second = std::adjacent_find(rows.begin(), rows.end()) == rows.end();
  }
  return known->second;
}

/// A store onto code may change what is fetched, and one onto constants what the next run reads.
void Checker::checkKept(unsigned self, uint64_t begin, uint64_t end) {
  auto next = std::lower_bound(kept.begin(), kept.end(), std::pair(end, uint64_t(0)));
  if (next != kept.begin() && (--next)->second > begin)
    problem(nameOf(self) + " writes dram bytes [" + std::to_string(begin) + ", " + std::to_string(end) + "), where " +
            (next->first == program.codeAddress ? "the program's code lies" : "a constant of the program lies"));
}

void Checker::access(unsigned self, const Clock &clock, unsigned space, uint64_t begin, uint64_t end, bool exact, bool write,
                     uint32_t walk, bool adds) {
  const uint32_t position = counts[self];
  // Mostly what is read has been written as it is, and in time.
  if (!write)
    if (Cell *cell = memories[space].find(begin, end); cell && cell->written && clock[cell->writer] >= cell->write) {
      cell->read[self] = position;
      return;
    }
  if (write)
    closeRepeats(self, clock, space, begin, end);
  bool anyWritten = false, allWritten = true;
  auto conflict = [&](const char *kind, unsigned other, uint32_t position) {
    if (problems.size() < kMaxProblems)
      problem(std::string(kind) + " hazard on " +
              (space == kDram ? "dram" : isa::caseName(isa::kMemoryEnumeration, int64_t(space))) + " bytes [" +
              std::to_string(begin) + ", " + std::to_string(end) + "): " + nameOf(self) + " does not wait for " +
              nameOf(other) + " at word " + std::to_string(words[other][position - 1]));
  };
  auto check = [&](const Cell &cell) {
    anyWritten |= cell.written || cell.initial;
    allWritten &= cell.written || cell.initial;
    if (cell.written) {
      bool known = clock[cell.writer] >= cell.write;
      if (!known) {
        if (cell.writer != self)
          conflict(write ? "write after write" : "read after write", cell.writer, cell.write);
        else if (!write)
          conflict("read after write", cell.writer, cell.write);
        else if (walk && !(cell.walk && keepsDistance(walks[cell.walk], walks[walk])))
          // A sum is read, added to and written in so many cycles.
          conflict("accumulation in another order", cell.writer, cell.write);
      }
    }
    if (write)
      for (unsigned e = 0; e < engines; ++e)
        if (e != self && cell.read[e] > clock[e])
          conflict("write after read", e, cell.read[e]);
  };
  memories[space].forEachPage(begin, end, [&](Cells::Page &page, size_t first, size_t last) {
    for (size_t i = first; i < last; ++i) {
      check(page.cells[i]);
      if (!write)
        page.cells[i].read[self] = position;
    }
    if (write)
      Cells::join(page, first, last, {true, page.cells[first].initial, uint8_t(self), position, walk, {}});
  });
  if ((!write || adds) && !(exact ? allWritten : anyWritten) && problems.size() < kMaxProblems)
    problem(nameOf(self) + (adds ? " adds to bytes [" : " reads bytes [") + std::to_string(begin) + ", " + std::to_string(end) +
            ") of " + isa::caseName(isa::kMemoryEnumeration, int64_t(space)) +
            (anyWritten ? " and nothing wrote some of them" : " that nothing wrote"));
}

/// Passes over all channels read the same operands again and again.
void Checker::readAgain(unsigned self, const Clock &clock, const Runs &runs) {
  const uint32_t index = repeatOf.try_emplace({self, runs.key()}, uint32_t(repeats.size())).first->second;
  if (index == repeats.size())
    repeats.push_back({runs, self});
  Repeat &repeat = repeats[index];
  repeat.position = counts[self];
  if (repeat.isOpen)
    return;
  Cells &cells = memories[size_t(runs.memory)];
  const auto [low, high] = runs.hull();
  // Mostly what lies between the runs has been written in time, too.
  if (!cells.allOf(low, high, [&](const Cell &cell) { return cell.written && clock[cell.writer] >= cell.write; })) {
    const size_t before = problems.size();
    runs.forEach([&](uint64_t begin, uint64_t end, bool exact) {
      access(self, clock, unsigned(runs.memory), begin, end, exact, false, 0, false);
    });
    if (problems.size() > before)
      return;
  }
  repeat.isOpen = true;
  runs.forEach([&](uint64_t begin, uint64_t end, bool) { cells.noteRepeated(begin, end, index); });
}

/// Before `self` writes [begin, end). Repeated reads there that it knows to be over are no conflict; of the others the cells learn.
void Checker::closeRepeats(unsigned self, const Clock &clock, unsigned space, uint64_t begin, uint64_t end) {
  std::vector<uint32_t> unknown;
  memories[space].updateRepeated(begin, end, [&](uint32_t index, bool isCovered) {
    Repeat &repeat = repeats[index];
    repeat.isOpen = false;
    if (repeat.engine == self || clock[repeat.engine] >= repeat.position)
      return isCovered; // whoever writes there next comes after this write, and so after the read
    unknown.push_back(index);
    return true;
  });
  for (uint32_t index : unknown) {
    const Repeat &repeat = repeats[index];
    repeat.runs.forEach([&](uint64_t from, uint64_t to, bool) {
      memories[space].forEachPage(from, to, [&](Cells::Page &page, size_t first, size_t last) {
        for (size_t i = first; i < last; ++i)
          page.cells[i].read[repeat.engine] = std::max(page.cells[i].read[repeat.engine], repeat.position);
      });
    });
  }
}

void Checker::accessOnChip(unsigned self, const Clock &clock, const isa::Instruction &instruction) {
  uint32_t walk = 0;
  bool adds = false;
  auto visit = [&](const Runs &runs) {
    runs.forEach([&](uint64_t begin, uint64_t end, bool exact) {
      access(self, clock, unsigned(runs.memory), begin, end, exact, runs.write, walk, adds);
    });
  };
  auto box = [&](const auto &transfer, bool write) {
    Runs runs{transfer.memory, transfer.address, transfer.counts[0] << transfer.element_log2, write};
    for (size_t d = 0; d < 4; ++d)
      runs.along(transfer.counts[d + 1], transfer.strides[d]);
    visit(runs);
  };
  const int64_t element = timing::elementBytes(machine.arrayType), row = machine.accumulatorRowBytes(), lanes = machine.lanes;
  if (const auto *load = instruction.getIf<isa::Load>()) {
    box(*load, true);
  } else if (const auto *store = instruction.getIf<isa::Store>()) {
    box(*store, false);
  } else if (const auto *preload = instruction.getIf<isa::Preload>()) {
    const int64_t across = preload->transpose ? preload->k_count : preload->n_count;
    const int64_t down = preload->transpose ? preload->n_count : preload->k_count;
    Runs rows{preload->memory, preload->address, across * element, false};
    rows.along(down, preload->row_stride);
    readAgain(self, clock, rows);
  } else if (const auto *tensor = instruction.getIf<isa::Tensor>()) {
    Runs reads{tensor->memory, tensor->address, tensor->k_count * element, false};
    reads.along(tensor->counts, tensor->strides);
    readAgain(self, clock, reads);
    // Strides of extents of 1 are never used.
    Walk order{tensor->acc_address, tensor->counts, tensor->acc_strides};
    for (size_t i = 0; i < 3; ++i)
      if (order.counts[i] == 1)
        order.strides[i] = 0;
    const bool isSame = walks.back() == order;
    if (!isSame && !visitsOnce(order)) {
      problem("the tensor instruction visits an accumulator row twice");
    } else {
      if (!isSame)
        walks.push_back(order);
      walk = uint32_t(walks.size()) - 1;
    }
    adds = tensor->accumulate != 0;
    Runs rows{int64_t(isa::Memory::Accumulator), tensor->acc_address * row, row, true};
    rows.along(tensor->counts, tensor->acc_strides, row);
    // Sums that nothing began could hide in a gap.
    if (walk)
      rows.most = order.rows();
    visit(rows);
  } else if (const auto *vector = instruction.getIf<isa::Vector>()) {
    auto whole = [&](int64_t type) { return lanes * isa::elementBytes(isa::VectorType(type)); };
    // A vector is read long before an earlier one is written: only in its own place may a result land on a source.
    Runs d{vector->d_memory, vector->d_address, whole(vector->d_type), true};
    d.along(vector->counts, vector->d_strides);
    auto read = [&](const Runs &source, bool isOwnPlace) {
      visit(source);
      if (!isOwnPlace && meet(source, d))
        problem("the vector instruction reads bytes that it writes itself");
    };
    auto isOwnPlace = [&](int64_t address, int64_t type, const std::array<int64_t, 4> &strides) {
      bool same = address == vector->d_address && whole(type) == whole(vector->d_type);
      for (size_t i = 0; i < 4; ++i)
        same &= vector->counts[i] == 1 || strides[i] == vector->d_strides[i];
      return same;
    };
    Runs a{vector->a_memory, vector->a_address, whole(vector->a_type), false};
    a.along(vector->counts, vector->a_strides);
    a.along(vector->window, vector->a_window_strides);
    read(a, vector->window[0] * vector->window[1] == 1 && isOwnPlace(vector->a_address, vector->a_type, vector->a_strides));
    if (vector->b_enable) {
      Runs b{vector->b_memory, vector->b_address, whole(vector->b_type), false};
      if (isa::WindowOp(vector->window_op) == isa::WindowOp::Mac) {
        b.along(vector->counts[3], vector->b_strides[3]);
        b.along(vector->window[0], vector->b_tap_stride);
        b.along(vector->window[1], vector->window[0] * vector->b_tap_stride);
      } else {
        b.along(vector->counts, vector->b_strides);
      }
      read(b, isa::WindowOp(vector->window_op) != isa::WindowOp::Mac &&
                  isOwnPlace(vector->b_address, vector->b_type, vector->b_strides));
    }
    if (vector->p_count)
      read({vector->p_memory, vector->p_address, vector->counts[3] * vector->p_count * lanes * 4, false}, false);
    visit(d);
  }
}

void Checker::accessDram(unsigned self, const Clock &clock, const isa::Instruction &instruction) {
  // Each run of the box on its own: boxes of neighbouring tiles interleave.
  auto walk = [&](auto &box, const std::array<int64_t, 5> &low, const std::array<int64_t, 5> &high, bool broadcast,
                  bool write) {
    std::array<int64_t, 5> n;
    for (int d = 0; d < 5; ++d) {
      n[d] = box.counts[d] - low[d] - high[d];
      if (n[d] <= 0)
        return;
    }
    int64_t run = (broadcast ? 1 : n[0]) << box.element_log2;
    // Dense or small steps become one range.
    int merged = 0;
    while (merged < 4 && (n[merged + 1] == 1 || box.dram_strides[merged] == run)) {
      run *= n[merged + 1];
      ++merged;
    }
    std::array<int64_t, 5> i{};
    while (true) {
      int64_t at = box.dram_address;
      for (int d = merged; d < 4; ++d)
        at += i[d + 1] * box.dram_strides[d];
      if (write || isStored(uint64_t(at), uint64_t(at + run)))
        access(self, clock, kDram, uint64_t(at), uint64_t(at + run), true, write, 0, false);
      if (write)
        checkKept(self, uint64_t(at), uint64_t(at + run));
      int d = merged + 1;
      for (; d < 5; ++d) {
        if (++i[d] < n[d])
          break;
        i[d] = 0;
      }
      if (d >= 5)
        break;
    }
  };
  std::array<int64_t, 5> none{};
  if (auto *load = instruction.getIf<isa::Load>())
    walk(*load, load->low, load->high, load->broadcast != 0, false);
  if (auto *store = instruction.getIf<isa::Store>())
    walk(*store, none, none, false, true);
}

/// The first so many instructions of `engine` have started when the newest of `self` retires: those that it knows to have
/// retired; its own; and, since dispatch is in program order and stands still while a queue is full, all but the last
/// `queueDepth` of those before it (docs/timing.md, section 3).
uint32_t Checker::startedBefore(unsigned self, unsigned engine) const {
  if (engine == self)
    return counts[self];
  const uint32_t dispatched = counts[engine];
  return std::max(clocks[self][engine], dispatched - std::min(dispatched, machine.queueDepth));
}

void Checker::execute(const isa::Instruction &instruction) {
  if (auto why = isa::outOfRange(instruction, machine)) {
    problem(*why);
    return;
  }
  unsigned self = engineOf(instruction);
  Clock clock = clocks[self];
  const isa::Header &header = instruction.header;
  for (int i = 0; i < isa::kMaxWaits; ++i) {
    if (!header.wait_count[i])
      continue;
    Semaphore &semaphore = semaphores[size_t(header.wait_semaphore[i])];
    if (semaphore.waiter >= 0 && semaphore.waiter != int(self))
      problem("semaphore " + std::to_string(header.wait_semaphore[i]) + " is waited for by " + nameOf(self) + " and " +
              nameOf(unsigned(semaphore.waiter)));
    semaphore.waiter = int(self);
    if (int64_t(semaphore.tokens.size()) < header.wait_count[i]) {
      problem("wait for semaphore " + std::to_string(header.wait_semaphore[i]) + " is not satisfied by earlier posts");
      continue;
    }
    for (int64_t k = 0; k < header.wait_count[i]; ++k) {
      raise(clock, semaphore.tokens.front());
      semaphore.tokens.pop_front();
      semaphore.takenBy.push_back(counts[self] + 1);
    }
  }
  bool isTensor = instruction.opcode() == isa::Opcode::Tensor, isPreload = instruction.opcode() == isa::Opcode::Preload;
  if (isPreload) {
    if (shadowFull)
      problem("a preload follows a preload that no tensor instruction has taken");
    shadowFull = true;
  }
  if (isTensor && instruction.as<isa::Tensor>().swap) {
    if (!shadowFull)
      problem("a swap without a preload before it");
    shadowFull = false;
    activeFull = true;
    raise(clock, preloadClock);
  }
  if (isTensor && !activeFull)
    problem("a tensor instruction before any tile was made active in the array");
  ++counts[self];
  words[self].push_back(word);
  accessOnChip(self, clock, instruction);
  accessDram(self, clock, instruction);
  clocks[self] = clock;
  // At its retirement everything older of its engine has retired too.
  Clock after = clock;
  after[self] = counts[self];
  if (isPreload)
    preloadClock = after;
  for (int i = 0; i < isa::kMaxPosts; ++i) {
    if (!header.post_count[i])
      continue;
    Semaphore &semaphore = semaphores[size_t(header.post_semaphore[i])];
    if (semaphore.poster >= 0 && semaphore.poster != int(self))
      problem("semaphore " + std::to_string(header.post_semaphore[i]) + " is posted by " + nameOf(self) + " and " +
              nameOf(unsigned(semaphore.poster)));
    semaphore.poster = int(self);
    for (int64_t k = 0; k < header.post_count[i]; ++k)
      semaphore.tokens.push_back(after);
    semaphore.posted += uint64_t(header.post_count[i]);
    // Tokens certainly taken before this post.
    uint64_t taken = 0;
    if (semaphore.waiter >= 0) {
      const uint32_t started = startedBefore(self, unsigned(semaphore.waiter));
      taken =
          uint64_t(std::upper_bound(semaphore.takenBy.begin(), semaphore.takenBy.end(), started) - semaphore.takenBy.begin());
    }
    if (semaphore.posted - taken > machine.semaphoreMax)
      problem("semaphore " + std::to_string(header.post_semaphore[i]) + " may reach " +
                  std::to_string(semaphore.posted - taken) + " but holds at most " + std::to_string(machine.semaphoreMax),
              DiagnosticKind::TooManyPosts);
  }
}

template <typename Wanted, typename Visit> void Checker::forEachExecuted(Wanted isWanted, Visit visit) {
  struct Loop {
    uint32_t begin, end;
    int64_t left;
  };
  std::vector<Loop> loops;
  std::map<uint32_t, isa::OdometerState> odometers;
  std::map<uint32_t, isa::Decoded> decoded;
  for (word = 0; word < program.code.size() && problems.size() < kMaxProblems;) {
    if (loops.empty())
      decoded.clear(); // what runs once is not kept
    auto it = decoded.find(word);
    if (it == decoded.end())
      it = decoded.emplace(word, isa::decode(program.code.data() + word, program.code.size() - word)).first;
    const isa::Instruction &instruction = it->second.instruction;
    uint32_t next = word + instruction.words();
    if (instruction.opcode() == isa::Opcode::Halt)
      break;
    if (auto *loop = instruction.getIf<isa::Loop>()) {
      if (loops.empty())
        odometers.clear();
      if (const uint32_t end = uint32_t(next + loop->body_words); isWanted(next, end))
        loops.push_back({next, end, loop->count});
      else
        next = end;
    } else {
      isa::OdometerState fresh;
      isa::OdometerState &state = loops.empty() ? fresh : odometers[word];
      visit(instruction, state);
    }
    word = next;
    while (!loops.empty() && word == loops.back().end) {
      if (--loops.back().left > 0) {
        word = loops.back().begin;
        break;
      }
      loops.pop_back();
    }
  }
}

void Checker::findStored() {
  std::vector<uint32_t> stores; // words
  for (uint32_t at = 0; at < program.code.size();) {
    const isa::Instruction instruction = isa::decode(program.code.data() + at, program.code.size() - at).instruction;
    if (instruction.getIf<isa::Store>())
      stores.push_back(at);
    at += instruction.words();
  }
  auto hasStore = [&](uint32_t begin, uint32_t end) {
    auto next = std::lower_bound(stores.begin(), stores.end(), begin);
    return next != stores.end() && *next < end;
  };
  forEachExecuted(hasStore, [&](const isa::Instruction &instruction, isa::OdometerState &state) {
    if (!instruction.getIf<isa::Store>())
      return;
    const auto resolved = isa::resolve(instruction, state);
    const isa::Store *store = resolved ? resolved->getIf<isa::Store>() : nullptr;
    if (!store)
      return;
    // From the first byte to the last one, and what lies between.
    int64_t begin = store->dram_address, end = begin + (store->counts[0] << store->element_log2);
    for (int d = 0; d < 4; ++d)
      (store->dram_strides[d] < 0 ? begin : end) += (store->counts[d + 1] - 1) * store->dram_strides[d];
    stored.push_back({uint64_t(begin), uint64_t(end)});
  });
  std::sort(stored.begin(), stored.end());
  size_t count = 0;
  for (const auto &run : stored)
    if (count && run.first <= stored[count - 1].second)
      stored[count - 1].second = std::max(stored[count - 1].second, run.second);
    else
      stored[count++] = run;
  stored.resize(count);
}

Diagnostics Checker::run() {
  problems = isa::verify(program, machine);
  if (!problems.empty())
    return problems;
  findStored();
  forEachExecuted([](uint32_t, uint32_t) { return true; },
                  [&](const isa::Instruction &instruction, isa::OdometerState &state) {
                    if (auto resolved = isa::resolve(instruction, state))
                      execute(*resolved);
                  });
  if (problems.size() > kMaxProblems)
    problems.resize(kMaxProblems);
  return problems;
}
} // namespace

Diagnostics schedule::verifySchedule(const isa::Program &program, const timing::MachineParams &machine) {
  return Checker(program, machine).run();
}
