//===- RandomKernelTest.cpp - Operators of one layer ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products and convolutions of random sizes on all shipped machines, also
// with changes that move what limits a layer, under all schedules: what is
// reported of them holds together.
//===----------------------------------------------------------------------===//
#include "runtime/ReportRules.h"
#include "runtime/Session.h"
#include "tests/fuzz/Seed.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace tw;
using namespace tw::fuzz;
using runtime::StatusOr;

namespace {

struct Machine {
  const char *name, *type;
};
constexpr Machine kMachines[] = {{"tiny_8x8", "int8"},           {"vdla_16x16", "int8"},         {"gemmini_16x16_int8", "int8"},
                                 {"edge_32x32_int8", "int8"},    {"onnxim_128x128", "int8"},     {"onnxim_16x16_16b", "int8"},
                                 {"gemmini_16x16_bf16", "bf16"}, {"gemmini_16x16_fp32", "fp32"}, {"edge_32x32_bf16", "bf16"},
                                 {"cloud_128x128", "bf16"}};
/// What moves the limit of a layer. With two rows the vector engine multiplies more in a cycle than the array.
const std::vector<std::string> kChanges[] = {
    {},
    {"dram.path_latency_cycles=300"},
    {"dma.load_engines=1"},
    {"dma.outstanding_bursts=4"},
    {"dram.write_buffer_bursts=4", "dram.write_high_watermark_bursts=3", "dram.write_low_watermark_bursts=1"},
    {"array.rows=2", "array.preload_rows_per_cycle=1"}};

class Maker {
public:
  explicit Maker(uint64_t seed) : random(seed) {}
  int64_t from(int64_t low, int64_t high) { return low + int64_t(random() % uint64_t(high - low + 1)); }
  /// Small sizes as often as large ones.
  int64_t size(int64_t most) { return from(1, int64_t(1) << from(0, int64_t(std::log2(double(most))))); }

  std::string kernel(const std::string &type) {
    if (from(0, 1))
      return "gemm:" + std::to_string(size(256)) + "x" + std::to_string(size(256)) + "x" + std::to_string(size(256)) + ":" +
             type;
    const int64_t height = size(32), width = size(32), rows = from(1, std::min<int64_t>(7, height)),
                  columns = from(1, std::min<int64_t>(7, width));
    const int64_t channels = size(64);
    const bool isDepthwise = from(0, 2) == 0;
    return "conv:" + std::to_string(from(1, 2)) + "x" + std::to_string(height) + "x" + std::to_string(width) + "x" +
           std::to_string(channels) + ":" + std::to_string(rows) + "x" + std::to_string(columns) + "x" +
           std::to_string(isDepthwise ? channels : size(64)) + ":s" + std::to_string(from(1, 3)) + ":p" +
           std::to_string(from(0, std::min(rows, columns) - 1)) + (isDepthwise ? ":g" + std::to_string(channels) : "") + ":" +
           type;
  }

private:
  std::mt19937_64 random;
};

} // namespace

TEST(RandomKernelTest, ReportsHoldTogether) {
  const uint64_t first = firstSeed(), cases = numCases(20);
  uint64_t refused = 0, checked = 0;
  printf("TILEWRIGHT_SEED=%llu, %llu cases\n", (unsigned long long)first, (unsigned long long)cases);
  for (uint64_t seed = first; seed < first + cases; ++seed) {
    Maker maker(seed);
    const Machine &machine = kMachines[maker.from(0, std::size(kMachines) - 1)];
    const std::string kernel = maker.kernel(machine.type);
    runtime::SessionOptions options;
    options.network.machine = machine.name;
    options.network.overrides = kChanges[maker.from(0, std::size(kChanges) - 1)];
    options.network.searchBudget = 4;
    bool ran = false;
    for (const std::string &schedule : runtime::scheduleNames()) {
      options.network.schedule = schedule;
      SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed) + " TILEWRIGHT_FUZZ_CASES=1: " + kernel + " on " + machine.name +
                   (options.network.overrides.empty() ? "" : " --set " + options.network.overrides.front()) + ", " + schedule);
      StatusOr<std::unique_ptr<runtime::Session>> session = runtime::Session::create(kernel, options);
      if (!session) {
        EXPECT_EQ(session.error().kind, runtime::ErrorKind::User) << session.error().message;
        continue;
      }
      StatusOr<runtime::RunReport> report = (*session)->run((*session)->randomInputs(seed));
      ASSERT_TRUE(bool(report)) << report.error().message;
      ran = true;
      ++checked;
      EXPECT_EQ(runtime::contradictions(runtime::toJson(*report, {})), std::vector<std::string>());
      // Alone, a layer is the whole program: the critical path never leaves it, and nothing beats its bound from DRAM to DRAM.
      const std::vector<runtime::LayerRow> rows = runtime::layerRows(*report);
      ASSERT_EQ(rows.size(), 1u);
      EXPECT_EQ(rows[0].result.critical, report->sim->totalCycles);
      EXPECT_LE(rows[0].aloneCycles, report->sim->totalCycles);
    }
    refused += !ran;
  }
  printf("%llu kernels ran, %llu do not fit their machine; %llu reports checked\n", (unsigned long long)(cases - refused),
         (unsigned long long)refused, (unsigned long long)checked);
  if (cases >= 10)
    EXPECT_LT(refused, cases / 4);
}
