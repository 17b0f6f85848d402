//===- SpaceMap.h - What happened to each run of bytes -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_SCHEDULE_SPACEMAP_H
#define COMPILER_SCHEDULE_SPACEMAP_H

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tw::schedule {

/// Instructions touch short runs on chip and long ones in DRAM.
constexpr unsigned kChipPageLog2 = 10, kDramPageLog2 = 16;

/// Bytes of one address space, in pieces that are cut where histories differ. No piece reaches from one page into the next, so
/// that few lie between an access and its own.
template <typename History> class SpaceMap {
public:
  explicit SpaceMap(unsigned pageLog2, History untouched = {})
      : pageLog2(pageLog2), pageBytes(uint64_t(1) << pageLog2), untouched(std::move(untouched)) {}

  /// Calls `visit` on every piece that has a byte of [begin, end).
  template <typename Visit> void look(uint64_t begin, uint64_t end, Visit visit) {
    forEachPage(begin, end, [&](Page &page, uint32_t first, uint32_t last) {
      for (size_t i = pieceOf(page, first); i < page.size() && page[i].begin < last; ++i)
        visit(std::as_const(page[i].history));
    });
  }
  /// The same for pieces cut to exactly that run, whose histories `visit` may change.
  template <typename Visit> void forRange(uint64_t begin, uint64_t end, Visit visit) {
    forEachPage(begin, end, [&](Page &page, uint32_t first, uint32_t last) {
      size_t i = cut(page, first);
      for (; i < page.size() && page[i].begin < last; ++i) {
        if (last < pageBytes && (i + 1 == page.size() || page[i + 1].begin > last))
          page.insert(page.begin() + long(i) + 1, {last, page[i].history});
        visit(page[i].history);
      }
    });
  }
  /// Gives all of [begin, end) that history, after a look at what it had.
  template <typename Visit> void assign(uint64_t begin, uint64_t end, const History &history, Visit visit) {
    forEachPage(begin, end, [&](Page &page, uint32_t first, uint32_t last) {
      const size_t from = cut(page, first);
      size_t to = from;
      for (; to < page.size() && page[to].begin < last; ++to)
        visit(std::as_const(page[to].history));
      if (last < pageBytes && (to == page.size() || page[to].begin > last)) {
        Piece rest{last, page[to - 1].history};
        if (to > from + 1)
          page[--to] = std::move(rest);
        else
          page.insert(page.begin() + long(to), std::move(rest));
      }
      page[from].history = history;
      page.erase(page.begin() + long(from) + 1, page.begin() + long(to));
    });
  }

private:
  static constexpr uint64_t kDense = uint64_t(1) << 16; ///< pages that are found without a search

  struct Piece {
    uint32_t begin; ///< in the page
    History history;
  };
  using Page = std::vector<Piece>;

  template <typename Visit> void forEachPage(uint64_t begin, uint64_t end, Visit visit) {
    for (uint64_t index = begin >> pageLog2; begin < end; ++index) {
      const uint64_t start = index << pageLog2, stop = std::min(end, start + pageBytes);
      Page &page = pageAt(index);
      if (page.empty())
        page.push_back({0, untouched});
      visit(page, uint32_t(begin - start), uint32_t(stop - start));
      begin = stop;
    }
  }
  Page &pageAt(uint64_t index) { return index < dense.size() ? dense[index] : newPage(index); }
  Page &newPage(uint64_t index) {
    if (index >= kDense)
      return sparse[index];
    dense.resize(index + 1);
    return dense[index];
  }
  /// The piece that holds the byte: mostly a few behind the one that was asked for last, as runs come in order.
  size_t pieceOf(const Page &page, uint32_t at) {
    constexpr size_t kFew = 8;
    size_t piece = found;
    if (piece < page.size() && page[piece].begin <= at) {
      const size_t end = std::min(page.size(), piece + kFew);
      while (++piece < end && page[piece].begin <= at)
        ;
      if (piece < end || end == page.size())
        return found = piece - 1;
    }
    auto isBefore = [](uint32_t at, const Piece &piece) { return at < piece.begin; };
    return found = size_t(std::upper_bound(page.begin(), page.end(), at, isBefore) - page.begin()) - 1;
  }
  /// The piece that begins there.
  size_t cut(Page &page, uint32_t at) {
    size_t i = pieceOf(page, at);
    if (page[i].begin == at)
      return i;
    Piece piece{at, page[i].history};
    page.insert(page.begin() + long(i) + 1, std::move(piece));
    return i + 1;
  }

  unsigned pageLog2;
  uint64_t pageBytes;
  History untouched;
  size_t found = 0; ///< by pieceOf() last, whatever the page was
  std::vector<Page> dense;
  std::unordered_map<uint64_t, Page> sparse;
};

} // namespace tw::schedule

#endif // COMPILER_SCHEDULE_SPACEMAP_H
