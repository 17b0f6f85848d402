//===- Hopper.cpp - Instructions of sm_90a that LLVM IR has no ops for ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/Hopper.h"

using namespace llvm;
using namespace tw;
using namespace tw::gpu;

Value *Hopper::clusterRank() { return assembly("mov.u32 $0, %cluster_ctarank;", "=r", b.getInt32Ty(), {}, false); }

void Hopper::initBarrier(Value *barrier, Value *arrivals) {
  assembly("mbarrier.init.shared::cta.b64 [$0], $1;", "r,r", b.getVoidTy(), {barrier, arrivals});
}

void Hopper::fenceBarrierInit() { assembly("fence.mbarrier_init.release.cluster;", "", b.getVoidTy(), {}); }

void Hopper::arrive(Value *barrier) {
  assembly("mbarrier.arrive.release.cta.shared::cta.b64 _, [$0];", "r", b.getVoidTy(), {barrier});
}

void Hopper::arriveIf(Value *barrier, Value *condition) {
  assembly("{\n.reg .pred p;\nsetp.ne.b32 p, $1, 0;\n@p mbarrier.arrive.release.cta.shared::cta.b64 _, [$0];\n}", "r,r",
           b.getVoidTy(), {barrier, b.CreateZExt(condition, b.getInt32Ty())});
}

void Hopper::arriveExpecting(Value *barrier, Value *bytes) {
  assembly("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [$0], $1;", "r,r", b.getVoidTy(), {barrier, bytes});
}

void Hopper::wait(Value *barrier, Value *parity) {
  assembly("{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n@done bra.uni DONE;\nbra.uni "
           "WAIT;\nDONE:\n}",
           "r,r", b.getVoidTy(), {barrier, parity});
}

void Hopper::copyBox(Value *to, Value *map, ArrayRef<Value *> coordinates, Value *barrier) {
  SmallVector<Value *> operands{to, map, barrier};
  operands.append(coordinates.begin(), coordinates.end());
  assembly("cp.async.bulk.tensor." + Twine(coordinates.size()) +
               "d.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1, " + list(3, coordinates.size()) + "], [$2];",
           "r,l,r," + repeated("r", coordinates.size()), b.getVoidTy(), operands);
}

void Hopper::copyPixels(Value *to, Value *map, ArrayRef<Value *> coordinates, ArrayRef<Value *> offsets, Value *barrier) {
  SmallVector<Value *> operands{to, map, barrier};
  operands.append(coordinates.begin(), coordinates.end());
  operands.append(offsets.begin(), offsets.end());
  assembly("cp.async.bulk.tensor." + Twine(coordinates.size()) +
               "d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [$0], [$1, " + list(3, coordinates.size()) +
               "], [$2], " + list(unsigned(3 + coordinates.size()), offsets.size()) + ";",
           "r,l,r," + repeated("r", coordinates.size()) + "," + repeated("h", offsets.size()), b.getVoidTy(), operands);
}

void Hopper::copyBytes(Value *to, Value *from, Value *bytes, Value *barrier) {
  Value *global = b.CreateAddrSpaceCast(from, PointerType::get(b.getContext(), 1));
  assembly("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];", "r,l,r,r", b.getVoidTy(),
           {to, global, bytes, barrier});
}

void Hopper::storeBox(Value *map, Value *from, ArrayRef<Value *> coordinates) {
  SmallVector<Value *> operands{map, from};
  operands.append(coordinates.begin(), coordinates.end());
  assembly("cp.async.bulk.tensor." + Twine(coordinates.size()) + "d.global.shared::cta.bulk_group [$0, " +
               list(2, coordinates.size()) + "], [$1];",
           "l,r," + repeated("r", coordinates.size()), b.getVoidTy(), operands);
}

void Hopper::commitStores() { assembly("cp.async.bulk.commit_group;", "", b.getVoidTy(), {}); }
void Hopper::waitStoresRead(unsigned left) {
  assembly("cp.async.bulk.wait_group.read " + Twine(left) + ";", "", b.getVoidTy(), {});
}
void Hopper::waitStores(unsigned left) { assembly("cp.async.bulk.wait_group " + Twine(left) + ";", "", b.getVoidTy(), {}); }
void Hopper::fenceProxy() { assembly("fence.proxy.async.shared::cta;", "", b.getVoidTy(), {}); }

void Hopper::synchronizeCluster() {
  assembly("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;", "", b.getVoidTy(), {});
}

void Hopper::setRegisters(unsigned count, bool more) {
  assembly("setmaxnreg." + Twine(more ? "inc" : "dec") + ".sync.aligned.u32 " + Twine(count) + ";", "", b.getVoidTy(), {});
}

SmallVector<Value *> Hopper::multiply(Element element, unsigned columns, ArrayRef<Value *> sums, Value *a, Value *bDescriptor,
                                      unsigned stepA, unsigned stepB, Value *accumulates, bool transposesB) {
  const unsigned n = unsigned(sums.size());
  const bool integer = element == Element::I8;
  const char *name = element == Element::Bf16  ? "bf16"
                     : element == Element::F16 ? "f16"
                     : element == Element::F32 ? "tf32"
                                               : "s8";
  const unsigned depth = 32 / bytesOf(element);
  // Scale and transposition of the operands: tf32 and integers are K-major only.
  const char *tail = integer ? "p" : element == Element::F32 ? "p, 1, 1" : transposesB ? "p, 1, 1, 0, 1" : "p, 1, 1, 0, 0";
  std::string text =
      "{\n.reg .pred p;\n.reg .b64 da, db;\nsetp.ne.b32 p, $" + std::to_string(2 * n + 2) + ", 0;\nwgmma.fence.sync.aligned;\n";
  for (unsigned step = 0; step < 4; ++step) {
    const std::string a64 = "$" + std::to_string(2 * n), b64 = "$" + std::to_string(2 * n + 1);
    text += "add.s64 da, " + a64 + ", " + std::to_string(step * stepA) + ";\nadd.s64 db, " + b64 + ", " +
            std::to_string(step * stepB) + ";\n";
    if (step == 1)
      text += "setp.eq.b32 p, 0, 0;\n";
    text += "wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k" + std::to_string(depth) +
            (integer ? ".s32." : ".f32.") + name + "." + name + " " + list(0, n) + ", da, db, " + tail + ";\n";
  }
  text += "wgmma.commit_group.sync.aligned;\n}";
  std::string constraints = repeated(integer ? "=r" : "=f", n);
  for (unsigned i = 0; i < n; ++i)
    constraints += "," + std::to_string(i);
  constraints += ",l,l,r";
  SmallVector<Value *> operands(sums.begin(), sums.end());
  operands.append({a, bDescriptor, accumulates});
  Type *sum = integer ? b.getInt32Ty() : b.getFloatTy();
  Value *all = assembly(text, constraints, StructType::get(b.getContext(), SmallVector<Type *>(n, sum)), operands);
  return elementsOf(all);
}

SmallVector<Value *> Hopper::multiply(Element element, unsigned columns, ArrayRef<Value *> sums, Value *a, Value *bDescriptor,
                                      ArrayRef<ProductStep> steps, bool accumulates, bool transposesB) {
  return multiplySteps(element, columns, sums, a, bDescriptor, steps, accumulates, transposesB);
}

SmallVector<Value *> Hopper::multiplyRegisters(Element element, unsigned columns, ArrayRef<Value *> sums, ArrayRef<Value *> a,
                                               Value *bDescriptor, ArrayRef<ProductStep> steps, bool accumulates,
                                               bool transposesB) {
  assert(a.size() == 4 * steps.size() && "four words for each step");
  return multiplySteps(element, columns, sums, a, bDescriptor, steps, accumulates, transposesB);
}

/// `a`: one descriptor, or the words of all steps.
SmallVector<Value *> Hopper::multiplySteps(Element element, unsigned columns, ArrayRef<Value *> sums, ArrayRef<Value *> a,
                                           Value *bDescriptor, ArrayRef<ProductStep> steps, bool accumulates,
                                           bool transposesB) {
  const unsigned n = columns / 2, firstA = accumulates ? 2 * n : n, atB = firstA + unsigned(a.size());
  const bool fromRegisters = a.size() > 1;
  const std::string name = element == Element::F16 ? "f16" : "bf16";
  // Whether the first step adds; then scales, and which operands are transposed.
  std::string text = std::string("{\n.reg .pred p;\n.reg .b64 da, db;\nsetp.eq.b32 p, 0, ") + (accumulates ? "0" : "1") +
                     ";\nwgmma.fence.sync.aligned;\n";
  const std::string tail = std::string("p, 1, 1, ") + (fromRegisters ? "" : "0, ") + (transposesB ? "1;\n" : "0;\n");
  for (auto [i, step] : enumerate(steps)) {
    std::string from = "da";
    if (fromRegisters)
      from = list(unsigned(firstA + 4 * i), 4);
    else
      text += "add.s64 da, $" + std::to_string(firstA) + ", " + std::to_string(step.a) + ";\n";
    text += "add.s64 db, $" + std::to_string(atB) + ", " + std::to_string(step.b) + ";\n";
    if (i == 1 && !accumulates)
      text += "setp.eq.b32 p, 0, 0;\n";
    text += "wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k16.f32." + name + "." + name + " " + list(0, n) +
            ", " + from + ", db, " + tail;
  }
  text += "wgmma.commit_group.sync.aligned;\n}";
  std::string constraints = repeated("=f", n);
  SmallVector<Value *> operands;
  if (accumulates) {
    for (unsigned i = 0; i < n; ++i)
      constraints += "," + std::to_string(i);
    operands.append(sums.begin(), sums.end());
  }
  constraints += "," + repeated(fromRegisters ? "r" : "l", a.size()) + ",l";
  operands.append(a.begin(), a.end());
  operands.push_back(bDescriptor);
  Value *all = assembly(text, constraints, StructType::get(b.getContext(), SmallVector<Type *>(n, b.getFloatTy())), operands);
  return elementsOf(all);
}

SmallVector<Value *> Hopper::waitProducts(ArrayRef<Value *> sums, unsigned left) {
  const unsigned n = unsigned(sums.size());
  Type *sum = sums.front()->getType();
  std::string constraints = repeated(sum->isFloatTy() ? "=f" : "=r", n);
  for (unsigned i = 0; i < n; ++i)
    constraints += "," + std::to_string(i);
  Value *all = assembly("wgmma.wait_group.sync.aligned " + Twine(left) + ";", constraints,
                        StructType::get(b.getContext(), SmallVector<Type *>(n, sum)), sums);
  return elementsOf(all);
}

void Hopper::storeMatrices(Value *address, ArrayRef<Value *> matrices) {
  SmallVector<Value *> operands{address};
  operands.append(matrices.begin(), matrices.end());
  assembly("stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], " + list(1, 4) + ";", "r,r,r,r,r", b.getVoidTy(), operands);
}

Value *Hopper::inBlock(Value *address, Value *rank) {
  return assembly("mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", b.getInt32Ty(), {address, rank}, false);
}

Value *Hopper::loadCluster(Type *type, Value *address) {
  return assembly(type->isFloatTy() ? "ld.shared::cluster.f32 $0, [$1];" : "ld.shared::cluster.s32 $0, [$1];",
                  type->isFloatTy() ? "=f,r" : "=r,r", type, {address});
}

void Hopper::waitForGridBefore() { assembly("griddepcontrol.wait;", "", b.getVoidTy(), {}); }
void Hopper::launchNextGrid() { assembly("griddepcontrol.launch_dependents;", "", b.getVoidTy(), {}); }
