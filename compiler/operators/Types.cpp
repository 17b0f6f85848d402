//===- Types.cpp - Operators ---------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Elements.h"
#include "compiler/operators/Operator.h"

using namespace tw;
using namespace tw::operators;

void operators::addTypes(Table &table) { (void)table; }
