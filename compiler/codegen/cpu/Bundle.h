//===- Bundle.h - A network as a library for C programs ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A bundle is a static library, a C header and perhaps a file with the weights.
// The library holds the kernels as object files, and one more with what runs
// them: the plan of the network as data, the C functions that follow it
// (bundle/BundleRun.c), and an entry point with typed arguments.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_BUNDLE_H
#define COMPILER_CODEGEN_CPU_BUNDLE_H

#include "compiler/codegen/cpu/CpuMachine.h"
#include "compiler/frontend/HostTensor.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <optional>
#include <string>
#include <vector>

namespace tw::cpu {

/// An input or output of a bundle.
struct BundleTensor {
  /// The model's.
  std::string name;
  frontend::ElementKind type = frontend::ElementKind::F32;
  std::vector<int64_t> shape;
  /// What the header says about it besides; empty: nothing.
  std::string note;
};

struct BundleOptions {
  /// A C identifier: files, symbols and macros begin with it.
  std::string name;
  /// For the header's first line.
  std::string model;
  std::vector<BundleTensor> inputs, outputs;
  /// Weights are a file of their own that the program loads, not a part of the library.
  bool separateWeights = false;
  /// Make this one file instead of a library.
  std::optional<BundleText> text;
};

/// A network as data: calls of kernels one after the other.
struct BundlePlan {
  /// BundleRun.c knows these by number.
  enum Place : int64_t { Input, Output, Arena, Weights, Nowhere };
  struct Pointer {
    Place place = Nowhere;
    /// Of the input or output; bytes from its start, or from that of the place.
    int64_t index = 0, offset = 0;
  };
  struct Step {
    std::string symbol;
    std::vector<Pointer> table;
  };
  /// A result that no kernel writes.
  struct Copy {
    Pointer from;
    int64_t output = 0, bytes = 0;
  };
  std::vector<Step> steps;
  std::vector<Copy> copies;
  /// Of inputs and outputs, in bytes.
  std::vector<int64_t> inputBytes, outputBytes;
  /// Offsets in the arena count from the first byte behind the table of pointers.
  int64_t arenaBytes = 0;
  std::string weights;
};

/// Puts a bundle together. `kernels`: for a library the object file of each kernel with its name, for text its bitcode.
llvm::Expected<Bundle> writeBundle(BundlePlan plan,
                                   std::vector<std::pair<std::string, std::unique_ptr<llvm::MemoryBuffer>>> kernels,
                                   const BundleOptions &options, const CpuMachine &machine, unsigned optLevel);

/// LLVM bitcode of bundle/BundleRun.c, for one of archNames().
llvm::StringRef bundleRuntime(llvm::StringRef arch);

// What every header for C programs is made of.

/// C names of tensors, unlike one another and `taken`, also as macros.
std::vector<std::string> argumentNames(llvm::ArrayRef<BundleTensor> tensors, llvm::StringRef prefix, llvm::StringSet<> &taken);
/// How C holds an element. Numbers that C has no type for are their bits.
const char *cType(frontend::ElementKind kind);
/// Text from a model inside of a comment.
std::string commentText(const std::string &text);
/// What the header `bundle` says of one of its tensors. `kind`: "Input" or "Output".
std::string tensorLines(llvm::StringRef bundle, llvm::StringRef kind, const BundleTensor &tensor, llvm::StringRef name);

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_BUNDLE_H
