//===- Chain.cpp - Element arithmetic as stages of the vector engine -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The chain holds one value x, one saved value, and reads B, parameters and
// immediates. The body is a small expression graph; it is compiled by walking it
// from the yielded value and keeping one of two complex operands saved.
//===----------------------------------------------------------------------===//

#include "compiler/codegen/accel/Chain.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace tw;
using namespace tw::accel;
using isa::StageOp;

namespace {
constexpr int64_t kOperandB = 1, kOperandSaved = 2, kFirstParameter = 8, kFirstImmediate = 16;

float asFloat(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

struct Interval {
  int64_t lo, hi;
};
constexpr Interval kAll{INT32_MIN, INT32_MAX};

bool fitsByte(Interval range, bool isSigned) {
  return isSigned ? -128 <= range.lo && range.hi <= 127 : 0 <= range.lo && range.hi <= 255;
}

class ChainBuilder {
public:
  ChainBuilder(const Step &step, ArrayRef<LaneType> types, bool swapped)
      : step(step), op(step.op), types(types), swapped(swapped) {}
  FailureOr<Chain> run();

private:
  const Step &step;
  linalg::GenericOp op;
  ArrayRef<LaneType> types;
  bool swapped; ///< the second tensor operand enters the chain
  Chain chain;
  /// The values the chain starts from, after the widening the engine does itself.
  Value entry, bEntry;
  Value current, saved;

  InFlightDiagnostic error(Operation *at) { return at->emitError("cannot be mapped to the vector engine: "); }

  std::optional<uint32_t> constantOf(Value value);
  int64_t immediate(uint32_t bits);
  int64_t immediatePair(uint32_t first, uint32_t second);
  std::optional<int64_t> direct(Value value);
  /// True if `value` is computed from `from` (or is it).
  bool dependsOn(Value value, Value from);
  LogicalResult compile(Value value);
  /// What an i32 may be, as far as its own expression tells.
  Interval rangeOf(Value value);
  /// Bytes lose what is above them, while the engine saturates what it writes and keeps all between its stages.
  void wrap(bool isSigned);
  LogicalResult compileBinary(Operation *at, Value l, Value r, StageOp forward, StageOp reverse);
  void emit(StageOp stage, int64_t operand = 0) { chain.stages.push_back({stage, operand}); }
  void absorb(int source, Value argument, Value &value, int64_t &zero, bool isB);
  void peephole();
  void finish();
};

std::optional<uint32_t> ChainBuilder::constantOf(Value value) {
  Attribute attribute;
  if (Operation *widening = value.getDefiningOp(); widening && llvm::isa<arith::ExtSIOp, arith::ExtUIOp>(widening)) {
    APInt narrow;
    if (!matchPattern(widening->getOperand(0), m_ConstantInt(&narrow)))
      return std::nullopt;
    return uint32_t(llvm::isa<arith::ExtSIOp>(widening) ? narrow.getSExtValue() : int64_t(narrow.getZExtValue()));
  }
  // What a sum of quantised tensors does with a constant one: in float, as the engine would.
  if (auto converted = value.getDefiningOp<arith::SIToFPOp>(); converted && value.getType().isF32()) {
    std::optional<uint32_t> bits = constantOf(converted.getIn());
    return bits ? std::optional(llvm::bit_cast<uint32_t>(float(int32_t(*bits)))) : std::nullopt;
  }
  if (auto fma = value.getDefiningOp<math::FmaOp>()) {
    std::optional<uint32_t> a = constantOf(fma.getA()), b = constantOf(fma.getB()), c = constantOf(fma.getC());
    if (!a || !b || !c)
      return std::nullopt;
    return llvm::bit_cast<uint32_t>(std::fma(asFloat(*a), asFloat(*b), asFloat(*c)));
  }
  if (!matchPattern(value, m_Constant(&attribute)))
    return std::nullopt;
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return uint32_t(integer.getValue().sextOrTrunc(32).getZExtValue());
  if (auto real = dyn_cast<FloatAttr>(attribute)) {
    if (!real.getType().isF32())
      return std::nullopt;
    return uint32_t(real.getValue().bitcastToAPInt().getZExtValue());
  }
  return std::nullopt;
}

int64_t ChainBuilder::immediate(uint32_t bits) {
  for (size_t i = 0; i < chain.immediates.size(); ++i)
    if (chain.immediates[i] == bits)
      return kFirstImmediate + int64_t(i);
  chain.immediates.push_back(bits);
  return kFirstImmediate + int64_t(chain.immediates.size()) - 1;
}

int64_t ChainBuilder::immediatePair(uint32_t first, uint32_t second) {
  for (size_t i = 0; i + 1 < chain.immediates.size(); ++i)
    if (chain.immediates[i] == first && chain.immediates[i + 1] == second)
      return kFirstImmediate + int64_t(i);
  if (!chain.immediates.empty() && chain.immediates.back() == first)
    chain.immediates.push_back(second);
  else
    chain.immediates.insert(chain.immediates.end(), {first, second});
  return kFirstImmediate + int64_t(chain.immediates.size()) - 2;
}

std::optional<int64_t> ChainBuilder::direct(Value value) {
  if (saved && value == saved)
    return kOperandSaved;
  if (bEntry && value == bEntry)
    return kOperandB;
  if (auto argument = dyn_cast<BlockArgument>(value))
    for (size_t i = 0; i < chain.parameters.size(); ++i)
      if (chain.parameters[i] == int(argument.getArgNumber()))
        return kFirstParameter + int64_t(i);
  if (auto bits = constantOf(value))
    return immediate(*bits);
  return std::nullopt;
}

bool ChainBuilder::dependsOn(Value value, Value from) {
  if (value == from)
    return true;
  Operation *def = value.getDefiningOp();
  return def && llvm::any_of(def->getOperands(), [&](Value operand) { return dependsOn(operand, from); });
}

Interval ChainBuilder::rangeOf(Value value) {
  if (auto bits = constantOf(value))
    return {int32_t(*bits), int32_t(*bits)};
  Operation *def = value.getDefiningOp();
  if (!def)
    return kAll;
  auto known = [](int64_t lo, int64_t hi) { return kAll.lo <= lo && hi <= kAll.hi ? Interval{lo, hi} : kAll; };
  auto both = [&](auto combine) { return combine(rangeOf(def->getOperand(0)), rangeOf(def->getOperand(1))); };
  return llvm::TypeSwitch<Operation *, Interval>(def)
      .Case([&](arith::ExtSIOp op) {
        return op.getIn().getType().isInteger(8) ? Interval{-128, 127} : kAll;
      })
      .Case([&](arith::ExtUIOp op) {
        return op.getIn().getType().isInteger(8) ? Interval{0, 255} : kAll;
      })
      .Case([&](arith::AddIOp) { return both([&](Interval l, Interval r) { return known(l.lo + r.lo, l.hi + r.hi); }); })
      .Case([&](arith::SubIOp) { return both([&](Interval l, Interval r) { return known(l.lo - r.hi, l.hi - r.lo); }); })
      .Case([&](arith::MaxSIOp) {
        return both([](Interval l, Interval r) { return Interval{std::max(l.lo, r.lo), std::max(l.hi, r.hi)}; });
      })
      .Case([&](arith::MinSIOp) {
        return both([](Interval l, Interval r) { return Interval{std::min(l.lo, r.lo), std::min(l.hi, r.hi)}; });
      })
      .Case<arith::AndIOp, arith::OrIOp, arith::XOrIOp>([&](auto) {
        return both([](Interval l, Interval r) {
          return fitsByte(l, false) && fitsByte(r, false) ? Interval{0, 255}
                 : fitsByte(l, true) && fitsByte(r, true) ? Interval{-128, 127}
                                                          : kAll;
        });
      })
      .Case([&](arith::FPToSIOp) {
        // Between the constants that it is clamped to.
        double lo = double(kAll.lo), hi = double(kAll.hi);
        for (Operation *clamp = def->getOperand(0).getDefiningOp(); clamp; clamp = clamp->getOperand(0).getDefiningOp()) {
          const bool isMax = llvm::isa<arith::MaximumFOp, arith::MaxNumFOp>(clamp);
          if (!isMax && !llvm::isa<arith::MinimumFOp, arith::MinNumFOp, math::RoundEvenOp>(clamp))
            break;
          auto bits = clamp->getNumOperands() == 2 ? constantOf(clamp->getOperand(1)) : std::nullopt;
          if (bits && isMax)
            lo = std::max(lo, double(std::floor(asFloat(*bits))));
          else if (bits)
            hi = std::min(hi, double(std::ceil(asFloat(*bits))));
        }
        return lo <= hi ? Interval{int64_t(lo), int64_t(hi)} : kAll;
      })
      .Default([](Operation *) { return kAll; });
}

void ChainBuilder::wrap(bool isSigned) {
  if (isSigned) {
    emit(StageOp::Imul, immediate(1u << 24));
    emit(StageOp::Ishr, immediate(24));
  } else {
    emit(StageOp::Iand, immediate(255));
  }
}

LogicalResult ChainBuilder::compileBinary(Operation *at, Value l, Value r, StageOp forward, StageOp reverse) {
  // A direct operand that is the value already in the chain is not an operand but x itself.
  bool leftDirect = l != current && direct(l), rightDirect = r != current && direct(r);
  if (l == r && !rightDirect) {
    if (failed(compile(l)))
      return failure();
    if (saved != l)
      emit(StageOp::Save);
    saved = l;
    emit(forward, kOperandSaved);
    return success();
  }
  if (rightDirect && !(leftDirect && dependsOn(r, entry))) {
    if (failed(compile(l)))
      return failure();
    if (auto operand = direct(r)) {
      emit(forward, *operand);
      return success();
    }
  } else if (leftDirect) {
    if (failed(compile(r)))
      return failure();
    if (auto operand = direct(l)) {
      emit(reverse, *operand);
      return success();
    }
  }
  // Two computed operands: the one the other needs, or the one that starts from A, goes first and is saved.
  bool leftFirst = dependsOn(r, l) || (!dependsOn(l, r) && dependsOn(l, entry));
  Value first = leftFirst ? l : r, second = leftFirst ? r : l;
  if (failed(compile(first)))
    return failure();
  if (saved != first)
    emit(StageOp::Save);
  saved = first;
  if (failed(compile(second)))
    return failure();
  if (saved != first)
    return error(at) << "more than one intermediate value must be kept";
  emit(leftFirst ? reverse : forward, kOperandSaved);
  return success();
}

LogicalResult ChainBuilder::compile(Value value) {
  if (value == current)
    return success();
  if (saved && value == saved) {
    emit(StageOp::LoadSaved);
    current = value;
    return success();
  }
  if (bEntry && value == bEntry) {
    emit(StageOp::LoadB);
    current = value;
    return success();
  }
  Operation *def = value.getDefiningOp();
  if (!def)
    return error(op) << "a value is needed again after it left the chain";
  auto unary = [&](StageOp stage) -> LogicalResult {
    if (failed(compile(def->getOperand(0))))
      return failure();
    emit(stage);
    return success();
  };
  auto binary = [&](StageOp forward, StageOp reverse) {
    return compileBinary(def, def->getOperand(0), def->getOperand(1), forward, reverse);
  };
  LogicalResult result =
      llvm::TypeSwitch<Operation *, LogicalResult>(def)
          .Case([&](arith::AddIOp) { return binary(StageOp::Iadd, StageOp::Iadd); })
          .Case([&](arith::SubIOp) { return binary(StageOp::Isub, StageOp::Irsub); })
          .Case([&](arith::MulIOp) { return binary(StageOp::Imul, StageOp::Imul); })
          .Case([&](arith::DivSIOp) { return binary(StageOp::Idiv, StageOp::Iridiv); })
          .Case([&](arith::MaxSIOp) { return binary(StageOp::Imax, StageOp::Imax); })
          .Case([&](arith::MinSIOp) { return binary(StageOp::Imin, StageOp::Imin); })
          .Case([&](arith::AndIOp) { return binary(StageOp::Iand, StageOp::Iand); })
          .Case([&](arith::OrIOp) { return binary(StageOp::Ior, StageOp::Ior); })
          .Case([&](arith::XOrIOp) { return binary(StageOp::Ixor, StageOp::Ixor); })
          .Case([&](arith::ShRSIOp) -> LogicalResult {
            if (!constantOf(def->getOperand(1)))
              return error(def) << "a shift by an amount that is not constant";
            return binary(StageOp::Ishr, StageOp::Ishr);
          })
          .Case([&](arith::AddFOp) { return binary(StageOp::Fadd, StageOp::Fadd); })
          .Case([&](arith::SubFOp) { return binary(StageOp::Fsub, StageOp::Frsub); })
          .Case([&](arith::MulFOp) { return binary(StageOp::Fmul, StageOp::Fmul); })
          .Case([&](arith::DivFOp) { return binary(StageOp::Fdiv, StageOp::Frdiv); })
          .Case<arith::MaximumFOp, arith::MaxNumFOp>([&](auto) { return binary(StageOp::Fmax, StageOp::Fmax); })
          .Case<arith::MinimumFOp, arith::MinNumFOp>([&](auto) { return binary(StageOp::Fmin, StageOp::Fmin); })
          .Case([&](math::FmaOp fma) -> LogicalResult {
            // x * constant + constant, or B * constant + x.
            std::optional<uint32_t> factor = constantOf(fma.getB()), addend = constantOf(fma.getC());
            if (factor && addend) {
              if (failed(compile(fma.getA())))
                return failure();
              emit(StageOp::Ffma, immediatePair(*factor, *addend));
              return success();
            }
            if (factor && bEntry && fma.getA() == bEntry) {
              if (failed(compile(fma.getC())))
                return failure();
              emit(StageOp::FfmaB, immediate(*factor));
              return success();
            }
            return error(def)
                   << "a fused multiply-add must scale by a constant and add a constant, or scale the second operand";
          })
          .Case([&](arith::NegFOp) { return unary(StageOp::Fneg); })
          .Case([&](math::AbsFOp) { return unary(StageOp::Fabs); })
          .Case([&](math::FloorOp) { return unary(StageOp::Ffloor); })
          .Case([&](math::SqrtOp) { return unary(StageOp::Fsqrt); })
          .Case([&](math::RsqrtOp) { return unary(StageOp::Frsqrt); })
          .Case([&](math::ExpOp) { return unary(StageOp::Fexp); })
          .Case([&](math::TanhOp) { return unary(StageOp::Ftanh); })
          .Case([&](math::ErfOp) { return unary(StageOp::Ferf); })
          .Case([&](math::LogOp) { return unary(StageOp::Flog); })
          .Case([&](arith::SIToFPOp) { return unary(StageOp::I2f); })
          .Case([&](math::RoundEvenOp) -> LogicalResult {
            // Rounding happens where the value becomes an integer: f2i rounds to nearest even, and clamping to integers
            // before or after rounding is the same.
            return compile(def->getOperand(0));
          })
          .Case([&](arith::FPToSIOp) {
            Value source = def->getOperand(0);
            bool rounds = false;
            while (Operation *producer = source.getDefiningOp()) {
              if (llvm::isa<math::RoundEvenOp>(producer))
                rounds = true;
              if (!llvm::isa<arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp>(producer))
                break;
              source = producer->getOperand(0);
            }
            return unary(rounds ? StageOp::F2i : StageOp::F2iTrunc);
          })
          .Case<arith::ExtSIOp, arith::ExtUIOp>([&](auto widening) {
            const Value narrow = widening.getIn();
            if (failed(compile(narrow)))
              return failure();
            const bool isSigned = llvm::isa<arith::ExtSIOp>(def);
            auto truncation = narrow.template getDefiningOp<arith::TruncIOp>();
            if (truncation && narrow.getType().isInteger(8) && !fitsByte(rangeOf(truncation.getIn()), isSigned))
              wrap(isSigned);
            return success();
          })
          .Case([&](arith::ExtFOp) { return compile(def->getOperand(0)); })
          .Case([&](arith::TruncFOp) -> LogicalResult {
            // The engine rounds where it writes, and not between its stages.
            if (op.getBlock()->getTerminator()->getOperand(0) != value)
              return error(def) << "a value is rounded to " << value.getType() << " before the end of its step";
            return compile(def->getOperand(0));
          })
          .Case([&](arith::TruncIOp) { return compile(def->getOperand(0)); })
          .Default([&](Operation *other) -> LogicalResult {
            return error(other) << "the vector engine has no stage for '" << other->getName() << "'";
          });
  if (failed(result))
    return failure();
  current = value;
  return success();
}

void ChainBuilder::absorb(int source, Value argument, Value &value, int64_t &zero, bool isB) {
  value = argument;
  zero = 0;
  auto onlyUser = [&]() -> Operation * { return value.hasOneUse() ? *value.getUsers().begin() : nullptr; };
  if (argument.getType().isBF16() || argument.getType().isInteger(8)) {
    // The engine widens what it reads. Every use must widen first.
    Operation *widened = onlyUser();
    if (!widened || !llvm::isa<arith::ExtSIOp, arith::ExtUIOp, arith::ExtFOp, arith::SIToFPOp, arith::UIToFPOp>(widened))
      return;
    if (llvm::isa<arith::ExtSIOp, arith::ExtUIOp, arith::ExtFOp>(widened))
      value = widened->getResult(0);
    // Bytes are signless in linalg: how they are widened says what they are.
    if (argument.getType().isInteger(8))
      (isB ? chain.bType : chain.aType) = llvm::isa<arith::ExtUIOp, arith::UIToFPOp>(widened) ? LaneType::U8 : LaneType::I8;
  }
  // What a window gives has no zero point of its own: that of A is subtracted from the window's taps.
  bool isAnchor = step.sources[size_t(source)].kind == Source::Value && step.sources[size_t(source)].value == -1;
  if (value.getType().isInteger(32) && !isAnchor)
    if (Operation *user = onlyUser())
      if (auto sub = dyn_cast<arith::SubIOp>(user); sub && sub.getLhs() == value)
        if (auto bits = constantOf(sub.getRhs()); bits && int32_t(*bits) >= -256 && int32_t(*bits) <= 255) {
          zero = int32_t(*bits);
          value = sub.getResult();
        }
  if (!isB)
    return;
  if (Operation *user = onlyUser(); user && llvm::isa<arith::SIToFPOp>(user)) {
    chain.bConversion = isa::Conversion::ToFloat;
    value = user->getResult(0);
    if (Operation *scale = onlyUser())
      if (auto mul = dyn_cast<arith::MulFOp>(scale)) {
        Value other = mul.getLhs() == value ? mul.getRhs() : mul.getLhs();
        if (auto bits = constantOf(other)) {
          chain.bConversion = isa::Conversion::Dequantize;
          chain.bScale = unsigned(immediate(*bits) - kFirstImmediate);
          value = mul.getResult();
        }
      }
  }
}

void ChainBuilder::peephole() {
  auto &stages = chain.stages;
  auto immediateOf = [&](const Chain::Stage &stage) -> std::optional<uint32_t> {
    if (stage.operand < kFirstImmediate)
      return std::nullopt;
    return chain.immediates[size_t(stage.operand - kFirstImmediate)];
  };
  // A clamp right before the final f2i (+ zero point) that only repeats what saturation on writing does is dropped.
  if (cast<RankedTensorType>(op.getResult(0).getType()).getElementType().isInteger(8)) {
    size_t end = stages.size();
    int64_t zero = 0;
    // The same for integers: it also says whether the bytes are unsigned.
    if (end >= 2 && stages[end - 2].op == StageOp::Imax && stages[end - 1].op == StageOp::Imin &&
        immediateOf(stages[end - 2]) && immediateOf(stages[end - 1])) {
      int32_t low = int32_t(*immediateOf(stages[end - 2])), high = int32_t(*immediateOf(stages[end - 1]));
      bool isUnsigned = high > 127;
      chain.dType = isUnsigned ? LaneType::U8 : LaneType::I8;
      if (low == (isUnsigned ? 0 : -128) && high == (isUnsigned ? 255 : 127))
        stages.resize(end -= 2);
    }
    if (end && stages[end - 1].op == StageOp::Iadd && immediateOf(stages[end - 1]))
      zero = int32_t(*immediateOf(stages[--end]));
    if (end && stages[end - 1].op == StageOp::F2i) {
      size_t f2i = end - 1, first = f2i;
      std::optional<double> low, high;
      while (first > 0 && immediateOf(stages[first - 1])) {
        if (stages[first - 1].op == StageOp::Fmin)
          high = std::min(high.value_or(INFINITY), double(asFloat(*immediateOf(stages[first - 1]))));
        else if (stages[first - 1].op == StageOp::Fmax)
          low = std::max(low.value_or(-INFINITY), double(asFloat(*immediateOf(stages[first - 1]))));
        else
          break;
        --first;
      }
      if (low && high) {
        int64_t lowest = int64_t(*low) + zero, highest = int64_t(*high) + zero;
        bool isUnsigned = highest > 127;
        chain.dType = isUnsigned ? LaneType::U8 : LaneType::I8;
        int64_t typeLow = isUnsigned ? 0 : -128, typeHigh = isUnsigned ? 255 : 127;
        std::vector<Chain::Stage> kept;
        if (lowest > typeLow)
          kept.push_back({StageOp::Fmax, immediate(llvm::bit_cast<uint32_t>(float(*low)))});
        if (highest < typeHigh)
          kept.push_back({StageOp::Fmin, immediate(llvm::bit_cast<uint32_t>(float(*high)))});
        stages.erase(stages.begin() + long(first), stages.begin() + long(f2i));
        stages.insert(stages.begin() + long(first), kept.begin(), kept.end());
      }
    }
  }
  for (size_t i = 0; i < stages.size(); ++i) {
    // f2i, iadd imm -> quantize.
    if (i + 1 < stages.size() && stages[i].op == StageOp::F2i && stages[i + 1].op == StageOp::Iadd &&
        immediateOf(stages[i + 1])) {
      stages[i] = {StageOp::Quantize, stages[i + 1].operand};
      stages.erase(stages.begin() + long(i) + 1);
    }
    // [isub imm,] i2f, fmul imm -> dequantize, where it shortens the chain.
    if (i + 2 < stages.size() && stages[i].op == StageOp::Isub && immediateOf(stages[i]) && stages[i + 1].op == StageOp::I2f &&
        stages[i + 2].op == StageOp::Fmul && immediateOf(stages[i + 2])) {
      stages[i] = {StageOp::Dequantize, immediatePair(*immediateOf(stages[i]), *immediateOf(stages[i + 2]))};
      stages.erase(stages.begin() + long(i) + 1, stages.begin() + long(i) + 3);
    }
    // 1 / (1 + exp(-x)) -> fsigmoid.
    constexpr uint32_t one = 0x3f800000;
    if (i + 3 < stages.size() && stages[i].op == StageOp::Fneg && stages[i + 1].op == StageOp::Fexp &&
        stages[i + 2].op == StageOp::Fadd && immediateOf(stages[i + 2]) == one && stages[i + 3].op == StageOp::Frdiv &&
        immediateOf(stages[i + 3]) == one) {
      stages[i] = {StageOp::Fsigmoid, 0};
      stages.erase(stages.begin() + long(i) + 1, stages.begin() + long(i) + 4);
    }
  }
}

void ChainBuilder::finish() {
  // Unused immediates go: the table is short.
  std::vector<bool> used(chain.immediates.size(), false);
  for (const Chain::Stage &stage : chain.stages)
    if (stage.operand >= kFirstImmediate) {
      used[size_t(stage.operand - kFirstImmediate)] = true;
      if (stage.op == StageOp::Dequantize || stage.op == StageOp::Ffma || stage.op == StageOp::FfmaB)
        if (size_t(stage.operand - kFirstImmediate) + 1 < used.size() && stage.op != StageOp::FfmaB)
          used[size_t(stage.operand - kFirstImmediate) + 1] = true;
    }
  if (chain.bConversion == isa::Conversion::Dequantize)
    used[chain.bScale] = true;
  std::vector<int64_t> position(used.size(), 0);
  std::vector<uint32_t> kept;
  for (size_t i = 0; i < used.size(); ++i)
    if (used[i]) {
      position[i] = int64_t(kept.size());
      kept.push_back(chain.immediates[i]);
    }
  for (Chain::Stage &stage : chain.stages)
    if (stage.operand >= kFirstImmediate)
      stage.operand = kFirstImmediate + position[size_t(stage.operand - kFirstImmediate)];
  if (chain.bConversion == isa::Conversion::Dequantize)
    chain.bScale = unsigned(position[chain.bScale]);
  chain.immediates = kept;
}

FailureOr<Chain> ChainBuilder::run() {
  Block *body = op.getBlock();
  auto yield = cast<linalg::YieldOp>(body->getTerminator());
  // A is the earliest value or tensor the body uses that walks the channels; B the other one.
  std::vector<int> tensors;
  for (auto [i, source] : llvm::enumerate(step.sources)) {
    if (body->getArgument(unsigned(i)).use_empty())
      continue;
    if (source.kind == Source::Parameter)
      chain.parameters.push_back(int(i));
    else
      tensors.push_back(int(i));
  }
  if (tensors.empty() || tensors.size() > 2)
    return error(op) << tensors.size() << " tensor operands where 1 or 2 are allowed";
  if (chain.parameters.size() > size_t(isa::kMaxParams))
    return error(op) << chain.parameters.size() << " per-channel operands where at most " << isa::kMaxParams << " are allowed";
  chain.a = tensors[0];
  // The accumulator can only be A; so can a window's result.
  if (tensors.size() == 2) {
    bool second = step.sources[tensors[1]].kind == Source::Value && step.sources[tensors[1]].value == -1;
    bool first = step.sources[tensors[0]].kind == Source::Value && step.sources[tensors[0]].value == -1;
    if (second || (swapped && !first))
      std::swap(tensors[0], tensors[1]);
    chain.a = tensors[0];
    chain.b = tensors[1];
  }
  chain.aType = types[size_t(chain.a)];
  absorb(chain.a, body->getArgument(unsigned(chain.a)), entry, chain.aZero, false);
  if (chain.b >= 0) {
    chain.bType = types[size_t(chain.b)];
    absorb(chain.b, body->getArgument(unsigned(chain.b)), bEntry, chain.bZero, true);
  }
  current = entry;
  saved = entry;
  chain.dType = step.type;
  if (failed(compile(yield.getOperand(0))))
    return failure();
  // Bytes: what they may be says whether they are unsigned, else what enters. What fits neither wraps.
  if (step.type == LaneType::I8) {
    const bool entersUnsigned = chain.aType == LaneType::U8 || (chain.b >= 0 && chain.bType == LaneType::U8);
    auto last = yield.getOperand(0).getDefiningOp<arith::TruncIOp>();
    const Interval range = last ? rangeOf(last.getIn()) : kAll;
    const bool isSigned = fitsByte(range, true), isUnsigned = fitsByte(range, false);
    chain.dType = (isSigned == isUnsigned ? entersUnsigned : isUnsigned) ? LaneType::U8 : LaneType::I8;
    if (last && !isSigned && !isUnsigned)
      wrap(!entersUnsigned);
  }
  peephole();
  finish();
  if (chain.stages.size() > size_t(isa::kMaxStages) || chain.immediates.size() > size_t(isa::kMaxImmediates))
    return error(op) << "a chain of " << chain.stages.size() << " stages and " << chain.immediates.size() << " constants where "
                     << isa::kMaxStages << " and " << isa::kMaxImmediates << " are allowed";
  return chain;
}
} // namespace

FailureOr<Chain> accel::buildChain(const Step &step, ArrayRef<LaneType> sourceTypes) {
  // Which tensor enters the chain and which is B is free unless one lies in the accumulator: some bodies fit only one way.
  linalg::GenericOp op = step.op;
  for (bool swapped : {false, true}) {
    ScopedDiagnosticHandler quiet(op.getContext(), [](mlir::Diagnostic &) { return success(); });
    FailureOr<Chain> chain = ChainBuilder(step, sourceTypes, swapped).run();
    if (succeeded(chain))
      return chain;
  }
  return ChainBuilder(step, sourceTypes, false).run();
}

namespace {
/// `second` behind `first`, whose result it starts from; nothing if that is too long.
std::optional<Chain> append(const Chain &first, const Chain &second, size_t firstSources, size_t maxStages) {
  if (first.b >= 0 && second.b >= 0)
    return std::nullopt;
  Chain joined = first;
  joined.dType = second.dType;
  if (second.b >= 0) {
    joined.b = int(firstSources) + second.b;
    joined.bType = second.bType;
    joined.bZero = second.bZero;
    joined.bConversion = second.bConversion;
    joined.bScale = unsigned(first.immediates.size()) + second.bScale;
  }
  // What entered the second chain is saved there until something else is.
  for (const Chain::Stage &stage : second.stages) {
    if (stage.operand == kOperandSaved || stage.op == StageOp::LoadSaved)
      joined.stages.push_back({StageOp::Save, 0});
    if (stage.operand == kOperandSaved || stage.op == StageOp::LoadSaved || stage.op == StageOp::Save)
      break;
  }
  for (int parameter : second.parameters)
    joined.parameters.push_back(int(firstSources) + parameter);
  joined.immediates.insert(joined.immediates.end(), second.immediates.begin(), second.immediates.end());
  for (Chain::Stage stage : second.stages) {
    if (stage.operand >= kFirstImmediate)
      stage.operand += int64_t(first.immediates.size());
    else if (stage.operand >= kFirstParameter)
      stage.operand += int64_t(first.parameters.size());
    joined.stages.push_back(stage);
  }
  if (joined.stages.size() > maxStages || joined.immediates.size() > size_t(isa::kMaxImmediates) ||
      joined.parameters.size() > size_t(isa::kMaxParams))
    return std::nullopt;
  return joined;
}

bool isElementwise(const Step &step) { return step.op && !step.reducesChannels && !step.sumsPositions; }

/// Whether the chain multiplies what enters it with itself, and no more.
bool isSquare(const Chain &chain) {
  return chain.stages.size() == 1 && chain.b < 0 && chain.stages[0].operand == kOperandSaved &&
         (chain.stages[0].op == StageOp::Fmul || chain.stages[0].op == StageOp::Imul);
}

/// Whether of two values the larger one never becomes the smaller: the maximum may be taken before. Rounding keeps the order.
bool keepsOrder(const Chain &chain) {
  return chain.b < 0 && chain.parameters.empty() && llvm::all_of(chain.stages, [&](const Chain::Stage &stage) {
           if (stage.op == StageOp::I2f)
             return true;
           if (stage.operand < kFirstImmediate)
             return false;
           const float value = llvm::bit_cast<float>(chain.immediates[size_t(stage.operand - kFirstImmediate)]);
           const bool adds = stage.op == StageOp::Fadd || stage.op == StageOp::Fsub;
           return std::isfinite(value) && (adds || (value > 0 && (stage.op == StageOp::Fmul || stage.op == StageOp::Fdiv)));
         });
}

/// `second`, a reader of step `i`, as it is if it computes step `first` itself; nothing if no one instruction does both.
std::optional<std::pair<Step, Chain>> takeIn(const Step &first, const Chain &firstChain, int i, const Step &second,
                                             const Chain &secondChain, size_t maxStages) {
  auto isIt = [&](const Source &source) { return source.kind == Source::Value && source.value == i; };
  if (!isIt(second.sources[size_t(secondChain.a)]) || llvm::count_if(second.sources, isIt) != 1 || secondChain.aZero ||
      secondChain.aType != firstChain.dType || byteSize(secondChain.aType) != 4)
    return std::nullopt;
  Step step = second;
  step.sources = first.sources;
  if (isElementwise(second)) {
    std::optional<Chain> chain = append(firstChain, secondChain, first.sources.size(), maxStages);
    if (!chain)
      return std::nullopt;
    // The value between the two goes, but keeps its place: operands are numbered.
    step.sources.insert(step.sources.end(), second.sources.begin(), second.sources.end());
    Source &between = step.sources[first.sources.size() + size_t(secondChain.a)];
    between = Source();
    between.kind = Source::Value;
    between.value = -1;
    return std::make_pair(step, *chain);
  }
  Chain chain = firstChain;
  if (second.reducesChannels && second.reduceOp == isa::WindowOp::Max && keepsOrder(firstChain)) {
    // The maximum's own type is what enters, and the chain follows it.
  } else if (second.reducesChannels && second.reduceOp == isa::WindowOp::Sum && isSquare(firstChain)) {
    step.reduceOp = isa::WindowOp::SumSquares;
    chain.stages.clear();
  } else {
    return std::nullopt;
  }
  chain.dType = secondChain.dType;
  return std::make_pair(step, chain);
}

/// An element-by-element step goes where each of its readers can do its work in its own instruction: its values are then neither
/// written nor read back.
void joinChains(Kernel &kernel, std::vector<Chain> &chains, size_t maxStages) {
  std::vector<Step> &steps = kernel.steps;
  // What a window gives is there for one instruction alone, and where it has weights these are B. So is what pairs of rows add up to.
  const bool hasWindow = kernel.maxima || (kernel.anchor && kernel.anchor->kind != Anchor::Contraction);
  const bool isReadOnce = hasWindow || (kernel.anchor && kernel.anchor->pairsRows);
  for (size_t i = 0; i + 1 < steps.size();) {
    std::vector<size_t> readers;
    for (size_t k = i + 1; k < steps.size(); ++k)
      if (llvm::any_of(steps[k].sources, [&](const Source &s) { return s.kind == Source::Value && s.value == int(i); }))
        readers.push_back(k);
    bool isDone = isElementwise(steps[i]) && !readers.empty();
    if (isReadOnce && i == 0)
      isDone &= readers == std::vector<size_t>{1} && isElementwise(steps[1]) && (!hasWindow || chains[1].b < 0);
    std::vector<std::pair<Step, Chain>> joined;
    for (size_t k = 0; isDone && k < readers.size(); ++k) {
      auto both = takeIn(steps[i], chains[i], int(i), steps[readers[k]], chains[readers[k]], maxStages);
      isDone = both.has_value();
      if (isDone)
        joined.push_back(std::move(*both));
    }
    if (!isDone) {
      ++i;
      continue;
    }
    for (auto [reader, both] : llvm::zip(readers, joined))
      std::tie(steps[reader], chains[reader]) = both;
    steps.erase(steps.begin() + long(i));
    chains.erase(chains.begin() + long(i));
    if (kernel.pool && *kernel.pool > i)
      --*kernel.pool;
    for (size_t k = i; k < steps.size(); ++k)
      for (Source &source : steps[k].sources)
        if (source.kind == Source::Value && source.value > int(i))
          --source.value;
  }
}
} // namespace

FailureOr<std::vector<Chain>> accel::chainsOf(Kernel &kernel, size_t maxStages) {
  std::vector<Chain> chains;
  std::vector<LaneType> resultTypes;
  for (const Step &step : kernel.steps) {
    std::vector<LaneType> types;
    for (const Source &source : step.sources)
      if (source.kind != Source::Value)
        types.push_back(source.type);
      else if (source.value >= 0)
        types.push_back(resultTypes[size_t(source.value)]);
      else // A maximum keeps the sign of what it compares.
        types.push_back(kernel.anchor->windowOp == isa::WindowOp::Max ? kernel.anchor->inputType : kernel.anchor->resultType);
    Chain chain;
    if (step.reducesChannels || step.sumsPositions || !step.op) {
      chain.a = 0;
      // What a reduction takes bytes for is in its body alone.
      const bool isByte = step.reducesChannels && byteSize(types[0]) == 1 && byteSize(step.sources[0].type) == 1;
      chain.aType = step.sumsPositions || isByte ? step.sources[0].type : types[0];
      chain.aZero = step.zero;
      chain.dType = step.type;
    } else {
      FailureOr<Chain> built = buildChain(step, types);
      if (failed(built))
        return failure();
      chain = *built;
    }
    resultTypes.push_back(chain.dType);
    chains.push_back(std::move(chain));
  }
  joinChains(kernel, chains, maxStages);
  return chains;
}
