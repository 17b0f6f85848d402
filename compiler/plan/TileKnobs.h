//===- TileKnobs.h - The choices of one tile ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tile has a value of every knob that Knobs.td marks with `ofTile`. A kernel plan
// may leave the same knobs open. The choice of a tile copies many of them: values
// are plain, and none is shared.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PLAN_TILEKNOBS_H
#define COMPILER_PLAN_TILEKNOBS_H

#include "compiler/plan/KernelPlan.h"

#include <type_traits>

namespace tw::plan {

/// The knobs of a tile, in the order of Knobs.td.
enum class TileKnob : uint8_t {
#define GET_TILE_KNOB_ENUM
#include "compiler/plan/Knobs.inc"
};

inline constexpr TileKnob kTileKnobs[] = {
#define GET_TILE_KNOB_LIST
#include "compiler/plan/Knobs.inc"
};

/// The values of all knobs of a tile.
struct TileKnobs {
private:
  /// Calls visit(field, field of a plan) for the knob.
  template <typename Visit> static auto visit(TileKnob knob, Visit visit) {
    switch (knob) {
#define GET_TILE_KNOB_CASES
#include "compiler/plan/Knobs.inc"
    }
    __builtin_unreachable();
  }

  static bool meets(int64_t value, int64_t asked) { return asked == 0 || asked == value; }
  static bool meets(const Sizes &sizes, const Sizes &asked) {
    bool areMet = true;
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      areMet = areMet && meets(sizes[axis], asked[axis]);
    return areMet;
  }
  static bool meets(const std::optional<Split> &split, const std::optional<Split> &asked) { return !asked || split == asked; }
  template <typename T> static bool meets(const T &value, const std::optional<T> &asked) { return !asked || *asked == value; }

  static void take(Sizes &sizes, const Sizes &asked) {
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      take(sizes[axis], asked[axis]);
  }
  static void take(int64_t &value, int64_t asked) { value = asked ? asked : value; }
  static void take(std::optional<Split> &split, const std::optional<Split> &asked) { split = asked ? asked : split; }
  template <typename T> static void take(T &value, const std::optional<T> &asked) { value = asked.value_or(value); }

public:
#define GET_TILE_KNOB_FIELDS
#include "compiler/plan/Knobs.inc"

  bool operator==(const TileKnobs &other) const {
    return
#define GET_TILE_KNOB_EQUALITIES
#include "compiler/plan/Knobs.inc"
        ;
  }
  bool operator!=(const TileKnobs &other) const { return !(*this == other); }

  /// Whether both tiles have the same value of the knob.
  bool agreesOn(TileKnob knob, const TileKnobs &other) const {
    return visit(knob, [&](auto field, auto) { return this->*field == other.*field; });
  }
  /// Whether the tile has the value that `plan` sets. An open knob allows every value.
  bool meets(TileKnob knob, const KernelPlan &plan) const {
    return visit(knob, [&](auto field, auto asked) { return meets(this->*field, plan.*asked); });
  }
  /// Takes the value of the knob that `plan` sets. An open knob leaves the tile as it is.
  void take(TileKnob knob, const KernelPlan &plan) {
    visit(knob, [&](auto field, auto asked) { take(this->*field, plan.*asked); });
  }
  /// Sets the knob in `plan` to the tile's value.
  void copyTo(KernelPlan &plan, TileKnob knob) const {
    visit(knob, [&](auto field, auto asked) { plan.*asked = this->*field; });
  }
  /// Whether `plan` sets the knob.
  static bool isSet(TileKnob knob, const KernelPlan &plan) {
    return visit(knob, [&](auto, auto asked) { return tw::plan::isSet(plan.*asked); });
  }
  /// Sets the knob in `to` to its value in `from`, which may be open.
  static void copy(TileKnob knob, const KernelPlan &from, KernelPlan &to) {
    visit(knob, [&](auto, auto asked) { to.*asked = from.*asked; });
  }
  /// Sets a flag, a number or a choice. `value` of a choice: its place among the knob's spellings.
  void set(TileKnob knob, int64_t value) {
    visit(knob, [&](auto field, auto) {
      using Value = std::remove_reference_t<decltype(this->*field)>;
      if constexpr (std::is_arithmetic_v<Value> || std::is_enum_v<Value>)
        this->*field = Value(value);
    });
  }
};

} // namespace tw::plan

#endif // COMPILER_PLAN_TILEKNOBS_H
