//===- Reroll.cpp - Hardware loops for repeated tile code ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Instructions that agree in all but their addresses have the same shape, and so have
// loops of the same shapes. In a sequence of shapes, copies are found for every period;
// the steps of their addresses from copy to copy decide how many of them one loop can
// repeat. The loop that saves most words is made first; then everything is looked at
// again, so that loops nest.

#include "compiler/schedule/Reroll.h"

#include "isa/FieldLimits.h"
#include "isa/Odometer.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <queue>
#include <unordered_map>
#include <utility>

using namespace tw;
using namespace tw::schedule;

namespace {
/// Slots of a ring whose addresses are not evenly spaced: steps may repeat after so many copies.
constexpr size_t kMaxRing = 12;
/// How many nodes a run may begin later so that a loop round a ring fits.
constexpr size_t kMaxShift = 64;
/// A loop costs its word and longer instructions in every iteration; it must save so many words of code.
constexpr int64_t kMinSaving = 4;
constexpr int64_t kMaxCount = isa::maximumOf(isa::levelFields(), "count"),
                  kMaxWrap = isa::maximumOf(isa::levelFields(), "wrap");

/// dram or p, a, b or acc, d address; 0 where the instruction has none.
using Addresses = std::array<int64_t, 4>;
constexpr int64_t isa::Level::*kStrides[4] = {&isa::Level::stride_a, &isa::Level::stride_b, &isa::Level::stride_c,
                                              &isa::Level::stride_d};

Addresses operator-(const Addresses &x, const Addresses &y) { return {x[0] - y[0], x[1] - y[1], x[2] - y[2], x[3] - y[3]}; }

std::array<int64_t *, 4> addressFields(isa::Instruction &instruction) {
  if (auto *load = instruction.getIf<isa::Load>())
    return {&load->dram_address, &load->address, nullptr, nullptr};
  if (auto *store = instruction.getIf<isa::Store>())
    return {&store->dram_address, &store->address, nullptr, nullptr};
  if (auto *preload = instruction.getIf<isa::Preload>())
    return {nullptr, &preload->address, nullptr, nullptr};
  if (auto *tensor = instruction.getIf<isa::Tensor>())
    return {nullptr, &tensor->address, &tensor->acc_address, nullptr};
  if (auto *vector = instruction.getIf<isa::Vector>())
    return {vector->p_count ? &vector->p_address : nullptr, &vector->a_address, vector->b_enable ? &vector->b_address : nullptr,
            &vector->d_address};
  return {};
}

size_t mix(size_t hash, uint64_t value) { return (hash ^ value) * 0x9e3779b97f4a7c15 ^ (hash >> 29); }

/// Of a struct of 64-bit fields.
template <typename T> size_t hashOf(size_t hash, const T &fields) {
  if constexpr (std::is_empty_v<T>)
    return hash;
  std::array<uint64_t, (sizeof(T) + 7) / sizeof(uint64_t)> words{};
  memcpy(words.data(), &fields, sizeof(T));
  for (uint64_t word : words)
    hash = mix(hash, word);
  return hash;
}

template <typename T> bool same(const T &x, const T &y) { return std::is_empty_v<T> || memcmp(&x, &y, sizeof(T)) == 0; }

bool any(const std::array<int64_t, 3> &counts) { return counts != std::array<int64_t, 3>{}; }

/// Levels of an instruction while loops around it are being made: as many as the loops need, and merged at the end.
struct Odometer {
  std::vector<isa::Level> levels;
  /// Levels that each loop around the instruction turns, innermost loop first.
  std::array<uint8_t, isa::kMaxLoopDepth> perLoop{};
  uint8_t loops = 0;
  int64_t waitMask = 0, postMask = 0, predicateMask = 0, clearMask = 0;
  std::array<int64_t, 2> edgeLevel{};
  std::array<bool, 2> edgeUsed{};

  /// First level that belongs to one of the `outer` outermost loops.
  size_t firstOf(size_t outer) const {
    size_t first = levels.size();
    for (size_t i = 1; i <= outer; ++i)
      first -= perLoop[loops - i];
    return first;
  }

  /// Makes room for the levels of a loop within the `outer` outermost ones. Returns their bits.
  int64_t insert(const std::vector<isa::Level> &added, size_t outer) {
    size_t at = firstOf(outer), n = added.size();
    levels.insert(levels.begin() + ptrdiff_t(at), added.begin(), added.end());
    std::copy_backward(perLoop.begin() + (loops - outer), perLoop.begin() + loops, perLoop.begin() + loops + 1);
    perLoop[loops++ - outer] = uint8_t(n);
    for (int64_t *mask : {&waitMask, &postMask, &predicateMask, &clearMask})
      *mask = (*mask & ((int64_t(1) << at) - 1)) | (*mask >> at << (at + n));
    for (size_t e = 0; e < 2; ++e)
      edgeLevel[e] += edgeUsed[e] && size_t(edgeLevel[e]) >= at ? int64_t(n) : 0;
    return ((int64_t(1) << n) - 1) << at;
  }

  /// But for the masks of waits and posts.
  bool turnsLike(const Odometer &o) const {
    return std::equal(levels.begin(), levels.end(), o.levels.begin(), o.levels.end(), same<isa::Level>) &&
           perLoop == o.perLoop && loops == o.loops && predicateMask == o.predicateMask && clearMask == o.clearMask &&
           edgeLevel == o.edgeLevel && edgeUsed == o.edgeUsed;
  }

  bool isLookedAt(size_t level) const {
    return ((waitMask | postMask | predicateMask | clearMask) >> level & 1) ||
           (edgeUsed[0] && edgeLevel[0] == int64_t(level)) || (edgeUsed[1] && edgeLevel[1] == int64_t(level));
  }

  void erase(size_t level) {
    levels.erase(levels.begin() + ptrdiff_t(level));
    for (int64_t *mask : {&waitMask, &postMask, &predicateMask, &clearMask})
      *mask = (*mask & ((int64_t(1) << level) - 1)) | (*mask >> (level + 1) << level);
    for (size_t e = 0; e < 2; ++e)
      edgeLevel[e] -= edgeUsed[e] && size_t(edgeLevel[e]) > level;
  }

  /// Joins neighbours where one level says the same, and drops outermost levels that say nothing. perLoop is void afterwards.
  void merge() {
    for (size_t i = 0; i + 1 < levels.size();)
      if (mergeWithNext(i))
        erase(i + 1);
      else
        ++i;
    while (!levels.empty() && isStill(levels.back()) && !isLookedAt(levels.size() - 1))
      levels.pop_back();
  }

private:
  static bool isStill(const isa::Level &level) {
    return std::all_of(std::begin(kStrides), std::end(kStrides), [&](auto stride) { return level.*stride == 0; });
  }

  bool mergeWithNext(size_t i) {
    isa::Level &inner = levels[i];
    const isa::Level &outer = levels[i + 1];
    int64_t count = inner.count * outer.count;
    for (int64_t mask : {waitMask, postMask, predicateMask, clearMask})
      if ((mask >> i & 1) != (mask >> (i + 1) & 1))
        return false;
    for (size_t e = 0; e < 2; ++e)
      if (edgeUsed[e] && (edgeLevel[e] == int64_t(i) || edgeLevel[e] == int64_t(i) + 1))
        return false;
    if (count > kMaxCount)
      return false;
    bool continues = !inner.wrap && !outer.wrap;
    for (auto stride : kStrides)
      continues &= outer.*stride == inner.count * (inner.*stride);
    if (!continues && isStill(outer)) {
      // The outer iterations repeat the inner ones.
      int64_t ring = inner.wrap ? inner.wrap : inner.count;
      if (ring > kMaxWrap || inner.count % ring)
        return false;
      inner.wrap = ring;
      continues = true;
    }
    if (continues)
      inner.count = count;
    return continues;
  }
};

/// One level for `count` copies with these addresses: they advance evenly, or round a ring.
bool fitLevel(const Addresses *at, size_t count, size_t every, isa::Level &level) {
  Addresses step = at[every] - at[0];
  size_t wrap = 0;
  for (size_t i = 2; i < count; ++i) {
    size_t turn = wrap ? i % wrap : i;
    auto on = [&](size_t turn) {
      for (size_t k = 0; k < 4; ++k)
        if (at[i * every][k] != at[0][k] + int64_t(turn) * step[k])
          return false;
      return true;
    };
    if (on(turn))
      continue;
    if (wrap || int64_t(i) > kMaxWrap || !on(0))
      return false;
    wrap = i;
  }
  level = {};
  level.count = int64_t(count);
  level.wrap = int64_t(wrap);
  for (size_t k = 0; k < 4; ++k)
    level.*kStrides[k] = step[k];
  return true;
}

/// Levels for `count` copies, innermost first, appended to `levels`.
bool fitLevels(const Addresses *at, size_t count, size_t every, std::vector<isa::Level> &levels) {
  if (count == 1)
    return true;
  isa::Level level;
  if (fitLevel(at, count, every, level)) {
    levels.push_back(level);
    return true;
  }
  for (size_t inner = count / 2; inner >= 2; --inner) {
    if (count % inner)
      continue;
    bool separable = true;
    for (size_t i = inner; i < count && separable; ++i)
      separable = at[i * every] - at[i / inner * inner * every] == at[i % inner * every] - at[0];
    if (!separable || !fitLevel(at, inner, every, level))
      continue;
    size_t before = levels.size();
    levels.push_back(level);
    if (fitLevels(at, count / inner, every * inner, levels))
      return true;
    levels.resize(before);
  }
  return false;
}

bool levelFits(const isa::Level &level) {
  for (const isa::FieldInfo &field : isa::levelFields())
    if (!isa::fits(field, isa::get(field, &level)))
      return false;
  return true;
}

struct Leaf {
  const isa::Instruction *source = nullptr; ///< the first copy
  const isa::Instruction *last = nullptr;   ///< the last copy, which may post more
  Addresses addresses{};
  Odometer odometer;
  uint32_t layer = 0;

  /// What happens around an execution, besides the work.
  std::array<int64_t, 7> waits() const {
    const auto &s = source->header.wait_semaphore, &c = source->header.wait_count;
    return {s[0], s[1], s[2], c[0], c[1], c[2], odometer.waitMask};
  }
  std::array<int64_t, 7> posts() const {
    const auto &s = last->header.post_semaphore, &c = last->header.post_count;
    return {s[0], s[1], s[2], c[0], c[1], c[2], odometer.postMask};
  }
};

/// A leaf, or a loop around other nodes.
struct Node {
  int64_t count = 0; ///< 0: a leaf
  std::vector<uint32_t> body;
  std::vector<uint32_t> leavesBelow; ///< of a loop, in order
  uint32_t leaf = 0;
  uint32_t layer = 0;
  uint32_t work = 0;  ///< equal for nodes that differ in addresses, waits and posts at most
  uint32_t shape = 0; ///< equal for nodes that differ in addresses at most
  uint32_t words = 0;
  uint32_t depth = 0;
  uint64_t place = 0;   ///< a sum of all addresses with odd factors: copies that advance evenly differ by a constant
  bool settled = false; ///< its body has been looked at
};

/// Copies [begin, begin + period), [begin + period, ...), up to `end`, whose steps repeat after `ring` copies.
struct Run {
  size_t begin = 0, end = 0, period = 0, ring = 1;
  int64_t saving = 0; ///< words; an upper bound until evaluated

  size_t copies() const { return (end - begin) / period; }
  bool operator<(const Run &other) const {
    if (saving != other.saving)
      return saving < other.saving;
    if (period != other.period)
      return period > other.period;
    return begin > other.begin;
  }
};

class Reroller {
public:
  explicit Reroller(const timing::MachineParams &machine) : machine(machine) {}

  std::vector<Code> run(const TileProgram &program) {
    Sequence top;
    for (const Block &block : program.blocks)
      adopt(block, top);
    settle(top, 0);
    std::vector<Code> result;
    result.reserve(top.size());
    for (uint32_t node : top)
      result.push_back(finish(node));
    return result;
  }

private:
  using Sequence = std::vector<uint32_t>; ///< of nodes

  const timing::MachineParams &machine;
  std::vector<Leaf> leaves;
  std::vector<Node> nodes;
  struct Work {
    isa::Instruction plain; ///< without addresses, levels, waits, posts and masks
    Odometer odometer;
    uint32_t layer, number;
  };
  std::unordered_map<size_t, std::vector<Work>> leafWork; ///< by hash
  std::map<std::vector<int64_t>, uint32_t> numbers; ///< of leaf shapes, of loop works and shapes, by what they are made of
  uint32_t nextNumber = 0;

  struct Leaves {
    const uint32_t *data;
    size_t size;
    uint32_t operator[](size_t i) const { return data[i]; }
  };
  Leaves leavesOf(uint32_t node) const {
    const Node &n = nodes[node];
    return n.count ? Leaves{n.leavesBelow.data(), n.leavesBelow.size()} : Leaves{&n.leaf, 1};
  }

  void adopt(const Block &block, Sequence &top);
  uint32_t adopt(const Operation &operation, bool inLoop);
  Code finish(uint32_t node) const;

  /// Computes what follows from the node's leaf or body.
  void describe(uint32_t node);
  uint32_t workOf(const Leaf &leaf);
  uint32_t numberOf(std::vector<int64_t> key);

  void settle(Sequence &sequence, size_t outer);
  bool round(Sequence &sequence, size_t outer);
  std::priority_queue<Run> findRuns(const Sequence &sequence) const;
  bool fit(const Sequence &sequence, size_t outer, Run &run, std::vector<Odometer> &odometers) const;
  bool evaluate(const Sequence &sequence, size_t outer, size_t freeBegin, size_t freeEnd, Run &run,
                std::vector<Odometer> &odometers) const;
  uint32_t makeLoop(const Sequence &sequence, const Run &run, std::vector<Odometer> odometers);
};

uint32_t wordsOf(const Leaf &leaf, const Odometer &odometer) {
  size_t levels = odometer.levels.size();
  if (levels) {
    Odometer merged = odometer;
    merged.merge();
    levels = merged.levels.size();
  }
  return leaf.source->info().words + uint32_t(levels + 1) / 2;
}

uint32_t Reroller::adopt(const Operation &operation, bool inLoop) {
  const isa::Instruction &instruction = operation.instruction;
  const isa::Header &header = instruction.header;
  Leaf leaf;
  leaf.source = leaf.last = &instruction;
  leaf.layer = operation.layer;
  auto fields = addressFields(const_cast<isa::Instruction &>(instruction));
  for (size_t k = 0; k < 4; ++k)
    leaf.addresses[k] = fields[k] ? *fields[k] : 0;
  Odometer &odometer = leaf.odometer;
  odometer.levels.assign(instruction.levels.begin(), instruction.levels.begin() + header.num_levels);
  odometer.loops = inLoop;
  odometer.perLoop[0] = inLoop ? uint8_t(header.num_levels) : 0;
  odometer.waitMask = any(header.wait_count) ? header.wait_mask : 0;
  odometer.postMask = any(header.post_count) ? header.post_mask : 0;
  odometer.predicateMask = header.predicate_mask;
  if (auto *tensor = instruction.getIf<isa::Tensor>())
    odometer.clearMask = tensor->clear_mask;
  odometer.edgeLevel = header.edge_level;
  for (size_t e = 0; e < 2; ++e)
    odometer.edgeUsed[e] = header.edge_value[e] != 0;
  Node node;
  node.leaf = uint32_t(leaves.size());
  node.layer = operation.layer;
  leaves.push_back(std::move(leaf));
  nodes.push_back(std::move(node));
  describe(uint32_t(nodes.size() - 1));
  return uint32_t(nodes.size() - 1);
}

void Reroller::adopt(const Block &block, Sequence &top) {
  if (block.count == 1) {
    for (const Operation &operation : block.operations) {
      top.push_back(adopt(operation, false));
      // Outside loops only the first execution of an odometer counts: no copy continues it.
      if (operation.instruction->header.num_levels)
        nodes.back().shape = nodes.back().work = nextNumber++;
    }
    return;
  }
  Node loop;
  loop.count = int64_t(block.count);
  loop.layer = block.operations.front().layer;
  bool returns = true;
  for (const Operation &operation : block.operations) {
    loop.body.push_back(adopt(operation, true));
    int64_t turns = 1;
    for (const isa::Level &level : leaves.back().odometer.levels)
      turns *= level.count;
    returns &= turns == loop.count;
  }
  nodes.push_back(std::move(loop));
  describe(uint32_t(nodes.size() - 1));
  // An odometer that is not back at its start when the loop ends cannot be in a larger one.
  if (!returns)
    nodes.back().shape = nodes.back().work = nextNumber++;
  top.push_back(uint32_t(nodes.size() - 1));
}

Code Reroller::finish(uint32_t index) const {
  const Node &node = nodes[index];
  Code code;
  code.layer = node.layer;
  if (node.count) {
    isa::Loop loop;
    loop.count = node.count;
    for (uint32_t inner : node.body)
      code.body.push_back(finish(inner));
    loop.body_words = int64_t(schedule::wordsOf(code.body));
    code.instruction = isa::Instruction(loop);
    return code;
  }
  // Addresses are those of the first copy.
  const Leaf &leaf = leaves[node.leaf];
  code.instruction = *leaf.source;
  isa::Header &header = code.instruction.header;
  Odometer odometer = leaf.odometer;
  odometer.merge();
  code.instruction.levels = {};
  std::copy(odometer.levels.begin(), odometer.levels.end(), code.instruction.levels.begin());
  header.num_levels = int64_t(odometer.levels.size());
  header.post_semaphore = leaf.last->header.post_semaphore;
  header.post_count = leaf.last->header.post_count;
  header.wait_mask = odometer.waitMask;
  header.post_mask = odometer.postMask;
  header.predicate_mask = odometer.predicateMask;
  header.edge_level = odometer.edgeLevel;
  if (auto *tensor = code.instruction.getIf<isa::Tensor>())
    tensor->clear_mask = odometer.clearMask;
  return code;
}

uint32_t Reroller::workOf(const Leaf &leaf) {
  isa::Instruction plain = *leaf.source;
  const isa::Header &header = leaf.source->header;
  plain.header = {};
  plain.header.unit = header.unit;
  plain.header.predicate = header.predicate;
  plain.header.edge_index = header.edge_index;
  plain.header.edge_value = header.edge_value;
  plain.levels = {};
  if (auto *tensor = plain.getIf<isa::Tensor>())
    tensor->clear_mask = 0;
  for (int64_t *field : addressFields(plain))
    if (field)
      *field = 0;
  size_t hash = mix(size_t(plain.opcode()), leaf.layer);
  hash = hashOf(hash, plain.header);
  hash = std::visit([&](const auto &operands) { return hashOf(hash, operands); }, plain.operands);
  for (const isa::Level &level : leaf.odometer.levels)
    hash = hashOf(hash, level);
  auto isSame = [&](const Work &other) {
    return other.layer == leaf.layer && other.plain.opcode() == plain.opcode() && other.odometer.turnsLike(leaf.odometer) &&
           same(other.plain.header, plain.header) &&
           std::visit([&](const auto &o) { return same(o, plain.as<std::decay_t<decltype(o)>>()); }, other.plain.operands);
  };
  std::vector<Work> &known = leafWork[hash];
  auto it = std::find_if(known.begin(), known.end(), isSame);
  if (it != known.end())
    return it->number;
  known.push_back({plain, leaf.odometer, leaf.layer, nextNumber});
  return nextNumber++;
}

uint32_t Reroller::numberOf(std::vector<int64_t> key) {
  auto [entry, added] = numbers.try_emplace(std::move(key), nextNumber);
  nextNumber += added;
  return entry->second;
}

/// Odd, and different for every address of every leaf.
uint64_t placeFactor(uint64_t index) { return mix(0x5bd1e995, (index + 1) * 0xbf58476d1ce4e5b9) | 1; }

void Reroller::describe(uint32_t index) {
  Node &node = nodes[index];
  if (!node.count) {
    node.words = ::wordsOf(leaves[node.leaf], leaves[node.leaf].odometer);
    const Leaf &leaf = leaves[node.leaf];
    node.work = workOf(leaf);
    std::vector<int64_t> key{node.work};
    for (int64_t value : leaf.waits())
      key.push_back(value);
    for (int64_t value : leaf.posts())
      key.push_back(value);
    node.shape = numberOf(std::move(key));
  } else {
    // The layer is that of the body.
    std::vector<int64_t> works{-1, node.count}, shapes{-2, node.count};
    node.leavesBelow.clear();
    node.words = 1;
    node.depth = 1;
    for (uint32_t inner : node.body) {
      const Node &child = nodes[inner];
      Leaves below = leavesOf(inner);
      node.words += child.words;
      node.depth = std::max(node.depth, child.depth + 1);
      node.leavesBelow.insert(node.leavesBelow.end(), below.data, below.data + below.size);
      works.push_back(child.work);
      shapes.push_back(child.shape);
    }
    node.work = numberOf(std::move(works));
    node.shape = numberOf(std::move(shapes));
  }
  node.place = 0;
  Leaves below = leavesOf(index);
  for (size_t l = 0; l < below.size; ++l)
    for (size_t k = 0; k < 4; ++k)
      node.place += uint64_t(leaves[below[l]].addresses[k]) * placeFactor(4 * l + k);
}

/// Every run that may be worth a loop, by what it would save at most.
std::priority_queue<Run> Reroller::findRuns(const Sequence &sequence) const {
  size_t size = sequence.size();
  std::vector<uint32_t> shape(size), work(size), words(size + 1, 0);
  std::vector<uint64_t> place(size);
  for (size_t i = 0; i < size; ++i) {
    const Node &node = nodes[sequence[i]];
    shape[i] = node.shape;
    work[i] = node.work;
    place[i] = node.place;
    words[i + 1] = words[i] + node.words;
  }
  size_t longest = 0; // nodes that fit the loop buffer together
  for (size_t i = 0; i + longest < size; ++i)
    while (i + longest < size && words[i + longest + 1] - words[i] <= machine.loopBufferWords)
      ++longest;
  std::vector<Run> runs;
  auto add = [&](size_t begin, size_t end, size_t period, size_t ring) {
    Run run{begin, end, period, ring};
    uint32_t body = words[begin + period] - words[begin];
    run.saving = int64_t(words[begin + run.copies() * period] - words[begin]) - body - 1;
    if (body <= machine.loopBufferWords && run.saving >= kMinSaving)
      runs.push_back(run);
  };
  std::vector<std::pair<size_t, size_t>> windows;
  for (size_t period = 1; period <= std::min(size / 2, longest); ++period) {
    for (size_t begin = 0, end; begin + period < size; begin = end + 1) {
      end = begin;
      while (end + period < size && shape[end] == shape[end + period])
        ++end;
      // The nodes [begin, end) look like those a period further on.
      if (end - begin < period)
        continue;
      windows.clear();
      auto isKnown = [&](size_t first, size_t last) {
        return std::any_of(windows.begin(), windows.end(), [&](auto w) { return w.first <= first && last <= w.second; });
      };
      auto step = [&](size_t i) { return place[i + period] - place[i]; };
      for (size_t ring = 1; ring <= kMaxRing && begin + ring * period < end; ++ring) {
        size_t ahead = ring * period;
        for (size_t i = begin, last; i + ahead < end; i = last + 1) {
          last = i;
          while (last + ahead < end && step(last) == step(last + ahead))
            ++last;
          size_t stop = last + ahead + period;
          if ((stop - i) / period < std::max<size_t>(2 * ring, 3) || isKnown(i, stop))
            continue;
          windows.push_back({i, stop});
          add(i, stop, period, ring);
        }
      }
      // Two copies always advance evenly.
      for (size_t i = begin; i + period <= end; i += 2 * period)
        add(i, i + 2 * period, period, 1);
    }
    // The first of two copies may wait for more, and the second post more.
    for (size_t begin = 0, end; begin + period < size; begin = end + 1) {
      end = begin;
      while (end + period < size && work[end] == work[end + period])
        ++end;
      for (size_t i = begin; i + period <= end; i += 2 * period)
        add(i, i + 2 * period, period, 1);
    }
  }
  return std::priority_queue<Run>(std::less<Run>(), std::move(runs));
}

/// The odometers of the run's instructions as a loop, and what it saves. False: it cannot be one.
bool Reroller::fit(const Sequence &sequence, size_t outer, Run &run, std::vector<Odometer> &odometers) const {
  const std::array<int64_t, 7> none{};
  size_t copies = run.copies();
  std::vector<Addresses> at(copies);
  std::vector<isa::Level> levels;
  uint32_t body = 0;
  odometers.clear();
  for (size_t i = 0; i < run.period; ++i) {
    uint32_t node = sequence[run.begin + i];
    Leaves below = leavesOf(node);
    body += nodes[node].words;
    for (size_t l = 0; l < below.size; ++l) {
      const Leaf &leaf = leaves[below[l]];
      auto copy = [&](size_t c) -> const Leaf & { return leaves[leavesOf(sequence[run.begin + c * run.period + i])[l]]; };
      for (size_t c = 0; c < copies; ++c)
        at[c] = copy(c).addresses;
      levels.clear();
      if (!fitLevels(at.data(), copies, 1, levels))
        return false;
      // Copies between the second and the last but one have the same shape.
      const Leaf &last = copy(copies - 1);
      bool waitsOnce = leaf.waits() != copy(1).waits(), postsOnce = copy(copies - 2).posts() != last.posts();
      if ((waitsOnce && copy(1).waits() != none) || (postsOnce && leaf.posts() != none) || copy(1).waits() != last.waits() ||
          leaf.posts() != copy(copies - 2).posts())
        return false;
      Odometer odometer = leaf.odometer;
      odometer.postMask = last.odometer.postMask;
      int64_t added = odometer.insert(levels, outer);
      odometer.waitMask |= waitsOnce ? added : 0;
      odometer.postMask |= postsOnce ? added : 0;
      Odometer merged = odometer;
      merged.merge();
      if (merged.levels.size() > size_t(isa::kMaxLevels) || !std::all_of(merged.levels.begin(), merged.levels.end(), levelFits))
        return false;
      body += ::wordsOf(leaf, odometer) - ::wordsOf(leaf, leaf.odometer);
      odometers.push_back(std::move(odometer));
    }
  }
  run.saving = -int64_t(body) - 1;
  for (size_t i = run.begin; i < run.begin + copies * run.period; ++i)
    run.saving += nodes[sequence[i]].words;
  return run.saving >= kMinSaving && body <= machine.loopBufferWords;
}

/// Trims the run, or takes further copies of [freeBegin, freeEnd) in, so that a loop fits. False: none does.
bool Reroller::evaluate(const Sequence &sequence, size_t outer, size_t freeBegin, size_t freeEnd, Run &run,
                        std::vector<Odometer> &odometers) const {
  size_t depth = 0;
  bool equal = true;
  for (size_t i = run.begin; i < run.begin + run.period; ++i) {
    depth = std::max<size_t>(depth, nodes[sequence[i]].depth);
    equal &= nodes[sequence[i]].shape == nodes[sequence[i + run.period]].shape;
  }
  if (outer + 1 + depth > size_t(isa::kMaxLoopDepth))
    return false;
  const size_t copies = std::min(run.copies(), size_t(kMaxCount)), begin = run.begin;
  const size_t end = std::min(run.end, begin + (copies + 1) * run.period - 1);
  run.end = run.begin + copies * run.period;
  if (!fit(sequence, outer, run, odometers)) {
    // A ring must be gone round in full, for some levels from its first slot on.
    if (run.ring == 1 || copies < run.ring)
      return false;
    const size_t round = run.ring * run.period;
    bool fits = false;
    for (size_t shift = 0; !fits && shift < std::min(round, kMaxShift) && begin + shift + round <= end; ++shift) {
      run.begin = begin + shift;
      run.end = run.begin + (end - run.begin) / round * round;
      fits = fit(sequence, outer, run, odometers);
    }
    if (!fits)
      return false;
  }
  // A first copy that waits for more, a last one that posts more.
  auto extend = [&](size_t begin, size_t end, size_t copy) {
    for (size_t i = 0; i < run.period; ++i)
      if (nodes[sequence[copy + i]].work != nodes[sequence[run.begin + i]].work)
        return;
    Run longer = run;
    std::vector<Odometer> more;
    longer.begin = begin;
    longer.end = end;
    if (!fit(sequence, outer, longer, more) || longer.saving <= run.saving)
      return;
    run = longer;
    odometers = std::move(more);
  };
  if (equal && run.begin >= freeBegin + run.period)
    extend(run.begin - run.period, run.end, run.begin - run.period);
  if (equal && run.end + run.period <= freeEnd)
    extend(run.begin, run.end + run.period, run.end);
  return true;
}

uint32_t Reroller::makeLoop(const Sequence &sequence, const Run &run, std::vector<Odometer> odometers) {
  Node loop;
  loop.count = int64_t(run.copies());
  loop.layer = nodes[sequence[run.begin]].layer;
  loop.body.assign(sequence.begin() + ptrdiff_t(run.begin), sequence.begin() + ptrdiff_t(run.begin + run.period));
  size_t next = 0;
  for (size_t i = 0; i < run.period; ++i) {
    Leaves below = leavesOf(sequence[run.begin + i]), last = leavesOf(sequence[run.end - run.period + i]);
    for (size_t l = 0; l < below.size; ++l) {
      leaves[below[l]].odometer = std::move(odometers[next++]);
      leaves[below[l]].last = leaves[last[l]].last;
    }
  }
  std::function<void(uint32_t)> refresh = [&](uint32_t index) {
    for (uint32_t inner : nodes[index].body)
      refresh(inner);
    describe(index);
  };
  for (uint32_t index : loop.body)
    refresh(index);
  nodes.push_back(std::move(loop));
  describe(uint32_t(nodes.size() - 1));
  return uint32_t(nodes.size() - 1);
}

/// Makes the loops that save most, each from nodes that no other one has. False: there is none.
bool Reroller::round(Sequence &sequence, size_t outer) {
  std::priority_queue<Run> runs = findRuns(sequence);
  struct Chosen {
    Run run;
    std::vector<Odometer> odometers;
  };
  std::map<size_t, Chosen> chosen; ///< by first node
  std::vector<Odometer> odometers;
  while (!runs.empty()) {
    Run run = runs.top();
    runs.pop();
    // The longest part that is still free.
    size_t copies = run.copies(), freeBegin = 0, freeEnd = 0, from = 0;
    auto isFree = [&](size_t begin, size_t end) {
      auto part = [&](size_t begin, size_t end) {
        begin = std::max(begin, run.begin);
        end = std::min(end, run.end);
        return begin < end ? end - begin : 0;
      };
      if (part(begin, end) > part(freeBegin, freeEnd)) {
        freeBegin = begin;
        freeEnd = end;
      }
    };
    auto it = chosen.upper_bound(run.begin);
    if (it != chosen.begin())
      from = std::prev(it)->second.run.end;
    for (; it != chosen.end() && from < run.end; ++it) {
      isFree(from, it->first);
      from = it->second.run.end;
    }
    if (from < run.end)
      isFree(from, it == chosen.end() ? sequence.size() : it->first);
    if (freeEnd == 0)
      continue;
    run.begin = std::max(run.begin, freeBegin);
    run.end = std::min(run.end, freeEnd);
    if (run.copies() < 2)
      continue;
    if (run.copies() < copies) {
      run.saving = run.saving * int64_t(run.copies() - 1) / int64_t(copies - 1);
      if (run.saving >= kMinSaving)
        runs.push(run);
      continue;
    }
    if (!evaluate(sequence, outer, freeBegin, freeEnd, run, odometers))
      continue;
    if (!runs.empty() && run < runs.top())
      runs.push(run); // saves less than hoped
    else
      chosen[run.begin] = {run, std::move(odometers)};
  }
  if (chosen.empty())
    return false;
  Sequence result;
  for (size_t i = 0; i < sequence.size();) {
    auto it = chosen.find(i);
    if (it == chosen.end()) {
      result.push_back(sequence[i++]);
      continue;
    }
    result.push_back(makeLoop(sequence, it->second.run, std::move(it->second.odometers)));
    i = it->second.run.end;
  }
  sequence = std::move(result);
  return true;
}

/// Makes loops until none is left to make, then looks into their bodies, which may let the loops around them fit.
void Reroller::settle(Sequence &sequence, size_t outer) {
  for (bool changed = true; changed;) {
    while (round(sequence, outer))
      ;
    changed = false;
    for (uint32_t index : sequence) {
      if (!nodes[index].count || nodes[index].settled)
        continue;
      Sequence body = nodes[index].body;
      settle(body, outer + 1);
      nodes[index].settled = true;
      if (body == nodes[index].body)
        continue;
      nodes[index].body = std::move(body);
      describe(index);
      changed = true;
    }
  }
}
} // namespace

uint64_t schedule::wordsOf(const std::vector<Code> &code) {
  uint64_t words = 0;
  for (const Code &c : code)
    words += c.instruction.words() + wordsOf(c.body);
  return words;
}

std::vector<Code> schedule::codeOf(const TileProgram &program) {
  std::vector<Code> code;
  for (const Block &block : program.blocks) {
    std::vector<Code> body;
    for (const Operation &operation : block.operations)
      body.push_back({operation.instruction, operation.layer, {}});
    if (block.count == 1) {
      std::move(body.begin(), body.end(), std::back_inserter(code));
      continue;
    }
    isa::Loop loop;
    loop.count = int64_t(block.count);
    loop.body_words = int64_t(wordsOf(body));
    code.push_back({isa::Instruction(loop), block.operations.front().layer, std::move(body)});
  }
  return code;
}

std::vector<Code> schedule::reroll(const TileProgram &program, const timing::MachineParams &machine) {
  return Reroller(machine).run(program);
}

void schedule::execute(const std::vector<Code> &code,
                       const std::function<void(const isa::Instruction &, uint32_t layer)> &visit) {
  std::unordered_map<const Code *, isa::OdometerState> states;
  std::function<void(const Code &, bool)> step = [&](const Code &c, bool outermost) {
    if (auto *loop = c.instruction.getIf<isa::Loop>()) {
      if (outermost)
        states.clear();
      for (int64_t i = 0; i < loop->count; ++i)
        for (const Code &inner : c.body)
          step(inner, false);
      return;
    }
    isa::OdometerState fresh;
    if (auto resolved = isa::resolve(c.instruction, outermost ? fresh : states[&c]))
      visit(*resolved, c.layer);
  };
  for (const Code &c : code)
    step(c, true);
}
