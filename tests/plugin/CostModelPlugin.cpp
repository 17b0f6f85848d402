//===- CostModelPlugin.cpp - A cost model of one's own ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds the cost model `roofline`: the engine that is busy longest, or the DRAM data
// bus, as if nothing ever waited. Built against the headers alone and linked with
// nothing (docs/plugins.md).
//===----------------------------------------------------------------------===//
#include "compiler/cost/CostModel.h"
#include "compiler/schedule/Plugin.h"

using namespace tw;

TILEWRIGHT_PLUGIN

namespace {
class Roofline : public cost::CostModel {
public:
  double cyclesOfKernel(const cost::KernelWork &work) const override {
    return std::max({work.array, work.vector, work.loads[0], work.loads[1], work.stores, work.bus});
  }
  double cyclesOfSteps(const cost::StepsWork &work) const override {
    return std::max({work.array, work.vector, work.loads, work.stores, work.bus});
  }
};
} // namespace

extern "C" void tilewrightRegisterCostModels(cost::CostModelRegistry &registry) {
  registry.add("roofline", std::make_unique<Roofline>());
}
