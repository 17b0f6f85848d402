//===- NumbersTest.cpp - Rounding, infinities, whole numbers --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX models through the runtime, on machines of every array type and on the
// CPU. References are written here, in double or in 64-bit integers.
//===----------------------------------------------------------------------===//
#include "runtime/Network.h"
#include "runtime/Session.h"
#include "tests/unit/frontend/TestModels.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <unistd.h>

using namespace tw;
using namespace tw::runtime;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

/// Where a model runs: a machine with a schedule, or the CPU.
struct Target {
  std::string machine, schedule;
};

std::string print(const Target &target) { return target.machine.empty() ? "CPU" : target.machine + " " + target.schedule; }

std::vector<Target> allTargets() {
  std::vector<Target> targets{{"", ""}};
  for (const char *machine : {"gemmini_16x16_fp32", "gemmini_16x16_bf16", "gemmini_16x16_int8"})
    for (const char *schedule : {"serial", "double_buffer", "pipelined"})
      targets.push_back({machine, schedule});
  return targets;
}

const std::vector<Target> kEachType{
    {"", ""}, {"gemmini_16x16_fp32", "pipelined"}, {"gemmini_16x16_bf16", "pipelined"}, {"gemmini_16x16_int8", "pipelined"}};

/// The outputs of a model in onnx's text form; nothing, and a failure of the test, if it does not run.
std::vector<HostTensor> run(const std::string &graph, const std::vector<HostTensor> &inputs, const Target &target,
                            int opset = 13) {
  const std::string folder = std::filesystem::temp_directory_path() / ("numbers" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/model.onnx";
  std::ofstream(path, std::ios::binary) << frontend::modelOf(graph, opset).SerializeAsString();
  NetworkOptions options;
  std::vector<HostTensor> outputs;
  if (target.machine.empty()) {
    StatusOr<CpuNetwork> cpu = loadOnCpu(path, options, 1);
    StatusOr<Launch> launch = cpu ? cpu->device->launch(inputs) : StatusOr<Launch>(cpu.error());
    EXPECT_TRUE(launch) << (launch ? "" : launch.error().message) << "\n" << graph;
    if (launch)
      outputs = launch->outputs;
  } else {
    options.machine = target.machine;
    options.schedule = target.schedule;
    StatusOr<std::unique_ptr<Session>> session = Session::create(path, {options, {}});
    StatusOr<RunReport> report = session ? (*session)->run(inputs) : StatusOr<RunReport>(session.error());
    EXPECT_TRUE(report) << print(target) << ": " << (report ? "" : report.error().message) << "\n" << graph;
    if (report)
      outputs = report->outputs;
  }
  std::filesystem::remove_all(folder);
  return outputs;
}

template <typename T>
HostTensor tensorOf(const std::string &name, ElementKind kind, std::vector<int64_t> shape, const std::vector<T> &values) {
  HostTensor tensor{name, kind, std::move(shape), {}};
  tensor.bytes.resize(values.size() * sizeof(T));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

HostTensor floats(const std::string &name, std::vector<int64_t> shape, const std::vector<float> &values) {
  return tensorOf(name, ElementKind::F32, std::move(shape), values);
}

template <typename T> std::vector<T> elementsOf(const HostTensor &tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), values.size() * sizeof(T));
  return values;
}

bool isSame(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// x rounded to nearest even with `bits` of precision, numbers below 2^`least` as multiples of 2^(least + 1 - bits), infinite from half
/// a unit above `most` on.
double rounded(double x, int bits, int least, double most) {
  if (x == 0 || !std::isfinite(x))
    return x;
  const int exponent = std::max(std::ilogb(x), least);
  const double unit = std::ldexp(1.0, exponent + 1 - bits), y = std::nearbyint(x / unit) * unit;
  return std::abs(y) > most ? std::copysign(kInf, x) : y;
}
double bfloat(double x) { return rounded(x, 8, -126, std::ldexp(255.0, 120)); }
double half(double x) { return rounded(x, 11, -14, 65504); }

/// Ties both ways, subnormals, the ends of the types, and what lies between them.
const std::vector<float> kToRound{1.0001f,         70000.f,          1e-9f,    0.1f,      1 + 0x1p-8f, 1 + 3 * 0x1p-8f,
                                  1 + 0x1p-11f,    1 + 3 * 0x1p-11f, 65504.f,  65519.99f, 65520.f,     -70000.f,
                                  0x1p-14f,        0x1.ffep-15f,     0x1p-24f, 0x1p-25f,  0x1.8p-24f,  3.4e38f,
                                  0x1.feffffp127f, 1e-40f,           INFINITY, -INFINITY, NAN,         -0.f,
                                  3.14159265f,     -2.71828f,        1e4f,     -1e-3f,    12345.678f,  0x1.fcp7f,
                                  33.3333f,        5.071577f};

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

struct CastCase {
  const char *graph;
  std::function<double(double)> expected;
};

TEST(NumbersTest, CastsRoundWhereTheyStand) {
  const CastCase cases[] = {
      {"(float[2,16] x) => (float[2,16] y) { b = Cast <to = 16> (x) y = Cast <to = 1> (b) }", bfloat},
      {"(float[2,16] x) => (float[2,16] y) { h = Cast <to = 10> (x) y = Cast <to = 1> (h) }", half},
      {"(float[2,16] x) => (bfloat16[2,16] y) { y = Cast <to = 16> (x) }", bfloat},
      {"(float[2,16] x) => (float16[2,16] y) { y = Cast <to = 10> (x) }", half},
      {"(float[2,16] x) => (float[2,16] y) { b = Cast <to = 16> (x) h = Cast <to = 10> (b) y = Cast <to = 1> (h) }",
       [](double x) { return half(bfloat(x)); }},
      {"(float[2,16] x) => (float[2,16] y) { h = Cast <to = 10> (x) b = Cast <to = 16> (h) y = Cast <to = 1> (b) }",
       [](double x) { return bfloat(half(x)); }},
      {"(float[2,16] x) => (float[2,16] y) { b = Cast <to = 16> (x) f = Cast <to = 1> (b) r = Relu (f) y = Neg (r) }",
       [](double x) { return -(std::isnan(x) ? x : std::max(bfloat(x), 0.0)); }},
      {"(float[2,16] x, bfloat16[1] t) => (float[2,16] y) { b = CastLike (x, t) y = Cast <to = 1> (b) }", bfloat},
  };
  for (const CastCase &test : cases)
    for (const Target &target : allTargets()) {
      std::vector<HostTensor> inputs{floats("x", {2, 16}, kToRound)};
      const bool isLike = std::strstr(test.graph, "CastLike");
      if (isLike)
        inputs.push_back(tensorOf("t", ElementKind::BF16, {1}, std::vector<uint16_t>{0}));
      std::vector<HostTensor> outputs = run(test.graph, inputs, target, isLike ? 15 : 13);
      ASSERT_EQ(outputs.size(), 1u);
      std::vector<double> y = toDoubles(outputs[0]);
      ASSERT_EQ(y.size(), kToRound.size());
      for (size_t i = 0; i < y.size(); ++i)
        EXPECT_TRUE(isSame(y[i], test.expected(double(kToRound[i]))))
            << print(target) << ": " << kToRound[i] << " gives " << y[i] << "\n"
            << test.graph;
    }
}

/// The value is needed as it was and rounded.
TEST(NumbersTest, TheErrorOfACastIsNotZero) {
  std::vector<float> x(kToRound.begin(), kToRound.begin() + 16);
  for (const char *to : {"16", "10"})
    for (const Target &target : allTargets()) {
      // A float16 comes from the CPU, and to a machine of bfloat16 it is one.
      if (target.machine == "gemmini_16x16_bf16" && to[1] == '0')
        continue;
      const std::string graph = "(float[2,8] x) => (float[2,8] y) { b = Cast <to = " + std::string(to) +
                                "> (x) f = Cast <to = 1> (b) y = Sub (x, f) }";
      std::vector<HostTensor> outputs = run(graph, {floats("x", {2, 8}, x)}, target);
      ASSERT_EQ(outputs.size(), 1u);
      std::vector<double> y = toDoubles(outputs[0]);
      for (size_t i = 0; i < y.size(); ++i) {
        const double expected = double(float(x[i] - (to[1] == '6' ? bfloat(x[i]) : half(x[i]))));
        EXPECT_TRUE(isSame(y[i], expected)) << print(target) << ": " << x[i] << " gives " << y[i] << " instead of " << expected;
      }
    }
}

/// Between two convolutions, whose operands are whole numbers: sums are exact on every machine, and so is what the cast rounds.
TEST(NumbersTest, ACastBetweenConvolutionsRounds) {
  const std::string graph = "(float[1,4,5,5] x, float[8,4,1,1] v, float[4,8,1,1] w) => (float[1,4,5,5] y) {"
                            " a = Conv (x, v) b = Cast <to = 16> (a) f = Cast <to = 1> (b) y = Conv (f, w) }";
  std::vector<float> x, v, w;
  for (int i = 0; i < 100; ++i)
    x.push_back(float(i * 37 % 101 - 50));
  for (int i = 0; i < 32; ++i) {
    v.push_back(float(i * 11 % 15 - 7));
    w.push_back(float(i % 3 - 1));
  }
  auto product = [](const std::vector<double> &a, const std::vector<float> &b, int inner, int outer) {
    std::vector<double> y(size_t(outer) * 25, 0);
    for (int o = 0; o < outer; ++o)
      for (int p = 0; p < 25; ++p)
        for (int i = 0; i < inner; ++i)
          y[size_t(o * 25 + p)] += a[size_t(i * 25 + p)] * double(b[size_t(o * inner + i)]);
    return y;
  };
  std::vector<double> a = product({x.begin(), x.end()}, v, 4, 8);
  size_t changed = 0;
  for (double &value : a) {
    changed += value != bfloat(value);
    value = bfloat(value);
  }
  ASSERT_GT(changed, 10u);
  const std::vector<double> expected = product(a, w, 8, 4);
  for (const Target &target : allTargets()) {
    std::vector<HostTensor> outputs =
        run(graph, {floats("x", {1, 4, 5, 5}, x), floats("v", {8, 4, 1, 1}, v), floats("w", {4, 8, 1, 1}, w)}, target);
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(toDoubles(outputs[0]), expected) << print(target);
  }
}

/// Numbers beyond a type have no defined result (ONNX, Cast); those within have one.
TEST(NumbersTest, CastsToWholeNumbersGoTowardsZeroAndNothingCrashes) {
  const std::vector<float> x{1.9f, -1.9f,  0.5f,     -0.f,      127.f, -128.f,     1e6f,   -1e6f,
                             3e9f, -3e38f, INFINITY, -INFINITY, NAN,   16777216.f, 100.7f, 0.f};
  for (int type : {2, 3, 6, 7, 9})
    for (const Target &target : kEachType) {
      const char *name = type == 2 ? "uint8" : type == 3 ? "int8" : type == 6 ? "int32" : type == 7 ? "int64" : "bool";
      std::vector<HostTensor> outputs =
          run("(float[16] x) => (" + std::string(name) + "[16] y) { y = Cast <to = " + std::to_string(type) + "> (x) }",
              {floats("x", {16}, x)}, target);
      ASSERT_EQ(outputs.size(), 1u);
      std::vector<double> y = toDoubles(outputs[0]);
      for (size_t i : {0, 2, 3, 4, 14, 15})
        EXPECT_EQ(y[i], type == 9 ? double(x[i] != 0) : std::trunc(x[i])) << print(target) << " " << name;
      for (size_t i : {1, 5, 6, 7, 13})
        if (type == 6 || type == 7)
          EXPECT_EQ(y[i], std::trunc(x[i])) << print(target) << " " << name;
    }
}

//===----------------------------------------------------------------------===//
// Tensors of float16 and bfloat16
//===----------------------------------------------------------------------===//

TEST(NumbersTest, Float16OutputsAreFloat16AndOverflow) {
  const std::vector<float> x{40000.f, -65504.f, 0x1p-24f, 0.1f};
  std::vector<HostTensor> inputs{floats("x", {4}, x)};
  for (const Target &target : kEachType) {
    StatusOr<HostTensor> fitted = fitTo(inputs[0], {"x", ElementKind::F16, {4}});
    ASSERT_TRUE(fitted);
    std::vector<HostTensor> outputs = run("(float16[4] x) => (float16[4] y) { y = Add (x, x) }", {*fitted}, target);
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(outputs[0].type, ElementKind::F16) << print(target);
    EXPECT_EQ(toDoubles(outputs[0]), (std::vector<double>{kInf, -kInf, 0x1p-23, 2 * half(0.1f)})) << print(target);
  }
}

TEST(NumbersTest, ConstantsOfFloat16AreRounded) {
  for (const Target &target : kEachType) {
    std::vector<HostTensor> outputs =
        run("(float[3] x) => (float[3] y) { c = Constant <value = float[3] {0.1, 70000.0, 1e-9}> () h = Cast <to = 10> (c)"
            " f = Cast <to = 1> (h) y = Add (x, f) }",
            {floats("x", {3}, {0, 0, 0})}, target);
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(toDoubles(outputs[0]), (std::vector<double>{half(0.1f), kInf, 0})) << print(target);
  }
}

/// Pieces of networks in each narrow type: as far from their float32 form as the type's precision makes them.
TEST(NumbersTest, NarrowModelsAreTheirFloatModelsRounded) {
  const std::pair<const char *, int> graphs[] = {
      // A convolution with its normalisation, and a residual.
      {"(T[1,8,6,6] x, T[8,8,3,3] w, T[8] s) => (T[1,8,6,6] y) { a = Conv <pads = [1,1,1,1]> (x, w)"
       " n = BatchNormalization (a, s, s, s, s) r = Relu (n) y = Add (r, x) }",
       15},
      {"(T[2,9,16] x, T[16,16] w, T[16] s) => (T[2,9,16] y) { q = MatMul (x, w) t = Transpose <perm = [0,2,1]> (x) p = MatMul "
       "(q, t)"
       " c = Softmax (p) v = MatMul (c, x) y = LayerNormalization (v, s, s) }",
       17},
      {"(T[3,20] x, T[20,7] w, T[7] s) => (T[3,7] y) { g = Gemm <alpha = 0.5> (x, w, s) e = Sigmoid (g) t = Tanh (g) y = Mul "
       "(e, t) }",
       13},
      {"(T[3,20] x) => (T[3,20] y) { g = com.microsoft.Gelu (x) y = HardSwish (g) }", 14},
      {"(T[1,4,8,8] x) => (T[1,4,1,1] y) { m = MaxPool <kernel_shape = [2,2], strides = [2,2]> (x) l = LeakyRelu (m)"
       " y = GlobalAveragePool (l) }",
       16},
      {"(T[1,4,8,8] x) => (T[1,8,4,4] y) { a = AveragePool <kernel_shape = [2,2], strides = [2,2]> (x) n = Neg (a)"
       " y = Concat <axis = 1> (a, n) }",
       13},
      {"(T[5,6] x) => (T[6,5] y) { y = Transpose <perm = [1,0]> (x) }", 13},
      {"(T[5,6] x) => (T[5] y) { e = Exp (x) s = ReduceMean <axes = [1], keepdims = 0> (e) y = Sqrt (s) }", 13},
  };
  for (auto [text, opset] : graphs)
    for (auto [name, kind, unit] :
         {std::tuple("bfloat16", ElementKind::BF16, 0x1p-8), std::tuple("float16", ElementKind::F16, 0x1p-11)}) {
      auto typed = [form = std::string(text)](const std::string &type) {
        std::string graph = form;
        for (size_t at; (at = graph.find("T[")) != std::string::npos;)
          graph.replace(at, 1, type);
        return graph;
      };
      // Inputs that both types hold.
      onnx::ModelProto model = frontend::modelOf(typed("float"), opset);
      std::vector<HostTensor> wide, narrow;
      for (const onnx::ValueInfoProto &input : model.graph().input()) {
        TensorSpec spec{input.name(), ElementKind::F32, {}};
        for (const auto &dim : input.type().tensor_type().shape().dim())
          spec.shape.push_back(dim.dim_value());
        HostTensor random = randomTensor(spec, 3);
        if (input.name() == "s") // scales and variances are positive
          for (size_t i = 3; i < random.bytes.size(); i += 4)
            random.bytes[i] &= 0x7f;
        spec.type = kind;
        narrow.push_back(*fitTo(random, spec));
        spec.type = ElementKind::F32;
        wide.push_back(*fitTo(narrow.back(), spec));
      }
      std::vector<HostTensor> expected = run(typed("float"), wide, {"", ""}, opset);
      ASSERT_EQ(expected.size(), 1u);
      for (const Target &target : kEachType) {
        std::vector<HostTensor> outputs = run(typed(name), narrow, target, opset);
        ASSERT_EQ(outputs.size(), 1u);
        EXPECT_EQ(outputs[0].type, kind) << print(target) << " " << text;
        StatusOr<Comparison> comparison = compare(outputs[0], expected[0]);
        ASSERT_TRUE(comparison);
        // One rounding of the result; machines that multiply bfloat16 round what lies between kernels, at most four times here.
        const double roundings = target.machine == "gemmini_16x16_bf16" ? 4 * 0x1p-8 : unit;
        EXPECT_LE(comparison->maxRelativeError, roundings) << print(target) << " " << name << " " << text;
      }
    }
}

//===----------------------------------------------------------------------===//
// Infinities and numbers that are none
//===----------------------------------------------------------------------===//

const std::vector<float> kSpecial{0.f,
                                  -0.f,
                                  INFINITY,
                                  -INFINITY,
                                  NAN,
                                  std::numeric_limits<float>::max(),
                                  std::numeric_limits<float>::lowest(),
                                  1e-40f,
                                  -1e-40f,
                                  1.f,
                                  -1.f,
                                  0.5f,
                                  -2.5f,
                                  3.f,
                                  88.f,
                                  -104.f};

struct UnaryCase {
  const char *node; ///< makes y of x
  int opset;
  std::function<double(double)> expected;
  double ofInput = 0; ///< how far y may be off besides, as a part of x: where a difference of functions cancels
};

/// Functions are approximated to a few units (isa/Isa.td), and flush what is subnormal. Between kernels a machine of bfloat16 has its
/// precision and range.
bool isAsExpected(double y, double exact, double slack, const Target &target) {
  const double expected = double(float(exact));
  const bool isBfloat = target.machine == "gemmini_16x16_bf16";
  if (isSame(y, expected) || (isBfloat && isSame(y, bfloat(expected))))
    return true;
  return std::isfinite(expected) &&
         std::abs(y - expected) <= (isBfloat ? 0x1p-7 : 1e-6) * std::abs(expected) + slack + std::numeric_limits<float>::min();
}

double relu(double x) { return x < 0 ? 0 : x; }
double atLeast(double x, double bound) { return x < bound ? bound : x; }
double atMost(double x, double bound) { return x > bound ? bound : x; }
double hardSigmoid(double x, double alpha, double beta) { return atLeast(atMost(alpha * x + beta, 1), 0); }

TEST(NumbersTest, ElementwiseOperatorsFollowIeee754) {
  const std::string c = "Constant <value = float {"; // }> ()
  const UnaryCase cases[] = {
      {"y = Relu (x)", 13, relu},
      {"y = LeakyRelu <alpha = 0.25> (x)", 13, [](double x) { return x < 0 ? 0.25 * x : x; }},
      {"y = LeakyRelu <alpha = 0.0> (x)", 13, [](double x) { return x < 0 ? 0 * x : x; }},
      {"y = LeakyRelu <alpha = 1.5> (x)", 13, [](double x) { return x < 0 ? double(float(1.5 * x)) : x; }},
      {"y = Neg (x)", 13, [](double x) { return -x; }},
      {"y = Abs (x)", 13, [](double x) { return std::fabs(x); }},
      {"y = Floor (x)", 13, [](double x) { return std::floor(x); }},
      {"y = Sqrt (x)", 13, [](double x) { return std::sqrt(x); }},
      {"y = Exp (x)", 13, [](double x) { return std::exp(x); }},
      {"y = Tanh (x)", 13, [](double x) { return std::tanh(x); }},
      {"y = Erf (x)", 13, [](double x) { return std::erf(x); }},
      {"y = Sigmoid (x)", 13, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"y = HardSigmoid (x)", 13, [](double x) { return hardSigmoid(x, 0.2f, 0.5); }},
      {"y = HardSwish (x)", 14, [](double x) { return x * hardSigmoid(x, 1.0 / 6, 0.5); }},
      {"y = com.microsoft.Gelu (x)", 13, [](double x) { return x * 0.5 * (1 + std::erf(x * std::sqrt(0.5))); }, 0x1p-23},
      {"y = Reciprocal (x)", 13, [](double x) { return 1 / x; }},
      {"y = Clip <min = -1.0, max = 2.0> (x)", 6, [](double x) { return atMost(atLeast(x, -1), 2); }},
      {"y = Clip <min = 0.0> (x)", 6, [](double x) { return atMost(atLeast(x, 0), std::numeric_limits<float>::max()); }},
      {"l = Constant <value = float {-3.4028234663852886e38}> () y = Clip (x, l)", 11,
       [](double x) { return atLeast(x, std::numeric_limits<float>::lowest()); }},
      {"h = Constant <value_float = 2.0> () y = Min (x, h)", 13, [](double x) { return atMost(x, 2); }},
      {"h = Constant <value_float = 2.0> () y = Max (x, h)", 13, [](double x) { return atLeast(x, 2); }},
      {"h = Constant <value_float = 0.0> () y = Div (x, h)", 13, [](double x) { return x / 0.0; }},
      {"h = Constant <value_float = 0.0> () y = Mul (x, h)", 13, [](double x) { return x * 0.0; }},
      {"y = Sub (x, x)", 13, [](double x) { return x - x; }},
      {"s = Constant <value_float = 0.25> () y = PRelu (x, s)", 13, [](double x) { return x < 0 ? 0.25 * x : x; }},
  };
  for (const UnaryCase &test : cases)
    for (const Target &target : kEachType) {
      std::vector<HostTensor> outputs = run("(float[2,8] x) => (float[2,8] y) { " + std::string(test.node) + " }",
                                            {floats("x", {2, 8}, kSpecial)}, target, test.opset);
      ASSERT_EQ(outputs.size(), 1u);
      std::vector<double> y = toDoubles(outputs[0]);
      for (size_t i = 0; i < y.size(); ++i) {
        const double expected = test.expected(double(kSpecial[i]));
        EXPECT_TRUE(isAsExpected(y[i], expected, test.ofInput ? test.ofInput * std::abs(double(kSpecial[i])) : 0, target))
            << print(target) << ": " << test.node << " of " << kSpecial[i] << " is " << y[i] << " instead of " << expected;
      }
    }
}

TEST(NumbersTest, PowersFollowIeee754) {
  for (double exponent : {0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 5.0})
    for (const Target &target : kEachType) {
      std::vector<HostTensor> outputs =
          run("(float[2,8] x) => (float[2,8] y) { e = Constant <value_float = " + std::to_string(exponent) +
                  "> () y = Pow (x, e) }",
              {floats("x", {2, 8}, kSpecial)}, target);
      ASSERT_EQ(outputs.size(), 1u);
      std::vector<double> y = toDoubles(outputs[0]);
      for (size_t i = 0; i < y.size(); ++i) {
        const double expected = std::pow(double(kSpecial[i]), exponent);
        // What goes to a machine of bfloat16 is rounded to that first.
        const bool isOfRounded =
            target.machine == "gemmini_16x16_bf16" && isAsExpected(y[i], std::pow(bfloat(kSpecial[i]), exponent), 0, target);
        EXPECT_TRUE(isOfRounded || isAsExpected(y[i], expected, 0, target))
            << print(target) << ": " << kSpecial[i] << " to the power of " << exponent << " is " << y[i] << " instead of "
            << expected;
      }
    }
}

TEST(NumbersTest, ReductionsAndPoolsPassOnNan) {
  const std::vector<float> x{1, 2, NAN, 4, -INFINITY, -5, -6, -7, INFINITY, 1, 2, 3, INFINITY, -INFINITY, 0, 1};
  const std::pair<const char *, std::vector<double>> cases[] = {
      {"(float[4,4] x) => (float[4] y) { y = ReduceMax <axes = [1], keepdims = 0> (x) }", {kNan, -5, kInf, kInf}},
      {"(float[4,4] x) => (float[4] y) { y = ReduceMin <axes = [1], keepdims = 0> (x) }", {kNan, -kInf, 1, -kInf}},
      {"(float[4,4] x) => (float[4] y) { y = ReduceMean <axes = [1], keepdims = 0> (x) }", {kNan, -kInf, kInf, kNan}},
      {"(float[4,1,1,4] x) => (float[4,1,1,1] y) { y = MaxPool <kernel_shape = [1,4]> (x) }", {kNan, -5, kInf, kInf}},
      {"(float[4,1,1,4] x) => (float[4,1,1,1] y) { y = GlobalAveragePool (x) }", {kNan, -kInf, kInf, kNan}},
  };
  for (const auto &[graph, expected] : cases)
    for (const Target &target : kEachType) {
      std::vector<HostTensor> outputs =
          run(graph,
              {floats("x", std::strstr(graph, "[4,1,1,4]") ? std::vector<int64_t>{4, 1, 1, 4} : std::vector<int64_t>{4, 4}, x)},
              target);
      ASSERT_EQ(outputs.size(), 1u);
      std::vector<double> y = toDoubles(outputs[0]);
      for (size_t i = 0; i < y.size(); ++i)
        EXPECT_TRUE(isSame(y[i], expected[i])) << print(target) << ": " << graph << " row " << i << " is " << y[i];
    }
}

TEST(NumbersTest, SoftmaxOfInfinities) {
  const std::vector<float> x{0,   -INFINITY, 0, -INFINITY, INFINITY,  1,         2,         3,
                             NAN, 0,         0, 0,         -INFINITY, -INFINITY, -INFINITY, -INFINITY};
  const std::vector<double> expected{0.5, 0, 0.5, 0, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan};
  for (const Target &target : kEachType) {
    std::vector<HostTensor> outputs =
        run("(float[4,4] x) => (float[4,4] y) { y = Softmax (x) }", {floats("x", {4, 4}, x)}, target);
    ASSERT_EQ(outputs.size(), 1u);
    std::vector<double> y = toDoubles(outputs[0]);
    for (size_t i = 0; i < y.size(); ++i)
      EXPECT_TRUE(isSame(y[i], expected[i])) << print(target) << " element " << i << " is " << y[i];
  }
}

//===----------------------------------------------------------------------===//
// Whole numbers
//===----------------------------------------------------------------------===//

struct WholeCase {
  const char *nodes; ///< make y of x and the constant c
  std::function<int64_t(int64_t x, int64_t c)> expected;
};

/// Numbers that no float holds.
TEST(NumbersTest, WholeNumbersStayWhole) {
  const WholeCase cases[] = {
      {"y = Add (x, c)", [](int64_t x, int64_t c) { return x + c; }},
      {"y = Sub (c, x)", [](int64_t x, int64_t c) { return c - x; }},
      {"y = Mul (x, c)", [](int64_t x, int64_t c) { return int64_t(uint64_t(x) * uint64_t(c)); }},
      {"y = Div (c, x)", [](int64_t x, int64_t c) { return c / x; }},
      {"y = Min (x, c)", [](int64_t x, int64_t c) { return std::min(x, c); }},
      {"y = Max (x, c)", [](int64_t x, int64_t c) { return std::max(x, c); }},
      {"y = Clip (x, c)", [](int64_t x, int64_t c) { return std::max(x, c); }},
      {"n = Neg (c) y = Clip (x, n, c)", [](int64_t x, int64_t c) { return std::clamp(x, -c, c); }},
      {"m = Add (c, c) y = Sub (m, x)", [](int64_t x, int64_t c) { return c + c - x; }},
  };
  auto check = [&](auto zero, const char *type, ElementKind kind, int64_t constant, const std::vector<int64_t> &x) {
    using T = decltype(zero);
    for (const WholeCase &test : cases)
      for (const Target &target : kEachType) {
        std::vector<T> values(x.begin(), x.end());
        std::vector<HostTensor> outputs =
            run("(" + std::string(type) + "[4] x) => (" + type + "[4] y) { c = Constant <value = " + type + " {" +
                    std::to_string(constant) + "}> () " + test.nodes + " }",
                {tensorOf("x", kind, {4}, values)}, target);
        ASSERT_EQ(outputs.size(), 1u);
        std::vector<T> y = elementsOf<T>(outputs[0]);
        for (size_t i = 0; i < y.size(); ++i)
          EXPECT_EQ(y[i], T(test.expected(x[i], constant)))
              << print(target) << ": " << test.nodes << " of " << x[i] << " " << type;
      }
  };
  check(int32_t(), "int32", ElementKind::I32, 16777217, {1, -3, 16777219, 33554435});
  check(int64_t(), "int64", ElementKind::I64, 9007199254740993, {1, -3, 9007199254740995, 18014398509481987});
}

TEST(NumbersTest, PadsAndRangesOfWholeNumbersStayWhole) {
  for (const Target &target : kEachType) {
    std::vector<HostTensor> outputs = run("(int32[2] x) => (int32[4] y) { p = Constant <value = int64[2] {1, 1}> () v = "
                                          "Constant <value = int32 {16777217}> () y = Pad (x, p, v) }",
                                          {tensorOf("x", ElementKind::I32, {2}, std::vector<int32_t>{5, 33554433})}, target);
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(elementsOf<int32_t>(outputs[0]), (std::vector<int32_t>{16777217, 5, 33554433, 16777217})) << print(target);
    outputs = run("(int64[3] x) => (int64[3] y) { a = Constant <value = int64 {9007199254740993}> () b = Constant <value = "
                  "int64 {9007199254740996}> ()"
                  " d = Constant <value = int64 {1}> () r = Range (a, b, d) y = Add (x, r) }",
                  {tensorOf("x", ElementKind::I64, {3}, std::vector<int64_t>{0, 0, 0})}, target);
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(elementsOf<int64_t>(outputs[0]), (std::vector<int64_t>{9007199254740993, 9007199254740994, 9007199254740995}))
        << print(target);
  }
}

} // namespace
