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
  b.CreateStore(type.isInteger(1) ? b.CreateZExt(value, stored) : value,
                b.CreateGEP(stored, pointer, b.CreateZExt(linear, b.getInt64Ty())));
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

llvm::Error gpu::findLeaves(mlir::Value value, const llvm::DenseSet<mlir::Value> &inMemory,
                            llvm::SetVector<mlir::Value> &leaves) {
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

ElementIndex gpu::shifted(llvm::IRBuilder<> &b, const ElementIndex &index, unsigned lanes) {
  ElementIndex result = index;
  if (!lanes)
    return result;
  result.dims.back() = b.CreateAdd(result.dims.back(), b.getInt32(lanes), "", true, true);
  if (result.linear)
    result.linear = b.CreateAdd(result.linear, b.getInt32(lanes), "", true, true);
  return result;
}

Elements::Row Elements::choose(Value *condition, llvm::Type *type, llvm::function_ref<Row()> then,
                               llvm::function_ref<Row()> otherwise) {
  llvm::Function *function = b.GetInsertBlock()->getParent();
  llvm::LLVMContext &context = b.getContext();
  auto *yes = llvm::BasicBlock::Create(context, "yes", function), *no = llvm::BasicBlock::Create(context, "no"),
       *end = llvm::BasicBlock::Create(context, "end");
  b.CreateCondBr(condition, yes, no);
  b.SetInsertPoint(yes);
  const Row first = then();
  yes = b.GetInsertBlock();
  b.CreateBr(end);
  no->insertInto(function);
  b.SetInsertPoint(no);
  const Row second = otherwise();
  no = b.GetInsertBlock();
  b.CreateBr(end);
  end->insertInto(function);
  b.SetInsertPoint(end);
  Row result;
  for (auto [one, other] : llvm::zip(first, second)) {
    llvm::PHINode *phi = b.CreatePHI(type, 2);
    phi->addIncoming(one, yes);
    phi->addIncoming(other, no);
    result.push_back(phi);
  }
  return result;
}

/// The body of a linalg op for one iteration, or for `lanes` that follow one another along `laneDim`: what it yields, `lanes` numbers for each
/// result. `linear`: the row-major number of the iteration, if all dims are parallel.
Elements::Row Elements::body(linalg::LinalgOp op, llvm::ArrayRef<Value *> dims, llvm::ArrayRef<Value *> outputs, Value *linear,
                             unsigned lanes, std::optional<unsigned> laneDim) {
  const llvm::SmallVector<int64_t> loops = op.getStaticLoopRanges();
  auto dimsOf = [&](unsigned lane) {
    llvm::SmallVector<Value *> result(dims.begin(), dims.end());
    if (lane)
      result[*laneDim] = b.CreateAdd(result[*laneDim], b.getInt32(lane), "", true, true);
    return result;
  };
  llvm::DenseMap<mlir::Value, Row> numbers;
  auto rowOf = [&](mlir::Value value) -> const Row & {
    auto [entry, isNew] = numbers.try_emplace(value);
    if (isNew) // from outside: a scalar constant
      entry->second.assign(lanes, emitScalar(b, value.getDefiningOp(), {}));
    return entry->second;
  };
  for (mlir::OpOperand *operand : op.getDpsInputOperands()) {
    mlir::BlockArgument argument = op.getMatchingBlockArgument(operand);
    if (argument.use_empty())
      continue;
    if (!llvm::isa<mlir::ShapedType>(operand->get().getType())) {
      numbers[argument].assign(lanes, emitScalar(b, operand->get().getDefiningOp(), {}));
      continue;
    }
    mlir::AffineMap map = op.getMatchingIndexingMap(operand);
    auto indexOf = [&](llvm::ArrayRef<Value *> values) {
      ElementIndex index;
      for (mlir::AffineExpr expr : map.getResults())
        index.dims.push_back(apply(b, expr, values));
      return index;
    };
    const bool moves = lanes > 1 && map.isFunctionOfDim(*laneDim);
    const unsigned rank = map.getNumResults();
    if (!moves) {
      ElementIndex index = indexOf(dims);
      if (lanes == 1 && linear && keepsOrder(map, loops, tensorOf(operand->get()).getShape()))
        index.linear = linear;
      numbers[argument].assign(lanes, at(operand->get(), index));
      continue;
    }
    // Neighbours of the result are neighbours of the operand if its last dim, and no other, is theirs.
    bool areNeighbours = map.getResult(rank - 1) == mlir::getAffineDimExpr(*laneDim, map.getContext());
    for (unsigned i = 0; i + 1 < rank; ++i)
      areNeighbours &= !map.getResult(i).isFunctionOfDim(*laneDim);
    if (areNeighbours) {
      ElementIndex index = indexOf(dims);
      if (linear && keepsOrder(map, loops, tensorOf(operand->get()).getShape()))
        index.linear = linear;
      numbers[argument] = row(operand->get(), index, lanes);
      continue;
    }
    Row &values = numbers[argument];
    for (unsigned lane = 0; lane < lanes; ++lane) {
      Value *value = at(operand->get(), indexOf(dimsOf(lane)));
      values.push_back(value);
    }
  }
  for (auto [i, operand] : llvm::enumerate(op.getDpsInitsMutable()))
    if (outputs[i * lanes])
      numbers[op.getMatchingBlockArgument(&operand)].assign(outputs.begin() + i * lanes, outputs.begin() + (i + 1) * lanes);
  for (mlir::Operation &inner : op.getBlock()->without_terminator()) {
    Row results;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if (auto index = llvm::dyn_cast<linalg::IndexOp>(inner)) {
        results.push_back(dimsOf(laneDim == index.getDim() ? lane : 0)[index.getDim()]);
        continue;
      }
      llvm::SmallVector<Value *> operands;
      for (mlir::Value operand : inner.getOperands())
        operands.push_back(rowOf(operand)[lane]);
      results.push_back(emitScalar(b, &inner, operands));
    }
    numbers[inner.getResult(0)] = std::move(results);
  }
  Row results;
  for (mlir::Value result : op.getBlock()->getTerminator()->getOperands())
    results.append(rowOf(result));
  return results;
}

/// Dims of the loop at an element of a result; null where they are not parallel. The dim of the result's last one, if it is a plain dim.
static llvm::SmallVector<Value *> dimsAt(llvm::IRBuilder<> &b, linalg::LinalgOp op, unsigned result, const ElementIndex &index,
                                         Value *others, std::optional<unsigned> &last) {
  llvm::SmallVector<Value *> dims(op.getNumLoops(), others);
  mlir::AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(result));
  last.reset();
  for (auto [i, expr] : llvm::enumerate(map.getResults()))
    if (auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr)) {
      dims[dim.getPosition()] = index.dims[i];
      if (i + 1 == map.getNumResults())
        last = dim.getPosition();
    }
  return dims;
}

Elements::Row Elements::reduce(linalg::LinalgOp op, const ElementIndex &index, unsigned result, unsigned lanes,
                               const Run &run) {
  const llvm::SmallVector<int64_t> loops = op.getStaticLoopRanges();
  std::optional<unsigned> laneDim;
  llvm::SmallVector<Value *> dims = dimsAt(b, op, result, index, nullptr, laneDim);
  llvm::SmallVector<unsigned> reductions;
  llvm::SmallVector<int64_t> sizes;
  for (unsigned dim = 0; dim < loops.size(); ++dim)
    if (!dims[dim]) {
      reductions.push_back(dim);
      sizes.push_back(loops[dim]);
    }
  Row initial;
  for (mlir::OpOperand &init : op.getDpsInitsMutable())
    initial.append(op.payloadUsesValueFromOperand(&init) ? row(init.get(), index, lanes) : Row(lanes, nullptr));
  return run(initial, mlir::ShapedType::getNumElements(sizes), [&](Value *iteration, llvm::ArrayRef<Value *> numbers) {
    ElementIndex inner = delinearised(b, iteration, sizes);
    for (auto [i, dim] : llvm::enumerate(reductions))
      dims[dim] = inner.dims[i];
    return body(op, dims, numbers, nullptr, lanes, laneDim);
  });
}

/// Terms of a sum that are written one behind the other for a row of lanes: windows, whose indices are constants then.
constexpr int64_t kMostWrittenTerms = 32;

Elements::Row Elements::generic(linalg::LinalgOp op, unsigned result, const ElementIndex &index, unsigned lanes) {
  auto ofResult = [&](const Row &numbers) {
    return Row(numbers.begin() + result * lanes, numbers.begin() + (result + 1) * lanes);
  };
  if (op.getNumReductionLoops() == 0) {
    std::optional<unsigned> laneDim;
    const llvm::SmallVector<Value *> dims = dimsAt(b, op, result, index, b.getInt32(0), laneDim);
    Row outputs;
    for (mlir::OpOperand &init : op.getDpsInitsMutable())
      outputs.append(op.payloadUsesValueFromOperand(&init) ? row(init.get(), index, lanes) : Row(lanes, nullptr));
    mlir::AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(result));
    const bool isInOrder = keepsOrder(map, op.getStaticLoopRanges(), tensorOf(op->getResult(result)).getShape());
    return ofResult(body(op, dims, outputs, isInOrder ? index.linear : nullptr, lanes, laneDim));
  }
  return ofResult(
      reduce(op, index, result, lanes, [&](llvm::ArrayRef<Value *> initial, int64_t count, const Iteration &iteration) {
        Row state(initial.begin(), initial.end());
        for (auto [i, value] : llvm::enumerate(state))
          if (!value)
            value = llvm::UndefValue::get(scalarType(b, tensorOf(op->getResult(unsigned(i / lanes))).getElementType()));
        if (lanes > 1 && count <= kMostWrittenTerms) {
          for (int64_t i = 0; i < count; ++i)
            state = iteration(b.getInt32(uint32_t(i)), state);
          return state;
        }
        state.insert(state.begin(), b.getInt32(0));
        Row end = emitLoop(
            b, "reduction", state,
            [&](llvm::ArrayRef<Value *> values) { return b.CreateICmpULT(values[0], b.getInt32(uint32_t(count))); },
            [&](llvm::ArrayRef<Value *> values) {
              Row next = iteration(values[0], values.drop_front());
              next.insert(next.begin(), b.CreateAdd(values[0], b.getInt32(1)));
              return next;
            });
        end.erase(end.begin());
        return end;
      }));
}

Elements::Row Elements::row(mlir::Value value, const ElementIndex &index, unsigned lanes) {
  const mlir::RankedTensorType type = tensorOf(value);
  llvm::Type *scalar = scalarType(b, type.getElementType());
  auto oneByOne = [&] {
    Row result;
    for (unsigned lane = 0; lane < lanes; ++lane)
      result.push_back(at(value, shifted(b, index, lane)));
    return result;
  };
  if (auto known = rows.find(value); known != rows.end()) {
    assert(known->second.size() == lanes && "a row is read as it was given");
    return known->second;
  }
  if (auto source = sources.find(value); source != sources.end()) {
    Row result;
    for (unsigned lane = 0; lane < lanes; ++lane)
      result.push_back(source->second(shifted(b, index, lane)));
    return result;
  }
  if (Value *pointer = pointers.lookup(value)) {
    Value *linear = linearised(b, index, type.getShape());
    if (lanes == 1)
      return {loadElement(b, type.getElementType(), pointer, linear)};
    if (type.getShape().back() % lanes)
      return oneByOne();
    llvm::Type *stored = memoryType(b, type.getElementType());
    const unsigned bytes = gpu::bytesOf(*elementOf(type.getElementType()));
    Value *at = b.CreateGEP(stored, pointer, b.CreateZExt(linear, b.getInt64Ty()));
    Value *all = b.CreateAlignedLoad(llvm::FixedVectorType::get(stored, lanes), at, llvm::Align(std::min(lanes * bytes, 16u)));
    Row result;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      Value *element = b.CreateExtractElement(all, uint64_t(lane));
      result.push_back(type.getElementType().isInteger(1) ? b.CreateTrunc(element, b.getInt1Ty()) : element);
    }
    return result;
  }
  mlir::Operation *op = value.getDefiningOp();
  if (auto constant = llvm::dyn_cast<mlir::arith::ConstantOp>(op)) {
    mlir::TypedAttr splat = splatOf(constant);
    if (auto number = llvm::dyn_cast<mlir::FloatAttr>(splat))
      return Row(lanes, llvm::ConstantFP::get(scalar, number.getValue()));
    return Row(lanes, llvm::ConstantInt::get(scalar, llvm::cast<mlir::IntegerAttr>(splat).getValue()));
  }
  if (llvm::isa<tensor::EmptyOp>(op))
    return Row(lanes, llvm::UndefValue::get(scalar));
  if (auto generic = llvm::dyn_cast<linalg::LinalgOp>(op))
    return this->generic(generic, llvm::cast<mlir::OpResult>(value).getResultNumber(), index, lanes);
  if (llvm::isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op)) {
    mlir::Value source = op->getOperand(0);
    llvm::ArrayRef<int64_t> shape = tensorOf(source).getShape();
    if (lanes > 1 && (shape.empty() || shape.back() % lanes))
      return oneByOne();
    return row(source, delinearised(b, linearised(b, index, type.getShape()), shape), lanes);
  }
  if (auto slice = llvm::dyn_cast<tensor::ExtractSliceOp>(op)) {
    const llvm::SmallBitVector dropped = slice.getDroppedDims();
    if (lanes > 1 &&
        (dropped[dropped.size() - 1] || slice.getStaticStrides().back() != 1 || slice.getStaticOffsets().back() % lanes))
      return oneByOne();
    ElementIndex inner;
    unsigned next = 0;
    for (unsigned i = 0; i < slice.getStaticOffsets().size(); ++i) {
      Value *offset = b.getInt32(uint32_t(slice.getStaticOffsets()[i]));
      inner.dims.push_back(
          dropped[i] ? offset
                     : b.CreateAdd(b.CreateMul(index.dims[next], b.getInt32(uint32_t(slice.getStaticStrides()[i]))), offset));
      next += !dropped[i];
    }
    return row(slice.getSource(), inner, lanes);
  }
  if (auto pad = llvm::dyn_cast<tensor::PadOp>(op)) {
    if (lanes > 1 && (pad.getStaticLow().back() || pad.getStaticHigh().back()))
      return oneByOne();
    ElementIndex inner;
    Value *isInside = b.getTrue();
    // What lies in memory is read in any case, at a place inside: without branches, all taps of a window are read together.
    const bool isRead = pointers.count(pad.getSource());
    for (auto [i, low] : llvm::enumerate(pad.getStaticLow())) {
      inner.dims.push_back(b.CreateSub(index.dims[i], b.getInt32(uint32_t(low))));
      if (!low && !pad.getStaticHigh()[i])
        continue;
      // Below 0 is far above, as unsigned.
      Value *isInDim = b.CreateICmpULT(inner.dims.back(), b.getInt32(uint32_t(pad.getSourceType().getDimSize(int64_t(i)))));
      isInside = b.CreateAnd(isInside, isInDim);
      if (isRead)
        inner.dims.back() = b.CreateSelect(isInDim, inner.dims.back(), b.getInt32(0));
    }
    Value *padding = emitScalar(b, pad.getConstantPaddingValue().getDefiningOp(), {});
    if (!isRead)
      return choose(
          isInside, scalar, [&] { return row(pad.getSource(), inner, lanes); }, [&] { return Row(lanes, padding); });
    Row values = row(pad.getSource(), inner, lanes);
    for (Value *&value : values)
      value = b.CreateSelect(isInside, value, padding);
    return values;
  }
  auto concat = llvm::cast<tensor::ConcatOp>(op);
  const unsigned dim = unsigned(concat.getDim());
  if (lanes > 1 && dim + 1 == unsigned(type.getRank()))
    for (mlir::Value input : concat.getInputs())
      if (tensorOf(input).getShape().back() % lanes)
        return oneByOne();
  std::function<Row(size_t, int64_t)> part = [&](size_t i, int64_t begin) -> Row {
    mlir::Value input = concat.getInputs()[i];
    const int64_t end = begin + tensorOf(input).getDimSize(dim);
    auto inside = [&] {
      ElementIndex inner{index.dims, nullptr};
      inner.dims[dim] = b.CreateSub(inner.dims[dim], b.getInt32(uint32_t(begin)));
      return row(input, inner, lanes);
    };
    if (i + 1 == concat.getInputs().size())
      return inside();
    return choose(b.CreateICmpULT(index.dims[dim], b.getInt32(uint32_t(end))), scalar, inside,
                  [&] { return part(i + 1, end); });
  };
  return part(0, 0);
}

void gpu::storeRow(llvm::IRBuilder<> &b, mlir::Type type, Value *pointer, Value *linear, llvm::ArrayRef<Value *> values) {
  if (values.size() == 1)
    return storeElement(b, type, pointer, linear, values[0]);
  llvm::Type *stored = memoryType(b, type);
  Value *all = llvm::PoisonValue::get(llvm::FixedVectorType::get(stored, unsigned(values.size())));
  for (auto [lane, value] : llvm::enumerate(values))
    all = b.CreateInsertElement(all, type.isInteger(1) ? b.CreateZExt(value, stored) : value, uint64_t(lane));
  const unsigned bytes = gpu::bytesOf(*elementOf(type)) * unsigned(values.size());
  b.CreateAlignedStore(all, b.CreateGEP(stored, pointer, b.CreateZExt(linear, b.getInt64Ty())),
                       llvm::Align(std::min(bytes, 16u)));
}
