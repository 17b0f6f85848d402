//===- SessionTest.cpp - Compile once, run many inputs --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Session.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>

using namespace tw;
using namespace tw::runtime;

namespace {

/// A report that breaks a rule of docs/profile.md is an internal error.
[[maybe_unused]] const int checksReports = setenv("TILEWRIGHT_CHECK_REPORTS", "1", 1);

std::unique_ptr<Session> session(const std::string &model, const std::string &machine, Model simulator = Model::SystemC,
                                 const std::string &schedule = "double_buffer") {
  SessionOptions options;
  options.network.machine = machine;
  options.network.schedule = schedule;
  options.simulator.model = simulator;
  StatusOr<std::unique_ptr<Session>> result = Session::create(model, options);
  EXPECT_TRUE(bool(result)) << (result ? "" : result.error().message);
  return result ? std::move(*result) : nullptr;
}

std::string error(const std::string &model, const NetworkOptions &options) {
  StatusOr<std::unique_ptr<Session>> result = Session::create(model, {options, {}});
  if (result)
    return "good";
  EXPECT_EQ(result.error().kind, ErrorKind::User);
  return result.error().message;
}

/// sat(rne(fp32(sum) * m)) of int8 matrices, straight from the definition of requantisation. x: [M, K], w: [K, N].
std::vector<int8_t> gemm(const HostTensor &x, const HostTensor &w, int64_t m, int64_t n, int64_t k, float multiplier) {
  const int8_t *a = reinterpret_cast<const int8_t *>(x.bytes.data()), *b = reinterpret_cast<const int8_t *>(w.bytes.data());
  std::vector<int8_t> y;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      int32_t sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += int32_t(a[i * k + l]) * b[l * n + j];
      float scaled = std::nearbyint(float(sum) * multiplier);
      y.push_back(int8_t(std::min(127.f, std::max(-128.f, scaled))));
    }
  return y;
}

} // namespace

TEST(SessionTest, AGemmGivesWhatItsDefinitionSays) {
  constexpr int64_t m = 19, n = 21, k = 40;
  // As InlineKernel.h promises: weights are the random tensor of the seed, the multiplier a third of 127 over the expected deviation.
  HostTensor w = randomTensor({"w", ElementKind::I8, {k, n}}, 1);
  float multiplier = float(127.0 / 3 / (5461.25 * std::sqrt(double(k))));
  for (Model model : {Model::SystemC, Model::Functional})
    for (const std::string &schedule : scheduleNames()) {
      std::unique_ptr<Session> gemmSession = session("gemm:19x21x40:int8", "tiny_8x8", model, schedule);
      ASSERT_TRUE(gemmSession);
      for (uint64_t seed : {5, 6}) {
        std::vector<HostTensor> inputs = gemmSession->randomInputs(seed);
        StatusOr<RunReport> report = gemmSession->run(inputs);
        ASSERT_TRUE(report) << report.error().message;
        std::vector<int8_t> expected = gemm(inputs[0], w, m, n, k, multiplier);
        ASSERT_EQ(report->outputs[0].bytes.size(), expected.size());
        EXPECT_EQ(std::memcmp(report->outputs[0].bytes.data(), expected.data(), expected.size()), 0)
            << schedule << " " << modelName(model);
        EXPECT_EQ(report->macs, uint64_t(m * n * k));
        if (model == Model::SystemC) {
          ASSERT_TRUE(report->sim);
          EXPECT_GE(report->sim->totalCycles, *report->lowerBoundCycles);
        }
      }
    }
}

TEST(SessionTest, CyclesDoNotDependOnValues) {
  std::unique_ptr<Session> conv = session("conv:1x10x10x8:3x3x16:s1:p1:int8", "tiny_8x8");
  ASSERT_TRUE(conv);
  StatusOr<RunReport> one = conv->run(conv->randomInputs(1)), two = conv->run(conv->randomInputs(2));
  ASSERT_TRUE(one);
  ASSERT_TRUE(two);
  EXPECT_NE(one->outputs[0].bytes, two->outputs[0].bytes);
  EXPECT_EQ(one->sim->totalCycles, two->sim->totalCycles);
}

TEST(SessionTest, InputsAreChecked) {
  std::unique_ptr<Session> gemmSession = session("gemm:8x8x8:int8", "tiny_8x8", Model::Functional);
  ASSERT_TRUE(gemmSession);
  StatusOr<RunReport> none = gemmSession->run({});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "0 inputs given but the network takes 1");
  StatusOr<RunReport> wrong = gemmSession->run({{"x", ElementKind::I8, {8, 9}, std::vector<uint8_t>(72)}});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "input 'x' is int8 [8x9] but must be int8 [8x8]");
}

TEST(SessionTest, ASearchIsNeverSlowerThanWhereItBegins) {
  auto cycles = [](unsigned budget) {
    SessionOptions options;
    options.network.machine = "tiny_8x8";
    options.network.schedule = "search";
    options.network.searchBudget = budget;
    StatusOr<std::unique_ptr<Session>> created = Session::create("gemm:40x48x56:int8", options);
    EXPECT_TRUE(bool(created));
    StatusOr<RunReport> report = (*created)->run((*created)->randomInputs(1));
    EXPECT_TRUE(bool(report));
    return report->sim->totalCycles;
  };
  const uint64_t first = cycles(1), best = cycles(12);
  EXPECT_LE(best, first);
  EXPECT_EQ(cycles(12), best) << "the same search finds the same program";
}

TEST(SessionTest, WhatCannotBeLoadedIsRefused) {
  NetworkOptions tiny;
  tiny.machine = "tiny_8x8";
  EXPECT_EQ(error("gemm:8x8x8:fp32", tiny),
            "kernel 'gemm:8x8x8:fp32' is fp32 but the array of machine 'tiny_8x8' multiplies int8");
  EXPECT_EQ(error("none.onnx", tiny),
            "cannot open 'none.onnx': no such file, and no inline kernel (gemm:MxNxK:TYPE, conv:...)");
  EXPECT_EQ(error("gemm:8x8x8:int8", {}),
            "a machine is needed to compile gemm:8x8x8:int8: give one with --hw (see 'tilewright hw list')");
  tiny.schedule = "best";
  EXPECT_EQ(error("gemm:8x8x8:int8", tiny),
            "schedule is 'best' but must be one of serial, double_buffer, pipelined, search, or a plan file (.mlir)");
}
