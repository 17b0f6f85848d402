//===- TeamTest.cpp - Threads that share loops ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/team/Team.h"
#include <gtest/gtest.h>
#include <memory>
#include <vector>

namespace {

struct EndTeam {
  void operator()(tw_team *team) const { tw_team_destroy(team); }
};
using Team = std::unique_ptr<tw_team, EndTeam>;

/// Loops each of which reads, in another order, all that the one before has written.
struct Chain {
  static constexpr int numLoops = 300, numElements = 240;
  int64_t start = 0;
  std::vector<std::vector<int64_t>> rows{numLoops + 1, std::vector<int64_t>(numElements)};

  /// Loops of one chunk, of as many chunks as elements, and others.
  static int64_t chunksOf(int loop) { return loop % 5 == 0 ? 1 : loop % 7 == 0 ? numElements : loop % 50 + 1; }

  void run(tw_team *team) {
    std::fill(rows[0].begin(), rows[0].end(), start);
    tw_team_run(
        team,
        [](void *argument, tw_worker *worker) {
          auto &self = *static_cast<Chain *>(argument);
          for (int loop = 0; loop < numLoops; ++loop) {
            const int64_t chunks = chunksOf(loop);
            for (int64_t chunk; (chunk = worker->claim(worker, chunks)) >= 0;)
              for (int64_t i = chunk * numElements / chunks; i < (chunk + 1) * numElements / chunks; ++i)
                self.rows[loop + 1][i] = self.rows[loop][(i * 7 + 3) % numElements] + i;
            worker->wait(worker);
          }
        },
        this);
  }

  /// What one loop after the other leaves.
  std::vector<int64_t> expected() const {
    std::vector<int64_t> from(numElements, start), to(numElements);
    for (int loop = 0; loop < numLoops; ++loop, from = to)
      for (int64_t i = 0; i < numElements; ++i)
        to[i] = from[(i * 7 + 3) % numElements] + i;
    return from;
  }
};

/// More threads than processors take turns; many runs make the numbers of loops large.
TEST(TeamTest, EveryChunkIsDoneOnceAndBeforeTheWaitIsOver) {
  for (unsigned threads : {1u, 2u, 3u, 16u}) {
    Team team(tw_team_create(threads));
    ASSERT_TRUE(team);
    Chain chain;
    for (chain.start = 0; chain.start < 40; ++chain.start) {
      chain.run(team.get());
      ASSERT_EQ(chain.rows.back(), chain.expected()) << threads << " threads, run " << chain.start;
    }
  }
}

/// Loops that do not depend on each other need no wait between them.
TEST(TeamTest, LoopsBetweenTwoWaitsRunAtTheSameTime) {
  struct Sums {
    std::vector<int64_t> parts = std::vector<int64_t>(TW_MAX_LOOPS * 10);
    int64_t total = 0;
  } sums;
  Team team(tw_team_create(3));
  ASSERT_TRUE(team);
  tw_team_run(
      team.get(),
      [](void *argument, tw_worker *worker) {
        auto &sums = *static_cast<Sums *>(argument);
        for (int loop = 0; loop < TW_MAX_LOOPS; ++loop)
          for (int64_t chunk; (chunk = worker->claim(worker, 10)) >= 0;)
            sums.parts[loop * 10 + chunk] += loop * 10 + chunk;
        worker->wait(worker);
        while (worker->claim(worker, 1) >= 0)
          for (int64_t part : sums.parts)
            sums.total += part;
      },
      &sums);
  EXPECT_EQ(sums.total, (TW_MAX_LOOPS * 10 - 1) * TW_MAX_LOOPS * 10 / 2);
}

TEST(TeamTest, ATeamThatNeverRanEnds) {
  Team team(tw_team_create(4));
  EXPECT_TRUE(team);
  tw_team_destroy(nullptr);
}

} // namespace
