//===- GraphMacs.h - Products of a network ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_GRAPHMACS_H
#define RUNTIME_GRAPHMACS_H

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>

namespace tw::runtime {

/// Multiply-accumulates of the convolutions and matrix products in a module or function of the graph dialect; those that fall into the padding
/// are not counted.
uint64_t countMacs(mlir::Operation *scope);

} // namespace tw::runtime

#endif // RUNTIME_GRAPHMACS_H
