//===- Quantizer.h - Post-training quantisation of ONNX models --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a float model and the ranges of its tensors to a QDQ model that
// graph-convert-qdq turns into integer kernels. A tensor is quantised where an
// operator that computes on integers reads it, and only there: what an
// operator element by element, a softmax or a normalisation reads stays float,
// because it shares a kernel with what made it, or needs the precision.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_QUANTIZE_QUANTIZER_H
#define COMPILER_QUANTIZE_QUANTIZER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tw::quantize {

/// The smallest and the largest value of a tensor.
struct Range {
  float low = 0, high = 0;
};
using Ranges = std::map<std::string, Range>;
/// Dims of network inputs by name, for models with open dims.
using Shapes = std::map<std::string, std::vector<int64_t>>;

/// What became of the operators.
struct Summary {
  /// Convolutions and matrix products by operator: how many compute on integers.
  std::map<std::string, unsigned> integer;
  /// Those that stay float: the node and why.
  std::vector<std::pair<std::string, std::string>> floating;
  /// Tensors with a scale of their own or of their group.
  unsigned tensors = 0;
};

class Quantizer {
public:
  ~Quantizer();

  /// Reads a float model and decides which tensors are quantised. Models below opset 13, the first that has scales per
  /// channel, are brought to it; batch normalisations are folded into the convolutions before them. Errors: the model
  /// cannot be imported; it is quantised already; it has nothing to quantise; `file: node "name" (OpType): ...`.
  static llvm::Expected<std::unique_ptr<Quantizer>> create(llvm::StringRef bytes, llvm::StringRef file,
                                                           const Shapes &shapes = {});

  /// The tensors whose ranges quantize() needs; inputs of the network may be among them.
  const std::vector<std::string> &tensors() const;
  /// The float model with these tensors, but for inputs, as further outputs.
  std::string observedModel() const;

  /// The QDQ model. Activations: int8 with one scale and zero point, their range made to contain 0. Weights: int8
  /// without zero point, one scale per output channel. Biases: int32 in units of the product of both scales.
  /// Precondition: `ranges` has every one of tensors(), finite. Called once.
  std::string quantize(const Ranges &ranges);
  const Summary &summary() const;

private:
  Quantizer();
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tw::quantize

#endif // COMPILER_QUANTIZE_QUANTIZER_H
