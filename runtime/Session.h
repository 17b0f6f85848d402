//===- Session.h - Compile once, run many inputs ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_SESSION_H
#define RUNTIME_SESSION_H

#include "compiler/operators/Evaluator.h"
#include "runtime/HostEstimate.h"
#include "runtime/Network.h"
#include "runtime/Report.h"
#include "runtime/Status.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tw::runtime {

struct SessionOptions {
  NetworkOptions network;
  SimulatorOptions simulator;
};

/// A network on its devices.
class Session {
public:
  /// Compiles `model` (see loadNetwork()).
  static StatusOr<std::unique_ptr<Session>> create(const std::string &model, const SessionOptions &options);
  /// Runs a network that was loaded already.
  Session(Network network, const SimulatorOptions &options);

  const Network &network() const { return loaded; }
  const std::vector<TensorSpec> &inputs() const { return inputSpecs; }
  /// A dim is -1 where only a run knows it.
  const std::vector<TensorSpec> &outputs() const { return outputSpecs; }
  /// One random tensor per input; equal seeds give equal tensors.
  std::vector<HostTensor> randomInputs(uint64_t seed) const;

  /// Runs once, with one tensor per input in their order; shapes and types are checked. Nothing of earlier runs is seen.
  StatusOr<RunReport> run(const std::vector<HostTensor> &inputs);
  /// The same with sequences and optionals where the model has them.
  StatusOr<RunReport> runValues(const std::vector<operators::Value> &inputs);

private:
  /// Runs the steps on the arguments of @main; its results go to `values`.
  Status runSteps(std::vector<HostTensor> &values, RunReport &report);
  Status runRemainder(const std::vector<operators::Value> &inputs, std::vector<HostTensor> results, RunReport &report);
  RunReport emptyReport() const;
  /// A kernel that is a node with graphs in it: of those that contract, compiled parts run. `partsReport` gets what these come to.
  StatusOr<Launch> runWithGraphs(const Step &step, operators::Evaluator &graphs, const std::vector<HostTensor> &inputs,
                                 RunReport &report, RunReport &partsReport);
  /// Has `evaluated` run on the host with compiled parts: `report` is told what the host computes, `partsReport` what the parts come to. Until
  /// observe() and offerTo() are called again.
  void attach(operators::Evaluator &evaluated, RunReport &report, RunReport &partsReport);
  /// A graph with known inputs as a network of its own, compiled once for each set of shapes. Nothing if it cannot be compiled.
  std::optional<std::vector<operators::Value>> runPart(const onnx::GraphProto &graph,
                                                       const std::map<std::string, int64_t> &opsets,
                                                       const std::vector<std::pair<std::string, operators::Value>> &inputs,
                                                       RunReport &report);
  /// Adds what crosses the link before a step.
  void addCrossings(const StepEstimate &estimate, RunReport &report) const;
  void addHostTime(const std::string &name, uint64_t bytes, uint64_t cycles, RunReport &report) const;
  /// Fills report.energy. Errors: the technology that was asked for cannot be read. Without the default one there is no energy.
  Status addEnergy(RunReport &report);
  StatusOr<Launch> runFallback(const Step &step, const std::vector<HostTensor> &inputs);

  Network loaded;
  SimulatorOptions options;
  std::vector<TensorSpec> inputSpecs, outputSpecs;
  /// One per step; null for steps on the CPU.
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<operators::Evaluator> evaluator; ///< of the remainder
  /// By graph, shapes of its inputs and values that decide shapes; null: it cannot be compiled.
  std::map<std::string, std::unique_ptr<Session>> parts;
  std::vector<StepEstimate> estimates; ///< of the steps, and of what the remainder reads
  /// Of all programs together; made by the first run that needs them.
  std::optional<energy::EnergyModel> energyModel;
  std::optional<energy::EventTable> events;
};

} // namespace tw::runtime

#endif // RUNTIME_SESSION_H
