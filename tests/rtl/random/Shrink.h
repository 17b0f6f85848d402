//===- Shrink.h - The smallest program that still fails ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_RTL_RANDOM_SHRINK_H
#define TESTS_RTL_RANDOM_SHRINK_H

#include "isa/Program.h"

#include <functional>

namespace tw::programs {

/// Delta debugging: drops instructions in ever smaller groups, opens loops and lowers their counts, makes fields 0, 1 or
/// smaller, and drops data, as long as `fails` holds. `program` must fail. At most `tries` candidates are asked about. A
/// candidate may be illegal, deadlock or race: `fails` must say false to what is no failure. isa::disassemble() prints the
/// result.
isa::Program shrink(const isa::Program &program, const std::function<bool(const isa::Program &)> &fails, unsigned tries = 5000);

} // namespace tw::programs

#endif // TESTS_RTL_RANDOM_SHRINK_H
