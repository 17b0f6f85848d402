//===- GemmTest.cpp - A warp-specialised GEMM, and every fault that can be planted in it ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/PtxText.h"

#include <cmath>

using namespace tw::ptxtest;

namespace {

// C [64, 64 tiles] = A [64, 64 kt] * B [64 tiles, 64 kt]^T in bf16: one thread of warpgroup 0 loads boxes of 64 x 64 by TMA into two
// stages, warpgroup 1 multiplies them, and stores its tile by TMA through one buffer.
std::string gemmText() {
  std::string accumulators;
  for (unsigned i = 0; i < 32; ++i)
    accumulators += (i ? ", %f" : "%f") + std::to_string(i);
  std::string text = R"(
.reg .b64 %a, %b, %c, %da, %db, %rd<4>;
.reg .b32 %t, %sm, %bar, %out, %kt, %tiles, %tile, %k, %stage, %phase, %full, %empty, %at, %x, %y, %row, %r<8>;
.reg .f32 %f<32>;
.reg .pred %p, %q, %lead, %more, %done;
ld.param.u32 %kt, [kt];
ld.param.u32 %tiles, [tiles];
mov.b64 %a, a;
cvta.param.u64 %a, %a;
mov.b64 %b, b;
cvta.param.u64 %b, %b;
mov.b64 %c, c;
cvta.param.u64 %c, %c;
mov.u32 %t, %tid.x;
mov.u64 %rd0, dynamic;
cvt.u32.u64 %sm, %rd0;
add.s32 %bar, %sm, 40960;
setp.eq.u32 %lead, %t, 0;
@!%lead bra begin;
mbarrier.init.shared::cta.b64 [%bar], 1;
mbarrier.init.shared::cta.b64 [%bar+8], 1;
mbarrier.init.shared::cta.b64 [%bar+16], 1;
mbarrier.init.shared::cta.b64 [%bar+24], 1;
fence.mbarrier_init.release.cluster;
begin:
bar.sync 0;
mov.b32 %stage, 0;
mov.b32 %tile, 0;
setp.ge.u32 %p, %t, 128;
@%p bra consumer;

setmaxnreg.dec.sync.aligned.u32 40;
@!%lead ret;
mov.b32 %phase, 1;
load_tile:
mov.b32 %k, 0;
load:
mad.lo.u32 %full, %stage, 8, %bar;
mad.lo.u32 %at, %stage, 16384, %sm;
{
.reg .pred done;
wait:
mbarrier.try_wait.parity.shared::cta.b64 done, [%full+16], %phase;
@!done bra wait;
}
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], 16384;
shl.b32 %x, %k, 6;
shl.b32 %y, %tile, 6;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%at], [%a, {%x, 0}], [%full];
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%at+8192], [%b, {%x, %y}], [%full];
xor.b32 %stage, %stage, 1;
setp.eq.u32 %p, %stage, 0;
@%p xor.b32 %phase, %phase, 1;
add.u32 %k, %k, 1;
setp.lt.u32 %p, %k, %kt;
@%p bra load;
add.u32 %tile, %tile, 1;
setp.lt.u32 %p, %tile, %tiles;
@%p bra load_tile;
ret;

consumer:
setmaxnreg.inc.sync.aligned.u32 232;
setp.eq.u32 %lead, %t, 128;
mov.b32 %phase, 0;
tile:
mov.b32 %k, 0;
multiply:
mad.lo.u32 %full, %stage, 8, %bar;
{
.reg .pred done;
wait:
mbarrier.try_wait.parity.shared::cta.b64 done, [%full], %phase;
@!done bra wait;
}
mad.lo.u32 %at, %stage, 16384, %sm;
shr.u32 %r0, %at, 4;
cvt.u64.u32 %da, %r0;
or.b64 %da, %da, 0x4000004000010000;
add.s64 %db, %da, 512;
setp.ne.u32 %more, %k, 0;
wgmma.fence.sync.aligned;
)";
  for (unsigned step = 0; step < 4; ++step) {
    text += "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" + accumulators + "}, %da, %db, %more, 1, 1, 0, 0;\n";
    if (step < 3)
      text += "add.s64 %da, %da, 2;\nadd.s64 %db, %db, 2;\n";
    if (step == 0)
      text += "setp.eq.u32 %more, 0, 0;\n";
  }
  text += R"(wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
@%lead mbarrier.arrive.shared::cta.b64 _, [%full+16];
xor.b32 %stage, %stage, 1;
setp.eq.u32 %p, %stage, 0;
@%p xor.b32 %phase, %phase, 1;
add.u32 %k, %k, 1;
setp.lt.u32 %p, %k, %kt;
@%p bra multiply;

@%lead cp.async.bulk.wait_group.read 0;
bar.sync 1, 128;
and.b32 %r0, %t, 127;
shr.u32 %r1, %r0, 5;
and.b32 %r2, %r0, 31;
shr.u32 %r3, %r2, 2;
mad.lo.u32 %row, %r1, 16, %r3;
and.b32 %r4, %r2, 3;
mad.lo.u32 %out, %row, 128, %sm;
mad.lo.u32 %out, %r4, 4, %out;
add.s32 %out, %out, 32768;
)";
  // Row g of each 8 has its chunks XORed with g: the swizzle of 128 bytes.
  for (unsigned j = 0; j < 8; ++j) {
    text += "xor.b32 %r5, %r3, " + std::to_string(j) + ";\nmad.lo.u32 %r5, %r5, 16, %out;\n";
    for (unsigned half = 0; half < 2; ++half) {
      const std::string low = "%f" + std::to_string(j * 4 + half * 2), high = "%f" + std::to_string(j * 4 + half * 2 + 1);
      text +=
          "cvt.rn.bf16x2.f32 %r6, " + high + ", " + low + ";\nst.shared.b32 [%r5+" + std::to_string(half * 1024) + "], %r6;\n";
    }
  }
  text += R"(fence.proxy.async.shared::cta;
bar.sync 1, 128;
@!%lead bra stored;
shl.b32 %x, %tile, 6;
add.s32 %at, %sm, 32768;
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%c, {%x, 0}], [%at];
cp.async.bulk.commit_group;
stored:
add.u32 %tile, %tile, 1;
setp.lt.u32 %p, %tile, %tiles;
@%p bra tile;
@%lead cp.async.bulk.wait_group 0;
ret;
)";
  return moduleText(".param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .align 64 .b8 c[128], .param .u32 kt, "
                    ".param .u32 tiles",
                    text, ".maxntid 256, 1, 1");
}

constexpr unsigned blocks = 3, tiles = 3, depth = 64 * blocks, columns = 64 * tiles;

float elementA(unsigned row, unsigned k) { return float(int((row * 13 + k * 5) % 9) - 4); }
float elementB(unsigned column, unsigned k) { return float(int((column * 3 + k * 7) % 11) - 5); }

/// Runs the kernel; true if C is right.
bool isRight(const std::string &text, const LaunchOptions &options) {
  std::vector<uint16_t> a(64 * depth), b(columns * depth);
  for (unsigned k = 0; k < depth; ++k) {
    for (unsigned row = 0; row < 64; ++row)
      a[row * depth + k] = floatToBfloat(elementA(row, k));
    for (unsigned column = 0; column < columns; ++column)
      b[column * depth + k] = floatToBfloat(elementB(column, k));
  }
  Device device;
  TensorMap map;
  map.swizzle = Swizzle::B128;
  map.box = {64, 64, 1, 1, 1};
  map.dims = {depth, 64, 1, 1, 1};
  map.strides = {depth * 2};
  map.address = device.upload(a, "A");
  const EncodedTensorMap mapA = device.encode(map);
  map.dims[1] = columns;
  map.address = device.upload(b, "B");
  const EncodedTensorMap mapB = device.encode(map);
  map.dims = {columns, 64, 1, 1, 1};
  map.strides = {columns * 2};
  const DevicePointer c = map.address = device.allocate(64 * columns * 2, "C");
  const EncodedTensorMap mapC = device.encode(map);
  LaunchShape shape;
  shape.block.x = 256;
  shape.dynamicSharedBytes = 40960 + 32;
  device.launch(*Module::parse(text), "k", shape, Arguments().add(mapA).add(mapB).add(mapC).add(blocks).add(tiles), options);
  const auto result = device.download<uint16_t>(c, 64 * columns);
  for (unsigned row = 0; row < 64; ++row)
    for (unsigned column = 0; column < columns; ++column) {
      float sum = 0; // whole numbers: exact
      for (unsigned k = 0; k < depth; ++k)
        sum += elementA(row, k) * elementB(column, k);
      if (result[row * columns + column] != floatToBfloat(sum))
        return false;
    }
  return true;
}

/// What a suite runs for every kernel: both extremes of time and order, and a few seeds.
std::vector<LaunchOptions> everyOptions() {
  std::vector<LaunchOptions> result;
  for (Timing timing : {Timing::Late, Timing::Early})
    for (ThreadOrder order : {ThreadOrder::Forward, ThreadOrder::Reverse}) {
      result.emplace_back();
      result.back().timing = timing;
      result.back().order = order;
    }
  for (uint32_t seed = 0; seed < 6; ++seed) {
    result.emplace_back();
    result.back().timing = seed % 3 == 0 ? Timing::Late : seed % 3 == 1 ? Timing::Early : Timing::Random;
    result.back().order = ThreadOrder::Random;
    result.back().seed = seed;
  }
  return result;
}

TEST(GemmTest, IsRightInEveryTimingAndOrder) {
  const std::string text = gemmText();
  for (const LaunchOptions &options : everyOptions())
    EXPECT_TRUE(isRight(text, options)) << int(options.timing) << " " << int(options.order) << " " << options.seed;
}

struct Fault {
  const char *name, *from, *to;
  unsigned occurrence = 0; // of `from` in the text
};
void PrintTo(const Fault &fault, std::ostream *out) { *out << fault.name; }

class GemmFaultTest : public testing::TestWithParam<Fault> {};

/// A kernel with a fault gives an error or a wrong value under some timing and order.
TEST_P(GemmFaultTest, IsFound) {
  const Fault &fault = GetParam();
  std::string text = gemmText();
  size_t at = text.find(fault.from);
  for (unsigned i = 0; i < fault.occurrence && at != std::string::npos; ++i)
    at = text.find(fault.from, at + 1);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, std::string(fault.from).size(), fault.to);
  for (const LaunchOptions &options : everyOptions())
    try {
      if (!isRight(text, options))
        return;
    } catch (const Error &error) {
      EXPECT_NE(error.kind, ErrorKind::Parse) << error.what();
      EXPECT_NE(error.kind, ErrorKind::Launch) << error.what();
      return;
    }
  FAIL() << "not found";
}

INSTANTIATE_TEST_SUITE_P(
    Waits, GemmFaultTest,
    testing::Values(Fault{"producer_does_not_wait", "done, [%full+16], %phase;\n@!done bra wait;", "done, [%full+16], %phase;"},
                    Fault{"consumer_does_not_wait", "done, [%full], %phase;\n@!done bra wait;", "done, [%full], %phase;"},
                    Fault{"producer_phase", "mov.b32 %phase, 1;", "mov.b32 %phase, 0;"},
                    Fault{"consumer_phase", "mov.b32 %phase, 0;", "mov.b32 %phase, 1;"},
                    Fault{"producer_keeps_its_phase", "@%p xor.b32 %phase, %phase, 1;", ""},
                    Fault{"consumer_keeps_its_phase", "@%p xor.b32 %phase, %phase, 1;", "", 1},
                    Fault{"no_wgmma_wait", "wgmma.wait_group.sync.aligned 0;", ""},
                    Fault{"wgmma_wait_1", "wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 1;"},
                    Fault{"no_wgmma_commit", "wgmma.commit_group.sync.aligned;", ""},
                    Fault{"stage_released_before_the_wait",
                          "wgmma.wait_group.sync.aligned 0;\n@%lead mbarrier.arrive.shared::cta.b64 _, [%full+16];",
                          "@%lead mbarrier.arrive.shared::cta.b64 _, [%full+16];\nwgmma.wait_group.sync.aligned 0;"},
                    Fault{"stage_not_released", "@%lead mbarrier.arrive.shared::cta.b64 _, [%full+16];", ""},
                    Fault{"store_buffer_not_waited_for", "@%lead cp.async.bulk.wait_group.read 0;", ""},
                    Fault{"store_not_waited_for", "@%lead cp.async.bulk.wait_group 0;", ""},
                    Fault{"store_not_committed", "cp.async.bulk.commit_group;", ""}),
    [](const auto &info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(Barriers, GemmFaultTest,
                         testing::Values(Fault{"no_barrier_after_init", "bar.sync 0;", ""},
                                         Fault{"no_barrier_before_the_buffer", "bar.sync 1, 128;", ""},
                                         Fault{"no_barrier_before_the_store", "bar.sync 1, 128;", "", 1},
                                         Fault{"barrier_of_64_threads", "bar.sync 1, 128;", "bar.sync 1, 64;", 1},
                                         Fault{"barrier_of_256_threads", "bar.sync 1, 128;", "bar.sync 1, 256;", 1},
                                         Fault{"all_threads_release", "@%lead mbarrier.arrive.shared::cta.b64 _, [%full+16];",
                                               "mbarrier.arrive.shared::cta.b64 _, [%full+16];"},
                                         Fault{"wrong_barrier_released", "_, [%full+16];", "_, [%full];"},
                                         Fault{"full_expects_two", "[%bar], 1;", "[%bar], 2;"},
                                         Fault{"empty_expects_two", "[%bar+16], 1;", "[%bar+16], 2;"},
                                         Fault{"barrier_not_initialised", "mbarrier.init.shared::cta.b64 [%bar+24], 1;", ""},
                                         Fault{"too_many_bytes", "[%full], 16384;", "[%full], 16400;"},
                                         Fault{"too_few_bytes", "[%full], 16384;", "[%full], 8192;"},
                                         Fault{"no_bytes", "[%full], 16384;", "[%full], 0;"},
                                         Fault{"no_registers_given_back", "setmaxnreg.dec.sync.aligned.u32 40;",
                                               "setmaxnreg.dec.sync.aligned.u32 248;\nbar.sync 2, 256;"}),
                         [](const auto &info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(Fences, GemmFaultTest,
                         testing::Values(Fault{"no_fence_after_init", "fence.mbarrier_init.release.cluster;", ""},
                                         Fault{"no_proxy_fence", "fence.proxy.async.shared::cta;", ""},
                                         Fault{"proxy_fence_of_one_thread", "fence.proxy.async.shared::cta;",
                                               "@%lead fence.proxy.async.shared::cta;"},
                                         Fault{"proxy_fence_of_global_memory", "fence.proxy.async.shared::cta;",
                                               "fence.proxy.async.global;"},
                                         Fault{"no_wgmma_fence", "wgmma.fence.sync.aligned;", ""}),
                         [](const auto &info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Addresses, GemmFaultTest,
    testing::Values(Fault{"no_swizzle_in_the_descriptor", "0x4000004000010000", "0x0000004000010000"},
                    Fault{"swizzle_of_64_bytes", "0x4000004000010000", "0x8000004000010000"},
                    Fault{"stride_of_512_bytes", "0x4000004000010000", "0x4000002000010000"},
                    Fault{"step_of_k", "add.s64 %da, %da, 2;", "add.s64 %da, %da, 4;"},
                    Fault{"b_at_a", "add.s64 %db, %da, 512;", "add.s64 %db, %da, 0;"},
                    Fault{"first_product_accumulates", "setp.ne.u32 %more, %k, 0;", "setp.eq.u32 %more, 0, 0;"},
                    Fault{"later_products_do_not", "setp.eq.u32 %more, 0, 0;", ""},
                    Fault{"no_swizzle_of_the_result", "xor.b32 %r5, %r3, 3;", "mov.b32 %r5, 3;"},
                    Fault{"stage_too_small", "mad.lo.u32 %at, %stage, 16384, %sm;", "mad.lo.u32 %at, %stage, 8192, %sm;"},
                    Fault{"result_over_a_stage", "add.s32 %out, %out, 32768;", "add.s32 %out, %out, 24576;"},
                    Fault{"wrong_tile", "[%c, {%x, 0}]", "[%c, {%x, %x}]"},
                    Fault{"wrong_block", "[%a, {%x, 0}]", "[%a, {%y, 0}]"},
                    Fault{"map_in_the_wrong_space", "cvta.param.u64 %c, %c;", ""},
                    Fault{"barriers_over_the_buffer", "add.s32 %bar, %sm, 40960;", "add.s32 %bar, %sm, 40952;"}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
