//===- CompileAccelerator.cpp - Kernels to one verified program ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/memory/Placement.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/pipeline/Diagnostics.h"
#include "compiler/schedule/Synchronize.h"
#include "compiler/schedule/Verifier.h"
#include "isa/timing/Digest.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace tw;
using namespace tw::pipeline;

namespace {
constexpr uint64_t kAlignment = 4096; ///< tensors start in different DRAM rows, and never share a burst

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
  NetworkCompiler(ModuleOp module, const CompileOptions &options)
      : module(module), options(options), machine(*options.machine) {}

  llvm::Expected<CompiledNetwork> run();
  /// The tiles phase alone.
  llvm::Expected<Tiles> runTiles();

private:
  ModuleOp module;
  const CompileOptions &options;
  const timing::MachineParams &machine;
  func::FuncOp mainFunction;
  std::vector<memory::LiveRange> ranges;
  llvm::DenseMap<Value, Home> homes;
  llvm::DenseMap<Value, Part> parts;
  llvm::DenseSet<Operation *> inPlace; ///< concatenations whose producers write the result
  CompiledNetwork result;
  accel::NetworkProgram network;

  llvm::Error emit();
  llvm::Error placeTensors();
  void joinConcats();
  llvm::Error describe(bool inputs);
  llvm::Error emitKernels();
  llvm::Error assemble();
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
      // Copies have views of their own, and a part of a part would need two.
      possible &= made && operand.hasOneUse() && !parts.count(operand) && !onlyConcat(made) &&
                  llvm::any_of(made.getBody().front(), [](Operation &op) { return llvm::isa<linalg::GenericOp>(op); }) &&
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

llvm::Error NetworkCompiler::emitKernels() {
  std::vector<cost::LayerWork> work;
  // Per range: bytes that the layer that reads most of it reads, and bytes that all layers together write.
  std::vector<uint64_t> read(ranges.size(), 0), written(ranges.size(), 0);
  for (Operation &op : mainFunction.getBody().front()) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto value = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (!value || op.use_empty())
        continue;
      unsigned size = std::max(1u, value.getElementType().getIntOrFloatBitWidth() / 8);
      std::vector<uint8_t> bytes(size_t(value.getNumElements()) * size);
      if (value.getElementType().isInteger(1)) // bits in MLIR, bytes in DRAM
        llvm::copy(value.getValues<bool>(), bytes.begin());
      else
        for (int64_t i = 0; i < value.getNumElements(); ++i)
          memcpy(bytes.data() + i * size, value.getRawData().data() + (value.isSplat() ? 0 : i * size), size);
      network.constants.push_back({addressOf(constant.getResult()), std::move(bytes)});
      continue;
    }
    auto call = dyn_cast<func::CallOp>(op);
    if (!call)
      continue;
    auto function = module.lookupSymbol<func::FuncOp>(call.getCallee());
    if (inPlace.contains(call)) {
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
    std::vector<uint64_t> addresses;
    for (const accel::KernelTensor &tensor : kernel->tensors)
      addresses.push_back(tensor.role == accel::KernelTensor::Argument ? addressOf(call.getOperand(tensor.index))
                          : tensor.role == accel::KernelTensor::Result ? addressOf(call.getResult(tensor.index))
                                                                       : 0);
    uint32_t layer = uint32_t(result.program.layers.size());
    if (llvm::Error error = accel::emitKernel(*kernel, machine, options.schedule, addresses, layer, network)) {
      std::string details = text.str();
      if (details.empty())
        return error;
      return llvm::createStringError("%s\n%s", llvm::toString(std::move(error)).c_str(), details.c_str());
    }
    for (auto [i, tensor] : llvm::enumerate(kernel->tensors)) {
      uint64_t bytes = accel::touchedBytes(*kernel, int(i));
      if (tensor.role == accel::KernelTensor::Argument) {
        uint64_t &most = read[homes.find(call.getOperand(tensor.index))->second.range];
        most = std::max(most, bytes);
      } else if (tensor.role == accel::KernelTensor::Result) {
        written[homes.find(call.getResult(tensor.index))->second.range] += bytes;
      }
    }
    work.push_back(accel::workOf(*kernel, machine));
    cost::Bound bound = cost::layerBound(work.back(), machine);
    result.program.layers.push_back({kernel->name, kernel->nodes, kernel->macs, bound.cycles, bound.by});
    result.macs += kernel->macs;
    result.layerSerialCycles += bound.cycles;
    for (const std::string &node : kernel->nodes)
      result.offload.push_back({node, "accelerator", "layer " + kernel->name});
  }
  // Inputs come from DRAM and outputs go there, as far as some layer touches them: an output may be an input.
  uint64_t boundary = 0;
  Block &body = mainFunction.getBody().front();
  for (BlockArgument argument : body.getArguments()) {
    size_t range = homes.find(argument)->second.range;
    boundary += std::min(ranges[range].bytes, read[range]);
  }
  llvm::SmallDenseSet<size_t> outputs;
  for (Value output : body.getTerminator()->getOperands())
    if (size_t range = homes.find(output)->second.range; outputs.insert(range).second)
      boundary += std::min(ranges[range].bytes, written[range]);
  cost::Bound bound = cost::networkBound(work, boundary, machine);
  result.lowerBoundCycles = bound.cycles;
  result.boundBy = bound.by;
  return llvm::Error::success();
}

llvm::Error NetworkCompiler::assemble() {
  Result<bool> synchronized = schedule::synchronize(network.tiles, machine);
  if (!synchronized)
    return llvm::createStringError("%s", synchronized.message().c_str());
  isa::Program &program = result.program;
  program.machine = machine.name;
  program.architecturalDigest = timing::architecturalDigest(machine);
  program.timingDigest = timing::timingDigest(machine);
  llvm::raw_string_ostream text(result.tilesText);
  uint32_t layer = UINT32_MAX;
  auto append = [&](const isa::Instruction &instruction, uint32_t owner, bool indent) -> llvm::Error {
    std::string why;
    if (!isa::fits(instruction, &why))
      return llvm::createStringError("internal: an instruction of layer %s cannot be encoded: %s",
                                     program.layers[owner].name.c_str(), why.c_str());
    isa::encode(instruction, program.code);
    program.layerOf.resize(program.code.size(), owner);
    if (owner != layer && owner < program.layers.size()) {
      layer = owner;
      text << "# " << program.layers[owner].name;
      if (owner < network.choices.size())
        text << ": " << network.choices[owner];
      text << "\n";
    }
    text << (indent ? "  " : "") << isa::print(instruction) << "\n";
    return llvm::Error::success();
  };
  for (const schedule::Block &block : network.tiles.blocks) {
    if (block.count > 1) {
      isa::Loop loop;
      loop.count = int64_t(block.count);
      for (const schedule::Operation &operation : block.operations)
        loop.body_words += operation.instruction.words();
      if (llvm::Error error = append(isa::Instruction(loop), block.operations.front().layer, false))
        return error;
    }
    for (const schedule::Operation &operation : block.operations)
      if (llvm::Error error = append(operation.instruction, operation.layer, block.count > 1))
        return error;
  }
  uint32_t last = program.layers.empty() ? 0 : uint32_t(program.layers.size()) - 1;
  if (program.layers.empty())
    program.layers.push_back({"empty", {}, 0, 0, "dram"});
  if (llvm::Error error = append(isa::Instruction(isa::Halt()), last, false))
    return error;
  program.constants = std::move(network.constants);
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
      if (problem.message.find("may reach") != std::string::npos)
        return llvm::createStringError("machine '%s' is too small: %s", machine.name.c_str(), problem.str().c_str());
      all += "\n  " + problem.str();
    }
    return llvm::createStringError("internal: the schedule does not verify:%s", all.c_str());
  }
  return llvm::Error::success();
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
  return emitKernels();
}

llvm::Expected<Tiles> NetworkCompiler::runTiles() {
  if (llvm::Error error = emit())
    return error;
  return Tiles{std::move(network), std::move(result.program.layers)};
}

llvm::Expected<CompiledNetwork> NetworkCompiler::run() {
  if (llvm::Error error = emit())
    return error;
  if (llvm::Error error = assemble())
    return error;
  return std::move(result);
}
} // namespace

llvm::Expected<Tiles> pipeline::emitTiles(ModuleOp module, const CompileOptions &options) {
  return NetworkCompiler(module, options).runTiles();
}

llvm::Expected<CompiledNetwork> pipeline::compileForAccelerator(ModuleOp module, const CompileOptions &options) {
  return NetworkCompiler(module, options).run();
}
