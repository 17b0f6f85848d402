//===- GpuConvolutionTest.cpp - Convolutions for a GPU beside loops -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Grouped, dilated and transposed convolutions of ONNX, of -1, 0 and 1, whose
// sums every type holds exactly, on the PTX emulator in every variant, for both
// architectures. Plain loops over ONNX's definitions say what is right.
//===----------------------------------------------------------------------===//
#include "runtime/Network.h"
#include "tests/gpu/EmulatedNetwork.h"
#include "tests/gpu/emulator/Numbers.h"
#include "tests/unit/frontend/TestModels.h"

#include "llvm/ADT/STLExtras.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace tw;

namespace {

struct Problem {
  const char *name;
  bool isTransposed = false;
  int64_t channels, results, height, width;
  std::array<int64_t, 2> kernel, strides{1, 1}, dilations{1, 1}, outputPadding{0, 0};
  std::array<int64_t, 4> pads{0, 0, 0, 0}; ///< top, left, bottom, right
  int64_t group = 1;
  bool hasResidual = false; ///< and a bias before it, and a Relu behind it
  int zeroPoint = 0;        ///< of bytes: QLinearConv, whose result is an eighth of the sums
  bool isInteger = false;
  int64_t images = 2;

  int64_t extent(unsigned dim) const { return dilations[dim] * (kernel[dim] - 1) + 1; }
  int64_t size(unsigned dim) const { return dim ? width : height; }
  int64_t outSize(unsigned dim) const {
    const int64_t padding = pads[dim] + pads[dim + 2];
    return isTransposed ? (size(dim) - 1) * strides[dim] + outputPadding[dim] + extent(dim) - padding
                        : (size(dim) + padding - extent(dim)) / strides[dim] + 1;
  }
  int64_t weights() const { return channels * results / group * kernel[0] * kernel[1]; }
};

void PrintTo(const Problem &problem, std::ostream *stream) { *stream << problem.name; }

// name, transposed, channels, results, height, width, kernel, strides, dilations, output padding, pads, groups, residual
const Problem kProblems[] = {
    // Windows that do not overlap: a matrix product.
    {"transposed_apart", true, 64, 24, 5, 6, {2, 2}, {2, 2}},
    {"transposed", true, 48, 40, 5, 7, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1, true},
    {"transposed_of_even_windows", true, 32, 24, 6, 5, {4, 4}, {2, 2}, {1, 1}, {0, 0}, {1, 1, 1, 1}},
    {"transposed_and_dilated", true, 24, 32, 6, 7, {3, 3}, {1, 1}, {2, 2}, {0, 0}, {1, 1, 1, 1}},
    {"transposed_of_uneven_strides", true, 40, 16, 5, 4, {3, 2}, {1, 3}, {1, 1}, {0, 1}, {0, 1, 1, 0}},
    {"transposed_in_groups", true, 32, 48, 5, 5, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1, 1, 1}, 2, true},
    {"dilated", false, 40, 32, 12, 13, {3, 3}, {2, 1}, {2, 3}, {0, 0}, {2, 3, 2, 3}, 1, true},
    {"dilated_of_few_channels", false, 3, 16, 14, 15, {3, 5}, {1, 2}, {3, 2}, {0, 0}, {1, 2, 3, 4}},
    {"in_groups", false, 72, 36, 6, 7, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {1, 1, 1, 1}, 3, true},
    {"dilated_in_groups", false, 32, 40, 9, 8, {3, 3}, {1, 2}, {2, 2}, {0, 0}, {2, 2, 2, 2}, 2, true},
    {"points_in_groups", false, 64, 32, 4, 5, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0, 0, 0}, 4, true},
    {"odd_columns_in_groups", false, 48, 10, 5, 5, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1, 1, 1}, 2},
    // Bytes: where windows reach out of the image, the zero point is what is there.
    {"bytes", false, 32, 24, 6, 7, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {1, 1, 1, 1}, 1, false, 7, true},
    {"bytes_in_groups", false, 64, 24, 6, 7, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {1, 1, 1, 1}, 2, false, 7, true},
    {"dilated_bytes_in_groups", false, 48, 30, 9, 8, {3, 3}, {2, 1}, {2, 2}, {0, 0}, {2, 1, 2, 1}, 3, false, -3, true},
};

/// -1, 0 and 1, as the numbers come.
int valueAt(int64_t index, unsigned seed) { return int((uint32_t(index) * 2654435761u + seed) >> 8 & 0xffff) % 3 - 1; }

using Numbers = std::vector<int>;

Numbers numbers(int64_t count, unsigned seed) {
  Numbers all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(valueAt(i, seed));
  return all;
}

struct Data {
  Numbers x, weights, bias, residual, expected;
};

Data dataOf(const Problem &p) {
  const int64_t outHeight = p.outSize(0), outWidth = p.outSize(1), perGroup = p.channels / p.group,
                resultsPerGroup = p.results / p.group;
  Data data{numbers(p.images * p.channels * p.height * p.width, 1),
            numbers(p.weights(), 77),
            numbers(p.results, 5),
            numbers(p.images * p.results * outHeight * outWidth, 9),
            {}};
  data.expected.assign(data.residual.size(), 0);
  auto outAt = [&](int64_t image, int64_t result, int64_t y, int64_t x) -> int & {
    return data.expected[size_t(((image * p.results + result) * outHeight + y) * outWidth + x)];
  };
  // An element of the image and one of the result that a tap connects.
  for (int64_t image = 0; image < p.images; ++image)
    for (int64_t channel = 0; channel < p.channels; ++channel)
      for (int64_t inGroup = 0; inGroup < resultsPerGroup; ++inGroup)
        for (int64_t tapY = 0; tapY < p.kernel[0]; ++tapY)
          for (int64_t tapX = 0; tapX < p.kernel[1]; ++tapX) {
            const int64_t result = channel / perGroup * resultsPerGroup + inGroup;
            const int64_t row = p.isTransposed ? channel * resultsPerGroup + inGroup : result * perGroup + channel % perGroup;
            const int weight = data.weights[size_t((row * p.kernel[0] + tapY) * p.kernel[1] + tapX)];
            const int64_t height = p.isTransposed ? p.height : outHeight, width = p.isTransposed ? p.width : outWidth;
            const int64_t farHeight = p.isTransposed ? outHeight : p.height, farWidth = p.isTransposed ? outWidth : p.width;
            for (int64_t y = 0; y < height; ++y)
              for (int64_t x = 0; x < width; ++x) {
                const int64_t farY = y * p.strides[0] + tapY * p.dilations[0] - p.pads[0];
                const int64_t farX = x * p.strides[1] + tapX * p.dilations[1] - p.pads[1];
                if (farY < 0 || farY >= farHeight || farX < 0 || farX >= farWidth)
                  continue;
                auto imageAt = [&](int64_t y, int64_t x) {
                  return data.x[size_t(((image * p.channels + channel) * p.height + y) * p.width + x)] - p.zeroPoint;
                };
                if (p.isTransposed)
                  outAt(image, result, farY, farX) += imageAt(y, x) * weight;
                else
                  outAt(image, result, y, x) += imageAt(farY, farX) * weight;
              }
          }
  for (auto [i, value] : llvm::enumerate(data.expected)) {
    if (p.isInteger)
      value = int(std::clamp(std::nearbyint(value * 0.125), -128.0, 127.0));
    else if (p.hasResidual)
      value = std::max(value + data.bias[i / size_t(outHeight * outWidth) % size_t(p.results)] + data.residual[i], 0);
  }
  return data;
}

std::string bytesOf(const Numbers &all, bool isInteger) {
  std::string bytes;
  for (int number : all) {
    const uint16_t bits = isInteger ? uint16_t(uint8_t(number)) : ptxemu::floatToBfloat(float(number));
    bytes.push_back(char(bits & 0xff));
    if (!isInteger)
      bytes.push_back(char(bits >> 8));
  }
  return bytes;
}

template <typename List> std::string textOf(const List &list) {
  std::string text;
  for (auto each : list)
    text += (text.empty() ? "" : ", ") + std::to_string(each);
  return text;
}

/// The network; weights and bias become initializers.
onnx::ModelProto modelOf(const Problem &p, const Data &data) {
  const std::string type = p.isInteger ? "int8" : "bfloat16";
  const std::array<int64_t, 4> image{p.images, p.channels, p.height, p.width},
      result{p.images, p.results, p.outSize(0), p.outSize(1)},
      weights{p.isTransposed ? p.channels : p.results, (p.isTransposed ? p.results : p.channels) / p.group, p.kernel[0],
              p.kernel[1]};
  auto tensor = [&](auto shape, const char *name) { return type + "[" + textOf(shape) + "] " + name; };
  std::string inputs = tensor(image, "x") + ", " + tensor(weights, "w"), body;
  const std::string attributes = "<strides = [" + textOf(p.strides) + "], dilations = [" + textOf(p.dilations) + "], pads = [" +
                                 textOf(p.pads) + "], group = " + std::to_string(p.group) +
                                 (p.isTransposed ? ", output_padding = [" + textOf(p.outputPadding) + "]>" : ">");
  if (p.isInteger) {
    body = "one = Constant<value = float {1.0}>() eight = Constant<value = float {8.0}>() zero = Constant<value = int8 {0}>() "
           "z = Constant<value = int8 {" +
           std::to_string(p.zeroPoint) + "}>() y = QLinearConv " + attributes + " (x, one, z, w, one, zero, eight, zero)";
  } else {
    if (p.hasResidual)
      inputs += ", " + tensor(std::array{p.results}, "b") + ", " + tensor(result, "r");
    body = std::string(p.hasResidual ? "s" : "y") + " = " + (p.isTransposed ? "ConvTranspose " : "Conv ") + attributes +
           (p.hasResidual ? " (x, w, b) t = Add(s, r) y = Relu(t)" : " (x, w)");
  }
  onnx::ModelProto model = frontend::modelOf("(" + inputs + ") => (" + tensor(result, "y") + ") { " + body + " }", 22);
  onnx::GraphProto &graph = *model.mutable_graph();
  for (int i = graph.input_size(); i-- > 0;) {
    const std::string name = graph.input(i).name();
    if (name != "w" && name != "b")
      continue;
    onnx::TensorProto &constant = *graph.add_initializer();
    constant.set_name(name);
    constant.set_data_type(p.isInteger ? onnx::TensorProto::INT8 : onnx::TensorProto::BFLOAT16);
    for (const auto &dim : graph.input(i).type().tensor_type().shape().dim())
      constant.add_dims(dim.dim_value());
    constant.set_raw_data(bytesOf(name == "w" ? data.weights : data.bias, p.isInteger));
    graph.mutable_input()->DeleteSubrange(i, 1);
  }
  return model;
}

class GpuConvolutionTest : public testing::TestWithParam<std::tuple<Problem, gpu::Architecture>> {};

} // namespace

TEST_P(GpuConvolutionTest, TensorCoresComputeWhatLoopsCompute) {
  const auto &[p, architecture] = GetParam();
  const Data data = dataOf(p);
  const std::string path = testing::TempDir() + "gpu-convolution-" + std::to_string(getpid()) + ".onnx";
  std::ofstream(path) << modelOf(p, data).SerializeAsString();
  runtime::NetworkOptions options;
  options.gpuArchitecture = architecture;
  auto program = runtime::compileOnGpu(path, options);
  std::remove(path.c_str());
  ASSERT_TRUE(bool(program)) << program.error().message;
  auto product = llvm::find_if(
      program->steps, [](const gpu::Step &step) { return step.kind == "convolution" || step.kind == "matrix product"; });
  ASSERT_NE(product, program->steps.end());
  // What is behind the sums is part of the step.
  EXPECT_EQ(std::count_if(product + 1, program->steps.end(), [&](const gpu::Step &step) { return step.name == product->name; }),
            0);

  std::vector<std::vector<uint8_t>> inputs;
  for (const Numbers *input : {&data.x, &data.residual}) {
    const std::string bytes = bytesOf(*input, p.isInteger);
    inputs.push_back({bytes.begin(), bytes.end()});
  }
  inputs.resize(program->inputs.size());
  const std::string expected = bytesOf(data.expected, p.isInteger);
  for (size_t variant = 0; variant < product->variants.size(); ++variant) {
    SCOPED_TRACE(product->variants[variant].name);
    ptxemu::LaunchOptions launch;
    launch.timing = ptxemu::Timing::Random;
    launch.order = ptxemu::ThreadOrder::Random;
    launch.residentClusters = 2;
    launch.seed = uint32_t(variant + 1);
    try {
      const std::vector<std::vector<uint8_t>> outputs = test::EmulatedNetwork(*program).run(inputs, variant, launch);
      ASSERT_EQ(outputs.size(), 1u);
      EXPECT_TRUE(std::string(outputs[0].begin(), outputs[0].end()) == expected) << "other values";
    } catch (const std::exception &error) {
      FAIL() << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Convolutions, GpuConvolutionTest,
                         testing::Combine(testing::ValuesIn(kProblems),
                                          testing::Values(gpu::Architecture::Sm90a, gpu::Architecture::Sm80)),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param).name) + "_" + gpu::nameOf(std::get<1>(info.param));
                         });
