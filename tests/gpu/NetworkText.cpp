//===- NetworkText.cpp - Small networks as text, for a GPU ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/NetworkText.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/loops/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <cctype>
#include <functional>

using namespace tw;

std::string test::filled(std::string text) {
  uint32_t state = 1;
  for (const auto &[pattern, areFloats] :
       {std::pair{std::string("dense<0.0> : tensor<"), true}, std::pair{std::string("dense<0> : tensor<"), false}})
    for (size_t at; (at = text.find(pattern)) != std::string::npos;) {
      const bool isFloat = areFloats;
      std::vector<size_t> shape;
      for (size_t i = at + pattern.size(); std::isdigit(text[i]); i = text.find('x', i) + 1)
        shape.push_back(std::stoul(text.substr(i)));
      std::function<std::string(size_t)> list = [&](size_t dim) {
        if (dim == shape.size()) {
          state = state * 1664525u + 1013904223u;
          return isFloat ? std::to_string(double(state >> 8) / (1 << 23) - 1) : std::to_string(int(state >> 24) - 128);
        }
        std::string inner = "[";
        for (size_t i = 0; i < shape[dim]; ++i)
          inner += (i ? "," : "") + list(dim + 1);
        return inner + "]";
      };
      text.replace(at, pattern.find('>') + 1, "dense<" + list(0) + ">");
    }
  return text;
}

llvm::Expected<gpu::Program> test::compileGraph(mlir::ModuleOp module, gpu::GpuOptions options, const Numbers &numbers) {
  graph::GraphPipelineOptions graphOptions;
  graphOptions.targets = {graph::makeGpuTarget()};
  graphOptions.math = options.math = numbers.math;
  graphOptions.narrow = numbers.narrow;
  mlir::PassManager passes(module.getContext());
  graph::buildGraphPipeline(passes, graphOptions);
  passes.addPass(loops::createLowerGraphPass());
  if (mlir::failed(passes.run(module)))
    return llvm::createStringError("the graph passes or the lowering fail");
  return gpu::compileForGpu(module, options);
}

llvm::Expected<gpu::Program> test::compileText(const std::string &text, const gpu::GpuOptions &options) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<graph::GraphDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::arith::ArithDialect,
                      mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(filled(text), &context);
  if (!module)
    return llvm::createStringError("the text is no module");
  auto has = [&](const char *type) { return text.find(type) != std::string::npos; };
  return compileGraph(*module, options, {graph::Math::Exact, has("xbf16>") ? "bf16" : has("xf16>") ? "f16" : ""});
}
