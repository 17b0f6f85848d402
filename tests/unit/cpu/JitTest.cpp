//===- JitTest.cpp - What perf and gdb see of compiled code ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "CpuTestSupport.h"
#include "llvm/Object/ObjectFile.h"
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace tw::cpu;
using namespace tw::cpu::test;

namespace {

const char *const kernel = R"(func.func @twice(%x: tensor<64xf32>) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<64xf32>
  %y = linalg.add ins(%x, %x : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  return %y : tensor<64xf32>
})";

struct Symbol {
  uint64_t start = 0, size = 0;
  std::string name;
};

std::vector<Symbol> perfMap(const std::string &path) {
  std::vector<Symbol> symbols;
  std::ifstream file(path);
  for (Symbol symbol; file >> std::hex >> symbol.start >> symbol.size >> symbol.name;)
    symbols.push_back(symbol);
  return symbols;
}

/// Whether the bytes from `start` are code of this process.
bool isExecutable(uint64_t start, uint64_t size) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t first = 0, last = 0;
    char dash = 0;
    std::string rights;
    std::istringstream(line) >> std::hex >> first >> dash >> last >> rights;
    if (first <= start && start + size <= last)
      return rights.find('x') != std::string::npos;
  }
  return false;
}

TEST(JitTest, PerfFindsKernelsByName) {
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  setenv("TILEWRIGHT_JIT_SYMBOLS", "perf", 1);
  Context context;
  auto executable = context.compile(kernel);
  std::vector<Symbol> symbols = perfMap(path);
  unlink(path.c_str());
  ASSERT_TRUE(static_cast<bool>(executable)) << llvm::toString(executable.takeError());
  auto symbol = llvm::find_if(symbols, [](const Symbol &symbol) { return symbol.name == "tw_twice"; });
  ASSERT_NE(symbol, symbols.end());
  EXPECT_GT(symbol->size, 0u);
  EXPECT_TRUE(isExecutable(symbol->start, symbol->size));
}

/// The interface is gdb's: https://sourceware.org/gdb/current/onlinedocs/gdb.html/Declarations.html.
struct CodeEntry {
  CodeEntry *next, *previous;
  const char *file;
  uint64_t bytes;
};
struct Descriptor {
  uint32_t version, action;
  CodeEntry *relevant, *first;
};

TEST(JitTest, GdbFindsKernelsByName) {
  setenv("TILEWRIGHT_JIT_SYMBOLS", "gdb", 1);
  Context context;
  auto executable = context.compile(kernel);
  ASSERT_TRUE(static_cast<bool>(executable)) << llvm::toString(executable.takeError());
  const auto *descriptor = static_cast<const Descriptor *>(dlsym(RTLD_DEFAULT, "__jit_debug_descriptor"));
  ASSERT_NE(descriptor, nullptr);
  EXPECT_EQ(descriptor->version, 1u);
  std::vector<std::string> names;
  for (const CodeEntry *entry = descriptor->first; entry; entry = entry->next) {
    auto object =
        llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(llvm::StringRef(entry->file, entry->bytes), "jit"));
    ASSERT_TRUE(static_cast<bool>(object)) << llvm::toString(object.takeError());
    for (const llvm::object::SymbolRef &symbol : (*object)->symbols())
      names.push_back(llvm::cantFail(symbol.getName()).str());
  }
  EXPECT_TRUE(llvm::is_contained(names, "tw_twice"));
}

TEST(JitTest, NobodyIsToldUnlessAsked) {
  unsetenv("TILEWRIGHT_JIT_SYMBOLS");
  const auto *descriptor = static_cast<const Descriptor *>(dlsym(RTLD_DEFAULT, "__jit_debug_descriptor"));
  ASSERT_NE(descriptor, nullptr);
  const CodeEntry *before = descriptor->first;
  Context context;
  auto executable = context.compile(kernel);
  ASSERT_TRUE(static_cast<bool>(executable)) << llvm::toString(executable.takeError());
  EXPECT_NE(access(("/tmp/perf-" + std::to_string(getpid()) + ".map").c_str(), F_OK), 0);
  EXPECT_EQ(descriptor->first, before);
}

TEST(JitTest, RefusesUnknownReaders) {
  setenv("TILEWRIGHT_JIT_SYMBOLS", "perf,vtune", 1);
  Context context;
  auto executable = context.compile(kernel);
  ASSERT_FALSE(static_cast<bool>(executable));
  EXPECT_EQ(llvm::toString(executable.takeError()), "TILEWRIGHT_JIT_SYMBOLS has 'vtune' but may list perf and gdb");
}

/// Code for a lesser processor of the same architecture runs here, too.
TEST(JitTest, RunsCodeForALesserProcessor) {
  if (selectMachine()->triple.find("x86_64") != 0)
    GTEST_SKIP() << "the processors are those of x86_64";
  unsetenv("TILEWRIGHT_JIT_SYMBOLS");
  for (const CpuChoice &processor : {CpuChoice{"", "x86-64", ""}, CpuChoice{"", "", "-avx2"}, CpuChoice{"", "", "-avx512f"}}) {
    CpuOptions options;
    options.processor = processor;
    const std::vector<float> x = someValues<float>(64);
    const std::vector<HostTensor> outputs =
        runWith(std::string(kernel).replace(std::string(kernel).find("twice"), 5, "main"), {tensorOf(x, {64})}, options);
    ASSERT_EQ(outputs.size(), 1u);
    for (int i = 0; i < 64; ++i)
      EXPECT_EQ(valuesOf<float>(outputs[0])[i], 2 * x[i]);
  }
}

TEST(JitTest, RefusesCodeForAGreaterProcessor) {
  CpuMachine host = llvm::cantFail(selectMachine());
  CpuOptions options;
  options.processor.arch = host.triple.find("aarch64") == 0 ? "x86_64" : "aarch64";
  Context context;
  auto executable = context.compile(kernel, options);
  ASSERT_FALSE(static_cast<bool>(executable));
  EXPECT_NE(llvm::toString(executable.takeError()).find("code for " + options.processor.arch + " cannot run here"),
            std::string::npos);
  if (host.triple.find("x86_64") != 0)
    return;
  options.processor = {"", "", "+xop"}; // which processors had from 2011 to 2016
  executable = context.compile(kernel, options);
  ASSERT_FALSE(static_cast<bool>(executable));
  EXPECT_NE(llvm::toString(executable.takeError()).find("cannot run here: this processor has no fma4, xop"), std::string::npos);
}

} // namespace
