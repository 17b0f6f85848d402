//===- PlanDialect.h - Plans as MLIR -----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_PLAN_PLANDIALECT_H
#define COMPILER_PLAN_PLANDIALECT_H

#include "compiler/plan/GraphPlan.h"
#include "compiler/plan/NetworkPlan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"

#include "compiler/plan/PlanOpsDialect.h.inc"

#define GET_OP_CLASSES
#include "compiler/plan/PlanOps.h.inc"

namespace tw::plan {

/// A kernel function's plan: a dictionary of knobs.
inline constexpr llvm::StringLiteral kPlanAttr = "tilewright.plan";
/// Where a plan file sets them: a dictionary of locations.
inline constexpr llvm::StringLiteral kPlacesAttr = "tilewright.plan_at";

/// Attributes of plan.network that are no knobs: see GraphPlan.
inline constexpr llvm::StringLiteral kOrderAttr = "order";
inline constexpr llvm::StringLiteral kKernelsBeginAtAttr = "kernels_begin_at";

/// The attributes of a network op that are knobs.
mlir::DictionaryAttr networkKnobsOf(NetworkOp op);
/// What the op says before there are kernels. Precondition: the op is verified.
GraphPlan graphPlanOf(NetworkOp op);

/// The plan that `knobs` say. Errors: unknown knobs, values of the wrong type or out of range, knobs that exclude each other.
mlir::FailureOr<KernelPlan> parseKernelPlan(mlir::DictionaryAttr knobs,
                                            llvm::function_ref<mlir::InFlightDiagnostic()> emitError);
/// The same of a network's knobs, without `schedule`.
mlir::FailureOr<NetworkKnobs> parseNetworkKnobs(mlir::DictionaryAttr knobs,
                                                llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

/// The plan of a kernel function; all is open if it has none.
mlir::FailureOr<KernelPlan> planOf(mlir::func::FuncOp function);

} // namespace tw::plan

#endif // COMPILER_PLAN_PLANDIALECT_H
