//===- RandomNetworks.cpp - Random networks as files ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/bench/Bench.h"
#include "tests/fuzz/RandomNetwork.h"
#include "tests/fuzz/Variants.h"

#include "llvm/Support/raw_ostream.h"

#include <random>

using namespace tw;
using namespace tw::fuzz;

namespace {
struct Suite {
  const char *name;
  Network (*make)(mlir::MLIRContext &, uint64_t, bool);
  bool isFloat;
  const std::vector<Variant> &variants;
};
} // namespace

llvm::Error bench::writeRandomNetworks(mlir::MLIRContext &context, const std::string &folder, unsigned count, uint64_t seed) {
  const Suite suites[] = {
      {"chain_int8", makeChain, false, kIntegerMachines},        {"branches_int8", makeBranches, false, kIntegerMachines},
      {"blocks_int8", makeBlocks, false, kIntegerBlockMachines}, {"chain_fp32", makeChain, true, kFp32Machines},
      {"branches_fp32", makeBranches, true, kFp32Machines},      {"blocks_fp32", makeBlocks, true, kFp32BlockMachines},
      {"branches_bf16", makeBranches, true, kBf16Machines},      {"blocks_bf16", makeBlocks, true, kBf16BlockMachines}};
  for (unsigned i = 0; i < count; ++i) {
    const Suite &suite = suites[i % std::size(suites)];
    const uint64_t own = seed + i;
    const Variant &variant = suite.variants[std::mt19937_64(own)() % suite.variants.size()];
    const std::string file = folder + "/" + suite.name + "_" + std::to_string(own) + ".mlir";
    std::error_code error;
    llvm::raw_fd_ostream out(file, error);
    if (error)
      return llvm::createStringError(file + ": " + error.message());
    out << *suite.make(context, own, suite.isFloat).module;
    llvm::outs() << file << " " << variant.machine;
    for (const std::string &text : variant.overrides)
      llvm::outs() << " " << text;
    llvm::outs() << "\n";
  }
  return llvm::Error::success();
}
