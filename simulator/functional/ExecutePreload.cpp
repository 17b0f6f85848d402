//===- ExecutePreload.cpp - preload: a weight tile to the shadow registers ===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulator/functional/Execute.h"
#include "simulator/functional/StageOps.h"

using namespace tw;
using namespace tw::functional;

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
    return fill([&, isSigned = preload.is_signed, zeroPoint = preload.zero_point](int64_t k, int64_t n, const uint8_t *element) {
      state.shadow.integer(k, n) = int16_t((isSigned ? int64_t(int8_t(*element)) : int64_t(*element)) - zeroPoint);
    });
  case timing::ArrayType::Bf16:
    return fill([&](int64_t k, int64_t n, const uint8_t *element) { state.shadow.real(k, n) = readBf16(element); });
  case timing::ArrayType::Fp32:
    return fill([&](int64_t k, int64_t n, const uint8_t *element) { state.shadow.real(k, n) = readF32(element); });
  }
}
