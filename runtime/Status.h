//===- Status.h - Success, or whose mistake it was --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_STATUS_H
#define RUNTIME_STATUS_H

#include "isa/Diagnostic.h"

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace tw::runtime {

/// Who has to act. The values are the exit codes of the command line.
enum class ErrorKind : uint8_t {
  User = 1,     ///< a bad model, machine, tensor or option
  Fault = 2,    ///< the simulated program misbehaved
  Internal = 3, ///< a mistake of ours
};

struct Error {
  ErrorKind kind = ErrorKind::User;
  /// Lower case, no final period; several problems take a line each.
  std::string message;
};

inline Error userError(std::string message) { return {ErrorKind::User, std::move(message)}; }
inline Error internalError(std::string message) { return {ErrorKind::Internal, std::move(message)}; }

/// Success or an error.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error error) : failure(std::move(error)) {}
  /// True on success.
  explicit operator bool() const { return !failure; }
  const Error &error() const { return *failure; }

private:
  std::optional<Error> failure;
};

/// A value or an error.
template <typename T> class [[nodiscard]] StatusOr {
public:
  StatusOr(T value) : held(std::move(value)) {}
  StatusOr(Error error) : failure(std::move(error)) {}
  explicit operator bool() const { return held.has_value(); }
  T &operator*() { return *held; }
  const T &operator*() const { return *held; }
  T *operator->() { return &*held; }
  const T *operator->() const { return &*held; }
  const Error &error() const {
    assert(!held && "only a failure has an error");
    return failure;
  }

private:
  std::optional<T> held;
  Error failure;
};

/// A problem of the LLVM-free libraries is one in something the user gave us.
template <typename T> StatusOr<T> fromResult(Result<T> result) {
  if (result)
    return std::move(*result);
  return userError(result.message());
}

} // namespace tw::runtime

#endif // RUNTIME_STATUS_H
