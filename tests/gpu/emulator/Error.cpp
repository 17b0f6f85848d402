//===- Error.cpp - Messages of the emulator ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Error.h"

#include <cstdarg>
#include <cstdio>

using namespace tw::ptxemu;

const char *tw::ptxemu::name(ErrorKind kind) {
  switch (kind) {
  case ErrorKind::Parse:
    return "parse";
  case ErrorKind::Unsupported:
    return "unsupported";
  case ErrorKind::Launch:
    return "launch";
  case ErrorKind::OutOfBounds:
    return "out of bounds";
  case ErrorKind::Misaligned:
    return "misaligned";
  case ErrorKind::Uninitialized:
    return "uninitialized";
  case ErrorKind::InFlight:
    return "in flight";
  case ErrorKind::Proxy:
    return "proxy";
  case ErrorKind::Barrier:
    return "barrier";
  case ErrorKind::Deadlock:
    return "deadlock";
  case ErrorKind::Trap:
    return "trap";
  }
  return "";
}

void tw::ptxemu::fail(ErrorKind kind, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  throw Error(kind, text);
}
