//===- ScheduleFile.cpp - Schedules as files -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/directives/ScheduleFile.h"

#include "compiler/directives/Directives.h"
#include "compiler/pipeline/Diagnostics.h"
#include "compiler/pipeline/ReadText.h"
#include "isa/files/InputFile.h"

#include "mlir/Dialect/Func/TransformOps/FuncTransformOps.h"
#include "mlir/Dialect/Linalg/TransformOps/DialectExtension.h"
#include "mlir/Dialect/SCF/TransformOps/SCFTransformOps.h"
#include "mlir/Dialect/Tensor/TransformOps/TensorTransformOps.h"
#include "mlir/Dialect/Transform/IR/TransformOps.h"
#include "mlir/Dialect/Transform/Transforms/TransformInterpreterUtils.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace tw;
using namespace tw::directives;

namespace {
/// What finds kernels, beside the directives themselves; others rewrite code, which the compiler no longer knows afterwards.
constexpr llvm::StringLiteral kAllowedOps[] = {"transform.named_sequence",
                                               "transform.yield",
                                               "transform.include",
                                               "transform.foreach",
                                               "transform.foreach_match",
                                               "transform.collect_matching",
                                               "transform.match.operation_name",
                                               "transform.structured.match",
                                               "transform.get_parent_op",
                                               "transform.split_handle",
                                               "transform.merge_handles",
                                               "transform.select",
                                               "transform.cast",
                                               "transform.print"};

LogicalResult checkOps(ModuleOp file) {
  WalkResult result = file->walk([&](Operation *op) {
    const llvm::StringRef name = op->getName().getStringRef();
    const bool isDirective = name.starts_with("transform.tilewright.") && !mlir::isa<StepOp>(op);
    if (op == file || isDirective || llvm::is_contained(kAllowedOps, name))
      return WalkResult::advance();
    op->emitError() << "a schedule file cannot have this op: allowed are transform.tilewright ops and "
                    << llvm::join(llvm::ArrayRef(kAllowedOps), ", ");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// What is known before the file is applied: the interpreter calls itself for each sequence and each region, and takes at least a step
/// for each op; so does MLIR's verifier. Sees ops that were not verified.
class CallCheck {
public:
  explicit CallCheck(ModuleOp file) : symbols(file) {}

  LogicalResult run(ModuleOp file) {
    for (auto sequence : file.getOps<transform::NamedSequenceOp>())
      if (failed(visit(sequence, 0)))
        return failure();
    return success();
  }

private:
  static constexpr unsigned kDeepest = 100;
  struct Extent {
    unsigned height = 0;
    uint64_t steps = 0;
  };

  /// Of a sequence that is reached through `above` others and regions.
  LogicalResult visit(transform::NamedSequenceOp sequence, unsigned above) {
    auto deep = [&](Operation *op) -> LogicalResult {
      return op->emitError() << "sequences and loops are more than " << kDeepest << " deep within one another";
    };
    if (auto known = extents.find(sequence); known != extents.end())
      return above + known->second.height > kDeepest ? deep(sequence) : success();
    if (above > kDeepest)
      return deep(sequence);
    Extent extent;
    const WalkResult result = sequence->walk([&](Operation *op) {
      unsigned depth = 0;
      for (Operation *parent = op; parent != sequence; parent = parent->getParentOp())
        ++depth;
      extent.height = std::max(extent.height, depth);
      ++extent.steps;
      if (above + depth > kDeepest)
        return WalkResult(deep(op));
      for (NamedAttribute attribute : op->getAttrs()) {
        SmallVector<SymbolRefAttr> called;
        attribute.getValue().walk([&](SymbolRefAttr symbol) { called.push_back(symbol); });
        for (SymbolRefAttr symbol : called)
          if (auto callee = symbols.lookup<transform::NamedSequenceOp>(symbol.getRootReference())) {
            if (failed(visit(callee, above + depth)))
              return WalkResult::interrupt();
            const Extent inner = extents.lookup(callee);
            extent.height = std::max(extent.height, depth + inner.height);
            extent.steps += inner.steps;
          }
      }
      if (extent.steps > kMostSteps)
        return WalkResult(op->emitError() << "too many steps: the schedule file takes more than " << kMostSteps);
      return WalkResult::advance();
    });
    extents[sequence] = extent;
    return failure(result.wasInterrupted());
  }

  SymbolTable symbols;
  DenseMap<Operation *, Extent> extents;
};

llvm::Error errorFrom(const pipeline::DiagnosticText &text, const char *otherwise) {
  return llvm::createStringError("%s", text.str().empty() ? otherwise : text.str().c_str());
}
} // namespace

bool directives::isScheduleFile(llvm::StringRef name) { return name.ends_with(".mlir"); }

llvm::Expected<ScheduleFile> directives::readScheduleFile(MLIRContext &context, const std::string &path) {
  DialectRegistry registry;
  registry.insert<transform::TransformDialect>();
  func::registerTransformDialectExtension(registry);
  linalg::registerTransformDialectExtension(registry);
  scf::registerTransformDialectExtension(registry);
  tensor::registerTransformDialectExtension(registry);
  registerDirectives(registry);
  context.appendDialectRegistry(registry);

  ScheduleFile file;
  llvm::Expected<OwningOpRef<ModuleOp>> module = pipeline::readText(context, path, files::kMostTextBytes, [](ModuleOp text) {
    return success(succeeded(checkOps(text)) && succeeded(CallCheck(text).run(text)));
  });
  if (!module)
    return module.takeError();
  file.module = std::move(*module);
  pipeline::DiagnosticText text(&context, /*isTheUsers=*/true);
  constexpr StringRef kEntry = transform::TransformDialect::kTransformEntryPointSymbolName;
  auto entry = file.module->lookupSymbol<transform::NamedSequenceOp>(kEntry);
  if (!entry || entry.isExternal() || entry.getNumArguments() != 1) {
    (entry ? entry.emitError() : file.module->emitError())
        << "a schedule file needs a transform.named_sequence @" << kEntry << " with a body and one argument, the model";
    return errorFrom(text, "");
  }
  if (Attribute base = (*file.module)->getAttr(accel::kBaseAttr)) {
    auto name = dyn_cast<StringAttr>(base);
    std::optional<accel::Schedule> schedule = name ? accel::scheduleNamed(name.str()) : std::nullopt;
    if (!schedule) {
      file.module->emitError() << accel::kBaseAttr << " is " << base << " but must be "
                               << accel::alternatives(accel::kScheduleNames);
      return errorFrom(text, "");
    }
    file.base = *schedule;
  }
  auto choose = [&](llvm::StringRef attribute, llvm::ArrayRef<const char *> names, auto &choice) {
    Attribute given = (*file.module)->getAttr(attribute);
    if (!given)
      return success();
    auto name = dyn_cast<StringAttr>(given);
    auto known = name ? llvm::find(names, name.getValue()) : names.end();
    if (known == names.end())
      return LogicalResult(file.module->emitError()
                           << attribute << " is " << given << " but must be " << accel::alternatives(names));
    if (file.base != accel::Schedule::Pipelined && file.base != accel::Schedule::Search)
      return LogicalResult(file.module->emitError() << attribute << " is " << given << " but the base is " << nameOf(file.base)
                                                    << ", and only pipelined and search have one");
    choice.emplace(std::decay_t<decltype(*choice)>(known - names.begin()));
    return success();
  };
  LogicalResult chosen = success();
  llvm::SmallVector<llvm::StringRef> known{accel::kBaseAttr};
  accel::forEachWay([&](llvm::StringRef attribute, llvm::ArrayRef<const char *> names, auto member) {
    known.push_back(attribute);
    if (succeeded(chosen))
      chosen = choose(attribute, names, file.ways.*member);
  });
  for (NamedAttribute attribute : (*file.module)->getAttrs())
    if (llvm::StringRef name = attribute.getName();
        succeeded(chosen) && name.starts_with("tilewright.") && !llvm::is_contained(known, name))
      chosen = file.module->emitError() << "the module has no attribute " << name << ": expected " << llvm::join(known, ", ");
  if (failed(chosen))
    return errorFrom(text, "");
  insertSteps(*file.module);
  return file;
}

llvm::Error directives::applyScheduleFile(ModuleOp model, const ScheduleFile &file) {
  pipeline::DiagnosticText text(model.getContext(), /*isTheUsers=*/true);
  ModuleOp module = *file.module;
  auto entry = module.lookupSymbol<transform::NamedSequenceOp>(transform::TransformDialect::kTransformEntryPointSymbolName);
  if (failed(transform::applyTransformNamedSequence(model, entry, module, transform::TransformOptions())))
    return errorFrom(text, "internal: the schedule file was not applied, without a reason");
  if (failed(verify(model)))
    return errorFrom(text, "internal: the schedule file made the model invalid, without a reason");
  return llvm::Error::success();
}
