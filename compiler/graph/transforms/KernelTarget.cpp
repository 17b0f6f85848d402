//===- KernelTarget.cpp - What the targets take ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/KernelTarget.h"
#include "compiler/graph/Messages.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Rewriting.h"

using namespace mlir;

namespace tw::graph {
namespace {

/// Of an operator that a target has no code or no engine for.
std::string noSuchOperator(StringRef target) { return (target + " has no such operator").str(); }
constexpr StringLiteral kAccelerator = "the accelerator";

/// Why the import has left an op to the host, in the words of the target.
std::string reasonOf(FallbackOp op, StringRef target) {
  return op.getReason() == kNoKernel ? noSuchOperator(target) : op.getReason().str();
}

class ArrayTarget : public KernelTarget {
public:
  explicit ArrayTarget(ArrayMachine machine) : array(std::move(machine)) {}
  StringRef name() const override { return kAccelTarget; }
  std::string reasonAgainst(Operation *op) const override;
  const ArrayMachine *machine() const override { return &array; }

private:
  const ArrayMachine array;
};

class CpuTarget : public KernelTarget {
public:
  StringRef name() const override { return kCpuTarget; }
  std::string reasonAgainst(Operation *) const override { return ""; }
};

class GpuTarget : public KernelTarget {
public:
  StringRef name() const override { return kGpuTarget; }
  std::string reasonAgainst(Operation *op) const override;
};

class OpenClTarget : public KernelTarget {
public:
  StringRef name() const override { return kOpenClTarget; }
  std::string reasonAgainst(Operation *op) const override {
    auto fallback = dyn_cast<FallbackOp>(op);
    if (!fallback)
      return "";
    return fallback.getReason() == kNoKernel ? "only the host evaluates it" : fallback.getReason().str();
  }
};

std::string textOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

/// The first element type of operands and results that is not among those that `takes` says yes to.
std::optional<Type> otherType(Operation *op, llvm::function_ref<bool(Type)> takes) {
  for (ValueRange values : {ValueRange(op->getOperands()), ValueRange(op->getResults())})
    for (Value value : values)
      if (!takes(elementOf(value)))
        return elementOf(value);
  return std::nullopt;
}

} // namespace

std::string ArrayTarget::reasonAgainst(Operation *op) const {
  if (auto fallback = dyn_cast<FallbackOp>(op))
    return reasonOf(fallback, kAccelerator);
  // What folding has left to the run time: no engine carries it.
  if (op->getNumOperands() && llvm::all_of(op->getOperands(), [](Value operand) { return bool(constantOf(operand)); }))
    return "all of its operands are constants";
  if (isa<ElementwiseOp, GatherOp>(op))
    return noSuchOperator(kAccelerator);
  auto isSupported = [](Type type) {
    return type.isF32() || type.isBF16() || isEightBit(type) || (type.isInteger(32) && !type.isUnsignedInteger());
  };
  if (std::optional<Type> type = otherType(op, isSupported))
    return "the machine has no element type " + textOf(*type);
  bool multipliesInt8 = array.type == "int8";
  auto mismatch = [&](StringRef what, StringRef type) {
    return ("the array multiplies " + Twine(array.type) + ", this " + what + " " + type).str();
  };
  if (auto conv = dyn_cast<ConvOp>(op); conv && multipliesInt8 && !isDepthwise(conv))
    return mismatch("convolution", "float numbers");
  if (isa<MatmulOp>(op) && multipliesInt8)
    return mismatch("matrix product", "float numbers");
  if (auto conv = dyn_cast<ConvIntegerOp>(op)) {
    if (!multipliesInt8 && !isDepthwise(conv))
      return mismatch("convolution", "8-bit integers");
    if (conv.getWZeroPoints().size() > 1)
      return "its weights have one zero point per channel, and their differences to it do not fit 8 bits";
  }
  if (auto matmul = dyn_cast<MatmulIntegerOp>(op)) {
    if (!multipliesInt8)
      return mismatch("matrix product", "8-bit integers");
    if (matmul.getBZeroPoints().size() > 1)
      return "its weights have one zero point per column, and their differences to it do not fit 8 bits";
  }
  return "";
}

std::string GpuTarget::reasonAgainst(Operation *op) const {
  if (auto fallback = dyn_cast<FallbackOp>(op))
    return reasonOf(fallback, "code for a GPU");
  auto isSupported = [](Type type) {
    return type.isF32() || type.isBF16() || type.isF16() || isEightBit(type) || type.isInteger(1) ||
           ((type.isInteger(32) || type.isInteger(64)) && !type.isUnsignedInteger());
  };
  if (std::optional<Type> type = otherType(op, isSupported))
    return "code for a GPU has no element type " + textOf(*type);
  if (isa<GatherOp>(op))
    return "code for a GPU reads no elements whose places are computed";
  auto elementwise = dyn_cast<ElementwiseOp>(op);
  if (!elementwise)
    return "";
  switch (const Function function = elementwise.getFunction()) {
  case Function::Mod:
  case Function::Fmod:
  case Function::Pow:
    return ("code for a GPU has no function " + stringifyFunction(function)).str();
  default:
    if (function >= Function::Log)
      return ("code for a GPU has no function " + stringifyFunction(function)).str();
    return "";
  }
}

bool isFor(func::FuncOp kernel, StringRef target) {
  auto name = kernel->getAttrOfType<StringAttr>(kTargetAttr);
  return !name || name.getValue() == target;
}

std::shared_ptr<const KernelTarget> makeArrayTarget(ArrayMachine machine) {
  return std::make_shared<ArrayTarget>(std::move(machine));
}

std::shared_ptr<const KernelTarget> makeCpuTarget() { return std::make_shared<CpuTarget>(); }

std::shared_ptr<const KernelTarget> makeGpuTarget() { return std::make_shared<GpuTarget>(); }

std::shared_ptr<const KernelTarget> makeOpenClTarget() { return std::make_shared<OpenClTarget>(); }

} // namespace tw::graph
