//===- SystemCModel.cpp - The cycle-accurate model ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/systemc/SystemCModel.h"

#include "simulator/systemc/Machine.h"

#include <cstdlib>
#include <mutex>

namespace tw::systemc {
namespace {

/// SystemC has one kernel for the process: simulations of several threads take turns.
std::mutex kernelMutex;
bool constructionReversed = false;
Machine *machine = nullptr;

/// Filled by static objects of other files.
std::vector<std::function<void()>> &otherMakers() {
  static std::vector<std::function<void()>> makers;
  return makers;
}

} // namespace

void SystemCModel::reverseConstruction() {
  assert(!machine && "the modules exist already");
  constructionReversed = true;
}

void SystemCModel::alsoMake(std::function<void()> make) {
  assert(!machine && "the modules exist already");
  otherMakers().push_back(std::move(make));
}

void SystemCModel::elaborate() {
  if (machine)
    return;
  setenv("SYSTEMC_DISABLE_COPYRIGHT_MESSAGE", "1", 0);
  sc_core::sc_report_handler::set_actions("/OSCI/SystemC", sc_core::SC_DO_NOTHING);
  // SystemC's kernel outlives every static object, so its modules are never freed.
  machine = new Machine(constructionReversed);
  for (const std::function<void()> &make : otherMakers())
    make();
}

stats::SimResult SystemCModel::run(const isa::Program &program, core::MachineState &state, const SimOptions &options) {
  const std::lock_guard<std::mutex> lock(kernelMutex);
  elaborate();
  const timing::MachineParams &params = state.machine();
  assert(params.queueDepth && params.prefetchWords && params.outstandingBursts && params.burstsPerCycle &&
         params.dram.writeBufferBursts && params.loadEngines <= stats::kMaxLoadEngines &&
         params.storeEngines <= stats::kMaxStoreEngines && "the configuration loader has let a bad machine through");
  RunContext context;
  context.program = &program;
  context.machine = &params;
  context.state = &state;
  context.options = options;
  machine->run(context);
  return std::move(context.result);
}

stats::SimResult SystemCModel::run(const isa::Program &program, const timing::MachineParams &params,
                                   const std::vector<std::vector<uint8_t>> &inputs, std::vector<std::vector<uint8_t>> &outputs,
                                   const SimOptions &options) {
  outputs.clear();
  core::MachineState state(params);
  stats::SimResult result;
  result.fault = state.prepare(program, inputs);
  if (result.fault)
    return result;
  result = run(program, state, options);
  if (!result.fault)
    outputs = state.readOutputs(program);
  return result;
}

} // namespace tw::systemc

/// SystemC's library asks for this entry point; our programs have their own main().
int sc_main(int, char **) { return 0; }
