//===- Warp.cpp - Instructions of a warp ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the lanes of a warp do together: shuffles, votes, elections, reductions, and their matrices in shared memory.
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Decoder.h"

#include <algorithm>

using namespace tw::ptxemu;

enum ShuffleMode { ShuffleUp, ShuffleDown, ShuffleXor, ShuffleIndex };

/// in[0]: value, in[1]: lane operand, in[2]: clamp and segment mask.
static void shuffle(Thread *const *threads, unsigned, const Instruction &instruction) {
  uint64_t values[32] = {}, results[32];
  bool inRange[32];
  for (int lane = 0; lane < 32; ++lane)
    if (threads[lane])
      values[lane] = threads[lane]->read(instruction.in[0]);
  for (int lane = 0; lane < 32; ++lane) {
    if (!threads[lane])
      continue;
    const int b = int(threads[lane]->read(instruction.in[1]) & 31), c = int(threads[lane]->read(instruction.in[2]));
    const int segment = c >> 8 & 31, clamp = c & 31;
    const int maxLane = (lane & segment) | (clamp & ~segment), minLane = lane & segment;
    int from;
    switch (instruction.simple.mode) {
    case ShuffleUp:
      from = lane - b;
      inRange[lane] = from >= maxLane;
      break;
    case ShuffleDown:
      from = lane + b;
      inRange[lane] = from <= maxLane;
      break;
    case ShuffleXor:
      from = lane ^ b;
      inRange[lane] = from <= maxLane;
      break;
    default:
      from = minLane | (b & ~segment);
      inRange[lane] = from <= maxLane;
      break;
    }
    if (!inRange[lane])
      from = lane;
    if (!threads[from])
      fail(ErrorKind::Uninitialized, "lane %d takes its value from lane %d, which is not in the membermask", lane, from);
    results[lane] = values[from];
  }
  for (int lane = 0; lane < 32; ++lane)
    if (threads[lane]) {
      threads[lane]->write(instruction.destination, results[lane]);
      threads[lane]->write(instruction.destination2, inRange[lane]);
    }
}

enum VoteMode { VoteAll, VoteAny, VoteUniform, VoteBallot };

static void vote(Thread *const *threads, unsigned, const Instruction &instruction) {
  uint32_t members = 0, ballot = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (threads[lane]) {
      members |= 1u << lane;
      ballot |= uint32_t(threads[lane]->read(instruction.in[0]) & 1) << lane;
    }
  const uint32_t results[] = {ballot == members, ballot != 0, ballot == members || ballot == 0, ballot};
  for (int lane = 0; lane < 32; ++lane)
    if (threads[lane])
      threads[lane]->write(instruction.destination, results[instruction.simple.mode]);
}

/// The leader is the first member.
static void elect(Thread *const *threads, unsigned, const Instruction &instruction) {
  int leader = 0;
  while (!threads[leader])
    ++leader;
  for (int lane = 0; lane < 32; ++lane)
    if (threads[lane]) {
      threads[lane]->write(instruction.destination, uint32_t(leader));
      threads[lane]->write(instruction.destination2, lane == leader);
    }
}

static void matchAny(Thread *const *threads, unsigned, const Instruction &instruction) {
  uint32_t results[32] = {};
  for (int lane = 0; lane < 32; ++lane)
    for (int other = 0; other < 32 && threads[lane]; ++other)
      if (threads[other] && threads[other]->read(instruction.in[0]) == threads[lane]->read(instruction.in[0]))
        results[lane] |= 1u << other;
  for (int lane = 0; lane < 32; ++lane)
    if (threads[lane])
      threads[lane]->write(instruction.destination, results[lane]);
}

enum ReduceMode { ReduceAdd, ReduceMin, ReduceMax, ReduceAnd, ReduceOr, ReduceXor };

static void reduce(Thread *const *threads, unsigned, const Instruction &instruction) {
  bool first = true;
  uint32_t result = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (!threads[lane])
      continue;
    const uint32_t value = uint32_t(threads[lane]->read(instruction.in[0]));
    const bool less = instruction.type == Type::S32 ? int32_t(value) < int32_t(result) : value < result;
    if (first)
      result = value;
    else
      switch (instruction.simple.mode) {
      case ReduceAdd:
        result += value;
        break;
      case ReduceMin:
        result = less ? value : result;
        break;
      case ReduceMax:
        result = less ? result : value;
        break;
      case ReduceAnd:
        result &= value;
        break;
      case ReduceOr:
        result |= value;
        break;
      case ReduceXor:
        result ^= value;
        break;
      }
    first = false;
  }
  for (int lane = 0; lane < 32; ++lane)
    if (threads[lane])
      threads[lane]->write(instruction.destination, result);
}

static void warpBarrier(Thread *const *, unsigned, const Instruction &) {}

// ---- Matrices -------------------------------------------------------------------------------------------------------------

/// The shared memory of row `row` (16 bytes) of 8x8 matrix `matrix`: lane 8 * matrix + row holds its address.
static uint8_t *matrixRow(Thread *const *threads, unsigned matrix, unsigned row, const MemoryForm &form, bool write) {
  Thread &thread = *threads[matrix * 8 + row];
  uint64_t address = thread.read(form.base) + uint64_t(form.offset);
  if (address % 16)
    fail(ErrorKind::Misaligned, "the row address 0x%llx of lane %u is no multiple of 16", (unsigned long long)address,
         matrix * 8 + row);
  Grid &grid = thread.cta->grid;
  uint32_t local;
  Cta &cta = grid.ctaOf(thread, address & 0xffffffffu, local);
  return write ? cta.shared.write(local, 16, thread.accessor()) : cta.shared.read(local, 16);
}

/// Lane l has elements (l / 4, 2 (l % 4)) and the next one of each matrix; with .trans, of the transposed matrix.
static void loadMatrix(Thread *const *threads, unsigned, const Instruction &instruction) {
  const auto &form = std::get<MemoryForm>(instruction.form);
  const unsigned count = unsigned(instruction.destinations.size());
  uint16_t elements[4][8][8];
  for (unsigned m = 0; m < count; ++m)
    for (unsigned row = 0; row < 8; ++row)
      std::memcpy(elements[m][row], matrixRow(threads, m, row, form, false), 16);
  for (unsigned m = 0; m < count; ++m)
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned i = lane / 4, j = lane % 4 * 2;
      const uint32_t low = instruction.simple.flag ? elements[m][j][i] : elements[m][i][j];
      const uint32_t high = instruction.simple.flag ? elements[m][j + 1][i] : elements[m][i][j + 1];
      threads[lane]->write(instruction.destinations[m], low | high << 16);
    }
}

static void storeMatrix(Thread *const *threads, unsigned, const Instruction &instruction) {
  const auto &form = std::get<MemoryForm>(instruction.form);
  const unsigned count = unsigned(instruction.sources.size());
  for (unsigned m = 0; m < count; ++m) {
    uint16_t elements[8][8];
    for (unsigned lane = 0; lane < 32; ++lane) {
      const uint32_t value = uint32_t(threads[lane]->read(instruction.sources[m]));
      const unsigned i = lane / 4, j = lane % 4 * 2;
      (instruction.simple.flag ? elements[j][i] : elements[i][j]) = uint16_t(value);
      (instruction.simple.flag ? elements[j + 1][i] : elements[i][j + 1]) = uint16_t(value >> 16);
    }
    for (unsigned row = 0; row < 8; ++row)
      std::memcpy(matrixRow(threads, m, row, form, true), elements[row], 16);
  }
  ++threads[0]->cta->grid.progress;
}

static void decodeMatrix(Decoder &decoder, bool load) {
  Instruction &instruction = decoder.instruction;
  decoder.take("sync");
  decoder.take("aligned");
  if (!decoder.take("m8n8"))
    decoder.unsupported();
  const unsigned count = decoder.take("x4") ? 4 : decoder.take("x2") ? 2 : decoder.take("x1") ? 1 : 0;
  instruction.simple.flag = decoder.take("trans");
  decoder.takeSpace();
  decoder.takeType();
  MemoryForm form{};
  form.space = Space::Shared;
  form.base = decoder.base(load ? 1 : 0, form.offset);
  instruction.form = form;
  size_t registers;
  if (load) {
    instruction.destinations = decoder.destinations(decoder.operand(0));
    registers = instruction.destinations.size();
    instruction.executeGroup = loadMatrix;
  } else {
    instruction.sources = decoder.sources(decoder.operand(1), Type::B32);
    registers = instruction.sources.size();
    instruction.executeGroup = storeMatrix;
  }
  if (registers != count)
    decoder.unsupported("it has " + std::to_string(registers) + " registers");
  instruction.rendezvous = Rendezvous::Warp;
}

bool tw::ptxemu::decodeWarp(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  if (decoder.is("ldmatrix") || decoder.is("stmatrix")) {
    decodeMatrix(decoder, decoder.is("ldmatrix"));
    return true;
  }
  if (decoder.is("activemask")) {
    decoder.take("b32");
    decoder.setDestination(0);
    instruction.executeGroup = [](Thread *const *threads, unsigned count, const Instruction &instruction) {
      uint32_t mask = 0;
      for (unsigned lane = 0; lane < count; ++lane)
        mask |= uint32_t(threads[lane] != nullptr) << lane;
      for (unsigned lane = 0; lane < count; ++lane)
        if (threads[lane])
          threads[lane]->write(instruction.destination, mask);
    };
    instruction.rendezvous = Rendezvous::Warp;
    return true;
  }
  size_t mask;
  if (decoder.is("shfl")) {
    instruction.simple.mode = decoder.takeOneOf({"up", "down", "bfly", "idx"});
    instruction.executeGroup = shuffle;
    decoder.setDestination(0);
    for (int i = 0; i < 3; ++i)
      instruction.in[i] = decoder.source(size_t(i + 1), Type::B32);
    mask = 4;
  } else if (decoder.is("vote")) {
    instruction.simple.mode = decoder.takeOneOf({"all", "any", "uni", "ballot"});
    instruction.executeGroup = vote;
    decoder.setDestination(0);
    instruction.in[0] = decoder.source(1, Type::Pred);
    mask = 2;
  } else if (decoder.is("elect")) {
    instruction.executeGroup = elect;
    decoder.setDestination(0);
    mask = 1;
  } else if (decoder.is("match")) {
    if (!decoder.take("any"))
      decoder.unsupported();
    instruction.executeGroup = matchAny;
    decoder.setDestination(0);
    instruction.in[0] = decoder.source(1, Type::B64);
    mask = 2;
  } else if (decoder.is("redux")) {
    instruction.simple.mode = decoder.takeOneOf({"add", "min", "max", "and", "or", "xor"});
    instruction.executeGroup = reduce;
    decoder.setDestination(0);
    instruction.in[0] = decoder.source(1, Type::B32);
    mask = 2;
  } else if (decoder.is("bar") || decoder.is("barrier")) {
    if (!decoder.take("warp"))
      return false;
    instruction.executeGroup = warpBarrier;
    mask = 0;
  } else {
    return false;
  }
  if (!decoder.take("sync") || instruction.simple.mode < 0)
    decoder.unsupported();
  instruction.type = decoder.takeOptionalType();
  instruction.in[3] = decoder.source(mask, Type::B32);
  if (instruction.in[3].reg < 0 && instruction.in[3].value == 0)
    decoder.unsupported("the membermask is empty");
  instruction.rendezvous = Rendezvous::Warp;
  return true;
}
