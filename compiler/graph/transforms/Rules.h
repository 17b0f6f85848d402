//===- Rules.h - Rewriting rules as a table ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The records of Rules.td, and which of them a compilation may apply. Nothing
// of MLIR: whoever sets options includes this.
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
  const char *pass;    ///< the pass that does it for all ops at once, and always; empty: graph-apply-rules does
  bool isRequired;     ///< applied whatever it costs and whatever options say: no op later knows the source
  bool isCleanup;      ///< part of graph-fold-constants too, which always runs
  bool isImporterFold; ///< every `--math` allows it: every importer does it
  std::vector<void (*)(mlir::RewritePatternSet &)> patterns;

  /// Whether options decide about it.
  bool isOptional() const { return !*pass && !isRequired; }
};

/// In the order of Rules.td.
const std::vector<Rule> &rules();
/// Null: there is no such rule.
const Rule *findRule(const std::string &name);
/// The patterns with Rule::isCleanup.
void addCleanupPatterns(mlir::RewritePatternSet &patterns);

/// `--rules`: the classes that are applied, as far as `--math` allows.
enum class RuleSet : uint8_t { None, BitExact, Real, All };
constexpr const char *kRuleSetNames[] = {"none", "bit-exact", "real", "all"};

/// A rewrite that graph-apply-rules did, to the ops of some ONNX nodes. Cycles are estimates for the ops around it, if no two engines overlap (RuleCost.h).
struct RuleFiring {
  const Rule *rule;
  std::vector<std::string> nodes;
  double cyclesBefore, cyclesAfter;
};

/// What graph-apply-rules did to a network, in order.
struct RuleLog {
  std::vector<RuleFiring> firings;
  bool isBudgetSpent = false; ///< there was more to do
};

struct RuleOptions {
  RuleSet set = RuleSet::All;
  std::vector<std::string> disabled;           ///< names of rules
  std::function<void(const RuleLog &)> report; ///< called when the pass ends; may be null

  bool allows(const Rule &rule, Math math) const;
};

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_RULES_H
