//===- Installation.cpp - Where the program's own files are ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/files/Installation.h"

#include <dlfcn.h>
#include <filesystem>

namespace fs = std::filesystem;

/// The file that this code was loaded from: libtilewright, or the program.
static fs::path ownFile() {
  std::error_code failure;
  Dl_info info;
  if (dladdr(reinterpret_cast<const void *>(&ownFile), &info) && info.dli_fname)
    if (const fs::path file = fs::canonical(info.dli_fname, failure); file.string().find(".so") != std::string::npos)
      return file;
  return fs::read_symlink("/proc/self/exe", failure);
}

static fs::path findShareFolder() {
  std::error_code failure;
  const fs::path bin = ownFile().parent_path();
  for (fs::path folder = bin; !folder.empty(); folder = folder.parent_path()) {
    if ((fs::status(folder, failure).permissions() & fs::perms::others_write) != fs::perms::none)
      break;
    const fs::path share = folder / "share" / "tilewright";
    if (fs::is_directory(share / "hw-configs", failure))
      return share;
    if (folder == folder.root_path())
      break;
  }
  return bin.parent_path() / "share" / "tilewright";
}

const std::string &tw::files::shareFolder() {
  static const std::string folder = findShareFolder().string();
  return folder;
}
