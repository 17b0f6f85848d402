//===- Strings.cpp - Operators on strings ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Elements.h"
#include "compiler/operators/Operator.h"
#include "compiler/operators/Regex.h"
#include "compiler/operators/Signals.h"
#include "isa/Printable.h"

#include <limits>
#include <map>
#include <set>

using namespace tw;
using namespace tw::operators;

namespace {

const HostTensor &stringsOf(const Call &call, size_t i) {
  const HostTensor &x = call.input(i);
  if (x.type != ElementKind::String)
    call.fail("input " + std::to_string(i) + " is " + frontend::elementName(x.type) + ", expected strings");
  return x;
}

// source: ONNX, operator StringConcat
void evaluateStringConcat(Call &call) {
  const HostTensor &a = stringsOf(call, 0), &b = stringsOf(call, 1);
  const Shape shape = broadcast(a.shape, b.shape);
  HostTensor &y = call.output(0, ElementKind::String, shape);
  walk<2>(shape, {broadcastStrides(a.shape, shape), broadcastStrides(b.shape, shape)},
          [&](int64_t i, const std::array<int64_t, 2> &at) {
            y.strings[size_t(i)] = a.strings[size_t(at[0])] + b.strings[size_t(at[1])];
          });
}

/// At runs of white space, which also goes at both ends; what is left after `most` splits keeps its end.
std::vector<std::string> splitAtSpace(const std::string &text, int64_t most) {
  static const char *space = " \t\n\v\f\r";
  std::vector<std::string> parts;
  for (size_t at = text.find_first_not_of(space); at != std::string::npos;) {
    const size_t end = int64_t(parts.size()) == most ? std::string::npos : text.find_first_of(space, at);
    parts.push_back(text.substr(at, end == std::string::npos ? end : end - at));
    at = end == std::string::npos ? end : text.find_first_not_of(space, end);
  }
  return parts;
}

std::vector<std::string> splitAt(const std::string &text, const std::string &delimiter, int64_t most) {
  std::vector<std::string> parts;
  for (size_t at = 0;;) {
    const size_t end = int64_t(parts.size()) == most ? std::string::npos : text.find(delimiter, at);
    parts.push_back(text.substr(at, end == std::string::npos ? end : end - at));
    if (end == std::string::npos)
      return parts;
    at = end + delimiter.size();
  }
}

// source: ONNX, operator StringSplit
void evaluateStringSplit(Call &call) {
  const HostTensor &x = stringsOf(call, 0);
  const std::string delimiter = call.stringAttr("delimiter", "");
  const int64_t most = call.intAttr("maxsplit", -1);
  std::vector<std::vector<std::string>> all;
  size_t longest = 0;
  HostTensor &counts = call.output(1, ElementKind::I64, x.shape);
  for (const std::string &text : x.strings) {
    all.push_back(delimiter.empty() ? splitAtSpace(text, most) : splitAt(text, delimiter, most));
    longest = std::max(longest, all.back().size());
    data<int64_t>(counts)[all.size() - 1] = int64_t(all.back().size());
  }
  Shape shape = x.shape;
  shape.push_back(int64_t(longest));
  HostTensor &y = call.output(0, ElementKind::String, shape);
  for (size_t i = 0; i < all.size(); ++i)
    std::move(all[i].begin(), all[i].end(), y.strings.begin() + int64_t(i * longest));
}

/// The other case of one letter: ASCII, Latin, Greek and Cyrillic. source: Unicode, UnicodeData
uint32_t otherCase(uint32_t point, bool toUpper) {
  auto shifted = [&](uint32_t first, uint32_t last, uint32_t distance) -> uint32_t {
    // Capitals from `first` to `last`, small letters `distance` behind them.
    if (toUpper)
      return point >= first + distance && point <= last + distance ? point - distance : point;
    return point >= first && point <= last ? point + distance : point;
  };
  if (point < 0x80)
    return shifted('A', 'Z', 32);
  if (point == 0xd7 || point == 0xf7 || point == 0x3a2 || point == 0x3c2)
    return point == 0x3c2 && toUpper ? 0x3a3 : point;
  if (point == 0xff || point == 0x178)
    return toUpper ? 0x178 : 0xff;
  if (point < 0x100)
    return shifted(0xc0, 0xde, 32);
  // Latin letters in pairs: capital, small.
  const bool isEven = (point >= 0x100 && point <= 0x137 && point != 0x130 && point != 0x131) ||
                      (point >= 0x14a && point <= 0x177) || (point >= 0x460 && point <= 0x481) ||
                      (point >= 0x1e00 && point <= 0x1e95);
  const bool isOdd = (point >= 0x139 && point <= 0x148) || (point >= 0x179 && point <= 0x17e);
  if (isEven)
    return toUpper ? point & ~1u : point | 1u;
  if (isOdd)
    return toUpper ? ((point - 1) & ~1u) + 1 : (point + 1) & ~1u;
  if (point >= 0x391 && point <= 0x3cb)
    return shifted(0x391, 0x3ab, 32);
  if (point >= 0x410 && point <= 0x44f)
    return shifted(0x410, 0x42f, 32);
  if (point >= 0x400 && point <= 0x45f)
    return shifted(0x400, 0x40f, 80);
  return point;
}

std::string inCase(const std::string &text, bool toUpper) {
  std::string result;
  for (uint32_t point : codePoints(text))
    appendCodePoint(result, otherCase(point, toUpper));
  return result;
}

// source: ONNX, operator StringNormalizer
void evaluateStringNormalizer(Call &call) {
  const HostTensor &x = stringsOf(call, 0);
  if (x.shape.size() != 1 && (x.shape.size() != 2 || x.shape[0] != 1))
    call.fail("input has shape " + textOf(x.shape) + ", expected [c] or [1, c]");
  const std::string action = call.stringAttr("case_change_action", "NONE");
  if (action != "NONE" && action != "LOWER" && action != "UPPER")
    call.fail("case_change_action is \"" + printable(action) + "\", expected NONE, LOWER or UPPER");
  const std::string locale = call.stringAttr("locale", "");
  const std::string name = locale.substr(0, locale.find('.'));
  if (!name.empty() && name != "C" && name != "POSIX" && name.compare(0, 2, "en") != 0)
    call.fail("locale is \"" + printable(locale) + "\", expected C or en_US");
  const bool isSensitive = call.flagAttr("is_case_sensitive", false);
  auto key = [&](const std::string &word) { return isSensitive ? word : inCase(word, false); };
  std::set<std::string> dropped;
  for (const std::string &word : call.stringsAttr("stopwords", std::vector<std::string>()))
    dropped.insert(key(word));
  std::vector<std::string> kept;
  for (const std::string &word : x.strings)
    if (!dropped.count(key(word)))
      kept.push_back(action == "NONE" ? word : inCase(word, action == "UPPER"));
  if (kept.empty())
    kept.emplace_back();
  Shape shape = x.shape;
  shape.back() = int64_t(kept.size());
  call.output(0, ElementKind::String, shape).strings = std::move(kept);
}

// source: ONNX, operator RegexFullMatch
void evaluateRegexFullMatch(Call &call) {
  const HostTensor &x = stringsOf(call, 0);
  const Regex regex(call.stringAttr("pattern", ""));
  HostTensor &y = call.output(0, ElementKind::Bool, x.shape);
  for (size_t i = 0; i < x.strings.size(); ++i)
    y.bytes[i] = regex.matchesAll(x.strings[i]);
}

/// The n-grams of a TfIdfVectorizer: how often each occurs is counted at its index in the result.
struct Vocabulary {
  /// From the words of an n-gram to its number, which counts all of them.
  std::map<std::vector<int64_t>, size_t> numbers;
  std::vector<int64_t> indexes;
  /// Words of the longest n-grams.
  int64_t longest = 0;
  /// Words that are strings, and their numbers.
  std::map<std::string, int64_t> words;
};

Vocabulary vocabularyOf(const Call &call, bool isOfStrings) {
  Vocabulary vocabulary;
  std::vector<int64_t> pool;
  if (isOfStrings) {
    for (const std::string &word : call.stringsAttr("pool_strings"))
      pool.push_back(vocabulary.words.emplace(word, int64_t(vocabulary.words.size())).first->second);
  } else {
    pool = call.intsAttr("pool_int64s");
  }
  vocabulary.indexes = call.intsAttr("ngram_indexes");
  const std::vector<int64_t> counts = call.intsAttr("ngram_counts");
  const int64_t total = int64_t(pool.size());
  vocabulary.longest = int64_t(counts.size());
  size_t number = 0;
  for (size_t n = 0; n < counts.size(); ++n) {
    const int64_t first = counts[n], last = n + 1 < counts.size() ? counts[n + 1] : total, length = int64_t(n) + 1;
    if (first < 0 || last < first || last > total || (last - first) % length != 0)
      call.fail("ngram_counts " + textOf(counts) + " do not fit a pool of " + std::to_string(total));
    for (int64_t at = first; at < last; at += length, ++number)
      vocabulary.numbers.emplace(std::vector<int64_t>(pool.begin() + at, pool.begin() + at + length), number);
  }
  if (number != vocabulary.indexes.size())
    call.fail("there are " + std::to_string(number) + " n-grams and " + std::to_string(vocabulary.indexes.size()) +
              " ngram_indexes");
  return vocabulary;
}

// source: ONNX, operator TfIdfVectorizer
void evaluateTfIdfVectorizer(Call &call) {
  const HostTensor &x = call.input(0);
  if (x.shape.size() != 1 && x.shape.size() != 2)
    call.fail("input has shape " + textOf(x.shape) + ", expected [c] or [n, c]");
  const bool isOfStrings = x.type == ElementKind::String;
  if (!isOfStrings && x.type != ElementKind::I32 && x.type != ElementKind::I64)
    call.fail(std::string("input is ") + frontend::elementName(x.type) + ", expected strings, int32 or int64");
  const int64_t shortest = call.intAttr("min_gram_length"), longest = call.intAttr("max_gram_length");
  const int64_t skips = call.intAttr("max_skip_count");
  if (shortest < 1 || longest < shortest || skips < 0)
    call.fail("min_gram_length is " + std::to_string(shortest) + ", max_gram_length " + std::to_string(longest) +
              " and max_skip_count " + std::to_string(skips) + ", expected 1 <= min <= max and no negative skips");
  const std::string mode = call.stringAttr("mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    call.fail("mode is \"" + printable(mode) + "\", expected TF, IDF or TFIDF");
  const Vocabulary vocabulary = vocabularyOf(call, isOfStrings);
  const size_t ngrams = vocabulary.indexes.size();
  std::vector<float> weights = call.floatsAttr("weights", std::vector<float>(ngrams, 1.0f));
  if (weights.size() != ngrams)
    call.fail("there are " + std::to_string(weights.size()) + " weights for " + std::to_string(ngrams) + " n-grams");
  int64_t size = 0;
  for (int64_t index : vocabulary.indexes) {
    if (index < 0 || index > std::numeric_limits<int32_t>::max())
      call.fail("an index of ngram_indexes is " + std::to_string(index));
    size = std::max(size, index + 1);
  }
  const int64_t rows = x.shape.size() == 2 ? x.shape[0] : 1, length = x.shape.back();
  HostTensor &y = call.output(0, ElementKind::F32, x.shape.size() == 2 ? Shape{rows, size} : Shape{size});
  std::vector<int64_t> words(static_cast<size_t>(length)), ngram;
  std::vector<int64_t> counts(ngrams);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < length; ++i) {
      const int64_t at = row * length + i;
      if (isOfStrings) {
        const auto found = vocabulary.words.find(x.strings[size_t(at)]);
        words[size_t(i)] = found == vocabulary.words.end() ? -1 : found->second;
      } else {
        words[size_t(i)] = integerAt(x, at);
      }
    }
    std::fill(counts.begin(), counts.end(), 0);
    for (int64_t n = shortest; n <= std::min({longest, length, vocabulary.longest}); ++n)
      // Between the words of an n-gram lie equally many others; one word has none between.
      for (int64_t distance = 1; distance - 1 <= (n == 1 ? 0 : skips) && (n - 1) * distance < length; ++distance)
        for (int64_t first = 0; first + (n - 1) * distance < length; ++first) {
          ngram.clear();
          for (int64_t k = 0; k < n; ++k)
            ngram.push_back(words[size_t(first + k * distance)]);
          if (const auto found = vocabulary.numbers.find(ngram); found != vocabulary.numbers.end())
            ++counts[found->second];
        }
    for (size_t i = 0; i < ngrams; ++i) {
      const float frequency = mode == "IDF" ? float(counts[i] > 0) : float(counts[i]);
      data<float>(y)[row * size + vocabulary.indexes[i]] += mode == "TF" ? frequency : frequency * weights[i];
    }
  }
}

} // namespace

void operators::addStrings(Table &table) {
  table[":StringConcat"] = {evaluateStringConcat, {}};
  table[":StringSplit"] = {evaluateStringSplit, {}, /*isDynamic=*/true};
  table[":StringNormalizer"] = {evaluateStringNormalizer, {}, /*isDynamic=*/true};
  table[":RegexFullMatch"] = {evaluateRegexFullMatch, {}};
  table[":TfIdfVectorizer"] = {evaluateTfIdfVectorizer, {}};
}
