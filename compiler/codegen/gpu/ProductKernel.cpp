//===- ProductKernel.cpp - What both templates of contractions share ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/ProductKernel.h"
#include "compiler/codegen/gpu/Ampere.h"
#include "compiler/codegen/gpu/Kernel.h"

using namespace llvm;
using namespace tw;
using namespace tw::gpu;

static constexpr unsigned kTileGroup = 8; ///< tile rows that run side by side

Type *ProductKernel::sumType(LLVMContext &context) const {
  return in == Element::I8 ? Type::getInt32Ty(context) : Type::getFloatTy(context);
}

TilePlace gpu::placeOfTile(IRBuilder<> &b, Value *tile, Value *rowTiles, Value *columnTiles, bool isBatched) {
  Value *batch = b.getInt32(0), *groupRows = b.getInt32(kTileGroup);
  if (isBatched) {
    Value *perBatch = b.CreateMul(rowTiles, columnTiles);
    batch = b.CreateUDiv(tile, perBatch);
    tile = b.CreateURem(tile, perBatch);
  }
  Value *groupTiles = b.CreateMul(columnTiles, groupRows);
  Value *group = b.CreateUDiv(tile, groupTiles);
  Value *firstRow = b.CreateMul(group, groupRows);
  Value *left = b.CreateSub(rowTiles, firstRow);
  Value *height = b.CreateSelect(b.CreateICmpULT(left, groupRows), left, groupRows);
  Value *inGroup = b.CreateSub(tile, b.CreateMul(group, groupTiles));
  return {b.CreateAdd(firstRow, b.CreateURem(inGroup, height)), b.CreateUDiv(inGroup, height), batch};
}

Value *gpu::tilesAlong(IRBuilder<> &b, Value *size, unsigned tile) {
  return b.CreateUDiv(b.CreateAdd(size, b.getInt32(tile - 1)), b.getInt32(tile));
}

SplitTiles::SplitTiles(IRBuilder<> &builder, Value *tiles, Value *split, Value *blocks, Value *stages)
    : b(builder), whole(b.CreateSub(tiles, split)), blocks(blocks), stages(stages), units(b.CreateMul(split, stages)) {}

Value *SplitTiles::pieceOf(Value *block) { return b.CreateAdd(whole, b.CreateUDiv(b.CreateMul(block, units), blocks)); }

/// The last block whose piece begins at the unit or before: block * units / blocks <= unit, rounded down.
Value *SplitTiles::blockOf(Value *unit) {
  Value *behind = b.CreateMul(b.CreateAdd(unit, b.getInt32(1)), blocks);
  return b.CreateUDiv(b.CreateSub(behind, b.getInt32(1)), units);
}

SplitTiles::Part SplitTiles::partAt(Value *item, Value *end, Value *block) {
  Value *isWhole = b.CreateICmpULT(item, whole);
  Value *unit = b.CreateSub(item, whole);
  Value *splitTile = b.CreateUDiv(unit, stages);
  Value *first = b.CreateURem(unit, stages);
  Value *toEnd = b.CreateAdd(first, b.CreateSub(end, item));
  Value *last = b.CreateSelect(b.CreateICmpULT(toEnd, stages), toEnd, stages);
  return {b.CreateSelect(isWhole, item, b.CreateAdd(whole, splitTile)),
          b.CreateSelect(isWhole, b.getInt32(0), first),
          b.CreateSelect(isWhole, stages, last),
          isWhole,
          slotOf(block, splitTile),
          b.CreateAdd(item, b.CreateSub(last, first))};
}

/// Packed to the output's type. The address is a multiple of what is written.
static void store(IRBuilder<> &b, Element out, Value *to, ArrayRef<Value *> values) {
  Ampere ampere(b);
  const unsigned bytes = bytesOf(out), lanes = unsigned(values.size());
  Value *word;
  if (bytes == 4) {
    word = values[0];
    if (lanes > 1) {
      word = PoisonValue::get(FixedVectorType::get(values[0]->getType(), lanes));
      for (auto [i, value] : enumerate(values))
        word = b.CreateInsertElement(word, value, uint64_t(i));
    }
  } else if (bytes == 1) {
    SmallVector<Value *> four(values.begin(), values.end());
    four.resize(4, ConstantFP::get(b.getFloatTy(), 0));
    word = b.CreateTrunc(ampere.packBytes(four), b.getIntNTy(lanes * 8));
  } else if (lanes == 1) {
    word = b.CreateTrunc(ampere.pack(out, values[0], ConstantFP::get(b.getFloatTy(), 0)), b.getInt16Ty());
  } else {
    word = ampere.pack(out, values[0], values[1]);
    if (lanes == 4) {
      Value *pair = PoisonValue::get(FixedVectorType::get(b.getInt32Ty(), 2));
      pair = b.CreateInsertElement(pair, word, uint64_t(0));
      word = b.CreateInsertElement(pair, ampere.pack(out, values[2], values[3]), 1);
    }
  }
  b.CreateAlignedStore(word, to, Align(lanes * bytes));
}

void gpu::finishNeighbours(IRBuilder<> &b, const ProductKernel &kernel, const ResultPlace &place, ArrayRef<Value *> pointers,
                           ArrayRef<Value *> sums, Value *batch, Value *row, Value *column) {
  auto wide = [&](Value *value) { return b.CreateZExt(value, b.getInt64Ty()); };
  // Said so that loads of neighbours become one.
  const uint64_t multiple = ~uint64_t(sums.size() - 1) & 0xffffffff;
  Value *first = b.CreateAnd(column, multiple), *columns = b.CreateAnd(place.columns, multiple);
  Value *inAll = b.CreateAdd(b.CreateMul(batch, place.rows), row);
  const SmallVector<Value *> values = kernel.epilogue(b, {sums, inAll, first, columns, {}, pointers});
  Value *index = b.CreateAdd(b.CreateMul(wide(row), wide(place.rowStride)), wide(first));
  if (kernel.isBatched) {
    Value *inner = b.CreateMul(wide(b.CreateURem(batch, place.innerBatches)), wide(place.innerStride));
    Value *outer = b.CreateMul(wide(b.CreateUDiv(batch, place.innerBatches)), wide(place.outerStride));
    index = b.CreateAdd(index, b.CreateAdd(inner, outer));
  }
  store(b, kernel.out, b.CreateGEP(b.getInt8Ty(), place.out, b.CreateMul(index, b.getInt64(bytesOf(kernel.out)))), values);
}

Function *gpu::emitSplitSum(llvm::Module &module, const SplitSum &sum) {
  LLVMContext &context = module.getContext();
  IRBuilder<> b(context);
  SmallVector<Type *> types(SplitSum::Batches, b.getPtrTy());
  types.append(SplitSum::FirstPointer - SplitSum::Batches, b.getInt32Ty());
  types.append(sum.kernel.pointers, b.getPtrTy());
  Function *function = createKernel(module, sum.kernel.name, types, SplitSum::kThreads);
  for (auto [i, type] : enumerate(types)) // not noalias, as in a tile kernel
    if (type->isPointerTy())
      function->addParamAttr(unsigned(i), Attribute::getWithAlignment(context, Align(kAlignment)));
  b.SetInsertPoint(BasicBlock::Create(context, "entry", function));
  auto parameter = [&](SplitSum::Parameter index) -> Value * { return function->getArg(index); };
  Ampere ampere(b);
  Value *rowTiles = tilesAlong(b, parameter(SplitSum::Rows), sum.rows),
        *columnTiles = tilesAlong(b, parameter(SplitSum::Columns), sum.columns);
  Value *tiles = b.CreateMul(b.CreateMul(rowTiles, columnTiles), parameter(SplitSum::Batches));
  Value *stages = parameter(SplitSum::Stages);
  SplitTiles split(b, tiles, parameter(SplitSum::Split), parameter(SplitSum::Blocks), stages);

  // A block lies in one tile.
  Value *perTile = b.getInt32(sum.blocks(1)), *block = ampere.blockIndex();
  Value *splitTile = b.CreateUDiv(block, perTile);
  Value *number = b.CreateAdd(b.CreateMul(b.CreateURem(block, perTile), b.getInt32(SplitSum::kThreads)), ampere.threadIndex());
  Value *inRow = b.getInt32(sum.columns / sum.lanes);
  Value *rowInTile = b.CreateUDiv(number, inRow),
        *columnInTile = b.CreateMul(b.CreateURem(number, inRow), b.getInt32(sum.lanes));
  const TilePlace place =
      placeOfTile(b, b.CreateAdd(split.wholeTiles(), splitTile), rowTiles, columnTiles, sum.kernel.isBatched);
  Value *row = b.CreateAdd(b.CreateMul(place.row, b.getInt32(sum.rows)), rowInTile),
        *column = b.CreateAdd(b.CreateMul(place.column, b.getInt32(sum.columns)), columnInTile);
  Value *isInside =
      b.CreateAnd(b.CreateICmpULT(row, parameter(SplitSum::Rows)), b.CreateICmpULT(column, parameter(SplitSum::Columns)));
  emitIf(b, isInside, [&] {
    Type *type = sum.kernel.sumType(context);
    Value *firstUnit = b.CreateMul(splitTile, stages), *endUnit = b.CreateAdd(firstUnit, stages);
    Value *last = split.blockOf(b.CreateSub(endUnit, b.getInt32(1)));
    Value *inTile = b.CreateAdd(b.CreateMul(rowInTile, b.getInt32(sum.columns)), columnInTile);
    SmallVector<Value *> initial{split.blockOf(firstUnit)};
    initial.append(sum.lanes, Constant::getNullValue(type));
    SmallVector<Value *> sums = emitLoop(
        b, "parts", initial, [&](ArrayRef<Value *> values) { return b.CreateICmpULE(values[0], last); },
        [&](ArrayRef<Value *> values) {
          Value *slot = b.CreateZExt(split.slotOf(values[0], splitTile), b.getInt64Ty());
          Value *index =
              b.CreateAdd(b.CreateMul(slot, b.getInt64(sum.rows * sum.columns)), b.CreateZExt(inTile, b.getInt64Ty()));
          Value *loaded = b.CreateAlignedLoad(FixedVectorType::get(type, sum.lanes),
                                              b.CreateGEP(type, parameter(SplitSum::Slots), index), Align(4 * sum.lanes));
          SmallVector<Value *> next{b.CreateAdd(values[0], b.getInt32(1))};
          for (auto [i, value] : enumerate(values.drop_front())) {
            Value *part = b.CreateExtractElement(loaded, uint64_t(i));
            next.push_back(type->isFloatTy() ? b.CreateFAdd(value, part) : b.CreateAdd(value, part));
          }
          return next;
        });
    SmallVector<Value *> pointers;
    for (unsigned i = 0; i < sum.kernel.pointers; ++i)
      pointers.push_back(function->getArg(SplitSum::FirstPointer + i));
    const ResultPlace results{parameter(SplitSum::Out),          parameter(SplitSum::Rows),
                              parameter(SplitSum::Columns),      parameter(SplitSum::RowStride),
                              parameter(SplitSum::InnerBatches), parameter(SplitSum::InnerStride),
                              parameter(SplitSum::OuterStride)};
    finishNeighbours(b, sum.kernel, results, pointers, ArrayRef<Value *>(sums).drop_front(), place.batch, row, column);
  });
  b.CreateRetVoid();
  return function;
}
