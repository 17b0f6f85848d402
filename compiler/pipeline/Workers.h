//===- Workers.h - Processes that measure ahead ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_PIPELINE_WORKERS_H
#define COMPILER_PIPELINE_WORKERS_H

#include "compiler/pipeline/SearchRecord.h"

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace tw::pipeline {

/// Processes that work out measurements before they are asked for: copies of this one, made when there is something to do for the first
/// time, so that the work need not be safe for threads. What it leaves behind in a copy stays there. When copies are made no other thread
/// may hold a lock that the work needs. With no workers all of this does nothing.
class Workers {
public:
  using Task = std::vector<unsigned>;
  /// Gives nothing where the one that asks must do it.
  using Work = std::function<std::optional<Measurement>(const Task &)>;

  Workers(unsigned count, Work work) : count(count), work(std::move(work)) {}
  Workers(const Workers &) = delete;
  Workers &operator=(const Workers &) = delete;
  ~Workers();

  /// How many tasks keep all of them busy, and this process as well, for some time. 0: there are no workers.
  size_t depth() const { return count ? kAhead * (count + 1) : 0; }
  /// These are done next, in that order. What was wanted before and has not begun is not wanted any more.
  void want(const std::vector<Task> &tasks);
  /// The result, if the task is done or a worker is at it; meanwhile others are done here that are wanted. Else nothing, also if the worker
  /// has died.
  std::optional<Measurement> take(const Task &task);

private:
  /// A worker has a task to go on with while its last result lies here unread, if there are plenty.
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

#endif // COMPILER_PIPELINE_WORKERS_H
