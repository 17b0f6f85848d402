//===- IntegerProduct.cpp - Sums of products of bytes ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/IntegerProduct.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tw::cpu {

namespace {

/// extend(element) - zero, where extend is from i8 to i32.
struct Factor {
  /// The operand of the op.
  unsigned operand = 0;
  bool isSigned = false;
  int32_t zero = 0;
};

/// The fewest results in a row for which packing pays.
constexpr int64_t minLanes = 8;

std::optional<Factor> matchFactor(Value value, Block &body) {
  Factor factor;
  if (auto difference = value.getDefiningOp<arith::SubIOp>()) {
    APInt zero;
    if (!matchPattern(difference.getRhs(), m_ConstantInt(&zero)) || zero.slt(-128) || zero.sgt(255))
      return std::nullopt;
    factor.zero = static_cast<int32_t>(zero.getSExtValue());
    value = difference.getLhs();
  }
  Operation *extension = value.getDefiningOp();
  if (!extension || !isa<arith::ExtSIOp, arith::ExtUIOp>(extension))
    return std::nullopt;
  factor.isSigned = isa<arith::ExtSIOp>(extension);
  auto element = dyn_cast<BlockArgument>(extension->getOperand(0));
  if (!element || element.getOwner() != &body || !element.getType().isInteger(8))
    return std::nullopt;
  factor.operand = element.getArgNumber();
  return factor;
}

/// acc + factor * factor in f32, of operands that are f32 or bfloat16.
std::optional<std::pair<Factor, Factor>> matchFloatBody(linalg::GenericOp op) {
  if (op.getNumDpsInputs() != 2 || op->getNumResults() != 1)
    return std::nullopt;
  Block &body = *op.getBody();
  auto sum = body.getTerminator()->getOperand(0).getDefiningOp<arith::AddFOp>();
  Value accumulator = body.getArgument(2);
  if (!sum || !sum.getType().isF32() || (sum.getLhs() != accumulator && sum.getRhs() != accumulator))
    return std::nullopt;
  Value added = sum.getLhs() == accumulator ? sum.getRhs() : sum.getLhs();
  auto product = added.getDefiningOp<arith::MulFOp>();
  if (!product)
    return std::nullopt;
  auto factorOf = [&](Value value) -> std::optional<Factor> {
    if (auto extension = value.getDefiningOp<arith::ExtFOp>())
      value = extension.getIn();
    auto element = dyn_cast<BlockArgument>(value);
    if (!element || element.getOwner() != &body || !(element.getType().isF32() || element.getType().isBF16()))
      return std::nullopt;
    Factor factor;
    factor.operand = element.getArgNumber();
    return factor;
  };
  std::optional<Factor> lhs = factorOf(product.getLhs()), rhs = factorOf(product.getRhs());
  if (!lhs || !rhs || lhs->operand == rhs->operand || std::max(lhs->operand, rhs->operand) > 1)
    return std::nullopt;
  return std::pair(*lhs, *rhs);
}

/// acc + factor * factor.
std::optional<std::pair<Factor, Factor>> matchBody(linalg::GenericOp op) {
  if (op.getNumDpsInputs() != 2 || op->getNumResults() != 1)
    return std::nullopt;
  Block &body = *op.getBody();
  auto sum = body.getTerminator()->getOperand(0).getDefiningOp<arith::AddIOp>();
  if (!sum || !sum.getType().isInteger(32))
    return std::nullopt;
  Value accumulator = body.getArgument(2);
  if (sum.getLhs() != accumulator && sum.getRhs() != accumulator)
    return std::nullopt;
  Value added = sum.getLhs() == accumulator ? sum.getRhs() : sum.getLhs();
  auto product = added.getDefiningOp<arith::MulIOp>();
  if (!product)
    return std::nullopt;
  std::optional<Factor> lhs = matchFactor(product.getLhs(), body), rhs = matchFactor(product.getRhs(), body);
  if (!lhs || !rhs || lhs->operand == rhs->operand)
    return std::nullopt;
  return std::pair(*lhs, *rhs);
}

class ProductBuilder {
public:
  ProductBuilder(KernelWriter &writer, linalg::GenericOp op)
      : writer(writer), b(writer.b), op(op), loc(op.getLoc()), ranges(op.getStaticLoopRanges()),
        kinds(op.getIteratorTypesArray()), loops(llvm::to_vector(llvm::seq<int>(0, ranges.size()))) {}

  bool match();
  llvm::Expected<NestOperand> stream();
  /// The packed factor as it will be, with a pointer of something else, and how that comes about.
  NestOperand layOut(FactorPacking &packing);
  llvm::Expected<NestOperand> start();
  /// What takes the packed factor's zero point out of the sums of products; nothing if that is 0.
  llvm::Expected<std::optional<NestStage>> takeOutPackedZero();
  Value pack(int64_t width);

  /// Numbers in a group, and what they are.
  unsigned group = 1;
  Products products = Products::None;
  /// The summed loop whose iterations are grouped, and the number of groups.
  int depth = -1;
  int64_t groups = 0;

private:
  AffineMap mapOf(const Factor &factor) { return op.getMatchingIndexingMap(op.getDpsInputOperand(factor.operand)); }
  Value tensorOf(const Factor &factor) { return op.getDpsInputs()[factor.operand]; }
  /// What is subtracted from the streamed numbers once they are unsigned.
  int32_t streamedZero() const { return streamed.zero + (streamed.isSigned ? 128 : 0); }
  /// The same of the packed numbers once they are signed.
  int32_t packedZero() const { return packed.zero - (packed.isSigned ? 0 : 128); }
  bool needsSums() const { return products == Products::Bytes && streamedZero() != 0; }
  Type smallType() {
    return products == Products::Bytes   ? b.getI8Type()
           : products == Products::Words ? Type(b.getIntegerType(16))
                                         : b.getBF16Type();
  }
  /// Whether an element must be changed to be what products are made of.
  bool isConverted(const Factor &factor) {
    switch (products) {
    case Products::Bytes:
      return factor.operand == streamed.operand ? factor.isSigned : !factor.isSigned;
    case Products::Bfloats:
      return !getElementTypeOrSelf(tensorOf(factor).getType()).isBF16();
    default:
      return true;
    }
  }
  Block *narrowBody(const Factor &factor);
  void packInto(const TensorView &from, const TensorView &to);
  TensorView newPacked(RankedTensorType type, function_ref<void(const TensorView &, const TensorView &)> fill);
  void sumInto(const TensorView &from, const TensorView &to);

  KernelWriter &writer;
  OpBuilder &b;
  linalg::GenericOp op;
  Location loc;
  SmallVector<int64_t> ranges;
  SmallVector<utils::IteratorType> kinds;
  SmallVector<int> loops;
  Factor streamed, packed;
  /// The streamed factor as it is read, and its summed dimension, where that is one by itself.
  TensorView streamedView;
  int streamedDepthAt = -1;
  /// The loop of neighbouring results, on which only the packed factor depends.
  int lane = -1;
  /// Of the packed factor: its summed dimension, its dimension of lanes, and the sizes of the others.
  int depthAt = 0, laneAt = 0;
  SmallVector<int64_t> others;
  /// -zero * the sum of the packed factor, where that has to be added; its strides by the loops of the op.
  TensorView sums;
  SmallVector<int64_t> sumStrides;
};

bool ProductBuilder::match() {
  const CpuMachine &machine = writer.options.machine;
  auto factors = matchBody(op);
  group = machine.integerProducts;
  if (!factors && machine.hasBfloatProducts && writer.options.math == graph::Math::Fast) {
    factors = matchFloatBody(op);
    products = Products::Bfloats;
    group = 2;
  }
  if (group == 1 || !factors)
    return false;
  for (AffineExpr expr : op.getMatchingIndexingMap(op.getDpsInitOperand(0)).getResults())
    if (auto dim = dyn_cast<AffineDimExpr>(expr); dim && ranges[dim.getPosition()] > 1)
      lane = static_cast<int>(dim.getPosition());
  if (lane < 0 || ranges[lane] < minLanes)
    return false;
  std::tie(streamed, packed) = *factors;
  if (mapOf(streamed).isFunctionOfDim(lane))
    std::swap(streamed, packed);
  TensorView from = writer.viewOf(tensorOf(streamed));
  if (mapOf(streamed).isFunctionOfDim(lane) || !mapOf(packed).isFunctionOfDim(lane) ||
      !mapOf(packed).isProjectedPermutation() || !from.pointer || !writer.viewOf(tensorOf(packed)).pointer)
    return false;
  // The longest sum along which the streamed factor lies contiguously.
  int64_t constant = 0;
  SmallVector<int64_t> coefficients(ranges.size(), 0);
  for (auto [expr, stride] : llvm::zip(mapOf(streamed).getResults(), from.strides))
    if (failed(linearise(expr, coefficients, constant, stride)))
      return false;
  for (int loop : loops)
    if (kinds[loop] != utils::IteratorType::parallel && coefficients[loop] == 1 && mapOf(packed).isFunctionOfDim(loop) &&
        ranges[loop] > 1 && (depth < 0 || ranges[loop] > ranges[depth]))
      depth = loop;
  if (depth < 0)
    return false;
  TensorView initial = writer.viewOf(op.getDpsInitOperand(0)->get());
  bool startsAtZero = initial.splat && matchPattern(initial.splat, m_Zero());
  for (auto [dim, expr] : llvm::enumerate(mapOf(streamed).getResults()))
    if (expr == b.getAffineDimExpr(depth))
      streamedDepthAt = static_cast<int>(dim);
  if (group == 4 && ((packedZero() != 0 && streamedDepthAt < 0) || (streamedZero() != 0 && !startsAtZero)))
    group = 2;
  if (products == Products::None)
    products = group == 4 ? Products::Bytes : Products::Words;
  groups = (ranges[depth] + group - 1) / group;
  return true;
}

/// The element as the instructions want it: rounded, 16 bits without the zero point, or the byte with its sign changed.
Block *ProductBuilder::narrowBody(const Factor &factor) {
  Type to = smallType();
  if (products == Products::Bfloats)
    return writer.makeBody({b.getF32Type()}, [&](OpBuilder &inner, Location at, ValueRange arguments) -> Value {
      return inner.create<arith::TruncFOp>(at, to, arguments[0]);
    });
  return writer.makeBody({b.getI8Type()}, [&](OpBuilder &inner, Location at, ValueRange arguments) -> Value {
    auto constant = [&](int64_t value) {
      return inner.create<arith::ConstantOp>(at, inner.getIntegerAttr(to, value)).getResult();
    };
    if (products == Products::Bytes)
      return inner.create<arith::XOrIOp>(at, arguments[0], constant(-128));
    Value wide = factor.isSigned ? inner.create<arith::ExtSIOp>(at, to, arguments[0]).getResult()
                                 : inner.create<arith::ExtUIOp>(at, to, arguments[0]);
    return inner.create<arith::SubIOp>(at, wide, constant(factor.zero));
  });
}

llvm::Expected<NestOperand> ProductBuilder::stream() {
  TensorView from = writer.viewOf(tensorOf(streamed));
  const bool converts = isConverted(streamed);
  // The last group of a row may reach beyond it, so beyond the tensor at its end: only our own memory has room there.
  if (converts || (ranges[depth] % group != 0 && from.buffer < 0)) {
    TensorView to = writer.newBuffer(RankedTensorType::get(from.shape, smallType()), bufferAlignment);
    writer.copy(loc, from, to, converts ? narrowBody(streamed) : nullptr);
    writer.wait();
    from = to;
  }
  streamedView = from;
  llvm::Expected<NestOperand> operand = writer.operandOf(op, from, mapOf(streamed), loops, ranges.size());
  if (!operand)
    return operand;
  operand->element = b.getI32Type();
  operand->unit = smallType();
  operand->strides[depth] *= group;
  return operand;
}

/// Writes the factor `from`, a first dimension of panels in front of its own, as [panels, others, groups, lane, group], with zeros
/// where the last group is not full.
void ProductBuilder::packInto(const TensorView &from, const TensorView &to) {
  Block *body = isConverted(packed) ? narrowBody(packed) : nullptr;
  TensorView ordered = from;
  ordered.shape.clear();
  ordered.strides.clear();
  auto keep = [&](int dim) {
    ordered.shape.push_back(from.shape[dim]);
    ordered.strides.push_back(from.strides[dim]);
  };
  for (int dim = 0; dim < static_cast<int>(from.shape.size()); ++dim)
    if (dim != depthAt + 1 && dim != laneAt + 1)
      keep(dim);
  keep(depthAt + 1);
  keep(laneAt + 1);
  unsigned rank = ordered.shape.size(), grouped = rank - 2;
  SmallVector<int64_t> ones(rank, 1);
  for (unsigned part = 0; part < group; ++part) {
    // This part of every group.
    TensorView place = to;
    place.offset += part;
    place.shape.pop_back();
    place.strides.pop_back();
    int64_t filled = (from.shape[depthAt + 1] - part + group - 1) / group;
    SmallVector<int64_t> offsets(rank, 0), sizes(ordered.shape), steps(ones);
    offsets[grouped] = part;
    sizes[grouped] = filled;
    steps[grouped] = group;
    TensorView source = sliced(ordered, offsets, sizes, steps);
    offsets[grouped] = 0;
    writer.copy(loc, source, sliced(place, offsets, sizes, ones), body);
    if (filled == groups)
      continue;
    offsets[grouped] = filled;
    sizes[grouped] = groups - filled;
    TensorView zero;
    zero.element = to.element;
    zero.splat = b.create<arith::ConstantOp>(loc, b.getZeroAttr(to.element));
    zero.strides.assign(rank, 0);
    writer.copy(loc, zero, sliced(place, offsets, sizes, ones));
  }
}

/// Sums the packed factor's signed bytes less their zero point, times -zero of the other, over the reduction loops of the op.
void ProductBuilder::sumInto(const TensorView &from, const TensorView &to) {
  LoopNest nest;
  nest.accumulates = true;
  NestOperand source, init, target;
  source.element = from.element;
  source.pointer = writer.pointerTo(from);
  source.strides = from.strides;
  Type i32 = b.getI32Type();
  target.element = init.element = i32;
  target.pointer = writer.pointerTo(to);
  init.splat = b.create<arith::ConstantOp>(loc, b.getI32IntegerAttr(0));
  for (auto [expr, size] : llvm::zip(mapOf(packed).getResults(), from.shape)) {
    unsigned loop = cast<AffineDimExpr>(expr).getPosition();
    nest.sizes.push_back(size);
    nest.isReduction.push_back(kinds[loop] != utils::IteratorType::parallel);
    target.strides.push_back(nest.isReduction.back() ? 0 : sumStrides[loop]);
  }
  NestStage stage(loc);
  stage.body = writer.makeBody({b.getI8Type(), i32}, [&](OpBuilder &inner, Location at, ValueRange arguments) -> Value {
    auto constant = [&](int32_t value) {
      return inner.create<arith::ConstantOp>(at, inner.getI32IntegerAttr(value)).getResult();
    };
    Value wide = packed.isSigned ? inner.create<arith::ExtSIOp>(at, i32, arguments[0]).getResult()
                                 : inner.create<arith::ExtUIOp>(at, i32, arguments[0]);
    if (packed.zero)
      wide = inner.create<arith::SubIOp>(at, wide, constant(packed.zero));
    Value scaled = inner.create<arith::MulIOp>(at, wide, constant(-streamedZero()));
    return inner.create<arith::AddIOp>(at, arguments[1], scaled);
  });
  stage.inputs.push_back(source);
  nest.stages.push_back(stage);
  nest.inits.push_back(init);
  nest.stores.push_back({0, 0, target});
  writer.emit(loc, std::move(nest));
}

NestOperand ProductBuilder::layOut(FactorPacking &packing) {
  SmallVector<int> order;
  for (auto [at, expr] : llvm::enumerate(mapOf(packed).getResults())) {
    int loop = static_cast<int>(cast<AffineDimExpr>(expr).getPosition());
    if (loop == depth) {
      depthAt = static_cast<int>(at);
    } else if (loop == lane) {
      laneAt = static_cast<int>(at);
    } else {
      order.push_back(loop);
      others.push_back(ranges[loop]);
    }
  }
  packing.input = 1;
  packing.lane = lane;
  packing.isNeeded = true;
  packing.strides.assign(ranges.size(), 0);
  packing.strides[depth] = 1;
  packing.positions = groups;
  sumStrides.assign(ranges.size(), 0);
  sumStrides[lane] = 1;
  int64_t sumStride = ranges[lane];
  for (unsigned i = order.size(); i-- > 0;) {
    packing.strides[order[i]] = packing.positions;
    packing.positions *= others[i];
    if (kinds[order[i]] == utils::IteratorType::parallel) {
      sumStrides[order[i]] = sumStride;
      sumStride *= others[i];
    }
  }
  if (needsSums())
    sums = newPacked(RankedTensorType::get({sumStride}, b.getI32Type()),
                     [&](const TensorView &from, const TensorView &to) { sumInto(from, to); });
  NestOperand operand;
  operand.element = b.getI32Type();
  operand.strides.assign(ranges.size(), 0);
  operand.pointer = writer.viewOf(tensorOf(packed)).pointer;
  return operand;
}

/// New memory that `fill` makes of the packed factor: once if that is a constant, else in each run.
TensorView ProductBuilder::newPacked(RankedTensorType type, function_ref<void(const TensorView &, const TensorView &)> fill) {
  if (auto constant = tensorOf(packed).getDefiningOp<arith::ConstantOp>())
    return writer.newPackedConstants(
        {type}, [&](ArrayRef<TensorView> to) { fill(writer.constantView(cast<ElementsAttr>(constant.getValue())), to[0]); })[0];
  TensorView view = writer.newBuffer(type);
  fill(writer.viewOf(tensorOf(packed)), view);
  writer.wait();
  return view;
}

Value ProductBuilder::pack(int64_t width) {
  int64_t positions = groups * group;
  for (int64_t size : others)
    positions *= size;
  const int64_t lanes = ranges[lane];
  auto fill = [&](const TensorView &from, const TensorView &to) {
    auto packPanels = [&](int64_t first, int64_t count, int64_t size) {
      TensorView source = from, target = to;
      source.offset += first * from.strides[laneAt];
      source.shape[laneAt] = size;
      source.shape.insert(source.shape.begin(), count);
      source.strides.insert(source.strides.begin(), size * from.strides[laneAt]);
      target.offset += first * positions;
      target.shape = {count};
      target.shape.append(others);
      target.shape.append({groups, size, int64_t(group)});
      target.strides = denseStrides(target.shape);
      packInto(source, target);
    };
    packPanels(0, lanes / width, width);
    if (lanes % width)
      packPanels(lanes / width * width, 1, lanes % width);
  };
  return writer.pointerTo(newPacked(RankedTensorType::get({positions * lanes}, smallType()), fill));
}

llvm::Expected<NestOperand> ProductBuilder::start() {
  NestOperand operand;
  if (needsSums()) {
    operand.element = b.getI32Type();
    operand.pointer = writer.pointerTo(sums);
    operand.strides = sumStrides;
    return operand;
  }
  OpOperand *init = op.getDpsInitOperand(0);
  TensorView view = writer.viewOf(init->get());
  if (!view.pointer && !view.splat)
    return errorAt(op, "reads elements of a tensor that nothing has written");
  return writer.operandOf(op, view, op.getMatchingIndexingMap(init), loops, ranges.size());
}

llvm::Expected<std::optional<NestStage>> ProductBuilder::takeOutPackedZero() {
  if (products != Products::Bytes || packedZero() == 0)
    return std::nullopt;
  Type i32 = b.getI32Type();
  Value zero = b.create<arith::ConstantOp>(loc, b.getI32IntegerAttr(0));
  auto emitSums = [&](LoopNest nest, const NestOperand &from, NestOperand to, bool areBytes) {
    NestStage stage(loc);
    Type element = areBytes ? b.getI8Type() : i32;
    stage.body = writer.makeBody({element, i32}, [&](OpBuilder &inner, Location at, ValueRange arguments) -> Value {
      Value number = areBytes ? inner.create<arith::ExtUIOp>(at, i32, arguments[0]).getResult() : arguments[0];
      return inner.create<arith::AddIOp>(at, arguments[1], number);
    });
    stage.inputs.push_back(from);
    NestOperand init;
    init.element = i32;
    init.splat = zero;
    nest.accumulates = true;
    nest.inits.push_back(init);
    nest.stages.push_back(stage);
    nest.stores.push_back({0, 0, to});
    writer.emit(loc, std::move(nest));
    writer.wait();
  };
  // The sums along the streamed factor's own dimension.
  SmallVector<int64_t> shape(streamedView.shape);
  shape[streamedDepthAt] = 1;
  TensorView sums = writer.newBuffer(RankedTensorType::get(shape, i32));
  sums.strides[streamedDepthAt] = 0;
  LoopNest along;
  along.sizes = streamedView.shape;
  along.isReduction.assign(along.sizes.size(), false);
  along.isReduction[streamedDepthAt] = true;
  NestOperand bytes, to;
  bytes.element = b.getI8Type();
  bytes.pointer = writer.pointerTo(streamedView);
  bytes.strides = streamedView.strides;
  to.element = i32;
  to.pointer = writer.pointerTo(sums);
  to.strides = sums.strides;
  emitSums(std::move(along), bytes, to, /*areBytes=*/true);
  llvm::Expected<NestOperand> operand = writer.operandOf(op, sums, mapOf(streamed), loops, ranges.size());
  if (!operand)
    return operand.takeError();
  // And over the other summed loops.
  LoopNest rest;
  int64_t taps = 1, repeats = 1;
  SmallVector<int64_t> results;
  for (auto [loop, kind] : llvm::enumerate(kinds)) {
    const bool isReduction = kind != utils::IteratorType::parallel, isLeft = operand->strides[loop] != 0;
    rest.sizes.push_back(isLeft ? ranges[loop] : 1);
    rest.isReduction.push_back(isReduction);
    results.push_back(isReduction ? 1 : rest.sizes.back());
    taps *= isReduction ? rest.sizes.back() : 1;
    if (isReduction && !isLeft && static_cast<int>(loop) != depth)
      repeats *= ranges[loop];
  }
  if (taps > 1) {
    TensorView windows = writer.newBuffer(RankedTensorType::get(results, i32));
    NestOperand target = *operand;
    target.pointer = writer.pointerTo(windows);
    for (auto [loop, stride] : llvm::enumerate(target.strides))
      stride = results[loop] > 1 ? windows.strides[loop] : 0;
    emitSums(std::move(rest), *operand, target, /*areBytes=*/false);
    operand = target;
  }
  NestStage stage(loc);
  stage.body = writer.makeBody({i32, i32}, [&](OpBuilder &inner, Location at, ValueRange arguments) -> Value {
    Value factor = inner.create<arith::ConstantOp>(at, inner.getI32IntegerAttr(static_cast<int32_t>(packedZero() * repeats)));
    return inner.create<arith::SubIOp>(at, arguments[0], inner.create<arith::MulIOp>(at, arguments[1], factor));
  });
  NestOperand products;
  products.element = i32;
  products.stage = 0;
  stage.inputs = {products, *operand};
  return stage;
}

} // namespace

llvm::Expected<std::optional<FactorPacking>> buildIntegerProduct(KernelWriter &writer, linalg::GenericOp op, LoopNest &nest) {
  auto builder = std::make_shared<ProductBuilder>(writer, op);
  if (!builder->match())
    return std::nullopt;
  NestStage stage(op.getLoc());
  stage.products = builder->products;
  llvm::Expected<NestOperand> streamed = builder->stream();
  if (!streamed)
    return streamed.takeError();
  FactorPacking packing;
  stage.inputs = {*streamed, builder->layOut(packing)};
  packing.pack = [builder](int64_t width) { return builder->pack(width); };
  llvm::Expected<NestOperand> start = builder->start();
  if (!start)
    return start.takeError();
  llvm::Expected<std::optional<NestStage>> correction = builder->takeOutPackedZero();
  if (!correction)
    return correction.takeError();
  nest.stages.push_back(stage);
  if (*correction)
    nest.stages.push_back(**correction);
  nest.inits.push_back(*start);
  nest.sizes[builder->depth] = builder->groups;
  return packing;
}

} // namespace tw::cpu
