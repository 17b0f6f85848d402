//===- ConstantFoldingTest.cpp - What the importer computes itself --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX's own operator tests with their inputs bound to constants: where the
// importer folds the node, the result must be the expected output that comes
// with the test.
//===----------------------------------------------------------------------===//
#include "TestModels.h"
#include "compiler/frontend/TensorFile.h"
#include "compiler/graph/Graph.h"
#include "compiler/operators/Elements.h"
#include "isa/files/InputFile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>

namespace tw::frontend {

namespace fs = std::filesystem;

/// Where Debian's package libonnx-testdata puts the tests.
static const fs::path kNodeTests = "/usr/share/libonnx-testdata/data/node";

namespace {
struct NodeTest {
  onnx::ModelProto model;
  std::vector<HostTensor> inputs, outputs;
};
} // namespace

/// Reads one operator test; nothing if it is not about tensors of numbers.
static std::optional<NodeTest> readNodeTest(const fs::path &folder) {
  NodeTest test;
  auto bytes = tw::files::readFile((folder / "model.onnx").string());
  if (!bytes || !test.model.ParseFromString(*bytes))
    return std::nullopt;
  auto read = [&](const char *kind, int count, std::vector<HostTensor> &tensors) {
    for (int i = 0; i < count; ++i) {
      auto tensor = readTensorFile((folder / "test_data_set_0" / (kind + std::to_string(i) + ".pb")).string());
      if (!tensor)
        return false;
      tensors.push_back(*tensor);
    }
    return true;
  };
  if (!read("input_", test.model.graph().input_size(), test.inputs) ||
      !read("output_", test.model.graph().output_size(), test.outputs))
    return std::nullopt;
  return test;
}

/// The tests of Debian's package whose data are known to be wrong; the list gives the reasons.
static std::set<std::string> knownFailures() {
  std::ifstream list(TILEWRIGHT_SOURCE_DIR "/tests/conformance/known-failures.txt");
  std::set<std::string> names;
  for (std::string line; std::getline(list, line);)
    if (llvm::StringRef rest = line; rest.consume_front("installed * "))
      names.insert(rest.split(':').first.str());
  return names;
}

/// How far a result may be from what a test expects, relative to numbers above 1. Exponentials and the like may differ in the last bits.
static double toleranceOf(llvm::StringRef op, llvm::StringRef test) {
  // They made the results of windows with 3.1415 for pi, 9.3e-5 too little. At 0 <= t < 1, a - b cos(2 pi t) + c cos(4 pi t) changes by at
  // most 2b + 4c times as much, which is 1.32 for a Blackman window and less for the others.
  if (test.contains("window"))
    return 1.32 * 9.3e-5;
  // Expected numbers with four digits behind the point: half a unit.
  if (op == "GridSample")
    return 0.5e-4;
  // The same, of inputs that are written so too, and whose means are half a unit off.
  return op == "RoiAlign" ? 1e-4 : 1e-6;
}

/// Compares a graph.constant with an expected tensor.
static void compare(mlir::DenseElementsAttr found, HostTensor expected, llvm::StringRef op, const std::string &name) {
  double tolerance = toleranceOf(op, name);
  // The tests of ONNX 1.12 store bfloat16 results as their bits, and made them by truncation instead of rounding.
  if (found.getElementType().isBF16() && expected.type == ElementKind::U16) {
    expected.type = ElementKind::BF16;
    tolerance = std::ldexp(1.0, -7);
  }
  ASSERT_EQ(found.getType().getShape(), llvm::ArrayRef<int64_t>(expected.shape)) << name;
  size_t i = 0;
  auto check = [&](double value) {
    double wanted = operators::realAt(expected, int64_t(i++));
    if (std::isnan(wanted))
      EXPECT_TRUE(std::isnan(value)) << name;
    else if (value != wanted)
      EXPECT_NEAR(value, wanted, tolerance * std::max(1.0, std::abs(wanted))) << name << " element " << i - 1;
  };
  if (mlir::isa<mlir::FloatType>(found.getElementType())) {
    for (llvm::APFloat value : found.getValues<llvm::APFloat>()) {
      bool lost;
      value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
      check(value.convertToDouble());
    }
  } else {
    bool isSigned = !found.getElementType().isUnsignedInteger() && !found.getElementType().isInteger(1);
    for (llvm::APInt value : found.getValues<llvm::APInt>())
      check(isSigned ? double(value.getSExtValue()) : double(value.getZExtValue()));
  }
}

TEST(ConstantFoldingTest, OperatorTestsOfOnnx) {
  if (!fs::exists(kNodeTests))
    GTEST_SKIP() << kNodeTests << " is not there (Debian package libonnx-testdata)";
  std::vector<fs::path> folders;
  for (const fs::directory_entry &entry : fs::directory_iterator(kNodeTests))
    folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  std::map<std::string, int> folded;
  const std::set<std::string> known = knownFailures();
  ASSERT_FALSE(known.empty());
  int imported = 0;
  for (const fs::path &folder : folders) {
    auto test = readNodeTest(folder);
    if (!test)
      continue;
    ImportOptions options;
    options.widenFloats = false;
    for (int i = 0; i < test->model.graph().input_size(); ++i)
      options.constants[test->model.graph().input(i).name()] = test->inputs[size_t(i)];
    Imported m(test->model, options);
    if (!m.module)
      continue;
    ++imported;
    auto function = m.function();
    mlir::Operation *terminator = function.getBody().front().getTerminator();
    for (unsigned i = 0; i < terminator->getNumOperands(); ++i)
      if (auto constant = terminator->getOperand(i).getDefiningOp<graph::ConstantOp>()) {
        const std::string &op = test->model.graph().node(0).op_type(), name = folder.filename().string();
        ++folded[op];
        // Bits of a bfloat16 can be compared all the same.
        if (!known.count(name) || test->outputs[i].type == ElementKind::U16)
          compare(mlir::cast<mlir::DenseElementsAttr>(constant.getValue()), test->outputs[i], op, name);
      }
  }
  // 932 tests come with ONNX 1.12; what is not imported is about strings, sequences, control flow or random numbers.
  EXPECT_GT(imported, 750);
  for (const char *op : {"Add",
                         "Cast",
                         "Concat",
                         "Constant",
                         "ConstantOfShape",
                         "Div",
                         "Equal",
                         "Expand",
                         "Gather",
                         "Mod",
                         "Mul",
                         "Pad",
                         "Range",
                         "ReduceSum",
                         "Reshape",
                         "Shape",
                         "Slice",
                         "Split",
                         "Squeeze",
                         "Sub",
                         "Tile",
                         "Transpose",
                         "Unsqueeze",
                         "Where",
                         "Abs",
                         "AveragePool",
                         "BatchNormalization",
                         "Clip",
                         "Conv",
                         "ConvInteger",
                         "ConvTranspose",
                         "Cos",
                         "DepthToSpace",
                         "Erf",
                         "Exp",
                         "Floor",
                         "Gemm",
                         "GlobalAveragePool",
                         "GlobalMaxPool",
                         "HardSigmoid",
                         "HardSwish",
                         "InstanceNormalization",
                         "LayerNormalization",
                         "LeakyRelu",
                         "Log",
                         "LRN",
                         "MatMul",
                         "MatMulInteger",
                         "Max",
                         "MaxPool",
                         "Mean",
                         "Min",
                         "Neg",
                         "Not",
                         "Pow",
                         "PRelu",
                         "QLinearConv",
                         "QLinearMatMul",
                         "QuantizeLinear",
                         "Reciprocal",
                         "ReduceL2",
                         "ReduceMax",
                         "ReduceMean",
                         "ReduceMin",
                         "Relu",
                         "Resize",
                         "Sigmoid",
                         "Sin",
                         "Softmax",
                         "Softplus",
                         "Sqrt",
                         "Sum",
                         "Tanh"})
    EXPECT_GT(folded[op], 0) << op << " is no longer folded";
}

TEST(ConstantFoldingTest, OperatorTestsGiveTheDeclaredShapes) {
  if (!fs::exists(kNodeTests))
    GTEST_SKIP() << kNodeTests << " is not there (Debian package libonnx-testdata)";
  // The importer refuses a result whose shape is not the declared one: whatever imports has the right shape. These operators
  // must import, all their tests, with nothing left to another device.
  const std::set<std::string> whole = {"Abs",
                                       "Add",
                                       "AveragePool",
                                       "BatchNormalization",
                                       "Clip",
                                       "Concat",
                                       "Conv",
                                       "Div",
                                       "DepthToSpace",
                                       "Erf",
                                       "Exp",
                                       "Flatten",
                                       "Floor",
                                       "Gemm",
                                       "GlobalAveragePool",
                                       "GlobalMaxPool",
                                       "HardSigmoid",
                                       "HardSwish",
                                       "Identity",
                                       "LeakyRelu",
                                       "LayerNormalization",
                                       "MatMul",
                                       "Mul",
                                       "Neg",
                                       "PRelu",
                                       "Reciprocal",
                                       "ReduceL1",
                                       "ReduceL2",
                                       "ReduceMax",
                                       "ReduceMean",
                                       "ReduceMin",
                                       "ReduceSumSquare",
                                       "Relu",
                                       "Reshape",
                                       "Sigmoid",
                                       "Softmax",
                                       "SpaceToDepth",
                                       "Sqrt",
                                       "Squeeze",
                                       "Sub",
                                       "Sum",
                                       "Tanh",
                                       "Transpose",
                                       "Unsqueeze"};
  std::map<std::string, int> seen;
  for (const fs::directory_entry &entry : fs::directory_iterator(kNodeTests)) {
    auto test = readNodeTest(entry.path());
    if (!test || test->model.graph().node_size() != 1 || !whole.count(test->model.graph().node(0).op_type()))
      continue;
    const std::string &op = test->model.graph().node(0).op_type();
    std::string name = entry.path().filename().string();
    // Training, and tensors without elements, are refused on purpose.
    bool training = name.find("training_mode") != std::string::npos;
    bool empty = false;
    ImportOptions options;
    for (size_t i = 0; i < test->inputs.size(); ++i) {
      for (int64_t dim : test->inputs[i].shape)
        empty |= dim == 0;
      // All but the first input are parameters such as axes and shapes.
      if (i && (test->inputs[i].type == ElementKind::I64 || op == "Clip"))
        options.constants[test->model.graph().input(int(i)).name()] = test->inputs[i];
    }
    ElementKind kind = test->inputs.empty() ? ElementKind::F32 : test->inputs[0].type;
    if (training || empty || (kind != ElementKind::F32 && kind != ElementKind::F16))
      continue;
    Imported m(test->model, options);
    ASSERT_TRUE(bool(m.module)) << name << ": " << m.error;
    // A Conv test with a 3-D window would be one, but there is none.
    EXPECT_EQ(m.ops().find("fallback"), std::string::npos) << name << ": " << m.ops();
    ++seen[op];
  }
  EXPECT_EQ(seen.size(), whole.size());
}

} // namespace tw::frontend
