//===- TensorsTest.cpp - Host tensors: making, fitting, comparing ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Tensors.h"
#include "compiler/frontend/TensorFile.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

using namespace tw;
using namespace tw::runtime;

namespace {

template <typename T> HostTensor tensor(ElementKind type, std::vector<int64_t> shape, std::vector<T> values) {
  HostTensor result{"t", type, std::move(shape), {}};
  result.bytes.resize(values.size() * sizeof(T));
  std::memcpy(result.bytes.data(), values.data(), result.bytes.size());
  return result;
}
HostTensor floats(std::vector<int64_t> shape, std::vector<float> values) {
  return tensor(ElementKind::F32, std::move(shape), std::move(values));
}

Comparison compared(const HostTensor &actual, const HostTensor &expected) {
  StatusOr<Comparison> result = compare(actual, expected);
  EXPECT_TRUE(bool(result));
  return result ? *result : Comparison();
}

const float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

} // namespace

TEST(TensorsTest, EqualTensorsDifferNowhere) {
  Comparison c = compared(floats({1, 3}, {1, 5, 2}), floats({3}, {1, 5, 2}));
  EXPECT_EQ(c.elements, 3);
  EXPECT_EQ(c.differing, 0);
  EXPECT_EQ(c.maxAbsError, 0);
  EXPECT_EQ(c.maxRelativeError, 0);
  EXPECT_EQ(c.top1Agree, 1);
  EXPECT_EQ(c.top1Rows, 1);
  EXPECT_EQ(text(c), "output 't': all 3 values equal; top-1 agrees on 1 of 1");
}

TEST(TensorsTest, ErrorIsMeasuredAgainstTheRangeOfTheExpectedValues) {
  // The expected values span -2 .. 6, so 8; the largest error is 2.
  Comparison c = compared(floats({4}, {-2, 0, 4, 1}), floats({4}, {-2, 0, 6, 2}));
  EXPECT_EQ(c.differing, 2);
  EXPECT_EQ(c.maxAbsError, 2);
  EXPECT_EQ(c.expectedRange, 8);
  EXPECT_EQ(c.maxRelativeError, 0.25);
  EXPECT_EQ(text(c), "output 't': 2 of 4 values differ, max abs error 2 (0.25 of the output's range 8), sizes 1 x 1, 1 x 2; "
                     "top-1 agrees on 1 of 1");
}

TEST(TensorsTest, RangeIsNoLessThanTheLargestMagnitude) {
  Comparison c = compared(floats({2}, {4, 5}), floats({2}, {4, 4}));
  EXPECT_EQ(c.expectedRange, 4);
  EXPECT_EQ(c.maxRelativeError, 0.25);
  EXPECT_EQ(compared(floats({2}, {-8, -6}), floats({2}, {-8, -7})).maxRelativeError, 0.125);
  EXPECT_EQ(compared(floats({2}, {0, 1}), floats({2}, {0, 0})).maxRelativeError, std::numeric_limits<double>::infinity());
}

TEST(TensorsTest, StepsOfOneSizeAreCountedTogether) {
  // 0.1f + k * 0.3f are not exact, so the differences are equal only to a few digits.
  std::vector<float> expected, actual;
  for (int i = 0; i < 10; ++i) {
    expected.push_back(0.1f + float(i) * 0.3f);
    actual.push_back(expected.back() + (i < 3 ? 0.3f : i == 3 ? 0.6f : 0.f));
  }
  Comparison c = compared(floats({10}, actual), floats({10}, expected));
  ASSERT_EQ(c.sizes.size(), 2u);
  EXPECT_NEAR(c.sizes[0].first, 0.3, 1e-6);
  EXPECT_EQ(c.sizes[0].second, 3);
  EXPECT_NEAR(c.sizes[1].first, 0.6, 1e-6);
  EXPECT_EQ(c.sizes[1].second, 1);
}

TEST(TensorsTest, ManySizesAreNotListed) {
  std::vector<float> zeros(20, 0.f), values;
  for (int i = 0; i < 20; ++i)
    values.push_back(float(i));
  Comparison c = compared(floats({20}, values), floats({20}, zeros));
  EXPECT_EQ(c.differing, 19);
  EXPECT_TRUE(c.sizes.empty());
}

TEST(TensorsTest, NanEqualsNanAndNothingElse) {
  EXPECT_EQ(compared(floats({2}, {kNan, 1}), floats({2}, {kNan, 1})).differing, 0);
  EXPECT_EQ(compared(floats({2}, {kNan, 1}), floats({2}, {0, 1})).maxAbsError, std::numeric_limits<double>::infinity());
  EXPECT_EQ(compared(floats({2}, {0, 1}), floats({2}, {kNan, 1})).maxAbsError, std::numeric_limits<double>::infinity());
}

TEST(TensorsTest, InfinitiesAreEqualBySign) {
  EXPECT_EQ(compared(floats({2}, {kInfinity, -kInfinity}), floats({2}, {kInfinity, -kInfinity})).differing, 0);
  Comparison c = compared(floats({2}, {kInfinity, 1}), floats({2}, {-kInfinity, 1}));
  EXPECT_EQ(c.differing, 1);
  EXPECT_EQ(c.maxAbsError, std::numeric_limits<double>::infinity());
}

TEST(TensorsTest, Top1CountsRowsAndTheFirstOfEquals) {
  HostTensor expected = floats({3, 2}, {1, 2, 5, 5, 9, 0});
  // Row 0 agrees; row 1 is a tie won by index 0, while the actual largest is 1; row 2 agrees.
  Comparison c = compared(floats({3, 2}, {0, 1, 5, 6, 8, 0}), expected);
  EXPECT_EQ(c.top1Agree, 2);
  EXPECT_EQ(c.top1Rows, 3);
}

TEST(TensorsTest, TypesAreComparedAsNumbers) {
  EXPECT_EQ(compared(tensor<uint16_t>(ElementKind::F16, {2}, {0x3c00, 0xc000}), floats({2}, {1, -2})).differing, 0);
  EXPECT_EQ(compared(tensor<int8_t>(ElementKind::I8, {2}, {-1, 7}), tensor<int64_t>(ElementKind::I64, {2}, {-1, 7})).differing,
            0);
  EXPECT_EQ(compared(tensor<uint8_t>(ElementKind::U8, {1}, {255}), tensor<int8_t>(ElementKind::I8, {1}, {-1})).differing, 1);
}

TEST(TensorsTest, DifferentSizesCannotBeCompared) {
  StatusOr<Comparison> result = compare(floats({2}, {1, 2}), floats({1, 3}, {1, 2, 3}));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "output 't' is float [2] but the expected one is float [1x3]");
}

TEST(TensorsTest, ShapesAndKindsOfNumbersMustBeThoseOfTheOutput) {
  EXPECT_FALSE(compare(floats({2, 3}, {1, 2, 3, 4, 5, 6}), floats({3, 2}, {1, 2, 3, 4, 5, 6})));
  EXPECT_FALSE(compare(floats({2}, {1, 2}), floats({2, 1}, {1, 2})));
  EXPECT_TRUE(compare(floats({1}, {1}), floats({}, {1})));
  StatusOr<Comparison> integers = compare(floats({1}, {1}), tensor<int8_t>(ElementKind::I8, {1}, {1}));
  ASSERT_FALSE(integers);
  EXPECT_EQ(integers.error().message, "output 't' is float [1] but the expected one is int8 [1]");
  EXPECT_FALSE(compare(tensor<int8_t>(ElementKind::I8, {1}, {1}), floats({1}, {1})));
}

TEST(TensorsTest, LargeIntegersAreComparedExactly) {
  const int64_t large = (int64_t(1) << 53) + 1; // as a double it is 2^53
  Comparison c = compared(tensor<int64_t>(ElementKind::I64, {2}, {large, INT64_MIN}),
                          tensor<int64_t>(ElementKind::I64, {2}, {large - 1, INT64_MIN}));
  EXPECT_EQ(c.differing, 1);
  EXPECT_EQ(c.maxAbsError, 1);
  EXPECT_EQ(
      compared(tensor<uint64_t>(ElementKind::U64, {1}, {UINT64_MAX}), tensor<int64_t>(ElementKind::I64, {1}, {-1})).maxAbsError,
      0x1p64);
}

TEST(TensorsTest, TheLargerOfTwoLimitsCounts) {
  Comparison c = compared(floats({2}, {0, 9}), floats({2}, {0, 8})); // 1 of 8
  EXPECT_FALSE(c.isWithinTolerance());                               // nothing was allowed
  c.tolerance = {0.125, 0, ""};
  EXPECT_TRUE(c.isWithinTolerance());
  c.tolerance = {0.124, 0, ""};
  EXPECT_FALSE(c.isWithinTolerance());
  c.tolerance.absolute = 1;
  EXPECT_TRUE(c.isWithinTolerance());
  // Of zeros the range is zero, and no part of it is more.
  c = compared(floats({1}, {1e-9f}), floats({1}, {0}));
  c.tolerance = {1, 0, ""};
  EXPECT_FALSE(c.isWithinTolerance());
  EXPECT_TRUE(compared(floats({1}, {0}), floats({1}, {0})).isWithinTolerance());
}

TEST(TensorsTest, NoToleranceReachesInfinity) {
  for (float expected : {kNan, kInfinity, -kInfinity, 0.f})
    for (float actual : {kNan, kInfinity, -kInfinity, 0.f}) {
      Comparison c = compared(floats({2}, {actual, 1}), floats({2}, {expected, 1}));
      c.tolerance = {1e300, 1e300, ""};
      const bool same = std::isnan(actual) ? std::isnan(expected) : actual == expected;
      EXPECT_EQ(c.isWithinTolerance(), same) << actual << " " << expected;
    }
}

TEST(TensorsTest, DefaultTolerancesFollowTypeAndNetwork) {
  auto ofRange = [](ElementKind type, Precision precision) { return defaultTolerance(type, precision).ofRange; };
  for (Precision precision : {Precision::Single, Precision::Half, Precision::Bfloat, Precision::Quantised}) {
    // The coarser of the two decides; floats are never exact.
    EXPECT_GE(ofRange(ElementKind::BF16, precision), 1.0 / 256); // one rounding to 8 bits
    EXPECT_GE(ofRange(ElementKind::F16, precision), 1.0 / 2048); // to 11 bits
    EXPECT_GT(ofRange(ElementKind::F32, precision), 0);
    EXPECT_GE(ofRange(ElementKind::F32, precision), ofRange(ElementKind::F32, Precision::Single));
    for (ElementKind type : {ElementKind::Bool, ElementKind::I16, ElementKind::I32, ElementKind::I64, ElementKind::U64}) {
      EXPECT_EQ(ofRange(type, precision), 0);
      EXPECT_EQ(defaultTolerance(type, precision).absolute, 0);
    }
    for (ElementKind type : {ElementKind::I8, ElementKind::U8})
      EXPECT_EQ(defaultTolerance(type, precision).absolute, precision == Precision::Quantised ? 1 : 0);
  }
}

TEST(TensorsTest, InputsFitUpToLeadingOnes) {
  TensorSpec spec{"x", ElementKind::F32, {1, 1, 2}};
  StatusOr<HostTensor> fitted = fitTo(floats({2}, {3, 4}), spec);
  ASSERT_TRUE(fitted);
  EXPECT_EQ(fitted->shape, spec.shape);
  EXPECT_EQ(fitted->name, "x");
  StatusOr<HostTensor> bad = fitTo(floats({2, 1}, {3, 4}), spec);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message, "input 'x' is float [2x1] but must be float [1x1x2]");
}

/// NumPy has no bfloat16, and what a file of floats holds is rounded once.
TEST(TensorsTest, FloatsAreRoundedToNarrowInputs) {
  // Ties go to even: 1 + 2^-8 lies between 1 and 1 + 2^-7 of bfloat16, 1 + 2^-11 between 1 and 1 + 2^-10 of float16.
  StatusOr<HostTensor> bfloat = fitTo(floats({3}, {1 + 0x1p-8f, 1 + 3 * 0x1p-8f, 3.4e38f}), {"x", ElementKind::BF16, {3}});
  ASSERT_TRUE(bfloat);
  EXPECT_EQ(toDoubles(*bfloat), (std::vector<double>{1, 1 + 0x1p-6, kInfinity}));
  StatusOr<HostTensor> half = fitTo(floats({3}, {1 + 0x1p-11f, 0x1p-24f, 65520}), {"x", ElementKind::F16, {3}});
  ASSERT_TRUE(half);
  EXPECT_EQ(toDoubles(*half), (std::vector<double>{1, 0x1p-24, kInfinity}));
  EXPECT_FALSE(fitTo(*half, {"x", ElementKind::BF16, {3}}));
}

TEST(TensorsTest, DevicesHoldFloat16AsFloat) {
  const TensorSpec spec{"y", ElementKind::F16, {2}, true}, own{"y", ElementKind::F16, {2}};
  EXPECT_EQ(spec.stored(), ElementKind::F32);
  HostTensor half = tensor<uint16_t>(ElementKind::F16, {2}, {0x3555, 0x7c00});
  HostTensor stored = toStored(half, spec);
  EXPECT_EQ(stored.type, ElementKind::F32);
  EXPECT_EQ(toDoubles(stored), (std::vector<double>{0.333251953125, kInfinity}));
  HostTensor back = fromStored(floats({2}, {0.33325f, 70000}), spec);
  EXPECT_EQ(back.type, ElementKind::F16);
  EXPECT_EQ(back.bytes, half.bytes);
  EXPECT_EQ(toStored(half, own).bytes, half.bytes) << "a kernel of the CPU has the type itself";
}

TEST(TensorsTest, DifferencesBeyondDoublesAreSeen) {
  Comparison c = compared(tensor<int64_t>(ElementKind::I64, {2}, {9007199254740993, INT64_MIN}),
                          tensor<int64_t>(ElementKind::I64, {2}, {9007199254740992, INT64_MAX}));
  EXPECT_EQ(c.differing, 2);
  EXPECT_EQ(c.maxAbsError, 0x1p64);
}

TEST(TensorsTest, WhatIsNotFiniteIsCountedApart) {
  Comparison c = compared(floats({4}, {kInfinity, 1, kNan, 2}), floats({4}, {3, 1.5f, kInfinity, 2}));
  EXPECT_EQ(c.differing, 3);
  EXPECT_EQ(c.notFinite, 2);
  EXPECT_EQ(c.maxFiniteError, 0.5);
}

TEST(TensorsTest, OnlyConversionsToFloatWidenExactly) {
  TensorSpec spec{"x", ElementKind::F32, {2}};
  // binary16 0x3555: exponent field 13, so 2^-2; significand 1 + 0x155 / 1024; together 1365 / 4096 = 0.333251953125.
  StatusOr<HostTensor> half = fitTo(tensor<uint16_t>(ElementKind::F16, {2}, {0x3555, 0x3c00}), spec);
  ASSERT_TRUE(half);
  EXPECT_EQ(toDoubles(*half), (std::vector<double>{0.333251953125, 1}));
  StatusOr<HostTensor> bfloat = fitTo(tensor<uint16_t>(ElementKind::BF16, {2}, {0x3fc0, 0xbf80}), spec);
  ASSERT_TRUE(bfloat);
  EXPECT_EQ(toDoubles(*bfloat), (std::vector<double>{1.5, -1}));
  StatusOr<HostTensor> wide = fitTo(tensor<double>(ElementKind::F64, {2}, {1, 2}), spec);
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().message, "input 'x' is double [2] but must be float [2]");
  EXPECT_FALSE(fitTo(tensor<uint8_t>(ElementKind::U8, {2}, {1, 2}), {"x", ElementKind::I8, {2}}));
}

TEST(TensorsTest, ABatchSplitsAndStacksAgain) {
  HostTensor batch = floats({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  StatusOr<std::vector<HostTensor>> parts = splitBatch(batch, {"x", ElementKind::F32, {2, 2}});
  ASSERT_TRUE(parts);
  ASSERT_EQ(parts->size(), 2u);
  EXPECT_EQ(toDoubles((*parts)[1]), (std::vector<double>{4, 5, 6, 7}));
  HostTensor all = stack(*parts);
  EXPECT_EQ(all.shape, batch.shape);
  EXPECT_EQ(all.bytes, batch.bytes);
}

TEST(TensorsTest, ABatchMustBeAMultiple) {
  StatusOr<std::vector<HostTensor>> parts = splitBatch(floats({3, 1}, {1, 2, 3}), {"x", ElementKind::F32, {2, 1}});
  ASSERT_FALSE(parts);
  EXPECT_EQ(parts.error().message, "batch for input 'x' is float [3x1] but must be float [2x1] with dim 0 times any number");
}

TEST(TensorsTest, RandomTensorsFollowFromTheSeed) {
  TensorSpec spec{"x", ElementKind::F32, {100}};
  EXPECT_EQ(randomTensor(spec, 7).bytes, randomTensor(spec, 7).bytes);
  EXPECT_NE(randomTensor(spec, 7).bytes, randomTensor(spec, 8).bytes);
  for (double value : toDoubles(randomTensor(spec, 7))) {
    EXPECT_GE(value, -1);
    EXPECT_LT(value, 1);
  }
  // SplitMix64 of seed 0 begins with 0xe220a8397b1dcdaf (Vigna's reference implementation): its top 24 bits 0xe220a8, less 2^23,
  // over 2^23.
  EXPECT_EQ(toDoubles(randomTensor({"x", ElementKind::F32, {1}}, 0))[0], (0xe220a8 - 8388608) / 8388608.0);
}

TEST(TensorsTest, RandomBytesUseTheWholeRange) {
  std::vector<double> values = toDoubles(randomTensor({"x", ElementKind::I8, {5000}}, 1));
  EXPECT_EQ(*std::min_element(values.begin(), values.end()), -128);
  EXPECT_EQ(*std::max_element(values.begin(), values.end()), 127);
}

TEST(TensorsTest, RandomIntegersAreGoodIndices) {
  for (ElementKind kind : {ElementKind::I32, ElementKind::I64})
    for (double value : toDoubles(randomTensor({"ids", kind, {100}}, 1)))
      EXPECT_TRUE(value == 0 || value == 1) << value;
}

TEST(TensorsTest, BadNpyFilesAreNamed) {
  std::string path = testing::TempDir() + "/bad.npy";
  FILE *file = fopen(path.c_str(), "wb");
  fputs("\x93NUMPY\x01", file);
  fclose(file);
  Result<HostTensor> tensor = frontend::readTensorFile(path);
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.message().rfind(path, 0), 0u) << tensor.message();
  remove(path.c_str());
  EXPECT_FALSE(frontend::readTensorFile(path));
  EXPECT_FALSE(frontend::readTensorFile("tensor.txt"));
}
