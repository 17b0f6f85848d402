//===- Shrink.cpp - The smallest program that still fails -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/rtl/random/Shrink.h"

#include "tests/rtl/random/Tree.h"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace tw::programs {
namespace {

class Shrinker {
public:
  Shrinker(const isa::Program &program, const std::function<bool(const isa::Program &)> &fails, unsigned tries)
      : program(program), fails(fails), tries(tries) {}

  isa::Program run() {
    std::optional<std::vector<Node>> tree = treeOf(program);
    if (tree) {
      nodes = *tree;
      // Without layers, and with a halt at the end whatever was there.
      if (!accept(nodes))
        tree.reset();
    }
    for (bool changed = true; changed && tries;) {
      changed = false;
      if (tree) {
        changed |= dropInstructions();
        changed |= openLoops();
        changed |= dropStages();
        changed |= lowerFields();
      }
      changed |= dropData();
    }
    return program;
  }

private:
  /// Whether the program with this code still fails; if so it is the program from now on.
  bool accept(const std::vector<Node> &candidate) {
    isa::Program next = program;
    next.layers.clear();
    next.layerOf.clear();
    next.code.clear();
    encode(candidate, next.code);
    isa::encode(isa::Instruction(isa::Halt{}), next.code);
    return accept(next) && (nodes = candidate, true);
  }
  bool accept(const isa::Program &next) {
    if (!tries)
      return false;
    --tries;
    if (!fails(next))
      return false;
    program = next;
    return true;
  }

  static void leaves(std::vector<Node> &list, std::vector<Node *> &all) {
    for (Node &node : list)
      if (node.isLoop())
        leaves(node.body, all);
      else
        all.push_back(&node);
  }
  static void loopsOf(std::vector<Node> &list, std::vector<Node *> &all) {
    for (Node &node : list)
      if (node.isLoop()) {
        all.push_back(&node);
        loopsOf(node.body, all);
      }
  }
  /// Drops leaves by their order, and loops that become empty.
  static void drop(std::vector<Node> &list, const std::set<size_t> &which, size_t &at) {
    for (size_t i = 0; i < list.size();) {
      bool gone = false;
      if (list[i].isLoop()) {
        drop(list[i].body, which, at);
        gone = list[i].body.empty();
      } else {
        gone = which.count(at++);
      }
      if (gone)
        list.erase(list.begin() + int64_t(i));
      else
        ++i;
    }
  }

  /// The nodes without the leaves [first, last). `ties`: without what hangs on them either: posts and waits of their
  /// semaphores, the preload of a tile that nobody takes, the swap of a tile that nobody brings.
  std::vector<Node> without(size_t first, size_t last, bool ties) {
    std::vector<Node> candidate = nodes;
    std::vector<Node *> all;
    leaves(candidate, all);
    std::set<size_t> which;
    std::set<int64_t> semaphores;
    for (size_t i = first; i < std::min(last, all.size()); ++i)
      which.insert(i);
    if (ties) {
      for (size_t i : std::set<size_t>(which)) {
        const isa::Instruction &instruction = all[i]->instruction;
        for (size_t k = 0; k < instruction.header.wait_count.size(); ++k) {
          if (instruction.header.wait_count[k])
            semaphores.insert(instruction.header.wait_semaphore[k]);
          if (instruction.header.post_count[k])
            semaphores.insert(instruction.header.post_semaphore[k]);
        }
        const isa::Tensor *tensor = instruction.getIf<isa::Tensor>();
        for (size_t k = i; tensor && tensor->swap && k-- > 0;)
          if (all[k]->instruction.getIf<isa::Preload>()) {
            which.insert(k);
            break;
          }
        for (size_t k = i + 1; instruction.getIf<isa::Preload>() && k < all.size(); ++k)
          if (isa::Tensor *taker = all[k]->instruction.getIf<isa::Tensor>(); taker && taker->swap) {
            taker->swap = 0;
            break;
          }
      }
      for (Node *node : all) {
        isa::Header &header = node->instruction.header;
        for (size_t k = 0; k < header.wait_count.size(); ++k) {
          if (semaphores.count(header.wait_semaphore[k]))
            header.wait_semaphore[k] = header.wait_count[k] = 0;
          if (semaphores.count(header.post_semaphore[k]))
            header.post_semaphore[k] = header.post_count[k] = 0;
        }
      }
    }
    size_t at = 0;
    drop(candidate, which, at);
    return candidate;
  }

  bool dropInstructions() {
    bool changed = false;
    for (size_t chunk = std::max<size_t>(1, instructionsIn(nodes) / 2);; chunk /= 2) {
      for (size_t first = 0; first < instructionsIn(nodes) && tries;) {
        if (accept(without(first, first + chunk, false)) || accept(without(first, first + chunk, true)))
          changed = true;
        else
          first += chunk;
      }
      if (chunk <= 1)
        return changed;
    }
  }

  static bool open(std::vector<Node> &list, size_t which, size_t &at) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (!list[i].isLoop())
        continue;
      if (at++ == which) {
        std::vector<Node> body = std::move(list[i].body);
        list.erase(list.begin() + int64_t(i));
        list.insert(list.begin() + int64_t(i), body.begin(), body.end());
        return true;
      }
      if (open(list[i].body, which, at))
        return true;
    }
    return false;
  }

  bool openLoops() {
    bool changed = false;
    for (size_t which = 0; tries; ++which) {
      std::vector<Node *> loops;
      loopsOf(nodes, loops);
      if (which >= loops.size())
        return changed;
      std::vector<Node> candidate = nodes;
      size_t at = 0;
      open(candidate, which, at);
      if (accept(candidate)) {
        changed = true;
        --which;
        continue;
      }
      for (const int64_t count : {int64_t(1), int64_t(2), loops[which]->instruction.as<isa::Loop>().count / 2}) {
        candidate = nodes;
        std::vector<Node *> copies;
        loopsOf(candidate, copies);
        int64_t &now = copies[which]->instruction.as<isa::Loop>().count;
        if (count < 1 || count >= now)
          continue;
        now = count;
        if (accept(candidate)) {
          changed = true;
          break;
        }
      }
    }
    return changed;
  }

  /// Stages one by one: an operation and its operand are legal together only.
  bool dropStages() {
    bool changed = false;
    for (size_t leaf = 0; leaf < instructionsIn(nodes) && tries; ++leaf)
      for (size_t s = isa::Vector{}.stage_op.size(); s-- > 0;) {
        std::vector<Node> candidate = nodes;
        std::vector<Node *> all;
        leaves(candidate, all);
        isa::Vector *vector = all[leaf]->instruction.getIf<isa::Vector>();
        if (!vector || int64_t(s) >= vector->num_stages)
          continue;
        for (auto *stages : {&vector->stage_op, &vector->stage_operand}) {
          std::copy(stages->begin() + int64_t(s) + 1, stages->end(), stages->begin() + int64_t(s));
          stages->back() = 0;
        }
        --vector->num_stages;
        changed |= accept(candidate);
      }
    return changed;
  }

  bool lowerFields() {
    bool changed = false;
    std::vector<Node *> all;
    leaves(nodes, all);
    for (size_t leaf = 0; leaf < all.size() && tries; ++leaf) {
      // What a candidate changes: header, level or operands, by field.
      auto lower = [&](const isa::FieldInfo &field, auto base) {
        const std::string name = field.name;
        if (name == "opcode" || name == "words")
          return;
        std::set<int64_t> seen;
        for (int64_t value : {int64_t(0), int64_t(1), int64_t(-1)}) {
          all.clear();
          leaves(nodes, all);
          const int64_t now = isa::get(field, base(all[leaf]->instruction));
          if (value < 0)
            value = now / 2;
          if (std::abs(value) >= std::abs(now) || !isa::fits(field, value) || !seen.insert(value).second)
            continue;
          std::vector<Node> candidate = nodes;
          std::vector<Node *> copies;
          leaves(candidate, copies);
          isa::Instruction &instruction = copies[leaf]->instruction;
          isa::set(field, base(instruction), value);
          for (size_t i = size_t(instruction.header.num_levels); i < instruction.levels.size(); ++i)
            instruction.levels[i] = isa::Level{};
          if (accept(candidate)) {
            changed = true;
            all.clear();
            leaves(nodes, all);
            return;
          }
        }
      };
      for (const isa::FieldInfo &field : isa::headerFields())
        lower(field, [](isa::Instruction &i) -> void * { return &i.header; });
      for (int64_t level = 0; level < all[leaf]->instruction.header.num_levels; ++level)
        for (const isa::FieldInfo &field : isa::levelFields())
          lower(field, [level](isa::Instruction &i) -> void * { return &i.levels[size_t(level)]; });
      for (const isa::FieldInfo &field : isa::fieldsOf(all[leaf]->instruction.opcode()))
        lower(field, [](isa::Instruction &i) { return i.operandBase(); });
      all.clear();
      leaves(nodes, all);
    }
    return changed;
  }

  bool dropData() {
    bool changed = false;
    for (size_t s = 0; s < program.constants.size() && tries; ++s) {
      isa::Program next = program;
      next.constants.erase(next.constants.begin() + int64_t(s));
      if (accept(next)) {
        changed = true;
        --s;
        continue;
      }
      // Halves from the end, then from the beginning.
      for (bool fromEnd : {true, false})
        for (;;) {
          next = program;
          isa::Segment &segment = next.constants[s];
          const size_t half = segment.bytes.size() / 2;
          if (half == 0)
            break;
          if (fromEnd) {
            segment.bytes.resize(half);
          } else {
            segment.bytes.erase(segment.bytes.begin(), segment.bytes.begin() + int64_t(half));
            segment.address += half;
          }
          if (!accept(next))
            break;
          changed = true;
        }
    }
    return changed;
  }

  isa::Program program;
  const std::function<bool(const isa::Program &)> &fails;
  unsigned tries;
  std::vector<Node> nodes;
};

} // namespace

isa::Program shrink(const isa::Program &program, const std::function<bool(const isa::Program &)> &fails, unsigned tries) {
  return Shrinker(program, fails, tries).run();
}

} // namespace tw::programs
