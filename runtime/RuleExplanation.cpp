//===- RuleExplanation.cpp - What rewriting rules did ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/RuleExplanation.h"
#include "runtime/Files.h"
#include "runtime/Report.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <map>

using namespace tw;
using json = nlohmann::ordered_json;

std::string runtime::ruleJson(const graph::RuleLog &log) {
  std::string text;
  for (const graph::RuleFiring &firing : log.firings) {
    json entry = {{"rule", firing.rule->name},
                  {"class", graph::kRuleClassNames[size_t(firing.rule->exactness)]},
                  {"nodes", firing.nodes},
                  {"before", nullptr},
                  {"after", nullptr}};
    if (firing.cycles) {
      entry["before"] = std::llround(firing.cycles->before);
      entry["after"] = std::llround(firing.cycles->after);
    }
    text += entry.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  }
  return text;
}

std::string runtime::ruleText(const graph::RuleLog &log) {
  struct Sum {
    uint64_t count = 0;
    std::optional<graph::RuleEstimate> cycles;
  };
  std::map<const graph::Rule *, Sum> sums; // in the order of the table
  for (const graph::RuleFiring &firing : log.firings) {
    Sum &sum = sums[firing.rule];
    ++sum.count;
    if (!firing.cycles)
      continue;
    if (!sum.cycles)
      sum.cycles = graph::RuleEstimate{0, 0};
    sum.cycles->before += firing.cycles->before;
    sum.cycles->after += firing.cycles->after;
  }
  Table table({"rule", "class", "rewrites", "cycles before", "after"});
  for (const auto &[rule, sum] : sums) {
    auto cycles = [&, &each = sum.cycles](double graph::RuleEstimate::*part) {
      return each ? grouped(uint64_t(std::llround((*each).*part))) : "";
    };
    table.add({rule->name, graph::kRuleClassNames[size_t(rule->exactness)], grouped(sum.count),
               cycles(&graph::RuleEstimate::before), cycles(&graph::RuleEstimate::after)});
  }
  std::string text = sums.empty() ? "no rule changed the graph\n" : table.str();
  if (log.isBudgetSpent)
    text += "the budget of rewrites is spent: more may be possible\n";
  return text;
}

void runtime::RuleExplanation::collect(graph::RuleOptions &options) {
  if (!file.empty()) // schedules that are compared have one graph
    options.report = [this](const graph::RuleLog &log) { this->log = log; };
}

runtime::Status runtime::RuleExplanation::write() const {
  if (file.empty())
    return {};
  return writeFile(file, std::filesystem::path(file).extension() == ".jsonl" ? ruleJson(log) : ruleText(log));
}
