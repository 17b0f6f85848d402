//===- Calibrator.h - Ranges of a network's tensors -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_QUANTIZE_CALIBRATOR_H
#define COMPILER_QUANTIZE_CALIBRATOR_H

#include "compiler/frontend/HostTensor.h"
#include "compiler/quantize/Quantizer.h"
#include "llvm/ADT/ArrayRef.h"

namespace tw::quantize {

/// Runs the float network on the CPU and keeps the smallest and the largest value of every tensor that a Quantizer asks
/// for.
class Calibrator {
public:
  ~Calibrator();

  /// Errors: the network cannot be compiled for the CPU.
  static llvm::Expected<std::unique_ptr<Calibrator>> create(const Quantizer &quantizer, llvm::StringRef file,
                                                            const Shapes &shapes, unsigned threads);

  /// Name, type and shape of the network's inputs, without data.
  const std::vector<frontend::HostTensor> &inputs() const;

  /// Runs one sample. Precondition: its tensors are as inputs() says. Errors: a tensor takes a value that is not
  /// finite.
  llvm::Error run(llvm::ArrayRef<frontend::HostTensor> sample);

  /// Over all samples so far.
  const Ranges &ranges() const;

private:
  Calibrator();
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tw::quantize

#endif // COMPILER_QUANTIZE_CALIBRATOR_H
