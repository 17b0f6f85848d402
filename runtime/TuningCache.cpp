//===- TuningCache.cpp - What searches have measured, in a folder ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/TuningCache.h"
#include "isa/files/InputFile.h"
#include "isa/timing/Digest.h"
#include "runtime/Files.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/SHA256.h"

#include <filesystem>

using namespace tw;
using namespace tw::runtime;

// A file is
//   tilewright search record 2
//   code DIGEST
//   machine ARCHITECTURE TIMING
//   problem DIGEST
//   budget PROGRAMS
//   program CYCLES DIGEST ; NUMBER NUMBER ... ; LAYER-CYCLES LAYER-CYCLES ...   or   failed WHY ; NUMBER NUMBER ...
//   end SHA-256 of all lines before
static constexpr const char *kFormat = "tilewright search record 2\n";

static std::string sha256(llvm::StringRef text) {
  return llvm::toHex(llvm::SHA256::hash(llvm::arrayRefFromStringRef(text)), true);
}

StatusOr<std::unique_ptr<TuningCache>> TuningCache::open(const std::string &folder, const timing::MachineParams &machine) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (!std::filesystem::is_directory(folder, failure))
    return userError("cannot use cache '" + folder + "': it must be a folder, or a name for a new one");
  return std::unique_ptr<TuningCache>(new TuningCache(folder, machine));
}

/// What makes two searches the same.
std::string TuningCache::headOf(const std::string &problem) const {
  return llvm::formatv("{0}code {1}\nmachine {2:x16} {3:x16}\nproblem {4}\n", kFormat, kCodeDigest,
                       timing::architecturalDigest(machine), timing::timingDigest(machine), problem);
}

std::string TuningCache::pathOf(const std::string &problem) const {
  return folder + "/" + sha256(headOf(problem)).substr(0, 32) + ".search";
}

llvm::Error TuningCache::save(const std::string &problem, const pipeline::SearchRecord &record) {
  std::string text = headOf(problem);
  llvm::raw_string_ostream stream(text);
  stream << "budget " << record.budget << "\n";
  for (const auto &[point, measurement] : record.measured) {
    if (measurement.failure.empty())
      stream << "program " << measurement.cycles << ' ' << measurement.program;
    else
      stream << "failed " << llvm::StringRef(measurement.failure).split('\n').first;
    stream << " ; ";
    llvm::interleave(point.numbers(), stream, " ");
    stream << " ; ";
    llvm::interleave(measurement.layerCycles, stream, " ");
    stream << "\n";
  }
  std::string end = "end " + sha256(text) + "\n";
  if (Status status = writeFile(pathOf(problem), text + end, Inputs::Replaced); !status)
    return llvm::createStringError("%s", status.error().message.c_str());
  return llvm::Error::success();
}

template <typename T> static bool parseNumbers(llvm::StringRef text, std::vector<T> &numbers) {
  llvm::SmallVector<llvm::StringRef> words;
  text.split(words, ' ', -1, false);
  for (llvm::StringRef word : words) {
    T number;
    if (word.getAsInteger(10, number))
      return false;
    numbers.push_back(number);
  }
  return true;
}

static bool parseLine(llvm::StringRef line, pipeline::SearchRecord &record) {
  if (line.consume_front("budget "))
    return !line.getAsInteger(10, record.budget);
  pipeline::Measurement measurement;
  auto [front, layers] = line.rsplit(" ; ");
  auto [what, choices] = front.rsplit(" ; ");
  std::vector<unsigned> numbers;
  if (what.consume_front("failed "))
    measurement.failure = what.str();
  else if (!what.consume_front("program ") || what.consumeInteger(10, measurement.cycles) || !what.consume_front(" ") ||
           what.getAsInteger(10, measurement.program))
    return false;
  if (!parseNumbers(choices, numbers) || !parseNumbers(layers, measurement.layerCycles))
    return false;
  std::optional<pipeline::SearchPoint> point = pipeline::SearchPoint::from(numbers);
  return point && record.measured.emplace(std::move(*point), std::move(measurement)).second;
}

llvm::Expected<pipeline::SearchRecord> TuningCache::load(const std::string &problem) {
  std::string path = pathOf(problem);
  std::error_code failure;
  if (!std::filesystem::exists(path, failure))
    return pipeline::SearchRecord();
  auto ignore = [&](const std::string &why) {
    messages.push_back("cache file " + path + " is ignored and will be replaced: " + why);
    return pipeline::SearchRecord();
  };
  Result<std::string> bytes = files::readFile(path);
  if (!bytes)
    return ignore(bytes.message());
  llvm::StringRef text = *bytes;
  if (!text.starts_with("tilewright search record "))
    return ignore("it is no search record");
  if (!text.starts_with(kFormat))
    return ignore("it has another format");
  size_t end = text.rfind("end ");
  if (end == llvm::StringRef::npos || text.substr(end) != "end " + sha256(text.substr(0, end)) + "\n")
    return ignore("it is damaged");
  std::string head = headOf(problem);
  if (!text.starts_with(head))
    return ignore("it is for another problem, machine or version");
  pipeline::SearchRecord record;
  llvm::SmallVector<llvm::StringRef> lines;
  text.substr(head.size(), end - head.size()).split(lines, '\n', -1, false);
  for (llvm::StringRef line : lines)
    if (!parseLine(line, record))
      return ignore("it is damaged at '" + line.take_front(60).str() + "'");
  return record;
}
