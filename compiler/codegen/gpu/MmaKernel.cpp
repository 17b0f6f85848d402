//===- MmaKernel.cpp - Matrix products and convolutions for sm_80 ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/MmaKernel.h"
#include "compiler/codegen/gpu/Ampere.h"
#include "compiler/codegen/gpu/Kernel.h"

using namespace llvm;
using namespace tw;
using namespace tw::gpu;

namespace {
constexpr unsigned kUnitBytes = 16;
constexpr unsigned kRowUnits = kStageRowBytes / kUnitBytes;
constexpr unsigned kSteps = 4;       ///< of k in a stage: 32 bytes each
constexpr unsigned kChunk = 64;      ///< columns of a row of B that lies [k, columns]
constexpr unsigned kPadBytes = 32;   ///< behind a row of sums: four rows of a quarter warp's pairs lie in different banks
constexpr unsigned kUnrolled = 4;    ///< rows of the result that a thread has in flight
constexpr int kOutside = -(1 << 30); ///< a line of an image for rows that there are not
} // namespace

std::string MmaShape::name() const { return std::to_string(rows) + "x" + std::to_string(columns); }

ArrayRef<MmaTile> gpu::mmaTiles() {
  static constexpr MmaTile tiles[] = {{{128, 256, 3, 2, 4}, 0.9},
                                      {{128, 128, 3, 2, 4}, 0.85},
                                      {{128, 64, 4, 2, 2}, 0.7},
                                      {{64, 128, 4, 2, 2}, 0.7},
                                      {{64, 64, 4, 2, 2}, 0.6}};
  return tiles;
}

static unsigned sumPitch(const MmaShape &shape) { return shape.columns * 4 + kPadBytes; }

unsigned MmaKernel::sharedBytes() const { return std::max(shape.stages * stageBytes(), shape.rows * sumPitch(shape)); }

namespace {

class Emitter {
public:
  Emitter(llvm::Module &module, const MmaKernel &kernel)
      : kernel(kernel), shape(kernel.shape), module(module), b(module.getContext()), ampere(b) {}

  Function *run();

private:
  Value *constant(unsigned value) { return b.getInt32(value); }
  Value *add(Value *x, unsigned y) { return b.CreateAdd(x, constant(y)); }
  Value *scaled(Value *x, unsigned y) { return b.CreateMul(x, constant(y)); }
  Value *wide(Value *x) { return b.CreateZExt(x, b.getInt64Ty()); }
  Value *parameter(unsigned index) { return function->getArg(index); }
  Value *atByte(Value *pointer, Value *bytes) { return b.CreateGEP(b.getInt8Ty(), pointer, bytes); }
  Value *sharedPointer(Value *address) { return b.CreateIntToPtr(address, PointerType::get(b.getContext(), 3)); }
  Type *sumType() { return kernel.sumType(b.getContext()); }
  unsigned warpRows() const { return shape.rows / shape.warpsDown; }
  unsigned warpColumns() const { return shape.columns / shape.warpsAcross; }
  /// Rows of 128 bytes that all threads copy at once.
  unsigned passRows() const { return shape.threads() / kRowUnits; }

  void create();
  /// Every part of a tile that this block does.
  void forEachPart(function_ref<void()> body);
  /// Of a batch, by strides of its two dims.
  Value *batchOffset(unsigned inner, unsigned outer);

  /// What comes next in k: the stage, and of Pixels which channels of which tap.
  struct Step {
    Value *k, *block, *tapX, *tapY;
  };
  Step firstStep();
  Step after(const Step &step);
  void findSources();
  void copyStage(const Step &step, Value *slot);
  Value *nextSlot(Value *slot);

  /// Of one step of k in a slot: words for each 16 rows of A and each 8 columns of B.
  struct Fragments {
    SmallVector<SmallVector<Value *>> a, b;
  };
  Fragments load(Value *slot, unsigned step);
  void multiplyStage(Value *slot, SmallVectorImpl<Value *> &sums);
  SmallVector<Value *> multiplyTile();
  void writeTile(ArrayRef<Value *> sums);
  /// What the epilogue makes of the sums, to where it belongs.
  void finish(ArrayRef<Value *> sums, Value *row, Value *column);

  const MmaKernel &kernel;
  const MmaShape &shape;
  llvm::Module &module;
  IRBuilder<> b;
  Ampere ampere;
  Function *function = nullptr;
  Value *shared = nullptr, *thread = nullptr, *lane = nullptr, *warpRow = nullptr, *warpColumn = nullptr;
  // Of the part of a tile that is done.
  Value *batch = nullptr, *firstRow = nullptr, *firstColumn = nullptr;
  Value *firstStage = nullptr, *endStage = nullptr; ///< of k
  Value *isWhole = nullptr, *slot = nullptr;        ///< of split tiles
  // What this thread copies: a unit of some rows of a stage.
  Value *unit = nullptr, *rowInPass = nullptr, *target = nullptr;
  struct SourceRow {
    Value *pointer, *isInside; ///< of k = 0
    Value *line, *position;    ///< of Pixels: of the first tap
    Value *k;                  ///< of columnsInner: in a stage
  };
  SmallVector<SourceRow> rowsA, rowsB;
};

void Emitter::create() {
  LLVMContext &context = module.getContext();
  SmallVector<Type *> types(MmaKernel::Batches, b.getPtrTy());
  types.append(MmaKernel::FirstPointer - MmaKernel::Batches, b.getInt32Ty());
  types.append(kernel.pointers, b.getPtrTy());
  function = createKernel(module, kernel.name, types, shape.threads());
  // Not noalias, as in a tile kernel.
  for (auto [i, type] : enumerate(types))
    if (type->isPointerTy())
      function->addParamAttr(unsigned(i), Attribute::getWithAlignment(context, Align(kAlignment)));
  b.SetInsertPoint(BasicBlock::Create(context, "entry", function));
  thread = ampere.threadIndex();
}

void Emitter::forEachPart(function_ref<void()> body) {
  Value *rowTiles = tilesAlong(b, parameter(MmaKernel::Rows), shape.rows),
        *columnTiles = tilesAlong(b, parameter(MmaKernel::Columns), shape.columns);
  auto find = [&](Value *tile) {
    const TilePlace place = placeOfTile(b, tile, rowTiles, columnTiles, kernel.isBatched);
    batch = place.batch;
    firstRow = scaled(place.row, shape.rows);
    firstColumn = scaled(place.column, shape.columns);
    findSources();
  };
  Value *block = ampere.blockIndex();
  if (kernel.splitting == Splitting::None) {
    firstStage = constant(0);
    endStage = parameter(MmaKernel::Stages);
    find(block);
    return body();
  }
  Value *tiles = b.CreateMul(b.CreateMul(rowTiles, columnTiles), parameter(MmaKernel::Batches));
  Value *blocks = parameter(MmaKernel::Blocks);
  SplitTiles split(b, tiles, parameter(MmaKernel::Split), blocks, parameter(MmaKernel::Stages));
  Value *first = split.pieceOf(block), *end = split.pieceOf(add(block, 1));
  if (kernel.splitting == Splitting::Last) { // blocks behind those with pieces have a whole tile each
    Value *hasPiece = b.CreateICmpULT(block, blocks), *tile = b.CreateSub(block, blocks);
    first = b.CreateSelect(hasPiece, first, tile);
    end = b.CreateSelect(hasPiece, end, add(tile, 1));
  }
  emitLoop(
      b, "parts", {first}, [&](ArrayRef<Value *> values) { return b.CreateICmpULT(values[0], end); },
      [&](ArrayRef<Value *> values) -> SmallVector<Value *> {
        const SplitTiles::Part part = split.partAt(values[0], end, block);
        firstStage = part.firstStage;
        endStage = part.endStage;
        isWhole = part.isWhole;
        slot = part.slot;
        find(part.tile);
        body();
        ampere.synchronize(); // before the next part is copied over the sums
        return {kernel.splitting == Splitting::All ? part.next : b.CreateSelect(isWhole, end, part.next)};
      });
}

Value *Emitter::batchOffset(unsigned inner, unsigned outer) {
  if (!kernel.isBatched)
    return b.getInt64(0);
  Value *count = parameter(MmaKernel::InnerBatches);
  return b.CreateAdd(b.CreateMul(wide(b.CreateURem(batch, count)), wide(parameter(inner))),
                     b.CreateMul(wide(b.CreateUDiv(batch, count)), wide(parameter(outer))));
}

Emitter::Step Emitter::firstStep() {
  if (kernel.source == RowSource::Matrix)
    return {firstStage, nullptr, nullptr, nullptr};
  Value *tap = b.CreateUDiv(firstStage, parameter(MmaKernel::ChannelBlocks));
  return {firstStage, b.CreateURem(firstStage, parameter(MmaKernel::ChannelBlocks)),
          b.CreateURem(tap, parameter(MmaKernel::FilterWidth)), b.CreateUDiv(tap, parameter(MmaKernel::FilterWidth))};
}

Emitter::Step Emitter::after(const Step &step) {
  if (kernel.source == RowSource::Matrix)
    return {add(step.k, 1), nullptr, nullptr, nullptr};
  Value *block = add(step.block, 1);
  Value *isNextTap = b.CreateICmpEQ(block, parameter(MmaKernel::ChannelBlocks));
  Value *x = b.CreateSelect(isNextTap, add(step.tapX, 1), step.tapX);
  Value *isNextLine = b.CreateICmpEQ(x, parameter(MmaKernel::FilterWidth));
  return {add(step.k, 1), b.CreateSelect(isNextTap, constant(0), block), b.CreateSelect(isNextLine, constant(0), x),
          b.CreateSelect(isNextLine, add(step.tapY, 1), step.tapY)};
}

/// Thread t copies unit t % 8 of rows t / 8, and of every passRows() behind.
void Emitter::findSources() {
  unit = b.CreateAnd(thread, kRowUnits - 1);
  rowInPass = b.CreateLShr(thread, Log2_32(kRowUnits));
  Value *swizzled = b.CreateXor(unit, b.CreateAnd(rowInPass, 7));
  target = b.CreateAdd(scaled(rowInPass, kStageRowBytes), scaled(swizzled, kUnitBytes));
  auto inUnits = [&](Value *pointer, Value *units) { return atByte(pointer, b.CreateShl(units, 4)); };

  rowsA.clear();
  rowsB.clear();
  const bool isImage = kernel.source == RowSource::Pixels;
  Value *a = inUnits(parameter(MmaKernel::A), batchOffset(MmaKernel::InnerStrideA, MmaKernel::OuterStrideA));
  for (unsigned pass = 0; pass < shape.rows / passRows(); ++pass) {
    Value *row = b.CreateAdd(firstRow, add(rowInPass, pass * passRows()));
    SourceRow source{};
    source.isInside = b.CreateICmpULT(row, parameter(MmaKernel::Rows));
    if (isImage) {
      Value *line = b.CreateUDiv(row, parameter(MmaKernel::OutWidth));
      Value *image = b.CreateUDiv(line, parameter(MmaKernel::OutHeight));
      source.position =
          b.CreateSub(b.CreateMul(b.CreateURem(row, parameter(MmaKernel::OutWidth)), parameter(MmaKernel::StrideWidth)),
                      parameter(MmaKernel::PadLeft));
      line = b.CreateSub(b.CreateMul(b.CreateURem(line, parameter(MmaKernel::OutHeight)), parameter(MmaKernel::StrideHeight)),
                         parameter(MmaKernel::PadTop));
      source.line = b.CreateSelect(source.isInside, line, b.getInt32(uint32_t(kOutside)));
      Value *pixels = b.CreateMul(wide(b.CreateMul(parameter(MmaKernel::Height), parameter(MmaKernel::Width))), wide(image));
      source.pointer = inUnits(a, b.CreateAdd(b.CreateMul(pixels, wide(parameter(MmaKernel::RowStrideA))), wide(unit)));
    } else {
      source.pointer = inUnits(a, b.CreateAdd(b.CreateMul(wide(row), wide(parameter(MmaKernel::RowStrideA))), wide(unit)));
    }
    rowsA.push_back(source);
  }
  Value *from = inUnits(parameter(MmaKernel::B), batchOffset(MmaKernel::InnerStrideB, MmaKernel::OuterStrideB));
  for (unsigned pass = 0; pass < shape.columns / passRows(); ++pass) {
    Value *row = add(rowInPass, pass * passRows());
    SourceRow source{};
    if (kernel.columnsInner) { // 64 rows of k for each 64 columns
      const unsigned perUnit = kUnitBytes / bytesOf(kernel.in);
      Value *column =
          b.CreateAdd(b.CreateAdd(firstColumn, scaled(b.CreateLShr(row, Log2_32(kChunk)), kChunk)), scaled(unit, perUnit));
      source.k = b.CreateAnd(row, kChunk - 1);
      source.isInside = b.CreateICmpULT(column, parameter(MmaKernel::Columns));
      source.pointer = atByte(from, wide(scaled(column, bytesOf(kernel.in))));
    } else {
      Value *column = b.CreateAdd(firstColumn, row);
      source.isInside = b.CreateICmpULT(column, parameter(MmaKernel::Columns));
      source.pointer =
          inUnits(from, b.CreateAdd(b.CreateMul(wide(column), wide(parameter(MmaKernel::RowStrideB))), wide(unit)));
    }
    rowsB.push_back(source);
  }
}

void Emitter::copyStage(const Step &step, Value *slot) {
  Value *to = b.CreateAdd(b.CreateAdd(shared, scaled(slot, kernel.stageBytes())), target);
  const bool isImage = kernel.source == RowSource::Pixels;
  Value *firstUnit = scaled(isImage ? step.block : step.k, kRowUnits);
  Value *isInDepth = b.CreateICmpULT(b.CreateAdd(firstUnit, unit), parameter(MmaKernel::DepthA));
  for (auto [pass, row] : enumerate(rowsA)) {
    Value *isInside = b.CreateAnd(isInDepth, row.isInside), *units = wide(firstUnit);
    if (isImage) {
      Value *y = b.CreateAdd(row.line, b.CreateMul(step.tapY, parameter(MmaKernel::DilationHeight)));
      Value *x = b.CreateAdd(row.position, b.CreateMul(step.tapX, parameter(MmaKernel::DilationWidth)));
      isInside = b.CreateAnd(isInDepth, b.CreateAnd(b.CreateICmpULT(y, parameter(MmaKernel::Height)),
                                                    b.CreateICmpULT(x, parameter(MmaKernel::Width))));
      Value *pixel = b.CreateAdd(b.CreateMul(y, parameter(MmaKernel::Width)), x);
      units = b.CreateAdd(b.CreateMul(wide(pixel), wide(parameter(MmaKernel::RowStrideA))), units);
    }
    ampere.copy16(add(to, unsigned(pass) * passRows() * kStageRowBytes), atByte(row.pointer, b.CreateShl(units, 4)), isInside);
  }
  to = add(to, shape.rows * kStageRowBytes);
  for (auto [pass, row] : enumerate(rowsB)) {
    Value *isInside, *from;
    if (kernel.columnsInner) {
      Value *k = b.CreateAdd(scaled(step.k, kernel.depth()), row.k);
      isInside = b.CreateICmpULT(k, parameter(MmaKernel::DepthB));
      from = atByte(row.pointer, b.CreateShl(b.CreateMul(wide(k), wide(parameter(MmaKernel::RowStrideB))), 4));
    } else {
      Value *units = scaled(step.k, kRowUnits);
      isInside = b.CreateICmpULT(b.CreateAdd(units, unit), parameter(MmaKernel::DepthB));
      from = atByte(row.pointer, wide(scaled(units, kUnitBytes)));
    }
    ampere.copy16(add(to, unsigned(pass) * passRows() * kStageRowBytes), from, b.CreateAnd(isInside, row.isInside));
  }
}

Value *Emitter::nextSlot(Value *slot) {
  Value *next = add(slot, 1);
  return b.CreateSelect(b.CreateICmpEQ(next, constant(shape.stages)), constant(0), next);
}

Emitter::Fragments Emitter::load(Value *slot, unsigned step) {
  // Lane l gives the address of row l % 8 of matrix l / 8, and rows are multiples of 8 behind that.
  Value *inSwizzle = b.CreateAnd(lane, 7);
  auto address = [&](Value *base, Value *row, Value *unit) {
    return b.CreateAdd(b.CreateAdd(base, scaled(row, kStageRowBytes)), scaled(b.CreateXor(unit, inSwizzle), kUnitBytes));
  };
  Value *stage = b.CreateAdd(shared, scaled(slot, kernel.stageBytes()));
  Fragments fragments;
  // Upper and lower 8 rows, then 16 bytes of k further.
  Value *row = b.CreateAdd(scaled(warpRow, warpRows()), b.CreateAnd(lane, 15));
  Value *from = address(stage, row, add(b.CreateLShr(lane, 4), 2 * step));
  for (unsigned i = 0; i < warpRows(); i += 16)
    fragments.a.push_back(ampere.loadMatrices(add(from, i * kStageRowBytes)));
  // 16 bytes of k and the next 16 of 8 columns, then of the 8 columns behind.
  Value *stageB = add(stage, shape.rows * kStageRowBytes);
  Value *column = scaled(warpColumn, warpColumns());
  for (unsigned i = 0; i < warpColumns(); i += 16) {
    SmallVector<Value *> words;
    if (kernel.columnsInner) {
      Value *columnUnit = b.CreateAdd(b.CreateLShr(add(column, i), 3), b.CreateLShr(lane, 4));
      Value *chunk = scaled(b.CreateLShr(columnUnit, 3), kChunk);
      Value *k = b.CreateAdd(add(chunk, step * 16), b.CreateAnd(lane, 15));
      words = ampere.loadMatrices(address(stageB, k, b.CreateAnd(columnUnit, 7)), /*transposed=*/true);
    } else {
      Value *inTile = b.CreateAdd(scaled(b.CreateLShr(lane, 4), 8), inSwizzle);
      Value *half = b.CreateAnd(b.CreateLShr(lane, 3), 1);
      words = ampere.loadMatrices(address(stageB, b.CreateAdd(add(column, i), inTile), add(half, 2 * step)));
    }
    fragments.b.push_back({words[0], words[1]});
    fragments.b.push_back({words[2], words[3]});
  }
  return fragments;
}

void Emitter::multiplyStage(Value *slot, SmallVectorImpl<Value *> &sums) {
  Fragments next = load(slot, 0);
  for (unsigned step = 0; step < kSteps; ++step) {
    const Fragments now = std::move(next);
    if (step + 1 < kSteps) // loaded while this one multiplies
      next = load(slot, step + 1);
    for (auto [i, a] : enumerate(now.a))
      for (auto [j, words] : enumerate(now.b)) {
        Value **first = sums.data() + (i * now.b.size() + j) * 4;
        const SmallVector<Value *> results = ampere.multiplyTile(kernel.in, ArrayRef<Value *>(first, 4), a, words);
        std::copy(results.begin(), results.end(), first);
      }
  }
}

SmallVector<Value *> Emitter::multiplyTile() {
  const bool isImage = kernel.source == RowSource::Pixels;
  auto packed = [&](const Step &step) {
    return isImage ? SmallVector<Value *>{step.k, step.block, step.tapX, step.tapY} : SmallVector<Value *>{step.k};
  };
  const unsigned count = warpRows() * warpColumns() / 32;
  Step ahead = firstStep();
  for (unsigned stage = 0; stage + 1 < shape.stages; ++stage) {
    emitIf(b, b.CreateICmpULT(ahead.k, endStage), [&] { copyStage(ahead, constant(stage)); });
    ampere.commitCopies();
    ahead = after(ahead);
  }
  // The stage, its slot, the slot that is copied to, what is copied there, sums.
  SmallVector<Value *> initial{firstStage, constant(0), constant(shape.stages - 1)};
  initial.append(packed(ahead));
  const size_t behind = initial.size();
  initial.append(count, Constant::getNullValue(sumType()));
  SmallVector<Value *> end = emitLoop(
      b, "stages", initial, [&](ArrayRef<Value *> values) { return b.CreateICmpULT(values[0], endStage); },
      [&](ArrayRef<Value *> values) {
        Step ahead = isImage ? Step{values[3], values[4], values[5], values[6]} : Step{values[3], nullptr, nullptr, nullptr};
        SmallVector<Value *> sums(values.drop_front(behind));
        ampere.waitCopies(shape.stages - 2);
        // All threads' copies of this stage are there, and all have read the one before, which is overwritten now.
        ampere.synchronize();
        emitIf(b, b.CreateICmpULT(ahead.k, endStage), [&] { copyStage(ahead, values[2]); });
        ampere.commitCopies();
        multiplyStage(values[1], sums);
        SmallVector<Value *> next{add(values[0], 1), nextSlot(values[1]), nextSlot(values[2])};
        next.append(packed(after(ahead)));
        next.append(sums);
        return next;
      });
  return SmallVector<Value *>(ArrayRef<Value *>(end).drop_front(behind));
}

void Emitter::finish(ArrayRef<Value *> sums, Value *row, Value *column) {
  SmallVector<Value *> pointers;
  for (unsigned i = 0; i < kernel.pointers; ++i)
    pointers.push_back(parameter(MmaKernel::FirstPointer + i));
  const ResultPlace place{parameter(MmaKernel::Out),           parameter(MmaKernel::Rows),
                          parameter(MmaKernel::Columns),       parameter(MmaKernel::RowStrideOut),
                          parameter(MmaKernel::InnerBatches),  parameter(MmaKernel::InnerStrideOut),
                          parameter(MmaKernel::OuterStrideOut)};
  finishNeighbours(b, kernel, place, pointers, sums, batch, row, column);
}

void Emitter::writeTile(ArrayRef<Value *> sums) {
  const unsigned pitch = sumPitch(shape);
  ampere.synchronize(); // over the stages, which all warps have read
  Value *row = b.CreateAdd(scaled(warpRow, warpRows()), b.CreateLShr(lane, 2));
  Value *column = b.CreateAdd(scaled(warpColumn, warpColumns()), b.CreateShl(b.CreateAnd(lane, 3), 1));
  Value *mine = b.CreateAdd(shared, b.CreateAdd(scaled(row, pitch), scaled(column, 4)));
  for (unsigned i = 0; i < warpRows() / 16; ++i)
    for (unsigned j = 0; j < warpColumns() / 8; ++j)
      for (unsigned half : {0u, 1u}) {
        ArrayRef<Value *> two = sums.slice((i * (warpColumns() / 8) + j) * 4 + half * 2, 2);
        Value *pair = PoisonValue::get(FixedVectorType::get(sumType(), 2));
        pair = b.CreateInsertElement(b.CreateInsertElement(pair, two[0], uint64_t(0)), two[1], 1);
        b.CreateAlignedStore(pair, sharedPointer(add(mine, (i * 16 + half * 8) * pitch + j * 32)), Align(8));
      }
  ampere.synchronize();
  const unsigned inRow = shape.columns / kernel.lanes, all = shape.rows * inRow;
  emitLoop(
      b, "results", {thread}, [&](ArrayRef<Value *> values) { return b.CreateICmpULT(values[0], constant(all)); },
      [&](ArrayRef<Value *> values) -> SmallVector<Value *> {
        Value *inTile = b.CreateUDiv(values[0], constant(inRow));
        Value *columnInTile = scaled(b.CreateURem(values[0], constant(inRow)), kernel.lanes);
        Value *row = b.CreateAdd(firstRow, inTile), *column = b.CreateAdd(firstColumn, columnInTile);
        Value *isInside = b.CreateAnd(b.CreateICmpULT(row, parameter(MmaKernel::Rows)),
                                      b.CreateICmpULT(column, parameter(MmaKernel::Columns)));
        emitIf(b, isInside, [&] {
          Value *from = b.CreateAdd(shared, b.CreateAdd(scaled(inTile, pitch), scaled(columnInTile, 4)));
          SmallVector<Value *> neighbours;
          Value *loaded =
              b.CreateAlignedLoad(FixedVectorType::get(sumType(), kernel.lanes), sharedPointer(from), Align(4 * kernel.lanes));
          for (unsigned i = 0; i < kernel.lanes; ++i)
            neighbours.push_back(b.CreateExtractElement(loaded, uint64_t(i)));
          if (kernel.splitting == Splitting::None)
            return finish(neighbours, row, column);
          auto keep = [&] {
            Value *inSlot = b.CreateAdd(scaled(inTile, shape.columns), columnInTile);
            Value *index = b.CreateAdd(b.CreateMul(wide(slot), b.getInt64(shape.rows * shape.columns)), wide(inSlot));
            b.CreateAlignedStore(loaded, atByte(parameter(MmaKernel::Slots), b.CreateShl(index, 2)), Align(4 * kernel.lanes));
          };
          if (kernel.splitting == Splitting::All)
            return keep();
          emitIf(
              b, isWhole, [&] { finish(neighbours, row, column); }, keep);
        });
        return {add(values[0], shape.threads())};
      },
      kUnrolled);
}

Function *Emitter::run() {
  create();
  auto *memory = new GlobalVariable(module, ArrayType::get(b.getInt8Ty(), 0), false, GlobalValue::ExternalLinkage, nullptr,
                                    kernel.name + "_shared", nullptr, GlobalValue::NotThreadLocal, /*AddressSpace=*/3,
                                    /*isExternallyInitialized=*/true);
  memory->setAlignment(Align(kStageRowBytes));
  shared = b.CreateTrunc(b.CreatePtrToInt(memory, b.getInt64Ty()), b.getInt32Ty());
  lane = b.CreateAnd(thread, 31);
  Value *warp = ampere.uniform(b.CreateLShr(thread, 5));
  warpRow = b.CreateUDiv(warp, constant(shape.warpsAcross));
  warpColumn = b.CreateURem(warp, constant(shape.warpsAcross));
  forEachPart([&] { writeTile(multiplyTile()); });
  b.CreateRetVoid();
  return function;
}

} // namespace

Function *gpu::emitMmaKernel(llvm::Module &module, const MmaKernel &kernel) { return Emitter(module, kernel).run(); }
