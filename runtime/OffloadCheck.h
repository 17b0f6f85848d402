//===- OffloadCheck.h - Where a network would run ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of a model and their targets, after import and the graph phase.
// No program is compiled.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_OFFLOADCHECK_H
#define RUNTIME_OFFLOADCHECK_H

#include "compiler/operators/FusionType.h"
#include "runtime/Network.h"

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace tw::runtime {

struct OffloadCheck {
  /// A node of the model; `target` and `reason` as in Offload.
  struct Node {
    std::string name, op;
    Offload place;
    std::vector<std::string> kernels; ///< names of the kernels that compute the node, in the order of execution
  };
  struct Kernel {
    std::string name, target, reason;
    std::vector<std::string> nodes; ///< names of the nodes that the kernel computes
    uint64_t macs = 0;
    bool isEvaluated = false; ///< the host computes the kernel, which is one node, without code for it
  };
  std::vector<std::string> targets; ///< titles of the targets, in order of preference
  std::vector<Node> nodes;          ///< in the order of the model
  std::vector<Kernel> kernels;      ///< in the order of execution
  /// Nodes that are evaluated when all kernels are done: their shapes, or types, are known when the network runs.
  size_t lateNodes = 0;
  /// How often execution passes from the accelerator to the host or back, and the bytes of the tensors that one side makes and the other
  /// side reads. A tensor counts once; inputs and outputs of the network do not count.
  uint64_t crossings = 0, crossingBytes = 0;
  std::vector<std::string> notes;
  double seconds = 0;

  /// Multiply-accumulates of the kernels of one target, or of all. Those of evaluated nodes are not known.
  uint64_t macs(const std::string &target = "") const;
};

/// Adds kernels, crossings and places of nodes to `check`, whose nodes have names and operators, and whose targets are known. `module`: behind the
/// graph phase. `late`: nodes that run behind all kernels; `lateReads`: results of @main that these read.
void addKernels(OffloadCheck &check, mlir::ModuleOp module, const std::vector<Offload> &late,
                const std::vector<std::string> &lateReads);

/// Imports `model` and forms its kernels. Fails for a program image, which holds no graph.
StatusOr<OffloadCheck> checkOffload(const std::string &model, const NetworkOptions &options);

/// An operator that the importer reads.
struct OperatorSupport {
  std::string domain, type;
  bool isKernel = false; ///< some form of the operator becomes kernels; else the host evaluates the operator
  operators::FusionType fusion;
};
/// All operators, by domain and type.
std::vector<OperatorSupport> operatorSupport();

} // namespace tw::runtime

#endif // RUNTIME_OFFLOADCHECK_H
