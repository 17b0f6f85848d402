//===- OnnxTensor.h - TensorProto to HostTensor -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_FRONTEND_ONNXTENSOR_H
#define COMPILER_FRONTEND_ONNXTENSOR_H

#include "compiler/frontend/HostTensor.h"
#include "isa/Diagnostic.h"
#include <optional>

namespace onnx {
class TensorProto;
}

namespace tw::frontend {

/// The most elements a tensor of a model may have: the product of its dims stays far from overflow.
inline constexpr int64_t kMaxTensorElements = int64_t(1) << 31;

/// The most dims a tensor of a model may have.
inline constexpr size_t kMaxRank = 64;

/// The product of non-negative dims; nothing if a dim is negative or the product exceeds kMaxTensorElements.
std::optional<int64_t> countTensorElements(const std::vector<int64_t> &shape);

/// The last TensorProto.DataType value that elementKindOf() knows.
inline constexpr int32_t kLastOnnxType = 26;
/// The element type for a TensorProto.DataType value; nothing for values that are none.
std::optional<ElementKind> elementKindOf(int32_t onnxType);
/// The other way.
int32_t onnxTypeOf(ElementKind kind);

/// ONNX's name of a TensorProto.DataType value, or its number.
std::string onnxTypeName(int32_t onnxType);

/// The other way of decodeTensor(): raw data, or strings.
onnx::TensorProto encodeTensor(const HostTensor &tensor, const std::string &name);

/// Decodes raw data, typed fields, or a file in or below `folder` that the tensor names; an empty `folder` allows none. Nothing is allocated
/// before the dims agree with the data. The error has no file.
Result<HostTensor> decodeTensor(const onnx::TensorProto &proto, const std::string &folder = "");

} // namespace tw::frontend

#endif // COMPILER_FRONTEND_ONNXTENSOR_H
