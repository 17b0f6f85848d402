//===- MmaAttention.cpp - Attention as one kernel for sm_80 ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/MmaAttention.h"
#include "compiler/codegen/gpu/Kernel.h"
#include "compiler/codegen/gpu/OnlineSoftmax.h"

using namespace llvm;
using namespace tw;
using namespace tw::gpu;

namespace {
constexpr unsigned kRowBytes = 128; ///< of 64 columns, 8 units
constexpr unsigned kUnitBytes = 16, kUnitColumns = 8, kRowUnits = 8;
} // namespace

unsigned gpu::mmaAttentionSharedBytes(const AttentionKernel &kernel) {
  return kernel.queryBytes() + kernel.shape.stages * kernel.stageBytes();
}

namespace {

class Emitter {
public:
  Emitter(llvm::Module &module, const AttentionKernel &kernel)
      : kernel(kernel), shape(kernel.shape), module(module), b(module.getContext()), ampere(b), softmax(b, kernel) {}

  Function *run();

private:
  enum Operand : unsigned { Queries, Keys, Values, Context };

  Value *constant(unsigned value) { return b.getInt32(value); }
  Value *add(Value *x, unsigned y) { return b.CreateAdd(x, constant(y)); }
  Value *scaled(Value *x, unsigned y) { return b.CreateMul(x, constant(y)); }
  Value *wide(Value *x) { return b.CreateZExt(x, b.getInt64Ty()); }
  Value *parameter(unsigned index) { return function->getArg(index); }
  Value *stageAddress(Value *slot) {
    return b.CreateAdd(b.CreateAdd(shared, constant(kernel.queryBytes())), scaled(slot, kernel.stageBytes()));
  }
  Value *behind(Value *slot, unsigned count) { return b.CreateURem(add(slot, count), constant(shape.stages)); }

  /// Of the thread's unit in its row of an operand of this head: row 0.
  Value *headOf(Operand operand);
  Value *inRow(Operand operand, Value *head, Value *row, unsigned chunk);
  /// Rows from `first` on, those behind `rows` as zeros.
  void copyTile(Operand operand, Value *first, Value *rows, unsigned tileRows, Value *to);
  /// The address of a lane's row of four matrices: rows from `row` on, units from `unit` on.
  Value *matrices(Value *tile, unsigned tileRows, Value *row, Value *unit, unsigned chunk);
  void takeTile(OnlineSoftmax::State &state, Value *firstKey, Value *slot, bool isTail);
  void writeContext(const OnlineSoftmax::State &state);

  const AttentionKernel &kernel;
  const AttentionShape &shape;
  llvm::Module &module;
  IRBuilder<> b;
  Ampere ampere;
  OnlineSoftmax softmax;
  Function *function = nullptr;
  Value *shared = nullptr, *thread = nullptr, *lane = nullptr, *warp = nullptr;
  Value *batch = nullptr, *head = nullptr, *outer = nullptr, *firstRow = nullptr;
  Value *unit = nullptr, *rowInPass = nullptr, *swizzled = nullptr; ///< of what the thread copies
  Value *heads[4] = {};
};

Value *Emitter::headOf(Operand operand) {
  Value *units = b.CreateAdd(b.CreateMul(wide(head), wide(parameter(kMmaHeadStrides + operand))),
                             b.CreateMul(wide(outer), wide(parameter(kMmaBatchStrides + operand))));
  return b.CreateGEP(b.getInt8Ty(), parameter(kMmaQueries + operand), b.CreateShl(b.CreateAdd(units, wide(unit)), 4));
}

Value *Emitter::inRow(Operand operand, Value *head, Value *row, unsigned chunk) {
  Value *units = b.CreateMul(wide(row), wide(parameter(kMmaRowStrides + operand)));
  return b.CreateGEP(b.getInt8Ty(), head, b.CreateShl(b.CreateAdd(units, b.getInt64(chunk * kRowUnits)), 4));
}

void Emitter::copyTile(Operand operand, Value *first, Value *rows, unsigned tileRows, Value *to) {
  const unsigned passRows = mmaAttentionThreads(shape) / kRowUnits;
  for (unsigned chunk = 0; chunk < kernel.chunks(); ++chunk)
    for (unsigned pass = 0; pass < tileRows; pass += passRows) {
      Value *inTile = add(rowInPass, pass), *row = b.CreateAdd(first, inTile);
      Value *isInside = b.CreateICmpULT(row, rows);
      if ((chunk + 1) * 64 > kernel.headSize)
        isInside =
            b.CreateAnd(isInside, b.CreateICmpULT(add(unit, chunk * kRowUnits), constant(kernel.headSize / kUnitColumns)));
      Value *at = b.CreateAdd(b.CreateAdd(to, scaled(inTile, kRowBytes)), swizzled);
      ampere.copy16(add(at, chunk * tileRows * kRowBytes), inRow(operand, heads[operand], row, chunk), isInside);
    }
}

Value *Emitter::matrices(Value *tile, unsigned tileRows, Value *row, Value *unit, unsigned chunk) {
  // Rows begin at multiples of 8: lane % 8 is what the units are XORed with.
  Value *inRow = scaled(b.CreateXor(unit, b.CreateAnd(lane, 7)), kUnitBytes);
  return add(b.CreateAdd(b.CreateAdd(tile, scaled(row, kRowBytes)), inRow), chunk * tileRows * kRowBytes);
}

void Emitter::takeTile(OnlineSoftmax::State &state, Value *firstKey, Value *slot, bool isTail) {
  Value *keys = parameter(kMmaKeyRows);
  // This tile's K is there for all, and all have read the slot of the V before it.
  ampere.waitCopies(shape.stages - 2);
  ampere.synchronize();
  auto copyAhead = [&](Operand operand, unsigned tiles, Value *to) {
    Value *first = add(firstKey, tiles * shape.keys);
    emitIf(b, b.CreateICmpULT(first, keys), [&] { copyTile(operand, first, keys, shape.keys, stageAddress(to)); });
    ampere.commitCopies();
  };
  if (!isTail || shape.stages == 2) // of two, this tile's
    copyAhead(Values, shape.stages / 2 - 1, behind(slot, shape.stages - 1));
  SmallVector<Value *> scores(shape.keys / 2, ConstantFP::get(b.getFloatTy(), 0));
  Value *lower = b.CreateAnd(lane, 15), *upper = b.CreateLShr(lane, 4);
  Value *key = b.CreateAdd(scaled(upper, 8), b.CreateAnd(lane, 7)), *half = b.CreateAnd(b.CreateLShr(lane, 3), 1);
  for (unsigned step = 0; step < kernel.headSize / 16; ++step) {
    const unsigned chunk = step / 4, first = step % 4 * 2;
    const SmallVector<Value *> a =
        ampere.loadMatrices(matrices(shared, shape.rows, b.CreateAdd(scaled(warp, 16), lower), add(upper, first), chunk));
    for (unsigned j = 0; j < shape.keys; j += 16) {
      const SmallVector<Value *> words =
          ampere.loadMatrices(matrices(stageAddress(slot), shape.keys, add(key, j), add(half, first), chunk));
      for (unsigned part : {0u, 1u}) {
        Value **sums = scores.data() + j / 2 + part * 4;
        const SmallVector<Value *> results =
            ampere.multiplyTile(kernel.element, ArrayRef<Value *>(sums, 4), a, ArrayRef<Value *>(words).slice(part * 2, 2));
        std::copy(results.begin(), results.end(), sums);
      }
    }
  }
  Value *row = b.CreateAdd(firstRow, b.CreateAdd(scaled(warp, 16), b.CreateLShr(lane, 2)));
  const SmallVector<Value *> weights =
      softmax.take(state, std::move(scores), {batch, row, firstKey, lane, parameter(kMmaQueryRows), keys}, isTail, function);
  // V is there, and all have read this tile's K.
  ampere.waitCopies(isTail ? 0 : shape.stages - 2);
  ampere.synchronize();
  if (!isTail)
    copyAhead(Keys, shape.stages / 2, slot);
  Value *values = stageAddress(behind(slot, 1));
  for (unsigned step = 0; step < shape.keys / 16; ++step)
    for (unsigned j = 0; j < kernel.headSize; j += 16) {
      const SmallVector<Value *> words = ampere.loadMatrices(
          matrices(values, shape.keys, add(lower, step * 16), add(upper, j % 64 / kUnitColumns), j / 64), /*transposed=*/true);
      for (unsigned part : {0u, 1u}) {
        Value **sums = state.context.data() + j / 2 + part * 4;
        const SmallVector<Value *> results =
            ampere.multiplyTile(kernel.element, ArrayRef<Value *>(sums, 4), ArrayRef<Value *>(weights).slice(step * 4, 4),
                                ArrayRef<Value *>(words).slice(part * 2, 2));
        std::copy(results.begin(), results.end(), sums);
      }
    }
}

/// Through the memory of the rows of Q, so that neighbouring threads write side by side. A warp's rows are read by that warp alone.
void Emitter::writeContext(const OnlineSoftmax::State &state) {
  const SmallVector<Value *> values = softmax.context(state);
  auto pointer = [&](Value *address) { return b.CreateIntToPtr(address, PointerType::get(b.getContext(), 3)); };
  for (unsigned i = 0; i < values.size(); i += 2) {
    const unsigned column = i / 4 * 8, lower = i % 4 / 2 * 8;
    Value *row = b.CreateAdd(scaled(warp, 16), add(b.CreateLShr(lane, 2), lower));
    Value *inRow = scaled(b.CreateXor(b.CreateAnd(row, 7), constant(column % 64 / kUnitColumns)), kUnitBytes);
    Value *at = b.CreateAdd(b.CreateAdd(scaled(row, kRowBytes), inRow), b.CreateShl(b.CreateAnd(lane, 3), 2));
    at = add(b.CreateAdd(shared, at), column / 64 * shape.rows * kRowBytes);
    b.CreateAlignedStore(ampere.pack(kernel.element, values[i], values[i + 1]), pointer(at), Align(4));
  }
  ampere.synchronize();
  const unsigned passRows = mmaAttentionThreads(shape) / kRowUnits;
  for (unsigned chunk = 0; chunk < kernel.chunks(); ++chunk)
    for (unsigned pass = 0; pass < shape.rows; pass += passRows) {
      Value *inTile = add(rowInPass, pass), *row = b.CreateAdd(firstRow, inTile);
      Value *isInside = b.CreateICmpULT(row, parameter(kMmaQueryRows));
      if ((chunk + 1) * 64 > kernel.headSize)
        isInside =
            b.CreateAnd(isInside, b.CreateICmpULT(add(unit, chunk * kRowUnits), constant(kernel.headSize / kUnitColumns)));
      emitIf(b, isInside, [&] {
        Value *from =
            add(b.CreateAdd(b.CreateAdd(shared, scaled(inTile, kRowBytes)), swizzled), chunk * shape.rows * kRowBytes);
        Value *words = b.CreateAlignedLoad(FixedVectorType::get(b.getInt32Ty(), 4), pointer(from), Align(kUnitBytes));
        b.CreateAlignedStore(words, inRow(Context, heads[Context], row, chunk), Align(kUnitBytes));
      });
    }
}

Function *Emitter::run() {
  LLVMContext &context = module.getContext();
  SmallVector<Type *> types(kMmaHeads, b.getPtrTy());
  types.append(kFirstMmaAttentionPointer - kMmaHeads, b.getInt32Ty());
  types.append(kernel.pointers, b.getPtrTy());
  function = createKernel(module, kernel.name, types, mmaAttentionThreads(shape));
  // Not noalias, as in a tile kernel.
  for (auto [i, type] : enumerate(types))
    if (type->isPointerTy())
      function->addParamAttr(unsigned(i), Attribute::getWithAlignment(context, Align(kAlignment)));
  b.SetInsertPoint(BasicBlock::Create(context, "entry", function));
  auto *memory = new GlobalVariable(module, ArrayType::get(b.getInt8Ty(), 0), false, GlobalValue::ExternalLinkage, nullptr,
                                    kernel.name + "_shared", nullptr, GlobalValue::NotThreadLocal, /*AddressSpace=*/3,
                                    /*isExternallyInitialized=*/true);
  memory->setAlignment(Align(kRowBytes));
  shared = b.CreateTrunc(b.CreatePtrToInt(memory, b.getInt64Ty()), b.getInt32Ty());
  thread = ampere.threadIndex();
  lane = b.CreateAnd(thread, 31);
  warp = ampere.uniform(b.CreateLShr(thread, 5));
  unit = b.CreateAnd(thread, kRowUnits - 1);
  rowInPass = b.CreateLShr(thread, 3);
  swizzled = scaled(b.CreateXor(unit, b.CreateAnd(rowInPass, 7)), kUnitBytes);
  Value *tiles = b.CreateUDiv(add(parameter(kMmaQueryRows), shape.rows - 1), constant(shape.rows));
  Value *block = ampere.blockIndex();
  batch = b.CreateUDiv(block, tiles);
  firstRow = scaled(b.CreateURem(block, tiles), shape.rows);
  outer = b.CreateUDiv(batch, parameter(kMmaHeads));
  head = b.CreateURem(batch, parameter(kMmaHeads));
  for (Operand operand : {Queries, Keys, Values, Context})
    heads[operand] = headOf(operand);

  Value *keys = parameter(kMmaKeyRows);
  copyTile(Queries, firstRow, parameter(kMmaQueryRows), shape.rows, shared);
  for (unsigned slot = 0; slot + 1 < shape.stages; ++slot) {
    Value *first = constant(slot / 2 * shape.keys);
    emitIf(b, b.CreateICmpULT(first, keys),
           [&] { copyTile(slot % 2 ? Values : Keys, first, keys, shape.keys, stageAddress(constant(slot))); });
    ampere.commitCopies();
  }
  // Whole tiles, then what is left.
  Value *whole = kernel.hasTail ? b.CreateSub(keys, b.CreateURem(keys, constant(shape.keys))) : keys;
  OnlineSoftmax::State state = softmax.begin();
  SmallVector<Value *> initial{constant(0), constant(0)}; // the first key, and the slot of K
  initial.append(OnlineSoftmax::packed(state));
  SmallVector<Value *> end = emitLoop(
      b, "keys", initial, [&](ArrayRef<Value *> values) { return b.CreateICmpULT(values[0], whole); },
      [&](ArrayRef<Value *> values) {
        OnlineSoftmax::State state = OnlineSoftmax::unpacked(values.drop_front(2));
        takeTile(state, values[0], values[1], false);
        SmallVector<Value *> next{add(values[0], shape.keys), behind(values[1], 2)};
        next.append(OnlineSoftmax::packed(state));
        return next;
      });
  state = OnlineSoftmax::unpacked(ArrayRef<Value *>(end).drop_front(2));
  if (kernel.hasTail)
    takeTile(state, end[0], end[1], true);
  writeContext(state);
  b.CreateRetVoid();
  return function;
}

} // namespace

Function *gpu::emitMmaAttention(llvm::Module &module, const AttentionKernel &kernel) { return Emitter(module, kernel).run(); }
