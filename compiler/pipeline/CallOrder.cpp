//===- CallOrder.cpp - The order of the calls of @main ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/pipeline/CallOrder.h"

#include "compiler/memory/OrderSearch.h"
#include "compiler/memory/OrderVerifier.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SetVector.h"

#include <numeric>

using namespace mlir;
using namespace tw;
using namespace tw::pipeline;

namespace {
bool isView(Operation *op) {
  return mlir::isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ReshapeOp, tensor::CastOp>(op);
}

uint64_t bytesOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape()
             ? uint64_t(tensor.getNumElements()) * llvm::divideCeil(tensor.getElementTypeBitWidth(), 8)
             : 0;
}

class ProblemOfCalls {
public:
  explicit ProblemOfCalls(ModuleOp module)
      : symbols(module), body(module.lookupSymbol<func::FuncOp>("main").getBody().front()) {}

  memory::OrderProblem build() {
    for (Value output : body.getTerminator()->getOperands())
      outputs.insert(rootOf(output));
    for (auto call : body.getOps<func::CallOp>())
      if (isWrittenInPlace(call))
        for (Value part : call.getOperands())
          wholes[part] = call.getResult(0);
    for (auto call : body.getOps<func::CallOp>()) {
      memory::OrderProblem::Step step;
      llvm::SmallSetVector<unsigned, 4> after, buffers;
      for (Value operand : call.getOperands()) {
        const Value root = rootOf(operand);
        if (auto producer = root.getDefiningOp<func::CallOp>()) {
          after.insert(steps.lookup(producer));
          addBuffer(root, buffers);
        }
      }
      for (Value result : call.getResults())
        addBuffer(result, buffers);
      step.after.assign(after.begin(), after.end());
      step.buffers.assign(buffers.begin(), buffers.end());
      steps[call] = unsigned(problem.steps.size());
      problem.steps.push_back(std::move(step));
    }
    return std::move(problem);
  }

private:
  SymbolTable symbols;
  Block &body;
  memory::OrderProblem problem;
  llvm::DenseMap<Operation *, unsigned> steps;
  llvm::DenseSet<Value> outputs;
  llvm::DenseMap<Value, Value> wholes;     ///< of parts of concatenations
  llvm::DenseMap<Value, unsigned> buffers; ///< of roots

  static Value rootOf(Value value) {
    while (value.getDefiningOp() && isView(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    return value;
  }

  bool isWrittenInPlace(func::CallOp call) {
    auto function = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!function || function.isExternal() || call.getNumResults() != 1 ||
        function.getBody().front().getOperations().size() != 2 ||
        !mlir::isa<tensor::ConcatOp>(function.getBody().front().front()))
      return false;
    return llvm::all_of(call.getOperands(),
                        [](Value operand) { return operand.getDefiningOp<func::CallOp>() && operand.hasOneUse(); });
  }

  void addBuffer(Value value, llvm::SmallSetVector<unsigned, 4> &to) {
    while (wholes.count(value))
      value = wholes.lookup(value);
    if (outputs.contains(value))
      return;
    auto [known, isNew] = buffers.try_emplace(value, unsigned(problem.bufferBytes.size()));
    if (isNew)
      problem.bufferBytes.push_back(bytesOf(value.getType()));
    to.insert(known->second);
  }
};

/// Moves ops so that the calls have this order, and what they read stands before them.
void moveCalls(Block &body, llvm::ArrayRef<func::CallOp> calls) {
  llvm::DenseSet<Operation *> placed;
  auto place = [&](Operation *op) {
    llvm::SmallVector<Operation *> open{op};
    while (!open.empty()) {
      Operation *missing = nullptr;
      for (Value operand : open.back()->getOperands())
        if (Operation *producer = operand.getDefiningOp(); producer && !placed.contains(producer) && !missing)
          missing = producer;
      if (missing) {
        open.push_back(missing);
        continue;
      }
      if (Operation *last = open.pop_back_val(); placed.insert(last).second)
        last->moveBefore(body.getTerminator());
    }
  };
  llvm::SmallVector<Operation *> others;
  for (Operation &op : body.without_terminator())
    if (!mlir::isa<func::CallOp>(op))
      others.push_back(&op);
  for (func::CallOp call : calls)
    place(call);
  for (Operation *op : others)
    place(op);
}
} // namespace

memory::OrderProblem pipeline::orderProblemOf(ModuleOp module) { return ProblemOfCalls(module).build(); }

llvm::Expected<memory::PeakMemory>
pipeline::orderCalls(ModuleOp module, llvm::function_ref<plan::KernelOrder(const memory::PeakMemory &)> choose) {
  const memory::OrderProblem problem = orderProblemOf(module);
  memory::Order best = memory::orderSteps(problem);
  std::vector<unsigned> given(problem.steps.size());
  std::iota(given.begin(), given.end(), 0u);
  memory::PeakMemory peaks;
  for (auto [steps, bytes] : {std::pair(&given, &peaks.modelBytes), std::pair(&best.steps, &peaks.leastBytes)}) {
    llvm::Expected<uint64_t> peak = memory::peakOf(problem, *steps);
    if (!peak)
      return llvm::createStringError("internal: the order of kernels does not verify: %s",
                                     llvm::toString(peak.takeError()).c_str());
    *bytes = *peak;
  }
  peaks.boundBytes = best.boundBytes;
  peaks.takenBytes = peaks.modelBytes;
  if (peaks.leastBytes >= peaks.modelBytes || choose(peaks) != plan::KernelOrder::Memory)
    return peaks;
  Block &body = module.lookupSymbol<func::FuncOp>("main").getBody().front();
  const llvm::SmallVector<func::CallOp> calls(body.getOps<func::CallOp>());
  llvm::SmallVector<func::CallOp> ordered;
  for (unsigned step : best.steps)
    ordered.push_back(calls[step]);
  moveCalls(body, ordered);
  peaks.takenBytes = peaks.leastBytes;
  return peaks;
}
