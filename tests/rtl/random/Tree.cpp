//===- Tree.cpp - A program as loops and instructions ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/rtl/random/Tree.h"

#include "isa/Odometer.h"

#include <map>

namespace tw::programs {
namespace {

bool decodeBody(const isa::Program &program, uint64_t &at, uint64_t end, std::vector<Node> &nodes) {
  while (at < end) {
    const isa::Decoded decoded = isa::decode(&program.code[at], end - at);
    if (!decoded)
      return false;
    at += decoded.instruction.words();
    if (decoded.instruction.getIf<isa::Halt>())
      return at == program.code.size();
    nodes.emplace_back(decoded.instruction);
    if (const isa::Loop *loop = decoded.instruction.getIf<isa::Loop>()) {
      const uint64_t bodyEnd = at + uint64_t(loop->body_words);
      if (bodyEnd > end || !decodeBody(program, at, bodyEnd, nodes.back().body))
        return false;
    }
  }
  return at == end;
}

class Walk {
public:
  explicit Walk(const std::function<void(Execution &)> &visit) : visit(visit) {}

  void nodes(const std::vector<Node> &list) {
    for (const Node &node : list) {
      if (const isa::Loop *loop = node.instruction.getIf<isa::Loop>()) {
        if (execution.iteration.empty())
          odometers.clear();
        execution.iteration.push_back(0);
        for (int64_t i = 0; i < loop->count; ++i) {
          execution.iteration.back() = uint32_t(i);
          nodes(node.body);
        }
        execution.iteration.pop_back();
        continue;
      }
      isa::OdometerState fresh;
      isa::OdometerState &odometer = execution.iteration.empty() ? fresh : odometers[&node];
      if (std::optional<isa::Instruction> resolved = isa::resolve(node.instruction, odometer)) {
        execution.node = &node;
        execution.resolved = *resolved;
        visit(execution);
      }
    }
  }

private:
  const std::function<void(Execution &)> &visit;
  Execution execution;
  std::map<const Node *, isa::OdometerState> odometers;
};

} // namespace

void encode(const std::vector<Node> &nodes, std::vector<isa::Word> &words) {
  for (const Node &node : nodes) {
    if (!node.isLoop()) {
      isa::encode(node.instruction, words);
      continue;
    }
    std::vector<isa::Word> body;
    encode(node.body, body);
    isa::Instruction loop = node.instruction;
    loop.as<isa::Loop>().body_words = int64_t(body.size());
    isa::encode(loop, words);
    words.insert(words.end(), body.begin(), body.end());
  }
}

std::optional<std::vector<Node>> treeOf(const isa::Program &program) {
  std::vector<Node> nodes;
  uint64_t at = 0;
  if (!decodeBody(program, at, program.code.size(), nodes))
    return std::nullopt;
  return nodes;
}

size_t instructionsIn(const std::vector<Node> &nodes) {
  size_t count = 0;
  for (const Node &node : nodes)
    count += node.isLoop() ? instructionsIn(node.body) : 1;
  return count;
}

void execute(const std::vector<Node> &nodes, const std::function<void(Execution &)> &visit) { Walk(visit).nodes(nodes); }

} // namespace tw::programs
