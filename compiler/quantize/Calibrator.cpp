//===- Calibrator.cpp - Ranges of a network's tensors ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/quantize/Calibrator.h"
#include "compiler/codegen/cpu/CpuTarget.h"
#include "compiler/frontend/OnnxImport.h"
#include "compiler/graph/Graph.h"
#include "compiler/pipeline/Compile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

using namespace tw;
using namespace tw::quantize;
using frontend::ElementKind;
using frontend::HostTensor;

struct Calibrator::Impl {
  std::unique_ptr<cpu::CpuExecutable> executable;
  std::vector<HostTensor> inputs;
  std::vector<std::string> outputs;
  std::set<std::string> wanted;
  Ranges ranges;

  llvm::Error observe(const std::string &name, const HostTensor &tensor);
};

Calibrator::Calibrator() : impl(std::make_unique<Impl>()) {}
Calibrator::~Calibrator() = default;
const std::vector<HostTensor> &Calibrator::inputs() const { return impl->inputs; }
const Ranges &Calibrator::ranges() const { return impl->ranges; }

static ElementKind kindOf(mlir::Type type) {
  if (type.isF32())
    return ElementKind::F32;
  if (type.isInteger(1))
    return ElementKind::Bool;
  if (type.isInteger(8))
    return type.isUnsignedInteger() ? ElementKind::U8 : ElementKind::I8;
  return type.isInteger(32) ? ElementKind::I32 : ElementKind::I64;
}

llvm::Expected<std::unique_ptr<Calibrator>> Calibrator::create(const Quantizer &quantizer, llvm::StringRef file,
                                                               const Shapes &shapes, unsigned threads) {
  std::unique_ptr<Calibrator> calibrator(new Calibrator);
  Impl &impl = *calibrator->impl;
  impl.wanted.insert(quantizer.tensors().begin(), quantizer.tensors().end());
  mlir::MLIRContext context;
  frontend::ImportOptions import;
  import.shapes = shapes;
  auto module = frontend::importOnnx(context, quantizer.observedModel(), file, import);
  if (!module)
    return module.takeError();
  auto function = (*module)->lookupSymbol<mlir::func::FuncOp>("main");
  auto nameOf = [](mlir::DictionaryAttr attributes) {
    return attributes.getAs<mlir::StringAttr>(graph::kNameAttr).getValue().str();
  };
  for (mlir::BlockArgument argument : function.getArguments()) {
    auto type = llvm::cast<mlir::RankedTensorType>(argument.getType());
    impl.inputs.push_back(
        {nameOf(function.getArgAttrDict(argument.getArgNumber())), kindOf(type.getElementType()), type.getShape().vec(), {}});
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    impl.outputs.push_back(nameOf(function.getResultAttrDict(i)));
  pipeline::CompileOptions options;
  if (llvm::Error error = pipeline::optimizeGraph(**module, options))
    return error;
  if (llvm::Error error = pipeline::lowerToLinalg(**module, options))
    return error;
  cpu::CpuOptions cpuOptions;
  cpuOptions.threads = threads;
  auto executable = cpu::compileForCpu(**module, cpuOptions);
  if (!executable)
    return executable.takeError();
  impl.executable = std::move(*executable);
  return calibrator;
}

llvm::Error Calibrator::Impl::observe(const std::string &name, const HostTensor &tensor) {
  if (!wanted.count(name))
    return llvm::Error::success();
  float low = INFINITY, high = -INFINITY;
  for (size_t at = 0; at + sizeof(float) <= tensor.bytes.size(); at += sizeof(float)) {
    float value;
    std::memcpy(&value, tensor.bytes.data() + at, sizeof(value));
    if (!std::isfinite(value))
      return llvm::createStringError(llvm::inconvertibleErrorCode(), "tensor \"" + name + "\" takes the value " +
                                                                         std::to_string(value) + ", expected finite numbers");
    low = std::min(low, value);
    high = std::max(high, value);
  }
  auto [range, isNew] = ranges.emplace(name, Range{low, high});
  range->second.low = std::min(range->second.low, low);
  range->second.high = std::max(range->second.high, high);
  return llvm::Error::success();
}

llvm::Error Calibrator::run(llvm::ArrayRef<HostTensor> sample) {
  for (size_t i = 0; i < sample.size(); ++i)
    if (llvm::Error error = impl->observe(impl->inputs[i].name, sample[i]))
      return error;
  std::vector<HostTensor> results;
  if (llvm::Error error = impl->executable->run(sample, results))
    return error;
  for (size_t i = 0; i < results.size(); ++i)
    if (llvm::Error error = impl->observe(impl->outputs[i], results[i]))
      return error;
  return llvm::Error::success();
}
