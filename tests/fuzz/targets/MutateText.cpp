//===- MutateText.cpp - Changes of words and lines ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libFuzzer's changes of single bytes seldom get past a parser. These change a
// text as a whole of words and lines, so that what is behind the parser is
// reached. A target of texts is linked with this file.
//===----------------------------------------------------------------------===//
#include "tests/fuzz/targets/Target.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <random>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

using Random = std::mt19937;

size_t below(Random &random, size_t limit) { return random() % limit; }

/// The text in pieces that give it again when joined: words, and each other character by itself; or lines with their ends.
std::vector<std::string> split(const std::string &text, bool lines) {
  auto inWord = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '%' || c == '@';
  };
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (lines)
      end = std::min(text.size(), text.find('\n', at) == std::string::npos ? text.size() : text.find('\n', at) + 1);
    else if (inWord(text[at]))
      while (end < text.size() && inWord(text[end]))
        ++end;
    pieces.push_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

bool isNumber(const std::string &word) { return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos; }

std::string anyNumber(Random &random) {
  static const char *const interesting[] = {"0",
                                            "1",
                                            "2",
                                            "7",
                                            "8",
                                            "63",
                                            "64",
                                            "65",
                                            "255",
                                            "1024",
                                            "65536",
                                            "2147483647",
                                            "4294967296",
                                            "9223372036854775807",
                                            "18446744073709551616"};
  return random() % 2 ? interesting[below(random, std::size(interesting))] : std::to_string(below(random, 100));
}

size_t store(const std::string &text, uint8_t *data, size_t maxSize) {
  const size_t size = std::min(text.size(), maxSize);
  std::memcpy(data, text.data(), size);
  return size;
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  Random random(seed);
  if (size == 0 || random() % 16 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::string text(reinterpret_cast<const char *>(data), size);
  for (size_t changes = 1 + below(random, 3); changes > 0; --changes) {
    std::vector<std::string> pieces = split(text, random() % 3 == 0);
    if (pieces.empty())
      break;
    const size_t at = below(random, pieces.size()), other = below(random, pieces.size());
    switch (below(random, 6)) {
    case 0: // replaced by another
      pieces[at] = pieces[other];
      break;
    case 1:
      std::swap(pieces[at], pieces[other]);
      break;
    case 2:
      pieces[at].clear();
      break;
    case 3:
      pieces.insert(pieces.begin() + ptrdiff_t(at), pieces[other]);
      break;
    default: { // a number, if there is one
      std::vector<size_t> numbers;
      for (size_t i = 0; i < pieces.size(); ++i)
        if (isNumber(pieces[i]))
          numbers.push_back(i);
      if (!numbers.empty())
        pieces[numbers[below(random, numbers.size())]] = anyNumber(random);
    }
    }
    text.clear();
    for (const std::string &piece : pieces)
      text += piece;
  }
  return store(text, data, maxSize);
}

/// Lines of `right`, next to each other, between two lines of `left`.
extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *left, size_t leftSize, const uint8_t *right, size_t rightSize,
                                            uint8_t *out, size_t maxOutSize, unsigned seed) {
  Random random(seed);
  std::vector<std::string> mine = split({reinterpret_cast<const char *>(left), leftSize}, true),
                           theirs = split({reinterpret_cast<const char *>(right), rightSize}, true);
  std::string text;
  const size_t cut = below(random, mine.size() + 1), from = below(random, theirs.size() + 1),
               to = from + below(random, theirs.size() - from + 1);
  for (size_t i = 0; i < cut; ++i)
    text += mine[i];
  for (size_t i = from; i < to; ++i)
    text += theirs[i];
  for (size_t i = cut; i < mine.size(); ++i)
    text += mine[i];
  return store(text, out, maxOutSize);
}
