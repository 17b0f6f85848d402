//===- RuntimeComposedTest.cpp - com.microsoft by ONNX's own operators ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/unit/operators/RealNodes.h"

#include <cmath>

using namespace tw::operators;
using namespace tw::operators::test;

namespace {

/// Element of a 3x3 convolution with pads of 1 and a group for each `perGroup` channels of x[N, C, H, W].
double convolution(const HostTensor &x, const HostTensor &w, const Shape &i, int64_t perGroup, double xZero = 0) {
  const int64_t outputs = w.shape[0] / (x.shape[1] / perGroup), first = i[1] / outputs * perGroup;
  double sum = 0;
  for (int64_t c = 0; c < perGroup; ++c)
    for (int64_t dy = 0; dy < 3; ++dy)
      for (int64_t dx = 0; dx < 3; ++dx) {
        const int64_t row = i[2] + dy - 1, column = i[3] + dx - 1;
        if (row >= 0 && row < x.shape[2] && column >= 0 && column < x.shape[3])
          sum += (at(x, {i[0], first + c, row, column}) - xZero) * at(w, {i[1], c, dy, dx});
      }
  return sum;
}

TEST(FusedConv, AddsThenActs) {
  RandomTensors random;
  const HostTensor x = random.reals({2, 4, 5, 3}), w = random.reals({6, 2, 3, 3}), b = random.reals({6}),
                   z = random.reals({2, 6, 5, 3});
  auto node = [](const char *type) {
    return RealNode(std::string("com.microsoft:") + type).integers("pads", {1, 1, 1, 1}).integer("group", 2);
  };
  auto sum = [&](const Shape &i) { return convolution(x, w, i, 2) + at(b, {i[1]}) + at(z, i); };
  expectElements(node("FusedConv").text("activation", "Relu").run({x, w, b, z}), z.shape,
                 [&](const Shape &i) { return std::max(sum(i), 0.0); });
  const HostTensor y =
      node("FusedConv").text("activation", "Clip").reals("activation_params", {-0.5f, 0.25f}).run({x, w, b, z});
  expectElements(y, z.shape, [&](const Shape &i) { return std::min(std::max(sum(i), -0.5), 0.25); });
  // The same with the channels last; NhwcConv has its weights so too.
  const std::vector<int64_t> last = {0, 2, 3, 1};
  for (const char *type : {"NhwcConv", "NhwcFusedConv"}) {
    const HostTensor weights = std::string(type) == "NhwcConv" ? transposed(w, last) : w;
    EXPECT_EQ(node(type)
                  .text("activation", "Clip")
                  .reals("activation_params", {-0.5f, 0.25f})
                  .run({transposed(x, last), weights, b, transposed(z, last)})
                  .bytes,
              transposed(y, last).bytes);
  }
  EXPECT_EQ(node("FusedConv").error({x, w, b, b}), "Z has shape [6], expected [2, 6, 5, 3]");
  EXPECT_EQ(node("NhwcConv").error({b, w}), "an input has shape [6], expected at least rank 3");
}

TEST(QLinearConv, ChannelsLast) {
  RandomTensors random;
  const HostTensor x = random.integers({1, 4, 5, 3}, ElementKind::U8, 0, 255),
                   w = random.integers({6, 4, 3, 3}, ElementKind::I8, -9, 9);
  const std::vector<int64_t> last = {0, 2, 3, 1};
  const HostTensor y = RealNode("com.microsoft:QLinearConv")
                           .integers("pads", {1, 1, 1, 1})
                           .integer("channels_last", 1)
                           .run({transposed(x, last), scalar(0.02f), integers({}, {100}, ElementKind::U8), w, scalar(0.03f),
                                 integers({}, {0}, ElementKind::I8), scalar(0.25f), integers({}, {90}, ElementKind::U8)});
  const float multiplier = 0.02f * 0.03f / 0.25f;
  expectElements(
      y, {1, 5, 3, 6},
      [&](const Shape &i) {
        const float sum = float(convolution(x, w, {i[0], i[3], i[1], i[2]}, 4, 100));
        return std::min(std::max(std::nearbyint(double(sum * multiplier)) + 90, 0.0), 255.0);
      },
      0);
}

TEST(QLinearAveragePool, Windows) {
  const HostTensor x = RandomTensors().integers({1, 2, 4, 4}, ElementKind::U8, 0, 255);
  for (bool isLast : {false, true}) {
    RealNode node("com.microsoft:QLinearAveragePool");
    node.integers("kernel_shape", {2, 2})
        .integers("strides", {2, 2})
        .integers("pads", {1, 0, 1, 0})
        .integer("channels_last", isLast);
    const HostTensor y = node.run({isLast ? transposed(x, {0, 2, 3, 1}) : x, scalar(0.02f),
                                   integers({}, {100}, ElementKind::U8), scalar(0.03f), integers({}, {90}, ElementKind::U8)});
    expectElements(
        isLast ? transposed(y, {0, 3, 1, 2}) : y, {1, 2, 3, 2},
        [&](const Shape &i) {
          double sum = 0;
          int64_t count = 0;
          for (int64_t row = 2 * i[2] - 1; row < 2 * i[2] + 1; ++row)
            for (int64_t column = 2 * i[3]; column < 2 * i[3] + 2; ++column)
              if (row >= 0 && row < 4) {
                sum += 0.02 * (at(x, {0, i[1], row, column}) - 100);
                ++count;
              }
          return std::min(std::max(sum / double(count) / 0.03 + 90, 0.0), 255.0);
        },
        0.501);
  }
}

TEST(RuntimeComposed, Moves) {
  const HostTensor x = reals({2, 3}, {1, 2, 3, 4, 5, 6});
  auto elements = [](const HostTensor &y) { return integersOf(y); };
  using List = std::vector<int64_t>;
  EXPECT_EQ(elements(RealNode("com.microsoft:Pad").run({x, integers({1, 4}, {0, 1, 0, 0}, ElementKind::I64), reals({1}, {9})})),
            (List{9, 1, 2, 3, 9, 4, 5, 6}));
  EXPECT_EQ(elements(RealNode("com.microsoft:Trilu").integer("upper", 0).run({x})), (List{1, 0, 0, 4, 5, 0}));
  EXPECT_EQ(elements(RealNode("com.microsoft:GatherND").run({x, integers({2, 2}, {0, 1, 1, 2})})), (List{2, 6}));
  EXPECT_EQ(elements(RealNode("com.microsoft:Range").run({integers({1}, {2}), integers({1}, {5})})), (List{2, 3, 4}));
  EXPECT_EQ(elements(RealNode("com.microsoft:Range").run({integers({}, {5}), integers({}, {0}), integers({}, {-2})})),
            (List{5, 3, 1}));
  const std::vector<Value> unique = RealNode("com.microsoft:Unique", 3).runAll({reals({5}, {2, 1, 1, 3, 2})});
  EXPECT_EQ(elements(*unique[0].tensor), (List{2, 1, 3}));
  EXPECT_EQ(elements(*unique[1].tensor), (List{0, 1, 1, 2, 0}));
  EXPECT_EQ(elements(*unique[2].tensor), (List{2, 2, 1}));
  const HostTensor image = reals({1, 2, 2, 1}, {1, 2, 3, 4});
  EXPECT_EQ(elements(RealNode("com.microsoft:NhwcMaxPool").integers("kernel_shape", {2, 2}).run({image})), (List{4}));
  EXPECT_EQ(
      elements(RealNode("com.microsoft:ConvTransposeWithDynamicPads")
                   .run({reals({1, 1, 3}, {1, 2, 3}), reals({1, 1, 2}, {1, 10}), integers({2}, {1, 0}, ElementKind::I64)})),
      (List{12, 23, 30}));
}

TEST(RuntimeComposed, QuantizeAndDequantize) {
  const HostTensor x = reals({2, 2}, {1, -1, 2.5, 100});
  const HostTensor scales = reals({2}, {0.5, 1}), zeros = integers({2}, {128, 3}, ElementKind::U8);
  const HostTensor q = RealNode("com.microsoft:QuantizeLinear").integer("axis", 0).run({x, scales, zeros});
  EXPECT_EQ(integersOf(q), (std::vector<int64_t>{130, 126, 5, 103}));
  const HostTensor y = RealNode("com.microsoft:DequantizeLinear").integer("axis", 0).run({q, scales, zeros});
  EXPECT_EQ(integersOf(y), (std::vector<int64_t>{1, -1, 2, 100}));
}

} // namespace
