//===- OnnxTensor.cpp - TensorProto to HostTensor -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/OnnxTensor.h"
#include "isa/Printable.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
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
  case onnx::TensorProto::STRING:
    return ElementKind::String;
  case onnx::TensorProto::COMPLEX64:
    return ElementKind::Complex64;
  case onnx::TensorProto::COMPLEX128:
    return ElementKind::Complex128;
  // Newer than the installed onnx library. source: onnx.proto of ONNX 1.20, TensorProto.DataType
  case 17:
    return ElementKind::F8E4M3FN;
  case 18:
    return ElementKind::F8E4M3FNUZ;
  case 19:
    return ElementKind::F8E5M2;
  case 20:
    return ElementKind::F8E5M2FNUZ;
  case 21:
    return ElementKind::U4;
  case 22:
    return ElementKind::I4;
  case 23:
    return ElementKind::F4E2M1;
  case 24:
    return ElementKind::F8E8M0;
  case 25:
    return ElementKind::U2;
  case 26:
    return ElementKind::I2;
  default:
    return std::nullopt;
  }
}

int32_t onnxTypeOf(ElementKind kind) {
  for (int32_t type = 1; type <= kLastOnnxType; ++type)
    if (elementKindOf(type) == kind)
      return type;
  return 0;
}

/// Elements in a byte of packed data; 1 for those of whole bytes.
static int perByte(ElementKind kind) {
  switch (kind) {
  case ElementKind::F4E2M1:
  case ElementKind::I4:
  case ElementKind::U4:
    return 2;
  case ElementKind::I2:
  case ElementKind::U2:
    return 4;
  default:
    return 1;
  }
}

/// One element a byte, the sign extended, of elements that lie several in a byte, the first in the lowest bits.
static std::vector<uint8_t> unpack(ElementKind kind, const std::vector<uint8_t> &packed, int64_t count) {
  const int each = perByte(kind), bits = 8 / each;
  std::vector<uint8_t> bytes(size_t(count), 0);
  for (int64_t i = 0; i < count; ++i) {
    uint8_t value = uint8_t(packed[size_t(i / each)] >> (bits * (i % each))) & uint8_t((1 << bits) - 1);
    if ((kind == ElementKind::I4 || kind == ElementKind::I2) && (value >> (bits - 1)))
      value |= uint8_t(0xff << bits);
    bytes[size_t(i)] = value;
  }
  return bytes;
}

std::string onnxTypeName(int32_t onnxType) {
  if (auto kind = elementKindOf(onnxType))
    return elementName(*kind);
  return onnxType == 0 ? "undefined" : "type " + std::to_string(onnxType);
}

/// The other way of unpack().
static std::vector<uint8_t> pack(const HostTensor &tensor) {
  const int each = perByte(tensor.type), bits = 8 / each;
  std::vector<uint8_t> packed((tensor.bytes.size() + size_t(each) - 1) / size_t(each), 0);
  for (size_t i = 0; i < tensor.bytes.size(); ++i)
    packed[i / size_t(each)] |= uint8_t((tensor.bytes[i] & ((1 << bits) - 1)) << (bits * int(i % size_t(each))));
  return packed;
}

onnx::TensorProto encodeTensor(const HostTensor &tensor, const std::string &name) {
  onnx::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(onnxTypeOf(tensor.type));
  for (int64_t dim : tensor.shape)
    proto.add_dims(dim);
  if (tensor.type == ElementKind::String) {
    for (const std::string &text : tensor.strings)
      proto.add_string_data(text);
    return proto;
  }
  const std::vector<uint8_t> bytes = perByte(tensor.type) > 1 ? pack(tensor) : tensor.bytes;
  proto.set_raw_data(bytes.data(), bytes.size());
  return proto;
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

/// The bytes of a tensor in a file of its own. source: onnx.proto, comments on TensorProto.external_data
static Result<std::string> readExternal(const onnx::TensorProto &proto, const std::string &folder, uint64_t expected) {
  if (folder.empty())
    return problem("its data is in another file, but the model was not read from a folder");
  std::string location;
  uint64_t offset = 0, length = expected;
  for (const onnx::StringStringEntryProto &entry : proto.external_data()) {
    if (entry.key() == "location")
      location = entry.value();
    else if (entry.key() == "offset" || entry.key() == "length") {
      char *end = nullptr;
      errno = 0;
      const uint64_t number = std::strtoull(entry.value().c_str(), &end, 10);
      if (entry.value().empty() || *end || errno || entry.value()[0] == '-')
        return problem("the " + entry.key() + " of its data is \"" + printable(entry.value()) +
                       "\", expected a number of bytes");
      (entry.key() == "offset" ? offset : length) = number;
    }
  }
  const std::filesystem::path path = location;
  if (location.empty() || path.is_absolute() || std::count(path.begin(), path.end(), ".."))
    return problem("its data is in file \"" + printable(location) + "\", expected a path below the model's folder");
  if (length != expected)
    return problem("its data has " + std::to_string(length) + " bytes, its shape and type need " + std::to_string(expected));
  // A small file that is said to be large costs no memory, and what is no plain file is not opened.
  const std::filesystem::path full = std::filesystem::path(folder) / path;
  std::error_code none;
  const bool isFile = std::filesystem::is_regular_file(full, none);
  const uint64_t size = isFile ? uint64_t(std::filesystem::file_size(full, none)) : 0;
  const bool fits = isFile && !none && offset <= size && expected <= size - offset;
  std::string bytes(fits ? size_t(expected) : 0, '\0');
  std::ifstream file;
  if (fits)
    file.open(full, std::ios::binary);
  if (!fits || !file || !file.seekg(std::streamoff(offset)) || !file.read(bytes.data(), std::streamsize(expected)))
    return problem("its data, " + std::to_string(expected) + " bytes from " + std::to_string(offset) + " on of file \"" +
                   printable(location) + "\" beside the model, cannot be read");
  return bytes;
}

Result<HostTensor> decodeTensor(const onnx::TensorProto &proto, const std::string &folder) {
  HostTensor tensor;
  tensor.name = proto.name();
  tensor.shape.assign(proto.dims().begin(), proto.dims().end());
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

  const int each = perByte(*kind);
  if (*kind == ElementKind::String) {
    if (proto.string_data_size() != *count)
      return problem("it holds " + std::to_string(proto.string_data_size()) + " strings, its shape " + shapeText(tensor.shape) +
                     " needs " + std::to_string(*count));
    tensor.strings.assign(proto.string_data().begin(), proto.string_data().end());
    return tensor;
  }
  if (proto.has_data_location() && proto.data_location() == onnx::TensorProto::EXTERNAL) {
    const uint64_t expected = each > 1 ? uint64_t((*count + each - 1) / each) : uint64_t(*count) * elementBytes(*kind);
    Result<std::string> bytes = readExternal(proto, folder, expected);
    if (!bytes)
      return bytes.diagnostics();
    tensor.bytes.assign(bytes->begin(), bytes->end());
    if (each > 1)
      tensor.bytes = unpack(*kind, tensor.bytes, *count);
  } else if (proto.has_raw_data()) {
    size_t expected = each > 1 ? size_t((*count + each - 1) / each) : size_t(*count) * elementBytes(*kind);
    if (proto.raw_data().size() != expected)
      return problem("it holds " + std::to_string(proto.raw_data().size()) + " bytes, its shape " + shapeText(tensor.shape) +
                     " of " + elementName(*kind) + " needs " + std::to_string(expected));
    tensor.bytes.assign(proto.raw_data().begin(), proto.raw_data().end());
    if (each > 1)
      tensor.bytes = unpack(*kind, tensor.bytes, *count);
  } else if (each > 1) {
    const int64_t expected = (*count + each - 1) / each;
    std::vector<uint8_t> packed;
    bool fits = true;
    for (int32_t value : proto.int32_data()) {
      fits &= value >= -128 && value < 256;
      packed.push_back(uint8_t(value));
    }
    if (int64_t(packed.size()) != expected || !fits)
      return problem("it holds " + std::to_string(packed.size()) + " values of a byte, its shape " + shapeText(tensor.shape) +
                     " of " + elementName(*kind) + " needs " + std::to_string(expected));
    tensor.bytes = unpack(*kind, packed, *count);
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
    case ElementKind::Complex64:
      found = proto.float_data_size() / 2;
      if (proto.float_data_size() == 2 * *count)
        fits = copyField<float>(proto.float_data(), tensor.bytes);
      break;
    case ElementKind::Complex128:
      found = proto.double_data_size() / 2;
      if (proto.double_data_size() == 2 * *count)
        fits = copyField<double>(proto.double_data(), tensor.bytes);
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
      case ElementKind::F8E4M3FN:
      case ElementKind::F8E4M3FNUZ:
      case ElementKind::F8E5M2:
      case ElementKind::F8E5M2FNUZ:
      case ElementKind::F8E8M0:
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
