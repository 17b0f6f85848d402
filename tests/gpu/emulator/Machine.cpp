//===- Machine.cpp - The scheduler of threads ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules the threads of a grid, brings them together where instructions need them together, and says why they do not go on.
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Machine.h"

#include <algorithm>
#include <numeric>

using namespace tw::ptxemu;

// Instructions for each resident thread without anything that others can see, after which a launch does not get anywhere; and
// those after which a further cluster begins: it may be the one that a spinning thread waits for.
static constexpr uint64_t stallLimit = 400'000, admitLimit = 40'000;
// The least of the two for all threads together.
static constexpr uint64_t leastStall = 20'000'000, leastAdmit = 1'000'000;

// ---- Threads --------------------------------------------------------------------------------------------------------------

void Thread::failRead(int reg) const {
  const char *name = cta->grid.kernel.registers[size_t(reg)].name.c_str();
  if (status[reg] & Result)
    fail(ErrorKind::InFlight, "reads %s, which a wgmma in flight writes: wgmma.wait_group first", name);
  fail(ErrorKind::Uninitialized, "reads %s, which nobody has written", name);
}

void Thread::failWrite(int reg) const {
  const char *name = cta->grid.kernel.registers[size_t(reg)].name.c_str();
  fail(ErrorKind::InFlight, "writes %s, which a wgmma in flight %s: wgmma.wait_group first", name,
       status[reg] & Result ? "writes" : "reads");
}

Accessor Thread::accessor() const { return {cta->grid.launch, number, cta->grid.sharedFences[number]}; }

uint64_t Thread::readSpecial(Special special) const {
  const Grid &grid = cta->grid;
  const LaunchShape &shape = grid.shape;
  const Extent &block = shape.block, &cluster = shape.cluster, &ctas = shape.grid;
  const uint32_t lane = index % 32;
  const uint32_t *id = cta->id;
  switch (special) {
  case Special::None:
    return 0;
  case Special::TidX:
    return index % block.x;
  case Special::TidY:
    return index / block.x % block.y;
  case Special::TidZ:
    return index / block.x / block.y;
  case Special::NtidX:
    return block.x;
  case Special::NtidY:
    return block.y;
  case Special::NtidZ:
    return block.z;
  case Special::CtaidX:
    return id[0];
  case Special::CtaidY:
    return id[1];
  case Special::CtaidZ:
    return id[2];
  case Special::NctaidX:
    return ctas.x;
  case Special::NctaidY:
    return ctas.y;
  case Special::NctaidZ:
    return ctas.z;
  case Special::LaneId:
    return lane;
  case Special::WarpId:
    return index / 32;
  case Special::NwarpId:
    return (grid.threadsPerCta + 31) / 32;
  case Special::ClusterCtaRank:
    return cta->rank;
  case Special::ClusterNctaRank:
    return cluster.count();
  case Special::ClusterCtaidX:
    return id[0] % cluster.x;
  case Special::ClusterCtaidY:
    return id[1] % cluster.y;
  case Special::ClusterCtaidZ:
    return id[2] % cluster.z;
  case Special::ClusterNctaidX:
    return cluster.x;
  case Special::ClusterNctaidY:
    return cluster.y;
  case Special::ClusterNctaidZ:
    return cluster.z;
  case Special::ClusteridX:
    return id[0] / cluster.x;
  case Special::ClusteridY:
    return id[1] / cluster.y;
  case Special::ClusteridZ:
    return id[2] / cluster.z;
  case Special::NclusteridX:
    return ctas.x / cluster.x;
  case Special::NclusteridY:
    return ctas.y / cluster.y;
  case Special::NclusteridZ:
    return ctas.z / cluster.z;
  case Special::IsExplicitCluster:
    return cluster.count() > 1;
  case Special::SmId:
    return cta->linear % 132;
  case Special::NsmId:
    return 132;
  case Special::GridId:
    return grid.launch;
  case Special::Clock:
  case Special::GlobalTimer:
    return grid.instructions;
  case Special::LaneMaskEq:
    return 1u << lane;
  case Special::LaneMaskLt:
    return (1u << lane) - 1;
  case Special::LaneMaskLe:
    return (2u << lane) - 1;
  case Special::LaneMaskGt:
    return ~((2u << lane) - 1);
  case Special::LaneMaskGe:
    return ~((1u << lane) - 1);
  case Special::DynamicSharedSize:
    return shape.dynamicSharedBytes;
  case Special::TotalSharedSize:
    return grid.sharedBytes;
  }
  return 0;
}

// ---- CTAs -----------------------------------------------------------------------------------------------------------------

Cta::Cta(Grid &grid, uint32_t linear, uint32_t rank) : grid(grid), linear(linear), rank(rank), shared(grid.sharedBytes) {
  const uint32_t count = grid.threadsPerCta;
  const size_t registerCount = grid.kernel.registers.size();
  registers.assign(registerCount * count, 0xdeadbeefdeadbeefull);
  status.assign(registerCount * count, 0);
  threads.resize(count);
  warpgroups.resize((count + 127) / 128);
  live = count;
  // What ptxas gives a kernel with .maxntid: an equal share of the register file, in steps of 8.
  const uint32_t bound = std::max(count, grid.kernel.maxntid[0] * grid.kernel.maxntid[1] * grid.kernel.maxntid[2]);
  const uint32_t share = std::min(248u, 65536 / std::max(32u, bound) / 8 * 8);
  for (uint32_t i = 0; i < count; ++i) {
    Thread &thread = threads[i];
    thread.registers = registers.data() + registerCount * i;
    thread.status = status.data() + registerCount * i;
    thread.cta = this;
    thread.index = i;
    thread.number = linear * count + i + 1;
    thread.maxRegisters = grid.kernel.maxnreg ? grid.kernel.maxnreg : share;
    thread.local.assign(grid.kernel.localBytes, 0xff);
    thread.localInitialized.assign(grid.kernel.localBytes, 0);
  }
}

// ---- The grid -------------------------------------------------------------------------------------------------------------

Grid::Grid(Device &device, const Module &module, const Kernel &kernel, const LaunchShape &shape,
           const std::vector<uint8_t> &parameters, const LaunchOptions &options)
    : device(device), module(module), kernel(kernel), shape(shape), parameters(parameters), options(options),
      memory(device.memory), launch(device.launches), threadsPerCta(uint32_t(shape.block.count())), random(options.seed) {
  const uint32_t align = kernel.dynamicSharedAlignment;
  sharedBytes = (sharedBase + kernel.staticSharedBytes + align - 1) / align * align - sharedBase + shape.dynamicSharedBytes;
  const size_t threads = threadsPerCta * shape.grid.count() + 1;
  sharedFences.resize(threads);
  globalFences.resize(threads);
  barrierFences.resize(threads);
}

void Grid::admit(uint32_t index) {
  auto cluster = std::make_unique<Cluster>();
  const Extent &grid = shape.grid, &size = shape.cluster;
  const uint32_t clustersX = grid.x / size.x, clustersY = grid.y / size.y;
  const uint32_t first[3] = {index % clustersX * size.x, index / clustersX % clustersY * size.y,
                             index / clustersX / clustersY * size.z};
  for (uint32_t rank = 0; rank < size.count(); ++rank) {
    const uint32_t id[3] = {first[0] + rank % size.x, first[1] + rank / size.x % size.y, first[2] + rank / size.x / size.y};
    const uint32_t linear = (id[2] * grid.y + id[1]) * grid.x + id[0];
    cluster->ctas.push_back(std::make_unique<Cta>(*this, linear, rank));
    std::copy_n(id, 3, cluster->ctas.back()->id);
    cluster->ctas.back()->cluster = cluster.get();
  }
  cluster->live = uint32_t(size.count() * threadsPerCta);
  clusters.push_back(std::move(cluster));
}

LaunchResult Grid::run() {
  std::vector<uint32_t> waiting(shape.grid.count() / shape.cluster.count());
  std::iota(waiting.begin(), waiting.end(), 0u);
  if (options.order == ThreadOrder::Forward)
    std::reverse(waiting.begin(), waiting.end()); // taken from the back
  if (options.order == ThreadOrder::Random)
    std::shuffle(waiting.begin(), waiting.end(), random);
  size_t resident = std::max(1u, options.residentClusters);
  uint64_t lastProgress = 0, progressAt = 0;
  bool moved = true;
  while (!waiting.empty() || !clusters.empty()) {
    while (clusters.size() < resident && !waiting.empty()) {
      admit(waiting.back());
      waiting.pop_back();
    }
    // A round without skipped warps decides whether all wait.
    const bool careful = !moved;
    moved = false;
    for (auto &cluster : clusters)
      moved |= runRound(*cluster, careful);
    if (progress != lastProgress) {
      lastProgress = progress;
      progressAt = instructions;
    }
    for (size_t i = 0; i < clusters.size();) {
      if (clusters[i]->live) {
        ++i;
        continue;
      }
      finishCluster(*clusters[i]);
      clusters.erase(clusters.begin() + long(i));
      moved = true;
    }
    const uint64_t idle = instructions - progressAt;
    const uint64_t threads = clusters.size() * shape.cluster.count() * threadsPerCta;
    if ((!moved && careful) || idle > std::max(leastStall, stallLimit * threads)) {
      if (waiting.empty())
        throw Error(ErrorKind::Deadlock, "kernel " + kernel.name + ": " +
                                             (moved ? "no thread gets anywhere" : "deadlock, every thread waits") +
                                             describeWaiting());
      ++resident;
      moved = true;
    } else if (idle > std::max(leastAdmit, admitLimit * threads) && !waiting.empty()) {
      ++resident;
      progressAt = instructions;
    }
    if (instructions > options.maxInstructions)
      throw Error(ErrorKind::Deadlock, "kernel " + kernel.name + ": more than " + std::to_string(options.maxInstructions) +
                                           " instructions" + describeWaiting());
  }
  for (BulkStore &store : finalStores)
    writeStore(store);
  return {instructions};
}

void Grid::arrange(Cluster &cluster) {
  std::vector<uint32_t> &order = cluster.order;
  if (order.empty()) {
    order.resize(cluster.ctas.size() * ((threadsPerCta + 31) / 32));
    std::iota(order.begin(), order.end(), 0u);
    if (options.order == ThreadOrder::Reverse)
      std::reverse(order.begin(), order.end());
  }
  if (options.order != ThreadOrder::Random || cluster.roundsLeft--)
    return;
  std::shuffle(order.begin(), order.end(), random);
  cluster.strict = random() % 2;
  cluster.roundsLeft = random() % (cluster.strict ? 400 : 40);
}

bool Grid::runRound(Cluster &cluster, bool careful) {
  const unsigned warpsPerCta = (threadsPerCta + 31) / 32;
  const bool randomOrder = options.order == ThreadOrder::Random;
  arrange(cluster);
  const uint64_t progressBefore = progress;
  bool moved = false;
  for (uint32_t warp : cluster.order) {
    Cta &cta = *cluster.ctas[warp / warpsPerCta];
    const uint32_t first = warp % warpsPerCta * 32, lanes = std::min(32u, threadsPerCta - first);
    if (options.timing == Timing::Random && random() % 4 == 0)
      deliverRandom(cluster);
    if (!careful && !cluster.strict && chance(3)) {
      moved = true; // not known: it was not asked
      continue;
    }
    uint32_t start = 0, stride = 1;
    if (options.order == ThreadOrder::Reverse)
      start = lanes - 1, stride = lanes - 1; // -1 modulo the number of lanes
    if (randomOrder && lanes == 32)
      start = random() % 32, stride = random() % 32 | 1;
    const uint64_t instructionsBefore = instructions;
    for (uint32_t i = 0; i < lanes; ++i) {
      Thread &thread = cta.threads[first + (start + i * stride) % lanes];
      switch (thread.state) {
      case Thread::Ready:
      case Thread::AtMBarrier:
      case Thread::AtCluster:
      case Thread::AtRegisters:
        moved |= runThread(thread, randomOrder ? 1 + random() % (cluster.strict ? 512 : 48) : 100'000);
        break;
      default:
        break;
      }
    }
    moved |= tryWarp(cta, warp % warpsPerCta);
    moved |= tryWarpgroup(cta, warp % warpsPerCta / 4);
    // A warp that only asks again lets others run.
    if (cluster.strict && !careful && instructions > instructionsBefore && random() % 16)
      break;
  }
  return moved || progress != progressBefore;
}

bool Grid::runThread(Thread &thread, unsigned budget) {
  const Instruction *code = kernel.code.data();
  const bool waited = thread.state != Thread::Ready;
  const int begin = thread.pc;
  thread.state = Thread::Ready;
  const uint64_t limit = instructions + budget;
  try {
    while (instructions < limit) {
      const Instruction &instruction = code[thread.pc];
      ++instructions;
      if (instruction.predicate >= 0) {
        if (thread.status[instruction.predicate] == 0)
          thread.failRead(instruction.predicate);
        if (bool(thread.registers[instruction.predicate]) == instruction.predicateNegated) {
          ++thread.pc;
          continue;
        }
      }
      if (instruction.rendezvous != Rendezvous::None) {
        thread.state = instruction.rendezvous == Rendezvous::Warp ? Thread::AtWarp : Thread::AtWarpgroup;
        return true;
      }
      switch (instruction.execute(thread, instruction)) {
      case Step::Next:
        ++thread.pc;
        continue;
      case Step::Jump:
        continue;
      case Step::Wait:
        --instructions;
        return !waited || thread.pc != begin;
      case Step::Yield:
        ++thread.pc;
        return true;
      case Step::Exit:
        finishThread(thread);
        return true;
      }
    }
  } catch (const Error &error) {
    rethrow(error, thread, code[thread.pc]);
  }
  return true;
}

void Grid::rethrow(const Error &error, const Thread &thread, const Instruction &instruction) const {
  throw Error(error.kind,
              "kernel " + kernel.name + ", CTA " + std::to_string(thread.cta->linear) + ", thread " +
                  std::to_string(thread.index) + ", line " + std::to_string(instruction.line) + " `" + instruction.text +
                  "`: " + error.what(),
              instruction.line);
}

/// Runs an instruction for all lanes of a warp that stand at it, if all that it needs are there.
bool Grid::tryWarp(Cta &cta, unsigned warp) {
  const uint32_t first = warp * 32, lanes = std::min(32u, threadsPerCta - first);
  bool moved = false;
  for (uint32_t lead = 0; lead < lanes; ++lead) {
    Thread &leader = cta.threads[first + lead];
    if (leader.state != Thread::AtWarp)
      continue;
    const Instruction &instruction = kernel.code[size_t(leader.pc)];
    try {
      // Source 3 is the membermask, where the instruction has one.
      const bool masked = instruction.in[3].reg >= 0 || instruction.in[3].value;
      const uint32_t all = lanes == 32 ? ~0u : (1u << lanes) - 1;
      const uint32_t mask = masked ? uint32_t(leader.read(instruction.in[3])) & all : all;
      if (!(mask >> lead & 1))
        fail(ErrorKind::Barrier, "lane %u is not in its own membermask 0x%x", lead, mask);
      Thread *group[32] = {};
      bool complete = true;
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        Thread &thread = cta.threads[first + lane];
        if (!(mask >> lane & 1))
          continue;
        if (thread.state == Thread::Exited)
          fail(ErrorKind::Barrier, "waits for lane %u of its warp, which has exited", lane);
        complete &= thread.state == Thread::AtWarp && thread.pc == leader.pc;
        group[lane] = &thread;
      }
      if (!complete)
        continue;
      instruction.executeGroup(group, 32, instruction);
      for (Thread *thread : group)
        if (thread) {
          thread->state = Thread::Ready;
          ++thread->pc;
        }
      moved = true;
    } catch (const Error &error) {
      rethrow(error, leader, instruction);
    }
  }
  return moved;
}

bool Grid::tryWarpgroup(Cta &cta, unsigned warpgroup) {
  const uint32_t first = warpgroup * 128;
  Thread &leader = cta.threads[first];
  if (leader.state != Thread::AtWarpgroup)
    return false;
  const Instruction &instruction = kernel.code[size_t(leader.pc)];
  try {
    if (first + 128 > threadsPerCta)
      fail(ErrorKind::Barrier, "needs a whole warpgroup of 128 threads; this one has %u", threadsPerCta - first);
    Thread *group[128];
    for (uint32_t i = 0; i < 128; ++i) {
      Thread &thread = cta.threads[first + i];
      if (thread.state == Thread::Exited)
        fail(ErrorKind::Barrier, "waits for thread %u of its warpgroup, which has exited", first + i);
      if (thread.state != Thread::AtWarpgroup || thread.pc != leader.pc)
        return false;
      group[i] = &thread;
    }
    instruction.executeGroup(group, 128, instruction);
    for (Thread *thread : group) {
      thread->state = Thread::Ready;
      ++thread->pc;
    }
  } catch (const Error &error) {
    rethrow(error, leader, instruction);
  }
  return true;
}

void Grid::finishThread(Thread &thread) {
  Cta &cta = *thread.cta;
  if (!thread.openBulkGroup.empty())
    fail(ErrorKind::InFlight, "exits with a bulk store that it has not committed");
  for (BulkGroup &group : thread.bulkGroups)
    for (BulkStore &store : group) {
      if (!store.read)
        fail(ErrorKind::InFlight,
             "exits while a bulk store (line %u) has yet to read shared memory: cp.async.bulk.wait_group first",
             store.instruction->line);
      if (!store.written)
        finalStores.push_back(std::move(store));
    }
  if (thread.copiesDone != thread.copiesIssued)
    fail(ErrorKind::InFlight, "exits with cp.async in flight");
  thread.state = Thread::Exited;
  ++progress;
  --cta.live;
  Cluster &cluster = *cta.cluster;
  --cluster.live;
  // An exited thread counts as arrived at the cluster's barrier.
  if (thread.clusterArrived && thread.clusterPhase == cluster.phase)
    --cluster.arrived;
  completeClusterBarrier(cluster);
  if (cta.live)
    return;
  for (auto &entry : cta.mbarriers)
    if (!entry.second.copies.empty())
      fail(ErrorKind::InFlight, "the CTA ends while a copy (line %u) to the mbarrier at 0x%x is in flight",
           entry.second.copies.front().instruction->line, entry.first);
  for (Warpgroup &warpgroup : cta.warpgroups) {
    bool pending = !warpgroup.open.empty();
    for (const auto &group : warpgroup.groups)
      pending |= !group.empty();
    if (pending)
      fail(ErrorKind::InFlight, "the CTA ends while a wgmma is in flight");
  }
  if (options.programmatic && !cta.dependencyWaited)
    fail(ErrorKind::Barrier,
         "the CTA ends without griddepcontrol.wait, so that later kernels may meet what earlier ones still write");
}

void Grid::completeClusterBarrier(Cluster &cluster) {
  if (cluster.arrived == 0 || cluster.arrived < cluster.live)
    return;
  cluster.arrived = 0;
  ++cluster.phase;
  ++progress;
}

void Grid::finishCluster(Cluster &) { ++progress; }

std::string Grid::describeWaiting() const {
  static const char *const states[] = {"runs",
                                       "waits for its warp",
                                       "waits for its warpgroup",
                                       "waits at a barrier",
                                       "waits on an mbarrier",
                                       "waits for its cluster",
                                       "waits for registers",
                                       "has exited"};
  std::map<std::string, unsigned> places;
  for (const auto &cluster : clusters)
    for (const auto &cta : cluster->ctas)
      for (const Thread &thread : cta->threads) {
        if (thread.state == Thread::Exited)
          continue;
        const Instruction &instruction = kernel.code[size_t(thread.pc)];
        std::string place = "CTA " + std::to_string(cta->linear) + " warp " + std::to_string(thread.index / 32) + " " +
                            states[thread.state] + " at line " + std::to_string(instruction.line) + " `" + instruction.text +
                            "`";
        if (thread.state == Thread::AtMBarrier) {
          auto found = cta->mbarriers.find(thread.barrier);
          if (found != cta->mbarriers.end()) {
            const MBarrier &barrier = found->second;
            place += " (0x" + hex(thread.barrier) + ": phase " + std::to_string(barrier.phase) + ", " +
                     std::to_string(barrier.pending) + " of " + std::to_string(barrier.count) + " arrivals and " +
                     std::to_string(barrier.transactions) + " bytes to come)";
          }
        } else if (thread.state == Thread::AtBarrier) {
          const NamedBarrier &barrier = cta->barriers[thread.barrier];
          place += " (" + std::to_string(barrier.arrived) + " of " + std::to_string(barrier.expected) + " threads are there)";
        }
        ++places[place];
      }
  std::string result;
  unsigned lines = 0;
  for (const auto &entry : places) {
    if (++lines > 16) {
      result += "\n  and " + std::to_string(places.size() - 16) + " more places";
      break;
    }
    result += "\n  " + entry.first + ": " + std::to_string(entry.second) + " threads";
  }
  return result;
}

std::string Grid::hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "%llx", (unsigned long long)value);
  return text;
}

// ---- Memory ---------------------------------------------------------------------------------------------------------------

Cta &Grid::ctaOf(Thread &thread, uint64_t address, uint32_t &local) {
  local = uint32_t(address) & 0xffffff;
  const uint32_t rank = uint32_t(address) >> 24;
  if (rank == 0)
    return *thread.cta;
  Cluster &cluster = *thread.cta->cluster;
  if (rank > cluster.ctas.size())
    fail(ErrorKind::OutOfBounds, "shared address 0x%x is in no CTA of the cluster of %zu", uint32_t(address),
         cluster.ctas.size());
  Cta &cta = *cluster.ctas[rank - 1];
  if (cta.live == 0)
    fail(ErrorKind::InFlight, "touches the shared memory of CTA %u of its cluster, which has exited", cta.rank);
  return cta;
}

void Grid::checkDependency(Thread &thread, const GlobalMemory::Allocation &allocation, uint64_t address, uint32_t size,
                           bool write) {
  if (!options.programmatic || thread.cta->dependencyWaited)
    return;
  if (write)
    fail(ErrorKind::Barrier, "writes '%s' before griddepcontrol.wait, while the kernel before may still use it",
         allocation.name.c_str());
  const uint64_t offset = address & 0xffffffffu;
  for (uint64_t g = offset / 16; g < (offset + size + 15) / 16; ++g)
    if (allocation.writers[g].launch >= device.unfinishedFrom)
      fail(ErrorKind::Barrier, "reads byte %llu of '%s', which launch %u writes, before griddepcontrol.wait",
           (unsigned long long)(g * 16), allocation.name.c_str(), allocation.writers[g].launch);
}

uint8_t *Grid::globalRead(Thread &thread, uint64_t address, uint32_t size) {
  GlobalMemory::Allocation &allocation = memory.find(address, size, "load");
  checkDependency(thread, allocation, address, size, false);
  memory.checkInitialized(allocation, address, size);
  return allocation.bytes.data() + (address & 0xffffffffu);
}

uint8_t *Grid::globalWrite(Thread &thread, uint64_t address, uint32_t size) {
  GlobalMemory::Allocation &allocation = memory.find(address, size, "store");
  if (allocation.constant)
    fail(ErrorKind::OutOfBounds, "stores to the constant '%s'", allocation.name.c_str());
  checkDependency(thread, allocation, address, size, true);
  const uint64_t offset = address & 0xffffffffu;
  std::fill_n(allocation.initialized.begin() + long(offset), size, uint8_t(1));
  for (uint64_t g = offset / 16; g < (offset + size + 15) / 16; ++g)
    allocation.writers[g] = {launch, thread.number, globalFences[thread.number]};
  ++progress;
  return allocation.bytes.data() + offset;
}

void Grid::checkReadOnly(uint64_t address, uint32_t size) {
  const GlobalMemory::Allocation &allocation = memory.find(address, size, "load");
  const uint64_t offset = address & 0xffffffffu;
  for (uint64_t g = offset / 16; g < (offset + size + 15) / 16; ++g)
    if (allocation.writers[g].launch == launch)
      fail(ErrorKind::InFlight, "a load with .nc reads byte %llu of '%s', which this launch has written",
           (unsigned long long)(g * 16), allocation.name.c_str());
}

const GlobalMemory::Allocation &Grid::asyncRead(uint64_t address, uint32_t size) {
  const GlobalMemory::Allocation &allocation = memory.find(address, size, "asynchronous load");
  const uint64_t offset = address & 0xffffffffu;
  for (uint64_t g = offset / 16; g < (offset + size + 15) / 16; ++g) {
    const Accessor &writer = allocation.writers[g];
    if (writer.launch == launch && writer.thread && globalFences[writer.thread] == writer.fences)
      fail(ErrorKind::Proxy,
           "the async proxy reads byte %llu of '%s', which thread %u of the grid wrote without a fence.proxy.async behind the "
           "write",
           (unsigned long long)(g * 16), allocation.name.c_str(), writer.thread - 1);
  }
  return allocation;
}

uint8_t *Grid::asyncWrite(uint64_t address, uint32_t size) {
  GlobalMemory::Allocation &allocation = memory.find(address, size, "asynchronous store");
  if (allocation.constant)
    fail(ErrorKind::OutOfBounds, "stores to the constant '%s'", allocation.name.c_str());
  const uint64_t offset = address & 0xffffffffu;
  std::fill_n(allocation.initialized.begin() + long(offset), size, uint8_t(1));
  for (uint64_t g = offset / 16; g < (offset + size + 15) / 16; ++g)
    allocation.writers[g] = {launch, 0, 0};
  ++progress;
  return allocation.bytes.data() + offset;
}
