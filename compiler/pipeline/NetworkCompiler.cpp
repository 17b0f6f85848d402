//===- NetworkCompiler.cpp - Kernels to one verified program ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/NetworkCompiler.h"

#include "compiler/codegen/accel/Variations.h"
#include "compiler/graph/transforms/KernelTarget.h"
#include "compiler/plan/PlanFile.h"
#include "compiler/schedule/Prefetch.h"
#include "compiler/schedule/Reroll.h"
#include "compiler/schedule/Sequence.h"
#include "compiler/schedule/Synchronize.h"
#include "compiler/schedule/Verifier.h"
#include "compiler/text/Diagnostics.h"
#include "isa/timing/Digest.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

using namespace mlir;
using namespace tw;
using namespace tw::pipeline;

namespace {
constexpr uint64_t kAlignment = 4096; ///< tensors start in different DRAM rows, and never share a burst
constexpr int64_t kSpareBytes = 64;   ///< as much as keeps what lies before it aligned
/// What a walk may take for the rows of a band where there is none nearby.
constexpr int64_t kFirstBands[] = {1, 2, 4, 8};

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

uint64_t bytesOf(RankedTensorType type) {
  return uint64_t(type.getNumElements()) * std::max(1u, type.getElementTypeBitWidth() / 8);
}
} // namespace

/// A network of so many bytes may have large constants.
static constexpr uint64_t kLargeBytes = uint64_t(1) << 26;

/// Gives the system what the heap has free in the middle of what it uses.
static void returnFreeMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
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
      const Home home = homes[op.getOperand(0)]; // a copy: the next line may move the entries
      homes[op.getResult(0)] = home;
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
  network.maxInstructions = options.maxInstructions;
  network.nextAddress = memory::place(ranges, kAlignment);
  apart = ranges;
  // Code and constants come on top: what is too large already need not be compiled.
  return checkDram(network.nextAddress);
}

llvm::Error NetworkCompiler::checkDram(uint64_t bytes) const {
  if (bytes <= machine.dram.capacityBytes)
    return llvm::Error::success();
  return llvm::createStringError("the network needs %llu bytes of DRAM but machine '%s' has %llu", (unsigned long long)bytes,
                                 machine.name.c_str(), (unsigned long long)machine.dram.capacityBytes);
}

/// A concatenation of kernel results that nothing else reads needs no copies: each producer stores its part in place.
void NetworkCompiler::joinConcats() {
  for (auto call : mainFunction.getOps<func::CallOp>()) {
    auto function = module.lookupSymbol<func::FuncOp>(call.getCallee());
    tensor::ConcatOp concat = function ? onlyConcat(function) : tensor::ConcatOp();
    if (!concat)
      continue;
    bool possible = true;
    auto isConcat = [](Operation &op) { return llvm::isa<tensor::ConcatOp>(op); };
    auto isMoved = [](Value result) {
      return llvm::isa_and_nonnull<linalg::TransposeOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp>(result.getDefiningOp());
    };
    for (Value operand : call.getOperands()) {
      auto producer = operand.getDefiningOp<func::CallOp>();
      auto made = producer ? module.lookupSymbol<func::FuncOp>(producer.getCallee()) : func::FuncOp();
      // A part of a part would need two views, as would a part of a result that is transposed or reshaped.
      possible &= made && operand.hasOneUse() && !parts.count(operand) && llvm::none_of(made.getBody().front(), isConcat) &&
                  !isMoved(made.getBody().front().getTerminator()->getOperand(0)) &&
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
  auto add = [&](Value value, DictionaryAttr attributes, const std::string &fallback,
                 std::vector<isa::TensorInfo> &list) -> llvm::Error {
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
      if (llvm::Error error =
              add(output, mainFunction.getResultAttrDict(unsigned(i)), "output" + std::to_string(i), result.program.outputs))
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
                                         memcpy(bytes.data() + i * size,
                                                value.getRawData().data() + (value.isSplat() ? 0 : i * size), size);
                                     return bytes;
                                   }});
      continue;
    }
    auto call = dyn_cast<func::CallOp>(op);
    if (!call)
      continue;
    auto function = module.lookupSymbol<func::FuncOp>(call.getCallee());
    if (inPlace.contains(call)) {
      FailureOr<plan::KernelPlan> request = plan::planOf(function);
      if (succeeded(request) && function->hasAttr(plan::kPlanAttr))
        return llvm::createStringError("%skernel '%s' has no code of its own: its producers write its result in place",
                                       request->place().c_str(), function.getName().str().c_str());
      if (auto nodes = function->getAttrOfType<ArrayAttr>(graph::kNodesAttr))
        for (Attribute node : nodes)
          result.offload.push_back({cast<StringAttr>(node).getValue().str(), "written in place by its producers"});
      continue;
    }
    if (!graph::isFor(function, graph::kAccelTarget)) {
      auto reason = function->getAttrOfType<StringAttr>(graph::kReasonAttr);
      return llvm::createStringError("kernel %s cannot run on machine '%s': %s", function.getName().str().c_str(),
                                     machine.name.c_str(),
                                     reason ? reason.getValue().str().c_str() : "it is marked for another target");
    }
    auto [known, isNew] = matched.try_emplace(function);
    if (isNew) {
      text::DiagnosticText text(module.getContext());
      FailureOr<accel::Kernel> match = accel::matchKernel(function);
      if (failed(match))
        return llvm::createStringError("%s", text.str().c_str());
      known->second = std::move(*match);
    }
    accel::Kernel kernel = known->second;
    kernel.isFinite = options.math >= graph::Math::Finite || machine.arrayType == timing::ArrayType::Int8;
    if (!requests.empty()) {
      kernel.plan = requests[layers.size()];
      kernel.kind += plan::print(kernel.plan);
    }
    if (auto part = parts.find(call.getResult(0)); part != parts.end()) {
      int64_t stride = 1, rank = int64_t(part->second.shape.size());
      for (int64_t axis = 0; axis < rank; ++axis) {
        kernel.output.stride[size_t(axis)] = stride;
        for (accel::Copy &copy : kernel.copies)
          copy.toStride[size_t(rank - 1 - axis)] = stride;
        stride *= part->second.shape[size_t(rank - 1 - axis)];
      }
      kernel.output.offset = part->second.offset;
      for (accel::Copy &copy : kernel.copies)
        copy.to.offset = part->second.offset;
    }
    Layer layer{function, std::move(kernel), {}, {}, step, {}};
    if (llvm::Error error = packLayer(layer))
      return error;
    for (const accel::KernelTensor &tensor : layer.kernel.tensors) {
      bool isConstant = tensor.role == accel::KernelTensor::Constant;
      Value value = isConstant                                     ? Value()
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
  const plan::KernelPlan &request = layer.kernel.plan;
  const bool isShared = request.arrayChannels.value_or(0) > 0;
  if (overlaps() && !isShared)
    layer.packed = accel::packPixels(layer.kernel, machine);
  if (request.pixelPacking != true)
    return llvm::Error::success();
  auto refuse = [&](const std::string &why) {
    return llvm::createStringError("%spixel_packing is true but kernel '%s' %s", request.placeOf({"pixel_packing"}).c_str(),
                                   layer.kernel.name.c_str(), why.c_str());
  };
  if (!overlaps())
    return refuse("has base " + std::string(nameOf(options.schedule)) + ", and only pipelined and search pack pixels");
  if (isShared)
    return refuse("has channels on the array");
  if (!layer.packed)
    return refuse("would take no fewer cycles so");
  if (int64_t count = layer.packed->outputsPerVector; request.tile[1] % count)
    return refuse("then makes " + std::to_string(count) + " outputs along x at once, which do not divide the size of " +
                  std::to_string(request.tile[1]));
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
    uses.kernels.push_back(&layer.form(choice));
    uses.arrayChannels.push_back(accel::canUseBothEngines(*uses.kernels.back(), machine) ? arrayChannels(layer) : 0);
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
  uses.placedFirst.resize(ranges.size());
  uses.wantedBands.resize(ranges.size());
  uses.keptFrom.resize(ranges.size());
  uses.sharesPlaces = choice.ways.resultPlaces == plan::ResultPlaces::Reused;
  uses.holdsMatrices.assign(ranges.size(), choice.keepsMatrices);
  std::vector<const accel::Kernel *> wantedBy(ranges.size());
  for (const Layer &layer : layers) {
    std::optional<bool> onChip = layer.kernel.plan.onChip;
    size_t range = layer.ranges[size_t(layer.kernel.output.tensor)];
    if (!onChip)
      continue;
    const accel::Kernel *other = wantedBy[range];
    if (other && (other->plan.onChip != onChip || other->plan.rowTile != layer.kernel.plan.rowTile))
      return llvm::createStringError("%skernels '%s' and '%s' write parts of one tensor and must agree on %s",
                                     layer.kernel.plan.placeOf({"on_chip", "row_tile"}).c_str(), other->name.c_str(),
                                     layer.kernel.name.c_str(), other->plan.onChip != onChip ? "on_chip" : "row_tile");
    uses.wanted[range] = onChip;
    uses.holdsMatrices[range] = *onChip;
    uses.placedFirst[range] = uses.placedFirst[range] || layer.kernel.plan.placedFirst.value_or(false);
    wantedBy[range] = &layer.kernel;
    uses.wantedBands[range] = *onChip ? layer.kernel.plan.rowTile : 0;
    uses.keptFrom[range] = *onChip ? layer.kernel.plan.onChipFrom : 0;
    if (uses.wantedBands[range])
      uses.wanted[range] = false; // not as a whole
  }
  for (size_t range : choice.keptFirst)
    if (!uses.wanted[range])
      uses.wanted[range] = uses.placedFirst[range] = true;
  for (const Beside &beside : choice.beside)
    if (beside.stays) {
      const accel::Kernel &writer = layers[beside.layer - 1].kernel;
      const size_t range = layers[beside.layer - 1].ranges[size_t(writer.output.tensor)];
      uses.wanted[range] = uses.placedFirst[range] = true;
      uses.keptFrom[range] = (writer.extent[accel::P0] + 1) / 2;
    }
  for (size_t i = 0; i < layers.size(); ++i)
    if (unsigned pick = pickOf(DecisionOn::Result, i)) {
      const size_t range = layers[i].ranges[size_t(layers[i].kernel.output.tensor)];
      const Stay stay = first->elsewhere[i][pick - 1];
      if (stay == Stay::Bands) {
        uses.likesBands.resize(ranges.size());
        uses.likesBands[range] = true;
      } else if (!wantedBy[range]) {
        uses.wanted[range] = uses.placedFirst[range] = stay == Stay::Whole;
        uses.holdsMatrices[range] = uses.holdsMatrices[range] || stay == Stay::Whole;
        uses.keptFrom[range] = 0;
      }
    }
  for (size_t i = 0; i < layers.size(); ++i)
    if (unsigned pick = pickOf(DecisionOn::Rows, i))
      for (size_t k = i; k <= first->chains[i].last; ++k) {
        const size_t range = layers[k].ranges[size_t(layers[k].kernel.output.tensor)];
        if (wantedBy[range] || pickOf(DecisionOn::Result, k))
          continue;
        uses.likesBands.resize(ranges.size()); // and no others, where the choice has none
        uses.wantedBands[range] = first->chains[i].others[pick - 1];
        uses.wanted[range] = false;       // not as a whole
        uses.holdsMatrices[range] = true; // as if a schedule file asked for it
      }
  return uses;
}

llvm::Error NetworkCompiler::placeGroups() {
  ranges = apart;
  for (const accel::Group &group : fusion->groups)
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

std::vector<int64_t> NetworkCompiler::planesOfRanges() const {
  std::vector<int64_t> planes(ranges.size(), 1);
  std::vector<bool> isOther(ranges.size(), false); // some reader takes it in another way
  for (const Layer &layer : layers)
    for (auto [i, tensor] : llvm::enumerate(layer.kernel.tensors)) {
      const size_t range = layer.ranges[i];
      if (tensor.role != accel::KernelTensor::Argument || isOther[range])
        continue;
      const std::optional<accel::Anchor> &anchor = layer.kernel.anchor;
      isOther[range] = planes[range] > 1 || !anchor || anchor->kind != accel::Anchor::Contraction ||
                       anchor->input.tensor != int(i) || anchor->input.stride[accel::C] <= 1;
      planes[range] = isOther[range] ? 1 : anchor->ic;
    }
  return planes;
}

/// What is chosen for the first part stands for the kernel: it is what a schedule file can ask for. The second part has tiles like it
/// where they fit; what stays on chip may leave it less room.
llvm::Error NetworkCompiler::emitParts(const Layer &source, const accel::Kernel &kernel, const Cut &cut, accel::OnChip onChip,
                                       uint32_t layer) {
  auto emitPart = [&](const accel::Kernel &part, const accel::OnChip &where) {
    return accel::emitKernel(part, machine, options.schedule, source.addresses, where, layer, network);
  };
  accel::OnChip first = onChip;
  for (const accel::Resident *&resident : first.tensors)
    if (resident && resident->from) {
      first.storesResult |= size_t(&resident - first.tensors.data()) == size_t(kernel.output.tensor);
      resident = nullptr;
    }
  if (llvm::Error error = emitPart(kernel.part(0, cut.at), first))
    return error;
  const plan::KernelPlan chosen = network.chosen[layer];
  accel::Kernel rest = kernel.part(cut.at, kernel.extent[accel::P0]);
  rest.plan = {};
  if (cut.spreads)
    onChip.banks.reset();
  onChip.fillsBorders = false;
  onChip.moreSlots = onChip.form = 0; // what is chosen has them
  const std::string text = network.choices[layer];
  const uint64_t bytes = network.tileBytes[layer];
  const unsigned candidates = network.candidates[layer];
  const std::vector<unsigned> picks = std::exchange(network.picks, {});
  accel::Kernel alike = rest;
  alike.plan.tile = chosen.tile;
  alike.plan.tileK = chosen.tileK;
  alike.plan.loopOrder = chosen.loopOrder;
  alike.plan.depth = chosen.depth;
  alike.plan.stationary = chosen.stationary;
  alike.kind += plan::print(alike.plan);
  llvm::Error error = emitPart(alike, onChip);
  if (error) {
    llvm::consumeError(std::move(error));
    error = emitPart(rest, onChip);
  }
  network.picks = picks;
  if (error)
    return error;
  network.chosen[layer] = chosen;
  network.choices[layer] = text;
  if (cut.spreads) {
    network.chosen[layer].spreadSecondHalf = true;
    network.choices[layer] += ", the second half in all banks";
  }
  network.tileBytes[layer] = bytes;
  network.candidates[layer] = candidates;
  return llvm::Error::success();
}

/// They are the same whatever is chosen.
void NetworkCompiler::addBounds() {
  std::vector<cost::LayerWork> work;
  for (auto [source, layer] : llvm::zip_equal(layers, result.program.layers)) {
    work.push_back(accel::workOf(source.kernel, machine));
    work.back().output.tensor = unsigned(source.ranges[work.back().output.tensor]);
    for (cost::TensorUse &use : work.back().inputs)
      use.tensor = unsigned(source.ranges[use.tensor]);
    const cost::Bound bound = cost::layerBound(work.back(), machine);
    result.layerTraffic.push_back(cost::layerTraffic(work.back(), machine));
    layer.boundCycles = bound.cycles;
    layer.boundBy = bound.by;
    result.layerSerialCycles += bound.cycles;
  }
  const std::vector<cost::NetworkTensor> tensors = describeTensors();
  const cost::Bound bound = cost::networkBound(work, tensors, machine);
  result.lowerBoundBytes = cost::networkBytes(work, tensors, machine);
  result.lowerBoundCycles = bound.cycles;
  result.boundBy = bound.by;
}

llvm::Error NetworkCompiler::emitKernels() {
  const accel::Residency &residency = fusion->residency;
  size_t groupBegin = 0; ///< steps before the group's
  auto bandsAsked = [&](size_t range) {
    return llvm::any_of(
        layers, [&](const Layer &l) { return l.kernel.plan.rowTile && l.ranges[size_t(l.kernel.output.tensor)] == range; });
  };
  std::vector<bool> isFilled(ranges.size(), false);
  const std::vector<int64_t> planes = planesOfRanges();
  bool isArrayBusy = false;               ///< with a kernel before
  size_t turnsBegin = 0, turnsMiddle = 0; ///< steps before those of two kernels that take turns, and before the second one's
  const int64_t capacity = int64_t(machine.scratchpads[0].capacityBytes) - lessons.spare;
  for (const Layer &source : layers) {
    const accel::Kernel *kernel = &source.form(choice);
    const bool isPacked = source.packed && kernel == &*source.packed;
    const size_t index = size_t(&source - layers.data());
    const bool takes = takesAsMade(index), makes = takesAsMade(index + 1);
    if (takes || makes) {
      const size_t taker = takes ? index : index + 1;
      if (std::string why = whyNotAsMade(taker); !why.empty())
        return llvm::createStringError("%skernel '%s' cannot take the channels of the one before as they are made: %s",
                                       layers[taker].kernel.plan.placeOf({"channel_streaming"}).c_str(),
                                       layers[taker].kernel.name.c_str(), why.c_str());
    }
    const accel::Group *group = fusion->groupOf(uint32_t(index));
    // In other bands tiles of packed taps, whose rows are loaded again for each, are as high as these.
    const bool isTall = pickOf(DecisionOn::Rows, index) && group && group->first == index &&
                        accel::packsTaps(source.kernel, machine) && !kernel->plan.tile[accel::P1];
    accel::Kernel asked;
    if (!choice.beside.empty() || takes || makes || isTall) {
      asked = *kernel;
      for (const accel::Range &rows : isTall ? group->kernels.front().rows : std::vector<accel::Range>())
        asked.plan.tile[accel::P1] = std::max(asked.plan.tile[accel::P1], rows.size());
      askForParts(index, asked);
      if (takes || makes)
        askForTurns(asked, turnsOf(takes ? index : index + 1), takes);
      kernel = &asked;
    }
    if (kernel->plan.onChip.value_or(false) && !overlaps())
      return llvm::createStringError("%sthe result of kernel '%s' cannot stay on chip: "
                                     "only schedules pipelined and search keep any, not %s",
                                     kernel->plan.placeOf({"on_chip"}).c_str(), kernel->name.c_str(), nameOf(options.schedule));
    int64_t keptFrom = 0; ///< of a tensor whose second part stays on chip
    accel::OnChip onChip;
    onChip.hasNeighbours = layers.size() > 1 && options.across != Across::None;
    onChip.isFirst = !isArrayBusy || !onChip.hasNeighbours;
    isArrayBusy |= kernel->anchor && kernel->anchor->kind == accel::Anchor::Contraction;
    onChip.shortWindows = choice.shortWindows;
    onChip.weightLoader = *choice.ways.weightLoader;
    onChip.wholeBanks = kernel->plan.bankExclusive.value_or(choice.wholeBanks);
    onChip.serpentine = kernel->plan.serpentine.value_or(choice.serpentine);
    onChip.keepsSums = kernel->plan.sumLineBuffer.value_or(choice.keepsSums);
    onChip.carriesMaxima = kernel->plan.maxLineBuffer.value_or(choice.carriesMaxima);
    onChip.plansTiles = choice.plansTiles;
    onChip.moreSlots = pickOf(DecisionOn::Depth, index);
    onChip.form = pickOf(DecisionOn::Form, index);
    onChip.arrayChannels = arrayChannels(source);
    onChip.cuts = cutsOf(size_t(&source - layers.data()));
    onChip.room = capacity;
    if (!residency.tensors.empty()) {
      onChip.room = residency.room[size_t(&source - layers.data())];
      for (auto [i, tensor] : llvm::enumerate(kernel->tensors)) {
        const std::optional<accel::Resident> &resident = residency.tensors[source.ranges[i]];
        onChip.tensors.push_back(tensor.role != accel::KernelTensor::Constant && resident ? &*resident : nullptr);
        if (onChip.tensors.back() && resident->from) {
          if (keptFrom && keptFrom != resident->from)
            return llvm::createStringError(
                "%skernel '%s' reads and writes tensors that stay on chip from different positions on",
                kernel->plan.placeOf({"on_chip_from", "on_chip"}).c_str(), kernel->name.c_str());
          keptFrom = resident->from;
        }
        if (tensor.role == accel::KernelTensor::Result && resident) {
          onChip.storesResult = isOutput(source.ranges[i]);
          onChip.fillsBorders =
              (resident->isPadded() || resident->isDense()) && !resident->takesPlace && !isFilled[source.ranges[i]];
          isFilled[source.ranges[i]] = true;
        }
      }
    }
    if (overlaps())
      onChip.planes = planes[source.ranges[size_t(kernel->output.tensor)]];
    uint32_t layer = uint32_t(result.program.layers.size());
    if (group) {
      onChip.banding = &group->kernels[layer - group->first];
      onChip.storesResult &= layer == group->last();
      if (layer == group->first)
        groupBegin = network.steps.size();
    }
    const Place place = group || !kernel->copies.empty() ? Place() : placeOf(layer);
    onChip.banks = place.banks;
    // Side by side, the parameters of the one have a place of their own behind the weights of the other.
    auto parametersBeside = [&](size_t other) {
      return other < layers.size() && machine.scratchpads.size() > 1 && !layers[other].kernel.anchor && placeOf(other).banks
                 ? accel::parameterBytes(layers[other].kernel, machine)
                 : 0;
    };
    const int64_t weightBytes = int64_t(machine.scratchpads.back().capacityBytes);
    if (int64_t bytes = parametersBeside(index + 1); bytes && place.banks && kernel->anchor)
      onChip.weights = {0, std::max<int64_t>(weightBytes - bytes, 0)};
    if (int64_t bytes = parametersBeside(index); bytes && index && placeOf(index - 1).banks && layers[index - 1].kernel.anchor)
      network.nextOnChip[1] = std::max<int64_t>(weightBytes - bytes, 0);
    // Where tensors stay on chip in the middle, the larger run beside them is as good as banks that are asked for.
    const bool hasTurns = takes || makes;
    const accel::Range gap =
        residency.gap.empty() || group || hasTurns || !kernel->copies.empty() ? accel::Range() : residency.gap[index];
    const int64_t bank = int64_t(machine.scratchpads[0].bankBytes()), lowRoom = onChip.room;
    if (!gap.isEmpty() && !onChip.banks)
      onChip.banks = {gap.begin / bank, gap.end / bank};
    if (!gap.isEmpty() && (*onChip.banks)[0] * bank >= gap.begin && (*onChip.banks)[1] * bank <= gap.end)
      onChip.room = gap.end;
    auto takePlace = [&](bool isBehind) {
      if (!isBehind)
        network.nextOnChip = {};
      // Before and behind a group, what its kernels have on chip comes last.
      for (const accel::Group &other : fusion->groups)
        if (layer + 1 == other.first || layer == other.last() + 1)
          network.nextOnChip[0] = std::max(network.nextOnChip[0], other.bytes);
    };
    const bool canSpread = overlaps() && place.banks && !kernel->anchor && !kernel->pool && kernel->extent[accel::P0] > 1;
    if (kernel->plan.spreadSecondHalf.value_or(false) && !canSpread) {
      const char *why = !overlaps()   ? "runs beside no other: only with base pipelined or search"
                        : place.banks ? "does not run row by row"
                                      : "has no banks of its own";
      return llvm::createStringError("%sspread_second_half is true but kernel '%s' %s",
                                     kernel->plan.placeOf({"spread_second_half"}).c_str(), kernel->name.c_str(), why);
    }
    if (hasTurns) { // tensors of either are there as long as both run
      const size_t other = takes ? index - 1 : index + 1;
      const Turns turns = turnsOf(std::max(index, other));
      onChip.asMade = takes ? accel::AsMade::Takes : accel::AsMade::Makes;
      onChip.weights = takes ? turns.takerWeights : turns.makerWeights;
      onChip.sums = takes ? turns.takerSums : turns.makerSums;
      if (!residency.room.empty())
        onChip.room = std::min(onChip.room, residency.room[other]);
      const int64_t banks = onChip.room / int64_t(machine.scratchpads[0].bankBytes());
      if (!onChip.banks && banks > 1)
        onChip.banks = takes ? std::array<int64_t, 2>{banks / 2, banks} : std::array<int64_t, 2>{0, banks / 2};
      (takes ? turnsMiddle : turnsBegin) = network.steps.size();
    }
    takePlace(place.isBehind || onChip.banks); // banks of its own say where it lies: what a schedule file can ask for
    const Beside *beside = besideOf(index);
    text::DiagnosticText text(module.getContext());
    auto emitIt = [&] {
      const bool spreads = onChip.banks && canSpread && kernel->plan.spreadSecondHalf.value_or(beside && beside->spreads);
      if (keptFrom || spreads)
        return emitParts(source, *kernel, {keptFrom ? keptFrom : (kernel->extent[accel::P0] + 1) / 2, spreads}, onChip, layer);
      return accel::emitKernel(*kernel, machine, options.schedule, source.addresses, onChip, layer, network);
    };
    const size_t steps = network.steps.size(), constants = network.constants.size();
    const uint64_t nextAddress = network.nextAddress, instructions = network.instructions;
    llvm::Error error = emitIt();
    if (error && onChip.banks && !kernel->plan.banks) { // no tile fits there
      llvm::consumeError(std::move(error));
      network.steps.resize(steps); // without a first part that did
      network.constants.resize(constants);
      network.nextAddress = nextAddress;
      network.instructions = instructions;
      onChip.banks.reset();
      onChip.room = lowRoom;
      takePlace(place.isBehind);
      error = emitIt();
    }
    if (error) {
      std::string details = text.str();
      if (group && llvm::none_of(group->tensors, [&](const auto &t) { return bandsAsked(t.tensor); })) {
        lessons.isNew = !llvm::is_contained(lessons.banned, std::pair(group->first, group->last()));
        lessons.banned.push_back({group->first, group->last()});
      } else if (onChip.room < capacity && !kernel->plan.banks) {
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
                       [isTurned = group->hasRing()](const schedule::Step &a, const schedule::Step &b) {
                         return a.band != b.band ? a.band < b.band : isTurned && a.behind > b.behind;
                       });
    if (takes)
      mergeTurns(turnsBegin, turnsMiddle);
    if (overlaps() && options.across == Across::None) {
      drained.push_back(schedule::overlap(std::exchange(network.steps, {}), machine));
      network.nextOnChip = {};
    }
    network.chosen.resize(layer + 1);
    if (overlaps() && options.across != Across::None && layers.size() > 1 && !group && !onChip.banks && kernel->copies.empty())
      network.chosen[layer].afterPrevious = place.isBehind;
    if (onChip.wholeBanks && kernel->copies.empty())
      network.chosen[layer].bankExclusive = true;
    if (takes || hurriesAsMade(index))
      network.chosen[layer].channelStreaming = takes;
    if (kernel->copies.empty()) {
      bool onArray = kernel->anchor && kernel->anchor->kind == accel::Anchor::Contraction;
      network.chosen[layer].engine = onArray ? plan::Engine::Tensor : plan::Engine::Vector;
      if (!residency.tensors.empty()) {
        const std::optional<accel::Resident> &resident = residency.tensors[source.ranges[size_t(kernel->output.tensor)]];
        network.chosen[layer].onChip = resident.has_value();
        network.chosen[layer].onChipFrom = resident ? resident->from : 0;
        if (resident && resident->placedFirst)
          network.chosen[layer].placedFirst = true;
      }
      if (onChip.banding && onChip.banding->output) {
        network.chosen[layer].onChip = true;
        network.chosen[layer].rowTile = group->rowsPerBand;
      }
    }
    if (source.packed)
      network.chosen[layer].pixelPacking = isPacked;
    result.program.layers.push_back({kernel->name, kernel->nodes, kernel->macs, 0, {}});
    result.macs += kernel->macs;
    for (const std::string &node : kernel->nodes)
      result.offload.push_back({node, "layer " + kernel->name});
  }
  return llvm::Error::success();
}

llvm::Expected<double> NetworkCompiler::emitWith(double limit) {
  isRegrouped |= !fusion->groups.empty();
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
  else if (overlaps()) {
    if (choice.ways.weightPrefetch == plan::WeightPrefetch::Early)
      schedule::prefetch(network.steps, machine, machine.scratchpads[0].capacityBytes - uint64_t(lessons.spare));
    network.tiles = schedule::overlap(std::move(network.steps), machine, &cycles, limit, *choice.ways.priority,
                                      *choice.ways.bus, !onlyEstimates);
  }
  return cycles;
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
  // What is left to decide: what a schedule file asks for may be what the first program has anyway.
  std::string open = kAcrossNames[size_t(options.across)];
  llvm::raw_string_ostream text(open);
  text << ' ' << plan::print(options.network);
  for (const Decision &decision : result.decisions)
    text << ' ' << decision.candidates;
  hash.update(text.str());
  result.problem = llvm::toHex(hash.final(), true);
  return llvm::Error::success();
}

/// Where all is chosen, what of it could be otherwise: keys of requests, and ways for the whole network, but for what was asked for.
void NetworkCompiler::listAspects() {
  result.pinned = {network.chosen, result.weighed.front()};
  result.pinned.choice.beside.clear(); // the requests have these
  result.pinned.choice.bothEngines.clear();
  for (size_t i = 0; i < layers.size(); ++i)
    for (accel::Variation &variation : accel::variationsOf(network.chosen[i], layers[i].form(result.pinned.choice), machine)) {
      Aspect &aspect =
          result.aspects.emplace_back(Aspect{unsigned(i), std::string(variation.knob) + " of " + layers[i].kernel.name, {}});
      for (auto &vary : variation.values)
        aspect.values.push_back([i, vary = std::move(vary)](Pinned &pinned) { vary(pinned.requests[i]); });
    }
  listStays();
  plan::NetworkKnobs::forEachKnob([&](const plan::KnobInfo &info, auto member) {
    if (options.network.*member || !(result.pinned.choice.ways.*member))
      return;
    Aspect &aspect = result.aspects.emplace_back(Aspect{std::nullopt, info.name, {}});
    using Value = std::decay_t<decltype(*(options.network.*member))>;
    if constexpr (std::is_enum_v<Value>)
      for (size_t value = 0; value < info.spellings.size(); ++value)
        if (result.pinned.choice.ways.*member != Value(value))
          aspect.values.push_back([member, value](Pinned &pinned) { pinned.choice.ways.*member = Value(value); });
    if (aspect.values.empty())
      result.aspects.pop_back();
  });
}

/// Where results stay: in DRAM, on chip as a whole, or in bands, of as many rows as those beside them; and these rows, of a chain at once.
void NetworkCompiler::listStays() {
  const std::vector<plan::KernelPlan> &chosen = result.pinned.requests;
  auto isFree = [&](size_t i) { return chosen[i].onChip && !layers[i].kernel.plan.onChip; };
  auto bandsOf = [&](size_t i) { return i < chosen.size() && isFree(i) ? chosen[i].rowTile : 0; };
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (!isFree(i))
      continue;
    std::set<int64_t> bands{bandsOf(i), bandsOf(i - 1), bandsOf(i + 1), 0};
    if (bands.size() == 1)
      bands.insert(std::begin(kFirstBands), std::end(kFirstBands));
    Aspect aspect{unsigned(i), "result of " + layers[i].kernel.name, {}};
    for (int64_t rows : bands)
      for (bool stays : {false, true})
        if ((stays || !rows) && (*chosen[i].onChip != stays || chosen[i].rowTile != rows))
          aspect.values.push_back([=](Pinned &pinned) {
            plan::KernelPlan &request = pinned.requests[i];
            request.onChip = stays;
            request.rowTile = rows;
            request.onChipFrom = 0;
          });
    result.aspects.push_back(std::move(aspect));
  }
  for (size_t begin = 0, end; begin < chosen.size(); begin = std::max(end, begin + 1)) {
    end = endOfChain(begin);
    if (end == begin)
      continue;
    Aspect aspect{unsigned(begin), "rows of bands from " + layers[begin].kernel.name, {}};
    for (int64_t rows : kBands)
      if (rows != bandsOf(begin))
        aspect.values.push_back([=](Pinned &pinned) {
          for (size_t i = begin; i < end; ++i)
            if (pinned.requests[i].rowTile)
              pinned.requests[i].rowTile = rows;
        });
    result.aspects.push_back(std::move(aspect));
  }
}

llvm::Error NetworkCompiler::assemble() {
  std::optional<int64_t> spare;
  if (lessons.spare)
    spare = int64_t(machine.scratchpads[0].capacityBytes) - lessons.spare;
  Result<bool> synchronized = schedule::synchronize(network.tiles, machine, spare);
  if (!synchronized) {
    if (!spare && synchronized.diagnostics().front().kind == DiagnosticKind::TooManyWaits) {
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
  std::function<llvm::Error(const std::vector<schedule::Code> &, unsigned)> appendAll = [&](const auto &code,
                                                                                            unsigned depth) -> llvm::Error {
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
  if (!onlyTimed) {
    // The steps are in the program now, and large constants need their memory.
    network.tiles = {};
    network.steps = {};
    bestNetwork = {};
    if (network.nextAddress >= kLargeBytes)
      returnFreeMemory();
    for (const accel::Constant &constant : network.constants)
      program.constants.push_back({constant.address, constant.bytes()});
  }
  program.codeAddress = (network.nextAddress + kAlignment - 1) / kAlignment * kAlignment;
  program.dramBytes = program.codeAddress + program.code.size() * isa::kWordBytes;
  program.dramBytes = (program.dramBytes + 63) / 64 * 64;
  if (llvm::Error error = checkDram(program.dramBytes))
    return error;
  Diagnostics problems = schedule::verifySchedule(program, machine);
  if (!problems.empty()) {
    std::string all;
    for (const tw::Diagnostic &problem : problems) {
      // Counts depend on the program; a machine may simply count too little.
      if (problem.kind == DiagnosticKind::TooManyPosts) {
        const uint64_t word = problem.word.value_or(UINT64_MAX);
        const uint32_t owner = word < program.layerOf.size() ? program.layerOf[word] : UINT32_MAX;
        std::string place = owner < layers.size() ? layers[owner].kernel.plan.place() : "";
        return llvm::createStringError("%smachine '%s' is too small: %s", place.c_str(), machine.name.c_str(),
                                       problem.str().c_str());
      }
      all += "\n  " + problem.str();
    }
    return llvm::createStringError("internal: the schedule does not verify:%s", all.c_str());
  }
  return llvm::Error::success();
}

llvm::Expected<Tiles> NetworkCompiler::runTiles() {
  if (llvm::Error error = emit())
    return error;
  addBounds();
  return Tiles{std::move(network), std::move(result.program.layers)};
}

llvm::Expected<CompiledNetwork> NetworkCompiler::run() {
  if (llvm::Error error = emit())
    return error;
  std::vector<std::pair<std::string, plan::KernelPlan>> choices;
  for (auto [layer, chosen] : llvm::zip_equal(result.program.layers, network.chosen))
    choices.push_back({layer.name, chosen});
  const plan::NetworkKnobs knobs = hasWays() ? result.weighed.front().ways : plan::NetworkKnobs();
  for (const accel::Group &group : fusion->groups)
    result.groups.push_back({group.first, group.last()});
  result.planText = plan::printPlanFile(options.schedule, knobs, choices);
  if (!onlyTimed)
    addBounds();
  if (llvm::Error error = assemble())
    return error;
  if (options.schedule == accel::Schedule::Search && picks.empty())
    if (llvm::Error error = describeProblem())
      return error;
  if (options.schedule == accel::Schedule::Search && hasWays() && layers.size() > 1 && !onlyTimed)
    listAspects();
  return std::move(result);
}

llvm::Expected<Measurement> NetworkCompiler::estimate() {
  onlyEstimates = true;
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
