//===- CpuTarget.cpp - Linalg as native code ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/CpuTarget.h"
#include "compiler/codegen/cpu/Jit.h"
#include "compiler/codegen/cpu/KernelEmitter.h"
#include "compiler/codegen/cpu/MemoryPlan.h"
#include "compiler/codegen/cpu/NativeCode.h"
#include "compiler/codegen/cpu/Placement.h"
#include "compiler/codegen/cpu/TensorView.h"
#include "compiler/codegen/cpu/team/Team.h"
#include "isa/OutOfMemory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <thread>

using namespace mlir;
using tw::frontend::ElementKind;
using tw::frontend::HostTensor;

namespace tw::cpu {

char ValueError::ID = 0;

namespace {

llvm::Error failure(const llvm::Twine &message) { return llvm::createStringError(llvm::inconvertibleErrorCode(), message); }

/// Zeroed memory on a cache line boundary; its pages appear on first touch. Large ones are on large pages where the system has them, so
/// that walking weights misses no translation of addresses. Throws OutOfMemory.
class Memory {
public:
  explicit Memory(int64_t bytes = 0) {
    if (!bytes)
      return;
    const bool isLarge = bytes >= pageBytes;
    const size_t alignment = isLarge ? pageBytes : bufferAlignment, size = static_cast<size_t>(bytes) + 2 * alignment;
    void *start =
        isLarge ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : std::calloc(size, 1);
    if (!start || start == MAP_FAILED)
      throw OutOfMemory("the CPU's code needs buffers of " + std::to_string(bytes) + " bytes");
    storage = Storage(static_cast<char *>(start), Release{isLarge ? size : 0});
    const auto address = reinterpret_cast<uintptr_t>(start);
    aligned = storage.get() + (alignment - address % alignment) % alignment;
    if (isLarge)
      madvise(aligned, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  }
  char *data() const { return aligned; }

private:
  static constexpr int64_t pageBytes = 2 << 20;
  struct Release {
    size_t mappedBytes = 0;
    void operator()(char *pointer) const {
      if (mappedBytes)
        munmap(pointer, mappedBytes);
      else
        std::free(pointer);
    }
  };
  using Storage = std::unique_ptr<char, Release>;
  Storage storage{nullptr, Release()};
  char *aligned = nullptr;
};

struct TensorSpec {
  ElementKind kind = ElementKind::F32;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
  std::string name;
  /// Indices of a dim of so many elements; 0: other numbers.
  int64_t indexExtent = 0;
};

std::optional<ElementKind> elementKindOf(Type type) {
  if (type.isF32())
    return ElementKind::F32;
  if (type.isF16())
    return ElementKind::F16;
  if (type.isBF16())
    return ElementKind::BF16;
  if (type.isF64())
    return ElementKind::F64;
  if (!type.isSignlessInteger())
    return std::nullopt;
  switch (type.getIntOrFloatBitWidth()) {
  case 1:
    return ElementKind::Bool;
  case 8:
    return ElementKind::I8;
  case 16:
    return ElementKind::I16;
  case 32:
    return ElementKind::I32;
  case 64:
    return ElementKind::I64;
  default:
    return std::nullopt;
  }
}

std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text;
  for (int64_t extent : shape)
    text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text.empty() ? "scalar" : text;
}

llvm::Expected<TensorSpec> specOf(Operation *owner, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  std::optional<ElementKind> kind = tensor ? elementKindOf(tensor.getElementType()) : std::nullopt;
  if (!kind || !tensor.hasStaticShape())
    return errorAt(owner, "has an argument or result that is not a tensor of static shape and common element type");
  TensorSpec spec;
  spec.kind = *kind;
  spec.shape.assign(tensor.getShape().begin(), tensor.getShape().end());
  spec.bytes = tensorBytes(tensor);
  return spec;
}

struct Signature {
  std::vector<TensorSpec> inputs, outputs;
};

llvm::Expected<Signature> signatureOf(func::FuncOp function) {
  Signature signature;
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
    llvm::Expected<TensorSpec> spec = specOf(function, type);
    if (!spec)
      return spec.takeError();
    if (auto extent = function.getArgAttrOfType<IntegerAttr>(index, "tilewright.index_extent"))
      spec->indexExtent = extent.getInt();
    signature.inputs.push_back(*spec);
  }
  for (auto [index, type] : llvm::enumerate(function.getResultTypes())) {
    llvm::Expected<TensorSpec> spec = specOf(function, type);
    if (!spec)
      return spec.takeError();
    if (auto name = function.getResultAttrOfType<StringAttr>(index, "graph.name"))
      spec->name = name.getValue().str();
    if (function.getResultAttr(index, "tilewright.unsigned") && spec->kind == ElementKind::I8)
      spec->kind = ElementKind::U8;
    signature.outputs.push_back(*spec);
  }
  return signature;
}

llvm::Error checkTensor(const HostTensor &tensor, const TensorSpec &spec, llvm::StringRef what, size_t index) {
  if (tensor.shape != spec.shape || frontend::elementBytes(tensor.type) != frontend::elementBytes(spec.kind))
    return failure(what + " " + llvm::Twine(index) + " is " + frontend::elementName(tensor.type) + " " +
                   shapeText(tensor.shape) + ", but " + frontend::elementName(spec.kind) + " " + shapeText(spec.shape) +
                   " is needed");
  if (static_cast<int64_t>(tensor.bytes.size()) != spec.bytes)
    return failure(what + " " + llvm::Twine(index) + " holds " + llvm::Twine(tensor.bytes.size()) + " bytes, but " +
                   llvm::Twine(spec.bytes) + " are needed");
  return llvm::Error::success();
}

/// Makes `outputs` hold what `specs` describe, keeping types and names that fit.
void prepareOutputs(llvm::ArrayRef<TensorSpec> specs, std::vector<HostTensor> &outputs) {
  outputs.resize(specs.size());
  for (auto [spec, tensor] : llvm::zip(specs, outputs)) {
    bool fits = tensor.shape == spec.shape && static_cast<int64_t>(tensor.bytes.size()) == spec.bytes &&
                frontend::elementBytes(tensor.type) == frontend::elementBytes(spec.kind);
    if (fits)
      continue;
    if (tensor.name.empty())
      tensor.name = spec.name;
    tensor.type = spec.kind;
    tensor.shape = spec.shape;
    tensor.bytes.assign(spec.bytes, 0);
  }
}

struct Kernel {
  std::string name;
  std::string symbol;
  Signature signature;
  std::vector<const char *> constants; ///< null where only the packing read them
  std::vector<bool> onlyPacked;        ///< of each constant: only the packing reads it
  std::vector<int64_t> constantBytes;
  std::vector<Memory> packed;
  std::vector<int64_t> packedBytes;
  int64_t workspaceBytes = 0;
  /// Some argument or result is a part of a larger tensor of @main.
  bool isPlaced = false;
  void (*code)(void **table, tw_worker *worker) = nullptr;
};

/// Fails if one of the indices is outside of its dim.
template <typename T> llvm::Error checkIndices(const Kernel &kernel, const TensorSpec &spec, const T *indices) {
  const int64_t extent = spec.indexExtent;
  const T *end = indices + spec.bytes / int64_t(sizeof(T));
  const T *outside = std::find_if(indices, end, [=](int64_t index) { return index < -extent || index >= extent; });
  if (outside == end)
    return llvm::Error::success();
  return llvm::make_error<ValueError>("kernel '" + kernel.name + "': index " + std::to_string(int64_t(*outside)) +
                                      " is out of range for a dim of " + std::to_string(extent));
}

/// The same of all that the kernel is given.
llvm::Error checkIndices(const Kernel &kernel, llvm::ArrayRef<const void *> inputs) {
  for (auto [index, spec] : llvm::enumerate(kernel.signature.inputs)) {
    if (!spec.indexExtent)
      continue;
    if (llvm::Error error = spec.kind == ElementKind::I32
                                ? checkIndices(kernel, spec, static_cast<const int32_t *>(inputs[index]))
                                : checkIndices(kernel, spec, static_cast<const int64_t *>(inputs[index])))
      return error;
  }
  return llvm::Error::success();
}

/// Where a tensor of @main is while it runs.
struct Slot {
  enum Kind { Input, Output, Arena, Constant } kind = Arena;
  /// Of the input or output.
  int64_t index = 0;
  const char *constant = nullptr;
  /// In bytes, from the start of the output or arena.
  int64_t offset = 0;
};

/// One kernel call of @main.
struct Step {
  unsigned kernel = 0;
  std::vector<Slot> inputs, outputs;
};

struct Copy {
  Slot from;
  unsigned output = 0;
};

} // namespace

struct CpuExecutable::Impl {
  std::vector<Kernel> kernels;
  llvm::StringMap<unsigned> kernelByName;
  /// Elements of the constants, shared by equal ones.
  std::vector<Memory> constants;
  Memory workspace, arena;
  int64_t workspaceBytes = 0, arenaBytes = 0;
  bool hasMain = false;
  Signature main;
  std::vector<Step> steps;
  /// Results of @main that no kernel writes: arguments, constants, and tensors that are returned twice.
  std::vector<Copy> copies;
  std::unique_ptr<llvm::orc::LLJIT> jit;
  struct EndTeam {
    void operator()(tw_team *team) const { tw_team_destroy(team); }
  };
  /// Null where one thread does all the work.
  std::unique_ptr<tw_team, EndTeam> team;

  /// A kernel call with its table of pointers.
  struct Call {
    const Kernel *kernel;
    std::vector<void *> table;
  };

  Call prepare(const Kernel &kernel, llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs) const {
    Call call{&kernel, {}};
    for (const void *input : inputs)
      call.table.push_back(const_cast<void *>(input));
    call.table.insert(call.table.end(), outputs.begin(), outputs.end());
    for (const char *constant : kernel.constants)
      call.table.push_back(const_cast<char *>(constant));
    for (const Memory &memory : kernel.packed)
      call.table.push_back(memory.data());
    call.table.push_back(workspace.data());
    return call;
  }

  void run(llvm::MutableArrayRef<Call> calls, double *seconds = nullptr);
  llvm::Error runMain(llvm::ArrayRef<HostTensor> inputs, std::vector<HostTensor> &outputs, double *seconds);
};

CpuExecutable::CpuExecutable() : impl(std::make_unique<Impl>()) {}
CpuExecutable::~CpuExecutable() = default;

/// One call after the other on all threads of the team. `seconds`, if given, takes the time of each.
void CpuExecutable::Impl::run(llvm::MutableArrayRef<Call> calls, double *seconds) {
  auto work = [&, caller = std::this_thread::get_id()](tw_worker *worker) {
    const bool measures = seconds && std::this_thread::get_id() == caller;
    for (auto [index, call] : llvm::enumerate(calls)) {
      const auto start = measures ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
      call.kernel->code(call.table.data(), worker);
      if (measures)
        seconds[index] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
  };
  if (!team)
    return work(nullptr);
  tw_team_run(
      team.get(), [](void *argument, tw_worker *worker) { (*static_cast<decltype(work) *>(argument))(worker); }, &work);
}

/// `seconds`, if given, takes the time of each step.
llvm::Error CpuExecutable::Impl::runMain(llvm::ArrayRef<HostTensor> inputs, std::vector<HostTensor> &outputs, double *seconds) {
  if (!hasMain)
    return failure("the module has no compiled @main to run");
  if (inputs.size() != main.inputs.size())
    return failure("@main has " + llvm::Twine(main.inputs.size()) + " inputs, but " + llvm::Twine(inputs.size()) +
                   " were given");
  for (auto [index, tensor] : llvm::enumerate(inputs))
    if (llvm::Error error = checkTensor(tensor, main.inputs[index], "input", index))
      return error;
  prepareOutputs(main.outputs, outputs);
  auto pointerOf = [&](const Slot &slot) -> char * {
    switch (slot.kind) {
    case Slot::Input:
      return reinterpret_cast<char *>(const_cast<uint8_t *>(inputs[slot.index].bytes.data()));
    case Slot::Output:
      return reinterpret_cast<char *>(outputs[slot.index].bytes.data()) + slot.offset;
    case Slot::Arena:
      return arena.data() + slot.offset;
    case Slot::Constant:
      return const_cast<char *>(slot.constant);
    }
    llvm_unreachable("every kind is handled");
  };
  std::vector<Call> calls;
  size_t done = 0;
  auto runCalls = [&] {
    run(llvm::MutableArrayRef<Call>(calls).drop_front(done), seconds ? seconds + done : nullptr);
    done = calls.size();
  };
  for (const Step &step : steps) {
    std::vector<const void *> from;
    std::vector<void *> to;
    for (const Slot &slot : step.inputs)
      from.push_back(pointerOf(slot));
    const Kernel &kernel = kernels[step.kernel];
    // Parts of larger tensors do not lie as the kernel's types say.
    if (!kernel.isPlaced &&
        llvm::any_of(kernel.signature.inputs, [](const TensorSpec &spec) { return spec.indexExtent > 0; })) {
      runCalls();
      if (llvm::Error error = checkIndices(kernel, from))
        return error;
    }
    for (const Slot &slot : step.outputs)
      to.push_back(pointerOf(slot));
    calls.push_back(prepare(kernel, from, to));
  }
  runCalls();
  for (const Copy &copy : copies)
    std::memcpy(outputs[copy.output].bytes.data(), pointerOf(copy.from), main.outputs[copy.output].bytes);
  return llvm::Error::success();
}

llvm::Error CpuExecutable::run(llvm::ArrayRef<HostTensor> inputs, std::vector<HostTensor> &outputs) {
  return impl->runMain(inputs, outputs, nullptr);
}

llvm::Error CpuExecutable::runKernel(llvm::StringRef name, llvm::ArrayRef<const void *> inputs,
                                     llvm::ArrayRef<void *> outputs) {
  auto it = impl->kernelByName.find(name);
  if (it == impl->kernelByName.end())
    return failure("there is no compiled kernel '" + name + "'");
  const Kernel &kernel = impl->kernels[it->second];
  if (kernel.isPlaced)
    return failure("kernel '" + name + "' works on parts of larger tensors and only runs in @main");
  if (inputs.size() != kernel.signature.inputs.size() || outputs.size() != kernel.signature.outputs.size())
    return failure("kernel '" + name + "' has " + llvm::Twine(kernel.signature.inputs.size()) + " inputs and " +
                   llvm::Twine(kernel.signature.outputs.size()) + " outputs, but " + llvm::Twine(inputs.size()) + " and " +
                   llvm::Twine(outputs.size()) + " were given");
  if (llvm::Error error = checkIndices(kernel, inputs))
    return error;
  Impl::Call call = impl->prepare(kernel, inputs, outputs);
  impl->run(call);
  return llvm::Error::success();
}

llvm::Error CpuExecutable::runKernel(llvm::StringRef name, llvm::ArrayRef<HostTensor> inputs,
                                     std::vector<HostTensor> &outputs) {
  std::vector<const void *> from;
  for (const HostTensor &tensor : inputs)
    from.push_back(tensor.bytes.data());
  std::vector<void *> to;
  if (auto it = impl->kernelByName.find(name); it != impl->kernelByName.end()) {
    const Signature &signature = impl->kernels[it->second].signature;
    for (auto [index, tensor] : llvm::enumerate(inputs))
      if (index < signature.inputs.size())
        if (llvm::Error error = checkTensor(tensor, signature.inputs[index], "input", index))
          return error;
    prepareOutputs(signature.outputs, outputs);
  }
  for (HostTensor &tensor : outputs)
    to.push_back(tensor.bytes.data());
  return runKernel(name, from, to);
}

llvm::Expected<CpuTiming> CpuExecutable::measure(llvm::ArrayRef<HostTensor> inputs, unsigned minRuns, double minSeconds) {
  std::vector<HostTensor> outputs;
  std::vector<double> stepSeconds(impl->steps.size()), best(impl->steps.size()), runs;
  if (llvm::Error error = impl->runMain(inputs, outputs, best.data()))
    return std::move(error);
  double total = 0;
  while (runs.size() < minRuns || total < minSeconds) {
    auto start = std::chrono::steady_clock::now();
    if (llvm::Error error = impl->runMain(inputs, outputs, stepSeconds.data()))
      return std::move(error);
    runs.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    total += runs.back();
    for (auto [least, seconds] : llvm::zip(best, stepSeconds))
      least = std::min(least, seconds);
  }
  llvm::sort(runs);
  CpuTiming timing;
  timing.runs = runs.size();
  timing.minSeconds = runs.front();
  timing.medianSeconds = runs[runs.size() / 2];
  for (auto [step, seconds] : llvm::zip(impl->steps, best))
    timing.kernels.emplace_back(impl->kernels[step.kernel].name, seconds);
  return timing;
}

std::vector<std::string> CpuExecutable::kernelNames() const {
  std::vector<std::string> names;
  for (const Kernel &kernel : impl->kernels)
    names.push_back(kernel.name);
  return names;
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

class CpuCompiler {
public:
  CpuCompiler(ModuleOp source, const CpuOptions &options)
      : source(source), options(options), executable(new CpuExecutable()), impl(*executable->impl) {
    nestOptions.threads = std::max(1u, options.threads);
    nestOptions.math = options.math;
  }

  llvm::Expected<std::unique_ptr<CpuExecutable>> compile();
  llvm::Expected<Bundle> compileBundle(const BundleOptions &bundle);

private:
  using Buffers = std::vector<std::unique_ptr<llvm::MemoryBuffer>>;
  using Compile = llvm::function_ref<llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>(ModuleOp)>;
  llvm::Error prepare();
  llvm::Expected<Buffers> compileAll(llvm::ArrayRef<OwningOpRef<ModuleOp>> modules, Compile compile) const;
  llvm::Error packConstants(llvm::orc::LLJIT &jit);
  BundlePlan planBundle() const;
  llvm::Error compileKernel(func::FuncOp kernel);
  llvm::Error compileMain(func::FuncOp main);
  llvm::Error flattenMain(func::FuncOp main);
  const char *constantMemory(ElementsAttr elements);

  ModuleOp source; ///< `copy`, once that is made
  OwningOpRef<ModuleOp> copy;
  const CpuOptions &options;
  std::unique_ptr<CpuExecutable> executable;
  CpuExecutable::Impl &impl;
  NestOptions nestOptions;
  DenseMap<Attribute, const char *> constants;
  /// Tensors of @main inside of larger ones.
  DenseMap<Value, PlacedTensor> placed;
  /// Kernels and their constants that are the compiler's memory: nobody reads them once constants are packed.
  std::vector<std::pair<size_t, size_t>> borrowed;
  /// The loops of each distinct kernel, and the symbol by their text.
  std::vector<OwningOpRef<ModuleOp>> modules;
  std::map<std::string, std::string> symbolByText;
};

const char *CpuCompiler::constantMemory(ElementsAttr elements) {
  const char *&memory = constants[elements];
  if (!memory) {
    impl.constants.emplace_back(tensorBytes(cast<RankedTensorType>(elements.getType())));
    copyElements(elements, impl.constants.back().data());
    memory = impl.constants.back().data();
  }
  return memory;
}

llvm::Error CpuCompiler::compileKernel(func::FuncOp kernel) {
  llvm::Expected<Signature> signature = signatureOf(kernel);
  if (!signature)
    return signature.takeError();
  if (llvm::Error error = prepareKernel(kernel))
    return error;
  std::string symbol = options.symbolPrefix + kernel.getName().str();
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc(), symbol);
  llvm::Expected<EmittedKernel> emitted = emitKernel(kernel, *module, symbol, nestOptions);
  if (!emitted)
    return emitted.takeError();

  // Kernels that differ in their constants only are the same code.
  std::string text;
  {
    llvm::raw_string_ostream stream(text);
    for (auto function : module->getOps<func::FuncOp>()) {
      std::string name = function.getName().str();
      function.setName("kernel");
      stream << function << "\n";
      function.setName(name);
    }
  }
  auto [known, isNew] = symbolByText.try_emplace(text, symbol);
  if (isNew)
    modules.push_back(std::move(module));

  Kernel compiled;
  compiled.name = kernel.getName().str();
  compiled.symbol = known->second;
  compiled.signature = std::move(*signature);
  for (auto [elements, onlyPacked] : llvm::zip(emitted->constants, emitted->onlyPacked)) {
    const char *raw = onlyPacked ? storedElements(elements) : nullptr;
    compiled.constants.push_back(raw ? raw : constantMemory(elements));
    if (raw)
      borrowed.push_back({impl.kernels.size(), compiled.constants.size() - 1});
  }
  compiled.onlyPacked = emitted->onlyPacked;
  compiled.packedBytes = emitted->packedBytes;
  for (ElementsAttr elements : emitted->constants)
    compiled.constantBytes.push_back(tensorBytes(cast<RankedTensorType>(elements.getType())));
  for (int64_t bytes : emitted->packedBytes)
    compiled.packed.emplace_back(bytes);
  compiled.workspaceBytes = emitted->workspaceBytes;
  for (unsigned index = 0; index < kernel.getNumArguments(); ++index)
    compiled.isPlaced |= argumentPlacement(kernel, index).has_value();
  for (unsigned index = 0; index < kernel.getNumResults(); ++index)
    compiled.isPlaced |= resultPlacement(kernel, index).has_value();
  impl.kernelByName[compiled.name] = impl.kernels.size();
  impl.kernels.push_back(std::move(compiled));
  return llvm::Error::success();
}

static bool isAlias(Operation &op) { return isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp>(op); }

/// Replaces the calls of @main by the bodies of the kernels.
llvm::Error CpuCompiler::flattenMain(func::FuncOp main) {
  SmallVector<func::CallOp> calls(main.getOps<func::CallOp>());
  for (func::CallOp call : calls) {
    auto callee = source.lookupSymbol<func::FuncOp>(call.getCallee());
    if (!callee || callee.isExternal() || !callee.getBody().hasOneBlock())
      return errorAt(call, "calls a function that has no straight-line body");
    IRMapping mapping;
    mapping.map(callee.getArguments(), call.getOperands());
    OpBuilder builder(call);
    Block &body = callee.getBody().front();
    for (Operation &op : body.without_terminator())
      builder.clone(op, mapping);
    for (auto [result, value] : llvm::zip(call.getResults(), body.getTerminator()->getOperands()))
      result.replaceAllUsesWith(mapping.lookupOrDefault(value));
    call.erase();
  }
  return llvm::Error::success();
}

/// Turns @main into a list of kernel calls on planned memory.
llvm::Error CpuCompiler::compileMain(func::FuncOp main) {
  llvm::Expected<Signature> signature = signatureOf(main);
  if (!signature)
    return signature.takeError();
  impl.main = *signature;
  impl.hasMain = true;
  if (!main.getBody().hasOneBlock())
    return errorAt(main, "has more than one block, but the CPU target takes straight-line functions");
  Block &body = main.getBody().front();

  // The tensor behind each value, through reshapes.
  DenseMap<Value, Value> roots;
  for (Operation &op : body)
    if (isAlias(op))
      roots[op.getResult(0)] = roots.lookup(op.getOperand(0)) ? roots[op.getOperand(0)] : op.getOperand(0);
  auto rootOf = [&](Value value) {
    Value root = roots.lookup(value);
    return root ? root : value;
  };

  DenseMap<Value, Slot> slots;
  for (auto [index, argument] : llvm::enumerate(body.getArguments()))
    slots[argument] = {Slot::Input, static_cast<int64_t>(index)};
  for (auto constant : main.getOps<arith::ConstantOp>())
    if (auto elements = dyn_cast<ElementsAttr>(constant.getValue()))
      slots[constant] = {Slot::Constant, 0, constantMemory(elements)};
  for (auto [index, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
    Value root = rootOf(value);
    if (root.getDefiningOp<func::CallOp>())
      slots.try_emplace(root, Slot{Slot::Output, static_cast<int64_t>(index)});
  }

  // Everything else lives in the arena from the first call that writes a part of it to its last use.
  std::vector<PlannedBuffer> buffers;
  DenseMap<Value, unsigned> bufferOf;
  auto wholeOf = [&](Value value) {
    auto it = placed.find(value);
    return it == placed.end() ? value : it->second.whole;
  };
  int64_t position = 0;
  for (Operation &op : body) {
    for (Value operand : op.getOperands())
      if (auto it = bufferOf.find(wholeOf(rootOf(operand))); it != bufferOf.end())
        buffers[it->second].lastStep = position;
    if (isa<func::CallOp>(op))
      for (Value result : op.getResults()) {
        Value whole = wholeOf(result);
        if (slots.count(whole))
          continue;
        auto type = cast<RankedTensorType>(whole.getType());
        auto place = placed.find(whole);
        const int64_t elements = place == placed.end() ? type.getNumElements() : place->second.wholeElements;
        auto [known, isNew] = bufferOf.try_emplace(whole, buffers.size());
        if (isNew)
          buffers.push_back({elements * storageBytes(type.getElementType()), position, position, 0});
        buffers[known->second].lastStep = position;
      }
    ++position;
  }
  impl.arenaBytes = planMemory(buffers);
  for (auto [value, buffer] : bufferOf)
    slots[value] = {Slot::Arena, 0, nullptr, buffers[buffer].offset};
  auto slotOf = [&](Value value) {
    Slot slot = slots.lookup(wholeOf(value));
    if (auto it = placed.find(value); it != placed.end())
      slot.offset += it->second.offset * storageBytes(cast<RankedTensorType>(value.getType()).getElementType());
    return slot;
  };

  for (auto call : main.getOps<func::CallOp>()) {
    if (isDoneByPlacement(call, placed))
      continue;
    Step step;
    auto it = impl.kernelByName.find(call.getCallee());
    if (it == impl.kernelByName.end())
      return errorAt(call, "calls '" + call.getCallee() + "', which is not a kernel of the module");
    step.kernel = it->second;
    for (Value operand : call.getOperands())
      step.inputs.push_back(slotOf(rootOf(operand)));
    for (Value result : call.getResults())
      step.outputs.push_back(slotOf(result));
    impl.steps.push_back(std::move(step));
  }
  for (auto [index, value] : llvm::enumerate(body.getTerminator()->getOperands())) {
    Slot slot = slotOf(rootOf(value));
    if (slot.kind != Slot::Output || slot.index != static_cast<int64_t>(index))
      impl.copies.push_back({slot, static_cast<unsigned>(index)});
  }
  return llvm::Error::success();
}

/// One buffer for each module. The modules' contents are lost.
llvm::Expected<CpuCompiler::Buffers> CpuCompiler::compileAll(llvm::ArrayRef<OwningOpRef<ModuleOp>> modules,
                                                             Compile compile) const {
  size_t count = modules.size();
  Buffers buffers(count);
  std::vector<std::string> errors(count);
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t index = next++; index < count; index = next++) {
      auto buffer = compile(modules[index].get());
      if (buffer)
        buffers[index] = std::move(*buffer);
      else
        errors[index] = llvm::toString(buffer.takeError());
    }
  };
  unsigned helpers = 0;
  if (source->getContext()->isMultithreadingEnabled())
    helpers = std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), std::max<size_t>(count, 1)) - 1;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < helpers; ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  for (size_t index = 0; index < count; ++index)
    if (!errors[index].empty())
      return failure(modules[index].get().getName().value_or("kernel") + ": " + errors[index]);
  return std::move(buffers);
}

/// Fills the packed constants; afterwards nobody reads what they are made of.
llvm::Error CpuCompiler::packConstants(llvm::orc::LLJIT &jit) {
  for (Kernel &kernel : impl.kernels) {
    if (kernel.packed.empty())
      continue;
    auto packing = jit.lookup(packSymbolOf(kernel.symbol));
    if (!packing)
      return packing.takeError();
    std::vector<const void *> inputs(kernel.signature.inputs.size());
    std::vector<void *> outputs(kernel.signature.outputs.size());
    packing->toPtr<void (*)(void **)>()(impl.prepare(kernel, inputs, outputs).table.data());
  }
  for (auto [kernel, constant] : borrowed)
    impl.kernels[kernel].constants[constant] = nullptr;
  return llvm::Error::success();
}

/// The kernels as loops, and what @main does with them.
llvm::Error CpuCompiler::prepare() {
  llvm::Expected<CpuMachine> machine = selectMachine(options.processor, options.vectorBits, options.integerProducts);
  if (!machine)
    return machine.takeError();
  nestOptions.machine = std::move(*machine);
  prepareCodegen(*source.getContext());
  copy = source.clone();
  source = *copy;
  auto main = source.lookupSymbol<func::FuncOp>("main");
  bool runsMain = main && !main.isExternal();
  bool mainIsKernel = false;
  if (runsMain) {
    mainIsKernel = llvm::any_of(
        main.getOps(), [](Operation &op) { return !isAlias(op) && !isa<func::CallOp, func::ReturnOp, arith::ConstantOp>(op); });
    if (mainIsKernel)
      if (llvm::Error error = flattenMain(main))
        return error;
  }
  llvm::StringSet<> needless;
  if (runsMain && !mainIsKernel) {
    placed = placeTensors(main, options.math == graph::Math::Fast && nestOptions.machine.hasBfloatProducts);
    for (auto call : main.getOps<func::CallOp>())
      if (isDoneByPlacement(call, placed))
        needless.insert(call.getCallee());
  }
  for (auto function : source.getOps<func::FuncOp>()) {
    if (function.isExternal() || (function == main && !mainIsKernel) || needless.contains(function.getName()))
      continue;
    if (llvm::Error error = compileKernel(function))
      return error;
  }
  if (mainIsKernel) {
    impl.hasMain = true;
    const Kernel &kernel = impl.kernels[impl.kernelByName["main"]];
    impl.main = kernel.signature;
    Step step;
    step.kernel = impl.kernelByName["main"];
    for (size_t index = 0; index < impl.main.inputs.size(); ++index)
      step.inputs.push_back({Slot::Input, static_cast<int64_t>(index)});
    for (size_t index = 0; index < impl.main.outputs.size(); ++index)
      step.outputs.push_back({Slot::Output, static_cast<int64_t>(index)});
    impl.steps.push_back(std::move(step));
  } else if (runsMain) {
    if (llvm::Error error = compileMain(main))
      return error;
  }
  // Groups of bytes may be read a little beyond the last buffer.
  impl.workspaceBytes = bufferAlignment;
  for (const Kernel &kernel : impl.kernels)
    impl.workspaceBytes = std::max(impl.workspaceBytes, kernel.workspaceBytes + bufferAlignment);
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<CpuExecutable>> CpuCompiler::compile() {
  if (llvm::Error error = prepare())
    return std::move(error);
  if (llvm::Error error = checkRunsHere(nestOptions.machine))
    return std::move(error);
  impl.workspace = Memory(impl.workspaceBytes);
  impl.arena = Memory(impl.arenaBytes);
  auto objects =
      compileAll(modules, [&](ModuleOp module) { return compileToObject(module, nestOptions.machine, options.optLevel); });
  if (!objects)
    return objects.takeError();
  llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>> jit = makeJit();
  if (!jit)
    return jit.takeError();
  impl.jit = std::move(*jit);
  for (std::unique_ptr<llvm::MemoryBuffer> &object : *objects)
    if (llvm::Error error = impl.jit->addObjectFile(std::move(object)))
      return std::move(error);
  for (Kernel &kernel : impl.kernels) {
    auto address = impl.jit->lookup(kernel.symbol);
    if (!address)
      return address.takeError();
    kernel.code = address->toPtr<void (*)(void **, tw_worker *)>();
  }
  if (llvm::Error error = packConstants(*impl.jit))
    return std::move(error);
  if (nestOptions.threads > 1) {
    impl.team.reset(tw_team_create(nestOptions.threads));
    if (!impl.team)
      throw OutOfMemory("the CPU's code needs a team of " + std::to_string(nestOptions.threads) + " threads");
  }
  return std::move(executable);
}

//===----------------------------------------------------------------------===//
// Bundles
//===----------------------------------------------------------------------===//

/// The steps of @main with all constants in one block of weights. Precondition: the constants are packed.
BundlePlan CpuCompiler::planBundle() const {
  BundlePlan plan;
  DenseMap<const char *, int64_t> offsets;
  auto weight = [&](const char *data, int64_t bytes) -> BundlePlan::Pointer {
    auto [offset, isNew] = offsets.try_emplace(data, plan.weights.size());
    if (isNew) {
      plan.weights.append(data, static_cast<size_t>(bytes));
      // Groups of bytes may be read a little beyond the last element.
      plan.weights.resize(llvm::alignTo(plan.weights.size() + 1, bufferAlignment));
    }
    return {BundlePlan::Weights, 0, offset->second};
  };
  auto place = [&](const Slot &slot, int64_t bytes) -> BundlePlan::Pointer {
    switch (slot.kind) {
    case Slot::Input:
      return {BundlePlan::Input, slot.index, slot.offset};
    case Slot::Output:
      return {BundlePlan::Output, slot.index, slot.offset};
    case Slot::Arena:
      return {BundlePlan::Arena, 0, impl.workspaceBytes + slot.offset};
    case Slot::Constant:
      return weight(slot.constant, bytes);
    }
    llvm_unreachable("every kind is handled");
  };
  for (const Step &step : impl.steps) {
    const Kernel &kernel = impl.kernels[step.kernel];
    BundlePlan::Step &call = plan.steps.emplace_back();
    call.symbol = kernel.symbol;
    for (auto [slot, spec] : llvm::zip(step.inputs, kernel.signature.inputs))
      call.table.push_back(place(slot, spec.bytes));
    for (auto [slot, spec] : llvm::zip(step.outputs, kernel.signature.outputs))
      call.table.push_back(place(slot, spec.bytes));
    for (auto [data, bytes, onlyPacked] : llvm::zip(kernel.constants, kernel.constantBytes, kernel.onlyPacked))
      call.table.push_back(onlyPacked ? BundlePlan::Pointer() : weight(data, bytes));
    for (auto [memory, bytes] : llvm::zip(kernel.packed, kernel.packedBytes))
      call.table.push_back(weight(memory.data(), bytes));
    call.table.push_back({BundlePlan::Arena, 0, 0});
  }
  for (const Copy &copy : impl.copies) {
    const int64_t bytes = impl.main.outputs[copy.output].bytes;
    plan.copies.push_back({place(copy.from, bytes), copy.output, bytes});
  }
  for (const TensorSpec &spec : impl.main.inputs)
    plan.inputBytes.push_back(spec.bytes);
  for (const TensorSpec &spec : impl.main.outputs)
    plan.outputBytes.push_back(spec.bytes);
  plan.arenaBytes = impl.workspaceBytes + impl.arenaBytes;
  return plan;
}

llvm::Expected<Bundle> CpuCompiler::compileBundle(const BundleOptions &bundle) {
  if (llvm::Error error = prepare())
    return std::move(error);
  assert(impl.hasMain && impl.main.inputs.size() == bundle.inputs.size() && impl.main.outputs.size() == bundle.outputs.size() &&
         "the caller describes the arguments and results of @main");
  // Constants are packed here: the functions that do it are compiled for this processor, whatever the kernels are for.
  std::vector<OwningOpRef<ModuleOp>> packing;
  for (OwningOpRef<ModuleOp> &module : modules) {
    auto pack = module->lookupSymbol<func::FuncOp>(packSymbolOf(*module->getName()));
    if (!pack)
      continue;
    packing.push_back(module->clone());
    packing.back()->lookupSymbol(*module->getName())->erase();
    pack.erase();
  }
  llvm::Expected<CpuMachine> host = selectMachine();
  if (!host)
    return host.takeError();
  auto packers = compileAll(packing, [&](ModuleOp module) { return compileToObject(module, *host, /*optLevel=*/1); });
  if (!packers)
    return packers.takeError();
  llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>> jit = makeJit();
  if (!jit)
    return jit.takeError();
  for (std::unique_ptr<llvm::MemoryBuffer> &object : *packers)
    if (llvm::Error error = (*jit)->addObjectFile(std::move(object)))
      return std::move(error);
  if (llvm::Error error = packConstants(**jit))
    return std::move(error);

  const CpuMachine &machine = nestOptions.machine;
  auto compiled = compileAll(modules, [&](ModuleOp module) -> llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> {
    llvm::LLVMContext context;
    auto code = compileToIr(module, context, machine, options.optLevel);
    if (!code)
      return code.takeError();
    for (llvm::Function &function : **code)
      if (!function.isDeclaration() && !function.hasLocalLinkage())
        function.setVisibility(llvm::GlobalValue::HiddenVisibility);
    if (!bundle.text)
      return emitCode(**code, machine, options.optLevel, llvm::CodeGenFileType::ObjectFile);
    llvm::SmallVector<char, 0> bytes;
    llvm::raw_svector_ostream stream(bytes);
    llvm::WriteBitcodeToFile(**code, stream);
    return std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(bytes), /*RequiresNullTerminator=*/false);
  });
  if (!compiled)
    return compiled.takeError();
  std::vector<std::pair<std::string, std::unique_ptr<llvm::MemoryBuffer>>> kernels;
  for (auto [module, buffer] : llvm::zip(modules, *compiled))
    kernels.emplace_back((*module->getName() + ".o").str(), std::move(buffer));
  return writeBundle(planBundle(), std::move(kernels), bundle, machine, options.optLevel);
}

llvm::Expected<std::unique_ptr<CpuExecutable>> compileForCpu(ModuleOp module, const CpuOptions &options) {
  return CpuCompiler(module, options).compile();
}

llvm::Expected<Bundle> compileBundle(ModuleOp module, const CpuOptions &options, const BundleOptions &bundle) {
  return CpuCompiler(module, options).compileBundle(bundle);
}

} // namespace tw::cpu
