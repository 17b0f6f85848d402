//===- Jit.cpp - Machine code in this process -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/Jit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ExecutionEngine/JITLink/JITLink.h"
#include "llvm/ExecutionEngine/Orc/DebugObjectManagerPlugin.h"
#include "llvm/ExecutionEngine/Orc/EPCDebugObjectRegistrar.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <mutex>
#include <unistd.h>

using namespace llvm;
using namespace llvm::orc;

namespace tw::cpu {

namespace {

Error failure(const Twine &message) { return createStringError(inconvertibleErrorCode(), message); }

/// Writes the functions of each object to perf's map: "START SIZE NAME", numbers in hexadecimal.
class PerfMapPlugin : public ObjectLinkingLayer::Plugin {
public:
  void modifyPassConfig(MaterializationResponsibility &, jitlink::LinkGraph &, jitlink::PassConfiguration &config) override {
    config.PostFixupPasses.push_back([](jitlink::LinkGraph &graph) -> Error {
      std::string lines;
      raw_string_ostream stream(lines);
      for (jitlink::Symbol *symbol : graph.defined_symbols())
        if (symbol->isCallable() && symbol->hasName() && symbol->getSize())
          stream << format("%llx %llx ", static_cast<unsigned long long>(symbol->getAddress().getValue()),
                           static_cast<unsigned long long>(symbol->getSize()))
                 << symbol->getName() << "\n";
      return append(lines);
    });
  }
  Error notifyFailed(MaterializationResponsibility &) override { return Error::success(); }
  Error notifyRemovingResources(JITDylib &, ResourceKey) override { return Error::success(); }
  void notifyTransferringResources(JITDylib &, ResourceKey, ResourceKey) override {}

private:
  static Error append(StringRef lines) {
    static std::mutex lock; // objects may be linked by several threads
    std::lock_guard<std::mutex> guard(lock);
    const std::string path = "/tmp/perf-" + std::to_string(sys::Process::getProcessId()) + ".map";
    // Everybody may write to the folder: a link there is not followed.
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    const bool isWritten = file >= 0 && write(file, lines.data(), lines.size()) == static_cast<ssize_t>(lines.size());
    const int cause = errno;
    if (file >= 0)
      close(file);
    return isWritten ? Error::success() : failure("cannot write '" + path + "': " + std::strerror(cause));
  }
};

} // namespace

Expected<std::unique_ptr<LLJIT>> makeJit() {
  bool perf = false, gdb = false;
  if (const char *variable = std::getenv("TILEWRIGHT_JIT_SYMBOLS")) {
    SmallVector<StringRef> names;
    StringRef(variable).split(names, ',', -1, /*KeepEmpty=*/false);
    for (StringRef name : names) {
      if (name != "perf" && name != "gdb")
        return failure("TILEWRIGHT_JIT_SYMBOLS has '" + name + "' but may list perf and gdb");
      (name == "perf" ? perf : gdb) = true;
    }
  }
  Expected<std::unique_ptr<LLJIT>> jit = LLJITBuilder().create();
  if (!jit || (!perf && !gdb))
    return jit;
  auto *layer = dyn_cast<ObjectLinkingLayer>(&(*jit)->getObjLinkingLayer());
  if (!layer)
    return failure("TILEWRIGHT_JIT_SYMBOLS is set, but LLVM's linker for this processor gives no symbols");
  if (perf)
    layer->addPlugin(std::make_shared<PerfMapPlugin>());
  if (gdb) {
    auto registrar = createJITLoaderGDBRegistrar((*jit)->getExecutionSession());
    if (!registrar)
      return registrar.takeError();
    // Kernels have no debug sections: their names are all there is.
    layer->addPlugin(std::make_shared<DebugObjectManagerPlugin>((*jit)->getExecutionSession(), std::move(*registrar),
                                                                /*RequireDebugSections=*/false, /*AutoRegisterCode=*/true));
  }
  return jit;
}

} // namespace tw::cpu
