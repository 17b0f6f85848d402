//===- Crossover.cpp - Segments of layers exchanged between points --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/search/Crossover.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace tw;
using namespace tw::pipeline;

/// The first parent itself, if all layers are its own.
SearchPoint Offspring::point() const {
  SearchPoint point = parents.front();
  std::map<size_t, unsigned> number{{0, 0}};
  for (size_t parent : parentOf)
    if (number.try_emplace(parent, unsigned(number.size())).second)
      point.others.push_back(parents[parent]);
  if (number.size() > 1)
    for (size_t parent : parentOf)
      point.owners.push_back(number[parent]);
  return point;
}

Offspring Offspring::with(size_t donor, size_t first, size_t last) const {
  Offspring next = *this;
  std::fill(next.parentOf.begin() + long(first), next.parentOf.begin() + long(last), donor);
  return next;
}

llvm::Error Crossover::recombine(llvm::ArrayRef<SearchPoint> parents) {
  if (parents.empty())
    return llvm::Error::success();
  addParents(parents);
  unsigned lastGain = evaluator.evaluations();
  for (bool isBetter = true; isBetter;) {
    llvm::Expected<bool> improved = improve(lastGain);
    if (!improved)
      return improved.takeError();
    isBetter = *improved;
  }
  dropUnusedParents();
  return llvm::Error::success();
}

void Crossover::addParents(llvm::ArrayRef<SearchPoint> parents) {
  for (const SearchPoint &parent : parents)
    if (const Measurement &measurement = evaluator.measured(parent);
        offspring.parents.empty() || measurement.cycles < own.cycles) {
      offspring = {{parent}, std::vector<size_t>(layers, 0)};
      own = measurement;
    }
  for (const SearchPoint &parent : parents)
    if (!llvm::is_contained(offspring.parents, parent))
      offspring.parents.push_back(parent);
}

/// Segments of two, four, eight and more layers of each parent, half overlapping, the largest gain first.
std::vector<Crossover::Segment> Crossover::segments() const {
  std::vector<Segment> segments;
  for (size_t donor = 0; donor < offspring.parents.size(); ++donor) {
    const Measurement &other = evaluator.measured(offspring.parents[donor]);
    for (size_t length = 2; length < layers; length *= 2)
      for (size_t first = 0; first < layers; first += length / 2) {
        Segment segment{donor, first, std::min(first + length, layers), 0};
        for (size_t layer = first; layer < segment.last; ++layer)
          segment.gain += int64_t(own.layerCycles[layer]) - int64_t(other.layerCycles[layer]);
        segments.push_back(segment);
      }
  }
  llvm::stable_sort(segments, [](const Segment &a, const Segment &b) { return a.gain > b.gain; });
  return segments;
}

/// Takes the first segment that makes the offspring faster. Returns whether there is one. `lastGain`: programs that had counted
/// when the offspring improved last.
llvm::Expected<bool> Crossover::improve(unsigned &lastGain) {
  const std::vector<Segment> candidates = segments();
  auto with = [&](const Segment &segment) { return offspring.with(segment.donor, segment.first, segment.last); };
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (evaluator.isExhausted() || evaluator.evaluations() >= lastGain + parameters.patience)
      return false;
    Offspring next = with(candidates[i]);
    const SearchPoint point = next.point();
    if (evaluator.isSeen(point))
      continue;
    std::vector<SearchPoint> coming{point};
    for (size_t k = i + 1; k < candidates.size() && coming.size() < evaluator.depth(); ++k)
      if (SearchPoint other = with(candidates[k]).point(); !evaluator.isSeen(other))
        coming.push_back(std::move(other));
    evaluator.measureAhead(coming);
    llvm::Expected<const Measurement *> measured = evaluator.measure(point, "layers of another chain");
    if (!measured)
      return measured.takeError();
    if (!(*measured)->failure.empty() || (*measured)->cycles >= own.cycles)
      continue;
    offspring = std::move(next);
    own = **measured;
    lastGain = evaluator.evaluations();
    return true;
  }
  return false;
}

void Crossover::dropUnusedParents() {
  Offspring used{{offspring.parents.front()}, {}};
  std::map<size_t, size_t> number{{0, 0}};
  for (size_t parent : offspring.parentOf) {
    auto [it, isNew] = number.try_emplace(parent, used.parents.size());
    if (isNew)
      used.parents.push_back(offspring.parents[parent]);
    used.parentOf.push_back(it->second);
  }
  offspring = std::move(used);
}
