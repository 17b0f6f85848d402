//===- OrderVerifier.h - Judges an order of steps ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_MEMORY_ORDERVERIFIER_H
#define COMPILER_MEMORY_ORDERVERIFIER_H

#include "compiler/memory/OrderProblem.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace tw::memory {

/// The peak of live bytes of `order`, which lists every step of `problem` once. Errors: a step that is missing, comes twice or comes before one
/// that it must follow. Shares no code with what makes orders.
llvm::Expected<uint64_t> peakOf(const OrderProblem &problem, llvm::ArrayRef<unsigned> order);

} // namespace tw::memory

#endif // COMPILER_MEMORY_ORDERVERIFIER_H
