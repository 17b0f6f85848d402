//===- GpuFloat8Test.cpp - Weights of 8-bit floats on a GPU ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Constants of FLOAT8E4M3FN and FLOAT8E5M2 behind DequantizeLinear are decoded
// when the network is compiled: every code, as ONNX defines it. What is of such
// a type when the network runs is refused by name.
//===----------------------------------------------------------------------===//
#include "runtime/Network.h"
#include "tests/gpu/EmulatedNetwork.h"
#include "tests/gpu/emulator/Numbers.h"
#include "tests/unit/frontend/TestModels.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <unistd.h>

using namespace tw;

namespace {

struct Format {
  const char *name;
  int type; ///< TensorProto.DataType
  int exponentBits, bias;
  bool hasInfinity; ///< else the largest exponent has numbers, and only the largest mantissa is no number
};
// source: ONNX, "Float stored in 8 bits"
const Format kFormats[] = {{"float8e4m3fn", 17, 4, 7, false}, {"float8e5m2", 19, 5, 15, true}};

void PrintTo(const Format &format, std::ostream *stream) { *stream << format.name; }

float decoded(const Format &format, unsigned code) {
  const int mantissaBits = 7 - format.exponentBits, lastMantissa = (1 << mantissaBits) - 1;
  const int exponent = int(code >> mantissaBits & ((1u << format.exponentBits) - 1)), mantissa = int(code) & lastMantissa;
  const float sign = code & 0x80 ? -1 : 1;
  if (exponent == (1 << format.exponentBits) - 1) {
    if (format.hasInfinity)
      return mantissa ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
    if (mantissa == lastMantissa)
      return std::numeric_limits<float>::quiet_NaN();
  }
  const float fraction = float(mantissa) / float(1 << mantissaBits);
  return exponent ? sign * std::ldexp(1 + fraction, exponent - format.bias) : sign * std::ldexp(fraction, 1 - format.bias);
}

/// The model with an initializer "w" of this type and shape; "w" is no input of the text.
onnx::ModelProto modelWith(const std::string &text, const Format &format, const std::vector<int64_t> &shape,
                           const std::string &codes) {
  onnx::ModelProto model = frontend::modelOf(text, 19);
  onnx::TensorProto &constant = *model.mutable_graph()->add_initializer();
  constant.set_name("w");
  constant.set_data_type(format.type);
  for (int64_t size : shape)
    constant.add_dims(size);
  constant.set_raw_data(codes);
  return model;
}

runtime::StatusOr<gpu::Program> compile(const onnx::ModelProto &model,
                                        gpu::Architecture architecture = gpu::Architecture::Sm90a) {
  const std::string path = testing::TempDir() + "gpu-float8-" + std::to_string(getpid()) + ".onnx";
  std::ofstream(path) << model.SerializeAsString();
  runtime::NetworkOptions options;
  options.gpuArchitecture = architecture;
  runtime::StatusOr<gpu::Program> program = runtime::compileOnGpu(path, options);
  std::remove(path.c_str());
  return program;
}

template <typename Number> std::vector<uint8_t> bytesOf(const std::vector<Number> &numbers) {
  std::vector<uint8_t> bytes(numbers.size() * sizeof(Number));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

class GpuFloat8Test : public testing::TestWithParam<Format> {};

} // namespace

TEST_P(GpuFloat8Test, EveryCodeIsDecodedAndScaled) {
  const Format &format = GetParam();
  std::string codes;
  for (unsigned code = 0; code < 256; ++code)
    codes.push_back(char(code));
  auto program = compile(modelWith("(float[2,128] x) => (float[2,128] y) { s = Constant<value = float[2] {0.5, 4.0}>() "
                                   "d = DequantizeLinear<axis = 0>(w, s) y = Mul(x, d) }",
                                   format, {2, 128}, codes));
  ASSERT_TRUE(bool(program)) << program.error().message;
  const std::vector<uint8_t> result = test::EmulatedNetwork(*program).run({bytesOf(std::vector<float>(256, 1))}, 0, {})[0];
  for (unsigned code = 0; code < 256; ++code) {
    float actual;
    std::memcpy(&actual, result.data() + 4 * code, 4);
    const float expected = decoded(format, code) * (code < 128 ? 0.5f : 4.0f);
    EXPECT_TRUE(actual == expected || (std::isnan(actual) && std::isnan(expected)))
        << "code " << code << ": " << actual << " for " << expected;
  }
}

TEST_P(GpuFloat8Test, ProductsWithDecodedWeightsRunOnTensorCores) {
  const Format &format = GetParam();
  constexpr unsigned kRows = 6, kDepth = 72, kColumns = 24;
  std::string codes;
  for (unsigned i = 0; i < kDepth * kColumns; ++i) // 0 to just below 2, of both signs: products of small integers are exact
    codes.push_back(char((i * 37 % 251 & 0x80) | i * 53 % 0x40));
  const std::string text = "(bfloat16[6,72] x) => (bfloat16[6,24] y) { s = Constant<value = float {2.0}>() "
                           "f = DequantizeLinear(w, s) d = Cast<to = 16>(f) y = MatMul(x, d) }";
  std::vector<uint16_t> x;
  std::vector<float> values;
  for (unsigned i = 0; i < kRows * kDepth; ++i) {
    values.push_back(float(int(i * 7 % 3) - 1));
    x.push_back(ptxemu::floatToBfloat(values.back()));
  }
  for (gpu::Architecture architecture : {gpu::Architecture::Sm90a, gpu::Architecture::Sm80}) {
    SCOPED_TRACE(gpu::nameOf(architecture));
    auto program = compile(modelWith(text, format, {kDepth, kColumns}, codes), architecture);
    ASSERT_TRUE(bool(program)) << program.error().message;
    EXPECT_EQ(program->steps[0].kind, "matrix product");
    const std::vector<uint8_t> result = test::EmulatedNetwork(*program).run({bytesOf(x)}, 0, {})[0];
    for (unsigned row = 0; row < kRows; ++row)
      for (unsigned column = 0; column < kColumns; ++column) {
        double sum = 0, magnitude = 0;
        for (unsigned k = 0; k < kDepth; ++k) {
          const double term = values[row * kDepth + k] * 2.0 * decoded(format, uint8_t(codes[k * kColumns + column]));
          sum += term;
          magnitude += std::abs(term);
        }
        uint16_t code;
        std::memcpy(&code, result.data() + 2 * (row * kColumns + column), 2);
        // Weights of 8 bits are exact in bfloat16; sums are floats, and the result is rounded to 2^-8 of itself.
        EXPECT_NEAR(ptxemu::bfloatToFloat(code), sum, std::abs(sum) / 256 + magnitude * 1e-6) << row << ", " << column;
      }
  }
}

TEST_P(GpuFloat8Test, WhatIsOfSuchATypeAtRunTimeIsRefusedByName) {
  const std::string type = GetParam().name;
  auto activations = compile(modelWith("(float[4,8] x) => (float[4,8] y) { s = Constant<value = float {0.5}>() "
                                       "q = QuantizeLinear(x, s, w) y = DequantizeLinear(q, s) }",
                                       GetParam(), {}, std::string(1, '\0')));
  ASSERT_FALSE(bool(activations));
  EXPECT_NE(activations.error().message.find("(QuantizeLinear): it reads \"w\" of type " + type + ", which only the host has"),
            std::string::npos)
      << activations.error().message;

  onnx::ModelProto model = frontend::modelOf("(float[4,8] x) => (float[4,8] y) { s = Constant<value = float {0.5}>() "
                                             "y = DequantizeLinear(x, s) }",
                                             19);
  model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(GetParam().type);
  auto input = compile(model);
  ASSERT_FALSE(bool(input));
  EXPECT_NE(input.error().message.find("input \"x\" has element type " + type + ", which only the host has"), std::string::npos)
      << input.error().message;
}

INSTANTIATE_TEST_SUITE_P(Formats, GpuFloat8Test, testing::ValuesIn(kFormats),
                         [](const auto &info) { return std::string(info.param.name); });
