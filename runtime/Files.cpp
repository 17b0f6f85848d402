//===- Files.cpp - Files that are whole or not there ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Files.h"
#include "isa/files/InputFile.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

using namespace tw;
using namespace tw::runtime;

static Error cannot(const char *what, const std::string &path, const std::string &why) {
  return userError("cannot " + std::string(what) + " '" + path + "': " + why);
}
static Error cannot(const char *what, const std::string &path, int number) { return cannot(what, path, std::strerror(number)); }

static bool isStandardOutput(const std::string &path) { return path == "-" || path == "/dev/stdout"; }

/// Whether bytes go through it instead of staying there.
static bool isDevice(const std::string &path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && (S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

static std::filesystem::path folderOf(const std::string &path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

FileSet::~FileSet() {
  for (const Staged &file : staged)
    std::remove(file.temporary.c_str());
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder)
    rmdir(folder->c_str()); // fails, as it should, where somebody else put a file
}

Status FileSet::addFolder(const std::string &path) {
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure))
    return {};
  std::filesystem::create_directory(path, failure);
  if (failure)
    return cannot("make folder", path, failure.value());
  folders.push_back(path);
  return {};
}

static Status writeAll(int file, const std::string &path, std::string_view bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t put = write(file, bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno != EINTR)
      return cannot("write", path, errno);
    done += size_t(std::max<ssize_t>(put, 0));
  }
  return {};
}

/// Writes and closes.
static Status writeTo(int file, const std::string &path, std::string_view bytes) {
  Status status = writeAll(file, path, bytes);
  if (close(file) != 0 && status)
    return cannot("write", path, errno);
  return status;
}

Status FileSet::checkInputs(const std::string &path) const {
  if (inputs == Inputs::Kept)
    if (std::optional<std::string> input = files::inputAt(path))
      return cannot("write", path, *input == path ? "it is an input" : "it is the same file as the input '" + *input + "'");
  return {};
}

/// Checks that a file may appear at `path`, and that it is the only one of the set there.
Status FileSet::claim(const std::string &path) {
  struct stat status {
  }, folder{};
  const bool exists = lstat(path.c_str(), &status) == 0;
  if (std::error_code failure; std::filesystem::is_directory(path, failure))
    return cannot("write", path, EISDIR);
  if (Status input = checkInputs(path); !input)
    return input;
  if (exists && S_ISLNK(status.st_mode))
    return cannot("write", path, "it is a symbolic link, and links are not followed");
  if (exists && S_ISBLK(status.st_mode))
    return cannot("write", path, "it is a block device");
  if (stat(folderOf(path).c_str(), &folder) != 0)
    return cannot("write", path, errno);
  Place place{path, std::filesystem::path(path).filename(), folder.st_dev, folder.st_ino};
  for (const Place &other : places) {
    struct stat there {};
    const bool isSameFile =
        exists && lstat(other.path.c_str(), &there) == 0 && there.st_dev == status.st_dev && there.st_ino == status.st_ino;
    if (isSameFile || (other.name == place.name && other.device == place.device && other.node == place.node))
      return cannot("write", path, "output '" + other.path + "' goes there");
  }
  places.push_back(std::move(place));
  return {};
}

/// A new file beside `path`, with the access rights of what it will replace.
StatusOr<int> FileSet::openTemporary(const std::string &path) {
  struct stat status {};
  const bool replaces = lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
  for (unsigned attempt = 0;; ++attempt) {
    const std::string name = ".tilewright-" + std::to_string(getpid()) + "-" + std::to_string(staged.size() + attempt) + ".tmp";
    std::string temporary = (std::filesystem::path(path).parent_path() / name).string();
    const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file < 0 && errno == EEXIST && attempt < 1000)
      continue;
    if (file < 0)
      return cannot("write", path, errno);
    staged.push_back({std::move(temporary), path, false});
    if (replaces && fchmod(file, status.st_mode & 0777) != 0) {
      const int number = errno;
      close(file);
      return cannot("write", path, number);
    }
    return file;
  }
}

Status FileSet::add(const std::string &path, std::string_view bytes) {
  if (isStandardOutput(path)) {
    for (const Place &other : places)
      if (isStandardOutput(other.path))
        return cannot("write", path, "output '" + other.path + "' goes there");
    places.push_back({path, "", 0, 0});
    standardOutput = bytes;
    return {};
  }
  if (isDevice(path)) {
    devices.push_back({path, std::string(bytes)});
    return {};
  }
  if (Status status = claim(path); !status)
    return status;
  StatusOr<int> file = openTemporary(path);
  return file ? writeTo(*file, path, bytes) : Status(file.error());
}

StatusOr<std::string> FileSet::addWrittenByOthers(const std::string &path) {
  if (isStandardOutput(path))
    return cannot("write", path, "it is standard output, and this needs a file");
  if (isDevice(path))
    return path;
  if (Status status = add(path, ""); !status)
    return status.error();
  staged.back().isWrittenByOthers = true;
  return staged.back().temporary;
}

Status FileSet::commit() {
  // Some are read after an output was staged.
  for (const Staged &file : staged)
    if (Status status = checkInputs(file.path); !status)
      return status;
  if (std::fwrite(standardOutput.data(), 1, standardOutput.size(), stdout) != standardOutput.size() || std::fflush(stdout) != 0)
    return cannot("write", "standard output", errno);
  standardOutput.clear();
  for (const Device &device : devices) {
    const int file = open(device.path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (file < 0)
      return cannot("write", device.path, errno);
    if (Status status = writeTo(file, device.path, device.bytes); !status)
      return status;
  }
  devices.clear();
  folders.clear();
  while (!staged.empty()) {
    const Staged &file = staged.back();
    struct stat status {};
    if (file.isWrittenByOthers && stat(file.temporary.c_str(), &status) == 0 && status.st_size == 0)
      std::remove(file.temporary.c_str());
    else if (std::rename(file.temporary.c_str(), file.path.c_str()) != 0)
      return cannot("write", file.path, errno);
    staged.pop_back();
  }
  places.clear();
  return {};
}

Status tw::runtime::writeFile(const std::string &path, std::string_view bytes, Inputs inputs) {
  FileSet files(inputs);
  if (Status status = files.add(path, bytes); !status)
    return status;
  return files.commit();
}
