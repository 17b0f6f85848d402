//===- CallOrder.h - The order of the calls of @main -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_PIPELINE_CALLORDER_H
#define COMPILER_PIPELINE_CALLORDER_H

#include "compiler/memory/OrderProblem.h"
#include "compiler/memory/PeakMemory.h"
#include "compiler/plan/GraphPlan.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

namespace tw::pipeline {

/// The calls of @main of a module in linalg as steps, in their order.
memory::OrderProblem orderProblemOf(mlir::ModuleOp module);

/// Puts the calls of @main in the order that `choose` takes when it sees the peaks. Everything else stands before its first reader. An order that
/// the verifier refuses is an internal error.
llvm::Expected<memory::PeakMemory> orderCalls(mlir::ModuleOp module,
                                              llvm::function_ref<plan::KernelOrder(const memory::PeakMemory &)> choose);

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_CALLORDER_H
