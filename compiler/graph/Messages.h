//===- Messages.h - What users read about a model ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One way to name a node, from the importer to the last pass, and MLIR's own
// texts in the words of ONNX.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_MESSAGES_H
#define COMPILER_GRAPH_MESSAGES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Location.h"
#include <string>
#include <vector>

namespace tw::graph {

/// Where the ops of an ONNX node come from. The name is made printable here, so that no report needs to. `op` may be empty.
mlir::Location nodeLocation(mlir::MLIRContext *context, llvm::StringRef name, llvm::StringRef op);

/// `node "name" (Op)`; `op` may be empty.
std::string nodeTitle(llvm::StringRef name, llvm::StringRef op);

/// The title of the first node of a location, else file:line:column, else nothing.
std::string placeOf(mlir::Location location);

/// An operator as users know it: with its domain, unless that is ONNX's own.
std::string operatorTitle(llvm::StringRef domain, llvm::StringRef op);

/// A text of MLIR's verifiers about an op of the graph dialect as a sentence about its node: without the name of the op, and with ONNX's
/// names of types. Nothing if it is about another dialect: that is a mistake of the compiler.
std::optional<std::string> sentenceOf(llvm::StringRef verifierText);

/// The reason of a graph.fallback whose operator has no kernel; a target says it of itself.
inline constexpr llvm::StringLiteral kNoKernel = "no kernel computes this operator";

/// A node that no target implements, and why.
struct UnsupportedNode {
  std::string name, op, reason;
};

/// One line for each node, and before them how many there are of each operator, if there are several.
std::string describeUnsupported(llvm::ArrayRef<UnsupportedNode> nodes);

/// The nodes that are a graph.fallback somewhere in `module`.
std::vector<UnsupportedNode> findUnsupported(mlir::ModuleOp module);

} // namespace tw::graph

#endif // COMPILER_GRAPH_MESSAGES_H
