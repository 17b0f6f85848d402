//===- Request.cpp - What a schedule file asks of a kernel -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Request.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <climits>

using namespace mlir;
using namespace tw;
using namespace tw::accel;

namespace {
constexpr const char *kKeys[] = {
    "sizes",      "ic",         "order",          "depth",        "panel",       "banks",         "behind",      "overlap",
    "one_sum",    "by_block",   "begins_small",   "ends_small",   "begins_wide", "one_loader",    "whole_banks", "spreads",
    "serpentine", "keeps_sums", "carries_maxima", "as_made",      "rolling",     "packed",        "first",       "last",
    "on_chip",    "bands",      "from",           "placed_first", "engine",      "array_channels"};
/// Those of the op `buffers` that are true or false, in the order in which they are written.
constexpr std::pair<const char *, std::optional<bool> TileRequest::*> kBufferFlags[] = {
    {"behind", &TileRequest::behind},
    {"overlap", &TileRequest::overlap},
    {"one_sum", &TileRequest::oneSum},
    {"by_block", &TileRequest::byBlock},
    {"begins_small", &TileRequest::beginsSmall},
    {"ends_small", &TileRequest::endsSmall},
    {"begins_wide", &TileRequest::beginsWide},
    {"one_loader", &TileRequest::oneLoader},
    {"whole_banks", &TileRequest::wholeBanks},
    {"spreads", &TileRequest::spreads},
    {"serpentine", &TileRequest::serpentine},
    {"keeps_sums", &TileRequest::keepsSums},
    {"carries_maxima", &TileRequest::carriesMaxima},
    {"as_made", &TileRequest::asMade}};

std::string textOf(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  attribute.print(stream, /*elideType=*/true);
  return text;
}

std::string placeOf(Attribute location) {
  if (auto loc = dyn_cast<LocationAttr>(location))
    if (auto place = Location(loc)->findInstanceOf<FileLineColLoc>())
      return (place.getFilename().getValue() + ":" + Twine(place.getLine()) + ":" + Twine(place.getColumn())).str();
  return "";
}
} // namespace

std::string accel::alternatives(llvm::ArrayRef<const char *> names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + std::string(names[i]);
  return text;
}

FailureOr<TileRequest> accel::parseRequest(DictionaryAttr keys, llvm::function_ref<InFlightDiagnostic()> emitError) {
  TileRequest request;
  auto wrong = [&](NamedAttribute key, const std::string &allowed) {
    return emitError() << "'" << key.getName().getValue() << "' is " << textOf(key.getValue()) << " but must be " << allowed;
  };
  auto number = [](Attribute value, int64_t least) -> std::optional<int64_t> {
    auto integer = dyn_cast<IntegerAttr>(value);
    if (!integer || !integer.getType().isInteger(64) || integer.getInt() < least || integer.getInt() > INT_MAX)
      return std::nullopt;
    return integer.getInt();
  };
  for (NamedAttribute key : keys) {
    StringRef name = key.getName().getValue();
    Attribute value = key.getValue();
    auto flag = [&](std::optional<bool> &result) -> LogicalResult {
      auto boolean = dyn_cast<BoolAttr>(value);
      if (!boolean)
        return wrong(key, "true or false");
      result = boolean.getValue();
      return success();
    };
    auto choice = [&](llvm::ArrayRef<const char *> names, std::optional<unsigned> &result) -> LogicalResult {
      auto text = dyn_cast<StringAttr>(value);
      auto known = text ? llvm::find(names, text.getValue()) : names.end();
      if (known == names.end())
        return wrong(key, alternatives(names));
      result = unsigned(known - names.begin());
      return success();
    };
    LogicalResult result = success();
    if (name == "sizes") {
      auto list = dyn_cast<ArrayAttr>(value);
      bool fits = list && list.size() == request.size.size();
      for (size_t i = 0; fits && i < list.size(); ++i) {
        std::optional<int64_t> size = number(list[i], 0);
        fits = size.has_value();
        request.size[i] = size.value_or(0);
      }
      if (!fits)
        result = wrong(key, "four sizes, [channels, x, y, n], 0 where the compiler chooses");
    } else if (name == "ic" || name == "depth" || name == "bands" || name == "from" || name == "rolling") {
      std::optional<int64_t> count = number(value, 1);
      if (!count)
        result = wrong(key, "a positive number");
      else if (name == "ic")
        request.ic = *count;
      else if (name == "bands")
        request.bands = *count;
      else if (name == "from")
        request.keptFrom = *count;
      else if (name == "rolling")
        request.rolling = *count;
      else
        request.depth = unsigned(*count);
    } else if (name == "first" || name == "last") {
      auto list = dyn_cast<ArrayAttr>(value);
      std::optional<int64_t> tiles, positions;
      if (list && list.size() == 2) {
        tiles = number(list[0], 1);
        positions = number(list[1], 1);
      }
      if (!tiles || !positions)
        result = wrong(key, "two positive numbers, [tiles, positions along x]");
      else
        (name == "first" ? request.first : request.last) = Cut{*tiles, *positions};
    } else if (name == "banks") {
      auto list = dyn_cast<ArrayAttr>(value);
      std::optional<int64_t> first, end;
      if (list && list.size() == 2) {
        first = number(list[0], 0);
        end = number(list[1], 1);
      }
      if (!first || !end || *first >= *end)
        result = wrong(key, "two numbers, [first, end), the first less than the end");
      else
        request.banks = {*first, *end};
    } else if (name == "order") {
      result = choice(kOrderNames, request.order);
    } else if (name == "panel") {
      result = choice(kPanelNames, request.panel);
    } else if (name == "engine") {
      result = choice(kEngineNames, request.engine);
    } else if (name == "array_channels") {
      request.arrayChannels = number(value, 0);
      if (!request.arrayChannels)
        result = wrong(key, "a number, 0 or more");
    } else if (auto known = llvm::find_if(kBufferFlags, [&](const auto &each) { return name == each.first; });
               known != std::end(kBufferFlags)) {
      result = flag(request.*known->second);
    } else if (name == "packed") {
      result = flag(request.packed);
    } else if (name == "on_chip") {
      result = flag(request.onChip);
    } else if (name == "placed_first") {
      result = flag(request.placedFirst);
    } else if (name == "tile_at") {
      request.tileAt = placeOf(value);
    } else if (name == "buffers_at") {
      request.buffersAt = placeOf(value);
    } else if (name == "keep_at") {
      request.keepAt = placeOf(value);
    } else if (name == "assign_at") {
      request.assignAt = placeOf(value);
    } else {
      result = emitError() << "unknown key '" << name << "', expected one of " << alternatives(kKeys);
    }
    if (failed(result))
      return failure();
  }
  if (request.bands && !request.onChip.value_or(false))
    return emitError() << "'bands' is " << request.bands << " but on_chip is not true";
  if (request.arrayChannels && request.engine && kEngineNames[*request.engine] != StringRef("vector"))
    return emitError() << "'array_channels' is " << *request.arrayChannels << " but engine is "
                       << kEngineNames[*request.engine];
  if (request.keptFrom && (!request.onChip.value_or(false) || request.bands))
    return emitError() << "'from' is " << request.keptFrom << " but "
                       << (request.bands ? "there are bands" : "on_chip is not true");
  if (request.placedFirst.value_or(false) && (!request.onChip.value_or(false) || request.bands))
    return emitError() << "'placed_first' is true but " << (request.bands ? "there are bands" : "on_chip is not true");
  return request;
}

FailureOr<TileRequest> accel::requestOf(func::FuncOp function) {
  Attribute attribute = function->getAttr(kRequestAttr);
  if (!attribute)
    return TileRequest();
  auto keys = dyn_cast<DictionaryAttr>(attribute);
  if (!keys)
    return function.emitError() << "'" << kRequestAttr << "' is " << textOf(attribute) << " but must be a dictionary";
  return parseRequest(keys, [&] { return function.emitError() << "in '" << kRequestAttr << "': "; });
}

std::string accel::printRequest(const std::string &handle, const TileRequest &request) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto line = [&](const char *directive, const std::vector<std::string> &keys) {
    if (!keys.empty())
      os << "    transform.tilewright." << directive << " " << handle << " {" << llvm::join(keys, ", ") << "}\n";
  };
  auto flag = [](const char *key, std::optional<bool> value) { return key + std::string(*value ? " = true" : " = false"); };
  std::vector<std::string> tile, buffers;
  const auto &size = request.size;
  if (llvm::any_of(size, [](int64_t s) { return s != 0; }))
    tile.push_back(llvm::formatv("sizes = [{0}, {1}, {2}, {3}]", size[0], size[1], size[2], size[3]));
  if (request.ic)
    tile.push_back("ic = " + std::to_string(request.ic));
  if (request.order)
    tile.push_back("order = \"" + std::string(kOrderNames[*request.order]) + "\"");
  if (request.packed)
    tile.push_back(flag("packed", request.packed));
  for (auto [key, cut] : {std::pair("first", request.first), std::pair("last", request.last)})
    if (cut)
      tile.push_back(llvm::formatv("{0} = [{1}, {2}]", key, cut->tiles, cut->positions));
  if (request.depth)
    buffers.push_back("depth = " + std::to_string(request.depth));
  if (request.panel)
    buffers.push_back("panel = \"" + std::string(kPanelNames[*request.panel]) + "\"");
  if (request.banks)
    buffers.push_back(llvm::formatv("banks = [{0}, {1}]", (*request.banks)[0], (*request.banks)[1]));
  for (auto [key, member] : kBufferFlags)
    if (request.*member)
      buffers.push_back(flag(key, request.*member));
  if (request.rolling)
    buffers.push_back("rolling = " + std::to_string(request.rolling));
  line("tile", tile);
  line("buffers", buffers);
  if (request.onChip)
    line("keep", {flag("on_chip", request.onChip) + (request.bands ? ", bands = " + std::to_string(request.bands) : "") +
                  (request.keptFrom ? ", from = " + std::to_string(request.keptFrom) : "") +
                  (request.placedFirst ? ", " + flag("placed_first", request.placedFirst) : "")});
  if (request.engine)
    line("assign", {"engine = \"" + std::string(kEngineNames[*request.engine]) + "\"" +
                    (request.arrayChannels ? ", array_channels = " + std::to_string(*request.arrayChannels) : "")});
  return text;
}

std::string accel::printScheduleFile(const std::string &base, const WaysRequest &ways,
                                     llvm::ArrayRef<std::pair<std::string, TileRequest>> choices) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "module attributes {transform.with_named_sequence, " << kBaseAttr << " = \"" << base << "\"";
  forEachWay([&](llvm::StringRef attribute, llvm::ArrayRef<const char *> names, auto member) {
    if (ways.*member)
      os << ", " << attribute << " = \"" << names[size_t(*(ways.*member))] << "\"";
  });
  os << "} {\n"
     << "  transform.named_sequence @__transform_main(%model: !transform.any_op) {\n";
  unsigned number = 0;
  for (const auto &[name, request] : choices) {
    std::string handle = "%k" + std::to_string(number++);
    os << "    " << handle << " = transform.tilewright.match_node \"";
    llvm::printEscapedString(name, os);
    os << "\"\n";
    os << printRequest(handle, request);
  }
  os << "    transform.yield\n  }\n}\n";
  return text;
}
