//===- SpaceMap.h - What happened to each run of bytes -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_SCHEDULE_SPACEMAP_H
#define COMPILER_SCHEDULE_SPACEMAP_H

#include <cstdint>
#include <iterator>
#include <map>

namespace tw::schedule {

/// Bytes of one address space, in pieces that are cut where histories differ.
template <typename History> class SpaceMap {
public:
  explicit SpaceMap(History untouched = {}) { near = pieces.emplace(0, std::move(untouched)).first; }
  SpaceMap(SpaceMap &&) = default; // iterators stay good

  /// Calls `visit` on every piece of [begin, end), cut to exactly that run.
  template <typename Visit> void forRange(uint64_t begin, uint64_t end, Visit visit) {
    for (Iterator it = pieceAt(begin); it != pieces.end() && it->first < end; ++it) {
      if (Iterator next = std::next(it); next == pieces.end() || next->first > end)
        pieces.emplace_hint(next, end, it->second);
      visit(it->second);
    }
  }
  /// Makes [begin, end) one piece with the history of its first byte, which is returned.
  History &merge(uint64_t begin, uint64_t end) {
    Iterator first = pieceAt(begin), last = std::next(first);
    while (last != pieces.end() && last->first < end)
      ++last;
    pieces.erase(std::next(first), last);
    return first->second;
  }

private:
  using Iterator = typename std::map<uint64_t, History>::iterator;

  /// The piece that begins there.
  Iterator pieceAt(uint64_t at) {
    // The runs of an instruction follow each other: the next one is seldom far.
    constexpr int kSteps = 8;
    Iterator next = near;
    for (int i = 0; i < kSteps && next != pieces.end() && next->first <= at; ++i)
      ++next;
    if (next == near || (next != pieces.end() && next->first <= at))
      next = pieces.upper_bound(at);
    near = std::prev(next);
    if (near->first != at)
      near = pieces.emplace_hint(next, at, near->second);
    return near;
  }

  std::map<uint64_t, History> pieces;
  Iterator near; ///< the piece that was looked for last
};

} // namespace tw::schedule

#endif // COMPILER_SCHEDULE_SPACEMAP_H
