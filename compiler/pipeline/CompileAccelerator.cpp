//===- CompileAccelerator.cpp - Kernels to one verified program ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/memory/Placement.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/pipeline/Diagnostics.h"
#include "compiler/schedule/Reroll.h"
#include "compiler/schedule/Sequence.h"
#include "compiler/schedule/Synchronize.h"
#include "compiler/schedule/Verifier.h"
#include "isa/timing/Digest.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace tw;
using namespace tw::pipeline;

namespace {
constexpr uint64_t kAlignment = 4096; ///< tensors start in different DRAM rows, and never share a burst

constexpr int64_t kSpareBytes = 64;   ///< as much as keeps what lies before it aligned
constexpr double kLeastGain = 1.01;   ///< by the estimate, for what gains little
constexpr double kLeastBeside = 1.003; ///< the same, for parts of products, whose weights are loaded again

constexpr size_t kTriedFirst = 4;       ///< tensors that could stay on chip if others did not
constexpr size_t kTriedBeside = 3;      ///< layers that could run beside the contractions next to them
constexpr double kBesideSplit = 0.6875; ///< of the room in scratchpad 0, for those contractions
constexpr double kWorthRefining = 1.02; ///< of the best estimate so far

/// How often a program that a search would like is tried, each time without what has failed before.
constexpr unsigned kAttempts = 4;

/// What a search decides for each layer, in the order of its picks: its tile; where its buffers lie; whether its result stays on
/// chip. The choice of the whole network comes last.
enum class DecisionOn { Tile, Place, Result };

/// Where a layer's room may be cut in two, so that it and its neighbours share no bank: its own is the upper part.
constexpr double kBankSplits[] = {0.625, 0.8125, 0.75, 0.5};
constexpr size_t kSplitBeside = 4; ///< the pick of 0.75: of a kernel that runs between the steps of the next one

/// Where a value of @main lies.
struct Home {
  size_t range = 0; ///< index into the live ranges
};

/// A kernel result that lies inside a larger tensor, the concatenation it is part of.
struct Part {
  SmallVector<int64_t> shape; ///< of the whole
  int64_t offset = 0;         ///< elements
};

/// The concatenation a function consists of, if it does nothing else.
tensor::ConcatOp onlyConcat(func::FuncOp function) {
  Block &body = function.getBody().front();
  if (body.getOperations().size() != 2)
    return {};
  auto concat = dyn_cast<tensor::ConcatOp>(body.front());
  if (!concat)
    return {};
  for (Value input : concat.getInputs())
    if (!llvm::isa<BlockArgument>(input) || !input.hasOneUse())
      return {};
  return concat;
}

std::optional<isa::ElementKind> elementKind(Type type, bool isUnsigned) {
  if (type.isInteger(8))
    return isUnsigned || type.isUnsignedInteger() ? isa::ElementKind::U8 : isa::ElementKind::I8;
  if (type.isInteger(1))
    return isa::ElementKind::Bool;
  if (type.isInteger(32))
    return isa::ElementKind::I32;
  if (type.isInteger(64))
    return isa::ElementKind::I64;
  if (type.isF32())
    return isa::ElementKind::F32;
  if (type.isBF16())
    return isa::ElementKind::Bf16;
  return std::nullopt;
}

class NetworkCompiler {
public:
  /// What an attempt has found out that the next one must heed.
  struct Lessons {
    std::vector<bool> alone; ///< per layer: its own tiles need the room that tensors took
    int64_t spare = 0;       ///< bytes of scratchpad 0 to leave free
    std::vector<std::pair<unsigned, unsigned>> banned; ///< groups of layers, first and last, for which there is no room
    bool isNew = false;      ///< another attempt may succeed
  };

  NetworkCompiler(ModuleOp module, const CompileOptions &options, Lessons &lessons, accel::Rankings &rankings,
                  const Picks &picks = {}, const CompiledNetwork *first = nullptr, bool onlyTimed = false)
      : module(module), options(options), machine(*options.machine), lessons(lessons), picks(picks), first(first),
        onlyTimed(onlyTimed) {
    network.picks = picks; // the tiles come first
    if (first)
      fixedChoice = first->weighed[picks.empty() || first->weighed.size() == 1 ? 0 : picks.back()];
    network.rankings = &rankings;
  }

  llvm::Expected<CompiledNetwork> run();
  /// The ways to compile the whole network, in the order of their full estimates: run() leaves one as soon as it cannot be the best,
  /// and may refine others than these for that.
  llvm::Expected<std::vector<NetworkChoice>> weigh();
  /// For run(): what a search may try besides.
  std::vector<NetworkChoice> others;
  /// What the list scheduler expects of run()'s program.
  llvm::Expected<Measurement> estimate();
  /// The tiles phase alone.
  llvm::Expected<Tiles> runTiles();

private:
  ModuleOp module;
  const CompileOptions &options;
  const timing::MachineParams &machine;
  Lessons &lessons;
  const Picks picks;                        ///< of `first->decisions`
  const CompiledNetwork *first;             ///< of a search, without picks; null: this is it
  const bool onlyTimed = false;             ///< the program has no constants, and there is no text of it
  std::optional<NetworkChoice> fixedChoice; ///< nothing: the best
  func::FuncOp mainFunction;
  std::vector<memory::LiveRange> ranges;
  std::vector<memory::LiveRange> apart; ///< the ranges if no kernels run side by side
  llvm::DenseMap<Value, Home> homes;
  llvm::DenseMap<Value, Part> parts;
  llvm::DenseSet<Operation *> inPlace; ///< concatenations whose producers write the result
  CompiledNetwork result;
  accel::NetworkProgram network;

  /// A kernel of @main, with the live range of each of its tensors.
  struct Layer {
    func::FuncOp function;
    accel::Kernel kernel;
    std::vector<size_t> ranges; ///< per kernel.tensors; constants: 0
    std::vector<uint64_t> addresses;
    unsigned step = 0; ///< as live ranges count
    std::optional<accel::Kernel> packed; ///< with pixels side by side in the array, if it can be
    const accel::Kernel &form(bool packs) const { return packed && kernel.request.packed.value_or(packs) ? *packed : kernel; }
  };
  std::vector<Layer> layers;
  accel::Fusion fusion; ///< what stays on chip
  NetworkChoice choice; ///< the one at hand
  bool weighsAll = false;   ///< estimates are not cut short
  bool isRegrouped = false; ///< tensors lie where some groups want them
  std::vector<schedule::TileProgram> drained; ///< Across::None: each layer on its own

  llvm::Error emit();
  llvm::Error placeTensors();
  void joinConcats();
  llvm::Error describe(bool inputs);
  llvm::Error matchKernels();
  llvm::Error packLayer(Layer &layer);
  /// What a search may decide.
  llvm::Error listDecisions();
  llvm::Error listPlaces(llvm::function_ref<void(size_t layer, unsigned candidates, DecisionOn what, const char *name)> add);
  /// Which of a layer's candidates a search has picked. A layer alone has a tile to decide, and no more.
  unsigned pickOf(DecisionOn what, size_t layer) const {
    return layers.size() > 1 && !picks.empty() ? picks[size_t(what) * layers.size() + layer] : 0;
  }
  struct Place {
    bool isBehind = true; ///< the buffers of the layer before; with banks: in the other memories
    std::optional<std::array<int64_t, 2>> banks;
  };
  Place placeOf(size_t layer) const;
  /// Whether the layer runs between the steps of the next one (schedule::Order::Interleaved).
  bool isInterleaved(size_t layer) const {
    const accel::Kernel &kernel = layers[layer].kernel;
    return choice.order == schedule::Order::Interleaved && layer + 1 < layers.size() && !kernel.anchor && kernel.copies.empty() &&
           !fusion.groupOf(unsigned(layer));
  }
  /// The ways in which the layer could run beside the contractions next to it, if their positions or channels are all that ties it to
  /// them.
  llvm::SmallVector<Beside> waysBeside(size_t layer) const;
  const Beside *besideOf(size_t layer) const {
    auto it = llvm::find_if(choice.beside, [&](const Beside &b) { return b.layer == layer; });
    return it == choice.beside.end() ? nullptr : &*it;
  }
  bool isApart(size_t layer) const {
    const Beside *beside = besideOf(layer);
    return beside && beside->apart;
  }
  void askForParts(size_t layer, accel::Kernel &kernel) const;
  /// What the kernels do with the tensors, and what schedule files want.
  llvm::Expected<accel::NetworkUses> describeUses();
  /// Kernels side by side use all their tensors at the same time: places for them, and for what refers to places.
  llvm::Error placeGroups();
  /// What the lower bound has to know of the ranges.
  std::vector<cost::NetworkTensor> describeTensors();
  /// What stays on chip under the choice at hand; nothing if there are not so many rules.
  llvm::Expected<std::optional<accel::Fusion>> chooseOnChip();
  /// Kernel after kernel, then their steps side by side; returns the cycles that this is estimated to take. No program if that
  /// is `limit` or more.
  llvm::Expected<double> emitWith(accel::Fusion chosen, double limit);
  llvm::Error emitKernels();
  /// The planes in which a tensor's only reader takes it, if that is a convolution of an NCHW image; else 1.
  int64_t planesOf(size_t range) const;
  llvm::Error describeProblem();
  llvm::Error assemble();
  bool overlaps() const { return options.schedule == accel::Schedule::Modulo || options.schedule == accel::Schedule::Search; }
  bool isOutput(size_t range) {
    return llvm::any_of(mainFunction.getBody().front().getTerminator()->getOperands(),
                        [&](Value output) { return homes.find(output)->second.range == range; });
  }
  uint64_t addressOf(Value value) { return ranges[homes.find(value)->second.range].address; }
};

uint64_t bytesOf(RankedTensorType type) {
  return uint64_t(type.getNumElements()) * std::max(1u, type.getElementTypeBitWidth() / 8);
}

llvm::Error NetworkCompiler::placeTensors() {
  Block &body = mainFunction.getBody().front();
  unsigned step = 0;
  auto define = [&](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    homes[value] = {ranges.size()};
    ranges.push_back({bytesOf(type), step, step, 0});
  };
  for (BlockArgument argument : body.getArguments())
    define(argument);
  for (Operation &op : body) {
    ++step;
    for (Value operand : op.getOperands())
      if (auto home = homes.find(operand); home != homes.end())
        ranges[home->second.range].end = step;
    if (llvm::isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ReshapeOp, tensor::CastOp>(op)) {
      homes[op.getResult(0)] = homes[op.getOperand(0)];
    } else if (llvm::isa<func::CallOp, arith::ConstantOp>(op)) {
      for (Value value : op.getResults())
        if (llvm::isa<RankedTensorType>(value.getType()))
          define(value);
    } else if (!llvm::isa<func::ReturnOp>(op)) {
      return llvm::createStringError("internal: '%s' has no place in @main", op.getName().getStringRef().str().c_str());
    }
  }
  joinConcats();
  // Inputs are written before the program starts and outputs read after it ends: neither shares memory with anything.
  for (BlockArgument argument : body.getArguments())
    ranges[homes[argument].range].end = step + 1;
  for (Value output : body.getTerminator()->getOperands()) {
    ranges[homes[output].range].begin = 0;
    ranges[homes[output].range].end = step + 1;
  }
  network.nextAddress = memory::place(ranges, kAlignment);
  apart = ranges;
  return llvm::Error::success();
}

/// A concatenation of kernel results that nothing else reads needs no copies: each producer stores its part in place.
void NetworkCompiler::joinConcats() {
  for (auto call : mainFunction.getOps<func::CallOp>()) {
    auto function = module.lookupSymbol<func::FuncOp>(call.getCallee());
    tensor::ConcatOp concat = function ? onlyConcat(function) : tensor::ConcatOp();
    if (!concat)
      continue;
    bool possible = true;
    for (Value operand : call.getOperands()) {
      auto producer = operand.getDefiningOp<func::CallOp>();
      auto made = producer ? module.lookupSymbol<func::FuncOp>(producer.getCallee()) : func::FuncOp();
      // Copies have views of their own, and a part of a part would need two, as would a part of a transposed result.
      possible &= made && operand.hasOneUse() && !parts.count(operand) && !onlyConcat(made) &&
                  llvm::any_of(made.getBody().front(), [](Operation &op) { return llvm::isa<linalg::GenericOp>(op); }) &&
                  !made.getBody().front().getTerminator()->getOperand(0).getDefiningOp<linalg::TransposeOp>() &&
                  cast<RankedTensorType>(operand.getType()).getRank() <= int64_t(accel::kAxes);
    }
    if (!possible)
      continue;
    Home whole = homes[call.getResult(0)];
    SmallVector<int64_t> shape(concat.getResultType().getShape());
    int64_t inner = 1, offset = 0;
    for (size_t i = concat.getDim() + 1; i < shape.size(); ++i)
      inner *= shape[i];
    for (Value input : concat.getInputs()) {
      Value operand = call.getOperand(cast<BlockArgument>(input).getArgNumber());
      memory::LiveRange &own = ranges[homes[operand].range];
      ranges[whole.range].begin = std::min(ranges[whole.range].begin, own.begin);
      own.bytes = 0;
      homes[operand] = whole;
      parts[operand] = {shape, offset};
      offset += cast<RankedTensorType>(input.getType()).getDimSize(int64_t(concat.getDim())) * inner;
    }
    inPlace.insert(call);
  }
}

llvm::Error NetworkCompiler::describe(bool inputs) {
  Block &body = mainFunction.getBody().front();
  auto add = [&](Value value, DictionaryAttr attributes, const std::string &fallback, std::vector<isa::TensorInfo> &list)
      -> llvm::Error {
    auto type = cast<RankedTensorType>(value.getType());
    isa::TensorInfo info;
    info.name = fallback;
    bool isUnsigned = false;
    if (attributes) {
      if (auto name = attributes.getAs<StringAttr>("graph.name"))
        info.name = name.getValue().str();
      isUnsigned = attributes.contains("tilewright.unsigned");
    }
    std::optional<isa::ElementKind> kind = elementKind(type.getElementType(), isUnsigned);
    if (!kind) {
      std::string text;
      llvm::raw_string_ostream(text) << type.getElementType();
      return llvm::createStringError("%s '%s' has element type %s, which the accelerator does not store",
                                     inputs ? "input" : "output", info.name.c_str(), text.c_str());
    }
    info.type = *kind;
    info.shape.assign(type.getShape().begin(), type.getShape().end());
    info.address = addressOf(value);
    info.bytes = bytesOf(type);
    list.push_back(info);
    return llvm::Error::success();
  };
  if (inputs) {
    for (BlockArgument argument : body.getArguments())
      if (llvm::Error error = add(argument, mainFunction.getArgAttrDict(argument.getArgNumber()),
                                  "input" + std::to_string(argument.getArgNumber()), result.program.inputs))
        return error;
  } else {
    for (auto [i, output] : llvm::enumerate(body.getTerminator()->getOperands()))
      if (llvm::Error error = add(output, mainFunction.getResultAttrDict(unsigned(i)), "output" + std::to_string(i),
                                  result.program.outputs))
        return error;
  }
  return llvm::Error::success();
}

/// Constants of @main go to DRAM, its calls become layers.
llvm::Error NetworkCompiler::matchKernels() {
  unsigned step = 0;
  for (Operation &op : mainFunction.getBody().front()) {
    ++step;
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto value = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (!value || op.use_empty())
        continue;
      unsigned size = std::max(1u, value.getElementType().getIntOrFloatBitWidth() / 8);
      network.constants.push_back({addressOf(constant.getResult()), [value, size] {
        std::vector<uint8_t> bytes(size_t(value.getNumElements()) * size);
        if (value.getElementType().isInteger(1)) // bits in MLIR, bytes in DRAM
          llvm::copy(value.getValues<bool>(), bytes.begin());
        else
          for (int64_t i = 0; i < value.getNumElements(); ++i)
            memcpy(bytes.data() + i * size, value.getRawData().data() + (value.isSplat() ? 0 : i * size), size);
        return bytes;
      }});
      continue;
    }
    auto call = dyn_cast<func::CallOp>(op);
    if (!call)
      continue;
    auto function = module.lookupSymbol<func::FuncOp>(call.getCallee());
    if (inPlace.contains(call)) {
      FailureOr<accel::TileRequest> request = accel::requestOf(function);
      if (succeeded(request) && function->hasAttr(accel::kRequestAttr))
        return llvm::createStringError("%skernel '%s' has no code of its own: its producers write its result in place",
                                       accel::placed(request->at()).c_str(), function.getName().str().c_str());
      if (auto nodes = function->getAttrOfType<ArrayAttr>("tilewright.nodes"))
        for (Attribute node : nodes)
          result.offload.push_back({cast<StringAttr>(node).getValue().str(), "accelerator", "written in place by its producers"});
      continue;
    }
    if (auto target = function->getAttrOfType<StringAttr>("tilewright.target"); target && target.getValue() != "accel") {
      auto reason = function->getAttrOfType<StringAttr>("tilewright.reason");
      return llvm::createStringError("kernel %s cannot run on machine '%s': %s", function.getName().str().c_str(),
                                     machine.name.c_str(),
                                     reason ? reason.getValue().str().c_str() : "it is marked for the CPU");
    }
    DiagnosticText text(module.getContext());
    FailureOr<accel::Kernel> kernel = accel::matchKernel(function);
    if (failed(kernel))
      return llvm::createStringError("%s", text.str().c_str());
    if (auto part = parts.find(call.getResult(0)); part != parts.end()) {
      int64_t stride = 1, rank = int64_t(part->second.shape.size());
      for (int64_t axis = 0; axis < rank; ++axis) {
        kernel->output.stride[size_t(axis)] = stride;
        stride *= part->second.shape[size_t(rank - 1 - axis)];
      }
      kernel->output.offset = part->second.offset;
    }
    Layer layer{function, std::move(*kernel), {}, {}, step, {}};
    if (llvm::Error error = packLayer(layer))
      return error;
    for (const accel::KernelTensor &tensor : layer.kernel.tensors) {
      bool isConstant = tensor.role == accel::KernelTensor::Constant;
      Value value = isConstant                                         ? Value()
                    : tensor.role == accel::KernelTensor::Argument ? call.getOperand(tensor.index)
                                                                   : call.getResult(tensor.index);
      layer.ranges.push_back(isConstant ? 0 : homes.find(value)->second.range);
      layer.addresses.push_back(isConstant ? 0 : addressOf(value));
    }
    layers.push_back(std::move(layer));
  }
  return llvm::Error::success();
}

/// The layer's other form, and whether it is what a schedule file asks for.
llvm::Error NetworkCompiler::packLayer(Layer &layer) {
  const accel::TileRequest &request = layer.kernel.request;
  if (overlaps())
    layer.packed = accel::packPixels(layer.kernel, machine);
  if (request.packed != true)
    return llvm::Error::success();
  auto refuse = [&](const std::string &why) {
    return llvm::createStringError("%spacked is true but kernel '%s' %s", accel::placed(request.tileAt).c_str(),
                                   layer.kernel.name.c_str(), why.c_str());
  };
  if (!overlaps())
    return refuse("has base " + std::string(nameOf(options.schedule)) + ", and only modulo and search pack pixels");
  if (!layer.packed)
    return refuse("would take no fewer cycles so");
  if (int64_t count = layer.packed->outputsPerVector; request.size[1] % count)
    return refuse("then makes " + std::to_string(count) + " outputs along x at once, which do not divide the size of " +
                  std::to_string(request.size[1]));
  return llvm::Error::success();
}

NetworkCompiler::Place NetworkCompiler::placeOf(size_t layer) const {
  const accel::TileRequest &request = layers[layer].kernel.request;
  Place place;
  if ((place.banks = request.banks))
    return place;
  place.isBehind = request.behind.value_or(!choice.fromBottom);
  if (request.behind)
    return place;
  auto picked = [&](size_t other) -> size_t {
    if (other >= layers.size())
      return 0;
    const size_t pick = pickOf(DecisionOn::Place, other);
    return pick || other > layer || !isInterleaved(other) ? pick : kSplitBeside;
  };
  // What runs between the steps of the next kernels lies neither among their bands nor where they keep tensors.
  auto split = [&](size_t owner) {
    const std::vector<int64_t> &rooms = fusion.residency.room;
    const int64_t bank = int64_t(machine.scratchpads[0].bankBytes());
    const accel::Group *group = fusion.groupOf(unsigned(owner) + 1);
    int64_t room = int64_t(machine.scratchpads[0].capacityBytes), taken = 0;
    for (size_t other = owner; other < rooms.size() && other <= (group ? group->last() : owner + 1); ++other)
      if (other == owner || isInterleaved(owner))
        room = std::min(room, rooms[other]);
    if (group && isInterleaved(owner))
      taken = (group->bytes + bank - 1) / bank;
    return std::pair(std::max(taken, int64_t(kBankSplits[picked(owner) - 2] * double(room / bank))), room / bank);
  };
  auto isShared = [&](size_t other) { // with the layer behind it
    const Beside *own = besideOf(other), *next = besideOf(other + 1);
    return (own && own->apart && (own->behind || own->columns)) || (next && next->apart && next->before);
  };
  if (isShared(layer) || (layer && isShared(layer - 1))) {
    int64_t room = int64_t(machine.scratchpads[0].capacityBytes);
    for (size_t other = layer ? layer - 1 : 0; other <= layer + 1 && other < fusion.residency.room.size(); ++other)
      if (other == layer || isShared(std::min(layer, other)))
        room = std::min(room, fusion.residency.room[other]);
    const int64_t banks = room / int64_t(machine.scratchpads[0].bankBytes()), at = int64_t(kBesideSplit * double(banks));
    place.banks = isApart(layer) ? std::array<int64_t, 2>{at, banks} : std::array<int64_t, 2>{0, at};
  } else if (picked(layer) == 1) {
    place.isBehind = !place.isBehind;
  } else if (picked(layer) > 1) {
    auto [at, end] = split(layer);
    place.banks = {at, end};
  } else {
    for (size_t owner : {layer - 1, layer + 1})
      if (picked(owner) > 1)
        place.banks = {0, split(owner).first};
  }
  if (place.banks && (*place.banks)[0] >= (*place.banks)[1])
    place.banks.reset();
  if (place.banks)
    place.isBehind = true;
  return place;
}

llvm::SmallVector<Beside> NetworkCompiler::waysBeside(size_t layer) const {
  llvm::SmallVector<Beside> ways;
  const accel::Kernel &kernel = layers[layer].kernel;
  if (kernel.anchor || !kernel.copies.empty())
    return ways;
  const bool reduces = llvm::any_of(kernel.steps, [](const accel::Step &step) { return step.reducesChannels; });
  // Passes of half of the positions hide their preloads.
  const int64_t least = 2 * int64_t((machine.rows + machine.preloadRowsPerCycle - 1) / machine.preloadRowsPerCycle);
  auto isProduct = [&](const accel::Kernel &other) {
    return other.anchor && other.anchor->kind == accel::Anchor::Contraction && !other.request.size[accel::P0] &&
           other.extent[accel::P1] * other.extent[accel::P2] == 1 && other.extent[accel::P0] >= least;
  };
  auto isReadBy = [&](size_t from, size_t by) {
    const Layer &reader = layers[by];
    const size_t range = layers[from].ranges[size_t(layers[from].kernel.output.tensor)];
    return reader.kernel.anchor ? reader.ranges[size_t(reader.kernel.anchor->input.tensor)] == range
                                : llvm::is_contained(reader.ranges, range);
  };
  const bool before = reduces && layer && isProduct(layers[layer - 1].kernel) && isReadBy(layer - 1, layer);
  const bool behind = layer + 1 < layers.size() && isProduct(layers[layer + 1].kernel) && isReadBy(layer, layer + 1) &&
                      layers[layer + 1].kernel.extent[accel::P0] == kernel.extent[accel::P0] && !kernel.request.size[accel::C];
  for (bool apart : {true, false}) {
    if (before)
      ways.push_back({layer, true, false, false, apart});
    if (behind)
      ways.push_back({layer, false, true, false, apart});
    if (before && behind)
      ways.push_back({layer, true, true, false, apart});
    if (behind && !reduces && !kernel.request.size[accel::P0] && !layers[layer + 1].kernel.request.ic)
      ways.push_back({layer, false, false, true, apart});
  }
  return ways;
}

/// The tiles that let the layer, or the one next to it, begin with a part of its input.
void NetworkCompiler::askForParts(size_t layer, accel::Kernel &kernel) const {
  const Beside *own = besideOf(layer), *next = besideOf(layer + 1), *before = layer ? besideOf(layer - 1) : nullptr;
  const int64_t burst = machine.dram.burstBytes / timing::elementBytes(machine.arrayType);
  const int64_t someChannels = 2 * std::max<int64_t>(machine.rows, burst);
  if ((next && next->before) || (before && before->behind)) {
    kernel.request.size[accel::P0] = (kernel.extent[accel::P0] + 1) / 2;
    kernel.request.order = kernel.request.order.value_or(0); // one half after the other
  }
  if (before && before->columns)
    kernel.request.ic = std::min(someChannels, kernel.anchor->ic);
  if (own && own->behind) // rows as well
    kernel.request.size[accel::C] = kernel.extent[accel::C];
  if (own && own->columns) {
    kernel.request.size[accel::C] = std::min(someChannels, kernel.extent[accel::C]);
    kernel.request.size[accel::P0] = kernel.extent[accel::P0];
  }
}

/// Where buffers lie, and where results stay: what matters to neighbours.
llvm::Error NetworkCompiler::listPlaces(llvm::function_ref<void(size_t, unsigned, DecisionOn, const char *)> add) {
  const bool hasPlaces = overlaps() && options.across != Across::None && machine.scratchpads[0].banks > 1;
  for (size_t i = 0; i < layers.size(); ++i) {
    const accel::TileRequest &request = layers[i].kernel.request;
    const bool isFree = layers[i].kernel.copies.empty() && !request.banks && !request.behind;
    add(i, hasPlaces && isFree ? 2 + std::size(kBankSplits) : 1, DecisionOn::Place, "place of ");
  }
  llvm::Expected<accel::NetworkUses> uses = describeUses();
  if (!uses)
    return uses.takeError();
  result.elsewhere.resize(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const size_t range = layers[i].ranges[size_t(layers[i].kernel.output.tensor)];
    if (overlaps() && options.across == Across::All && !uses->wanted[range]) {
      const accel::TileRequest &chosen = network.chosen[i];
      if (chosen.onChip.value_or(false))
        result.elsewhere[i].push_back(Stay::Away);
      accel::NetworkUses alone = *uses; // with all the room there is
      alone.wanted.assign(ranges.size(), false);
      alone.wanted[range] = true;
      if ((!chosen.onChip.value_or(false) || chosen.bands) && accel::chooseResidents(alone, machine).refused.empty())
        result.elsewhere[i].push_back(Stay::Whole);
      if (!chosen.bands && accel::rowsBetween(*uses, range, unsigned(i), machine))
        result.elsewhere[i].push_back(Stay::Bands);
    }
    add(i, 1 + unsigned(result.elsewhere[i].size()), DecisionOn::Result, "result of ");
  }
  return llvm::Error::success();
}

llvm::Error NetworkCompiler::listDecisions() {
  std::map<std::string, unsigned> kinds;
  for (const Layer &layer : layers)
    kinds.try_emplace(layer.kernel.kind, unsigned(kinds.size()));
  auto add = [&](size_t layer, unsigned candidates, DecisionOn what, const char *name) {
    const accel::Kernel &kernel = layers[layer].kernel;
    result.decisions.push_back({unsigned(layer), candidates, 3 * kinds[kernel.kind] + unsigned(what), name + kernel.name});
  };
  network.candidates.resize(layers.size());
  for (size_t i = 0; i < layers.size(); ++i)
    add(i, network.candidates[i], DecisionOn::Tile, "");
  if (layers.size() > 1)
    if (llvm::Error error = listPlaces(add))
      return error;
  if (result.weighed.size() > 1)
    result.decisions.push_back({std::nullopt, unsigned(result.weighed.size()), 0, "the whole network"});
  return llvm::Error::success();
}

llvm::Expected<accel::NetworkUses> NetworkCompiler::describeUses() {
  accel::NetworkUses uses;
  uses.shapes.resize(ranges.size());
  uses.alsoInDram.assign(ranges.size(), false);
  uses.alone = lessons.alone;
  uses.alone.resize(layers.size(), false);
  uses.spare = lessons.spare;
  for (const Layer &layer : layers) {
    uses.kernels.push_back(&layer.form(choice.packs));
    uses.tensorOf.push_back(layer.ranges);
  }
  uses.cycles = accel::cyclesAlone(uses.kernels, machine);
  Block &body = mainFunction.getBody().front();
  // The shape of the whole, whatever view of it a kernel has.
  for (auto call : body.getOps<func::CallOp>())
    if (call.getNumResults() == 1 && !parts.count(call.getResult(0)))
      uses.shapes[homes.find(call.getResult(0))->second.range] =
          cast<RankedTensorType>(call.getResult(0).getType()).getShape().vec();
  for (Value output : body.getTerminator()->getOperands())
    uses.alsoInDram[homes.find(output)->second.range] = true;
  for (BlockArgument argument : body.getArguments())
    uses.shapes[homes.find(argument)->second.range].clear();
  for (auto constant : body.getOps<arith::ConstantOp>())
    if (auto home = homes.find(constant.getResult()); home != homes.end())
      uses.shapes[home->second.range].clear();
  uses.wanted.resize(ranges.size());
  uses.wantedBands.resize(ranges.size());
  std::vector<const accel::Kernel *> wantedBy(ranges.size());
  for (const Layer &layer : layers) {
    std::optional<bool> onChip = layer.kernel.request.onChip;
    size_t range = layer.ranges[size_t(layer.kernel.output.tensor)];
    if (!onChip)
      continue;
    if (uses.wanted[range] && *uses.wanted[range] != *onChip)
      return llvm::createStringError("%skernels '%s' and '%s' write parts of one tensor and must agree on on_chip",
                                     accel::placed(layer.kernel.request.keepAt).c_str(), wantedBy[range]->name.c_str(),
                                     layer.kernel.name.c_str());
    uses.wanted[range] = onChip;
    wantedBy[range] = &layer.kernel;
    uses.wantedBands[range] = *onChip ? layer.kernel.request.bands : 0;
    if (uses.wantedBands[range])
      uses.wanted[range] = false; // not as a whole
  }
  for (size_t range : choice.keptFirst)
    if (!uses.wanted[range])
      uses.wanted[range] = true;
  for (size_t i = 0; i < layers.size(); ++i)
    if (unsigned pick = pickOf(DecisionOn::Result, i)) {
      const size_t range = layers[i].ranges[size_t(layers[i].kernel.output.tensor)];
      const Stay stay = first->elsewhere[i][pick - 1];
      if (stay == Stay::Bands) {
        uses.likesBands.resize(ranges.size());
        uses.likesBands[range] = true;
      } else if (!wantedBy[range]) {
        uses.wanted[range] = stay == Stay::Whole;
      }
    }
  return uses;
}

llvm::Error NetworkCompiler::placeGroups() {
  ranges = apart;
  for (const accel::Group &group : fusion.groups)
    for (unsigned k = group.first; k <= group.last(); ++k)
      for (auto [i, tensor] : llvm::enumerate(layers[k].kernel.tensors))
        if (tensor.role != accel::KernelTensor::Constant) {
          memory::LiveRange &range = ranges[layers[k].ranges[i]];
          range.begin = std::min(range.begin, layers[group.first].step);
          range.end = std::max(range.end, layers[group.last()].step);
        }
  network.nextAddress = memory::place(ranges, kAlignment);
  network.constants.clear();
  result.program.inputs.clear();
  result.program.outputs.clear();
  result.offload.clear();
  layers.clear();
  for (bool inputs : {true, false})
    if (llvm::Error error = describe(inputs))
      return error;
  return matchKernels();
}

std::vector<cost::NetworkTensor> NetworkCompiler::describeTensors() {
  std::vector<cost::NetworkTensor> tensors(ranges.size());
  for (size_t i = 0; i < ranges.size(); ++i)
    tensors[i].bytes = ranges[i].bytes;
  Block &body = mainFunction.getBody().front();
  for (BlockArgument argument : body.getArguments())
    tensors[homes.find(argument)->second.range].input = true;
  for (auto constant : mainFunction.getOps<arith::ConstantOp>())
    if (auto home = homes.find(constant.getResult()); home != homes.end())
      if (auto value = dyn_cast<DenseElementsAttr>(constant.getValue()); value && !value.isSplat()) // a fill makes the others
        tensors[home->second.range].constant = true;
  for (Value output : body.getTerminator()->getOperands())
    tensors[homes.find(output)->second.range].output = true;
  return tensors;
}

int64_t NetworkCompiler::planesOf(size_t range) const {
  int64_t planes = 1;
  for (const Layer &layer : layers)
    for (auto [i, tensor] : llvm::enumerate(layer.kernel.tensors)) {
      if (tensor.role != accel::KernelTensor::Argument || layer.ranges[i] != range)
        continue;
      const std::optional<accel::Anchor> &anchor = layer.kernel.anchor;
      if (planes > 1 || !anchor || anchor->kind != accel::Anchor::Contraction || anchor->input.tensor != int(i) ||
          anchor->input.stride[accel::C] <= 1)
        return 1;
      planes = anchor->ic;
    }
  return planes;
}

llvm::Error NetworkCompiler::emitKernels() {
  std::vector<cost::LayerWork> work;
  std::vector<cost::NetworkTensor> tensors = describeTensors();
  const accel::Residency &residency = fusion.residency;
  size_t groupBegin = 0; ///< steps before the group's
  auto bandsAsked = [&](size_t range) {
    return llvm::any_of(layers, [&](const Layer &l) {
      return l.kernel.request.bands && l.ranges[size_t(l.kernel.output.tensor)] == range;
    });
  };
  std::vector<bool> isFilled(ranges.size(), false);
  const int64_t capacity = int64_t(machine.scratchpads[0].capacityBytes) - lessons.spare;
  for (const Layer &source : layers) {
    const accel::Kernel *kernel = &source.form(choice.packs);
    const bool isPacked = source.packed && kernel == &*source.packed;
    accel::Kernel inParts;
    if (!choice.beside.empty()) {
      inParts = *kernel;
      askForParts(size_t(&source - layers.data()), inParts);
      kernel = &inParts;
    }
    if (kernel->request.onChip.value_or(false) && !overlaps())
      return llvm::createStringError("%sthe result of kernel '%s' cannot stay on chip: "
                                     "only bases modulo and search keep any, not %s",
                                     accel::placed(kernel->request.keepAt).c_str(), kernel->name.c_str(),
                                     nameOf(options.schedule));
    accel::OnChip onChip;
    onChip.hasNeighbours = layers.size() > 1 && options.across != Across::None;
    onChip.shortWindows = choice.shortWindows;
    onChip.room = capacity;
    if (!residency.tensors.empty()) {
      onChip.room = residency.room[size_t(&source - layers.data())];
      for (auto [i, tensor] : llvm::enumerate(kernel->tensors)) {
        const std::optional<accel::Resident> &resident = residency.tensors[source.ranges[i]];
        onChip.tensors.push_back(tensor.role != accel::KernelTensor::Constant && resident ? &*resident : nullptr);
        if (tensor.role == accel::KernelTensor::Result && resident) {
          onChip.storesResult = isOutput(source.ranges[i]);
          onChip.fillsBorders = (resident->isPadded() || resident->isDense()) && !isFilled[source.ranges[i]];
          isFilled[source.ranges[i]] = true;
        }
      }
    }
    if (overlaps())
      onChip.planes = planesOf(source.ranges[size_t(kernel->output.tensor)]);
    uint32_t layer = uint32_t(result.program.layers.size());
    const accel::Group *group = fusion.groupOf(layer);
    if (group) {
      onChip.banding = &group->kernels[layer - group->first];
      onChip.storesResult &= layer == group->last();
      if (layer == group->first)
        groupBegin = network.steps.size();
    }
    const Place place = group || !kernel->copies.empty() ? Place() : placeOf(layer);
    onChip.banks = place.banks;
    // Side by side, the parameters of the one have a place of their own behind the weights of the other.
    const size_t index = size_t(&source - layers.data());
    auto parametersBeside = [&](size_t other) {
      return other < layers.size() && machine.scratchpads.size() > 1 && !layers[other].kernel.anchor && placeOf(other).banks
                 ? accel::parameterBytes(layers[other].kernel, machine)
                 : 0;
    };
    const int64_t weightBytes = int64_t(machine.scratchpads.back().capacityBytes);
    if (int64_t bytes = parametersBeside(index + 1); bytes && place.banks && kernel->anchor)
      onChip.weightRoom = std::max<int64_t>(weightBytes - bytes, 0);
    if (int64_t bytes = parametersBeside(index); bytes && index && placeOf(index - 1).banks && layers[index - 1].kernel.anchor)
      network.nextOnChip[1] = std::max<int64_t>(weightBytes - bytes, 0);
    if (!place.isBehind)
      network.nextOnChip = {};
    // Before and behind a group, what its kernels have on chip comes last.
    for (const accel::Group &other : fusion.groups)
      if (layer + 1 == other.first || layer == other.last() + 1)
        network.nextOnChip[0] = std::max(network.nextOnChip[0], other.bytes);
    DiagnosticText text(module.getContext());
    auto emitIt = [&] {
      return accel::emitKernel(*kernel, machine, options.schedule, source.addresses, onChip, layer, network);
    };
    llvm::Error error = emitIt();
    if (error && onChip.banks && !kernel->request.banks) { // no tile fits there
      llvm::consumeError(std::move(error));
      onChip.banks.reset();
      error = emitIt();
    }
    if (error) {
      std::string details = text.str();
      if (group && llvm::none_of(group->tensors, [&](const auto &t) { return bandsAsked(t.tensor); })) {
        lessons.isNew = !llvm::is_contained(lessons.banned, std::pair(group->first, group->last()));
        lessons.banned.push_back({group->first, group->last()});
      } else if (onChip.room < capacity && !kernel->request.banks) {
        lessons.alone.resize(layers.size(), false);
        lessons.isNew = !lessons.alone[layer];
        lessons.alone[layer] = true;
      }
      if (details.empty())
        return error;
      return llvm::createStringError("%s\n%s", llvm::toString(std::move(error)).c_str(), details.c_str());
    }
    if (group && layer == group->last())
      std::stable_sort(network.steps.begin() + long(groupBegin), network.steps.end(),
                       [](const schedule::Step &a, const schedule::Step &b) { return a.band < b.band; });
    if (overlaps() && options.across == Across::None) {
      drained.push_back(schedule::overlap(std::exchange(network.steps, {}), machine));
      network.nextOnChip = {};
    }
    network.chosen.resize(layer + 1);
    if (overlaps() && options.across != Across::None && layers.size() > 1 && !group && !onChip.banks && kernel->copies.empty())
      network.chosen[layer].behind = place.isBehind;
    if (kernel->copies.empty()) {
      bool onArray = kernel->anchor && kernel->anchor->kind == accel::Anchor::Contraction;
      network.chosen[layer].engine = onArray ? 0 : 1; // of kEngineNames
      if (!residency.tensors.empty())
        network.chosen[layer].onChip = residency.tensors[source.ranges[size_t(kernel->output.tensor)]].has_value();
      if (onChip.banding && onChip.banding->output) {
        network.chosen[layer].onChip = true;
        network.chosen[layer].bands = group->rowsPerBand;
      }
    }
    if (source.packed)
      network.chosen[layer].packed = isPacked;
    work.push_back(accel::workOf(source.kernel, machine));
    work.back().output.tensor = unsigned(source.ranges[work.back().output.tensor]);
    for (cost::TensorUse &use : work.back().inputs)
      use.tensor = unsigned(source.ranges[use.tensor]);
    cost::Bound bound = cost::layerBound(work.back(), machine);
    result.layerTraffic.push_back(cost::layerTraffic(work.back(), machine));
    result.program.layers.push_back({kernel->name, kernel->nodes, kernel->macs, bound.cycles, bound.by});
    result.macs += kernel->macs;
    result.layerSerialCycles += bound.cycles;
    for (const std::string &node : kernel->nodes)
      result.offload.push_back({node, "accelerator", "layer " + kernel->name});
  }
  cost::Bound bound = cost::networkBound(work, tensors, machine);
  result.lowerBoundBytes = cost::networkBytes(work, tensors, machine);
  result.lowerBoundCycles = bound.cycles;
  result.boundBy = bound.by;
  return llvm::Error::success();
}

/// What a search has to know of the first program.
llvm::Error NetworkCompiler::describeProblem() {
  if (llvm::Error error = listDecisions())
    return error;
  llvm::SHA256 hash;
  for (const Layer &layer : layers)
    hash.update(layer.kernel.kind);
  // The code of the first program: how the layers are connected, where their tensors lie, and all that options changed.
  const std::vector<isa::Word> &code = result.program.code;
  hash.update({reinterpret_cast<const uint8_t *>(code.data()), code.size() * isa::kWordBytes});
  result.problem = llvm::toHex(hash.final(), true);
  return llvm::Error::success();
}

llvm::Error NetworkCompiler::assemble() {
  std::optional<int64_t> spare;
  if (lessons.spare)
    spare = int64_t(machine.scratchpads[0].capacityBytes) - lessons.spare;
  Result<bool> synchronized = schedule::synchronize(network.tiles, machine, spare);
  if (!synchronized) {
    if (!spare && schedule::wantsSpare(synchronized.message())) {
      lessons.spare = kSpareBytes;
      lessons.isNew = true;
    }
    return llvm::createStringError("%s", synchronized.message().c_str());
  }
  if (overlaps() && options.across != Across::None)
    result.plannedStarts = schedule::plannedStarts(network.tiles, machine);
  isa::Program &program = result.program;
  program.machine = machine.name;
  program.architecturalDigest = timing::architecturalDigest(machine);
  program.timingDigest = timing::timingDigest(machine);
  llvm::raw_string_ostream text(result.tilesText);
  uint32_t layer = UINT32_MAX;
  auto append = [&](const isa::Instruction &instruction, uint32_t owner, unsigned depth) -> llvm::Error {
    std::string why;
    if (!isa::fits(instruction, &why))
      return llvm::createStringError("internal: an instruction of layer %s cannot be encoded: %s",
                                     program.layers[owner].name.c_str(), why.c_str());
    isa::encode(instruction, program.code);
    program.layerOf.resize(program.code.size(), owner);
    if (onlyTimed)
      return llvm::Error::success();
    if (owner != layer && owner < program.layers.size()) {
      layer = owner;
      text << "# " << program.layers[owner].name;
      if (owner < network.choices.size())
        text << ": " << network.choices[owner];
      text << "\n";
    }
    text << std::string(2 * depth, ' ') << isa::print(instruction) << "\n";
    return llvm::Error::success();
  };
  std::function<llvm::Error(const std::vector<schedule::Code> &, unsigned)> appendAll = [&](const auto &code, unsigned depth) -> llvm::Error {
    for (const schedule::Code &c : code) {
      if (llvm::Error error = append(c.instruction, c.layer, depth))
        return error;
      if (llvm::Error error = appendAll(c.body, depth + 1))
        return error;
    }
    return llvm::Error::success();
  };
  if (llvm::Error error = appendAll(schedule::reroll(network.tiles, machine), 0))
    return error;
  uint32_t last = program.layers.empty() ? 0 : uint32_t(program.layers.size()) - 1;
  if (program.layers.empty())
    program.layers.push_back({"empty", {}, 0, 0, "dram"});
  if (llvm::Error error = append(isa::Instruction(isa::Halt()), last, 0))
    return error;
  if (!onlyTimed)
    for (const accel::Constant &constant : network.constants)
      program.constants.push_back({constant.address, constant.bytes()});
  program.codeAddress = (network.nextAddress + kAlignment - 1) / kAlignment * kAlignment;
  program.dramBytes = program.codeAddress + program.code.size() * isa::kWordBytes;
  program.dramBytes = (program.dramBytes + 63) / 64 * 64;
  if (program.dramBytes > machine.dram.capacityBytes)
    return llvm::createStringError("the network needs %llu bytes of DRAM but machine '%s' has %llu",
                                   (unsigned long long)program.dramBytes, machine.name.c_str(),
                                   (unsigned long long)machine.dram.capacityBytes);
  Diagnostics problems = schedule::verifySchedule(program, machine);
  if (!problems.empty()) {
    std::string all;
    for (const tw::Diagnostic &problem : problems) {
      // Counts depend on the program; a machine may simply count too little.
      if (problem.message.find("may reach") != std::string::npos) {
        auto asked = llvm::find_if(layers, [&](const Layer &layer) {
          return problem.message.find("(layer " + layer.kernel.name + ")") != std::string::npos;
        });
        std::string place = asked == layers.end() ? "" : accel::placed(asked->kernel.request.at());
        return llvm::createStringError("%smachine '%s' is too small: %s", place.c_str(), machine.name.c_str(),
                                       problem.str().c_str());
      }
      all += "\n  " + problem.str();
    }
    return llvm::createStringError("internal: the schedule does not verify:%s", all.c_str());
  }
  return llvm::Error::success();
}

llvm::Expected<std::optional<accel::Fusion>> NetworkCompiler::chooseOnChip() {
  // All that fit, those that save time in transfers, none; then the same in bands where those save transfers, and where they let
  // engines work at the same time.
  constexpr double kTransferShares[] = {0.0, 0.5, 1e9};
  const unsigned shares = std::size(kTransferShares), bands = choice.residency / shares;
  if (!overlaps() || options.across != Across::All)
    return choice.residency ? std::nullopt : std::optional<accel::Fusion>(accel::Fusion());
  if (bands > 2)
    return std::nullopt;
  llvm::Expected<accel::NetworkUses> uses = describeUses();
  if (!uses)
    return uses.takeError();
  uses->transferShare = kTransferShares[choice.residency % shares];
  uses->mayFuseForOverlap = bands == 2;
  uses->tallBands = choice.tallBands;
  uses->isInterleaved = choice.order == schedule::Order::Interleaved;
  // A schedule file that asks for bands asks for those alone.
  const bool wantsBands = llvm::any_of(uses->wantedBands, [](int64_t rows) { return rows > 0; }) || !uses->likesBands.empty();
  uses->onlyLiked = !bands && !uses->likesBands.empty();
  accel::Fusion chosen = bands || wantsBands ? accel::chooseGroups(*uses, lessons.banned, machine)
                                             : accel::Fusion{{}, accel::chooseResidents(*uses, machine), {}};
  chosen.residency.refused.insert(chosen.residency.refused.begin(), chosen.refused.begin(), chosen.refused.end());
  for (const auto &[range, why] : chosen.residency.refused) {
    auto wantedBy = llvm::find_if(layers, [range = range](const Layer &layer) {
      return layer.kernel.request.onChip && layer.ranges[size_t(layer.kernel.output.tensor)] == range;
    });
    if (wantedBy == layers.end()) // a search would like it
      continue;
    return llvm::createStringError("%sthe result of kernel '%s' cannot stay on chip: %s",
                                   accel::placed(wantedBy->kernel.request.keepAt).c_str(), wantedBy->kernel.name.c_str(),
                                   why.c_str());
  }
  return chosen;
}

llvm::Expected<double> NetworkCompiler::emitWith(accel::Fusion chosen, double limit) {
  fusion = std::move(chosen);
  isRegrouped |= !fusion.groups.empty();
  if (isRegrouped)
    if (llvm::Error error = placeGroups())
      return error;
  if (llvm::Error error = emitKernels())
    return error;
  result.choices = network.choices;
  result.choices.resize(layers.size());
  result.tileBytes = network.tileBytes;
  result.tileBytes.resize(layers.size());
  double cycles = 0;
  if (overlaps() && options.across == Across::None)
    network.tiles = schedule::inSequence(std::exchange(drained, {}), machine);
  else if (overlaps())
    network.tiles = schedule::overlap(std::move(network.steps), machine, &cycles, limit, choice.order, choice.bus);
  return cycles;
}

llvm::Error NetworkCompiler::emit() {
  mainFunction = module.lookupSymbol<func::FuncOp>("main");
  if (!mainFunction || mainFunction.isExternal())
    return llvm::createStringError("the module has no function @main");
  if (llvm::Error error = placeTensors())
    return error;
  if (llvm::Error error = describe(true))
    return error;
  if (llvm::Error error = describe(false))
    return error;
  if (llvm::Error error = matchKernels())
    return error;
  // What is gained on one side is lost on the other: the list scheduler weighs it.
  const accel::NetworkProgram emptyNetwork = network;
  const CompiledNetwork emptyResult = result;
  accel::NetworkProgram bestNetwork;
  CompiledNetwork bestResult;
  struct Weighed {
    double cycles;
    NetworkChoice choice;
    bool hasGroups;
    std::vector<size_t> leftOut;
  };
  std::vector<Weighed> weighed; // the best first
  std::vector<accel::Fusion> fusions; // of the rules so far
  // Whether there is such a choice. What is not better by `leastGain` is not taken.
  auto weigh = [&](const NetworkChoice &next, double leastGain = 1) -> llvm::Expected<bool> {
    choice = next;
    llvm::Expected<std::optional<accel::Fusion>> chosen = chooseOnChip();
    if (!chosen)
      return chosen.takeError();
    if (!*chosen)
      return false;
    if (!next.packs && !next.shortWindows && !next.fromBottom && !next.tallBands && next.beside.empty() &&
        next.order == options.order.value_or(schedule::Order::Steps) && next.bus == options.bus.value_or(schedule::Bus::Shared)) {
      if (llvm::any_of(fusions, [&](const accel::Fusion &other) { return other.isSameChoice(**chosen); }))
        return true;
      fusions.push_back(**chosen);
    }
    network = emptyNetwork;
    result = emptyResult;
    const bool hasGroups = !(*chosen)->groups.empty();
    std::vector<size_t> leftOut = (*chosen)->residency.leftOut;
    const double least = weighed.empty() ? std::numeric_limits<double>::infinity() : weighed.front().cycles / leastGain;
    const double limit = weighsAll ? std::numeric_limits<double>::infinity() : least;
    llvm::Expected<double> cycles = emitWith(std::move(**chosen), limit);
    if (!cycles)
      return cycles.takeError();
    const bool isBest = weighed.empty() || *cycles < least;
    auto place = isBest ? weighed.begin()
                        : std::find_if(weighed.begin() + 1, weighed.end(), [&](const Weighed &w) { return *cycles < w.cycles; });
    weighed.insert(place, {*cycles, next, hasGroups, std::move(leftOut)});
    if (isBest) {
      bestNetwork = std::move(network);
      bestResult = std::move(result);
    }
    return true;
  };
  if (fixedChoice) {
    if (llvm::Expected<bool> done = weigh(*fixedChoice); !done)
      return done.takeError();
  }
  NetworkChoice rule;
  rule.order = options.order.value_or(schedule::Order::Steps);
  rule.bus = options.bus.value_or(schedule::Bus::Shared);
  for (; !fixedChoice; ++rule.residency) {
    llvm::Expected<bool> exists = weigh(rule);
    if (!exists)
      return exists.takeError();
    if (!*exists)
      break;
  }
  // Without it there is a program anyway.
  const bool learned = lessons.isNew;
  auto weighToo = [&](const NetworkChoice &next, double leastGain = 1) {
    if (llvm::Expected<bool> done = weigh(next, leastGain); !done)
      llvm::consumeError(done.takeError());
    lessons.isNew = learned;
  };
  // Of tensors that need the same room those with most readers for their time stay. What each is worth is not in that rule: others
  // first, one after the other.
  auto keeping = llvm::find_if(weighed, [&](const Weighed &w) { return w.choice.residency == 0; });
  if (!fixedChoice && keeping != weighed.end() && keeping->cycles < kWorthRefining * weighed.front().cycles) {
    Weighed base = *keeping;
    llvm::SmallVector<size_t> tried;
    auto isUntried = [&](size_t tensor) { return !llvm::is_contained(tried, tensor); };
    while (tried.size() < kTriedFirst && llvm::any_of(base.leftOut, isUntried)) {
      NetworkChoice next = base.choice;
      next.keptFirst.push_back(*llvm::find_if(base.leftOut, isUntried));
      tried.push_back(next.keptFirst.back());
      weighToo(next);
      auto found = llvm::find_if(weighed, [&](const Weighed &w) { return w.choice.keptFirst == next.keptFirst; });
      if (found != weighed.end() && found->cycles < base.cycles)
        base = *found;
    }
  }
  // The best of them, and the best without groups, once more with pixels side by side in the array, where that takes fewer passes;
  // what is best then with short windows; and that with other places for buffers, as banks that two engines want cost time.
  if (!fixedChoice && llvm::any_of(layers, [](const Layer &l) { return &l.form(true) != &l.form(false); })) {
    NetworkChoice best = weighed.front().choice, apart = best;
    if (auto found = llvm::find_if(weighed, [](const Weighed &w) { return !w.hasGroups; }); found != weighed.end())
      apart = found->choice;
    best.packs = apart.packs = true;
    weighToo(best);
    if (apart.residency != best.residency)
      weighToo(apart);
  }
  auto isPooling = [](const Layer &l) {
    return l.kernel.anchor && l.kernel.anchor->kind == accel::Anchor::Window && l.kernel.anchor->weights < 0;
  };
  if (!fixedChoice && overlaps() && options.across == Across::All && llvm::any_of(layers, isPooling)) {
    NetworkChoice next = weighed.front().choice;
    next.shortWindows = true;
    weighToo(next, kLeastGain);
  }
  if (!fixedChoice && overlaps() && options.across != Across::None && layers.size() > 1) {
    NetworkChoice next = weighed.front().choice;
    next.fromBottom = true;
    weighToo(next);
    for (schedule::Order order : {schedule::Order::Deadlines, schedule::Order::Interleaved}) {
      next = weighed.front().choice;
      next.order = order;
      if (!options.order)
        weighToo(next);
    }
    auto packsTaps = [&](const Layer &l) {
      return l.kernel.anchor && l.kernel.anchor->kind == accel::Anchor::Contraction && accel::packsTaps(*l.kernel.anchor, machine);
    };
    next = weighed.front().choice;
    next.tallBands = true;
    if (weighed.front().hasGroups && llvm::any_of(layers, packsTaps))
      weighToo(next);
  }
  // The array waits for a normalisation, unless that begins with half of the rows while it computes the others, and goes on beside the
  // next product's first half: weights are loaded twice then, and both need room. The last one first, as nothing can follow it.
  size_t tried = 0;
  for (size_t i = layers.size(); !fixedChoice && overlaps() && options.across != Across::None && i-- > 0 && tried < kTriedBeside;) {
    const NetworkChoice base = weighed.front().choice;
    const auto ways = waysBeside(i);
    tried += !ways.empty();
    for (const Beside &way : ways) {
      NetworkChoice next = base;
      next.beside.push_back(way);
      weighToo(next, kLeastBeside);
    }
  }
  if (!fixedChoice && overlaps() && options.across != Across::None && !options.bus &&
      machine.dram.kind != timing::DramKind::Ideal) {
    NetworkChoice next = weighed.front().choice;
    next.bus = schedule::Bus::Turns;
    weighToo(next);
  }
  network = std::move(bestNetwork);
  result = std::move(bestResult);
  result.weighed = {weighed.front().choice};
  auto addNew = [&](const NetworkChoice &other) {
    if (!llvm::is_contained(result.weighed, other))
      result.weighed.push_back(other);
  };
  llvm::for_each(others, addNew);
  for (const Weighed &w : weighed)
    addNew(w.choice);
  return llvm::Error::success();
}

llvm::Expected<Tiles> NetworkCompiler::runTiles() {
  if (llvm::Error error = emit())
    return error;
  return Tiles{std::move(network), std::move(result.program.layers)};
}

llvm::Expected<CompiledNetwork> NetworkCompiler::run() {
  if (llvm::Error error = emit())
    return error;
  std::vector<std::pair<std::string, accel::TileRequest>> choices;
  for (auto [layer, chosen] : llvm::zip_equal(result.program.layers, network.chosen))
    choices.push_back({layer.name, chosen});
  std::optional<unsigned> order, bus;
  if (overlaps() && options.across != Across::None) {
    order = unsigned(result.weighed.front().order);
    bus = unsigned(result.weighed.front().bus);
  }
  result.scheduleText = accel::printScheduleFile(nameOf(options.schedule), order, bus, choices);
  if (llvm::Error error = assemble())
    return error;
  if (options.schedule == accel::Schedule::Search && picks.empty())
    if (llvm::Error error = describeProblem())
      return error;
  return std::move(result);
}

llvm::Expected<std::vector<NetworkChoice>> NetworkCompiler::weigh() {
  weighsAll = true;
  if (llvm::Error error = emit())
    return error;
  return std::move(result.weighed);
}

llvm::Expected<Measurement> NetworkCompiler::estimate() {
  if (llvm::Error error = emit())
    return error;
  std::vector<double> ends(layers.size(), 0);
  for (const schedule::Block &block : network.tiles.blocks)
    for (const schedule::Operation &operation : block.operations) {
      double &end = ends[operation.layer];
      end = std::max(end, block.plannedStart + double(block.count) * block.plannedEvery);
    }
  Measurement measurement;
  for (double end : ends) {
    const uint64_t before = measurement.cycles;
    measurement.cycles = std::max(before, uint64_t(end));
    measurement.layerCycles.push_back(measurement.cycles - before);
  }
  return measurement;
}

/// Runs `compile`, again if it failed but has learned how not to, `most` times at most.
template <typename Compile> auto attempt(Compile compile, unsigned most = UINT_MAX) {
  NetworkCompiler::Lessons lessons;
  auto result = compile(lessons);
  for (unsigned times = 1; !result && std::exchange(lessons.isNew, false) && times < most; ++times) {
    llvm::consumeError(result.takeError());
    result = compile(lessons);
  }
  return result;
}
} // namespace

llvm::Expected<Tiles> pipeline::emitTiles(ModuleOp module, const CompileOptions &options) {
  accel::Rankings rankings;
  return attempt([&](NetworkCompiler::Lessons &lessons) {
    return NetworkCompiler(module, options, lessons, rankings).runTiles();
  });
}

namespace {
llvm::Expected<CompiledNetwork> compileOnce(ModuleOp module, const CompileOptions &options, accel::Rankings &rankings,
                                            const Picks &picks = {}, const CompiledNetwork *first = nullptr,
                                            bool onlyTimed = false) {
  return attempt([&](NetworkCompiler::Lessons &lessons) {
    return NetworkCompiler(module, options, lessons, rankings, picks, first, onlyTimed).run();
  }, first ? kAttempts : UINT_MAX);
}
} // namespace

llvm::Expected<CompiledNetwork> pipeline::compileForAccelerator(ModuleOp module, const CompileOptions &options) {
  accel::Rankings rankings;
  if (options.schedule != accel::Schedule::Search || !options.search.evaluate)
    return compileOnce(module, options, rankings);
  CompiledNetwork first; // without its program
  auto compile = [&](const Picks &picks, bool onlyTimed) -> llvm::Expected<CompiledNetwork> {
    if (!first.weighed.empty())
      return compileOnce(module, options, rankings, picks, &first, onlyTimed);
    auto weigh = [&](const CompileOptions &asked) {
      return attempt([&](NetworkCompiler::Lessons &lessons) { return NetworkCompiler(module, asked, lessons, rankings).weigh(); });
    };
    auto others = weigh(options);
    if (!others)
      return others.takeError();
    // What is best with each order goes first: the orders differ by less than the estimate may err.
    for (schedule::Order order : {schedule::Order::Steps, schedule::Order::Deadlines, schedule::Order::Interleaved}) {
      CompileOptions asked = options;
      asked.order = order;
      if (options.order || options.across == Across::None)
        break;
      if (auto found = weigh(asked))
        others->insert(others->begin(), found->front());
      else
        llvm::consumeError(found.takeError());
    }
    llvm::Expected<CompiledNetwork> network = attempt([&](NetworkCompiler::Lessons &lessons) {
      NetworkCompiler compiler(module, options, lessons, rankings);
      compiler.others = *others;
      return compiler.run();
    });
    if (network) {
      first.weighed = network->weighed;
      first.elsewhere = network->elsewhere;
    }
    return network;
  };
  auto estimate = [&](const Picks &picks) {
    return attempt([&](NetworkCompiler::Lessons &lessons) {
      return NetworkCompiler(module, options, lessons, rankings, picks, &first).estimate();
    }, kAttempts);
  };
  // One layer's tiles are in the order of their estimates, and layers that drain are not planned.
  return options.across == Across::None ? search(compile, options.search) : search(compile, options.search, estimate);
}
