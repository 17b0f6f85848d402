//===- OrderSearch.cpp - Orders with the least peak of live bytes -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Why a chain may be taken at once: live bytes as a function of the set of finished steps are the cut of a hypergraph, which is
// submodular. If every proper prefix of a chain leaves more bytes than the whole of it, then in any order that goes on from here the chain can
// move to the front, and no other step sees more live bytes than before.
//===----------------------------------------------------------------------===//
#include "compiler/memory/OrderSearch.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_set>

using namespace tw;
using namespace tw::memory;

namespace {
/// Steps that one look for a chain visits at most.
constexpr unsigned kMostChainSteps = 128;
/// Problems with more steps have no exact search, and their bound counts what steps touch themselves alone.
constexpr size_t kMostExactSteps = 4096;
/// The beam's width times the square of the steps is at most this: each state on the way is a copy of numbers per step.
constexpr size_t kMostBeamWork = size_t(1) << 27;
/// Bytes that remembered states take at most.
constexpr size_t kMostStateBytes = size_t(1) << 25;

/// What no order changes.
struct Tables {
  explicit Tables(const OrderProblem &problem) : problem(problem), successors(problem.steps.size()) {
    touchers.resize(problem.bufferBytes.size(), 0);
    open.resize(problem.steps.size(), 0);
    for (unsigned step = 0; step < problem.steps.size(); ++step) {
      for (unsigned buffer : problem.steps[step].buffers)
        ++touchers[buffer];
      std::set<unsigned> after(problem.steps[step].after.begin(), problem.steps[step].after.end());
      open[step] = unsigned(after.size());
      for (unsigned before : after)
        successors[before].push_back(step);
    }
  }
  const OrderProblem &problem;
  std::vector<std::vector<unsigned>> successors;
  std::vector<unsigned> touchers; ///< per buffer
  std::vector<unsigned> open;     ///< per step: how many must come earlier
};

/// A set of finished steps, and what is alive behind them.
class State {
public:
  explicit State(const Tables &tables)
      : tables(&tables), open(tables.open), touched(tables.touchers.size(), 0), done((open.size() + 63) / 64, 0) {
    for (unsigned step = 0; step < open.size(); ++step)
      if (open[step] == 0)
        ready.insert(step);
  }

  const std::set<unsigned> &readySteps() const { return ready; }
  bool isReady(unsigned step) const { return ready.count(step); }
  size_t size() const { return order.size(); }
  bool isComplete() const { return order.size() == open.size(); }
  uint64_t liveBytes() const { return live; }
  const std::vector<unsigned> &steps() const { return order; }
  const std::vector<uint64_t> &doneBits() const { return done; }

  /// Live bytes during `step` if it came next, and behind it.
  std::pair<uint64_t, uint64_t> bytesOf(unsigned step) const {
    uint64_t begun = 0, ended = 0;
    for (unsigned buffer : tables->problem.steps[step].buffers) {
      const uint64_t bytes = tables->problem.bufferBytes[buffer];
      begun += touched[buffer] == 0 ? bytes : 0;
      ended += touched[buffer] + 1 == tables->touchers[buffer] ? bytes : 0;
    }
    return {live + begun, live + begun - ended};
  }

  void finish(unsigned step) {
    live = bytesOf(step).second;
    for (unsigned buffer : tables->problem.steps[step].buffers)
      ++touched[buffer];
    for (unsigned next : tables->successors[step])
      if (--open[next] == 0)
        ready.insert(next);
    ready.erase(step);
    done[step / 64] |= uint64_t(1) << step % 64;
    order.push_back(step);
  }

  /// Takes the last step back.
  void undo() {
    const unsigned step = order.back();
    order.pop_back();
    done[step / 64] &= ~(uint64_t(1) << step % 64);
    for (unsigned next : tables->successors[step])
      if (open[next]++ == 0)
        ready.erase(next);
    for (unsigned buffer : tables->problem.steps[step].buffers)
      --touched[buffer];
    ready.insert(step);
    uint64_t begun = 0, ended = 0;
    for (unsigned buffer : tables->problem.steps[step].buffers) {
      const uint64_t bytes = tables->problem.bufferBytes[buffer];
      begun += touched[buffer] == 0 ? bytes : 0;
      ended += touched[buffer] + 1 == tables->touchers[buffer] ? bytes : 0;
    }
    live = live + ended - begun;
  }

  void undoTo(size_t steps) {
    while (order.size() > steps)
      undo();
  }

  /// Takes every chain that may be taken at once if the peak may be `threshold`.
  void takeChains(uint64_t threshold) {
    while (takeChain(threshold)) {
    }
  }

private:
  const Tables *tables;
  std::vector<unsigned> open, touched;
  std::vector<uint64_t> done;
  std::set<unsigned> ready;
  std::vector<unsigned> order;
  uint64_t live = 0;

  bool takeChain(uint64_t threshold) {
    unsigned left = kMostChainSteps;
    const std::vector<unsigned> starts(ready.begin(), ready.end());
    return std::any_of(starts.begin(), starts.end(), [&](unsigned step) { return follow(step, threshold, live, left); });
  }

  /// Takes `step` and then steps that each wait for the one before, until no more than `start` bytes are alive. False, with nothing taken,
  /// if there is no such chain.
  bool follow(unsigned step, uint64_t threshold, uint64_t start, unsigned &left) {
    if (left == 0 || bytesOf(step).first > threshold)
      return false;
    --left;
    finish(step);
    if (live <= start)
      return true;
    for (unsigned next : tables->successors[step])
      if (isReady(next) && follow(next, threshold, start, left))
        return true;
    undo();
    return false;
  }
};

/// Bytes that begin and end again: the peak of an order that is known to be one.
uint64_t peakAlong(const Tables &tables, const std::vector<unsigned> &order) {
  State state(tables);
  uint64_t peak = 0;
  for (unsigned step : order) {
    peak = std::max(peak, state.bytesOf(step).first);
    state.finish(step);
  }
  return peak;
}

/// The best order that a beam of states finds.
std::vector<unsigned> searchBeam(const Tables &tables, uint64_t bound, size_t width) {
  struct Node {
    std::shared_ptr<const State> state;
    std::optional<unsigned> next; ///< to be finished yet
    uint64_t peak = 0, live = 0;
  };
  auto isBetter = [](const Node &a, const Node &b) { return std::tie(a.peak, a.live) < std::tie(b.peak, b.live); };
  const size_t count = tables.problem.steps.size();
  std::map<size_t, std::vector<Node>> levels; // by finished steps
  levels[0].push_back({std::make_shared<State>(tables), std::nullopt, 0, 0});
  while (levels.begin()->first < count) {
    auto [level, nodes] = std::move(*levels.begin());
    levels.erase(levels.begin());
    std::stable_sort(nodes.begin(), nodes.end(), isBetter);
    std::set<std::vector<uint64_t>> known;
    for (const Node &node : nodes) {
      if (known.size() == width)
        break;
      auto state = std::make_shared<State>(*node.state);
      if (node.next)
        state->finish(*node.next);
      if (!known.insert(state->doneBits()).second)
        continue;
      state->takeChains(std::max(bound, node.peak));
      if (state->size() > level) {
        levels[state->size()].push_back({state, std::nullopt, node.peak, state->liveBytes()});
        continue;
      }
      for (unsigned step : state->readySteps()) {
        auto [during, behind] = state->bytesOf(step);
        levels[level + 1].push_back({state, step, std::max(node.peak, during), behind});
      }
    }
  }
  const std::vector<Node> &last = levels.begin()->second;
  const Node &best = *std::min_element(last.begin(), last.end(), isBetter);
  State state(*best.state);
  if (best.next)
    state.finish(*best.next);
  return state.steps();
}

/// Whether there is an order whose peak is at most a threshold.
class ThresholdSearch {
public:
  ThresholdSearch(const Tables &tables, size_t states) : state(tables), statesLeft(states) {}

  enum class Answer { Found, None, Spent };
  Answer find(uint64_t threshold) {
    limit = threshold;
    next = UINT64_MAX;
    failed.clear();
    state.undoTo(0);
    return descend() ? Answer::Found : statesLeft == 0 ? Answer::Spent : Answer::None;
  }
  /// Behind an answer None: no order has a smaller peak.
  uint64_t nextThreshold() const { return next; }
  /// Behind an answer Found.
  const std::vector<unsigned> &order() const { return state.steps(); }

private:
  struct HashBits {
    size_t operator()(const std::vector<uint64_t> &bits) const {
      uint64_t hash = 0;
      for (uint64_t word : bits) {
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
      }
      return size_t(hash);
    }
  };

  State state;
  size_t statesLeft;
  uint64_t limit = 0, next = 0;
  std::unordered_set<std::vector<uint64_t>, HashBits> failed;

  bool descend() {
    const size_t before = state.size();
    state.takeChains(limit);
    if (state.isComplete())
      return true;
    if (statesLeft == 0 || failed.count(state.doneBits())) {
      state.undoTo(before);
      return false;
    }
    --statesLeft;
    std::vector<std::pair<uint64_t, unsigned>> branches; // by the bytes behind them
    for (unsigned step : state.readySteps()) {
      auto [during, behind] = state.bytesOf(step);
      if (during > limit)
        next = std::min(next, during);
      else
        branches.push_back({behind, step});
    }
    std::sort(branches.begin(), branches.end());
    for (auto [behind, step] : branches) {
      state.finish(step);
      if (descend())
        return true;
      state.undo();
      if (statesLeft == 0)
        break;
    }
    if (statesLeft)
      failed.insert(state.doneBits());
    state.undoTo(before);
    return false;
  }
};
} // namespace

uint64_t memory::peakBound(const OrderProblem &problem) {
  const size_t count = problem.steps.size(), words = (count + 63) / 64;
  const bool reaches = count <= kMostExactSteps;
  // Per step: bit s of `before` if step s must come earlier; of `behind` if it must come later.
  using Bits = std::vector<uint64_t>;
  std::vector<Bits> before(reaches ? count : 0, Bits(words, 0)), behind = before;
  auto addAll = [](Bits &to, const Bits &more, unsigned step) {
    for (size_t i = 0; i < to.size(); ++i)
      to[i] |= more[i];
    to[step / 64] |= uint64_t(1) << step % 64;
  };
  for (unsigned step = 0; reaches && step < count; ++step)
    for (unsigned other : problem.steps[step].after)
      addAll(before[step], before[other], other);
  for (unsigned step = unsigned(reaches ? count : 0); step-- > 0;)
    for (unsigned other : problem.steps[step].after)
      addAll(behind[other], behind[step], step);
  std::vector<std::vector<unsigned>> touchers(problem.bufferBytes.size());
  for (unsigned step = 0; step < count; ++step)
    for (unsigned buffer : problem.steps[step].buffers)
      touchers[buffer].push_back(step);

  uint64_t bound = 0;
  auto has = [](const Bits &bits, unsigned other) { return bits[other / 64] >> other % 64 & 1; };
  for (unsigned step = 0; step < count; ++step) {
    uint64_t bytes = 0;
    for (unsigned buffer : problem.steps[step].buffers)
      bytes += problem.bufferBytes[buffer];
    for (unsigned buffer = 0; reaches && buffer < touchers.size(); ++buffer) {
      bool own = false, earlier = false, later = false;
      for (unsigned other : touchers[buffer]) {
        own |= other == step;
        earlier |= has(before[step], other);
        later |= has(behind[step], other);
      }
      bytes += !own && earlier && later ? problem.bufferBytes[buffer] : 0;
    }
    bound = std::max(bound, bytes);
  }
  return bound;
}

/// The same problem with time running backwards: an order of one is an order of the other from its end, and buffers are alive at the same steps.
static OrderProblem reversed(const OrderProblem &problem) {
  const unsigned count = unsigned(problem.steps.size());
  OrderProblem result;
  result.bufferBytes = problem.bufferBytes;
  result.steps.resize(count);
  for (unsigned step = 0; step < count; ++step) {
    result.steps[count - 1 - step].buffers = problem.steps[step].buffers;
    for (unsigned before : problem.steps[step].after)
      result.steps[count - 1 - before].after.push_back(count - 1 - step);
  }
  return result;
}

Order memory::orderSteps(const OrderProblem &problem, const OrderLimits &limits) {
  const unsigned count = unsigned(problem.steps.size());
  const Tables forward(problem);
  Order best;
  best.steps.resize(count);
  std::iota(best.steps.begin(), best.steps.end(), 0u);
  best.peakBytes = peakAlong(forward, best.steps);
  best.boundBytes = peakBound(problem);
  if (best.isOptimal())
    return best;
  // Branches that meet in one large tensor leave more bytes than they find, so no chain of them is taken at once. From the end it is.
  const OrderProblem mirrored = reversed(problem);
  const Tables backward(mirrored);
  auto take = [&](const Tables &tables, std::vector<unsigned> steps) {
    const uint64_t peak = peakAlong(tables, steps);
    if (peak >= best.peakBytes)
      return;
    if (&tables == &backward) {
      std::reverse(steps.begin(), steps.end());
      for (unsigned &step : steps)
        step = count - 1 - step;
    }
    best.peakBytes = peak;
    best.steps = std::move(steps);
  };
  const size_t width = std::max<size_t>(std::min(limits.beamWidth, kMostBeamWork / (size_t(count) * count)), 1);
  for (const Tables *tables : {&forward, &backward})
    if (!best.isOptimal())
      take(*tables, searchBeam(*tables, best.boundBytes, width));
  if (count > kMostExactSteps)
    return best;
  const size_t bytesOfState = 64 + count / 8, states = std::min(limits.states, kMostStateBytes / bytesOfState);
  for (const Tables *tables : {&forward, &backward}) {
    ThresholdSearch search(*tables, states / 2);
    while (!best.isOptimal()) {
      const ThresholdSearch::Answer answer = search.find(best.boundBytes);
      if (answer == ThresholdSearch::Answer::Spent)
        break;
      if (answer == ThresholdSearch::Answer::Found)
        take(*tables, search.order());
      else
        best.boundBytes = std::min(search.nextThreshold(), best.peakBytes);
    }
  }
  return best;
}
