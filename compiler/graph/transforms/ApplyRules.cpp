//===- ApplyRules.cpp - Rewriting rules that compete by cost --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every op is the root of the rules that match it. Each is tried on a copy of
// the ops around it, and the one whose copy costs least is applied.
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "compiler/graph/transforms/RuleCost.h"
#include "compiler/graph/transforms/Rules.h"
#include "mlir/Rewrite/FrozenRewritePatternSet.h"
#include "mlir/Rewrite/PatternApplicator.h"
#include "llvm/ADT/MapVector.h"
#include <deque>

using namespace mlir;

namespace tw::graph {

#define GEN_PASS_DEF_APPLYRULESPASS
#include "compiler/graph/transforms/Passes.h.inc"

namespace {

/// Ops around a root: as many producers as the longest source needs, and what reads the root.
constexpr unsigned kMostDepth = 5;
constexpr size_t kMostProducers = 32, kMostSiblings = 16, kMostReaders = 4, kMostUsers = 64;

/// A rule's patterns, which start at ops of `roots`; empty: at any op.
struct Applicable {
  const Rule *rule;
  FrozenRewritePatternSet patterns;
  llvm::SmallPtrSet<void *, 4> roots;
  bool matchesAny = false;

  Applicable(const Rule &rule, MLIRContext *context) : rule(&rule) {
    RewritePatternSet set(context);
    for (auto add : rule.patterns)
      add(set);
    for (const auto &pattern : set.getNativePatterns()) {
      matchesAny |= !pattern->getRootKind();
      if (pattern->getRootKind())
        roots.insert(pattern->getRootKind()->getAsOpaquePointer());
    }
    patterns = FrozenRewritePatternSet(std::move(set));
  }

  bool startsAt(Operation *op) const { return matchesAny || roots.contains(op->getName().getAsOpaquePointer()); }
};

/// Counts ops as a rewrite adds and removes them.
struct Changes : RewriterBase::Listener {
  llvm::SetVector<Operation *> added;
  llvm::DenseSet<Operation *> &removed;
  explicit Changes(llvm::DenseSet<Operation *> &removed) : removed(removed) {}
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    removed.erase(op); // the memory of one that is gone
    added.insert(op);
  }
  void notifyOperationErased(Operation *op) override {
    added.remove(op);
    removed.insert(op);
  }
};

struct Rewriter : PatternRewriter {
  using PatternRewriter::PatternRewriter;
};

/// The root, what it is made of, its siblings that read the same first operand, and what reads these. In the order of the block.
SmallVector<Operation *> neighbourhood(Operation *root) {
  llvm::SetVector<Operation *> ops;
  ops.insert(root);
  size_t users = 0;
  if (root->getNumOperands() > 0)
    for (Operation *user : root->getOperand(0).getUsers()) {
      if (ops.size() == kMostSiblings || users++ == kMostUsers)
        break;
      if (user->getName() == root->getName() && user->getBlock() == root->getBlock())
        ops.insert(user);
    }
  const size_t roots = ops.size();
  size_t begin = 0;
  for (unsigned depth = 0; depth < kMostDepth; ++depth) {
    const size_t end = ops.size();
    for (; begin < end && ops.size() < roots + kMostProducers; ++begin)
      for (Value operand : ops[begin]->getOperands())
        if (Operation *producer = operand.getDefiningOp(); producer && isa<GraphDialect>(producer->getDialect()))
          ops.insert(producer);
    begin = end;
  }
  for (size_t i = 0; i < roots; ++i) {
    size_t readers = 0;
    for (Operation *user : ops[i]->getUsers()) {
      if (readers++ == kMostReaders)
        break;
      if (isElementwise(user) && user->getBlock() == root->getBlock())
        ops.insert(user);
    }
  }
  SmallVector<Operation *> ordered(ops.begin(), ops.end());
  llvm::sort(ordered, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ordered;
}

/// A function of copies of ops; what others read of them it returns.
struct Copy {
  Copy(ArrayRef<Operation *> ops, Operation *original) {
    OpBuilder builder(original->getContext());
    function = func::FuncOp::create(original->getLoc(), "copy", builder.getFunctionType({}, {}));
    Block *block = function->addEntryBlock();
    builder.setInsertionPointToStart(block);
    IRMapping mapping;
    const llvm::SmallPtrSet<Operation *, 32> known(ops.begin(), ops.end());
    SmallVector<Value> results;
    for (Operation *op : ops) {
      for (Value operand : op->getOperands())
        if (!mapping.contains(operand))
          mapping.map(operand, block->addArgument(operand.getType(), operand.getLoc()));
      Operation *copy = builder.clone(*op, mapping);
      if (op == original)
        root = copy;
    }
    for (Operation *op : ops)
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !known.contains(user); }))
          results.push_back(mapping.lookup(result));
    builder.create<func::ReturnOp>(original->getLoc(), results);
  }

  OwningOpRef<func::FuncOp> function;
  Operation *root = nullptr;
};

/// Removes the ops of a copy that nothing reads any more.
void eraseDead(Block &block, RewriterBase &rewriter) {
  SmallVector<Operation *> ops = llvm::map_to_vector(block.without_terminator(), [](Operation &op) { return &op; });
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      rewriter.eraseOp(op);
}

struct ApplyRulesPass : impl::ApplyRulesPassBase<ApplyRulesPass> {
  using ApplyRulesPassBase::ApplyRulesPassBase;
  ApplyRulesPass(Math math, RuleOptions options, ArrayMachine machine, RuleRecorder recorder)
      : math(math), options(std::move(options)), machine(std::move(machine)), recorder(std::move(recorder)) {}

  LogicalResult initialize(MLIRContext *context) override {
    if (!only.empty()) { // of tilewright-opt: these rules alone, whatever they cost
      for (const std::string &name : only) {
        const Rule *rule = findRule(name);
        if (!rule)
          return emitError(UnknownLoc::get(context)) << "there is no rule '" << name << "'";
        applicable.emplace_back(*rule, context);
      }
      return success();
    }
    for (const Rule &rule : rules())
      if (options.allows(rule, math))
        applicable.emplace_back(rule, context);
    return success();
  }

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Block &block : function.getBody())
        rewrite(block);
    recorder.finish();
  }

private:
  void rewrite(Block &block);
  const Applicable *bestFor(Operation *op, ArrayRef<Operation *> around, RuleCost &before, RuleCost &after) const;

  Math math = Math::Exact;
  RuleOptions options;
  ArrayMachine machine;
  std::vector<Applicable> applicable;
  RuleRecorder recorder;
};

} // namespace

/// The rule whose result costs least, and no more than what is there; of several the first of Rules.td. Null: none.
const Applicable *ApplyRulesPass::bestFor(Operation *op, ArrayRef<Operation *> around, RuleCost &before,
                                          RuleCost &after) const {
  std::optional<Copy> copy;
  const Applicable *best = nullptr;
  for (const Applicable &each : applicable) {
    if (!each.startsAt(op))
      continue;
    if (!copy) {
      copy.emplace(around, op);
      before = costOf(copy->function->getBody().front(), machine);
    }
    Rewriter rewriter(op->getContext());
    rewriter.setInsertionPoint(copy->root);
    PatternApplicator applicator(each.patterns);
    applicator.applyDefaultCostModel();
    if (failed(applicator.matchAndRewrite(copy->root, rewriter)))
      continue;
    Block &block = copy->function->getBody().front();
    eraseDead(block, rewriter);
    const RuleCost cost = costOf(block, machine);
    copy.reset();
    const bool isTaken = each.rule->isRequired || !only.empty() || !(before < cost);
    if (isTaken && (!best || cost < after)) {
      best = &each;
      after = cost;
    }
  }
  return best;
}

void ApplyRulesPass::rewrite(Block &block) {
  std::deque<Operation *> waiting;
  for (Operation &op : block)
    if (isa<GraphDialect>(op.getDialect()) && !isa<ConstantOp>(op))
      waiting.push_back(&op);
  // Linear in the ops: each rewrite has a few ops looked at again.
  const size_t mostRewrites = 16 + 4 * waiting.size();
  llvm::DenseSet<Operation *> removed, queued(waiting.begin(), waiting.end());
  size_t rewrites = 0;
  while (!waiting.empty()) {
    Operation *op = waiting.front();
    waiting.pop_front();
    queued.erase(op);
    if (removed.contains(op) || llvm::none_of(applicable, [&](const Applicable &each) { return each.startsAt(op); }))
      continue;
    SmallVector<Operation *> around = neighbourhood(op);
    RuleCost before, after;
    const Applicable *best = bestFor(op, around, before, after);
    if (!best)
      continue;
    if (rewrites++ == mostRewrites) {
      recorder.setBudgetSpent();
      return;
    }
    std::vector<std::string> nodes = nodeNames(op->getLoc());
    Changes changes(removed);
    Rewriter rewriter(op->getContext());
    rewriter.setListener(&changes);
    rewriter.setInsertionPoint(op);
    PatternApplicator applicator(best->patterns);
    applicator.applyDefaultCostModel();
    if (failed(applicator.matchAndRewrite(op, rewriter))) // the copy shows all that sources look at
      continue;
    recorder.add(best->rule->name, std::move(nodes), RuleEstimate{before.cycles, after.cycles});
    for (Operation *each : llvm::reverse(around))
      if (!removed.contains(each) && isOpTriviallyDead(each))
        rewriter.eraseOp(each);
    auto wait = [&](Operation *each) {
      if (isa<GraphDialect>(each->getDialect()) && !isa<ConstantOp>(each) && queued.insert(each).second)
        waiting.push_back(each);
    };
    auto waitForReaders = [&](Operation *op) {
      size_t users = 0;
      for (Operation *user : op->getUsers())
        if (users++ < kMostReaders)
          wait(user);
    };
    for (Operation *each : changes.added) {
      wait(each);
      waitForReaders(each);
    }
    for (Operation *each : around) // ops that have one reader less now, and readers of what an op became
      if (!removed.contains(each)) {
        wait(each);
        waitForReaders(each);
      }
  }
}

std::unique_ptr<Pass> createApplyRulesPass(Math math, RuleOptions options, const ArrayMachine &machine,
                                           const RuleRecorder &recorder) {
  return std::make_unique<ApplyRulesPass>(math, std::move(options), machine, recorder);
}

} // namespace tw::graph
