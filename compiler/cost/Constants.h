//===- Constants.h - The estimated numbers of the cost model -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers by which estimates and choices go and that follow from nothing else, as
// cost::k<name>. Limits of searches and what rounding may cost are not here.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_COST_CONSTANTS_H
#define COMPILER_COST_CONSTANTS_H

#ifdef TILEWRIGHT_VARIABLE_CONSTANTS
#include <cstdlib>
#include <cstring>
#endif

namespace tw::cost {

#ifdef TILEWRIGHT_VARIABLE_CONSTANTS
/// A build for scripts/measure-constants.py: TILEWRIGHT_CONSTANTS="NAME=VALUE NAME=VALUE" changes some.
inline double variableConstant(const char *name, double value) {
  const char *changed = std::getenv("TILEWRIGHT_CONSTANTS");
  const size_t length = std::strlen(name);
  for (const char *at = changed; at && *at; at = std::strchr(at, ' ')) {
    at += *at == ' ';
    if (!std::strncmp(at, name, length) && at[length] == '=')
      return std::atof(at + length + 1);
  }
  return value;
}
#define COST_CONSTANT(name, value, unit, meaning, measuredBy) inline const double k##name = variableConstant(#name, value);
#else
#define COST_CONSTANT(name, value, unit, meaning, measuredBy) inline constexpr double k##name = value;
#endif
#include "compiler/cost/Constants.def"

} // namespace tw::cost

#endif // COMPILER_COST_CONSTANTS_H
