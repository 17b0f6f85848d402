//===- TblgenTest.cpp - Descriptions that isa-tblgen refuses ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each tests/isa/bad/*.td says in its first line what the generator must report
// and where: "// expected at line N: MESSAGE".
//===----------------------------------------------------------------------===//
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <sys/wait.h>

namespace {

namespace fs = std::filesystem;

const std::string kSource = TILEWRIGHT_SOURCE_DIR;

/// Standard output and error of a command, and its exit code.
std::pair<std::string, int> run(const std::string &command) {
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (size_t size = fread(buffer.data(), 1, buffer.size(), pipe))
    output.append(buffer.data(), size);
  int status = pclose(pipe);
  return {output, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

std::string check(const fs::path &file) {
  return "'" ISA_TBLGEN "' -check -I '" + kSource + "/isa' -I '" + kSource + "/tests/isa/bad/include' '" + file.string() + "'";
}

} // namespace

TEST(TblgenTest, TheInstructionSetIsGood) {
  auto [output, code] = run(check(kSource + "/isa/Tilewright.td"));
  EXPECT_EQ(code, 0) << output;
}

TEST(TblgenTest, ASmallDescriptionIsGood) {
  auto [output, code] = run(check(kSource + "/tests/isa/bad/include/Small.td"));
  EXPECT_EQ(code, 0) << output;
}

TEST(TblgenTest, TheManualIsCurrent) {
  auto [output, code] = run("'" ISA_TBLGEN "' -gen-manual -I '" + kSource + "/isa' '" + kSource + "/isa/Tilewright.td'");
  ASSERT_EQ(code, 0) << output;
  std::ifstream file(kSource + "/docs/isa.md");
  std::string manual((std::istreambuf_iterator<char>(file)), {});
  EXPECT_TRUE(output == manual) << "docs/isa.md is stale: build the target isa-manual";
}

TEST(TblgenTest, FaultsAreReportedWithTheirPlace) {
  int files = 0;
  for (const fs::directory_entry &entry : fs::directory_iterator(kSource + "/tests/isa/bad")) {
    if (entry.path().extension() != ".td")
      continue;
    ++files;
    SCOPED_TRACE(entry.path().filename().string());
    std::string first;
    std::getline(std::ifstream(entry.path()), first);
    std::smatch match;
    ASSERT_TRUE(std::regex_match(first, match, std::regex("// expected at line ([0-9]+): (.*)")));
    auto [output, code] = run(check(entry.path()));
    EXPECT_EQ(code, 1);
    const std::string place = entry.path().filename().string() + ":" + match[1].str() + ":";
    const size_t at = output.find(place);
    ASSERT_NE(at, std::string::npos) << output;
    EXPECT_NE(output.find("error: " + match[2].str() + "\n", at), std::string::npos) << output;
  }
  EXPECT_GE(files, 35);
}
