//===- NodeTests.h - Reading ONNX's node tests ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_CONFORMANCE_NODETESTS_H
#define TESTS_CONFORMANCE_NODETESTS_H

#include "compiler/operators/Value.h"

#include <onnx/onnx-data_pb.h>
#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

namespace tw::conformance {

/// A folder: model.onnx and test_data_set_0.
struct NodeTest {
  std::string name, folder;
  onnx::ModelProto model;
  std::vector<operators::Value> inputs, outputs;
};

/// Names of all tests in `folder`, sorted.
std::vector<std::string> testsIn(const std::string &folder);
/// Throws operators::Error.
NodeTest readTest(const std::string &folder, const std::string &name);

/// A tensor as an initializer.
onnx::TensorProto protoOf(const frontend::HostTensor &tensor, const std::string &name);

/// Why `actual` is not `expected`; empty if it is. Floats by ONNX's own tolerances, everything else must be equal.
std::string difference(const operators::Value &actual, const operators::Value &expected);

/// Whether a node of the model draws random numbers. ONNX does not say which generator draws them: the outputs of such a test are one draw.
bool isRandom(const onnx::ModelProto &model);
/// Why `actual` is no draw of the same operator as `expected`: its type or shape differs, an element is no number, or the elements are not 0 and 1
/// where those of `expected` are, as of Bernoulli. Empty if it may be one.
std::string differenceOfDraws(const operators::Value &actual, const operators::Value &expected);

} // namespace tw::conformance

#endif // TESTS_CONFORMANCE_NODETESTS_H
