//===- Rules.h - Rewriting rules as a table ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The records of Rules.td, and which of them a compilation may apply. Needs no
// header of MLIR, as code that only sets options includes this one.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_RULES_H
#define COMPILER_GRAPH_TRANSFORMS_RULES_H

#include "compiler/graph/Math.h"
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mlir {
class RewritePatternSet;
} // namespace mlir

namespace tw::graph {

/// How much of the numbers a rule keeps.
enum class RuleClass : uint8_t {
  BitExact,    ///< every bit
  Real,        ///< the value in real arithmetic
  Approximate, ///< the value up to the bound that the rule's meaning states
};
constexpr const char *kRuleClassNames[] = {"bit-exact", "real", "approximate"};

struct Rule {
  const char *name;
  RuleClass exactness;
  const char *meaning; ///< source -> result
  const char *pass;    ///< the pass that applies the rule, always and to all ops at once; empty: graph-apply-rules
  bool isRequired;     ///< always applied, whatever its cost and the options: no later pass knows the source
  bool isCleanup;      ///< also part of graph-fold-constants, which always runs
  Math leastMath;      ///< the first `--math` that allows the rule
  std::vector<void (*)(mlir::RewritePatternSet &)> patterns;

  /// Whether options can switch the rule off.
  bool isOptional() const { return !*pass && !isRequired; }
};

/// All rules, in the order of Rules.td.
const std::vector<Rule> &rules();
/// Null: there is no such rule.
const Rule *findRule(const std::string &name);
/// The patterns with Rule::isCleanup, the names of their rules as debug labels.
void addCleanupPatterns(mlir::RewritePatternSet &patterns);

/// `--rules`: the classes that are applied, as far as `--math` allows.
enum class RuleSet : uint8_t { None, BitExact, Real, All };
constexpr const char *kRuleSetNames[] = {"none", "bit-exact", "real", "all"};

/// Cycles for the ops around a rewrite, if no two engines overlap (RuleCost.h).
struct RuleEstimate {
  double before, after;
};

/// A rewrite, to the ops of some ONNX nodes.
struct RuleFiring {
  const Rule *rule;
  std::vector<std::string> nodes;
  std::optional<RuleEstimate> cycles; ///< of graph-apply-rules; other passes have none
};

/// What rules did to a network, in order.
struct RuleLog {
  std::vector<RuleFiring> firings;
  bool isBudgetSpent = false; ///< the budget ended before the rewrites that lower the cost did
};

/// The log that the passes of a graph phase share: copies of a recorder write to one.
class RuleRecorder {
public:
  using Report = std::function<void(const RuleLog &)>;
  /// `report` may be null.
  explicit RuleRecorder(Report report = nullptr) : report(std::move(report)) {}

  /// A rewrite by the rule of this name. Precondition: there is one.
  void add(const std::string &name, std::vector<std::string> nodes, std::optional<RuleEstimate> cycles = std::nullopt) const;
  void setBudgetSpent() const { log->isBudgetSpent = true; }
  /// At the end of a pass: reports all that was done so far.
  void finish() const {
    if (report)
      report(*log);
  }

private:
  std::shared_ptr<RuleLog> log = std::make_shared<RuleLog>();
  Report report;
};

struct RuleOptions {
  RuleSet set = RuleSet::All;
  std::vector<std::string> disabled; ///< names of rules
  RuleRecorder::Report report;       ///< called when a pass with rules ends, with the log of all of them so far; may be null

  bool allows(const Rule &rule, Math math) const;
  /// Switches the rule of this name off. Returns why that cannot be; empty: it is done.
  std::string disable(const std::string &name);
};

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_RULES_H
