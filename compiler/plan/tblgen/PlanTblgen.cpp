//===- PlanTblgen.cpp - Generator of everything that names a knob *- C++ -*-==//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   plan-tblgen -gen-knobs -I compiler/plan compiler/plan/Knobs.td -o Knobs.inc
//===----------------------------------------------------------------------===//
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/TableGen/Error.h"
#include "llvm/TableGen/Main.h"
#include "llvm/TableGen/Record.h"

#include <algorithm>

using namespace llvm;

namespace {
enum class Action { Knobs, Manual };
cl::opt<Action> action(cl::desc("what to write:"),
                       cl::values(clEnumValN(Action::Knobs, "gen-knobs", "compiler/plan/Knobs.inc"),
                                  clEnumValN(Action::Manual, "gen-manual", "the tables of docs/schedule-file.md")));

/// In the order of the description: records without a name are numbered as they come.
std::vector<const Record *> knobsOf(RecordKeeper &records, StringRef owner) {
  std::vector<const Record *> knobs;
  for (const Record *knob : records.getAllDerivedDefinitions(owner))
    knobs.push_back(knob);
  llvm::sort(knobs, [](const Record *a, const Record *b) { return a->getLoc()[0].getPointer() < b->getLoc()[0].getPointer(); });
  StringSet<> names;
  for (const Record *knob : knobs) {
    if (!names.insert(knob->getValueAsString("name")).second)
      PrintFatalError(knob->getLoc(), "two knobs are named '" + knob->getValueAsString("name") + "'");
    if (knob->getValueAsString("doc").empty())
      PrintFatalError(knob->getLoc(), "knob '" + knob->getValueAsString("name") + "' has no meaning");
  }
  return knobs;
}

/// snake_case to the name of a field.
std::string fieldName(StringRef name) { return convertToCamelFromSnakeCase(name); }

std::string quoted(StringRef text) {
  std::string result;
  raw_string_ostream os(result);
  os << '"';
  printEscapedString(text, os);
  os << '"';
  return result;
}

std::vector<StringRef> spellingsOf(const Record &knob) {
  return knob.getValueAsDef("type")->getValueAsListOfStrings("spellings");
}

std::string allowedText(const Record &knob) {
  std::string text = knob.getValueAsDef("type")->getValueAsString("allowed").str();
  std::vector<StringRef> names = spellingsOf(knob);
  for (auto [i, name] : enumerate(names))
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + name.str();
  return text;
}

/// The initialiser of a KnobInfo.
void printInfo(const Record &knob, raw_ostream &os) {
  const Record *candidates = knob.getValueAsDef("candidates");
  const char *kind = candidates->isSubClassOf("OneOf")      ? "Numbers"
                     : candidates->getName() == "AllValues" ? "All"
                     : candidates->getName() == "FromShape" ? "FromShape"
                                                            : "None";
  os << "{" << quoted(knob.getValueAsString("name")) << ", " << quoted(knob.getValueAsString("doc")) << ", "
     << quoted(allowedText(knob)) << ", {";
  for (StringRef name : spellingsOf(knob))
    os << quoted(name) << ", ";
  os << "}, KnobInfo::" << kind << ", {";
  if (candidates->isSubClassOf("OneOf"))
    for (int64_t value : candidates->getValueAsListOfInts("values"))
      os << value << ", ";
  os << "}, " << quoted(knob.getValueAsString("theDefault"));
  if (knob.isSubClassOf("KernelKnob"))
    os << ", " << knob.getValueAsBit("ofKind") << ", " << knob.getValueAsBit("needsTiles");
  os << "}";
}

void printKnobs(ArrayRef<const Record *> knobs, StringRef structName, StringRef macro, raw_ostream &os) {
  os << "#ifdef GET_" << macro << "_FIELDS\n#undef GET_" << macro << "_FIELDS\n";
  for (const Record *knob : knobs)
    os << "/// " << knob->getValueAsString("doc") << ".\n"
       << knob->getValueAsDef("type")->getValueAsString("cpp") << " " << fieldName(knob->getValueAsString("name")) << "{};\n";
  os << "#endif\n\n#ifdef GET_" << macro << "_VISITS\n#undef GET_" << macro << "_VISITS\n";
  for (auto [i, knob] : enumerate(knobs))
    os << "visit(infos[" << i << "], &" << structName << "::" << fieldName(knob->getValueAsString("name")) << ");\n";
  os << "#endif\n\n#ifdef GET_" << macro << "_INFOS\n#undef GET_" << macro << "_INFOS\n";
  for (const Record *knob : knobs) {
    printInfo(*knob, os);
    os << ",\n";
  }
  os << "#endif\n\n";
}

/// The knobs that a tile has values of: an enumerator, a field and a case of a switch each.
void printTileKnobs(ArrayRef<const Record *> knobs, raw_ostream &os) {
  std::vector<const Record *> ofTile;
  copy_if(knobs, std::back_inserter(ofTile), [](const Record *knob) { return knob->getValueAsBit("ofTile"); });
  auto enumerator = [](const Record *knob) {
    return "TileKnob::" + convertToCamelFromSnakeCase(knob->getValueAsString("name"), /*capitalizeFirst=*/true);
  };
  os << "#ifdef GET_TILE_KNOB_ENUM\n#undef GET_TILE_KNOB_ENUM\n";
  for (const Record *knob : ofTile)
    os << StringRef(enumerator(knob)).substr(strlen("TileKnob::")) << ",\n";
  os << "#endif\n\n#ifdef GET_TILE_KNOB_LIST\n#undef GET_TILE_KNOB_LIST\n";
  for (const Record *knob : ofTile)
    os << enumerator(knob) << ",\n";
  os << "#endif\n\n#ifdef GET_TILE_KNOB_FIELDS\n#undef GET_TILE_KNOB_FIELDS\n";
  for (const Record *knob : ofTile)
    os << "/// " << knob->getValueAsString("doc") << ".\n"
       << knob->getValueAsDef("type")->getValueAsString("plain") << " " << fieldName(knob->getValueAsString("name")) << "{"
       << knob->getValueAsString("tileValue") << "};\n";
  os << "#endif\n\n#ifdef GET_TILE_KNOB_EQUALITIES\n#undef GET_TILE_KNOB_EQUALITIES\n";
  for (const Record *knob : ofTile) {
    const std::string field = fieldName(knob->getValueAsString("name"));
    os << (knob == ofTile.front() ? "" : " && ") << field << " == other." << field << "\n";
  }
  os << "#endif\n\n#ifdef GET_TILE_KNOB_CASES\n#undef GET_TILE_KNOB_CASES\n";
  for (const Record *knob : ofTile) {
    const std::string field = fieldName(knob->getValueAsString("name"));
    os << "case " << enumerator(knob) << ":\n  return visit(&TileKnobs::" << field << ", &KernelPlan::" << field << ");\n";
  }
  os << "#endif\n\n";
}

/// For each kernel knob that a network knob stands in for: `plan` takes the value of `network` where it leaves the knob open.
void printNetworkDefaults(ArrayRef<const Record *> knobs, ArrayRef<const Record *> networkKnobs, raw_ostream &os) {
  os << "#ifdef GET_KERNEL_KNOBS_FROM_NETWORK\n#undef GET_KERNEL_KNOBS_FROM_NETWORK\n";
  for (const Record *knob : knobs) {
    const StringRef name = knob->getValueAsString("fromNetwork");
    if (name.empty())
      continue;
    auto isNamed = [&](const Record *other) { return other->getValueAsString("name") == name; };
    if (none_of(networkKnobs, isNamed))
      PrintFatalError(knob->getLoc(), "no network knob is named '" + name + "'");
    const std::string field = fieldName(knob->getValueAsString("name"));
    os << "if (!isSet(plan." << field << "))\n  plan." << field << " = network." << fieldName(name) << ";\n";
  }
  os << "#endif\n\n";
}

bool writeKnobs(raw_ostream &os, RecordKeeper &records) {
  os << "// Written by plan-tblgen from Knobs.td.\n\n#ifdef GET_KNOB_ENUMS\n#undef GET_KNOB_ENUMS\n";
  for (StringRef owner : {"KernelKnob", "NetworkKnob"})
    for (const Record *knob : knobsOf(records, owner)) {
      StringRef name = knob->getValueAsDef("type")->getValueAsString("enumName");
      if (name.empty())
        continue;
      os << "/// " << knob->getValueAsString("doc") << ".\nenum class " << name << " : uint8_t {";
      for (StringRef value : spellingsOf(*knob))
        os << " " << convertToCamelFromSnakeCase(value, /*capitalizeFirst=*/true) << ",";
      os << " };\n/// The spelling of plan files.\ninline const char *nameOf(" << name
         << " value) {\n  constexpr const char *names[] = {";
      for (StringRef value : spellingsOf(*knob))
        os << quoted(value) << ", ";
      os << "};\n  return names[size_t(value)];\n}\n";
    }
  os << "#endif\n\n";
  printKnobs(knobsOf(records, "KernelKnob"), "KernelPlan", "KERNEL_KNOB", os);
  printKnobs(knobsOf(records, "NetworkKnob"), "NetworkKnobs", "NETWORK_KNOB", os);
  printTileKnobs(knobsOf(records, "KernelKnob"), os);
  printNetworkDefaults(knobsOf(records, "KernelKnob"), knobsOf(records, "NetworkKnob"), os);
  return false;
}

bool writeManual(raw_ostream &os, RecordKeeper &records) {
  for (StringRef owner : {"KernelKnob", "NetworkKnob"}) {
    const bool isNetwork = owner == "NetworkKnob";
    os << (isNetwork ? "\n### Knobs of the network\n\n| knob | value | what it says |\n|---|---|---|\n"
                     : "### Knobs of a kernel\n\n| knob | value | what it says | for |\n|---|---|---|---|\n");
    for (const Record *knob : knobsOf(records, owner)) {
      os << "| `" << knob->getValueAsString("name") << "` | " << allowedText(*knob) << " | " << knob->getValueAsString("doc");
      if (!isNetwork) {
        StringRef when = knob->getValueAsString("when");
        os << " | " << (when.empty() ? "all" : when);
      }
      os << " |\n";
    }
  }
  return false;
}

bool generate(raw_ostream &os, RecordKeeper &records) {
  return action == Action::Knobs ? writeKnobs(os, records) : writeManual(os, records);
}
} // namespace

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(argc, argv, "generator of everything that names a knob of a schedule\n");
  return TableGenMain(argv[0], generate);
}
