//===- MovementBoundsTest.cpp - Bounds behind data movement ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random networks of convolutions, and between them Concat, Slice, Gather, Pad
// or Transpose. Each is also written without: fewer results, other pads or
// strides, width and height exchanged. The lower bounds must be the same.
//
// TILEWRIGHT_SEED=N TILEWRIGHT_FUZZ_CASES=1 runs the one case that a failure
// names.
//===----------------------------------------------------------------------===//
#include "compiler/graph/Graph.h"
#include "compiler/pipeline/Compile.h"
#include "hw-configs/Machine.h"
#include "tests/fuzz/NetworkBuilder.h"
#include "tests/fuzz/Seed.h"
#include "tests/fuzz/Variants.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::fuzz;

namespace {

enum class Movement { None, Concat, Gather, SliceChannels, Crop, Subsample, Pad, Transpose };
constexpr int kMovements = 8;

/// A convolution, and how its result is moved.
struct Block {
  Window window;
  int64_t channels = 1;
  bool isDepthwise = false, hasFunction = false;
  Movement movement = Movement::None;
  int64_t kept = 1;                 ///< SliceChannels
  std::array<int64_t, 4> amounts{}; ///< Crop, Pad: top, left, bottom, right; Subsample: along height and width
};

class MovementBuilder : public NetworkBuilder {
public:
  MovementBuilder(mlir::MLIRContext &context, uint64_t seed) : NetworkBuilder(context, seed, /*isFloat=*/true) {}

  Network build(bool moves) {
    const Shape shape{pick(1, 2), pick(1, 24), pick(16, 22), pick(16, 22)};
    const std::vector<Block> blocks = randomBlocks(shape[1]);
    Network network;
    begin(network, {randomTensor(shape, Kind::F32)});
    Value x = values.back();
    bool isTransposed = false;       // what is not moved
    std::array<int64_t, 4> padded{}; // by the movement in front
    for (const Block &block : blocks) {
      Window window = block.window;
      int64_t channels = block.channels;
      for (size_t side = 0; side < 4; ++side)
        window.pads[side] += padded[side];
      padded = {};
      if (!moves) {
        for (size_t side = 0; side < 4; ++side)
          window.pads[side] -= block.movement == Movement::Crop ? block.amounts[side] : 0;
        for (size_t d = 0; d < 2; ++d)
          window.strides[d] *= block.movement == Movement::Subsample ? block.amounts[d] : 1;
        if (block.movement == Movement::SliceChannels)
          channels = block.kept;
        if (block.movement == Movement::Pad)
          padded = block.amounts;
        if (isTransposed)
          exchange(window);
      }
      x = conv(x, window, channels, block.isDepthwise ? channels : 1);
      if (block.hasFunction)
        x = unary(x, 0);
      if (moves)
        x = moved(x, block);
      else
        isTransposed ^= block.movement == Movement::Transpose;
    }
    values = {values.front(), x};
    end(network);
    return network;
  }

private:
  std::vector<Block> randomBlocks(int64_t channels) {
    std::vector<Block> blocks;
    const int64_t count = pick(2, 4);
    for (int64_t i = 0; i < count; ++i) {
      Block &block = blocks.emplace_back();
      for (size_t d = 0; d < 2; ++d) {
        block.window.kernel[d] = pick(1, 3);
        for (size_t side : {d, d + 2})
          block.window.pads[side] = pick(0, block.window.kernel[d] - 1);
      }
      // What makes fewer channels afterwards must not be depthwise: it has as many as its input.
      block.isDepthwise = i > 0 && chance(20);
      block.channels = block.isDepthwise ? channels : pick(2, i + 1 == count ? 160 : 48);
      block.hasFunction = chance(30);
      channels = block.kept = block.channels;
      if (i + 1 == count)
        continue;
      block.movement = Movement(pick(1, kMovements - 1));
      if (block.movement == Movement::SliceChannels && (block.isDepthwise || channels < 2))
        block.movement = Movement::Gather;
      if (block.movement == Movement::Subsample && i > 0) // images become small
        block.movement = Movement::Transpose;
      if (block.movement == Movement::SliceChannels)
        channels = block.kept = pick(1, channels - 1);
      for (size_t side = 0; side < 4; ++side)
        block.amounts[side] = block.movement == Movement::Crop  ? pick(0, block.window.pads[side])
                              : block.movement == Movement::Pad ? pick(0, 2)
                                                                : pick(1, 2);
    }
    return blocks;
  }

  static void exchange(Window &window) {
    std::swap(window.kernel[0], window.kernel[1]);
    std::swap(window.strides[0], window.strides[1]);
    std::swap(window.pads[0], window.pads[1]);
    std::swap(window.pads[2], window.pads[3]);
  }

  Value moved(const Value &x, const Block &block) {
    const Shape shape = x.tensor.shape;
    auto channelsOf = [&](int64_t first, int64_t count) {
      return slice(x, {0, first, 0, 0}, {1, 1, 1, 1}, {shape[0], count, shape[2], shape[3]});
    };
    switch (block.movement) {
    case Movement::None:
      return x;
    case Movement::Concat: {
      const int64_t first = pick(1, std::max<int64_t>(shape[1] - 1, 1));
      return first == shape[1] ? x : concat({channelsOf(first, shape[1] - first), channelsOf(0, first)}, 1);
    }
    case Movement::Gather: {
      std::vector<int64_t> order;
      for (int64_t i = 0; i < shape[1]; ++i)
        order.push_back(i);
      std::shuffle(order.begin(), order.end(), random);
      std::vector<Value> parts;
      for (int64_t channel : order)
        parts.push_back(channelsOf(channel, 1));
      return parts.size() == 1 ? x : concat(parts, 1);
    }
    case Movement::SliceChannels:
      return channelsOf(pick(0, shape[1] - block.kept), block.kept);
    case Movement::Crop:
      return slice(
          x, {0, 0, block.amounts[0], block.amounts[1]}, {1, 1, 1, 1},
          {shape[0], shape[1], shape[2] - block.amounts[0] - block.amounts[2], shape[3] - block.amounts[1] - block.amounts[3]});
    case Movement::Subsample:
      return slice(x, {0, 0, 0, 0}, {1, 1, block.amounts[0], block.amounts[1]},
                   {shape[0], shape[1], (shape[2] - 1) / block.amounts[0] + 1, (shape[3] - 1) / block.amounts[1] + 1});
    case Movement::Pad:
      return pad(x, {0, 0, block.amounts[0], block.amounts[1]}, {0, 0, block.amounts[2], block.amounts[3]}, 0);
    case Movement::Transpose:
      return transpose(x, {0, 1, 3, 2});
    }
    return x;
  }
};

struct Compiled {
  uint64_t bound = 0;
  std::string by, text;
};

Compiled boundOf(uint64_t seed, bool moves, const timing::MachineParams &machine) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<graph::GraphDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::arith::ArithDialect,
                      mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  Network network = MovementBuilder(context, seed).build(moves);
  pipeline::CompileOptions options;
  options.machine = &machine;
  options.schedule = accel::Schedule::Serial; // the bound hangs on no decision
  llvm::Error error = pipeline::optimizeGraph(*network.module, options);
  if (!error)
    error = pipeline::lowerToLinalg(*network.module, options);
  if (error) {
    ADD_FAILURE() << llvm::toString(std::move(error)) << "\n" << network.text;
    return {};
  }
  llvm::Expected<pipeline::CompiledNetwork> compiled = pipeline::compileForAccelerator(*network.module, options);
  if (!compiled) {
    ADD_FAILURE() << llvm::toString(compiled.takeError()) << "\n" << network.text;
    return {};
  }
  return {compiled->lowerBoundCycles, compiled->boundBy, network.text};
}

TEST(MovementBoundsTest, AreThoseOfTheNetworkWithoutTheMovement) {
  const Variant variants[] = {
      {"gemmini_16x16_fp32", {}},
      {"edge_32x32_bf16", {}},
      {"gemmini_16x16_fp32", {"scratchpads.unified.capacity_bytes=16384", "accumulator.capacity_bytes=8192"}}};
  const uint64_t first = firstSeed(), cases = numCases(200);
  std::map<std::string, int> boundBy;
  for (uint64_t seed = first; seed < first + cases; ++seed) {
    const Variant &variant = variants[seed % std::size(variants)];
    Result<timing::MachineParams> machine = hwconfigs::loadMachine(variant.machine, variant.overrides);
    ASSERT_TRUE(bool(machine)) << machine.message();
    const Compiled moved = boundOf(seed, true, *machine), other = boundOf(seed, false, *machine);
    ++boundBy[moved.by];
    EXPECT_NEAR(double(moved.bound), double(other.bound), 0.01 * double(other.bound))
        << "TILEWRIGHT_SEED=" << seed << " TILEWRIGHT_FUZZ_CASES=1 on " << variant.machine << ", bound by " << moved.by
        << " and " << other.by << "\n"
        << moved.text << "\n"
        << other.text;
  }
  for (const auto &[by, count] : boundBy)
    printf("bound by %s: %d of %llu\n", by.c_str(), count, (unsigned long long)cases);
}

} // namespace
