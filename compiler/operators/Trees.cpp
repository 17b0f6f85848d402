//===- Trees.cpp - Ensembles of decision trees ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/MachineLearning.h"
#include "isa/Printable.h"

#include <functional>
#include <map>

using namespace tw;
using namespace tw::operators;

namespace {

/// In the order of TreeEnsemble's numbers.
enum class NodeMode : uint8_t { LessOrEqual, Less, GreaterOrEqual, Greater, Equal, NotEqual, Member, Leaf };
enum class Aggregate { Average, Sum, Min, Max };

struct Vote {
  size_t target;
  double weight;
};

struct Node {
  NodeMode mode = NodeMode::Leaf;
  /// NaN goes to the true side.
  bool takesMissing = false;
  size_t feature = 0;
  double split = 0;
  /// Indices of nodes.
  size_t whenTrue = 0, whenFalse = 0;
  std::vector<double> members;
  /// Of a leaf.
  std::vector<Vote> votes;

  bool isTrue(double x) const {
    switch (mode) {
    case NodeMode::LessOrEqual:
      return x <= split;
    case NodeMode::Less:
      return x < split;
    case NodeMode::GreaterOrEqual:
      return x >= split;
    case NodeMode::Greater:
      return x > split;
    case NodeMode::Equal:
      return x == split;
    case NodeMode::NotEqual:
      return x != split;
    case NodeMode::Member:
      return std::find(members.begin(), members.end(), x) != members.end();
    case NodeMode::Leaf:
      break;
    }
    return false;
  }
};

struct Forest {
  std::vector<Node> nodes;
  std::vector<size_t> roots;
  size_t targets = 0;

  /// The scores of one row; targets without a vote get 0.
  std::vector<double> scores(const Call &call, const std::vector<double> &row, Aggregate aggregate) const {
    std::vector<double> scores(targets);
    std::vector<bool> isVoted(targets);
    for (size_t root : roots) {
      size_t at = root;
      for (size_t steps = 0; nodes[at].mode != NodeMode::Leaf; ++steps) {
        if (steps > nodes.size())
          call.fail("a tree runs in a circle");
        const Node &node = nodes[at];
        if (node.feature >= row.size())
          call.fail("a node asks for feature " + std::to_string(node.feature) + " of " + std::to_string(row.size()));
        const double x = row[node.feature];
        at = node.isTrue(x) || (node.takesMissing && x != x) ? node.whenTrue : node.whenFalse;
      }
      for (const Vote &vote : nodes[at].votes) {
        double &score = scores[vote.target];
        if (aggregate == Aggregate::Sum || aggregate == Aggregate::Average)
          score += vote.weight;
        else if (!isVoted[vote.target])
          score = vote.weight;
        else
          score = aggregate == Aggregate::Min ? std::min(score, vote.weight) : std::max(score, vote.weight);
        isVoted[vote.target] = true;
      }
    }
    if (aggregate == Aggregate::Average)
      for (double &score : scores)
        score /= double(std::max<size_t>(roots.size(), 1));
    return scores;
  }
};

/// A list of floats, or the tensor of the same name with _as_tensor.
std::vector<double> realsAttr(const Call &call, const std::string &name) {
  std::vector<double> values;
  if (const std::string tensor = name + "_as_tensor"; call.hasAttr(tensor.c_str())) {
    const HostTensor x = call.tensorAttr(tensor.c_str());
    for (int64_t i = 0; i < countOf(x); ++i)
      values.push_back(realAt(x, i));
    return values;
  }
  for (float value : call.floatsAttr(name.c_str(), std::vector<float>()))
    values.push_back(double(value));
  return values;
}

/// Fails unless a list has as many elements as there are nodes, or votes; may be left out if `isOptional`.
void requireLength(const Call &call, const std::string &name, size_t length, size_t expected, bool isOptional = false) {
  if (length != expected && !(isOptional && length == 0))
    call.fail(name + " has " + std::to_string(length) + " elements, expected " + std::to_string(expected));
}

/// The trees of TreeEnsembleClassifier and TreeEnsembleRegressor. `prefix`: "class" or "target", of the votes' attributes.
Forest forestOf(const Call &call, const std::string &prefix, size_t targets) {
  Forest forest;
  forest.targets = targets;
  const std::vector<int64_t> trees = call.intsAttr("nodes_treeids"), ids = call.intsAttr("nodes_nodeids");
  const std::vector<int64_t> features = call.intsAttr("nodes_featureids"), whenTrue = call.intsAttr("nodes_truenodeids");
  const std::vector<int64_t> whenFalse = call.intsAttr("nodes_falsenodeids");
  const std::vector<int64_t> missing = call.intsAttr("nodes_missing_value_tracks_true", std::vector<int64_t>());
  const std::vector<std::string> modes = call.stringsAttr("nodes_modes");
  const std::vector<double> splits = realsAttr(call, "nodes_values");
  const size_t count = trees.size();
  requireLength(call, "nodes_nodeids", ids.size(), count);
  requireLength(call, "nodes_featureids", features.size(), count);
  requireLength(call, "nodes_truenodeids", whenTrue.size(), count);
  requireLength(call, "nodes_falsenodeids", whenFalse.size(), count);
  requireLength(call, "nodes_modes", modes.size(), count);
  requireLength(call, "nodes_values", splits.size(), count);
  requireLength(call, "nodes_missing_value_tracks_true", missing.size(), count, true);

  std::map<std::pair<int64_t, int64_t>, size_t> places;
  for (size_t i = 0; i < count; ++i)
    if (!places.emplace(std::pair(trees[i], ids[i]), i).second)
      call.fail("tree " + std::to_string(trees[i]) + " has node " + std::to_string(ids[i]) + " twice");
  auto placeOf = [&](int64_t tree, int64_t id) {
    const auto found = places.find({tree, id});
    if (found == places.end())
      call.fail("tree " + std::to_string(tree) + " has no node " + std::to_string(id));
    return found->second;
  };
  static const std::pair<const char *, NodeMode> known[] = {{"BRANCH_LEQ", NodeMode::LessOrEqual},
                                                            {"BRANCH_LT", NodeMode::Less},
                                                            {"BRANCH_GTE", NodeMode::GreaterOrEqual},
                                                            {"BRANCH_GT", NodeMode::Greater},
                                                            {"BRANCH_EQ", NodeMode::Equal},
                                                            {"BRANCH_NEQ", NodeMode::NotEqual},
                                                            {"LEAF", NodeMode::Leaf}};
  std::vector<bool> isChild(count);
  forest.nodes.resize(count);
  for (size_t i = 0; i < count; ++i) {
    Node &node = forest.nodes[i];
    const auto mode =
        std::find_if(std::begin(known), std::end(known), [&](const auto &each) { return modes[i] == each.first; });
    if (mode == std::end(known))
      call.fail("a node's mode \"" + printable(modes[i]) + "\" is unknown");
    node.mode = mode->second;
    if (node.mode == NodeMode::Leaf)
      continue;
    if (features[i] < 0)
      call.fail("a node's feature is " + std::to_string(features[i]));
    node.feature = size_t(features[i]);
    node.split = splits[i];
    node.takesMissing = !missing.empty() && missing[i] != 0;
    node.whenTrue = placeOf(trees[i], whenTrue[i]);
    node.whenFalse = placeOf(trees[i], whenFalse[i]);
    isChild[node.whenTrue] = isChild[node.whenFalse] = true;
  }
  // The root is the node that is nobody's child, the first of several.
  std::map<int64_t, bool> hasRoot;
  for (size_t i = 0; i < count; ++i)
    if (bool &known = hasRoot[trees[i]]; !known && !isChild[i]) {
      known = true;
      forest.roots.push_back(i);
    }
  for (const auto &[tree, isRooted] : hasRoot)
    if (!isRooted)
      call.fail("tree " + std::to_string(tree) + " runs in a circle");

  const std::vector<int64_t> voteTrees = call.intsAttr((prefix + "_treeids").c_str()),
                             voteNodes = call.intsAttr((prefix + "_nodeids").c_str());
  const std::vector<int64_t> voteTargets = call.intsAttr((prefix + "_ids").c_str());
  const std::vector<double> weights = realsAttr(call, prefix + "_weights");
  requireLength(call, prefix + "_nodeids", voteNodes.size(), voteTrees.size());
  requireLength(call, prefix + "_ids", voteTargets.size(), voteTrees.size());
  requireLength(call, prefix + "_weights", weights.size(), voteTrees.size());
  for (size_t i = 0; i < voteTrees.size(); ++i) {
    if (voteTargets[i] < 0 || size_t(voteTargets[i]) >= targets)
      call.fail(prefix + "_ids holds " + std::to_string(voteTargets[i]) + ", expected 0 to " +
                std::to_string(int64_t(targets) - 1));
    forest.nodes[placeOf(voteTrees[i], voteNodes[i])].votes.push_back({size_t(voteTargets[i]), weights[i]});
  }
  return forest;
}

int64_t targetsOf(const Call &call) {
  const int64_t targets = call.intAttr("n_targets", 1);
  if (targets < 1 || targets > (int64_t(1) << 24))
    call.fail("n_targets is " + std::to_string(targets) + ", expected 1 to 2^24");
  return targets;
}

// source: ONNX, operator TreeEnsembleRegressor
void evaluateTreeEnsembleRegressor(Call &call) {
  const Rows rows(call, 0);
  const int64_t targets = targetsOf(call);
  const PostTransform post = postTransformOf(call);
  const std::string text = call.stringAttr("aggregate_function", "SUM");
  static const std::pair<const char *, Aggregate> known[] = {
      {"AVERAGE", Aggregate::Average}, {"SUM", Aggregate::Sum}, {"MIN", Aggregate::Min}, {"MAX", Aggregate::Max}};
  const auto aggregate = std::find_if(std::begin(known), std::end(known), [&](const auto &each) { return text == each.first; });
  if (aggregate == std::end(known))
    call.fail("aggregate_function is \"" + printable(text) + "\", expected AVERAGE, SUM, MIN or MAX");
  const Forest forest = forestOf(call, "target", size_t(targets));
  const std::vector<double> base = realsAttr(call, "base_values");
  requireLength(call, "base_values", base.size(), size_t(targets), true);
  HostTensor &y = call.output(0, ElementKind::F32, {rows.count, targets});
  for (int64_t i = 0; i < rows.count; ++i) {
    std::vector<double> scores = forest.scores(call, rows.row(i), aggregate->second);
    for (size_t t = 0; t < base.size(); ++t)
      scores[t] += base[t];
    transform(scores, post);
    setRow(y, i, scores);
  }
}

// source: ONNX, operator TreeEnsembleClassifier
void evaluateTreeEnsembleClassifier(Call &call) {
  const Rows rows(call, 0);
  const Labels labels(call, "classlabels_strings", "classlabels_int64s");
  const PostTransform post = postTransformOf(call);
  const Forest forest = forestOf(call, "class", labels.size());
  const std::vector<double> base = realsAttr(call, "base_values");
  // Votes for one class alone tell two classes apart.
  const std::vector<int64_t> ids = call.intsAttr("class_ids");
  const bool isBinary = labels.size() <= 2 && std::adjacent_find(ids.begin(), ids.end(), std::not_equal_to<>()) == ids.end();
  if (base.size() != 1 || !isBinary)
    requireLength(call, "base_values", base.size(), labels.size(), true);
  const size_t voted = ids.empty() ? 0 : size_t(ids[0]);
  bool isPositive = true;
  for (const Node &node : forest.nodes)
    for (const Vote &vote : node.votes)
      isPositive &= vote.weight >= 0;
  HostTensor &y = labels.makeOutput(call, rows.count);
  HostTensor &z = call.output(1, ElementKind::F32, {rows.count, isBinary ? 2 : int64_t(labels.size())});
  for (int64_t i = 0; i < rows.count; ++i) {
    std::vector<double> scores = forest.scores(call, rows.row(i), Aggregate::Sum);
    for (size_t c = 0; c < base.size(); ++c)
      scores[base.size() == 1 ? voted : c] += base[c];
    if (isBinary) {
      const double score = scores[voted];
      // Sums of weights that are all positive are probabilities.
      scores = {(post == PostTransform::None || post == PostTransform::Probit) && isPositive ? 1 - score : -score, score};
    }
    const size_t largest = indexOfLargest(scores);
    if (labels.size() > 1)
      labels.set(y, i, largest);
    else if (largest == 1)
      labels.set(y, i, 0);
    else
      labels.setNone(y, i);
    transform(scores, post);
    setRow(z, i, scores);
  }
}

/// The trees of TreeEnsemble: leaves are lists of their own, and stand behind the nodes.
Forest ensembleOf(const Call &call, size_t targets) {
  Forest forest;
  forest.targets = targets;
  const std::vector<int64_t> features = call.intsAttr("nodes_featureids"), whenTrue = call.intsAttr("nodes_truenodeids");
  const std::vector<int64_t> whenFalse = call.intsAttr("nodes_falsenodeids"), trueLeafs = call.intsAttr("nodes_trueleafs");
  const std::vector<int64_t> falseLeafs = call.intsAttr("nodes_falseleafs"), leafTargets = call.intsAttr("leaf_targetids");
  const std::vector<int64_t> missing = call.intsAttr("nodes_missing_value_tracks_true", std::vector<int64_t>());
  const HostTensor modes = call.tensorAttr("nodes_modes"), splits = call.tensorAttr("nodes_splits"),
                   weights = call.tensorAttr("leaf_weights");
  const size_t count = features.size(), leaves = leafTargets.size();
  requireLength(call, "nodes_truenodeids", whenTrue.size(), count);
  requireLength(call, "nodes_falsenodeids", whenFalse.size(), count);
  requireLength(call, "nodes_trueleafs", trueLeafs.size(), count);
  requireLength(call, "nodes_falseleafs", falseLeafs.size(), count);
  requireLength(call, "nodes_missing_value_tracks_true", missing.size(), count, true);
  requireLength(call, "nodes_modes", size_t(countOf(modes)), count);
  requireLength(call, "nodes_splits", size_t(countOf(splits)), count);
  requireLength(call, "leaf_weights", size_t(countOf(weights)), leaves);
  // Sets, each ended by a NaN.
  std::vector<double> members;
  if (call.hasAttr("membership_values")) {
    const HostTensor x = call.tensorAttr("membership_values");
    for (int64_t i = 0; i < countOf(x); ++i)
      members.push_back(realAt(x, i));
  }
  size_t nextMember = 0;
  auto child = [&](int64_t id, bool isLeaf) {
    if (id < 0 || size_t(id) >= (isLeaf ? leaves : count))
      call.fail("a node's child is " + std::string(isLeaf ? "leaf " : "node ") + std::to_string(id) + " of " +
                std::to_string(isLeaf ? leaves : count));
    return (isLeaf ? count : 0) + size_t(id);
  };
  forest.nodes.resize(count + leaves);
  for (size_t i = 0; i < count; ++i) {
    Node &node = forest.nodes[i];
    const int64_t mode = integerAt(modes, int64_t(i));
    if (mode < 0 || mode > int64_t(NodeMode::Member))
      call.fail("a node's mode is " + std::to_string(mode) + ", expected 0 to 6");
    if (features[i] < 0)
      call.fail("a node's feature is " + std::to_string(features[i]));
    node.mode = NodeMode(mode);
    node.feature = size_t(features[i]);
    node.split = realAt(splits, int64_t(i));
    node.takesMissing = !missing.empty() && missing[i] != 0;
    node.whenTrue = child(whenTrue[i], trueLeafs[i] != 0);
    node.whenFalse = child(whenFalse[i], falseLeafs[i] != 0);
    if (node.mode != NodeMode::Member)
      continue;
    if (nextMember >= members.size())
      call.fail("membership_values holds fewer sets than there are nodes that ask for one");
    for (; nextMember < members.size() && members[nextMember] == members[nextMember]; ++nextMember)
      node.members.push_back(members[nextMember]);
    ++nextMember;
  }
  for (size_t i = 0; i < leaves; ++i) {
    if (leafTargets[i] < 0 || size_t(leafTargets[i]) >= targets)
      call.fail("leaf_targetids holds " + std::to_string(leafTargets[i]) + ", expected 0 to " +
                std::to_string(int64_t(targets) - 1));
    forest.nodes[count + i].votes = {{size_t(leafTargets[i]), realAt(weights, int64_t(i))}};
  }
  for (int64_t root : call.intsAttr("tree_roots"))
    forest.roots.push_back(child(root, false));
  return forest;
}

// source: ONNX, operator TreeEnsemble
void evaluateTreeEnsemble(Call &call) {
  const Rows rows(call, 0);
  const int64_t targets = targetsOf(call), aggregate = call.intAttr("aggregate_function", 1),
                post = call.intAttr("post_transform", 0);
  if (aggregate < 0 || aggregate > int64_t(Aggregate::Max))
    call.fail("aggregate_function is " + std::to_string(aggregate) + ", expected 0 to 3");
  if (post < 0 || post > int64_t(PostTransform::Probit))
    call.fail("post_transform is " + std::to_string(post) + ", expected 0 to 4");
  if (!frontend::isFloat(rows.x.type))
    call.fail(std::string("input is ") + frontend::elementName(rows.x.type) + ", expected floats");
  const Forest forest = ensembleOf(call, size_t(targets));
  HostTensor &y = call.output(0, rows.x.type, {rows.count, targets});
  for (int64_t i = 0; i < rows.count; ++i) {
    std::vector<double> scores = forest.scores(call, rows.row(i), Aggregate(aggregate));
    transform(scores, PostTransform(post));
    setRow(y, i, scores);
  }
}

} // namespace

void operators::addTrees(Table &table) {
  table["ai.onnx.ml:TreeEnsemble"] = {evaluateTreeEnsemble, {}};
  table["ai.onnx.ml:TreeEnsembleClassifier"] = {evaluateTreeEnsembleClassifier, {}};
  table["ai.onnx.ml:TreeEnsembleRegressor"] = {evaluateTreeEnsembleRegressor, {}};
}
