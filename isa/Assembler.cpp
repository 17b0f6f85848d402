//===- Assembler.cpp - Whole programs as text -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/Assembler.h"

#include "isa/Legality.h"
#include "isa/timing/Digest.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace tw::isa {
namespace {

const std::vector<std::string> kDirectives = {".machine", ".digests", ".dram",  ".code",     ".data", ".bytes",
                                              ".input",   ".output",  ".layer", ".in_layer", ".word"};

bool isBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

bool isHexDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

/// A word, a quoted string or one of [ ] , =
struct Token {
  std::string text;
  size_t column = 0; ///< from 0
  bool quoted = false;
};

class Assembler {
public:
  Assembler(const std::string &file, const timing::MachineParams *machine) : file(file), machine(machine) {
    if (machine) {
      program.machine = machine->name;
      program.architecturalDigest = timing::architecturalDigest(*machine);
      program.timingDigest = timing::timingDigest(*machine);
    }
  }

  Result<Program> run(std::string_view text) {
    for (size_t at = 0; at <= text.size(); ++lineNumber) {
      size_t end = std::min(text.find('\n', at), text.size());
      line(text.substr(at, end - at));
      at = end + 1;
    }
    for (const OpenLoop &loop : openLoops)
      problems.push_back({file, loop.line, loop.column, "the loop's body is not closed by '}'"});
    finish();
    if (!problems.empty())
      return problems;
    return std::move(program);
  }

private:
  struct OpenLoop {
    unsigned line, column;
    size_t instruction; ///< index into instructions
    size_t firstWord;   ///< of the body
  };
  struct Placed {
    Instruction instruction;
    size_t word;
    unsigned line, column;
    bool countsWords; ///< body_words comes from braces and is not known yet
  };

  void fail(size_t column, const std::string &message) {
    problems.push_back({file, lineNumber, unsigned(column + 1), message});
  }

  void line(std::string_view text) {
    size_t at = 0;
    while (at < text.size() && isBlank(text[at]))
      ++at;
    if (at == text.size() || text[at] == '#')
      return;
    if (text[at] == '.')
      return directive(text);
    std::string_view code = text.substr(0, text.find('#'));
    while (isBlank(code.back()))
      code.remove_suffix(1);
    if (code.substr(at) == "}")
      return closeLoop(at);
    bool opens = code.back() == '{';
    if (opens)
      code.remove_suffix(1);
    Result<Instruction> instruction = parse(code, file, lineNumber);
    if (!instruction) {
      problems.insert(problems.end(), instruction.diagnostics().begin(), instruction.diagnostics().end());
      return;
    }
    const Loop *loop = instruction->getIf<Loop>();
    if (opens && !loop)
      return fail(code.size(), "only a loop has a body in braces");
    if (opens && loop->body_words)
      return fail(code.size(), "a body in braces and body_words exclude each other");
    instructions.push_back({*instruction, numWords, lineNumber, unsigned(at + 1), opens});
    addWords(instruction->words());
    if (opens)
      openLoops.push_back({lineNumber, unsigned(at + 1), instructions.size() - 1, numWords});
  }

  void addWords(size_t count) {
    numWords += count;
    program.layerOf.resize(numWords, currentLayer);
    if (program.layers.empty())
      firstLine = firstLine ? firstLine : lineNumber;
  }

  void closeLoop(size_t column) {
    if (openLoops.empty())
      return fail(column, "'}' closes no loop");
    OpenLoop loop = openLoops.back();
    openLoops.pop_back();
    Placed &placed = instructions[loop.instruction];
    const int64_t words = int64_t(numWords - loop.firstWord);
    placed.instruction.as<Loop>().body_words = words;
    std::string why;
    if (words == 0 || !fits(placed.instruction, &why))
      problems.push_back({file, loop.line, loop.column, words == 0 ? "the loop's body is empty" : std::move(why)});
  }

  //===--------------------------------------------------------------------===//
  // Directives
  //===--------------------------------------------------------------------===//

  void directive(std::string_view text) {
    tokens.clear();
    next = 0;
    endColumn = text.size();
    if (!tokenize(text))
      return;
    const Token name = tokens[next++];
    bool good = true;
    if (name.text == ".machine")
      good = word(program.machine, "a name");
    else if (name.text == ".digests")
      good = number(program.architecturalDigest) && number(program.timingDigest);
    else if (name.text == ".dram")
      good = number(program.dramBytes), hasDram = true;
    else if (name.text == ".code")
      good = number(program.codeAddress);
    else if (name.text == ".data")
      good = data();
    else if (name.text == ".bytes")
      good = bytes(name.column);
    else if (name.text == ".input")
      good = tensor(program.inputs);
    else if (name.text == ".output")
      good = tensor(program.outputs);
    else if (name.text == ".layer")
      good = layer(name.column);
    else if (name.text == ".in_layer")
      good = inLayer();
    else if (name.text == ".word")
      good = rawWord();
    else {
      std::string nearest = nearestName(name.text, kDirectives);
      return fail(name.column,
                  "unknown directive '" + name.text + "'" + (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
    }
    if (good && next < tokens.size())
      fail(tokens[next].column, "expected the end of the line, found '" + tokens[next].text + "'");
  }

  bool tokenize(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      const char c = text[at];
      const size_t start = at;
      if (isBlank(c)) {
        ++at;
      } else if (c == '#') {
        break;
      } else if (c == '"') {
        std::string value;
        for (++at; at < text.size() && text[at] != '"'; ++at) {
          if (text[at] != '\\') {
            value += text[at];
            continue;
          }
          ++at;
          if (at < text.size() && (text[at] == '"' || text[at] == '\\')) {
            value += text[at];
          } else if (at + 2 < text.size() && text[at] == 'x' && isHexDigit(text[at + 1]) && isHexDigit(text[at + 2])) {
            value += char(std::strtol(std::string(text.substr(at + 1, 2)).c_str(), nullptr, 16));
            at += 2;
          } else {
            fail(at - 1, "unknown escape, allowed are \\\", \\\\ and \\xHH");
            return false;
          }
        }
        if (at == text.size()) {
          fail(start, "the string has no closing '\"'");
          return false;
        }
        ++at;
        tokens.push_back({std::move(value), start, true});
      } else if (c == '[' || c == ']' || c == ',' || c == '=') {
        tokens.push_back({std::string(1, c), start});
        ++at;
      } else {
        while (at < text.size() && !isBlank(text[at]) && std::string_view("[],=\"#").find(text[at]) == std::string_view::npos)
          ++at;
        tokens.push_back({std::string(text.substr(start, at - start)), start});
      }
    }
    return true;
  }

  bool more() const { return next < tokens.size(); }
  bool isPunctuation(const Token &token) const {
    return !token.quoted && token.text.size() == 1 && std::string_view("[],=").find(token.text[0]) != std::string_view::npos;
  }
  bool expected(const std::string &what) {
    if (more())
      fail(tokens[next].column, "expected " + what + ", found '" + tokens[next].text + "'");
    else
      fail(endColumn, "expected " + what + ", found the end of the line");
    return false;
  }
  bool accept(char c) {
    if (!more() || tokens[next].quoted || tokens[next].text != std::string(1, c))
      return false;
    ++next;
    return true;
  }
  bool expect(char c) { return accept(c) || expected(std::string("'") + c + "'"); }
  bool word(std::string &value, const std::string &what) {
    if (!more() || isPunctuation(tokens[next]))
      return expected(what);
    value = tokens[next++].text;
    return true;
  }
  bool number(uint64_t &value) {
    if (!more() || tokens[next].quoted || isPunctuation(tokens[next]) || tokens[next].text[0] < '0' ||
        tokens[next].text[0] > '9')
      return expected("a number");
    const std::string &text = tokens[next].text;
    char *end = nullptr;
    errno = 0;
    const bool isHex = text.size() > 1 && (text[1] == 'x' || text[1] == 'X');
    value = std::strtoull(text.c_str(), &end, isHex ? 16 : 10);
    if (*end != 0 || errno != 0)
      return expected("a number below 2^64");
    ++next;
    return true;
  }

  bool data() {
    Segment segment;
    if (!number(segment.address))
      return false;
    program.constants.push_back(std::move(segment));
    return hexBytes();
  }
  bool bytes(size_t column) {
    if (program.constants.empty()) {
      fail(column, ".bytes without a .data before it");
      return false;
    }
    return hexBytes();
  }
  bool hexBytes() {
    while (more()) {
      const Token &token = tokens[next];
      if (token.quoted || token.text.size() % 2 || !std::all_of(token.text.begin(), token.text.end(), isHexDigit))
        return expected("bytes of two hexadecimal digits");
      for (size_t i = 0; i < token.text.size(); i += 2)
        program.constants.back().bytes.push_back(uint8_t(std::strtol(token.text.substr(i, 2).c_str(), nullptr, 16)));
      ++next;
    }
    return true;
  }

  bool tensor(std::vector<TensorInfo> &tensors) {
    TensorInfo tensor;
    std::string type;
    if (!word(tensor.name, "a name"))
      return false;
    const size_t typeColumn = more() ? tokens[next].column : endColumn;
    if (!word(type, "an element type"))
      return false;
    std::vector<std::string> known;
    bool found = false;
    for (unsigned i = 0; i < kNumElementKinds; ++i) {
      known.push_back(name(ElementKind(i)));
      if (type == known.back()) {
        tensor.type = ElementKind(i);
        found = true;
      }
    }
    if (!found) {
      std::string all;
      for (const std::string &candidate : known)
        all += (all.empty() ? "" : ", ") + candidate;
      fail(typeColumn, "unknown element type '" + type + "', allowed are " + all);
      return false;
    }
    if (!expect('['))
      return false;
    tensor.bytes = elementBytes(tensor.type);
    if (!accept(']')) {
      do {
        uint64_t extent;
        const size_t column = more() ? tokens[next].column : endColumn;
        if (!number(extent))
          return false;
        if (extent > INT64_MAX || __builtin_mul_overflow(tensor.bytes, extent, &tensor.bytes)) {
          fail(column, "the tensor is larger than 2^64 bytes");
          return false;
        }
        tensor.shape.push_back(int64_t(extent));
      } while (accept(','));
      if (!expect(']'))
        return false;
    }
    if (!number(tensor.address))
      return false;
    tensors.push_back(std::move(tensor));
    return true;
  }

  bool layer(size_t column) {
    Layer layer;
    if (!word(layer.name, "a name"))
      return false;
    while (more()) {
      const size_t keyColumn = tokens[next].column;
      std::string key;
      if (!word(key, "macs, bound_cycles, bound_by or nodes") || !expect('='))
        return false;
      if (key == "macs" || key == "bound_cycles") {
        if (!number(key == "macs" ? layer.macs : layer.boundCycles))
          return false;
      } else if (key == "bound_by") {
        if (!word(layer.boundBy, "a text"))
          return false;
      } else if (key == "nodes") {
        if (!expect('['))
          return false;
        if (accept(']'))
          continue;
        do {
          layer.nodes.emplace_back();
          if (!word(layer.nodes.back(), "a text"))
            return false;
        } while (accept(','));
        if (!expect(']'))
          return false;
      } else {
        fail(keyColumn, "unknown property '" + key +
                            "' of a layer, allowed are macs, bound_cycles, "
                            "bound_by, nodes");
        return false;
      }
    }
    if (program.layers.empty() && numWords > 0) {
      fail(column, "the first .layer must stand before the first instruction, "
                   "which is on line " +
                       std::to_string(firstLine));
      return false;
    }
    currentLayer = uint32_t(program.layers.size());
    program.layers.push_back(std::move(layer));
    return true;
  }

  bool inLayer() {
    uint64_t index;
    const size_t column = more() ? tokens[next].column : endColumn;
    if (!number(index))
      return false;
    if (index >= program.layers.size()) {
      fail(column,
           "layer " + std::to_string(index) + " is unknown, there are " + std::to_string(program.layers.size()) + " so far");
      return false;
    }
    currentLayer = uint32_t(index);
    return true;
  }

  bool rawWord() {
    Word raw;
    for (uint64_t &element : raw)
      if (!number(element))
        return false;
    rawWords.push_back({numWords, raw});
    addWords(1);
    return true;
  }

  void finish() {
    for (const Placed &placed : instructions) {
      if (machine)
        if (auto text = illegal(placed.instruction, *machine))
          problems.push_back({file, placed.line, placed.column, *text});
    }
    std::stable_sort(problems.begin(), problems.end(),
                     [](const Diagnostic &a, const Diagnostic &b) { return a.line < b.line; });
    if (!problems.empty())
      return;
    size_t raw = 0;
    auto placeRaw = [&] {
      while (raw < rawWords.size() && rawWords[raw].first == program.code.size())
        program.code.push_back(rawWords[raw++].second);
    };
    for (const Placed &placed : instructions) {
      placeRaw();
      encode(placed.instruction, program.code);
    }
    placeRaw();
    if (program.layers.empty())
      program.layerOf.clear();
    if (!hasDram)
      program.dramBytes = usedBytes();
    // The image's own rules: what fits where.
    Result<Program> checked = deserialize(serialize(program), file);
    if (!checked)
      problems = checked.diagnostics();
  }

  uint64_t usedBytes() const {
    uint64_t end = program.codeAddress + program.code.size() * kWordBytes;
    for (const Segment &segment : program.constants)
      end = std::max<uint64_t>(end, segment.address + segment.bytes.size());
    for (const auto *tensors : {&program.inputs, &program.outputs})
      for (const TensorInfo &tensor : *tensors)
        end = std::max(end, tensor.address + tensor.bytes);
    return (end + 63) / 64 * 64;
  }

  const std::string &file;
  const timing::MachineParams *machine;
  Program program;
  Diagnostics problems;
  unsigned lineNumber = 1;
  std::vector<Placed> instructions;
  std::vector<std::pair<size_t, Word>> rawWords; ///< position and value
  std::vector<OpenLoop> openLoops;
  size_t numWords = 0;
  uint32_t currentLayer = 0;
  unsigned firstLine = 0; ///< of the first instruction outside any layer
  bool hasDram = false;
  std::vector<Token> tokens; ///< of the directive in work
  size_t next = 0, endColumn = 0;
};

//===----------------------------------------------------------------------===//
// Disassembler
//===----------------------------------------------------------------------===//

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string quote(const std::string &text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned char>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string printTensor(const char *directive, const TensorInfo &tensor) {
  std::string out = directive;
  out += " " + quote(tensor.name) + " " + name(tensor.type) + " [";
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    out += (i ? "," : "") + std::to_string(tensor.shape[i]);
  return out + "] " + hex(tensor.address) + "\n";
}

std::string printLayer(const Layer &layer) {
  std::string out = ".layer " + quote(layer.name);
  if (layer.macs)
    out += " macs=" + std::to_string(layer.macs);
  if (layer.boundCycles)
    out += " bound_cycles=" + std::to_string(layer.boundCycles);
  if (!layer.boundBy.empty())
    out += " bound_by=" + quote(layer.boundBy);
  if (!layer.nodes.empty()) {
    out += " nodes=[";
    for (size_t i = 0; i < layer.nodes.size(); ++i)
      out += (i ? "," : "") + quote(layer.nodes[i]);
    out += "]";
  }
  return out + "\n";
}

} // namespace

Result<Program> assemble(std::string_view text, const std::string &fileName, const timing::MachineParams *machine) {
  return Assembler(fileName, machine).run(text);
}

std::string disassemble(const Program &program) {
  std::string out = ".machine " + quote(program.machine) + "\n.digests " + hex(program.architecturalDigest) + " " +
                    hex(program.timingDigest) + "\n.dram " + hex(program.dramBytes) + "\n.code " + hex(program.codeAddress) +
                    "\n";
  for (const TensorInfo &tensor : program.inputs)
    out += printTensor(".input", tensor);
  for (const TensorInfo &tensor : program.outputs)
    out += printTensor(".output", tensor);
  constexpr size_t kBytesPerLine = 32;
  for (const Segment &segment : program.constants) {
    out += ".data " + hex(segment.address);
    for (size_t i = 0; i < segment.bytes.size(); ++i) {
      if (i && i % kBytesPerLine == 0)
        out += "\n.bytes";
      char text[4];
      std::snprintf(text, sizeof text, "%02x", segment.bytes[i]);
      (out += i % 4 == 0 ? " " : "") += text;
    }
    out += "\n";
  }

  size_t declared = 0;
  uint32_t current = 0;
  auto enterLayer = [&](size_t word) {
    if (program.layerOf.empty())
      return;
    const uint32_t layer = program.layerOf[word];
    while (declared <= layer) {
      current = uint32_t(declared);
      out += printLayer(program.layers[declared++]);
    }
    if (current != layer)
      out += ".in_layer " + std::to_string(layer) + "\n";
    current = layer;
  };
  std::vector<size_t> loopEnds;
  for (size_t at = 0; at < program.code.size();) {
    while (!loopEnds.empty() && loopEnds.back() <= at)
      loopEnds.pop_back();
    const std::string indent(2 * loopEnds.size(), ' ');
    enterLayer(at);
    Decoded decoded = decode(&program.code[at], program.code.size() - at);
    size_t words = decoded ? decoded.instruction.words() : 1;
    // A line belongs to one layer.
    if (!program.layerOf.empty())
      for (size_t i = 1; i < words; ++i)
        if (program.layerOf[at + i] != current)
          decoded.error = "layers change within the instruction";
    if (!decoded) {
      out += indent + ".word";
      for (uint64_t element : program.code[at])
        out += " " + hex(element);
      out += "\n";
      ++at;
      continue;
    }
    out += indent + print(decoded.instruction) + "\n";
    at += words;
    if (const Loop *loop = decoded.instruction.getIf<Loop>())
      loopEnds.push_back(at + size_t(loop->body_words));
  }
  while (declared < program.layers.size())
    out += printLayer(program.layers[declared++]);
  return out;
}

} // namespace tw::isa
