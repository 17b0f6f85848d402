//===- Contraction.cpp - Matrix products and convolutions in a kernel -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/Contraction.h"
#include "compiler/codegen/gpu/Elements.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tw;
using namespace tw::gpu;

std::vector<uint8_t> gpu::bytesOfConstant(Value constant) {
  Attribute value = constant.getDefiningOp<arith::ConstantOp>().getValue();
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    ArrayRef<char> data = resource.getRawHandle().getBlob()->getData();
    return {data.begin(), data.end()};
  }
  auto dense = cast<DenseElementsAttr>(value);
  std::vector<uint8_t> bytes;
  if (dense.getElementType().isInteger(1)) {
    for (bool element : dense.getValues<bool>())
      bytes.push_back(element);
    return bytes;
  }
  ArrayRef<char> data = dense.getRawData();
  for (int64_t i = 0, copies = dense.isSplat() ? dense.getNumElements() : 1; i < copies; ++i)
    bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

namespace {

/// The operand of a conversion to the type of sums; `value` itself if there is none.
Value widened(Value value) {
  Operation *op = value.getDefiningOp();
  return isa_and_nonnull<arith::ExtFOp, arith::ExtSIOp>(op) ? op->getOperand(0) : value;
}

/// The operand of a conversion, and the constant that is taken off it.
std::pair<Value, int64_t> shifted(Value value) {
  llvm::APInt zero;
  if (auto difference = value.getDefiningOp<arith::SubIOp>();
      difference && matchPattern(difference.getRhs(), m_ConstantInt(&zero)))
    return {widened(difference.getLhs()), zero.getSExtValue()};
  return {widened(value), 0};
}

bool isProductSum(linalg::LinalgOp op, int64_t &zeroPoint) {
  Block &block = *op.getBlock();
  Value yielded = block.getTerminator()->getOperand(0);
  Operation *sum = yielded.getDefiningOp();
  if (!isa_and_nonnull<arith::AddFOp, arith::AddIOp>(sum))
    return false;
  const BlockArgument out = block.getArgument(2);
  Value term = sum->getOperand(0) == out ? sum->getOperand(1) : sum->getOperand(0);
  Operation *product = term.getDefiningOp();
  if ((sum->getOperand(0) != out && sum->getOperand(1) != out) || !isa_and_nonnull<arith::MulFOp, arith::MulIOp>(product))
    return false;
  auto [x, zeroX] = shifted(product->getOperand(0));
  auto [y, zeroY] = shifted(product->getOperand(1));
  const BlockArgument a = block.getArgument(0), b = block.getArgument(1);
  zeroPoint = x == a ? zeroX : zeroY;
  return (x == a && y == b && !zeroY) || (x == b && y == a && !zeroX);
}

bool isZero(Value value) {
  if (auto fill = value.getDefiningOp<linalg::FillOp>())
    value = fill.value();
  return matchPattern(value, m_AnyZeroFloat()) || matchPattern(value, m_Zero());
}

/// An index `stride * outer + dilation * inner` of a window.
struct WindowIndex {
  unsigned outer, inner;
  int64_t stride = 1, dilation = 1;
};
std::optional<WindowIndex> windowIndex(AffineExpr expr) {
  auto sum = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!sum || expr.getKind() != AffineExprKind::Add)
    return std::nullopt;
  auto term = [](AffineExpr expr) -> std::optional<std::pair<unsigned, int64_t>> {
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      return std::pair{dim.getPosition(), int64_t(1)};
    auto product = dyn_cast<AffineBinaryOpExpr>(expr);
    if (!product || expr.getKind() != AffineExprKind::Mul)
      return std::nullopt;
    auto dim = dyn_cast<AffineDimExpr>(product.getLHS());
    auto factor = dyn_cast<AffineConstantExpr>(product.getRHS());
    return dim && factor ? std::optional(std::pair{dim.getPosition(), factor.getValue()}) : std::nullopt;
  };
  auto first = term(sum.getLHS()), second = term(sum.getRHS());
  return first && second ? std::optional(WindowIndex{first->first, second->first, first->second, second->second})
                         : std::nullopt;
}

Match no(const llvm::Twine &why) { return {std::nullopt, why.str()}; }

} // namespace

Contraction::Taps Contraction::tapsInside(int64_t output, int64_t stride, int64_t pad, int64_t dilation, int64_t taps,
                                          int64_t size) {
  Taps inside{0, taps};
  const int64_t begin = output * stride - pad;
  while (inside.first < taps && begin + inside.first * dilation < 0)
    ++inside.first;
  while (inside.end > inside.first && begin + (inside.end - 1) * dilation >= size)
    --inside.end;
  return inside;
}

Match gpu::matchContraction(linalg::LinalgOp op) {
  Contraction result;
  if (op.getNumDpsInputs() != 2 || op.getNumDpsInits() != 1 || !op.getNumReductionLoops() ||
      !isProductSum(op, result.zeroPoint))
    return no("it is no sum of products");
  result.op = op;
  result.a = op.getDpsInputOperand(0)->get();
  result.b = op.getDpsInputOperand(1)->get();
  const std::optional<Element> element = elementOf(tensorOf(result.a).getElementType()),
                               other = elementOf(tensorOf(result.b).getElementType());
  const bool isNarrow =
      element == Element::Bf16 || element == Element::F16 || element == Element::I8 || element == Element::F32;
  if (!element || element != other || !isNarrow)
    return no("its operands are " + llvm::Twine(element ? nameOf(*element) : "?") + " and " + (other ? nameOf(*other) : "?"));
  result.element = *element;
  if (!isZero(op.getDpsInitOperand(0)->get()))
    return no("its sums do not begin with 0");
  AffineMap mapA = op.getMatchingIndexingMap(op.getDpsInputOperand(0)),
            mapB = op.getMatchingIndexingMap(op.getDpsInputOperand(1));
  AffineMap mapOut = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  if (!mapB.isProjectedPermutation() || !mapOut.isProjectedPermutation())
    return no("its weights or its result are no plain tensors");
  const llvm::SmallVector<int64_t> loops = op.getStaticLoopRanges();
  auto inMap = [](AffineMap map, unsigned dim) { return map.isFunctionOfDim(dim); };
  const unsigned rank = mapOut.getNumResults();
  result.columnDim = mapOut.getDimPosition(rank - 1);
  if (inMap(mapA, result.columnDim) || !inMap(mapB, result.columnDim))
    return no("the innermost dim of its result is not one of the weights alone");
  const bool isGrouped = rank == 5 && mapA.getNumResults() == 5 && !mapA.isProjectedPermutation();
  for (unsigned i = 0; i + 1 < rank; ++i) {
    const unsigned dim = mapOut.getDimPosition(i);
    if (isGrouped && i == 3 && inMap(mapA, dim) && inMap(mapB, dim)) { // n, h, w, group, column
      result.batchDims.push_back(dim);
      result.batches = result.groups = loops[dim];
      continue;
    }
    if (!inMap(mapB, dim)) {
      result.rowDims.push_back(dim);
      continue;
    }
    if (!inMap(mapA, dim) || !result.rowDims.empty())
      return no("a dim of the weights stands between the rows of its result");
    result.batchDims.push_back(dim);
    result.batches *= loops[dim];
  }
  result.columns = loops[result.columnDim];
  result.rows = 1;
  for (unsigned dim : result.rowDims)
    result.rows *= loops[dim];
  result.depth = 1;
  for (unsigned dim = 0; dim < loops.size(); ++dim)
    if (!mapOut.isFunctionOfDim(dim)) {
      if (!inMap(mapB, dim) || !inMap(mapA, dim))
        return no("one operand is summed by itself");
      result.depthDims.push_back(dim);
      result.depth *= loops[dim];
    }
  if (mapA.isProjectedPermutation()) {
    return {result, ""};
  }

  // A window: x[n, stride h + dilation r, ..., c], or x[..., group, c].
  const unsigned channelDim = isGrouped ? 4 : 3;
  if (mapA.getNumResults() != channelDim + 1 || rank != channelDim + 1 || result.batchDims.size() != (isGrouped ? 1 : 0) ||
      result.rowDims.size() != 3 || result.depthDims.size() != 3 ||
      (isGrouped && mapA.getResult(3) != getAffineDimExpr(result.batchDims[0], op.getContext())))
    return no("its image has more than two dims beside batch and channels");
  auto image = dyn_cast<AffineDimExpr>(mapA.getResult(0)), channel = dyn_cast<AffineDimExpr>(mapA.getResult(channelDim));
  std::optional<WindowIndex> y = windowIndex(mapA.getResult(1)), x = windowIndex(mapA.getResult(2));
  if (!image || !channel || !y || !x || image.getPosition() != result.rowDims[0] || y->outer != result.rowDims[1] ||
      x->outer != result.rowDims[2])
    return no("its windows are not those of an NHWC image");
  Contraction::Window window{};
  window.outHeight = loops[y->outer];
  window.outWidth = loops[x->outer];
  window.filterHeight = loops[y->inner];
  window.filterWidth = loops[x->inner];
  window.strideHeight = y->stride;
  window.strideWidth = x->stride;
  window.dilationHeight = y->dilation;
  window.dilationWidth = x->dilation;
  result.depthDims = {y->inner, x->inner, channel.getPosition()};
  if (auto split = result.a.getDefiningOp<tensor::ExpandShapeOp>(); isGrouped && split)
    result.a = split.getSrc(); // the pixels as they lie
  // Copies fill with 0, which adds nothing to a sum; nor does the zero point, less itself.
  if (auto pad = result.a.getDefiningOp<tensor::PadOp>()) {
    const Value padding = pad.getConstantPaddingValue();
    llvm::APInt number;
    const bool isNothing = padding && (result.zeroPoint ? matchPattern(padding, m_ConstantInt(&number)) &&
                                                              number.getSExtValue() == result.zeroPoint
                                                        : isZero(padding));
    if (!isNothing || pad.getStaticLow()[0] || pad.getStaticLow().back() || pad.getStaticHigh()[0] ||
        pad.getStaticHigh().back())
      return no("its image is padded with other numbers than its zero point");
    window.padTop = pad.getStaticLow()[1];
    window.padLeft = pad.getStaticLow()[2];
    result.a = pad.getSource();
  }
  llvm::ArrayRef<int64_t> shape = tensorOf(result.a).getShape();
  window.images = shape[0];
  window.height = shape[1];
  window.width = shape[2];
  window.channels = isGrouped ? loops[channel.getPosition()] : shape[3];
  result.window = window;
  return {result, ""};
}
