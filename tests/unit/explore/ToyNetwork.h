//===- ToyNetwork.h - Kernels for tests of plans -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_UNIT_EXPLORE_TOYNETWORK_H
#define TESTS_UNIT_EXPLORE_TOYNETWORK_H

#include "compiler/explore/Problem.h"
#include "hw-configs/Machine.h"

#include <deque>

namespace tw::test {

/// A chain of kernels: each reads what the one before it makes. Tensor 0 is the input.
class ToyNetwork {
public:
  explicit ToyNetwork(const std::string &machine = "gemmini_16x16_int8")
      : params(*hwconfigs::loadMachine(machine, {})), problem{params, {}, {}} {
    problem.tensorBytes.push_back(1);
  }

  /// rows x inputs times inputs x outputs, with constant weights.
  accel::Kernel &addProduct(int64_t rows, int64_t inputs, int64_t outputs) {
    accel::Kernel &kernel = add(rows, outputs);
    accel::Anchor anchor;
    anchor.kind = accel::Anchor::Contraction;
    anchor.input.tensor = 0;
    anchor.axes[0].size = anchor.axes[0].inputSize = rows;
    anchor.ic = inputs;
    anchor.oc = outputs;
    anchor.inputType = anchor.weightType = accel::LaneType::I8;
    anchor.weights = int(kernel.tensors.size());
    kernel.tensors.push_back({accel::KernelTensor::Constant});
    problem.layers.back().tensors.push_back(0);
    kernel.anchor = anchor;
    return kernel;
  }

  /// A normalisation of rows: it sums over all channels.
  accel::Kernel &addNormalisation(int64_t rows, int64_t channels) {
    accel::Kernel &kernel = add(rows, channels);
    accel::Step step;
    step.reducesChannels = true;
    kernel.steps.push_back(step);
    return kernel;
  }

  timing::MachineParams params;
  explore::Problem problem;

private:
  std::deque<accel::Kernel> kernels; ///< addresses stay

  accel::Kernel &add(int64_t rows, int64_t channels) {
    const size_t input = problem.tensorBytes.size() - 1, result = input + 1;
    problem.tensorBytes.push_back(uint64_t(rows * channels));
    accel::Kernel &kernel = kernels.emplace_back();
    kernel.name = "kernel" + std::to_string(kernels.size() - 1);
    kernel.kind = std::to_string(rows) + "x" + std::to_string(channels);
    kernel.extent = {channels, rows, 1, 1};
    kernel.tensors = {{accel::KernelTensor::Argument}, {accel::KernelTensor::Result}};
    kernel.output.tensor = 1;
    problem.layers.push_back({&kernel, nullptr, {input, result}});
    return kernel;
  }
};

} // namespace tw::test

#endif // TESTS_UNIT_EXPLORE_TOYNETWORK_H
