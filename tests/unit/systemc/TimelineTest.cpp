//===- TimelineTest.cpp - The trace file ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "simulator/stats/Timeline.h"
#include "tests/unit/systemc/Pipeline.h"

#include <nlohmann/json.hpp>

#include <map>
#include <sstream>

using namespace tw;
using namespace tw::test;
using nlohmann::json;

namespace {

json timelineOf(const isa::Program &program, const stats::SimResult &result,
                const std::vector<std::vector<timing::Cycle>> &plannedStarts = {}) {
  std::ostringstream text;
  stats::writeTimeline(text, program, result, stats::TimelineFormat::ChromeJson, plannedStarts);
  return json::parse(text.str());
}

TEST(TimelineTest, HasEveryInstructionQueueAndArrow) {
  const Pipeline pipeline(10);
  isa::Program program = pipeline.program();
  program.layers.resize(1);
  program.layers[0].name = "a \"quoted\"\\\n name";
  program.layerOf.assign(program.code.size(), 0);
  std::vector<std::vector<uint8_t>> outputs;
  systemc::SimOptions options;
  options.trace = true;
  timing::MachineParams machine = smallMachine();
  machine.dram.bytesPerCycleNumerator = 8;
  const stats::SimResult result = runWith(program, pipeline.inputs(), machine, outputs, options);
  const json trace = timelineOf(program, result);

  EXPECT_EQ(trace["otherData"]["total_cycles"], result.totalCycles);
  std::map<std::string, int> slices, phases;
  std::map<int, std::string> tracks;
  for (const json &event : trace["traceEvents"]) {
    ++phases[event["ph"]];
    if (event["ph"] == "X")
      ++slices[event["name"]];
    if (event["ph"] == "M" && event["name"] == "thread_name")
      tracks[event["tid"]] = event["args"]["name"];
    if (event["ph"] == "X" && event["name"] == "tensor" && event["args"].contains("retire")) {
      EXPECT_EQ(event["dur"], 64);
      EXPECT_EQ(event["args"]["layer"], program.layers[0].name);
    }
  }
  // Six engines with queues, the sequencer, and the critical path.
  EXPECT_EQ(tracks.size(), 14u);
  EXPECT_GE(slices["load"], 20);
  EXPECT_GE(slices["store"], 10);
  EXPECT_GT(slices["operand"], 0);
  EXPECT_GT(slices["dram_bandwidth"], 0);
  // Ten tiles: activation, weight, accumulator and output are handed on each time, and handed back from the third tile on.
  EXPECT_EQ(phases["s"], 10 * 4 + 8 * 4);
  EXPECT_EQ(phases["f"], phases["s"]);
  EXPECT_GT(phases["C"], 0);
}

// Stores are set up before they have a channel. Bytes that are no UTF-8 are replaced, as in reports.
TEST(TimelineTest, SetUpHasNoChannelAndNamesAreUtf8) {
  isa::Program program = assemble({"store dram_address=0x1000 span=64 counts=[64,1,1,1,1]", "halt"});
  program.layers.resize(1);
  program.layers[0].name = "ge\xffm";
  program.layerOf.assign(program.code.size(), 0);
  core::MachineState state(smallMachine());
  ASSERT_FALSE(state.load(program));
  systemc::SimOptions options;
  options.trace = true;
  const json trace = timelineOf(program, run(program, state, options));
  int stores = 0, setUps = 0;
  for (const json &event : trace["traceEvents"]) {
    if (event["ph"] != "X")
      continue;
    if (event["name"] == "store" && event["args"]["layer"] == "ge\xef\xbf\xbdm")
      ++stores;
    if (event["name"] == "dram_latency" && event["args"]["cause"] == "set-up")
      ++setUps;
    EXPECT_NE(event["args"].value("cause", ""), "channel 65535");
  }
  EXPECT_EQ(stores, 1);
  EXPECT_EQ(setUps, 1);
}

TEST(TimelineTest, PlannedStartsAreATrackBesideTheSimulatedOnes) {
  const Pipeline pipeline(4);
  const isa::Program program = pipeline.program();
  std::vector<std::vector<uint8_t>> outputs;
  systemc::SimOptions options;
  options.trace = true;
  const stats::SimResult result = runWith(program, pipeline.inputs(), smallMachine(), outputs, options);
  std::vector<std::vector<timing::Cycle>> planned(result.engines.size());
  std::vector<timing::Cycle> starts;
  for (size_t i = 0; i < result.engines.size(); ++i)
    if (result.engines[i].engine == stats::kTensor)
      planned[i] = {10, 50, 50, 200}; // the second has no time until the third
  for (const stats::InstructionRecord &record : result.instructions)
    if (record.engine == stats::kTensor)
      starts.push_back(record.start);
  ASSERT_EQ(starts.size(), 4u);
  std::map<int, std::string> tracks;
  std::vector<std::vector<uint64_t>> slices;
  const json trace = timelineOf(program, result, planned);
  for (const json &event : trace["traceEvents"]) {
    if (event["ph"] == "M" && event["name"] == "thread_name")
      tracks[event["tid"]] = event["args"]["name"];
    if (event["ph"] == "X" && tracks[event["tid"]] == "tensor planned")
      slices.push_back({event["ts"], event["dur"], event["args"]["simulated"]});
  }
  const std::vector<std::vector<uint64_t>> expected = {{10, 40, starts[0]}, {50, 64, starts[2]}, {200, 64, starts[3]}};
  EXPECT_EQ(slices, expected);
  EXPECT_EQ(tracks.size(), 15u);
}

// Perfetto wants the slices of one track to nest: none may begin inside another and end after it.
TEST(TimelineTest, SlicesOfATrackNest) {
  const Pipeline pipeline(12);
  const isa::Program program = pipeline.program();
  std::vector<std::vector<uint8_t>> outputs;
  systemc::SimOptions options;
  options.trace = true;
  timing::MachineParams machine = smallMachine();
  machine.dram.bytesPerCycleNumerator = 5;
  const stats::SimResult result = runWith(program, pipeline.inputs(), machine, outputs, options);
  const json trace = timelineOf(program, result);
  std::map<int, std::vector<std::pair<uint64_t, uint64_t>>> tracks;
  for (const json &event : trace["traceEvents"])
    if (event["ph"] == "X")
      tracks[event["tid"]].push_back({event["ts"], event["ts"].get<uint64_t>() + event["dur"].get<uint64_t>()});
  EXPECT_GE(tracks.size(), 8u);
  for (auto &[track, slices] : tracks) {
    std::sort(slices.begin(), slices.end(),
              [](const auto &a, const auto &b) { return a.first != b.first ? a.first < b.first : a.second > b.second; });
    std::vector<uint64_t> open;
    for (const auto &[begin, end] : slices) {
      ASSERT_LT(begin, end);
      while (!open.empty() && open.back() <= begin)
        open.pop_back();
      ASSERT_TRUE(open.empty() || end <= open.back()) << "track " << track << " at " << begin;
      open.push_back(end);
    }
  }
}

// Two programs with a step of the host between them, which a tensor crosses to and from.
TEST(TimelineTest, ProgramsStandOneBehindTheOther) {
  auto program = std::make_shared<isa::Program>(assemble({"store dram_address=0x1000 span=64 counts=[64,1,1,1,1]", "halt"}));
  core::MachineState state(smallMachine());
  ASSERT_FALSE(state.load(*program));
  systemc::SimOptions options;
  options.trace = true;
  auto result = std::make_shared<const stats::SimResult>(run(*program, state, options));
  using Kind = stats::TimelineStep::Kind;
  const stats::TimelineStep ran{Kind::Program, program, result, "", 0, 0};
  std::ostringstream text;
  stats::writeTimeline(text, "a machine",
                       {ran,
                        {Kind::Link, nullptr, nullptr, "to the host", 7, 64},
                        {Kind::Host, nullptr, nullptr, "node", 11, 128},
                        {Kind::Host, nullptr, nullptr, "no time", 0, 0},
                        ran});
  const json trace = json::parse(text.str());
  EXPECT_EQ(trace["otherData"]["total_cycles"], 2 * result->totalCycles + 18);
  std::map<std::string, std::vector<std::pair<uint64_t, uint64_t>>> slices;
  std::map<int, std::string> tracks;
  for (const json &event : trace["traceEvents"]) {
    if (event["ph"] == "X")
      slices[event["name"]].push_back({event["ts"], event["dur"]});
    if (event["ph"] == "M" && event["name"] == "thread_name")
      EXPECT_TRUE(tracks.emplace(event["tid"], event["args"]["name"]).second);
  }
  using Slices = std::vector<std::pair<uint64_t, uint64_t>>;
  EXPECT_EQ(slices["to the host"], (Slices{{result->totalCycles, 7}}));
  EXPECT_EQ(slices["node"], (Slices{{result->totalCycles + 7, 11}}));
  EXPECT_EQ(slices.count("no time"), 0u);
  ASSERT_EQ(slices["store"].size(), 2u);
  EXPECT_EQ(slices["store"][1].first, slices["store"][0].first + result->totalCycles + 18);
  std::vector<std::string> last;
  for (const auto &[track, name] : tracks)
    last.push_back(name);
  ASSERT_GE(last.size(), 2u);
  EXPECT_EQ(std::vector<std::string>(last.end() - 2, last.end()), (std::vector<std::string>{"host", "link"}));
}

} // namespace
