//===- CostModelTest.cpp - The closed form and the registry ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/cost/CostModel.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace tw;
using namespace tw::cost;

namespace {
KernelWork someWork() {
  KernelWork work;
  work.array = 1000;
  work.vector = 300;
  work.loads[0] = 400;
  work.loads[1] = 200;
  work.stores = 100;
  work.bus = 650;
  work.sharedBus = 600;
  work.latency = 50;
  work.loadCount = work.visits = 8;
  work.results = 4;
  work.firstLoad = 100;
  work.arrayTile = 250;
  work.vectorTile = 75;
  work.storeTile = 25;
  return work;
}

TEST(ClosedFormTest, TakesAsLongAsTheBusiestEngineAtLeast) {
  KernelWork work = someWork();
  EXPECT_GE(closedForm().cyclesOfKernel(work), 1000);
  work.bus = 5000;
  EXPECT_GE(closedForm().cyclesOfKernel(work), 5000);
}

TEST(ClosedFormTest, WhatDoesNotOverlapAddsUp) {
  KernelWork work = someWork();
  const double all = closedForm().cyclesOfKernel(work);
  work.overlap = KernelWork::Overlap::Stores;
  const double stores = closedForm().cyclesOfKernel(work);
  work.overlap = KernelWork::Overlap::None;
  EXPECT_LT(all, stores);
  EXPECT_LT(stores, closedForm().cyclesOfKernel(work));
}

// Tiles are left out by a part of their work.
TEST(ClosedFormTest, NeverFallsWhenANumberRises) {
  using Overlap = KernelWork::Overlap;
  for (Overlap overlap : {Overlap::None, Overlap::Stores, Overlap::All})
    for (bool hasNeighbours : {false, true})
      for (bool exposesEnds : {false, true}) {
        KernelWork work = someWork();
        work.overlap = overlap;
        work.hasNeighbours = hasNeighbours;
        work.exposesEnds = exposesEnds;
        const double least = closedForm().cyclesOfKernel(work);
        for (double KernelWork::*number :
             {&KernelWork::array, &KernelWork::vector, &KernelWork::stores, &KernelWork::bus, &KernelWork::sharedBus,
              &KernelWork::turnaround, &KernelWork::slotTurns, &KernelWork::latency, &KernelWork::loadCount,
              &KernelWork::visits, &KernelWork::results, &KernelWork::firstLoad, &KernelWork::arrayTile,
              &KernelWork::arrayVisit, &KernelWork::vectorTile, &KernelWork::storeTile}) {
          KernelWork more = work;
          more.*number += 10000;
          EXPECT_GE(closedForm().cyclesOfKernel(more), least);
        }
        for (unsigned KernelWork::*count : {&KernelWork::bankConflicts, &KernelWork::crowdings}) {
          KernelWork more = work;
          more.*count += 1;
          EXPECT_GE(closedForm().cyclesOfKernel(more), least);
        }
      }
}

TEST(ClosedFormTest, StepsTakeWhatTheListSchedulerSays) {
  StepsWork work;
  work.scheduled = 123;
  work.array = 200;
  EXPECT_EQ(closedForm().cyclesOfSteps(work), 123);
  EXPECT_EQ(closedForm().scheduleLimit(99), 99);
}

TEST(CostModelTest, WhatIsNoNumberOfCyclesIsInfinite) {
  EXPECT_EQ(checked(5), 5);
  EXPECT_TRUE(std::isinf(checked(-1)));
  EXPECT_TRUE(std::isinf(checked(std::nan(""))));
}

TEST(CostModelTest, ANameIsTakenOnce) {
  EXPECT_NE(costModels().find("closed_form"), nullptr);
  EXPECT_FALSE(costModels().add("closed_form", std::make_unique<ClosedForm>()));
  EXPECT_FALSE(costModels().add("", std::make_unique<ClosedForm>()));
  EXPECT_FALSE(costModels().add("other", nullptr));
  EXPECT_EQ(costModels().find("other"), nullptr);
  EXPECT_EQ(costModels().names(), std::vector<std::string>{"closed_form"});
}
} // namespace
