//===- EnginesTest.cpp - The engines of a machine, numbered ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "isa/timing/Engines.h"

#include <gtest/gtest.h>

using namespace tw::timing;

TEST(EngineTable, numbersClassesInArbitrationOrderAndUnitsWithin) {
  const EngineTable table(/*stores=*/2, /*loads=*/3);
  std::vector<std::string> names;
  for (unsigned index = 0; index < table.size(); ++index)
    names.push_back(table.nameOf(index));
  const std::vector<std::string> expected = {"store0", "store1", "vector", "tensor",   "preload",
                                             "load0",  "load1",  "load2",  "sequencer"};
  EXPECT_EQ(names, expected);
}

TEST(EngineTable, indexOfIsTheInverseOfKindAndUnit) {
  for (unsigned stores = 1; stores <= kMaxStoreEngines; ++stores)
    for (unsigned loads = 1; loads <= kMaxLoadEngines; ++loads) {
      const EngineTable table(stores, loads);
      for (unsigned index = 0; index < table.size(); ++index)
        EXPECT_EQ(table.indexOf(table.kindOf(index), table.unitOf(index)), index);
      EXPECT_EQ(table.count(EngineKind::Store), stores);
      EXPECT_EQ(table.count(EngineKind::Load), loads);
    }
}
