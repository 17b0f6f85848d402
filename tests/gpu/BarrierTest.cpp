//===- BarrierTest.cpp - Named barriers, mbarriers, clusters, registers of warpgroups ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/PtxText.h"

using namespace tw::ptxtest;

namespace {

/// Every order of threads, with seeds for the random one.
std::vector<LaunchOptions> orders() {
  std::vector<LaunchOptions> result(8);
  result[0].order = ThreadOrder::Forward;
  result[1].order = ThreadOrder::Reverse;
  for (uint32_t i = 2; i < result.size(); ++i) {
    result[i].order = ThreadOrder::Random;
    result[i].seed = i;
  }
  return result;
}

// Each thread writes a word and reads its neighbour's of the next warp.
const std::string exchange = "shl.b32 %r0, %t, 2;\nadd.s32 %r1, %sm, %r0;\nst.shared.u32 [%r1], %t;\nBARRIER\n"
                             "add.s32 %r2, %t, 32;\nand.b32 %r2, %r2, 127;\nshl.b32 %r2, %r2, 2;\nadd.s32 %r2, %sm, %r2;\n"
                             "ld.shared.u32 %r3, [%r2];\n" +
                             storeByThread("%r3");

std::string with(std::string text, const std::string &from, const std::string &to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(NamedBarrierTest, SynchronisesInEveryOrder) {
  for (const LaunchOptions &options : orders())
    for (const char *barrier : {"bar.sync 0;", "bar.sync 3, 128;", "barrier.sync.aligned 15;", "barrier.sync 1, 128;"}) {
      const auto words = Words{128, 128, 512, options}.run(with(exchange, "BARRIER", barrier));
      for (uint32_t i = 0; i < 128; ++i)
        EXPECT_EQ(words[i], (i + 32) % 128);
    }
}

TEST(NamedBarrierTest, AMissingBarrierIsAnUninitialisedRead) {
  EXPECT_FAULT(ErrorKind::Uninitialized, "nobody has written", Words{128, 128, 512}.run(with(exchange, "BARRIER", "")));
}

TEST(NamedBarrierTest, ArriveDoesNotWait) {
  // Warps 0 and 1 produce and arrive, warps 2 and 3 wait for them.
  const std::string text =
      "setp.lt.u32 %p0, %t, 64;\n@!%p0 bra consume;\nshl.b32 %r0, %t, 2;\nadd.s32 %r0, %sm, %r0;\n"
      "st.shared.u32 [%r0], %t;\nbar.arrive 2, 128;\nret;\nconsume:\nbar.sync 2, 128;\nsub.s32 %r0, %t, 64;\n"
      "shl.b32 %r0, %r0, 2;\nadd.s32 %r0, %sm, %r0;\nld.shared.u32 %r1, [%r0];\n" +
      storeByThread("%r1");
  for (const LaunchOptions &options : orders())
    EXPECT_EQ((Words{128, 128, 256, options}.run(text))[127], 63u);
}

TEST(NamedBarrierTest, RulesOfParticipants) {
  EXPECT_FAULT(ErrorKind::Barrier, "there is no barrier 16", Words{32}.run("bar.sync 16;"));
  EXPECT_FAULT(ErrorKind::Barrier, "barrier for 48 threads", Words{64}.run("bar.sync 1, 48;"));
  EXPECT_FAULT(ErrorKind::Barrier, "for 64 threads here and for 32 elsewhere",
               Words{64}.run("setp.eq.u32 %p0, %t, 0;\n@%p0 bar.sync 1, 32;\n@!%p0 bar.sync 1, 64;"));
  EXPECT_FAULT(ErrorKind::Deadlock, "warp 0 waits at a barrier at line",
               Words{64}.run("setp.ge.u32 %p0, %t, 32;\n@%p0 ret;\nbar.sync 0;"));
}

// ---- mbarriers ------------------------------------------------------------------------------------------------------------

const std::string wait =
    "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%sm], %r20;\n@done bra ready;\n"
    "bra again;\nready:\n}\n";
/// Thread 0 initialises an mbarrier for COUNT arrivals.
std::string initialise(const std::string &count) {
  return "setp.eq.u32 %p7, %t, 0;\n@%p7 mbarrier.init.shared::cta.b64 [%sm], " + count +
         ";\n@%p7 fence.mbarrier_init.release.cluster;\nbar.sync 0;\n";
}

TEST(MBarrierTest, PhasesFollowTheArrivals) {
  // Twice, with the parities of phases 0 and 1: each thread writes a word, arrives, waits and reads the other warp's.
  const std::string address = "shl.b32 %r0, %t, 2;\nadd.s32 %r0, %sm, %r0;\nxor.b32 %r1, %t, 32;\nshl.b32 %r1, %r1, 2;\n"
                              "add.s32 %r1, %sm, %r1;\n";
  const std::string first = "st.shared.u32 [%r0+64], %t;\nmbarrier.arrive.shared::cta.b64 %rd0, [%sm];\nmov.b32 %r20, 0;\n" +
                            wait + "ld.shared.u32 %r2, [%r1+64];\n";
  const std::string second = "add.s32 %r2, %r2, 1000;\nst.shared.u32 [%r0+320], %r2;\n"
                             "mbarrier.arrive.release.cta.shared::cta.b64 _, [%sm];\nmov.b32 %r20, 1;\n" +
                             wait + "ld.shared.u32 %r2, [%r1+320];\n";
  for (const LaunchOptions &options : orders()) {
    const auto words = Words{64, 64, 640, options}.run(initialise("64") + address + first + second + storeByThread("%r2"));
    for (uint32_t i = 0; i < 64; ++i)
      EXPECT_EQ(words[i], 1000 + i);
  }
}

TEST(MBarrierTest, ArriveReturnsThePhaseToWaitFor) {
  Words{32, 32, 64}.run(initialise("32") + "mbarrier.arrive.shared::cta.b64 %rd0, [%sm];\nagain:\n"
                                           "mbarrier.test_wait.shared::cta.b64 %p0, [%sm], %rd0;\n@!%p0 bra again;\n"
                                           "mbarrier.arrive.shared::cta.b64 _, [%sm], 1;");
}

TEST(MBarrierTest, RulesOfArrivals) {
  EXPECT_FAULT(ErrorKind::Uninitialized, "no initialised mbarrier at shared address 0x408",
               Words{32, 1, 64}.run("mbarrier.arrive.shared::cta.b64 _, [%sm+8];"));
  EXPECT_FAULT(ErrorKind::Misaligned, "no multiple of 8", Words{1, 1, 64}.run("mbarrier.init.shared::cta.b64 [%sm+4], 1;"));
  EXPECT_FAULT(
      ErrorKind::Barrier, "too many arrivals",
      Words{1, 1, 64}.run(initialise("2") +
                          "mbarrier.expect_tx.shared::cta.b64 [%sm], 16;\nmbarrier.arrive.shared::cta.b64 _, [%sm], 3;"));
  EXPECT_FAULT(ErrorKind::Barrier, "again without mbarrier.inval", Words{1, 1, 64}.run(initialise("2") + initialise("2")));
  EXPECT_FAULT(ErrorKind::Barrier, "writes over the mbarrier",
               Words{1, 1, 64}.run(initialise("2") + "st.shared.u32 [%sm+4], 1;"));
  EXPECT_FAULT(ErrorKind::Barrier, "reads the mbarrier", Words{1, 1, 64}.run(initialise("2") + "ld.shared.u64 %rd0, [%sm];"));
  Words{1, 1, 64}.run(initialise("2") +
                      "st.shared.u32 [%sm+8], 1;\nmbarrier.inval.shared::cta.b64 [%sm];\nst.shared.u32 [%sm+4], 1;");
}

TEST(MBarrierTest, ADeadlockSaysWhatIsMissing) {
  const Error error = errorOf([] {
    Words{64, 1, 64}.run(initialise("33") +
                         "mov.b32 %r20, 0;\nsetp.lt.u32 %p0, %t, 32;\n"
                         "@%p0 mbarrier.arrive.shared::cta.b64 _, [%sm];\n" +
                         wait);
  });
  EXPECT_EQ(error.kind, ErrorKind::Deadlock);
  const std::string message = error.what();
  EXPECT_NE(message.find("warp 0 waits on an mbarrier at line"), std::string::npos) << message;
  EXPECT_NE(message.find("mbarrier.try_wait.parity"), std::string::npos) << message;
  EXPECT_NE(message.find("phase 0, 1 of 33 arrivals and 0 bytes to come"), std::string::npos) << message;
}

// ---- Clusters -------------------------------------------------------------------------------------------------------------

std::vector<uint32_t> runCluster(const std::string &body, LaunchOptions options = {}) {
  auto module = Module::parse(Words::text(body));
  Device device;
  const DevicePointer out = device.upload(std::vector<uint32_t>(64, 0), "out");
  LaunchShape shape;
  shape.grid.x = shape.cluster.x = 2;
  shape.block.x = 32;
  shape.dynamicSharedBytes = 256;
  device.launch(*module, "k", shape, Arguments().add(out), options);
  return device.download<uint32_t>(out, 64);
}

const std::string clusterBarrier = "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n";
// Each CTA writes its words and reads those of the other.
const std::string clusterExchange =
    "mov.u32 %r0, %cluster_ctarank;\nmad.lo.u32 %r1, %r0, 100, %t;\nshl.b32 %r2, %t, 2;\n"
    "add.s32 %r2, %sm, %r2;\nst.shared.u32 [%r2], %r1;\n" +
    clusterBarrier +
    "xor.b32 %r3, %r0, 1;\nmapa.shared::cluster.u32 %r4, %r2, %r3;\nld.shared::cluster.u32 %r5, [%r4];\n"
    "mad.lo.u32 %t, %r0, 32, %t;\n" +
    storeByThread("%r5");

TEST(ClusterTest, SharedMemoryOfTheNeighbour) {
  for (const LaunchOptions &options : orders()) {
    const auto words = runCluster(clusterExchange + clusterBarrier, options);
    EXPECT_EQ(words[5], 105u);
    EXPECT_EQ(words[37], 5u);
  }
}

TEST(ClusterTest, ExitBeforeTheNeighbourHasReadIsAnError) {
  unsigned found = 0;
  for (const LaunchOptions &options : orders())
    try {
      runCluster(clusterExchange, options);
    } catch (const Error &error) {
      EXPECT_EQ(error.kind, ErrorKind::InFlight) << error.what();
      ++found;
    }
  EXPECT_GT(found, 0u);
}

TEST(ClusterTest, RemoteArrivals) {
  const std::string text =
      initialise("1") + clusterBarrier +
      "mov.u32 %r0, %cluster_ctarank;\nsetp.eq.u32 %p0, %r0, 1;\n@!%p0 bra receive;\n"
      "setp.eq.and.u32 %p1, %t, 0, %p0;\n@%p1 mapa.shared::cluster.u32 %r1, %sm, 0;\n"
      "@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];\nbra end;\nreceive:\nmov.b32 %r20, 0;\n" +
      wait + "end:\n";
  for (const LaunchOptions &options : orders())
    runCluster(text + clusterBarrier, options);
  EXPECT_FAULT(ErrorKind::Proxy, "has executed fence.mbarrier_init",
               runCluster(with(text, "@%p7 fence.mbarrier_init.release.cluster;\n", "") + clusterBarrier));
}

TEST(ClusterTest, RulesOfTheBarrier) {
  EXPECT_FAULT(ErrorKind::Barrier, "without having arrived", runCluster("barrier.cluster.wait;"));
  EXPECT_FAULT(ErrorKind::Barrier, "arrives twice", runCluster("barrier.cluster.arrive;\nbarrier.cluster.arrive;"));
  EXPECT_FAULT(ErrorKind::OutOfBounds, "no CTA 2", runCluster("mapa.shared::cluster.u32 %r0, %sm, 2;"));
}

// ---- setmaxnreg -----------------------------------------------------------------------------------------------------------

TEST(RegistersTest, IncreaseWaitsForADecrease) {
  auto run = [](const std::string &first) {
    auto module = Module::parse(
        moduleText("",
                   ".reg .b32 %t;\n.reg .pred %p;\nmov.u32 %t, %tid.x;\nsetp.lt.u32 %p, %t, 128;\n@!%p bra "
                   "consumer;\n" +
                       first + "bar.sync 0;\nret;\nconsumer:\nsetmaxnreg.inc.sync.aligned.u32 232;\nbar.sync 0;\nret;",
                   ".maxntid 384, 1, 1"));
    Device device;
    LaunchShape shape;
    shape.block.x = 384;
    device.launch(*module, "k", shape, Arguments());
  };
  run("setmaxnreg.dec.sync.aligned.u32 40;\n"); // 168 = 40 + 2 (232 - 168)
  EXPECT_FAULT(ErrorKind::Deadlock, "waits for registers", run(""));
  EXPECT_FAULT(ErrorKind::Unsupported, "a multiple of 8 from 24 to 256", run("setmaxnreg.dec.sync.aligned.u32 20;\n"));
}

} // namespace
