//===- Measurement.h - Times of devices beside one another ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_MEASUREMENT_H
#define RUNTIME_MEASUREMENT_H

#include "runtime/Device.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tw::runtime {

/// What many values of one quantity come to.
struct Statistics {
  double minimum = 0, median = 0;
  /// Distance of the quartiles, as a part of the median.
  double spread = 0;
};
/// Precondition: there is at least one value.
Statistics statisticsOf(std::vector<double> values);

/// The launches of one device.
struct Times {
  std::vector<double> wallSeconds, cpuSeconds;
};

/// Launches each of `devices` on the same inputs, in `rounds` rounds: in a round each has its turn of about 20 ms, at least one launch, after
/// one launch that is not counted. So all meet what else the host does.
/// `hasThreads`: devices use threads of their own, and such threads may spin behind a launch. Turns then lie some milliseconds apart.
StatusOr<std::vector<Times>> measureInTurns(const std::vector<Device *> &devices, const std::vector<HostTensor> &inputs,
                                            unsigned rounds, bool hasThreads);

/// By how much the memory of this process grows at most.
class MemoryProbe {
public:
  /// Gives memory that is free back first.
  MemoryProbe();
  /// Bytes since the construction; nothing where the host does not tell.
  std::optional<uint64_t> mostBytes() const;

private:
  std::optional<uint64_t> begin;
};

} // namespace tw::runtime

#endif // RUNTIME_MEASUREMENT_H
