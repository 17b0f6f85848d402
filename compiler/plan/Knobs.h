//===- Knobs.h - What a knob is, and the types of its values -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A knob is one choice of a schedule. Knobs.td describes every knob once;
// KernelPlan.h and NetworkPlan.h hold their values.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PLAN_KNOBS_H
#define COMPILER_PLAN_KNOBS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tw::plan {

/// Four sizes of a tile: channels, then positions along x, y and n. 0: open.
using Sizes = std::array<int64_t, 4>;
/// Banks [first, end) of the first scratchpad.
using Banks = std::array<int64_t, 2>;

/// Tiles of a product that each hold all positions: `positions` at a time go through all of these tiles before the next ones do.
struct Split {
  int64_t tiles = 0, positions = 0;
  bool operator==(const Split &other) const { return tiles == other.tiles && positions == other.positions; }
};

#define GET_KNOB_ENUMS
#include "compiler/plan/Knobs.inc"

/// What Knobs.td says of a knob, but for its type.
struct KnobInfo {
  const char *name;
  const char *doc;                     ///< one sentence
  const char *allowed;                 ///< what a value may be
  std::vector<const char *> spellings; ///< of a choice, in the order of its values
  /// Where the values come from that a search may try.
  enum Candidates { None, All, FromShape, Numbers } candidates;
  std::vector<int64_t> numbers;
  const char *defaultValue; ///< of a network knob: as it is spelled
  bool isOfKind = false;    ///< of a kernel knob: kernels that differ in the knob are of different kinds
  bool needsTiles = true;   ///< of a kernel knob: kernels without tiles cannot have the knob
};

/// A field of a plan whose knob is not open.
template <typename T> bool isSet(const T &value) { return !(value == T()); }

} // namespace tw::plan

#endif // COMPILER_PLAN_KNOBS_H
