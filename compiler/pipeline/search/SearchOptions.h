//===- SearchOptions.h - Budget, seed, cache of a search ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_PIPELINE_SEARCH_SEARCHOPTIONS_H
#define COMPILER_PIPELINE_SEARCH_SEARCHOPTIONS_H

#include "compiler/pipeline/search/SearchRecord.h"
#include "isa/Program.h"

#include "llvm/Support/Error.h"

#include <functional>
#include <string>

namespace tw::pipeline {

/// Keeps records beyond one search. A problem is named by a digest of the kernels, their shapes and how they are connected.
class SearchCache {
public:
  virtual ~SearchCache() = default;
  /// Empty if the problem is unknown.
  virtual llvm::Expected<SearchRecord> load(const std::string &problem) = 0;
  virtual llvm::Error save(const std::string &problem, const SearchRecord &record) = 0;
};

struct SearchOptions {
  /// Simulates a whole program. Null: nothing is searched. An error ends the search.
  std::function<llvm::Expected<Measurement>(const isa::Program &)> evaluate;
  /// Programs to try, the first included.
  unsigned budget = 64;
  /// Equal seeds and budgets give equal programs.
  uint64_t seed = 1;
  /// Processes that measure and estimate at the same time. The result does not depend on their number.
  unsigned jobs = 1;
  SearchCache *cache = nullptr;
  /// Takes the best point of the cache and tries nothing, if a search with at least this budget, and any seed, has ended.
  bool takeBest = false;
  std::function<void(const SearchProgress &)> progress;
};

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_SEARCH_SEARCHOPTIONS_H
