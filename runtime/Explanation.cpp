//===- Explanation.cpp - How the compiler came to its plan -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/Explanation.h"

#include "isa/Printable.h"
#include "runtime/Files.h"
#include "runtime/Report.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

using namespace tw;
using namespace tw::runtime;
using explore::Proposal;

namespace {
std::string cyclesText(double cycles) { return grouped(uint64_t(std::llround(cycles))); }

std::string headline(const Proposal &proposal) {
  std::string text = proposal.strategy + ": ";
  if (proposal.before)
    text += cyclesText(*proposal.before) + " -> ";
  if (proposal.after)
    text += std::string(proposal.isTaken ? "" : "at least ") + cyclesText(*proposal.after) + " cycles, ";
  else
    text += "no program, ";
  return text + (proposal.isTaken ? "taken" : "not taken: " + proposal.why);
}

nlohmann::ordered_json cyclesJson(const std::optional<double> &cycles) {
  return cycles ? nlohmann::ordered_json(uint64_t(std::llround(*cycles))) : nlohmann::ordered_json();
}
} // namespace

std::string runtime::explanationText(const std::vector<Proposal> &proposals) {
  if (proposals.empty())
    return "nothing was explored\n";
  std::string text;
  for (const Proposal &proposal : proposals) {
    text += printable(headline(proposal)) + "\n";
    for (const explore::KnobDifference &change : proposal.changes)
      text += "  " +
              printable((change.kernel.empty() ? "" : change.kernel + ": ") + change.knob + ": " + change.from + " -> " +
                        change.to) +
              "\n";
  }
  return text;
}

std::string runtime::explanationJson(const std::vector<Proposal> &proposals) {
  std::string text;
  for (const Proposal &proposal : proposals) {
    nlohmann::ordered_json line;
    line["strategy"] = proposal.strategy;
    line["changes"] = nlohmann::ordered_json::array();
    for (const explore::KnobDifference &change : proposal.changes) {
      nlohmann::ordered_json entry;
      entry["kernel"] = change.kernel.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(printable(change.kernel));
      entry["knob"] = change.knob;
      entry["from"] = change.from;
      entry["to"] = change.to;
      line["changes"].push_back(entry);
    }
    line["before"] = cyclesJson(proposal.before);
    line["after"] = cyclesJson(proposal.after);
    line["taken"] = proposal.isTaken;
    line["why"] = proposal.isTaken ? nlohmann::ordered_json() : nlohmann::ordered_json(printable(proposal.why));
    text += line.dump() + "\n";
  }
  return text;
}

explore::ProposalReport Explanation::report() {
  if (file.empty())
    return nullptr;
  return [this](const Proposal &proposal) { proposals.push_back(proposal); };
}

Status Explanation::write() const {
  if (file.empty())
    return {};
  const bool isJson = std::filesystem::path(file).extension() == ".jsonl";
  return writeFile(file, isJson ? explanationJson(proposals) : explanationText(proposals));
}
