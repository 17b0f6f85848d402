//===- HostKernels.cpp - Kernels that are evaluated -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/pipeline/HostKernels.h"
#include "compiler/codegen/cpu/KernelEmitter.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/Messages.h"
#include "compiler/graph/transforms/KernelTarget.h"
#include "compiler/operators/Elements.h"
#include "compiler/operators/Evaluator.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <onnx/onnx_pb.h>

using namespace mlir;
using namespace tw;
using namespace tw::pipeline;
using frontend::ElementKind;
using frontend::HostTensor;

struct HostKernels::Kernel {
  std::string place; ///< of its node, for messages
  std::unique_ptr<operators::Evaluator> evaluator;
  bool hasGraphs = false; ///< in its node
  /// Of the node, in the order of its inputs: the argument of the kernel, or a constant.
  struct Input {
    ElementKind kind;
    int argument = -1;
    operators::Value constant;
  };
  std::vector<Input> inputs;
  /// Of the kernel's results, in their order: which result of the evaluator, its type and shape.
  struct Output {
    int index;
    ElementKind kind;
    std::vector<int64_t> shape;
  };
  std::vector<Output> outputs;
};

HostKernels::HostKernels() = default;
HostKernels::HostKernels(HostKernels &&) = default;
HostKernels::~HostKernels() = default;

bool HostKernels::has(llvm::StringRef kernel) const { return kernels.count(kernel.str()) != 0; }

operators::Evaluator *HostKernels::evaluatorOf(llvm::StringRef kernel) {
  auto found = kernels.find(kernel.str());
  return found != kernels.end() && found->second->hasGraphs ? found->second->evaluator.get() : nullptr;
}

/// Elements of a constant, as the host holds them.
static HostTensor tensorOf(graph::ConstantOp op, ElementKind kind) {
  auto type = cast<RankedTensorType>(op.getType());
  HostTensor tensor;
  tensor.type = kind;
  tensor.shape.assign(type.getShape().begin(), type.getShape().end());
  tensor.bytes.resize(size_t(type.getNumElements()) * frontend::elementBytes(kind));
  cpu::copyElements(op.getValue(), reinterpret_cast<char *>(tensor.bytes.data()));
  return tensor;
}

/// What is converted: values between kernels may be narrower than the node's own. run() converts them.
static Value withoutCast(Value value) {
  auto cast = value.getDefiningOp<graph::CastOp>();
  return cast ? cast.getX() : value;
}

llvm::Expected<HostKernels> HostKernels::takeFrom(ModuleOp module) {
  HostKernels taken;
  for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
    if (!function->hasAttr(graph::kEvaluatedAttr))
      continue;
    auto fallbacks = function.getBody().front().getOps<graph::FallbackOp>();
    auto model = std::make_shared<onnx::ModelProto>();
    if (!llvm::hasSingleElement(fallbacks) || !model->ParseFromString((*fallbacks.begin()).getModel().str()) ||
        model->graph().node_size() != 1)
      return llvm::createStringError("kernel @%s: '%s' is for kernels with one graph.fallback, which holds a model of one node",
                                     function.getName().str().c_str(), graph::kEvaluatedAttr.str().c_str());
    graph::FallbackOp op = *fallbacks.begin();
    ArrayRef<int32_t> kinds = op.getKinds();
    if (kinds.size() != op->getNumOperands() + op->getNumResults() ||
        size_t(model->graph().input_size()) != op->getNumOperands() ||
        size_t(model->graph().node(0).output_size()) != op->getNumResults() ||
        llvm::any_of(kinds, [](int32_t kind) { return kind < 0 || frontend::isHostOnly(ElementKind(kind)); }))
      return llvm::createStringError("kernel @%s: the node, the operands and the kinds of its graph.fallback do not agree",
                                     function.getName().str().c_str());
    auto kernel = std::make_unique<Kernel>();
    kernel->place = graph::placeOf(op.getLoc());
    for (auto [i, given] : llvm::enumerate(op.getInputs())) {
      const Value operand = withoutCast(given);
      Kernel::Input input;
      input.kind = ElementKind(kinds[i]);
      if (auto argument = dyn_cast<BlockArgument>(operand))
        input.argument = int(argument.getArgNumber());
      else if (auto constant = operand.getDefiningOp<graph::ConstantOp>())
        input.constant = operators::Value(tensorOf(constant, input.kind));
      else
        return llvm::createStringError("kernel @%s computes more than one node", function.getName().str().c_str());
      kernel->inputs.push_back(std::move(input));
    }
    const onnx::NodeProto &node = model->graph().node(0);
    for (Value returned : function.getBody().front().getTerminator()->getOperands()) {
      auto result = dyn_cast<OpResult>(withoutCast(returned));
      if (!result || result.getOwner() != op)
        return llvm::createStringError("kernel @%s returns more than the results of its node",
                                       function.getName().str().c_str());
      // The evaluator leaves out results without a name.
      int index = 0;
      for (unsigned i = 0; i < result.getResultNumber(); ++i)
        index += !node.output(int(i)).empty();
      ArrayRef<int64_t> shape = cast<RankedTensorType>(result.getType()).getShape();
      kernel->outputs.push_back({node.output(int(result.getResultNumber())).empty() ? -1 : index,
                                 ElementKind(kinds[op->getNumOperands() + result.getResultNumber()]),
                                 {shape.begin(), shape.end()}});
    }
    kernel->hasGraphs = llvm::any_of(node.attribute(), [](const onnx::AttributeProto &attribute) { return attribute.has_g(); });
    kernel->evaluator = std::make_unique<operators::Evaluator>(std::move(model));
    taken.kernels[function.getName().str()] = std::move(kernel);
    function.erase();
  }
  return std::move(taken);
}

/// Whether tensors of a node's type `own` are kept as `kept`, a float of 16 bits.
static bool isNarrower(ElementKind kept, ElementKind own) {
  return own == ElementKind::F32 && (kept == ElementKind::BF16 || kept == ElementKind::F16);
}

llvm::Error HostKernels::run(llvm::StringRef name, llvm::ArrayRef<HostTensor> inputs, std::vector<HostTensor> &outputs) {
  Kernel &kernel = *kernels.at(name.str());
  try {
    std::vector<operators::Value> values;
    for (const Kernel::Input &input : kernel.inputs) {
      if (input.argument < 0) {
        values.push_back(input.constant);
        continue;
      }
      if (size_t(input.argument) >= inputs.size())
        return llvm::createStringError("kernel '%s' is given %zu inputs", name.str().c_str(), inputs.size());
      HostTensor tensor = inputs[size_t(input.argument)];
      if (isNarrower(tensor.type, input.kind))
        tensor = operators::toKind(tensor, input.kind);
      tensor.type = input.kind; // a signed type stands for both
      values.emplace_back(std::move(tensor));
    }
    std::vector<operators::Value> results = kernel.evaluator->run(std::move(values));
    outputs.resize(kernel.outputs.size());
    for (auto [expected, output] : llvm::zip(kernel.outputs, outputs)) {
      if (expected.index < 0) { // nobody reads it
        output.bytes.assign(size_t(operators::countOf(expected.shape)) * frontend::elementBytes(output.type), 0);
        continue;
      }
      const operators::Value &result = results[size_t(expected.index)];
      if (result.form != operators::Value::Form::Tensor || result.tensor->shape != expected.shape)
        return llvm::createStringError(
            "%s: its result is %s, but the model, or its other inputs, say it has shape %s", kernel.place.c_str(),
            result.form == operators::Value::Form::Tensor ? ("of shape " + operators::textOf(result.tensor->shape)).c_str()
                                                          : "no tensor",
            operators::textOf(expected.shape).c_str());
      const ElementKind kept = output.type;
      const std::string title = output.name;
      output = operators::toKind(*result.tensor, isNarrower(kept, expected.kind) ? kept : expected.kind);
      output.name = title;
      if (frontend::elementBytes(kept) == frontend::elementBytes(expected.kind))
        output.type = kept;
    }
  } catch (const operators::Error &error) {
    return llvm::createStringError("%s", error.message.c_str());
  }
  return llvm::Error::success();
}
