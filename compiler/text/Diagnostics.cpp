//===- Diagnostics.cpp - MLIR's diagnostics as text ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/text/Diagnostics.h"

#include "compiler/graph/Messages.h"

#include "mlir/IR/Location.h"

using namespace mlir;
using namespace tw;
using namespace tw::text;

DiagnosticText::DiagnosticText(MLIRContext *context, bool isTheUsers)
    : handler(context, [this, isTheUsers](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
          return failure();
        const std::string place = graph::placeOf(diagnostic.getLocation()), message = diagnostic.str();
        llvm::StringRef line = message;
        std::optional<std::string> sentence;
        if (!isTheUsers) {
          bool isOurs = line.consume_front(kInternal);
          if (sentence = graph::sentenceOf(line); sentence) {
            line = *sentence;
          } else {
            line = line.split("' op ").second;
            isOurs = true;
          }
          // The first line says whose fault all is.
          if (isOurs && text.empty())
            text = kInternal;
        }
        // MLIR prints what an op was applied to behind its sentence, a whole module if it is one.
        if (isTheUsers) {
          line = line.split('\n').first.rtrim();
          line.consume_back(" ->");
        }
        if (!text.empty() && text != kInternal)
          text += "\n";
        text += (place.empty() ? "" : place + ": ") + line.str();
        return success();
      }) {}
