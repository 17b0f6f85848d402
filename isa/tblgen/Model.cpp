//===- Model.cpp - The checked instruction set description ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/tblgen/Model.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/TableGen/Error.h"

#include <algorithm>
#include <map>
#include <set>

using namespace llvm;

namespace tw::tblgen {
namespace {

/// Records of a class in source order (LLVM sorts by name, and anonymous_10
/// stands before anonymous_9).
std::vector<Record *> inSourceOrder(RecordKeeper &records, StringRef className) {
  std::vector<Record *> found = records.getAllDerivedDefinitionsIfDefined(className);
  llvm::sort(found, [](const Record *a, const Record *b) { return a->getID() < b->getID(); });
  return found;
}

[[noreturn]] void fail(const Record *record, const Twine &message) {
  PrintFatalError(record->getLoc(), message);
  llvm_unreachable("PrintFatalError returned");
}

std::string bits(int64_t begin, int64_t end) {
  if (end - begin == 1)
    return "bit " + std::to_string(begin);
  return "bits " + std::to_string(begin) + " to " + std::to_string(end - 1);
}

/// Names become identifiers in C++, SystemVerilog and MLIR.
void checkName(const Record *record, const Twine &what, StringRef name) {
  bool good = !name.empty() && name[0] >= 'a' && name[0] <= 'z' &&
              llvm::all_of(name, [](char c) { return (c >= 'a' && c <= 'z') || isDigit(c) || c == '_'; }) &&
              !name.contains("__") && name.back() != '_';
  if (!good)
    fail(record, what + " '" + name + "' is not a lower_snake_case name");
}

struct NameSet {
  explicit NameSet(std::string what) : what(std::move(what)) {}
  void add(const Record *record, StringRef name) {
    checkName(record, what, name);
    if (!names.insert(name.str()).second)
      fail(record, what + " '" + name + "' is defined twice");
  }
  std::string what;
  std::set<std::string> names;
};

/// What an instruction line may say beside the fields of its own operands.
constexpr StringLiteral kLevelsKey = "levels";

class Reader {
public:
  explicit Reader(RecordKeeper &records) : records(records) {}

  Model read() {
    readLimits();
    readEnumerations();
    readEngines();
    // Only the sources that describe instructions must be complete; Timing.td
    // may be read alone.
    if (!inSourceOrder(records, "Instruction").empty() || !inSourceOrder(records, "BitLayout").empty()) {
      readLayouts();
      readInstructions();
    }
    readTiming();
    return std::move(model);
  }

private:
  void readLimits() {
    NameSet names("limit");
    model.limits.reserve(inSourceOrder(records, "Limit").size());
    for (Record *record : inSourceOrder(records, "Limit")) {
      names.add(record, record->getValueAsString("name"));
      model.limits.push_back({record->getName().str(), record->getValueAsString("name").str(),
                              record->getValueAsString("doc").str(), record->getValueAsInt("value")});
      limitOf[record] = &model.limits.back();
    }
  }

  void readEnumerations() {
    NameSet names("enumeration");
    std::vector<Record *> found = inSourceOrder(records, "Enumeration");
    model.enumerations.reserve(found.size());
    for (Record *record : found) {
      Enumeration e{record->getName().str(), record->getValueAsString("name").str(), record->getValueAsString("doc").str(), {}};
      names.add(record, e.name);
      NameSet caseNames("case of enumeration '" + e.name + "'");
      std::map<int64_t, std::string> values;
      for (Record *entry : record->getValueAsListOfDefs("cases")) {
        Case c{entry->getValueAsString("name").str(), entry->getValueAsString("doc").str(), entry->getValueAsInt("value")};
        caseNames.add(record, c.name);
        auto [other, isNew] = values.insert({c.value, c.name});
        if (!isNew)
          fail(record, "enumeration '" + e.name + "': cases '" + other->second + "' and '" + c.name + "' both have value " +
                           Twine(c.value));
        if (c.value < 0)
          fail(record, "enumeration '" + e.name + "': case '" + c.name + "' has the negative value " + Twine(c.value));
        e.cases.push_back(std::move(c));
      }
      if (!values.count(0))
        fail(record, "enumeration '" + e.name + "' has no case 0, the value of a field nobody sets");
      model.enumerations.push_back(std::move(e));
      enumerationOf[record] = &model.enumerations.back();
    }
  }

  void readEngines() {
    NameSet names("engine");
    std::vector<Record *> found = inSourceOrder(records, "Engine");
    std::map<int64_t, const Record *> byPriority;
    for (Record *record : found) {
      names.add(record, record->getValueAsString("name"));
      int64_t priority = record->getValueAsInt("priority");
      if (!byPriority.insert({priority, record}).second)
        fail(record, "engines '" + byPriority[priority]->getValueAsString("name") + "' and '" +
                         record->getValueAsString("name") + "' both have priority " + Twine(priority));
      if (priority < 0 || priority >= int64_t(found.size()))
        fail(record, "engine '" + record->getValueAsString("name") + "' has priority " + Twine(priority) +
                         ", allowed are 0 to " + Twine(found.size() - 1) + ", each once");
    }
    model.engines.reserve(found.size());
    for (auto [priority, record] : byPriority) {
      model.engines.push_back(
          {record->getName().str(), record->getValueAsString("name").str(), record->getValueAsString("doc").str(), priority});
      engineOf[record] = &model.engines.back();
    }
  }

  Field readField(const Record *owner, const std::string &ownerName, const Record *record) {
    Field field{record->getValueAsString("name").str(), record->getValueAsString("doc").str(),
                record->getValueAsInt("lsb"),           record->getValueAsInt("width"),
                record->getValueAsInt("count"),         record->getValueAsBit("isSigned")};
    std::string what = ownerName + ": " + (field.reserved() ? "a reserved field" : "field '" + field.name + "'");
    if (!field.reserved())
      checkName(owner, ownerName + ": field", field.name);
    if (field.width < 1 || (!field.reserved() && field.width > 48))
      fail(owner, what + " is " + Twine(field.width) + " bits wide, allowed are 1 to 48");
    if (field.count < 1)
      fail(owner, what + " has " + Twine(field.count) + " elements, allowed is 1 or more");
    if (field.isSigned && field.width < 2)
      fail(owner, what + " is signed and has no bit beside the sign");
    if (!isa<UnsetInit>(record->getValueInit("enumeration"))) {
      field.enumeration = enumerationOf.at(record->getValueAsDef("enumeration"));
      for (const Case &c : field.enumeration->cases)
        if (c.value > field.maximum())
          fail(owner, what + " cannot hold case '" + c.name + "' of enumeration '" + field.enumeration->name + "': value " +
                          Twine(c.value) + " is above " + Twine(field.maximum()));
    }
    if (!isa<UnsetInit>(record->getValueInit("limit"))) {
      const Limit *limit = limitOf.at(record->getValueAsDef("limit"));
      if (limit->value > field.maximum() || limit->value < 0)
        fail(owner, what + " cannot hold its limit '" + limit->name + "': " + Twine(limit->value) + " is above " +
                        Twine(field.maximum()));
      field.limit = limit;
    }
    return field;
  }

  void readLayout(const Record *record, const std::string &what, Layout &layout) {
    layout.record = record;
    std::set<std::string> names;
    for (Record *entry : record->getValueAsListOfDefs("fields")) {
      Field field = readField(record, what, entry);
      if (!field.reserved() && !names.insert(field.name).second)
        fail(record, what + ": field '" + field.name + "' is defined twice");
      layout.fields.push_back(std::move(field));
    }
    auto nameOf = [](const Field &field) {
      return field.reserved() ? std::string("a reserved field") : "field '" + field.name + "'";
    };
    // Sorted by position, each field must begin where the one before it ends.
    llvm::stable_sort(layout.fields, [](const Field &a, const Field &b) { return a.lsb < b.lsb; });
    int64_t at = layout.begin;
    const Field *before = nullptr;
    for (const Field &field : layout.fields) {
      if (field.lsb < at)
        fail(record, what + ": " +
                         (before ? nameOf(*before) + " at " + bits(before->lsb, before->end())
                                 : "the header at " + bits(0, layout.begin)) +
                         " and " + nameOf(field) + " at " + bits(field.lsb, field.end()) + " overlap");
      if (field.lsb > at)
        fail(record, what + ": no field covers " + bits(at, field.lsb));
      if (field.end() > layout.end)
        fail(record,
             what + ": " + nameOf(field) + " at " + bits(field.lsb, field.end()) + " goes beyond bit " + Twine(layout.end - 1));
      at = field.end();
      before = &field;
    }
    if (at < layout.end)
      fail(record, what + ": no field covers " + bits(at, layout.end));

    for (Record *entry : record->getValueAsListOfDefs("groups")) {
      Group group{entry->getValueAsString("name").str(), {}};
      checkName(record, what + ": group", group.name);
      if (!names.insert(group.name).second)
        fail(record, what + ": group '" + group.name + "' has the name of a field or another group");
      for (StringRef member : entry->getValueAsListOfStrings("members")) {
        const Field *field = layout.find(member);
        if (!field)
          fail(record, what + ": group '" + group.name + "' names the unknown field '" + member + "'");
        if (field->count != layout.find(entry->getValueAsListOfStrings("members")[0])->count)
          fail(record, what + ": the members of group '" + group.name + "' differ in length");
        group.members.push_back(member.str());
      }
      if (group.members.empty())
        fail(record, what + ": group '" + group.name + "' has no members");
      layout.groups.push_back(std::move(group));
    }
  }

  void readLayouts() {
    for (Record *record : inSourceOrder(records, "BitLayout")) {
      std::string name = record->getValueAsString("name").str();
      Layout *layout = name == "header" ? &model.header : name == "level" ? &model.level : nullptr;
      if (!layout)
        fail(record, "bit layout '" + name + "' is unknown, allowed are 'header' and 'level'");
      if (layout->record)
        fail(record, "bit layout '" + name + "' is defined twice");
      layout->name = name;
      layout->end = record->getValueAsInt("numBits");
      readLayout(record, "bit layout '" + name + "'", *layout);
    }
    if (!model.header.record || !model.level.record)
      PrintFatalError("the bit layouts 'header' and 'level' must both be defined");
    for (StringRef needed : {"opcode", "words", "num_levels"})
      if (!model.header.find(needed))
        fail(model.header.record, "bit layout 'header' lacks the field '" + needed + "'");
    for (StringRef needed : {"word_bits", "level_bits", "max_levels"})
      if (llvm::none_of(model.limits, [&](const Limit &limit) { return limit.name == needed; }))
        PrintFatalError("the limit '" + needed + "' is not defined");
    if (model.level.end != model.limit("level_bits"))
      fail(model.level.record, "bit layout 'level' has " + Twine(model.level.end) + " bits, the limit level_bits says " +
                                   Twine(model.limit("level_bits")));
    if (model.limit("word_bits") % 64 != 0 || model.limit("word_bits") != 2 * model.limit("level_bits"))
      fail(model.level.record,
           "two levels of " + Twine(model.level.end) + " bits do not fill a word of " + Twine(model.limit("word_bits")));
  }

  void readInstructions() {
    NameSet mnemonics("instruction");
    std::map<int64_t, std::string> opcodes;
    int64_t levelWords = (model.limit("max_levels") + 1) / 2;
    for (Record *record : inSourceOrder(records, "Instruction")) {
      Instruction i;
      i.name = record->getValueAsString("mnemonic").str();
      i.opcode = record->getValueAsInt("opcode");
      i.words = record->getValueAsInt("words");
      i.summary = record->getValueAsString("summary").str();
      i.description = record->getValueAsString("description").str();
      i.engine = engineOf.at(record->getValueAsDef("engine"));
      std::string what = "instruction '" + i.name + "'";
      mnemonics.add(record, i.name);
      auto [other, isNew] = opcodes.insert({i.opcode, i.name});
      if (!isNew)
        fail(record, what + " has opcode " + Twine(i.opcode) + ", as instruction '" + other->second + "' has");
      int64_t maxOpcode = model.header.find("opcode")->maximum();
      if (i.opcode < 0 || i.opcode > maxOpcode)
        fail(record, what + " has opcode " + Twine(i.opcode) + ", allowed are 0 to " + Twine(maxOpcode));
      int64_t maxWords = model.header.find("words")->maximum() - levelWords;
      if (i.words < 1 || i.words > maxWords)
        fail(record, what + " has " + Twine(i.words) + " words, allowed are 1 to " + Twine(maxWords));
      i.begin = model.header.end;
      i.end = i.words * model.limit("word_bits");
      readLayout(record, what, i);
      // One name space: an instruction line writes header and operand fields
      // side by side.
      std::set<std::string> taken{kLevelsKey.str()};
      for (const Field &field : model.header.fields)
        taken.insert(field.name);
      for (const Group &group : model.header.groups)
        taken.insert(group.name);
      for (const Field &field : i.fields)
        if (!field.reserved() && taken.count(field.name))
          fail(record, what + ": field '" + field.name + "' has the name of a header field");
      for (const Group &group : i.groups)
        if (taken.count(group.name))
          fail(record, what + ": group '" + group.name + "' has the name of a header field");
      model.instructions.push_back(std::move(i));
    }
    llvm::sort(model.instructions, [](const Instruction &a, const Instruction &b) { return a.opcode < b.opcode; });
  }

  void readTiming() {
    NameSet names("timing record");
    for (Record *record : inSourceOrder(records, "TimingConstant")) {
      TimingConstant c{record->getValueAsString("name").str(), record->getValueAsString("doc").str(),
                       record->getValueAsInt("value")};
      names.add(record, c.name);
      if (c.value < 0 || c.value > UINT32_MAX)
        fail(record, "timing constant '" + c.name + "' is " + Twine(c.value) + ", allowed are 0 to 4294967295");
      model.constants.push_back(std::move(c));
    }
    for (Record *record : inSourceOrder(records, "TimingFormula")) {
      TimingFormula f{record->getValueAsString("name").str(),
                      record->getValueAsString("doc").str(),
                      record->getValueAsString("expression").str(),
                      {}};
      names.add(record, f.name);
      NameSet arguments("argument of timing formula '" + f.name + "'");
      for (StringRef argument : record->getValueAsListOfStrings("arguments")) {
        arguments.add(record, argument);
        if (names.names.count(argument.str()))
          fail(record, "argument '" + argument + "' of timing formula '" + f.name + "' has the name of a timing record");
        f.arguments.push_back(argument.str());
      }
      rewriteIdentifiers(f.expression, [&](StringRef name) {
        bool known = name == "clog2" || llvm::is_contained(f.arguments, name) ||
                     llvm::any_of(model.constants, [&](const TimingConstant &c) { return c.name == name; });
        if (!known)
          fail(record,
               "timing formula '" + f.name + "' names '" + name + "', which is neither an argument nor a timing constant");
        return name.str();
      });
      model.formulas.push_back(std::move(f));
    }
  }

  RecordKeeper &records;
  Model model;
  std::map<const Record *, const Limit *> limitOf;
  std::map<const Record *, const Enumeration *> enumerationOf;
  std::map<const Record *, const Engine *> engineOf;
};

} // namespace

int64_t Field::maximum() const {
  if (limit)
    return limit->value;
  return (int64_t(1) << (isSigned ? width - 1 : width)) - 1;
}

const Field *Layout::find(StringRef field) const {
  for (const Field &candidate : fields)
    if (candidate.name == field)
      return &candidate;
  return nullptr;
}

int64_t Model::limit(StringRef name) const {
  for (const Limit &limit : limits)
    if (limit.name == name)
      return limit.value;
  llvm_unreachable("checked when the model was read");
}

Model readModel(RecordKeeper &records) { return Reader(records).read(); }

std::string upperCamel(StringRef name) {
  std::string text;
  bool up = true;
  for (char c : name) {
    if (c == '_') {
      up = true;
      continue;
    }
    text += up ? toUpper(c) : c;
    up = false;
  }
  return text;
}

std::string lowerCamel(StringRef name) {
  std::string text = upperCamel(name);
  text[0] = toLower(text[0]);
  return text;
}

std::string literal(StringRef text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '"' || c == '\\')
      (out += '\\') += c;
    else
      out += c;
  }
  return out + "\"";
}

std::string rewriteIdentifiers(StringRef expression, function_ref<std::string(StringRef)> rewrite) {
  std::string out;
  for (size_t i = 0; i < expression.size();) {
    size_t j = i;
    while (j < expression.size() && (isAlnum(expression[j]) || expression[j] == '_'))
      ++j;
    if (j == i)
      out += expression[i++];
    else if (isDigit(expression[i]))
      out += expression.slice(i, j).str();
    else
      out += rewrite(expression.slice(i, j));
    i = std::max(i, j);
  }
  return out;
}

} // namespace tw::tblgen
