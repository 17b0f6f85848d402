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

/// Element types of ONNX tensors. Those from F8E4M3FN on are for the host alone: no kernel computes in them.
enum class ElementKind : uint8_t {
  F32,
  F16,
  BF16,
  F64,
  I8,
  U8,
  I16,
  U16,
  I32,
  U32,
  I64,
  U64,
  Bool,
  F8E4M3FN,
  F8E4M3FNUZ,
  F8E5M2,
  F8E5M2FNUZ,
  F8E8M0,
  F4E2M1,
  I4,
  U4,
  I2,
  U2,
  Complex64,
  Complex128,
  String
};

/// Whether tensors of `kind` live on the host alone.
inline bool isHostOnly(ElementKind kind) { return kind >= ElementKind::F8E4M3FN; }

/// Size of one element: a Bool takes one byte, 0 or 1, and so does an element of less than 8 bits; a string takes none.
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
  /// The elements of a tensor of strings; else empty.
  std::vector<std::string> strings = {};
};

/// A float of 8 or 4 bits to float, exact. Precondition: `kind` is one of F8E4M3FN to F4E2M1.
float smallToFloat(ElementKind kind, uint8_t bits);
/// Float to such a float, to the nearest, ties to even. Beyond the range: the largest number with `saturates`, else infinity, or
/// NaN where there is none. Float4 always saturates, and of NaN it makes minus zero, as ONNX's tests do. F8E8M0: as
/// floatToPower() rounds up.
uint8_t floatToSmall(ElementKind kind, float value, bool saturates = true);

/// Which power of two stands for a number between two of them; `Nearest` takes the larger one of two that are as near.
enum class PowerRounding : uint8_t { Up, Down, Nearest };
/// The magnitude as F8E8M0. Outside of 2^-127 to 2^127: the nearest of these with `saturates`, else NaN.
/// source: ONNX, operator Cast, table of float8e8m0
uint8_t floatToPower(float value, PowerRounding rounding, bool saturates = true);

/// IEEE half to float, exact.
float halfToFloat(uint16_t bits);
/// Float to IEEE half, to the nearest, ties to even.
uint16_t floatToHalf(float value);
/// bfloat16 to float, exact.
float bfloatToFloat(uint16_t bits);
/// Float to bfloat16, to the nearest, ties to even.
uint16_t floatToBfloat(float value);
/// Double to float such that rounding the float further, to at most 22 bits, gives what rounding the double itself does: what is
/// between two floats becomes the one whose last bit is set.
float roundToOdd(double value);

} // namespace tw::frontend

#endif // COMPILER_FRONTEND_HOSTTENSOR_H
