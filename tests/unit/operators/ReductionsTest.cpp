//===- ReductionsTest.cpp - Operators along axes, normalisations, losses --===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random shapes against sums written out index by index.
//===----------------------------------------------------------------------===//
#include "tests/unit/operators/TestCall.h"

#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <numeric>

using namespace tw;
using namespace tw::operators;
using namespace tw::operators::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void expectNear(const HostTensor &y, const Shape &shape, const std::vector<double> &expected, double tolerance = 1e-4) {
  ASSERT_EQ(y.shape, shape);
  ASSERT_EQ(size_t(countOf(y)), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    if (std::isfinite(expected[i]))
      ASSERT_NEAR(realAt(y, int64_t(i)), expected[i], tolerance * (1 + std::fabs(expected[i]))) << "element " << i;
    else if (std::isnan(expected[i]))
      ASSERT_TRUE(std::isnan(realAt(y, int64_t(i)))) << "element " << i;
    else
      ASSERT_EQ(realAt(y, int64_t(i)), expected[i]) << "element " << i;
}

double reduced(const std::string &type, const std::vector<double> &values) {
  double sum = 0, norm = 0, squares = 0, product = 1, exponentials = 0, greatest = -kInfinity, least = kInfinity;
  for (double each : values) {
    sum += each;
    norm += std::fabs(each);
    squares += each * each;
    product *= each;
    exponentials += std::exp(each);
    greatest = std::max(greatest, each);
    least = std::min(least, each);
  }
  const std::map<std::string, double> results = {{"ReduceL1", norm},
                                                 {"ReduceL2", std::sqrt(squares)},
                                                 {"ReduceLogSum", std::log(sum)},
                                                 {"ReduceLogSumExp", std::log(exponentials)},
                                                 {"ReduceMax", greatest},
                                                 {"ReduceMean", sum / double(values.size())},
                                                 {"ReduceMin", least},
                                                 {"ReduceProd", product},
                                                 {"ReduceSum", sum},
                                                 {"ReduceSumSquare", squares}};
  return results.at(type);
}

const char *const kReductions[] = {"ReduceL1",   "ReduceL2",  "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
                                   "ReduceMean", "ReduceMin", "ReduceProd",   "ReduceSum",       "ReduceSumSquare"};

} // namespace

//===----------------------------------------------------------------------===//
// Reduce*
//===----------------------------------------------------------------------===//

TEST(ReduceTest, RandomShapesAndAxes) {
  const ElementKind kinds[] = {ElementKind::F32, ElementKind::F64, ElementKind::F16, ElementKind::BF16};
  for (unsigned seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const std::string type = kReductions[seed % 10];
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + type);
    Shape shape(size_t(between(random, 0, 5)));
    for (int64_t &dim : shape)
      dim = between(random, 0, 9) ? between(random, 1, 4) : 0;
    std::vector<int64_t> axes;
    for (size_t dim = 0; dim < shape.size(); ++dim)
      if (between(random, 0, 1))
        axes.push_back(between(random, 0, 1) ? int64_t(dim) : int64_t(dim) - int64_t(shape.size()));
    std::shuffle(axes.begin(), axes.end(), random);
    const bool keeps = between(random, 0, 1), isNoop = between(random, 0, 1), isInput = between(random, 0, 1);
    const ElementKind kind = kinds[between(random, 0, 3)];
    const HostTensor x = randomTensor(random, shape, kind, 0.5, 2);
    // Whether each dim is reduced.
    std::vector<bool> isReduced(shape.size(), axes.empty() && !isNoop);
    for (int64_t axis : axes)
      isReduced[size_t(axis < 0 ? axis + int64_t(shape.size()) : axis)] = true;
    std::map<Shape, std::vector<double>> groups;
    Shape kept, result;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      kept.push_back(isReduced[dim] ? 1 : shape[dim]);
      if (!isReduced[dim] || keeps)
        result.push_back(kept.back());
    }
    forEachIndex(kept, [&](const Shape &index) { groups[index]; });
    int64_t at = 0;
    forEachIndex(shape, [&](Shape index) {
      for (size_t dim = 0; dim < shape.size(); ++dim)
        if (isReduced[dim])
          index[dim] = 0;
      groups[index].push_back(realAt(x, at++));
    });
    std::vector<double> expected;
    for (const auto &[index, values] : groups)
      expected.push_back(reduced(type, values));
    TestCall call(type, isInput ? 18 : 11);
    call.in(x).set("keepdims", keeps);
    if (isInput)
      call.in(makeInts(axes));
    else if (!axes.empty())
      call.set("axes", axes);
    call.set("noop_with_empty_axes", isNoop);
    expectNear(call.run(), result, expected, kind == ElementKind::BF16 ? 1e-2 : kind == ElementKind::F16 ? 2e-3 : 1e-5);
  }
}

TEST(ReduceTest, Integers) {
  const HostTensor x = numbers({4}, {-7, 2, 3, -6}, ElementKind::I32);
  auto reduce = [&](const char *type, const HostTensor &of) {
    return realsOf(TestCall(type).in(of).set("keepdims", 0).run())[0];
  };
  EXPECT_EQ(reduce("ReduceSum", x), -8);
  EXPECT_EQ(reduce("ReduceMean", x), -2);
  EXPECT_EQ(reduce("ReduceL1", x), 18);
  EXPECT_EQ(reduce("ReduceL2", x), 9);
  EXPECT_EQ(reduce("ReduceProd", x), 252);
  EXPECT_EQ(reduce("ReduceMax", x), 3);
  EXPECT_EQ(reduce("ReduceMin", x), -7);
  EXPECT_EQ(reduce("ReduceSumSquare", x), 98);
  const int32_t most = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(reduce("ReduceSum", numbers({2}, {double(most), 1}, ElementKind::I32)), -double(most) - 1);
  EXPECT_EQ(reduce("ReduceMax", numbers({2}, {1, 200}, ElementKind::U8)), 200);
  EXPECT_EQ(reduce("ReduceMean", numbers({2}, {4e9, 2e9}, ElementKind::U32)), 3e9);
}

TEST(ReduceTest, Bools) {
  const HostTensor x = numbers({2, 2}, {0, 1, 0, 0}, ElementKind::Bool);
  const HostTensor y = TestCall("ReduceMax", 20).in(x).in(makeInts({1})).set("keepdims", 0).run();
  EXPECT_EQ(y.type, ElementKind::Bool);
  EXPECT_EQ(realsOf(y), (std::vector<double>{1, 0}));
  EXPECT_EQ(realsOf(TestCall("ReduceMin", 20).in(x).in(makeInts({0})).set("keepdims", 0).run()), (std::vector<double>{0, 0}));
  EXPECT_EQ(realsOf(TestCall("ReduceMin", 20).in(numbers({0}, {}, ElementKind::Bool)).run()), std::vector<double>{1});
  EXPECT_EQ(TestCall("ReduceSum").in(x).error(), "input 0 is of bool, which ReduceSum does not allow");
}

TEST(ReduceTest, NaNAndInfinity) {
  const HostTensor x = numbers({3}, {1, NAN, 3});
  for (const char *type : kReductions)
    EXPECT_TRUE(std::isnan(realsOf(TestCall(type).in(x).run())[0])) << type;
  EXPECT_EQ(realsOf(TestCall("ReduceLogSumExp").in(numbers({2}, {-kInfinity, -kInfinity})).run())[0], -kInfinity);
  EXPECT_EQ(realsOf(TestCall("ReduceLogSumExp").in(numbers({2}, {kInfinity, 0})).run())[0], kInfinity);
  EXPECT_NEAR(realsOf(TestCall("ReduceLogSumExp").in(numbers({2}, {1000, 1000})).run())[0], 1000 + std::log(2), 1e-3);
}

TEST(ReduceTest, WrongAxes) {
  const HostTensor x = numbers({2}, {1, 2});
  EXPECT_EQ(TestCall("ReduceSum").in(x).in(makeInts({1})).error(), "axis is 1 for a tensor of rank 1");
  EXPECT_EQ(TestCall("ReduceSum").in(x).in(makeInts({-2})).error(), "axis is -2 for a tensor of rank 1");
  EXPECT_EQ(TestCall("ReduceMean").in(numbers({0}, {}, ElementKind::I32)).error(),
            "no elements have no mean; input 0 has shape [0]");
}

//===----------------------------------------------------------------------===//
// ArgMax, ArgMin, TopK, CumSum, CumProd
//===----------------------------------------------------------------------===//

TEST(ArgTest, TiesAndNaN) {
  const HostTensor x = numbers({2, 3}, {5, 1, 5, 2, 2, 2});
  expectNear(TestCall("ArgMax").in(x).set("axis", 1).run(), {2, 1}, {0, 0});
  expectNear(TestCall("ArgMax").in(x).set("axis", -1).set("select_last_index", 1).set("keepdims", 0).run(), {2}, {2, 2});
  expectNear(TestCall("ArgMin").in(x).run(), {1, 3}, {1, 0, 1});
  expectNear(TestCall("ArgMax").in(numbers({3}, {1, NAN, NAN})).run(), {1}, {1});
  expectNear(TestCall("ArgMin").in(numbers({3}, {1, NAN, 0})).run(), {1}, {1});
  EXPECT_EQ(TestCall("ArgMax").in(numbers({0, 2}, {})).error(),
            "input 0 has shape [0, 2]: there is nothing to choose from along axis 0");
  EXPECT_EQ(TestCall("ArgMax").in(numbers({0, 2}, {})).set("axis", 1).run().shape, (Shape{0, 1}));
  EXPECT_EQ(TestCall("ArgMax").in(numbers({}, {1})).error(), "input 0 has shape [], expected a rank of at least 1");
}

TEST(TopKTest, RandomRowsAgainstSorting) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Shape shape{between(random, 1, 3), between(random, 1, 8), between(random, 1, 3)};
    const int64_t k = between(random, 0, shape[1]);
    const bool isLargest = between(random, 0, 1);
    HostTensor x = makeTensor(ElementKind::F32, shape);
    for (int64_t i = 0; i < countOf(x); ++i)
      setReal(x, i, between(random, 0, 7) ? double(between(random, 0, 3)) : NAN);
    TestCall call("TopK");
    const std::vector<HostTensor> results = call.in(x).in(makeInts({k})).set("axis", 1).set("largest", isLargest).runAll(2);
    std::vector<double> values(size_t(shape[0] * k * shape[2])), indices(values.size());
    for (int64_t outer = 0; outer < shape[0]; ++outer)
      for (int64_t inner = 0; inner < shape[2]; ++inner) {
        std::vector<int64_t> order(static_cast<size_t>(shape[1]));
        std::iota(order.begin(), order.end(), 0);
        auto keyOf = [&](int64_t i) {
          const double each = realAt(x, (outer * shape[1] + i) * shape[2] + inner), key = std::isnan(each) ? kInfinity : each;
          return isLargest ? -key : key;
        };
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return keyOf(a) < keyOf(b); });
        for (int64_t i = 0; i < k; ++i) {
          const size_t to = size_t((outer * k + i) * shape[2] + inner);
          values[to] = realAt(x, (outer * shape[1] + order[size_t(i)]) * shape[2] + inner);
          indices[to] = double(order[size_t(i)]);
        }
      }
    expectNear(results[0], {shape[0], k, shape[2]}, values);
    expectNear(results[1], {shape[0], k, shape[2]}, indices);
  }
  EXPECT_EQ(TestCall("TopK").in(numbers({2}, {1, 2})).in(makeInts({3})).error(), "k is 3, but axis 0 has 2 elements");
  EXPECT_EQ(TestCall("TopK").in(numbers({2}, {1, 2})).in(makeInts({-1})).error(), "k is -1, but axis 0 has 2 elements");
  expectNear(TestCall("TopK", 7).set("k", 1).in(numbers({2}, {1, 2})).run(), {1}, {2});
}

TEST(CumulativeTest, AllDirections) {
  const HostTensor x = numbers({3}, {2, 3, 4});
  auto run = [&](const char *type, int exclusive, int reverse) {
    return realsOf(TestCall(type, 26).in(x).in(scalar(0)).set("exclusive", exclusive).set("reverse", reverse).run());
  };
  EXPECT_EQ(run("CumSum", 0, 0), (std::vector<double>{2, 5, 9}));
  EXPECT_EQ(run("CumSum", 1, 0), (std::vector<double>{0, 2, 5}));
  EXPECT_EQ(run("CumSum", 0, 1), (std::vector<double>{9, 7, 4}));
  EXPECT_EQ(run("CumSum", 1, 1), (std::vector<double>{7, 4, 0}));
  EXPECT_EQ(run("CumProd", 0, 0), (std::vector<double>{2, 6, 24}));
  EXPECT_EQ(run("CumProd", 1, 1), (std::vector<double>{12, 4, 1}));
  EXPECT_EQ(TestCall("CumSum").in(x).in(scalar(1)).error(), "axis is 1 for a tensor of rank 1");
  EXPECT_EQ(TestCall("CumSum").in(numbers({0, 2}, {})).in(scalar(0)).run().shape, (Shape{0, 2}));
}

//===----------------------------------------------------------------------===//
// Softmax and relatives
//===----------------------------------------------------------------------===//

TEST(SoftmaxTest, AxesOfBothVersions) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Shape shape{between(random, 1, 3), between(random, 1, 4), between(random, 1, 5)};
    const int64_t axis = between(random, 0, 2);
    const bool isFlat = between(random, 0, 1);
    const HostTensor x = randomTensor(random, shape);
    std::map<Shape, double> sums;
    auto groupOf = [&](Shape index) {
      for (size_t dim = 0; dim < 3; ++dim)
        if (isFlat ? int64_t(dim) >= axis : int64_t(dim) == axis)
          index[dim] = 0;
      return index;
    };
    int64_t at = 0;
    forEachIndex(shape, [&](const Shape &index) { sums[groupOf(index)] += std::exp(realAt(x, at++)); });
    std::vector<double> soft, log;
    at = 0;
    forEachIndex(shape, [&](const Shape &index) {
      log.push_back(realAt(x, at++) - std::log(sums[groupOf(index)]));
      soft.push_back(std::exp(log.back()));
    });
    expectNear(TestCall("Softmax", isFlat ? 11 : 13).in(x).set("axis", axis).run(), shape, soft);
    expectNear(TestCall("LogSoftmax", isFlat ? 11 : 13).in(x).set("axis", axis).run(), shape, log);
  }
}

TEST(SoftmaxTest, Extremes) {
  expectNear(TestCall("Softmax").in(numbers({2}, {1e30, 1e30})).run(), {2}, {0.5, 0.5});
  expectNear(TestCall("Softmax").in(numbers({2}, {-kInfinity, 0})).run(), {2}, {0, 1});
  expectNear(TestCall("Softmax").in(numbers({2}, {NAN, 0})).run(), {2}, {NAN, NAN});
  expectNear(TestCall("Softmax").in(numbers({2, 0}, {})).run(), {2, 0}, {});
  expectNear(TestCall("Softmax").in(numbers({}, {3})).run(), {}, {1});
  expectNear(TestCall("Hardmax").in(numbers({2, 3}, {1, 3, 3, 0, 0, 0})).run(), {2, 3}, {0, 1, 0, 1, 0, 0});
  EXPECT_EQ(TestCall("Softmax", 11).in(numbers({2}, {1, 2})).error(), "axis is 1 for a tensor of rank 1");
}

//===----------------------------------------------------------------------===//
// Unique, NonZero
//===----------------------------------------------------------------------===//

TEST(UniqueTest, SortedAndInTheOrderOfFirstUses) {
  const HostTensor x = numbers({2, 3}, {3, 1, 3, 2, 1, 9});
  std::vector<HostTensor> y = TestCall("Unique").in(x).runAll(4);
  EXPECT_EQ(realsOf(y[0]), (std::vector<double>{1, 2, 3, 9}));
  EXPECT_EQ(integersOf(y[1]), (std::vector<int64_t>{1, 3, 0, 5}));
  EXPECT_EQ(integersOf(y[2]), (std::vector<int64_t>{2, 0, 2, 1, 0, 3}));
  EXPECT_EQ(integersOf(y[3]), (std::vector<int64_t>{2, 1, 2, 1}));
  y = TestCall("Unique").in(x).set("sorted", 0).runAll(4);
  EXPECT_EQ(realsOf(y[0]), (std::vector<double>{3, 1, 2, 9}));
  EXPECT_EQ(integersOf(y[1]), (std::vector<int64_t>{0, 1, 3, 5}));
  EXPECT_EQ(integersOf(y[2]), (std::vector<int64_t>{0, 1, 0, 2, 1, 3}));
}

TEST(UniqueTest, RowsStringsAndNaN) {
  std::vector<HostTensor> y = TestCall("Unique").in(numbers({2, 3}, {2, 1, 2, 4, 5, 4})).set("axis", 1).runAll(4);
  expectNear(y[0], {2, 2}, {1, 2, 5, 4});
  EXPECT_EQ(integersOf(y[2]), (std::vector<int64_t>{1, 0, 1}));
  y = TestCall("Unique").in(strings({3}, {"b", "a", "b"})).runAll(1);
  EXPECT_EQ(y[0].strings, (std::vector<std::string>{"a", "b"}));
  expectNear(TestCall("Unique").in(numbers({3}, {NAN, 1, NAN})).run(), {2}, {1, NAN});
  expectNear(TestCall("Unique").in(numbers({0}, {})).run(), {0}, {});
  EXPECT_EQ(TestCall("Unique").in(numbers({}, {1})).set("axis", 0).error(), "input 0 is a scalar and has no axis");
}

TEST(NonZeroTest, RanksAndTypes) {
  expectNear(TestCall("NonZero").in(numbers({2, 2}, {1, 0, -0.0, NAN})).run(), {2, 2}, {0, 1, 0, 1});
  expectNear(TestCall("NonZero").in(numbers({}, {5})).run(), {0, 1}, {});
  expectNear(TestCall("NonZero").in(numbers({3}, {0, 1, 1}, ElementKind::Bool)).run(), {1, 2}, {1, 2});
  EXPECT_EQ(TestCall("NonZero").in(numbers({0, 3}, {})).run().shape, (Shape{2, 0}));
}

//===----------------------------------------------------------------------===//
// Normalisations
//===----------------------------------------------------------------------===//

namespace {

/// (x - mean) / sqrt(variance + epsilon) of each group of elements of one key.
std::vector<double> normalised(const HostTensor &x, const std::vector<int64_t> &keys, double epsilon, bool hasMean = true) {
  std::map<int64_t, double> counts, means, variances;
  for (size_t i = 0; i < keys.size(); ++i) {
    counts[keys[i]] += 1;
    means[keys[i]] += hasMean ? realAt(x, int64_t(i)) : 0;
  }
  for (auto &[key, mean] : means)
    mean /= counts[key];
  for (size_t i = 0; i < keys.size(); ++i)
    variances[keys[i]] += std::pow(realAt(x, int64_t(i)) - means[keys[i]], 2) / counts[keys[i]];
  std::vector<double> values;
  for (size_t i = 0; i < keys.size(); ++i)
    values.push_back((realAt(x, int64_t(i)) - means[keys[i]]) / std::sqrt(variances[keys[i]] + epsilon));
  return values;
}

} // namespace

TEST(NormalisationTest, GroupsOfElements) {
  Random random(4);
  const Shape shape{2, 4, 3};
  const HostTensor x = randomTensor(random, shape), perChannel = randomTensor(random, {4}), bias = randomTensor(random, {4});
  const HostTensor row = randomTensor(random, {4, 3}), rowBias = randomTensor(random, {3});
  std::vector<int64_t> layer, group, instance, batch, channel, inRow;
  for (int64_t i = 0; i < 24; ++i) {
    layer.push_back(i / 12);
    group.push_back(i / 6);
    instance.push_back(i / 3);
    batch.push_back(i / 3 % 4);
    channel.push_back(i / 3 % 4);
    inRow.push_back(i % 12);
  }
  auto scaled = [&](std::vector<double> values, auto scale, auto shift) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = values[i] * scale(i) + shift(i);
    return values;
  };
  auto byChannel = [&](const HostTensor &of) { return [&](size_t i) { return realAt(of, channel[i]); }; };
  const double epsilon = 1e-5;
  expectNear(TestCall("LayerNormalization").set("axis", 1).in(x).in(row).in(rowBias).run(), shape,
             scaled(
                 normalised(x, layer, epsilon), [&](size_t i) { return realAt(row, inRow[i]); },
                 [&](size_t i) { return realAt(rowBias, inRow[i] % 3); }));
  expectNear(
      TestCall("RMSNormalization", 23).set("axis", 1).in(x).in(row).run(), shape,
      scaled(
          normalised(x, layer, epsilon, false), [&](size_t i) { return realAt(row, inRow[i]); }, [](size_t) { return 0; }));
  expectNear(TestCall("GroupNormalization", 21).set("num_groups", 2).in(x).in(perChannel).in(bias).run(), shape,
             scaled(normalised(x, group, epsilon), byChannel(perChannel), byChannel(bias)));
  const HostTensor perGroup = numbers({2}, {2, 3}), groupBias = numbers({2}, {-1, 1});
  expectNear(TestCall("GroupNormalization", 18).set("num_groups", 2).in(x).in(perGroup).in(groupBias).run(), shape,
             scaled(
                 normalised(x, group, epsilon), [&](size_t i) { return realAt(perGroup, group[i] % 2); },
                 [&](size_t i) { return realAt(groupBias, group[i] % 2); }));
  expectNear(TestCall("InstanceNormalization").in(x).in(perChannel).in(bias).run(), shape,
             scaled(normalised(x, instance, epsilon), byChannel(perChannel), byChannel(bias)));
  const HostTensor mean = numbers({4}, {0, 1, 2, 3}), variance = numbers({4}, {1, 2, 3, 4});
  TestCall trains("BatchNormalization", 15);
  const std::vector<HostTensor> y =
      trains.set("training_mode", 1).in(x).in(perChannel).in(bias).in(mean).in(variance).runAll(3);
  expectNear(y[0], shape, scaled(normalised(x, batch, epsilon), byChannel(perChannel), byChannel(bias)));
  EXPECT_EQ(y[1].shape, (Shape{4}));
  std::vector<double> expected;
  for (size_t i = 0; i < 24; ++i)
    expected.push_back((realAt(x, int64_t(i)) - realAt(mean, channel[i])) / std::sqrt(realAt(variance, channel[i]) + epsilon));
  expectNear(TestCall("BatchNormalization").in(x).in(perChannel).in(bias).in(mean).in(variance).run(), shape,
             scaled(expected, byChannel(perChannel), byChannel(bias)));
  expectNear(TestCall("MeanVarianceNormalization").set("axes", Shape{0, 2}).in(x).run(), shape, normalised(x, batch, 0));
}

TEST(NormalisationTest, LayerNormalizationGivesMeansInTheStashType) {
  const HostTensor x = numbers({2, 2}, {1, 3, 2, 2}, ElementKind::F16), scale = numbers({2}, {1, 1}, ElementKind::F16);
  const std::vector<HostTensor> y = TestCall("LayerNormalization").set("epsilon", 1.0f).in(x).in(scale).runAll(3);
  EXPECT_EQ(y[0].type, ElementKind::F16);
  EXPECT_EQ(y[1].type, ElementKind::F32);
  expectNear(y[1], {2, 1}, {2, 2});
  expectNear(y[2], {2, 1}, {std::sqrt(0.5), 1});
}

TEST(NormalisationTest, WrongOperands) {
  const HostTensor x = numbers({1, 3, 2}, {1, 2, 3, 4, 5, 6}), three = numbers({3}, {1, 2, 3}), two = numbers({2}, {1, 2});
  EXPECT_EQ(TestCall("GroupNormalization").set("num_groups", 2).in(x).in(three).in(three).error(),
            "num_groups is 2, which does not divide the 3 channels");
  EXPECT_EQ(TestCall("GroupNormalization").set("num_groups", 0).in(x).in(three).in(three).error(),
            "num_groups is 0, which does not divide the 3 channels");
  EXPECT_EQ(TestCall("InstanceNormalization").in(x).in(two).in(three).error(), "input 1 has shape [2], expected [3]");
  EXPECT_EQ(TestCall("BatchNormalization").in(x).in(three).in(three).in(three).in(two).error(),
            "input 4 has shape [2], expected [3]");
  EXPECT_EQ(TestCall("LayerNormalization").in(x).in(three).error(), "shapes [3] and [2] do not broadcast");
  EXPECT_EQ(TestCall("LayerNormalization").in(x).in(two).set("stash_type", 7).error(),
            "stash_type is 7, expected 1 (float), 10 (float16), 11 (double) or 16 (bfloat16)");
  EXPECT_EQ(TestCall("LpNormalization").set("p", 3).in(x).error(), "p is 3, expected 1 or 2");
  EXPECT_EQ(TestCall("LRN").set("size", 0).in(x).error(), "size is 0, expected at least 1");
  EXPECT_EQ(TestCall("LRN").in(x).error(), "attribute size is missing");
  EXPECT_EQ(TestCall("MeanVarianceNormalization").in(two).error(), "axis is 2 for a tensor of rank 1");
}

TEST(NormalisationTest, ZerosStayZerosUnderLpNormalization) {
  expectNear(TestCall("LpNormalization").in(numbers({2, 2}, {0, 0, 3, 4})).run(), {2, 2}, {0, 0, 0.6, 0.8});
  expectNear(TestCall("LpNormalization").set("p", 1).set("axis", 0).in(numbers({2, 2}, {1, 0, 3, -4})).run(), {2, 2},
             {0.25, 0, 0.75, -1});
}

TEST(NormalisationTest, LrnOfEvenSizes) {
  const HostTensor x = numbers({1, 3, 1}, {1, 2, 3});
  const std::vector<double> y =
      realsOf(TestCall("LRN").set("size", 2).set("alpha", 2.0f).set("beta", 1.0f).set("bias", 0.0f).in(x).run());
  // Channel c sees c and c + 1.
  EXPECT_NEAR(y[0], 1.0 / 5, 1e-6);
  EXPECT_NEAR(y[1], 2.0 / 13, 1e-6);
  EXPECT_NEAR(y[2], 3.0 / 9, 1e-6);
}

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

TEST(LossTest, WeightsIgnoredLabelsAndReductions) {
  Random random(9);
  const HostTensor x = randomTensor(random, {2, 3, 2}), weight = numbers({3}, {0.5, 1, 2});
  const HostTensor labels = numbers({2, 2}, {0, 2, -1, 1}, ElementKind::I64);
  std::vector<double> logs(12), none;
  double sum = 0, weights = 0;
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t i = 0; i < 2; ++i) {
      double total = 0;
      for (int64_t c = 0; c < 3; ++c)
        total += std::exp(realAt(x, (n * 3 + c) * 2 + i));
      for (int64_t c = 0; c < 3; ++c)
        logs[size_t((n * 3 + c) * 2 + i)] = realAt(x, (n * 3 + c) * 2 + i) - std::log(total);
      const int64_t label = integerAt(labels, n * 2 + i);
      none.push_back(label < 0 ? 0 : -realAt(weight, label) * logs[size_t((n * 3 + label) * 2 + i)]);
      sum += none.back();
      weights += label < 0 ? 0 : realAt(weight, label);
    }
  TestCall call("SoftmaxCrossEntropyLoss");
  call.set("ignore_index", -1).in(x).in(labels).in(weight);
  const std::vector<HostTensor> y = TestCall(call).runAll(2);
  expectNear(y[0], {}, {sum / weights});
  expectNear(y[1], {2, 3, 2}, logs);
  expectNear(TestCall(call).set("reduction", "sum").run(), {}, {sum});
  expectNear(TestCall(call).set("reduction", "none").run(), {2, 2}, none);
  TestCall likelihood("NegativeLogLikelihoodLoss");
  expectNear(likelihood.set("ignore_index", -1).in(numbers({2, 3, 2}, logs)).in(labels).in(weight).run(), {}, {sum / weights});
}

TEST(LossTest, WrongOperands) {
  const HostTensor x = numbers({1, 2}, {1, 2});
  auto error = [&](const HostTensor &labels) { return TestCall("SoftmaxCrossEntropyLoss").in(x).in(labels).error(); };
  EXPECT_EQ(error(numbers({1}, {2}, ElementKind::I32)), "label 0 is 2, expected one of 2 classes");
  EXPECT_EQ(error(numbers({1}, {-1}, ElementKind::I32)), "label 0 is -1, expected one of 2 classes");
  EXPECT_EQ(error(numbers({2}, {0, 0}, ElementKind::I32)), "input 1 has shape [2], expected [1]");
  EXPECT_EQ(error(numbers({1}, {0})), "input 1 is of float, which SoftmaxCrossEntropyLoss does not allow");
  EXPECT_EQ(TestCall("NegativeLogLikelihoodLoss").set("reduction", "max").in(x).in(makeInts({0})).error(),
            "reduction is \"max\", expected none, sum or mean");
}
