//===- Synchronize.h - Semaphores that make a program race-free -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A generator writes instructions without thinking of hazards. This finds every
// pair of executions that touch the same bytes on two engines, and gives the
// pairs that nothing orders a post and a wait: on the instructions themselves
// where they have room, else on small carrier instructions beside them. A pair
// in two iterations of a loop gets a token that goes round.
//===----------------------------------------------------------------------===//
#ifndef TESTS_RTL_RANDOM_SYNCHRONIZE_H
#define TESTS_RTL_RANDOM_SYNCHRONIZE_H

#include "tests/rtl/random/Rng.h"
#include "tests/rtl/random/Tree.h"

namespace tw::programs {

/// Memory that only carriers use.
struct Reserve {
  int64_t scratchpad = 0; ///< first of kBytes bytes at the end of scratchpad 0
  int64_t accumulatorRow = 0;
  int64_t dram = 0; ///< first of kBytes bytes, not in the code
  static constexpr int64_t kBytes = 2048;
};

/// Pairs of ids: the second one waits for the first.
using Orders = std::vector<std::pair<unsigned, unsigned>>;

/// Adds what `nodes` needs, what `orders` asks for as long as there are semaphores, and `extra` posts and waits that nobody
/// needs. Ids of all nodes must be set and differ. False if it takes too many semaphores, or a preload would need a carrier,
/// which only an instruction that leaves the shadow registers alone can be.
bool synchronize(std::vector<Node> &nodes, const timing::MachineParams &machine, const Reserve &reserve, const Orders &orders,
                 unsigned extra, Rng &random);

} // namespace tw::programs

#endif // TESTS_RTL_RANDOM_SYNCHRONIZE_H
