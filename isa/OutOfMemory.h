//===- OutOfMemory.h - What memory was wanted for ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef ISA_OUTOFMEMORY_H
#define ISA_OUTOFMEMORY_H

#include <new>
#include <string>
#include <utility>

namespace tw {

/// The one error of the libraries that is no value: there may be no memory for one.
class OutOfMemory : public std::bad_alloc {
public:
  /// "the simulated DRAM needs an address space of 8589934592 bytes".
  explicit OutOfMemory(std::string text) : text(std::move(text)) {}
  const char *what() const noexcept override { return text.c_str(); }

private:
  std::string text;
};

} // namespace tw

#endif // ISA_OUTOFMEMORY_H
