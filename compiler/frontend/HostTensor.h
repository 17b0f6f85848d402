//===- HostTensor.h - A tensor in host memory -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plain data, so that the runtime can hold tensors without LLVM.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_FRONTEND_HOSTTENSOR_H
#define COMPILER_FRONTEND_HOSTTENSOR_H

#include <cstdint>
#include <string>
#include <vector>

namespace tw::frontend {

/// Element types of ONNX tensors that hold numbers.
enum class ElementKind : uint8_t { F32, F16, BF16, F64, I8, U8, I16, U16, I32, U32, I64, U64, Bool };

/// Size of one element; a Bool takes one byte, 0 or 1.
unsigned elementBytes(ElementKind kind);
/// ONNX's name of the type: "float", "float16", "uint8", "bool", ...
const char *elementName(ElementKind kind);
bool isFloat(ElementKind kind);

/// A tensor with row-major elements, little-endian.
struct HostTensor {
  std::string name;
  ElementKind type = ElementKind::F32;
  std::vector<int64_t> shape;
  /// elementBytes(type) times the product of `shape`.
  std::vector<uint8_t> bytes;
};

/// IEEE half to float, exact.
float halfToFloat(uint16_t bits);
/// Float to IEEE half, to the nearest, ties to even.
uint16_t floatToHalf(float value);
/// bfloat16 to float, exact.
float bfloatToFloat(uint16_t bits);
/// Float to bfloat16, to the nearest, ties to even.
uint16_t floatToBfloat(float value);

} // namespace tw::frontend

#endif // COMPILER_FRONTEND_HOSTTENSOR_H
