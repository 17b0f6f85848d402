//===- NativeCode.cpp - From loops to machine code ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/NativeCode.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include <mutex>

using namespace mlir;

namespace tw::cpu {

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// f32 to bf16 by integer arithmetic: to the nearest, ties to even, subnormals kept, every NaN the canonical one.
struct TruncateToBfloat : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::TruncFOp op, PatternRewriter &rewriter) const override {
    Value x = op.getIn();
    if (!getElementTypeOrSelf(op.getType()).isBF16() || !getElementTypeOrSelf(x.getType()).isF32())
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    auto like = [&](Type element) -> Type {
      auto vector = dyn_cast<VectorType>(x.getType());
      return vector ? Type(VectorType::get(vector.getShape(), element)) : element;
    };
    auto constant = [&](Type element, int64_t value) -> Value {
      TypedAttr attr = b.getIntegerAttr(element, value);
      if (auto vector = dyn_cast<VectorType>(like(element)))
        attr = DenseElementsAttr::get(vector, attr);
      return b.create<arith::ConstantOp>(attr);
    };
    Type i32 = b.getI32Type(), i16 = b.getI16Type();
    Value bits = b.create<arith::BitcastOp>(like(i32), x);
    Value odd = b.create<arith::AndIOp>(b.create<arith::ShRUIOp>(bits, constant(i32, 16)), constant(i32, 1));
    Value sum = b.create<arith::AddIOp>(bits, b.create<arith::AddIOp>(odd, constant(i32, 0x7FFF)));
    Value high = b.create<arith::ShRUIOp>(sum, constant(i32, 16));
    Value isNan = b.create<arith::CmpFOp>(arith::CmpFPredicate::UNO, x, x);
    Value result = b.create<arith::SelectOp>(isNan, constant(i32, 0x7FC0), high);
    result = b.create<arith::TruncIOp>(like(i16), result);
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(), result);
    return success();
  }
};

/// Exponentials, logarithms, tanh and erf become polynomials that vectorise and are good to a few units of the last place; other
/// functions stay calls, because their polynomials are only good to an absolute error. Conversions from and to bfloat16
/// become integer arithmetic, because the processor's own instruction flushes subnormals.
static LogicalResult expandMath(ModuleOp module) {
  MLIRContext *context = module.getContext();
  SmallVector<Operation *> functions;
  module.walk([&](Operation *op) {
    if (isa<math::ExpOp, math::ExpM1Op, math::LogOp, math::Log2Op, math::Log1pOp, math::TanhOp, math::ErfOp>(op))
      functions.push_back(op);
  });
  RewritePatternSet polynomials(context);
  populateMathPolynomialApproximationPatterns(polynomials);
  GreedyRewriteConfig config;
  config.strictMode = GreedyRewriteStrictness::ExistingOps;
  if (failed(applyOpPatternsAndFold(functions, std::move(polynomials), config)))
    return failure();
  RewritePatternSet patterns(context);
  arith::populateExpandBFloat16Patterns(patterns);
  // Preferred to the one above, which leaves NaNs as they are.
  patterns.add<TruncateToBfloat>(context, /*benefit=*/2);
  return applyPatternsAndFoldGreedily(module, std::move(patterns));
}

static void buildPipeline(PassManager &passes) {
  passes.enableVerifier(false);
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createConvertSCFToCFPass());
  // Before the conversion of vectors: calls are made element by element.
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createConvertMathToLibmPass());
  ConvertVectorToLLVMPassOptions vectors;
  vectors.reassociateFPReductions = true;
  passes.addPass(createConvertVectorToLLVMPass(vectors));
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createFinalizeMemRefToLLVMConversionPass());
  passes.addPass(createConvertFuncToLLVMPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
}

static LogicalResult lowerToLlvmDialect(ModuleOp module) {
  PassManager passes(module.getContext());
  buildPipeline(passes);
  if (failed(passes.run(module)))
    return failure();
  // The translation to LLVM IR is not made for what it does not know.
  WalkResult result = module.walk([](Operation *op) {
    bool known = isa<ModuleOp>(op) || isa<LLVM::LLVMDialect>(op->getDialect());
    return known ? WalkResult::advance() : WalkResult(op->emitError("has no form in the llvm dialect"));
  });
  return failure(result.wasInterrupted());
}

void prepareCodegen(MLIRContext &context) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser(); // the waiting loops of threads have an instruction as text
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeAArch64AsmParser(); // the waiting loops of threads have an instruction as text
    LLVMInitializeRISCVTargetInfo();
    LLVMInitializeRISCVTarget();
    LLVMInitializeRISCVTargetMC();
    LLVMInitializeRISCVAsmPrinter();
    LLVMInitializeRISCVAsmParser(); // the waiting loops of threads have an instruction as text
  });
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  // What the passes add to the context when they run must be there before, because it is not made for threads.
  PassManager passes(&context);
  buildPipeline(passes);
  passes.getDependentDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect, math::MathDialect,
                      memref::MemRefDialect, scf::SCFDialect, vector::VectorDialect>();
  for (StringRef name : registry.getDialectNames())
    context.getOrLoadDialect(name);
}

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>> makeTargetMachine(const CpuMachine &machine, unsigned optLevel) {
  std::string message;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(machine.triple, message);
  if (!target)
    return makeError(message);
  auto level = llvm::CodeGenOpt::getLevel(static_cast<int>(std::min(optLevel, 3u)));
  llvm::TargetOptions options;
  options.MCOptions.ABIName = machine.abi;
  std::unique_ptr<llvm::TargetMachine> result(target->createTargetMachine(machine.triple, machine.cpu, machine.features,
                                                                          options, llvm::Reloc::PIC_, std::nullopt,
                                                                          level.value_or(llvm::CodeGenOptLevel::Default)));
  if (!result)
    return makeError("LLVM has no code generator for " + machine.triple);
  return std::move(result);
}

static void optimise(llvm::Module &module, llvm::TargetMachine &target, unsigned optLevel) {
  // The loops are vectorised and unrolled already.
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopUnrolling = false;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&target, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graph, modules);
  const llvm::OptimizationLevel levels[] = {llvm::OptimizationLevel::O0, llvm::OptimizationLevel::O1,
                                            llvm::OptimizationLevel::O2, llvm::OptimizationLevel::O3};
  llvm::OptimizationLevel level = levels[std::min(optLevel, 3u)];
  if (level == llvm::OptimizationLevel::O0)
    builder.buildO0DefaultPipeline(level).run(module, modules);
  else
    builder.buildPerModuleDefaultPipeline(level).run(module, modules);
}

llvm::Error optimiseFor(llvm::Module &code, const CpuMachine &machine, unsigned optLevel) {
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>> target = makeTargetMachine(machine, optLevel);
  if (!target)
    return target.takeError();
  code.setTargetTriple(machine.triple);
  code.setDataLayout((*target)->createDataLayout());
  for (llvm::Function &function : code) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine.cpu);
    function.addFnAttr("target-features", machine.features);
    function.addFnAttr("prefer-vector-width", std::to_string(machine.vectorBits));
    function.addFnAttr("min-legal-vector-width", std::to_string(machine.vectorBits));
  }
  optimise(code, **target, optLevel);
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<llvm::Module>> compileToIr(ModuleOp module, llvm::LLVMContext &context,
                                                          const CpuMachine &machine, unsigned optLevel) {
  if (failed(expandMath(module)) || failed(lowerToLlvmDialect(module)))
    return makeError("the loops of a kernel cannot be lowered to the llvm dialect");
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(module, context);
  if (!code)
    return makeError("a kernel cannot be translated to LLVM IR");
  if (llvm::Error error = optimiseFor(*code, machine, optLevel))
    return std::move(error);
  return std::move(code);
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> emitCode(llvm::Module &code, const CpuMachine &machine, unsigned optLevel,
                                                             llvm::CodeGenFileType type) {
  llvm::Expected<std::unique_ptr<llvm::TargetMachine>> target = makeTargetMachine(machine, optLevel);
  if (!target)
    return target.takeError();
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager emission;
  if ((*target)->addPassesToEmitFile(emission, stream, nullptr, type))
    return makeError("LLVM cannot write object files for " + machine.triple);
  emission.run(code);
  return std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(bytes), code.getModuleIdentifier(),
                                                         /*RequiresNullTerminator=*/false);
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> compileToObject(ModuleOp module, const CpuMachine &machine,
                                                                    unsigned optLevel) {
  llvm::LLVMContext context;
  llvm::Expected<std::unique_ptr<llvm::Module>> code = compileToIr(module, context, machine, optLevel);
  if (!code)
    return code.takeError();
  return emitCode(**code, machine, optLevel, llvm::CodeGenFileType::ObjectFile);
}

} // namespace tw::cpu
