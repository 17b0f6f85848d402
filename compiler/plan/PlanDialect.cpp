//===- PlanDialect.cpp - Plans as MLIR -------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/plan/PlanDialect.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

#include <climits>

using namespace mlir;
using namespace tw;
using namespace tw::plan;

#include "compiler/plan/PlanOpsDialect.cpp.inc"

void PlanDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "compiler/plan/PlanOps.cpp.inc"
      >();
}

namespace {
std::optional<int64_t> number(Attribute value, int64_t least) {
  auto integer = dyn_cast<IntegerAttr>(value);
  if (!integer || !integer.getType().isInteger(64) || integer.getInt() < least || integer.getInt() > INT_MAX)
    return std::nullopt;
  return integer.getInt();
}

/// `count` numbers of at least `least`.
std::optional<SmallVector<int64_t>> numbers(Attribute value, size_t count, int64_t least) {
  auto list = dyn_cast<ArrayAttr>(value);
  if (!list || list.size() != count)
    return std::nullopt;
  SmallVector<int64_t> result;
  for (Attribute element : list)
    if (std::optional<int64_t> one = number(element, least))
      result.push_back(*one);
    else
      return std::nullopt;
  return result;
}

// read(): whether the attribute is a value of the knob, which then is in `result`.

bool read(const KnobInfo &, Attribute value, std::optional<bool> &result) {
  auto boolean = dyn_cast<BoolAttr>(value);
  if (boolean)
    result = boolean.getValue();
  return bool(boolean);
}

bool read(const KnobInfo &, Attribute value, int64_t &result) {
  std::optional<int64_t> count = number(value, 1);
  result = count.value_or(0);
  return count.has_value();
}

bool read(const KnobInfo &, Attribute value, std::optional<int64_t> &result) {
  result = number(value, 0);
  return result.has_value();
}

bool read(const KnobInfo &, Attribute value, Sizes &result) {
  std::optional<SmallVector<int64_t>> sizes = numbers(value, result.size(), 0);
  if (sizes)
    llvm::copy(*sizes, result.begin());
  return sizes.has_value();
}

bool read(const KnobInfo &, Attribute value, std::optional<Banks> &result) {
  std::optional<SmallVector<int64_t>> range = numbers(value, 2, 0);
  if (!range || (*range)[0] >= (*range)[1])
    return false;
  result = Banks{(*range)[0], (*range)[1]};
  return true;
}

bool read(const KnobInfo &, Attribute value, std::optional<Split> &result) {
  std::optional<SmallVector<int64_t>> split = numbers(value, 2, 1);
  if (split)
    result = Split{(*split)[0], (*split)[1]};
  return split.has_value();
}

template <typename T, std::enable_if_t<std::is_enum_v<T>, int> = 0>
bool read(const KnobInfo &info, Attribute value, std::optional<T> &result) {
  auto text = dyn_cast<StringAttr>(value);
  for (auto [i, spelling] : llvm::enumerate(info.spellings))
    if (text && text.getValue() == spelling)
      result = T(i);
  return result.has_value();
}

std::string textOf(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  attribute.print(stream, /*elideType=*/true);
  return text;
}

template <typename Plan>
LogicalResult readKnobs(DictionaryAttr knobs, llvm::function_ref<InFlightDiagnostic()> emitError, Plan &plan) {
  for (NamedAttribute knob : knobs) {
    const StringRef name = knob.getName().getValue();
    bool isKnown = false;
    LogicalResult result = success();
    Plan::forEachKnob([&](const KnobInfo &info, auto member) {
      if (name != info.name)
        return;
      isKnown = true;
      if (!read(info, knob.getValue(), plan.*member))
        result = emitError() << "'" << name << "' is " << textOf(knob.getValue()) << " but must be " << info.allowed;
    });
    if (!isKnown) {
      std::vector<StringRef> names;
      for (const KnobInfo &info : Plan::knobs())
        names.push_back(info.name);
      return emitError() << "unknown knob '" << name << "', expected one of " << llvm::join(names, ", ");
    }
    if (failed(result))
      return failure();
  }
  return success();
}

} // namespace

DictionaryAttr plan::networkKnobsOf(NetworkOp op) {
  NamedAttrList knobs(op->getAttrs());
  for (StringRef name : {StringRef("schedule"), StringRef(kOrderAttr), StringRef(kKernelsBeginAtAttr)})
    knobs.erase(name);
  return knobs.getDictionary(op.getContext());
}

GraphPlan plan::graphPlanOf(NetworkOp op) {
  GraphPlan plan;
  if (auto order = op->getAttrOfType<StringAttr>(kOrderAttr))
    for (auto [i, name] : llvm::enumerate(kKernelOrderNames))
      if (order.getValue() == name)
        plan.order = KernelOrder(i);
  if (auto nodes = op->getAttrOfType<ArrayAttr>(kKernelsBeginAtAttr))
    for (auto node : nodes.getAsRange<StringAttr>())
      plan.kernelsBeginAt.push_back(node.str());
  return plan;
}

FailureOr<KernelPlan> plan::parseKernelPlan(DictionaryAttr knobs, llvm::function_ref<InFlightDiagnostic()> emitError) {
  KernelPlan plan;
  if (failed(readKnobs(knobs, emitError, plan)))
    return failure();
  const bool isOnChip = plan.onChip.value_or(false);
  const char *where = plan.rowTile ? "there is a row_tile" : "on_chip is not true";
  if (plan.rowTile && !isOnChip)
    return emitError() << "'row_tile' is " << plan.rowTile << " but on_chip is not true";
  if (plan.onChipFrom && (!isOnChip || plan.rowTile))
    return emitError() << "'on_chip_from' is " << plan.onChipFrom << " but " << where;
  if (plan.placedFirst.value_or(false) && (!isOnChip || plan.rowTile))
    return emitError() << "'placed_first' is true but " << where;
  return plan;
}

FailureOr<NetworkKnobs> plan::parseNetworkKnobs(DictionaryAttr knobs, llvm::function_ref<InFlightDiagnostic()> emitError) {
  NetworkKnobs result;
  if (failed(readKnobs(knobs, emitError, result)))
    return failure();
  return result;
}

FailureOr<KernelPlan> plan::planOf(func::FuncOp function) {
  Attribute attribute = function->getAttr(kPlanAttr);
  if (!attribute)
    return KernelPlan();
  auto knobs = dyn_cast<DictionaryAttr>(attribute);
  if (!knobs)
    return function.emitError() << "'" << kPlanAttr << "' is " << textOf(attribute) << " but must be a dictionary";
  FailureOr<KernelPlan> plan = parseKernelPlan(knobs, [&] { return function.emitError() << "in '" << kPlanAttr << "': "; });
  auto locations = function->getAttrOfType<DictionaryAttr>(kPlacesAttr);
  if (failed(plan) || !locations)
    return plan;
  auto places = std::make_shared<KnobPlaces>();
  for (NamedAttribute location : locations)
    if (auto loc = dyn_cast<LocationAttr>(location.getValue()))
      if (auto place = Location(loc)->findInstanceOf<FileLineColLoc>())
        (*places)[location.getName().str()] =
            (place.getFilename().getValue() + ":" + Twine(place.getLine()) + ":" + Twine(place.getColumn())).str();
  plan->places = std::move(places);
  return plan;
}

LogicalResult NetworkOp::verify() {
  if (Attribute given = (*this)->getAttr("schedule")) {
    auto name = dyn_cast<StringAttr>(given);
    std::optional<Schedule> schedule = name ? scheduleNamed(name.str()) : std::nullopt;
    if (!schedule)
      return emitOpError() << "'schedule' is " << textOf(given) << " but must be serial, double_buffer, pipelined or search";
    if (DictionaryAttr knobs = networkKnobsOf(*this); !overlapsKernels(*schedule) && !knobs.empty())
      return emitOpError() << "'" << knobs.begin()->getName().getValue() << "' is " << textOf(knobs.begin()->getValue())
                           << " but the schedule is " << nameOf(*schedule)
                           << ", and only pipelined and search have network knobs";
  }
  if (Attribute given = (*this)->getAttr(kOrderAttr)) {
    auto name = dyn_cast<StringAttr>(given);
    if (!name || !llvm::is_contained(kKernelOrderNames, name.getValue()))
      return emitOpError() << "'" << kOrderAttr << "' is " << textOf(given) << " but must be " << kKernelOrderNames[0] << " or "
                           << kKernelOrderNames[1];
  }
  if (Attribute given = (*this)->getAttr(kKernelsBeginAtAttr)) {
    auto nodes = dyn_cast<ArrayAttr>(given);
    if (!nodes || !llvm::all_of(nodes, [](Attribute node) { return mlir::isa<StringAttr>(node); }))
      return emitOpError() << "'" << kKernelsBeginAtAttr << "' is " << textOf(given) << " but must be a list of names of nodes";
  }
  for (Operation &op : getKernels().front())
    if (!mlir::isa<KernelOp>(op))
      return op.emitError() << "a plan has plan.kernel ops and no others";
  return parseNetworkKnobs(networkKnobsOf(*this), [&] { return emitOpError(); });
}

LogicalResult KernelOp::verify() {
  NamedAttrList knobs((*this)->getAttrs());
  knobs.erase(getNameAttrName());
  if (knobs.empty())
    return emitOpError() << "sets no knob";
  return parseKernelPlan(knobs.getDictionary(getContext()), [&] { return emitOpError(); });
}

#define GET_OP_CLASSES
#include "compiler/plan/PlanOps.cpp.inc"
