//===- RtlBuildTest.cpp - Models that cannot be built ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "simulator/cosim/RtlBuild.h"

#include "simulator/cosim/RtlAbi.h"
#include "simulator/cosim/RtlModel.h"
#include "tests/unit/systemc/TestPrograms.h"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

/// Tools that make, in no time, an object with the right entry; and the number of times they did.
class RtlCacheTest : public RtlBuildTest {
protected:
  RtlCacheTest()
      : tools(folder + "_tools"), path("PATH", tools.string() + ":" + std::getenv("PATH")),
        compiler("CXX", (tools / "compiler").string()) {
    fs::create_directories(tools);
    script("verilator", "case $1 in --Mdir) printf '.DEFAULT:\\n\\ttouch $@\\n' >$2/Vtw_top.mk;; *) echo /nowhere;; esac");
    script("compiler", "for last; do :; done; echo >>" + (tools / "built").string() + "; exec clang++-14 -shared -fPIC " +
                           (tools / "stub.cpp").string() + " -o $last");
    std::ofstream(tools / "stub.cpp") << "extern \"C\" const unsigned *twRtl() { static unsigned abi = " << cosim::kRtlAbi
                                      << "; return &abi; }\n";
  }
  ~RtlCacheTest() override { fs::remove_all(tools); }
  void script(const std::string &name, const std::string &body) {
    std::ofstream(tools / name) << "#!/bin/sh\n" << body << "\n";
    fs::permissions(tools / name, fs::perms::owner_all);
  }
  /// Loads in a process of its own, as models stay loaded. Returns the error, empty if there is none.
  std::string load() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      const auto table = cosim::loadRtl(machine, false);
      const std::string text = table ? "" : table.message();
      _exit(write(ends[1], text.data(), text.size()) == ssize_t(text.size()) ? 0 : 1);
    }
    close(ends[1]);
    std::string text;
    char buffer[256];
    for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
      text.append(buffer, size_t(got));
    close(ends[0]);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "the process that loads the model died";
    return text;
  }
  /// Of all builds so far.
  size_t builds() const {
    std::ifstream lines(tools / "built");
    return size_t(std::count(std::istreambuf_iterator<char>(lines), {}, '\n'));
  }
  fs::path file(const std::string &extension) const {
    for (const fs::directory_entry &entry : fs::directory_iterator(folder))
      if (entry.path().extension() == extension)
        return entry.path();
    return {};
  }

  const fs::path tools;
  Environment path, compiler;
};

TEST_F(RtlCacheTest, AModelIsBuiltOnce) {
  EXPECT_EQ(load(), "");
  EXPECT_EQ(load(), "");
  EXPECT_EQ(builds(), 1u);
  EXPECT_EQ(filesLeft(), 2u); // the object and its record
  // Whatever the umask is, both are of one user alone.
  for (const fs::path &path : {fs::path(folder), file(".so"), file(".record")})
    EXPECT_EQ(fs::status(path).permissions() & (fs::perms::group_all | fs::perms::others_all), fs::perms::none) << path;
}

TEST_F(RtlCacheTest, TheUmaskDecidesNothing) {
  const mode_t before = umask(0);
  EXPECT_EQ(load(), "");
  EXPECT_EQ(load(), "");
  umask(before);
  EXPECT_EQ(builds(), 1u);
}

TEST_F(RtlCacheTest, WhatIsDamagedIsBuiltAgain) {
  ASSERT_EQ(load(), "");
  size_t built = 1;
  const fs::path object = file(".so"), record = file(".record");
  const std::vector<std::pair<const char *, std::function<void()>>> damages = {
      {"cut off", [&] { fs::resize_file(object, fs::file_size(object) / 2); }},
      {"empty", [&] { fs::resize_file(object, 0); }},
      {"longer", [&] { std::ofstream(object, std::ios::app) << "x"; }},
      {"one bit changed",
       [&] {
         std::fstream bytes(object, std::ios::in | std::ios::out | std::ios::binary);
         const char byte = char(bytes.seekg(1000).get() ^ 1);
         bytes.seekp(1000).put(byte);
       }},
      {"gone", [&] { fs::remove(object); }},
      {"a link", [&] { fs::rename(object, folder + "/other"), fs::create_symlink("other", object); }},
      {"record gone", [&] { fs::remove(record); }},
      {"record cut off", [&] { fs::resize_file(record, fs::file_size(record) - 1); }},
      {"record of something else", [&] { std::ofstream(record) << "tilewright RTL model 1\nbytes 0\ndigest 0\n"; }}};
  for (const auto &[what, damage] : damages) {
    damage();
    EXPECT_EQ(load(), "") << what;
    EXPECT_EQ(builds(), ++built) << what;
    EXPECT_EQ(load(), "") << what;
    EXPECT_EQ(builds(), built) << what;
  }
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(object)));
}

TEST_F(RtlCacheTest, WhatOthersCanWriteIsRefused) {
  ASSERT_EQ(load(), "");
  const fs::path object = file(".so"), record = file(".record");
  for (fs::perms others : {fs::perms::group_write, fs::perms::others_write})
    for (const fs::path &path : {fs::path(folder), object, record}) {
      const fs::perms before = fs::status(path).permissions();
      fs::permissions(path, others, fs::perm_options::add);
      const std::string text = load();
      EXPECT_NE(text.find("'" + path.string() + "' can be written by others: its mode is "), std::string::npos) << text;
      fs::permissions(path, before);
    }
  EXPECT_EQ(load(), "");
  EXPECT_EQ(builds(), 1u);
}

TEST_F(RtlCacheTest, AFolderThatOthersCanReplaceIsRefused) {
  const std::string above = folder;
  fs::create_directory(above);
  Environment cache("TILEWRIGHT_RTL_CACHE", above + "/inside");
  fs::permissions(above, fs::perms::all);
  EXPECT_NE(load().find("everybody can write to '" + above + "'"), std::string::npos);
  fs::permissions(above, fs::perms::all | fs::perms::sticky_bit); // as /tmp
  EXPECT_EQ(load(), "");
}

TEST_F(RtlCacheTest, AFolderOfSomebodyElseIsRefused) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can give folders away";
  ASSERT_EQ(load(), "");
  ASSERT_EQ(chown(folder.c_str(), 12345, gid_t(-1)), 0);
  EXPECT_NE(load().find("it belongs to user 12345"), std::string::npos);
  ASSERT_EQ(chown(folder.c_str(), 0, gid_t(-1)), 0);
  ASSERT_EQ(chown(file(".so").c_str(), 12345, gid_t(-1)), 0);
  EXPECT_NE(load().find("it belongs to user 12345"), std::string::npos);
}

TEST_F(RtlCacheTest, ManyProcessesBuildOnce) {
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(fork());
    if (children.back() == 0)
      _exit(cosim::loadRtl(machine, false) ? 0 : 1);
  }
  for (pid_t child : children) {
    int status = 1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(builds(), 1u);
  EXPECT_EQ(filesLeft(), 2u);
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
