//===- Graph.cpp - The graph dialect --------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphShapes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

#include "compiler/graph/GraphOpsDialect.cpp.inc"
#include "compiler/graph/GraphOpsEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/graph/GraphOpsAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "compiler/graph/GraphOps.cpp.inc"

using namespace mlir;

namespace tw::graph {

void GraphDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "compiler/graph/GraphOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/graph/GraphOpsAttrs.cpp.inc"
      >();
}

Operation *GraphDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getShapedType() != type)
    return nullptr;
  return builder.create<ConstantOp>(loc, elements);
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }
static Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

/// Checks the shape of the one result of `op` against the rule's.
static LogicalResult verifyShape(Operation *op, llvm::Expected<Shape> expected) {
  if (!expected)
    return op->emitOpError() << llvm::toString(expected.takeError());
  ArrayRef<int64_t> found = shapeOf(op->getResult(0));
  if (found != ArrayRef<int64_t>(*expected))
    return op->emitOpError() << "result has shape " << formatShape(found) << ", expected " << formatShape(*expected);
  return success();
}

/// Checks that a list of values per channel has one element or `channels`.
static LogicalResult verifyPerChannel(Operation *op, StringRef name, size_t found, int64_t channels) {
  if (found == 1 || int64_t(found) == channels)
    return success();
  return op->emitOpError() << name << " has " << found << " values, expected 1 or " << channels;
}

static LogicalResult verifyAxis(Operation *op, int64_t axis, ArrayRef<int64_t> shape) {
  if (axis >= 0 && axis < int64_t(shape.size()))
    return success();
  return op->emitOpError() << "axis is " << axis << ", expected 0 to rank - 1 of " << formatShape(shape);
}

/// Checks that a zero point is a value of the 8-bit or 32-bit integer type.
static LogicalResult verifyZeroPoint(Operation *op, StringRef name, int32_t value, Type type) {
  if (type.isInteger(32))
    return success();
  int32_t least = type.isUnsignedInteger() ? 0 : -128;
  if (value >= least && value <= least + 255)
    return success();
  return op->emitOpError() << name << " is " << value << ", expected " << least << " to " << least + 255;
}

static LogicalResult verifyScale(Operation *op, StringRef name, float value) {
  if (std::isfinite(value) && value > 0)
    return success();
  return op->emitOpError() << name << " is " << value << ", expected a positive number";
}

template <typename OpT> static LogicalResult verifyBinary(OpT op) {
  return verifyShape(op, broadcastShapes(shapeOf(op.getA()), shapeOf(op.getB())));
}
LogicalResult AddOp::verify() { return verifyBinary(*this); }
LogicalResult SubOp::verify() { return verifyBinary(*this); }
LogicalResult MulOp::verify() { return verifyBinary(*this); }
LogicalResult DivOp::verify() { return verifyBinary(*this); }
LogicalResult MinOp::verify() { return verifyBinary(*this); }
LogicalResult MaxOp::verify() { return verifyBinary(*this); }

unsigned ElementwiseOp::arityOf(Function function) {
  switch (function) {
  case Function::Select:
    return 3;
  case Function::Equal:
  case Function::Less:
  case Function::LessOrEqual:
  case Function::Greater:
  case Function::GreaterOrEqual:
  case Function::And:
  case Function::Or:
  case Function::Xor:
  case Function::ShiftLeft:
  case Function::ShiftRight:
  case Function::Mod:
  case Function::Fmod:
  case Function::Pow:
    return 2;
  default:
    return 1;
  }
}

bool ElementwiseOp::isPredicate(Function function) { return function <= Function::IsNan; }

bool ElementwiseOp::isDefinedFor(Function function, Type type) {
  const bool isFloat = isa<FloatType>(type), isBool = type.isInteger(1);
  switch (function) {
  case Function::Equal:
  case Function::Select:
    return true;
  case Function::Less:
  case Function::LessOrEqual:
  case Function::Greater:
  case Function::GreaterOrEqual:
  case Function::Fmod:
  case Function::Sign:
    return !isBool;
  case Function::And:
  case Function::Or:
  case Function::Xor:
  case Function::Not:
    return !isFloat;
  case Function::ShiftLeft:
  case Function::ShiftRight:
    return type.isUnsignedInteger();
  case Function::Mod:
    return !isFloat && !isBool;
  default:
    return isFloat;
  }
}

LogicalResult ElementwiseOp::verify() {
  const Function function = getFunction();
  const StringRef name = stringifyFunction(function);
  if (getX().size() != arityOf(function))
    return emitOpError() << name << " has " << getX().size() << " operands, expected " << arityOf(function);
  ValueRange numbers = getX();
  if (function == Function::Select) {
    if (!elementOf(numbers.front()).isInteger(1))
      return emitOpError() << "the condition is of " << elementOf(numbers.front()) << ", expected i1";
    numbers = numbers.drop_front();
  }
  Type type = elementOf(numbers.front());
  for (Value number : numbers)
    if (elementOf(number) != type)
      return emitOpError() << "operands are of " << type << " and " << elementOf(number) << ", expected one type";
  if (!isDefinedFor(function, type))
    return emitOpError() << name << " is not defined for elements of " << type;
  Type result = isPredicate(function) ? IntegerType::get(getContext(), 1) : type;
  if (elementOf(getY()) != result)
    return emitOpError() << "result is of " << elementOf(getY()) << ", expected " << result;
  llvm::Expected<Shape> shape = Shape(shapeOf(getX().front()));
  for (Value number : getX().drop_front())
    if (shape)
      shape = broadcastShapes(*shape, shapeOf(number));
  return verifyShape(*this, std::move(shape));
}

/// The parts of the two convolutions that agree.
template <typename OpT> static LogicalResult verifyConv(OpT op) {
  return verifyShape(op, convShape(shapeOf(op.getX()), shapeOf(op.getW()), op.getStrides(), op.getPads(), op.getDilations(),
                                   op.getGroup(), op.getLayout()));
}

LogicalResult ConvOp::verify() {
  if (elementOf(getX()) != elementOf(getW()))
    return emitOpError() << "input is of " << elementOf(getX()) << ", weights of " << elementOf(getW())
                         << ", expected one type";
  if (failed(verifyConv(*this)))
    return failure();
  // bf16 products are summed in f32, and the sum may be kept.
  if (elementOf(getY()) != elementOf(getX()) && !elementOf(getY()).isF32())
    return emitOpError() << "result is of " << elementOf(getY()) << ", expected " << elementOf(getX()) << " or f32";
  if (Value bias = getBias()) {
    int64_t outputs = shapeOf(getY())[getLayout() == "nhwc" ? 3 : 1];
    if (shapeOf(bias) != ArrayRef<int64_t>{outputs})
      return emitOpError() << "bias has shape " << formatShape(shapeOf(bias)) << ", expected [" << outputs << "]";
    if (elementOf(bias) != elementOf(getX()) && elementOf(bias) != elementOf(getY()))
      return emitOpError() << "bias is of " << elementOf(bias) << ", expected " << elementOf(getY());
  }
  return success();
}

LogicalResult ConvIntegerOp::verify() {
  if (failed(verifyConv(*this)) || failed(verifyZeroPoint(*this, "x_zero_point", getXZeroPoint(), elementOf(getX()))) ||
      failed(verifyPerChannel(*this, "w_zero_points", getWZeroPoints().size(), shapeOf(getY())[getLayout() == "nhwc" ? 3 : 1])))
    return failure();
  for (int32_t zeroPoint : getWZeroPoints())
    if (failed(verifyZeroPoint(*this, "w_zero_points", zeroPoint, elementOf(getW()))))
      return failure();
  return success();
}

LogicalResult MatmulOp::verify() { return verifyShape(*this, matmulShape(shapeOf(getA()), shapeOf(getB()))); }

LogicalResult MatmulIntegerOp::verify() {
  ArrayRef<int64_t> b = shapeOf(getB());
  if (failed(verifyShape(*this, matmulShape(shapeOf(getA()), b))) ||
      failed(verifyZeroPoint(*this, "a_zero_point", getAZeroPoint(), elementOf(getA()))) ||
      failed(verifyPerChannel(*this, "b_zero_points", getBZeroPoints().size(), b.size() > 1 ? b.back() : 1)))
    return failure();
  for (int32_t zeroPoint : getBZeroPoints())
    if (failed(verifyZeroPoint(*this, "b_zero_points", zeroPoint, elementOf(getB()))))
      return failure();
  return success();
}

/// The parts of quantize and dequantize that agree; `type` is the integer side.
template <typename OpT> static LogicalResult verifyQuantization(OpT op, Type type) {
  ArrayRef<int64_t> x = shapeOf(op.getX());
  if (failed(verifyShape(op, Shape(x.begin(), x.end()))))
    return failure();
  if (op.getScales().size() != op.getZeroPoints().size())
    return op.emitOpError() << "found " << op.getScales().size() << " scales and " << op.getZeroPoints().size()
                            << " zero points, expected as many";
  // A single scale needs no axis.
  if (op.getScales().size() != 1 && (failed(verifyAxis(op, op.getAxis(), x)) ||
                                     failed(verifyPerChannel(op, "scales", op.getScales().size(), x[op.getAxis()]))))
    return failure();
  for (float scale : op.getScales())
    if (failed(verifyScale(op, "scales", scale)))
      return failure();
  for (int32_t zeroPoint : op.getZeroPoints())
    if (failed(verifyZeroPoint(op, "zero_points", zeroPoint, type)))
      return failure();
  return success();
}
LogicalResult QuantizeOp::verify() { return verifyQuantization(*this, elementOf(getY())); }
LogicalResult DequantizeOp::verify() { return verifyQuantization(*this, elementOf(getX())); }

LogicalResult RequantizeOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getX());
  if (failed(verifyShape(*this, Shape(x.begin(), x.end()))) ||
      failed(verifyZeroPoint(*this, "zero_point", getZeroPoint(), elementOf(getY()))))
    return failure();
  if (getMultipliers().size() != 1 || getBias()) {
    if (failed(verifyAxis(*this, getAxis(), x)) ||
        failed(verifyPerChannel(*this, "multipliers", getMultipliers().size(), x[getAxis()])))
      return failure();
    if (getBias() && shapeOf(getBias()) != ArrayRef<int64_t>{x[getAxis()]})
      return emitOpError() << "bias has shape " << formatShape(shapeOf(getBias())) << ", expected [" << x[getAxis()] << "]";
  }
  for (float multiplier : getMultipliers())
    if (failed(verifyScale(*this, "multipliers", multiplier)))
      return failure();
  return success();
}

LogicalResult GatherOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getX()), indices = shapeOf(getIndices());
  if (x.size() != 3 || indices.size() != 3 || (indices[0] != 1 && indices[0] != x[0]) ||
      (indices[2] != 1 && indices[2] != x[2]))
    return emitOpError() << "x has shape " << formatShape(x) << " and indices " << formatShape(indices)
                         << ", expected [O, N, I] and [O or 1, K, I or 1]";
  if (elementOf(getX()) != elementOf(getY()))
    return emitOpError() << "x is of " << elementOf(getX()) << ", the result of " << elementOf(getY()) << ", expected one type";
  return verifyShape(*this, Shape{x[0], indices[1], x[2]});
}

LogicalResult CastOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getX());
  return verifyShape(*this, Shape(x.begin(), x.end()));
}

LogicalResult SoftmaxOp::verify() { return verifyAxis(*this, getAxis(), shapeOf(getX())); }
LogicalResult LayerNormOp::verify() { return verifyAxis(*this, getAxis(), shapeOf(getX())); }
LogicalResult ReduceOp::verify() { return verifyShape(*this, reduceShape(shapeOf(getX()), getAxes(), getKeepdims())); }

LogicalResult BatchNormOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getX());
  if (x.size() < 2)
    return emitOpError() << "input has shape " << formatShape(x) << ", expected at least rank 2";
  for (auto [name, value] : {std::pair("scale", getScale()), {"b", getB()}, {"mean", getMean()}, {"var", getVar()}})
    if (shapeOf(value) != ArrayRef<int64_t>{x[1]})
      return emitOpError() << name << " has shape " << formatShape(shapeOf(value)) << ", expected [" << x[1] << "]";
  return success();
}

LogicalResult MaxPoolOp::verify() {
  return verifyShape(*this, poolShape(shapeOf(getX()), getKernel(), getStrides(), getPads(), getDilations(), getLayout()));
}
LogicalResult AveragePoolOp::verify() {
  return verifyShape(*this, poolShape(shapeOf(getX()), getKernel(), getStrides(), getPads(), {1, 1}, getLayout()));
}

LogicalResult ConcatOp::verify() {
  SmallVector<Shape> shapes;
  for (Value input : getInputs()) {
    if (elementOf(input) != elementOf(getY()))
      return emitOpError() << "an input is of " << elementOf(input) << ", the result of " << elementOf(getY())
                           << ", expected one type";
    shapes.emplace_back(shapeOf(input));
  }
  return verifyShape(*this, concatShape(shapes, getAxis()));
}

/// Checks that a data movement keeps the element type.
template <typename OpT> static LogicalResult verifyKeepsType(OpT op) {
  if (elementOf(op.getX()) == elementOf(op.getY()))
    return success();
  return op.emitOpError() << "result is of " << elementOf(op.getY()) << ", expected " << elementOf(op.getX());
}

LogicalResult ReshapeOp::verify() {
  if (failed(verifyKeepsType(*this)))
    return failure();
  auto from = cast<RankedTensorType>(getX().getType()), to = cast<RankedTensorType>(getY().getType());
  if (from.getNumElements() != to.getNumElements())
    return emitOpError() << "result of shape " << formatShape(to.getShape()) << " has " << to.getNumElements()
                         << " elements, the input of shape " << formatShape(from.getShape()) << " has "
                         << from.getNumElements();
  return success();
}

LogicalResult TransposeOp::verify() {
  return success(succeeded(verifyKeepsType(*this)) &&
                 succeeded(verifyShape(*this, transposeShape(shapeOf(getX()), getPerm()))));
}

LogicalResult SliceOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getX()), y = shapeOf(getY());
  if (failed(verifyKeepsType(*this)))
    return failure();
  if (y.size() != x.size() || getStarts().size() != x.size() || getSteps().size() != x.size())
    return emitOpError() << "result of shape " << formatShape(y) << " with " << getStarts().size() << " starts and "
                         << getSteps().size() << " steps, expected one of each per dim of " << formatShape(x);
  for (size_t i = 0; i < x.size(); ++i) {
    if (getSteps()[i] == 0)
      return emitOpError() << "step of dim " << i << " is 0, expected another value";
    if (y[i] == 0)
      continue;
    int64_t first = getStarts()[i], distance, last;
    if (__builtin_mul_overflow(y[i] - 1, getSteps()[i], &distance) || __builtin_add_overflow(first, distance, &last) ||
        first < 0 || first >= x[i] || last < 0 || last >= x[i])
      return emitOpError() << "dim " << i << " starts at " << first << " and takes " << y[i] << " elements in steps of "
                           << getSteps()[i] << ", which leaves the " << x[i] << " elements of the input";
  }
  return success();
}

LogicalResult PadOp::verify() {
  if (failed(verifyKeepsType(*this)))
    return failure();
  if (getValue().getType() != elementOf(getX()))
    return emitOpError() << "value is of " << getValue().getType() << ", expected " << elementOf(getX());
  return verifyShape(*this, padShape(shapeOf(getX()), getLow(), getHigh()));
}

LogicalResult QLinearAddOp::verify() {
  Type type = elementOf(getY());
  return success(succeeded(verifyBinary(*this)) && succeeded(verifyScale(*this, "a_scale", getAScale().convertToFloat())) &&
                 succeeded(verifyScale(*this, "b_scale", getBScale().convertToFloat())) &&
                 succeeded(verifyScale(*this, "y_scale", getYScale().convertToFloat())) &&
                 succeeded(verifyZeroPoint(*this, "a_zero_point", getAZeroPoint(), type)) &&
                 succeeded(verifyZeroPoint(*this, "b_zero_point", getBZeroPoint(), type)) &&
                 succeeded(verifyZeroPoint(*this, "y_zero_point", getYZeroPoint(), type)));
}

/// The quantisation of the one input and the result of a qlinear op.
template <typename OpT> static LogicalResult verifyInAndOut(OpT op) {
  Type type = elementOf(op.getY());
  return success(succeeded(verifyScale(op, "x_scale", op.getXScale().convertToFloat())) &&
                 succeeded(verifyScale(op, "y_scale", op.getYScale().convertToFloat())) &&
                 succeeded(verifyZeroPoint(op, "x_zero_point", op.getXZeroPoint(), type)) &&
                 succeeded(verifyZeroPoint(op, "y_zero_point", op.getYZeroPoint(), type)));
}

LogicalResult QLinearAveragePoolOp::verify() {
  if (failed(verifyInAndOut(*this)))
    return failure();
  return verifyShape(*this, poolShape(shapeOf(getX()), getKernel(), getStrides(), getPads(), {1, 1}, getLayout()));
}

LogicalResult QLinearGlobalAveragePoolOp::verify() {
  if (failed(verifyInAndOut(*this)))
    return failure();
  ArrayRef<int64_t> x = shapeOf(getX());
  if (x.size() != 4)
    return emitOpError() << "input has shape " << formatShape(x) << ", expected rank 4";
  return verifyShape(*this, getLayout() == "nhwc" ? Shape{x[0], 1, 1, x[3]} : Shape{x[0], x[1], 1, 1});
}

LogicalResult QLinearSoftmaxOp::verify() {
  return success(succeeded(verifyInAndOut(*this)) && succeeded(verifyAxis(*this, getAxis(), shapeOf(getX()))));
}

} // namespace tw::graph
