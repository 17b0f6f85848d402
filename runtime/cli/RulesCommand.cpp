//===- RulesCommand.cpp - tilewright rules --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Rules.h"
#include "runtime/Files.h"
#include "runtime/Report.h"
#include "runtime/cli/Cli.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

using namespace tw;
using namespace tw::cli;
using json = nlohmann::ordered_json;

namespace {

/// The least `--math` under which a rule is applied.
std::string leastMath(const graph::Rule &rule) {
  graph::RuleOptions all;
  for (size_t i = 0; i < std::size(graph::kMathNames); ++i)
    if (!rule.isOptional() || all.allows(rule, graph::Math(i)))
      return graph::kMathNames[i];
  return "";
}

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

void RuleExplanation::collect(graph::RuleOptions &options) {
  if (!file.empty()) // schedules that are compared have one graph
    options.report = [this](const graph::RuleLog &log) { this->log = log; };
}

Status RuleExplanation::write() const {
  if (file.empty())
    return {};
  std::string text;
  if (std::filesystem::path(file).extension() == ".jsonl") {
    for (const graph::RuleFiring &firing : log.firings)
      text += json({{"rule", firing.rule->name},
                    {"class", graph::kRuleClassNames[size_t(firing.rule->exactness)]},
                    {"nodes", firing.nodes},
                    {"before", std::llround(firing.cyclesBefore)},
                    {"after", std::llround(firing.cyclesAfter)}})
                  .dump(-1, ' ', false, json::error_handler_t::replace) +
              "\n";
    return runtime::writeFile(file, text);
  }
  struct Sum {
    uint64_t count = 0;
    double before = 0, after = 0;
  };
  std::map<const graph::Rule *, Sum> sums; // in the order of the table
  for (const graph::RuleFiring &firing : log.firings) {
    Sum &sum = sums[firing.rule];
    ++sum.count;
    sum.before += firing.cyclesBefore;
    sum.after += firing.cyclesAfter;
  }
  runtime::Table table({"rule", "class", "rewrites", "cycles before", "after"});
  for (const auto &[rule, sum] : sums)
    table.add({rule->name, graph::kRuleClassNames[size_t(rule->exactness)], runtime::grouped(sum.count),
               runtime::grouped(uint64_t(std::llround(sum.before))), runtime::grouped(uint64_t(std::llround(sum.after)))});
  text = sums.empty() ? "no rule changed the graph\n" : table.str();
  if (log.isBudgetSpent)
    text += "the budget of rewrites is spent: more may be possible\n";
  return runtime::writeFile(file, text);
}
