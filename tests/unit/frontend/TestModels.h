//===- TestModels.h - Small models as text ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESTS_UNIT_FRONTEND_TESTMODELS_H
#define TESTS_UNIT_FRONTEND_TESTMODELS_H

#include "compiler/frontend/OnnxImport.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include <onnx/onnx_pb.h>
#include <string>

namespace tw::frontend {

/// A model of one graph in onnx's text form, such as "(float[2] x) => (float[2] y) { y = Relu(x) }".
/// com.microsoft operators are written with their domain.
onnx::ModelProto modelOf(const std::string &graph, int opset = 13);

/// What importing gave: a module, or an error.
struct Imported {
  explicit Imported(const onnx::ModelProto &model, const ImportOptions &options = {});
  explicit Imported(const std::string &graph, int opset = 13, const ImportOptions &options = {});

  /// @main.
  mlir::func::FuncOp function() const;
  /// The ops but for constants: "conv 1x6x4x4xf32, relu 1x6x4x4xf32"; the error if there is one.
  std::string ops() const;
  /// Attribute `name` of the first op called `op`, as text.
  std::string attr(const std::string &op, const std::string &name) const;
  /// The value of the constant that result `i` is, as text; empty if it is not a constant.
  std::string constantResult(unsigned i = 0) const;

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string error;
};

} // namespace tw::frontend

#endif // TESTS_UNIT_FRONTEND_TESTMODELS_H
