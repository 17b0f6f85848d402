//===- MemoryTest.cpp - Loads, stores and atomics, and what is wrong with an access ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/PtxText.h"

using namespace tw::ptxtest;

namespace {

TEST(MemoryTest, VectorsAndExtensions) {
  const auto words = Words{1, 8}.run("st.global.v4.b32 [%out], {1, 2, 3, 0xfffffff0};\n"
                                     "ld.global.v2.u32 {%r0, %r1}, [%out];\n"
                                     "ld.global.s8 %r2, [%out+12];\n"
                                     "ld.global.u8 %r3, [%out+12];\n"
                                     "ld.global.s16 %r4, [%out+12];\n"
                                     "st.global.v2.b32 [%out+16], {%r0, %r1};\n"
                                     "st.global.v2.b32 [%out+24], {%r2, %r3};\n"
                                     "st.global.b32 [%out+0], %r4;");
  EXPECT_EQ(words, (std::vector<uint32_t>{0xfffffff0, 2, 3, 0xfffffff0, 1, 2, 0xfffffff0, 0xf0}));
}

TEST(MemoryTest, PackingMoves) {
  const auto words =
      Words{1, 4}.run("mov.b64 %rd0, {1, 2};\nmov.b64 {%r0, %r1}, %rd0;\nmov.b32 {%h0, %h1}, 0x00050006;\n"
                      "cvt.u32.u16 %r2, %h0;\ncvt.u32.u16 %r3, %h1;\nst.global.v4.b32 [%out], {%r0, %r1, %r2, %r3};");
  EXPECT_EQ(words, (std::vector<uint32_t>{1, 2, 6, 5}));
}

TEST(MemoryTest, GenericAddressesReachEverySpace) {
  Words words{1, 3, 64};
  EXPECT_EQ(words.run(".shared .align 4 .b8 fixed[16];\n.local .align 8 .b8 depot[16];\n"
                      "mov.u64 %rd0, fixed;\ncvta.shared.u64 %rd0, %rd0;\nst.u32 [%rd0+4], 11;\n"
                      "cvt.u32.u64 %r9, %rd0;\nld.shared.u32 %r0, [fixed+4];\n"
                      "mov.u64 %rd1, depot;\ncvta.local.u64 %rd2, %rd1;\nst.u32 [%rd2+8], 12;\nld.local.u32 %r1, [%rd1+8];\n"
                      "cvta.global.u64 %rd3, %out;\nst.u32 [%rd3+8], 13;\n"
                      "isspacep.shared %p0, %rd0;\nselp.u32 %r0, %r0, 0, %p0;\n"
                      "st.global.u32 [%out], %r0;\nst.global.u32 [%out+4], %r1;"),
            (std::vector<uint32_t>{11, 12, 13}));
}

TEST(MemoryTest, ModuleVariables) {
  auto module = Module::parse(
      ".version 8.0\n.target sm_90a\n.address_size 64\n.const .align 4 .u32 table[3] = {5, 6, 7};\n"
      ".global .align 4 .u32 counter;\n.visible .entry k(.param .u64 out) {\n.reg .b64 %a, %o;\n.reg .b32 %r<4>;\n"
      "ld.param.u64 %o, [out];\nld.const.u32 %r0, [table+4];\nmov.u64 %a, counter;\n"
      "atom.global.add.u32 %r1, [%a], %r0;\nst.global.v2.u32 [%o], {%r0, %r1};\nret;\n}");
  Device device;
  const DevicePointer out = device.upload(std::vector<uint32_t>(2, 0));
  device.launch(*module, "k", {}, Arguments().add(out));
  device.launch(*module, "k", {}, Arguments().add(out));
  EXPECT_EQ(device.download<uint32_t>(out, 2), (std::vector<uint32_t>{6, 6})); // the counter keeps its value
}

TEST(MemoryTest, Atomics) {
  EXPECT_EQ((Words{64, 2}.run("atom.global.add.u32 %r0, [%out], 2;\nred.global.max.s32 [%out+4], %t;")),
            (std::vector<uint32_t>{128, 63}));
  EXPECT_EQ(
      (Words{32, 1, 64}.run("setp.eq.u32 %p0, %t, 0;\n@%p0 st.shared.f32 [%sm], 0f00000000;\nbar.sync 0;\n"
                            "red.shared.add.f32 [%sm], 0f3f000000;\nbar.sync 0;\nld.shared.f32 %f0, [%sm];\nmov.b32 %r0, %f0;\n"
                            "@%p0 st.global.b32 [%out], %r0;"))[0],
      bitsOfFloat(16));
  EXPECT_EQ(
      (Words{1, 4}.run(
          "atom.global.cas.b32 %r0, [%out], 0, 7;\natom.global.exch.b32 %r1, [%out], 9;\n"
          "mov.b32 %r2, 0x3f804000;\nred.global.add.noftz.bf16x2 [%out+4], %r2;\nst.global.v2.b32 [%out+8], {%r0, %r1};")),
      (std::vector<uint32_t>{9, 0x3f804000, 0, 7}));
}

TEST(MemoryTest, OutOfBoundsNamesTheAllocation) {
  EXPECT_FAULT(ErrorKind::OutOfBounds, "store of 4 bytes at byte 8 of 'out', which has 8",
               Words{1, 2}.run("st.global.u32 [%out+8], 1;"));
  EXPECT_FAULT(ErrorKind::OutOfBounds, "before the begin of 'out'", Words{1, 2}.run("ld.global.u32 %r0, [%out+-4];"));
  EXPECT_FAULT(ErrorKind::OutOfBounds, "in no allocation", Words{1, 2}.run("mov.b64 %rd0, 0;\nld.global.u32 %r0, [%rd0];"));
  EXPECT_FAULT(ErrorKind::OutOfBounds, "the CTA has [0x400, 0x440)", Words{1, 1, 64}.run("st.shared.u32 [%sm+64], 1;"));
  EXPECT_FAULT(ErrorKind::OutOfBounds, "shared address", Words{1, 1, 64}.run("st.shared.u32 [%sm+-4], 1;"));
}

TEST(MemoryTest, Misaligned) {
  EXPECT_FAULT(ErrorKind::Misaligned, "no multiple of the 8 bytes", Words{1, 4}.run("st.global.v2.u32 [%out+4], {1, 2};"));
  EXPECT_FAULT(ErrorKind::Misaligned, "no multiple of the 4 bytes", Words{1, 1, 64}.run("ld.shared.u32 %r0, [%sm+2];"));
}

TEST(MemoryTest, UninitialisedReads) {
  EXPECT_FAULT(ErrorKind::Uninitialized, "reads %r1, which nobody has written", Words{1, 1}.run("add.s32 %r0, %r1, 1;"));
  EXPECT_FAULT(ErrorKind::Uninitialized, "shared memory at 0x408",
               Words{1, 1, 64}.run("st.shared.v2.u32 [%sm], {1, 2};\nld.shared.v4.u32 "
                                   "{%r0, %r1, %r2, %r3}, [%sm];"));
  auto module = Module::parse(
      moduleText(".param .u64 p", ".reg .b64 %a;\n.reg .b32 %r;\nld.param.u64 %a, [p];\nld.global.u32 %r, [%a];\nret;"));
  Device device;
  const DevicePointer pointer = device.allocate(16, "activations");
  EXPECT_FAULT(ErrorKind::Uninitialized, "reads byte 0 of 'activations', which nobody has written",
               device.launch(*module, "k", {}, Arguments().add(pointer)));
  EXPECT_FAULT(ErrorKind::Uninitialized, "byte 4", device.write(pointer, "abcd", 4); device.download<uint64_t>(pointer, 1));
}

TEST(MemoryTest, ReadOnlyLoadsOfWhatTheLaunchHasWritten) {
  EXPECT_EQ((Words{1, 8}.run("ld.global.nc.u32 %r0, [%out];\nadd.s32 %r0, %r0, 5;\nst.global.u32 [%out], %r0;"))[0], 5u);
  EXPECT_FAULT(ErrorKind::InFlight, "a load with .nc reads byte 0 of 'out'",
               Words{1, 8}.run("st.global.u32 [%out], 1;\nld.global.nc.u32 %r0, [%out];"));
}

TEST(MemoryTest, FreedMemory) {
  auto module =
      Module::parse(moduleText(".param .u64 p", ".reg .b64 %a;\nld.param.u64 %a, [p];\nst.global.u32 [%a], 1;\nret;"));
  Device device;
  const DevicePointer pointer = device.allocate(16, "old");
  device.free(pointer);
  EXPECT_FAULT(ErrorKind::OutOfBounds, "'old', which is freed", device.launch(*module, "k", {}, Arguments().add(pointer)));
}

TEST(MemoryTest, ErrorsNameKernelThreadLineAndText) {
  const Error error = errorOf([] { Words{64, 40}.run(storeByThread("%t")); });
  EXPECT_NE(std::string(error.what()).find("kernel k, CTA 0, thread 40, line 20 "), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find("`st.global.b32 [%rd14], %t`"), std::string::npos) << error.what();
  EXPECT_EQ(error.line, 20u);
}

// ---- Launches -------------------------------------------------------------------------------------------------------------

TEST(LaunchTest, SpecialRegisters) {
  auto module =
      Module::parse(moduleText(".param .u64 out", ".reg .b64 %o, %a;\n.reg .b32 %r<8>;\nld.param.u64 %o, [out];\n"
                                                  "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %tid.y;\nmov.u32 %r2, %ntid.x;\n"
                                                  "mov.u32 %r3, %tid.x;\nmov.u32 %r4, %nctaid.x;\n"
                                                  "mad.lo.u32 %r5, %r1, %r2, %r3;\nmad.lo.u32 %r5, %r0, 8, %r5;\n"
                                                  "mul.wide.u32 %a, %r5, 4;\nadd.u64 %a, %a, %o;\n"
                                                  "mad.lo.u32 %r4, %r4, 1000, %r5;\nst.global.u32 [%a], %r4;\nret;"));
  Device device;
  const DevicePointer out = device.allocate(16 * 4);
  LaunchShape shape;
  shape.grid.x = 2;
  shape.block = {4, 2, 1};
  device.launch(*module, "k", shape, Arguments().add(out));
  for (uint32_t i = 0; i < 16; ++i)
    EXPECT_EQ(device.download<uint32_t>(out, 16)[i], 2000 + i);
}

TEST(LaunchTest, RefusesWhatDoesNotFit) {
  auto module = Module::parse(moduleText(".param .u64 p, .param .u32 n", "ret;", ".maxntid 64, 1, 1"));
  Device device;
  LaunchShape shape;
  const Arguments arguments = Arguments().add(uint64_t(0)).add(1);
  EXPECT_FAULT(ErrorKind::Launch, "takes 2 parameters, the launch has 1",
               device.launch(*module, "k", shape, Arguments().add(uint64_t(0))));
  EXPECT_FAULT(ErrorKind::Launch, "parameter 1 of kernel k has 4 bytes, the launch gives 8",
               device.launch(*module, "k", shape, Arguments().add(uint64_t(0)).add(uint64_t(1))));
  EXPECT_FAULT(ErrorKind::Launch, "no kernel 'other'; the module has: k", device.launch(*module, "other", shape, arguments));
  shape.block.x = 128;
  EXPECT_FAULT(ErrorKind::Launch, ".maxntid allows 64", device.launch(*module, "k", shape, arguments));
  shape.block.x = 32;
  shape.cluster.x = 2;
  EXPECT_FAULT(ErrorKind::Launch, "no multiple of the cluster", device.launch(*module, "k", shape, arguments));
  shape.cluster.x = 1;
  shape.dynamicSharedBytes = 232449;
  EXPECT_FAULT(ErrorKind::Launch, "a CTA has 232448", device.launch(*module, "k", shape, arguments));
}

TEST(LaunchTest, DependentLaunchesWait) {
  const std::string parameters = ".param .u64 in, .param .u64 out";
  const std::string copy = ".reg .b64 %i, %o;\n.reg .b32 %r;\nld.param.u64 %i, [in];\nld.param.u64 %o, [out];\n";
  const std::string move = "ld.global.u32 %r, [%i];\nst.global.u32 [%o], %r;\nret;";
  auto good = Module::parse(moduleText(parameters, copy + "griddepcontrol.launch_dependents;\ngriddepcontrol.wait;\n" + move));
  auto bad = Module::parse(moduleText(parameters, copy + move));
  auto late = Module::parse(
      moduleText(parameters, copy + "ld.global.u32 %r, [%i];\ngriddepcontrol.wait;\nst.global.u32 [%o], %r;\nret;"));
  LaunchOptions dependent;
  dependent.programmatic = true;
  Device device;
  const DevicePointer a = device.upload(std::vector<uint32_t>{42}, "a"), b = device.allocate(4, "b"),
                      c = device.allocate(4, "c");
  device.launch(*good, "k", {}, Arguments().add(a).add(b), dependent);
  device.launch(*good, "k", {}, Arguments().add(b).add(c), dependent);
  EXPECT_FAULT(ErrorKind::Barrier, "reads byte 0 of 'b'", device.launch(*late, "k", {}, Arguments().add(b).add(c), dependent));
  EXPECT_EQ(device.download<uint32_t>(c, 1)[0], 42u);
  // After the host has waited, the values of earlier launches may be read at once.
  device.launch(*late, "k", {}, Arguments().add(b).add(c), dependent);
  EXPECT_FAULT(ErrorKind::Barrier, "before griddepcontrol.wait",
               device.launch(*bad, "k", {}, Arguments().add(a).add(c), dependent));
}

TEST(LaunchTest, OneSeedOneRun) {
  LaunchOptions options;
  options.order = ThreadOrder::Random;
  // The order of 64 threads at one counter.
  auto order = [&](uint32_t seed) {
    options.seed = seed;
    return Words{64, 65, 0, options}.run("atom.global.add.u32 %r0, [%out+256], 1;\n" + storeByThread("%r0"));
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(LaunchTest, ClustersThatWaitForLaterOnesLetThemBegin) {
  auto module = Module::parse(moduleText(
      ".param .u64 flag", ".reg .b64 %a;\n.reg .b32 %r<2>;\n.reg .pred %p;\nld.param.u64 %a, [flag];\n"
                          "mov.u32 %r0, %ctaid.x;\nsetp.eq.u32 %p, %r0, 3;\n"
                          "@%p st.global.release.gpu.u32 [%a], 1;\n"
                          "loop:\nld.global.acquire.gpu.u32 %r1, [%a];\nsetp.eq.u32 %p, %r1, 0;\n@%p bra loop;\nret;"));
  Device device;
  LaunchShape shape;
  shape.grid.x = 4;
  device.launch(*module, "k", shape, Arguments().add(device.upload(std::vector<uint32_t>{0})));
}

TEST(LaunchTest, SpinningForeverIsADeadlock) {
  EXPECT_FAULT(ErrorKind::Deadlock, "no thread gets anywhere",
               Words{1, 1}.run("loop:\nld.global.acquire.gpu.u32 %r0, [%out];\nsetp.eq.u32 %p0, %r0, 0;\n@%p0 bra loop;"));
}

TEST(LaunchTest, ALongLoopWithoutStoresIsNone) {
  const auto words = Words{32, 32}.run(
      "mov.u32 %r0, 0;\nloop:\nadd.u32 %r0, %r0, 1;\nsetp.lt.u32 %p0, %r0, 100000;\n@%p0 bra loop;\n" + storeByThread("%r0"));
  EXPECT_EQ(words[31], 100000u);
}

// ---- The text -------------------------------------------------------------------------------------------------------------

TEST(ParserTest, UnknownPtxNamesLineAndText) {
  EXPECT_FAULT(ErrorKind::Unsupported, "`frobnicate.b32 %r0, 1`: unknown opcode 'frobnicate'",
               Words{}.run("frobnicate.b32 %r0, 1;"));
  EXPECT_FAULT(ErrorKind::Unsupported, "unknown modifier '.odd'", Words{}.run("add.odd.s32 %r0, 1, 2;"));
  EXPECT_FAULT(ErrorKind::Unsupported, "calls are not modelled", Words{}.run("call other;"));
  EXPECT_FAULT(ErrorKind::Unsupported, "unknown register '%nosuch'", Words{}.run("mov.u32 %r0, %nosuch;"));
  const Error error = errorOf([] { Module::parse(".version 8.0\n.target sm_90a\n.visible .entry k() {\n\n  bad;\n}"); });
  EXPECT_EQ(error.line, 5u);
}

TEST(ParserTest, MalformedTextNamesTheLine) {
  EXPECT_FAULT(ErrorKind::Parse, "line 3: no label 'nowhere'",
               Module::parse(".version 8.0\n.visible .entry k() {\nbra nowhere;\n}"));
  EXPECT_FAULT(ErrorKind::Parse, "missing '}'", Module::parse(".visible .entry k() {\nret;"));
  EXPECT_FAULT(ErrorKind::Parse, "expected ',' or ';'", Module::parse(".visible .entry k() {\n.reg .b32 a;\nmov.b32 a 1;\n}"));
  EXPECT_FAULT(ErrorKind::Parse, "is there twice", Module::parse(".visible .entry k() {\n.reg .b32 a, a;\n}"));
  EXPECT_FAULT(ErrorKind::Parse, "unknown predicate '%p1'", Module::parse(".visible .entry k() {\n@%p1 ret;\n}"));
  EXPECT_FAULT(ErrorKind::Parse, "unknown directive '.what'", Module::parse(".what"));
  EXPECT_FAULT(ErrorKind::Parse, "an alignment of 12", Module::parse(".visible .entry k(.param .align 12 .b8 p[16]) {\n}"));
  EXPECT_FAULT(ErrorKind::Parse, "the parameter has no type", Module::parse(".visible .entry k(.param p) {\n}"));
  EXPECT_FAULT(ErrorKind::Parse, "too many registers", Module::parse(".visible .entry k() {\n.reg .b32 %r<4000000000>;\n}"));
  EXPECT_FAULT(ErrorKind::Unsupported, "it names no type", Module::parse(".visible .entry k() {\nadd;\n}"));
}

TEST(ParserTest, ScopesHaveRegistersAndLabelsOfTheirOwn) {
  const std::string block =
      "{\n.reg .b32 x;\n.reg .pred p;\nmov.b32 x, 0;\nagain:\nadd.s32 x, x, 1;\nsetp.lt.s32 p, x, %r0;\n@p bra again;\n"
      "bra.uni end;\nend:\nadd.s32 %r1, %r1, x;\n}\n";
  const auto words =
      Words{1, 1}.run("mov.b32 %r0, 3;\nmov.b32 %r1, 0;\n" + block + block + "/* done */ st.global.u32 [%out], %r1; // end");
  EXPECT_EQ(words[0], 6u);
}

} // namespace
