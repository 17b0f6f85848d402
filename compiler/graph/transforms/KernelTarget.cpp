//===- KernelTarget.cpp - What the targets take ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/KernelTarget.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Rewriting.h"

using namespace mlir;

namespace tw::graph {
namespace {

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
  std::string reasonAgainst(Operation *op) const override {
    auto fallback = dyn_cast<FallbackOp>(op);
    return fallback ? fallback.getReason().str() : "";
  }
};

} // namespace

std::string ArrayTarget::reasonAgainst(Operation *op) const {
  if (auto fallback = dyn_cast<FallbackOp>(op))
    return fallback.getReason().str();
  // What folding has left to the run time: no engine carries it.
  if (op->getNumOperands() && llvm::all_of(op->getOperands(), [](Value operand) { return bool(constantOf(operand)); }))
    return "all of its operands are constants";
  auto unsupported = [](Value value) {
    Type type = elementOf(value);
    return !(type.isF32() || type.isBF16() || isEightBit(type) || type.isInteger(32));
  };
  for (ValueRange values : {ValueRange(op->getOperands()), ValueRange(op->getResults())})
    for (Value value : values)
      if (unsupported(value)) {
        std::string type;
        llvm::raw_string_ostream(type) << elementOf(value);
        return "the machine has no element type " + type;
      }
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

bool isFor(func::FuncOp kernel, StringRef target) {
  auto name = kernel->getAttrOfType<StringAttr>(kTargetAttr);
  return !name || name.getValue() == target;
}

std::shared_ptr<const KernelTarget> makeArrayTarget(ArrayMachine machine) {
  return std::make_shared<ArrayTarget>(std::move(machine));
}

std::shared_ptr<const KernelTarget> makeCpuTarget() { return std::make_shared<CpuTarget>(); }

std::shared_ptr<const KernelTarget> makeGpuTarget() { return std::make_shared<GpuTarget>(); }

} // namespace tw::graph
