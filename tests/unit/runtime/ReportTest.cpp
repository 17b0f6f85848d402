//===- ReportTest.cpp - What a run comes to, for people and programs ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace tw;
using namespace tw::runtime;
using stats::Label;

namespace {

/// One layer of 6400 MACs in 100 of 128 cycles on a machine with 64 MACs per cycle at 500 MHz.
RunReport sampleReport() {
  RunReport report;
  report.model = "net.onnx";
  report.programs = 1;
  report.schedule = "serial";
  report.machine.name = "small";
  report.machine.rows = report.machine.cols = 8;
  report.machine.clockMhz = 500;
  report.macs = 3200;
  report.lowerBoundCycles = 64;
  report.boundBy = "array";
  report.layerSerialCycles = 70;
  report.layers = {{"conv", {"Conv_0", "Relu_1"}, 3200, 50, "array"}};
  stats::SimResult sim;
  sim.totalCycles = 128;
  sim.dramReadBytes = 1024;
  sim.dramWriteBytes = 512;
  sim.fetchBytes = 512;
  stats::EngineResult tensor;
  tensor.engine = stats::kTensor;
  tensor.name = "tensor";
  tensor.instructions = 3;
  tensor.cycles[size_t(Label::Busy)] = 60;
  tensor.cycles[size_t(Label::Operand)] = 40;
  tensor.cycles[size_t(Label::Starved)] = 20;
  tensor.cycles[size_t(Label::Idle)] = 8;
  tensor.causes = {{Label::Operand, 3, stats::kFirstLoad, 40}};
  sim.engines = {tensor};
  stats::LayerResult layer;
  layer.name = "conv";
  layer.instructions = 3;
  layer.firstStart = 20;
  layer.lastRetire = 120;
  layer.critical = 128;
  layer.dramReadBytes = 1024;
  layer.dramWriteBytes = 512;
  layer.macs = 6400;
  layer.labels[stats::kTensor][size_t(Label::Busy)] = 60;
  layer.labels[stats::kTensor][size_t(Label::Operand)] = 40;
  sim.layers = {layer};
  sim.instructionCount = 3;
  sim.hasLayerCauses = true;
  report.sim = sim;
  report.targets = {"accelerator", "cpu"};
  report.offload = {{"Conv_0", "accelerator", "layer conv"}, {"NonZero_2", "cpu", "the accelerator has no NonZero", true}};
  report.outputs = {{"y", ElementKind::F32, {1, 2}, std::vector<uint8_t>(8)}};
  report.simulateSeconds = 0.5;
  return report;
}

} // namespace

TEST(ReportTest, UtilisationIsMacsOverPeakTimesCycles) {
  RunReport report = sampleReport();
  // 3200 / (64 * 128)
  EXPECT_DOUBLE_EQ(report.utilisation(report.countedMacs(), 128), 0.390625);
  EXPECT_EQ(report.utilisation(5, 0), 0);
  // 128 cycles at 500 MHz are 256 ns.
  EXPECT_DOUBLE_EQ(report.milliseconds(128), 256e-6);
  EXPECT_DOUBLE_EQ(report.cyclesPerWallSecond(), 256);
  report.macs.reset();
  report.sim->macs = 77;
  EXPECT_EQ(report.countedMacs(), 77u);
}

TEST(ReportTest, ConversionsAreLayersWithoutNodes) {
  RunReport report = sampleReport();
  EXPECT_EQ(nlohmann::json::parse(toJson(report, {"out/y.npy"}))["conversions"]["layers"], 0);
  EXPECT_EQ(tables(report).find("conversions that"), std::string::npos);
  isa::Layer transpose;
  transpose.name = "transpose";
  report.layers.push_back(transpose);
  stats::LayerResult layer = report.sim->layers.front();
  layer.name = "transpose";
  layer.critical = 28;
  report.sim->layers.front().critical = 100;
  report.sim->layers.push_back(layer);
  const nlohmann::json conversions = nlohmann::json::parse(toJson(report, {"out/y.npy"}))["conversions"];
  EXPECT_EQ(conversions, nlohmann::json({{"layers", 1}, {"cycles", 100}, {"critical_cycles", 28}, {"dram_bytes", 1536}}));
  EXPECT_NE(tables(report).find("conversions that the model does not contain: 1, 28 critical cycles, DRAM 1.5 KiB\n"),
            std::string::npos);
}

TEST(ReportTest, JsonHasEveryPromisedKey) {
  nlohmann::json document = nlohmann::json::parse(toJson(sampleReport(), {"out/y.npy"}));
  EXPECT_EQ(document["model"], "net.onnx");
  EXPECT_EQ(document["machine"]["name"], "small");
  EXPECT_EQ(document["machine"]["clock_mhz"], 500);
  EXPECT_EQ(document["machine"]["peak_macs_per_cycle"], 64);
  EXPECT_EQ(document["schedule"], "serial");
  EXPECT_EQ(document["total_cycles"], 128);
  EXPECT_EQ(document["macs"], 3200);
  EXPECT_DOUBLE_EQ(document["utilisation"], 0.390625);
  EXPECT_EQ(document["lower_bound_cycles"], 64);
  EXPECT_EQ(document["bound_by"], "array");
  EXPECT_EQ(document["cycles_per_wall_second"], 256);

  ASSERT_EQ(document["engines"].size(), 1u);
  const auto &engine = document["engines"][0];
  EXPECT_EQ(engine["name"], "tensor");
  EXPECT_EQ(engine["busy_cycles"], 60);
  EXPECT_EQ(engine["stalls"]["operand_cycles"], 40);
  EXPECT_EQ(engine["stalls"]["starved_cycles"], 20);
  EXPECT_EQ(engine["stalls"]["bank_conflict_cycles"], 0);
  EXPECT_EQ(engine["idle_cycles"], 8);
  EXPECT_EQ(engine["causes"][0]["cause"], "semaphore 3 from load0");
  uint64_t sum = engine["busy_cycles"].get<uint64_t>() + engine["idle_cycles"].get<uint64_t>();
  for (const auto &stall : engine["stalls"])
    sum += stall.get<uint64_t>();
  EXPECT_EQ(sum, 128u);

  ASSERT_EQ(document["layers"].size(), 1u);
  const auto &layer = document["layers"][0];
  EXPECT_EQ(layer["name"], "conv");
  EXPECT_EQ(layer["nodes"], (nlohmann::json{"Conv_0", "Relu_1"}));
  EXPECT_EQ(layer["cycles"], 100);
  EXPECT_EQ(layer["macs"], 3200);
  EXPECT_DOUBLE_EQ(layer["utilisation"], 0.5);
  EXPECT_EQ(layer["first_start_cycle"], 20);
  EXPECT_EQ(layer["last_retirement_cycle"], 120);
  EXPECT_EQ(layer["critical_cycles"], 128);
  EXPECT_EQ(layer["bound_cycles"], 64); // 1,024 bytes at 16 a cycle; what is written fits the write buffer
  EXPECT_EQ(layer["bound_by"], "dram");
  EXPECT_EQ(layer["alone_bound_cycles"], 50);
  EXPECT_EQ(layer["alone_bound_by"], "array");
  EXPECT_TRUE(layer["members"].empty());
  EXPECT_EQ(layer["dram_bytes"], 1536);
  EXPECT_EQ(layer["engines"][0]["stalls"]["operand_cycles"], 40);

  EXPECT_EQ(document["offload"][1]["node"], "NonZero_2");
  EXPECT_EQ(document["offload"][1]["target"], "cpu");
  EXPECT_EQ(document["offload"][1]["reason"], "the accelerator has no NonZero");
  EXPECT_EQ(document["outputs"][0]["name"], "y");
  EXPECT_EQ(document["outputs"][0]["shape"], (nlohmann::json{1, 2}));
  EXPECT_EQ(document["outputs"][0]["file"], "out/y.npy");
  EXPECT_TRUE(document["outputs"][0]["alias"].is_null());
}

TEST(ReportTest, PeaksOfLiveBytesAreSaidWhereTheOrderMatters) {
  RunReport report = sampleReport();
  EXPECT_TRUE(nlohmann::json::parse(toJson(report, {}))["peak_live_bytes"].is_null());
  report.peak = {4096, 4096, 3072, 4096};
  EXPECT_EQ(tables(report).find("tensors between kernels"), std::string::npos);
  report.peak = {4096, 3072, 2048, 4096};
  EXPECT_NE(tables(report).find(
                "tensors between kernels: at most 4.0 KiB at once; in the model's order 4.0, with --order memory 3.0, "
                "no order has less than 2.0\n"),
            std::string::npos);
  const nlohmann::json peaks = nlohmann::json::parse(toJson(report, {}))["peak_live_bytes"];
  EXPECT_EQ(peaks["taken_order"], 4096);
  EXPECT_EQ(peaks["model_order"], 4096);
  EXPECT_EQ(peaks["memory_order"], 3072);
  EXPECT_EQ(peaks["lower_bound"], 2048);
}

TEST(ReportTest, JsonSurvivesNamesThatAreNoUtf8) {
  RunReport report = sampleReport();
  report.offload[0].node = "a\xff";
  report.comparisons.resize(1);
  report.comparisons[0].maxAbsError = std::numeric_limits<double>::infinity();
  nlohmann::json document = nlohmann::json::parse(toJson(report, {}));
  EXPECT_EQ(document["comparisons"][0]["max_abs_error"], "infinite");
  EXPECT_TRUE(document["outputs"][0]["file"].is_null());
}

TEST(ReportTest, TheFunctionalModelHasNoCycles) {
  RunReport report = sampleReport();
  report.sim.reset();
  report.simulator = Model::Functional;
  nlohmann::json document = nlohmann::json::parse(toJson(report, {}));
  EXPECT_FALSE(document.contains("total_cycles"));
  EXPECT_EQ(document["simulator"], "functional");
  EXPECT_EQ(tables(report).find("cycles ="), std::string::npos);
}

TEST(ReportTest, TablesStateBoundOffloadAndDenominator) {
  std::string text = tables(sampleReport());
  EXPECT_NE(text.find("128 cycles = 0.0003 ms at 500 MHz; utilisation 39.1 % (3,200 MACs / (64 MACs per cycle x cycles))"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("lower bound 64 cycles (array), reached 2.00x; layer by layer 70 (not a bound)"), std::string::npos)
      << text;
  EXPECT_NE(text.find("nodes: 1 on accelerator, 1 on cpu\n  NonZero_2 on cpu: the accelerator has no NonZero\n"),
            std::string::npos)
      << text;
}

TEST(ReportTest, SimulatedDramBytesStandBesideBoundsAndReference) {
  RunReport report = sampleReport();
  report.lowerBoundBytes = 1024;
  report.layerTraffic = {{1024, 1280, 1408, 1536}};
  EXPECT_NE(tables(report).find("DRAM 1.5 KiB; at least 1.0, layer by layer 1.2 (1.4 with a memory for each operand); schedule "
                                "reference 1.5 (not a bound)\n"),
            std::string::npos)
      << tables(report);
  nlohmann::json document = nlohmann::json::parse(toJson(report, {}));
  EXPECT_EQ(document["lower_bound_dram_bytes"], 1024);
  EXPECT_EQ(document["layer_serial_dram_bytes"], 1280);
  EXPECT_EQ(document["three_memory_dram_bytes"], 1408);
  EXPECT_EQ(document["schedule_reference_dram_bytes"], 1536);
  EXPECT_EQ(document["layers"][0]["compulsory_dram_bytes"], 1024);
  EXPECT_EQ(document["layers"][0]["unavoidable_dram_bytes"], 1280);
  EXPECT_EQ(document["layers"][0]["three_memory_dram_bytes"], 1408);
  EXPECT_EQ(document["layers"][0]["schedule_reference_dram_bytes"], 1536);
}

TEST(ReportTest, TheDataBusIsBusyForItsBytesOutsideRefresh) {
  RunReport report = sampleReport();
  report.machine.dram.bytesPerCycleNumerator = 32;
  // 2048 bytes, fetch included, of 32 * 128.
  EXPECT_DOUBLE_EQ(report.dataBusBusy(), 0.5);
  report.machine.dram.kind = timing::DramKind::Ddr4;
  report.machine.dram.burstBytes = 64;
  report.machine.dram.channels = 1;
  report.machine.dram.nBurst = 4;
  report.machine.dram.clockMhz = 1000; // 500 MHz: 32 bytes a cycle again
  report.machine.dram.nREFI = 1000;
  report.machine.dram.nRFC = 200;
  // 256 ticks: no refresh falls due.
  EXPECT_DOUBLE_EQ(report.dataBusBusy(), 0.5);
  EXPECT_NE(tables(report).find("DRAM data bus busy 50.0 % of the time outside refresh, 0.5 KiB of program included\n"),
            std::string::npos);
  // Three refreshes of 16 ticks, and one with 6 ticks of a second in the run.
  report.machine.dram.nREFI = 80;
  report.machine.dram.nRFC = 16;
  EXPECT_DOUBLE_EQ(report.dataBusBusy(), 0.5 / (1 - 48. / 256));
  report.machine.dram.nREFI = 125;
  EXPECT_DOUBLE_EQ(report.dataBusBusy(), 0.5 / (1 - (16. + 6) / 256));
}

// Layers do not fetch: their bytes add up to the total.
TEST(ReportTest, TheTotalOfDramBytesIsThatOfTheLayers) {
  std::string text = tables(sampleReport());
  EXPECT_NE(text.find("  1.5 ", text.find("\ntotal ")), std::string::npos) << text;
}

TEST(ReportTest, JsonHasTheMemoriesAndOverridesOfTheMachine) {
  RunReport report = sampleReport();
  report.machine.overrides = "dram.latency_cycles=100";
  report.machine.scratchpads = {{"activation", 4096, 4}, {"weight", 2048, 2}};
  report.machine.dram.latencyCycles = 100;
  nlohmann::json machine = nlohmann::json::parse(toJson(report, {}))["machine"];
  EXPECT_EQ(machine["overrides"], "dram.latency_cycles=100");
  EXPECT_EQ(machine["scratchpad_bytes"], 6144);
  EXPECT_EQ(machine["outstanding_bursts"], 16);
  EXPECT_EQ(machine["dram"]["ideal"], true);
  EXPECT_EQ(machine["dram"]["burst_bytes"], 64);
  EXPECT_EQ(machine["dram"]["peak_bytes_per_cycle"], 16.0);
  EXPECT_EQ(machine["dram"]["row_conflict_latency_cycles"], 104); // 64 / 16 cycles of transfer
  EXPECT_NE(tables(report).find("on small (dram.latency_cycles=100) ("), std::string::npos);
}

TEST(ReportTest, TilesStandWithTheirLayers) {
  RunReport report = sampleReport();
  EXPECT_TRUE(nlohmann::json::parse(toJson(report, {}))["layers"][0]["tile"].is_null());
  report.tiles = {{"tile 1 x 2 x 3 positions", 4096}};
  nlohmann::json layer = nlohmann::json::parse(toJson(report, {}))["layers"][0];
  EXPECT_EQ(layer["tile"], "tile 1 x 2 x 3 positions");
  EXPECT_EQ(layer["tile_bytes"], 4096);
}

// Two layers side by side: the row of the group spans both, and nothing is counted twice.
TEST(ReportTest, AFusionGroupIsOneRowThatOpensIntoItsMembers) {
  RunReport report = sampleReport();
  stats::LayerResult first = report.sim->layers[0], second = first;
  first.name = "expand";
  first.firstStart = 20, first.lastRetire = 70;
  first.critical = 60;
  second.name = "project";
  second.firstStart = 40, second.lastRetire = 120;
  second.critical = 68;
  report.sim->layers = {first, second};
  report.layers = {{"expand", {"a"}, 1600, 30, "array"}, {"project", {"b"}, 1600, 90, "dram"}};
  report.groups = {{0, 1}};
  const std::vector<LayerRow> rows = layerRows(report);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].name, "expand + project");
  EXPECT_EQ(rows[0].nodes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(rows[0].result.cycles(), 100u);
  EXPECT_EQ(rows[0].result.critical, 128u);
  EXPECT_EQ(rows[0].macs, 3200u);
  EXPECT_EQ(rows[0].result.labels[stats::kTensor][size_t(Label::Busy)], 120u);
  EXPECT_EQ(rows[0].boundCycles, 128u); // 2,048 bytes read
  EXPECT_EQ(rows[0].aloneCycles, 120u);
  ASSERT_EQ(rows[0].members.size(), 2u);
  EXPECT_EQ(rows[0].members[1].result.cycles(), 80u);
  EXPECT_EQ(rows[0].members[1].boundCycles, 64u);
  const std::string text = tables(report);
  EXPECT_NE(text.find("\nexpand + project"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  project"), std::string::npos) << text;
  nlohmann::json document = nlohmann::json::parse(toJson(report, {}));
  ASSERT_EQ(document["layers"].size(), 1u);
  EXPECT_EQ(document["layers"][0]["members"][0]["name"], "expand");
  EXPECT_TRUE(document["layers"][0]["tile"].is_null());
}

TEST(ReportTest, WhatBelongsToNoLayerHasARow) {
  RunReport report = sampleReport();
  report.sim->noLayer.instructions = 1;
  report.sim->noLayer.lastRetire = 7;
  const std::vector<LayerRow> rows = layerRows(report);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].name, "(no layer)");
  EXPECT_EQ(rows[1].result.cycles(), 7u);
}

// The RTL counts labels of engines alone: nothing is made up for its layers.
TEST(ReportTest, WhatAModelDoesNotNoteIsNotReported) {
  RunReport report = sampleReport();
  report.sim->hasLayerCauses = false;
  const nlohmann::json layer = nlohmann::json::parse(toJson(report, {}))["layers"][0];
  EXPECT_TRUE(layer["critical_cycles"].is_null());
  EXPECT_TRUE(layer["bound_cycles"].is_null());
  EXPECT_TRUE(layer["engines"].is_null());
  EXPECT_EQ(layer["cycles"], 100);
  EXPECT_EQ(tables(report).find("busy cycles"), std::string::npos);
}

TEST(ReportTest, ANetworkThatRunsNowhereOnTheAcceleratorSaysSo) {
  RunReport report = sampleReport();
  report.programs = 0;
  report.sim.reset();
  report.layers.clear();
  report.fallback.kernels = 1;
  report.fallback.devices = {"this CPU"};
  report.offload = {{"NonZero_2", "cpu", "the accelerator has no NonZero", true}, {"Shape_1", "folded", "constant"}};
  const std::string text = tables(report);
  EXPECT_NE(
      text.find(
          "nothing runs on the accelerator\nnodes: 1 on cpu, 1 folded\n  NonZero_2 on cpu: the accelerator has no NonZero\n"),
      std::string::npos)
      << text;
  EXPECT_EQ(text.find("cycles"), std::string::npos) << text;
  EXPECT_NE(text.find("nothing simulated"), std::string::npos) << text;
}

TEST(ReportTest, ProgramsThatFollowOneAnotherAddUp) {
  stats::SimResult all = *sampleReport().sim, next = all;
  next.layers[0].firstStart = 5;
  next.layers[0].critical = 100;
  next.layers[0].lastRetire = 90;
  next.engines[0].causes.push_back({Label::Operand, 4, stats::kFirstLoad, 7});
  append(all, next);
  EXPECT_EQ(all.totalCycles, 256u);
  EXPECT_EQ(all.dramReadBytes, 2048u);
  ASSERT_EQ(all.layers.size(), 2u);
  EXPECT_EQ(all.layers[1].firstStart, 133u);
  EXPECT_EQ(all.layers[1].lastRetire, 218u);
  EXPECT_EQ(all.layers[1].cycles(), 85u);
  EXPECT_EQ(all.layers[1].critical, 100u);
  EXPECT_EQ(all.engines[0].instructions, 6u);
  uint64_t sum = 0;
  for (stats::Cycle cycles : all.engines[0].cycles)
    sum += cycles;
  EXPECT_EQ(sum, all.totalCycles);
  ASSERT_EQ(all.engines[0].causes.size(), 2u);
  EXPECT_EQ(all.engines[0].causes[0].cycles, 80u);
  EXPECT_EQ(all.engines[0].causes[1].cycles, 7u);
}

TEST(ReportTest, TableAlignsNumbersToTheRight) {
  Table table({"name", "cycles", "why"}, 1);
  table.add({"a", "5", "x"});
  table.rule();
  table.add({"total", "1,234", "longer"});
  EXPECT_EQ(table.str(), "name   cycles  why\n"
                         "---------------------\n"
                         "a           5  x\n"
                         "---------------------\n"
                         "total   1,234  longer\n");
}

TEST(ReportTest, NumbersAreGroupedByThrees) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
}
