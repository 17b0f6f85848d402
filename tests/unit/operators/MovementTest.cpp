//===- MovementTest.cpp - What no node test says of moved elements --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/unit/operators/TestNodes.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

using namespace tw::operators;
using namespace tw::operators::test;

namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();

/// Elements of 1, 2, 4, 8 and 16 bytes, and strings.
const std::vector<ElementKind> kKinds = {ElementKind::U8,        ElementKind::I16,        ElementKind::F32,   ElementKind::F64,
                                         ElementKind::Complex64, ElementKind::Complex128, ElementKind::String};

HostTensor list(const std::vector<int64_t> &values) { return makeInts(values); }

/// Where `index` lies in a tensor of `shape`.
int64_t placeOf(const Shape &index, const Shape &shape) {
  int64_t place = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    place = place * shape[i] + index[i];
  return place;
}

/// A tensor of `shape` whose element `index` is element `sourceOf(index)` of `x`.
template <typename F> HostTensor expectedOf(const HostTensor &x, const Shape &shape, F &&sourceOf) {
  HostTensor y = makeTensor(x.type, shape);
  int64_t i = 0;
  forEachIndex(shape, [&](const Shape &index) { copyElement(x, sourceOf(index), y, i++); });
  return y;
}

class Random {
public:
  Random() : seed(std::random_device{}()), engine(seed) {}
  int64_t below(int64_t limit) { return int64_t(engine() % uint64_t(limit)); }
  int64_t between(int64_t least, int64_t most) { return least + below(most - least + 1); }
  Shape shape(int64_t rank, int64_t least, int64_t most) {
    Shape shape;
    for (int64_t i = 0; i < rank; ++i)
      shape.push_back(between(least, most));
    return shape;
  }
  ElementKind kind() { return kKinds[size_t(below(int64_t(kKinds.size())))]; }
  HostTensor indices(const Shape &shape, int64_t extent) {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < countOf(shape); ++i)
      values.push_back(between(-extent, extent - 1));
    return tensorOf(below(2) ? ElementKind::I64 : ElementKind::I32, shape, values);
  }

  const unsigned seed;
  std::mt19937_64 engine;
};

//===----------------------------------------------------------------------===//
// Random cases against formulas
//===----------------------------------------------------------------------===//

TEST(MovementTest, RandomSlicesAreThoseOfTheFormula) {
  Random random;
  for (int round = 0; round < 500; ++round) {
    const int64_t rank = random.between(1, 4);
    const HostTensor x = countingTensor(random.kind(), random.shape(rank, 0, 6));
    std::vector<int64_t> starts, ends, axes, steps;
    Shape begins(size_t(rank), 0), strides(size_t(rank), 1), shape = x.shape;
    for (int64_t axis = 0; axis < rank; ++axis) {
      if (random.below(3) == 0)
        continue;
      const int64_t extent = x.shape[size_t(axis)];
      int64_t start = random.between(-9, 9), end = random.between(-9, 9), step = random.between(1, 4);
      if (random.below(2))
        step = -step;
      if (random.below(8) == 0)
        start = random.below(2) ? kLeast : kMost;
      if (random.below(8) == 0)
        end = random.below(2) ? kLeast : kMost;
      if (random.below(16) == 0)
        step = random.below(2) ? kLeast : kMost;
      starts.push_back(start);
      ends.push_back(end);
      axes.push_back(random.below(2) ? axis : axis - rank);
      steps.push_back(step);
      // Indices between start and end in steps, counted one by one. Unlike in NumPy, a start before the first entry is the first, also for steps
      // back (source: ONNX, operator Slice).
      __int128 from = start < 0 ? __int128(start) + extent : start, to = end < 0 ? __int128(end) + extent : end;
      if (step > 0) {
        from = std::max<__int128>(from, 0);
        to = std::min<__int128>(to, extent);
      } else {
        from = std::min<__int128>(std::max<__int128>(from, 0), extent - 1);
        to = std::max<__int128>(to, -1);
      }
      int64_t count = 0;
      for (__int128 at = from; step > 0 ? at < to : at > to; at += step)
        if (at >= 0 && at < extent)
          ++count;
      shape[size_t(axis)] = count;
      begins[size_t(axis)] = count > 0 ? int64_t(from) : 0;
      strides[size_t(axis)] = count > 1 ? step : 0;
    }
    const HostTensor expected = expectedOf(x, shape, [&](Shape index) {
      for (size_t i = 0; i < index.size(); ++i)
        index[i] = begins[i] + index[i] * strides[i];
      return placeOf(index, x.shape);
    });
    const HostTensor y = evaluate(Node("Slice"), {x, list(starts), list(ends), list(axes), list(steps)});
    ASSERT_TRUE(isSame(y, expected)) << "seed " << random.seed << ", round " << round;
  }
}

TEST(MovementTest, RandomTransposesAreThoseOfTheFormula) {
  Random random;
  for (int round = 0; round < 500; ++round) {
    const int64_t rank = random.between(0, 8);
    const HostTensor x = countingTensor(random.kind(), random.shape(rank, round % 20 ? 1 : 0, 3));
    std::vector<int64_t> perm;
    for (int64_t i = 0; i < rank; ++i)
      perm.push_back(i);
    std::shuffle(perm.begin(), perm.end(), random.engine);
    Shape shape;
    for (int64_t dim : perm)
      shape.push_back(x.shape[size_t(dim)]);
    const HostTensor expected = expectedOf(x, shape, [&](const Shape &index) {
      Shape source(index.size());
      for (size_t i = 0; i < index.size(); ++i)
        source[size_t(perm[i])] = index[i];
      return placeOf(source, x.shape);
    });
    ASSERT_TRUE(isSame(evaluate(Node("Transpose").integers("perm", perm), {x}), expected))
        << "seed " << random.seed << ", round " << round;
  }
}

TEST(MovementTest, RandomGathersAreThoseOfTheFormula) {
  Random random;
  for (int round = 0; round < 500; ++round) {
    const int64_t rank = random.between(1, 4), axis = random.below(rank);
    const HostTensor x = countingTensor(random.kind(), random.shape(rank, 1, 4));
    const int64_t extent = x.shape[size_t(axis)];
    auto wrapped = [](int64_t index, int64_t dim) { return index < 0 ? index + dim : index; };
    {
      const HostTensor indices = random.indices(random.shape(random.below(3), 0, 3), extent);
      const size_t more = indices.shape.size();
      Shape shape(x.shape.begin(), x.shape.begin() + axis);
      shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
      shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
      const HostTensor expected = expectedOf(x, shape, [&](const Shape &index) {
        const auto middle = index.begin() + axis;
        Shape source(index.begin(), middle);
        source.push_back(wrapped(integerAt(indices, placeOf(Shape(middle, middle + int64_t(more)), indices.shape)), extent));
        source.insert(source.end(), middle + int64_t(more), index.end());
        return placeOf(source, x.shape);
      });
      ASSERT_TRUE(isSame(evaluate(Node("Gather").integer("axis", axis - rank), {x, indices}), expected))
          << "seed " << random.seed << ", round " << round;
    }
    {
      Shape shape = x.shape;
      for (size_t i = 0; i < shape.size(); ++i)
        shape[i] = int64_t(i) == axis ? random.between(0, 5) : random.between(0, shape[i]);
      const HostTensor indices = random.indices(shape, extent);
      const HostTensor expected = expectedOf(x, shape, [&](Shape index) {
        index[size_t(axis)] = wrapped(integerAt(indices, placeOf(index, shape)), extent);
        return placeOf(index, x.shape);
      });
      ASSERT_TRUE(isSame(evaluate(Node("GatherElements").integer("axis", axis), {x, indices}), expected))
          << "seed " << random.seed << ", round " << round;
    }
    {
      const int64_t batchDims = random.below(rank), k = random.between(1, rank - batchDims);
      Shape outer(x.shape.begin(), x.shape.begin() + batchDims);
      const Shape own = random.shape(random.below(3), 0, 3);
      outer.insert(outer.end(), own.begin(), own.end());
      Shape indexShape = outer;
      indexShape.push_back(k);
      HostTensor indices = makeTensor(ElementKind::I64, indexShape);
      for (int64_t i = 0; i < countOf(indices); ++i) {
        const int64_t dim = x.shape[size_t(batchDims + i % k)];
        setInteger(indices, i, random.between(-dim, dim - 1));
      }
      Shape shape = outer;
      shape.insert(shape.end(), x.shape.begin() + batchDims + k, x.shape.end());
      const HostTensor expected = expectedOf(x, shape, [&](const Shape &index) {
        Shape source(index.begin(), index.begin() + batchDims);
        for (int64_t i = 0; i < k; ++i) {
          Shape at(index.begin(), index.begin() + int64_t(outer.size()));
          at.push_back(i);
          source.push_back(wrapped(integerAt(indices, placeOf(at, indexShape)), x.shape[size_t(batchDims + i)]));
        }
        source.insert(source.end(), index.begin() + int64_t(outer.size()), index.end());
        return placeOf(source, x.shape);
      });
      ASSERT_TRUE(isSame(evaluate(Node("GatherND").integer("batch_dims", batchDims), {x, indices}), expected))
          << "seed " << random.seed << ", round " << round;
    }
  }
}

int64_t reduced(const std::string &reduction, int64_t a, int64_t b) {
  return reduction == "add"   ? a + b
         : reduction == "mul" ? a * b
         : reduction == "min" ? std::min(a, b)
         : reduction == "max" ? std::max(a, b)
                              : b;
}

TEST(MovementTest, RandomScattersAreThoseOfTheFormula) {
  Random random;
  for (int round = 0; round < 500; ++round) {
    const std::string reduction = std::vector<std::string>{"none", "add", "mul", "min", "max"}[size_t(random.below(5))];
    const std::vector<ElementKind> kinds = {ElementKind::I64, ElementKind::F64, ElementKind::F32, ElementKind::I32,
                                            ElementKind::U64};
    const ElementKind kind = kinds[size_t(random.below(5))];
    const int64_t rank = random.between(1, 4), axis = random.below(rank);
    const HostTensor x = countingTensor(kind, random.shape(rank, 1, 4));
    {
      Shape shape = x.shape;
      for (size_t i = 0; i < shape.size(); ++i)
        shape[i] = int64_t(i) == axis ? random.between(0, 4) : random.between(0, shape[i]);
      const HostTensor indices = random.indices(shape, x.shape[size_t(axis)]), updates = countingTensor(kind, shape);
      HostTensor expected = x;
      int64_t i = 0;
      forEachIndex(shape, [&](Shape index) {
        const int64_t given = integerAt(indices, i);
        index[size_t(axis)] = given < 0 ? given + x.shape[size_t(axis)] : given;
        const int64_t place = placeOf(index, x.shape);
        setInteger(expected, place, reduced(reduction, integerAt(expected, place), integerAt(updates, i++)));
      });
      const Node node = Node("ScatterElements").integer("axis", axis - rank).text("reduction", reduction);
      ASSERT_TRUE(isSame(evaluate(node, {x, indices, updates}), expected)) << "seed " << random.seed << ", round " << round;
    }
    {
      const int64_t k = random.between(1, rank);
      const Shape outer = random.shape(random.below(3), 0, 3);
      Shape indexShape = outer, shape = outer;
      indexShape.push_back(k);
      shape.insert(shape.end(), x.shape.begin() + k, x.shape.end());
      HostTensor indices = makeTensor(ElementKind::I64, indexShape);
      for (int64_t i = 0; i < countOf(indices); ++i) {
        const int64_t dim = x.shape[size_t(i % k)];
        setInteger(indices, i, random.between(-dim, dim - 1));
      }
      const HostTensor updates = countingTensor(kind, shape);
      HostTensor expected = x;
      int64_t i = 0;
      forEachIndex(shape, [&](const Shape &index) {
        Shape target;
        for (int64_t j = 0; j < k; ++j) {
          Shape at(index.begin(), index.begin() + int64_t(outer.size()));
          at.push_back(j);
          const int64_t given = integerAt(indices, placeOf(at, indexShape));
          target.push_back(given < 0 ? given + x.shape[size_t(j)] : given);
        }
        target.insert(target.end(), index.begin() + int64_t(outer.size()), index.end());
        const int64_t place = placeOf(target, x.shape);
        setInteger(expected, place, reduced(reduction, integerAt(expected, place), integerAt(updates, i++)));
      });
      ASSERT_TRUE(isSame(evaluate(Node("ScatterND").text("reduction", reduction), {x, indices, updates}), expected))
          << "seed " << random.seed << ", round " << round;
    }
  }
}

TEST(MovementTest, RandomPadsAreThoseOfTheFormula) {
  Random random;
  for (int round = 0; round < 500; ++round) {
    const std::string mode = std::vector<std::string>{"constant", "reflect", "edge", "wrap"}[size_t(random.below(4))];
    const int64_t rank = random.between(0, 3);
    const HostTensor x = countingTensor(random.kind(), random.shape(rank, 1, 4));
    std::vector<int64_t> before, after;
    Shape shape;
    for (int64_t i = 0; i < rank; ++i) {
      const int64_t extent = x.shape[size_t(i)];
      before.push_back(random.between(-(extent - 1), 7));
      after.push_back(random.between(-std::max<int64_t>(0, extent - 1 + std::min<int64_t>(before.back(), 0)), 7));
      shape.push_back(extent + before.back() + after.back());
    }
    HostTensor value = makeTensor(x.type, {});
    copyElement(x, countOf(x) - 1, value, 0);
    HostTensor expected = makeTensor(x.type, shape);
    int64_t i = 0;
    forEachIndex(shape, [&](const Shape &index) {
      Shape source;
      bool isInside = true;
      for (size_t dim = 0; dim < index.size(); ++dim) {
        // What negative pads leave is walked step by step.
        const int64_t low = std::max<int64_t>(0, -before[dim]), high = x.shape[dim] - std::max<int64_t>(0, -after[dim]);
        int64_t at = index[dim] - before[dim];
        isInside &= at >= low && at < high;
        while (mode == "reflect" && high - low > 1 && (at < low || at >= high))
          at = at < low ? 2 * low - at : 2 * (high - 1) - at;
        while (mode == "wrap" && (at < low || at >= high))
          at += at < low ? high - low : low - high;
        source.push_back(std::clamp(at, low, high - 1));
      }
      if (mode == "constant" && !isInside)
        copyElement(value, 0, expected, i++);
      else
        copyElement(x, placeOf(source, x.shape), expected, i++);
    });
    std::vector<int64_t> pads = before;
    pads.insert(pads.end(), after.begin(), after.end());
    ASSERT_TRUE(isSame(evaluate(Node("Pad").text("mode", mode), {x, list(pads), value}), expected))
        << "seed " << random.seed << ", round " << round << ", " << mode;
  }
}

TEST(MovementTest, RandomTilesAndExpansionsAreThoseOfTheFormula) {
  Random random;
  for (int round = 0; round < 300; ++round) {
    const int64_t rank = random.between(0, 5);
    HostTensor x = countingTensor(random.kind(), random.shape(rank, 1, 3));
    const std::vector<int64_t> repeats = random.shape(rank, 0, 3);
    Shape shape;
    for (int64_t i = 0; i < rank; ++i)
      shape.push_back(x.shape[size_t(i)] * repeats[size_t(i)]);
    auto modulo = [&](const Shape &index) {
      Shape source;
      for (size_t i = 0; i < x.shape.size(); ++i)
        source.push_back(index[index.size() - x.shape.size() + i] % x.shape[i]);
      return placeOf(source, x.shape);
    };
    ASSERT_TRUE(isSame(evaluate(Node("Tile"), {x, list(repeats)}), expectedOf(x, shape, modulo)))
        << "seed " << random.seed << ", round " << round;
    Shape wanted = random.shape(random.below(3), 1, 2), result = wanted;
    for (int64_t dim : x.shape) {
      const bool isOne = random.below(2) != 0;
      wanted.push_back(dim == 1 ? random.between(0, 3) : isOne ? 1 : dim);
      result.push_back(dim == 1 ? wanted.back() : dim);
    }
    ASSERT_TRUE(isSame(evaluate(Node("Expand"), {x, list(wanted)}), expectedOf(x, result, modulo)))
        << "seed " << random.seed << ", round " << round;
  }
}

TEST(MovementTest, WhatSplitTakesApartConcatJoins) {
  Random random;
  for (int round = 0; round < 300; ++round) {
    const int64_t rank = random.between(1, 4), axis = random.below(rank);
    std::vector<int64_t> split = random.shape(random.between(1, 4), 0, 3);
    Shape shape = random.shape(rank, round % 10 ? 1 : 0, 3);
    shape[size_t(axis)] = 0;
    for (int64_t size : split)
      shape[size_t(axis)] += size;
    const HostTensor x = countingTensor(random.kind(), shape);
    const std::vector<Value> parts =
        evaluateAll(Node("Split", int(split.size())).integer("axis", axis - rank), {x, list(split)});
    for (size_t i = 0; i < split.size(); ++i)
      ASSERT_EQ(parts[i].tensor->shape[size_t(axis)], split[i]);
    ASSERT_TRUE(isSame(evaluate(Node("Concat").integer("axis", axis), parts), x))
        << "seed " << random.seed << ", round " << round;
  }
}

TEST(MovementTest, DepthToSpaceIsTheInverseOfSpaceToDepth) {
  const HostTensor x = countingTensor(ElementKind::F32, {2, 3, 4, 6});
  for (const char *mode : {"DCR", "CRD"}) {
    const HostTensor deep = evaluate(Node("SpaceToDepth").integer("blocksize", 2).text("mode", mode), {x});
    EXPECT_EQ(deep.shape, (Shape{2, 12, 2, 3}));
    EXPECT_TRUE(isSame(evaluate(Node("DepthToSpace").integer("blocksize", 2).text("mode", mode), {deep}), x));
  }
}

//===----------------------------------------------------------------------===//
// Corners
//===----------------------------------------------------------------------===//

TEST(MovementTest, IndicesOutOfRangeAreErrors) {
  const HostTensor x = countingTensor(ElementKind::F32, {3, 2});
  for (int64_t index : {int64_t(3), int64_t(-4), kLeast, kMost}) {
    const HostTensor one = tensorOf(ElementKind::I64, {1, 1}, {index}), value = countingTensor(ElementKind::F32, {1, 1});
    const std::string expected = "index " + std::to_string(index) + " is out of range for a dim of 3";
    EXPECT_EQ(errorOf([&] { evaluate(Node("Gather"), {x, one}); }), expected);
    EXPECT_EQ(errorOf([&] { evaluate(Node("GatherElements"), {x, one}); }), expected);
    EXPECT_EQ(errorOf([&] { evaluate(Node("GatherND"), {x, one}); }), expected);
    EXPECT_EQ(errorOf([&] { evaluate(Node("Scatter"), {x, one, value}, 10); }), expected);
    EXPECT_EQ(errorOf([&] { evaluate(Node("ScatterElements"), {x, one, value}); }), expected);
    EXPECT_EQ(errorOf([&] { evaluate(Node("ScatterND"), {x, one, countingTensor(ElementKind::F32, {1, 2})}); }), expected);
  }
}

TEST(MovementTest, IndicesIntoEmptyTensorsAreErrors) {
  const HostTensor x = makeTensor(ElementKind::F32, {0, 2}), one = tensorOf(ElementKind::I64, {1}, {0});
  EXPECT_EQ(errorOf([&] { evaluate(Node("Gather"), {x, one}); }), "index 0 is out of range for a dim of 0");
  EXPECT_EQ(errorOf([&] { evaluate(Node("GatherND"), {x, one}); }), "index 0 is out of range for a dim of 0");
  EXPECT_EQ(errorOf([&] {
              evaluate(Node("ScatterND"), {x, one, makeTensor(ElementKind::F32, {2})});
            }),
            "index 0 is out of range for a dim of 0");
}

TEST(MovementTest, EmptyTensorsStayEmpty) {
  const HostTensor x = makeTensor(ElementKind::F32, {2, 0, 3}), none = makeTensor(ElementKind::I64, {0});
  auto shapeOf = [](const Node &node, std::vector<Value> inputs) { return evaluate(node, std::move(inputs)).shape; };
  EXPECT_EQ(shapeOf(Node("Transpose"), {x}), (Shape{3, 0, 2}));
  EXPECT_EQ(shapeOf(Node("Gather"), {x, none}), (Shape{0, 0, 3}));
  EXPECT_EQ(shapeOf(Node("Gather").integer("axis", 1), {x, none}), (Shape{2, 0, 3}));
  EXPECT_EQ(shapeOf(Node("GatherElements"), {x, makeTensor(ElementKind::I64, {1, 0, 2})}), (Shape{1, 0, 2}));
  EXPECT_EQ(shapeOf(Node("Reshape"), {x, list({0, 0, 5})}), (Shape{2, 0, 5}));
  EXPECT_EQ(shapeOf(Node("Reshape").integer("allowzero", 1), {x, list({7, 0})}), (Shape{7, 0}));
  EXPECT_EQ(shapeOf(Node("Expand"), {x, list({2, 1, 1})}), (Shape{2, 0, 3}));
  EXPECT_EQ(shapeOf(Node("Tile"), {x, list({2, 5, 1})}), (Shape{4, 0, 3}));
  EXPECT_EQ(shapeOf(Node("Pad"), {x, list({0, 1, 0, 0, 1, 0})}), (Shape{2, 2, 3}));
  EXPECT_EQ(shapeOf(Node("Slice"), {x, list({-1}), list({kLeast}), list({1}), list({-1})}), (Shape{2, 0, 3}));
  EXPECT_EQ(shapeOf(Node("Flatten").integer("axis", 2), {x}), (Shape{0, 3}));
  EXPECT_EQ(shapeOf(Node("Trilu"), {x}), (Shape{2, 0, 3}));
  EXPECT_EQ(shapeOf(Node("Compress"), {x, makeTensor(ElementKind::Bool, {0})}), (Shape{0}));
  EXPECT_EQ(shapeOf(Node("OneHot"), {none, list({4}), list({0, 1})}), (Shape{0, 4}));
  EXPECT_EQ(shapeOf(Node("ConstantOfShape"), {list({3, 0})}), (Shape{3, 0}));
  EXPECT_EQ(shapeOf(Node("Concat").integer("axis", 1), {x, countingTensor(ElementKind::F32, {2, 1, 3})}), (Shape{2, 1, 3}));
  EXPECT_NE(errorOf([&] { shapeOf(Node("Pad").text("mode", "edge"), {x, list({0, 1, 0, 0, 0, 0})}); }), "");
  EXPECT_NE(errorOf([&] { shapeOf(Node("Reshape"), {x, list({0, 0, -1})}); }), "");
}

TEST(MovementTest, ScalarsAreMovedOrRefused) {
  const HostTensor x = tensorOf(ElementKind::F32, {}, {7});
  EXPECT_TRUE(isSame(evaluate(Node("Transpose"), {x}), x));
  EXPECT_TRUE(isSame(evaluate(Node("Reshape"), {x, makeTensor(ElementKind::I64, {0})}), x));
  EXPECT_EQ(evaluate(Node("Unsqueeze"), {x, list({-1})}).shape, (Shape{1}));
  EXPECT_EQ(evaluate(Node("Flatten").integer("axis", 0), {x}).shape, (Shape{1, 1}));
  EXPECT_EQ(evaluate(Node("Expand"), {x, list({2, 2})}).shape, (Shape{2, 2}));
  EXPECT_EQ(evaluate(Node("Shape"), {x}).shape, (Shape{0}));
  EXPECT_EQ(evaluate(Node("Compress"), {x, tensorOf(ElementKind::Bool, {1}, {1})}).shape, (Shape{1}));
  const HostTensor zero = list({0}), no = tensorOf(ElementKind::Bool, {1}, {0});
  EXPECT_EQ(errorOf([&] { evaluate(Node("Gather"), {x, zero}); }), "input 0 is a scalar");
  EXPECT_EQ(errorOf([&] {
              evaluate(Node("GatherElements"), {x, tensorOf(ElementKind::I64, {}, {0})});
            }),
            "input 0 is a scalar");
  EXPECT_EQ(errorOf([&] { evaluate(Node("GatherND"), {x, zero}); }), "input 0 is a scalar");
  EXPECT_EQ(errorOf([&] {
              evaluate(Node("ScatterElements"), {x, tensorOf(ElementKind::I64, {}, {0}), x});
            }),
            "input 0 is a scalar");
  EXPECT_EQ(errorOf([&] { evaluate(Node("ScatterND"), {x, zero, x}); }), "input 0 is a scalar");
  EXPECT_EQ(errorOf([&] { evaluate(Node("Split"), {x}); }), "input 0 is a scalar");
  EXPECT_EQ(errorOf([&] { evaluate(Node("Compress").integer("axis", 0), {x, no}); }), "input 0 is a scalar");
  EXPECT_NE(errorOf([&] { evaluate(Node("Concat").integer("axis", 0), {x, x}); }), "");
  EXPECT_NE(errorOf([&] { evaluate(Node("Concat").integer("axis", 0), {x}); }), "");
  EXPECT_NE(errorOf([&] { evaluate(Node("Slice"), {x, zero, zero}); }), "");
  EXPECT_NE(errorOf([&] { evaluate(Node("Squeeze"), {x, zero}); }), "");
  EXPECT_NE(errorOf([&] { evaluate(Node("Trilu"), {x}); }), "");
  EXPECT_NE(errorOf([&] { evaluate(Node("TensorScatter"), {x, x}); }), "");
  EXPECT_NE(errorOf([&] { evaluate(Node("ReverseSequence"), {x, zero}); }), "");
}

TEST(MovementTest, WrongShapesAndTypesAreErrors) {
  const HostTensor x = countingTensor(ElementKind::F32, {2, 3}), other = countingTensor(ElementKind::F64, {2, 3});
  auto message = [&](const Node &node, std::vector<Value> inputs, int64_t opset = 22) {
    return errorOf([&] { evaluateAll(node, std::move(inputs), opset); });
  };
  EXPECT_EQ(message(Node("Reshape"), {x, list({4, -1})}), "a tensor of shape [2, 3] cannot have shape [4, -1]");
  EXPECT_EQ(message(Node("Reshape"), {x, list({-1, -1})}),
            "shape is [-1, -1], expected dims of at least 0, and at most one of -1");
  EXPECT_EQ(message(Node("Reshape"), {x, list({6, 1, 0})}), "shape [6, 1, 0] takes dim 2 of a tensor of shape [2, 3]");
  EXPECT_NE(message(Node("Reshape"), {x, list({kMost, kMost, 2})}), "");
  EXPECT_EQ(message(Node("Reshape"), {x, other}), "input 1 is of double, expected int64");
  EXPECT_EQ(message(Node("Squeeze"), {x, list({0})}), "axis 0 of shape [2, 3] is squeezed, its dim must be 1");
  EXPECT_EQ(message(Node("Unsqueeze"), {x, list({0, -4})}), "axis -4 is given twice");
  EXPECT_NE(message(Node("Unsqueeze"), {x, list({4})}), "");
  EXPECT_NE(message(Node("Transpose").integers("perm", {0, 0}), {x}), "");
  EXPECT_NE(message(Node("Transpose").integers("perm", {0}), {x}), "");
  EXPECT_NE(message(Node("Expand"), {x, list({2, 2})}), "");
  EXPECT_NE(message(Node("Expand"), {x, list({2, -3})}), "");
  EXPECT_NE(message(Node("Tile"), {x, list({2})}), "");
  EXPECT_NE(message(Node("Tile"), {x, list({2, -1})}), "");
  EXPECT_NE(message(Node("Tile"), {x, list({kMost, kMost})}), "");
  EXPECT_NE(message(Node("Slice"), {x, list({0}), list({1}), list({2})}), "");
  EXPECT_EQ(message(Node("Slice"), {x, list({0}), list({1}), list({0}), list({0})}), "a step is 0");
  EXPECT_NE(message(Node("Slice"), {x, list({0, 0}), list({1, 1}), list({0, 0})}), "");
  EXPECT_NE(message(Node("Slice"), {x, list({0, 0}), list({1})}), "");
  EXPECT_NE(message(Node("Split", 2), {x, list({1, 2})}), "");
  EXPECT_NE(message(Node("Split", 2), {x, list({-1, 3})}), "");
  EXPECT_NE(message(Node("Split", 2).integer("axis", 1), {x}, 13), "");
  EXPECT_NE(message(Node("Split", 3).integer("num_outputs", 2), {x}), "");
  EXPECT_NE(message(Node("Concat").integer("axis", 0), {x, other}), "");
  EXPECT_NE(message(Node("Concat").integer("axis", 0), {x, countingTensor(ElementKind::F32, {2, 2})}), "");
  EXPECT_NE(message(Node("Concat").integer("axis", 2), {x, x}), "");
  EXPECT_NE(message(Node("Gather"), {x, other}), "");
  EXPECT_NE(message(Node("GatherElements"), {x, makeTensor(ElementKind::I64, {2, 4})}), "");
  EXPECT_NE(message(Node("GatherND"), {x, makeTensor(ElementKind::I64, {2, 3})}), "");
  EXPECT_NE(message(Node("GatherND").integer("batch_dims", 1), {x, makeTensor(ElementKind::I64, {3, 1})}), "");
  EXPECT_NE(message(Node("GatherND").integer("batch_dims", 2), {x, makeTensor(ElementKind::I64, {2, 3})}), "");
  EXPECT_NE(message(Node("GatherND").integer("batch_dims", -1), {x, makeTensor(ElementKind::I64, {2, 1})}), "");
  EXPECT_NE(message(Node("ScatterElements"), {x, makeTensor(ElementKind::I64, {1, 1}), x}), "");
  EXPECT_NE(message(Node("ScatterElements"), {x, makeTensor(ElementKind::I64, {2, 3}), other}), "");
  EXPECT_NE(message(Node("ScatterElements").text("reduction", "mean"), {x, makeTensor(ElementKind::I64, {2, 3}), x}), "");
  EXPECT_NE(message(Node("ScatterND"), {x, makeTensor(ElementKind::I64, {2, 1}), x.shape.empty() ? x : other}), "");
  EXPECT_NE(message(Node("ScatterND"), {x, makeTensor(ElementKind::I64, {2, 3}), x}), "");
  EXPECT_NE(message(Node("Pad"), {x, list({1, 1})}), "");
  EXPECT_NE(message(Node("Pad"), {x, list({-3, 0, 0, 0})}), "");
  EXPECT_NE(message(Node("Pad"), {x, list({kMost, 0, kMost, 0})}), "");
  EXPECT_NE(message(Node("Pad"), {x, list({kLeast, 0, 0, 0})}), "");
  EXPECT_NE(message(Node("Pad"), {x, list({1 << 30, 1 << 30, 0, 0})}), "");
  EXPECT_NE(message(Node("Pad").text("mode", "mirror"), {x, list({1, 1, 1, 1})}), "");
  EXPECT_NE(message(Node("Pad"), {x, list({1, 1, 1, 1}), tensorOf(ElementKind::F64, {}, {1})}), "");
  EXPECT_NE(message(Node("CenterCropPad"), {x, list({1})}), "");
  EXPECT_NE(message(Node("CenterCropPad"), {x, list({-1, 3})}), "");
  EXPECT_NE(message(Node("DepthToSpace").integer("blocksize", 2), {x}), "");
  EXPECT_NE(message(Node("DepthToSpace").integer("blocksize", 2), {countingTensor(ElementKind::F32, {1, 2, 1, 1})}), "");
  EXPECT_NE(message(Node("SpaceToDepth").integer("blocksize", 0), {countingTensor(ElementKind::F32, {1, 1, 2, 2})}), "");
  EXPECT_NE(message(Node("SpaceToDepth").integer("blocksize", 3), {countingTensor(ElementKind::F32, {1, 1, 2, 2})}), "");
  EXPECT_NE(message(Node("OneHot"), {list({1}), list({-1}), list({0, 1})}), "");
  EXPECT_NE(message(Node("OneHot"), {list({1}), list({2}), list({0, 1, 2})}), "");
  EXPECT_NE(message(Node("Compress"), {x, tensorOf(ElementKind::Bool, {7}, {0, 0, 0, 0, 0, 0, 1})}), "");
  EXPECT_NE(message(Node("Compress"), {x, list({1})}), "");
  EXPECT_NE(message(Node("ReverseSequence"), {x, list({1, 1, 3})}), "");
  EXPECT_NE(message(Node("ReverseSequence"), {x, list({1, 1})}), "");
  EXPECT_NE(message(Node("ConstantOfShape"), {list({-1})}), "");
  EXPECT_NE(message(Node("ConstantOfShape"), {list({1 << 20, 1 << 20})}), "");
  EXPECT_NE(message(Node("EyeLike"), {list({1})}), "");
  EXPECT_NE(message(Node("EyeLike").integer("dtype", 99), {x}), "");
  EXPECT_NE(message(Node("AffineGrid"), {x, list({1, 1, 2, 2})}), "");
  EXPECT_NE(message(Node("AffineGrid"), {x, list({1})}), "");
  EXPECT_NE(message(Node("Constant"), {}), "");
  EXPECT_NE(message(Node("Dropout"), {x, tensorOf(ElementKind::F32, {}, {1}), tensorOf(ElementKind::Bool, {}, {1})}), "");
}

TEST(MovementTest, TinyElementsMoveLikeOthers) {
  for (ElementKind kind : {ElementKind::I4, ElementKind::U4, ElementKind::F8E4M3FN, ElementKind::F8E5M2, ElementKind::F4E2M1}) {
    const HostTensor x = tensorOf(kind, {2, 2}, {0, 1, 2, 3});
    EXPECT_TRUE(isSame(evaluate(Node("Transpose"), {x}), tensorOf(kind, {2, 2}, {0, 2, 1, 3})));
    EXPECT_TRUE(isSame(evaluate(Node("Gather"), {x, list({-1})}), tensorOf(kind, {1, 2}, {2, 3})));
    EXPECT_TRUE(isSame(evaluate(Node("Pad"), {x, list({0, 0, 0, 1}), tensorOf(kind, {}, {1})}),
                       tensorOf(kind, {2, 3}, {0, 1, 1, 2, 3, 1})));
    EXPECT_TRUE(isSame(evaluate(Node("ScatterElements").text("reduction", "max"),
                                {x, tensorOf(ElementKind::I64, {1, 2}, {1, 1}), tensorOf(kind, {1, 2}, {1, 4})}),
                       tensorOf(kind, {2, 2}, {0, 1, 2, 4})));
  }
}

TEST(MovementTest, ScattersOfBoolsAndStrings) {
  const HostTensor x = tensorOf(ElementKind::Bool, {3}, {0, 1, 1}), updates = tensorOf(ElementKind::Bool, {3}, {1, 0, 0});
  const HostTensor indices = list({0, 1, 1});
  EXPECT_TRUE(isSame(evaluate(Node("ScatterElements").text("reduction", "add"), {x, indices, updates}),
                     tensorOf(ElementKind::Bool, {3}, {1, 1, 1})));
  EXPECT_TRUE(isSame(evaluate(Node("ScatterElements").text("reduction", "mul"), {x, indices, updates}),
                     tensorOf(ElementKind::Bool, {3}, {0, 0, 1})));
  const HostTensor words = countingTensor(ElementKind::String, {3});
  EXPECT_TRUE(isSame(evaluate(Node("ScatterElements"), {words, list({2}), tensorOf(ElementKind::String, {1}, {9})}),
                     tensorOf(ElementKind::String, {3}, {0, 1, 9})));
  EXPECT_NE(errorOf([&] { evaluate(Node("ScatterElements").text("reduction", "add"), {words, indices, words}); }), "");
}

TEST(MovementTest, NothingIsCopiedWhereNothingChanges) {
  const auto x = std::make_shared<const HostTensor>(countingTensor(ElementKind::F32, {2, 3}));
  auto isShared = [&](const Node &node, std::vector<Value> more = {}) {
    std::vector<Value> inputs{x};
    inputs.insert(inputs.end(), more.begin(), more.end());
    return evaluateAll(node, inputs).at(0).tensor == x;
  };
  EXPECT_TRUE(isShared(Node("Identity")));
  EXPECT_TRUE(isShared(Node("Dropout")));
  EXPECT_TRUE(isShared(Node("Reshape"), {list({2, -1})}));
  EXPECT_TRUE(isShared(Node("Squeeze")));
  EXPECT_TRUE(isShared(Node("Transpose").integers("perm", {0, 1})));
  EXPECT_TRUE(isShared(Node("Slice"), {list({0}), list({kMost})}));
  EXPECT_TRUE(isShared(Node("Expand"), {list({1, 3})}));
  EXPECT_TRUE(isShared(Node("Concat").integer("axis", 0)));
}

TEST(MovementTest, ConstantsOfEveryAttribute) {
  EXPECT_TRUE(isSame(evaluate(Node("Constant").integer("value_int", -3), {}), tensorOf(ElementKind::I64, {}, {-3})));
  EXPECT_TRUE(isSame(evaluate(Node("Constant").integers("value_ints", {1, 2}), {}), list({1, 2})));
  EXPECT_EQ(evaluate(Node("Constant").text("value_string", "ab"), {}).strings, (std::vector<std::string>{"ab"}));
  Node floats("Constant");
  floats.add("value_floats", onnx::AttributeProto::FLOATS).add_floats(2.0f);
  EXPECT_TRUE(isSame(evaluate(floats, {}), tensorOf(ElementKind::F32, {1}, {2})));
  Node strings("Constant");
  strings.add("value_strings", onnx::AttributeProto::STRINGS).add_strings("c");
  EXPECT_EQ(evaluate(strings, {}).strings, (std::vector<std::string>{"c"}));
}

TEST(MovementTest, SparseConstantsAreMadeDense) {
  auto sparse = [](const std::vector<int64_t> &indexShape, const std::vector<int64_t> &indices) {
    Node node("Constant");
    onnx::SparseTensorProto &proto = *node.add("sparse_value", onnx::AttributeProto::SPARSE_TENSOR).mutable_sparse_tensor();
    proto.add_dims(2);
    proto.add_dims(3);
    proto.mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
    proto.mutable_values()->add_dims(2);
    proto.mutable_values()->add_float_data(5);
    proto.mutable_values()->add_float_data(6);
    proto.mutable_indices()->set_data_type(onnx::TensorProto::INT64);
    for (int64_t dim : indexShape)
      proto.mutable_indices()->add_dims(dim);
    for (int64_t index : indices)
      proto.mutable_indices()->add_int64_data(index);
    return node;
  };
  const HostTensor expected = tensorOf(ElementKind::F32, {2, 3}, {0, 5, 0, 0, 0, 6});
  EXPECT_TRUE(isSame(evaluate(sparse({2}, {1, 5}), {}), expected));
  EXPECT_TRUE(isSame(evaluate(sparse({2, 2}, {0, 1, 1, 2}), {}), expected));
  EXPECT_NE(errorOf([&] { evaluate(sparse({2}, {1, 6}), {}); }), "");
  EXPECT_NE(errorOf([&] { evaluate(sparse({2, 2}, {0, 3, 1, 2}), {}); }), "");
  EXPECT_NE(errorOf([&] { evaluate(sparse({1}, {0}), {}); }), "");
}

TEST(MovementTest, RangesAtTheEndsOfTheirTypes) {
  auto range = [](ElementKind kind, int64_t start, int64_t limit, int64_t delta) {
    return evaluate(Node("Range"), {tensorOf(kind, {}, {start}), tensorOf(kind, {}, {limit}), tensorOf(kind, {}, {delta})});
  };
  EXPECT_TRUE(isSame(range(ElementKind::I64, kLeast, kMost, kMost), list({kLeast, -1, kMost - 1})));
  EXPECT_TRUE(isSame(range(ElementKind::I64, kMost, kLeast, kLeast), list({kMost, -1})));
  EXPECT_TRUE(isSame(range(ElementKind::I16, 5, 0, -2), tensorOf(ElementKind::I16, {3}, {5, 3, 1})));
  EXPECT_EQ(range(ElementKind::I32, 5, 0, 2).shape, (Shape{0}));
  EXPECT_EQ(range(ElementKind::F32, 0, 5, 2).shape, (Shape{3}));
  EXPECT_NE(errorOf([&] { range(ElementKind::I64, kLeast, kMost, 1); }), "");
  EXPECT_NE(errorOf([&] { range(ElementKind::F32, 0, 1, 0); }), "");
  EXPECT_NE(errorOf([&] { range(ElementKind::Bool, 0, 1, 1); }), "");
  const HostTensor zero = makeScalar(ElementKind::F32, 0.0f), one = makeScalar(ElementKind::F32, 1.0f);
  for (float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_NE(errorOf([&] { evaluate(Node("Range"), {zero, makeScalar(ElementKind::F32, odd), one}); }), "");
  }
}

TEST(MovementTest, DiagonalsFarOutside) {
  const HostTensor x = tensorOf(ElementKind::I32, {2, 3}, {1, 2, 3, 4, 5, 6}), zeros = makeTensor(ElementKind::I32, {2, 3});
  for (bool isUpper : {false, true}) {
    const Node node = Node("Trilu").integer("upper", isUpper);
    EXPECT_TRUE(isSame(evaluate(node, {x, list({kLeast})}), isUpper ? x : zeros));
    EXPECT_TRUE(isSame(evaluate(node, {x, list({kMost})}), isUpper ? zeros : x));
  }
  EXPECT_TRUE(isSame(evaluate(Node("Trilu"), {x, list({1})}), tensorOf(ElementKind::I32, {2, 3}, {0, 2, 3, 0, 0, 6})));
  EXPECT_TRUE(isSame(evaluate(Node("EyeLike").integer("k", kMost), {x}), zeros));
  EXPECT_TRUE(isSame(evaluate(Node("EyeLike").integer("k", kLeast), {x}), zeros));
  EXPECT_TRUE(isSame(evaluate(Node("EyeLike").integer("k", -1), {x}), tensorOf(ElementKind::I32, {2, 3}, {0, 0, 0, 1, 0, 0})));
}

TEST(MovementTest, ShapesFromStartToEnd) {
  const HostTensor x = makeTensor(ElementKind::F32, {2, 3, 4});
  EXPECT_TRUE(isSame(evaluate(Node("Shape").integer("start", -2), {x}), list({3, 4})));
  EXPECT_TRUE(isSame(evaluate(Node("Shape").integer("start", -9).integer("end", 9), {x}), list({2, 3, 4})));
  EXPECT_TRUE(isSame(evaluate(Node("Shape").integer("start", 2).integer("end", 1), {x}), list({})));
}

TEST(MovementTest, CachesAreWrittenInALineOrInACircle) {
  const HostTensor past = countingTensor(ElementKind::F32, {2, 3, 1}),
                   update = tensorOf(ElementKind::F32, {2, 2, 1}, {10, 11, 12, 13});
  EXPECT_TRUE(isSame(evaluate(Node("TensorScatter"), {past, update, list({0, 1})}),
                     tensorOf(ElementKind::F32, {2, 3, 1}, {10, 11, 2, 3, 12, 13})));
  EXPECT_TRUE(isSame(evaluate(Node("TensorScatter").text("mode", "circular"), {past, update, list({2, 7})}),
                     tensorOf(ElementKind::F32, {2, 3, 1}, {11, 1, 10, 3, 12, 13})));
  EXPECT_NE(errorOf([&] { evaluate(Node("TensorScatter"), {past, update, list({0, 2})}); }), "");
  EXPECT_NE(errorOf([&] { evaluate(Node("TensorScatter"), {past, update, list({0, -1})}); }), "");
  EXPECT_NE(errorOf([&] { evaluate(Node("TensorScatter"), {past, update, list({kMost, kLeast})}); }), "");
  EXPECT_NE(errorOf([&] { evaluate(Node("TensorScatter").integer("axis", 0), {past, update}); }), "");
  EXPECT_NE(errorOf([&] { evaluate(Node("TensorScatter"), {update, past}); }), "");
}

TEST(MovementTest, UnevenSplitsHaveASmallLastPart) {
  const HostTensor x = countingTensor(ElementKind::F32, {7});
  const std::vector<Value> parts = evaluateAll(Node("Split", 3).integer("num_outputs", 3), {x});
  EXPECT_EQ(parts[0].tensor->shape, (Shape{3}));
  EXPECT_EQ(parts[2].tensor->shape, (Shape{1}));
}

TEST(MovementTest, FormsOfOldOpsets) {
  const HostTensor x = countingTensor(ElementKind::F32, {1, 4});
  EXPECT_EQ(evaluate(Node("Squeeze").integers("axes", {0}), {x}, 11).shape, (Shape{4}));
  EXPECT_EQ(evaluate(Node("Unsqueeze").integers("axes", {0, 3}), {x}, 11).shape, (Shape{1, 1, 4, 1}));
  EXPECT_TRUE(isSame(evaluate(Node("Slice").integers("starts", {-3}).integers("ends", {1000}).integers("axes", {1}), {x}, 9),
                     tensorOf(ElementKind::F32, {1, 3}, {1, 2, 3})));
  EXPECT_EQ(evaluateAll(Node("Split", 2).integer("axis", 1).integers("split", {1, 3}), {x}, 11)[1].tensor->shape,
            (Shape{1, 3}));
  Node pad = Node("Pad").integers("pads", {0, 1, 0, 0});
  pad.add("value", onnx::AttributeProto::FLOAT).set_f(9);
  EXPECT_TRUE(isSame(evaluate(pad, {x}, 9), tensorOf(ElementKind::F32, {1, 5}, {9, 0, 1, 2, 3})));
  const std::vector<Value> dropped = evaluateAll(Node("Dropout", 2), {x}, 9);
  EXPECT_TRUE(isSame(*dropped[1].tensor, tensorOf(ElementKind::F32, {1, 4}, {1, 1, 1, 1})));
}

//===----------------------------------------------------------------------===//
// Nonsense
//===----------------------------------------------------------------------===//

/// A number that is mostly small.
int64_t oddNumber(Random &random) {
  const std::vector<int64_t> odd = {kLeast, kMost, kLeast + 1, -(int64_t(1) << 32)};
  return random.below(12) ? random.between(-3, 5) : odd[size_t(random.below(4))];
}

Value oddInput(Random &random) {
  const int64_t form = random.below(20);
  if (form == 0)
    return Value();
  if (form == 1)
    return Value::sequenceOf({list({1})});
  // Mostly lists and scalars of integers, or tensors that hold small numbers.
  const std::vector<ElementKind> kinds = {ElementKind::I32, ElementKind::F32, ElementKind::Bool, ElementKind::U4};
  const bool isList = form < 12;
  const ElementKind kind = isList ? ElementKind::I64 : random.below(2) ? random.kind() : kinds[size_t(random.below(4))];
  const Shape shape = random.shape(isList ? random.below(3) : random.below(5), random.below(4) ? 1 : 0, 4);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < countOf(shape); ++i)
    values.push_back(isList ? oddNumber(random) : random.between(-2, 3));
  return tensorOf(kind, shape, values);
}

TEST(MovementTest, RandomNodesEndWithAResultOrAnError) {
  const std::vector<const char *> types = {"AffineGrid",
                                           "CenterCropPad",
                                           "Compress",
                                           "Concat",
                                           "ConcatFromSequence",
                                           "ConstantOfShape",
                                           "DepthToSpace",
                                           "Dropout",
                                           "Expand",
                                           "EyeLike",
                                           "Flatten",
                                           "Gather",
                                           "GatherElements",
                                           "GatherND",
                                           "OneHot",
                                           "Optional",
                                           "OptionalGetElement",
                                           "OptionalHasElement",
                                           "Pad",
                                           "Range",
                                           "Reshape",
                                           "ReverseSequence",
                                           "Scatter",
                                           "ScatterElements",
                                           "ScatterND",
                                           "SequenceAt",
                                           "SequenceConstruct",
                                           "SequenceErase",
                                           "SequenceInsert",
                                           "SequenceLength",
                                           "Shape",
                                           "Size",
                                           "Slice",
                                           "SpaceToDepth",
                                           "Split",
                                           "SplitToSequence",
                                           "Squeeze",
                                           "TensorScatter",
                                           "Tile",
                                           "Transpose",
                                           "Trilu",
                                           "Unsqueeze"};
  const std::vector<const char *> numbers = {"axis",      "batch_dims", "blocksize", "keepdims",     "new_axis", "num_outputs",
                                             "start",     "end",        "allowzero", "upper",        "k",        "dtype",
                                             "time_axis", "batch_axis", "seed",      "align_corners"};
  const std::vector<const char *> lists = {"axes", "perm", "pads", "starts", "ends", "split"};
  const std::vector<const char *> modes = {"constant", "reflect", "edge", "wrap", "circular", "linear", "CRD", "DCR"};
  Random random;
  int results = 0;
  for (int round = 0; round < 20000; ++round) {
    const char *type = types[size_t(random.below(int64_t(types.size())))];
    Node node(type, int(random.below(3)) + 1);
    for (const char *name : numbers)
      if (random.below(6) == 0)
        node.integer(name, oddNumber(random));
    for (const char *name : lists)
      if (random.below(3) == 0) {
        std::vector<int64_t> values;
        for (int64_t i = random.below(4); i > 0; --i)
          values.push_back(oddNumber(random));
        node.integers(name, values);
      }
    if (random.below(3) == 0)
      node.text("mode", modes[size_t(random.below(int64_t(modes.size())))]);
    if (random.below(3) == 0)
      node.text("reduction", random.below(2) ? "add" : "max");
    std::vector<Value> inputs;
    for (int64_t i = random.below(6); i > 0; --i)
      inputs.push_back(oddInput(random));
    SCOPED_TRACE(std::string(type) + ", seed " + std::to_string(random.seed) + ", round " + std::to_string(round));
    const std::vector<int64_t> opsets = {7, 10, 12, 22};
    EXPECT_NO_THROW(results += errorOf([&] { evaluateAll(node, inputs, opsets[size_t(random.below(4))]); }).empty());
  }
  EXPECT_GT(results, 1000);
}

} // namespace
