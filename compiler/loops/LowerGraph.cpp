//===- LowerGraph.cpp - Graph kernels to linalg ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Element-by-element ops are gathered into bodies first, from the kernel's
// result backwards; then every value the result needs is lowered on demand.
//===----------------------------------------------------------------------===//
#include "compiler/loops/LowerGraph.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/Messages.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/KernelTarget.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "compiler/loops/Elementwise.h"
#include "compiler/loops/Passes.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tw::loops {

#define GEN_PASS_DEF_LOWERGRAPHPASS
#include "compiler/loops/Passes.h.inc"

using namespace graph;

namespace {

Type storageTensor(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.clone(storageType(tensor.getElementType()));
}

/// A reshape as aliases: collapse, expand, or both.
Value reshapeTensor(OpBuilder &builder, Location loc, Value x, ArrayRef<int64_t> shape) {
  RankedTensorType from = tensorOf(x), to = from.clone(shape);
  if (from == to)
    return x;
  if (auto groups = getReassociationIndicesForReshape(from, to)) {
    if (from.getRank() > to.getRank())
      return builder.create<tensor::CollapseShapeOp>(loc, to, x, *groups);
    if (from.getRank() < to.getRank())
      return builder.create<tensor::ExpandShapeOp>(loc, to, x, *groups);
  }
  Value flat = reshapeTensor(builder, loc, x, {from.getNumElements()});
  return reshapeTensor(builder, loc, flat, shape);
}

Value constantTensor(OpBuilder &builder, Location loc, ElementsAttr elements) {
  Type type = storageType(elements.getElementType());
  // Backends read dense elements only.
  if (type != elements.getElementType())
    elements = bitcastConstant(elements, type);
  else if (!isa<DenseElementsAttr>(elements))
    elements = reshapeConstant(elements, cast<RankedTensorType>(elements.getShapedType()).getShape());
  return builder.create<arith::ConstantOp>(loc, cast<TypedAttr>(elements));
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

/// Ops that become one linalg.generic; the last is its result.
struct Cluster {
  llvm::SmallSetVector<Operation *, 8> ops; // consumers before producers
  Operation *output() const { return ops.front(); }
};

/// What one body may hold, so that it fits a chain of the vector engine.
constexpr unsigned kMaxDims = 4;
constexpr int64_t kFewChannels = 8; ///< fewer leave most lanes empty and make short runs
constexpr unsigned kMaxStages = 10, kMaxTensors = 2, kMaxParameters = 4, kMaxConstants = 8;

bool isOneNumber(Value value) {
  ElementsAttr elements = constantOf(value);
  return elements && (elements.getNumElements() == 1 || elements.isSplat());
}

/// A constant along the last dim: a parameter of a body.
bool isChannelVector(Value value) {
  return constantOf(value) && !isOneNumber(value) && shapeOf(value).back() == tensorOf(value).getNumElements();
}

/// Whether op rounds to a float of 16 bits: the vector engine does where it writes one.
bool narrowsFloat(Operation *op) {
  return isa<CastOp>(op) && isa<FloatType>(elementOf(op->getResult(0))) && !elementOf(op->getResult(0)).isF32();
}

/// Which op's result ends a body: what has been rounded, and saturated if it has 8 bits, is where the next body starts.
bool endsBody(Operation *op, Operation *user) {
  return narrowsFloat(op) || (isa<QuantizeOp, RequantizeOp, QLinearAddOp>(op) && !isa<ClipOp>(user));
}

/// Whether the values per channel that op carries vary along the last dim: only those are parameters of a body.
bool isLastAxis(Operation *op) {
  auto axis = op->getAttrOfType<IntegerAttr>("axis");
  return axis && axis.getInt() + 1 == tensorOf(op->getResult(0)).getRank();
}

/// A quantize or dequantize whose scales and zero points both vary along a dim that is not the last: two tensors beside x.
bool needsTwoBodies(Operation *op) {
  auto differ = [&](auto quantized) {
    return hasChannelAxis(op) && !isLastAxis(op) && !llvm::all_equal(quantized.getZeroPoints());
  };
  if (auto quantize = dyn_cast<QuantizeOp>(op))
    return differ(quantize);
  if (auto dequantize = dyn_cast<DequantizeOp>(op))
    return differ(dequantize);
  return false;
}

/// Reads a tensor of the kernel as another type: part of what reads the result, whatever the shape of that is.
bool isReading(Operation *op) {
  return isa<CastOp, DequantizeOp>(op) && !hasChannelAxis(op) && isa<BlockArgument>(op->getOperand(0));
}

/// x + x of two scales: the chain scales the tensor it carries and its second one differently, so x is both.
bool readsTwice(Operation *op) { return isa<QLinearAddOp>(op) && op->getOperand(0) == op->getOperand(1); }

/// Whether what `op` makes is made of `other`'s result by some of `ops`.
bool isMadeOf(Operation *op, Operation *other, ArrayRef<Operation *> ops) {
  return llvm::is_contained(ops, op) && (op == other || llvm::any_of(op->getOperands(), [&](Value x) {
                                           return x.getDefiningOp() && isMadeOf(x.getDefiningOp(), other, ops);
                                         }));
}

/// Equal conversions are made once in a body: the first of `ops` that makes `value`, which others of them may make as well.
Value firstOf(Value value, ArrayRef<Operation *> ops) {
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<CastOp, DequantizeOp>(op) || !llvm::is_contained(ops, op))
    return value;
  auto isEqual = [&](Operation *other) {
    return OperationEquivalence::isEquivalentTo(other, op, OperationEquivalence::IgnoreLocations);
  };
  return (*llvm::find_if(ops, isEqual))->getResult(0);
}

/// `ops` that use `value`, equal conversions once.
SmallVector<Operation *> usersOf(Value value, ArrayRef<Operation *> ops) {
  SmallVector<Operation *> users;
  for (Operation *op : ops)
    if (firstOf(op->getResult(0), ops) == op->getResult(0) &&
        llvm::any_of(op->getOperands(), [&](Value operand) { return firstOf(operand, ops) == value; }))
      users.push_back(op);
  return users;
}

/// Whether two of `ops` go on from `value`, neither from what the other makes: it would have to be kept until both are done, and so would
/// what the first one makes.
bool goesTwoWays(Value value, ArrayRef<Operation *> ops) {
  SmallVector<Operation *> users = usersOf(value, ops);
  return llvm::any_of(users, [&](Operation *a) {
    return llvm::any_of(users, [&](Operation *b) { return !isMadeOf(a, b, ops) && !isMadeOf(b, a, ops); });
  });
}

/// What a body of `ops` reads that is neither one number nor one for each channel.
llvm::SmallSetVector<Value, 8> tensorsOf(ArrayRef<Operation *> ops) {
  llvm::SmallSetVector<Value, 8> tensors;
  for (Operation *op : ops)
    for (Value operand : op->getOperands())
      if (!llvm::is_contained(ops, operand.getDefiningOp()) && !isOneNumber(operand) && !isChannelVector(operand))
        tensors.insert(operand);
  return tensors;
}

/// The only tensor of a body, of the kernel's own, where the chain needs it twice: it goes two ways, or a quantised sum scales it that
/// adds what is made of it. Then the chain carries it, and its second tensor is the same.
Value neededTwice(ArrayRef<Operation *> ops) {
  llvm::SmallSetVector<Value, 8> tensors = tensorsOf(ops);
  if (tensors.size() != 1 || !isa<BlockArgument>(tensors[0]) || usersOf(tensors[0], ops).size() != 2)
    return nullptr;
  const bool isScaled = llvm::any_of(usersOf(tensors[0], ops), [&](Operation *user) {
    auto add = dyn_cast<QLinearAddOp>(user);
    return add && add.getA() == tensors[0];
  });
  return isScaled || goesTwoWays(tensors[0], ops) ? tensors[0] : nullptr;
}

bool fits(ArrayRef<Operation *> ops) {
  unsigned stages = 0, parameters = 0, tensorsOfAxes = 0, constants = 0, keeps = 0, secondReadings = 0;
  llvm::SmallDenseMap<Value, unsigned> uses;
  for (Operation *op : ops) {
    if (firstOf(op->getResult(0), ops) != op->getResult(0))
      continue;
    stages += stageCount(op);
    constants += constantCount(op);
    keeps += keepsValue(op);
    secondReadings += readsTwice(op);
    for (Value operand : op->getOperands()) {
      constants += isOneNumber(operand);
      parameters += isChannelVector(operand);
      if (!constantOf(operand))
        ++uses[firstOf(operand, ops)];
    }
    if (hasChannelAxis(op)) // the scales; a bias is an operand
      ++(isLastAxis(op) ? parameters : tensorsOfAxes);
  }
  const llvm::SmallSetVector<Value, 8> tensors = tensorsOf(ops);
  const Value again = neededTwice(ops);
  secondReadings += again != nullptr;
  // The engine keeps one value at a time: one that is used twice may be kept for long.
  auto twice = llvm::count_if(uses, [](auto &use) { return use.second > 1; });
  if (twice + (twice ? keeps : 0) > 1)
    return false;
  for (auto [value, count] : uses) {
    if (count == 1 || value == again)
      continue;
    // The second tensor is there all the time, but scaled as it is read, it is not the one that the chain carries.
    const SmallVector<Operation *> users = usersOf(value, ops);
    if (goesTwoWays(value, ops) && !(isa<BlockArgument>(value) && tensors.size() == kMaxTensors && users.size() == 2))
      return false;
    for (Operation *op : users)
      if (auto add = dyn_cast<QLinearAddOp>(op); add && add.getA() == value && !readsTwice(op))
        return false;
  }
  return stages <= kMaxStages && constants <= kMaxConstants && parameters <= kMaxParameters &&
         tensors.size() + tensorsOfAxes + secondReadings <= kMaxTensors;
}

class KernelLowering {
public:
  KernelLowering(func::FuncOp kernel) : kernel(kernel), builder(kernel.getContext()) {}

  LogicalResult run() {
    Block *old = &kernel.getBody().front();
    readNarrow(old);
    formClusters(old);
    isOneRun = hasFewChannels(*old) && hasOneShape(*old);
    Block *block = builder.createBlock(&kernel.getBody());
    for (BlockArgument argument : old->getArguments())
      values[argument] = block->addArgument(storageTensor(argument.getType()), argument.getLoc());
    builder.setInsertionPointToEnd(block);
    SmallVector<Value> results;
    for (Value result : old->getTerminator()->getOperands()) {
      FailureOr<Value> value = lower(result);
      if (failed(value))
        return failure();
      results.push_back(*value);
    }
    builder.create<func::ReturnOp>(old->getTerminator()->getLoc(), results);
    // Constants that were made into another shape after all.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
      if (isa<arith::ConstantOp>(op) && op.use_empty())
        op.erase();
    old->dropAllReferences();
    old->dropAllDefinedValueUses();
    old->erase();
    kernel.setType(builder.getFunctionType(block->getArgumentTypes(), ValueRange(results).getTypes()));
    return success();
  }

private:
  func::FuncOp kernel;
  OpBuilder builder;
  DenseMap<Value, Value> values;
  std::vector<Cluster> clusters;
  DenseMap<Operation *, size_t> clusterOf;
  bool isOneRun = false; ///< what all elements go through is the same: their dims do not matter

  static bool hasFewChannels(Block &block) {
    ArrayRef<int64_t> shape = shapeOf(block.getTerminator()->getOperand(0));
    return !shape.empty() && shape.back() < kFewChannels;
  }

  /// Whether all ops go element by element over tensors of one shape and numbers.
  bool hasOneShape(Block &block) const {
    ArrayRef<int64_t> shape = shapeOf(block.getTerminator()->getOperand(0));
    auto hasIt = [&](Value value) { return shapeOf(value) == shape; };
    return llvm::all_of(block.getArguments(), hasIt) && llvm::all_of(block.without_terminator(), [&](Operation &op) {
             if (isa<ConstantOp>(op))
               return isOneNumber(op.getResult(0)) || hasIt(op.getResult(0));
             return clusterOf.count(&op) && !hasChannelAxis(&op) && hasIt(op.getResult(0));
           });
  }

  //===--------------------------------------------------------------------===//
  // Preparation
  //===--------------------------------------------------------------------===//

  /// Array and window ops read bf16 as it is, and f16 on a GPU or in OpenCL: the cast in front of them is part of their reading.
  static void readNarrow(Block *block) {
    auto target = block->getParentOp()->getAttrOfType<StringAttr>(kTargetAttr);
    const bool readsHalf = target && (target.getValue() == kGpuTarget || target.getValue() == kOpenClTarget);
    auto isNarrow = [&](Value value) { return elementOf(value).isBF16() || (readsHalf && elementOf(value).isF16()); };
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block))) {
      if (isa<CastOp>(op) && op.use_empty()) {
        op.erase();
        continue;
      }
      if (!isa<ConvOp, MatmulOp, AveragePoolOp, ReduceOp, SoftmaxOp, LayerNormOp>(op))
        continue;
      for (OpOperand &operand : op.getOpOperands())
        if (auto widened = operand.get().getDefiningOp<CastOp>(); widened && isNarrow(widened.getX()))
          operand.set(widened.getX());
    }
  }

  void formClusters(Block *block) {
    for (Operation &op : llvm::reverse(*block)) {
      if (!isElementwise(&op) || needsTwoBodies(&op))
        continue;
      size_t joined = joinable(&op);
      if (joined == clusters.size())
        clusters.emplace_back();
      clusters[joined].ops.insert(&op);
      clusterOf[&op] = joined;
    }
  }

  /// The cluster of all users of op, if op fits into it; else a new one.
  size_t joinable(Operation *op) {
    size_t none = clusters.size(), joined = none;
    for (Operation *user : op->getUsers()) {
      auto found = clusterOf.find(user);
      if (found == clusterOf.end() || endsBody(op, user) || (joined != none && joined != found->second))
        return none;
      joined = found->second;
    }
    if (joined == none || (shapeOf(op->getResult(0)) != shapeOf(clusters[joined].output()->getResult(0)) && !isReading(op)))
      return none;
    SmallVector<Operation *> ops(clusters[joined].ops.begin(), clusters[joined].ops.end());
    ops.push_back(op);
    return fits(ops) ? joined : none;
  }

  //===--------------------------------------------------------------------===//
  // Building blocks
  //===--------------------------------------------------------------------===//

  Value empty(Location loc, ArrayRef<int64_t> shape, Type type) {
    return builder.create<tensor::EmptyOp>(loc, shape, storageType(type));
  }

  Value filled(Location loc, ArrayRef<int64_t> shape, TypedAttr value) {
    Value constant = builder.create<arith::ConstantOp>(loc, value);
    return builder.create<linalg::FillOp>(loc, constant, empty(loc, shape, value.getType())).getResult(0);
  }

  using Body = function_ref<Value(OpBuilder &, Location, ValueRange)>;

  /// A linalg.generic with one result. `maps`: inputs, then `init`.
  Value generic(Location loc, ValueRange inputs, Value init, ArrayRef<AffineMap> maps, ArrayRef<utils::IteratorType> iterators,
                Body body) {
    auto op = builder.create<linalg::GenericOp>(loc, TypeRange{init.getType()}, inputs, ValueRange{init}, maps, iterators,
                                                [&](OpBuilder &inner, Location where, ValueRange arguments) {
                                                  inner.create<linalg::YieldOp>(where, body(inner, where, arguments));
                                                });
    return op.getResult(0);
  }

  AffineMap map(unsigned dims, ArrayRef<AffineExpr> results) { return AffineMap::get(dims, 0, results, builder.getContext()); }
  AffineExpr dim(unsigned position) { return builder.getAffineDimExpr(position); }

  static SmallVector<utils::IteratorType> iterators(unsigned parallel, unsigned reduction) {
    SmallVector<utils::IteratorType> result(parallel, utils::IteratorType::parallel);
    result.append(reduction, utils::IteratorType::reduction);
    return result;
  }

  /// x with `pads` = top, left, bottom, right around the image of an NHWC tensor.
  Value padImage(Location loc, Value x, ArrayRef<int64_t> pads, TypedAttr value) {
    if (llvm::all_of(pads, [](int64_t pad) { return pad == 0; }))
      return x;
    return padTensor(loc, x, {0, pads[0], pads[1], 0}, {0, pads[2], pads[3], 0}, value);
  }

  Value padTensor(Location loc, Value x, ArrayRef<int64_t> low, ArrayRef<int64_t> high, TypedAttr value) {
    SmallVector<int64_t> shape(shapeOf(x));
    for (size_t i = 0; i < shape.size(); ++i)
      shape[i] += low[i] + high[i];
    auto indices = [&](ArrayRef<int64_t> amounts) { return getAsIndexOpFoldResult(builder.getContext(), amounts); };
    Value constant = builder.create<arith::ConstantOp>(loc, value);
    return builder.create<tensor::PadOp>(loc, tensorOf(x).clone(shape), x, indices(low), indices(high), constant);
  }

  /// A zero of the accumulator the products or taps of `type` are summed in.
  TypedAttr zero(Type type) {
    return isa<FloatType>(type) ? TypedAttr(builder.getF32FloatAttr(0)) : TypedAttr(builder.getI32IntegerAttr(0));
  }

  /// Value of a padded element of `type`: what `number` is there.
  TypedAttr padValue(Type type, int64_t number) {
    Type storage = storageType(type);
    if (isa<FloatType>(type))
      return builder.getFloatAttr(type, double(number));
    return builder.getIntegerAttr(storage, APInt(storage.getIntOrFloatBitWidth(), uint64_t(number)));
  }

  /// The smallest number of `type`, as an element and as an attribute.
  TypedAttr least(Type type) {
    if (auto floating = dyn_cast<FloatType>(type))
      return builder.getFloatAttr(type, APFloat::getInf(floating.getFloatSemantics(), /*Negative=*/true));
    unsigned width = type.getIntOrFloatBitWidth();
    return builder.getIntegerAttr(storageType(type),
                                  type.isUnsignedInteger() ? APInt::getZero(width) : APInt::getSignedMinValue(width));
  }

  //===--------------------------------------------------------------------===//
  // Values on demand
  //===--------------------------------------------------------------------===//

  FailureOr<Value> lower(Value value) {
    auto known = values.find(value);
    if (known != values.end())
      return known->second;
    Operation *op = value.getDefiningOp();
    FailureOr<Value> result = lowerOp(op);
    if (succeeded(result))
      values[value] = *result;
    return result;
  }

  FailureOr<Value> lowerOp(Operation *op) {
    if (auto found = clusterOf.find(op); found != clusterOf.end())
      return lowerCluster(clusters[found->second]);
    if (needsTwoBodies(op))
      return lowerInTwoBodies(op);
    return TypeSwitch<Operation *, FailureOr<Value>>(op)
        .Case([&](ConstantOp constant) { return constantTensor(builder, op->getLoc(), constant.getValue()); })
        .Case<ConvOp, ConvIntegerOp>([&](auto conv) { return lowerConv(conv); })
        .Case<MatmulOp, MatmulIntegerOp>([&](auto matmul) { return lowerMatmul(matmul); })
        .Case([&](MaxPoolOp pool) { return lowerMaxPool(pool); })
        .Case([&](AveragePoolOp pool) { return lowerAveragePool(pool); })
        .Case([&](QLinearGlobalAveragePoolOp pool) { return lowerGlobalAverage(pool); })
        .Case([&](ReduceOp reduce) { return lowerReduce(reduce); })
        .Case([&](SoftmaxOp softmax) { return lowerSoftmax(softmax); })
        .Case([&](LayerNormOp norm) { return lowerLayerNorm(norm); })
        .Case([&](ReshapeOp reshape) -> FailureOr<Value> {
          FailureOr<Value> x = lower(reshape.getX());
          if (failed(x))
            return failure();
          return reshapeTensor(builder, op->getLoc(), *x, shapeOf(reshape));
        })
        .Case([&](TransposeOp transpose) -> FailureOr<Value> {
          FailureOr<Value> x = lower(transpose.getX());
          if (failed(x))
            return failure();
          return builder
              .create<linalg::TransposeOp>(op->getLoc(), *x, empty(op->getLoc(), shapeOf(transpose), elementOf(transpose)),
                                           transpose.getPerm())
              ->getResult(0);
        })
        .Case([&](ConcatOp concat) -> FailureOr<Value> {
          SmallVector<Value> inputs;
          for (Value input : concat.getInputs()) {
            FailureOr<Value> x = lower(input);
            if (failed(x))
              return failure();
            inputs.push_back(*x);
          }
          return builder
              .create<tensor::ConcatOp>(op->getLoc(), cast<RankedTensorType>(storageTensor(concat.getType())), concat.getAxis(),
                                        inputs)
              .getResult();
        })
        .Case([&](SliceOp slice) { return lowerSlice(slice); })
        .Case([&](PadOp pad) { return lowerPad(pad); })
        .Case([&](GatherOp gather) { return lowerGather(gather); })
        .Default([](Operation *op) -> FailureOr<Value> { return op->emitOpError() << "has no lowering in this form"; });
  }

  //===--------------------------------------------------------------------===//
  // Element by element
  //===--------------------------------------------------------------------===//

  struct Operands {
    SmallVector<Value> tensors;
    SmallVector<AffineMap> maps;
    /// The key is a graph value, or the attribute of a list of channel values and its axis.
    DenseMap<Value, unsigned> ofValue;
    DenseMap<std::pair<Operation *, unsigned>, unsigned> ofSecond; ///< of an op and its operand that is a second reading
    DenseMap<std::pair<Attribute, int64_t>, unsigned> ofVector;
  };

  /// How a tensor of `shape` is read along the dims of a result of rank `rank`; dims that are 1 in a larger result stay at 0.
  AffineMap broadcastMap(ArrayRef<int64_t> shape, ArrayRef<int64_t> result) {
    SmallVector<AffineExpr> exprs;
    for (size_t i = 0; i < shape.size(); ++i) {
      size_t at = result.size() - shape.size() + i;
      exprs.push_back(shape[i] == 1 && result[at] != 1 ? builder.getAffineConstantExpr(0) : dim(at));
    }
    return map(result.size(), exprs);
  }

  /// A constant without the dims it does not vary along.
  void addConstant(Operands &operands, Location loc, Value key, ElementsAttr elements, ArrayRef<int64_t> result) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(elements.getShapedType()).getShape();
    SmallVector<int64_t> kept;
    SmallVector<AffineExpr> exprs;
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] != 1) {
        kept.push_back(shape[i]);
        exprs.push_back(dim(result.size() - shape.size() + i));
      }
    operands.ofValue[key] = operands.tensors.size();
    operands.tensors.push_back(constantTensor(builder, loc, reshapeConstant(elements, kept)));
    operands.maps.push_back(map(result.size(), exprs));
  }

  void addVector(Operands &operands, Location loc, DenseElementsAttr vector, int64_t axis, size_t rank) {
    if (vector.isSplat() || operands.ofVector.count({vector, axis}))
      return;
    operands.ofVector[{vector, axis}] = operands.tensors.size();
    operands.tensors.push_back(builder.create<arith::ConstantOp>(loc, vector));
    operands.maps.push_back(map(rank, {dim(axis)}));
  }

  /// A bias, or a constant that a quantised sum adds.
  static bool isReadPerChannel(Operation *op, size_t operand) {
    auto add = dyn_cast<QLinearAddOp>(op);
    return (operand == 1 && isa<RequantizeOp>(op)) || (operand == 0 && add && constantAddend(add));
  }

  static int64_t axisOf(Operation *op) {
    if (isa<QLinearAddOp>(op))
      return tensorOf(op->getResult(0)).getRank() - 1;
    auto axis = op->getAttrOfType<IntegerAttr>("axis");
    return axis ? axis.getInt() : 0;
  }

  /// The bounds of the clip that alone follows a quantize or requantize in its cluster.
  std::optional<Bounds> boundsAfter(Operation *op) {
    if (!isa<QuantizeOp, RequantizeOp>(op) || !op->hasOneUse())
      return std::nullopt;
    auto clip = dyn_cast<ClipOp>(*op->getUsers().begin());
    if (!clip || clusterOf.lookup(clip) != clusterOf.lookup(op))
      return std::nullopt;
    int32_t least = elementOf(clip).isUnsignedInteger() ? 0 : -128;
    auto bound = [&](APFloat value) {
      return int32_t(std::min(std::max(value.convertToFloat(), float(least)), float(least + 255)));
    };
    return Bounds{bound(clip.getMin()), bound(clip.getMax())};
  }

  /// Whether a contraction or a window is among what it is made of.
  static bool isOfAnchor(Value value) {
    Operation *op = value.getDefiningOp();
    return op &&
           (isa<ConvOp, ConvIntegerOp, MatmulOp, MatmulIntegerOp, MaxPoolOp, AveragePoolOp, QLinearGlobalAveragePoolOp>(op) ||
            llvm::any_of(op->getOperands(), isOfAnchor));
  }

  /// A kernel's contraction or window stands before all bodies, so before one that makes what meets its results.
  LogicalResult lowerAnchorFirst(ArrayRef<Operation *> ops) {
    SmallVector<Value> ofAnchor;
    bool hasOther = false;
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        if (Operation *def = operand.getDefiningOp(); def && !llvm::is_contained(ops, def)) {
          if (isOfAnchor(operand))
            ofAnchor.push_back(operand);
          else
            hasOther |= clusterOf.count(def) > 0;
        }
    for (Value value : hasOther ? ofAnchor : SmallVector<Value>())
      if (failed(lower(value)))
        return failure();
    return success();
  }

  FailureOr<Value> lowerCluster(const Cluster &cluster) {
    Operation *output = cluster.output();
    Location loc = output->getLoc();
    SmallVector<int64_t> shape(shapeOf(output->getResult(0)));
    SmallVector<Operation *> ops(cluster.ops.begin(), cluster.ops.end());
    llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    if (failed(lowerAnchorFirst(ops)))
      return failure();

    Operands operands;
    const Value again = neededTwice(ops);
    for (Operation *op : ops) {
      if (firstOf(op->getResult(0), ops) != op->getResult(0))
        continue;
      for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
        if (isReadPerChannel(op, i) || cluster.ops.contains(operand.getDefiningOp()) || operands.ofValue.count(operand) ||
            isOneNumber(operand))
          continue;
        if (ElementsAttr elements = constantOf(operand)) {
          addConstant(operands, loc, operand, elements, shape);
          continue;
        }
        FailureOr<Value> tensor = lower(operand);
        if (failed(tensor))
          return failure();
        operands.ofValue[operand] = operands.tensors.size();
        operands.tensors.push_back(*tensor);
        operands.maps.push_back(broadcastMap(shapeOf(operand), shape));
      }
      for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
        auto found = operands.ofValue.find(operand);
        const bool isSecond = readsTwice(op) ? i == 1 : operand == again && op != usersOf(again, ops).front();
        if (found == operands.ofValue.end() || !isSecond)
          continue;
        const unsigned first = found->second;
        operands.ofSecond[{op, i}] = operands.tensors.size();
        operands.tensors.push_back(Value(operands.tensors[first]));
        operands.maps.push_back(AffineMap(operands.maps[first]));
      }
      // A dry run tells which lists of channel values the body reads.
      Block scratch;
      OpBuilder dry(builder.getContext());
      dry.setInsertionPointToEnd(&scratch);
      SmallVector<Scalar> inputs;
      for (Value operand : op->getOperands())
        inputs.push_back({scratch.addArgument(storageType(elementOf(operand)), loc), elementOf(operand)});
      emitScalar(
          dry, op, inputs,
          [&](DenseElementsAttr vector) -> Value {
            addVector(operands, loc, vector, axisOf(op), shape.size());
            return scratch.addArgument(vector.getElementType(), loc);
          },
          std::nullopt);
    }

    SmallVector<int64_t> merged = mergeDims(operands, loc, shape);
    operands.maps.push_back(builder.getMultiDimIdentityMap(merged.size()));
    auto body = [&](OpBuilder &inner, Location, ValueRange arguments) {
      IRMapping computed;
      for (Operation *op : ops) {
        if (Value first = firstOf(op->getResult(0), ops); first != op->getResult(0)) {
          computed.map(op->getResult(0), computed.lookup(first));
          continue;
        }
        SmallVector<Scalar> inputs;
        for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
          Value scalar; // none of what is read per channel
          if (auto second = operands.ofSecond.find({op, i}); second != operands.ofSecond.end())
            scalar = arguments[second->second];
          else if (computed.contains(operand))
            scalar = computed.lookup(operand);
          else if (auto found = operands.ofValue.find(operand); found != operands.ofValue.end())
            scalar = arguments[found->second];
          else if (!isReadPerChannel(op, i))
            scalar = oneNumber(inner, op->getLoc(), operand);
          inputs.push_back({scalar, elementOf(operand)});
        }
        auto clip = dyn_cast<ClipOp>(op);
        Operation *producer = clip ? clip.getX().getDefiningOp() : nullptr;
        if (producer && cluster.ops.contains(producer) && boundsAfter(producer)) {
          computed.map(op->getResult(0), inputs[0].value);
          continue;
        }
        auto perChannel = [&](DenseElementsAttr vector) -> Value {
          auto found = operands.ofVector.find({vector, axisOf(op)});
          if (found != operands.ofVector.end())
            return arguments[found->second];
          return inner.create<arith::ConstantOp>(op->getLoc(), cast<TypedAttr>(vector.getSplatValue<Attribute>()));
        };
        computed.map(op->getResult(0), emitScalar(inner, op, inputs, perChannel, boundsAfter(op)));
      }
      return computed.lookup(output->getResult(0));
    };
    Value result = generic(loc, operands.tensors, empty(loc, merged, elementOf(output->getResult(0))), operands.maps,
                           iterators(merged.size(), 0), body);
    return reshapeTensor(builder, loc, result, shape);
  }

  /// More dims than the machine walks, or needs: neighbours that every operand walks together, or not at all, become one. Returns the
  /// shape of the result.
  SmallVector<int64_t> mergeDims(Operands &operands, Location loc, ArrayRef<int64_t> shape) {
    if (shape.size() <= (isOneRun ? 1 : kMaxDims))
      return SmallVector<int64_t>(shape);
    auto walks = [&](AffineMap map, size_t d) { return shape[d] != 1 && map.isFunctionOfDim(d); };
    SmallVector<SmallVector<size_t>> groups;
    for (size_t d = 0; d < shape.size(); ++d) {
      bool joins = !groups.empty() && llvm::all_of(operands.maps, [&](AffineMap map) {
        return shape[d] == 1 || shape[groups.back().front()] == 1 || walks(map, d) == walks(map, groups.back().front());
      });
      if (!joins)
        groups.emplace_back();
      groups.back().push_back(d);
      // The first dim stands for its group: one that is not 1 says which operands walk it.
      if (shape[groups.back().front()] == 1)
        std::swap(groups.back().front(), groups.back().back());
    }
    SmallVector<int64_t> merged;
    for (ArrayRef<size_t> group : groups) {
      merged.push_back(1);
      for (size_t d : group)
        merged.back() *= shape[d];
    }
    for (auto [tensor, map] : llvm::zip(operands.tensors, operands.maps)) {
      SmallVector<int64_t> walked;
      SmallVector<AffineExpr> exprs;
      for (size_t i = 0; i < groups.size(); ++i)
        if (walks(map, groups[i].front())) {
          walked.push_back(merged[i]);
          exprs.push_back(dim(unsigned(i)));
        }
      tensor = reshapeTensor(builder, loc, tensor, walked);
      map = this->map(unsigned(merged.size()), exprs);
    }
    return merged;
  }

  /// Quantize or dequantize with an i32 tensor in between.
  FailureOr<Value> lowerInTwoBodies(Operation *op) {
    Location loc = op->getLoc();
    FailureOr<Value> x = lower(op->getOperand(0));
    if (failed(x))
      return failure();
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
    Type from = elementOf(op->getOperand(0)), to = elementOf(op->getResult(0));
    AffineMap all = builder.getMultiDimIdentityMap(shape.size()), channel = map(shape.size(), {dim(axisOf(op))});
    auto step = [&](Value input, DenseElementsAttr perChannel, Type result,
                    function_ref<Value(OpBuilder &, Scalar, const ChannelReader &)> emit, Type inputType) {
      SmallVector<Value> inputs{input};
      SmallVector<AffineMap> maps{all};
      if (!perChannel.isSplat()) {
        inputs.push_back(builder.create<arith::ConstantOp>(loc, perChannel));
        maps.push_back(channel);
      }
      maps.push_back(all);
      return generic(loc, inputs, empty(loc, shape, result), maps, iterators(shape.size(), 0),
                     [&](OpBuilder &inner, Location, ValueRange arguments) {
                       return emit(inner, {arguments[0], inputType}, [&](DenseElementsAttr vector) -> Value {
                         if (!vector.isSplat())
                           return arguments[1];
                         return inner.create<arith::ConstantOp>(loc, cast<TypedAttr>(vector.getSplatValue<Attribute>()));
                       });
                     });
    };
    Type i32 = builder.getI32Type();
    if (auto quantize = dyn_cast<QuantizeOp>(op)) {
      Value rounded = step(
          *x, scaleVector(quantize.getScales()), i32,
          [&](OpBuilder &b, Scalar v, const ChannelReader &read) { return emitRounded(b, quantize, v, read); }, from);
      return step(
          rounded, zeroPointVector(quantize.getZeroPoints()), to,
          [&](OpBuilder &b, Scalar v, const ChannelReader &read) {
            return emitShifted(b, quantize, v.value, read, std::nullopt);
          },
          i32);
    }
    auto dequantize = cast<DequantizeOp>(op);
    Value difference = step(
        *x, zeroPointVector(dequantize.getZeroPoints()), i32,
        [&](OpBuilder &b, Scalar v, const ChannelReader &read) { return emitDifference(b, dequantize, v, read); }, from);
    return step(
        difference, scaleVector(dequantize.getScales()), to,
        [&](OpBuilder &b, Scalar v, const ChannelReader &read) { return emitScaled(b, dequantize, v.value, read); }, i32);
  }

  DenseElementsAttr scaleVector(ArrayRef<float> scales) {
    return makeFloats(RankedTensorType::get({int64_t(scales.size())}, builder.getF32Type()), scales);
  }
  DenseElementsAttr zeroPointVector(ArrayRef<int32_t> zeroPoints) {
    std::vector<int64_t> wide(zeroPoints.begin(), zeroPoints.end());
    return makeIntegers(RankedTensorType::get({int64_t(wide.size())}, builder.getI32Type()), wide);
  }

  /// The one number of a constant, inside a body.
  Value oneNumber(OpBuilder &inner, Location loc, Value constant) {
    ElementsAttr elements = constantOf(constant);
    Type type = elements.getElementType();
    if (type.isF64()) {
      auto dense =
          isa<DenseElementsAttr>(elements) ? cast<DenseElementsAttr>(elements) : reshapeConstant(elements, shapeOf(constant));
      return inner.create<arith::ConstantOp>(loc, cast<TypedAttr>(*dense.getValues<Attribute>().begin()));
    }
    if (isa<FloatType>(type))
      return inner.create<arith::ConstantOp>(loc, inner.getFloatAttr(type, *splatFloat(constant)));
    int64_t value = readIntegers(elements).front();
    Type storage = storageType(type);
    return inner.create<arith::ConstantOp>(
        loc, inner.getIntegerAttr(storage, APInt(storage.getIntOrFloatBitWidth(), uint64_t(value))));
  }

  //===--------------------------------------------------------------------===//
  // Contractions
  //===--------------------------------------------------------------------===//

  /// acc + x * w, `zeroPoints` subtracted first where they are not 0; w's may be an argument.
  static Value multiplyAdd(OpBuilder &inner, Location loc, Scalar x, Scalar w, Value acc, int64_t xZeroPoint,
                           std::variant<int64_t, Value> wZeroPoint) {
    if (isa<FloatType>(x.type)) {
      Value product = inner.create<arith::MulFOp>(loc, toF32(inner, loc, x), toF32(inner, loc, w));
      return inner.create<arith::AddFOp>(loc, acc, product);
    }
    Value a = toI32(inner, loc, x), b = toI32(inner, loc, w);
    if (xZeroPoint != 0)
      a = inner.create<arith::SubIOp>(loc, a, integerConstant(inner, loc, xZeroPoint));
    if (Value *value = std::get_if<Value>(&wZeroPoint))
      b = inner.create<arith::SubIOp>(loc, b, *value);
    else if (int64_t number = std::get<int64_t>(wZeroPoint))
      b = inner.create<arith::SubIOp>(loc, b, integerConstant(inner, loc, number));
    return inner.create<arith::AddIOp>(loc, acc, inner.create<arith::MulIOp>(loc, a, b));
  }

  /// A zero point per output: a tensor operand.
  Value zeroPointTensor(Location loc, ArrayRef<int32_t> zeroPoints) {
    std::vector<int64_t> wide(zeroPoints.begin(), zeroPoints.end());
    auto type = RankedTensorType::get({int64_t(wide.size())}, builder.getI32Type());
    return builder.create<arith::ConstantOp>(loc, makeIntegers(type, wide));
  }

  template <typename OpT> FailureOr<Value> lowerConv(OpT op) {
    Location loc = op.getLoc();
    if (op.getLayout() != "nhwc")
      return op.emitOpError() << "has layout nchw, expected nhwc: run graph-convert-layout before";
    if constexpr (std::is_same_v<OpT, ConvOp>)
      if (op.getBias())
        return op.emitOpError() << "has a bias, expected an addition: run graph-decompose-ops before";
    FailureOr<Value> input = lower(op.getX()), weights = lower(op.getW());
    if (failed(input) || failed(weights))
      return failure();
    Type xType = elementOf(op.getX()), wType = elementOf(op.getW());
    int64_t xZeroPoint = 0;
    SmallVector<int32_t> wZeroPoints{0};
    if constexpr (std::is_same_v<OpT, ConvIntegerOp>) {
      xZeroPoint = op.getXZeroPoint();
      wZeroPoints.assign(op.getWZeroPoints().begin(), op.getWZeroPoints().end());
    }
    Value x = padImage(loc, *input, op.getPads(), padValue(xType, xZeroPoint));
    Value w = *weights;
    SmallVector<int64_t> out(shapeOf(op.getY()));
    int64_t channels = shapeOf(x)[3], outputs = out[3], groups = op.getGroup(), taps[2] = {shapeOf(w)[0], shapeOf(w)[1]};
    auto image = [&](unsigned position, unsigned tap, unsigned axis) {
      return dim(position) * op.getStrides()[axis] + dim(tap) * op.getDilations()[axis];
    };
    Value init;
    SmallVector<AffineMap> maps;
    SmallVector<utils::IteratorType> loops;
    AffineExpr zeroPointAt;
    // The vector engine keeps the weights of a depthwise convolution in an order of its own: they must be known.
    if (isDepthwise(op)) {
      // n, oh, ow, c, kh, kw
      w = reshapeWeights(loc, op.getW(), w, {taps[0], taps[1], channels});
      init = filled(loc, out, zero(xType));
      maps = {map(6, {dim(0), image(1, 4, 0), image(2, 5, 1), dim(3)}), map(6, {dim(4), dim(5), dim(3)}),
              map(6, {dim(0), dim(1), dim(2), dim(3)})};
      loops = iterators(4, 2);
      zeroPointAt = dim(3);
    } else if (groups > 1) {
      // n, oh, ow, g, oc, kh, kw, ic
      int64_t ic = channels / groups, oc = outputs / groups;
      x = reshapeTensor(builder, loc, x, {shapeOf(x)[0], shapeOf(x)[1], shapeOf(x)[2], groups, ic});
      w = groupWeights(loc, op.getW(), w, groups);
      init = filled(loc, {out[0], out[1], out[2], groups, oc}, zero(xType));
      maps = {map(8, {dim(0), image(1, 5, 0), image(2, 6, 1), dim(3), dim(7)}),
              map(8, {dim(5), dim(6), dim(3), dim(7), dim(4)}), map(8, {dim(0), dim(1), dim(2), dim(3), dim(4)})};
      loops = iterators(5, 3);
      if (wZeroPoints.size() > 1)
        return op.emitOpError() << "has groups and a zero point per output channel, expected one zero point";
    } else {
      // n, oh, ow, oc, kh, kw, ic
      init = filled(loc, out, zero(xType));
      maps = {map(7, {dim(0), image(1, 4, 0), image(2, 5, 1), dim(6)}), map(7, {dim(4), dim(5), dim(6), dim(3)}),
              map(7, {dim(0), dim(1), dim(2), dim(3)})};
      loops = iterators(4, 3);
      zeroPointAt = dim(3);
    }
    SmallVector<Value> inputs{x, w};
    if (wZeroPoints.size() > 1) {
      inputs.push_back(zeroPointTensor(loc, wZeroPoints));
      maps.insert(maps.begin() + 2, map(loops.size(), {zeroPointAt}));
    }
    Value y = generic(loc, inputs, init, maps, loops, [&](OpBuilder &inner, Location where, ValueRange arguments) {
      std::variant<int64_t, Value> wZeroPoint = int64_t(wZeroPoints[0]);
      if (wZeroPoints.size() > 1)
        wZeroPoint = arguments[2];
      return multiplyAdd(inner, where, {arguments[0], xType}, {arguments[1], wType}, arguments.back(), xZeroPoint, wZeroPoint);
    });
    return reshapeTensor(builder, loc, y, out);
  }

  Value reshapeWeights(Location loc, Value source, Value w, ArrayRef<int64_t> shape) {
    if (ElementsAttr elements = constantOf(source))
      return constantTensor(builder, loc, reshapeConstant(elements, shape));
    return reshapeTensor(builder, loc, w, shape);
  }

  /// [kh, kw, ic, groups * oc] -> [kh, kw, groups, ic, oc].
  Value groupWeights(Location loc, Value source, Value w, int64_t groups) {
    ArrayRef<int64_t> shape = shapeOf(w);
    SmallVector<int64_t> split{shape[0], shape[1], shape[2], groups, shape[3] / groups}, perm{0, 1, 3, 2, 4};
    if (ElementsAttr elements = constantOf(source))
      return constantTensor(builder, loc, transposeConstant(reshapeConstant(elements, split), perm));
    Value expanded = reshapeTensor(builder, loc, w, split);
    SmallVector<int64_t> grouped{split[0], split[1], split[3], split[2], split[4]};
    return builder.create<linalg::TransposeOp>(loc, expanded, empty(loc, grouped, elementOf(w)), perm)->getResult(0);
  }

  template <typename OpT> FailureOr<Value> lowerMatmul(OpT op) {
    Location loc = op.getLoc();
    FailureOr<Value> a = lower(op.getA()), b = lower(op.getB());
    if (failed(a) || failed(b))
      return failure();
    SmallVector<int64_t> out(shapeOf(op.getY()));
    ArrayRef<int64_t> aShape = shapeOf(*a), bShape = shapeOf(*b);
    if (aShape.size() < 2 || bShape.size() < 2)
      return op.emitOpError() << "has a vector operand, expected matrices: run graph-decompose-ops before";
    int64_t aZeroPoint = 0;
    SmallVector<int32_t> bZeroPoints{0};
    if constexpr (std::is_same_v<OpT, MatmulIntegerOp>) {
      aZeroPoint = op.getAZeroPoint();
      bZeroPoints.assign(op.getBZeroPoints().begin(), op.getBZeroPoints().end());
    }
    // batch..., m, n, k
    unsigned rank = out.size(), loops = rank + 1;
    auto operandMap = [&](ArrayRef<int64_t> shape, AffineExpr row, AffineExpr column) {
      SmallVector<AffineExpr> exprs;
      for (size_t i = 0; i + 2 < shape.size(); ++i) {
        size_t at = rank - shape.size() + i;
        exprs.push_back(shape[i] == 1 && out[at] != 1 ? builder.getAffineConstantExpr(0) : dim(at));
      }
      exprs.push_back(row);
      exprs.push_back(column);
      return map(loops, exprs);
    };
    SmallVector<AffineExpr> result;
    for (unsigned i = 0; i < rank; ++i)
      result.push_back(dim(i));
    SmallVector<AffineMap> maps{operandMap(aShape, dim(rank - 2), dim(rank)), operandMap(bShape, dim(rank), dim(rank - 1)),
                                map(loops, result)};
    SmallVector<Value> inputs{*a, *b};
    if (bZeroPoints.size() > 1) {
      inputs.push_back(zeroPointTensor(loc, bZeroPoints));
      maps.insert(maps.begin() + 2, map(loops, {dim(rank - 1)}));
    }
    Type aType = elementOf(op.getA()), bType = elementOf(op.getB());
    return generic(loc, inputs, filled(loc, out, zero(aType)), maps, iterators(rank, 1),
                   [&](OpBuilder &inner, Location where, ValueRange arguments) {
                     std::variant<int64_t, Value> bZeroPoint = int64_t(bZeroPoints[0]);
                     if (bZeroPoints.size() > 1)
                       bZeroPoint = arguments[2];
                     return multiplyAdd(inner, where, {arguments[0], aType}, {arguments[1], bType}, arguments.back(),
                                        aZeroPoint, bZeroPoint);
                   });
  }

  //===--------------------------------------------------------------------===//
  // Windows
  //===--------------------------------------------------------------------===//

  struct Window {
    SmallVector<int64_t> kernel, strides, dilations;
  };

  /// n, oh, ow, c, kh, kw over an NHWC tensor.
  Value slideWindow(Location loc, Value x, const Window &window, Value init, Body body) {
    auto image = [&](unsigned position, unsigned tap, unsigned axis) {
      return dim(position) * window.strides[axis] + dim(tap) * window.dilations[axis];
    };
    // The second input only gives the window's extents.
    Value shape = empty(loc, window.kernel, elementOf(x));
    SmallVector<AffineMap> maps{map(6, {dim(0), image(1, 4, 0), image(2, 5, 1), dim(3)}), map(6, {dim(4), dim(5)}),
                                map(6, {dim(0), dim(1), dim(2), dim(3)})};
    return generic(loc, {x, shape}, init, maps, iterators(4, 2), body);
  }

  /// The larger of two numbers of `type` in storage form.
  static Value maximum(OpBuilder &inner, Location loc, Type type, Value a, Value b) {
    if (isa<FloatType>(type))
      return inner.create<arith::MaximumFOp>(loc, a, b);
    if (type.isUnsignedInteger())
      return inner.create<arith::MaxUIOp>(loc, a, b);
    return inner.create<arith::MaxSIOp>(loc, a, b);
  }

  /// acc + x, in f32 or i32.
  static Value accumulate(OpBuilder &inner, Location loc, Scalar x, Value acc, int64_t zeroPoint = 0) {
    if (isa<FloatType>(x.type))
      return inner.create<arith::AddFOp>(loc, acc, toF32(inner, loc, x));
    Value term = toI32(inner, loc, x);
    if (zeroPoint != 0)
      term = inner.create<arith::SubIOp>(loc, term, integerConstant(inner, loc, zeroPoint));
    return inner.create<arith::AddIOp>(loc, acc, term);
  }

  LogicalResult expectNhwc(Operation *op, StringRef layout) {
    if (layout == "nhwc")
      return success();
    return op->emitOpError() << "has layout nchw, expected nhwc: run graph-convert-layout before";
  }

  FailureOr<Value> lowerMaxPool(MaxPoolOp op) {
    Location loc = op.getLoc();
    FailureOr<Value> x = lower(op.getX());
    if (failed(x) || failed(expectNhwc(op, op.getLayout())))
      return failure();
    Type type = elementOf(op.getX());
    Value padded = padImage(loc, *x, op.getPads(), least(type));
    Window window{SmallVector<int64_t>(op.getKernel()), SmallVector<int64_t>(op.getStrides()),
                  SmallVector<int64_t>(op.getDilations())};
    return slideWindow(loc, padded, window, filled(loc, shapeOf(op.getY()), least(type)),
                       [&](OpBuilder &inner, Location where, ValueRange arguments) {
                         return maximum(inner, where, type, arguments.back(), arguments[0]);
                       });
  }

  /// The positions inside the image under each window, [oh, ow].
  static std::vector<float> countPositions(AveragePoolOp op) {
    ArrayRef<int64_t> x = shapeOf(op.getX()), y = shapeOf(op.getY());
    auto inside = [&](int64_t at, unsigned axis) {
      int64_t first = at * op.getStrides()[axis] - op.getPads()[axis], end = first + op.getKernel()[axis];
      return std::min(end, x[1 + axis]) - std::max<int64_t>(first, 0);
    };
    std::vector<float> counts;
    for (int64_t h = 0; h < y[1]; ++h)
      for (int64_t w = 0; w < y[2]; ++w)
        counts.push_back(op.getCountIncludePad()
                             ? float(op.getKernel()[0] * op.getKernel()[1])
                             : float(std::max<int64_t>(inside(h, 0), 0) * std::max<int64_t>(inside(w, 1), 0)));
    return counts;
  }

  FailureOr<Value> lowerAveragePool(AveragePoolOp op) {
    Location loc = op.getLoc();
    FailureOr<Value> x = lower(op.getX());
    if (failed(x) || failed(expectNhwc(op, op.getLayout())))
      return failure();
    Type type = elementOf(op.getX());
    SmallVector<int64_t> out(shapeOf(op.getY()));
    Value padded = padImage(loc, *x, op.getPads(), padValue(type, 0));
    Window window{SmallVector<int64_t>(op.getKernel()), SmallVector<int64_t>(op.getStrides()), {1, 1}};
    Value sum = slideWindow(loc, padded, window, filled(loc, out, builder.getF32FloatAttr(0)),
                            [&](OpBuilder &inner, Location where, ValueRange arguments) {
                              return accumulate(inner, where, {arguments[0], type}, arguments.back());
                            });
    return divide(loc, sum, countPositions(op), out);
  }

  /// sum / counts, [oh, ow] or one number.
  Value divide(Location loc, Value sum, ArrayRef<float> counts, ArrayRef<int64_t> out) {
    AffineMap identity = builder.getMultiDimIdentityMap(out.size());
    SmallVector<Value> inputs{sum};
    SmallVector<AffineMap> maps{identity};
    bool equal = llvm::all_equal(counts);
    if (!equal) {
      auto type = RankedTensorType::get({out[1], out[2]}, builder.getF32Type());
      inputs.push_back(builder.create<arith::ConstantOp>(loc, makeFloats(type, counts)));
      maps.push_back(map(4, {dim(1), dim(2)}));
    }
    maps.push_back(identity);
    return generic(loc, inputs, empty(loc, out, builder.getF32Type()), maps, iterators(out.size(), 0),
                   [&](OpBuilder &inner, Location where, ValueRange arguments) -> Value {
                     Value count = equal ? floatConstant(inner, where, counts.front()) : arguments[1];
                     return inner.create<arith::DivFOp>(where, arguments[0], count);
                   });
  }

  FailureOr<Value> lowerGlobalAverage(QLinearGlobalAveragePoolOp op) {
    Location loc = op.getLoc();
    FailureOr<Value> x = lower(op.getX());
    if (failed(x) || failed(expectNhwc(op, op.getLayout())))
      return failure();
    Type type = elementOf(op.getX());
    ArrayRef<int64_t> image = shapeOf(*x);
    SmallVector<int64_t> out(shapeOf(op.getY()));
    Window window{{image[1], image[2]}, {1, 1}, {1, 1}};
    Value sum =
        slideWindow(loc, *x, window, filled(loc, out, builder.getI32IntegerAttr(0)),
                    [&](OpBuilder &inner, Location where, ValueRange arguments) {
                      return accumulate(inner, where, {arguments[0], type}, arguments.back(), int32_t(op.getXZeroPoint()));
                    });
    float multiplier = op.getXScale().convertToFloat() / (op.getYScale().convertToFloat() * float(image[1] * image[2]));
    AffineMap identity = builder.getMultiDimIdentityMap(4);
    return generic(loc, {sum}, empty(loc, out, type), {identity, identity}, iterators(4, 0),
                   [&](OpBuilder &inner, Location where, ValueRange arguments) {
                     Value y = inner.create<arith::SIToFPOp>(where, inner.getF32Type(), arguments[0]);
                     y = inner.create<arith::MulFOp>(where, y, floatConstant(inner, where, multiplier));
                     return saturate(inner, where, y, type, int32_t(op.getYZeroPoint()));
                   });
  }

  //===--------------------------------------------------------------------===//
  // Reductions
  //===--------------------------------------------------------------------===//

  AffineMap everyRow(unsigned rank) { return builder.getMultiDimIdentityMap(rank).dropResult(rank - 1); }

  /// Over the last dim: one number per row.
  Value reduceRows(Location loc, Value x, TypedAttr initial, Body body) {
    ArrayRef<int64_t> shape = shapeOf(x);
    const unsigned rank = unsigned(shape.size());
    return generic(loc, {x}, filled(loc, shape.drop_back(), initial), {builder.getMultiDimIdentityMap(rank), everyRow(rank)},
                   iterators(rank - 1, 1), body);
  }

  FailureOr<Value> lowerReduce(ReduceOp op) {
    Location loc = op.getLoc();
    FailureOr<Value> input = lower(op.getX());
    if (failed(input))
      return failure();
    Value x = *input;
    SmallVector<int64_t> shape(shapeOf(x));
    if (op.getKeepdims() || op.getAxes() != ArrayRef<int64_t>{1} || shape.size() < 2 || shape.size() > 3)
      return op.emitOpError() << "is not over dim 1 of a matrix or [outer, n, inner]: run graph-decompose-ops before";
    Type type = elementOf(op.getX());
    bool isMax = op.getKind() == "max", isFloat = isa<FloatType>(type);
    if (!isFloat && !isMax && !type.isInteger(32))
      return op.emitOpError() << "sums elements of " << type << ", expected f32, bf16 or i32";
    // bf16 is read as f32, also for a maximum: the kernel's cast to bf16 comes at its end.
    Type wide = isFloat ? builder.getF32Type() : type;
    TypedAttr initial = isMax ? least(wide) : zero(type);
    auto body = [&](OpBuilder &inner, Location where, ValueRange arguments) {
      if (isMax)
        return maximum(inner, where, type, arguments.back(),
                       isFloat ? toF32(inner, where, {arguments[0], type}) : Value(arguments[0]));
      return accumulate(inner, where, {arguments[0], type}, arguments.back());
    };
    Value y;
    if (shape.size() == 2) {
      y = reduceRows(loc, x, initial, body);
    } else {
      // Windows over dim 1, the inner dim being the channels; outer is a row of positions, as it is for the ops that
      // follow.
      x = reshapeTensor(builder, loc, x, {1, 1, shape[0] * shape[1], shape[2]});
      Window window{{1, shape[1]}, {1, shape[1]}, {1, 1}};
      y = slideWindow(loc, x, window, filled(loc, {1, 1, shape[0], shape[2]}, initial), body);
      y = reshapeTensor(builder, loc, y, {shape[0], shape[2]});
    }
    if (op.getKind() == "mean") {
      SmallVector<int64_t> out(shapeOf(y));
      if (!isFloat) {
        AffineMap identity = builder.getMultiDimIdentityMap(out.size());
        return generic(loc, {y}, empty(loc, out, type), {identity, identity}, iterators(out.size(), 0),
                       [&](OpBuilder &inner, Location where, ValueRange arguments) -> Value {
                         return inner.create<arith::DivSIOp>(where, arguments[0], integerConstant(inner, where, shape[1]));
                       });
      }
      y = divide(loc, y, {float(shape[1])}, out);
    }
    return y;
  }

  FailureOr<Value> lowerLayerNorm(LayerNormOp op) {
    Location loc = op.getLoc();
    FailureOr<Value> input = lower(op.getX());
    if (failed(input))
      return failure();
    Value x = *input;
    SmallVector<int64_t> shape(shapeOf(x));
    if (shape.size() != 2 || op.getAxis() != 1)
      return op.emitOpError() << "is not of the rows of a matrix: run graph-decompose-ops before";
    Type type = elementOf(op.getX());
    AffineMap all = map(2, {dim(0), dim(1)}), row = map(2, {dim(0)});
    auto sumRows = [&](Value rows, Type element) {
      return reduceRows(loc, rows, builder.getF32FloatAttr(0), [&](OpBuilder &inner, Location where, ValueRange arguments) {
        return accumulate(inner, where, {arguments[0], element}, arguments.back());
      });
    };
    auto mean = [&](OpBuilder &inner, Location where, Value sum) -> Value {
      return inner.create<arith::DivFOp>(where, sum, floatConstant(inner, where, float(shape[1])));
    };
    auto elementwise = [&](ValueRange inputs, ArrayRef<AffineMap> maps, Body body) {
      return generic(loc, inputs, empty(loc, shape, builder.getF32Type()), maps, iterators(2, 0), body);
    };
    Value centred = elementwise({x, sumRows(x, type)}, {all, row, all},
                                [&](OpBuilder &inner, Location where, ValueRange arguments) -> Value {
                                  return inner.create<arith::SubFOp>(where, toF32(inner, where, {arguments[0], type}),
                                                                     mean(inner, where, arguments[1]));
                                });
    Value squares = elementwise({centred}, {all, all}, [&](OpBuilder &inner, Location where, ValueRange arguments) -> Value {
      return inner.create<arith::MulFOp>(where, arguments[0], arguments[0]);
    });
    Value sum = sumRows(squares, builder.getF32Type());
    return elementwise({centred, sum}, {all, row, all}, [&](OpBuilder &inner, Location where, ValueRange arguments) -> Value {
      Value variance = mean(inner, where, arguments[1]);
      Value epsilon = floatConstant(inner, where, op.getEpsilon().convertToFloat());
      Value deviation = inner.create<math::SqrtOp>(where, inner.create<arith::AddFOp>(where, variance, epsilon));
      return inner.create<arith::DivFOp>(where, arguments[0], deviation);
    });
  }

  FailureOr<Value> lowerSoftmax(SoftmaxOp op) {
    Location loc = op.getLoc();
    FailureOr<Value> input = lower(op.getX());
    if (failed(input))
      return failure();
    Value x = *input;
    SmallVector<int64_t> shape(shapeOf(x));
    const unsigned rank = unsigned(shape.size());
    if (rank < 2 || rank > 3 || op.getAxis() != rank - 1)
      return op.emitOpError() << "is not along the rows of matrices: run graph-decompose-ops before";
    Type type = elementOf(op.getX());
    AffineMap all = builder.getMultiDimIdentityMap(rank), row = everyRow(rank);
    FloatAttr lowest = builder.getFloatAttr(builder.getF32Type(), APFloat::getInf(APFloat::IEEEsingle(), true));
    Value most = reduceRows(loc, x, lowest, [&](OpBuilder &inner, Location where, ValueRange arguments) -> Value {
      return inner.create<arith::MaximumFOp>(where, arguments.back(), toF32(inner, where, {arguments[0], type}));
    });
    Value exponentials =
        generic(loc, {x, most}, empty(loc, shape, builder.getF32Type()), {all, row, all}, iterators(rank, 0),
                [&](OpBuilder &inner, Location where, ValueRange arguments) -> Value {
                  Value wide = toF32(inner, where, {arguments[0], type});
                  return inner.create<math::ExpOp>(where, inner.create<arith::SubFOp>(where, wide, arguments[1]));
                });
    Value sum = reduceRows(loc, exponentials, builder.getF32FloatAttr(0),
                           [&](OpBuilder &inner, Location where, ValueRange arguments) -> Value {
                             return inner.create<arith::AddFOp>(where, arguments.back(), arguments[0]);
                           });
    return generic(loc, {exponentials, sum}, empty(loc, shape, builder.getF32Type()), {all, row, all}, iterators(rank, 0),
                   [&](OpBuilder &inner, Location where, ValueRange arguments) -> Value {
                     return inner.create<arith::DivFOp>(where, arguments[0], arguments[1]);
                   });
  }

  //===--------------------------------------------------------------------===//
  // Data movement
  //===--------------------------------------------------------------------===//

  FailureOr<Value> lowerSlice(SliceOp op) {
    Location loc = op.getLoc();
    FailureOr<Value> x = lower(op.getX());
    if (failed(x))
      return failure();
    ArrayRef<int64_t> shape = shapeOf(op.getY());
    if (llvm::all_of(op.getSteps(), [](int64_t step) { return step > 0; })) {
      auto indices = [&](ArrayRef<int64_t> amounts) { return getAsIndexOpFoldResult(builder.getContext(), amounts); };
      return builder.create<tensor::ExtractSliceOp>(loc, *x, indices(op.getStarts()), indices(shape), indices(op.getSteps()))
          .getResult();
    }
    // Backwards: a copy whose map runs down. It reads from the window of x that the slice touches.
    SmallVector<int64_t> low, size;
    SmallVector<AffineExpr> exprs;
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t start = op.getStarts()[i], step = op.getSteps()[i], last = start + std::max<int64_t>(shape[i] - 1, 0) * step;
      low.push_back(std::min(start, last));
      size.push_back(std::abs(last - start) + 1);
      exprs.push_back(dim(i) * step + (start - low.back()));
    }
    auto indices = [&](ArrayRef<int64_t> amounts) { return getAsIndexOpFoldResult(builder.getContext(), amounts); };
    SmallVector<int64_t> ones(shape.size(), 1);
    Value touched = *x;
    if (ArrayRef<int64_t>(size) != shapeOf(*x))
      touched = builder.create<tensor::ExtractSliceOp>(loc, *x, indices(low), indices(size), indices(ones));
    return generic(loc, {touched}, empty(loc, shape, elementOf(op.getY())),
                   {map(shape.size(), exprs), builder.getMultiDimIdentityMap(shape.size())}, iterators(shape.size(), 0),
                   [](OpBuilder &, Location, ValueRange arguments) { return arguments[0]; });
  }

  /// What `x` is by transposes, and by reshapes that add or drop dims of 1. `dims` gets for each dim of it that is not 1 that of `x`.
  static Value transposedFrom(Value x, SmallVector<int64_t> &dims) {
    auto areNotOne = [](Value value) {
      SmallVector<int64_t> dims;
      for (auto [i, size] : llvm::enumerate(shapeOf(value)))
        if (size != 1)
          dims.push_back(int64_t(i));
      return dims;
    };
    dims = areNotOne(x);
    while (true) {
      if (auto transpose = x.getDefiningOp<TransposeOp>()) {
        SmallVector<std::pair<int64_t, int64_t>> from; // dim before it, dim of the first x
        for (auto [dim, made] : llvm::zip(dims, areNotOne(x)))
          from.push_back({transpose.getPerm()[size_t(made)], dim});
        llvm::sort(from);
        dims = llvm::to_vector(llvm::make_second_range(from));
        x = transpose.getX();
        continue;
      }
      auto reshape = x.getDefiningOp<ReshapeOp>();
      auto sizes = [&](Value value) {
        return llvm::to_vector(llvm::map_range(areNotOne(value), [&](int64_t dim) { return shapeOf(value)[size_t(dim)]; }));
      };
      if (!reshape || sizes(reshape.getX()) != sizes(reshape))
        return x;
      x = reshape.getX();
    }
  }

  FailureOr<Value> lowerGather(GatherOp op) {
    Location loc = op.getLoc();
    SmallVector<int64_t> dims;
    const Value source = transposedFrom(op.getX(), dims);
    const bool isView = source != op.getX() && !dims.empty();
    FailureOr<Value> x = lower(isView ? source : op.getX()), indices = lower(op.getIndices());
    if (failed(x) || failed(indices))
      return failure();
    if (isView) {
      SmallVector<int64_t> sizes;
      for (int64_t dim : dims)
        sizes.push_back(shapeOf(op.getX())[size_t(dim)]);
      *x = reshapeTensor(builder, loc, *x, sizes);
    }
    ArrayRef<int64_t> shape = shapeOf(op.getY());
    const int64_t extent = shapeOf(op.getX())[1];
    if (auto argument = dyn_cast<BlockArgument>(op.getIndices()))
      kernel.setArgAttr(argument.getArgNumber(), kIndexExtentAttr, builder.getI64IntegerAttr(extent));
    return generic(loc, {*indices}, empty(loc, shape, elementOf(op.getY())),
                   {broadcastMap(shapeOf(op.getIndices()), shape), builder.getMultiDimIdentityMap(3)}, iterators(3, 0),
                   [&](OpBuilder &inner, Location where, ValueRange arguments) -> Value {
                     auto constant = [&](int64_t value) { return integerConstant(inner, where, value, 64); };
                     Value place = arguments[0];
                     if (!place.getType().isInteger(64))
                       place = inner.create<arith::ExtSIOp>(where, inner.getI64Type(), place);
                     Value isNegative = inner.create<arith::CmpIOp>(where, arith::CmpIPredicate::slt, place, constant(0));
                     Value fromEnd = inner.create<arith::AddIOp>(where, place, constant(extent));
                     place = inner.create<arith::SelectOp>(where, isNegative, fromEnd, place);
                     place = inner.create<arith::MaxSIOp>(where, place, constant(0));
                     place = inner.create<arith::MinSIOp>(where, place, constant(extent - 1));
                     Value index = inner.create<arith::IndexCastOp>(where, inner.getIndexType(), place);
                     Value outer = inner.create<linalg::IndexOp>(where, 0), last = inner.create<linalg::IndexOp>(where, 2);
                     const Value places[] = {outer, index, last};
                     SmallVector<Value> walked(places, places + 3);
                     if (isView)
                       walked = llvm::to_vector(llvm::map_range(dims, [&](int64_t dim) { return places[dim]; }));
                     return inner.create<tensor::ExtractOp>(where, *x, walked);
                   });
  }

  FailureOr<Value> lowerPad(PadOp op) {
    Location loc = op.getLoc();
    FailureOr<Value> input = lower(op.getX());
    if (failed(input))
      return failure();
    auto value = cast<TypedAttr>(op.getValue());
    if (auto integer = dyn_cast<IntegerAttr>(value))
      value = builder.getIntegerAttr(storageType(integer.getType()), integer.getValue());
    return padTensor(loc, *input, op.getLow(), op.getHigh(), value);
  }
};

//===----------------------------------------------------------------------===//
// @main
//===----------------------------------------------------------------------===//

LogicalResult lowerMain(func::FuncOp main) {
  Block &block = main.getBody().front();
  OpBuilder builder(main.getContext());
  auto mark = [&](Type type) { return cast<RankedTensorType>(type).getElementType().isUnsignedInteger(); };
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (mark(main.getArgument(i).getType()))
      main.setArgAttr(i, kUnsignedAttr, builder.getUnitAttr());
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    if (mark(main.getResultTypes()[i]))
      main.setResultAttr(i, kUnsignedAttr, builder.getUnitAttr());
  for (BlockArgument argument : block.getArguments())
    argument.setType(storageTensor(argument.getType()));
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    builder.setInsertionPoint(&op);
    if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      reshape.replaceAllUsesWith(reshapeTensor(builder, op.getLoc(), reshape.getX(), shapeOf(reshape)));
      op.erase();
    } else if (auto constant = dyn_cast<ConstantOp>(op)) {
      constant.replaceAllUsesWith(constantTensor(builder, op.getLoc(), constant.getValue()));
      op.erase();
    } else if (isa<func::CallOp>(op)) {
      for (Value result : op.getResults())
        result.setType(storageTensor(result.getType()));
    } else {
      return op.emitOpError() << "stands outside a kernel: run graph-partition-kernels before";
    }
  }
  main.setType(builder.getFunctionType(block.getArgumentTypes(), block.getTerminator()->getOperandTypes()));
  return success();
}

/// A kernel that the host computes: its types are those of its callers.
void lowerEvaluated(func::FuncOp kernel) {
  Block &block = kernel.getBody().front();
  OpBuilder builder(kernel.getContext());
  for (BlockArgument argument : block.getArguments())
    argument.setType(storageTensor(argument.getType()));
  for (auto fallback : block.getOps<FallbackOp>())
    for (Value result : fallback.getResults())
      result.setType(storageTensor(result.getType()));
  kernel.setType(builder.getFunctionType(block.getArgumentTypes(), block.getTerminator()->getOperandTypes()));
  kernel->setAttr(kEvaluatedAttr, builder.getUnitAttr());
}

struct LowerGraphPass : impl::LowerGraphPassBase<LowerGraphPass> {
  void runOnOperation() override {
    if (std::vector<UnsupportedNode> nodes = findUnsupported(getOperation()); !nodes.empty()) {
      emitError(UnknownLoc::get(&getContext())) << describeUnsupported(nodes);
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal() || !llvm::hasSingleElement(function.getBody()))
        continue;
      if (function.isPrivate() && !function.getOps<FallbackOp>().empty()) {
        lowerEvaluated(function);
        continue;
      }
      if (failed(function.isPrivate() ? lowerKernel(function) : lowerMain(function)))
        return signalPassFailure();
    }
  }
};

} // namespace

LogicalResult lowerKernel(func::FuncOp kernel) { return KernelLowering(kernel).run(); }

namespace {
#define GEN_PASS_REGISTRATION
#include "compiler/loops/Passes.h.inc"
} // namespace

void registerLoopPasses() { registerLoopsPasses(); }

} // namespace tw::loops
