//===- ReportRulesTest.cpp - What every report must fulfil ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reports that are wrong, each in one number: each must be found.
//===----------------------------------------------------------------------===//
#include "runtime/ReportRules.h"

#include <functional>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace tw::runtime;
using json = nlohmann::json;

namespace {

json layer(const std::string &name, uint64_t first, uint64_t last, uint64_t busy, uint64_t critical) {
  return {
      {"name", name},
      {"cycles", last - first},
      {"first_start_cycle", first},
      {"last_retirement_cycle", last},
      {"critical_cycles", critical},
      {"instructions", 2},
      {"macs", 64 * busy},
      {"vector_macs", 0},
      {"utilisation", double(busy) / double(last - first)},
      {"bound_cycles", busy},
      {"dram_bytes", 96},
      {"dram_read_bytes", 64},
      {"dram_write_bytes", 32},
      {"engines", {{{"name", "tensor"}, {"busy_cycles", busy}, {"stalls", {{"operand_cycles", 5}, {"starved_cycles", 0}}}}}},
      {"members", json::array()}};
}

json joules(const std::string &name, double array, double leakage) {
  return {{"name", name}, {"joules", array + leakage}, {"components", {{"array_macs", array}, {"leakage", leakage}}}};
}

/// 7 uJ of the array and 3 uJ of leakage: the bursts are those of soundReport().
json soundEnergy() {
  return {{"total_joules", 10e-6},
          {"average_watts", 100.0},
          {"components", {{"array_macs", 7e-6}, {"leakage", 3e-6}}},
          {"standing_joules", 3e-6},
          {"engines", {joules("tensor", 7e-6, 0)}},
          {"layers", {joules("a", 4e-6, 1e-6), joules("b", 3e-6, 1.5e-6)}},
          {"no_layer", joules("", 0, 0.5e-6)},
          {"events", {{"dram_read_bursts", 6}, {"dram_write_bursts", 3}, {"dram_fetch_bursts", 2}}}};
}

/// Two layers, and a group of two.
json soundReport() {
  json first = layer("a", 10, 60, 20, 40), group = layer("b + c", 40, 90, 40, 60);
  json b = layer("b", 40, 80, 30, 60), c = layer("c", 50, 90, 10, 0);
  group["dram_bytes"] = 192, group["dram_read_bytes"] = 128, group["dram_write_bytes"] = 64, group["instructions"] = 4;
  group["engines"][0]["stalls"]["operand_cycles"] = 10;
  group["members"] = {b, c};
  const double utilisation = 64 * 60 / (64. * 100);
  return {{"machine",
           {{"peak_macs_per_cycle", 64},
            {"write_buffer_bursts", 2},
            {"dram", {{"burst_bytes", 32}, {"peak_bytes_per_cycle", 16.0}}}}},
          {"total_cycles", 100},
          {"total_milliseconds", 1e-4},
          {"fetch_bytes", 64},
          {"energy", soundEnergy()},
          {"utilisation", utilisation},
          {"macs", 64 * 60},
          {"lower_bound_cycles", 50},
          {"instructions", 6},
          {"dram_read_bytes", 192},
          {"dram_write_bytes", 96},
          {"engines",
           {{{"name", "tensor"},
             {"busy_cycles", 60},
             {"idle_cycles", 20},
             {"stalls", {{"operand_cycles", 15}, {"starved_cycles", 5}}}}}},
          {"layers", {first, group}},
          {"targets", {"accelerator", "cpu"}},
          {"offload",
           {{{"node", "n"}, {"target", "accelerator"}, {"reason", "layer a"}, {"host_link_bytes", 0}},
            {{"node", "m"}, {"target", "cpu"}, {"reason", "no engine"}, {"host_link_bytes", 64}}}},
          {"fallback",
           {{"kernels", 1},
            {"estimated_host_cycles", 7},
            {"crossings", 2},
            {"host_link_bytes", 64},
            {"estimated_link_cycles", 20},
            {"estimated_total_cycles", 127}}}};
}

} // namespace

TEST(ReportRulesTest, ASoundReportHasNoContradiction) {
  EXPECT_EQ(contradictions(soundReport().dump()), std::vector<std::string>());
}

TEST(ReportRulesTest, EveryWrongNumberIsFound) {
  const std::pair<const char *, std::function<void(json &)>> wrongs[] = {
      {"/layers/0/cycles", [](json &r) { r["layers"][0]["cycles"] = 0; }},
      {"/layers/0/utilisation", [](json &r) { r["layers"][0]["utilisation"] = 8.38; }},
      {"/layers/0/macs", [](json &r) { r["layers"][0]["macs"] = 64 * 21; }},
      {"/layers/0/bound above cycles", [](json &r) { r["layers"][0]["bound_cycles"] = 51; }},
      {"/layers/0/bound below an engine", [](json &r) { r["layers"][0]["bound_cycles"] = 19; }},
      {"/layers/0/bytes of the bus",
       [](json &r) { r["layers"][0]["dram_read_bytes"] = 16 * 21, r["layers"][0]["dram_bytes"] = 16 * 21 + 32; }},
      {"/layers/0/dram_bytes", [](json &r) { r["layers"][0]["dram_bytes"] = 97; }},
      {"/layers/0/critical_cycles", [](json &r) { r["layers"][0]["critical_cycles"] = 39; }},
      {"/layers/0/busy_cycles", [](json &r) { r["layers"][0]["engines"][0]["busy_cycles"] = 19; }},
      {"/layers/0/stalls", [](json &r) { r["layers"][0]["engines"][0]["stalls"]["operand_cycles"] = 6; }},
      {"/layers/0/instructions", [](json &r) { r["layers"][0]["instructions"] = 3; }},
      {"a row behind the end", [](json &r) { r["total_cycles"] = 80; }},
      {"/layers/1/members/1/critical_cycles", [](json &r) { r["layers"][1]["members"][1]["critical_cycles"] = 1; }},
      {"/layers/1/first_start_cycle", [](json &r) { r["layers"][1]["first_start_cycle"] = 39, r["layers"][1]["cycles"] = 51; }},
      {"/layers/1/members/0/stalls",
       [](json &r) { r["layers"][1]["members"][0]["engines"][0]["stalls"]["operand_cycles"] = 4; }},
      {"/engines/0/idle_cycles", [](json &r) { r["engines"][0]["idle_cycles"] = 21; }},
      {"/engines/0/busy_cycles", [](json &r) { r["engines"][0]["busy_cycles"] = 59, r["engines"][0]["idle_cycles"] = 21; }},
      {"/dram_read_bytes", [](json &r) { r["dram_read_bytes"] = 128; }},
      {"/dram_write_bytes", [](json &r) { r["dram_write_bytes"] = 64; }},
      {"/macs", [](json &r) { r["macs"] = 64 * 61, r["utilisation"] = 0.61; }},
      {"/utilisation", [](json &r) { r["utilisation"] = 1.01; }},
      {"/instructions", [](json &r) { r["instructions"] = 5; }},
      {"/lower_bound_cycles", [](json &r) { r["lower_bound_cycles"] = 101; }},
      {"/energy/total_joules", [](json &r) { r["energy"]["total_joules"] = 11e-6, r["energy"]["average_watts"] = 110.0; }},
      {"/energy/average_watts", [](json &r) { r["energy"]["average_watts"] = 99.0; }},
      {"/energy/components", [](json &r) { r["energy"]["components"]["leakage"] = 2e-6; }},
      {"/energy/components below 0",
       [](json &r) {
         r["energy"]["components"] = {{"array_macs", 11e-6}, {"leakage", -1e-6}};
       }},
      {"/energy/standing_joules", [](json &r) { r["energy"]["standing_joules"] = 2e-6; }},
      {"/energy/engines/0", [](json &r) { r["energy"]["engines"][0] = joules("tensor", 6e-6, 0); }},
      {"/energy/engines/0/components", [](json &r) { r["energy"]["engines"][0]["components"]["leakage"] = 1e-6; }},
      {"/energy/layers/1", [](json &r) { r["energy"]["layers"][1] = joules("b", 3e-6, 1e-6); }},
      {"/energy/no_layer", [](json &r) { r["energy"]["no_layer"]["joules"] = 0.0; }},
      {"/energy/events/dram_read_bursts", [](json &r) { r["energy"]["events"]["dram_read_bursts"] = 7; }},
      {"/energy/events/dram_fetch_bursts", [](json &r) { r["energy"]["events"]["dram_fetch_bursts"] = 1; }},
      {"/offload/0/target", [](json &r) { r["offload"][0]["target"] = "nowhere"; }},
      {"/offload/0/reason", [](json &r) { r["offload"][0]["reason"] = ""; }},
      {"/offload/1/host_link_bytes", [](json &r) { r["offload"][1]["host_link_bytes"] = 65; }},
      {"/fallback/kernels", [](json &r) { r["fallback"]["kernels"] = 0; }},
      {"/fallback/crossings", [](json &r) { r["fallback"]["crossings"] = 0; }},
      {"/fallback/estimated_host_cycles", [](json &r) { r["fallback"]["estimated_host_cycles"] = 8; }},
      {"/fallback/estimated_total_cycles", [](json &r) { r["fallback"]["estimated_total_cycles"] = 126; }},
  };
  for (const auto &[what, change] : wrongs) {
    json report = soundReport();
    change(report);
    EXPECT_FALSE(contradictions(report.dump()).empty()) << what;
  }
}

// Models that note no causes have rows without them, and the functional model has no cycles.
TEST(ReportRulesTest, WhatIsNotThereBreaksNoRule) {
  json report = soundReport();
  for (json *row :
       {&report["layers"][0], &report["layers"][1], &report["layers"][1]["members"][0], &report["layers"][1]["members"][1]})
    (*row)["critical_cycles"] = (*row)["bound_cycles"] = (*row)["engines"] = nullptr;
  EXPECT_EQ(contradictions(report.dump()), std::vector<std::string>());
  report.erase("total_cycles");
  EXPECT_EQ(contradictions(report.dump()), std::vector<std::string>());
}
