//===- ScheduleFile.h - Schedules as files -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A schedule file is a module of MLIR's transform dialect. Its sequence
// @__transform_main is interpreted over the kernels of a model and leaves
// requests on them (compiler/codegen/accel/Request.h). docs/schedule-file.md.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_DIRECTIVES_SCHEDULEFILE_H
#define COMPILER_DIRECTIVES_SCHEDULEFILE_H

#include "compiler/codegen/accel/Codegen.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "llvm/Support/Error.h"

namespace tw::directives {

struct ScheduleFile {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// What decides where the file says nothing.
  accel::Schedule base = accel::Schedule::Pipelined;
  accel::WaysRequest ways;
};

/// Whether an argument of --schedule names a file.
bool isScheduleFile(llvm::StringRef name);

/// Makes the context know what schedule files hold, and reads one. Errors name their place in the file.
llvm::Expected<ScheduleFile> readScheduleFile(mlir::MLIRContext &context, const std::string &path);

/// Interprets the file over the kernels of `model`, in the linalg phase.
llvm::Error applyScheduleFile(mlir::ModuleOp model, const ScheduleFile &file);

} // namespace tw::directives

#endif // COMPILER_DIRECTIVES_SCHEDULEFILE_H
