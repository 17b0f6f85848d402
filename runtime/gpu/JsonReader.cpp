//===- JsonReader.cpp - JSON with the place of every mistake --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/gpu/JsonReader.h"

#include <algorithm>
#include <stdexcept>

using namespace tw::runtime::gpu;

Json tw::runtime::gpu::parseJson(const std::string &text) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error &error) {
    const size_t at = std::min(text.size(), error.byte ? size_t(error.byte) - 1 : 0);
    const auto line = std::count(text.begin(), text.begin() + long(at), '\n') + 1;
    const size_t newline = at ? text.rfind('\n', at - 1) : std::string::npos;
    const size_t column = at - (newline == std::string::npos ? 0 : newline + 1) + 1;
    throw std::invalid_argument("line " + std::to_string(line) + ", column " + std::to_string(column) + ": this is no JSON");
  }
}

void tw::runtime::gpu::failJson(const std::string &place, const Json &found, const std::string &allowed) {
  constexpr size_t kMost = 100; // characters
  std::string text = found.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kMost)
    text = text.substr(0, kMost) + "...";
  throw std::invalid_argument(place + " is " + text + " but must be " + allowed);
}

uint64_t tw::runtime::gpu::wholeNumber(const Json &found, const std::string &place, uint64_t least, uint64_t most) {
  if (!found.is_number_integer() || (!found.is_number_unsigned() && found.get<int64_t>() < 0) ||
      found.get<uint64_t>() < least || found.get<uint64_t>() > most)
    failJson(place, found,
             least == most ? std::to_string(least)
                           : "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return found.get<uint64_t>();
}

JsonReader::JsonReader(const Json &value, std::string place) : value(value), where(std::move(place)) {
  if (!value.is_object())
    failJson(where.empty() ? "the document" : where, value, "an object");
}

const Json &JsonReader::at(const char *key) const {
  auto found = value.find(key);
  if (found == value.end())
    throw std::invalid_argument(place(key) + " is missing");
  return *found;
}

uint64_t JsonReader::number(const char *key, uint64_t least, uint64_t most) const {
  return wholeNumber(at(key), place(key), least, most);
}

double JsonReader::real(const char *key) const {
  const Json &found = at(key);
  if (!found.is_number() || !(found.get<double>() >= 0))
    failJson(place(key), found, "a number of at least 0");
  return found.get<double>();
}

std::string JsonReader::text(const char *key) const {
  const Json &found = at(key);
  if (!found.is_string())
    failJson(place(key), found, "a text");
  return found.get<std::string>();
}

bool JsonReader::flag(const char *key) const {
  const Json &found = at(key);
  if (!found.is_boolean())
    failJson(place(key), found, "true or false");
  return found.get<bool>();
}

const Json &JsonReader::array(const char *key) const {
  const Json &found = at(key);
  if (!found.is_array())
    failJson(place(key), found, "a list");
  return found;
}

std::vector<std::string> JsonReader::texts(const char *key) const {
  std::vector<std::string> result;
  for (const Json &each : array(key)) {
    if (!each.is_string())
      failJson(place(key), at(key), "a list of texts");
    result.push_back(each.get<std::string>());
  }
  return result;
}

std::vector<JsonReader> JsonReader::list(const char *key) const {
  std::vector<JsonReader> result;
  for (const Json &each : array(key))
    result.emplace_back(each, place(key) + "[" + std::to_string(result.size()) + "]");
  return result;
}

std::vector<int64_t> JsonReader::wholeNumbers(const char *key, size_t count, int64_t least, int64_t most) const {
  const Json &found = at(key);
  bool isGood = found.is_array() && (!count || found.size() == count);
  std::vector<int64_t> result;
  for (size_t i = 0; isGood && i < found.size(); ++i) {
    isGood = found[i].is_number_integer() &&
             (found[i].is_number_unsigned() ? found[i].get<uint64_t>() <= uint64_t(most)
                                            : found[i].get<int64_t>() >= least && found[i].get<int64_t>() <= most);
    if (isGood)
      result.push_back(found[i].get<int64_t>());
  }
  isGood = isGood && std::all_of(result.begin(), result.end(), [&](int64_t each) { return each >= least && each <= most; });
  if (!isGood)
    failJson(place(key), found,
             (count ? std::to_string(count) + " " : std::string()) + "whole numbers from " + std::to_string(least) + " to " +
                 std::to_string(most));
  return result;
}
