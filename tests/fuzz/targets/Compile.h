//===- Compile.h - The compiler for targets ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_FUZZ_TARGETS_COMPILE_H
#define TESTS_FUZZ_TARGETS_COMPILE_H

#include "runtime/Network.h"
#include "tests/fuzz/targets/Target.h"

#include "llvm/Support/FileSystem.h"

#include <fstream>

namespace tw::fuzz {

/// A file that lives as long as the object.
class ScratchFile {
public:
  /// `suffix`: "onnx".
  ScratchFile(const char *suffix, const uint8_t *data, size_t size) {
    llvm::SmallString<128> name;
    if (llvm::sys::fs::createTemporaryFile("tilewright-fuzz", suffix, name))
      finding("no temporary file"); // the host's fault: nothing can be found out here
    path = name.str().str();
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(data), std::streamsize(size));
  }
  ~ScratchFile() { llvm::sys::fs::remove(path); }

  std::string path;
};

/// Compiles a model to programs, on a machine of either kind by the size of the input. Ends with a finding where the compiler blames
/// itself.
inline void compileModel(const std::string &model, const std::string &schedule, size_t size) {
  runtime::NetworkOptions options;
  options.machine = size % 2 ? "tiny_8x8" : "gemmini_16x16_fp32";
  options.schedule = schedule;
  runtime::StatusOr<runtime::Network> network = runtime::loadNetwork(model, options);
  if (network)
    return;
  if (network.error().kind != runtime::ErrorKind::User)
    finding(network.error().message);
  checkMessage(network.error().message);
}

} // namespace tw::fuzz

#endif // TESTS_FUZZ_TARGETS_COMPILE_H
