//===- TestTechnology.h - A technology of round numbers ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_UNIT_ENERGY_TESTTECHNOLOGY_H
#define TESTS_UNIT_ENERGY_TESTTECHNOLOGY_H

#include "hw-configs/Technology.h"

namespace tw::test {

/// Picojoules that tell components apart; one square millimetre leaks a milliwatt.
inline hwconfigs::Technology roundTechnology() {
  hwconfigs::Technology technology;
  technology.name = "round";
  technology.int8MultiplyPj = 2;
  technology.int32AddPj = 1;
  technology.fp32AddPj = 10;
  technology.fp32MultiplyPj = 20;
  technology.registerBitPj = 0.125;
  technology.sram8KibPj = 4;
  technology.sram32KibPj = 8;
  technology.sram1MibPj = 256;
  technology.dramAccessPj = 1000;
  technology.gateUm2 = 1;
  technology.flipFlopGates = 4;
  technology.sramBitUm2 = 1;
  technology.romBitUm2 = 0.5;
  technology.logicLeakageMwPerMm2 = technology.sramLeakageMwPerMm2 = 1;
  technology.logic.peInt8Gates = 1000;
  technology.logic.peInt8FlipFlops = 10;
  return technology;
}

} // namespace tw::test

#endif // TESTS_UNIT_ENERGY_TESTTECHNOLOGY_H
