//===- ZeroedMemory.cpp - Large arrays that cost only what is used --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulator/core/ZeroedMemory.h"

#include <cassert>
#include <new>
#include <sys/mman.h>

using namespace tw::core;

ZeroedMemory::ZeroedMemory(uint64_t bytes) {
  if (!bytes)
    return;
  void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED)
    throw std::bad_alloc();
  base = static_cast<uint8_t *>(pages);
  length = bytes;
}

ZeroedMemory::~ZeroedMemory() {
  if (base)
    munmap(base, length);
}

void ZeroedMemory::clear() {
  if (!base)
    return;
  int failed = madvise(base, length, MADV_DONTNEED);
  assert(!failed && "private anonymous pages can always be dropped");
  (void)failed;
}
