//===- KernelMatcher.cpp - From linalg kernels to what the machine does ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Codegen.h"
#include "compiler/codegen/accel/Kernel.h"
#include "compiler/plan/PlanDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Matchers.h"

#include <map>

using namespace mlir;
using namespace tw;
using namespace tw::accel;

unsigned accel::byteSize(LaneType type) {
  switch (type) {
  case LaneType::I8:
  case LaneType::U8:
    return 1;
  case LaneType::Bf16:
    return 2;
  default:
    return 4;
  }
}

namespace {
/// A tensor value seen as a strided walk over a DRAM tensor, perhaps padded.
struct TensorValue {
  int tensor = -1; ///< KernelTensor, or -1: the result of a step
  int step = -2;   ///< -1: the anchor
  SmallVector<int64_t> shape, stride, padLow, padHigh;
  int64_t offset = 0;
  uint32_t padPattern = 0;
  bool padded = false;
  linalg::GenericOp conversion; ///< what is made of each element
};

SmallVector<int64_t> rowMajor(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> stride(shape.size(), 1);
  for (int i = int(shape.size()) - 2; i >= 0; --i)
    stride[i] = stride[i + 1] * shape[i + 1];
  return stride;
}

std::optional<LaneType> vectorType(Type type) {
  if (type.isInteger(8))
    return type.isUnsignedInteger() ? LaneType::U8 : LaneType::I8;
  if (type.isInteger(1))
    return LaneType::U8;
  if (type.isInteger(32))
    return LaneType::I32;
  if (type.isF32())
    return LaneType::F32;
  if (type.isBF16())
    return LaneType::Bf16;
  return std::nullopt;
}

uint32_t bitPattern(Attribute value) {
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return uint32_t(integer.getValue().sextOrTrunc(32).getZExtValue());
  return uint32_t(cast<FloatAttr>(value).getValue().bitcastToAPInt().getZExtValue());
}

/// sum of coefficient * dimension + constant.
struct LinearForm {
  std::map<unsigned, int64_t> terms;
  int64_t constant = 0;
};

std::optional<LinearForm> linearForm(AffineExpr expr) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return LinearForm{{{dim.getPosition(), 1}}, 0};
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return LinearForm{{}, constant.getValue()};
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return std::nullopt;
  auto left = linearForm(binary.getLHS()), right = linearForm(binary.getRHS());
  if (!left || !right)
    return std::nullopt;
  if (binary.getKind() == AffineExprKind::Add) {
    for (auto [dim, coefficient] : right->terms)
      left->terms[dim] += coefficient;
    left->constant += right->constant;
    return left;
  }
  if (binary.getKind() == AffineExprKind::Mul) {
    if (left->terms.empty())
      std::swap(left, right);
    if (!right->terms.empty())
      return std::nullopt;
    for (auto &term : left->terms)
      term.second *= right->constant;
    left->constant *= right->constant;
    return left;
  }
  return std::nullopt;
}

/// What the body of an elementwise operation on one tensor makes of zero; null if that is not known.
Attribute resultOfZero(linalg::GenericOp op) {
  std::function<Attribute(Value)> valueOf = [&](Value value) -> Attribute {
    Attribute constant;
    if (matchPattern(value, m_Constant(&constant)))
      return constant;
    if (value == op.getBlock()->getArgument(0))
      return Builder(op.getContext()).getZeroAttr(value.getType());
    Operation *def = value.getDefiningOp();
    SmallVector<Attribute> operands;
    SmallVector<OpFoldResult> results;
    if (def)
      llvm::transform(def->getOperands(), std::back_inserter(operands), valueOf);
    if (!def || llvm::is_contained(operands, Attribute()) || failed(def->fold(operands, results)) || results.empty())
      return {};
    if (auto folded = dyn_cast<Attribute>(results.front()))
      return folded;
    return valueOf(cast<Value>(results.front()));
  };
  return valueOf(cast<linalg::YieldOp>(op.getBlock()->getTerminator()).getOperand(0));
}

/// How many elements of a tensor each loop moves on by; nothing if `map` is not linear in the loops.
std::optional<SmallVector<int64_t>> loopStrides(AffineMap map, ArrayRef<int64_t> stride) {
  SmallVector<int64_t> strides(map.getNumDims(), 0);
  for (auto [i, expr] : llvm::enumerate(map.getResults())) {
    std::optional<LinearForm> form = linearForm(expr);
    if (!form || form->constant)
      return std::nullopt;
    for (auto [dim, coefficient] : form->terms)
      strides[dim] += coefficient * stride[i];
  }
  return strides;
}

/// Whether `map` reads or writes a tensor of `shape` as loops of `sizes` go through it, the last one fastest; `isReduced`: without that one.
bool followsLoops(AffineMap map, ArrayRef<int64_t> shape, ArrayRef<int64_t> sizes, bool isReduced) {
  std::optional<SmallVector<int64_t>> strides = loopStrides(map, rowMajor(shape));
  int64_t stride = 1;
  for (size_t loop = sizes.size(); strides && loop-- > 0;) {
    const bool isDropped = isReduced && loop + 1 == sizes.size();
    if (sizes[loop] != 1 && (*strides)[loop] != (isDropped ? 0 : stride))
      return false;
    stride *= isDropped ? 1 : sizes[loop];
  }
  return strides && stride == ShapedType::getNumElements(shape);
}

/// The number in every element of a tensor; null if that is not known.
Attribute numberIn(Value tensor) {
  Type type = getElementTypeOrSelf(tensor);
  if (auto fill = tensor.getDefiningOp<linalg::FillOp>())
    tensor = fill.value();
  Attribute constant;
  if (getElementTypeOrSelf(tensor) != type || !matchPattern(tensor, m_Constant(&constant)))
    return {};
  auto elements = dyn_cast<ElementsAttr>(constant);
  return !elements ? constant : elements.isSplat() ? elements.getSplatValue<Attribute>() : Attribute();
}

/// Whether no number of its type is smaller.
bool isLeast(Attribute value, bool isUnsigned = false) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return number.getValue().isInfinity() && number.getValue().isNegative();
  auto number = dyn_cast<IntegerAttr>(value);
  return number && (isUnsigned ? number.getValue().isZero() : number.getValue().isMinSignedValue());
}

bool isZero(Attribute value) {
  auto number = dyn_cast<FloatAttr>(value);
  return number ? number.getValue().isZero() : cast<IntegerAttr>(value).getValue().isZero();
}

/// How the engines read an element: as a number of `type`, widened to 32 bits, less a zero point.
struct Reading {
  LaneType type = LaneType::F32;
  int64_t zero = 0;
};

/// How `value` reads `argument`; nothing if it is anything else.
std::optional<Reading> readingOf(Value value, BlockArgument argument) {
  std::optional<LaneType> type = vectorType(argument.getType());
  if (type && value == argument)
    return Reading{*type, 0};
  APInt zero(32, 0);
  auto difference = value.getDefiningOp<arith::SubIOp>();
  if (difference && matchPattern(difference.getRhs(), m_ConstantInt(&zero)))
    value = difference.getLhs();
  Operation *widening = value.getDefiningOp();
  const bool isWide = value.getType().isInteger(32) || value.getType().isF32();
  if (!type || !isWide || !widening || widening->getNumOperands() != 1 || widening->getOperand(0) != argument)
    return std::nullopt;
  if (llvm::isa<arith::ExtUIOp>(widening) && zero.isIntN(8))
    return Reading{LaneType::U8, zero.getSExtValue()};
  if (llvm::isa<arith::ExtSIOp>(widening) && argument.getType().isInteger(8) && zero.isSignedIntN(8))
    return Reading{LaneType::I8, zero.getSExtValue()};
  return llvm::isa<arith::ExtFOp>(widening) ? std::optional(Reading{*type, 0}) : std::nullopt;
}

/// What a reduction makes of its elements, or of the products of the elements of its two inputs.
struct Reduction {
  isa::WindowOp op = isa::WindowOp::Sum; ///< Sum, Max or Mac
  SmallVector<Reading, 2> readings;
};

/// Whether `op` sums products of its two inputs.
bool sumsProducts(linalg::GenericOp op) {
  return op.getNumReductionLoops() && op.getNumDpsInputs() == 2 && !op.getBlock()->getArgument(1).use_empty() &&
         llvm::any_of(*op.getBlock(), [](Operation &o) { return llvm::isa<arith::MulFOp, arith::MulIOp>(o); });
}

class KernelMatcher {
public:
  explicit KernelMatcher(func::FuncOp function) : function(function) {}
  FailureOr<Kernel> run();

private:
  func::FuncOp function;
  Kernel kernel;
  llvm::DenseMap<Value, TensorValue> values;
  llvm::DenseMap<Value, int> constants;

  InFlightDiagnostic error(Operation *op) { return op->emitError("cannot be mapped to the accelerator: "); }

  /// What `op` does if the engines do exactly that: its body, and the number it begins with.
  FailureOr<Reduction> reductionOf(linalg::GenericOp op);
  /// Whether the loops of `op` are those of `anchor`, each of which walks the tensors in its own way.
  LogicalResult checkLoops(linalg::GenericOp op, const Anchor &anchor);
  FailureOr<TensorValue> trace(Value value);
  FailureOr<TensorValue> reshape(TensorValue value, ArrayRef<int64_t> shape, Operation *op);
  int addConstant(Value value, DenseElementsAttr attribute);
  LogicalResult matchGeneric(linalg::GenericOp op);
  /// True if `op` only moves elements, in a way that is a strided walk over a tensor in DRAM: it becomes a view.
  bool matchView(linalg::GenericOp op);
  /// True if `op` makes what a contraction reads of single elements of a tensor in DRAM: its result is that tensor, converted.
  bool matchConversion(linalg::GenericOp op);
  LogicalResult matchContraction(linalg::GenericOp op);
  LogicalResult matchWindow(linalg::GenericOp op);
  LogicalResult matchStep(linalg::GenericOp op);
  /// `op` has a result of step `step`, or of the anchor: -1.
  void setResult(linalg::GenericOp op, int step);
  /// A step whose result is that of `op`.
  void addStep(linalg::GenericOp op, const Step &step);
  LogicalResult matchMaxima(linalg::GenericOp op);
  /// A sum over all positions of what a contraction's kernel has made so far.
  LogicalResult matchPool(linalg::GenericOp op);
  bool mergesIntoReduction(linalg::GenericOp op);
  LogicalResult matchCopies(func::ReturnOp op);
  /// Whether the engine that was asked for is the one that computes the kernel.
  LogicalResult checkEngine();
  FailureOr<Value> matchOutput(func::ReturnOp op);
  bool setExtent(ArrayRef<int64_t> shape);
  /// Axis of dimension `i` of a rank-`rank` tensor in canonical order.
  static int axisOf(unsigned i, unsigned rank) { return int(rank - 1 - i); }
};

FailureOr<Reduction> KernelMatcher::reductionOf(linalg::GenericOp op) {
  Block *body = op.getBlock();
  BlockArgument result = body->getArguments().back();
  Operation *combine = cast<linalg::YieldOp>(body->getTerminator()).getOperand(0).getDefiningOp();
  auto nameOf = [](Operation *op) { return op ? "the result of '" + op->getName().getStringRef().str() + "'" : "an argument"; };
  const bool isSum = llvm::isa_and_nonnull<arith::AddIOp, arith::AddFOp>(combine);
  const bool isUnsigned = llvm::isa_and_nonnull<arith::MaxUIOp>(combine);
  if (!isSum && !isUnsigned && !llvm::isa_and_nonnull<arith::MaxSIOp, arith::MaximumFOp>(combine))
    return error(op) << "a reduction yields " << nameOf(combine)
                     << " but must yield a sum (addi, addf) or a maximum (maxsi, maxui, maximumf)";
  if (!llvm::is_contained(combine->getOperands(), result))
    return error(op) << "a reduction must end with the sum or maximum of what it has made so far and another element";
  if (isSum && !result.getType().isF32() && !result.getType().isInteger(32))
    return error(op) << "a reduction sums in " << result.getType() << " but must do so in f32 or i32";
  Reduction reduction;
  reduction.op = isSum ? isa::WindowOp::Sum : isa::WindowOp::Max;
  Value element = combine->getOperand(combine->getOperand(0) == result ? 1 : 0);
  Operation *producer = element.getDefiningOp();
  SmallVector<std::optional<Reading>, 2> readings{readingOf(element, body->getArgument(0))};
  if (isSum && op.getNumDpsInputs() == 2 && llvm::isa_and_nonnull<arith::MulIOp, arith::MulFOp>(producer)) {
    reduction.op = isa::WindowOp::Mac;
    Value a = producer->getOperand(0), b = producer->getOperand(1);
    readings = {readingOf(a, body->getArgument(0)), readingOf(b, body->getArgument(1))};
    if (!readings[0] || !readings[1])
      readings = {readingOf(b, body->getArgument(0)), readingOf(a, body->getArgument(1))};
  }
  for (std::optional<Reading> &reading : readings) {
    if (!reading)
      return error(op) << "a reduction takes " << nameOf(producer)
                       << " but must take elements of its first input as they are, bytes widened "
                       << "and less a zero point of their type, or products of such elements of its two inputs";
    reduction.readings.push_back(*reading);
  }
  if (Reading &first = reduction.readings[0]; !isSum) {
    // Bytes that are not widened are what the maximum takes them for.
    if (element == body->getArgument(0) && byteSize(first.type) == 1)
      first.type = isUnsigned ? LaneType::U8 : LaneType::I8;
    if (isUnsigned ? first.type != LaneType::U8 : element.getType().isInteger(1))
      return error(op) << combine->getName() << " takes " << element.getType() << " for numbers of another sign";
    if (first.zero)
      return error(op) << "a maximum is taken of elements less a zero point but must be of elements as they are";
  }
  Attribute initial = numberIn(op.getDpsInits()[0]);
  if (initial && (isSum ? isZero(initial) : isLeast(initial, isUnsigned)))
    return reduction;
  InFlightDiagnostic diagnostic = error(op) << "a reduction begins with ";
  (initial ? diagnostic << initial : diagnostic << "a tensor that is not one constant")
      << " but must begin with " << (isSum ? "0, as it is a sum" : "the least number, as it is a maximum");
  return diagnostic;
}

LogicalResult KernelMatcher::checkLoops(linalg::GenericOp op, const Anchor &anchor) {
  // A loop: how often it runs, and what it moves on by in the input, the weights and the result.
  using Loop = std::array<int64_t, 4>;
  std::vector<Loop> expected;
  const bool isContraction = anchor.kind == Anchor::Contraction;
  auto add = [&](const Loop &loop) {
    if (loop[0] != 1)
      expected.push_back(loop);
  };
  if (isContraction)
    add({anchor.ic, anchor.input.stride[C], anchor.weightIc, 0});
  add({anchor.oc, isContraction ? 0 : anchor.input.stride[C], anchor.weightOc, 1});
  add({anchor.groups, anchor.inputGroup, anchor.weightGroup, anchor.oc});
  int64_t elements = anchor.oc * anchor.groups;
  for (unsigned axis = P0; axis < kAxes; ++axis) {
    const WindowAxis &window = anchor.axes[axis - P0];
    const int64_t stride = anchor.input.stride[axis], tap = axis == P0 ? anchor.weightKw : anchor.weightKh;
    add({window.size, stride * window.stride, anchor.batchAxis == axis ? anchor.weightBatch : 0, elements});
    add({window.kernel, stride * window.dilation, tap, 0});
    elements *= window.size;
  }
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getResult(0).getType()).getShape();
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  auto input = loopStrides(maps[0], values[op.getDpsInputs()[0]].stride), result = loopStrides(maps.back(), rowMajor(shape));
  auto weights = std::make_optional<SmallVector<int64_t>>(sizes.size(), 0);
  if (anchor.weights >= 0)
    weights = loopStrides(maps[1], values[op.getDpsInputs()[1]].stride);
  if (!input || !weights || !result)
    return error(op) << "an index is not linear in the loops";
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1)
      continue;
    auto loop = llvm::find(expected, Loop{sizes[i], (*input)[i], (*weights)[i], (*result)[i]});
    if (loop == expected.end())
      return error(op) << "loop d" << i << " walks its tensors as neither positions, channels, groups nor taps of a window do";
    expected.erase(loop);
  }
  if (!expected.empty() || elements != ShapedType::getNumElements(shape))
    return error(op) << "the loops do not go through the whole result";
  return success();
}

int KernelMatcher::addConstant(Value value, DenseElementsAttr attribute) {
  auto it = constants.find(value);
  if (it != constants.end())
    return it->second;
  int index = int(kernel.tensors.size());
  KernelTensor tensor;
  tensor.role = KernelTensor::Constant;
  tensor.value = attribute;
  tensor.type = *vectorType(attribute.getElementType());
  tensor.elements = attribute.getNumElements();
  kernel.tensors.push_back(tensor);
  constants[value] = index;
  return index;
}

FailureOr<TensorValue> KernelMatcher::reshape(TensorValue value, ArrayRef<int64_t> shape, Operation *op) {
  // Match runs of old and new dimensions with equal products; inside a run the old one must be contiguous.
  if (value.step != -2 && value.tensor < 0) {
    TensorValue result = value;
    result.shape.assign(shape.begin(), shape.end());
    result.stride = rowMajor(shape);
    return result;
  }
  TensorValue result = value;
  result.shape.assign(shape.begin(), shape.end());
  result.stride.assign(shape.size(), 0);
  result.padLow.assign(shape.size(), 0);
  result.padHigh.assign(shape.size(), 0);
  size_t i = 0, j = 0;
  while (i < value.shape.size() || j < shape.size()) {
    size_t i0 = i, j0 = j;
    int64_t left = i < value.shape.size() ? value.shape[i++] : 1;
    int64_t right = j < shape.size() ? shape[j++] : 1;
    while (left != right) {
      if (left < right) {
        if (i == value.shape.size())
          return error(op) << "a reshape changes the number of elements";
        left *= value.shape[i++];
      } else {
        if (j == shape.size())
          return error(op) << "a reshape changes the number of elements";
        right *= shape[j++];
      }
    }
    // Swallow trailing ones so that both sides end together.
    while (i < value.shape.size() && value.shape[i] == 1 && j == shape.size())
      ++i;
    while (j < shape.size() && shape[j] == 1 && i == value.shape.size())
      ++j;
    if (i - i0 == 1 && j - j0 == 1) {
      result.stride[j0] = value.stride[i0];
      result.padLow[j0] = value.padLow[i0];
      result.padHigh[j0] = value.padHigh[i0];
      continue;
    }
    // Contiguous run: stride of the innermost dimension that is not 1.
    int64_t unit = 1;
    bool found = false;
    int64_t expected = 0;
    for (size_t k = i; k-- > i0;) {
      if (value.padLow[k] || value.padHigh[k])
        return error(op) << "a padded dimension is reshaped";
      if (value.shape[k] == 1)
        continue;
      if (!found) {
        unit = value.stride[k];
        found = true;
      } else if (value.stride[k] != expected) {
        return error(op) << "a reshape of a strided view is not itself a view";
      }
      expected = value.stride[k] * value.shape[k];
    }
    for (size_t k = j; k-- > j0;) {
      result.stride[k] = unit;
      unit *= shape[k];
    }
  }
  return result;
}

FailureOr<TensorValue> KernelMatcher::trace(Value value) {
  auto known = values.find(value);
  if (known != values.end())
    return known->second;
  auto type = dyn_cast<RankedTensorType>(value.getType());
  Operation *op = value.getDefiningOp() ? value.getDefiningOp() : function.getOperation();
  if (!type || !type.hasStaticShape())
    return error(op) << "needs a tensor of static shape";
  TensorValue result;
  result.shape.assign(type.getShape().begin(), type.getShape().end());
  result.stride = rowMajor(result.shape);
  result.padLow.assign(result.shape.size(), 0);
  result.padHigh.assign(result.shape.size(), 0);
  DenseElementsAttr attribute;
  if (matchPattern(value, m_Constant(&attribute))) {
    if (!vectorType(type.getElementType()))
      return error(op) << "element type " << type.getElementType() << " is not one of i8, i32, f32, bf16";
    result.tensor = addConstant(value, attribute);
    return values[value] = result;
  }
  if (auto pad = dyn_cast<tensor::PadOp>(op)) {
    auto source = trace(pad.getSource());
    if (failed(source))
      return failure();
    if (source->tensor < 0)
      return error(op) << "pads a value that is not in DRAM";
    Value padding = pad.getConstantPaddingValue();
    Attribute attr;
    if (!padding || !matchPattern(padding, m_Constant(&attr)) || !pad.getLow().empty() || !pad.getHigh().empty())
      return error(op) << "needs a constant padding value and static padding";
    result = *source;
    uint32_t pattern = bitPattern(attr);
    if (linalg::GenericOp conversion = source->conversion) {
      if (resultOfZero(conversion) != attr)
        return error(op) << "pads with something else than what the conversion before it makes of zero";
      pattern = 0;
    }
    if (result.padded && result.padPattern != pattern)
      return error(op) << "two paddings of different values";
    result.padPattern = pattern;
    result.padded = true;
    for (size_t i = 0; i < result.shape.size(); ++i) {
      result.padLow[i] += pad.getStaticLow()[i];
      result.padHigh[i] += pad.getStaticHigh()[i];
      result.shape[i] += pad.getStaticLow()[i] + pad.getStaticHigh()[i];
    }
    return values[value] = result;
  }
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    auto source = trace(expand.getSrc());
    if (failed(source))
      return failure();
    auto shaped = reshape(*source, type.getShape(), op);
    if (succeeded(shaped))
      values[value] = *shaped;
    return shaped;
  }
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    auto source = trace(collapse.getSrc());
    if (failed(source))
      return failure();
    auto shaped = reshape(*source, type.getShape(), op);
    if (succeeded(shaped))
      values[value] = *shaped;
    return shaped;
  }
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    auto source = trace(slice.getSource());
    if (failed(source))
      return failure();
    if (source->tensor < 0 || source->padded || !slice.getOffsets().empty() || !slice.getStrides().empty() ||
        slice.getDroppedDims().any())
      return error(op) << "needs a static slice of a tensor in DRAM";
    result = *source;
    for (size_t i = 0; i < result.shape.size(); ++i) {
      result.offset += slice.getStaticOffsets()[i] * result.stride[i];
      result.stride[i] *= slice.getStaticStrides()[i];
      result.shape[i] = slice.getStaticSizes()[i];
    }
    return values[value] = result;
  }
  if (auto transpose = dyn_cast<linalg::TransposeOp>(op)) {
    auto source = trace(transpose.getInput());
    if (failed(source))
      return failure();
    if (source->tensor < 0)
      return error(op) << "transposes a value that is not in DRAM";
    result = *source;
    for (auto [i, from] : llvm::enumerate(transpose.getPermutation())) {
      result.shape[i] = source->shape[from];
      result.stride[i] = source->stride[from];
      result.padLow[i] = source->padLow[from];
      result.padHigh[i] = source->padHigh[from];
    }
    return values[value] = result;
  }
  return error(op) << "'" << op->getName() << "' is not understood here";
}

bool KernelMatcher::setExtent(ArrayRef<int64_t> shape) {
  Extent extent{1, 1, 1, 1};
  for (size_t i = 0; i < shape.size(); ++i) {
    int axis = axisOf(i, shape.size());
    if (axis >= int(kAxes)) {
      if (shape[i] != 1)
        return false;
      continue;
    }
    extent[axis] = shape[i];
  }
  kernel.extent = extent;
  return true;
}

LogicalResult KernelMatcher::matchContraction(linalg::GenericOp op) {
  if (kernel.anchor || !kernel.steps.empty())
    return error(op) << "a contraction must come first in its kernel";
  auto input = trace(op.getDpsInputs()[0]), weights = trace(op.getDpsInputs()[1]);
  if (failed(input) || failed(weights))
    return failure();
  if (input->tensor < 0 || weights->tensor < 0)
    return error(op) << "contracts a value that is not in DRAM";
  Anchor anchor;
  anchor.kind = Anchor::Contraction;
  auto maps = op.getIndexingMapsArray();
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  auto iterators = op.getIteratorTypesArray();
  unsigned loops = sizes.size();
  // Where each loop appears.
  std::vector<bool> inInput(loops), inWeights(loops);
  std::vector<int> outDim(loops, -1);
  std::vector<LinearForm> inputForms;
  for (AffineExpr expr : maps[0].getResults()) {
    auto form = linearForm(expr);
    if (!form || form->constant)
      return error(op) << "an input index is not linear in the loops";
    for (auto [dim, coefficient] : form->terms)
      inInput[dim] = true;
    inputForms.push_back(*form);
  }
  std::vector<int64_t> weightStride(loops, 0);
  for (auto [i, expr] : llvm::enumerate(maps[1].getResults())) {
    auto form = linearForm(expr);
    if (!form || form->constant || form->terms.size() > 1 || (form->terms.size() == 1 && form->terms.begin()->second != 1))
      return error(op) << "a weight index is not a plain loop";
    for (auto [dim, coefficient] : form->terms) {
      inWeights[dim] = true;
      weightStride[dim] = weights->stride[i];
    }
  }
  if (!maps[2].isProjectedPermutation(/*allowZeroInResults=*/true))
    return error(op) << "the output map is not a projected permutation";
  unsigned outRank = maps[2].getNumResults();
  for (unsigned i = 0; i < outRank; ++i)
    if (auto dim = dyn_cast<AffineDimExpr>(maps[2].getResult(i)))
      outDim[dim.getPosition()] = int(i);

  // Loop roles. Sizes of 1 have no role unless they are the only candidate.
  int oc = -1, group = -1, ic = -1;
  std::vector<int> positions, filters, batches;
  for (unsigned loop = 0; loop < loops; ++loop) {
    bool parallel = iterators[loop] == utils::IteratorType::parallel;
    // A loop of the weights alone is a batch too, unless it gives the result's last dimension.
    bool batch = inInput[loop] || outDim[loop] != int(outRank) - 1;
    if (parallel && inWeights[loop] && batch) {
      batches.push_back(int(loop));
    } else if (parallel && inWeights[loop]) {
      if (oc >= 0)
        return error(op) << "two output channel loops";
      oc = int(loop);
    } else if (parallel) {
      positions.push_back(int(loop));
    } else if (inWeights[loop] || inInput[loop]) {
      bool alone = false;
      for (const LinearForm &form : inputForms)
        alone |= form.terms.size() == 1 && form.terms.count(loop);
      if (alone && ic < 0 && int(loop) == [&] {
            // Channels are the last reduction loop that stands alone.
            int last = -1;
            for (unsigned l = 0; l < loops; ++l)
              if (iterators[l] == utils::IteratorType::reduction)
                for (const LinearForm &form : inputForms)
                  if (form.terms.size() == 1 && form.terms.count(l))
                    last = int(l);
            return last;
          }())
        ic = int(loop);
      else
        filters.push_back(int(loop));
    }
  }
  // A group is a batch loop right before the output channels in the output, its channels contiguous in the input.
  for (int loop : batches)
    if ((outDim[loop] == int(outRank) - 2 && oc >= 0 && outRank == 5) || (outDim[loop] == int(outRank) - 1 && oc < 0))
      group = loop;
  const bool isSplit = group >= 0 && oc >= 0; ///< group and channel are two dimensions of the output
  auto inputStrideOf = [&](int loop) {
    int64_t stride = 0;
    if (loop >= 0)
      for (auto [i, form] : llvm::enumerate(inputForms))
        if (form.terms.count(loop))
          stride += form.terms.at(loop) * input->stride[i];
    return stride;
  };
  anchor.oc = oc >= 0 ? sizes[oc] : 1;
  anchor.ic = ic >= 0 ? sizes[ic] : 1;
  anchor.groups = group >= 0 ? sizes[group] : 1;
  anchor.weightOc = oc >= 0 ? weightStride[oc] : 0;
  anchor.weightIc = ic >= 0 ? weightStride[ic] : 0;
  anchor.weightGroup = group >= 0 ? weightStride[group] : 0;
  anchor.inputGroup = inputStrideOf(group);
  anchor.input.tensor = input->tensor;
  anchor.input.offset = input->offset;
  anchor.input.stride[C] = ic >= 0 ? inputStrideOf(ic) : 0;
  anchor.padPattern = input->padPattern;
  if (input->conversion) {
    Step conversion;
    conversion.op = input->conversion;
    conversion.type = *vectorType(getElementTypeOrSelf(input->conversion.getResult(0)));
    Source source;
    source.type = kernel.tensors[size_t(input->tensor)].type;
    conversion.sources.push_back(source);
    kernel.conversion = conversion;
  }
  anchor.weights = weights->tensor;
  anchor.weightOffset = weights->offset;
  if (weights->padded)
    return error(op) << "padded weights";

  // The output as canonical axes: the channel dimension last (group and channel merged).
  SmallVector<int64_t> outShape;
  std::vector<int> loopOfAxis(kAxes, -1);
  unsigned merged = isSplit ? outRank - 1 : outRank;
  for (unsigned i = 0; i < outRank; ++i) {
    int loop = -1;
    for (unsigned l = 0; l < loops; ++l)
      if (outDim[l] == int(i))
        loop = int(l);
    if (isSplit && i == outRank - 2)
      continue;
    unsigned index = isSplit && i == outRank - 1 ? outRank - 2 : i;
    bool channels = index == merged - 1;
    outShape.push_back(channels ? anchor.oc * anchor.groups : loop >= 0 ? sizes[loop] : 1);
    if (channels) {
      if (oc >= 0 && loop != oc)
        return error(op) << "output channels must be the last dimension";
    } else {
      int axis = axisOf(index, merged);
      if (axis < int(kAxes))
        loopOfAxis[axis] = loop;
      else if (loop >= 0 && sizes[loop] != 1)
        return error(op) << "more than three position dimensions";
    }
  }
  if (!setExtent(outShape))
    return error(op) << "more than three position dimensions";
  for (unsigned axis = P0; axis < kAxes; ++axis) {
    int loop = loopOfAxis[axis];
    WindowAxis &window = anchor.axes[axis - P0];
    if (loop < 0)
      continue;
    window.size = sizes[loop];
    window.inputSize = sizes[loop];
    if (llvm::is_contained(batches, loop) && sizes[loop] > 1) {
      if (anchor.batchAxis)
        return error(op) << "more than one batch dimension";
      anchor.batchAxis = axis;
      anchor.weightBatch = weightStride[loop];
    }
    for (auto [i, form] : llvm::enumerate(inputForms)) {
      if (!form.terms.count(loop))
        continue;
      anchor.input.stride[axis] = input->stride[i];
      window.stride = form.terms.at(loop);
      window.padLow = input->padLow[i];
      window.inputSize = input->shape[i] - input->padLow[i] - input->padHigh[i];
      for (auto [other, coefficient] : form.terms)
        if (int(other) != loop) {
          if (!llvm::is_contained(filters, int(other)))
            return error(op) << "an input index mixes loops in a way that is not a convolution";
          window.kernel = sizes[other];
          window.dilation = coefficient;
          (axis == P0 ? anchor.weightKw : anchor.weightKh) = weightStride[other];
          if (axis == P2)
            return error(op) << "three window dimensions";
        }
    }
  }
  for (size_t i = 0; i < inputForms.size(); ++i)
    if ((input->padLow[i] || input->padHigh[i]) &&
        llvm::none_of(loopOfAxis, [&](int loop) { return loop >= 0 && inputForms[i].terms.count(unsigned(loop)); }))
      return error(op) << "padded channels under a contraction";
  auto inType = vectorType(getElementTypeOrSelf(op.getDpsInputs()[0]));
  auto wType = vectorType(getElementTypeOrSelf(op.getDpsInputs()[1]));
  auto outType = vectorType(getElementTypeOrSelf(op.getResult(0)));
  if (!inType || !wType || !outType || *inType == LaneType::I32 || *wType == LaneType::I32)
    return error(op) << "element types must be i8, bf16 or f32";
  anchor.resultType = *outType;
  FailureOr<Reduction> body = reductionOf(op);
  if (failed(body) || failed(checkLoops(op, anchor)))
    return failure();
  if (body->op != isa::WindowOp::Mac)
    return error(op) << "a contraction must sum products of its inputs";
  std::tie(anchor.inputType, anchor.inputZero) = std::tie(body->readings[0].type, body->readings[0].zero);
  std::tie(anchor.weightType, anchor.weightZero) = std::tie(body->readings[1].type, body->readings[1].zero);
  uint64_t macs = 1;
  for (int64_t size : sizes)
    macs *= uint64_t(size);
  kernel.macs = macs;
  kernel.anchor = anchor;
  setResult(op, -1);
  return success();
}

LogicalResult KernelMatcher::matchWindow(linalg::GenericOp op) {
  if (kernel.anchor || !kernel.steps.empty())
    return error(op) << "a window operation must come first in its kernel";
  auto input = trace(op.getDpsInputs()[0]);
  if (failed(input))
    return failure();
  if (input->tensor < 0 || input->conversion)
    return error(op) << "windows over a value that is not in DRAM";
  Anchor anchor;
  anchor.kind = Anchor::Window;
  anchor.input.tensor = input->tensor;
  anchor.input.offset = input->offset;
  anchor.padPattern = input->padPattern;
  auto maps = op.getIndexingMapsArray();
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  AffineMap outMap = maps.back();
  unsigned rank = outMap.getNumResults();
  std::vector<int> axisOfLoop(sizes.size(), -1);
  for (unsigned i = 0; i < rank; ++i)
    if (auto dim = dyn_cast<AffineDimExpr>(outMap.getResult(i)))
      axisOfLoop[dim.getPosition()] = axisOf(i, rank);
  auto outType = cast<RankedTensorType>(op.getResult(0).getType());
  if (!setExtent(outType.getShape()))
    return error(op) << "more than three position dimensions";
  FailureOr<Reduction> body = reductionOf(op);
  if (failed(body))
    return failure();
  anchor.windowOp = body->op;
  const bool depthwise = body->op == isa::WindowOp::Mac;
  std::vector<int64_t> weightStride(sizes.size(), 0);
  if (depthwise) {
    auto weights = trace(op.getDpsInputs()[1]);
    if (failed(weights))
      return failure();
    if (weights->tensor < 0 || kernel.tensors[weights->tensor].role != KernelTensor::Constant || weights->padded)
      return error(op) << "depthwise weights must be constant, and not padded";
    anchor.weights = weights->tensor;
    anchor.weightOffset = weights->offset;
    for (auto [i, expr] : llvm::enumerate(maps[1].getResults()))
      if (auto dim = dyn_cast<AffineDimExpr>(expr))
        weightStride[dim.getPosition()] = weights->stride[i];
  }
  for (unsigned axis = P0; axis < kAxes; ++axis)
    anchor.axes[axis - P0].size = anchor.axes[axis - P0].inputSize = kernel.extent[axis];
  for (auto [i, expr] : llvm::enumerate(maps[0].getResults())) {
    auto form = linearForm(expr);
    if (!form || form->constant)
      return error(op) << "an input index is not linear in the loops";
    int axis = -1;
    for (auto [loop, coefficient] : form->terms)
      if (axisOfLoop[loop] >= 0)
        axis = axisOfLoop[loop];
    // A window over an axis whose output extent is 1 and was dropped from the map.
    if (axis < 0)
      axis = axisOf(i, maps[0].getNumResults());
    if (axis >= int(kAxes)) {
      if (input->shape[i] != 1)
        return error(op) << "more than three position dimensions";
      continue;
    }
    anchor.input.stride[axis] = input->stride[i];
    if (axis == C) {
      if (input->padLow[i] || input->padHigh[i])
        return error(op) << "padded channels under a window";
      for (auto [loop, coefficient] : form->terms)
        anchor.weightOc = weightStride[loop];
      continue;
    }
    WindowAxis &window = anchor.axes[axis - P0];
    window.padLow = input->padLow[i];
    window.inputSize = input->shape[i] - input->padLow[i] - input->padHigh[i];
    for (auto [loop, coefficient] : form->terms)
      if (axisOfLoop[loop] >= 0) {
        window.stride = coefficient;
      } else {
        if (axis == P2)
          return error(op) << "three window dimensions";
        window.kernel = sizes[loop];
        window.dilation = coefficient;
        (axis == P0 ? anchor.weightKw : anchor.weightKh) = weightStride[loop];
      }
  }
  anchor.oc = kernel.extent[C];
  anchor.ic = 1;
  auto inType = vectorType(getElementTypeOrSelf(op.getDpsInputs()[0]));
  auto resultType = vectorType(outType.getElementType());
  if (!inType || !resultType)
    return error(op) << "element types must be i8, i32, bf16 or f32";
  anchor.resultType = *resultType;
  std::tie(anchor.inputType, anchor.inputZero) = std::tie(body->readings[0].type, body->readings[0].zero);
  if (depthwise)
    std::tie(anchor.weightType, anchor.weightZero) = std::tie(body->readings[1].type, body->readings[1].zero);
  if (anchor.windowOp == isa::WindowOp::Max && byteSize(*inType) == 1)
    anchor.resultType = LaneType::I32;
  if (failed(checkLoops(op, anchor)))
    return failure();
  if (depthwise) {
    kernel.macs = 1;
    for (int64_t size : sizes)
      kernel.macs *= uint64_t(size);
  }
  kernel.anchor = anchor;
  setResult(op, -1);
  return success();
}

void KernelMatcher::setResult(linalg::GenericOp op, int step) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getResult(0).getType()).getShape();
  TensorValue result;
  result.step = step;
  result.shape.assign(shape.begin(), shape.end());
  result.stride = rowMajor(result.shape);
  values[op.getResult(0)] = result;
}

void KernelMatcher::addStep(linalg::GenericOp op, const Step &step) {
  setResult(op, int(kernel.steps.size()));
  kernel.steps.push_back(step);
}

/// The largest of a contraction's sums in every window, which may reach into a padding that is never larger.
LogicalResult KernelMatcher::matchMaxima(linalg::GenericOp op) {
  FailureOr<Reduction> body = reductionOf(op);
  if (failed(body))
    return failure();
  Value sums = op.getDpsInputs()[0];
  auto pad = sums.getDefiningOp<tensor::PadOp>();
  if (pad) {
    Attribute value;
    if (!pad.getConstantPaddingValue() || !matchPattern(pad.getConstantPaddingValue(), m_Constant(&value)) || !isLeast(value) ||
        !pad.getLow().empty() || !pad.getHigh().empty())
      return error(pad) << "what pads sums under a maximum must be the least number";
    sums = pad.getSource();
  }
  FailureOr<TensorValue> input = trace(sums);
  if (failed(input))
    return failure();
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  AffineMap map = op.getIndexingMapsArray()[0];
  MLIRContext *context = op.getContext();
  const Extent &extent = kernel.extent;
  const bool isImage =
      sizes.size() == kAxes + 2 && map.getNumResults() == kAxes &&
      op.getIndexingMapsArray().back() == AffineMap::getMultiDimIdentityMap(kAxes + 2, context).getMajorSubMap(kAxes) &&
      map.getResult(0) == getAffineDimExpr(0, context) && map.getResult(3) == getAffineDimExpr(3, context) &&
      input->shape == SmallVector<int64_t>{extent[P2], extent[P1], extent[P0], extent[C]} && sizes[0] == extent[P2] &&
      sizes[3] == extent[C];
  if (!isImage || !kernel.steps.empty() || kernel.maxima || input->tensor >= 0 || input->padded || kernel.outputsPerVector > 1)
    return error(op) << "a window behind a contraction must take the maximum of its sums, or sum all positions of its result";
  std::array<WindowAxis, 2> maxima;
  for (unsigned axis = P0; axis <= P1; ++axis) {
    const unsigned dim = unsigned(axisOf(axis, kAxes)), tap = kAxes + (axis == P0);
    std::optional<LinearForm> form = linearForm(map.getResult(dim));
    WindowAxis &window = maxima[axis - P0];
    if (!form || form->constant || form->terms.size() != 2 || !form->terms.count(dim) || !form->terms.count(tap) ||
        form->terms.at(tap) != 1)
      return error(op) << "the windows of a maximum behind a contraction must be dense";
    window.size = sizes[dim];
    window.kernel = sizes[tap];
    window.stride = form->terms.at(dim);
    window.padLow = pad ? pad.getStaticLow()[dim] : 0;
  }
  for (unsigned axis = P0; axis <= P1; ++axis) {
    // No window reads the sums behind the last one: nobody makes them. Those in the padding are made, so that every window has its own,
    // and not looked at.
    WindowAxis &window = maxima[axis - P0], &sums = kernel.anchor->axes[axis - P0];
    window.inputSize = std::min(sums.size, window.span(window.size) - window.padLow);
    kernel.macs = kernel.macs / uint64_t(sums.size) * uint64_t(window.inputSize);
    sums.size = window.span(window.size);
    sums.padLow += window.padLow * sums.stride;
    kernel.extent[axis] = window.size;
  }
  kernel.maxima = maxima;
  setResult(op, -1);
  return success();
}

LogicalResult KernelMatcher::matchPool(linalg::GenericOp op) {
  FailureOr<TensorValue> input = trace(op.getDpsInputs()[0]);
  if (failed(input))
    return failure();
  FailureOr<Reduction> body = reductionOf(op);
  if (failed(body))
    return failure();
  // The loops are those of the result, and rows and columns of the window.
  auto outType = cast<RankedTensorType>(op.getResult(0).getType());
  SmallVector<int64_t> sizes = op.getStaticLoopRanges(), whole(outType.getShape());
  whole.append({kernel.extent[P1], kernel.extent[P0]});
  const Extent &extent = kernel.extent;
  if (kernel.pool || input->tensor >= 0 || input->step != int(kernel.steps.size()) - 1 || outType.getRank() != int64_t(kAxes) ||
      outType.getShape() != ArrayRef<int64_t>{extent[P2], 1, 1, extent[C]} || sizes != whole || body->op != isa::WindowOp::Sum)
    return error(op) << "a window behind a contraction must sum all positions of its result";
  auto walks = [&](AffineMap map, ArrayRef<int64_t> shape, ArrayRef<int64_t> expected) {
    std::optional<SmallVector<int64_t>> strides = loopStrides(map, rowMajor(shape));
    for (size_t loop = 0; strides && loop < sizes.size(); ++loop)
      if (sizes[loop] != 1 && (*strides)[loop] != expected[loop])
        return false;
    return strides.has_value();
  };
  const int64_t row = extent[P0] * extent[C];
  if (!walks(op.getIndexingMapsArray()[0], input->shape, {extent[P1] * row, 0, 0, 1, row, extent[C]}) ||
      !walks(op.getIndexingMapsArray().back(), outType.getShape(), {extent[C], 0, 0, 1, 0, 0}))
    return error(op) << "a window behind a contraction must take each position of its result once";
  auto inType = vectorType(getElementTypeOrSelf(op.getDpsInputs()[0])), type = vectorType(outType.getElementType());
  if (!inType || !type)
    return error(op) << "element types must be i8, i32, bf16 or f32";
  Step step;
  step.op = op;
  step.sumsPositions = true;
  step.reduceOp = isa::WindowOp::Sum;
  step.type = *type;
  Source source;
  source.kind = Source::Value;
  source.value = input->step;
  source.view.stride = {1, 1, 1, 1};
  std::tie(source.type, step.zero) = std::tie(body->readings[0].type, body->readings[0].zero);
  step.sources.push_back(source);
  kernel.pool = kernel.steps.size();
  addStep(op, step);
  return success();
}

/// A reduction writes its result in any type: a conversion to bf16 behind it is no step of its own.
bool KernelMatcher::mergesIntoReduction(linalg::GenericOp op) {
  auto yield = cast<linalg::YieldOp>(op.getBlock()->getTerminator());
  auto narrow = yield.getOperand(0).getDefiningOp<arith::TruncFOp>();
  auto source = values.find(op.getDpsInputs()[0]);
  if (op.getNumDpsInputs() != 1 || !narrow || narrow.getIn() != op.getBlock()->getArgument(0) ||
      !op.getDpsInputs()[0].hasOneUse() ||
      !llvm::all_of(op.getIndexingMapsArray(), [](AffineMap map) { return map.isIdentity(); }) || source == values.end() ||
      source->second.step < 0 || source->second.step != int(kernel.steps.size()) - 1 || !kernel.steps.back().reducesChannels)
    return false;
  kernel.steps.back().type = LaneType::Bf16;
  values[op.getResult(0)] = source->second;
  return true;
}

LogicalResult KernelMatcher::matchStep(linalg::GenericOp op) {
  Step step;
  step.op = op;
  auto outType = cast<RankedTensorType>(op.getResult(0).getType());
  auto type = vectorType(outType.getElementType());
  if (!type)
    return error(op) << "element type " << outType.getElementType() << " is not one of i8, i32, f32, bf16";
  step.type = *type;
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  unsigned loops = sizes.size();
  unsigned reductions = op.getNumReductionLoops();
  std::optional<Reading> reading; ///< of a reduction
  if (reductions) {
    if (reductions != 1 || op.getIteratorTypesArray().back() != utils::IteratorType::reduction)
      return error(op) << "only a reduction over the last dimension is a vector step";
    step.reducesChannels = true;
    FailureOr<Reduction> body = reductionOf(op);
    if (failed(body))
      return failure();
    step.reduceOp = body->op;
    reading = body->readings[0];
    step.zero = reading->zero;
    if (byteSize(*type) == 1) // a maximum
      step.type = reading->type;
  }
  // Loops are the iteration space; the first step of a kernel without an anchor sets it.
  bool first = !kernel.anchor && kernel.steps.empty();
  if (first && !setExtent(sizes))
    return error(op) << "more than three position dimensions";
  std::vector<int> axisOfLoop(loops);
  for (unsigned loop = 0; loop < loops; ++loop) {
    axisOfLoop[loop] = axisOf(loop, loops);
    int axis = axisOfLoop[loop];
    if (axis >= int(kAxes) ? sizes[loop] != 1 : kernel.made(kernel.extent)[axis] != sizes[loop])
      return error(op) << "steps of one kernel must share their iteration space";
  }
  auto maps = op.getIndexingMapsArray();
  if (!followsLoops(maps.back(), outType.getShape(), sizes, step.reducesChannels))
    return error(op) << "a step must write its result in the order of its loops";
  for (auto [index, operand] : llvm::enumerate(op.getDpsInputs())) {
    Source source;
    auto operandType = dyn_cast<RankedTensorType>(operand.getType());
    if (!operandType)
      return error(op) << "a scalar operand";
    auto elementType = vectorType(operandType.getElementType());
    if (!elementType)
      return error(op) << "element type " << operandType.getElementType() << " is not one of i8, i32, f32, bf16";
    source.type = reading ? reading->type : *elementType;
    auto value = trace(operand);
    if (failed(value))
      return failure();
    View pads;
    pads.padPattern = value->padPattern;
    Extent stride{};
    bool onlyChannels = true;
    for (auto [i, expr] : llvm::enumerate(maps[index].getResults())) {
      const bool isPadded = value->padded && (value->padLow[i] || value->padHigh[i]);
      auto dim = dyn_cast<AffineDimExpr>(expr);
      if (isPadded && (!dim || axisOfLoop[dim.getPosition()] != C || step.reducesChannels || value->conversion))
        return error(op) << "pads dim " << i
                         << " of an operand but may pad the channels of an elementwise operation's operand only";
      if (isPadded)
        std::tie(pads.padLow, pads.padHigh) = std::tie(value->padLow[i], value->padHigh[i]);
      if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
        if (constant.getValue() != 0)
          return error(op) << "a constant index other than 0";
        continue;
      }
      if (!dim)
        return error(op) << "an operand map that is not a projected permutation";
      int axis = axisOfLoop[dim.getPosition()];
      if (axis >= int(kAxes) || value->shape[i] == 1)
        continue;
      stride[axis] += value->stride[i];
      onlyChannels &= axis == C;
    }
    if (value->tensor >= 0) {
      KernelTensor &tensor = kernel.tensors[value->tensor];
      bool word = byteSize(tensor.type) == 4;
      if (tensor.role == KernelTensor::Constant && onlyChannels && word && value->offset == 0 && !pads.isPadded() &&
          (stride[C] == 1 || kernel.extent[C] == 1) && tensor.elements == kernel.extent[C] && !step.reducesChannels) {
        source.kind = Source::Parameter;
        source.parameter = tensor.value;
      } else {
        source.kind = Source::Tensor;
        source.view = pads;
        std::tie(source.view.tensor, source.view.stride, source.view.offset) = std::tie(value->tensor, stride, value->offset);
      }
    } else {
      const bool isReduced = value->step >= 0 && kernel.steps[size_t(value->step)].reducesChannels;
      if (!followsLoops(maps[index], value->shape, sizes, isReduced))
        return error(op) << "a step must read what an earlier one made in the order of its loops";
      // What takes a window's maximum of bytes hands it on with their sign.
      const bool isMaximum = value->step < 0 && byteSize(*elementType) == 1;
      for (Operation *user : op.getBlock()->getArgument(unsigned(index)).getUsers())
        if (isMaximum && !llvm::isa<linalg::YieldOp>(user) &&
            llvm::isa<arith::ExtUIOp, arith::UIToFPOp, arith::MaxUIOp>(user) != (kernel.anchor->inputType == LaneType::U8))
          return error(op) << "takes the maximum of bytes for bytes of another sign";
      source.kind = Source::Value;
      source.value = value->step;
      for (unsigned axis = 0; axis < kAxes; ++axis)
        source.view.stride[axis] = stride[axis] != 0;
    }
    step.sources.push_back(source);
  }
  addStep(op, step);
  return success();
}

bool KernelMatcher::matchView(linalg::GenericOp op) {
  auto yield = cast<linalg::YieldOp>(op.getBlock()->getTerminator());
  AffineMap map = op.getIndexingMapsArray()[0];
  if (op.getNumDpsInputs() != 1 || yield.getOperand(0) != op.getBlock()->getArgument(0) ||
      map.isProjectedPermutation(/*allowZeroInResults=*/true) || !op.getIndexingMapsArray().back().isIdentity())
    return false;
  FailureOr<TensorValue> input = trace(op.getDpsInputs()[0]);
  if (failed(input) || input->tensor < 0 || input->padded)
    return false;
  TensorValue view = *input;
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  view.shape.assign(sizes.begin(), sizes.end());
  view.stride.assign(sizes.size(), 0);
  view.padLow.assign(sizes.size(), 0);
  view.padHigh.assign(sizes.size(), 0);
  for (auto [i, expr] : llvm::enumerate(map.getResults())) {
    std::optional<LinearForm> form = linearForm(expr);
    if (!form)
      return false;
    view.offset += form->constant * input->stride[i];
    for (auto [dim, coefficient] : form->terms)
      view.stride[dim] += coefficient * input->stride[i];
  }
  values[op.getResult(0)] = view;
  return true;
}

bool KernelMatcher::matchConversion(linalg::GenericOp op) {
  if (kernel.anchor || !kernel.steps.empty() || op.getNumDpsInputs() != 1 || op.getNumReductionLoops() ||
      !llvm::all_of(op.getIndexingMapsArray(), [](AffineMap map) { return map.isIdentity(); }))
    return false;
  OpOperand *use = nullptr;
  for (Operation *from = op;; from = use->getOwner()) {
    if (!from->hasOneUse())
      return false;
    use = &*from->getUses().begin();
    if (use->getOperandNumber() != 0)
      return false;
    if (!llvm::isa<tensor::PadOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, linalg::TransposeOp>(use->getOwner()))
      break;
  }
  auto reader = dyn_cast<linalg::GenericOp>(use->getOwner());
  if (!reader || !sumsProducts(reader))
    return false;
  FailureOr<TensorValue> input = trace(op.getDpsInputs()[0]);
  if (failed(input) || input->tensor < 0 || input->padded || input->conversion ||
      kernel.tensors[size_t(input->tensor)].role != KernelTensor::Argument)
    return false;
  input->conversion = op;
  values[op.getResult(0)] = *input;
  return true;
}

LogicalResult KernelMatcher::matchGeneric(linalg::GenericOp op) {
  if (op.getNumDpsInits() != 1)
    return error(op) << "more than one result";
  unsigned reductions = op.getNumReductionLoops();
  if (reductions == 0)
    return mergesIntoReduction(op) || matchView(op) || matchConversion(op) ? success() : matchStep(op);
  // A reduction over exactly the last loop with plain maps is a vector step; contractions multiply; windows do not.
  Block *body = op.getBlock();
  auto maps = op.getIndexingMapsArray();
  if (sumsProducts(op)) {
    // Depthwise: the channel loop is in input, weights and output, and nothing sums over channels.
    AffineMap out = maps[2];
    auto last = out.getNumResults() ? dyn_cast<AffineDimExpr>(out.getResults().back()) : AffineDimExpr(nullptr);
    bool depthwise = last && maps[0].isFunctionOfDim(last.getPosition()) && maps[1].isFunctionOfDim(last.getPosition());
    // A schedule file may want a depthwise one on the array: every channel is a group of its own then.
    bool onArray = kernel.plan.engine == plan::Engine::Tensor;
    return depthwise && !onArray ? matchWindow(op) : matchContraction(op);
  }
  bool plain = maps[0].isProjectedPermutation() && reductions == 1 &&
               op.getIteratorTypesArray().back() == utils::IteratorType::reduction;
  if (plain && op.getNumDpsInputs() == 1)
    return matchStep(op);
  if (!kernel.anchor || kernel.anchor->kind != Anchor::Contraction)
    return matchWindow(op);
  Operation *combine = cast<linalg::YieldOp>(body->getTerminator()).getOperand(0).getDefiningOp();
  return llvm::isa_and_nonnull<arith::MaxSIOp, arith::MaximumFOp>(combine) ? matchMaxima(op) : matchPool(op);
}

LogicalResult KernelMatcher::matchCopies(func::ReturnOp op) {
  Value result = op.getOperand(0);
  SmallVector<Operation *> reshapes;
  auto resultType = cast<RankedTensorType>(result.getType());
  SmallVector<Value> parts{result};
  int64_t axis = 0;
  Value inner = result;
  while (Operation *def = inner.getDefiningOp())
    if (llvm::isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(def))
      inner = def->getOperand(0);
    else
      break;
  SmallVector<int64_t> shape(resultType.getShape());
  if (auto concat = inner.getDefiningOp<tensor::ConcatOp>()) {
    parts.assign(concat.getInputs().begin(), concat.getInputs().end());
    axis = int64_t(concat.getDim());
    shape.assign(concat.getResultType().getShape().begin(), concat.getResultType().getShape().end());
  }
  SmallVector<int64_t> stride = rowMajor(shape);
  int64_t offset = 0;
  for (Value part : parts) {
    auto value = trace(part);
    if (failed(value))
      return failure();
    if (value->tensor < 0)
      return error(op) << "copies a value that is not in DRAM";
    Copy copy;
    copy.type = kernel.outputType;
    copy.from = {value->tensor, {}, value->offset};
    copy.to = {kernel.output.tensor, {}, offset};
    copy.shape.assign(value->shape.begin(), value->shape.end());
    copy.fromStride.assign(value->stride.begin(), value->stride.end());
    copy.toStride.assign(stride.begin(), stride.end());
    copy.padLow.assign(value->padLow.begin(), value->padLow.end());
    copy.padHigh.assign(value->padHigh.begin(), value->padHigh.end());
    copy.fill = value->padPattern;
    kernel.copies.push_back(copy);
    if (parts.size() > 1)
      offset += value->shape[axis] * stride[axis];
  }
  return success();
}

LogicalResult KernelMatcher::checkEngine() {
  const KernelPlan &request = kernel.plan;
  bool isCopy = !kernel.anchor && kernel.steps.empty();
  bool isContraction = kernel.anchor && kernel.anchor->kind == Anchor::Contraction;
  StringRef can = isCopy ? "load and store" : isContraction ? "tensor" : "vector";
  if (!request.engine || nameOf(*request.engine) == can)
    return success();
  std::string why = isCopy          ? "it only moves data"
                    : isContraction ? "it sums over channels, and windows of the vector engine do not"
                    : kernel.anchor ? "the array multiplies by weights, which this window has none of"
                                    : "it has no products for the array";
  InFlightDiagnostic diagnostic = mlir::emitError(UnknownLoc::get(function.getContext()));
  return diagnostic << request.placeOf({"engine"}) << "engine is " << nameOf(*request.engine) << " but kernel '" << kernel.name
                    << "' must be on " << can << ": " << why;
}

/// The value of the kernel's last step, and how the result is written: transposes behind the step are undone in the strides.
FailureOr<Value> KernelMatcher::matchOutput(func::ReturnOp op) {
  Value result = op.getOperand(0), inner = result;
  SmallVector<Operation *> movements;
  size_t untilTranspose = 0;
  while (Operation *def = inner.getDefiningOp()) {
    if (!llvm::isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp, linalg::TransposeOp>(def))
      break;
    movements.push_back(def);
    if (llvm::isa<linalg::TransposeOp>(def))
      untilTranspose = movements.size();
    inner = def->getOperand(0);
  }
  movements.resize(untilTranspose);
  // Dense row-major over the iteration space.
  int64_t stride = 1;
  kernel.outputReduced = !kernel.steps.empty() && kernel.steps.back().reducesChannels;
  for (unsigned axis = 0; axis < kAxes; ++axis) {
    if (axis == C && kernel.outputReduced)
      continue;
    kernel.output.stride[axis] = stride;
    stride *= kernel.made(kernel.extent)[axis];
  }
  if (movements.empty())
    return result;
  if (kernel.outputReduced)
    return error(op) << "transposes the result of a reduction";
  TensorValue view;
  view.tensor = kernel.output.tensor;
  auto shapeOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getShape(); };
  view.shape.assign(shapeOf(result).begin(), shapeOf(result).end());
  view.stride = rowMajor(view.shape);
  view.padLow.assign(view.shape.size(), 0);
  view.padHigh.assign(view.shape.size(), 0);
  auto reshaped = [&](ArrayRef<int64_t> shape) -> LogicalResult {
    FailureOr<TensorValue> other = reshape(view, shape, op);
    if (succeeded(other))
      view = *other;
    return other;
  };
  for (Operation *movement : movements) {
    Value source = movement->getOperand(0);
    if (auto transpose = dyn_cast<linalg::TransposeOp>(movement)) {
      TensorValue before = view;
      for (auto [i, from] : llvm::enumerate(transpose.getPermutation())) {
        before.shape[from] = view.shape[i];
        before.stride[from] = view.stride[i];
      }
      view = before;
    } else if (failed(reshaped(shapeOf(source)))) {
      return failure();
    }
  }
  const Extent made = kernel.made(kernel.extent);
  if (failed(reshaped({made[P2], made[P1], made[P0], made[C]})))
    return failure();
  for (unsigned axis = 0; axis < kAxes; ++axis)
    kernel.output.stride[axis] = view.stride[size_t(axisOf(axis, kAxes))];
  return movements.back()->getOperand(0);
}

std::string kindOf(func::FuncOp function) {
  std::string kind;
  llvm::raw_string_ostream stream(kind);
  stream << function->getAttr(plan::kPlanAttr) << function.getFunctionType();
  // Who reads what: values by the order in which they are met.
  DenseMap<Value, size_t> numbers;
  auto print = [&](Value value) { stream << numbers.try_emplace(value, numbers.size()).first->second << value.getType(); };
  llvm::for_each(function.getArguments(), print);
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    stream << op->getName() << "(";
    llvm::interleaveComma(op->getOperands(), stream, print);
    stream << ")";
    llvm::interleaveComma(op->getResults(), stream, print);
    for (Region &region : op->getRegions())
      llvm::for_each(region.getArguments(), print);
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      stream << llvm::isa<SplatElementsAttr>(constant.getValue());
    else if (!llvm::isa<func::FuncOp>(op))
      stream << op->getAttrDictionary();
  });
  return kind;
}

FailureOr<Kernel> KernelMatcher::run() {
  kernel.name = function.getName().str();
  kernel.kind = kindOf(function);
  FailureOr<KernelPlan> request = plan::planOf(function);
  if (failed(request))
    return failure();
  kernel.plan = *request;
  if (auto nodes = function->getAttrOfType<ArrayAttr>("tilewright.nodes"))
    for (Attribute node : nodes)
      kernel.nodes.push_back(cast<StringAttr>(node).getValue().str());
  for (BlockArgument argument : function.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || !type.hasStaticShape() || !vectorType(type.getElementType()))
      return error(function) << "argument " << argument.getArgNumber() << " has type " << argument.getType()
                             << ", not a static tensor of i8, i32, f32 or bf16";
    KernelTensor tensor;
    tensor.index = argument.getArgNumber();
    tensor.type = *vectorType(type.getElementType());
    tensor.elements = type.getNumElements();
    TensorValue value;
    value.tensor = int(kernel.tensors.size());
    value.shape.assign(type.getShape().begin(), type.getShape().end());
    value.stride = rowMajor(value.shape);
    value.padLow.assign(value.shape.size(), 0);
    value.padHigh.assign(value.shape.size(), 0);
    values[argument] = value;
    kernel.tensors.push_back(tensor);
  }
  if (function.getNumResults() != 1)
    return error(function) << "a kernel must have one result";
  auto resultType = dyn_cast<RankedTensorType>(function.getResultTypes()[0]);
  if (!resultType || !vectorType(resultType.getElementType()))
    return error(function) << "a result of type " << function.getResultTypes()[0];
  KernelTensor resultTensor;
  resultTensor.role = KernelTensor::Result;
  resultTensor.type = *vectorType(resultType.getElementType());
  resultTensor.elements = resultType.getNumElements();
  kernel.output.tensor = int(kernel.tensors.size());
  kernel.outputType = resultTensor.type;
  kernel.tensors.push_back(resultTensor);

  for (Operation &op : function.getBody().front()) {
    if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
      if (failed(matchGeneric(generic)))
        return failure();
    } else if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op)) {
      if (!llvm::isa<linalg::FillOp, linalg::TransposeOp>(op))
        return error(&op) << "'" << op.getName() << "' must be generalised first";
    }
  }
  auto returnOp = cast<func::ReturnOp>(function.getBody().front().getTerminator());
  if (failed(checkEngine()))
    return failure();
  if (!kernel.anchor && kernel.steps.empty()) {
    if (failed(matchCopies(returnOp)))
      return failure();
    return kernel;
  }
  FailureOr<Value> last = matchOutput(returnOp);
  if (failed(last))
    return failure();
  auto value = trace(*last);
  if (failed(value))
    return failure();
  if (value->tensor >= 0 || value->step != int(kernel.steps.size()) - 1)
    return error(returnOp) << "a kernel must return its last step";
  for (unsigned i = P0; kernel.anchor && i < kAxes; ++i) {
    const WindowAxis axis = kernel.positions(i);
    kernel.macs = kernel.macs / uint64_t(axis.size * axis.kernel) * uint64_t(axis.usefulTaps());
  }
  return kernel;
}
} // namespace

bool accel::canReadParts(const Kernel &kernel, int tensor, const Concatenation &concatenation) {
  const std::optional<Anchor> &a = kernel.anchor;
  if (!a || a->kind != Anchor::Contraction || a->weights != tensor || a->input.tensor == tensor)
    return false;
  for (const Step &step : kernel.steps)
    for (const Source &source : step.sources)
      if (source.kind == Source::Tensor && source.view.tensor == tensor)
        return false;
  const int64_t inner = concatenation.inner, whole = concatenation.size * inner;
  const int64_t batches = a->batchAxis ? a->axes[*a->batchAxis - P0].size : 1;
  const std::pair<int64_t, int64_t> walks[] = {{a->weightOc, a->oc},
                                               {a->weightIc, a->ic},
                                               {a->weightBatch, batches},
                                               {a->weightGroup, a->groups},
                                               {a->weightKw, a->axes[0].kernel},
                                               {a->weightKh, a->weightRows()}};
  int64_t along = 0, last = a->weightOffset / inner % concatenation.size, within = a->weightOffset % inner;
  for (auto [stride, count] : walks) {
    if (count <= 1 || stride % whole == 0)
      continue;
    if (stride % inner)
      within += stride * (count - 1);
    else if (++along > 1)
      return false;
    else
      last += stride / inner * (count - 1);
  }
  return within < inner && last < concatenation.size;
}

FailureOr<Kernel> accel::matchKernel(func::FuncOp function) { return KernelMatcher(function).run(); }
