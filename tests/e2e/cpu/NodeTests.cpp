//===- NodeTests.cpp - ONNX's node tests, for any target ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/e2e/cpu/NodeTests.h"
#include "compiler/frontend/OnnxImport.h"
#include "compiler/frontend/TensorFile.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/loops/Passes.h"
#include "isa/files/InputFile.h"
#include "mlir/Pass/PassManager.h"
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <optional>
#include <sstream>

using namespace tw;
using namespace tw::test;
using frontend::ElementKind;
using frontend::HostTensor;

namespace {

std::vector<std::string> readLines(const std::string &path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    line = line.substr(0, line.find('#'));
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty())
      lines.push_back(line);
  }
  return lines;
}

/// The numbers of a tensor; nothing for types that are not compared.
std::optional<std::vector<double>> numbersOf(const HostTensor &tensor) {
  std::vector<double> numbers;
  auto read = [&](auto zero, auto convert) {
    using T = decltype(zero);
    for (size_t at = 0; at + sizeof(T) <= tensor.bytes.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, tensor.bytes.data() + at, sizeof(T));
      numbers.push_back(static_cast<double>(convert(value)));
    }
    return numbers;
  };
  auto same = [](auto value) { return value; };
  switch (tensor.type) {
  case ElementKind::F32:
    return read(0.0f, same);
  case ElementKind::F16:
    return read(uint16_t(0), frontend::halfToFloat);
  case ElementKind::BF16:
    return read(uint16_t(0), frontend::bfloatToFloat);
  case ElementKind::U8:
  case ElementKind::Bool:
    return read(uint8_t(0), same);
  case ElementKind::I8:
    return read(int8_t(0), same);
  case ElementKind::I32:
    return read(int32_t(0), same);
  case ElementKind::I64:
    return read(int64_t(0), same);
  default:
    return std::nullopt;
  }
}

/// float16 is computed in float32.
HostTensor widened(HostTensor tensor) {
  if (tensor.type != ElementKind::F16)
    return tensor;
  std::vector<double> numbers = *numbersOf(tensor);
  tensor.type = ElementKind::F32;
  tensor.bytes.resize(numbers.size() * 4);
  for (size_t i = 0; i < numbers.size(); ++i) {
    auto value = static_cast<float>(numbers[i]);
    std::memcpy(tensor.bytes.data() + i * 4, &value, 4);
  }
  return tensor;
}

std::string compare(const HostTensor &actual, const HostTensor &expected, const NodeTolerance &tolerance) {
  if (actual.shape != expected.shape)
    return "the shape differs";
  std::optional<std::vector<double>> a = numbersOf(actual), b = numbersOf(expected);
  if (!a || !b || a->size() != b->size())
    return std::string("elements of type ") + frontend::elementName(actual.type) + " instead of " +
           frontend::elementName(expected.type);
  bool exact = !frontend::isFloat(expected.type);
  for (size_t i = 0; i < a->size(); ++i) {
    double x = (*a)[i], y = (*b)[i];
    bool same = x == y || (std::isnan(x) && std::isnan(y)) ||
                (!exact && std::abs(x - y) <= tolerance.absolute + tolerance.relative * std::abs(y));
    if (!same)
      return "element " + std::to_string(i) + " is " + std::to_string(x) + " instead of " + std::to_string(y);
  }
  return "";
}

} // namespace

llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> test::lowerNodeTest(mlir::MLIRContext &context, const NodeTest &test,
                                                                      std::shared_ptr<const graph::KernelTarget> target,
                                                                      std::vector<HostTensor> &inputs) {
  std::string diagnostics;
  const auto handler =
      context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) { diagnostics += diagnostic.str(); });
  frontend::ImportOptions import;
  for (const HostTensor &input : test.inputs)
    if (test.constants.count(input.name))
      import.constants[input.name] = input;
    else
      inputs.push_back(widened(input));
  auto module = frontend::importOnnxFile(context, test.model, import);
  if (module) {
    graph::GraphPipelineOptions options;
    options.targets = {std::move(target)};
    mlir::PassManager passes(&context);
    graph::buildGraphPipeline(passes, options);
    passes.addPass(loops::createLowerGraphPass());
    if (mlir::failed(passes.run(**module)))
      module = llvm::createStringError("%s", diagnostics.c_str());
  }
  context.getDiagEngine().eraseHandler(handler);
  return module;
}

std::string test::compareNodeTest(const NodeTest &test, const std::vector<HostTensor> &outputs,
                                  const NodeTolerance &tolerance) {
  if (outputs.size() != test.outputs.size())
    return "another number of outputs";
  for (size_t i = 0; i < outputs.size(); ++i)
    if (std::string problem = compare(outputs[i], test.outputs[i], tolerance); !problem.empty())
      return "output " + std::to_string(i) + ": " + problem;
  return "";
}

void test::checkNodeTests(const std::function<std::string(const NodeTest &)> &run, const char *only,
                          const std::map<std::string, std::string> &failures) {
  std::string data = "/usr/share/libonnx-testdata/data/node";
  if (!std::filesystem::exists(data))
    data = "/usr/include/onnx/backend/test/data/node";
  if (!std::filesystem::exists(data))
    GTEST_SKIP() << "ONNX's node tests are not installed (Debian: libonnx-testdata)";
  std::string lists = std::string(TILEWRIGHT_SOURCE_DIR) + "/tests/conformance/";
  std::map<std::string, std::set<int>> operators;
  for (const std::string &line : readLines(lists + "operators.txt")) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    std::set<int> &constants = operators[name];
    for (int input; words >> input;)
      constants.insert(input);
  }
  std::set<std::string> expectedFailures;
  for (const std::string &line : readLines(lists + "expected-failures.txt"))
    expectedFailures.insert(line.substr(0, line.find(": ")));
  std::set<std::string> folders;
  for (const auto &entry : std::filesystem::directory_iterator(data))
    folders.insert(entry.path().filename().string());

  unsigned passed = 0, failed = 0, listed = 0, otherTypes = 0;
  std::set<std::string> unseen;
  for (const auto &failure : failures)
    unseen.insert(failure.first);
  for (const std::string &name : folders) {
    if (only && name != only)
      continue;
    NodeTest test;
    test.model = data + "/" + name + "/model.onnx";
    Result<std::string> bytes = files::readFile(test.model);
    onnx::ModelProto model;
    if (!bytes || !model.ParseFromString(*bytes) || model.graph().node_size() == 0)
      continue;
    bool selected = true;
    std::set<std::string> known, all;
    for (const onnx::ValueInfoProto &input : model.graph().input())
      known.insert(input.name());
    for (const onnx::NodeProto &node : model.graph().node()) {
      selected &= operators.count(node.op_type()) != 0;
      for (const std::string &input : node.input())
        known.erase(input);
    }
    if (!selected)
      continue;
    for (const onnx::NodeProto &node : model.graph().node())
      for (int input : operators[node.op_type()])
        if (input < node.input_size())
          known.insert(node.input(input));
    bool readable = true;
    auto load = [&](const auto &infos, const char *kind, std::vector<HostTensor> &tensors) {
      for (int i = 0; i < infos.size(); ++i) {
        auto tensor =
            frontend::readTensorFile(data + "/" + name + "/test_data_set_0/" + kind + "_" + std::to_string(i) + ".pb");
        if (!tensor) {
          readable = false;
          return;
        }
        tensor->name = infos.Get(i).name();
        // ONNX 1.12 stores bfloat16 as uint16.
        if (infos.Get(i).type().tensor_type().elem_type() == onnx::TensorProto::BFLOAT16 && tensor->type == ElementKind::U16)
          tensor->type = ElementKind::BF16;
        readable &= numbersOf(*tensor).has_value();
        tensors.push_back(*tensor);
      }
    };
    load(model.graph().input(), "input", test.inputs);
    load(model.graph().output(), "output", test.outputs);
    if (!readable) {
      ++otherTypes;
      continue;
    }
    for (size_t i = 1; i < test.inputs.size(); ++i)
      all.insert(test.inputs[i].name);
    all.insert(known.begin(), known.end());
    std::vector<std::set<std::string>> variants{known};
    if (all != known)
      variants.push_back(all);
    for (size_t i = 0; i < variants.size(); ++i) {
      test.title = name + (i ? "/constant" : "");
      test.constants = variants[i];
      const std::string problem = run(test);
      unseen.erase(test.title);
      if (auto known = failures.find(test.title); known != failures.end()) {
        ++listed;
        EXPECT_NE(problem.find(known->second), std::string::npos)
            << test.title << ": " << (problem.empty() ? "passes" : problem) << "; it is listed to fail with: " << known->second;
      } else if (problem.empty()) {
        ++passed;
      } else if (expectedFailures.count(test.title)) {
        ++listed;
      } else {
        ++failed;
        ADD_FAILURE() << test.title << ": " << problem;
      }
    }
  }
  if (!only)
    for (const std::string &title : unseen)
      ADD_FAILURE() << title << " is listed to fail, but there is no such test";
  printf("  %u passed, %u failed, %u failed as listed; %u tests of other element types not run\n", passed, failed, listed,
         otherTypes);
  EXPECT_GT(passed, only ? 0u : 100u);
}
