//===- ResidencyTest.cpp - Which tensors stay on chip, and where -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/codegen/accel/Residency.h"

#include <gtest/gtest.h>

#include <list>

using namespace tw;
using namespace tw::accel;

namespace {
constexpr int64_t kKiB = 1024, kCapacity = 256 * kKiB, kTensor = 96 * kKiB; ///< three eighths: two of them may stay at a time
constexpr int64_t kChannels = 16, kPixels = kTensor / 4 / kChannels;

/// Kernels one behind the other, each of which makes a tensor of others element by element.
class ResidencyTest : public testing::Test {
protected:
  ResidencyTest() {
    machine.lanes = machine.rows = machine.cols = kChannels;
    machine.scratchpads = {{"unified", uint64_t(kCapacity), 16}};
    machine.accumulator = {"accumulator", 64 * kKiB, 4};
  }

  void kernel(std::vector<size_t> reads, size_t writes) {
    Kernel &k = kernels.emplace_back();
    k.extent = {kChannels, kPixels, 1, 1};
    const Extent stride{1, kChannels, 0, 0};
    Step step;
    for (size_t i = 0; i <= reads.size(); ++i) {
      KernelTensor tensor;
      tensor.role = i < reads.size() ? KernelTensor::Argument : KernelTensor::Result;
      tensor.elements = kChannels * kPixels;
      k.tensors.push_back(tensor);
      Source source;
      source.view = {int(i), stride, 0};
      if (i < reads.size())
        step.sources.push_back(source);
    }
    k.steps = {step};
    k.output = {int(reads.size()), stride, 0};
    reads.push_back(writes);
    uses.tensorOf.push_back(reads);
    uses.kernels.push_back(&k);
    uses.cycles.push_back({1, 1});
    uses.alone.push_back(false);
    for (size_t tensor : reads)
      if (tensor >= uses.shapes.size())
        uses.shapes.resize(tensor + 1);
  }

  /// Tensors that are no input and no result of the network.
  void inner(std::initializer_list<size_t> tensors) {
    for (size_t tensor : tensors)
      uses.shapes[tensor] = {kPixels, kChannels};
    uses.alsoInDram.assign(uses.shapes.size(), false);
  }

  std::list<Kernel> kernels;
  NetworkUses uses;
  timing::MachineParams machine;
};

/// No more than two are there at a time. In the order of their numbers the last one would find both places taken for a part of its life.
class TwoPlacesTest : public ResidencyTest {
protected:
  TwoPlacesTest() {
    kernel({5}, 0);
    kernel({0}, 1);
    kernel({1}, 3);
    kernel({3}, 4); // goes to DRAM
    kernel({4, 3}, 2);
    kernel({2}, 6);
    inner({0, 1, 2, 3});
  }
};

TEST_F(TwoPlacesTest, TensorsThatFollowOneAnotherShareThem) {
  const Residency found = chooseResidents(uses, machine);
  for (size_t tensor : {0, 1, 2, 3})
    EXPECT_TRUE(found.tensors[tensor]) << tensor;
  EXPECT_TRUE(found.leftOut.empty());
}

TEST_F(TwoPlacesTest, TheLargerRunBesideATensorIsRoomForBuffers) {
  const Residency found = chooseResidents(uses, machine);
  // The first kernel has a tensor at the end of the scratchpad, the last one has one in the middle.
  EXPECT_EQ(found.tensors[0]->address, kCapacity - kTensor);
  EXPECT_EQ(found.room[0], kCapacity - kTensor);
  EXPECT_TRUE(found.gap[0].isEmpty());
  EXPECT_EQ(found.tensors[2]->address, kCapacity - 2 * kTensor);
  EXPECT_EQ(found.room[5], kCapacity - 2 * kTensor);
  EXPECT_EQ(found.gap[5].begin, kCapacity - kTensor);
  EXPECT_EQ(found.gap[5].end, kCapacity);
}

TEST_F(ResidencyTest, WhatStaysBesideAChainLiesOutermost) {
  kernel({4}, 0);
  kernel({0}, 1);
  kernel({1}, 2); // from here on a chain, which takes what one tensor leaves
  kernel({2}, 3);
  inner({0, 1, 2});
  const Residency found = chooseResidents(uses, machine, {{2, 3, kCapacity - kTensor, {2}}});
  ASSERT_TRUE(found.tensors[0] && found.tensors[1]);
  EXPECT_EQ(found.tensors[1]->address, kCapacity - kTensor);
  EXPECT_EQ(found.tensors[0]->address, kCapacity - 2 * kTensor);
}

TEST_F(ResidencyTest, ATensorForWhichAChainLeavesNoRoomIsLeftOut) {
  kernel({3}, 0);
  kernel({0}, 1);
  kernel({1}, 2);
  inner({0, 1});
  const Residency found = chooseResidents(uses, machine, {{1, 2, kCapacity, {1}}});
  EXPECT_FALSE(found.tensors[0]);
  EXPECT_EQ(found.leftOut, std::vector<size_t>{0});
}
} // namespace
