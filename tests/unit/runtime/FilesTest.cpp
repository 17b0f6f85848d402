//===- FilesTest.cpp - Files that are whole or not there ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Files.h"

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
    folder = fs::path(testing::TempDir()) / ("files-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
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
