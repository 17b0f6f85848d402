//===- ValueFlow.cpp - Does every read find the write it means? ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/ValueFlow.h"

#include "isa/Legality.h"
#include "isa/Odometer.h"
#include "isa/timing/InstructionTiming.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>

using namespace tw;
using namespace tw::schedule;

namespace {
constexpr size_t kMaxProblems = 20;
constexpr int64_t kMaxRuns = 4096;        ///< of an access that is judged
constexpr uint32_t kNobody = 0;           ///< nothing has written the byte
constexpr uint32_t kUnknown = UINT32_MAX; ///< an access of too many runs may have written the byte
constexpr int kDramOperand = -1;          ///< DRAM is one value
constexpr unsigned kPageLog2 = 13;        ///< of Writers
constexpr uint64_t kPageBytes = uint64_t(1) << kPageLog2;

/// Equally spaced runs of bytes that an operation reads or writes over all its executions.
struct Access {
  unsigned space = 0;
  int64_t begin = 0, bytes = 0;
  bool isWrite = false;
  int operand = kDramOperand; ///< index into OperandValues
  struct Step {
    int64_t count, stride;
  };
  std::vector<Step> steps;

  void along(int64_t count, int64_t stride) {
    if (count > 1 && stride != 0)
      steps.push_back({count, stride});
  }
  /// Calls visit(begin, end) for each run, those that touch joined; false if there are too many, after one call for all from the first byte to
  /// the last.
  template <typename Visit> bool forEachRun(Visit visit) const {
    int64_t low = begin, width = bytes, runs = 1;
    std::vector<Step> apart;
    for (const Step &step : steps) {
      low += std::min<int64_t>(0, step.stride) * (step.count - 1);
      apart.push_back({step.count, std::abs(step.stride)});
    }
    std::sort(apart.begin(), apart.end(), [](const Step &a, const Step &b) { return a.stride < b.stride; });
    size_t joined = 0;
    for (; joined < apart.size() && apart[joined].stride <= width; ++joined)
      width += apart[joined].stride * (apart[joined].count - 1);
    apart.erase(apart.begin(), apart.begin() + long(joined));
    int64_t hull = width;
    for (const Step &step : apart) {
      hull += step.stride * (step.count - 1);
      runs = std::min(runs * step.count, kMaxRuns + 1);
    }
    if (runs > kMaxRuns) {
      visit(low, low + hull);
      return false;
    }
    std::vector<int64_t> done(apart.size());
    for (int64_t left = runs; left > 0; --left) {
      visit(low, low + width);
      for (size_t i = 0; i < apart.size(); ++i) {
        low += apart[i].stride;
        if (++done[i] < apart[i].count)
          break;
        low -= apart[i].stride * std::exchange(done[i], 0);
      }
    }
    return true;
  }
};

/// Reads first.
std::vector<Access> accessesOf(const isa::Instruction &instruction, const timing::MachineParams &machine) {
  std::vector<Access> accesses;
  const int64_t element = timing::elementBytes(machine.arrayType), row = machine.accumulatorRowBytes(), lanes = machine.lanes;
  auto add = [&](int64_t space, int64_t begin, int64_t bytes, bool isWrite, int operand, int64_t isa::Level::*stride,
                 int64_t scale = 1) -> Access & {
    Access &access = accesses.emplace_back();
    access.space = unsigned(space);
    access.begin = begin;
    access.bytes = bytes;
    access.isWrite = isWrite;
    access.operand = operand;
    for (int64_t i = 0; i < instruction.header.num_levels; ++i) {
      const isa::Level &level = instruction.levels[size_t(i)];
      access.along(level.wrap ? std::min(level.wrap, level.count) : level.count, level.*stride * scale);
    }
    return access;
  };
  auto onChip = [&](const auto &box, bool isWrite) {
    Access &access = add(box.memory, box.address, box.counts[0] << box.element_log2, isWrite, 0, &isa::Level::stride_b);
    for (size_t i = 0; i < 4; ++i)
      access.along(box.counts[i + 1], box.strides[i]);
  };
  auto inDram = [&](const auto &box, const std::array<int64_t, 5> &counts, bool isWrite, bool isBroadcast) {
    if (std::any_of(counts.begin(), counts.end(), [](int64_t count) { return count <= 0; }))
      return;
    Access &access = add(kDramSpace, box.dram_address, (isBroadcast ? 1 : counts[0]) << box.element_log2, isWrite, kDramOperand,
                         &isa::Level::stride_a);
    for (size_t i = 0; i < 4; ++i)
      access.along(counts[i + 1], box.dram_strides[i]);
  };
  if (const auto *load = instruction.getIf<isa::Load>()) {
    std::array<int64_t, 5> counts = load->counts;
    for (size_t i = 0; i < counts.size(); ++i)
      counts[i] -= load->low[i] + load->high[i];
    inDram(*load, counts, false, load->broadcast != 0);
    onChip(*load, true);
  } else if (const auto *store = instruction.getIf<isa::Store>()) {
    onChip(*store, false);
    inDram(*store, store->counts, true, false);
  } else if (const auto *preload = instruction.getIf<isa::Preload>()) {
    const bool isTurned = preload->transpose != 0;
    add(preload->memory, preload->address, (isTurned ? preload->k_count : preload->n_count) * element, false, 0,
        &isa::Level::stride_b)
        .along(isTurned ? preload->n_count : preload->k_count, preload->row_stride);
  } else if (const auto *tensor = instruction.getIf<isa::Tensor>()) {
    Access &input = add(tensor->memory, tensor->address, tensor->k_count * element, false, 0, &isa::Level::stride_b);
    for (size_t i = 0; i < 3; ++i)
      input.along(tensor->counts[i], tensor->strides[i]);
    // Where the first execution over a sum clears it, the operation finds only sums of its own there.
    for (bool isWrite : {false, true}) {
      if (!isWrite && (!tensor->accumulate || tensor->clear_mask))
        continue;
      Access &sums =
          add(int64_t(isa::Memory::Accumulator), tensor->acc_address * row, row, isWrite, 1, &isa::Level::stride_c, row);
      for (size_t i = 0; i < 3; ++i)
        sums.along(tensor->counts[i], tensor->acc_strides[i] * row);
    }
  } else if (const auto *vector = instruction.getIf<isa::Vector>()) {
    auto bytesOf = [&](int64_t type) { return lanes * isa::elementBytes(isa::VectorType(type)); };
    Access &a = add(vector->a_memory, vector->a_address, bytesOf(vector->a_type), false, 0, &isa::Level::stride_b);
    for (size_t i = 0; i < 4; ++i)
      a.along(vector->counts[i], vector->a_strides[i]);
    for (size_t i = 0; i < 2; ++i)
      a.along(vector->window[i], vector->a_window_strides[i]);
    if (vector->b_enable) {
      const bool hasTaps = isa::WindowOp(vector->window_op) == isa::WindowOp::Mac;
      Access &b = add(vector->b_memory, vector->b_address, bytesOf(vector->b_type), false, 1, &isa::Level::stride_c);
      for (size_t i = hasTaps ? 3 : 0; i < 4; ++i)
        b.along(vector->counts[i], vector->b_strides[i]);
      if (hasTaps)
        b.along(vector->window[0] * vector->window[1], vector->b_tap_stride);
    }
    if (vector->p_count)
      add(vector->p_memory, vector->p_address, vector->counts[3] * vector->p_count * lanes * 4, false, 2,
          &isa::Level::stride_a);
    Access &d = add(vector->d_memory, vector->d_address, bytesOf(vector->d_type), true, 3, &isa::Level::stride_d);
    for (size_t i = 0; i < 4; ++i)
      d.along(vector->counts[i], vector->d_strides[i]);
  }
  return accesses;
}

/// Which operation wrote each byte last.
class Writers {
public:
  /// Calls visit(begin, end, writer) for the pieces of [begin, end), in order.
  template <typename Visit> void read(int64_t begin, int64_t end, Visit visit) const {
    forEachPage(begin, end, [&](uint64_t index, uint32_t first, uint32_t last) {
      const int64_t start = int64_t(index << kPageLog2);
      auto page = pages.find(index);
      if (page == pages.end())
        return visit(start + first, start + last, kNobody);
      for (size_t i = pieceOf(page->second, first); i < page->second.size() && page->second[i].begin < last; ++i) {
        const uint32_t stop = i + 1 < page->second.size() ? page->second[i + 1].begin : uint32_t(kPageBytes);
        visit(start + std::max(page->second[i].begin, first), start + std::min(stop, last), page->second[i].writer);
      }
    });
  }
  void write(int64_t begin, int64_t end, uint32_t writer) {
    forEachPage(begin, end, [&](uint64_t index, uint32_t first, uint32_t last) {
      Page &page = pages[index];
      if (page.empty())
        page.push_back({0, kNobody});
      const size_t lastPiece = pieceOf(page, last - 1), firstPiece = pieceOf(page, first);
      const bool endsThere = lastPiece + 1 < page.size() ? page[lastPiece + 1].begin == last : last == kPageBytes;
      std::array<Piece, 2> pieces{Piece{first, writer}, Piece{last, page[lastPiece].writer}};
      const size_t from = page[firstPiece].begin == first ? firstPiece : firstPiece + 1, added = endsThere ? 1 : 2;
      const size_t replaced = std::min(added, lastPiece + 1 - from);
      std::copy_n(pieces.begin(), replaced, page.begin() + long(from));
      if (replaced < added)
        page.insert(page.begin() + long(from + replaced), pieces.begin() + long(replaced), pieces.begin() + long(added));
      else
        page.erase(page.begin() + long(from + replaced), page.begin() + long(lastPiece) + 1);
    });
  }

  bool isEmpty() const { return pages.empty(); }

private:
  struct Piece {
    uint32_t begin; ///< in the page; a piece ends where the next one begins
    uint32_t writer;
  };
  using Page = std::vector<Piece>;

  template <typename Visit> static void forEachPage(int64_t begin, int64_t end, Visit visit) {
    for (uint64_t at = uint64_t(begin); at < uint64_t(end);) {
      const uint64_t index = at >> kPageLog2, start = index << kPageLog2, stop = std::min(uint64_t(end), start + kPageBytes);
      visit(index, uint32_t(at - start), uint32_t(stop - start));
      at = stop;
    }
  }
  static size_t pieceOf(const Page &page, uint32_t at) {
    auto isBehind = [](uint32_t byte, const Piece &piece) { return byte < piece.begin; };
    return size_t(std::upper_bound(page.begin(), page.end(), at, isBehind) - page.begin()) - 1;
  }

  std::unordered_map<uint64_t, Page> pages;
};

class ValueFlow {
public:
  ValueFlow(const TileProgram &program, const timing::MachineParams &machine) : machine(machine) {
    for (const Block &block : program.blocks)
      for (const Operation &operation : block.operations)
        operations.push_back(&operation);
  }

  Diagnostics run() {
    if (std::any_of(operations.begin(), operations.end(), [](const Operation *operation) { return operation->number == 0; }))
      return {};
    std::vector<uint32_t> emitted(operations.size()); // operations, in the order in which they were emitted
    std::iota(emitted.begin(), emitted.end(), uint32_t(0));
    std::sort(emitted.begin(), emitted.end(),
              [&](uint32_t a, uint32_t b) { return operations[a]->number < operations[b]->number; });
    for (size_t i = 0; i + 1 < emitted.size(); ++i)
      if (operations[emitted[i]]->number == operations[emitted[i + 1]]->number)
        problem(emitted[i + 1], "is there twice");
    followMeaning(emitted);
    followProgram();
    return std::move(problems);
  }

private:
  const timing::MachineParams &machine;
  std::vector<const Operation *> operations; ///< in the order of the program
  Diagnostics problems;
  /// Bytes that an operation reads, and the operation that must have written them last; writers are indices of operations + 1.
  struct Expected {
    uint64_t space : 8, begin : kAddressBits;
    uint64_t bytes;
    uint32_t writer;
  };
  std::vector<Expected> expected;
  std::vector<std::pair<size_t, size_t>> expectedOf; ///< per operation: the first one, and behind the last one

  void problem(uint32_t operation, const std::string &what) {
    if (problems.size() < kMaxProblems)
      problems.push_back({{}, 0, 0, describe(operation) + " " + what});
  }
  std::string describe(uint32_t operation) const {
    return "operation " + std::to_string(operations[operation]->number) + " of layer " +
           std::to_string(operations[operation]->layer) + " (" + isa::print(operations[operation]->instruction) + ")";
  }
  static std::string placeOf(uint64_t space, uint64_t begin, uint64_t end) {
    return std::string(space == kDramSpace ? "dram" : isa::caseName(isa::kMemoryEnumeration, int64_t(space))) + " bytes [" +
           std::to_string(begin) + ", " + std::to_string(end) + ")";
  }

  /// Which write each read means.
  void followMeaning(const std::vector<uint32_t> &emitted) {
    std::unordered_map<uint32_t, uint32_t> lastUse; // by value: the last operation
    for (uint32_t index : emitted)
      for (uint32_t value : operations[index]->values.value)
        lastUse[value] = index;
    std::array<Writers, kDramSpace + 1> places; // of operands without a value
    std::unordered_map<uint32_t, Writers> values;
    expectedOf.resize(operations.size());
    for (uint32_t index : emitted) {
      const Operation &operation = *operations[index];
      const std::array<int64_t, 4> now = operandAddresses(operation.instruction, machine);
      expectedOf[index].first = expected.size();
      for (const Access &access : accessesOf(operation.instruction, machine)) {
        const uint32_t value = access.operand < 0 ? 0 : operation.values.value[size_t(access.operand)];
        Writers &writers = value ? values[value] : places[access.space];
        const int64_t moved =
            value ? int64_t(operation.values.address[size_t(access.operand)]) - now[size_t(access.operand)] : 0;
        if (access.isWrite) {
          write(writers, access, moved, index + 1);
          continue;
        }
        // Where the value has some bytes, those that it lacks are never part of a result.
        if (value && writers.isEmpty())
          problem(index, "reads a value that no operation before it writes");
        const size_t before = expected.size();
        const bool isExact = access.forEachRun([&](int64_t begin, int64_t end) {
          writers.read(begin + moved, end + moved, [&](int64_t from, int64_t to, uint32_t writer) {
            if (writer != kNobody && writer != kUnknown)
              expected.push_back({access.space, uint64_t(from - moved), uint64_t(to - from), writer});
          });
        });
        if (!isExact)
          expected.resize(before);
      }
      expectedOf[index].second = expected.size();
      for (uint32_t value : operation.values.value)
        if (value && lastUse[value] == index)
          values.erase(value);
    }
  }

  /// Which write each read finds.
  void followProgram() {
    std::array<Writers, kDramSpace + 1> places;
    for (uint32_t index = 0; index < operations.size() && problems.size() < kMaxProblems; ++index) {
      for (size_t i = expectedOf[index].first; i < expectedOf[index].second; ++i)
        if (!check(index, expected[i], places[expected[i].space]))
          break;
      for (const Access &access : accessesOf(operations[index]->instruction, machine))
        if (access.isWrite)
          write(places[access.space], access, 0, index + 1);
    }
  }

  bool check(uint32_t index, const Expected &read, const Writers &place) {
    bool isRight = true;
    place.read(int64_t(read.begin), int64_t(read.begin + read.bytes), [&](int64_t begin, int64_t end, uint32_t writer) {
      if (!isRight || writer == read.writer || writer == kUnknown)
        return;
      isRight = false;
      problem(index, "reads " + placeOf(read.space, uint64_t(begin), uint64_t(end)) + ", which must be those of " +
                         describe(read.writer - 1) + " and are " +
                         (writer == kNobody ? std::string("not written yet") : "those of " + describe(writer - 1)));
    });
    return isRight;
  }

  static void write(Writers &writers, const Access &access, int64_t moved, uint32_t writer) {
    std::vector<std::pair<int64_t, int64_t>> runs;
    const bool isExact = access.forEachRun([&](int64_t begin, int64_t end) { runs.push_back({begin + moved, end + moved}); });
    for (auto [begin, end] : runs)
      writers.write(begin, end, isExact ? writer : kUnknown);
  }
};
} // namespace

Diagnostics schedule::verifyValueFlow(const TileProgram &program, const timing::MachineParams &machine) {
  return ValueFlow(program, machine).run();
}

namespace {
/// What a program executes, one instruction after the other.
class Executed {
public:
  explicit Executed(const TileProgram &program) : blocks(program.blocks) {}

  /// Into `now`; the operation that it is an execution of, or null behind the last one.
  const Operation *next(isa::Instruction &now) {
    while (block < blocks.size()) {
      const Block &current = blocks[block];
      if (index == current.operations.size()) {
        index = 0;
        if (++iteration >= current.count) {
          ++block;
          iteration = 0;
          states.clear();
        }
        continue;
      }
      states.resize(current.operations.size());
      const Operation &operation = current.operations[index];
      if (isa::resolve(operation.instruction, states[index++], now))
        return &operation;
    }
    return nullptr;
  }

private:
  const std::vector<Block> &blocks;
  size_t block = 0, index = 0;
  uint64_t iteration = 0;
  std::vector<isa::OdometerState> states; ///< of the block's operations
};

/// Whether two resolved instructions are the same. Resolved ones have no levels, and an encoder sets opcode and words.
bool isSame(const isa::Instruction &a, const isa::Instruction &b) {
  isa::Header header = a.header;
  header.opcode = b.header.opcode;
  header.words = b.header.words;
  if (a.operands.index() != b.operands.index() || std::memcmp(&header, &b.header, sizeof header) != 0)
    return false;
  return std::visit(
      [&](const auto &operands) {
        using Operands = std::decay_t<decltype(operands)>;
        if constexpr (std::is_empty_v<Operands>)
          return true;
        else
          static_assert(std::has_unique_object_representations_v<Operands>, "operands are compared byte by byte");
        return std::memcmp(&operands, &std::get<Operands>(b.operands), sizeof operands) == 0;
      },
      a.operands);
}

class CodeChecker {
public:
  explicit CodeChecker(const TileProgram &program) : program(program) {}

  Diagnostics run(const std::vector<Code> &code) {
    for (const Code &part : code) {
      states.clear();
      if (!check(part))
        return std::move(problems);
    }
    if (program.next(expected))
      problems.push_back({{}, 0, 0, "the code ends before " + isa::print(expected)});
    return std::move(problems);
  }

private:
  Executed program;
  Diagnostics problems;
  isa::Instruction expected, found;
  std::unordered_map<const Code *, isa::OdometerState> states; ///< in the outermost loop at hand

  bool check(const Code &code) {
    if (const auto *loop = code.instruction.getIf<isa::Loop>()) {
      for (int64_t i = 0; i < loop->count; ++i)
        if (!std::all_of(code.body.begin(), code.body.end(), [&](const Code &inner) { return check(inner); }))
          return false;
      return true;
    }
    if (!isa::resolve(code.instruction, states[&code], found))
      return true;
    const Operation *operation = program.next(expected);
    if (operation && operation->layer == code.layer && isSame(found, expected))
      return true;
    problems.push_back(
        {{},
         0,
         0,
         "the code executes " + isa::print(found) + " of layer " + std::to_string(code.layer) +
             (operation ? " in place of " + isa::print(expected) + " of layer " + std::to_string(operation->layer)
                        : std::string(" behind the last operation"))});
    return false;
  }
};
} // namespace

Diagnostics schedule::verifyCode(const std::vector<Code> &code, const TileProgram &program) {
  return CodeChecker(program).run(code);
}

void schedule::numberBySteps(std::vector<Step> &steps, size_t first) {
  std::vector<uint64_t> numbers;
  std::vector<Operation *> ordered;
  auto isEarlier = [](const Operation *a, const Operation *b) { return a->number < b->number; };
  for (size_t i = first; i < steps.size(); ++i) {
    const size_t begin = ordered.size();
    for (Operation &load : steps[i].loads)
      ordered.push_back(&load);
    for (Block &block : steps[i].compute)
      for (Operation &operation : block.operations)
        ordered.push_back(&operation);
    std::sort(ordered.begin() + long(begin), ordered.end(), isEarlier);
  }
  for (const Operation *operation : ordered)
    numbers.push_back(operation->number);
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 0; i < ordered.size(); ++i)
    ordered[i]->number = numbers[i];
}
