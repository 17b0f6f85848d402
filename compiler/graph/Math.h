//===- Math.h - What a compiler may change of a network's numbers -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `--math`: one definition for all targets. Each value allows all that the
// values before it allow.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_MATH_H
#define COMPILER_GRAPH_MATH_H

#include <cstdint>

namespace tw::graph {

enum class Math : uint8_t {
  Strict,      ///< as Exact, but a QuantizeLinear divides by its scale with correct rounding
  Exact,       ///< bit-exact rewriting, and the folds of every importer: BatchNorm, constants, quantisation scales
  Finite,      ///< floats are finite numbers: 0 * x is 0, so a weight of zero keeps an input out of a sum
  Reassociate, ///< what is exact in real arithmetic: sums and products in another order, constants folded through linear operators
  Fast,        ///< approximations: products of floats rounded to bfloat16 (or tf32), functions by shorter polynomials
};
constexpr const char *kMathNames[] = {"strict", "exact", "finite", "reassociate", "fast"};

} // namespace tw::graph

#endif // COMPILER_GRAPH_MATH_H
