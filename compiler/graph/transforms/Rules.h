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
  bool isImporterFold; ///< every `--math` allows the rule, as every importer does the same
  std::vector<void (*)(mlir::RewritePatternSet &)> patterns;

  /// Whether options can switch the rule off.
  bool isOptional() const { return !*pass && !isRequired; }
};

/// All rules, in the order of Rules.td.
const std::vector<Rule> &rules();
/// Null: there is no such rule.
const Rule *findRule(const std::string &name);
/// The patterns with Rule::isCleanup.
void addCleanupPatterns(mlir::RewritePatternSet &patterns);

/// `--rules`: the classes that are applied, as far as `--math` allows.
enum class RuleSet : uint8_t { None, BitExact, Real, All };
constexpr const char *kRuleSetNames[] = {"none", "bit-exact", "real", "all"};

/// A rewrite by graph-apply-rules, of ops that come from the ONNX nodes `nodes`. Cycles are estimates (RuleCost.h) for the rewritten ops and those
/// around, before and after.
struct RuleFiring {
  const Rule *rule;
  std::vector<std::string> nodes;
  double cyclesBefore, cyclesAfter;
};

/// What graph-apply-rules did to a network, in order.
struct RuleLog {
  std::vector<RuleFiring> firings;
  bool isBudgetSpent = false; ///< the budget ended before the rewrites that lower the cost did
};

struct RuleOptions {
  RuleSet set = RuleSet::All;
  std::vector<std::string> disabled;           ///< names of rules
  std::function<void(const RuleLog &)> report; ///< called when the pass ends; may be null

  bool allows(const Rule &rule, Math math) const;
};

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_RULES_H
