//===- BorderProblem.cpp - Which borders of kernels are moved --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/BorderProblem.h"
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace tw::graph {
namespace {

/// 2^12 choices at most are tried.
constexpr size_t kMostExact = 12;

/// Sets of alternatives that hang together by the kernels that they change; those without gain are in none.
std::vector<std::vector<unsigned>> components(const BorderProblem &problem) {
  std::vector<unsigned> parent(problem.alternatives.size());
  std::iota(parent.begin(), parent.end(), 0u);
  auto rootOf = [&](unsigned i) {
    while (parent[i] != i)
      i = parent[i] = parent[parent[i]];
    return i;
  };
  std::map<unsigned, unsigned> first; // alternative by kernel
  for (unsigned i = 0; i < parent.size(); ++i)
    if (problem.alternatives[i].gain > 0)
      for (unsigned kernel : problem.alternatives[i].kernels)
        if (auto [other, isNew] = first.try_emplace(kernel, i); !isNew)
          parent[rootOf(i)] = rootOf(other->second);
  std::map<unsigned, std::vector<unsigned>> sets;
  for (unsigned i = 0; i < parent.size(); ++i)
    if (problem.alternatives[i].gain > 0)
      sets[rootOf(i)].push_back(i);
  std::vector<std::vector<unsigned>> result;
  for (auto &[root, set] : sets)
    result.push_back(std::move(set));
  return result;
}

/// The best choice of alternatives of `set` from position `next` on, beside those that are in `taken`.
struct Exact {
  const BorderProblem &problem;
  const std::vector<unsigned> &set;
  BorderChoice best = {}, taken = {};
  int64_t bestGain = 0, gain = 0;
  std::set<unsigned> changed = {}; ///< kernels

  void from(size_t next) {
    if (next == set.size()) {
      if (gain > bestGain || (gain == bestGain && taken.size() < best.size())) {
        bestGain = gain;
        best = taken;
      }
      return;
    }
    const BorderProblem::Alternative &alternative = problem.alternatives[set[next]];
    if (std::none_of(alternative.kernels.begin(), alternative.kernels.end(), [&](unsigned k) { return changed.count(k); })) {
      changed.insert(alternative.kernels.begin(), alternative.kernels.end());
      taken.push_back(set[next]);
      gain += alternative.gain;
      from(next + 1);
      gain -= alternative.gain;
      taken.pop_back();
      for (unsigned kernel : alternative.kernels)
        changed.erase(kernel);
    }
    from(next + 1);
  }
};

BorderChoice byGain(const BorderProblem &problem, std::vector<unsigned> set) {
  std::stable_sort(set.begin(), set.end(),
                   [&](unsigned a, unsigned b) { return problem.alternatives[a].gain > problem.alternatives[b].gain; });
  std::set<unsigned> changed;
  BorderChoice choice;
  for (unsigned i : set) {
    const std::vector<unsigned> &kernels = problem.alternatives[i].kernels;
    if (std::any_of(kernels.begin(), kernels.end(), [&](unsigned kernel) { return changed.count(kernel); }))
      continue;
    changed.insert(kernels.begin(), kernels.end());
    choice.push_back(i);
  }
  return choice;
}

} // namespace

int64_t gainOf(const BorderProblem &problem, const BorderChoice &choice) {
  int64_t gain = 0;
  for (unsigned i : choice)
    gain += problem.alternatives[i].gain;
  return gain;
}

std::string whatIsWrong(const BorderProblem &problem, const BorderChoice &choice) {
  std::map<unsigned, unsigned> changed; // alternative by kernel
  for (unsigned i : choice) {
    if (i >= problem.alternatives.size())
      return "alternative " + std::to_string(i) + " is taken, there are " + std::to_string(problem.alternatives.size());
    for (unsigned kernel : problem.alternatives[i].kernels)
      if (auto [other, isNew] = changed.try_emplace(kernel, i); !isNew)
        return "alternatives " + std::to_string(other->second) + " and " + std::to_string(i) + " both change kernel " +
               std::to_string(kernel);
  }
  return "";
}

BorderChoice solve(const BorderProblem &problem) {
  BorderChoice choice;
  for (const std::vector<unsigned> &set : components(problem)) {
    BorderChoice part;
    if (set.size() <= kMostExact) {
      Exact exact{problem, set};
      exact.from(0);
      part = std::move(exact.best);
    } else {
      part = byGain(problem, set);
    }
    choice.insert(choice.end(), part.begin(), part.end());
  }
  std::sort(choice.begin(), choice.end());
  return choice;
}

} // namespace tw::graph
