//===- Directives.cpp - Ops of schedule files ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/directives/Directives.h"

#include "compiler/codegen/accel/Request.h"
#include "compiler/graph/transforms/Pipeline.h"

#include "mlir/Dialect/Transform/IR/TransformOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace tw;
using namespace tw::directives;

namespace {
std::vector<StringRef> nodesOf(func::FuncOp kernel) {
  std::vector<StringRef> nodes;
  if (auto names = kernel->getAttrOfType<ArrayAttr>(graph::kNodesAttr))
    for (Attribute name : names)
      if (auto text = dyn_cast<StringAttr>(name))
        nodes.push_back(text.getValue());
  return nodes;
}

void addEffects(Operation *op, SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(op->getOpOperands(), effects);
  transform::modifiesPayload(effects);
}

LogicalResult verifyDirective(Operation *op) {
  for (NamedAttribute other : op->getDiscardableAttrs()) {
    std::vector<const char *> keys;
    for (StringAttr name : op->getName().getRegisteredInfo()->getAttributeNames())
      keys.push_back(name.data());
    return op->emitOpError() << "has no '" << other.getName().getValue() << "', only " << accel::alternatives(keys);
  }
  if (op->getAttrs().empty())
    return op->emitOpError() << "asks for nothing";
  return accel::parseRequest(op->getAttrDictionary(), [&] { return op->emitOpError(); });
}

/// Adds the keys of `directive` to what was said about the kernel before.
DiagnosedSilenceableFailure applyDirective(Operation *directive, Operation *target) {
  auto kernel = dyn_cast<func::FuncOp>(target);
  auto where = kernel ? kernel->getAttrOfType<StringAttr>(graph::kTargetAttr) : StringAttr();
  if (!where)
    return emitDefiniteFailure(directive) << "applies to kernel functions, as match_node finds them, not to '"
                                          << target->getName() << "'";
  if (!graph::isFor(kernel, graph::kAccelTarget)) {
    auto reason = kernel->getAttrOfType<StringAttr>(graph::kReasonAttr);
    return emitDefiniteFailure(directive) << "kernel '" << kernel.getName() << "' is for target " << where
                                          << (reason ? ": " + reason.getValue() : "");
  }
  NamedAttrList keys;
  if (auto before = kernel->getAttrOfType<DictionaryAttr>(accel::kRequestAttr))
    keys.append(before.getValue());
  for (NamedAttribute key : directive->getAttrs())
    keys.set(key.getName(), key.getValue());
  StringRef mnemonic = directive->getName().getStringRef().rsplit('.').second;
  keys.set((mnemonic + "_at").str(), LocationAttr(directive->getLoc()));
  const DictionaryAttr request = keys.getDictionary(kernel.getContext());
  // Keys of two directives may not go together.
  if (failed(accel::parseRequest(request, [&] { return directive->emitOpError(); })))
    return DiagnosedSilenceableFailure::definiteFailure();
  kernel->setAttr(accel::kRequestAttr, request);
  return DiagnosedSilenceableFailure::success();
}
} // namespace

DiagnosedSilenceableFailure MatchNodeOp::apply(transform::TransformRewriter &, transform::TransformResults &results,
                                               transform::TransformState &state) {
  StringRef name = getName();
  SmallVector<Operation *> kernels, holders, matches;
  llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(name);
  if (!pattern)
    return emitDefiniteFailure() << "'" << name << "': " << llvm::toString(pattern.takeError());
  state.getTopLevel()->walk([&](func::FuncOp kernel) {
    if (!kernel->hasAttr(graph::kTargetAttr))
      return;
    std::vector<StringRef> names = nodesOf(kernel);
    if (llvm::is_contained(names, name))
      holders.push_back(kernel);
    if (kernel.getName() == name)
      kernels.push_back(kernel);
    names.push_back(kernel.getName());
    if (llvm::any_of(names, [&](StringRef n) { return pattern->match(n); }))
      matches.push_back(kernel);
  });
  SmallVector<Operation *> &found = !kernels.empty() ? kernels : !holders.empty() ? holders : matches;
  if (found.empty()) {
    StringRef nearest;
    unsigned distance = UINT_MAX;
    state.getTopLevel()->walk([&](func::FuncOp kernel) {
      if (!kernel->hasAttr(graph::kTargetAttr))
        return;
      std::vector<StringRef> names = nodesOf(kernel);
      names.push_back(kernel.getName());
      for (StringRef known : names)
        if (unsigned d = name.edit_distance(known, /*AllowReplacements=*/true, /*MaxEditDistance=*/64); d < distance) {
          distance = d;
          nearest = known;
        }
    });
    DiagnosedDefiniteFailure failure = emitDefiniteFailure()
                                       << "no kernel is named '" << name << "' or has a node of that name";
    if (!nearest.empty())
      failure << "; the nearest is '" << nearest << "'";
    return failure;
  }
  results.set(cast<OpResult>(getKernels()), found);
  return DiagnosedSilenceableFailure::success();
}

void MatchNodeOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::producesHandle(getOperation()->getOpResults(), effects);
  transform::onlyReadsPayload(effects);
}

/// A search looks at so many kernels in a step, and text that is printed is worth so many.
constexpr uint64_t kKernelsPerStep = 100, kStepsPerPrint = 1000;

namespace tw::directives {
/// The steps of one application of a schedule file.
class Steps : public transform::TransformState::Extension {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Steps)
  explicit Steps(transform::TransformState &state) : Extension(state) {}
  uint64_t taken = 0;
};
} // namespace tw::directives

DiagnosedSilenceableFailure StepOp::apply(transform::TransformRewriter &, transform::TransformResults &,
                                          transform::TransformState &state) {
  Steps *steps = state.getExtension<Steps>();
  if (!steps)
    steps = &state.addExtension<Steps>();
  ++steps->taken;
  for (Value handle : getHandles())
    if (mlir::isa<transform::TransformHandleTypeInterface>(handle.getType()))
      steps->taken += llvm::range_size(state.getPayloadOps(handle));
  const StringRef counted = getOperation()->getNextNode()->getName().getStringRef();
  if (counted.contains("match"))
    steps->taken += llvm::range_size(state.getTopLevel()->getRegion(0).getOps()) / kKernelsPerStep;
  else if (counted == "transform.print")
    steps->taken += kStepsPerPrint;
  if (steps->taken > kMostSteps)
    return emitDefiniteFailure() << "too many steps: the schedule file takes more than " << kMostSteps;
  return DiagnosedSilenceableFailure::success();
}

void StepOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  transform::onlyReadsHandle(getOperation()->getOpOperands(), effects);
  transform::onlyReadsPayload(effects);
}

void directives::insertSteps(Operation *root) {
  SmallVector<Operation *> counted;
  root->walk([&](Operation *op) {
    if (mlir::isa<transform::TransformOpInterface>(op) && !mlir::isa<transform::NamedSequenceOp>(op))
      counted.push_back(op);
  });
  for (Operation *op : counted) {
    SmallVector<Value> handles;
    for (Value operand : op->getOperands())
      if (mlir::isa<transform::TransformHandleTypeInterface, transform::TransformParamTypeInterface>(operand.getType()))
        handles.push_back(operand);
    OpBuilder(op).create<StepOp>(op->getLoc(), handles);
  }
}

#define TW_DIRECTIVE(OP)                                                                                                       \
  LogicalResult OP::verify() { return verifyDirective(*this); }                                                                \
  void OP::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) { addEffects(*this, effects); }                 \
  DiagnosedSilenceableFailure OP::applyToOne(transform::TransformRewriter &, Operation *kernel,                                \
                                             transform::ApplyToEachResultList &, transform::TransformState &) {                \
    return applyDirective(*this, kernel);                                                                                      \
  }
TW_DIRECTIVE(TileOp)
TW_DIRECTIVE(BuffersOp)
TW_DIRECTIVE(KeepOp)
TW_DIRECTIVE(AssignOp)
#undef TW_DIRECTIVE

#ifndef NDEBUG
// Debian's MLIR is built without assertions and lacks this check, which its headers want where assertions are on.
void mlir::transform::detail::checkImplementsTransformOpInterface(StringRef, MLIRContext *) {}
#endif

namespace {
class Directives : public transform::TransformDialectExtension<Directives> {
public:
  using Base::Base;
  void init() {
    declareDependentDialect<func::FuncDialect>();
    registerTransformOps<
#define GET_OP_LIST
#include "compiler/directives/Directives.cpp.inc"
        >();
  }
};
} // namespace

void directives::registerDirectives(DialectRegistry &registry) { registry.addExtensions<Directives>(); }

#define GET_OP_CLASSES
#include "compiler/directives/Directives.cpp.inc"
