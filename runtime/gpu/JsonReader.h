//===- JsonReader.h - JSON with the place of every mistake ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_GPU_JSONREADER_H
#define RUNTIME_GPU_JSONREADER_H

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tw::runtime::gpu {

using Json = nlohmann::ordered_json;

/// Throws std::invalid_argument for text that is no JSON: "line 3, column 7: this is no JSON".
Json parseJson(const std::string &text);

/// An object inside of a document. Every function throws std::invalid_argument with the place, what was found and what is allowed:
/// "steps[0].chosen is -1 but must be a whole number from 0 to 3".
class JsonReader {
public:
  /// `place`: empty for the document. Fails if `value` is no object.
  JsonReader(const Json &value, std::string place);

  bool has(const char *key) const { return value.contains(key); }
  std::string place(const char *key) const { return where.empty() ? key : where + "." + key; }

  uint64_t number(const char *key, uint64_t least, uint64_t most) const;
  /// At least 0.
  double real(const char *key) const;
  std::string text(const char *key) const;
  bool flag(const char *key) const;
  std::vector<std::string> texts(const char *key) const;
  JsonReader object(const char *key) const { return JsonReader(at(key), place(key)); }
  /// Of objects.
  std::vector<JsonReader> list(const char *key) const;
  const Json &array(const char *key) const;
  /// `count` whole numbers; 0: any count.
  template <typename T> std::vector<T> numbers(const char *key, size_t count, int64_t least, int64_t most) const {
    std::vector<T> result;
    for (int64_t each : wholeNumbers(key, count, least, most))
      result.push_back(T(each));
    return result;
  }

private:
  const Json &at(const char *key) const;
  std::vector<int64_t> wholeNumbers(const char *key, size_t count, int64_t least, int64_t most) const;

  const Json &value;
  std::string where;
};

/// Throws "PLACE is FOUND but must be ALLOWED".
[[noreturn]] void failJson(const std::string &place, const Json &found, const std::string &allowed);
/// A whole number that stands somewhere.
uint64_t wholeNumber(const Json &found, const std::string &place, uint64_t least, uint64_t most);

} // namespace tw::runtime::gpu

#endif // RUNTIME_GPU_JSONREADER_H
