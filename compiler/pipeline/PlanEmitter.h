//===- PlanEmitter.h - A plan to the steps of a network ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emits every kernel of a network as a plan says, and puts the steps in order.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_PLANEMITTER_H
#define COMPILER_PIPELINE_PLANEMITTER_H

#include "compiler/pipeline/NetworkKernels.h"

namespace tw::pipeline {

/// What attempts have found impossible, and the next one leaves out.
struct NoGoods {
  std::vector<bool> alone;                           ///< per layer: its own tiles need the room that tensors took
  int64_t spare = 0;                                 ///< bytes of scratchpad 0 to leave free
  std::vector<std::pair<unsigned, unsigned>> groups; ///< fusion groups for which there is no room: first and last layer
  bool isNew = false;                                ///< another attempt may succeed
};

/// A network under a plan, as steps in order.
struct EmittedNetwork {
  accel::NetworkProgram program;
  std::shared_ptr<const accel::Fusion> fusion;
  NetworkKernels::DramPlacement placement;
  plan::NetworkPlan chosen; ///< complete
  double cycles = 0;        ///< by the cost model
};

class PlanEmitter {
public:
  /// `rankings` remembers what kernels of this network have found out, in this program or another.
  PlanEmitter(const NetworkKernels &network, const CompileOptions &options, accel::Rankings &rankings,
              const plan::NetworkPlan &plan, NoGoods &noGoods);

  /// What stays on chip under the plan. Errors: a result that the plan keeps there and that cannot be there.
  llvm::Expected<accel::Fusion> chooseOnChip();
  /// Kernel after kernel, then their steps side by side. There is no program if it is estimated to take `limit` cycles or more. With
  /// `isEstimate` the first plan of the list scheduler will do. Errors: no tile fits, the program is too long, a plan that cannot be had.
  llvm::Expected<EmittedNetwork> emit(accel::Fusion fusion, double limit, bool isEstimate);

private:
  using Layer = NetworkKernels::Layer;
  const NetworkKernels &network;
  const CompileOptions &options;
  const timing::MachineParams &machine;
  const plan::NetworkPlan plan;
  const plan::NetworkKnobs &knobs = plan.network;
  NoGoods &noGoods;
  std::vector<accel::Kernel> kernels; ///< per layer, in the form that the plan wants, with its knobs
  std::vector<bool> copiesAside;      ///< per layer: no kernel waits for its copies
  std::vector<bool> isPacked;
  llvm::Error invalid = llvm::Error::success(); ///< a layer's plan asks for a form that there is not
  std::shared_ptr<const accel::Fusion> fusion;
  NetworkKernels::DramPlacement placement;
  accel::NetworkProgram program;
  std::vector<schedule::TileProgram> drained; ///< Across::None: each layer on its own
  std::vector<bool> isFilled;                 ///< per tensor: its padding on chip
  bool isArrayBusy = false;                   ///< with a kernel before
  size_t groupBegin = 0;                      ///< steps before those of the fusion group
  size_t streamBegin = 0, streamMiddle = 0;   ///< steps before those of two streaming kernels, and before the second one's

  /// Where a kernel's buffers lie.
  struct Place {
    bool isBehind = true; ///< the buffers of the layer before; with banks: in the other memories
    std::optional<std::array<int64_t, 2>> banks;
  };
  /// A kernel while it is emitted.
  struct Turn {
    uint32_t layer;
    const accel::Kernel *kernel;
    accel::Kernel own; ///< with knobs that follow from the neighbours
    const accel::Group *group;
    bool takes, makes; ///< channel streaming
    Place place;
    accel::OnChip onChip;
    int64_t keptFrom = 0; ///< of a tensor whose second part stays on chip
    int64_t lowRoom = 0;  ///< without a gap between resident tensors
    bool canSpread = false;
  };

  void planKernel(size_t layer);
  accel::NetworkUses describeUses() const;
  llvm::Error addWanted(accel::NetworkUses &uses) const;
  llvm::Error emitLayer(uint32_t layer);
  llvm::Error checkTurn(const Turn &turn) const;
  llvm::Error findOnChip(Turn &turn);
  void findCopiesAside();
  void findRoom(Turn &turn);
  llvm::Error emitTurn(Turn &turn);
  llvm::Error learn(llvm::Error error, const Turn &turn, const std::string &details);
  void record(const Turn &turn);
  llvm::Error emitParts(const Turn &turn, bool spreads);
  llvm::Error orderSteps(double limit, bool isEstimate, double &cycles);
  Place placeOf(size_t layer) const;
  std::string whyNotStreamed(size_t taker) const;
  std::vector<accel::TileSplits> splitsOf(size_t layer) const;

  bool overlaps() const { return accel::overlapsKernels(options.schedule); }
  bool crossesKernels() const { return overlaps() && options.across != Across::None; }
  bool streams(size_t layer) const { return layer < kernels.size() && kernels[layer].plan.channelStreaming.value_or(false); }
  /// Whether the layer runs between the steps of the next one (plan::Priority::Interleaved).
  bool isInterleaved(size_t layer) const {
    return knobs.priority == plan::Priority::Interleaved && layer + 1 < kernels.size() && !kernels[layer].anchor &&
           kernels[layer].copies.empty() && !fusion->groupOf(unsigned(layer));
  }
  std::vector<uint64_t> addressesOf(size_t layer) const;
};

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_PLANEMITTER_H
