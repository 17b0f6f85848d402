//===- Elements.cpp - One element of a tensor, as LLVM IR -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/Elements.h"
#include "compiler/codegen/gpu/Kernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace tw;
using namespace tw::gpu;
using llvm::Value;
namespace linalg = mlir::linalg;
namespace tensor = mlir::tensor;

mlir::RankedTensorType gpu::tensorOf(mlir::Value value) { return llvm::cast<mlir::RankedTensorType>(value.getType()); }

ElementIndex gpu::delinearised(llvm::IRBuilder<> &b, Value *linear, llvm::ArrayRef<int64_t> shape) {
  ElementIndex index{llvm::SmallVector<Value *>(shape.size()), linear};
  Value *left = linear;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) {
      index.dims[i] = b.getInt32(0);
    } else if (i == 0 || llvm::all_of(shape.take_front(i), [](int64_t size) { return size == 1; })) {
      index.dims[i] = left;
      left = b.getInt32(0);
    } else {
      Value *size = b.getInt32(uint32_t(shape[i]));
      index.dims[i] = b.CreateURem(left, size);
      left = b.CreateUDiv(left, size);
    }
  }
  return index;
}

Value *gpu::linearised(llvm::IRBuilder<> &b, const ElementIndex &index, llvm::ArrayRef<int64_t> shape) {
  if (index.linear)
    return index.linear;
  Value *linear = b.getInt32(0);
  for (auto [dim, size] : llvm::zip(index.dims, shape))
    linear = b.CreateAdd(b.CreateMul(linear, b.getInt32(uint32_t(size))), dim);
  return linear;
}

static llvm::Type *memoryType(llvm::IRBuilder<> &b, mlir::Type type) {
  return type.isInteger(1) ? b.getInt8Ty() : scalarType(b, type);
}

Value *gpu::loadElement(llvm::IRBuilder<> &b, mlir::Type type, Value *pointer, Value *linear) {
  llvm::Type *stored = memoryType(b, type);
  Value *value = b.CreateLoad(stored, b.CreateGEP(stored, pointer, b.CreateZExt(linear, b.getInt64Ty())));
  return type.isInteger(1) ? b.CreateTrunc(value, b.getInt1Ty()) : value;
}

void gpu::storeElement(llvm::IRBuilder<> &b, mlir::Type type, Value *pointer, Value *linear, Value *value) {
  llvm::Type *stored = memoryType(b, type);
  b.CreateStore(type.isInteger(1) ? b.CreateZExt(value, stored) : value, b.CreateGEP(stored, pointer, b.CreateZExt(linear, b.getInt64Ty())));
}

/// The one number that all elements of a constant are.
static mlir::TypedAttr splatOf(mlir::arith::ConstantOp constant) {
  auto dense = llvm::dyn_cast<mlir::DenseElementsAttr>(constant.getValue());
  return dense && dense.isSplat() ? llvm::cast<mlir::TypedAttr>(dense.getSplatValue<mlir::Attribute>()) : mlir::TypedAttr();
}

static std::string placeOf(mlir::Operation *op) {
  std::string text;
  llvm::raw_string_ostream(text) << "'" << op->getName() << "' at " << op->getLoc();
  return text;
}

llvm::Error gpu::findLeaves(mlir::Value value, const llvm::DenseSet<mlir::Value> &inMemory, llvm::SetVector<mlir::Value> &leaves) {
  mlir::Operation *op = value.getDefiningOp();
  if (!op || inMemory.contains(value)) {
    leaves.insert(value);
    return llvm::Error::success();
  }
  if (auto constant = llvm::dyn_cast<mlir::arith::ConstantOp>(op)) {
    if (llvm::isa<mlir::ShapedType>(constant.getType()) && !splatOf(constant))
      leaves.insert(value);
    return llvm::Error::success();
  }
  if (llvm::isa<tensor::EmptyOp>(op))
    return llvm::Error::success();
  if (auto generic = llvm::dyn_cast<linalg::LinalgOp>(op)) {
    for (mlir::Operation &inner : generic.getBlock()->without_terminator())
      if (!llvm::isa<linalg::IndexOp>(inner) && !hasScalarForm(&inner))
        return llvm::createStringError("%s has no form on the GPU", placeOf(&inner).c_str());
    for (mlir::OpOperand &operand : op->getOpOperands())
      if (llvm::isa<mlir::ShapedType>(operand.get().getType()) && generic.payloadUsesValueFromOperand(&operand))
        if (llvm::Error error = findLeaves(operand.get(), inMemory, leaves))
          return error;
    return llvm::Error::success();
  }
  if (llvm::isa<tensor::PadOp, tensor::ExtractSliceOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op))
    return findLeaves(op->getOperand(0), inMemory, leaves);
  if (auto concat = llvm::dyn_cast<tensor::ConcatOp>(op)) {
    for (mlir::Value input : concat.getInputs())
      if (llvm::Error error = findLeaves(input, inMemory, leaves))
        return error;
    return llvm::Error::success();
  }
  return llvm::createStringError("%s has no form on the GPU", placeOf(op).c_str());
}

/// Whether a map gives the dims of an element of `shape` in order, so that their row-major numbers are equal. `loops`: sizes of the dims.
static bool keepsOrder(mlir::AffineMap map, llvm::ArrayRef<int64_t> loops, llvm::ArrayRef<int64_t> shape) {
  return map.isIdentity() && loops == shape;
}

static Value *apply(llvm::IRBuilder<> &b, mlir::AffineExpr expr, llvm::ArrayRef<Value *> dims) {
  if (auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr))
    return dims[dim.getPosition()];
  if (auto constant = llvm::dyn_cast<mlir::AffineConstantExpr>(expr))
    return b.getInt32(uint32_t(constant.getValue()));
  auto binary = llvm::cast<mlir::AffineBinaryOpExpr>(expr);
  Value *left = apply(b, binary.getLHS(), dims), *right = apply(b, binary.getRHS(), dims);
  switch (expr.getKind()) {
  case mlir::AffineExprKind::Add:
    return b.CreateAdd(left, right);
  case mlir::AffineExprKind::Mul:
    return b.CreateMul(left, right);
  case mlir::AffineExprKind::FloorDiv:
    return b.CreateUDiv(left, right);
  case mlir::AffineExprKind::Mod:
    return b.CreateURem(left, right);
  default:
    llvm_unreachable("an expression of an indexing map");
  }
}

Value *Elements::choose(Value *condition, llvm::Type *type, llvm::function_ref<Value *()> then, llvm::function_ref<Value *()> otherwise) {
  llvm::Function *function = b.GetInsertBlock()->getParent();
  llvm::LLVMContext &context = b.getContext();
  auto *yes = llvm::BasicBlock::Create(context, "yes", function), *no = llvm::BasicBlock::Create(context, "no"),
       *end = llvm::BasicBlock::Create(context, "end");
  b.CreateCondBr(condition, yes, no);
  b.SetInsertPoint(yes);
  Value *first = then();
  yes = b.GetInsertBlock();
  b.CreateBr(end);
  no->insertInto(function);
  b.SetInsertPoint(no);
  Value *second = otherwise();
  no = b.GetInsertBlock();
  b.CreateBr(end);
  end->insertInto(function);
  b.SetInsertPoint(end);
  llvm::PHINode *phi = b.CreatePHI(type, 2);
  phi->addIncoming(first, yes);
  phi->addIncoming(second, no);
  return phi;
}

/// The body of a linalg op for one iteration: what it yields. `linear`: the row-major number of the iteration, if all dims are parallel.
llvm::SmallVector<Value *> Elements::body(linalg::LinalgOp op, llvm::ArrayRef<Value *> dims, llvm::ArrayRef<Value *> outputs, Value *linear) {
  llvm::DenseMap<mlir::Value, Value *> numbers;
  const llvm::SmallVector<int64_t> loops = op.getStaticLoopRanges();
  auto numberOf = [&](mlir::Value value) -> Value * {
    if (Value *number = numbers.lookup(value))
      return number;
    // From outside: a scalar constant.
    return numbers[value] = emitScalar(b, value.getDefiningOp(), {});
  };
  for (mlir::OpOperand *operand : op.getDpsInputOperands()) {
    mlir::BlockArgument argument = op.getMatchingBlockArgument(operand);
    if (argument.use_empty())
      continue;
    if (!llvm::isa<mlir::ShapedType>(operand->get().getType())) {
      numbers[argument] = emitScalar(b, operand->get().getDefiningOp(), {});
      continue;
    }
    mlir::AffineMap map = op.getMatchingIndexingMap(operand);
    ElementIndex index;
    for (mlir::AffineExpr expr : map.getResults())
      index.dims.push_back(apply(b, expr, dims));
    if (linear && keepsOrder(map, loops, tensorOf(operand->get()).getShape()))
      index.linear = linear;
    numbers[argument] = at(operand->get(), index);
  }
  for (auto [operand, output] : llvm::zip(op.getDpsInitsMutable(), outputs))
    if (output)
      numbers[op.getMatchingBlockArgument(&operand)] = output;
  for (mlir::Operation &inner : op.getBlock()->without_terminator()) {
    if (auto index = llvm::dyn_cast<linalg::IndexOp>(inner)) {
      numbers[index] = dims[index.getDim()];
      continue;
    }
    llvm::SmallVector<Value *> operands;
    for (mlir::Value operand : inner.getOperands())
      operands.push_back(numberOf(operand));
    numbers[inner.getResult(0)] = emitScalar(b, &inner, operands);
  }
  llvm::SmallVector<Value *> results;
  for (mlir::Value result : op.getBlock()->getTerminator()->getOperands())
    results.push_back(numberOf(result));
  return results;
}

llvm::SmallVector<Value *> Elements::reduce(linalg::LinalgOp op, const ElementIndex &index, unsigned result, const Run &run) {
  const llvm::SmallVector<int64_t> loops = op.getStaticLoopRanges();
  llvm::SmallVector<Value *> dims(loops.size(), nullptr);
  mlir::AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(result));
  for (auto [i, expr] : llvm::enumerate(map.getResults()))
    if (auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr))
      dims[dim.getPosition()] = index.dims[i];
  llvm::SmallVector<unsigned> reductions;
  llvm::SmallVector<int64_t> sizes;
  for (unsigned dim = 0; dim < loops.size(); ++dim)
    if (!dims[dim]) {
      reductions.push_back(dim);
      sizes.push_back(loops[dim]);
    }
  llvm::SmallVector<Value *> initial;
  for (mlir::OpOperand &init : op.getDpsInitsMutable())
    initial.push_back(op.payloadUsesValueFromOperand(&init) ? at(init.get(), index) : nullptr);
  return run(initial, mlir::ShapedType::getNumElements(sizes), [&](Value *iteration, llvm::ArrayRef<Value *> numbers) {
    ElementIndex inner = delinearised(b, iteration, sizes);
    for (auto [i, dim] : llvm::enumerate(reductions))
      dims[dim] = inner.dims[i];
    return body(op, dims, numbers, nullptr);
  });
}

Value *Elements::generic(linalg::LinalgOp op, unsigned result, const ElementIndex &index) {
  if (op.getNumReductionLoops() == 0) {
    const llvm::SmallVector<int64_t> loops = op.getStaticLoopRanges();
    llvm::SmallVector<Value *> dims(loops.size(), b.getInt32(0));
    mlir::AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(result));
    for (auto [i, expr] : llvm::enumerate(map.getResults()))
      if (auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr))
        dims[dim.getPosition()] = index.dims[i];
    llvm::SmallVector<Value *> outputs;
    for (mlir::OpOperand &init : op.getDpsInitsMutable())
      outputs.push_back(op.payloadUsesValueFromOperand(&init) ? at(init.get(), index) : nullptr);
    Value *linear = keepsOrder(map, loops, tensorOf(op->getResult(result)).getShape()) ? index.linear : nullptr;
    return body(op, dims, outputs, linear)[result];
  }
  return reduce(op, index, result, [&](llvm::ArrayRef<Value *> initial, int64_t count, const Iteration &iteration) {
    llvm::SmallVector<Value *> state{b.getInt32(0)};
    for (auto [i, value] : llvm::enumerate(initial))
      state.push_back(value ? value : llvm::UndefValue::get(scalarType(b, tensorOf(op->getResult(unsigned(i))).getElementType())));
    llvm::SmallVector<Value *> end = emitLoop(
        b, "reduction", state, [&](llvm::ArrayRef<Value *> values) { return b.CreateICmpULT(values[0], b.getInt32(uint32_t(count))); },
        [&](llvm::ArrayRef<Value *> values) {
          llvm::SmallVector<Value *> next = iteration(values[0], values.drop_front());
          next.insert(next.begin(), b.CreateAdd(values[0], b.getInt32(1)));
          return next;
        });
    return llvm::SmallVector<Value *>(end.begin() + 1, end.end());
  })[result];
}

Value *Elements::at(mlir::Value value, const ElementIndex &index) {
  const mlir::RankedTensorType type = tensorOf(value);
  if (auto source = sources.find(value); source != sources.end())
    return source->second(index);
  if (Value *pointer = pointers.lookup(value))
    return loadElement(b, type.getElementType(), pointer, linearised(b, index, type.getShape()));
  mlir::Operation *op = value.getDefiningOp();
  llvm::Type *scalar = scalarType(b, type.getElementType());
  if (auto constant = llvm::dyn_cast<mlir::arith::ConstantOp>(op)) {
    mlir::TypedAttr splat = splatOf(constant);
    if (auto number = llvm::dyn_cast<mlir::FloatAttr>(splat))
      return llvm::ConstantFP::get(scalar, number.getValue());
    return llvm::ConstantInt::get(scalar, llvm::cast<mlir::IntegerAttr>(splat).getValue());
  }
  if (llvm::isa<tensor::EmptyOp>(op))
    return llvm::UndefValue::get(scalar);
  if (auto generic = llvm::dyn_cast<linalg::LinalgOp>(op))
    return this->generic(generic, llvm::cast<mlir::OpResult>(value).getResultNumber(), index);
  if (auto collapse = llvm::dyn_cast<tensor::CollapseShapeOp>(op)) {
    ElementIndex inner = delinearised(b, linearised(b, index, type.getShape()), collapse.getSrcType().getShape());
    return at(collapse.getSrc(), inner);
  }
  if (auto expand = llvm::dyn_cast<tensor::ExpandShapeOp>(op)) {
    ElementIndex inner = delinearised(b, linearised(b, index, type.getShape()), expand.getSrcType().getShape());
    return at(expand.getSrc(), inner);
  }
  if (auto slice = llvm::dyn_cast<tensor::ExtractSliceOp>(op)) {
    ElementIndex inner;
    const llvm::SmallBitVector dropped = slice.getDroppedDims();
    unsigned next = 0;
    for (unsigned i = 0; i < slice.getStaticOffsets().size(); ++i) {
      Value *offset = b.getInt32(uint32_t(slice.getStaticOffsets()[i]));
      inner.dims.push_back(dropped[i] ? offset : b.CreateAdd(b.CreateMul(index.dims[next], b.getInt32(uint32_t(slice.getStaticStrides()[i]))), offset));
      next += !dropped[i];
    }
    return at(slice.getSource(), inner);
  }
  if (auto pad = llvm::dyn_cast<tensor::PadOp>(op)) {
    ElementIndex inner;
    Value *isInside = b.getTrue();
    for (auto [i, low] : llvm::enumerate(pad.getStaticLow())) {
      inner.dims.push_back(b.CreateSub(index.dims[i], b.getInt32(uint32_t(low))));
      if (low || pad.getStaticHigh()[i]) // below 0 is far above, as unsigned
        isInside = b.CreateAnd(isInside, b.CreateICmpULT(inner.dims.back(), b.getInt32(uint32_t(pad.getSourceType().getDimSize(int64_t(i))))));
    }
    return choose(isInside, scalar, [&] { return at(pad.getSource(), inner); },
                  [&] { return emitScalar(b, pad.getConstantPaddingValue().getDefiningOp(), {}); });
  }
  auto concat = llvm::cast<tensor::ConcatOp>(op);
  const unsigned dim = unsigned(concat.getDim());
  std::function<Value *(size_t, int64_t)> part = [&](size_t i, int64_t begin) -> Value * {
    mlir::Value input = concat.getInputs()[i];
    const int64_t end = begin + tensorOf(input).getDimSize(dim);
    auto inside = [&] {
      ElementIndex inner{index.dims, nullptr};
      inner.dims[dim] = b.CreateSub(inner.dims[dim], b.getInt32(uint32_t(begin)));
      return at(input, inner);
    };
    if (i + 1 == concat.getInputs().size())
      return inside();
    return choose(b.CreateICmpULT(index.dims[dim], b.getInt32(uint32_t(end))), scalar, inside, [&] { return part(i + 1, end); });
  };
  return part(0, 0);
}
