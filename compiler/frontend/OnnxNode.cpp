//===- OnnxNode.cpp - One node during import ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/OnnxNode.h"
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/graph/Messages.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "compiler/operators/Evaluator.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include <onnx/onnx_pb.h>

namespace tw::frontend {

using llvm::ArrayRef;
using llvm::StringRef;
using llvm::Twine;

mlir::Type mlirElementType(mlir::MLIRContext &context, ElementKind kind) {
  auto integer = [&](unsigned width, bool isUnsigned) {
    return mlir::IntegerType::get(&context, width, isUnsigned ? mlir::IntegerType::Unsigned : mlir::IntegerType::Signless);
  };
  switch (kind) {
  case ElementKind::F32:
    return mlir::FloatType::getF32(&context);
  case ElementKind::F16:
    return mlir::FloatType::getF16(&context);
  case ElementKind::BF16:
    return mlir::FloatType::getBF16(&context);
  case ElementKind::F64:
    return mlir::FloatType::getF64(&context);
  case ElementKind::I8:
    return integer(8, false);
  case ElementKind::U8:
    return integer(8, true);
  case ElementKind::I16:
    return integer(16, false);
  case ElementKind::U16:
    return integer(16, true);
  case ElementKind::I32:
    return integer(32, false);
  case ElementKind::U32:
    return integer(32, true);
  case ElementKind::I64:
    return integer(64, false);
  case ElementKind::U64:
    return integer(64, true);
  case ElementKind::Bool:
    return integer(1, false);
  default:
    llvm_unreachable("the host keeps such tensors to itself");
  }
}

/// Whether ops other than graph.constant and graph.fallback may have this element type.
static bool isGraphKind(ElementKind kind) {
  switch (kind) {
  case ElementKind::F64:
  case ElementKind::I16:
  case ElementKind::U16:
  case ElementKind::U32:
  case ElementKind::U64:
    return false;
  default:
    return !isHostOnly(kind);
  }
}

Tensor decodeConstant(const onnx::TensorProto &proto, bool widenFloats, const std::string &folder) {
  auto tensor = decodeTensor(proto, folder);
  if (!tensor)
    throw ImportError{tensor.message()};
  return constantOf(std::move(*tensor), widenFloats);
}

Tensor constantOf(HostTensor tensor, bool widenFloats) {
  const ElementKind declared = tensor.type, kind = widenFloats ? widened(declared) : declared;
  ConstantRef constant = makeConstant(std::move(tensor));
  Tensor result = kind == declared ? constant : evalCast(constant, kind);
  result.declared = declared;
  return result;
}

Node::Node(FunctionBuilder &builder, const onnx::NodeProto &proto, mlir::Location loc, int64_t opset,
           std::vector<const Tensor *> inputs)
    : functionBuilder(builder), proto(proto), location(loc), version(opset), inputs(std::move(inputs)) {}

StringRef Node::type() const { return proto.op_type(); }
StringRef Node::domain() const { return proto.domain() == "ai.onnx" ? StringRef() : StringRef(proto.domain()); }
size_t Node::numOutputs() const { return size_t(proto.output_size()); }
std::string Node::name() const { return !proto.name().empty() || proto.output_size() == 0 ? proto.name() : proto.output(0); }
bool Node::wants(size_t i) const { return i < numOutputs() && !proto.output(int(i)).empty(); }

void Node::fail(const Twine &text) const { throw ImportError{text.str()}; }
void Node::inexpressible(const Twine &text) const { throw Inexpressible{text.str()}; }

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

const onnx::AttributeProto *Node::findAttr(StringRef name, int type) {
  usedAttrs.insert(name.str());
  const onnx::AttributeProto *found = nullptr;
  for (const onnx::AttributeProto &attr : proto.attribute()) {
    if (attr.name() != name)
      continue;
    if (found)
      fail("attribute " + name + " is given twice");
    found = &attr;
  }
  // Models older than IR version 2 leave the type out.
  if (found && found->has_type() && found->type() != onnx::AttributeProto::UNDEFINED && found->type() != type)
    fail("attribute " + name + " is of type " + onnx::AttributeProto::AttributeType_Name(found->type()) + ", expected " +
         onnx::AttributeProto::AttributeType_Name(onnx::AttributeProto::AttributeType(type)));
  if (found && !found->ref_attr_name().empty())
    fail("attribute " + name + " refers to an attribute of a function, which is not supported");
  return found;
}

bool Node::hasAttr(StringRef name) {
  return llvm::any_of(proto.attribute(), [&](const onnx::AttributeProto &attr) { return attr.name() == name; });
}

int64_t Node::intAttr(StringRef name, std::optional<int64_t> fallback) {
  if (auto *attr = findAttr(name, onnx::AttributeProto::INT))
    return attr->i();
  if (!fallback)
    fail("attribute " + name + " is missing");
  return *fallback;
}

float Node::floatAttr(StringRef name, std::optional<float> fallback) {
  if (auto *attr = findAttr(name, onnx::AttributeProto::FLOAT))
    return attr->f();
  if (!fallback)
    fail("attribute " + name + " is missing");
  return *fallback;
}

std::string Node::stringAttr(StringRef name, std::optional<std::string> fallback) {
  if (auto *attr = findAttr(name, onnx::AttributeProto::STRING))
    return attr->s();
  if (!fallback)
    fail("attribute " + name + " is missing");
  return *fallback;
}

std::vector<int64_t> Node::intsAttr(StringRef name, std::optional<std::vector<int64_t>> fallback) {
  if (auto *attr = findAttr(name, onnx::AttributeProto::INTS))
    return {attr->ints().begin(), attr->ints().end()};
  if (!fallback)
    fail("attribute " + name + " is missing");
  return *fallback;
}

std::vector<float> Node::floatsAttr(StringRef name) {
  if (auto *attr = findAttr(name, onnx::AttributeProto::FLOATS))
    return {attr->floats().begin(), attr->floats().end()};
  fail("attribute " + name + " is missing");
}

std::vector<std::string> Node::stringsAttr(StringRef name) {
  if (auto *attr = findAttr(name, onnx::AttributeProto::STRINGS))
    return {attr->strings().begin(), attr->strings().end()};
  return {};
}

Tensor Node::tensorAttr(StringRef name) {
  auto *attr = findAttr(name, onnx::AttributeProto::TENSOR);
  if (!attr || !attr->has_t())
    fail("attribute " + name + " is missing");
  try {
    if (auto kind = elementKindOf(attr->t().data_type()); kind && isHostOnly(*kind))
      inexpressible(Twine("attribute ") + name + " is a tensor of " + elementName(*kind));
    return decodeConstant(attr->t(), functionBuilder.widenFloats, functionBuilder.folder);
  } catch (const ImportError &error) {
    fail("attribute " + name + ": " + error.message);
  }
}

bool Node::flagAttr(StringRef name, bool fallback) {
  int64_t value = intAttr(name, fallback);
  if (value != 0 && value != 1)
    fail("attribute " + name + " is " + Twine(value) + ", expected 0 or 1");
  return value;
}

void Node::checkAttrsUsed() const {
  for (const onnx::AttributeProto &attr : proto.attribute())
    if (!usedAttrs.count(attr.name()) && domain().empty() && version > kLastKnownOpset)
      inexpressible("attribute " + Twine(attr.name()) + " is not known");
    else if (!usedAttrs.count(attr.name()))
      fail("attribute " + attr.name() + " is not known for this operator in opset " + Twine(version));
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

const Tensor &Node::input(size_t i, StringRef name) const {
  if (!has(i))
    fail("input " + Twine(i) + " (" + name + ") is missing");
  return *inputs[i];
}

const ConstantRef &Node::constant(size_t i, StringRef name) const {
  const Tensor &x = input(i, name);
  if (!x.constant)
    inexpressible("input " + Twine(i) + " (" + name + ") is not a constant");
  return x.constant;
}

std::vector<int64_t> Node::ints(size_t i, StringRef name) const {
  const Constant &x = *constant(i, name);
  if (x.shape.size() > 1 || (x.kind != ElementKind::I64 && x.kind != ElementKind::I32))
    fail("input " + Twine(i) + " (" + name + ") has shape " + formatShape(x.shape) + " of " + elementName(x.kind) +
         ", expected a list of int64");
  return integersOf(x);
}

const ConstantRef &Node::scalar(size_t i, StringRef name) const {
  const ConstantRef &x = constant(i, name);
  if (x->count() != 1)
    fail("input " + Twine(i) + " (" + name + ") has shape " + formatShape(x->shape) + ", expected one element");
  return x;
}

void Node::checkInputCount(size_t least, size_t most) const {
  if (inputs.size() < least || inputs.size() > most)
    fail("found " + Twine(inputs.size()) + " inputs, expected " + Twine(least) +
         (most == least      ? ""
          : most == SIZE_MAX ? " or more"
                             : " to " + std::to_string(most)));
  for (size_t i = 0; i < least; ++i)
    if (!inputs[i])
      fail("input " + Twine(i) + " is left out, but is not optional");
}

bool Node::allConstant() const {
  return llvm::all_of(inputs, [](const Tensor *x) { return !x || x->constant; });
}

int64_t Node::axis(int64_t axis, int64_t rank, bool behind) const {
  int64_t last = behind ? rank : rank - 1;
  if (axis < -rank || axis > last)
    fail("axis is " + Twine(axis) + ", expected " + Twine(-rank) + " to " + Twine(last));
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> Node::axes(std::vector<int64_t> axes, int64_t rank) const {
  for (int64_t &dim : axes)
    dim = axis(dim, rank);
  llvm::sort(axes);
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    fail("axes name dim " + Twine(*std::adjacent_find(axes.begin(), axes.end())) + " twice");
  return axes;
}

void Node::requireFloat(const Tensor &x) const {
  if (x.kind != ElementKind::F32 && x.kind != ElementKind::F16 && x.kind != ElementKind::BF16)
    inexpressible(Twine("element type ") + elementName(x.kind) + " is not supported by this operator");
}

void Node::requireSameType(const Tensor &a, const Tensor &b) const {
  if (a.kind != b.kind)
    fail(Twine("inputs are of ") + elementName(a.kind) + " and " + elementName(b.kind) + ", expected one type");
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

mlir::RankedTensorType Node::tensorType(ElementKind kind, ArrayRef<int64_t> shape) const {
  return mlir::RankedTensorType::get(shape, mlirElementType(*location.getContext(), kind));
}

mlir::Value Node::value(const Tensor &x) const {
  if (x.value)
    return x.value;
  assert(x.constant && "a tensor is a value or a constant");
  auto &entry = functionBuilder.materialised[x.constant.get()];
  if (entry.second)
    return entry.second;
  const Constant &constant = *x.constant;
  auto type = tensorType(constant.kind, constant.shape);
  mlir::DenseElementsAttr attr;
  if (constant.kind == ElementKind::Bool) {
    llvm::SmallVector<bool> bits(constant.bytes().begin(), constant.bytes().end());
    attr = mlir::DenseElementsAttr::get(type, bits);
  } else {
    attr = mlir::DenseElementsAttr::getFromRawBuffer(
        type, ArrayRef<char>(reinterpret_cast<const char *>(constant.bytes().data()), constant.bytes().size()));
  }
  mlir::OpBuilder::InsertionGuard guard(functionBuilder.ops);
  if (functionBuilder.lastConstant)
    functionBuilder.ops.setInsertionPointAfter(functionBuilder.lastConstant);
  else
    functionBuilder.ops.setInsertionPointToStart(functionBuilder.ops.getInsertionBlock());
  mlir::Location loc = location;
  if (!constant.name.empty())
    loc = mlir::NameLoc::get(mlir::StringAttr::get(location.getContext(), constant.name));
  auto op = functionBuilder.ops.create<graph::ConstantOp>(loc, type, attr);
  functionBuilder.lastConstant = op;
  // The attribute lives as long as the context.
  if (constant.bytes().size() >= kManyBytes)
    constant.storage->release([attr, kind = constant.kind, dims = constant.storage->get()->shape] {
      HostTensor tensor{"", kind, dims, {}};
      if (kind == ElementKind::Bool)
        tensor.bytes.assign(attr.value_begin<bool>(), attr.value_end<bool>());
      else
        tensor.bytes.assign(attr.getRawData().begin(), attr.getRawData().end());
      return tensor;
    });
  entry = {x.constant, op.getResult()};
  return entry.second;
}

void Node::checkResult(ElementKind kind, ArrayRef<int64_t> shape, bool anyElement) const {
  auto count = countTensorElements(std::vector<int64_t>(shape.begin(), shape.end()));
  if (shape.size() > kMaxRank)
    fail("the result would have " + Twine(shape.size()) + " dims, at most " + Twine(kMaxRank) + " are allowed");
  if (!count)
    fail("the result would have shape " + formatShape(shape) + ": at most 2^31 elements are allowed");
  if (*count == 0)
    inexpressible("the result has shape " + formatShape(shape) + ", no element");
  if (anyElement ? isHostOnly(kind) : !isGraphKind(kind))
    inexpressible(Twine("element type ") + elementName(kind) + " is not supported");
}

void Node::verifyOp(mlir::Operation *op, bool anyElement) const {
  for (mlir::Value operand : op->getOperands()) {
    auto type = mlir::cast<mlir::RankedTensorType>(operand.getType());
    for (ElementKind kind : {ElementKind::F64, ElementKind::I16, ElementKind::U16, ElementKind::U32, ElementKind::U64})
      if (!anyElement && type.getElementType() == mlirElementType(*op->getContext(), kind))
        inexpressible(Twine("element type ") + elementName(kind) + " is not supported");
    if (type.getNumElements() == 0)
      fail("an input has shape " + formatShape(type.getShape()) + ": every dim must be at least 1");
  }
  std::string message;
  mlir::ScopedDiagnosticHandler handler(op->getContext(), [&](mlir::Diagnostic &diagnostic) {
    if (message.empty())
      message = diagnostic.str();
    return mlir::success();
  });
  if (failed(op->getName().verifyInvariants(op)))
    fail(graph::sentenceOf(message).value_or(message));
}

void Node::countConstants(ArrayRef<int64_t> shape, ElementKind kind) const {
  auto count = countTensorElements(std::vector<int64_t>(shape.begin(), shape.end()));
  if (auto problem = functionBuilder.budget.add(uint64_t(count.value_or(kMaxTensorElements)) * elementBytes(kind)))
    fail(*problem);
}

Tensor Node::fold(mlir::Operation *op, ElementKind kind, ArrayRef<int64_t> shape) const {
  Tensor result(kind, shape, op->getResult(0));
  auto isConstant = [](mlir::Value operand) { return bool(graph::constantOf(operand)); };
  if (mlir::isa<graph::DequantizeOp>(op) || !llvm::all_of(op->getOperands(), isConstant) ||
      !functionBuilder.budget.takeSteps(uint64_t(graph::evaluationSteps(op))))
    return result;
  // The node's results are counted when it is imported; here only what would be made is looked at.
  if (auto problem =
          functionBuilder.budget.check(uint64_t(graph::tensorOf(op->getResult(0)).getNumElements()) * elementBytes(kind)))
    fail(*problem);
  mlir::DenseElementsAttr value = graph::evaluate(op);
  if (!value)
    return result;
  op->erase();
  std::vector<uint8_t> bytes;
  if (kind == ElementKind::Bool)
    bytes.assign(value.value_begin<bool>(), value.value_end<bool>());
  else
    bytes.assign(value.getRawData().begin(), value.getRawData().end());
  return makeConstant(kind, shape, std::move(bytes));
}

std::vector<Tensor> Node::emitFallback(ArrayRef<std::pair<ElementKind, Shape>> results, StringRef reason) const {
  std::vector<std::string> names;
  std::vector<Tensor> operands;
  auto add = [&](const std::string &name, const Tensor &x) {
    if (llvm::is_contained(names, name))
      return;
    operands.push_back(x);
    names.push_back(name);
  };
  for (auto [i, x] : llvm::enumerate(inputs))
    if (x)
      add(proto.input(int(i)), *x);
  for (auto &[name, x] : captured)
    add(name, *x);
  return emitFallback(operators::modelOf(proto, functionBuilder.opsets, names), operands, results, reason);
}

std::vector<Tensor> Node::emitFallback(const onnx::ModelProto &model, ArrayRef<Tensor> given,
                                       ArrayRef<std::pair<ElementKind, Shape>> results, StringRef reason) const {
  mlir::OpBuilder &b = functionBuilder.ops;
  const onnx::NodeProto &held = model.graph().node(0);
  llvm::SmallVector<mlir::Value> operands;
  llvm::SmallVector<int32_t> kinds;
  for (const Tensor &x : given) {
    operands.push_back(value(x));
    kinds.push_back(int32_t(x.kind));
  }
  llvm::SmallVector<mlir::Type> types;
  for (auto &[kind, shape] : results) {
    auto count = countTensorElements(std::vector<int64_t>(shape.begin(), shape.end()));
    if (!count)
      fail("the result would have shape " + formatShape(shape) + ": at most 2^31 elements are allowed");
    if (*count == 0)
      inexpressible("the result has shape " + formatShape(shape) + ", no element");
    if (isHostOnly(kind))
      inexpressible(Twine("the result is of ") + elementName(kind) + ", which only the host has");
    types.push_back(tensorType(kind, shape));
    kinds.push_back(int32_t(kind));
  }
  llvm::SmallVector<mlir::NamedAttribute> attributes;
  for (const onnx::AttributeProto &attr : held.attribute()) {
    mlir::Attribute text;
    switch (attr.type()) {
    case onnx::AttributeProto::INT:
      text = b.getI64IntegerAttr(attr.i());
      break;
    case onnx::AttributeProto::FLOAT:
      text = b.getF32FloatAttr(attr.f());
      break;
    case onnx::AttributeProto::STRING:
      text = b.getStringAttr(attr.s());
      break;
    case onnx::AttributeProto::INTS:
      text = b.getDenseI64ArrayAttr(llvm::SmallVector<int64_t>(attr.ints().begin(), attr.ints().end()));
      break;
    case onnx::AttributeProto::FLOATS:
      text = b.getDenseF32ArrayAttr(llvm::SmallVector<float>(attr.floats().begin(), attr.floats().end()));
      break;
    default:
      // Tensors and the like stay in the serialised node.
      continue;
    }
    if (!attr.name().empty() && attr.name() != operators::kOpsetAttr)
      attributes.push_back(b.getNamedAttr(attr.name(), text));
  }
  llvm::sort(attributes);
  if (std::adjacent_find(attributes.begin(), attributes.end(), [](auto x, auto y) { return x.getName() == y.getName(); }) !=
      attributes.end())
    fail("an attribute is given twice");
  int64_t opset = version;
  for (const onnx::OperatorSetIdProto &each : model.opset_import())
    if (each.domain() == (held.domain() == "ai.onnx" ? "" : held.domain()))
      opset = each.version();
  auto op = b.create<graph::FallbackOp>(location, types, operands, b.getStringAttr(held.op_type()),
                                        b.getStringAttr(held.domain()), b.getI64IntegerAttr(opset),
                                        b.getDictionaryAttr(attributes), b.getStringAttr(model.SerializeAsString()),
                                        b.getDenseI32ArrayAttr(kinds), b.getStringAttr(reason));
  std::vector<Tensor> tensors;
  for (auto [result, value] : llvm::zip(results, op.getResults()))
    tensors.emplace_back(result.first, result.second, value);
  return tensors;
}

//===----------------------------------------------------------------------===//
// Small graphs
//===----------------------------------------------------------------------===//

Tensor Node::reshape(const Tensor &x, ArrayRef<int64_t> shape) const {
  if (x.shape == Shape(shape.begin(), shape.end()))
    return x;
  auto to = countTensorElements(std::vector<int64_t>(shape.begin(), shape.end()));
  auto from = countTensorElements(std::vector<int64_t>(x.shape.begin(), x.shape.end()));
  if (!to || to != from)
    fail("shape " + formatShape(shape) + " does not hold the elements of shape " + formatShape(x.shape));
  if (x.constant)
    return evalReshape(x.constant, shape);
  return emit<graph::ReshapeOp>(x.kind, shape, value(x));
}

Tensor Node::transpose(const Tensor &x, ArrayRef<int64_t> perm) const {
  Shape shape = check(graph::transposeShape(x.shape, perm));
  if (llvm::is_sorted(perm))
    return x;
  if (x.constant)
    return evalTranspose(x.constant, perm);
  return emit<graph::TransposeOp>(x.kind, shape, value(x), perm);
}

Tensor Node::slice(const Tensor &x, ArrayRef<int64_t> starts, ArrayRef<int64_t> steps, ArrayRef<int64_t> sizes) const {
  bool whole = x.shape == Shape(sizes.begin(), sizes.end());
  for (size_t i = 0; whole && i < sizes.size(); ++i)
    whole = sizes[i] <= 1 || steps[i] == 1;
  if (whole)
    return x;
  if (x.constant)
    return evalSlice(x.constant, starts, steps, sizes);
  return emit<graph::SliceOp>(x.kind, sizes, value(x), starts, steps);
}

Tensor Node::pad(const Tensor &x, ArrayRef<int64_t> low, ArrayRef<int64_t> high, const Constant &padding) const {
  Shape shape = check(graph::padShape(x.shape, low, high));
  if (shape == x.shape)
    return x;
  if (x.constant)
    return evalPad(x.constant, low, high, padding);
  mlir::Type type = mlirElementType(*location.getContext(), x.kind);
  mlir::TypedAttr attr;
  if (isFloat(x.kind))
    attr = mlir::FloatAttr::get(type, padding.real(0));
  else
    attr = mlir::IntegerAttr::get(type, llvm::APInt(type.getIntOrFloatBitWidth(), uint64_t(padding.integer(0))));
  return emit<graph::PadOp>(x.kind, shape, value(x), low, high, attr);
}

Tensor Node::concat(ArrayRef<Tensor> parts, int64_t dim) const {
  llvm::SmallVector<Shape> shapes;
  llvm::SmallVector<mlir::Value> values;
  llvm::SmallVector<ConstantRef> constants;
  for (const Tensor &part : parts) {
    requireSameType(parts.front(), part);
    shapes.push_back(part.shape);
    if (part.constant)
      constants.push_back(part.constant);
  }
  Shape shape = check(graph::concatShape(shapes, dim));
  if (parts.size() == 1)
    return parts.front();
  if (constants.size() == parts.size())
    return evalConcat(constants, dim);
  for (const Tensor &part : parts)
    if (part.shape[dim] != 0)
      values.push_back(value(part));
  return emit<graph::ConcatOp>(parts.front().kind, shape, values, dim);
}

Tensor Node::binary(BinaryKind kind, const Tensor &a, const Tensor &b) const {
  requireSameType(a, b);
  if (a.constant && b.constant)
    return evalBinary(kind, a.constant, b.constant);
  Shape shape = check(graph::broadcastShapes(a.shape, b.shape));
  auto create = [&](auto *op) { return emit<std::remove_pointer_t<decltype(op)>>(a.kind, shape, value(a), value(b)); };
  if (a.kind == ElementKind::Bool)
    fail("inputs are of bool, expected numbers");
  switch (kind) {
  case BinaryKind::Add:
    return create((graph::AddOp *)nullptr);
  case BinaryKind::Sub:
    return create((graph::SubOp *)nullptr);
  case BinaryKind::Mul:
    return create((graph::MulOp *)nullptr);
  case BinaryKind::Div:
    return create((graph::DivOp *)nullptr);
  case BinaryKind::Min:
    return create((graph::MinOp *)nullptr);
  case BinaryKind::Max:
    return create((graph::MaxOp *)nullptr);
  }
  llvm_unreachable("a binary operator of no kind");
}

Tensor Node::elementwise(graph::Function function, ArrayRef<Tensor> x) const {
  assert(x.size() == graph::ElementwiseOp::arityOf(function) && "a function has its operands");
  const Tensor &number = x.back();
  const size_t first = function == graph::Function::Select ? 1 : 0;
  if (first && x[0].kind != ElementKind::Bool)
    fail(Twine("the condition is of ") + elementName(x[0].kind) + ", expected bool");
  llvm::SmallVector<mlir::Value> operands;
  Shape shape;
  for (auto [i, tensor] : llvm::enumerate(x)) {
    if (i >= first)
      requireSameType(number, tensor);
    shape = i == 0 ? tensor.shape : check(graph::broadcastShapes(shape, tensor.shape));
    operands.push_back(value(tensor));
  }
  if (!graph::ElementwiseOp::isDefinedFor(function, mlirElementType(*location.getContext(), number.kind)))
    inexpressible(Twine("element type ") + elementName(number.kind) + " is not supported by this operator");
  const ElementKind kind = graph::ElementwiseOp::isPredicate(function) ? ElementKind::Bool : number.kind;
  return emit<graph::ElementwiseOp>(kind, shape, function, operands);
}

Tensor Node::cast(const Tensor &x, ElementKind kind) const {
  if (x.kind == kind)
    return x;
  if (x.constant)
    return evalCast(x.constant, kind);
  return emit<graph::CastOp>(kind, x.shape, value(x));
}

Tensor Node::convert(const Tensor &x, ElementKind kind) const {
  Tensor result = cast(cast(x, kind), imported(kind));
  result.declared = kind;
  return result;
}

Tensor Node::reduce(StringRef kind, const Tensor &x, ArrayRef<int64_t> dims, bool keepdims) const {
  Shape shape = check(graph::reduceShape(x.shape, dims, keepdims));
  return emit<graph::ReduceOp>(x.kind, shape, value(x), builder().getStringAttr(kind), builder().getDenseI64ArrayAttr(dims),
                               builder().getBoolAttr(keepdims));
}

} // namespace tw::frontend
