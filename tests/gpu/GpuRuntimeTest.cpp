//===- GpuRuntimeTest.cpp - Choices, reports and files of GPU programs ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The runtime with a driver that has no device: it counts, and says the times
// that a test wants.
//===----------------------------------------------------------------------===//
#include "runtime/gpu/Choice.h"
#include "runtime/gpu/GpuNetwork.h"
#include "runtime/gpu/JsonReader.h"
#include "tests/gpu/Tolerances.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

using namespace tw::runtime;
using namespace tw::runtime::gpu;
using tw::gpu::ChosenBy;
using tw::gpu::Program;
using tw::gpu::Step;
using tw::gpu::Variant;

namespace {

class FakeDriver : public Driver {
public:
  std::string device = "a GPU";
  int version = 13000;
  /// Microseconds of a launch, and bytes of local memory, by the number of its kernel.
  std::vector<double> microseconds;
  std::vector<int> localBytes;
  unsigned measurements = 0;

  std::string name() const override { return device; }
  int capability = 90;
  uint32_t mostShared = 232448;
  int computeCapability() const override { return capability; }
  uint32_t sharedBytes() const override { return mostShared; }
  int driverVersion() const override { return version; }
  int multiprocessors() const override { return 132; }
  StatusOr<uint64_t> allocate(uint64_t) override { return uint64_t(4096); }
  void free(uint64_t) override {}
  Status copyIn(uint64_t, const void *, uint64_t) override { return {}; }
  Status copyOut(void *, uint64_t, uint64_t) override { return {}; }
  StatusOr<std::vector<uint8_t>> assemble(const std::string &ptx) override {
    return std::vector<uint8_t>{uint8_t(std::stoi(ptx))};
  }
  StatusOr<Function> load(const std::vector<uint8_t> &code, const std::string &, uint32_t) override {
    return Function{nullptr, 100, localBytes.at(code[0])};
  }
  StatusOr<EncodedMap> encode(const tw::gpu::TensorMap &, uint64_t) override { return EncodedMap(); }
  Status launch(const Function &, const tw::gpu::Launch &launch, void **) override {
    recorded += microseconds.at(launch.kernel);
    return {};
  }
  Status synchronize() override { return {}; }
  StatusOr<void *> capture(const std::function<Status()> &record) override {
    recorded = 0;
    if (Status status = record(); !status)
      return status.error();
    graphs.push_back(recorded);
    return reinterpret_cast<void *>(graphs.size());
  }
  Status replay(void *graph) override {
    replayed = graphs.at(reinterpret_cast<size_t>(graph) - 1);
    return {};
  }
  StatusOr<double> measure(const std::function<Status()> &work) override {
    ++measurements;
    if (Status status = work(); !status)
      return status.error();
    return replayed * 1e-6;
  }

private:
  double recorded = 0, replayed = 0;
  std::vector<double> graphs;
};

Variant variantOf(const std::string &name, double estimate, uint32_t kernel) {
  Variant variant;
  variant.name = name;
  variant.microseconds = estimate;
  variant.launches.resize(1);
  variant.launches[0].kernel = kernel;
  return variant;
}

/// A product of three variants, and a step that has one.
Program makeProgram() {
  Program program;
  for (int i = 0; i < 4; ++i)
    program.kernels.push_back({"kernel", std::to_string(i), ""});
  Step product;
  product.name = "product";
  product.nodes = {"MatMul_0"};
  product.kind = "matrix product";
  product.variants = {variantOf("128x256", 10, 0), variantOf("128x128", 11, 1), variantOf("64x64", 12, 2)};
  Step rows;
  rows.name = "softmax";
  rows.kind = "rows";
  rows.why = "sums of rows";
  rows.variants = {variantOf("warp for each row", 3, 3)};
  program.steps = {product, rows};
  program.arenaBytes = 256;
  return program;
}

class GpuRuntimeTest : public testing::Test {
protected:
  void SetUp() override {
    folder = testing::TempDir() + "gpu-runtime-" + std::to_string(getpid());
    std::filesystem::create_directories(folder);
    options.choiceFile = folder + "/choice.json";
    driver->microseconds = {9, 5, 7, 2};
    driver->localBytes = {0, 0, 0, 0};
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::unique_ptr<GpuNetwork> load() {
    driver->measurements = 0;
    auto network = GpuNetwork::load(makeProgram(), driver, options);
    EXPECT_TRUE(bool(network)) << (network ? "" : network.error().message);
    return network ? std::move(*network) : nullptr;
  }
  static std::string chosen(const GpuNetwork &network) {
    const Step &step = network.program().steps[0];
    return step.variants[step.chosen].name;
  }

  std::string folder;
  std::shared_ptr<FakeDriver> driver = std::make_shared<FakeDriver>();
  GpuNetworkOptions options;
};

TEST_F(GpuRuntimeTest, TheFastestVariantIsTaken) {
  auto network = load();
  EXPECT_EQ(chosen(*network), "128x128");
  EXPECT_EQ(reasonOf(network->program().steps[0]), "fastest of 3");
  EXPECT_EQ(reasonOf(network->program().steps[1]), "the only variant");
  EXPECT_NEAR(network->program().steps[0].variants[2].measured, 7, 1e-9);
  EXPECT_NEAR(*network->run(), 7e-6, 1e-12); // 5 and 2
}

TEST_F(GpuRuntimeTest, ADeviceThatTheCodeIsNotForIsRefused) {
  using tw::gpu::Architecture;
  struct Case {
    Architecture architecture;
    int capability;
    const char *why;
  };
  for (const Case &each :
       {Case{Architecture::Sm80, 75, "it is sm_75, but kernels are for sm_80 and later"},
        Case{Architecture::Sm90a, 80, "it is sm_80, but kernels are for sm_90a"},
        Case{Architecture::Sm90a, 100, "it is sm_100, but kernels are for sm_90a"}, Case{Architecture::Sm80, 80, ""},
        Case{Architecture::Sm80, 89, ""}, Case{Architecture::Sm80, 90, ""}, Case{Architecture::Sm90a, 90, ""}}) {
    Program program = makeProgram();
    program.architecture = each.architecture;
    driver->capability = each.capability;
    auto network = GpuNetwork::load(std::move(program), driver, options);
    if (!*each.why) {
      EXPECT_TRUE(bool(network));
      continue;
    }
    ASSERT_FALSE(bool(network));
    EXPECT_EQ(network.error().message, std::string("no GPU here that the program is for: of a GPU, ") + each.why);
  }
}

TEST_F(GpuRuntimeTest, VariantsThatTakeTooMuchSharedMemoryAreLeftOut) {
  driver->mostShared = 101376;
  Program program = makeProgram();
  program.steps[0].variants[1].launches[0].sharedBytes = 147456; // the fastest
  auto network = GpuNetwork::load(program, driver, options);
  ASSERT_TRUE(bool(network));
  EXPECT_EQ(chosen(**network), "64x64");
  for (Variant &variant : program.steps[0].variants)
    variant.launches[0].sharedBytes = 147456;
  network = GpuNetwork::load(program, driver, options);
  ASSERT_FALSE(bool(network));
  EXPECT_EQ(network.error().message,
            "step 'product' takes 147456 bytes of shared memory, but a block of a GPU has at most 101376");
}

TEST_F(GpuRuntimeTest, AVariantThatSpillsIsNotTaken) {
  driver->localBytes[1] = 16;
  EXPECT_EQ(chosen(*load()), "64x64");
}

TEST_F(GpuRuntimeTest, UntimedTheLeastEstimateIsTaken) {
  options.chooses = false;
  auto network = load();
  EXPECT_EQ(chosen(*network), "128x256");
  EXPECT_EQ(reasonOf(network->program().steps[0]), "least estimate of 3, not timed");
  EXPECT_EQ(driver->measurements, 0u);
}

TEST_F(GpuRuntimeTest, AStoredChoiceIsTakenUntimed) {
  options.savesChoice = true;
  load();
  EXPECT_GT(driver->measurements, 0u);
  options.savesChoice = false;
  driver->microseconds = {1, 5, 7, 2}; // would change the choice
  auto network = load();
  EXPECT_EQ(driver->measurements, 0u);
  EXPECT_EQ(chosen(*network), "128x128");
  EXPECT_EQ(reasonOf(network->program().steps[0]), "fastest of 3 in an earlier run");
  EXPECT_NEAR(network->program().steps[0].variants[1].measured, 5, 1e-9);
  EXPECT_TRUE(network->notes().empty());
}

TEST_F(GpuRuntimeTest, SavingTimesAgain) {
  options.savesChoice = true;
  load();
  driver->microseconds = {1, 5, 7, 2};
  EXPECT_EQ(chosen(*load()), "128x256");
  options.savesChoice = false;
  EXPECT_EQ(chosen(*load()), "128x256");
  EXPECT_EQ(driver->measurements, 0u);
}

TEST_F(GpuRuntimeTest, AChoiceOfAnotherDeviceDriverOrProgramIsNotTaken) {
  options.savesChoice = true;
  load();
  options.savesChoice = false;
  driver->microseconds = {1, 5, 7, 2};
  auto isTimed = [&](const std::string &note) {
    auto network = load();
    EXPECT_EQ(chosen(*network), "128x256");
    ASSERT_EQ(network->notes().size(), 1u);
    EXPECT_EQ(network->notes()[0], options.choiceFile + ": " + note + "; variants are timed");
  };
  driver->device = "another GPU";
  isTimed("it is for device 'a GPU' but this is 'another GPU'");
  driver->device = "a GPU";
  driver->version = 14000;
  isTimed("it is for driver 13000 but this is 14000");
  driver->version = 13000;
  StatusOr<Choice> choice = readChoice(options.choiceFile);
  ASSERT_TRUE(bool(choice));
  choice->key.program ^= 1;
  std::ofstream(options.choiceFile) << toJson(*choice);
  isTimed("it is for another program");
}

TEST_F(GpuRuntimeTest, AChoiceFileThatIsWrongIsRefusedWithThePlace) {
  auto refused = [&](const std::string &text, const std::string &message) {
    std::ofstream(options.choiceFile) << text;
    auto network = GpuNetwork::load(makeProgram(), driver, options);
    ASSERT_FALSE(bool(network));
    EXPECT_EQ(network.error().message, options.choiceFile + ": " + message);
  };
  const std::string head = R"({"version": 1, "device": "a GPU", "driver": 13000, "program": "0123456789abcdef", )";
  refused("{\n  \"version\" 1}", "line 2, column 13: this is no JSON");
  refused("[]", "the document is [] but must be an object");
  refused(R"({"version": 2})", "version is 2 but must be 1");
  refused(R"({"version": 1, "device": 7})", "device is 7 but must be a text");
  refused(R"({"version": 1})", "device is missing");
  refused(R"({"version": 1, "device": "", "driver": 1, "program": "12"})",
          "'program' is \"12\" but must be 16 hexadecimal digits");
  refused(head + R"("steps": [{"name": "a", "chosen": 1, "variants": [{"name": "v", "measured_us": 1}]}]})",
          "steps[0].chosen is 1 but must be 0");
  refused(head + R"("steps": [{"name": "a", "chosen": 0, "variants": [{"name": "v", "measured_us": -1}]}]})",
          "steps[0].variants[0].measured_us is -1 but must be a number of at least 0");
  refused(head + R"("steps": [{"name": "a", "chosen": 0, "variants": []}]})",
          "'steps[0].variants' is empty but must have one entry at least");
}

TEST_F(GpuRuntimeTest, TheReportSaysForEveryStepWhichVariantRunsAndWhy) {
  auto network = load();
  const Json report = Json::parse(reportJson(network->program(), {"a GPU", 13000, 7e-6}));
  EXPECT_EQ(report["device"], "a GPU");
  EXPECT_EQ(report["driver"], 13000);
  EXPECT_NEAR(report["network_us"].get<double>(), 7, 1e-9);
  ASSERT_EQ(report["steps"].size(), 2u);
  const Json &product = report["steps"][0];
  EXPECT_EQ(product["kind"], "matrix product");
  EXPECT_EQ(product["nodes"], Json::array({"MatMul_0"}));
  EXPECT_EQ(product["variant"], "128x128");
  EXPECT_EQ(product["why_variant"], "fastest of 3");
  ASSERT_EQ(product["variants"].size(), 3u);
  EXPECT_NEAR(product["variants"][0]["estimate_us"].get<double>(), 10, 1e-9);
  EXPECT_NEAR(product["variants"][0]["measured_us"].get<double>(), 9, 1e-9);
  EXPECT_EQ(report["steps"][1]["why_kind"], "sums of rows");
}

TEST_F(GpuRuntimeTest, AReportWithoutADeviceHasEstimatesAlone) {
  const Json report = Json::parse(reportJson(makeProgram(), {}));
  EXPECT_FALSE(report.contains("device"));
  EXPECT_FALSE(report.contains("network_us"));
  EXPECT_FALSE(report["steps"][0]["variants"][0].contains("measured_us"));
  EXPECT_EQ(report["steps"][0]["why_variant"], "least estimate of 3, not timed");
}

TEST_F(GpuRuntimeTest, TheTableHasALineForEachStepAndOneForEachVariantIfAsked) {
  const std::string brief = reportText(makeProgram(), false), full = reportText(makeProgram(), true);
  EXPECT_EQ(std::count(brief.begin(), brief.end(), '\n'), 2);
  EXPECT_NE(brief.find("least estimate of 3, not timed"), std::string::npos);
  EXPECT_EQ(std::count(full.begin(), full.end(), '\n'), 2 + 1 + 4);
  EXPECT_NE(full.find("* 128x256"), std::string::npos);
}

/// The rows of the table of tolerances: type, numbers, reason.
std::vector<std::vector<std::string>> tolerancesOfThePage() {
  std::ifstream page(TILEWRIGHT_SOURCE_DIR "/docs/gpu.md");
  std::vector<std::vector<std::string>> rows;
  bool isInside = false;
  for (std::string line; std::getline(page, line);) {
    if (line == "| type | kernel | network | reason |") {
      isInside = std::getline(page, line).good(); // the rule below
      continue;
    }
    isInside &= !line.empty();
    if (!isInside)
      continue;
    std::istringstream cells(line.substr(1));
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, '|');)
      rows.back().push_back(cell.substr(1, cell.size() - 2));
  }
  return rows;
}

TEST(TolerancesTest, ThePageHasTheTable) {
  const std::vector<std::vector<std::string>> rows = tolerancesOfThePage();
  ASSERT_EQ(rows.size(), std::size(tw::test::kTolerances));
  for (size_t i = 0; i < rows.size(); ++i) {
    const tw::test::Tolerance &tolerance = tw::test::kTolerances[i];
    ASSERT_EQ(rows[i].size(), 4u);
    EXPECT_EQ(rows[i][0], tolerance.type);
    EXPECT_EQ(std::stod(rows[i][1]), tolerance.kernel) << tolerance.type;
    EXPECT_EQ(std::stod(rows[i][2]), tolerance.network) << tolerance.type;
    EXPECT_EQ(rows[i][3], tolerance.reason);
  }
}

} // namespace
