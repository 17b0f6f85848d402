//===- MovePools.cpp - Pools where they cost least ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/cost/Constants.h"
#include "compiler/cost/Contraction.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "isa/timing/InstructionTiming.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tw::graph {

#define GEN_PASS_DEF_MOVEPOOLSPASS
#include "compiler/graph/transforms/Passes.h.inc"

namespace {

/// A copy of `op` that reads `to` in place of `from` and gives a tensor of `shape`.
Value cloneOn(OpBuilder &builder, Operation *op, Value from, Value to, ArrayRef<int64_t> shape) {
  IRMapping mapping;
  mapping.map(from, to);
  Operation *copy = builder.clone(*op, mapping);
  copy->getResult(0).setType(RankedTensorType::get(shape, elementOf(op->getResult(0))));
  return copy->getResult(0);
}

/// A window sees one channel: that of a concatenation of channels is a concatenation of windows.
void splitPool(Operation *pool, int64_t columns, SmallVectorImpl<MaxPoolOp> &parts, const RuleRecorder &recorder) {
  auto concat = pool->getOperand(0).getDefiningOp<ConcatOp>();
  if (!concat || !concat->hasOneUse() || concat.getAxis() != 3)
    return;
  for (Value input : concat.getInputs())
    if (!input.getDefiningOp() || !input.hasOneUse() ||
        (input != concat.getInputs().back() && shapeOf(input)[concat.getAxis()] % columns))
      return;
  recorder.add("pool-of-concat", nodeNames(pool->getLoc()));
  OpBuilder builder(pool);
  SmallVector<Value> pooled;
  for (Value input : concat.getInputs()) {
    SmallVector<int64_t> shape(shapeOf(pool->getResult(0)));
    shape[concat.getAxis()] = shapeOf(input)[concat.getAxis()];
    pooled.push_back(cloneOn(builder, pool, concat, input, shape));
    if (auto part = pooled.back().getDefiningOp<MaxPoolOp>())
      parts.push_back(part);
  }
  auto joined = builder.create<ConcatOp>(concat.getLoc(), pool->getResult(0).getType(), pooled, concat.getAxis());
  pool->getResult(0).replaceAllUsesWith(joined);
  pool->erase();
  concat->erase();
}

/// The operand of which `op` is a function, element by element, that never falls where that rises; null if it is not known to be one.
/// The largest result is that of the largest operand then, to the last bit, as rounding never falls either. `most`: of an integer.
Value risesWith(Operation *op, double most) {
  if (llvm::isa<ReluOp, ClipOp, QuantizeOp>(op))
    return op->getOperand(0);
  if (auto add = dyn_cast<AddOp>(op); add && elementOf(add).isF32()) {
    const bool isFirst = bool(constantOf(add.getA()));
    Value bias = isFirst ? add.getA() : add.getB();
    const bool isOfChannels = tensorOf(bias).getNumElements() == (shapeOf(bias).empty() ? 1 : shapeOf(bias).back());
    return constantOf(bias) && isOfChannels ? (isFirst ? add.getB() : add.getA()) : Value();
  }
  if (auto requantize = dyn_cast<RequantizeOp>(op)) {
    if (Value bias = requantize.getBias()) { // the sum must not wrap
      ElementsAttr elements = constantOf(bias);
      if (!elements)
        return {};
      for (const APInt &value : elements.getValues<APInt>())
        if (std::abs(double(value.getSExtValue())) + most >= double(1u << 31))
          return {};
    }
    return requantize.getX(); // multipliers are positive
  }
  return {};
}

struct Machine {
  int64_t rows, columns, sums;  ///< of the array; elements of its accumulator
  int64_t scratchpad;           ///< bytes of the first one
  double dramBytes;             ///< a cycle
  int64_t floatBytes;           ///< of a number between kernels
  bool packsPixels, finiteMath; ///< as the pass's options say
};

/// Cycles of the vector engine for a vector of results.
int64_t cyclesOfWindow(int64_t along, int64_t stride, int64_t across) {
  return across * timing::newColumns(along, across, stride);
}

/// Whether the largest of each column of a window may be found first, then the largest of those along the row.
bool isSeparable(MaxPoolOp pool) {
  ArrayRef<int64_t> kernel = pool.getKernel(), pads = pool.getPads();
  auto hasPixels = [&](unsigned axis) { return std::max(pads[axis], pads[axis + 2]) < kernel[axis]; };
  return kernel[0] > 1 && kernel[1] > 1 && pool.getStrides()[1] > 1 && hasPixels(0) && hasPixels(1) &&
         llvm::all_of(pool.getDilations(), [](int64_t dilation) { return dilation == 1; });
}

/// Whether two pools are done sooner: the windows of the first one move by one pixel along the row, so that it may have several pixels of
/// few channels in a vector (accel::packPixels()).
bool isBetterSeparate(MaxPoolOp pool, int64_t lanes) {
  ArrayRef<int64_t> kernel = pool.getKernel(), strides = pool.getStrides(), x = shapeOf(pool.getX()), y = shapeOf(pool);
  const int64_t channels = x[3], outputs = lanes / std::gcd(channels, lanes);
  if (!isSeparable(pool) || outputs == 1 || x[2] % outputs)
    return false;
  const int64_t vectors = y[1] * y[2] * int64_t(llvm::divideCeil(channels, lanes));
  const int64_t together = vectors * cyclesOfWindow(kernel[1], strides[1], kernel[0]);
  const int64_t first = y[1] * x[2] * channels / lanes * cyclesOfWindow(kernel[0], strides[0], 1);
  return cost::kLeastGain * double(first + vectors * cyclesOfWindow(kernel[1], strides[1], 1)) < double(together);
}

/// `pool` becomes two: the one that is returned, of columns of windows, `width` of them, and behind it one along the row.
MaxPoolOp separate(MaxPoolOp pool, int64_t width, const RuleRecorder &recorder) {
  recorder.add("pool-of-columns", nodeNames(pool.getLoc()));
  ArrayRef<int64_t> kernel = pool.getKernel(), strides = pool.getStrides(), pads = pool.getPads();
  OpBuilder builder(pool);
  SmallVector<int64_t> shape(shapeOf(pool));
  shape[2] = width;
  auto columns = builder.create<MaxPoolOp>(pool.getLoc(), RankedTensorType::get(shape, elementOf(pool)), pool.getX(),
                                           ArrayRef<int64_t>{kernel[0], 1}, ArrayRef<int64_t>{strides[0], 1},
                                           ArrayRef<int64_t>{pads[0], 0, pads[2], 0}, pool.getDilations(), pool.getLayout());
  auto alongRow = builder.create<MaxPoolOp>(pool.getLoc(), pool.getType(), columns, ArrayRef<int64_t>{1, kernel[1]},
                                            ArrayRef<int64_t>{1, strides[1]}, ArrayRef<int64_t>{0, pads[1], 0, pads[3]},
                                            pool.getDilations(), pool.getLayout());
  pool.replaceAllUsesWith(alongRow.getResult());
  pool.erase();
  return columns;
}

/// Which maxima of a convolution's sums its kernel takes: none, those of the pool's windows, or those of their columns.
enum class Maxima { None, Windows, Columns };

/// With maxima the vector engine no longer writes each of the results, and DRAM does not see them; but the array makes again what two tiles
/// need. `width`: of the sums, if they are those of columns.
Maxima maximaOf(MaxPoolOp pool, Operation *convolution, const Machine &machine, int64_t &width) {
  ArrayRef<int64_t> dilations, strides;
  bool isOnArray = false;
  llvm::TypeSwitch<Operation *>(convolution).Case<ConvOp, ConvIntegerOp>([&](auto op) {
    dilations = op.getDilations();
    strides = op.getStrides();
    isOnArray = op.getGroup() == 1 && !isDepthwise(op) && op.getLayout() == "nhwc" && constantOf(op.getW());
  });
  const int64_t kh = pool.getKernel()[0], kw = pool.getKernel()[1], sh = pool.getStrides()[0], sw = pool.getStrides()[1];
  auto isDense = [](int64_t dilation) { return dilation == 1; };
  const ArrayRef<int64_t> pads = pool.getPads();
  if (!isOnArray || kh < sh || kw < sw || !llvm::all_of(pool.getDilations(), isDense))
    return Maxima::None;
  if (std::max(pads[0], pads[2]) >= kh || std::max(pads[1], pads[3]) >= kw) // a window of padding alone has no sums
    return Maxima::None;
  ArrayRef<int64_t> w = shapeOf(convolution->getOperand(1)), y = shapeOf(convolution->getResult(0)), p = shapeOf(pool);
  // Passes for a window over so many columns, and whether the load engine packs its taps.
  auto passesOver = [&](int64_t columns) {
    const int64_t taps = w[0] * columns, packed = llvm::divideCeil(taps * w[2], machine.rows);
    const int64_t apart = taps * int64_t(llvm::divideCeil(w[2], machine.rows));
    const bool packs = dilations[0] == 1 && cost::tapsShareRows(uint64_t(taps), uint64_t(w[2]), uint64_t(machine.rows));
    return std::pair(packs ? packed : apart, packs);
  };
  const auto [passes, packsTaps] = passesOver(w[1]);
  // The sums of all tiles, for the best size of a tile that a block of columns has room for, twice: of so many windows along a row.
  auto sumsOf = [](int64_t size, int64_t tile, int64_t kernel, int64_t stride) {
    return double(int64_t(llvm::divideCeil(size, tile)) * (kernel - stride) + size * stride);
  };
  auto leastSums = [&](int64_t along, int64_t kernel, int64_t stride) {
    double least = std::numeric_limits<double>::infinity();
    for (int64_t rows = 1; rows <= p[1]; ++rows)
      for (int64_t columns = 1; columns <= along; ++columns)
        if (2 * machine.columns * ((rows - 1) * sh + kh) * ((columns - 1) * stride + kernel) <= machine.sums)
          least = std::min(least, sumsOf(p[1], rows, kh, sh) * sumsOf(along, columns, kernel, stride));
    return least;
  };
  const double blocks = double(y[0] * int64_t(llvm::divideCeil(y[3], machine.columns)));
  const double windows = blocks * double(p[1] * p[2]), results = blocks * double(y[1] * y[2]);
  const double pooling = windows * double(cyclesOfWindow(kw, sw, kh));
  // A result that leaves too little room for others goes through DRAM. But packed taps come from there, so that such a convolution may
  // begin a chain of bands, which takes no room from another one: if there is room for the rows of two windows and their taps.
  const int64_t size = llvm::isa<ConvOp>(convolution) ? machine.floatBytes : 1;
  const double bytes = double(tensorOf(convolution->getResult(0)).getNumElements() * size);
  const int64_t row = y[2] * y[3], taps = y[2] * ((kh - 1) * strides[0] + w[0]) * w[1] * w[2];
  const bool mayBeginChain = packsTaps && 2 * (kh * row + taps) * size <= machine.scratchpad;
  const double transfers =
      bytes > cost::kRoom * double(machine.scratchpad) && !mayBeginChain ? 2 * bytes / machine.dramBytes : 0;
  const double joined = std::max(blocks * leastSums(p[2], kw, sw) * double(passes), pooling);
  // Results of few channels may share the columns (accel::packPixels()) where zero times any input is zero; sums under a window do not.
  const bool canShare = machine.packsPixels && (machine.finiteMath || llvm::isa<ConvIntegerOp>(convolution));
  const int64_t beside = canShare ? std::max<int64_t>(machine.columns / y[3], 1) : 1;
  const int64_t shared = y[2] % beside == 0 ? beside : 1;
  auto passesBeside = [&](int64_t outputs) { return double(passesOver(w[1] + strides[1] * (outputs - 1)).first); };
  const double written = results / double(shared);
  double made = written * passesBeside(shared);
  // Floats of two rows may share them, and neighbouring pixels the rows of the array.
  const int64_t pixels = std::max<int64_t>(machine.rows / w[2], 1);
  if (machine.packsPixels && !canShare && 2 * y[3] <= machine.columns && w[0] > strides[0] && dilations[0] == 1 &&
      dilations[1] == 1 && y[1] > 1)
    made = std::min(made, results / 2 *
                              double((w[0] + strides[0]) * int64_t(llvm::divideCeil(w[1], pixels)) *
                                     int64_t(llvm::divideCeil(pixels * w[2], machine.rows))));
  const double apart = std::max(std::min(made, results * double(passes)), written + pooling) + cost::kHiddenEngines * transfers;
  // Sums under a column do as well. A few more at the end of a row, which no window along it sees, may make their number fit.
  width = int64_t(llvm::alignTo(y[2], uint64_t(beside)));
  if (beside > 1 && isSeparable(pool) && (width == y[2] || (pads[3] == 0 && (width + pads[1] - kw) / sw + 1 == p[2]))) {
    const int64_t vectors = width / beside;
    const double columns = blocks * double(p[1] * vectors * cyclesOfWindow(kh, sh, 1));
    const double separate = std::max(blocks * leastSums(vectors, 1, 1) * passesBeside(beside),
                                     columns + windows * double(cyclesOfWindow(kw, sw, 1)));
    if (cost::kLeastGain * separate < std::min(joined, apart))
      return Maxima::Columns;
  }
  return joined < apart ? Maxima::Windows : Maxima::None;
}

/// max_pool(f(conv(x))), nothing else reading what lies between: f(max_pool(conv(x))), for an f that never falls; or the same for a pool of
/// the columns of windows, in front of one along the row. Whether it is one of these now.
bool joinConvolution(MaxPoolOp pool, const Machine &machine, const RuleRecorder &recorder) {
  auto inputOf = [](Operation *op) {
    auto input = llvm::find_if(op->getOperands(), [](Value operand) { return !constantOf(operand); });
    return input == op->operand_end() ? Value() : *input;
  };
  SmallVector<Operation *> between;
  Operation *conv = pool.getX().getDefiningOp();
  while (conv && conv->hasOneUse() && isElementwise(conv)) {
    between.push_back(conv);
    Value input = inputOf(conv);
    conv = input ? input.getDefiningOp() : nullptr;
  }
  int64_t width = 0;
  const Maxima maxima = conv && conv->hasOneUse() ? maximaOf(pool, conv, machine, width) : Maxima::None;
  if (maxima == Maxima::None)
    return false;
  ArrayRef<int64_t> w = shapeOf(conv->getOperand(1));
  const double most = 255.0 * 255.0 * double(w[0] * w[1] * w[2]);
  for (Operation *op : between)
    if (Value x = risesWith(op, most); !x || x != inputOf(op) || shapeOf(x) != shapeOf(op->getResult(0)))
      return false;
  if (maxima == Maxima::Columns) {
    pool = separate(pool, width, recorder);
    SmallVector<int64_t> sums(shapeOf(conv->getResult(0)));
    llvm::TypeSwitch<Operation *>(conv).Case<ConvOp, ConvIntegerOp>([&](auto op) {
      SmallVector<int64_t> pads(op.getPads());
      pads[3] += (width - sums[2]) * op.getStrides()[1];
      op.setPads(pads);
    });
    sums[2] = width;
    conv->getResult(0).setType(RankedTensorType::get(sums, elementOf(conv->getResult(0))));
  }
  recorder.add("pool-of-sums", nodeNames(pool.getLoc()));
  OpBuilder builder(pool);
  SmallVector<int64_t> shape(shapeOf(pool));
  Value value = cloneOn(builder, pool, pool.getX(), conv->getResult(0), shape);
  value.setType(RankedTensorType::get(shape, elementOf(conv->getResult(0))));
  value.getDefiningOp()->setAttr(kOfSumsAttr, builder.getUnitAttr());
  for (Operation *op : llvm::reverse(between))
    value = cloneOn(builder, op, inputOf(op), value, shape);
  pool->getResult(0).replaceAllUsesWith(value);
  pool->erase();
  for (Operation *op : between)
    op->erase();
  return true;
}

struct MovePoolsPass : impl::MovePoolsPassBase<MovePoolsPass> {
  using MovePoolsPassBase::MovePoolsPassBase;
  MovePoolsPass(const MovePoolsPassOptions &options, RuleRecorder recorder)
      : MovePoolsPassBase(options), recorder(std::move(recorder)) {}

  void runOnOperation() override {
    SmallVector<MaxPoolOp> pools;
    SmallVector<Operation *> all;
    getOperation().walk([&](Operation *op) {
      if (auto layout = op->getAttrOfType<StringAttr>("layout"); !layout || layout != "nhwc")
        return;
      if (llvm::isa<MaxPoolOp, AveragePoolOp, QLinearAveragePoolOp, QLinearGlobalAveragePoolOp>(op))
        all.push_back(op);
    });
    for (Operation *op : all) {
      const size_t count = pools.size();
      auto pool = dyn_cast<MaxPoolOp>(op);
      splitPool(op, columns, pools, recorder);
      if (pool && pools.size() == count)
        pools.push_back(pool);
    }
    const Machine machine{rows, columns, sums, scratchpad, dramBytes, array == "bf16" ? 2 : 4, packsPixels, finiteMath};
    for (MaxPoolOp pool : pools)
      if (!joinConvolution(pool, machine, recorder) && packsPixels && isBetterSeparate(pool, columns))
        separate(pool, shapeOf(pool.getX())[2], recorder);
    recorder.finish();
  }

private:
  RuleRecorder recorder;
};

} // namespace

std::unique_ptr<Pass> createMovePoolsPass(const MovePoolsPassOptions &options, const RuleRecorder &recorder) {
  return std::make_unique<MovePoolsPass>(options, recorder);
}

} // namespace tw::graph
