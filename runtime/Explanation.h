//===- Explanation.h - How the compiler came to its plan ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_EXPLANATION_H
#define RUNTIME_EXPLANATION_H

#include "compiler/explore/Proposal.h"
#include "runtime/Status.h"

#include <string>
#include <vector>

namespace tw::runtime {

/// For people: a line for each proposal, and one below it for each of its changes.
std::string explanationText(const std::vector<explore::Proposal> &proposals);

/// For programs: one JSON object a line, with keys strategy, changes (kernel, null for the network; knob, from, to), before, after, taken
/// and why. What there is none of is null.
std::string explanationJson(const std::vector<explore::Proposal> &proposals);

/// Collects the proposals of a compilation for a file: JSON lines if its name ends in .jsonl, else text.
class Explanation {
public:
  /// Empty: nothing is collected or written.
  explicit Explanation(std::string file) : file(std::move(file)) {}
  /// Null if nothing is collected. The explanation must outlive it.
  explore::ProposalReport report();
  Status write() const;

private:
  std::string file;
  std::vector<explore::Proposal> proposals;
};

} // namespace tw::runtime

#endif // RUNTIME_EXPLANATION_H
