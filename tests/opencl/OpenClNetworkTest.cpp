//===- OpenClNetworkTest.cpp - Networks on a device of OpenCL -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The random networks of tests/fuzz, whose values are known from plain loops, and
// networks of one kernel of each kind. Skipped where there is no device.
//
// TILEWRIGHT_SEED=N TILEWRIGHT_FUZZ_CASES=1 runs the one case that a failure names.
//===----------------------------------------------------------------------===//
#include "runtime/opencl/OpenClNetwork.h"
#include "compiler/codegen/opencl/OpenClCompiler.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/loops/Passes.h"
#include "tests/fuzz/RandomNetwork.h"
#include "tests/fuzz/Seed.h"
#include "tests/gpu/EmulatedNetwork.h"
#include "tests/gpu/NetworkText.h"
#include "tests/gpu/Tolerances.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace tw;
using namespace tw::fuzz;
using runtime::opencl::Loader;
using runtime::opencl::OpenClNetwork;
using Bytes = std::vector<std::vector<uint8_t>>;

namespace {

const runtime::StatusOr<std::shared_ptr<Loader>> &loader() {
  static const runtime::StatusOr<std::shared_ptr<Loader>> opened = Loader::open();
  return opened;
}

#define SKIP_WITHOUT_DEVICE()                                                                                                  \
  if (!loader())                                                                                                               \
  GTEST_SKIP() << loader().error().message

struct Context : mlir::MLIRContext {
  Context() : mlir::MLIRContext(mlir::MLIRContext::Threading::DISABLED) {
    loadDialect<graph::GraphDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::arith::ArithDialect,
                mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  }
};

/// A module of graph ops through graph passes and lowering to a program. `narrow`: what f32 tensors between kernels become.
opencl::Program compile(mlir::ModuleOp module, const std::string &narrow, opencl::DeviceType type) {
  graph::GraphPipelineOptions options;
  options.targets = {graph::makeOpenClTarget()};
  options.narrow = narrow;
  mlir::PassManager passes(module.getContext());
  graph::buildGraphPipeline(passes, options);
  passes.addPass(loops::createLowerGraphPass());
  if (mlir::failed(passes.run(module))) {
    ADD_FAILURE() << "the graph passes or the lowering fail";
    return {};
  }
  llvm::Expected<opencl::Program> program = opencl::compileForOpenCl(module, type);
  if (!program) {
    ADD_FAILURE() << llvm::toString(program.takeError());
    return {};
  }
  return std::move(*program);
}

Bytes run(opencl::Program program, const Bytes &inputs) {
  auto network = OpenClNetwork::load(std::move(program), *loader(), (*loader())->devices().front());
  if (!network) {
    ADD_FAILURE() << network.error().message;
    return {};
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_TRUE(bool((*network)->setInput(i, inputs[i].data())));
  EXPECT_TRUE(bool((*network)->run()));
  Bytes outputs;
  for (const gpu::Tensor &tensor : (*network)->program().outputs) {
    outputs.emplace_back(test::bytesOf(tensor));
    EXPECT_TRUE(bool((*network)->getOutput(outputs.size() - 1, outputs.back().data())));
  }
  return outputs;
}

//===----------------------------------------------------------------------===//
// Random networks
//===----------------------------------------------------------------------===//

using Maker = Network (*)(mlir::MLIRContext &, uint64_t, bool);

/// What is summed is of about 1: a sum of nearly nothing has the same error.
constexpr double kLeastMagnitude = 0.1;

/// Kernels are for a processor, of every third network for a GPU, which takes PoCL far longer to compile.
void check(Maker make, bool isFloat, const std::string &narrow, const test::Tolerance &tolerance, uint64_t cases) {
  for (uint64_t i = 0; i < numCases(cases); ++i) {
    const uint64_t seed = firstSeed() + i;
    SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed));
    Context context;
    Network network = make(context, seed, isFloat);
    Bytes inputs;
    for (const Tensor &input : network.inputs)
      inputs.push_back(input.bytes());
    const opencl::DeviceType type = seed % 3 ? opencl::DeviceType::Processor : opencl::DeviceType::Gpu;
    const Bytes outputs = run(compile(*network.module, narrow, type), inputs);
    ASSERT_EQ(outputs.size(), network.outputs.size()) << network.text;
    for (size_t output = 0; output < outputs.size(); ++output) {
      const Tensor &expected = network.outputs[output];
      ASSERT_EQ(outputs[output].size(), expected.bytes().size());
      const std::vector<double> actual = expected.read(outputs[output]);
      EXPECT_LE(test::largestError(actual, expected.values, kLeastMagnitude), tolerance.network) << "output " << output << "\n"
                                                                                                 << network.text;
    }
  }
}

TEST(OpenClRandomTest, IntegerNetworksAreExact) {
  SKIP_WITHOUT_DEVICE();
  check(makeChain, false, "", test::kInteger, 6);
  check(makeBranches, false, "", test::kInteger, 2);
  check(makeBlocks, false, "", test::kInteger, 1);
}

TEST(OpenClRandomTest, Fp32NetworksAreAccurate) {
  SKIP_WITHOUT_DEVICE();
  check(makeChain, true, "", test::kSingle, 6);
  check(makeBranches, true, "", test::kSingle, 2);
  check(makeBlocks, true, "", test::kSingle, 1);
}

TEST(OpenClRandomTest, Bf16NetworksAreNear) {
  SKIP_WITHOUT_DEVICE();
  check(makeChain, true, "bf16", test::kBfloat, 3);
  check(makeBlocks, true, "bf16", test::kBfloat, 1);
}

TEST(OpenClRandomTest, Float16NetworksAreNear) {
  SKIP_WITHOUT_DEVICE();
  check(makeChain, true, "f16", test::kHalf, 3);
  check(makeBlocks, true, "f16", test::kHalf, 1);
}

//===----------------------------------------------------------------------===//
// Kinds of kernels
//===----------------------------------------------------------------------===//

opencl::Program compileText(const std::string &text, opencl::DeviceType type = opencl::DeviceType::Processor) {
  Context context;
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module) {
    ADD_FAILURE() << "the text is no module";
    return {};
  }
  // Loops, as lowering leaves them.
  llvm::Expected<opencl::Program> program = opencl::compileForOpenCl(*module, type);
  if (!program) {
    ADD_FAILURE() << llvm::toString(program.takeError());
    return {};
  }
  return std::move(*program);
}

template <typename T> std::vector<uint8_t> bytesOf(const std::vector<T> &numbers) {
  std::vector<uint8_t> bytes(numbers.size() * sizeof(T));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}
template <typename T> std::vector<T> numbersOf(const std::vector<uint8_t> &bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

/// A function of one element on tensors of 16 of them.
std::string elementwise(const std::string &from, const std::string &to, const std::string &body) {
  const std::string in = "tensor<16x" + from + ">", out = "tensor<16x" + to + ">";
  return "func.func private @f(%x: " + in + ") -> " + out + " {\n  %e = tensor.empty() : " + out +
         "\n  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = "
         "[\"parallel\"]} ins(%x : " +
         in + ") outs(%e : " + out + ") {\n  ^bb0(%a: " + from + ", %b: " + to + "):\n" + body + "  } -> " + out +
         "\n  return %y : " + out + "\n}\nfunc.func @main(%x: " + in + ") -> " + out + " {\n  %y = call @f(%x) : (" + in +
         ") -> " + out + "\n  return %y : " + out + "\n}\n";
}

TEST(OpenClKernelTest, FloatsAreRoundedToNarrowTypesToNearestEven) {
  SKIP_WITHOUT_DEVICE();
  const float inf = std::numeric_limits<float>::infinity();
  // Halfway cases go to the even neighbour, what is too large to infinity; float16 has multiples of 2^-24 near 0.
  const std::vector<float> numbers{1.0f,           1.00390625f,    1.01171875f,    -1.00390625f,   3.4e38f,  inf,
                                   -inf,           0.0f,           1.00048828125f, 1.00146484375f, 65519.0f, 65520.0f,
                                   2.98023224e-8f, 8.94069672e-8f, 1e-10f,         -6.1e-5f};
  const std::vector<uint16_t> bf16{0x3f80, 0x3f80, 0x3f82, 0xbf80, 0x7f80, 0x7f80, 0xff80, 0x0000,
                                   0x3f80, 0x3f80, 0x4780, 0x4780, 0x3300, 0x33c0, 0x2edc, 0xb880};
  const std::vector<uint16_t> f16{0x3c00, 0x3c04, 0x3c0c, 0xbc04, 0x7c00, 0x7c00, 0xfc00, 0x0000,
                                  0x3c00, 0x3c02, 0x7bff, 0x7c00, 0x0000, 0x0002, 0x0000, 0x83ff};
  for (const auto &[type, expected] : {std::pair{std::string("bf16"), bf16}, std::pair{std::string("f16"), f16}}) {
    const Bytes outputs =
        run(compileText(elementwise("f32", type,
                                    "    %c = arith.truncf %a : f32 to " + type + "\n    linalg.yield %c : " + type + "\n")),
            {bytesOf(numbers)});
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(numbersOf<uint16_t>(outputs[0]), expected) << type;
  }
}

TEST(OpenClKernelTest, IntegersWrapAndDivideWithoutTraps) {
  SKIP_WITHOUT_DEVICE();
  std::vector<int32_t> numbers{0, 1, -1, 7, -7, INT32_MIN, INT32_MAX, 46341, 5, 6, 7, 8, 9, 10, 11, 12};
  const Bytes outputs = run(compileText(elementwise("i32", "i32",
                                                    "    %z = arith.constant -1 : i32\n    %s = arith.muli %a, %a : i32\n"
                                                    "    %q = arith.divsi %s, %z : i32\n    %r = arith.divsi %q, %a : i32\n"
                                                    "    linalg.yield %r : i32\n")),
                            {bytesOf(numbers)});
  ASSERT_EQ(outputs.size(), 1u);
  std::vector<int32_t> expected;
  for (int32_t x : numbers) {
    const int32_t square = int32_t(uint32_t(x) * uint32_t(x)), negative = int32_t(0u - uint32_t(square));
    expected.push_back(x == 0 ? 0 : x == -1 ? int32_t(0u - uint32_t(negative)) : negative / x);
  }
  EXPECT_EQ(numbersOf<int32_t>(outputs[0]), expected);
}

TEST(OpenClKernelTest, SumsOfLargerAndSmallerHandOnWhatIsNoNumber) {
  SKIP_WITHOUT_DEVICE();
  std::vector<float> numbers(16, 2.0f);
  numbers[3] = std::numeric_limits<float>::quiet_NaN();
  const Bytes outputs =
      run(compileText(elementwise("f32", "f32",
                                  "    %z = arith.constant 0.0 : f32\n    %six = arith.constant 6.0 : f32\n"
                                  "    %l = arith.maximumf %z, %a : f32\n    %s = arith.minimumf %l, %six : f32\n"
                                  "    linalg.yield %s : f32\n")),
          {bytesOf(numbers)});
  ASSERT_EQ(outputs.size(), 1u);
  const std::vector<float> actual = numbersOf<float>(outputs[0]);
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_TRUE(i == 3 ? std::isnan(actual[i]) : actual[i] == 2.0f) << i;
}

/// A product of [M, K] and [K, N] of `type`.
std::string product(const std::string &type, const std::string &sum, int64_t m, int64_t n, int64_t k, const std::string &body) {
  auto tensor = [](int64_t x, int64_t y, const std::string &of) {
    return "tensor<" + std::to_string(x) + "x" + std::to_string(y) + "x" + of + ">";
  };
  const std::string a = tensor(m, k, type), b = tensor(k, n, type), c = tensor(m, n, sum);
  return "func.func private @f(%x: " + a + ", %y: " + b + ") -> " + c + " {\n  %z = arith.constant " +
         (sum == "f32" ? "0.0" : "0") + " : " + sum + "\n  %e = tensor.empty() : " + c +
         "\n  %i = linalg.fill ins(%z : " + sum + ") outs(%e : " + c + ") -> " + c +
         "\n  %r = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, "
         "affine_map<(m, n, k) -> (m, n)>], iterator_types = [\"parallel\", \"parallel\", \"reduction\"]} ins(%x, %y : " +
         a + ", " + b + ") outs(%i : " + c + ") {\n  ^bb0(%p: " + type + ", %q: " + type + ", %s: " + sum + "):\n" + body +
         "  } -> " + c + "\n  return %r : " + c + "\n}\nfunc.func @main(%x: " + a + ", %y: " + b + ") -> " + c +
         " {\n  %r = call @f(%x, %y) : (" + a + ", " + b + ") -> " + c + "\n  return %r : " + c + "\n}\n";
}

/// Products of bytes with sizes less than a tile, of several tiles, and with parts of tiles at every border.
void checkTiledProducts(opencl::DeviceType type) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{8, 8, 8}, {64, 64, 32}, {70, 67, 35}, {9, 200, 17}}) {
    SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
    std::vector<int8_t> a, b;
    for (int64_t i = 0; i < m * k; ++i)
      a.push_back(int8_t(i * 37 % 255 - 127));
    for (int64_t i = 0; i < k * n; ++i)
      b.push_back(int8_t(i * 91 % 255 - 127));
    opencl::Program program = compileText(
        product("i8", "i32", m, n, k,
                "    %zero = arith.constant 3 : i32\n    %u = arith.extsi %p : i8 to i32\n    %t = arith.subi %u, %zero : i32\n"
                "    %v = arith.extsi %q : i8 to i32\n    %w = arith.muli %t, %v : i32\n    %o = arith.addi %s, %w : i32\n"
                "    linalg.yield %o : i32\n"),
        type);
    ASSERT_EQ(program.steps.size(), 1u);
    EXPECT_EQ(program.steps[0].kind, "matrix product");
    EXPECT_EQ(program.source.find("__local") != std::string::npos, type == opencl::DeviceType::Gpu);
    const Bytes outputs = run(std::move(program), {bytesOf(a), bytesOf(b)});
    ASSERT_EQ(outputs.size(), 1u);
    std::vector<int32_t> expected;
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = 0; column < n; ++column) {
        int32_t sum = 0;
        for (int64_t i = 0; i < k; ++i)
          sum += (int32_t(a[size_t(row * k + i)]) - 3) * int32_t(b[size_t(i * n + column)]);
        expected.push_back(sum);
      }
    EXPECT_EQ(numbersOf<int32_t>(outputs[0]), expected);
  }
}

TEST(OpenClKernelTest, TiledProductsOfOddSizesAreExact) {
  SKIP_WITHOUT_DEVICE();
  checkTiledProducts(opencl::DeviceType::Gpu);
}

TEST(OpenClKernelTest, ProductsForAProcessorAreExact) {
  SKIP_WITHOUT_DEVICE();
  checkTiledProducts(opencl::DeviceType::Processor);
}

TEST(OpenClKernelTest, EqualKernelsAreOneInTheText) {
  const std::string one = elementwise("f32", "f32", "    %c = arith.negf %a : f32\n    linalg.yield %c : f32\n");
  std::string two = one;
  two.replace(
      two.find("  %y = call @f"), std::string::npos,
      "  %y = call @f(%x) : (tensor<16xf32>) -> tensor<16xf32>\n  %z = call @f(%y) : (tensor<16xf32>) -> tensor<16xf32>\n"
      "  return %z : tensor<16xf32>\n}\n");
  const opencl::Program program = compileText(two);
  ASSERT_EQ(program.steps.size(), 2u);
  EXPECT_EQ(program.steps[0].kernel, program.steps[1].kernel);
  EXPECT_EQ(program.source, compileText(two).source);
}

TEST(OpenClDeviceTest, ChoiceByNumberOrNameAndErrorsListDevices) {
  SKIP_WITHOUT_DEVICE();
  const Loader &devices = **loader();
  EXPECT_EQ(devices.choose("0")->device, devices.devices()[0].device);
  EXPECT_EQ(devices.choose(devices.devices()[0].name)->device, devices.devices()[0].device);
  for (const char *wrong : {"999", "no such device"}) {
    const auto chosen = devices.choose(wrong);
    ASSERT_FALSE(bool(chosen));
    EXPECT_NE(chosen.error().message.find(wrong), std::string::npos);
    EXPECT_NE(chosen.error().message.find("0: " + devices.devices()[0].name), std::string::npos);
  }
}

} // namespace
