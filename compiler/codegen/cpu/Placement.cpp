//===- Placement.cpp - Tensors inside of larger ones ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/Placement.h"
#include "compiler/codegen/cpu/TensorView.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tw::cpu {

/// The attribute of an argument or result that holds its placement.
static constexpr const char *placementName = "tilewright.placement";

/// The fewest results, per element of the dimension that a transposition makes the inner one, for which kernels work in the other order:
/// vectors of few of them would often be filled in part only.
static constexpr int64_t minNeighbours = 512;

static std::optional<Placement> placementOf(Attribute attr) {
  auto fields = dyn_cast_or_null<DictionaryAttr>(attr);
  if (!fields)
    return std::nullopt;
  auto numbers = [&](StringRef name) { return llvm::to_vector(fields.getAs<DenseI64ArrayAttr>(name).asArrayRef()); };
  Placement placement;
  placement.strides = numbers("strides");
  placement.padding = fields.get("padding");
  if (placement.padding) {
    placement.low = numbers("low");
    placement.high = numbers("high");
  }
  return placement;
}

static Attribute attributeOf(MLIRContext *context, const Placement &placement) {
  Builder b(context);
  SmallVector<NamedAttribute> fields{b.getNamedAttr("strides", b.getDenseI64ArrayAttr(placement.strides))};
  if (placement.padding) {
    fields.push_back(b.getNamedAttr("low", b.getDenseI64ArrayAttr(placement.low)));
    fields.push_back(b.getNamedAttr("high", b.getDenseI64ArrayAttr(placement.high)));
    fields.push_back(b.getNamedAttr("padding", placement.padding));
  }
  return b.getDictionaryAttr(fields);
}

std::optional<Placement> argumentPlacement(func::FuncOp kernel, unsigned index) {
  return placementOf(kernel.getArgAttr(index, placementName));
}

std::optional<Placement> resultPlacement(func::FuncOp kernel, unsigned index) {
  return placementOf(kernel.getResultAttr(index, placementName));
}

namespace {

class Placer {
public:
  Placer(func::FuncOp main, bool groupsFloats) : main(main), groupsFloats(groupsFloats) {}
  DenseMap<Value, PlacedTensor> place();

private:
  /// The body of a kernel that is called once, so that its arguments and results have one place each.
  func::FuncOp onlyCallee(func::CallOp call) const;
  bool mayMove(OpResult tensor) const;
  Placement paddingWantedOf(OpResult tensor) const;
  tensor::ConcatOp concatenationOf(func::CallOp call) const;
  linalg::TransposeOp transpositionOf(func::CallOp call) const;
  bool keepsNeighbours(func::CallOp call, unsigned dim) const;
  void tell(OpResult tensor, const Placement &placement);
  void leaveOutTranspositions(func::CallOp first);

  func::FuncOp main;
  bool groupsFloats;
  DenseMap<Operation *, func::FuncOp> calleeOf;
  DenseMap<Operation *, unsigned> callsOf;
  /// Concatenations whose parts nobody else reads, and the call that each part is for.
  DenseMap<Value, tensor::ConcatOp> concatenations;
  DenseMap<Value, func::CallOp> partOf;
  DenseMap<Value, PlacedTensor> placed;
};

func::FuncOp Placer::onlyCallee(func::CallOp call) const {
  func::FuncOp callee = calleeOf.lookup(call);
  return callee && !callee.isExternal() && callee.getBody().hasOneBlock() && callsOf.lookup(callee) == 1 ? callee
                                                                                                         : func::FuncOp();
}

/// Whether loops write the tensor and only kernels read it.
bool Placer::mayMove(OpResult tensor) const {
  func::FuncOp callee = onlyCallee(cast<func::CallOp>(tensor.getOwner()));
  if (!callee || !cast<RankedTensorType>(tensor.getType()).hasStaticShape())
    return false;
  Value returned = callee.getBody().front().getTerminator()->getOperand(tensor.getResultNumber());
  return isa_and_nonnull<linalg::LinalgOp>(returned.getDefiningOp()) && llvm::all_of(tensor.getUsers(), [&](Operation *user) {
           auto call = dyn_cast<func::CallOp>(user);
           return call && onlyCallee(call);
         });
}

/// Whether many results need each padded element: a loop over results does not move in the padded tensor. Else the loops can leave the
/// padding out.
static bool isReadManyTimes(tensor::PadOp pad) {
  return llvm::any_of(pad->getUses(), [](OpOperand &use) {
    auto op = dyn_cast<linalg::LinalgOp>(use.getOwner());
    if (!op)
      return false;
    AffineMap map = op.getMatchingIndexingMap(&use);
    for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray()))
      if (kind == utils::IteratorType::parallel && !map.isFunctionOfDim(loop))
        return true;
    return false;
  });
}

/// The paddings of the tensor in the kernels that read it: the largest of those with one value. Nothing if a kernel reads it in a way
/// that needs it dense.
Placement Placer::paddingWantedOf(OpResult tensor) const {
  Placement wanted;
  for (OpOperand &use : tensor.getUses()) {
    BlockArgument argument = onlyCallee(cast<func::CallOp>(use.getOwner())).getArgument(use.getOperandNumber());
    for (Operation *user : argument.getUsers()) {
      auto pad = dyn_cast<tensor::PadOp>(user);
      if (!pad && !isa<linalg::LinalgOp>(user))
        return {};
      Attribute padding;
      if (!pad || !isReadManyTimes(pad) || !pad.getLow().empty() || !pad.getHigh().empty() || !pad.getConstantPaddingValue() ||
          !matchPattern(pad.getConstantPaddingValue(), m_Constant(&padding)) || (wanted.padding && wanted.padding != padding))
        continue;
      wanted.padding = padding;
      wanted.low.resize(pad.getStaticLow().size(), 0);
      wanted.high.resize(pad.getStaticHigh().size(), 0);
      for (auto [most, low] : llvm::zip(wanted.low, pad.getStaticLow()))
        most = std::max(most, low);
      for (auto [most, high] : llvm::zip(wanted.high, pad.getStaticHigh()))
        most = std::max(most, high);
    }
  }
  return wanted;
}

/// The concatenation that is all a kernel does, of its arguments in their order.
tensor::ConcatOp Placer::concatenationOf(func::CallOp call) const {
  func::FuncOp callee = onlyCallee(call);
  if (!callee || callee.getNumResults() != 1)
    return {};
  Block &body = callee.getBody().front();
  auto concat = dyn_cast<tensor::ConcatOp>(body.front());
  const bool isAll = concat && body.getOperations().size() == 2 && body.getTerminator()->getOperand(0) == concat.getResult() &&
                     llvm::equal(concat.getInputs(), body.getArguments());
  return isAll ? concat : tensor::ConcatOp();
}

/// The transposition that is all a kernel does.
linalg::TransposeOp Placer::transpositionOf(func::CallOp call) const {
  func::FuncOp callee = onlyCallee(call);
  if (!callee || callee.getNumArguments() != 1 || callee.getNumResults() != 1)
    return {};
  Block &body = callee.getBody().front();
  auto transpose = body.getTerminator()->getOperand(0).getDefiningOp<linalg::TransposeOp>();
  const bool isAll = transpose && transpose.getInput() == callee.getArgument(0) && body.getOperations().size() == 3 &&
                     cast<RankedTensorType>(transpose.getInput().getType()).hasStaticShape();
  return isAll ? transpose : linalg::TransposeOp();
}

/// Whether a kernel makes neighbours along dimension `dim` of its result of neighbours along that dimension of its only argument: it then
/// works on vectors of them, and other dimensions may be in any order. Not so sums of groups of products.
bool Placer::keepsNeighbours(func::CallOp call, unsigned dim) const {
  func::FuncOp callee = onlyCallee(call);
  if (!callee || callee.getNumArguments() != 1 || callee.getNumResults() != 1)
    return false;
  for (Operation &op : callee.getBody().front().without_terminator()) {
    if (isa<tensor::EmptyOp, linalg::FillOp, arith::ConstantOp>(op))
      continue;
    auto nest = dyn_cast<linalg::LinalgOp>(op);
    if (!nest || nest->getNumResults() != 1 || !nest.getBlock()->getOps<tensor::ExtractOp>().empty())
      return false;
    const bool isFloat = isa<FloatType>(getElementTypeOrSelf(nest->getResult(0).getType()));
    if (nest.getNumReductionLoops() > 0 && (!isFloat || groupsFloats))
      return false;
    SmallVector<int64_t> ranges = nest.getStaticLoopRanges();
    SmallVector<utils::IteratorType> kinds = nest.getIteratorTypesArray();
    const AffineMap to = nest.getMatchingIndexingMap(nest.getDpsInitOperand(0));
    if (to.getNumResults() <= dim || !isa<AffineDimExpr>(to.getResult(dim)))
      return false;
    const unsigned loop = cast<AffineDimExpr>(to.getResult(dim)).getPosition();
    if (kinds[loop] != utils::IteratorType::parallel)
      return false;
    for (OpOperand *input : nest.getDpsInputOperands()) {
      if (input->get().getDefiningOp<arith::ConstantOp>())
        continue;
      AffineMap from = nest.getMatchingIndexingMap(input);
      SmallVector<int64_t> coefficients(ranges.size(), 0);
      int64_t constant = 0;
      if (from.getNumResults() <= dim || failed(linearise(from.getResult(dim), coefficients, constant, 1)) ||
          coefficients[loop] != 1)
        return false;
      for (auto [other, coefficient] : llvm::enumerate(coefficients))
        if (other != loop && coefficient != 0 && ranges[other] != 1)
          return false;
    }
  }
  return true;
}

/// Says to the kernels that write and read a tensor where it is.
void Placer::tell(OpResult tensor, const Placement &placement) {
  Attribute attr = attributeOf(main.getContext(), placement);
  onlyCallee(cast<func::CallOp>(tensor.getOwner())).setResultAttr(tensor.getResultNumber(), placementName, attr);
  for (OpOperand &use : tensor.getUses())
    if (auto call = dyn_cast<func::CallOp>(use.getOwner()); call && !concatenations.count(call.getResult(0)))
      onlyCallee(call).setArgAttr(use.getOperandNumber(), placementName, attr);
}

/// Leaves out a transposition and the one that takes it back, if every kernel between them can do without.
void Placer::leaveOutTranspositions(func::CallOp first) {
  linalg::TransposeOp there = transpositionOf(first);
  if (!there || placed.count(first.getOperand(0)))
    return;
  ArrayRef<int64_t> order = there.getPermutation(), shape = cast<RankedTensorType>(first.getResult(0).getType()).getShape();
  if (ShapedType::getNumElements(shape) < minNeighbours * shape.back())
    return;
  // The dimension whose elements are neighbours.
  const auto inner = static_cast<unsigned>(llvm::find(order, static_cast<int64_t>(order.size()) - 1) - order.begin());
  SmallVector<func::CallOp> kernels;
  Value tensor = first.getResult(0);
  func::CallOp last;
  while (!last) {
    auto call = tensor.hasOneUse() ? dyn_cast<func::CallOp>(*tensor.user_begin()) : func::CallOp();
    if (!call || placed.count(tensor))
      return;
    if (linalg::TransposeOp back = transpositionOf(call)) {
      for (auto [dim, from] : llvm::enumerate(back.getPermutation()))
        if (order[from] != static_cast<int64_t>(dim))
          return;
      last = call;
      continue;
    }
    if (!keepsNeighbours(call, inner) || !mayMove(cast<OpResult>(call.getResult(0))))
      return;
    kernels.push_back(call);
    tensor = call.getResult(0);
  }
  if (kernels.empty() || placed.count(last.getResult(0)))
    return;
  auto placementOf = [&](Value value) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
    SmallVector<int64_t> sizes(shape.size());
    for (auto [dim, from] : llvm::enumerate(order))
      sizes[from] = shape[dim];
    SmallVector<int64_t> strides = denseStrides(sizes);
    Placement placement;
    for (int64_t from : order)
      placement.strides.push_back(strides[from]);
    return placement;
  };
  auto place = [&](Value value, Value whole) {
    placed[value] = {whole, cast<RankedTensorType>(value.getType()).getNumElements(), 0};
    tell(cast<OpResult>(value), placementOf(value));
  };
  place(first.getResult(0), first.getOperand(0));
  for (func::CallOp kernel : kernels)
    place(kernel.getResult(0), kernel == kernels.back() ? last.getResult(0) : kernel.getResult(0));
}

DenseMap<Value, PlacedTensor> Placer::place() {
  SymbolTable symbols(main->getParentOp());
  for (auto call : main.getOps<func::CallOp>())
    if (auto callee = symbols.lookup<func::FuncOp>(call.getCallee())) {
      calleeOf[call] = callee;
      ++callsOf[callee];
    }
  for (auto call : main.getOps<func::CallOp>()) {
    tensor::ConcatOp concat = concatenationOf(call);
    const bool isFree = concat && llvm::all_of(call.getOperands(), [&](Value part) {
                          auto result = dyn_cast<OpResult>(part);
                          return result && isa<func::CallOp>(result.getOwner()) && part.hasOneUse() && mayMove(result);
                        });
    if (!isFree)
      continue;
    concatenations[call.getResult(0)] = concat;
    for (Value part : call.getOperands())
      partOf[part] = call;
  }

  for (auto call : main.getOps<func::CallOp>())
    for (OpResult tensor : call->getResults()) {
      if (partOf.count(tensor))
        continue;
      tensor::ConcatOp concat = concatenations.lookup(tensor);
      auto type = dyn_cast<RankedTensorType>(tensor.getType());
      const bool isRead = !tensor.use_empty() && llvm::all_of(tensor.getUsers(), [&](Operation *user) {
        auto reader = dyn_cast<func::CallOp>(user);
        return reader && onlyCallee(reader);
      });
      Placement placement;
      if (isRead && (concat || mayMove(tensor)))
        placement = paddingWantedOf(tensor);
      // Around a part, along the dimension of the concatenation, are the other parts.
      if (concat && placement.padding && (placement.low[concat.getDim()] || placement.high[concat.getDim()]))
        placement = {};
      if (!concat && !placement.padding)
        continue;
      SmallVector<int64_t> shape(type.getShape());
      if (placement.padding)
        for (auto [size, low, high] : llvm::zip(shape, placement.low, placement.high))
          size += low + high;
      placement.strides = denseStrides(shape);
      PlacedTensor place;
      place.whole = tensor;
      place.wholeElements = ShapedType::getNumElements(shape);
      for (auto [low, stride] : llvm::zip(placement.low, placement.strides))
        place.offset += low * stride;
      if (placement.padding)
        tell(tensor, placement);
      placed[tensor] = place;
      if (!concat)
        continue;
      const unsigned dim = concat.getDim();
      for (Value part : cast<func::CallOp>(tensor.getOwner()).getOperands()) {
        tell(cast<OpResult>(part), placement);
        placed[part] = place;
        place.offset += cast<RankedTensorType>(part.getType()).getDimSize(dim) * placement.strides[dim];
      }
    }
  for (auto call : main.getOps<func::CallOp>())
    leaveOutTranspositions(call);
  return placed;
}

} // namespace

DenseMap<Value, PlacedTensor> placeTensors(func::FuncOp main, bool groupsFloats) { return Placer(main, groupsFloats).place(); }

bool isDoneByPlacement(func::CallOp call, const DenseMap<Value, PlacedTensor> &placed) {
  if (call.getNumResults() != 1 || call.getNumOperands() == 0)
    return false;
  auto isIn = [&](Value part, Value whole) {
    auto it = placed.find(part);
    return it != placed.end() && it->second.whole == whole && part != whole;
  };
  return isIn(call.getResult(0), call.getOperand(0)) ||
         llvm::all_of(call.getOperands(), [&](Value part) { return isIn(part, call.getResult(0)); });
}

} // namespace tw::cpu
