//===- Model.h - The checked instruction set description --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// TableGen records as plain structures, in source order. Every rule on the
// description is checked here once; backends only print.
//===----------------------------------------------------------------------===//
#ifndef ISA_TBLGEN_MODEL_H
#define ISA_TBLGEN_MODEL_H

#include "llvm/TableGen/Record.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tw::tblgen {

struct Case {
  std::string name, doc;
  int64_t value;
};

struct Enumeration {
  std::string record; ///< name of the record, UpperCamel
  std::string name, doc;
  std::vector<Case> cases;
};

struct Limit {
  std::string record, name, doc;
  int64_t value;
};

struct Field {
  std::string name, doc; ///< an empty name: reserved bits
  int64_t lsb, width, count;
  bool isSigned;
  const Enumeration *enumeration = nullptr;
  const Limit *limit = nullptr;

  bool reserved() const { return name.empty(); }
  int64_t end() const { return lsb + width * count; }
  int64_t minimum() const { return isSigned ? -(int64_t(1) << (width - 1)) : 0; }
  int64_t maximum() const;
};

struct Group {
  std::string name;
  std::vector<std::string> members;
};

/// Bits [begin, end) of something, each in exactly one field.
struct Layout {
  const llvm::Record *record = nullptr;
  std::string name;
  int64_t begin = 0, end = 0;
  std::vector<Field> fields;
  std::vector<Group> groups;

  const Field *find(llvm::StringRef field) const;
};

struct Engine {
  std::string record, name, doc;
  int64_t priority;
};

struct Instruction : Layout {
  std::string summary, description;
  int64_t opcode, words;
  const Engine *engine;
};

struct TimingConstant {
  std::string name, doc;
  int64_t value;
};

struct TimingFormula {
  std::string name, doc, expression;
  std::vector<std::string> arguments;
};

struct Model {
  std::vector<Limit> limits;
  std::vector<Enumeration> enumerations;
  std::vector<Engine> engines; ///< by priority
  Layout header, level;
  std::vector<Instruction> instructions; ///< by opcode
  std::vector<TimingConstant> constants;
  std::vector<TimingFormula> formulas;

  int64_t limit(llvm::StringRef name) const;
};

/// Reads and checks all records; a broken rule ends the process with
/// `file:line:column: error: ...`.
Model readModel(llvm::RecordKeeper &records);

/// snake_case to UpperCamel and lowerCamel.
std::string upperCamel(llvm::StringRef name);
std::string lowerCamel(llvm::StringRef name);
/// A C++ string literal, quotes included.
std::string literal(llvm::StringRef text);
/// Rewrites every identifier of a formula.
std::string rewriteIdentifiers(llvm::StringRef expression, llvm::function_ref<std::string(llvm::StringRef)> rewrite);

// Backends.
void emitStructs(const Model &model, llvm::raw_ostream &os);
void emitTiming(const Model &model, llvm::raw_ostream &os);
void emitSystemVerilog(const Model &model, llvm::raw_ostream &os);
void emitManual(const Model &model, llvm::raw_ostream &os);
void emitDialect(const Model &model, llvm::raw_ostream &os);

} // namespace tw::tblgen

#endif // ISA_TBLGEN_MODEL_H
