//===- SimulatorDevice.cpp - The accelerator, simulated -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Device.h"
#include "simulator/functional/FunctionalModel.h"
#include "simulator/systemc/SystemCModel.h"

#include <chrono>

using namespace tw;
using namespace tw::runtime;

const char *runtime::modelName(Model model) { return model == Model::SystemC ? "systemc" : "functional"; }

namespace {

class SimulatorDevice : public Device {
public:
  SimulatorDevice(isa::Program program, const timing::MachineParams &machine, const SimulatorOptions &options)
      : program(std::move(program)), machine(machine), options(options) {
    for (const isa::TensorInfo &info : this->program.inputs)
      inputSpecs.push_back(specOf(info));
    for (const isa::TensorInfo &info : this->program.outputs)
      outputSpecs.push_back(specOf(info));
  }

  const std::vector<TensorSpec> &inputs() const override { return inputSpecs; }
  const std::vector<TensorSpec> &outputs() const override { return outputSpecs; }
  StatusOr<Launch> launch(const std::vector<HostTensor> &inputs) override;

private:
  /// Runs and returns the raw outputs.
  StatusOr<std::vector<std::vector<uint8_t>>> runFunctional(const std::vector<std::vector<uint8_t>> &inputs, Launch &launch);
  StatusOr<std::vector<std::vector<uint8_t>>> runSystemC(const std::vector<std::vector<uint8_t>> &inputs, Launch &launch);

  isa::Program program;
  timing::MachineParams machine;
  SimulatorOptions options;
  std::vector<TensorSpec> inputSpecs, outputSpecs;
  /// Made by the first launch that needs them: both hold a whole DRAM.
  std::unique_ptr<core::MachineState> state;
  std::unique_ptr<functional::FunctionalModel> functionalModel;
};

/// What the user did wrong, or what the program did.
Error faultError(const core::Fault &fault) {
  if (fault.kind == core::FaultKind::BadInput)
    return userError(fault.message);
  return {ErrorKind::Fault, fault.str()};
}

class Stopwatch {
public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); }

private:
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

StatusOr<std::vector<std::vector<uint8_t>>> SimulatorDevice::runFunctional(const std::vector<std::vector<uint8_t>> &inputs,
                                                                           Launch &launch) {
  if (!functionalModel)
    functionalModel = std::make_unique<functional::FunctionalModel>(machine);
  functional::RunOptions run;
  run.checks = {options.checks, options.checks};
  if (options.maxCycles)
    run.maxInstructions = options.maxCycles;
  Stopwatch watch;
  core::RunResult result = functionalModel->run(program, inputs, run);
  launch.wallSeconds = watch.seconds();
  if (result.fault)
    return faultError(*result.fault);
  return std::move(result.outputs);
}

StatusOr<std::vector<std::vector<uint8_t>>> SimulatorDevice::runSystemC(const std::vector<std::vector<uint8_t>> &inputs,
                                                                        Launch &launch) {
  if (!state)
    state = std::make_unique<core::MachineState>(machine);
  if (std::optional<std::string> message = state->load(program))
    return userError(*message);
  if (std::optional<std::string> message = state->writeInputs(program, inputs))
    return userError(*message);
  systemc::SimOptions run;
  run.checks = options.checks;
  run.trace = options.trace;
  if (options.maxCycles)
    run.maxCycles = options.maxCycles;
  Stopwatch watch;
  stats::SimResult result = systemc::SystemCModel().run(program, *state, run);
  launch.wallSeconds = watch.seconds();
  if (result.fault)
    return faultError(*result.fault);
  launch.sim = std::move(result);
  return state->readOutputs(program);
}

StatusOr<Launch> SimulatorDevice::launch(const std::vector<HostTensor> &inputs) {
  std::vector<std::vector<uint8_t>> bytes;
  for (const HostTensor &tensor : inputs)
    bytes.push_back(tensor.bytes);
  Launch launch;
  StatusOr<std::vector<std::vector<uint8_t>>> raw =
      options.model == Model::SystemC ? runSystemC(bytes, launch) : runFunctional(bytes, launch);
  if (!raw)
    return raw.error();
  for (size_t i = 0; i < outputSpecs.size(); ++i)
    launch.outputs.push_back({outputSpecs[i].name, outputSpecs[i].type, outputSpecs[i].shape, std::move((*raw)[i])});
  return launch;
}

} // namespace

std::unique_ptr<Device> runtime::makeSimulatorDevice(isa::Program program, const timing::MachineParams &machine,
                                                     const SimulatorOptions &options) {
  return std::make_unique<SimulatorDevice>(std::move(program), machine, options);
}
