//===- RuntimeDomainTest.cpp - Operators of com.microsoft -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/unit/operators/RealNodes.h"

#include <cmath>
#include <numeric>

using namespace tw::operators;
using namespace tw::operators::test;

namespace {

double gelu(double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double fastGelu(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x))); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

//===----------------------------------------------------------------------===//
// Activations and products
//===----------------------------------------------------------------------===//

TEST(RuntimeActivations, Elements) {
  RandomTensors random;
  const HostTensor x = random.reals({2, 3, 4}, -4, 4), bias = random.reals({4}), skip = random.reals({2, 3, 4});
  auto shifted = [&](const Shape &i) { return at(x, i) + at(bias, {i[2]}); };
  expectElements(RealNode("com.microsoft:Gelu").run({x}), x.shape, [&](const Shape &i) { return gelu(at(x, i)); });
  expectElements(RealNode("com.microsoft:BiasGelu").run({x, bias}), x.shape, [&](const Shape &i) { return gelu(shifted(i)); });
  expectElements(RealNode("com.microsoft:FastGelu").run({x}), x.shape, [&](const Shape &i) { return fastGelu(at(x, i)); });
  expectElements(RealNode("com.microsoft:FastGelu").run({x, bias}), x.shape,
                 [&](const Shape &i) { return fastGelu(shifted(i)); });
  expectElements(RealNode("com.microsoft:QuickGelu").run({x}), x.shape,
                 [&](const Shape &i) { return at(x, i) * sigmoid(1.702 * at(x, i)); });
  expectElements(RealNode("com.microsoft:BiasAdd").run({x, bias, skip}), x.shape,
                 [&](const Shape &i) { return shifted(i) + at(skip, i); });
  expectElements(RealNode("com.microsoft:BiasSplitGelu").run({x, bias}), {2, 3, 2}, [&](const Shape &i) {
    return shifted(i) * gelu(shifted({i[0], i[1], i[2] + 2}));
  });
  expectElements(RealNode(":Affine").real("alpha", 2).real("beta", 3).run({x}), x.shape,
                 [&](const Shape &i) { return 2 * at(x, i) + 3; });
  expectElements(RealNode(":ScaledTanh").real("alpha", 2).real("beta", 3).run({x}), x.shape,
                 [&](const Shape &i) { return 2 * std::tanh(3 * at(x, i)); });
  expectElements(RealNode(":ParametricSoftplus").real("alpha", 2).real("beta", 3).run({x}), x.shape,
                 [&](const Shape &i) { return 2 * std::log(1 + std::exp(3 * at(x, i))); });
  const HostTensor image = random.reals({1, 3, 2, 2});
  expectElements(RealNode(":ImageScaler").real("scale", 2).reals("bias", {1, 2, 3}).run({image}), image.shape,
                 [&](const Shape &i) { return 2 * at(image, i) + double(i[1]) + 1; });
  EXPECT_EQ(RealNode("com.microsoft:BiasGelu").error({x, skip}), "bias has shape [2, 3, 4], expected [4]");
  EXPECT_EQ(RealNode("com.microsoft:BiasGelu").error({x}), "input 1 is missing");
  EXPECT_EQ(RealNode("com.microsoft:Gelu").error({integers({1}, {1})}), "a tensor is of int32, expected floats");
}

TEST(FusedMatMul, TurnsOfMatricesAndBatches) {
  RandomTensors random;
  const HostTensor a = random.reals({2, 3, 4, 5}), b = random.reals({3, 6, 5});
  const HostTensor y = RealNode("com.microsoft:FusedMatMul").integer("transB", 1).real("alpha", 0.5f).run({a, b});
  auto product = [&](const Shape &i) {
    double sum = 0;
    for (int64_t k = 0; k < 5; ++k)
      sum += at(a, {i[0], i[1], i[2], k}) * at(b, {i[1], i[3], k});
    return 0.5 * sum;
  };
  expectElements(y, {2, 3, 4, 6}, product);
  // With its first dim behind the batch dims, a is [m, b0, b1, k].
  const HostTensor behind = transposed(a, {2, 0, 1, 3});
  const RealNode batched =
      RealNode("com.microsoft:FusedMatMul").integer("transB", 1).integer("transBatchA", 1).real("alpha", 0.5f);
  expectElements(batched.run({behind, b}), {2, 3, 4, 6}, product);
  EXPECT_EQ(RealNode("com.microsoft:TransposeMatMul").error({a, b}),
            "matrices of shapes [2, 3, 4, 5] and [3, 6, 5] have no product");
}

TEST(FusedGemm, ActivationsBehindTheSum) {
  RandomTensors random;
  const HostTensor a = random.reals({4, 2}), b = random.reals({4, 3}), c = random.reals({3});
  auto sum = [&](const Shape &i) {
    double sum = 0;
    for (int64_t k = 0; k < 4; ++k)
      sum += at(a, {k, i[0]}) * at(b, {k, i[1]});
    return 0.5 * sum + 2 * at(c, {i[1]});
  };
  auto node = [&] { return RealNode("com.microsoft:FusedGemm").integer("transA", 1).real("alpha", 0.5f).real("beta", 2); };
  expectElements(node().run({a, b, c}), {2, 3}, sum);
  expectElements(node().text("activation", "LeakyRelu").real("activation_alpha", 0.2f).run({a, b, c}), {2, 3},
                 [&](const Shape &i) { return sum(i) >= 0 ? sum(i) : 0.2 * sum(i); });
  EXPECT_EQ(node().text("activation", "Cube").error({a, b, c}), "activation \"Cube\" is not known");
  EXPECT_EQ(node().error({a, b, random.reals({2, 1, 3})}), "C has shape [2, 1, 3], expected one that broadcasts to [2, 3]");
  const HostTensor y = RealNode("com.microsoft:GemmFastGelu").run({transposed(a, {1, 0}), b, c});
  expectElements(y, {2, 3}, [&](const Shape &i) { return fastGelu(2 * sum(i) - 3 * at(c, {i[1]})); });
}

//===----------------------------------------------------------------------===//
// Norms and embeddings
//===----------------------------------------------------------------------===//

/// (x(i) - mean) / sqrt(variance + epsilon) over i < count.
template <typename X> double normal(X &&x, int64_t count, int64_t at, double epsilon, bool hasMean = true) {
  double mean = 0, square = 0;
  for (int64_t i = 0; hasMean && i < count; ++i)
    mean += x(i) / double(count);
  for (int64_t i = 0; i < count; ++i)
    square += (x(i) - mean) * (x(i) - mean) / double(count);
  return (x(at) - mean) / std::sqrt(square + epsilon);
}

TEST(SkipNorms, LayerAndSimplified) {
  RandomTensors random;
  const HostTensor x = random.reals({2, 3, 4}), skip = random.reals({3, 4}), gamma = random.reals({4}),
                   beta = random.reals({4}), bias = random.reals({4});
  auto sum = [&](const Shape &i) { return at(x, i) + at(skip, {i[1], i[2]}) + at(bias, {i[2]}); };
  for (bool hasMean : {true, false}) {
    RealNode node(hasMean ? "com.microsoft:SkipLayerNormalization" : "com.microsoft:SkipSimplifiedLayerNormalization", 4);
    node.real("epsilon", 0.01f);
    const std::vector<Value> results =
        hasMean ? node.runAll({x, skip, gamma, beta, bias}) : node.runAll({x, skip, gamma, bias});
    expectElements(*results[0].tensor, x.shape, [&](const Shape &i) {
      auto row = [&](int64_t j) { return sum({i[0], i[1], j}); };
      return normal(row, 4, i[2], 0.01, hasMean) * at(gamma, {i[2]}) + (hasMean ? at(beta, {i[2]}) : 0);
    });
    expectElements(*results[3].tensor, x.shape, sum);
  }
  expectElements(RealNode(":SimplifiedLayerNormalization").real("epsilon", 0.01f).run({x, gamma}), x.shape,
                 [&](const Shape &i) {
                   return normal([&](int64_t j) { return at(x, {i[0], i[1], j}); }, 4, i[2], 0.01, false) * at(gamma, {i[2]});
                 });
  EXPECT_EQ(RealNode("com.microsoft:SkipLayerNormalization").error({x, random.reals({2, 4}), gamma}),
            "shapes [2, 3, 4] and [2, 4] do not broadcast");
  EXPECT_EQ(RealNode("com.microsoft:SkipLayerNormalization").error({x, x, skip}), "gamma has shape [3, 4], expected [4]");
}

TEST(GroupNorm, BothLayouts) {
  RandomTensors random;
  const HostTensor x = random.reals({2, 3, 2, 4}), gamma = random.reals({4}), beta = random.reals({4}),
                   skip = random.reals({2, 4}), bias = random.reals({4});
  auto normed = [&](const Shape &i, auto &&element) {
    const int64_t group = i[3] / 2;
    const double y = normal(
                         [&](int64_t k) {
                           return element(Shape{i[0], k / 4, k / 2 % 2, group * 2 + k % 2});
                         },
                         12, (i[1] * 2 + i[2]) * 2 + i[3] % 2, 0.01) *
                         at(gamma, {i[3]}) +
                     at(beta, {i[3]});
    return y * sigmoid(y);
  };
  RealNode node("com.microsoft:GroupNorm");
  node.integer("groups", 2).integer("activation", 1).real("epsilon", 0.01f);
  const HostTensor y = node.run({x, gamma, beta});
  expectElements(y, x.shape, [&](const Shape &i) { return normed(i, [&](const Shape &k) { return at(x, k); }); });
  RealNode first("com.microsoft:GroupNorm");
  first.integer("groups", 2).integer("activation", 1).real("epsilon", 0.01f).integer("channels_last", 0);
  EXPECT_EQ(first.run({transposed(x, {0, 3, 1, 2}), gamma, beta}).bytes, transposed(y, {0, 3, 1, 2}).bytes);
  RealNode skipNode("com.microsoft:SkipGroupNorm", 2);
  skipNode.integer("groups", 2).integer("activation", 1).real("epsilon", 0.01f);
  auto sum = [&](const Shape &k) { return at(x, k) + at(skip, {k[0], k[3]}) + at(bias, {k[3]}); };
  const std::vector<Value> results = skipNode.runAll({x, gamma, beta, skip, bias});
  expectElements(*results[0].tensor, x.shape, [&](const Shape &i) { return normed(i, sum); });
  expectElements(*results[1].tensor, x.shape, sum);
  EXPECT_EQ(RealNode("com.microsoft:GroupNorm").integer("groups", 3).integer("activation", 0).error({x, gamma, beta}),
            "X of shape [2, 3, 2, 4] cannot have 3 groups of channels");
}

TEST(EmbedLayerNormalization, SumsOfRows) {
  RandomTensors random;
  const HostTensor ids = integers({2, 3}, {4, 0, 2, 1, 1, 3}), segments = integers({2, 3}, {0, 0, 1, 1, 0, 1}),
                   words = random.reals({5, 4}), positions = random.reals({6, 4}), table = random.reals({2, 4}),
                   gamma = random.reals({4}), beta = random.reals({4}), mask = integers({2, 3}, {1, 1, 0, 1, 1, 1});
  RealNode node("com.microsoft:EmbedLayerNormalization", 3);
  node.real("epsilon", 0.01f);
  const std::vector<Value> results =
      node.runAll({ids, segments, words, positions, table, gamma, beta, mask, integers({1, 3}, {5, 4, 3})});
  auto sum = [&](const Shape &i) {
    const int64_t word = int64_t(at(ids, {i[0], i[1]})), segment = int64_t(at(segments, {i[0], i[1]}));
    return at(words, {word, i[2]}) + at(positions, {5 - i[1], i[2]}) + at(table, {segment, i[2]});
  };
  expectElements(*results[0].tensor, {2, 3, 4}, [&](const Shape &i) {
    return normal([&](int64_t j) { return sum({i[0], i[1], j}); }, 4, i[2], 0.01) * at(gamma, {i[2]}) + at(beta, {i[2]});
  });
  EXPECT_EQ(integersOf(*results[1].tensor), (std::vector<int64_t>{2, 3}));
  expectElements(*results[2].tensor, {2, 3, 4}, sum);
  EXPECT_EQ(node.error({integers({1, 1}, {5}), Value(), words, positions, Value(), gamma, beta}),
            "word_embedding has no row 5, its shape is [5, 4]");
}

//===----------------------------------------------------------------------===//
// The rest
//===----------------------------------------------------------------------===//

TEST(RuntimeOthers, Inverse) {
  const HostTensor x = reals({2, 2, 2}, {0, 2, 1, 3, 4, 7, 2, 6});
  expectElements(RealNode("com.microsoft:Inverse").run({x}), x.shape, [&](const Shape &i) {
    const double a = at(x, {i[0], 0, 0}), b = at(x, {i[0], 0, 1}), c = at(x, {i[0], 1, 0}), d = at(x, {i[0], 1, 1});
    const double adjugate[2][2] = {{d, -b}, {-c, a}};
    return adjugate[i[1]][i[2]] / (a * d - b * c);
  });
  EXPECT_EQ(RealNode("com.microsoft:Inverse").error({reals({2, 2}, {1, 2, 2, 4})}), "a matrix has no inverse");
  EXPECT_EQ(RealNode("com.microsoft:Inverse").error({reals({1, 2}, {1, 2})}), "X has shape [1, 2], expected square matrices");
}

TEST(RuntimeOthers, CDistAndExpandDims) {
  RandomTensors random;
  const HostTensor a = random.reals({3, 2}), b = random.reals({4, 2});
  expectElements(RealNode("com.microsoft:CDist").text("metric", "euclidean").run({a, b}), {3, 4}, [&](const Shape &i) {
    return std::hypot(at(a, {i[0], 0}) - at(b, {i[1], 0}), at(a, {i[0], 1}) - at(b, {i[1], 1}));
  });
  EXPECT_EQ(RealNode("com.microsoft:ExpandDims").run({a, integers({}, {-1})}).shape, (Shape{3, 2, 1}));
  EXPECT_EQ(RealNode("com.microsoft:ExpandDims").error({a, integers({}, {3})}), "axis is 3 for a tensor of rank 2");
}

TEST(RuntimeOthers, CropAndResizeOfAPlane) {
  // An image that is linear in its coordinates stays so.
  HostTensor x = makeTensor(ElementKind::F32, {1, 1, 5, 9});
  for (int64_t i = 0; i < 45; ++i)
    data<float>(x)[i] = float(10 * (i / 9) + i % 9);
  RealNode node("com.microsoft:CropAndResize");
  node.real("extrapolation_value", -1);
  const HostTensor rois = reals({2, 4}, {0.25, 0.25, 0.75, 0.5, 0.5, 0.5, 1.5, 1.5});
  const HostTensor y = node.run({x, rois, integers({2}, {0, 0}), integers({2}, {3, 2})});
  expectElements(y, {2, 1, 3, 2}, [&](const Shape &i) {
    const double v = 4 * (at(rois, {i[0], 0}) + double(i[2]) / 2 * (at(rois, {i[0], 2}) - at(rois, {i[0], 0})));
    const double u = 8 * (at(rois, {i[0], 1}) + double(i[3]) * (at(rois, {i[0], 3}) - at(rois, {i[0], 1})));
    return v > 4 || u > 8 ? -1 : 10 * v + u;
  });
  EXPECT_EQ(node.error({x, rois, integers({2}, {0, 1}), integers({2}, {3, 2})}),
            "batch_indices has 1, X has shape [1, 1, 5, 9]");
}

} // namespace
