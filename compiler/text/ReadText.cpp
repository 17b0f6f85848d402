//===- ReadText.cpp - MLIR text that a user wrote -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/text/ReadText.h"

#include "compiler/frontend/OnnxTensor.h"
#include "compiler/text/Diagnostics.h"
#include "isa/files/InputFile.h"

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/IntegerSet.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;
using namespace tw;
using namespace tw::text;

namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TW_ADDRESS_SANITIZER
#endif
#endif

/// The parser calls itself for each bracket and each sign; a thousand of them take some hundred KiB of stack.
constexpr unsigned kMostNested = 1000;
/// Of types, attributes and locations, were each written out wherever it is used.
constexpr uint64_t kMostParts = 1'000'000;
constexpr unsigned kMostDimensions = 64;

//===----------------------------------------------------------------------===//
// Before parsing
//===----------------------------------------------------------------------===//

struct BadPlace {
  const char *at = nullptr;
  std::string message;
};

/// Dimensions that a word such as 1x?x8xf32 begins with.
unsigned dimensionsOf(llvm::StringRef word) {
  unsigned dimensions = 0;
  for (size_t i = 0; i < word.size(); ++i) {
    const size_t begin = i;
    while (i < word.size() && (llvm::isDigit(word[i]) || word[i] == '?'))
      ++i;
    if (i == begin || i == word.size() || word[i] != 'x')
      break;
    ++dimensions;
  }
  return dimensions;
}

/// Where brackets or signs are nested too deep, or a shape is too long for MLIR's lexer, which begins anew at each dimension.
/// Whether what closes is what was opened is the parser's business.
BadPlace findBadPlace(llvm::StringRef text) {
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
      if (llvm::isAlnum(*at) || *at == '?') {
        const char *wordEnd = std::find_if(at, end, [](char c) { return !llvm::isAlnum(c) && c != '?' && c != '_'; });
        if (dimensionsOf({at, size_t(wordEnd - at)}) > kMostDimensions)
          return {at, "a shape of more than " + std::to_string(kMostDimensions) + " dimensions"};
        at = wordEnd - 1;
      }
    }
    if (depth + signs > kMostNested)
      return {at, "more than " + std::to_string(kMostNested) + " brackets within one another"};
    if (at == end)
      break;
  }
  return {};
}

//===----------------------------------------------------------------------===//
// After parsing
//===----------------------------------------------------------------------===//

/// Aliases let a short text make types and attributes that nobody can walk or print.
class SizeCheck {
public:
  /// What is too large in the module, with its place, or nothing.
  std::string run(ModuleOp module, llvm::StringRef name);

private:
  using Part = llvm::PointerUnion<Attribute, Type>;
  struct Extent {
    unsigned depth = 0;
    uint64_t parts = 0;
  };

  static SmallVector<Part> childrenOf(Part part);
  void look(Part part);
  void lookAtShape(Type type);
  unsigned depthOf(AffineExpr expression);
  void lookAtDepth(unsigned depth) {
    if (problem.empty() && depth > kMostNested)
      problem = "something nested more than " + std::to_string(kMostNested) + " deep";
  }

  DenseMap<Part, Extent> extents;
  DenseMap<AffineExpr, unsigned> depths;
  std::string problem;
};

SmallVector<SizeCheck::Part> SizeCheck::childrenOf(Part part) {
  SmallVector<Part> children;
  auto addAttribute = [&](Attribute child) {
    if (child)
      children.push_back(child);
  };
  auto addType = [&](Type child) {
    if (child)
      children.push_back(child);
  };
  if (auto type = dyn_cast<Type>(part))
    type.walkImmediateSubElements(addAttribute, addType);
  else
    cast<Attribute>(part).walkImmediateSubElements(addAttribute, addType);
  return children;
}

unsigned SizeCheck::depthOf(AffineExpr expression) {
  SmallVector<AffineExpr> open{expression};
  while (!open.empty()) {
    AffineExpr top = open.back();
    auto binary = dyn_cast<AffineBinaryOpExpr>(top);
    auto left = binary ? depths.find(binary.getLHS()) : depths.end();
    auto right = binary ? depths.find(binary.getRHS()) : depths.end();
    if (binary && (left == depths.end() || right == depths.end())) {
      if (left == depths.end())
        open.push_back(binary.getLHS());
      if (right == depths.end())
        open.push_back(binary.getRHS());
      continue;
    }
    const unsigned depth = binary ? 1 + std::max(left->second, right->second) : 1;
    depths[top] = depth;
    open.pop_back();
  }
  return depths[expression];
}

void SizeCheck::lookAtShape(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  if (!shaped || !shaped.hasRank() || !problem.empty())
    return;
  if (shaped.getRank() > kMostDimensions) {
    problem = "a shape of " + std::to_string(shaped.getRank()) + " dimensions where at most " +
              std::to_string(kMostDimensions) + " are allowed";
    return;
  }
  std::vector<int64_t> known;
  for (int64_t dim : shaped.getShape())
    known.push_back(ShapedType::isDynamic(dim) ? 1 : dim);
  if (!frontend::countTensorElements(known))
    problem = "a shape of more than " + std::to_string(frontend::kMaxTensorElements) + " elements";
}

void SizeCheck::look(Part part) {
  SmallVector<Part> open{part};
  while (!open.empty()) {
    Part top = open.back();
    auto [entry, isNew] = extents.try_emplace(top);
    if (!isNew && entry->second.parts) {
      open.pop_back();
      continue;
    }
    SmallVector<Part> children = childrenOf(top);
    if (isNew) {
      for (Part child : children)
        if (!extents.count(child))
          open.push_back(child);
      continue;
    }
    // A type that contains itself is still without an extent there: it is written as its name.
    Extent extent{1, 1};
    for (Part child : children) {
      const Extent inner = extents.lookup(child);
      extent.depth = std::max(extent.depth, inner.depth + 1);
      extent.parts = std::min(extent.parts + inner.parts, kMostParts + 1);
    }
    extents[top] = extent;
    open.pop_back();
    lookAtDepth(extent.depth);
    if (problem.empty() && extent.parts > kMostParts)
      problem = "a type or attribute that has more than " + std::to_string(kMostParts) + " parts when written out";
    if (auto type = dyn_cast<Type>(top)) {
      lookAtShape(type);
    } else if (auto map = dyn_cast<AffineMapAttr>(cast<Attribute>(top))) {
      for (AffineExpr result : map.getValue().getResults())
        lookAtDepth(depthOf(result));
    } else if (auto set = dyn_cast<IntegerSetAttr>(cast<Attribute>(top))) {
      for (AffineExpr constraint : set.getValue().getConstraints())
        lookAtDepth(depthOf(constraint));
    }
  }
}

std::string SizeCheck::run(ModuleOp module, llvm::StringRef name) {
  std::string found;
  module->walk([&](Operation *op) {
    look(op->getAttrDictionary());
    for (Type type : op->getResultTypes())
      look(type);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments()) {
          look(argument.getType());
          look(LocationAttr(argument.getLoc()));
        }
    look(LocationAttr(op->getLoc()));
    if (problem.empty())
      return WalkResult::advance();
    auto place = dyn_cast<FileLineColLoc>(op->getLoc());
    found = name.str() + (place ? ":" + std::to_string(place.getLine()) + ":" + std::to_string(place.getColumn()) : "") +
            ": '" + op->getName().getStringRef().str() + "' has " + problem;
    return WalkResult::interrupt();
  });
  return found;
}

/// What is wrong with the text, or nothing, and then `module` is there. Takes as much stack, memory and time as the text wants.
std::string parse(MLIRContext &context, llvm::StringRef text, llvm::StringRef name, TextCheck check,
                  OwningOpRef<ModuleOp> &module) {
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(text, name), llvm::SMLoc());
  DiagnosticText errors(&context, /*isTheUsers=*/true);
  auto otherwise = [&](const char *what) { return errors.str().empty() ? name.str() + ": " + what : errors.str(); };
  module = parseSourceFile<ModuleOp>(sources, ParserConfig(&context, /*verifyAfterParse=*/false));
  if (!module)
    return otherwise("cannot be read");
  if (std::string large = SizeCheck().run(*module, name); !large.empty())
    return large;
  // Only the verifier says that a module has a body.
  const bool isChecked = check && module->getBodyRegion().hasOneBlock();
  if ((isChecked && failed(check(*module))) || failed(verify(*module)))
    return otherwise("is invalid");
  return "";
}

//===----------------------------------------------------------------------===//
// In a child process
//===----------------------------------------------------------------------===//

/// Of its stack, which is a part of what is left for later passes on the same text.
constexpr rlim_t kStackBytes = 2 << 20;

/// For a text of so many bytes: those that the child may have beyond what the process has, and its seconds. Generous for text that is
/// as long as what it makes: an element of a constant takes some ten bytes and less than a microsecond.
constexpr rlim_t memoryFor(size_t bytes) { return (256 << 20) + 64 * rlim_t(bytes); }
constexpr rlim_t secondsFor(size_t bytes) { return 2 + rlim_t(bytes) / 250'000; }

void lower(int resource, rlim_t value) {
  rlimit limit;
  if (getrlimit(resource, &limit) != 0)
    return;
  limit.rlim_cur = std::min(limit.rlim_cur, value);
  setrlimit(resource, &limit);
}

/// Bytes of address space that this process has.
rlim_t addressSpace() {
  unsigned long long pages = 0;
  if (FILE *file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%llu", &pages) != 1)
      pages = 0;
    std::fclose(file);
  }
  return rlim_t(pages) * rlim_t(sysconf(_SC_PAGESIZE));
}

void limitChild(size_t bytes) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGTRAP, SIGXCPU, SIGALRM})
    std::signal(signal, SIG_DFL);
  lower(RLIMIT_CORE, 0);
  // What libraries print before they give up.
  if (const int nowhere = open("/dev/null", O_WRONLY); nowhere >= 0)
    dup2(nowhere, STDERR_FILENO);
#ifndef TW_ADDRESS_SANITIZER // which takes terabytes of address space, and is slow
  lower(RLIMIT_STACK, kStackBytes);
  lower(RLIMIT_CPU, secondsFor(bytes));
  if (const rlim_t now = addressSpace())
    lower(RLIMIT_AS, now + memoryFor(bytes));
#endif
}

/// What parse() says in a child process of the same dialects, or which limit ended that.
std::string parseInChild(MLIRContext &context, llvm::StringRef text, llvm::StringRef name, TextCheck check) {
  const auto cannot = [&](const char *what) {
    return name.str() + ": cannot " + what + " for the parser: " + std::strerror(errno);
  };
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return cannot("make a pipe");
  const pid_t child = fork();
  if (child < 0) {
    const std::string message = cannot("start a process");
    close(ends[0]);
    close(ends[1]);
    return message;
  }
  if (child == 0) {
    close(ends[0]);
    limitChild(text.size());
    std::string message;
    try {
      // The parent's context has threads, which the child has not.
      MLIRContext own(context.getDialectRegistry(), MLIRContext::Threading::DISABLED);
      OwningOpRef<ModuleOp> module;
      message = parse(own, text, name, check, module);
      message.insert(0, message.empty() ? "+" : "-");
      for (size_t at = 0; at < message.size();) {
        const ssize_t written = write(ends[1], message.data() + at, message.size() - at);
        if (written <= 0)
          _exit(1);
        at += size_t(written);
      }
      _exit(0); // nothing is taken down: that may call itself too often as well
    } catch (...) {
      _exit(1); // no memory
    }
  }
  close(ends[1]);
  std::string answer;
  char buffer[4096];
  for (ssize_t size; (size = read(ends[0], buffer, sizeof buffer)) > 0 || (size < 0 && errno == EINTR);)
    if (size > 0)
      answer.append(buffer, size_t(size));
  close(ends[0]);
  int status = 0;
  pid_t waited;
  do
    waited = waitpid(child, &status, 0);
  while (waited < 0 && errno == EINTR);
  if (!answer.empty())
    return answer.substr(1);
  const int signal = waited == child && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return name.str() + ": too large or nested too deep: the parser ran out of " +
         (signal == SIGSEGV || signal == SIGBUS    ? "its stack of " + std::to_string(kStackBytes >> 20) + " MiB"
          : signal == SIGXCPU || signal == SIGKILL ? "its time of " + std::to_string(secondsFor(text.size())) + " s"
                                                   : "its memory of " + std::to_string(memoryFor(text.size()) >> 20) + " MiB");
}

} // namespace

llvm::Expected<OwningOpRef<ModuleOp>> text::parseText(MLIRContext &context, llvm::StringRef text, llvm::StringRef name,
                                                      TextCheck check) {
  auto error = [](const std::string &message) { return llvm::createStringError("%s", message.c_str()); };
  if (text.starts_with("ML\xefR"))
    return error(name.str() + ": is MLIR bytecode, and only text is read");
  if (const BadPlace bad = findBadPlace(text); bad.at) {
    const llvm::StringRef before = text.substr(0, size_t(bad.at - text.begin()));
    const size_t lineBegin = before.rfind('\n') + 1; // npos + 1 is 0
    return error(name.str() + ":" + std::to_string(before.count('\n') + 1) + ":" +
                 std::to_string(before.size() - lineBegin + 1) + ": " + bad.message);
  }
  if (const std::string message = parseInChild(context, text, name, check); !message.empty())
    return error(message);
  OwningOpRef<ModuleOp> module;
  if (const std::string message = parse(context, text, name, check, module); !message.empty())
    return error(message);
  return module;
}

llvm::Expected<OwningOpRef<ModuleOp>> text::readText(MLIRContext &context, llvm::StringRef path, uint64_t most,
                                                     TextCheck check) {
  Result<std::string> text = files::readFile(path.str(), most);
  if (!text)
    return llvm::createStringError("%s", text.message().c_str());
  return parseText(context, *text, path, check);
}
