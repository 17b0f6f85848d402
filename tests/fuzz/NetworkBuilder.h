//===- NetworkBuilder.h - Operators with known results ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators of the graph dialect with random constants. Every value is computed
// as it is made, by plain loops over the definitions in GraphOps.td, which share
// nothing with the compiler.
//===----------------------------------------------------------------------===//
#ifndef TESTS_FUZZ_NETWORKBUILDER_H
#define TESTS_FUZZ_NETWORKBUILDER_H

#include "tests/fuzz/RandomNetwork.h"
#include "tests/fuzz/Seed.h"

#include "mlir/IR/Builders.h"

#include <array>
#include <optional>
#include <random>

namespace tw::fuzz {

using Shape = std::vector<int64_t>;

int64_t countOf(const Shape &shape);

/// Attributes of a 2-D window.
struct Window {
  std::array<int64_t, 2> kernel{1, 1}, strides{1, 1}, dilations{1, 1};
  std::array<int64_t, 4> pads{}; ///< top, left, bottom, right
};

/// Most values are images, in one of both layouts.
class NetworkBuilder {
public:
  NetworkBuilder(mlir::MLIRContext &context, uint64_t seed, bool isFloat);

protected:
  struct Value {
    mlir::Value ir;
    Tensor tensor;
  };
  enum class Binary { Add, Sub, Mul, Min, Max, Div };

  int64_t pick(int64_t low, int64_t high) { return low + int64_t(random() % uint64_t(high - low + 1)); }
  bool chance(int64_t percent) { return pick(1, 100) <= percent; }
  double real() { return double(random() >> 11) * 0x1p-52 - 1; }
  Kind anyKind() { return isFloat ? Kind::F32 : onlyKind ? *onlyKind : chance(50) ? Kind::I8 : Kind::U8; }
  static double low(Kind kind) { return kind == Kind::U8 ? 0 : -128; }
  static double high(Kind kind) { return kind == Kind::U8 ? 255 : 127; }
  int32_t zeroPoint(Kind kind) { return chance(30) ? 0 : int32_t(pick(int64_t(low(kind)), int64_t(high(kind)))); }
  Tensor randomTensor(Shape shape, Kind kind, double scale = 1);

  /// Where the channel, height and width dims of an image are.
  int c() const { return nhwc ? 3 : 1; }
  int h() const { return nhwc ? 1 : 2; }
  int w() const { return nhwc ? 2 : 3; }
  Shape image(int64_t n, int64_t height, int64_t width, int64_t channels) const {
    return nhwc ? Shape{n, height, width, channels} : Shape{n, channels, height, width};
  }
  int64_t outputOf(const Window &window, int64_t extent, int d) const {
    return (extent + window.pads[d] + window.pads[d + 2] - window.dilations[d] * (window.kernel[d] - 1) - 1) /
               window.strides[d] +
           1;
  }

  /// Begins the function with these inputs.
  void begin(Network &network, std::vector<Tensor> inputs);
  /// Ends it: the last value is an output, now and then one in the middle too, and if so asked all that nothing reads.
  void end(Network &network, bool withUnread = false);

  Value constant(Tensor tensor);
  // Each makes one value, requantised behind sums of integers. Integers have random scales and zero points.
  Value conv(const Value &x, const Window &window, int64_t outChannels, int64_t groups);
  /// [m, k] times random weights of `n` columns.
  Value matmul(const Value &a, int64_t n);
  /// [b, h, m, k] times [b, h, k, n], where the leading dims of either may broadcast, from fewer dims too.
  Value product(const Value &a, const Value &b);
  Value maxPool(const Value &x, const Window &window);
  Value averagePool(const Value &x, const Window &window, bool includePad);
  Value globalAveragePool(const Value &x);
  /// Either may broadcast, from fewer dims too. Of 8-bit integers only Add, in the formula of docs/design/quantised-arithmetic.md.
  Value binary(Binary which, const Value &a, const Value &b);
  /// One of the functions of one element, by a number below numUnary().
  Value unary(const Value &x, int64_t which);
  int64_t numUnary() const { return !isFloat ? 2 : isOldGenerator() ? 7 : 12; }
  /// exp(x), and the square root of x's magnitude and a constant.
  Value exp(const Value &x);
  Value root(const Value &x, float offset);
  /// In dim 1, by random constants.
  Value batchNorm(const Value &x);
  Value softmax(const Value &x, size_t axis);
  // Of integers, computed in fp32: nothing where a result is so near to the middle between two integers that its rounding is anybody's guess.
  std::optional<Value> quantisedAveragePool(const Value &x, const Window &window, bool includePad);
  std::optional<Value> quantisedSoftmax(const Value &x, size_t axis);
  /// "max", "sum" or "mean" over `axes`, ascending, which stay with an extent of 1 or go.
  Value reduce(const Value &x, llvm::StringRef kind, const Shape &axes, bool keepdims = true);
  // Scales are powers of two, one for all or one for each index of a dim: sums of few numbers are exact.
  Value dequantize(const Value &x, bool perTensor = false);
  Value quantize(const Value &x);
  // Of dequantised images in nchw, or matrices, with dequantised weights: the compiler makes integers of them.
  Value dequantisedConv(const Value &x, const Window &window, int64_t outChannels, int64_t groups);
  Value dequantisedMatmul(const Value &a, int64_t n);
  Value layerNorm(const Value &x, size_t axis);
  Value concat(const std::vector<Value> &parts, size_t axis);
  Value transpose(const Value &x, std::array<int64_t, 4> perm);
  Value slice(const Value &x, std::array<int64_t, 4> starts, std::array<int64_t, 4> steps, Shape shape);
  Value pad(const Value &x, std::array<int64_t, 4> before, std::array<int64_t, 4> after, double value);
  Value reshape(const Value &x, Shape shape);

  mlir::OpBuilder b;
  std::mt19937_64 random;
  bool isFloat, nhwc = false;
  std::optional<Kind> onlyKind; ///< of all integers but weights
  std::vector<Value> values;    ///< that can be outputs

private:
  mlir::Type elementOf(Kind kind);
  mlir::RankedTensorType typeOf(const Tensor &tensor) {
    return mlir::RankedTensorType::get(tensor.shape, elementOf(tensor.kind));
  }
  mlir::Value int32Constant(const std::vector<int32_t> &numbers);
  struct Quantisation {
    std::vector<float> scales;
    std::vector<int32_t> zeroPoints;
    size_t axis = 0;
  };
  Quantisation randomQuantisation(const Shape &shape, Kind kind, int exponent, bool perTensor);
  Value dequantize(const Value &x, const Quantisation &q);
  Value dequantisedWeights(const Shape &shape, size_t axis);
  Tensor convolved(const Tensor &x, double xZero, const Tensor &weights, const Window &window, int64_t groups) const;
  Tensor averaged(const Tensor &x, double zero, const Window &window, bool includePad) const;
  Tensor multiplied(const Tensor &a, double aZero, const Tensor &weights, double bZero) const;
  mlir::Location where() { return mlir::NameLoc::get(b.getStringAttr("n" + std::to_string(values.size()))); }
  llvm::StringRef layout() const { return nhwc ? "nhwc" : "nchw"; }
  /// Of an element of an image.
  int64_t place(const Tensor &x, int64_t n, int64_t y, int64_t column, int64_t channel) const {
    return nhwc ? ((n * x.shape[1] + y) * x.shape[2] + column) * x.shape[3] + channel
                : ((n * x.shape[1] + channel) * x.shape[2] + y) * x.shape[3] + column;
  }
  /// Calls `body` with the position of each tap inside the image.
  template <typename Body> void taps(const Window &window, const Tensor &x, int64_t oh, int64_t ow, Body body) const {
    for (int64_t kh = 0; kh < window.kernel[0]; ++kh)
      for (int64_t kw = 0; kw < window.kernel[1]; ++kw) {
        int64_t ih = oh * window.strides[0] - window.pads[0] + kh * window.dilations[0];
        int64_t iw = ow * window.strides[1] - window.pads[1] + kw * window.dilations[1];
        if (ih >= 0 && iw >= 0 && ih < x.shape[h()] && iw < x.shape[w()])
          body(kh, kw, ih, iw);
      }
  }
  template <typename Body> void forEachPixel(const Tensor &y, Body body) const;
  /// int32 sums to 8 bits; floats stay what they are. `channel` is the dim of the channels.
  Value finish(mlir::Value sum, Tensor sums, int channel);
};

} // namespace tw::fuzz

#endif // TESTS_FUZZ_NETWORKBUILDER_H
