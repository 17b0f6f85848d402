//===- SimulatorDevice.cpp - The accelerator, simulated -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Device.h"
#include "simulator/cosim/Compare.h"
#include "simulator/cosim/RtlModel.h"
#include "simulator/functional/FunctionalModel.h"
#include "simulator/systemc/SystemCModel.h"

#include <chrono>
#include <cstring>

using namespace tw;
using namespace tw::runtime;

const char *runtime::modelName(Model model) {
  return model == Model::SystemC ? "systemc" : model == Model::Rtl ? "rtl" : "functional";
}

namespace {

class SimulatorDevice : public Device {
public:
  SimulatorDevice(isa::Program program, const timing::MachineParams &machine, const SimulatorOptions &options)
      : program(std::move(program)), machine(machine), options(options) {
    for (const isa::TensorInfo &info : this->program.inputs)
      inputSpecs.push_back(specOf(info));
    for (const isa::TensorInfo &info : this->program.outputs)
      outputSpecs.push_back(specOf(info));
    // Where runTimed() loads them, and nobody else asks for them.
    if (!options.agreements && !options.checks && options.model != Model::Functional)
      keepWords();
  }

  const std::vector<TensorSpec> &inputs() const override { return inputSpecs; }
  const std::vector<TensorSpec> &outputs() const override { return outputSpecs; }
  StatusOr<Launch> launch(const std::vector<HostTensor> &inputs) override;

private:
  /// Runs and returns the raw outputs.
  StatusOr<std::vector<std::vector<uint8_t>>> runFunctional(const std::vector<std::vector<uint8_t>> &inputs, Launch &launch);
  /// SystemC model or RTL.
  StatusOr<std::vector<std::vector<uint8_t>>> runTimed(const std::vector<std::vector<uint8_t>> &inputs, Launch &launch);
  StatusOr<std::vector<std::vector<uint8_t>>> runBoth(const std::vector<std::vector<uint8_t>> &inputs, Launch &launch);
  StatusOr<stats::SimResult> runRtl(Launch &launch);
  /// Takes large constants of equal words out of the program: DRAM holds them, a second copy is not needed.
  void keepWords();

  isa::Program program;
  /// Constants of which every 64 bytes are `word`.
  struct EqualWords {
    uint64_t address, bytes;
    std::vector<uint8_t> word;
  };
  std::vector<EqualWords> equalWords;
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

void SimulatorDevice::keepWords() {
  constexpr size_t kWord = 64, kLarge = size_t(1) << 20;
  auto isOfEqualWords = [](const isa::Segment &segment) {
    const std::vector<uint8_t> &bytes = segment.bytes;
    return bytes.size() >= kLarge && bytes.size() % kWord == 0 &&
           std::memcmp(bytes.data(), bytes.data() + kWord, bytes.size() - kWord) == 0;
  };
  for (isa::Segment &segment : program.constants)
    if (isOfEqualWords(segment)) {
      equalWords.push_back({segment.address, segment.bytes.size(), {segment.bytes.begin(), segment.bytes.begin() + kWord}});
      segment.bytes = std::vector<uint8_t>();
    }
}

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

StatusOr<stats::SimResult> SimulatorDevice::runRtl(Launch &launch) {
  const Result<const cosim::RtlTable *> built = cosim::loadRtl(machine, !options.dumpFile.empty(), options.progress);
  if (!built)
    return userError(built.message());
  cosim::RtlOptions run;
  run.dumpFile = options.dumpFile;
  run.dumpFrom = options.dumpFrom;
  run.dumpTo = options.dumpTo;
  if (options.maxCycles)
    run.maxCycles = options.maxCycles;
  Stopwatch watch;
  cosim::RtlModel model;
  stats::SimResult result = model.run(program, *state, run);
  launch.wallSeconds = watch.seconds();
  if (!model.contradiction().empty())
    return internalError("the RTL contradicts itself: " + model.contradiction());
  return result;
}

StatusOr<std::vector<std::vector<uint8_t>>> SimulatorDevice::runBoth(const std::vector<std::vector<uint8_t>> &inputs,
                                                                     Launch &launch) {
  cosim::CompareOptions run;
  if (options.maxCycles)
    run.maxCycles = options.maxCycles;
  run.progress = options.progress;
  cosim::Agreement agreement = cosim::compare(program, machine, inputs, run);
  launch.wallSeconds = agreement.systemc.seconds + agreement.rtl.seconds;
  launch.sim = agreement.systemc.result;
  std::vector<std::vector<uint8_t>> outputs = agreement.outputs;
  options.agreements->push_back(std::move(agreement));
  const cosim::Agreement &last = options.agreements->back();
  if (!last.difference.empty())
    return internalError("the models differ: " + last.difference);
  if (last.rtl.result.fault)
    return faultError(*last.rtl.result.fault);
  return outputs;
}

StatusOr<std::vector<std::vector<uint8_t>>> SimulatorDevice::runTimed(const std::vector<std::vector<uint8_t>> &inputs,
                                                                      Launch &launch) {
  if (!state)
    state = std::make_unique<core::MachineState>(machine);
  if (std::optional<std::string> message = state->load(program))
    return userError(*message);
  for (const EqualWords &words : equalWords)
    for (uint64_t at = 0; at < words.bytes; at += words.word.size())
      std::memcpy(state->dram(words.address + words.bytes) + words.address + at, words.word.data(), words.word.size());
  if (std::optional<std::string> message = state->writeInputs(program, inputs))
    return userError(*message);
  stats::SimResult result;
  if (options.model == Model::Rtl) {
    StatusOr<stats::SimResult> rtl = runRtl(launch);
    if (!rtl)
      return rtl.error();
    result = std::move(*rtl);
  } else {
    systemc::SimOptions run;
    run.checks = options.checks;
    run.trace = options.trace;
    if (options.maxCycles)
      run.maxCycles = options.maxCycles;
    Stopwatch watch;
    result = systemc::SystemCModel().run(program, *state, run);
    launch.wallSeconds = watch.seconds();
  }
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
  StatusOr<std::vector<std::vector<uint8_t>>> raw = options.agreements                   ? runBoth(bytes, launch)
                                                    : options.model == Model::Functional ? runFunctional(bytes, launch)
                                                                                         : runTimed(bytes, launch);
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
