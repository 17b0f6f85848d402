//===- Plugin.cpp - Shared libraries that add to the compiler ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/schedule/Plugin.h"

#include "isa/files/InputFile.h"

#include <algorithm>
#include <dlfcn.h>
#include <elf.h>
#include <exception>
#include <filesystem>
#include <fstream>

using namespace tw;
using namespace tw::schedule;

namespace {
/// Bytes that the file must have for its segments; 0 if it is no 64-bit ELF file, about which dlopen() has its own words.
uint64_t bytesOfSegments(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header;
  if (!file.read(reinterpret_cast<char *>(&header), sizeof header) || !std::equal(ELFMAG, ELFMAG + SELFMAG, header.e_ident) ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
    return 0;
  uint64_t bytes = header.e_phoff + uint64_t(header.e_phnum) * sizeof(Elf64_Phdr);
  file.seekg(std::streamoff(header.e_phoff));
  Elf64_Phdr segment;
  for (unsigned i = 0; i < header.e_phnum && file.read(reinterpret_cast<char *>(&segment), sizeof segment); ++i)
    if (segment.p_type == PT_LOAD)
      bytes = std::max(bytes, segment.p_offset + segment.p_filesz);
  return bytes;
}
} // namespace

void *PluginLibrary::symbol(const char *name) const { return dlsym(handle, name); }

std::optional<Diagnostic> PluginLibrary::call(const std::function<void()> &function) const {
  try {
    function();
  } catch (const std::exception &exception) {
    return error(std::string("the plug-in failed to register: ") + exception.what());
  } catch (...) {
    return error("the plug-in failed to register: it threw something that is no std::exception");
  }
  return std::nullopt;
}

Result<PluginLibrary> schedule::openPlugin(const std::string &path, const std::vector<std::string> &functions) {
  auto error = [&](const std::string &message) { return Diagnostic{path, 0, 0, message}; };
  if (std::optional<Diagnostic> problem = files::whyNotReadable(path))
    return *problem;
  // dlopen() maps what the segments say, and the process dies where the file has ended before.
  std::error_code unreadable;
  const uint64_t size = std::filesystem::file_size(path, unreadable);
  if (uint64_t needed = bytesOfSegments(path); !unreadable && size < needed)
    return error("the file ends after " + std::to_string(size) + " of " + std::to_string(needed) + " bytes");
  // Without a slash dlopen() would look into the system's folders instead of the file named.
  void *handle = dlopen((path.find('/') == std::string::npos ? "./" + path : path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    std::string text = dlerror();
    if (size_t colon = text.find(": "); colon != std::string::npos)
      text = text.substr(colon + 2);
    return error("cannot load the plug-in: " + text);
  }
  const PluginLibrary library(path, handle);
  auto refuse = [&](const std::string &message) {
    dlclose(handle);
    return error(message);
  };
  auto version = library.find<unsigned()>("tilewrightPluginVersion");
  if (!version)
    return refuse("not a plug-in: it does not export tilewrightPluginVersion");
  if (unsigned built = version(); built != kPluginVersion)
    return refuse("the plug-in was built for version " + std::to_string(built) + " of the interface but this is version " +
                  std::to_string(kPluginVersion));
  std::string names;
  for (const std::string &function : functions) {
    if (library.symbol(function.c_str()))
      return library;
    names += (names.empty() ? "" : " or ") + function;
  }
  return refuse("the plug-in has nothing for this command: it does not export " + names);
}
