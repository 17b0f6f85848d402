//===- WarpTest.cpp - Shuffles, votes, elections and matrices of a warp ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/PtxText.h"

using namespace tw::ptxtest;

namespace {

/// out[lane] of a shuffle of 100 + lane.
std::vector<uint32_t> shuffled(const std::string &instruction) {
  return Words{}.run("add.s32 %r0, %t, 100;\n" + instruction + storeByThread("%r1"));
}

TEST(WarpTest, Shuffles) {
  const auto index = shuffled("shfl.sync.idx.b32 %r1, %r0, 5, 31, -1;\n"),
             xored = shuffled("shfl.sync.bfly.b32 %r1, %r0, 3, 31, -1;\n"),
             up = shuffled("shfl.sync.up.b32 %r1, %r0, 1, 0, -1;\n"),
             down = shuffled("shfl.sync.down.b32 %r1|%p0, %r0, 2, 31, -1;\n@!%p0 mov.b32 %r1, 0;\n"),
             segments = shuffled("shfl.sync.idx.b32 %r1, %r0, 1, 0x181f, -1;\n"); // segments of 8 lanes
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(index[lane], 105u);
    EXPECT_EQ(xored[lane], 100 + (lane ^ 3));
    EXPECT_EQ(up[lane], 100 + (lane ? lane - 1 : 0));
    EXPECT_EQ(down[lane], lane < 30 ? 102 + lane : 0);
    EXPECT_EQ(segments[lane], 100 + lane / 8 * 8 + 1);
  }
}

TEST(WarpTest, VotesReductionsElections) {
  const auto ballot = Words{}.run("setp.lt.u32 %p0, %t, 4;\nvote.sync.ballot.b32 %r0, %p0, -1;\n" + storeByThread("%r0"));
  EXPECT_EQ(ballot[9], 0xfu);
  const auto all = Words{}.run("setp.lt.u32 %p0, %t, 4;\nvote.sync.all.pred %p1, %p0, -1;\nvote.sync.any.pred %p2, %p0, -1;\n"
                               "selp.b32 %r0, 1, 0, %p1;\nselp.b32 %r1, 2, 0, %p2;\nadd.s32 %r0, %r0, %r1;\n" +
                               storeByThread("%r0"));
  EXPECT_EQ(all[0], 2u);
  EXPECT_EQ(Words{}.run("redux.sync.add.u32 %r0, %t, -1;\n" + storeByThread("%r0"))[7], 496u);
  const auto elected = Words{}.run("mov.b32 %r1, 0;\nelect.sync %r0|%p0, -1;\n@%p0 mov.b32 %r1, 1;\n" + storeByThread("%r1"));
  EXPECT_EQ(std::count(elected.begin(), elected.end(), 1u), 1);
}

TEST(WarpTest, MembermaskOfHalfAWarp) {
  // The other half never comes to the shuffle.
  const auto words = Words{}.run("mov.b32 %r1, 7;\nsetp.ge.u32 %p0, %t, 16;\n@%p0 bra done;\n"
                                 "shfl.sync.idx.b32 %r1, %t, 3, 31, 0xffff;\ndone:\n" +
                                 storeByThread("%r1"));
  EXPECT_EQ(words[0], 3u);
  EXPECT_EQ(words[20], 7u);
}

TEST(WarpTest, LanesThatNeverComeAreADeadlock) {
  EXPECT_FAULT(
      ErrorKind::Deadlock, "waits for its warp at line",
      Words{}.run("setp.ge.u32 %p0, %t, 16;\n@%p0 bra done;\nshfl.sync.idx.b32 %r1, %t, 3, 31, -1;\ndone:\nbar.sync 0;"));
  EXPECT_FAULT(ErrorKind::Barrier, "which has exited", Words{}.run("setp.ge.u32 %p0, %t, 16;\n@%p0 ret;\nbar.warp.sync -1;"));
  EXPECT_FAULT(ErrorKind::Uninitialized, "not in the membermask",
               Words{}.run("setp.ge.u32 %p0, %t, 16;\n@%p0 bra done;\nshfl.sync.idx.b32 %r1, %t, 20, 31, 0xffff;\ndone:\n"));
}

/// Shared memory holds 64 rows of 16 bytes of which 16-bit element i is i; lane l has the address of row l.
const char *const matrixRows =
    "mov.b32 %r8, %t;\n"
    "fill:\nshl.b32 %r9, %r8, 2;\nadd.s32 %r9, %sm, %r9;\nshl.b32 %r10, %r8, 1;\nshl.b32 %r11, %r8, 17;\n"
    "add.s32 %r10, %r10, %r11;\nadd.s32 %r10, %r10, 0x10000;\nst.shared.b32 [%r9], %r10;\n"
    "add.s32 %r8, %r8, 32;\nsetp.lt.u32 %p0, %r8, 256;\n@%p0 bra fill;\nbar.warp.sync -1;\n"
    "shl.b32 %r12, %t, 4;\nadd.s32 %r12, %sm, %r12;\n";

TEST(WarpTest, LdmatrixGivesEachLaneAPair) {
  Words words{32, 32, 1024};
  const auto second =
      words.run(std::string(matrixRows) + "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%r12];\n" +
                storeByThread("%r1"));
  const auto transposed = words.run(
      std::string(matrixRows) + "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r0, %r1}, [%r12];\n" + storeByThread("%r1"));
  for (uint32_t lane = 0; lane < 32; ++lane) {
    // Matrix 1 begins at row 8, which is element 64.
    const uint32_t element = 64 + lane / 4 * 8 + lane % 4 * 2;
    EXPECT_EQ(second[lane], element | (element + 1) << 16);
    const uint32_t low = 64 + lane % 4 * 2 * 8 + lane / 4;
    EXPECT_EQ(transposed[lane], low | (low + 8) << 16);
  }
}

TEST(WarpTest, StmatrixIsTheInverse) {
  Words words{32, 32, 2048};
  for (const char *mode : {"", ".trans"}) {
    const auto result = words.run(std::string(matrixRows) + "ldmatrix.sync.aligned.m8n8.x4" + mode +
                                  ".shared.b16 {%r0, %r1, %r2, %r3}, [%r12];\nadd.s32 %r13, %r12, 1024;\n"
                                  "stmatrix.sync.aligned.m8n8.x4" +
                                  mode +
                                  ".shared.b16 [%r13], {%r0, %r1, %r2, %r3};\nbar.warp.sync -1;\nshl.b32 %r14, %t, 2;\n"
                                  "add.s32 %r14, %sm, %r14;\nld.shared.b32 %r15, [%r14+1024];\n" +
                                  storeByThread("%r15"));
    for (uint32_t i = 0; i < 32; ++i)
      EXPECT_EQ(result[i], 2 * i | (2 * i + 1) << 16);
  }
}

TEST(WarpTest, MatrixRowsAreAligned) {
  EXPECT_FAULT(
      ErrorKind::Misaligned, "no multiple of 16",
      Words{32, 32, 1024}.run(std::string(matrixRows) + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r12+4];\n"));
}

} // namespace
