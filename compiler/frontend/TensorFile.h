//===- TensorFile.h - Tensors in files --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NumPy's .npy and ONNX's TensorProto (.pb). No LLVM, so that the runtime can
// read inputs and write outputs.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_FRONTEND_TENSORFILE_H
#define COMPILER_FRONTEND_TENSORFILE_H

#include "compiler/frontend/HostTensor.h"
#include "isa/Diagnostic.h"
#include <string>
#include <string_view>

namespace tw::frontend {

/// Reads a tensor; the suffix of `path`, .npy or .pb, names the format.
Result<HostTensor> readTensorFile(const std::string &path);
/// Whether `path` is named as such a file.
bool isTensorFile(const std::string &path);

/// Parses .npy version 1, 2 or 3: little-endian, row-major, one of f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1, or V2, which is
/// how NumPy stores bfloat16. `file` is named in errors.
Result<HostTensor> parseNpy(std::string_view bytes, const std::string &file);

/// Parses a serialised TensorProto.
Result<HostTensor> parseTensorProto(std::string_view bytes, const std::string &file);

/// The .npy file (version 1) of a tensor. NumPy has no bfloat16: such a tensor is written as float.
std::string formatNpy(const HostTensor &tensor);

} // namespace tw::frontend

#endif // COMPILER_FRONTEND_TENSORFILE_H
