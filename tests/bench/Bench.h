//===- Bench.h - What the modes of tilewright-bench share -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include "compiler/pipeline/Compile.h"

#include "mlir/IR/MLIRContext.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace tw::bench {

/// What every mode is given.
struct Arguments {
  std::string model;
  /// A machine file, or the name of a shipped machine.
  std::string machine;
  /// NAME=DIMS, dims separated by x or commas.
  std::vector<std::string> shapes;
  /// A Markdown table instead of aligned columns.
  bool markdown = false;
};

/// A model after the linalg phase, the same for every schedule.
struct Lowered {
  timing::MachineParams machine;
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  pipeline::CompileOptions options;
  double importSeconds = 0, graphSeconds = 0; ///< the latter: graph and linalg

  /// Compiles with `schedule`. The module stays as it is.
  llvm::Expected<pipeline::CompiledNetwork> compile(accel::Schedule schedule);
};

/// Import to linalg on one thread.
llvm::Expected<std::unique_ptr<Lowered>> lower(const Arguments &arguments);

inline double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Rows of text as a table; row 0 is the head. The first `leftColumns` columns are left-aligned, all others right-aligned.
void print(const std::vector<std::vector<std::string>> &rows, unsigned leftColumns, bool markdown);

/// schedules: serial against double_buffer, layer by layer.
llvm::Error compareSchedules(const Arguments &arguments);

/// speed: host time of compiler and simulator. The simulator runs once to warm up, then `runs` times.
llvm::Error measureSpeed(const Arguments &arguments, unsigned runs);

/// session: median host time of runtime::Session::run(), in milliseconds. The model may be an inline kernel.
llvm::Error measureSession(const Arguments &arguments, unsigned runs);

/// random-networks: writes `count` networks of tests/fuzz as FOLDER/KIND_SEED.mlir, one for each seed from `seed` on, and prints a line for
/// each: the file, a machine, and overrides of the machine. `context` has the dialects of the graph phase.
llvm::Error writeRandomNetworks(mlir::MLIRContext &context, const std::string &folder, unsigned count, uint64_t seed);

} // namespace tw::bench

#endif // TESTS_BENCH_BENCH_H
