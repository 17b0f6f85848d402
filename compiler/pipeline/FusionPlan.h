//===- FusionPlan.h - Which ops share a kernel, and what that saves -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two levels of fusion of a network: ops in kernels, and kernels whose
// tensors stay on chip. Both are decided elsewhere (graph-partition-kernels,
// the exploration); this describes them and estimates DRAM bytes.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_FUSIONPLAN_H
#define COMPILER_PIPELINE_FUSIONPLAN_H

#include "compiler/memory/PeakMemory.h"
#include "compiler/operators/FusionType.h"
#include "compiler/plan/KernelPlan.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tw::pipeline {

/// DRAM bytes are estimates: every kernel reads each operand from DRAM and writes its results to it once, constants among the operands. Reshapes
/// move nothing.
struct FusionPlan {
  struct Op {
    std::string name, node; ///< of the graph dialect; the first ONNX node
    operators::FusionType type;
  };
  struct Kernel {
    std::string name, target;
    std::vector<Op> ops;
    std::string ends;                 ///< why the next op is not part of the kernel
    std::vector<std::string> borders; ///< where its ops could be elsewhere, and what each place costs
    uint64_t dramBytes = 0;           ///< of the kernel alone
    uint64_t savedBytes = 0;          ///< the part of dramBytes that stays on chip in the chosen plan
    bool isOnChip = false;            ///< the kernel's result stays on chip
    int64_t rowTile = 0;              ///< rows of a tile in depth-first fusion with the next kernels; 0: no such fusion
  };
  std::vector<Kernel> kernels;
  uint64_t unfusedBytes = 0;  ///< every op is a kernel
  uint64_t kernelBytes = 0;   ///< the kernels of the plan, with every intermediate tensor in DRAM
  uint64_t chosenBytes = 0;   ///< kernelBytes without the tensors that the network plan keeps on chip
  uint64_t allFusedBytes = 0; ///< all fusions that operators::mayFuse allows, without limits of a machine
  uint64_t leastBytes = 0;    ///< inputs, outputs and constants of the network
  memory::PeakMemory peak;
};

/// Describes a module behind the graph phase. `plans`: of the network plan, by kernels; kernels without one keep nothing on chip.
FusionPlan describeFusion(mlir::ModuleOp module, const std::map<std::string, plan::KernelPlan> &plans);

/// For people; lines "NAME BYTES" of the sums come first.
std::string toText(const FusionPlan &plan);

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_FUSIONPLAN_H
