//===- OffloadCheck.cpp - Where a network would run -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/OffloadCheck.h"
#include "compiler/frontend/OnnxImport.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/transforms/KernelTarget.h"
#include "compiler/pipeline/Target.h"
#include "runtime/GraphMacs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

#include <algorithm>
#include <map>

using namespace tw;
using namespace tw::runtime;

uint64_t OffloadCheck::macs(const std::string &target) const {
  uint64_t sum = 0;
  for (const Kernel &kernel : kernels)
    if (target.empty() || kernel.target == target)
      sum += kernel.macs;
  return sum;
}

static uint64_t bytesOf(mlir::Value value) {
  auto type = llvm::cast<mlir::RankedTensorType>(value.getType());
  return uint64_t(type.getNumElements()) * llvm::divideCeil(type.getElementType().getIntOrFloatBitWidth(), 8);
}

namespace {

/// What execution passes from and to, in the order of calls.
class Crossings {
public:
  explicit Crossings(OffloadCheck &check) : check(check) {}

  void step(bool isHost) {
    check.crossings += last && *last != isHost;
    last = isHost;
  }
  void read(mlir::Value value, bool isHost) {
    while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
      value = reshape->getOperand(0);
    auto maker = makers.find(value.getDefiningOp());
    if (value.getDefiningOp() && maker != makers.end() && maker->second != isHost && moved.insert(value).second)
      check.crossingBytes += bytesOf(value);
  }
  void make(mlir::Operation *call, bool isHost) { makers[call] = isHost; }

private:
  OffloadCheck &check;
  std::optional<bool> last;
  llvm::DenseMap<mlir::Operation *, bool> makers;
  llvm::DenseSet<mlir::Value> moved;
};

} // namespace

void runtime::addKernels(OffloadCheck &check, mlir::ModuleOp module, const std::vector<Offload> &late,
                         const std::vector<std::string> &lateReads) {
  llvm::DenseMap<mlir::StringAttr, mlir::func::FuncOp> functions;
  for (auto function : module.getOps<mlir::func::FuncOp>())
    functions[function.getSymNameAttr()] = function;
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  std::vector<Offload> places;
  std::map<std::string, std::vector<std::string>> kernelsOf; // by node
  Crossings crossings(check);
  for (auto call : main.getBody().front().getOps<mlir::func::CallOp>()) {
    mlir::func::FuncOp function = functions.lookup(call.getCalleeAttr().getAttr());
    auto named = function ? function->getAttrOfType<mlir::StringAttr>(graph::kTargetAttr) : mlir::StringAttr();
    const pipeline::Target *target = named ? pipeline::targetNamed(named.getValue()) : nullptr;
    if (!target)
      continue;
    OffloadCheck::Kernel kernel;
    kernel.name = call.getCallee().str();
    kernel.target = target->title().str();
    if (auto reason = function->getAttrOfType<mlir::StringAttr>(graph::kReasonAttr))
      kernel.reason = reason.getValue().str();
    if (auto nodes = function->getAttrOfType<mlir::ArrayAttr>(graph::kNodesAttr))
      for (auto node : nodes.getAsRange<mlir::StringAttr>())
        kernel.nodes.push_back(node.getValue().str());
    kernel.macs = countMacs(function);
    kernel.isEvaluated = !function.getOps<graph::FallbackOp>().empty();
    for (const std::string &node : kernel.nodes) {
      places.push_back({node, kernel.target, kernel.reason.empty() ? "kernel " + kernel.name : kernel.reason});
      kernelsOf[node].push_back(kernel.name);
    }
    const bool isHost = !target->compilesNetworks();
    crossings.step(isHost);
    for (mlir::Value operand : call.getOperands())
      crossings.read(operand, isHost);
    crossings.make(call, isHost);
    check.kernels.push_back(std::move(kernel));
  }
  check.lateNodes = late.size();
  places.insert(places.end(), late.begin(), late.end());
  if (!late.empty()) {
    crossings.step(/*isHost=*/true);
    for (auto [i, value] : llvm::enumerate(main.getBody().front().getTerminator()->getOperands())) {
      auto name = main.getResultAttrOfType<mlir::StringAttr>(unsigned(i), graph::kNameAttr);
      if (name && std::find(lateReads.begin(), lateReads.end(), name.getValue().str()) != lateReads.end())
        crossings.read(value, /*isHost=*/true);
    }
  }
  std::vector<std::string> names;
  for (const OffloadCheck::Node &node : check.nodes)
    names.push_back(node.name);
  const std::vector<Offload> report = nodeReport(names, places, check.targets);
  check.nodes.resize(report.size()); // a model that is no ONNX file has no list
  for (size_t i = 0; i < report.size(); ++i) {
    check.nodes[i].name = report[i].node;
    check.nodes[i].place = report[i];
    if (auto kernels = kernelsOf.find(report[i].node); kernels != kernelsOf.end())
      check.nodes[i].kernels = kernels->second;
  }
}

std::vector<OperatorSupport> runtime::operatorSupport() {
  std::vector<OperatorSupport> support;
  for (const frontend::ImportedOperator &op : frontend::importedOperators()) {
    const size_t colon = op.name.find(':');
    const std::string domain = op.name.substr(0, colon), type = op.name.substr(colon + 1);
    support.push_back({domain.empty() ? "ai.onnx" : domain, type, op.isKernel,
                       operators::fusionTypeOf(domain, type).value_or(operators::FusionType())});
  }
  std::sort(support.begin(), support.end(),
            [](const auto &a, const auto &b) { return std::tie(a.domain, a.type) < std::tie(b.domain, b.type); });
  return support;
}
