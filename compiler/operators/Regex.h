//===- Regex.h - Regular expressions ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RE2's syntax, matched in time linear in the text: no pattern and no text
// makes it slow, or deep.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_OPERATORS_REGEX_H
#define COMPILER_OPERATORS_REGEX_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tw::operators {

/// The code points of UTF-8 text; a byte that is none stands for itself above 0x110000.
std::vector<uint32_t> codePoints(const std::string &text);
/// The reverse.
void appendCodePoint(std::string &text, uint32_t point);

class Regex {
public:
  /// Throws Error for what is no pattern, or has no meaning here: \p classes, \C.
  explicit Regex(const std::string &pattern);

  /// Whether the pattern matches all of `text`.
  bool matchesAll(const std::string &text) const;

private:
  class Parser;

  enum class Code : uint8_t { Points, Split, Jump, Begin, End, LineBegin, LineEnd, Boundary, NoBoundary, Match };
  using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;
  /// Split goes on at `next` and at `other`; what consumes a code point or asserts something goes on at the instruction behind it.
  struct Instruction {
    Code code;
    size_t next = 0, other = 0;
    Ranges points; ///< Sorted, inclusive.
  };

  std::vector<Instruction> program;
};

} // namespace tw::operators

#endif // COMPILER_OPERATORS_REGEX_H
