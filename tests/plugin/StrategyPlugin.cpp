//===- StrategyPlugin.cpp - A strategy of one's own ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds the strategy `deeper`: one more slot for the buffers of every kernel. Built
// against the headers alone and linked with nothing (docs/plugins.md).
//===----------------------------------------------------------------------===//
#include "compiler/explore/Exploration.h"
#include "compiler/schedule/Plugin.h"

using namespace tw;

TILEWRIGHT_PLUGIN

namespace {
class Deeper : public explore::Strategy {
public:
  const char *name() const override { return "deeper"; }
  void explore(explore::Exploration &exploration) const override {
    for (size_t i = 0; i < exploration.problem.layers.size(); ++i)
      // What the user has decided stays as it is.
      if (!exploration.problem.layers[i].kernel->plan.depth)
        exploration.propose(
            [&](plan::NetworkPlan &plan) { plan.kernels[i].depth = exploration.best().chosen.kernels[i].depth + 1; });
  }
};
} // namespace

extern "C" void tilewrightRegisterStrategies(explore::StrategyRegistry &registry) { registry.add(std::make_unique<Deeper>()); }
