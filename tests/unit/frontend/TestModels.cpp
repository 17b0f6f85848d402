//===- TestModels.cpp - Small models as text ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "TestModels.h"
#include "compiler/graph/Graph.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/raw_ostream.h"
#include <gtest/gtest.h>
#include <onnx/defs/parser.h>

namespace tw::frontend {

onnx::ModelProto modelOf(const std::string &graph, int opset) {
  std::string text =
      "< ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) + ", \"com.microsoft\" : 1] > g " + graph;
  onnx::ModelProto model;
  auto status = onnx::OnnxParser::Parse(model, text.c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage() << "\n" << text;
  return model;
}

Imported::Imported(const onnx::ModelProto &model, const ImportOptions &options) {
  auto result = importOnnx(context, model.SerializeAsString(), "test.onnx", options);
  if (result)
    module = std::move(*result);
  else
    error = llvm::toString(result.takeError());
}

Imported::Imported(const std::string &graph, int opset, const ImportOptions &options)
    : Imported(modelOf(graph, opset), options) {}

mlir::func::FuncOp Imported::function() const { return *module.get().getOps<mlir::func::FuncOp>().begin(); }

std::string Imported::ops() const {
  if (!module)
    return error;
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.get()->walk([&](mlir::Operation *op) {
    if (op->getDialect()->getNamespace() != "graph" || mlir::isa<graph::ConstantOp>(op))
      return;
    stream << (text.empty() ? "" : ", ") << op->getName().stripDialect();
    for (mlir::Type type : op->getResultTypes()) {
      std::string shaped;
      llvm::raw_string_ostream(shaped) << type;
      stream << " " << llvm::StringRef(shaped).drop_front(sizeof("tensor<") - 1).drop_back();
    }
    stream.flush();
  });
  return text;
}

std::string Imported::attr(const std::string &name, const std::string &attribute) const {
  std::string text = module ? "no such op" : error;
  if (!module)
    return text;
  module.get()->walk([&](mlir::Operation *op) {
    if (op->getName().stripDialect() != name)
      return mlir::WalkResult::advance();
    text.clear();
    llvm::raw_string_ostream(text) << op->getAttr(attribute);
    return mlir::WalkResult::interrupt();
  });
  return text;
}

std::string Imported::constantResult(unsigned i) const {
  std::string text;
  if (!module)
    return error;
  mlir::Operation *terminator = function().getBody().front().getTerminator();
  if (auto constant = terminator->getOperand(i).getDefiningOp<graph::ConstantOp>())
    llvm::raw_string_ostream(text) << constant.getValue();
  return text;
}

} // namespace tw::frontend
