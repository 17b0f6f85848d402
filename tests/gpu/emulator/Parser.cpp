//===- Parser.cpp - Reads PTX text ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads PTX text: directives, kernels, scopes with registers and labels of their own, statements.
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Program.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

using namespace tw::ptxemu;

namespace {

/// A place in the text; skips blanks and comments, and counts lines.
class Cursor {
public:
  explicit Cursor(const std::string &text) : text(text) {}

  void skipBlanks() {
    while (position < text.size()) {
      if (text[position] == '\n')
        ++line;
      if (std::isspace(uint8_t(text[position]))) {
        ++position;
      } else if (text.compare(position, 2, "//") == 0) {
        while (position < text.size() && text[position] != '\n')
          ++position;
      } else if (text.compare(position, 2, "/*") == 0) {
        const size_t end = text.find("*/", position + 2);
        if (end == std::string::npos)
          error("comment without an end");
        line += unsigned(std::count(text.begin() + long(position), text.begin() + long(end), '\n'));
        position = end + 2;
      } else {
        return;
      }
    }
  }
  bool atEnd() {
    skipBlanks();
    return position >= text.size();
  }
  char peek() {
    skipBlanks();
    return position < text.size() ? text[position] : 0;
  }
  bool accept(char c) {
    if (peek() != c)
      return false;
    ++position;
    return true;
  }
  void expect(char c) {
    if (!accept(c))
      error(std::string("expected '") + c + "'");
  }
  /// A name, number, directive or opcode with its modifiers; "::" belongs to it, ":" does not.
  std::string word() {
    skipBlanks();
    const size_t begin = position;
    while (position < text.size()) {
      const char c = text[position];
      if (std::isalnum(uint8_t(c)) || c == '_' || c == '$' || c == '%' || c == '.')
        ++position;
      else if (text.compare(position, 2, "::") == 0)
        position += 2;
      else
        break;
    }
    return text.substr(begin, position - begin);
  }
  std::string string() {
    expect('"');
    const size_t end = text.find('"', position);
    if (end == std::string::npos)
      error("string without an end");
    std::string result = text.substr(position, end - position);
    position = end + 1;
    return result;
  }
  void skipStatement() {
    while (position < text.size() && peek() != ';')
      ++position;
    ++position;
  }
  /// The rest of the line belongs to the directive (.file, .loc).
  void skipLine() {
    while (position < text.size() && text[position] != '\n')
      ++position;
  }
  [[noreturn]] void error(const std::string &message) const {
    size_t end = text.find('\n', position);
    std::string here = text.substr(position, std::min<size_t>(end == std::string::npos ? 40 : end - position, 40));
    throw Error(ErrorKind::Parse, "line " + std::to_string(line) + ": " + message + " at `" + here + "`", line);
  }

  const std::string &text;
  size_t position = 0;
  unsigned line = 1;
};

struct Scope {
  int id;
  std::map<std::string, int> registers;
};

class Parser {
public:
  Parser(const std::string &text, Module &module) : cursor(text), module(module) {}

  void run() {
    while (!cursor.atEnd())
      topLevel();
  }

private:
  void topLevel() {
    std::string word = cursor.word();
    if (word == ".version") {
      module.version = cursor.word();
    } else if (word == ".target") {
      module.target = cursor.word();
      while (cursor.accept(','))
        cursor.word();
    } else if (word == ".address_size") {
      if (cursor.word() != "64")
        cursor.error("only 64-bit addresses are modelled");
    } else if (word == ".visible" || word == ".extern" || word == ".weak" || word == ".common") {
      external = word == ".extern";
    } else if (word == ".entry") {
      kernel();
    } else if (word == ".func") {
      skipFunction();
    } else if (word == ".global" || word == ".const" || word == ".shared") {
      module.variables.push_back(variable(word));
      external = false;
      Variable &made = module.variables.back();
      if (made.space == Space::Shared)
        moduleShared.push_back(made);
      else
        made.address = (moduleVariableBase + module.variables.size() - 1) << 32;
    } else if (word == ".file" || word == ".loc") {
      cursor.skipLine();
    } else if (word == ".section") {
      while (cursor.peek() != '{')
        ++cursor.position;
      skipBraces();
    } else if (word == ".pragma") {
      cursor.skipStatement();
    } else if (!word.empty() || !cursor.accept(';')) {
      cursor.error("unknown directive '" + word + "'");
    }
  }

  void skipBraces() {
    cursor.expect('{');
    for (int depth = 1; depth;) {
      if (cursor.atEnd())
        cursor.error("missing '}'");
      if (cursor.accept('{'))
        ++depth;
      else if (cursor.accept('}'))
        --depth;
      else
        ++cursor.position;
    }
  }
  void skipFunction() {
    while (cursor.peek() != '{' && cursor.peek() != ';')
      ++cursor.position;
    if (cursor.peek() == '{')
      skipBraces();
    else
      cursor.expect(';');
    external = false;
  }

  Variable variable(const std::string &space) {
    Variable result{};
    result.space = space == ".global"  ? Space::Global
                   : space == ".const" ? Space::Const
                   : space == ".local" ? Space::Local
                                       : Space::Shared;
    result.alignment = 0;
    result.external = external;
    Type type = Type::None;
    unsigned vector = 1;
    std::string word = cursor.word();
    for (; !word.empty() && word[0] == '.'; word = cursor.word()) {
      if (word == ".align")
        result.alignment = alignment();
      else if (word == ".v2" || word == ".v4")
        vector = unsigned(word[2] - '0');
      else if ((type = typeNamed(word.substr(1))) == Type::None)
        cursor.error("unknown type '" + word + "'");
    }
    if (type == Type::None || type == Type::Pred)
      cursor.error("the variable has no type");
    result.name = word;
    uint64_t count = 1;
    bool unsized = false;
    while (cursor.accept('[')) {
      if (cursor.peek() == ']')
        unsized = true;
      else
        count *= std::min<uint64_t>(number(), uint64_t(1) << 31);
      cursor.expect(']');
    }
    const unsigned elementBytes = bytesOf(type) * vector;
    if (count > (uint64_t(1) << 30))
      cursor.error("the variable is too large");
    if (result.alignment == 0)
      result.alignment = elementBytes;
    if (cursor.accept('=')) {
      initialiser(type, result.values);
      if (unsized)
        count = result.values.size() / elementBytes, unsized = false;
    }
    result.size = unsized ? 0 : count * elementBytes;
    if (!result.values.empty())
      result.values.resize(result.size);
    cursor.expect(';');
    return result;
  }
  void initialiser(Type type, std::vector<uint8_t> &bytes) {
    if (cursor.accept('{')) {
      do
        initialiser(type, bytes);
      while (cursor.accept(','));
      cursor.expect('}');
      return;
    }
    const bool negative = cursor.accept('-');
    uint64_t value = uint64_t(number());
    if (negative)
      value = 0 - value;
    for (unsigned i = 0; i < bytesOf(type); ++i)
      bytes.push_back(uint8_t(value >> (8 * i)));
  }

  /// An alignment: a power of two.
  unsigned alignment() {
    const uint64_t value = number();
    if (value == 0 || value > 4096 || value & (value - 1))
      cursor.error("an alignment of " + std::to_string(value) + " but a power of two up to 4096 is allowed");
    return unsigned(value);
  }
  /// An integer, or the bits of a 0f or 0d constant.
  uint64_t number() {
    const std::string word = cursor.word();
    uint64_t value;
    if (!parseNumber(word, value))
      cursor.error("expected a number, found '" + word + "'");
    return value;
  }
  static bool parseNumber(const std::string &word, uint64_t &value) {
    if (word.empty() || !std::isdigit(uint8_t(word[0])))
      return false;
    const char *begin = word.c_str();
    char *end;
    if (word.size() > 2 && word[0] == '0' && std::string("fFdD").find(word[1]) != std::string::npos)
      value = std::strtoull(begin + 2, &end, 16);
    else if (word.size() > 2 && word[0] == '0' && (word[1] == 'b' || word[1] == 'B'))
      value = std::strtoull(begin + 2, &end, 2);
    else
      value = std::strtoull(begin, &end, 0);
    if (*end == 'U')
      ++end;
    return *end == 0;
  }

  // ---- Kernels ----

  void kernel() {
    current = Kernel{};
    current.line = cursor.line;
    current.name = cursor.word();
    external = false;
    scopes.clear();
    labels.clear();
    chains.clear();
    variables.clear();
    nextScope = 0;
    if (cursor.accept('('))
      parameters();
    directives();
    placeModuleShared();
    cursor.expect('{');
    openScope();
    while (!scopes.empty())
      bodyItem();
    Statement end;
    end.line = cursor.line;
    end.text = "}";
    end.opcode = "ret";
    addStatement(std::move(end));
    resolveBranches();
    current.code.resize(current.statements.size());
    for (size_t i = 0; i < current.code.size(); ++i)
      decode(current, current.statements[i], current.code[i]);
    const std::string name = current.name;
    if (!module.kernels.emplace(name, std::move(current)).second)
      cursor.error("kernel '" + name + "' is there twice");
  }

  void parameters() {
    while (!cursor.accept(')')) {
      if (cursor.word() != ".param")
        cursor.error("expected .param");
      Parameter parameter{};
      Type type = Type::None;
      std::string word = cursor.word();
      for (; !word.empty() && word[0] == '.'; word = cursor.word()) {
        if (word == ".align")
          parameter.alignment = alignment();
        else if (word != ".ptr" && word != ".global" && word != ".shared" && word != ".const" &&
                 (type = typeNamed(word.substr(1))) == Type::None)
          cursor.error("unknown type '" + word + "'");
      }
      if (type == Type::None || type == Type::Pred)
        cursor.error("the parameter has no type");
      parameter.name = word;
      parameter.size = bytesOf(type);
      const bool pointerAlignment = type == Type::U64 || type == Type::B64;
      if (parameter.alignment == 0 || pointerAlignment)
        parameter.alignment = parameter.size;
      if (cursor.accept('[')) {
        parameter.array = true;
        const uint64_t count = number();
        if (count == 0 || count > 4096)
          cursor.error("a parameter of " + std::to_string(count) + " elements; 1 to 4096 are allowed");
        parameter.size *= unsigned(count);
        cursor.expect(']');
      }
      parameter.offset = (current.parameterBytes + parameter.alignment - 1) / parameter.alignment * parameter.alignment;
      current.parameterBytes = parameter.offset + parameter.size;
      current.parameters.push_back(parameter);
      cursor.accept(',');
    }
  }

  void extents(unsigned (&values)[3]) {
    for (unsigned &value : values)
      value = 1;
    for (unsigned i = 0; i < 3; ++i) {
      values[i] = unsigned(number());
      if (!cursor.accept(','))
        break;
    }
  }
  void directives() {
    while (cursor.peek() != '{') {
      const std::string word = cursor.word();
      if (word == ".maxntid")
        extents(current.maxntid);
      else if (word == ".reqntid")
        extents(current.reqntid);
      else if (word == ".reqnctapercluster")
        extents(current.cluster);
      else if (word == ".maxnreg")
        current.maxnreg = unsigned(number());
      else if (word == ".minnctapersm" || word == ".maxclusterrank")
        number();
      else if (word == ".pragma")
        cursor.skipStatement();
      else if (word != ".explicitcluster" && word != ".noreturn")
        cursor.error("unknown directive '" + word + "'");
    }
  }

  /// Module variables in shared memory come first; the dynamic memory begins behind all static variables.
  void placeModuleShared() {
    for (const Variable &variable : moduleShared)
      addVariable(variable);
  }
  void addVariable(Variable variable) {
    if (variable.external && variable.space == Space::Shared) {
      current.dynamicSharedAlignment = std::max(current.dynamicSharedAlignment, variable.alignment);
    } else {
      unsigned &bytes = variable.space == Space::Local ? current.localBytes : current.staticSharedBytes;
      bytes = (bytes + variable.alignment - 1) / variable.alignment * variable.alignment;
      variable.address = bytes + (variable.space == Space::Shared ? sharedBase : 0);
      bytes += unsigned(variable.size);
    }
    variables.push_back(std::move(variable));
  }

  void openScope() { scopes.push_back({nextScope++, {}}); }

  void bodyItem() {
    if (cursor.atEnd())
      cursor.error("missing '}'");
    if (cursor.accept('{'))
      return openScope();
    if (cursor.accept('}'))
      return scopes.pop_back();
    if (cursor.accept(';'))
      return;
    const size_t begin = cursor.position;
    Statement statement;
    statement.line = cursor.line;
    if (cursor.accept('@')) {
      statement.predicateNegated = cursor.accept('!');
      const std::string name = cursor.word();
      statement.predicate = findRegister(name);
      if (statement.predicate < 0)
        cursor.error("unknown predicate '" + name + "'");
      if (current.registers[size_t(statement.predicate)].type != Type::Pred)
        cursor.error("'" + name + "' is no predicate");
    }
    const std::string word = cursor.word();
    if (word.empty())
      cursor.error("expected an instruction");
    if (word[0] == '.')
      return bodyDirective(word);
    if (statement.predicate < 0 && cursor.accept(':')) {
      if (!labels.emplace(std::make_pair(scopes.back().id, word), int(current.statements.size())).second)
        cursor.error("label '" + word + "' is there twice in one scope");
      return;
    }
    splitOpcode(word, statement);
    while (cursor.peek() != ';') {
      statement.operands.push_back(operand());
      if (!cursor.accept(',') && cursor.peek() != ';')
        cursor.error("expected ',' or ';'");
    }
    std::string text = cursor.text.substr(begin, cursor.position - begin);
    std::replace_if(
        text.begin(), text.end(), [](char c) { return std::isspace(uint8_t(c)); }, ' ');
    statement.text = text.size() > 120 ? text.substr(0, 117) + "..." : text;
    cursor.expect(';');
    addStatement(std::move(statement));
  }

  void addStatement(Statement statement) {
    std::vector<int> chain;
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
      chain.push_back(scope->id);
    chains.push_back(std::move(chain));
    current.statements.push_back(std::move(statement));
  }

  static void splitOpcode(const std::string &word, Statement &statement) {
    size_t begin = 0;
    while (begin <= word.size()) {
      const size_t end = std::min(word.find('.', begin), word.size());
      const std::string part = word.substr(begin, end - begin);
      if (begin == 0)
        statement.opcode = part;
      else
        statement.modifiers.push_back(part);
      begin = end + 1;
    }
  }

  void bodyDirective(const std::string &word) {
    if (word == ".reg")
      return registers();
    if (word == ".local" || word == ".shared") {
      addVariable(variable(word));
      return;
    }
    if (word == ".loc" || word == ".file")
      return cursor.skipLine();
    if (word == ".pragma")
      return cursor.skipStatement();
    cursor.error("unknown directive '" + word + "'");
  }

  void registers() {
    const std::string typeWord = cursor.word();
    const Type type = typeNamed(typeWord.empty() ? "" : typeWord.substr(1));
    if (type == Type::None)
      cursor.error("unknown type '" + typeWord + "'");
    do {
      const std::string name = cursor.word();
      if (cursor.accept('<')) {
        const uint64_t count = number();
        if (count > 1'000'000)
          cursor.error("too many registers");
        cursor.expect('>');
        for (uint64_t i = 0; i < count; ++i)
          addRegister(name + std::to_string(i), type);
      } else {
        addRegister(name, type);
      }
    } while (cursor.accept(','));
    cursor.expect(';');
  }
  void addRegister(const std::string &name, Type type) {
    if (!scopes.back().registers.emplace(name, int(current.registers.size())).second)
      cursor.error("register '" + name + "' is there twice in one scope");
    current.registers.push_back({name, type});
  }
  int findRegister(const std::string &name) const {
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
      auto found = scope->registers.find(name);
      if (found != scope->registers.end())
        return found->second;
    }
    return -1;
  }

  // ---- Operands ----

  Operand operand() {
    Operand first = singleOperand();
    if (!cursor.accept('|'))
      return first;
    Operand pair;
    pair.kind = Operand::Pair;
    pair.elements.push_back(std::move(first));
    pair.elements.push_back(singleOperand());
    return pair;
  }

  Operand singleOperand() {
    Operand result;
    if (cursor.accept('{')) {
      result.kind = Operand::Vector;
      do
        result.elements.push_back(operand());
      while (cursor.accept(','));
      cursor.expect('}');
      return result;
    }
    if (cursor.accept('[')) {
      result.kind = Operand::Address;
      result.elements.push_back(singleOperand());
      if (cursor.accept('+')) {
        const bool negative = cursor.accept('-');
        result.offset = int64_t(number());
        if (negative)
          result.offset = -result.offset;
      } else if (cursor.accept('-')) {
        result.offset = -int64_t(number());
      }
      if (cursor.accept(','))
        result.elements.push_back(operand());
      cursor.expect(']');
      return result;
    }
    if (cursor.accept('!')) {
      result = singleOperand();
      if (result.kind != Operand::Register)
        cursor.error("'!' needs a predicate");
      result.negated = !result.negated;
      return result;
    }
    const bool negative = cursor.accept('-');
    if (negative || std::isdigit(uint8_t(cursor.peek())))
      return constant(negative);
    const std::string word = cursor.word();
    if (word == "_") {
      result.kind = Operand::Sink;
      return result;
    }
    result.reg = findRegister(word);
    if (result.reg >= 0) {
      result.kind = Operand::Register;
      return result;
    }
    if (const Variable *found = findVariable(word)) {
      result.kind = Operand::Immediate;
      result.name = word;
      result.value = found->external && found->space == Space::Shared ? dynamicSharedMark : found->address;
      return result;
    }
    for (const Parameter &parameter : current.parameters)
      if (parameter.name == word) {
        result.kind = Operand::Immediate;
        result.name = word;
        result.value = parameter.offset;
        return result;
      }
    if (word == "WARP_SZ") {
      result.kind = Operand::Immediate;
      result.value = 32;
      return result;
    }
    if (!word.empty() && word[0] == '%') {
      result.kind = Operand::Special;
      result.name = word;
      return result;
    }
    if (word.empty())
      cursor.error("expected an operand");
    result.kind = Operand::Name;
    result.name = word;
    return result;
  }

  Operand constant(bool negative) {
    Operand result;
    const std::string word = cursor.word();
    if (word.find('.') != std::string::npos && word.compare(0, 2, "0x") != 0) {
      std::string text = word;
      if ((text.back() == 'e' || text.back() == 'E') && (cursor.accept('-') || cursor.accept('+')))
        text += cursor.text[cursor.position - 1] + cursor.word();
      char *end;
      const double value = std::strtod(text.c_str(), &end);
      if (*end)
        cursor.error("expected a number, found '" + text + "'");
      result.kind = Operand::Double;
      result.value = bitCast<uint64_t>(negative ? -value : value);
      return result;
    }
    result.kind = Operand::Immediate;
    if (!parseNumber(word, result.value))
      cursor.error("expected a number, found '" + word + "'");
    if (word.size() == 18 && word[0] == '0' && (word[1] == 'd' || word[1] == 'D'))
      result.kind = Operand::Double;
    if (negative)
      result.value = 0 - result.value;
    return result;
  }

  const Variable *findVariable(const std::string &name) const {
    for (auto variable = variables.rbegin(); variable != variables.rend(); ++variable)
      if (variable->name == name)
        return &*variable;
    for (const Variable &variable : module.variables)
      if (variable.name == name && variable.space != Space::Shared)
        return &variable;
    return nullptr;
  }

  void resolveBranches() {
    // The dynamic shared memory begins behind every static variable, also those that stand behind its first use.
    const uint64_t align = current.dynamicSharedAlignment;
    const uint64_t dynamicBegin = (sharedBase + current.staticSharedBytes + align - 1) / align * align;
    for (size_t i = 0; i < current.statements.size(); ++i) {
      Statement &statement = current.statements[i];
      for (Operand &operand : statement.operands)
        placeDynamicShared(operand, dynamicBegin);
      if (statement.opcode != "bra")
        continue;
      const std::string label = statement.operands.empty() ? "" : statement.operands[0].name;
      for (int scope : chains[i]) {
        auto found = labels.find({scope, label});
        if (found != labels.end()) {
          statement.target = found->second;
          break;
        }
      }
      if (statement.target < 0)
        throw Error(ErrorKind::Parse,
                    "line " + std::to_string(statement.line) + ": no label '" + label + "' in reach of `" + statement.text +
                        "`",
                    statement.line);
    }
  }
  static void placeDynamicShared(Operand &operand, uint64_t begin) {
    if (operand.kind == Operand::Immediate && operand.value == dynamicSharedMark && !operand.name.empty())
      operand.value = begin;
    for (Operand &element : operand.elements)
      placeDynamicShared(element, begin);
  }

  static constexpr uint64_t dynamicSharedMark = ~uint64_t(0) - 0x5eed;

  Cursor cursor;
  Module &module;
  bool external = false;
  std::vector<Variable> moduleShared;
  Kernel current;
  std::vector<Scope> scopes;
  std::vector<Variable> variables; // that the kernel can name, in shared and local memory
  std::map<std::pair<int, std::string>, int> labels;
  std::vector<std::vector<int>> chains; // of each statement: its scopes, innermost first
  int nextScope = 0;
};

} // namespace

std::shared_ptr<const Module> Module::parse(const std::string &text) {
  auto module = std::make_shared<Module>();
  Parser(text, *module).run();
  return module;
}

std::shared_ptr<const Module> Module::load(const std::string &path) {
  std::ifstream file(path);
  if (!file)
    fail(ErrorKind::Parse, "%s: cannot be read", path.c_str());
  return parse(std::string(std::istreambuf_iterator<char>(file), {}));
}

const Kernel &Module::kernel(const std::string &name) const {
  auto found = kernels.find(name);
  if (found != kernels.end())
    return found->second;
  std::string names;
  for (const auto &entry : kernels)
    names += " " + entry.first;
  fail(ErrorKind::Launch, "no kernel '%s'; the module has:%s", name.c_str(), names.c_str());
}
