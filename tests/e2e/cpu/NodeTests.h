//===- NodeTests.h - ONNX's node tests, for any target ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which tests count is in tests/conformance/operators.txt, what may fail in its
// expected-failures.txt: reasons that lie before the target.
//===----------------------------------------------------------------------===//
#ifndef TESTS_E2E_CPU_NODETESTS_H
#define TESTS_E2E_CPU_NODETESTS_H

#include "compiler/frontend/HostTensor.h"
#include "compiler/graph/transforms/KernelTarget.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tw::test {

struct NodeTest {
  /// The folder, and "/constant" behind it where all inputs but the first are known to the compiler.
  std::string title;
  std::string model;
  std::vector<frontend::HostTensor> inputs, outputs;
  std::set<std::string> constants; ///< inputs that the compiler knows
};

/// Import, graph passes for `target` and lowering. `inputs`: what is left for a run.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> lowerNodeTest(mlir::MLIRContext &context, const NodeTest &test,
                                                                std::shared_ptr<const graph::KernelTarget> target,
                                                                std::vector<frontend::HostTensor> &inputs);

/// A result may differ by absolute + relative * |expected|; integers must be equal.
struct NodeTolerance {
  double relative = 1e-3, absolute = 1e-7; ///< as ONNX's own test runner compares
};
/// What is wrong with results, or nothing.
std::string compareNodeTest(const NodeTest &test, const std::vector<frontend::HostTensor> &outputs,
                            const NodeTolerance &tolerance = {});

/// Runs all tests by `run`, which says what is wrong, or nothing. A failure is one if the title is not listed in expected-failures.txt
/// and not in `failures`, by title: what the failure has to say. One of these that passes, or is not found, is a failure too.
/// Skips the GoogleTest test where the data are not installed. `only`: the folder of the one test to run, or null.
void checkNodeTests(const std::function<std::string(const NodeTest &)> &run, const char *only,
                    const std::map<std::string, std::string> &failures = {});

} // namespace tw::test

#endif // TESTS_E2E_CPU_NODETESTS_H
