//===- NetworkKernels.cpp - A network as kernels and tensors ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/NetworkKernels.h"

#include "compiler/graph/Aliases.h"
#include "compiler/graph/transforms/KernelTarget.h"
#include "compiler/plan/PlanDialect.h"
#include "compiler/text/Diagnostics.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <numeric>

using namespace mlir;
using namespace tw;
using namespace tw::pipeline;

namespace {
constexpr uint64_t kAlignment = 4096; ///< tensors start in different DRAM rows, and never share a burst

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

/// Of a kernel's result.
uint64_t writtenBytes(const accel::Kernel &kernel) {
  if (kernel.copies.empty())
    return accel::touchedBytes(kernel, kernel.output.tensor);
  uint64_t elements = 0;
  for (const accel::Copy &copy : kernel.copies)
    elements += std::accumulate(copy.shape.begin(), copy.shape.end(), uint64_t(1), std::multiplies<>());
  return elements * accel::byteSize(kernel.outputType);
}

uint64_t bytesOf(RankedTensorType type) {
  return uint64_t(type.getNumElements()) * std::max(1u, type.getElementTypeBitWidth() / 8);
}
} // namespace

llvm::Expected<NetworkKernels> NetworkKernels::build(ModuleOp module, const CompileOptions &options) {
  NetworkKernels network;
  network.module = module;
  network.mainFunction = module.lookupSymbol<func::FuncOp>("main");
  if (!network.mainFunction || network.mainFunction.isExternal())
    return llvm::createStringError("the module has no function @main");
  if (llvm::Error error = network.findTensors())
    return std::move(error);
  if (llvm::Error error = network.joinAliases())
    return std::move(error);
  network.joinConcats();
  network.describeTensors();
  // Code and constants come on top: what is too large already need not be compiled.
  if (llvm::Error error = checkDram(network.place({}).bytes, *options.machine))
    return std::move(error);
  for (bool isInput : {true, false})
    if (llvm::Error error = network.describe(isInput))
      return std::move(error);
  if (llvm::Error error = network.addLayers(options))
    return std::move(error);
  network.findPlanes();
  return network;
}

llvm::Error NetworkKernels::findTensors() {
  unsigned step = 0;
  auto define = [&](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    tensorOf[value] = tensors.size();
    tensors.push_back({bytesOf(type), step, step, 0});
  };
  Block &body = mainFunction.getBody().front();
  for (BlockArgument argument : body.getArguments())
    define(argument);
  for (Operation &op : body) {
    ++step;
    for (Value operand : op.getOperands())
      if (auto tensor = tensorOf.find(operand); tensor != tensorOf.end())
        tensors[tensor->second].end = step;
    if (llvm::isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ReshapeOp, tensor::CastOp>(op)) {
      const size_t tensor = tensorOf[op.getOperand(0)]; // a copy: the next line may move the entries
      tensorOf[op.getResult(0)] = tensor;
    } else if (llvm::isa<func::CallOp, arith::ConstantOp>(op)) {
      for (Value value : op.getResults())
        if (llvm::isa<RankedTensorType>(value.getType()))
          define(value);
    } else if (!llvm::isa<func::ReturnOp>(op)) {
      return llvm::createStringError("internal: '%s' has no place in @main", op.getName().getStringRef().str().c_str());
    }
  }
  return llvm::Error::success();
}

/// What makes a value, behind views of it; null: an input.
static Operation *makerOf(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && !llvm::isa<func::CallOp, arith::ConstantOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

/// An output with an alias is the tensor of its input. Whoever reads the input must do so before the output is written.
llvm::Error NetworkKernels::joinAliases() {
  Block &body = mainFunction.getBody().front();
  for (unsigned i = 0; i < mainFunction.getNumResults(); ++i) {
    auto name = mainFunction.getResultAttrOfType<StringAttr>(i, graph::kAliasAttr);
    if (!name)
      continue;
    auto refuse = [&](const llvm::Twine &why) {
      const std::string text = ("output '" + graph::outputName(mainFunction, i) + "' cannot lie at the place of input '" +
                                name.getValue() + "': " + why)
                                   .str();
      return llvm::createStringError("%s", text.c_str());
    };
    auto argument = llvm::find_if(body.getArguments(), [&](BlockArgument each) {
      return graph::inputName(mainFunction, each.getArgNumber()) == name.getValue();
    });
    if (argument == body.args_end())
      return refuse("there is no such input");
    const size_t input = tensorOf[*argument], output = tensorOf[body.getTerminator()->getOperand(i)];
    if (input == output)
      continue;
    auto writer = llvm::dyn_cast_or_null<func::CallOp>(makerOf(body.getTerminator()->getOperand(i)));
    if (!writer)
      return refuse("no kernel computes it");
    if (tensors[input].bytes != tensors[output].bytes || aliases.count(output))
      return refuse("another output has its values");
    for (Operation &op : body)
      for (Value operand : op.getOperands()) {
        auto tensor = tensorOf.find(operand);
        auto reader = llvm::dyn_cast<func::CallOp>(op);
        if (tensor == tensorOf.end() || tensor->second != input || &op == writer)
          continue;
        if (llvm::isa<func::ReturnOp>(op))
          return refuse("the input is an output as well");
        if (reader && writer->isBeforeInBlock(&op))
          return refuse("kernel '" + reader.getCallee() + "' reads the input when the output has been written");
      }
    for (auto &entry : tensorOf)
      if (entry.second == output)
        entry.second = input;
    tensors[input].end = std::max(tensors[input].end, tensors[output].end);
    tensors[output].bytes = 0;
    aliases[input] = output;
  }
  return llvm::Error::success();
}

/// A kernel whose result is an input as well moves only what is not there yet.
llvm::Error NetworkKernels::keepInPlace(func::CallOp call, accel::Kernel &kernel) const {
  const size_t result = tensorOf.find(call.getResult(0))->second;
  if (!aliases.count(result))
    return llvm::Error::success();
  auto isInput = [&](int tensor) {
    const accel::KernelTensor &t = kernel.tensors[size_t(tensor)];
    return t.role == accel::KernelTensor::Argument && tensorOf.find(call.getOperand(t.index))->second == result;
  };
  bool reads = false;
  for (size_t i = 0; i < kernel.tensors.size(); ++i)
    reads |= isInput(int(i));
  const std::string place = "kernel '" + kernel.name + "' cannot write its result at the place of an input: ";
  if (kernel.copies.empty()) {
    const bool hasReaders = llvm::any_of(mainFunction.getBody().getArguments(), [&](BlockArgument argument) {
      return tensorOf.find(argument)->second == result && !argument.use_empty();
    });
    return hasReaders ? llvm::createStringError("%sit computes; only a Concat of parts of the input with others, or a result "
                                                "of which nothing reads the input, is written in place",
                                                place.c_str())
                      : llvm::Error::success();
  }
  if (!reads)
    return llvm::Error::success();
  for (const accel::Copy &copy : kernel.copies) {
    if (!isInput(copy.from.tensor))
      continue;
    bool stays = copy.from.offset == copy.to.offset;
    for (size_t d = 0; d < copy.shape.size(); ++d)
      stays &= copy.padLow[d] == 0 && copy.padHigh[d] == 0 && (copy.shape[d] == 1 || copy.fromStride[d] == copy.toStride[d]);
    if (!stays)
      return llvm::createStringError("%swhat it keeps of the input has another place in the result", place.c_str());
  }
  llvm::erase_if(kernel.copies, [&](const accel::Copy &copy) { return isInput(copy.from.tensor); });
  if (kernel.copies.empty())
    return llvm::createStringError("%sit is the input", place.c_str());
  return llvm::Error::success();
}

/// A concatenation of kernel results that nothing else reads needs no copies: each producer stores its part in place.
void NetworkKernels::joinConcats() {
  auto isConcat = [](Operation &op) { return llvm::isa<tensor::ConcatOp>(op); };
  auto isMoved = [](Value result) {
    return llvm::isa_and_nonnull<linalg::TransposeOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp>(result.getDefiningOp());
  };
  for (auto call : mainFunction.getOps<func::CallOp>()) {
    auto function = module.lookupSymbol<func::FuncOp>(call.getCallee());
    tensor::ConcatOp concat = function ? onlyConcat(function) : tensor::ConcatOp();
    if (!concat)
      continue;
    bool possible = true;
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
    const size_t whole = tensorOf[call.getResult(0)];
    SmallVector<int64_t> shape(concat.getResultType().getShape());
    int64_t inner = 1, offset = 0;
    for (size_t i = concat.getDim() + 1; i < shape.size(); ++i)
      inner *= shape[i];
    for (Value input : concat.getInputs()) {
      Value operand = call.getOperand(cast<BlockArgument>(input).getArgNumber());
      memory::LiveRange &own = tensors[tensorOf[operand]];
      tensors[whole].begin = std::min(tensors[whole].begin, own.begin);
      own.bytes = 0;
      tensorOf[operand] = whole;
      parts[operand] = {shape, offset};
      offset += cast<RankedTensorType>(input.getType()).getDimSize(int64_t(concat.getDim())) * inner;
    }
    inPlace.insert(call);
  }
}

/// A concatenation that the network returns lies in DRAM at the end, but who reads it need not wait until it does: loads take its parts from
/// where they lie. Adds the parts to the kernel's tensors and returns the operands of the call with the parts behind them.
std::vector<Value> NetworkKernels::readParts(func::CallOp call, unsigned step, accel::Kernel &kernel) {
  std::vector<Value> values(call.operand_begin(), call.operand_end());
  auto isInAnother = [&](Value part) {
    Operation *partMaker = makerOf(part);
    return partMaker && parts.count(partMaker->getResult(0));
  };
  for (unsigned i = 0; i < call.getNumOperands(); ++i) {
    auto maker = llvm::dyn_cast_or_null<func::CallOp>(makerOf(call.getOperand(i)));
    auto function = maker ? module.lookupSymbol<func::FuncOp>(maker.getCallee()) : func::FuncOp();
    tensor::ConcatOp concat = function ? onlyConcat(function) : tensor::ConcatOp();
    const size_t whole = tensorOf[call.getOperand(i)];
    // Parts that lie in another tensor or are written over have no place of their own.
    auto isApart = [&](Value part) { return !isInAnother(part) && !aliases.count(tensorOf[part]); };
    if (!concat || inPlace.contains(maker) || !isOutput[whole] || aliases.count(whole) ||
        !llvm::all_of(maker.getOperands(), isApart))
      continue;
    accel::Concatenation concatenation;
    const ArrayRef<int64_t> shape = concat.getResultType().getShape();
    concatenation.size = shape[concat.getDim()];
    for (int64_t extent : shape.drop_front(concat.getDim() + 1))
      concatenation.inner *= extent;
    auto argument = llvm::find_if(
        kernel.tensors, [&](const accel::KernelTensor &t) { return t.role == accel::KernelTensor::Argument && t.index == i; });
    const size_t tensor = size_t(argument - kernel.tensors.begin());
    if (argument == kernel.tensors.end() || !accel::canReadParts(kernel, int(tensor), concatenation))
      continue;
    int64_t begin = 0;
    for (Value input : concat.getInputs()) {
      Value part = maker.getOperand(cast<BlockArgument>(input).getArgNumber());
      const int64_t end = begin + cast<RankedTensorType>(input.getType()).getDimSize(int64_t(concat.getDim()));
      concatenation.parts.push_back({int(kernel.tensors.size()), begin, end});
      begin = end;
      accel::KernelTensor added;
      added.role = accel::KernelTensor::Part;
      added.index = unsigned(values.size());
      added.type = kernel.tensors[tensor].type;
      added.elements = cast<RankedTensorType>(part.getType()).getNumElements();
      kernel.tensors.push_back(added);
      memory::LiveRange &range = tensors[tensorOf[part]];
      range.end = std::max(range.end, step);
      values.push_back(part);
    }
    kernel.tensors[tensor].concatenation = concatenation;
    kernel.kind += " of parts";
    for (const accel::Concatenation::Part &part : concatenation.parts)
      kernel.kind += " " + std::to_string(part.end);
  }
  return values;
}

/// Inputs are written before the program starts and outputs read after it ends: neither shares memory with anything.
void NetworkKernels::describeTensors() {
  Block &body = mainFunction.getBody().front();
  shapes.resize(tensors.size());
  isOutput.assign(tensors.size(), false);
  boundTensors.resize(tensors.size());
  for (auto call : body.getOps<func::CallOp>()) // the shape of the whole, whatever view of it a kernel has
    if (call.getNumResults() == 1 && !parts.count(call.getResult(0)))
      shapes[tensorOf[call.getResult(0)]] = cast<RankedTensorType>(call.getResult(0).getType()).getShape().vec();
  const unsigned last = unsigned(llvm::range_size(body)) + 1;
  for (BlockArgument argument : body.getArguments()) {
    const size_t tensor = tensorOf[argument];
    tensors[tensor].end = last;
    shapes[tensor].clear();
    boundTensors[tensor].input = true;
  }
  for (auto constant : body.getOps<arith::ConstantOp>())
    if (auto tensor = tensorOf.find(constant.getResult()); tensor != tensorOf.end()) {
      shapes[tensor->second].clear();
      auto value = dyn_cast<DenseElementsAttr>(constant.getValue());
      boundTensors[tensor->second].constant = value && !value.isSplat(); // a fill makes the others
    }
  for (Value output : body.getTerminator()->getOperands()) {
    const size_t tensor = tensorOf[output];
    tensors[tensor].begin = 0;
    tensors[tensor].end = last;
    isOutput[tensor] = boundTensors[tensor].output = true;
  }
  for (size_t i = 0; i < tensors.size(); ++i)
    boundTensors[i].bytes = tensors[i].bytes;
  for (auto [input, output] : aliases) { // addLayer() adds what is written
    boundTensors[input].output = false;
    boundTensors[output].output = true;
  }
}

llvm::Error NetworkKernels::checkDram(uint64_t bytes, const timing::MachineParams &machine) {
  if (bytes <= machine.dram.capacityBytes)
    return llvm::Error::success();
  return llvm::createStringError("the network needs %llu bytes of DRAM but machine '%s' has %llu", (unsigned long long)bytes,
                                 machine.name.c_str(), (unsigned long long)machine.dram.capacityBytes);
}

llvm::Error NetworkKernels::describe(bool isInput) {
  auto add = [&](Value value, DictionaryAttr attributes, const std::string &name) -> llvm::Error {
    auto type = cast<RankedTensorType>(value.getType());
    isa::TensorInfo info;
    info.name = name;
    bool isUnsigned = false;
    if (attributes) {
      if (auto given = attributes.getAs<StringAttr>("graph.name"))
        info.name = given.getValue().str();
      isUnsigned = attributes.contains("tilewright.unsigned");
    }
    std::optional<isa::ElementKind> kind = elementKind(type.getElementType(), isUnsigned);
    if (!kind) {
      std::string text;
      llvm::raw_string_ostream(text) << type.getElementType();
      return llvm::createStringError("%s '%s' has element type %s, which the accelerator does not store",
                                     isInput ? "input" : "output", info.name.c_str(), text.c_str());
    }
    info.type = *kind;
    info.shape.assign(type.getShape().begin(), type.getShape().end());
    info.bytes = bytesOf(type);
    (isInput ? inputs : outputs).push_back({info, tensorOf[value]});
    return llvm::Error::success();
  };
  Block &body = mainFunction.getBody().front();
  if (isInput) {
    for (BlockArgument argument : body.getArguments())
      if (llvm::Error error = add(argument, mainFunction.getArgAttrDict(argument.getArgNumber()),
                                  "input" + std::to_string(argument.getArgNumber())))
        return error;
  } else {
    for (auto [i, output] : llvm::enumerate(body.getTerminator()->getOperands()))
      if (llvm::Error error = add(output, mainFunction.getResultAttrDict(unsigned(i)), "output" + std::to_string(i)))
        return error;
  }
  return llvm::Error::success();
}

/// Constants of @main go to DRAM, its calls become layers.
llvm::Error NetworkKernels::addLayers(const CompileOptions &options) {
  llvm::DenseMap<Operation *, accel::Kernel> matched; // what functions compute, once for all their calls
  unsigned step = 0;
  for (Operation &op : mainFunction.getBody().front()) {
    ++step;
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      addConstant(constant);
    else if (auto call = dyn_cast<func::CallOp>(op))
      if (llvm::Error error = addLayer(call, step, options, matched))
        return error;
    if (llvm::isa<func::ReturnOp>(op))
      for (Value output : op.getOperands())
        outputSources.push_back(sourcesOf(output));
  }
  return llvm::Error::success();
}

/// Looks through what makes no code: views, and concatenations whose parts are written in place.
Sources NetworkKernels::sourcesOf(ValueRange values) const {
  Sources sources;
  SmallVector<Value> pending(values.begin(), values.end());
  llvm::DenseSet<Value> seen;
  while (!pending.empty()) {
    const Value value = pending.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    Operation *op = value.getDefiningOp();
    if (auto argument = dyn_cast<BlockArgument>(value))
      sources.inputs.push_back(argument.getArgNumber());
    else if (auto layer = layerOf.find(op); layer != layerOf.end())
      sources.layers.push_back(layer->second);
    else
      pending.append(op->operand_begin(), op->operand_end());
  }
  for (std::vector<unsigned> *numbers : {&sources.layers, &sources.inputs}) {
    llvm::sort(*numbers);
    numbers->erase(llvm::unique(*numbers), numbers->end());
  }
  return sources;
}

void NetworkKernels::addConstant(arith::ConstantOp constant) {
  auto value = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!value || constant->use_empty())
    return;
  const unsigned size = std::max(1u, value.getElementType().getIntOrFloatBitWidth() / 8);
  constants.push_back({tensorOf[constant.getResult()], [value, size] {
                         std::vector<uint8_t> bytes(size_t(value.getNumElements()) * size);
                         if (value.getElementType().isInteger(1)) // bits in MLIR, bytes in DRAM
                           llvm::copy(value.getValues<bool>(), bytes.begin());
                         else
                           for (int64_t i = 0; i < value.getNumElements(); ++i)
                             memcpy(bytes.data() + i * size, value.getRawData().data() + (value.isSplat() ? 0 : i * size),
                                    size);
                         return bytes;
                       }});
}

llvm::Error NetworkKernels::addInPlace(func::FuncOp function) {
  FailureOr<plan::KernelPlan> asked = plan::planOf(function);
  if (succeeded(asked) && function->hasAttr(plan::kPlanAttr))
    return llvm::createStringError("%skernel '%s' has no code of its own: its producers write its result in place",
                                   asked->place().c_str(), function.getName().str().c_str());
  if (auto nodes = function->getAttrOfType<ArrayAttr>(graph::kNodesAttr))
    for (Attribute node : nodes)
      offload.push_back({cast<StringAttr>(node).getValue().str(), "written in place by its producers"});
  return llvm::Error::success();
}

llvm::Error NetworkKernels::addLayer(func::CallOp call, unsigned step, const CompileOptions &options,
                                     llvm::DenseMap<Operation *, accel::Kernel> &matched) {
  const timing::MachineParams &machine = *options.machine;
  auto function = module.lookupSymbol<func::FuncOp>(call.getCallee());
  if (inPlace.contains(call))
    return addInPlace(function);
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
  if (llvm::Error error = keepInPlace(call, kernel))
    return error;
  const std::vector<Value> values = readParts(call, step, kernel);
  kernel.isFinite = options.math >= graph::Math::Finite || machine.arrayType == timing::ArrayType::Int8;
  if (auto part = parts.find(call.getResult(0)); part != parts.end())
    makePart(part->second, kernel);
  if (auto alias = aliases.find(tensorOf.find(call.getResult(0))->second); alias != aliases.end()) {
    const uint64_t written = writtenBytes(kernel);
    boundTensors[alias->second].bytes += written;
    boundTensors[alias->first].bytes -= std::min(boundTensors[alias->first].bytes, written);
  }
  Layer layer{function.getName().str(), std::move(kernel), std::nullopt, {}, sourcesOf(call.getOperands()), step};
  llvm::Expected<std::optional<accel::Kernel>> packed = packKernel(layer.kernel, options);
  if (!packed)
    return packed.takeError();
  layer.packed = std::move(*packed);
  for (const accel::KernelTensor &tensor : layer.kernel.tensors) {
    if (tensor.role == accel::KernelTensor::Constant)
      layer.tensors.push_back(0);
    else
      layer.tensors.push_back(
          tensorOf.find(tensor.role == accel::KernelTensor::Result ? call.getResult(tensor.index) : values[tensor.index])
              ->second);
  }
  for (const std::string &node : layer.kernel.nodes)
    offload.push_back({node, "layer " + layer.kernel.name});
  layerOf[call] = unsigned(layers.size());
  layers.push_back(std::move(layer));
  return llvm::Error::success();
}

/// The kernel writes its part of the whole.
void NetworkKernels::makePart(const Part &part, accel::Kernel &kernel) const {
  int64_t stride = 1, rank = int64_t(part.shape.size());
  for (int64_t axis = 0; axis < rank; ++axis) {
    kernel.output.stride[size_t(axis)] = stride;
    for (accel::Copy &copy : kernel.copies)
      copy.toStride[size_t(rank - 1 - axis)] = stride;
    stride *= part.shape[size_t(rank - 1 - axis)];
  }
  kernel.output.offset = part.offset;
  for (accel::Copy &copy : kernel.copies)
    copy.to.offset = part.offset;
}

llvm::Expected<std::optional<accel::Kernel>> pipeline::packKernel(const accel::Kernel &kernel, const CompileOptions &options) {
  const plan::KernelPlan &asked = kernel.plan;
  const bool overlaps = accel::overlapsKernels(options.schedule), isShared = asked.arrayChannels.value_or(0) > 0;
  std::optional<accel::Kernel> packed;
  if (overlaps && !isShared)
    packed = accel::packPixels(kernel, *options.machine);
  if (asked.pixelPacking != true)
    return packed;
  auto refuse = [&](const std::string &why) {
    return llvm::createStringError("%spixel_packing is true but kernel '%s' %s", asked.placeOf({"pixel_packing"}).c_str(),
                                   kernel.name.c_str(), why.c_str());
  };
  if (!overlaps)
    return refuse("has schedule " + std::string(nameOf(options.schedule)) + ", and only pipelined and search pack pixels");
  if (isShared)
    return refuse("has channels on the array");
  if (!packed)
    return refuse("would take no fewer cycles so");
  if (int64_t count = packed->outputsPerVector; asked.tile[accel::P0] % count)
    return refuse("then makes " + std::to_string(count) + " outputs along x at once, which do not divide the size of " +
                  std::to_string(asked.tile[accel::P0]));
  return packed;
}

void NetworkKernels::findPlanes() {
  planes.assign(tensors.size(), 1);
  std::vector<bool> isOther(tensors.size(), false); // some reader takes it in another way
  for (const Layer &layer : layers)
    for (auto [i, operand] : llvm::enumerate(layer.kernel.tensors)) {
      const size_t tensor = layer.tensors[i];
      if (operand.role != accel::KernelTensor::Argument || isOther[tensor])
        continue;
      const std::optional<accel::Anchor> &anchor = layer.kernel.anchor;
      isOther[tensor] = planes[tensor] > 1 || !anchor || anchor->kind != accel::Anchor::Contraction ||
                        anchor->input.tensor != int(i) || anchor->input.stride[accel::C] <= 1;
      planes[tensor] = isOther[tensor] ? 1 : anchor->ic;
    }
}

NetworkKernels::DramPlacement NetworkKernels::place(llvm::ArrayRef<accel::Group> groups) const {
  std::vector<memory::LiveRange> ranges = tensors;
  for (const accel::Group &group : groups)
    for (unsigned k = group.first; k <= group.last(); ++k)
      for (auto [i, tensor] : llvm::enumerate(layers[k].kernel.tensors))
        if (tensor.role != accel::KernelTensor::Constant) {
          memory::LiveRange &range = ranges[layers[k].tensors[i]];
          range.begin = std::min(range.begin, layers[group.first].step);
          range.end = std::max(range.end, layers[group.last()].step);
        }
  DramPlacement placement;
  placement.bytes = memory::place(ranges, kAlignment);
  for (const memory::LiveRange &range : ranges)
    placement.addresses.push_back(range.address);
  return placement;
}

void NetworkKernels::addBounds(const timing::MachineParams &machine, CompiledNetwork &network) const {
  std::vector<cost::LayerWork> work;
  for (auto [source, layer] : llvm::zip_equal(layers, network.program.layers)) {
    work.push_back(accel::workOf(source.kernel, machine));
    work.back().output.tensor = unsigned(source.tensors[work.back().output.tensor]);
    if (auto alias = aliases.find(work.back().output.tensor); alias != aliases.end()) {
      work.back().output.tensor = unsigned(alias->second);
      work.back().output.bytes = writtenBytes(source.kernel);
      work.back().pieces.clear(); // they number all elements of the input
    }
    for (cost::TensorUse &use : work.back().inputs)
      use.tensor = unsigned(source.tensors[use.tensor]);
    const cost::Bound bound = cost::layerBound(work.back(), machine);
    network.layerTraffic.push_back(cost::layerTraffic(work.back(), machine));
    layer.boundCycles = bound.cycles;
    layer.boundBy = bound.by;
    network.layerSerialCycles += bound.cycles;
  }
  const cost::Bound bound = cost::networkBound(work, boundTensors, machine);
  network.lowerBoundBytes = cost::networkBytes(work, boundTensors, machine);
  network.lowerBoundCycles = bound.cycles;
  network.boundBy = bound.by;
}

explore::Problem NetworkKernels::problem(const CompileOptions &options) const {
  explore::Problem problem{*options.machine, {}, options.network};
  const bool overlaps = accel::overlapsKernels(options.schedule);
  problem.overlapsKernels = overlaps && options.across != Across::None;
  problem.keepsResults = overlaps && options.across == Across::All;
  for (const Layer &layer : layers)
    problem.layers.push_back({&layer.kernel, layer.packed ? &*layer.packed : nullptr, layer.tensors});
  for (const memory::LiveRange &range : tensors)
    problem.tensorBytes.push_back(range.bytes);
  return problem;
}
