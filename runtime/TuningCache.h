//===- TuningCache.h - What searches have measured, in a folder -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One file for each problem, machine (both digests) and version of the code; the
// model's file name is no part of it. Files are replaced as a whole, so a search
// that is killed leaves the last state behind.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_TUNINGCACHE_H
#define RUNTIME_TUNINGCACHE_H

#include "compiler/pipeline/search/Search.h"
#include "isa/timing/MachineParams.h"
#include "runtime/Status.h"

/// SHA-256 of the sources of instruction set, compiler and simulator; made by the build.
extern const char *const kCodeDigest;

namespace tw::runtime {

class TuningCache : public pipeline::SearchCache {
public:
  /// Makes the folder if it is not there. A folder that cannot be one is the user's error.
  static StatusOr<std::unique_ptr<TuningCache>> open(const std::string &folder, const timing::MachineParams &machine);

  llvm::Expected<pipeline::SearchRecord> load(const std::string &problem) override;
  llvm::Error save(const std::string &problem, const pipeline::SearchRecord &record) override;

  /// Which files were not used, and why: damaged ones, and those that their contents say belong elsewhere.
  const std::vector<std::string> &notes() const { return messages; }

private:
  TuningCache(const std::string &folder, const timing::MachineParams &machine) : folder(folder), machine(machine) {}
  std::string headOf(const std::string &problem) const;
  std::string pathOf(const std::string &problem) const;

  std::string folder;
  const timing::MachineParams &machine;
  std::vector<std::string> messages;
};

} // namespace tw::runtime

#endif // RUNTIME_TUNINGCACHE_H
