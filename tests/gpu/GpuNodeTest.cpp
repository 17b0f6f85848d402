//===- GpuNodeTest.cpp - ONNX's node tests on the PTX emulator ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tests that the CPU target runs, for the GPU. TILEWRIGHT_NODE_TEST=NAME runs one.
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/GpuCompiler.h"
#include "tests/e2e/cpu/NodeTests.h"
#include "tests/gpu/EmulatedNetwork.h"
#include "tests/gpu/Tolerances.h"

#include <cstdlib>
#include <gtest/gtest.h>

using namespace tw;
using frontend::ElementKind;
using frontend::HostTensor;

namespace {

/// Results are compared as ONNX does, like the CPU target's: under exact math the GPU computes in the types that the network has, and only
/// the order of sums differs. What is bfloat16 here is only cast.
constexpr test::NodeTolerance kTolerance{test::kNodeRelative, test::kNodeAbsolute};

/// Tests that the GPU has no code for, with the error.
const std::map<std::string, std::string> kFailures = {};

/// The type of a result: bytes do not say whether they have a sign.
ElementKind typeOf(gpu::Element element, ElementKind expected) {
  switch (element) {
  case gpu::Element::F32:
    return ElementKind::F32;
  case gpu::Element::F16:
    return ElementKind::F16;
  case gpu::Element::Bf16:
    return ElementKind::BF16;
  case gpu::Element::F64:
    return ElementKind::F64;
  default:
    return expected;
  }
}

std::string run(const test::NodeTest &test) {
  mlir::MLIRContext context;
  std::vector<HostTensor> inputs;
  auto module = test::lowerNodeTest(context, test, graph::makeGpuTarget(), inputs);
  if (!module)
    return llvm::toString(module.takeError());
  llvm::Expected<gpu::Program> program = gpu::compileForGpu(**module);
  if (!program)
    return llvm::toString(program.takeError());
  if (program->inputs.size() != inputs.size() || program->outputs.size() != test.outputs.size())
    return "another number of inputs or outputs";
  std::vector<std::vector<uint8_t>> bytes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (test::bytesOf(program->inputs[i]) != inputs[i].bytes.size())
      return "input " + std::to_string(i) + " is of another size";
    bytes.push_back(inputs[i].bytes);
  }
  std::vector<HostTensor> outputs;
  try {
    bytes = test::EmulatedNetwork(*program).run(bytes, 0, {});
  } catch (const std::exception &error) {
    return error.what();
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    const gpu::Tensor &tensor = program->outputs[i];
    HostTensor output;
    output.type = typeOf(tensor.element, test.outputs[i].type);
    if (frontend::elementBytes(output.type) != gpu::bytesOf(tensor.element))
      return std::string("output ") + std::to_string(i) + " is " + gpu::nameOf(tensor.element);
    output.shape = tensor.shape;
    output.bytes = bytes[i];
    outputs.push_back(std::move(output));
  }
  return test::compareNodeTest(test, outputs, kTolerance);
}

TEST(GpuNodeTest, EveryTestOfEverySupportedOperator) {
  test::checkNodeTests(run, std::getenv("TILEWRIGHT_NODE_TEST"), kFailures);
}

} // namespace
