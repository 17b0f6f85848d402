//===- Stopwatch.h - Wall time and processor time ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_STOPWATCH_H
#define RUNTIME_STOPWATCH_H

#include <ctime>

namespace tw::runtime {

/// Runs from its construction on.
class Stopwatch {
public:
  double wallSeconds() const { return now(CLOCK_MONOTONIC) - wallBegin; }
  /// Of all threads of this process.
  double cpuSeconds() const { return now(CLOCK_PROCESS_CPUTIME_ID) - cpuBegin; }

private:
  static double now(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
  }
  // The clock that takes a system call is read outside the other.
  double cpuBegin = now(CLOCK_PROCESS_CPUTIME_ID), wallBegin = now(CLOCK_MONOTONIC);
};

} // namespace tw::runtime

#endif // RUNTIME_STOPWATCH_H
