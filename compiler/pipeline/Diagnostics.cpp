//===- Diagnostics.cpp - MLIR's diagnostics as text ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/Diagnostics.h"

#include "mlir/IR/Location.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

#include <algorithm>

using namespace mlir;
using namespace tw;
using namespace tw::pipeline;

namespace {
/// The parser calls itself for each bracket and each sign; a thousand of them take some hundred KiB of stack.
constexpr unsigned kMostNested = 1000;

/// Where brackets or signs are nested too deep, else null. Whether what closes is what was opened is the parser's business.
const char *tooDeep(llvm::StringRef text) {
  const char *const end = text.end();
  unsigned depth = 0, signs = 0;
  for (const char *at = text.begin(); at != end; ++at) {
    const char next = at + 1 == end ? '\0' : at[1];
    switch (*at) {
    case '"':
      for (++at; at != end && *at != '"' && *at != '\n'; ++at)
        at += *at == '\\' && at + 1 != end;
      break;
    case '/':
      if (next == '/')
        at = std::find(at, end, '\n');
      break;
    case '-':
      if (next == '>')
        ++at;
      else
        ++signs;
      break;
    case '(':
    case '[':
    case '{':
      ++depth;
      break;
    case '<':
      depth += next != '=';
      break;
    case ')':
    case ']':
    case '}':
    case '>':
      depth -= depth > 0 && next != '=';
      break;
    case ' ':
    case '\t':
    case '\r':
    case '\n':
      break;
    default:
      signs = 0;
    }
    if (depth + signs > kMostNested)
      return at;
    if (at == end)
      break;
  }
  return nullptr;
}

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

llvm::Expected<OwningOpRef<ModuleOp>> pipeline::readText(MLIRContext &context, llvm::StringRef path) {
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> buffer = openInputFile(path, &message);
  if (!buffer)
    return llvm::createStringError("%s", message.c_str());
  const char *deep = tooDeep(buffer->getBuffer());
  llvm::SourceMgr sources;
  const unsigned file = sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  if (deep) {
    auto [line, column] = sources.getLineAndColumn(llvm::SMLoc::getFromPointer(deep), file);
    return llvm::createStringError("%s:%u:%u: more than %u brackets within one another", path.str().c_str(), line, column,
                                   kMostNested);
  }
  DiagnosticText text(&context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return llvm::createStringError("%s", text.str().empty() ? ("cannot read " + path).str().c_str() : text.str().c_str());
  return module;
}
