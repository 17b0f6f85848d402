//===- ExternalDataTest.cpp - Tensors in files, and of few bits -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/OnnxTensor.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

namespace tw::frontend {

namespace {

/// A folder with a file "data" of 8 bytes and a folder "folder".
class ExternalDataTest : public testing::Test {
protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "external-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
    std::ofstream(folder + "/data") << std::string("\x01\x02\x03\x04\x05\x06\x07\x08", 8);
    std::filesystem::create_directory(folder + "/folder");
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  Result<HostTensor> decode(const std::string &location, int64_t dim, const std::string &offset = "0") {
    onnx::TensorProto proto;
    proto.set_data_type(onnx::TensorProto::UINT8);
    proto.add_dims(dim);
    proto.set_data_location(onnx::TensorProto::EXTERNAL);
    auto add = [&](const char *key, const std::string &value) {
      onnx::StringStringEntryProto &entry = *proto.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    };
    add("location", location);
    add("offset", offset);
    return decodeTensor(proto, folder);
  }

  std::string folder;
};

onnx::TensorProto rawTensor(int32_t type, int64_t dim, const std::string &bytes) {
  onnx::TensorProto proto;
  proto.set_data_type(type);
  proto.add_dims(dim);
  proto.set_raw_data(bytes);
  return proto;
}

} // namespace

TEST_F(ExternalDataTest, ReadsFromAnOffset) {
  auto tensor = decode("data", 3, "5");
  ASSERT_TRUE(bool(tensor)) << tensor.message();
  EXPECT_EQ(tensor->bytes, (std::vector<uint8_t>{6, 7, 8}));
  EXPECT_TRUE(bool(decode("data", 0, "8")));
}

TEST_F(ExternalDataTest, SaysWhatCannotBeRead) {
  auto message = [&](const std::string &location, int64_t dim, const std::string &offset) {
    return decode(location, dim, offset).message();
  };
  EXPECT_EQ(message("data", 4, "5"), "its data, 4 bytes from 5 on of file \"data\" beside the model, cannot be read");
  // 2 GB that are not there are not allocated.
  EXPECT_EQ(message("data", int64_t(1) << 31, "0"),
            "its data, 2147483648 bytes from 0 on of file \"data\" beside the model, cannot be read");
  EXPECT_EQ(message("data", 1, "18446744073709551615"),
            "its data, 1 bytes from 18446744073709551615 on of file \"data\" beside the model, cannot be read");
  EXPECT_EQ(message("folder", 1, "0"), "its data, 1 bytes from 0 on of file \"folder\" beside the model, cannot be read");
  EXPECT_EQ(message("none", 0, "0"), "its data, 0 bytes from 0 on of file \"none\" beside the model, cannot be read");
  EXPECT_EQ(message("../data", 1, "0"), "its data is in file \"../data\", expected a path below the model's folder");
  EXPECT_EQ(message("data", 1, "-1"), "the offset of its data is \"-1\", expected a number of bytes");
}

TEST(SmallTypesTest, AreUnpackedFromTheLowestBits) {
  // source: onnx.proto, TensorProto.DataType: 21 uint4, 22 int4, 25 uint2, 26 int2
  EXPECT_EQ(decodeTensor(rawTensor(21, 3, std::string("\x21\x0f", 2)))->bytes, (std::vector<uint8_t>{1, 2, 15}));
  EXPECT_EQ(decodeTensor(rawTensor(22, 3, std::string("\xf8\x07", 2)))->bytes, (std::vector<uint8_t>{0xf8, 0xff, 7}));
  EXPECT_EQ(decodeTensor(rawTensor(25, 5, std::string("\xe4\x02", 2)))->bytes, (std::vector<uint8_t>{0, 1, 2, 3, 2}));
  EXPECT_EQ(decodeTensor(rawTensor(26, 4, std::string("\xe4", 1)))->bytes, (std::vector<uint8_t>{0, 1, 0xfe, 0xff}));
  EXPECT_FALSE(bool(decodeTensor(rawTensor(21, 3, std::string("\x21", 1)))));
  EXPECT_FALSE(bool(decodeTensor(rawTensor(25, 5, std::string("\x21\x00\x00", 3)))));
}

TEST(SmallTypesTest, EveryCodeSurvivesFloat) {
  for (ElementKind kind : {ElementKind::F8E4M3FN, ElementKind::F8E4M3FNUZ, ElementKind::F8E5M2, ElementKind::F8E5M2FNUZ,
                           ElementKind::F8E8M0, ElementKind::F4E2M1})
    for (int code = 0; code < (kind == ElementKind::F4E2M1 ? 16 : 256); ++code) {
      const float value = smallToFloat(kind, uint8_t(code));
      if (value == value)
        EXPECT_EQ(floatToSmall(kind, value, /*saturates=*/false), code) << elementName(kind);
      else
        EXPECT_NE(smallToFloat(kind, floatToSmall(kind, value)), value) << elementName(kind) << " " << code;
    }
}

} // namespace tw::frontend
