//===- RandomNetwork.h - Small networks with known results ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators of the graph dialect with random shapes and attributes. Every value
// of the network is computed beside it by plain loops over the definitions in
// GraphOps.td, which share nothing with the compiler.
//===----------------------------------------------------------------------===//
#ifndef TESTS_FUZZ_RANDOMNETWORK_H
#define TESTS_FUZZ_RANDOMNETWORK_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tw::fuzz {

enum class Kind : uint8_t { I8, U8, F32 };

/// A tensor with row-major elements; integers are exact.
struct Tensor {
  std::vector<int64_t> shape;
  Kind kind = Kind::F32;
  std::vector<double> values;

  /// As a program stores them.
  std::vector<uint8_t> bytes() const;
  /// Precondition: `bytes` has the size of this tensor.
  std::vector<double> read(const std::vector<uint8_t> &bytes) const;
};

struct Network {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<Tensor> inputs, outputs;
  /// The module as it was made, large constants left out.
  std::string text;
};

// Equal seeds give equal networks. Integer networks have 8-bit inputs and outputs and exact results; float networks are f32 with
// results computed in f64.

/// A few operators, each of the one before: every attribute, shapes of any kind.
Network makeChain(mlir::MLIRContext &context, uint64_t seed, bool isFloat);
/// More of them, each of any value so far: values have many readers, and what none reads is an output.
Network makeBranches(mlir::MLIRContext &context, uint64_t seed, bool isFloat);
/// Reductions over any dims, pools of whole images and softmaxes, of images as they come and of what convolutions make of them.
Network makeReductions(mlir::MLIRContext &context, uint64_t seed, bool isFloat);
/// The blocks of which networks are made, on larger images: bottlenecks, inverted residuals, concatenations, attention.
Network makeBlocks(mlir::MLIRContext &context, uint64_t seed, bool isFloat);

} // namespace tw::fuzz

#endif // TESTS_FUZZ_RANDOMNETWORK_H
