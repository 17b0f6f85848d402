//===- StructuralRules.cpp - Rules that no pattern of DRR expresses -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rules of Rules.td whose sources have any number of operands, attributes that
// hang on one another, or ops of several kinds.
//===----------------------------------------------------------------------===//
#include "compiler/graph/GraphShapes.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "compiler/graph/transforms/Rules.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include <numeric>

using namespace mlir;

namespace tw::graph {

#define GET_RULE_FUNCTIONS
#include "compiler/graph/transforms/RuleTable.inc"

namespace {

//===----------------------------------------------------------------------===//
// Pools and reductions
//===----------------------------------------------------------------------===//

/// A reduction of what a reduction of its kind alone makes: one over the axes of both.
struct ReductionOfReduction : OpRewritePattern<ReduceOp> {
  using Predicate = bool (*)(StringRef kind, Type element);
  ReductionOfReduction(MLIRContext *context, Predicate isMerged) : OpRewritePattern(context), isMerged(isMerged) {}

  LogicalResult matchAndRewrite(ReduceOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getX().getDefiningOp<ReduceOp>();
    if (!inner || !inner->hasOneUse() || inner.getKind() != op.getKind() || !isMerged(op.getKind(), elementOf(op)))
      return failure();
    SmallVector<int64_t> axes(inner.getAxes()), left; // dims of x that are those of the inner result
    for (int64_t dim = 0; dim < int64_t(shapeOf(inner.getX()).size()); ++dim)
      if (inner.getKeepdims() || !llvm::is_contained(inner.getAxes(), dim))
        left.push_back(dim);
    for (int64_t axis : op.getAxes())
      if (!llvm::is_contained(axes, left[size_t(axis)]))
        axes.push_back(left[size_t(axis)]);
    llvm::sort(axes);
    Location loc = fuseLocations({inner, op});
    const auto shape = llvm::cantFail(reduceShape(shapeOf(inner.getX()), axes, op.getKeepdims()));
    Value y = rewriter.create<ReduceOp>(loc, tensorOf(op).clone(shape), inner.getX(), op.getKind(), axes, op.getKeepdims());
    rewriter.replaceOp(op, createReshape(rewriter, loc, y, shapeOf(op))); // one keeps dims of 1, the other does not
    return success();
  }

private:
  Predicate isMerged;
};

/// max_pool(transpose(x)) -> transpose(max_pool(x)): a pool tells its batch from its channels in nothing.
struct PoolOfTranspose : OpRewritePattern<MaxPoolOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MaxPoolOp op, PatternRewriter &rewriter) const override {
    auto transpose = op.getX().getDefiningOp<TransposeOp>();
    if (!transpose || !transpose->hasOneUse())
      return failure();
    ArrayRef<int64_t> perm = transpose.getPerm();
    const size_t height = op.getLayout() == "nhwc" ? 1 : 2;
    const int64_t first = std::min(perm[height], perm[height + 1]);
    if (std::max(perm[height], perm[height + 1]) != first + 1 || first == 0)
      return failure();
    const bool isSwapped = perm[height] > perm[height + 1];
    auto along = [&](ArrayRef<int64_t> values) { // rows and columns, once or twice
      SmallVector<int64_t> result(values);
      for (size_t i = 0; isSwapped && i < result.size(); i += 2)
        std::swap(result[i], result[i + 1]);
      return result;
    };
    SmallVector<int64_t> shape(perm.size());
    for (auto [dim, size] : llvm::zip(perm, shapeOf(op)))
      shape[size_t(dim)] = size;
    Location loc = fuseLocations({transpose, op});
    Value pool = rewriter.create<MaxPoolOp>(loc, tensorOf(op).clone(shape), transpose.getX(), along(op.getKernel()),
                                            along(op.getStrides()), along(op.getPads()), along(op.getDilations()),
                                            first == 1 ? "nhwc" : "nchw");
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), pool, perm)->setLoc(loc);
    return success();
  }
};

/// max_pool(dequantize(x)) -> dequantize(max_pool(x)), as scales are positive. graph-convert-qdq wants to see a pool between dequantize and quantize.
struct PoolOfDequantize : OpRewritePattern<MaxPoolOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MaxPoolOp op, PatternRewriter &rewriter) const override {
    auto wide = op.getX().getDefiningOp<DequantizeOp>();
    if (!wide || !wide->hasOneUse() || !isEightBit(elementOf(wide.getX())) ||
        !seesPixels(op.getKernel(), op.getPads(), op.getDilations()) ||
        llvm::any_of(op->getUsers(), [](Operation *user) { return isa<QuantizeOp>(user); }))
      return failure();
    const int64_t channels = op.getLayout() == "nhwc" ? 3 : 1;
    if (hasChannelAxis(wide) && int64_t(wide.getAxis()) != channels)
      return failure();
    Location loc = fuseLocations({wide, op});
    Value pool = rewriter.create<MaxPoolOp>(loc, tensorOf(op).clone(elementOf(wide.getX())), wide.getX(), op.getKernel(),
                                            op.getStrides(), op.getPads(), op.getDilations(), op.getLayout());
    rewriter.replaceOpWithNewOp<DequantizeOp>(op, op.getType(), pool, wide.getScales(), wide.getZeroPoints(), wide.getAxis())
        ->setLoc(loc);
    return success();
  }
};

/// reduce sum(x << s) -> reduce sum(x) << s, s one number: both are products by 2^s modulo the width.
struct ShiftOutOfSum : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op, PatternRewriter &rewriter) const override {
    auto shift = op.getX().getDefiningOp<ElementwiseOp>();
    if (op.getKind() != "sum" || !shift || !shift->hasOneUse() || shift.getFunction() != Function::ShiftLeft ||
        shift.getX()[0].getType() != shift.getType() || tensorOf(shift.getX()[1]).getNumElements() != 1)
      return failure();
    Location loc = fuseLocations({shift, op});
    Value sum = rewriter.create<ReduceOp>(loc, op.getType(), shift.getX()[0], op.getKind(), op.getAxes(), op.getKeepdims());
    Value bits = createReshape(rewriter, loc, shift.getX()[1], {});
    rewriter.replaceOpWithNewOp<ElementwiseOp>(op, op.getType(), shift.getFunctionAttr(), ValueRange{sum, bits})->setLoc(loc);
    return success();
  }
};

/// The same of ONNX ReduceSum of types that are a graph.fallback, as all are that ONNX shifts.
struct ShiftOutOfFallbackSum : OpRewritePattern<FallbackOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(FallbackOp op, PatternRewriter &rewriter) const override {
    if (op.getOnnxOp() != "ReduceSum" || !op.getDomain().empty() || op.getInputs().empty() || op.getNumResults() != 1)
      return failure();
    auto shift = op.getInputs()[0].getDefiningOp<ElementwiseOp>();
    if (!shift || !shift->hasOneUse() || shift.getFunction() != Function::ShiftLeft ||
        shift.getX()[0].getType() != shift.getType() || tensorOf(shift.getX()[1]).getNumElements() != 1)
      return failure();
    Location loc = fuseLocations({shift, op});
    IRMapping mapping;
    mapping.map(op.getInputs()[0], shift.getX()[0]);
    Operation *sum = rewriter.clone(*op, mapping);
    Value bits = createReshape(rewriter, loc, shift.getX()[1], {});
    rewriter
        .replaceOpWithNewOp<ElementwiseOp>(op, op.getResult(0).getType(), shift.getFunctionAttr(),
                                           ValueRange{sum->getResult(0), bits})
        ->setLoc(loc);
    return success();
  }
};

/// ONNX ReduceProd, which is a graph.fallback, of exp(x) -> exp(reduce sum(x)).
struct ProductReduction : OpRewritePattern<FallbackOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(FallbackOp op, PatternRewriter &rewriter) const override {
    if (op.getOnnxOp() != "ReduceProd" || !op.getDomain().empty() || op.getInputs().empty() || op.getNumResults() != 1)
      return failure();
    auto exp = op.getInputs()[0].getDefiningOp<ExpOp>();
    if (!exp || !exp->hasOneUse() || elementOf(op.getResult(0)) != elementOf(exp))
      return failure();
    const int64_t rank = int64_t(shapeOf(exp).size());
    auto numberOf = [&](StringRef name, int64_t otherwise) {
      auto number = op.getNodeAttributes().getAs<IntegerAttr>(name);
      return number ? number.getInt() : otherwise;
    };
    SmallVector<int64_t> axes;
    if (auto given = op.getNodeAttributes().getAs<DenseI64ArrayAttr>("axes")) {
      axes.assign(given.asArrayRef().begin(), given.asArrayRef().end());
    } else if (op.getInputs().size() > 1) {
      ElementsAttr constant = constantOf(op.getInputs()[1]);
      if (!constant)
        return failure();
      llvm::append_range(axes, readIntegers(constant));
    }
    if (axes.empty() && numberOf("noop_with_empty_axes", 0))
      return failure();
    if (axes.empty())
      axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    for (int64_t &axis : axes)
      axis += axis < 0 ? rank : 0;
    llvm::sort(axes);
    Location loc = fuseLocations({exp, op});
    Value sum =
        rewriter.create<ReduceOp>(loc, op.getResult(0).getType(), exp.getX(), "sum", axes, numberOf("keepdims", 1) != 0);
    rewriter.replaceOp(op, rewriter.create<ExpOp>(loc, sum));
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

/// (a x b) x c -> a x (b x c) and back, matrices, where that takes fewer multiplications; a product of constants takes none.
struct ProductChain : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    for (unsigned side : {0, 1}) {
      auto inner = op->getOperand(side).getDefiningOp<MatmulOp>();
      if (!inner || !inner->hasOneUse())
        continue;
      Value a = side == 0 ? inner.getA() : op.getA(), b = side == 0 ? inner.getB() : inner.getA(),
            c = side == 0 ? op.getB() : inner.getB();
      if (llvm::any_of(ArrayRef<Value>{a, b, c}, [](Value x) { return shapeOf(x).size() != 2; }))
        continue;
      const int64_t m = shapeOf(a)[0], k = shapeOf(a)[1], n = shapeOf(b)[1], p = shapeOf(c)[1];
      const int64_t right = costOf(b, c, k * n * p) + m * k * p, left = costOf(a, b, m * k * n) + m * n * p;
      if (side == 0 ? right >= left : left >= right)
        continue;
      Location loc = fuseLocations({inner, op});
      auto multiply = [&](Value x, Value y) -> Value {
        auto type = RankedTensorType::get({shapeOf(x)[0], shapeOf(y)[1]}, elementOf(op));
        return rewriter.create<MatmulOp>(loc, type, x, y);
      };
      rewriter.replaceOp(op, side == 0 ? multiply(a, multiply(b, c)) : multiply(multiply(a, b), c));
      return success();
    }
    return failure();
  }

private:
  /// Multiplications of x x y at run time.
  static int64_t costOf(Value x, Value y, int64_t macs) {
    return constantOf(x) && constantOf(y) && macs <= kMostFolded ? 0 : macs;
  }
};

/// The ops of op's kind that have its first operand too, in the order of the block, if op is the first of them and there are others.
template <typename OpT> SmallVector<OpT> siblingsOf(OpT op, llvm::function_ref<bool(OpT)> isAlike) {
  constexpr size_t kMostSiblings = 16, kMostUsers = 64;
  SmallVector<OpT> siblings;
  size_t users = 0;
  for (Operation *user : op->getOperand(0).getUsers()) {
    auto other = dyn_cast<OpT>(user);
    if (other && other->getBlock() == op->getBlock() && other->getOperand(0) == op->getOperand(0) && isAlike(other) &&
        !llvm::is_contained(siblings, other))
      siblings.push_back(other);
    if (siblings.size() == kMostSiblings || ++users == kMostUsers)
      break;
  }
  llvm::sort(siblings, [](OpT a, OpT b) { return a->isBeforeInBlock(b); });
  if (siblings.size() < 2 || siblings.front() != op)
    return {};
  return siblings;
}

/// The constants of `values` one behind the other along `axis`, in front of the next op.
Value concatenated(PatternRewriter &rewriter, Location loc, ArrayRef<Value> values, int64_t axis) {
  SmallVector<Value> copies;
  SmallVector<int64_t> shape(shapeOf(values[0]));
  shape[size_t(axis)] = 0;
  for (Value value : values) { // they may stand behind that op
    copies.push_back(rewriter.create<ConstantOp>(value.getLoc(), constantOf(value)));
    shape[size_t(axis)] += shapeOf(value)[size_t(axis)];
  }
  return rewriter.create<ConcatOp>(loc, tensorOf(values[0]).clone(shape), copies, axis);
}

/// Replaces each of `ops` by its part of `whole` along `axis`.
template <typename OpT> void replaceBySlices(PatternRewriter &rewriter, ArrayRef<OpT> ops, Value whole, int64_t axis) {
  SmallVector<int64_t> starts(shapeOf(whole).size(), 0), steps(starts.size(), 1);
  SmallVector<Value> slices;
  for (OpT op : ops) {
    slices.push_back(rewriter.create<SliceOp>(op->getLoc(), op.getType(), whole, starts, steps));
    starts[size_t(axis)] += shapeOf(op)[size_t(axis)];
  }
  for (auto [op, slice] : llvm::zip_equal(ops, slices)) // the rewriter stands in front of the first
    rewriter.replaceOp(op, slice);
}

template <typename OpT> Location locationOf(ArrayRef<OpT> ops) {
  SmallVector<Operation *> all(ops.begin(), ops.end());
  return fuseLocations(all);
}

/// a x b, a x c -> slices of a x [b c].
struct ParallelProducts : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    auto isAlike = [](MatmulOp other) {
      return constantOf(other.getB()) && !constantOf(other.getA()) && shapeOf(other.getB()).size() == 2 &&
             shapeOf(other.getA()).size() > 1;
    };
    SmallVector<MatmulOp> ops = siblingsOf<MatmulOp>(op, isAlike);
    if (ops.empty())
      return failure();
    Location loc = locationOf<MatmulOp>(ops);
    Value weights =
        concatenated(rewriter, loc, llvm::map_to_vector(ops, [](MatmulOp each) -> Value { return each.getB(); }), 1);
    SmallVector<int64_t> shape(shapeOf(op));
    shape.back() = shapeOf(weights)[1];
    Value whole = rewriter.create<MatmulOp>(loc, tensorOf(op).clone(shape), op.getA(), weights);
    replaceBySlices<MatmulOp>(rewriter, ops, whole, int64_t(shape.size()) - 1);
    return success();
  }
};

/// conv(x, v), conv(x, w) -> slices of conv(x, [v w]): 1x1, in one group, all with a bias or none.
struct ParallelConvolutions : OpRewritePattern<ConvOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConvOp op, PatternRewriter &rewriter) const override {
    auto isAlike = [&](ConvOp other) {
      return other.getLayout() == "nchw" && other.getGroup() == 1 && constantOf(other.getW()) &&
             shapeOf(other.getW())[2] == 1 && shapeOf(other.getW())[3] == 1 && elementOf(other) == elementOf(op) &&
             !other.getBias() == !op.getBias() && (!other.getBias() || constantOf(other.getBias())) &&
             other.getStrides() == op.getStrides() && other.getPads() == op.getPads();
    };
    SmallVector<ConvOp> ops = siblingsOf<ConvOp>(op, isAlike);
    if (ops.empty())
      return failure();
    Location loc = locationOf<ConvOp>(ops);
    Value weights = concatenated(rewriter, loc, llvm::map_to_vector(ops, [](ConvOp each) -> Value { return each.getW(); }), 0),
          bias;
    if (op.getBias())
      bias = concatenated(rewriter, loc, llvm::map_to_vector(ops, [](ConvOp each) -> Value { return each.getBias(); }), 0);
    SmallVector<int64_t> shape(shapeOf(op));
    shape[1] = shapeOf(weights)[0];
    Value whole = rewriter.create<ConvOp>(loc, tensorOf(op).clone(shape), op.getX(), weights, bias, op.getStrides(),
                                          op.getPads(), op.getDilations(), op.getGroup(), op.getLayout());
    replaceBySlices<ConvOp>(rewriter, ops, whole, 1);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Approximations
//===----------------------------------------------------------------------===//

/// x * (1 + erf(x / sqrt(2))) / 2, in any order of its factors -> x * sigmoid(1.702 * x).
struct GeluToSigmoid : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    SmallVector<Value> factors{op.getA(), op.getB()};
    SmallVector<Operation *> ops{op};
    for (Value factor : {op.getA(), op.getB()}) {
      auto inner = factor.getDefiningOp<MulOp>();
      if (!inner || !inner->hasOneUse() || factors.size() > 2)
        continue;
      llvm::erase(factors, factor);
      factors.append({inner.getA(), inner.getB()});
      ops.push_back(inner);
    }
    auto half = llvm::find_if(factors, [](Value factor) { return isAbout(factor, 0.5f); });
    if (factors.size() != 3 || half == factors.end())
      return failure();
    factors.erase(half);
    for (unsigned i : {0, 1}) {
      Value x = factors[i];
      if (x.getType() != op.getType() || !isOnePlusErf(factors[1 - i], x, ops))
        continue;
      Location loc = fuseLocations(ops);
      Value factor = rewriter.create<ConstantOp>(loc, makeFloats(RankedTensorType::get({}, elementOf(x)), {1.702f}));
      Value scaled = rewriter.create<MulOp>(loc, op.getType(), x, factor);
      Value sigmoid = rewriter.create<SigmoidOp>(loc, scaled);
      rewriter.replaceOpWithNewOp<MulOp>(op, op.getType(), x, sigmoid)->setLoc(loc);
      return success();
    }
    return failure();
  }

private:
  /// The constants of exporters are rounded to 16 bits at times.
  static bool isAbout(Value constant, float number) {
    std::optional<float> value = splatFloat(constant);
    return value && std::fabs(*value - number) < 1e-3f * number;
  }

  /// Whether `value` is 1 + erf(x / sqrt(2)); adds its ops.
  static bool isOnePlusErf(Value value, Value x, SmallVectorImpl<Operation *> &ops) {
    auto sum = value.getDefiningOp<AddOp>();
    if (!sum || !sum->hasOneUse())
      return false;
    for (unsigned i : {0, 1}) {
      auto erf = sum->getOperand(i).getDefiningOp<ErfOp>();
      if (!erf || !isAbout(sum->getOperand(1 - i), 1))
        continue;
      Operation *scaled = erf.getX().getDefiningOp();
      auto isScaled = [&](Value a, Value b) {
        return a == x && ((isa<MulOp>(scaled) && isAbout(b, 0.70710678f)) || (isa<DivOp>(scaled) && isAbout(b, 1.41421356f)));
      };
      if (!isa_and_nonnull<MulOp, DivOp>(scaled) ||
          !(isScaled(scaled->getOperand(0), scaled->getOperand(1)) ||
            (isa<MulOp>(scaled) && isScaled(scaled->getOperand(1), scaled->getOperand(0)))))
        continue;
      ops.append({sum, erf, scaled});
      return true;
    }
    return false;
  }
};

} // namespace

void addMaxOfMax(RewritePatternSet &patterns) {
  patterns.add<ReductionOfReduction>(patterns.getContext(), [](StringRef kind, Type) { return kind == "max"; });
}
void addSumOfSum(RewritePatternSet &patterns) {
  patterns.add<ReductionOfReduction>(patterns.getContext(),
                                     [](StringRef kind, Type element) { return kind != "max" && isa<FloatType>(element); });
}
void addSumOfIntegerSum(RewritePatternSet &patterns) { // a mean of integers is rounded in between
  patterns.add<ReductionOfReduction>(patterns.getContext(),
                                     [](StringRef kind, Type element) { return kind == "sum" && !isa<FloatType>(element); });
}
void addPoolOfTranspose(RewritePatternSet &patterns) { patterns.add<PoolOfTranspose>(patterns.getContext()); }
void addPoolOfDequantize(RewritePatternSet &patterns) { patterns.add<PoolOfDequantize>(patterns.getContext()); }
void addShiftOutOfSum(RewritePatternSet &patterns) {
  patterns.add<ShiftOutOfSum, ShiftOutOfFallbackSum>(patterns.getContext());
}
void addProductReduction(RewritePatternSet &patterns) { patterns.add<ProductReduction>(patterns.getContext()); }
void addProductChain(RewritePatternSet &patterns) { patterns.add<ProductChain>(patterns.getContext()); }
void addParallelProducts(RewritePatternSet &patterns) { patterns.add<ParallelProducts>(patterns.getContext()); }
void addParallelConvolutions(RewritePatternSet &patterns) { patterns.add<ParallelConvolutions>(patterns.getContext()); }
void addGeluToSigmoid(RewritePatternSet &patterns) { patterns.add<GeluToSigmoid>(patterns.getContext()); }

} // namespace tw::graph
