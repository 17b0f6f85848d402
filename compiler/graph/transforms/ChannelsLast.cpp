//===- ChannelsLast.cpp - One layout for every value ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From convolutions and pools it spreads which dims of a value are channels.
// Where these are not last anyway, the value may be stored with them last.
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/ChannelsLast.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/LayoutProblem.h"
#include "compiler/graph/transforms/PackedTaps.h"
#include "compiler/graph/transforms/Rewriting.h"
#include <deque>
#include <optional>

using namespace mlir;

namespace tw::graph {
namespace {

constexpr int64_t kWeightsToNhwc[] = {2, 3, 1, 0};

/// Dims [begin, end) of a value are its channels.
struct Channels {
  int64_t begin, end;

  bool operator==(const Channels &other) const { return begin == other.begin && end == other.end; }
  /// Dim i of a value that lies channels last is dim perm[i] of the value.
  SmallVector<int64_t> permOf(int64_t rank) const {
    SmallVector<int64_t> perm;
    for (int64_t dim = 0; dim < rank; ++dim)
      if (dim < begin || dim >= end)
        perm.push_back(dim);
    for (int64_t dim = begin; dim < end; ++dim)
      perm.push_back(dim);
    return perm;
  }
};

int64_t product(ArrayRef<int64_t> dims) {
  int64_t result = 1;
  for (int64_t dim : dims)
    result *= dim;
  return result;
}

int64_t rankOf(Value value) { return int64_t(shapeOf(value).size()); }

/// The channels of the result of a reshape to `to`, if the reshape leaves what is in front of them, they, and what is behind them apart.
std::optional<Channels> reshaped(Channels channels, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  const int64_t front = product(from.take_front(size_t(channels.begin)));
  const int64_t count = product(from.slice(size_t(channels.begin), size_t(channels.end - channels.begin)));
  const auto rank = int64_t(to.size());
  Channels result{0, 0};
  int64_t size = 1;
  while (result.begin < rank && (size < front || to[size_t(result.begin)] == 1))
    size *= to[size_t(result.begin++)];
  if (size != front)
    return std::nullopt;
  size = 1;
  result.end = result.begin;
  while (result.end < rank && size < count)
    size *= to[size_t(result.end++)];
  if (size != count || result.end == result.begin)
    return std::nullopt;
  return result;
}

/// The channels of the result of `op`; none if it reduces them without keeping their dims.
std::optional<Channels> reduced(Channels channels, ReduceOp op) {
  if (op.getKeepdims())
    return channels;
  auto before = [&](int64_t dim) { return llvm::count_if(op.getAxes(), [&](int64_t axis) { return axis < dim; }); };
  const Channels result{channels.begin - before(channels.begin), channels.end - before(channels.end)};
  return result.begin == result.end ? std::nullopt : std::optional(result);
}

/// The channels of y where dim i of y is dim perm[i] of x, if they stay neighbours.
std::optional<Channels> transposed(Channels channels, ArrayRef<int64_t> perm) {
  Channels result{-1, -1};
  for (auto [i, dim] : llvm::enumerate(perm))
    if (dim >= channels.begin && dim < channels.end) {
      if (result.begin >= 0 && result.end != int64_t(i))
        return std::nullopt;
      if (result.begin < 0)
        result.begin = int64_t(i);
      result.end = int64_t(i) + 1;
    }
  return result;
}

SmallVector<int64_t> permuted(ArrayRef<int64_t> values, ArrayRef<int64_t> perm) {
  SmallVector<int64_t> result;
  for (int64_t dim : perm)
    result.push_back(values[size_t(dim)]);
  return result;
}

int64_t bytesOf(Type tensor) {
  auto type = cast<RankedTensorType>(tensor);
  return type.getNumElements() * int64_t(llvm::divideCeil(type.getElementTypeBitWidth(), 8));
}

bool isNchw(Operation *op) {
  auto layout = op->getAttrOfType<StringAttr>("layout");
  return isa<GraphDialect>(op->getDialect()) && layout && layout.getValue() == "nchw";
}

/// A pool of the whole image: a window where channels are last, rows of the image of each channel in the model's layout.
bool isGlobalPool(Operation *op) {
  auto takesAll = [](auto pool) {
    ArrayRef<int64_t> x = shapeOf(pool.getX());
    return x.size() == 4 && pool.getKernel() == x.drop_front(2) &&
           llvm::all_of(pool.getPads(), [](int64_t pad) { return pad == 0; });
  };
  if (!isNchw(op))
    return false;
  if (auto pool = dyn_cast<MaxPoolOp>(op)) // windows read floats of 16 bits as they are, rows do not
    return takesAll(pool) && !(isa<FloatType>(elementOf(pool)) && elementOf(pool).getIntOrFloatBitWidth() == 16);
  auto pool = dyn_cast<AveragePoolOp>(op);
  return pool && takesAll(pool);
}

/// Ops with attribute layout, which the accelerator has with channels last only.
bool isAnchor(Operation *op) { return isNchw(op) && !isGlobalPool(op); }

/// Ops that do the same in both layouts, with other attributes.
bool isAgnostic(Operation *op) {
  return isElementwise(op) || isa<ConcatOp, SliceOp, PadOp, ReshapeOp, TransposeOp, ReduceOp>(op) || isGlobalPool(op);
}

/// The bias of requantize has no dims of x.
bool isVector(OpOperand &operand) { return operand.getOperandNumber() == 1 && isa<RequantizeOp>(operand.getOwner()); }

class Layouts {
public:
  Layouts(Block &body, const LayoutCosts &costs) : body(body), costs(costs) {}

  void run() {
    findChannels();
    if (channels.empty())
      return;
    choose();
    rewrite();
  }

private:
  using Node = LayoutProblem::Node;
  Block &body;
  const LayoutCosts &costs;
  DenseMap<Value, Channels> channels;
  DenseMap<Operation *, Node> nodes; ///< of ops; arguments have that of the terminator: both are the model's
  std::vector<bool> labels;
  DenseMap<Value, Value> stored[2]; ///< what a value became, in either layout

  std::optional<Channels> channelsOf(Value value) const {
    auto found = channels.find(value);
    return found == channels.end() ? std::nullopt : std::optional(found->second);
  }

  //===--------------------------------------------------------------------===//
  // Which dims are channels
  //===--------------------------------------------------------------------===//

  /// What follows for the result of an agnostic op from the channels of one operand.
  static std::optional<Channels> channelsBehind(Operation *op, Value operand, Channels of) {
    Value result = op->getResult(0);
    if (auto reshape = dyn_cast<ReshapeOp>(op))
      return reshaped(of, shapeOf(operand), shapeOf(result));
    if (auto transpose = dyn_cast<TransposeOp>(op))
      return transposed(of, transpose.getPerm());
    if (auto reduce = dyn_cast<ReduceOp>(op))
      return reduced(of, reduce);
    return rankOf(operand) == rankOf(result) ? std::optional(of) : std::nullopt;
  }

  /// What follows for an operand of an agnostic op from the channels of the result.
  static std::optional<Channels> channelsBefore(Operation *op, Value operand, Channels of) {
    Value result = op->getResult(0);
    if (auto reshape = dyn_cast<ReshapeOp>(op))
      return reshaped(of, shapeOf(result), shapeOf(operand));
    if (auto transpose = dyn_cast<TransposeOp>(op))
      return transposed(of, inversePermutation(transpose.getPerm()));
    return rankOf(operand) == rankOf(result) ? std::optional(of) : std::nullopt;
  }

  /// The first that says which dims of a value are channels is believed.
  void findChannels() {
    std::deque<Value> open;
    auto say = [&](Value value, std::optional<Channels> of) {
      if (of && !constantOf(value) && channels.try_emplace(value, *of).second)
        open.push_back(value);
    };
    for (Operation &op : body)
      if (isNchw(&op)) {
        say(op.getOperand(0), Channels{1, 2});
        say(op.getResult(0), Channels{1, 2});
      }
    while (!open.empty()) {
      Value value = open.front();
      open.pop_front();
      const Channels of = channels.find(value)->second;
      for (OpOperand &use : value.getUses())
        if (Operation *user = use.getOwner(); isAgnostic(user) && !isVector(use))
          say(user->getResult(0), channelsBehind(user, value, of));
      if (Operation *op = value.getDefiningOp(); op && isAgnostic(op))
        for (OpOperand &operand : op->getOpOperands())
          if (!isVector(operand))
            say(operand.get(), channelsBefore(op, operand.get(), of));
    }
  }

  /// Whether `value` has another layout than the model's, and moves to reach it.
  bool canBeLast(Value value) const {
    std::optional<Channels> of = channelsOf(value);
    return of && !movesOnlyUnitDims(shapeOf(value), of->permOf(rankOf(value)));
  }

  /// Whether `op`, channels last, reads this operand as it lies channels last. What reduces all channels has none left in its result.
  bool followsResult(OpOperand &operand) const {
    Operation *op = operand.getOwner();
    std::optional<Channels> of = channelsOf(operand.get()), result = channelsOf(op->getResult(0));
    return of && (result || isa<ReduceOp>(op)) && channelsBehind(op, operand.get(), *of) == result;
  }

  /// Whether `op` can be done channels last.
  bool mayBeLast(Operation *op) const {
    return isa<ReduceOp>(op) ? followsResult(op->getOpOperand(0)) : isAgnostic(op) && channelsOf(op->getResult(0));
  }

  /// The dims that `op` reduces in its operand, which lies channels last or as in the model.
  SmallVector<int64_t> axesOf(Operation *op, bool last) const {
    auto reduce = dyn_cast<ReduceOp>(op);
    SmallVector<int64_t> axes = reduce ? SmallVector<int64_t>(reduce.getAxes()) : SmallVector<int64_t>{2, 3};
    if (!last)
      return axes;
    const Value x = op->getOperand(0);
    const SmallVector<int64_t> inverse = inversePermutation(channels.find(x)->second.permOf(rankOf(x)));
    for (int64_t &axis : axes)
      axis = inverse[size_t(axis)];
    llvm::sort(axes);
    return axes;
  }

  //===--------------------------------------------------------------------===//
  // Costs
  //===--------------------------------------------------------------------===//

  /// From the stored x to the stored y, dim i of y being dim perm[i] of x.
  SmallVector<int64_t> between(Value x, bool xLast, ArrayRef<int64_t> perm, Value y, bool yLast) const {
    SmallVector<int64_t> result(perm);
    if (yLast)
      result = permuted(perm, channels.find(y)->second.permOf(rankOf(y)));
    if (xLast)
      result = permuted(inversePermutation(channels.find(x)->second.permOf(rankOf(x))), result);
    return result;
  }

  RankedTensorType typeOf(Value value, bool last) const {
    if (!last)
      return tensorOf(value);
    return RankedTensorType::get(permuted(shapeOf(value), channels.find(value)->second.permOf(rankOf(value))),
                                 elementOf(value));
  }

  int64_t costBetween(Value x, bool xLast, TransposeOp op, bool yLast) const {
    return costs.ofTranspose(typeOf(x, xLast), between(x, xLast, op.getPerm(), op, yLast));
  }

  Node nodeOf(Value value) const { return nodes.lookup(value.getDefiningOp() ? value.getDefiningOp() : body.getTerminator()); }

  void choose() {
    LayoutProblem problem;
    for (Operation &op : body) {
      const Node node = nodes[&op] = problem.add();
      if (isAnchor(&op))
        problem.pin(node, true);
      else if (!mayBeLast(&op))
        problem.pin(node, false);
      else if (Value x = op.getOperand(0); (isa<ReduceOp>(op) || isGlobalPool(&op)) && channelsOf(x))
        for (bool last : {false, true})
          problem.addCost(node, last, costs.ofReduction(typeOf(x, last), axesOf(&op, last)));
    }
    for (Operation &op : body)
      if (auto transpose = dyn_cast<TransposeOp>(op))
        addTranspose(problem, transpose);
      else
        for (OpOperand &operand : op.getOpOperands())
          addOperand(problem, operand);
    auto addValue = [&](Value value) {
      if (!canBeLast(value))
        return;
      const SmallVector<int64_t> perm = channels.find(value)->second.permOf(rankOf(value));
      LayoutProblem::Conversion conversion{nodeOf(value),
                                           {},
                                           costs.ofTranspose(tensorOf(value), perm),
                                           costs.ofTranspose(typeOf(value, true), inversePermutation(perm))};
      for (OpOperand &use : value.getUses())
        if (Operation *reader = use.getOwner(); !isa<TransposeOp>(reader) && !flattensIntoWeights(reader) &&
                                                !(use.getOperandNumber() == 0 && readsPlanes(reader, costs.machine)))
          conversion.readers.push_back(nodes.lookup(readsAsInModel(use) ? body.getTerminator() : reader));
      problem.addConversion(std::move(conversion));
    };
    for (Value argument : body.getArguments())
      addValue(argument);
    for (Operation &op : body)
      for (Value result : op.getResults())
        if (!isa<ConstantOp>(op))
          addValue(result);
    labels = problem.solve();
  }

  /// Whether an operand is read in the model's layout, whatever the layout of the op.
  bool readsAsInModel(OpOperand &use) const {
    Operation *op = use.getOwner();
    if (isAnchor(op))
      return use.getOperandNumber() != 0;
    return !isAgnostic(op) || isVector(use) || !followsResult(use);
  }

  /// A reshape that flattens each image for products with constants: the rows of these follow any order of dims.
  static bool flattensIntoWeights(Operation *op) {
    auto reshape = dyn_cast<ReshapeOp>(op);
    if (!reshape || rankOf(reshape) != 2 || shapeOf(reshape)[0] != shapeOf(reshape.getX())[0])
      return false;
    return llvm::all_of(reshape->getUses(), [](OpOperand &use) {
      return isa<MatmulOp, MatmulIntegerOp>(use.getOwner()) && use.getOperandNumber() == 0 &&
             constantOf(use.getOwner()->getOperand(1)) && rankOf(use.getOwner()->getOperand(1)) == 2;
    });
  }

  /// A transpose of the model costs what is left of it between the layouts of its operand and its result.
  void addTranspose(LayoutProblem &problem, TransposeOp op) {
    Value x = op.getX();
    const bool xMay = canBeLast(x), yMay = channelsOf(op).has_value();
    if (constantOf(x))
      return;
    auto cost = [&](bool xLast, bool yLast) { return costBetween(x, xLast, op, yLast); };
    const Node xNode = nodeOf(x), yNode = nodes.lookup(op);
    auto addDifference = [&](Node node, int64_t ofLast) { problem.addCost(node, ofLast > 0, std::abs(ofLast)); };
    if (xMay && yMay) {
      const int64_t both = cost(false, true) + cost(true, false) - cost(false, false) - cost(true, true);
      if (both >= 0) {
        addDifference(xNode, cost(true, false) - cost(false, false));
        addDifference(yNode, cost(true, true) - cost(true, false));
        problem.addConversion({xNode, {yNode}, both, 0});
        return;
      }
      problem.pin(yNode, false);
    }
    if (xMay)
      addDifference(xNode, cost(true, false) - cost(false, false));
    else if (yMay)
      addDifference(yNode, cost(false, true) - cost(false, false));
  }

  /// What an op pays for an operand beside the conversion of that value.
  void addOperand(LayoutProblem &problem, OpOperand &operand) {
    Operation *op = operand.getOwner();
    Value value = operand.get();
    if (!isAgnostic(op) || constantOf(value) || isVector(operand) || !channelsOf(op->getResult(0)))
      return;
    const Node node = nodes.lookup(op);
    if (isa<ReshapeOp>(op)) {
      if (!followsResult(operand))
        problem.pin(node, false);
      return;
    }
    if (!followsResult(operand)) {
      const auto rank = size_t(rankOf(op->getResult(0)));
      const SmallVector<int64_t> shape = padRank(shapeOf(value), rank);
      problem.addCost(node, true,
                      costs.ofTranspose(RankedTensorType::get(shape, elementOf(value)),
                                        channels.find(op->getResult(0))->second.permOf(int64_t(rank))));
      return;
    }
    // A conversion in front of it keeps the op out of the kernel that makes its operand: what lies between goes to memory and back.
    if (value.getDefiningOp()) {
      const int64_t cost = isElementwise(op) ? costAlone(operand) : 1;
      problem.addConversion({nodeOf(value), {node}, cost, cost});
    }
  }

  /// What an element-by-element op moves as a kernel of its own.
  int64_t costAlone(OpOperand &operand) const {
    return costs.ofBytes(bytesOf(operand.get().getType()) + bytesOf(operand.getOwner()->getResult(0).getType()));
  }

  //===--------------------------------------------------------------------===//
  // Rewriting
  //===--------------------------------------------------------------------===//

  static Location conversionLoc(Operation *op) { return UnknownLoc::get(op->getContext()); }

  /// `value` in one of its layouts, converted at most once.
  Value get(OpBuilder &builder, Value value, bool last) {
    const std::optional<Channels> of = channelsOf(value);
    last &= of.has_value();
    Value &wanted = stored[last][value];
    if (wanted)
      return wanted;
    if (constantOf(value) || (!value.getDefiningOp() && !last))
      return wanted = value;
    Value other = !value.getDefiningOp() ? value : stored[!last].lookup(value);
    SmallVector<int64_t> perm = of->permOf(rankOf(value));
    if (!last)
      perm = inversePermutation(perm);
    if (llvm::is_sorted(perm))
      return wanted = other;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(other);
    return wanted = createConversion(builder, other, perm, costs);
  }

  /// What stands for an operand that broadcasts, or a constant, in an op with channels last.
  Value adapt(OpBuilder &builder, Operation *op, Value value, ArrayRef<int64_t> perm) {
    // A single element, or a vector along what stays the last dim, needs no more dims than it has.
    if (tensorOf(value).getNumElements() == 1 && rankOf(value) <= 1)
      return get(builder, value, false);
    const SmallVector<int64_t> shape = padRank(shapeOf(value), perm.size());
    if (ElementsAttr elements = constantOf(value))
      return builder.create<ConstantOp>(conversionLoc(op), transposeConstant(reshapeConstant(elements, shape), perm));
    Value padded = createReshape(builder, conversionLoc(op), get(builder, value, false), shape);
    if (movesOnlyUnitDims(shape, perm))
      return createReshape(builder, conversionLoc(op), padded, permuted(shape, perm));
    return createConversion(builder, padded, perm, costs);
  }

  void rewrite() {
    for (Operation &op : llvm::make_early_inc_range(body)) {
      OpBuilder builder(&op);
      const bool last = labels[nodes.lookup(&op)];
      if (isa<ConstantOp>(op))
        continue;
      if (isAnchor(&op) || (last && isGlobalPool(&op))) {
        rewriteAnchor(builder, &op);
      } else if (isGlobalPool(&op)) {
        rewriteAsRows(builder, &op);
      } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
        rewriteTranspose(builder, transpose, last);
      } else if (last) {
        rewriteAgnostic(builder, &op);
      } else {
        for (OpOperand &operand : op.getOpOperands())
          operand.set(get(builder, operand.get(), false));
        for (Value result : op.getResults())
          stored[false][result] = result;
      }
    }
    eraseReplaced();
  }

  void rewriteAnchor(OpBuilder &builder, Operation *op) {
    Value x = op->getOperand(0);
    SmallVector<Value> operands{constantOf(x) ? adapt(builder, op, x, Channels{1, 2}.permOf(4)) : get(builder, x, true)};
    for (Value operand : op->getOperands().drop_front())
      operands.push_back(get(builder, operand, false));
    if (isa<ConvOp, ConvIntegerOp>(op))
      operands[1] = createTranspose(builder, conversionLoc(op), operands[1], kWeightsToNhwc);
    NamedAttrList attributes(op->getAttrs());
    attributes.set("layout", builder.getStringAttr("nhwc"));
    place(builder, op, operands, attributes);
  }

  /// A global pool that reads the model's layout.
  void rewriteAsRows(OpBuilder &builder, Operation *op) {
    ArrayRef<int64_t> x = shapeOf(op->getOperand(0));
    Value rows = createReshape(builder, op->getLoc(), get(builder, op->getOperand(0), false), {x[0] * x[1], x[2] * x[3]});
    Value y = builder.create<ReduceOp>(op->getLoc(), RankedTensorType::get({x[0] * x[1]}, elementOf(rows)), rows,
                                       isa<MaxPoolOp>(op) ? "max" : "mean", ArrayRef<int64_t>{1}, false);
    Value result = op->getResult(0);
    stored[false][result] = createReshape(builder, op->getLoc(), y, shapeOf(result));
  }

  /// Makes the op again, its result channels last.
  void place(OpBuilder &builder, Operation *op, ArrayRef<Value> operands, const NamedAttrList &attributes) {
    OperationState state(op->getLoc(), op->getName());
    state.addOperands(operands);
    const bool last = channelsOf(op->getResult(0)).has_value(); // what reduces them has no channels
    state.addTypes(typeOf(op->getResult(0), last));
    state.addAttributes(attributes);
    stored[last][op->getResult(0)] = builder.create(state)->getResult(0);
  }

  void rewriteTranspose(OpBuilder &builder, TransposeOp op, bool last) {
    Value x = op.getX();
    bool xLast = bool(stored[true].lookup(x));
    const bool hasBoth = xLast && stored[false].lookup(x);
    if (hasBoth)
      xLast = costBetween(x, true, op, last) < costBetween(x, false, op, last);
    const SmallVector<int64_t> perm = between(x, xLast, op.getPerm(), op, last);
    Value source = get(builder, x, xLast);
    stored[last][op] = llvm::is_sorted(perm) ? source : createTranspose(builder, op.getLoc(), source, perm);
  }

  void rewriteAgnostic(OpBuilder &builder, Operation *op) {
    if (isa<ReduceOp>(op)) {
      NamedAttrList attributes(op->getAttrs());
      attributes.set("axes", builder.getDenseI64ArrayAttr(axesOf(op, true)));
      return place(builder, op, get(builder, op->getOperand(0), true), attributes);
    }
    Value result = op->getResult(0);
    const SmallVector<int64_t> perm = channels.find(result)->second.permOf(rankOf(result)), inverse = inversePermutation(perm);
    SmallVector<Value> operands;
    for (OpOperand &operand : op->getOpOperands())
      operands.push_back(isVector(operand)        ? get(builder, operand.get(), false)
                         : followsResult(operand) ? get(builder, operand.get(), true)
                                                  : adapt(builder, op, operand.get(), perm));
    if (isa<ReshapeOp>(op)) {
      stored[true][result] = createReshape(builder, op->getLoc(), operands[0], permuted(shapeOf(result), perm));
      return;
    }
    NamedAttrList attributes(op->getAttrs());
    auto permute = [&](StringRef name) {
      attributes.set(name,
                     builder.getDenseI64ArrayAttr(permuted(op->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef(), perm)));
    };
    if (isa<ConcatOp>(op) || hasChannelAxis(op))
      attributes.set("axis", builder.getI64IntegerAttr(inverse[size_t(op->getAttrOfType<IntegerAttr>("axis").getInt())]));
    if (isa<PadOp>(op)) {
      permute("low");
      permute("high");
    }
    if (isa<SliceOp>(op)) {
      permute("starts");
      permute("steps");
    }
    place(builder, op, operands, attributes);
  }

  /// What became of an op stands beside it, and is all that is read.
  void eraseReplaced() {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (op.getNumResults() == 1 && op.use_empty() && (isAgnostic(&op) || isAnchor(&op) || isa<ConstantOp>(op)))
        op.erase();
  }
};

} // namespace

int64_t LayoutCosts::ofBytes(int64_t bytes) const {
  return 2 * machine.dramLatency + int64_t(double(bytes) / machine.dramBytes);
}

int64_t LayoutCosts::ofTranspose(RankedTensorType type, ArrayRef<int64_t> perm) const {
  ArrayRef<int64_t> shape = type.getShape();
  if (movesOnlyUnitDims(shape, perm))
    return 0;
  int64_t run = int64_t(llvm::divideCeil(type.getElementTypeBitWidth(), 8));
  for (auto dim = int64_t(perm.size()) - 1; dim >= 0 && perm[size_t(dim)] == dim; --dim)
    run *= shape[size_t(dim)];
  constexpr int64_t kBurst = 64; // bytes: longer runs are copied
  const int64_t moved = 2 * bytesOf(type);
  return ofBytes(run >= kBurst ? moved : int64_t(double(moved) * kTransposeOverCopy));
}

int64_t LayoutCosts::ofReduction(RankedTensorType type, ArrayRef<int64_t> axes) const {
  SmallVector<int64_t> perm; // what stays, then what is reduced
  int64_t outer = 1, count = 1, inner = 1;
  bool begins = false, isSplit = false;
  for (auto [dim, size] : llvm::enumerate(type.getShape())) {
    const bool isReduced = llvm::is_contained(axes, int64_t(dim));
    if (!isReduced)
      perm.push_back(int64_t(dim));
    if (size == 1)
      continue;
    isSplit |= isReduced && inner > 1;
    begins |= isReduced;
    (isReduced ? count : begins ? inner : outer) *= size;
  }
  perm.append(axes.begin(), axes.end());
  auto vectors = [&](int64_t elements) { return int64_t(llvm::divideCeil(elements, machine.columns)); };
  if (isSplit)
    return ofTranspose(type, perm) + outer * inner * vectors(count);
  return inner == 1 ? outer * vectors(count) : outer * count * vectors(inner);
}

Value createConversion(OpBuilder &builder, Value x, ArrayRef<int64_t> perm, const LayoutCosts &costs) {
  Value y = createTranspose(builder, UnknownLoc::get(builder.getContext()), x, perm);
  y.getDefiningOp()->setAttr(kConversionAttr, builder.getI64IntegerAttr(costs.ofTranspose(tensorOf(x), perm)));
  return y;
}

void putChannelsLast(Block &body, const LayoutCosts &costs) { Layouts(body, costs).run(); }

} // namespace tw::graph
