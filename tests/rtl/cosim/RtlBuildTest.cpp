//===- RtlBuildTest.cpp - Models that cannot be built ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "simulator/cosim/RtlBuild.h"

#include "simulator/cosim/RtlModel.h"
#include "tests/unit/systemc/TestPrograms.h"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <sys/file.h>
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

TEST_F(RtlBuildTest, MoreThanTagsAndPortsName) {
  auto refusal = [&](auto change) {
    timing::MachineParams changed = machine;
    change(changed);
    const Result<const cosim::RtlTable *> table = cosim::loadRtl(changed, false, {});
    return table ? "" : table.message();
  };
  const std::string start = "the RTL does not run machine small: ";
  EXPECT_EQ(refusal([](timing::MachineParams &m) { m.outstandingBursts = 4097; }),
            start + "dma.outstanding_bursts is 4097 but may be at most 4096");
  EXPECT_EQ(refusal([](timing::MachineParams &m) { m.dram.writeBufferBursts = 2048; }),
            start + "dram.write_buffer_bursts is 2048 but may be at most 1024");
  auto wide = [](timing::MachineParams &m) {
    m.dram.kind = timing::DramKind::Ddr4;
    m.dram.channels = 128;
  };
  EXPECT_EQ(refusal(wide), start + "dram.channels is 128 but may be at most 64");
  EXPECT_EQ(refusal([](timing::MachineParams &m) { m.dram.bytesPerCycleNumerator = 65 * 64; }),
            start + "DRAM completions in one cycle are up to 65 but may be at most 64");
  // The most is fine.
  machine.outstandingBursts = 4096;
  machine.dram.writeBufferBursts = 1024;
  machine.dram.bytesPerCycleNumerator = 64 * 64;
  EXPECT_FALSE(cosim::whyNoRtl(machine));
}

// A build of a process that is gone leaves a folder; one that goes on holds its model's lock.
TEST_F(RtlBuildTest, InterruptedBuildsAreRemoved) {
  fs::create_directories(folder + "/rtl-00.4711.build/inside");
  fs::create_directories(folder + "/rtl-11.4712.build");
  const int lock = open((folder + "/rtl-11.lock").c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  Environment path("PATH", folder + ":/usr/bin:/bin");
  std::ofstream(folder + "/verilator") << "#!/bin/sh\ncase $1 in --version) echo something;; *) exit 5;; esac\n";
  fs::permissions(folder + "/verilator", fs::perms::owner_all);
  EXPECT_FALSE(cosim::loadRtl(machine, false));
  EXPECT_FALSE(fs::exists(folder + "/rtl-00.4711.build"));
  EXPECT_TRUE(fs::exists(folder + "/rtl-11.4712.build"));
  close(lock);
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
