//===- ExecuteTensor.cpp - tensor: activations through the MAC array ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulator/functional/Execute.h"
#include "simulator/functional/StageOps.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace tw;
using namespace tw::functional;
using core::WeightTile;

namespace {

//===----------------------------------------------------------------------===//
// The definition
//===----------------------------------------------------------------------===//

/// Sum of values[0, count) as a balanced tree, neighbours first; count is a power of two.
float treeSum(std::vector<float> values) {
  for (size_t count = values.size(); count > 1; count /= 2)
    for (size_t i = 0; i < count / 2; ++i)
      values[i] = values[2 * i] + values[2 * i + 1];
  return values[0];
}

/// One position: the activation vector at `vector` into the accumulator row at `row`.
void plainPosition(const isa::Tensor &tensor, const timing::MachineParams &machine, const WeightTile &weights,
                   const uint8_t *vector, uint8_t *row) {
  for (int64_t n = 0; n < machine.cols; ++n) {
    uint8_t *target = row + 4 * n;
    if (machine.arrayType == timing::ArrayType::Int8) {
      uint32_t sum = tensor.accumulate ? uint32_t(readI32(target)) : 0;
      for (int64_t k = 0; k < tensor.k_count; ++k) {
        int64_t a = (tensor.is_signed ? int64_t(int8_t(vector[k])) : int64_t(vector[k])) - tensor.zero_point;
        sum += uint32_t(a * weights.integer(k, n));
      }
      std::memcpy(target, &sum, 4);
      continue;
    }
    std::vector<float> products(machine.rows);
    for (int64_t k = 0; k < machine.rows; ++k) {
      float a = 0.0f;
      if (k < tensor.k_count)
        a = machine.arrayType == timing::ArrayType::Bf16 ? readBf16(vector + 2 * k) : readF32(vector + 4 * k);
      products[k] = a * weights.real(k, n);
    }
    float sum = treeSum(std::move(products));
    if (tensor.accumulate)
      sum = readF32(target) + sum;
    sum = canonical(sum);
    std::memcpy(target, &sum, 4);
  }
}

void plain(const isa::Tensor &tensor, core::MachineState &state) {
  const uint8_t *activations = state.memory(tensor.memory);
  uint8_t *accumulator = state.memory(int64_t(isa::Memory::Accumulator));
  int64_t rowBytes = state.machine().accumulatorRowBytes();
  std::array<int64_t, 3> i;
  for (i[2] = 0; i[2] < tensor.counts[2]; ++i[2])
    for (i[1] = 0; i[1] < tensor.counts[1]; ++i[1])
      for (i[0] = 0; i[0] < tensor.counts[0]; ++i[0]) {
        int64_t address = tensor.address, row = tensor.acc_address;
        for (unsigned d = 0; d < 3; ++d) {
          address += i[d] * tensor.strides[d];
          row += i[d] * tensor.acc_strides[d];
        }
        plainPosition(tensor, state.machine(), state.active, activations + address, accumulator + row * rowBytes);
      }
}

//===----------------------------------------------------------------------===//
// Strips: a few positions are converted to the array's operand form, then multiplied together
//===----------------------------------------------------------------------===//

constexpr int kStrip = 32;
constexpr int kMaxRows = 256;

/// Up to kStrip positions of one instruction. `Operand` is int16_t (activation minus zero point) or float.
template <typename Operand> struct Strip {
  alignas(64) Operand activations[kStrip * kMaxRows]; ///< [position][operandRows]
  uint8_t *rows[kStrip];                              ///< accumulator row of each position
  int positions = 0;
  int operandRows = 0; ///< array rows; for integers rounded up to even
};

/// Splits the walk of `tensor` into strips: convert(target, vector) fills one activation vector, compute(strip) consumes.
template <typename Operand, typename Convert, typename Compute>
TW_INLINE void forEachStrip(const isa::Tensor &tensor, core::MachineState &state, int operandRows, Convert convert,
                            Compute compute) {
  const uint8_t *activations = state.memory(tensor.memory) + tensor.address;
  int64_t rowBytes = state.machine().accumulatorRowBytes();
  uint8_t *accumulator = state.memory(int64_t(isa::Memory::Accumulator)) + tensor.acc_address * rowBytes;
  Strip<Operand> strip;
  strip.operandRows = operandRows;
  std::memset(strip.activations, 0, sizeof(Operand) * kStrip * operandRows);
  for (int64_t i2 = 0; i2 < tensor.counts[2]; ++i2)
    for (int64_t i1 = 0; i1 < tensor.counts[1]; ++i1) {
      const uint8_t *vector = activations + i2 * tensor.strides[2] + i1 * tensor.strides[1];
      uint8_t *row = accumulator + (i2 * tensor.acc_strides[2] + i1 * tensor.acc_strides[1]) * rowBytes;
      for (int64_t i0 = 0; i0 < tensor.counts[0]; ++i0) {
        convert(strip.activations + strip.positions * operandRows, vector + i0 * tensor.strides[0]);
        strip.rows[strip.positions] = row + i0 * tensor.acc_strides[0] * rowBytes;
        if (++strip.positions == kStrip) {
          compute(strip);
          strip.positions = 0;
        }
      }
    }
  if (strip.positions)
    compute(strip);
}

//===----------------------------------------------------------------------===//
// Integer arrays
//===----------------------------------------------------------------------===//

template <typename Byte> TW_INLINE void widen(int16_t *target, const uint8_t *vector, int count, int zeroPoint) {
  for (int k = 0; k < count; ++k)
    target[k] = int16_t(int(Byte(vector[k])) - zeroPoint);
}

/// Common vector lengths get loops of constant length.
template <typename Byte> TW_INLINE void widenVector(int16_t *target, const uint8_t *vector, int count, int zeroPoint) {
  switch (count) {
  case 16:
    return widen<Byte>(target, vector, 16, zeroPoint);
  case 32:
    return widen<Byte>(target, vector, 32, zeroPoint);
  default:
    return widen<Byte>(target, vector, count, zeroPoint);
  }
}

using IntegerCompute = void (*)(const Strip<int16_t> &strip, const WeightTile &weights, int cols, bool accumulate);

template <typename Byte>
TW_INLINE void integerBody(const isa::Tensor &tensor, core::MachineState &state, IntegerCompute compute) {
  int count = int(tensor.k_count), zeroPoint = int(tensor.zero_point), cols = int(state.machine().cols);
  bool accumulate = tensor.accumulate;
  forEachStrip<int16_t>(
      tensor, state, int(state.machine().rows + 1) / 2 * 2,
      [&](int16_t * target, const uint8_t *vector)
          __attribute__((always_inline)) { widenVector<Byte>(target, vector, count, zeroPoint); },
      [&](const Strip<int16_t> &strip) __attribute__((always_inline)) { compute(strip, state.active, cols, accumulate); });
}

TW_INLINE void integerOf(const isa::Tensor &tensor, core::MachineState &state, IntegerCompute compute) {
  tensor.is_signed ? integerBody<int8_t>(tensor, state, compute) : integerBody<uint8_t>(tensor, state, compute);
}

void integerPortable(const Strip<int16_t> &strip, const WeightTile &weights, int cols, bool accumulate) {
  for (int p = 0; p < strip.positions; ++p) {
    uint32_t sums[kMaxRows] = {};
    if (accumulate)
      std::memcpy(sums, strip.rows[p], 4 * cols);
    const int16_t *a = strip.activations + p * strip.operandRows;
    const int16_t *w = weights.pairs();
    for (int k = 0; k < strip.operandRows; k += 2, w += 2 * weights.paddedCols())
      for (int n = 0; n < cols; ++n)
        sums[n] += uint32_t(a[k] * w[2 * n] + a[k + 1] * w[2 * n + 1]);
    std::memcpy(strip.rows[p], sums, 4 * cols);
  }
}

#if defined(__x86_64__)
#define TW_AVX2 __attribute__((target("avx2,fma")))
#define TW_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")))

TW_INLINE int32_t pairBits(const int16_t *pair) {
  int32_t bits;
  std::memcpy(&bits, pair, 4);
  return bits;
}

/// `Block` positions from `first` on, 8 columns at a time.
template <int Block>
TW_AVX2 inline void integerBlockAvx2(const Strip<int16_t> &strip, int first, const WeightTile &weights, int cols,
                                     bool accumulate) {
  const int16_t *a = strip.activations + first * strip.operandRows;
  for (int n = 0; n < cols; n += 8) {
    __m256i sums[Block];
    for (int p = 0; p < Block; ++p)
      sums[p] = accumulate ? _mm256_loadu_si256((const __m256i *)(strip.rows[first + p] + 4 * n)) : _mm256_setzero_si256();
    const int16_t *w = weights.pairs() + 2 * n;
    for (int k = 0; k < strip.operandRows; k += 2, w += 2 * weights.paddedCols()) {
      __m256i weight = _mm256_loadu_si256((const __m256i *)w);
      for (int p = 0; p < Block; ++p)
        sums[p] =
            _mm256_add_epi32(sums[p], _mm256_madd_epi16(_mm256_set1_epi32(pairBits(a + p * strip.operandRows + k)), weight));
    }
    for (int p = 0; p < Block; ++p)
      _mm256_storeu_si256((__m256i *)(strip.rows[first + p] + 4 * n), sums[p]);
  }
}

TW_AVX2 void integerStripAvx2(const Strip<int16_t> &strip, const WeightTile &weights, int cols, bool accumulate) {
  if (cols < 8)
    return integerPortable(strip, weights, cols, accumulate);
  int p = 0;
  for (; p + 8 <= strip.positions; p += 8)
    integerBlockAvx2<8>(strip, p, weights, cols, accumulate);
  for (; p < strip.positions; ++p)
    integerBlockAvx2<1>(strip, p, weights, cols, accumulate);
}

/// `Block` positions from `first` on, 16 columns at a time.
template <int Block>
TW_AVX512 inline void integerBlockAvx512(const Strip<int16_t> &strip, int first, const WeightTile &weights, int cols,
                                         bool accumulate) {
  const int16_t *a = strip.activations + first * strip.operandRows;
  for (int n = 0; n < cols; n += 16) {
    __mmask16 mask = cols - n >= 16 ? 0xffff : (1u << (cols - n)) - 1;
    __m512i sums[Block];
    for (int p = 0; p < Block; ++p)
      sums[p] = accumulate ? _mm512_maskz_loadu_epi32(mask, strip.rows[first + p] + 4 * n) : _mm512_setzero_si512();
    const int16_t *w = weights.pairs() + 2 * n;
    for (int k = 0; k < strip.operandRows; k += 2, w += 2 * weights.paddedCols()) {
      __m512i weight = _mm512_loadu_si512(w);
      for (int p = 0; p < Block; ++p)
        sums[p] = _mm512_dpwssd_epi32(sums[p], _mm512_set1_epi32(pairBits(a + p * strip.operandRows + k)), weight);
    }
    for (int p = 0; p < Block; ++p)
      _mm512_mask_storeu_epi32(strip.rows[first + p] + 4 * n, mask, sums[p]);
  }
}

TW_AVX512 void integerStripAvx512(const Strip<int16_t> &strip, const WeightTile &weights, int cols, bool accumulate) {
  int p = 0;
  for (; p + 8 <= strip.positions; p += 8)
    integerBlockAvx512<8>(strip, p, weights, cols, accumulate);
  for (; p < strip.positions; ++p)
    integerBlockAvx512<1>(strip, p, weights, cols, accumulate);
}

/// Makes quads of the pairs of a tile with `cols` columns, a multiple of 16.
TW_AVX512 bool packQuadsAvx512(const int16_t *pairs, int8_t *quads, size_t rows, size_t cols) {
  __mmask32 beyond = 0;
  for (size_t k = 0; k < rows; k += 4)
    for (size_t n = 0; n < cols; n += 16) {
      __m512i first = _mm512_loadu_si512(pairs + k * cols + 2 * n), second = _mm512_loadu_si512(pairs + (k + 2) * cols + 2 * n);
      __m256i low = _mm512_cvtepi16_epi8(first), high = _mm512_cvtepi16_epi8(second);
      beyond |= _mm512_cmpneq_epi16_mask(first, _mm512_cvtepi8_epi16(low)) |
                _mm512_cmpneq_epi16_mask(second, _mm512_cvtepi8_epi16(high));
      __m512i four = _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
      _mm512_storeu_si512(quads + k * cols + 4 * n, four);
    }
  return !beyond;
}

/// What positions of one instruction share. Activations are read as unsigned bytes, u = a + offset: the sum over
/// (a - zero_point) * w is the sum over u * w plus `corrections`, which depend on the column alone.
struct ByteOperands {
  alignas(64) int32_t corrections[kMaxRows];
  alignas(64) uint8_t flip[64]; ///< 0x80 where activations are signed: adds 128
  const WeightTile *weights;
  int quads, cols;
  bool accumulate;
  int64_t vectorStride, rowStride; ///< bytes from one position to the next
};

/// `Block` positions in a row, 16 columns at a time, four rows a multiply-add.
template <int Block> TW_AVX512 inline void byteBlockAvx512(const ByteOperands &operands, const uint8_t *vector, uint8_t *row) {
  const __m512i flip = _mm512_load_si512(operands.flip);
  for (int n = 0; n < operands.cols; n += 16) {
    const int columns = operands.cols - n;
    __mmask16 mask = columns >= 16 ? 0xffff : (1u << columns) - 1;
    __m512i correction = _mm512_load_si512(operands.corrections + n);
    __m512i sums[Block];
    for (int p = 0; p < Block; ++p)
      sums[p] = operands.accumulate
                    ? _mm512_add_epi32(_mm512_maskz_loadu_epi32(mask, row + p * operands.rowStride + 4 * n), correction)
                    : correction;
    const int8_t *w = operands.weights->quads() + 4 * n;
    for (int k = 0; k < operands.quads; ++k, w += 4 * operands.weights->paddedCols()) {
      __m512i weight = _mm512_loadu_si512(w);
      for (int p = 0; p < Block; ++p) {
        int32_t four;
        std::memcpy(&four, vector + p * operands.vectorStride + 4 * k, 4);
        sums[p] = _mm512_dpbusd_epi32(sums[p], _mm512_xor_si512(_mm512_set1_epi32(four), flip), weight);
      }
    }
    for (int p = 0; p < Block; ++p)
      _mm512_mask_storeu_epi32(row + p * operands.rowStride + 4 * n, mask, sums[p]);
  }
}

/// `count` positions in a row, as many as possible in blocks of `Block`.
template <int Block>
TW_AVX512 inline void byteRunAvx512(const ByteOperands &operands, const uint8_t *vector, uint8_t *row, int64_t count) {
  for (; count >= Block; count -= Block) {
    byteBlockAvx512<Block>(operands, vector, row);
    vector += Block * operands.vectorStride;
    row += Block * operands.rowStride;
  }
  if constexpr (Block > 1)
    byteRunAvx512<Block / 2>(operands, vector, row, count);
}

/// Precondition: k_count is a multiple of 4, and the weights fit bytes.
TW_AVX512 void bytesAvx512(const isa::Tensor &tensor, core::MachineState &state) {
  const WeightTile &weights = state.active;
  const int64_t rowBytes = state.machine().accumulatorRowBytes();
  ByteOperands operands;
  operands.weights = &weights;
  operands.quads = int(tensor.k_count) / 4;
  operands.cols = int(state.machine().cols);
  operands.accumulate = tensor.accumulate;
  operands.vectorStride = tensor.strides[0];
  operands.rowStride = tensor.acc_strides[0] * rowBytes;
  std::memset(operands.flip, tensor.is_signed ? 0x80 : 0, sizeof operands.flip);
  for (int n = 0; n < operands.cols; n += 16) {
    __m512i sums = _mm512_setzero_si512();
    for (int k = 0; k < operands.quads; ++k)
      sums = _mm512_dpbusd_epi32(sums, _mm512_set1_epi8(1),
                                 _mm512_loadu_si512(weights.quads() + 4 * (size_t(k) * weights.paddedCols() + n)));
    const int offset = (tensor.is_signed ? 128 : 0) + int(tensor.zero_point);
    _mm512_store_si512(operands.corrections + n, _mm512_mullo_epi32(sums, _mm512_set1_epi32(-offset)));
  }
  const uint8_t *activations = state.memory(tensor.memory) + tensor.address;
  uint8_t *accumulator = state.memory(int64_t(isa::Memory::Accumulator)) + tensor.acc_address * rowBytes;
  for (int64_t i2 = 0; i2 < tensor.counts[2]; ++i2)
    for (int64_t i1 = 0; i1 < tensor.counts[1]; ++i1)
      byteRunAvx512<8>(operands, activations + i2 * tensor.strides[2] + i1 * tensor.strides[1],
                       accumulator + (i2 * tensor.acc_strides[2] + i1 * tensor.acc_strides[1]) * rowBytes, tensor.counts[0]);
}

TW_AVX2 void integerAvx2(const isa::Tensor &tensor, core::MachineState &state) { integerOf(tensor, state, integerStripAvx2); }
TW_AVX512 void integerAvx512(const isa::Tensor &tensor, core::MachineState &state) {
  if (tensor.k_count % 4 == 0 && state.active.quads())
    return bytesAvx512(tensor, state);
  integerOf(tensor, state, integerStripAvx512);
}
#endif

//===----------------------------------------------------------------------===//
// Float arrays
//===----------------------------------------------------------------------===//

/// 16 columns; the compiler splits it where the host's registers are narrower.
typedef float Columns __attribute__((vector_size(64)));
typedef int32_t ColumnBits __attribute__((vector_size(64)));

/// Rows of the largest tree that is written out.
constexpr int kTreeRows = 16;

/// The sum over `Rows` rows from the first on, neighbours first: the halves of a
/// balanced tree are the trees of the halves.
template <int Rows> TW_INLINE void tree(const float *a, const float *weights, size_t pitch, Columns &sum) {
  if constexpr (Rows == 1) {
    std::memcpy(&sum, weights, sizeof sum);
    sum = sum * *a;
  } else {
    Columns right;
    tree<Rows / 2>(a, weights, pitch, sum);
    tree<Rows / 2>(a + Rows / 2, weights + Rows / 2 * pitch, pitch, right);
    sum = sum + right;
  }
}

/// Constant lengths become plain vector loads and stores.
TW_INLINE void copyColumns(void *to, const void *from, int columns) {
  columns == 16  ? std::memcpy(to, from, 64)
  : columns == 8 ? std::memcpy(to, from, 32)
                 : std::memcpy(to, from, 4 * size_t(columns));
}

/// `blocks` blocks of `Rows` rows, both powers of two: the block's trees are
/// written out, those above them are loops.
template <int Rows>
TW_INLINE void floatStrip(int blocks, const Strip<float> &strip, const WeightTile &weights, int cols, bool accumulate) {
  ColumnBits nan = ColumnBits{} + int32_t(timing::kCanonicalNan);
  for (int n = 0; n < cols; n += 16) {
    int columns = std::min(16, cols - n);
    for (int p = 0; p < strip.positions; ++p) {
      uint8_t *row = strip.rows[p] + 4 * n;
      const float *a = strip.activations + p * strip.operandRows;
      const float *w = weights.floats() + n;
      size_t pitch = weights.paddedCols();
      Columns sums[kMaxRows / kTreeRows];
      for (int block = 0; block < blocks; ++block)
        tree<Rows>(a + block * Rows, w + block * Rows * pitch, pitch, sums[block]);
      for (int count = blocks; count > 1; count /= 2)
        for (int i = 0; i < count / 2; ++i)
          sums[i] = sums[2 * i] + sums[2 * i + 1];
      Columns sum = sums[0];
      if (accumulate) {
        Columns old = {};
        copyColumns(&old, row, columns);
        sum = old + sum;
      }
      ColumnBits ordered = sum == sum;
      ColumnBits bits;
      std::memcpy(&bits, &sum, 64);
      bits = (bits & ordered) | (nan & ~ordered);
      copyColumns(row, &bits, columns);
    }
  }
}

TW_INLINE void floatBody(const isa::Tensor &tensor, core::MachineState &state) {
  int count = int(tensor.k_count), cols = int(state.machine().cols), rows = int(state.machine().rows);
  bool accumulate = tensor.accumulate, isBf16 = state.machine().arrayType == timing::ArrayType::Bf16;
  auto convert = [&](float *target, const uint8_t *vector) __attribute__((always_inline)) {
    if (!isBf16) {
      std::memcpy(target, vector, 4 * count);
      return;
    }
    for (int k = 0; k < count; ++k)
      target[k] = readBf16(vector + 2 * k);
  };
  auto compute = [&](const Strip<float> &strip) __attribute__((always_inline)) {
    const WeightTile &weights = state.active;
    switch (rows) {
    case 1:
      return floatStrip<1>(1, strip, weights, cols, accumulate);
    case 2:
      return floatStrip<2>(1, strip, weights, cols, accumulate);
    case 4:
      return floatStrip<4>(1, strip, weights, cols, accumulate);
    case 8:
      return floatStrip<8>(1, strip, weights, cols, accumulate);
    default:
      return floatStrip<kTreeRows>(rows / kTreeRows, strip, weights, cols, accumulate);
    }
  };
  forEachStrip<float>(tensor, state, rows, convert, compute);
}

void floatPortable(const isa::Tensor &tensor, core::MachineState &state) { floatBody(tensor, state); }
#if defined(__x86_64__)
TW_AVX2 void floatAvx2(const isa::Tensor &tensor, core::MachineState &state) { floatBody(tensor, state); }
TW_AVX512 void floatAvx512(const isa::Tensor &tensor, core::MachineState &state) { floatBody(tensor, state); }
#endif

/// Kernels wider than the host has are never chosen; elsewhere than on x86 all fall back to portable code.
void fast(const isa::Tensor &tensor, core::MachineState &state, Kernel kernel) {
  if (state.machine().arrayType == timing::ArrayType::Int8) {
#if defined(__x86_64__)
    if (kernel == Kernel::Avx512)
      return integerAvx512(tensor, state);
    if (kernel == Kernel::Avx2)
      return integerAvx2(tensor, state);
#endif
    return integerOf(tensor, state, integerPortable);
  }
#if defined(__x86_64__)
  if (kernel == Kernel::Avx512)
    return floatAvx512(tensor, state);
  if (kernel == Kernel::Avx2)
    return floatAvx2(tensor, state);
#endif
  floatPortable(tensor, state);
}

} // namespace

void tw::functional::executeTensor(const isa::Tensor &tensor, core::MachineState &state, Kernel kernel) {
  assert(state.machine().rows <= kMaxRows && state.machine().cols <= kMaxRows && "k_count and n_count have 9 bits");
  if (tensor.swap) {
    state.active = state.shadow;
#if defined(__x86_64__)
    if (kernel == Kernel::Avx512 && state.machine().arrayType == timing::ArrayType::Int8)
      state.active.packQuads([&](const int16_t *pairs, int8_t *quads, size_t rows) {
        return packQuadsAvx512(pairs, quads, rows, state.active.paddedCols());
      });
#endif
  }
  kernel == Kernel::Plain ? plain(tensor, state) : fast(tensor, state, kernel);
}
