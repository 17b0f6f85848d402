//===- KernelEmitter.cpp - A kernel function as loops ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/KernelEmitter.h"
#include "compiler/codegen/cpu/IntegerProduct.h"
#include "compiler/codegen/cpu/MemoryPlan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tw::cpu {

static std::string placeOf(Location location) {
  std::string text;
  location->walk([&](Location part) {
    if (auto name = dyn_cast<NameLoc>(part)) {
      text = name.getName().str();
      return WalkResult::interrupt();
    }
    if (auto file = dyn_cast<FileLineColLoc>(part)) {
      text = file.getFilename().str() + ":" + std::to_string(file.getLine()) + ":" + std::to_string(file.getColumn());
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return text.empty() ? "unknown place" : text;
}

llvm::Error errorAt(Operation *op, const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 placeOf(op->getLoc()) + ": '" + op->getName().getStringRef() + "' " + message);
}

std::string packSymbolOf(StringRef symbol) { return ("pack_" + symbol).str(); }

int64_t tensorBytes(RankedTensorType type) { return type.getNumElements() * storageBytes(type.getElementType()); }

void copyElements(ElementsAttr elements, char *memory) {
  auto type = cast<RankedTensorType>(elements.getType());
  int64_t bytes = storageBytes(type.getElementType()), count = type.getNumElements();
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(elements)) {
    ArrayRef<char> data = resource.getRawHandle().getBlob()->getData();
    std::copy(data.begin(), data.begin() + std::min<int64_t>(data.size(), bytes * count), memory);
    return;
  }
  auto dense = cast<DenseElementsAttr>(elements);
  if (type.getElementType().isInteger(1)) {
    for (bool value : dense.getValues<bool>())
      *memory++ = value;
    return;
  }
  ArrayRef<char> raw = dense.getRawData();
  if (!dense.isSplat()) {
    std::copy(raw.begin(), raw.end(), memory);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    std::copy(raw.begin(), raw.begin() + bytes, memory + i * bytes);
}

llvm::Error prepareKernel(func::FuncOp kernel) {
  IRRewriter rewriter(kernel.getContext());
  SmallVector<linalg::LinalgOp> named;
  SmallVector<linalg::SoftmaxOp> softmaxes;
  kernel.walk([&](Operation *op) {
    if (auto softmax = dyn_cast<linalg::SoftmaxOp>(op))
      softmaxes.push_back(softmax);
  });
  for (linalg::SoftmaxOp softmax : softmaxes) {
    rewriter.setInsertionPoint(softmax);
    FailureOr<SmallVector<Value>> results = softmax.decomposeOperation(rewriter);
    if (failed(results))
      return errorAt(softmax, "cannot be decomposed");
    rewriter.replaceOp(softmax, *results);
  }
  kernel.walk([&](linalg::LinalgOp op) {
    if (!isa<linalg::GenericOp, linalg::FillOp>(op))
      named.push_back(op);
  });
  for (linalg::LinalgOp op : named) {
    rewriter.setInsertionPoint(op);
    if (failed(linalg::generalizeNamedOp(rewriter, op)))
      return errorAt(op, "cannot be written as linalg.generic");
  }
  // Producers with one consumer only: nothing is computed twice.
  auto mayFuse = [](OpOperand *operand) {
    auto producer = operand->get().getDefiningOp<linalg::GenericOp>();
    auto consumer = dyn_cast<linalg::GenericOp>(operand->getOwner());
    return producer && consumer && producer->hasOneUse() && producer.getNumLoops() == producer.getNumParallelLoops() &&
           consumer.getNumLoops() == consumer.getNumParallelLoops();
  };
  RewritePatternSet patterns(kernel.getContext());
  linalg::populateElementwiseOpsFusionPatterns(patterns, mayFuse);
  if (failed(applyPatternsAndFoldGreedily(kernel, std::move(patterns))))
    return errorAt(kernel, "did not converge while fusing elementwise ops");
  return llvm::Error::success();
}

namespace {

/// Where the elements of a tensor are, or the one scalar they all equal, or nothing yet (tensor.empty).
struct TensorView {
  Value pointer;
  Value splat;
  /// Index into the workspace buffers, or -1.
  int buffer = -1;
  int64_t offset = 0;
  SmallVector<int64_t> shape;
  SmallVector<int64_t> strides;
  Type element;
};

SmallVector<int64_t> denseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int i = static_cast<int>(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

/// `coefficients . dims + constant`, or failure if the expression is not linear.
LogicalResult linearise(AffineExpr expr, SmallVectorImpl<int64_t> &coefficients, int64_t &constant, int64_t factor) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    coefficients[dim.getPosition()] += factor;
    return success();
  }
  if (auto number = dyn_cast<AffineConstantExpr>(expr)) {
    constant += factor * number.getValue();
    return success();
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return failure();
  if (binary.getKind() == AffineExprKind::Add)
    return success(succeeded(linearise(binary.getLHS(), coefficients, constant, factor)) &&
                   succeeded(linearise(binary.getRHS(), coefficients, constant, factor)));
  if (binary.getKind() == AffineExprKind::Mul)
    if (auto number = dyn_cast<AffineConstantExpr>(binary.getRHS()))
      return linearise(binary.getLHS(), coefficients, constant, factor * number.getValue());
  return failure();
}

/// A nest under construction: its last stage's result is the tensor that later stages may consume.
struct PendingNest {
  LoopNest nest;
  /// For each dimension of that tensor, its loop, or -1 where the tensor has extent 1.
  SmallVector<int> resultLoops;
};

class KernelEmitter {
public:
  KernelEmitter(func::FuncOp kernel, ModuleOp module, StringRef symbol, const NestOptions &options)
      : kernel(kernel), module(module), symbol(symbol), b(kernel.getContext()), options(options) {
    code = addFunction(symbol);
    current = &code;
    b.setInsertionPointToEnd(code.entry);
  }
  KernelEmitter(const KernelEmitter &) = delete;

  llvm::Expected<EmittedKernel> emit();

private:
  /// A function over the table of pointers, and the last of the pointers it reads at its start.
  struct Function {
    Block *entry = nullptr;
    Operation *lastTableLoad = nullptr;
  };
  /// A pointer to the table whose index is known once all constants are: it counts from `base`.
  struct LateIndex {
    enum Base { Packed, Workspace } base;
    unsigned offset;
    LLVM::GEPOp place;
  };

  Function addFunction(StringRef name);
  llvm::Error emitOp(Operation &op);
  llvm::Error emitGeneric(linalg::GenericOp op);
  llvm::Error emitPad(tensor::PadOp op);
  llvm::Error emitReturn(func::ReturnOp op);
  llvm::Expected<PendingNest> buildNest(linalg::GenericOp op);
  llvm::Expected<NestOperand> operandOf(linalg::GenericOp op, Value tensor, AffineMap map, ArrayRef<int> loops,
                                        unsigned loopCount);
  llvm::Expected<NestOperand> operandOf(linalg::GenericOp op, TensorView view, AffineMap map, ArrayRef<int> loops,
                                        unsigned loopCount);
  bool isElementwise(linalg::GenericOp op) const { return op.getNumLoops() == op.getNumParallelLoops(); }
  bool canFuse(linalg::GenericOp producer, linalg::GenericOp consumer) const;

  llvm::Expected<bool> buildIntegerProduct(linalg::GenericOp op, LoopNest &nest);
  void packFactor(linalg::GenericOp op, const TensorView &from, const TensorView &to, const ProductFactor &factor,
                  unsigned group, int depth, int lane);
  void sumFactor(linalg::GenericOp op, const TensorView &from, const TensorView &to, ArrayRef<int64_t> toStrides,
                 AffineMap map, const ProductFactor &factor, int32_t weight);
  void copy(Location loc, const TensorView &from, const TensorView &to, Block *body);
  /// A body that lives as long as this.
  Block *makeBody(TypeRange arguments, function_ref<Value(OpBuilder &, Location, ValueRange)> build);
  Block *widenBody(const ProductFactor &factor, Type to);

  void placeDestinations(Block &body);
  TensorView newBuffer(RankedTensorType type);
  TensorView destinationOf(Value tensor);
  TensorView viewOf(Value tensor);
  Value pointerTo(const TensorView &view);
  Value tablePointer(unsigned index);
  Value tablePointer(LateIndex::Base base, unsigned offset);
  void copy(Location loc, const TensorView &from, const TensorView &to);
  static std::optional<TensorView> collapsed(const TensorView &view, ArrayRef<ReassociationIndices> groups);
  static TensorView expanded(const TensorView &view, ArrayRef<int64_t> shape, ArrayRef<ReassociationIndices> groups);
  static TensorView sliced(TensorView view, ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes,
                           ArrayRef<int64_t> strides);

  func::FuncOp kernel;
  ModuleOp module;
  std::string symbol;
  OpBuilder b;
  const NestOptions &options;
  EmittedKernel result;
  /// The kernel, what packs its constants, and the one of them that is being written.
  Function code, packing;
  Function *current = nullptr;
  std::vector<LateIndex> lateIndices;
  /// Bodies made here rather than found in the kernel.
  std::vector<std::unique_ptr<Block>> bodies;

  DenseMap<Value, TensorView> views;
  /// Where a tensor that is still to be computed must be written: an output, or a part of another tensor.
  DenseMap<Value, TensorView> destinations;
  DenseMap<Value, Value> scalars;
  /// Reductions emitted together with their only consumer.
  DenseMap<Operation *, Operation *> fusedInto;
  /// Table index of a constant among the constants.
  DenseMap<Attribute, unsigned> constantIndices;
  DenseMap<Attribute, Value> constantPointers;
  std::vector<PlannedBuffer> buffers;
  /// The constants that hold the buffers' offsets, known once all lifetimes are.
  std::vector<LLVM::ConstantOp> bufferOffsets;
  Value workspace;
  int64_t step = 0;
};

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

KernelEmitter::Function KernelEmitter::addFunction(StringRef name) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(module.getBody());
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto function = b.create<func::FuncOp>(kernel.getLoc(), name, b.getFunctionType({pointer}, {}));
  return {function.addEntryBlock(), nullptr};
}

Value KernelEmitter::tablePointer(unsigned index) {
  OpBuilder::InsertionGuard guard(b);
  if (current->lastTableLoad)
    b.setInsertionPointAfter(current->lastTableLoad);
  else
    b.setInsertionPointToStart(current->entry);
  auto type = LLVM::LLVMPointerType::get(b.getContext());
  Value table = current->entry->getArgument(0);
  Value place = b.create<LLVM::GEPOp>(kernel.getLoc(), type, type, table,
                                      ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
  auto load = b.create<LLVM::LoadOp>(kernel.getLoc(), type, place);
  current->lastTableLoad = load;
  return load;
}

Value KernelEmitter::tablePointer(LateIndex::Base base, unsigned offset) {
  Value pointer = tablePointer(0);
  auto place = pointer.getDefiningOp<LLVM::LoadOp>().getAddr().getDefiningOp<LLVM::GEPOp>();
  lateIndices.push_back({base, offset, place});
  return pointer;
}

TensorView KernelEmitter::newBuffer(RankedTensorType type) {
  TensorView view;
  view.buffer = static_cast<int>(buffers.size());
  view.shape.assign(type.getShape().begin(), type.getShape().end());
  view.strides = denseStrides(type.getShape());
  view.element = type.getElementType();
  buffers.push_back({tensorBytes(type), step, step, 0});
  Location loc = kernel.getLoc();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfter(workspace.getDefiningOp());
  auto offset = b.create<LLVM::ConstantOp>(loc, b.getI64Type(), b.getI64IntegerAttr(0));
  bufferOffsets.push_back(offset);
  view.pointer = b.create<LLVM::GEPOp>(loc, workspace.getType(), b.getI8Type(), workspace, ValueRange{offset});
  return view;
}

Value KernelEmitter::pointerTo(const TensorView &view) {
  if (view.buffer >= 0)
    buffers[view.buffer].lastStep = step;
  if (view.offset == 0)
    return view.pointer;
  Location loc = kernel.getLoc();
  Value offset = b.create<LLVM::ConstantOp>(loc, b.getI64Type(), b.getI64IntegerAttr(view.offset));
  return b.create<LLVM::GEPOp>(loc, view.pointer.getType(), storageType(view.element), view.pointer,
                               ValueRange{offset});
}

TensorView KernelEmitter::destinationOf(Value tensor) {
  auto it = destinations.find(tensor);
  TensorView view = it != destinations.end() ? it->second : newBuffer(cast<RankedTensorType>(tensor.getType()));
  views[tensor] = view;
  return view;
}

std::optional<TensorView> KernelEmitter::collapsed(const TensorView &view, ArrayRef<ReassociationIndices> groups) {
  TensorView to = view;
  to.shape.clear();
  to.strides.clear();
  for (const ReassociationIndices &group : groups) {
    int64_t size = 1, stride = 1;
    bool first = true;
    for (int64_t dim : llvm::reverse(group)) {
      if (view.shape[dim] == 1)
        continue;
      if (first)
        stride = view.strides[dim];
      else if (!view.splat && view.strides[dim] != stride * size)
        return std::nullopt;
      first = false;
      size *= view.shape[dim];
    }
    to.shape.push_back(size);
    to.strides.push_back(stride);
  }
  return to;
}

TensorView KernelEmitter::expanded(const TensorView &view, ArrayRef<int64_t> shape,
                                   ArrayRef<ReassociationIndices> groups) {
  TensorView to = view;
  to.shape.assign(shape.begin(), shape.end());
  to.strides.assign(shape.size(), 1);
  for (auto [dim, group] : llvm::enumerate(groups)) {
    int64_t stride = view.strides[dim];
    for (int64_t part : llvm::reverse(group)) {
      to.strides[part] = stride;
      stride *= shape[part];
    }
  }
  return to;
}

TensorView KernelEmitter::sliced(TensorView view, ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes,
                                 ArrayRef<int64_t> strides) {
  for (unsigned dim = 0; dim < sizes.size(); ++dim) {
    view.offset += offsets[dim] * view.strides[dim];
    view.strides[dim] *= strides[dim];
    view.shape[dim] = sizes[dim];
  }
  return view;
}

/// Drops the dimensions that a rank-reducing slice leaves out.
static void dropDims(TensorView &view, const llvm::SmallBitVector &dropped) {
  for (int dim = static_cast<int>(dropped.size()) - 1; dim >= 0; --dim)
    if (dropped.test(dim)) {
      view.shape.erase(view.shape.begin() + dim);
      view.strides.erase(view.strides.begin() + dim);
    }
}

Block *KernelEmitter::makeBody(TypeRange arguments, function_ref<Value(OpBuilder &, Location, ValueRange)> build) {
  auto block = std::make_unique<Block>();
  Location loc = kernel.getLoc();
  block->addArguments(arguments, SmallVector<Location>(arguments.size(), loc));
  OpBuilder inner(b.getContext());
  inner.setInsertionPointToEnd(block.get());
  Value value = build(inner, loc, block->getArguments());
  inner.create<linalg::YieldOp>(loc, value);
  bodies.push_back(std::move(block));
  return bodies.back().get();
}

void KernelEmitter::copy(Location loc, const TensorView &from, const TensorView &to) { copy(loc, from, to, nullptr); }

/// `body`, if given, computes an element of `to` from one of `from`.
void KernelEmitter::copy(Location loc, const TensorView &from, const TensorView &to, Block *body) {
  // A tensor.empty: any elements will do, so those that are there do.
  if (!from.splat && !from.pointer)
    return;
  LoopNest nest;
  nest.runsOnce = current == &packing;
  nest.sizes = to.shape;
  nest.isReduction.assign(to.shape.size(), false);
  NestStage stage(loc);
  stage.body = body;
  NestOperand source;
  source.element = from.element;
  if (from.splat)
    source.splat = from.splat;
  else
    source.pointer = pointerTo(from);
  source.strides = from.strides;
  stage.inputs.push_back(source);
  nest.stages.push_back(stage);
  NestOperand target;
  target.element = to.element;
  target.pointer = pointerTo(to);
  target.strides = to.strides;
  nest.stores.push_back({0, 0, target});
  emitLoopNest(b, loc, std::move(nest), options, scalars);
}

/// The elements of a tensor that has been computed.
TensorView KernelEmitter::viewOf(Value tensor) {
  auto it = views.find(tensor);
  assert(it != views.end() && "operands are emitted before their users");
  return it->second;
}

//===----------------------------------------------------------------------===//
// Destinations
//===----------------------------------------------------------------------===//

/// Lets what is returned, concatenated or padded be written where it is wanted. Walks backwards, so that a destination is known
/// before the ops that compute its parts.
void KernelEmitter::placeDestinations(Block &body) {
  auto claim = [&](Value tensor, const TensorView &view) {
    Operation *producer = tensor.getDefiningOp();
    if (producer && isa<linalg::GenericOp, tensor::PadOp, tensor::ConcatOp, tensor::ExpandShapeOp,
                        tensor::CollapseShapeOp, tensor::CastOp>(producer))
      destinations.try_emplace(tensor, view);
  };
  unsigned inputs = kernel.getNumArguments();
  for (auto [index, operand] : llvm::enumerate(body.getTerminator()->getOperands())) {
    auto type = cast<RankedTensorType>(operand.getType());
    TensorView output;
    output.pointer = tablePointer(inputs + index);
    output.shape.assign(type.getShape().begin(), type.getShape().end());
    output.strides = denseStrides(type.getShape());
    output.element = type.getElementType();
    claim(operand, output);
  }
  for (Operation &op : llvm::reverse(body)) {
    if (op.getNumResults() != 1)
      continue;
    auto it = destinations.find(op.getResult(0));
    if (it == destinations.end())
      continue;
    TensorView view = it->second;
    if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
      if (std::optional<TensorView> source = collapsed(view, expand.getReassociationIndices()))
        claim(expand.getSrc(), *source);
    } else if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
      claim(collapse.getSrc(),
            expanded(view, collapse.getSrcType().getShape(), collapse.getReassociationIndices()));
    } else if (auto cast = dyn_cast<tensor::CastOp>(op)) {
      claim(cast.getSource(), view);
    } else if (auto concat = dyn_cast<tensor::ConcatOp>(op)) {
      SmallVector<int64_t> offsets(view.shape.size(), 0), ones(view.shape.size(), 1);
      for (Value part : concat.getInputs()) {
        auto shape = mlir::cast<RankedTensorType>(part.getType()).getShape();
        claim(part, sliced(view, offsets, shape, ones));
        offsets[concat.getDim()] += shape[concat.getDim()];
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// linalg.generic
//===----------------------------------------------------------------------===//

/// Whether every iteration of `consumer` needs exactly the element that the same iteration of `producer` finishes.
bool KernelEmitter::canFuse(linalg::GenericOp producer, linalg::GenericOp consumer) const {
  if (producer->getNumResults() != 1 || !isElementwise(consumer) || destinations.count(producer.getResult(0)))
    return false;
  Value tensor = producer.getResult(0);
  if (!llvm::all_of(tensor.getUsers(), [&](Operation *user) { return user == consumer; }))
    return false;
  auto shape = cast<RankedTensorType>(tensor.getType()).getShape();
  // The tensor's dimensions are distinct loops of a map; those of extent 1 may be anything.
  auto isPermutation = [&](AffineMap map, ArrayRef<int64_t> extents) {
    llvm::SmallDenseSet<unsigned> seen;
    for (auto [expr, extent] : llvm::zip(map.getResults(), extents)) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      if (dim ? !seen.insert(dim.getPosition()).second : extent != 1)
        return false;
    }
    return true;
  };
  auto covered = [&](linalg::GenericOp op, AffineMap map) {
    SmallVector<int64_t> ranges = op.getStaticLoopRanges();
    SmallVector<utils::IteratorType> kinds = op.getIteratorTypesArray();
    for (unsigned loop = 0; loop < ranges.size(); ++loop)
      if (kinds[loop] == utils::IteratorType::parallel && ranges[loop] != 1 && !map.isFunctionOfDim(loop))
        return false;
    return true;
  };
  AffineMap written = producer.getMatchingIndexingMap(producer.getDpsInitOperand(0));
  if (!isPermutation(written, shape) || !covered(producer, written))
    return false;
  AffineMap read;
  for (OpOperand *input : consumer.getDpsInputOperands())
    if (input->get() == tensor) {
      AffineMap map = consumer.getMatchingIndexingMap(input);
      if ((read && read != map) || !isPermutation(map, shape) || !covered(consumer, map))
        return false;
      read = map;
    }
  for (OpOperand &init : consumer.getDpsInitsMutable()) {
    AffineMap map = consumer.getMatchingIndexingMap(&init);
    auto extents = cast<RankedTensorType>(init.get().getType()).getShape();
    if (init.get() == tensor || !isPermutation(map, extents) || !covered(consumer, map))
      return false;
  }
  return static_cast<bool>(read);
}

/// The operand of `op` as seen from the loops of a nest; `loops` maps the loops of `op` to loops of the nest or -1.
llvm::Expected<NestOperand> KernelEmitter::operandOf(linalg::GenericOp op, Value tensor, AffineMap map,
                                                     ArrayRef<int> loops, unsigned loopCount) {
  NestOperand operand;
  if (!isa<RankedTensorType>(tensor.getType())) {
    operand.element = tensor.getType();
    operand.splat = scalars.lookup(tensor);
    return operand;
  }
  return operandOf(op, viewOf(tensor), map, loops, loopCount);
}

llvm::Expected<NestOperand> KernelEmitter::operandOf(linalg::GenericOp op, TensorView view, AffineMap map,
                                                     ArrayRef<int> loops, unsigned loopCount) {
  NestOperand operand;
  operand.element = view.element;
  if (view.splat) {
    operand.splat = view.splat;
    return operand;
  }
  if (!view.pointer)
    return operand;
  operand.strides.assign(loopCount, 0);
  int64_t start = 0;
  for (auto [expr, stride] : llvm::zip(map.getResults(), view.strides)) {
    SmallVector<int64_t> coefficients(map.getNumDims(), 0);
    if (failed(linearise(expr, coefficients, start, stride)))
      return errorAt(op, "has an indexing map that is not linear, which the CPU target does not support");
    for (auto [loop, coefficient] : llvm::zip(loops, coefficients))
      if (loop >= 0)
        operand.strides[loop] += coefficient;
  }
  view.offset += start;
  operand.pointer = pointerTo(view);
  return operand;
}

llvm::Expected<PendingNest> KernelEmitter::buildNest(linalg::GenericOp op) {
  Operation *offender = nullptr;
  if (!isSupportedBody(*op.getBody(), offender))
    return errorAt(offender, "is not supported by the CPU target in the body of a linalg op");
  linalg::GenericOp producer;
  for (Value input : op.getDpsInputs())
    if (auto candidate = input.getDefiningOp<linalg::GenericOp>(); candidate && fusedInto.lookup(candidate) == op)
      producer = candidate;

  PendingNest pending;
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  SmallVector<int> loops(ranges.size(), -1);
  int previous = -1;
  LoopNest &nest = pending.nest;
  if (producer) {
    llvm::Expected<PendingNest> inner = buildNest(producer);
    if (!inner)
      return inner.takeError();
    pending = std::move(*inner);
    previous = static_cast<int>(nest.stages.size()) - 1;
    for (OpOperand *input : op.getDpsInputOperands())
      if (input->get() == producer.getResult(0))
        for (auto [expr, loop] : llvm::zip(op.getMatchingIndexingMap(input).getResults(), pending.resultLoops))
          if (auto dim = dyn_cast<AffineDimExpr>(expr))
            loops[dim.getPosition()] = loop;
  } else {
    nest.sizes = ranges;
    for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray())) {
      nest.isReduction.push_back(kind != utils::IteratorType::parallel);
      loops[loop] = loop;
    }
    nest.accumulates = !isElementwise(op);
  }

  bool isProduct = false;
  if (nest.accumulates && !producer) {
    llvm::Expected<bool> built = buildIntegerProduct(op, nest);
    if (!built)
      return built.takeError();
    isProduct = *built;
  }
  NestStage stage(op.getLoc());
  stage.body = op.getBody();
  for (OpOperand &use : isProduct ? MutableArrayRef<OpOperand>() : op->getOpOperands()) {
    bool isInit = op.isDpsInit(&use);
    NestOperand operand;
    if (producer && use.get() == producer.getResult(0) && !isInit) {
      operand.stage = previous;
      operand.element = cast<RankedTensorType>(use.get().getType()).getElementType();
    } else if (!op.payloadUsesValueFromOperand(&use)) {
      // Only its shape matters.
      operand.element = getElementTypeOrSelf(use.get().getType());
    } else {
      llvm::Expected<NestOperand> built =
          operandOf(op, use.get(), op.getMatchingIndexingMap(&use), loops, nest.sizes.size());
      if (!built)
        return built.takeError();
      operand = std::move(*built);
      if (!operand.inMemory() && !operand.splat)
        return errorAt(op, "reads elements of a tensor that nothing has written");
    }
    if (isInit && nest.accumulates && !producer && !operand.inMemory() && !operand.splat)
      return errorAt(op, "reduces without using its accumulator, which the CPU target does not support");
    (isInit && nest.accumulates && !producer ? nest.inits : stage.inputs).push_back(operand);
  }
  if (!isProduct)
    nest.stages.push_back(stage);

  pending.resultLoops.clear();
  for (AffineExpr expr : op.getMatchingIndexingMap(op.getDpsInitOperand(0)).getResults()) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    pending.resultLoops.push_back(dim ? loops[dim.getPosition()] : -1);
  }
  // Stores go by the same loops.
  nest.stores.clear();
  bool isLast = !fusedInto.count(op);
  if (isLast)
    for (auto [index, value] : llvm::enumerate(op->getResults())) {
      TensorView view = destinationOf(value);
      NestOperand to;
      to.element = view.element;
      to.strides.assign(nest.sizes.size(), 0);
      AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(index));
      int64_t start = 0;
      for (auto [expr, stride] : llvm::zip(map.getResults(), view.strides)) {
        SmallVector<int64_t> coefficients(map.getNumDims(), 0);
        if (failed(linearise(expr, coefficients, start, stride)))
          return errorAt(op, "has an output map that is not linear, which the CPU target does not support");
        for (auto [loop, coefficient] : llvm::zip(loops, coefficients))
          if (loop >= 0)
            to.strides[loop] += coefficient;
      }
      view.offset += start;
      to.pointer = pointerTo(view);
      nest.stores.push_back({static_cast<int>(nest.stages.size()) - 1, static_cast<unsigned>(index), to});
    }
  return pending;
}

//===----------------------------------------------------------------------===//
// Products of bytes
//===----------------------------------------------------------------------===//

/// The element as the product instructions want it: 16 bits without the zero point, or a byte whose sign is given by `to`
/// being one byte: unsigned numbers are streamed, signed ones are packed.
Block *KernelEmitter::widenBody(const ProductFactor &factor, Type to) {
  return makeBody({b.getI8Type()}, [&](OpBuilder &inner, Location loc, ValueRange arguments) -> Value {
    auto constant = [&](int64_t value) {
      return inner.create<arith::ConstantOp>(loc, inner.getIntegerAttr(to, value)).getResult();
    };
    if (to.isInteger(8))
      return inner.create<arith::XOrIOp>(loc, arguments[0], constant(-128));
    Value wide = factor.isSigned ? inner.create<arith::ExtSIOp>(loc, to, arguments[0]).getResult()
                                 : inner.create<arith::ExtUIOp>(loc, to, arguments[0]);
    return inner.create<arith::SubIOp>(loc, wide, constant(factor.zero));
  });
}

/// Writes `from`, whose dimension `depth` is summed and whose dimension `lane` is vectorised, as [others, depth / group, lane,
/// group], with zeros where the last group is not full.
void KernelEmitter::packFactor(linalg::GenericOp op, const TensorView &from, const TensorView &to,
                               const ProductFactor &factor, unsigned group, int depth, int lane) {
  Block *body = nullptr;
  if (group == 2 || !factor.isSigned)
    body = widenBody(factor, to.element);
  TensorView ordered = from;
  ordered.shape.clear();
  ordered.strides.clear();
  for (int dim = 0; dim < static_cast<int>(from.shape.size()); ++dim)
    if (dim != depth && dim != lane) {
      ordered.shape.push_back(from.shape[dim]);
      ordered.strides.push_back(from.strides[dim]);
    }
  for (int dim : {depth, lane}) {
    ordered.shape.push_back(from.shape[dim]);
    ordered.strides.push_back(from.strides[dim]);
  }
  unsigned rank = ordered.shape.size(), depthAt = rank - 2;
  SmallVector<int64_t> ones(rank, 1);
  for (unsigned part = 0; part < group; ++part) {
    int64_t filled = (from.shape[depth] - part + group - 1) / group, groups = to.shape[depthAt];
    // This part of every group.
    TensorView place = to;
    place.offset += part;
    place.shape.pop_back();
    place.strides.pop_back();
    SmallVector<int64_t> offsets(rank, 0), sizes(ordered.shape), steps(ones);
    offsets[depthAt] = part;
    sizes[depthAt] = filled;
    steps[depthAt] = group;
    TensorView source = sliced(ordered, offsets, sizes, steps);
    offsets[depthAt] = 0;
    copy(op.getLoc(), source, sliced(place, offsets, sizes, ones), body);
    if (filled == groups)
      continue;
    offsets[depthAt] = filled;
    sizes[depthAt] = groups - filled;
    TensorView zero;
    zero.element = to.element;
    zero.splat = b.create<arith::ConstantOp>(op.getLoc(), b.getIntegerAttr(to.element, 0));
    zero.strides.assign(rank, 0);
    copy(op.getLoc(), zero, sliced(place, offsets, sizes, ones));
  }
}

/// to[...] = weight * the sum of a factor's signed bytes over the reduction loops of `op`.
void KernelEmitter::sumFactor(linalg::GenericOp op, const TensorView &from, const TensorView &to,
                              ArrayRef<int64_t> toStrides, AffineMap map, const ProductFactor &factor,
                              int32_t weight) {
  Location loc = op.getLoc();
  LoopNest nest;
  nest.accumulates = true;
  nest.runsOnce = current == &packing;
  NestOperand source, init, target;
  source.element = from.element;
  source.pointer = pointerTo(from);
  source.strides = from.strides;
  target.element = init.element = b.getI32Type();
  target.pointer = pointerTo(to);
  init.splat = b.create<arith::ConstantOp>(loc, b.getI32IntegerAttr(0));
  SmallVector<utils::IteratorType> kinds = op.getIteratorTypesArray();
  for (auto [expr, size] : llvm::zip(map.getResults(), from.shape)) {
    unsigned loop = cast<AffineDimExpr>(expr).getPosition();
    nest.sizes.push_back(size);
    nest.isReduction.push_back(kinds[loop] != utils::IteratorType::parallel);
    target.strides.push_back(nest.isReduction.back() ? 0 : toStrides[loop]);
  }
  NestStage stage(loc);
  Type i32 = b.getI32Type();
  stage.body = makeBody({b.getI8Type(), i32}, [&](OpBuilder &inner, Location at, ValueRange arguments) -> Value {
    auto constant = [&](int32_t value) {
      return inner.create<arith::ConstantOp>(at, inner.getI32IntegerAttr(value)).getResult();
    };
    Value wide = factor.isSigned ? inner.create<arith::ExtSIOp>(at, i32, arguments[0]).getResult()
                                 : inner.create<arith::ExtUIOp>(at, i32, arguments[0]);
    if (!factor.isSigned)
      wide = inner.create<arith::SubIOp>(at, wide, constant(128));
    Value scaled = inner.create<arith::MulIOp>(at, wide, constant(weight));
    return inner.create<arith::AddIOp>(at, arguments[1], scaled);
  });
  stage.inputs.push_back(source);
  nest.stages.push_back(stage);
  nest.inits.push_back(init);
  nest.stores.push_back({0, 0, target});
  emitLoopNest(b, loc, std::move(nest), options, scalars);
}

/// Where the processor adds several products of small integers at once: rewrites a convolution or matrix product of bytes for
/// it. One factor is streamed, a group of neighbours at a time; the other is packed so that the groups of neighbouring results
/// follow one another. Returns whether `nest` now has its loops, stage and accumulators.
///
/// With bytes, the streamed factor must be unsigned and the packed one signed, and the zero point of the former is taken out
/// beforehand: sum((a - z) * w) = sum(a * w) - z * sum(w). With 16 bits, both are stored without their zero points.
llvm::Expected<bool> KernelEmitter::buildIntegerProduct(linalg::GenericOp op, LoopNest &nest) {
  unsigned group = options.machine.integerProducts;
  std::optional<IntegerProduct> product = matchIntegerProduct(op);
  if (!product || group == 1)
    return false;
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  SmallVector<utils::IteratorType> kinds = op.getIteratorTypesArray();
  auto mapOf = [&](const ProductFactor &factor) {
    return op.getMatchingIndexingMap(op.getDpsInputOperand(factor.operand));
  };
  // The lanes: the innermost loop of the result, on which only one factor depends.
  AffineMap written = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  int lane = -1;
  for (AffineExpr expr : written.getResults())
    if (auto dim = dyn_cast<AffineDimExpr>(expr); dim && ranges[dim.getPosition()] > 1)
      lane = static_cast<int>(dim.getPosition());
  if (lane < 0 || ranges[lane] < 8)
    return false;
  if (mapOf(product->factors[0]).isFunctionOfDim(lane))
    std::swap(product->factors[0], product->factors[1]);
  const ProductFactor &streamed = product->factors[0], &packed = product->factors[1];
  AffineMap streamedMap = mapOf(streamed), packedMap = mapOf(packed);
  Value packedTensor = op.getDpsInputs()[packed.operand];
  TensorView a = viewOf(op.getDpsInputs()[streamed.operand]), w = viewOf(packedTensor);
  if (streamedMap.isFunctionOfDim(lane) || !packedMap.isFunctionOfDim(lane) || !packedMap.isProjectedPermutation() ||
      !a.pointer || !w.pointer)
    return false;
  // The depth: the longest reduction along which the streamed factor lies contiguously.
  int64_t start = 0;
  SmallVector<int64_t> coefficients(ranges.size(), 0);
  for (auto [expr, stride] : llvm::zip(streamedMap.getResults(), a.strides))
    if (failed(linearise(expr, coefficients, start, stride)))
      return false;
  int depth = -1;
  for (unsigned loop = 0; loop < ranges.size(); ++loop)
    if (kinds[loop] != utils::IteratorType::parallel && coefficients[loop] == 1 && packedMap.isFunctionOfDim(loop) &&
        ranges[loop] > 1 && (depth < 0 || ranges[loop] > ranges[depth]))
      depth = static_cast<int>(loop);
  if (depth < 0)
    return false;

  OpOperand *init = op.getDpsInitOperand(0);
  TensorView initial = viewOf(init->get());
  bool startsAtZero = initial.splat && matchPattern(initial.splat, m_Zero());
  int32_t streamedZero = streamed.zero + (streamed.isSigned ? 128 : 0);
  int32_t packedZero = packed.zero - (packed.isSigned ? 0 : 128);
  if (group == 4 && (packedZero != 0 || (streamedZero != 0 && !startsAtZero)))
    group = 2;
  Type small = group == 4 ? b.getI8Type() : b.getIntegerType(16);
  Type i32 = b.getI32Type();

  // The last group of a row may reach beyond it, so beyond the tensor at its end: only our own memory has room there.
  if (group == 2 || streamed.isSigned || (ranges[depth] % group != 0 && a.buffer < 0)) {
    TensorView converted = newBuffer(RankedTensorType::get(a.shape, small));
    buffers.back().bytes += bufferAlignment;
    Block *body = group == 2 || streamed.isSigned ? widenBody(streamed, small) : nullptr;
    copy(op.getLoc(), a, converted, body);
    a = converted;
  }
  NestStage stage(op.getLoc());
  stage.products = group;
  llvm::Expected<NestOperand> streamedOperand =
      operandOf(op, a, streamedMap, llvm::to_vector(llvm::seq<int>(0, ranges.size())), ranges.size());
  if (!streamedOperand)
    return streamedOperand.takeError();
  streamedOperand->element = i32;
  streamedOperand->unit = small;
  streamedOperand->strides[depth] *= group;
  stage.inputs.push_back(*streamedOperand);

  // Packed: [others, depth / group, lane, group].
  SmallVector<int64_t> shape, sumShape;
  SmallVector<unsigned> order;
  int depthAt = 0, laneAt = 0;
  for (auto [at, expr] : llvm::enumerate(packedMap.getResults())) {
    int loop = static_cast<int>(cast<AffineDimExpr>(expr).getPosition());
    if (loop == depth)
      depthAt = static_cast<int>(at);
    else if (loop == lane)
      laneAt = static_cast<int>(at);
    else {
      order.push_back(loop);
      shape.push_back(ranges[loop]);
    }
  }
  order.append({static_cast<unsigned>(depth), static_cast<unsigned>(lane)});
  int64_t groups = (ranges[depth] + group - 1) / group;
  shape.append({groups, ranges[lane]});
  NestOperand packedOperand;
  packedOperand.element = i32;
  packedOperand.strides.assign(ranges.size(), 0);
  SmallVector<int64_t> sumStrides(ranges.size(), 0);
  int64_t stride = 1, sumStride = 1;
  for (unsigned i = order.size(); i-- > 0;) {
    packedOperand.strides[order[i]] = stride;
    stride *= shape[i];
    if (kinds[order[i]] == utils::IteratorType::parallel) {
      sumStrides[order[i]] = sumStride;
      sumStride *= shape[i];
    }
  }
  shape.push_back(group);
  bool needsSum = group == 4 && streamedZero != 0;
  auto smallType = RankedTensorType::get(shape, small);
  auto sumType = RankedTensorType::get({sumStride}, i32);
  auto fill = [&](const TensorView &from, const TensorView &to, const TensorView &sum) {
    packFactor(op, from, to, packed, group, depthAt, laneAt);
    if (needsSum)
      sumFactor(op, from, sum, sumStrides, packedMap, packed, -streamedZero);
  };
  auto viewAt = [&](Value pointer, RankedTensorType type) {
    TensorView view;
    view.pointer = pointer;
    view.shape.assign(type.getShape().begin(), type.getShape().end());
    view.strides = denseStrides(type.getShape());
    view.element = type.getElementType();
    return view;
  };
  TensorView packedView, sumView;
  auto constant = packedTensor.getDefiningOp<arith::ConstantOp>();
  if (constant) {
    // Once, by the function that runs before the kernel.
    unsigned index = result.packedBytes.size();
    result.packedBytes.push_back(tensorBytes(smallType));
    if (needsSum)
      result.packedBytes.push_back(tensorBytes(sumType));
    {
      OpBuilder::InsertionGuard guard(b);
      if (!packing.entry)
        packing = addFunction(packSymbolOf(symbol));
      b.setInsertionPointToEnd(packing.entry);
      current = &packing;
      TensorView from = w;
      from.pointer = tablePointer(kernel.getNumArguments() + kernel.getNumResults() +
                                  constantIndices.lookup(constant.getValue()));
      TensorView to = viewAt(tablePointer(LateIndex::Packed, index), smallType), sum;
      if (needsSum)
        sum = viewAt(tablePointer(LateIndex::Packed, index + 1), sumType);
      b.setInsertionPointToEnd(packing.entry);
      fill(from, to, sum);
      current = &code;
    }
    packedView = viewAt(tablePointer(LateIndex::Packed, index), smallType);
    if (needsSum)
      sumView = viewAt(tablePointer(LateIndex::Packed, index + 1), sumType);
  } else {
    packedView = newBuffer(smallType);
    if (needsSum)
      sumView = newBuffer(sumType);
    fill(w, packedView, sumView);
  }
  packedOperand.pointer = pointerTo(packedView);
  stage.inputs.push_back(packedOperand);
  nest.sizes[depth] = groups;
  nest.stages.push_back(stage);

  if (needsSum) {
    NestOperand start;
    start.element = i32;
    start.pointer = pointerTo(sumView);
    start.strides = sumStrides;
    nest.inits.push_back(start);
  } else {
    llvm::Expected<NestOperand> start = operandOf(op, init->get(), op.getMatchingIndexingMap(init),
                                                  llvm::to_vector(llvm::seq<int>(0, ranges.size())), ranges.size());
    if (!start)
      return start.takeError();
    if (!start->inMemory() && !start->splat)
      return errorAt(op, "reads elements of a tensor that nothing has written");
    nest.inits.push_back(*start);
  }
  return true;
}

llvm::Error KernelEmitter::emitGeneric(linalg::GenericOp op) {
  if (!op.hasPureTensorSemantics())
    return errorAt(op, "works on memory, but the CPU target takes tensors");
  if (fusedInto.count(op))
    return llvm::Error::success();
  llvm::Expected<PendingNest> pending = buildNest(op);
  if (!pending)
    return pending.takeError();
  emitLoopNest(b, op.getLoc(), std::move(pending->nest), options, scalars);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The other ops
//===----------------------------------------------------------------------===//

llvm::Error KernelEmitter::emitPad(tensor::PadOp op) {
  Value padding = op.getConstantPaddingValue();
  if (!padding)
    return errorAt(op, "pads with something other than a constant, which the CPU target does not support");
  if (llvm::any_of(op.getStaticLow(), ShapedType::isDynamic) || llvm::any_of(op.getStaticHigh(), ShapedType::isDynamic))
    return errorAt(op, "has dynamic padding, but the CPU target needs static shapes");
  Value fill = scalars.lookup(padding);
  if (!fill) {
    Attribute value;
    if (!matchPattern(padding, m_Constant(&value)))
      return errorAt(op, "pads with something other than a constant, which the CPU target does not support");
    fill = b.create<arith::ConstantOp>(op.getLoc(), cast<TypedAttr>(value));
  }
  TensorView source = viewOf(op.getSource()), target = destinationOf(op.getResult());
  unsigned rank = target.shape.size();
  SmallVector<int64_t> ones(rank, 1), offsets(rank, 0), sizes(target.shape);
  TensorView filled;
  filled.splat = fill;
  filled.element = target.element;
  filled.strides.assign(rank, 0);
  // Dimension by dimension: the two borders over what the earlier dimensions left, then the interior.
  for (unsigned dim = 0; dim < rank; ++dim) {
    int64_t low = op.getStaticLow()[dim], high = op.getStaticHigh()[dim], size = sizes[dim];
    if (low < 0 || high < 0)
      return errorAt(op, "has negative padding, which the CPU target does not support");
    for (auto [start, extent] : {std::pair(int64_t(0), low), std::pair(size - high, high)}) {
      if (!extent)
        continue;
      offsets[dim] = start;
      sizes[dim] = extent;
      copy(op.getLoc(), filled, sliced(target, offsets, sizes, ones));
    }
    offsets[dim] = low;
    sizes[dim] = size - low - high;
  }
  copy(op.getLoc(), source, sliced(target, offsets, sizes, ones));
  return llvm::Error::success();
}

llvm::Error KernelEmitter::emitReturn(func::ReturnOp op) {
  unsigned inputs = kernel.getNumArguments();
  llvm::SmallDenseSet<Value> done;
  for (auto [index, value] : llvm::enumerate(op.getOperands())) {
    // Only the first return of a tensor can have been computed in its place.
    if (destinations.count(value) && done.insert(value).second)
      continue;
    TensorView view = viewOf(value), output = view;
    if (!view.splat && !view.pointer)
      return errorAt(op, "returns a tensor that nothing has written");
    output.splat = {};
    output.buffer = -1;
    output.offset = 0;
    output.pointer = tablePointer(inputs + index);
    output.strides = denseStrides(view.shape);
    copy(op.getLoc(), view, output);
  }
  b.create<func::ReturnOp>(op.getLoc());
  return llvm::Error::success();
}

llvm::Error KernelEmitter::emitOp(Operation &op) {
  for (Value value : llvm::concat<Value>(SmallVector<Value>(op.getOperands()), SmallVector<Value>(op.getResults())))
    if (auto type = dyn_cast<RankedTensorType>(value.getType())) {
      if (!type.hasStaticShape())
        return errorAt(&op, "has a dynamic shape, but the CPU target needs static shapes");
      if (!type.getElementType().isSignlessIntOrFloat())
        return errorAt(&op, "has an element type that the CPU target does not support");
    }
  auto emptyView = [&](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    TensorView view;
    view.shape.assign(type.getShape().begin(), type.getShape().end());
    view.strides = denseStrides(type.getShape());
    view.element = type.getElementType();
    return view;
  };
  // A tensor that is only another look at one already in memory; moved if it has to be somewhere else.
  auto alias = [&](Value value, const TensorView &view) {
    auto it = destinations.find(value);
    bool placed = it != destinations.end();
    if (placed && (it->second.pointer != view.pointer || it->second.offset != view.offset)) {
      copy(op.getLoc(), view, it->second);
      views[value] = it->second;
    } else {
      views[value] = view;
    }
  };

  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (!isa<RankedTensorType>(constant.getType())) {
      scalars[constant] = b.clone(op)->getResult(0);
      return llvm::Error::success();
    }
    auto elements = dyn_cast<ElementsAttr>(constant.getValue());
    bool known = elements && (isa<DenseElementsAttr>(elements) ||
                              (isa<DenseResourceElementsAttr>(elements) &&
                               cast<DenseResourceElementsAttr>(elements).getRawHandle().getBlob()));
    if (!known)
      return errorAt(&op, "has a value whose elements are not stored densely");
    TensorView view = emptyView(constant);
    if (auto splat = dyn_cast<SplatElementsAttr>(elements)) {
      auto value = cast<TypedAttr>(splat.getSplatValue<Attribute>());
      view.splat = b.create<arith::ConstantOp>(op.getLoc(), value);
    } else {
      Value &pointer = constantPointers[elements];
      if (!pointer) {
        constantIndices[elements] = result.constants.size();
        pointer = tablePointer(kernel.getNumArguments() + kernel.getNumResults() + result.constants.size());
        result.constants.push_back(elements);
      }
      view.pointer = pointer;
    }
    views[constant] = view;
    return llvm::Error::success();
  }
  if (auto empty = dyn_cast<tensor::EmptyOp>(op)) {
    views[empty] = emptyView(empty);
    return llvm::Error::success();
  }
  if (auto fill = dyn_cast<linalg::FillOp>(op)) {
    TensorView view = emptyView(fill.getResult(0));
    view.splat = scalars.lookup(fill.getInputs()[0]);
    if (view.splat.getType() != view.element)
      return errorAt(&op, "fills with a value of another type than the tensor's");
    views[fill.getResult(0)] = view;
    return llvm::Error::success();
  }
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return emitGeneric(generic);
  if (auto pad = dyn_cast<tensor::PadOp>(op))
    return emitPad(pad);
  if (auto concat = dyn_cast<tensor::ConcatOp>(op)) {
    TensorView target = destinationOf(concat);
    SmallVector<int64_t> offsets(target.shape.size(), 0), ones(target.shape.size(), 1);
    for (Value part : concat.getInputs()) {
      TensorView source = viewOf(part), place = sliced(target, offsets, source.shape, ones);
      bool inPlace = source.pointer == place.pointer && source.offset == place.offset && !source.splat;
      if (!inPlace)
        copy(op.getLoc(), source, place);
      offsets[concat.getDim()] += source.shape[concat.getDim()];
    }
    return llvm::Error::success();
  }
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op)) {
    if (!insert.getOffsets().empty() || !insert.getSizes().empty() || !insert.getStrides().empty())
      return errorAt(&op, "has dynamic offsets, but the CPU target needs static ones");
    TensorView target = destinationOf(insert), into = viewOf(insert.getDest());
    if (into.pointer || into.splat)
      copy(op.getLoc(), into, target);
    TensorView place =
        sliced(target, insert.getStaticOffsets(), insert.getStaticSizes(), insert.getStaticStrides());
    dropDims(place, insert.getDroppedDims());
    copy(op.getLoc(), viewOf(insert.getSource()), place);
    return llvm::Error::success();
  }
  if (auto extract = dyn_cast<tensor::ExtractSliceOp>(op)) {
    if (!extract.getOffsets().empty() || !extract.getSizes().empty() || !extract.getStrides().empty())
      return errorAt(&op, "has dynamic offsets, but the CPU target needs static ones");
    TensorView view = sliced(viewOf(extract.getSource()), extract.getStaticOffsets(), extract.getStaticSizes(),
                             extract.getStaticStrides());
    dropDims(view, extract.getDroppedDims());
    alias(extract, view);
    return llvm::Error::success();
  }
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    alias(expand, expanded(viewOf(expand.getSrc()), expand.getResultType().getShape(),
                           expand.getReassociationIndices()));
    return llvm::Error::success();
  }
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    TensorView source = viewOf(collapse.getSrc());
    std::optional<TensorView> view = collapsed(source, collapse.getReassociationIndices());
    if (!view) {
      // The parts do not follow one another in memory.
      TensorView dense = newBuffer(collapse.getSrcType());
      copy(op.getLoc(), source, dense);
      view = collapsed(dense, collapse.getReassociationIndices());
    }
    alias(collapse, *view);
    return llvm::Error::success();
  }
  if (auto cast = dyn_cast<tensor::CastOp>(op)) {
    alias(cast, viewOf(cast.getSource()));
    return llvm::Error::success();
  }
  if (auto ret = dyn_cast<func::ReturnOp>(op))
    return emitReturn(ret);
  return errorAt(&op, "is not supported by the CPU target");
}

llvm::Expected<EmittedKernel> KernelEmitter::emit() {
  if (!kernel.getBody().hasOneBlock())
    return errorAt(kernel, "has more than one block, but the CPU target takes straight-line kernels");
  Block &source = kernel.getBody().front();
  for (auto [index, argument] : llvm::enumerate(source.getArguments())) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || !type.hasStaticShape() || !type.getElementType().isSignlessIntOrFloat())
      return errorAt(kernel, "has an argument that is not a tensor of static shape");
    TensorView view;
    view.pointer = tablePointer(index);
    view.shape.assign(type.getShape().begin(), type.getShape().end());
    view.strides = denseStrides(type.getShape());
    view.element = type.getElementType();
    views[argument] = view;
  }
  for (Type type : kernel.getResultTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type); !tensor || !tensor.hasStaticShape())
      return errorAt(kernel, "has a result that is not a tensor of static shape");
  placeDestinations(source);

  workspace = tablePointer(LateIndex::Workspace, 0);

  for (Operation &op : source)
    if (auto producer = dyn_cast<linalg::GenericOp>(op); producer && !isElementwise(producer))
      for (Operation *user : producer->getUsers())
        if (auto consumer = dyn_cast<linalg::GenericOp>(user); consumer && canFuse(producer, consumer)) {
          // One reduction for each consumer: two would need two nests.
          bool taken = llvm::any_of(fusedInto, [&](auto &entry) { return entry.second == consumer; });
          if (!taken)
            fusedInto[producer] = consumer;
        }

  for (Operation &op : source) {
    if (llvm::Error error = emitOp(op))
      return error;
    ++step;
  }

  if (packing.entry) {
    b.setInsertionPointToEnd(packing.entry);
    b.create<func::ReturnOp>(kernel.getLoc());
  }
  unsigned packed = kernel.getNumArguments() + kernel.getNumResults() + result.constants.size();
  for (LateIndex &late : lateIndices) {
    unsigned base = late.base == LateIndex::Packed ? packed : packed + result.packedBytes.size();
    late.place.setRawConstantIndices({static_cast<int32_t>(base + late.offset)});
  }
  result.workspaceBytes = planMemory(buffers);
  for (auto [offset, buffer] : llvm::zip(bufferOffsets, buffers))
    offset.setValueAttr(b.getI64IntegerAttr(buffer.offset));
  return std::move(result);
}

} // namespace

llvm::Expected<EmittedKernel> emitKernel(func::FuncOp kernel, ModuleOp module, StringRef symbol,
                                         const NestOptions &options) {
  return KernelEmitter(kernel, module, symbol, options).emit();
}

} // namespace tw::cpu
