//===- Session.cpp - Host time of one run of a compiled network -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Session.h"
#include "tests/bench/Bench.h"

#include "llvm/Support/Error.h"

#include <algorithm>
#include <cstdio>

using namespace tw;

llvm::Error bench::measureSession(const Arguments &arguments, unsigned runs) {
  runtime::SessionOptions options;
  options.network.machine = arguments.machine;
  auto session = runtime::Session::create(arguments.model, options);
  if (!session)
    return llvm::createStringError(session.error().message);
  const std::vector<runtime::HostTensor> inputs = (*session)->randomInputs(1);
  std::vector<double> seconds;
  for (unsigned run = 0; run <= runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    if (auto report = (*session)->run(inputs); !report)
      return llvm::createStringError(report.error().message);
    if (run)
      seconds.push_back(secondsSince(start));
  }
  std::nth_element(seconds.begin(), seconds.begin() + long(seconds.size() / 2), seconds.end());
  std::printf("%.4f\n", 1e3 * seconds[seconds.size() / 2]);
  return llvm::Error::success();
}
