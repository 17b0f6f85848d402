//===- TensorFileTest.cpp - .npy, .pb and half precision ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/TensorFile.h"
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

namespace tw::frontend {

/// A .npy file of version `version` with this header and data.
static std::string npy(std::string header, const std::string &data, int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += char(version);
  bytes += '\0';
  header += '\n';
  bytes += char(header.size() & 0xff);
  bytes += char(header.size() >> 8);
  if (version > 1)
    bytes += std::string(2, '\0');
  return bytes + header + data;
}

static std::string npyError(const std::string &bytes) {
  auto result = parseNpy(bytes, "t.npy");
  EXPECT_FALSE(bool(result));
  return result.message();
}

TEST(NpyTest, ReadsWhatNumpyWrites) {
  // np.save of np.array([[1, -2]], dtype=np.int16)
  auto tensor =
      parseNpy(npy("{'descr': '<i2', 'fortran_order': False, 'shape': (1, 2), }", std::string("\x01\x00\xfe\xff", 4)), "t.npy");
  ASSERT_TRUE(bool(tensor)) << tensor.message();
  EXPECT_EQ(tensor->type, ElementKind::I16);
  EXPECT_EQ(tensor->shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(tensor->bytes, (std::vector<uint8_t>{1, 0, 0xfe, 0xff}));
}

TEST(NpyTest, ReadsVersion2ScalarsAndOneDimension) {
  auto scalar = parseNpy(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", "\x01", 2), "t.npy");
  ASSERT_TRUE(bool(scalar)) << scalar.message();
  EXPECT_EQ(scalar->type, ElementKind::Bool);
  EXPECT_TRUE(scalar->shape.empty());
  auto list = parseNpy(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (3,), }", "abc"), "t.npy");
  ASSERT_TRUE(bool(list)) << list.message();
  EXPECT_EQ(list->shape, (std::vector<int64_t>{3}));
}

TEST(NpyTest, RoundTripsEveryType) {
  for (ElementKind kind :
       {ElementKind::F32, ElementKind::F16, ElementKind::F64, ElementKind::I8, ElementKind::U8, ElementKind::I16,
        ElementKind::U16, ElementKind::I32, ElementKind::U32, ElementKind::I64, ElementKind::U64, ElementKind::Bool})
    for (const std::vector<int64_t> &shape : {std::vector<int64_t>{}, {1}, {2, 3}, {0, 4}}) {
      HostTensor tensor{"", kind, shape, {}};
      size_t count = 1;
      for (int64_t dim : shape)
        count *= size_t(dim);
      for (size_t i = 0; i < count * elementBytes(kind); ++i)
        tensor.bytes.push_back(uint8_t(i % 2));
      std::string bytes = formatNpy(tensor);
      EXPECT_EQ((bytes.size() - tensor.bytes.size()) % 64, 0u) << "the data is aligned";
      auto back = parseNpy(bytes, "t.npy");
      ASSERT_TRUE(bool(back)) << back.message();
      EXPECT_EQ(back->type, kind);
      EXPECT_EQ(back->shape, shape);
      EXPECT_EQ(back->bytes, tensor.bytes);
    }
}

/// NumPy has no type for it; ml_dtypes and jax write it as two bytes without a type.
TEST(NpyTest, WritesBfloat16AsFloatAndReadsItAsTwoBytes) {
  const std::string bytes = formatNpy({"", ElementKind::BF16, {2}, {0xc0, 0x3f, 0x80, 0xff}});
  EXPECT_NE(bytes.find("'descr': '<f4'"), std::string::npos);
  auto back = parseNpy(bytes, "t.npy");
  ASSERT_TRUE(bool(back)) << back.message();
  EXPECT_EQ(back->bytes, (std::vector<uint8_t>{0, 0, 0xc0, 0x3f, 0, 0, 0x80, 0xff})) << "1.5 and minus infinity";
  auto raw = parseNpy(npy("{'descr': '|V2', 'fortran_order': False, 'shape': (1,), }", "\xc0\x3f"), "t.npy");
  ASSERT_TRUE(bool(raw)) << raw.message();
  EXPECT_EQ(raw->type, ElementKind::BF16);
}

TEST(NpyTest, RefusesWhatItCannotRead) {
  const std::string good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "abcdefgh");
  ASSERT_TRUE(bool(parseNpy(good, "t.npy")));
  EXPECT_EQ(npyError("PK"), "t.npy: not a .npy file: it does not start with \\x93NUMPY and a header");
  EXPECT_EQ(npyError(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", "abcdefgh")),
            "t.npy: element type is '>f4', which is big-endian, expected little-endian");
  EXPECT_EQ(npyError(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "abcdefgh")),
            "t.npy: element type is '<c8', expected one of f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 V2 (bfloat16)");
  EXPECT_EQ(npyError(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1), }", "abcdefgh")),
            "t.npy: the array is stored in Fortran order, expected C order (numpy.ascontiguousarray)");
  EXPECT_EQ(npyError(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "abcdefgh")),
            "t.npy: found 8 bytes of data, the header needs 12");
  EXPECT_EQ(npyError(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "")),
            "t.npy: the shape has a negative dim or more than 2^31 elements");
  EXPECT_EQ(npyError(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", "")),
            "t.npy: the shape has a negative dim or more than 2^31 elements");
  EXPECT_EQ(npyError(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", "")),
            "t.npy: the .npy header is not of the form {'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }");
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(bool(parseNpy(good.substr(0, size), "t.npy"))) << size;
}

TEST(TensorFileTest, ReadsWhatIsFormattedAndNamesProblems) {
  char folder[] = "/tmp/tensorfileXXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  std::string path = std::string(folder) + "/t.npy";
  HostTensor tensor{"", ElementKind::I8, {2}, {1, 2}};
  std::ofstream(path, std::ios::binary) << formatNpy(tensor);
  auto back = readTensorFile(path);
  ASSERT_TRUE(bool(back)) << back.message();
  EXPECT_EQ(back->bytes, tensor.bytes);
  std::remove(path.c_str());
  EXPECT_EQ(readTensorFile(path).message(), path + ": cannot read the file: No such file or directory");
  EXPECT_EQ(readTensorFile("x.txt").message(), "x.txt: unknown kind of tensor file, expected .npy or .pb");
  rmdir(folder);
}

TEST(TensorFileTest, ReadsTensorProto) {
  onnx::TensorProto proto;
  proto.set_name("t");
  proto.add_dims(2);
  proto.set_data_type(onnx::TensorProto::UINT8);
  proto.set_raw_data("ab");
  auto tensor = parseTensorProto(proto.SerializeAsString(), "t.pb");
  ASSERT_TRUE(bool(tensor)) << tensor.message();
  EXPECT_EQ(tensor->name, "t");
  EXPECT_EQ(tensor->bytes, (std::vector<uint8_t>{'a', 'b'}));
  EXPECT_EQ(parseTensorProto("\xff\xff", "t.pb").message(), "t.pb: not a valid ONNX TensorProto");
  proto.set_raw_data("a");
  EXPECT_EQ(parseTensorProto(proto.SerializeAsString(), "t.pb").message(),
            "t.pb: the tensor cannot be read: it holds 1 bytes, its shape [2] of uint8 needs 2");
}

TEST(HalfTest, KnownValues) {
  EXPECT_EQ(halfToFloat(0x3c00), 1.f);
  EXPECT_EQ(halfToFloat(0xc000), -2.f);
  EXPECT_EQ(halfToFloat(0x0001), std::ldexp(1.f, -24));
  EXPECT_EQ(halfToFloat(0x7bff), 65504.f);
  EXPECT_TRUE(std::isinf(halfToFloat(0x7c00)));
  EXPECT_EQ(floatToHalf(65519.f), 0x7bff);
  EXPECT_EQ(floatToHalf(65520.f), 0x7c00) << "half way to the next power of two is infinity";
  EXPECT_EQ(floatToHalf(1 + std::ldexp(1.f, -11)), 0x3c00) << "a tie goes to even";
  EXPECT_EQ(floatToHalf(1 + std::ldexp(3.f, -11)), 0x3c02) << "a tie goes to even";
  EXPECT_EQ(floatToHalf(std::ldexp(1.f, -25)), 0) << "a tie goes to even";
  EXPECT_EQ(floatToBfloat(1 + std::ldexp(1.f, -8)), 0x3f80) << "a tie goes to even";
  EXPECT_EQ(floatToBfloat(1 + std::ldexp(3.f, -8)), 0x3f82) << "a tie goes to even";
}

TEST(HalfTest, EveryHalfComesBack) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    bool halfNan = (bits & 0x7c00) == 0x7c00 && (bits & 0x3ff);
    if (!halfNan) {
      ASSERT_EQ(floatToHalf(halfToFloat(uint16_t(bits))), bits);
    }
    bool bfloatNan = (bits & 0x7f80) == 0x7f80 && (bits & 0x7f);
    if (!bfloatNan) {
      ASSERT_EQ(floatToBfloat(bfloatToFloat(uint16_t(bits))), bits);
    }
  }
}

} // namespace tw::frontend
