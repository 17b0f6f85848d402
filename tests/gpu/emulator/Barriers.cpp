//===- Barriers.cpp - Named barriers, cluster barriers, mbarriers, fences and setmaxnreg ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Decoder.h"

using namespace tw::ptxemu;

// ---- Named barriers -------------------------------------------------------------------------------------------------------

/// bar.sync, bar.arrive. in[0]: the barrier, in[1]: threads, if simple.flag. simple.mode 1: arrive without waiting.
static Step namedBarrier(Thread &thread, const Instruction &instruction) {
  Cta &cta = *thread.cta;
  const uint64_t id = thread.read(instruction.in[0]);
  if (id >= 16)
    fail(ErrorKind::Barrier, "there is no barrier %llu; a CTA has 16", (unsigned long long)id);
  const uint64_t expected = instruction.simple.flag ? thread.read(instruction.in[1]) : (cta.threads.size() + 31) / 32 * 32;
  if (expected == 0 || expected % 32 || expected > (cta.threads.size() + 31) / 32 * 32)
    fail(ErrorKind::Barrier, "barrier for %llu threads; a multiple of 32 up to the %zu of the CTA is allowed",
         (unsigned long long)expected, cta.threads.size());
  NamedBarrier &barrier = cta.barriers[id];
  if (barrier.arrived && barrier.expected != expected)
    fail(ErrorKind::Barrier, "barrier %llu is used for %llu threads here and for %u elsewhere", (unsigned long long)id,
         (unsigned long long)expected, barrier.expected);
  barrier.expected = uint32_t(expected);
  ++barrier.arrived;
  ++cta.grid.progress;
  // Threads that the last warp lacks count as there.
  const size_t missing = instruction.simple.flag ? 0 : expected - cta.threads.size();
  if (barrier.arrived + missing < expected) {
    if (instruction.simple.mode == 1)
      return Step::Next;
    thread.state = Thread::AtBarrier;
    thread.barrier = uint32_t(id);
    return Step::Wait;
  }
  barrier.arrived = 0;
  for (Thread &other : cta.threads)
    if (other.state == Thread::AtBarrier && other.barrier == id) {
      other.state = Thread::Ready;
      ++other.pc;
    }
  return Step::Yield; // the last one has no head start
}

static void decodeNamedBarrier(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  decoder.take("cta");
  decoder.take("aligned");
  if (decoder.take("arrive"))
    instruction.simple.mode = 1;
  else if (!decoder.take("sync"))
    decoder.unsupported();
  instruction.in[0] = decoder.source(0, Type::U32);
  instruction.simple.flag = decoder.has(1);
  if (decoder.has(1))
    instruction.in[1] = decoder.source(1, Type::U32);
  else if (instruction.simple.mode == 1)
    decoder.unsupported("bar.arrive needs a number of threads");
  instruction.execute = namedBarrier;
}

// ---- Cluster barriers -----------------------------------------------------------------------------------------------------

static Step clusterArrive(Thread &thread, const Instruction &) {
  Cluster &cluster = *thread.cta->cluster;
  if (thread.clusterArrived)
    fail(ErrorKind::Barrier, "arrives twice at the cluster's barrier without a wait");
  thread.clusterArrived = true;
  thread.clusterPhase = cluster.phase;
  ++cluster.arrived;
  ++thread.cta->grid.progress;
  thread.cta->grid.completeClusterBarrier(cluster);
  return Step::Next;
}

static Step clusterWait(Thread &thread, const Instruction &) {
  if (!thread.clusterArrived)
    fail(ErrorKind::Barrier, "waits at the cluster's barrier without having arrived");
  if (thread.cta->cluster->phase == thread.clusterPhase) {
    thread.state = Thread::AtCluster;
    return Step::Wait;
  }
  thread.clusterArrived = false;
  return Step::Next;
}

// ---- mbarriers ------------------------------------------------------------------------------------------------------------

static constexpr uint32_t maxCount = (1u << 20) - 1;

MBarrier &Grid::mbarrierAt(Cta &cta, uint32_t address) {
  if (address % 8)
    fail(ErrorKind::Misaligned, "the mbarrier at 0x%x is no multiple of 8", address);
  auto found = cta.mbarriers.find(address);
  if (found == cta.mbarriers.end())
    fail(ErrorKind::Uninitialized, "there is no initialised mbarrier at shared address 0x%x", address);
  return found->second;
}

void Grid::arrive(MBarrier &barrier, uint32_t address, uint32_t arrivals, int64_t expected) {
  barrier.transactions += expected;
  if (barrier.transactions > int64_t(maxCount) || barrier.transactions < -int64_t(maxCount))
    fail(ErrorKind::Barrier, "the transaction count of the mbarrier at 0x%x becomes %lld; 2^20 - 1 is its limit", address,
         (long long)barrier.transactions);
  if (arrivals > barrier.pending)
    fail(ErrorKind::Barrier, "too many arrivals at the mbarrier at 0x%x: %u more, %u of %u are left in phase %u", address,
         arrivals, barrier.pending, barrier.count, barrier.phase);
  barrier.pending -= arrivals;
  ++progress;
  if (barrier.pending == 0 && barrier.transactions == 0) {
    barrier.pending = barrier.count;
    ++barrier.phase;
  }
}

/// The mbarrier of an address operand; `cta` and `local` say where it lies.
static MBarrier &mbarrierOf(Thread &thread, const Instruction &instruction, Cta *&cta, uint32_t &local) {
  const auto &form = std::get<MemoryForm>(instruction.form);
  uint64_t address = thread.read(form.base) + uint64_t(form.offset);
  if ((address & windowMask) != 0 && (address & windowMask) != sharedWindow)
    fail(ErrorKind::OutOfBounds, "0x%llx is no shared address", (unsigned long long)address);
  Grid &grid = thread.cta->grid;
  cta = &grid.ctaOf(thread, address & 0xffffffffu, local);
  return grid.mbarrierAt(*cta, local);
}

/// The thread that initialised the barrier must have made it visible to the async proxy and the cluster.
static void checkPublished(const Grid &grid, const MBarrier &barrier, uint32_t address) {
  if (grid.barrierFences[barrier.initializer] == barrier.initializerFences)
    fail(
        ErrorKind::Proxy,
        "uses the mbarrier at 0x%x before the thread that initialised it has executed fence.mbarrier_init or fence.proxy.async",
        address);
}

static Step mbarrierInit(Thread &thread, const Instruction &instruction) {
  const auto &form = std::get<MemoryForm>(instruction.form);
  const uint32_t address = uint32_t(thread.read(form.base) + uint64_t(form.offset));
  const uint64_t count = thread.read(instruction.in[0]);
  Cta &cta = *thread.cta;
  if (address % 8)
    fail(ErrorKind::Misaligned, "the mbarrier at 0x%x is no multiple of 8", address);
  cta.shared.checkRange(address, 8);
  if (count == 0 || count > maxCount)
    fail(ErrorKind::Barrier, "an mbarrier for %llu arrivals; 1 to 2^20 - 1 are allowed", (unsigned long long)count);
  if (cta.mbarriers.count(address))
    fail(ErrorKind::Barrier, "initialises the mbarrier at 0x%x again without mbarrier.inval", address);
  cta.shared.write(address, 8, thread.accessor());
  cta.shared.placeBarrier(address, true);
  MBarrier &barrier = cta.mbarriers[address];
  barrier.count = barrier.pending = uint32_t(count);
  barrier.initializer = thread.number;
  barrier.initializerFences = cta.grid.barrierFences[thread.number];
  ++cta.grid.progress;
  return Step::Next;
}

static Step mbarrierInvalidate(Thread &thread, const Instruction &instruction) {
  Cta *cta;
  uint32_t local;
  const MBarrier &barrier = mbarrierOf(thread, instruction, cta, local);
  if (!barrier.copies.empty())
    fail(ErrorKind::InFlight, "invalidates the mbarrier at 0x%x while a copy to it is in flight", local);
  cta->shared.placeBarrier(local, false);
  cta->mbarriers.erase(local);
  return Step::Next;
}

enum ArriveKind { ArriveOnly, ArriveExpect, ExpectOnly, CompleteOnly, ArriveDrop };

/// in[0]: arrivals or bytes; the result is the phase.
static Step mbarrierArrive(Thread &thread, const Instruction &instruction) {
  Cta *cta;
  uint32_t local;
  MBarrier &barrier = mbarrierOf(thread, instruction, cta, local);
  Grid &grid = thread.cta->grid;
  if (cta != thread.cta)
    checkPublished(grid, barrier, local);
  const int64_t amount = int64_t(uint32_t(thread.read(instruction.in[0])));
  const uint32_t phase = barrier.phase;
  switch (instruction.simple.mode) {
  case ArriveOnly:
    grid.arrive(barrier, local, uint32_t(amount), 0);
    break;
  case ArriveExpect:
    grid.arrive(barrier, local, 1, amount);
    break;
  case ExpectOnly:
    grid.arrive(barrier, local, 0, amount);
    break;
  case CompleteOnly:
    grid.arrive(barrier, local, 0, -amount);
    break;
  case ArriveDrop:
    if (barrier.count == 0)
      fail(ErrorKind::Barrier, "drops out of the mbarrier at 0x%x, which expects nobody", local);
    --barrier.count;
    grid.arrive(barrier, local, uint32_t(amount), 0);
    break;
  }
  thread.write(instruction.destination, phase);
  return Step::Next;
}

/// in[0]: the parity, or with simple.flag the phase that mbarrier.arrive has returned. simple.mode 1: may wait.
static Step mbarrierWait(Thread &thread, const Instruction &instruction) {
  Cta *cta;
  uint32_t local;
  MBarrier &barrier = mbarrierOf(thread, instruction, cta, local);
  if (cta != thread.cta)
    fail(ErrorKind::Barrier, "waits on an mbarrier of another CTA");
  Grid &grid = thread.cta->grid;
  const uint64_t wanted = thread.read(instruction.in[0]);
  if (!instruction.simple.flag && wanted > 1)
    fail(ErrorKind::Barrier, "the parity is %llu but must be 0 or 1", (unsigned long long)wanted);
  auto complete = [&] { return instruction.simple.flag ? barrier.phase != uint32_t(wanted) : (barrier.phase & 1) != wanted; };
  // try_wait may give up before the phase ends, so that the loop around it must ask again: for some phases every thread does.
  // Not again before something has changed, else a deadlock would not be seen.
  if (!complete() && instruction.simple.mode == 1 && thread.gaveUpAt != grid.progress + 1 &&
      grid.givesUp(local, barrier.phase)) {
    thread.gaveUpAt = grid.progress + 1;
    thread.write(instruction.destination, 0);
    return Step::Yield;
  }
  while (!complete() && grid.deliverOne(*cta, barrier, local))
    ;
  const bool done = complete();
  if (!done && instruction.simple.mode == 1) {
    thread.state = Thread::AtMBarrier;
    thread.barrier = local;
    return Step::Wait;
  }
  thread.write(instruction.destination, done);
  return done ? Step::Next : Step::Yield;
}

/// cp.async.mbarrier.arrive[.noinc]: arrives when the cp.async that the thread has issued so far are done.
static Step copyArrive(Thread &thread, const Instruction &instruction) {
  Cta *cta;
  uint32_t local;
  MBarrier &barrier = mbarrierOf(thread, instruction, cta, local);
  if (!instruction.simple.flag) // without .noinc the phase expects one arrival more
    ++barrier.pending;
  barrier.copyArrivals.push_back({&thread, thread.copiesIssued});
  ++thread.cta->grid.progress;
  if (thread.cta->grid.early())
    while (thread.cta->grid.deliverOne(*cta, barrier, local))
      ;
  return Step::Next;
}

static void decodeMBarrier(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  MemoryForm form{};
  form.space = Space::Shared;
  size_t at = 0;
  if (decoder.take("init")) {
    instruction.execute = mbarrierInit;
  } else if (decoder.take("inval")) {
    instruction.execute = mbarrierInvalidate;
  } else if (decoder.take("try_wait") || decoder.take("test_wait")) {
    instruction.simple.mode = decoder.firstModifier() == "try_wait";
    instruction.simple.flag = !decoder.take("parity");
    instruction.execute = mbarrierWait;
    decoder.setDestination(at++);
  } else {
    const bool arrive = decoder.take("arrive"), drop = decoder.take("arrive_drop");
    decoder.take("noComplete");
    const bool expect = decoder.take("expect_tx"), complete = decoder.take("complete_tx");
    if (!arrive && !drop && !expect && !complete)
      decoder.unsupported();
    if (drop && expect)
      decoder.unsupported();
    instruction.simple.mode = arrive   ? (expect ? ArriveExpect : ArriveOnly)
                              : drop   ? ArriveDrop
                              : expect ? ExpectOnly
                                       : CompleteOnly;
    instruction.execute = mbarrierArrive;
    if (arrive || drop) {
      if (decoder.operand(at).kind != Operand::Address)
        decoder.setDestination(at++);
    }
    instruction.in[0].value = 1;
  }
  decoder.takeSpace();
  decoder.takeMemoryOrder();
  decoder.take("b64");
  form.base = decoder.base(at++, form.offset);
  if (decoder.has(at))
    instruction.in[0] =
        decoder.source(at, instruction.execute == mbarrierWait && instruction.simple.flag ? Type::B64 : Type::U32);
  else if (instruction.execute == mbarrierInit || instruction.execute == mbarrierWait)
    decoder.unsupported("operand " + std::to_string(at) + " is missing");
  instruction.form = form;
}

// ---- Fences ---------------------------------------------------------------------------------------------------------------

enum FenceKind { MemoryFence = 0, SharedProxy = 1, GlobalProxy = 2, BarrierInit = 4 };

static Step fence(Thread &thread, const Instruction &instruction) {
  Grid &grid = thread.cta->grid;
  const int kind = instruction.simple.mode;
  if (kind & SharedProxy)
    ++grid.sharedFences[thread.number];
  if (kind & GlobalProxy)
    ++grid.globalFences[thread.number];
  if (kind & (SharedProxy | BarrierInit))
    ++grid.barrierFences[thread.number];
  return Step::Next;
}

static void decodeFence(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  instruction.execute = fence;
  if (decoder.is("membar") && (decoder.take("gl") || decoder.take("sys") || decoder.take("cta")))
    return;
  if (decoder.take("mbarrier_init")) {
    instruction.simple.mode = BarrierInit;
  } else if (decoder.take("proxy")) {
    if (decoder.take("async") || decoder.take("async::generic")) {
      const bool global = decoder.take("global") || decoder.take("async.global");
      const bool shared = decoder.take("shared::cta") || decoder.take("shared::cluster");
      instruction.simple.mode = global ? GlobalProxy : shared ? SharedProxy : SharedProxy | GlobalProxy;
    } else if (decoder.take("alias") || !decoder.takePrefixed("tensormap").empty() || decoder.take("tensormap")) {
      // Nothing here reads through another alias, and tensor maps are not modified.
    } else {
      decoder.unsupported();
    }
  }
  decoder.take("sc");
  decoder.takeMemoryOrder();
}

// ---- setmaxnreg -----------------------------------------------------------------------------------------------------------

/// Moves registers between the warps and the pool of the CTA; .inc waits until the pool has enough.
static Step setMaxRegisters(Thread &thread, const Instruction &instruction) {
  const uint32_t wanted = uint32_t(instruction.in[0].value);
  const bool increase = instruction.simple.flag;
  int64_t &pool = thread.cta->freeRegisters;
  if (increase ? wanted > thread.maxRegisters : wanted < thread.maxRegisters) {
    const int64_t needed = int64_t(wanted) - int64_t(thread.maxRegisters);
    if (needed > pool) {
      thread.state = Thread::AtRegisters;
      return Step::Wait;
    }
    pool -= needed;
    thread.maxRegisters = wanted;
    ++thread.cta->grid.progress;
  }
  return Step::Next;
}

bool tw::ptxemu::decodeBarrier(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  if (decoder.is("barrier") && decoder.take("cluster")) {
    if (decoder.take("arrive"))
      instruction.execute = clusterArrive;
    else if (decoder.take("wait"))
      instruction.execute = clusterWait;
    else
      decoder.unsupported();
    decoder.take("aligned");
    decoder.takeMemoryOrder();
  } else if ((decoder.is("bar") || decoder.is("barrier")) && decoder.firstModifier() != "warp" &&
             decoder.firstModifier() != "red") {
    decodeNamedBarrier(decoder);
  } else if (decoder.is("mbarrier")) {
    decodeMBarrier(decoder);
  } else if (decoder.is("cp") && decoder.statement.modifiers.size() > 2 && decoder.statement.modifiers[1] == "mbarrier") {
    decoder.take("async");
    decoder.take("mbarrier");
    decoder.take("arrive");
    instruction.simple.flag = decoder.take("noinc");
    decoder.takeSpace();
    decoder.take("b64");
    MemoryForm form{};
    form.base = decoder.base(0, form.offset);
    instruction.form = form;
    instruction.execute = copyArrive;
  } else if (decoder.is("fence") || decoder.is("membar")) {
    decodeFence(decoder);
  } else if (decoder.is("setmaxnreg")) {
    instruction.simple.flag = decoder.take("inc");
    if (!instruction.simple.flag && !decoder.take("dec"))
      decoder.unsupported();
    decoder.take("sync");
    decoder.take("aligned");
    decoder.take("u32");
    const int64_t count = decoder.constant(0);
    if (count < 24 || count > 256 || count % 8)
      decoder.unsupported("the number of registers must be a multiple of 8 from 24 to 256");
    instruction.in[0].value = uint64_t(count);
    instruction.execute = setMaxRegisters;
  } else {
    return false;
  }
  return true;
}
