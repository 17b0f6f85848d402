//===- LayoutProblem.h - Which values lie channels last ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The choice of layouts as a problem of its own (docs/design/layout.md): every node of a graph gets one of two labels. The best labels have
// the least sum of the costs below; a minimum cut finds them exactly. The problem knows no ops.
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

  /// The cost of a value that readers take in another layout than the layout it is made in. The cost counts once for all such readers.
  struct Conversion {
    Node made;                 ///< whose label is the layout in which the value is made
    std::vector<Node> readers; ///< whose labels are the layouts in which it is read
    Cost toLast, toModel; ///< where `made` has the model's layout and a reader channels last; where it is the other way round
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
  /// The cost of `labels`. Precondition: pinned nodes have the labels that they are pinned to.
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
