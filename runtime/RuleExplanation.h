//===- RuleExplanation.h - What rewriting rules did --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_RULEEXPLANATION_H
#define RUNTIME_RULEEXPLANATION_H

#include "compiler/graph/transforms/Rules.h"
#include "runtime/Status.h"

#include <string>

namespace tw::runtime {

/// For people: how often each rule changed the graph.
std::string ruleText(const graph::RuleLog &log);

/// For programs: one JSON object a line for each rewrite, with keys rule, class, nodes, before and after; the last two are null where
/// graph-apply-rules did not do it.
std::string ruleJson(const graph::RuleLog &log);

/// Collects what the rewriting rules did in a compilation for a file (docs/rules.md): JSON lines if its name ends in .jsonl, else text.
class RuleExplanation {
public:
  /// Empty: nothing is collected or written.
  explicit RuleExplanation(std::string file) : file(std::move(file)) {}
  /// Has `options` report here. The explanation must outlive them.
  void collect(graph::RuleOptions &options);
  Status write() const;

private:
  std::string file;
  graph::RuleLog log;
};

} // namespace tw::runtime

#endif // RUNTIME_RULEEXPLANATION_H
