//===- Sharing.cpp - Work shared by engines and by kernels -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/explore/strategies/Strategies.h"

#include "compiler/codegen/accel/ChannelStreaming.h"

using namespace tw;
using namespace tw::explore;
using accel::C;

/// As many channels as make array and vector engine equally busy over the kernels of the fusion group, or fewer, in halves of a block of
/// lanes.
void explore::exploreSharedWindows(Exploration &e) {
  const timing::MachineParams &machine = e.problem.machine;
  const int64_t unit = std::max<int64_t>(machine.lanes / 2, 1);
  constexpr size_t kMostProposals = 64;
  size_t proposals = 0;
  for (size_t i = 0; i < e.problem.layers.size() && proposals < kMostProposals; ++i) {
    const accel::Kernel &kernel = *e.problem.layers[i].kernel;
    if (kernel.plan.arrayChannels || !accel::canUseBothEngines(kernel, machine))
      continue;
    const std::vector<plan::KernelPlan> &chosen = e.best().chosen.kernels;
    size_t first = i, last = i;
    while (first > 0 && chosen[first - 1].rowTile)
      --first;
    while (chosen[last].rowTile)
      ++last;
    if (first == last)
      continue;
    double array = 0, vector = 0;
    for (size_t k = first; k <= last; ++k) {
      const cost::LayerWork work = accel::workOf(*e.problem.layers[k].kernel, machine);
      array += double(work.arrayCycles);
      vector += double(work.vectorCycles + work.windowVectorCycles);
    }
    const cost::LayerWork own = accel::workOf(kernel, machine);
    const double share = (vector - array) / double(own.windowVectorCycles + own.windowArrayCycles);
    const int64_t even = int64_t(std::min(share, 1.0) * double(kernel.extent[C])) / unit * unit;
    const plan::NetworkPlan base = e.best().plan;
    for (int64_t channels = even; channels > 0; channels -= unit, ++proposals) {
      plan::NetworkPlan next = base;
      next.kernels[i].arrayChannels = channels;
      e.propose(next);
    }
  }
}

void explore::exploreChannelStreaming(Exploration &e) {
  for (size_t i = 1; i < e.problem.layers.size(); ++i) {
    const Layer &maker = e.problem.layers[i - 1], &taker = e.problem.layers[i];
    const Outcome &best = e.best();
    auto streams = [&](size_t layer) {
      return layer < best.plan.kernels.size() && best.plan.kernels[layer].channelStreaming.value_or(false);
    };
    if (taker.kernel->plan.channelStreaming || !e.problem.isReadBy(i - 1, i) || best.isInGroup(i) || best.isInGroup(i - 1) ||
        streams(i - 1) || streams(i) || streams(i + 1))
      continue;
    if (accel::streamsInTime(*maker.kernel, *taker.kernel, e.problem.tensorBytes[maker.result()], e.problem.machine))
      e.propose([&](plan::NetworkPlan &plan) { plan.kernels[i].channelStreaming = true; });
  }
}
