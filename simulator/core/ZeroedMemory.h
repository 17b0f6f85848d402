//===- ZeroedMemory.h - Large arrays that cost only what is used -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_CORE_ZEROEDMEMORY_H
#define SIMULATOR_CORE_ZEROEDMEMORY_H

#include <cstdint>
#include <utility>

namespace tw::core {

/// A zero-initialised array of bytes whose pages appear on first touch, so that a DRAM of gigabytes costs what a program uses.
class ZeroedMemory {
public:
  ZeroedMemory() = default;
  /// Throws std::bad_alloc if the address range cannot be had.
  explicit ZeroedMemory(uint64_t bytes);
  ~ZeroedMemory();
  ZeroedMemory(ZeroedMemory &&other) noexcept { swap(other); }
  ZeroedMemory &operator=(ZeroedMemory &&other) noexcept {
    swap(other);
    return *this;
  }

  uint8_t *data() const { return base; }
  uint64_t size() const { return length; }
  /// Everything is zero again.
  void clear();

private:
  void swap(ZeroedMemory &other) {
    std::swap(base, other.base);
    std::swap(length, other.length);
  }

  uint8_t *base = nullptr;
  uint64_t length = 0;
};

} // namespace tw::core

#endif // SIMULATOR_CORE_ZEROEDMEMORY_H
