//===- Target.cpp - What kernels can be compiled for ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/pipeline/Target.h"
#include "compiler/codegen/accel/Limits.h"
#include "compiler/codegen/cpu/CpuTarget.h"
#include "compiler/codegen/gpu/GpuCompiler.h"
#include "compiler/codegen/opencl/OpenClCompiler.h"
#include "compiler/pipeline/HostKernels.h"
#include "isa/timing/Dram.h"
#include "isa/timing/InstructionTiming.h"

using namespace tw;
using namespace tw::pipeline;

namespace {

class AccelTarget : public Target {
public:
  llvm::StringRef name() const override { return graph::kAccelTarget; }
  llvm::StringRef title() const override { return "accelerator"; }
  llvm::StringRef device() const override { return "the simulated accelerator"; }
  bool compilesNetworks() const override { return true; }

  std::shared_ptr<const graph::KernelTarget> rules(const CompileOptions &options) const override {
    const timing::MachineParams &machine = *options.machine;
    const timing::TimingConstants &t = machine.timing;
    const timing::Ratio peak = timing::dramPeakBytesPerCycle(machine);
    graph::ArrayMachine array;
    array.type = machine.arrayType == timing::ArrayType::Int8   ? "int8"
                 : machine.arrayType == timing::ArrayType::Bf16 ? "bf16"
                                                                : "fp32";
    array.rows = machine.rows;
    array.columns = machine.cols;
    array.preloadCycles = int64_t(llvm::divideCeil(machine.rows, machine.preloadRowsPerCycle) + t.preload_drain_cycles +
                                  t.shadow_ready_cycles + t.shadow_free_cycles);
    array.loadEngines = machine.loadEngines;
    array.sums = int64_t(machine.accumulatorRows()) * machine.cols;
    array.scratchpad = int64_t(machine.scratchpads[0].capacityBytes);
    array.dramBytes =
        std::min(double(peak.numerator) / double(peak.denominator), machine.loadEngines * timing::loadBytesPerCycle(machine));
    array.dramLatency = timing::dramTypicalLatencyCycles(machine);
    const timing::HostParams &host = machine.host;
    array.linkBytes = host.linkBytes.perCycle();
    array.linkLatency = host.linkLatencyCycles;
    array.hostBytes = host.memoryBytes.perCycle();
    array.hostOperations = host.operations.perCycle();
    return graph::makeArrayTarget(std::move(array));
  }

  std::string reasonAgainst(mlir::func::FuncOp function, const CompileOptions &options) const override {
    if (accel::whyNoContraction(*options.machine)) // a mistake in the machine, which its user must hear of
      return "";
    std::string why;
    mlir::FailureOr<accel::Kernel> kernel = mlir::failure();
    {
      mlir::ScopedDiagnosticHandler keep(function.getContext(), [&](mlir::Diagnostic &diagnostic) { why = diagnostic.str(); });
      kernel = accel::matchKernel(function);
    }
    if (mlir::failed(kernel))
      return why;
    why = llvm::toString(accel::checkKernel(*kernel, *options.machine, options.schedule));
    llvm::StringRef text(why);
    text.consume_front(kernel->name + ": ");
    return text.str();
  }

  llvm::Expected<Artefact> compile(mlir::ModuleOp kernels, const CompileOptions &options) const override {
    llvm::Expected<CompiledNetwork> network = compileForAccelerator(kernels, options);
    if (!network)
      return network.takeError();
    return Artefact(std::move(*network));
  }
};

class CpuLibrary : public KernelLibrary {
public:
  CpuLibrary(std::unique_ptr<cpu::CpuExecutable> executable, HostKernels host)
      : executable(std::move(executable)), host(std::move(host)) {}
  llvm::Error run(llvm::StringRef kernel, llvm::ArrayRef<frontend::HostTensor> inputs,
                  std::vector<frontend::HostTensor> &outputs) override {
    if (host.has(kernel))
      return host.run(kernel, inputs, outputs);
    llvm::Error error = executable->runKernel(kernel, inputs, outputs);
    if (error.isA<cpu::ValueError>())
      return error;
    return error ? llvm::createStringError("internal: kernel '%s' on the CPU: %s", kernel.str().c_str(),
                                           llvm::toString(std::move(error)).c_str())
                 : llvm::Error::success();
  }
  operators::Evaluator *evaluatorOf(llvm::StringRef kernel) override { return host.evaluatorOf(kernel); }

private:
  std::unique_ptr<cpu::CpuExecutable> executable; ///< of the kernels in linalg
  HostKernels host;                               ///< of the others
};

class CpuTarget : public Target {
public:
  llvm::StringRef name() const override { return graph::kCpuTarget; }
  llvm::StringRef device() const override { return "this CPU"; }
  std::shared_ptr<const graph::KernelTarget> rules(const CompileOptions &) const override { return graph::makeCpuTarget(); }
  llvm::Expected<Artefact> compile(mlir::ModuleOp kernels, const CompileOptions &options) const override {
    cpu::CpuOptions cpuOptions = options.cpu;
    cpuOptions.math = options.math;
    mlir::OwningOpRef<mlir::ModuleOp> compiled = kernels.clone();
    llvm::Expected<HostKernels> host = HostKernels::takeFrom(*compiled);
    if (!host)
      return host.takeError();
    auto executable = cpu::compileForCpu(*compiled, cpuOptions);
    if (!executable)
      return executable.takeError();
    return Artefact(std::make_shared<CpuLibrary>(std::move(*executable), std::move(*host)));
  }
};

class GpuTarget : public Target {
public:
  llvm::StringRef name() const override { return graph::kGpuTarget; }
  llvm::StringRef device() const override { return "the GPU"; }
  bool keepsNarrowFloats() const override { return true; }
  bool compilesNetworks() const override { return true; }
  std::shared_ptr<const graph::KernelTarget> rules(const CompileOptions &) const override { return graph::makeGpuTarget(); }
  llvm::Expected<Artefact> compile(mlir::ModuleOp kernels, const CompileOptions &options) const override {
    gpu::GpuOptions gpuOptions;
    gpuOptions.math = options.math;
    gpuOptions.architecture = options.gpuArchitecture;
    gpuOptions.keepsLlvm = options.keepsGpuLlvm;
    llvm::Expected<gpu::Program> program = gpu::compileForGpu(kernels, gpuOptions);
    if (!program)
      return program.takeError();
    return Artefact(std::move(*program));
  }
};

class OpenClTarget : public Target {
public:
  llvm::StringRef name() const override { return graph::kOpenClTarget; }
  llvm::StringRef device() const override { return "the OpenCL device"; }
  bool keepsNarrowFloats() const override { return true; }
  bool compilesNetworks() const override { return true; }
  std::shared_ptr<const graph::KernelTarget> rules(const CompileOptions &) const override { return graph::makeOpenClTarget(); }
  llvm::Expected<Artefact> compile(mlir::ModuleOp kernels, const CompileOptions &options) const override {
    llvm::Expected<opencl::Program> program = opencl::compileForOpenCl(kernels, options.openClDevice);
    if (!program)
      return program.takeError();
    return Artefact(std::move(*program));
  }
};

std::vector<std::unique_ptr<Target>> &registry() {
  static std::vector<std::unique_ptr<Target>> targets = [] {
    std::vector<std::unique_ptr<Target>> ours;
    ours.push_back(std::make_unique<AccelTarget>());
    ours.push_back(std::make_unique<CpuTarget>());
    ours.push_back(std::make_unique<GpuTarget>());
    ours.push_back(std::make_unique<OpenClTarget>());
    return ours;
  }();
  return targets;
}

} // namespace

std::vector<const Target *> pipeline::targets() {
  std::vector<const Target *> all;
  for (const std::unique_ptr<Target> &target : registry())
    all.push_back(target.get());
  return all;
}

const Target *pipeline::targetNamed(llvm::StringRef name) {
  for (const std::unique_ptr<Target> &target : registry())
    if (target->name() == name)
      return target.get();
  return nullptr;
}

std::string pipeline::targetNames() {
  std::string names;
  for (const std::unique_ptr<Target> &target : registry())
    names += (names.empty() ? "\"" : ", \"") + target->name().str() + "\"";
  return names;
}

bool pipeline::registerTarget(std::unique_ptr<Target> target) {
  if (targetNamed(target->name()))
    return false;
  registry().push_back(std::move(target));
  return true;
}
