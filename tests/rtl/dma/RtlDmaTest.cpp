//===- RtlDmaTest.cpp - Loads, stores and the DRAM port in RTL ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random boxes on a DRAM of random latencies. Every cycle must be that of the
// rules, and the memories in the end those of the plain meaning of the
// instructions.
//===----------------------------------------------------------------------===//
#include "isa/Isa.h"
#include "isa/Legality.h"
#include "isa/timing/Dma.h"
#include "simulator/functional/Execute.h"
#include "tests/rtl/dma/DmaReference.h"
#include "tests/rtl/dma/Machines.h"

#include "Vnarrow.h"
#include "Vwide.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

using namespace tw;
using namespace tw::test;
using timing::Cycle;

double sc_time_stamp() { return 0; }

namespace {

/// Bits [low, low + width) of a port, width <= 64.
template <typename Port> uint64_t bits(const Port &port, unsigned low, unsigned width) {
  const uint64_t mask = width == 64 ? ~0ull : (1ull << width) - 1;
  if constexpr (std::is_integral_v<Port>) {
    return uint64_t(port) >> low & mask;
  } else {
    uint64_t value = 0;
    for (unsigned bit = 0; bit < width; ++bit)
      value |= uint64_t(port.at((low + bit) / 32) >> ((low + bit) % 32) & 1) << bit;
    return value;
  }
}

template <typename Port> void setBits(Port &port, unsigned low, unsigned width, uint64_t value) {
  if constexpr (std::is_integral_v<Port>) {
    const uint64_t mask = (width == 64 ? ~0ull : (1ull << width) - 1) << low;
    port = Port((uint64_t(port) & ~mask) | (value << low & mask));
  } else {
    for (unsigned bit = 0; bit < width; ++bit) {
      port.at((low + bit) / 32) &= ~(1u << ((low + bit) % 32));
      port.at((low + bit) / 32) |= uint32_t(value >> bit & 1) << ((low + bit) % 32);
    }
  }
}

class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  /// In [low, high].
  int64_t in(int64_t low, int64_t high) { return low + int64_t(engine() % uint64_t(high - low + 1)); }
  bool chance(unsigned percent) { return engine() % 100 < percent; }

private:
  std::mt19937 engine;
};

struct Region {
  int64_t begin = 0, end = 0;
};

/// A box of one load or store that stays in its regions. Stores have no fills.
isa::Load randomBox(Random &random, bool isLoad, Region dram, Region scratchpad) {
  for (;;) {
    isa::Load box;
    box.element_log2 = random.in(0, 2);
    const int64_t bytes = int64_t(1) << box.element_log2;
    box.memory = random.in(0, 1);
    box.counts[0] = random.chance(60) ? random.in(1, 30) : random.in(30, 200);
    box.broadcast = isLoad && random.chance(15);
    int64_t size = box.counts[0] * bytes, dramSize = size;
    int64_t runs = 1;
    for (unsigned d = 1; d < 5; ++d) {
      box.counts[d] = random.chance(50) ? random.in(1, 6) : 1;
      runs *= box.counts[d];
      box.strides[d - 1] = random.chance(70) ? size : random.in(size / bytes, size / bytes + 5) * bytes;
      size = std::max(size, box.strides[d - 1] * box.counts[d]);
      box.dram_strides[d - 1] = random.chance(60) ? dramSize : random.in(isLoad ? -20 : dramSize / bytes, 300) * bytes;
      dramSize = std::max(dramSize, std::abs(box.dram_strides[d - 1]) * box.counts[d]);
    }
    if (runs > 60 || size > 1 << 20 || dramSize > 1 << 20)
      continue;
    if (isLoad && random.chance(50))
      for (unsigned d = 0; d < 5; ++d) {
        box.low[d] = random.chance(30) ? random.in(0, box.counts[d]) : 0;
        box.high[d] = random.chance(30) ? random.in(0, box.counts[d] - box.low[d]) : 0;
      }
    box.fill = int64_t(uint32_t(random.in(0, 0xffffffff)) & (bytes == 4 ? ~0u : (1u << 8 * bytes) - 1));
    // Reach in both memories.
    int64_t low = 0, high = (box.broadcast ? 0 : box.counts[0] - 1) * bytes, reach = (box.counts[0] - 1) * bytes;
    for (unsigned d = 1; d < 5; ++d) {
      const int64_t last = (box.counts[d] - 1) * box.dram_strides[d - 1];
      low += std::min<int64_t>(last, 0);
      high += std::max<int64_t>(last, 0);
      reach += (box.counts[d] - 1) * box.strides[d - 1];
    }
    if (high - low + bytes > dram.end - dram.begin || reach + bytes > scratchpad.end - scratchpad.begin)
      continue;
    const int64_t first = (dram.begin + bytes - 1) / bytes, last = (dram.end - (high - low) - bytes) / bytes;
    if (first > last)
      continue;
    box.dram_address = random.in(first, last) * bytes - low;
    box.address = random.in(scratchpad.begin / bytes, (scratchpad.end - reach - bytes) / bytes) * bytes;
    box.span = reach + bytes;
    return box;
  }
}

isa::Store storeOf(const isa::Load &box) {
  isa::Store store;
  store.dram_address = box.dram_address;
  store.memory = box.memory;
  store.address = box.address;
  store.span = box.span;
  store.element_log2 = box.element_log2;
  store.counts = box.counts;
  store.dram_strides = box.dram_strides;
  store.strides = box.strides;
  return store;
}

struct Counts {
  uint64_t loads = 0, stores = 0, reads = 0, writes = 0, forwarded = 0, cycles = 0, full = 0;
};

template <typename Model> class Bench {
public:
  Bench(const std::string &name, unsigned seed)
      : machine(dmaMachine(name)), random(seed), golden(machine), responses(unsigned(sizeOf(machine))),
        reference(machine, [this](const DmaRequest &request, Cycle cycle) { return complete(request, cycle); }) {}

  void run(unsigned boxes);
  Counts counts;

private:
  static uint32_t sizeOf(const timing::MachineParams &machine) {
    // As many completions per cycle as the package says.
    const timing::DramParams &dram = machine.dram;
    const uint32_t ticks = (dram.clockMhz + machine.clockMhz - 1) / machine.clockMhz;
    return dram.channels * ((ticks + dram.nBurst - 1) / dram.nBurst);
  }
  struct Completion {
    DmaRequest request;
    std::vector<uint8_t> data;
  };

  Cycle complete(const DmaRequest &request, Cycle cycle) {
    auto &calendar = request.requester == DmaReference::kWrites ? writes : reads;
    Cycle at = cycle + Cycle(random.in(1, random.chance(20) ? 60 : latency));
    while (calendar[at].size() >= responses)
      ++at;
    calendar[at].push_back({request, {}});
    // Data are those of the request's cycle; see memory().
    open.push_back({&calendar, at, calendar[at].size() - 1});
    return at;
  }
  std::optional<isa::Load> nextLoad(unsigned unit);
  std::optional<isa::Load> nextStore(unsigned unit);
  void drive(const std::vector<std::optional<isa::Load>> &loadStarts, const std::vector<std::optional<isa::Load>> &storeStarts,
             const std::vector<uint64_t> &fetch);
  void compare(const DmaReference::Outputs &expected);
  void memory(const DmaReference::Outputs &expected);

  timing::MachineParams machine;
  Random random;
  core::MachineState golden;
  uint32_t responses;
  int64_t latency = 20;
  unsigned startChance = 50, fetchChance = 10, mailboxChance = 40;
  struct Place {
    std::map<Cycle, std::vector<Completion>> *calendar;
    Cycle at;
    size_t index;
  };
  std::vector<Place> open;
  std::map<Cycle, std::vector<Completion>> reads, writes;
  DmaReference reference;
  Model model;
  Cycle now = 0;
  std::vector<uint8_t> dram;
  std::vector<uint8_t> scratchpad[2];
  std::vector<std::vector<DmaSegment>> movedBefore;
  std::vector<std::vector<uint8_t>> readBefore; ///< per store and port
  int64_t left = 0;
  uint32_t storesInFlight = 0;
  Region lastStore{kMailbox, kMailbox + 300};
  std::vector<std::deque<bool>> readsMailbox; ///< per load, boxes in flight
  static constexpr int64_t kMailbox = 0x8000, kMailboxBytes = 0x1800, kLoadBytes = 3072;
};

template <typename Model> std::optional<isa::Load> Bench<Model>::nextLoad(unsigned unit) {
  if (left <= 0 || !reference.loadFree(unit) || !random.chance(startChance))
    return std::nullopt;
  const bool mailbox = random.chance(mailboxChance);
  // What stores write may be read once they have retired.
  if (mailbox && storesInFlight)
    return std::nullopt;
  const Region where{int64_t(unit) * kLoadBytes, int64_t(unit + 1) * kLoadBytes};
  // Best what was written last, which may still be in the write buffer.
  Region from{0, kMailbox};
  if (mailbox)
    from = random.chance(70) ? lastStore : Region{kMailbox, kMailbox + kMailboxBytes};
  const isa::Load box = randomBox(random, true, from, where);
  isa::Instruction instruction{box};
  instruction.header.unit = unit;
  if (const auto problem = isa::illegal(instruction, machine))
    ADD_FAILURE() << *problem;
  const timing::BoxCost cost = timing::costOf(timing::boxOf(box), machine.dram.burstBytes);
  const std::vector<DmaSegment> segments = cutBox(box, machine.dram.burstBytes);
  EXPECT_EQ(segments.size(), cost.segments);
  EXPECT_EQ(uint64_t(std::count_if(segments.begin(), segments.end(), [](const DmaSegment &s) { return s.opens; })),
            cost.bursts);
  functional::executeLoad(box, golden, functional::Kernel::Plain);
  readsMailbox[unit].push_back(mailbox);
  --left;
  ++counts.loads;
  return box;
}

template <typename Model> std::optional<isa::Load> Bench<Model>::nextStore(unsigned unit) {
  if (left <= 0 || !reference.storeFree(unit) || !random.chance(startChance))
    return std::nullopt;
  for (const std::deque<bool> &boxes : readsMailbox)
    for (const bool mailbox : boxes)
      if (mailbox)
        return std::nullopt;
  // Stores share the burst where their regions meet.
  const int64_t begin = kMailbox + (unit ? kMailboxBytes / 2 + 12 : 0);
  const isa::Load box = randomBox(random, false, {begin, unit ? kMailbox + kMailboxBytes : kMailbox + kMailboxBytes / 2 + 12},
                                  {int64_t(machine.loadEngines) * kLoadBytes, 16384});
  isa::Instruction instruction{storeOf(box)};
  instruction.header.unit = unit;
  if (const auto problem = isa::illegal(instruction, machine))
    ADD_FAILURE() << *problem;
  int64_t end = box.dram_address + (box.counts[0] << box.element_log2);
  for (unsigned d = 1; d < 5; ++d)
    end += (box.counts[d] - 1) * box.dram_strides[d - 1];
  end = std::max(end, kMailbox + 300);
  lastStore = {end - 300, end};
  functional::executeStore(storeOf(box), golden, functional::Kernel::Plain);
  ++storesInFlight;
  --left;
  ++counts.stores;
  return box;
}

template <typename Model>
void Bench<Model>::drive(const std::vector<std::optional<isa::Load>> &loadStarts,
                         const std::vector<std::optional<isa::Load>> &storeStarts, const std::vector<uint64_t> &fetch) {
  auto operands = [](auto &port, unsigned unit, const isa::Instruction &instruction) {
    std::string why;
    ASSERT_TRUE(isa::fits(instruction, &why)) << why;
    std::vector<isa::Word> words;
    isa::encode(instruction, words);
    for (unsigned w = 0; w < 3; ++w)
      for (unsigned q = 0; q < 4; ++q)
        setBits(port, unit * 768 + w * 256 + q * 64, 64, words[w][q]);
  };
  for (unsigned u = 0; u < machine.loadEngines; ++u) {
    setBits(model.load_start_i, u, 1, loadStarts[u].has_value());
    if (loadStarts[u])
      operands(model.load_operands_i, u, isa::Instruction{*loadStarts[u]});
  }
  for (unsigned u = 0; u < machine.storeEngines; ++u) {
    setBits(model.store_start_i, u, 1, storeStarts[u].has_value());
    if (storeStarts[u])
      operands(model.store_operands_i, u, isa::Instruction{storeOf(*storeStarts[u])});
  }
  model.fetch_valid_i = 0;
  for (unsigned n = 0; n < fetch.size(); ++n) {
    setBits(model.fetch_valid_i, n, 1, 1);
    setBits(model.fetch_address_i, n * 40, 40, fetch[n]);
    setBits(model.fetch_slot_i, n * 12, 12, n);
  }
  model.dram_rsp_valid_i = 0;
  const std::vector<Completion> &returned = reads[now];
  for (unsigned r = 0; r < returned.size(); ++r) {
    setBits(model.dram_rsp_valid_i, r, 1, 1);
    setBits(model.dram_rsp_tag_i, r * 16, 16, uint64_t(returned[r].request.requester) << 12 | returned[r].request.slot);
    for (unsigned b = 0; b < machine.dram.burstBytes; ++b)
      setBits(model.dram_rsp_data_i, (r * machine.dram.burstBytes + b) * 8, 8, returned[r].data[b]);
  }
  model.dram_done_valid_i = 0;
  const std::vector<Completion> &done = writes[now];
  for (unsigned r = 0; r < done.size(); ++r) {
    setBits(model.dram_done_valid_i, r, 1, 1);
    setBits(model.dram_done_tag_i, r * 16, 16, uint64_t(DmaReference::kWrites) << 12 | done[r].request.slot);
  }
  const unsigned rowBytes = sizeof(model.rd_data_i) / (machine.storeEngines * machine.burstsPerCycle);
  for (unsigned port = 0; port < readBefore.size(); ++port)
    for (unsigned b = 0; b < readBefore[port].size() && b < rowBytes; ++b)
      setBits(model.rd_data_i, (port * rowBytes + b) * 8, 8, readBefore[port][b]);
}

template <typename Model> void Bench<Model>::compare(const DmaReference::Outputs &expected) {
  const unsigned p = machine.burstsPerCycle;
  for (unsigned u = 0; u < machine.loadEngines; ++u) {
    const DmaReference::LoadCycle &cycle = expected.loads[u];
    SCOPED_TRACE("load " + std::to_string(u));
    EXPECT_EQ(bits(model.load_ready_o, u, 1), cycle.ready);
    EXPECT_EQ(bits(model.load_retire_o, u, 1), cycle.retire);
    EXPECT_EQ(bits(model.load_busy_o, u, 1), cycle.busy);
    if (!cycle.busy) {
      EXPECT_EQ(bits(model.load_wait_o, u, 1), cycle.wait);
      if (cycle.wait) {
        EXPECT_EQ(bits(model.load_latency_o, u, 1), cycle.latency);
        if (!cycle.latency) {
          EXPECT_EQ(bits(model.load_channel_o, u * 6, 6), cycle.channel);
        }
      }
    }
    // Writes of what moved in the cycle before.
    for (unsigned n = 0; n < p; ++n) {
      const unsigned port = u * p + n;
      const bool valid = bits(model.wr_valid_o, port, 1);
      ASSERT_EQ(valid, n < movedBefore[u].size());
      if (!valid)
        continue;
      const DmaSegment &segment = movedBefore[u][n];
      EXPECT_EQ(bits(model.wr_address_o, port * 28, 28), uint64_t(segment.address));
      for (unsigned b = 0; b < machine.dram.burstBytes; ++b) {
        const bool written = bits(model.wr_mask_o, port * machine.dram.burstBytes + b, 1);
        ASSERT_EQ(written, b < segment.length);
        if (written)
          scratchpad[bits(model.wr_memory_o, port * 3, 3)].at(size_t(segment.address) + b) =
              uint8_t(bits(model.wr_data_o, (port * machine.dram.burstBytes + b) * 8, 8));
      }
    }
    movedBefore[u] = cycle.moved;
  }
  for (unsigned u = 0; u < machine.storeEngines; ++u) {
    const DmaReference::StoreCycle &cycle = expected.stores[u];
    SCOPED_TRACE("store " + std::to_string(u));
    EXPECT_EQ(bits(model.store_ready_o, u, 1), cycle.ready);
    EXPECT_EQ(bits(model.store_retire_o, u, 1), cycle.retire);
    EXPECT_EQ(bits(model.store_busy_o, u, 1), cycle.busy);
    if (!cycle.busy) {
      EXPECT_EQ(bits(model.store_setup_o, u, 1), cycle.setup);
      EXPECT_EQ(bits(model.store_blocked_o, u, 1), cycle.blocked);
      counts.full += cycle.blocked;
    }
    EXPECT_EQ(bits(model.accept_o, u * p, p), (1ull << cycle.accepted) - 1);
    EXPECT_EQ(bits(model.rd_valid_o, u * p, p), (1ull << cycle.gathered.size()) - 1);
    for (unsigned n = 0; n < p; ++n) {
      const unsigned port = u * p + n;
      std::vector<uint8_t> &data = readBefore[port];
      data.assign(128, uint8_t(random.in(0, 255)));
      if (n >= cycle.gathered.size())
        continue;
      const int64_t address = cycle.gathered[n].address;
      ASSERT_EQ(bits(model.rd_address_o, port * 28, 28), uint64_t(address));
      const std::vector<uint8_t> &bytes = scratchpad[bits(model.rd_memory_o, u * 3, 3)];
      for (size_t b = 0; b < data.size(); ++b)
        data[b] = size_t(address) + b < bytes.size() ? bytes[size_t(address) + b] : 0;
    }
  }
  EXPECT_EQ(bool(model.drained_o), expected.drained);
  uint64_t fetchReturns = 0, fetchGrants = 0;
  for (unsigned r = 0; r < reads[now].size(); ++r)
    fetchReturns |= uint64_t(reads[now][r].request.requester == DmaReference::kFetch) << r;
  for (const DmaRequest &request : expected.requests)
    fetchGrants = request.requester == DmaReference::kFetch ? fetchGrants << 1 | 1 : fetchGrants;
  EXPECT_EQ(uint64_t(model.fetch_rsp_valid_o), fetchReturns);
  EXPECT_EQ(uint64_t(model.fetch_grant_o), fetchGrants);
}

/// Requests as the edge has left them. The memory is that of the cycle of a request.
template <typename Model> void Bench<Model>::memory(const DmaReference::Outputs &expected) {
  const unsigned bytes = machine.dram.burstBytes;
  ASSERT_EQ(uint64_t(model.dram_req_valid_o), (1ull << expected.requests.size()) - 1);
  for (unsigned n = 0; n < expected.requests.size(); ++n) {
    const DmaRequest &request = expected.requests[n];
    const bool write = request.requester == DmaReference::kWrites;
    ASSERT_EQ(bits(model.dram_req_address_o, n * 40, 40), request.address);
    ASSERT_EQ(bits(model.dram_req_tag_o, n * 16, 16), uint64_t(request.requester) << 12 | request.slot);
    ASSERT_EQ(bool(model.dram_req_write_o), write);
    Completion &completion = (*open[n].calendar)[open[n].at][open[n].index];
    if (write) {
      ++counts.writes;
      for (unsigned b = 0; b < bytes; ++b)
        if (bits(model.dram_req_mask_o, n * bytes + b, 1))
          dram[request.address + b] = uint8_t(bits(model.dram_req_data_o, (n * bytes + b) * 8, 8));
      continue;
    }
    ++counts.reads;
    completion.data.assign(dram.begin() + long(request.address), dram.begin() + long(request.address + bytes));
    if (request.requester != DmaReference::kFetch)
      counts.forwarded += !std::equal(completion.data.begin(), completion.data.end(), golden.dram() + request.address);
  }
  open.clear();
}

template <typename Model> void Bench<Model>::run(unsigned boxes) {
  left = boxes;
  movedBefore.resize(machine.loadEngines);
  readsMailbox.resize(machine.loadEngines);
  readBefore.resize(size_t(machine.storeEngines) * machine.burstsPerCycle);
  dram.resize(machine.dram.capacityBytes);
  for (size_t i = 0; i < dram.size(); ++i)
    golden.dram()[i] = dram[i] = uint8_t(random.in(0, 255));
  for (unsigned m = 0; m < 2; ++m) {
    scratchpad[m].resize(16384);
    for (size_t i = 0; i < scratchpad[m].size(); ++i)
      golden.memory(m)[i] = scratchpad[m][i] = uint8_t(random.in(0, 255));
  }
  model.rst_ni = 0;
  for (unsigned i = 0; i < 2; ++i) {
    model.clk_i = 0;
    model.eval();
    model.clk_i = 1;
    model.eval();
  }
  model.rst_ni = 1;
  model.clk_i = 0;
  for (Cycle quiet = 0; quiet < 5; ++now) {
    ASSERT_LT(now, 100000u) << "does not end";
    if (now % 512 == 0) {
      latency = random.in(1, 60);
      startChance = unsigned(random.in(1, 100));
      fetchChance = unsigned(random.in(0, 60));
      mailboxChance = unsigned(random.in(0, 100));
    }
    std::vector<std::optional<isa::Load>> loadStarts(machine.loadEngines), storeStarts(machine.storeEngines);
    for (unsigned u = 0; u < machine.storeEngines; ++u)
      storeStarts[u] = nextStore(u);
    for (unsigned u = 0; u < machine.loadEngines; ++u)
      loadStarts[u] = nextLoad(u);
    std::vector<uint64_t> fetch;
    if (random.chance(fetchChance))
      for (int64_t n = random.in(1, machine.burstsPerCycle); n > 0; --n)
        fetch.push_back(uint64_t(random.in(0, 1000)) * machine.dram.burstBytes);
    drive(loadStarts, storeStarts, fetch);
    const DmaReference::Outputs expected = reference.step(loadStarts, storeStarts, fetch);
    model.eval();
    ASSERT_NO_FATAL_FAILURE(compare(expected));
    model.clk_i = 1;
    model.eval();
    ASSERT_NO_FATAL_FAILURE(memory(expected));
    model.clk_i = 0;
    for (unsigned u = 0; u < machine.loadEngines; ++u)
      if (expected.loads[u].retire)
        readsMailbox[u].pop_front();
    for (unsigned u = 0; u < machine.storeEngines; ++u)
      storesInFlight -= expected.stores[u].retire;
    reads.erase(now);
    writes.erase(now);
    if (::testing::Test::HasFailure())
      FAIL() << "in cycle " << now;
    quiet = left <= 0 && reference.idle() ? quiet + 1 : 0;
  }
  counts.cycles += now;
  EXPECT_TRUE(std::equal(dram.begin(), dram.end(), golden.dram()));
  for (unsigned m = 0; m < 2; ++m)
    EXPECT_TRUE(std::equal(scratchpad[m].begin(), scratchpad[m].end(), golden.memory(m)));
}

template <typename Model> void runSeeds(const std::string &machine) {
  Counts sum;
  for (unsigned seed = 1; seed <= 16 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Bench<Model> bench(machine, seed);
    bench.run(150);
    sum.loads += bench.counts.loads;
    sum.stores += bench.counts.stores;
    sum.reads += bench.counts.reads;
    sum.writes += bench.counts.writes;
    sum.forwarded += bench.counts.forwarded;
    sum.cycles += bench.counts.cycles;
    sum.full += bench.counts.full;
  }
  std::printf("%s: %llu loads, %llu stores, %llu reads (%llu with newer bytes in the write buffer), %llu writes, %llu cycles, "
              "%llu with a full write buffer\n",
              machine.c_str(), (unsigned long long)sum.loads, (unsigned long long)sum.stores, (unsigned long long)sum.reads,
              (unsigned long long)sum.forwarded, (unsigned long long)sum.writes, (unsigned long long)sum.cycles,
              (unsigned long long)sum.full);
  EXPECT_GT(sum.loads, 500u);
  EXPECT_GT(sum.stores, 100u);
  EXPECT_GT(sum.forwarded, 5u);
  EXPECT_GT(sum.full, 20u);
}

TEST(RtlDmaTest, OneBurstPerCycleFollowsTheRules) { runSeeds<Vnarrow>("narrow"); }
TEST(RtlDmaTest, SeveralBurstsPerCycleFollowTheRules) { runSeeds<Vwide>("wide"); }

} // namespace
