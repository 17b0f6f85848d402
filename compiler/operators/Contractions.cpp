//===- Contractions.cpp - Operators ---------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Widened.h"
#include "compiler/operators/Operator.h"

using namespace tw;
using namespace tw::operators;

void operators::addContractions(Table &table) { (void)table; }
