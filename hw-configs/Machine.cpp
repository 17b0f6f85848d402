//===- Machine.cpp - Machines from YAML -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "hw-configs/Machine.h"

#include "hw-configs/Schema.h"
#include "hw-configs/YamlText.h"
#include "isa/FieldLimits.h"
#include "isa/files/InputFile.h"
#include "isa/files/Installation.h"
#include "isa/timing/Digest.h"
#include "isa/timing/Dram.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

namespace tw::hwconfigs {

using timing::DramKind;
using timing::MachineParams;
using timing::MemoryParams;
namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMostMachineBytes = 1 << 20;
/// That are told of one file.
constexpr size_t kMaxProblems = 100;

/// One key's value as text, with where it stands.
struct Entry {
  std::string text;
  Place place;
  bool sourced = false;
  bool fromCommandLine = false;
  bool fromDevice = false;
};

bool isFile(const fs::path &path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// Names of the .yaml files in a folder, sorted.
std::vector<std::string> yamlNames(const fs::path &folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
    if (it->path().extension() == ".yaml" && isFile(it->path()))
      names.push_back(it->path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string join(const std::string &block, const std::string &leaf) { return block.empty() ? leaf : block + "." + leaf; }

class Loader {
public:
  Loader(const std::string &file, const std::vector<std::string> &overrides) : file(file), overrides(overrides) {}

  Result<MachineParams> load(const std::string &text, Diagnostics *warnings);
  /// That the machine names; empty: none. After load().
  std::string technology() const { return given("technology") ? entries.at("technology").text : ""; }

private:
  void error(const Place &place, std::string message) {
    problems.push_back({place.file, place.line, place.column, std::move(message)});
  }

  /// Null after an error that has been reported.
  YAML::Node parse(const std::string &text, const std::string &from);
  void readBlock(const YAML::Node &block, const std::string &path, const Place &place, bool device);
  void readValue(const YAML::Node &node, const Key &key, const Place &place, bool sourced, bool device);
  void unknownKey(const std::string &leaf, const std::string &block, const Place &place, bool device);
  void readOverrides();
  void readDevice();
  std::optional<Value> convert(const Key &key, const Entry &entry);
  void assign();
  void fillDefaults();
  void check();
  void checkLittlesLaw(Diagnostics *warnings);

  /// Where to complain about a key: its value, else its block, else the file.
  Place placeOf(const std::string &path) const;
  /// True if none of these keys has been reported already, so that a check over them makes sense.
  bool sound(std::initializer_list<const char *> paths) const {
    return std::none_of(paths.begin(), paths.end(), [&](const char *path) { return bad.count(path) != 0; });
  }
  bool given(const std::string &path) const { return entries.count(path) != 0; }

  std::string file;
  const std::vector<std::string> &overrides;
  std::map<std::string, Entry> entries;
  std::map<std::string, Place> blocks;
  std::set<std::string> bad; ///< keys with a reported problem
  bool deviceFailed = false;
  std::string deviceFile;
  MachineParams machine;
  Diagnostics problems;
};

YAML::Node Loader::parse(const std::string &text, const std::string &from) { return parseYaml(text, from, problems); }

void Loader::unknownKey(const std::string &leaf, const std::string &block, const Place &place, bool device) {
  std::vector<std::string> siblings, all;
  std::set<std::string> seen;
  for (const Key &key : schema()) {
    if (device && key.scope == DramScope::Machine)
      continue;
    // A block's children are its keys and the first part of its nested blocks.
    if (key.path.compare(0, block.size(), block) == 0) {
      std::string rest = block.empty() ? key.path : key.path.substr(std::min(block.size() + 1, key.path.size()));
      std::string child = rest.substr(0, rest.find('.'));
      if (seen.insert(child).second)
        siblings.push_back(child);
    }
    all.push_back(key.leaf());
  }
  siblings.push_back("source");
  siblings.push_back("assumed");
  std::string message = "unknown key " + quote(join(device ? "" : block, leaf));
  std::string guess = nearest(leaf, siblings);
  if (!guess.empty()) {
    message += "; the nearest key is '" + join(device ? "" : block, guess) + "'";
  } else if (guess = nearest(leaf, all); !guess.empty()) {
    for (const Key &key : schema())
      if (key.leaf() == guess && !(device && key.scope == DramScope::Machine)) {
        message += "; the nearest key is '" + (device ? key.leaf() : key.path) + "'";
        break;
      }
  }
  error(place, message);
}

void Loader::readValue(const YAML::Node &node, const Key &key, const Place &keyPlace, bool sourced, bool device) {
  YAML::Node value = node;
  std::string shown = device ? key.leaf() : key.path;
  if (node.IsMap()) {
    bool hasValue = false;
    for (const auto &member : node) {
      std::string name = member.first.IsScalar() ? member.first.Scalar() : "";
      if (name == "value") {
        value.reset(member.second);
        hasValue = true;
      } else if (name == "source" || name == "assumed") {
        if (member.second.IsScalar() && !member.second.Scalar().empty())
          sourced = true;
        else
          error(placeAt(member.first.Mark(), keyPlace.file), shown + "." + name + " is empty");
      } else {
        error(placeAt(member.first.Mark(), keyPlace.file),
              "unknown key " + quote(shown + "." + name) + "; a value is written alone or with value, source and assumed");
      }
    }
    if (!hasValue) {
      bad.insert(key.path);
      return error(keyPlace, shown + " has no value");
    }
  }
  Place place = placeAt(value.Mark(), keyPlace.file);
  if (value.IsNull() || !value.IsScalar()) {
    bad.insert(key.path);
    return error(value.IsNull() ? keyPlace : place,
                 shown + (value.IsNull() ? " has no value" : " is a list") + " but must be " + key.allowed());
  }
  if (auto found = entries.find(key.path); found != entries.end() && found->second.fromDevice == device) {
    return error(keyPlace, shown + " stands twice; first in line " + std::to_string(found->second.place.line));
  }
  Entry entry;
  entry.text = value.Scalar();
  entry.place = place;
  entry.sourced = sourced;
  entry.fromDevice = device;
  // The machine file is read first and wins over its device file.
  entries.emplace(key.path, entry);
  bool isNumber = key.kind == ValueKind::Integer || key.kind == ValueKind::Ratio;
  if (isNumber && !sourced)
    error(place, shown +
                     " has no provenance: its block needs a 'source' or "
                     "'assumed', or write {value: " +
                     entry.text.substr(0, 20) + ", source: ...}");
}

void Loader::readBlock(const YAML::Node &block, const std::string &path, const Place &place, bool device) {
  if (!block.IsMap()) {
    error(place, path + " must be a block of keys");
    for (const Key &key : schema())
      if (key.path.compare(0, path.size() + 1, path + ".") == 0)
        bad.insert(key.path);
    return;
  }
  bool sourced = false;
  for (const auto &member : block)
    if (member.first.IsScalar() && (member.first.Scalar() == "source" || member.first.Scalar() == "assumed")) {
      Place at = placeAt(member.first.Mark(), place.file);
      if (!member.second.IsScalar() || member.second.Scalar().empty())
        error(at, join(device ? "" : path, member.first.Scalar()) + " must be a text");
      else if (sourced)
        error(at, "a block has one 'source' or one 'assumed'; give the "
                  "exceptions as {value: ..., assumed: ...}");
      sourced = true;
    }
  for (const auto &member : block) {
    Place at = placeAt(member.first.Mark(), place.file);
    if (!member.first.IsScalar()) {
      error(at, "a key must be a word");
      continue;
    }
    const std::string &leaf = member.first.Scalar();
    if (leaf == "source" || leaf == "assumed")
      continue;
    std::string child = join(path, leaf);
    if (device && leaf == "description")
      continue;
    const Key *key = findKey(child);
    if (key && device && key->scope == DramScope::Machine)
      key = nullptr;
    if (key) {
      readValue(member.second, *key, at, sourced, device);
    } else if (!device && isBlock(child)) {
      if (!blocks.emplace(child, at).second)
        error(at, child + " stands twice; first in line " + std::to_string(blocks[child].line));
      else
        readBlock(member.second, child, at, false);
    } else {
      unknownKey(leaf, path, at, device);
    }
  }
}

void Loader::readOverrides() {
  for (const std::string &text : overrides) {
    Place place{"--set " + text, 0, 0};
    size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      error(place, "must be key=value");
      continue;
    }
    std::string path = text.substr(0, equals);
    const Key *key = findKey(path);
    if (!key) {
      std::vector<std::string> all;
      for (const Key &candidate : schema())
        all.push_back(candidate.path);
      std::string guess = nearest(path, all);
      error(place, "unknown key " + quote(path) + (guess.empty() ? "" : "; the nearest key is '" + guess + "'"));
      continue;
    }
    Entry entry;
    entry.text = text.substr(equals + 1);
    entry.place = place;
    entry.sourced = entry.fromCommandLine = true;
    entries[path] = entry;
    bad.erase(path);
  }
}

void Loader::readDevice() {
  auto found = entries.find("dram.device");
  if (found == entries.end() || bad.count("dram.device")) {
    deviceFailed = true;
    return;
  }
  const Entry &entry = found->second;
  std::string name = entry.text;
  fs::path besideMachine = fs::path(file).parent_path();
  std::vector<fs::path> candidates;
  std::vector<std::string> known;
  if (fs::path(name).extension() == ".yaml") {
    candidates.push_back(besideMachine / name);
  } else if (name.find('/') == std::string::npos) {
    std::vector<fs::path> folders{besideMachine / "dram"};
    for (const std::string &folder : machineFolders())
      folders.push_back(fs::path(folder) / "dram");
    for (const fs::path &folder : folders) {
      candidates.push_back(folder / (name + ".yaml"));
      for (const std::string &stem : yamlNames(folder))
        if (std::find(known.begin(), known.end(), stem) == known.end())
          known.push_back(stem);
    }
  }
  auto device = std::find_if(candidates.begin(), candidates.end(), isFile);
  if (device == candidates.end()) {
    deviceFailed = true;
    bad.insert("dram.device");
    std::string message = "dram.device is " + quote(name) + ", of which there is no file";
    if (!known.empty()) {
      std::sort(known.begin(), known.end());
      message += "; known devices:";
      for (const std::string &stem : known)
        message += (stem == known.front() ? " " : ", ") + stem;
    }
    return error(entry.place, message);
  }
  deviceFile = device->string();
  Result<std::string> text = files::readFile(deviceFile, kMostMachineBytes);
  if (!text) {
    deviceFailed = true;
    problems.insert(problems.end(), text.diagnostics().begin(), text.diagnostics().end());
    return;
  }
  YAML::Node root = parse(*text, deviceFile);
  if (!root.IsMap()) {
    deviceFailed = true;
    return;
  }
  readBlock(root, "dram", {deviceFile, 1, 1}, true);
}

std::optional<Value> Loader::convert(const Key &key, const Entry &entry) {
  Value value;
  value.text = entry.text;
  const std::string &text = entry.text;
  std::string shown = entry.fromDevice ? key.leaf() : key.path;
  auto refuse = [&](const std::string &found) {
    error(entry.place, shown + " is " + found + " but must be " + key.allowed());
    bad.insert(key.path);
    return std::nullopt;
  };
  auto wholeNumber = [](std::string_view digits, uint64_t &number) {
    auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return code == std::errc() && end == digits.data() + digits.size();
  };
  switch (key.kind) {
  case ValueKind::Integer:
    if (!wholeNumber(text, value.integer))
      return refuse(quote(text));
    if (value.integer < key.minimum || value.integer > key.maximum || (key.powerOfTwo && (value.integer & (value.integer - 1))))
      return refuse(text);
    return value;
  case ValueKind::Ratio: {
    size_t slash = text.find('/');
    uint64_t numerator = 0, denominator = 1;
    bool parsed = wholeNumber(std::string_view(text).substr(0, slash), numerator) &&
                  (slash == std::string::npos || wholeNumber(std::string_view(text).substr(slash + 1), denominator));
    auto inRange = [&](uint64_t part) { return part >= key.minimum && part <= key.maximum; };
    if (!parsed || !inRange(numerator) || !inRange(denominator))
      return refuse(quote(text));
    value.numerator = uint32_t(numerator);
    value.denominator = uint32_t(denominator);
    return value;
  }
  case ValueKind::Flag:
    if (text != "true" && text != "false")
      return refuse(quote(text));
    value.integer = text == "true";
    return value;
  case ValueKind::Choice: {
    auto choice = std::find(key.choices.begin(), key.choices.end(), text);
    if (choice == key.choices.end()) {
      std::string guess = nearest(text, key.choices);
      error(entry.place, shown + " is " + quote(text) + " but must be " + key.allowed() +
                             (guess.empty() ? "" : "; the nearest is '" + guess + "'"));
      bad.insert(key.path);
      return std::nullopt;
    }
    value.integer = uint64_t(choice - key.choices.begin());
    return value;
  }
  case ValueKind::Text:
    if (text.empty())
      return refuse("empty");
    return value;
  }
  return std::nullopt;
}

Place Loader::placeOf(const std::string &path) const {
  if (auto found = entries.find(path); found != entries.end())
    return found->second.place;
  for (std::string block = path; block.find('.') != std::string::npos;) {
    block = block.substr(0, block.rfind('.'));
    if (auto found = blocks.find(block); found != blocks.end())
      return found->second;
  }
  return {file, 1, 1};
}

void Loader::assign() {
  // The kind decides which other device keys belong here.
  bool kindKnown = false;
  if (auto found = entries.find("dram.kind"); found != entries.end()) {
    const Key *key = findKey("dram.kind");
    auto choice = std::find(key->choices.begin(), key->choices.end(), found->second.text);
    if ((kindKnown = choice != key->choices.end()))
      machine.dram.kind = DramKind(choice - key->choices.begin());
  }
  bool ideal = machine.dram.kind == DramKind::Ideal;
  auto deviceEntry = entries.find("dram.device");
  // A device chosen on the command line leaves the machine file's keys of another kind without meaning, not wrong.
  bool replaced = deviceEntry != entries.end() && deviceEntry->second.fromCommandLine;

  for (const Key &key : schema()) {
    bool otherKind = kindKnown && ((key.scope == DramScope::Ideal && !ideal) || (key.scope == DramScope::Timed && ideal));
    auto found = entries.find(key.path);
    if (found == entries.end()) {
      bool needed = key.need == Need::Required || (key.need == Need::RequiredOfDevice && !deviceFailed && !otherKind &&
                                                   (kindKnown || key.scope == DramScope::Any));
      if (!needed || bad.count(key.path))
        continue;
      bool ofDevice = key.need == Need::RequiredOfDevice;
      error(ofDevice ? Place{deviceFile, 1, 1} : placeOf(key.path),
            (ofDevice ? key.leaf() : key.path) + " is missing; it must be " + key.allowed() + " (" + key.meaning + ")");
      bad.insert(key.path);
      continue;
    }
    if (bad.count(key.path))
      continue;
    const Entry &entry = found->second;
    if (otherKind) {
      if (!(replaced && !entry.fromDevice && !entry.fromCommandLine))
        error(entry.place, (entry.fromDevice ? key.leaf() : key.path) + " does not belong to a DRAM of kind " +
                               findKey("dram.kind")->choices[size_t(machine.dram.kind)]);
      bad.insert(key.path);
      continue;
    }
    std::optional<Value> value = convert(key, entry);
    if (value && key.assign)
      key.assign(machine, *value);
    if (entry.fromCommandLine)
      machine.overrides += (machine.overrides.empty() ? "" : ", ") + key.path + "=" + entry.text;
  }
}

void Loader::fillDefaults() {
  if (!given("array.preload_rows_per_cycle"))
    machine.preloadRowsPerCycle = machine.rows >= 64 ? 4 : 1;
  if (!given("vector.lanes"))
    machine.lanes = machine.cols;
  for (MemoryParams &memory : machine.scratchpads)
    if (!given("scratchpads." + memory.name + ".banks"))
      memory.banks = memory.name == "weight" ? 8 : 16;
  machine.accumulator.name = "accumulator";
  if (!given("accumulator.banks"))
    machine.accumulator.banks = 4;
  // The link of PCI Express 3.0, 16 lanes of 8 GT/s in 128b/130b (source: PCI Express Base Specification 3.0, section 4.2.2), and 900 ns of a
  // round trip on it (source: Neugebauer et al., Understanding PCIe performance for end host networking, SIGCOMM'18, section 2). The host
  // has one channel of DDR4-2400 (source: JESD79-4) and two units of eight multiply-accumulates at 3 GHz (assumed: a core with AVX2).
  auto rate = [&](const char *key, timing::Rate &held, uint32_t perMicrosecond) {
    if (given(key) || !machine.clockMhz)
      return;
    const uint32_t common = std::gcd(perMicrosecond, machine.clockMhz);
    held = {perMicrosecond / common, machine.clockMhz / common};
  };
  rate("host_link.bytes_per_cycle", machine.host.linkBytes, 15754);
  rate("host.bytes_per_cycle", machine.host.memoryBytes, 19200);
  rate("host.operations_per_cycle", machine.host.operations, 48000);
  if (!given("host_link.latency_cycles"))
    machine.host.linkLatencyCycles = uint32_t((uint64_t(900) * machine.clockMhz + 999) / 1000);
  // Ramulator 2.1's watermarks: more than 0.8 of 32, less than 0.2.
  if (machine.dram.kind != DramKind::Ideal && machine.dram.controller == timing::DramController::Windowed) {
    if (!given("dram.write_high_watermark_bursts"))
      machine.dram.writeHighWatermark = 26;
    if (!given("dram.write_low_watermark_bursts"))
      machine.dram.writeLowWatermark = 6;
  }
  if (machine.dram.kind == DramKind::Ideal)
    machine.dram.channels = machine.dram.ranks = machine.dram.bankGroups = machine.dram.banksPerGroup = 1;
  if (!given("dma.outstanding_bursts") && !deviceFailed && problems.empty()) {
    machine.outstandingBursts = 16;
    while (machine.outstandingBursts < timing::littlesLawBursts(machine))
      machine.outstandingBursts *= 2;
  }
}

void Loader::check() {
  auto require = [&](bool holds, const std::string &path, const std::string &message) {
    if (!holds)
      error(placeOf(path), message);
  };
  auto number = [](uint64_t value) { return std::to_string(value); };

  // Scratchpads: one unified, or activation and weight.
  bool unified = blocks.count("scratchpads.unified") || given("scratchpads.unified.capacity_bytes");
  bool activation = blocks.count("scratchpads.activation") || given("scratchpads.activation.capacity_bytes");
  bool weight = blocks.count("scratchpads.weight") || given("scratchpads.weight.capacity_bytes");
  if (unified ? activation || weight : !(activation && weight)) {
    if (!bad.count("scratchpads.unified.capacity_bytes"))
      error(placeOf("scratchpads.x"), "scratchpads must be either 'unified' "
                                      "alone or 'activation' and 'weight'");
  } else {
    for (const char *name : {"unified", "activation", "weight"}) {
      std::string block = std::string("scratchpads.") + name;
      if (blocks.count(block) && !given(block + ".capacity_bytes") && !bad.count(block + ".capacity_bytes"))
        error(blocks[block], block + ".capacity_bytes is missing; it must be " + findKey(block + ".capacity_bytes")->allowed());
    }
  }
  for (const MemoryParams &memory : machine.scratchpads) {
    std::string block = "scratchpads." + memory.name;
    std::string capacity = block + ".capacity_bytes", banks = block + ".banks";
    if (!memory.capacityBytes || bad.count(capacity) || bad.count(banks) || !sound({"array.rows", "array.cols", "array.type"}))
      continue;
    uint64_t row = uint64_t(std::max(machine.rows, machine.cols)) * timing::elementBytes(machine.arrayType);
    require(memory.bankBytes() >= row, capacity,
            capacity + " / banks is " + number(memory.bankBytes()) + " bytes but a bank must hold one row of the array, " +
                number(row) + " bytes");
  }
  if (sound({"accumulator.capacity_bytes", "accumulator.banks", "array.cols"}))
    require(machine.accumulator.bankBytes() >= machine.accumulatorRowBytes(), "accumulator.capacity_bytes",
            "accumulator.capacity_bytes / banks is " + number(machine.accumulator.bankBytes()) +
                " bytes but a bank must hold one row of 4 bytes a column, " + number(machine.accumulatorRowBytes()) + " bytes");
  if (sound({"accumulator.capacity_bytes", "array.cols"})) {
    const uint64_t most = uint64_t(isa::maximumOf(isa::Opcode::Tensor, "acc_address")) + 1;
    require(machine.accumulatorRows() <= most, "accumulator.capacity_bytes",
            "accumulator.capacity_bytes is " + number(machine.accumulator.capacityBytes) + ", " +
                number(machine.accumulatorRows()) + " rows of 4 bytes a column, but must be at most " + number(most) + " rows");
  }
  // An instruction names its banks as one 64-bit mask.
  uint32_t totalBanks = machine.accumulator.banks;
  for (const MemoryParams &memory : machine.scratchpads)
    totalBanks += memory.banks;
  require(totalBanks <= 64, "accumulator.banks",
          "the memories have " + number(totalBanks) + " banks together but a machine has at most 64");
  if (sound({"array.preload_rows_per_cycle", "array.rows"}))
    require(machine.preloadRowsPerCycle <= machine.rows, "array.preload_rows_per_cycle",
            "array.preload_rows_per_cycle is " + number(machine.preloadRowsPerCycle) + " but the array has " +
                number(machine.rows) + " rows");

  const timing::DramParams &dram = machine.dram;
  if (sound({"dram.write_buffer_bursts", "dram.write_high_watermark_bursts"}))
    require(dram.writeHighWatermark <= dram.writeBufferBursts, "dram.write_high_watermark_bursts",
            "dram.write_high_watermark_bursts is " + number(dram.writeHighWatermark) + " but the buffer holds " +
                number(dram.writeBufferBursts));
  if (sound({"dram.write_low_watermark_bursts", "dram.write_high_watermark_bursts"}))
    require(dram.writeLowWatermark < dram.writeHighWatermark, "dram.write_low_watermark_bursts",
            "dram.write_low_watermark_bursts is " + number(dram.writeLowWatermark) + " but must be below the high watermark, " +
                number(dram.writeHighWatermark));
  if (deviceFailed || bad.count("dram.kind"))
    return;
  if (sound({"dma.bursts_per_cycle", "dram.channels"}))
    require(machine.burstsPerCycle <= dram.channels, "dma.bursts_per_cycle",
            "dma.bursts_per_cycle is " + number(machine.burstsPerCycle) + " but the DRAM has " + number(dram.channels) +
                (dram.channels == 1 ? " channel" : " channels"));
  if (dram.kind == DramKind::Ideal)
    return;
  auto atMost = [&](const char *low, uint32_t lowValue, const char *high, uint32_t highValue) {
    if (sound({low, high}))
      require(lowValue <= highValue, high,
              std::string(high) + " is " + number(highValue) + " but must be at least " + low + ", " + number(lowValue));
  };
  atMost("dram.burst_ticks", dram.nBurst, "dram.ccd_short_ticks", dram.nCCDS);
  atMost("dram.ccd_short_ticks", dram.nCCDS, "dram.ccd_long_ticks", dram.nCCDL);
  atMost("dram.ccd_short_ticks", dram.nCCDS, "dram.ccd_long_write_ticks", dram.nCCDLWR);
  atMost("dram.rrd_short_ticks", dram.nRRDS, "dram.rrd_long_ticks", dram.nRRDL);
  atMost("dram.wtr_short_ticks", dram.nWTRS, "dram.wtr_long_ticks", dram.nWTRL);
  atMost("dram.rcd_read_ticks", dram.nRCDRD, "dram.ras_ticks", dram.nRAS);
  atMost("dram.rcd_write_ticks", dram.nRCDWR, "dram.ras_ticks", dram.nRAS);
  atMost("dram.burst_bytes", dram.burstBytes, "dram.row_bytes", dram.rowBytes);
  if (sound({"dram.refi_ticks", "dram.rfc_ticks", "dram.rp_all_ticks", "dram.ras_ticks"}))
    require(dram.nREFI > uint64_t(2) * (dram.nRFC + dram.nRPAB + dram.nRAS), "dram.refi_ticks",
            "dram.refi_ticks is " + number(dram.nREFI) + " but refresh would take more than half of the time");
  if (dram.refresh == timing::DramRefresh::PerBank) {
    for (const char *key : {"dram.refi_bank_ticks", "dram.rfc_bank_ticks", "dram.rfc_bank_activate_ticks"})
      require(given(key) || bad.count(key), "dram.refresh",
              std::string("dram.refresh is per_bank, but ") + key + " is missing; it must be " + findKey(key)->allowed());
    // Late refreshes must catch up, and an idle bank must be done before the next one's turn.
    if (given("dram.refi_bank_ticks") && sound({"dram.refi_bank_ticks", "dram.rfc_bank_ticks", "dram.rfc_bank_activate_ticks"}))
      require(dram.nREFIPB > std::max(dram.nRFCPB, dram.nRREFD), "dram.refi_bank_ticks",
              "dram.refi_bank_ticks is " + number(dram.nREFIPB) + " but must be more than one refresh takes, " +
                  number(std::max(dram.nRFCPB, dram.nRREFD)));
  }
  uint64_t perRow = uint64_t(dram.channels) * dram.ranks * dram.bankGroups * dram.banksPerGroup * dram.rowBytes;
  if (sound(
          {"dram.capacity_bytes", "dram.channels", "dram.ranks", "dram.bank_groups", "dram.banks_per_group", "dram.row_bytes"}))
    require(dram.capacityBytes >= perRow, "dram.capacity_bytes",
            "dram.capacity_bytes is " + number(dram.capacityBytes) + " but one row of every bank takes " + number(perRow));
}

void Loader::checkLittlesLaw(Diagnostics *warnings) {
  uint64_t needed = timing::littlesLawBursts(machine);
  if (!warnings || machine.outstandingBursts >= needed)
    return;
  Place place = placeOf("dma.outstanding_bursts");
  warnings->push_back({place.file, place.line, place.column,
                       "dma.outstanding_bursts is " + std::to_string(machine.outstandingBursts) + " but one engine needs " +
                           std::to_string(needed) +
                           " in flight to keep the DRAM busy at the latency of "
                           "a row conflict (Little's law)"});
}

Result<MachineParams> Loader::load(const std::string &text, Diagnostics *warnings) {
  YAML::Node root = parse(text, file);
  if (!root.IsMap())
    return problems;
  readBlock(root, "", {file, 1, 1}, false);
  readOverrides();
  readDevice();
  assign();
  fillDefaults();
  check();
  if (problems.empty()) {
    checkLittlesLaw(warnings);
    return machine;
  }
  // In the order a reader meets them: the machine, its device, the command line.
  auto rank = [&](const Diagnostic &problem) { return problem.file == file ? 0 : problem.file == deviceFile ? 1 : 2; };
  std::stable_sort(problems.begin(), problems.end(), [&](const Diagnostic &a, const Diagnostic &b) {
    return std::make_tuple(rank(a), a.line, a.column) < std::make_tuple(rank(b), b.line, b.column);
  });
  if (problems.size() > kMaxProblems) {
    const size_t more = problems.size() - kMaxProblems;
    problems.resize(kMaxProblems);
    problems.push_back({file, 0, 0, std::to_string(more) + " more problems"});
  }
  return problems;
}

} // namespace

Result<MachineParams> loadMachineText(const std::string &text, const std::string &file,
                                      const std::vector<std::string> &overrides, Diagnostics *warnings,
                                      std::string *technology) {
  try {
    Loader loader(file, overrides);
    Result<MachineParams> machine = loader.load(text, warnings);
    if (technology)
      *technology = loader.technology();
    return machine;
  } catch (const YAML::Exception &exception) {
    return Diagnostic{file, unsigned(exception.mark.line + 1), unsigned(exception.mark.column + 1),
                      "not YAML: " + exception.msg};
  }
}

Result<MachineParams> loadMachine(const std::string &machine, const std::vector<std::string> &overrides, Diagnostics *warnings,
                                  std::string *technology) {
  std::string path = machine;
  if (!isFile(path) && machine.find('/') == std::string::npos && fs::path(machine).extension() != ".yaml") {
    std::vector<std::string> names;
    for (const ShippedMachine &shipped : shippedMachines()) {
      if (shipped.name == machine)
        path = shipped.path;
      names.push_back(shipped.name);
    }
    if (path == machine && !isFile(path)) {
      std::string guess = nearest(machine, names);
      std::string message = "no such file, and no machine in";
      for (const std::string &folder : machineFolders())
        message += " '" + folder + "'";
      message += names.empty() ? ", which holds none" : "; there are:";
      for (const std::string &name : names)
        message += (name == names.front() ? " " : ", ") + name;
      return Diagnostic{machine, 0, 0, message + (guess.empty() ? "" : "; the nearest is '" + guess + "'")};
    }
  }
  Result<std::string> text = files::readFile(path, kMostMachineBytes);
  if (!text)
    return text.diagnostics();
  return loadMachineText(*text, path, overrides, warnings, technology);
}

Result<MachineParams> loadDevice(const std::string &device, const std::vector<std::string> &overrides) {
  Diagnostics problems;
  for (const std::string &text : overrides)
    if (text.compare(0, 5, "dram.") != 0 || text.compare(0, 12, "dram.device=") == 0)
      problems.push_back({"--set " + text, 0, 0, "must be a key of the DRAM, which begin with 'dram.', other than its device"});
  if (!problems.empty())
    return problems;
  const std::string chosen = "dram.device=" + device;
  std::vector<std::string> all{chosen};
  all.insert(all.end(), overrides.begin(), overrides.end());
  // The smallest machine round a DRAM.
  Result<MachineParams> machine = loadMachineText("name: dram\nclock_mhz: {value: 1000, assumed: any}\n"
                                                  "array: {assumed: any, type: int8, rows: 1, cols: 1}\n"
                                                  "scratchpads: {unified: {assumed: any, capacity_bytes: 1024}}\n"
                                                  "accumulator: {assumed: any, capacity_bytes: 1024}\n"
                                                  "dram: {device: ideal}\n",
                                                  "", all);
  if (!machine) {
    problems = machine.diagnostics();
    for (Diagnostic &problem : problems)
      if (problem.file == "--set " + chosen)
        problem.file = "--device " + device;
    return problems;
  }
  if (machine->dram.kind != DramKind::Ideal)
    machine->clockMhz = machine->dram.clockMhz;
  // The device has a name of its own in reports.
  const std::string said = machine->overrides;
  const size_t begin = said.find(chosen);
  const size_t end = begin + chosen.size();
  machine->overrides =
      said.substr(0, begin) + said.substr(std::min(said.size(), said.compare(end, 2, ", ") == 0 ? end + 2 : end));
  return machine;
}

std::vector<std::string> machineFolders() {
  std::vector<std::string> folders;
  if (const char *environment = std::getenv("TILEWRIGHT_HW")) {
    std::stringstream list(environment);
    for (std::string folder; std::getline(list, folder, ':');)
      if (!folder.empty())
        folders.push_back(folder);
  }
  folders.push_back((fs::path(files::shareFolder()) / "hw-configs").string());
  return folders;
}

std::vector<ShippedMachine> shippedMachines() {
  std::map<std::string, ShippedMachine> machines;
  for (const std::string &folder : machineFolders())
    for (const std::string &name : yamlNames(folder))
      machines.insert({name, {name, (fs::path(folder) / (name + ".yaml")).string()}});
  std::vector<ShippedMachine> list;
  for (auto &[name, shipped] : machines)
    list.push_back(shipped);
  return list;
}

const char *typeName(timing::ArrayType type) { return findKey("array.type")->choices[size_t(type)].c_str(); }

namespace {

std::string bytesText(uint64_t bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  unsigned unit = 0;
  while (unit < 4 && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + " " + units[unit];
}

std::string printed(const char *format, double number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

} // namespace

std::vector<std::pair<std::string, std::string>> parametersOf(const MachineParams &machine) {
  const bool isIdeal = machine.dram.kind == timing::DramKind::Ideal;
  std::vector<std::pair<std::string, std::string>> parameters;
  for (const Key &key : schema()) {
    if (!key.read || key.scope == (isIdeal ? DramScope::Timed : DramScope::Ideal))
      continue;
    const std::optional<Value> value = key.read(machine);
    // What an optional key leaves out, such as refreshes per bank, is 0 and no value of the key.
    if (value && (key.kind != ValueKind::Integer || value->integer >= key.minimum))
      parameters.push_back({key.path, key.spell(*value)});
  }
  return parameters;
}

std::string describe(const MachineParams &machine) {
  std::ostringstream out;
  auto number = [](uint64_t value) { return std::to_string(value); };
  auto line = [&](const std::string &label, const std::string &text) {
    out << "  " << label << std::string(label.size() < 14 ? 14 - label.size() : 1, ' ') << text << "\n";
  };
  double clockHz = machine.clockMhz * 1e6;
  out << machine.title() << "\n";
  line("clock", number(machine.clockMhz) + " MHz");
  line("array", number(machine.rows) + " x " + number(machine.cols) + " " + typeName(machine.arrayType) + ", " +
                    number(machine.preloadRowsPerCycle) + " weight rows/cycle; peak " +
                    printed("%.1f", 2 * machine.peakMacsPerCycle() * clockHz / 1e9) + " GOP/s");
  line("vector", number(machine.lanes) + " lanes, " + number(machine.vectorStages) + " stages");
  for (const MemoryParams &memory : machine.scratchpads)
    line(memory.name,
         bytesText(memory.capacityBytes) + ", " + number(memory.banks) + " banks of " + bytesText(memory.bankBytes()));
  line("accumulator", bytesText(machine.accumulator.capacityBytes) + ", " + number(machine.accumulator.banks) + " banks, " +
                          number(machine.accumulatorRows()) + " rows");
  line("dma", number(machine.loadEngines) + " load, " + number(machine.storeEngines) + " store, " +
                  number(machine.outstandingBursts) + " bursts in flight, " + number(machine.burstsPerCycle) + " bursts/cycle");
  line("control", "queues of " + number(machine.queueDepth) + ", loop buffer of " + number(machine.loopBufferWords) +
                      " words, " + number(machine.semaphores) + " semaphores up to " + number(machine.semaphoreMax));
  const timing::DramParams &dram = machine.dram;
  timing::Ratio rate = timing::dramPeakBytesPerCycle(machine);
  double bytesPerCycle = double(rate.numerator) / double(rate.denominator);
  std::string memory = dram.device + ", " + bytesText(dram.capacityBytes) + ", peak " + printed("%.2f", bytesPerCycle) +
                       " bytes/cycle = " + printed("%.2f", bytesPerCycle * clockHz / 1e9) + " GB/s";
  line("dram", memory);
  if (dram.kind == DramKind::Ideal) {
    line("", number(dram.latencyCycles) + " cycles latency");
  } else {
    line("", number(dram.channels) + " channels x " + number(dram.ranks) + " ranks x " + number(dram.bankGroups) +
                 " bank groups x " + number(dram.banksPerGroup) + " banks, " + number(dram.clockMhz) + " MHz");
    line("", std::string(dram.controller == timing::DramController::InOrder ? "in-order" : "windowed") +
                 " controller, window of " + number(dram.window));
  }
  const timing::HostParams &host = machine.host;
  line("host link", printed("%.2f", host.linkBytes.perCycle()) +
                        " bytes/cycle = " + printed("%.2f", host.linkBytes.perCycle() * clockHz / 1e9) + " GB/s, " +
                        number(host.linkLatencyCycles) + " cycles latency (for estimates)");
  line("host", "memory " + printed("%.2f", host.memoryBytes.perCycle()) +
                   " bytes/cycle = " + printed("%.2f", host.memoryBytes.perCycle() * clockHz / 1e9) + " GB/s, " +
                   printed("%.2f", host.operations.perCycle()) + " operations/cycle (for estimates)");
  char digests[80];
  std::snprintf(digests, sizeof digests, "architectural %016llx, timing %016llx",
                static_cast<unsigned long long>(timing::architecturalDigest(machine)),
                static_cast<unsigned long long>(timing::timingDigest(machine)));
  line("digests", digests);
  return out.str();
}

} // namespace tw::hwconfigs
