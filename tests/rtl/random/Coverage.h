//===- Coverage.h - What random programs have met ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A bin is an instruction, its element type, a label its engine had while it
// waited or moved data, the engine or rule behind that label, and the size of
// its edge. One machine has all bins that reachable() counts; reasons() says
// why the others of the full product cannot be met.
//===----------------------------------------------------------------------===//
#ifndef TESTS_RTL_RANDOM_COVERAGE_H
#define TESTS_RTL_RANDOM_COVERAGE_H

#include "isa/Program.h"
#include "simulator/stats/SimResult.h"

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace tw::programs {

class Coverage {
public:
  explicit Coverage(const timing::MachineParams &machine);

  /// Counts a run that was made with SimOptions::trace.
  void add(const isa::Program &program, const stats::SimResult &result);
  /// Bins that some program of this machine can meet, and how many of them have been met that often.
  size_t reachable() const { return bins.size(); }
  size_t met(uint64_t times = 1) const;
  /// A row per instruction and type, a column per label with its cause; a cell is how often the rarest of its edge sizes was
  /// met.
  std::string table() const;
  /// Reachable bins that were met less often than that, one a line with its count.
  std::vector<std::string> rare(uint64_t times) const;
  /// Why a bin of the full product is not reachable.
  static std::vector<std::string> reasons();
  /// What was met although reasons() rule it out.
  const std::set<std::string> &unexpected() const { return ruledOut; }

private:
  /// Instruction, type, label with cause, edge size.
  using Bin = std::tuple<std::string, std::string, std::string, std::string>;
  void meet(const isa::Instruction &instruction, const std::string &label);
  std::string typeOf(const isa::Instruction &instruction) const;
  std::string sizeOf(const isa::Instruction &instruction) const;

  timing::MachineParams machine;
  std::map<Bin, uint64_t> bins;
  std::set<std::string> ruledOut;
  std::vector<std::string> labels; ///< in the order of the table's columns
};

} // namespace tw::programs

#endif // TESTS_RTL_RANDOM_COVERAGE_H
