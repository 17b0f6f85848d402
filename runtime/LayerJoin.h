//===- LayerJoin.h - The layers of two targets side by side -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_LAYERJOIN_H
#define RUNTIME_LAYERJOIN_H

#include "runtime/Device.h"
#include "runtime/Report.h"

#include <optional>
#include <string>
#include <vector>

namespace tw::runtime {

/// Layers of the accelerator and kernels of the CPU that do the same part of a network.
struct JoinedLayers {
  std::vector<std::string> nodes; ///< of the model; empty where neither side names one
  std::vector<std::string> layers, kernels;
  std::optional<uint64_t> cycles; ///< of the accelerator's critical path; nothing without layers
  std::optional<double> seconds;  ///< of the kernels; nothing without kernels
};

/// Joins what names a common node, directly or through others, in the order of the accelerator's program and then of the kernels. Targets
/// fuse nodes in their own ways, so several layers may stand beside several kernels.
std::vector<JoinedLayers> joinLayers(const std::vector<LayerRow> &layers, const std::vector<KernelTime> &kernels);

} // namespace tw::runtime

#endif // RUNTIME_LAYERJOIN_H
