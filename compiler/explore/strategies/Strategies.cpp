//===- Strategies.cpp - The strategies of the product, in order ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/explore/strategies/Strategies.h"

using namespace tw;
using namespace tw::explore;

namespace {
class ProductStrategy : public Strategy {
public:
  using Explore = void (*)(Exploration &);
  ProductStrategy(const char *strategyName, Explore exploreIt) : strategyName(strategyName), exploreIt(exploreIt) {}
  const char *name() const override { return strategyName; }
  void explore(Exploration &exploration) const override { exploreIt(exploration); }

private:
  const char *strategyName;
  Explore exploreIt;
};

/// What decides most comes first: on-chip residency, then the work of kernels, their neighbours, and the bus.
constexpr std::pair<const char *, ProductStrategy::Explore> kStrategies[] = {
    {"residency", exploreResidency},
    {"place-reuse", explorePlaceReuse},
    {"line-buffers", exploreLineBuffers},
    {"matrix-residency", exploreMatrixResidency},
    {"left-out", exploreLeftOut},
    {"pixel-packing", explorePixelPacking},
    {"short-pooling", exploreShortPooling},
    {"serpentine", exploreSerpentine},
    {"bank-placement", exploreBankPlacement},
    {"priorities", explorePriorities},
    {"tall-row-tiles", exploreTallRowTiles},
    {"context-residency", exploreContextResidency},
    {"neighbour-halves", exploreNeighbourHalves},
    {"spilled-halves", exploreSpilledHalves},
    {"neighbour-splits", exploreNeighbourSplits},
    {"bank-placement-again", exploreBankPlacement},
    {"bus", exploreBus},
    {"weight-loader", exploreWeightLoader},
    {"weight-prefetch", exploreWeightPrefetch},
    {"shared-windows", exploreSharedWindows},
    {"channel-streaming", exploreChannelStreaming},
    {"planned-tiles", explorePlannedTiles},
    {"matrix-slots", exploreMatrixSlots},
    {"first-loaders", exploreFirstLoaders},
};
} // namespace

std::vector<std::unique_ptr<Strategy>> explore::productStrategies() {
  std::vector<std::unique_ptr<Strategy>> strategies;
  for (auto [name, explore] : kStrategies)
    strategies.push_back(std::make_unique<ProductStrategy>(name, explore));
  return strategies;
}
