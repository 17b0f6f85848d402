//===- Mma.cpp - Tensor cores: wgmma with its descriptors and groups, and mma.sync ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Decoder.h"

#include <algorithm>
#include <cstdio>

using namespace tw::ptxemu;

// ---- Elements -------------------------------------------------------------------------------------------------------------

/// Element `index` of packed values of `type`.
static float floatElement(const uint8_t *bytes, unsigned index, Type type) {
  uint16_t half;
  switch (type) {
  case Type::BF16:
    std::memcpy(&half, bytes + 2 * index, 2);
    return bfloatToFloat(half);
  case Type::F16:
    std::memcpy(&half, bytes + 2 * index, 2);
    return halfToFloat(half);
  case Type::TF32: {
    uint32_t word;
    std::memcpy(&word, bytes + 4 * index, 4);
    return tf32ToFloat(word);
  }
  case Type::E4M3:
    return float(decodeFloat(bytes[index], e4m3Format));
  case Type::E5M2:
    return float(decodeFloat(bytes[index], e5m2Format));
  default:
    return 0;
  }
}

static int32_t integerElement(const uint8_t *bytes, unsigned index, Type type) {
  return type == Type::S8 ? int32_t(int8_t(bytes[index])) : int32_t(bytes[index]);
}

template <typename T> static T element(const uint8_t *bytes, unsigned index, Type type) {
  if constexpr (std::is_same_v<T, float>)
    return floatElement(bytes, index, type);
  else
    return integerElement(bytes, index, type);
}

/// `accumulators` [m, n] += a [m, k] * b [k, n], each sum in the order of k. Integers wrap, or saturate at the end.
static void multiply(float *accumulators, const float *a, const float *b, unsigned m, unsigned n, unsigned k, bool) {
  for (unsigned row = 0; row < m; ++row) {
    float *__restrict to = accumulators + row * n;
    for (unsigned i = 0; i < k; ++i) {
      const float factor = a[row * k + i];
      const float *__restrict from = b + i * n;
      for (unsigned column = 0; column < n; ++column)
        to[column] += factor * from[column];
    }
  }
}

static void multiply(int32_t *accumulators, const int32_t *a, const int32_t *b, unsigned m, unsigned n, unsigned k,
                     bool saturate) {
  std::vector<int32_t> sums(n); // at most 32 products of 8-bit numbers
  for (unsigned row = 0; row < m; ++row) {
    std::fill(sums.begin(), sums.end(), 0);
    for (unsigned i = 0; i < k; ++i) {
      const int32_t factor = a[row * k + i];
      const int32_t *__restrict from = b + i * n;
      for (unsigned column = 0; column < n; ++column)
        sums[column] += factor * from[column];
    }
    int32_t *to = accumulators + row * n;
    for (unsigned column = 0; column < n; ++column) {
      const int64_t sum = int64_t(to[column]) + sums[column];
      to[column] = saturate ? int32_t(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX)) : int32_t(uint32_t(sum));
    }
  }
}

// ---- Accumulators in registers --------------------------------------------------------------------------------------------

/// Copies between accumulators [m, n] and the registers of `result`: row group of 16 for each warp; lane l has columns
/// 8 j + 2 (l % 4) and the next one, of rows l / 4 and l / 4 + 8.
template <typename Visit> static void visitAccumulators(unsigned m, unsigned n, const Visit &visit) {
  for (unsigned warp = 0; warp < m / 16; ++warp)
    for (unsigned lane = 0; lane < 32; ++lane)
      for (unsigned j = 0; j < n / 8; ++j)
        for (unsigned half = 0; half < 2; ++half)
          visit(warp * 32 + lane, (j * 2 + half), warp * 16 + lane / 4 + half * 8, j * 8 + lane % 4 * 2);
}

/// `pair` counts pairs of neighbouring columns: two registers for 32-bit accumulators, one for f16.
template <typename T, typename ReadRegister>
static void gather(std::vector<T> &accumulators, const MmaForm &form, const ReadRegister &readRegister) {
  visitAccumulators(form.m, form.n, [&](unsigned thread, unsigned pair, unsigned row, unsigned column) {
    T *to = &accumulators[row * form.n + column];
    if (form.accumulator == Type::F16) {
      const uint32_t both = readRegister(thread, pair);
      to[0] = T(halfToFloat(uint16_t(both)));
      to[1] = T(halfToFloat(uint16_t(both >> 16)));
    } else {
      to[0] = bitCast<T>(readRegister(thread, pair * 2));
      to[1] = bitCast<T>(readRegister(thread, pair * 2 + 1));
    }
  });
}
template <typename T, typename WriteRegister>
static void scatter(const std::vector<T> &accumulators, const MmaForm &form, const WriteRegister &writeRegister) {
  visitAccumulators(form.m, form.n, [&](unsigned thread, unsigned pair, unsigned row, unsigned column) {
    const T *from = &accumulators[row * form.n + column];
    if (form.accumulator == Type::F16) {
      writeRegister(thread, pair, uint32_t(floatToHalf(float(from[0]))) | uint32_t(floatToHalf(float(from[1]))) << 16);
    } else {
      writeRegister(thread, pair * 2, bitCast<uint32_t>(from[0]));
      writeRegister(thread, pair * 2 + 1, bitCast<uint32_t>(from[1]));
    }
  });
}

/// A fragment of A in registers: register i of a lane holds rows l / 4 + 8 (i % 2), from k = e (l % 4) + 4 e (i / 2) on, where a
/// register has e elements.
template <typename T, typename ReadRegister>
static void gatherA(std::vector<T> &a, const MmaForm &form, const ReadRegister &readRegister) {
  const unsigned perRegister = 32 / bitsOf(form.a == Type::TF32 ? Type::B32 : form.a);
  for (unsigned thread = 0; thread < form.m * 2; ++thread)
    for (unsigned i = 0; i < form.aRegisters.size(); ++i) {
      const uint32_t word = readRegister(thread, i);
      uint8_t bytes[4];
      std::memcpy(bytes, &word, 4);
      const unsigned row = thread / 32 * 16 + thread % 32 / 4 + i % 2 * 8, k = (thread % 4 + i / 2 * 4) * perRegister;
      for (unsigned e = 0; e < perRegister; ++e)
        a[row * form.k + k + e] = element<T>(bytes, e, form.a);
    }
}

// ---- wgmma: descriptors ---------------------------------------------------------------------------------------------------

/// A matrix descriptor: where the 16-byte chunks of an operand lie.
struct MatrixDescriptor {
  explicit MatrixDescriptor(uint64_t bits)
      : start(uint32_t(bits & 0x3fff) << 4), leading(uint32_t(bits >> 16 & 0x3fff) << 4),
        stride(uint32_t(bits >> 32 & 0x3fff) << 4), mode(unsigned(bits >> 62)) {
    if (bits & 0x3ff1c000c000c000)
      fail(ErrorKind::Misaligned, "the matrix descriptor 0x%016llx has bits outside its fields", (unsigned long long)bits);
    if (bits >> 49 & 7)
      fail(ErrorKind::Unsupported, "a matrix descriptor with a base offset");
    static const Swizzle swizzles[] = {Swizzle::None, Swizzle::B128, Swizzle::B64, Swizzle::B32};
    swizzle = swizzles[mode];
    rowBytes = mode == 0 ? 16 : 256u >> mode;
    const uint32_t pattern = mode == 0 ? 16 : rowBytes * 8;
    if (start & (pattern - 1) & ~127u)
      fail(ErrorKind::Misaligned, "the matrix at shared address 0x%x does not begin at its swizzle pattern of %u bytes", start,
           pattern);
  }
  /// Chunk `chunk` along k (16 bytes) of row `row` of a K-major operand.
  uint32_t kMajor(unsigned row, unsigned chunk) const {
    return swizzled(start + row / 8 * stride + row % 8 * rowBytes + chunk * (mode == 0 ? leading : 16), swizzle);
  }
  /// Chunk `chunk` along m or n (8 elements) of line `k` of an MN-major operand.
  uint32_t mnMajor(unsigned chunk, unsigned k) const {
    if (mode == 0)
      return start + chunk * stride + k / 8 * leading + k % 8 * 16;
    const unsigned perRow = rowBytes / 16;
    return swizzled(start + chunk / perRow * leading + k / 8 * stride + k % 8 * rowBytes + chunk % perRow * 16, swizzle);
  }

  uint32_t start, leading, stride, rowBytes;
  unsigned mode;
  Swizzle swizzle;
};

/// Calls visit(address, line, first element) for every chunk: of a K-major operand the line is a row and the elements go along k;
/// of an MN-major one the line is k.
template <typename Visit>
static void visitChunks(uint64_t bits, Major major, unsigned lines, unsigned k, Type type, const Visit &visit) {
  const MatrixDescriptor descriptor(bits);
  const unsigned elementBits = type == Type::TF32 ? 32 : bitsOf(type), perChunk = 128 / elementBits;
  if (major == Major::K) {
    for (unsigned row = 0; row < lines; ++row)
      for (unsigned chunk = 0; chunk < k / perChunk; ++chunk)
        visit(descriptor.kMajor(row, chunk), row, chunk * perChunk);
  } else {
    for (unsigned line = 0; line < k; ++line)
      for (unsigned chunk = 0; chunk < lines / perChunk; ++chunk)
        visit(descriptor.mnMajor(chunk, line), line, chunk * perChunk);
  }
}

// ---- wgmma: groups --------------------------------------------------------------------------------------------------------

template <typename T> static void executeTyped(Cta &cta, unsigned warpgroup, const PendingMma &mma) {
  const auto &form = std::get<MmaForm>(mma.instruction->form);
  Thread *threads = &cta.threads[warpgroup * 128];
  std::vector<T> a(form.m * form.k), b(form.k * form.n), accumulators(form.m * form.n, T(0));
  const unsigned perChunk = 128 / (form.b == Type::TF32 ? 32 : bitsOf(form.b));
  if (form.aRegisters.empty())
    visitChunks(mma.descriptorA, form.majorA, form.m, form.k, form.a, [&](uint32_t address, unsigned line, unsigned first) {
      const uint8_t *bytes = cta.shared.at(address);
      for (unsigned e = 0; e < perChunk; ++e)
        (form.majorA == Major::K ? a[line * form.k + first + e] : a[(first + e) * form.k + line]) =
            element<T>(bytes, e, form.a);
    });
  else
    gatherA(a, form, [&](unsigned thread, unsigned i) { return uint32_t(threads[thread].registers[form.aRegisters[i].reg]); });
  visitChunks(mma.descriptorB, form.majorB, form.n, form.k, form.b, [&](uint32_t address, unsigned line, unsigned first) {
    const uint8_t *bytes = cta.shared.at(address);
    for (unsigned e = 0; e < perChunk; ++e)
      (form.majorB == Major::K ? b[(first + e) * form.n + line] : b[line * form.n + first + e]) = element<T>(bytes, e, form.b);
  });
  if (form.scaleA * form.scaleB < 0)
    for (T &value : a)
      value = -value;
  if (mma.accumulate)
    gather(accumulators, form,
           [&](unsigned thread, unsigned i) { return uint32_t(threads[thread].registers[form.result[i]]); });
  multiply(accumulators.data(), a.data(), b.data(), form.m, form.n, form.k, form.saturate);
  scatter(accumulators, form,
          [&](unsigned thread, unsigned i, uint32_t value) { threads[thread].registers[form.result[i]] = value; });
}

static void executeMma(Cta &cta, unsigned warpgroup, PendingMma &mma) {
  if (mma.done)
    return;
  mma.done = true;
  if (std::get<MmaForm>(mma.instruction->form).accumulator == Type::S32)
    executeTyped<int32_t>(cta, warpgroup, mma);
  else
    executeTyped<float>(cta, warpgroup, mma);
}

static void mark(Thread *threads, const MmaForm &form, bool inFlight) {
  for (unsigned t = 0; t < 128; ++t) {
    uint8_t *status = threads[t].status;
    for (int reg : form.result)
      status[reg] = inFlight ? status[reg] | Thread::Result : Thread::Defined | Thread::Fenced;
    for (const Source &source : form.aRegisters)
      status[source.reg] =
          inFlight ? status[source.reg] | Thread::MmaOperand : status[source.reg] & uint8_t(~Thread::MmaOperand);
  }
}

/// wgmma.wait_group: all groups but the newest in[0] are done.
static void waitGroups(Thread *const *threads, unsigned, const Instruction &instruction) {
  Cta &cta = *threads[0]->cta;
  const unsigned index = threads[0]->index / 128;
  Warpgroup &warpgroup = cta.warpgroups[index];
  bool any = false;
  while (warpgroup.groups.size() > instruction.in[0].value) {
    for (PendingMma &mma : warpgroup.groups.front()) {
      executeMma(cta, index, mma);
      for (uint32_t address : mma.chunks)
        cta.shared.endRead(address, 16);
      mark(threads[0], std::get<MmaForm>(mma.instruction->form), false);
      any = true;
    }
    warpgroup.groups.pop_front();
  }
  if (!any)
    return;
  ++cta.grid.progress;
  // Registers that younger operations use stay in flight.
  for (auto &group : warpgroup.groups)
    for (PendingMma &mma : group)
      mark(threads[0], std::get<MmaForm>(mma.instruction->form), true);
  for (PendingMma &mma : warpgroup.open)
    mark(threads[0], std::get<MmaForm>(mma.instruction->form), true);
}

static void commitGroup(Thread *const *threads, unsigned, const Instruction &) {
  Warpgroup &warpgroup = threads[0]->cta->warpgroups[threads[0]->index / 128];
  warpgroup.groups.push_back(std::move(warpgroup.open));
  warpgroup.open.clear();
}

/// wgmma.fence: what the thread has written to registers so far is ready for wgmma.
static Step fenceRegisters(Thread &thread, const Instruction &) {
  thread.mmaFenced = true;
  const size_t count = thread.cta->grid.kernel.registers.size();
  for (size_t i = 0; i < count; ++i)
    thread.status[i] = uint8_t(thread.status[i] | (thread.status[i] & Thread::Defined) * Thread::Fenced);
  return Step::Next;
}

/// The accumulators may be in flight only for operations on the same accumulators.
static void checkAccumulators(const Warpgroup &warpgroup, Thread &thread, const MmaForm &form, bool accumulate) {
  const Kernel &kernel = thread.cta->grid.kernel;
  bool inFlight = false;
  for (int reg : form.result) {
    const uint8_t status = thread.status[reg];
    const char *name = kernel.registers[size_t(reg)].name.c_str();
    if (status & Thread::MmaOperand)
      fail(ErrorKind::InFlight, "accumulates in %s, which a wgmma in flight reads", name);
    if (status & Thread::Result)
      inFlight = true;
    else if (accumulate && !(status & Thread::Defined))
      thread.failRead(reg);
    else if ((status & Thread::Defined) && !(status & Thread::Fenced))
      fail(ErrorKind::InFlight, "accumulates in %s, which the thread has touched since the last wgmma.fence", name);
  }
  if (!inFlight)
    return;
  auto same = [&](const PendingMma &mma) {
    const auto &other = std::get<MmaForm>(mma.instruction->form);
    return other.result == form.result && other.accumulator == form.accumulator;
  };
  bool found = std::any_of(warpgroup.open.begin(), warpgroup.open.end(), same);
  for (const auto &group : warpgroup.groups)
    found |= std::any_of(group.begin(), group.end(), same);
  if (!found)
    fail(ErrorKind::InFlight, "accumulates in registers that a wgmma of another shape in flight writes");
}

static void issueMma(Thread *const *threads, unsigned, const Instruction &instruction) {
  const auto &form = std::get<MmaForm>(instruction.form);
  Thread &leader = *threads[0];
  Cta &cta = *leader.cta;
  Grid &grid = cta.grid;
  const unsigned index = leader.index / 128;
  Warpgroup &warpgroup = cta.warpgroups[index];
  PendingMma mma{};
  mma.instruction = &instruction;
  const bool fromRegisters = !form.aRegisters.empty();
  if (!fromRegisters)
    mma.descriptorA = leader.read(form.descriptorA);
  mma.descriptorB = leader.read(form.descriptorB);
  mma.accumulate = leader.read(form.scaleD);
  for (unsigned t = 0; t < 128; ++t) {
    Thread &thread = *threads[t];
    if (thread.read(form.descriptorB) != mma.descriptorB ||
        (!fromRegisters && thread.read(form.descriptorA) != mma.descriptorA) ||
        bool(thread.read(form.scaleD)) != mma.accumulate)
      fail(ErrorKind::Barrier, "thread %u of the warpgroup has other descriptors or another scale-d than thread 0", t);
    if (!thread.mmaFenced)
      fail(ErrorKind::InFlight, "thread %u has executed no wgmma.fence yet", t);
    for (const Source &source : form.aRegisters) {
      const uint8_t status = thread.status[source.reg];
      if ((status & (Thread::Defined | Thread::Result)) != Thread::Defined)
        thread.failRead(source.reg);
      if (!(status & (Thread::Fenced | Thread::MmaOperand)))
        fail(ErrorKind::InFlight, "reads A from %s, which the thread has touched since the last wgmma.fence",
             grid.kernel.registers[size_t(source.reg)].name.c_str());
    }
    checkAccumulators(warpgroup, thread, form, mma.accumulate);
  }
  auto readChunk = [&](uint32_t address, unsigned, unsigned) {
    cta.shared.checkAsyncRead(address, 16, [&grid](uint32_t thread) { return grid.sharedFences[thread]; });
    cta.shared.beginRead(address, 16);
    mma.chunks.push_back(address);
  };
  if (!fromRegisters)
    visitChunks(mma.descriptorA, form.majorA, form.m, form.k, form.a, readChunk);
  visitChunks(mma.descriptorB, form.majorB, form.n, form.k, form.b, readChunk);
  mark(threads[0], form, true);
  if (grid.early())
    executeMma(cta, index, mma);
  warpgroup.open.push_back(std::move(mma));
  ++grid.progress;
}

// ---- mma.sync -------------------------------------------------------------------------------------------------------------

template <typename T> static void mmaSyncTyped(Thread *const *threads, const MmaForm &form) {
  std::vector<T> a(form.m * form.k), b(form.k * form.n), accumulators(form.m * form.n);
  gatherA(a, form, [&](unsigned thread, unsigned i) { return uint32_t(threads[thread]->read(form.aRegisters[i])); });
  const unsigned perRegister = 32 / (form.b == Type::TF32 ? 32 : bitsOf(form.b));
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < form.bRegisters.size(); ++i) {
      const uint32_t word = uint32_t(threads[lane]->read(form.bRegisters[i]));
      uint8_t bytes[4];
      std::memcpy(bytes, &word, 4);
      for (unsigned e = 0; e < perRegister; ++e)
        b[((lane % 4 + i * 4) * perRegister + e) * form.n + lane / 4] = element<T>(bytes, e, form.b);
    }
  gather(accumulators, form, [&](unsigned thread, unsigned i) { return uint32_t(threads[thread]->read(form.c[i])); });
  multiply(accumulators.data(), a.data(), b.data(), form.m, form.n, form.k, form.saturate);
  scatter(accumulators, form,
          [&](unsigned thread, unsigned i, uint32_t value) { threads[thread]->write(form.result[i], value); });
}

static void mmaSync(Thread *const *threads, unsigned, const Instruction &instruction) {
  const auto &form = std::get<MmaForm>(instruction.form);
  if (form.accumulator == Type::S32)
    mmaSyncTyped<int32_t>(threads, form);
  else
    mmaSyncTyped<float>(threads, form);
}

// ---- Decoding -------------------------------------------------------------------------------------------------------------

static void takeShape(Decoder &decoder, MmaForm &form) {
  const std::string shape = decoder.takePrefixed("m");
  if (std::sscanf(shape.c_str(), "%un%uk%u", &form.m, &form.n, &form.k) != 3)
    decoder.unsupported("unknown shape");
}

/// Checks that the types fit each other and `k`; a line of k has `kBytes` bytes at most.
static void checkTypes(Decoder &decoder, const MmaForm &form) {
  const bool sixteen = form.a == Type::BF16 || form.a == Type::F16;
  const bool integer = form.a == Type::S8 || form.a == Type::U8;
  const bool eight = form.a == Type::E4M3 || form.a == Type::E5M2;
  bool fits;
  if (integer)
    fits = (form.b == Type::S8 || form.b == Type::U8) && form.accumulator == Type::S32;
  else if (eight)
    fits = (form.b == Type::E4M3 || form.b == Type::E5M2) && form.accumulator != Type::S32;
  else
    fits = form.a == form.b && (form.accumulator == Type::F32 || (form.accumulator == Type::F16 && form.a == Type::F16)) &&
           (sixteen || form.a == Type::TF32);
  if (!fits)
    decoder.unsupported("these types do not go together");
}

static void decodeWgmma(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  instruction.rendezvous = Rendezvous::Warpgroup;
  const bool sync = decoder.take("sync"), aligned = decoder.take("aligned");
  if (!sync || !aligned)
    decoder.unsupported("wgmma needs .sync.aligned");
  if (decoder.take("fence")) {
    instruction.rendezvous = Rendezvous::None;
    instruction.execute = fenceRegisters;
    return;
  }
  if (decoder.take("commit_group")) {
    instruction.executeGroup = commitGroup;
    return;
  }
  if (decoder.take("wait_group")) {
    instruction.in[0].value = uint64_t(decoder.constant(0));
    instruction.executeGroup = waitGroups;
    return;
  }
  MmaForm form{};
  // The shape begins with "m" as well: it stands behind mma_async.
  if (!decoder.take("mma_async"))
    decoder.unsupported();
  takeShape(decoder, form);
  form.accumulator = decoder.takeType();
  form.a = decoder.takeType();
  form.b = decoder.takeType();
  form.saturate = decoder.take("satfinite");
  checkTypes(decoder, form);
  const unsigned bits = form.a == Type::TF32 ? 32 : bitsOf(form.a);
  const bool integer = form.accumulator == Type::S32;
  if (form.m != 64 || form.k * bits != 256 || form.n % 8 || form.n < 8 || form.n > 256 ||
      (integer && form.n > 24 && form.n % 16))
    decoder.unsupported("unknown shape");
  for (int reg : decoder.destinations(decoder.operand(0)))
    form.result.push_back(reg);
  const size_t registers = form.accumulator == Type::F16 ? form.n / 4 : form.n / 2;
  if (form.result.size() != registers || std::count(form.result.begin(), form.result.end(), -1))
    decoder.unsupported("the accumulators are " + std::to_string(form.result.size()) + " registers but must be " +
                        std::to_string(registers));
  const bool fromRegisters = decoder.operand(1).kind == Operand::Vector;
  if (fromRegisters) {
    form.aRegisters = decoder.sources(decoder.operand(1), Type::B32);
    if (form.aRegisters.size() != 4)
      decoder.unsupported("A takes 4 registers");
    for (const Source &source : form.aRegisters)
      if (source.reg < 0)
        decoder.unsupported("A must be in registers");
  } else {
    form.descriptorA = decoder.source(1, Type::B64);
  }
  form.descriptorB = decoder.source(2, Type::B64);
  form.scaleD = decoder.source(3, Type::Pred);
  size_t at = 4;
  if (!integer) {
    form.scaleA = float(int32_t(decoder.constant(at++)));
    form.scaleB = float(int32_t(decoder.constant(at++)));
    if (std::fabs(form.scaleA) != 1 || std::fabs(form.scaleB) != 1)
      decoder.unsupported("the scales must be 1 or -1");
  }
  if (form.a == Type::BF16 || form.a == Type::F16) {
    if (!fromRegisters)
      form.majorA = decoder.constant(at++) ? Major::MN : Major::K;
    form.majorB = decoder.constant(at++) ? Major::MN : Major::K;
  }
  if (decoder.operandCount() != at)
    decoder.unsupported("it has " + std::to_string(decoder.operandCount()) + " operands but needs " + std::to_string(at));
  instruction.form = std::move(form);
  instruction.executeGroup = issueMma;
}

static void decodeMmaSync(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  if (!decoder.take("sync") || !decoder.take("aligned"))
    decoder.unsupported();
  MmaForm form{};
  takeShape(decoder, form);
  if (!decoder.take("row") || !decoder.take("col"))
    decoder.unsupported("A must be row-major and B column-major");
  form.saturate = decoder.take("satfinite");
  form.accumulator = decoder.takeType();
  form.a = decoder.takeType();
  form.b = decoder.takeType();
  if (decoder.takeType() != form.accumulator)
    decoder.unsupported("D and C must have one type");
  checkTypes(decoder, form);
  const unsigned bits = form.a == Type::TF32 ? 32 : bitsOf(form.a);
  if (form.m != 16 || form.n != 8 || (form.k * bits != 256 && form.k * bits != 128))
    decoder.unsupported("unknown shape");
  form.result = decoder.destinations(decoder.operand(0));
  form.aRegisters = decoder.sources(decoder.operand(1), Type::B32);
  form.bRegisters = decoder.sources(decoder.operand(2), Type::B32);
  form.c = decoder.sources(decoder.operand(3), Type::B32);
  const size_t a = form.k * bits / 64, c = form.accumulator == Type::F16 ? 2 : 4;
  if (form.aRegisters.size() != a || form.bRegisters.size() * 2 != a || form.c.size() != c || form.result.size() != c)
    decoder.unsupported("wrong number of registers");
  instruction.form = std::move(form);
  instruction.rendezvous = Rendezvous::Warp;
  instruction.executeGroup = mmaSync;
}

bool tw::ptxemu::decodeMma(Decoder &decoder) {
  if (decoder.is("wgmma"))
    decodeWgmma(decoder);
  else if (decoder.is("mma"))
    decodeMmaSync(decoder);
  else
    return false;
  return true;
}
