//===- Diagnostic.h - Errors of the LLVM-free libraries ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// isa, hw-configs and simulator report user errors as values: never exit(),
// never an exception across a library boundary.
//===----------------------------------------------------------------------===//
#ifndef ISA_DIAGNOSTIC_H
#define ISA_DIAGNOSTIC_H

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tw {

/// Problems that a caller has to tell from others.
enum class DiagnosticKind : uint8_t {
  Other,
  TooManyPosts, ///< a semaphore may count further than the machine's do
  TooManyWaits, ///< an operation needs more waits or posts than an instruction holds
};

/// One problem in something the user gave us. `line` and `column` count from 1; 0 means the place is not known.
struct Diagnostic {
  std::string file;
  unsigned line = 0;
  unsigned column = 0;
  /// Lower case, no final period, what was found and what was allowed.
  std::string message;
  DiagnosticKind kind = DiagnosticKind::Other;
  /// Of a program's code, the word it is about.
  std::optional<uint64_t> word = std::nullopt;

  /// `file:line:column: message`, leaving out what is not known.
  std::string str() const {
    std::string text = file;
    if (line)
      text += ":" + std::to_string(line) + ":" + std::to_string(column);
    return text.empty() ? message : text + ": " + message;
  }
};

using Diagnostics = std::vector<Diagnostic>;

/// A value, or every problem that kept it from being made.
template <typename T> class Result {
public:
  Result(T value) : value(std::move(value)) {}
  Result(Diagnostics problems) : problems(std::move(problems)) {
    assert(!this->problems.empty() && "a failure needs a reason");
  }
  Result(Diagnostic problem) : problems{std::move(problem)} {}

  explicit operator bool() const { return value.has_value(); }
  T &operator*() { return *value; }
  const T &operator*() const { return *value; }
  T *operator->() { return &*value; }
  const T *operator->() const { return &*value; }
  const Diagnostics &diagnostics() const { return problems; }
  /// All problems, one a line.
  std::string message() const {
    std::string text;
    for (const Diagnostic &problem : problems)
      text += (text.empty() ? "" : "\n") + problem.str();
    return text;
  }

private:
  std::optional<T> value;
  Diagnostics problems;
};

} // namespace tw

#endif // ISA_DIAGNOSTIC_H
