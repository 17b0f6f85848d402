//===- Regex.cpp - Regular expressions ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// source: K. Thompson, Regular expression search algorithm, 1968; RE2, syntax
//===----------------------------------------------------------------------===//
#include "compiler/operators/Regex.h"
#include "compiler/operators/Value.h"
#include "isa/Printable.h"

#include <algorithm>
#include <cctype>

using namespace tw;
using namespace tw::operators;

/// Repetitions in one {n, m}, instructions of a program, and groups inside groups, at most.
static constexpr int64_t kMostRepeated = 1000;
static constexpr size_t kMostInstructions = 100000, kMostNested = 200;
static constexpr uint32_t kLastPoint = 0x10ffff, kNoPoint = 0x110000;

std::vector<uint32_t> operators::codePoints(const std::string &text) {
  std::vector<uint32_t> points;
  for (size_t i = 0; i < text.size();) {
    const uint8_t first = uint8_t(text[i]);
    const size_t length = first < 0x80 ? 1 : (first >> 5) == 6 ? 2 : (first >> 4) == 14 ? 3 : (first >> 3) == 30 ? 4 : 0;
    uint32_t point = length == 1 ? first : first & (0x7fu >> length);
    bool isWhole = length != 0 && i + length <= text.size();
    for (size_t k = 1; isWhole && k < length; ++k) {
      isWhole = (uint8_t(text[i + k]) >> 6) == 2;
      point = point << 6 | (uint8_t(text[i + k]) & 0x3f);
    }
    if (!isWhole || point > kLastPoint) {
      points.push_back(kNoPoint + first);
      ++i;
      continue;
    }
    points.push_back(point);
    i += length;
  }
  return points;
}

void operators::appendCodePoint(std::string &text, uint32_t point) {
  if (point >= kNoPoint) {
    text += char(point - kNoPoint);
  } else if (point < 0x80) {
    text += char(point);
  } else if (point < 0x800) {
    text += char(0xc0 | point >> 6);
    text += char(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    text += char(0xe0 | point >> 12);
    text += char(0x80 | (point >> 6 & 0x3f));
    text += char(0x80 | (point & 0x3f));
  } else {
    text += char(0xf0 | point >> 18);
    text += char(0x80 | (point >> 12 & 0x3f));
    text += char(0x80 | (point >> 6 & 0x3f));
    text += char(0x80 | (point & 0x3f));
  }
}

/// Reads a pattern and writes its program: what is repeated is copied.
class Regex::Parser {
public:
  Parser(const std::string &pattern, std::vector<Instruction> &program) : text(codePoints(pattern)), program(program) {
    alternatives();
    if (at < text.size())
      fail("a ) closes nothing");
    emit({Code::Match, 0, 0, {}});
  }

private:
  struct Flags {
    bool ignoresCase = false, dotTakesLines = false, isMultiline = false;
  };

  [[noreturn]] void fail(const std::string &what) const {
    std::string before;
    for (size_t i = 0; i < std::min(at, text.size()); ++i)
      appendCodePoint(before, text[i]);
    throw Error{"pattern: " + what + ", behind \"" + printable(before) + "\""};
  }

  bool isAtEnd() const { return at >= text.size(); }
  bool sees(const char *ahead) const {
    size_t i = at;
    for (; *ahead; ++ahead, ++i)
      if (i >= text.size() || text[i] != uint32_t(*ahead))
        return false;
    return true;
  }
  bool takes(const char *ahead) {
    if (!sees(ahead))
      return false;
    for (; *ahead; ++ahead)
      ++at;
    return true;
  }
  uint32_t nextPoint() {
    if (isAtEnd())
      fail("it ends too early");
    return text[at++];
  }

  size_t emit(Instruction instruction) {
    if (program.size() >= kMostInstructions)
      fail("it is too large");
    program.push_back(std::move(instruction));
    return program.size() - 1;
  }

  /// a | b | c
  void alternatives() {
    if (++depth > kMostNested)
      fail("groups are nested more than " + std::to_string(kMostNested) + " deep");
    const Flags before = flags;
    const size_t first = program.size();
    std::vector<size_t> ends;
    size_t start = first;
    sequence();
    while (takes("|")) {
      // The alternative that stands here moves back by one, for the split in front of it.
      ends.push_back(emit({Code::Jump, 0, 0, {}}));
      insertAt(start);
      ++ends.back();
      for (size_t i = 0; i + 1 < ends.size(); ++i)
        ends[i] += ends[i] >= start;
      program[start] = {Code::Split, start + 1, program.size(), {}};
      start = program.size();
      sequence();
    }
    for (size_t end : ends)
      program[end].next = program.size();
    flags = before;
    --depth;
  }

  /// Makes room for one instruction at `place`; what goes to places behind it goes on doing so.
  void insertAt(size_t place) {
    if (program.size() >= kMostInstructions)
      fail("it is too large");
    program.insert(program.begin() + int64_t(place), Instruction{Code::Jump, 0, 0, {}});
    for (size_t i = place + 1; i < program.size(); ++i) {
      program[i].next += program[i].next >= place;
      program[i].other += program[i].other >= place;
    }
  }

  void sequence() {
    while (!isAtEnd() && !sees("|") && !sees(")")) {
      const size_t first = program.size();
      if (!item())
        continue;
      repetitions(first);
    }
  }

  /// *, +, ? and {n, m} behind the item that starts at `first`.
  void repetitions(size_t first) {
    bool isRepeated = false;
    for (;;) {
      const size_t before = at;
      int64_t least, most;
      if (takes("*")) {
        least = 0, most = -1;
      } else if (takes("+")) {
        least = 1, most = -1;
      } else if (takes("?")) {
        least = 0, most = 1;
      } else if (!takes("{") || !counts(least, most)) {
        at = before;
        return;
      }
      // RE2 has no ** and the like.
      if (isRepeated)
        fail("what is repeated is repeated again");
      isRepeated = true;
      takes("?");
      repeat(first, least, most);
    }
  }

  /// "n}", "n,}" or "n,m}"; else a { stands for itself.
  bool counts(int64_t &least, int64_t &most) {
    auto number = [&](int64_t &value) {
      const size_t before = at;
      for (value = 0; !isAtEnd() && text[at] >= '0' && text[at] <= '9'; ++at)
        value = std::min(value * 10 + int64_t(text[at] - '0'), kMostRepeated + 1);
      return at > before;
    };
    if (!number(least))
      return false;
    most = least;
    if (takes(",") && !number(most))
      most = -1;
    if (!takes("}"))
      return false;
    if (least > kMostRepeated || most > kMostRepeated)
      fail("a repetition is of more than " + std::to_string(kMostRepeated));
    if (most >= 0 && most < least)
      fail("a repetition's bounds are in the wrong order");
    return true;
  }

  void repeat(size_t first, int64_t least, int64_t most) {
    const std::vector<Instruction> item(program.begin() + int64_t(first), program.end());
    program.resize(first);
    auto copy = [&] {
      const size_t shift = program.size() - first;
      for (Instruction each : item) {
        each.next += shift;
        each.other += shift;
        emit(std::move(each));
      }
    };
    for (int64_t i = 0; i < least; ++i)
      copy();
    if (most < 0) {
      const size_t split = emit({Code::Split, 0, 0, {}});
      program[split].next = split + 1;
      copy();
      emit({Code::Jump, split, 0, {}});
      program[split].other = program.size();
      return;
    }
    std::vector<size_t> splits;
    for (int64_t i = least; i < most; ++i) {
      splits.push_back(emit({Code::Split, 0, 0, {}}));
      program[splits.back()].next = splits.back() + 1;
      copy();
    }
    for (size_t split : splits)
      program[split].other = program.size();
  }

  /// One item; false if it stands for nothing that can be repeated.
  bool item() {
    if (takes("("))
      return group();
    if (takes("["))
      return takesPoints(bracket());
    if (takes("."))
      return takesPoints(flags.dotTakesLines ? Ranges{{0, UINT32_MAX}} : Ranges{{0, 9}, {11, UINT32_MAX}});
    if (takes("^"))
      return asserts(flags.isMultiline ? Code::LineBegin : Code::Begin);
    if (takes("$"))
      return asserts(flags.isMultiline ? Code::LineEnd : Code::End);
    if (sees("*") || sees("+") || sees("?"))
      fail("there is nothing to repeat");
    if (takes("\\A"))
      return asserts(Code::Begin);
    if (takes("\\z"))
      return asserts(Code::End);
    if (takes("\\b"))
      return asserts(Code::Boundary);
    if (takes("\\B"))
      return asserts(Code::NoBoundary);
    if (takes("\\Q")) {
      while (!isAtEnd() && !takes("\\E"))
        literal(text[at++]);
      return false;
    }
    if (takes("\\E"))
      return false;
    if (takes("\\")) {
      Ranges ranges;
      if (perlClass(ranges))
        return takesPoints(ranges);
      return literal(escaped());
    }
    return literal(nextPoint());
  }

  bool literal(uint32_t point) {
    Ranges ranges = {{point, point}};
    if (flags.ignoresCase)
      addOtherCase(ranges);
    return takesPoints(std::move(ranges));
  }
  bool takesPoints(Ranges ranges) {
    emit({Code::Points, 0, 0, sorted(std::move(ranges))});
    return true;
  }
  bool asserts(Code code) {
    emit({code, 0, 0, {}});
    return true;
  }

  bool group() {
    if (takes("?")) {
      if (takes("P<") || takes("<")) {
        if (sees("=") || sees("!"))
          fail("it looks behind, which is not supported");
        while (!takes(">"))
          nextPoint();
      } else if (sees("=") || sees("!")) {
        fail("it looks ahead, which is not supported");
      } else {
        const Flags before = flags;
        bool isOn = true;
        for (;;) {
          const uint32_t flag = nextPoint();
          if (flag == ')')
            return false;
          if (flag == ':')
            break;
          if (flag == '-')
            isOn = false;
          else if (flag == 'i')
            flags.ignoresCase = isOn;
          else if (flag == 's')
            flags.dotTakesLines = isOn;
          else if (flag == 'm')
            flags.isMultiline = isOn;
          else if (flag != 'U')
            fail("an unknown flag of a group");
        }
        alternatives();
        flags = before;
        if (!takes(")"))
          fail("a ( is not closed");
        return true;
      }
    }
    alternatives();
    if (!takes(")"))
      fail("a ( is not closed");
    return true;
  }

  /// What stands behind a backslash, as one code point.
  uint32_t escaped() {
    const uint32_t point = nextPoint();
    switch (point) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case 'a':
      return '\a';
    case 'x': {
      uint32_t value = 0;
      auto digit = [&](uint32_t c) {
        const uint32_t low = c | 0x20;
        if (!(c >= '0' && c <= '9') && !(low >= 'a' && low <= 'f'))
          fail("\\x is followed by no hexadecimal number");
        value = value * 16 + (c <= '9' ? c - '0' : low - 'a' + 10);
        if (value > kLastPoint)
          fail("\\x is followed by more than 10ffff");
      };
      if (takes("{")) {
        do
          digit(nextPoint());
        while (!takes("}"));
      } else {
        digit(nextPoint());
        digit(nextPoint());
      }
      return value;
    }
    default:
      break;
    }
    if (point >= '0' && point <= '7') {
      // \0 to \7 would be a group if it is no octal number of two digits and more.
      if (point != '0' && (isAtEnd() || text[at] < '0' || text[at] > '7'))
        fail("it refers to a group, which is not supported");
      uint32_t value = point - '0';
      for (int i = 0; i < 2 && !isAtEnd() && text[at] >= '0' && text[at] <= '7'; ++i)
        value = value * 8 + (text[at++] - '0');
      return value;
    }
    if (point < 0x80 && !std::isalnum(int(point)))
      return point;
    fail("an unknown escape");
  }

  /// \d, \w, \s and their complements.
  bool perlClass(Ranges &ranges) {
    if (isAtEnd())
      return false;
    Ranges found;
    switch (text[at]) {
    case 'd':
    case 'D':
      found = {{'0', '9'}};
      break;
    case 'w':
    case 'W':
      found = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
      break;
    case 's':
    case 'S':
      found = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
      break;
    case 'p':
    case 'P':
      fail("classes of Unicode are not supported");
    case 'C':
      fail("\\C is not supported");
    default:
      return false;
    }
    if (text[at++] < 'a')
      found = complement(std::move(found));
    ranges.insert(ranges.end(), found.begin(), found.end());
    return true;
  }

  /// [:alpha:] and the like.
  bool namedClass(Ranges &ranges) {
    if (!sees("[:"))
      return false;
    static const std::pair<const char *, Ranges> known[] = {{"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
                                                            {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
                                                            {"ascii", {{0, 127}}},
                                                            {"blank", {{'\t', '\t'}, {' ', ' '}}},
                                                            {"cntrl", {{0, 31}, {127, 127}}},
                                                            {"digit", {{'0', '9'}}},
                                                            {"graph", {{'!', '~'}}},
                                                            {"lower", {{'a', 'z'}}},
                                                            {"print", {{' ', '~'}}},
                                                            {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
                                                            {"space", {{'\t', '\r'}, {' ', ' '}}},
                                                            {"upper", {{'A', 'Z'}}},
                                                            {"word", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}},
                                                            {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}}};
    for (const auto &[name, found] : known)
      for (bool isNegated : {false, true})
        if (takes(((isNegated ? "[:^" : "[:") + std::string(name) + ":]").c_str())) {
          const Ranges added = isNegated ? complement(found) : found;
          ranges.insert(ranges.end(), added.begin(), added.end());
          return true;
        }
    return false;
  }

  Ranges bracket() {
    const bool isNegated = takes("^");
    Ranges ranges;
    bool isFirst = true;
    while (isFirst || !takes("]")) {
      isFirst = false;
      if (namedClass(ranges))
        continue;
      uint32_t low = nextPoint();
      if (low == '\\') {
        if (perlClass(ranges))
          continue;
        low = escaped();
      }
      uint32_t high = low;
      if (sees("-") && at + 1 < text.size() && text[at + 1] != ']') {
        ++at;
        high = nextPoint();
        if (high == '\\')
          high = escaped();
        if (high < low)
          fail("a range of a class is in the wrong order");
      }
      ranges.push_back({low, high});
    }
    if (flags.ignoresCase)
      addOtherCase(ranges);
    ranges = sorted(std::move(ranges));
    return isNegated ? complement(std::move(ranges)) : ranges;
  }

  /// Letters of ASCII in the other case.
  static void addOtherCase(Ranges &ranges) {
    const size_t count = ranges.size();
    for (size_t i = 0; i < count; ++i) {
      const auto [low, high] = ranges[i];
      auto add = [&, low = low, high = high](uint32_t first, uint32_t last, int32_t shift) {
        if (std::max(low, first) <= std::min(high, last))
          ranges.push_back({std::max(low, first) + uint32_t(shift), std::min(high, last) + uint32_t(shift)});
      };
      add('a', 'z', -32);
      add('A', 'Z', 32);
    }
  }

  static Ranges sorted(Ranges ranges) {
    std::sort(ranges.begin(), ranges.end());
    Ranges merged;
    for (const auto &range : ranges)
      if (!merged.empty() && range.first <= merged.back().second)
        merged.back().second = std::max(merged.back().second, range.second);
      else
        merged.push_back(range);
    return merged;
  }
  static Ranges complement(Ranges ranges) {
    Ranges result;
    uint32_t next = 0;
    for (const auto &[low, high] : sorted(std::move(ranges))) {
      if (low > next)
        result.push_back({next, low - 1});
      if (high == UINT32_MAX)
        return result;
      next = high + 1;
    }
    result.push_back({next, UINT32_MAX});
    return result;
  }

  const std::vector<uint32_t> text;
  std::vector<Instruction> &program;
  size_t at = 0, depth = 0;
  Flags flags;
};

Regex::Regex(const std::string &pattern) { Parser(pattern, program); }

bool Regex::matchesAll(const std::string &given) const {
  const std::vector<uint32_t> text = codePoints(given);
  auto isWord = [&](size_t i) { return i < text.size() && text[i] < 0x80 && (std::isalnum(int(text[i])) || text[i] == '_'); };
  // Instructions that wait for the code point at `i`, each once.
  std::vector<size_t> current, next, stack, seenAt(program.size(), SIZE_MAX);
  bool isMatched = false;
  auto follow = [&](size_t start, size_t i, std::vector<size_t> &waiting) {
    stack.push_back(start);
    while (!stack.empty()) {
      const size_t place = stack.back();
      stack.pop_back();
      if (seenAt[place] == i)
        continue;
      seenAt[place] = i;
      const Instruction &instruction = program[place];
      const bool isEdge = (i > 0 && isWord(i - 1)) != isWord(i);
      bool holds = false;
      switch (instruction.code) {
      case Code::Points:
        waiting.push_back(place);
        break;
      case Code::Split:
        stack.push_back(instruction.other);
        stack.push_back(instruction.next);
        break;
      case Code::Jump:
        stack.push_back(instruction.next);
        break;
      case Code::Begin:
        holds = i == 0;
        break;
      case Code::End:
        holds = i == text.size();
        break;
      case Code::LineBegin:
        holds = i == 0 || text[i - 1] == '\n';
        break;
      case Code::LineEnd:
        holds = i == text.size() || text[i] == '\n';
        break;
      case Code::Boundary:
        holds = isEdge;
        break;
      case Code::NoBoundary:
        holds = !isEdge;
        break;
      case Code::Match:
        isMatched |= i == text.size();
        break;
      }
      if (holds)
        stack.push_back(place + 1);
    }
  };
  follow(0, 0, current);
  for (size_t i = 0; i < text.size() && !current.empty(); ++i) {
    next.clear();
    for (size_t place : current) {
      const Ranges &points = program[place].points;
      const auto found = std::upper_bound(points.begin(), points.end(), std::pair(text[i], UINT32_MAX));
      if (found != points.begin() && text[i] <= std::prev(found)->second)
        follow(place + 1, i + 1, next);
    }
    std::swap(current, next);
  }
  return isMatched;
}
