//===- ImportError.h - Errors inside the importer ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Importing a node is a deep chain of small steps, each of which can find the
// model wrong. Inside compiler/frontend such a step throws; importOnnx()
// catches, so no exception leaves the library or passes through MLIR.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_FRONTEND_IMPORTERROR_H
#define COMPILER_FRONTEND_IMPORTERROR_H

#include <string>
#include <utility>

namespace tw::frontend {

/// The model is wrong, or of a kind that we refuse.
struct ImportError {
  std::string message;
};

/// The node is fine, but the graph dialect cannot express it: it may become a graph.fallback.
struct Inexpressible {
  std::string reason;
};

} // namespace tw::frontend

#endif // COMPILER_FRONTEND_IMPORTERROR_H
