//===- OnnxTensor.cpp - TensorProto to HostTensor -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/OnnxTensor.h"
#include <cstring>
#include <limits>
#include <onnx/onnx_pb.h>

namespace tw::frontend {

std::optional<int64_t> countTensorElements(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0 || dim > kMaxTensorElements)
      return std::nullopt;
    empty |= dim == 0;
    if (dim > 1 && count > kMaxTensorElements / dim)
      return std::nullopt;
    if (dim > 1)
      count *= dim;
  }
  return empty ? 0 : count;
}

std::optional<ElementKind> elementKindOf(int32_t onnxType) {
  switch (onnxType) {
  case onnx::TensorProto::FLOAT:
    return ElementKind::F32;
  case onnx::TensorProto::FLOAT16:
    return ElementKind::F16;
  case onnx::TensorProto::BFLOAT16:
    return ElementKind::BF16;
  case onnx::TensorProto::DOUBLE:
    return ElementKind::F64;
  case onnx::TensorProto::INT8:
    return ElementKind::I8;
  case onnx::TensorProto::UINT8:
    return ElementKind::U8;
  case onnx::TensorProto::INT16:
    return ElementKind::I16;
  case onnx::TensorProto::UINT16:
    return ElementKind::U16;
  case onnx::TensorProto::INT32:
    return ElementKind::I32;
  case onnx::TensorProto::UINT32:
    return ElementKind::U32;
  case onnx::TensorProto::INT64:
    return ElementKind::I64;
  case onnx::TensorProto::UINT64:
    return ElementKind::U64;
  case onnx::TensorProto::BOOL:
    return ElementKind::Bool;
  default:
    return std::nullopt;
  }
}

std::string onnxTypeName(int32_t onnxType) {
  if (auto kind = elementKindOf(onnxType))
    return elementName(*kind);
  // Types newer than the installed onnx library have no name there. source: onnx.proto of ONNX 1.16, TensorProto.DataType
  switch (onnxType) {
  case 0:
    return "undefined";
  case 8:
    return "string";
  case 14:
    return "complex64";
  case 15:
    return "complex128";
  case 17:
  case 18:
  case 19:
  case 20:
    return "float8";
  case 21:
    return "uint4";
  case 22:
    return "int4";
  default:
    return "type " + std::to_string(onnxType);
  }
}

static Diagnostic problem(std::string text) { return Diagnostic{"", 0, 0, std::move(text)}; }

static std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// Copies a typed field into `bytes` as elements of type T; false if a value does not fit T.
template <typename T, typename FieldT> static bool copyField(const FieldT &field, std::vector<uint8_t> &bytes) {
  bytes.resize(size_t(field.size()) * sizeof(T));
  size_t i = 0;
  for (auto value : field) {
    T narrow = static_cast<T>(value);
    if (static_cast<decltype(value)>(narrow) != value && value == value)
      return false;
    std::memcpy(bytes.data() + i * sizeof(T), &narrow, sizeof(T));
    ++i;
  }
  return true;
}

Result<HostTensor> decodeTensor(const onnx::TensorProto &proto) {
  HostTensor tensor;
  tensor.name = proto.name();
  tensor.shape.assign(proto.dims().begin(), proto.dims().end());
  if (proto.has_data_location() && proto.data_location() == onnx::TensorProto::EXTERNAL)
    return problem("its data is in another file, which is not supported: store the model with its weights inside");
  if (proto.has_segment())
    return problem("it is stored in segments, which is not supported");
  auto kind = elementKindOf(proto.data_type());
  if (!kind)
    return problem("it has element type " + onnxTypeName(proto.data_type()) + ", which is not supported");
  tensor.type = *kind;
  auto count = countTensorElements(tensor.shape);
  if (!count)
    return problem("its shape is " + shapeText(tensor.shape) +
                   ": no dim may be negative, and at most 2^31 elements are allowed");

  if (proto.has_raw_data()) {
    size_t expected = size_t(*count) * elementBytes(*kind);
    if (proto.raw_data().size() != expected)
      return problem("it holds " + std::to_string(proto.raw_data().size()) + " bytes, its shape " + shapeText(tensor.shape) +
                     " of " + elementName(*kind) + " needs " + std::to_string(expected));
    tensor.bytes.assign(proto.raw_data().begin(), proto.raw_data().end());
  } else {
    int64_t found = 0;
    bool fits = true;
    // source: onnx.proto, comments on the data fields of TensorProto
    switch (*kind) {
    case ElementKind::F32:
      if ((found = proto.float_data_size()) == *count)
        fits = copyField<float>(proto.float_data(), tensor.bytes);
      break;
    case ElementKind::F64:
      if ((found = proto.double_data_size()) == *count)
        fits = copyField<double>(proto.double_data(), tensor.bytes);
      break;
    case ElementKind::I64:
      if ((found = proto.int64_data_size()) == *count)
        fits = copyField<int64_t>(proto.int64_data(), tensor.bytes);
      break;
    case ElementKind::U64:
      if ((found = proto.uint64_data_size()) == *count)
        fits = copyField<uint64_t>(proto.uint64_data(), tensor.bytes);
      break;
    case ElementKind::U32:
      if ((found = proto.uint64_data_size()) == *count)
        fits = copyField<uint32_t>(proto.uint64_data(), tensor.bytes);
      break;
    default:
      found = proto.int32_data_size();
      if (found != *count)
        break;
      switch (*kind) {
      case ElementKind::I8:
        fits = copyField<int8_t>(proto.int32_data(), tensor.bytes);
        break;
      case ElementKind::U8:
        fits = copyField<uint8_t>(proto.int32_data(), tensor.bytes);
        break;
      case ElementKind::I16:
        fits = copyField<int16_t>(proto.int32_data(), tensor.bytes);
        break;
      case ElementKind::U16:
      case ElementKind::F16:
      case ElementKind::BF16:
        fits = copyField<uint16_t>(proto.int32_data(), tensor.bytes);
        break;
      case ElementKind::I32:
        fits = copyField<int32_t>(proto.int32_data(), tensor.bytes);
        break;
      default:
        fits = copyField<bool>(proto.int32_data(), tensor.bytes);
        break;
      }
    }
    if (found != *count)
      return problem("it holds " + std::to_string(found) + " values, its shape " + shapeText(tensor.shape) + " of " +
                     elementName(*kind) + " needs " + std::to_string(*count));
    if (!fits)
      return problem(std::string("it holds a value outside the range of ") + elementName(*kind));
  }
  if (*kind == ElementKind::Bool)
    for (uint8_t &byte : tensor.bytes)
      byte = byte != 0;
  return tensor;
}

} // namespace tw::frontend
