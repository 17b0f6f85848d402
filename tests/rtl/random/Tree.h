//===- Tree.h - A program as loops and instructions -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_RTL_RANDOM_TREE_H
#define TESTS_RTL_RANDOM_TREE_H

#include "isa/Program.h"

#include <functional>
#include <optional>
#include <vector>

namespace tw::programs {

/// An instruction, or a loop around a body. A loop's body_words are counted when it is encoded.
struct Node {
  isa::Instruction instruction;
  std::vector<Node> body;
  unsigned id = 0; ///< stays with the node when others are inserted; 0: of no interest

  Node() = default;
  explicit Node(const isa::Instruction &instruction, unsigned id = 0) : instruction(instruction), id(id) {}
  bool isLoop() const { return instruction.getIf<isa::Loop>(); }
};

/// Appends the words of the nodes.
void encode(const std::vector<Node> &nodes, std::vector<isa::Word> &words);
/// The code of a program without the halt at its end; nothing if some word decodes to no instruction or a loop body ends
/// inside an instruction.
std::optional<std::vector<Node>> treeOf(const isa::Program &program);
/// Instructions, loops not counted.
size_t instructionsIn(const std::vector<Node> &nodes);

/// One execution of an instruction in program order.
struct Execution {
  const Node *node = nullptr;
  std::vector<uint32_t> iteration; ///< of the loops around it, outermost first
  isa::Instruction resolved;
};
/// Calls visit() for everything that is executed, predicates applied, in program order.
void execute(const std::vector<Node> &nodes, const std::function<void(Execution &)> &visit);

} // namespace tw::programs

#endif // TESTS_RTL_RANDOM_TREE_H
