//===- ExecuteVector.cpp - vector: window, chain and conversion -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "isa/Legality.h"
#include "simulator/core/Accesses.h"
#include "simulator/functional/Execute.h"
#include "simulator/functional/StageOps.h"

#include <algorithm>

using namespace tw;
using namespace tw::functional;
using isa::Conversion;
using isa::elementBytes;
using isa::StageOp;
using isa::StageOperand;
using isa::VectorType;
using isa::WindowOp;
using timing::FunctionTables;

namespace {

/// First of the parameters and of the immediates among the stage operands.
constexpr int64_t kParam0 = int64_t(isa::StageOperand::P0), kImmediate0 = int64_t(isa::StageOperand::Imm0);

//===----------------------------------------------------------------------===//
// The definition
//===----------------------------------------------------------------------===//

/// One lane's value with its domain.
struct Value {
  bool isFloat = false;
  int32_t i = 0;
  float f = 0;
};
Value integer(int32_t i) { return {false, i, 0}; }
Value real(float f) { return {true, 0, f}; }

Value readElement(VectorType type, const uint8_t *from, int64_t zeroPoint) {
  switch (type) {
  case VectorType::I8:
    return integer(isub(int8_t(*from), int32_t(zeroPoint)));
  case VectorType::U8:
    return integer(isub(*from, int32_t(zeroPoint)));
  case VectorType::I32:
    return integer(isub(readI32(from), int32_t(zeroPoint)));
  case VectorType::F32:
    return real(readF32(from));
  case VectorType::Bf16:
    return real(readBf16(from));
  }
  assert(false && "checked by isa::illegal()");
  return {};
}

void writeElement(VectorType type, uint8_t *to, Value value) {
  assert(isa::isFloat(type) == value.isFloat && "checked by isa::illegal()");
  switch (type) {
  case VectorType::I8:
    *to = uint8_t(saturateI8(value.i));
    return;
  case VectorType::U8:
    *to = saturateU8(value.i);
    return;
  case VectorType::I32:
    std::memcpy(to, &value.i, 4);
    return;
  case VectorType::F32: {
    float f = canonical(value.f);
    std::memcpy(to, &f, 4);
    return;
  }
  case VectorType::Bf16: {
    uint16_t half = toBf16(value.f);
    std::memcpy(to, &half, 2);
    return;
  }
  }
}

Value maximum(Value x, Value y) { return x.isFloat ? real(fmax(x.f, y.f)) : integer(imax(x.i, y.i)); }
Value plus(Value x, Value y) { return x.isFloat ? real(x.f + y.f) : integer(iadd(x.i, y.i)); }
Value times(Value x, Value y) { return x.isFloat ? real(x.f * y.f) : integer(imul(x.i, y.i)); }

/// `y` is the operand in both domains: B, saved or the bits of a parameter or immediate.
Value plainStage(StageOp op, Value x, Value y, Value b, Value saved, const int64_t *immediates, const FunctionTables &tables) {
  auto immediateInt = [&](unsigned j) { return int32_t(uint32_t(immediates[j])); };
  auto immediateFloat = [&](unsigned j) { return floatFromBits(uint32_t(immediates[j])); };
  switch (op) {
  case StageOp::Nop:
  case StageOp::Save:
    return x;
  case StageOp::Iadd:
    return integer(iadd(x.i, y.i));
  case StageOp::Isub:
    return integer(isub(x.i, y.i));
  case StageOp::Irsub:
    return integer(isub(y.i, x.i));
  case StageOp::Imul:
    return integer(imul(x.i, y.i));
  case StageOp::Imax:
    return integer(imax(x.i, y.i));
  case StageOp::Imin:
    return integer(imin(x.i, y.i));
  case StageOp::Idiv:
    return integer(idiv(x.i, y.i));
  case StageOp::Iridiv:
    return integer(idiv(y.i, x.i));
  case StageOp::Ishr:
    return integer(ishr(x.i, y.i));
  case StageOp::Iand:
    return integer(x.i & y.i);
  case StageOp::Ior:
    return integer(x.i | y.i);
  case StageOp::Ixor:
    return integer(x.i ^ y.i);
  case StageOp::Fadd:
    return real(x.f + y.f);
  case StageOp::Fsub:
    return real(x.f - y.f);
  case StageOp::Frsub:
    return real(y.f - x.f);
  case StageOp::Fmul:
    return real(x.f * y.f);
  case StageOp::Fdiv:
    return real(x.f / y.f);
  case StageOp::Frdiv:
    return real(y.f / x.f);
  case StageOp::Fmax:
    return real(fmax(x.f, y.f));
  case StageOp::Fmin:
    return real(fmin(x.f, y.f));
  case StageOp::Ffma:
    return real(__builtin_fmaf(x.f, immediateFloat(0), immediateFloat(1)));
  case StageOp::FfmaB:
    return real(__builtin_fmaf(b.f, immediateFloat(0), x.f));
  case StageOp::Fabs:
    return real(__builtin_fabsf(x.f));
  case StageOp::Fneg:
    return real(-x.f);
  case StageOp::Ffloor:
    return real(__builtin_floorf(x.f));
  case StageOp::Fsqrt:
    return real(__builtin_sqrtf(x.f));
  case StageOp::Frsqrt:
    return real(frsqrt(x.f));
  case StageOp::Fexp:
    return real(timing::tableExp(tables, x.f));
  case StageOp::Fsigmoid:
    return real(timing::tableSigmoid(tables, x.f));
  case StageOp::Ftanh:
    return real(timing::tableTanh(tables, x.f));
  case StageOp::Ferf:
    return real(timing::tableErf(tables, x.f));
  case StageOp::Flog:
    return real(timing::tableLog(tables, x.f));
  case StageOp::I2f:
    return real(i2f(x.i));
  case StageOp::F2i:
    return integer(f2i(x.f));
  case StageOp::F2iTrunc:
    return integer(f2iTrunc(x.f));
  case StageOp::Quantize:
    return integer(quantize(x.f, immediateInt(0)));
  case StageOp::Dequantize:
    return real(dequantize(x.i, immediateInt(0), immediateFloat(1)));
  case StageOp::LoadB:
    return b;
  case StageOp::LoadSaved:
    return saved;
  }
  assert(false && "checked by isa::illegal()");
  return x;
}

/// The window and lane reduction of one output vector whose first tap lies at `a`; `b` is the weight of tap 0 for mac.
std::vector<Value> plainWindow(const isa::Vector &vector, int64_t lanes, const uint8_t *a, const uint8_t *b) {
  VectorType aType = VectorType(vector.a_type), bType = VectorType(vector.b_type);
  WindowOp op = WindowOp(vector.window_op);
  // A lane with no value yet: every tap so far was left out.
  std::vector<std::optional<Value>> values(lanes);
  for (int64_t v = 0; v < vector.window[1]; ++v)
    for (int64_t h = 0; h < vector.window[0]; ++h) {
      bool isLast = h == vector.window[0] - 1;
      int64_t used = vector.lane_reduce && vector.tail_lanes && isLast ? vector.tail_lanes : lanes;
      for (int64_t lane = 0; lane < std::min(used, lanes); ++lane) {
        const uint8_t *from = a + h * vector.a_window_strides[0] + v * vector.a_window_strides[1] + lane * elementBytes(aType);
        Value tap = readElement(aType, from, vector.a_zero_point);
        if (op == WindowOp::Mac || op == WindowOp::SumSquares) {
          Value factor = tap;
          if (op == WindowOp::Mac)
            factor = readElement(bType, b + (v * vector.window[0] + h) * vector.b_tap_stride + lane * elementBytes(bType),
                                 vector.b_zero_point);
          tap = times(tap, factor);
          if (!values[lane])
            values[lane] = Value{tap.isFloat, 0, 0.0f};
        }
        if (!values[lane])
          values[lane] = tap;
        else
          values[lane] = op == WindowOp::Max ? maximum(*values[lane], tap) : plus(*values[lane], tap);
      }
    }
  if (vector.lane_reduce) {
    while (values.size() > 1) {
      std::vector<std::optional<Value>> next;
      for (size_t i = 0; i < values.size(); i += 2) {
        std::optional<Value> x = values[i], y = i + 1 < values.size() ? values[i + 1] : std::nullopt;
        if (x && y)
          x = op == WindowOp::Max ? maximum(*x, *y) : plus(*x, *y);
        next.push_back(x ? x : y);
      }
      values = std::move(next);
    }
    values.resize(lanes, values[0]);
  }
  std::vector<Value> result;
  for (const std::optional<Value> &value : values)
    result.push_back(value.value_or(Value{isa::isFloat(aType), 0, 0.0f}));
  return result;
}

void plain(const isa::Vector &vector, core::MachineState &state) {
  const FunctionTables &tables = timing::functionTables();
  int64_t lanes = state.machine().lanes;
  VectorType bType = VectorType(vector.b_type), dType = VectorType(vector.d_type);
  bool isMac = WindowOp(vector.window_op) == WindowOp::Mac;
  const uint8_t *aMemory = state.memory(vector.a_memory) + vector.a_address;
  const uint8_t *bMemory = vector.b_enable ? state.memory(vector.b_memory) + vector.b_address : nullptr;
  const uint8_t *pMemory = vector.p_count ? state.memory(vector.p_memory) + vector.p_address : nullptr;
  uint8_t *dMemory = state.memory(vector.d_memory) + vector.d_address;

  std::array<int64_t, 4> i;
  for (i[3] = 0; i[3] < vector.counts[3]; ++i[3])
    for (i[2] = 0; i[2] < vector.counts[2]; ++i[2])
      for (i[1] = 0; i[1] < vector.counts[1]; ++i[1])
        for (i[0] = 0; i[0] < vector.counts[0]; ++i[0]) {
          int64_t aOffset = 0, bOffset = 0, dOffset = 0;
          for (unsigned d = 0; d < 4; ++d) {
            aOffset += i[d] * vector.a_strides[d];
            bOffset += isMac && d < 3 ? 0 : i[d] * vector.b_strides[d];
            dOffset += i[d] * vector.d_strides[d];
          }
          const uint8_t *b = vector.b_enable ? bMemory + bOffset : nullptr;
          std::vector<Value> values = plainWindow(vector, lanes, aMemory + aOffset, b);
          for (int64_t lane = 0; lane < lanes; ++lane) {
            Value x = values[lane], saved = x, source;
            if (vector.b_enable && !isMac) {
              source = readElement(bType, b + lane * elementBytes(bType), vector.b_zero_point);
              if (Conversion(vector.b_convert) != Conversion::None && !source.isFloat)
                source = real(i2f(source.i));
              if (Conversion(vector.b_convert) == Conversion::Dequantize)
                source.f = source.f * floatFromBits(uint32_t(vector.immediates[vector.b_scale]));
            }
            for (int64_t s = 0; s < vector.num_stages; ++s) {
              int64_t operand = vector.stage_operand[s];
              StageOp op = StageOp(vector.stage_op[s]);
              Value y;
              const int64_t *immediates = vector.immediates.data();
              if (operand == int64_t(StageOperand::B)) {
                y = source;
              } else if (operand == int64_t(StageOperand::Saved)) {
                y = saved;
              } else if (operand >= kImmediate0) {
                immediates += operand - kImmediate0;
                uint32_t bits = uint32_t(*immediates);
                y = {false, int32_t(bits), floatFromBits(bits)};
              } else if (operand >= kParam0) {
                int64_t index = (i[3] * vector.p_count + operand - kParam0) * lanes + lane;
                int32_t bits = readI32(pMemory + 4 * index);
                y = {false, bits, floatFromBits(uint32_t(bits))};
              }
              if (op == StageOp::Save)
                saved = x;
              x = plainStage(op, x, y, source, saved, immediates, tables);
            }
            values[lane] = x;
          }
          // The whole vector is read before any of it is written.
          for (int64_t lane = 0; lane < lanes; ++lane)
            writeElement(dType, dMemory + dOffset + lane * elementBytes(dType), values[lane]);
        }
}

//===----------------------------------------------------------------------===//
// Strips: each step of the chain runs over all lanes of several output vectors before the next step
//===----------------------------------------------------------------------===//

constexpr int kStripElements = 1024;

/// Values of a strip, in the domain `isFloat` says.
struct Lanes {
  alignas(64) int32_t i[kStripElements];
  alignas(64) float f[kStripElements];
  bool isFloat = false;
};

/// Converts `count` consecutive elements.
TW_INLINE void readElements(VectorType type, const uint8_t *from, int64_t zeroPoint, int count, Lanes &to) {
  int32_t zero = int32_t(zeroPoint);
  int32_t *i = to.i;
  float *f = to.f;
  switch (type) {
  case VectorType::I8:
    for (int k = 0; k < count; ++k)
      i[k] = int8_t(from[k]) - zero;
    break;
  case VectorType::U8:
    for (int k = 0; k < count; ++k)
      i[k] = from[k] - zero;
    break;
  case VectorType::I32:
    for (int k = 0; k < count; ++k)
      i[k] = isub(readI32(from + 4 * k), zero);
    break;
  case VectorType::F32:
    std::memcpy(f, from, 4 * size_t(count));
    break;
  case VectorType::Bf16:
    for (int k = 0; k < count; ++k)
      f[k] = readBf16(from + 2 * k);
    break;
  }
  to.isFloat = isa::isFloat(type);
}

TW_INLINE void writeElements(VectorType type, uint8_t *to, const Lanes &from, int count) {
  switch (type) {
  case VectorType::I8:
    for (int k = 0; k < count; ++k)
      to[k] = uint8_t(saturateI8(from.i[k]));
    return;
  case VectorType::U8:
    for (int k = 0; k < count; ++k)
      to[k] = saturateU8(from.i[k]);
    return;
  case VectorType::I32:
    std::memcpy(to, from.i, 4 * size_t(count));
    return;
  case VectorType::F32:
    for (int k = 0; k < count; ++k) {
      float f = canonical(from.f[k]);
      std::memcpy(to + 4 * k, &f, 4);
    }
    return;
  case VectorType::Bf16:
    for (int k = 0; k < count; ++k) {
      uint16_t half = toBf16(from.f[k]);
      std::memcpy(to + 2 * k, &half, 2);
    }
    return;
  }
}

/// Where the vectors of a strip lie, as byte offsets of one operand.
struct Offsets {
  int64_t at[kStripElements];

  bool contiguous(int vectors, int64_t vectorBytes) const {
    for (int p = 1; p < vectors; ++p)
      if (at[p] - at[p - 1] != vectorBytes)
        return false;
    return true;
  }
};

/// Reads one vector per position.
TW_INLINE void gather(VectorType type, const uint8_t *base, const Offsets &offsets, int vectors, int lanes, int64_t zeroPoint,
                      Lanes &to) {
  int bytes = lanes * int(elementBytes(type));
  if (offsets.contiguous(vectors, bytes))
    return readElements(type, base + offsets.at[0], zeroPoint, vectors * lanes, to);
  alignas(64) uint8_t packed[4 * kStripElements];
  for (int p = 0; p < vectors; ++p)
    bytes == 16 ? std::memcpy(packed + p * 16, base + offsets.at[p], 16)
                : std::memcpy(packed + p * bytes, base + offsets.at[p], bytes);
  readElements(type, packed, zeroPoint, vectors * lanes, to);
}

TW_INLINE void scatter(VectorType type, const Lanes &from, int vectors, int lanes, uint8_t *base, const Offsets &offsets) {
  int bytes = lanes * int(elementBytes(type));
  if (offsets.contiguous(vectors, bytes))
    return writeElements(type, base + offsets.at[0], from, vectors * lanes);
  alignas(64) uint8_t packed[4 * kStripElements];
  writeElements(type, packed, from, vectors * lanes);
  for (int p = 0; p < vectors; ++p)
    bytes == 16 ? std::memcpy(base + offsets.at[p], packed + p * 16, 16)
                : std::memcpy(base + offsets.at[p], packed + p * bytes, bytes);
}

/// What a tap does to the value so far.
enum class TapMode { First, Max, Sum, Mac, SumSquares };

/// Adds one tap of every position to x, for the first `count` lanes; mac multiplies it by `weight`, sum_squares by itself. Type and mode are
/// fixed at compile time, so that the loop over lanes is all that is left.
template <VectorType Type, TapMode Mode>
TW_INLINE void addTapAs(const uint8_t *from, const Offsets &offsets, int vectors, int lanes, int count, int64_t zeroPoint,
                        const Lanes &weight, Lanes &x) {
  constexpr bool isFloat = isa::isFloat(Type);
  Lanes tap;
  for (int p = 0; p < vectors; ++p) {
    readElements(Type, from + offsets.at[p], zeroPoint, count, tap);
    int32_t *i = x.i + p * lanes;
    float *f = x.f + p * lanes;
    for (int k = 0; k < count; ++k) {
      if constexpr (isFloat)
        f[k] = Mode == TapMode::First ? tap.f[k]
               : Mode == TapMode::Max ? fmax(f[k], tap.f[k])
               : Mode == TapMode::Sum ? f[k] + tap.f[k]
                                      : f[k] + tap.f[k] * (Mode == TapMode::Mac ? weight.f[k] : tap.f[k]);
      else
        i[k] = Mode == TapMode::First ? tap.i[k]
               : Mode == TapMode::Max ? imax(i[k], tap.i[k])
               : Mode == TapMode::Sum ? iadd(i[k], tap.i[k])
                                      : iadd(i[k], imul(tap.i[k], Mode == TapMode::Mac ? weight.i[k] : tap.i[k]));
    }
  }
}

template <VectorType Type>
TW_INLINE void addTapOf(TapMode mode, const uint8_t *from, const Offsets &offsets, int vectors, int lanes, int count,
                        int64_t zeroPoint, const Lanes &weight, Lanes &x) {
  switch (mode) {
  case TapMode::First:
    return addTapAs<Type, TapMode::First>(from, offsets, vectors, lanes, count, zeroPoint, weight, x);
  case TapMode::Max:
    return addTapAs<Type, TapMode::Max>(from, offsets, vectors, lanes, count, zeroPoint, weight, x);
  case TapMode::Sum:
    return addTapAs<Type, TapMode::Sum>(from, offsets, vectors, lanes, count, zeroPoint, weight, x);
  case TapMode::Mac:
    return addTapAs<Type, TapMode::Mac>(from, offsets, vectors, lanes, count, zeroPoint, weight, x);
  case TapMode::SumSquares:
    return addTapAs<Type, TapMode::SumSquares>(from, offsets, vectors, lanes, count, zeroPoint, weight, x);
  }
}

TW_INLINE void addTap(VectorType type, TapMode mode, const uint8_t *from, const Offsets &offsets, int vectors, int lanes,
                      int count, int64_t zeroPoint, const Lanes &weight, Lanes &x) {
  switch (type) {
  case VectorType::I8:
    return addTapOf<VectorType::I8>(mode, from, offsets, vectors, lanes, count, zeroPoint, weight, x);
  case VectorType::U8:
    return addTapOf<VectorType::U8>(mode, from, offsets, vectors, lanes, count, zeroPoint, weight, x);
  case VectorType::I32:
    return addTapOf<VectorType::I32>(mode, from, offsets, vectors, lanes, count, zeroPoint, weight, x);
  case VectorType::F32:
    return addTapOf<VectorType::F32>(mode, from, offsets, vectors, lanes, count, zeroPoint, weight, x);
  case VectorType::Bf16:
    return addTapOf<VectorType::Bf16>(mode, from, offsets, vectors, lanes, count, zeroPoint, weight, x);
  }
}

/// Balanced tree over one vector's lanes, neighbours first; every lane gets the result. An odd one out moves up unchanged.
template <typename T> TW_INLINE void reduceLanes(WindowOp op, int lanes, T *x) {
  constexpr bool isFloat = std::is_same_v<T, float>;
  for (int count = lanes; count > 1; count = (count + 1) / 2) {
    for (int k = 0; k < count / 2; ++k) {
      T a = x[2 * k], b = x[2 * k + 1];
      if constexpr (isFloat)
        x[k] = op == WindowOp::Max ? fmax(a, b) : a + b;
      else
        x[k] = op == WindowOp::Max ? imax(a, b) : iadd(a, b);
    }
    if (count % 2)
      x[count / 2] = x[count - 1];
  }
  std::fill(x, x + lanes, x[0]);
}

/// Window and lane reduction of a strip. `weights` is the first tap's B vector.
TW_INLINE void windowStrip(const isa::Vector &vector, int lanes, const uint8_t *a, const Offsets &offsets, int vectors,
                           const uint8_t *weights, Lanes &x) {
  VectorType aType = VectorType(vector.a_type), bType = VectorType(vector.b_type);
  WindowOp op = WindowOp(vector.window_op);
  bool isMax = op == WindowOp::Max, isMac = op == WindowOp::Mac, sumsProducts = isMac || op == WindowOp::SumSquares;
  bool isPartial = vector.lane_reduce && vector.tail_lanes && vector.tail_lanes < lanes;
  x.isFloat = isa::isFloat(aType);
  // Lanes that are left out hold what leaves any value of the other operand as it is; sums of products start from 0.
  if (isPartial || sumsProducts) {
    std::fill(x.i, x.i + vectors * lanes, isMax ? INT32_MIN : 0);
    std::fill(x.f, x.f + vectors * lanes, isMax ? -__builtin_inff() : sumsProducts ? 0.0f : -0.0f);
  }
  Lanes weight;
  for (int64_t v = 0; v < vector.window[1]; ++v)
    for (int64_t h = 0; h < vector.window[0]; ++h) {
      const uint8_t *from = a + h * vector.a_window_strides[0] + v * vector.a_window_strides[1];
      int count = isPartial && h == vector.window[0] - 1 ? int(vector.tail_lanes) : lanes;
      bool isFirst = v == 0 && h == 0;
      TapMode mode = isMac          ? TapMode::Mac
                     : sumsProducts ? TapMode::SumSquares
                     : isFirst      ? TapMode::First
                     : isMax        ? TapMode::Max
                                    : TapMode::Sum;
      if (isMac)
        readElements(bType, weights + (v * vector.window[0] + h) * vector.b_tap_stride, vector.b_zero_point, count, weight);
      // The most common width gets loops of constant length.
      if (count == 16)
        addTap(aType, mode, from, offsets, vectors, lanes, 16, vector.a_zero_point, weight, x);
      else
        addTap(aType, mode, from, offsets, vectors, lanes, count, vector.a_zero_point, weight, x);
    }
  if (vector.lane_reduce)
    for (int p = 0; p < vectors; ++p)
      x.isFloat ? reduceLanes(op, lanes, x.f + p * lanes) : reduceLanes(op, lanes, x.i + p * lanes);
}

TW_INLINE void copyLanes(Lanes &to, const Lanes &from, int count) {
  to.isFloat = from.isFloat;
  if (from.isFloat)
    std::memcpy(to.f, from.f, 4 * size_t(count));
  else
    std::memcpy(to.i, from.i, 4 * size_t(count));
}

/// x becomes f(x, y, i) for every element; the function's result decides the domain.
#define TW_EACH(target, expression)                                                                                            \
  for (int k = 0; k < n; ++k)                                                                                                  \
    target[k] = (expression);                                                                                                  \
  break

/// One stage over `n` elements: the same scalar operations as plainStage(), the switch outside of the loop.
TW_INLINE void stage(StageOp op, int n, Lanes &x, const int32_t *yi, const float *yf, const Lanes &b, Lanes &saved,
                     const int64_t *immediates, const FunctionTables &tables) {
  int32_t *xi = x.i;
  float *xf = x.f;
  int32_t i0 = int32_t(uint32_t(immediates[0]));
  float f0 = floatFromBits(uint32_t(immediates[0])), f1 = 0;
  if (op == StageOp::Ffma || op == StageOp::Dequantize)
    f1 = floatFromBits(uint32_t(immediates[1]));
  switch (op) {
  case StageOp::Nop:
    break;
  case StageOp::Iadd:
    TW_EACH(xi, iadd(xi[k], yi[k]));
  case StageOp::Isub:
    TW_EACH(xi, isub(xi[k], yi[k]));
  case StageOp::Irsub:
    TW_EACH(xi, isub(yi[k], xi[k]));
  case StageOp::Imul:
    TW_EACH(xi, imul(xi[k], yi[k]));
  case StageOp::Imax:
    TW_EACH(xi, imax(xi[k], yi[k]));
  case StageOp::Imin:
    TW_EACH(xi, imin(xi[k], yi[k]));
  case StageOp::Idiv:
    TW_EACH(xi, idiv(xi[k], yi[k]));
  case StageOp::Iridiv:
    TW_EACH(xi, idiv(yi[k], xi[k]));
  case StageOp::Ishr:
    TW_EACH(xi, ishr(xi[k], yi[k]));
  case StageOp::Iand:
    TW_EACH(xi, xi[k] & yi[k]);
  case StageOp::Ior:
    TW_EACH(xi, xi[k] | yi[k]);
  case StageOp::Ixor:
    TW_EACH(xi, xi[k] ^ yi[k]);
  case StageOp::Fadd:
    TW_EACH(xf, xf[k] + yf[k]);
  case StageOp::Fsub:
    TW_EACH(xf, xf[k] - yf[k]);
  case StageOp::Frsub:
    TW_EACH(xf, yf[k] - xf[k]);
  case StageOp::Fmul:
    TW_EACH(xf, xf[k] * yf[k]);
  case StageOp::Fdiv:
    TW_EACH(xf, xf[k] / yf[k]);
  case StageOp::Frdiv:
    TW_EACH(xf, yf[k] / xf[k]);
  case StageOp::Fmax:
    TW_EACH(xf, fmax(xf[k], yf[k]));
  case StageOp::Fmin:
    TW_EACH(xf, fmin(xf[k], yf[k]));
  case StageOp::Ffma:
    TW_EACH(xf, __builtin_fmaf(xf[k], f0, f1));
  case StageOp::FfmaB:
    TW_EACH(xf, __builtin_fmaf(b.f[k], f0, xf[k]));
  case StageOp::Fabs:
    TW_EACH(xf, __builtin_fabsf(xf[k]));
  case StageOp::Fneg:
    TW_EACH(xf, -xf[k]);
  case StageOp::Ffloor:
    TW_EACH(xf, __builtin_floorf(xf[k]));
  case StageOp::Fsqrt:
    TW_EACH(xf, __builtin_sqrtf(xf[k]));
  case StageOp::Frsqrt:
    TW_EACH(xf, frsqrt(xf[k]));
  case StageOp::Fexp:
    TW_EACH(xf, timing::tableExp(tables, xf[k]));
  case StageOp::Fsigmoid:
    TW_EACH(xf, timing::tableSigmoid(tables, xf[k]));
  case StageOp::Ftanh:
    TW_EACH(xf, timing::tableTanh(tables, xf[k]));
  case StageOp::Ferf:
    TW_EACH(xf, timing::tableErf(tables, xf[k]));
  case StageOp::Flog:
    TW_EACH(xf, timing::tableLog(tables, xf[k]));
  case StageOp::I2f:
    x.isFloat = true;
    TW_EACH(xf, i2f(xi[k]));
  case StageOp::F2i:
    x.isFloat = false;
    TW_EACH(xi, f2i(xf[k]));
  case StageOp::F2iTrunc:
    x.isFloat = false;
    TW_EACH(xi, f2iTrunc(xf[k]));
  case StageOp::Quantize:
    x.isFloat = false;
    TW_EACH(xi, quantize(xf[k], i0));
  case StageOp::Dequantize:
    x.isFloat = true;
    TW_EACH(xf, dequantize(xi[k], i0, f1));
  case StageOp::Save:
    copyLanes(saved, x, n);
    break;
  case StageOp::LoadB:
    copyLanes(x, b, n);
    break;
  case StageOp::LoadSaved:
    copyLanes(x, saved, n);
    break;
  }
}
#undef TW_EACH

/// What one instruction needs in every strip.
struct Operands {
  const uint8_t *a, *b, *p;
  uint8_t *d;
  int lanes;
};

/// `vectors` outputs of channel block `block`.
TW_INLINE void strip(const isa::Vector &vector, const Operands &operands, int64_t block, int vectors, const Offsets &aAt,
                     const Offsets &bAt, const Offsets &dAt, const FunctionTables &tables) {
  int lanes = operands.lanes, n = vectors * lanes;
  WindowOp windowOp = WindowOp(vector.window_op);
  Lanes x, b, saved;
  if (windowOp == WindowOp::None && !vector.lane_reduce) {
    gather(VectorType(vector.a_type), operands.a, aAt, vectors, lanes, vector.a_zero_point, x);
  } else {
    const uint8_t *weights = windowOp == WindowOp::Mac ? operands.b + block * vector.b_strides[3] : nullptr;
    windowStrip(vector, lanes, operands.a, aAt, vectors, weights, x);
  }
  if (vector.b_enable && windowOp != WindowOp::Mac) {
    gather(VectorType(vector.b_type), operands.b, bAt, vectors, lanes, vector.b_zero_point, b);
    Conversion conversion = Conversion(vector.b_convert);
    if (conversion != Conversion::None && !b.isFloat) {
      for (int k = 0; k < n; ++k)
        b.f[k] = i2f(b.i[k]);
      b.isFloat = true;
    }
    if (conversion == Conversion::Dequantize) {
      float scale = floatFromBits(uint32_t(vector.immediates[vector.b_scale]));
      for (int k = 0; k < n; ++k)
        b.f[k] = b.f[k] * scale;
    }
  }
  bool savesItself = false, loadsEntry = false;
  for (int64_t s = 0; s < vector.num_stages; ++s) {
    bool reads =
        StageOperand(vector.stage_operand[s]) == StageOperand::Saved || StageOp(vector.stage_op[s]) == StageOp::LoadSaved;
    loadsEntry |= reads && !savesItself;
    savesItself |= StageOp(vector.stage_op[s]) == StageOp::Save;
  }
  if (loadsEntry)
    copyLanes(saved, x, n);

  alignas(64) int32_t words[kStripElements];
  alignas(64) float reals[kStripElements];
  for (int64_t s = 0; s < vector.num_stages; ++s) {
    int64_t operand = vector.stage_operand[s];
    const int32_t *yi = words;
    const float *yf = reals;
    const int64_t *immediates = vector.immediates.data();
    if (operand == int64_t(StageOperand::B)) {
      yi = b.i, yf = b.f;
    } else if (operand == int64_t(StageOperand::Saved)) {
      yi = saved.i, yf = saved.f;
    } else if (operand >= kImmediate0) {
      immediates += operand - kImmediate0;
      std::fill(words, words + n, int32_t(uint32_t(*immediates)));
      std::memcpy(reals, words, 4 * size_t(n));
    } else if (operand >= kParam0) {
      const uint8_t *param = operands.p + 4 * (block * vector.p_count + operand - kParam0) * lanes;
      for (int p = 0; p < vectors; ++p)
        lanes == 16 ? std::memcpy(words + p * 16, param, 64) : std::memcpy(words + p * lanes, param, 4 * lanes);
      std::memcpy(reals, words, 4 * size_t(n));
    }
    stage(StageOp(vector.stage_op[s]), n, x, yi, yf, b, saved, immediates, tables);
  }
  scatter(VectorType(vector.d_type), x, vectors, lanes, operands.d, dAt);
}

TW_INLINE void body(const isa::Vector &vector, core::MachineState &state) {
  const FunctionTables &tables = timing::functionTables();
  Operands operands;
  operands.lanes = int(state.machine().lanes);
  operands.a = state.memory(vector.a_memory) + vector.a_address;
  operands.b = vector.b_enable ? state.memory(vector.b_memory) + vector.b_address : nullptr;
  operands.p = vector.p_count ? state.memory(vector.p_memory) + vector.p_address : nullptr;
  operands.d = state.memory(vector.d_memory) + vector.d_address;

  // Where a vector may read what an earlier one wrote they go one by one.
  int limit = core::mayReadOwnResult(vector, state.machine()) ? 1 : kStripElements / operands.lanes;

  Offsets aAt, bAt, dAt;
  const std::array<int64_t, 4> &counts = vector.counts;
  for (int64_t c = 0; c < counts[3]; ++c) {
    int vectors = 0;
    for (int64_t i2 = 0; i2 < counts[2]; ++i2)
      for (int64_t i1 = 0; i1 < counts[1]; ++i1) {
        int64_t a = c * vector.a_strides[3] + i2 * vector.a_strides[2] + i1 * vector.a_strides[1];
        int64_t b = c * vector.b_strides[3] + i2 * vector.b_strides[2] + i1 * vector.b_strides[1];
        int64_t d = c * vector.d_strides[3] + i2 * vector.d_strides[2] + i1 * vector.d_strides[1];
        bool isLastRow = i2 + 1 == counts[2] && i1 + 1 == counts[1];
        for (int64_t i0 = 0; i0 < counts[0]; ++i0) {
          aAt.at[vectors] = a + i0 * vector.a_strides[0];
          bAt.at[vectors] = b + i0 * vector.b_strides[0];
          dAt.at[vectors] = d + i0 * vector.d_strides[0];
          if (++vectors == limit || (isLastRow && i0 + 1 == counts[0])) {
            strip(vector, operands, c, vectors, aAt, bAt, dAt, tables);
            vectors = 0;
          }
        }
      }
  }
}

void vectorPortable(const isa::Vector &vector, core::MachineState &state) { body(vector, state); }
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void vectorAvx2(const isa::Vector &vector, core::MachineState &state) {
  body(vector, state);
}
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))) void vectorAvx512(const isa::Vector &vector,
                                                                                         core::MachineState &state) {
  body(vector, state);
}
#endif

} // namespace

void tw::functional::executeVector(const isa::Vector &vector, core::MachineState &state, Kernel kernel) {
  if (kernel == Kernel::Plain || state.machine().lanes > kStripElements)
    return plain(vector, state);
#if defined(__x86_64__)
  if (kernel == Kernel::Avx512)
    return vectorAvx512(vector, state);
  if (kernel == Kernel::Avx2)
    return vectorAvx2(vector, state);
#endif
  vectorPortable(vector, state);
}
