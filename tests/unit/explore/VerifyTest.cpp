//===- VerifyTest.cpp - Plans that kernels or a machine do not allow ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/plan/Verify.h"

#include "tests/unit/explore/ToyNetwork.h"

#include <gtest/gtest.h>

using namespace tw;
using accel::C, accel::P0, accel::P1;
using plan::Schedule;

namespace {
class VerifyTest : public ::testing::Test {
protected:
  VerifyTest() {
    product = network.addProduct(128, 256, 512);
    normalisation = network.addNormalisation(128, 256);
  }
  /// Of a kernel whose knobs `set` sets.
  std::vector<std::string> problemsOf(accel::Kernel kernel, llvm::function_ref<void(plan::KernelPlan &)> set,
                                      Schedule schedule = Schedule::Pipelined) {
    set(kernel.plan);
    return plan::verify({kernel}, network.params, schedule);
  }
  void expectRefused(const accel::Kernel &kernel, llvm::function_ref<void(plan::KernelPlan &)> set, const std::string &message,
                     Schedule schedule = Schedule::Pipelined) {
    const std::vector<std::string> problems = problemsOf(kernel, set, schedule);
    ASSERT_EQ(problems.size(), 1u) << message;
    EXPECT_EQ(problems.front(), message);
  }
  test::ToyNetwork network;
  accel::Kernel product, normalisation;
};

TEST_F(VerifyTest, AnOpenPlanIsAllowed) {
  for (Schedule schedule : {Schedule::Serial, Schedule::DoubleBuffer, Schedule::Pipelined, Schedule::Search})
    EXPECT_TRUE(plan::verify({product, normalisation}, network.params, schedule).empty());
}

TEST_F(VerifyTest, TilesFitTheKernelAndTheArray) {
  expectRefused(
      product, [](auto &p) { p.tile[C] = 24; }, "size of channels is 24 but kernel 'kernel0' allows multiples of 16 up to 512");
  expectRefused(
      product, [](auto &p) { p.tile[P0] = 129; }, "size along x is 129 but kernel 'kernel0' has 128 there");
  expectRefused(
      product, [](auto &p) { p.tile[P1] = 2; }, "size along y is 2 but kernel 'kernel0' has 1 there");
  expectRefused(
      normalisation, [](auto &p) { p.tile[C] = 16; },
      "size of channels is 16 but kernel 'kernel1' reduces over all of them and needs 256");
}

TEST_F(VerifyTest, KnobsOfContractionsAreForContractions) {
  const char *why = " but kernel 'kernel1' has no contraction and cannot choose it";
  expectRefused(
      normalisation, [](auto &p) { p.tileK = 16; }, std::string("tile_k is 16") + why);
  expectRefused(
      normalisation, [](auto &p) { p.loopOrder = plan::LoopOrder::KOuter; }, std::string("loop_order is k_outer") + why);
  expectRefused(
      normalisation, [](auto &p) { p.serpentine = false; }, std::string("serpentine is false") + why);
}

TEST_F(VerifyTest, SimpleSchedulesHaveNoKnobsOfPipelines) {
  expectRefused(
      product, [](auto &p) { p.depth = 2; },
      "depth is 2 but kernel 'kernel0' has schedule serial, with one buffer and no overlap", Schedule::Serial);
  expectRefused(
      product, [](auto &p) { p.stationary = plan::Stationary::Double; },
      "stationary is double but kernel 'kernel0' has schedule double_buffer, and only pipelined and search can do that",
      Schedule::DoubleBuffer);
  expectRefused(
      product, [](auto &p) { p.overlap = false; },
      "overlap is false but kernel 'kernel0' has schedule pipelined, which always overlaps");
}

TEST_F(VerifyTest, KnobsThatExcludeEachOther) {
  expectRefused(
      product,
      [](auto &p) {
        p.banks = plan::Banks{0, 1};
        p.afterPrevious = true;
      },
      "after_previous is true but kernel 'kernel0' has banks of its own");
  expectRefused(
      product,
      [](auto &p) {
        p.loopOrder = plan::LoopOrder::KOuter;
        p.stationary = plan::Stationary::Single;
      },
      "stationary is single but kernel 'kernel0' has loop order k_outer, where no operand is stationary");
  expectRefused(
      product, [](auto &p) { p.drainByBlock = true; }, "drain_by_block is true but kernel 'kernel0' has no single_accumulator");
}

TEST_F(VerifyTest, ChannelsOnTheArrayAreOfTheVectorEngine) {
  expectRefused(
      product,
      [](auto &p) {
        p.engine = plan::Engine::Tensor;
        p.arrayChannels = 16;
      },
      "array_channels is 16 but kernel 'kernel0' has engine tensor");
  expectRefused(
      normalisation, [](auto &p) { p.arrayChannels = 272; }, "array_channels is 272 but kernel 'kernel1' has 256 of them");
}

TEST_F(VerifyTest, WeightsHaveAChoiceOfLoadersWhereThereAreTwo) {
  auto set = [](auto &p) { p.firstLoader = true; };
  EXPECT_TRUE(problemsOf(product, set).empty());
  expectRefused(normalisation, set, "first_loader is true but kernel 'kernel1' has no weights");
  expectRefused(product, set,
                "first_loader is true but kernel 'kernel0' has schedule serial, and only pipelined and search can do that",
                Schedule::Serial);
  network.params.loadEngines = 1;
  expectRefused(product, set,
                "first_loader is true but kernel 'kernel0' runs on machine 'gemmini_16x16_int8', which has one load engine");
}

TEST_F(VerifyTest, EveryProblemIsSaidWithItsPlace) {
  auto places = std::make_shared<plan::KnobPlaces>();
  (*places)["tile"] = "mine.mlir:3:3";
  const std::vector<std::string> problems = problemsOf(product, [&](auto &p) {
    p.tile = {24, 129, 0, 0};
    p.banks = plan::Banks{0, 1000};
    p.places = places;
  });
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(problems[0].rfind("mine.mlir:3:3: size of channels", 0), 0u);
  EXPECT_EQ(problems[1].rfind("mine.mlir:3:3: size along x", 0), 0u);
  EXPECT_EQ(problems[2].rfind("the end of banks is 1000", 0), 0u) << "no file sets it";
}
} // namespace
