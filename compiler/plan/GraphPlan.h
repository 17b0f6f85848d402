//===- GraphPlan.h - What a plan says before there are kernels ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_PLAN_GRAPHPLAN_H
#define COMPILER_PLAN_GRAPHPLAN_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tw::plan {

/// What decides the order of kernels.
enum class KernelOrder : uint8_t {
  Model,  ///< the order of the graph phase: what the longest chain of kernels leads to first
  Memory, ///< the one with the least peak of live bytes that is found
};
/// Spellings on the command line and in plan files, in the order of the enumeration.
constexpr const char *kKernelOrderNames[] = {"model", "memory"};

/// Which kernels a network has, and in which order.
struct GraphPlan {
  std::optional<KernelOrder> order; ///< open: the target decides
  /// ONNX nodes: no kernel holds an op of one of these and an op that it reads of another node.
  std::vector<std::string> kernelsBeginAt;
  std::string place; ///< where a plan file says so: "FILE:LINE:COLUMN: "
};

/// As attributes of plan.network, "order = "memory", kernels_begin_at = ["a", "b"]"; empty if nothing is set.
std::string print(const GraphPlan &plan);

} // namespace tw::plan

#endif // COMPILER_PLAN_GRAPHPLAN_H
