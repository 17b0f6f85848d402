//===- Engines.h - The engines of a machine, numbered ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One table for compiler, simulator and checkers: which engines there are, in the
// order in which they are arbitrated, and what they are called.
//===----------------------------------------------------------------------===//
#ifndef ISA_TIMING_ENGINES_H
#define ISA_TIMING_ENGINES_H

#include "isa/timing/MachineParams.h"

#include <array>
#include <cassert>

namespace tw::timing {

/// Most engines of a class that an instruction's unit field may name.
constexpr unsigned kMaxStoreEngines = 4, kMaxLoadEngines = 4;

constexpr std::array<const char *, kNumEngineKinds> kEngineKindNames = {"store",   "vector", "tensor",
                                                                        "preload", "load",   "sequencer"};

/// Classes of which a machine may have several engines.
constexpr bool hasUnits(EngineKind kind) { return kind == EngineKind::Store || kind == EngineKind::Load; }

/// `load0`, `tensor`, ...: the class, with the unit where a machine may have several.
inline std::string engineName(EngineKind kind, unsigned unit) {
  const std::string name = kEngineKindNames[unsigned(kind)];
  return hasUnits(kind) ? name + std::to_string(unit) : name;
}

/// Dense numbers for the engines of a machine: class after class as EngineKind lists them, the sequencer last, and by unit within a class.
class EngineTable {
public:
  constexpr EngineTable(unsigned stores, unsigned loads)
      : first{0, stores, stores + 1, stores + 2, stores + 3, stores + 3 + loads, stores + 4 + loads} {}
  explicit EngineTable(const MachineParams &machine) : EngineTable(machine.storeEngines, machine.loadEngines) {}

  /// Engines with the sequencer.
  constexpr unsigned size() const { return first[kNumEngineKinds]; }
  /// Engines of a class.
  constexpr unsigned count(EngineKind kind) const { return first[unsigned(kind) + 1] - first[unsigned(kind)]; }
  /// Precondition: unit < count(kind).
  constexpr unsigned indexOf(EngineKind kind, unsigned unit = 0) const {
    assert(unit < count(kind) && "no such engine");
    return first[unsigned(kind)] + unit;
  }
  /// Precondition: index < size().
  constexpr EngineKind kindOf(unsigned index) const {
    unsigned kind = 0;
    while (index >= first[kind + 1])
      ++kind;
    return EngineKind(kind);
  }
  constexpr unsigned unitOf(unsigned index) const { return index - first[unsigned(kindOf(index))]; }
  std::string nameOf(unsigned index) const { return engineName(kindOf(index), unitOf(index)); }

private:
  std::array<unsigned, kNumEngineKinds + 1> first;
};

/// The engines that any machine may have: numbers that do not depend on the machine.
constexpr EngineTable kAllEngines(kMaxStoreEngines, kMaxLoadEngines);

} // namespace tw::timing

#endif // ISA_TIMING_ENGINES_H
