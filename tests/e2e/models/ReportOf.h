//===- ReportOf.h - The report of a program that a test has run --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_E2E_MODELS_REPORTOF_H
#define TESTS_E2E_MODELS_REPORTOF_H

#include "compiler/pipeline/Compile.h"
#include "runtime/Report.h"
#include "runtime/ReportRules.h"

namespace tw::e2e {

/// What `tilewright run` reports of a program that `result` is a run of.
inline runtime::RunReport reportOf(const pipeline::CompiledNetwork &network, const timing::MachineParams &machine,
                                   const stats::SimResult &result) {
  runtime::RunReport report;
  report.programs = 1;
  report.machine = machine;
  report.sim = result;
  report.layers = network.program.layers;
  report.macs = network.macs;
  report.lowerBoundCycles = network.lowerBoundCycles;
  report.boundBy = network.boundBy;
  report.layerSerialCycles = network.layerSerialCycles;
  report.lowerBoundBytes = network.lowerBoundBytes;
  report.layerTraffic = network.layerTraffic;
  for (size_t i = 0; i < network.choices.size(); ++i)
    report.tiles.push_back({network.choices[i], network.tileBytes[i]});
  report.groups = network.groups;
  report.targets = {"accelerator"};
  for (const pipeline::OffloadEntry &entry : network.offload)
    report.offload.push_back({entry.node, "accelerator", entry.reason});
  return report;
}

/// The rules that this report violates, one a line; empty: it is sound.
inline std::string contradictionsOf(const pipeline::CompiledNetwork &network, const timing::MachineParams &machine,
                                    const stats::SimResult &result) {
  std::string lines;
  for (const std::string &rule : runtime::contradictions(runtime::toJson(reportOf(network, machine, result), {})))
    lines += rule + "\n";
  return lines;
}

} // namespace tw::e2e

#endif // TESTS_E2E_MODELS_REPORTOF_H
