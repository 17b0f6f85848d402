//===- DmaReference.cpp - The rules of DMA, one cycle at a time -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/rtl/dma/DmaReference.h"

#include "isa/timing/Dram.h"

#include <algorithm>

using namespace tw;
using namespace tw::test;

std::vector<DmaSegment> test::cutBox(const isa::Load &box, uint32_t burstBytes) {
  std::vector<DmaSegment> segments;
  const int64_t bytes = int64_t(1) << box.element_log2;
  std::optional<uint64_t> open;
  auto fills = [&](int64_t address, int64_t count) {
    for (int64_t done = 0; done < count * bytes; done += burstBytes) {
      DmaSegment segment;
      segment.fill = true;
      segment.address = address + done;
      segment.length = uint32_t(std::min<int64_t>(burstBytes, count * bytes - done));
      segments.push_back(segment);
    }
  };
  std::array<int64_t, 5> i{};
  for (i[4] = 0; i[4] < box.counts[4]; ++i[4])
    for (i[3] = 0; i[3] < box.counts[3]; ++i[3])
      for (i[2] = 0; i[2] < box.counts[2]; ++i[2])
        for (i[1] = 0; i[1] < box.counts[1]; ++i[1]) {
          int64_t address = box.address, dram = box.dram_address;
          bool inside = box.low[0] + box.high[0] < box.counts[0];
          for (unsigned d = 1; d < 5; ++d) {
            inside &= box.low[d] <= i[d] && i[d] < box.counts[d] - box.high[d];
            address += i[d] * box.strides[d - 1];
            dram += (i[d] - box.low[d]) * box.dram_strides[d - 1];
          }
          if (!inside) {
            fills(address, box.counts[0]);
            continue;
          }
          fills(address, box.low[0]);
          address += box.low[0] * bytes;
          const int64_t count = (box.counts[0] - box.low[0] - box.high[0]) * bytes;
          for (int64_t done = 0; done < count;) {
            DmaSegment segment;
            const uint64_t from = uint64_t(dram + (box.broadcast ? 0 : done));
            segment.burst = from / burstBytes * burstBytes;
            segment.offset = uint32_t(from % burstBytes);
            segment.length =
                uint32_t(std::min<int64_t>(count - done, int64_t(burstBytes) - (box.broadcast ? 0 : segment.offset)));
            segment.address = address + done;
            segment.opens = open != segment.burst;
            open = segment.burst;
            segments.push_back(segment);
            done += segment.length;
          }
          fills(address + count, box.high[0]);
        }
  bool inBurst = false;
  for (size_t s = 0; s < segments.size(); ++s) {
    inBurst |= segments[s].opens;
    segments[s].last = s + 1 == segments.size();
    segments[s].closes = inBurst && (segments[s].last || segments[s + 1].opens);
  }
  return segments;
}

DmaReference::DmaReference(const timing::MachineParams &machine,
                           std::function<timing::Cycle(const DmaRequest &, timing::Cycle)> completion)
    : machine(machine), completion(std::move(completion)), loads(machine.loadEngines), stores(machine.storeEngines) {}

bool DmaReference::idle() const {
  for (const Load &load : loads)
    if (load.inFlight)
      return false;
  for (const Store &store : stores)
    if (store.inFlight)
      return false;
  return buffer.empty();
}

/// Passes segments up to the next burst that must be asked for.
void DmaReference::pass(Load &load) {
  while (load.slotsLeft && now >= load.from && !load.walk.empty() && !load.walk.front().opens) {
    --load.slotsLeft;
    if (load.walk.front().last)
      load.issueFree = now + 1;
    load.walk.pop_front();
  }
}

bool DmaReference::wants(unsigned requester, const std::vector<uint64_t> &fetch) const {
  if (requester == kFetch)
    return fetched < fetch.size();
  if (requester == kWrites) {
    for (const Write &write : buffer)
      if (!write.requested)
        return write.accepted < now;
    return false;
  }
  const Load &load = loads[requester];
  return load.slotsLeft && now >= load.from && !load.walk.empty() && load.requested - load.freed < machine.outstandingBursts;
}

uint64_t DmaReference::nextAddress(unsigned requester, const std::vector<uint64_t> &fetch) const {
  if (requester == kFetch)
    return fetch[fetched];
  if (requester == kWrites) {
    for (const Write &write : buffer)
      if (!write.requested)
        return write.address;
  }
  return loads[requester].walk.front().burst;
}

DmaReference::Outputs DmaReference::step(const std::vector<std::optional<isa::Load>> &loadStarts,
                                         const std::vector<std::optional<isa::Load>> &storeStarts,
                                         const std::vector<uint64_t> &fetch) {
  const uint32_t width = machine.burstsPerCycle;
  const timing::DramParams &dram = machine.dram;
  Outputs out;
  out.loads.resize(loads.size());
  out.stores.resize(stores.size());
  fetched = 0;

  // Retirements and starts.
  auto retire = [&](auto &engine) {
    if (engine.retirements.empty() || engine.retirements.front() > now)
      return false;
    engine.retirements.pop_front();
    --engine.inFlight;
    return true;
  };
  for (unsigned u = 0; u < loads.size(); ++u) {
    Load &load = loads[u];
    out.loads[u].ready = load.issueFree <= now;
    out.loads[u].retire = retire(load);
    load.requestedNow = false;
    load.slotsLeft = width;
    if (!loadStarts[u])
      continue;
    ++load.inFlight;
    load.issueFree = ~0ull;
    load.from = now + machine.timing.dma_setup_cycles;
    bool leading = true;
    for (const DmaSegment &segment : cutBox(*loadStarts[u], dram.burstBytes)) {
      load.walk.push_back(segment);
      leading &= !segment.opens;
      load.cut += segment.opens;
      load.moves.push_back({segment, leading ? 0 : load.cut - 1, leading, load.from});
    }
  }
  for (unsigned u = 0; u < stores.size(); ++u) {
    Store &store = stores[u];
    out.stores[u].ready = store.issueFree <= now;
    out.stores[u].retire = retire(store);
    store.acceptedBefore = store.accepted;
    if (!storeStarts[u])
      continue;
    ++store.inFlight;
    store.issueFree = ~0ull;
    store.from = now + machine.timing.dma_setup_cycles;
    for (const DmaSegment &segment : cutBox(*storeStarts[u], dram.burstBytes))
      store.segments.push_back(segment);
  }
  for (Load &load : loads)
    pass(load);

  // The port.
  while (!buffer.empty() && buffer.front().done <= now)
    buffer.pop_front();
  out.drained = buffer.empty();
  reads.erase(std::remove_if(reads.begin(), reads.end(), [&](Cycle done) { return done < now; }), reads.end());
  struct Asking {
    unsigned requester;
    bool asks;
  };
  std::vector<Asking> order = {{kWrites, draining && wants(kWrites, fetch)}};
  for (unsigned u = 0; u < loads.size(); ++u)
    order.push_back({u, wants(u, fetch)});
  order.push_back({kFetch, wants(kFetch, fetch)});
  order.push_back({kWrites, reads.empty() && wants(kWrites, fetch)});
  int choice = -1;
  size_t first = 0;
  const bool again = holder >= 0 && order[size_t(holder)].asks;
  if (again && held < dram.grantBursts) {
    choice = holder;
  } else {
    held = 0;
    if (again)
      first = size_t(holder) + 1;
    for (size_t i = 0; i < order.size() && choice < 0; ++i)
      if (order[(first + i) % order.size()].asks)
        choice = int((first + i) % order.size());
  }
  holder = choice >= 0 && size_t(choice) + 1 < order.size() ? choice : -1;
  if (choice >= 0) {
    const unsigned who = order[size_t(choice)].requester;
    std::vector<bool> used(dram.channels, false);
    for (uint32_t n = 0; n < width && wants(who, fetch); ++n) {
      DmaRequest request;
      request.requester = who;
      request.address = nextAddress(who, fetch);
      if (used[channelOf(request.address)])
        break;
      used[channelOf(request.address)] = true;
      ++held;
      Write *write = nullptr;
      if (who == kFetch) {
        request.slot = fetched++;
      } else if (who == kWrites) {
        for (Write &entry : buffer)
          if (!entry.requested && !write)
            write = &entry;
        write->requested = true;
        request.slot = write->number % dram.writeBufferBursts;
      } else {
        request.slot = loads[who].requested % machine.outstandingBursts;
      }
      const Cycle done = completion(request, now);
      out.requests.push_back(request);
      if (write) {
        write->done = done;
        continue;
      }
      reads.push_back(done);
      if (who == kFetch)
        continue;
      Load &load = loads[who];
      load.requestedNow = true;
      ++load.requested;
      load.returned.push_back(std::max(done, load.returned.empty() ? 0 : load.returned.back()));
      --load.slotsLeft;
      if (load.walk.front().last)
        load.issueFree = now + 1;
      load.walk.pop_front();
      pass(load);
    }
  }
  uint32_t accepts = 0;
  for (unsigned u = 0; u < stores.size(); ++u) {
    Store &store = stores[u];
    while (!store.offers.empty() && store.offers.front().second <= now && buffer.size() < dram.writeBufferBursts &&
           accepts < width) {
      ++accepts;
      ++out.stores[u].accepted;
      Write write;
      write.address = store.offers.front().first;
      write.number = writeCount++;
      write.accepted = now;
      buffer.push_back(write);
      store.offers.pop_front();
      ++store.accepted;
      if (store.offers.empty() && store.segments.empty()) {
        store.issueFree = now + 1;
        store.retirements.push_back(now + machine.timing.dma_drain_cycles);
      }
    }
  }
  uint32_t waiting = 0;
  for (const Write &write : buffer)
    waiting += !write.requested;
  const timing::Watermarks marks = timing::portWatermarks(dram);
  if (waiting >= marks.high)
    draining = true;
  else if (waiting <= marks.low)
    draining = false;

  // Scratchpad sides.
  for (unsigned u = 0; u < loads.size(); ++u) {
    Load &load = loads[u];
    LoadCycle &cycle = out.loads[u];
    for (uint32_t n = 0; n < width && !load.moves.empty(); ++n) {
      const Load::Move &move = load.moves.front();
      if (move.leading ? move.notBefore > now : move.burst >= load.returned.size() || load.returned[move.burst] >= now)
        break;
      load.freed += move.segment.closes;
      if (move.segment.last) {
        const Cycle before = load.retirements.empty() ? 0 : load.retirements.back();
        load.retirements.push_back(std::max(now + machine.timing.dma_drain_cycles, before + 1));
      }
      cycle.moved.push_back(move.segment);
      load.moves.pop_front();
    }
    cycle.busy = load.requestedNow || !cycle.moved.empty();
    cycle.wait = !cycle.busy && !load.moves.empty();
    if (cycle.wait) {
      cycle.latency = load.moves.front().segment.fill;
      cycle.channel = channelOf(load.moves.front().segment.burst);
    }
  }
  for (unsigned u = 0; u < stores.size(); ++u) {
    Store &store = stores[u];
    StoreCycle &cycle = out.stores[u];
    cycle.busy = cycle.accepted != 0;
    for (uint32_t n = 0; n < width && !store.segments.empty() && now >= store.from; ++n) {
      if (store.gathered >= store.acceptedBefore + machine.outstandingBursts)
        break;
      const DmaSegment segment = store.segments.front();
      store.segments.pop_front();
      cycle.busy = true;
      cycle.gathered.push_back(segment);
      if (segment.closes) {
        ++store.gathered;
        store.offers.push_back({segment.burst, now + 1});
      }
    }
    cycle.setup = !store.segments.empty() && now < store.from;
    cycle.blocked = !store.offers.empty() && store.offers.front().second <= now;
  }
  ++now;
  return out;
}
