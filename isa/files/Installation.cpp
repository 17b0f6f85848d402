//===- Installation.cpp - Where the program's own files are ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/files/Installation.h"

#include <filesystem>

namespace fs = std::filesystem;

static fs::path findShareFolder() {
  std::error_code failure;
  const fs::path bin = fs::read_symlink("/proc/self/exe", failure).parent_path();
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
