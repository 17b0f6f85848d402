//===- AttentionTest.cpp - Attention as one kernel, on the emulator -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// softmax(scale * Q K^T + mask) V, and products alone, compared with plain loops
// in double. Heads lie as projections leave them, [batch, rows, heads, columns]:
// without strides in tensor maps, transposes would be kernels.
//===----------------------------------------------------------------------===//
#include "tests/gpu/EmulatedNetwork.h"
#include "tests/gpu/Lint.h"
#include "tests/gpu/NetworkText.h"
#include "tests/gpu/Ptxas.h"
#include "tests/gpu/emulator/Numbers.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

using namespace tw;

namespace {

enum class Mask { None, Keys, Rows, Causal, Hidden };

struct Case {
  std::string name;
  int64_t batch, heads, queries, keys, columns;
  Mask mask = Mask::None;
  gpu::Architecture architecture = gpu::Architecture::Sm90a;
};

/// Shape of the mask, which is spread over the dims of 1: of keys that nobody sees, of rows, or of all.
std::vector<int64_t> maskShape(const Case &c) {
  switch (c.mask) {
  case Mask::None:
    return {};
  case Mask::Keys:
    return {c.batch, 1, 1, c.keys};
  case Mask::Causal:
    return {1, 1, c.queries, c.keys};
  default:
    return {c.batch, c.heads, c.queries, c.keys};
  }
}

std::string shapeText(const std::vector<int64_t> &shape, const char *type) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + type + ">";
}

double scaleOf(const Case &c) { return 1 / std::sqrt(double(c.columns)); }

std::string textOf(const Case &c) {
  auto lies = [&](int64_t rows, const char *type) { return shapeText({c.batch, rows, c.heads, c.columns}, type); };
  auto byHead = [&](int64_t rows) { return shapeText({c.batch, c.heads, rows, c.columns}, "f32"); };
  const std::string scores = shapeText({c.batch, c.heads, c.queries, c.keys}, "f32"),
                    transposed = shapeText({c.batch, c.heads, c.columns, c.keys}, "f32");
  const bool masks = c.mask != Mask::None;
  const std::string mask = shapeText(maskShape(c), "f32");
  std::string text = "func.func @main(%q: " + lies(c.queries, "bf16") + ", %k: " + lies(c.keys, "bf16") +
                     ", %v: " + lies(c.keys, "bf16") + (masks ? ", %m: " + mask : "") + ") -> " + lies(c.queries, "bf16") +
                     " {\n";
  for (auto [name, rows] : {std::pair{"q", c.queries}, {"k", c.keys}, {"v", c.keys}})
    text += std::string("  %") + name + "f = graph.cast %" + name + " : (" + lies(rows, "bf16") + ") -> " + lies(rows, "f32") +
            "\n";
  text += "  %qt = graph.transpose %qf {perm = array<i64: 0, 2, 1, 3>} : (" + lies(c.queries, "f32") + ") -> " +
          byHead(c.queries) + "\n";
  text += "  %kt = graph.transpose %kf {perm = array<i64: 0, 2, 3, 1>} : (" + lies(c.keys, "f32") + ") -> " + transposed + "\n";
  text +=
      "  %vt = graph.transpose %vf {perm = array<i64: 0, 2, 1, 3>} : (" + lies(c.keys, "f32") + ") -> " + byHead(c.keys) + "\n";
  text += "  %s = graph.matmul %qt, %kt : (" + byHead(c.queries) + ", " + transposed + ") -> " + scores + "\n";
  text += "  %c = graph.constant dense<" + std::to_string(std::sqrt(double(c.columns))) + "> : tensor<1xf32>\n";
  text += "  %d = graph.div %s, %c : (" + scores + ", tensor<1xf32>) -> " + scores + "\n";
  if (masks)
    text += "  %a = graph.add %d, %m : (" + scores + ", " + mask + ") -> " + scores + "\n";
  text += std::string("  %p = graph.softmax ") + (masks ? "%a" : "%d") + " {axis = 3 : i64} : " + scores + "\n";
  text += "  %o = graph.matmul %p, %vt : (" + scores + ", " + byHead(c.keys) + ") -> " + byHead(c.queries) + "\n";
  text += "  %t = graph.transpose %o {perm = array<i64: 0, 2, 1, 3>} : (" + byHead(c.queries) + ") -> " +
          lies(c.queries, "f32") + "\n";
  text += "  %y = graph.cast %t : (" + lies(c.queries, "f32") + ") -> " + lies(c.queries, "bf16") + "\n";
  return text + "  return %y : " + lies(c.queries, "bf16") + "\n}\n";
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Numbers that bfloat16 has, from -range to range.
std::vector<float> randomNumbers(int64_t count, float range, uint32_t seed) {
  std::vector<float> numbers;
  uint32_t state = seed;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const float number = (float(state >> 8) / (1 << 23) - 1) * range;
    uint32_t bits;
    std::memcpy(&bits, &number, 4);
    bits &= 0xffff0000u;
    float rounded;
    std::memcpy(&rounded, &bits, 4);
    numbers.push_back(rounded);
  }
  return numbers;
}

std::vector<uint8_t> asBfloats(const std::vector<float> &numbers) {
  std::vector<uint8_t> bytes(numbers.size() * 2);
  for (size_t i = 0; i < numbers.size(); ++i)
    std::memcpy(&bytes[2 * i], reinterpret_cast<const uint8_t *>(&numbers[i]) + 2, 2);
  return bytes;
}

std::vector<double> fromBfloats(const std::vector<uint8_t> &bytes) {
  std::vector<double> numbers(bytes.size() / 2);
  for (size_t i = 0; i < numbers.size(); ++i) {
    float number = 0;
    std::memcpy(reinterpret_cast<uint8_t *>(&number) + 2, &bytes[2 * i], 2);
    numbers[i] = number;
  }
  return numbers;
}

std::vector<float> maskOf(const Case &c) {
  std::vector<float> mask;
  const std::vector<int64_t> shape = maskShape(c);
  if (shape.empty())
    return mask;
  const float none = -std::numeric_limits<float>::infinity();
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t h = 0; h < shape[1]; ++h)
      for (int64_t i = 0; i < shape[2]; ++i)
        for (int64_t j = 0; j < shape[3]; ++j)
          switch (c.mask) {
          case Mask::Keys: // the end of shorter sequences, as exporters of BERT write it
            mask.push_back(j < c.keys - 5 * b - 3 ? 0 : -10000);
            break;
          case Mask::Causal:
            mask.push_back(j <= i + c.keys - c.queries ? 0 : none);
            break;
          case Mask::Hidden: // the first tiles of some rows are hidden as a whole
            mask.push_back(j < c.keys - 1 - i % 7 && i % 2 ? none : 0);
            break;
          default: // another number everywhere
            mask.push_back(float((b * 7 + h * 5 + i * 3 + j * 11) % 13) / 4 - 2);
          }
  return mask;
}

struct Data {
  std::vector<std::vector<uint8_t>> inputs;
  std::vector<double> expected;
};

Data dataOf(const Case &c) {
  const std::vector<float> q = randomNumbers(c.batch * c.queries * c.heads * c.columns, 4, 1),
                           k = randomNumbers(c.batch * c.keys * c.heads * c.columns, 1, 2),
                           v = randomNumbers(c.batch * c.keys * c.heads * c.columns, 1, 3), mask = maskOf(c);
  Data data;
  data.inputs = {asBfloats(q), asBfloats(k), asBfloats(v)};
  if (!mask.empty()) {
    data.inputs.emplace_back(mask.size() * 4);
    std::memcpy(data.inputs.back().data(), mask.data(), mask.size() * 4);
  }
  const std::vector<int64_t> shape = maskShape(c);
  auto at = [&](int64_t rows, int64_t b, int64_t row, int64_t h, int64_t column) {
    return size_t(((b * rows + row) * c.heads + h) * c.columns + column);
  };
  data.expected.resize(q.size());
  std::vector<double> scores(size_t(c.keys), 0);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t i = 0; i < c.queries; ++i) {
        double largest = -std::numeric_limits<double>::infinity(), total = 0;
        for (int64_t j = 0; j < c.keys; ++j) {
          double &score = scores[size_t(j)];
          score = 0;
          for (int64_t d = 0; d < c.columns; ++d)
            score += double(q[at(c.queries, b, i, h, d)]) * k[at(c.keys, b, j, h, d)];
          score *= scaleOf(c);
          if (!mask.empty()) {
            const int64_t where[] = {b, h, i, j};
            int64_t index = 0;
            for (size_t dim = 0; dim < 4; ++dim)
              index = index * shape[dim] + (shape[dim] == 1 ? 0 : where[dim]);
            score += mask[size_t(index)];
          }
          largest = std::max(largest, score);
        }
        for (double &score : scores)
          total += score = std::exp(score - largest);
        for (int64_t d = 0; d < c.columns; ++d) {
          double sum = 0;
          for (int64_t j = 0; j < c.keys; ++j)
            sum += scores[size_t(j)] * v[at(c.keys, b, j, h, d)];
          data.expected[at(c.queries, b, i, h, d)] = sum / total;
        }
      }
  return data;
}

/// Of the root of the mean square. One kernel rounds the exponentials and the result to 2^-9. Several round the scores as well, which are up to
/// 10: their exponentials change by 10 times as much.
constexpr double kOneKernel = 5e-3, kSeveralKernels = 2e-2;

//===----------------------------------------------------------------------===//
// Networks
//===----------------------------------------------------------------------===//

const Case kCases[] = {
    // Sequences that no tile divides, shorter and longer than one; all sizes of heads.
    {"one_tile", 1, 1, 64, 64, 64},
    {"short_heads", 2, 3, 33, 33, 32},
    {"long", 1, 2, 200, 300, 64},
    {"heads_of_96", 1, 2, 70, 130, 96},
    {"heads_of_128", 1, 2, 130, 257, 128},
    {"heads_of_16", 2, 1, 17, 50, 16},
    {"many_heads", 3, 4, 40, 40, 64},
    {"mask_of_keys", 2, 2, 45, 77, 64, Mask::Keys},
    {"mask_of_rows", 2, 2, 70, 129, 32, Mask::Rows},
    {"causal", 1, 3, 150, 150, 64, Mask::Causal},
    {"hidden_tiles", 1, 1, 20, 270, 64, Mask::Hidden},
};

std::vector<Case> allCases() {
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  for (Case ampere : kCases) {
    ampere.name += "_sm_80";
    ampere.architecture = gpu::Architecture::Sm80;
    cases.push_back(ampere);
  }
  return cases;
}

/// Of the first output, by the root of the mean square.
double differenceOf(const gpu::Program &program, const Data &data, size_t variant, const ptxemu::LaunchOptions &options) {
  std::vector<std::vector<uint8_t>> outputs;
  try {
    outputs = test::EmulatedNetwork(program).run(data.inputs, variant, options);
  } catch (const std::exception &error) {
    ADD_FAILURE() << error.what();
    return 0;
  }
  const std::vector<double> actual = fromBfloats(outputs[0]);
  EXPECT_EQ(actual.size(), data.expected.size());
  double difference = 0, square = 0;
  for (size_t i = 0; i < std::min(actual.size(), data.expected.size()); ++i) {
    difference += (actual[i] - data.expected[i]) * (actual[i] - data.expected[i]);
    square += data.expected[i] * data.expected[i];
  }
  return std::sqrt(difference / square);
}

void PrintTo(const Case &c, std::ostream *stream) { *stream << c.name; }

class AttentionTest : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    gpu::GpuOptions options;
    options.architecture = GetParam().architecture;
    options.mostVariants = 5; // four shapes of tiles, and a kernel for each part
    llvm::Expected<gpu::Program> compiled = test::compileText(textOf(GetParam()), options);
    ASSERT_TRUE(bool(compiled)) << llvm::toString(compiled.takeError());
    program = std::move(*compiled);
    data = dataOf(GetParam());
  }

  void check(size_t variant, const ptxemu::LaunchOptions &options) {
    const bool isOne = program.steps[0].variants[variant].launches.size() == 1;
    EXPECT_LE(differenceOf(program, data, variant, options), isOne ? kOneKernel : kSeveralKernels);
  }

  gpu::Program program;
  Data data;
};

} // namespace

TEST_P(AttentionTest, IsOneStepWithoutTransposes) {
  ASSERT_EQ(program.steps.size(), 1u);
  EXPECT_EQ(program.steps[0].kind, "attention");
  EXPECT_EQ(program.steps[0].variants[0].launches.size(), 1u) << "the cost model takes " << program.steps[0].variants[0].name;
}

TEST_P(AttentionTest, EveryVariantComputesSoftmaxOfScoresTimesValues) {
  ASSERT_EQ(program.steps.size(), 1u);
  // The parts of attention on sm_80 are the products of MmaKernelTest: one network of them is enough.
  const bool hasParts = GetParam().architecture == gpu::Architecture::Sm90a || GetParam().name == "short_heads_sm_80";
  for (size_t variant = 0; variant < program.steps[0].variants.size(); ++variant) {
    if (!hasParts && program.steps[0].variants[variant].launches.size() > 1)
      continue;
    SCOPED_TRACE(program.steps[0].variants[variant].name);
    check(variant, {});
  }
}

TEST_P(AttentionTest, ThreadsInAnyOrderComputeTheSame) {
  ptxemu::LaunchOptions options;
  options.timing = ptxemu::Timing::Random;
  options.order = ptxemu::ThreadOrder::Random;
  options.residentClusters = 2;
  for (uint32_t seed : {1, 2}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    options.seed = seed;
    check(seed - 1, options);
    if (GetParam().architecture == gpu::Architecture::Sm80)
      break;
  }
}

TEST_P(AttentionTest, ThePtxKeepsTheRules) {
  for (const gpu::Kernel &kernel : program.kernels)
    for (const ptxlint::Finding &finding : ptxlint::lint(kernel.ptx))
      ADD_FAILURE() << "line " << finding.line << ": " << finding.message;
}

TEST(AttentionPtxasTest, EveryShapeAssemblesWithoutSpills) {
  if (!test::hasPtxas())
    GTEST_SKIP() << "there is no ptxas";
  for (const Case &c : allCases()) {
    if (llvm::StringRef(c.name).split("_sm_80").first != "heads_of_128")
      continue;
    gpu::GpuOptions options;
    options.architecture = c.architecture;
    options.mostVariants = 5;
    llvm::Expected<gpu::Program> program = test::compileText(textOf(c), options);
    ASSERT_TRUE(bool(program)) << llvm::toString(program.takeError());
    for (const gpu::Variant &variant : program->steps[0].variants)
      if (variant.launches.size() == 1) {
        SCOPED_TRACE(c.name + " " + variant.name);
        test::expectAssembles(program->kernels[variant.launches[0].kernel].ptx, nameOf(c.architecture));
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, AttentionTest, testing::ValuesIn(allCases()),
                         [](const auto &info) { return info.param.name; });

//===----------------------------------------------------------------------===//
// Grouped queries
//===----------------------------------------------------------------------===//

namespace {

struct Grouped {
  gpu::Architecture architecture;
  bool isHalf;
};

class GroupedQueriesTest : public testing::TestWithParam<Grouped> {};

} // namespace

/// Six heads of queries share two of keys and values, as the importer has it: as rows of one matrix. With a causal mask of all heads.
TEST_P(GroupedQueriesTest, AreOneKernel) {
  constexpr size_t kHeads = 6, kKeyHeads = 2, kQueries = 40, kKeys = 75, kColumns = 32;
  std::string text =
      R"(func.func @main(%q: tensor<1x6x40x32xbf16>, %k: tensor<1x2x75x32xbf16>, %v: tensor<1x2x75x32xbf16>, %m: tensor<1x1x40x75xf32>) -> tensor<1x6x40x32xbf16> {
  %qf = graph.cast %q : (tensor<1x6x40x32xbf16>) -> tensor<1x6x40x32xf32>
  %kf = graph.cast %k : (tensor<1x2x75x32xbf16>) -> tensor<1x2x75x32xf32>
  %vf = graph.cast %v : (tensor<1x2x75x32xbf16>) -> tensor<1x2x75x32xf32>
  %qr = graph.reshape %qf : (tensor<1x6x40x32xf32>) -> tensor<1x2x120x32xf32>
  %kt = graph.transpose %kf {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x2x75x32xf32>) -> tensor<1x2x32x75xf32>
  %s = graph.matmul %qr, %kt : (tensor<1x2x120x32xf32>, tensor<1x2x32x75xf32>) -> tensor<1x2x120x75xf32>
  %r = graph.reshape %s : (tensor<1x2x120x75xf32>) -> tensor<1x6x40x75xf32>
  %c = graph.constant dense<0.25> : tensor<1xf32>
  %d = graph.mul %r, %c : (tensor<1x6x40x75xf32>, tensor<1xf32>) -> tensor<1x6x40x75xf32>
  %a = graph.add %d, %m : (tensor<1x6x40x75xf32>, tensor<1x1x40x75xf32>) -> tensor<1x6x40x75xf32>
  %p = graph.softmax %a {axis = 3 : i64} : tensor<1x6x40x75xf32>
  %w = graph.reshape %p : (tensor<1x6x40x75xf32>) -> tensor<1x2x120x75xf32>
  %o = graph.matmul %w, %vf : (tensor<1x2x120x75xf32>, tensor<1x2x75x32xf32>) -> tensor<1x2x120x32xf32>
  %b = graph.reshape %o : (tensor<1x2x120x32xf32>) -> tensor<1x6x40x32xf32>
  %y = graph.cast %b : (tensor<1x6x40x32xf32>) -> tensor<1x6x40x32xbf16>
  return %y : tensor<1x6x40x32xbf16>
})";
  const bool isHalf = GetParam().isHalf;
  for (size_t at; isHalf && (at = text.find("bf16")) != std::string::npos;)
    text.erase(at, 1);
  const std::vector<float> q = randomNumbers(kHeads * kQueries * kColumns, 2, 1),
                           k = randomNumbers(kKeyHeads * kKeys * kColumns, 1, 2),
                           v = randomNumbers(kKeyHeads * kKeys * kColumns, 1, 3);
  std::vector<float> mask;
  for (size_t i = 0; i < kQueries; ++i)
    for (size_t j = 0; j < kKeys; ++j)
      mask.push_back(j <= i + kKeys - kQueries ? 0 : -std::numeric_limits<float>::infinity());
  std::vector<double> expected;
  for (size_t h = 0; h < kHeads; ++h)
    for (size_t i = 0; i < kQueries; ++i) {
      const size_t shared = h / (kHeads / kKeyHeads);
      std::vector<double> weights;
      double total = 0;
      for (size_t j = 0; j < kKeys; ++j) {
        double score = 0;
        for (size_t c = 0; c < kColumns; ++c)
          score += double(q[(h * kQueries + i) * kColumns + c]) * k[(shared * kKeys + j) * kColumns + c];
        total += weights.emplace_back(std::exp(score * 0.25 + mask[i * kKeys + j]));
      }
      for (size_t c = 0; c < kColumns; ++c) {
        double sum = 0;
        for (size_t j = 0; j < kKeys; ++j)
          sum += weights[j] * v[(shared * kKeys + j) * kColumns + c];
        expected.push_back(sum / total);
      }
    }
  auto inMemory = [&](const std::vector<float> &numbers) {
    if (!isHalf)
      return asBfloats(numbers);
    std::vector<uint8_t> bytes(numbers.size() * 2);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const uint16_t bits = ptxemu::floatToHalf(numbers[i]);
      std::memcpy(&bytes[2 * i], &bits, 2);
    }
    return bytes;
  };
  gpu::GpuOptions options;
  options.architecture = GetParam().architecture;
  llvm::Expected<gpu::Program> program = test::compileText(text, options);
  ASSERT_TRUE(bool(program)) << llvm::toString(program.takeError());
  ASSERT_EQ(program->steps.size(), 1u);
  EXPECT_EQ(program->steps[0].kind, "attention");
  std::vector<uint8_t> maskBytes(mask.size() * 4);
  std::memcpy(maskBytes.data(), mask.data(), maskBytes.size());
  std::vector<std::vector<uint8_t>> outputs;
  try {
    outputs = test::EmulatedNetwork(*program).run({inMemory(q), inMemory(k), inMemory(v), maskBytes}, 0, {});
  } catch (const std::exception &error) {
    FAIL() << error.what();
  }
  double difference = 0, square = 0;
  ASSERT_EQ(outputs[0].size(), expected.size() * 2);
  for (size_t i = 0; i < expected.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, &outputs[0][2 * i], 2);
    const double actual = isHalf ? ptxemu::halfToFloat(bits) : ptxemu::bfloatToFloat(bits);
    difference += (actual - expected[i]) * (actual - expected[i]);
    square += expected[i] * expected[i];
  }
  // Of float16, whose numbers have three bits more.
  EXPECT_LE(std::sqrt(difference / square), isHalf ? kOneKernel / 8 : kOneKernel);
}

INSTANTIATE_TEST_SUITE_P(Networks, GroupedQueriesTest,
                         testing::Values(Grouped{gpu::Architecture::Sm90a, false}, Grouped{gpu::Architecture::Sm90a, true},
                                         Grouped{gpu::Architecture::Sm80, false}, Grouped{gpu::Architecture::Sm80, true}),
                         [](const auto &info) {
                           return std::string(nameOf(info.param.architecture)) + (info.param.isHalf ? "_f16" : "_bf16");
                         });

//===----------------------------------------------------------------------===//
// Products alone
//===----------------------------------------------------------------------===//

namespace {

/// Factors and the result are numbers of bfloat16, rounded to 2^-9 once.
constexpr double kOneRounding = 3e-3;

gpu::Program compiled(const char *text) {
  llvm::Expected<gpu::Program> program = test::compileText(text, {});
  if (!program) {
    ADD_FAILURE() << llvm::toString(program.takeError());
    return {};
  }
  return std::move(*program);
}

void checkVariants(const gpu::Program &program, const Data &data) {
  size_t most = 0;
  for (const gpu::Step &step : program.steps)
    most = std::max(most, step.variants.size());
  for (size_t variant = 0; variant < most; ++variant) {
    SCOPED_TRACE("variant " + std::to_string(variant));
    EXPECT_LE(differenceOf(program, data, variant, {}), kOneRounding);
  }
}

} // namespace

TEST(StridesTest, OperandsAndResultInAnotherOrderThanTheProduct) {
  const gpu::Program program =
      compiled(R"(func.func @main(%q: tensor<2x70x3x48xbf16>, %k: tensor<2x40x3x48xbf16>) -> tensor<2x70x3x40xbf16> {
  %a = graph.cast %q : (tensor<2x70x3x48xbf16>) -> tensor<2x70x3x48xf32>
  %b = graph.cast %k : (tensor<2x40x3x48xbf16>) -> tensor<2x40x3x48xf32>
  %s = graph.transpose %a {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x70x3x48xf32>) -> tensor<2x3x70x48xf32>
  %t = graph.transpose %b {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x40x3x48xf32>) -> tensor<2x3x48x40xf32>
  %y = graph.matmul %s, %t : (tensor<2x3x70x48xf32>, tensor<2x3x48x40xf32>) -> tensor<2x3x70x40xf32>
  %z = graph.transpose %y {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x70x40xf32>) -> tensor<2x70x3x40xf32>
  %o = graph.cast %z : (tensor<2x70x3x40xf32>) -> tensor<2x70x3x40xbf16>
  return %o : tensor<2x70x3x40xbf16>
})");
  ASSERT_EQ(program.steps.size(), 1u);
  EXPECT_NE(program.steps[0].why.find("transposes by strides: "), std::string::npos) << program.steps[0].why;
  const std::vector<float> q = randomNumbers(2 * 70 * 3 * 48, 1, 1), k = randomNumbers(2 * 40 * 3 * 48, 1, 2);
  Data data{{asBfloats(q), asBfloats(k)}, std::vector<double>(2 * 70 * 3 * 40, 0)};
  for (size_t b = 0; b < 2; ++b)
    for (size_t h = 0; h < 3; ++h)
      for (size_t i = 0; i < 70; ++i)
        for (size_t j = 0; j < 40; ++j)
          for (size_t d = 0; d < 48; ++d)
            data.expected[((b * 70 + i) * 3 + h) * 40 + j] +=
                double(q[((b * 70 + i) * 3 + h) * 48 + d]) * k[((b * 40 + j) * 3 + h) * 48 + d];
  checkVariants(program, data);
}

/// Whose columns of B lie side by side; the transposed tensor is also a result, of which there is a copy.
TEST(StridesTest, ATransposeThatIsAlsoAResultIsCopiedForThat) {
  const gpu::Program program = compiled(
      R"(func.func @main(%p: tensor<6x20x40xbf16>, %v: tensor<2x40x3x64xbf16>) -> (tensor<6x20x64xbf16>, tensor<2x3x40x64xbf16>) {
  %a = graph.cast %p : (tensor<6x20x40xbf16>) -> tensor<6x20x40xf32>
  %w = graph.transpose %v {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x40x3x64xbf16>) -> tensor<2x3x40x64xbf16>
  %f = graph.reshape %w : (tensor<2x3x40x64xbf16>) -> tensor<6x40x64xbf16>
  %b = graph.cast %f : (tensor<6x40x64xbf16>) -> tensor<6x40x64xf32>
  %y = graph.matmul %a, %b : (tensor<6x20x40xf32>, tensor<6x40x64xf32>) -> tensor<6x20x64xf32>
  %o = graph.cast %y : (tensor<6x20x64xf32>) -> tensor<6x20x64xbf16>
  return %o, %w : tensor<6x20x64xbf16>, tensor<2x3x40x64xbf16>
})");
  ASSERT_EQ(program.steps.size(), 2u);
  EXPECT_EQ(program.steps[0].kind, "matrix product");
  EXPECT_EQ(program.steps[1].kind, "elements");
  const std::vector<float> p = randomNumbers(6 * 20 * 40, 1, 1), v = randomNumbers(2 * 40 * 3 * 64, 1, 2);
  Data data{{asBfloats(p), asBfloats(v)}, std::vector<double>(6 * 20 * 64, 0)};
  for (size_t b = 0; b < 2; ++b)
    for (size_t h = 0; h < 3; ++h)
      for (size_t i = 0; i < 20; ++i)
        for (size_t d = 0; d < 64; ++d)
          for (size_t j = 0; j < 40; ++j)
            data.expected[((b * 3 + h) * 20 + i) * 64 + d] +=
                double(p[((b * 3 + h) * 20 + i) * 40 + j]) * v[((b * 40 + j) * 3 + h) * 64 + d];
  checkVariants(program, data);
}

/// A head of 8 columns is none of attention: the kernels of its parts, and why.
TEST(StridesTest, WhatIsNoAttentionSaysWhy) {
  const Case c{"narrow", 1, 2, 20, 30, 8};
  const gpu::Program program = compiled(textOf(c).c_str());
  EXPECT_TRUE(llvm::any_of(program.steps, [](const gpu::Step &step) {
    return step.why.find("attention of several kernels: its heads have 8 and 8 columns") != std::string::npos;
  }));
  EXPECT_LE(differenceOf(program, dataOf(c), 0, {}), kSeveralKernels);
}
