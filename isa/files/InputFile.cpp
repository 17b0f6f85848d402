//===- InputFile.cpp - The one way a file comes in ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/files/InputFile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/magic.h>
#include <map>
#include <mutex>
#include <new>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

using namespace tw;

namespace {

/// What two names of one file have in common.
using Identity = std::pair<dev_t, ino_t>;

/// Inputs by identity, with the path under which each was given last.
class Inputs {
public:
  void add(Identity identity, const std::string &path) {
    std::lock_guard<std::mutex> hold(mutex);
    paths[identity] = path;
  }
  std::optional<std::string> find(Identity identity) {
    std::lock_guard<std::mutex> hold(mutex);
    auto found = paths.find(identity);
    return found == paths.end() ? std::nullopt : std::optional<std::string>(found->second);
  }

private:
  std::mutex mutex;
  std::map<Identity, std::string> paths;
};

Inputs &inputs() {
  static Inputs all;
  return all;
}

class Descriptor {
public:
  explicit Descriptor(int number) : number(number) {}
  Descriptor(const Descriptor &) = delete;
  ~Descriptor() {
    if (number >= 0)
      close(number);
  }
  const int number;
};

Diagnostic cannot(const std::string &path, const std::string &why) { return {path, 0, 0, "cannot read the file: " + why}; }
Diagnostic cannot(const std::string &path, int number) { return cannot(path, std::strerror(number ? number : EIO)); }

/// The noun for what is no regular file; null for a regular one.
const char *otherKind(mode_t mode) {
  switch (mode & S_IFMT) {
  case S_IFREG:
    return nullptr;
  case S_IFIFO:
    return "a pipe";
  case S_IFSOCK:
    return "a socket";
  case S_IFCHR:
  case S_IFBLK:
    return "a device";
  default:
    return "no file";
  }
}

std::optional<Diagnostic> problemOf(const struct stat &status, const std::string &path, uint64_t most) {
  if (S_ISDIR(status.st_mode))
    return cannot(path, EISDIR);
  if (const char *kind = otherKind(status.st_mode))
    return cannot(path, std::string("it is ") + kind + ", and only regular files are read");
  if (uint64_t(status.st_size) > most)
    return cannot(path, "it is too large: " + std::to_string(status.st_size) + " bytes where at most " + std::to_string(most) +
                            " are allowed");
  return std::nullopt;
}

/// Opens `path` for readFile(). The kind is known before: opening some devices does something.
std::optional<Diagnostic> openRegular(const std::string &path, uint64_t most, int &number, struct stat &status) {
  if (stat(path.c_str(), &status) != 0)
    return cannot(path, errno);
  if (std::optional<Diagnostic> problem = problemOf(status, path, most))
    return problem;
  // Without O_NONBLOCK a pipe that has taken the file's place would keep us waiting.
  number = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (number < 0 || fstat(number, &status) != 0)
    return cannot(path, errno);
  if (std::optional<Diagnostic> problem = problemOf(status, path, most))
    return problem;
  struct statfs system {};
  if (fstatfs(number, &system) == 0 && (system.f_type == PROC_SUPER_MAGIC || system.f_type == SYSFS_MAGIC))
    return cannot(path, "the system makes it while it is read, and only regular files are read");
  inputs().add({status.st_dev, status.st_ino}, path);
  return std::nullopt;
}

} // namespace

Result<std::string> files::readFile(const std::string &path, uint64_t most) {
  int number = -1;
  struct stat status {};
  std::optional<Diagnostic> problem = openRegular(path, most, number, status);
  Descriptor file(number);
  if (problem)
    return *problem;
  std::string bytes;
  try {
    bytes.resize(size_t(status.st_size));
  } catch (const std::bad_alloc &) {
    return cannot(path, "its " + std::to_string(status.st_size) + " bytes do not fit into memory");
  }
  size_t done = 0;
  char beyond;
  while (true) {
    const bool whole = done == bytes.size();
    const ssize_t got = read(file.number, whole ? &beyond : bytes.data() + done, whole ? 1 : bytes.size() - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return cannot(path, errno);
    if (got == 0 && whole)
      return bytes;
    if (got == 0 || whole)
      return cannot(path, "its size changes while it is read");
    done += size_t(got);
  }
}

Result<std::string> files::readStandardInput(uint64_t most) {
  const std::string name = "standard input";
  std::string bytes;
  try {
    for (;;) {
      constexpr size_t kPiece = 1 << 16;
      const size_t done = bytes.size();
      bytes.resize(done + kPiece);
      const ssize_t got = read(STDIN_FILENO, bytes.data() + done, kPiece);
      bytes.resize(done + size_t(std::max<ssize_t>(got, 0)));
      if (got < 0 && errno != EINTR)
        return cannot(name, errno);
      if (got == 0)
        return bytes;
      if (bytes.size() > most)
        return cannot(name, "it is too large: at most " + std::to_string(most) + " bytes are allowed");
    }
  } catch (const std::bad_alloc &) {
    return cannot(name, "its bytes do not fit into memory");
  }
}

std::optional<Diagnostic> files::whyNotReadable(const std::string &path, uint64_t most) {
  int number = -1;
  struct stat status {};
  std::optional<Diagnostic> problem = openRegular(path, most, number, status);
  Descriptor file(number);
  return problem;
}

void files::addInput(const std::string &path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0)
    inputs().add({status.st_dev, status.st_ino}, path);
}

std::optional<std::string> files::inputAt(const std::string &path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0)
    return std::nullopt;
  return inputs().find({status.st_dev, status.st_ino});
}
