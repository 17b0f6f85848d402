//===- KernelWriter.cpp - The function a kernel becomes -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/KernelWriter.h"
#include "compiler/codegen/cpu/team/Team.h"

using namespace mlir;

namespace tw::cpu {

/// The most shared loops that one nest becomes: two blocks of its vector loop with two of rows each.
constexpr unsigned maxSharedLoops = 4;

KernelWriter::KernelWriter(func::FuncOp kernel, ModuleOp module, StringRef symbol, const NestOptions &options)
    : b(kernel.getContext()), options(options), kernel(kernel), module(module), symbol(symbol) {
  code = addFunction(symbol, /*hasWorker=*/true);
  if (options.threads > 1)
    code.worker = code.entry->getArgument(1);
  current = &code;
  b.setInsertionPointToEnd(code.entry);
  workspace = tablePointer(LateIndex::Workspace, 0);
}

KernelWriter::Function KernelWriter::addFunction(StringRef name, bool hasWorker) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(module.getBody());
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  SmallVector<Type> arguments(hasWorker ? 2 : 1, pointer);
  auto function = b.create<func::FuncOp>(kernel.getLoc(), name, b.getFunctionType(arguments, {}));
  Function added;
  added.entry = function.addEntryBlock();
  return added;
}

Value KernelWriter::tablePointer(unsigned index) {
  OpBuilder::InsertionGuard guard(b);
  if (current->lastTableLoad)
    b.setInsertionPointAfter(current->lastTableLoad);
  else
    b.setInsertionPointToStart(current->entry);
  auto type = LLVM::LLVMPointerType::get(b.getContext());
  Value table = current->entry->getArgument(0);
  Value place = b.create<LLVM::GEPOp>(kernel.getLoc(), type, type, table, ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
  auto load = b.create<LLVM::LoadOp>(kernel.getLoc(), type, place);
  current->lastTableLoad = load;
  return load;
}

Value KernelWriter::tablePointer(LateIndex::Base base, unsigned offset) {
  Value pointer = tablePointer(0);
  auto place = pointer.getDefiningOp<LLVM::LoadOp>().getAddr().getDefiningOp<LLVM::GEPOp>();
  lateIndices.push_back({base, offset, place});
  return pointer;
}

TensorView KernelWriter::newBuffer(RankedTensorType type, int64_t slackBytes) {
  TensorView view = denseView(type);
  view.buffer = static_cast<int>(buffers.size());
  buffers.push_back({tensorBytes(type) + slackBytes, step, step, 0});
  Location loc = kernel.getLoc();
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfter(workspace.getDefiningOp());
  auto offset = b.create<LLVM::ConstantOp>(loc, b.getI64Type(), b.getI64IntegerAttr(0));
  bufferOffsets.push_back(offset);
  view.pointer = b.create<LLVM::GEPOp>(loc, workspace.getType(), b.getI8Type(), workspace, ValueRange{offset});
  return view;
}

Value KernelWriter::pointerTo(const TensorView &view) {
  if (view.buffer >= 0)
    buffers[view.buffer].lastStep = step;
  if (view.offset == 0)
    return view.pointer;
  Location loc = kernel.getLoc();
  Value offset = b.create<LLVM::ConstantOp>(loc, b.getI64Type(), b.getI64IntegerAttr(view.offset));
  return b.create<LLVM::GEPOp>(loc, view.pointer.getType(), storageType(view.element), view.pointer, ValueRange{offset});
}

std::vector<TensorView> KernelWriter::newPackedConstants(ArrayRef<RankedTensorType> types,
                                                         function_ref<void(ArrayRef<TensorView>)> fill) {
  unsigned first = result.packedBytes.size();
  for (RankedTensorType type : types)
    result.packedBytes.push_back(tensorBytes(type));
  auto viewsHere = [&] {
    std::vector<TensorView> views;
    for (auto [index, type] : llvm::enumerate(types))
      views.push_back(denseView(type, tablePointer(LateIndex::Packed, first + index)));
    return views;
  };
  {
    OpBuilder::InsertionGuard guard(b);
    if (!packing.entry)
      packing = addFunction(packSymbolOf(symbol), /*hasWorker=*/false);
    b.setInsertionPointToEnd(packing.entry);
    current = &packing;
    fill(viewsHere());
    current = &code;
  }
  return viewsHere();
}

TensorView KernelWriter::constantView(ElementsAttr elements) {
  auto [known, isNew] = constantIndices.try_emplace(elements, result.constants.size());
  if (isNew)
    result.constants.push_back(elements);
  Value &pointer = current->constants[elements];
  if (!pointer)
    pointer = tablePointer(kernel.getNumArguments() + kernel.getNumResults() + known->second);
  return denseView(cast<RankedTensorType>(elements.getType()), pointer);
}

Block *KernelWriter::makeBody(TypeRange arguments, function_ref<Value(OpBuilder &, Location, ValueRange)> build) {
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

void KernelWriter::copy(Location loc, const TensorView &from, const TensorView &to, Block *body) {
  // A tensor.empty: any elements will do, so those that are there do.
  if (!from.splat && !from.pointer)
    return;
  LoopNest nest;
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
  emit(loc, std::move(nest));
}

void KernelWriter::emit(Location loc, LoopNest nest) {
  nest.runsOnce = current == &packing;
  if (current->sharedLoops + maxSharedLoops > TW_MAX_LOOPS)
    wait();
  current->sharedLoops += emitLoopNest(b, loc, std::move(nest), options, scalars, current->worker);
}

void KernelWriter::emitRows(Location loc, ArrayRef<LoopNest> nests, ArrayRef<int> rowLoops, int64_t rows) {
  if (current->sharedLoops + 1 > TW_MAX_LOOPS)
    wait();
  current->sharedLoops += emitRowBlocks(b, loc, nests, rowLoops, rows, options, scalars, current->worker);
}

void KernelWriter::wait() {
  if (current->sharedLoops)
    emitWait(b, kernel.getLoc(), current->worker);
  current->sharedLoops = 0;
}

TensorView KernelWriter::viewOf(Value tensor) const {
  auto it = views.find(tensor);
  assert(it != views.end() && "operands are emitted before their users");
  return it->second;
}

llvm::Expected<NestOperand> KernelWriter::operandOf(linalg::GenericOp op, const TensorView &view, AffineMap map,
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
  TensorView first = view;
  first.offset += start;
  operand.pointer = pointerTo(first);
  return operand;
}

void KernelWriter::finish() {
  assert(!code.sharedLoops && "a kernel waits for its loops before it returns");
  if (packing.entry)
    OpBuilder::atBlockEnd(packing.entry).create<func::ReturnOp>(kernel.getLoc());
  unsigned packed = kernel.getNumArguments() + kernel.getNumResults() + result.constants.size();
  for (LateIndex &late : lateIndices) {
    unsigned base = late.base == LateIndex::Packed ? packed : packed + result.packedBytes.size();
    late.place.setRawConstantIndices({static_cast<int32_t>(base + late.offset)});
  }
  for (ElementsAttr elements : result.constants) {
    Value pointer = code.constants.lookup(elements);
    result.onlyPacked.push_back(!pointer || pointer.use_empty());
  }
  result.workspaceBytes = planMemory(buffers);
  for (auto [offset, buffer] : llvm::zip(bufferOffsets, buffers))
    offset.setValueAttr(b.getI64IntegerAttr(buffer.offset));
}

} // namespace tw::cpu
