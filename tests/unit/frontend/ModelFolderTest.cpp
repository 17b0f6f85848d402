//===- ModelFolderTest.cpp - Real networks import -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// TILEWRIGHT_MODELS names a folder with one folder per network, in it
// model.onnx and test_data_set_0/. The results' shapes are compared with the
// stored outputs, which another runtime computed.
//===----------------------------------------------------------------------===//
#include "TestModels.h"
#include "compiler/frontend/TensorFile.h"
#include "compiler/graph/Graph.h"
#include "isa/files/InputFile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>

namespace tw::frontend {

namespace fs = std::filesystem;

/// The networks that the project promises, and the shapes of their open inputs.
static const std::map<std::string, std::map<std::string, std::vector<int64_t>>> kPromised = {
    {"mnist_8", {}},
    {"resnet20_cifar10_static", {}},
    {"resnet20_cifar10", {}},
    {"squeezenet1.1_fp32", {}},
    {"squeezenet1.1_fp16", {}},
    {"mlperf_tiny_ic_resnet8_int8_qdq", {}},
    {"mlperf_tiny_kws_dscnn_int8_qdq", {}},
    {"mobilenetv2_1.0_int8_qdq", {{"image", {1, 3, 244, 244}}}},
    {"mobilenetv2_1.0_int8_qlinear", {{"image", {1, 3, 244, 244}}}},
    {"npm_ppocr_v2_cls", {{"x", {1, 3, 48, 192}}}}};

/// Networks that have nodes without an implementation: each is refused at a node or an initializer. All others import.
static const std::set<std::string> kRefused = {"ort_conv_qdq_external", "ort_scan_1", "silero_v5"};

/// The shapes of the stored inputs, for networks that are not listed.
static std::map<std::string, std::vector<int64_t>> storedShapes(const onnx::ModelProto &model, const fs::path &folder) {
  std::map<std::string, std::vector<int64_t>> shapes;
  std::set<std::string> initializers;
  for (const onnx::TensorProto &tensor : model.graph().initializer())
    initializers.insert(tensor.name());
  int index = 0;
  for (const onnx::ValueInfoProto &input : model.graph().input()) {
    if (initializers.count(input.name()))
      continue;
    for (const char *suffix : {".npy", ".pb"}) {
      fs::path file = folder / "test_data_set_0" / ("input_" + std::to_string(index) + suffix);
      if (!fs::exists(file))
        continue;
      auto tensor = readTensorFile(file.string());
      EXPECT_TRUE(bool(tensor)) << tensor.message();
      if (tensor)
        shapes[input.name()] = tensor->shape;
      break;
    }
    ++index;
  }
  return shapes;
}

/// Compares the results' shapes with the stored outputs.
static void compareOutputs(const Imported &m, const fs::path &folder) {
  auto function = m.function();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    for (const char *suffix : {".npy", ".pb"}) {
      fs::path file = folder / "test_data_set_0" / ("output_" + std::to_string(i) + suffix);
      if (!fs::exists(file))
        continue;
      auto tensor = readTensorFile(file.string());
      ASSERT_TRUE(bool(tensor)) << tensor.message();
      auto type = mlir::cast<mlir::RankedTensorType>(function.getResultTypes()[i]);
      EXPECT_EQ(type.getShape(), llvm::ArrayRef<int64_t>(tensor->shape)) << folder;
    }
}

TEST(ModelFolderTest, NetworksImportOrAreRefusedWithAPlace) {
  const char *root = std::getenv("TILEWRIGHT_MODELS");
  if (!root)
    GTEST_SKIP() << "TILEWRIGHT_MODELS does not name a folder of networks";
  std::vector<fs::path> folders;
  for (const fs::directory_entry &entry : fs::directory_iterator(root))
    if (fs::exists(entry.path() / "model.onnx"))
      folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  for (auto &[name, shapes] : kPromised)
    EXPECT_TRUE(fs::exists(fs::path(root) / name / "model.onnx")) << name << " is missing";
  for (const fs::path &folder : folders) {
    std::string name = folder.filename().string();
    auto bytes = tw::files::readFile((folder / "model.onnx").string());
    ASSERT_TRUE(bool(bytes)) << bytes.message();
    onnx::ModelProto model;
    ASSERT_TRUE(model.ParseFromString(*bytes));
    ImportOptions options;
    auto promised = kPromised.find(name);
    options.shapes = promised != kPromised.end() ? promised->second : storedShapes(model, folder);
    Imported m(model, options);
    if (kRefused.count(name)) {
      EXPECT_FALSE(m.module) << name << " imports: take it from the list";
      EXPECT_TRUE(llvm::StringRef(m.error).contains("node \"") || llvm::StringRef(m.error).contains("initializer \""))
          << name << ": " << m.error;
      continue;
    }
    EXPECT_TRUE(bool(m.module)) << name << ": " << m.error;
    if (!m.module)
      continue;
    compareOutputs(m, folder);
    // The networks that are promised run without other operators.
    if (promised != kPromised.end()) {
      EXPECT_EQ(m.ops().find("fallback"), std::string::npos) << name;
    }
  }
}

} // namespace tw::frontend
