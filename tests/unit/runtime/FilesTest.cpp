//===- FilesTest.cpp - Files that are whole or not there ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Files.h"
#include "isa/files/InputFile.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace tw::runtime;
namespace fs = std::filesystem;

namespace {

class FilesTest : public testing::Test {
protected:
  void SetUp() override {
    folder =
        fs::path(testing::TempDir()) / ("files-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder);
    fs::create_directory(folder);
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string path(const std::string &name) const { return (folder / name).string(); }
  static std::string contents(const std::string &path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  size_t entries() const { return size_t(std::distance(fs::directory_iterator(folder), fs::directory_iterator())); }

  fs::path folder;
};

} // namespace

TEST_F(FilesTest, CommitGivesAllFilesTheirNames) {
  FileSet files;
  ASSERT_TRUE(files.add(path("a"), "one"));
  ASSERT_TRUE(files.add(path("b"), std::string("\0two", 4)));
  EXPECT_FALSE(fs::exists(path("a")));
  ASSERT_TRUE(files.commit());
  EXPECT_EQ(contents(path("a")), "one");
  EXPECT_EQ(contents(path("b")), std::string("\0two", 4));
  EXPECT_EQ(entries(), 2u);
}

TEST_F(FilesTest, WithoutCommitNothingIsLeft) {
  std::ofstream(path("a")) << "old";
  {
    FileSet files;
    ASSERT_TRUE(files.addFolder(path("new")));
    ASSERT_TRUE(files.add(path("new/x"), "x"));
    ASSERT_TRUE(files.add(path("a"), "new"));
  }
  EXPECT_EQ(contents(path("a")), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FilesTest, AMissingFolderIsNamedWithTheReason) {
  Status status = writeFile(path("none/a"), "x");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::User);
  EXPECT_EQ(status.error().message, "cannot write '" + path("none/a") + "': No such file or directory");
}

TEST_F(FilesTest, AFolderIsNotOverwritten) {
  fs::create_directory(path("d"));
  Status status = writeFile(path("d"), "x");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "cannot write '" + path("d") + "': Is a directory");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FilesTest, APipeIsWrittenAndStaysOne) {
  const std::string pipe = path("p");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  ASSERT_TRUE(writeFile(pipe, "x"));
  char byte = 0;
  EXPECT_EQ(read(reader, &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FilesTest, AFileIsNoFolder) {
  std::ofstream(path("a")) << "x";
  FileSet files;
  Status status = files.addFolder(path("a/b"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "cannot make folder '" + path("a/b") + "': Not a directory");
}

TEST_F(FilesTest, AnInputIsNotReplacedUnderAnyName) {
  const std::string model = path("model");
  std::ofstream(model) << "model";
  ASSERT_TRUE(tw::files::readFile(model));
  fs::create_hard_link(model, path("hard"));
  fs::create_directory_symlink(folder, path("here"));
  EXPECT_EQ(writeFile(model, "x").error().message, "cannot write '" + model + "': it is an input");
  for (const char *name : {"./model", "here/model", "hard"})
    EXPECT_EQ(writeFile(path(name), "x").error().message,
              "cannot write '" + path(name) + "': it is the same file as the input '" + model + "'");
  EXPECT_EQ(contents(model), "model");
  EXPECT_EQ(entries(), 3u);
  ASSERT_TRUE(writeFile(model, "new", Inputs::Replaced));
  EXPECT_EQ(contents(model), "new");
}

TEST_F(FilesTest, LinksAreNotFollowed) {
  std::ofstream(path("a")) << "old";
  fs::create_symlink("a", path("link"));
  fs::create_symlink("none", path("dangling"));
  for (const char *name : {"link", "dangling"})
    EXPECT_EQ(writeFile(path(name), "x").error().message,
              "cannot write '" + path(name) + "': it is a symbolic link, and links are not followed");
  EXPECT_EQ(contents(path("a")), "old");
  EXPECT_FALSE(fs::exists(path("none")));
  EXPECT_EQ(entries(), 3u);
}

TEST_F(FilesTest, TwoFilesOfOneSetAreNotTheSame) {
  std::ofstream(path("old")) << "old";
  fs::create_hard_link(path("old"), path("hard"));
  fs::create_directory_symlink(folder, path("here"));
  const std::pair<const char *, const char *> same[] = {{"a", "a"}, {"a", "./a"}, {"a", "here/a"}, {"old", "hard"}};
  for (auto [first, second] : same) {
    FileSet files;
    ASSERT_TRUE(files.add(path(first), "1"));
    Status status = files.add(path(second), "2");
    ASSERT_FALSE(status) << first << " " << second;
    EXPECT_EQ(status.error().message, "cannot write '" + path(second) + "': output '" + path(first) + "' goes there");
  }
  EXPECT_EQ(contents(path("old")), "old");
  FileSet files;
  ASSERT_TRUE(files.add("-", ""));
  EXPECT_EQ(files.add("/dev/stdout", "").error().message, "cannot write '/dev/stdout': output '-' goes there");
  // Devices take everything.
  EXPECT_TRUE(files.add("/dev/null", "1"));
  EXPECT_TRUE(files.add("/dev/null", "2"));
  EXPECT_TRUE(files.commit());
}

TEST_F(FilesTest, AccessRightsStay) {
  std::ofstream(path("a")) << "old";
  fs::permissions(path("a"), fs::perms::owner_read | fs::perms::owner_write | fs::perms::owner_exec);
  ASSERT_TRUE(writeFile(path("a"), "new"));
  EXPECT_EQ(contents(path("a")), "new");
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms::owner_read | fs::perms::owner_write | fs::perms::owner_exec);
}

TEST_F(FilesTest, WhatOthersWriteAppearsIfTheyDid) {
  for (bool written : {false, true}) {
    FileSet files;
    StatusOr<std::string> name = files.addWrittenByOthers(path("waves"));
    ASSERT_TRUE(name) << name.error().message;
    EXPECT_NE(*name, path("waves"));
    if (written)
      std::ofstream(*name) << "waves";
    ASSERT_TRUE(files.commit());
    EXPECT_EQ(contents(path("waves")), written ? "waves" : "");
    EXPECT_EQ(entries(), written ? 1u : 0u);
  }
  EXPECT_FALSE(FileSet().addWrittenByOthers("-"));
}
