//===- Printable.h - Names in messages --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of nodes, tensors and files come from outside. What a terminal would
// obey, and what is no UTF-8, is written as an escape sequence.
//===----------------------------------------------------------------------===//
#ifndef ISA_PRINTABLE_H
#define ISA_PRINTABLE_H

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace tw {

/// Bytes of the UTF-8 character that `text` begins with, and its code point; 0 if it begins with none.
inline unsigned decodeUtf8(std::string_view text, uint32_t &code) {
  const auto byte = [&](size_t i) { return i < text.size() ? uint8_t(text[i]) : 0u; };
  const uint8_t first = uint8_t(byte(0));
  const unsigned length = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
  if (length == 0 || length > text.size())
    return 0;
  code = length == 1 ? first : first & (0xff >> (length + 1));
  for (unsigned i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 2)
      return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  // No longer than needed, no surrogate, no number beyond Unicode.
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  return code < kLeast[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : length;
}

/// `text` with \n, \t, \r, \x1b, \u202e and the like in place of control characters, of those that change the direction or the line, and of
/// bytes that are no UTF-8. Printable text stays as it is. With `keepLines` newlines stay, too.
inline std::string printable(std::string_view text, bool keepLines = false) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    uint32_t code = 0;
    const unsigned length = decodeUtf8(text, code);
    char escape[16];
    if (length == 0 || (length == 1 && code < 0x20) || code == 0x7f) {
      const uint8_t byte = uint8_t(text.front());
      if (byte == '\n' && keepLines)
        std::snprintf(escape, sizeof(escape), "\n");
      else if (byte == '\n' || byte == '\t' || byte == '\r')
        std::snprintf(escape, sizeof(escape), "\\%c", byte == '\n' ? 'n' : byte == '\t' ? 't' : 'r');
      else
        std::snprintf(escape, sizeof(escape), "\\x%02x", byte);
      result += escape;
    } else if ((code >= 0x80 && code < 0xa0) || (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
               (code >= 0x2066 && code <= 0x2069) || code == 0xfeff) {
      std::snprintf(escape, sizeof(escape), "\\u%04x", unsigned(code));
      result += escape;
    } else {
      result.append(text.substr(0, length));
    }
    text.remove_prefix(length ? length : 1);
  }
  return result;
}

} // namespace tw

#endif // ISA_PRINTABLE_H
