//===- Signals.h - Parts of the family of signal operators ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_OPERATORS_SIGNALS_H
#define COMPILER_OPERATORS_SIGNALS_H

#include "compiler/operators/Operator.h"

namespace tw::operators {

void addRandom(Table &table);  ///< RandomNormal, RandomUniform, Bernoulli, Multinomial
void addStrings(Table &table); ///< StringConcat, StringSplit, StringNormalizer, RegexFullMatch, TfIdfVectorizer

/// The element type that an integer attribute names; `fallback` without it.
ElementKind kindAttr(const Call &call, const char *name, ElementKind fallback);

} // namespace tw::operators

#endif // COMPILER_OPERATORS_SIGNALS_H
