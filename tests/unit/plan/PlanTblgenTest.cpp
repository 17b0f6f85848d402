//===- PlanTblgenTest.cpp - The manual, and descriptions that are refused ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each tests/unit/plan/bad/*.td says in its first line what plan-tblgen must
// report and where: "// expected at line N: MESSAGE".
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

/// Standard output and error of plan-tblgen, and its exit code.
std::pair<std::string, int> run(const std::string &action, const std::string &file) {
  const std::string command = "'" PLAN_TBLGEN "' " + action + " -I '" + kSource + "/compiler/plan' '" + file + "' 2>&1";
  FILE *pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (size_t size = fread(buffer.data(), 1, buffer.size(), pipe))
    output.append(buffer.data(), size);
  int status = pclose(pipe);
  return {output, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

} // namespace

TEST(PlanTblgenTest, TheManualIsCurrent) {
  auto [tables, code] = run("-gen-manual", kSource + "/compiler/plan/Knobs.td");
  ASSERT_EQ(code, 0) << tables;
  std::ifstream file(kSource + "/docs/schedule-file.md");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  const std::string first = "<!-- plan-tblgen writes from here -->\n", last = "<!-- to here -->\n";
  const size_t begin = page.find(first), end = page.find(last);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos) << "docs/schedule-file.md has lost its markers";
  EXPECT_TRUE(page.substr(begin + first.size(), end - begin - first.size()) == tables)
      << "docs/schedule-file.md is stale: build the target plan-manual";
}

TEST(PlanTblgenTest, FaultsAreReportedWithTheirPlace) {
  int files = 0;
  for (const fs::directory_entry &entry : fs::directory_iterator(kSource + "/tests/unit/plan/bad")) {
    ++files;
    SCOPED_TRACE(entry.path().filename().string());
    std::string first;
    std::getline(std::ifstream(entry.path()), first);
    std::smatch match;
    ASSERT_TRUE(std::regex_match(first, match, std::regex("// expected at line ([0-9]+): (.*)")));
    auto [output, code] = run("-gen-knobs", entry.path().string());
    EXPECT_EQ(code, 1);
    const size_t at = output.find(entry.path().filename().string() + ":" + match[1].str() + ":");
    ASSERT_NE(at, std::string::npos) << output;
    EXPECT_NE(output.find("error: " + match[2].str() + "\n", at), std::string::npos) << output;
  }
  EXPECT_GE(files, 3);
}
