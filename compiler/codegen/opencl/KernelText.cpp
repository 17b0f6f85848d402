//===- KernelText.cpp - The body of a kernel, as OpenCL C -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/opencl/KernelText.h"
#include "compiler/codegen/opencl/Scalars.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tw;
using namespace tw::opencl;

RankedTensorType opencl::tensorOf(Value value) { return cast<RankedTensorType>(value.getType()); }

namespace {

std::optional<int64_t> numberIn(const std::string &text) {
  int64_t value = 0;
  return llvm::StringRef(text).getAsInteger(10, value) ? std::nullopt : std::optional(value);
}

/// The one number that all elements of a constant are.
TypedAttr splatOf(arith::ConstantOp constant) {
  auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
  return dense && dense.isSplat() ? cast<TypedAttr>(dense.getSplatValue<Attribute>()) : TypedAttr();
}

std::string expressionOf(AffineExpr expr, ArrayRef<std::string> dims) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return dims[dim.getPosition()];
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return std::to_string(constant.getValue());
  auto binary = cast<AffineBinaryOpExpr>(expr);
  const std::string left = expressionOf(binary.getLHS(), dims);
  if (expr.getKind() == AffineExprKind::Add)
    return sum(left, expressionOf(binary.getRHS(), dims));
  const int64_t right = cast<AffineConstantExpr>(binary.getRHS()).getValue();
  switch (expr.getKind()) {
  case AffineExprKind::Mul:
    return product(left, right);
  case AffineExprKind::FloorDiv:
    return quotient(left, right);
  case AffineExprKind::Mod:
    return remainder(left, right);
  default:
    llvm_unreachable("an expression of an indexing map");
  }
}

} // namespace

std::string opencl::sum(const std::string &x, const std::string &y) {
  std::optional<int64_t> first = numberIn(x), second = numberIn(y);
  if (first && second)
    return std::to_string(*first + *second);
  if (first == 0)
    return y;
  if (second == 0)
    return x;
  if (second && *second < 0)
    return x + " - " + std::to_string(-*second);
  return x + " + " + y;
}

std::string opencl::product(const std::string &x, int64_t y) {
  if (std::optional<int64_t> number = numberIn(x))
    return std::to_string(*number * y);
  return y == 0 ? "0" : y == 1 ? x : inParentheses(x) + " * " + std::to_string(y);
}

std::string opencl::quotient(const std::string &x, int64_t y) {
  if (std::optional<int64_t> number = numberIn(x))
    return std::to_string(*number / y);
  return y == 1 ? x : inParentheses(x) + " / " + std::to_string(y);
}

std::string opencl::remainder(const std::string &x, int64_t y) {
  if (std::optional<int64_t> number = numberIn(x))
    return std::to_string(*number % y);
  return y == 1 ? "0" : inParentheses(x) + " % " + std::to_string(y);
}

void KernelText::line(const llvm::Twine &text) { written += std::string(2 * depth, ' ') + text.str() + "\n"; }

void KernelText::open(const llvm::Twine &head) {
  const std::string text = head.str();
  line(text + (text.empty() ? "{" : " {"));
  ++depth;
  scopes.emplace_back();
}

void KernelText::close() {
  --depth;
  scopes.pop_back();
  line("}");
}

std::string KernelText::fresh(llvm::StringRef stem) { return stem.str() + std::to_string(numbers[stem.str()]++); }

std::string KernelText::named(const std::string &type, const std::string &value, llvm::StringRef stem) {
  const bool isName = value.find_first_of(" ([") == std::string::npos && value[0] != '-';
  if (isName || numberIn(value))
    return value;
  const std::string key = type + "=" + value;
  for (const std::map<std::string, std::string> &scope : scopes)
    if (auto known = scope.find(key); known != scope.end())
      return known->second;
  const std::string name = fresh(stem);
  line("const " + type + " " + name + " = " + value + ";");
  scopes.back()[key] = name;
  return name;
}

Index KernelText::delinearised(const std::string &linear, llvm::ArrayRef<int64_t> shape) {
  Index index(shape.size());
  int64_t inner = 1;
  for (size_t i = shape.size(); i-- > 0; inner *= shape[i]) {
    const bool isOutermost = llvm::all_of(shape.take_front(i), [](int64_t size) { return size == 1; });
    std::string dim = shape[i] == 1 ? "0" : quotient(linear, inner);
    index[i] = named("int", shape[i] == 1 || isOutermost ? dim : remainder(dim, shape[i]), "i");
  }
  return index;
}

std::string KernelText::linearised(const Index &index, llvm::ArrayRef<int64_t> shape) const {
  std::string linear = "0";
  for (auto [dim, size] : llvm::zip(index, shape))
    linear = sum(product(linear, size), dim);
  return linear;
}

std::string KernelText::fail(Operation *op) {
  if (failure.empty())
    llvm::raw_string_ostream(failure) << "'" << op->getName() << "' at " << op->getLoc() << " has no form in OpenCL C";
  return "0";
}

std::string KernelText::at(Value tensor, const Index &index) {
  if (auto known = elements.find(tensor); known != elements.end())
    return known->second;
  std::string key = std::to_string(reinterpret_cast<uintptr_t>(tensor.getAsOpaquePointer()));
  for (const std::string &dim : index)
    key += "," + dim;
  for (const std::map<std::string, std::string> &scope : scopes)
    if (auto known = scope.find(key); known != scope.end())
      return known->second;
  const std::string value = compute(tensor, index);
  scopes.back()[key] = value;
  return value;
}

std::string KernelText::compute(Value tensor, const Index &index) {
  const RankedTensorType type = tensorOf(tensor);
  const Type element = type.getElementType();
  const Value made = source(tensor);
  if (!made) {
    read.insert(tensor);
    const std::string pointer = "x" + std::to_string(llvm::find(read, tensor) - read.begin());
    return named(scalarType(element), load(element, pointer, linearised(index, type.getShape())));
  }
  if (made != tensor)
    return at(made, index);
  Operation *op = tensor.getDefiningOp();
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return literal(splatOf(constant));
  if (isa<tensor::EmptyOp>(op))
    return "0";
  if (auto generic = dyn_cast<linalg::LinalgOp>(op))
    return this->generic(generic, cast<OpResult>(tensor).getResultNumber(), index);
  if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op)) {
    ArrayRef<int64_t> shape = tensorOf(op->getOperand(0)).getShape();
    return at(op->getOperand(0), delinearised(named("int", linearised(index, type.getShape()), "i"), shape));
  }
  if (isa<tensor::CastOp>(op))
    return at(op->getOperand(0), index);
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    if (!slice.getOffsets().empty() || !slice.getSizes().empty() || !slice.getStrides().empty())
      return fail(op);
    const llvm::SmallBitVector dropped = slice.getDroppedDims();
    Index inner;
    unsigned next = 0;
    for (unsigned i = 0; i < slice.getStaticOffsets().size(); ++i) {
      const std::string offset = std::to_string(slice.getStaticOffsets()[i]);
      inner.push_back(dropped[i] ? offset : named("int", sum(product(index[next], slice.getStaticStrides()[i]), offset), "i"));
      next += !dropped[i];
    }
    return at(slice.getSource(), inner);
  }
  if (auto pad = dyn_cast<tensor::PadOp>(op))
    return padded(pad, index);
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
    return inserted(insert, index);
  if (auto concat = dyn_cast<tensor::ConcatOp>(op))
    return concatenated(concat, index);
  return fail(op);
}

std::string KernelText::choose(Type type, const std::string &condition, llvm::function_ref<std::string()> then,
                               llvm::function_ref<std::string()> otherwise) {
  const std::string name = fresh("v");
  line(scalarType(type) + " " + name + ";");
  auto branch = [&](const std::string &head, llvm::function_ref<std::string()> value) {
    open(head);
    line(name + " = " + value() + ";");
    close();
  };
  branch("if (" + condition + ")", then);
  branch("else", otherwise);
  return name;
}

std::string KernelText::padded(tensor::PadOp pad, const Index &index) {
  auto padding = pad.getConstantPaddingValue() ? pad.getConstantPaddingValue().getDefiningOp<arith::ConstantOp>() : nullptr;
  if (!padding || llvm::is_contained(pad.getStaticLow(), ShapedType::kDynamic) ||
      llvm::is_contained(pad.getStaticHigh(), ShapedType::kDynamic))
    return fail(pad);
  Index inner;
  std::string condition;
  for (auto [i, low] : llvm::enumerate(pad.getStaticLow())) {
    inner.push_back(named("int", sum(index[i], std::to_string(-low)), "i"));
    const int64_t size = pad.getSourceType().getDimSize(int64_t(i));
    if (low || pad.getStaticHigh()[i]) // below 0 is far above, as unsigned
      condition += (condition.empty() ? "" : " && ") + ("(uint)" + inParentheses(inner.back())) + " < " + std::to_string(size);
  }
  auto inside = [&] { return at(pad.getSource(), inner); };
  if (condition.empty())
    return inside();
  return choose(pad.getSourceType().getElementType(), condition, inside,
                [&] { return literal(cast<TypedAttr>(padding.getValue())); });
}

std::string KernelText::inserted(tensor::InsertSliceOp insert, const Index &index) {
  if (!insert.getOffsets().empty() || !insert.getSizes().empty() || !insert.getStrides().empty())
    return fail(insert);
  const llvm::SmallBitVector dropped = insert.getDroppedDims();
  Index inner;
  std::string condition;
  for (unsigned i = 0; i < insert.getStaticOffsets().size(); ++i) {
    const int64_t stride = insert.getStaticStrides()[i], size = insert.getStaticSizes()[i];
    const std::string from = named("int", sum(index[i], std::to_string(-insert.getStaticOffsets()[i])), "i");
    condition += (condition.empty() ? "" : " && ") + ("(uint)" + inParentheses(from)) + " < " +
                 std::to_string((size - 1) * stride + 1) + (stride == 1 ? "" : " && " + remainder(from, stride) + " == 0");
    if (!dropped[i])
      inner.push_back(quotient(from, stride));
  }
  return choose(
      tensorOf(insert.getSource()).getElementType(), condition, [&] { return at(insert.getSource(), inner); },
      [&] { return at(insert.getDest(), index); });
}

std::string KernelText::concatenated(tensor::ConcatOp concat, const Index &index) {
  const unsigned dim = unsigned(concat.getDim());
  std::function<std::string(size_t, int64_t)> part = [&](size_t i, int64_t begin) -> std::string {
    Value input = concat.getInputs()[i];
    const int64_t end = begin + tensorOf(input).getDimSize(dim);
    auto inside = [&] {
      Index inner = index;
      inner[dim] = named("int", sum(inner[dim], std::to_string(-begin)), "i");
      return at(input, inner);
    };
    if (i + 1 == concat.getInputs().size())
      return inside();
    return choose(tensorOf(input).getElementType(), inParentheses(index[dim]) + " < " + std::to_string(end), inside,
                  [&] { return part(i + 1, end); });
  };
  return part(0, 0);
}

std::string KernelText::operand(linalg::LinalgOp op, unsigned input, const Index &dims) {
  OpOperand *operand = op.getDpsInputOperand(input);
  Index index;
  for (AffineExpr expr : op.getMatchingIndexingMap(operand).getResults())
    index.push_back(named("int", expressionOf(expr, dims), "i"));
  return at(operand->get(), index);
}

llvm::SmallVector<std::string> KernelText::body(linalg::LinalgOp op, const Index &dims, llvm::ArrayRef<std::string> inputs,
                                                llvm::ArrayRef<std::string> outputs) {
  llvm::DenseMap<Value, std::string> values;
  auto valueOf = [&](Value value) {
    if (auto known = values.find(value); known != values.end())
      return known->second;
    return scalarExpression(value.getDefiningOp(), {}); // from outside: a constant
  };
  for (auto [i, operand] : llvm::enumerate(op.getDpsInputOperands())) {
    BlockArgument argument = op.getMatchingBlockArgument(operand);
    if (argument.use_empty())
      continue;
    if (i < inputs.size() && !inputs[i].empty()) {
      values[argument] = inputs[i];
      continue;
    }
    if (!isa<ShapedType>(operand->get().getType())) {
      values[argument] = scalarExpression(operand->get().getDefiningOp(), {});
      continue;
    }
    values[argument] = this->operand(op, unsigned(i), dims);
  }
  for (auto [i, operand] : llvm::enumerate(op.getDpsInitsMutable()))
    values[op.getMatchingBlockArgument(&operand)] = outputs[i];
  for (Operation &inner : op.getBlock()->without_terminator()) {
    if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
      values[index] = dims[index.getDim()];
      continue;
    }
    if (auto extract = dyn_cast<tensor::ExtractOp>(inner)) {
      Index index;
      for (Value place : extract.getIndices())
        index.push_back(valueOf(place));
      values[extract] = at(extract.getTensor(), index);
      continue;
    }
    llvm::SmallVector<std::string> operands;
    for (Value operand : inner.getOperands())
      operands.push_back(valueOf(operand));
    const std::string value = scalarExpression(&inner, operands);
    if (value.empty()) {
      fail(&inner);
      return llvm::SmallVector<std::string>(op->getNumResults(), "0");
    }
    values[inner.getResult(0)] = isa<arith::ConstantOp>(inner) ? value : named(scalarType(inner.getResult(0).getType()), value);
  }
  llvm::SmallVector<std::string> results;
  for (Value result : op.getBlock()->getTerminator()->getOperands())
    results.push_back(valueOf(result));
  return results;
}

Index KernelText::loopsAt(linalg::LinalgOp op, unsigned result, const Index &index) const {
  Index dims(op.getNumLoops());
  for (auto [i, expr] : llvm::enumerate(op.getMatchingIndexingMap(op.getDpsInitOperand(result)).getResults()))
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      dims[dim.getPosition()] = index[i];
  return dims;
}

void KernelText::loops(linalg::LinalgOp op, const Index &dims, llvm::function_ref<void(const Index &)> body) {
  const llvm::SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  Index all = dims;
  unsigned opened = 0;
  for (auto [dim, size] : llvm::enumerate(sizes)) {
    if (!all[dim].empty())
      continue;
    all[dim] = size == 1 ? "0" : fresh("k");
    if (size == 1)
      continue;
    open("for (int " + all[dim] + " = 0; " + all[dim] + " < " + std::to_string(size) + "; ++" + all[dim] + ")");
    ++opened;
  }
  body(all);
  while (opened--)
    close();
}

std::string KernelText::generic(linalg::LinalgOp op, unsigned result, const Index &index) {
  Index dims = loopsAt(op, result, index);
  llvm::SmallVector<std::string> outputs;
  for (auto [i, init] : llvm::enumerate(op.getDpsInitsMutable()))
    outputs.push_back(op.payloadUsesValueFromOperand(&init) ? at(init.get(), index) : "0");
  if (op.getNumReductionLoops() == 0) {
    for (std::string &dim : dims)
      dim = dim.empty() ? "0" : dim;
    return body(op, dims, {}, outputs)[result];
  }
  llvm::SmallVector<std::string> sums;
  for (auto [i, initial] : llvm::enumerate(outputs)) {
    sums.push_back(fresh("sum"));
    line(scalarType(tensorOf(op->getResult(unsigned(i))).getElementType()) + " " + sums.back() + " = " + initial + ";");
  }
  loops(op, dims, [&](const Index &all) {
    const llvm::SmallVector<std::string> next = body(op, all, {}, sums);
    for (auto [name, value] : llvm::zip(sums, next))
      if (name != value)
        line(name + " = " + value + ";");
  });
  return sums[result];
}
