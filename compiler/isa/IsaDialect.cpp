//===- IsaDialect.cpp - Instructions as ops ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/isa/IsaDialect.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace mlir;

#include "compiler/isa/IsaOpsDialect.cpp.inc"

#define GET_OP_CLASSES
#include "compiler/isa/IsaOps.cpp.inc"

namespace tw::isa {

void IsaDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "compiler/isa/IsaOps.cpp.inc"
      >();
}

namespace {

constexpr llvm::StringLiteral kLevelPrefix = "level_";

/// Fields that the dialect does not store: the encoder or the length of the
/// level arrays gives them.
bool isImplied(const FieldInfo &field) {
  llvm::StringRef name = field.name;
  return name == "opcode" || name == "words" || name == "num_levels";
}

const InstructionInfo &infoOf(OperationName name) {
  for (const InstructionInfo &info : kInstructions)
    if (name.stripDialect() == info.mnemonic)
      return info;
  llvm_unreachable("the dialect has one op per instruction");
}

/// Number of elements of the array that begins at `first`.
size_t arrayLength(FieldSpan fields, size_t first) {
  size_t length = 1;
  while (first + length < fields.size() && fields[first + length].index > 0)
    ++length;
  return length;
}

/// Calls visit(name, fields of one scalar or array) for the stored fields.
template <typename Visit> void forEachField(FieldSpan fields, Visit visit) {
  for (size_t i = 0; i < fields.size();) {
    size_t length = fields[i].index < 0 ? 1 : arrayLength(fields, i);
    if (!isImplied(fields[i]))
      visit(llvm::StringRef(fields[i].name), FieldSpan{fields.begin() + i, length});
    i += length;
  }
}

bool isArray(FieldSpan fields) { return fields[0].index >= 0; }

/// The attributes of the fields at `base` that are not 0.
void addAttributes(Builder builder, FieldSpan fields, const void *base, NamedAttrList &attributes) {
  forEachField(fields, [&](llvm::StringRef name, FieldSpan elements) {
    llvm::SmallVector<int64_t> values;
    for (const FieldInfo &element : elements)
      values.push_back(get(element, base));
    if (llvm::all_of(values, [](int64_t value) { return value == 0; }))
      return;
    attributes.append(name, isArray(elements) ? Attribute(builder.getDenseI64ArrayAttr(values))
                                              : builder.getI64IntegerAttr(values[0]));
  });
}

NamedAttrList attributesOf(Builder builder, const Instruction &instruction) {
  NamedAttrList attributes;
  addAttributes(builder, headerFields(), &instruction.header, attributes);
  addAttributes(builder, instruction.info().layout->fields, instruction.operandBase(), attributes);
  // The arrays' length is num_levels, even where every level has 0.
  const int64_t numLevels = instruction.header.num_levels;
  if (numLevels > 0)
    forEachField(levelFields(), [&](llvm::StringRef name, FieldSpan field) {
      llvm::SmallVector<int64_t> values;
      for (int64_t i = 0; i < numLevels; ++i)
        values.push_back(get(field[0], &instruction.levels[i]));
      attributes.append((kLevelPrefix + name).str(), builder.getDenseI64ArrayAttr(values));
    });
  return attributes;
}

llvm::ArrayRef<int64_t> arrayOf(Operation *op, llvm::StringRef name) {
  auto array = op->getAttrOfType<DenseI64ArrayAttr>(name);
  return array ? array.asArrayRef() : llvm::ArrayRef<int64_t>();
}

void readAttributes(Operation *op, FieldSpan fields, void *base) {
  forEachField(fields, [&](llvm::StringRef name, FieldSpan elements) {
    if (isArray(elements)) {
      llvm::ArrayRef<int64_t> values = arrayOf(op, name);
      for (size_t i = 0; i < std::min(values.size(), elements.size()); ++i)
        set(elements[i], base, values[i]);
    } else if (auto value = op->getAttrOfType<IntegerAttr>(name)) {
      set(elements[0], base, value.getInt());
    }
  });
}

} // namespace

bool isInstruction(Operation *op) { return op->getName().getDialectNamespace() == IsaDialect::getDialectNamespace(); }

Operation *build(OpBuilder &builder, Location location, const Instruction &instruction) {
  OperationState state(location, (IsaDialect::getDialectNamespace() + "." + instruction.info().mnemonic).str());
  state.attributes = attributesOf(builder, instruction);
  return builder.create(state);
}

Instruction toInstruction(Operation *op) {
  const InstructionInfo &info = infoOf(op->getName());
  Instruction instruction(makeOperands(info.opcode));
  readAttributes(op, headerFields(), &instruction.header);
  readAttributes(op, info.layout->fields, instruction.operandBase());
  forEachField(levelFields(), [&](llvm::StringRef name, FieldSpan field) {
    llvm::ArrayRef<int64_t> values = arrayOf(op, (kLevelPrefix + name).str());
    for (size_t i = 0; i < std::min<size_t>(values.size(), kMaxLevels); ++i)
      set(field[0], &instruction.levels[i], values[i]);
    instruction.header.num_levels = std::max<int64_t>(instruction.header.num_levels, int64_t(values.size()));
  });
  return instruction;
}

LogicalResult verifyInstructionOp(Operation *op) {
  const InstructionInfo &info = infoOf(op->getName());
  LogicalResult result = success();
  auto checkLengths = [&](FieldSpan fields) {
    forEachField(fields, [&](llvm::StringRef name, FieldSpan elements) {
      const size_t length = isArray(elements) ? arrayOf(op, name).size() : 0;
      if (succeeded(result) && length > elements.size())
        result = op->emitOpError() << "'" << name << "' has " << length << " elements, allowed are at most " << elements.size();
    });
  };
  checkLengths(headerFields());
  checkLengths(info.layout->fields);
  std::optional<size_t> numLevels;
  forEachField(levelFields(), [&](llvm::StringRef name, FieldSpan) {
    const std::string attribute = (kLevelPrefix + name).str();
    if (failed(result) || !op->hasAttr(attribute))
      return;
    const size_t length = arrayOf(op, attribute).size();
    if (length > size_t(kMaxLevels))
      result = op->emitOpError() << "'" << attribute << "' has " << length << " elements, allowed are at most " << kMaxLevels;
    else if (numLevels && *numLevels != length)
      result = op->emitOpError() << "'" << attribute << "' has " << length << " elements, another array of the levels has "
                                 << *numLevels;
    numLevels = length;
  });
  if (failed(result))
    return failure();
  std::string why;
  if (!fits(toInstruction(op), &why))
    return op->emitOpError() << "cannot be encoded: " << why;
  return success();
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

void printInstructionOp(OpAsmPrinter &printer, Operation *op) {
  // Of "load unit=1 ..." the op's name has printed the mnemonic.
  std::string text = print(toInstruction(op));
  llvm::StringRef fields = llvm::StringRef(text).drop_front(std::strlen(infoOf(op->getName()).mnemonic));
  printer << "(" << fields.ltrim() << ")";
  printer.printOptionalAttrDict(llvm::to_vector(op->getDiscardableAttrs()));
}

namespace {

/// The assembler's syntax, read through MLIR's lexer.
class TextParser {
public:
  explicit TextParser(OpAsmParser &parser) : parser(parser) {}

  ParseResult parse(Instruction &instruction) {
    if (parser.parseLParen())
      return failure();
    llvm::SmallVector<llvm::StringRef> seen;
    while (failed(parser.parseOptionalRParen())) {
      llvm::StringRef key;
      llvm::SMLoc place = parser.getCurrentLocation();
      if (parser.parseKeyword(&key))
        return failure();
      if (llvm::is_contained(seen, key))
        return parser.emitError(place) << "field '" << key << "' is given twice";
      seen.push_back(key);
      if (parser.parseEqual())
        return failure();
      ParseResult result = success();
      if (key == "levels")
        result = parseLevels(instruction);
      else if (std::optional<Target> target = find(*instruction.info().layout, key, instruction.operandBase()))
        result = parseTarget(*target);
      else if (std::optional<Target> target = find(kHeaderLayout, key, &instruction.header))
        result = parseTarget(*target);
      else
        return unknown(place, key, instruction.info().mnemonic, {&kHeaderLayout, instruction.info().layout});
      if (result)
        return failure();
    }
    return success();
  }

private:
  /// A field, an array, or the arrays of a group; `base` is their struct.
  struct Target {
    llvm::SmallVector<FieldSpan> members;
    void *base;
    bool list;
  };

  static const GroupInfo *groupOf(const LayoutInfo &layout, llvm::StringRef field) {
    for (const GroupInfo &group : layout.groups)
      if (llvm::is_contained(llvm::ArrayRef(group.members, group.size), field))
        return &group;
    return nullptr;
  }

  static std::optional<Target> find(const LayoutInfo &layout, llvm::StringRef key, void *base) {
    Target target{{}, base, false};
    forEachField(layout.fields, [&](llvm::StringRef name, FieldSpan fields) {
      const GroupInfo *group = groupOf(layout, name);
      if (key != (group ? llvm::StringRef(group->name) : name))
        return;
      target.members.push_back(fields);
      target.list = group || isArray(fields);
    });
    if (target.members.empty())
      return std::nullopt;
    return target;
  }

  ParseResult unknown(llvm::SMLoc place, llvm::StringRef key, llvm::StringRef owner,
                      std::initializer_list<const LayoutInfo *> layouts) {
    std::vector<std::string> known{"levels"};
    for (const LayoutInfo *layout : layouts)
      forEachField(layout->fields, [&](llvm::StringRef name, FieldSpan) {
        const GroupInfo *group = groupOf(*layout, name);
        known.push_back(group ? group->name : name.str());
      });
    std::string nearest = nearestName(key, known);
    InFlightDiagnostic error = parser.emitError(place) << "unknown field '" << key << "' of " << owner;
    if (!nearest.empty())
      error << "; did you mean '" << nearest << "'?";
    return error;
  }

  ParseResult parseTarget(const Target &target) {
    if (!target.list)
      return parseValue(target.members[0][0], target.base);
    size_t element = 0;
    return parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, [&]() -> ParseResult {
      if (element == target.members[0].size())
        return parser.emitError(parser.getCurrentLocation()) << "at most " << element << " elements are allowed";
      for (const FieldSpan &member : target.members) {
        if (&member != &target.members.front() && parser.parseColon())
          return failure();
        if (parseValue(member[element], target.base))
          return failure();
      }
      ++element;
      return success();
    });
  }

  ParseResult parseLevels(Instruction &instruction) {
    return parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, [&]() -> ParseResult {
      int64_t &count = instruction.header.num_levels;
      if (count == kMaxLevels)
        return parser.emitError(parser.getCurrentLocation()) << "an instruction has at most " << kMaxLevels << " levels";
      Level &level = instruction.levels[count++];
      if (parser.parseLBrace())
        return failure();
      llvm::SmallVector<llvm::StringRef> seen;
      while (failed(parser.parseOptionalRBrace())) {
        llvm::StringRef key;
        llvm::SMLoc place = parser.getCurrentLocation();
        if (parser.parseKeyword(&key))
          return failure();
        std::optional<Target> target = find(kLevelLayout, key, &level);
        if (!target)
          return unknown(place, key, "a level", {&kLevelLayout});
        if (llvm::is_contained(seen, key))
          return parser.emitError(place) << "field '" << key << "' is given twice";
        seen.push_back(key);
        if (parser.parseEqual() || parseTarget(*target))
          return failure();
      }
      return success();
    });
  }

  ParseResult parseValue(const FieldInfo &field, void *base) {
    llvm::SMLoc place = parser.getCurrentLocation();
    int64_t value = 0;
    llvm::StringRef name;
    if (field.values && succeeded(parser.parseOptionalKeyword(&name))) {
      auto found = llvm::find_if(field.values->cases, [&](const CaseInfo &c) { return name == c.name; });
      if (found == field.values->cases.end())
        return parser.emitError(place) << "unknown " << field.enumeration << " '" << name << "', allowed is "
                                       << allowedValues(field);
      value = found->value;
    } else if (parser.parseInteger(value)) {
      return failure();
    }
    if (!fits(field, value))
      return parser.emitError(place) << nameOf(field) << " is " << value << ", allowed is " << allowedValues(field);
    set(field, base, value);
    return success();
  }

  OpAsmParser &parser;
};

} // namespace

ParseResult parseInstructionOp(OpAsmParser &parser, OperationState &state) {
  Instruction instruction(makeOperands(infoOf(state.name).opcode));
  if (TextParser(parser).parse(instruction))
    return failure();
  state.attributes = attributesOf(parser.getBuilder(), instruction);
  return parser.parseOptionalAttrDict(state.attributes);
}

} // namespace tw::isa
