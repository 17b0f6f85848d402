//===- Error.h - What the emulator reports: a broken rule of PTX, with the place in the text ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#pragma once

#include <stdexcept>
#include <string>

namespace tw::ptxemu {

enum class ErrorKind {
  Parse,         // the text is not PTX
  Unsupported,   // PTX that the emulator does not know
  Launch,        // grid, parameters, tensor map or shared size do not fit the kernel
  OutOfBounds,   // an access outside every allocation
  Misaligned,    // an address or a size that the instruction does not allow
  Uninitialized, // a read of a register, byte or mbarrier that nobody wrote
  InFlight,      // a register or byte that an asynchronous operation still reads or writes
  Proxy,         // generic writes that the async proxy meets without fence.proxy.async
  Barrier,       // a barrier used against its rules: too many arrivals, transaction count, participants
  Deadlock,      // every thread waits, or none gets anywhere
  Trap,          // trap, division by zero and the like
};

const char *name(ErrorKind kind);

/// `what()` holds the whole report: kernel, CTA, thread, line and text of the instruction, and what was found and allowed.
class Error : public std::runtime_error {
public:
  Error(ErrorKind kind, const std::string &message, unsigned line = 0) : std::runtime_error(message), kind(kind), line(line) {}

  ErrorKind kind;
  /// Line in the PTX text, from 1; 0 where the error has none.
  unsigned line;
};

[[noreturn]] void fail(ErrorKind kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

} // namespace tw::ptxemu
