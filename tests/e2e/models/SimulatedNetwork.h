//===- SimulatedNetwork.h - A network compiled once, run often --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What tests of whole networks and of operators share: ONNX file to program,
// and runs of it on the SystemC model and the functional model.
//===----------------------------------------------------------------------===//
#ifndef TESTS_E2E_MODELS_SIMULATEDNETWORK_H
#define TESTS_E2E_MODELS_SIMULATEDNETWORK_H

#include "compiler/frontend/OnnxImport.h"
#include "compiler/pipeline/Compile.h"
#include "isa/Diagnostic.h"
#include "simulator/stats/SimResult.h"

#include <memory>

namespace tw::e2e {

/// One run on the SystemC model.
struct SimulatedRun {
  /// As the program stores them; float16 outputs of the model are float32 here.
  std::vector<frontend::HostTensor> outputs;
  stats::SimResult result;
};

class SimulatedNetwork {
public:
  /// Compiles the ONNX file `path` for the shipped machine `machineName`.
  static Result<std::unique_ptr<SimulatedNetwork>> compile(const std::string &path, const std::string &machineName,
                                                           const frontend::ImportOptions &import = {},
                                                           accel::Schedule schedule = accel::Schedule::DoubleBuffer);

  /// The same for a serialised ModelProto; `name` is named in errors.
  static Result<std::unique_ptr<SimulatedNetwork>> compileBytes(llvm::StringRef model, const std::string &name,
                                                                const std::string &machineName,
                                                                const frontend::ImportOptions &import = {},
                                                                accel::Schedule schedule = accel::Schedule::DoubleBuffer);

  /// Runs the program on inputs found by name. With `functional`, the functional model runs it too, and any bit that differs
  /// between the two is an error, as is every fault.
  Result<SimulatedRun> run(const std::vector<frontend::HostTensor> &inputs, bool functional = false) const;

  const pipeline::CompiledNetwork &compiled() const { return network; }
  const timing::MachineParams &machine() const { return params; }
  /// Multiply-accumulates per cycle of what the array could do.
  double utilisation(uint64_t cycles) const;
  /// Per output, the scale of the DequantizeLinear that produces it: the size of its least significant bit. 0 if none does.
  const std::vector<float> &outputSteps() const { return steps; }

private:
  timing::MachineParams params;
  pipeline::CompiledNetwork network;
  std::vector<float> steps;
  std::vector<bool> halves; ///< of the outputs: float16, which the machine has as float
};

/// The elements of a tensor of any type as numbers. Exact, except for 64-bit integers beyond 2^53.
std::vector<double> numbersOf(const frontend::HostTensor &tensor);

/// float16 and bfloat16 as float32; other tensors as they are.
frontend::HostTensor widened(const frontend::HostTensor &tensor);
/// The tensor as float16 or bfloat16 (`kind`), each element rounded to nearest even.
frontend::HostTensor narrowed(const frontend::HostTensor &tensor, frontend::ElementKind kind);

} // namespace tw::e2e

#endif // TESTS_E2E_MODELS_SIMULATEDNETWORK_H
