//===- SearchRecord.cpp - Points as numbers, and their order ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/search/SearchRecord.h"

#include <tuple>

using namespace tw::pipeline;

bool tw::pipeline::operator==(const SearchPoint &a, const SearchPoint &b) {
  return std::tie(a.decisions, a.variations, a.owners, a.others) == std::tie(b.decisions, b.variations, b.owners, b.others);
}

bool tw::pipeline::operator<(const SearchPoint &a, const SearchPoint &b) {
  return std::tie(a.decisions, a.variations, a.owners, a.others) < std::tie(b.decisions, b.variations, b.owners, b.others);
}

/// Each list behind its length, the number of other points before these.
static void append(const SearchPoint &point, std::vector<unsigned> &numbers) {
  for (const std::vector<unsigned> *list : {&point.decisions, &point.variations, &point.owners}) {
    numbers.push_back(unsigned(list->size()));
    numbers.insert(numbers.end(), list->begin(), list->end());
  }
  numbers.push_back(unsigned(point.others.size()));
  for (const SearchPoint &other : point.others)
    append(other, numbers);
}

/// Reads one point from `at` on.
static bool read(const std::vector<unsigned> &numbers, size_t &at, SearchPoint &point, unsigned depth) {
  for (std::vector<unsigned> *list : {&point.decisions, &point.variations, &point.owners}) {
    if (at >= numbers.size() || numbers.size() - at - 1 < numbers[at])
      return false;
    list->assign(numbers.begin() + long(at) + 1, numbers.begin() + long(at) + 1 + long(numbers[at]));
    at += 1 + list->size();
  }
  if (at >= numbers.size() || (depth && numbers[at]) || numbers[at] > numbers.size())
    return false;
  point.others.resize(numbers[at++]);
  for (SearchPoint &other : point.others)
    if (!read(numbers, at, other, depth + 1))
      return false;
  return true;
}

std::vector<unsigned> SearchPoint::numbers() const {
  std::vector<unsigned> result;
  append(*this, result);
  return result;
}

std::optional<SearchPoint> SearchPoint::from(const std::vector<unsigned> &numbers) {
  SearchPoint point;
  size_t at = 0;
  if (!read(numbers, at, point, 0) || at != numbers.size())
    return std::nullopt;
  return point;
}
