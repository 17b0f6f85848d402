//===- Isa.cpp - Instructions as values, words and text ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/Isa.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdlib>

namespace tw::isa {

static_assert(kStoreEngine == uint8_t(timing::EngineKind::Store) && kVectorEngine == uint8_t(timing::EngineKind::Vector) &&
                  kTensorEngine == uint8_t(timing::EngineKind::Tensor) &&
                  kPreloadEngine == uint8_t(timing::EngineKind::Preload) && kLoadEngine == uint8_t(timing::EngineKind::Load) &&
                  kSequencer == uint8_t(timing::EngineKind::Sequencer),
              "EngineKind must follow the priorities of isa/IsaBase.td");

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

namespace {

constexpr unsigned kWordElements = kWordBits / 64;

/// Positions of the header fields that the encoding itself depends on.
const FieldInfo &headerField(std::string_view name) {
  for (const FieldInfo &field : headerFields())
    if (name == field.name)
      return field;
  assert(false && "isa-tblgen checks that the header has it");
  std::abort();
}
const FieldInfo &opcodeField() {
  static const FieldInfo &field = headerField("opcode");
  return field;
}
const FieldInfo &wordsField() {
  static const FieldInfo &field = headerField("words");
  return field;
}
const FieldInfo &numLevelsField() {
  static const FieldInfo &field = headerField("num_levels");
  return field;
}

/// Reads up to 64 bits from position `lsb` of consecutive words.
uint64_t getBits(const Word *words, unsigned lsb, unsigned width) {
  const unsigned element = lsb / 64, shift = lsb % 64;
  auto at = [&](unsigned i) { return words[i / kWordElements][i % kWordElements]; };
  uint64_t value = at(element) >> shift;
  if (shift + width > 64)
    value |= at(element + 1) << (64 - shift);
  return width == 64 ? value : value & ((uint64_t(1) << width) - 1);
}

/// Sets bits that are 0 so far.
void putBits(Word *words, unsigned lsb, unsigned width, uint64_t value) {
  const unsigned element = lsb / 64, shift = lsb % 64;
  if (width < 64)
    value &= (uint64_t(1) << width) - 1;
  auto at = [&](unsigned i) -> uint64_t & { return words[i / kWordElements][i % kWordElements]; };
  at(element) |= value << shift;
  if (shift + width > 64)
    at(element + 1) |= value >> (64 - shift);
}

void putFields(Word *words, unsigned base, FieldSpan fields, const void *from) {
  for (const FieldInfo &field : fields)
    putBits(words, base + field.lsb, field.width, uint64_t(get(field, from)));
}

void getFields(const Word *words, unsigned base, FieldSpan fields, void *to) {
  for (const FieldInfo &field : fields) {
    uint64_t bits = getBits(words, base + field.lsb, field.width);
    if (field.isSigned && bits >> (field.width - 1))
      bits |= ~uint64_t(0) << field.width;
    set(field, to, int64_t(bits));
  }
}

/// The first value of the struct at `base` that does not fit, as a message;
/// empty if all fit.
std::string misfit(FieldSpan fields, const void *base) {
  for (const FieldInfo &field : fields) {
    int64_t value = get(field, base);
    if (!fits(field, value))
      return nameOf(field) + " is " + std::to_string(value) + ", allowed is " + allowedValues(field);
  }
  return "";
}

bool allZero(FieldSpan fields, const void *base) {
  return std::all_of(fields.begin(), fields.end(), [&](const FieldInfo &field) { return get(field, base) == 0; });
}

bool setByEncoder(const FieldInfo &field) { return field.lsb == opcodeField().lsb || field.lsb == wordsField().lsb; }

} // namespace

bool fits(const FieldInfo &field, int64_t value) {
  if (field.values)
    return caseName(*field.values, value) != nullptr;
  return value >= field.minimum && value <= field.maximum;
}

std::string allowedValues(const FieldInfo &field) {
  if (!field.values)
    return std::to_string(field.minimum) + " to " + std::to_string(field.maximum);
  std::string text;
  for (const CaseInfo &c : field.values->cases)
    text += (text.empty() ? "" : ", ") + std::string(c.name);
  return text;
}

std::string nameOf(const FieldInfo &field) {
  return field.index < 0 ? field.name : field.name + ("[" + std::to_string(field.index) + "]");
}

const char *caseName(const EnumerationInfo &enumeration, int64_t value) {
  for (const CaseInfo &c : enumeration.cases)
    if (c.value == value)
      return c.name;
  return nullptr;
}

bool fits(const Instruction &instruction, std::string *why) {
  auto check = [&]() -> std::string {
    Header header = instruction.header;
    header.opcode = header.words = 0;
    if (std::string text = misfit(headerFields(), &header); !text.empty())
      return text;
    for (unsigned i = 0; i < kMaxLevels; ++i) {
      std::string text = misfit(levelFields(), &instruction.levels[i]);
      if (text.empty() && i >= header.num_levels && !allZero(levelFields(), &instruction.levels[i]))
        text = "not all 0, but num_levels is " + std::to_string(header.num_levels);
      if (!text.empty())
        return "level " + std::to_string(i) + ": " + text;
    }
    return misfit(instruction.info().layout->fields, instruction.operandBase());
  };
  std::string text = check();
  if (text.empty())
    return true;
  if (why)
    *why = std::string(instruction.info().mnemonic) + ": " + text;
  return false;
}

void encode(const Instruction &instruction, std::vector<Word> &out) {
  assert(fits(instruction) && "a value does not fit its field");
  const InstructionInfo &info = instruction.info();
  const size_t first = out.size();
  out.resize(first + instruction.words(), Word{});
  Word *words = &out[first];
  Header header = instruction.header;
  header.opcode = int64_t(info.opcode);
  header.words = instruction.words();
  putFields(words, 0, headerFields(), &header);
  putFields(words, 0, info.layout->fields, instruction.operandBase());
  for (unsigned i = 0; i < header.num_levels; ++i)
    putFields(words + info.words, i * kLevelBits, levelFields(), &instruction.levels[i]);
}

Decoded decode(const Word *words, size_t available) {
  Decoded result;
  auto fail = [&](std::string text) {
    result.error = std::move(text);
    return result;
  };
  if (available == 0)
    return fail("no word left for an instruction");
  const uint64_t opcode = getBits(words, opcodeField().lsb, opcodeField().width);
  const InstructionInfo *info = findInstruction(opcode);
  if (!info)
    return fail("opcode " + std::to_string(opcode) + " is unknown");
  const std::string prefix = std::string(info->mnemonic) + ": ";
  const uint64_t length = getBits(words, wordsField().lsb, wordsField().width);
  const uint64_t numLevels = getBits(words, numLevelsField().lsb, numLevelsField().width);
  if (int64_t(numLevels) > numLevelsField().maximum)
    return fail(prefix + "num_levels is " + std::to_string(numLevels) + ", allowed is " + allowedValues(numLevelsField()));
  const uint64_t needed = info->words + (numLevels + 1) / 2;
  if (length != needed)
    return fail(prefix + "words is " + std::to_string(length) + ", with " + std::to_string(numLevels) + " levels it must be " +
                std::to_string(needed));
  if (available < needed)
    return fail(prefix + std::to_string(needed) + " words needed, " + std::to_string(available) + " left");

  Instruction &instruction = result.instruction;
  instruction.operands = makeOperands(info->opcode);
  getFields(words, 0, headerFields(), &instruction.header);
  getFields(words, 0, info->layout->fields, instruction.operandBase());
  for (unsigned i = 0; i < numLevels; ++i)
    getFields(words + info->words, i * kLevelBits, levelFields(), &instruction.levels[i]);

  std::string text = misfit(headerFields(), &instruction.header);
  if (text.empty())
    text = misfit(info->layout->fields, instruction.operandBase());
  if (!text.empty())
    return fail(prefix + text);
  auto isZero = [&](unsigned lsb, unsigned width) {
    for (unsigned i = 0; i < width; i += 64)
      if (getBits(words, lsb + i, std::min(64u, width - i)))
        return false;
    return true;
  };
  for (const BitRange &range : info->layout->reserved)
    if (!isZero(range.lsb, range.width))
      return fail(prefix + "reserved bits " + std::to_string(range.lsb) + " to " + std::to_string(range.lsb + range.width - 1) +
                  " are not all 0");
  if (numLevels % 2 && !isZero(info->words * kWordBits + numLevels * kLevelBits, kLevelBits))
    return fail(prefix + "bits after the last level are not all 0");
  return result;
}

bool operator==(const Instruction &a, const Instruction &b) {
  auto same = [](FieldSpan fields, const void *x, const void *y) {
    return std::all_of(fields.begin(), fields.end(), [&](const FieldInfo &field) { return get(field, x) == get(field, y); });
  };
  if (a.opcode() != b.opcode())
    return false;
  for (const FieldInfo &field : headerFields())
    if (!setByEncoder(field) && get(field, &a.header) != get(field, &b.header))
      return false;
  for (unsigned i = 0; i < kMaxLevels; ++i)
    if (!same(levelFields(), &a.levels[i], &b.levels[i]))
      return false;
  return same(a.info().layout->fields, a.operandBase(), b.operandBase());
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

namespace {

bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::string printValue(const FieldInfo &field, int64_t value) {
  if (field.values)
    if (const char *name = caseName(*field.values, value))
      return name;
  // Addresses, bit patterns and masks.
  if (!field.isSigned && (field.width >= 28 || endsWith(field.name, "_mask"))) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
  }
  return std::to_string(value);
}

/// The entries of one array (or scalar) in a table.
FieldSpan elementsOf(FieldSpan fields, std::string_view name) {
  size_t first = 0;
  while (first < fields.size() && name != fields[first].name)
    ++first;
  size_t last = first;
  while (last < fields.size() && name == fields[last].name)
    ++last;
  return {fields.begin() + first, last - first};
}

const GroupInfo *groupWith(const LayoutInfo &layout, std::string_view member) {
  for (const GroupInfo &group : layout.groups)
    for (size_t i = 0; i < group.size; ++i)
      if (member == group.members[i])
        return &group;
  return nullptr;
}

/// Appends " name=value" for every field that is not 0. `first` has no blank
/// before it.
void printFields(const LayoutInfo &layout, const void *base, bool blankFirst, std::string &out) {
  auto begin = [&](const char *name) {
    if (blankFirst)
      out += ' ';
    blankFirst = true;
    (out += name) += '=';
  };
  for (size_t i = 0; i < layout.fields.size();) {
    const FieldInfo &field = layout.fields[i];
    FieldSpan elements = elementsOf(layout.fields, field.name);
    i += elements.size();
    if (&layout == &kHeaderLayout && (setByEncoder(field) || field.lsb == numLevelsField().lsb))
      continue;
    const GroupInfo *group = groupWith(layout, field.name);
    if (group && group->members[0] != std::string_view(field.name))
      continue;
    FieldSpan members[8] = {elements};
    const size_t numMembers = group ? group->size : 1;
    assert(numMembers <= std::size(members));
    for (size_t m = 1; m < numMembers; ++m)
      members[m] = elementsOf(layout.fields, group->members[m]);
    size_t used = 0;
    for (size_t e = 0; e < elements.size(); ++e)
      for (size_t m = 0; m < numMembers; ++m)
        if (get(members[m][e], base) != 0)
          used = e + 1;
    if (used == 0)
      continue;
    begin(group ? group->name : field.name);
    const bool list = group || field.index >= 0;
    if (list)
      out += '[';
    for (size_t e = 0; e < used; ++e) {
      if (e)
        out += ',';
      for (size_t m = 0; m < numMembers; ++m)
        (out += m ? ":" : "") += printValue(members[m][e], get(members[m][e], base));
    }
    if (list)
      out += ']';
  }
}

} // namespace

std::string print(const Instruction &instruction) {
  std::string out = instruction.info().mnemonic;
  printFields(kHeaderLayout, &instruction.header, true, out);
  printFields(*instruction.info().layout, instruction.operandBase(), true, out);
  if (instruction.header.num_levels > 0) {
    out += " levels=[";
    for (int64_t i = 0; i < instruction.header.num_levels; ++i) {
      out += i ? ",{" : "{";
      printFields(kLevelLayout, &instruction.levels[i], false, out);
      out += '}';
    }
    out += ']';
  }
  return out;
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

std::string nearestName(std::string_view name, const std::vector<std::string> &known) {
  std::string best;
  // With a third of the letters wrong it is no typing error any more.
  size_t bestDistance = name.size() / 3 + 2;
  for (const std::string &candidate : known) {
    // Letters to insert, delete, replace, or swap with their neighbour.
    std::vector<std::vector<size_t>> distance(name.size() + 1, std::vector<size_t>(candidate.size() + 1));
    for (size_t i = 0; i <= name.size(); ++i)
      for (size_t j = 0; j <= candidate.size(); ++j) {
        if (i == 0 || j == 0) {
          distance[i][j] = i + j;
          continue;
        }
        const bool same = name[i - 1] == candidate[j - 1];
        distance[i][j] = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1, distance[i - 1][j - 1] + !same});
        if (i > 1 && j > 1 && name[i - 1] == candidate[j - 2] && name[i - 2] == candidate[j - 1])
          distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
      }
    if (distance[name.size()][candidate.size()] < bestDistance) {
      bestDistance = distance[name.size()][candidate.size()];
      best = candidate;
    }
  }
  return best;
}

namespace {

class Parser {
public:
  Parser(std::string_view text, const std::string &file, unsigned line) : file(file), line(line) {
    this->text = text.substr(0, text.find('#'));
  }

  Result<Instruction> run() {
    skipBlanks();
    size_t start = at;
    std::string mnemonic = word();
    const InstructionInfo *info = nullptr;
    std::vector<std::string> mnemonics;
    for (const InstructionInfo &candidate : kInstructions) {
      mnemonics.push_back(candidate.mnemonic);
      if (mnemonic == candidate.mnemonic)
        info = &candidate;
    }
    if (!info) {
      if (mnemonic.empty())
        fail(start, start < text.size() ? "expected an instruction, found " + here(start)
                                        : std::string("expected an instruction, found the end of the line"));
      else
        fail(start, "unknown instruction '" + mnemonic + "'" + proposal(mnemonic, mnemonics));
      return problems;
    }
    Instruction instruction(makeOperands(info->opcode));
    std::vector<std::string> seen;
    while (problems.empty()) {
      skipBlanks();
      if (at == text.size())
        break;
      size_t keyStart = at;
      std::string key = word();
      if (key.empty()) {
        fail(keyStart, "expected a field name, found " + here(keyStart));
        break;
      }
      if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
        fail(keyStart, "field '" + key + "' is given twice");
        break;
      }
      seen.push_back(key);
      if (!expect('='))
        break;
      if (key == "levels")
        parseLevels(instruction);
      else if (has(kHeaderLayout, key, true))
        parseField(kHeaderLayout, key, &instruction.header);
      else if (has(*info->layout, key, false))
        parseField(*info->layout, key, instruction.operandBase());
      else {
        std::vector<std::string> known{"levels"};
        names(kHeaderLayout, true, known);
        names(*info->layout, false, known);
        fail(keyStart, "unknown field '" + key + "' of " + info->mnemonic + proposal(key, known));
      }
    }
    if (!problems.empty())
      return problems;
    return instruction;
  }

private:
  void fail(size_t column, std::string message) {
    if (problems.empty())
      problems.push_back({file, line, unsigned(column + 1), std::move(message)});
  }
  std::string here(size_t position) const { return "'" + std::string(1, text[position]) + "'"; }
  static std::string proposal(const std::string &name, const std::vector<std::string> &known) {
    std::string nearest = nearestName(name, known);
    if (!nearest.empty())
      return "; did you mean '" + nearest + "'?";
    std::string all;
    for (const std::string &candidate : known)
      all += (all.empty() ? "" : ", ") + candidate;
    return "; known are " + all;
  }
  void skipBlanks() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r'))
      ++at;
  }
  static bool isWordChar(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  std::string word() {
    size_t start = at;
    while (at < text.size() && isWordChar(text[at]))
      ++at;
    return std::string(text.substr(start, at - start));
  }
  bool peek(char c) {
    skipBlanks();
    return at < text.size() && text[at] == c;
  }
  bool accept(char c) {
    if (!peek(c))
      return false;
    ++at;
    return true;
  }
  bool expect(char c) {
    if (accept(c))
      return true;
    fail(at, std::string("expected '") + c + "', found " + (at < text.size() ? here(at) : "the end of the line"));
    return false;
  }

  /// Scalars and arrays under their own names, but members of groups only under
  /// the group's.
  static void names(const LayoutInfo &layout, bool header, std::vector<std::string> &out) {
    for (const FieldInfo &field : layout.fields) {
      bool hidden = header && (setByEncoder(field) || field.lsb == numLevelsField().lsb);
      if (field.index <= 0 && !hidden && !groupWith(layout, field.name))
        out.push_back(field.name);
    }
    for (const GroupInfo &group : layout.groups)
      out.push_back(group.name);
  }
  static bool has(const LayoutInfo &layout, const std::string &key, bool header) {
    std::vector<std::string> known;
    names(layout, header, known);
    return std::find(known.begin(), known.end(), key) != known.end();
  }

  void parseField(const LayoutInfo &layout, const std::string &key, void *base) {
    std::vector<FieldSpan> members;
    for (const GroupInfo &group : layout.groups)
      if (key == group.name)
        for (size_t m = 0; m < group.size; ++m)
          members.push_back(elementsOf(layout.fields, group.members[m]));
    const bool group = !members.empty();
    if (!group)
      members.push_back(elementsOf(layout.fields, key));
    if (!group && members[0][0].index < 0) {
      parseValue(members[0][0], base);
      return;
    }
    if (!expect('['))
      return;
    size_t element = 0;
    if (accept(']'))
      return;
    do {
      skipBlanks();
      if (element == members[0].size())
        return fail(at, "'" + key + "' has at most " + std::to_string(members[0].size()) + " elements");
      for (size_t m = 0; m < members.size(); ++m) {
        if (m && !expect(':'))
          return;
        if (!parseValue(members[m][element], base))
          return;
      }
      ++element;
    } while (accept(','));
    expect(']');
  }

  void parseLevels(Instruction &instruction) {
    if (!expect('[') || accept(']'))
      return;
    int64_t &count = instruction.header.num_levels;
    do {
      skipBlanks();
      if (count == kMaxLevels)
        return fail(at, "an instruction has at most " + std::to_string(kMaxLevels) + " levels");
      if (!expect('{'))
        return;
      Level &level = instruction.levels[count++];
      std::vector<std::string> seen;
      while (!accept('}')) {
        size_t start = at;
        std::string key = word();
        if (key.empty())
          return fail(start, "expected a field of the level or '}', found " +
                                 (start < text.size() ? here(start) : "the end of the line"));
        if (!has(kLevelLayout, key, false)) {
          std::vector<std::string> known;
          names(kLevelLayout, false, known);
          return fail(start, "unknown field '" + key + "' of a level" + proposal(key, known));
        }
        if (std::find(seen.begin(), seen.end(), key) != seen.end())
          return fail(start, "field '" + key + "' is given twice");
        seen.push_back(key);
        if (!expect('='))
          return;
        parseField(kLevelLayout, key, &level);
        if (!problems.empty())
          return;
      }
    } while (accept(','));
    expect(']');
  }

  bool parseValue(const FieldInfo &field, void *base) {
    skipBlanks();
    size_t start = at;
    int64_t value = 0;
    if (at < text.size() && (isWordChar(text[at]) && !(text[at] >= '0' && text[at] <= '9'))) {
      std::string name = word();
      std::vector<std::string> known;
      const CaseInfo *found = nullptr;
      if (field.values)
        for (const CaseInfo &c : field.values->cases) {
          known.push_back(c.name);
          if (name == c.name)
            found = &c;
        }
      if (!found) {
        fail(start, field.values ? "unknown " + std::string(field.enumeration) + " '" + name + "'" + proposal(name, known)
                                 : "expected a number for " + nameOf(field) + ", found '" + name + "'");
        return false;
      }
      value = found->value;
    } else if (!parseNumber(field, value)) {
      return false;
    }
    if (!fits(field, value)) {
      fail(start, nameOf(field) + " is " + std::to_string(value) + ", allowed is " + allowedValues(field));
      return false;
    }
    set(field, base, value);
    return true;
  }

  bool parseNumber(const FieldInfo &field, int64_t &value) {
    size_t start = at;
    std::string token;
    // A sign may also stand in an exponent.
    while (at < text.size() && (isWordChar(text[at]) || text[at] == '.' ||
                                ((text[at] == '-' || text[at] == '+') &&
                                 (token.empty() || (token.back() == 'e' && token.find('x') == std::string::npos))))) {
      token += text[at++];
    }
    if (token.empty()) {
      fail(start,
           "expected a value for " + nameOf(field) + ", found " + (start < text.size() ? here(start) : "the end of the line"));
      return false;
    }
    char *end = nullptr;
    const bool isHex = token.find('x') != std::string::npos;
    if (!isHex && token.size() > 1 && token.back() == 'f' && !field.isSigned && field.width == 32) {
      std::string digits = token.substr(0, token.size() - 1);
      float real = std::strtof(digits.c_str(), &end);
      if (*end == 0 && end != digits.c_str()) {
        uint32_t pattern;
        std::memcpy(&pattern, &real, sizeof pattern);
        value = pattern;
        return true;
      }
    }
    errno = 0;
    const bool bareHex = isHex && token.find('x') != 1 + (token[0] == '-' || token[0] == '+');
    value = std::strtoll(token.c_str(), &end, isHex ? 16 : 10);
    if (*end != 0 || end == token.c_str() || errno != 0 || bareHex) {
      fail(start, "'" + token + "' is not a number that " + nameOf(field) + " can hold");
      return false;
    }
    return true;
  }

  std::string_view text;
  const std::string &file;
  unsigned line;
  size_t at = 0;
  Diagnostics problems;
};

} // namespace

Result<Instruction> parse(std::string_view text, const std::string &file, unsigned line) {
  return Parser(text, file, line).run();
}

} // namespace tw::isa
