//===- Aliases.h - Outputs that lie at an input's place ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef COMPILER_GRAPH_ALIASES_H
#define COMPILER_GRAPH_ALIASES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <utility>

namespace tw::graph {

/// Attribute of a result of @main: the name of the argument at whose place it lies.
inline constexpr llvm::StringLiteral kAliasAttr = "graph.alias";

/// The model's name of an argument of @main: kNameAttr, else "input" and its number.
std::string inputName(mlir::func::FuncOp main, unsigned index);
/// The same of a result: kNameAttr, else "output" and its number.
std::string outputName(mlir::func::FuncOp main, unsigned index);

/// Gives results of @main kAliasAttr; `aliases`: names of an output and an input each. Errors: a name that is none, an output with two inputs
/// or an input with two outputs, different types or shapes.
llvm::Error setAliases(mlir::func::FuncOp main, llvm::ArrayRef<std::pair<std::string, std::string>> aliases);

} // namespace tw::graph

#endif // COMPILER_GRAPH_ALIASES_H
