//===- PartitionKernels.cpp - Groups of ops that become kernels -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions and matrix products choose first what joins them, then windows
// and reductions, then what is left. A kernel has one result, which every op
// in it leads to, so its call can stand where its last op stood.
//===----------------------------------------------------------------------===//
#include "compiler/cost/Constants.h"
#include "compiler/cost/Contraction.h"
#include "compiler/graph/FusionTypes.h"
#include "compiler/graph/ModelNodes.h"
#include "compiler/graph/transforms/BorderProblem.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/KernelCost.h"
#include "compiler/graph/transforms/PackedTaps.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <cmath>
#include <functional>
#include <map>
#include <set>

using namespace mlir;

namespace tw::graph {

#define GEN_PASS_DEF_PARTITIONKERNELSPASS
#include "compiler/graph/transforms/Passes.h.inc"

namespace {

enum class Role { Constant, Alias, Contraction, Window, Reduction, Elementwise, Movement, Other };

Role roleOf(Operation *op) {
  if (isa<ConstantOp>(op))
    return Role::Constant;
  if (isa<ReshapeOp>(op))
    return Role::Alias;
  if (isa<ConvOp, ConvIntegerOp, MatmulOp, MatmulIntegerOp>(op))
    return Role::Contraction;
  if (isa<MaxPoolOp, AveragePoolOp, QLinearAveragePoolOp, QLinearGlobalAveragePoolOp>(op))
    return Role::Window;
  if (isa<ReduceOp, SoftmaxOp, QLinearSoftmaxOp, LayerNormOp>(op))
    return Role::Reduction;
  if (isElementwise(op))
    return Role::Elementwise;
  if (isa<TransposeOp, ConcatOp, SliceOp, PadOp>(op))
    return Role::Movement;
  return Role::Other;
}

/// Whether `conv` had better convert its input on chip. Behind packed taps, where only neighbouring windows of a row share pixels, so that no
/// burst is fetched twice; else while the vector engine packs them, where DRAM has little time beside the converted image and both engines
/// are done before the array. Two square tiles that fill the accumulator must have room in half of the scratchpad, as floats and converted.
/// Where a pool takes the largest of its sums, it is enough behind packed taps if tiles of one row of windows have that room: a strip of the
/// row each, beside the converted rows that every strip keeps for the next row of windows.
template <typename ConvT> bool convertsInput(ConvT conv, const ArrayMachine &array) {
  if (conv.getLayout() != "nhwc" || !packsTaps(conv, array) || conv.getDilations()[1] != 1)
    return false;
  ArrayRef<int64_t> w = shapeOf(conv.getW()), strides = conv.getStrides();
  const double side = std::sqrt(double(array.sums) / 2 / double(llvm::alignTo(w[3], uint64_t(array.columns))));
  const double elements = side * (side * double(strides[0]) + double(w[0])) * double(w[1] * shapeOf(conv.getX())[3]);
  const int64_t size = array.type == "int8" ? 1 : 2;
  const double room = double(array.scratchpad) / 2;
  if (w[1] - 1 > strides[1]) {
    ArrayRef<int64_t> x = shapeOf(conv.getX()), y = shapeOf(conv.getY());
    const double image = double(x[1] * x[2] * x[3]), rows = side * double(strides[0]);
    // As it was, converted, and read again as packed taps: a burst that several runs in a row cross comes for each of them.
    const double again = 1 + 2 * (double(w[1] - 1) / double(strides[1]) - 1);
    const double moved = image * (4 + double(size) + double(size) * again * (rows + double(w[0])) / rows);
    const double passes =
        double(y[1] * y[2] * int64_t(llvm::divideCeil(w[0] * w[1] * x[3], array.rows) * llvm::divideCeil(w[3], array.columns)));
    const double packing = double(x[1] * y[2] * int64_t(llvm::divideCeil(w[1] * x[3], array.columns)));
    const double loading = image / double(std::min<int64_t>(array.loadEngines, 2));
    const double plain = (rows + double(w[0])) * (side * double(strides[1]) + double(w[1])) * double(x[3]);
    return moved / array.dramBytes > cost::kBusyDram * passes && std::max(packing, loading) <= passes &&
           2 * (4 * plain + double(size) * elements) <= room;
  }
  if (2 * elements * double(4 + size) <= room)
    return true;
  auto pool = conv->hasOneUse() ? dyn_cast<MaxPoolOp>(*conv->user_begin()) : MaxPoolOp();
  if (!pool || !pool->hasAttr(kOfSumsAttr) || pool.getKernel()[0] <= pool.getStrides()[0] ||
      !llvm::all_of(pool.getPads(), [](int64_t pad) { return pad == 0; }))
    return false;
  constexpr int64_t kStrips = cost::kMostStrips;
  const int64_t windows = int64_t(llvm::divideCeil(shapeOf(pool)[2], uint64_t(kStrips)));
  const int64_t columns = (windows - 1) * pool.getStrides()[1] + pool.getKernel()[1],
                row = columns * w[1] * shapeOf(conv.getX())[3];
  const int64_t loaded = pool.getStrides()[0] * strides[0], held = loaded + w[0] - strides[0];
  return double(row * (2 * loaded * 4 + (kStrips + 1) * held * size)) <= room;
}

/// Whether the accelerator reads `operand` of `contraction` as it lay before the transpose by `perm`, as fast.
bool readsTransposed(OpOperand &operand, ArrayRef<int64_t> perm, const ArrayMachine &array) {
  Operation *contraction = operand.getOwner();
  int64_t rank = int64_t(perm.size()), last = rank - 1;
  if (isa<MatmulOp, MatmulIntegerOp>(contraction))
    return operand.getOperandNumber() == 0 ? perm[last] == last : perm[last] == last || perm[last - 1] == last;
  if (operand.getOperandNumber() != 0 || perm != ArrayRef<int64_t>{0, 2, 3, 1})
    return false;
  return readsPlanes(contraction, array);
}

/// The target that an op goes to, and why none takes it that is preferred to that one.
struct Place {
  const KernelTarget *target = nullptr; ///< null: none takes the op, and all reasons stand below
  std::string reason;

  bool operator==(const Place &other) const { return target == other.target && reason == other.reason; }
  /// The machine that kernels here are formed for, if any.
  const ArrayMachine *machine() const { return target ? target->machine() : nullptr; }
};

/// One kernel to be.
struct Group {
  llvm::SmallSetVector<Operation *, 8> ops;
  Operation *anchor = nullptr; ///< gives the kernel its name
  Operation *output = nullptr; ///< gives it its result
  Value converts;              ///< an argument that it converts itself
  Place place;
  std::string ends; ///< why the next op is not part of it
  /// As it grew: its results before the last, each with the number of ops that the kernel had then.
  std::vector<std::pair<Operation *, size_t>> outputs;
};

/// An op's result that another op reads.
using Edge = std::pair<Operation *, Operation *>;

/// Another border that kernels may have.
struct Border {
  Operation *op = nullptr;            ///< whose place it is
  std::vector<Edge> cuts;             ///< what no kernel holds both ends of
  std::string rules, other;           ///< where the op is by the rules, and where it would be: "joins 'conv2'"
  double rulesCycles = 0, cycles = 0; ///< of the kernels that it changes
  bool isSplit = false;               ///< there is a kernel more
  std::vector<unsigned> kernels;      ///< groups that it changes
};

/// "relu of 'node'".
std::string textOf(Operation *op) {
  const std::vector<std::string> nodes = nodeNames(op->getLoc());
  return op->getName().stripDialect().str() + (nodes.empty() ? "" : " of '" + nodes.front() + "'");
}

/// Whether the kernel that uses `operand`, perhaps through reshapes, takes it as the rows of a matrix product.
bool isReadAsRows(OpOperand &operand) {
  Value inner = operand.get();
  if (auto call = dyn_cast<func::CallOp>(operand.getOwner())) {
    auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
    inner = kernel.getArgument(operand.getOperandNumber());
  } else if (isa<ReshapeOp>(operand.getOwner())) {
    inner = operand.getOwner()->getResult(0);
  } else {
    return isa<MatmulOp, MatmulIntegerOp>(operand.getOwner()) && operand.getOperandNumber() == 0;
  }
  return inner.hasOneUse() && isReadAsRows(*inner.use_begin());
}

/// Whether no more than parts of a kernel's result find room on chip, which its only reader, a matrix product, can take row by row.
bool passesInParts(Value value, const ArrayMachine &array) {
  const int64_t bits = elementOf(value).getIntOrFloatBitWidth(),
                stored = array.type == "bf16" ? std::min<int64_t>(bits, 16) : bits;
  return value.getDefiningOp() && !isa<ConstantOp>(value.getDefiningOp()) && value.hasOneUse() &&
         tensorOf(value).getNumElements() * stored / 8 > array.scratchpad / 2 && isReadAsRows(*value.use_begin());
}

/// A kernel comes as late as its reader allows, what the longest chain of kernels leads to first: while that chain waits for one
/// engine, such as a softmax for the vector engine, the others have work that does not hang on it. But what passes in parts comes last:
/// its kernel and the reader can then run side by side.
void orderCalls(Block &body, const ArrayMachine *machine) {
  DenseMap<Operation *, int64_t> depth; // kernels up to here
  auto depthOf = [&](Value value) { return value.getDefiningOp() ? depth.lookup(value.getDefiningOp()) : 0; };
  auto isBefore = [&](Value a, Value b) {
    const bool inParts = machine && passesInParts(a, *machine);
    return inParts != (machine && passesInParts(b, *machine)) ? !inParts : depthOf(a) > depthOf(b);
  };
  for (Operation &op : body) {
    int64_t deepest = 0;
    for (Value operand : op.getOperands())
      deepest = std::max(deepest, depthOf(operand));
    depth[&op] = deepest + isa<func::CallOp>(op);
  }
  DenseSet<Operation *> placed;
  std::vector<Operation *> open{body.getTerminator()};
  while (!open.empty()) {
    Operation *op = open.back();
    Value next;
    for (Value operand : op->getOperands())
      if (operand.getDefiningOp() && !placed.contains(operand.getDefiningOp()) && (!next || isBefore(operand, next)))
        next = operand;
    if (next) {
      open.push_back(next.getDefiningOp());
      continue;
    }
    open.pop_back();
    if (open.empty())
      return;
    op->moveBefore(body.getTerminator());
    placed.insert(op);
  }
}

class Partition {
public:
  Partition(func::FuncOp main, KernelTargets targets, const KernelRequest &request)
      : main(main), targets(std::move(targets)), request(request) {}

  LogicalResult run() {
    if (failed(findBegins()))
      return failure();
    if (auto names = main->getAttrOfType<ArrayAttr>(kModelNodesAttr))
      for (auto name : names.getAsRange<StringAttr>())
        modelNodes.insert(name.getValue());
    for (Operation &op : main.getBody().front().without_terminator())
      if (roleOf(&op) != Role::Constant && roleOf(&op) != Role::Alias)
        if (Place place = placeOf(&op); !place.target)
          return op.emitError() << "no target takes it: " << place.reason;
    duplicateConversions();
    leaveIslands();
    int64_t position = 0;
    for (Operation &op : main.getBody().front().without_terminator())
      order[&op] = position++;
    SmallVector<Operation *> ops;
    for (Operation &op : main.getBody().front().without_terminator())
      ops.push_back(&op);
    groups = makeGroups(ops);
    moveBorders(ops);
    for (Group &group : groups)
      takeResultTranspose(group);
    // A movement takes the movements before it: they become the way it walks its source.
    for (Operation &op : llvm::reverse(main.getBody().front().without_terminator()))
      if (!assigned.contains(&op) && roleOf(&op) == Role::Movement)
        groups.push_back(makeMovement(&op));
    llvm::sort(groups, [&](const Group &a, const Group &b) { return order[a.output] < order[b.output]; });
    for (Group &group : groups)
      outline(group);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(main.getBody().front())))
      if (isa<ConstantOp>(op) && op.use_empty())
        op.erase();
    auto formed = llvm::find_if(targets, [](const auto &target) { return target->machine(); });
    orderCalls(main.getBody().front(), formed == targets.end() ? nullptr : (*formed)->machine());
    return success();
  }

private:
  static constexpr llvm::StringLiteral kEdge = " -> ";
  static constexpr size_t kMaxOps = 24;      ///< of a kernel
  static constexpr unsigned kMaxTensors = 4; ///< that a kernel reads beside its parameters

  func::FuncOp main;
  const KernelTargets targets;
  const KernelRequest &request;
  llvm::StringSet<> begins;                                ///< nodes of request.beginAt
  std::set<std::pair<std::string, std::string>> nodeEdges; ///< of request.beginAt: a node and one that reads it
  DenseSet<Edge> cuts;                                     ///< of moved borders
  DenseMap<Operation *, std::string>
      borders; ///< of the first op behind a border that has an alternative: what was chosen, and the cost of each
  DenseMap<Operation *, int64_t> order;
  DenseSet<Operation *> assigned;
  std::vector<Group> groups;
  llvm::StringSet<> names;
  DenseMap<Operation *, Place> left;  ///< ops that another target has than the first that takes them
  llvm::StringMap<unsigned> suffixes; ///< the last that was tried for a name
  llvm::StringSet<> modelNodes;       ///< of the ONNX model; empty: nobody said

  LogicalResult findBegins() {
    if (request.beginAt.empty())
      return success();
    std::map<std::string, bool> known; // in the order of their names, so that messages are the same every time
    for (Operation &op : main.getBody().front().without_terminator())
      if (roleOf(&op) != Role::Constant)
        for (const std::string &node : nodeNames(op.getLoc()))
          known[node] = true;
    for (const std::string &begin : request.beginAt) {
      std::string node = begin;
      if (known.count(node)) {
        begins.insert(node);
        continue;
      }
      if (auto [producer, reader] = StringRef(begin).split(kEdge); !reader.empty()) {
        node = (known.count(producer.str()) ? reader : producer).str();
        if (known.count(node)) {
          if (!isRead(producer, reader))
            return main.emitError() << request.place << "a kernel is to begin between nodes '" << producer << "' and '"
                                    << reader << "', but no op of '" << reader << "' reads one of '" << producer << "'";
          nodeEdges.insert({producer.str(), reader.str()});
          continue;
        }
      }
      const std::string *nearest = nullptr;
      unsigned least = UINT_MAX;
      for (const auto &[name, isKnown] : known)
        if (unsigned distance = StringRef(node).edit_distance(name, /*AllowReplacements=*/true, /*MaxEditDistance=*/64);
            distance < least) {
          least = distance;
          nearest = &name;
        }
      return main.emitError() << request.place << "a kernel is to begin at node '" << node
                              << "', but no op of the network comes from a node of that name"
                              << (nearest ? "; the nearest is '" + *nearest + "'" : "");
    }
    return success();
  }

  /// Whether an op of node `reader` reads an op of node `producer` that is not of `reader` too.
  bool isRead(StringRef producer, StringRef reader) {
    for (Operation &op : main.getBody().front().without_terminator())
      if (llvm::is_contained(nodeNames(op.getLoc()), reader))
        for (Value operand : op.getOperands())
          if (Operation *maker = operand.getDefiningOp()) {
            const std::vector<std::string> nodes = nodeNames(maker->getLoc());
            if (llvm::is_contained(nodes, producer) && !llvm::is_contained(nodes, reader))
              return true;
          }
    return false;
  }

  /// Whether no kernel may hold both `op` and `producer`, which it reads: a kernel is to begin at a node of the one that the other is not of.
  bool isCut(Operation *op, Operation *producer) const {
    if (!producer || cuts.contains({producer, op}))
      return producer;
    if (begins.empty() && nodeEdges.empty())
      return false;
    const std::vector<std::string> before = nodeNames(producer->getLoc());
    return llvm::any_of(nodeNames(op->getLoc()), [&](const std::string &node) {
      return (begins.contains(node) && !llvm::is_contained(before, node)) ||
             llvm::any_of(before, [&](const std::string &other) {
               return nodeEdges.count({other, node});
             });
    });
  }

  Place placeOf(Operation *op) {
    if (auto found = left.find(op); found != left.end())
      return found->second;
    Place place;
    std::vector<std::string> reasons;
    for (const auto &target : targets) {
      std::string reason = target->reasonAgainst(op);
      if (reason.empty()) {
        place.target = target.get();
        break;
      }
      reasons.push_back(targets.size() > 2 ? (target->name() + ": " + reason).str() : reason);
    }
    place.reason = llvm::join(reasons, "; ");
    return place;
  }

  /// Conversions up from fewer bits are made where they are used: what travels between kernels stays narrow.
  void duplicateConversions() {
    for (Operation &op : llvm::make_early_inc_range(main.getBody().front())) {
      if (!isa<DequantizeOp, CastOp>(op) || op.getResult(0).hasOneUse() || op.getResult(0).use_empty() ||
          elementOf(op.getOperand(0)).getIntOrFloatBitWidth() >= elementOf(op.getResult(0)).getIntOrFloatBitWidth() ||
          !placeOf(&op).reason.empty())
        continue;
      OpBuilder builder(&op);
      DenseMap<Operation *, Value> copies; // a user that reads it twice has one
      for (OpOperand &use : llvm::make_early_inc_range(op.getResult(0).getUses()))
        if (roleOf(use.getOwner()) != Role::Other && use.getOwner() != main.getBody().front().getTerminator()) {
          Value &copy = copies[use.getOwner()];
          if (!copy) {
            builder.setInsertionPoint(use.getOwner());
            copy = builder.clone(op)->getResult(0);
          }
          use.set(copy);
        }
      if (op.use_empty())
        op.erase();
    }
  }

  /// Multiply-accumulates of a contraction; of other ops the elements that it reads or makes, whichever are more.
  static double operationsOf(Operation *op) {
    auto count = [](Value value) { return double(tensorOf(value).getNumElements()); };
    double operations = 0;
    for (ValueRange values : {ValueRange(op->getOperands()), ValueRange(op->getResults())})
      for (Value value : values)
        operations = std::max(operations, count(value));
    if (isa<MatmulOp, MatmulIntegerOp>(op))
      return std::max(operations, count(op->getResult(0)) * double(shapeOf(op->getOperand(0)).back()));
    if (isa<ConvOp, ConvIntegerOp>(op)) {
      Value w = op->getOperand(1);
      return std::max(operations, count(op->getResult(0)) * count(w) / double(std::max<int64_t>(shapeOf(w).back(), 1)));
    }
    return operations;
  }

  static double bytesOf(Value value) {
    return double(tensorOf(value).getNumElements()) * double(llvm::divideCeil(elementOf(value).getIntOrFloatBitWidth(), 8));
  }

  /// What a value is a reshape of.
  static Value sourceOf(Value value) {
    while (auto reshape = value.getDefiningOp<ReshapeOp>())
      value = reshape.getX();
    return value;
  }

  /// Calls f(op) for every reader of `value` or of a reshape of it; null for the return.
  void forEachReader(Value value, llvm::function_ref<void(Operation *)> f) {
    for (Operation *user : value.getUsers())
      if (user == main.getBody().front().getTerminator())
        f(nullptr);
      else if (auto reshape = dyn_cast<ReshapeOp>(user))
        forEachReader(reshape, f);
      else
        f(user);
  }

  /// Ops that the first target takes and that read from each other, if they stand between ops of other targets, go to the next target that
  /// takes them where the crossings of the link that they cause take longer than the accelerator saves.
  void leaveIslands() {
    const ArrayMachine *machine = targets.front()->machine();
    if (!machine || machine->linkBytes <= 0 || targets.size() < 2)
      return;
    auto isFirst = [&](Operation *op) { return placeOf(op).target == targets.front().get(); };
    SmallVector<Operation *> ops;
    DenseSet<Operation *> firsts;
    for (Operation &op : main.getBody().front().without_terminator())
      if (roleOf(&op) != Role::Constant && roleOf(&op) != Role::Alias) {
        ops.push_back(&op);
        if (isFirst(&op))
          firsts.insert(&op);
      }
    if (firsts.size() == ops.size())
      return;
    DenseSet<Operation *> seen;
    for (Operation *start : ops) {
      if (!firsts.contains(start) || !seen.insert(start).second)
        continue;
      llvm::SmallSetVector<Operation *, 16> island;
      island.insert(start);
      auto add = [&](Operation *op) {
        if (op && firsts.contains(op)) {
          seen.insert(op);
          island.insert(op);
        }
      };
      for (size_t i = 0; i < island.size(); ++i) {
        Operation *op = island[i];
        for (Value operand : op->getOperands())
          add(sourceOf(operand).getDefiningOp());
        for (Value result : op->getResults())
          forEachReader(result, add);
      }
      leaveIsland(island);
    }
  }

  void leaveIsland(const llvm::SmallSetVector<Operation *, 16> &island) {
    const ArrayMachine &machine = *targets.front()->machine();
    double accelerator = 0, host = 0, crossing = 0;
    bool readsHost = false, isReadByHost = false;
    DenseSet<Value> crossed;
    auto cross = [&](Value value) {
      if (crossed.insert(value).second)
        crossing += double(machine.linkLatency) + bytesOf(value) / machine.linkBytes;
    };
    for (Operation *op : island) {
      // Multiplying is what the accelerator is there for.
      if (roleOf(op) == Role::Contraction)
        return;
      const double operations = operationsOf(op);
      double bytes = 0;
      for (ValueRange values : {ValueRange(op->getOperands()), ValueRange(op->getResults())})
        for (Value value : values)
          bytes += bytesOf(value);
      accelerator += std::max(bytes / machine.dramBytes, operations / double(machine.columns));
      host += std::max(bytes / machine.hostBytes, operations / machine.hostOperations);
      for (Value operand : op->getOperands()) {
        Value source = sourceOf(operand);
        Operation *producer = source.getDefiningOp();
        if (!producer || isConstant(source) || island.contains(producer))
          continue;
        readsHost = true;
        // Where another island reads it too, it crosses in any case.
        bool isShared = false;
        forEachReader(source, [&](Operation *reader) {
          isShared |= reader && !island.contains(reader) && placeOf(reader).target == targets.front().get();
        });
        if (!isShared)
          cross(source);
      }
      for (Value result : op->getResults())
        forEachReader(result, [&](Operation *reader) {
          if (!reader || island.contains(reader))
            return;
          isReadByHost = true;
          cross(result);
        });
    }
    // What the network returns crosses for nothing, if the layout of images has sunk through functions of the host to be undone behind them.
    isReadByHost |= llvm::all_of(island, [&](Operation *op) {
      Operation *producer = isa<TransposeOp>(op) ? sourceOf(op->getOperand(0)).getDefiningOp() : nullptr;
      return isa_and_nonnull<ElementwiseOp>(producer) && placeOf(producer).target != targets.front().get();
    });
    if (!readsHost || !isReadByHost || crossing <= std::max(host - accelerator, 0.0))
      return;
    const std::string reason = kBetweenNodes.str() + ": crossing would take " + std::to_string(uint64_t(std::ceil(crossing))) +
                               " cycles, and the accelerator would save " +
                               std::to_string(uint64_t(std::max(host - accelerator, 0.0)));
    SmallVector<Place> places;
    for (Operation *op : island) {
      auto next = std::find_if(targets.begin() + 1, targets.end(),
                               [&](const auto &target) { return target->reasonAgainst(op).empty(); });
      if (next == targets.end())
        return;
      places.push_back({next->get(), reason});
    }
    for (auto [op, place] : llvm::zip(island, places))
      left[op] = place;
  }

  /// Whether an operand needs no kernel to have run: it comes with the program.
  static bool isConstant(Value value) { return bool(constantOf(value)); }

  /// A constant that is one number or one number per channel; others are tensors to be fetched.
  static bool isParameter(Value value) {
    ArrayRef<int64_t> shape = shapeOf(value);
    return isConstant(value) && (tensorOf(value).getNumElements() == 1 || shape.back() == tensorOf(value).getNumElements());
  }

  /// A cheap conversion of a tensor computed elsewhere, used by one op only: it may join.
  bool isSideConversion(Value value) {
    Operation *op = value.getDefiningOp();
    bool usedByOne = llvm::all_of(value.getUsers(), [&](Operation *user) { return user == *value.user_begin(); });
    return op && isa<DequantizeOp, CastOp>(op) && usedByOne && !assigned.contains(op) && !isConstant(value);
  }

  /// Whether an operand of `op`, which works element by element, is a tensor with padded channels that only `op` reads: the load engine pads
  /// it, and a slice in front of the padding is the way it is walked.
  bool isSidePad(Value value, Operation *op, const Place &place) {
    auto pad = value.getDefiningOp<PadOp>();
    if (!pad || !place.machine() || roleOf(op) != Role::Elementwise || isConstant(value) || !isReadBy(value, op) ||
        assigned.contains(pad) || isCut(op, pad) || !(placeOf(pad) == place) || shapeOf(pad).size() > 4 ||
        shapeOf(pad) != shapeOf(op->getResult(0)) || !isa<FloatAttr, IntegerAttr>(pad.getValue()))
      return false;
    auto isUnpadded = [](ArrayRef<int64_t> pads) { return llvm::all_of(pads.drop_back(), [](int64_t n) { return n == 0; }); };
    return isUnpadded(pad.getLow()) && isUnpadded(pad.getHigh()) && pad.getLow().back() >= 0 && pad.getHigh().back() >= 0 &&
           shapeOf(pad.getX()).back() > 0;
  }

  static bool isReadBy(Value value, Operation *op) {
    return llvm::all_of(value.getUsers(), [&](Operation *user) { return user == op; });
  }

  /// Adds what `op` reads through: conversions and paddings of tensors that are computed elsewhere.
  void addSides(Operation *op, const Place &place, llvm::SmallSetVector<Operation *, 8> &ops) {
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (ops.contains(producer) || shapeOf(operand) != shapeOf(op->getResult(0)))
        continue;
      Operation *reader = op;
      if (isSideConversion(operand) && !isCut(op, producer) && placeOf(producer) == place) {
        ops.insert(producer);
        reader = producer;
        operand = producer->getOperand(0);
        producer = operand.getDefiningOp();
      }
      if (!producer || !isSidePad(operand, reader, place) || ops.contains(producer->getOperand(0).getDefiningOp()))
        continue;
      ops.insert(producer);
      Operation *slice = producer->getOperand(0).getDefiningOp();
      if (isa_and_nonnull<SliceOp>(slice) && !runsBackwards(slice) && slice->hasOneUse() && !assigned.contains(slice) &&
          !isCut(producer, slice) && placeOf(slice) == place && !ops.contains(slice->getOperand(0).getDefiningOp()))
        ops.insert(slice);
    }
  }

  /// Tensors a group reads, beyond its parameters.
  unsigned countTensors(ArrayRef<Operation *> ops) {
    llvm::SmallSetVector<Value, 8> tensors;
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        if (!llvm::is_contained(ops, operand.getDefiningOp()) && !isParameter(operand))
          tensors.insert(operand);
    return tensors.size();
  }

  /// Kernels of those of `ops`, in their order, that are part of none yet: what may be an anchor first.
  std::vector<Group> makeGroups(ArrayRef<Operation *> ops) {
    const SmallVector<Role> rounds[] = {{Role::Contraction}, {Role::Window, Role::Reduction}, {Role::Elementwise, Role::Other}};
    std::vector<Group> made;
    for (const SmallVector<Role> &roles : rounds)
      for (Operation *op : ops)
        if (!assigned.contains(op) && llvm::is_contained(roles, roleOf(op)))
          made.push_back(makeGroup(op));
    return made;
  }

  static double cyclesOf(ArrayRef<Group> groups) {
    double cycles = 0;
    for (const Group &group : groups)
      if (const ArrayMachine *machine = group.place.machine())
        cycles += kernelCostOf(group.ops.getArrayRef(), group.output, *machine).cycles();
    return cycles;
  }

  /// "'node'", or the op's name.
  static std::string quotedName(Operation *op) {
    const std::vector<std::string> nodes = nodeNames(op->getLoc());
    return nodes.empty() ? op->getName().stripDialect().str() : "'" + nodes.front() + "'";
  }

  static std::string placeIn(const Group &group, Operation *op) {
    return group.anchor == op || roleOf(group.anchor) == Role::Elementwise ? "is a kernel of its own"
                                                                           : "joins " + quotedName(group.anchor);
  }

  /// Moves the borders of kernels that cost less elsewhere.
  void moveBorders(ArrayRef<Operation *> ops) {
    if (llvm::none_of(targets, [](const auto &target) { return target->machine(); }))
      return;
    const std::vector<Border> alternatives = findBorders();
    BorderProblem problem;
    for (const Border &border : alternatives) {
      // A kernel more must be worth it. What joins the other of two kernels changes as little as the estimate can tell apart.
      const double least = border.isSplit ? border.cycles * cost::kLeastGain : border.cycles / (1 - cost::kEstimateError);
      problem.alternatives.push_back(
          {border.kernels, border.rulesCycles < least ? 0 : int64_t(border.rulesCycles - border.cycles)});
    }
    const BorderChoice choice = solve(problem);
    assert(whatIsWrong(problem, choice).empty() && "two alternatives change one kernel");
    for (auto [i, border] : llvm::enumerate(alternatives)) {
      const bool isTaken = llvm::is_contained(choice, unsigned(i));
      std::string &text = borders[border.op];
      auto cost = [](const std::string &place, double cycles) {
        return place + ": " + std::to_string(uint64_t(std::ceil(cycles))) + " cycles";
      };
      if (text.empty())
        text = cost(border.rules, border.rulesCycles);
      text = isTaken ? cost(border.other, border.cycles) + "; " + text : text + "; " + cost(border.other, border.cycles);
      if (isTaken)
        cuts.insert(border.cuts.begin(), border.cuts.end());
    }
    if (choice.empty())
      return;
    const double before = cyclesOf(groups);
    auto makeAgain = [&] {
      assigned.clear();
      groups = makeGroups(ops);
    };
    makeAgain();
    if (cyclesOf(groups) < before)
      return;
    cuts.clear();
    borders.clear();
    makeAgain();
  }

  /// Every border inside the groups that leads to an op with other tensors to read, a softmax or a pool, with each other place for it.
  std::vector<Border> findBorders() {
    std::vector<Border> found;
    DenseMap<Operation *, unsigned> groupOf;
    for (auto [i, group] : llvm::enumerate(groups))
      for (Operation *op : group.ops)
        groupOf[op] = unsigned(i);
    for (unsigned g = 0; g < groups.size(); ++g) {
      if (!groups[g].place.machine() || roleOf(groups[g].anchor) == Role::Elementwise)
        continue;
      for (unsigned step = 0; step < groups[g].outputs.size(); ++step)
        addBorders(g, step, groupOf, found);
    }
    return found;
  }

  void addBorders(unsigned g, unsigned step, const DenseMap<Operation *, unsigned> &groupOf, std::vector<Border> &found) {
    const Group &group = groups[g];
    auto [before, begin] = group.outputs[step];
    auto [after, end] = step + 1 < group.outputs.size() ? group.outputs[step + 1] : std::pair(group.output, group.ops.size());
    Border border;
    border.op = after;
    border.kernels = {g};
    bool isOpen = roleOf(after) != Role::Elementwise;
    for (Operation *op : group.ops.getArrayRef().slice(begin, end - begin))
      for (Value operand : op->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (group.ops.contains(producer) || isParameter(operand))
          continue;
        isOpen = true;
        if (auto other = groupOf.find(producer); other != groupOf.end() && groups[other->second].output == producer &&
                                                 groups[other->second].place == group.place &&
                                                 !llvm::is_contained(border.kernels, other->second))
          border.kernels.push_back(other->second);
      }
    if (!isOpen)
      return;
    // What travels between the kernels is narrow: the conversions up are behind the border.
    while (step > 0 && isa<DequantizeOp, CastOp>(before) &&
           elementOf(before->getOperand(0)).getIntOrFloatBitWidth() < elementOf(before->getResult(0)).getIntOrFloatBitWidth())
      before = group.outputs[--step].first;
    for (Operation *user : before->getUsers())
      border.cuts.push_back({before, user});
    border.rules = placeIn(group, after);
    // Where another kernel may take the op, one more cut makes it a kernel of its own.
    for (unsigned attempt = 0; attempt < 2; ++attempt) {
      std::vector<Group> now, made = makeGroupsWith(border, now);
      border.rulesCycles = cyclesOf(now);
      border.cycles = cyclesOf(made);
      auto host = llvm::find_if(made, [&op = border.op](const Group &other) { return other.ops.contains(op); });
      if (host == made.end() || host->anchor == group.anchor)
        return;
      border.other = placeIn(*host, after);
      border.isSplit = made.size() > now.size();
      found.push_back(border);
      if (border.kernels.size() == 1 || roleOf(host->anchor) == Role::Elementwise)
        return;
      for (unsigned kernel : llvm::drop_begin(border.kernels)) {
        Operation *output = groups[kernel].output;
        for (Operation *user : output->getUsers())
          border.cuts.push_back({output, user});
      }
    }
  }

  /// The groups that take the place of those that `border` changes, which `now` gets.
  std::vector<Group> makeGroupsWith(const Border &border, std::vector<Group> &now) {
    SmallVector<Operation *> ops;
    for (unsigned kernel : border.kernels) {
      now.push_back(groups[kernel]);
      ops.append(groups[kernel].ops.begin(), groups[kernel].ops.end());
    }
    llvm::sort(ops, [&](Operation *a, Operation *b) { return order[a] < order[b]; });
    for (Operation *op : ops)
      assigned.erase(op);
    cuts.insert(border.cuts.begin(), border.cuts.end());
    std::vector<Group> made = makeGroups(ops);
    cuts.clear();
    for (const Group &group : made)
      for (Operation *op : group.ops)
        assigned.erase(op);
    assigned.insert(ops.begin(), ops.end());
    return made;
  }

  Group makeGroup(Operation *first) {
    Group group;
    group.place = placeOf(first);
    Role role = roleOf(first);
    // Reductions and element-by-element kernels read their input through the same conversions as any operand.
    if (role == Role::Elementwise || role == Role::Reduction)
      for (Value operand : first->getOperands())
        if (isSideConversion(operand) && placeOf(operand.getDefiningOp()) == group.place &&
            !isCut(first, operand.getDefiningOp()))
          group.ops.insert(operand.getDefiningOp());
    if (role == Role::Elementwise)
      addSides(first, group.place, group.ops);
    if (role == Role::Reduction && group.place.machine())
      takeProducers(first, group);
    group.ops.insert(first);
    group.anchor = group.output = first;
    if (role == Role::Contraction && group.place.machine()) {
      for (OpOperand &operand : first->getOpOperands())
        takeTranspose(operand, group);
      takeConversion(group);
    }
    const bool isGather = isa<GatherOp>(first) && !group.place.machine();
    if (isGather)
      takeViews(first->getOperand(0), first, group);
    if (role == Role::Other && !isGather)
      group.ends = textOf(first) + " is a kernel of its own";
    else if (endsKernel(first, group.place))
      group.ends = "nothing follows a reduction of rows on the accelerator";
    else
      while (extend(group)) {
      }
    for (Operation *op : group.ops)
      assigned.insert(op);
    return group;
  }

  /// Whether the steps of a kernel can come before `op` that make what it reads: it reduces rows, and reads nothing else.
  static bool readsSteps(Operation *op) {
    if (auto reduce = dyn_cast<ReduceOp>(op))
      return reduce.getAxes().size() == 1 && reduce.getAxes()[0] + 1 == int64_t(shapeOf(reduce.getX()).size());
    auto isOfLast = [&](int64_t axis) { return axis + 1 == int64_t(shapeOf(op->getResult(0)).size()); };
    auto softmax = dyn_cast<SoftmaxOp>(op);
    auto norm = dyn_cast<LayerNormOp>(op);
    return (softmax && isOfLast(softmax.getAxis())) || (norm && isOfLast(norm.getAxis()));
  }

  /// The element-by-element ops that make what the reduction `first` alone reads, where a row of all that the kernel reads and makes has room
  /// in half of the scratchpad. Those that a contraction can take have gone there.
  void takeProducers(Operation *first, Group &group) {
    if (!readsSteps(first))
      return;
    llvm::SmallSetVector<Operation *, 8> taken(group.ops.begin(), group.ops.end());
    taken.insert(first);
    SmallVector<Operation *> open{first};
    while (!open.empty()) {
      Operation *reader = open.pop_back_val();
      for (Value operand : reader->getOperands()) {
        Operation *op = operand.getDefiningOp();
        if (!op || taken.contains(op) || assigned.contains(op) || isCut(reader, op) ||
            (!isa<ReshapeOp>(op) && (roleOf(op) != Role::Elementwise || !(placeOf(op) == group.place))) ||
            withoutOnes(shapeOf(operand)) != withoutOnes(shapeOf(first->getOperand(0))) ||
            !llvm::all_of(op->getUsers(), [&](Operation *user) { return taken.contains(user); }))
          continue;
        // A reshape joins with what it reads.
        if (isa<ReshapeOp>(op)) {
          taken.insert(op);
          open.push_back(op);
          continue;
        }
        taken.insert(op);
        const unsigned tensors = countTensors(taken.getArrayRef());
        if (taken.size() >= kMaxOps || tensors > kMaxTensors ||
            shapeOf(operand).back() * 4 * int64_t(taken.size() + tensors) > group.place.machine()->scratchpad / 2)
          return;
        group.ops.insert(op);
        open.push_back(op);
        for (Operation *user = reader; isa<ReshapeOp>(user); user = *user->user_begin())
          group.ops.insert(user);
      }
    }
  }

  /// A shape without the ones that it begins with.
  static ArrayRef<int64_t> withoutOnes(ArrayRef<int64_t> shape) {
    return shape.drop_while([](int64_t dim) { return dim == 1; });
  }

  /// The slices and transposes that make the table `value`, which `reader` alone reads: they become the way it is walked.
  void takeViews(Value value, Operation *reader, Group &group) {
    SmallVector<Operation *> taken;
    for (Operation *op; (op = value.getDefiningOp()) && value.hasOneUse() && !isCut(reader, op) && !assigned.contains(op);
         reader = op, value = op->getOperand(0)) {
      auto reshape = dyn_cast<ReshapeOp>(op);
      if (!(reshape && keepsDims(reshape)) &&
          (!isa<SliceOp, TransposeOp>(op) || runsBackwards(op) || placeOf(op).target != group.place.target))
        break;
      taken.push_back(op);
    }
    // A reshape that leads to no view stays outside.
    while (!taken.empty() && isa<ReshapeOp>(taken.back()))
      taken.pop_back();
    group.ops.insert(taken.begin(), taken.end());
  }

  /// Whether a reshape only adds or drops dims of 1.
  static bool keepsDims(ReshapeOp reshape) {
    auto dims = [](ArrayRef<int64_t> shape) {
      return llvm::to_vector(llvm::make_filter_range(shape, [](int64_t dim) { return dim != 1; }));
    };
    return dims(shapeOf(reshape.getX())) == dims(shapeOf(reshape));
  }

  /// A transpose that only this operand reads, perhaps through a reshape, becomes the way the kernel walks its source.
  void takeTranspose(OpOperand &operand, Group &group) {
    SmallVector<Operation *> taken;
    Value value = operand.get();
    Operation *reader = operand.getOwner();
    for (Operation *op; (op = value.getDefiningOp()) && value.hasOneUse() && !isCut(reader, op); value = op->getOperand(0)) {
      reader = op;
      taken.push_back(op);
      if (auto transpose = dyn_cast<TransposeOp>(op)) {
        if (!assigned.contains(op) && !constantOf(op->getOperand(0)) && placeOf(op) == group.place &&
            readsTransposed(operand, transpose.getPerm(), *group.place.machine()))
          group.ops.insert(taken.begin(), taken.end());
        return;
      }
      auto reshape = dyn_cast<ReshapeOp>(op);
      if (!reshape || !keepsDims(reshape))
        return;
    }
  }

  /// The conversion of a network's input, if only a convolution reads it whose taps the load engine packs: it is done on chip, on packed
  /// taps, so that the converted image does not go to DRAM and back.
  void takeConversion(Group &group) {
    Operation *anchor = group.anchor;
    const ArrayMachine &array = *group.place.machine();
    auto conv = dyn_cast<ConvOp>(anchor);
    auto integer = dyn_cast<ConvIntegerOp>(anchor);
    if (!(conv && convertsInput(conv, array)) && !(integer && convertsInput(integer, array)))
      return;
    OpOperand *input = &anchor->getOpOperand(0);
    Operation *op = nullptr;
    while ((op = input->get().getDefiningOp()) && group.ops.contains(op))
      input = &op->getOpOperand(0);
    if (op && isCut(input->getOwner(), op))
      return;
    if (!op) { // graph-legalize-types converts it
      if (array.type == "bf16" && input->get().hasOneUse())
        group.converts = input->get();
      return;
    }
    if (!isa<QuantizeOp>(op) || cast<QuantizeOp>(op).getScales().size() > 1 || !op->hasOneUse() || assigned.contains(op) ||
        !(placeOf(op) == group.place) || !isa<BlockArgument>(op->getOperand(0)))
      return;
    group.ops.insert(op);
  }

  /// The transpose of a kernel's result, if it leaves the channels innermost: the store engine walks the result as it will lie.
  void takeResultTranspose(Group &group) {
    Role role = roleOf(group.anchor);
    if (!group.place.machine() || (role != Role::Contraction && role != Role::Window && role != Role::Elementwise))
      return;
    SmallVector<Operation *> taken;
    for (Operation *op = group.output; op->hasOneUse();) {
      if (isCut(*op->user_begin(), op))
        return;
      op = *op->user_begin();
      auto reshape = dyn_cast<ReshapeOp>(op);
      auto transpose = dyn_cast<TransposeOp>(op);
      if (assigned.contains(op) || (!transpose && !(reshape && keepsDims(reshape))))
        return;
      taken.push_back(op);
      if (!transpose)
        continue;
      int64_t last = int64_t(transpose.getPerm().size()) - 1;
      if (transpose.getPerm()[last] != last || shapeOf(transpose.getX()).size() > 4)
        return;
      group.ops.insert(taken.begin(), taken.end());
      assigned.insert(taken.begin(), taken.end());
      group.output = op;
      return;
    }
  }

  /// On the accelerator, the steps of a kernel share their positions and channels: nothing follows the reduction of
  /// rows.
  static bool endsKernel(Operation *op, const Place &place) {
    return isa<ReduceOp>(op) && shapeOf(op->getOperand(0)).size() == 2 && place.machine();
  }

  /// Slices and transposes compose with each other and with one padding behind them; a slice that runs backwards is a kernel
  /// of its own.
  Group makeMovement(Operation *last) {
    Group group;
    group.place = placeOf(last);
    group.anchor = group.output = last;
    std::function<void(Operation *, bool)> take = [&](Operation *op, bool mayPad) {
      group.ops.insert(op);
      if (runsBackwards(op))
        return;
      mayPad = mayPad && !isa<SliceOp, PadOp>(op);
      for (Value operand : op->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (producer && isa<SliceOp, TransposeOp, PadOp>(producer) && !runsBackwards(producer) && operand.hasOneUse() &&
            !isCut(op, producer) && !assigned.contains(producer) && (mayPad || !isa<PadOp>(producer)) &&
            placeOf(producer) == group.place)
          take(producer, mayPad);
      }
    };
    take(last, true);
    for (Operation *op : group.ops)
      assigned.insert(op);
    return group;
  }

  static bool runsBackwards(Operation *op) {
    auto slice = dyn_cast<SliceOp>(op);
    return slice && llvm::any_of(slice.getSteps(), [](int64_t step) { return step < 0; });
  }

  /// A softmax of a product's rows needs all columns of a row at once: of as many rows as the array is high, twice.
  bool isSoftmaxOfRows(Operation *op, const llvm::SmallSetVector<Operation *, 8> &inside, const ArrayMachine &array) {
    return isa<SoftmaxOp>(op) && roleOf(inside.front()) != Role::Reduction &&
           llvm::none_of(inside, [](Operation *other) { return roleOf(other) == Role::Window; }) &&
           llvm::any_of(inside, [](Operation *other) { return roleOf(other) == Role::Contraction; }) &&
           2 * array.rows * int64_t(llvm::alignTo(shapeOf(op->getResult(0)).back(), uint64_t(array.columns))) <= array.sums;
  }

  /// Whether each channel has its own sums: windows of the vector engine.
  static bool isOfChannels(Operation *op) {
    auto conv = dyn_cast<ConvOp>(op);
    auto integer = dyn_cast<ConvIntegerOp>(op);
    return (conv && isDepthwise(conv)) || (integer && isDepthwise(integer));
  }

  /// Whether op is the mean of all positions of a contraction's result, and those of a block of its columns have room as sums, twice,
  /// and in half of the scratchpad as floats, beside what else is read there and the image of as many channels as the array has rows.
  bool isPoolOfAll(Operation *op, Operation *output, const llvm::SmallSetVector<Operation *, 8> &inside,
                   const ArrayMachine &array) {
    if (!isa<AveragePoolOp, QLinearGlobalAveragePoolOp>(op) || op->getOperand(0) != output->getResult(0) ||
        !output->hasOneUse())
      return false;
    ArrayRef<int64_t> y = shapeOf(output->getResult(0));
    if (auto pool = dyn_cast<AveragePoolOp>(op);
        pool && (pool.getKernel() != y.slice(1, 2) || llvm::any_of(pool.getPads(), [](int64_t pad) { return pad != 0; })))
      return false;
    auto conv = llvm::find_if(inside, [](Operation *other) { return isa<ConvOp, ConvIntegerOp>(other); });
    if (conv == inside.end() || isOfChannels(*conv) ||
        llvm::any_of(inside, [](Operation *other) { return roleOf(other) == Role::Window; }))
      return false;
    ArrayRef<int64_t> x = shapeOf((*conv)->getOperand(0)), w = shapeOf((*conv)->getOperand(1));
    const int64_t sums = y[1] * y[2] * array.columns;
    const int64_t image = x[1] * x[2] * std::max<int64_t>(array.rows, w[1] * std::min(w[2], array.rows));
    const int64_t others = std::max<int64_t>(countTensors(inside.getArrayRef()), 2) - 2; // but the image and the weights
    const int64_t bytes = 4 * sums * (1 + others) + image * (elementOf((*conv)->getOperand(0)).getIntOrFloatBitWidth() / 8);
    return 2 * sums <= array.sums && 2 * bytes <= array.scratchpad;
  }

  /// Whether op takes the largest of a convolution's sums in every window; graph-move-pools put it there.
  static bool isMaximumOfSums(Operation *op, Operation *output) {
    return op->hasAttr(kOfSumsAttr) && isa<ConvOp, ConvIntegerOp>(output) && output->hasOneUse();
  }

  /// Why op cannot follow in a kernel whose values so far are the results of `inside`; empty if it can.
  std::string whyNotJoined(Operation *op, Operation *output, const llvm::SmallSetVector<Operation *, 8> &inside,
                           const Place &place) {
    if (assigned.contains(op))
      return textOf(op) + " is part of a kernel that was formed before";
    if (const Place other = placeOf(op); !(other == place))
      return textOf(op) + " is for target " + other.target->name().str();
    for (Value operand : op->getOperands())
      if (inside.contains(operand.getDefiningOp()) && isCut(op, operand.getDefiningOp()))
        return cuts.contains({operand.getDefiningOp(), op}) ? textOf(op) + " costs less elsewhere"
                                                            : "a kernel is to begin at " + textOf(op);
    const ArrayMachine *machine = place.machine();
    if (machine && (isPoolOfAll(op, output, inside, *machine) || isMaximumOfSums(op, output)))
      return "";
    if (roleOf(op) == Role::Movement)
      return textOf(op) + " changes the layout";
    if (roleOf(op) != Role::Elementwise && !(machine && isSoftmaxOfRows(op, inside, *machine)))
      return textOf(op) + " is not element by element: " + operators::nameOf(fusionTypeOf(op).fusion) + ", " +
             operators::nameOf(fusionTypeOf(op).mapping);
    if (shapeOf(op->getResult(0)) != shapeOf(output->getResult(0)))
      return textOf(op) + " has a result of another shape";
    for (Value operand : op->getOperands())
      if (inside.contains(operand.getDefiningOp()) && shapeOf(operand) != shapeOf(op->getResult(0)))
        return textOf(op) + " broadcasts what it reads";
    // Its two roundings take b first: the chain can carry b only (docs/design/quantised-arithmetic.md).
    if (auto add = dyn_cast<QLinearAddOp>(op); add && inside.contains(add.getA().getDefiningOp()))
      return textOf(op) + " can take the kernel's result as its second operand only";
    return "";
  }

  /// Whether `value` is what a contraction without a kernel has summed up, wider than 8 bits.
  bool isOpenSum(Value value) {
    for (Operation *op; (op = value.getDefiningOp()) && !assigned.contains(op) && value.hasOneUse();) {
      if (roleOf(op) == Role::Contraction)
        return placeOf(op).machine();
      if (roleOf(op) != Role::Elementwise || isEightBit(elementOf(value)))
        return false;
      auto input = llvm::find_if(op->getOperands(), [](Value operand) { return !isConstant(operand); });
      if (input == op->operand_end())
        return false;
      value = *input;
    }
    return false;
  }

  /// Whether the group's result has 8 bits and meets a wider sum: the kernel of that takes both, and what travels between the
  /// two is narrow.
  bool meetsWiderSum(const Group &group) {
    Value value = group.output->getResult(0);
    if (!isEightBit(elementOf(value)))
      return false;
    while (value.hasOneUse() && isa<DequantizeOp, CastOp>(*value.user_begin()))
      value = value.user_begin()->getResult(0);
    return value.hasOneUse() && llvm::any_of(value.user_begin()->getOperands(), [&](Value operand) {
             return operand != value && shapeOf(operand) == shapeOf(value) && isOpenSum(operand);
           });
  }

  /// Adds the ops between the group's result and the next value that all of them lead to. False if there is none.
  bool extend(Group &group) {
    llvm::SmallSetVector<Operation *, 8> inside(group.ops.begin(), group.ops.end());
    Operation *last = group.output;
    if (last->use_empty()) {
      group.ends = "nothing reads its result";
      return false;
    }
    if (meetsWiderSum(group)) {
      group.ends = "the kernel of the wider sum that its result is added to reads it in 8 bits";
      return false;
    }
    while (inside.size() < kMaxOps) {
      // The earliest op that uses a value of the group and is not part of it yet.
      Operation *next = nullptr;
      for (Operation *op : inside)
        for (Operation *user : op->getUsers()) {
          if (inside.contains(user))
            continue;
          if (!order.count(user)) { // the return
            group.ends = textOf(op) + " makes a result of the network";
            return false;
          }
          if (!next || order[user] < order[next])
            next = user;
        }
      group.ends = next ? whyNotJoined(next, group.output, inside, group.place) : "nothing reads its result";
      if (!group.ends.empty())
        return false;
      addSides(next, group.place, inside);
      inside.insert(next);
      last = next;
      if (countTensors(inside.getArrayRef()) > kMaxTensors) {
        group.ends = "with " + textOf(next) + " it would read more than " + std::to_string(kMaxTensors) + " tensors";
        return false;
      }
      bool closed = llvm::all_of(inside, [&](Operation *op) {
        return op == last || llvm::all_of(op->getUsers(), [&](Operation *user) { return inside.contains(user); });
      });
      if (!closed)
        continue;
      group.outputs.push_back({group.output, group.ops.size()});
      group.ops = inside;
      group.output = last;
      return true;
    }
    group.ends = "a kernel has at most " + std::to_string(kMaxOps) + " ops";
    return false;
  }

  /// A symbol made of the anchor's first node.
  std::string nameFor(const Group &group) {
    std::vector<std::string> nodes = nodeNames(group.anchor->getLoc());
    std::string name = nodes.empty() ? group.anchor->getName().stripDialect().str() : nodes.front();
    for (char &c : name)
      if (!llvm::isAlnum(c) && c != '_')
        c = '_';
    if (name.empty() || llvm::isDigit(name.front()) || name == "main")
      name = "k_" + name;
    std::string unique = name;
    while (!names.insert(unique).second)
      unique = name + "_" + std::to_string(++suffixes[name]);
    return unique;
  }

  void outline(Group &group) {
    SmallVector<Operation *> ops(group.ops.begin(), group.ops.end());
    llvm::sort(ops, [&](Operation *a, Operation *b) { return order[a] < order[b]; });
    llvm::SmallSetVector<Value, 8> arguments;
    for (Operation *op : ops)
      for (Value operand : op->getOperands())
        if (!group.ops.contains(operand.getDefiningOp()) && !isConstant(operand))
          arguments.insert(operand);
    Location loc = fuseLocations(ops);
    std::vector<std::string> nodes = nodeNames(loc);
    // Constants have names too.
    if (!modelNodes.empty())
      llvm::erase_if(nodes, [&](const std::string &name) { return !modelNodes.contains(name); });

    OpBuilder builder(main.getContext());
    builder.setInsertionPointToEnd(main->getBlock());
    SmallVector<Type> argumentTypes;
    for (Value argument : arguments)
      argumentTypes.push_back(argument.getType());
    TypeRange results = group.output->getResultTypes();
    auto kernel = builder.create<func::FuncOp>(loc, nameFor(group), builder.getFunctionType(argumentTypes, results));
    kernel.setPrivate();
    SmallVector<StringRef> nodeRefs(nodes.begin(), nodes.end());
    kernel->setAttr(kNodesAttr, builder.getStrArrayAttr(nodeRefs));
    kernel->setAttr(kTargetAttr, builder.getStringAttr(group.place.target->name()));
    if (auto it = llvm::find(arguments, group.converts); it != arguments.end())
      kernel.setArgAttr(unsigned(it - arguments.begin()), kConvertsAttr, builder.getUnitAttr());
    if (request.explains)
      kernel->setAttr(kEndsAttr,
                      builder.getStringAttr(group.ends.empty() ? "a change of layout is a kernel of its own" : group.ends));
    if (request.explains) {
      SmallVector<std::string> texts;
      for (Operation *op : ops)
        if (auto border = borders.find(op); border != borders.end())
          texts.push_back(quotedName(op) + " " + border->second);
      if (!texts.empty())
        kernel->setAttr(kBordersAttr, builder.getStrArrayAttr(SmallVector<StringRef>(texts.begin(), texts.end())));
    }
    if (!group.place.reason.empty())
      kernel->setAttr(kReasonAttr, builder.getStringAttr(group.place.reason));

    Block *body = kernel.addEntryBlock();
    builder.setInsertionPointToStart(body);
    IRMapping mapping;
    for (auto [argument, inner] : llvm::zip(arguments, body->getArguments()))
      mapping.map(argument, inner);
    for (Operation *op : ops) {
      for (Value operand : op->getOperands())
        if (!mapping.contains(operand) && isConstant(operand))
          builder.clone(*operand.getDefiningOp(), mapping);
      builder.clone(*op, mapping);
    }
    SmallVector<Value> returned;
    for (Value result : group.output->getResults())
      returned.push_back(mapping.lookup(result));
    builder.create<func::ReturnOp>(loc, returned);

    builder.setInsertionPoint(group.output);
    auto call = builder.create<func::CallOp>(loc, kernel, arguments.getArrayRef());
    group.output->replaceAllUsesWith(call);
    for (Operation *op : llvm::reverse(ops))
      op->erase();
  }
};

struct PartitionKernelsPass : impl::PartitionKernelsPassBase<PartitionKernelsPass> {
  using PartitionKernelsPassBase::PartitionKernelsPassBase;
  PartitionKernelsPass(const KernelTargets &targets, const KernelRequest &request) : targets(targets), request(request) {}

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal() || !llvm::hasSingleElement(main.getBody())) {
      getOperation().emitError() << "no function @main with one block";
      return signalPassFailure();
    }
    if (array != "int8" && array != "bf16" && array != "fp32") {
      getOperation().emitError() << "array is \"" << array << "\", expected int8, bf16 or fp32";
      return signalPassFailure();
    }
    if (failed(Partition(main, targets.empty() ? targetsOfOptions() : targets, request).run()))
      signalPassFailure();
  }

private:
  KernelTargets targetsOfOptions() const {
    if (cpuOnly)
      return {makeCpuTarget()};
    ArrayMachine machine;
    machine.type = array;
    machine.rows = rows;
    machine.columns = columns;
    machine.loadEngines = loadEngines;
    machine.sums = sums;
    machine.scratchpad = scratchpad;
    machine.dramBytes = dramBytes;
    return {makeArrayTarget(machine), makeCpuTarget()};
  }

  KernelTargets targets; ///< empty: those of the options
  KernelRequest request;
};

} // namespace

std::unique_ptr<Pass> createPartitionKernelsPass(const KernelTargets &targets, const KernelRequest &request) {
  return std::make_unique<PartitionKernelsPass>(targets, request);
}

} // namespace tw::graph
