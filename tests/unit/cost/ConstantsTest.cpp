//===- ConstantsTest.cpp - The table of constants and its page -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/cost/Constants.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

using namespace tw;

namespace {
struct Row {
  const char *name;
  double value;
  const char *unit, *meaning, *measuredBy;
};
const Row kRows[] = {
#define COST_CONSTANT(name, value, unit, meaning, measuredBy) {#name, value, unit, meaning, measuredBy},
#include "compiler/cost/Constants.def"
};

/// docs/design/cost-model.md has it behind its head.
std::string table() {
  std::ostringstream text;
  text << "| name | value | unit | meaning | measured by |\n|---|---:|---|---|---|\n";
  for (const Row &row : kRows)
    text << "| `" << row.name << "` | " << row.value << " | " << row.unit << " | " << row.meaning << " | " << row.measuredBy
         << " |\n";
  return text.str();
}

TEST(ConstantsTest, ThePageHasTheTable) {
  std::ifstream file(TILEWRIGHT_SOURCE_DIR "/docs/design/cost-model.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_NE(page.str().find(table()), std::string::npos) << "docs/design/cost-model.md should have\n" << table();
}

TEST(ConstantsTest, EachHasAUnitAMeaningAndACommandThatExists) {
  std::set<std::string> names;
  for (const Row &row : kRows) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_STRNE(row.unit, "") << row.name;
    EXPECT_STRNE(row.meaning, "") << row.name;
    const std::string command = std::string(row.measuredBy).substr(0, std::string(row.measuredBy).find(','));
    EXPECT_TRUE(std::ifstream(TILEWRIGHT_SOURCE_DIR "/" + command).good()) << row.name << ": " << command;
  }
}
} // namespace
