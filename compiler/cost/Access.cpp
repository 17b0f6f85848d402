//===- Access.cpp - Which elements a result is made of ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/cost/Access.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <functional>

using namespace tw;
using namespace tw::cost;

//===----------------------------------------------------------------------===//
// Sets
//===----------------------------------------------------------------------===//

static uint64_t bitsOf(uint64_t word) { return uint64_t(__builtin_popcountll(word)); }

uint64_t IndexSet::count() const {
  if (full)
    return numbers;
  uint64_t all = 0;
  for (uint64_t word : words)
    all += bitsOf(word);
  return all;
}

void IndexSet::checkFull() {
  full = count() == numbers;
  if (full)
    words.clear();
}

void IndexSet::add(uint64_t begin, uint64_t end) {
  assert(begin <= end && end <= numbers && "not a range of the set");
  if (full || begin == end)
    return;
  if (end - begin == numbers) {
    full = true;
    words.clear();
    return;
  }
  words.resize((numbers + 63) / 64, 0);
  const uint64_t first = begin / 64, last = (end - 1) / 64;
  const uint64_t low = ~uint64_t(0) << begin % 64, high = ~uint64_t(0) >> (63 - (end - 1) % 64);
  if (first == last) {
    words[first] |= low & high;
    return;
  }
  words[first] |= low;
  std::fill(words.begin() + long(first) + 1, words.begin() + long(last), ~uint64_t(0));
  words[last] |= high;
}

void IndexSet::add(const IndexSet &other) {
  assert(numbers == other.numbers && "sets of different tensors");
  if (full || (other.words.empty() && !other.full))
    return;
  if (other.full || words.empty()) {
    *this = other;
  } else {
    for (size_t i = 0; i < words.size(); ++i)
      words[i] |= other.words[i];
  }
  if (!full)
    checkFull();
}

uint64_t IndexSet::next(uint64_t begin, bool isIn, uint64_t end) const {
  end = std::min(end, numbers);
  if (words.empty())
    return full == isIn ? std::min(begin, end) : end;
  for (uint64_t at = begin; at < end; at = (at / 64 + 1) * 64) {
    const uint64_t word = (isIn ? words[at / 64] : ~words[at / 64]) >> at % 64;
    if (word)
      return std::min(end, at + uint64_t(__builtin_ctzll(word)));
  }
  return end;
}

//===----------------------------------------------------------------------===//
// Relations
//===----------------------------------------------------------------------===//

uint64_t ResultSpace::size() const {
  uint64_t all = 1;
  for (const Axis &axis : axes)
    all *= uint64_t(axis.size);
  return all;
}

namespace {
/// All combinations of positions of some axes, the last axis fastest, and those of them that are in a set.
struct Positions {
  std::vector<int64_t> sizes;
  IndexSet set;

  uint64_t inner(size_t axis) const {
    uint64_t all = 1;
    for (size_t i = axis + 1; i < sizes.size(); ++i)
      all *= uint64_t(sizes[i]);
    return all;
  }

  /// Replaces an axis: a position there is in the set if one of those positions was that `reaches` passes to its second argument.
  void replace(size_t axis, int64_t size,
               const std::function<void(int64_t from, const std::function<void(int64_t to)> &)> &reaches) {
    const uint64_t run = inner(axis), from = uint64_t(sizes[axis]), to = uint64_t(size);
    const uint64_t outer = from * run ? set.size() / (from * run) : 0;
    IndexSet made(outer * to * run);
    for (uint64_t o = 0; o < outer; ++o)
      for (uint64_t i = 0; i < from; ++i) {
        const uint64_t base = (o * from + i) * run, end = base + run;
        for (uint64_t begin = set.next(base, true, end); begin < end;) {
          const uint64_t stop = set.next(begin, false, end);
          reaches(int64_t(i), [&](int64_t position) {
            const uint64_t target = (o * to + uint64_t(position)) * run;
            made.add(target + (begin - base), target + (stop - base));
          });
          begin = set.next(stop, true, end);
        }
      }
    sizes[axis] = size;
    set = std::move(made);
  }

  /// Without an axis: what is in the set at any position along it.
  void drop(size_t axis) {
    const uint64_t size = uint64_t(sizes[axis]);
    if (inner(axis) == 1 && size > 1) {
      IndexSet made(set.size() / size);
      for (uint64_t at = set.next(0, true); at < set.size(); at = set.next((at / size + 1) * size, true))
        made.add(at / size, at / size + 1);
      set = std::move(made);
    } else if (size != 1) {
      replace(axis, 1, [](int64_t, const auto &add) { add(0); });
    }
    sizes.erase(sizes.begin() + long(axis));
  }
};

int64_t inputPositions(const PositionAxis &axis) { return axis.broadcast ? 1 : axis.inputSize; }

void apply(const PositionAxis &window, int64_t from, const std::function<void(int64_t)> &add) {
  for (int64_t k = 0; k < window.kernel; ++k)
    if (const int64_t i = window.input(from, k); i >= 0)
      add(i);
}

/// Adds elements at all combinations of positions along some axes.
class Scatter {
public:
  Scatter(IndexSet &elements, std::vector<Access::Axis> free, int64_t offset) : elements(elements), offset(offset) {
    for (Access::Axis &axis : free)
      if (axis.stride < 0) {
        this->offset += axis.stride * (axis.size - 1);
        axis.stride = -axis.stride;
      }
    std::sort(free.begin(), free.end(), [](const auto &a, const auto &b) { return a.stride < b.stride; });
    for (const Access::Axis &axis : free)
      if (axis.size == 0)
        isEmpty = true;
      else if (axis.stride == int64_t(run))
        run *= uint64_t(axis.size);
      else if (axis.size > 1 && axis.stride)
        others.push_back(axis);
  }

  /// Elements side by side for one position along the other axes.
  uint64_t sideBySide() const { return run; }
  /// At `count` positions behind one another, sideBySide() elements apart.
  void add(int64_t at, uint64_t count = 1) { add(offset + at, count * run, 0); }

private:
  IndexSet &elements;
  int64_t offset;
  uint64_t run = 1;
  bool isEmpty = false;
  std::vector<Access::Axis> others;

  void add(int64_t at, uint64_t count, size_t axis) {
    if (isEmpty)
      return;
    if (axis == others.size())
      return elements.add(uint64_t(at), uint64_t(at) + count);
    for (int64_t i = 0; i < others[axis].size; ++i)
      add(at + i * others[axis].stride, count, axis + 1);
  }
};

/// Whether no two combinations of positions are one element.
bool isInjective(std::vector<Access::Axis> axes) {
  std::sort(axes.begin(), axes.end(), [](const auto &a, const auto &b) { return std::abs(a.stride) < std::abs(b.stride); });
  int64_t reach = 0;
  for (const Access::Axis &axis : axes) {
    if (axis.size <= 1)
      continue;
    if (std::abs(axis.stride) <= reach)
      return false;
    reach += std::abs(axis.stride) * (axis.size - 1);
  }
  return true;
}

/// Whether each position along an axis of the tensor is taken, if all results of the axis that decides are made.
std::vector<bool> takenOf(const Access::Axis &axis) {
  std::vector<bool> taken(size_t(axis.windows.empty() ? axis.size : axis.windows.front().size), true);
  for (const PositionAxis &window : axis.windows) {
    std::vector<bool> next(size_t(inputPositions(window)), false);
    for (size_t from = 0; from < taken.size(); ++from)
      if (taken[from])
        apply(window, int64_t(from), [&](int64_t to) { next[size_t(to)] = true; });
    taken = std::move(next);
  }
  return taken;
}
} // namespace

IndexSet cost::elementsTaken(const ResultSpace &space, const IndexSet &results, const Access &access) {
  IndexSet elements(access.elements);
  std::vector<Access::Axis> decided, free; // by single positions; all positions are taken
  Positions positions{{}, IndexSet(1, true)};
  if (!results.isFull()) {
    positions.set = results;
    for (const ResultSpace::Axis &axis : space.axes)
      positions.sizes.push_back(axis.size);
    for (size_t a = space.axes.size(); a-- > 0;) {
      auto axis = std::find_if(access.axes.begin(), access.axes.end(), [&](const auto &own) { return own.result == int(a); });
      if (axis == access.axes.end()) {
        positions.drop(a);
        continue;
      }
      for (const PositionAxis &window : axis->windows)
        positions.replace(a, inputPositions(window),
                          [&](int64_t from, const std::function<void(int64_t)> &add) { apply(window, from, add); });
      decided.insert(decided.begin(), *axis);
    }
  }
  // Along the other axes what is taken does not hang on the results; along all of them, if all results are made.
  uint64_t combinations = 1;
  for (const Access::Axis &axis : access.axes) {
    if (axis.result >= 0 && !results.isFull())
      continue;
    const std::vector<bool> taken = takenOf(axis);
    const auto count = std::count(taken.begin(), taken.end(), true);
    combinations *= uint64_t(count);
    if (count == long(taken.size())) {
      free.push_back(axis);
      continue;
    }
    decided.push_back(axis);
    positions.sizes.push_back(1);
    positions.replace(positions.sizes.size() - 1, axis.size, [&](int64_t, const std::function<void(int64_t)> &add) {
      for (size_t i = 0; i < taken.size(); ++i)
        if (taken[i])
          add(int64_t(i));
    });
  }
  if (results.isFull() && combinations == access.elements && isInjective(access.axes))
    return IndexSet(access.elements, true);
  // Runs of positions along the last axis are runs of elements, if these lie side by side.
  Scatter scatter(elements, std::move(free), access.offset);
  const IndexSet &set = positions.set;
  const uint64_t row = decided.empty() ? 1 : uint64_t(positions.sizes.back());
  const bool isDense = !decided.empty() && decided.back().stride == int64_t(scatter.sideBySide());
  for (uint64_t begin = set.next(0, true); begin < set.size();) {
    int64_t at = 0;
    uint64_t rest = begin;
    for (size_t a = decided.size(); a-- > 0;) {
      at += int64_t(rest % uint64_t(positions.sizes[a])) * decided[a].stride;
      rest /= uint64_t(positions.sizes[a]);
    }
    const uint64_t end = isDense ? set.next(begin, false, (begin / row + 1) * row) : begin + 1;
    scatter.add(at, end - begin);
    begin = set.next(end, true);
  }
  IndexSet checked(access.elements);
  checked.add(elements); // it may be full
  return checked;
}

IndexSet cost::resultsIn(const ResultSpace &space, const IndexSet &written) {
  const uint64_t size = space.size();
  if (written.isFull())
    return IndexSet(size, true);
  IndexSet results(size);
  const uint64_t row = space.axes.empty() ? 1 : uint64_t(space.axes.back().size);
  const int64_t step = space.axes.empty() ? 0 : space.axes.back().stride;
  for (uint64_t first = 0; first < size; first += row) {
    int64_t at = space.offset;
    uint64_t rest = first / row;
    for (size_t a = space.axes.size() - (space.axes.empty() ? 0 : 1); a-- > 0;) {
      at += int64_t(rest % uint64_t(space.axes[a].size)) * space.axes[a].stride;
      rest /= uint64_t(space.axes[a].size);
    }
    if (step != 1) {
      for (uint64_t i = 0; i < row; ++i)
        if (written.contains(uint64_t(at + int64_t(i) * step)))
          results.add(first + i, first + i + 1);
      continue;
    }
    const uint64_t end = uint64_t(at) + row;
    for (uint64_t begin = written.next(uint64_t(at), true, end); begin < end;) {
      const uint64_t stop = written.next(begin, false, end);
      results.add(first + (begin - uint64_t(at)), first + (stop - uint64_t(at)));
      begin = written.next(stop, true, end);
    }
  }
  IndexSet checked(size);
  checked.add(results);
  return checked;
}

std::vector<std::vector<int64_t>> cost::combinationsOf(const std::vector<int64_t> &sizes, const IndexSet &set) {
  std::vector<std::vector<int64_t>> positions;
  uint64_t combinations = 1;
  for (size_t a = 0; a < sizes.size(); ++a) {
    Positions own{sizes, set};
    for (size_t other = sizes.size(); other-- > 0;)
      if (other != a)
        own.drop(other);
    std::vector<int64_t> &along = positions.emplace_back();
    for (uint64_t i = own.set.next(0, true); i < own.set.size(); i = own.set.next(i + 1, true))
      along.push_back(int64_t(i));
    combinations *= along.size();
  }
  return combinations == set.count() ? positions : std::vector<std::vector<int64_t>>();
}
