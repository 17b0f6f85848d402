//===- IntegerProduct.cpp - Sums of products of bytes ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/IntegerProduct.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tw::cpu {

static std::optional<ProductFactor> matchFactor(Value value, Block &body) {
  ProductFactor factor;
  if (auto difference = value.getDefiningOp<arith::SubIOp>()) {
    APInt zero;
    if (!matchPattern(difference.getRhs(), m_ConstantInt(&zero)) || zero.slt(-128) || zero.sgt(255))
      return std::nullopt;
    factor.zero = static_cast<int32_t>(zero.getSExtValue());
    value = difference.getLhs();
  }
  Operation *extension = value.getDefiningOp();
  if (!extension || !isa<arith::ExtSIOp, arith::ExtUIOp>(extension))
    return std::nullopt;
  factor.isSigned = isa<arith::ExtSIOp>(extension);
  auto element = dyn_cast<BlockArgument>(extension->getOperand(0));
  if (!element || element.getOwner() != &body || !element.getType().isInteger(8))
    return std::nullopt;
  factor.operand = element.getArgNumber();
  return factor;
}

std::optional<IntegerProduct> matchIntegerProduct(linalg::GenericOp op) {
  if (op.getNumDpsInputs() != 2 || op->getNumResults() != 1)
    return std::nullopt;
  Block &body = *op.getBody();
  auto sum = body.getTerminator()->getOperand(0).getDefiningOp<arith::AddIOp>();
  if (!sum || !sum.getType().isInteger(32))
    return std::nullopt;
  Value accumulator = body.getArgument(2);
  Value added = sum.getLhs() == accumulator ? sum.getRhs() : sum.getLhs();
  auto product = added.getDefiningOp<arith::MulIOp>();
  if (!product || (sum.getLhs() != accumulator && sum.getRhs() != accumulator))
    return std::nullopt;
  std::optional<ProductFactor> lhs = matchFactor(product.getLhs(), body), rhs = matchFactor(product.getRhs(), body);
  if (!lhs || !rhs || lhs->operand == rhs->operand)
    return std::nullopt;
  return IntegerProduct{{*lhs, *rhs}};
}

} // namespace tw::cpu
