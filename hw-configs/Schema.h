//===- Schema.h - Every key of a machine file -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One table says what may stand in a machine or DRAM device file; the loader
// and the manual's table are both checked against it.
//===----------------------------------------------------------------------===//
#ifndef HW_CONFIGS_SCHEMA_H
#define HW_CONFIGS_SCHEMA_H

#include "isa/timing/MachineParams.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tw::hwconfigs {

enum class ValueKind : uint8_t { Integer, Ratio, Flag, Choice, Text };

/// When a key must be given, by the file or by the command line.
enum class Need : uint8_t { Required, Optional, RequiredOfDevice };

/// Which DRAM kinds a `dram.` key belongs to.
enum class DramScope : uint8_t {
  Machine, ///< not a device key: only machine files have it
  Any,     ///< any device
  Ideal,   ///< devices of kind ideal
  Timed    ///< devices with datasheet timing
};

/// A value as the file gave it, already checked against its key.
struct Value {
  uint64_t integer = 0;                    ///< Integer; index of the choice; 0 or 1 of a flag
  uint32_t numerator = 0, denominator = 1; ///< Ratio
  std::string text;
};

struct Key {
  std::string path; ///< "array.rows"; device keys as "dram.rp_ticks"
  ValueKind kind = ValueKind::Integer;
  Need need = Need::Optional;
  DramScope scope = DramScope::Machine;
  uint64_t minimum = 0, maximum = 0; ///< Integer; each part of a Ratio
  bool powerOfTwo = false;
  std::vector<std::string> choices;
  std::string unit, meaning;
  /// Null for keys that no parameter holds: `description`, and the keys that others replace.
  std::function<void(timing::MachineParams &, const Value &)> assign;
  /// The value that a machine has; nothing where the machine has no such part. Null where `assign` is.
  std::function<std::optional<Value>(const timing::MachineParams &)> read;

  std::string block() const;
  std::string leaf() const;
  /// "a power of two from 1 to 1024".
  std::string allowed() const;
  /// A value as a machine file and --set spell it.
  std::string spell(const Value &value) const;
};

/// All keys in the order of the manual.
const std::vector<Key> &schema();

/// Null if there is no such key.
const Key *findKey(const std::string &path);

/// True for "array", "scratchpads", "scratchpads.weight", and so on; the empty path is the root block.
bool isBlock(const std::string &path);

/// The candidate with the least edit distance from `word`, or an empty string if none is near.
std::string nearest(const std::string &word, const std::vector<std::string> &candidates);

} // namespace tw::hwconfigs

#endif // HW_CONFIGS_SCHEMA_H
