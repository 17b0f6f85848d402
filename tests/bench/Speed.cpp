//===- Speed.cpp - Wall time of compiler and simulator --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Tensors.h"
#include "simulator/systemc/SystemCModel.h"
#include "tests/bench/Bench.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

#include <algorithm>

using namespace tw;
using namespace tw::bench;

llvm::Error bench::measureSpeed(const Arguments &arguments, unsigned runs) {
  auto lowered = lower(arguments);
  if (!lowered)
    return lowered.takeError();
  auto start = std::chrono::steady_clock::now();
  auto compiled = (*lowered)->compile(accel::Schedule::DoubleBuffer);
  if (!compiled)
    return compiled.takeError();
  double accelSeconds = secondsSince(start);

  std::vector<std::vector<uint8_t>> inputs, outputs;
  for (const isa::TensorInfo &info : compiled->program.inputs)
    inputs.push_back(runtime::randomTensor(runtime::specOf(info), 1).bytes);
  systemc::SystemCModel model;
  std::vector<double> seconds;
  stats::SimResult result;
  // Run 0 warms up: pages of the simulated DRAM, SystemC's elaboration.
  for (unsigned run = 0; run <= runs; ++run) {
    start = std::chrono::steady_clock::now();
    result = model.run(compiled->program, (*lowered)->machine, inputs, outputs);
    if (result.fault)
      return llvm::createStringError("fault: " + result.fault->str());
    if (run)
      seconds.push_back(secondsSince(start));
  }
  std::sort(seconds.begin(), seconds.end());
  double median = seconds[seconds.size() / 2];
  std::vector<std::vector<std::string>> rows = {{"network", "machine", "import s", "graph, linalg s", "accelerator s",
                                                 "compile s", "simulation s", "fastest s", "Mcycles", "GMAC", "Mcycles/s",
                                                 "GMAC/s"}};
  auto number = [](double value, int digits) {
    char text[32];
    snprintf(text, sizeof text, "%.*f", digits, value);
    return std::string(text);
  };
  const Lowered &l = **lowered;
  llvm::StringRef name = llvm::sys::path::stem(arguments.model);
  if (name == "model")
    name = llvm::sys::path::filename(llvm::sys::path::parent_path(arguments.model));
  rows.push_back({name.str(), l.machine.name, number(l.importSeconds, 2), number(l.graphSeconds, 2), number(accelSeconds, 2),
                  number(l.importSeconds + l.graphSeconds + accelSeconds, 2), number(median, 3), number(seconds[0], 3),
                  number(double(result.totalCycles) / 1e6, 2), number(double(compiled->macs) / 1e9, 3),
                  number(double(result.totalCycles) / 1e6 / median, 1), number(double(compiled->macs) / 1e9 / median, 2)});
  print(rows, 2, arguments.markdown);
  return llvm::Error::success();
}
