//===- Odometer.cpp - What an instruction in a loop does this time *- C++ -*-=//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/Odometer.h"

#include <type_traits>

namespace tw::isa {

bool inFirstIteration(const Instruction &instruction, const OdometerState &state, int64_t mask) {
  for (int64_t i = 0; i < instruction.header.num_levels; ++i)
    if ((mask >> i & 1) && state.counter[i] != 0)
      return false;
  return true;
}

bool inLastIteration(const Instruction &instruction, const OdometerState &state, int64_t mask) {
  for (int64_t i = 0; i < instruction.header.num_levels; ++i)
    if ((mask >> i & 1) && state.counter[i] + 1 < instruction.levels[i].count)
      return false;
  return true;
}

void advance(const Instruction &instruction, OdometerState &state) {
  for (int64_t i = 0; i < instruction.header.num_levels; ++i) {
    if (++state.counter[i] < instruction.levels[i].count)
      return;
    state.counter[i] = 0;
  }
}

int64_t *countOf(Instruction &instruction, int64_t index) {
  return std::visit(
      [&](auto &operands) -> int64_t * {
        using T = std::decay_t<decltype(operands)>;
        if constexpr (std::is_same_v<T, Load> || std::is_same_v<T, Store> || std::is_same_v<T, Tensor> ||
                      std::is_same_v<T, Vector>)
          return index >= 0 && index < int64_t(operands.counts.size()) ? &operands.counts[index] : nullptr;
        else
          return nullptr;
      },
      instruction.operands);
}

bool isDropped(const Instruction &instruction, const OdometerState &state) {
  const int64_t mask = instruction.header.predicate_mask;
  switch (Predicate(instruction.header.predicate)) {
  case Predicate::Always:
    return false;
  case Predicate::First:
    return !inFirstIteration(instruction, state, mask);
  case Predicate::NotFirst:
    return inFirstIteration(instruction, state, mask);
  case Predicate::Last:
    return !inLastIteration(instruction, state, mask);
  case Predicate::NotLast:
    return inLastIteration(instruction, state, mask);
  }
  return false;
}

std::optional<Instruction> resolve(const Instruction &instruction, OdometerState &state) {
  std::optional<Instruction> now(std::in_place);
  if (!resolve(instruction, state, *now))
    now.reset();
  return now;
}

bool resolve(const Instruction &instruction, OdometerState &state, Instruction &now) {
  if (isDropped(instruction, state)) {
    advance(instruction, state);
    return false;
  }

  const Header &header = instruction.header;
  now.header = header;
  now.levels = {};
  now.operands = instruction.operands;
  int64_t a = 0, b = 0, c = 0, d = 0;
  for (int64_t i = 0; i < header.num_levels; ++i) {
    const Level &level = instruction.levels[i];
    int64_t turns = level.wrap ? state.counter[i] % level.wrap : state.counter[i];
    a += turns * level.stride_a;
    b += turns * level.stride_b;
    c += turns * level.stride_c;
    d += turns * level.stride_d;
  }
  std::visit(
      [&](auto &operands) {
        using T = std::decay_t<decltype(operands)>;
        if constexpr (std::is_same_v<T, Load> || std::is_same_v<T, Store>) {
          operands.dram_address += a;
          operands.address += b;
        } else if constexpr (std::is_same_v<T, Preload>) {
          operands.address += b;
        } else if constexpr (std::is_same_v<T, Tensor>) {
          operands.address += b;
          operands.acc_address += c;
          if (operands.clear_mask)
            operands.accumulate = !inFirstIteration(instruction, state, operands.clear_mask);
          operands.clear_mask = 0;
        } else if constexpr (std::is_same_v<T, Vector>) {
          operands.p_address += a;
          operands.a_address += b;
          operands.b_address += c;
          operands.d_address += d;
        }
      },
      now.operands);

  if (!inFirstIteration(instruction, state, header.wait_mask))
    now.header.wait_semaphore = now.header.wait_count = {};
  if (!inLastIteration(instruction, state, header.post_mask))
    now.header.post_semaphore = now.header.post_count = {};
  for (size_t e = 0; e < header.edge_value.size(); ++e)
    if (header.edge_value[e] != 0 && inLastIteration(instruction, state, int64_t(1) << header.edge_level[e]))
      if (int64_t *count = countOf(now, header.edge_index[e]))
        *count = header.edge_value[e];

  now.header.num_levels = 0;
  now.header.wait_mask = now.header.post_mask = now.header.predicate_mask = 0;
  now.header.predicate = int64_t(Predicate::Always);
  now.header.edge_level = now.header.edge_index = now.header.edge_value = {};
  now.header.words = now.words();
  advance(instruction, state);
  return true;
}

} // namespace tw::isa
