//===- PlanFile.cpp - Schedules as files -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/plan/PlanFile.h"

#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/text/Diagnostics.h"
#include "compiler/text/ReadText.h"
#include "isa/files/InputFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace tw;
using namespace tw::plan;

namespace {
/// Kernels times names of a file that are compared at most: a short file cannot keep the compiler busy for long.
constexpr size_t kMostComparisons = size_t(1) << 22;

/// The kernels of a model by their names and by the ONNX nodes in them.
class KernelNames {
public:
  explicit KernelNames(ModuleOp model) {
    model.walk([&](func::FuncOp kernel) {
      if (!kernel->hasAttr(graph::kTargetAttr))
        return;
      add(kernel.getName(), kernel, kernels);
      if (auto names = kernel->getAttrOfType<ArrayAttr>(graph::kNodesAttr))
        for (Attribute name : names)
          if (auto text = dyn_cast<StringAttr>(name))
            add(text.getValue(), kernel, nodes);
    });
  }

  /// The kernels that `name` stands for: that kernel, else those with that node, else all that match it as a pattern. None: an error at `op`.
  FailureOr<SmallVector<func::FuncOp>> find(KernelOp op) {
    const StringRef name = op.getName();
    for (const auto *map : {&kernels, &nodes})
      if (auto found = map->find(name); found != map->end())
        return SmallVector<func::FuncOp>(found->second);
    llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(name);
    if (!pattern)
      return op.emitOpError() << "'" << name << "': " << llvm::toString(pattern.takeError());
    if ((comparisons += all.size()) > kMostComparisons)
      return op.emitOpError() << "the file has too many patterns: more than " << kMostComparisons << " comparisons with names";
    SmallVector<func::FuncOp> found;
    for (const auto &[known, kernel] : all)
      if (pattern->match(known) && !llvm::is_contained(found, kernel))
        found.push_back(kernel);
    if (!found.empty())
      return found;
    InFlightDiagnostic error = op.emitOpError() << "no kernel is named '" << name << "' or has a node of that name";
    if (const std::string *nearest = nearestTo(name))
      error << "; the nearest is '" << *nearest << "'";
    return error;
  }

private:
  llvm::StringMap<SmallVector<func::FuncOp>> kernels, nodes;
  std::vector<std::pair<std::string, func::FuncOp>> all;
  size_t comparisons = 0;

  void add(StringRef name, func::FuncOp kernel, llvm::StringMap<SmallVector<func::FuncOp>> &map) {
    SmallVector<func::FuncOp> &same = map[name];
    if (!llvm::is_contained(same, kernel))
      same.push_back(kernel);
    all.push_back({name.str(), kernel});
  }

  const std::string *nearestTo(StringRef name) const {
    const std::string *nearest = nullptr;
    unsigned distance = UINT_MAX;
    for (const auto &[known, kernel] : all)
      if (unsigned d = name.edit_distance(known, /*AllowReplacements=*/true, /*MaxEditDistance=*/64); d < distance) {
        distance = d;
        nearest = &known;
      }
    return nearest;
  }
};

/// Adds the knobs of `op` to what earlier ops say of the kernel.
LogicalResult apply(KernelOp op, func::FuncOp kernel) {
  if (!graph::isFor(kernel, graph::kAccelTarget)) {
    auto reason = kernel->getAttrOfType<StringAttr>(graph::kReasonAttr);
    return op.emitOpError() << "kernel '" << kernel.getName() << "' is for target "
                            << kernel->getAttrOfType<StringAttr>(graph::kTargetAttr)
                            << (reason ? ": " + reason.getValue() : "");
  }
  NamedAttrList knobs, places;
  if (auto before = kernel->getAttrOfType<DictionaryAttr>(kPlanAttr))
    knobs.append(before.getValue());
  if (auto before = kernel->getAttrOfType<DictionaryAttr>(kPlacesAttr))
    places.append(before.getValue());
  for (NamedAttribute knob : op->getAttrs())
    if (knob.getName() != op.getNameAttrName()) {
      knobs.set(knob.getName(), knob.getValue());
      places.set(knob.getName(), LocationAttr(op.getLoc()));
    }
  const DictionaryAttr plan = knobs.getDictionary(op.getContext());
  // Knobs of two ops may not go together.
  if (failed(parseKernelPlan(plan, [&] { return op.emitOpError(); })))
    return failure();
  kernel->setAttr(kPlanAttr, plan);
  kernel->setAttr(kPlacesAttr, places.getDictionary(op.getContext()));
  return success();
}

llvm::Error errorFrom(const text::DiagnosticText &text) { return llvm::createStringError("%s", text.str().c_str()); }
} // namespace

bool plan::isPlanFile(llvm::StringRef name) { return name.ends_with(".mlir"); }

llvm::Expected<PlanFile> plan::readPlanFile(MLIRContext &context, const std::string &path) {
  DialectRegistry registry;
  registry.insert<PlanDialect>();
  context.appendDialectRegistry(registry);
  PlanFile file;
  llvm::Expected<OwningOpRef<ModuleOp>> module = text::readText(context, path, files::kMostTextBytes);
  if (!module)
    return module.takeError();
  file.module = std::move(*module);
  text::DiagnosticText text(&context, /*isTheUsers=*/true);
  NetworkOp network;
  for (Operation &op : file.module->getBodyRegion().front()) {
    if (network || !mlir::isa<NetworkOp>(op)) {
      op.emitError() << "a plan file has one plan.network op and no other";
      return errorFrom(text);
    }
    network = cast<NetworkOp>(op);
  }
  if (!network) {
    file.module->emitError() << "a plan file needs a plan.network op";
    return errorFrom(text);
  }
  if (auto name = network->getAttrOfType<StringAttr>("schedule"))
    file.schedule = *scheduleNamed(name.str());
  file.graph = graphPlanOf(network);
  if (auto place = network.getLoc()->findInstanceOf<FileLineColLoc>())
    file.graph.place =
        (place.getFilename().getValue() + ":" + Twine(place.getLine()) + ":" + Twine(place.getColumn()) + ": ").str();
  file.network = *parseNetworkKnobs(networkKnobsOf(network), [&] { return network.emitOpError(); });
  return file;
}

llvm::Error plan::applyPlanFile(ModuleOp model, const PlanFile &file) {
  text::DiagnosticText text(model.getContext(), /*isTheUsers=*/true);
  KernelNames names(model);
  plan::NetworkOp network = *(*file.module).getOps<plan::NetworkOp>().begin();
  for (KernelOp op : network.getKernels().getOps<KernelOp>()) {
    FailureOr<SmallVector<func::FuncOp>> kernels = names.find(op);
    if (failed(kernels))
      return errorFrom(text);
    for (func::FuncOp kernel : *kernels)
      if (failed(apply(op, kernel)))
        return errorFrom(text);
  }
  return llvm::Error::success();
}

std::string plan::print(const GraphPlan &plan) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (plan.order)
    os << kOrderAttr << " = \"" << kKernelOrderNames[size_t(*plan.order)] << "\"";
  if (plan.kernelsBeginAt.empty())
    return text;
  os << (text.empty() ? "" : ", ") << kKernelsBeginAtAttr << " = [";
  for (const std::string &node : plan.kernelsBeginAt) {
    os << (&node == &plan.kernelsBeginAt.front() ? "\"" : ", \"");
    llvm::printEscapedString(node, os);
    os << "\"";
  }
  os << "]";
  return text;
}

std::string plan::printPlanFile(Schedule schedule, const GraphPlan &graph, const NetworkKnobs &network,
                                llvm::ArrayRef<std::pair<std::string, KernelPlan>> kernels) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "plan.network attributes {schedule = \"" << nameOf(schedule) << "\"";
  for (const std::string &knobs : {print(graph), print(network)})
    os << (knobs.empty() ? "" : ", ") << knobs;
  os << "} {\n";
  for (const auto &[name, kernel] : kernels) {
    const std::string own = print(kernel);
    if (own.empty())
      continue;
    os << "  plan.kernel \"";
    llvm::printEscapedString(name, os);
    os << "\" {" << own << "}\n";
  }
  os << "}\n";
  return text;
}
