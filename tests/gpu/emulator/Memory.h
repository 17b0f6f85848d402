//===- Memory.h - Memory and what is known of it ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Global and shared memory with what is known of every byte: initialised or not, who wrote it, what is in flight.
//===----------------------------------------------------------------------===//
#pragma once

#include "tests/gpu/emulator/Program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tw::ptxemu {

/// Generic addresses: the windows of shared, local and parameter memory; everything else is global.
constexpr uint64_t sharedWindow = uint64_t(1) << 48, localWindow = uint64_t(2) << 48, paramWindow = uint64_t(3) << 48;
constexpr uint64_t windowMask = uint64_t(0xff) << 48;
/// Allocation i begins at (allocationBase + i) << 32: an address that leaves its allocation meets no other.
constexpr uint64_t allocationBase = 0x1000;
/// The most shared memory of a CTA on Hopper, static and dynamic.
constexpr uint32_t maxSharedBytes = 232448;

/// Who writes or reads, for the checks across proxies. `fences` counts the fence.proxy.async that the thread has executed.
struct Accessor {
  uint32_t launch = 0; // 0: the host
  uint32_t thread = 0; // number within the grid, from 1
  uint32_t fences = 0;
};

/// Device memory.
class GlobalMemory {
public:
  struct Allocation {
    std::string name;
    uint64_t address;
    std::vector<uint8_t> bytes;
    std::vector<uint8_t> initialized; // 0 or 1 for each byte
    std::vector<Accessor> writers;    // the last generic write of each 16 bytes
    bool freed = false, constant = false;
  };

  uint64_t allocate(uint64_t size, std::string name);
  void free(uint64_t address);

  /// The allocation that holds [address, address + size); throws OutOfBounds, Uninitialized for a null pointer and freed memory.
  Allocation &find(uint64_t address, uint64_t size, const char *access);
  /// Throws Uninitialized if a byte was never written.
  void checkInitialized(const Allocation &allocation, uint64_t address, uint64_t size) const;

  std::vector<Allocation> allocations, moduleVariables;
};

/// The shared memory of a CTA. Addresses are those of PTX: they begin at sharedBase.
class SharedMemory {
public:
  explicit SharedMemory(uint32_t size);

  uint32_t end() const { return sharedBase + uint32_t(bytes.size()); }
  uint8_t *at(uint32_t address) { return bytes.data() + (address - sharedBase); }

  /// Checks a load or store of the generic proxy and returns the bytes; a store marks them as written by `writer`.
  uint8_t *read(uint32_t address, uint32_t size);
  uint8_t *write(uint32_t address, uint32_t size, Accessor writer);

  /// Checks that the async proxy may read or write [address, address + size) when the operation is issued.
  /// `fencesOf(thread)` is the number of fences that a thread has executed by now.
  template <typename FencesOf> void checkAsyncRead(uint32_t address, uint32_t size, FencesOf fencesOf) const;
  template <typename FencesOf> void checkAsyncWrite(uint32_t address, uint32_t size, FencesOf fencesOf) const;
  void checkRange(uint32_t address, uint32_t size) const;

  /// Marks: readers in units of 16 bytes, copies in units of 4.
  void beginRead(uint32_t address, uint32_t size);
  void endRead(uint32_t address, uint32_t size);
  void beginCopy(uint32_t address, uint32_t size);
  void endCopy(uint32_t address, uint32_t size);
  /// Bytes that the async proxy has delivered; `values` null: zeros. `defined` null: all are.
  void deliver(uint32_t address, uint32_t size, const uint8_t *values, const uint8_t *defined);

  void placeBarrier(uint32_t address, bool present);

  std::vector<uint8_t> bytes, initialized;

private:
  struct Granule {        // 16 bytes
    uint16_t readers = 0; // wgmma and bulk stores that have yet to read
    uint8_t barriers = 0; // bit i: an mbarrier in bytes [8 i, 8 i + 8)
  };
  struct Writer {                    // 4 bytes
    uint32_t thread = 0, fences = 0; // of the last generic write
    uint8_t copies = 0;              // asynchronous copies that have yet to write
  };
  [[noreturn]] void failUninitialized(uint32_t address, uint32_t size, const char *reader) const;

  std::vector<Granule> granules;
  std::vector<Writer> writers;
};

template <typename FencesOf> void SharedMemory::checkAsyncRead(uint32_t address, uint32_t size, FencesOf fencesOf) const {
  checkRange(address, size);
  const uint32_t begin = address - sharedBase;
  for (uint32_t g = begin / 16; g < (begin + size + 15) / 16; ++g) {
    if (granules[g].barriers)
      fail(ErrorKind::Barrier, "reads the mbarrier at shared address 0x%x as data", g * 16 + sharedBase);
  }
  for (uint32_t w = begin / 4; w < (begin + size + 3) / 4; ++w) {
    if (writers[w].copies)
      fail(ErrorKind::InFlight,
           "reads shared memory at 0x%x, which a copy in flight has yet to write: wait on its mbarrier first",
           w * 4 + sharedBase);
    if (writers[w].thread && fencesOf(writers[w].thread) == writers[w].fences)
      fail(ErrorKind::Proxy,
           "the async proxy reads shared memory at 0x%x, which thread %u of the grid wrote without a fence.proxy.async behind "
           "it",
           w * 4 + sharedBase, writers[w].thread - 1);
  }
  for (uint32_t i = begin; i < begin + size; ++i)
    if (!initialized[i])
      failUninitialized(address, size, "the async proxy");
}

template <typename FencesOf> void SharedMemory::checkAsyncWrite(uint32_t address, uint32_t size, FencesOf fencesOf) const {
  checkRange(address, size);
  const uint32_t begin = address - sharedBase;
  for (uint32_t g = begin / 16; g < (begin + size + 15) / 16; ++g) {
    if (granules[g].readers)
      fail(ErrorKind::InFlight, "copies to shared memory at 0x%x, which a wgmma or bulk store in flight has yet to read",
           g * 16 + sharedBase);
    if (granules[g].barriers)
      fail(ErrorKind::Barrier, "copies over the mbarrier in shared memory at 0x%x", g * 16 + sharedBase);
  }
  for (uint32_t w = begin / 4; w < (begin + size + 3) / 4; ++w) {
    if (writers[w].copies)
      fail(ErrorKind::InFlight, "copies to shared memory at 0x%x, which another copy in flight has yet to write",
           w * 4 + sharedBase);
    if (writers[w].thread && fencesOf(writers[w].thread) == writers[w].fences)
      fail(ErrorKind::Proxy,
           "the async proxy writes shared memory at 0x%x, which thread %u of the grid wrote without a fence.proxy.async behind "
           "it",
           w * 4 + sharedBase, writers[w].thread - 1);
  }
}

} // namespace tw::ptxemu
