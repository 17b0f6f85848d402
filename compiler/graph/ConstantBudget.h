//===- ConstantBudget.h - How much may be made of constants -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model of a hundred bytes can ask for any amount of constants. Whoever makes
// some at compile time asks here before.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_CONSTANTBUDGET_H
#define COMPILER_GRAPH_CONSTANTBUDGET_H

#include <cstdint>
#include <optional>
#include <string>

namespace tw::graph {

/// Bytes of constants unless --max-constant-bytes says otherwise.
inline constexpr uint64_t kMaxConstantBytes = uint64_t(1) << 31;

class ConstantBudget {
public:
  explicit ConstantBudget(uint64_t most) : most(most) {}

  /// What is wrong with constants of `made` bytes more, computed from constants of `read` bytes: what was found and what is allowed.
  std::optional<std::string> check(uint64_t made, uint64_t read = 0) const {
    auto tooMuch = [&](const std::string &what, uint64_t bytes, uint64_t before, uint64_t limit) {
      return what + " " + std::to_string(bytes) + " bytes, beside " + std::to_string(before) + " before it; at most " +
             std::to_string(limit) + " are allowed (--max-constant-bytes)";
    };
    if (made > most - bytesMade)
      return tooMuch("its constants take", made, bytesMade, most);
    // A small result may need all of a large operand, again and again.
    const uint64_t mostRead = most > UINT64_MAX / 4 ? UINT64_MAX : 4 * most;
    if (read > mostRead - bytesRead)
      return tooMuch("its constants are computed from", read, bytesRead, mostRead);
    return std::nullopt;
  }

  /// Counts them, if nothing is wrong.
  std::optional<std::string> add(uint64_t made, uint64_t read = 0) {
    std::optional<std::string> problem = check(made, read);
    bytesMade += problem ? 0 : made;
    bytesRead += problem ? 0 : read;
    return problem;
  }

  /// Whether so many elementary steps may be taken at compile time; what may not is left to the run time.
  bool takeSteps(uint64_t steps) {
    if (steps > kMostSteps - stepsTaken)
      return false;
    stepsTaken += steps;
    return true;
  }

private:
  /// Some seconds.
  static constexpr uint64_t kMostSteps = uint64_t(1) << 31;
  uint64_t most, bytesMade = 0, bytesRead = 0, stepsTaken = 0;
};

} // namespace tw::graph

#endif // COMPILER_GRAPH_CONSTANTBUDGET_H
