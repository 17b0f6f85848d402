//===- Search.h - Decisions of a schedule, found by running ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The compiler ranks the ways in which each decision can go, such as the tiles of
// a layer; the first of each make the program of the schedule pipelined. The search
// takes others and keeps what makes the whole program faster. It knows layers only
// by their numbers and cycles.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_SEARCH_H
#define COMPILER_PIPELINE_SEARCH_H

#include "compiler/pipeline/SearchRecord.h"
#include "isa/Program.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <optional>
#include <string>

namespace tw::pipeline {

struct CompiledNetwork;

/// Something that a search may decide.
struct Decision {
  std::optional<unsigned> layer; ///< nothing: of the whole network
  unsigned candidates = 1;       ///< the first is what the compiler prefers
  unsigned kind = 0;             ///< those of one kind learn from each other
  std::string name;              ///< for people
  unsigned reach = 0;            ///< layers behind it whose place in the program changes with it, beside the next one
  bool isProbed = false;         ///< the estimate sees too little of it: what it does not like much less is run all the same
};

/// Keeps records beyond one search. A problem is named by a digest of the kernels, their shapes and how they are connected.
class SearchCache {
public:
  virtual ~SearchCache() = default;
  /// Empty where nothing is known.
  virtual llvm::Expected<SearchRecord> load(const std::string &problem) = 0;
  virtual llvm::Error save(const std::string &problem, const SearchRecord &record) = 0;
};

struct SearchOptions {
  /// Cycles of a whole program. Without it nothing is searched. An error ends the search.
  std::function<llvm::Expected<Measurement>(const isa::Program &)> evaluate;
  /// Programs to try, the first included.
  unsigned budget = 64;
  /// Equal seeds and budgets give equal programs.
  uint64_t seed = 1;
  /// Processes that measure and estimate at once: what will be asked for, and what may be. The search is the same with any number.
  unsigned jobs = 1;
  SearchCache *cache = nullptr;
  /// Where a search with this budget has ended before, with whatever seed: take the best that the cache knows, and try nothing.
  bool takeBest = false;
  std::function<void(const SearchProgress &)> progress;
};

/// points for the decisions; and behind them, if there are more, which of its values each aspect of the program has that the decisions
/// make (0: its own). And behind these, if there are more, layers that are as in other such programs: how many programs, each with the
/// number of its picks before them, and for each layer whose it is (0: the first one's).
using CompilePoint = llvm::function_ref<llvm::Expected<CompiledNetwork>(const SearchPoint &, bool onlyTimed)>;
/// What a program would take, soon. There is none for variations.
using EstimatePoint = llvm::function_ref<llvm::Expected<Measurement>(const SearchPoint &)>;

/// Makes the program of a point, or of the point without coordinates the first one; without what only values depend on if it is `onlyTimed`.
using CompilePoint = llvm::function_ref<llvm::Expected<CompiledNetwork>(const SearchPoint &, bool onlyTimed)>;
using EstimatePoint = llvm::function_ref<llvm::Expected<Measurement>(const SearchPoint &)>;

/// The fastest program that was found: never a slower one than that of the first candidates. `compile` makes the program of some
/// picks (none: the first candidates), without what only values depend on if it is `onlyTimed`. A program that does not verify or run is an internal error; one that the machine has no
/// room for (semaphores, DRAM) counts as failed. `estimate`, if given, says what is expected of a program that need not be made for
/// that: what it does not like is not compiled as long as there is something that it likes.

/// The fastest program that was found: never a slower one than the first. A program that does not verify or run is an internal error; one
/// that the machine has no room for counts as tried.
llvm::Expected<CompiledNetwork> search(CompilePoint compile, const SearchOptions &options, EstimatePoint estimate = {});

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_SEARCH_H
