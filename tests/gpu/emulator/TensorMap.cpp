//===- TensorMap.cpp - Boxes of tensor maps ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/TensorMap.h"

using namespace tw::ptxemu;

void TensorMap::check() const {
  auto require = [](bool condition, const std::string &message) {
    if (!condition)
      throw Error(ErrorKind::Launch, "tensor map: " + message);
  };
  const uint32_t bytes = bytesOf(type);
  require(type != Type::None && bytes <= 8, "unknown element type");
  require(rank >= 1 && rank <= 5, "the rank is " + std::to_string(rank) + " but must be 1 to 5");
  require(address % 16 == 0, "the address must be a multiple of 16");
  for (unsigned i = 0; i < rank; ++i)
    require(dims[i] >= 1 && dims[i] <= (uint64_t(1) << 32),
            "dimension " + std::to_string(i) + " is " + std::to_string(dims[i]) + " but must be 1 to 2^32");
  for (unsigned i = 0; i + 1 < rank; ++i)
    require(strides[i] % 16 == 0 && strides[i] < (uint64_t(1) << 40),
            "stride " + std::to_string(i) + " is " + std::to_string(strides[i]) + " but must be a multiple of 16 below 2^40");
  for (unsigned i = 0; i < rank; ++i)
    require(elementStrides[i] >= 1 && elementStrides[i] <= 8,
            "element stride " + std::to_string(i) + " is " + std::to_string(elementStrides[i]) + " but must be 1 to 8");
  if (im2col) {
    require(rank >= 3, "im2col needs a rank of 3 to 5");
    require(channelsPerPixel >= 1 && channelsPerPixel <= 256,
            "channels per pixel are " + std::to_string(channelsPerPixel) + " but must be 1 to 256");
    require(pixelsPerColumn >= 1 && pixelsPerColumn <= 1024,
            "pixels per column are " + std::to_string(pixelsPerColumn) + " but must be 1 to 1024");
    const int limit = rank == 3 ? 32768 : rank == 4 ? 128 : 16;
    for (unsigned i = 0; i + 2 < rank; ++i)
      require(lowerCorner[i] >= -limit && lowerCorner[i] < limit && upperCorner[i] >= -limit && upperCorner[i] < limit,
              "corners must be from " + std::to_string(-limit) + " to " + std::to_string(limit - 1));
  } else {
    for (unsigned i = 0; i < rank; ++i)
      require(box[i] >= 1 && box[i] <= 256,
              "box " + std::to_string(i) + " is " + std::to_string(box[i]) + " but must be 1 to 256");
  }
  require(rowBytes() % 16 == 0,
          "the inner row of the box has " + std::to_string(rowBytes()) + " bytes but needs a multiple of 16");
  const uint32_t span = swizzle == Swizzle::B128 ? 128 : swizzle == Swizzle::B64 ? 64 : swizzle == Swizzle::B32 ? 32 : 0;
  require(!span || rowBytes() <= span, "the inner row of the box has " + std::to_string(rowBytes()) +
                                           " bytes, more than the swizzle's " + std::to_string(span));
}

uint32_t TensorMap::rowBytes() const { return (im2col ? channelsPerPixel : box[0]) * bytesOf(type); }

uint32_t TensorMap::rows() const {
  if (im2col)
    return pixelsPerColumn;
  uint32_t rows = 1;
  for (unsigned i = 1; i < rank; ++i)
    rows *= (box[i] + elementStrides[i] - 1) / elementStrides[i];
  return rows;
}

void TensorMap::forEachRow(const int32_t *coordinates, const uint16_t *im2colOffsets,
                           const std::function<void(uint32_t, const Row &)> &visit) const {
  const uint32_t elements = im2col ? channelsPerPixel : box[0], bytes = bytesOf(type);
  auto makeRow = [&](const int64_t *at) {
    Row row{address, 0, 0};
    bool inside = true;
    for (unsigned i = 1; i < rank; ++i) {
      inside &= at[i] >= 0 && at[i] < int64_t(dims[i]);
      row.address += uint64_t(at[i]) * strides[i - 1];
    }
    const int64_t first = std::max<int64_t>(0, -at[0]);
    const int64_t end = std::min<int64_t>(elements, int64_t(dims[0]) - at[0]);
    if (inside && first < end) {
      row.firstValid = uint32_t(first);
      row.endValid = uint32_t(end);
      row.address += uint64_t(at[0] + first) * bytes;
    }
    return row;
  };
  int64_t at[5] = {};
  for (unsigned i = 0; i < rank; ++i)
    at[i] = coordinates[i];
  const uint32_t count = rows();
  if (!im2col) {
    uint32_t index[5] = {};
    for (uint32_t r = 0; r < count; ++r) {
      visit(r, makeRow(at));
      for (unsigned i = 1; i < rank; ++i) {
        at[i] += elementStrides[i];
        if (++index[i] < (box[i] + elementStrides[i] - 1) / elementStrides[i])
          break;
        index[i] = 0;
        at[i] = coordinates[i];
      }
    }
    return;
  }
  // The pixels of a column walk over the bounding box [lower, dim - 1 + upper] of every image, W first.
  for (uint32_t r = 0; r < count; ++r) {
    int64_t pixel[5];
    for (unsigned i = 0; i < rank; ++i)
      pixel[i] = at[i] + (i >= 1 && i + 1 < rank && im2colOffsets ? im2colOffsets[i - 1] : 0);
    visit(r, makeRow(pixel));
    unsigned i = 1;
    for (; i + 1 < rank; ++i) {
      at[i] += elementStrides[i];
      if (at[i] <= int64_t(dims[i]) - 1 + upperCorner[i - 1])
        break;
      at[i] = lowerCorner[i - 1];
    }
    if (i + 1 == rank)
      ++at[i];
  }
}
