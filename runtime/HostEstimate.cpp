//===- HostEstimate.cpp - What host and link are estimated to take --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/HostEstimate.h"

#include <onnx/onnx_pb.h>

#include <map>

using namespace tw;
using namespace tw::runtime;

uint64_t runtime::hostCycles(const timing::HostParams &host, uint64_t bytes, uint64_t operations) {
  return std::max(host.memoryBytes.cycles(bytes), host.operations.cycles(operations));
}

uint64_t runtime::linkCycles(const timing::HostParams &host, uint64_t bytes) {
  return host.linkLatencyCycles + host.linkBytes.cycles(bytes);
}

namespace {

uint64_t bytesOf(const TensorSpec &spec) { return uint64_t(elementCount(spec.shape)) * frontend::elementBytes(spec.stored()); }

class Estimator {
public:
  explicit Estimator(const Network &network) : network(network), places(network.values.size()) {
    for (unsigned value = 0; value < network.values.size(); ++value)
      places[value].source = value;
    for (unsigned value : network.inputs)
      places[value].onHost = places[value].onAccelerator = true;
  }

  std::vector<StepEstimate> run() {
    std::vector<StepEstimate> steps;
    for (const Step &step : network.steps) {
      steps.emplace_back();
      const bool isReshape = !step.program && step.kernel.empty();
      if (isReshape) {
        places[step.outputs[0]].source = places[step.inputs[0]].source;
        continue;
      }
      if (step.openCl) { // no accelerator: what it makes is the host's to read
        for (unsigned value : step.outputs)
          places[value].onHost = true;
        continue;
      }
      const bool onHost = !step.program;
      for (unsigned value : step.inputs) {
        bring(value, onHost, onHost && !step.nodes.empty() ? step.nodes.front() : step.kernel, steps.back());
        if (onHost)
          steps.back().bytes += bytesOf(network.values[value]);
      }
      for (unsigned value : step.outputs) {
        (onHost ? places[value].onHost : places[value].onAccelerator) = true;
        places[value].maker = onHost && !step.nodes.empty() ? step.nodes.back() : step.kernel;
        if (onHost)
          steps.back().bytes += bytesOf(network.values[value]);
      }
      if (onHost) {
        steps.back().operations = step.operations;
        steps.back().cycles = hostCycles(network.machine.host, steps.back().bytes, step.operations);
      }
    }
    steps.emplace_back();
    if (network.remainder)
      bringRemainder(steps.back());
    return steps;
  }

private:
  struct ValuePlace {
    unsigned source = 0; ///< what it is a reshape of
    bool onHost = false, onAccelerator = false;
    std::string maker; ///< node on the host
  };

  void bring(unsigned value, bool toHost, const std::string &reader, StepEstimate &step) {
    ValuePlace &place = places[places[value].source];
    bool &isThere = toHost ? place.onHost : place.onAccelerator;
    if (isThere)
      return;
    isThere = true;
    const uint64_t bytes = bytesOf(network.values[value]);
    step.crossings.push_back({value, toHost, bytes, linkCycles(network.machine.host, bytes), toHost ? reader : place.maker});
  }

  void bringRemainder(StepEstimate &step) {
    const frontend::Remainder &rest = network.remainder;
    std::map<std::string, std::string> readers; // the first of each name
    const onnx::GraphProto &graph = rest.model->graph();
    for (const onnx::ValueInfoProto &input : graph.input())
      readers[input.name()]; // a graph inside a node may be all that reads it
    const bool isNamed = size_t(graph.node_size()) == rest.nodes.size();
    for (int i = graph.node_size() - 1; i >= 0; --i)
      for (const std::string &name : graph.node(i).input())
        if (auto found = readers.find(name); found != readers.end() && isNamed)
          found->second = rest.nodes[size_t(i)].name;
    for (size_t i = 0; i < rest.results.size() && i < network.outputs.size(); ++i)
      if (auto found = readers.find(rest.results[i]); found != readers.end()) {
        const bool isUnnamed = found->second.empty() && !rest.nodes.empty();
        bring(network.outputs[i], /*toHost=*/true, isUnnamed ? rest.nodes.front().name : found->second, step);
      }
  }

  const Network &network;
  std::vector<ValuePlace> places;
};

} // namespace

std::vector<StepEstimate> runtime::estimateSteps(const Network &network) { return Estimator(network).run(); }

void runtime::addLinkBytes(std::vector<Offload> &offload, const std::vector<StepEstimate> &steps) {
  std::map<std::string, Offload *> byName;
  for (Offload &entry : offload) {
    entry.hostLinkBytes = 0;
    byName.emplace(entry.node, &entry);
  }
  for (const StepEstimate &step : steps)
    for (const Crossing &crossing : step.crossings)
      if (auto found = byName.find(crossing.node); found != byName.end())
        found->second->hostLinkBytes += crossing.bytes;
}
