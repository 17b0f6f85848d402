//===- ChannelOrders.cpp - Channel shuffles without movement --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/ChannelOrders.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tw::graph {
namespace {

/// Channel j as it lies is channel order[j] of the value.
using Order = SmallVector<int64_t>;
using Shuffles = llvm::SmallSetVector<Operation *, 4>;

/// A slice takes at most so many runs of neighbouring channels.
constexpr size_t kMostRuns = 32;

bool isIdentity(ArrayRef<int64_t> order) { return llvm::is_sorted(order); }

int64_t channelCount(Value value) { return shapeOf(value).empty() ? 1 : shapeOf(value).back(); }

/// Where `op` ends a shuffle: what it shuffles, and for each channel of the result that of the source.
struct Shuffle {
  Value source;
  Order from;
};

std::optional<Shuffle> shuffleAt(Operation *op) {
  if (auto slice = dyn_cast<SliceOp>(op)) { // all channels backwards
    const size_t last = slice.getSteps().size() - 1;
    if (slice.getSteps().empty() || slice.getSteps()[last] != -1 || slice.getType() != slice.getX().getType())
      return std::nullopt;
    for (size_t dim = 0; dim < last; ++dim)
      if (slice.getSteps()[dim] != 1)
        return std::nullopt;
    Shuffle shuffle{slice.getX(), {}};
    for (int64_t i = channelCount(slice); i-- > 0;)
      shuffle.from.push_back(i);
    return shuffle;
  }
  auto merge = dyn_cast<ReshapeOp>(op);
  auto transpose = merge ? merge.getX().getDefiningOp<TransposeOp>() : TransposeOp();
  auto split = transpose ? transpose.getX().getDefiningOp<ReshapeOp>() : ReshapeOp();
  if (!split || shapeOf(split.getX()) != shapeOf(merge) || shapeOf(merge).empty())
    return std::nullopt;
  const size_t kept = shapeOf(merge).size() - 1;
  ArrayRef<int64_t> parts = shapeOf(split), perm = transpose.getPerm();
  if (parts.size() < kept + 1 || parts.take_front(kept) != shapeOf(merge).take_front(kept))
    return std::nullopt;
  for (size_t dim = 0; dim < kept; ++dim)
    if (perm[dim] != int64_t(dim))
      return std::nullopt;
  const SmallVector<int64_t> strides = rowMajorStrides(parts);
  ArrayRef<int64_t> sizes = shapeOf(transpose);
  Shuffle shuffle{split.getX(), {}};
  for (int64_t channel = 0; channel < channelCount(merge); ++channel) {
    int64_t rest = channel, source = 0;
    for (size_t dim = perm.size(); dim-- > kept;) {
      source += rest % sizes[dim] * strides[size_t(perm[dim])];
      rest /= sizes[dim];
    }
    shuffle.from.push_back(source);
  }
  return shuffle;
}

/// The elements of a constant whose index along `dim` is order[i], for each i.
DenseElementsAttr reorder(ElementsAttr elements, size_t dim, ArrayRef<int64_t> order) {
  auto type = cast<RankedTensorType>(elements.getType());
  SmallVector<Attribute> values;
  ArrayRef<int64_t> shape = type.getShape();
  int64_t inner = 1;
  for (int64_t size : shape.drop_front(dim + 1))
    inner *= size;
  const int64_t count = shape[dim], outer = type.getNumElements() / (inner * count);
  auto move = [&](auto read, auto make) {
    auto from = read(elements);
    decltype(from) to(from.size());
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < count; ++i)
        for (int64_t k = 0; k < inner; ++k)
          to[size_t((o * count + i) * inner + k)] = from[size_t((o * count + order[size_t(i)]) * inner + k)];
    return make(type, to);
  };
  if (isa<FloatType>(type.getElementType()))
    return move(readFloats, [](RankedTensorType t, ArrayRef<float> v) { return makeFloats(t, v); });
  return move(readIntegers, [](RankedTensorType t, ArrayRef<int64_t> v) { return makeIntegers(t, v); });
}

template <typename T> SmallVector<T> reorder(ArrayRef<T> values, ArrayRef<int64_t> order) {
  SmallVector<T> result;
  for (int64_t i : order)
    result.push_back(values[size_t(i)]);
  return result;
}

class ChannelOrders {
public:
  explicit ChannelOrders(Block &body) : body(body) {}

  void run() {
    for (Operation &op : body)
      if (shuffleAt(&op))
        open.insert(&op);
    // What does not end in weights stays: each round without the shuffles that led somewhere else.
    while (!open.empty() && !follow())
      ;
    if (!open.empty())
      rewrite();
  }

private:
  Block &body;
  llvm::SetVector<Operation *> open; ///< shuffles to be taken out
  DenseMap<Value, Order> orders;     ///< of values that lie in another order than their own
  DenseMap<Value, Shuffles> causes;
  DenseMap<Value, Value> stored;

  const Order *orderOf(Value value) const {
    auto found = orders.find(value);
    return found == orders.end() ? nullptr : &found->second;
  }

  //===--------------------------------------------------------------------===//
  // Which order follows
  //===--------------------------------------------------------------------===//

  /// Finds the orders of all values. False if some reached an op that cannot take them: the shuffles behind these are no longer open.
  bool follow() {
    orders.clear();
    causes.clear();
    Shuffles blocked;
    for (Operation &op : body) {
      Shuffles from;
      for (Value operand : op.getOperands())
        if (orderOf(operand))
          from.insert(causes[operand].begin(), causes[operand].end());
      const bool isShuffle = open.contains(&op);
      if (from.empty() && !isShuffle)
        continue;
      if (isShuffle)
        from.insert(&op);
      std::optional<Order> order = isShuffle ? behindShuffle(&op) : isInsideShuffle(&op) ? Order() : behind(&op);
      if (!order) {
        blocked.insert(from.begin(), from.end());
      } else if (!isIdentity(*order)) {
        orders[op.getResult(0)] = *order;
        causes[op.getResult(0)] = from;
      }
    }
    for (Operation *op : blocked)
      open.remove(op);
    return blocked.empty();
  }

  /// Whether all that is made of `op` is a part of shuffles that go.
  bool isInsideShuffle(Operation *op) const {
    return isa<ReshapeOp, TransposeOp>(op) && !op->use_empty() && llvm::all_of(op->getUsers(), [&](Operation *user) {
             return (open.contains(user) && isa<ReshapeOp>(user)) ||
                    (isa<TransposeOp>(user) && isa<ReshapeOp>(op) && isInsideShuffle(user));
           });
  }

  std::optional<Order> behindShuffle(Operation *op) const {
    const Shuffle shuffle = *shuffleAt(op);
    const Order inverse = inversePermutation(shuffle.from);
    if (const Order *order = orderOf(shuffle.source))
      return reorder<int64_t>(inverse, *order);
    return inverse;
  }

  /// The order of the result; the own one where the op takes its operands' order away, and nothing where it cannot.
  std::optional<Order> behind(Operation *op) const {
    if (isElementwise(op))
      return behindElementwise(op);
    if (isa<ConvOp>(op))
      return behindConv(cast<ConvOp>(op));
    if (isa<ConvIntegerOp>(op))
      return behindConv(cast<ConvIntegerOp>(op));
    if (isa<MatmulOp, MatmulIntegerOp>(op)) {
      Value b = op->getOperand(1);
      return constantOf(b) && shapeOf(b).size() == 2 ? std::optional(Order()) : std::nullopt;
    }
    if (auto concat = dyn_cast<ConcatOp>(op))
      return behindConcat(concat);
    const Order *order = op->getNumOperands() > 0 ? orderOf(op->getOperand(0)) : nullptr;
    if (!order || op->getNumOperands() != 1)
      return std::nullopt;
    if (auto slice = dyn_cast<SliceOp>(op))
      return behindSlice(slice);
    if (auto layout = op->getAttrOfType<StringAttr>("layout")) // a pool
      return layout.getValue() == "nhwc" ? std::optional(*order) : std::nullopt;
    if (auto pad = dyn_cast<PadOp>(op))
      return pad.getLow().back() == 0 && pad.getHigh().back() == 0 ? std::optional(*order) : std::nullopt;
    if (auto transpose = dyn_cast<TransposeOp>(op))
      return transpose.getPerm().back() + 1 == int64_t(transpose.getPerm().size()) ? std::optional(*order) : std::nullopt;
    if (isa<ReshapeOp>(op) && !shapeOf(op->getResult(0)).empty() && shapeOf(op->getResult(0)).back() == int64_t(order->size()))
      return *order;
    return std::nullopt;
  }

  std::optional<Order> behindElementwise(Operation *op) const {
    const int64_t channels = channelCount(op->getResult(0));
    const Order *order = nullptr;
    for (Value operand : op->getOperands()) {
      if (constantOf(operand) || channelCount(operand) != channels)
        continue; // follows, or is broadcast
      const Order *other = orderOf(operand);
      if (!other || (order && *order != *other))
        return std::nullopt;
      order = other;
    }
    return order && int64_t(order->size()) == channels ? std::optional(*order) : std::nullopt;
  }

  template <typename ConvT> std::optional<Order> behindConv(ConvT op) const {
    const Order *order = orderOf(op.getX());
    if (!order || op.getLayout() != "nhwc" || !constantOf(op.getW()))
      return std::nullopt;
    if (op.getGroup() == 1)
      return Order();
    const bool followsChannels = isDepthwise(op) && (op->getNumOperands() < 3 || constantOf(op->getOperand(2)));
    return followsChannels ? std::optional(*order) : std::nullopt;
  }

  std::optional<Order> behindConcat(ConcatOp op) const {
    const bool ofChannels = op.getAxis() + 1 == shapeOf(op).size();
    Order order;
    for (Value input : op.getInputs()) {
      const Order *part = orderOf(input);
      if (!ofChannels) {
        if (!part || (!order.empty() && order != *part))
          return std::nullopt;
        order = *part;
        continue;
      }
      const auto offset = int64_t(order.size());
      for (int64_t i = 0; i < channelCount(input); ++i)
        order.push_back(offset + (part ? (*part)[size_t(i)] : i));
    }
    return order;
  }

  /// Where the channels of a slice lie, ascending.
  SmallVector<int64_t> positionsOf(SliceOp op) const {
    const int64_t start = op.getStarts().back(), step = op.getSteps().back();
    const Order inverse = inversePermutation(*orderOf(op.getX()));
    SmallVector<int64_t> positions;
    for (int64_t i = 0; i < channelCount(op); ++i)
      positions.push_back(inverse[size_t(start + i * step)]);
    llvm::sort(positions);
    return positions;
  }

  std::optional<Order> behindSlice(SliceOp op) const {
    const int64_t start = op.getStarts().back(), step = op.getSteps().back();
    const SmallVector<int64_t> positions = positionsOf(op);
    Order order;
    size_t runs = 0;
    for (auto [i, position] : llvm::enumerate(positions)) {
      runs += i == 0 || position != positions[i - 1] + 1;
      order.push_back(((*orderOf(op.getX()))[size_t(position)] - start) / step);
    }
    return runs <= kMostRuns ? std::optional(order) : std::nullopt;
  }

  //===--------------------------------------------------------------------===//
  // Rewriting
  //===--------------------------------------------------------------------===//

  Value storedOf(Value value) const {
    Value found = stored.lookup(value);
    return found ? found : value;
  }

  void rewrite() {
    for (Operation &op : llvm::make_early_inc_range(body)) {
      OpBuilder builder(&op);
      if (open.contains(&op)) {
        stored[op.getResult(0)] = storedOf(shuffleAt(&op)->source);
      } else if (isInsideShuffle(&op)) {
        continue;
      } else if (llvm::none_of(op.getOperands(), [&](Value operand) { return orderOf(operand); })) {
        for (OpOperand &operand : op.getOpOperands())
          operand.set(storedOf(operand.get()));
      } else if (auto slice = dyn_cast<SliceOp>(op)) {
        stored[slice] = sliceRuns(builder, slice);
      } else {
        stored[op.getResult(0)] = cloneReordered(builder, &op);
      }
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (op.use_empty() && op.getNumResults() == 1 && isa<GraphDialect>(op.getDialect()))
        op.erase();
  }

  Value sliceRuns(OpBuilder &builder, SliceOp op) {
    const SmallVector<int64_t> positions = positionsOf(op);
    Value x = storedOf(op.getX());
    SmallVector<Value> parts;
    for (size_t i = 0; i < positions.size();) {
      size_t end = i + 1;
      while (end < positions.size() && positions[end] == positions[end - 1] + 1)
        ++end;
      SmallVector<int64_t> starts(op.getStarts()), steps(op.getSteps()), shape(shapeOf(op));
      starts.back() = positions[i];
      steps.back() = 1;
      shape.back() = int64_t(end - i);
      parts.push_back(builder.create<SliceOp>(op.getLoc(), RankedTensorType::get(shape, elementOf(op)), x, starts, steps));
      i = end;
    }
    if (parts.size() == 1)
      return parts.front();
    return builder.create<ConcatOp>(op.getLoc(), op.getType(), parts, int64_t(shapeOf(op).size()) - 1);
  }

  Value constantLike(OpBuilder &builder, Value value, size_t dim, ArrayRef<int64_t> order) {
    return builder.create<ConstantOp>(value.getLoc(), reorder(constantOf(value), dim, order));
  }

  /// The op on operands as they lie; constants of channels follow.
  Value cloneReordered(OpBuilder &builder, Operation *op) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(storedOf(operand));
    NamedAttrList attributes(op->getAttrs());
    const Order *order = orderOf(op->getOperand(0));
    if (isElementwise(op)) {
      order = orderOf(op->getResult(0));
      if (order)
        for (auto [i, operand] : llvm::enumerate(op->getOperands()))
          if (constantOf(operand) && channelCount(operand) == int64_t(order->size()) && !shapeOf(operand).empty())
            if (!(isa<RequantizeOp>(op) && i == 1 && !isOfLastDim(op)))
              operands[i] = constantLike(builder, operand, shapeOf(operand).size() - 1, *order);
      if (order && hasChannelAxis(op) && isOfLastDim(op))
        reorderAttributes(builder, attributes, *order);
    } else if (order && isa<ConvOp, ConvIntegerOp>(op)) {
      const bool ofGroups = op->getAttrOfType<IntegerAttr>("group").getInt() > 1;
      operands[1] = constantLike(builder, op->getOperand(1), ofGroups ? 3 : 2, *order);
      if (ofGroups && operands.size() > 2)
        operands[2] = constantLike(builder, op->getOperand(2), 0, *order);
      if (ofGroups)
        reorderAttributes(builder, attributes, *order);
    } else if (order && isa<MatmulOp, MatmulIntegerOp>(op)) {
      operands[1] = constantLike(builder, op->getOperand(1), 0, *order);
    }
    OperationState state(op->getLoc(), op->getName());
    state.addOperands(operands);
    state.addTypes(op->getResultTypes());
    state.addAttributes(attributes);
    return builder.create(state)->getResult(0);
  }

  static bool isOfLastDim(Operation *op) {
    return op->getAttrOfType<IntegerAttr>("axis").getInt() + 1 == int64_t(shapeOf(op->getResult(0)).size());
  }

  /// Numbers per channel that are attributes.
  static void reorderAttributes(OpBuilder &builder, NamedAttrList &attributes, ArrayRef<int64_t> order) {
    for (StringRef name : {"scales", "multipliers"})
      if (auto values = dyn_cast_or_null<DenseF32ArrayAttr>(attributes.get(name));
          values && values.size() == int64_t(order.size()))
        attributes.set(name, builder.getDenseF32ArrayAttr(reorder<float>(values.asArrayRef(), order)));
    for (StringRef name : {"zero_points", "w_zero_points"})
      if (auto values = dyn_cast_or_null<DenseI32ArrayAttr>(attributes.get(name));
          values && values.size() == int64_t(order.size()))
        attributes.set(name, builder.getDenseI32ArrayAttr(reorder<int32_t>(values.asArrayRef(), order)));
  }
};

} // namespace

void absorbChannelShuffles(Block &body) { ChannelOrders(body).run(); }

} // namespace tw::graph
