//===- LoopNest.cpp - One kernel step as linear loops ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/LoopNest.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include <numeric>

using namespace mlir;

namespace tw::cpu {

Type storageType(Type element) {
  return element.isInteger(1) ? IntegerType::get(element.getContext(), 8) : element;
}

int64_t storageBytes(Type element) { return (storageType(element).getIntOrFloatBitWidth() + 7) / 8; }

bool isSupportedBody(Block &body, Operation *&offender) {
  for (Operation &op : body.without_terminator()) {
    bool known = isa<arith::ConstantOp>(op) || OpTrait::hasElementwiseMappableTraits(&op);
    auto isScalar = [](Type type) { return type.isIntOrFloat(); };
    if (!known || op.getNumRegions() || !llvm::all_of(op.getResultTypes(), isScalar) ||
        !llvm::all_of(op.getOperandTypes(), isScalar)) {
      offender = &op;
      return false;
    }
  }
  return true;
}

namespace {

/// Below this many vector iterations a loop nest stays on one thread: waking the others costs some microseconds.
constexpr int64_t minParallelIterations = 4096;
/// Weights beyond this many bytes are walked once, with the pixels inside, instead of once per row of pixels.
constexpr int64_t residentBytes = 128 * 1024;

/// A run of `width` consecutive elements along the vector loop.
struct Piece {
  int64_t offset = 0;
  int64_t width = 1;
};

/// Vector registers' worth of work along the vector loop: `count` blocks of `pieces`, the first at `start`, `step` apart.
struct Block1D {
  int64_t start = 0;
  int64_t count = 1;
  int64_t step = 0;
  SmallVector<Piece> pieces;
};

/// An op that combines an accumulator with a value and may be reassociated.
struct Combiner {
  Operation *op = nullptr;
  vector::CombiningKind kind = vector::CombiningKind::ADD;
};

std::optional<Combiner> matchCombiner(Block &body) {
  Operation *yield = body.getTerminator();
  if (yield->getNumOperands() != 1)
    return std::nullopt;
  Operation *op = yield->getOperand(0).getDefiningOp();
  Value accumulator = body.getArguments().back();
  if (!op || op->getBlock() != &body || op->getNumOperands() != 2 || !accumulator.hasOneUse() ||
      (op->getOperand(0) != accumulator && op->getOperand(1) != accumulator))
    return std::nullopt;
  using Kind = vector::CombiningKind;
  auto kind = llvm::TypeSwitch<Operation *, std::optional<Kind>>(op)
                  .Case<arith::AddFOp, arith::AddIOp>([](auto) { return Kind::ADD; })
                  .Case<arith::MulFOp, arith::MulIOp>([](auto) { return Kind::MUL; })
                  .Case([](arith::MaximumFOp) { return Kind::MAXIMUMF; })
                  .Case([](arith::MinimumFOp) { return Kind::MINIMUMF; })
                  .Case([](arith::MaxSIOp) { return Kind::MAXSI; })
                  .Case([](arith::MinSIOp) { return Kind::MINSI; })
                  .Case([](arith::MaxUIOp) { return Kind::MAXUI; })
                  .Case([](arith::MinUIOp) { return Kind::MINUI; })
                  .Default([](Operation *) { return std::nullopt; });
  if (!kind)
    return std::nullopt;
  return Combiner{op, *kind};
}

class NestEmitter {
public:
  NestEmitter(OpBuilder &builder, Location loc, LoopNest nest, const NestOptions &options,
              const DenseMap<Value, Value> &scalars)
      : b(builder), loc(loc), nest(std::move(nest)), options(options), scalars(scalars) {}

  void emit();

private:
  void simplify();
  void collectOperands();
  void chooseVectorLoop();
  void chooseBlockLoop();
  SmallVector<Block1D> blocksOfVectorLoop() const;
  int64_t accumulatorLimit() const;
  int64_t footprint(const NestOperand &operand) const;

  using Pointers = SmallVector<Value>;
  Pointers advanced(const Pointers &from, int dim, int64_t step, Value index);
  Pointers advanced(const Pointers &from, int dim, int64_t offset);
  void emitBlock(const Pointers &base, const Block1D &block, int64_t parallelWork);
  void emitLoops(const Pointers &base, ArrayRef<std::array<int64_t, 3>> loops, unsigned parallelLoops,
                 function_ref<void(const Pointers &)> inner);
  void emitMicroKernel(const Pointers &base, ArrayRef<Piece> pieces, int64_t rows);
  void emitVectorReduction(const Pointers &base, int64_t rows);
  SmallVector<Value> emitReductionLoops(const Pointers &base, ArrayRef<int> dims, ArrayRef<Value> accumulators,
                                        function_ref<SmallVector<Value>(const Pointers &, ArrayRef<Value>)> inner);

  Value constantIndex(int64_t value) { return b.create<arith::ConstantIndexOp>(loc, value); }
  Value offsetPointer(Value pointer, Type element, int64_t offset);
  Value loadOperand(unsigned slot, const Pointers &base, int64_t row, const Piece &piece);
  void storeResult(const NestStore &store, unsigned slot, const Pointers &base, int64_t row, const Piece &piece,
                   Value value);
  Value toWidth(Value value, int64_t width);
  SmallVector<Value> evaluate(const NestStage &stage, ArrayRef<Value> arguments, int64_t width, bool contract);
  void finish(const Pointers &base, ArrayRef<Piece> pieces, int64_t rows,
              function_ref<SmallVector<Value>(int64_t row, unsigned piece)> stageZero);

  int64_t stride(const NestOperand &operand, int dim) const {
    return dim < 0 || operand.strides.empty() ? 0 : operand.strides[dim];
  }

  OpBuilder &b;
  Location loc;
  LoopNest nest;
  const NestOptions &options;
  const DenseMap<Value, Value> &scalars;

  /// Every operand of the nest, in a fixed order; a "slot" is an index here.
  SmallVector<NestOperand *> slots;
  SmallVector<SmallVector<unsigned>> inputSlots;
  SmallVector<unsigned> initSlots, storeSlots;

  int vectorDim = -1;
  int64_t lanes = 1;
  /// The vector loop is a reduction: accumulators are vectors that are combined at the end.
  bool vectorReduction = false;
  std::optional<Combiner> combiner;
  /// The parallel loop whose iterations share a micro-kernel, or -1.
  int rowDim = -1;
};

//===----------------------------------------------------------------------===//
// Choosing the loop structure
//===----------------------------------------------------------------------===//

void NestEmitter::collectOperands() {
  auto add = [&](NestOperand &operand) {
    slots.push_back(&operand);
    return static_cast<unsigned>(slots.size() - 1);
  };
  inputSlots.resize(nest.stages.size());
  for (auto [stage, list] : llvm::zip(nest.stages, inputSlots))
    for (NestOperand &operand : stage.inputs)
      list.push_back(add(operand));
  for (NestOperand &operand : nest.inits)
    initSlots.push_back(add(operand));
  for (NestStore &store : nest.stores)
    storeSlots.push_back(add(store.to));
}

/// Drops loops of one iteration and merges every pair of loops that all operands walk as one.
void NestEmitter::simplify() {
  auto erase = [&](unsigned dim) {
    nest.sizes.erase(nest.sizes.begin() + dim);
    nest.isReduction.erase(nest.isReduction.begin() + dim);
    for (NestOperand *operand : slots)
      if (!operand->strides.empty())
        operand->strides.erase(operand->strides.begin() + dim);
  };
  for (unsigned dim = nest.sizes.size(); dim-- > 0;)
    if (nest.sizes[dim] == 1)
      erase(dim);
  auto mergeable = [&](unsigned outer, unsigned inner) {
    return nest.isReduction[outer] == nest.isReduction[inner] && llvm::all_of(slots, [&](NestOperand *operand) {
             return !operand->inMemory() || operand->strides[outer] == operand->strides[inner] * nest.sizes[inner];
           });
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (unsigned outer = 0; outer < nest.sizes.size() && !changed; ++outer)
      for (unsigned inner = 0; inner < nest.sizes.size() && !changed; ++inner)
        if (outer != inner && mergeable(outer, inner)) {
          nest.sizes[inner] *= nest.sizes[outer];
          erase(outer);
          changed = true;
        }
  }
}

/// Takes the loop with the fewest memory operations per element. A strided access costs one operation per lane.
void NestEmitter::chooseVectorLoop() {
  unsigned bits = 8;
  for (NestOperand *operand : slots)
    bits = std::max<unsigned>(bits, operand->element.getIntOrFloatBitWidth());
  for (NestStage &stage : nest.stages)
    if (stage.body)
      for (Operation &op : *stage.body)
        for (Type type : op.getResultTypes())
          bits = std::max(bits, type.getIntOrFloatBitWidth());
  int64_t width = std::max<int64_t>(1, options.machine.vectorBits / bits);

  unsigned reductions = llvm::count(nest.isReduction, true);
  if (nest.accumulates && reductions == 1 && nest.stages[0].body)
    combiner = matchCombiner(*nest.stages[0].body);

  double best = slots.size();
  for (unsigned dim = 0; dim < nest.sizes.size(); ++dim) {
    bool reduction = nest.isReduction[dim];
    if (nest.sizes[dim] == 0 || (reduction && !combiner))
      continue;
    double size = nest.sizes[dim];
    // How often a register's worth is handled along this loop, per element.
    double runs = (nest.sizes[dim] / width + llvm::popcount(static_cast<uint64_t>(nest.sizes[dim] % width))) / size;
    double cost = 0;
    for (unsigned slot = 0; slot < slots.size(); ++slot) {
      if (!slots[slot]->inMemory() || (reduction && (slot >= initSlots.front())))
        continue;
      int64_t step = slots[slot]->strides[dim];
      if (reduction && (step != 0 && step != 1))
        cost += 1000;
      cost += step == 0 ? 0.25 * runs : step == 1 ? runs : 1 + runs;
    }
    // The lanes of a reduction must be combined at its end, and its remainder is scalar.
    if (reduction)
      cost = 1.5 * cost + (nest.sizes[dim] % width + 8) / size;
    if (cost < best) {
      best = cost;
      vectorDim = dim;
      vectorReduction = reduction;
    }
  }
  lanes = vectorDim < 0 ? 1 : width;
  if (vectorReduction)
    while (lanes > nest.sizes[vectorDim])
      lanes /= 2;
}

int64_t NestEmitter::accumulatorLimit() const {
  // Four registers stay free for the loaded vectors.
  return options.machine.vectorRegisters - 4;
}

/// Takes the loop over which loaded vectors are reused, so that a register block does several operations per load.
void NestEmitter::chooseBlockLoop() {
  if (!nest.accumulates)
    return;
  double best = 0;
  int64_t most = std::min<int64_t>(accumulatorLimit() / 2, 14);
  for (unsigned dim = 0; dim < nest.sizes.size(); ++dim) {
    if (static_cast<int>(dim) == vectorDim || nest.isReduction[dim])
      continue;
    double reuse = 0;
    for (unsigned slot : inputSlots[0])
      if (slots[slot]->inMemory() && stride(*slots[slot], vectorDim) != 0 && stride(*slots[slot], dim) == 0)
        reuse = 1;
    int64_t blocks = (nest.sizes[dim] + most - 1) / most;
    double filling = static_cast<double>(std::min(nest.sizes[dim], most)) / most *
                     (static_cast<double>(nest.sizes[dim]) / (blocks * std::min(nest.sizes[dim], most)));
    double score = 1 + 4 * reuse + filling;
    // On a tie the later loop wins: it is the one with the smaller strides.
    if (score >= best) {
      best = score;
      rowDim = dim;
    }
  }
}

/// Splits the vector loop into equal register blocks and, if something is left, one more block.
SmallVector<Block1D> NestEmitter::blocksOfVectorLoop() const {
  if (vectorDim < 0 || vectorReduction)
    return {Block1D{0, 1, 0, {Piece{0, 1}}}};
  int64_t size = nest.sizes[vectorDim], full = size / lanes;
  int64_t most = 2;
  if (nest.accumulates) {
    int64_t rows = rowDim < 0 ? 1 : std::min<int64_t>(nest.sizes[rowDim], accumulatorLimit() / 2);
    most = std::clamp<int64_t>(accumulatorLimit() / rows, 2, 8);
  }
  SmallVector<Piece> rest;
  for (int64_t offset = full * lanes, width = lanes / 2; offset < size; width /= 2)
    if (offset + width <= size) {
      rest.push_back({offset, width});
      offset += width;
    }
  auto fullPieces = [&](int64_t count) {
    SmallVector<Piece> pieces;
    for (int64_t i = 0; i < count; ++i)
      pieces.push_back({i * lanes, lanes});
    return pieces;
  };
  if (full + static_cast<int64_t>(rest.size()) <= most) {
    SmallVector<Piece> pieces = fullPieces(full);
    pieces.append(rest);
    return {Block1D{0, 1, 0, pieces}};
  }
  SmallVector<Block1D> blocks;
  int64_t used = 0;
  if (full) {
    int64_t perBlock = (full + (full + most - 1) / most - 1) / ((full + most - 1) / most);
    blocks.push_back({0, full / perBlock, perBlock * lanes, fullPieces(perBlock)});
    used = full / perBlock * perBlock;
  }
  SmallVector<Piece> pieces = fullPieces(full - used);
  for (Piece piece : rest)
    pieces.push_back({piece.offset - used * lanes, piece.width});
  if (!pieces.empty())
    blocks.push_back({used * lanes, 1, 0, pieces});
  return blocks;
}

/// Bytes an operand touches over the whole nest.
int64_t NestEmitter::footprint(const NestOperand &operand) const {
  int64_t bytes = storageBytes(operand.element);
  for (auto [size, step] : llvm::zip(nest.sizes, operand.strides))
    bytes *= step ? size : 1;
  return bytes;
}

//===----------------------------------------------------------------------===//
// Addresses, loads and stores
//===----------------------------------------------------------------------===//

Value NestEmitter::offsetPointer(Value pointer, Type element, int64_t offset) {
  if (offset == 0)
    return pointer;
  // Constant indices of a getelementptr are 32 bits wide.
  if (offset == static_cast<int32_t>(offset))
    return b.create<LLVM::GEPOp>(loc, pointer.getType(), storageType(element), pointer,
                                 ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
  Value index = b.create<LLVM::ConstantOp>(loc, b.getI64Type(), b.getI64IntegerAttr(offset));
  return b.create<LLVM::GEPOp>(loc, pointer.getType(), storageType(element), pointer, ValueRange{index});
}

NestEmitter::Pointers NestEmitter::advanced(const Pointers &from, int dim, int64_t offset) {
  Pointers to = from;
  for (auto [slot, pointer] : llvm::enumerate(to))
    if (pointer)
      pointer = offsetPointer(pointer, slots[slot]->element, offset * stride(*slots[slot], dim));
  return to;
}

NestEmitter::Pointers NestEmitter::advanced(const Pointers &from, int dim, int64_t step, Value index) {
  Pointers to = from;
  DenseMap<int64_t, Value> scaled;
  for (auto [slot, pointer] : llvm::enumerate(to)) {
    int64_t factor = stride(*slots[slot], dim) * step;
    if (!pointer || factor == 0)
      continue;
    Value &offset = scaled[factor];
    if (!offset) {
      Value product = factor == 1 ? index : b.create<arith::MulIOp>(loc, index, constantIndex(factor));
      offset = b.create<arith::IndexCastOp>(loc, b.getI64Type(), product);
    }
    pointer = b.create<LLVM::GEPOp>(loc, pointer.getType(), storageType(slots[slot]->element), pointer,
                                    ValueRange{offset});
  }
  return to;
}

Value NestEmitter::toWidth(Value value, int64_t width) {
  if (width == 1 || isa<VectorType>(value.getType()))
    return value;
  return b.create<vector::BroadcastOp>(loc, VectorType::get({width}, value.getType()), value);
}

Value NestEmitter::loadOperand(unsigned slot, const Pointers &base, int64_t row, const Piece &piece) {
  const NestOperand &operand = *slots[slot];
  if (operand.splat)
    return operand.splat;
  Type element = operand.element, stored = storageType(element);
  int64_t step = stride(operand, vectorDim);
  Value pointer = offsetPointer(base[slot], element, row * stride(operand, rowDim) + piece.offset * step);
  unsigned alignment = storageBytes(element);
  auto fromStorage = [&](Value value) -> Value {
    if (stored == element)
      return value;
    Type type = element;
    if (auto vector = dyn_cast<VectorType>(value.getType()))
      type = VectorType::get(vector.getShape(), element);
    return b.create<arith::TruncIOp>(loc, type, value);
  };
  if (piece.width == 1 || step == 0)
    return fromStorage(b.create<LLVM::LoadOp>(loc, stored, pointer, alignment));
  auto type = VectorType::get({piece.width}, stored);
  if (step == 1)
    return fromStorage(b.create<LLVM::LoadOp>(loc, type, pointer, alignment));
  SmallVector<Value> elements;
  for (int64_t lane = 0; lane < piece.width; ++lane)
    elements.push_back(
        b.create<LLVM::LoadOp>(loc, stored, offsetPointer(pointer, element, lane * step), alignment));
  Value gathered = b.create<arith::ConstantOp>(loc, b.getZeroAttr(type));
  for (auto [lane, scalar] : llvm::enumerate(elements))
    gathered = b.create<vector::InsertOp>(loc, scalar, gathered, static_cast<int64_t>(lane));
  return fromStorage(gathered);
}

void NestEmitter::storeResult(const NestStore &store, unsigned slot, const Pointers &base, int64_t row,
                              const Piece &piece, Value value) {
  Type element = store.to.element, stored = storageType(element);
  int64_t step = stride(store.to, vectorDim);
  Value pointer = offsetPointer(base[slot], element, row * stride(store.to, rowDim) + piece.offset * step);
  unsigned alignment = storageBytes(element);
  value = toWidth(value, piece.width);
  if (stored != element) {
    Type type = stored;
    if (auto vector = dyn_cast<VectorType>(value.getType()))
      type = VectorType::get(vector.getShape(), stored);
    value = b.create<arith::ExtUIOp>(loc, type, value);
  }
  if (piece.width == 1 || step == 1) {
    b.create<LLVM::StoreOp>(loc, value, pointer, alignment);
    return;
  }
  for (int64_t lane = 0; lane < piece.width; ++lane) {
    Value scalar = b.create<vector::ExtractOp>(loc, value, lane);
    b.create<LLVM::StoreOp>(loc, scalar, offsetPointer(pointer, element, lane * step), alignment);
  }
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

/// max(x, c) and min(x, c) for a constant c that is a number: one compare and blend, which becomes a single instruction that
/// hands on a NaN in x, where the general operation needs several.
static Value clampAgainstConstant(OpBuilder &b, Location loc, Operation *op, Value lhs, Value rhs) {
  bool isMaximum = isa<arith::MaximumFOp>(op);
  if (!isMaximum && !isa<arith::MinimumFOp>(op))
    return {};
  auto isNumber = [](Value value) {
    FloatAttr attr;
    return matchPattern(value, m_Constant(&attr)) && !attr.getValue().isNaN();
  };
  bool left = isNumber(op->getOperand(0)), right = isNumber(op->getOperand(1));
  if (!left && !right)
    return {};
  Value bound = right ? rhs : lhs, x = right ? lhs : rhs;
  auto predicate = isMaximum ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OLT;
  Value beyond = b.create<arith::CmpFOp>(loc, predicate, bound, x);
  return b.create<arith::SelectOp>(loc, beyond, bound, x);
}

/// Evaluates a body on values that are scalars or vectors of `width` lanes; a scalar stands for equal lanes and stays one
/// until it meets a vector. `contract` allows a product to be added without rounding it first.
SmallVector<Value> NestEmitter::evaluate(const NestStage &stage, ArrayRef<Value> arguments, int64_t width,
                                         bool contract) {
  if (!stage.body)
    return {arguments[0]};
  DenseMap<Value, Value> values;
  for (auto [argument, value] : llvm::zip(stage.body->getArguments(), arguments))
    values[argument] = value;
  auto lookup = [&](Value value) -> Value {
    if (auto it = values.find(value); it != values.end())
      return it->second;
    return scalars.lookup(value);
  };
  contract &= options.machine.hasFma;
  auto fusedProduct = [&](Operation &op) -> arith::MulFOp {
    if (!contract || !isa<arith::AddFOp>(op) || !op.getResult(0).getType().isF32())
      return {};
    for (Value operand : op.getOperands())
      if (auto product = operand.getDefiningOp<arith::MulFOp>(); product && product->hasOneUse())
        return product;
    return {};
  };
  for (Operation &op : stage.body->without_terminator()) {
    if (contract && isa<arith::MulFOp>(op) && op.hasOneUse() && fusedProduct(**op.user_begin()) == &op)
      continue;
    SmallVector<Value> operands;
    arith::MulFOp product = fusedProduct(op);
    if (product) {
      unsigned other = op.getOperand(0).getDefiningOp() == product ? 1 : 0;
      operands = {lookup(product.getLhs()), lookup(product.getRhs()), lookup(op.getOperand(other))};
    } else {
      for (Value operand : op.getOperands())
        operands.push_back(lookup(operand));
    }
    bool isVector = llvm::any_of(operands, [](Value value) { return isa<VectorType>(value.getType()); });
    if (isVector)
      for (Value &operand : operands)
        operand = toWidth(operand, width);
    if (product) {
      values[op.getResult(0)] = b.create<math::FmaOp>(op.getLoc(), operands[0], operands[1], operands[2]);
      continue;
    }
    if (operands.size() == 2)
      if (Value clamped = clampAgainstConstant(b, op.getLoc(), &op, operands[0], operands[1])) {
        values[op.getResult(0)] = clamped;
        continue;
      }
    SmallVector<Type> types;
    for (Type type : op.getResultTypes())
      types.push_back(isVector ? Type(VectorType::get({width}, type)) : type);
    Operation *copy =
        b.create(op.getLoc(), op.getName().getIdentifier(), operands, types, op.getAttrDictionary().getValue());
    for (auto [from, to] : llvm::zip(op.getResults(), copy->getResults()))
      values[from] = to;
  }
  SmallVector<Value> results;
  for (Value value : stage.body->getTerminator()->getOperands())
    results.push_back(lookup(value));
  return results;
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// Runs the later stages on the results of stage 0 and stores what the nest computes, for a block of rows x pieces.
void NestEmitter::finish(const Pointers &base, ArrayRef<Piece> pieces, int64_t rows,
                         function_ref<SmallVector<Value>(int64_t row, unsigned piece)> stageZero) {
  for (int64_t row = 0; row < rows; ++row)
    for (auto [index, piece] : llvm::enumerate(pieces)) {
      SmallVector<SmallVector<Value>> results{stageZero(row, index)};
      for (unsigned stage = 1; stage < nest.stages.size(); ++stage) {
        SmallVector<Value> arguments;
        for (unsigned slot : inputSlots[stage]) {
          const NestOperand &operand = *slots[slot];
          if (operand.stage >= 0)
            arguments.push_back(results[operand.stage][operand.result]);
          else if (operand.inMemory() || operand.splat)
            arguments.push_back(loadOperand(slot, base, row, piece));
          else
            arguments.push_back({});
        }
        results.push_back(evaluate(nest.stages[stage], arguments, piece.width, false));
      }
      for (auto [store, slot] : llvm::zip(nest.stores, storeSlots))
        storeResult(store, slot, base, row, piece, results[store.stage][store.result]);
    }
}

SmallVector<Value>
NestEmitter::emitReductionLoops(const Pointers &base, ArrayRef<int> dims, ArrayRef<Value> accumulators,
                                function_ref<SmallVector<Value>(const Pointers &, ArrayRef<Value>)> inner) {
  if (dims.empty())
    return inner(base, accumulators);
  auto loop = b.create<scf::ForOp>(loc, constantIndex(0), constantIndex(nest.sizes[dims[0]]), constantIndex(1),
                                   accumulators);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Pointers moved = advanced(base, dims[0], 1, loop.getInductionVar());
  SmallVector<Value> carried(loop.getRegionIterArgs());
  SmallVector<Value> next = emitReductionLoops(moved, dims.drop_front(), carried, inner);
  b.create<scf::YieldOp>(loc, next);
  return SmallVector<Value>(loop.getResults());
}

/// A block of rows x pieces whose accumulators live in registers over all reduction loops.
void NestEmitter::emitMicroKernel(const Pointers &base, ArrayRef<Piece> pieces, int64_t rows) {
  const NestStage &first = nest.stages[0];
  // Loads of a block, shared by the rows or pieces that an operand does not depend on.
  auto makeLoader = [this](const Pointers &at) {
    return [this, &at, cache = std::map<std::array<int64_t, 3>, Value>()](unsigned slot, int64_t row, unsigned index,
                                                                         const Piece &piece) mutable -> Value {
      const NestOperand &operand = *slots[slot];
      if (!operand.inMemory() && !operand.splat)
        return {};
      std::array<int64_t, 3> key{slot, stride(operand, rowDim) ? row : 0, stride(operand, vectorDim) ? index : 0};
      Value &value = cache[key];
      if (!value)
        value = loadOperand(slot, at, row, piece);
      return value;
    };
  };

  if (!nest.accumulates) {
    auto load = makeLoader(base);
    finish(base, pieces, rows, [&](int64_t row, unsigned index) {
      SmallVector<Value> arguments;
      for (unsigned slot : inputSlots[0])
        arguments.push_back(load(slot, row, index, pieces[index]));
      return evaluate(first, arguments, pieces[index].width, false);
    });
    return;
  }

  unsigned results = initSlots.size();
  SmallVector<Value> accumulators;
  {
    auto load = makeLoader(base);
    for (int64_t row = 0; row < rows; ++row)
      for (auto [index, piece] : llvm::enumerate(pieces))
        for (unsigned slot : initSlots)
          accumulators.push_back(toWidth(load(slot, row, index, piece), piece.width));
  }
  SmallVector<int> reductions;
  for (unsigned dim = 0; dim < nest.sizes.size(); ++dim)
    if (nest.isReduction[dim])
      reductions.push_back(dim);
  accumulators = emitReductionLoops(base, reductions, accumulators, [&](const Pointers &at, ArrayRef<Value> carried) {
    auto load = makeLoader(at);
    SmallVector<Value> next;
    for (int64_t row = 0; row < rows; ++row)
      for (auto [index, piece] : llvm::enumerate(pieces)) {
        SmallVector<Value> arguments;
        for (unsigned slot : inputSlots[0])
          arguments.push_back(load(slot, row, index, piece));
        for (unsigned result = 0; result < results; ++result)
          arguments.push_back(carried[next.size() + result]);
        for (Value value : evaluate(first, arguments, piece.width, true))
          next.push_back(toWidth(value, piece.width));
      }
    return next;
  });
  finish(base, pieces, rows, [&](int64_t row, unsigned index) {
    auto *from = accumulators.begin() + (row * pieces.size() + index) * results;
    return SmallVector<Value>(from, from + results);
  });
}

static Attribute neutralElement(OpBuilder &b, vector::CombiningKind kind, Type type) {
  using Kind = vector::CombiningKind;
  if (auto floatType = dyn_cast<FloatType>(type)) {
    const llvm::fltSemantics &semantics = floatType.getFloatSemantics();
    switch (kind) {
    case Kind::MUL:
      return b.getFloatAttr(type, 1.0);
    case Kind::MAXIMUMF:
      return b.getFloatAttr(type, APFloat::getInf(semantics, true));
    case Kind::MINIMUMF:
      return b.getFloatAttr(type, APFloat::getInf(semantics, false));
    default:
      return b.getFloatAttr(type, 0.0);
    }
  }
  unsigned bits = type.getIntOrFloatBitWidth();
  switch (kind) {
  case Kind::MUL:
    return b.getIntegerAttr(type, 1);
  case Kind::MAXSI:
    return b.getIntegerAttr(type, APInt::getSignedMinValue(bits));
  case Kind::MINSI:
    return b.getIntegerAttr(type, APInt::getSignedMaxValue(bits));
  case Kind::MINUI:
    return b.getIntegerAttr(type, APInt::getMaxValue(bits));
  default:
    return b.getIntegerAttr(type, 0);
  }
}

/// The only reduction loop is the vector loop: partial results in lanes, combined at the end; the remainder one by one.
void NestEmitter::emitVectorReduction(const Pointers &base, int64_t rows) {
  const NestStage &first = nest.stages[0];
  int64_t size = nest.sizes[vectorDim], blocks = size / lanes;
  Type element = combiner->op->getResult(0).getType();
  auto step = [&](const Pointers &at, ArrayRef<Value> carried, const Piece &piece) {
    SmallVector<Value> next;
    std::map<std::pair<unsigned, int64_t>, Value> cache;
    for (int64_t row = 0; row < rows; ++row) {
      SmallVector<Value> arguments;
      for (unsigned slot : inputSlots[0]) {
        Value &value = cache[{slot, stride(*slots[slot], rowDim) ? row : 0}];
        if (!value)
          value = loadOperand(slot, at, row, piece);
        arguments.push_back(value);
      }
      arguments.push_back(carried[row]);
      next.push_back(toWidth(evaluate(first, arguments, piece.width, true)[0], piece.width));
    }
    return next;
  };
  auto loop = [&](int64_t from, int64_t count, const Piece &piece, ArrayRef<Value> start) {
    auto forOp = b.create<scf::ForOp>(loc, constantIndex(0), constantIndex(count), constantIndex(1), start);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(forOp.getBody());
    Pointers at = advanced(advanced(base, vectorDim, from), vectorDim, piece.width, forOp.getInductionVar());
    SmallVector<Value> carried(forOp.getRegionIterArgs());
    SmallVector<Value> next = step(at, carried, piece);
    b.create<scf::YieldOp>(loc, next);
    return SmallVector<Value>(forOp.getResults());
  };
  auto neutral = cast<TypedAttr>(neutralElement(b, combiner->kind, element));
  Value zero = b.create<arith::ConstantOp>(loc, neutral);
  SmallVector<Value> partial = loop(0, blocks, Piece{0, lanes}, SmallVector<Value>(rows, toWidth(zero, lanes)));
  SmallVector<Value> accumulators;
  for (int64_t row = 0; row < rows; ++row) {
    Value init = loadOperand(initSlots[0], base, row, Piece{0, 1});
    Value combined = lanes == 1 ? partial[row] : b.create<vector::ReductionOp>(loc, combiner->kind, partial[row]);
    accumulators.push_back(
        b.create(loc, combiner->op->getName().getIdentifier(), {init, combined}, {element})->getResult(0));
  }
  if (size % lanes)
    accumulators = loop(blocks * lanes, size % lanes, Piece{0, 1}, accumulators);
  finish(base, {Piece{0, 1}}, rows, [&](int64_t row, unsigned) { return SmallVector<Value>{accumulators[row]}; });
}

/// Opens loops given as {dim, count, step}; the first `parallelLoops` of them are shared between threads.
void NestEmitter::emitLoops(const Pointers &base, ArrayRef<std::array<int64_t, 3>> loops, unsigned parallelLoops,
                            function_ref<void(const Pointers &)> inner) {
  if (loops.empty()) {
    inner(base);
    return;
  }
  OpBuilder::InsertionGuard guard(b);
  unsigned opened = std::max(1u, parallelLoops);
  SmallVector<Value> lower, upper, steps, indices;
  for (const auto &[dim, count, step] : loops.take_front(opened)) {
    lower.push_back(constantIndex(0));
    upper.push_back(constantIndex(count));
    steps.push_back(constantIndex(1));
  }
  if (parallelLoops) {
    auto loop = b.create<scf::ParallelOp>(loc, lower, upper, steps);
    b.setInsertionPointToStart(loop.getBody());
    llvm::append_range(indices, loop.getBody()->getArguments());
  } else {
    auto loop = b.create<scf::ForOp>(loc, lower[0], upper[0], steps[0]);
    b.setInsertionPointToStart(loop.getBody());
    indices.push_back(loop.getInductionVar());
  }
  Pointers moved = base;
  for (auto [loop, index] : llvm::zip(loops, indices))
    moved = advanced(moved, loop[0], loop[2], index);
  emitLoops(moved, loops.drop_front(opened), 0, inner);
}

void NestEmitter::emitBlock(const Pointers &base, const Block1D &block, int64_t work) {
  auto micro = [&](const Pointers &at, int64_t rows) {
    if (vectorReduction)
      emitVectorReduction(at, rows);
    else
      emitMicroKernel(at, block.pieces, rows);
  };
  // Rows: `rowBlocks` blocks of `rows`, then what is left.
  int64_t rowBlocks = 1, rows = 1, rowsLeft = 0;
  if (rowDim >= 0) {
    int64_t size = nest.sizes[rowDim];
    int64_t perRow = vectorReduction ? 2 : block.pieces.size();
    int64_t most = std::max<int64_t>(1, std::min<int64_t>(accumulatorLimit() / perRow, 16));
    int64_t blocks = (size + most - 1) / most;
    rows = (size + blocks - 1) / blocks;
    rowBlocks = size / rows;
    rowsLeft = size % rows;
  }

  SmallVector<std::array<int64_t, 3>> loops;
  for (unsigned dim = 0; dim < nest.sizes.size(); ++dim)
    if (static_cast<int>(dim) != vectorDim && static_cast<int>(dim) != rowDim && !nest.isReduction[dim])
      loops.push_back({dim, nest.sizes[dim], 1});
  auto storeStride = [&](int64_t dim) {
    return nest.stores.empty() ? 0 : std::abs(nest.stores[0].to.strides[dim]);
  };
  llvm::stable_sort(loops, [&](const auto &a, const auto &b) { return storeStride(a[0]) > storeStride(b[0]); });
  if (block.count > 1) {
    // Vectors that every row of pixels needs again stay in the cache only if they are few.
    int64_t reused = 0;
    if (rowDim >= 0)
      for (unsigned slot : inputSlots[0])
        if (slots[slot]->inMemory() && stride(*slots[slot], vectorDim) && !stride(*slots[slot], rowDim))
          reused += footprint(*slots[slot]);
    std::array<int64_t, 3> vectorLoop{vectorDim, block.count, block.step};
    loops.insert(reused > residentBytes ? loops.begin() : loops.end(), vectorLoop);
  }
  bool parallel = options.threads > 1 && work >= minParallelIterations;
  unsigned parallelLoops = 0;
  int64_t chunks = 1;
  if (parallel)
    while (parallelLoops < loops.size() && chunks < 4 * options.threads)
      chunks *= loops[parallelLoops++][1];
  bool rowsParallel = parallel && chunks < 2 * options.threads && rowBlocks > 1;
  if (rowsParallel && parallelLoops == loops.size()) {
    loops.push_back({rowDim, rowBlocks, rows});
    emitLoops(base, loops, loops.size(), [&](const Pointers &at) { micro(at, rows); });
    if (rowsLeft) {
      loops.pop_back();
      emitLoops(advanced(base, rowDim, rowBlocks * rows), loops, 0,
                [&](const Pointers &at) { micro(at, rowsLeft); });
    }
    return;
  }
  if (chunks < 2)
    parallelLoops = 0;
  emitLoops(base, loops, parallelLoops, [&](const Pointers &at) {
    if (rowBlocks > 1)
      emitLoops(at, {{rowDim, rowBlocks, rows}}, 0, [&](const Pointers &inner) { micro(inner, rows); });
    else
      micro(at, rows);
    if (rowsLeft)
      micro(advanced(at, rowDim, rowBlocks * rows), rowsLeft);
  });
}

void NestEmitter::emit() {
  for (auto [size, reduction] : llvm::zip(nest.sizes, nest.isReduction))
    if (size == 0 && !reduction)
      return;
  collectOperands();
  simplify();
  chooseVectorLoop();
  chooseBlockLoop();
  Pointers base;
  for (NestOperand *operand : slots)
    base.push_back(operand->pointer);
  int64_t work = std::accumulate(nest.sizes.begin(), nest.sizes.end(), int64_t(1), std::multiplies<int64_t>());
  work /= lanes;
  for (const Block1D &block : blocksOfVectorLoop())
    emitBlock(advanced(base, vectorDim, vectorReduction ? 0 : block.start), block, work);
}

} // namespace

void emitLoopNest(OpBuilder &builder, Location loc, LoopNest nest, const NestOptions &options,
                  const DenseMap<Value, Value> &scalars) {
  NestEmitter(builder, loc, std::move(nest), options, scalars).emit();
}

} // namespace tw::cpu
