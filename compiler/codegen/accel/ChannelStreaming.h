//===- ChannelStreaming.h - Producer and consumer by channels ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A contraction takes each block of channels while the contraction before it
// makes the next block: the two are fused at channel granularity. Weights that
// DRAM brings too late for the one arrive while the other is at work.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_ACCEL_CHANNELSTREAMING_H
#define COMPILER_CODEGEN_ACCEL_CHANNELSTREAMING_H

#include "compiler/codegen/accel/Codegen.h"

namespace tw::accel {

/// Bytes of the weight scratchpad and of the accumulator that belong to each of the two.
struct StreamingShares {
  Range makerWeights, takerWeights, makerSums, takerSums;
};
StreamingShares streamingShares(const Kernel &maker, const Kernel &taker, const timing::MachineParams &machine);

/// Why `taker` cannot take the channels of `maker`, whose result has `bytes`; empty: it can. That the one reads the other's result is the
/// caller's to know.
std::string whyNotStreamed(const Kernel &maker, const Kernel &taker, uint64_t bytes, const timing::MachineParams &machine);

/// Whether it can, DRAM brings the taker's weights later than the array needs them, and the maker's in time.
bool streamsInTime(const Kernel &maker, const Kernel &taker, uint64_t bytes, const timing::MachineParams &machine);

/// Sets the open knobs of the maker's or the taker's tiles.
void planStreamed(Kernel &kernel, const StreamingShares &shares, bool takes, const timing::MachineParams &machine);

/// Interleaves the steps of the two, per block of channels: the maker's are [begin, middle), the taker's [middle, end).
void interleaveStreamed(std::vector<schedule::Step> &steps, size_t begin, size_t middle);

} // namespace tw::accel

#endif // COMPILER_CODEGEN_ACCEL_CHANNELSTREAMING_H
