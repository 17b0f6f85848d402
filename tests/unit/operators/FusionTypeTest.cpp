//===- FusionTypeTest.cpp - Declared mapping types against data flow -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/operators/FusionType.h"
#include "tests/unit/operators/TestCall.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

using namespace tw;
using namespace tw::operators;
using namespace tw::operators::test;

namespace {

/// A call of an operator: how it is set up, and its inputs. The first `data` inputs are those whose elements are looked at.
struct Case {
  std::string type;
  std::vector<Shape> shapes;
  size_t data = 1;
  std::function<void(TestCall &)> setUp = {}; ///< attributes, and inputs behind those of `shapes`
  ElementKind kind = ElementKind::F32;
  std::string domain = "";
  int64_t opset = 22;
};

/// A number of an element type that operators take: for floats often one between -1 and 1, seldom one that is no number.
double randomNumber(Random &random, ElementKind kind) {
  if (kind == ElementKind::F32)
    switch (random() % 32) {
    case 0:
      return std::numeric_limits<double>::infinity();
    case 1:
      return std::numeric_limits<double>::quiet_NaN();
    case 2:
    case 3:
    case 4:
    case 5:
      return double(random() % 2);
    case 6:
    case 7:
    case 8:
      return real(random, 1, 4);
    default:
      return real(random, -0.9, 0.9);
    }
  return kind == ElementKind::Bool ? double(random() % 2) : double(random() % 120);
}

/// The bits of an element; NaNs are equal.
uint64_t bitsAt(const HostTensor &x, int64_t i) {
  const double value = realAt(x, i);
  if (value != value)
    return ~uint64_t(0);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

/// Derived from which result elements change when an element of input `input` does, over several values of all of them.
std::optional<Mapping> derive(const Case &test, size_t input, Random &random) {
  std::vector<std::vector<bool>> depends; // result element, input element
  Shape resultShape;
  for (unsigned round = 0; round < 6; ++round) {
    std::vector<HostTensor> inputs;
    for (const Shape &shape : test.shapes) {
      inputs.push_back(makeTensor(test.kind, shape));
      for (int64_t i = 0; i < countOf(inputs.back()); ++i)
        setReal(inputs.back(), i, randomNumber(random, test.kind));
    }
    auto run = [&]() {
      TestCall call(test.type, test.opset, test.domain);
      for (const HostTensor &x : inputs)
        call.in(x);
      if (test.setUp)
        test.setUp(call);
      return call.run();
    };
    const HostTensor base = run();
    resultShape = base.shape;
    depends.resize(size_t(countOf(base)), std::vector<bool>(size_t(countOf(inputs[input])), false));
    for (int64_t i = 0; i < countOf(inputs[input]); ++i) {
      const double before = realAt(inputs[input], i);
      for (unsigned other = 0; other < 4; ++other) {
        setReal(inputs[input], i, randomNumber(random, test.kind));
        const HostTensor changed = run();
        if (changed.shape != base.shape)
          return std::nullopt;
        for (int64_t o = 0; o < countOf(base); ++o)
          if (bitsAt(base, o) != bitsAt(changed, o))
            depends[size_t(o)][size_t(i)] = true;
      }
      setReal(inputs[input], i, before);
    }
  }
  size_t mostIn = 0, mostOut = 0;
  std::vector<size_t> order, out(depends.empty() ? 0 : depends[0].size(), 0);
  for (const std::vector<bool> &ofResult : depends) {
    size_t in = 0;
    for (size_t i = 0; i < ofResult.size(); ++i)
      if (ofResult[i]) {
        ++in;
        ++out[i];
        order.push_back(i);
      }
    mostIn = std::max(mostIn, in);
  }
  for (size_t count : out)
    mostOut = std::max(mostOut, count);
  if (mostIn > 1)
    return Mapping::ManyToMany;
  if (mostOut != 1)
    return Mapping::OneToMany; // or of no element at all: a generator
  if (!std::is_sorted(order.begin(), order.end()))
    return Mapping::Shuffle;
  return resultShape.size() == test.shapes[input].size() ? Mapping::OneToOne : Mapping::Reorganize;
}

/// Attributes or parameters that an operator needs, or shapes of its own. Others are called with one, two or three inputs of shape [2, 3].
std::vector<Case> specialCases() {
  const Shape image = {1, 2, 4, 4};
  auto ints = [](const std::vector<double> &values) { return numbers({int64_t(values.size())}, values, ElementKind::I64); };
  auto perm = [](TestCall &call) { call.set("perm", std::vector<int64_t>{1, 0}); };
  auto kernel = [](TestCall &call) { call.set("kernel_shape", std::vector<int64_t>{2, 2}); };
  auto axis = [](TestCall &call) { call.set("axis", 1); };
  auto channels = [](int count) {
    return [count](TestCall &call) {
      for (int i = 0; i < count; ++i)
        call.in(numbers({2}, {0.5, 0.75}));
    };
  };
  return {
      {"BatchNormalization", {image}, 1, channels(4)},
      {"InstanceNormalization", {image}, 1, channels(2)},
      {"GroupNormalization",
       {image},
       1,
       [=](TestCall &call) {
         channels(2)(call);
         call.set("num_groups", 1);
       },
       ElementKind::F32,
       "",
       21},
      {"LayerNormalization", {{3, 2}}, 1, channels(1)},
      {"RMSNormalization", {{3, 2}}, 1, channels(1), ElementKind::F32, "", 23},
      {"Conv", {image, {3, 2, 2, 2}}, 2},
      {"ConvTranspose", {image, {2, 3, 2, 2}}, 2},
      {"MatMul", {{3, 4}, {4, 2}}, 2},
      {"Gemm", {{3, 4}, {4, 2}}, 2},
      {"Einsum", {{3, 4}, {4, 2}}, 2, [](TestCall &call) { call.set("equation", "ij,jk->ik"); }},
      {"MaxPool", {image}, 1, kernel},
      {"AveragePool", {image}, 1, kernel},
      {"LpPool", {image}, 1, kernel},
      {"GlobalAveragePool", {image}, 1},
      {"GlobalMaxPool", {image}, 1},
      {"GlobalLpPool", {image}, 1},
      {"LRN", {image}, 1, [](TestCall &call) { call.set("size", 3); }},
      {"LpNormalization", {{2, 3}}, 1},
      {"MeanVarianceNormalization", {image}, 1},
      {"Hardmax", {{2, 3}}, 1},
      {"Softmax", {{2, 3}}, 1},
      {"LogSoftmax", {{2, 3}}, 1},
      {"ArgMax", {{2, 3}}, 1, axis},
      {"ArgMin", {{2, 3}}, 1, axis},
      {"ReduceL1", {{2, 3}}, 1},
      {"ReduceL2", {{2, 3}}, 1},
      {"ReduceLogSum", {{2, 3}}, 1, {}, ElementKind::F32},
      {"ReduceLogSumExp", {{2, 3}}, 1},
      {"ReduceMax", {{2, 3}}, 1},
      {"ReduceMean", {{2, 3}}, 1},
      {"ReduceMin", {{2, 3}}, 1},
      {"ReduceProd", {{2, 3}}, 1},
      {"ReduceSum", {{2, 3}}, 1},
      {"ReduceSumSquare", {{2, 3}}, 1},
      {"Transpose", {{2, 3}}, 1, perm},
      {"DepthToSpace", {{1, 4, 2, 2}}, 1, [](TestCall &call) { call.set("blocksize", 2); }},
      {"SpaceToDepth", {{1, 1, 4, 4}}, 1, [](TestCall &call) { call.set("blocksize", 2); }},
      {"ReverseSequence",
       {{3, 2}},
       1,
       [=](TestCall &call) {
         call.in(ints({3, 2}));
       }},
      {"Reshape", {{2, 3}}, 1, [=](TestCall &call) { call.in(ints({6})); }},
      {"Flatten", {{2, 3, 2}}, 1},
      {"Squeeze", {{1, 3}}, 1, [=](TestCall &call) { call.in(ints({0})); }},
      {"Unsqueeze", {{2, 3}}, 1, [=](TestCall &call) { call.in(ints({0})); }},
      {"Expand",
       {{1, 3}},
       1,
       [=](TestCall &call) {
         call.in(ints({2, 3}));
       }},
      {"Tile",
       {{2, 3}},
       1,
       [=](TestCall &call) {
         call.in(ints({2, 1}));
       }},
      {"Gather",
       {{3, 2}},
       1,
       [=](TestCall &call) {
         call.in(ints({2, 0, 2}));
       }},
      {"GatherElements",
       {{2, 2}},
       1,
       [](TestCall &call) {
         call.in(numbers({2, 2}, {0, 0, 1, 0}, ElementKind::I64));
       }},
      {"GatherND",
       {{3, 2}},
       1,
       [](TestCall &call) {
         call.in(numbers({3, 1}, {1, 1, 2}, ElementKind::I64));
       }},
      {"ArrayFeatureExtractor",
       {{2, 3}},
       1,
       [=](TestCall &call) {
         call.in(ints({0, 2, 2}));
       },
       ElementKind::F32,
       "ai.onnx.ml",
       1},
      {"Resize",
       {{1, 1, 2, 2}},
       1,
       [](TestCall &call) {
         call.none().in(numbers({4}, {1, 1, 2, 2}));
       }},
      {"Upsample",
       {{1, 1, 2, 2}},
       1,
       [](TestCall &call) {
         call.in(numbers({4}, {1, 1, 2, 2}));
       },
       ElementKind::F32,
       "",
       9},
      {"Slice", {{3, 2}}, 1, [=](TestCall &call) { call.in(ints({1})).in(ints({3})); }},
      {"Pad",
       {{2, 3}},
       1,
       [=](TestCall &call) {
         call.in(ints({0, 1, 1, 0}));
       }},
      {"CenterCropPad",
       {{2, 3}},
       1,
       [=](TestCall &call) {
         call.in(ints({3, 2}));
       }},
      {"Concat", {{2, 3}, {2, 3}}, 2, [](TestCall &call) { call.set("axis", 0); }},
      {"Split", {{4, 3}}, 1, [](TestCall &call) { call.set("num_outputs", 1); }},
      {"Cast", {{2, 3}}, 1, [](TestCall &call) { call.set("to", int(onnx::TensorProto::DOUBLE)); }},
      {"CastLike", {{2, 3}}, 1, [](TestCall &call) { call.in(numbers({}, {1}, ElementKind::F64)); }},
      {"BitCast", {{2, 3}}, 1, [](TestCall &call) { call.set("to", int(onnx::TensorProto::INT32)); }, ElementKind::F32, "", 26},
      {"Where",
       {{2, 3}},
       1,
       [](TestCall &call) {
         call.in(numbers({2, 3}, {1, 2, 3, 4, 5, 6})).in(numbers({2, 3}, {7, 8, 9, 10, 11, 12}));
       },
       ElementKind::Bool},
      {"QuantizeLinear", {{2, 3}}, 1, [](TestCall &call) { call.in(numbers({}, {0.01})); }},
      {"DequantizeLinear", {{2, 3}}, 1, [](TestCall &call) { call.in(numbers({}, {0.01})); }, ElementKind::I8},
      {"BitShift",
       {{2, 3}},
       1,
       [](TestCall &call) {
         call.in(numbers({2, 3}, {1, 0, 1, 0, 1, 0}, ElementKind::U8)).set("direction", "LEFT");
       },
       ElementKind::U8},
      {"Pow", {{2, 3}, {2, 3}}, 1},
      {"Clip", {{2, 3}}, 1},
      {"OneHot",
       {{2, 3}},
       1,
       [](TestCall &call) {
         call.in(scalar(200)).in(numbers({2}, {0, 1}));
       },
       ElementKind::I64},
      {"IsInf", {{2, 3}}, 1, {}},
      {"ExpandDims",
       {{2, 3}},
       1,
       [](TestCall &call) { call.in(numbers({}, {0}, ElementKind::I32)); },
       ElementKind::F32,
       "com.microsoft",
       1},
      {"FusedMatMul", {{3, 4}, {4, 2}}, 2, {}, ElementKind::F32, "com.microsoft", 1},
      {"FusedConv", {image, {3, 2, 2, 2}}, 2, {}, ElementKind::F32, "com.microsoft", 1},
  };
}

/// A case in which the operator runs: one of its own, or with inputs of one shape.
std::optional<Case> caseOf(const std::string &name) {
  const std::string domain = name.substr(0, name.find(':')), type = name.substr(name.find(':') + 1);
  for (const Case &special : specialCases())
    if (special.type == type && special.domain == domain)
      return special;
  for (ElementKind kind : {ElementKind::F32, ElementKind::Bool, ElementKind::U8})
    for (size_t inputs = 1; inputs <= 3; ++inputs) {
      Case general{type, std::vector<Shape>(inputs, Shape{2, 3}), inputs, {}, kind, domain, domain.empty() ? 22 : 1};
      for (int64_t opset : {general.opset, int64_t(27)}) {
        general.opset = opset;
        TestCall call(type, opset, domain);
        for (size_t i = 0; i < inputs; ++i)
          call.in(makeTensor(kind, {2, 3}));
        if (call.error().empty())
          return general;
      }
    }
  return std::nullopt;
}

TEST(FusionTypeTest, EveryOperatorThatIsEvaluatedHasOne) {
  for (const auto &[name, op] : table()) {
    const size_t colon = name.find(':');
    EXPECT_TRUE(fusionTypeOf(name.substr(0, colon), name.substr(colon + 1))) << name;
  }
}

TEST(FusionTypeTest, MappingsAreThoseOfTheDataFlow) {
  Random random(3);
  std::map<Mapping, unsigned> derived;
  std::string left;
  for (FusionClass fusion : {FusionClass::Injective, FusionClass::Reduction, FusionClass::ComplexOutFusable})
    for (Mapping mapping : {Mapping::OneToOne, Mapping::OneToMany, Mapping::ManyToMany, Mapping::Reorganize, Mapping::Shuffle})
      for (const std::string &name : operatorsOf({fusion, mapping})) {
        const std::optional<Case> test = caseOf(name);
        if (!test) {
          left += " " + name;
          continue;
        }
        for (size_t input = 0; input < test->data; ++input) {
          std::optional<Mapping> found;
          try {
            found = derive(*test, input, random);
          } catch (const Error &error) {
            ADD_FAILURE() << name << ": " << error.message;
            continue;
          }
          ASSERT_TRUE(found) << name;
          EXPECT_EQ(nameOf(*found), std::string(nameOf(mapping))) << name << ", input " << input;
        }
        ++derived[mapping];
      }
  // Who adds an operator adds its case: these are the operators whose inputs nobody has written down.
  RecordProperty("left", left);
  EXPECT_GE(derived[Mapping::OneToOne], 75u) << left;
  EXPECT_GE(derived[Mapping::OneToMany], 8u) << left;
  EXPECT_GE(derived[Mapping::ManyToMany], 35u) << left;
  EXPECT_GE(derived[Mapping::Reorganize], 5u) << left;
  EXPECT_GE(derived[Mapping::Shuffle], 4u) << left;
}

/// Table 3 of DNNFusion: what breaks a kernel.
TEST(FusionTypeTest, WhatMapsManyToManyReadsNothingThatIsSpread) {
  const Mapping all[] = {Mapping::OneToOne, Mapping::OneToMany, Mapping::ManyToMany, Mapping::Reorganize, Mapping::Shuffle};
  for (Mapping first : all)
    for (Mapping second : all) {
      const bool breaks = second == Mapping::ManyToMany && (first == Mapping::ManyToMany || first == Mapping::OneToMany);
      EXPECT_EQ(mayFuse(first, second), !breaks) << nameOf(first) << " " << nameOf(second);
      if (!breaks && (first == Mapping::ManyToMany || second == Mapping::ManyToMany)) {
        EXPECT_EQ(fused(first, second), Mapping::ManyToMany);
      }
      EXPECT_EQ(fused(Mapping::OneToOne, second), second);
    }
}

} // namespace
