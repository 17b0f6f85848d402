//===- InputFileTest.cpp - The one way a file comes in --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/files/InputFile.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

using namespace tw;
namespace fs = std::filesystem;

namespace {

class InputFileTest : public testing::Test {
protected:
  void SetUp() override {
    folder =
        fs::path(testing::TempDir()) / ("input-" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder);
    fs::create_directory(folder);
    folders.push_back(folder);
  }
  // A file that is removed leaves its identity to another one, which then is an input too.
  static void TearDownTestSuite() {
    for (const fs::path &made : folders)
      fs::remove_all(made);
  }
  std::string path(const std::string &name) const { return (folder / name).string(); }
  std::string write(const std::string &name, const std::string &text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  /// Behind "PATH: cannot read the file: ", of both functions.
  static std::string refusal(const std::string &path, uint64_t most = files::kMostBytes) {
    Result<std::string> bytes = files::readFile(path, most);
    EXPECT_FALSE(bytes);
    std::optional<Diagnostic> problem = files::whyNotReadable(path, most);
    EXPECT_TRUE(problem);
    if (bytes || !problem)
      return "";
    EXPECT_EQ(bytes.message(), problem->str());
    const std::string start = path + ": cannot read the file: ";
    EXPECT_EQ(bytes.message().substr(0, start.size()), start);
    return bytes.message().substr(start.size());
  }

  fs::path folder;
  static inline std::vector<fs::path> folders;
};

} // namespace

TEST_F(InputFileTest, AllBytesAreRead) {
  const std::string bytes("one\0two\r\n\xff", 10);
  Result<std::string> read = files::readFile(write("a", bytes), bytes.size());
  ASSERT_TRUE(read) << read.message();
  EXPECT_EQ(*read, bytes);
  EXPECT_EQ(*files::readFile(write("empty", "")), "");
}

TEST_F(InputFileTest, LinksToFilesAreFollowed) {
  fs::create_symlink(write("a", "text"), path("link"));
  EXPECT_EQ(*files::readFile(path("link")), "text");
}

TEST_F(InputFileTest, WhatIsNoFileIsRefusedAtOnce) {
  EXPECT_EQ(refusal(path("none")), "No such file or directory");
  EXPECT_EQ(refusal(folder.string()), "Is a directory");
  EXPECT_EQ(refusal(write("a", "text") + "/b"), "Not a directory");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal(path("pipe")), "it is a pipe, and only regular files are read");
  fs::create_symlink("/dev/zero", path("zero.npy"));
  EXPECT_EQ(refusal(path("zero.npy")), "it is a device, and only regular files are read");
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path("s").size(), sizeof address.sun_path);
  path("s").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof address), 0);
  EXPECT_EQ(refusal(path("s")), "it is a socket, and only regular files are read");
  close(listener);
}

TEST_F(InputFileTest, WhatTheSystemMakesIsRefused) {
  EXPECT_EQ(refusal("/proc/self/environ"), "the system makes it while it is read, and only regular files are read");
}

TEST_F(InputFileTest, TheLimitIsTheLast) {
  const std::string file = write("a", "12345");
  EXPECT_TRUE(files::readFile(file, 5));
  EXPECT_EQ(refusal(file, 4), "it is too large: 5 bytes where at most 4 are allowed");
  // A file with a hole of a terabyte takes no room.
  ASSERT_EQ(truncate(write("sparse", "").c_str(), off_t(1) << 40), 0);
  EXPECT_EQ(refusal(path("sparse")), "it is too large: 1099511627776 bytes where at most 2147483647 are allowed");
}

TEST_F(InputFileTest, AnInputIsKnownUnderEveryName) {
  const std::string file = write("a", "text");
  EXPECT_FALSE(files::inputAt(file));
  ASSERT_TRUE(files::readFile(file));
  fs::create_hard_link(file, path("hard"));
  fs::create_symlink(file, path("soft"));
  fs::create_directory_symlink(folder, path("folder"));
  for (const char *name : {"a", "./a", "folder/a", "hard", "soft"})
    EXPECT_EQ(files::inputAt(path(name)), file) << name;
  EXPECT_FALSE(files::inputAt(write("b", "text")));
  EXPECT_FALSE(files::inputAt(path("none")));
  files::addInput(path("b"));
  EXPECT_EQ(files::inputAt(path("b")), path("b"));
  files::addInput(path("none"));
  EXPECT_FALSE(files::inputAt(path("none")));
}
