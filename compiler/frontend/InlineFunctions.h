//===- InlineFunctions.h - Functions and branches in place ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_FRONTEND_INLINEFUNCTIONS_H
#define COMPILER_FRONTEND_INLINEFUNCTIONS_H

#include <string>
#include <vector>

namespace onnx {
class GraphProto;
class ModelProto;
class NodeProto;
class TensorProto;
} // namespace onnx

namespace tw::frontend {

/// Puts the bodies of model-local functions where they are called, in graphs of nodes too. Values and nodes in a body get the name of the calling
/// node in front. Throws ImportError for functions that call themselves and bodies of more than 10^6 nodes.
void inlineFunctions(onnx::ModelProto &model);

/// The nodes and initializers of a graph of `node`, to stand where that stands: its outputs are called as the node's. Names in it
/// get `prefix` in front.
struct InlinedGraph {
  std::vector<onnx::NodeProto> nodes;
  std::vector<onnx::TensorProto> initializers;
  /// What the node's outputs are other names of, in their order.
  std::vector<std::string> results;
};
InlinedGraph inlineGraph(const onnx::GraphProto &graph, const std::string &prefix);

} // namespace tw::frontend

#endif // COMPILER_FRONTEND_INLINEFUNCTIONS_H
