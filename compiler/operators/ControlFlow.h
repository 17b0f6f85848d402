//===- ControlFlow.h - Limits of loops --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_OPERATORS_CONTROLFLOW_H
#define COMPILER_OPERATORS_CONTROLFLOW_H

#include "compiler/operators/Operator.h"

namespace tw::operators {

/// A Loop of more iterations is an error: its condition may never get false. Tests lower it.
extern int64_t maxLoopIterations;
/// The most bytes that the scan outputs of one node may take; a string counts as its object and its text. Tests lower it.
extern int64_t maxScanBytes;

} // namespace tw::operators

#endif // COMPILER_OPERATORS_CONTROLFLOW_H
