//===- PlacementTest.cpp - Tensors inside of larger ones ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Padding and concatenations between kernels are not copied: who computes a
// tensor writes it where it is wanted, and everybody who reads it finds it there.
//===----------------------------------------------------------------------===//
#include "tests/unit/cpu/CpuTestSupport.h"

using namespace tw::cpu;
using namespace tw::cpu::test;

namespace {

/// [4, 5, channels]
constexpr int64_t height = 4, width = 5;
using Image = std::vector<float>;

std::string image(int64_t channels) { return "tensor<1x4x5x" + std::to_string(channels) + "xf32>"; }

/// A kernel that adds or subtracts two images.
std::string elementwise(const std::string &name, const std::string &op, int64_t channels = 8) {
  const std::string type = image(channels);
  return "func.func private @" + name + "(%x: " + type + ", %y: " + type + ") -> " + type + R"( {
  %e = tensor.empty() : )" +
         type + "\n  %z = linalg." + op + " ins(%x, %y : " + type + ", " + type + ") outs(%e : " + type + ") -> " + type +
         "\n  return %z : " + type + "\n}\n";
}

/// A 3x3 convolution to 8 channels, padded by `low` before and `high` after rows and columns.
std::string convolution(const std::string &name, int64_t channels, int64_t low, int64_t high, int64_t stride,
                        float padding = 0) {
  auto shape = [](int64_t h, int64_t w, int64_t c) {
    return "tensor<1x" + std::to_string(h) + "x" + std::to_string(w) + "x" + std::to_string(c) + "xf32>";
  };
  const std::string in = image(channels), weights = "tensor<3x3x" + std::to_string(channels) + "x8xf32>";
  const std::string padded = shape(height + low + high, width + low + high, channels);
  const std::string out = shape((height + low + high - 3) / stride + 1, (width + low + high - 3) / stride + 1, 8);
  const std::string l = std::to_string(low), h = std::to_string(high), s = std::to_string(stride);
  return "func.func private @" + name + "(%x: " + in + ", %w: " + weights + ") -> " + out + R"( {
  %zero = arith.constant 0.0 : f32
  %around = arith.constant )" +
         std::to_string(padding) + R"( : f32
  %p = tensor.pad %x low[0, )" +
         l + ", " + l + ", 0] high[0, " + h + ", " + h + R"(, 0] {
  ^bb0(%i: index, %j: index, %k: index, %m: index):
    tensor.yield %around : f32
  } : )" +
         in + " to " + padded + "\n  %e = tensor.empty() : " + out + "\n  %f = linalg.fill ins(%zero : f32) outs(%e : " + out +
         ") -> " + out + "\n  %y = linalg.conv_2d_nhwc_hwcf {strides = dense<" + s +
         "> : vector<2xi64>} ins(%p, %w : " + padded + ", " + weights + ") outs(%f : " + out + ") -> " + out +
         "\n  return %y : " + out + "\n}\n";
}

std::string concatenation(const std::string &name) {
  return "func.func private @" + name + "(%x: " + image(8) + ", %y: " + image(8) + ") -> " + image(16) +
         "{\n  %z = tensor.concat dim(3) %x, %y : (" + image(8) + ", " + image(8) + ") -> " + image(16) +
         "\n  return %z : " + image(16) + "\n}\n";
}

Image convolved(const Image &x, const Image &w, int64_t channels, int64_t low, int64_t high, int64_t stride,
                float padding = 0) {
  Image y;
  for (int64_t i = -low; i + 3 <= height + high; i += stride)
    for (int64_t j = -low; j + 3 <= width + high; j += stride)
      for (int64_t f = 0; f < 8; ++f) {
        float sum = 0;
        for (int64_t tap = 0; tap < 9; ++tap)
          for (int64_t c = 0; c < channels; ++c) {
            const int64_t h = i + tap / 3, v = j + tap % 3;
            const bool isInside = h >= 0 && v >= 0 && h < height && v < width;
            sum += (isInside ? x[(h * width + v) * channels + c] : padding) * w[(tap * channels + c) * 8 + f];
          }
        y.push_back(sum);
      }
  return y;
}

Image concatenated(const Image &a, const Image &b) {
  Image y;
  for (size_t pixel = 0; pixel < a.size() / 8; ++pixel) {
    y.insert(y.end(), a.begin() + pixel * 8, a.begin() + pixel * 8 + 8);
    y.insert(y.end(), b.begin() + pixel * 8, b.begin() + pixel * 8 + 8);
  }
  return y;
}

Image combined(const Image &a, const Image &b, float sign) {
  Image y(a);
  for (size_t i = 0; i < y.size(); ++i)
    y[i] += sign * b[i];
  return y;
}

/// Small whole numbers, so that all sums are exact.
Image smallNumbers(size_t count, unsigned seed, int from, int to) {
  Image values;
  for (uint8_t byte : someValues<uint8_t>(count, seed))
    values.push_back(static_cast<float>(from + byte % (to - from + 1)));
  return values;
}

struct PlacementTest : testing::Test {
  const Image x = smallNumbers(height * width * 8, 1, -4, 4), w = smallNumbers(9 * 8 * 8, 2, -1, 1),
              v = smallNumbers(9 * 16 * 8, 3, -1, 1);
  std::vector<HostTensor> inputs{tensorOf(x, {1, height, width, 8}), tensorOf(w, {3, 3, 8, 8}), tensorOf(v, {3, 3, 16, 8})};
  const std::string arguments = "(%x: " + image(8) + ", %w: tensor<3x3x8x8xf32>, %v: tensor<3x3x16x8xf32>)";

  std::vector<Image> run(const std::string &text) {
    std::vector<Image> images;
    for (const HostTensor &tensor : runEverywhere(text, inputs))
      images.push_back(valuesOf<float>(tensor));
    return images;
  }
};

/// One tensor for two convolutions with different amounts of padding, one with another value around it, and a sum.
TEST_F(PlacementTest, ReadersOfAPaddedTensorAgree) {
  const std::string i = image(8), weights = "tensor<3x3x8x8xf32>", small = "tensor<1x2x2x8xf32>";
  auto images = run(elementwise("twice", "add") + convolution("conv", 8, 1, 1, 1) + convolution("stride", 8, 1, 0, 2) +
                    convolution("ones", 8, 1, 1, 1, 1) + elementwise("plus", "add") + "func.func @main" + arguments + " -> (" +
                    i + ", " + small + ", " + i + R"() {
  %t = call @twice(%x, %x) : ()" +
                    i + ", " + i + ") -> " + i + "\n  %c = call @conv(%t, %w) : (" + i + ", " + weights + ") -> " + i +
                    "\n  %s = call @stride(%t, %w) : (" + i + ", " + weights + ") -> " + small +
                    "\n  %o = call @ones(%t, %w) : (" + i + ", " + weights + ") -> " + i + "\n  %p = call @plus(%t, %c) : (" +
                    i + ", " + i + ") -> " + i + "\n  return %p, %s, %o : " + i + ", " + small + ", " + i + "\n}");
  ASSERT_EQ(images.size(), 3u);
  const Image t = combined(x, x, 1);
  EXPECT_EQ(images[0], combined(t, convolved(t, w, 8, 1, 1, 1), 1));
  EXPECT_EQ(images[1], convolved(t, w, 8, 1, 0, 2));
  EXPECT_EQ(images[2], convolved(t, w, 8, 1, 1, 1, 1));
}

/// Two sums are parts of a tensor that a convolution pads; two others of one that is returned.
TEST_F(PlacementTest, PartsAreWrittenIntoTheirConcatenation) {
  const std::string i = image(8), wide = image(16);
  auto call = [&](const std::string &name, const std::string &kernel, const std::string &operands) {
    return "  %" + name + " = call @" + kernel + "(" + operands + ") : (" + i + ", " + i + ") -> ";
  };
  const std::string text =
      elementwise("a", "add") + elementwise("b", "sub") + elementwise("c", "add") + elementwise("d", "mul") +
      concatenation("first") + concatenation("second") + convolution("conv", 16, 1, 1, 1) + "func.func @main" + arguments +
      " -> (" + i + ", " + wide + ") {\n" + call("p", "a", "%x, %x") + i + "\n" + call("q", "b", "%p0, %x") + i + "\n" +
      call("j", "first", "%p, %q") + wide + "\n  %y = call @conv(%j, %v) : (" + wide + ", tensor<3x3x16x8xf32>) -> " + i +
      "\n" + call("m", "c", "%x, %x") + i + "\n" + call("n", "d", "%x, %x") + i + "\n" + call("k", "second", "%m, %n") + wide +
      "\n  return %y, %k : " + i + ", " + wide + "\n}";
  std::string own = text;
  own.replace(own.find("%p0"), 3, "%x");
  auto images = run(own);
  ASSERT_EQ(images.size(), 2u);
  const Image twice = combined(x, x, 1), nothing = combined(x, x, -1);
  Image squares(x);
  for (float &value : squares)
    value *= value;
  EXPECT_EQ(images[0], convolved(concatenated(twice, nothing), v, 16, 1, 1, 1));
  EXPECT_EQ(images[1], concatenated(twice, squares));

  Context context;
  auto executable = context.compile(own);
  ASSERT_TRUE(static_cast<bool>(executable)) << llvm::toString(executable.takeError());
  // Nothing is left of the concatenations, and kernels that write parts have no use alone.
  EXPECT_EQ((*executable)->kernelNames(), (std::vector<std::string>{"a", "b", "c", "d", "conv"}));
  std::vector<HostTensor> outputs;
  EXPECT_EQ(llvm::toString((*executable)->runKernel("a", {inputs[0], inputs[0]}, outputs)),
            "kernel 'a' works on parts of larger tensors and only runs in @main");

  // A part that somebody else reads is not moved, and the concatenation is a copy.
  own = text;
  own.replace(own.find("%p0"), 3, "%p");
  images = run(own);
  ASSERT_EQ(images.size(), 2u);
  EXPECT_EQ(images[0], convolved(concatenated(twice, x), v, 16, 1, 1, 1));
  EXPECT_EQ(images[1], concatenated(twice, squares));
}

/// Kernels that make each pixel of the same pixel work in any order of dimensions, so that transpositions around them are left out; a
/// kernel that looks at windows of pixels keeps them.
TEST_F(PlacementTest, TranspositionsAroundPointwiseKernelsAreLeftOut) {
  const int64_t pixels = 24 * 25;
  const Image planes = smallNumbers(8 * pixels, 4, -4, 4);
  const std::string nchw = "tensor<1x8x24x25xf32>", nhwc = "tensor<1x24x25x8xf32>";
  auto transposition = [](const std::string &name, const std::string &from, const std::string &to, const std::string &order) {
    return "func.func private @" + name + "(%x: " + from + ") -> " + to + " {\n  %e = tensor.empty() : " + to +
           "\n  %t = linalg.transpose ins(%x : " + from + ") outs(%e : " + to + ") permutation = " + order +
           "\n  return %t : " + to + "\n}\n";
  };
  std::string elements;
  for (float value : Image(w.begin(), w.begin() + 64))
    elements += (elements.empty() ? "" : ", ") + std::to_string(value);
  const std::string pointwise = "func.func private @pointwise(%x: " + nhwc + ") -> " + nhwc + R"( {
  %zero = arith.constant 0.0 : f32
  %flat = arith.constant dense<[)" +
                                elements + R"(]> : tensor<64xf32>
  %e = tensor.empty() : )" + nhwc +
                                "\n  %f = linalg.fill ins(%zero : f32) outs(%e : " + nhwc + ") -> " + nhwc + R"(
  %y = linalg.generic {indexing_maps = [affine_map<(h, v, f, c) -> (0, h, v, c)>, affine_map<(h, v, f, c) -> (c * 8 + f)>,
      affine_map<(h, v, f, c) -> (0, h, v, f)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %flat : )" + nhwc +
                                ", tensor<64xf32>) outs(%f : " + nhwc + R"() {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> )" + nhwc +
                                "\n  return %y : " + nhwc + "\n}\n";
  const std::string squares = "func.func private @squares(%x: " + nhwc + ") -> " + nhwc + "{\n  %e = tensor.empty() : " + nhwc +
                              "\n  %y = linalg.mul ins(%x, %x : " + nhwc + ", " + nhwc + ") outs(%e : " + nhwc + ") -> " +
                              nhwc + "\n  return %y : " + nhwc + "\n}\n";
  auto text = [&](const std::string &kernel) {
    return transposition("there", nchw, nhwc, "[0, 2, 3, 1]") + transposition("back", nhwc, nchw, "[0, 3, 1, 2]") + pointwise +
           squares + "func.func @main(%x: " + nchw + ") -> " + nchw + " {\n  %t = call @there(%x) : (" + nchw + ") -> " + nhwc +
           "\n  %p = call @" + kernel + "(%t) : (" + nhwc + ") -> " + nhwc + "\n  %s = call @squares(%p) : (" + nhwc + ") -> " +
           nhwc + "\n  %y = call @back(%s) : (" + nhwc + ") -> " + nchw + "\n  return %y : " + nchw + "\n}";
  };
  Image expected;
  for (int64_t f = 0; f < 8; ++f)
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      float sum = 0;
      for (int64_t c = 0; c < 8; ++c)
        sum += planes[c * pixels + pixel] * w[c * 8 + f];
      expected.push_back(sum * sum);
    }
  inputs = {tensorOf(planes, {1, 8, 24, 25})};
  EXPECT_EQ(run(text("pointwise")), std::vector<Image>{expected});
  Context context;
  auto executable = context.compile(text("pointwise"));
  ASSERT_TRUE(static_cast<bool>(executable)) << llvm::toString(executable.takeError());
  EXPECT_EQ((*executable)->kernelNames(), (std::vector<std::string>{"pointwise", "squares"}));

  // Each pixel becomes its right neighbour, the last one of a row the first one.
  const std::string shift = "func.func private @shift(%x: " + nhwc + ") -> " + nhwc + R"( {
  %left = tensor.extract_slice %x[0, 0, 0, 0] [1, 24, 1, 8] [1, 1, 1, 1] : )" +
                            nhwc + R"( to tensor<1x24x1x8xf32>
  %right = tensor.extract_slice %x[0, 0, 1, 0] [1, 24, 24, 8] [1, 1, 1, 1] : )" +
                            nhwc + R"( to tensor<1x24x24x8xf32>
  %y = tensor.concat dim(2) %right, %left : (tensor<1x24x24x8xf32>, tensor<1x24x1x8xf32>) -> )" +
                            nhwc + "\n  return %y : " + nhwc + "\n}\n";
  Image shifted(planes);
  for (int64_t i = 0; i < static_cast<int64_t>(planes.size()); ++i) {
    const float value = planes[i % 25 == 24 ? i - 24 : i + 1];
    shifted[i] = value * value;
  }
  EXPECT_EQ(run(shift + text("shift")), std::vector<Image>{shifted});
}

/// A kernel that is called for two tensors has one form.
TEST_F(PlacementTest, KernelsThatAreCalledTwiceReadDenseTensors) {
  const std::string i = image(8), weights = "tensor<3x3x8x8xf32>";
  auto images =
      run(elementwise("twice", "add") + convolution("conv", 8, 1, 1, 1) + "func.func @main" + arguments + " -> " + i + R"( {
  %t = call @twice(%x, %x) : ()" +
          i + ", " + i + ") -> " + i + "\n  %c = call @conv(%t, %w) : (" + i + ", " + weights + ") -> " + i +
          "\n  %d = call @conv(%c, %w) : (" + i + ", " + weights + ") -> " + i + "\n  return %d : " + i + "\n}");
  ASSERT_EQ(images.size(), 1u);
  EXPECT_EQ(images[0], convolved(convolved(combined(x, x, 1), w, 8, 1, 1, 1), w, 8, 1, 1, 1));
}

} // namespace
