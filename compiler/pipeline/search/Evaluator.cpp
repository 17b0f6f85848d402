//===- Evaluator.cpp - Measurements of points within a budget -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/search/Evaluator.h"

#include "compiler/text/Diagnostics.h"

#include "llvm/Support/xxhash.h"

using namespace tw;
using namespace tw::pipeline;

/// A worker's task: whether to estimate, then the numbers of the point.
static Workers::Task taskOf(const SearchPoint &point, bool isEstimated) {
  Workers::Task task{isEstimated};
  const std::vector<unsigned> numbers = point.numbers();
  task.insert(task.end(), numbers.begin(), numbers.end());
  return task;
}

Evaluator::Evaluator(ProgramOf programOf, const SearchOptions &options, Estimator estimator, Clock::time_point begin,
                     const EvaluatorParameters &parameters)
    : programOf(programOf), options(options), estimator(estimator), parameters(parameters), begin(begin), saved(begin),
      limit(options.budget), workers(std::max(1u, options.jobs) - 1, [this](const Workers::Task &task) { return work(task); }) {
}

llvm::Error Evaluator::load(const std::string &problem, llvm::function_ref<bool(const SearchRecord &)> fits) {
  this->problem = problem;
  if (!options.cache)
    return llvm::Error::success();
  llvm::Expected<SearchRecord> loaded = options.cache->load(problem);
  if (!loaded)
    return loaded.takeError();
  if (fits(*loaded))
    record = std::move(*loaded);
  return llvm::Error::success();
}

llvm::Error Evaluator::save(bool force) {
  const Clock::time_point now = Clock::now();
  const bool isSoon = record.measured.size() > parameters.smallRecord && now - saved < parameters.saveInterval;
  if (!options.cache || (isSoon && !force))
    return llvm::Error::success();
  saved = now;
  return options.cache->save(problem, record);
}

llvm::Error Evaluator::finish() {
  record.budget = std::max(record.budget, options.budget);
  return save(/*force=*/true);
}

llvm::Expected<const Measurement *> Evaluator::measure(const SearchPoint &point, const std::string &what,
                                                       const isa::Program *program) {
  if (!seen.insert(point).second)
    return &record.measured[point];
  const bool isRemembered = record.measured.count(point);
  if (!isRemembered) {
    std::optional<Measurement> ahead = program ? std::nullopt : workers.take(taskOf(point, /*isEstimated=*/false));
    llvm::Expected<Measurement> measured = ahead ? std::move(*ahead) : program ? run(*program) : compileAndRun(point);
    if (!measured)
      return measured.takeError();
    record.measured[point] = std::move(*measured);
    if (llvm::Error error = save(/*force=*/false))
      return std::move(error);
  }
  const Measurement &measurement = record.measured[point];
  if (isFree(point, measurement))
    return &measurement;
  ++result.evaluations;
  result.remembered += isRemembered;
  result.failed += !measurement.failure.empty();
  if (measurement.failure.empty() && measurement.cycles < leastCycles) {
    fastestPoint = point;
    leastCycles = measurement.cycles;
  }
  if (options.progress)
    options.progress({result.evaluations, options.budget, what, measurement.cycles, leastCycles, isRemembered, seconds()});
  return &measurement;
}

/// Whether a new point costs nothing: there is no such program and the compiler never offered it, or the program teaches
/// nothing new.
bool Evaluator::isFree(const SearchPoint &point, const Measurement &measurement) {
  if (!measurement.failure.empty())
    return !point.isDecided();
  const bool isNewProgram = programs.try_emplace(measurement.program, point).second,
             areNewCycles = cyclesSeen.insert(measurement.cycles).second;
  const bool isRepeated = !(estimator ? areNewCycles : isNewProgram);
  const unsigned perProgram = options.budget > parameters.shortBudget ? parameters.freeLong : parameters.freeShort;
  if (!isRepeated || result.repeated >= perProgram * options.budget)
    return false;
  ++result.repeated;
  return true;
}

llvm::Expected<Measurement> Evaluator::run(const isa::Program &program) const {
  const llvm::ArrayRef<isa::Word> code = program.code;
  const uint64_t digest = llvm::xxh3_64bits({reinterpret_cast<const uint8_t *>(code.data()), code.size() * sizeof(isa::Word)});
  if (auto same = programs.find(digest); same != programs.end())
    return measured(same->second);
  llvm::Expected<Measurement> measurement = options.evaluate(program);
  if (measurement)
    measurement->program = digest;
  return measurement;
}

llvm::Expected<Measurement> Evaluator::compileAndRun(const SearchPoint &point) const {
  llvm::Expected<isa::Program> program = programOf(point);
  if (program)
    return run(*program);
  Measurement measurement;
  measurement.failure = llvm::toString(program.takeError());
  if (llvm::StringRef(measurement.failure).starts_with(text::kInternal))
    return llvm::createStringError("%s", measurement.failure.c_str());
  return measurement;
}

Measurement Evaluator::estimateHere(const SearchPoint &point) const {
  llvm::Expected<Measurement> estimated = estimator(point);
  if (estimated)
    return std::move(*estimated);
  Measurement failed;
  failed.failure = llvm::toString(estimated.takeError());
  return failed;
}

Measurement Evaluator::estimate(const SearchPoint &point) {
  std::optional<Measurement> ahead = workers.take(taskOf(point, /*isEstimated=*/true));
  return ahead ? std::move(*ahead) : estimateHere(point);
}

/// Nothing: an error that must be reported by the process that asks for the point.
std::optional<Measurement> Evaluator::work(const Workers::Task &task) const {
  const SearchPoint point = *SearchPoint::from({task.begin() + 1, task.end()});
  if (task.front())
    return estimateHere(point);
  llvm::Expected<Measurement> measured = compileAndRun(point);
  if (measured)
    return std::move(*measured);
  llvm::consumeError(measured.takeError());
  return std::nullopt;
}

void Evaluator::measureAhead(llvm::ArrayRef<SearchPoint> points) {
  std::vector<Workers::Task> tasks;
  for (const SearchPoint &point : points)
    if (tasks.size() < workers.depth() && !record.measured.count(point))
      tasks.push_back(taskOf(point, /*isEstimated=*/false));
  workers.want(tasks);
}

void Evaluator::estimateAhead(llvm::ArrayRef<SearchPoint> points) {
  std::vector<Workers::Task> tasks;
  for (const SearchPoint &point : points)
    if (estimator)
      tasks.push_back(taskOf(point, /*isEstimated=*/true));
  workers.want(tasks);
}

SearchResult Evaluator::summary() const {
  SearchResult summary = result;
  summary.seconds = seconds();
  return summary;
}
