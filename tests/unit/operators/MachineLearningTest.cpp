//===- MachineLearningTest.cpp - Trees, vectors, labels, optimizers -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/unit/operators/TestCall.h"

#include <gtest/gtest.h>
#include <memory>
#include <set>

using namespace tw;
using namespace tw::operators;
using namespace tw::operators::test;

namespace {

TestCall ml(const char *type, int64_t opset = 5) { return TestCall(type, opset, "ai.onnx.ml"); }

//===----------------------------------------------------------------------===//
// Trees
//===----------------------------------------------------------------------===//

const char *const kModes[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};

/// A random tree with its own walk.
struct Tree {
  int mode = -1; ///< -1: a leaf
  bool takesMissing = false;
  int64_t feature = 0, target = 0;
  float value = 0;
  std::unique_ptr<Tree> whenTrue, whenFalse;

  Tree(Random &random, int depth, int64_t features, int64_t targets) {
    value = float(between(random, -2, 2));
    target = between(random, 0, targets - 1);
    if (depth == 0 || random() % 4 == 0)
      return;
    mode = int(random() % 6);
    takesMissing = random() % 2;
    feature = between(random, 0, features - 1);
    whenTrue = std::make_unique<Tree>(random, depth - 1, features, targets);
    whenFalse = std::make_unique<Tree>(random, depth - 1, features, targets);
  }

  const Tree &walk(const std::vector<double> &row) const {
    if (mode < 0)
      return *this;
    const double x = row[size_t(feature)], split = double(value);
    const bool holds[] = {x <= split, x<split, x >= split, x> split, x == split, x != split};
    return (holds[mode] || (x != x && takesMissing) ? whenTrue : whenFalse)->walk(row);
  }
};

/// The attributes of TreeEnsembleRegressor and TreeEnsembleClassifier.
struct Flat {
  std::vector<int64_t> trees, ids, features, whenTrue, whenFalse, missing, voteTrees, voteNodes, voteTargets;
  std::vector<float> values, weights;
  std::vector<std::string> modes;

  int64_t add(const Tree &tree, int64_t number) {
    const int64_t id = int64_t(std::count(trees.begin(), trees.end(), number));
    const size_t at = trees.size();
    trees.push_back(number);
    ids.push_back(id);
    features.push_back(tree.feature);
    missing.push_back(tree.takesMissing);
    values.push_back(tree.value);
    modes.push_back(tree.mode < 0 ? "LEAF" : kModes[tree.mode]);
    whenTrue.push_back(0);
    whenFalse.push_back(0);
    if (tree.mode < 0) {
      voteTrees.push_back(number);
      voteNodes.push_back(id);
      voteTargets.push_back(tree.target);
      weights.push_back(tree.value);
      return id;
    }
    const int64_t left = add(*tree.whenTrue, number), right = add(*tree.whenFalse, number);
    whenTrue[at] = left;
    whenFalse[at] = right;
    return id;
  }

  TestCall call(const char *type, const std::string &prefix) const {
    TestCall call(type, 3, "ai.onnx.ml");
    call.set("nodes_treeids", trees).set("nodes_nodeids", ids).set("nodes_featureids", features).set("nodes_values", values);
    call.set("nodes_modes", modes).set("nodes_truenodeids", whenTrue).set("nodes_falsenodeids", whenFalse);
    call.set("nodes_missing_value_tracks_true", missing).set((prefix + "_treeids").c_str(), voteTrees);
    call.set((prefix + "_nodeids").c_str(), voteNodes).set((prefix + "_ids").c_str(), voteTargets);
    return call.set((prefix + "_weights").c_str(), weights);
  }
};

HostTensor randomFeatures(Random &random, int64_t rows, int64_t features) {
  HostTensor x = makeTensor(ElementKind::F32, {rows, features});
  for (int64_t i = 0; i < countOf(x); ++i)
    setReal(x, i, random() % 8 ? double(between(random, -3, 3)) : std::nan(""));
  return x;
}

std::vector<double> rowOf(const HostTensor &x, int64_t row) {
  std::vector<double> values;
  for (int64_t i = 0; i < x.shape[1]; ++i)
    values.push_back(realAt(x, row * x.shape[1] + i));
  return values;
}

TEST(MachineLearningTest, TreesAreWalked) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const int64_t features = between(random, 1, 4), targets = between(random, 1, 4), count = between(random, 1, 4);
    std::vector<std::unique_ptr<Tree>> trees;
    Flat flat;
    for (int64_t i = 0; i < count; ++i) {
      trees.push_back(std::make_unique<Tree>(random, 4, features, targets));
      flat.add(*trees.back(), 10 - i);
    }
    const HostTensor x = randomFeatures(random, 6, features);
    const char *const aggregates[] = {"SUM", "AVERAGE", "MIN", "MAX"};
    const size_t aggregate = random() % 4;
    const HostTensor y = flat.call("TreeEnsembleRegressor", "target")
                             .set("n_targets", targets)
                             .set("aggregate_function", aggregates[aggregate])
                             .set("base_values", std::vector<float>(size_t(targets), 0.5f))
                             .in(x)
                             .run();
    for (int64_t row = 0; row < 6; ++row)
      for (int64_t target = 0; target < targets; ++target) {
        std::vector<double> votes;
        for (const auto &tree : trees)
          if (const Tree &leaf = tree->walk(rowOf(x, row)); leaf.target == target)
            votes.push_back(double(leaf.value));
        double expected = 0;
        for (double vote : votes)
          expected += vote;
        if (aggregate == 1)
          expected /= double(count);
        if (aggregate > 1 && !votes.empty())
          expected =
              aggregate == 2 ? *std::min_element(votes.begin(), votes.end()) : *std::max_element(votes.begin(), votes.end());
        EXPECT_NEAR(realAt(y, row * targets + target), expected + 0.5, 1e-6);
      }
    if (targets < 3)
      continue;
    std::vector<std::string> names;
    for (int64_t i = 0; i < targets; ++i)
      names.push_back(std::string(1, char('a' + i)));
    const bool hasOneClass = std::set<int64_t>(flat.voteTargets.begin(), flat.voteTargets.end()).size() == 1;
    const std::vector<HostTensor> both =
        flat.call("TreeEnsembleClassifier", "class").set("classlabels_strings", names).in(x).runAll(2);
    for (int64_t row = 0; row < 6 && !hasOneClass; ++row) {
      std::vector<double> scores(static_cast<size_t>(targets));
      for (const auto &tree : trees)
        scores[size_t(tree->walk(rowOf(x, row)).target)] += double(tree->walk(rowOf(x, row)).value);
      EXPECT_EQ(both[0].strings[size_t(row)], names[size_t(std::max_element(scores.begin(), scores.end()) - scores.begin())]);
      EXPECT_EQ(rowOf(both[1], row), scores);
    }
  }
}

TEST(MachineLearningTest, VotesForOneClassTellTwoApart) {
  auto classify = [](std::vector<float> weights, const char *post) {
    return ml("TreeEnsembleClassifier", 3)
        .set("nodes_treeids", std::vector<int64_t>{0, 0, 0})
        .set("nodes_nodeids", std::vector<int64_t>{0, 1, 2})
        .set("nodes_featureids", std::vector<int64_t>{0, 0, 0})
        .set("nodes_values", std::vector<float>{0, 0, 0})
        .set("nodes_modes", std::vector<std::string>{"BRANCH_LEQ", "LEAF", "LEAF"})
        .set("nodes_truenodeids", std::vector<int64_t>{1, 0, 0})
        .set("nodes_falsenodeids", std::vector<int64_t>{2, 0, 0})
        .set("class_treeids", std::vector<int64_t>{0, 0})
        .set("class_nodeids", std::vector<int64_t>{1, 2})
        .set("class_ids", std::vector<int64_t>{0, 0})
        .set("class_weights", weights)
        .set("classlabels_int64s", std::vector<int64_t>{7, 9})
        .set("post_transform", post)
        .in(numbers({2, 1}, {-1, 1}))
        .runAll(2);
  };
  std::vector<HostTensor> both = classify({0.25f, 0.75f}, "NONE");
  EXPECT_EQ(realsOf(both[0]), (std::vector<double>{7, 9}));
  EXPECT_EQ(realsOf(both[1]), (std::vector<double>{0.75, 0.25, 0.25, 0.75}));
  both = classify({-2, 2}, "LOGISTIC");
  EXPECT_EQ(realsOf(both[0]), (std::vector<double>{7, 9}));
  EXPECT_NEAR(realAt(both[1], 0), 1 / (1 + std::exp(-2)), 1e-6);
}

TEST(MachineLearningTest, DamagedTreesGiveErrors) {
  // A tree that branches at least twice.
  Flat good;
  for (unsigned seed = 0; good.ids.size() < 5; ++seed) {
    Random random(seed);
    good = Flat();
    good.add(Tree(random, 5, 3, 2), 0);
  }
  auto error = [](const Flat &flat) {
    Random again(2);
    return flat.call("TreeEnsembleRegressor", "target").set("n_targets", 2).in(randomFeatures(again, 20, 3)).error();
  };
  ASSERT_EQ(error(good), "");
  for (unsigned seed = 0; seed < 3000; ++seed) {
    Random noise(seed);
    Flat bad = good;
    std::vector<int64_t> *lists[] = {&bad.trees,   &bad.ids,       &bad.features,  &bad.whenTrue,   &bad.whenFalse,
                                     &bad.missing, &bad.voteTrees, &bad.voteNodes, &bad.voteTargets};
    std::vector<int64_t> &list = *lists[noise() % 9];
    if (noise() % 4 == 0)
      list.pop_back();
    else
      list[noise() % list.size()] = noise() % 2 ? between(noise, -2, 8) : int64_t(noise()) << 31;
    error(bad);
  }
  Flat circle = good;
  for (size_t i = 0; i < circle.ids.size(); ++i)
    circle.whenTrue[i] = circle.whenFalse[i] = 0;
  EXPECT_NE(error(circle).find("circle"), std::string::npos);
}

TEST(MachineLearningTest, EnsemblesOfListsSayWhatIsWrong) {
  auto make = [](int64_t child, int64_t root, std::vector<double> members) {
    return ml("TreeEnsemble")
        .set("n_targets", 1)
        .set("nodes_featureids", std::vector<int64_t>{0})
        .set("nodes_truenodeids", std::vector<int64_t>{child})
        .set("nodes_falsenodeids", std::vector<int64_t>{0})
        .set("nodes_trueleafs", std::vector<int64_t>{1})
        .set("nodes_falseleafs", std::vector<int64_t>{0})
        .setTensor("nodes_modes", {6}, onnx::TensorProto::UINT8)
        .setTensor("nodes_splits", {0})
        .setTensor("membership_values", members)
        .set("leaf_targetids", std::vector<int64_t>{0})
        .setTensor("leaf_weights", {5})
        .set("tree_roots", std::vector<int64_t>{root})
        .in(numbers({1, 1}, {3}));
  };
  EXPECT_EQ(realAt(make(0, 0, {1, 3}).run(), 0), 5);
  EXPECT_NE(make(0, 0, {1, 2}).error().find("circle"), std::string::npos);
  EXPECT_NE(make(1, 0, {3}).error(), "");
  EXPECT_NE(make(0, 1, {3}).error(), "");
  EXPECT_NE(make(0, -1, {3}).error(), "");
  EXPECT_NE(make(0, 0, {}).error(), "");
}

//===----------------------------------------------------------------------===//
// Linear models and support vectors
//===----------------------------------------------------------------------===//

TEST(MachineLearningTest, LinearModels) {
  const HostTensor x = numbers({2, 2}, {1, 2, 3, 4});
  const std::vector<float> six = {1, 0, 0, 1, -1, -1};
  std::vector<HostTensor> both = ml("LinearClassifier", 1)
                                     .set("coefficients", six)
                                     .set("intercepts", std::vector<float>{0, 0, 8})
                                     .set("classlabels_ints", std::vector<int64_t>{5, 6, 7})
                                     .in(x)
                                     .runAll(2);
  EXPECT_EQ(realsOf(both[0]), (std::vector<double>{7, 6}));
  EXPECT_EQ(realsOf(both[1]), (std::vector<double>{1, 2, 5, 3, 4, 1}));
  EXPECT_EQ(realsOf(ml("LinearRegressor", 1).set("coefficients", six).set("targets", 3).in(x).run()),
            (std::vector<double>{1, 2, -3, 3, 4, -7}));
  const HostTensor probit = ml("LinearRegressor", 1)
                                .set("coefficients", std::vector<float>{1})
                                .set("post_transform", "PROBIT")
                                .in(numbers({1, 1}, {0.975}))
                                .run();
  EXPECT_NEAR(realAt(probit, 0), 1.959964, 1e-5);
  EXPECT_NE(ml("LinearClassifier", 1).set("coefficients", six).in(x).error(), "");
  EXPECT_NE(
      ml("LinearClassifier", 1).set("coefficients", six).set("classlabels_ints", std::vector<int64_t>{1, 2}).in(x).error(), "");
  EXPECT_NE(ml("LinearRegressor", 1).set("coefficients", six).set("targets", 0).in(x).error(), "");
  EXPECT_NE(ml("LinearRegressor", 1).set("coefficients", six).set("targets", 3).in(numbers({}, {1})).error(), "");
}

TEST(MachineLearningTest, SupportVectors) {
  const std::vector<float> vectors = {0, 0, 2, 0, 0, 2};
  const HostTensor x = numbers({3, 2}, {0, 0, 2, 0, 0, 2});
  auto make = [&] {
    // Each class keeps one vector; pairs decide for the nearer.
    return ml("SVMClassifier", 1)
        .set("kernel_type", "RBF")
        .set("kernel_params", std::vector<float>{1, 0, 0})
        .set("support_vectors", vectors)
        .set("vectors_per_class", std::vector<int64_t>{1, 1, 1})
        .set("coefficients", std::vector<float>{1, -1, -1, 1, 1, -1})
        .set("rho", std::vector<float>{0, 0, 0})
        .set("classlabels_strings", std::vector<std::string>{"o", "x", "y"});
  };
  std::vector<HostTensor> both = make().in(x).runAll(2);
  EXPECT_EQ(both[0].strings, (std::vector<std::string>{"o", "x", "y"}));
  EXPECT_EQ(both[1].shape, (Shape{3, 3}));
  EXPECT_NEAR(realAt(both[1], 0), 1 - std::exp(-4), 1e-6);
  const std::vector<float> a = {-2, -2, -2}, b = {0, 0, 0};
  both = make().set("prob_a", a).set("prob_b", b).in(x).runAll(2);
  for (int64_t row = 0; row < 3; ++row) {
    double sum = 0;
    for (int64_t c = 0; c < 3; ++c) {
      sum += realAt(both[1], row * 3 + c);
      EXPECT_GE(realAt(both[1], row * 3 + row), realAt(both[1], row * 3 + c));
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
  const HostTensor y = ml("SVMRegressor", 1)
                           .set("kernel_type", "POLY")
                           .set("kernel_params", std::vector<float>{1, 1, 2})
                           .set("support_vectors", vectors)
                           .set("n_supports", 3)
                           .set("coefficients", std::vector<float>{1, 2, 3})
                           .set("rho", std::vector<float>{0.5f})
                           .in(numbers({1, 2}, {1, 0}))
                           .run();
  EXPECT_EQ(realAt(y, 0), 1 + 2 * 9 + 3 + 0.5);
  EXPECT_NE(make().in(numbers({1, 3}, {1, 2, 3})).error(), "");
  EXPECT_NE(make().set("prob_a", a).in(x).error(), "");
  EXPECT_NE(ml("SVMRegressor", 1).set("coefficients", a).set("rho", b).set("n_supports", 2).in(x).error(), "");
}

//===----------------------------------------------------------------------===//
// Features, labels, optimizers
//===----------------------------------------------------------------------===//

TEST(MachineLearningTest, LabelsAreLookedUp) {
  const float nan = std::nanf("");
  const HostTensor y = ml("LabelEncoder", 2)
                           .set("keys_floats", std::vector<float>{1, nan, 1})
                           .set("values_strings", std::vector<std::string>{"one", "none", "again"})
                           .in(numbers({3}, {1, std::nan(""), 2}))
                           .run();
  EXPECT_EQ(y.strings, (std::vector<std::string>{"one", "none", "_Unused"}));
  EXPECT_EQ(
      realsOf(
          ml("LabelEncoder", 1).set("classes_strings", std::vector<std::string>{"a", "b"}).in(strings({2}, {"b", "c"})).run()),
      (std::vector<double>{1, -1}));
  EXPECT_EQ(ml("CategoryMapper", 1)
                .set("cats_int64s", std::vector<int64_t>{3})
                .set("cats_strings", std::vector<std::string>{"three"})
                .in(makeInts({3, 4}))
                .run()
                .strings,
            (std::vector<std::string>{"three", "_Unused"}));
  EXPECT_NE(ml("LabelEncoder", 2)
                .set("keys_floats", std::vector<float>{1})
                .set("values_floats", std::vector<float>{})
                .in(numbers({1}, {1}))
                .error(),
            "");
  EXPECT_NE(ml("LabelEncoder", 2)
                .set("keys_floats", std::vector<float>{1})
                .set("values_floats", std::vector<float>{1})
                .in(makeInts({1}))
                .error(),
            "");
  EXPECT_NE(ml("LabelEncoder", 2).in(makeInts({1})).error(), "");
  EXPECT_NE(ml("ZipMap", 1).in(numbers({1}, {1})).error().find("maps"), std::string::npos);
}

TEST(MachineLearningTest, FeaturesAreTransformed) {
  const HostTensor x = numbers({2, 2}, {3, -4, 0, 0});
  EXPECT_EQ(realsOf(ml("Normalizer", 1).set("norm", "L1").in(numbers({2}, {1, -3})).run()), (std::vector<double>{0.25, -0.75}));
  EXPECT_NEAR(realAt(ml("Normalizer", 1).set("norm", "L2").in(x).run(), 1), -0.8, 1e-6);
  EXPECT_EQ(realsOf(ml("Scaler", 1).set("offset", std::vector<float>{1, 2}).set("scale", std::vector<float>{2}).in(x).run()),
            (std::vector<double>{4, -12, -2, -4}));
  EXPECT_EQ(realsOf(ml("Imputer", 1)
                        .set("imputed_value_int64s", std::vector<int64_t>{7, 8})
                        .set("replaced_value_int64", 0)
                        .in(makeInts({0, 0}))
                        .run()),
            (std::vector<double>{7, 8}));
  EXPECT_EQ(realsOf(ml("OneHotEncoder", 1).set("cats_int64s", std::vector<int64_t>{4, 2}).in(numbers({2}, {2, 9})).run()),
            (std::vector<double>{0, 1, 0, 0}));
  EXPECT_EQ(realsOf(ml("FeatureVectorizer", 1)
                        .set("inputdimensions", std::vector<int64_t>{2, 1})
                        .in(x)
                        .in(numbers({2, 1}, {5, 6}))
                        .run()),
            (std::vector<double>{3, -4, 5, 0, 0, 6}));
  EXPECT_EQ(realsOf(ml("ArrayFeatureExtractor", 1).in(numbers({3}, {5, 6, 7})).in(makeInts({2, 0})).run()),
            (std::vector<double>{7, 5}));
  EXPECT_NE(ml("ArrayFeatureExtractor", 1).in(x).in(makeInts({2})).error(), "");
  EXPECT_NE(ml("Scaler", 1).set("offset", std::vector<float>{1, 2, 3}).in(x).error(), "");
  EXPECT_NE(ml("Scaler", 1).set("offset", std::vector<float>{}).in(x).error(), "");
  EXPECT_NE(ml("Imputer", 1).set("imputed_value_floats", std::vector<float>{}).in(x).error(), "");
  EXPECT_NE(ml("OneHotEncoder", 1).set("zeros", 0).set("cats_int64s", std::vector<int64_t>{4}).in(x).error(), "");
  EXPECT_NE(ml("Binarizer", 1).in(strings({1}, {"a"})).error(), "");
}

TEST(MachineLearningTest, OptimizersSayWhatIsWrong) {
  auto adam = [] { return TestCall("Adam", 1, "ai.onnx.preview.training").in(numbers({}, {0.1})).in(scalar(0)); };
  const HostTensor x = numbers({1}, {1});
  EXPECT_EQ(adam().in(x).in(x).in(x).in(x).error(), "");
  EXPECT_NE(adam().in(x).in(x).in(x).error(), "");
  EXPECT_NE(adam().in(x).in(x).in(x).in(numbers({2}, {1, 2})).error(), "");
  EXPECT_NE(adam().in(x).in(x).in(x).in(makeInts({1})).error(), "");
  EXPECT_NE(TestCall("Momentum", 1, "ai.onnx.preview.training").error(), "");
}

} // namespace
