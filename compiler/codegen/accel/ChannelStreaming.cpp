//===- ChannelStreaming.cpp - Producer and consumer by channels ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/ChannelStreaming.h"

#include "compiler/cost/Constants.h"

#include "isa/timing/Dram.h"

using namespace tw;
using namespace tw::accel;

namespace {
constexpr int64_t kTileBytes = 16384; ///< of weights in a tile: runs that DRAM likes
constexpr int64_t kMostTiles = 8;     ///< of such tiles on chip

int64_t tapsOf(const Kernel &kernel) { return kernel.anchor->axes[0].kernel * kernel.anchor->axes[1].kernel; }

/// Of one output channel.
int64_t positionsOf(const Kernel &kernel) { return kernel.extent[P0] * kernel.extent[P1] * kernel.extent[P2]; }

/// Weights of all taps between as many channels as the array has rows and columns.
int64_t blockBytes(const Kernel &kernel, const timing::MachineParams &machine) {
  return tapsOf(kernel) * int64_t(machine.rows) * int64_t(machine.cols) * int64_t(timing::elementBytes(machine.arrayType));
}

/// Blocks of so many channels in a tile, in equal parts.
int64_t blocksInTile(const Kernel &kernel, int64_t channels, const timing::MachineParams &machine) {
  const int64_t bytes = std::min(kTileBytes, int64_t(machine.scratchpads.back().capacityBytes) / kMostTiles);
  const int64_t all = int64_t(llvm::divideCeil(channels, machine.cols)),
                most = std::max<int64_t>(bytes / blockBytes(kernel, machine), 1);
  return int64_t(llvm::divideCeil(all, llvm::divideCeil(all, most)));
}

/// One vector of channels for each pixel, from constant weights.
bool isPlainContraction(const Kernel &kernel, const timing::MachineParams &machine) {
  const std::optional<Anchor> &a = kernel.anchor;
  auto reduces = [](const Step &step) { return step.reducesChannels; };
  return a && a->kind == Anchor::Contraction && a->groups == 1 && !a->batchAxis && !a->pairsRows && a->pixels.count == 1 &&
         kernel.outputsPerVector == 1 && !kernel.pool && !kernel.maxima && !kernel.outputReduced && !kernel.conversion &&
         !packsTaps(*a, machine) && kernel.tensors[size_t(a->weights)].role == KernelTensor::Constant &&
         llvm::none_of(kernel.steps, reduces);
}
} // namespace

/// The taker has all its sums, as each block of channels adds to all of them.
StreamingShares accel::streamingShares(const Kernel &maker, const Kernel &taker, const timing::MachineParams &machine) {
  const int64_t row = machine.accumulatorRowBytes(), all = int64_t(machine.accumulator.capacityBytes);
  const int64_t tile = blocksInTile(taker, taker.anchor->oc, machine) * int64_t(machine.cols);
  const int64_t tileSums = int64_t(llvm::alignTo(positionsOf(taker) * row * tile / int64_t(machine.cols), kBurst));
  const int64_t sums = tileSums * int64_t(llvm::divideCeil(taker.anchor->oc, tile));
  const timing::MemoryParams &weights = machine.scratchpads.back();
  const int64_t at = int64_t(cost::kMakerWeights * double(weights.banks)) * int64_t(weights.bankBytes());
  // The taker's last tile may lie in a bank of the maker's: it is not at work there when a result leaves.
  StreamingShares shares{{0, at}, {at, int64_t(weights.capacityBytes)}, {sums, all}, {0, sums}};
  if (shares.makerSums.size() < positionsOf(maker) * row)
    shares.makerSums = {};
  return shares;
}

std::string accel::whyNotStreamed(const Kernel &maker, const Kernel &taker, uint64_t bytes,
                                  const timing::MachineParams &machine) {
  if (machine.scratchpads.size() == 1 || machine.rows != machine.cols || machine.lanes != machine.cols)
    return "machine '" + machine.name + "' has no scratchpad for weights alone, or not as many lanes, rows and columns";
  if (!isPlainContraction(maker, machine) || !isPlainContraction(taker, machine))
    return "both must be products or convolutions with constant weights, one vector of channels for each pixel";
  // A channel that is taken is one that is made: neither a part of a concatenation nor another shape of the tensor.
  const int64_t channels = maker.anchor->oc;
  const View &input = taker.anchor->input;
  auto isPixels = [&](int64_t elements) { return elements % channels == 0; };
  if (taker.anchor->ic != channels || bytes != uint64_t(positionsOf(maker) * channels * byteSize(maker.outputType)) ||
      input.stride[C] != 1 || !isPixels(input.offset) || !llvm::all_of(llvm::drop_begin(input.stride), isPixels))
    return "its channels are not those that are made";
  const StreamingShares shares = streamingShares(maker, taker, machine);
  if (shares.makerSums.isEmpty())
    return "the accumulator does not hold all its sums and a tile of the other's";
  for (bool takes : {false, true}) {
    Kernel kernel = takes ? taker : maker;
    planStreamed(kernel, shares, takes, machine);
    if (kernel.plan.depth < 2)
      return "weights have no room for two tiles of each";
  }
  return "";
}

bool accel::streamsInTime(const Kernel &maker, const Kernel &taker, uint64_t bytes, const timing::MachineParams &machine) {
  if (!whyNotStreamed(maker, taker, bytes, machine).empty())
    return false;
  const timing::Ratio peak = timing::dramPeakBytesPerCycle(machine);
  auto loadsLonger = [&](const Kernel &kernel) {
    const int64_t weights = tapsOf(kernel) * kernel.anchor->ic * kernel.anchor->oc;
    const double rate = std::min(double(peak.numerator) / double(peak.denominator), timing::loadBytesPerCycle(machine));
    const double loads = double(weights * int64_t(timing::elementBytes(machine.arrayType))) / rate;
    return loads > double(weights * positionsOf(kernel)) / double(machine.rows * machine.cols);
  };
  return loadsLonger(taker) && !loadsLonger(maker);
}

void accel::planStreamed(Kernel &kernel, const StreamingShares &shares, bool takes, const timing::MachineParams &machine) {
  KernelPlan &plan = kernel.plan;
  const int64_t rows = int64_t(machine.rows), cols = int64_t(machine.cols);
  auto set = [](auto &knob, auto value) {
    if (!plan::isSet(knob))
      knob = value;
  };
  for (unsigned axis = P0; axis < kAxes; ++axis)
    set(plan.tile[axis], kernel.extent[axis]);
  // The maker makes one block of channels at a time, from tiles of its inputs; the taker takes it for tiles of its results.
  set(plan.tile[C], takes ? blocksInTile(kernel, kernel.anchor->oc, machine) * cols : cols);
  set(plan.tileK, takes ? rows : blocksInTile(kernel, kernel.anchor->ic, machine) * rows);
  set(plan.loopOrder, takes ? LoopOrder::KOuter : LoopOrder::ChannelsOuter);
  set(plan.stationary, Stationary::None);
  set(plan.serpentine, false);
  auto isParameter = [](const Source &source) { return source.kind == Source::Parameter; };
  const int64_t parameters = 4 * plan.tile[C] * llvm::count_if(kernel.steps, [&](const Step &step) {
                               return llvm::any_of(step.sources, isParameter);
                             });
  const int64_t blocks = int64_t(llvm::divideCeil(plan.tile[C], cols) * llvm::divideCeil(plan.tileK, rows));
  const int64_t tile = blocks * blockBytes(kernel, machine) + parameters;
  set(plan.depth, int64_t(std::min((takes ? shares.takerWeights : shares.makerWeights).size() / tile, kMostTiles)));
  const int64_t tiles = std::min(plan.depth, int64_t(llvm::divideCeil(kernel.anchor->oc, plan.tile[C])));
  set(plan.singleAccumulator, !takes && shares.makerSums.size() < tiles * positionsOf(kernel) * machine.accumulatorRowBytes());
}

void accel::interleaveStreamed(std::vector<schedule::Step> &steps, size_t begin, size_t middle) {
  std::map<uint32_t, std::array<std::vector<schedule::Step>, 2>> bands;
  for (size_t i = begin; i < steps.size(); ++i)
    bands[steps[i].band][i >= middle].push_back(std::move(steps[i]));
  steps.resize(begin);
  for (auto &[band, own] : bands) {
    auto &[maker, taker] = own;
    // Evenly, as loads come evenly then. The maker first: its last results leave meanwhile.
    for (size_t m = 0, t = 0; m < maker.size() || t < taker.size();) {
      const bool isTaker = m == maker.size() || (t < taker.size() && t * maker.size() < m * taker.size());
      steps.push_back(std::move(isTaker ? taker[t++] : maker[m++]));
      steps.back().band = 0;
    }
  }
}
