//===- Files.cpp - Files that are whole or not there ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <unistd.h>

using namespace tw::runtime;

static Error cannot(const char *what, const std::string &path, int number) {
  return userError("cannot " + std::string(what) + " '" + path + "': " + std::strerror(number));
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

static Status write(const std::string &to, const std::string &path, std::string_view bytes) {
  errno = 0;
  FILE *file = std::fopen(to.c_str(), "wb");
  if (!file)
    return cannot("write", path, errno);
  bool whole = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  int number = errno;
  if (std::fclose(file) != 0 && whole) {
    whole = false;
    number = errno;
  }
  if (!whole)
    return cannot("write", path, number);
  return {};
}

Status FileSet::add(const std::string &path, std::string_view bytes) {
  if (path == "-") {
    standardOutput += bytes;
    return {};
  }
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure))
    return cannot("write", path, EISDIR);
  if (std::filesystem::is_other(path, failure)) {
    devices.push_back({path, std::string(bytes)});
    return {};
  }
  const std::string absolute = std::filesystem::absolute(path, failure).lexically_normal().string();
  for (const Staged &other : staged)
    if (other.absolute == absolute)
      return userError("cannot write '" + path + "': another output goes there");
  std::string temporary = path + ".tmp" + std::to_string(getpid());
  staged.push_back({temporary, path, absolute});
  return write(temporary, path, bytes);
}

Status FileSet::commit() {
  if (std::fwrite(standardOutput.data(), 1, standardOutput.size(), stdout) != standardOutput.size() || std::fflush(stdout) != 0)
    return cannot("write", "standard output", errno);
  standardOutput.clear();
  for (const Device &device : devices)
    if (Status status = write(device.path, device.path, device.bytes); !status)
      return status;
  devices.clear();
  folders.clear();
  while (!staged.empty()) {
    const Staged &file = staged.back();
    if (std::rename(file.temporary.c_str(), file.path.c_str()) != 0)
      return cannot("write", file.path, errno);
    staged.pop_back();
  }
  return {};
}

Status tw::runtime::writeFile(const std::string &path, std::string_view bytes) {
  FileSet files;
  if (Status status = files.add(path, bytes); !status)
    return status;
  return files.commit();
}
