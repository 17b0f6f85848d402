//===- EnergyText.h - Energy and area in reports ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_ENERGYTEXT_H
#define RUNTIME_ENERGYTEXT_H

#include "runtime/energy/EnergyModel.h"

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tw::runtime {

struct RunReport;

/// The table of `run`: the components that take most, average power, energy of a MAC, area. Precondition: report.energy.
std::string energyTable(const RunReport &report);

/// Objects `energy` and `area` of JSON reports (docs/energy.md). Precondition: report.energy.
nlohmann::ordered_json energyJson(const RunReport &report);
nlohmann::ordered_json areaJson(const energy::EnergyReport &energy);

/// Lines of the area by component, for people.
std::string areaText(const energy::Areas &areas, const std::string &technology);

} // namespace tw::runtime

#endif // RUNTIME_ENERGYTEXT_H
