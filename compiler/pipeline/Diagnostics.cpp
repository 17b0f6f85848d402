//===- Diagnostics.cpp - MLIR's diagnostics as text ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/Diagnostics.h"

#include "mlir/IR/Location.h"

using namespace mlir;
using namespace tw;
using namespace tw::pipeline;

namespace {
/// The name of the ONNX node, else file:line:column.
std::string placeOf(Location location) {
  std::string place;
  location->walk([&](Location inner) {
    if (auto name = dyn_cast<NameLoc>(inner)) {
      place = "node '" + name.getName().str() + "'";
      return WalkResult::interrupt();
    }
    if (auto file = dyn_cast<FileLineColLoc>(inner)) {
      place = file.getFilename().str() + ":" + std::to_string(file.getLine()) + ":" + std::to_string(file.getColumn());
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return place;
}
} // namespace

DiagnosticText::DiagnosticText(MLIRContext *context)
    : handler(context, [this](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
          return failure();
        std::string place = placeOf(diagnostic.getLocation());
        if (!text.empty())
          text += "\n";
        text += (place.empty() ? "" : place + ": ") + diagnostic.str();
        return success();
      }) {}
