//===- Ampere.cpp - Instructions of sm_80 that LLVM IR has no ops for -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/Ampere.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

using namespace llvm;
using namespace tw;
using namespace tw::gpu;

CallInst *Ampere::assembly(const Twine &text, const Twine &constraints, Type *result, ArrayRef<Value *> operands,
                           bool hasEffects) {
  SmallVector<Type *> types;
  for (Value *operand : operands)
    types.push_back(operand->getType());
  auto *type = FunctionType::get(result, types, false);
  const std::string all =
      (constraints + (hasEffects ? (constraints.isTriviallyEmpty() ? "~{memory}" : ",~{memory}") : "")).str();
  CallInst *call = b.CreateCall(type, InlineAsm::get(type, text.str(), all, hasEffects), operands);
  call->setDoesNotThrow();
  if (hasEffects) // what a warp does together is not moved into branches
    call->setConvergent();
  return call;
}

std::string Ampere::list(unsigned from, size_t count) {
  std::string text = "{";
  for (unsigned i = 0; i < count; ++i)
    text += (i ? ", $" : "$") + std::to_string(from + i);
  return text + "}";
}

std::string Ampere::repeated(StringRef constraint, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += (i ? "," : "") + constraint.str();
  return text;
}

SmallVector<Value *> Ampere::elementsOf(Value *aggregate) {
  SmallVector<Value *> elements;
  for (unsigned i = 0; i < aggregate->getType()->getStructNumElements(); ++i)
    elements.push_back(b.CreateExtractValue(aggregate, i));
  return elements;
}

static Value *special(IRBuilder<> &b, Intrinsic::ID id) { return b.CreateIntrinsic(b.getInt32Ty(), id, {}); }

Value *Ampere::threadIndex() { return special(b, Intrinsic::nvvm_read_ptx_sreg_tid_x); }
Value *Ampere::blockIndex() { return special(b, Intrinsic::nvvm_read_ptx_sreg_ctaid_x); }
Value *Ampere::blockCount() { return special(b, Intrinsic::nvvm_read_ptx_sreg_nctaid_x); }

Value *Ampere::uniform(Value *value) {
  return b.CreateIntrinsic(b.getInt32Ty(), Intrinsic::nvvm_shfl_sync_idx_i32,
                           {b.getInt32(-1), value, b.getInt32(0), b.getInt32(31)});
}

Value *Ampere::ofOtherLane(Value *value, unsigned apart) {
  Value *bits = b.CreateIntrinsic(b.getInt32Ty(), Intrinsic::nvvm_shfl_sync_bfly_i32,
                                  {b.getInt32(-1), b.CreateBitCast(value, b.getInt32Ty()), b.getInt32(apart), b.getInt32(31)});
  return b.CreateBitCast(bits, b.getFloatTy());
}

void Ampere::synchronize() { assembly("bar.sync 0;", "", b.getVoidTy(), {}); }

void Ampere::synchronize(Value *id, unsigned threads) {
  assembly("bar.sync $0, " + Twine(threads) + ";", "r", b.getVoidTy(), {id});
}

void Ampere::copy16(Value *to, Value *from, Value *isInside) {
  Value *global = b.CreateAddrSpaceCast(from, PointerType::get(b.getContext(), 1));
  assembly("cp.async.cg.shared.global [$0], [$1], 16, $2;", "r,l,r", b.getVoidTy(),
           {to, global, b.CreateSelect(isInside, b.getInt32(16), b.getInt32(0))});
}

void Ampere::commitCopies() { assembly("cp.async.commit_group;", "", b.getVoidTy(), {}); }
void Ampere::waitCopies(unsigned left) { assembly("cp.async.wait_group " + Twine(left) + ";", "", b.getVoidTy(), {}); }

SmallVector<Value *> Ampere::loadMatrices(Value *address, bool transposed) {
  return elementsOf(
      assembly("ldmatrix.sync.aligned.m8n8.x4" + Twine(transposed ? ".trans" : "") + ".shared.b16 " + list(0, 4) + ", [$4];",
               "=r,=r,=r,=r,r", StructType::get(b.getContext(), SmallVector<Type *>(4, b.getInt32Ty())), {address}));
}

SmallVector<Value *> Ampere::multiplyTile(Element element, ArrayRef<Value *> sums, ArrayRef<Value *> a,
                                          ArrayRef<Value *> bWords) {
  const bool integer = element == Element::I8;
  const std::string name = element == Element::Bf16  ? "bf16"
                           : element == Element::F16 ? "f16"
                           : element == Element::F32 ? "tf32"
                                                     : "s8";
  const std::string sum = integer ? "s32" : "f32";
  SmallVector<Value *> operands(a.begin(), a.end());
  operands.append(bWords.begin(), bWords.end());
  operands.append(sums.begin(), sums.end());
  CallInst *call =
      assembly("mma.sync.aligned.m16n8k" + std::to_string(32 / bytesOf(element)) + ".row.col." + sum + "." + name + "." + name +
                   "." + sum + " " + list(0, 4) + ", " + list(4, 4) + ", " + list(8, 2) + ", " + list(0, 4) + ";",
               repeated(integer ? "=r" : "=f", 4) + "," + repeated("r", 6) + ",0,1,2,3",
               StructType::get(b.getContext(), SmallVector<Type *>(4, integer ? b.getInt32Ty() : b.getFloatTy())), operands,
               /*hasEffects=*/false);
  call->setConvergent();
  return elementsOf(call);
}

Value *Ampere::pack(Element element, Value *low, Value *high) {
  return assembly(element == Element::F16 ? "cvt.rn.f16x2.f32 $0, $2, $1;" : "cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,f,f",
                  b.getInt32Ty(), {low, high}, false);
}

Value *Ampere::packBytes(ArrayRef<Value *> values) {
  SmallVector<Value *> integers;
  for (Value *value : values)
    integers.push_back(assembly("cvt.rni.s32.f32 $0, $1;", "=r,f", b.getInt32Ty(), {value}, false));
  Value *high = assembly("cvt.pack.sat.s8.s32.b32 $0, $1, $2, $3;", "=r,r,r,r", b.getInt32Ty(),
                         {integers[3], integers[2], b.getInt32(0)}, false);
  return assembly("cvt.pack.sat.s8.s32.b32 $0, $1, $2, $3;", "=r,r,r,r", b.getInt32Ty(), {integers[1], integers[0], high},
                  false);
}

void Ampere::storeShared(Value *address, Value *value) {
  assembly("st.shared.b32 [$0], $1;", value->getType()->isFloatTy() ? "r,f" : "r,r", b.getVoidTy(), {address, value});
}
