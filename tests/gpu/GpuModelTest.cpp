//===- GpuModelTest.cpp - Whole networks for a GPU, on the emulator -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Networks of TILEWRIGHT_MODELS (one folder each: model.onnx,
// test_data_set_N/{inputs.json, input_K.npy, output_K.npy}), skipped when it is
// not set. Small ones run on the PTX emulator and are compared with the stored
// outputs; all of them are compiled.
//===----------------------------------------------------------------------===//
#include "compiler/frontend/TensorFile.h"
#include "isa/files/InputFile.h"
#include "runtime/Network.h"
#include "tests/gpu/EmulatedNetwork.h"

#include "llvm/Support/JSON.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>

using namespace tw;

namespace {

/// The folder of a network; empty where there is none.
std::filesystem::path folderOf(const std::string &model) {
  const char *root = std::getenv("TILEWRIGHT_MODELS");
  if (!root)
    return {};
  std::filesystem::path folder = std::filesystem::path(root) / model;
  return std::filesystem::exists(folder / "model.onnx") ? folder : std::filesystem::path();
}

frontend::HostTensor readTensor(const std::filesystem::path &path) {
  Result<frontend::HostTensor> tensor = frontend::readTensorFile(path.string());
  EXPECT_TRUE(bool(tensor)) << tensor.message();
  return tensor ? *tensor : frontend::HostTensor();
}

struct DataSet {
  std::vector<frontend::HostTensor> inputs, outputs;
};

std::vector<DataSet> dataSetsOf(const std::filesystem::path &folder) {
  std::vector<DataSet> sets;
  for (unsigned i = 0;; ++i) {
    const std::filesystem::path path = folder / ("test_data_set_" + std::to_string(i));
    Result<std::string> text = files::readFile((path / "inputs.json").string());
    if (!text)
      return sets;
    DataSet set;
    llvm::Expected<llvm::json::Value> json = llvm::json::parse(*text);
    if (!json) {
      ADD_FAILURE() << path << ": " << llvm::toString(json.takeError());
      return sets;
    }
    for (const llvm::json::Value &entry : *json->getAsArray()) {
      set.inputs.push_back(readTensor(path / ("input_" + std::to_string(set.inputs.size()) + ".npy")));
      set.inputs.back().name = entry.getAsObject()->getString("name").value_or("").str();
    }
    while (std::filesystem::exists(path / ("output_" + std::to_string(set.outputs.size()) + ".npy")))
      set.outputs.push_back(readTensor(path / ("output_" + std::to_string(set.outputs.size()) + ".npy")));
    sets.push_back(std::move(set));
  }
}

runtime::NetworkOptions optionsFor(const std::vector<DataSet> &sets) {
  runtime::NetworkOptions options;
  if (!sets.empty())
    for (const frontend::HostTensor &input : sets[0].inputs)
      options.import.shapes[input.name] = input.shape;
  return options;
}

std::vector<double> numbersOf(gpu::Element element, frontend::ElementKind kind, const std::vector<uint8_t> &bytes) {
  runtime::HostTensor tensor;
  tensor.type = kind;
  if (element == gpu::Element::F32)
    tensor.type = frontend::ElementKind::F32; // what is float16 in the model is computed in f32
  tensor.bytes = bytes;
  tensor.shape = {int64_t(bytes.size() / gpu::bytesOf(element))};
  return runtime::toDoubles(tensor);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Largest difference, as a part of the largest absolute value of the output.
/// fp32: the order of sums differs. Quantised: a network in QDQ form is stored as float arithmetic between roundings; integer arithmetic
/// rounds elsewhere, so that a number may be a step off (1 / 256), and again in layers behind. QLinear: defined in integers, so exact.
/// tf32, under fast math: factors are rounded to 2^-11, layer behind layer.
constexpr double kSingle = 1e-4, kQuantised = 8e-2, kExact = 0, kTfloat = 1e-2;

struct ModelCase {
  const char *model;
  double tolerance;
  graph::Math math = graph::Math::Exact;
};

void PrintTo(const ModelCase &c, std::ostream *stream) { *stream << c.model; }

class GpuModelTest : public testing::TestWithParam<ModelCase> {};

TEST_P(GpuModelTest, GivesTheStoredOutputs) {
  const std::filesystem::path folder = folderOf(GetParam().model);
  if (folder.empty())
    GTEST_SKIP() << "TILEWRIGHT_MODELS has no " << GetParam().model;
  const std::vector<DataSet> sets = dataSetsOf(folder);
  ASSERT_FALSE(sets.empty());
  runtime::NetworkOptions options = optionsFor(sets);
  options.math = GetParam().math;
  auto program = runtime::compileOnGpu((folder / "model.onnx").string(), options);
  ASSERT_TRUE(bool(program)) << program.error().message;
  test::EmulatedNetwork network(*program);
  std::vector<std::vector<uint8_t>> inputs;
  for (const frontend::HostTensor &input : sets[0].inputs)
    inputs.push_back(input.bytes);
  std::vector<std::vector<uint8_t>> outputs;
  try {
    outputs = network.run(inputs, 0, {});
  } catch (const ptxemu::Error &error) {
    FAIL() << error.what();
  }
  ASSERT_EQ(outputs.size(), sets[0].outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const frontend::HostTensor &expected = sets[0].outputs[i];
    EXPECT_EQ(program->outputs[i].shape, expected.shape);
    const std::vector<double> a = numbersOf(program->outputs[i].element, expected.type, outputs[i]),
                              e = runtime::toDoubles(expected);
    ASSERT_EQ(a.size(), e.size());
    double worst = 0, range = 0;
    for (size_t j = 0; j < a.size(); ++j) {
      ASSERT_TRUE(std::isfinite(a[j]));
      worst = std::max(worst, std::abs(a[j] - e[j]));
      range = std::max(range, std::abs(e[j]));
    }
    printf("  output %zu: differs by %g at most, of %g\n", i, worst, range);
    EXPECT_LE(worst, GetParam().tolerance * range);
    EXPECT_EQ(std::max_element(a.begin(), a.end()) - a.begin(), std::max_element(e.begin(), e.end()) - e.begin());
  }
}

std::string nameOf(std::string name) {
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)))
      c = '_';
  return name;
}

const auto modelName = [](const auto &info) { return nameOf(info.param.model); };

INSTANTIATE_TEST_SUITE_P(Small, GpuModelTest,
                         testing::Values(ModelCase{"mnist_8", kSingle}, ModelCase{"mlperf_tiny_ic_resnet8_fp32", kSingle},
                                         ModelCase{"mlperf_tiny_ic_resnet8_int8_qdq", kQuantised},
                                         ModelCase{"mlperf_tiny_kws_dscnn_int8_qdq", kQuantised},
                                         ModelCase{"mlperf_tiny_kws_dscnn_int8_qlinear", kExact},
                                         ModelCase{"resnet20_cifar10_static", kSingle}),
                         modelName);
INSTANTIATE_TEST_SUITE_P(Fast, GpuModelTest,
                         testing::Values(ModelCase{"mnist_8", kTfloat, graph::Math::Fast},
                                         ModelCase{"mlperf_tiny_ic_resnet8_fp32", kTfloat, graph::Math::Fast},
                                         ModelCase{"resnet20_cifar10_static", kTfloat, graph::Math::Fast}),
                         modelName);

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

class GpuCodeTest : public testing::TestWithParam<const char *> {};

TEST_P(GpuCodeTest, WhatCompilesForTheAcceleratorCompilesForTheGpu) {
  const std::filesystem::path folder = folderOf(GetParam());
  if (folder.empty())
    GTEST_SKIP() << "TILEWRIGHT_MODELS has no " << GetParam();
  const std::string model = (folder / "model.onnx").string();
  runtime::NetworkOptions options = optionsFor(dataSetsOf(folder));
  const auto start = std::chrono::steady_clock::now();
  auto program = runtime::compileOnGpu(model, options);
  printf("  %.1f s\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  if (program) {
    EXPECT_FALSE(program->steps.empty());
    return;
  }
  printf("  not for the GPU: %s\n", program.error().message.c_str());
  options.machine = "gemmini_16x16_fp32";
  options.schedule = "serial";
  options.oneProgram = true; // what the host evaluates, no target has
  EXPECT_FALSE(bool(runtime::loadNetwork(model, options)))
      << "it compiles for the accelerator, but not for the GPU: " << program.error().message;
}

INSTANTIATE_TEST_SUITE_P(Networks, GpuCodeTest,
                         testing::Values("burn_mnist", "deeploy_TinyViT_Demo", "dtln_1", "gtcrn_simple", "light_bvlc_alexnet",
                                         "light_inception_v1", "light_resnet50", "light_squeezenet", "light_vgg19",
                                         "mlperf_tiny_ic_resnet8_fp32", "mlperf_tiny_ic_resnet8_int8_qdq",
                                         "mlperf_tiny_kws_dscnn_int8_qdq", "mlperf_tiny_kws_dscnn_int8_qlinear", "mnist_8",
                                         "mobilenetv2_1.0_int8_qdq", "mobilenetv2_1.0_int8_qlinear", "npm_blazeface_front_128",
                                         "npm_ppocr_v2_cls", "npm_speech_embedding", "ort_attention_u8s8", "ort_bert_toy_opt",
                                         "ort_comp_red_transformer", "ort_conv_qdq_external", "ort_gpt2_one_layer",
                                         "ort_gpt2_past_one_layer", "ort_scan_1", "ort_tfbert_qa", "ort_voice_commands",
                                         "ort_whisper_attn", "resnet20_cifar10", "resnet20_cifar10_bn",
                                         "resnet20_cifar10_static", "silero_v5", "squeezenet1.1_fp16", "squeezenet1.1_fp32",
                                         "super_resolution_10", "ultraface_RFB320", "ultraface_slim320_simplified"),
                         [](const auto &info) { return nameOf(info.param); });

} // namespace
