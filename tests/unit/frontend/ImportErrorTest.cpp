//===- ImportErrorTest.cpp - Models that are refused ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "TestModels.h"
#include <gtest/gtest.h>
#include <limits>

namespace tw::frontend {

/// A node called n with one or two inputs, and what importing it says behind "test.onnx: ".
static std::string errorOf(const onnx::ModelProto &model, const ImportOptions &options = {}) {
  Imported m(model, options);
  EXPECT_FALSE(bool(m.module)) << m.ops();
  const std::string prefix = "test.onnx: ";
  EXPECT_EQ(m.error.substr(0, prefix.size()), prefix);
  return m.error.substr(std::min(prefix.size(), m.error.size()));
}

static std::string errorOf(const std::string &graph, int opset = 13) {
  onnx::ModelProto model = modelOf(graph, opset);
  for (onnx::NodeProto &node : *model.mutable_graph()->mutable_node())
    node.set_name("n");
  return errorOf(model);
}

TEST(ImportErrorTest, ShapesThatDoNotFit) {
  EXPECT_EQ(errorOf("(float[2,3] x, float[4,5] z) => (float[2,5] y) { y = MatMul(x, z) }"),
            "node \"n\" (MatMul): shapes [2, 3] and [4, 5] do not multiply: 3 columns against 4 rows");
  EXPECT_EQ(errorOf("(float[2,3] x, float[2] z) => (float[2,3] y) { y = Add(x, z) }"),
            "node \"n\" (Add): shapes [2, 3] and [2] do not broadcast: dims 3 and 2 differ and neither is 1");
  EXPECT_EQ(errorOf("(float[1,4,8,8] x, float[6,3,3,3] w) => (float[1,6,6,6] y) { y = Conv(x, w) }"),
            "node \"n\" (Conv): weights of shape [6, 3, 3, 3] take 3 channels per group, the input [1, 4, 8, 8] has 4");
  EXPECT_EQ(errorOf("(float[1,1,2,2] x) => (float[1,1,1,1] y) { y = MaxPool <kernel_shape = [3, 3]> (x) }"),
            "node \"n\" (MaxPool): the window covers 3 positions of spatial dim 0, the padded input has only 2");
  EXPECT_EQ(errorOf("(float[2,3] x) => (float[7] y) { s = Constant <value = int64[1] {7}> () y = Reshape(x, s) }"),
            "node \"n\" (Reshape): shape [7] does not hold the elements of shape [2, 3]");
  EXPECT_EQ(errorOf("(float[2,3] x) => (float[7] y) { s = Constant <value = int64[2] {-1, -1}> () y = Reshape(x, s) }"),
            "node \"n\" (Reshape): shape [-1, -1] has -1 twice");
  EXPECT_EQ(errorOf("(float[2,3] x, float[2,4] z) => (float[4,3] y) { y = Concat <axis = 0> (x, z) }"),
            "node \"n\" (Concat): inputs of shapes [2, 3] and [2, 4] differ in more than dim 0");
  EXPECT_EQ(errorOf("(float[1,3,4,4] x, float[2] c) => (float[1,3,4,4] y) { y = BatchNormalization(x, c, c, c, c) }"),
            "node \"n\" (BatchNormalization): scale has shape [2], expected [3]");
}

TEST(ImportErrorTest, EmptyResults) {
  EXPECT_EQ(errorOf("(float[4] x) => (float[0] y) { s = Constant <value = int64[1] {2}> () y = Slice(x, s, s) }"),
            "node \"n\" (Slice): the result has shape [0], no element; the shape of its result is known when it runs");
}

TEST(ImportErrorTest, HugeResults) {
  EXPECT_EQ(errorOf("(float[1] x) => (float[1] y) { s = Constant <value = int64[2] {1000000, 1000000}> () y = Expand(x, s) }"),
            "node \"n\" (Expand): the result would have shape [1000000, 1000000]: at most 2^31 elements are allowed");
  EXPECT_EQ(errorOf("() => (int64[1] y) { a = Constant <value = int64 {0}> () b = Constant <value = int64 {1000000000000}> ()"
                    " c = Constant <value = int64 {1}> () y = Range(a, b, c) }")
                .find("node \"n\" (Range): a range from 0"),
            0u);
  EXPECT_EQ(errorOf("() => (float[1] y) { s = Constant <value = int64[1] {-5}> () y = ConstantOfShape(s) }"),
            "node \"n\" (ConstantOfShape): the shape is [-5]: no dim may be negative, and at most 2^31 elements are allowed");
}

TEST(ImportErrorTest, TypesThatDoNotFit) {
  EXPECT_EQ(errorOf("(float[2] x, int32[2] z) => (float[2] y) { y = Add(x, z) }"),
            "node \"n\" (Add): inputs are of float and int32, expected one type");
  EXPECT_EQ(errorOf("(float[2] x) => (int32[2] y) { y = Relu(x) }"), "output \"y\" is of float, the model declares int32");
  EXPECT_EQ(
      errorOf("(uint8[2] x) => (float[2] y) { s = Constant <value = float {0.5}> () z = Constant <value = int8 {0}> ()"
              " y = DequantizeLinear(x, s, z) }"),
      "node \"n\" (DequantizeLinear): input 2 (x_zero_point) is of int8, expected uint8 like the tensor that it belongs to");
  EXPECT_EQ(errorOf("(string[2] x) => (string[2] y) { y = Identity(x) }"),
            "input \"x\" has element type string, which only the host has");
}

TEST(ImportErrorTest, ZeroPointsOfNoChannel) {
  EXPECT_EQ(errorOf("(uint8[1,1,2,2] x) => (int32[1,1,2,2] y) { w = Constant <value = uint8[1,1,1,1] {3}> () z = Constant "
                    "<value = uint8 {0}> ()"
                    " q = Constant <value = uint8[3] {7, 7, 7}> () y = ConvInteger(x, w, z, q) }"),
            "node \"n\" (ConvInteger): input 3 (w_zero_point) has shape [3], expected 1 values, one for each channel or scale");
}

TEST(ImportErrorTest, DeclaredResultsThatDiffer) {
  EXPECT_EQ(errorOf("(float[2] x) => (float[3] y) { y = Relu(x) }"), "output \"y\" has shape [2], the model declares [3]");
  EXPECT_EQ(errorOf("(float[2] x) => (float[2,N] y) { y = Relu(x) }"), "output \"y\" has shape [2], the model declares [2, N]");
}

TEST(ImportErrorTest, Attributes) {
  EXPECT_EQ(errorOf("(float[2] x) => (float[2] y) { y = Relu <alpha = 1.0> (x) }"),
            "node \"n\" (Relu): attribute alpha is not known for this operator in opset 13");
  EXPECT_EQ(errorOf("(float[2] x) => (float[2] y) { y = LeakyRelu <alpha = 1> (x) }"),
            "node \"n\" (LeakyRelu): attribute alpha is of type INT, expected FLOAT");
  EXPECT_EQ(errorOf("(float[2] x) => (float[2] y) { y = Concat(x) }"), "node \"n\" (Concat): attribute axis is missing");
  EXPECT_EQ(errorOf("(float[2,2] x) => (float[2,2] y) { y = Softmax <axis = 2> (x) }"),
            "node \"n\" (Softmax): axis is 2, expected -2 to 1");
  EXPECT_EQ(errorOf("(float[1,1,4,4] x) => (float[1,1,4,4] y) { y = MaxPool <kernel_shape = [2, 2], strides = [0, 1]> (x) }"),
            "node \"n\" (MaxPool): strides is [0, 1], every value must be 1 to 2^30");
  EXPECT_EQ(errorOf("(float[1,1,4,4] x) => (float[1,1,4,4] y) { y = MaxPool <kernel_shape = [2, 2], pads = [1]> (x) }"),
            "node \"n\" (MaxPool): pads is [1], expected 4 values");
  EXPECT_EQ(errorOf("(float[2,3] x) => (float[2,3] y) { y = Transpose <perm = [0, 0]> (x) }"),
            "node \"n\" (Transpose): perm is [0, 0], expected a permutation of the dims of [2, 3]");
  onnx::ModelProto twice = modelOf("(float[2] x) => (float[2] y) { y = LeakyRelu <alpha = 1.0> (x) }");
  *twice.mutable_graph()->mutable_node(0)->add_attribute() = twice.graph().node(0).attribute(0);
  EXPECT_EQ(errorOf(twice), "node \"y\" (LeakyRelu): attribute alpha is given twice");
}

TEST(ImportErrorTest, InputCounts) {
  EXPECT_EQ(errorOf("(float[2] x) => (float[2] y) { y = Add(x) }"), "node \"n\" (Add): found 1 inputs, expected 2");
  EXPECT_EQ(errorOf("(float[2] x) => (float[2] y) { y = Relu(x, x) }"), "node \"n\" (Relu): found 2 inputs, expected 1");
}

TEST(ImportErrorTest, Quantisation) {
  auto quantize = [](const std::string &scale) {
    return errorOf("(float[2] x) => (uint8[2] y) { s = Constant <value = " + scale + "> () y = QuantizeLinear(x, s) }");
  };
  EXPECT_NE(quantize("float {-1.0}").find("expected a positive number"), std::string::npos);
  EXPECT_EQ(quantize("float[3] {1.0, 1.0, 1.0}"), "node \"n\" (QuantizeLinear): axis is 1, expected -1 to 0");
  EXPECT_EQ(Imported("(float[2] x, float s) => (uint8[N] y) { y = QuantizeLinear(x, s) }").ops(), "fallback 2xui8");
}

TEST(ImportErrorTest, ResultsThatAreNotMade) {
  EXPECT_EQ(
      Imported("(float[1,1,4,4] x) => (float[1,1,3,3] y, int64[1,1,3,3] i) { y, i = MaxPool <kernel_shape = [2, 2]> (x) }")
          .ops(),
      "fallback 1x1x3x3xf32 1x1x3x3xi64");
  EXPECT_EQ(errorOf("(float[2] x) => (float[N] y) { y = Frobnicate(x) }"),
            "node \"n\" (Frobnicate): this operator is not supported");
}

TEST(ImportErrorTest, EveryUnsupportedNodeIsListed) {
  const std::string open =
      "(float[2,3] x) => (float[N,3] y) { a = Elu(x) b = Hardmax(a) c = Hardmax(b) d = Custom(c) e = Neg(d) y = Elu(e) }";
  EXPECT_EQ(errorOf(modelOf(open)), "3 nodes cannot run on any target: Custom (1), Hardmax (2)\n"
                                    "node \"d\" (Custom): this operator is not supported\n"
                                    "node \"b\" (Hardmax): no kernel computes this operator\n"
                                    "node \"c\" (Hardmax): no kernel computes this operator\n"
                                    "2 nodes that need their results were not looked at");
  // Of a result that nobody reads nothing has to be known.
  EXPECT_EQ(Imported("(float[2] x) => (float[2] y) { y = Relu(x) unused = NonZero(x) }").ops(), "relu 2xf32");
  EXPECT_EQ(Imported("(float[2] x) => (float[2] y) { y = Relu(x) a = NonZero(x) b = Neg(a) }").ops(), "relu 2xf32");
}

TEST(ImportErrorTest, TypesAreNamedAsInOnnx) {
  EXPECT_EQ(errorOf("(bool[4,3] x) => (bool[4,1] y) { y = ReduceMax <axes = [1]> (x) }"),
            "node \"n\" (ReduceMax): input 0 is of bool, expected float, bfloat16, float16, int8, uint8, int32 or int64");
}

TEST(ImportErrorTest, NamesArePrintable) {
  onnx::ModelProto model = modelOf("(float[2] x) => (float[N] y) { y = Frobnicate(x) }");
  model.mutable_graph()->mutable_node(0)->set_name("a\nb\x1b[31m\x7f\xff\xc2\x9b\xe2\x80\xae \xc3\xa9");
  model.mutable_graph()->mutable_node(0)->set_op_type("Op\t");
  EXPECT_EQ(errorOf(model), "node \"a\\nb\\x1b[31m\\x7f\\xff\\u009b\\u202e \xc3\xa9\" (Op\\t): this operator is not supported");
  model = modelOf("(float[N] x) => (float[N] y) { y = Relu(x) }");
  model.mutable_graph()->mutable_input(0)->set_name(std::string("x\0\n", 3));
  EXPECT_EQ(errorOf(model), "input \"x\\x00\\n\" has open dims [N]: fix them with --shape x\\x00\\n=D");
}

TEST(ImportErrorTest, ConstantsBeyondTheBudget) {
  auto ofShape = [&](const std::string &dims, const ImportOptions &options = {}) {
    return errorOf(modelOf("(float[1] x) => (float[N] y) { s = Constant <value = int64[1] {" + dims +
                           "}> () c = ConstantOfShape <value = float[1] {0.5}> (s) y = Add(x, c) }"),
                   options);
  };
  EXPECT_EQ(ofShape("2147483647"),
            "node \"c\" (ConstantOfShape): its constants take 8589934588 bytes, beside 8 before it; at most "
            "2147483648 are allowed (--max-constant-bytes)");
  ImportOptions little;
  little.maxConstantBytes = 1000;
  EXPECT_EQ(ofShape("249", little),
            "node \"c\" (ConstantOfShape): its constants take 996 bytes, beside 8 before it; at most 1000 "
            "are allowed (--max-constant-bytes)");
  EXPECT_EQ(Imported("(float[1] x) => (float[248] y) { s = Constant <value = int64[1] {248}> () c = ConstantOfShape(s) "
                     "y = Add(x, c) }",
                     13, little)
                .ops(),
            "add 248xf32");
  // Doublings are refused before any is done: the last one would have 2^32 bytes.
  std::string doublings = "c0 = Constant <value = float[2] {1.0, 2.0}> () ";
  for (int i = 0; i < 29; ++i)
    doublings += "c" + std::to_string(i + 1) + " = Concat <axis = 0> (c" + std::to_string(i) + ", c" + std::to_string(i) + ") ";
  EXPECT_NE(
      errorOf(modelOf("(float[1] x) => (float[N] y) { " + doublings + "y = Add(x, c29) }")).find("(--max-constant-bytes)"),
      std::string::npos);
  // A small result of a large constant, again and again.
  std::string sums =
      "s = Constant <value = int64[1] {268435456}> () c = ConstantOfShape(s) t0 = Constant <value = float {1.0}> () ";
  for (int i = 0; i < 20; ++i)
    sums += "r" + std::to_string(i) + " = Expand(t" + std::to_string(i) + ", s) t" + std::to_string(i + 1) +
            " = ReduceSum <keepdims = 0> (r" + std::to_string(i) + ") ";
  EXPECT_NE(errorOf(modelOf("(float[1] x) => (float[N] y) { " + sums + "y = Add(x, t20) }")).find("(--max-constant-bytes)"),
            std::string::npos);
}

TEST(ImportErrorTest, InputsThatAreConstants) {
  onnx::ModelProto model = modelOf("(float[2,N] x, int64[2] s) => (float[M,K] y) { y = Reshape(x, s) }");
  ImportOptions options;
  options.shapes["x"] = {2, 6};
  EXPECT_EQ(errorOf(model, options),
            "node \"y\" (Reshape): input 1 (shape) is not a constant; the shape of its result is known when it runs");
  options.values["s"] = "3,4";
  EXPECT_EQ(Imported(model, options).ops(), "reshape 3x4xf32");
  options.values["s"] = "3,4.5";
  EXPECT_EQ(errorOf(model, options),
            "input \"s\" is given the constant \"3,4.5\", expected a number of int64, several with commas "
            "between them, or a file .npy or .pb");
  options.values["s"] = "3,2,2";
  EXPECT_EQ(errorOf(model, options), "input \"s\" is given a constant of shape [3], the model allows [2]");
  options.values = {{"t", "1"}};
  EXPECT_EQ(errorOf(model, options), "a constant is given for \"t\", the inputs of the model are: s, x");
}

TEST(ImportErrorTest, ShapesOfGivenTensors) {
  onnx::ModelProto model = modelOf("(float[N,3] x, float[N,3] z) => (float[N,3] y) { y = Add(x, z) }");
  ImportOptions options;
  options.given = {{"", "a.npy", {4, 3}}, {"x", "b.npy", {4, 3}}};
  EXPECT_EQ(Imported(model, options).ops(), "add 4x3xf32");
  options.shapes["x"] = {5, 3};
  EXPECT_EQ(errorOf(model, options), "input \"x\" is [5, 3] by --shape, but b.npy holds [4, 3]");
  options.shapes.clear();
  options.given[1].shape = {4, 2};
  EXPECT_EQ(errorOf(model, options), "input \"x\" is given in b.npy a tensor of shape [4, 2], the model allows [N, 3]");
  // A batch says nothing of its dim 0.
  options.given = {{"", "a.npy", {-1, 3}}, {"", "b.npy", {-1, 3}}};
  EXPECT_EQ(Imported(model, options).ops(), "add 1x3xf32");
}

TEST(ImportErrorTest, GraphsThatAreNotSorted) {
  EXPECT_EQ(Imported("(float[2] x) => (float[2] y) { y = Relu(z) z = Neg(x) }").ops(), "neg 2xf32, relu 2xf32");
  EXPECT_EQ(errorOf("(float[2] x) => (float[2] y) { y = Add(x, y) }"), "node \"n\" needs its own result");
  EXPECT_EQ(errorOf("(float[2] x) => (float[2] y) { y = Add(x, w) }"),
            "node \"n\" (Add): input \"w\" is no input, no initializer and produced by no node");
  EXPECT_EQ(errorOf("(float[2] x) => (float[2] y) { z = Relu(x) }"), "output \"y\" is produced by no node");
}

TEST(ImportErrorTest, NamesGivenTwice) {
  EXPECT_EQ(errorOf("(float[2] x) => (float[2] y) { y = Relu(x) y = Neg(x) }"),
            "node \"n\" (Neg): name \"y\" is given to two tensors");
  EXPECT_EQ(errorOf("(float[2] x, float[2] x) => (float[2] y) { y = Relu(x) }"), "input \"x\" is given twice");
}

TEST(ImportErrorTest, OpenDimsSayHowToFixThem) {
  EXPECT_EQ(errorOf("(float[N,3] x, float[2,M] z) => (float[N,3] y) { y = Relu(x) }"),
            "input \"x\" has open dims [N, 3]: fix them with --shape x=D,3; input \"z\" has open dims [2, M]: fix them with "
            "--shape z=2,D");
  ImportOptions options;
  options.shapes["x"] = {2, 4};
  onnx::ModelProto model = modelOf("(float[N,3] x) => (float[N,3] y) { y = Relu(x) }");
  EXPECT_EQ(errorOf(model, options), "input \"x\" was given shape [2, 4], the model allows [N, 3]");
  options.shapes = {{"z", {2}}};
  EXPECT_EQ(errorOf(model, options), "a shape is given for \"z\", the inputs of the model are: x");
  options.shapes = {{"x", {0, 3}}};
  EXPECT_EQ(errorOf(model, options),
            "input \"x\" has shape [0, 3]: every dim must be at least 1, and at most 2^31 elements are allowed");
  options.shapes = {{"x", {std::numeric_limits<int64_t>::max(), 3}}};
  EXPECT_NE(errorOf(model, options).find("at most 2^31 elements"), std::string::npos);
}

TEST(ImportErrorTest, Opsets) {
  EXPECT_EQ(errorOf("(float[2] x) => (float[2] y) { y = Relu(x) }", 29), "opset is 29, expected 7 to 28");
  EXPECT_EQ(errorOf("(float[2] x) => (float[2] y) { y = Add <broadcast = 1> (x, x) }", 6),
            "node \"n\" (Add): this operator is of opset 6, expected 7 or newer: convert the model");
  onnx::ModelProto model = modelOf("(float[2] x) => (float[2] y) { y = Relu(x) }");
  model.clear_opset_import();
  EXPECT_EQ(errorOf(model), "node \"y\" (Relu): the model imports no operators of domain \"\"");
}

/// A model with one initializer w, changed by `change`.
template <typename Change> static std::string initializerError(Change change) {
  onnx::ModelProto model = modelOf("(float[2] x) => (float[2] y) { y = Add(x, w) }");
  onnx::TensorProto *w = model.mutable_graph()->add_initializer();
  w->set_name("w");
  w->add_dims(2);
  w->set_data_type(onnx::TensorProto::FLOAT);
  w->set_raw_data(std::string(8, '\0'));
  EXPECT_EQ(Imported(model).ops(), "add 2xf32");
  change(*w);
  return errorOf(model);
}

TEST(ImportErrorTest, Initializers) {
  EXPECT_EQ(initializerError([](onnx::TensorProto &w) { w.set_raw_data("abc"); }),
            "initializer \"w\": it holds 3 bytes, its shape [2] of float needs 8");
  EXPECT_EQ(initializerError([](onnx::TensorProto &w) {
              w.clear_raw_data();
              w.add_float_data(1);
            }),
            "initializer \"w\": it holds 1 values, its shape [2] of float needs 2");
  EXPECT_EQ(initializerError([](onnx::TensorProto &w) { w.set_dims(0, -2); }),
            "initializer \"w\": its shape is [-2]: no dim may be negative, and at most 2^31 elements are allowed");
  EXPECT_EQ(initializerError([](onnx::TensorProto &w) {
              w.set_dims(0, int64_t(1) << 31);
              w.add_dims(int64_t(1) << 33);
            }).find("initializer \"w\": its shape is [2147483648, 8589934592]"),
            0u);
  EXPECT_EQ(initializerError([](onnx::TensorProto &w) { w.set_data_location(onnx::TensorProto::EXTERNAL); }),
            "initializer \"w\": its data is in another file, but the model was not read from a folder");
  EXPECT_EQ(initializerError([](onnx::TensorProto &w) { w.set_data_type(onnx::TensorProto::COMPLEX64); }),
            "initializer \"w\": it holds 8 bytes, its shape [2] of complex64 needs 16");
  EXPECT_EQ(initializerError([](onnx::TensorProto &w) {
              w.clear_raw_data();
              w.set_data_type(onnx::TensorProto::INT8);
              w.add_int32_data(1);
              w.add_int32_data(300);
            }),
            "initializer \"w\": it holds a value outside the range of int8");
}

TEST(ImportErrorTest, InitializersOfOneName) {
  onnx::ModelProto model = modelOf("(float[2] x) => (float[2] y) { y = Add(x, w) }");
  for (int i = 0; i < 2; ++i) {
    onnx::TensorProto *w = model.mutable_graph()->add_initializer();
    w->set_name("w");
    w->set_data_type(onnx::TensorProto::FLOAT);
    w->add_float_data(1);
  }
  EXPECT_EQ(errorOf(model), "initializer \"w\": name \"w\" is given to two tensors");
}

TEST(ImportErrorTest, ControlFlow) {
  onnx::ModelProto model = modelOf("(bool x) => (float[N] y) { y = If(x) }");
  onnx::AttributeProto *branch = model.mutable_graph()->mutable_node(0)->add_attribute();
  branch->set_name("then_branch");
  branch->set_type(onnx::AttributeProto::GRAPH);
  branch->mutable_g();
  EXPECT_EQ(errorOf(model), "node \"y\" (If): no kernel computes this operator; the shape of its result is known when it runs");
}

TEST(ImportErrorTest, FilesThatAreNoModels) {
  mlir::MLIRContext context;
  auto error = [&](auto &&result) { return llvm::toString(result.takeError()); };
  EXPECT_EQ(error(importOnnx(context, "hello", "m.onnx")),
            "m.onnx: not a valid ONNX model: its bytes are damaged or cut off, or its graphs are nested more than 1000 deep");
  EXPECT_EQ(error(importOnnx(context, "", "m.onnx")), "m.onnx: not an ONNX model: it has no graph");
  EXPECT_EQ(error(importOnnxFile(context, "/nowhere/m.onnx")),
            "/nowhere/m.onnx: cannot read the file: No such file or directory");
}

} // namespace tw::frontend
