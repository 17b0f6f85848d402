//===- Device.h - What a compiled network runs on ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One seam for every backend. A device holds one compiled network; buffers are
// host tensors, and a launch copies inputs in, runs, and copies outputs back.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_H
#define RUNTIME_DEVICE_H

#include "isa/Program.h"
#include "isa/timing/MachineParams.h"
#include "runtime/Status.h"
#include "runtime/Tensors.h"
#include "simulator/stats/SimResult.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tw::cpu {
class CpuExecutable;
}
namespace tw::cosim {
struct Agreement;
}

namespace tw::runtime {

struct Network;

/// Which model of the accelerator runs.
enum class Model : uint8_t {
  SystemC,    ///< values and cycles
  Functional, ///< values only
  Rtl         ///< values and cycles, of the SystemVerilog machine
};
const char *modelName(Model model);

/// What one launch came to.
struct Launch {
  std::vector<HostTensor> outputs;
  /// Cycles and stalls; only from a model that counts them.
  std::optional<stats::SimResult> sim;
  /// Host time of the launch itself, without copies of inputs and outputs.
  double wallSeconds = 0;
  /// Processor time of the launch, of all threads; 0 where nobody measured it.
  double cpuSeconds = 0;
};

/// Time of one kernel of a launch.
struct KernelTime {
  std::string kernel;
  std::vector<std::string> nodes; ///< of the model; may be empty
  double seconds = 0;
};

class Device {
public:
  virtual ~Device() = default;
  /// Inputs and outputs of the network it holds.
  virtual const std::vector<TensorSpec> &inputs() const = 0;
  virtual const std::vector<TensorSpec> &outputs() const = 0;
  /// Runs once. `inputs` fit their specs (fitTo()); a simulator takes and gives what it holds (toStored()). A fault of the simulated
  /// program is an error of kind Fault.
  virtual StatusOr<Launch> launch(const std::vector<HostTensor> &inputs) = 0;
  /// The least wall time of each kernel over `runs` launches, in the order of execution; empty where the device does not tell.
  virtual StatusOr<std::vector<KernelTime>> measureKernels(const std::vector<HostTensor> &, unsigned) {
    return std::vector<KernelTime>();
  }
};

struct SimulatorOptions {
  Model model = Model::SystemC;
  /// Look for reads of unwritten words and for accesses that nothing orders.
  bool checks = false;
  /// Keep what a timeline needs (SystemC).
  bool trace = false;
  /// With `trace`: RunReport::timeline holds a program that is alone, too, as it is a part of a larger run.
  bool isPart = false;
  /// A run that takes more cycles (functional: instructions) is a fault; 0 sets no limit.
  uint64_t maxCycles = 0;
  /// Waves of the RTL's cycles [dumpFrom, dumpTo) go to this FST file; empty: none.
  std::string dumpFile;
  uint64_t dumpFrom = 0, dumpTo = ~0ull;
  /// If set, every launch runs both the RTL and the SystemC model and adds what came of it here, whatever `model` says.
  /// A difference is an internal error.
  std::vector<cosim::Agreement> *agreements = nullptr;
  /// Whose joules reports count: a name or a file of hwconfigs::loadTechnology(); empty: the machine's.
  std::string technology;
  /// Told what takes long.
  std::function<void(const std::string &)> progress;
};

/// An accelerator. Preconditions: the program's architectural digest is the machine's, and isa::verify() passes.
std::unique_ptr<Device> makeSimulatorDevice(isa::Program program, const timing::MachineParams &machine,
                                            const SimulatorOptions &options);

/// A network all steps of which this process or a device of OpenCL computes. Of the latter a launch's wall time is without copies.
std::unique_ptr<Device> makeStepsDevice(Network network);
/// The processor this process runs on. `inputs`, `outputs`: those of the executable's @main; `nodes`: of each kernel, by its name.
std::unique_ptr<Device> makeCpuDevice(std::unique_ptr<cpu::CpuExecutable> executable, std::vector<TensorSpec> inputs,
                                      std::vector<TensorSpec> outputs,
                                      std::map<std::string, std::vector<std::string>> nodes = {});

} // namespace tw::runtime

#endif // RUNTIME_DEVICE_H
