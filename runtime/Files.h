//===- Files.h - Files that are whole or not there --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every output of a command goes through here. None replaces an input
// (isa/files/InputFile.h remembers them) or goes where a link points.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_FILES_H
#define RUNTIME_FILES_H

#include "runtime/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace tw::runtime {

/// What becomes of an input of this process where an output has its name.
enum class Inputs : uint8_t {
  Kept,     ///< the output is an error
  Replaced, ///< for files that are read in order to be updated
};

/// Files of one command that appear together: written under temporary names, renamed by commit(). Whatever is not committed
/// disappears with the object, folders made on the way included.
///
/// `-` and /dev/stdout are standard output, written by commit(), as are devices and pipes: they have no other name. Errors: the
/// system's, a path that is an input, a folder, a symbolic link to a file or to nothing, or where another file of the set goes.
class FileSet {
public:
  explicit FileSet(Inputs inputs = Inputs::Kept) : inputs(inputs) {}
  FileSet(const FileSet &) = delete;
  FileSet &operator=(const FileSet &) = delete;
  ~FileSet();

  /// Makes a folder, unless it exists; its parent must.
  Status addFolder(const std::string &path);
  /// Stages a file.
  Status add(const std::string &path, std::string_view bytes);
  /// Stages a file that somebody else is to write, and returns the name under which: the temporary one, or a device's own. It appears
  /// if it is not empty when commit() comes.
  StatusOr<std::string> addWrittenByOthers(const std::string &path);
  /// Gives all files their names.
  Status commit();

private:
  struct Staged {
    std::string temporary, path;
    bool isWrittenByOthers = false;
  };
  struct Device {
    std::string path, bytes;
  };
  /// Where files of this set go, as add() was given them, with the folder's identity.
  struct Place {
    std::string path, name;
    uint64_t device, node;
  };
  Status checkInputs(const std::string &path) const;
  Status claim(const std::string &path);
  StatusOr<int> openTemporary(const std::string &path);

  Inputs inputs;
  std::vector<Place> places;
  std::vector<Staged> staged;
  std::vector<Device> devices;
  std::vector<std::string> folders;
  std::string standardOutput;
};

/// One file.
Status writeFile(const std::string &path, std::string_view bytes, Inputs inputs = Inputs::Kept);

} // namespace tw::runtime

#endif // RUNTIME_FILES_H
