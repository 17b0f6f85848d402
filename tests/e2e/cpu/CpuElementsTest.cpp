//===- CpuElementsTest.cpp - Operators by element, as code and by the host -===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Comparisons, logic, bits, functions, conversions and the operators whose places
// other tensors give: one node in every element type that its code takes, on
// values where types have their edges. The code's results must be those of
// compiler/operators. Floats may differ by a few units of the last place where a
// function is a polynomial; all else is equal.
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/CpuTarget.h"
#include "compiler/frontend/OnnxImport.h"
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/loops/Passes.h"
#include "compiler/operators/Elements.h"
#include "compiler/operators/Evaluator.h"

#include "mlir/Pass/PassManager.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <onnx/onnx_pb.h>
#include <random>

using namespace tw;
using frontend::ElementKind;
using frontend::HostTensor;
using operators::Value;
using Shape = std::vector<int64_t>;
using Kinds = std::vector<ElementKind>;

namespace {

const Kinds kFloats{ElementKind::F32, ElementKind::F64};
const Kinds kSigned{ElementKind::I8, ElementKind::I16, ElementKind::I32, ElementKind::I64};
const Kinds kUnsigned{ElementKind::U8, ElementKind::U16, ElementKind::U32, ElementKind::U64};
const Kinds kBool{ElementKind::Bool};

Kinds joined(std::initializer_list<Kinds> lists) {
  Kinds all;
  for (const Kinds &list : lists)
    all.insert(all.end(), list.begin(), list.end());
  return all;
}
const Kinds kIntegers = joined({kSigned, kUnsigned}), kNumbers = joined({kFloats, kIntegers}), kAll = joined({kNumbers, kBool});

/// Numbers where something changes, in any type: zeros, ties, borders of types, infinities, no number; then random ones.
HostTensor edges(ElementKind kind, const Shape &shape, unsigned seed, double most = std::numeric_limits<double>::infinity()) {
  HostTensor tensor = operators::makeTensor(kind, shape);
  const int64_t count = operators::countOf(tensor);
  std::mt19937_64 random(seed);
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> reals{0.0,     -0.0, 0.5,  -0.5,         1,     -1,   1.5,  -1.5,  2.5,   -2.5,   0.25,
                            -0.75,   0.99, 3,    -7,           127.5, 255,  -129, 65504, 1e-40, -1e-40, 3.4e38,
                            -3.4e38, inf,  -inf, std::nan(""), 1e9,   -3e9, 5e9,  1e19,  2e19,  -1e19};
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = random();
    if (frontend::isFloat(kind)) {
      double value = i < int64_t(reals.size()) ? reals[size_t(i)] : (double(bits >> 11) / 0x1p52 - 1) * 10;
      if (!(std::fabs(value) <= most))
        value = std::fmod(double(i), most);
      operators::setReal(tensor, i, value);
      continue;
    }
    const unsigned width = 8 * frontend::elementBytes(kind);
    const uint64_t all = ~uint64_t(0) >> (64 - width), top = uint64_t(1) << (width - 1);
    const std::vector<uint64_t> integers{0, 1, all, top, top - 1, top + 1, 2, 3, 7, all - 1, width, width - 1, 10, all - 6};
    operators::setInteger(tensor, i, int64_t(i < int64_t(integers.size()) ? integers[size_t(i)] : i % 2 ? bits % 40 : bits));
  }
  return tensor;
}

HostTensor integers(ElementKind kind, const Shape &shape, int64_t low, int64_t high, unsigned seed) {
  HostTensor tensor = operators::makeTensor(kind, shape);
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < operators::countOf(tensor); ++i)
    operators::setInteger(tensor, i, low + int64_t(random() % uint64_t(high - low + 1)));
  return tensor;
}

/// A model of one node.
struct Model {
  onnx::ModelProto proto;
  onnx::NodeProto *node = nullptr;
  std::vector<HostTensor> inputs;

  explicit Model(const std::string &type, ElementKind result, int64_t opset = 20) {
    proto.set_ir_version(9);
    proto.add_opset_import()->set_version(opset);
    proto.mutable_graph()->set_name("test");
    node = proto.mutable_graph()->add_node();
    node->set_op_type(type);
    node->set_name("node");
    node->add_output("y");
    auto *info = proto.mutable_graph()->add_output();
    info->set_name("y");
    info->mutable_type()->mutable_tensor_type()->set_elem_type(frontend::onnxTypeOf(result));
  }
  void add(HostTensor tensor) {
    tensor.name = "x" + std::to_string(inputs.size());
    node->add_input(tensor.name);
    auto *info = proto.mutable_graph()->add_input();
    info->set_name(tensor.name);
    auto *type = info->mutable_type()->mutable_tensor_type();
    type->set_elem_type(frontend::onnxTypeOf(tensor.type));
    type->mutable_shape();
    for (int64_t dim : tensor.shape)
      type->mutable_shape()->add_dim()->set_dim_value(dim);
    inputs.push_back(std::move(tensor));
  }
  void constant(HostTensor tensor) {
    const std::string name = "c" + std::to_string(proto.graph().initializer_size());
    *proto.mutable_graph()->add_initializer() = frontend::encodeTensor(tensor, name);
    node->add_input(name);
  }
  void set(const char *name, int64_t value) {
    onnx::AttributeProto &attribute = *node->add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(value);
  }
  void setText(const char *name, const char *value) {
    onnx::AttributeProto &attribute = *node->add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(value);
  }
};

/// What the code of the model makes of its inputs.
llvm::Expected<std::vector<HostTensor>> runCode(const Model &model, unsigned vectorBits) {
  mlir::MLIRContext context;
  std::string diagnostics;
  context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) { diagnostics += diagnostic.str(); });
  auto module = frontend::importOnnx(context, model.proto.SerializeAsString(), "test.onnx");
  if (!module)
    return module.takeError();
  graph::GraphPipelineOptions options;
  options.targets = {graph::makeCpuTarget()};
  mlir::PassManager passes(&context);
  graph::buildGraphPipeline(passes, options);
  passes.addPass(loops::createLowerGraphPass());
  if (mlir::failed(passes.run(**module)))
    return llvm::createStringError("%s", diagnostics.c_str());
  cpu::CpuOptions cpuOptions;
  cpuOptions.vectorBits = vectorBits;
  auto executable = cpu::compileForCpu(**module, cpuOptions);
  if (!executable)
    return executable.takeError();
  std::vector<HostTensor> outputs(1);
  outputs[0] = operators::makeTensor(
      frontend::elementKindOf(model.proto.graph().output(0).type().tensor_type().elem_type()).value(), {});
  if (llvm::Error error = (*executable)->run(model.inputs, outputs))
    return std::move(error);
  return std::move(outputs);
}

/// `places`: units of the last place that floats may differ by.
void check(const Model &model, int places = 0) {
  const HostTensor expected =
      *operators::Evaluator(model.proto).run(std::vector<Value>(model.inputs.begin(), model.inputs.end())).front().tensor;
  SCOPED_TRACE(model.node->op_type() + " of " +
               (model.inputs.empty() ? "constants" : frontend::elementName(model.inputs[0].type)) + " to " +
               frontend::elementName(expected.type));
  // Every other model with short vectors.
  static unsigned models = 0;
  const unsigned vectorBits = models++ % 2 ? 128 : 0;
  auto results = runCode(model, vectorBits);
  ASSERT_TRUE(bool(results)) << llvm::toString(results.takeError());
  HostTensor actual = results->front();
  ASSERT_EQ(actual.shape, expected.shape);
  if (!frontend::isFloat(expected.type)) {
    ASSERT_EQ(actual.bytes.size(), expected.bytes.size());
    for (size_t i = 0; i < expected.bytes.size(); ++i)
      ASSERT_EQ(actual.bytes[i], expected.bytes[i]) << "byte " << i << ", vectors of " << vectorBits << " bits";
    return;
  }
  // What is float16 in the model is rounded as it is written.
  if (expected.type == ElementKind::F16)
    actual = operators::toKind(actual, expected.type);
  const double unit = expected.type == ElementKind::F64 ? 0x1p-52 : expected.type == ElementKind::F32 ? 0x1p-23 : 0;
  for (int64_t i = 0; i < operators::countOf(expected); ++i) {
    const double a = operators::realAt(actual, i), e = operators::realAt(expected, i);
    const bool isEqual = (std::isnan(a) && std::isnan(e)) || (a == e && std::signbit(a) == std::signbit(e));
    ASSERT_TRUE(isEqual || std::fabs(a - e) <= places * unit * std::fabs(e) + (places ? places * 0x1p-149 : 0))
        << "element " << i << " is " << a << ", expected " << e << ", vectors of " << vectorBits << " bits";
  }
}

/// Every edge meets every other one.
void checkBinary(const std::string &type, const Kinds &kinds, bool isPredicate, const char *direction = nullptr) {
  for (ElementKind kind : kinds) {
    Model model(type, isPredicate ? ElementKind::Bool : kind);
    model.add(edges(kind, {37, 1}, 1));
    model.add(edges(kind, {1, 37}, 1));
    if (direction)
      model.setText("direction", direction);
    check(model);
  }
}

TEST(CpuElementsTest, Comparisons) {
  checkBinary("Equal", kAll, true);
  for (const char *type : {"Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
    checkBinary(type, kNumbers, true);
}

TEST(CpuElementsTest, Logic) {
  for (const char *type : {"And", "Or", "Xor"})
    checkBinary(type, kBool, false);
  Model model("Not", ElementKind::Bool);
  model.add(edges(ElementKind::Bool, {19}, 1));
  check(model);
}

TEST(CpuElementsTest, Bits) {
  for (const char *type : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
    checkBinary(type, kIntegers, false);
  for (const char *direction : {"LEFT", "RIGHT"})
    checkBinary("BitShift", kUnsigned, false, direction);
  for (ElementKind kind : kIntegers) {
    Model model("BitwiseNot", kind);
    model.add(edges(kind, {53}, 1));
    check(model);
  }
}

TEST(CpuElementsTest, Remainders) {
  checkBinary("Mod", kIntegers, false);
  for (ElementKind kind : kNumbers) {
    Model model("Mod", kind);
    model.add(edges(kind, {37, 1}, 1));
    model.add(edges(kind, {1, 37}, 1));
    model.set("fmod", 1);
    check(model);
  }
}

TEST(CpuElementsTest, Selections) {
  for (ElementKind kind : kAll) {
    Model model("Where", kind);
    model.add(integers(ElementKind::Bool, {5, 1, 1}, 0, 1, 3));
    model.add(edges(kind, {37}, 1));
    model.add(edges(kind, {3, 1}, 2));
    check(model);
  }
}

TEST(CpuElementsTest, PredicatesOfFloats) {
  for (ElementKind kind : kFloats)
    for (int form = 0; form < 5; ++form) {
      Model model(form ? "IsInf" : "IsNaN", ElementKind::Bool);
      model.add(edges(kind, {3, 17}, 1));
      if (form) {
        model.set("detect_negative", (form - 1) & 1);
        model.set("detect_positive", (form - 1) >> 1);
      }
      check(model);
    }
}

TEST(CpuElementsTest, Signs) {
  for (ElementKind kind : kNumbers) {
    Model model("Sign", kind);
    model.add(edges(kind, {61}, 1));
    check(model);
  }
}

TEST(CpuElementsTest, RoundedNumbers) {
  for (const char *type : {"Ceil", "Round"})
    for (ElementKind kind : kFloats) {
      Model model(type, kind);
      model.add(edges(kind, {131}, 1));
      check(model);
    }
}

TEST(CpuElementsTest, FunctionsOfFloats) {
  for (const char *type : {"Log", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"})
    for (ElementKind kind : kFloats) {
      Model model(type, kind);
      model.add(edges(kind, {131}, 1));
      check(model, /*places=*/4);
    }
}

TEST(CpuElementsTest, Powers) {
  for (ElementKind base : joined({kFloats, kIntegers}))
    for (ElementKind exponent : joined({kFloats, kIntegers})) {
      if (!frontend::isFloat(base) && !frontend::isFloat(exponent))
        continue; // the host's
      Model model("Pow", base);
      model.add(edges(base, {37, 1}, 1));
      model.add(edges(exponent, {1, 37}, 1));
      check(model, /*places=*/1);
    }
}

TEST(CpuElementsTest, Conversions) {
  for (ElementKind from : kAll)
    for (ElementKind to : joined({kAll, {ElementKind::F16, ElementKind::BF16}})) {
      if (from == to)
        continue;
      // Between types that accelerators have, what lies outside of the result's type is not defined.
      auto isAccelerators = [](ElementKind kind) {
        return kind == ElementKind::F32 || kind == ElementKind::I8 || kind == ElementKind::U8 || kind == ElementKind::I32 ||
               kind == ElementKind::I64;
      };
      Model model("Cast", to);
      const bool isBounded = from == ElementKind::F32 && isAccelerators(to);
      model.add(edges(from, {83}, 1, isBounded ? 127 : std::numeric_limits<double>::infinity()));
      model.set("to", frontend::onnxTypeOf(to));
      check(model);
    }
}

TEST(CpuElementsTest, GatheredRowsAndElements) {
  for (ElementKind kind : kAll)
    for (ElementKind indexKind : {ElementKind::I32, ElementKind::I64})
      for (int64_t axis : {0, 1, 2, -1}) {
        Model model("Gather", kind);
        const Shape shape{5, 7, 19};
        const int64_t extent = shape[size_t(axis < 0 ? 2 : axis)];
        model.add(edges(kind, shape, 1));
        model.add(integers(indexKind, {3, 6}, -extent, extent - 1, 5));
        model.set("axis", axis);
        check(model);
      }
}

TEST(CpuElementsTest, GatheredOfConstantsAndAtConstants) {
  Model table("Gather", ElementKind::F32);
  table.constant(edges(ElementKind::F32, {11, 33}, 1));
  table.add(integers(ElementKind::I64, {2, 9}, -11, 10, 5));
  check(table);
  Model equal("Gather", ElementKind::I64);
  HostTensor ones = operators::makeTensor(ElementKind::I64, {4, 5});
  for (int64_t i = 0; i < 20; ++i)
    operators::setInteger(ones, i, 3);
  equal.constant(ones);
  equal.add(integers(ElementKind::I32, {9}, 0, 3, 5));
  check(equal);
  Model places("Gather", ElementKind::F32);
  places.add(edges(ElementKind::F32, {11, 33}, 1));
  places.constant(integers(ElementKind::I64, {9}, -11, 10, 5));
  check(places);
}

TEST(CpuElementsTest, IndexOutsideOfItsDimIsAnError) {
  for (int64_t index : {-4, 3}) {
    Model model("Gather", ElementKind::F32);
    model.add(edges(ElementKind::F32, {3, 5}, 1));
    model.add(integers(ElementKind::I64, {1}, index, index, 1));
    auto results = runCode(model, 0);
    ASSERT_FALSE(bool(results));
    EXPECT_NE(llvm::toString(results.takeError()).find("index " + std::to_string(index) + " is out of range for a dim of 3"),
              std::string::npos);
  }
}

TEST(CpuElementsTest, Activations) {
  for (const char *type : {"Softplus", "Mish", "ThresholdedRelu", "Shrink"}) {
    Model model(type, ElementKind::F32);
    model.add(edges(ElementKind::F32, {131}, 1));
    check(model, /*places=*/8);
  }
}

TEST(CpuElementsTest, GatherElements) {
  for (ElementKind kind : kAll)
    for (int64_t axis : {0, 1, 2}) {
      const Shape shape{4, 6, 21};
      Shape sizes{3, 5, 20};
      sizes[size_t(axis)] = 9;
      Model model("GatherElements", kind);
      model.add(edges(kind, shape, 1));
      model.add(integers(ElementKind::I64, sizes, -shape[size_t(axis)], shape[size_t(axis)] - 1, 5));
      model.set("axis", axis);
      check(model);
    }
}

TEST(CpuElementsTest, GatherNd) {
  for (ElementKind kind : kAll)
    for (int64_t batchDims : {0, 1})
      for (int64_t k : {1, 2}) {
        Model model("GatherND", kind);
        model.add(edges(kind, {3, 4, 5, 17}, 1));
        model.add(integers(ElementKind::I64, {3, 7, k}, -3, 2, 5));
        model.set("batch_dims", batchDims);
        check(model);
      }
}

TEST(CpuElementsTest, Triangles) {
  for (ElementKind kind : kAll)
    for (int64_t k : {-100, -2, 0, 3, 100})
      for (int upper : {0, 1}) {
        Model model("Trilu", kind);
        model.add(edges(kind, {2, 9, 17}, 1));
        HostTensor diagonal = integers(ElementKind::I64, {}, k, k, 1);
        if (k == 3)
          model.add(diagonal);
        else
          model.constant(diagonal);
        model.set("upper", upper);
        check(model);
      }
}

TEST(CpuElementsTest, CumulativeSums) {
  for (ElementKind kind : {ElementKind::F32, ElementKind::I32, ElementKind::I64})
    for (int64_t axis : {0, 1, -1})
      for (int form = 0; form < 4; ++form) {
        Model model("CumSum", kind);
        // Floats that are whole numbers: their sums are exact in any order.
        model.add(integers(kind, {5, 7, 19}, -50, 50, 1));
        model.constant(integers(ElementKind::I64, {}, axis, axis, 1));
        model.set("exclusive", form & 1);
        model.set("reverse", form >> 1);
        check(model);
      }
}

TEST(CpuElementsTest, PlacesOfExtremes) {
  for (const char *type : {"ArgMax", "ArgMin"})
    for (ElementKind kind : {ElementKind::F32, ElementKind::I8, ElementKind::U8, ElementKind::I32, ElementKind::I64})
      for (int64_t axis : {0, 1, -1})
        for (int form = 0; form < 4; ++form) {
          Model model(type, ElementKind::I64);
          model.add(form & 1 ? integers(kind, {5, 7, 19}, 0, 3, 1) : edges(kind, {5, 7, 19}, 1));
          model.set("axis", axis);
          model.set("keepdims", form & 1);
          model.set("select_last_index", form >> 1);
          check(model);
        }
}

} // namespace
