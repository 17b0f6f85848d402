//===- CpuNodeTest.cpp - ONNX's node tests on the CPU target --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tests that tests/conformance runs on the accelerator, and those of types
// that no machine has, through importer, graph passes, lowering and native
// code. What counts is in tests/conformance/operators.txt, what may fail in
// its expected-failures.txt: reasons that lie before the target.
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/CpuTarget.h"
#include "tests/e2e/cpu/NodeTests.h"

#include <cstdlib>
#include <gtest/gtest.h>

using namespace tw;
using frontend::HostTensor;

namespace {

std::string run(const test::NodeTest &test) {
  mlir::MLIRContext context;
  std::vector<HostTensor> inputs, outputs;
  auto module = test::lowerNodeTest(context, test, graph::makeCpuTarget(), inputs);
  if (!module)
    return llvm::toString(module.takeError());
  auto executable = cpu::compileForCpu(**module);
  if (!executable)
    return llvm::toString(executable.takeError());
  if (llvm::Error error = (*executable)->run(inputs, outputs))
    return llvm::toString(std::move(error));
  return test::compareNodeTest(test, outputs);
}

TEST(CpuNodeTest, EveryTestOfEverySupportedOperator) { test::checkNodeTests(run, std::getenv("CPU_NODE_TEST")); }

} // namespace
