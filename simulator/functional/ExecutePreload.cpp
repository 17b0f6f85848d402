//===- ExecutePreload.cpp - preload: a weight tile to the shadow registers ===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulator/functional/Execute.h"
#include "simulator/functional/StageOps.h"

using namespace tw;
using namespace tw::functional;

namespace {

/// Two rows at a time, the way the tile keeps them. The rest of the tile is 0.
template <typename Byte> void fillPairs(const isa::Preload &preload, const uint8_t *tile, core::WeightTile &weights) {
  const int zeroPoint = int(preload.zero_point);
  auto weight = [&](const uint8_t *element) { return int16_t(int(Byte(*element)) - zeroPoint); };
  if (preload.transpose) {
    for (int64_t n = 0; n < preload.n_count; ++n)
      for (int64_t k = 0; k < preload.k_count; ++k)
        weights.integer(uint32_t(k), uint32_t(n)) = weight(tile + n * preload.row_stride + k);
    return;
  }
  for (int64_t k = 0; k < preload.k_count; k += 2) {
    int16_t *pairs = &weights.integer(uint32_t(k), 0);
    const uint8_t *first = tile + k * preload.row_stride, *second = first + preload.row_stride;
    if (k + 1 < preload.k_count)
      for (int64_t n = 0; n < preload.n_count; ++n)
        pairs[2 * n] = weight(first + n), pairs[2 * n + 1] = weight(second + n);
    else
      for (int64_t n = 0; n < preload.n_count; ++n)
        pairs[2 * n] = weight(first + n);
  }
}

} // namespace

void tw::functional::executePreload(const isa::Preload &preload, core::MachineState &state) {
  timing::ArrayType type = state.machine().arrayType;
  int64_t elementBytes = timing::elementBytes(type);
  int64_t kStride = preload.transpose ? elementBytes : preload.row_stride;
  int64_t nStride = preload.transpose ? preload.row_stride : elementBytes;
  const uint8_t *tile = state.memory(preload.memory) + preload.address;

  auto fill = [&](auto set) {
    for (int64_t k = 0; k < preload.k_count; ++k)
      for (int64_t n = 0; n < preload.n_count; ++n)
        set(k, n, tile + k * kStride + n * nStride);
  };
  state.shadow.clear();
  switch (type) {
  case timing::ArrayType::Int8:
    return preload.is_signed ? fillPairs<int8_t>(preload, tile, state.shadow) : fillPairs<uint8_t>(preload, tile, state.shadow);
  case timing::ArrayType::Bf16:
    return fill([&](int64_t k, int64_t n, const uint8_t *element) { state.shadow.real(k, n) = readBf16(element); });
  case timing::ArrayType::Fp32:
    return fill([&](int64_t k, int64_t n, const uint8_t *element) { state.shadow.real(k, n) = readF32(element); });
  }
}
