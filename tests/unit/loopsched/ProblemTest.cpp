//===- ProblemTest.cpp - What check() and verify() refuse -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/research/loopsched/SchedulerRegistry.h"

#include <gtest/gtest.h>

#include <functional>

using namespace tw;
using namespace tw::loopsched;

namespace {

/// load -> x -> tensor -> y -> store; load and store share the DRAM bus.
Problem pipeline() {
  Problem problem;
  problem.resources = {{"dram"}, {"load"}, {"tensor"}, {"store"}};
  problem.memories = {{"scratchpad", 4, 64}, {"spare", 4, 64}};
  problem.operations = {{"load", {{1, 10}, {0, 10}}, 20}, {"tensor", {{2, 12}}, 15}, {"store", {{3, 8}, {0, 8}}, 10}};
  problem.buffers = {{"x", 0, 64, 0, {{1, 0}}, 0}, {"y", 0, 60, 1, {{2, 0}}, 2}};
  // The load of the next iteration does not wait for more than this.
  problem.dependences = {{1, 0, 2, 2}};
  return problem;
}

/// The bus is full: load in [0, 10), store in [10, 18) of every 18 cycles. x lives 35 cycles, y 36: two slots each.
Schedule pipelined() {
  Schedule schedule;
  schedule.ii = 18;
  schedule.start = {0, 20, 46};
  schedule.rings = {{0, 2, 0, 1}, {0, 2, 2, 1}};
  schedule.placements = {{0, 0}, {1, 0}};
  return schedule;
}

TEST(ProblemTest, ARightScheduleIsAccepted) {
  EXPECT_EQ(check(pipeline()), std::vector<std::string>());
  EXPECT_EQ(verify(pipeline(), pipelined()), std::vector<std::string>());
}

TEST(ProblemTest, BoundsOfThePipeline) {
  EXPECT_EQ(resourceBound(pipeline()), 18);
  // x has 4 slots at most, y 2: (15 + 10) / 2 rounded up; 37 / 4 and the dependence, 22 / 2, are less.
  EXPECT_EQ(recurrenceBound(pipeline()), 13);
  EXPECT_EQ(serialLength(pipeline()), 45);
}

struct Planted {
  const char *name;
  std::function<void(Problem &, Schedule &)> plant;
  const char *message;
};

std::ostream &operator<<(std::ostream &out, const Planted &it) { return out << it.name; }

class PlantedErrorTest : public testing::TestWithParam<Planted> {};

TEST_P(PlantedErrorTest, IsRefusedForItsReasonAlone) {
  Problem problem = pipeline();
  Schedule schedule = pipelined();
  GetParam().plant(problem, schedule);
  std::vector<std::string> errors = verify(problem, schedule);
  ASSERT_EQ(errors.size(), 1u) << (errors.empty() ? "" : errors[0] + "\n" + errors.back());
  EXPECT_NE(errors[0].find(GetParam().message), std::string::npos) << errors[0];
}

INSTANTIATE_TEST_SUITE_P(
    Verify, PlantedErrorTest,
    testing::Values(
        Planted{"NoInterval", [](Problem &, Schedule &s) { s.ii = 0; }, "the initiation interval is 0"},
        Planted{"MissingStart", [](Problem &, Schedule &s) { s.start.pop_back(); }, "3 operations but 2 start times"},
        Planted{"MissingPlacement", [](Problem &, Schedule &s) { s.placements.pop_back(); }, "2 buffers but 1 placements"},
        Planted{"NegativeStart",
                [](Problem &p, Schedule &s) {
                  s.start = {-18, 2, 28};
                },
                "starts before cycle 0"},
        // One cycle early or late, the store meets the load on the bus.
        Planted{"BusTaken",
                [](Problem &p, Schedule &s) {
                  p.buffers[1].maxDepth = 0, s.rings[1] = {1, 3, 0, 1}, p.buffers[1].memory = 1, s.start[2] = 45;
                },
                "resource 'dram' is used by 'load' and 'store' at once"},
        Planted{"BusTakenAcrossTheWrap",
                [](Problem &p, Schedule &s) {
                  p.buffers[1].maxDepth = 0, s.rings[1] = {1, 3, 0, 1}, p.buffers[1].memory = 1, s.start[2] = 47;
                },
                "resource 'dram' is used by 'store' and 'load' at once"},
        Planted{"LongerThanTheInterval", [](Problem &p, Schedule &s) { p.operations[1].uses[0].cycles = 19; },
                "resource 'tensor' is used by 'tensor' and 'tensor' at once"},
        Planted{"ReadTooEarly", [](Problem &p, Schedule &) { p.operations[0].latency = 21; },
                "starts 20 cycles after 'load' but needs 21 to read buffer 'x'"},
        Planted{"DependenceTooEarly",
                [](Problem &p, Schedule &) {
                  p.dependences = {{0, 1, 21, 0}};
                },
                "starts 20 cycles after 'load' but needs 21"},
        Planted{"CarriedDependenceTooEarly",
                [](Problem &p, Schedule &) {
                  p.dependences = {{1, 0, 2, 1}};
                },
                "'load' starts -2 cycles after 'tensor' but needs 2"},
        Planted{"OneSlotTooFew", [](Problem &, Schedule &s) { s.rings[0].depth = 1; },
                "a slot of 'x' is written again while 'x' lives in it"},
        Planted{"OneCycleOfLifeTooMuch", [](Problem &p, Schedule &) { p.operations[2].latency = 11; },
                "a slot of 'y' is written again while 'y' lives in it"},
        Planted{"TwoBuffersInOneSlot",
                [](Problem &, Schedule &s) {
                  s.placements[1] = {0, 0};
                },
                "is written again while"},
        Planted{"NoSuchRing", [](Problem &, Schedule &s) { s.placements[1].ring = 2; }, "lies in ring 2, which does not exist"},
        Planted{"NoSuchSlot", [](Problem &, Schedule &s) { s.placements[1].phase = 2; },
                "has phase 2 but its ring has 2 slots"},
        Planted{"OtherMemory", [](Problem &, Schedule &s) { s.rings[1].memory = 1; }, "lies in a ring of another memory"},
        Planted{"SlotTooSmall", [](Problem &p, Schedule &) { p.buffers[0].bytes = 65; },
                "has 65 bytes but its slots have 1 banks of 64"},
        Planted{"TooDeep", [](Problem &p, Schedule &s) { p.buffers[1].maxDepth = 1; }, "has 2 slots but at most 1 are allowed"},
        Planted{"BeyondTheMemory", [](Problem &p, Schedule &) { p.memories[0].banks = 3; },
                "ring 1 ends at bank 4 but memory 'scratchpad' has 3"},
        Planted{"BanksShared", [](Problem &, Schedule &s) { s.rings[1].firstBank = 1; }, "rings 0 and 1 share banks"},
        Planted{"EmptyRing",
                [](Problem &, Schedule &s) {
                  s.rings.push_back({0, 0, 0, 1});
                },
                "ring 2 names a memory that does not exist, or has no slot"}),
    [](const testing::TestParamInfo<Planted> &info) { return info.param.name; });

struct BadProblem {
  const char *name;
  std::function<void(Problem &)> plant;
  const char *message;
};

std::ostream &operator<<(std::ostream &out, const BadProblem &it) { return out << it.name; }

class BadProblemTest : public testing::TestWithParam<BadProblem> {};

TEST_P(BadProblemTest, IsRefusedBeforeAnySchedulerSeesIt) {
  Problem problem = pipeline();
  GetParam().plant(problem);
  Result<Schedule> schedule = runScheduler("serial", problem);
  ASSERT_FALSE(schedule);
  EXPECT_NE(schedule.message().find(GetParam().message), std::string::npos) << schedule.message();
}

INSTANTIATE_TEST_SUITE_P(
    Check, BadProblemTest,
    testing::Values(
        BadProblem{"Empty", [](Problem &p) { p = {}; }, "there is no operation"},
        BadProblem{"NoBank", [](Problem &p) { p.memories[1].banks = 0; }, "memory 'spare' must have at least one bank"},
        BadProblem{"Latency", [](Problem &p) { p.operations[0].latency = -1; }, "a latency of -1 cycles"},
        BadProblem{"NoSuchResource", [](Problem &p) { p.operations[0].uses[0].resource = 4; },
                   "uses resource 4, which does not exist"},
        BadProblem{"ResourceTwice", [](Problem &p) { p.operations[0].uses[0].resource = 0; }, "uses resource 'dram' twice"},
        BadProblem{"OccupancyAboveLatency", [](Problem &p) { p.operations[1].latency = 11; },
                   "occupies 'tensor' for 12 cycles but its latency is 11"},
        BadProblem{"NoSuchOperation", [](Problem &p) { p.dependences[0].to = 3; },
                   "dependence 1 -> 3 names an operation that does not exist"},
        BadProblem{"NegativeDelay", [](Problem &p) { p.dependences[0].delay = -1; }, "its delay is out of range"},
        BadProblem{"NoSuchMemory", [](Problem &p) { p.buffers[0].memory = 2; },
                   "buffer 'x' names a memory or an operation that does not exist"},
        BadProblem{"NoSuchReader", [](Problem &p) { p.buffers[0].readers[0].operation = 3; },
                   "is read by operation 3, which does not exist"},
        BadProblem{"NoBytes", [](Problem &p) { p.buffers[0].bytes = 0; }, "has 0 bytes"},
        BadProblem{"Cycle", [](Problem &p) { p.dependences[0].distance = 0; }, "depend on one another in a cycle"},
        BadProblem{"TooLarge", [](Problem &p) { p.buffers[0].bytes = 257; },
                   "buffer 'x' does not fit into memory 'scratchpad'"}),
    [](const testing::TestParamInfo<BadProblem> &info) { return info.param.name; });

} // namespace
