//===- Target.h - What kernels can be compiled for --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A target says which ops it takes, and compiles kernels of such ops. It is
// registered under its name, which stands on its kernels (`tilewright.target`).
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_TARGET_H
#define COMPILER_PIPELINE_TARGET_H

#include "compiler/codegen/gpu/Program.h"
#include "compiler/codegen/opencl/Program.h"
#include "compiler/frontend/HostTensor.h"
#include "compiler/graph/transforms/KernelTarget.h"
#include "compiler/pipeline/Compile.h"

#include <memory>
#include <variant>

namespace tw::operators {
class Evaluator;
} // namespace tw::operators

namespace tw::pipeline {

/// Compiled kernels that this process calls.
class KernelLibrary {
public:
  virtual ~KernelLibrary() = default;
  /// Runs a kernel by the name of its function. `inputs` match its arguments in number, element size and shape. `outputs` come with the
  /// types and shapes of its results, without bytes.
  virtual llvm::Error run(llvm::StringRef kernel, llvm::ArrayRef<frontend::HostTensor> inputs,
                          std::vector<frontend::HostTensor> &outputs) = 0;
  /// The evaluator of a kernel that is a node with graphs in it, such as a Scan: it may be offered who runs them faster. Null for others.
  virtual operators::Evaluator *evaluatorOf(llvm::StringRef) { return nullptr; }
};

/// A program, which a model of the accelerator runs, kernels that this process calls, or what a GPU or a device of OpenCL runs.
using Artefact = std::variant<CompiledNetwork, std::shared_ptr<KernelLibrary>, gpu::Program, opencl::Program>;

class Target {
public:
  virtual ~Target() = default;
  /// On kernels and on the command line: letters, digits and `_`.
  virtual llvm::StringRef name() const = 0;
  /// In reports.
  virtual llvm::StringRef title() const { return name(); }
  /// What runs its code, for people: "this CPU".
  virtual llvm::StringRef device() const = 0;
  /// The ops that the target takes. A target of a machine takes them for that of `options`.
  virtual std::shared_ptr<const graph::KernelTarget> rules(const CompileOptions &options) const = 0;
  /// Why the target cannot run `kernel`, a function in linalg whose ops it takes one by one: its form, or its size; empty if it can.
  virtual std::string reasonAgainst(mlir::func::FuncOp kernel, const CompileOptions &options) const { return ""; }
  /// Whether tensors between its kernels are bfloat16 or float16 where the network has that type.
  virtual bool keepsNarrowFloats() const { return false; }
  /// Whether a run of its kernels becomes one program, whose @main calls them. Else each kernel is called by itself.
  virtual bool compilesNetworks() const { return false; }
  /// Compiles the kernels of a module in linalg: all are for this target. With compilesNetworks() the module has a @main. Errors name
  /// the kernel, what was found and what is allowed.
  virtual llvm::Expected<Artefact> compile(mlir::ModuleOp kernels, const CompileOptions &options) const = 0;
};

/// All targets: "accel", "cpu", "gpu", "opencl", and what was added, in this order.
std::vector<const Target *> targets();
/// Null if there is none.
const Target *targetNamed(llvm::StringRef name);
/// The names of all targets in quotes, for messages: "accel", "cpu", "gpu", "opencl".
std::string targetNames();
/// Adds a target for the rest of the process, before other threads use targets. False if one has its name.
bool registerTarget(std::unique_ptr<Target> target);

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_TARGET_H
