//===- CBundle.h - A GPU program for C programs -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A header, and one file of C with what a driver is told and the functions that
// tell it (loader/Loader.c.in). It needs libcuda.so.1, the folder's kernels and
// its weights, and nothing else.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_GPU_CBUNDLE_H
#define RUNTIME_GPU_CBUNDLE_H

#include "compiler/codegen/gpu/Program.h"

#include <string>
#include <vector>

namespace tw::runtime::gpu {

struct CBundle {
  std::string header, loader;
  std::vector<uint32_t> kernels; ///< that the loader loads, ascending
};
/// `name`: a C identifier that symbols begin with; `model`: for the header's first line. Of every step the chosen variant; for sm_80 the first
/// one that every later device has shared memory for, if there is one.
CBundle toC(const tw::gpu::Program &program, const std::string &name, const std::string &model);

} // namespace tw::runtime::gpu

#endif // RUNTIME_GPU_CBUNDLE_H
