//===- PlanFile.h - Schedules as files ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plan file is one plan.network op in MLIR text (PlanOps.td,
// docs/schedule-file.md). It may be partial.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PLAN_PLANFILE_H
#define COMPILER_PLAN_PLANFILE_H

#include "compiler/plan/GraphPlan.h"
#include "compiler/plan/PlanDialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

namespace tw::plan {

struct PlanFile {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// What decides where the file says nothing.
  Schedule schedule = Schedule::Pipelined;
  NetworkKnobs network;
  GraphPlan graph;
};

/// Whether an argument of --schedule names a file.
bool isPlanFile(llvm::StringRef name);

/// Reads a file. Errors name their place in it.
llvm::Expected<PlanFile> readPlanFile(mlir::MLIRContext &context, const std::string &path);

/// Leaves the plans of the file on the kernel functions of `model`, in the linalg phase. Errors: a name that no kernel has, a kernel of
/// another target, knobs of two ops that exclude each other.
llvm::Error applyPlanFile(mlir::ModuleOp model, const PlanFile &file);

/// A file that says `graph`, `network` and a plan for each named kernel. Kernels without knobs are left out.
std::string printPlanFile(Schedule schedule, const GraphPlan &graph, const NetworkKnobs &network,
                          llvm::ArrayRef<std::pair<std::string, KernelPlan>> kernels);

} // namespace tw::plan

#endif // COMPILER_PLAN_PLANFILE_H
