//===- ZeroedMemory.cpp - Large arrays that cost only what is used --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulator/core/ZeroedMemory.h"

#include "isa/OutOfMemory.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <sys/mman.h>

using namespace tw::core;

/// Address space is taken in steps of so many bytes.
constexpr uint64_t kStep = 4 << 20;

ZeroedMemory::~ZeroedMemory() {
  if (base)
    munmap(base, mapped);
}

void ZeroedMemory::map(uint64_t end) const {
  assert(end <= length && "outside the array");
  const uint64_t bytes = std::min((end + kStep - 1) / kStep * kStep, length);
  void *pages = base ? mremap(base, mapped, bytes, MREMAP_MAYMOVE)
                     : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED)
    throw OutOfMemory(std::string(what) + " needs an address space of " + std::to_string(bytes) + " bytes");
  base = static_cast<uint8_t *>(pages);
  mapped = bytes;
}

void ZeroedMemory::clear() {
  if (!base)
    return;
  int failed = madvise(base, mapped, MADV_DONTNEED);
  assert(!failed && "private anonymous pages can always be dropped");
  (void)failed;
}
