//===- FusionPlan.cpp - Which ops share a kernel, and what that saves -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/pipeline/FusionPlan.h"

#include "compiler/graph/FusionTypes.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/graph/transforms/Rewriting.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <set>

using namespace mlir;
using namespace tw;
using namespace tw::pipeline;
using operators::Mapping;

namespace {
uint64_t bytesOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return uint64_t(type.getNumElements()) * llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

bool isConstant(Value value) { return bool(value.getDefiningOp<graph::ConstantOp>()); }

Value rootOf(Value value) {
  while (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
    value = reshape.getX();
  return value;
}

class Description {
public:
  Description(ModuleOp module, const std::map<std::string, plan::KernelPlan> &plans)
      : symbols(module), body(module.lookupSymbol<func::FuncOp>("main").getBody().front()), plans(plans) {}

  FusionPlan run() {
    for (auto call : body.getOps<func::CallOp>())
      addKernel(call, symbols.lookup<func::FuncOp>(call.getCallee()));
    addSums();
    return std::move(plan);
  }

private:
  /// An op of the network with the values that it reads, across the borders of kernels; constants apart.
  struct NetworkOp {
    std::vector<unsigned> reads; ///< indices into `values`
    unsigned result = 0;
    uint64_t constantBytes = 0;
    size_t kernel = 0;
    Mapping mapping = Mapping::ManyToMany;
  };
  struct NetworkValue {
    uint64_t bytes = 0;
    std::optional<unsigned> producer; ///< an op
    bool isOutput = false;
  };

  SymbolTable symbols;
  Block &body;
  const std::map<std::string, plan::KernelPlan> &plans;
  FusionPlan plan;
  std::vector<NetworkOp> ops;
  std::vector<NetworkValue> values;
  llvm::DenseMap<Value, unsigned> known; ///< indices of values of @main, and of the kernel that is looked at

  unsigned number(Value value) {
    const Value root = rootOf(value);
    auto [found, isNew] = known.try_emplace(root, unsigned(values.size()));
    if (isNew)
      values.push_back({bytesOf(root), std::nullopt, false});
    return found->second;
  }

  /// Whether the result of `call` lies in the scratchpad when its readers want it.
  bool isOnChip(Value value) const {
    auto call = rootOf(value).getDefiningOp<func::CallOp>();
    auto known = call ? plans.find(call.getCallee().str()) : plans.end();
    return known != plans.end() && known->second.onChip.value_or(false);
  }

  void addKernel(func::CallOp call, func::FuncOp function) {
    FusionPlan::Kernel kernel;
    kernel.name = function.getName().str();
    if (auto target = function->getAttrOfType<StringAttr>(graph::kTargetAttr))
      kernel.target = target.getValue().str();
    if (auto ends = function->getAttrOfType<StringAttr>(graph::kEndsAttr))
      kernel.ends = ends.getValue().str();
    if (auto borders = function->getAttrOfType<ArrayAttr>(graph::kBordersAttr))
      for (StringRef border : borders.getAsValueRange<StringAttr>())
        kernel.borders.push_back(border.str());
    if (auto found = plans.find(kernel.name); found != plans.end()) {
      kernel.isOnChip = found->second.onChip.value_or(false);
      kernel.rowTile = found->second.rowTile;
    }
    std::set<unsigned> seen;
    for (auto [argument, operand] : llvm::zip(function.getArguments(), call.getOperands())) {
      known[argument] = number(operand);
      if (isConstant(rootOf(operand)) || !seen.insert(known[argument]).second)
        continue;
      kernel.dramBytes += bytesOf(operand);
      kernel.savedBytes += isOnChip(operand) ? bytesOf(operand) : 0;
    }
    for (Value result : call.getResults()) {
      kernel.dramBytes += bytesOf(result);
      kernel.savedBytes += isOnChip(result) ? bytesOf(result) : 0;
    }
    for (Operation &op : function.getBody().front()) {
      if (mlir::isa<graph::ConstantOp, graph::ReshapeOp>(op))
        continue;
      if (auto result = dyn_cast<func::ReturnOp>(op)) {
        for (auto [inner, outer] : llvm::zip(result.getOperands(), call.getResults()))
          known[outer] = number(inner);
        continue;
      }
      const std::vector<std::string> nodes = graph::nodeNames(op.getLoc());
      kernel.ops.push_back({op.getName().stripDialect().str(), nodes.empty() ? "" : nodes.front(), graph::fusionTypeOf(&op)});
      NetworkOp entry;
      entry.kernel = plan.kernels.size();
      entry.mapping = kernel.ops.back().type.mapping;
      for (Value operand : op.getOperands()) {
        if (isConstant(rootOf(operand)))
          entry.constantBytes += bytesOf(operand);
        else if (const unsigned value = number(operand); !llvm::is_contained(entry.reads, value))
          entry.reads.push_back(value);
      }
      kernel.dramBytes += entry.constantBytes;
      for (Value result : op.getResults()) {
        entry.result = number(result);
        values[entry.result].producer = unsigned(ops.size());
      }
      ops.push_back(std::move(entry));
    }
    plan.kernels.push_back(std::move(kernel));
  }

  void addSums() {
    for (Value output : body.getTerminator()->getOperands())
      values[number(output)].isOutput = true;
    for (const FusionPlan::Kernel &kernel : plan.kernels) {
      plan.kernelBytes += kernel.dramBytes;
      plan.chosenBytes += kernel.dramBytes - kernel.savedBytes;
    }
    std::vector<unsigned> alone(ops.size());
    for (unsigned op = 0; op < ops.size(); ++op)
      alone[op] = op;
    plan.unfusedBytes = bytesOfBlocks(alone);
    plan.allFusedBytes = bytesOfBlocks(fuseAll());
    plan.leastBytes = bytesOfBlocks(std::vector<unsigned>(ops.size(), 0));
  }

  /// DRAM bytes if the ops of a block are one kernel. `blocks`: per op.
  uint64_t bytesOfBlocks(const std::vector<unsigned> &blocks) const {
    uint64_t bytes = 0;
    std::set<std::pair<unsigned, unsigned>> read; // block and value
    std::set<unsigned> leaving;                   // values
    for (unsigned op = 0; op < ops.size(); ++op) {
      bytes += ops[op].constantBytes;
      for (unsigned value : ops[op].reads) {
        const std::optional<unsigned> producer = values[value].producer;
        if (producer && blocks[*producer] == blocks[op])
          continue;
        bytes += read.insert({blocks[op], value}).second ? values[value].bytes : 0;
        if (producer)
          leaving.insert(value);
      }
    }
    for (unsigned value = 0; value < values.size(); ++value)
      if (values[value].producer && (values[value].isOutput || leaving.count(value)))
        bytes += values[value].bytes;
    return bytes;
  }

  /// The kernels, and with each as many others as mapping types allow: it joins the blocks of what it reads, first come, first served. No block
  /// waits for one that waits for it.
  std::vector<unsigned> fuseAll() const {
    std::vector<unsigned> blocks(ops.size());
    std::vector<Mapping> mappings(ops.size());
    std::vector<std::set<unsigned>> members(ops.size());
    for (unsigned op = 0; op < ops.size(); ++op) {
      const bool isFirst = op == 0 || ops[op].kernel != ops[op - 1].kernel;
      blocks[op] = isFirst ? op : blocks[op - 1];
      mappings[blocks[op]] = isFirst ? ops[op].mapping : operators::fused(mappings[blocks[op]], ops[op].mapping);
      members[blocks[op]].insert(op);
    }
    for (unsigned op = 0; op < ops.size(); ++op)
      for (unsigned value : ops[op].reads) {
        const std::optional<unsigned> producer = values[value].producer;
        if (!producer || blocks[*producer] == blocks[op])
          continue;
        const unsigned from = blocks[*producer], to = blocks[op];
        if (!operators::mayFuse(mappings[from], mappings[to]) || readsThrough(op, members, blocks, from))
          continue;
        mappings[from] = operators::fused(mappings[from], mappings[to]);
        for (unsigned member : members[to]) {
          blocks[member] = from;
          members[from].insert(member);
        }
        members[to].clear();
      }
    return blocks;
  }

  /// Whether the block of `op` reads from block `from` through a third block.
  bool readsThrough(unsigned op, const std::vector<std::set<unsigned>> &members, const std::vector<unsigned> &blocks,
                    unsigned from) const {
    std::set<unsigned> seen{blocks[op]};
    std::vector<unsigned> open;
    auto addReads = [&](unsigned block) {
      for (unsigned member : members[block])
        for (unsigned value : ops[member].reads)
          if (std::optional<unsigned> producer = values[value].producer; producer && seen.insert(blocks[*producer]).second)
            open.push_back(blocks[*producer]);
    };
    seen.insert(from);
    addReads(blocks[op]);
    while (!open.empty()) {
      const unsigned block = open.back();
      open.pop_back();
      for (unsigned member : members[block])
        for (unsigned value : ops[member].reads)
          if (std::optional<unsigned> producer = values[value].producer; producer && blocks[*producer] == from)
            return true;
      addReads(block);
    }
    return false;
  }
};
} // namespace

FusionPlan pipeline::describeFusion(ModuleOp module, const std::map<std::string, plan::KernelPlan> &plans) {
  return Description(module, plans).run();
}

std::string pipeline::toText(const FusionPlan &plan) {
  std::string text;
  llvm::raw_string_ostream os(text);
  const std::pair<const char *, uint64_t> sums[] = {{"dram_bytes_unfused", plan.unfusedBytes},
                                                    {"dram_bytes_kernels", plan.kernelBytes},
                                                    {"dram_bytes_chosen", plan.chosenBytes},
                                                    {"dram_bytes_all_fused", plan.allFusedBytes},
                                                    {"dram_bytes_least", plan.leastBytes},
                                                    {"live_bytes_taken_order", plan.peak.takenBytes},
                                                    {"live_bytes_model_order", plan.peak.modelBytes},
                                                    {"live_bytes_memory_order", plan.peak.leastBytes},
                                                    {"live_bytes_lower_bound", plan.peak.boundBytes}};
  os << "# DRAM bytes are estimates: each kernel reads and writes every tensor once. Live bytes: tensors between kernels.\n";
  for (auto [name, bytes] : sums)
    os << name << " " << bytes << "\n";
  bool isInGroup = false;
  for (const FusionPlan::Kernel &kernel : plan.kernels) {
    if (kernel.rowTile && !isInGroup)
      os << "\n# fusion group: row tiles pass through the scratchpad";
    isInGroup = kernel.rowTile != 0;
    os << "\nkernel " << kernel.name << " on " << kernel.target << ", DRAM " << kernel.dramBytes - kernel.savedBytes
       << " bytes";
    if (kernel.savedBytes)
      os << " of " << kernel.dramBytes;
    if (kernel.rowTile)
      os << ", result on chip by row tiles of " << kernel.rowTile;
    else if (kernel.isOnChip)
      os << ", result on chip";
    os << "\n";
    for (const FusionPlan::Op &op : kernel.ops)
      os << "  " << op.name << (op.node.empty() ? "" : " '" + op.node + "'") << ": " << operators::nameOf(op.type.fusion)
         << ", " << operators::nameOf(op.type.mapping) << "\n";
    for (const std::string &border : kernel.borders)
      os << "  border: " << border << "\n";
    if (!kernel.ends.empty())
      os << "  ends: " << kernel.ends << "\n";
  }
  return text;
}
