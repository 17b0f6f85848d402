//===- Choice.h - Which variants a network runs, and why --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Variants that were timed once are kept in a file beside the program, so that
// later runs on the same device take them at once; and the report of a run.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_GPU_CHOICE_H
#define RUNTIME_GPU_CHOICE_H

#include "compiler/codegen/gpu/Program.h"
#include "runtime/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tw::runtime::gpu {

/// FNV-1a, 64 bits.
uint64_t digest(const std::string &text, uint64_t value = 0xcbf29ce484222325);
/// Of what times depend on: kernels, and the launches of every variant.
uint64_t digestOf(const tw::gpu::Program &program);

/// What a choice holds for.
struct ChoiceKey {
  std::string device;
  int driver = 0; ///< its version, as the driver gives it: 13000
  uint64_t program = 0;
};

struct Choice {
  struct Variant {
    std::string name;
    double microseconds = 0; ///< measured
  };
  struct Step {
    std::string name;
    uint32_t chosen = 0;
    std::vector<Variant> variants;
  };
  ChoiceKey key;
  std::vector<Step> steps;
};

Choice choiceOf(const ChoiceKey &key, const tw::gpu::Program &program);
std::string toJson(const Choice &choice);
/// Errors name the file, what was found and what is allowed.
StatusOr<Choice> readChoice(const std::string &file);
/// Takes the choice's variants and times. Where it is for something else the program stays as it is, and the reason is returned: "it is for
/// device 'A' but this is 'B'".
std::string take(const Choice &choice, const ChoiceKey &key, tw::gpu::Program &program);

/// What a run, or a compilation, says of every step: kind, nodes, variant, why that one, and the times of all variants.
struct RunReport {
  std::string device; ///< empty: estimates alone
  int driver = 0;
  double seconds = 0; ///< of the network; 0: not measured
};
std::string reportJson(const tw::gpu::Program &program, const RunReport &run);
/// A table for people, a line for each step; `allVariants`: and one for each variant.
std::string reportText(const tw::gpu::Program &program, bool allVariants);
/// "fastest of 4", "least estimate of 4, not timed", ...
std::string reasonOf(const tw::gpu::Step &step);

} // namespace tw::runtime::gpu

#endif // RUNTIME_GPU_CHOICE_H
