//===- Memory.cpp - Checks of every access ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Memory.h"

#include <algorithm>

using namespace tw::ptxemu;

// ---- Global memory --------------------------------------------------------------------------------------------------------

uint64_t GlobalMemory::allocate(uint64_t size, std::string name) {
  Allocation allocation;
  allocation.name = std::move(name);
  allocation.address = (allocationBase + allocations.size()) << 32;
  // What nobody has written yet is no zero: 0xff bytes are NaN in every float type.
  allocation.bytes.assign(size, 0xff);
  allocation.initialized.assign(size, 0);
  allocation.writers.resize((size + 15) / 16);
  allocations.push_back(std::move(allocation));
  return allocations.back().address;
}

void GlobalMemory::free(uint64_t address) {
  Allocation &allocation = find(address, 0, "free");
  if (allocation.address != address)
    fail(ErrorKind::OutOfBounds, "free of 0x%llx, which is inside '%s'", (unsigned long long)address, allocation.name.c_str());
  allocation.freed = true;
  allocation.bytes = {};
}

GlobalMemory::Allocation &GlobalMemory::find(uint64_t address, uint64_t size, const char *access) {
  const uint64_t slot = address >> 32;
  Allocation *allocation = nullptr;
  if (slot >= allocationBase && slot - allocationBase < allocations.size())
    allocation = &allocations[slot - allocationBase];
  else if (slot >= moduleVariableBase && slot - moduleVariableBase < moduleVariables.size())
    allocation = &moduleVariables[slot - moduleVariableBase];
  const uint64_t offset = address & 0xffffffffu;
  if (allocation && !allocation->freed && offset + size <= allocation->bytes.size())
    return *allocation;
  if (allocation && allocation->freed)
    fail(ErrorKind::OutOfBounds, "%s of %llu bytes at byte %llu of '%s', which is freed", access, (unsigned long long)size,
         (unsigned long long)offset, allocation->name.c_str());
  // A small step in front of an allocation lands at the end of the slot before it.
  if (slot + 1 >= allocationBase && slot + 1 - allocationBase < allocations.size() && offset > 0xf0000000u)
    fail(ErrorKind::OutOfBounds, "%s of %llu bytes, %llu bytes before the begin of '%s'", access, (unsigned long long)size,
         (unsigned long long)(0x100000000u - offset), allocations[slot + 1 - allocationBase].name.c_str());
  if (allocation)
    fail(ErrorKind::OutOfBounds, "%s of %llu bytes at byte %llu of '%s', which has %zu", access, (unsigned long long)size,
         (unsigned long long)offset, allocation->name.c_str(), allocation->bytes.size());
  fail(ErrorKind::OutOfBounds, "%s of %llu bytes at 0x%llx, which is in no allocation", access, (unsigned long long)size,
       (unsigned long long)address);
}

void GlobalMemory::checkInitialized(const Allocation &allocation, uint64_t address, uint64_t size) const {
  const uint64_t offset = address & 0xffffffffu;
  for (uint64_t i = offset; i < offset + size; ++i)
    if (!allocation.initialized[i])
      fail(ErrorKind::Uninitialized, "reads byte %llu of '%s', which nobody has written", (unsigned long long)i,
           allocation.name.c_str());
}

// ---- Shared memory --------------------------------------------------------------------------------------------------------

SharedMemory::SharedMemory(uint32_t size)
    : bytes(size, 0xff), initialized(size, 0), granules((size + 15) / 16), writers((size + 3) / 4) {}

void SharedMemory::checkRange(uint32_t address, uint32_t size) const {
  if (address < sharedBase || uint64_t(address) + size > end())
    fail(ErrorKind::OutOfBounds, "%u bytes at shared address 0x%x; the CTA has [0x%x, 0x%x)", size, address, sharedBase, end());
}

void SharedMemory::failUninitialized(uint32_t address, uint32_t size, const char *reader) const {
  uint32_t first = address - sharedBase;
  while (initialized[first])
    ++first;
  fail(ErrorKind::Uninitialized, "%s reads shared memory at 0x%x, which nobody has written", reader, first + sharedBase);
}

uint8_t *SharedMemory::read(uint32_t address, uint32_t size) {
  checkRange(address, size);
  const uint32_t begin = address - sharedBase;
  for (uint32_t g = begin / 16; g < (begin + size + 15) / 16; ++g) {
    if (granules[g].barriers && (granules[g].barriers & 1 ? begin < g * 16 + 8 : begin + size > g * 16 + 8))
      fail(ErrorKind::Barrier, "reads the mbarrier at shared address 0x%x as data", address);
  }
  for (uint32_t w = begin / 4; w < (begin + size + 3) / 4; ++w)
    if (writers[w].copies)
      fail(ErrorKind::InFlight, "reads shared memory at 0x%x, which a copy in flight has yet to write: wait for it first",
           address);
  for (uint32_t i = begin; i < begin + size; ++i)
    if (!initialized[i])
      failUninitialized(address, size, "the thread");
  return bytes.data() + begin;
}

uint8_t *SharedMemory::write(uint32_t address, uint32_t size, Accessor writer) {
  checkRange(address, size);
  const uint32_t begin = address - sharedBase;
  for (uint32_t g = begin / 16; g < (begin + size + 15) / 16; ++g) {
    if (granules[g].readers)
      fail(ErrorKind::InFlight, "writes shared memory at 0x%x, which a wgmma or bulk store in flight has yet to read", address);
    if (granules[g].barriers && (granules[g].barriers & 1 ? begin < g * 16 + 8 : begin + size > g * 16 + 8))
      fail(ErrorKind::Barrier, "writes over the mbarrier at shared address 0x%x", address);
  }
  std::fill_n(initialized.begin() + begin, size, uint8_t(1));
  for (uint32_t w = begin / 4; w < (begin + size + 3) / 4; ++w) {
    if (writers[w].copies)
      fail(ErrorKind::InFlight, "writes shared memory at 0x%x, which a copy in flight has yet to write", address);
    writers[w] = {writer.thread, writer.fences, 0};
  }
  return bytes.data() + begin;
}

void SharedMemory::beginRead(uint32_t address, uint32_t size) {
  for (uint32_t g = (address - sharedBase) / 16; g < (address - sharedBase + size + 15) / 16; ++g)
    ++granules[g].readers;
}
void SharedMemory::endRead(uint32_t address, uint32_t size) {
  for (uint32_t g = (address - sharedBase) / 16; g < (address - sharedBase + size + 15) / 16; ++g)
    --granules[g].readers;
}
void SharedMemory::beginCopy(uint32_t address, uint32_t size) {
  for (uint32_t w = (address - sharedBase) / 4; w < (address - sharedBase + size + 3) / 4; ++w)
    ++writers[w].copies;
}
void SharedMemory::endCopy(uint32_t address, uint32_t size) {
  for (uint32_t w = (address - sharedBase) / 4; w < (address - sharedBase + size + 3) / 4; ++w)
    --writers[w].copies;
}

void SharedMemory::deliver(uint32_t address, uint32_t size, const uint8_t *values, const uint8_t *defined) {
  checkRange(address, size);
  const uint32_t begin = address - sharedBase;
  if (values)
    std::copy_n(values, size, bytes.begin() + begin);
  else
    std::fill_n(bytes.begin() + begin, size, uint8_t(0));
  if (defined)
    std::copy_n(defined, size, initialized.begin() + begin);
  else
    std::fill_n(initialized.begin() + begin, size, uint8_t(1));
  for (uint32_t w = begin / 4; w < (begin + size + 3) / 4; ++w)
    writers[w].thread = 0;
}

void SharedMemory::placeBarrier(uint32_t address, bool present) {
  Granule &granule = granules[(address - sharedBase) / 16];
  const uint8_t bit = uint8_t(1u << ((address - sharedBase) / 8 % 2));
  granule.barriers = present ? granule.barriers | bit : granule.barriers & uint8_t(~bit);
  if (!present)
    std::fill_n(initialized.begin() + (address - sharedBase), 8, uint8_t(0));
}
