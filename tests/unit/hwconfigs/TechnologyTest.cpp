//===- TechnologyTest.cpp - Loading technologies --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "hw-configs/Technology.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

using namespace tw;
using namespace tw::hwconfigs;

namespace {

const std::string kFolder = TILEWRIGHT_SOURCE_DIR "/hw-configs/technology/";

std::string shipped(const std::string &name) {
  std::ifstream file(kFolder + name + ".yaml");
  EXPECT_TRUE(file.is_open());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The messages of 45nm with `from` replaced by `to`.
std::string messageOf(const std::string &from, const std::string &to) {
  std::string text = shipped("45nm");
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  const Result<Technology> technology = loadTechnologyText(text.replace(at, from.size(), to), kFolder + "t.yaml");
  EXPECT_FALSE(technology) << from << " -> " << to;
  return technology ? "" : technology.message();
}

} // namespace

TEST(TechnologyTest, ShippedTechnologiesLoadWithASourceForEveryNumber) {
  EXPECT_EQ(shippedTechnologies(), (std::vector<std::string>{"45nm", "7nm"}));
  for (const std::string &name : shippedTechnologies()) {
    const Result<Technology> technology = loadTechnology(name);
    ASSERT_TRUE(technology) << technology.message();
    EXPECT_EQ(technology->name, name);
    for (const TechnologyEntry &entry : technology->entries)
      EXPECT_GT(entry.provenance.size(), 10u) << entry.key;
  }
  EXPECT_DOUBLE_EQ(loadTechnology("45nm")->int8MultiplyPj, 0.2);
  EXPECT_DOUBLE_EQ(loadTechnology("7nm")->int8MultiplyPj, 0.07);
}

TEST(TechnologyTest, LogicAndDramAreThoseOfTheNamedFiles) {
  const Result<Technology> technology = loadTechnology("45nm");
  ASSERT_TRUE(technology);
  EXPECT_GT(technology->logic.peInt8Gates, 0);
  EXPECT_DOUBLE_EQ(technology->dram[size_t(timing::DramKind::Ddr4)].supplies[0].idd4r, 135);
  EXPECT_DOUBLE_EQ(technology->dram[size_t(timing::DramKind::Hbm3)].activatePj, 909);
}

TEST(TechnologyTest, AFileMayOverrideWhatItNames) {
  const Result<Technology> technology =
      loadTechnologyText(shipped("45nm") + "  ddr4: {estimate: test, idd4r_ma: 200}\n", kFolder + "t.yaml");
  ASSERT_TRUE(technology) << technology.message();
  EXPECT_DOUBLE_EQ(technology->dram[size_t(timing::DramKind::Ddr4)].supplies[0].idd4r, 200);
  EXPECT_DOUBLE_EQ(technology->dram[size_t(timing::DramKind::Ddr4)].supplies[0].idd4w, 123);
}

TEST(TechnologyTest, WrongNumbersAreToldWithPlaceAndWhatIsAllowed) {
  EXPECT_NE(messageOf("int8_multiply_pj: 0.2", "int8_multiply_pj: fast")
                .find("t.yaml:9:3: arithmetic.int8_multiply_pj is 'fast' but must be a number from 0 to 1e+06"),
            std::string::npos);
  EXPECT_NE(messageOf("int8_multiply_pj: 0.2", "int8_multiply_pj: -1").find("is '-1' but must be"), std::string::npos);
  EXPECT_NE(messageOf("int8_multiply_pj: 0.2", "int8_multiply_pj: inf").find("is 'inf' but must be"), std::string::npos);
  EXPECT_NE(messageOf("int8_multiply_pj: 0.2", "int8_multiply_pj: [1]").find("is no single value but must be"),
            std::string::npos);
  EXPECT_NE(messageOf("  int8_multiply_pj: 0.2\n", "").find("arithmetic.int8_multiply_pj is missing; it must be a number"),
            std::string::npos);
  EXPECT_NE(messageOf("int8_multiply_pj: 0.2", "int8_multiply_pj: 0.2\n  int8_multiply_pj: 0.3").find("stands twice"),
            std::string::npos);
}

TEST(TechnologyTest, UnknownKeysAreToldWithTheNearest) {
  EXPECT_NE(messageOf("int8_multiply_pj: 0.2", "int8_multiply_pg: 0.2")
                .find("unknown key 'arithmetic.int8_multiply_pg'; the nearest key is 'arithmetic.int8_multiply_pj'"),
            std::string::npos);
  EXPECT_NE(messageOf("{value: 0.009, source:", "{value: 0.009, sauce:").find("unknown key 'registers.bit_pj.sauce'"),
            std::string::npos);
  EXPECT_NE(messageOf("registers:", "registers: 3\nregister:").find("registers must be a block of keys"), std::string::npos);
}

TEST(TechnologyTest, ANumberNeedsASource) {
  EXPECT_NE(messageOf("{value: 0.68, estimate:", "{value: 0.68, estimate: \"\", x:").find("estimate must be a text"),
            std::string::npos);
  EXPECT_NE(messageOf("node_nm: {value: 45, source: by definition}", "node_nm: 45").find("node_nm has no provenance"),
            std::string::npos);
}

TEST(TechnologyTest, FilesThatAreNotThereAreTold) {
  EXPECT_NE(
      messageOf("parts/rtl_units.yaml", "parts/none.yaml").find("logic_units is 'parts/none.yaml', of which there is no file"),
      std::string::npos);
  EXPECT_NE(loadTechnology("3nm").message().find("no such technology; there are: 45nm, 7nm"), std::string::npos);
  EXPECT_NE(loadTechnologyText("- a list\n", "t.yaml").message().find("must be a block of keys"), std::string::npos);
  EXPECT_NE(loadTechnologyText("a: [", "t.yaml").message().find("not YAML"), std::string::npos);
}

TEST(TechnologyTest, ADramNeedsCurrentsOrEnergies) {
  EXPECT_NE(messageOf("dram_devices: parts/dram_devices.yaml\n", "")
                .find("dram.ddr4.activate_pj is missing, and dram.ddr4.vdd_v with its currents"),
            std::string::npos);
}

/// docs/energy.md has a row for each key of a technology; the six kinds of DRAM share theirs.
TEST(TechnologyTest, TheManualListsTheKeys) {
  std::ifstream manual(TILEWRIGHT_SOURCE_DIR "/docs/energy.md");
  ASSERT_TRUE(manual.is_open());
  std::set<std::string> documented, known;
  for (std::string line; std::getline(manual, line);)
    if (line.rfind("| `", 0) == 0)
      documented.insert(line.substr(3, line.find('`', 3) - 3));
  for (std::string key : technologyKeys()) {
    if (const size_t kind = key.find("dram."); kind == 0 && key.find(".ideal.") == std::string::npos)
      key = "dram.KIND" + key.substr(key.find('.', 5));
    known.insert(key);
  }
  EXPECT_EQ(documented, known);
}
