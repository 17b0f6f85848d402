//===- TensorFile.cpp - Tensors in files ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/TensorFile.h"
#include "compiler/frontend/OnnxTensor.h"
#include "isa/files/InputFile.h"
#include <charconv>
#include <cstdio>
#include <cstring>
#include <google/protobuf/stubs/logging.h>
#include <limits>
#include <onnx/onnx_pb.h>

namespace tw::frontend {

static bool endsWith(const std::string &text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

bool isTensorFile(const std::string &path) { return endsWith(path, ".npy") || endsWith(path, ".pb"); }

Result<HostTensor> readTensorFile(const std::string &path) {
  bool npy = endsWith(path, ".npy");
  if (!isTensorFile(path))
    return Diagnostic{path, 0, 0, "unknown kind of tensor file, expected .npy or .pb"};
  auto bytes = files::readFile(path);
  if (!bytes)
    return bytes.diagnostics();
  return npy ? parseNpy(*bytes, path) : parseTensorProto(*bytes, path);
}

Result<HostTensor> parseTensorProto(std::string_view bytes, const std::string &file) {
  google::protobuf::LogSilencer silencer;
  onnx::TensorProto proto;
  if (bytes.size() > size_t(std::numeric_limits<int>::max()) || !proto.ParseFromArray(bytes.data(), int(bytes.size())))
    return Diagnostic{file, 0, 0, "not a valid ONNX TensorProto"};
  auto tensor = decodeTensor(proto);
  if (!tensor)
    return Diagnostic{file, 0, 0, "the tensor cannot be read: " + tensor.message()};
  return tensor;
}

//===----------------------------------------------------------------------===//
// .npy (source: NumPy Enhancement Proposal 1, numpy.lib.format)
//===----------------------------------------------------------------------===//

static constexpr std::string_view kNpyMagic("\x93NUMPY", 6);

namespace {
struct NpyType {
  std::string_view code;
  ElementKind kind;
};
} // namespace
static constexpr NpyType kNpyTypes[] = {{"f4", ElementKind::F32}, {"f2", ElementKind::F16}, {"V2", ElementKind::BF16},
                                        {"f8", ElementKind::F64}, {"i1", ElementKind::I8},  {"u1", ElementKind::U8},
                                        {"i2", ElementKind::I16}, {"u2", ElementKind::U16}, {"i4", ElementKind::I32},
                                        {"u4", ElementKind::U32}, {"i8", ElementKind::I64}, {"u8", ElementKind::U64},
                                        {"b1", ElementKind::Bool}};

namespace {
/// Reads the header of a .npy file: a Python dictionary of a string, a Boolean and a tuple.
class NpyHeader {
public:
  explicit NpyHeader(std::string_view text) : text(text) {}

  /// False if the header is not of the form NumPy writes; `reason` says where.
  bool parse() {
    if (!take('{'))
      return false;
    while (!take('}')) {
      std::string_view key;
      if (!string(key) || !take(':'))
        return false;
      if (key == "descr" ? !string(descr) : key == "fortran_order" ? !boolean() : key == "shape" ? !tuple() : true)
        return false;
      if (!take(',') && (skip(), at >= text.size() || text[at] != '}'))
        return false;
    }
    return !descr.empty() && sawOrder && sawShape;
  }

  std::string_view descr;
  bool fortranOrder = false;
  std::vector<int64_t> shape;

private:
  void skip() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n'))
      ++at;
  }
  bool take(char c) {
    skip();
    if (at >= text.size() || text[at] != c)
      return false;
    ++at;
    return true;
  }
  bool string(std::string_view &value) {
    skip();
    if (at >= text.size() || (text[at] != '\'' && text[at] != '"'))
      return false;
    size_t end = text.find(text[at], at + 1);
    if (end == std::string_view::npos)
      return false;
    value = text.substr(at + 1, end - at - 1);
    at = end + 1;
    return true;
  }
  bool boolean() {
    skip();
    for (bool value : {false, true}) {
      std::string_view word = value ? "True" : "False";
      if (text.substr(at, word.size()) == word) {
        at += word.size();
        fortranOrder = value;
        return sawOrder = true;
      }
    }
    return false;
  }
  bool tuple() {
    if (!take('('))
      return false;
    shape.clear();
    while (!take(')')) {
      skip();
      int64_t dim = 0;
      auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), dim);
      if (error != std::errc())
        return false;
      at = size_t(end - text.data());
      shape.push_back(dim);
      if (!take(',') && (skip(), at >= text.size() || text[at] != ')'))
        return false;
    }
    return sawShape = true;
  }

  std::string_view text;
  size_t at = 0;
  bool sawOrder = false, sawShape = false;
};
} // namespace

Result<HostTensor> parseNpy(std::string_view bytes, const std::string &file) {
  auto problem = [&](std::string text) { return Diagnostic{file, 0, 0, std::move(text)}; };
  if (bytes.substr(0, kNpyMagic.size()) != kNpyMagic || bytes.size() < 10)
    return problem("not a .npy file: it does not start with \\x93NUMPY and a header");
  unsigned version = uint8_t(bytes[6]);
  if (version < 1 || version > 3)
    return problem(".npy version is " + std::to_string(version) + ", expected 1 to 3");
  size_t headerAt = version == 1 ? 10 : 12;
  if (bytes.size() < headerAt)
    return problem("the .npy file ends inside its header");
  size_t headerSize = 0;
  for (size_t i = headerAt; i-- > 8;)
    headerSize = headerSize << 8 | uint8_t(bytes[i]);
  if (headerSize > bytes.size() - headerAt)
    return problem("the .npy file ends inside its header");
  NpyHeader header(bytes.substr(headerAt, headerSize));
  if (!header.parse())
    return problem("the .npy header is not of the form {'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }");

  HostTensor tensor;
  std::string_view descr = header.descr;
  if (descr.front() == '>')
    return problem("element type is '" + std::string(descr) + "', which is big-endian, expected little-endian");
  if (descr.front() == '<' || descr.front() == '|' || descr.front() == '=')
    descr.remove_prefix(1);
  const NpyType *type = nullptr;
  for (const NpyType &candidate : kNpyTypes)
    if (candidate.code == descr)
      type = &candidate;
  if (!type)
    return problem("element type is '" + std::string(header.descr) +
                   "', expected one of f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 V2 (bfloat16)");
  tensor.type = type->kind;
  tensor.shape = header.shape;
  if (header.fortranOrder && tensor.shape.size() > 1)
    return problem("the array is stored in Fortran order, expected C order (numpy.ascontiguousarray)");
  auto count = countTensorElements(tensor.shape);
  if (!count)
    return problem("the shape has a negative dim or more than 2^31 elements");
  std::string_view data = bytes.substr(headerAt + headerSize);
  size_t expected = size_t(*count) * elementBytes(tensor.type);
  if (data.size() != expected)
    return problem("found " + std::to_string(data.size()) + " bytes of data, the header needs " + std::to_string(expected));
  tensor.bytes.assign(data.begin(), data.end());
  return tensor;
}

std::string formatNpy(const HostTensor &given) {
  // NumPy has no bfloat16, and float holds each of its values.
  HostTensor asFloat;
  if (given.type == ElementKind::BF16) {
    asFloat.shape = given.shape;
    for (size_t at = 0; at + 2 <= given.bytes.size(); at += 2)
      asFloat.bytes.insert(asFloat.bytes.end(), {0, 0, given.bytes[at], given.bytes[at + 1]});
  }
  const HostTensor &tensor = given.type == ElementKind::BF16 ? asFloat : given;
  std::string_view code;
  for (const NpyType &type : kNpyTypes)
    if (type.kind == tensor.type)
      code = type.code;
  std::string header = "{'descr': '";
  header += elementBytes(tensor.type) == 1 ? '|' : '<';
  header += std::string(code) + "', 'fortran_order': False, 'shape': (";
  for (int64_t dim : tensor.shape)
    header += std::to_string(dim) + (tensor.shape.size() == 1 ? "," : ", ");
  if (tensor.shape.size() > 1)
    header.resize(header.size() - 2);
  header += "), }";
  // The data starts at a multiple of 64 bytes; the header ends with a newline.
  while ((10 + header.size() + 1) % 64)
    header += ' ';
  header += '\n';
  std::string bytes(kNpyMagic);
  bytes += {char(1), char(0), char(header.size() & 0xff), char(header.size() >> 8)};
  bytes += header;
  bytes.append(reinterpret_cast<const char *>(tensor.bytes.data()), tensor.bytes.size());
  return bytes;
}

} // namespace tw::frontend
