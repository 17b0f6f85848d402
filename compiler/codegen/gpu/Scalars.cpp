//===- Scalars.cpp - Arithmetic on numbers, as LLVM IR --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/Scalars.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"
#include <cmath>

using namespace tw;
using namespace tw::gpu;
using llvm::Intrinsic::ID;

std::optional<Element> gpu::elementOf(mlir::Type type) {
  if (type.isF32())
    return Element::F32;
  if (type.isBF16())
    return Element::Bf16;
  if (type.isF16())
    return Element::F16;
  if (type.isF64())
    return Element::F64;
  if (type.isInteger(1))
    return Element::Bool;
  if (type.isInteger(8))
    return Element::I8;
  if (type.isInteger(16))
    return Element::I16;
  if (type.isInteger(32))
    return Element::I32;
  if (type.isInteger(64))
    return Element::I64;
  return std::nullopt;
}

llvm::Type *gpu::scalarType(llvm::IRBuilder<> &b, mlir::Type type) {
  if (type.isF32())
    return b.getFloatTy();
  if (type.isBF16())
    return b.getBFloatTy();
  if (type.isF16())
    return b.getHalfTy();
  if (type.isF64())
    return b.getDoubleTy();
  if (type.isIndex())
    return b.getInt32Ty();
  return b.getIntNTy(type.getIntOrFloatBitWidth());
}

namespace {

using llvm::Value;

/// Functions of float by what the GPU approximates.
class Functions {
public:
  explicit Functions(llvm::IRBuilder<> &b) : b(b) {}

  Value *number(double value) { return llvm::ConstantFP::get(b.getFloatTy(), value); }
  Value *fma(Value *x, Value *y, Value *z) { return b.CreateIntrinsic(b.getFloatTy(), llvm::Intrinsic::fma, {x, y, z}); }
  Value *unary(ID id, Value *x) { return b.CreateIntrinsic(x->getType(), id, {x}); }
  Value *ex2(Value *x) { return b.CreateIntrinsic(b.getFloatTy(), llvm::Intrinsic::nvvm_ex2_approx_ftz_f, {x}); }

  /// 2^n * 2^f with n whole and |f| at most a half: each factor is good to 2^-22, and x * log2(e) loses nothing.
  Value *exp(Value *x) {
    // Beyond, the result is infinite or zero whatever x is; a difference of infinities would be none.
    Value *bounded =
        b.CreateIntrinsic(b.getFloatTy(), llvm::Intrinsic::minimum,
                          {b.CreateIntrinsic(b.getFloatTy(), llvm::Intrinsic::maximum, {x, number(-110)}), number(90)});
    Value *whole = unary(llvm::Intrinsic::rint, b.CreateFMul(bounded, number(1.4426950408889634)));
    Value *rest = fma(whole, number(-0.693359375), bounded);
    rest = fma(whole, number(2.12194440e-4), rest);
    return b.CreateFMul(ex2(whole), ex2(b.CreateFMul(rest, number(1.4426950408889634))));
  }

  /// exp where an error of 2^-22 * |x| does not matter.
  Value *roughExp(Value *x) { return ex2(b.CreateFMul(x, number(1.4426950408889634))); }
  /// 1 / x within a unit in the last place.
  Value *reciprocal(Value *x) { return b.CreateIntrinsic(b.getFloatTy(), llvm::Intrinsic::nvvm_rcp_approx_ftz_f, {x}); }

  /// 1 - 2 / (exp(2x) + 1), and near 0, where that cancels, the series.
  Value *tanh(Value *x) {
    Value *large = b.CreateFSub(
        number(1), b.CreateFMul(number(2), reciprocal(b.CreateFAdd(roughExp(b.CreateFMul(x, number(2))), number(1)))));
    Value *square = b.CreateFMul(x, x);
    Value *series = number(62.0 / 2835);
    for (double factor : {-17.0 / 315, 2.0 / 15, -1.0 / 3, 1.0})
      series = fma(series, square, number(factor));
    Value *isSmall = b.CreateFCmpOLT(unary(llvm::Intrinsic::fabs, x), number(0.125));
    return b.CreateSelect(isSmall, b.CreateFMul(x, series), large);
  }

  /// Abramowitz and Stegun 7.1.26: within 1.5e-7.
  Value *erf(Value *x) {
    Value *magnitude = unary(llvm::Intrinsic::fabs, x);
    Value *t = reciprocal(fma(magnitude, number(0.3275911), number(1)));
    Value *series = number(1.061405429);
    for (double factor : {-1.453152027, 1.421413741, -0.284496736, 0.254829592})
      series = fma(series, t, number(factor));
    Value *tail = b.CreateFMul(b.CreateFMul(series, t), roughExp(b.CreateFNeg(b.CreateFMul(magnitude, magnitude))));
    Value *result = b.CreateFSub(number(1), tail);
    return b.CreateIntrinsic(b.getFloatTy(), llvm::Intrinsic::copysign, {result, x});
  }

private:
  llvm::IRBuilder<> &b;
};

llvm::CmpInst::Predicate predicateOf(mlir::arith::CmpFPredicate predicate) {
  using P = mlir::arith::CmpFPredicate;
  using L = llvm::CmpInst;
  switch (predicate) {
  case P::AlwaysFalse:
    return L::FCMP_FALSE;
  case P::OEQ:
    return L::FCMP_OEQ;
  case P::OGT:
    return L::FCMP_OGT;
  case P::OGE:
    return L::FCMP_OGE;
  case P::OLT:
    return L::FCMP_OLT;
  case P::OLE:
    return L::FCMP_OLE;
  case P::ONE:
    return L::FCMP_ONE;
  case P::ORD:
    return L::FCMP_ORD;
  case P::UEQ:
    return L::FCMP_UEQ;
  case P::UGT:
    return L::FCMP_UGT;
  case P::UGE:
    return L::FCMP_UGE;
  case P::ULT:
    return L::FCMP_ULT;
  case P::ULE:
    return L::FCMP_ULE;
  case P::UNE:
    return L::FCMP_UNE;
  case P::UNO:
    return L::FCMP_UNO;
  case P::AlwaysTrue:
    return L::FCMP_TRUE;
  }
  llvm_unreachable("a predicate");
}

llvm::CmpInst::Predicate predicateOf(mlir::arith::CmpIPredicate predicate) {
  using P = mlir::arith::CmpIPredicate;
  using L = llvm::CmpInst;
  switch (predicate) {
  case P::eq:
    return L::ICMP_EQ;
  case P::ne:
    return L::ICMP_NE;
  case P::slt:
    return L::ICMP_SLT;
  case P::sle:
    return L::ICMP_SLE;
  case P::sgt:
    return L::ICMP_SGT;
  case P::sge:
    return L::ICMP_SGE;
  case P::ult:
    return L::ICMP_ULT;
  case P::ule:
    return L::ICMP_ULE;
  case P::ugt:
    return L::ICMP_UGT;
  case P::uge:
    return L::ICMP_UGE;
  }
  llvm_unreachable("a predicate");
}

} // namespace

Value *gpu::emitScalar(llvm::IRBuilder<> &b, mlir::Operation *op, llvm::ArrayRef<Value *> x) {
  namespace arith = mlir::arith;
  namespace math = mlir::math;
  Functions functions(b);
  mlir::Type type = op->getResult(0).getType();
  llvm::Type *to = type.isIntOrIndexOrFloat() ? scalarType(b, type) : nullptr;
  if (!to)
    return nullptr;
  auto intrinsic = [&](ID id) { return b.CreateIntrinsic(to, id, x); };
  const bool isFloat = to->isFloatTy();
  return llvm::TypeSwitch<mlir::Operation *, Value *>(op)
      .Case([&](arith::ConstantOp constant) -> Value * {
        if (auto number = llvm::dyn_cast<mlir::FloatAttr>(constant.getValue()))
          return llvm::ConstantFP::get(to, number.getValue());
        return llvm::ConstantInt::get(
            to, llvm::cast<mlir::IntegerAttr>(constant.getValue()).getValue().sextOrTrunc(to->getIntegerBitWidth()));
      })
      .Case([&](arith::AddFOp) { return b.CreateFAdd(x[0], x[1]); })
      .Case([&](arith::SubFOp) { return b.CreateFSub(x[0], x[1]); })
      .Case([&](arith::MulFOp) { return b.CreateFMul(x[0], x[1]); })
      .Case([&](arith::DivFOp) { return b.CreateFDiv(x[0], x[1]); })
      .Case([&](arith::NegFOp) { return b.CreateFNeg(x[0]); })
      .Case([&](arith::MaximumFOp) { return intrinsic(llvm::Intrinsic::maximum); })
      .Case([&](arith::MinimumFOp) { return intrinsic(llvm::Intrinsic::minimum); })
      .Case([&](arith::MaxNumFOp) { return intrinsic(llvm::Intrinsic::maxnum); })
      .Case([&](arith::MinNumFOp) { return intrinsic(llvm::Intrinsic::minnum); })
      .Case([&](arith::AddIOp) { return b.CreateAdd(x[0], x[1]); })
      .Case([&](arith::SubIOp) { return b.CreateSub(x[0], x[1]); })
      .Case([&](arith::MulIOp) { return b.CreateMul(x[0], x[1]); })
      .Case([&](arith::DivSIOp) { return b.CreateSDiv(x[0], x[1]); })
      .Case([&](arith::DivUIOp) { return b.CreateUDiv(x[0], x[1]); })
      .Case([&](arith::RemSIOp) { return b.CreateSRem(x[0], x[1]); })
      .Case([&](arith::AndIOp) { return b.CreateAnd(x[0], x[1]); })
      .Case([&](arith::OrIOp) { return b.CreateOr(x[0], x[1]); })
      .Case([&](arith::XOrIOp) { return b.CreateXor(x[0], x[1]); })
      .Case([&](arith::ShLIOp) { return b.CreateShl(x[0], x[1]); })
      .Case([&](arith::ShRUIOp) { return b.CreateLShr(x[0], x[1]); })
      .Case([&](arith::ShRSIOp) { return b.CreateAShr(x[0], x[1]); })
      .Case([&](arith::MaxSIOp) { return intrinsic(llvm::Intrinsic::smax); })
      .Case([&](arith::MinSIOp) { return intrinsic(llvm::Intrinsic::smin); })
      .Case([&](arith::MaxUIOp) { return intrinsic(llvm::Intrinsic::umax); })
      .Case([&](arith::MinUIOp) { return intrinsic(llvm::Intrinsic::umin); })
      .Case([&](arith::ExtSIOp) { return b.CreateSExt(x[0], to); })
      .Case([&](arith::ExtUIOp) { return b.CreateZExt(x[0], to); })
      .Case([&](arith::TruncIOp) { return b.CreateTrunc(x[0], to); })
      .Case([&](arith::IndexCastOp) { return b.CreateSExtOrTrunc(x[0], to); })
      .Case([&](arith::BitcastOp) { return b.CreateBitCast(x[0], to); })
      .Case([&](arith::SIToFPOp) { return b.CreateSIToFP(x[0], to); })
      .Case([&](arith::UIToFPOp) { return b.CreateUIToFP(x[0], to); })
      .Case([&](arith::FPToSIOp) { return b.CreateFPToSI(x[0], to); })
      .Case([&](arith::FPToUIOp) { return b.CreateFPToUI(x[0], to); })
      .Case([&](arith::ExtFOp) { return b.CreateFPExt(x[0], to); })
      .Case([&](arith::TruncFOp) { return b.CreateFPTrunc(x[0], to); })
      .Case([&](arith::CmpFOp compare) { return b.CreateFCmp(predicateOf(compare.getPredicate()), x[0], x[1]); })
      .Case([&](arith::CmpIOp compare) { return b.CreateICmp(predicateOf(compare.getPredicate()), x[0], x[1]); })
      .Case([&](arith::SelectOp) { return b.CreateSelect(x[0], x[1], x[2]); })
      .Case([&](math::FmaOp) { return intrinsic(llvm::Intrinsic::fma); })
      .Case([&](math::SqrtOp) { return intrinsic(llvm::Intrinsic::sqrt); })
      .Case([&](math::AbsFOp) { return intrinsic(llvm::Intrinsic::fabs); })
      .Case([&](math::FloorOp) { return intrinsic(llvm::Intrinsic::floor); })
      .Case([&](math::CeilOp) { return intrinsic(llvm::Intrinsic::ceil); })
      .Case([&](math::RoundEvenOp) { return intrinsic(llvm::Intrinsic::rint); })
      .Case([&](math::ExpOp) { return isFloat ? functions.exp(x[0]) : nullptr; })
      .Case([&](math::TanhOp) { return isFloat ? functions.tanh(x[0]) : nullptr; })
      .Case([&](math::ErfOp) { return isFloat ? functions.erf(x[0]) : nullptr; })
      .Default([](mlir::Operation *) { return nullptr; });
}

bool gpu::hasScalarForm(mlir::Operation *op) {
  llvm::LLVMContext context;
  llvm::Module module("probe", context);
  llvm::IRBuilder<> b(context);
  auto scalar = [](mlir::Type type) { return type.isIntOrIndexOrFloat(); };
  if (op->getNumResults() != 1 || !llvm::all_of(op->getOperandTypes(), scalar) || !llvm::all_of(op->getResultTypes(), scalar))
    return false;
  auto *function =
      llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), false), llvm::GlobalValue::ExternalLinkage, "f", module);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "", function));
  llvm::SmallVector<Value *> operands;
  for (mlir::Type type : op->getOperandTypes())
    operands.push_back(llvm::UndefValue::get(scalarType(b, type)));
  return emitScalar(b, op, operands) != nullptr;
}
