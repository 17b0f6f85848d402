//===- LoadStore.cpp - mov, cvta, mapa; loads, stores and atomics in every state space ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Decoder.h"

#include <algorithm>

using namespace tw::ptxemu;

namespace {

uint64_t addressOf(Thread &thread, const MemoryForm &form) { return thread.read(form.base) + uint64_t(form.offset); }

/// The space and the address within it that a generic address means.
Space resolve(Space space, uint64_t &address) {
  if (space == Space::Shared)
    address &= 0xffffffffu;
  if (space != Space::Generic)
    return space;
  const uint64_t window = address & windowMask;
  if (window == 0)
    return Space::Global;
  address &= ~windowMask;
  if (window == sharedWindow)
    return Space::Shared;
  if (window == localWindow)
    return Space::Local;
  if (window == paramWindow)
    return Space::Param;
  fail(ErrorKind::OutOfBounds, "0x%llx is no address", (unsigned long long)(address | window));
}

void checkAlignment(uint64_t address, uint32_t size) {
  if (address % size)
    fail(ErrorKind::Misaligned, "address 0x%llx is no multiple of the %u bytes of the access", (unsigned long long)address,
         size);
}

const uint8_t *readBytes(Thread &thread, Space space, uint64_t address, uint32_t size) {
  space = resolve(space, address);
  checkAlignment(address, size);
  Grid &grid = thread.cta->grid;
  switch (space) {
  case Space::Shared: {
    uint32_t local;
    return grid.ctaOf(thread, address, local).shared.read(local, size);
  }
  case Space::Param:
    if (address + size > grid.parameters.size())
      fail(ErrorKind::OutOfBounds, "loads byte %llu of %zu bytes of parameters", (unsigned long long)address,
           grid.parameters.size());
    return grid.parameters.data() + address;
  case Space::Local:
    if (address + size > thread.local.size())
      fail(ErrorKind::OutOfBounds, "loads byte %llu of %zu bytes of local memory", (unsigned long long)address,
           thread.local.size());
    if (std::count(thread.localInitialized.begin() + long(address), thread.localInitialized.begin() + long(address + size), 0))
      fail(ErrorKind::Uninitialized, "loads byte %llu of local memory, which nobody has written", (unsigned long long)address);
    return thread.local.data() + address;
  default:
    return grid.globalRead(thread, address, size);
  }
}

uint8_t *writeBytes(Thread &thread, Space space, uint64_t address, uint32_t size) {
  space = resolve(space, address);
  checkAlignment(address, size);
  Grid &grid = thread.cta->grid;
  switch (space) {
  case Space::Shared: {
    uint32_t local;
    Cta &cta = grid.ctaOf(thread, address, local);
    ++grid.progress;
    return cta.shared.write(local, size, thread.accessor());
  }
  case Space::Local:
    if (address + size > thread.local.size())
      fail(ErrorKind::OutOfBounds, "stores byte %llu of %zu bytes of local memory", (unsigned long long)address,
           thread.local.size());
    std::fill_n(thread.localInitialized.begin() + long(address), size, uint8_t(1));
    return thread.local.data() + address;
  case Space::Param:
  case Space::Const:
    fail(ErrorKind::OutOfBounds, "stores to memory that a kernel cannot write");
  default:
    return grid.globalWrite(thread, address, size);
  }
}

/// A loaded value in a register of `registerBits`: extended by its sign or by zeros.
uint64_t extended(uint64_t value, Type type, unsigned registerBits) {
  return isSigned(type) ? zeroExtend(uint64_t(signExtend(value, bitsOf(type))), registerBits) : value;
}

Step load(Thread &thread, const Instruction &instruction) {
  const auto &form = std::get<MemoryForm>(instruction.form);
  const uint32_t bytes = bytesOf(form.type), count = uint32_t(instruction.destinations.size());
  const uint64_t address = addressOf(thread, form);
  const uint8_t *values = readBytes(thread, form.space, address, bytes * count);
  if (form.readOnly)
    thread.cta->grid.checkReadOnly(address, bytes * count);
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t value = 0;
    std::memcpy(&value, values + i * bytes, bytes);
    thread.write(instruction.destinations[i], extended(value, form.type, instruction.destinationBits));
  }
  return Step::Next;
}

Step store(Thread &thread, const Instruction &instruction) {
  const auto &form = std::get<MemoryForm>(instruction.form);
  const uint32_t bytes = bytesOf(form.type), count = uint32_t(instruction.sources.size());
  uint64_t values[8];
  for (uint32_t i = 0; i < count; ++i)
    values[i] = thread.read(instruction.sources[i]);
  uint8_t *to = writeBytes(thread, form.space, addressOf(thread, form), bytes * count);
  for (uint32_t i = 0; i < count; ++i)
    std::memcpy(to + i * bytes, &values[i], bytes);
  return Step::Next;
}

// ---- Atomics ----

enum AtomicOperation { Add, Min, Max, And, Or, Xor, Exchange, CompareAndSwap, Increment, Decrement };

uint64_t combineInteger(int operation, Type type, uint64_t old, uint64_t b, uint64_t c) {
  const unsigned bits = bitsOf(type);
  const bool less = isSigned(type) ? signExtend(b, bits) < signExtend(old, bits) : zeroExtend(b, bits) < zeroExtend(old, bits);
  switch (operation) {
  case Add:
    return old + b;
  case Min:
    return less ? b : old;
  case Max:
    return less ? old : b;
  case And:
    return old & b;
  case Or:
    return old | b;
  case Xor:
    return old ^ b;
  case Exchange:
    return b;
  case CompareAndSwap:
    return zeroExtend(old, bits) == zeroExtend(b, bits) ? c : old;
  case Increment:
    return old >= b ? 0 : old + 1;
  default:
    return old == 0 || old > b ? b : old - 1;
  }
}

double combineFloat(int operation, double a, double b) {
  return operation == Add ? a + b : operation == Min ? std::fmin(a, b) : std::fmax(a, b);
}

uint64_t combine(int operation, Type type, uint64_t old, uint64_t b, uint64_t c) {
  if (operation == Exchange || operation == CompareAndSwap)
    return combineInteger(operation, type, old, b, c);
  switch (type) {
  case Type::F32:
    return bitCast<uint32_t>(float(combineFloat(operation, bitCast<float>(uint32_t(old)), bitCast<float>(uint32_t(b)))));
  case Type::F64:
    return bitCast<uint64_t>(combineFloat(operation, bitCast<double>(old), bitCast<double>(b)));
  case Type::F16:
    return floatToHalf(float(combineFloat(operation, halfToFloat(uint16_t(old)), halfToFloat(uint16_t(b)))));
  case Type::BF16:
    return floatToBfloat(float(combineFloat(operation, bfloatToFloat(uint16_t(old)), bfloatToFloat(uint16_t(b)))));
  case Type::F16x2:
  case Type::BF16x2: {
    const Type half = type == Type::F16x2 ? Type::F16 : Type::BF16;
    return combine(operation, half, old & 0xffff, b & 0xffff, 0) |
           combine(operation, half, old >> 16 & 0xffff, b >> 16 & 0xffff, 0) << 16;
  }
  default:
    return combineInteger(operation, type, old, b, c);
  }
}

/// atom and red; with several sources (v2, v4) on neighbouring elements.
Step atomic(Thread &thread, const Instruction &instruction) {
  const auto &form = std::get<MemoryForm>(instruction.form);
  const uint32_t bytes = bytesOf(form.type), count = uint32_t(instruction.sources.size());
  const uint64_t address = addressOf(thread, form);
  uint64_t b[8];
  for (uint32_t i = 0; i < count; ++i)
    b[i] = thread.read(instruction.sources[i]);
  const uint64_t c = instruction.simple.mode == CompareAndSwap ? thread.read(instruction.in[2]) : 0;
  readBytes(thread, form.space, address, bytes * count);
  uint8_t *at = writeBytes(thread, form.space, address, bytes * count);
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t old = 0;
    std::memcpy(&old, at + i * bytes, bytes);
    const uint64_t value = combine(instruction.simple.mode, form.type, old, b[i], c);
    std::memcpy(at + i * bytes, &value, bytes);
    if (i < instruction.destinations.size())
      thread.write(instruction.destinations[i], old);
  }
  return Step::Next;
}

// ---- Moves ----

Step move(Thread &thread, const Instruction &instruction) {
  thread.write(instruction.destination, zeroExtend(thread.read(instruction.in[0]), bitsOf(instruction.type)));
  return Step::Next;
}

/// mov.b64 %rd, {%r1, %r2}
Step pack(Thread &thread, const Instruction &instruction) {
  const unsigned bits = bitsOf(instruction.type) / unsigned(instruction.sources.size());
  uint64_t value = 0;
  for (size_t i = 0; i < instruction.sources.size(); ++i)
    value |= zeroExtend(thread.read(instruction.sources[i]), bits) << (bits * i);
  thread.write(instruction.destination, value);
  return Step::Next;
}

Step unpack(Thread &thread, const Instruction &instruction) {
  const unsigned bits = bitsOf(instruction.type) / unsigned(instruction.destinations.size());
  const uint64_t value = thread.read(instruction.in[0]);
  for (size_t i = 0; i < instruction.destinations.size(); ++i)
    thread.write(instruction.destinations[i], zeroExtend(value >> (bits * i), bits));
  return Step::Next;
}

Step convertAddress(Thread &thread, const Instruction &instruction) {
  static const uint64_t windows[] = {0, 0, sharedWindow, localWindow, paramWindow, 0};
  const uint64_t window = windows[int(instruction.simple.mode)], address = thread.read(instruction.in[0]);
  if (instruction.simple.flag) { // cvta.to: from generic
    if ((address & windowMask) != window)
      fail(ErrorKind::OutOfBounds, "0x%llx is no generic address of this space", (unsigned long long)address);
    thread.write(instruction.destination, address & ~windowMask);
  } else {
    thread.write(instruction.destination, address | window);
  }
  return Step::Next;
}

Step mapToCta(Thread &thread, const Instruction &instruction) {
  const uint64_t address = thread.read(instruction.in[0]);
  const uint64_t rank = thread.read(instruction.in[1]);
  if (rank >= thread.cta->cluster->ctas.size())
    fail(ErrorKind::OutOfBounds, "there is no CTA %llu in the cluster of %zu", (unsigned long long)rank,
         thread.cta->cluster->ctas.size());
  thread.write(instruction.destination, (address & (windowMask | 0xffffff)) | (rank + 1) << 24);
  return Step::Next;
}

Step rankOfAddress(Thread &thread, const Instruction &instruction) {
  const uint64_t rank = thread.read(instruction.in[0]) >> 24 & 0xff;
  thread.write(instruction.destination, rank ? rank - 1 : thread.cta->rank);
  return Step::Next;
}

Step isInSpace(Thread &thread, const Instruction &instruction) {
  uint64_t address = thread.read(instruction.in[0]);
  const Space space = resolve(Space::Generic, address);
  thread.write(instruction.destination, space == Space(instruction.simple.mode));
  return Step::Next;
}

void decodeMove(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  instruction.type = decoder.takeType();
  const Operand &to = decoder.operand(0), &from = decoder.operand(1);
  if (to.kind == Operand::Vector) {
    instruction.destinations = decoder.destinations(to);
    instruction.in[0] = decoder.source(1, instruction.type);
    instruction.execute = unpack;
  } else if (from.kind == Operand::Vector) {
    decoder.setDestination(0);
    instruction.sources = decoder.sources(from, Type::B64);
    instruction.execute = pack;
  } else {
    decoder.setDestination(0);
    instruction.in[0] = decoder.source(1, instruction.type);
    instruction.execute = move;
  }
}

unsigned takeVector(Decoder &decoder) { return decoder.take("v2") ? 2 : decoder.take("v4") ? 4 : decoder.take("v8") ? 8 : 1; }

void decodeLoadStore(Decoder &decoder, bool isLoad) {
  Instruction &instruction = decoder.instruction;
  MemoryForm form{};
  form.space = decoder.takeSpace();
  form.readOnly = decoder.take("nc");
  decoder.takeMemoryOrder();
  const unsigned vector = takeVector(decoder);
  form.type = decoder.takeType();
  form.base = decoder.base(isLoad ? 1 : 0, form.offset);
  size_t count;
  if (isLoad) {
    instruction.destinations = decoder.destinations(decoder.operand(0));
    count = instruction.destinations.size();
    for (int destination : instruction.destinations)
      if (destination >= 0)
        instruction.destinationBits = uint8_t(bitsOf(decoder.kernel.registers[size_t(destination)].type));
    instruction.execute = load;
  } else {
    instruction.sources = decoder.sources(decoder.operand(1), form.type);
    count = instruction.sources.size();
    instruction.execute = store;
  }
  if (count != vector)
    decoder.unsupported("the vector has " + std::to_string(count) + " elements");
  instruction.form = form;
}

void decodeAtomic(Decoder &decoder, bool returns) {
  Instruction &instruction = decoder.instruction;
  MemoryForm form{};
  form.space = decoder.takeSpace();
  decoder.takeMemoryOrder();
  instruction.simple.mode = decoder.takeOneOf({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  if (instruction.simple.mode < 0)
    decoder.unsupported("unknown operation");
  takeVector(decoder);
  form.type = decoder.takeType();
  size_t at = 0;
  if (returns)
    instruction.destinations = decoder.destinations(decoder.operand(at++));
  form.base = decoder.base(at++, form.offset);
  instruction.sources = decoder.sources(decoder.operand(at++), form.type);
  if (instruction.simple.mode == CompareAndSwap)
    instruction.in[2] = decoder.source(at, form.type);
  instruction.form = form;
  instruction.execute = atomic;
}

} // namespace

bool tw::ptxemu::decodeMemory(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  if (decoder.is("mov")) {
    decodeMove(decoder);
  } else if (decoder.is("ld") || decoder.is("ldu")) {
    decodeLoadStore(decoder, true);
  } else if (decoder.is("st")) {
    decodeLoadStore(decoder, false);
  } else if (decoder.is("atom") || decoder.is("red")) {
    if (decoder.take("async"))
      decoder.unsupported();
    decodeAtomic(decoder, decoder.is("atom"));
  } else if (decoder.is("cvta")) {
    instruction.simple.flag = decoder.take("to");
    instruction.simple.mode = int(decoder.takeSpace());
    decoder.takeType();
    decoder.setDestination(0);
    instruction.in[0] = decoder.source(1, Type::B64);
    instruction.execute = convertAddress;
  } else if (decoder.is("mapa")) {
    decoder.takeSpace();
    decoder.takeType();
    decoder.setDestination(0);
    instruction.in[0] = decoder.source(1, Type::B64);
    instruction.in[1] = decoder.source(2, Type::B32);
    instruction.execute = mapToCta;
  } else if (decoder.is("getctarank")) {
    decoder.takeSpace();
    decoder.takeType();
    decoder.setDestination(0);
    instruction.in[0] = decoder.source(1, Type::B64);
    instruction.execute = rankOfAddress;
  } else if (decoder.is("isspacep")) {
    instruction.simple.mode = int(decoder.takeSpace());
    decoder.setDestination(0);
    instruction.in[0] = decoder.source(1, Type::B64);
    instruction.execute = isInSpace;
  } else {
    return false;
  }
  return true;
}
