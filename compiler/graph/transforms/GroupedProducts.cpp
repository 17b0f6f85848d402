//===- GroupedProducts.cpp - Products of groups of matrices ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/graph/transforms/GroupedProducts.h"

#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Rewriting.h"

#include <numeric>

using namespace mlir;

namespace tw::graph {

namespace {
bool isOnes(Value value) {
  auto dense = dyn_cast_or_null<DenseElementsAttr>(constantOf(value));
  if (!dense || !dense.isSplat())
    return false;
  if (isa<FloatType>(dense.getElementType()))
    return dense.getSplatValue<APFloat>().isExactlyValue(1);
  return dense.getSplatValue<APInt>().isOne();
}

int64_t productOf(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>());
}

/// The dims of a repeated tensor behind reshapes and transposes: each a product of dims of that tensor, outermost first.
class RepeatedDims {
public:
  explicit RepeatedDims(const Repeat &repeat, ArrayRef<int64_t> shape) : axis(repeat.axis), sizes(shape) {
    for (int64_t i = 0; i < int64_t(shape.size()); ++i)
      dims.push_back(shape[size_t(i)] == 1 ? SmallVector<int64_t>() : SmallVector<int64_t>{i});
  }

  void transpose(ArrayRef<int64_t> perm) {
    SmallVector<SmallVector<int64_t>> moved;
    for (int64_t dim : perm)
      moved.push_back(dims[size_t(dim)]);
    dims = std::move(moved);
  }

  /// False if a dim of the tensor would be split.
  bool reshape(ArrayRef<int64_t> shape) {
    SmallVector<int64_t> all = joined(dims.size());
    dims.assign(shape.size(), {});
    size_t next = 0;
    for (auto [dim, size] : llvm::zip_equal(dims, shape)) {
      int64_t left = size;
      for (; left > 1 && next < all.size() && left % sizes[size_t(all[next])] == 0; ++next) {
        dim.push_back(all[next]);
        left /= sizes[size_t(all[next])];
      }
      if (left != 1)
        return false;
    }
    return next == all.size();
  }

  /// Whether the repeated dim is the innermost part of the first `count` dims.
  bool endsFirst(size_t count) const {
    const SmallVector<int64_t> all = joined(count);
    return !all.empty() && all.back() == axis;
  }

  /// The shape without repetition.
  SmallVector<int64_t> shapeOnce() const {
    SmallVector<int64_t> shape;
    for (const SmallVector<int64_t> &dim : dims) {
      int64_t size = 1;
      for (int64_t part : dim)
        size *= part == axis ? 1 : sizes[size_t(part)];
      shape.push_back(size);
    }
    return shape;
  }

private:
  const int64_t axis;
  const SmallVector<int64_t> sizes;
  SmallVector<SmallVector<int64_t>> dims;

  SmallVector<int64_t> joined(size_t count) const {
    SmallVector<int64_t> all;
    for (size_t i = 0; i < count; ++i)
      llvm::append_range(all, dims[i]);
    return all;
  }
};

template <typename OpT> struct GroupProduct : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const override {
    if constexpr (std::is_same_v<OpT, MatmulIntegerOp>)
      if (op.getBZeroPoints().size() != 1)
        return failure();
    SmallVector<Operation *> views; // innermost last
    Operation *maker = op.getB().getDefiningOp();
    for (; isa_and_nonnull<ReshapeOp, TransposeOp>(maker); maker = maker->getOperand(0).getDefiningOp())
      views.push_back(maker);
    const std::optional<Repeat> repeat = maker ? repeatOf(maker) : std::nullopt;
    const SmallVector<int64_t> a(shapeOf(op.getA())), b(shapeOf(op.getB()));
    if (!repeat || a.size() != b.size() || b.size() < 3)
      return failure();
    const size_t batch = b.size() - 2;
    if (a[batch] != 1) // a mask of several rows would be repeated instead
      return failure();
    RepeatedDims dims(*repeat, shapeOf(maker->getResult(0)));
    SmallVector<SmallVector<int64_t>> shapes; // per view, without repetition
    for (Operation *view : llvm::reverse(views)) {
      if (auto transpose = dyn_cast<TransposeOp>(view))
        dims.transpose(transpose.getPerm());
      else if (!dims.reshape(shapeOf(view->getResult(0))))
        return failure();
      shapes.push_back(dims.shapeOnce());
    }
    if (!dims.endsFirst(batch) || ArrayRef(a).take_front(batch) != ArrayRef(b).take_front(batch))
      return failure();
    Value once = repeat->x;
    for (auto [view, shape] : llvm::zip_equal(llvm::reverse(views), shapes)) {
      auto transpose = dyn_cast<TransposeOp>(view);
      once = transpose ? createTranspose(rewriter, view->getLoc(), once, transpose.getPerm())
                       : createReshape(rewriter, view->getLoc(), once, shape);
    }
    const Location loc = op.getLoc();
    const int64_t matrices = productOf(ArrayRef(b).take_front(batch)) / repeat->times, rows = repeat->times;
    Value x = createReshape(rewriter, loc, op.getA(), {matrices, rows, a[batch + 1]});
    Value w = createReshape(rewriter, loc, once, {matrices, b[batch], b[batch + 1]});
    const auto type = tensorOf(op.getY()).clone({matrices, rows, b[batch + 1]});
    Value y;
    if constexpr (std::is_same_v<OpT, MatmulIntegerOp>)
      y = rewriter.create<OpT>(loc, type, x, w, op.getAZeroPoint(), op.getBZeroPoints());
    else
      y = rewriter.create<OpT>(loc, type, x, w);
    rewriter.replaceOp(op, createReshape(rewriter, loc, y, shapeOf(op.getY())));
    return success();
  }
};
/// softmax(reshape(x)) of the rows of a grouped product: reshape(softmax(x)), which stays in the product's kernel.
struct SoftmaxOfGroups : OpRewritePattern<SoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SoftmaxOp op, PatternRewriter &rewriter) const override {
    Value x = op.getX();
    for (auto reshape = x.getDefiningOp<ReshapeOp>(); reshape && reshape->hasOneUse(); reshape = x.getDefiningOp<ReshapeOp>())
      x = reshape.getX();
    const ArrayRef<int64_t> shape = shapeOf(op.getX()), rows = shapeOf(x);
    if (x == op.getX() || shape.size() != 3 || rows.size() != 3 || rows == shape || op.getAxis() != 2 || rows[2] != shape[2])
      return failure();
    Operation *maker = x.getDefiningOp();
    while (maker && isElementwise(maker) && maker->hasOneUse())
      maker = maker->getOperand(0).getDefiningOp();
    if (!isa_and_nonnull<MatmulOp, MatmulIntegerOp>(maker))
      return failure();
    Value y = rewriter.create<SoftmaxOp>(op.getLoc(), x.getType(), x, op.getAxis());
    rewriter.replaceOp(op, createReshape(rewriter, op.getLoc(), y, shape));
    return success();
  }
};
} // namespace

std::optional<Repeat> repeatOf(Operation *op) {
  if (auto concat = dyn_cast<ConcatOp>(op)) {
    const int64_t axis = int64_t(concat.getAxis()), times = int64_t(concat.getInputs().size());
    if (times < 2 || !llvm::all_equal(concat.getInputs()) || shapeOf(concat.getInputs()[0])[size_t(axis)] != 1)
      return std::nullopt;
    return Repeat{concat.getInputs()[0], axis, times};
  }
  auto mul = dyn_cast<MulOp>(op);
  if (!mul)
    return std::nullopt;
  const ArrayRef<int64_t> to = shapeOf(op->getResult(0));
  for (unsigned i = 0; i < 2; ++i) {
    const Value x = mul->getOperand(i);
    if (!isOnes(mul->getOperand(1 - i)) || shapeOf(x).size() != to.size())
      continue;
    std::optional<Repeat> repeat;
    for (auto [axis, sizes] : llvm::enumerate(llvm::zip_equal(shapeOf(x), to))) {
      const auto [from, size] = sizes;
      if (from == size)
        continue;
      if (repeat)
        return std::nullopt;
      repeat = {x, int64_t(axis), size};
    }
    if (repeat)
      return repeat;
  }
  return std::nullopt;
}

void populateGroupedProductPatterns(RewritePatternSet &patterns) {
  patterns.addWithLabel<GroupProduct<MatmulOp>, GroupProduct<MatmulIntegerOp>>({"product-of-repeated"}, patterns.getContext());
  patterns.add<SoftmaxOfGroups>(patterns.getContext());
}

} // namespace tw::graph
