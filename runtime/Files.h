//===- Files.h - Files that are whole or not there --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_FILES_H
#define RUNTIME_FILES_H

#include "runtime/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace tw::runtime {

/// Files of one command that appear together: written under temporary names, renamed by commit(). Whatever is not committed
/// disappears with the object, folders made on the way included.
class FileSet {
public:
  FileSet() = default;
  FileSet(const FileSet &) = delete;
  FileSet &operator=(const FileSet &) = delete;
  ~FileSet();

  /// Makes a folder, unless it exists; its parent must.
  Status addFolder(const std::string &path);
  /// Stages a file, of which there is one at a path. `-` is standard output, written by commit(), as are devices and pipes: they have no
  /// other name.
  Status add(const std::string &path, std::string_view bytes);
  /// Gives all files their names.
  Status commit();

private:
  struct Staged {
    std::string temporary, path, absolute;
  };
  struct Device {
    std::string path, bytes;
  };
  std::vector<Staged> staged;
  std::vector<Device> devices;
  std::vector<std::string> folders;
  std::string standardOutput;
};

/// One file.
Status writeFile(const std::string &path, std::string_view bytes);

} // namespace tw::runtime

#endif // RUNTIME_FILES_H
