//===- RulesCommand.cpp - tilewright rules --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Rules.h"
#include "runtime/Report.h"
#include "runtime/cli/Cli.h"

#include <cstdio>

using namespace tw;
using namespace tw::cli;

namespace {

const char *leastMath(const graph::Rule &rule) { return graph::kMathNames[size_t(rule.leastMath)]; }

/// Who applies a rule: rules that no option switches off say so.
std::string appliedBy(const graph::Rule &rule) {
  return *rule.pass ? rule.pass : rule.isRequired ? "always" : rule.isCleanup ? "rules, graph-fold-constants" : "rules";
}

std::string markdown() {
  std::string text = "| rule | class | `--math` from | applied by | meaning |\n|---|---|---|---|---|\n";
  for (const graph::Rule &rule : graph::rules())
    text += "| `" + std::string(rule.name) + "` | " + graph::kRuleClassNames[size_t(rule.exactness)] + " | `" +
            leastMath(rule) + "` | " + appliedBy(rule) + " | `" + rule.meaning + "` |\n";
  return text;
}

Status listRules(bool isMarkdown) {
  if (isMarkdown) {
    std::fputs(markdown().c_str(), stdout);
    return {};
  }
  runtime::Table table({"rule", "class", "--math from", "applied by", "meaning"}, 5);
  for (const graph::Rule &rule : graph::rules())
    table.add({rule.name, graph::kRuleClassNames[size_t(rule.exactness)], leastMath(rule), appliedBy(rule), rule.meaning});
  std::fputs(table.str().c_str(), stdout);
  return {};
}

} // namespace

void cli::addRulesCommand(CLI::App &app, Action &action) {
  auto isMarkdown = std::make_shared<bool>(false);
  CLI::App *command = app.add_subcommand("rules", "the rewriting rules of the graph, their classes, and what each does");
  command->add_flag("--markdown", *isMarkdown, "as the table of docs/rules.md");
  command->callback([&action, isMarkdown] { action = [isMarkdown] { return listRules(*isMarkdown); }; });
}
