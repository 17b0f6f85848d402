//===- MmaTest.cpp - wgmma with its layouts, types and rules; mma.sync ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/PtxText.h"

#include <ostream>

using namespace tw::ptxtest;

namespace {

// ---- Operands -------------------------------------------------------------------------------------------------------------

/// A small whole number, so that every sum is exact in f32 and, with few terms, in f16.
int valueA(unsigned row, unsigned k) { return int((row * 7 + k * 3) % 5) - 2; }
int valueB(unsigned k, unsigned column) { return int((column * 5 + k * 11) % 7) - 3; }

uint32_t encoded(Type type, int value) {
  switch (type) {
  case Type::BF16:
    return floatToBfloat(float(value));
  case Type::F16:
    return floatToHalf(float(value));
  case Type::TF32:
    return bitsOfFloat(float(value));
  case Type::E4M3:
    return encodeFloat(value, e4m3Format);
  case Type::E5M2:
    return encodeFloat(value, e5m2Format);
  default:
    return uint8_t(value);
  }
}

unsigned elementBytes(Type type) { return type == Type::TF32 ? 4 : type == Type::BF16 || type == Type::F16 ? 2 : 1; }

/// How an operand lies in shared memory: the canonical layouts of the PTX manual, with the offsets that this test chooses.
struct Layout {
  unsigned rowBytes; // of the swizzle pattern: 128, 64, 32, or 16 for none
  bool mnMajor;
  /// Distances of the two kinds of 8-row or 16-byte blocks.
  uint32_t leading, stride;

  uint32_t offset(unsigned mn, unsigned k, unsigned bytes) const {
    uint32_t block, line, within; // base of the 8-line pattern, line in it, byte in the line
    if (!mnMajor) {
      const uint32_t byte = k * bytes;
      block = mn / 8 * stride + byte / rowBytes * leading;
      line = mn % 8;
      within = byte % rowBytes;
    } else if (rowBytes == 16) {
      block = mn / 8 * stride + k / 8 * leading;
      line = k % 8;
      within = mn % 8 * bytes;
    } else {
      const unsigned perRow = rowBytes / bytes;
      block = mn / perRow * leading + k / 8 * stride;
      line = k % 8;
      within = mn % perRow * bytes;
    }
    const unsigned chunks = rowBytes / 16, rowsPer128 = 128 / rowBytes;
    const unsigned swizzle = rowBytes == 16 ? 0 : line / rowsPer128 % chunks;
    return block + line * rowBytes + (within / 16 ^ swizzle) * 16 + within % 16;
  }
  uint64_t descriptor(uint32_t address) const {
    const uint64_t mode = rowBytes == 128 ? 1 : rowBytes == 64 ? 2 : rowBytes == 32 ? 3 : 0;
    return mode << 62 | uint64_t(stride >> 4) << 32 | uint64_t(leading >> 4) << 16 | address >> 4;
  }
};

struct WgmmaCase {
  const char *name;
  Type type, accumulator;
  unsigned n;
  Layout a, b;
  bool aInRegisters = false;
  int scaleA = 1, scaleB = 1;
};
void PrintTo(const WgmmaCase &test, std::ostream *out) { *out << test.name; }

const char *typeName(Type type) {
  return type == Type::BF16   ? "bf16"
         : type == Type::F16  ? "f16"
         : type == Type::TF32 ? "tf32"
         : type == Type::S8   ? "s8"
         : type == Type::U8   ? "u8"
         : type == Type::E4M3 ? "e4m3"
         : type == Type::E5M2 ? "e5m2"
         : type == Type::F32  ? "f32"
                              : "s32";
}

constexpr uint32_t offsetB = 16384, imageBytes = 65536;

std::string registerList(const std::string &prefix, unsigned count) {
  std::string result;
  for (unsigned i = 0; i < count; ++i)
    result += (i ? ", " : "") + prefix + std::to_string(i);
  return result;
}

unsigned accumulatorRegisters(const WgmmaCase &test) { return test.accumulator == Type::F16 ? test.n / 4 : test.n / 2; }

std::string wgmmaInstruction(const WgmmaCase &test) {
  const unsigned k = 32 / elementBytes(test.type);
  const bool integer = test.accumulator == Type::S32, sixteen = elementBytes(test.type) == 2;
  std::string text = "wgmma.mma_async.sync.aligned.m64n" + std::to_string(test.n) + "k" + std::to_string(k) + "." +
                     typeName(test.accumulator) + "." + typeName(test.type) + "." + typeName(test.type) + " {" +
                     registerList("%d", accumulatorRegisters(test)) + "}, " +
                     (test.aInRegisters ? "{%a0, %a1, %a2, %a3}" : "%da") + ", %db, %accumulate";
  if (!integer)
    text += ", " + std::to_string(test.scaleA) + ", " + std::to_string(test.scaleB);
  if (sixteen)
    text += std::string(test.aInRegisters ? "" : test.a.mnMajor ? ", 1" : ", 0") + (test.b.mnMajor ? ", 1" : ", 0");
  return text + ";\n";
}

/// Copies an image to shared memory, multiplies twice into the same accumulators and stores them, 128 words apart.
std::string wgmmaText(const WgmmaCase &test) {
  const unsigned registers = accumulatorRegisters(test);
  std::string body =
      ".reg .b64 %image, %out, %fragments, %rd<4>, %da, %db;\n.reg .b32 %t, %sm, %r<4>, %a<4>, %d<128>;\n"
      ".reg .pred %p, %accumulate;\nld.param.u64 %image, [image];\nld.param.u64 %fragments, [fragments];\n"
      "ld.param.u64 %out, [out];\nld.param.u64 %da, [a];\nld.param.u64 %db, [b];\nmov.u32 %t, %tid.x;\n"
      "mov.u64 %rd0, dynamic;\ncvt.u32.u64 %sm, %rd0;\nshl.b32 %r0, %t, 4;\ncopy:\ncvt.u64.u32 %rd1, %r0;\n"
      "add.s64 %rd1, %image, %rd1;\nadd.s32 %r1, %sm, %r0;\nld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%rd1];\n"
      "st.shared.v4.u32 [%r1], {%a0, %a1, %a2, %a3};\nadd.s32 %r0, %r0, 2048;\nsetp.lt.u32 %p, %r0, " +
      std::to_string(imageBytes) +
      ";\n@%p bra copy;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n"
      "mul.wide.u32 %rd1, %t, 16;\nadd.s64 %rd1, %fragments, %rd1;\nld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%rd1];\n"
      "setp.ne.u32 %accumulate, 0, 0;\nwgmma.fence.sync.aligned;\n";
  body += wgmmaInstruction(test) + "setp.eq.u32 %accumulate, 0, 0;\n" + wgmmaInstruction(test);
  body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nmul.wide.u32 %rd2, %t, 4;\nadd.s64 %rd2, %out, "
          "%rd2;\n";
  for (unsigned i = 0; i < registers; ++i)
    body += "st.global.b32 [%rd2+" + std::to_string(i * 512) + "], %d" + std::to_string(i) + ";\n";
  return moduleText(".param .u64 image, .param .u64 fragments, .param .u64 out, .param .u64 a, .param .u64 b", body + "ret;",
                    ".maxntid 128, 1, 1");
}

/// Registers of all threads.
std::vector<uint32_t> runWgmma(const WgmmaCase &test, const std::string &text, LaunchOptions options = {}) {
  const unsigned bytes = elementBytes(test.type), k = 32 / bytes;
  std::vector<uint8_t> image(imageBytes, 0x5a);
  for (unsigned line = 0; line < k; ++line) {
    for (unsigned row = 0; row < 64; ++row) {
      const uint32_t code = encoded(test.type, valueA(row, line));
      std::memcpy(&image[test.a.offset(row, line, bytes)], &code, bytes);
    }
    for (unsigned column = 0; column < test.n; ++column) {
      const uint32_t code = encoded(test.type, valueB(line, column));
      std::memcpy(&image[offsetB + test.b.offset(column, line, bytes)], &code, bytes);
    }
  }
  // Fragments of A: warp w has rows 16 w to 16 w + 15. Register i: row g or g + 8 by turns, from byte 4 t or 16 + 4 t of k on.
  std::vector<uint32_t> fragments(128 * 4, 0);
  for (unsigned thread = 0; thread < 128; ++thread)
    for (unsigned i = 0; i < 4; ++i)
      for (unsigned e = 0; e < 4 / bytes; ++e) {
        const unsigned row = thread / 32 * 16 + thread % 32 / 4 + (i & 1) * 8, byte = thread % 4 * 4 + (i >> 1) * 16;
        fragments[thread * 4 + i] |= encoded(test.type, valueA(row, byte / bytes + e)) << (8 * bytes * e);
      }
  Device device;
  const DevicePointer out = device.upload(std::vector<uint32_t>(128 * 128, 0), "out");
  LaunchShape shape;
  shape.block.x = 128;
  shape.dynamicSharedBytes = imageBytes;
  device.launch(*Module::parse(text), "k", shape,
                Arguments()
                    .add(device.upload(image))
                    .add(device.upload(fragments))
                    .add(out)
                    .add(test.a.descriptor(sharedBase))
                    .add(test.b.descriptor(sharedBase + offsetB)),
                options);
  return device.download<uint32_t>(out, 128 * accumulatorRegisters(test));
}

class WgmmaTest : public testing::TestWithParam<WgmmaCase> {};

TEST_P(WgmmaTest, MultipliesTheMatricesThatItsDescriptorsDescribe) {
  const WgmmaCase &test = GetParam();
  const unsigned k = 32 / elementBytes(test.type);
  for (Timing timing : {Timing::Late, Timing::Early}) {
    LaunchOptions options;
    options.timing = timing;
    const auto registers = runWgmma(test, wgmmaText(test), options);
    for (unsigned row = 0; row < 64; ++row)
      for (unsigned column = 0; column < test.n; ++column) {
        int sum = 0;
        for (unsigned i = 0; i < k; ++i)
          sum += 2 * valueA(row, i) * valueB(i, column) * test.scaleA * test.scaleB;
        if (test.type == Type::U8) {
          sum = 0;
          for (unsigned i = 0; i < k; ++i)
            sum += 2 * int(uint8_t(valueA(row, i))) * int(uint8_t(valueB(i, column)));
        }
        // d(row, column): thread 32 (row / 16) + 4 (row % 8) + column % 8 / 2; two columns by two row halves for each 8 columns.
        const unsigned thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2, half = row % 16 / 8;
        if (test.accumulator == Type::F16) {
          const uint32_t both = registers[(column / 8 * 2 + half) * 128 + thread];
          EXPECT_EQ(uint16_t(both >> (column % 2 * 16)), floatToHalf(float(sum))) << row << " " << column;
        } else {
          const uint32_t word = registers[(column / 8 * 4 + half * 2 + column % 2) * 128 + thread];
          EXPECT_EQ(test.accumulator == Type::S32 ? double(int32_t(word)) : double(bitCast<float>(word)), sum)
              << row << " " << column;
        }
      }
  }
}

// K-major: 8 rows of the pattern follow each other. MN-major: blocks of rowBytes / 2 rows, and of 8 lines of k.
constexpr Layout k128{128, false, 16, 1024}, k64{64, false, 16, 512}, k32{32, false, 16, 256}, k16{16, false, 2048, 128};
constexpr Layout mn128{128, true, 2048, 1024}, mn64{64, true, 1024, 512}, mn32{32, true, 512, 256}, mn16{16, true, 4096, 128};

INSTANTIATE_TEST_SUITE_P(Layouts, WgmmaTest,
                         testing::Values(WgmmaCase{"bf16_128", Type::BF16, Type::F32, 64, k128, k128},
                                         WgmmaCase{"bf16_64", Type::BF16, Type::F32, 32, k64, k64},
                                         WgmmaCase{"bf16_32", Type::BF16, Type::F32, 24, k32, k32},
                                         WgmmaCase{"bf16_none", Type::BF16, Type::F32, 16, k16, k16},
                                         WgmmaCase{"bf16_n256", Type::BF16, Type::F32, 256, k128, k128},
                                         WgmmaCase{"bf16_n8", Type::BF16, Type::F32, 8, k128, k128},
                                         WgmmaCase{"bf16_b_mn128", Type::BF16, Type::F32, 128, k128, mn128},
                                         WgmmaCase{"bf16_b_mn64", Type::BF16, Type::F32, 96, k128, mn64},
                                         WgmmaCase{"bf16_b_mn32", Type::BF16, Type::F32, 64, k64, mn32},
                                         WgmmaCase{"bf16_b_mn_none", Type::BF16, Type::F32, 64, k128, mn16},
                                         WgmmaCase{"bf16_a_mn128", Type::BF16, Type::F32, 64, mn128, k128},
                                         WgmmaCase{"bf16_negative", Type::BF16, Type::F32, 64, k128, k128, false, -1, 1},
                                         WgmmaCase{"bf16_twice_negative", Type::BF16, Type::F32, 64, k128, k128, false, -1,
                                                   -1}),
                         [](const auto &info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(Types, WgmmaTest,
                         testing::Values(WgmmaCase{"f16", Type::F16, Type::F32, 64, k128, k128},
                                         WgmmaCase{"f16_f16", Type::F16, Type::F16, 64, k128, k128},
                                         WgmmaCase{"tf32", Type::TF32, Type::F32, 64, k128, k128},
                                         WgmmaCase{"s8", Type::S8, Type::S32, 96, k128, k128},
                                         WgmmaCase{"s8_64", Type::S8, Type::S32, 32, k64, k64},
                                         WgmmaCase{"u8", Type::U8, Type::S32, 32, k128, k128},
                                         WgmmaCase{"e4m3", Type::E4M3, Type::F32, 64, k128, k128},
                                         WgmmaCase{"e5m2", Type::E5M2, Type::F32, 64, k128, k128},
                                         WgmmaCase{"bf16_registers", Type::BF16, Type::F32, 64, k128, mn128, true},
                                         WgmmaCase{"f16_registers", Type::F16, Type::F32, 64, k128, k128, true},
                                         WgmmaCase{"tf32_registers", Type::TF32, Type::F32, 64, k128, k128, true},
                                         WgmmaCase{"s8_registers", Type::S8, Type::S32, 64, k128, k128, true}),
                         [](const auto &info) { return std::string(info.param.name); });

// ---- Planted faults -------------------------------------------------------------------------------------------------------

const WgmmaCase plain{"plain", Type::BF16, Type::F32, 64, k128, k128};
const WgmmaCase fromRegisters{"registers", Type::BF16, Type::F32, 64, k128, k128, true};

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

void expectFault(ErrorKind kind, const std::string &message, const WgmmaCase &test, const std::string &from,
                 const std::string &to) {
  for (Timing timing : {Timing::Late, Timing::Early, Timing::Random}) {
    LaunchOptions options;
    options.timing = timing;
    EXPECT_FAULT(kind, message, runWgmma(test, replaced(wgmmaText(test), from, to), options));
  }
}

const std::string waitText = "wgmma.wait_group.sync.aligned 0;\n", commitText = "wgmma.commit_group.sync.aligned;\n",
                  fenceText = "wgmma.fence.sync.aligned;\n";

TEST(WgmmaFaultTest, AccumulatorsAreNotReadBeforeTheWait) {
  expectFault(ErrorKind::InFlight, "reads %d0, which a wgmma in flight writes", plain, waitText, "");
  expectFault(ErrorKind::InFlight, "reads %d0, which a wgmma in flight writes", plain, waitText,
              "wgmma.wait_group.sync.aligned 1;\n");
  expectFault(ErrorKind::InFlight, "reads %d0, which a wgmma in flight writes", plain, commitText, "");
}
TEST(WgmmaFaultTest, RegistersAreNotWrittenBeforeTheWait) {
  expectFault(ErrorKind::InFlight, "writes %d3, which a wgmma in flight writes", plain, waitText,
              "mov.b32 %d3, 0;\n" + waitText);
  expectFault(ErrorKind::InFlight, "writes %a1, which a wgmma in flight reads", fromRegisters, waitText,
              "mov.b32 %a1, 0;\n" + waitText);
}
TEST(WgmmaFaultTest, RegistersNeedAFence) {
  expectFault(ErrorKind::InFlight, "has executed no wgmma.fence", plain, fenceText, "");
  expectFault(ErrorKind::InFlight, "touched since the last wgmma.fence", plain, fenceText, fenceText + "mov.b32 %d5, 0;\n");
  expectFault(ErrorKind::InFlight, "reads A from %a2", fromRegisters, fenceText, fenceText + "mov.b32 %a2, 0;\n");
}
TEST(WgmmaFaultTest, AccumulatorsNeedValues) {
  expectFault(ErrorKind::Uninitialized, "reads %d0, which nobody has written", plain, "setp.ne.u32 %accumulate, 0, 0;",
              "setp.eq.u32 %accumulate, 0, 0;");
}
TEST(WgmmaFaultTest, SharedMemoryNeedsAProxyFence) {
  expectFault(ErrorKind::Proxy, "without a fence.proxy.async", plain, "fence.proxy.async.shared::cta;\n", "");
  expectFault(ErrorKind::Proxy, "without a fence.proxy.async", plain, "fence.proxy.async.shared::cta;\n",
              "fence.proxy.async.global;\n");
}
TEST(WgmmaFaultTest, SharedMemoryIsNotOverwrittenBeforeTheWait) {
  expectFault(ErrorKind::InFlight, "has yet to read", plain, waitText, "st.shared.u32 [%sm], 0;\n" + waitText);
}
TEST(WgmmaFaultTest, DescriptorsOutsideTheirFields) {
  expectFault(ErrorKind::Misaligned, "bits outside its fields", plain, fenceText, fenceText + "or.b64 %da, %da, 0x8000;\n");
  expectFault(ErrorKind::Misaligned, "does not begin at its swizzle pattern of 1024 bytes", plain, fenceText,
              fenceText + "add.s64 %da, %da, 8;\n");
  expectFault(ErrorKind::OutOfBounds, "at shared address", plain, fenceText, fenceText + "add.s64 %db, %db, 4096;\n");
}
TEST(WgmmaFaultTest, WrongSwizzleOrStrideGivesWrongValues) {
  const auto good = runWgmma(plain, wgmmaText(plain));
  const auto swizzle =
      runWgmma(plain, replaced(wgmmaText(plain), fenceText, fenceText + "xor.b64 %db, %db, 0xC000000000000000;\n"));
  const auto stride = runWgmma(plain, replaced(wgmmaText(plain), fenceText, fenceText + "sub.s64 %db, %db, 0x1000000000;\n"));
  EXPECT_NE(good, swizzle);
  EXPECT_NE(good, stride);
}
TEST(WgmmaFaultTest, AllFourWarpsTakePart) {
  expectFault(ErrorKind::Barrier, "which has exited", plain, fenceText, "setp.ge.u32 %p, %t, 96;\n@%p ret;\n" + fenceText);
  expectFault(ErrorKind::Barrier, "another scale-d than thread 0", plain, fenceText,
              fenceText + "setp.lt.u32 %accumulate, %t, 0;\n"
                          "setp.ge.u32 %accumulate, %t, 64;\n");
}

// ---- mma.sync -------------------------------------------------------------------------------------------------------------

struct MmaCase {
  const char *name, *instruction;
  Type type, accumulator;
  unsigned k;
};
void PrintTo(const MmaCase &test, std::ostream *out) { *out << test.name; }

class MmaSyncTest : public testing::TestWithParam<MmaCase> {};

/// Fragments as the PTX manual gives them, by element i: g = lane / 4, t = lane % 4, e elements in a register.
TEST_P(MmaSyncTest, MultipliesFragments) {
  const MmaCase &test = GetParam();
  const unsigned e = 4 / elementBytes(test.type), aRegisters = 16 * test.k / 32 / e, bRegisters = aRegisters / 2;
  const bool half = test.accumulator == Type::F16;
  std::vector<uint32_t> fragments(32 * 8, 0);
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned g = lane / 4, t = lane % 4;
    for (unsigned i = 0; i < aRegisters * e; ++i) {
      const unsigned row = g + (i / e % 2 ? 8 : 0), k = t * e + i % e + (i >= 2 * e ? 4 * e : 0);
      fragments[lane * 8 + i / e] |= encoded(test.type, valueA(row, k)) << (32 / e * (i % e));
    }
    for (unsigned i = 0; i < bRegisters * e; ++i) {
      const unsigned k = t * e + i % e + (i >= e ? 4 * e : 0);
      fragments[lane * 8 + 4 + i / e] |= encoded(test.type, valueB(k, g)) << (32 / e * (i % e));
    }
  }
  const std::string start = half ? "mov.b32 %d0, 0x3c003c00;\nmov.b32 %d1, 0x3c003c00;\n" // 1 in every element of C
                                 : "mov.b32 %d0, ONE;\nmov.b32 %d1, ONE;\nmov.b32 %d2, ONE;\nmov.b32 %d3, ONE;\n";
  std::string body =
      ".reg .b64 %in, %out, %rd<2>;\n.reg .b32 %t, %a<4>, %b<4>, %d<4>;\nld.param.u64 %in, [in];\nld.param.u64 %out, [out];\n"
      "mov.u32 %t, %tid.x;\nmul.wide.u32 %rd0, %t, 32;\nadd.s64 %rd0, %rd0, %in;\nld.global.v4.u32 {%a0, %a1, %a2, %a3}, "
      "[%rd0];\n"
      "ld.global.v4.u32 {%b0, %b1, %b2, %b3}, [%rd0+16];\n" +
      start;
  for (size_t at; (at = body.find("ONE")) != std::string::npos;)
    body.replace(at, 3, test.accumulator == Type::S32 ? "1" : "0f3F800000");
  const std::string d = "{" + registerList("%d", half ? 2 : 4) + "}";
  body += std::string(test.instruction) + " " + d + ", {" + registerList("%a", aRegisters) + "}, {" +
          registerList("%b", bRegisters) + "}, " + d + ";\nmul.wide.u32 %rd1, %t, 4;\nadd.s64 %rd1, %rd1, %out;\n";
  for (unsigned i = 0; i < (half ? 2u : 4u); ++i)
    body += "st.global.b32 [%rd1+" + std::to_string(128 * i) + "], %d" + std::to_string(i) + ";\n";
  Device device;
  const DevicePointer out = device.allocate(512);
  LaunchShape shape;
  shape.block.x = 32;
  device.launch(*Module::parse(moduleText(".param .u64 in, .param .u64 out", body + "ret;")), "k", shape,
                Arguments().add(device.upload(fragments)).add(out));
  const auto result = device.download<uint32_t>(out, half ? 64 : 128);
  for (unsigned row = 0; row < 16; ++row)
    for (unsigned column = 0; column < 8; ++column) {
      int sum = 1;
      for (unsigned i = 0; i < test.k; ++i)
        sum += valueA(row, i) * valueB(i, column);
      const unsigned lane = row % 8 * 4 + column / 2, i = (row >= 8 ? 2 : 0) + column % 2;
      if (half)
        EXPECT_EQ(uint16_t(result[i / 2 * 32 + lane] >> (i % 2 * 16)), floatToHalf(float(sum)));
      else if (test.accumulator == Type::S32)
        EXPECT_EQ(int32_t(result[i * 32 + lane]), sum);
      else
        EXPECT_EQ(bitCast<float>(result[i * 32 + lane]), float(sum));
    }
}

INSTANTIATE_TEST_SUITE_P(
    Types, MmaSyncTest,
    testing::Values(MmaCase{"bf16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", Type::BF16, Type::F32, 16},
                    MmaCase{"bf16_k8", "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", Type::BF16, Type::F32, 8},
                    MmaCase{"f16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", Type::F16, Type::F32, 16},
                    MmaCase{"f16_f16", "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", Type::F16, Type::F16, 16},
                    MmaCase{"tf32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", Type::TF32, Type::F32, 8},
                    MmaCase{"tf32_k4", "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", Type::TF32, Type::F32, 4},
                    MmaCase{"s8", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", Type::S8, Type::S32, 32},
                    MmaCase{"s8_k16", "mma.sync.aligned.m16n8k16.row.col.satfinite.s32.s8.s8.s32", Type::S8, Type::S32, 16}),
    [](const auto &info) { return std::string(info.param.name); });

TEST(MmaDecodeTest, ShapesAndTypesThatDoNotExist) {
  EXPECT_FAULT(
      ErrorKind::Unsupported, "do not go together",
      Words{}.run("mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32 {%r0, %r1, %r2, %r3}, {%r0, %r1, %r2, %r3}, {%r0, %r1}, "
                  "{%r0, %r1, %r2, %r3};"));
  WgmmaCase odd = plain;
  odd.n = 12;
  EXPECT_FAULT(ErrorKind::Unsupported, "unknown shape", Module::parse(wgmmaText(odd)));
  EXPECT_FAULT(ErrorKind::Unsupported, "31 registers but must be 32",
               Module::parse(replaced(wgmmaText(plain), "%d30, %d31", "%d30")));
}

} // namespace
