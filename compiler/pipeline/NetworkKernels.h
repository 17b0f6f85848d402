//===- NetworkKernels.h - A network as kernels and tensors -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What no plan changes: the kernels of @main, the tensors between them, their
// live ranges, and the lower bounds of both.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_NETWORKKERNELS_H
#define COMPILER_PIPELINE_NETWORKKERNELS_H

#include "compiler/codegen/accel/Fusion.h"
#include "compiler/cost/Traffic.h"
#include "compiler/explore/Problem.h"
#include "compiler/memory/Placement.h"
#include "compiler/pipeline/Compile.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace tw::pipeline {

class NetworkKernels {
public:
  /// A kernel of @main.
  struct Layer {
    std::string name;
    accel::Kernel kernel;                ///< its plan is what the model's function or a plan file asks for
    std::optional<accel::Kernel> packed; ///< with pixels packed, if that gains anything
    std::vector<size_t> tensors;         ///< per kernel.tensors; constants: 0
    Sources sources;
    unsigned step = 0; ///< as live ranges count
    bool isWindow() const { return kernel.anchor && kernel.anchor->kind == accel::Anchor::Window; }
    size_t result() const { return tensors[size_t(kernel.output.tensor)]; }
  };

  /// Errors: values without a place, kernels of other targets or that the machine cannot do, a network larger than DRAM.
  static llvm::Expected<NetworkKernels> build(mlir::ModuleOp module, const CompileOptions &options);

  std::vector<Layer> layers;
  /// Per tensor: its bytes, and the steps at which DRAM must hold it if no kernels run side by side.
  std::vector<memory::LiveRange> tensors;
  /// Per tensor: dense shape, outermost first; empty: it must lie in DRAM, as an input or a constant.
  std::vector<std::vector<int64_t>> shapes;
  /// Per tensor: it is a result of the network.
  std::vector<bool> isOutput;
  /// Per tensor: the planes in which its only reader takes it, if that is a convolution of an NCHW image; else 1.
  std::vector<int64_t> planes;
  /// Inputs and outputs of the network with the tensor of each; addresses are those of a placement.
  std::vector<std::pair<isa::TensorInfo, size_t>> inputs, outputs;
  std::vector<Sources> outputSources; ///< per output
  /// Constants of @main: the tensor of each, and what makes its bytes.
  std::vector<std::pair<size_t, std::function<std::vector<uint8_t>()>>> constants;
  /// ONNX nodes, and what computes each.
  std::vector<OffloadEntry> offload;

  /// Places of all tensors in DRAM.
  struct DramPlacement {
    std::vector<uint64_t> addresses; ///< per tensor
    uint64_t bytes = 0;
  };
  /// Kernels of a fusion group run side by side and use all their tensors at the same time.
  DramPlacement place(llvm::ArrayRef<accel::Group> groups) const;

  /// An error if the machine has less DRAM.
  static llvm::Error checkDram(uint64_t bytes, const timing::MachineParams &machine);

  /// Lower bounds of the layers and of the network, and the least that they move.
  void addBounds(const timing::MachineParams &machine, CompiledNetwork &network) const;

  mlir::MLIRContext *context() const { return mainFunction->getContext(); }

  /// The same for the exploration. The layers must outlive it.
  explore::Problem problem(const CompileOptions &options) const;

private:
  /// A kernel result that lies inside a larger tensor, the concatenation it is part of.
  struct Part {
    llvm::SmallVector<int64_t> shape; ///< of the whole
    int64_t offset = 0;               ///< elements
  };
  mlir::ModuleOp module;
  mutable mlir::func::FuncOp mainFunction;
  llvm::DenseMap<mlir::Value, size_t> tensorOf; ///< of values of @main
  llvm::DenseMap<mlir::Value, Part> parts;
  llvm::DenseMap<mlir::Operation *, unsigned> layerOf; ///< of calls
  llvm::DenseSet<mlir::Operation *> inPlace;           ///< concatenations whose producers write the result
  std::vector<cost::NetworkTensor> boundTensors;

  llvm::DenseMap<size_t, size_t> aliases; ///< inputs at whose place outputs lie: in boundTensors, what is written of each

  llvm::Error findTensors();
  llvm::Error joinAliases();
  llvm::Error keepInPlace(mlir::func::CallOp call, accel::Kernel &kernel) const;
  void joinConcats();
  std::vector<mlir::Value> readParts(mlir::func::CallOp call, unsigned step, accel::Kernel &kernel);
  void describeTensors();
  llvm::Error describe(bool isInput);
  llvm::Error addLayers(const CompileOptions &options);
  llvm::Error addLayer(mlir::func::CallOp call, unsigned step, const CompileOptions &options,
                       llvm::DenseMap<mlir::Operation *, accel::Kernel> &matched);
  void addConstant(mlir::arith::ConstantOp constant);
  Sources sourcesOf(mlir::ValueRange values) const;
  llvm::Error addInPlace(mlir::func::FuncOp function);
  void makePart(const Part &part, accel::Kernel &kernel) const;
  void findPlanes();
};

/// The layer's packed form, or an error if its plan asks for one that there is not.
llvm::Expected<std::optional<accel::Kernel>> packKernel(const accel::Kernel &kernel, const CompileOptions &options);

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_NETWORKKERNELS_H
