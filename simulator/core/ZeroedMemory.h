//===- ZeroedMemory.h - Large arrays that cost only what is used -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_CORE_ZEROEDMEMORY_H
#define SIMULATOR_CORE_ZEROEDMEMORY_H

#include <cstdint>
#include <utility>

namespace tw::core {

/// A zero-initialised array of bytes. Address space is taken for the bytes up to the highest one that was asked for, and pages
/// appear on first touch, so that a DRAM of gigabytes costs what a program uses.
class ZeroedMemory {
public:
  ZeroedMemory() = default;
  /// `what` names the array in the message of OutOfMemory.
  ZeroedMemory(uint64_t bytes, const char *what) : length(bytes), what(what) {}
  ~ZeroedMemory();
  ZeroedMemory(ZeroedMemory &&other) noexcept { swap(other); }
  ZeroedMemory &operator=(ZeroedMemory &&other) noexcept {
    swap(other);
    return *this;
  }

  /// The array, of which the first `end` bytes may be accessed, until data() is called again. Throws OutOfMemory if there is no
  /// address space for them. Precondition: end <= size().
  uint8_t *data(uint64_t end) const {
    if (end > mapped)
      map(end);
    return base;
  }
  uint64_t size() const { return length; }
  /// No byte from here on was ever asked for: all are zero.
  uint64_t asked() const { return mapped; }
  /// Everything is zero again.
  void clear();

private:
  void map(uint64_t end) const;
  void swap(ZeroedMemory &other) {
    std::swap(base, other.base);
    std::swap(mapped, other.mapped);
    std::swap(length, other.length);
    std::swap(what, other.what);
  }

  mutable uint8_t *base = nullptr; ///< bytes that are not mapped are zero
  mutable uint64_t mapped = 0;
  uint64_t length = 0;
  const char *what = "";
};

} // namespace tw::core

#endif // SIMULATOR_CORE_ZEROEDMEMORY_H
