//===- Kernel.cpp - Kernels as LLVM IR, and as PTX ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/Kernel.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

using namespace llvm;
using namespace tw;
using namespace tw::gpu;

static TargetMachine &targetMachine(Architecture architecture) {
  auto create = [](const char *processor, const char *features) {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    std::string error;
    const Target *target = TargetRegistry::lookupTarget("nvptx64-nvidia-cuda", error);
    TargetOptions options;
    options.AllowFPOpFusion = FPOpFusion::Standard;
    return std::unique_ptr<TargetMachine>(target->createTargetMachine("nvptx64-nvidia-cuda", processor, features, options,
                                                                      Reloc::PIC_, std::nullopt, CodeGenOptLevel::Aggressive));
  };
  static const std::unique_ptr<TargetMachine> ampere = create("sm_80", "+ptx74"), hopper = create("sm_90a", "+ptx80");
  return architecture == Architecture::Sm80 ? *ampere : *hopper;
}

std::unique_ptr<Module> gpu::createModule(LLVMContext &context) {
  auto module = std::make_unique<Module>("kernels", context);
  module->setTargetTriple("nvptx64-nvidia-cuda");
  module->setDataLayout(targetMachine(Architecture::Sm80).createDataLayout()); // that of all
  return module;
}

static void annotate(Function &kernel, StringRef name, Metadata *value) {
  LLVMContext &context = kernel.getContext();
  kernel.getParent()
      ->getOrInsertNamedMetadata("nvvm.annotations")
      ->addOperand(MDNode::get(context, {ValueAsMetadata::get(&kernel), MDString::get(context, name), value}));
}

static Metadata *number(LLVMContext &context, unsigned value) {
  return ConstantAsMetadata::get(ConstantInt::get(Type::getInt32Ty(context), value));
}

Function *gpu::createKernel(Module &module, StringRef name, ArrayRef<Type *> parameters, unsigned threads) {
  LLVMContext &context = module.getContext();
  auto *kernel = Function::Create(FunctionType::get(Type::getVoidTy(context), parameters, false), GlobalValue::ExternalLinkage,
                                  name, module);
  kernel->setDoesNotThrow();
  annotate(*kernel, "kernel", number(context, 1));
  annotate(*kernel, "maxntidx", number(context, threads));
  annotate(*kernel, "minctasm", number(context, 1));
  return kernel;
}

void gpu::annotateInPlace(Function &kernel, ArrayRef<unsigned> parameters) {
  SmallVector<Metadata *> numbers;
  for (unsigned parameter : parameters)
    numbers.push_back(number(kernel.getContext(), parameter + 1));
  annotate(kernel, "grid_constant", MDNode::get(kernel.getContext(), numbers));
}

void gpu::emitIf(IRBuilder<> &b, Value *condition, function_ref<void()> then, function_ref<void()> otherwise) {
  Function *function = b.GetInsertBlock()->getParent();
  LLVMContext &context = function->getContext();
  auto *thenBlock = BasicBlock::Create(context, "then", function), *end = BasicBlock::Create(context, "end");
  auto *elseBlock = otherwise ? BasicBlock::Create(context, "else") : end;
  b.CreateCondBr(condition, thenBlock, elseBlock);
  b.SetInsertPoint(thenBlock);
  then();
  b.CreateBr(end);
  if (otherwise) {
    elseBlock->insertInto(function);
    b.SetInsertPoint(elseBlock);
    otherwise();
    b.CreateBr(end);
  }
  end->insertInto(function);
  b.SetInsertPoint(end);
}

SmallVector<Value *> gpu::emitLoop(IRBuilder<> &b, const Twine &name, ArrayRef<Value *> initial,
                                   function_ref<Value *(ArrayRef<Value *>)> condition,
                                   function_ref<SmallVector<Value *>(ArrayRef<Value *>)> body, unsigned unrolled) {
  BasicBlock *before = b.GetInsertBlock();
  Function *function = before->getParent();
  LLVMContext &context = function->getContext();
  auto *head = BasicBlock::Create(context, name, function), *inside = BasicBlock::Create(context, name + ".body", function),
       *end = BasicBlock::Create(context, name + ".end");
  b.CreateBr(head);
  b.SetInsertPoint(head);
  SmallVector<PHINode *> phis;
  SmallVector<Value *> values;
  for (Value *value : initial) {
    phis.push_back(b.CreatePHI(value->getType(), 2));
    phis.back()->addIncoming(value, before);
    values.push_back(phis.back());
  }
  b.CreateCondBr(condition(values), inside, end);
  b.SetInsertPoint(inside);
  SmallVector<Value *> next = body(values);
  for (auto [phi, value] : zip(phis, next))
    phi->addIncoming(value, b.GetInsertBlock());
  BranchInst *back = b.CreateBr(head);
  if (unrolled > 1) {
    MDNode *count = MDNode::get(context, {MDString::get(context, "llvm.loop.unroll.count"), number(context, unrolled)});
    MDNode *loop = MDNode::getDistinct(context, {nullptr, count});
    loop->replaceOperandWith(0, loop);
    back->setMetadata(LLVMContext::MD_loop, loop);
  }
  end->insertInto(function);
  b.SetInsertPoint(end);
  return values;
}

Expected<std::string> gpu::toPtx(Module &module, Architecture architecture) {
  TargetMachine &machine = targetMachine(architecture);
  std::string problems;
  raw_string_ostream text(problems);
  if (verifyModule(module, &text))
    return createStringError("internal: %s", text.str().c_str());
  {
    LoopAnalysisManager loops;
    FunctionAnalysisManager functions;
    CGSCCAnalysisManager calls;
    ModuleAnalysisManager modules;
    PipelineTuningOptions tuning;
    tuning.LoopUnrolling = tuning.LoopVectorization = tuning.SLPVectorization = false;
    PassBuilder passes(&machine, tuning);
    passes.registerModuleAnalyses(modules);
    passes.registerCGSCCAnalyses(calls);
    passes.registerFunctionAnalyses(functions);
    passes.registerLoopAnalyses(loops);
    passes.crossRegisterProxies(loops, functions, calls, modules);
    passes.buildPerModuleDefaultPipeline(OptimizationLevel::O2).run(module, modules);
  }
  SmallString<0> ptx;
  raw_svector_ostream stream(ptx);
  legacy::PassManager manager;
  if (machine.addPassesToEmitFile(manager, stream, nullptr, CodeGenFileType::AssemblyFile))
    return createStringError("internal: LLVM writes no PTX");
  manager.run(module);
  return ptx.str().str();
}
