//===- Attention.cpp - Attention as one kernel for sm_90a -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/Attention.h"
#include "compiler/codegen/gpu/Kernel.h"
#include "compiler/codegen/gpu/OnlineSoftmax.h"

using namespace llvm;
using namespace tw;
using namespace tw::gpu;

namespace {

constexpr unsigned kRowBytes = 128;    ///< of a box: 64 columns
constexpr unsigned kBarrierBytes = 16; ///< of a stage: full, and behind it empty
/// Registers of a thread, by consumers: 65,536 of an SM. The producer needs few (setmaxnreg takes multiples of 8).
struct Registers {
  unsigned producer, consumer;
};
constexpr Registers kRegisters[] = {{0, 0}, {0, 0}, {40, 232}, {40, 152}};

} // namespace

unsigned AttentionKernel::sharedBytes() const {
  return queryBytes() + shape.stages * (stageBytes() + kBarrierBytes) + kBarrierBytes + 1024;
}

namespace {

class Emitter {
public:
  Emitter(llvm::Module &module, const AttentionKernel &kernel)
      : kernel(kernel), shape(kernel.shape), module(module), b(module.getContext()), hopper(b), softmax(b, kernel) {}

  Function *run();

private:
  Value *constant(unsigned value) { return b.getInt32(value); }
  Value *add(Value *x, unsigned y) { return b.CreateAdd(x, constant(y)); }
  Value *scaled(Value *x, unsigned y) { return b.CreateMul(x, constant(y)); }
  Value *parameter(unsigned index) { return function->getArg(index); }
  Value *stageAddress(Value *stage) {
    return add(b.CreateAdd(shared, scaled(stage, kernel.stageBytes())), kernel.queryBytes());
  }
  Value *fullBarrier(Value *stage) { return b.CreateAdd(barriers, scaled(stage, kBarrierBytes)); }
  Value *emptyBarrier(Value *stage) { return add(fullBarrier(stage), 8); }

  /// The next stage of the ring, and the parity that its barrier then has.
  std::pair<Value *, Value *> nextStage(Value *stage, Value *parity);
  Value *descriptor(Value *address, unsigned nextColumns);

  /// What a consumer carries from one tile of keys to the next.
  struct State {
    Value *stage, *parity;
    OnlineSoftmax::State rows;
  };
  SmallVector<Value *> packed(const State &state);
  State unpacked(ArrayRef<Value *> values) { return {values[0], values[1], OnlineSoftmax::unpacked(values.drop_front(2))}; }

  void produce();
  void consume();
  State takeTile(State state, Value *firstKey, bool isTail);
  void writeContext(const State &state);

  const AttentionKernel &kernel;
  const AttentionShape &shape;
  llvm::Module &module;
  IRBuilder<> b;
  Hopper hopper;
  OnlineSoftmax softmax;
  Function *function = nullptr;
  Value *shared = nullptr, *barriers = nullptr, *queryBarrier = nullptr, *thread = nullptr, *warpgroup = nullptr;
  Value *batch = nullptr, *head = nullptr, *outer = nullptr, *firstRow = nullptr;
  // Of a consumer.
  Value *consumer = nullptr, *lane = nullptr, *warp = nullptr, *inGroup = nullptr, *signals = nullptr;
};

std::pair<Value *, Value *> Emitter::nextStage(Value *stage, Value *parity) {
  Value *next = add(stage, 1);
  Value *wraps = b.CreateICmpEQ(next, constant(shape.stages));
  return {b.CreateSelect(wraps, constant(0), next), b.CreateSelect(wraps, b.CreateXor(parity, 1), parity)};
}

/// Of rows of 128 bytes, swizzled by 128 bytes: 8 rows lie 1024 bytes apart. `nextColumns`: where the next 64 columns of an operand lie whose
/// rows are steps of k; 0 for other operands.
Value *Emitter::descriptor(Value *address, unsigned nextColumns) {
  const uint64_t layout = uint64_t(1) << 62 | uint64_t(1024 >> 4) << 32 | uint64_t(nextColumns ? nextColumns >> 4 : 1) << 16;
  return b.CreateOr(b.CreateZExt(b.CreateLShr(address, 4), b.getInt64Ty()), b.getInt64(layout));
}

SmallVector<Value *> Emitter::packed(const State &state) {
  SmallVector<Value *> values{state.stage, state.parity};
  values.append(OnlineSoftmax::packed(state.rows));
  return values;
}

void Emitter::produce() {
  if (kernel.overlapsGrids)
    hopper.waitForGridBefore();
  auto copy = [&](Value *to, unsigned map, Value *row, unsigned rows, Value *barrier) {
    for (unsigned chunk = 0; chunk < kernel.chunks(); ++chunk)
      hopper.copyBox(add(to, chunk * rows * kRowBytes), parameter(map), {constant(chunk * 64), row, head, outer}, barrier);
  };
  hopper.arriveExpecting(queryBarrier, constant(kernel.queryBytes()));
  copy(shared, kMapQueries, firstRow, shape.rows, queryBarrier);
  // The first key of a tile, the stage, and the parity of its empty barrier, which has never been waited for.
  emitLoop(
      b, "tiles", {constant(0), constant(0), constant(1)},
      [&](ArrayRef<Value *> values) { return b.CreateICmpULT(values[0], parameter(kKeyRows)); },
      [&](ArrayRef<Value *> values) -> SmallVector<Value *> {
        Value *stage = values[1], *parity = values[2];
        for (unsigned map : {kMapKeys, kMapValues}) {
          hopper.wait(emptyBarrier(stage), parity);
          hopper.arriveExpecting(fullBarrier(stage), constant(kernel.stageBytes()));
          copy(stageAddress(stage), map, values[0], shape.keys, fullBarrier(stage));
          std::tie(stage, parity) = nextStage(stage, parity);
        }
        return {add(values[0], shape.keys), stage, parity};
      });
}

Emitter::State Emitter::takeTile(State state, Value *firstKey, bool isTail) {
  const unsigned steps = kernel.headSize / 16;
  hopper.wait(fullBarrier(state.stage), state.parity);
  SmallVector<Hopper::ProductStep> ofHead;
  for (unsigned step = 0; step < steps; ++step) // 32 bytes each
    ofHead.push_back(
        {step / 4 * (shape.rows * kRowBytes >> 4) + step % 4 * 2, step / 4 * (shape.keys * kRowBytes >> 4) + step % 4 * 2});
  Value *queries = b.CreateAdd(shared, scaled(consumer, 64 * kRowBytes));
  SmallVector<Value *> scores =
      hopper.multiply(kernel.element, shape.keys, {}, descriptor(queries, 0), descriptor(stageAddress(state.stage), 0), ofHead,
                      /*accumulates=*/false, /*transposesB=*/false);
  scores = hopper.waitProducts(scores, 0);
  hopper.arriveIf(emptyBarrier(state.stage), signals);

  Value *row = b.CreateAdd(firstRow, b.CreateAdd(b.CreateAdd(scaled(consumer, 64), scaled(warp, 16)), b.CreateLShr(lane, 2)));
  const SmallVector<Value *> weights =
      softmax.take(state.rows, std::move(scores), {batch, row, firstKey, lane, parameter(kQueryRows), parameter(kKeyRows)},
                   isTail, function);
  auto [stage, parity] = nextStage(state.stage, state.parity);
  hopper.wait(fullBarrier(stage), parity);
  SmallVector<Hopper::ProductStep> ofKeys;
  for (unsigned step = 0; step < shape.keys / 16; ++step)
    ofKeys.push_back({0, step * (16 * kRowBytes >> 4)});
  SmallVector<Value *> &context = state.rows.context;
  context = hopper.multiplyRegisters(kernel.element, kernel.headSize, context, weights,
                                     descriptor(stageAddress(stage), shape.keys * kRowBytes), ofKeys,
                                     /*accumulates=*/true, /*transposesB=*/true);
  context = hopper.waitProducts(context, 0);
  hopper.arriveIf(emptyBarrier(stage), signals);
  std::tie(state.stage, state.parity) = nextStage(stage, parity);
  return state;
}

/// Through the memory of the consumer's rows of Q.
void Emitter::writeContext(const State &state) {
  const SmallVector<Value *> values = softmax.context(state.rows);
  Value *barrier = add(consumer, 1);
  hopper.synchronize(barrier, 128); // all warps have read their rows
  // Lane l gives the address of row l % 8 of matrix l / 8: the upper and lower half of the rows, then the columns behind.
  Value *row = b.CreateAdd(scaled(warp, 16), b.CreateAdd(b.CreateAnd(lane, 7), b.CreateAnd(lane, 8)));
  Value *behind = b.CreateLShr(lane, 4), *swizzle = b.CreateAnd(row, 7);
  Value *buffer = b.CreateAdd(shared, scaled(consumer, 64 * kRowBytes));
  for (unsigned column = 0; column < kernel.headSize; column += 16) {
    SmallVector<Value *> matrices;
    for (unsigned i = column / 2; i < column / 2 + 8; i += 2)
      matrices.push_back(hopper.pack(kernel.element, values[i], values[i + 1]));
    Value *unit = b.CreateShl(b.CreateXor(add(behind, column % 64 / 8), swizzle), 4);
    Value *chunk = add(buffer, column / 64 * shape.rows * kRowBytes);
    hopper.storeMatrices(b.CreateAdd(chunk, b.CreateAdd(scaled(row, kRowBytes), unit)), matrices);
  }
  hopper.fenceProxy();
  hopper.synchronize(barrier, 128);
  emitIf(b, signals, [&] {
    for (unsigned chunk = 0; chunk < kernel.chunks(); ++chunk)
      hopper.storeBox(parameter(kMapContext), add(buffer, chunk * shape.rows * kRowBytes),
                      {constant(chunk * 64), b.CreateAdd(firstRow, scaled(consumer, 64)), head, outer});
    hopper.commitStores();
    hopper.waitStores(0);
  });
}

void Emitter::consume() {
  if (shape.consumers() > 1)
    hopper.setRegisters(kRegisters[shape.consumers()].consumer, true);
  State state{constant(0), constant(0), softmax.begin()};
  hopper.wait(queryBarrier, constant(0));
  // Whole tiles, then what is left.
  Value *whole = parameter(kKeyRows);
  if (kernel.hasTail)
    whole = b.CreateSub(whole, b.CreateURem(whole, constant(shape.keys)));
  SmallVector<Value *> initial = packed(state);
  initial.insert(initial.begin(), constant(0));
  SmallVector<Value *> end = emitLoop(
      b, "keys", initial, [&](ArrayRef<Value *> values) { return b.CreateICmpULT(values[0], whole); },
      [&](ArrayRef<Value *> values) {
        SmallVector<Value *> next = packed(takeTile(unpacked(values.drop_front()), values[0], false));
        next.insert(next.begin(), add(values[0], shape.keys));
        return next;
      });
  state = unpacked(ArrayRef<Value *>(end).drop_front());
  if (kernel.hasTail)
    state = takeTile(std::move(state), whole, true);
  writeContext(state);
}

Function *Emitter::run() {
  LLVMContext &context = module.getContext();
  Type *map = ArrayType::get(b.getInt8Ty(), 128);
  SmallVector<Type *> types(4, b.getPtrTy());
  types.append(kFirstAttentionPointer - kHeads, b.getInt32Ty());
  types.append(kernel.pointers, b.getPtrTy());
  function = createKernel(module, kernel.name, types, shape.threads());
  for (unsigned i : {kMapQueries, kMapKeys, kMapValues, kMapContext}) {
    function->addParamAttr(i, Attribute::getWithByValType(context, map));
    function->addParamAttr(i, Attribute::getWithAlignment(context, Align(64)));
  }
  annotateInPlace(*function, {kMapQueries, kMapKeys, kMapValues, kMapContext});
  // Not noalias, as in a tile kernel.
  for (unsigned i = kFirstAttentionPointer; i < function->arg_size(); ++i)
    function->addParamAttr(i, Attribute::getWithAlignment(context, Align(kAlignment)));

  b.SetInsertPoint(BasicBlock::Create(context, "entry", function));
  auto *memory = new GlobalVariable(module, ArrayType::get(b.getInt8Ty(), 0), false, GlobalValue::ExternalLinkage, nullptr,
                                    kernel.name + "_shared", nullptr, GlobalValue::NotThreadLocal, /*AddressSpace=*/3,
                                    /*isExternallyInitialized=*/true);
  memory->setAlignment(Align(1024));
  shared = b.CreateTrunc(b.CreatePtrToInt(memory, b.getInt64Ty()), b.getInt32Ty());
  barriers = add(shared, kernel.queryBytes() + shape.stages * kernel.stageBytes());
  queryBarrier = add(barriers, shape.stages * kBarrierBytes);
  thread = hopper.threadIndex();
  warpgroup = hopper.uniform(b.CreateLShr(thread, 7));
  emitIf(b, b.CreateICmpEQ(thread, constant(0)), [&] {
    for (unsigned stage = 0; stage < shape.stages; ++stage) {
      hopper.initBarrier(fullBarrier(constant(stage)), constant(1));
      hopper.initBarrier(emptyBarrier(constant(stage)), constant(shape.consumers()));
    }
    hopper.initBarrier(queryBarrier, constant(1));
    hopper.fenceBarrierInit();
  });
  hopper.synchronize();
  if (kernel.overlapsGrids)
    hopper.launchNextGrid();

  Value *tiles = b.CreateUDiv(add(parameter(kQueryRows), shape.rows - 1), constant(shape.rows));
  Value *block = hopper.blockIndex();
  batch = b.CreateUDiv(block, tiles);
  firstRow = scaled(b.CreateURem(block, tiles), shape.rows);
  outer = b.CreateUDiv(batch, parameter(kHeads));
  head = b.CreateURem(batch, parameter(kHeads));
  consumer = b.CreateSub(warpgroup, constant(1));
  lane = b.CreateAnd(thread, 31);
  warp = b.CreateAnd(b.CreateLShr(thread, 5), 3);
  inGroup = b.CreateAnd(thread, 127);
  signals = b.CreateICmpEQ(inGroup, constant(0));
  emitIf(
      b, b.CreateICmpEQ(warpgroup, constant(0)),
      [&] {
        if (shape.consumers() > 1)
          hopper.setRegisters(kRegisters[shape.consumers()].producer, false);
        emitIf(b, b.CreateICmpEQ(thread, constant(0)), [&] { produce(); });
      },
      [&] { consume(); });
  b.CreateRetVoid();
  return function;
}

} // namespace

Function *gpu::emitAttention(llvm::Module &module, const AttentionKernel &kernel) { return Emitter(module, kernel).run(); }
