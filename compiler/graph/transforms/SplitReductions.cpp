//===- SplitReductions.cpp - Reductions that no scratchpad holds ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The accelerator takes a window, or a row that it reduces, from one tile. What
// is larger than the scratchpad becomes reductions of parts and one of their
// results.
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace tw::graph {

#define GEN_PASS_DEF_SPLITREDUCTIONSPASS
#include "compiler/graph/transforms/Passes.h.inc"

namespace {

/// Bytes that a tile needs beside what it reduces: a result, in a burst of its own.
constexpr int64_t kResultBytes = 64;

struct Machine {
  int64_t columns;    ///< lanes of a vector
  int64_t scratchpad; ///< bytes of the first one
  bool isBfloat;      ///< floats lie there in 16 bits
  bool overlaps;      ///< a tile that has little room is computed in place

  int64_t bytesOf(Type element) const {
    const int64_t bits = element.getIntOrFloatBitWidth();
    return std::max<int64_t>(1, (isBfloat && isa<FloatType>(element) ? std::min<int64_t>(bits, 16) : bits) / 8);
  }
  bool holds(int64_t bytes) const { return bytes + kResultBytes <= scratchpad; }
  /// Whether two tiles have room at once.
  bool holdsTwo(int64_t bytes) const { return holds(2 * bytes); }
};

/// The largest divisor of `size` for which `fits`; 0 if there is none but 1.
int64_t largestDivisor(int64_t size, llvm::function_ref<bool(int64_t)> fits) {
  int64_t best = 0;
  for (int64_t small = 1; small * small <= size; ++small)
    if (size % small == 0)
      for (int64_t divisor : {small, size / small})
        if (divisor > std::max<int64_t>(best, 1) && fits(divisor))
          best = divisor;
  return best;
}

RankedTensorType withShape(Value value, ArrayRef<int64_t> shape) { return RankedTensorType::get(shape, elementOf(value)); }

/// The numbers of a row of `count` that are reduced at a time, so that it has a whole number of such parts; 0 if there are none. Two parts have
/// room, of `bytes` a number.
int64_t rowPart(int64_t count, int64_t bytes, const Machine &machine) {
  return largestDivisor(count, [&](int64_t part) { return machine.holdsTwo(part * bytes); });
}

/// Height and width of a window that is taken first. Their results are taken in a second window.
struct Part {
  int64_t height = 1, width = 1;
};

/// The largest part of a window of which the scratchpad holds two, so that the window has a whole number of them: parts lie side by side, where
/// windows begin at multiples of a part, or there is one window.
std::optional<Part> tiledPart(ArrayRef<int64_t> kernel, ArrayRef<int64_t> strides, ArrayRef<int64_t> results,
                              int64_t pixelBytes, const Machine &machine) {
  auto isMultiple = [&](unsigned axis, int64_t size) { return results[axis] == 1 || strides[axis] % size == 0; };
  Part part;
  part.width = std::max<int64_t>(1, largestDivisor(kernel[1], [&](int64_t width) {
                                   return isMultiple(1, width) && machine.holdsTwo(width * pixelBytes);
                                 }));
  if (part.width == kernel[1])
    part.height = std::max<int64_t>(1, largestDivisor(kernel[0], [&](int64_t height) {
                                      return isMultiple(0, height) && machine.holdsTwo(height * part.width * pixelBytes);
                                    }));
  if (part.height * part.width == 1)
    return std::nullopt;
  return part;
}

/// max_pool and average_pool: a window of windows.
template <typename PoolT> struct SplitPool : OpRewritePattern<PoolT> {
  SplitPool(MLIRContext *context, const Machine &machine) : OpRewritePattern<PoolT>(context), machine(machine) {}

  LogicalResult matchAndRewrite(PoolT op, PatternRewriter &rewriter) const override {
    const bool isNhwc = op.getLayout() == "nhwc";
    ArrayRef<int64_t> kernel = op.getKernel(), strides = op.getStrides(), pads = op.getPads(), x = shapeOf(op.getX());
    SmallVector<int64_t> y(shapeOf(op));
    int64_t *const image = y.data() + (isNhwc ? 1 : 2); // height and width
    const int64_t pixelBytes = machine.columns * machine.bytesOf(elementOf(op.getX()));
    const bool isPadded = llvm::any_of(pads, [](int64_t pad) { return pad != 0; });
    if (machine.holds(kernel[0] * kernel[1] * pixelBytes) || x.size() != 4)
      return failure();
    SmallVector<int64_t> firstPads{0, 0, 0, 0}, secondPads = firstPads, firstStrides, secondStrides;
    std::optional<Part> part;
    if (!isPadded && isDense(op))
      part = tiledPart(kernel, strides, {image[0], image[1]}, pixelBytes, machine);
    if (part) {
      firstStrides = {part->height, part->width};
      for (unsigned axis : {0u, 1u}) { // where there is one window, its stride may be that of the next one outside
        const int64_t parts = x[isNhwc ? 1 + axis : 2 + axis] / firstStrides[axis];
        secondStrides.push_back(image[axis] == 1 ? parts : strides[axis] / firstStrides[axis]);
        image[axis] = parts;
      }
    } else {
      // Rows of a window, then their results below one another. A mean of parts that the border cuts is none.
      if (kernel[0] == 1 || kernel[1] == 1 || !machine.holds(kernel[1] * pixelBytes) || !isSeparable(op))
        return failure();
      part = Part{1, kernel[1]};
      firstStrides = {1, strides[1]};
      secondStrides = {strides[0], 1};
      firstPads = {0, pads[1], 0, pads[3]};
      secondPads = {pads[0], 0, pads[2], 0};
      image[0] = x[isNhwc ? 1 : 2];
    }
    const Value first = create(rewriter, op, op.getX(), y, {part->height, part->width}, firstStrides, firstPads);
    const Value second = create(rewriter, op, first, shapeOf(op), {kernel[0] / part->height, kernel[1] / part->width},
                                secondStrides, secondPads);
    rewriter.replaceOp(op, second);
    return success();
  }

private:
  static bool isDense(MaxPoolOp op) {
    return llvm::all_of(op.getDilations(), [](int64_t dilation) { return dilation == 1; });
  }
  static bool isDense(AveragePoolOp) { return true; }
  /// The largest number of nothing is no number: a window must have a pixel in every row.
  static bool isSeparable(MaxPoolOp op) {
    return isDense(op) && std::max(op.getPads()[1], op.getPads()[3]) < op.getKernel()[1];
  }
  static bool isSeparable(AveragePoolOp op) {
    return llvm::all_of(op.getPads(), [](int64_t pad) { return pad == 0; });
  }
  static Value create(PatternRewriter &rewriter, MaxPoolOp op, Value x, ArrayRef<int64_t> shape, ArrayRef<int64_t> kernel,
                      ArrayRef<int64_t> strides, ArrayRef<int64_t> pads) {
    return rewriter.create<MaxPoolOp>(op.getLoc(), withShape(x, shape), x, kernel, strides, pads, op.getDilations(),
                                      op.getLayout());
  }
  static Value create(PatternRewriter &rewriter, AveragePoolOp op, Value x, ArrayRef<int64_t> shape, ArrayRef<int64_t> kernel,
                      ArrayRef<int64_t> strides, ArrayRef<int64_t> pads) {
    return rewriter.create<AveragePoolOp>(op.getLoc(), withShape(x, shape), x, kernel, strides, pads, op.getCountIncludePad(),
                                          op.getLayout());
  }

  const Machine &machine;
};

/// reduce over dim 1 of [outer, reduced] or [outer, reduced, inner], as graph-decompose-ops leaves it.
struct SplitReduce : OpRewritePattern<ReduceOp> {
  SplitReduce(MLIRContext *context, const Machine &machine, bool ofMaxima)
      : OpRewritePattern(context), machine(machine), ofMaxima(ofMaxima) {}

  LogicalResult matchAndRewrite(ReduceOp op, PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> x = shapeOf(op.getX());
    if (op.getKeepdims() || op.getAxes() != ArrayRef<int64_t>{1} || (x.size() != 2 && x.size() != 3))
      return failure();
    if ((op.getKind() == "max") != ofMaxima || (op.getKind() == "mean" && !isa<FloatType>(elementOf(op))))
      return failure(); // means of integers are rounded
    const int64_t size = machine.bytesOf(elementOf(op)) * (x.size() == 3 ? machine.columns : 1);
    if (machine.holds(x[1] * size))
      return failure();
    const int64_t part = rowPart(x[1], size, machine);
    if (part == 0)
      return failure();
    SmallVector<int64_t> parts(x), results(x);
    parts[0] = x[0] * (x[1] / part);
    parts[1] = part;
    results[1] = x[1] / part;
    SmallVector<int64_t> reduced(parts);
    reduced.erase(reduced.begin() + 1);
    Value first = createReshape(rewriter, op.getLoc(), op.getX(), parts);
    first = rewriter.create<ReduceOp>(op.getLoc(), withShape(first, reduced), first, op.getKind(), op.getAxes(), false);
    first = createReshape(rewriter, op.getLoc(), first, results);
    rewriter.replaceOpWithNewOp<ReduceOp>(op, op.getType(), first, op.getKind(), op.getAxes(), false);
    return success();
  }

private:
  const Machine &machine;
  const bool ofMaxima;
};

/// softmax along the last dim: its definition, op by op.
struct SplitSoftmax : OpRewritePattern<SoftmaxOp> {
  SplitSoftmax(MLIRContext *context, const Machine &machine) : OpRewritePattern(context), machine(machine) {}

  LogicalResult matchAndRewrite(SoftmaxOp op, PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> shape = shapeOf(op);
    const int64_t rank = int64_t(shape.size());
    if (int64_t(op.getAxis()) != rank - 1)
      return failure();
    // A row of x, one of exponentials in 32 bits, and one of results, which takes the place of x where it must.
    const int64_t columns = shape.back(), size = machine.bytesOf(elementOf(op));
    if (machine.holds(columns * (size + 4 + (machine.overlaps ? 0 : size)) + kResultBytes))
      return failure();
    if (!machine.holds(columns * size) && rowPart(columns, size, machine) == 0)
      return failure();
    Location loc = op.getLoc();
    const int64_t rows = tensorOf(op).getNumElements() / columns;
    Value x = createReshape(rewriter, loc, op.getX(), {rows, columns});
    auto reduced = [&](Value value, StringRef kind) {
      Value result = rewriter.create<ReduceOp>(loc, withShape(value, {rows}), value, kind, ArrayRef<int64_t>{1}, false);
      return createReshape(rewriter, loc, result, {rows, 1});
    };
    Value difference = rewriter.create<SubOp>(loc, x.getType(), x, reduced(x, "max"));
    Value exponential = rewriter.create<ExpOp>(loc, x.getType(), difference);
    Value quotient = rewriter.create<DivOp>(loc, x.getType(), exponential, reduced(exponential, "sum"));
    rewriter.replaceOp(op, createReshape(rewriter, loc, quotient, shape));
    return success();
  }

private:
  const Machine &machine;
};

struct SplitReductionsPass : impl::SplitReductionsPassBase<SplitReductionsPass> {
  using SplitReductionsPassBase::SplitReductionsPassBase;
  SplitReductionsPass(const SplitReductionsPassOptions &options, RuleRecorder recorder)
      : SplitReductionsPassBase(options), recorder(std::move(recorder)) {}

  void runOnOperation() override {
    const Machine machine{columns, scratchpad, array == "bf16", overlaps};
    RewritePatternSet patterns(&getContext());
    patterns.addWithLabel<SplitPool<MaxPoolOp>>({"maximum-in-parts"}, &getContext(), machine);
    patterns.addWithLabel<SplitReduce>({"maximum-in-parts"}, &getContext(), machine, /*ofMaxima=*/true);
    patterns.addWithLabel<SplitPool<AveragePoolOp>>({"sum-in-parts"}, &getContext(), machine);
    patterns.addWithLabel<SplitReduce>({"sum-in-parts"}, &getContext(), machine, /*ofMaxima=*/false);
    patterns.addWithLabel<SplitSoftmax>({"softmax-in-parts"}, &getContext(), machine);
    if (failed(rewriteToEnd(getOperation(), std::move(patterns), recorder)))
      signalPassFailure();
    recorder.finish();
  }

private:
  RuleRecorder recorder;
};

} // namespace

std::unique_ptr<Pass> createSplitReductionsPass(const SplitReductionsPassOptions &options, const RuleRecorder &recorder) {
  return std::make_unique<SplitReductionsPass>(options, recorder);
}

} // namespace tw::graph
