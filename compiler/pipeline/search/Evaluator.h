//===- Evaluator.h - Measurements of points within a budget ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All algorithms of the search ask one evaluator. It compiles and simulates
// points, keeps the memo, counts programs against the budget, and lets worker
// processes compute ahead.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_SEARCH_EVALUATOR_H
#define COMPILER_PIPELINE_SEARCH_EVALUATOR_H

#include "compiler/pipeline/search/SearchOptions.h"
#include "compiler/pipeline/search/Workers.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
#include <chrono>
#include <set>

namespace tw::pipeline {

/// Constants of the evaluator.
struct EvaluatorParameters {
  /// Programs. Records of more are written at intervals only: writing takes time in proportion to their size.
  size_t smallRecord = 64;
  /// Between two writes of a large record.
  std::chrono::seconds saveInterval{1};
  /// Programs of a short search. A longer one consists of annealing mostly, which meets so many known programs that they would
  /// take most of its time: they are free less often.
  unsigned shortBudget = 64;
  /// Free points per program of the budget, in a short search and in a longer one.
  unsigned freeShort = 4, freeLong = 1;
};

class Evaluator {
public:
  using Clock = std::chrono::steady_clock;
  /// Errors as of CompilePoint.
  using ProgramOf = llvm::function_ref<llvm::Expected<isa::Program>(const SearchPoint &)>;
  using Estimator = llvm::function_ref<llvm::Expected<Measurement>(const SearchPoint &)>;

  /// `estimator` may be null. `begin`: when the search began. The callables and `options` must outlive the evaluator.
  Evaluator(ProgramOf programOf, const SearchOptions &options, Estimator estimator = {}, Clock::time_point begin = Clock::now(),
            const EvaluatorParameters &parameters = {});

  /// Takes the record of `problem` from the cache, if there is a cache and `fits` accepts the record.
  llvm::Error load(const std::string &problem, llvm::function_ref<bool(const SearchRecord &)> fits);
  /// Notes in the record that the search has ended, and writes it to the cache.
  llvm::Error finish();

  /// Measures a point, or takes it from the memo. Points seen before are free. So are, up to a limit, points whose program was
  /// seen before, and with an estimator those whose number of cycles was seen. All others count against the budget. `what`: see
  /// SearchProgress. `program`: that of the point, if the caller has it. The address of the result stays valid.
  llvm::Expected<const Measurement *> measure(const SearchPoint &point, const std::string &what,
                                              const isa::Program *program = nullptr);
  /// Measurement::failure says why there is no such program.
  Measurement estimate(const SearchPoint &point);
  bool hasEstimates() const { return bool(estimator); }

  /// Workers begin to measure or to estimate points that will be asked for next, or may be: all of those to be estimated, and
  /// as many as keep the workers busy of those to be measured. Replaces earlier wishes.
  void measureAhead(llvm::ArrayRef<SearchPoint> points);
  void estimateAhead(llvm::ArrayRef<SearchPoint> points);
  /// Points that keep all workers busy; 0: there are none.
  size_t depth() const { return workers.depth(); }

  unsigned budget() const { return options.budget; }
  /// Programs that count so far.
  unsigned evaluations() const { return result.evaluations; }
  /// Programs that may count until the phase at hand ends; no more than the budget.
  void setLimit(unsigned programs) { limit = std::min(programs, options.budget); }
  bool isExhausted() const { return result.evaluations >= limit; }

  /// Whether this search has measured the point, or has taken it from the memo.
  bool isSeen(const SearchPoint &point) const { return seen.count(point) > 0; }
  /// In their order.
  const std::set<SearchPoint> &allSeen() const { return seen; }
  /// Of a point that the record has.
  const Measurement &measured(const SearchPoint &point) const { return record.measured.find(point)->second; }
  /// The memo, with measurements of earlier searches.
  const SearchRecord &memo() const { return record; }
  /// The fastest point that counted, and its cycles; UINT64_MAX: none.
  const SearchPoint &fastest() const { return fastestPoint; }
  uint64_t fastestCycles() const { return leastCycles; }
  /// All but the cycles.
  SearchResult summary() const;

private:
  ProgramOf programOf;
  const SearchOptions &options;
  Estimator estimator;
  const EvaluatorParameters parameters;
  const Clock::time_point begin;
  Clock::time_point saved;

  std::string problem;
  SearchRecord record;
  SearchResult result;
  unsigned limit;

  std::set<SearchPoint> seen;
  std::map<uint64_t, SearchPoint> programs; ///< of the points seen, by digest
  std::set<uint64_t> cyclesSeen;
  SearchPoint fastestPoint;
  uint64_t leastCycles = UINT64_MAX;
  Workers workers; ///< last: copies of this process see all members above

  llvm::Expected<Measurement> run(const isa::Program &program) const;
  llvm::Expected<Measurement> compileAndRun(const SearchPoint &point) const;
  Measurement estimateHere(const SearchPoint &point) const;
  std::optional<Measurement> work(const Workers::Task &task) const;
  bool isFree(const SearchPoint &point, const Measurement &measurement);
  llvm::Error save(bool force);
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }
};

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_SEARCH_EVALUATOR_H
