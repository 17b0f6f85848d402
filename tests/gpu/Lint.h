//===- Lint.h - Rules for PTX that a test of values cannot see ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once

#include <string>
#include <vector>

namespace tw::ptxlint {

struct Finding {
  unsigned line; // in the text, from 1
  std::string message;
};

/// Checks the text of a module:
/// - it parses, with opcodes that the emulator knows and without calls;
/// - no local memory: LLVM has left an array or the copy of a parameter there;
/// - tensor maps (parameters of 128 bytes) have an alignment of 64 and are taken by address, never loaded (grid_constant);
/// - the dynamic shared memory of a kernel with tensor copies is aligned to the 1024 bytes of the widest swizzle;
/// - setmaxnreg comes with .maxntid, and a decrease with an increase;
/// - no path leads from a store to shared memory to a bulk store without fence.proxy.async;
/// - code for sm_80 has no instructions of sm_90;
/// - waits on mbarriers have no .acquire.cluster, which costs a third of the speed of a GEMM.
std::vector<Finding> lint(const std::string &text);

} // namespace tw::ptxlint
