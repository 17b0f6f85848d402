//===- KernelTarget.h - What partitioning asks of a target ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The graph phase gives every op to the first target that takes it, and forms
// kernels of ops of one target. What a target is beyond that stands in
// compiler/pipeline/Target.h.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_KERNELTARGET_H
#define COMPILER_GRAPH_TRANSFORMS_KERNELTARGET_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <memory>
#include <string>
#include <vector>

namespace tw::graph {

/// Attributes of a kernel function. Nodes: the names of its ONNX nodes. Target: the name of its target. Reason: why no target that is
/// preferred to it takes the kernel; absent on the first target.
inline constexpr llvm::StringLiteral kNodesAttr = "tilewright.nodes";
inline constexpr llvm::StringLiteral kTargetAttr = "tilewright.target";
inline constexpr llvm::StringLiteral kReasonAttr = "tilewright.reason";

/// How the reason begins of ops that the accelerator takes, but that cost less where the ops around them are.
inline constexpr llvm::StringLiteral kBetweenNodes = "between nodes on the host";

/// On a lowered kernel that the host computes node by node: it still holds its graph.fallback.
inline constexpr llvm::StringLiteral kEvaluatedAttr = "tilewright.evaluated";

/// Names of the targets that Tilewright has.
inline constexpr llvm::StringLiteral kAccelTarget = "accel";
inline constexpr llvm::StringLiteral kCpuTarget = "cpu";
inline constexpr llvm::StringLiteral kGpuTarget = "gpu";
inline constexpr llvm::StringLiteral kOpenClTarget = "opencl";

/// Whether `kernel` is for the target of this name. A function without kTargetAttr is for any.
bool isFor(mlir::func::FuncOp kernel, llvm::StringRef target);

/// A machine with an array, as far as the graph phase weighs its costs.
struct ArrayMachine {
  std::string type = "fp32";       ///< what the array multiplies: int8, bf16 or fp32
  int64_t rows = 16, columns = 16; ///< of the array
  int64_t preloadCycles = 20;      ///< from one tile of weights to the next at least
  int64_t loadEngines = 2;
  int64_t sums = 16384;        ///< elements of the accumulator
  int64_t scratchpad = 262144; ///< bytes of the first one
  double dramBytes = 19.2;     ///< that DRAM moves in a cycle at its peak
  int64_t dramLatency = 50;    ///< cycles from a request to its data
  /// The link to the host: bytes that it moves in a cycle, and cycles that each tensor takes beside them. 0 bytes: nobody weighs it.
  double linkBytes = 0;
  int64_t linkLatency = 900;
  double hostBytes = 19.2, hostOperations = 48; ///< of the host, in a cycle
};

class KernelTarget {
public:
  virtual ~KernelTarget() = default;
  /// The value of kTargetAttr on its kernels.
  virtual llvm::StringRef name() const = 0;
  /// Why the target cannot run `op`, an op of the graph dialect; empty if it can.
  virtual std::string reasonAgainst(mlir::Operation *op) const = 0;
  /// The machine that its kernels are formed for; null if no machine has a say in that.
  virtual const ArrayMachine *machine() const { return nullptr; }
};

/// In order of preference.
using KernelTargets = std::vector<std::shared_ptr<const KernelTarget>>;

/// The accelerator: the ops that its engines have, on the types that its array multiplies.
std::shared_ptr<const KernelTarget> makeArrayTarget(ArrayMachine machine);
/// The CPU, which takes every op: what does not lower to linalg, compiler/operators computes.
std::shared_ptr<const KernelTarget> makeCpuTarget();
/// The GPU, which takes every op that lowers to linalg.
std::shared_ptr<const KernelTarget> makeGpuTarget();
/// A device of OpenCL, which takes every op that lowers to linalg.
std::shared_ptr<const KernelTarget> makeOpenClTarget();

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_KERNELTARGET_H
