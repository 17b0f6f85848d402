//===- TensorMap.h - Tensor maps ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tensor maps: what cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col are told, and the rows of a box that they describe.
//===----------------------------------------------------------------------===//
#pragma once

#include "tests/gpu/emulator/Memory.h"

#include <algorithm>
#include <array>
#include <functional>

namespace tw::ptxemu {

enum class Swizzle : uint8_t { None, B32, B64, B128 };

/// XORs the 16-byte chunk of a shared address with its row in the pattern of `swizzle`.
inline uint32_t swizzled(uint32_t address, Swizzle swizzle) {
  switch (swizzle) {
  case Swizzle::B128:
    return address ^ ((address >> 3) & 0x70);
  case Swizzle::B64:
    return address ^ ((address >> 3) & 0x30);
  case Swizzle::B32:
    return address ^ ((address >> 3) & 0x10);
  case Swizzle::None:
    break;
  }
  return address;
}

/// The arguments of the driver's two encode functions, dimensions from the innermost.
struct TensorMap {
  Type type = Type::BF16;
  unsigned rank = 2;
  uint64_t address = 0;                        // of device memory, a multiple of 16
  std::array<uint64_t, 5> dims{1, 1, 1, 1, 1}; // elements
  std::array<uint64_t, 4> strides{}; // bytes, of dimensions 1 to rank - 1; multiples of 16; tensors may overlap themselves
  std::array<uint32_t, 5> box{1, 1, 1, 1, 1}; // elements; tiled maps only
  std::array<uint32_t, 5> elementStrides{1, 1, 1, 1, 1};
  Swizzle swizzle = Swizzle::None;

  bool im2col = false;
  std::array<int, 3> lowerCorner{}, upperCorner{}; // of dimensions 1 to rank - 2 (W, H, D)
  uint32_t channelsPerPixel = 0, pixelsPerColumn = 0;

  /// Throws Launch for what the driver refuses.
  void check() const;

  uint32_t rowBytes() const;
  uint32_t rows() const;
  /// Bytes that a load writes to shared memory, and that it reports to its mbarrier, zeros outside the tensor included.
  uint32_t boxBytes() const { return rowBytes() * rows(); }

  /// A row of the box in global memory: elements [firstValid, endValid) of it lie inside the tensor, from `address` on.
  struct Row {
    uint64_t address;
    uint32_t firstValid, endValid;
  };
  /// Calls `visit(row index, row)` in the order in which the rows lie in shared memory. Coordinates as in the instruction.
  void forEachRow(const int32_t *coordinates, const uint16_t *im2colOffsets,
                  const std::function<void(uint32_t, const Row &)> &visit) const;
};

} // namespace tw::ptxemu
