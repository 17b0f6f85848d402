//===- PluginTest.cpp - Schedulers from shared libraries ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/research/loopsched/SchedulerPlugin.h"
#include "tests/unit/loopsched/RandomKernel.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace tw;
using namespace tw::loopsched;

namespace {

const std::string kFolder = TILEWRIGHT_PLUGIN_DIR "/";

TEST(PluginTest, TheExampleAddsASchedulerThatSchedulesEveryKernel) {
  Result<std::vector<std::string>> added = loadPlugin(kFolder + "SchedulerPlugin.so");
  ASSERT_TRUE(added) << added.message();
  EXPECT_EQ(*added, std::vector<std::string>{"rigid"});
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Problem problem = test::randomKernel(seed);
    Result<Schedule> schedule = runScheduler("rigid", problem);
    ASSERT_TRUE(schedule) << "kernel " << seed << ": " << schedule.message();
    EXPECT_LE(schedule->ii, runScheduler("serial", problem)->ii) << "kernel " << seed;
  }
}

TEST(PluginTest, AWrongScheduleOfAPluginIsRefused) {
  ASSERT_TRUE(loadPlugin(kFolder + "BadSchedulePlugin.so"));
  Result<Schedule> schedule = runScheduler("hasty", test::randomKernel(1));
  ASSERT_FALSE(schedule);
  EXPECT_EQ(schedule.message().rfind("scheduler 'hasty': ", 0), 0u) << schedule.message();
}

struct Refused {
  const char *name;
  std::string path;
  std::string message;
};

std::ostream &operator<<(std::ostream &out, const Refused &it) { return out << it.name; }

// As a copy of it that was broken off leaves it.
TEST(PluginTest, AFileThatEndsTooSoonIsRefused) {
  const std::string cut = testing::TempDir() + "cut.so";
  std::filesystem::copy_file(kFolder + "SchedulerPlugin.so", cut, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file(cut, 4096);
  Result<std::vector<std::string>> added = loadPlugin(cut);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.message().rfind(cut + ": the file ends after 4096 of ", 0), 0u) << added.message();
}

class RefusedPluginTest : public testing::TestWithParam<Refused> {};

TEST_P(RefusedPluginTest, IsAnErrorThatSaysWhy) {
  size_t before = schedulers().names().size();
  Result<std::vector<std::string>> added = loadPlugin(GetParam().path);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.message().rfind(GetParam().path + ": " + GetParam().message, 0), 0u) << added.message();
  EXPECT_EQ(schedulers().names().size(), before);
}

INSTANTIATE_TEST_SUITE_P(
    Plugin, RefusedPluginTest,
    testing::Values(Refused{"NoFile", "no-such.so", "cannot read the file: No such file or directory"},
                    Refused{"NoLibrary", TILEWRIGHT_SOURCE_DIR "/README.md", "cannot load the plug-in: "},
                    Refused{"NoPlugin", kFolder + "NoPlugin.so", "not a plug-in: it does not export tilewrightPluginVersion"},
                    Refused{"Version", kFolder + "BadVersionPlugin.so",
                            "the plug-in was built for version 4 of the interface but this is version 3"},
                    Refused{"Empty", kFolder + "BadEmptyPlugin.so", "the plug-in added no scheduler"},
                    Refused{"Name", kFolder + "BadNamePlugin.so", "the plug-in added no scheduler"},
                    Refused{"Throws", kFolder + "BadThrowsPlugin.so", "the plug-in failed to register: no licence"}),
    [](const testing::TestParamInfo<Refused> &info) { return info.param.name; });

} // namespace
