//===- WorkersTest.cpp - Measurements in copies of the process ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/pipeline/search/Workers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

using namespace tw;
using namespace tw::pipeline;

namespace {

const pid_t here = getpid();

/// One that says which it is, and which process has made it.
Measurement measurementOf(const Workers::Task &task) {
  return {1000 + task[0],
          {task[0], uint64_t(getpid())},
          task[0] % 2 ? "failure " + std::to_string(task[0]) : "",
          ~uint64_t(task[0])};
}

std::vector<Workers::Task> tasks(unsigned count) {
  std::vector<Workers::Task> list;
  for (unsigned i = 0; i < count; ++i)
    list.push_back({i, 7});
  return list;
}

TEST(WorkersTest, EachResultIsThatOfItsTask) {
  for (unsigned count : {1, 2, 5}) {
    SCOPED_TRACE(count);
    Workers workers(count, [](const Workers::Task &task) { return measurementOf(task); });
    workers.want(tasks(40));
    std::set<uint64_t> processes{uint64_t(here)};
    for (const Workers::Task &task : tasks(40))
      if (std::optional<Measurement> result = workers.take(task)) {
        const Measurement wanted = measurementOf(task);
        EXPECT_EQ(result->cycles, wanted.cycles);
        EXPECT_EQ(result->program, wanted.program);
        EXPECT_EQ(result->failure, wanted.failure);
        ASSERT_EQ(result->layerCycles.size(), 2u);
        EXPECT_EQ(result->layerCycles[0], task[0]);
        processes.insert(result->layerCycles[1]);
      }
    EXPECT_EQ(processes.size(), count + 1) << "each worker has been sent one at once";
  }
}

TEST(WorkersTest, WhileAWorkerIsAtATaskOthersAreDoneHere) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Workers workers(1, [&](const Workers::Task &task) {
    char byte = 0; // the worker waits until this process has done as many
    EXPECT_EQ(getpid() == here ? write(ends[1], &byte, 1) : read(ends[0], &byte, 1), 1);
    return measurementOf(task);
  });
  workers.want(tasks(6));
  std::optional<Measurement> first = workers.take({0, 7});
  ASSERT_TRUE(first);
  EXPECT_NE(first->layerCycles[1], uint64_t(here));
  std::optional<Measurement> other = workers.take({2, 7}); // behind the two that are sent
  ASSERT_TRUE(other);
  EXPECT_EQ(other->layerCycles[1], uint64_t(here));
  close(ends[0]);
  close(ends[1]);
}

TEST(WorkersTest, WhatNobodyIsAtIsLeftToTheCaller) {
  Workers workers(1, [](const Workers::Task &task) { return measurementOf(task); });
  workers.want(tasks(3));
  EXPECT_FALSE(workers.take({99, 7}));
}

TEST(WorkersTest, WithNoWorkersAllIsLeftToTheCaller) {
  Workers workers(0, [](const Workers::Task &) -> std::optional<Measurement> {
    ADD_FAILURE() << "not here";
    return std::nullopt;
  });
  EXPECT_EQ(workers.depth(), 0u);
  workers.want(tasks(3));
  EXPECT_FALSE(workers.take({0, 7}));
}

TEST(WorkersTest, WhatIsNotWantedAnyMoreDoesNotBegin) {
  unsigned doneHere = 0;
  Workers workers(1, [&](const Workers::Task &task) {
    ++doneHere;
    return measurementOf(task);
  });
  workers.want(tasks(40));
  workers.want({});
  for (const Workers::Task &task : tasks(40))
    EXPECT_EQ(bool(workers.take(task)), task[0] < 2) << task[0]; // sent at once
  EXPECT_EQ(doneHere, 0u);
}

TEST(WorkersTest, WhatAWorkerDoesNotSayIsLeftToTheCaller) {
  Workers workers(2,
                  [](const Workers::Task &task) { return task[0] == 3 ? std::nullopt : std::optional(measurementOf(task)); });
  workers.want(tasks(20));
  for (const Workers::Task &task : tasks(20))
    if (task[0] == 3)
      EXPECT_FALSE(workers.take(task));
    else if (std::optional<Measurement> result = workers.take(task))
      EXPECT_EQ(result->cycles, 1000 + task[0]);
}

TEST(WorkersTest, OneThatDiesLeavesItsTasksToTheOthersAndTheCaller) {
  Workers workers(2, [](const Workers::Task &task) {
    if (task[0] == 4 && getpid() != here)
      raise(SIGKILL);
    return measurementOf(task);
  });
  workers.want(tasks(30));
  unsigned known = 0;
  for (const Workers::Task &task : tasks(30))
    if (std::optional<Measurement> result = workers.take(task)) {
      EXPECT_EQ(result->cycles, 1000 + task[0]);
      ++known;
    }
  EXPECT_GE(known, 28u) << "two tasks are sent to one at most";
}

TEST(WorkersTest, NoneIsLeftBehind) {
  {
    Workers workers(3, [](const Workers::Task &task) {
      if (getpid() != here)
        std::this_thread::sleep_for(std::chrono::hours(1)); // nobody waits for that
      return measurementOf(task);
    });
    workers.want(tasks(10));
  }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
}

} // namespace
