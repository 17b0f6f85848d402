//===- TargetTest.cpp - A target of one's own ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a target needs to take part: rules, a compilation, and its registration.
//===----------------------------------------------------------------------===//
#include "compiler/pipeline/Target.h"
#include "compiler/graph/Graph.h"
#include "runtime/Session.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace tw;

namespace {

/// Negates, and does nothing else.
class NegatorRules : public graph::KernelTarget {
public:
  llvm::StringRef name() const override { return "negator"; }
  std::string reasonAgainst(mlir::Operation *op) const override { return llvm::isa<graph::NegOp>(op) ? "" : "it only negates"; }
};

class NegatorLibrary : public pipeline::KernelLibrary {
public:
  llvm::Error run(llvm::StringRef, llvm::ArrayRef<frontend::HostTensor> inputs,
                  std::vector<frontend::HostTensor> &outputs) override {
    outputs[0].bytes = inputs[0].bytes;
    for (size_t at = 0; at < outputs[0].bytes.size(); at += sizeof(float)) {
      float value;
      std::memcpy(&value, outputs[0].bytes.data() + at, sizeof value);
      value = -value;
      std::memcpy(outputs[0].bytes.data() + at, &value, sizeof value);
    }
    return llvm::Error::success();
  }
};

class Negator : public pipeline::Target {
public:
  llvm::StringRef name() const override { return "negator"; }
  llvm::StringRef title() const override { return "negating unit"; }
  llvm::StringRef device() const override { return "a negating unit"; }
  std::shared_ptr<const graph::KernelTarget> rules(const pipeline::CompileOptions &) const override {
    return std::make_shared<NegatorRules>();
  }
  llvm::Expected<pipeline::Artefact> compile(mlir::ModuleOp, const pipeline::CompileOptions &) const override {
    return pipeline::Artefact(std::make_shared<NegatorLibrary>());
  }
};

const bool isRegistered = pipeline::registerTarget(std::make_unique<Negator>());

/// y = -(x * w), z = relu(y), with w twice the unit matrix.
constexpr const char *kNetwork = R"(
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = graph.constant dense<[[2.0, 0.0], [0.0, 2.0]]> : tensor<2x2xf32>
  %product = graph.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32> loc("product")
  %y = graph.neg %product : tensor<2x2xf32> loc("negated")
  %z = graph.relu %y : tensor<2x2xf32> loc("positive")
  return %z : tensor<2x2xf32>
})";

class TargetTest : public testing::Test {
protected:
  runtime::StatusOr<std::unique_ptr<runtime::Session>> session(const std::vector<std::string> &targets) {
    runtime::SessionOptions options;
    options.network.machine = "gemmini_16x16_fp32";
    options.network.targets = targets;
    const std::string path = testing::TempDir() + "network-" + std::to_string(getpid()) + ".mlir";
    std::ofstream(path) << kNetwork;
    auto session = runtime::Session::create(path, options);
    std::remove(path.c_str());
    return session;
  }
};

} // namespace

TEST_F(TargetTest, TakesTheOpsThatItHasBeforeTheOthers) {
  ASSERT_TRUE(isRegistered);
  auto session = this->session({"negator", "accel", "cpu"});
  ASSERT_TRUE(session) << session.error().message;
  const float x[] = {1, -2, -3, 4};
  runtime::HostTensor input{"x", runtime::ElementKind::F32, {2, 2}, std::vector<uint8_t>(sizeof x)};
  std::memcpy(input.bytes.data(), x, sizeof x);
  runtime::StatusOr<runtime::RunReport> report = (*session)->run({input});
  ASSERT_TRUE(report) << report.error().message;
  float z[4];
  ASSERT_EQ(report->outputs.at(0).bytes.size(), sizeof z);
  std::memcpy(z, report->outputs[0].bytes.data(), sizeof z);
  EXPECT_EQ(std::vector<float>(z, z + 4), (std::vector<float>{0, 4, 6, 0}));

  std::map<std::string, std::string> places;
  for (const runtime::Offload &entry : report->offload)
    places[entry.node] = entry.target;
  EXPECT_EQ(places, (std::map<std::string, std::string>{
                        {"product", "accelerator"}, {"negated", "negating unit"}, {"positive", "accelerator"}}));
  EXPECT_EQ(report->programs, 2u);
  EXPECT_EQ(report->fallback.devices, (std::vector<std::string>{"a negating unit"}));
}

TEST_F(TargetTest, OnItsOwnRefusesWhatItDoesNotTake) {
  auto session = this->session({"negator"});
  ASSERT_FALSE(session);
  EXPECT_NE(session.error().message.find("no target takes it: it only negates"), std::string::npos) << session.error().message;
}

TEST_F(TargetTest, MustBeRegistered) {
  auto session = this->session({"accel", "tpu"});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().message, "target is 'tpu' but must be one of \"accel\", \"cpu\", \"gpu\", \"opencl\", \"negator\"");
  auto twice = this->session({"cpu", "cpu"});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().message, "target 'cpu' is named twice");
}

TEST_F(TargetTest, HasANameOfItsOwn) {
  EXPECT_FALSE(pipeline::registerTarget(std::make_unique<Negator>()));
  EXPECT_EQ(pipeline::targetNamed("nosuch"), nullptr);
}
