//===- RulesTblgen.cpp - The table of rewriting rules -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//   rules-tblgen -I ... compiler/graph/transforms/Rules.td -o RuleTable.inc
//===----------------------------------------------------------------------===//
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/TableGen/Error.h"
#include "llvm/TableGen/Main.h"
#include "llvm/TableGen/Record.h"

using namespace llvm;

namespace {

/// Records of one name, in the order of the description; names in the order of their first records.
using Rules = MapVector<StringRef, std::vector<const Record *>>;

Rules rulesOf(RecordKeeper &keeper) {
  std::vector<const Record *> records;
  for (const Record *record : keeper.getAllDerivedDefinitions("Rule"))
    records.push_back(record);
  stable_sort(records,
              [](const Record *a, const Record *b) { return a->getLoc()[0].getPointer() < b->getLoc()[0].getPointer(); });
  Rules rules;
  for (const Record *record : records)
    rules[record->getValueAsString("ruleName")].push_back(record);
  for (const auto &[name, variants] : rules)
    for (const Record *variant : variants) {
      if (variant->getValueAsString("ruleMeaning").empty())
        PrintFatalError(variant->getLoc(), "rule '" + name + "' has no meaning");
      for (const char *field : {"ruleClass", "ruleMeaning", "isRequired", "isCleanup", "leastMath"})
        if (variant->getValueInit(field) != variants.front()->getValueInit(field))
          PrintFatalError(variant->getLoc(), "the records of rule '" + name + "' differ in " + field);
    }
  return rules;
}

std::string quoted(StringRef text) {
  std::string result;
  raw_string_ostream os(result);
  os << '"';
  printEscapedString(text, os);
  os << '"';
  return result;
}

bool writeTable(raw_ostream &os, RecordKeeper &keeper) {
  const Rules rules = rulesOf(keeper);
  os << "// Written by rules-tblgen from Rules.td.\n\n#ifdef GET_RULE_FUNCTIONS\n#undef GET_RULE_FUNCTIONS\n";
  for (const auto &[name, variants] : rules)
    for (const Record *variant : variants)
      if (variant->isSubClassOf("CodeRule"))
        os << "void " << variant->getValueAsString("functionName") << "(mlir::RewritePatternSet &patterns);\n";
  os << "#endif\n\n#ifdef GET_RULE_TABLE\n#undef GET_RULE_TABLE\n";
  for (const auto &[name, variants] : rules) {
    const Record &first = *variants.front();
    os << "{" << quoted(name) << ", RuleClass::" << first.getValueAsDef("ruleClass")->getValueAsString("enumerator") << ", "
       << quoted(first.getValueAsString("ruleMeaning")) << ", "
       << (first.isSubClassOf("PassRule") ? quoted(first.getValueAsString("passName")) : "\"\"") << ", "
       << first.getValueAsBit("isRequired") << ", " << first.getValueAsBit("isCleanup") << ", "
       << "Math::" << first.getValueAsString("leastMath") << ", {";
    for (const Record *variant : variants)
      if (variant->isSubClassOf("CodeRule"))
        os << variant->getValueAsString("functionName") << ", ";
      else if (variant->isSubClassOf("PatternRule"))
        os << "addPattern<" << variant->getName() << ">, ";
    os << "}},\n";
  }
  os << "#endif\n";
  return false;
}

} // namespace

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(argc, argv, "the table of rewriting rules\n");
  return TableGenMain(argv[0], writeTable);
}
