//===- Copies.cpp - Asynchronous copies ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Asynchronous copies: cp.async, cp.async.bulk and cp.async.bulk.tensor (TMA), their groups, and what they do when they land.
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Decoder.h"

#include <algorithm>

using namespace tw::ptxemu;

// ---- Bulk copies to shared memory -----------------------------------------------------------------------------------------

void Grid::issue(Cta &cta, uint32_t address, BulkCopy copy) {
  MBarrier &barrier = mbarrierAt(cta, address);
  if (barrierFences[barrier.initializer] == barrier.initializerFences)
    fail(
        ErrorKind::Proxy,
        "uses the mbarrier at 0x%x before the thread that initialised it has executed fence.mbarrier_init or fence.proxy.async",
        address);
  cta.shared.checkAsyncWrite(copy.destination, copy.bytes, [this](uint32_t thread) { return sharedFences[thread]; });
  cta.shared.beginCopy(copy.destination, copy.bytes);
  barrier.copies.push_back(std::move(copy));
  ++progress;
  if (early())
    deliverOne(cta, barrier, address);
}

bool Grid::deliverOne(Cta &cta, MBarrier &barrier, uint32_t address) {
  if (!barrier.copies.empty()) {
    // Copies land in any order.
    const size_t index = options.order == ThreadOrder::Random ? random() % barrier.copies.size() : 0;
    const BulkCopy copy = std::move(barrier.copies[index]);
    barrier.copies.erase(barrier.copies.begin() + long(index));
    try {
      deliver(cta, barrier, address, copy);
    } catch (const Error &error) {
      throw Error(error.kind, "the copy of line " + std::to_string(copy.instruction->line) + " `" + copy.instruction->text +
                                  "`: " + error.what());
    }
    return true;
  }
  if (!barrier.copyArrivals.empty()) {
    const MBarrier::CopyArrival arrival = barrier.copyArrivals.front();
    barrier.copyArrivals.pop_front();
    Thread &thread = *arrival.thread;
    for (auto &group : thread.copyGroups)
      while (!group.empty() && thread.copiesDone < arrival.copies) {
        doCopy(thread, group.front());
        group.erase(group.begin());
      }
    while (!thread.openCopies.empty() && thread.copiesDone < arrival.copies) {
      doCopy(thread, thread.openCopies.front());
      thread.openCopies.erase(thread.openCopies.begin());
    }
    arrive(barrier, address, 1, 0);
    return true;
  }
  return false;
}

void Grid::deliver(Cta &cta, MBarrier &barrier, uint32_t address, const BulkCopy &copy) {
  cta.shared.endCopy(copy.destination, copy.bytes);
  if (copy.map.rank == 0) {
    if (copy.sourceCta) {
      SharedMemory &from = copy.sourceCta->shared;
      from.endRead(uint32_t(copy.source), copy.bytes);
      const uint32_t begin = uint32_t(copy.source) - sharedBase;
      cta.shared.deliver(copy.destination, copy.bytes, from.bytes.data() + begin, from.initialized.data() + begin);
    } else {
      const GlobalMemory::Allocation &allocation = asyncRead(copy.source, copy.bytes);
      const uint64_t offset = copy.source & 0xffffffffu;
      cta.shared.deliver(copy.destination, copy.bytes, allocation.bytes.data() + offset,
                         allocation.initialized.data() + offset);
    }
  } else {
    const TensorMap &map = copy.map;
    const uint32_t rowBytes = map.rowBytes(), bytes = bytesOf(map.type);
    std::vector<uint8_t> values(rowBytes), defined(rowBytes);
    map.forEachRow(copy.coordinates, copy.im2colOffsets, [&](uint32_t index, const TensorMap::Row &row) {
      const uint32_t first = row.firstValid * bytes, size = (row.endValid - row.firstValid) * bytes;
      std::fill(values.begin(), values.end(), uint8_t(0)); // what lies outside the tensor
      std::fill(defined.begin(), defined.end(), uint8_t(1));
      if (size) {
        const GlobalMemory::Allocation &allocation = asyncRead(row.address, size);
        const uint64_t offset = row.address & 0xffffffffu;
        std::copy_n(allocation.bytes.begin() + long(offset), size, values.begin() + first);
        std::copy_n(allocation.initialized.begin() + long(offset), size, defined.begin() + first);
      }
      for (uint32_t i = 0; i < rowBytes; i += 16)
        cta.shared.deliver(swizzled(copy.destination + index * rowBytes + i, map.swizzle), 16, &values[i], &defined[i]);
    });
  }
  arrive(barrier, address, 0, -int64_t(copy.bytes));
}

static const TensorMap &mapOf(Thread &thread, const BulkForm &form) {
  const uint64_t address = thread.read(form.map) + uint64_t(form.mapOffset);
  Grid &grid = thread.cta->grid;
  const uint8_t *bytes = nullptr;
  if (address % 64)
    fail(ErrorKind::Misaligned, "the tensor map at 0x%llx is no multiple of 64", (unsigned long long)address);
  if ((address & windowMask) == paramWindow) {
    const uint64_t offset = address & ~windowMask;
    if (offset + 128 <= grid.parameters.size())
      bytes = grid.parameters.data() + offset;
  } else if ((address & windowMask) == 0 && address >= (moduleVariableBase << 32)) {
    bytes = grid.memory.find(address, 128, "tensor map").bytes.data() + (address & 0xffffffffu);
  }
  const TensorMap *map = bytes ? grid.device.decode(bytes) : nullptr;
  if (!map)
    fail(ErrorKind::OutOfBounds,
         "there is no tensor map at generic address 0x%llx: it must be a __grid_constant__ parameter (generic address by "
         "cvta.param) or "
         "lie in global memory",
         (unsigned long long)address);
  if (form.coordinates.size() != map->rank)
    fail(ErrorKind::Launch, "%zu coordinates for a tensor map of rank %u", form.coordinates.size(), map->rank);
  if (form.im2col != map->im2col)
    fail(ErrorKind::Launch, "%s instruction with %s tensor map", form.im2col ? "an im2col" : "a tiled",
         map->im2col ? "an im2col" : "a tiled");
  return *map;
}

template <typename Operation> static void readCoordinates(Thread &thread, const BulkForm &form, Operation &operation) {
  for (size_t i = 0; i < form.coordinates.size(); ++i)
    operation.coordinates[i] = int32_t(thread.read(form.coordinates[i]));
}

/// A CTA may not load what earlier kernels still write.
static void checkMapDependency(Thread &thread, const TensorMap &map, const BulkCopy &copy) {
  Grid &grid = thread.cta->grid;
  if (!grid.options.programmatic || thread.cta->dependencyWaited)
    return;
  const uint32_t bytes = bytesOf(map.type);
  map.forEachRow(copy.coordinates, copy.im2colOffsets, [&](uint32_t, const TensorMap::Row &row) {
    if (const uint32_t size = (row.endValid - row.firstValid) * bytes)
      grid.checkDependency(thread, grid.memory.find(row.address, size, "asynchronous load"), row.address, size, false);
  });
}

static Step bulkLoad(Thread &thread, const Instruction &instruction) {
  const auto &form = std::get<BulkForm>(instruction.form);
  Grid &grid = thread.cta->grid;
  BulkCopy copy{};
  copy.instruction = &instruction;
  copy.map.rank = 0;
  if (form.tensor) {
    copy.map = mapOf(thread, form);
    readCoordinates(thread, form, copy);
    for (size_t i = 0; i < form.im2colOffsets.size(); ++i)
      copy.im2colOffsets[i] = uint16_t(thread.read(form.im2colOffsets[i]));
    copy.bytes = copy.map.boxBytes();
    checkMapDependency(thread, copy.map, copy);
  } else {
    copy.bytes = uint32_t(thread.read(form.size));
    copy.source = thread.read(form.source) + uint64_t(form.sourceOffset);
    if (copy.bytes == 0 || copy.bytes % 16 || copy.source % 16)
      fail(ErrorKind::Misaligned, "a bulk copy of %u bytes from 0x%llx; both must be multiples of 16", copy.bytes,
           (unsigned long long)copy.source);
    if (form.direction == BulkForm::SharedToShared) {
      uint32_t local;
      copy.sourceCta = &grid.ctaOf(thread, uint32_t(copy.source), local);
      if (copy.sourceCta != thread.cta)
        fail(ErrorKind::OutOfBounds, "a bulk copy must read the shared memory of its own CTA");
      copy.source = local;
      copy.sourceCta->shared.checkAsyncRead(local, copy.bytes, [&](uint32_t t) { return grid.sharedFences[t]; });
      copy.sourceCta->shared.beginRead(local, copy.bytes);
    } else {
      grid.checkDependency(thread, grid.memory.find(copy.source, copy.bytes, "asynchronous load"), copy.source, copy.bytes,
                           false);
    }
  }
  uint32_t barrier;
  Cta &target =
      grid.ctaOf(thread, uint32_t(thread.read(form.destination) + uint64_t(form.destinationOffset)), copy.destination);
  Cta &barrierCta = grid.ctaOf(thread, uint32_t(thread.read(form.barrier) + uint64_t(form.barrierOffset)), barrier);
  const uint32_t alignment = form.tensor ? 128 : 16;
  if (copy.destination % alignment)
    fail(ErrorKind::Misaligned, "the destination 0x%x is no multiple of %u", copy.destination, alignment);
  if (&barrierCta != &target)
    fail(ErrorKind::Barrier, "the mbarrier lies in another CTA than the destination");
  if (!form.multicast) {
    grid.issue(target, barrier, copy);
    return Step::Next;
  }
  const Cluster &cluster = *thread.cta->cluster;
  const uint32_t mask = uint32_t(thread.read(form.mask)) & 0xffff;
  if (mask == 0 || mask >> cluster.ctas.size())
    fail(ErrorKind::OutOfBounds, "multicast to the CTAs 0x%x of a cluster of %zu", mask, cluster.ctas.size());
  for (const auto &cta : cluster.ctas)
    if (mask >> cta->rank & 1) {
      if (cta->live == 0)
        fail(ErrorKind::InFlight, "multicast to CTA %u of the cluster, which has exited", cta->rank);
      grid.issue(*cta, barrier, copy);
    }
  return Step::Next;
}

// ---- Bulk copies to global memory -----------------------------------------------------------------------------------------

void Grid::readStore(Cta &cta, BulkStore &store) {
  if (store.read)
    return;
  store.read = true;
  cta.shared.endRead(store.source, store.bytes);
  const uint8_t *from = cta.shared.at(store.source);
  store.values.assign(from, from + store.bytes);
  ++progress;
}

static void combineElement(Type type, BulkForm::Reduction reduction, uint8_t *at, const uint8_t *value) {
  auto apply = [&](auto a, auto b) {
    return reduction == BulkForm::Add ? decltype(a)(a + b) : reduction == BulkForm::Min ? std::min(a, b) : std::max(a, b);
  };
  auto typed = [&](auto sample) {
    decltype(sample) a, b;
    std::memcpy(&a, at, sizeof a);
    std::memcpy(&b, value, sizeof b);
    a = apply(a, b);
    std::memcpy(at, &a, sizeof a);
  };
  uint16_t a, b;
  switch (type) {
  case Type::F32:
    return typed(float());
  case Type::F64:
    return typed(double());
  case Type::S32:
    return typed(int32_t());
  case Type::S64:
    return typed(int64_t());
  case Type::U32:
  case Type::B32:
    return typed(uint32_t());
  case Type::U64:
  case Type::B64:
    return typed(uint64_t());
  case Type::F16:
  case Type::BF16: {
    std::memcpy(&a, at, 2);
    std::memcpy(&b, value, 2);
    const bool half = type == Type::F16;
    const float result = apply(half ? halfToFloat(a) : bfloatToFloat(a), half ? halfToFloat(b) : bfloatToFloat(b));
    a = half ? floatToHalf(result) : floatToBfloat(result);
    std::memcpy(at, &a, 2);
    return;
  }
  default:
    fail(ErrorKind::Unsupported, "a reduction of this element type");
  }
}

void Grid::writeStore(BulkStore &store) {
  if (store.written)
    return;
  store.written = true;
  const auto &form = std::get<BulkForm>(store.instruction->form);
  const Type type = store.map.rank ? store.map.type : form.type;
  auto put = [&](uint64_t address, const uint8_t *values, uint32_t size) {
    if (form.reduction != BulkForm::None)
      memory.checkInitialized(memory.find(address, size, "reduction"), address, size);
    uint8_t *to = asyncWrite(address, size);
    if (form.reduction == BulkForm::None)
      std::copy_n(values, size, to);
    else
      for (uint32_t i = 0; i < size; i += bytesOf(type))
        combineElement(type, form.reduction, to + i, values + i);
  };
  if (store.map.rank == 0)
    return put(store.destination, store.values.data(), store.bytes);
  const uint32_t rowBytes = store.map.rowBytes(), bytes = bytesOf(type);
  std::vector<uint8_t> values(rowBytes);
  store.map.forEachRow(store.coordinates, nullptr, [&](uint32_t index, const TensorMap::Row &row) {
    const uint32_t size = (row.endValid - row.firstValid) * bytes;
    if (!size)
      return;
    for (uint32_t i = 0; i < rowBytes; i += 16) {
      const uint32_t at = swizzled(store.source + index * rowBytes + i, store.map.swizzle) - store.source;
      std::copy_n(store.values.begin() + at, 16, values.begin() + i);
    }
    put(row.address, values.data() + row.firstValid * bytes, size);
  });
}

static Step bulkStore(Thread &thread, const Instruction &instruction) {
  const auto &form = std::get<BulkForm>(instruction.form);
  Grid &grid = thread.cta->grid;
  BulkStore store{};
  store.instruction = &instruction;
  store.map.rank = 0;
  uint32_t local;
  Cta &cta = grid.ctaOf(thread, uint32_t(thread.read(form.source) + uint64_t(form.sourceOffset)), local);
  if (&cta != thread.cta)
    fail(ErrorKind::OutOfBounds, "a bulk store must read the shared memory of its own CTA");
  store.source = local;
  if (form.tensor) {
    store.map = mapOf(thread, form);
    readCoordinates(thread, form, store);
    store.bytes = store.map.boxBytes();
    store.map.forEachRow(store.coordinates, nullptr, [&](uint32_t, const TensorMap::Row &row) {
      if (const uint32_t size = (row.endValid - row.firstValid) * bytesOf(store.map.type))
        grid.checkDependency(thread, grid.memory.find(row.address, size, "asynchronous store"), row.address, size, true);
    });
  } else {
    store.bytes = uint32_t(thread.read(form.size));
    store.destination = thread.read(form.destination) + uint64_t(form.destinationOffset);
    if (store.bytes == 0 || store.bytes % 16 || store.destination % 16)
      fail(ErrorKind::Misaligned, "a bulk store of %u bytes to 0x%llx; both must be multiples of 16", store.bytes,
           (unsigned long long)store.destination);
    grid.checkDependency(thread, grid.memory.find(store.destination, store.bytes, "asynchronous store"), store.destination,
                         store.bytes, true);
  }
  const uint32_t alignment = form.tensor ? 128 : 16;
  if (local % alignment)
    fail(ErrorKind::Misaligned, "the source 0x%x is no multiple of %u", local, alignment);
  cta.shared.checkAsyncRead(local, store.bytes, [&](uint32_t t) { return grid.sharedFences[t]; });
  cta.shared.beginRead(local, store.bytes);
  ++grid.progress;
  if (grid.early()) {
    grid.readStore(cta, store);
    grid.writeStore(store);
  }
  thread.openBulkGroup.push_back(std::move(store));
  return Step::Next;
}

static Step bulkCommit(Thread &thread, const Instruction &) {
  thread.bulkGroups.push_back(std::move(thread.openBulkGroup));
  thread.openBulkGroup.clear();
  return Step::Next;
}

/// in[0]: groups that may stay; simple.flag: they need to have read only.
static Step bulkWait(Thread &thread, const Instruction &instruction) {
  Grid &grid = thread.cta->grid;
  const uint64_t keep = instruction.in[0].value;
  std::vector<BulkGroup> &groups = thread.bulkGroups;
  for (size_t i = 0; i + keep < groups.size(); ++i)
    for (BulkStore &store : groups[i]) {
      grid.readStore(*thread.cta, store);
      if (!instruction.simple.flag)
        grid.writeStore(store);
    }
  // Groups that are complete are forgotten, from the oldest on.
  while (groups.size() > keep && std::all_of(groups.front().begin(), groups.front().end(),
                                             [](const BulkStore &store) { return store.read && store.written; }))
    groups.erase(groups.begin());
  return Step::Next;
}

void Grid::deliverRandom(Cluster &cluster) {
  Cta &cta = *cluster.ctas[random() % cluster.ctas.size()];
  if (!cta.mbarriers.empty()) {
    auto entry = cta.mbarriers.begin();
    std::advance(entry, random() % cta.mbarriers.size());
    if (!entry->second.copies.empty() || !entry->second.copyArrivals.empty())
      deliverOne(cta, entry->second, entry->first);
  }
  Thread &thread = cta.threads[random() % cta.threads.size()];
  for (BulkGroup &group : thread.bulkGroups)
    for (BulkStore &store : group)
      if (!store.read && random() % 2)
        readStore(cta, store);
}

// ---- cp.async -------------------------------------------------------------------------------------------------------------

void Grid::doCopy(Thread &thread, const SmallCopy &copy) {
  Cta &cta = *thread.cta;
  cta.shared.endCopy(copy.destination, copy.bytes);
  uint8_t values[16] = {};
  if (copy.sourceBytes)
    std::memcpy(values, globalRead(thread, copy.source, copy.sourceBytes), copy.sourceBytes);
  std::memcpy(cta.shared.write(copy.destination, copy.bytes, thread.accessor()), values, copy.bytes);
  ++thread.copiesDone;
  ++progress;
}

static Step smallCopy(Thread &thread, const Instruction &instruction) {
  const auto &form = std::get<BulkForm>(instruction.form);
  Grid &grid = thread.cta->grid;
  SmallCopy copy{};
  copy.bytes = uint32_t(form.size.value);
  copy.sourceBytes = copy.bytes;
  if (instruction.simple.mode == 1) // src-size: the rest is zeros
    copy.sourceBytes = uint32_t(thread.read(instruction.in[0]));
  else if (instruction.simple.mode == 2 && thread.read(instruction.in[0])) // ignore-src
    copy.sourceBytes = 0;
  if (copy.sourceBytes > copy.bytes)
    fail(ErrorKind::OutOfBounds, "copies %u bytes from a source of %u", copy.bytes, copy.sourceBytes);
  copy.source = thread.read(form.source) + uint64_t(form.sourceOffset);
  uint32_t local;
  Cta &cta = grid.ctaOf(thread, uint32_t(thread.read(form.destination) + uint64_t(form.destinationOffset)), local);
  copy.destination = local;
  if (&cta != thread.cta)
    fail(ErrorKind::OutOfBounds, "cp.async writes the shared memory of its own CTA only");
  if (copy.source % copy.bytes || local % copy.bytes)
    fail(ErrorKind::Misaligned, "copies %u bytes from 0x%llx to 0x%x; both must be multiples", copy.bytes,
         (unsigned long long)copy.source, local);
  if (copy.sourceBytes)
    grid.globalRead(thread, copy.source, copy.sourceBytes);
  cta.shared.write(local, copy.bytes, thread.accessor()); // checks
  std::fill_n(cta.shared.initialized.begin() + (local - sharedBase), copy.bytes, uint8_t(0));
  cta.shared.beginCopy(local, copy.bytes);
  ++thread.copiesIssued;
  thread.openCopies.push_back(copy);
  return Step::Next;
}

static Step copyCommit(Thread &thread, const Instruction &) {
  thread.copyGroups.push_back(std::move(thread.openCopies));
  thread.openCopies.clear();
  if (thread.cta->grid.early())
    thread.cta->grid.finishCopies(thread, 0);
  return Step::Next;
}

void Grid::finishCopies(Thread &thread, size_t keepGroups) {
  auto &groups = thread.copyGroups;
  while (groups.size() > keepGroups) {
    for (const SmallCopy &copy : groups.front())
      doCopy(thread, copy);
    groups.erase(groups.begin());
  }
}

static Step copyWait(Thread &thread, const Instruction &instruction) {
  if (instruction.simple.flag) // wait_all
    copyCommit(thread, instruction);
  thread.cta->grid.finishCopies(thread, instruction.in[0].value);
  return Step::Next;
}

// ---- Decoding -------------------------------------------------------------------------------------------------------------

static void decodeBulk(Decoder &decoder, bool reduce) {
  Instruction &instruction = decoder.instruction;
  if (decoder.take("commit_group")) {
    instruction.execute = bulkCommit;
    return;
  }
  if (decoder.take("wait_group")) {
    instruction.simple.flag = decoder.take("read");
    instruction.in[0].value = uint64_t(decoder.constant(0));
    instruction.execute = bulkWait;
    return;
  }
  BulkForm form{};
  form.tensor = decoder.take("tensor");
  if (decoder.take("prefetch")) { // to the L2 cache
    instruction.execute = [](Thread &, const Instruction &) { return Step::Next; };
    for (const char *word : {"1d", "2d", "3d", "4d", "5d", "L2", "global", "tile", "im2col", "L2::cache_hint"})
      decoder.take(word);
    return;
  }
  const int dimensions = form.tensor ? decoder.takeOneOf({"1d", "2d", "3d", "4d", "5d"}) + 1 : 0;
  form.im2col = decoder.take("im2col") || decoder.take("im2col_no_offs");
  decoder.take("tile");
  form.multicast = decoder.take("multicast::cluster");
  const bool hint = decoder.take("L2::cache_hint");
  const bool completes = decoder.take("mbarrier::complete_tx::bytes"), group = decoder.take("bulk_group");
  // The destination's state space stands before the source's.
  std::vector<std::string> spaces;
  for (const std::string &modifier : decoder.statement.modifiers)
    if (modifier == "global" || modifier == "shared::cluster" || modifier == "shared::cta") {
      spaces.push_back(modifier);
      decoder.take(modifier);
    }
  if (spaces.size() != 2 || completes == group)
    decoder.unsupported();
  const bool toGlobal = spaces[0] == "global", fromGlobal = spaces[1] == "global";
  form.direction = toGlobal ? BulkForm::SharedToGlobal : fromGlobal ? BulkForm::GlobalToShared : BulkForm::SharedToShared;
  if (toGlobal != group || (toGlobal && fromGlobal))
    decoder.unsupported("stores complete by .bulk_group, loads by .mbarrier::complete_tx::bytes");
  if (reduce) {
    const int operation = decoder.takeOneOf({"add", "min", "max"});
    if (operation < 0 || !toGlobal)
      decoder.unsupported("unknown reduction");
    form.reduction = BulkForm::Reduction(operation + 1);
    decoder.take("noftz");
    form.type = decoder.takeOptionalType();
  }
  size_t at = 0;
  auto takeMap = [&] {
    const Operand &operand = decoder.operand(at);
    form.map = decoder.base(at++, form.mapOffset);
    if (operand.elements.size() != 2 || operand.elements[1].kind != Operand::Vector ||
        operand.elements[1].elements.size() != size_t(dimensions))
      decoder.unsupported("expected " + std::to_string(dimensions) + " coordinates");
    form.coordinates = decoder.sources(operand.elements[1], Type::S32);
  };
  if (toGlobal) {
    if (form.tensor)
      takeMap();
    else
      form.destination = decoder.base(at++, form.destinationOffset);
    form.source = decoder.base(at++, form.sourceOffset);
    if (!form.tensor)
      form.size = decoder.source(at++, Type::U32);
    instruction.execute = bulkStore;
  } else {
    form.destination = decoder.base(at++, form.destinationOffset);
    if (form.tensor)
      takeMap();
    else
      form.source = decoder.base(at++, form.sourceOffset);
    if (!form.tensor)
      form.size = decoder.source(at++, Type::U32);
    form.barrier = decoder.base(at++, form.barrierOffset);
    if (form.im2col) {
      form.im2colOffsets = decoder.sources(decoder.operand(at++), Type::U16);
      if (form.im2colOffsets.size() != size_t(dimensions - 2))
        decoder.unsupported("expected " + std::to_string(dimensions - 2) + " im2col offsets");
    }
    if (form.multicast)
      form.mask = decoder.source(at++, Type::U16);
    instruction.execute = bulkLoad;
  }
  if (decoder.operandCount() != at + (hint ? 1 : 0))
    decoder.unsupported("it has " + std::to_string(decoder.operandCount()) + " operands");
  instruction.form = form;
}

static void decodeSmallCopy(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  if (decoder.take("commit_group")) {
    instruction.execute = copyCommit;
    return;
  }
  if (decoder.take("wait_group") || (instruction.simple.flag = decoder.take("wait_all"))) {
    if (!instruction.simple.flag)
      instruction.in[0].value = uint64_t(decoder.constant(0));
    instruction.execute = copyWait;
    return;
  }
  decoder.take("global");
  decoder.takeSpace();
  decoder.takeMemoryOrder();
  BulkForm form{};
  form.destination = decoder.base(0, form.destinationOffset);
  form.source = decoder.base(1, form.sourceOffset);
  form.size.value = uint64_t(decoder.constant(2));
  if (form.size.value != 4 && form.size.value != 8 && form.size.value != 16)
    decoder.unsupported("the size must be 4, 8 or 16");
  if (decoder.has(3)) {
    const Operand &extra = decoder.operand(3);
    const bool ignore = extra.kind == Operand::Register && decoder.kernel.registers[size_t(extra.reg)].type == Type::Pred;
    instruction.simple.mode = ignore ? 2 : 1;
    instruction.in[0] = decoder.source(3, Type::U32);
  }
  instruction.form = form;
  instruction.execute = smallCopy;
}

bool tw::ptxemu::decodeCopy(Decoder &decoder) {
  if (!decoder.is("cp"))
    return false;
  const bool reduce = decoder.take("reduce");
  if (!decoder.take("async"))
    decoder.unsupported();
  if (decoder.take("bulk"))
    decodeBulk(decoder, reduce);
  else
    decodeSmallCopy(decoder);
  return true;
}
