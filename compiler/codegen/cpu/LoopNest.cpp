//===- LoopNest.cpp - One kernel step as linear loops ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/LoopNest.h"
#include "compiler/codegen/cpu/Lanes.h"
#include "compiler/codegen/cpu/team/Team.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>
#include <map>
#include <numeric>

using namespace mlir;

namespace tw::cpu {

Type storageType(Type element) { return element.isInteger(1) ? IntegerType::get(element.getContext(), 8) : element; }

int64_t storageBytes(Type element) { return (storageType(element).getIntOrFloatBitWidth() + 7) / 8; }

Type NestOperand::addressUnit() const { return unit ? unit : storageType(element); }

namespace {

/// The fewest vector iterations that are a chunk of their own: to take a chunk costs about as much as some hundred of them.
constexpr int64_t minChunkIterations = 4096;
/// Chunks for each thread: the last one to finish is late by at most a part of its share.
constexpr int64_t chunksPerThread = 8;
/// Weights beyond this many bytes are walked once, with the pixels inside, instead of once per row of pixels.
constexpr int64_t residentBytes = 128 * 1024;

/// Taps of a window are loops beyond this number.
constexpr int64_t maxUnrolledTaps = 5;

/// What a load costs beside the operations that hide it: factors of matrix products come from the second-level cache.
constexpr double cyclesPerLoad = 0.05;

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

class NestEmitter {
public:
  NestEmitter(OpBuilder &builder, Location loc, LoopNest nest, const NestOptions &options,
              const DenseMap<Value, Value> &scalars, Value worker)
      : b(builder), loc(loc), nest(std::move(nest)), options(options), scalars(scalars), worker(worker) {}

  void emit();
  /// Emitted by emit().
  unsigned sharedLoops = 0;
  int64_t registerBlockWidth(int loop);

private:
  void choose();
  /// A cell of a register block.
  struct Place {
    int64_t row;
    unsigned index;
    Piece piece;
  };
  /// Along which sides of a register block a value differs from cell to cell.
  struct Variation {
    bool rows = false, pieces = false;
  };
  /// Values of a register block computed so far, shared by the cells they do not differ between. Keys: a slot or an op, the
  /// row or 0, the piece or 0.
  struct Shared {
    std::map<std::array<int64_t, 3>, Value> loads;
    std::map<std::tuple<Operation *, int64_t, int64_t>, Value> values;
  };

  void collectOperands();
  bool hasTables() const;
  bool findsPlaces(unsigned slot, unsigned dim) const;
  void chooseVectorLoop();
  void chooseRegisterBlock();
  void chooseTransposition();
  int64_t numPieces() const;
  SmallVector<Piece> piecesOfVectorLoop(int64_t first, int64_t end) const;
  SmallVector<Block1D> blocksOfVectorLoop() const;
  int64_t accumulatorLimit() const;
  bool fitsRegisters(int64_t rows, int64_t pieces) const;
  int64_t footprint(const NestOperand &operand) const;

  using Pointers = SmallVector<Value>;
  Pointers advanced(const Pointers &from, int dim, int64_t step, Value index);
  Pointers advanced(const Pointers &from, int dim, int64_t offset);
  /// A loop over `count` iterations of a dimension, `step` apart.
  struct Loop {
    int dim;
    int64_t count, step;
  };
  void emitBlock(const Pointers &base, const Block1D &block);
  void emitLoops(const Pointers &base, ArrayRef<Loop> loops, function_ref<void(const Pointers &)> inner);
  void emitShared(const Pointers &base, ArrayRef<Loop> loops, int64_t chunks, function_ref<void(const Pointers &)> inner);
  void emitMicroKernel(const Pointers &base, ArrayRef<Piece> pieces, int64_t rows);
  void emitVectorReduction(const Pointers &base, int64_t rows);
  SmallVector<Value> emitReductionLoops(const Pointers &base, ArrayRef<int> dims, ArrayRef<Value> accumulators,
                                        function_ref<SmallVector<Value>(const Pointers &, ArrayRef<Value>)> inner);

  Value constantIndex(int64_t value) { return b.create<arith::ConstantIndexOp>(loc, value); }
  Value offsetPointer(Value pointer, Type unit, int64_t offset);
  Value loadOperand(unsigned slot, const Pointers &base, int64_t row, const Piece &piece);
  Value loadOperand(unsigned slot, const Pointers &base, Place place, Shared &shared);
  Value fromStorage(Value value, Type element);
  Value lookUp(const NestOperand &table, Value start, ArrayRef<std::pair<Value, int64_t>> places, int64_t width);
  void loadTransposed(unsigned slot, const Pointers &base, Place place, Shared &shared);
  /// Whether the elements of a vector of the operand are apart in memory.
  bool isStrided(const NestOperand &operand) const {
    const int64_t step = stride(operand, vectorDim);
    return operand.inMemory() && step != 0 && step != 1;
  }
  void storeResult(const NestStore &store, unsigned slot, const Pointers &base, int64_t row, const Piece &piece, Value value);
  Value toWidth(Value value, int64_t width) { return tw::cpu::toWidth(b, loc, value, width); }
  SmallVector<Value> evaluate(unsigned stage, ArrayRef<Value> arguments, Place place, Shared &shared, bool contract);
  void finish(const Pointers &base, ArrayRef<Piece> pieces, int64_t rows,
              function_ref<SmallVector<Value>(Place place, Shared &shared)> stageZero);
  void findVariation();

  int64_t stride(const NestOperand &operand, int dim) const {
    return dim < 0 || operand.strides.empty() ? 0 : operand.strides[dim];
  }

  OpBuilder &b;
  Location loc;
  LoopNest nest;
  const NestOptions &options;
  const DenseMap<Value, Value> &scalars;
  /// Null where the loops are not shared.
  Value worker;

  /// Every operand of the nest, in a fixed order; a "slot" is an index here.
  SmallVector<NestOperand *> slots;
  SmallVector<SmallVector<unsigned>> inputSlots;
  SmallVector<unsigned> initSlots, storeSlots;

  /// The loop of the nest as it was given that a loop is, or ends with.
  SmallVector<int> origins;
  int vectorDim = -1;
  int64_t lanes = 1;
  /// Some operand's lanes are not neighbours in memory.
  bool isGathered = false;
  /// The vector loop is a reduction: accumulators are vectors that are combined at the end.
  bool vectorReduction = false;
  std::optional<Combiner> combiner;
  /// The parallel loop whose iterations share a micro-kernel, or -1.
  int rowDim = -1;
  /// Size of a register block, in pieces of a reduction.
  int64_t blockRows = 1, blockPieces = 1;
  /// Strided operands are neighbours along the loop of rows, and so loaded as squares that are transposed in registers.
  bool transposes = false;
  /// Rows of the block that is being written.
  int64_t rowsNow = 1;
  /// Of every value of the bodies.
  DenseMap<Value, Variation> variations;
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

bool NestEmitter::hasTables() const {
  return llvm::any_of(slots, [](NestOperand *operand) { return operand->isTable; });
}

/// Whether the places of the table in `slot` may differ along a loop.
bool NestEmitter::findsPlaces(unsigned slot, unsigned dim) const {
  for (ArrayRef<unsigned> inputs : inputSlots)
    if (llvm::is_contained(inputs, slot))
      return llvm::any_of(inputs, [&](unsigned other) {
        return !slots[other]->isTable && (slots[other]->stage >= 0 || stride(*slots[other], int(dim)) != 0);
      });
  return false;
}

/// Takes the loop with the fewest memory operations per element. A strided access costs one operation per lane.
void NestEmitter::chooseVectorLoop() {
  if (nest.runsOnce)
    return;
  unsigned bits = 8;
  for (NestOperand *operand : slots)
    bits = std::max<unsigned>(bits, operand->element.getIntOrFloatBitWidth());
  for (NestStage &stage : nest.stages)
    if (stage.body)
      for (Operation &op : *stage.body)
        for (Type type : op.getResultTypes())
          bits = std::max(bits, type.isIndex() ? 64 : type.getIntOrFloatBitWidth());
  int64_t width = std::max<int64_t>(1, options.machine.vectorBits / bits);

  unsigned reductions = llvm::count(nest.isReduction, true);
  if (nest.accumulates && reductions == 1 && nest.stages[0].body)
    combiner = matchCombiner(*nest.stages[0].body);

  double best = slots.size();
  const unsigned firstStore = storeSlots.empty() ? slots.size() : storeSlots.front();
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
      if (slots[slot]->isTable && findsPlaces(slot, dim))
        step = 2; // its elements are anywhere
      if (reduction && (step != 0 && step != 1))
        cost += 1000;
      cost += step == 0 ? 0.25 * runs : step == 1 ? runs : 1 + runs;
      // Strided loads can become transpositions.
      cost += step != 0 && step != 1 && slot >= firstStore ? 0.5 : 0;
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
  // Strided elements are moved one by one: long vectors of them would only be long code.
  isGathered = hasTables() || llvm::any_of(slots, [&](NestOperand *operand) { return isStrided(*operand); });
  if (isGathered)
    lanes = std::min<int64_t>(lanes, 16);
  if (vectorReduction)
    while (lanes > nest.sizes[vectorDim])
      lanes /= 2;
}

/// Looks for a loop along which everything that is strided along the vector loop is contiguous.
void NestEmitter::chooseTransposition() {
  if (nest.accumulates || !isGathered || hasTables() ||
      llvm::any_of(storeSlots, [&](unsigned slot) { return isStrided(*slots[slot]); }))
    return;
  for (int dim = static_cast<int>(nest.sizes.size()); dim-- > 0;) {
    const int64_t smaller = std::min(nest.sizes[dim], nest.sizes[vectorDim]);
    const int64_t side = std::min<int64_t>(lanes, llvm::bit_floor(static_cast<uint64_t>(smaller)));
    if (dim == vectorDim || side < 4 ||
        !llvm::all_of(slots, [&](NestOperand *operand) { return !isStrided(*operand) || stride(*operand, dim) == 1; }))
      continue;
    transposes = true;
    rowDim = dim;
    lanes = blockRows = side;
    return;
  }
}

int64_t NestEmitter::accumulatorLimit() const {
  // Four registers stay free for the loaded vectors.
  return options.machine.vectorRegisters - 4;
}

/// Whether the accumulators of a register block, one operand of its shorter side and one of the other have registers.
bool NestEmitter::fitsRegisters(int64_t rows, int64_t pieces) const {
  return rows * pieces <= accumulatorLimit() && rows * pieces + std::min(rows, pieces) < options.machine.vectorRegisters;
}

/// Pieces of the vector loop: whole registers first, then powers of two.
int64_t NestEmitter::numPieces() const {
  if (vectorDim < 0 || vectorReduction)
    return 1;
  int64_t count = 0, left = nest.sizes[vectorDim];
  for (int64_t width = lanes; left > 0; width /= 2) {
    count += left / width;
    left %= width;
  }
  return count;
}

/// Pieces [first, end) of numPieces(), of which there may be hundreds of millions.
SmallVector<Piece> NestEmitter::piecesOfVectorLoop(int64_t first, int64_t end) const {
  if (vectorDim < 0 || vectorReduction)
    return {Piece{0, 1}};
  SmallVector<Piece> pieces;
  int64_t size = nest.sizes[vectorDim], offset = 0, number = 0;
  for (int64_t width = lanes; offset < size; width /= 2) {
    const int64_t count = (size - offset) / width;
    for (int64_t i = std::max(first, number); i < std::min(end, number + count); ++i)
      pieces.push_back({offset + (i - number) * width, width});
    offset += count * width;
    number += count;
  }
  return pieces;
}

/// Takes the loop of rows and the size of a register block that need the fewest cycles, by a simple model: two operations and
/// two loads per cycle, and an accumulator takes another product after four cycles. Of blocks that reach the same rate the one with the
/// fewest loads is best, as some of them come from a cache further away.
void NestEmitter::chooseRegisterBlock() {
  if (!nest.accumulates || nest.runsOnce)
    return;
  Block *body = nest.stages[0].body;
  int64_t total = numPieces();
  double best = std::numeric_limits<double>::infinity();
  int bestRow = -1;
  for (int dim = -1; dim < static_cast<int>(nest.sizes.size()); ++dim) {
    if (dim >= 0 && (dim == vectorDim || nest.isReduction[dim]))
      continue;
    // Rows that share no vector only scatter what is read; it comes fastest from one place after the other.
    auto readsVectors = [&](bool otherRows) {
      return llvm::any_of(inputSlots[0], [&](unsigned slot) {
        return slots[slot]->inMemory() && stride(*slots[slot], vectorDim) && (stride(*slots[slot], dim) != 0) == otherRows;
      });
    };
    if (dim >= 0 && total >= 8 && readsVectors(true) && !readsVectors(false))
      continue;
    rowDim = dim;
    findVariation();
    auto cells = [](Variation variation, int64_t rows, int64_t pieces) {
      return (variation.rows ? rows : 1) * (variation.pieces ? pieces : 1);
    };
    auto cycles = [&](int64_t rows, int64_t pieces) {
      if (rows * pieces == 0)
        return 0.0;
      double operations = body ? 0 : static_cast<double>(rows * pieces), loads = 0;
      for (Operation &op : body ? body->without_terminator() : llvm::make_range(Block::iterator(), Block::iterator()))
        if (!op.hasTrait<OpTrait::ConstantLike>() && !isa<arith::MulFOp>(op))
          operations += (isa<arith::MulIOp>(op) ? 2 : 1) * cells(variations.lookup(op.getResult(0)), rows, pieces);
      for (unsigned slot : inputSlots[0])
        if (slots[slot]->inMemory())
          loads += cells({stride(*slots[slot], rowDim) != 0, stride(*slots[slot], vectorDim) != 0}, rows, pieces);
      return std::max({operations / 2, loads / 2, 4.0}) + cyclesPerLoad * loads;
    };
    int64_t size = dim < 0 ? 1 : nest.sizes[dim];
    for (int64_t pieces = 1; pieces <= std::min<int64_t>(total, 8); ++pieces)
      for (int64_t rows = 1; rows <= std::min<int64_t>(size, 16) && fitsRegisters(rows, pieces); ++rows) {
        int64_t rowBlocks = size / rows, rowsLeft = size % rows, blocks = total / pieces, left = total % pieces;
        double cost = static_cast<double>(rowBlocks * blocks) * cycles(rows, pieces) +
                      static_cast<double>(blocks) * cycles(rowsLeft, pieces) +
                      static_cast<double>(rowBlocks) * cycles(rows, left) + cycles(rowsLeft, left);
        // The other rows take their turn; every variant of the block is more code.
        cost /= static_cast<double>(size);
        cost *= 1 + 0.03 * ((rowsLeft != 0) + (left != 0));
        // On a tie the later loop wins: it is the one with the smaller strides.
        if (cost < best || (cost == best && dim != bestRow)) {
          best = cost;
          bestRow = dim;
          blockRows = rows;
          blockPieces = pieces;
        }
      }
  }
  rowDim = bestRow;
}

/// Splits the vector loop into equal register blocks and, if something is left, one more block.
SmallVector<Block1D> NestEmitter::blocksOfVectorLoop() const {
  const int64_t count = numPieces(), perBlock = nest.accumulates ? blockPieces : isGathered ? 1 : 2;
  if (count <= perBlock)
    return {Block1D{0, 1, 0, piecesOfVectorLoop(0, count)}};
  const int64_t full = nest.sizes[vectorDim] / lanes, used = full / perBlock * perBlock;
  SmallVector<Block1D> blocks;
  if (used)
    blocks.push_back({0, used / perBlock, perBlock * lanes, piecesOfVectorLoop(0, perBlock)});
  const int64_t start = used * lanes;
  SmallVector<Piece> rest;
  for (Piece piece : piecesOfVectorLoop(used, count))
    rest.push_back({piece.offset - start, piece.width});
  if (!rest.empty())
    blocks.push_back({start, 1, 0, rest});
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

Value NestEmitter::offsetPointer(Value pointer, Type unit, int64_t offset) {
  if (offset == 0)
    return pointer;
  if (llvm::isInt<LLVM::kGEPConstantBitWidth>(offset))
    return b.create<LLVM::GEPOp>(loc, pointer.getType(), unit, pointer, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
  Value index = b.create<LLVM::ConstantOp>(loc, b.getI64Type(), b.getI64IntegerAttr(offset));
  return b.create<LLVM::GEPOp>(loc, pointer.getType(), unit, pointer, ValueRange{index});
}

NestEmitter::Pointers NestEmitter::advanced(const Pointers &from, int dim, int64_t offset) {
  Pointers to = from;
  for (auto [slot, pointer] : llvm::enumerate(to))
    if (pointer)
      pointer = offsetPointer(pointer, slots[slot]->addressUnit(), offset * stride(*slots[slot], dim));
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
    pointer = b.create<LLVM::GEPOp>(loc, pointer.getType(), slots[slot]->addressUnit(), pointer, ValueRange{offset});
  }
  return to;
}

Value NestEmitter::loadOperand(unsigned slot, const Pointers &base, int64_t row, const Piece &piece) {
  const NestOperand &operand = *slots[slot];
  if (!operand.inMemory())
    return operand.splat;
  const Type element = operand.element, stored = storageType(element), unit = operand.addressUnit();
  int64_t step = stride(operand, vectorDim);
  Value pointer = offsetPointer(base[slot], unit, row * stride(operand, rowDim) + piece.offset * step);
  unsigned alignment = storageBytes(unit);
  if (piece.width == 1 || step == 0)
    return fromStorage(b.create<LLVM::LoadOp>(loc, stored, pointer, alignment), element);
  auto type = VectorType::get({piece.width}, stored);
  if (step == 1)
    return fromStorage(b.create<LLVM::LoadOp>(loc, type, pointer, alignment), element);
  SmallVector<Value> elements;
  for (int64_t lane = 0; lane < piece.width; ++lane)
    elements.push_back(b.create<LLVM::LoadOp>(loc, stored, offsetPointer(pointer, unit, lane * step), alignment));
  Value gathered = b.create<arith::ConstantOp>(loc, b.getZeroAttr(type));
  for (auto [lane, scalar] : llvm::enumerate(elements))
    gathered = b.create<vector::InsertOp>(loc, scalar, gathered, static_cast<int64_t>(lane));
  return fromStorage(gathered, element);
}

/// A value as the IR has it of one as memory has it.
Value NestEmitter::fromStorage(Value value, Type element) {
  if (storageType(element) == element)
    return value;
  Type type = element;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    type = VectorType::get(vector.getShape(), element);
  return b.create<arith::TruncIOp>(loc, type, value);
}

/// Loads the operand for all rows of a square block: vectors along the rows, which are then transposed.
void NestEmitter::loadTransposed(unsigned slot, const Pointers &base, Place place, Shared &shared) {
  const NestOperand &operand = *slots[slot];
  const int64_t side = place.piece.width;
  auto type = VectorType::get({side}, storageType(operand.element));
  SmallVector<Value> vectors;
  for (int64_t lane = 0; lane < side; ++lane) {
    Value pointer = offsetPointer(base[slot], operand.addressUnit(), (place.piece.offset + lane) * stride(operand, vectorDim));
    vectors.push_back(b.create<LLVM::LoadOp>(loc, type, pointer, storageBytes(operand.element)));
  }
  // Squares of two by two blocks swap the two beside their diagonal.
  for (int64_t size = 1; size < side; size *= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t lane = 0; lane < side; ++lane) {
      low.push_back(lane & size ? side + lane - size : lane);
      high.push_back(lane & size ? side + lane : lane + size);
    }
    for (int64_t i = 0; i < side; ++i)
      if (!(i & size)) {
        Value first = vectors[i], second = vectors[i + size];
        vectors[i] = b.create<vector::ShuffleOp>(loc, first, second, low);
        vectors[i + size] = b.create<vector::ShuffleOp>(loc, first, second, high);
      }
  }
  for (auto [row, vector] : llvm::enumerate(vectors))
    shared.loads[{slot, int64_t(row), int64_t(place.index)}] = fromStorage(vector, operand.element);
}

Value NestEmitter::loadOperand(unsigned slot, const Pointers &base, Place place, Shared &shared) {
  const NestOperand &operand = *slots[slot];
  if (operand.isTable)
    return offsetPointer(base[slot], operand.addressUnit(),
                         place.row * stride(operand, rowDim) + place.piece.offset * stride(operand, vectorDim));
  if (!operand.inMemory())
    return operand.splat;
  Value &value = shared.loads[{slot, stride(operand, rowDim) ? place.row : 0,
                               stride(operand, vectorDim) ? static_cast<int64_t>(place.index) : 0}];
  if (!value && transposes && isStrided(operand) && rowsNow == place.piece.width)
    loadTransposed(slot, base, place, shared);
  else if (!value)
    value = loadOperand(slot, base, place.row, place.piece);
  return value;
}

void NestEmitter::storeResult(const NestStore &store, unsigned slot, const Pointers &base, int64_t row, const Piece &piece,
                              Value value) {
  Type element = store.to.element, stored = storageType(element);
  int64_t step = stride(store.to, vectorDim);
  Value pointer = offsetPointer(base[slot], stored, row * stride(store.to, rowDim) + piece.offset * step);
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
    b.create<LLVM::StoreOp>(loc, scalar, offsetPointer(pointer, stored, lane * step), alignment);
  }
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

/// Finds out which values of the bodies are the same for all rows or all pieces of a register block.
void NestEmitter::findVariation() {
  variations.clear();
  SmallVector<SmallVector<Variation>> results;
  for (auto [index, stage] : llvm::enumerate(nest.stages)) {
    SmallVector<Variation> arguments;
    for (unsigned slot : inputSlots[index]) {
      const NestOperand &operand = *slots[slot];
      arguments.push_back(operand.stage >= 0 ? results[operand.stage][operand.result]
                                             : Variation{stride(operand, rowDim) != 0, stride(operand, vectorDim) != 0});
    }
    results.emplace_back();
    if (stage.products != Products::None) {
      results.back().push_back({true, true});
      continue;
    }
    if (!stage.body) {
      results.back().push_back(arguments[0]);
      continue;
    }
    // What is not an input is an accumulator: one per cell.
    for (BlockArgument argument : stage.body->getArguments())
      variations[argument] =
          argument.getArgNumber() < arguments.size() ? arguments[argument.getArgNumber()] : Variation{true, true};
    for (Operation &op : stage.body->without_terminator()) {
      if (auto lookup = stage.lookups.find(&op); lookup != stage.lookups.end())
        variations[op.getResult(0)] = arguments[lookup->second.table];
      for (Value operand : op.getOperands())
        for (Value result : op.getResults()) {
          Variation &variation = variations[result], from = variations.lookup(operand);
          variation = {variation.rows || from.rows, variation.pieces || from.pieces};
        }
    }
    for (Value value : stage.body->getTerminator()->getOperands())
      results.back().push_back(nest.accumulates && index == 0 ? Variation{true, true} : variations.lookup(value));
  }
}

/// The elements of a table at places that are scalars or vectors of `width` numbers; a scalar where all lanes read one element.
Value NestEmitter::lookUp(const NestOperand &table, Value start, ArrayRef<std::pair<Value, int64_t>> places, int64_t width) {
  const Type stored = storageType(table.element);
  const unsigned alignment = storageBytes(table.element);
  Value offset = b.create<arith::ConstantOp>(loc, b.getI64IntegerAttr(0));
  bool isVector = false;
  for (auto [place, distance] : places)
    isVector |= isa<VectorType>(place.getType());
  auto wide = [&](Value value) { return isVector ? toWidth(value, width) : value; };
  offset = wide(offset);
  for (auto [place, distance] : places) {
    Value factor = b.create<arith::ConstantOp>(loc, b.getI64IntegerAttr(distance));
    offset = b.create<arith::AddIOp>(loc, offset, b.create<arith::MulIOp>(loc, wide(place), wide(factor)));
  }
  auto at = [&](Value from, Value distance) -> Value {
    return b.create<LLVM::GEPOp>(loc, from.getType(), stored, from, ValueRange{distance});
  };
  const int64_t step = stride(table, vectorDim);
  if (!isVector) {
    Value pointer = at(start, offset);
    if (width == 1 || step == 0)
      return fromStorage(b.create<LLVM::LoadOp>(loc, stored, pointer, alignment), table.element);
    if (step == 1)
      return fromStorage(b.create<LLVM::LoadOp>(loc, VectorType::get({width}, stored), pointer, alignment), table.element);
  }
  auto type = VectorType::get({width}, stored);
  Value gathered = b.create<arith::ConstantOp>(loc, b.getZeroAttr(type));
  for (int64_t lane = 0; lane < width; ++lane) {
    Value distance = isVector ? b.create<vector::ExtractOp>(loc, offset, lane).getResult() : offset;
    Value pointer = at(offsetPointer(start, stored, lane * step), distance);
    gathered = b.create<vector::InsertOp>(loc, b.create<LLVM::LoadOp>(loc, stored, pointer, alignment), gathered, lane);
  }
  return fromStorage(gathered, table.element);
}

/// Evaluates the body of a stage on values that are scalars or vectors as wide as the place's piece; a scalar stands for equal
/// lanes and stays one until it meets a vector. `contract` allows a product to be added without rounding it first.
SmallVector<Value> NestEmitter::evaluate(unsigned stageIndex, ArrayRef<Value> arguments, Place place, Shared &shared,
                                         bool contract) {
  const NestStage &stage = nest.stages[stageIndex];
  if (stage.products != Products::None)
    return {addProducts(b, stage.loc, stage.products, arguments[2], arguments[0], arguments[1], place.piece.width,
                        options.machine)};
  if (!stage.body)
    return {arguments[0]};
  int64_t width = place.piece.width;
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
  auto compute = [&](Operation &op) -> Value {
    if (auto found = stage.lookups.find(&op); found != stage.lookups.end()) {
      SmallVector<std::pair<Value, int64_t>> places;
      for (auto [place, distance] : found->second.places)
        places.emplace_back(lookup(place), distance);
      return lookUp(stage.inputs[found->second.table], arguments[found->second.table], places, width);
    }
    SmallVector<Value> operands;
    arith::MulFOp product = fusedProduct(op);
    if (product) {
      unsigned other = op.getOperand(0).getDefiningOp() == product ? 1 : 0;
      operands = {lookup(product.getLhs()), lookup(product.getRhs()), lookup(op.getOperand(other))};
    } else {
      for (Value operand : op.getOperands())
        operands.push_back(lookup(operand));
    }
    if (isa<math::ExpOp>(op) && op.getResult(0).getType().isF32())
      return exponential(b, op.getLoc(), operands[0], options.machine);
    if (isa<math::LogOp>(op) && op.getResult(0).getType().isF32())
      return logarithm(b, op.getLoc(), operands[0]);
    if (!product)
      return applyToLanes(b, op, operands, width);
    if (llvm::any_of(operands, [](Value value) { return isa<VectorType>(value.getType()); }))
      for (Value &operand : operands)
        operand = toWidth(operand, width);
    return b.create<math::FmaOp>(op.getLoc(), operands[0], operands[1], operands[2]);
  };
  for (Operation &op : stage.body->without_terminator()) {
    if (isa<linalg::IndexOp, arith::IndexCastOp>(op)) // of a lookup, which knows them
      continue;
    if (contract && isa<arith::MulFOp>(op) && op.hasOneUse() && fusedProduct(**op.user_begin()) == &op)
      continue;
    Variation variation = variations.lookup(op.getResult(0));
    Value &value =
        shared.values[{&op, variation.rows ? place.row : 0, variation.pieces ? static_cast<int64_t>(place.index) : 0}];
    if (!value)
      value = compute(op);
    values[op.getResult(0)] = value;
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
                         function_ref<SmallVector<Value>(Place place, Shared &shared)> stageZero) {
  Shared shared;
  for (int64_t row = 0; row < rows; ++row)
    for (auto [index, piece] : llvm::enumerate(pieces)) {
      Place place{row, static_cast<unsigned>(index), piece};
      SmallVector<SmallVector<Value>> results{stageZero(place, shared)};
      for (unsigned stage = 1; stage < nest.stages.size(); ++stage) {
        SmallVector<Value> arguments;
        for (unsigned slot : inputSlots[stage]) {
          const NestOperand &operand = *slots[slot];
          arguments.push_back(operand.stage >= 0 ? results[operand.stage][operand.result]
                                                 : loadOperand(slot, base, place, shared));
        }
        results.push_back(evaluate(stage, arguments, place, shared, false));
      }
      for (auto [store, slot] : llvm::zip(nest.stores, storeSlots))
        storeResult(store, slot, base, row, piece, results[store.stage][store.result]);
    }
}

SmallVector<Value> NestEmitter::emitReductionLoops(const Pointers &base, ArrayRef<int> dims, ArrayRef<Value> accumulators,
                                                   function_ref<SmallVector<Value>(const Pointers &, ArrayRef<Value>)> inner) {
  if (dims.empty())
    return inner(base, accumulators);
  // Taps that reach elements of other rows of the block: without a loop between them, these are loaded once. Sums of bytes wait for other
  // things than loads.
  const bool isFloat = llvm::all_of(nest.inits, [](const NestOperand &init) { return isa<FloatType>(init.element); });
  const int64_t taps = nest.sizes[dims[0]];
  const bool sharesLoads =
      isFloat && dims.size() == 1 && taps <= maxUnrolledTaps && llvm::any_of(inputSlots[0], [&](unsigned slot) {
        const int64_t row = stride(*slots[slot], rowDim), tap = stride(*slots[slot], dims[0]);
        return slots[slot]->inMemory() && row > 0 && tap > 0 && tap * (taps - 1) >= row && (row % tap == 0 || tap % row == 0);
      });
  if (sharesLoads) {
    SmallVector<Value> carried(accumulators);
    for (int64_t tap = 0; tap < taps; ++tap)
      carried = inner(advanced(base, dims[0], tap), carried);
    return carried;
  }
  auto loop = b.create<scf::ForOp>(loc, constantIndex(0), constantIndex(nest.sizes[dims[0]]), constantIndex(1), accumulators);
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
  if (!nest.accumulates) {
    finish(base, pieces, rows, [&](Place place, Shared &shared) {
      SmallVector<Value> arguments;
      for (unsigned slot : inputSlots[0])
        arguments.push_back(loadOperand(slot, base, place, shared));
      return evaluate(0, arguments, place, shared, false);
    });
    return;
  }

  unsigned results = initSlots.size();
  auto forEachPlace = [&](function_ref<void(Place)> visit) {
    for (int64_t row = 0; row < rows; ++row)
      for (auto [index, piece] : llvm::enumerate(pieces))
        visit({row, static_cast<unsigned>(index), piece});
  };
  SmallVector<Value> accumulators;
  Shared initial;
  forEachPlace([&](Place place) {
    for (unsigned slot : initSlots)
      accumulators.push_back(toWidth(loadOperand(slot, base, place, initial), place.piece.width));
  });
  SmallVector<int> reductions;
  for (unsigned dim = 0; dim < nest.sizes.size(); ++dim)
    if (nest.isReduction[dim])
      reductions.push_back(dim);
  accumulators = emitReductionLoops(base, reductions, accumulators, [&](const Pointers &at, ArrayRef<Value> carried) {
    Shared shared;
    SmallVector<Value> next;
    forEachPlace([&](Place place) {
      SmallVector<Value> arguments;
      for (unsigned slot : inputSlots[0])
        arguments.push_back(loadOperand(slot, at, place, shared));
      llvm::append_range(arguments, carried.slice(next.size(), results));
      for (Value value : evaluate(0, arguments, place, shared, true))
        next.push_back(toWidth(value, place.piece.width));
    });
    return next;
  });
  finish(base, pieces, rows, [&](Place place, Shared &) {
    auto *from = accumulators.begin() + (place.row * pieces.size() + place.index) * results;
    return SmallVector<Value>(from, from + results);
  });
}

/// The only reduction loop is the vector loop: partial results in lanes, of which the upper half is combined with the lower one until one
/// is left. On the way, what is left of the loop is added by vectors of that width.
void NestEmitter::emitVectorReduction(const Pointers &base, int64_t rows) {
  int64_t size = nest.sizes[vectorDim], blocks = size / lanes;
  Type element = combiner->op->getResult(0).getType();
  auto step = [&](const Pointers &at, ArrayRef<Value> carried, const Piece &piece) {
    SmallVector<Value> next;
    Shared shared;
    for (int64_t row = 0; row < rows; ++row) {
      Place place{row, 0, piece};
      SmallVector<Value> arguments;
      for (unsigned slot : inputSlots[0])
        arguments.push_back(loadOperand(slot, at, place, shared));
      arguments.push_back(carried[row]);
      next.push_back(toWidth(evaluate(0, arguments, place, shared, true)[0], piece.width));
    }
    return next;
  };
  Value neutral = b.create<arith::ConstantOp>(loc, neutralElement(b, combiner->kind, element));
  auto loop = b.create<scf::ForOp>(loc, constantIndex(0), constantIndex(blocks), constantIndex(1),
                                   SmallVector<Value>(rows, toWidth(neutral, lanes)));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Pointers at = advanced(base, vectorDim, lanes, loop.getInductionVar());
    b.create<scf::YieldOp>(loc, step(at, SmallVector<Value>(loop.getRegionIterArgs()), Piece{0, lanes}));
  }
  SmallVector<Value> accumulators(loop.getResults());
  int64_t done = blocks * lanes;
  for (int64_t width = lanes / 2; width > 0; width /= 2) {
    for (Value &accumulator : accumulators)
      accumulator = combineHalves(b, loc, *combiner, accumulator);
    if ((size - done) & width) {
      accumulators = step(advanced(base, vectorDim, done), accumulators, Piece{0, width});
      done += width;
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    Value init = loadOperand(initSlots[0], base, row, Piece{0, 1});
    accumulators[row] = applyToLanes(b, *combiner->op, {init, accumulators[row]}, 1);
  }
  finish(base, {Piece{0, 1}}, rows, [&](Place place, Shared &) { return SmallVector<Value>{accumulators[place.row]}; });
}

/// A method of the worker that runs the code: a pointer at its start, by its number there.
static Value workerMethod(OpBuilder &b, Location loc, Value worker, int32_t number) {
  auto type = LLVM::LLVMPointerType::get(b.getContext());
  Value place = b.create<LLVM::GEPOp>(loc, type, type, worker, ArrayRef<LLVM::GEPArg>{number});
  return b.create<LLVM::LoadOp>(loc, type, place);
}

/// Runs `body` for the iterations from 0 to `total` - 1, in `chunks` chunks of which a thread takes one at a time.
static void emitSharedLoop(OpBuilder &b, Location loc, Value worker, int64_t total, int64_t chunks,
                           function_ref<void(Value)> body) {
  Type i64 = b.getI64Type();
  auto constant = [&](int64_t value) -> Value { return b.create<arith::ConstantIndexOp>(loc, value); };
  Value claim = workerMethod(b, loc, worker, 0);
  Value count = b.create<LLVM::ConstantOp>(loc, i64, b.getI64IntegerAttr(chunks));
  auto type = LLVM::LLVMFunctionType::get(i64, {worker.getType(), i64});
  auto nextChunk = [&](OpBuilder &, Location, ValueRange) {
    Value chunk = b.create<LLVM::CallOp>(loc, type, ValueRange{claim, worker, count}).getResult();
    Value none = b.create<arith::ConstantOp>(loc, b.getI64IntegerAttr(0));
    Value isTaken = b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::sge, chunk, none);
    b.create<scf::ConditionOp>(loc, isTaken, chunk);
  };
  auto runChunk = [&](OpBuilder &, Location, ValueRange chunk) {
    Value index = b.create<arith::IndexCastOp>(loc, b.getIndexType(), chunk[0]);
    if (chunks == total) {
      body(index);
    } else {
      auto bound = [&](Value number) -> Value {
        return b.create<arith::DivUIOp>(loc, b.create<arith::MulIOp>(loc, number, constant(total)), constant(chunks));
      };
      Value next = b.create<arith::AddIOp>(loc, index, constant(1));
      auto loop = b.create<scf::ForOp>(loc, bound(index), bound(next), constant(1));
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(loop.getBody());
      body(loop.getInductionVar());
    }
    b.create<scf::YieldOp>(loc);
  };
  b.create<scf::WhileOp>(loc, TypeRange{i64}, ValueRange{}, nextChunk, runChunk);
}

/// Into how many chunks a loop of so many vector iterations is worth dividing.
static int64_t chunksOf(int64_t iterations, const NestOptions &options) {
  return std::clamp<int64_t>(iterations / minChunkIterations, 1,
                             std::min<int64_t>(chunksPerThread * options.threads, TW_MAX_CHUNKS));
}

void NestEmitter::emitLoops(const Pointers &base, ArrayRef<Loop> loops, function_ref<void(const Pointers &)> inner) {
  if (loops.empty()) {
    inner(base);
    return;
  }
  auto [dim, count, step] = loops.front();
  OpBuilder::InsertionGuard guard(b);
  auto loop = b.create<scf::ForOp>(loc, constantIndex(0), constantIndex(count), constantIndex(1));
  b.setInsertionPointToStart(loop.getBody());
  emitLoops(advanced(base, dim, step, loop.getInductionVar()), loops.drop_front(), inner);
}

/// The same, in `chunks` chunks that threads share: of the iterations of as few outer loops as have that many.
void NestEmitter::emitShared(const Pointers &base, ArrayRef<Loop> loops, int64_t chunks,
                             function_ref<void(const Pointers &)> inner) {
  int64_t total = 1;
  unsigned divided = 0;
  while (divided < loops.size() && total < chunks)
    total *= loops[divided++].count;
  ++sharedLoops;
  emitSharedLoop(b, loc, worker, total, std::min(chunks, total), [&](Value iteration) {
    Pointers at = base;
    for (unsigned i = divided; i-- > 0;) {
      Value size = constantIndex(loops[i].count);
      Value own = i == 0 ? iteration : b.create<arith::RemUIOp>(loc, iteration, size).getResult();
      at = advanced(at, loops[i].dim, loops[i].step, own);
      if (i > 0)
        iteration = b.create<arith::DivUIOp>(loc, iteration, size);
    }
    emitLoops(at, loops.drop_front(divided), inner);
  });
}

void NestEmitter::emitBlock(const Pointers &base, const Block1D &block) {
  auto micro = [&](const Pointers &at, int64_t rows) {
    rowsNow = rows;
    if (vectorReduction)
      emitVectorReduction(at, rows);
    else
      emitMicroKernel(at, block.pieces, rows);
  };
  // Rows: `rowBlocks` blocks of `rows`, then what is left.
  int64_t rowBlocks = 1, rows = 1, rowsLeft = 0;
  if (rowDim >= 0) {
    int64_t size = nest.sizes[rowDim];
    int64_t pieces = block.pieces.size();
    rows = blockRows;
    if (nest.accumulates && pieces != blockPieces) {
      int64_t most = 16;
      while (most > 1 && !fitsRegisters(most, pieces))
        --most;
      int64_t blocks = (size + most - 1) / most;
      rows = (size + blocks - 1) / blocks;
    }
    rowBlocks = size / rows;
    rowsLeft = size % rows;
  }

  SmallVector<Loop> loops;
  for (int dim = 0; dim < static_cast<int>(nest.sizes.size()); ++dim)
    if (dim != vectorDim && dim != rowDim && !nest.isReduction[dim])
      loops.push_back({dim, nest.sizes[dim], 1});
  auto storeStride = [&](int dim) { return nest.stores.empty() ? 0 : std::abs(nest.stores[0].to.strides[dim]); };
  llvm::stable_sort(loops, [&](const Loop &a, const Loop &b) { return storeStride(a.dim) > storeStride(b.dim); });
  // Vectors that every row of pixels needs again stay in the cache only if they are few. If not, the loops over them go outermost.
  int64_t reused = 0;
  auto isReused = [&](unsigned slot) {
    return rowDim >= 0 && slots[slot]->inMemory() && stride(*slots[slot], vectorDim) && !stride(*slots[slot], rowDim);
  };
  for (unsigned slot : inputSlots[0])
    if (isReused(slot))
      reused += footprint(*slots[slot]);
  // Windows that overlap from one iteration of a loop to the next find their elements in the cache if only some lanes of all pixels lie
  // between.
  const bool windowsOverlap = !vectorReduction && llvm::any_of(inputSlots[0], [&](unsigned slot) {
    return slots[slot]->inMemory() && stride(*slots[slot], vectorDim) && llvm::any_of(loops, [&](const Loop &loop) {
             for (auto [dim, size] : llvm::enumerate(nest.sizes))
               if (const int64_t step = stride(*slots[slot], loop.dim), tap = stride(*slots[slot], static_cast<int>(dim));
                   nest.isReduction[dim] && step > 0 && step <= tap * (size - 1))
                 return true;
             return false;
           });
  });
  if (block.count > 1)
    loops.insert(windowsOverlap ? loops.begin() : loops.end(), {vectorDim, block.count, block.step});
  if (reused > residentBytes)
    std::stable_partition(loops.begin(), loops.end(), [&](const Loop &loop) {
      return llvm::all_of(inputSlots[0], [&](unsigned slot) { return isReused(slot) || !stride(*slots[slot], loop.dim); });
    });
  // The iterations of one row, and of the loops outside of the rows.
  int64_t outer = 1, perRow = block.pieces.size();
  for (const Loop &loop : loops)
    outer *= loop.count;
  for (auto [dim, size] : llvm::enumerate(nest.sizes))
    if (nest.isReduction[dim])
      perRow *= static_cast<int>(dim) == vectorDim ? (size + lanes - 1) / lanes : size;
  auto chunksOfRows = [&](int64_t count) { return chunksOf(outer * count * perRow, options); };
  const int64_t chunks = worker ? chunksOfRows(rowBlocks * rows + rowsLeft) : 1;
  auto emitAll = [&](const Pointers &at, ArrayRef<Loop> all, int64_t count, function_ref<void(const Pointers &)> body) {
    if (worker)
      emitShared(at, all, count, body);
    else
      emitLoops(at, all, body);
  };
  const bool dividesRows = worker && outer < chunks;
  if (rowBlocks > 1 && (dividesRows || transposes)) {
    // Rows are divided, too, or far apart in memory: blocks that write the same ones follow one another.
    SmallVector<Loop> all(loops);
    all.insert(transposes ? all.begin() : all.end(), {rowDim, rowBlocks, rows});
    emitAll(base, all, chunksOfRows(rowBlocks * rows), [&](const Pointers &at) { micro(at, rows); });
    if (rowsLeft)
      emitAll(advanced(base, rowDim, rowBlocks * rows), loops, chunksOfRows(rowsLeft),
              [&](const Pointers &at) { micro(at, rowsLeft); });
    return;
  }
  auto inner = [&](const Pointers &at) {
    if (rowBlocks > 1)
      emitLoops(at, {{rowDim, rowBlocks, rows}}, [&](const Pointers &row) { micro(row, rows); });
    else
      micro(at, rows);
    if (rowsLeft)
      micro(advanced(at, rowDim, rowBlocks * rows), rowsLeft);
  };
  emitAll(base, loops, chunks, inner);
}

void NestEmitter::choose() {
  collectOperands();
  origins = mergeLoops(nest);
  chooseVectorLoop();
  chooseRegisterBlock();
  chooseTransposition();
}

int64_t NestEmitter::registerBlockWidth(int loop) {
  choose();
  return vectorDim >= 0 && !vectorReduction && !isGathered && origins[vectorDim] == loop ? blockPieces * lanes : 0;
}

void NestEmitter::emit() {
  for (auto [size, reduction] : llvm::zip(nest.sizes, nest.isReduction))
    if (size == 0 && !reduction)
      return;
  choose();
  findVariation();
  Pointers base;
  for (NestOperand *operand : slots)
    base.push_back(operand->pointer);
  for (const Block1D &block : blocksOfVectorLoop())
    emitBlock(advanced(base, vectorDim, vectorReduction ? 0 : block.start), block);
}

} // namespace

SmallVector<int> mergeLoops(LoopNest &nest) {
  SmallVector<NestOperand *> operands;
  for (NestStage &stage : nest.stages)
    for (NestOperand &operand : stage.inputs)
      operands.push_back(&operand);
  for (NestOperand &operand : nest.inits)
    operands.push_back(&operand);
  for (NestStore &store : nest.stores)
    operands.push_back(&store.to);
  auto origins = llvm::to_vector(llvm::seq<int>(0, nest.sizes.size()));
  auto erase = [&](unsigned dim) {
    nest.sizes.erase(nest.sizes.begin() + dim);
    nest.isReduction.erase(nest.isReduction.begin() + dim);
    origins.erase(origins.begin() + dim);
    for (NestOperand *operand : operands)
      if (!operand->strides.empty())
        operand->strides.erase(operand->strides.begin() + dim);
  };
  for (unsigned dim = nest.sizes.size(); dim-- > 0;)
    if (nest.sizes[dim] == 1)
      erase(dim);
  auto mergeable = [&](unsigned outer, unsigned inner) {
    return nest.isReduction[outer] == nest.isReduction[inner] && llvm::all_of(operands, [&](NestOperand *operand) {
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
  return origins;
}

int64_t registerBlockWidth(const LoopNest &nest, int loop, const NestOptions &options) {
  OpBuilder builder(nest.stages[0].loc.getContext());
  return NestEmitter(builder, nest.stages[0].loc, nest, options, DenseMap<Value, Value>(), Value()).registerBlockWidth(loop);
}

unsigned emitLoopNest(OpBuilder &builder, Location loc, LoopNest nest, const NestOptions &options,
                      const DenseMap<Value, Value> &scalars, Value worker) {
  NestEmitter emitter(builder, loc, std::move(nest), options, scalars, worker);
  emitter.emit();
  return emitter.sharedLoops;
}

unsigned emitRowBlocks(OpBuilder &b, Location loc, ArrayRef<LoopNest> nests, ArrayRef<int> rowLoops, int64_t rows,
                       const NestOptions &options, const DenseMap<Value, Value> &scalars, Value worker) {
  const int64_t blocks = nests[0].sizes[rowLoops[0]] / rows;
  auto body = [&](Value block) {
    for (auto [nest, loop] : llvm::zip(nests, rowLoops)) {
      LoopNest part = nest;
      part.sizes[loop] = rows;
      auto advance = [&, loop = loop](NestOperand &operand) {
        if (!operand.inMemory() || operand.strides[loop] == 0)
          return;
        Value distance = b.create<arith::ConstantIndexOp>(loc, rows * operand.strides[loop]);
        Value offset = b.create<arith::IndexCastOp>(loc, b.getI64Type(), b.create<arith::MulIOp>(loc, block, distance));
        operand.pointer =
            b.create<LLVM::GEPOp>(loc, operand.pointer.getType(), operand.addressUnit(), operand.pointer, ValueRange{offset});
      };
      for (NestStage &stage : part.stages)
        for (NestOperand &operand : stage.inputs)
          advance(operand);
      for (NestOperand &operand : part.inits)
        advance(operand);
      for (NestStore &store : part.stores)
        advance(store.to);
      emitLoopNest(b, loc, std::move(part), options, scalars, Value());
    }
  };
  if (worker) {
    int64_t work = 0;
    for (const LoopNest &nest : nests)
      work += std::accumulate(nest.sizes.begin(), nest.sizes.end(), int64_t(1), std::multiplies<int64_t>());
    const int64_t chunks = std::min(blocks, chunksOf(work * 32 / options.machine.vectorBits, options));
    emitSharedLoop(b, loc, worker, blocks, chunks, body);
    return 1;
  }
  auto loop = b.create<scf::ForOp>(loc, b.create<arith::ConstantIndexOp>(loc, 0), b.create<arith::ConstantIndexOp>(loc, blocks),
                                   b.create<arith::ConstantIndexOp>(loc, 1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
  return 0;
}

void emitWait(OpBuilder &b, Location loc, Value worker) {
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {worker.getType()});
  b.create<LLVM::CallOp>(loc, type, ValueRange{workerMethod(b, loc, worker, 1), worker});
}

} // namespace tw::cpu
