//===- CheckCommand.cpp - tilewright check --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Files.h"
#include "runtime/OffloadCheck.h"
#include "runtime/Report.h"
#include "runtime/cli/Cli.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <set>

using namespace tw;
using namespace tw::cli;
using json = nlohmann::ordered_json;
using runtime::OffloadCheck;

namespace {

struct CheckArguments {
  ModelArguments model;
  std::string jsonFile;
  bool isSummary = false;
};

std::string joined(const std::vector<std::string> &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// What nodes and kernels of one target come to.
struct Share {
  std::string target;
  size_t nodes = 0, kernels = 0;
  uint64_t macs = 0;
};

/// One entry for each target that may be used, then one for nodes that run nowhere.
std::vector<Share> sharesOf(const OffloadCheck &check) {
  std::vector<Share> shares;
  for (const std::string &target : check.targets)
    shares.push_back({target, 0, 0, check.macs(target)});
  shares.push_back({"folded"});
  for (Share &share : shares) {
    for (const OffloadCheck::Node &node : check.nodes)
      share.nodes += node.place.target == share.target;
    for (const OffloadCheck::Kernel &kernel : check.kernels)
      share.kernels += kernel.target == share.target;
  }
  return shares;
}

std::string percent(uint64_t part, uint64_t whole) {
  return whole ? runtime::fixed(100 * double(part) / double(whole), 1) : "-";
}

/// Operators of the nodes that are computed without code of their own.
std::set<std::string> evaluatedOperators(const OffloadCheck &check) {
  std::set<std::string> evaluated, operators;
  for (const OffloadCheck::Kernel &kernel : check.kernels)
    if (kernel.isEvaluated)
      evaluated.insert(kernel.nodes.begin(), kernel.nodes.end());
  for (const OffloadCheck::Node &node : check.nodes)
    if (evaluated.count(node.name) || (node.kernels.empty() && node.place.target != "folded"))
      operators.insert(node.op);
  operators.erase("");
  return operators;
}

std::string summaryText(const OffloadCheck &check) {
  runtime::Table table({"target", "nodes", "kernels", "MACs", "% of MACs"});
  for (const Share &share : sharesOf(check))
    table.add({share.target, runtime::grouped(share.nodes), runtime::grouped(share.kernels), runtime::grouped(share.macs),
               percent(share.macs, check.macs())});
  table.rule();
  table.add({"total", runtime::grouped(check.nodes.size()), runtime::grouped(check.kernels.size()),
             runtime::grouped(check.macs()), percent(check.macs(), check.macs())});
  std::string text = table.str();
  const std::set<std::string> operators = evaluatedOperators(check);
  if (!operators.empty())
    text += "evaluated on the host, MACs not counted: " + joined({operators.begin(), operators.end()}) + "\n";
  if (check.lateNodes)
    text += "nodes that run on the host when the kernels are done: " + runtime::grouped(check.lateNodes) + "\n";
  if (check.targets.size() > 1)
    text += "crossings between accelerator and host: " + runtime::grouped(check.crossings) + ", " +
            runtime::fixed(double(check.crossingBytes) / 1024, 1) + " KiB over the link\n";
  return text + "checked in " + runtime::fixed(check.seconds, 2) + " s\n";
}

std::string text(const OffloadCheck &check, bool isSummary) {
  if (isSummary)
    return summaryText(check);
  runtime::Table table({"node", "operator", "target", "reason"}, 3);
  for (const OffloadCheck::Node &node : check.nodes)
    table.add({node.name, node.op, node.place.target, node.place.reason});
  return table.str() + "\n" + summaryText(check);
}

json document(const OffloadCheck &check, const CheckArguments &arguments) {
  json result = {{"schema", "tilewright.check/1"}, {"model", arguments.model.model}};
  const std::string &machine = arguments.model.network.machine;
  result["machine"] = machine.empty() ? json() : json(machine);
  result["nodes"] = json::array();
  for (const OffloadCheck::Node &node : check.nodes)
    result["nodes"].push_back({{"node", node.name},
                               {"operator", node.op},
                               {"target", node.place.target},
                               {"fell_back", node.place.fellBack},
                               {"reason", node.place.reason},
                               {"kernels", node.kernels}});
  result["kernels"] = json::array();
  for (const OffloadCheck::Kernel &kernel : check.kernels)
    result["kernels"].push_back({{"name", kernel.name},
                                 {"target", kernel.target},
                                 {"reason", kernel.reason},
                                 {"evaluated", kernel.isEvaluated},
                                 {"nodes", kernel.nodes},
                                 {"macs", kernel.macs}});
  result["targets"] = json::array();
  for (const Share &share : sharesOf(check))
    result["targets"].push_back(
        {{"target", share.target}, {"nodes", share.nodes}, {"kernels", share.kernels}, {"macs", share.macs}});
  result["macs"] = check.macs();
  result["late_nodes"] = check.lateNodes;
  result["crossings"] = check.crossings;
  result["crossing_bytes"] = check.crossingBytes;
  result["check_wall_seconds"] = check.seconds;
  return result;
}

Status check(const CheckArguments &arguments) {
  StatusOr<runtime::NetworkOptions> options = arguments.model.options();
  if (!options)
    return options.error();
  if (Status status = checkOutputs({arguments.jsonFile}); !status)
    return status;
  StatusOr<OffloadCheck> result = runtime::checkOffload(arguments.model.model, *options);
  if (!result)
    return result.error();
  printNotes(result->notes);
  if (!arguments.jsonFile.empty())
    if (Status status = runtime::writeFile(
            arguments.jsonFile, document(*result, arguments).dump(2, ' ', false, json::error_handler_t::replace) + "\n");
        !status)
      return status;
  if (arguments.jsonFile != "-")
    std::fputs(text(*result, arguments.isSummary).c_str(), stdout);
  return {};
}

} // namespace

void cli::addCheckCommand(CLI::App &app, Action &action) {
  auto arguments = std::make_shared<CheckArguments>();
  CLI::App *command = app.add_subcommand(
      "check", "where each node of a model would run and why, without compiling programs; without --hw on the CPU");
  arguments->model.addTo(*command);
  command->add_flag("--summary", arguments->isSummary, "leave out the table of nodes");
  command->add_option("--json", arguments->jsonFile, "write nodes, kernels and sums for programs; - is standard output");
  command->callback([arguments, &action] { action = [arguments] { return check(*arguments); }; });
}
