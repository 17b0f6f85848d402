//===- LayoutProblem.h - Which values lie channels last ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The choice of layouts as a problem of its own (docs/design/layout.md): every node of a graph gets one of two labels, and the sum of the
// costs below is least. A minimum cut solves it exactly. Nothing here knows an op.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_LAYOUTPROBLEM_H
#define COMPILER_GRAPH_TRANSFORMS_LAYOUTPROBLEM_H

#include <cstdint>
#include <vector>

namespace tw::graph {

/// Label false: as in the model; true: channels last. Costs are not negative.
class LayoutProblem {
public:
  using Node = unsigned;
  using Cost = int64_t;

  /// What a value costs that readers want in another layout than it is made in: once, however many readers there are.
  struct Conversion {
    Node made;                 ///< whose label is the layout in which the value is made
    std::vector<Node> readers; ///< whose labels are the layouts in which it is read
    Cost toLast, toModel;      ///< of a reader with label true (false) where `made` has the other one
  };

  /// A new node, whose label is open.
  Node add();
  /// The node's label is given.
  void pin(Node node, bool label) { fixed[node] = label ? Pinned::Last : Pinned::Model; }
  /// `cost` where the node has `label`.
  void addCost(Node node, bool label, Cost cost) { costs[node][label] += cost; }
  void addConversion(Conversion conversion) { conversions.push_back(std::move(conversion)); }

  /// A label for each node, of least cost; of several such, the one with the fewest nodes channels last. Pins are kept.
  [[nodiscard]] std::vector<bool> solve() const;
  /// What `labels` cost. They must keep the pins.
  [[nodiscard]] Cost costOf(const std::vector<bool> &labels) const;

private:
  enum class Pinned : uint8_t { Open, Model, Last };
  struct Costs {
    Cost of[2] = {0, 0};
    Cost &operator[](bool label) { return of[label]; }
    Cost operator[](bool label) const { return of[label]; }
  };
  std::vector<Pinned> fixed;
  std::vector<Costs> costs;
  std::vector<Conversion> conversions;
};

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_LAYOUTPROBLEM_H
