//===- Outline.cpp - Kernels of a hand-written module ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/pipeline/Outline.h"
#include "compiler/graph/transforms/Pipeline.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tw;

namespace {

/// What belongs into the kernel that uses it.
bool isSource(Operation *op) { return isa<tensor::EmptyOp, tensor::PadOp, linalg::FillOp, arith::ConstantOp>(op); }

bool staysInMain(Operation *op) { return isa<func::CallOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op); }

/// `file:line:column`, or nothing.
std::string placeOf(Operation *op) {
  if (auto place = op->getLoc()->findInstanceOf<FileLineColLoc>())
    return (place.getFilename().getValue() + ":" + Twine(place.getLine()) + ":" + Twine(place.getColumn())).str();
  return "";
}

class Outliner {
public:
  Outliner(ModuleOp module, func::FuncOp mainFunction, StringRef target)
      : module(module), mainFunction(mainFunction), target(target), builder(module.getContext()) {}

  llvm::Error run() {
    llvm::SmallVector<Operation *> work;
    for (Operation &op : mainFunction.getBody().front().without_terminator()) {
      if (isa<linalg::LinalgOp>(op) && !isSource(&op))
        work.push_back(&op);
      else if (!isSource(&op) && !staysInMain(&op))
        return llvm::createStringError(
            "%s: @main holds '%s' but may hold linalg ops, tensor.pad, tensor.empty, reshapes, constants and calls of kernels",
            placeOf(&op).c_str(), op.getName().getStringRef().str().c_str());
    }
    for (Operation *op : work)
      outline(op);
    // What only kernels used has been copied into them. Users stand after what they use.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(mainFunction.getBody().front())))
      if (isSource(&op) && op.use_empty())
        op.erase();
    for (Operation &op : mainFunction.getBody().front())
      if (isSource(&op) && !isa<arith::ConstantOp>(op))
        return llvm::createStringError("%s: nothing computes on the result of '%s'", placeOf(&op).c_str(),
                                       op.getName().getStringRef().str().c_str());
    return llvm::Error::success();
  }

private:
  /// `op` and the sources it needs, in the order of @main; what else they use goes to `inputs`.
  void collect(Operation *op, llvm::SetVector<Operation *> &members, llvm::SetVector<Value> &inputs) {
    op->walk([&](Operation *nested) {
      for (Value operand : nested->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (producer && op->isAncestor(producer))
          continue;
        if (producer && isSource(producer))
          collect(producer, members, inputs);
        else if (auto argument = dyn_cast<BlockArgument>(operand);
                 producer || argument.getOwner() == &mainFunction.getBody().front())
          inputs.insert(operand);
      }
    });
    members.insert(op);
  }

  void outline(Operation *op) {
    llvm::SetVector<Operation *> members;
    llvm::SetVector<Value> inputs;
    collect(op, members, inputs);
    std::string name = "kernel" + std::to_string(number++);
    while (module.lookupSymbol(name))
      name += "_";
    builder.setInsertionPointToEnd(module.getBody());
    llvm::SmallVector<Type> inputTypes;
    for (Value value : inputs)
      inputTypes.push_back(value.getType());
    auto kernel = builder.create<func::FuncOp>(op->getLoc(), name, builder.getFunctionType(inputTypes, op->getResultTypes()));
    kernel.setPrivate();
    std::string place = placeOf(op);
    kernel->setAttr(graph::kNodesAttr, builder.getStrArrayAttr({place.empty() ? name : place}));
    kernel->setAttr(graph::kTargetAttr, builder.getStringAttr(target));
    builder.setInsertionPointToStart(kernel.addEntryBlock());
    IRMapping mapping;
    mapping.map(inputs.getArrayRef(), kernel.getArguments());
    Operation *last = nullptr;
    for (Operation *member : members)
      last = builder.clone(*member, mapping);
    llvm::SmallVector<Value> results(last->getResults());
    if (!isa<linalg::GenericOp>(last)) {
      IRRewriter rewriter(builder);
      rewriter.setInsertionPoint(last);
      if (FailureOr<linalg::GenericOp> generic = linalg::generalizeNamedOp(rewriter, cast<linalg::LinalgOp>(last));
          succeeded(generic))
        results.assign(generic->getResults().begin(), generic->getResults().end());
      builder.setInsertionPointToEnd(&kernel.getBody().front());
    }
    builder.create<func::ReturnOp>(op->getLoc(), results);
    builder.setInsertionPoint(op);
    auto call = builder.create<func::CallOp>(op->getLoc(), kernel, inputs.getArrayRef());
    op->replaceAllUsesWith(call.getResults());
    op->erase();
  }

  ModuleOp module;
  func::FuncOp mainFunction;
  StringRef target;
  OpBuilder builder;
  unsigned number = 0;
};

} // namespace

llvm::Error pipeline::outlineKernels(ModuleOp module, StringRef target) {
  auto mainFunction = module.lookupSymbol<func::FuncOp>("main");
  if (!mainFunction || mainFunction.isExternal())
    return llvm::createStringError("the module has no function @main");
  if (!llvm::hasSingleElement(mainFunction.getBody()))
    return llvm::createStringError("%s: @main has branches", placeOf(mainFunction).c_str());
  return Outliner(module, mainFunction, target).run();
}
