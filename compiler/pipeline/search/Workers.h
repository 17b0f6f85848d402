//===- Workers.h - Processes that measure ahead ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_PIPELINE_SEARCH_WORKERS_H
#define COMPILER_PIPELINE_SEARCH_WORKERS_H

#include "compiler/pipeline/search/SearchRecord.h"

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace tw::pipeline {

/// Worker processes that compute measurements before they are asked for. Workers are forked copies of this process, so the work
/// need not be thread-safe; they are forked at the first wish. No other thread may hold a lock then that the work needs. Side
/// effects of the work stay in the copy. Without workers all functions do nothing.
class Workers {
public:
  using Task = std::vector<unsigned>;
  /// Nothing: the process that asks must do the task itself.
  using Work = std::function<std::optional<Measurement>(const Task &)>;

  Workers(unsigned count, Work work) : count(count), work(std::move(work)) {}
  Workers(const Workers &) = delete;
  Workers &operator=(const Workers &) = delete;
  ~Workers();

  /// Tasks that keep all workers and this process busy for some time. 0: there are no workers.
  size_t depth() const { return count ? kAhead * (count + 1) : 0; }
  /// Tasks to do next, in this order. Replaces earlier wishes that no worker has begun.
  void want(const std::vector<Task> &tasks);
  /// The result of a task that is done, or that a worker is at; meanwhile this process does other wanted tasks. Nothing: the
  /// task was not wanted, has not begun, or its worker has died.
  std::optional<Measurement> take(const Task &task);

private:
  /// Tasks sent to each worker, if there are plenty: it goes on while this process has not read its last result.
  static constexpr size_t kAhead = 2;
  struct Worker {
    int process, socket;
    std::deque<Task> tasks; ///< sent and not answered
  };

  const unsigned count;
  const Work work;
  bool hasStarted = false;
  std::vector<Worker> workers; ///< that are alive
  std::deque<Task> wanted;
  std::map<Task, std::optional<Measurement>> done;

  void start();
  void send();
  void receive(bool waits);
  void retire(std::vector<Worker>::iterator worker);
  bool isSent(const Task &task) const;
};

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_SEARCH_WORKERS_H
