//===- Measurement.cpp - Times of devices beside one another --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Measurement.h"
#include "runtime/Stopwatch.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <fstream>
#include <malloc.h>
#include <string>
#include <thread>

using namespace tw;
using namespace tw::runtime;

/// The value at `part` of sorted values, between neighbours by their distance.
static double quantile(const std::vector<double> &sorted, double part) {
  double at = part * double(sorted.size() - 1);
  size_t below = size_t(at);
  size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (at - double(below));
}

Statistics runtime::statisticsOf(std::vector<double> values) {
  assert(!values.empty() && "statistics of no values");
  std::sort(values.begin(), values.end());
  Statistics result;
  result.minimum = values.front();
  result.median = quantile(values, 0.5);
  if (result.median > 0)
    result.spread = (quantile(values, 0.75) - quantile(values, 0.25)) / result.median;
  return result;
}

StatusOr<std::vector<Times>> runtime::measureInTurns(const std::vector<Device *> &devices,
                                                     const std::vector<HostTensor> &inputs, unsigned rounds, bool hasThreads) {
  constexpr double kTurnSeconds = 0.02;
  constexpr unsigned kMostLaunches = 200;
  constexpr std::chrono::milliseconds kPause(30);
  std::vector<Times> times(devices.size());
  for (unsigned round = 0; round < rounds; ++round)
    for (size_t i = 0; i < devices.size(); ++i) {
      // The threads of the one before go on spinning for a while.
      if (devices.size() > 1 && hasThreads)
        std::this_thread::sleep_for(kPause);
      // The one that is not counted brings back what the others have displaced from the caches.
      if (StatusOr<Launch> first = devices[i]->launch(inputs); !first)
        return first.error();
      Stopwatch turn;
      for (unsigned launches = 0; launches == 0 || (launches < kMostLaunches && turn.wallSeconds() < kTurnSeconds);
           ++launches) {
        StatusOr<Launch> launch = devices[i]->launch(inputs);
        if (!launch)
          return launch.error();
        times[i].wallSeconds.push_back(launch->wallSeconds);
        times[i].cpuSeconds.push_back(launch->cpuSeconds);
      }
    }
  return times;
}

/// A line of /proc/self/status in bytes.
static std::optional<uint64_t> statusBytes(const std::string &key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == key + ":")
      if (uint64_t kibibytes = 0; status >> kibibytes)
        return kibibytes * 1024;
  return std::nullopt;
}

MemoryProbe::MemoryProbe() {
  malloc_trim(0);
  // The high-water mark begins again.
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5" << std::flush;
  if (clear)
    begin = statusBytes("VmRSS");
}

std::optional<uint64_t> MemoryProbe::mostBytes() const {
  std::optional<uint64_t> most = statusBytes("VmHWM");
  if (!begin || !most)
    return std::nullopt;
  return *most > *begin ? *most - *begin : 0;
}
