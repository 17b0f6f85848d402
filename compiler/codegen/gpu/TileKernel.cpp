//===- TileKernel.cpp - Matrix products and convolutions for sm_90a -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/TileKernel.h"
#include "compiler/codegen/gpu/Kernel.h"

#include <optional>

using namespace llvm;
using namespace tw;
using namespace tw::gpu;

namespace {
constexpr unsigned kChunk = 64;     ///< columns of the output that leave together
constexpr unsigned kOutBuffers = 2; ///< of each consumer, for chunks, where there is no residual
/// Of a tile, with two consumers: with more, the sums leave no registers for what the epilogue reads early.
constexpr unsigned kMostColumnsAhead = 128;
constexpr unsigned kBarrierBytes = 16; ///< of a stage: full, and behind it empty
constexpr unsigned kAheadBytes = 8;    ///< of a consumer: the barrier of what is copied ahead for its epilogue
/// Registers of a thread, by consumers: 65,536 of an SM. The producer needs few (setmaxnreg takes multiples of 8).
struct Registers {
  unsigned producer, consumer;
};
constexpr Registers kRegisters[] = {{0, 0}, {0, 0}, {40, 232}, {40, 152}, {24, 112}};
} // namespace

std::string TileShape::name() const {
  return std::to_string(rows) + "x" + std::to_string(columns) + (splitK > 1 ? "/" + std::to_string(splitK) : "");
}

static unsigned outBufferBytes(const TileKernel &kernel) { return kernel.storesBoxes ? 64 * kChunk * bytesOf(kernel.out) : 0; }

unsigned TileKernel::outBuffers() const { return hasResidual ? shape.columns / kChunk : kOutBuffers; }

unsigned TileKernel::vectorBytes() const {
  unsigned bytes = 0;
  for (const Vector &vector : vectors)
    bytes += shape.columns * vector.bytes;
  return bytes;
}

unsigned TileKernel::sharedBytes() const {
  return shape.stages * (stageBytes() + kBarrierBytes) +
         shape.consumers() * (outBuffers() * outBufferBytes(*this) + (copiesAhead() ? vectorBytes() + kAheadBytes : 0)) + 1024;
}

namespace {

class Emitter {
public:
  Emitter(llvm::Module &module, const TileKernel &kernel)
      : kernel(kernel), shape(kernel.shape), module(module), b(module.getContext()), hopper(b) {}

  Function *run();

private:
  Value *constant(unsigned value) { return b.getInt32(value); }
  Value *add(Value *x, unsigned y) { return b.CreateAdd(x, constant(y)); }
  Value *scaled(Value *x, unsigned y) { return b.CreateMul(x, constant(y)); }
  Value *parameter(unsigned index) { return function->getArg(index); }
  Value *fullBarrier(Value *stage) { return b.CreateAdd(barriers, scaled(stage, kBarrierBytes)); }
  Value *emptyBarrier(Value *stage) { return add(fullBarrier(stage), 8); }
  Value *outBuffer(Value *chunk) {
    Value *mine = scaled(consumer, kernel.outBuffers() * outBufferBytes(kernel));
    return b.CreateAdd(b.CreateAdd(add(shared, shape.stages * kernel.stageBytes()), mine),
                       scaled(chunk, outBufferBytes(kernel)));
  }

  /// The next stage of the ring, and the parity that its barrier then has.
  std::pair<Value *, Value *> nextStage(Value *stage, Value *parity);
  TilePlace placeOf(Value *tile) { return placeOfTile(b, tile, rowTiles, columnTiles, kernel.isBatched); }
  /// Coordinates in a map.
  SmallVector<Value *> coordinates(Value *inner, Value *outer, const TilePlace &place) {
    if (kernel.splitsBatch)
      return {inner, outer, b.CreateURem(place.batch, parameter(kInnerBatches)),
              b.CreateUDiv(place.batch, parameter(kInnerBatches))};
    return kernel.isBatched ? SmallVector<Value *>{inner, outer, place.batch} : SmallVector<Value *>{inner, outer};
  }
  bool splits() const { return kernel.splitting != Splitting::None; }
  /// The part of a tile at an item, and its stages of k.
  SplitTiles::Part partAt(Value *item);
  /// The parts of tiles that this block does.
  void forEachPart(ArrayRef<Value *> initial,
                   function_ref<SmallVector<Value *>(const SplitTiles::Part &, ArrayRef<Value *>)> body);
  /// What is done of whole tiles, and of parts of split ones.
  void byWhole(const SplitTiles::Part &part, function_ref<void()> whole, function_ref<void()> split = nullptr);

  void produce();
  void consume();
  SmallVector<Value *> multiplyTile(Value *&stage, Value *&parity);
  void copyAhead(const TilePlace &place);
  void writeTile(ArrayRef<Value *> sums, const TilePlace &place, Value *chunks, Value *parity);
  void writePart(ArrayRef<Value *> sums, Value *slot);
  /// Columns behind the tile's first of a pair of the thread's sums; pairs of both halves have one.
  Value *columnOfPair(Value *pair);
  void writePair(Value *batch, Value *row, Value *column, ArrayRef<Value *> values);
  void reduceCluster();

  SmallVector<Value *> applied(ArrayRef<Value *> sums, Value *batch, Value *row, Value *column, ArrayRef<Value *> residual = {},
                               ArrayRef<Value *> pointers = {});
  SmallVector<Value *> kernelPointers() {
    SmallVector<Value *> pointers;
    for (unsigned i = 0; i < kernel.pointers; ++i)
      pointers.push_back(parameter(kFirstPointer + i));
    return pointers;
  }
  SmallVector<Value *> unpacked(Value *word);
  Value *descriptor(Value *address, unsigned behind, bool isTransposed = false);

  const TileKernel &kernel;
  const TileShape &shape;
  llvm::Module &module;
  IRBuilder<> b;
  Hopper hopper;
  Function *function = nullptr;
  Value *shared = nullptr, *barriers = nullptr, *thread = nullptr, *warpgroup = nullptr, *rank = nullptr;
  Value *rowTiles = nullptr, *columnTiles = nullptr, *tiles = nullptr, *tileStep = nullptr;
  // Items: tiles, or those of SplitTiles, whose first piece's item stands behind the whole tiles.
  std::optional<SplitTiles> split;
  Value *firstItem = nullptr, *endItem = nullptr, *firstInPiece = nullptr;
  Value *firstStage = nullptr, *endStage = nullptr; ///< of k, for what this block does now
  // Of a consumer.
  Value *consumer = nullptr, *lane = nullptr, *warp = nullptr, *signals = nullptr, *inGroup = nullptr;
  Value *vectors = nullptr, *aheadBarrier = nullptr; ///< copied ahead
  SmallVector<Value *> splitSums;
};

std::pair<Value *, Value *> Emitter::nextStage(Value *stage, Value *parity) {
  Value *next = add(stage, 1);
  Value *wraps = b.CreateICmpEQ(next, constant(shape.stages));
  return {b.CreateSelect(wraps, constant(0), next), b.CreateSelect(wraps, b.CreateXor(parity, 1), parity)};
}

SplitTiles::Part Emitter::partAt(Value *item) {
  SplitTiles::Part part{item, firstStage, endStage, nullptr, nullptr, nullptr};
  if (!splits())
    return part;
  part = split->partAt(item, endItem, hopper.blockIndex());
  firstStage = part.firstStage;
  endStage = part.endStage;
  return part;
}

void Emitter::forEachPart(ArrayRef<Value *> initial,
                          function_ref<SmallVector<Value *>(const SplitTiles::Part &, ArrayRef<Value *>)> body) {
  if (shape.splitK > 1) { // one tile for each cluster
    body(partAt(firstItem), initial);
    return;
  }
  SmallVector<Value *> state{firstItem};
  state.append(initial.begin(), initial.end());
  emitLoop(
      b, "tiles", state, [&](ArrayRef<Value *> values) { return b.CreateICmpULT(values[0], endItem); },
      [&](ArrayRef<Value *> values) {
        const SplitTiles::Part part = partAt(values[0]);
        SmallVector<Value *> next = body(part, values.drop_front());
        Value *item = kernel.splitting == Splitting::All ? part.next : b.CreateAdd(values[0], tileStep);
        if (kernel.splitting == Splitting::Last) {
          Value *behindTile = b.CreateSelect(b.CreateICmpULT(item, split->wholeTiles()), item, firstInPiece);
          item = b.CreateSelect(part.isWhole, behindTile, part.next);
        }
        next.insert(next.begin(), item);
        return next;
      });
}

void Emitter::byWhole(const SplitTiles::Part &part, function_ref<void()> whole, function_ref<void()> split) {
  if (!splits())
    return whole();
  if (kernel.splitting == Splitting::Last)
    return emitIf(b, part.isWhole, whole, split);
  if (split)
    split();
}

void Emitter::produce() {
  const unsigned depth = kernel.depth();
  const unsigned bytesA = shape.rows * kStageRowBytes;
  auto copyB = [&](Value *stage, Value *k, const TilePlace &place) {
    Value *to = b.CreateAdd(shared, add(scaled(stage, kernel.stageBytes()), bytesA));
    if (!kernel.columnsInner) {
      hopper.copyBox(to, parameter(kMapB), coordinates(scaled(k, depth), scaled(place.column, shape.columns), place),
                     fullBarrier(stage));
      return;
    }
    for (unsigned column = 0; column < shape.columns; column += kChunk)
      hopper.copyBox(add(to, column * kStageRowBytes), parameter(kMapB),
                     coordinates(add(scaled(place.column, shape.columns), column), scaled(k, depth), place),
                     fullBarrier(stage));
  };
  // B is known before the grid in front of this one ends.
  Value *loadedB = constant(0);
  const bool loadsAhead = kernel.overlapsGrids && kernel.knowsB;
  if (loadsAhead) {
    const SplitTiles::Part first = partAt(firstItem);
    emitIf(b, b.CreateICmpULT(firstItem, endItem), [&] {
      const TilePlace place = placeOf(first.tile);
      Value *count = b.CreateSub(endStage, firstStage);
      count = b.CreateSelect(b.CreateICmpULT(count, constant(shape.stages)), count, constant(shape.stages));
      emitLoop(
          b, "ahead", {constant(0)}, [&](ArrayRef<Value *> i) { return b.CreateICmpULT(i[0], count); },
          [&](ArrayRef<Value *> i) -> SmallVector<Value *> {
            hopper.arriveExpecting(fullBarrier(i[0]), constant(kernel.stageBytes()));
            copyB(i[0], b.CreateAdd(firstStage, i[0]), place);
            return {add(i[0], 1)};
          });
    });
    Value *count = b.CreateSub(endStage, firstStage);
    loadedB = b.CreateSelect(b.CreateICmpULT(count, constant(shape.stages)), count, constant(shape.stages));
  }
  if (kernel.overlapsGrids)
    hopper.waitForGridBefore();
  // Stage, parity of its empty barrier (which has never been waited for), and how many stages have their B.
  forEachPart({constant(0), constant(1), loadedB}, [&](const SplitTiles::Part &part, ArrayRef<Value *> state) {
    const TilePlace place = placeOf(part.tile);
    Value *row = place.row;
    Value *x = nullptr, *y = nullptr, *image = nullptr;
    SmallVector<Value *> initial{firstStage, state[0], state[1]};
    if (kernel.source == RowSource::Pixels) {
      Value *pixel = scaled(row, shape.rows), *width = parameter(kOutWidth), *height = parameter(kOutHeight);
      Value *line = b.CreateUDiv(pixel, width);
      x = b.CreateSub(b.CreateMul(b.CreateURem(pixel, width), parameter(kStrideWidth)), parameter(kPadLeft));
      y = b.CreateSub(b.CreateMul(b.CreateURem(line, height), parameter(kStrideHeight)), parameter(kPadTop));
      image = b.CreateUDiv(line, height);
      Value *tap = b.CreateUDiv(firstStage, parameter(kChannelBlocks));
      initial.push_back(b.CreateURem(firstStage, parameter(kChannelBlocks)));
      initial.push_back(b.CreateURem(tap, parameter(kFilterWidth)));
      initial.push_back(b.CreateUDiv(tap, parameter(kFilterWidth)));
    }
    SmallVector<Value *> end = emitLoop(
        b, "stages", initial, [&](ArrayRef<Value *> values) { return b.CreateICmpULT(values[0], endStage); },
        [&](ArrayRef<Value *> values) {
          Value *k = values[0], *stage = values[1], *parity = values[2];
          auto begin = [&] {
            hopper.wait(emptyBarrier(stage), parity);
            hopper.arriveExpecting(fullBarrier(stage), constant(kernel.stageBytes()));
            copyB(stage, k, place);
          };
          if (loadsAhead)
            emitIf(b, b.CreateICmpUGE(b.CreateSub(k, firstStage), state[2]), begin);
          else
            begin();
          Value *to = b.CreateAdd(shared, scaled(stage, kernel.stageBytes()));
          SmallVector<Value *> next{add(k, 1)};
          auto [nextOne, nextParity] = nextStage(stage, parity);
          next.push_back(nextOne);
          next.push_back(nextParity);
          if (kernel.source == RowSource::Matrix) {
            hopper.copyBox(to, parameter(kMapA), coordinates(scaled(k, depth), scaled(row, shape.rows), place),
                           fullBarrier(stage));
            return next;
          }
          Value *block = values[3], *tapX = values[4], *tapY = values[5];
          hopper.copyPixels(to, parameter(kMapA), {scaled(block, depth), x, y, image},
                            {b.CreateTrunc(b.CreateMul(tapX, parameter(kDilationWidth)), b.getInt16Ty()),
                             b.CreateTrunc(b.CreateMul(tapY, parameter(kDilationHeight)), b.getInt16Ty())},
                            fullBarrier(stage));
          Value *nextBlock = add(block, 1);
          Value *isNextTap = b.CreateICmpEQ(nextBlock, parameter(kChannelBlocks));
          Value *nextX = b.CreateSelect(isNextTap, add(tapX, 1), tapX);
          Value *isNextLine = b.CreateICmpEQ(nextX, parameter(kFilterWidth));
          next.push_back(b.CreateSelect(isNextTap, constant(0), nextBlock));
          next.push_back(b.CreateSelect(isNextLine, constant(0), nextX));
          next.push_back(b.CreateSelect(isNextLine, add(tapY, 1), tapY));
          return next;
        });
    return SmallVector<Value *>{end[1], end[2], constant(0)};
  });
}

/// Of rows of 128 bytes, swizzled by 128 bytes: 8 rows lie 1024 bytes apart. Transposed, the next 64 columns lie 64 rows further.
Value *Emitter::descriptor(Value *address, unsigned behind, bool isTransposed) {
  const uint64_t layout =
      uint64_t(1) << 62 | uint64_t(1024 >> 4) << 32 | uint64_t(isTransposed ? 64 * kStageRowBytes >> 4 : 1) << 16;
  Value *units = b.CreateLShr(add(address, behind), 4);
  return b.CreateOr(b.CreateZExt(units, b.getInt64Ty()), b.getInt64(layout));
}

SmallVector<Value *> Emitter::multiplyTile(Value *&stage, Value *&parity) {
  const unsigned count = shape.columns / 2;
  Type *type = kernel.sumType(b.getContext());
  // k, stage, parity, the barrier to signal, sums. The first product overwrites the sums.
  SmallVector<Value *> initial{firstStage, stage, parity, barriers};
  initial.append(count, UndefValue::get(type));
  SmallVector<Value *> end = emitLoop(
      b, "products", initial, [&](ArrayRef<Value *> values) { return b.CreateICmpULT(values[0], endStage); },
      [&](ArrayRef<Value *> values) {
        Value *k = values[0], *stage = values[1];
        hopper.wait(fullBarrier(stage), values[2]);
        Value *from = b.CreateAdd(shared, scaled(stage, kernel.stageBytes()));
        Value *rowsA = b.CreateAdd(from, scaled(consumer, 64 * kStageRowBytes));
        Value *isLater = b.CreateICmpUGT(k, firstStage);
        // A step of k is 32 bytes, or 16 rows.
        SmallVector<Value *> sums = hopper.multiply(kernel.in, shape.columns, values.drop_front(4), descriptor(rowsA, 0),
                                                    descriptor(from, shape.rows * kStageRowBytes, kernel.columnsInner), 2,
                                                    kernel.columnsInner ? 16 * kStageRowBytes >> 4 : 2,
                                                    b.CreateZExt(isLater, b.getInt32Ty()), kernel.columnsInner);
        sums = hopper.waitProducts(sums, 1);
        hopper.arriveIf(values[3], b.CreateAnd(signals, isLater));
        auto [next, nextParity] = nextStage(stage, values[2]);
        SmallVector<Value *> result{add(k, 1), next, nextParity, emptyBarrier(stage)};
        result.append(sums.begin(), sums.end());
        return result;
      });
  stage = end[1];
  parity = end[2];
  SmallVector<Value *> sums = hopper.waitProducts(ArrayRef<Value *>(end).drop_front(4), 0);
  hopper.arriveIf(end[3], signals);
  return sums;
}

/// What the epilogue makes of sums; it only sees places inside of the output.
SmallVector<Value *> Emitter::applied(ArrayRef<Value *> sums, Value *batch, Value *row, Value *column,
                                      ArrayRef<Value *> residual, ArrayRef<Value *> pointers) {
  auto clamped = [&](Value *value, Value *size, unsigned width) {
    Value *last = b.CreateSub(size, constant(width));
    return b.CreateSelect(b.CreateICmpULT(value, last), value, last);
  };
  // The number of columns is a multiple of what a thread has side by side: said so, loads of neighbours become one.
  Value *first =
      b.CreateAnd(clamped(column, parameter(kColumns), unsigned(sums.size())), ~uint64_t(sums.size() - 1) & 0xffffffff);
  Value *inAll = b.CreateAdd(b.CreateMul(batch, parameter(kRows)), clamped(row, parameter(kRows), 1));
  const SmallVector<Value *> all = pointers.empty() ? kernelPointers() : SmallVector<Value *>(pointers);
  Value *columns = b.CreateAnd(parameter(kColumns), ~uint64_t(sums.size() - 1) & 0xffffffff);
  return kernel.epilogue(b, {sums, inAll, first, columns, residual, all});
}

/// The elements of the output's type in a word.
SmallVector<Value *> Emitter::unpacked(Value *word) {
  Type *element = kernel.out == Element::I8 ? b.getInt8Ty() : kernel.out == Element::Bf16 ? b.getBFloatTy() : b.getHalfTy();
  const unsigned count = 4 / bytesOf(kernel.out);
  Value *all = b.CreateBitCast(word, FixedVectorType::get(element, count));
  SmallVector<Value *> elements;
  for (unsigned i = 0; i < count; ++i)
    elements.push_back(b.CreateExtractElement(all, uint64_t(i)));
  return elements;
}

/// What the epilogue of a tile reads, asked for before the tile is multiplied. By the consumer's first thread: the stores of the tile before
/// have read their buffers, and all threads have met behind their last reads of the vectors.
void Emitter::copyAhead(const TilePlace &place) {
  emitIf(b, b.CreateICmpEQ(inGroup, constant(0)), [&] {
    Value *firstRow = b.CreateAdd(scaled(place.row, shape.rows), scaled(consumer, 64));
    Value *firstColumn = scaled(place.column, shape.columns);
    Value *left = b.CreateSub(parameter(kColumns), firstColumn);
    Value *count = b.CreateSelect(b.CreateICmpULT(left, constant(shape.columns)), left, constant(shape.columns));
    Value *bytes = constant(kernel.hasResidual ? kernel.outBuffers() * outBufferBytes(kernel) : 0);
    for (const TileKernel::Vector &vector : kernel.vectors)
      bytes = b.CreateAdd(bytes, scaled(count, vector.bytes));
    hopper.arriveExpecting(aheadBarrier, bytes);
    Value *to = vectors;
    for (const TileKernel::Vector &vector : kernel.vectors) {
      Value *from = b.CreateGEP(b.getInt8Ty(), parameter(kFirstPointer + vector.pointer),
                                b.CreateZExt(scaled(firstColumn, vector.bytes), b.getInt64Ty()));
      hopper.copyBytes(to, from, scaled(count, vector.bytes), aheadBarrier);
      to = add(to, shape.columns * vector.bytes);
    }
    if (!kernel.hasResidual)
      return;
    hopper.waitStoresRead(0);
    for (unsigned chunk = 0; chunk < kernel.outBuffers(); ++chunk)
      hopper.copyBox(outBuffer(constant(chunk)), parameter(unsigned(function->arg_size()) - 1),
                     coordinates(add(firstColumn, chunk * kChunk), firstRow, place), aheadBarrier);
  });
}

void Emitter::writePair(Value *batch, Value *row, Value *column, ArrayRef<Value *> values) {
  const unsigned bytes = bytesOf(kernel.out);
  emitIf(b, b.CreateAnd(b.CreateICmpULT(row, parameter(kRows)), b.CreateICmpULT(column, parameter(kColumns))), [&] {
    Value *all = b.CreateAdd(b.CreateMul(batch, parameter(kRows)), row);
    Value *index =
        b.CreateAdd(b.CreateMul(b.CreateZExt(all, b.getInt64Ty()), b.CreateZExt(parameter(kColumns), b.getInt64Ty())),
                    b.CreateZExt(column, b.getInt64Ty()));
    Value *at = b.CreateGEP(b.getInt8Ty(), parameter(kOut), b.CreateMul(index, b.getInt64(bytes)));
    if (bytes == 4) {
      Value *pair = PoisonValue::get(FixedVectorType::get(values[0]->getType(), 2));
      pair = b.CreateInsertElement(b.CreateInsertElement(pair, values[0], uint64_t(0)), values[1], 1);
      b.CreateAlignedStore(pair, at, Align(8));
    } else if (bytes == 2) {
      b.CreateAlignedStore(hopper.pack(kernel.out, values[0], values[1]), at, Align(4));
    } else {
      Value *zero = ConstantFP::get(b.getFloatTy(), 0);
      b.CreateAlignedStore(b.CreateTrunc(hopper.packBytes({values[0], values[1], zero, zero}), b.getInt16Ty()), at, Align(2));
    }
  });
}

void Emitter::writeTile(ArrayRef<Value *> sums, const TilePlace &place, Value *chunks, Value *parity) {
  Value *firstRow = b.CreateAdd(scaled(place.row, shape.rows), scaled(consumer, 64));
  Value *firstColumn = scaled(place.column, shape.columns);
  // A thread holds, of 16 rows of a warp and 8 columns, two neighbours in row lane / 4 and two in the row 8 below.
  Value *row = b.CreateAdd(firstRow, b.CreateAdd(scaled(warp, 16), b.CreateLShr(lane, 2)));
  Value *quarter = b.CreateAnd(lane, 3);
  const bool bytes = kernel.out == Element::I8 && kernel.storesBoxes;
  const unsigned rowBytes = kChunk * bytesOf(kernel.out);
  Value *isFirst = b.CreateICmpEQ(inGroup, constant(0)), *barrier = add(consumer, 1);
  // Lane l gives the address of row l % 8 of matrix l / 8: the upper and lower half of the rows, then the columns behind.
  Value *matrixRow =
      b.CreateAdd(scaled(warp, 16), b.CreateAdd(b.CreateAnd(lane, 7), scaled(b.CreateAnd(b.CreateLShr(lane, 3), 1), 8)));
  Value *behind = b.CreateLShr(lane, 4);
  // The map's swizzle: units of 16 bytes by the row, or by every second row where rows are 64 bytes.
  Value *swizzle = bytes ? b.CreateAnd(b.CreateLShr(matrixRow, 1), 3) : b.CreateAnd(matrixRow, 7);
  SmallVector<Value *> pointers = kernelPointers();
  if (kernel.copiesAhead())
    hopper.wait(aheadBarrier, parity);
  unsigned behindFirst = 0; // bytes
  for (const TileKernel::Vector &each : kernel.vectors) {
    Value *begin = b.CreateZExt(add(vectors, behindFirst), b.getInt64Ty());
    begin = b.CreateSub(begin, b.CreateZExt(scaled(firstColumn, each.bytes), b.getInt64Ty()));
    pointers[each.pointer] = b.CreateIntToPtr(begin, PointerType::get(b.getContext(), 3));
    behindFirst += shape.columns * each.bytes;
  }
  const unsigned step = bytes ? 16 : 8; // columns of a matrix
  // Two 16-bit numbers or four bytes, of the columns from `first` on (of a tile) in the order of stmatrix: one matrix wide and two high.
  // The residual's word lies where the result's will: no other thread reads or writes it.
  auto wordsAt = [&](unsigned first) {
    SmallVector<Value *> words;
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned at = first / 8 * 4 + half * 2;
      Value *column = b.CreateAdd(firstColumn, add(scaled(quarter, bytes ? 4 : 2), first)), *atRow = add(row, half * 8);
      SmallVector<Value *> residual;
      if (kernel.hasResidual) {
        Value *inBuffer = add(b.CreateAdd(scaled(warp, 16), b.CreateLShr(lane, 2)), half * 8);
        Value *rowSwizzle = bytes ? b.CreateAnd(b.CreateLShr(inBuffer, 1), 3) : b.CreateAnd(inBuffer, 7);
        Value *unit = b.CreateShl(b.CreateXor(rowSwizzle, constant(first % kChunk / step)), 4);
        Value *inRow = b.CreateAdd(unit, b.CreateShl(quarter, 2));
        Value *from = b.CreateAdd(outBuffer(constant(first / kChunk)), b.CreateAdd(scaled(inBuffer, rowBytes), inRow));
        residual = unpacked(
            b.CreateAlignedLoad(b.getInt32Ty(), b.CreateIntToPtr(from, PointerType::get(b.getContext(), 3)), Align(4)));
      }
      if (bytes) {
        words.push_back(hopper.packBytes(
            applied({sums[at], sums[at + 1], sums[at + 4], sums[at + 5]}, place.batch, atRow, column, residual, pointers)));
        continue;
      }
      SmallVector<Value *> values = applied({sums[at], sums[at + 1]}, place.batch, atRow, column, residual, pointers);
      if (kernel.storesBoxes)
        words.push_back(hopper.pack(kernel.out, values[0], values[1]));
      else
        writePair(place.batch, atRow, column, values);
    }
    return words;
  };
  for (unsigned base = 0; base < shape.columns; base += kChunk) {
    if (!kernel.storesBoxes) {
      for (unsigned column = 0; column < kChunk; column += step)
        wordsAt(base + column);
      continue;
    }
    Value *buffer = outBuffer(kernel.hasResidual ? constant(base / kChunk) : b.CreateURem(chunks, constant(kOutBuffers)));
    chunks = add(chunks, 1);
    auto waitForBuffer = [&] {
      if (kernel.hasResidual) // which lies there
        return;
      emitIf(b, isFirst, [&] { hopper.waitStoresRead(kOutBuffers - 1); });
      hopper.synchronize(barrier, 128);
    };
    // All that the epilogue reads is asked for before the wait, if there are registers for it beside the sums.
    const bool readsAhead = !kernel.copiesAhead() && shape.columns <= kMostColumnsAhead && shape.consumers() <= 2;
    SmallVector<Value *> words;
    for (unsigned column = 0; readsAhead && column < kChunk; column += step)
      words.append(wordsAt(base + column));
    waitForBuffer();
    for (unsigned column = 0; column < kChunk; column += 2 * step) {
      SmallVector<Value *> matrices;
      if (readsAhead) {
        matrices.append(words.begin() + column / step * 2, words.begin() + column / step * 2 + 4);
      } else {
        matrices = wordsAt(base + column);
        matrices.append(wordsAt(base + column + step));
      }
      Value *unit = b.CreateShl(b.CreateXor(add(behind, column / step), swizzle), 4);
      hopper.storeMatrices(b.CreateAdd(buffer, b.CreateAdd(scaled(matrixRow, rowBytes), unit)), matrices);
    }
    hopper.fenceProxy();
    hopper.synchronize(barrier, 128);
    emitIf(b, isFirst, [&] {
      hopper.storeBox(parameter(kMapOut), buffer, coordinates(add(firstColumn, base), firstRow, place));
      hopper.commitStores();
    });
  }
}

Value *Emitter::columnOfPair(Value *pair) {
  Value *quarter = b.CreateAnd(lane, 3);
  if (!kernel.permutesColumns)
    return b.CreateAdd(scaled(b.CreateLShr(pair, 1), 8), scaled(quarter, 2));
  return b.CreateAdd(scaled(b.CreateLShr(pair, 2), 16),
                     b.CreateAdd(scaled(quarter, 4), scaled(b.CreateAnd(b.CreateLShr(pair, 1), 1), 2)));
}

/// [row of the tile][column of the tile].
void Emitter::writePart(ArrayRef<Value *> sums, Value *slot) {
  Value *row = b.CreateAdd(scaled(consumer, 64), b.CreateAdd(scaled(warp, 16), b.CreateLShr(lane, 2)));
  Value *first = b.CreateMul(b.CreateZExt(slot, b.getInt64Ty()), b.getInt64(shape.rows * shape.columns));
  for (unsigned pair = 0; pair < sums.size() / 2; ++pair) {
    Value *inTile = b.CreateAdd(scaled(add(row, pair % 2 * 8), shape.columns), columnOfPair(constant(pair)));
    Value *at = b.CreateGEP(sums[0]->getType(), parameter(kSlots), b.CreateAdd(first, b.CreateZExt(inTile, b.getInt64Ty())));
    Value *both = PoisonValue::get(FixedVectorType::get(sums[0]->getType(), 2));
    both = b.CreateInsertElement(b.CreateInsertElement(both, sums[2 * pair], uint64_t(0)), sums[2 * pair + 1], 1);
    b.CreateAlignedStore(both, at, Align(8));
  }
}

/// Behind the barrier of the cluster: this block adds up its part of the sums of all blocks.
void Emitter::reduceCluster() {
  const unsigned count = shape.columns / 2, part = count / shape.splitK, apart = 512 * shape.consumers();
  const TilePlace place = placeOf(firstItem);
  Value *mine = b.CreateAdd(shared, b.CreateShl(b.CreateAdd(inGroup, scaled(consumer, 128)), 2));
  Value *row = b.CreateAdd(b.CreateAdd(scaled(place.row, shape.rows), scaled(consumer, 64)),
                           b.CreateAdd(scaled(warp, 16), b.CreateLShr(lane, 2)));
  Type *type = kernel.sumType(b.getContext());
  for (unsigned u = 0; u < part; u += 2) {
    Value *index = add(scaled(rank, part), u);
    SmallVector<Value *> sums(2, Constant::getNullValue(type));
    for (unsigned block = 0; block < shape.splitK; ++block) {
      Value *from = hopper.inBlock(b.CreateAdd(mine, scaled(index, apart)), constant(block));
      for (unsigned i : {0u, 1u}) {
        Value *value = hopper.loadCluster(type, add(from, i * apart));
        sums[i] = type->isFloatTy() ? b.CreateFAdd(sums[i], value) : b.CreateAdd(sums[i], value);
      }
    }
    Value *pair = b.CreateLShr(index, 1), *half = b.CreateAnd(pair, 1);
    Value *column = b.CreateAdd(scaled(place.column, shape.columns), columnOfPair(pair));
    Value *at = b.CreateAdd(row, scaled(half, 8));
    writePair(place.batch, at, column, applied(sums, place.batch, at, column));
  }
}

void Emitter::consume() {
  if (shape.splitK == 1 && shape.consumers() > 1)
    hopper.setRegisters(kRegisters[shape.consumers()].consumer, true);
  if (kernel.copiesAhead()) {
    aheadBarrier = b.CreateAdd(add(barriers, shape.stages * kBarrierBytes), scaled(consumer, kAheadBytes));
    vectors = b.CreateAdd(b.CreateAdd(shared, constant(shape.stages * kernel.stageBytes() +
                                                       kernel.outBuffers() * shape.consumers() * outBufferBytes(kernel))),
                          scaled(consumer, kernel.vectorBytes()));
    // What is copied ahead may come from the grid in front.
    if (kernel.overlapsGrids)
      emitIf(b, b.CreateICmpEQ(inGroup, constant(0)), [&] { hopper.waitForGridBefore(); });
  }
  // Stage, parity of its full barrier, chunks that were stored, parity of what is copied ahead.
  forEachPart({constant(0), constant(0), constant(0), constant(0)}, [&](const SplitTiles::Part &part, ArrayRef<Value *> state) {
    Value *stage = state[0], *parity = state[1];
    if (kernel.copiesAhead())
      byWhole(part, [&] { copyAhead(placeOf(part.tile)); });
    SmallVector<Value *> sums = multiplyTile(stage, parity);
    if (shape.splitK > 1) {
      // Over the stages, which all consumers have read.
      hopper.synchronize(constant(shape.consumers() + 1), 128 * shape.consumers());
      Value *mine = b.CreateAdd(shared, b.CreateShl(b.CreateAdd(inGroup, scaled(consumer, 128)), 2));
      for (unsigned i = 0; i < sums.size(); ++i)
        hopper.storeShared(add(mine, i * 512 * shape.consumers()), sums[i]);
    } else {
      byWhole(
          part, [&] { writeTile(sums, placeOf(part.tile), state[2], state[3]); }, [&] { writePart(sums, part.slot); });
    }
    return SmallVector<Value *>{stage, parity, add(state[2], shape.columns / kChunk), b.CreateXor(state[3], 1)};
  });
  if (kernel.storesBoxes && shape.splitK == 1)
    emitIf(b, b.CreateICmpEQ(inGroup, constant(0)), [&] { hopper.waitStores(0); });
}

Function *Emitter::run() {
  LLVMContext &context = module.getContext();
  Type *map = ArrayType::get(b.getInt8Ty(), 128);
  SmallVector<Type *> types(3, b.getPtrTy());
  types.append(kOut - kBatches, b.getInt32Ty());
  types.append(kFirstPointer - kOut + kernel.pointers, b.getPtrTy());
  SmallVector<unsigned> maps{kMapA, kMapB, kMapOut};
  if (kernel.hasResidual) {
    maps.push_back(unsigned(types.size()));
    types.push_back(b.getPtrTy());
  }
  function = createKernel(module, kernel.name, types, shape.threads());
  for (unsigned i : maps) {
    function->addParamAttr(i, Attribute::getWithByValType(context, map));
    function->addParamAttr(i, Attribute::getWithAlignment(context, Align(64)));
  }
  annotateInPlace(*function, maps);
  // Not noalias: LLVM would read through the cache of constants what the grid before may still write.
  for (unsigned i = kOut; i < kFirstPointer + kernel.pointers; ++i)
    function->addParamAttr(i, Attribute::getWithAlignment(context, Align(kAlignment)));

  b.SetInsertPoint(BasicBlock::Create(context, "entry", function));
  auto *memory = new GlobalVariable(module, ArrayType::get(b.getInt8Ty(), 0), false, GlobalValue::ExternalLinkage, nullptr,
                                    kernel.name + "_shared", nullptr, GlobalValue::NotThreadLocal, /*AddressSpace=*/3,
                                    /*isExternallyInitialized=*/true);
  memory->setAlignment(Align(1024));
  shared = b.CreateTrunc(b.CreatePtrToInt(memory, b.getInt64Ty()), b.getInt32Ty());
  barriers = add(shared, shape.stages * kernel.stageBytes() +
                             shape.consumers() * (kernel.outBuffers() * outBufferBytes(kernel) + kernel.vectorBytes()));
  thread = hopper.threadIndex();
  warpgroup = hopper.uniform(b.CreateLShr(thread, 7));
  rank = shape.splitK > 1 ? hopper.clusterRank() : constant(0);
  emitIf(b, b.CreateICmpEQ(thread, constant(0)), [&] {
    for (unsigned stage = 0; stage < shape.stages; ++stage) {
      hopper.initBarrier(fullBarrier(constant(stage)), constant(1));
      hopper.initBarrier(emptyBarrier(constant(stage)), constant(shape.consumers()));
    }
    for (unsigned i = 0; kernel.copiesAhead() && i < shape.consumers(); ++i)
      hopper.initBarrier(add(barriers, shape.stages * kBarrierBytes + i * kAheadBytes), constant(1));
    hopper.fenceBarrierInit();
  });
  if (shape.splitK > 1)
    hopper.synchronizeCluster();
  else
    hopper.synchronize();
  if (kernel.overlapsGrids)
    hopper.launchNextGrid();

  rowTiles = tilesAlong(b, parameter(kRows), shape.rows);
  columnTiles = tilesAlong(b, parameter(kColumns), shape.columns);
  tiles = b.CreateMul(b.CreateMul(rowTiles, columnTiles), parameter(kBatches));
  firstItem = b.CreateUDiv(hopper.blockIndex(), constant(shape.splitK));
  endItem = tiles;
  tileStep = hopper.blockCount();
  if (splits()) { // the number of whole tiles is 0 or at least that of blocks
    split.emplace(b, tiles, parameter(kSplit), tileStep, parameter(kStages));
    firstInPiece = split->pieceOf(hopper.blockIndex());
    endItem = split->pieceOf(add(hopper.blockIndex(), 1));
    firstItem = kernel.splitting == Splitting::All
                    ? firstInPiece
                    : b.CreateSelect(b.CreateICmpULT(firstItem, split->wholeTiles()), firstItem, firstInPiece);
  }
  firstStage = constant(0);
  endStage = parameter(kStages);
  if (shape.splitK > 1) {
    firstStage = b.CreateUDiv(b.CreateMul(rank, parameter(kStages)), constant(shape.splitK));
    endStage = b.CreateUDiv(b.CreateMul(add(rank, 1), parameter(kStages)), constant(shape.splitK));
  }
  // Of consumers; the producer computes them too, which costs nothing.
  consumer = b.CreateSub(warpgroup, constant(1));
  lane = b.CreateAnd(thread, 31);
  warp = b.CreateAnd(b.CreateLShr(thread, 5), 3);
  inGroup = b.CreateAnd(thread, 127);
  signals = b.CreateICmpEQ(inGroup, constant(0));
  emitIf(
      b, b.CreateICmpEQ(warpgroup, constant(0)),
      [&] {
        if (shape.splitK == 1 && shape.consumers() > 1)
          hopper.setRegisters(kRegisters[shape.consumers()].producer, false);
        emitIf(b, b.CreateICmpEQ(thread, constant(0)), [&] { produce(); });
      },
      [&] { consume(); });
  if (shape.splitK > 1) {
    hopper.synchronizeCluster();
    emitIf(b, b.CreateICmpNE(warpgroup, constant(0)), [&] { reduceCluster(); });
    hopper.synchronizeCluster(); // nobody leaves while others read its memory
  }
  b.CreateRetVoid();
  return function;
}

} // namespace

Function *gpu::emitTileKernel(llvm::Module &module, const TileKernel &kernel) { return Emitter(module, kernel).run(); }
