//===- SearchSpace.h - Plans that a search may compile -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_PIPELINE_SEARCHSPACE_H
#define COMPILER_PIPELINE_SEARCHSPACE_H

#include "compiler/pipeline/PlanEmitter.h"

namespace tw::pipeline {

/// Compiles plans of one network, and remembers what its kernels have found out.
class PlanCompilation : public explore::PlanCompiler {
public:
  PlanCompilation(const NetworkKernels &network, const CompileOptions &options) : network(network), options(options) {}

  llvm::Expected<std::optional<explore::Outcome>> estimate(const plan::NetworkPlan &plan, double limit) override;
  std::vector<int64_t> roomOf(const plan::NetworkPlan &plan) override;
  /// The whole program. After a failure that taught something there are other attempts, `attempts` in all.
  llvm::Expected<CompiledNetwork> compile(const plan::NetworkPlan &plan, bool onlyTimed, unsigned attempts = UINT_MAX);
  llvm::Expected<EmittedNetwork> emit(const plan::NetworkPlan &plan, bool isEstimate, unsigned attempts = UINT_MAX);

private:
  const NetworkKernels &network;
  const CompileOptions &options;
  accel::Rankings rankings;
  NoGoods noGoods;
  /// By plans without rules for residency: what the rules chose.
  std::map<std::string, std::vector<std::shared_ptr<const accel::Fusion>>> fusions;
  struct Fastest {
    plan::NetworkPlan plan;
    EmittedNetwork emitted;
    NoGoods noGoods;
  };
  std::optional<Fastest> fastest; ///< the last plan whose estimate was below its limit

  std::string firstKey; ///< of the first plan that was estimated, without rules

  bool isRule(const plan::NetworkPlan &plan);
  bool isKnown(const plan::NetworkPlan &plan, const accel::Fusion &fusion);
  llvm::Expected<std::optional<explore::Outcome>> estimateOnce(const plan::NetworkPlan &plan, double limit, NoGoods &own);
  llvm::Expected<CompiledNetwork> compileOnce(const plan::NetworkPlan &plan, bool onlyTimed, NoGoods &own);
  llvm::Expected<EmittedNetwork> emitOnce(const plan::NetworkPlan &plan, bool isEstimate, NoGoods &own);
};

/// schedule search: the fastest program that running plans has found.
llvm::Expected<CompiledNetwork> searchPlans(mlir::ModuleOp module, const NetworkKernels &network,
                                            const explore::Problem &problem, const CompileOptions &options);

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_SEARCHSPACE_H
