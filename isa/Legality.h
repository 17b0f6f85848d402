//===- Legality.h - What a machine accepts ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The faults "illegal instruction" and "address out of range", and the banks
// an instruction owns. Compiler, simulators and RTL checks share these rules.
//===----------------------------------------------------------------------===//
#ifndef ISA_LEGALITY_H
#define ISA_LEGALITY_H

#include "isa/Isa.h"

#include <optional>
#include <string>

namespace tw::isa {

/// Why `machine` rejects the instruction whatever its odometer says: a memory,
/// unit or semaphore it has not got, counts of 0, misaligned addresses, a chain
/// that mixes domains. Nothing if it is legal. Precondition: fits(instruction).
std::optional<std::string> illegal(const Instruction &instruction, const timing::MachineParams &machine);

/// Why one execution would leave a memory or its own spans. `resolved`: legal
/// and without levels (see resolve()).
std::optional<std::string> outOfRange(const Instruction &resolved, const timing::MachineParams &machine);

/// Bytes [begin, end) of an on-chip memory that an instruction names by address
/// and span; the accumulator in bytes too.
struct Region {
  Memory memory = Memory::Scratchpad0;
  uint64_t begin = 0, end = 0;
  bool write = false;
};

/// At most four regions: sources A and B, parameters, destination.
struct Regions {
  std::array<Region, 4> items;
  unsigned count = 0;
  void add(const Region &region) { items[count++] = region; }
  const Region *begin() const { return items.data(); }
  const Region *end() const { return items.data() + count; }
};
/// Precondition: outOfRange(resolved, machine) is empty.
Regions regionsOf(const Instruction &resolved, const timing::MachineParams &machine);

/// Bytes [begin, end) of DRAM. Negative, or end <= begin, where an instruction that outOfRange() refuses says so.
struct DramRange {
  int64_t begin = 0, end = 0;
};
/// From the lowest to the highest byte of DRAM that one execution touches; empty for a load of nothing but fill.
DramRange dramBytesOf(const Load &resolved);
DramRange dramBytesOf(const Store &resolved);

/// The banks of all regions. Bits from the lowest: scratchpad0, scratchpad1,
/// accumulator, each bank 0 first; at most 64 banks in all.
uint64_t bankMask(const Instruction &resolved, const timing::MachineParams &machine);
/// First bit of a memory in a bank mask.
unsigned firstBank(Memory memory, const timing::MachineParams &machine);

/// The memory's parameters; nullptr if the machine has not got it.
const timing::MemoryParams *memoryOf(Memory memory, const timing::MachineParams &machine);

/// Bytes of one element.
constexpr uint32_t elementBytes(VectorType type) {
  return type == VectorType::I8 || type == VectorType::U8 ? 1 : type == VectorType::Bf16 ? 2 : 4;
}
constexpr bool isFloat(VectorType type) { return type == VectorType::F32 || type == VectorType::Bf16; }

} // namespace tw::isa

#endif // ISA_LEGALITY_H
