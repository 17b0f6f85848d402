//===- Quantizer.h - Post-training quantisation of ONNX models --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a float model and the ranges of its tensors to a QDQ model that
// graph-convert-qdq turns into integer kernels. A tensor is quantised where an
// operator that computes on integers reads it, and only there: what an
// operator element by element, a softmax or a normalisation reads stays float,
// because it shares a kernel with what made it, or needs the precision.
// Form::Portable quantises what convolutions and additions give as well.
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

/// Whom the model is for.
enum class Form : uint8_t {
  /// Compilers that fuse a convolution with what follows: int8 activations, and a convolution's sum reaches the Add of its residual with all
  /// its bits.
  Fused,
  /// Runtimes that compute node by node as well: uint8 activations, QuantizeLinear behind every convolution and every Add of quantised
  /// operands, and biases of matrix products that stay Adds.
  Portable
};

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
  /// `eightBit`: float inputs and outputs that have 8 bits in the QDQ model as well, without QuantizeLinear in front of an input or
  /// DequantizeLinear behind an output. Another error: a name that is none.
  static llvm::Expected<std::unique_ptr<Quantizer>> create(llvm::StringRef bytes, llvm::StringRef file,
                                                           const Shapes &shapes = {}, Form form = Form::Fused,
                                                           const std::vector<std::string> &eightBit = {});

  /// The tensors whose ranges quantize() needs; inputs of the network may be among them.
  const std::vector<std::string> &tensors() const;
  /// The float model with these tensors, but for inputs, as further outputs.
  std::string observedModel() const;

  /// The QDQ model. Activations: 8-bit with one scale and zero point, their range made to contain 0. Weights: int8
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
