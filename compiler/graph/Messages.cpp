//===- Messages.cpp - What users read about a model -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/Messages.h"
#include "compiler/graph/Graph.h"
#include "compiler/operators/Operator.h"
#include "isa/Printable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace tw::graph {

Location nodeLocation(MLIRContext *context, StringRef name, StringRef op) {
  auto text = [&](StringRef value) { return StringAttr::get(context, printable(value)); };
  if (op.empty())
    return NameLoc::get(text(name));
  return NameLoc::get(text(name), NameLoc::get(text(op)));
}

std::string nodeTitle(StringRef name, StringRef op) {
  return "node \"" + printable(name) + "\"" + (op.empty() ? "" : " (" + printable(op) + ")");
}

std::string placeOf(Location location) {
  std::string place;
  location->walk([&](Location inner) {
    if (auto name = dyn_cast<NameLoc>(inner)) {
      auto op = dyn_cast<NameLoc>(name.getChildLoc());
      place = nodeTitle(name.getName(), op ? op.getName().getValue() : StringRef());
      return WalkResult::interrupt();
    }
    if (auto file = dyn_cast<FileLineColLoc>(inner)) {
      place = printable(file.getFilename().getValue()) + ":" + std::to_string(file.getLine()) + ":" +
              std::to_string(file.getColumn());
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return place;
}

std::string operatorTitle(StringRef domain, StringRef op) {
  return domain.empty() || domain == "ai.onnx" ? printable(op) : printable((domain + "." + op).str());
}

/// ONNX's name of what MLIR calls `type` in constraints or in types.
static std::string typeTitle(StringRef type) {
  StringRef name = llvm::StringSwitch<StringRef>(type.trim())
                       .Cases("32-bit float", "f32", "float")
                       .Cases("bfloat16 type", "bf16", "bfloat16")
                       .Cases("16-bit float", "f16", "float16")
                       .Cases("64-bit float", "f64", "double")
                       .Cases("1-bit signless integer", "i1", "bool")
                       .Cases("8-bit signless integer", "i8", "int8")
                       .Cases("8-bit unsigned integer", "ui8", "uint8")
                       .Cases("16-bit signless integer", "i16", "int16")
                       .Cases("16-bit unsigned integer", "ui16", "uint16")
                       .Cases("32-bit signless integer", "i32", "int32")
                       .Cases("32-bit unsigned integer", "ui32", "uint32")
                       .Cases("64-bit signless integer", "i64", "int64")
                       .Cases("64-bit unsigned integer", "ui64", "uint64")
                       .Default(type.trim());
  return name.str();
}

std::optional<std::string> sentenceOf(StringRef text) {
  auto [name, rest] = text.split("' op ");
  if (!name.consume_front("'") || rest.empty())
    return text.str(); // no verifier's
  if (!name.starts_with("graph."))
    return std::nullopt;
  // "operand #0 must be statically shaped tensor of A or B values, but got 'tensor<2x3xi1>'"
  StringRef message = rest;
  const bool isOperand = message.consume_front("operand #");
  unsigned position;
  if ((!isOperand && !message.consume_front("result #")) || message.consumeInteger(10, position) ||
      !message.consume_front(" must be "))
    return rest.str();
  message.consume_front("variadic of ");
  auto [allowed, found] = message.split(" values, but got ");
  if (!allowed.consume_front("statically shaped tensor of "))
    return rest.str();
  StringRef element = found.trim("'");
  element = element.rsplit('x').second.empty() ? element.rsplit('<').second : element.rsplit('x').second;
  element = element.take_until([](char c) { return c == '>'; });
  llvm::SmallVector<StringRef> types;
  allowed.split(types, " or ");
  std::string list;
  for (auto [i, type] : llvm::enumerate(types))
    list += (i == 0 ? "" : i + 1 == types.size() ? " or " : ", ") + typeTitle(type);
  return (isOperand ? "input " + std::to_string(position) : std::string("the result")) + " is of " + typeTitle(element) +
         ", expected " + list;
}

std::string describeUnsupported(llvm::ArrayRef<UnsupportedNode> nodes) {
  /// A model of thousands is told by its counts.
  constexpr size_t kMostLines = 100;
  llvm::MapVector<StringRef, unsigned> counts;
  std::string lines;
  for (auto [i, node] : llvm::enumerate(nodes)) {
    ++counts[node.op];
    if (i < kMostLines)
      lines += (lines.empty() ? "" : "\n") + (node.name.empty() ? node.op : nodeTitle(node.name, node.op)) + ": " + node.reason;
  }
  if (nodes.size() == 1)
    return lines;
  std::string list;
  for (auto &[op, count] : counts)
    list += (list.empty() ? "" : ", ") + printable(op) + " (" + std::to_string(count) + ")";
  if (nodes.size() > kMostLines)
    lines += "\nand " + std::to_string(nodes.size() - kMostLines) + " more";
  return std::to_string(nodes.size()) + " nodes cannot run on any target: " + list + "\n" + lines;
}

std::vector<UnsupportedNode> findUnsupported(ModuleOp module) {
  std::vector<UnsupportedNode> nodes;
  module.walk([&](FallbackOp op) {
    auto kernel = op->getParentOfType<func::FuncOp>();
    auto target = kernel ? kernel->getAttrOfType<StringAttr>("tilewright.target") : StringAttr();
    if (target && target.getValue() == "cpu" && operators::find(op.getDomain().str(), op.getOnnxOp().str()))
      return;
    std::string name;
    op->getLoc()->walk([&](Location inner) {
      auto named = dyn_cast<NameLoc>(inner);
      name = named ? named.getName().str() : name;
      return named ? WalkResult::interrupt() : WalkResult::advance();
    });
    nodes.push_back({name, operatorTitle(op.getDomain(), op.getOnnxOp()), op.getReason().str()});
  });
  return nodes;
}

} // namespace tw::graph
