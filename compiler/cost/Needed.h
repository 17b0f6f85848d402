//===- Needed.h - What the results of a network hang on ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Backwards from the results of a network, element for element: a schedule may
// leave out what no result hangs on. The derivation is in docs/bounds.md.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_COST_NEEDED_H
#define COMPILER_COST_NEEDED_H

#include "compiler/cost/Bounds.h"

namespace tw::cost {

struct NeededWork {
  std::vector<LayerWork> layers;   ///< with that part of their work alone which results hang on
  std::vector<uint64_t> readBytes; ///< of each tensor, by all layers together
};

/// Layers are in the order of their dependences.
NeededWork neededWork(const std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors,
                      const timing::MachineParams &machine);

} // namespace tw::cost

#endif // COMPILER_COST_NEEDED_H
