//===- YamlText.cpp - YAML that people write ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "hw-configs/YamlText.h"

#include <yaml-cpp/eventhandler.h>

#include <optional>
#include <sstream>

namespace tw::hwconfigs {

Place placeAt(const YAML::Mark &mark, const std::string &file) {
  if (mark.is_null())
    return {file, 0, 0};
  return {file, unsigned(mark.line + 1), unsigned(mark.column + 1)};
}

std::string quote(const std::string &text) {
  std::string shown = text.substr(0, 60);
  for (char &c : shown)
    if (static_cast<unsigned char>(c) < 32)
      c = ' ';
  return "'" + shown + (text.size() > 60 ? "..." : "") + "'";
}

namespace {

/// What keeps a text from being one block of keys, found before any node is
/// made. yaml-cpp finds endless documents in some texts, such as a comma.
class Outline : public YAML::EventHandler {
public:
  /// Throws what yaml-cpp does on a text that is no YAML.
  static std::optional<Diagnostic> problem(const std::string &text, const std::string &from) {
    std::istringstream in(text);
    YAML::Parser parser(in);
    Outline outline;
    try {
      if (!parser.HandleNextDocument(outline) || !outline.isMap)
        return Diagnostic{from, 1, 1, "must be a block of keys"};
      if (parser.HandleNextDocument(outline))
        return Diagnostic{from, 1, 1, "holds more than one document"};
    } catch (const TooMany &many) {
      Place place = placeAt(many.mark, from);
      return Diagnostic{from, place.line, place.column,
                        "more than " + std::to_string(kMaxValues) + " keys and values, which no machine file has"};
    }
    return std::nullopt;
  }

  void OnDocumentStart(const YAML::Mark &) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark &mark, YAML::anchor_t) override { count(mark); }
  void OnAlias(const YAML::Mark &mark, YAML::anchor_t) override { count(mark); }
  void OnScalar(const YAML::Mark &mark, const std::string &, YAML::anchor_t, const std::string &) override { count(mark); }
  void OnSequenceStart(const YAML::Mark &mark, const std::string &, YAML::anchor_t, YAML::EmitterStyle::value) override {
    count(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark &mark, const std::string &, YAML::anchor_t, YAML::EmitterStyle::value) override {
    isMap |= !values;
    count(mark);
  }
  void OnMapEnd() override {}

private:
  static constexpr unsigned kMaxValues = 10000;
  struct TooMany {
    YAML::Mark mark;
  };

  void count(const YAML::Mark &mark) {
    if (++values > kMaxValues)
      throw TooMany{mark};
  }

  unsigned values = 0;
  bool isMap = false; ///< the first document is
};

} // namespace

YAML::Node parseYaml(const std::string &text, const std::string &from, Diagnostics &problems) {
  try {
    if (std::optional<Diagnostic> problem = Outline::problem(text, from))
      problems.push_back(*problem);
    else
      return YAML::Load(text);
  } catch (const YAML::Exception &exception) {
    const Place place = placeAt(exception.mark, from);
    problems.push_back({place.file, place.line, place.column, "not YAML: " + exception.msg});
  }
  return YAML::Node(YAML::NodeType::Null);
}

} // namespace tw::hwconfigs
