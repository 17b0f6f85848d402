//===- ImagesTest.cpp - Resizing, sampling, regions, boxes, files ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/unit/operators/TestCall.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::operators;
using namespace tw::operators::test;

namespace {

//===----------------------------------------------------------------------===//
// Resize, against the formulas of one pixel
//===----------------------------------------------------------------------===//

double cubic(double x, double a) {
  x = std::fabs(x);
  return x <= 1 ? (a + 2) * x * x * x - (a + 3) * x * x + 1 : x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

struct Case {
  std::string mode, position;
  double a = -0.75;
  bool excludes = false, isAntialiased = false;
  Shape in, out;
  std::vector<double> scales;

  double placeOf(size_t axis, int64_t i) const {
    const double scale = scales[axis], size = double(in[axis]), at = double(i), length = scale * size;
    if (position == "asymmetric")
      return at / scale;
    if (position == "align_corners")
      return out[axis] == 1 ? 0 : at * (size - 1) / (length - 1);
    if (position == "pytorch_half_pixel" && length <= 1)
      return 0;
    if (position == "half_pixel_symmetric")
      return size / 2 * (1 - double(out[axis]) / length) + (at + 0.5) / scale - 0.5;
    return (at + 0.5) / scale - 0.5;
  }

  /// All elements along one axis that count, with weights.
  std::vector<std::pair<int64_t, double>> samples(size_t axis, int64_t i) const {
    const double x = placeOf(axis, i);
    const int64_t last = in[axis] - 1;
    if (mode == "nearest")
      return {{std::clamp<int64_t>(int64_t(std::floor(x)), 0, last), 1}};
    const double stretch = isAntialiased ? std::min(1.0, scales[axis]) : 1, reach = (mode == "cubic" ? 2 : 1) / stretch;
    std::vector<std::pair<int64_t, double>> found;
    double sum = 0;
    for (int64_t k = int64_t(std::floor(x - reach)) - 1; k <= int64_t(x + reach) + 2; ++k) {
      const double distance = (double(k) - x) * stretch;
      double weight = mode == "cubic" ? cubic(distance, a) : std::max(0.0, 1 - std::fabs(distance));
      if (excludes && (k < 0 || k > last))
        weight = 0;
      sum += weight;
      found.push_back({std::clamp<int64_t>(k, 0, last), weight});
    }
    for (auto &each : found)
      each.second /= sum;
    return found;
  }

  double pixel(const HostTensor &x, const Shape &index, size_t axis = 0, int64_t at = 0) const {
    if (axis == in.size())
      return realAt(x, at);
    double sum = 0;
    for (const auto &[element, weight] : samples(axis, index[axis]))
      if (weight != 0)
        sum += weight * pixel(x, index, axis + 1, at * in[axis] + element);
    return sum;
  }
};

TEST(ImagesTest, ResizeIsTheFormulaOfEachPixel) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Case one;
    one.mode = std::vector<std::string>{"nearest", "linear", "cubic"}[random() % 3];
    one.position = std::vector<std::string>{"asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric",
                                            "half_pixel"}[random() % 5];
    one.a = random() % 2 ? -0.75 : -0.5;
    one.excludes = random() % 3 == 0;
    one.isAntialiased = one.mode != "nearest" && random() % 3 == 0;
    const bool hasSizes = random() % 2;
    const int64_t rank = between(random, 1, 3);
    std::vector<double> sizes;
    for (int64_t i = 0; i < rank; ++i) {
      one.in.push_back(between(random, 1, 7));
      if (hasSizes) {
        one.out.push_back(between(random, 1, 11));
        one.scales.push_back(double(one.out.back()) / double(one.in.back()));
      } else {
        // Not close to where the lengths jump.
        one.out.push_back(between(random, 1, 11));
        one.scales.push_back(double(float((double(one.out.back()) + 0.37) / double(one.in.back()))));
      }
      // Neither close to a division by zero.
      if (one.position == "align_corners" && one.out.back() == 1)
        one.position = "half_pixel";
    }
    const HostTensor x = randomTensor(random, one.in);
    TestCall call("Resize");
    call.set("mode", one.mode).set("coordinate_transformation_mode", one.position).set("nearest_mode", "floor");
    call.set("cubic_coeff_a", float(one.a)).set("exclude_outside", int(one.excludes)).set("antialias", int(one.isAntialiased));
    call.in(x).none();
    if (hasSizes)
      call.none().in(makeInts(one.out));
    else
      call.in(numbers({rank}, one.scales));
    const HostTensor y = call.run();
    ASSERT_EQ(y.shape, one.out);
    int64_t i = 0;
    forEachIndex(one.out, [&](const Shape &index) {
      bool isTie = false;
      for (size_t axis = 0; one.mode == "nearest" && axis < one.in.size(); ++axis) {
        const double place = one.placeOf(axis, index[axis]);
        isTie |= std::fabs(place - std::round(place)) < 1e-5;
      }
      if (!isTie)
        EXPECT_NEAR(realAt(y, i), one.pixel(x, index), 1e-4) << textOf(index);
      ++i;
    });
  }
}

TEST(ImagesTest, ResizeTakesEveryType) {
  for (ElementKind kind :
       {ElementKind::U8, ElementKind::I64, ElementKind::F16, ElementKind::BF16, ElementKind::F64, ElementKind::I8}) {
    const HostTensor x = numbers({1, 3}, {0, 2, 4}, kind);
    const HostTensor y = TestCall("Resize").set("mode", "linear").in(x).none().none().in(makeInts({1, 6})).run();
    EXPECT_EQ(y.type, kind);
    const bool isWhole = !frontend::isFloat(kind);
    EXPECT_EQ(realsOf(y), (isWhole ? std::vector<double>{0, 0, 1, 2, 3, 4} : std::vector<double>{0, 0.5, 1.5, 2.5, 3.5, 4}));
  }
  const HostTensor words = strings({2}, {"a", "b"});
  EXPECT_EQ(TestCall("Resize").in(words).none().in(numbers({1}, {2})).run().strings,
            (std::vector<std::string>{"a", "a", "b", "b"}));
  EXPECT_NE(TestCall("Resize").set("mode", "linear").in(words).none().in(numbers({1}, {2})).error(), "");
}

TEST(ImagesTest, ResizeAndUpsampleOfOldVersions) {
  const HostTensor x = numbers({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(realsOf(TestCall("Resize", 10).in(x).in(numbers({4}, {1, 1, 0.6, 0.6})).run()), (std::vector<double>{1, 3}));
  EXPECT_EQ(realsOf(TestCall("Upsample", 7).set("scales", std::vector<float>{1, 1, 1, 2}).in(x).run()),
            (std::vector<double>{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8}));
  EXPECT_NE(TestCall("Upsample", 9).in(x).in(numbers({4}, {1, 1, 0.5, 1})).error(), "");
}

TEST(ImagesTest, ResizeSaysWhatIsWrong) {
  const HostTensor x = numbers({2, 2}, {1, 2, 3, 4});
  auto error = [&](TestCall call) { return call.error(); };
  EXPECT_NE(error(TestCall("Resize").in(x)), "");
  EXPECT_NE(error(TestCall("Resize").in(x).none().in(numbers({2}, {1, 1})).in(makeInts({2, 2}))), "");
  EXPECT_NE(error(TestCall("Resize").in(x).none().in(numbers({1}, {1}))), "");
  EXPECT_NE(error(TestCall("Resize").in(x).none().in(numbers({2}, {1, std::nan("")}))), "");
  EXPECT_NE(error(TestCall("Resize").in(x).none().in(numbers({2}, {1, -1}))), "");
  EXPECT_NE(error(TestCall("Resize").in(x).none().in(numbers({2}, {1e9, 1e9}))), "");
  EXPECT_NE(error(TestCall("Resize").in(x).none().none().in(makeInts({2, -1}))), "");
  EXPECT_NE(error(TestCall("Resize").set("axes", std::vector<int64_t>{1, 1}).in(x).none().none().in(makeInts({2, 2}))), "");
  EXPECT_NE(error(TestCall("Resize").set("axes", std::vector<int64_t>{2}).in(x).none().none().in(makeInts({2}))), "");
  EXPECT_NE(error(TestCall("Resize").set("mode", "lanczos").in(x).none().none().in(makeInts({2, 2}))), "");
  EXPECT_NE(error(TestCall("Resize").in(numbers({0, 2}, {})).none().none().in(makeInts({2, 2}))), "");
  EXPECT_NE(error(TestCall("Resize")
                      .set("coordinate_transformation_mode", "tf_crop_and_resize")
                      .in(x)
                      .none()
                      .none()
                      .in(makeInts({2, 2}))),
            "");
  EXPECT_EQ(error(TestCall("Resize").in(numbers({0, 2}, {})).none().none().in(makeInts({0, 2}))), "");
  EXPECT_EQ(error(TestCall("Resize").set("axes", std::vector<int64_t>{-1}).in(x).none().none().in(makeInts({0}))), "");
}

//===----------------------------------------------------------------------===//
// Grids
//===----------------------------------------------------------------------===//

TEST(ImagesTest, GridOfTheIdentityGivesTheImage) {
  Random random(1);
  for (bool alignsCorners : {false, true})
    for (const char *mode : {"linear", "nearest", "cubic"})
      for (const char *padding : {"zeros", "border", "reflection"})
        for (const Shape &image : {Shape{4, 5}, Shape{3, 4, 2}}) {
          Shape shape = {2, 3};
          shape.insert(shape.end(), image.begin(), image.end());
          const HostTensor x = randomTensor(random, shape);
          const int64_t rank = int64_t(image.size());
          HostTensor theta = makeTensor(ElementKind::F32, {2, rank, rank + 1});
          for (int64_t n = 0; n < 2; ++n)
            for (int64_t i = 0; i < rank; ++i)
              setReal(theta, (n * rank + i) * (rank + 1) + i, 1);
          const HostTensor grid =
              TestCall("AffineGrid").set("align_corners", int(alignsCorners)).in(theta).in(makeInts(shape)).run();
          const HostTensor y = TestCall("GridSample")
                                   .set("mode", mode)
                                   .set("padding_mode", padding)
                                   .set("align_corners", int(alignsCorners))
                                   .in(x)
                                   .in(grid)
                                   .run();
          ASSERT_EQ(y.shape, shape);
          for (int64_t i = 0; i < countOf(x); ++i)
            EXPECT_NEAR(realAt(y, i), realAt(x, i), 1e-4) << mode << " " << padding;
        }
}

TEST(ImagesTest, GridsThatLeadOutsideAreHarmless) {
  const double big = 3e38, nan = std::nan("");
  const HostTensor x = numbers({1, 1, 1, 3}, {1, 2, 3});
  const HostTensor grid = numbers({1, 1, 5, 2}, {big, 0, -big, 0, nan, 0, HUGE_VAL, nan, -5, 0});
  for (const char *mode : {"linear", "nearest", "cubic"})
    for (const char *padding : {"zeros", "border", "reflection"})
      for (int alignsCorners : {0, 1}) {
        TestCall call("GridSample");
        call.set("mode", mode).set("padding_mode", padding).set("align_corners", alignsCorners).in(x).in(grid);
        for (double value : realsOf(call.run()))
          EXPECT_TRUE(std::fabs(value) < 10);
      }
  EXPECT_NE(TestCall("GridSample").in(x).in(numbers({2, 1, 1, 2}, {0, 0, 0, 0})).error(), "");
  EXPECT_NE(TestCall("GridSample").in(x).in(numbers({1, 1, 1, 3}, {0, 0, 0})).error(), "");
  EXPECT_NE(TestCall("GridSample").in(numbers({1, 1, 0, 3}, {})).in(numbers({1, 1, 1, 2}, {0, 0})).error(), "");
}

//===----------------------------------------------------------------------===//
// Regions and boxes
//===----------------------------------------------------------------------===//

TEST(ImagesTest, RegionsOfARampAreItsMiddles) {
  // Pixel (h, w) is 10 h + w.
  std::vector<double> ramp;
  for (int i = 0; i < 100; ++i)
    ramp.push_back(i);
  const HostTensor y = TestCall("RoiAlign")
                           .set("output_height", 2)
                           .set("output_width", 2)
                           .in(numbers({1, 1, 10, 10}, ramp))
                           .in(numbers({1, 4}, {2, 2, 6, 6}))
                           .in(makeInts({0}))
                           .run();
  EXPECT_EQ(realsOf(y), (std::vector<double>{27.5, 29.5, 47.5, 49.5}));
  const HostTensor pooled = TestCall("MaxRoiPool")
                                .set("pooled_shape", std::vector<int64_t>{2, 2})
                                .in(numbers({1, 1, 10, 10}, ramp))
                                .in(numbers({1, 5}, {0, 2, 2, 5, 5}))
                                .run();
  EXPECT_EQ(realsOf(pooled), (std::vector<double>{33, 35, 53, 55}));
}

TEST(ImagesTest, RegionsSayWhatIsWrong) {
  const HostTensor x = numbers({1, 1, 2, 2}, {1, 2, 3, 4}), roi = numbers({1, 4}, {0, 0, 1, 1});
  EXPECT_NE(TestCall("RoiAlign").in(x).in(roi).in(makeInts({1})).error(), "");
  EXPECT_NE(TestCall("RoiAlign").in(x).in(roi).in(makeInts({0, 0})).error(), "");
  EXPECT_NE(TestCall("RoiAlign").in(x).in(numbers({1, 4}, {0, 0, 1e30, 1})).in(makeInts({0})).error(), "");
  EXPECT_NE(TestCall("RoiAlign").in(x).in(numbers({1, 4}, {0, 0, 1e12, 1e12})).in(makeInts({0})).error(), "");
  EXPECT_NE(TestCall("RoiAlign").in(x).in(numbers({1, 4}, {0, 0, std::nan(""), 1})).in(makeInts({0})).error(), "");
  EXPECT_NE(
      TestCall("MaxRoiPool").set("pooled_shape", std::vector<int64_t>{0, 2}).in(x).in(numbers({1, 5}, {0, 0, 0, 1, 1})).error(),
      "");
  EXPECT_NE(
      TestCall("MaxRoiPool").set("pooled_shape", std::vector<int64_t>{1, 1}).in(x).in(numbers({1, 5}, {7, 0, 0, 1, 1})).error(),
      "");
}

/// Picks the best box that is left and drops those that overlap it, again and again.
std::vector<double> bruteForce(const HostTensor &boxes, const HostTensor &scores, int64_t most, double limit, double least) {
  std::vector<double> picked;
  const int64_t count = boxes.shape[1];
  auto side = [&](int64_t batch, int64_t i, int k) { return realAt(boxes, (batch * count + i) * 4 + k); };
  for (int64_t batch = 0; batch < boxes.shape[0]; ++batch)
    for (int64_t c = 0; c < scores.shape[1]; ++c) {
      std::vector<bool> isGone(static_cast<size_t>(count));
      for (int64_t n = 0; n < most; ++n) {
        int64_t best = -1;
        auto score = [&](int64_t i) { return realAt(scores, (batch * scores.shape[1] + c) * count + i); };
        for (int64_t i = 0; i < count; ++i)
          if (!isGone[size_t(i)] && score(i) > least && (best < 0 || score(i) > score(best)))
            best = i;
        if (best < 0)
          break;
        picked.insert(picked.end(), {double(batch), double(c), double(best)});
        for (int64_t i = 0; i < count; ++i) {
          double both = 1, all[2] = {1, 1};
          for (int k : {0, 1}) {
            both *= std::max(0.0, std::min(side(batch, i, k + 2), side(batch, best, k + 2)) -
                                      std::max(side(batch, i, k), side(batch, best, k)));
            all[0] *= side(batch, i, k + 2) - side(batch, i, k);
            all[1] *= side(batch, best, k + 2) - side(batch, best, k);
          }
          if (i == best || both / (all[0] + all[1] - both) > limit)
            isGone[size_t(i)] = true;
        }
      }
    }
  return picked;
}

TEST(ImagesTest, SuppressionPicksWhatBruteForcePicks) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const int64_t batches = between(random, 1, 2), classes = between(random, 1, 3), count = between(random, 0, 30);
    HostTensor boxes = makeTensor(ElementKind::F32, {batches, count, 4});
    for (int64_t i = 0; i < batches * count; ++i)
      for (int64_t k : {0, 1}) {
        setReal(boxes, 4 * i + k, real(random, 0, 1));
        setReal(boxes, 4 * i + k + 2, realAt(boxes, 4 * i + k) + real(random, 0.1, 0.8));
      }
    const HostTensor scores = randomTensor(random, {batches, classes, count}, ElementKind::F32, 0, 1);
    const int64_t most = between(random, 0, 12);
    const double limit = real(random, 0, 1), least = real(random, 0, 0.5);
    const HostTensor y = TestCall("NonMaxSuppression")
                             .in(boxes)
                             .in(scores)
                             .in(makeInts({most}))
                             .in(numbers({1}, {limit}))
                             .in(numbers({1}, {least}))
                             .run();
    EXPECT_EQ(realsOf(y), bruteForce(boxes, scores, most, limit, least));
  }
}

TEST(ImagesTest, SuppressionSaysWhatIsWrong) {
  const HostTensor boxes = numbers({1, 1, 4}, {0, 0, 1, 1});
  EXPECT_NE(TestCall("NonMaxSuppression").in(boxes).in(numbers({1, 1, 2}, {1, 1})).error(), "");
  EXPECT_NE(
      TestCall("NonMaxSuppression").in(boxes).in(numbers({1, 1, 1}, {1})).in(makeInts({1})).in(numbers({1}, {1.5})).error(),
      "");
  EXPECT_NE(TestCall("NonMaxSuppression").in(boxes).in(numbers({1, 1, 1}, {1})).in(makeInts({1, 2})).error(), "");
}

TEST(ImagesTest, ColumnsOfOnesCountBlocks) {
  const HostTensor x = numbers({1, 4, 4}, std::vector<double>(16, 1));
  const HostTensor y = TestCall("Col2Im").in(x).in(makeInts({3, 3})).in(makeInts({2, 2})).run();
  EXPECT_EQ(y.shape, (Shape{1, 1, 3, 3}));
  EXPECT_EQ(realsOf(y), (std::vector<double>{1, 2, 1, 2, 4, 2, 1, 2, 1}));
  EXPECT_NE(TestCall("Col2Im").in(x).in(makeInts({3, 4})).in(makeInts({2, 2})).error(), "");
  EXPECT_NE(TestCall("Col2Im").in(x).in(makeInts({3, 3})).in(makeInts({4, 4})).error(), "");
  EXPECT_NE(TestCall("Col2Im").in(x).in(makeInts({3, 3})).in(makeInts({0, 2})).error(), "");
  EXPECT_NE(TestCall("Col2Im").set("strides", std::vector<int64_t>{1}).in(x).in(makeInts({3, 3})).in(makeInts({2, 2})).error(),
            "");
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

HostTensor bytesOf(const std::string &text) {
  HostTensor x = makeTensor(ElementKind::U8, {int64_t(text.size())});
  std::copy(text.begin(), text.end(), x.bytes.begin());
  return x;
}

/// A bitmap of two rows of three pixels of 24 bits.
std::string bitmap(int32_t height) {
  std::string file(54 + 24, '\0');
  auto word = [&](size_t at, int32_t value) { std::memcpy(file.data() + at, &value, 4); };
  file[0] = 'B';
  file[1] = 'M';
  word(10, 54);
  word(14, 40);
  word(18, 3);
  word(22, height);
  file[26] = 1;
  file[28] = 24;
  for (size_t i = 54; i < file.size(); ++i)
    file[i] = char(i);
  return file;
}

TEST(ImagesTest, BitmapsAndAnymapsAreDecoded) {
  const HostTensor down = TestCall("ImageDecoder").in(bytesOf(bitmap(-2))).run(),
                   up = TestCall("ImageDecoder").in(bytesOf(bitmap(2))).run();
  EXPECT_EQ(down.shape, (Shape{2, 3, 3}));
  // Blue lies first in the file; a row takes 12 bytes.
  EXPECT_EQ(realAt(down, 0), 56);
  EXPECT_EQ(realAt(up, 0), 68);
  const HostTensor plain = TestCall("ImageDecoder").set("pixel_format", "Grayscale").in(bytesOf("P2 # two\n2 1\n7\n0 7")).run();
  EXPECT_EQ(realsOf(plain), (std::vector<double>{0, 255}));
  const HostTensor swapped = TestCall("ImageDecoder").set("pixel_format", "BGR").in(bytesOf("P6 1 1 255\nabc")).run();
  EXPECT_EQ(realsOf(swapped), (std::vector<double>{'c', 'b', 'a'}));
}

TEST(ImagesTest, DamagedFilesGiveErrors) {
  for (const std::string &file : {bitmap(2), std::string("P6 2 2 255\nabcdefghijkl"), std::string("P3 1 1 9 1 2 3")})
    // A bitmap's last row may lack what fills its last word.
    for (size_t length = 0; length + (file[0] == 'B' ? 3 : 0) < file.size(); ++length)
      EXPECT_NE(TestCall("ImageDecoder").in(bytesOf(file.substr(0, length))).error(), "") << length;
  EXPECT_NE(TestCall("ImageDecoder").in(bytesOf("P6 99999999999 1 255\n")).error(), "");
  EXPECT_NE(TestCall("ImageDecoder").in(bytesOf("P6 100000 100000 255\n")).error(), "");
  EXPECT_NE(TestCall("ImageDecoder").in(bytesOf("\x89PNG")).error().find("PNG"), std::string::npos);
  for (unsigned seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    std::string file = bitmap(2);
    file[size_t(between(random, 2, 53))] = char(random());
    TestCall("ImageDecoder").in(bytesOf(file)).error();
  }
}

} // namespace
