//===- ReportRules.h - What every report must fulfil ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules look at the published document and share nothing with the code that
// makes it. docs/profile.md states them. Tests apply them to every report that
// they make: a session does so where TILEWRIGHT_CHECK_REPORTS is set.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_REPORTRULES_H
#define RUNTIME_REPORTRULES_H

#include <string>
#include <vector>

namespace tw::runtime {

/// The rules that `report`, a document of toJson(RunReport), violates, each with its row and its numbers; none: it is sound.
std::vector<std::string> contradictions(const std::string &report);

} // namespace tw::runtime

#endif // RUNTIME_REPORTRULES_H
