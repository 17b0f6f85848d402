//===- Technology.cpp - Joules and square micrometres ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "hw-configs/Technology.h"

#include "hw-configs/Machine.h"
#include "hw-configs/Schema.h"
#include "hw-configs/YamlText.h"
#include "isa/files/InputFile.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

namespace tw::hwconfigs {
namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMostTechnologyBytes = 1 << 20;

enum class Presence : uint8_t { Required, Optional };

struct NumberKey {
  std::string path;
  double minimum = 0, maximum = 0;
  Presence presence = Presence::Required;
  std::function<double &(Technology &)> member;

  std::string allowed() const {
    char text[80];
    std::snprintf(text, sizeof text, "a number from %g to %g", minimum, maximum);
    return text;
  }
};

const char *const kTextKeys[] = {"name", "description", "logic_units", "dram_devices"};

/// Currents of the three supplies, by the ending of their keys.
void addSupply(std::vector<NumberKey> &keys, size_t kind, const std::string &block, size_t supply) {
  static const char *const volts[] = {"vdd_v", "vdd2_v", "vddq_v"}, *const endings[] = {"_ma", "_vdd2_ma", "_vddq_ma"};
  auto add = [&](const std::string &leaf, double most, double DramSupply::*member) {
    keys.push_back({block + leaf, 0, most, Presence::Optional,
                    [=](Technology &technology) -> double & { return technology.dram[kind].supplies[supply].*member; }});
  };
  add(volts[supply], 5, &DramSupply::volts);
  const std::pair<const char *, double DramSupply::*> currents[] = {
      {"idd0", &DramSupply::idd0},   {"idd2n", &DramSupply::idd2n}, {"idd3n", &DramSupply::idd3n},
      {"idd4r", &DramSupply::idd4r}, {"idd4w", &DramSupply::idd4w}, {"idd5b", &DramSupply::idd5b}};
  for (auto [name, member] : currents)
    add(name + std::string(endings[supply]), 10000, member);
}

std::vector<NumberKey> makeKeys() {
  std::vector<NumberKey> keys;
  auto add = [&](const char *path, double least, double most, double Technology::*member) {
    keys.push_back(
        {path, least, most, Presence::Required, [=](Technology &technology) -> double & { return technology.*member; }});
  };
  add("node_nm", 1, 1000, &Technology::nodeNm);
  constexpr double kMostPj = 1e6;
  add("arithmetic.int8_multiply_pj", 0, kMostPj, &Technology::int8MultiplyPj);
  add("arithmetic.int32_add_pj", 0, kMostPj, &Technology::int32AddPj);
  add("arithmetic.int32_multiply_pj", 0, kMostPj, &Technology::int32MultiplyPj);
  add("arithmetic.int32_divide_pj", 0, kMostPj, &Technology::int32DividePj);
  add("arithmetic.bf16_multiply_pj", 0, kMostPj, &Technology::bf16MultiplyPj);
  add("arithmetic.fp32_add_pj", 0, kMostPj, &Technology::fp32AddPj);
  add("arithmetic.fp32_multiply_pj", 0, kMostPj, &Technology::fp32MultiplyPj);
  add("arithmetic.fp32_divide_pj", 0, kMostPj, &Technology::fp32DividePj);
  add("arithmetic.fp32_square_root_pj", 0, kMostPj, &Technology::fp32SquareRootPj);
  add("arithmetic.convert_pj", 0, kMostPj, &Technology::convertPj);
  add("arithmetic.function_pj", 0, kMostPj, &Technology::functionPj);
  add("registers.bit_pj", 0, kMostPj, &Technology::registerBitPj);
  add("sram.access_64bit_8kib_pj", 1e-6, kMostPj, &Technology::sram8KibPj);
  add("sram.access_64bit_32kib_pj", 1e-6, kMostPj, &Technology::sram32KibPj);
  add("sram.access_64bit_1mib_pj", 1e-6, kMostPj, &Technology::sram1MibPj);
  add("sram.bit_um2", 1e-6, 1000, &Technology::sramBitUm2);
  add("sram.rom_bit_um2", 1e-6, 1000, &Technology::romBitUm2);
  add("sram.cell_share", 0.01, 1, &Technology::sramEfficiency);
  add("sram.leakage_mw_per_mm2", 0, 10000, &Technology::sramLeakageMwPerMm2);
  add("gates.nand2_um2", 1e-6, 1000, &Technology::gateUm2);
  add("gates.flip_flop_nand2", 1, 100, &Technology::flipFlopGates);
  add("gates.placed_share", 0.01, 1, &Technology::logicDensity);
  add("gates.leakage_mw_per_mm2", 0, 10000, &Technology::logicLeakageMwPerMm2);

  auto unit = [&](const char *leaf, double LogicUnits::*member) {
    keys.push_back({std::string("logic.") + leaf, 0, 1e9, Presence::Required,
                    [=](Technology &technology) -> double & { return technology.logic.*member; }});
  };
  unit("pe_int8_gates", &LogicUnits::peInt8Gates);
  unit("pe_int8_flip_flops", &LogicUnits::peInt8FlipFlops);
  unit("pe_bf16_gates", &LogicUnits::peBf16Gates);
  unit("pe_bf16_flip_flops", &LogicUnits::peBf16FlipFlops);
  unit("pe_fp32_gates", &LogicUnits::peFp32Gates);
  unit("pe_fp32_flip_flops", &LogicUnits::peFp32FlipFlops);
  unit("accumulator_column_int_gates", &LogicUnits::columnIntGates);
  unit("accumulator_column_float_gates", &LogicUnits::columnFloatGates);
  unit("vector_lane_gates", &LogicUnits::laneGates);
  unit("vector_lane_flip_flops", &LogicUnits::laneFlipFlops);
  unit("vector_lane_memory_bits", &LogicUnits::laneMemoryBits);
  unit("vector_lane_rom_bits", &LogicUnits::laneRomBits);
  unit("vector_stage_gates", &LogicUnits::stageGates);
  unit("vector_stage_flip_flops", &LogicUnits::stageFlipFlops);
  unit("load_engine_gates", &LogicUnits::loadGates);
  unit("load_engine_flip_flops", &LogicUnits::loadFlipFlops);
  unit("load_engine_memory_bits", &LogicUnits::loadMemoryBits);
  unit("store_engine_gates", &LogicUnits::storeGates);
  unit("store_engine_flip_flops", &LogicUnits::storeFlipFlops);
  unit("store_engine_memory_bits", &LogicUnits::storeMemoryBits);
  unit("bank_gates", &LogicUnits::bankGates);
  unit("bank_flip_flops", &LogicUnits::bankFlipFlops);
  unit("write_buffer_burst_gates", &LogicUnits::writeBufferGates);
  unit("write_buffer_burst_flip_flops", &LogicUnits::writeBufferFlipFlops);
  unit("control_gates", &LogicUnits::controlGates);
  unit("control_flip_flops", &LogicUnits::controlFlipFlops);

  add("dram.ideal.access_64bit_pj", 0, kMostPj, &Technology::dramAccessPj);
  const std::vector<std::string> &kinds = findKey("dram.kind")->choices;
  for (size_t kind = 1; kind < kinds.size(); ++kind) {
    const std::string block = "dram." + kinds[kind] + ".";
    for (size_t supply = 0; supply < 3; ++supply)
      addSupply(keys, kind, block, supply);
    auto energy = [&](const char *leaf, double least, double most, double DramEnergy::*member) {
      keys.push_back({block + leaf, least, most, Presence::Optional,
                      [=](Technology &technology) -> double & { return technology.dram[kind].*member; }});
    };
    energy("devices_per_channel", 0.01, 64, &DramEnergy::devicesPerChannel);
    energy("current_clock_mhz", 1, 10000, &DramEnergy::currentClockMhz);
    energy("activate_pj", 0, kMostPj, &DramEnergy::activatePj);
    energy("read_pj_per_bit", 0, kMostPj, &DramEnergy::readPjPerBit);
    energy("write_pj_per_bit", 0, kMostPj, &DramEnergy::writePjPerBit);
    energy("refresh_pj", 0, 1e9, &DramEnergy::refreshPj);
    energy("background_mw", 0, kMostPj, &DramEnergy::backgroundMw);
    energy("io_pj_per_bit", 0, kMostPj, &DramEnergy::ioPjPerBit);
  }
  return keys;
}

const std::vector<NumberKey> &numberKeys() {
  static const std::vector<NumberKey> keys = makeKeys();
  return keys;
}

const NumberKey *findNumber(const std::string &path) {
  for (const NumberKey &key : numberKeys())
    if (key.path == path)
      return &key;
  return nullptr;
}

bool isTechnologyBlock(const std::string &path) {
  for (const NumberKey &key : numberKeys())
    if (key.path.compare(0, path.size() + 1, path + ".") == 0)
      return true;
  return false;
}

std::vector<fs::path> technologyFolders() {
  std::vector<fs::path> folders;
  for (const std::string &folder : machineFolders())
    folders.push_back(fs::path(folder) / "technology");
  return folders;
}

bool isRegularFile(const fs::path &path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

class TechnologyLoader {
public:
  explicit TechnologyLoader(std::string file) : file(std::move(file)) {}
  Result<Technology> load(const std::string &text);

private:
  struct Given {
    double value;
    Place place;
    bool isEstimate;
    std::string provenance;
  };
  struct Provenance {
    bool isEstimate = false;
    std::string text;
  };

  void error(const Place &place, std::string message) {
    problems.push_back({place.file, place.line, place.column, std::move(message)});
  }
  void readFile(const std::string &text, const std::string &from);
  void readBlock(const YAML::Node &block, const std::string &path, const std::string &from);
  void readNumber(const YAML::Node &node, const NumberKey &key, Place place, Provenance provenance);
  /// Sets `provenance` if `name` is the key of one; true if it is.
  bool readProvenance(const std::string &name, const YAML::Node &value, const Place &place, Provenance &provenance);
  void unknownKey(const std::string &path, const Place &place);
  void readNamedFile(const std::string &key);
  void check();

  std::string file;
  std::map<std::string, std::pair<std::string, Place>> texts;
  std::map<std::string, Given> numbers;
  std::set<std::string> bad;
  Technology technology;
  Diagnostics problems;
};

void TechnologyLoader::unknownKey(const std::string &path, const Place &place) {
  std::vector<std::string> known = technologyKeys();
  std::set<std::string> blocks;
  for (const std::string &key : known)
    for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1))
      blocks.insert(key.substr(0, dot));
  known.insert(known.end(), blocks.begin(), blocks.end());
  const std::string guess = nearest(path, known);
  error(place, "unknown key " + quote(path) + (guess.empty() ? "" : "; the nearest key is '" + guess + "'"));
}

bool TechnologyLoader::readProvenance(const std::string &name, const YAML::Node &value, const Place &place,
                                      Provenance &provenance) {
  if (name != "source" && name != "estimate")
    return false;
  if (!value.IsScalar() || value.Scalar().empty())
    error(place, name + " must be a text");
  else
    provenance = {name == "estimate", value.Scalar()};
  return true;
}

void TechnologyLoader::readNumber(const YAML::Node &node, const NumberKey &key, Place place, Provenance provenance) {
  YAML::Node value = node;
  if (node.IsMap()) {
    bool hasValue = false;
    for (const auto &member : node) {
      const std::string name = member.first.IsScalar() ? member.first.Scalar() : "";
      const Place at = placeAt(member.first.Mark(), place.file);
      if (name == "value") {
        value.reset(member.second);
        hasValue = true;
      } else if (!readProvenance(name, member.second, at, provenance)) {
        error(at,
              "unknown key " + quote(key.path + "." + name) + "; a value is written alone or with value, source and estimate");
      }
    }
    if (!hasValue) {
      bad.insert(key.path);
      return error(place, key.path + " has no value");
    }
    if (!value.Mark().is_null())
      place = placeAt(value.Mark(), place.file);
  }
  const std::string text = value.IsScalar() ? value.Scalar() : "";
  char *end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !std::isfinite(number) || number < key.minimum || number > key.maximum) {
    bad.insert(key.path);
    return error(place, key.path + (value.IsScalar() ? " is " + quote(text) : " is no single value") + " but must be " +
                            key.allowed());
  }
  if (provenance.text.empty())
    error(place, key.path + " has no provenance: its block needs a 'source' or 'estimate', or write {value: " +
                     text.substr(0, 20) + ", source: ...}");
  const auto found = numbers.find(key.path);
  if (found != numbers.end() && found->second.place.file == place.file)
    return error(place, key.path + " stands twice; first in line " + std::to_string(found->second.place.line));
  // The technology's own file is read first and wins.
  numbers.emplace(key.path, Given{number, place, provenance.isEstimate, provenance.text});
}

void TechnologyLoader::readBlock(const YAML::Node &block, const std::string &path, const std::string &from) {
  Provenance provenance;
  bool hasProvenance = false;
  for (const auto &member : block) {
    const std::string name = member.first.IsScalar() ? member.first.Scalar() : "";
    const Place at = placeAt(member.first.Mark(), from);
    const bool before = hasProvenance;
    hasProvenance |= readProvenance(name, member.second, at, provenance);
    if (before && (name == "source" || name == "estimate"))
      error(at, "a block has one 'source' or one 'estimate'; give the exceptions as {value: ..., estimate: ...}");
  }
  for (const auto &member : block) {
    const Place at = placeAt(member.first.Mark(), from);
    if (!member.first.IsScalar()) {
      error(at, "a key must be a word");
      continue;
    }
    const std::string leaf = member.first.Scalar(), child = path.empty() ? leaf : path + "." + leaf;
    if (leaf == "source" || leaf == "estimate")
      continue;
    if (std::find(std::begin(kTextKeys), std::end(kTextKeys), child) != std::end(kTextKeys)) {
      if (!member.second.IsScalar() || member.second.Scalar().empty())
        error(at, child + " must be a text");
      else
        texts.emplace(child, std::pair(member.second.Scalar(), at));
    } else if (const NumberKey *key = findNumber(child)) {
      readNumber(member.second, *key, at, provenance);
    } else if (isTechnologyBlock(child)) {
      if (member.second.IsMap())
        readBlock(member.second, child, from);
      else
        error(at, child + " must be a block of keys");
    } else {
      unknownKey(child, at);
    }
  }
}

void TechnologyLoader::readFile(const std::string &text, const std::string &from) {
  const YAML::Node root = parseYaml(text, from, problems);
  if (root.IsMap())
    readBlock(root, "", from);
}

void TechnologyLoader::readNamedFile(const std::string &key) {
  const auto found = texts.find(key);
  if (found == texts.end())
    return;
  std::vector<fs::path> candidates{fs::path(file).parent_path() / found->second.first};
  for (const fs::path &folder : technologyFolders())
    candidates.push_back(folder / found->second.first);
  const auto named = std::find_if(candidates.begin(), candidates.end(), isRegularFile);
  if (named == candidates.end())
    return error(found->second.second, key + " is " + quote(found->second.first) + ", of which there is no file");
  Result<std::string> text = files::readFile(named->string(), kMostTechnologyBytes);
  if (text)
    readFile(*text, named->string());
  else
    problems.insert(problems.end(), text.diagnostics().begin(), text.diagnostics().end());
}

void TechnologyLoader::check() {
  const Place start{file, 1, 1};
  if (!texts.count("name"))
    error(start, "name is missing; it must be a text");
  for (const NumberKey &key : numberKeys())
    if (key.presence == Presence::Required && !numbers.count(key.path) && !bad.count(key.path))
      error(start, key.path + " is missing; it must be " + key.allowed());
  const std::vector<std::string> &kinds = findKey("dram.kind")->choices;
  for (size_t kind = 1; kind < kinds.size(); ++kind) {
    const std::string block = "dram." + kinds[kind] + ".";
    if (numbers.count(block + "vdd_v") || bad.count(block + "vdd_v"))
      continue;
    for (const char *leaf : {"activate_pj", "read_pj_per_bit", "write_pj_per_bit", "refresh_pj", "background_mw"})
      if (!numbers.count(block + leaf) && !bad.count(block + leaf))
        error(start, block + leaf + " is missing, and " + block + "vdd_v with its currents, from which it would follow, too");
  }
}

Result<Technology> TechnologyLoader::load(const std::string &text) {
  readFile(text, file);
  // A text that is no block of keys has no keys to ask for.
  if (problems.empty() || !texts.empty() || !numbers.empty()) {
    readNamedFile("logic_units");
    readNamedFile("dram_devices");
    check();
  }
  if (!problems.empty()) {
    std::stable_sort(problems.begin(), problems.end(), [&](const Diagnostic &a, const Diagnostic &b) {
      return std::make_tuple(a.file != file, a.line, a.column) < std::make_tuple(b.file != file, b.line, b.column);
    });
    return problems;
  }
  technology.name = texts["name"].first;
  technology.description = texts["description"].first;
  for (const NumberKey &key : numberKeys()) {
    const auto found = numbers.find(key.path);
    if (found == numbers.end())
      continue;
    key.member(technology) = found->second.value;
    technology.entries.push_back({key.path, found->second.value, found->second.isEstimate, found->second.provenance});
  }
  return technology;
}

} // namespace

double Technology::sramAccessPj(double bytes) const {
  constexpr double kSizes[] = {8192, 32768, 1048576};
  const double energies[] = {sram8KibPj, sram32KibPj, sram1MibPj};
  if (bytes <= kSizes[0])
    return energies[0];
  for (size_t i = 0; i + 1 < 3; ++i)
    if (bytes <= kSizes[i + 1]) {
      const double along = std::log(bytes / kSizes[i]) / std::log(kSizes[i + 1] / kSizes[i]);
      return energies[i] * std::pow(energies[i + 1] / energies[i], along);
    }
  return energies[2];
}

Result<Technology> loadTechnologyText(const std::string &text, const std::string &file) {
  try {
    return TechnologyLoader(file).load(text);
  } catch (const YAML::Exception &exception) {
    const Place place = placeAt(exception.mark, file);
    return Diagnostic{file, place.line, place.column, "not YAML: " + exception.msg};
  }
}

Result<Technology> loadTechnology(const std::string &technology) {
  std::string path = technology;
  if (!isRegularFile(path)) {
    for (const fs::path &folder : technologyFolders())
      if (technology.find('/') == std::string::npos && isRegularFile(folder / (technology + ".yaml"))) {
        path = (folder / (technology + ".yaml")).string();
        break;
      }
    if (path == technology) {
      std::string message = "no such file, and no such technology; there are:";
      const std::vector<std::string> names = shippedTechnologies();
      for (const std::string &name : names)
        message += (name == names.front() ? " " : ", ") + name;
      return Diagnostic{technology, 0, 0, message};
    }
  }
  Result<std::string> text = files::readFile(path, kMostTechnologyBytes);
  if (!text)
    return text.diagnostics();
  return loadTechnologyText(*text, path);
}

std::vector<std::string> shippedTechnologies() {
  std::set<std::string> names;
  for (const fs::path &folder : technologyFolders()) {
    std::error_code failed;
    for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
      if (it->path().extension() == ".yaml")
        names.insert(it->path().stem().string());
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> technologyKeys() {
  std::vector<std::string> keys(std::begin(kTextKeys), std::end(kTextKeys));
  for (const NumberKey &key : numberKeys())
    keys.push_back(key.path);
  return keys;
}

std::string describe(const Technology &technology) {
  std::string text = technology.name + (technology.description.empty() ? "" : ": " + technology.description) + "\n";
  for (const TechnologyEntry &entry : technology.entries) {
    char line[120];
    std::snprintf(line, sizeof line, "  %-38s %12g  %s", entry.key.c_str(), entry.value, entry.isEstimate ? "estimate: " : "");
    text += line + entry.provenance + "\n";
  }
  return text;
}

} // namespace tw::hwconfigs
