//===- Aliases.cpp - Outputs that lie at an input's place ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/graph/Aliases.h"

#include "compiler/graph/Graph.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>

using namespace mlir;

namespace tw::graph {

std::string inputName(func::FuncOp main, unsigned index) {
  auto name = main.getArgAttrOfType<StringAttr>(index, kNameAttr);
  return name ? name.getValue().str() : "input" + std::to_string(index);
}

std::string outputName(func::FuncOp main, unsigned index) {
  auto name = main.getResultAttrOfType<StringAttr>(index, kNameAttr);
  return name ? name.getValue().str() : "output" + std::to_string(index);
}

llvm::Error setAliases(func::FuncOp main, llvm::ArrayRef<std::pair<std::string, std::string>> aliases) {
  auto find = [&](const std::string &name, unsigned count, auto nameOf, const char *what, unsigned &index) -> llvm::Error {
    std::string known;
    for (index = 0; index < count; ++index) {
      const std::string each = nameOf(main, index);
      if (each == name)
        return llvm::Error::success();
      known += (known.empty() ? "'" : ", '") + each + "'";
    }
    return llvm::createStringError("an alias names %s '%s', but the network has only %s", what, name.c_str(), known.c_str());
  };
  for (const auto &[outputText, inputText] : aliases) {
    unsigned output = 0, input = 0;
    if (llvm::Error error = find(outputText, main.getNumResults(), outputName, "output", output))
      return error;
    if (llvm::Error error = find(inputText, main.getNumArguments(), inputName, "input", input))
      return error;
    const auto other = main.getResultAttrOfType<StringAttr>(output, kAliasAttr);
    if (other && other.getValue() != inputText)
      return llvm::createStringError("output '%s' is to lie at the place of input '%s' and of input '%s'", outputText.c_str(),
                                     other.getValue().str().c_str(), inputText.c_str());
    for (unsigned i = 0; i < main.getNumResults(); ++i)
      if (auto taken = main.getResultAttrOfType<StringAttr>(i, kAliasAttr);
          i != output && taken && taken.getValue() == inputText)
        return llvm::createStringError("outputs '%s' and '%s' are to lie at the place of one input, '%s'",
                                       outputName(main, i).c_str(), outputText.c_str(), inputText.c_str());
    const Type type = main.getResultTypes()[output], allowed = main.getArgumentTypes()[input];
    if (type != allowed) {
      std::string text;
      llvm::raw_string_ostream(text) << "output '" << outputText << "' is of " << type
                                     << ", but the input at whose place it is to lie, '" << inputText << "', of " << allowed;
      return llvm::createStringError("%s", text.c_str());
    }
    main.setResultAttr(output, kAliasAttr, StringAttr::get(main.getContext(), inputText));
  }
  return llvm::Error::success();
}

} // namespace tw::graph
