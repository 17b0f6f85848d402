//===- CpuNetworkTest.cpp - Whole networks on the CPU target --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX file to outputs through every frontend and graph pass and the lowering,
// against stored outputs: what the accelerator path shares with the CPU target
// is checked here without an accelerator. Networks in TILEWRIGHT_MODELS (one
// folder each: model.onnx, test_data_set_N/{inputs.json, input_K.npy,
// output_K.npy}) are skipped when it is not set; tests/data/digits always runs.
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/CpuTarget.h"
#include "compiler/frontend/OnnxImport.h"
#include "compiler/frontend/TensorFile.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/loops/Passes.h"
#include "isa/files/InputFile.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/JSON.h"
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>

using namespace tw;
using frontend::ElementKind;
using frontend::HostTensor;

namespace {

/// How an answer may differ from the stored one.
struct Tolerance {
  /// Largest difference, as a part of the largest absolute value of the output.
  double range = 0;
  bool sameTop1 = true;
};

std::vector<double> numbersOf(const HostTensor &tensor) {
  std::vector<double> numbers;
  auto read = [&](auto zero) {
    using T = decltype(zero);
    for (size_t at = 0; at + sizeof(T) <= tensor.bytes.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, tensor.bytes.data() + at, sizeof(T));
      if (tensor.type == ElementKind::F16)
        numbers.push_back(frontend::halfToFloat(static_cast<uint16_t>(value)));
      else
        numbers.push_back(static_cast<double>(value));
    }
  };
  switch (tensor.type) {
  case ElementKind::F32:
    read(0.0f);
    break;
  case ElementKind::F16:
    read(uint16_t(0));
    break;
  case ElementKind::U8:
    read(uint8_t(0));
    break;
  case ElementKind::I8:
    read(int8_t(0));
    break;
  case ElementKind::I32:
    read(int32_t(0));
    break;
  case ElementKind::I64:
    read(int64_t(0));
    break;
  default:
    ADD_FAILURE() << "the test does not read " << frontend::elementName(tensor.type);
  }
  return numbers;
}

size_t top1(const std::vector<double> &numbers) { return std::max_element(numbers.begin(), numbers.end()) - numbers.begin(); }

HostTensor readTensor(const std::string &path) {
  Result<HostTensor> tensor = frontend::readTensorFile(path);
  EXPECT_TRUE(static_cast<bool>(tensor)) << tensor.message();
  return tensor ? *tensor : HostTensor();
}

/// Names of the tensors that input_0, input_1, ... hold.
std::vector<std::string> readNames(const std::string &path) {
  Result<std::string> text = files::readFile(path);
  std::vector<std::string> names;
  if (!text)
    return names;
  llvm::Expected<llvm::json::Value> json = llvm::json::parse(*text);
  if (!json) {
    ADD_FAILURE() << path << ": " << llvm::toString(json.takeError());
    return names;
  }
  if (auto *list = json->getAsArray())
    for (const llvm::json::Value &entry : *list)
      if (auto *object = entry.getAsObject())
        names.push_back(object->getString("name").value_or("").str());
  return names;
}

/// float16 networks are computed in float32.
HostTensor widened(HostTensor tensor) {
  if (tensor.type != ElementKind::F16)
    return tensor;
  std::vector<double> numbers = numbersOf(tensor);
  tensor.type = ElementKind::F32;
  tensor.bytes.resize(numbers.size() * 4);
  for (size_t i = 0; i < numbers.size(); ++i) {
    auto value = static_cast<float>(numbers[i]);
    std::memcpy(tensor.bytes.data() + i * 4, &value, 4);
  }
  return tensor;
}

class Network {
public:
  /// `array`: the accelerator whose form of the network is computed, or "cpu".
  bool compile(const std::string &path, const std::string &array, const frontend::ImportOptions &import, unsigned threads,
               bool exactQdq = false) {
    auto start = std::chrono::steady_clock::now();
    auto imported = frontend::importOnnxFile(context, path, import);
    if (!imported) {
      ADD_FAILURE() << llvm::toString(imported.takeError());
      return false;
    }
    graph::GraphPipelineOptions options;
    options.math = exactQdq ? graph::Math::Strict : graph::Math::Exact;
    if (array != "cpu") {
      graph::ArrayMachine machine;
      machine.type = array;
      options.targets = {graph::makeArrayTarget(machine), graph::makeCpuTarget()};
    }
    mlir::PassManager passes(&context);
    graph::buildGraphPipeline(passes, options);
    passes.addPass(loops::createLowerGraphPass());
    if (mlir::failed(passes.run(**imported))) {
      ADD_FAILURE() << path << ": the graph passes or the lowering fail";
      return false;
    }
    auto lowered = std::chrono::steady_clock::now();
    cpu::CpuOptions cpuOptions;
    cpuOptions.threads = threads;
    auto compiled = cpu::compileForCpu(**imported, cpuOptions);
    if (!compiled) {
      ADD_FAILURE() << path << ": " << llvm::toString(compiled.takeError());
      return false;
    }
    executable = std::move(*compiled);
    frontendSeconds = std::chrono::duration<double>(lowered - start).count();
    compileSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - lowered).count();
    return true;
  }

  std::vector<HostTensor> run(const std::vector<HostTensor> &inputs) {
    std::vector<HostTensor> outputs;
    if (llvm::Error error = executable->run(inputs, outputs))
      ADD_FAILURE() << llvm::toString(std::move(error));
    return outputs;
  }

  std::unique_ptr<cpu::CpuExecutable> executable;
  double frontendSeconds = 0, compileSeconds = 0;

private:
  mlir::MLIRContext context;
};

//===----------------------------------------------------------------------===//
// The network of our own
//===----------------------------------------------------------------------===//

struct DigitsCase {
  const char *model, *logits, *array;
  double tolerance;
};

class DigitsTest : public testing::TestWithParam<DigitsCase> {};

TEST_P(DigitsTest, GivesTheStoredLogits) {
  const DigitsCase &c = GetParam();
  std::string folder = std::string(TILEWRIGHT_SOURCE_DIR) + "/tests/data/digits/";
  HostTensor images = readTensor(folder + "images.npy"), expected = readTensor(folder + c.logits);
  std::vector<double> labels = numbersOf(readTensor(folder + "labels.npy"));
  ASSERT_EQ(images.shape, (std::vector<int64_t>{360, 1, 8, 8}));
  Network network;
  ASSERT_TRUE(network.compile(folder + c.model, c.array, {}, 2));
  std::vector<double> logits = numbersOf(expected);
  double worst = 0, range = 0;
  size_t correct = 0, sameDigit = 0;
  for (size_t i = 0; i < 360; ++i) {
    HostTensor image;
    image.shape = {1, 1, 8, 8};
    image.bytes.assign(images.bytes.begin() + i * 256, images.bytes.begin() + (i + 1) * 256);
    std::vector<HostTensor> outputs = network.run({image});
    ASSERT_EQ(outputs.size(), 1u);
    std::vector<double> actual = numbersOf(outputs[0]), wanted(logits.begin() + i * 10, logits.begin() + (i + 1) * 10);
    ASSERT_EQ(actual.size(), 10u);
    for (size_t j = 0; j < 10; ++j) {
      worst = std::max(worst, std::abs(actual[j] - wanted[j]));
      range = std::max(range, std::abs(wanted[j]));
    }
    correct += top1(actual) == static_cast<size_t>(labels[i]);
    sameDigit += top1(actual) == top1(wanted);
  }
  printf("  %s as %s: %zu of 360 right, %zu as stored, largest difference %g of %g; compiled in %.2f + %.2f s\n", c.model,
         c.array, correct, sameDigit, worst, range, network.frontendSeconds, network.compileSeconds);
  EXPECT_LE(worst, c.tolerance * range);
  EXPECT_GE(sameDigit, 358u);
  EXPECT_GE(correct, 353u);
}

// The int8 model ends in a dequantisation, so that one step of its last scale is the least difference.
INSTANTIATE_TEST_SUITE_P(Forms, DigitsTest,
                         testing::Values(DigitsCase{"digits_fp32.onnx", "logits_fp32.npy", "cpu", 1e-5},
                                         DigitsCase{"digits_fp32.onnx", "logits_fp32.npy", "fp32", 1e-5},
                                         DigitsCase{"digits_fp32.onnx", "logits_fp32.npy", "bf16", 3e-2},
                                         DigitsCase{"digits_int8_qdq.onnx", "logits_int8_qdq.npy", "cpu", 2e-2},
                                         DigitsCase{"digits_int8_qdq.onnx", "logits_int8_qdq.npy", "int8", 2e-2},
                                         DigitsCase{"digits_int8_qdq.onnx", "logits_int8_qdq.npy", "fp32", 2e-2}));

//===----------------------------------------------------------------------===//
// Networks from outside
//===----------------------------------------------------------------------===//

struct ModelCase {
  const char *model, *array;
  Tolerance tolerance;
};

std::string nameOf(const testing::TestParamInfo<ModelCase> &info) {
  std::string name = std::string(info.param.model) + "_" + info.param.array;
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)))
      c = '_';
  return name;
}

class ModelTest : public testing::TestWithParam<ModelCase> {};

TEST_P(ModelTest, GivesTheStoredOutputs) {
  const ModelCase &c = GetParam();
  const char *root = std::getenv("TILEWRIGHT_MODELS");
  if (!root)
    GTEST_SKIP() << "TILEWRIGHT_MODELS is not set";
  std::filesystem::path folder = std::filesystem::path(root) / c.model;
  if (!std::filesystem::exists(folder / "model.onnx"))
    GTEST_SKIP() << folder.string() << " has no model.onnx";
  Network network;
  unsigned sets = 0;
  for (; std::filesystem::exists(folder / ("test_data_set_" + std::to_string(sets))); ++sets) {
    std::string set = (folder / ("test_data_set_" + std::to_string(sets))).string() + "/";
    std::vector<HostTensor> inputs, expected;
    std::vector<std::string> names = readNames(set + "inputs.json");
    frontend::ImportOptions import;
    for (size_t i = 0; std::filesystem::exists(set + "input_" + std::to_string(i) + ".npy"); ++i) {
      inputs.push_back(widened(readTensor(set + "input_" + std::to_string(i) + ".npy")));
      if (i < names.size())
        import.shapes[names[i]] = inputs.back().shape;
    }
    for (size_t i = 0; std::filesystem::exists(set + "output_" + std::to_string(i) + ".npy"); ++i)
      expected.push_back(readTensor(set + "output_" + std::to_string(i) + ".npy"));
    ASSERT_FALSE(inputs.empty());
    ASSERT_FALSE(expected.empty());
    if (sets == 0) {
      ASSERT_TRUE(network.compile((folder / "model.onnx").string(), c.array, import, 2));
      printf("  %s as %s: import and passes %.2f s, code %.2f s\n", c.model, c.array, network.frontendSeconds,
             network.compileSeconds);
    }
    std::vector<HostTensor> outputs = network.run(inputs);
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i].shape, expected[i].shape);
      std::vector<double> actual = numbersOf(outputs[i]), wanted = numbersOf(expected[i]);
      ASSERT_EQ(actual.size(), wanted.size());
      double worst = 0, range = 0;
      size_t differing = 0;
      for (size_t j = 0; j < actual.size(); ++j) {
        double difference = std::abs(actual[j] - wanted[j]);
        worst = difference <= worst ? worst : difference; // keeps a NaN
        range = std::max(range, std::abs(wanted[j]));
        differing += actual[j] != wanted[j];
      }
      printf("  set %u, output %zu: %zu of %zu elements differ, by %g at most, of %g; top-1 %zu, stored %zu\n", sets, i,
             differing, actual.size(), worst, range, top1(actual), top1(wanted));
      EXPECT_LE(worst, c.tolerance.range * range);
      if (c.tolerance.sameTop1)
        EXPECT_EQ(top1(actual), top1(wanted));
    }
    if (sets == 0)
      if (auto timing = network.executable->measure(inputs, 3, 0.05))
        printf("  %.2f ms a run on 2 threads\n", timing->minSeconds * 1e3);
  }
  EXPECT_GT(sets, 0u);
}

constexpr Tolerance exactly{0, true}, single{1e-4, true}, bfloat{3e-2, true};
/// A QDQ network is stored as float arithmetic between roundings; integer arithmetic rounds elsewhere.
constexpr Tolerance quantised{8e-2, true};

INSTANTIATE_TEST_SUITE_P(
    Networks, ModelTest,
    testing::Values(ModelCase{"mnist_8", "cpu", single}, ModelCase{"mnist_8", "bf16", bfloat},
                    ModelCase{"resnet20_cifar10_static", "cpu", single}, ModelCase{"resnet20_cifar10_static", "bf16", bfloat},
                    ModelCase{"resnet20_cifar10", "cpu", single}, ModelCase{"resnet20_cifar10", "bf16", bfloat},
                    ModelCase{"resnet20_cifar10_bn", "cpu", single}, ModelCase{"squeezenet1.1_fp32", "cpu", single},
                    ModelCase{"squeezenet1.1_fp32", "fp32", single}, ModelCase{"squeezenet1.1_fp32", "bf16", bfloat},
                    ModelCase{"squeezenet1.1_fp16", "cpu", Tolerance{1e-2, true}},
                    ModelCase{"mlperf_tiny_ic_resnet8_fp32", "cpu", single},
                    ModelCase{"mlperf_tiny_ic_resnet8_int8_qdq", "int8", quantised},
                    ModelCase{"mlperf_tiny_ic_resnet8_int8_qdq", "fp32", single},
                    ModelCase{"mlperf_tiny_kws_dscnn_int8_qdq", "int8", quantised},
                    ModelCase{"mlperf_tiny_kws_dscnn_int8_qdq", "fp32", single},
                    ModelCase{"mlperf_tiny_kws_dscnn_int8_qlinear", "int8", exactly},
                    ModelCase{"mobilenetv2_1.0_int8_qdq", "int8", quantised},
                    ModelCase{"mobilenetv2_1.0_int8_qdq", "fp32", quantised},
                    ModelCase{"mobilenetv2_1.0_int8_qlinear", "int8", exactly}, ModelCase{"npm_ppocr_v2_cls", "cpu", single},
                    ModelCase{"npm_ppocr_v2_cls", "bf16", bfloat}, ModelCase{"npm_blazeface_front_128", "cpu", single},
                    ModelCase{"npm_speech_embedding", "cpu", single}, ModelCase{"super_resolution_10", "cpu", single},
                    ModelCase{"ultraface_RFB320", "cpu", single}, ModelCase{"ultraface_slim320_simplified", "cpu", single}),
    nameOf);

} // namespace
