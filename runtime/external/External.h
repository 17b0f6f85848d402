//===- External.h - Other runtimes as yardsticks ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runtimes that a user may have installed: opened when the program runs, never
// linked. Each loads a model and is a device from then on.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_EXTERNAL_EXTERNAL_H
#define RUNTIME_EXTERNAL_EXTERNAL_H

#include "runtime/Device.h"
#include "runtime/InlineKernel.h"
#include "runtime/Status.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tw::runtime {

/// What an external runtime loads.
struct ExternalModel {
  /// As the user named it: an ONNX file or an inline kernel; what else there is, whyNot() refuses.
  std::string name;
  /// Set for inline kernels; `seed` is that of their weights.
  std::optional<InlineKernel> kernel;
  uint64_t seed = 1;
  /// Inputs and outputs as our compiler sees them. Dims are fixed.
  std::vector<TensorSpec> inputs, outputs;
  /// Network inputs are constants in our compilation (--const), so that they are missing in `inputs`.
  bool hasConstantInputs = false;
};

class External {
public:
  virtual ~External() = default;
  /// As --external takes it.
  virtual const char *name() const = 0;
  /// Why it cannot run `model`; nothing if it can. Opens nothing.
  virtual std::optional<std::string> whyNot(const ExternalModel &model) const = 0;
  /// Opens the runtime at `path`, or where the system has it if that is empty, and loads `model` for `threads` threads. A launch's times
  /// are those of the runtime alone. Precondition: whyNot() says nothing. Errors: the runtime is not there (what was looked for and
  /// where), it is of a version without what we call, it refuses the model.
  virtual StatusOr<std::unique_ptr<Device>> load(const ExternalModel &model, const std::string &path, unsigned threads) = 0;
  /// Name and version, for people; valid after load().
  virtual std::string version() const = 0;
};

/// "ort" (ONNX Runtime), "dnnl" (oneDNN) and "torch" (PyTorch).
const std::vector<std::string> &externalNames();
/// Precondition: `name` is one of externalNames().
std::unique_ptr<External> makeExternal(const std::string &name);

} // namespace tw::runtime

#endif // RUNTIME_EXTERNAL_EXTERNAL_H
