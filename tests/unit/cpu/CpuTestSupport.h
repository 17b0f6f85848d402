//===- CpuTestSupport.h - Compile text, run it on vectors -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESTS_UNIT_CPU_CPUTESTSUPPORT_H
#define TESTS_UNIT_CPU_CPUTESTSUPPORT_H

#include "compiler/codegen/cpu/CpuTarget.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include <cstring>
#include <gtest/gtest.h>

namespace tw::cpu::test {

using frontend::ElementKind;
using frontend::HostTensor;

template <typename T> constexpr ElementKind kindOf() {
  if constexpr (std::is_same_v<T, float>)
    return ElementKind::F32;
  else if constexpr (std::is_same_v<T, int8_t>)
    return ElementKind::I8;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return ElementKind::U8;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return ElementKind::BF16;
  else if constexpr (std::is_same_v<T, int32_t>)
    return ElementKind::I32;
  else
    return ElementKind::I64;
}

template <typename T> HostTensor tensorOf(const std::vector<T> &values, std::vector<int64_t> shape) {
  HostTensor tensor;
  tensor.type = kindOf<T>();
  tensor.shape = std::move(shape);
  tensor.bytes.resize(values.size() * sizeof(T));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

template <typename T> std::vector<T> valuesOf(const HostTensor &tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

/// A fixed sequence of numbers: whole multiples of 1/8 in [-4, 4) for floats, so that short sums are exact, and all byte
/// values for integers.
template <typename T> std::vector<T> someValues(size_t count, unsigned seed = 1) {
  std::vector<T> values(count);
  uint32_t state = seed * 2654435761u + 12345u;
  for (T &value : values) {
    state = state * 1664525u + 1013904223u;
    int byte = static_cast<int>(state >> 24);
    if constexpr (std::is_same_v<T, float>)
      value = static_cast<float>(byte / 4 - 32) / 8.0f;
    else
      value = static_cast<T>(byte);
  }
  return values;
}

class Context {
public:
  Context() {
    context.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                        mlir::math::MathDialect, mlir::scf::SCFDialect, mlir::tensor::TensorDialect>();
  }
  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context, "kernel.mlir");
    EXPECT_TRUE(module) << text;
    return module;
  }
  llvm::Expected<std::unique_ptr<CpuExecutable>> compile(const std::string &text, const CpuOptions &options = {}) {
    mlir::OwningOpRef<mlir::ModuleOp> module = parse(text);
    if (!module)
      return llvm::createStringError(llvm::inconvertibleErrorCode(), "the test's module does not parse");
    return compileForCpu(*module, options);
  }

private:
  mlir::MLIRContext context;
};

/// Compiles `text` and runs @main once.
inline std::vector<HostTensor> runWith(const std::string &text, const std::vector<HostTensor> &inputs,
                                       const CpuOptions &options) {
  Context context;
  auto executable = context.compile(text, options);
  std::vector<HostTensor> outputs;
  if (!executable)
    ADD_FAILURE() << llvm::toString(executable.takeError());
  else if (llvm::Error error = (*executable)->run(inputs, outputs))
    ADD_FAILURE() << llvm::toString(std::move(error));
  return outputs;
}

/// Runs @main for every combination of 1 and 2 threads with 128-, 256- and 512-bit vectors (as far as the processor has them);
/// expects equal results from all threads and returns those of the widest vectors.
inline std::vector<HostTensor> runEverywhere(const std::string &text, const std::vector<HostTensor> &inputs,
                                             unsigned integerProducts = 0) {
  std::vector<HostTensor> outputs;
  for (unsigned vectorBits : {128u, 256u, 512u}) {
    CpuOptions options;
    options.vectorBits = vectorBits;
    options.integerProducts = integerProducts;
    outputs = runWith(text, inputs, options);
    options.threads = 2;
    std::vector<HostTensor> shared = runWith(text, inputs, options);
    EXPECT_EQ(outputs.size(), shared.size());
    for (size_t i = 0; i < std::min(outputs.size(), shared.size()); ++i)
      EXPECT_EQ(outputs[i].bytes, shared[i].bytes) << "1 and 2 threads differ in result " << i;
    // Products are summed in another order for another width, so only what the caller checks must agree.
  }
  return outputs;
}

} // namespace tw::cpu::test

#endif // TESTS_UNIT_CPU_CPUTESTSUPPORT_H
