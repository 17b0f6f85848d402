//===- DamagedModelTest.cpp - Any bytes give a module or an error ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "TestModels.h"
#include "isa/files/InputFile.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <random>

namespace tw::frontend {

/// A model that touches every part of the importer: initializers, shape arithmetic, windows, quantisation, a fallback.
static std::string smallModel() {
  onnx::ModelProto model =
      modelOf("(float[1,2,6,6] x) => (float[1,4] y, float[1,2,6,6] z) {"
              " c = Conv <pads = [1, 1, 1, 1], strides = [2, 2], group = 2> (x, w) r = Relu(c)"
              " p = MaxPool <kernel_shape = [2, 2], ceil_mode = 1> (r)"
              " s = Constant <value = float {0.5}> () o = Constant <value = uint8 {3}> ()"
              " q = QuantizeLinear(p, s, o) d = DequantizeLinear(q, s, o)"
              " g = AveragePool <kernel_shape = [2, 2]> (d) n = Shape(g) i = Constant <value = int64[2] {0, 1}> ()"
              " k = Gather(n, i) f = Reshape(g, k) b = Constant <value = int64[1] {-1}> () e = Concat <axis = 0> (b, i)"
              " m = Cast <to = 1> (e) a = Slice(k, b, i) y = Softmax <axis = 1> (f) z = Sin(x) }");
  onnx::TensorProto *w = model.mutable_graph()->add_initializer();
  w->set_name("w");
  for (int64_t dim : {4, 1, 3, 3})
    w->add_dims(dim);
  w->set_data_type(onnx::TensorProto::FLOAT);
  w->set_raw_data(std::string(4 * 9 * sizeof(float), '\x3f'));
  // This slice takes 1 start but 2 ends: remove it, it is only here to be mutated from.
  auto *nodes = model.mutable_graph()->mutable_node();
  for (int i = 0; i < nodes->size(); ++i)
    if (nodes->Get(i).op_type() == "Slice")
      nodes->DeleteSubrange(i--, 1);
  return model.SerializeAsString();
}

/// Imports `bytes`; only a crash can fail.
static bool imports(const std::string &bytes) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto result = importOnnx(context, bytes, "damaged.onnx");
  if (result)
    return true;
  std::string message = llvm::toString(result.takeError());
  EXPECT_EQ(message.rfind("damaged.onnx: ", 0), 0u) << message;
  return false;
}

TEST(DamagedModelTest, WholeModelImports) { EXPECT_TRUE(imports(smallModel())); }

TEST(DamagedModelTest, EveryTruncationIsRefused) {
  std::string bytes = smallModel();
  size_t accepted = 0;
  for (size_t size = 0; size < bytes.size(); ++size)
    accepted += imports(bytes.substr(0, size));
  // The serialised fields are in order of their numbers: the graph (7) stands before the opsets (8), without which no node
  // can be read, and a cut inside the last opset (com.microsoft) is a cut inside a message.
  EXPECT_LE(accepted, 1u) << "only the model without its last, unused opset is whole";
}

/// The seed of a test with random numbers, printed so that a failure can be run again.
static unsigned printedSeed() {
  const char *text = std::getenv("TILEWRIGHT_SEED");
  unsigned seed = text ? unsigned(std::strtoul(text, nullptr, 0)) : 1;
  std::printf("seed %u (TILEWRIGHT_SEED)\n", seed);
  return seed;
}

/// Numbers at which arithmetic on dims, axes and pads goes wrong first.
static constexpr int64_t kExtremes[] = {
    0,         1,         -1,           2, 3, 7, 255, -128, 1 << 15, INT32_MAX, INT32_MIN, int64_t(1) << 31, int64_t(1) << 40,
    INT64_MAX, INT64_MIN, INT64_MIN + 1};

TEST(DamagedModelTest, RandomByteChangesNeverCrash) {
  std::mt19937 random(printedSeed());
  const std::string bytes = smallModel();
  int accepted = 0;
  const int rounds = 3000;
  for (int round = 0; round < rounds; ++round) {
    std::string damaged = bytes;
    for (unsigned changes = 1 + random() % 4; changes; --changes)
      damaged[random() % damaged.size()] = char(random());
    accepted += imports(damaged);
  }
  EXPECT_LT(accepted, rounds) << "some changes must be noticed";
}

TEST(DamagedModelTest, ExtremeNumbersNeverCrash) {
  std::mt19937 random(printedSeed());
  auto pick = [&] { return kExtremes[random() % std::size(kExtremes)]; };
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(smallModel()));
  for (int round = 0; round < 3000; ++round) {
    onnx::ModelProto damaged = model;
    onnx::GraphProto &graph = *damaged.mutable_graph();
    onnx::NodeProto &node = *graph.mutable_node(int(random() % unsigned(graph.node_size())));
    if (node.attribute_size()) {
      onnx::AttributeProto &attr = *node.mutable_attribute(int(random() % unsigned(node.attribute_size())));
      if (attr.has_i())
        attr.set_i(pick());
      for (int i = 0; i < attr.ints_size(); ++i)
        if (random() % 2)
          attr.set_ints(i, pick());
      if (attr.has_t())
        for (int i = 0; i < attr.t().int64_data_size(); ++i)
          attr.mutable_t()->set_int64_data(i, pick());
    }
    if (random() % 4 == 0)
      graph.mutable_initializer(0)->set_dims(int(random() % 4), pick());
    if (random() % 4 == 0)
      graph.mutable_input(0)
          ->mutable_type()
          ->mutable_tensor_type()
          ->mutable_shape()
          ->mutable_dim(int(random() % 4))
          ->set_dim_value(pick());
    if (random() % 4 == 0)
      node.set_op_type(graph.node(int(random() % unsigned(graph.node_size()))).op_type());
    if (random() % 8 == 0 && node.input_size())
      node.set_input(0, graph.node(int(random() % unsigned(graph.node_size()))).output(0));
    imports(damaged.SerializeAsString());
  }
}

TEST(DamagedModelTest, ExtremeNumbersInOperatorTestsNeverCrash) {
  namespace fs = std::filesystem;
  const fs::path folder = "/usr/share/libonnx-testdata/data/node";
  if (!fs::exists(folder))
    GTEST_SKIP() << folder << " is not there (Debian package libonnx-testdata)";
  std::vector<fs::path> tests;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    tests.push_back(entry.path());
  std::sort(tests.begin(), tests.end());
  std::mt19937 random(printedSeed());
  auto pick = [&] { return kExtremes[random() % std::size(kExtremes)]; };
  for (const fs::path &path : tests) {
    auto bytes = tw::files::readFile((path / "model.onnx").string());
    onnx::ModelProto model;
    if (!bytes || !model.ParseFromString(*bytes))
      continue;
    // Lists of integers, such as axes and shapes, become constants: otherwise most operators are left alone.
    for (int i = 0; i < model.graph().input_size(); ++i) {
      auto value = tw::files::readFile((path / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb")).string());
      onnx::TensorProto tensor;
      if (!value || !tensor.ParseFromString(*value) ||
          (tensor.data_type() != onnx::TensorProto::INT64 && tensor.dims_size() != 0))
        continue;
      tensor.set_name(model.graph().input(i).name());
      *model.mutable_graph()->add_initializer() = tensor;
    }
    for (int round = 0; round < 4; ++round) {
      onnx::ModelProto damaged = model;
      onnx::GraphProto &graph = *damaged.mutable_graph();
      for (onnx::NodeProto &node : *graph.mutable_node())
        for (onnx::AttributeProto &attr : *node.mutable_attribute()) {
          if (attr.has_i() && random() % 2)
            attr.set_i(pick());
          for (int i = 0; i < attr.ints_size(); ++i)
            if (random() % 2)
              attr.set_ints(i, pick());
        }
      for (onnx::TensorProto &tensor : *graph.mutable_initializer())
        if (tensor.data_type() == onnx::TensorProto::INT64 && tensor.raw_data().size() >= 8 && random() % 2) {
          int64_t value = pick();
          std::memcpy(&(*tensor.mutable_raw_data())[random() % (tensor.raw_data().size() / 8) * 8], &value, 8);
        }
      if (random() % 4 == 0 && graph.input_size()) {
        auto *shape = graph.mutable_input(int(random() % unsigned(graph.input_size())))
                          ->mutable_type()
                          ->mutable_tensor_type()
                          ->mutable_shape();
        if (shape->dim_size())
          shape->mutable_dim(int(random() % unsigned(shape->dim_size())))->set_dim_value(pick());
      }
      imports(damaged.SerializeAsString());
    }
  }
}

} // namespace tw::frontend
