//===- Lanes.cpp - Scalar ops on scalars and vectors ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/Lanes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tw::cpu {

/// tensor.extract at loops and integers, and what makes these indices.
static bool isLookup(Operation &op) {
  auto isIndex = [](Value value) {
    auto cast = value.getDefiningOp<arith::IndexCastOp>();
    return value.getDefiningOp<linalg::IndexOp>() || (cast && cast.getIn().getType().isInteger(64));
  };
  if (auto extract = dyn_cast<tensor::ExtractOp>(op))
    return llvm::all_of(extract.getIndices(), isIndex);
  return isa<linalg::IndexOp, arith::IndexCastOp>(op) &&
         llvm::all_of(op.getUsers(), [](Operation *user) { return isa<tensor::ExtractOp>(user); });
}

bool isSupportedBody(Block &body, Operation *&offender) {
  for (Operation &op : body.without_terminator()) {
    if (isLookup(op))
      continue;
    bool known = isa<arith::ConstantOp>(op) || OpTrait::hasElementwiseMappableTraits(&op);
    auto isScalar = [](Type type) { return type.isIntOrFloat(); };
    if (!known || op.getNumRegions() || op.getNumResults() != 1 || !llvm::all_of(op.getResultTypes(), isScalar) ||
        !llvm::all_of(op.getOperandTypes(), isScalar)) {
      offender = &op;
      return false;
    }
  }
  return true;
}

Value toWidth(OpBuilder &b, Location loc, Value value, int64_t width) {
  if (width == 1 || isa<VectorType>(value.getType()))
    return value;
  return b.create<vector::BroadcastOp>(loc, VectorType::get({width}, value.getType()), value);
}

/// max(x, y) and min(x, y) that hand on a NaN, from compares and blends: one pair, which becomes a single instruction, where y is a
/// constant that is a number, else two. The general operation needs several more to tell the zeros apart, which is not done here.
static Value largerOrSmaller(OpBuilder &b, Location loc, Operation *op, Value lhs, Value rhs) {
  bool isMaximum = isa<arith::MaximumFOp>(op);
  if (!isMaximum && !isa<arith::MinimumFOp>(op))
    return {};
  auto isNumber = [](Value value) {
    FloatAttr attr;
    return matchPattern(value, m_Constant(&attr)) && !attr.getValue().isNaN();
  };
  bool left = isNumber(op->getOperand(0)), right = isNumber(op->getOperand(1));
  if (!left && !right && op->getResult(0).getType().isBF16())
    return {};
  Value bound = right ? rhs : lhs, x = right ? lhs : rhs;
  auto predicate = isMaximum ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT;
  Value beyond = b.create<arith::CmpFOp>(loc, predicate, bound, x);
  Value result = b.create<arith::SelectOp>(loc, beyond, bound, x);
  if (left || right)
    return result;
  // A NaN in the other one: a comparison with it is false.
  Value isNan = b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::UNO, bound, bound);
  return b.create<arith::SelectOp>(loc, isNan, bound, result);
}

/// Integer division that does not trap: x / 0 and x % 0 are 0, and the one quotient that does not fit wraps.
static Value divideSafely(OpBuilder &b, Operation *op, Value x, Value y) {
  bool isSigned = isa<arith::DivSIOp, arith::RemSIOp>(op), isRemainder = isa<arith::RemSIOp, arith::RemUIOp>(op);
  if (!isSigned && !isa<arith::DivUIOp, arith::RemUIOp>(op))
    return {};
  Location loc = op->getLoc();
  Type type = x.getType();
  auto constant = [&](int64_t value) -> Value {
    TypedAttr attr = b.getIntegerAttr(getElementTypeOrSelf(type), value);
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, attr);
    return b.create<arith::ConstantOp>(loc, attr);
  };
  auto equals = [&](Value value, int64_t number) -> Value {
    return b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, value, constant(number));
  };
  Value zero = constant(0), byZero = equals(y, 0);
  Value byMinusOne = isSigned ? equals(y, -1) : Value();
  Value unsafe = isSigned ? b.create<arith::OrIOp>(loc, byZero, byMinusOne).getResult() : byZero;
  Value divisor = b.create<arith::SelectOp>(loc, unsafe, constant(1), y);
  Value result = b.create(loc, op->getName().getIdentifier(), {x, divisor}, {type})->getResult(0);
  if (isRemainder)
    // Divided by 1, which leaves 0, where the divisor was not safe.
    return result;
  if (isSigned)
    result = b.create<arith::SelectOp>(loc, byMinusOne, b.create<arith::SubIOp>(loc, zero, x), result);
  return b.create<arith::SelectOp>(loc, byZero, zero, result);
}

Value applyToLanes(OpBuilder &b, Operation &op, ArrayRef<Value> scalarsOrVectors, int64_t width) {
  SmallVector<Value> operands(scalarsOrVectors);
  Location loc = op.getLoc();
  bool isVector = llvm::any_of(operands, [](Value value) { return isa<VectorType>(value.getType()); });
  if (isVector)
    for (Value &operand : operands)
      operand = toWidth(b, loc, operand, width);
  if (operands.size() == 2) {
    if (Value result = largerOrSmaller(b, loc, &op, operands[0], operands[1]))
      return result;
    if (Value quotient = divideSafely(b, &op, operands[0], operands[1]))
      return quotient;
  }
  Type type = op.getResult(0).getType();
  auto ofWidth = [&](Type scalar) -> Type { return isVector ? VectorType::get({width}, scalar) : scalar; };
  // Processors have no arithmetic on bfloat16: it is done in f32 and rounded.
  bool onBfloat = llvm::any_of(op.getOperandTypes(), [](Type operand) { return operand.isBF16(); }) &&
                  !isa<arith::ExtFOp, arith::BitcastOp, arith::SelectOp>(op);
  if (onBfloat) {
    for (auto [operand, scalar] : llvm::zip(operands, op.getOperandTypes()))
      if (scalar.isBF16())
        operand = b.create<arith::ExtFOp>(loc, ofWidth(b.getF32Type()), operand);
    Type wide = type.isBF16() ? b.getF32Type() : type;
    Value result =
        b.create(loc, op.getName().getIdentifier(), operands, {ofWidth(wide)}, op.getAttrDictionary().getValue())->getResult(0);
    return type.isBF16() ? b.create<arith::TruncFOp>(loc, ofWidth(type), result).getResult() : result;
  }
  type = ofWidth(type);
  return b.create(loc, op.getName().getIdentifier(), operands, {type}, op.getAttrDictionary().getValue())->getResult(0);
}

Value logarithm(OpBuilder &b, Location loc, Value x) {
  auto vector = dyn_cast<VectorType>(x.getType());
  auto real = [&](float value) {
    return toWidth(b, loc, b.create<arith::ConstantOp>(loc, b.getF32FloatAttr(value)), vector ? vector.getNumElements() : 1);
  };
  // The polynomial is one of normal numbers: others are scaled.
  Value zero = real(0);
  Value isSmall = b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::OLT, x, real(0x1p-126f));
  Value scaled = b.create<arith::SelectOp>(loc, isSmall, b.create<arith::MulFOp>(loc, x, real(0x1p23f)), x);
  Value shift = b.create<arith::SelectOp>(loc, isSmall, real(15.9423847f), zero); // 23 * ln 2
  return b.create<arith::SubFOp>(loc, b.create<math::LogOp>(loc, scaled), shift);
}

Value exponential(OpBuilder &b, Location loc, Value x, const CpuMachine &machine) {
  Type type = x.getType(), integers = b.getI32Type();
  auto vector = dyn_cast<VectorType>(type);
  const int64_t width = vector ? vector.getNumElements() : 1;
  if (vector)
    integers = VectorType::get(vector.getShape(), integers);
  auto splat = [&](TypedAttr attr) { return toWidth(b, loc, b.create<arith::ConstantOp>(loc, attr), width); };
  auto real = [&](float value) { return splat(b.getF32FloatAttr(value)); };
  auto integer = [&](int32_t value) { return splat(b.getI32IntegerAttr(value)); };
  auto plusProduct = [&](Value lhs, Value rhs, Value sum) -> Value {
    if (machine.hasFma)
      return b.create<math::FmaOp>(loc, lhs, rhs, sum);
    return b.create<arith::AddFOp>(loc, b.create<arith::MulFOp>(loc, lhs, rhs), sum);
  };
  // Beyond these bounds results are infinite or round to 0. Not a number stays what it is.
  Value low = real(-104), high = real(89);
  x = b.create<arith::SelectOp>(loc, b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::OGT, low, x), low, x);
  x = b.create<arith::SelectOp>(loc, b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::OLT, high, x), high, x);
  // x = n * ln 2 + r with a whole n. A number near 1.5 * 2^23 has its whole part in its lowest bits; ln 2 in two parts of which n times
  // the first is exact.
  const float magic = 12582912;
  Value shifted = plusProduct(x, real(1.44269504f), real(magic));
  Value n = b.create<arith::SubFOp>(loc, shifted, real(magic));
  Value r = plusProduct(n, real(-0.69314575f), x);
  r = plusProduct(n, real(-1.42860677e-6f), r);
  // The polynomial of degree 6 with the least relative error, 3e-9, of those that start with 1 + r.
  Value power = real(1.38145406e-3f);
  for (float coefficient : {8.36874545e-3f, 4.16683890e-2f, 1.66665211e-1f, 4.99999940e-1f, 1.0f, 1.0f})
    power = plusProduct(power, r, real(coefficient));
  if (width == 16 && machine.isX86() && machine.vectorBits == 512) {
    auto i16 = b.getIntegerType(16);
    Value all = b.create<arith::ConstantOp>(loc, b.getIntegerAttr(i16, -1));
    Value rounding = b.create<arith::ConstantOp>(loc, b.getI32IntegerAttr(4));
    return b
        .create<LLVM::CallIntrinsicOp>(loc, type, b.getStringAttr("llvm.x86.avx512.mask.scalef.ps.512"),
                                       ValueRange{power, n, power, all, rounding})
        .getResult(0);
  }
  // 2^n as two factors, each of them a normal number.
  Value exponent = b.create<arith::SubIOp>(loc, b.create<arith::BitcastOp>(loc, integers, shifted),
                                           b.create<arith::BitcastOp>(loc, integers, real(magic)));
  Value half = b.create<arith::ShRSIOp>(loc, exponent, integer(1));
  for (Value part : {half, b.create<arith::SubIOp>(loc, exponent, half).getResult()}) {
    Value bits = b.create<arith::ShLIOp>(loc, b.create<arith::AddIOp>(loc, part, integer(127)), integer(23));
    power = b.create<arith::MulFOp>(loc, power, b.create<arith::BitcastOp>(loc, type, bits));
  }
  return power;
}

/// accumulator + the sums of 4 products of bytes, by ARM's dot products.
static Value addArmProducts(OpBuilder &b, Location loc, Value accumulator, Value lhs, Value rhs, int64_t width,
                            bool mixesSigns) {
  auto type = cast<VectorType>(accumulator.getType()), bytes = VectorType::get({4 * width}, b.getI8Type());
  auto dot = [&](const char *name, Value sum, Value x, Value y) -> Value {
    std::string intrinsic = (Twine("llvm.aarch64.neon.") + name + (width == 4 ? ".v4i32.v16i8" : ".v2i32.v8i8")).str();
    return b.create<LLVM::CallIntrinsicOp>(loc, type, b.getStringAttr(intrinsic), ValueRange{sum, x, y}).getResult(0);
  };
  auto constant = [&](VectorType of, uint8_t value) -> Value {
    return b.create<arith::ConstantOp>(loc, DenseElementsAttr::get(of, APInt(of.getElementTypeBitWidth(), value)));
  };
  lhs = b.create<LLVM::BitcastOp>(loc, bytes, lhs);
  rhs = b.create<LLVM::BitcastOp>(loc, bytes, rhs);
  if (mixesSigns)
    return dot("usdot", accumulator, lhs, rhs);
  // x * y = (x - 128) * y + 2 * 64 * y, where the second part is the same for all rows of a register block.
  Value half = dot("sdot", constant(type, 0), constant(bytes, 64), rhs);
  Value shifted = b.create<arith::XOrIOp>(loc, lhs, constant(bytes, 128));
  return dot("sdot", b.create<arith::AddIOp>(loc, accumulator, b.create<arith::AddIOp>(loc, half, half)), shifted, rhs);
}

Value addProducts(OpBuilder &b, Location loc, Products products, Value accumulator, Value lhs, Value rhs, int64_t width,
                  const CpuMachine &machine) {
  accumulator = toWidth(b, loc, accumulator, width);
  lhs = toWidth(b, loc, lhs, width);
  rhs = toWidth(b, loc, rhs, width);
  Type type = accumulator.getType();
  auto intrinsic = [&](const char *name, Type result, ValueRange arguments) {
    return b.create<LLVM::CallIntrinsicOp>(loc, result, b.getStringAttr(name), arguments).getResult(0);
  };
  if (products == Products::Bytes && (width == 4 || width == 2) && !machine.isX86())
    return addArmProducts(b, loc, accumulator, lhs, rhs, width, machine.mixesSigns);
  const char *suffix = !machine.isX86() ? nullptr : width == 16 ? "512" : width == 8 ? "256" : width == 4 ? "128" : nullptr;
  if (products == Products::Bfloats) {
    if (suffix) {
      auto pairs = VectorType::get({2 * width}, b.getBF16Type());
      return intrinsic((std::string("llvm.x86.avx512bf16.dpbf16ps.") + suffix).c_str(), type,
                       {accumulator, b.create<LLVM::BitcastOp>(loc, pairs, lhs), b.create<LLVM::BitcastOp>(loc, pairs, rhs)});
    }
    // A bfloat16 is the upper half of an f32.
    auto real = [&](Value value, bool upper) -> Value {
      auto constant = [&](int32_t number) {
        return toWidth(b, loc, b.create<arith::ConstantOp>(loc, b.getI32IntegerAttr(number)), width);
      };
      Value bits = upper ? b.create<arith::AndIOp>(loc, value, constant(-65536)).getResult()
                         : b.create<arith::ShLIOp>(loc, value, constant(16));
      return b.create<arith::BitcastOp>(loc, type, bits);
    };
    for (bool upper : {false, true})
      accumulator = b.create<math::FmaOp>(loc, real(lhs, upper), real(rhs, upper), accumulator);
    return accumulator;
  }
  if (suffix && products == Products::Bytes)
    return intrinsic((std::string("llvm.x86.avx512.vpdpbusd.") + suffix).c_str(), type, {accumulator, lhs, rhs});
  if (suffix && products == Products::Words) {
    auto pairs = VectorType::get({2 * width}, b.getI16Type());
    const char *name = width == 16  ? "llvm.x86.avx512.pmaddw.d.512"
                       : width == 8 ? "llvm.x86.avx2.pmadd.wd"
                                    : "llvm.x86.sse2.pmadd.wd";
    Value sums =
        intrinsic(name, type, {b.create<LLVM::BitcastOp>(loc, pairs, lhs), b.create<LLVM::BitcastOp>(loc, pairs, rhs)});
    return b.create<arith::AddIOp>(loc, accumulator, sums);
  }
  // Narrow remainders: each part is shifted to the top and back.
  const unsigned group = products == Products::Bytes ? 4 : 2, bits = 32 / group;
  auto constant = [&](int64_t value) {
    return toWidth(b, loc, b.create<arith::ConstantOp>(loc, b.getI32IntegerAttr(static_cast<int32_t>(value))), width);
  };
  for (unsigned part = 0; part < group; ++part) {
    Value up = constant(32 - bits * (part + 1)), down = constant(32 - bits);
    Value x = b.create<arith::ShLIOp>(loc, lhs, up), y = b.create<arith::ShLIOp>(loc, rhs, up);
    x = products == Products::Bytes ? b.create<arith::ShRUIOp>(loc, x, down).getResult()
                                    : b.create<arith::ShRSIOp>(loc, x, down);
    y = b.create<arith::ShRSIOp>(loc, y, down);
    accumulator = b.create<arith::AddIOp>(loc, accumulator, b.create<arith::MulIOp>(loc, x, y));
  }
  return accumulator;
}

Value combineHalves(OpBuilder &b, Location loc, const Combiner &combiner, Value value) {
  const int64_t width = cast<VectorType>(value.getType()).getNumElements() / 2;
  if (width == 1)
    return applyToLanes(
        b, *combiner.op,
        {b.create<vector::ExtractOp>(loc, value, int64_t(0)), b.create<vector::ExtractOp>(loc, value, int64_t(1))}, 1);
  auto half = [&](int64_t first) -> Value {
    return b.create<vector::ShuffleOp>(loc, value, value, llvm::to_vector(llvm::seq<int64_t>(first, first + width)));
  };
  return applyToLanes(b, *combiner.op, {half(0), half(width)}, width);
}

std::optional<Combiner> matchCombiner(Block &body) {
  Operation *yield = body.getTerminator();
  if (yield->getNumOperands() != 1)
    return std::nullopt;
  Operation *op = yield->getOperand(0).getDefiningOp();
  Value accumulator = body.getArguments().back();
  if (!op || op->getBlock() != &body || op->getNumOperands() != 2 || !accumulator.hasOneUse() ||
      (op->getOperand(0) != accumulator && op->getOperand(1) != accumulator))
    return std::nullopt;
  using Kind = vector::CombiningKind;
  auto kind = llvm::TypeSwitch<Operation *, std::optional<Kind>>(op)
                  .Case<arith::AddFOp, arith::AddIOp>([](auto) { return Kind::ADD; })
                  .Case<arith::MulFOp, arith::MulIOp>([](auto) { return Kind::MUL; })
                  .Case([](arith::MaximumFOp) { return Kind::MAXIMUMF; })
                  .Case([](arith::MinimumFOp) { return Kind::MINIMUMF; })
                  .Case([](arith::MaxSIOp) { return Kind::MAXSI; })
                  .Case([](arith::MinSIOp) { return Kind::MINSI; })
                  .Case([](arith::MaxUIOp) { return Kind::MAXUI; })
                  .Case([](arith::MinUIOp) { return Kind::MINUI; })
                  .Default([](Operation *) { return std::nullopt; });
  if (!kind)
    return std::nullopt;
  return Combiner{op, *kind};
}

TypedAttr neutralElement(OpBuilder &b, vector::CombiningKind kind, Type type) {
  using Kind = vector::CombiningKind;
  if (auto floatType = dyn_cast<FloatType>(type)) {
    const llvm::fltSemantics &semantics = floatType.getFloatSemantics();
    switch (kind) {
    case Kind::MUL:
      return b.getFloatAttr(type, 1.0);
    case Kind::MAXIMUMF:
      return b.getFloatAttr(type, APFloat::getInf(semantics, true));
    case Kind::MINIMUMF:
      return b.getFloatAttr(type, APFloat::getInf(semantics, false));
    default:
      return b.getFloatAttr(type, 0.0);
    }
  }
  unsigned bits = type.getIntOrFloatBitWidth();
  switch (kind) {
  case Kind::MUL:
    return b.getIntegerAttr(type, 1);
  case Kind::MAXSI:
    return b.getIntegerAttr(type, APInt::getSignedMinValue(bits));
  case Kind::MINSI:
    return b.getIntegerAttr(type, APInt::getSignedMaxValue(bits));
  case Kind::MINUI:
    return b.getIntegerAttr(type, APInt::getMaxValue(bits));
  default:
    return b.getIntegerAttr(type, 0);
  }
}

} // namespace tw::cpu
