//===- Partition.cpp - Which kernels run where ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/pipeline/Partition.h"
#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/pipeline/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tw;
using namespace tw::pipeline;

bool pipeline::isAllFor(ModuleOp module, const Target &target) {
  return llvm::all_of(module.getOps<func::FuncOp>(), [&](func::FuncOp kernel) { return graph::isFor(kernel, target.name()); });
}

OwningOpRef<ModuleOp> pipeline::kernelsFor(ModuleOp module, const Target &target) {
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(kernels->getBody());
  for (auto function : module.getOps<func::FuncOp>())
    if (auto name = function->getAttrOfType<StringAttr>(graph::kTargetAttr); name && name.getValue() == target.name())
      builder.clone(*function);
  return kernels;
}

namespace {

class Partitioner {
public:
  Partitioner(ModuleOp module, func::FuncOp mainFunction, const Target *networks)
      : module(module), symbols(module), mainFunction(mainFunction), networks(networks) {}
  llvm::Expected<Partition> run();

private:
  /// Ops of @main that make one segment.
  using Run = llvm::SmallVector<Operation *>;

  /// What crosses a segment's border is memory: a reshape of it on either side does not matter.
  unsigned number(Value value) {
    auto [entry, isNew] = numbers.try_emplace(value, unsigned(result.values.size()));
    if (isNew)
      result.values.push_back(cast<RankedTensorType>(value.getType()));
    return entry->second;
  }
  void addNetwork(const Run &run, const Target &target);
  void addKernel(func::CallOp call, func::FuncOp kernel, const Target &target);
  void addReshape(Operation *op) {
    Segment segment;
    segment.inputs.push_back(number(op->getOperand(0)));
    segment.outputs.push_back(number(op->getResult(0)));
    result.segments.push_back(std::move(segment));
  }

  ModuleOp module;
  SymbolTable symbols;
  func::FuncOp mainFunction;
  const Target *networks;
  Partition result;
  llvm::DenseMap<Value, unsigned> numbers;
};

void Partitioner::addKernel(func::CallOp call, func::FuncOp kernel, const Target &target) {
  Segment segment;
  segment.target = &target;
  segment.kernel = kernel.getName().str();
  if (auto reason = kernel->getAttrOfType<StringAttr>(graph::kReasonAttr))
    segment.reason = reason.getValue().str();
  if (auto nodes = kernel->getAttrOfType<ArrayAttr>(graph::kNodesAttr))
    for (auto node : nodes.getAsRange<StringAttr>())
      segment.nodes.push_back(node.getValue().str());
  for (Value operand : call.getOperands())
    segment.inputs.push_back(number(operand));
  for (Value output : call.getResults())
    segment.outputs.push_back(number(output));
  result.segments.push_back(std::move(segment));
}

void Partitioner::addNetwork(const Run &run, const Target &target) {
  llvm::SmallPtrSet<Operation *, 16> members(run.begin(), run.end());
  llvm::SetVector<Value> inputs, outputs;
  llvm::SmallVector<func::FuncOp> kernels;
  for (Operation *op : run) {
    for (Value operand : op->getOperands())
      if (!operand.getDefiningOp() || !members.contains(operand.getDefiningOp()))
        inputs.insert(operand);
    for (Value value : op->getResults())
      if (llvm::any_of(value.getUsers(), [&](Operation *user) { return !members.contains(user); }))
        outputs.insert(value);
    if (auto call = dyn_cast<func::CallOp>(op))
      kernels.push_back(symbols.lookup<func::FuncOp>(call.getCallee()));
  }

  Segment segment;
  segment.target = &target;
  OpBuilder b(module.getContext());
  segment.module = ModuleOp::create(module.getLoc());
  b.setInsertionPointToEnd(segment.module->getBody());
  llvm::SmallVector<Type> inputTypes, outputTypes;
  for (Value value : inputs)
    inputTypes.push_back(value.getType());
  for (Value value : outputs)
    outputTypes.push_back(value.getType());
  auto function = b.create<func::FuncOp>(mainFunction.getLoc(), "main", b.getFunctionType(inputTypes, outputTypes));
  IRMapping mapping;
  Block *body = function.addEntryBlock();
  mapping.map(inputs.getArrayRef(), body->getArguments());
  llvm::DenseSet<StringRef> cloned;
  for (func::FuncOp kernel : kernels)
    if (cloned.insert(kernel.getName()).second)
      b.clone(*kernel);
  b.setInsertionPointToStart(body);
  for (Operation *op : run)
    b.clone(*op, mapping);
  llvm::SmallVector<Value> returned;
  for (Value value : outputs)
    returned.push_back(mapping.lookup(value));
  b.create<func::ReturnOp>(mainFunction.getLoc(), returned);

  for (Value value : inputs)
    segment.inputs.push_back(number(value));
  for (Value value : outputs)
    segment.outputs.push_back(number(value));
  result.segments.push_back(std::move(segment));
}

llvm::Expected<Partition> Partitioner::run() {
  for (BlockArgument argument : mainFunction.getArguments())
    result.inputs.push_back(number(argument));
  Run run;
  const Target *target = networks; // of the run
  auto flush = [&]() -> llvm::Error {
    // Between two kernels that are called by themselves a reshape is no work for anybody.
    if (llvm::all_of(run, [](Operation *op) { return mlir::isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op); }))
      for (Operation *op : run)
        addReshape(op);
    else if (target)
      addNetwork(run, *target);
    else
      return llvm::createStringError("@main holds '%s', but no target compiles more than kernels",
                                     run.front()->getName().getStringRef().str().c_str());
    run.clear();
    target = networks;
    return llvm::Error::success();
  };
  for (Operation &op : mainFunction.getBody().front().without_terminator()) {
    auto call = dyn_cast<func::CallOp>(op);
    if (!call) {
      run.push_back(&op);
      continue;
    }
    auto kernel = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!kernel)
      return llvm::createStringError("@main calls @%s, which the module does not define", call.getCallee().str().c_str());
    auto name = kernel->getAttrOfType<StringAttr>(graph::kTargetAttr);
    const Target *next = name ? targetNamed(name.getValue()) : networks;
    if (!next)
      return llvm::createStringError("kernel @%s is for %s", kernel.getName().str().c_str(),
                                     name ? ("target '" + name.getValue() + "', which is not registered").str().c_str()
                                          : "no target");
    const bool hasCalls = llvm::any_of(run, [](Operation *other) { return mlir::isa<func::CallOp>(other); });
    if (!next->compilesNetworks() || (hasCalls && next != target))
      if (llvm::Error error = flush())
        return std::move(error);
    if (!next->compilesNetworks()) {
      addKernel(call, kernel, *next);
      continue;
    }
    target = next;
    run.push_back(&op);
  }
  if (llvm::Error error = flush())
    return std::move(error);
  for (Value output : mainFunction.getBody().front().getTerminator()->getOperands())
    result.outputs.push_back(number(output));
  return std::move(result);
}

} // namespace

llvm::Expected<Partition> pipeline::partition(ModuleOp module, const Target *networks) {
  auto mainFunction = module.lookupSymbol<func::FuncOp>("main");
  if (!mainFunction || mainFunction.isExternal())
    return llvm::createStringError("the module has no function @main");
  return Partitioner(module, mainFunction, networks).run();
}
