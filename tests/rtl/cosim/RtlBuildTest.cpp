//===- RtlBuildTest.cpp - Models that cannot be built ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "simulator/cosim/RtlBuild.h"

#include "simulator/cosim/RtlModel.h"
#include "tests/unit/systemc/TestPrograms.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <unistd.h>

using namespace tw;
using namespace tw::test;
namespace fs = std::filesystem;

namespace {

/// Sets an environment variable for one test.
class Environment {
public:
  Environment(const char *name, const std::string &value) : name(name) {
    if (const char *current = std::getenv(name))
      before = current;
    setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (before)
      setenv(name, before->c_str(), 1);
    else
      unsetenv(name);
  }

private:
  const char *name;
  std::optional<std::string> before;
};

/// A machine that no other test uses, and a folder of its own: tests run side by side.
class RtlBuildTest : public testing::Test {
protected:
  RtlBuildTest()
      : folder(testing::TempDir() + "rtl_build_" + testing::UnitTest::GetInstance()->current_test_info()->name() + "_" +
               std::to_string(getpid())),
        cache("TILEWRIGHT_RTL_CACHE", folder) {
    fs::remove_all(folder);
    machine.semaphoreMax = 13;
  }
  ~RtlBuildTest() override { fs::remove_all(folder); }
  size_t filesLeft() const {
    size_t count = 0;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder))
      count += entry.path().extension() != ".lock";
    return count;
  }

  const std::string folder;
  Environment cache;
  timing::MachineParams machine = smallMachine();
};

TEST_F(RtlBuildTest, MoreThanABankTakes) {
  machine.burstsPerCycle = 4;
  const Result<const cosim::RtlTable *> table = cosim::loadRtl(machine, false, {});
  ASSERT_FALSE(table);
  EXPECT_NE(table.message().find("its banks have one port"), std::string::npos) << table.message();
}

TEST_F(RtlBuildTest, NoVerilator) {
  Environment path("PATH", "/nowhere");
  const auto table = cosim::loadRtl(machine, false);
  ASSERT_FALSE(table);
  EXPECT_EQ(table.message(), "cannot run verilator, which the RTL model of small needs");
  // As a run it is a bad input.
  std::vector<std::vector<uint8_t>> outputs;
  const stats::SimResult result = cosim::RtlModel().run(assemble({"halt"}), machine, {}, outputs);
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->kind, core::FaultKind::BadInput);
}

TEST_F(RtlBuildTest, AFailingVerilatorIsQuoted) {
  const fs::path tools = folder + "_tools";
  fs::create_directories(tools);
  std::ofstream(tools / "verilator")
      << "#!/bin/sh\ncase $1 in --*) echo something;; esac\nfor i in $(seq 40); do echo line $i; done\nexit 5\n";
  fs::permissions(tools / "verilator", fs::perms::owner_all);
  Environment path("PATH", tools.string() + ":/usr/bin:/bin");
  std::vector<std::string> told;
  const auto table = cosim::loadRtl(machine, false, [&](const std::string &what) { told.push_back(what); });
  ASSERT_FALSE(table);
  EXPECT_EQ(table.message().substr(0, 60), "verilator failed on the RTL model of small:\nline 21\nline 22\n");
  EXPECT_NE(table.message().find("line 40"), std::string::npos);
  EXPECT_EQ(told, (std::vector<std::string>{"building the RTL model of small: verilator"}));
  EXPECT_EQ(filesLeft(), 0u);
  fs::remove_all(tools);
}

TEST_F(RtlBuildTest, NoPlaceToBuild) {
  std::ofstream(folder) << "a file";
  const auto table = cosim::loadRtl(machine, false);
  ASSERT_FALSE(table);
  EXPECT_NE(table.message().find("cannot make the folder for RTL models '" + folder + "'"), std::string::npos)
      << table.message();
}

TEST_F(RtlBuildTest, NoSources) {
  Environment sources("TILEWRIGHT_RTL", "/nowhere");
  const auto table = cosim::loadRtl(machine, false);
  ASSERT_FALSE(table);
  EXPECT_NE(table.message().find("cannot read the RTL in '/nowhere/simulator/rtl'"), std::string::npos) << table.message();
}

// Packages first, then modules, each file once.
TEST(RtlSourcesTest, PackagesComeFirst) {
  const auto sources = cosim::rtlSources("machine.sv");
  ASSERT_TRUE(bool(sources)) << sources.message();
  std::vector<std::string> names;
  for (const std::string &source : *sources)
    names.push_back(fs::path(source).filename().string());
  ASSERT_GT(names.size(), 20u);
  EXPECT_EQ(std::vector<std::string>(names.begin(), names.begin() + 5),
            (std::vector<std::string>{"tw_isa_pkg.sv", "machine.sv", "tw_pkg.sv", "tw_tables_pkg.sv", "tw_fp_pkg.sv"}));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_EQ(std::count(names.begin(), names.end(), "tw_top.sv"), 1);
}

} // namespace
