//===- GpuCompiler.cpp - Linalg as kernels for a GPU ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/GpuCompiler.h"
#include "compiler/codegen/cpu/MemoryPlan.h"
#include "compiler/codegen/gpu/Attention.h"
#include "compiler/codegen/gpu/AttentionMatch.h"
#include "compiler/codegen/gpu/Contraction.h"
#include "compiler/codegen/gpu/Elements.h"
#include "compiler/codegen/gpu/Kernel.h"
#include "compiler/codegen/gpu/MmaAttention.h"
#include "compiler/codegen/gpu/MmaKernel.h"
#include "compiler/codegen/gpu/Reductions.h"
#include "compiler/codegen/gpu/TileCost.h"
#include "compiler/codegen/gpu/TileKernel.h"
#include "compiler/codegen/gpu/View.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

#include <map>

using namespace tw;
using namespace tw::gpu;
namespace linalg = mlir::linalg;
namespace func = mlir::func;
using llvm::Value;

namespace {

constexpr unsigned kThreads = 256; ///< of a block of a plain kernel
constexpr int64_t kWarp = 32;
/// Fewer sums than this, of more terms than lanes, get a warp each, the others a thread each. Not measured: with so many sums, threads
/// alone fill an H100 several times.
constexpr int64_t kMostWarpReductions = 1 << 17;
constexpr unsigned kUnrolledTerms = 4;        ///< of a long sum: loads that a thread has in flight
constexpr int64_t kRowElements = 4;           ///< of a row, for a thread, where there are threads enough
constexpr int64_t kMostTermsOfRows = 32;      ///< of sums that a thread makes for several neighbours: windows
constexpr int64_t kFewChannels = 8;           ///< of an image whose windows' rows are unfolded: 64 in a stage would be mostly 0
constexpr double kShortMicroseconds = 20;     ///< kernels that are worth overlapping (measured: above, it costs)
constexpr unsigned kMostSharedBytes = 232448; ///< of a block
constexpr unsigned kLeastStages = 3;          ///< of a tile that gives some up for its residual

/// Of a tile that is split: with four, ptxas has too few registers for the pieces beside windows.
constexpr unsigned kMostSplitConsumers = 3;

/// The tiles there are. `rate`: about the part of the tensor cores' peak that a tile reaches. Those of 128 rows or 128 columns and more come
/// from large square products; those of smaller tiles are estimates. Rates only order the variants, which are timed where there is a GPU.
struct Tile {
  TileShape shape;
  double rate;
};
constexpr Tile kTiles[] = {{{128, 256, 4, 1}, 1.0},  {{128, 192, 4, 1}, 0.95}, {{192, 128, 4, 1}, 0.95},
                           {{128, 128, 5, 1}, 0.93}, {{64, 256, 4, 1}, 0.85},  {{256, 64, 4, 1}, 0.7},
                           {{64, 192, 5, 1}, 0.75},  {{128, 64, 6, 1}, 0.65},  {{64, 128, 6, 1}, 0.7},
                           {{64, 64, 5, 1}, 0.5},    {{64, 64, 6, 2}, 0.45},   {{64, 64, 6, 4}, 0.42},
                           {{64, 64, 6, 8}, 0.4}};

constexpr AttentionShape kAttentionShapes[] = {{128, 128, 4}, {128, 64, 4}, {64, 128, 4}, {64, 64, 4}};
constexpr AttentionShape kMmaAttentionShapes[] = {{128, 128, 2}, {128, 64, 4}, {64, 64, 4}}; ///< 96 KB of shared memory at most
/// Exponentials that an SM computes in a cycle, and the part of their time that several warpgroups hide: an estimate.
constexpr double kExponentialsPerCycle = 16, kHiddenExponentials = 0.5;
constexpr const char *kByStrides = "; transposes by strides: ";
/// Scores that the variant with kernels of their own may have room for in the arena.
constexpr uint64_t kMostScoreBytes = uint64_t(256) << 20;

uint64_t aligned(uint64_t bytes) { return llvm::alignTo(bytes, kAlignment); }
uint64_t bytesOf(mlir::RankedTensorType type) {
  return uint64_t(type.getNumElements()) * gpu::bytesOf(*elementOf(type.getElementType()));
}

uint64_t bytesOf(llvm::ArrayRef<mlir::Value> tensors) {
  uint64_t bytes = 0;
  for (mlir::Value tensor : tensors)
    bytes += bytesOf(tensorOf(tensor));
  return bytes;
}

class GpuCompiler {
public:
  GpuCompiler(mlir::ModuleOp module, const GpuOptions &asked)
      : module(module), options(asked), device(asked.architecture == Architecture::Sm80 ? kA100 : kH100) {
    program.architecture = options.architecture;
    if (!options.multiprocessors)
      options.multiprocessors = device.multiprocessors;
  }
  llvm::Expected<Program> run();

private:
  /// Arguments name buffers of the arena by their index, until memory is planned.
  Place bufferFor(uint64_t bytes);
  Place constantFor(std::vector<uint8_t> bytes);
  Place placeOf(mlir::Value value);
  void use(Place place);

  llvm::Error compileMain(func::FuncOp main);
  /// A tensor of @main as a view of one that a kernel writes or that is given; the kernels whose transposes that takes the place of.
  struct MainView {
    mlir::Value base;
    View view;
    std::vector<std::string> transposes;
  };
  /// The call's kernel, and copies that it needs in front of it. Returns where its result lies: at `output`, or in a buffer of its own; as in
  /// `behind`, if that is given.
  llvm::Expected<Place> compileCall(func::CallOp call, std::optional<Place> output = std::nullopt,
                                    std::optional<MainView> behind = std::nullopt);
  llvm::Error compileKernel(func::FuncOp function, Place output);

  MainView viewInMain(mlir::Value value);
  /// Makes copies of what has only been a view so far.
  llvm::Error copyViews(mlir::Value value);
  /// The view that the function's product can take an operand as, instead of a copy. `heads`: of the inner batch dim of other operands; 0: of
  /// any number.
  std::optional<MainView> viewForProduct(func::FuncOp function, unsigned argument, mlir::Value operand, int64_t &heads);
  /// The operand of a product as matrices of `rows` by `columns`, dims of the loop; nothing if no tensor map reads it so.
  std::optional<StridedMatrices> matricesFor(const Contraction &contraction, unsigned operand, const View &view,
                                             llvm::ArrayRef<unsigned> rows, llvm::ArrayRef<unsigned> columns);
  /// The product of 16-bit numbers that the function is, if the tensor cores certainly do it.
  std::optional<Contraction> boxedProduct(func::FuncOp function);
  /// How the product's result is written if it lies as in `view`; nothing if it leaves in no boxes or these do not fit.
  std::optional<StridedMatrices> matricesForResult(const Contraction &contraction, mlir::RankedTensorType type,
                                                   const View &view);
  /// A transpose behind a call that nobody else reads: what it returns, and how the call's result lies there.
  std::optional<MainView> transposeBehind(func::CallOp call);
  /// Several calls as one step: attention as one kernel, and the kernels of the calls as another variant. False: it is not one kernel.
  llvm::Expected<bool> compileAttention(const AttentionMatch &match);
  /// The calls' own kernels as one more variant of a step; the last one writes `to`.
  llvm::Error addKernelsAsVariant(llvm::ArrayRef<func::CallOp> calls, Place to, Step &step);
  void describe(func::FuncOp function);
  void noteTransposes(llvm::ArrayRef<std::string> transposes);
  /// Elements of `root` into `to`, and of what has to lie in memory before.
  llvm::Error compileRoot(mlir::Value root, Place to);
  llvm::Error materialise(mlir::Value value);
  bool mustLieInMemory(mlir::Value value, mlir::Value root);
  llvm::Error compileElements(mlir::Value root, Place to, const std::string &why);
  llvm::Error compileRowReduction(mlir::Value root, linalg::LinalgOp reduction, Place to);
  llvm::Error compileRows(mlir::Value root, llvm::ArrayRef<linalg::LinalgOp> reductions, Place to);
  /// The variants of a product on sm_80. Places of A, B and the output; numbers from MmaKernel::Batches on; what the epilogue reads; bytes
  /// that the product moves.
  llvm::Error addMmaVariants(MmaKernel kernel, const std::array<Place, 3> &places, llvm::ArrayRef<uint32_t> numbers,
                             llvm::ArrayRef<Argument> pointers, double bytes, Step &step);
  /// The launch behind that of `kernel`, which adds up the slots of its split tiles. `numbers`: from SplitSum::Batches to FirstPointer.
  llvm::Expected<Launch> sumLaunch(const ProductKernel &kernel, const TileSize &tile, unsigned lanes, Place slots, Place out,
                                   llvm::ArrayRef<uint32_t> numbers, llvm::ArrayRef<Argument> pointers);
  /// Room for the sums of split tiles, in a buffer that the variants of a step share.
  Place slotsFor(std::optional<Place> &buffer, const TileSplit &split, const TileSize &tile);
  /// False if the tensor cores do not do it; then `why` says why.
  llvm::Expected<bool> compileContraction(mlir::Value root, linalg::LinalgOp op, Place to, std::string &why);

  bool isHopper() const { return options.architecture == Architecture::Sm90a; }
  /// The number of a kernel with this body; `parameters` stand behind the pointer of the output.
  llvm::Expected<uint32_t> addKernel(llvm::function_ref<void(llvm::Module &)> emit);
  llvm::Expected<Launch>
  plainLaunch(llvm::ArrayRef<mlir::Value> leaves, Place to, int64_t threads,
              llvm::function_ref<void(llvm::IRBuilder<> &, Elements &, llvm::Function *, Value *thread)> emit,
              uint32_t block = 0);
  /// Where an operand of `op` lies with its elements in the order of these loop dims: a copy, if need be.
  llvm::Expected<Place> operandInOrder(linalg::LinalgOp op, unsigned operand, llvm::ArrayRef<unsigned> dims);
  /// A copy of the image where the taps of `group` rows lie side by side as channels; `window` becomes one of single columns. `group`: 1,
  /// or the distance between windows.
  llvm::Expected<Place> unfoldRows(const Contraction &contraction, Contraction::Window &window, int64_t group);
  /// What is taken off the sums of a contraction with a zero point, as i32: a number for each column; or, where the image is padded, columns
  /// for each set of taps that lie in it, and the first of these columns for each line of the output plus that for each position in a line.
  struct Corrections {
    llvm::SmallVector<Place> places;
    bool isVector() const { return places.size() == 1; }
  };
  Corrections correctionsOf(const Contraction &contraction);
  void addStep(Step step);
  /// A step of one plain kernel, which moves so many bytes.
  void addPlainStep(const std::string &kind, const std::string &why, const std::string &variant, uint64_t bytes, Launch launch);
  Place placeInFunction(mlir::Value leaf);

  mlir::ModuleOp module;
  GpuOptions options;
  const DeviceModel &device;
  Program program;
  std::vector<cpu::PlannedBuffer> buffers;
  llvm::DenseMap<mlir::Value, Place> mainPlaces;
  llvm::DenseSet<mlir::Operation *> viewed;   ///< calls of transposes that have become no kernels
  llvm::DenseSet<mlir::Operation *> absorbed; ///< calls that are part of another one's step
  llvm::DenseMap<mlir::Operation *, std::string> whyNoAttention;
  llvm::DenseMap<mlir::Attribute, Place> constantPlaces;
  llvm::StringMap<uint32_t> kernelByText;
  // Of the function that is compiled.
  std::string functionName;
  std::vector<std::string> nodes;
  llvm::DenseMap<mlir::Value, Place> places;
  llvm::DenseSet<mlir::Value> inMemory;
  llvm::DenseMap<mlir::Value, MainView> views; ///< arguments that a product takes as they lie
  std::optional<MainView> viewOfProduct;       ///< as which its result is written
  std::string note;                            ///< behind every `why`
};

Place GpuCompiler::bufferFor(uint64_t bytes) {
  cpu::PlannedBuffer buffer;
  // Copies of whole boxes may read behind the end.
  buffer.bytes = int64_t(aligned(bytes + 512));
  buffer.firstStep = buffer.lastStep = int64_t(program.steps.size());
  buffers.push_back(buffer);
  return {false, buffers.size() - 1};
}

Place GpuCompiler::constantFor(std::vector<uint8_t> bytes) {
  Place place{true, aligned(program.constants.size())};
  program.constants.resize(place.offset + bytes.size());
  std::copy(bytes.begin(), bytes.end(), program.constants.begin() + int64_t(place.offset));
  return place;
}

void GpuCompiler::use(Place place) {
  if (!place.isConstant)
    buffers[place.offset].lastStep = int64_t(program.steps.size());
}

Place GpuCompiler::placeInFunction(mlir::Value leaf) {
  if (auto place = places.find(leaf); place != places.end())
    return place->second;
  auto constant = leaf.getDefiningOp<mlir::arith::ConstantOp>();
  auto [place, isNew] = constantPlaces.try_emplace(constant.getValue());
  if (isNew)
    place->second = constantFor(bytesOfConstant(leaf));
  return place->second;
}

llvm::Expected<uint32_t> GpuCompiler::addKernel(llvm::function_ref<void(llvm::Module &)> emit) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> kernel = createModule(context);
  emit(*kernel);
  std::string text;
  llvm::raw_string_ostream(text) << *kernel;
  auto [number, isNew] = kernelByText.try_emplace(text, uint32_t(program.kernels.size()));
  if (isNew) {
    llvm::Expected<std::string> ptx = toPtx(*kernel, options.architecture);
    if (!ptx)
      return ptx.takeError();
    program.kernels.push_back({"kernel", std::move(*ptx), options.keepsLlvm ? text : ""});
  }
  return number->second;
}

void GpuCompiler::addPlainStep(const std::string &kind, const std::string &why, const std::string &variant, uint64_t bytes,
                               Launch launch) {
  Step step;
  step.kind = kind;
  step.why = why;
  step.variants.push_back({variant, kLaunchMicroseconds + double(bytes) / device.memoryGigabytes / 1e3, {std::move(launch)}});
  addStep(std::move(step));
}

void GpuCompiler::addStep(Step step) {
  step.name = functionName;
  step.nodes = nodes;
  step.why += note;
  program.steps.push_back(std::move(step));
}

llvm::Expected<Launch>
GpuCompiler::plainLaunch(llvm::ArrayRef<mlir::Value> leaves, Place to, int64_t threads,
                         llvm::function_ref<void(llvm::IRBuilder<> &, Elements &, llvm::Function *, Value *)> emit,
                         uint32_t block) {
  Launch launch;
  // Small blocks where there is little to do: every multiprocessor has some.
  launch.block =
      block ? block
            : uint32_t(std::clamp<uint64_t>(llvm::PowerOf2Ceil(uint64_t(threads) / options.multiprocessors), kWarp, kThreads));
  launch.grid = uint32_t(llvm::divideCeil(threads, int64_t(launch.block)));
  launch.overlaps = isHopper();
  llvm::Expected<uint32_t> kernel = addKernel([&](llvm::Module &module) {
    llvm::IRBuilder<> b(module.getContext());
    llvm::SmallVector<llvm::Type *> types(1 + leaves.size(), b.getPtrTy());
    llvm::Function *function = createKernel(module, "kernel", types, launch.block);
    for (unsigned i = 0; i < types.size(); ++i) // not noalias, as in a tile kernel
      function->addParamAttr(i, llvm::Attribute::getWithAlignment(module.getContext(), llvm::Align(kAlignment)));
    b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", function));
    Hopper hopper(b);
    if (launch.overlaps) {
      hopper.launchNextGrid();
      hopper.waitForGridBefore();
    }
    Value *thread = b.CreateAdd(b.CreateMul(hopper.blockIndex(), b.getInt32(launch.block)), hopper.threadIndex());
    Elements elements(b);
    for (auto [i, leaf] : llvm::enumerate(leaves))
      elements.setPointer(leaf, function->getArg(unsigned(i + 1)));
    emitIf(b, b.CreateICmpULT(thread, b.getInt32(uint32_t(threads))), [&] { emit(b, elements, function, thread); });
    b.CreateRetVoid();
  });
  if (!kernel)
    return kernel.takeError();
  launch.kernel = *kernel;
  launch.arguments.push_back(to);
  use(to);
  for (mlir::Value leaf : leaves) {
    launch.arguments.push_back(placeInFunction(leaf));
    use(std::get<Place>(launch.arguments.back()));
  }
  return launch;
}

/// Sums of a reduction that another op reads are kept, but for the one that the root is made of: it would be made again for each reader.
bool GpuCompiler::mustLieInMemory(mlir::Value value, mlir::Value root) {
  auto op = value.getDefiningOp<linalg::LinalgOp>();
  if (!op || !op.getNumReductionLoops() || inMemory.contains(value))
    return false;
  return reductionBehind(root) != op && groupedReductionBehind(root) != op;
}

llvm::Error GpuCompiler::materialise(mlir::Value value) {
  Place place = bufferFor(bytesOf(tensorOf(value)));
  if (llvm::Error error = compileRoot(value, place))
    return error;
  places[value] = place;
  inMemory.insert(value);
  return llvm::Error::success();
}

/// Threads that reduce together: one warp, or several, which then are a block and meet in shared memory.
struct Team {
  Value *thread; ///< in the team
  int64_t size = kWarp;
};

/// The reduction at `index` by a team, whose threads all have the result.
Value *reduceByTeam(llvm::IRBuilder<> &b, Elements &elements, linalg::LinalgOp reduction, const ElementIndex &index,
                    const Team &team) {
  mlir::Operation *combiner = combinerOf(reduction);
  return elements.reduce(
      reduction, index, 0, 1, [&](llvm::ArrayRef<Value *> initial, int64_t count, const Elements::Iteration &iteration) {
        llvm::Type *scalar = initial[0]->getType();
        Value *neutral = llvm::Constant::getNullValue(scalar);
        if (llvm::isa<mlir::arith::MaximumFOp, mlir::arith::MinimumFOp>(combiner))
          neutral = llvm::ConstantFP::getInfinity(scalar, llvm::isa<mlir::arith::MaximumFOp>(combiner));
        Value *begin = b.CreateSelect(b.CreateICmpEQ(team.thread, b.getInt32(0)), initial[0], neutral);
        llvm::SmallVector<Value *> end = emitLoop(
            b, "terms", {team.thread, begin},
            [&](llvm::ArrayRef<Value *> values) { return b.CreateICmpULT(values[0], b.getInt32(uint32_t(count))); },
            [&](llvm::ArrayRef<Value *> values) {
              return llvm::SmallVector<Value *>{b.CreateAdd(values[0], b.getInt32(uint32_t(team.size))),
                                                iteration(values[0], values.drop_front())[0]};
            },
            kUnrolledTerms);
        Value *sum = end[1];
        for (unsigned apart = kWarp / 2; apart; apart /= 2) {
          llvm::SmallVector<Value *> operands{b.getInt32(-1), b.CreateBitCast(sum, b.getInt32Ty()), b.getInt32(apart),
                                              b.getInt32(31)};
          Value *other =
              b.CreateBitCast(b.CreateIntrinsic(b.getInt32Ty(), llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, operands), scalar);
          sum = emitScalar(b, combiner, {sum, other});
        }
        if (team.size == kWarp)
          return llvm::SmallVector<Value *>{sum};
        // A place of its own for each reduction: one barrier is enough.
        const unsigned warps = unsigned(team.size / kWarp);
        llvm::Module &module = *b.GetInsertBlock()->getModule();
        auto *parts =
            new llvm::GlobalVariable(module, llvm::ArrayType::get(scalar, warps), false, llvm::GlobalValue::InternalLinkage,
                                     llvm::UndefValue::get(llvm::ArrayType::get(scalar, warps)), "parts", nullptr,
                                     llvm::GlobalValue::NotThreadLocal, /*AddressSpace=*/3);
        Value *warp = b.CreateLShr(team.thread, 5);
        emitIf(b, b.CreateICmpEQ(b.CreateAnd(team.thread, uint64_t(kWarp - 1)), b.getInt32(0)),
               [&] { b.CreateStore(sum, b.CreateGEP(scalar, parts, warp)); });
        Hopper(b).synchronize();
        for (unsigned i = 0; i < warps; ++i) {
          Value *part = b.CreateLoad(scalar, b.CreateConstGEP1_32(scalar, parts, i));
          sum = i ? emitScalar(b, combiner, {sum, part}) : part;
        }
        return llvm::SmallVector<Value *>{sum};
      })[0];
}

/// A warp for each row: softmax and layer normalisation in one kernel.
llvm::Error GpuCompiler::compileRows(mlir::Value root, llvm::ArrayRef<linalg::LinalgOp> reductions, Place to) {
  llvm::SetVector<mlir::Value> leaves;
  if (llvm::Error error = findLeaves(root, inMemory, leaves))
    return error;
  const mlir::RankedTensorType type = tensorOf(root);
  const int64_t width = type.getShape().back(), rows = type.getNumElements() / width;
  // Long rows, of which there are few, by several warps: each thread has about kRowElements.
  int64_t size = kWarp;
  while (size < int64_t(kThreads) && width > size * kRowElements && rows * size < int64_t(options.multiprocessors) * 1024)
    size *= 2;
  auto emit = [&](llvm::IRBuilder<> &b, Elements &elements, llvm::Function *function, Value *thread) {
    const Team team{b.CreateAnd(thread, uint64_t(size - 1)), size};
    Value *lane = team.thread, *row = b.CreateLShr(thread, llvm::Log2_64(uint64_t(size)));
    const ElementIndex index = delinearised(b, row, type.getShape().drop_back());
    for (linalg::LinalgOp reduction : reductions) {
      Value *total = reduceByTeam(b, elements, reduction, index, team);
      elements.setSource(reduction->getResult(0), [total](const ElementIndex &) { return total; });
    }
    Value *first = b.CreateMul(row, b.getInt32(uint32_t(width)));
    emitLoop(
        b, "row", {lane},
        [&](llvm::ArrayRef<Value *> values) { return b.CreateICmpULT(values[0], b.getInt32(uint32_t(width))); },
        [&](llvm::ArrayRef<Value *> values) {
          ElementIndex element{index.dims, b.CreateAdd(first, values[0])};
          element.dims.push_back(values[0]);
          storeElement(b, type.getElementType(), function->getArg(0), element.linear, elements.at(root, element));
          return llvm::SmallVector<Value *>{b.CreateAdd(values[0], b.getInt32(uint32_t(size)))};
        },
        kUnrolledTerms);
  };
  llvm::Expected<Launch> launch = plainLaunch(leaves.getArrayRef(), to, rows * size, emit, size == kWarp ? 0 : uint32_t(size));
  if (!launch)
    return launch.takeError();
  addPlainStep("rows", "sums of rows, which the result's rows need", size == kWarp ? "warp for each row" : "block for each row",
               bytesOf(type) + bytesOf(leaves.getArrayRef()), std::move(*launch));
  return llvm::Error::success();
}

llvm::Error GpuCompiler::compileRoot(mlir::Value root, Place to) {
  if (llvm::SmallVector<linalg::LinalgOp> reductions = rowReductions(root, inMemory, kWarp); !reductions.empty())
    return compileRows(root, reductions, to);
  // Reductions inside, first those that others read.
  std::function<llvm::Error(mlir::Value)> visit = [&](mlir::Value value) -> llvm::Error {
    mlir::Operation *op = value.getDefiningOp();
    if (!op || inMemory.contains(value))
      return llvm::Error::success();
    for (mlir::Value operand : op->getOperands())
      if (llvm::isa<mlir::ShapedType>(operand.getType()))
        if (llvm::Error error = visit(operand))
          return error;
    if (value != root && mustLieInMemory(value, root))
      return materialise(value);
    return llvm::Error::success();
  };
  if (llvm::Error error = visit(root))
    return error;
  std::string why = "nothing is summed";
  if (linalg::LinalgOp grouped = groupedReductionBehind(root)) {
    std::string whyNot; // the sums' own kernel says it again
    llvm::Expected<bool> done = compileContraction(root, grouped, to, whyNot);
    if (!done || *done)
      return done.takeError();
    if (llvm::Error error = materialise(grouped->getResult(0)))
      return error;
  }
  linalg::LinalgOp reduction = reductionBehind(root);
  if (reduction) {
    llvm::Expected<bool> done = compileContraction(root, reduction, to, why);
    if (!done || *done)
      return done.takeError();
    if (termsOf(reduction) >= kWarp && tensorOf(root).getNumElements() <= kMostWarpReductions && combinerOf(reduction))
      return compileRowReduction(root, reduction, to);
  }
  return compileElements(root, to, why);
}

llvm::Error GpuCompiler::compileElements(mlir::Value root, Place to, const std::string &why) {
  llvm::SetVector<mlir::Value> leaves;
  if (llvm::Error error = findLeaves(root, inMemory, leaves))
    return error;
  const mlir::RankedTensorType type = tensorOf(root);
  // Neighbours that a thread computes: 16 bytes of the result, where there is enough for all.
  int64_t terms = 1;
  if (linalg::LinalgOp reduction = reductionBehind(root))
    terms = termsOf(reduction);
  unsigned lanes = 16 / gpu::bytesOf(*elementOf(type.getElementType()));
  while (lanes > 1 && (type.getRank() == 0 || type.getShape().back() % lanes ||
                       type.getNumElements() < int64_t(options.multiprocessors) * kThreads * lanes || terms > kMostTermsOfRows))
    lanes /= 2;
  auto emit = [&](llvm::IRBuilder<> &b, Elements &elements, llvm::Function *function, Value *thread) {
    Value *first = b.CreateMul(thread, b.getInt32(lanes), "", true, true);
    const Elements::Row values = elements.row(root, delinearised(b, first, type.getShape()), lanes);
    storeRow(b, type.getElementType(), function->getArg(0), first, values);
  };
  llvm::Expected<Launch> launch = plainLaunch(leaves.getArrayRef(), to, type.getNumElements() / lanes, emit);
  if (!launch)
    return launch.takeError();
  addPlainStep(reductionBehind(root) ? "reduction" : "elements", why, "thread for each element",
               bytesOf(type) + bytesOf(leaves.getArrayRef()), std::move(*launch));
  return llvm::Error::success();
}

/// A warp for each result: lanes take every 32nd term, then add up.
llvm::Error GpuCompiler::compileRowReduction(mlir::Value root, linalg::LinalgOp reduction, Place to) {
  llvm::SetVector<mlir::Value> leaves;
  if (llvm::Error error = findLeaves(root, inMemory, leaves))
    return error;
  const mlir::RankedTensorType type = tensorOf(root);
  auto emit = [&](llvm::IRBuilder<> &b, Elements &elements, llvm::Function *function, Value *thread) {
    Value *lane = b.CreateAnd(thread, uint64_t(kWarp - 1)), *number = b.CreateLShr(thread, 5);
    ElementIndex index = delinearised(b, number, type.getShape());
    Value *total = reduceByTeam(b, elements, reduction, index, {lane});
    elements.setSource(reduction->getResult(0), [&](const ElementIndex &) { return total; });
    Value *value = elements.at(root, index);
    emitIf(b, b.CreateICmpEQ(lane, b.getInt32(0)),
           [&] { storeElement(b, type.getElementType(), function->getArg(0), number, value); });
  };
  llvm::Expected<Launch> launch = plainLaunch(leaves.getArrayRef(), to, type.getNumElements() * kWarp, emit);
  if (!launch)
    return launch.takeError();
  addPlainStep("reduction", "long sums, few of them", "warp for each element", bytesOf(type) + bytesOf(leaves.getArrayRef()),
               std::move(*launch));
  return llvm::Error::success();
}

/// B as the tile kernel reads it: [columns][depth] of each group, in the order of depthDims, the last `innerDims` of which together take `innermost`
/// elements of each `group` of the outer ones: what is left of them is 0. `permutes`: columns as TileKernel::permutesColumns wants them.
std::vector<uint8_t> layOutWeights(const Contraction &contraction, unsigned innerDims, int64_t group, int64_t innermost,
                                   bool permutes) {
  const std::vector<uint8_t> source = bytesOfConstant(contraction.b);
  const unsigned size = gpu::bytesOf(contraction.element);
  linalg::LinalgOp op = contraction.op;
  mlir::AffineMap map = op.getMatchingIndexingMap(op.getDpsInputOperand(1));
  llvm::ArrayRef<int64_t> shape = tensorOf(contraction.b).getShape();
  const llvm::SmallVector<int64_t> loops = op.getStaticLoopRanges();
  auto strideOf = [&](unsigned dim) {
    int64_t stride = 1;
    for (unsigned i = map.getNumResults(); i-- > 0;) {
      if (map.getDimPosition(i) == dim)
        return stride;
      stride *= shape[i];
    }
    return int64_t(0);
  };
  // Offsets of all steps of k in the source, and of the inner ones in the result.
  std::vector<int64_t> offsets{0};
  int64_t inner = 1;
  for (auto [i, dim] : llvm::enumerate(contraction.depthDims)) {
    std::vector<int64_t> next;
    for (int64_t offset : offsets)
      for (int64_t k = 0; k < loops[dim]; ++k)
        next.push_back(offset + k * strideOf(dim));
    offsets = std::move(next);
    if (i + innerDims >= contraction.depthDims.size())
      inner *= loops[dim];
  }
  const int64_t outer = contraction.depth / inner, columnStride = strideOf(contraction.columnDim);
  const int64_t groups = int64_t(llvm::divideCeil(outer, group));
  const int64_t batchStride = contraction.groups > 1 ? strideOf(contraction.batchDims[0]) : 0;
  std::vector<uint8_t> result(size_t(contraction.groups * contraction.columns * groups * innermost * size), 0);
  for (int64_t line = 0; line < contraction.groups * contraction.columns; ++line) {
    const int64_t column = line % contraction.columns;
    const int64_t first =
        line / contraction.columns * batchStride + (permutes ? bytePosition(unsigned(column)) : column) * columnStride;
    for (int64_t k = 0; k < contraction.depth; ++k)
      std::memcpy(result.data() +
                      ((line * groups + k / inner / group) * innermost + k / inner % group * inner + k % inner) * size,
                  source.data() + (first + offsets[size_t(k)]) * size, size);
  }
  return result;
}

/// Whether the dims of an operand are these loop dims, in this order.
bool isInOrder(linalg::LinalgOp op, unsigned operand, llvm::ArrayRef<unsigned> dims) {
  mlir::AffineMap map = op.getMatchingIndexingMap(op.getDpsInputOperand(operand));
  if (map.getNumResults() != dims.size())
    return false;
  for (unsigned i = 0; i < dims.size(); ++i)
    if (map.getDimPosition(i) != dims[i])
      return false;
  return true;
}

llvm::Expected<Place> GpuCompiler::operandInOrder(linalg::LinalgOp op, unsigned operand, llvm::ArrayRef<unsigned> dims) {
  mlir::OpOperand *input = op.getDpsInputOperand(operand);
  const mlir::Value value = input->get();
  mlir::AffineMap map = op.getMatchingIndexingMap(input);
  const bool isConstant = value.getDefiningOp<mlir::arith::ConstantOp>() != nullptr;
  if (isInOrder(op, operand, dims)) {
    if (!isConstant && value.getDefiningOp() && !inMemory.contains(value))
      if (llvm::Error error = materialise(value))
        return std::move(error);
    llvm::SetVector<mlir::Value> leaves;
    if (llvm::Error error = findLeaves(value, inMemory, leaves))
      return std::move(error);
    if (leaves.size() == 1) // else a constant of equal elements
      return placeInFunction(leaves.front());
  }
  llvm::SetVector<mlir::Value> leaves;
  if (llvm::Error error = findLeaves(value, inMemory, leaves))
    return std::move(error);
  const mlir::RankedTensorType type = tensorOf(value);
  const llvm::SmallVector<int64_t> loops = op.getStaticLoopRanges();
  llvm::SmallVector<int64_t> shape;
  for (unsigned dim : dims)
    shape.push_back(loops[dim]);
  const Place to = bufferFor(bytesOf(type));
  llvm::Expected<Launch> launch =
      plainLaunch(leaves.getArrayRef(), to, type.getNumElements(),
                  [&](llvm::IRBuilder<> &b, Elements &source, llvm::Function *function, Value *thread) {
                    ElementIndex ordered = delinearised(b, thread, shape), index;
                    for (unsigned i = 0; i < map.getNumResults(); ++i)
                      index.dims.push_back(ordered.dims[size_t(llvm::find(dims, map.getDimPosition(i)) - dims.begin())]);
                    storeElement(b, type.getElementType(), function->getArg(0), thread, source.at(value, index));
                  });
  if (!launch)
    return launch.takeError();
  addPlainStep("elements", "an operand in the order of its products", "thread for each element", 2 * bytesOf(type),
               std::move(*launch));
  return to;
}

llvm::Expected<Place> GpuCompiler::unfoldRows(const Contraction &contraction, Contraction::Window &window, int64_t group) {
  const Contraction::Window old = window;
  const unsigned size = gpu::bytesOf(contraction.element), lanes = 16 / size;
  const int64_t rowTaps = old.filterWidth * old.channels, taps = group * rowTaps,
                channels = int64_t(llvm::alignTo(taps, uint64_t(lanes)));
  if (group > 1) { // row y of the copy holds rows y * group - padTop and behind
    window.filterHeight = int64_t(llvm::divideCeil(old.filterHeight, group));
    window.height = old.outHeight + window.filterHeight - 1;
    window.strideHeight = 1;
    window.padTop = 0;
  }
  window.width = old.outWidth;
  window.channels = channels;
  window.filterWidth = window.strideWidth = window.dilationWidth = 1;
  window.padLeft = 0;
  const mlir::Type element = tensorOf(contraction.a).getElementType();
  const llvm::SmallVector<int64_t> shape{old.images, window.height, old.outWidth, channels};
  const int64_t elements = mlir::ShapedType::getNumElements(shape);
  const Place to = bufferFor(uint64_t(elements) * size);
  llvm::SetVector<mlir::Value> leaves;
  if (llvm::Error error = findLeaves(contraction.a, inMemory, leaves))
    return std::move(error);
  auto emit = [&](llvm::IRBuilder<> &b, Elements &source, llvm::Function *function, Value *thread) {
    auto number = [&](int64_t value) { return b.getInt32(uint32_t(value)); };
    llvm::Type *scalar = scalarType(b, element);
    Value *first = b.CreateMul(thread, number(lanes), "", true, true);
    const ElementIndex begin = delinearised(b, first, shape);
    Elements::Row values;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      Value *k = b.CreateAdd(begin.dims[3], number(lane)), *inRow = b.CreateURem(k, number(rowTaps));
      Value *tap = b.CreateUDiv(inRow, number(old.channels)), *channel = b.CreateURem(inRow, number(old.channels));
      Value *x = b.CreateAdd(b.CreateMul(begin.dims[2], number(old.strideWidth)),
                             b.CreateSub(b.CreateMul(tap, number(old.dilationWidth)), number(old.padLeft)));
      Value *y = begin.dims[1];
      if (group > 1)
        y = b.CreateSub(b.CreateAdd(b.CreateMul(y, number(group)), b.CreateUDiv(k, number(rowTaps))), number(old.padTop));
      Value *isInside = b.CreateAnd(b.CreateICmpULT(x, number(old.width)), b.CreateICmpULT(k, number(taps)));
      if (group > 1)
        isInside = b.CreateAnd(isInside, b.CreateICmpULT(y, number(old.height)));
      values.append(source.choose(
          isInside, scalar,
          [&] {
            return source.row(contraction.a, {{begin.dims[0], y, x, channel}, nullptr}, 1);
          },
          [&] { return Elements::Row{llvm::Constant::getNullValue(scalar)}; }));
    }
    storeRow(b, element, function->getArg(0), first, values);
  };
  llvm::Expected<Launch> launch = plainLaunch(leaves.getArrayRef(), to, elements / lanes, emit);
  if (!launch)
    return launch.takeError();
  addPlainStep("elements", "taps of a row as channels, of which there are few", "thread for each 16 bytes",
               uint64_t(elements * size), std::move(*launch));
  return to;
}

GpuCompiler::Corrections GpuCompiler::correctionsOf(const Contraction &contraction) {
  auto toConstants = [&](const std::vector<int32_t> &numbers) {
    std::vector<uint8_t> bytes(numbers.size() * sizeof(int32_t));
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return constantFor(std::move(bytes));
  };
  using Taps = Contraction::Taps;
  // Sets of taps along a dim, and the one of each output.
  struct Sets {
    std::vector<Taps> taps;
    std::vector<int32_t> ofOutput;
  };
  auto setsOf = [](int64_t outputs, int64_t stride, int64_t pad, int64_t dilation, int64_t taps, int64_t size) {
    Sets sets;
    for (int64_t i = 0; i < outputs; ++i) {
      const Taps inside = Contraction::tapsInside(i, stride, pad, dilation, taps, size);
      auto found = llvm::find(sets.taps, inside);
      sets.ofOutput.push_back(int32_t(found - sets.taps.begin()));
      if (found == sets.taps.end())
        sets.taps.push_back(inside);
    }
    return sets;
  };
  Sets lines{{{0, 1}}, {0}}, positions = lines;
  int64_t filterHeight = 1, filterWidth = 1;
  if (const std::optional<Contraction::Window> &w = contraction.window) {
    filterHeight = w->filterHeight;
    filterWidth = w->filterWidth;
    lines = setsOf(w->outHeight, w->strideHeight, w->padTop, w->dilationHeight, filterHeight, w->height);
    positions = setsOf(w->outWidth, w->strideWidth, w->padLeft, w->dilationWidth, filterWidth, w->width);
  }
  linalg::LinalgOp op = contraction.op;
  const int64_t columns = contraction.groups * contraction.columns, channels = contraction.depth / (filterHeight * filterWidth);
  const std::vector<uint8_t> weights =
      layOutWeights(contraction, 1, 1, op.getStaticLoopRanges()[contraction.depthDims.back()], false);
  std::vector<int32_t> sums;
  for (const Taps &y : lines.taps)
    for (const Taps &x : positions.taps)
      for (int64_t column = 0; column < columns; ++column) {
        int32_t sum = 0;
        for (int64_t tapY = y.first; tapY < y.end; ++tapY)
          for (int64_t k = (tapY * filterWidth + x.first) * channels; k < (tapY * filterWidth + x.end) * channels; ++k)
            sum += int8_t(weights[size_t(column * contraction.depth + k)]);
        sums.push_back(sum * int32_t(contraction.zeroPoint));
      }
  Corrections corrections{{toConstants(sums)}};
  if (lines.taps.size() * positions.taps.size() == 1)
    return corrections;
  for (int32_t &set : lines.ofOutput)
    set *= int32_t(int64_t(positions.taps.size()) * columns);
  for (int32_t &set : positions.ofOutput)
    set *= int32_t(columns);
  corrections.places.append({toConstants(lines.ofOutput), toConstants(positions.ofOutput)});
  return corrections;
}

/// How an element of `root` at some place reads `leaf`, whatever else it is made of: at the same place, at the same last index of a tensor
/// that has no other, or otherwise.
enum class Reading : uint8_t { Never, SamePlace, ByColumn, Otherwise };
Reading readingOf(mlir::Value root, mlir::Value leaf, const llvm::DenseSet<mlir::Value> &inMemory) {
  if (root == leaf)
    return Reading::SamePlace;
  mlir::Operation *op = root.getDefiningOp();
  if (!op || inMemory.contains(root))
    return Reading::Never;
  Reading all = Reading::Never;
  auto join = [&](Reading reading) {
    if (reading != Reading::Never)
      all = all == Reading::Never || all == reading ? reading : Reading::Otherwise;
  };
  auto generic = llvm::dyn_cast<linalg::LinalgOp>(op);
  for (mlir::OpOperand &operand : op->getOpOperands()) {
    const Reading inner = readingOf(operand.get(), leaf, inMemory);
    if (inner == Reading::Never)
      continue;
    if (!generic || generic.getNumReductionLoops()) {
      join(Reading::Otherwise);
      continue;
    }
    if (mlir::AffineMap map = generic.getMatchingIndexingMap(&operand); map.isIdentity()) {
      join(inner);
    } else if (operand.get() == leaf && map.getNumResults() &&
               tensorOf(leaf).getNumElements() == tensorOf(leaf).getShape().back()) {
      const bool isLast =
          map.getResult(map.getNumResults() - 1) == mlir::getAffineDimExpr(map.getNumDims() - 1, map.getContext());
      join(isLast && tensorOf(leaf).getShape().back() == generic.getStaticLoopRanges().back() ? Reading::ByColumn
                                                                                              : Reading::Otherwise);
    } else {
      join(Reading::Otherwise);
    }
  }
  return all;
}

/// A tile, and how it is split.
template <typename Tile> struct TileCandidate {
  const Tile *tile;
  TileSize size;
  uint64_t tiles;
  std::optional<TileSplit> split;
  double microseconds;

  Splitting splitting() const { return !split ? Splitting::None : split->tiles == tiles ? Splitting::All : Splitting::Last; }
};

template <typename Tile> void keepBest(std::vector<TileCandidate<Tile>> &candidates, size_t most) {
  llvm::stable_sort(candidates, [](const auto &a, const auto &b) { return a.microseconds < b.microseconds; });
  if (candidates.size() > most)
    candidates.resize(most);
}

Place GpuCompiler::slotsFor(std::optional<Place> &buffer, const TileSplit &split, const TileSize &tile) {
  const uint64_t needed = uint64_t(split.slots()) * tile.rows * tile.columns * 4;
  if (!buffer)
    buffer = bufferFor(needed);
  buffers[buffer->offset].bytes = std::max(buffers[buffer->offset].bytes, int64_t(aligned(needed)));
  return *buffer;
}

llvm::Expected<Launch> GpuCompiler::sumLaunch(const ProductKernel &kernel, const TileSize &tile, unsigned lanes, Place slots,
                                              Place out, llvm::ArrayRef<uint32_t> numbers, llvm::ArrayRef<Argument> pointers) {
  const SplitSum sum{kernel, tile.rows, tile.columns, lanes};
  llvm::Expected<uint32_t> index = addKernel([&](llvm::Module &module) { emitSplitSum(module, sum); });
  if (!index)
    return index.takeError();
  Launch launch;
  launch.kernel = *index;
  launch.grid = sum.blocks(numbers[SplitSum::Split - SplitSum::Batches]);
  launch.block = SplitSum::kThreads;
  launch.arguments = {slots, out};
  launch.arguments.insert(launch.arguments.end(), numbers.begin(), numbers.end());
  launch.arguments.insert(launch.arguments.end(), pointers.begin(), pointers.end());
  return launch;
}

llvm::Error GpuCompiler::addMmaVariants(MmaKernel kernel, const std::array<Place, 3> &places, llvm::ArrayRef<uint32_t> numbers,
                                        llvm::ArrayRef<Argument> pointers, double bytes, Step &step) {
  auto number = [&](MmaKernel::Parameter parameter) { return numbers[parameter - MmaKernel::Batches]; };
  std::vector<TileCandidate<MmaTile>> candidates;
  for (const MmaTile &tile : mmaTiles()) {
    const TileSize size{tile.shape.rows, tile.shape.columns, tile.rate};
    const TileCost cost(device, options.multiprocessors,
                        {number(MmaKernel::Batches), number(MmaKernel::Rows), number(MmaKernel::Columns),
                         number(MmaKernel::Stages), gpu::bytesOf(kernel.in), bytes},
                        size);
    candidates.push_back({&tile, size, cost.tiles(), std::nullopt, cost.whole()});
    if (const std::optional<TileSplit> split = cost.bestSplit())
      candidates.push_back({&tile, size, cost.tiles(), split, cost.split(*split)});
  }
  keepBest(candidates, options.mostVariants);
  std::optional<Place> buffer;
  for (const TileCandidate<MmaTile> &candidate : candidates) {
    kernel.shape = candidate.tile->shape;
    kernel.splitting = candidate.splitting();
    const TileSplit split = candidate.split.value_or(TileSplit{0, 0});
    const Place slots = candidate.split ? slotsFor(buffer, split, candidate.size) : places[MmaKernel::Out];
    MmaKernel product = kernel;
    if (kernel.splitting == Splitting::All)
      product.pointers = 0;
    llvm::Expected<uint32_t> index = addKernel([&](llvm::Module &module) { emitMmaKernel(module, product); });
    if (!index)
      return index.takeError();
    Launch launch;
    launch.kernel = *index;
    launch.grid = uint32_t(candidate.tiles - split.tiles + split.blocks);
    launch.block = kernel.shape.threads();
    launch.sharedBytes = kernel.sharedBytes();
    launch.arguments = {places[MmaKernel::A], places[MmaKernel::B], places[MmaKernel::Out], slots};
    launch.arguments.insert(launch.arguments.end(), numbers.begin(), numbers.end());
    launch.arguments.insert(launch.arguments.end(), {split.tiles, split.blocks});
    if (product.pointers)
      launch.arguments.insert(launch.arguments.end(), pointers.begin(), pointers.end());
    Variant variant{kernel.shape.name() + (candidate.split ? split.name() : ""), candidate.microseconds, {std::move(launch)}};
    if (candidate.split) {
      llvm::Expected<Launch> sum =
          sumLaunch(kernel, candidate.size, kernel.lanes, slots, places[MmaKernel::Out],
                    {number(MmaKernel::Batches), number(MmaKernel::Rows), number(MmaKernel::Columns), number(MmaKernel::Stages),
                     split.tiles, split.blocks, number(MmaKernel::RowStrideOut), number(MmaKernel::InnerBatches),
                     number(MmaKernel::InnerStrideOut), number(MmaKernel::OuterStrideOut)},
                    pointers);
      if (!sum)
        return sum.takeError();
      variant.launches.push_back(std::move(*sum));
    }
    step.variants.push_back(std::move(variant));
  }
  return llvm::Error::success();
}

llvm::Expected<bool> GpuCompiler::compileContraction(mlir::Value root, linalg::LinalgOp op, Place to, std::string &why) {
  auto no = [&](const llvm::Twine &reason) {
    why = "not on the tensor cores: " + reason.str();
    return false;
  };
  Match match = matchContraction(op);
  if (!match.contraction)
    return no(match.why);
  Contraction &contraction = *match.contraction;
  const unsigned size = gpu::bytesOf(contraction.element);
  const int64_t depth = kStageRowBytes / size;
  if (contraction.element == Element::F32 && options.math != graph::Math::Fast)
    return no("products of f32 would be rounded (--math fast)");
  const mlir::RankedTensorType type = tensorOf(root);
  const Element out = *elementOf(type.getElementType());
  if (out != Element::F32 && out != Element::Bf16 && out != Element::F16 && out != Element::I32 && out != Element::I8)
    return no(llvm::Twine("its result is ") + nameOf(out));
  if (isHopper() && contraction.columns % 2 && contraction.groups == 1)
    return no("an odd number of columns");
  if (contraction.batches * contraction.rows * contraction.columns > INT32_MAX)
    return no("more elements than 31 bits count");
  std::optional<Contraction::Window> window = contraction.window;
  int64_t innerDepth = op.getStaticLoopRanges()[contraction.depthDims.back()];
  if (window && window->filterHeight == 1 && window->filterWidth == 1 && window->strideHeight == 1 &&
      window->strideWidth == 1 && window->outHeight == window->height && window->outWidth == window->width &&
      contraction.groups == 1) {
    window.reset();
  } else if (window && isHopper() && contraction.groups == 1) {
    const int64_t right = window->padLeft - (window->filterWidth - 1) * window->dilationWidth,
                  bottom = window->padTop - (window->filterHeight - 1) * window->dilationHeight;
    if (window->padLeft > 128 || window->padTop > 128 || right < -128 || bottom < -128)
      return no("its windows reach farther than a copy can");
    if (window->strideHeight > 8 || window->strideWidth > 8)
      return no("its strides are above 8");
  }
  // The kernel of sm_80 has strides for the channels of a group.
  const bool usesMma = !isHopper() || contraction.groups > 1;
  // Few channels: the taps of a row become channels.
  unsigned innerDims = 1;
  int64_t rowGroup = 1;
  const bool unfolds = window && contraction.groups == 1 && window->filterWidth > 1 &&
                       (innerDepth * size % 16 || innerDepth <= kFewChannels) && window->filterWidth * innerDepth <= depth;
  if (!unfolds && innerDepth * size % 16)
    return no("rows of its operands are no multiples of 16 bytes");

  auto constantB = contraction.b.getDefiningOp<mlir::arith::ConstantOp>();
  if (constantB && contraction.batches > 1 && contraction.groups == 1)
    constantB = nullptr;
  Place placeA;
  std::optional<StridedMatrices> matricesA, matricesB; // of operands that lie in another order
  if (auto view = views.find(contraction.a); view != views.end()) {
    llvm::SmallVector<unsigned> rows(contraction.rowDims), columns(contraction.depthDims);
    matricesA = matricesFor(contraction, 0, view->second.view, rows, columns);
    placeA = placeOf(view->second.base);
  } else if (unfolds) {
    // And the rows that windows do not tell apart, where they take every second one.
    if (window->dilationHeight == 1 && window->strideHeight * window->filterWidth * innerDepth <= depth)
      rowGroup = window->strideHeight;
    llvm::Expected<Place> place = unfoldRows(contraction, *window, rowGroup);
    if (!place)
      return place.takeError();
    placeA = *place;
    innerDims = 2;
    innerDepth = window->channels;
  } else if (contraction.window) {
    if (contraction.a.getDefiningOp() && !inMemory.contains(contraction.a))
      if (llvm::Error error = materialise(contraction.a))
        return std::move(error);
    placeA = placeInFunction(contraction.a);
  } else {
    llvm::SmallVector<unsigned> dims(contraction.batchDims);
    dims.append(contraction.rowDims);
    dims.append(contraction.depthDims);
    llvm::Expected<Place> place = operandInOrder(op, 0, dims);
    if (!place)
      return place.takeError();
    placeA = *place;
  }

  const int64_t columns = contraction.columns, rows = contraction.rows;
  const int64_t taps = window ? window->filterHeight * window->filterWidth : 1;
  const int64_t paddedInner = window ? int64_t(llvm::alignTo(innerDepth, uint64_t(depth))) : contraction.depth;
  const bool permutes = !usesMma && out == Element::I8 && columns % 16 == 0 && constantB;
  Place placeB;
  bool columnsInner = false;
  int64_t depthB = taps * paddedInner;
  if (constantB) {
    placeB = constantFor(layOutWeights(contraction, innerDims, rowGroup, window ? paddedInner : innerDepth, permutes));
  } else {
    if (contraction.window)
      return no("its weights are computed");
    llvm::SmallVector<unsigned> dims(contraction.batchDims), inner(contraction.batchDims);
    dims.push_back(contraction.columnDim);
    dims.append(contraction.depthDims);
    inner.append(contraction.depthDims);
    inner.push_back(contraction.columnDim);
    if (auto view = views.find(contraction.b); view != views.end()) {
      matricesB = matricesFor(contraction, 1, view->second.view, {contraction.columnDim}, contraction.depthDims);
      columnsInner = !matricesB;
      if (columnsInner)
        matricesB = matricesFor(contraction, 1, view->second.view, contraction.depthDims, {contraction.columnDim});
      placeB = placeOf(view->second.base);
    } else {
      columnsInner = size == 2 && columns * size % 16 == 0 && isInOrder(op, 1, inner);
      llvm::Expected<Place> place = operandInOrder(op, 1, columnsInner ? inner : dims);
      if (!place)
        return place.takeError();
      placeB = *place;
    }
    use(placeB);
  }

  llvm::DenseSet<mlir::Value> known = inMemory;
  const mlir::Value sums = op->getResult(0);
  known.insert(sums);
  llvm::SetVector<mlir::Value> leaves;
  if (llvm::Error error = findLeaves(root, known, leaves))
    return std::move(error);
  leaves.remove(sums);

  // (a - zero) * b sums up to a * b, less zero times the sum of b.
  std::optional<Corrections> corrections;
  if (contraction.zeroPoint) {
    if (!constantB)
      return no("a zero point, and both operands are computed");
    corrections = correctionsOf(contraction);
  }

  // Products by the outer and the inner of two dims, where one operand lies so.
  int64_t heads = contraction.batches;
  std::optional<StridedMatrices> matricesOut;
  if (viewOfProduct)
    matricesOut = matricesForResult(contraction, type, viewOfProduct->view);
  for (const std::optional<StridedMatrices> &matrices : {matricesA, matricesB, matricesOut})
    if (matrices && matrices->batch.size() == 2)
      heads = matrices->batch[1].size;
  const bool splitsBatch = heads != contraction.batches;

  auto addMap = [&](TensorMap map) {
    program.maps.push_back(std::move(map));
    return MapIndex{uint32_t(program.maps.size() - 1)};
  };
  const uint32_t stages = uint32_t(window ? taps * (paddedInner / depth) : llvm::divideCeil(contraction.depth, depth));
  const double bytes = double(contraction.batches) * (double(rows) * double(contraction.depth / taps * size) +
                                                      double(columns * contraction.depth * size)) +
                       double(bytesOf(type)) * (leaves.size() > 1 ? 2 : 1);

  std::optional<unsigned> residual; // of the leaves: it is copied while the tile is multiplied
  const Epilogue epilogue = [&](llvm::IRBuilder<> &b, const EpilogueInput &input) {
    const unsigned lanes = unsigned(input.sums.size());
    Value *row = input.row, *column = input.column, *columns = input.columns;
    ElementIndex index;
    if (contraction.groups > 1) { // which stand behind the pixel in the output
      Value *perGroup = b.getInt32(uint32_t(contraction.rows)), *group = b.CreateUDiv(row, perGroup);
      row = b.CreateURem(row, perGroup);
      Value *inGroup = column;
      column = b.CreateAdd(b.CreateMul(group, columns, "", true, true), column, "", true, true);
      columns = b.CreateMul(columns, b.getInt32(uint32_t(contraction.groups)), "", true, true);
      index = delinearised(b, row, type.getShape().take_front(3));
      if (type.getRank() == 5)
        index.dims.append({group, inGroup});
      else
        index.dims.push_back(column);
    } else {
      index = delinearised(b, row, type.getShape().drop_back());
      index.dims.push_back(column);
    }
    index.linear = b.CreateAdd(b.CreateMul(row, columns, "", true, true), column, "", true, true);
    Elements elements(b);
    for (auto [pointer, leaf] : llvm::enumerate(leaves))
      if (residual == pointer && !input.residual.empty())
        elements.setRow(leaf, Elements::Row(input.residual.begin(), input.residual.end()));
      else
        elements.setPointer(leaf, input.pointers[pointer]);
    Elements::Row totals(input.sums.begin(), input.sums.end());
    if (corrections) {
      Value *number = column;
      if (!corrections->isVector()) { // which taps lie in the image depends on line and position in it
        auto offset = [&](unsigned pointer, Value *place) {
          return b.CreateLoad(b.getInt32Ty(), b.CreateGEP(b.getInt32Ty(), input.pointers[leaves.size() + pointer],
                                                          b.CreateZExt(place, b.getInt64Ty())));
        };
        number = b.CreateAdd(b.CreateAdd(offset(1, index.dims[1]), offset(2, index.dims[2])), column);
      }
      Value *at = b.CreateGEP(b.getInt32Ty(), input.pointers[leaves.size()], b.CreateZExt(number, b.getInt64Ty()));
      Value *all = b.CreateAlignedLoad(llvm::FixedVectorType::get(b.getInt32Ty(), lanes), at, llvm::Align(4 * lanes));
      for (auto [i, total] : llvm::enumerate(totals))
        total = b.CreateSub(total, b.CreateExtractElement(all, uint64_t(i)));
    }
    elements.setRow(sums, std::move(totals));
    llvm::SmallVector<Value *> results = elements.row(root, index, lanes);
    for (Value *&value : results)
      if (value->getType()->isBFloatTy() || value->getType()->isHalfTy())
        value = b.CreateFPExt(value, b.getFloatTy()); // packed again, which changes nothing
      else if (value->getType()->isIntegerTy(8))
        value = b.CreateSIToFP(value, b.getFloatTy());
    return results;
  };
  llvm::SmallVector<Argument> pointers;
  for (mlir::Value leaf : leaves)
    pointers.push_back(placeInFunction(leaf));
  if (corrections)
    pointers.append(corrections->places.begin(), corrections->places.end());
  auto strided = [&](std::optional<StridedMatrices> matrices, int64_t lines, int64_t width) {
    if (!matrices)
      matrices.emplace(StridedMatrices{width, lines, width, {}});
    if (matrices->batch.empty() && contraction.batches > 1)
      matrices->batch = {{contraction.batches, matrices->rows * matrices->rowStride}};
    [[maybe_unused]] const bool splits = splitBatch(*matrices, contraction.batches / heads, heads);
    assert(splits && "operands whose batches cannot be split are copied");
    return *matrices;
  };
  if (usesMma) {
    MmaKernel kernel;
    kernel.name = "kernel";
    kernel.in = contraction.element;
    kernel.out = out;
    kernel.source = window ? RowSource::Pixels : RowSource::Matrix;
    kernel.isBatched = contraction.batches > 1;
    kernel.columnsInner = columnsInner;
    kernel.lanes = columns % 4 == 0 ? 4 : columns % 2 == 0 ? 2 : 1;
    kernel.pointers = unsigned(pointers.size());
    kernel.epilogue = epilogue;
    StridedMatrices ofA = strided(matricesA, rows, window ? window->channels : contraction.depth),
                    ofB = columnsInner ? strided(matricesB, depthB, columns) : strided(matricesB, columns, depthB),
                    ofOut = strided(matricesOut, rows, columns);
    if (contraction.groups > 1) {
      ofA.rowStride = ofA.columns * contraction.groups;
      ofA.batch = {{1, 0}, {contraction.groups, ofA.columns}};
      ofOut.rowStride = columns * contraction.groups;
      ofOut.batch = {{1, 0}, {contraction.groups, columns}};
    }
    auto units = [&](int64_t elements) { return uint32_t(elements * size / 16); };
    llvm::SmallVector<uint32_t> numbers{uint32_t(contraction.batches),
                                        uint32_t(rows),
                                        uint32_t(columns),
                                        stages,
                                        units(window ? window->channels : contraction.depth),
                                        columnsInner ? uint32_t(depthB) : units(depthB),
                                        units(ofA.rowStride),
                                        units(ofB.rowStride),
                                        uint32_t(ofOut.rowStride),
                                        uint32_t(heads),
                                        units(ofA.batch[1].stride),
                                        units(ofA.batch[0].stride),
                                        units(ofB.batch[1].stride),
                                        units(ofB.batch[0].stride),
                                        uint32_t(ofOut.batch[1].stride),
                                        uint32_t(ofOut.batch[0].stride)};
    const Contraction::Window w = window.value_or(Contraction::Window{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0});
    for (int64_t value : {w.height, w.width, w.outHeight, w.outWidth, w.strideHeight, w.strideWidth, w.padTop, w.padLeft,
                          w.dilationHeight, w.dilationWidth, w.filterWidth, window ? paddedInner / depth : 1})
      numbers.push_back(uint32_t(value));
    Step step;
    step.kind = window ? "convolution" : "matrix product";
    if (llvm::Error error = addMmaVariants(kernel, {placeA, placeB, to}, numbers, pointers, bytes, step))
      return std::move(error);
    use(placeA);
    use(to);
    for (mlir::Value leaf : leaves)
      use(placeInFunction(leaf));
    addStep(std::move(step));
    return true;
  }

  using Candidate = TileCandidate<Tile>;
  std::vector<Candidate> candidates;
  for (const Tile &tile : kTiles) {
    const TileShape &shape = tile.shape;
    if (stages < shape.splitK || (matricesOut && shape.splitK > 1))
      continue;
    const TileSize tileSize{shape.rows, shape.columns, tile.rate};
    const TileCost cost(device, options.multiprocessors,
                        {uint64_t(contraction.batches), uint64_t(rows), uint64_t(columns), stages, size, bytes}, tileSize);
    candidates.push_back({&tile, tileSize, cost.tiles(), std::nullopt, cost.whole(shape.splitK)});
    if (shape.splitK > 1 || shape.consumers() > kMostSplitConsumers)
      continue;
    if (const std::optional<TileSplit> split = cost.bestSplit())
      candidates.push_back({&tile, tileSize, cost.tiles(), split, cost.split(*split)});
  }
  keepBest(candidates, options.mostVariants);

  // What the epilogue reads, and a tile can copy while it is multiplied: a tensor like the result, and vectors.
  std::vector<TileKernel::Vector> vectors;
  for (auto [i, leaf] : llvm::enumerate(leaves)) {
    const Element element = *elementOf(tensorOf(leaf).getElementType());
    const Reading reading = readingOf(root, leaf, known);
    // The residual's boxes are those of the result, which then lies in its own order.
    if (reading == Reading::SamePlace && element == out && tensorOf(leaf).getShape() == type.getShape() && !residual &&
        !matricesOut)
      residual = unsigned(i);
    else if (reading == Reading::ByColumn && gpu::bytesOf(element) == 4 && columns % 4 == 0)
      vectors.push_back({unsigned(i), 4});
  }
  if (corrections && corrections->isVector() && columns % 4 == 0)
    vectors.push_back({unsigned(leaves.size()), 4});
  // The best tile also without copies ahead: which is faster is a matter of measurement.
  std::vector<std::pair<Candidate, bool>> variants;
  for (const Candidate &candidate : candidates)
    variants.push_back({candidate, true});
  if (residual || !vectors.empty())
    variants.push_back({candidates.front(), false});

  std::optional<Place> slotBuffer;
  Step step;
  step.kind = window ? "convolution" : "matrix product";
  bool copiesAhead = false; // the first variant
  for (const auto &[candidate, mayCopyAhead] : variants) {
    TileKernel kernel;
    kernel.name = "kernel";
    kernel.shape = candidate.tile->shape;
    TileShape &shape = kernel.shape;
    kernel.in = contraction.element;
    kernel.out = out;
    kernel.source = window ? RowSource::Pixels : RowSource::Matrix;
    kernel.permutesColumns = permutes;
    kernel.splitting = candidate.splitting();
    kernel.storesBoxes = shape.splitK == 1 && kernel.splitting != Splitting::All &&
                         (permutes || ((out == Element::Bf16 || out == Element::F16) && columns * gpu::bytesOf(out) % 16 == 0));
    kernel.isBatched = contraction.batches > 1;
    kernel.splitsBatch = splitsBatch;
    kernel.columnsInner = columnsInner;
    kernel.overlapsGrids = candidate.microseconds < kShortMicroseconds;
    // B is loaded before the grid in front ends: it must not come from there.
    kernel.knowsB = constantB != nullptr;
    kernel.pointers = kernel.splitting == Splitting::All ? 0 : unsigned(pointers.size());
    if (mayCopyAhead && kernel.storesBoxes) {
      kernel.vectors = vectors;
      kernel.hasResidual = residual.has_value();
      while (kernel.sharedBytes() > kMostSharedBytes && shape.stages > kLeastStages)
        --shape.stages;
      if (kernel.sharedBytes() > kMostSharedBytes) {
        kernel.hasResidual = false;
        shape.stages = candidate.tile->shape.stages;
      }
    }
    if (mayCopyAhead && step.variants.empty())
      copiesAhead = kernel.copiesAhead();
    if (!mayCopyAhead && !copiesAhead)
      continue; // it is there already
    const TileSplit split = candidate.split.value_or(TileSplit{0, 0});
    const std::string name = shape.name() + (candidate.split ? split.name() : "") + (mayCopyAhead ? "" : " direct");
    const Place slots = candidate.split ? slotsFor(slotBuffer, split, candidate.size) : to;
    kernel.epilogue = epilogue;
    llvm::Expected<uint32_t> number = addKernel([&](llvm::Module &module) { emitTileKernel(module, kernel); });
    if (!number)
      return number.takeError();

    TensorMap mapA, mapB, mapOut;
    mapA.element = mapB.element = contraction.element;
    mapA.place = placeA;
    if (window) {
      const uint64_t c = uint64_t(window->channels), w = uint64_t(window->width), h = uint64_t(window->height);
      mapA.dims = {c, w, h, uint64_t(window->images)};
      mapA.strides = {c * size, w * c * size, h * w * c * size};
      mapA.elementStrides = {1, uint32_t(window->strideWidth), uint32_t(window->strideHeight), 1};
      // The box of a window's first tap, over all outputs: from -pad, by how far the last first tap lies before the image's end.
      mapA.lower = {int32_t(-window->padLeft), int32_t(-window->padTop)};
      mapA.upper = {int32_t((window->outWidth - 1) * window->strideWidth - window->padLeft - (window->width - 1)),
                    int32_t((window->outHeight - 1) * window->strideHeight - window->padTop - (window->height - 1))};
      mapA.channels = uint32_t(depth);
      mapA.pixels = shape.rows;
    } else {
      mapA.dims = {uint64_t(contraction.depth), uint64_t(rows)};
      mapA.strides = {uint64_t(contraction.depth) * size};
      mapA.box = {uint32_t(depth), shape.rows};
      mapA.elementStrides = {1, 1};
    }
    mapB.place = placeB;
    mapB.elementStrides = {1, 1};
    if (columnsInner) {
      mapB.dims = {uint64_t(columns), uint64_t(depthB)};
      mapB.strides = {uint64_t(columns) * size};
      mapB.box = {64, uint32_t(depth)};
    } else {
      mapB.dims = {uint64_t(depthB), uint64_t(columns)};
      mapB.strides = {uint64_t(depthB) * size};
      mapB.box = {uint32_t(depth), shape.columns};
    }
    mapOut = mapB; // without boxes, nothing reads it
    if (kernel.storesBoxes) {
      mapOut.element = out;
      mapOut.place = to;
      mapOut.dims = {uint64_t(columns), uint64_t(rows)};
      mapOut.strides = {uint64_t(columns) * gpu::bytesOf(out)};
      mapOut.box = {64, 64};
      mapOut.swizzleBytes = 64 * gpu::bytesOf(out);
    }
    Launch launch;
    launch.kernel = *number;
    if (kernel.isBatched) {
      auto addBatch = [&](TensorMap &map, std::optional<StridedMatrices> matrices) {
        if (!matrices)
          matrices.emplace(StridedMatrices{
              int64_t(map.dims[0]), int64_t(map.dims[1]), int64_t(map.strides[0] / gpu::bytesOf(map.element)), {}});
        if (matrices->batch.empty())
          matrices->batch = {{contraction.batches, matrices->rows * matrices->rowStride}};
        [[maybe_unused]] const bool splits = splitBatch(*matrices, contraction.batches / heads, heads);
        assert(splits && "operands whose batches cannot be split are copied");
        map.strides[0] = uint64_t(matrices->rowStride) * gpu::bytesOf(map.element);
        for (unsigned i = splitsBatch ? 2 : 1; i-- > 0;) {
          const Run &run = matrices->batch[splitsBatch ? i : 1];
          map.strides.push_back(uint64_t(run.stride) * gpu::bytesOf(map.element));
          map.dims.push_back(uint64_t(run.size));
          map.box.push_back(1);
          map.elementStrides.push_back(1);
        }
      };
      addBatch(mapA, matricesA);
      addBatch(mapB, matricesB);
      addBatch(mapOut, matricesOut);
    } else {
      if (matricesOut)
        mapOut.strides = {uint64_t(matricesOut->rowStride) * gpu::bytesOf(out)};
      if (matricesA)
        mapA.strides = {uint64_t(matricesA->rowStride) * size};
      if (matricesB)
        mapB.strides = {uint64_t(matricesB->rowStride) * size};
    }
    const uint32_t tiles = uint32_t(candidate.tiles);
    launch.grid = candidate.split    ? split.blocks
                  : shape.splitK > 1 ? tiles * shape.splitK
                                     : std::min(tiles, options.multiprocessors);
    launch.block = shape.threads();
    launch.cluster = shape.splitK;
    launch.sharedBytes = kernel.sharedBytes();
    launch.overlaps = kernel.overlapsGrids;
    auto number32 = [](int64_t value) { return Argument(uint32_t(value)); };
    launch.arguments = {addMap(mapA),   addMap(mapB),      addMap(mapOut),  number32(contraction.batches),
                        number32(rows), number32(columns), number32(stages)};
    const Contraction::Window none{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}, &w = window ? *window : none;
    for (int64_t value : {w.outHeight, w.outWidth, w.strideHeight, w.strideWidth, w.padTop, w.padLeft, w.dilationHeight,
                          w.dilationWidth, w.filterWidth, window ? paddedInner / depth : 1, heads})
      launch.arguments.push_back(number32(value));
    launch.arguments.insert(launch.arguments.end(), {split.tiles, to, slots});
    if (kernel.pointers)
      launch.arguments.insert(launch.arguments.end(), pointers.begin(), pointers.end());
    if (kernel.hasResidual) {
      TensorMap map = mapOut;
      map.place = placeInFunction(leaves[*residual]);
      launch.arguments.push_back(addMap(std::move(map)));
    }
    step.variants.push_back({name, candidate.microseconds, {std::move(launch)}});
    if (!candidate.split)
      continue;
    const StridedMatrices results = strided(matricesOut, rows, columns);
    kernel.pointers = unsigned(pointers.size());
    llvm::Expected<Launch> sum = sumLaunch(kernel, candidate.size, columns % 4 == 0 ? 4 : 2, slots, to,
                                           {uint32_t(contraction.batches), uint32_t(rows), uint32_t(columns), stages,
                                            split.tiles, split.blocks, uint32_t(results.rowStride), uint32_t(heads),
                                            uint32_t(results.batch[1].stride), uint32_t(results.batch[0].stride)},
                                           pointers);
    if (!sum)
      return sum.takeError();
    step.variants.back().launches.push_back(std::move(*sum));
  }
  use(placeA);
  use(to);
  for (mlir::Value leaf : leaves)
    use(placeInFunction(leaf));
  addStep(std::move(step));
  return true;
}

/// Steps from here on are of this function.
void GpuCompiler::describe(func::FuncOp function) {
  functionName = function.getName().str();
  nodes.clear();
  if (auto names = function->getAttrOfType<mlir::ArrayAttr>("tilewright.nodes"))
    for (auto name : names.getAsRange<mlir::StringAttr>())
      nodes.push_back(name.getValue().str());
}

/// The places or views of its arguments are known.
llvm::Error GpuCompiler::compileKernel(func::FuncOp function, Place output) {
  describe(function);
  mlir::Operation *terminator = function.getBody().front().getTerminator();
  if (terminator->getNumOperands() != 1)
    return llvm::createStringError("kernel '%s' has %u results but must have one", functionName.c_str(),
                                   terminator->getNumOperands());
  if (llvm::Error error = compileRoot(terminator->getOperand(0), output))
    return llvm::createStringError("kernel '%s': %s", functionName.c_str(), llvm::toString(std::move(error)).c_str());
  return llvm::Error::success();
}

Place GpuCompiler::placeOf(mlir::Value value) {
  if (auto place = mainPlaces.find(value); place != mainPlaces.end())
    return place->second;
  mlir::Operation *op = value.getDefiningOp();
  if (auto constant = llvm::dyn_cast<mlir::arith::ConstantOp>(op)) {
    auto [place, isNew] = constantPlaces.try_emplace(constant.getValue());
    if (isNew)
      place->second = constantFor(bytesOfConstant(value));
    return mainPlaces[value] = place->second;
  }
  return mainPlaces[value] = placeOf(op->getOperand(0)); // a reshape
}

GpuCompiler::MainView GpuCompiler::viewInMain(mlir::Value value) {
  const MainView dense{value, View::dense(tensorOf(value).getShape()), {}};
  mlir::Operation *op = value.getDefiningOp();
  if (!op || mainPlaces.contains(value))
    return dense;
  if (viewed.contains(op)) {
    auto function = module.lookupSymbol<func::FuncOp>(llvm::cast<func::CallOp>(op).getCallee());
    MainView source = viewInMain(op->getOperand(0));
    std::optional<View> view = viewOfResult(function, source.view);
    if (!view) { // it is one of the operand as it is
      source = {op->getOperand(0), View::dense(tensorOf(op->getOperand(0)).getShape()), {}};
      view = viewOfResult(function, source.view);
    }
    source.transposes.push_back(function.getName().str());
    return {source.base, *view, std::move(source.transposes)};
  }
  if (!llvm::isa<mlir::tensor::ExpandShapeOp, mlir::tensor::CollapseShapeOp>(op))
    return dense;
  MainView source = viewInMain(op->getOperand(0));
  std::optional<View> view = source.view.reshaped(tensorOf(value).getShape());
  return view ? MainView{source.base, *view, std::move(source.transposes)} : dense;
}

llvm::Error GpuCompiler::copyViews(mlir::Value value) {
  mlir::Operation *op = value.getDefiningOp();
  if (!op || mainPlaces.contains(value))
    return llvm::Error::success();
  if (llvm::isa<mlir::tensor::ExpandShapeOp, mlir::tensor::CollapseShapeOp>(op))
    return copyViews(op->getOperand(0));
  if (!viewed.contains(op))
    return llvm::Error::success();
  llvm::Expected<Place> place = compileCall(llvm::cast<func::CallOp>(op));
  if (!place)
    return place.takeError();
  mainPlaces[value] = *place;
  return llvm::Error::success();
}

std::optional<StridedMatrices> GpuCompiler::matricesFor(const Contraction &contraction, unsigned operand, const View &view,
                                                        llvm::ArrayRef<unsigned> rows, llvm::ArrayRef<unsigned> columns) {
  linalg::LinalgOp op = contraction.op;
  mlir::AffineMap map = op.getMatchingIndexingMap(op.getDpsInputOperand(operand));
  auto dimsOf = [&](llvm::ArrayRef<unsigned> loops) {
    llvm::SmallVector<unsigned> dims;
    for (unsigned loop : loops)
      for (unsigned i = 0; i < map.getNumResults(); ++i)
        if (map.getResult(i) == mlir::getAffineDimExpr(loop, map.getContext()))
          dims.push_back(i);
    return dims;
  };
  std::optional<StridedMatrices> matrices = matricesOf(view, dimsOf(contraction.batchDims), dimsOf(rows), dimsOf(columns));
  if (!matrices || matrices->batch.size() > 2)
    return std::nullopt;
  // What copies need.
  const int64_t size = gpu::bytesOf(contraction.element);
  bool fits = matrices->rowStride * size % 16 == 0;
  for (const Run &run : matrices->batch)
    fits &= run.stride * size % 16 == 0;
  return fits ? matrices : std::nullopt;
}

/// What compileContraction() asks for, so that no copy of an operand or of the result is needed after all.
std::optional<Contraction> GpuCompiler::boxedProduct(func::FuncOp function) {
  const mlir::Value root = function.getBody().front().getTerminator()->getOperand(0);
  linalg::LinalgOp op = reductionBehind(root);
  Match match = op ? matchContraction(op) : Match{};
  if (!match.contraction)
    return std::nullopt;
  const Contraction &contraction = *match.contraction;
  const std::optional<Element> out = elementOf(tensorOf(root).getElementType());
  const int64_t size = gpu::bytesOf(contraction.element);
  const bool does = !contraction.window && size == 2 && contraction.columns % 2 == 0 &&
                    (out == Element::F32 || out == Element::Bf16 || out == Element::F16) && contraction.depthDims.size() == 1 &&
                    contraction.depth * size % 16 == 0 &&
                    contraction.batches * contraction.rows * contraction.columns <= INT32_MAX;
  return does ? match.contraction : std::nullopt;
}

std::optional<StridedMatrices> GpuCompiler::matricesForResult(const Contraction &contraction, mlir::RankedTensorType type,
                                                              const View &view) {
  const Element element = *elementOf(type.getElementType());
  const int64_t size = gpu::bytesOf(element);
  if ((element != Element::Bf16 && element != Element::F16) || contraction.columns * size % 16)
    return std::nullopt;
  const unsigned outer = unsigned(contraction.batchDims.size()), rank = unsigned(type.getRank());
  std::optional<StridedMatrices> matrices =
      matricesOf(view, llvm::to_vector(llvm::seq(0u, outer)), llvm::to_vector(llvm::seq(outer, rank - 1)), {rank - 1});
  if (!matrices || matrices->batch.size() > 2 || matrices->columns != contraction.columns)
    return std::nullopt;
  bool fits = matrices->rowStride * size % 16 == 0;
  for (const Run &run : matrices->batch)
    fits &= run.stride * size % 16 == 0;
  return fits ? matrices : std::nullopt;
}

std::optional<GpuCompiler::MainView> GpuCompiler::viewForProduct(func::FuncOp function, unsigned argument, mlir::Value operand,
                                                                 int64_t &heads) {
  MainView view = viewInMain(operand);
  const mlir::BlockArgument inner = function.getArgument(argument);
  if (view.transposes.empty() || !inner.hasOneUse())
    return std::nullopt;
  const std::optional<Contraction> product = boxedProduct(function);
  if (!product || (product->a != inner && product->b != inner))
    return std::nullopt;
  const Contraction &contraction = *product;
  std::optional<StridedMatrices> matrices;
  if (contraction.a == inner) {
    matrices = matricesFor(contraction, 0, view.view, contraction.rowDims, contraction.depthDims);
  } else {
    matrices = matricesFor(contraction, 1, view.view, {contraction.columnDim}, contraction.depthDims);
    if (!matrices)
      matrices = matricesFor(contraction, 1, view.view, contraction.depthDims, {contraction.columnDim});
  }
  if (!matrices)
    return std::nullopt;
  if (matrices->batch.size() == 2) {
    const int64_t inner = matrices->batch[1].size;
    if (heads && heads != inner)
      return std::nullopt;
    heads = inner;
  }
  return view;
}

llvm::Expected<Place> GpuCompiler::compileCall(func::CallOp call, std::optional<Place> output, std::optional<MainView> behind) {
  auto function = module.lookupSymbol<func::FuncOp>(call.getCallee());
  llvm::SmallVector<std::optional<MainView>> taken;
  int64_t heads = 0;
  if (behind)
    if (const std::optional<StridedMatrices> result =
            matricesForResult(*boxedProduct(function), tensorOf(call.getResult(0)), behind->view);
        result->batch.size() == 2)
      heads = result->batch[1].size;
  for (auto [i, operand] : llvm::enumerate(call.getOperands())) {
    taken.push_back(viewForProduct(function, unsigned(i), operand, heads));
    if (llvm::Error error = copyViews(taken[i] ? taken[i]->base : operand))
      return std::move(error);
  }
  if (!output)
    output = bufferFor(bytesOf(tensorOf(call.getResult(0))));
  places.clear();
  inMemory.clear();
  for (auto [argument, operand, view] : llvm::zip(function.getArguments(), call.getOperands(), taken)) {
    inMemory.insert(argument);
    if (!view) {
      places[argument] = placeOf(operand);
      continue;
    }
    noteTransposes(view->transposes);
    views.try_emplace(argument, std::move(*view));
  }
  if (behind)
    noteTransposes(behind->transposes);
  viewOfProduct = std::move(behind);
  if (const std::string &why = whyNoAttention[call]; !why.empty())
    note += "; attention of several kernels: " + why;
  llvm::Error error = compileKernel(function, *output);
  views.clear();
  viewOfProduct.reset();
  note.clear();
  if (error)
    return std::move(error);
  return *output;
}

void GpuCompiler::noteTransposes(llvm::ArrayRef<std::string> transposes) {
  for (const std::string &name : transposes)
    note += (llvm::StringRef(note).contains(kByStrides) ? ", " : kByStrides) + name;
}

std::optional<GpuCompiler::MainView> GpuCompiler::transposeBehind(func::CallOp call) {
  const llvm::ArrayRef<int64_t> shape = tensorOf(call.getResult(0)).getShape();
  mlir::Value value = call.getResult(0);
  View view = View::dense(shape);
  while (value.hasOneUse()) {
    mlir::Operation *op = *value.user_begin();
    std::optional<View> next;
    if (llvm::isa<mlir::tensor::ExpandShapeOp, mlir::tensor::CollapseShapeOp>(op)) {
      next = view.reshaped(tensorOf(op->getResult(0)).getShape());
    } else if (auto transpose = llvm::dyn_cast<func::CallOp>(op); transpose && transpose.getNumResults() == 1) {
      auto function = module.lookupSymbol<func::FuncOp>(transpose.getCallee());
      next = function ? viewOfResult(function, view) : std::nullopt;
      std::optional<View> inverse = next ? next->inverse(shape) : std::nullopt;
      return inverse ? std::optional(MainView{op->getResult(0), *inverse, {transpose.getCallee().str()}}) : std::nullopt;
    }
    if (!next)
      break;
    view = *next;
    value = op->getResult(0);
  }
  return std::nullopt;
}

llvm::Error GpuCompiler::addKernelsAsVariant(llvm::ArrayRef<func::CallOp> calls, Place to, Step &step) {
  const size_t first = program.steps.size();
  const llvm::DenseMap<mlir::Value, Place> known = mainPlaces;
  for (func::CallOp call : calls) {
    const bool isLast = call == calls.back();
    llvm::Expected<Place> place = compileCall(call, isLast ? std::optional(to) : std::nullopt);
    if (!place)
      return place.takeError();
    mainPlaces[call.getResult(0)] = *place;
  }
  Variant variant;
  variant.name = std::to_string(program.steps.size() - first) + " kernels";
  for (size_t i = first; i < program.steps.size(); ++i) {
    Variant &best = program.steps[i].variants.front();
    variant.microseconds += best.microseconds;
    variant.launches.insert(variant.launches.end(), best.launches.begin(), best.launches.end());
  }
  step.variants.push_back(std::move(variant));
  // What they have made is there only with this variant, and all of it at once.
  program.steps.resize(first);
  mainPlaces = known;
  for (cpu::PlannedBuffer &buffer : buffers) {
    buffer.firstStep = std::min(buffer.firstStep, int64_t(first));
    buffer.lastStep = std::min(buffer.lastStep, int64_t(first));
  }
  return llvm::Error::success();
}

llvm::Expected<bool> GpuCompiler::compileAttention(const AttentionMatch &match) {
  func::CallOp call = match.calls.back();
  const Contraction &scores = match.scores, &context = match.context;
  const int64_t batches = scores.batches, rows = scores.rows, keys = scores.columns;
  auto dontFuse = [&](const char *why) {
    whyNoAttention[call] = why;
    return false;
  };
  // Operands as matrices of the columns of heads: as they lie, or as copies.
  struct Operand {
    mlir::Value value;
    const Contraction &contraction;
    unsigned number;
    llvm::SmallVector<unsigned> rows, columns; ///< loop dims
    std::optional<StridedMatrices> matrices;
    MainView view;
  };
  Operand operands[] = {{match.queries, scores, 0, scores.rowDims, scores.depthDims, {}, {}},
                        {match.keys, scores, 1, {scores.columnDim}, scores.depthDims, {}, {}},
                        {match.values, context, 1, context.depthDims, {context.columnDim}, {}, {}}};
  for (Operand &operand : operands)
    if (!matricesFor(operand.contraction, operand.number, View::dense(tensorOf(operand.value).getShape()), operand.rows,
                     operand.columns) &&
        !matricesFor(operand.contraction, operand.number, viewInMain(operand.value).view, operand.rows, operand.columns))
      return dontFuse("the columns of its heads do not lie side by side");
  std::optional<MainView> behind = transposeBehind(call);
  const mlir::RankedTensorType type = tensorOf(call.getResult(0));
  std::optional<StridedMatrices> result;
  if (behind && !(result = matricesForResult(context, type, behind->view)))
    behind.reset();
  if (!behind)
    result = matricesForResult(context, type, View::dense(type.getShape()));
  int64_t heads = result->batch.size() == 2 ? result->batch[1].size : 0;
  for (Operand &operand : operands) {
    operand.view = viewInMain(operand.value);
    operand.matrices = matricesFor(operand.contraction, operand.number, operand.view.view, operand.rows, operand.columns);
    if (operand.matrices && operand.matrices->batch.size() == 2) {
      const int64_t inner = operand.matrices->batch[1].size;
      if (heads && heads != inner)
        operand.matrices.reset();
      else
        heads = inner;
    }
    if (!operand.matrices) {
      if (llvm::Error error = copyViews(operand.value))
        return std::move(error);
      operand.view = viewInMain(operand.value);
      operand.matrices = matricesFor(operand.contraction, operand.number, operand.view.view, operand.rows, operand.columns);
    } else if (llvm::Error error = copyViews(operand.view.base)) {
      return std::move(error);
    }
  }
  heads = heads ? heads : batches;
  if (!splitBatch(*result, batches / heads, heads))
    return dontFuse("its heads lie in another order than the result's");
  for (Operand &operand : operands)
    if (!operand.matrices || !splitBatch(*operand.matrices, batches / heads, heads))
      return dontFuse("its heads lie in another order than the result's");

  // Tensors that the scores are changed with.
  llvm::SetVector<mlir::Value> leaves;
  inMemory.clear();
  places.clear();
  for (size_t i = 0; i < match.steps.size() && !match.scale; ++i) {
    func::CallOp part = match.calls[i];
    const AttentionMatch::Step &step = match.steps[i];
    auto function = module.lookupSymbol<func::FuncOp>(part.getCallee());
    llvm::DenseSet<mlir::Value> known(function.getArguments().begin(), function.getArguments().end());
    known.insert(step.source);
    llvm::SetVector<mlir::Value> read;
    if (llvm::Error error = findLeaves(step.result, known, read))
      return std::move(error);
    read.remove(step.source);
    for (mlir::Value leaf : read) {
      leaves.insert(leaf);
      if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(leaf))
        if (llvm::Error error = copyViews(part.getOperand(argument.getArgNumber())))
          return std::move(error);
    }
  }
  auto setPlaces = [&] {
    for (func::CallOp part : match.calls) {
      auto function = module.lookupSymbol<func::FuncOp>(part.getCallee());
      for (auto [argument, operand] : llvm::zip(function.getArguments(), part.getOperands()))
        if (leaves.contains(argument))
          places[argument] = placeOf(operand);
    }
  };

  const Place to = bufferFor(bytesOf(tensorOf(call.getResult(0))));
  mainPlaces[behind ? behind->base : mlir::Value(call.getResult(0))] = to;
  auto scoreFunction = [&](llvm::IRBuilder<> &b, Value *score, Value *batch, Value *row, Value *key,
                           llvm::Function *function) -> Value * {
    Elements elements(b);
    for (auto [pointer, leaf] : llvm::enumerate(leaves))
      elements.setPointer(leaf, function->getArg(unsigned(function->arg_size() - leaves.size() + pointer)));
    Value *value = score;
    for (const AttentionMatch::Step &step : match.steps) {
      llvm::Type *type = scalarType(b, tensorOf(step.source).getElementType());
      Value *source = value->getType() == type ? value : b.CreateFPTrunc(value, type);
      elements.setSource(step.source, [source](const ElementIndex &) { return source; });
      // Its last dims are those of the scores, or all are counted through.
      const llvm::ArrayRef<int64_t> shape = tensorOf(step.result).getShape();
      Value *line = b.CreateAdd(b.CreateMul(batch, b.getInt32(uint32_t(rows))), row);
      ElementIndex index;
      if (shape.size() >= 2 && shape[shape.size() - 2] == rows && shape.back() == keys) {
        index = delinearised(b, batch, shape.drop_back(2));
        index.dims.append({row, key});
      } else {
        index = delinearised(b, line, shape.drop_back());
        index.dims.push_back(key);
      }
      index.linear = b.CreateAdd(b.CreateMul(line, b.getInt32(uint32_t(keys))), key);
      value = elements.at(step.result, index);
    }
    // Rounded for the softmax only where there is no kernel of its own.
    if (auto *rounded = llvm::dyn_cast<llvm::FPTruncInst>(value); rounded && rounded->getOperand(0)->getType()->isFloatTy())
      return rounded->getOperand(0);
    return value->getType()->isFloatTy() ? value : b.CreateFPExt(value, b.getFloatTy());
  };

  auto addMap = [&](const StridedMatrices &matrices, Place place, unsigned boxRows) {
    const uint64_t size = gpu::bytesOf(Element::Bf16);
    TensorMap map;
    map.element = scores.element;
    map.place = place;
    const Run &outerRun = matrices.batch[0], &innerRun = matrices.batch[1];
    map.dims = {uint64_t(matrices.columns), uint64_t(matrices.rows), uint64_t(innerRun.size), uint64_t(outerRun.size)};
    map.strides = {uint64_t(matrices.rowStride) * size, uint64_t(innerRun.stride) * size, uint64_t(outerRun.stride) * size};
    map.box = {64, boxRows, 1, 1};
    map.elementStrides = {1, 1, 1, 1};
    program.maps.push_back(std::move(map));
    return MapIndex{uint32_t(program.maps.size() - 1)};
  };
  const double bytes =
      double(batches) * double(context.columns) * 2 * double(2 * rows + 2 * keys) + double(bytesOf(leaves.getArrayRef()));
  Step step;
  step.kind = "attention";
  step.why = "the scores stay in registers";
  struct Candidate {
    const AttentionShape *shape;
    double microseconds;
  };
  std::vector<Candidate> candidates;
  for (const AttentionShape &shape : isHopper() ? llvm::ArrayRef(kAttentionShapes) : llvm::ArrayRef(kMmaAttentionShapes)) {
    const double blocks = double(batches) * double(llvm::divideCeil(rows, int64_t(shape.rows)));
    const double area = double(shape.rows) * shape.keys;
    // The products of a tile at the tensor cores' peak, and its exponentials.
    const double tile = area * 2 * double(context.columns) / device.productsPerCycle +
                        area / kExponentialsPerCycle * (shape.consumers() > 1 ? 1 - kHiddenExponentials : 1);
    const double cycles =
        std::ceil(blocks / options.multiprocessors) * double(llvm::divideCeil(keys, int64_t(shape.keys))) * tile;
    candidates.push_back(
        {&shape, kLaunchMicroseconds + std::max(cycles / (device.clockGigahertz * 1e3), bytes / device.memoryGigabytes / 1e3)});
  }
  llvm::stable_sort(candidates, [](const Candidate &a, const Candidate &b) { return a.microseconds < b.microseconds; });
  const bool hasKernels = options.mostVariants > 1 && 2 * uint64_t(batches * rows * keys) * 2 <= kMostScoreBytes;
  const size_t most = std::max<size_t>(options.mostVariants - (hasKernels ? 1 : 0), 1);
  if (candidates.size() > most)
    candidates.resize(most);
  setPlaces();
  for (const Candidate &candidate : candidates) {
    AttentionKernel kernel;
    kernel.name = "kernel";
    kernel.shape = *candidate.shape;
    kernel.element = scores.element;
    kernel.headSize = unsigned(context.columns);
    kernel.hasTail = keys % int64_t(kernel.shape.keys) != 0;
    kernel.overlapsGrids = isHopper() && candidate.microseconds < kShortMicroseconds;
    kernel.scale = match.scale.value_or(1);
    kernel.pointers = unsigned(leaves.size());
    if (!match.scale)
      kernel.function = scoreFunction;
    llvm::Expected<uint32_t> number =
        addKernel([&](llvm::Module &module) { isHopper() ? emitAttention(module, kernel) : emitMmaAttention(module, kernel); });
    if (!number)
      return number.takeError();
    Launch launch;
    launch.kernel = *number;
    launch.grid = uint32_t(batches * int64_t(llvm::divideCeil(rows, int64_t(kernel.shape.rows))));
    launch.overlaps = kernel.overlapsGrids;
    const StridedMatrices *matrices[] = {&*operands[0].matrices, &*operands[1].matrices, &*operands[2].matrices, &*result};
    if (isHopper()) {
      launch.block = kernel.shape.threads();
      launch.sharedBytes = kernel.sharedBytes();
      launch.arguments = {addMap(*operands[0].matrices, placeOf(operands[0].view.base), kernel.shape.rows),
                          addMap(*operands[1].matrices, placeOf(operands[1].view.base), kernel.shape.keys),
                          addMap(*operands[2].matrices, placeOf(operands[2].view.base), kernel.shape.keys),
                          addMap(*result, to, 64),
                          uint32_t(heads),
                          uint32_t(rows),
                          uint32_t(keys)};
    } else {
      launch.block = mmaAttentionThreads(kernel.shape);
      launch.sharedBytes = mmaAttentionSharedBytes(kernel);
      for (const Operand &operand : operands)
        launch.arguments.push_back(placeOf(operand.view.base));
      launch.arguments.insert(launch.arguments.end(), {to, uint32_t(heads), uint32_t(rows), uint32_t(keys)});
      auto addUnits = [&](int64_t stride) { launch.arguments.push_back(uint32_t(stride * gpu::bytesOf(scores.element) / 16)); };
      for (const StridedMatrices *each : matrices)
        addUnits(each->rowStride);
      for (unsigned dim : {1, 0})
        for (const StridedMatrices *each : matrices)
          addUnits(each->batch[dim].stride);
    }
    for (mlir::Value leaf : leaves)
      launch.arguments.push_back(placeInFunction(leaf));
    step.variants.push_back({kernel.shape.name(), candidate.microseconds, {std::move(launch)}});
  }
  if (hasKernels) {
    llvm::SmallVector<func::CallOp> calls(match.calls);
    if (behind)
      calls.push_back(behind->base.getDefiningOp<func::CallOp>());
    if (llvm::Error error = addKernelsAsVariant(calls, to, step))
      return std::move(error);
    llvm::stable_sort(step.variants, [](const Variant &a, const Variant &b) { return a.microseconds < b.microseconds; });
  }
  places.clear();
  setPlaces();
  use(to);
  for (mlir::Value leaf : leaves)
    use(placeInFunction(leaf));
  for (const Operand &operand : operands) {
    use(placeOf(operand.view.base));
    noteTransposes(operand.view.transposes);
  }
  if (behind)
    noteTransposes(behind->transposes);
  std::vector<std::string> allNodes;
  for (func::CallOp part : match.calls) {
    describe(module.lookupSymbol<func::FuncOp>(part.getCallee()));
    allNodes.insert(allNodes.end(), nodes.begin(), nodes.end());
  }
  nodes = std::move(allNodes);
  addStep(std::move(step));
  note.clear();
  return true;
}

llvm::Error GpuCompiler::compileMain(func::FuncOp main) {
  auto describe = [&](mlir::Value value, Place place) -> llvm::Expected<Tensor> {
    auto type = llvm::dyn_cast<mlir::RankedTensorType>(value.getType());
    std::optional<Element> element = type && type.hasStaticShape() ? elementOf(type.getElementType()) : std::nullopt;
    if (!element || type.getNumElements() > INT32_MAX) {
      std::string text;
      llvm::raw_string_ostream(text) << value.getType();
      return llvm::createStringError(
          "@main has a tensor %s, but the GPU has tensors of fixed shape and fewer than 2^31 elements", text.c_str());
    }
    return Tensor{"", *element, {type.getShape().begin(), type.getShape().end()}, place};
  };
  for (mlir::BlockArgument argument : main.getArguments()) {
    llvm::Expected<Tensor> tensor = describe(argument, {});
    if (!tensor)
      return tensor.takeError();
    tensor->place = mainPlaces[argument] = bufferFor(bytesOf(tensorOf(argument)));
    program.inputs.push_back(std::move(*tensor));
  }
  mlir::Block &block = main.getBody().front();
  llvm::DenseMap<mlir::Operation *, AttentionMatch> attentions;
  for (auto call : block.getOps<func::CallOp>())
    if (AttentionOrNot found = matchAttention(call, module); found.match) {
      for (func::CallOp part : llvm::ArrayRef(found.match->calls).drop_back())
        absorbed.insert(part);
      attentions.try_emplace(call, std::move(*found.match));
    } else {
      whyNoAttention[call] = found.why;
    }
  for (mlir::Operation &op : block.without_terminator()) {
    auto call = llvm::dyn_cast<func::CallOp>(op);
    if (!call) {
      if (!llvm::isa<mlir::tensor::ExpandShapeOp, mlir::tensor::CollapseShapeOp, mlir::arith::ConstantOp>(op))
        return llvm::createStringError("@main holds '%s' but may hold calls, reshapes and constants",
                                       op.getName().getStringRef().str().c_str());
      continue;
    }
    auto function = module.lookupSymbol<func::FuncOp>(call.getCallee());
    if (!function || function.isExternal() || call.getNumResults() != 1)
      return llvm::createStringError("@main calls @%s, which is no kernel with one result", call.getCallee().str().c_str());
    if (absorbed.contains(call) || mainPlaces.contains(call.getResult(0)))
      continue;
    if (call.getNumOperands() == 1 && viewOfResult(function, View::dense(tensorOf(call.getOperand(0)).getShape()))) {
      viewed.insert(call);
      continue;
    }
    if (auto attention = attentions.find(call); attention != attentions.end()) {
      llvm::Expected<bool> done = compileAttention(attention->second);
      if (!done)
        return done.takeError();
      if (*done)
        continue;
      for (func::CallOp part : llvm::ArrayRef(attention->second.calls).drop_back()) {
        llvm::Expected<Place> place = compileCall(part);
        if (!place)
          return place.takeError();
        mainPlaces[part.getResult(0)] = *place;
      }
    }
    std::optional<MainView> behind = transposeBehind(call);
    if (behind) {
      const std::optional<Contraction> product = boxedProduct(function);
      if (!product || !matricesForResult(*product, tensorOf(call.getResult(0)), behind->view))
        behind.reset();
    }
    llvm::Expected<Place> place = compileCall(call, std::nullopt, behind);
    if (!place)
      return place.takeError();
    mainPlaces[behind ? behind->base : mlir::Value(call.getResult(0))] = *place;
  }
  llvm::DenseSet<uint64_t> returned;
  for (mlir::Value value : block.getTerminator()->getOperands()) {
    if (llvm::Error error = copyViews(value))
      return error;
    Place place = placeOf(value);
    const bool isInput = llvm::any_of(program.inputs, [&](const Tensor &input) { return input.place.offset == place.offset; });
    if (place.isConstant || isInput || !returned.insert(place.offset).second) { // a tensor of its own
      Place copy = bufferFor(bytesOf(tensorOf(value)));
      functionName = "copy";
      nodes.clear();
      places = {{value, place}};
      inMemory = {value};
      if (llvm::Error error = compileElements(value, copy, "a result of its own"))
        return error;
      place = copy;
    }
    llvm::Expected<Tensor> tensor = describe(value, place);
    if (!tensor)
      return tensor.takeError();
    program.outputs.push_back(std::move(*tensor));
  }
  return llvm::Error::success();
}

llvm::Expected<Program> GpuCompiler::run() {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal())
    return llvm::createStringError("the module has no function @main");
  if (llvm::Error error = compileMain(main))
    return std::move(error);
  const int64_t last = int64_t(program.steps.size());
  for (Tensor &input : program.inputs)
    buffers[input.place.offset].firstStep = 0;
  // Inputs and outputs stay as they are, so that a network can run again, and its results be read.
  for (Tensor &input : program.inputs)
    buffers[input.place.offset].lastStep = last;
  for (Tensor &output : program.outputs)
    buffers[output.place.offset].lastStep = last;
  program.arenaBytes = uint64_t(cpu::planMemory(buffers));
  auto settle = [&](Place &place) {
    if (!place.isConstant)
      place.offset = uint64_t(buffers[place.offset].offset);
  };
  for (std::vector<Tensor> *tensors : {&program.inputs, &program.outputs})
    for (Tensor &tensor : *tensors)
      settle(tensor.place);
  for (TensorMap &map : program.maps)
    settle(map.place);
  for (Step &step : program.steps)
    for (Variant &variant : step.variants)
      for (Launch &launch : variant.launches)
        for (Argument &argument : launch.arguments)
          if (auto *place = std::get_if<Place>(&argument))
            settle(*place);
  program.constants.resize(aligned(program.constants.size() + 512));
  return std::move(program);
}

} // namespace

llvm::Expected<Program> gpu::compileForGpu(mlir::ModuleOp module, const GpuOptions &options) {
  return GpuCompiler(module, options).run();
}
