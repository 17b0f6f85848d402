//===- LayoutProblem.cpp - Which values lie channels last -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/LayoutProblem.h"
#include <algorithm>
#include <limits>

namespace tw::graph {
namespace {

using Cost = LayoutProblem::Cost;
constexpr Cost kInfinite = std::numeric_limits<Cost>::max() / 4;

/// A flow network and Dinic's algorithm for its largest flow.
/// source: E. A. Dinic, Algorithm for solution of a problem of maximum flow in networks with power estimation, 1970
class FlowNetwork {
public:
  explicit FlowNetwork(unsigned nodes) : edgesOf(nodes) {}

  unsigned add() {
    edgesOf.emplace_back();
    return unsigned(edgesOf.size() - 1);
  }

  void connect(unsigned from, unsigned to, Cost capacity) {
    if (capacity == 0)
      return;
    edgesOf[from].push_back(unsigned(edges.size()));
    edges.push_back({to, capacity});
    edgesOf[to].push_back(unsigned(edges.size()));
    edges.push_back({from, 0});
  }

  /// Sends the largest flow. The nodes that `source` still reaches are its side of the minimum cut, the smallest such side.
  std::vector<bool> cut(unsigned source, unsigned sink) {
    while (findLevels(source), level[sink] >= 0) {
      next.assign(edgesOf.size(), 0);
      while (augment(source, sink))
        ;
    }
    std::vector<bool> reached(edgesOf.size());
    for (unsigned node = 0; node < edgesOf.size(); ++node)
      reached[node] = level[node] >= 0;
    return reached;
  }

private:
  struct Edge {
    unsigned to;
    Cost left; ///< capacity that no flow uses; edge i ^ 1 is the same edge backwards
  };
  std::vector<Edge> edges;
  std::vector<std::vector<unsigned>> edgesOf;
  std::vector<int64_t> level;
  std::vector<size_t> next; ///< of a node's edges, the first that may still carry flow

  /// Edges from the source to each node; -1 where none leads there.
  void findLevels(unsigned source) {
    level.assign(edgesOf.size(), -1);
    level[source] = 0;
    std::vector<unsigned> queue{source};
    for (size_t i = 0; i < queue.size(); ++i)
      for (unsigned edge : edgesOf[queue[i]])
        if (edges[edge].left > 0 && level[edges[edge].to] < 0) {
          level[edges[edge].to] = level[queue[i]] + 1;
          queue.push_back(edges[edge].to);
        }
  }

  /// Sends flow along one shortest path; false if there is none.
  bool augment(unsigned source, unsigned sink) {
    std::vector<unsigned> path;
    unsigned node = source;
    while (node != sink) {
      if (next[node] == edgesOf[node].size()) { // a dead end
        if (path.empty())
          return false;
        node = edges[path.back() ^ 1].to;
        path.pop_back();
        ++next[node];
        continue;
      }
      const unsigned edge = edgesOf[node][next[node]];
      if (edges[edge].left > 0 && level[edges[edge].to] == level[node] + 1) {
        path.push_back(edge);
        node = edges[edge].to;
      } else {
        ++next[node];
      }
    }
    Cost flow = kInfinite;
    for (unsigned edge : path)
      flow = std::min(flow, edges[edge].left);
    for (unsigned edge : path) {
      edges[edge].left -= flow;
      edges[edge ^ 1].left += flow;
    }
    return true;
  }
};

} // namespace

LayoutProblem::Node LayoutProblem::add() {
  fixed.push_back(Pinned::Open);
  costs.emplace_back();
  return Node(fixed.size() - 1);
}

std::vector<bool> LayoutProblem::solve() const {
  // The source's side of the cut lies channels last: an edge is cut, and paid, where it leads from there to the other side.
  const auto count = unsigned(fixed.size());
  FlowNetwork network(count + 2);
  const unsigned source = count, sink = count + 1;
  for (unsigned node = 0; node < count; ++node) {
    network.connect(source, node, fixed[node] == Pinned::Last ? kInfinite : costs[node][false]);
    network.connect(node, sink, fixed[node] == Pinned::Model ? kInfinite : costs[node][true]);
  }
  for (const Conversion &conversion : conversions) {
    if (conversion.toModel > 0) { // a node between, which is on the sink's side if any reader is
      const unsigned asInModel = network.add();
      network.connect(conversion.made, asInModel, conversion.toModel);
      for (Node reader : conversion.readers)
        network.connect(asInModel, reader, kInfinite);
    }
    if (conversion.toLast > 0) {
      const unsigned asLast = network.add();
      network.connect(asLast, conversion.made, conversion.toLast);
      for (Node reader : conversion.readers)
        network.connect(reader, asLast, kInfinite);
    }
  }
  std::vector<bool> labels = network.cut(source, sink);
  labels.resize(count);
  return labels;
}

LayoutProblem::Cost LayoutProblem::costOf(const std::vector<bool> &labels) const {
  Cost sum = 0;
  for (Node node = 0; node < labels.size(); ++node)
    sum += costs[node][labels[node]];
  for (const Conversion &conversion : conversions) {
    const bool made = labels[conversion.made];
    if (std::any_of(conversion.readers.begin(), conversion.readers.end(), [&](Node reader) { return labels[reader] != made; }))
      sum += made ? conversion.toModel : conversion.toLast;
  }
  return sum;
}

} // namespace tw::graph
