//===- Partition.cpp - Which kernels run where ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/pipeline/Partition.h"
#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/pipeline/KernelOperations.h"
#include "compiler/pipeline/Target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <map>
#include <optional>
#include <set>

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
  /// Where the ops of @main go: calls to their targets, others nowhere.
  llvm::Error findTargets();
  /// The target of `call` where it compiles runs of calls, else null: calls of such targets are segments of their own.
  const Target *runsOn(Operation *call) const {
    const Target *target = targets.lookup(call);
    return target->compilesNetworks() ? target : nullptr;
  }
  /// How many runs of one target's calls `calls` have.
  size_t countRuns(const Run &calls) const;
  /// The calls of @main from those that `first` runs on: while there is one that can go to the same target, it is taken, the first of @main's
  /// order first.
  Run callsFrom(const Target *first, const Run &calls) const;
  /// All ops of @main but its terminator, so that `calls` stand in this order and others before their first reader.
  Run withOthers(const Run &calls);
  /// All ops of @main but its terminator, in the order of segments.
  Run inOrder();
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
  llvm::DenseMap<Operation *, const Target *> targets; ///< of calls
  llvm::DenseMap<Value, unsigned> numbers;
};

void Partitioner::addKernel(func::CallOp call, func::FuncOp kernel, const Target &target) {
  Segment segment;
  segment.target = &target;
  segment.kernel = kernel.getName().str();
  segment.operations = operationsOf(kernel);
  segment.macs = macsOf(kernel);
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

llvm::Error Partitioner::findTargets() {
  for (Operation &op : mainFunction.getBody().front().without_terminator()) {
    auto call = dyn_cast<func::CallOp>(op);
    if (!call)
      continue;
    auto kernel = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!kernel)
      return llvm::createStringError("@main calls @%s, which the module does not define", call.getCallee().str().c_str());
    auto name = kernel->getAttrOfType<StringAttr>(graph::kTargetAttr);
    const Target *target = name ? targetNamed(name.getValue()) : networks;
    if (!target)
      return llvm::createStringError("kernel @%s is for %s", kernel.getName().str().c_str(),
                                     name ? ("target '" + name.getValue() + "', which is not registered").str().c_str()
                                          : "no target");
    targets[&op] = target;
  }
  return llvm::Error::success();
}

size_t Partitioner::countRuns(const Run &calls) const {
  size_t count = 0;
  const Target *before = nullptr;
  for (Operation *call : calls) {
    const Target *target = runsOn(call);
    count += target && target != before;
    before = target;
  }
  return count;
}

Partitioner::Run Partitioner::callsFrom(const Target *first, const Run &calls) const {
  llvm::DenseMap<Operation *, size_t> position;
  for (auto [i, call] : llvm::enumerate(calls))
    position[call] = i;
  // Through reshapes and constants, which may stand anywhere.
  std::vector<std::set<size_t>> readers(calls.size());
  std::vector<size_t> open(calls.size(), 0);
  for (auto [i, call] : llvm::enumerate(calls)) {
    llvm::SmallVector<Value> reads(call->getOperands());
    while (!reads.empty()) {
      Operation *producer = reads.pop_back_val().getDefiningOp();
      if (!producer)
        continue;
      if (auto found = position.find(producer); found == position.end())
        reads.append(producer->operand_begin(), producer->operand_end());
      else
        open[i] += readers[found->second].insert(i).second;
    }
  }
  std::map<const Target *, std::set<size_t>> ready;
  for (size_t i = 0; i < calls.size(); ++i)
    if (!open[i])
      ready[runsOn(calls[i])].insert(i);
  const Target *target = first;
  Run order;
  while (order.size() < calls.size()) {
    if (ready[target].empty()) {
      size_t next = calls.size();
      for (const auto &[other, indices] : ready)
        if (!indices.empty() && *indices.begin() < next)
          next = *indices.begin();
      assert(next < calls.size() && "@main is in order");
      target = runsOn(calls[next]);
    }
    const size_t taken = *ready[target].begin();
    ready[target].erase(ready[target].begin());
    order.push_back(calls[taken]);
    for (size_t reader : readers[taken])
      if (--open[reader] == 0)
        ready[runsOn(calls[reader])].insert(reader);
  }
  return order;
}

Partitioner::Run Partitioner::withOthers(const Run &calls) {
  Run order;
  llvm::DenseSet<Operation *> placed;
  auto place = [&](Operation *op) {
    llvm::SmallVector<Operation *> open{op};
    while (!open.empty()) {
      Operation *last = open.back();
      Operation *missing = nullptr;
      for (Value operand : last->getOperands())
        if (Operation *producer = operand.getDefiningOp(); producer && !placed.contains(producer) && !missing)
          missing = producer;
      if (missing) {
        open.push_back(missing);
        continue;
      }
      open.pop_back();
      if (placed.insert(last).second)
        order.push_back(last);
    }
  };
  for (Operation *call : calls)
    place(call);
  for (Operation &op : mainFunction.getBody().front().without_terminator())
    place(&op);
  return order;
}

Partitioner::Run Partitioner::inOrder() {
  Run given, calls;
  llvm::SmallSetVector<const Target *, 4> kinds;
  for (Operation &op : mainFunction.getBody().front().without_terminator()) {
    given.push_back(&op);
    if (targets.contains(&op)) {
      calls.push_back(&op);
      kinds.insert(runsOn(&op));
    }
  }
  size_t fewest = countRuns(calls);
  std::optional<Run> best;
  for (const Target *first : kinds)
    if (Run order = callsFrom(first, calls); countRuns(order) < fewest) {
      fewest = countRuns(order);
      best = std::move(order);
    }
  return best ? withOthers(*best) : given;
}

llvm::Expected<Partition> Partitioner::run() {
  if (llvm::Error error = findTargets())
    return std::move(error);
  for (BlockArgument argument : mainFunction.getArguments())
    result.inputs.push_back(number(argument));
  auto isReshape = [](Operation *op) { return mlir::isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op); };
  Run run, waiting;                // what waits are no calls: the next call says whether they belong to the run
  const Target *target = networks; // of the run
  auto flush = [&]() -> llvm::Error {
    Run after;
    const bool hasCalls = llvm::any_of(run, [](Operation *op) { return mlir::isa<func::CallOp>(op); });
    for (Operation *op : waiting) {
      // A reshape of what the run does not make would only carry that through it.
      if (hasCalls && isReshape(op) && !llvm::is_contained(run, op->getOperand(0).getDefiningOp()))
        after.push_back(op);
      else
        run.push_back(op);
    }
    waiting.clear();
    // Between two kernels that are called by themselves a reshape is no work for anybody.
    if (llvm::all_of(run, isReshape))
      for (Operation *op : run)
        addReshape(op);
    else if (target)
      addNetwork(run, *target);
    else
      return llvm::createStringError("@main holds '%s', but no target compiles more than kernels",
                                     run.front()->getName().getStringRef().str().c_str());
    for (Operation *op : after)
      addReshape(op);
    run.clear();
    target = networks;
    return llvm::Error::success();
  };
  for (Operation *op : inOrder()) {
    const Target *next = targets.lookup(op);
    if (!next) {
      waiting.push_back(op);
      continue;
    }
    const bool hasCalls = llvm::any_of(run, [](Operation *other) { return mlir::isa<func::CallOp>(other); });
    if (!next->compilesNetworks() || (hasCalls && next != target))
      if (llvm::Error error = flush())
        return std::move(error);
    if (!next->compilesNetworks()) {
      auto call = cast<func::CallOp>(op);
      addKernel(call, symbols.lookup<func::FuncOp>(call.getCallee()), *next);
      continue;
    }
    target = next;
    run.append(waiting);
    waiting.clear();
    run.push_back(op);
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
