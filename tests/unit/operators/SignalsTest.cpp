//===- SignalsTest.cpp - Transforms, windows, random numbers, strings -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Regex.h"
#include "tests/unit/operators/TestCall.h"

#include <complex>
#include <gtest/gtest.h>

using namespace tw;
using namespace tw::operators;
using namespace tw::operators::test;

namespace {

using Complex = std::complex<double>;

/// The sum that defines the transform; elements behind the end of `x` are zero.
std::vector<Complex> transformOf(const std::vector<Complex> &x, size_t length, bool isInverse) {
  std::vector<Complex> y(length);
  for (size_t k = 0; k < length; ++k) {
    for (size_t t = 0; t < std::min(length, x.size()); ++t)
      y[k] += x[t] * std::polar(1.0, (isInverse ? 2 : -2) * M_PI * double(k * t % length) / double(length));
    if (isInverse)
      y[k] /= double(length);
  }
  return y;
}

TEST(SignalsTest, TransformIsItsSum) {
  for (int64_t length = 1; length <= 41; ++length)
    for (bool isInverse : {false, true})
      for (int64_t parts : {1, 2}) {
        SCOPED_TRACE("length " + std::to_string(length));
        Random random{unsigned(length)};
        const int64_t in = between(random, 1, 41);
        const HostTensor x = randomTensor(random, {2, in, 3, parts}, ElementKind::F64);
        const HostTensor y =
            TestCall("DFT").set("inverse", int(isInverse)).in(x).in(scalar(double(length))).in(scalar(1)).run();
        ASSERT_EQ(y.shape, (Shape{2, length, 3, 2}));
        for (int64_t outer = 0; outer < 2; ++outer)
          for (int64_t inner = 0; inner < 3; ++inner) {
            std::vector<Complex> row;
            for (int64_t t = 0; t < in; ++t) {
              const int64_t at = ((outer * in + t) * 3 + inner) * parts;
              row.push_back({realAt(x, at), parts == 2 ? realAt(x, at + 1) : 0});
            }
            const std::vector<Complex> expected = transformOf(row, size_t(length), isInverse);
            for (int64_t k = 0; k < length; ++k) {
              const int64_t at = ((outer * length + k) * 3 + inner) * 2;
              ASSERT_NEAR(realAt(y, at), expected[size_t(k)].real(), 1e-11);
              ASSERT_NEAR(realAt(y, at + 1), expected[size_t(k)].imag(), 1e-11);
            }
          }
      }
}

TEST(SignalsTest, OnesidedTransformsAreTheFirstHalfAndComeBack) {
  for (int64_t opset : {17, 20})
    for (int64_t length = 1; length <= 20; ++length) {
      Random random{unsigned(length)};
      const HostTensor x = randomTensor(random, {1, length, 1}, ElementKind::F64);
      auto make = [&](int inverse) {
        TestCall call("DFT", opset);
        call.set("onesided", 1).set("inverse", inverse);
        return opset < 20 ? call.set("axis", 1) : call;
      };
      const HostTensor half = make(0).in(x).run();
      ASSERT_EQ(half.shape, (Shape{1, length / 2 + 1, 2}));
      const HostTensor back = make(1).in(half).in(scalar(double(length))).run();
      ASSERT_EQ(back.shape, x.shape);
      for (int64_t i = 0; i < length; ++i)
        EXPECT_NEAR(realAt(back, i), realAt(x, i), 1e-12);
    }
}

TEST(SignalsTest, LongTransformsComeBack) {
  for (int64_t length : {1000, 1024, 4099}) {
    Random random(7);
    const HostTensor x = randomTensor(random, {1, length, 2}, ElementKind::F64);
    const HostTensor y = TestCall("DFT").set("inverse", 1).in(TestCall("DFT").in(x).run()).run();
    for (int64_t i = 0; i < 2 * length; ++i)
      ASSERT_NEAR(realAt(y, i), realAt(x, i), 1e-11);
  }
}

TEST(SignalsTest, FramesAreTransformedOneByOne) {
  Random random(3);
  const HostTensor x = randomTensor(random, {2, 23, 1}, ElementKind::F64), window = randomTensor(random, {6}, ElementKind::F64);
  const HostTensor y = TestCall("STFT").in(x).in(scalar(4)).in(window).run();
  ASSERT_EQ(y.shape, (Shape{2, 5, 4, 2}));
  for (int64_t batch = 0; batch < 2; ++batch)
    for (int64_t frame = 0; frame < 5; ++frame) {
      std::vector<Complex> row;
      for (int64_t t = 0; t < 6; ++t)
        row.push_back(realAt(x, batch * 23 + frame * 4 + t) * realAt(window, t));
      for (int64_t k = 0; k < 4; ++k)
        EXPECT_NEAR(realAt(y, ((batch * 5 + frame) * 4 + k) * 2 + 1), transformOf(row, 6, false)[size_t(k)].imag(), 1e-12);
    }
}

TEST(SignalsTest, TransformsSayWhatIsWrong) {
  const HostTensor x = numbers({1, 4, 1}, {1, 2, 3, 4}), z = numbers({1, 2, 2}, {1, 2, 3, 4});
  EXPECT_NE(TestCall("DFT").in(numbers({1, 4, 3}, std::vector<double>(12))).error(), "");
  EXPECT_NE(TestCall("DFT").in(x).none().in(scalar(2)).error(), "");
  EXPECT_NE(TestCall("DFT").in(x).none().in(scalar(-4)).error(), "");
  EXPECT_NE(TestCall("DFT").in(x).in(scalar(0)).error(), "");
  EXPECT_NE(TestCall("DFT").in(x).in(scalar(1e15)).error(), "");
  EXPECT_NE(TestCall("DFT").set("onesided", 1).in(z).error(), "");
  EXPECT_NE(TestCall("DFT").set("onesided", 1).set("inverse", 1).in(x).error(), "");
  EXPECT_NE(TestCall("DFT").in(numbers({1, 4, 1}, {1, 2, 3, 4}, ElementKind::I32)).error(), "");
  EXPECT_NE(TestCall("DFT").in(numbers({1, 0, 1}, {})).error(), "");
  EXPECT_NE(TestCall("STFT").in(x).in(scalar(0)).none().in(scalar(2)).error(), "");
  EXPECT_NE(TestCall("STFT").in(x).in(scalar(1)).error(), "");
  EXPECT_NE(TestCall("STFT").in(x).in(scalar(1)).in(numbers({3}, {1, 1, 1})).in(scalar(2)).error(), "");
  EXPECT_EQ(TestCall("STFT").in(x).in(scalar(1)).none().in(scalar(8)).run().shape, (Shape{1, 0, 5, 2}));
}

TEST(SignalsTest, WindowsOfEverySize) {
  for (const char *type : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    EXPECT_EQ(TestCall(type).in(scalar(0)).run().shape, Shape{0});
    EXPECT_NEAR(realAt(TestCall(type).set("periodic", 0).in(scalar(1)).run(), 0), 1, 1e-7);
    EXPECT_NE(TestCall(type).in(scalar(-1)).error(), "");
    EXPECT_NE(TestCall(type).set("output_datatype", 8).in(scalar(3)).error(), "");
    EXPECT_NE(TestCall(type).set("output_datatype", 99).in(scalar(3)).error(), "");
    const HostTensor y = TestCall(type).set("periodic", 0).set("output_datatype", 11).in(scalar(7)).run();
    for (int64_t i = 0; i < 7; ++i)
      EXPECT_NEAR(realAt(y, i), realAt(y, 6 - i), 1e-15);
    EXPECT_NEAR(realAt(y, 3), 1, 1e-15);
  }
  EXPECT_NE(TestCall("MelWeightMatrix").in(scalar(8)).in(scalar(16)).in(scalar(0)).in(scalar(0)).in(scalar(9)).error(), "");
  EXPECT_NE(TestCall("MelWeightMatrix").in(scalar(8)).in(scalar(16)).in(scalar(9)).in(scalar(5)).in(scalar(1)).error(), "");
  // Bands beyond the spectrum have no bins.
  EXPECT_EQ(TestCall("MelWeightMatrix").in(scalar(8)).in(scalar(4)).in(scalar(10)).in(scalar(5)).in(scalar(9000)).run().shape,
            (Shape{3, 8}));
}

//===----------------------------------------------------------------------===//
// Random numbers
//===----------------------------------------------------------------------===//

TEST(SignalsTest, SeedsRepeatAndDistributionsFit) {
  auto normal = [](float seed) {
    return TestCall("RandomNormal")
        .set("shape", std::vector<int64_t>{20000})
        .set("mean", 3.0f)
        .set("scale", 2.0f)
        .set("seed", seed)
        .run();
  };
  EXPECT_EQ(normal(1).bytes, normal(1).bytes);
  EXPECT_NE(normal(1).bytes, normal(2).bytes);
  double sum = 0, squares = 0;
  for (double x : realsOf(normal(5))) {
    sum += x / 20000;
    squares += (x - 3) * (x - 3) / 20000;
  }
  EXPECT_NEAR(sum, 3, 0.1);
  EXPECT_NEAR(squares, 4, 0.2);
  const std::vector<int64_t> shape = {1000};
  EXPECT_NE(TestCall("RandomUniform").set("shape", shape).run().bytes,
            TestCall("RandomUniform").set("shape", shape).run().bytes);
  for (double x : realsOf(TestCall("RandomUniform").set("shape", shape).set("low", -1.0f).set("high", 5.0f).run()))
    EXPECT_TRUE(x >= -1 && x <= 5);
  const HostTensor chances = numbers({4}, {0, 1, 0, 1});
  EXPECT_EQ(realsOf(TestCall("Bernoulli").in(chances).run()), realsOf(chances));
  double tossed = 0;
  for (double x :
       realsOf(TestCall("Bernoulli").set("seed", 1.0f).in(numbers({10000}, std::vector<double>(10000, 0.25))).run())) {
    EXPECT_TRUE(x == 0 || x == 1);
    tossed += x;
  }
  EXPECT_NEAR(tossed, 2500, 260) << "six standard deviations";
  EXPECT_EQ(TestCall("RandomNormalLike").set("dtype", 11).in(chances).run().type, ElementKind::F64);
  const HostTensor drawn = TestCall("Multinomial")
                               .set("sample_size", 10000)
                               .set("seed", 1.0f)
                               .set("dtype", 7)
                               .in(numbers({1, 3}, {0, std::log(3), -HUGE_VAL}))
                               .run();
  double ones = 0;
  for (double x : realsOf(drawn)) {
    EXPECT_TRUE(x == 0 || x == 1);
    ones += x;
  }
  EXPECT_NEAR(ones, 7500, 250);
  EXPECT_NE(TestCall("RandomNormal").set("shape", std::vector<int64_t>{-1}).error(), "");
  EXPECT_NE(TestCall("RandomNormal").set("shape", std::vector<int64_t>{1}).set("dtype", 6).error(), "");
  EXPECT_NE(TestCall("Multinomial").in(numbers({1, 0}, {})).error(), "");
  EXPECT_NE(TestCall("Multinomial").set("sample_size", -1).in(numbers({1, 1}, {0})).error(), "");
  EXPECT_NE(TestCall("Bernoulli").in(strings({1}, {"a"})).error(), "");
}

//===----------------------------------------------------------------------===//
// Strings
//===----------------------------------------------------------------------===//

TEST(SignalsTest, StringsAreSplitAndNormalized) {
  std::vector<HostTensor> parts = TestCall("StringSplit").set("maxsplit", 1).in(strings({2}, {"  a b  c ", ""})).runAll(2);
  EXPECT_EQ(parts[0].strings, (std::vector<std::string>{"a", "b  c ", "", ""}));
  EXPECT_EQ(realsOf(parts[1]), (std::vector<double>{2, 0}));
  parts = TestCall("StringSplit").set("delimiter", "--").in(strings({2}, {"a--b--", "-"})).runAll(2);
  EXPECT_EQ(parts[0].strings, (std::vector<std::string>{"a", "b", "", "-", "", ""}));
  const std::vector<std::string> stops = {"MONDAY"};
  EXPECT_EQ(TestCall("StringNormalizer")
                .set("stopwords", stops)
                .set("case_change_action", "UPPER")
                .in(strings({2}, {"Monday", "größe"}))
                .run()
                .strings,
            (std::vector<std::string>{"GRÖßE"}));
  EXPECT_EQ(TestCall("StringNormalizer").set("stopwords", stops).in(strings({1, 1}, {"monday"})).run().shape, (Shape{1, 1}));
  EXPECT_EQ(TestCall("StringNormalizer").set("case_change_action", "LOWER").in(strings({3}, {"ÀŸ", "ΣΩ", "ЯЁ"})).run().strings,
            (std::vector<std::string>{"àÿ", "σω", "яё"}));
  EXPECT_NE(TestCall("StringNormalizer").set("locale", "tr_TR").in(strings({1}, {"i"})).error(), "");
  EXPECT_NE(TestCall("StringNormalizer").in(strings({2, 1}, {"a", "b"})).error(), "");
  EXPECT_NE(TestCall("StringConcat").in(strings({2}, {"a", "b"})).in(strings({3}, {"a", "b", "c"})).error(), "");
  EXPECT_NE(TestCall("StringConcat").in(strings({1}, {"a"})).in(numbers({1}, {1})).error(), "");
}

TEST(SignalsTest, PatternsMatchAllOfAText) {
  struct {
    const char *pattern, *text;
    bool matches;
  } cases[] = {{"", "", true},
               {"", "a", false},
               {"a|bc|", "bc", true},
               {"a|bc|", "", true},
               {"a|bc|d", "ad", false},
               {"(a|b)*c", "ababc", true},
               {"x(a|b|cd){2,3}y", "xacdy", true},
               {"x(a|b|cd){2,3}y", "xay", false},
               {"x(?:a|b){2}y", "xaby", true},
               {"a{,3}", "a{,3}", true},
               {"a{2,}", "aaaa", true},
               {"a{2,}", "a", false},
               {"a{0}b", "b", true},
               {"(a*)*b", "aaab", true},
               {"(a+)+", "", false},
               {"a.c", "a\nc", false},
               {"(?s)a.c", "a\nc", true},
               {"(?i)straSSe", "STRASSE", true},
               {"(?i:a)b", "Ab", true},
               {"(?i:a)b", "AB", false},
               {"[a-c-]+", "a-c", true},
               {"[]a]+", "]a", true},
               {"[^]a]+", "bc", true},
               {"[^a]", "\n", true},
               {"[[:alpha:]_]+", "ab_", true},
               {"[[:^digit:]]", "1", false},
               {"[\\d\\-x]+", "1-x", true},
               {"\\bfoo\\b.*", "foo bar", true},
               {"foo\\b.*", "foobar", false},
               {"^abc$", "abc", true},
               {"a^b", "ab", false},
               {"(?m)a$\\n^b", "a\nb", true},
               {"a\\zb", "ab", false},
               {"\\x41\\x{42}\\103", "ABC", true},
               {"\\Qa.b\\E", "a.b", true},
               {"\\Qa.b\\E", "axb", false},
               {".", "é", true},
               {"[à-ü]+", "éö", true},
               {"\\w+@(?P<host>\\w+)\\.com", "me@host.com", true},
               {"a**", "", false}};
  for (const auto &each : cases) {
    bool matches = false;
    try {
      matches = Regex(each.pattern).matchesAll(each.text);
    } catch (const Error &) {
      EXPECT_STREQ(each.pattern, "a**");
    }
    EXPECT_EQ(matches, each.matches) << each.pattern << " on " << each.text;
  }
  for (const char *pattern :
       {"(",       ")",     "a)",     "(a",   "[a",  "[",   "*",    "a|*",   "\\",   "a{2,1}",
        "a{1001}", "(?=a)", "(?<=a)", "(?z)", "\\1", "\\y", "\\pL", "[b-a]", "\\xz", "(((a{1000}){1000}){1000}){1000}",
        "(?",      "(?P<",  "\\x{"})
    EXPECT_NE(TestCall("RegexFullMatch").set("pattern", pattern).in(strings({1}, {"a"})).error(), "") << pattern;
  EXPECT_NE(TestCall("RegexFullMatch").set("pattern", std::string(100000, '(')).in(strings({1}, {"a"})).error(), "");
}

TEST(SignalsTest, PatternsAreNeitherSlowNorDeep) {
  EXPECT_FALSE(Regex("(a*)*(a|a|a)*(a+)+b").matchesAll(std::string(20000, 'a')));
  EXPECT_TRUE(Regex(".*").matchesAll(std::string(1000000, 'x')));
}

TEST(SignalsTest, PatternsOfNoiseAreHarmless) {
  const std::string letters = "ab|*+?(){}[]^$.\\d,1-:iP<>";
  for (unsigned seed = 0; seed < 20000; ++seed) {
    Random random(seed);
    std::string pattern, text;
    for (int64_t i = between(random, 0, 12); i > 0; --i)
      pattern += letters[random() % letters.size()];
    for (int64_t i = between(random, 0, 5); i > 0; --i)
      text += letters[random() % 2];
    try {
      Regex(pattern).matchesAll(text);
    } catch (const Error &) {
    }
  }
}

TEST(SignalsTest, NgramsOfStringsAreCountedAndWeighed) {
  auto make = [](const char *mode) {
    return TestCall("TfIdfVectorizer")
        .set("mode", mode)
        .set("min_gram_length", 1)
        .set("max_gram_length", 2)
        .set("max_skip_count", 1)
        .set("ngram_counts", std::vector<int64_t>{0, 2})
        .set("ngram_indexes", std::vector<int64_t>{2, 0, 1})
        .set("pool_strings", std::vector<std::string>{"a", "b", "a", "b"})
        .set("weights", std::vector<float>{2, 3, 4});
  };
  const HostTensor x = strings({4}, {"a", "c", "b", "a"});
  EXPECT_EQ(realsOf(make("TF").in(x).run()), (std::vector<double>{1, 1, 2}));
  EXPECT_EQ(realsOf(make("IDF").in(x).run()), (std::vector<double>{3, 4, 2}));
  EXPECT_EQ(realsOf(make("TFIDF").in(x).run()), (std::vector<double>{3, 4, 4}));
  EXPECT_EQ(make("TF").in(strings({2, 0}, {})).run().shape, (Shape{2, 3}));
  EXPECT_NE(make("DF").in(x).error(), "");
  EXPECT_NE(make("TF").in(numbers({1}, {1})).error(), "");
  EXPECT_NE(make("TF").in(numbers({1}, {1}, ElementKind::I64)).error(), "");
  EXPECT_NE(make("TF").in(strings({}, {"a"})).error(), "");
}

} // namespace
