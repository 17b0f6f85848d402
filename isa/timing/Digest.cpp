//===- Digest.cpp - Fingerprints of a machine -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/timing/Digest.h"

#include <cstring>
#include <string_view>
#include <type_traits>

namespace tw::timing {
namespace {

class Fnv1a {
public:
  void add(std::string_view key, uint64_t number) { add(key, std::to_string(number)); }
  void add(std::string_view key, std::string_view text) {
    bytes(key);
    bytes("=");
    bytes(text);
    bytes(";");
  }
  uint64_t value() const { return hash; }

private:
  void bytes(std::string_view text) {
    for (unsigned char byte : text) {
      hash ^= byte;
      hash *= 0x100000001b3ull;
    }
  }
  uint64_t hash = 0xcbf29ce484222325ull;
};

void addMemory(Fnv1a &digest, const std::string &key, const MemoryParams &memory) {
  digest.add(key, memory.name);
  digest.add("capacityBytes", memory.capacityBytes);
  digest.add("banks", memory.banks);
}

} // namespace

uint64_t architecturalDigest(const MachineParams &machine) {
  Fnv1a digest;
  digest.add("arrayType", uint64_t(machine.arrayType));
  digest.add("rows", machine.rows);
  digest.add("cols", machine.cols);
  digest.add("lanes", machine.lanes);
  digest.add("vectorStages", machine.vectorStages);
  digest.add("preloadRowsPerCycle", machine.preloadRowsPerCycle);
  digest.add("scratchpads", machine.scratchpads.size());
  for (const MemoryParams &memory : machine.scratchpads)
    addMemory(digest, "scratchpad", memory);
  addMemory(digest, "accumulator", machine.accumulator);
  digest.add("loadEngines", machine.loadEngines);
  digest.add("storeEngines", machine.storeEngines);
  digest.add("queueDepth", machine.queueDepth);
  digest.add("loopBufferWords", machine.loopBufferWords);
  digest.add("prefetchWords", machine.prefetchWords);
  digest.add("semaphores", machine.semaphores);
  digest.add("semaphoreMax", machine.semaphoreMax);
  digest.add("outstandingBursts", machine.outstandingBursts);
  digest.add("burstsPerCycle", machine.burstsPerCycle);
  return digest.value();
}

uint64_t timingDigest(const MachineParams &machine) {
  Fnv1a digest;
  digest.add("clockMhz", machine.clockMhz);
  const DramParams &dram = machine.dram;
  digest.add("kind", uint64_t(dram.kind));
  digest.add("capacityBytes", dram.capacityBytes);
  digest.add("burstBytes", dram.burstBytes);
  digest.add("pathLatencyCycles", dram.pathLatencyCycles);
  digest.add("grantBursts", dram.grantBursts);
  digest.add("writeBufferBursts", dram.writeBufferBursts);
  digest.add("writeHighWatermark", dram.writeHighWatermark);
  digest.add("writeLowWatermark", dram.writeLowWatermark);
  if (dram.kind == DramKind::Ideal) {
    digest.add("latencyCycles", dram.latencyCycles);
    digest.add("bytesPerCycleNumerator", dram.bytesPerCycleNumerator);
    digest.add("bytesPerCycleDenominator", dram.bytesPerCycleDenominator);
  } else {
    digest.add("clockMhz", dram.clockMhz);
    digest.add("channels", dram.channels);
    digest.add("ranks", dram.ranks);
    digest.add("bankGroups", dram.bankGroups);
    digest.add("banksPerGroup", dram.banksPerGroup);
    digest.add("rowBytes", dram.rowBytes);
    for (uint32_t ticks :
         {dram.nBurst, dram.nCL,     dram.nCWL,  dram.nRCDRD, dram.nRCDWR,  dram.nRP,    dram.nRAS,  dram.nRPAB, dram.nCCDS,
          dram.nCCDL,  dram.nCCDLWR, dram.nRRDS, dram.nRRDL,  dram.nFAW,    dram.nWR,    dram.nWTRS, dram.nWTRL, dram.nRTP,
          dram.nRTW,   dram.nRTRS,   dram.nREFI, dram.nRFC,   dram.nREFIPB, dram.nRFCPB, dram.nRREFD})
      digest.add("ticks", ticks);
    digest.add("refresh", uint64_t(dram.refresh));
    digest.add("rowColumnBuses", dram.rowColumnBuses);
    digest.add("controller", uint64_t(dram.controller));
    digest.add("window", dram.window);
    digest.add("ageCapTicks", dram.ageCapTicks);
    digest.add("interleaveBankGroups", dram.interleaveBankGroups);
  }
  // The latency constants are one generated struct of uint32_t; in declaration order they are their own key.
  static_assert(std::is_trivially_copyable<TimingConstants>::value, "hashed as a row of uint32_t");
  for (size_t at = 0; at + sizeof(uint32_t) <= sizeof(TimingConstants); at += sizeof(uint32_t)) {
    uint32_t cycles;
    std::memcpy(&cycles, reinterpret_cast<const char *>(&machine.timing) + at, sizeof cycles);
    digest.add("constant", cycles);
  }
  return digest.value();
}

} // namespace tw::timing
