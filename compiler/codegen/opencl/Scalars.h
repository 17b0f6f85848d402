//===- Scalars.h - Arithmetic on numbers, as OpenCL C -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// bfloat16 and float16 are floats in registers, rounded where the IR has a
// number of their type; memory holds their bits. So no device needs either type.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_OPENCL_SCALARS_H
#define COMPILER_CODEGEN_OPENCL_SCALARS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/ArrayRef.h"
#include <string>

namespace tw::opencl {

/// A number of this type in a register, and in memory: "float", "char", "ushort".
std::string scalarType(mlir::Type type);
std::string memoryType(mlir::Type type);

/// An expression of one name, number or call: it needs no parentheses.
bool isSimple(llvm::StringRef expression);
std::string inParentheses(const std::string &expression);

/// A number as C has it: "-1.5f", "INFINITY", "(char)3".
std::string literal(mlir::TypedAttr number);

/// Element `index` of memory at `pointer`.
std::string load(mlir::Type type, const std::string &pointer, const std::string &index);
/// The statement that stores it.
std::string store(mlir::Type type, const std::string &pointer, const std::string &index, const std::string &value);

/// The result of an op of arith or math on scalars, as an expression; empty for an op that has no form here.
std::string scalarExpression(mlir::Operation *op, llvm::ArrayRef<std::string> operands);

/// `text`, behind the definitions of all helper functions that it calls.
std::string withFunctions(const std::string &text);

} // namespace tw::opencl

#endif // COMPILER_CODEGEN_OPENCL_SCALARS_H
