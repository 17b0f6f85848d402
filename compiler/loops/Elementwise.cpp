//===- Elementwise.cpp - Scalar bodies of element-by-element ops ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/loops/Elementwise.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;

namespace tw::loops {

using namespace graph;

Type storageType(Type type) {
  return type.isUnsignedInteger() ? IntegerType::get(type.getContext(), type.getIntOrFloatBitWidth()) : type;
}

Value floatConstant(OpBuilder &builder, Location loc, float value) {
  return builder.create<arith::ConstantOp>(loc, builder.getF32FloatAttr(value));
}

Value integerConstant(OpBuilder &builder, Location loc, int64_t value, unsigned width) {
  return builder.create<arith::ConstantOp>(loc, builder.getIntegerAttr(builder.getIntegerType(width), value));
}

Value toF32(OpBuilder &builder, Location loc, Scalar x) {
  return x.type.isF32() ? x.value : builder.create<arith::ExtFOp>(loc, builder.getF32Type(), x.value).getResult();
}

Value toI32(OpBuilder &builder, Location loc, Scalar x) {
  if (x.type.isInteger(32))
    return x.value;
  Type i32 = builder.getI32Type();
  if (x.type.isUnsignedInteger() || x.type.isInteger(1))
    return builder.create<arith::ExtUIOp>(loc, i32, x.value);
  return builder.create<arith::ExtSIOp>(loc, i32, x.value);
}

/// An integer as the type arithmetic is done in: i64 stays, the rest is i32.
static Value toWide(OpBuilder &builder, Location loc, Scalar x) {
  return x.type.isInteger(64) ? x.value : toI32(builder, loc, x);
}

/// The low bits of a wide integer.
static Value fromWide(OpBuilder &builder, Location loc, Value x, Type type) {
  Type storage = storageType(type);
  return x.getType() == storage ? x : builder.create<arith::TruncIOp>(loc, storage, x).getResult();
}

/// f32 as `type`, a float type.
static Value fromF32(OpBuilder &builder, Location loc, Value x, Type type) {
  return type.isF32() ? x : builder.create<arith::TruncFOp>(loc, type, x).getResult();
}

Value saturate(OpBuilder &builder, Location loc, Value x, Type type, int32_t zeroPoint, std::optional<Bounds> bounds) {
  int32_t least = type.isUnsignedInteger() ? 0 : -128;
  int32_t lo = bounds ? bounds->lo : least, hi = bounds ? bounds->hi : least + 255;
  Value y = builder.create<math::RoundEvenOp>(loc, x);
  y = builder.create<arith::MaximumFOp>(loc, y, floatConstant(builder, loc, float(lo - zeroPoint)));
  y = builder.create<arith::MinimumFOp>(loc, y, floatConstant(builder, loc, float(hi - zeroPoint)));
  y = builder.create<arith::FPToSIOp>(loc, builder.getI32Type(), y);
  y = builder.create<arith::AddIOp>(loc, y, integerConstant(builder, loc, zeroPoint));
  return builder.create<arith::TruncIOp>(loc, builder.getI8Type(), y);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

static Value emitFloatBinary(OpBuilder &b, Location loc, Operation *op, Value x, Value y) {
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](AddOp) { return b.create<arith::AddFOp>(loc, x, y); })
      .Case([&](SubOp) { return b.create<arith::SubFOp>(loc, x, y); })
      .Case([&](MulOp) { return b.create<arith::MulFOp>(loc, x, y); })
      .Case([&](DivOp) { return b.create<arith::DivFOp>(loc, x, y); })
      .Case([&](MinOp) { return b.create<arith::MinimumFOp>(loc, x, y); })
      .Case([&](MaxOp) { return b.create<arith::MaximumFOp>(loc, x, y); });
}

static Value emitIntegerBinary(OpBuilder &b, Location loc, Operation *op, Value x, Value y) {
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](AddOp) { return b.create<arith::AddIOp>(loc, x, y); })
      .Case([&](SubOp) { return b.create<arith::SubIOp>(loc, x, y); })
      .Case([&](MulOp) { return b.create<arith::MulIOp>(loc, x, y); })
      .Case([&](DivOp) { return b.create<arith::DivSIOp>(loc, x, y); })
      .Case([&](MinOp) { return b.create<arith::MinSIOp>(loc, x, y); })
      .Case([&](MaxOp) { return b.create<arith::MaxSIOp>(loc, x, y); });
}

static Value emitFloatUnary(OpBuilder &b, Location loc, Operation *op, Value x) {
  auto constant = [&](float value) { return floatConstant(b, loc, value); };
  auto hardSigmoid = [&](float alpha, float beta) -> Value {
    Value y = b.create<arith::MulFOp>(loc, x, constant(alpha));
    y = b.create<arith::AddFOp>(loc, y, constant(beta));
    y = b.create<arith::MaximumFOp>(loc, y, constant(0));
    return b.create<arith::MinimumFOp>(loc, y, constant(1));
  };
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](ReluOp) { return b.create<arith::MaximumFOp>(loc, x, constant(0)); })
      .Case([&](NegOp) { return b.create<arith::NegFOp>(loc, x); })
      .Case([&](AbsOp) { return b.create<math::AbsFOp>(loc, x); })
      .Case([&](TanhOp) { return b.create<math::TanhOp>(loc, x); })
      .Case([&](ExpOp) { return b.create<math::ExpOp>(loc, x); })
      .Case([&](SqrtOp) { return b.create<math::SqrtOp>(loc, x); })
      .Case([&](FloorOp) { return b.create<math::FloorOp>(loc, x); })
      .Case([&](ErfOp) { return b.create<math::ErfOp>(loc, x); })
      .Case([&](SigmoidOp) {
        Value e = b.create<math::ExpOp>(loc, b.create<arith::NegFOp>(loc, x));
        return b.create<arith::DivFOp>(loc, constant(1), b.create<arith::AddFOp>(loc, e, constant(1)));
      })
      .Case([&](HardSigmoidOp h) { return hardSigmoid(h.getAlpha().convertToFloat(), h.getBeta().convertToFloat()); })
      .Case([&](HardSwishOp) { return b.create<arith::MulFOp>(loc, x, hardSigmoid(1.0f / 6.0f, 0.5f)); })
      .Case([&](LeakyReluOp leaky) -> Value {
        float alpha = leaky.getAlpha().convertToFloat();
        // Nothing times infinity is no number: what is positive is not scaled by 0.
        Value negative = alpha == 0 ? b.create<arith::MinimumFOp>(loc, x, constant(0)).getResult() : x;
        Value scaled = b.create<arith::MulFOp>(loc, negative, constant(alpha));
        if (alpha <= 1)
          return b.create<arith::MaximumFOp>(loc, x, scaled);
        return b.create<arith::MinimumFOp>(loc, x, scaled);
      })
      .Case([&](ClipOp clip) {
        float lo = clip.getMin().convertToFloat(), hi = clip.getMax().convertToFloat();
        Value y = x;
        if (lo != -std::numeric_limits<float>::infinity())
          y = b.create<arith::MaximumFOp>(loc, y, constant(lo));
        if (hi != std::numeric_limits<float>::infinity())
          y = b.create<arith::MinimumFOp>(loc, y, constant(hi));
        return y;
      });
}

static Value emitIntegerUnary(OpBuilder &b, Location loc, Operation *op, Value x) {
  unsigned width = x.getType().getIntOrFloatBitWidth();
  auto constant = [&](int64_t value) { return integerConstant(b, loc, value, width); };
  return TypeSwitch<Operation *, Value>(op)
      .Case([&](ReluOp) { return b.create<arith::MaxSIOp>(loc, x, constant(0)); })
      .Case([&](NegOp) { return b.create<arith::SubIOp>(loc, constant(0), x); })
      .Case([&](AbsOp) { return b.create<arith::MaxSIOp>(loc, x, b.create<arith::SubIOp>(loc, constant(0), x)); })
      .Case([&](ClipOp clip) {
        double least = width == 64 ? -0x1p63 : -0x1p31, most = width == 64 ? 0x1p63 : 0x1p31;
        double lo = clip.getMin().convertToFloat(), hi = clip.getMax().convertToFloat();
        Value y = x;
        if (lo > least)
          y = b.create<arith::MaxSIOp>(loc, y, constant(int64_t(std::ceil(lo))));
        if (hi < most)
          y = b.create<arith::MinSIOp>(loc, y, constant(int64_t(std::floor(hi))));
        return y;
      });
}

//===----------------------------------------------------------------------===//
// Functions and conversions that the accelerator has not
//===----------------------------------------------------------------------===//

/// Whether the numbers of `type` are the accelerator's, too.
static bool isCommonType(Type type) {
  return type.isF32() || type.isBF16() || type.isF16() || type.isInteger(1) || type.isInteger(8) ||
         ((type.isInteger(32) || type.isInteger(64)) && !type.isUnsignedInteger());
}

static bool isUnsignedType(Type type) { return type.isUnsignedInteger() || type.isInteger(1); }

/// A float as what it is computed in: f64 stays, the rest is f32.
static Value toReal(OpBuilder &b, Location loc, Scalar x) { return x.type.isF64() ? x.value : toF32(b, loc, x); }

static Value realConstant(OpBuilder &b, Location loc, Type type, double value) {
  return b.create<arith::ConstantOp>(loc, b.getFloatAttr(type, value));
}

/// An f64 as an f32 that rounds further as the f64 does: what is not exact has its last bit set.
static Value toOddF32(OpBuilder &b, Location loc, Value x) {
  Value rounded = b.create<arith::TruncFOp>(loc, b.getF32Type(), x), back = b.create<arith::ExtFOp>(loc, x.getType(), rounded);
  Value bits = b.create<arith::BitcastOp>(loc, b.getI32Type(), rounded);
  Value isAbove = b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::OGT, b.create<math::AbsFOp>(loc, back),
                                          b.create<math::AbsFOp>(loc, x));
  Value one = integerConstant(b, loc, 1);
  Value below = b.create<arith::SelectOp>(loc, isAbove, b.create<arith::SubIOp>(loc, bits, one), bits);
  Value isInexact = b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::ONE, back, x);
  bits = b.create<arith::SelectOp>(loc, isInexact, b.create<arith::OrIOp>(loc, below, one), bits);
  return b.create<arith::BitcastOp>(loc, b.getF32Type(), bits);
}

/// A float as the low bits of the integer towards zero, which is kept within 64 bits; NaN is 0.
static Value toIntegerBits(OpBuilder &b, Location loc, Value x, bool isUnsigned64) {
  using P = arith::CmpFPredicate;
  Type type = x.getType(), i64 = b.getI64Type();
  auto real = [&](double value) { return realConstant(b, loc, type, value); };
  auto compare = [&](P predicate, double value) -> Value { return b.create<arith::CmpFOp>(loc, predicate, x, real(value)); };
  auto integer = [&](int64_t value) { return integerConstant(b, loc, value, 64); };
  auto select = [&](Value condition, Value yes, Value no) -> Value {
    return b.create<arith::SelectOp>(loc, condition, yes, no);
  };
  Value isLow = compare(P::OLT, -0x1p63), isHigh = compare(P::OGE, 0x1p63), isNumber = compare(P::ORD, 0);
  Value isOutside = b.create<arith::OrIOp>(loc, isLow, isHigh);
  Value safe = select(isOutside, real(0), select(isNumber, x, real(0)));
  Value result = b.create<arith::FPToSIOp>(loc, i64, safe);
  result = select(isLow, integer(INT64_MIN), result);
  if (!isUnsigned64)
    return select(isHigh, integer(INT64_MAX), result);
  Value isHuge = compare(P::OGE, 0x1p64);
  Value rest = b.create<arith::SubFOp>(loc, x, real(0x1p63));
  Value upper = b.create<arith::FPToSIOp>(loc, i64, select(isHuge, real(0), select(isHigh, rest, real(0))));
  upper = b.create<arith::AddIOp>(loc, upper, integer(INT64_MIN));
  return select(isHuge, integer(-1), select(isHigh, upper, result));
}

/// A conversion from or to a type that the accelerator has not.
static Value emitHostCast(OpBuilder &b, Location loc, Scalar x, Type to) {
  Type storage = storageType(to);
  if (isa<FloatType>(x.type)) {
    Value real = toReal(b, loc, x);
    if (to.isInteger(1))
      return b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::UNE, real, realConstant(b, loc, real.getType(), 0));
    if (!isa<FloatType>(to))
      return fromWide(b, loc, toIntegerBits(b, loc, real, to.isInteger(64) && to.isUnsignedInteger()), to);
    if (to.isF64())
      return b.create<arith::ExtFOp>(loc, to, real);
    if (to.isF32())
      return b.create<arith::TruncFOp>(loc, to, real);
    return fromF32(b, loc, toOddF32(b, loc, real), to);
  }
  if (auto floating = dyn_cast<FloatType>(to)) {
    Value integer = x.value;
    Type wide = to.isF64() || to.isF32() ? to : b.getF64Type();
    if (x.type.isInteger(64) && wide != to) {
      // 53 bits are exact in an f64; what is below them shows in the last one. Precondition: the integer is unsigned.
      auto constant = [&](int64_t value) { return integerConstant(b, loc, value, 64); };
      auto isNotZero = [&](Value value) -> Value {
        return b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::ne, value, constant(0));
      };
      Value high = b.create<arith::AndIOp>(loc, integer, constant(~int64_t(0x7ff)));
      Value low = b.create<arith::AndIOp>(loc, integer, constant(0x7ff));
      Value odd =
          b.create<arith::OrIOp>(loc, high, b.create<arith::SelectOp>(loc, isNotZero(low), constant(0x800), constant(0)));
      integer = b.create<arith::SelectOp>(loc, isNotZero(b.create<arith::ShRUIOp>(loc, integer, constant(53))), odd, integer);
    }
    Value real = isUnsignedType(x.type) ? b.create<arith::UIToFPOp>(loc, wide, integer).getResult()
                                        : b.create<arith::SIToFPOp>(loc, wide, integer);
    return wide == to ? real : fromF32(b, loc, toOddF32(b, loc, real), floating);
  }
  const unsigned fromWidth = x.type.getIntOrFloatBitWidth(), toWidth = to.getIntOrFloatBitWidth();
  if (to.isInteger(1))
    return b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::ne, x.value, integerConstant(b, loc, 0, fromWidth));
  if (toWidth == fromWidth)
    return x.value;
  if (toWidth < fromWidth)
    return b.create<arith::TruncIOp>(loc, storage, x.value);
  return isUnsignedType(x.type) ? b.create<arith::ExtUIOp>(loc, storage, x.value).getResult()
                                : b.create<arith::ExtSIOp>(loc, storage, x.value);
}

static Value emitComparison(OpBuilder &b, Location loc, Function function, Type type, Value x, Value y) {
  using F = arith::CmpFPredicate;
  using I = arith::CmpIPredicate;
  auto compare = [&](F ofFloats, I ofSigned, I ofUnsigned) -> Value {
    if (isa<FloatType>(type))
      return b.create<arith::CmpFOp>(loc, ofFloats, x, y);
    return b.create<arith::CmpIOp>(loc, isUnsignedType(type) ? ofUnsigned : ofSigned, x, y);
  };
  switch (function) {
  case Function::Less:
    return compare(F::OLT, I::slt, I::ult);
  case Function::LessOrEqual:
    return compare(F::OLE, I::sle, I::ule);
  case Function::Greater:
    return compare(F::OGT, I::sgt, I::ugt);
  case Function::GreaterOrEqual:
    return compare(F::OGE, I::sge, I::uge);
  default:
    return compare(F::OEQ, I::eq, I::eq);
  }
}

/// Functions of floats, as f32 or f64.
static Value emitRealFunction(OpBuilder &b, Location loc, Function function, ValueRange x) {
  auto apply = [&](auto *op) -> Value { return b.create<std::remove_pointer_t<decltype(op)>>(loc, x[0].getType(), x); };
  switch (function) {
  case Function::Fmod:
    return apply((arith::RemFOp *)nullptr);
  case Function::Pow:
    return apply((math::PowFOp *)nullptr);
  case Function::Ceil:
    return apply((math::CeilOp *)nullptr);
  case Function::Round:
    return apply((math::RoundEvenOp *)nullptr);
  case Function::Log:
    return apply((math::LogOp *)nullptr);
  case Function::Log1p:
    return apply((math::Log1pOp *)nullptr);
  case Function::Sin:
    return apply((math::SinOp *)nullptr);
  case Function::Cos:
    return apply((math::CosOp *)nullptr);
  case Function::Tan:
    return apply((math::TanOp *)nullptr);
  case Function::Asin:
    return apply((math::AsinOp *)nullptr);
  case Function::Acos:
    return apply((math::AcosOp *)nullptr);
  case Function::Atan:
    return apply((math::AtanOp *)nullptr);
  case Function::Sinh:
    return apply((math::SinhOp *)nullptr);
  case Function::Cosh:
    return apply((math::CoshOp *)nullptr);
  case Function::Asinh:
    return apply((math::AsinhOp *)nullptr);
  case Function::Acosh:
    return apply((math::AcoshOp *)nullptr);
  case Function::Atanh:
    return apply((math::AtanhOp *)nullptr);
  default:
    llvm_unreachable("no function of floats alone");
  }
}

/// -1, 0 or 1; a NaN stays one.
static Value emitSign(OpBuilder &b, Location loc, Type type, Value x) {
  auto constant = [&](int64_t value) -> Value {
    if (isa<FloatType>(type))
      return realConstant(b, loc, x.getType(), double(value));
    return integerConstant(b, loc, value, type.getIntOrFloatBitWidth());
  };
  auto select = [&](Function function, int64_t value, Value otherwise) -> Value {
    return b.create<arith::SelectOp>(loc, emitComparison(b, loc, function, type, x, constant(0)), constant(value), otherwise);
  };
  Value y = select(Function::Equal, 0, x);
  if (!isUnsignedType(type))
    y = select(Function::Less, -1, y);
  return select(Function::Greater, 1, y);
}

/// Functions of integers and i1, in the width that they have.
static Value emitIntegerFunction(OpBuilder &b, Location loc, Function function, Type type, ValueRange x) {
  const unsigned width = type.getIntOrFloatBitWidth();
  auto constant = [&](int64_t value) -> Value {
    return b.create<arith::ConstantOp>(loc, b.getIntegerAttr(b.getIntegerType(width), APInt(width, uint64_t(value))));
  };
  auto compare = [&](arith::CmpIPredicate predicate, Value y, Value z) -> Value {
    return b.create<arith::CmpIOp>(loc, predicate, y, z);
  };
  switch (function) {
  case Function::And:
    return b.create<arith::AndIOp>(loc, x[0], x[1]);
  case Function::Or:
    return b.create<arith::OrIOp>(loc, x[0], x[1]);
  case Function::Xor:
    return b.create<arith::XOrIOp>(loc, x[0], x[1]);
  case Function::Not:
    return b.create<arith::XOrIOp>(loc, x[0], constant(-1));
  case Function::ShiftLeft:
  case Function::ShiftRight: {
    Value shifted = function == Function::ShiftLeft ? b.create<arith::ShLIOp>(loc, x[0], x[1]).getResult()
                                                    : b.create<arith::ShRUIOp>(loc, x[0], x[1]);
    return b.create<arith::SelectOp>(loc, compare(arith::CmpIPredicate::ult, x[1], constant(width)), shifted, constant(0));
  }
  case Function::Mod:
  case Function::Fmod: {
    if (isUnsignedType(type))
      return b.create<arith::RemUIOp>(loc, x[0], x[1]);
    Value remainder = b.create<arith::RemSIOp>(loc, x[0], x[1]);
    if (function == Function::Fmod)
      return remainder;
    // Other than 0, it has the sign of the dividend.
    Value isOther = compare(arith::CmpIPredicate::slt, b.create<arith::XOrIOp>(loc, remainder, x[1]), constant(0));
    Value moves = b.create<arith::AndIOp>(loc, isOther, compare(arith::CmpIPredicate::ne, remainder, constant(0)));
    return b.create<arith::SelectOp>(loc, moves, b.create<arith::AddIOp>(loc, remainder, x[1]), remainder);
  }
  default:
    llvm_unreachable("no function of integers");
  }
}

static Value emitFunction(OpBuilder &b, ElementwiseOp op, ArrayRef<Scalar> x) {
  Location loc = op.getLoc();
  const Function function = op.getFunction();
  if (function == Function::Select)
    return b.create<arith::SelectOp>(loc, x[0].value, x[1].value, x[2].value);
  Type type = x[0].type, result = elementOf(op.getY());
  SmallVector<Value> numbers;
  for (Scalar number : x)
    numbers.push_back(isa<FloatType>(type) ? toReal(b, loc, number) : number.value);
  if (function == Function::IsNan)
    return b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::UNO, numbers[0], numbers[0]);
  if (ElementwiseOp::isPredicate(function))
    return emitComparison(b, loc, function, type, numbers[0], numbers[1]);
  Value y = function == Function::Sign ? emitSign(b, loc, type, numbers[0])
            : isa<FloatType>(type)     ? emitRealFunction(b, loc, function, numbers)
                                       : emitIntegerFunction(b, loc, function, type, numbers);
  return isa<FloatType>(type) && !result.isF64() ? fromF32(b, loc, y, result) : y;
}

static Value emitCast(OpBuilder &b, Location loc, Scalar x, Type to) {
  if (x.type == to)
    return x.value;
  if (!isCommonType(x.type) || !isCommonType(to))
    return emitHostCast(b, loc, x, to);
  if (isa<FloatType>(x.type)) {
    Value wide = toF32(b, loc, x);
    if (isa<FloatType>(to))
      return fromF32(b, loc, wide, to);
    if (to.isInteger(1))
      return b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::UNE, wide, floatConstant(b, loc, 0));
    Type integer = to.isInteger(64) ? Type(b.getI64Type()) : Type(b.getI32Type());
    return fromWide(b, loc, b.create<arith::FPToSIOp>(loc, integer, wide), to);
  }
  Value wide = toWide(b, loc, x);
  if (isa<FloatType>(to))
    return fromF32(b, loc, b.create<arith::SIToFPOp>(loc, b.getF32Type(), wide), to);
  if (to.isInteger(1))
    return b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::ne, wide,
                                   integerConstant(b, loc, 0, wide.getType().getIntOrFloatBitWidth()));
  if (to.isInteger(64) && !wide.getType().isInteger(64))
    wide = b.create<arith::ExtSIOp>(loc, b.getI64Type(), wide);
  return fromWide(b, loc, wide, to);
}

static DenseElementsAttr floatVector(OpBuilder &b, ArrayRef<float> values) {
  return makeFloats(RankedTensorType::get({int64_t(values.size())}, b.getF32Type()), values);
}

static DenseElementsAttr integerVector(OpBuilder &b, ArrayRef<int32_t> values) {
  std::vector<int64_t> wide(values.begin(), values.end());
  return makeIntegers(RankedTensorType::get({int64_t(values.size())}, b.getI32Type()), wide);
}

static Value emitRequantize(OpBuilder &b, RequantizeOp op, Scalar x, const ChannelReader &perChannel,
                            std::optional<Bounds> bounds) {
  Location loc = op.getLoc();
  Value y = x.value;
  if (op.getBias())
    y = b.create<arith::AddIOp>(loc, y,
                                perChannel(makeIntegers(tensorOf(op.getBias()), readIntegers(constantOf(op.getBias())))));
  y = b.create<arith::SIToFPOp>(loc, b.getF32Type(), y);
  y = b.create<arith::MulFOp>(loc, y, perChannel(floatVector(b, op.getMultipliers())));
  return saturate(b, loc, y, elementOf(op), op.getZeroPoint(), bounds);
}

static Value emitQuotient(OpBuilder &b, QuantizeOp op, Scalar x, const ChannelReader &perChannel) {
  ArrayRef<float> scales = op.getScales();
  if (scales.size() == 1 && scales[0] == 1.0f)
    return x.value;
  return b.create<arith::DivFOp>(op.getLoc(), x.value, perChannel(floatVector(b, scales)));
}

static Value emitQuantize(OpBuilder &b, QuantizeOp op, Scalar x, const ChannelReader &perChannel,
                          std::optional<Bounds> bounds) {
  ArrayRef<int32_t> zeroPoints = op.getZeroPoints();
  if (llvm::all_equal(zeroPoints))
    return saturate(b, op.getLoc(), emitQuotient(b, op, x, perChannel), elementOf(op), zeroPoints[0], bounds);
  // Zero points differ: round, add, saturate as integers.
  return emitShifted(b, op, emitRounded(b, op, x, perChannel), perChannel, bounds);
}

Value emitRounded(OpBuilder &b, QuantizeOp op, Scalar x, const ChannelReader &perChannel) {
  Location loc = op.getLoc();
  // Bounded first, so that the quotient fits an integer.
  Value y = b.create<math::RoundEvenOp>(loc, emitQuotient(b, op, x, perChannel));
  y = b.create<arith::MaximumFOp>(loc, y, floatConstant(b, loc, -1024));
  y = b.create<arith::MinimumFOp>(loc, y, floatConstant(b, loc, 1024));
  return b.create<arith::FPToSIOp>(loc, b.getI32Type(), y);
}

Value emitShifted(OpBuilder &b, QuantizeOp op, Value y, const ChannelReader &perChannel, std::optional<Bounds> bounds) {
  Location loc = op.getLoc();
  y = b.create<arith::AddIOp>(loc, y, perChannel(integerVector(b, op.getZeroPoints())));
  int32_t least = elementOf(op).isUnsignedInteger() ? 0 : -128;
  y = b.create<arith::MaxSIOp>(loc, y, integerConstant(b, loc, bounds ? bounds->lo : least));
  y = b.create<arith::MinSIOp>(loc, y, integerConstant(b, loc, bounds ? bounds->hi : least + 255));
  return b.create<arith::TruncIOp>(loc, b.getI8Type(), y);
}

Value emitDifference(OpBuilder &b, DequantizeOp op, Scalar x, const ChannelReader &perChannel) {
  Value y = toI32(b, op.getLoc(), x);
  ArrayRef<int32_t> zeroPoints = op.getZeroPoints();
  if (llvm::any_of(zeroPoints, [](int32_t z) { return z != 0; }))
    y = b.create<arith::SubIOp>(op.getLoc(), y, perChannel(integerVector(b, zeroPoints)));
  return y;
}

Value emitScaled(OpBuilder &b, DequantizeOp op, Value y, const ChannelReader &perChannel) {
  y = b.create<arith::SIToFPOp>(op.getLoc(), b.getF32Type(), y);
  return b.create<arith::MulFOp>(op.getLoc(), y, perChannel(floatVector(b, op.getScales())));
}

DenseElementsAttr constantAddend(QLinearAddOp op) {
  ElementsAttr elements = constantOf(op.getA());
  if (!elements || (!elements.isSplat() && shapeOf(op.getA()).back() != elements.getNumElements()))
    return nullptr;
  const QuantisedSum sum(op);
  const bool isSigned = !elementOf(op).isUnsignedInteger();
  const float least = isSigned ? -128 : 0, most = least + 255;
  std::vector<int64_t> numbers = readIntegers(elements);
  numbers.resize(elements.isSplat() ? 1 : numbers.size());
  std::vector<float> addends;
  for (int64_t a : numbers) {
    addends.push_back(float(a) * sum.aRatio);
    for (int64_t b = int64_t(least); b <= int64_t(most); ++b)
      if (auto rounded = [&](float y) { return std::clamp(std::nearbyint(y), least, most); };
          rounded(sum.scaled(b) + addends.back()) != rounded(sum.of(a, b)))
        return nullptr;
  }
  return makeFloats(RankedTensorType::get({int64_t(addends.size())}, Float32Type::get(op.getContext())), addends);
}

static Value emitQLinearAdd(OpBuilder &b, QLinearAddOp op, Scalar x, Scalar y, const ChannelReader &perChannel) {
  Location loc = op.getLoc();
  const QuantisedSum scales(op);
  auto toFloat = [&](Scalar v) { return b.create<arith::SIToFPOp>(loc, b.getF32Type(), toI32(b, loc, v)); };
  Value sum = b.create<math::FmaOp>(loc, toFloat(y), floatConstant(b, loc, scales.bRatio), floatConstant(b, loc, scales.shift));
  if (DenseElementsAttr addend = constantAddend(op))
    sum = b.create<arith::AddFOp>(loc, sum, perChannel(addend));
  else
    sum = b.create<math::FmaOp>(loc, toFloat(x), floatConstant(b, loc, scales.aRatio), sum);
  return saturate(b, loc, sum, elementOf(op), 0);
}

Value emitScalar(OpBuilder &b, Operation *op, ArrayRef<Scalar> operands, const ChannelReader &perChannel,
                 std::optional<Bounds> bounds) {
  Location loc = op->getLoc();
  Type type = elementOf(op->getResult(0));
  if (auto cast = dyn_cast<CastOp>(op))
    return emitCast(b, loc, operands[0], type);
  if (auto elementwise = dyn_cast<ElementwiseOp>(op))
    return emitFunction(b, elementwise, operands);
  if (auto requantize = dyn_cast<RequantizeOp>(op))
    return emitRequantize(b, requantize, operands[0], perChannel, bounds);
  if (auto quantize = dyn_cast<QuantizeOp>(op))
    return emitQuantize(b, quantize, operands[0], perChannel, bounds);
  if (auto dequantize = dyn_cast<DequantizeOp>(op))
    return emitScaled(b, dequantize, emitDifference(b, dequantize, operands[0], perChannel), perChannel);
  if (auto add = dyn_cast<QLinearAddOp>(op))
    return emitQLinearAdd(b, add, operands[0], operands[1], perChannel);
  if (isa<FloatType>(type)) {
    Value x = toF32(b, loc, operands[0]);
    Value y = operands.size() == 2 ? emitFloatBinary(b, loc, op, x, toF32(b, loc, operands[1])) : emitFloatUnary(b, loc, op, x);
    return fromF32(b, loc, y, type);
  }
  Value x = toWide(b, loc, operands[0]);
  Value y =
      operands.size() == 2 ? emitIntegerBinary(b, loc, op, x, toWide(b, loc, operands[1])) : emitIntegerUnary(b, loc, op, x);
  return fromWide(b, loc, y, type);
}

unsigned stageCount(Operation *op) {
  return TypeSwitch<Operation *, unsigned>(op)
      .Case([](HardSwishOp) { return 6; })
      .Case<HardSigmoidOp, RequantizeOp, QLinearAddOp>([](auto) { return 4; })
      .Case([](LeakyReluOp leaky) { return leaky.getAlpha().isZero() ? 4 : 3; })
      .Case<ClipOp, QuantizeOp>([](auto) { return 2; })
      .Case([](CastOp) { return 0; })
      .Default([](Operation *) { return 1; });
}

unsigned constantCount(Operation *op) {
  return TypeSwitch<Operation *, unsigned>(op)
      .Case<HardSwishOp, HardSigmoidOp>([](auto) { return 4; })
      .Case<QuantizeOp, RequantizeOp, QLinearAddOp>([](auto) { return 3; })
      .Case<ClipOp, DequantizeOp>([](auto) { return 2; })
      .Case([](LeakyReluOp leaky) { return leaky.getAlpha().isZero() ? 2 : 1; })
      .Case([](SigmoidOp) { return 1; })
      .Default([](Operation *) { return 0; });
}

bool keepsValue(Operation *op) { return isa<HardSwishOp, LeakyReluOp>(op); }

} // namespace tw::loops
