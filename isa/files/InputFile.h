//===- InputFile.h - The one way a file comes in ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Only regular files are read, and none beyond a limit: a pipe or a device may
// never end. What was read is remembered, so that no output replaces it.
//===----------------------------------------------------------------------===//
#ifndef ISA_FILES_INPUTFILE_H
#define ISA_FILES_INPUTFILE_H

#include "isa/Diagnostic.h"

#include <cstdint>
#include <optional>
#include <string>

namespace tw::files {

/// Most bytes of a model, a tensor or a program. source: a protobuf message is at most 2 GiB, and ONNX files are one.
constexpr uint64_t kMostBytes = (uint64_t(1) << 31) - 1;
/// Most bytes of text that people write: schedule files and sources of the RTL.
constexpr uint64_t kMostTextBytes = uint64_t(64) << 20;

/// Reads a whole regular file of at most `most` bytes, and remembers it as an input. Links are followed. Errors: it cannot be opened
/// or read, is no regular file (a folder, pipe, device, socket, or made by the system as under /proc), is too large, changes meanwhile.
Result<std::string> readFile(const std::string &path, uint64_t most = kMostBytes);

/// Reads standard input, whatever it is, to its end, which must come after `most` bytes at the latest.
Result<std::string> readStandardInput(uint64_t most = kMostBytes);

/// What readFile() would refuse before it reads. Remembers the file as an input, as others read it.
std::optional<Diagnostic> whyNotReadable(const std::string &path, uint64_t most = kMostBytes);

/// Remembers a file that will be read. Nothing happens where there is none.
void addInput(const std::string &path);

/// The input that is the same file as `path`, whatever the names and links: the path under which it was read.
std::optional<std::string> inputAt(const std::string &path);

} // namespace tw::files

#endif // ISA_FILES_INPUTFILE_H
