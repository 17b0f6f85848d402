//===- Machine.h - A grid at run time: threads, CTAs, clusters, their barriers and asynchronous operations ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once

#include "tests/gpu/emulator/Emulator.h"

#include <deque>
#include <map>
#include <memory>
#include <random>

namespace tw::ptxemu {

struct Cta;
struct Cluster;
struct Grid;

/// A bulk copy into the shared memory of one CTA; it ends at an mbarrier of that CTA.
struct BulkCopy {
  const Instruction *instruction;
  TensorMap map; // rank 0: `bytes` from `source`
  int32_t coordinates[5];
  uint16_t im2colOffsets[3];
  Cta *sourceCta; // of a copy from shared memory
  uint64_t source;
  uint32_t destination, bytes;
};

struct MBarrier {
  uint32_t count = 0, pending = 0;
  int64_t transactions = 0; // bytes that are expected and have not come
  uint32_t phase = 0;
  uint32_t initializer = 0, initializerFences = 0; // the thread of mbarrier.init, and its fences then
  std::deque<BulkCopy> copies;                     // in flight
  /// cp.async.mbarrier.arrive: arrivals that follow the first `copies` cp.async of a thread.
  struct CopyArrival {
    Thread *thread;
    uint64_t copies;
  };
  std::deque<CopyArrival> copyArrivals;
};

/// A bulk copy out of shared memory.
struct BulkStore {
  const Instruction *instruction;
  TensorMap map; // rank 0: linear
  int32_t coordinates[5];
  uint64_t destination;
  uint32_t source, bytes;
  bool read = false, written = false;
  std::vector<uint8_t> values;
};
using BulkGroup = std::vector<BulkStore>;

/// cp.async: up to 16 bytes.
struct SmallCopy {
  uint64_t source;
  uint32_t destination, bytes, sourceBytes;
};

struct Thread {
  enum State : uint8_t { Ready, AtWarp, AtWarpgroup, AtBarrier, AtMBarrier, AtCluster, AtRegisters, Exited };

  uint64_t read(const Source &source) const {
    if (source.reg >= 0) {
      uint8_t &state = status[source.reg];
      if ((state & (Defined | Result)) != Defined)
        failRead(source.reg);
      state &= uint8_t(~Fenced);
      return source.negated ? !registers[source.reg] : registers[source.reg];
    }
    return source.special == Special::None ? source.value : readSpecial(source.special);
  }
  template <typename T> T get(const Source &source) const;
  void write(int reg, uint64_t value) {
    if (reg < 0)
      return;
    if (status[reg] & (Result | MmaOperand))
      failWrite(reg);
    registers[reg] = value;
    status[reg] = Defined;
  }
  template <typename T> void put(int reg, T value);

  [[noreturn]] void failRead(int reg) const;
  [[noreturn]] void failWrite(int reg) const;
  uint64_t readSpecial(Special special) const;
  Accessor accessor() const;

  // Bits of a register's status.
  enum : uint8_t {
    Defined = 1,
    Result = 2,     // a wgmma in flight writes it
    MmaOperand = 4, // a wgmma in flight reads it
    Fenced = 8      // neither read nor written since the last wgmma.fence
  };

  uint64_t *registers = nullptr;
  uint8_t *status = nullptr;
  Cta *cta = nullptr;
  int pc = 0;
  State state = Ready;
  uint32_t index = 0;    // within the CTA
  uint32_t number = 0;   // within the grid, from 1
  uint32_t barrier = 0;  // AtBarrier: its number; AtMBarrier: its address
  uint64_t gaveUpAt = 0; // progress + 1 when a try_wait gave up last
  uint32_t clusterPhase = 0;
  bool carry = false; // of add.cc
  bool clusterArrived = false;
  bool mmaFenced = false;    // has executed wgmma.fence
  uint32_t maxRegisters = 0; // of setmaxnreg
  std::vector<BulkGroup> bulkGroups;
  BulkGroup openBulkGroup;
  std::vector<std::vector<SmallCopy>> copyGroups;
  std::vector<SmallCopy> openCopies;
  uint64_t copiesIssued = 0, copiesDone = 0;
  std::vector<uint8_t> local, localInitialized;
};

/// A wgmma that has been issued and not been waited for.
struct PendingMma {
  const Instruction *instruction;
  uint64_t descriptorA, descriptorB;
  bool accumulate;
  bool done = false;
  std::vector<uint32_t> chunks; // 16-byte pieces of shared memory that it reads
};

struct Warpgroup {
  std::vector<PendingMma> open;
  std::deque<std::vector<PendingMma>> groups;
};

struct NamedBarrier {
  uint32_t expected = 0, arrived = 0;
};

struct Cta {
  Cta(Grid &grid, uint32_t linear, uint32_t rank);

  Grid &grid;
  Cluster *cluster = nullptr;
  uint32_t linear, rank;
  uint32_t id[3];
  SharedMemory shared;
  std::vector<uint64_t> registers;
  std::vector<uint8_t> status;
  std::vector<Thread> threads;
  std::vector<Warpgroup> warpgroups;
  std::map<uint32_t, MBarrier> mbarriers;
  NamedBarrier barriers[16];
  uint32_t live = 0;             // threads that have not exited
  int64_t freeRegisters = 0;     // of setmaxnreg
  bool dependencyWaited = false; // griddepcontrol.wait
};

struct Cluster {
  std::vector<std::unique_ptr<Cta>> ctas;
  uint32_t arrived = 0, phase = 0, live = 0;

  /// ThreadOrder::Random: the warps in the order in which they are asked, anew after some rounds. Strict: a warp runs only
  /// when all before it wait, so that some are far ahead of others; else all take turns.
  std::vector<uint32_t> order;
  bool strict = false;
  unsigned roundsLeft = 0;
};

/// Executes one launch.
struct Grid {
  Grid(Device &device, const Module &module, const Kernel &kernel, const LaunchShape &shape,
       const std::vector<uint8_t> &parameters, const LaunchOptions &options);
  LaunchResult run();

  // ---- for the instructions ----

  /// The CTA of a shared::cluster address, and the address in its window. Throws for a CTA that is not there or has exited.
  Cta &ctaOf(Thread &thread, uint64_t address, uint32_t &local);
  MBarrier &mbarrierAt(Cta &cta, uint32_t address);
  /// Arrivals and bytes, and the next phase if that completes this one.
  void arrive(MBarrier &barrier, uint32_t address, uint32_t arrivals, int64_t expected);
  /// Does one asynchronous operation that `barrier` waits for; false if there is none.
  bool deliverOne(Cta &cta, MBarrier &barrier, uint32_t address);
  void deliver(Cta &cta, MBarrier &barrier, uint32_t address, const BulkCopy &copy);
  void issue(Cta &cta, uint32_t barrier, BulkCopy copy);
  void readStore(Cta &cta, BulkStore &store);
  void writeStore(BulkStore &store);
  void completeClusterBarrier(Cluster &cluster);
  void finishCopies(Thread &thread, size_t keepGroups);
  void doCopy(Thread &thread, const SmallCopy &copy);
  /// Bytes of device memory that `thread` loads or stores by the generic proxy.
  uint8_t *globalRead(Thread &thread, uint64_t address, uint32_t size);
  uint8_t *globalWrite(Thread &thread, uint64_t address, uint32_t size);
  /// A load with .nc: throws if this launch has written the bytes.
  void checkReadOnly(uint64_t address, uint32_t size);
  /// The same for the async proxy.
  const GlobalMemory::Allocation &asyncRead(uint64_t address, uint32_t size);
  uint8_t *asyncWrite(uint64_t address, uint32_t size);
  void checkDependency(Thread &thread, const GlobalMemory::Allocation &allocation, uint64_t address, uint32_t size, bool write);
  uint32_t sharedFencesOf(uint32_t thread) const { return sharedFences[thread]; }

  /// True with a probability of 1 / n, from the seed; false where the order is fixed.
  bool chance(unsigned n) { return options.order == ThreadOrder::Random && random() % n == 0; }
  /// True for a quarter of the phases of all mbarriers, from the seed, where the order is random.
  bool givesUp(uint32_t barrier, uint32_t phase) const {
    const uint32_t mixed = (options.seed * 0x9e3779b9u + barrier * 0x85ebca6bu + phase) * 0xc2b2ae35u;
    return options.order == ThreadOrder::Random && mixed >> 30 == 0;
  }
  bool early() { return options.timing == Timing::Early; }

  Device &device;
  const Module &module;
  const Kernel &kernel;
  LaunchShape shape;
  std::vector<uint8_t> parameters;
  LaunchOptions options;
  GlobalMemory &memory;
  uint32_t launch; // number of this launch, from 1
  uint32_t threadsPerCta, sharedBytes;
  std::vector<uint32_t> sharedFences, globalFences, barrierFences; // fences of each thread, by number
  std::mt19937 random;
  uint64_t instructions = 0;
  /// Counts what others can see: stores, arrivals, exits, asynchronous operations.
  uint64_t progress = 0;

private:
  void admit(uint32_t first);
  void arrange(Cluster &cluster);
  bool runRound(Cluster &cluster, bool careful);
  bool runThread(Thread &thread, unsigned budget);
  bool tryWarp(Cta &cta, unsigned warp);
  bool tryWarpgroup(Cta &cta, unsigned warpgroup);
  void deliverRandom(Cluster &cluster);
  void finishThread(Thread &thread);
  void finishCluster(Cluster &cluster);
  std::string describeWaiting() const;
  static std::string hex(uint64_t value);
  [[noreturn]] void rethrow(const Error &error, const Thread &thread, const Instruction &instruction) const;

  std::vector<std::unique_ptr<Cluster>> clusters;
  std::vector<BulkStore> finalStores; // of threads that have exited: they write by the end of the grid
};

// ---- wgmma, in Mma.cpp ----
/// Does the multiplication and, if it has not been waited for, leaves its registers marked.
void executeMma(Grid &grid, Cta &cta, unsigned warpgroup, PendingMma &mma);
void completeGroups(Grid &grid, Cta &cta, unsigned warpgroup, size_t keep);

template <typename T> T Thread::get(const Source &source) const {
  const uint64_t bits = read(source);
  if constexpr (std::is_same_v<T, float>)
    return bitCast<float>(uint32_t(bits));
  else if constexpr (std::is_same_v<T, double>)
    return bitCast<double>(bits);
  else
    return T(bits);
}

template <typename T> void Thread::put(int reg, T value) {
  if constexpr (std::is_same_v<T, float>)
    write(reg, bitCast<uint32_t>(value));
  else if constexpr (std::is_same_v<T, double>)
    write(reg, bitCast<uint64_t>(value));
  else
    write(reg, uint64_t(std::make_unsigned_t<T>(value)));
}

} // namespace tw::ptxemu
