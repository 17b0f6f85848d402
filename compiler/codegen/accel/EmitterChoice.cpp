//===- EmitterChoice.cpp - Which tile is taken -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Emitter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <map>
#include <tuple>

using namespace tw;
using namespace tw::accel;

namespace {
constexpr size_t kCandidates = 8;      ///< tiles that are looked at closely
constexpr size_t kSearched = 32;       ///< the same, for a search
constexpr size_t kSearchedAlone = 128; ///< the same, of a kernel without neighbours: the list scheduler puts them in order
constexpr size_t kOfSize = 4;          ///< of these, of one size
constexpr size_t kOfSizePacked = 2;    ///< the same, of a kernel with packed taps beside others
constexpr size_t kOfSizeRows = 2;      ///< the same, of a product of rows that a search may want in other sizes
constexpr size_t kOfSizeAlone = 12;    ///< the same, for a search of a kernel without neighbours
constexpr size_t kMostTried = 1 << 20; ///< operations of the tiles that the list scheduler is shown, for one kernel
constexpr size_t kByBlock = 4;         ///< with one sum, that a search may also have leave by block

bool isFaster(const std::pair<double, Tile> &x, const std::pair<double, Tile> &y) { return x.first < y.first; }

/// Distinct useful tile sizes of an extent: those that change the number of tiles, in units of `unit`, at most `limit` of them, none above
/// `most`.
std::vector<int64_t> tileSizes(int64_t extent, int64_t unit, size_t limit, int64_t most = INT64_MAX) {
  std::vector<int64_t> sizes;
  for (int64_t q = 1 + (extent - 1) / most; q <= ceilDiv(extent, unit); ++q) {
    int64_t size = std::min(roundUp(ceilDiv(extent, q), unit), roundUp(extent, unit));
    if (sizes.empty() || size < sizes.back())
      sizes.push_back(size);
  }
  // What leaves a smaller last tile goes first, then every second one behind the largest. The smallest stays: it may be the only
  // one that fits.
  for (size_t i = sizes.size() - 1; i-- > 1 && sizes.size() > limit;)
    if (extent % sizes[i])
      sizes.erase(sizes.begin() + long(i));
  while (sizes.size() > limit)
    for (size_t i = 1; i + 1 < sizes.size() && sizes.size() > limit; ++i)
      sizes.erase(sizes.begin() + long(i));
  return sizes;
}
/// The values of a flag.
llvm::SmallVector<int64_t, 5> flags(bool mayBeSet) {
  llvm::SmallVector<int64_t, 5> values{false};
  if (mayBeSet)
    values.push_back(true);
  return values;
}

/// Values of a choice.
template <typename... Choices> llvm::SmallVector<int64_t, 5> choices(Choices... values) { return {int64_t(values)...}; }
} // namespace

/// At most `most` tiles, the best ones. With `ofSize` each program counts once, and there are no more tiles of one size than that.
class Emitter::Shortlist {
public:
  Shortlist(const Emitter &emitter, size_t most, size_t ofSize) : emitter(emitter), most(most), ofSize(ofSize) {}

  const Ranking &ranking() const { return tiles; }
  bool takes(double estimate) const { return tiles.size() < most || (most && estimate < tiles.back().first); }
  void insert(double estimate, const Tile &t) {
    if (!takes(estimate))
      return;
    if (ofSize) {
      auto same = llvm::find_if(tiles, [&](const auto &other) { return emitter.givesSameProgram(other.second, t); });
      if (same != tiles.end() && same->first <= estimate)
        return;
      if (same != tiles.end())
        tiles.erase(same);
    }
    const std::pair<double, Tile> entry(estimate, t);
    tiles.insert(llvm::upper_bound(tiles, entry, isFaster), entry);
    if (ofSize)
      dropOneOf(t);
    if (tiles.size() > most)
      tiles.pop_back();
  }

private:
  /// Of a size that has too many, the worst one makes room for other sizes.
  void dropOneOf(const Tile &t) {
    size_t count = 0;
    auto isTooMany = [&](const auto &other) {
      return other.second.tile == t.tile && other.second.tileK == t.tileK && ++count > ofSize;
    };
    if (auto it = llvm::find_if(tiles, isTooMany); it != tiles.end())
      tiles.erase(it);
  }

  const Emitter &emitter;
  size_t most, ofSize;
  Ranking tiles;
};

bool Emitter::canBeEncoded(const Tile &t, std::string &why) {
  // What an instruction goes through is no larger than what holds it.
  const Buffers b = plan(t);
  const int64_t stride = isa::maximumOf(isa::Opcode::Tensor, "strides"),
                rows = isa::maximumOf(isa::Opcode::Tensor, "acc_strides");
  auto isSmall = [&](const Buffer &buffer) {
    return buffer.bytes <= stride && (buffer.memory != unsigned(isa::Memory::Accumulator) ||
                                      buffer.bytes <= rows * int64_t(machine.accumulatorRowBytes()));
  };
  auto isSmallOnChip = [&](const Resident *r) { return !r || r->bytes <= stride; };
  int64_t window = kernel.anchor ? std::max(kernel.anchor->axes[0].kernel, kernel.anchor->axes[1].kernel) : 1;
  for (const Step &step : kernel.steps) {
    window = step.reducesChannels ? std::max(window, ceilDiv(channels(), int64_t(machine.lanes))) : window;
    window = step.sumsPositions ? std::max({window, kernel.extent[P0], kernel.extent[P1]}) : window;
  }
  if (window <= kMaxWindow && llvm::all_of(b.all, isSmall) && llvm::all_of(onChip.tensors, isSmallOnChip))
    return true;
  for (const schedule::Step &step : trialOf(t)) {
    auto fits = [&](const schedule::Operation &op) { return isa::fits(op.instruction, &why); };
    auto allFit = [&](const schedule::Block &block) { return llvm::all_of(block.operations, fits); };
    if (!llvm::all_of(step.loads, fits) || !llvm::all_of(step.compute, allFit))
      return false;
  }
  return true;
}

bool Emitter::givesSameProgram(const Tile &x, const Tile &y) const {
  const bool hasOneOrder = x.tile[C] >= channels() || tileCount(x) == ceilDiv(channels(), x.tile[C]);
  // These knobs only say how many slots there are, and in which order tiles come.
  Tile alike = x;
  alike.stationary = y.stationary;
  alike.singleAccumulator = y.singleAccumulator;
  if ((x.depth == 1) == (y.depth == 1))
    alike.depth = y.depth;
  if (hasOneOrder && x.kOuter() == y.kOuter())
    alike.loopOrder = y.loopOrder;
  if (alike != y)
    return false;
  const Buffers mine = plan(x), others = plan(y);
  auto hasSameSlots = [](const Buffer &a, const Buffer &b) { return a.slots == b.slots; };
  return std::equal(mine.all.begin(), mine.all.end(), others.all.begin(), others.all.end(), hasSameSlots);
}

/// For a search, of a product of rows: every program once, first those of `best`, then those of `ofSizes`, then all of them with tiles
/// through which positions go in parts.
Ranking Emitter::withSizesAndSplits(const Ranking &best, const Ranking &ofSizes) const {
  Ranking ranking;
  auto add = [&](double estimate, const Tile &t) {
    if (llvm::none_of(ranking, [&](const auto &other) { return givesSameProgram(other.second, t); }))
      ranking.push_back({estimate, t});
  };
  for (const auto &[estimate, t] : best)
    add(estimate, t);
  for (const auto &[estimate, t] : ofSizes)
    add(estimate, t);
  if (kernel.plan.firstSplit || kernel.plan.lastSplit)
    return ranking;
  for (size_t i = 0, count = ranking.size(); i < count; ++i)
    for (const TileSplits &splits : onChip.splits) {
      const double estimate = ranking[i].first;
      Tile t = ranking[i].second;
      t.firstSplit = splits.first;
      t.lastSplit = splits.last;
      if (Buffers b; t.tile[P0] == kernel.extent[P0] && (!t.kOuter() || !splits.last || comesLateEnough(*splits.last)) &&
                     fitsDrained(t, b) && allocate(b))
        add(estimate, t);
    }
  return ranking;
}

/// Whether the parts of the last tiles come late enough to sums that earlier input channels have begun for all positions (docs/design/accumulator.md):
/// of so few that the array is back before they are there, only the whole.
bool Emitter::comesLateEnough(const plan::Split &last) const {
  return last.positions >= kernel.extent[P0] || kernel.extent[P0] >= int64_t(timing::accumulatorDistance(machine));
}

std::string Emitter::rankingKey(bool planned) const {
  std::string key = kernel.kind;
  llvm::raw_string_ostream text(key);
  auto list = [&](const auto &values) {
    text << '[';
    for (int64_t value : values)
      text << value << ' ';
  };
  list(kernel.output.stride);                                                                     // of a part: the whole's
  const bool shortWindows = *onChip.knobs.shortPooling && window() && kernel.anchor->weights < 0; // other kernels ignore it
  list(std::array<int64_t, 5>{onChip.fillsBorders, onChip.storesResult, onChip.hasNeighbours, shortWindows, room.size()});
  list(std::array<int64_t, 7>{room.begin, onChip.weights.begin, onChip.weights.end, onChip.sums.begin, onChip.sums.end,
                              isFirstOfArray(), planned});
  KernelPlan knobs; // kernels of a kind may be asked for different tiles
  for (plan::TileKnob knob : plan::kTileKnobs)
    plan::TileKnobs::copy(knob, wanted, knobs);
  text << plan::print(knobs);
  for (const TileSplits &splits : onChip.splits)
    for (const std::optional<plan::Split> &part : {splits.first, splits.last})
      list(part ? std::array<int64_t, 2>{part->tiles, part->positions} : std::array<int64_t, 2>{});
  auto describe = [&](size_t tensor, const Resident &r) {
    list(std::array<int64_t, 10>{int64_t(tensor), r.channels, r.width, r.rows, r.elementBytes, r.lanes, r.isPlanar,
                                 r.blockBytes, r.pixelBytes, r.rowBytes});
    list(r.padLow);
    list(r.padHigh);
  };
  for (size_t tensor = 0; tensor < onChip.tensors.size(); ++tensor)
    if (const Resident *r = onChip.tensors[tensor])
      describe(tensor, *r);
  if (!onChip.banding)
    return key;
  // In a group they also depend on the others.
  auto listRanges = [&](const auto &ranges) {
    text << '(';
    for (const Range &range : ranges)
      list(std::array<int64_t, 2>{range.begin, range.end});
    text << ')';
  };
  listRanges(onChip.banding->rows);
  listRanges(onChip.banding->own);
  list(std::array<int64_t, 3>{onChip.banding->strips, onChip.banding->loadsWhole, onChip.banding->maxLineBuffer});
  for (const BandedTensor *banded : {onChip.banding->input, onChip.banding->addend, onChip.banding->output}) {
    text << (banded ? 'b' : '-');
    if (!banded)
      continue;
    describe(0, banded->layout);
    list(std::array<int64_t, 1>{banded->rows});
    listRanges(banded->bands);
    list(std::array<int64_t, 2>{int64_t(banded->bandsPerRun), banded->ring});
    list(banded->slots);
  }
  return key;
}

/// Whether every tile has all channels.
bool Emitter::takesAllChannels() const {
  return packsRows() || llvm::any_of(kernel.steps, [](const Step &s) { return s.reducesChannels; });
}

Emitter::TileSizes Emitter::sizesToTry() const {
  const KernelPlan &request = kernel.plan;
  // What is asked for need not be what the compiler would look at.
  auto orAsked = [](std::vector<int64_t> sizes, int64_t asked) { return asked ? std::vector<int64_t>{asked} : sizes; };
  const int64_t unit = channelUnit();
  TileSizes sizes;
  sizes.channels = orAsked(
      takesAllChannels() ? std::vector<int64_t>{roundUp(channels(), unit)} : tileSizes(channels(), unit, 12), request.tile[C]);
  sizes.ic = orAsked(!contraction() ? std::vector<int64_t>{1}
                     : unpacked     ? std::vector<int64_t>{kernel.anchor->ic}
                                    : tileSizes(kernel.anchor->ic, machine.rows, 8),
                     request.tileK);
  // A matrix product has one axis of positions to look along.
  const bool isFlat = kernel.extent[P1] * kernel.extent[P2] == 1;
  // A pass counts its positions.
  const int64_t most = contraction() ? isa::maximumOf(isa::Opcode::Tensor, "counts") : INT64_MAX;
  sizes.columns = kernel.pool ? std::vector<int64_t>{kernel.extent[P0]}
                              : tileSizes(bandColumns(), 1,
                                          isFlat     ? 40
                                          : unpacked ? 12
                                                     : 8,
                                          most);
  sizes.rows = kernel.pool ? std::vector<int64_t>{kernel.extent[P1]} : tileSizes(bandRows(), 1, 14, most);
  sizes.columns = orAsked(sizes.columns, request.tile[P0]);
  sizes.rows = orAsked(sizes.rows, request.tile[P1]);
  sizes.images = orAsked(tileSizes(kernel.extent[P2], 1, 4, most), request.tile[P2]);
  return sizes;
}

std::vector<Emitter::Style> Emitter::stylesToTry() const {
  if (const int64_t depth = kernel.plan.depth) {
    std::vector<Style> styles;
    if (schedule != Schedule::Serial)
      styles.push_back({depth, true});
    if (depth == 1 && !overlaps())
      styles.push_back({1, false});
    return styles;
  }
  if (overlaps())
    return {{1, true}, {2, true}, {3, true}, {4, true}};
  // double_buffer may also leave a kernel serial: where the data bus is all that counts, long streams in one direction win.
  if (schedule == Schedule::DoubleBuffer)
    return {{1, true}, {2, true}, {1, false}};
  return {{1, false}};
}

//===----------------------------------------------------------------------===//
// Variants of a tile
//===----------------------------------------------------------------------===//

llvm::ArrayRef<Emitter::KnobRule> Emitter::knobRules() {
  using plan::TileKnob;
  using E = const Emitter &;
  auto any = [](E) { return true; };
  auto contraction = [](E e) { return e.contraction(); };
  auto canSplit = [](E e) { return e.canCut(); };
  auto whyNoSplit = [](E) -> std::string {
    return "is no product of schedule pipelined or search beside others whose positions along x are rows of one matrix";
  };
  static const KnobRule rules[] = {
      {TileKnob::Tile, Chooser::Sizes, any},
      {TileKnob::TileK, Chooser::Sizes, contraction},
      {TileKnob::Depth, Chooser::Sizes, any},
      {TileKnob::Overlap, Chooser::Form, [](E e) { return e.schedule == Schedule::DoubleBuffer; }, nullptr,
       [](E, const Tile &t) { return Values{t.overlap}; }},
      // Kernels of a fusion group take turns at the accumulator. A single tile has a single slot anyway.
      {TileKnob::SingleAccumulator, Chooser::Form, [](E e) { return e.contraction() && e.overlaps(); }, nullptr,
       [](E e, const Tile &t) {
         const bool isOne = t.depth == 1 || (t.tile[C] >= e.channels() && e.hasAllPositions(t) && e.kernel.anchor->groups == 1);
         return flags(!e.onChip.banding && (!isOne || e.kernel.plan.singleAccumulator));
       }},
      // The first step: whether k blocks are the outer loop. Each tile then has an accumulator slot of its own.
      {TileKnob::LoopOrder, Chooser::Form, contraction, nullptr,
       [](E e, const Tile &t) {
         const bool canBeK = e.overlaps() && !e.onChip.banding && !t.singleAccumulator && t.depth > 1 &&
                             t.tileK < e.kernel.anchor->ic && e.kernel.anchor->groups == 1;
         return canBeK ? choices(LoopOrder::PositionsOuter, LoopOrder::KOuter) : choices(LoopOrder::PositionsOuter);
       }},
      // Weights of the whole kernel are worth their room in fusion groups, and not beside a single accumulator.
      {TileKnob::Stationary, Chooser::Form, contraction, nullptr,
       [](E e, const Tile &t) {
         if (!e.overlaps() || t.kOuter() || t.depth == 1)
           return choices(Stationary::None);
         Values all = choices(Stationary::None, Stationary::Single, Stationary::Prefetch, Stationary::Double);
         if (!t.singleAccumulator && (e.onChip.banding || e.kernel.plan.stationary == Stationary::Resident))
           all.append(choices(Stationary::Resident));
         return all;
       }},
      // The second step: whether positions or channels are the next loop.
      {TileKnob::LoopOrder, Chooser::Form, contraction, nullptr,
       [](E, const Tile &t) {
         return t.kOuter() ? choices(LoopOrder::KOuter, LoopOrder::KChannelsOuter)
                           : choices(LoopOrder::PositionsOuter, LoopOrder::ChannelsOuter);
       }},
      {TileKnob::DrainByBlock, Chooser::Form, contraction, [](E, const Tile &t) { return t.singleAccumulator; },
       [](E e, const Tile &t) { return Values{t.singleAccumulator && e.kernel.plan.drainByBlock.value_or(false)}; }},
      {TileKnob::Serpentine, Chooser::Plan, contraction,
       [](E e, const Tile &t) { return e.overlaps() && t.tileK < e.kernel.anchor->ic; }},
      {TileKnob::FirstSplit, Chooser::Plan, canSplit, nullptr, nullptr, whyNoSplit},
      {TileKnob::LastSplit, Chooser::Plan, canSplit, nullptr, nullptr, whyNoSplit},
      {TileKnob::ArrayChannels, Chooser::Plan, [](E e) { return e.overlaps() && canUseBothEngines(e.kernel, e.machine); },
       nullptr, nullptr,
       [](E e) {
         return "is no window of int8 channels, or of floats under --math finite, with constant weights, or machine '" +
                e.machine.name + "' has no array of that type with as many rows and columns as lanes";
       }},
      {TileKnob::SumLineBuffer, Chooser::Plan, [](E e) { return e.canHaveSumLineBuffer(); }, nullptr, nullptr,
       [](E) -> std::string {
         return "is no product of schedule pipelined or search beside others whose sums are seen by whole windows that share "
                "rows";
       }},
      // A fusion group has planned the room of the line buffer.
      {TileKnob::MaxLineBuffer, Chooser::LineBuffers, [](E e) { return e.carried > 0; }, nullptr,
       [](E e, const Tile &t) {
         const bool canHave = *e.wanted.maxLineBuffer && e.canHaveMaxLineBuffer(t);
         if (e.onChip.banding && e.onChip.banding->maxLineBuffer)
           return canHave ? Values{true} : Values{};
         return flags(canHave);
       },
       [](E) -> std::string {
         return "is no product of schedule pipelined or search beside others with whole windows of sums, two of which share "
                "rows";
       }},
      {TileKnob::LineBuffer, Chooser::LineBuffers, any, [](E e, const Tile &t) { return e.canRoll(t); },
       [](E e, const Tile &t) { return e.lineBuffers(t); }},
      {TileKnob::SingleLoader, Chooser::Scheduler, [](E e) { return e.canShareLoader(); }, nullptr,
       [](E, const Tile &) { return flags(true); },
       [](E e) -> std::string {
         return e.hasOpenEnds() && !e.unpacked
                    ? "has one load engine anyway"
                    : "is no contraction with unpacked taps that has a program of schedule pipelined or search to itself";
       }},
      {TileKnob::WideStart, Chooser::Scheduler, [](E e) { return e.isFirstOfArray(); },
       [](E e, const Tile &t) { return e.canBeginWide(t); }, [](E e, const Tile &t) { return flags(e.canBeginWide(t)); },
       [](E) -> std::string {
         return "is not the first contraction of a program of schedule pipelined or search, outside a fusion group";
       }},
      // Either start is enough, unless the plan sets both.
      {TileKnob::SmallFirstTile, Chooser::Scheduler, [](E e) { return e.hasOpenEnds() && e.constantWeights() && !e.unpacked; },
       [](E e, const Tile &t) { return e.canBeginSmall(t); },
       [](E e, const Tile &t) {
         const KernelPlan &asked = e.kernel.plan;
         return flags(e.canBeginSmall(t) && (!t.wideStart || (asked.smallFirstTile && asked.wideStart)));
       },
       [](E) -> std::string {
         return "is no contraction with constant weights and unpacked taps that has a program of schedule pipelined or "
                "search to itself";
       }},
      {TileKnob::SmallLastTile, Chooser::Scheduler, [](E e) { return e.hasOpenEnds(); }, nullptr,
       [](E e, const Tile &) { return Values{e.kernel.plan.smallLastTile.value_or(true)}; },
       [](E) -> std::string { return "is no contraction that has a program of schedule pipelined or search to itself"; }},
  };
  return rules;
}

void Emitter::forEachVariant(Chooser chooser, const Tile &t, llvm::function_ref<void(const Tile &)> visit, size_t rule) const {
  const llvm::ArrayRef<KnobRule> rules = knobRules();
  while (rule < rules.size() && (rules[rule].chooser != chooser || !rules[rule].isOf(*this)))
    ++rule;
  if (rule < rules.size()) {
    for (int64_t value : rules[rule].values(*this, t)) {
      Tile variant = t;
      variant.set(rules[rule].knob, value);
      forEachVariant(chooser, variant, visit, rule + 1);
    }
    return;
  }
  if (llvm::all_of(rules, [&](const KnobRule &r) { return r.chooser != chooser || t.meets(r.knob, kernel.plan); }))
    visit(t);
}

bool Emitter::hasAllPositions(const Tile &t) const {
  return positions(t) == kernel.extent[P0] * kernel.extent[P1] * kernel.extent[P2];
}

/// Whether the plan, and the other kernels, allow this form of a tile.
bool Emitter::isPossible(const Tile &t) const {
  if (t.splitTiles() && (!hasAllPositions(t) || (t.kOuter() && t.lastSplit && !comesLateEnough(*t.lastSplit))))
    return false;
  if (kernel.anchor && kernel.anchor->batchAxis && t.tile[*kernel.anchor->batchAxis] != 1)
    return false;
  auto isAsked = [&](const KnobRule &rule) {
    return rule.chooser == Chooser::Scheduler && plan::TileKnobs::isSet(rule.knob, kernel.plan);
  };
  if (!onChip.hasNeighbours && llvm::any_of(knobRules(), isAsked) && waysToLoad(t, /*codeCounts=*/false).empty())
    return false;
  return !kernel.plan.wideStart.value_or(false) || canBeginWide(t);
}

/// Every form of a tile that fits.
void Emitter::forEachForm(const Extent &size, int64_t ic, Style style, Buffers &b, CanMatter canMatter, LookAt lookAt) const {
  Tile first = clampTile(Tile::of(size, ic, style.depth)), least = first;
  if (!canMatter(leastEstimate(least)))
    return;
  // Every one needs as many slots as this one, or more; but where weights stay for parts of positions.
  least.depth = 1;
  if (!least.splitTiles() && (!fitsDrained(least, b) || !allocate(b)))
    return;
  first.overlap = style.overlap;
  forEachVariant(Chooser::Form, first, [&](const Tile &form) {
    if (!isPossible(form))
      return;
    forEachVariant(Chooser::LineBuffers, form, [&](Tile t) {
      if (fitsDrained(t, b))
        lookAt(t, b);
    });
  });
}

void Emitter::forEachTile(CanMatter canMatter, LookAt lookAt) const {
  const KernelPlan &request = kernel.plan;
  const TileSizes sizes = sizesToTry();
  Buffers b;
  for (Style style : stylesToTry())
    for (int64_t n : sizes.images)
      for (int64_t h : sizes.rows)
        for (int64_t w : sizes.columns) {
          // Splitting an inner position axis only pays once the outer ones are down to one, or where columns are shared and a row
          // of them is half a burst, or where windows share rows.
          const bool isWide = w == bandColumns() || (kernel.maxima && !unpacked) ||
                              (unpacked && kernel.outputsPerVector == 1 && packedRowBytes(w) * 2 >= kBurst);
          if ((n > 1 && h < bandRows() && !request.tile[P1]) || (h > 1 && !isWide && !request.tile[P0]))
            continue;
          for (int64_t c : sizes.channels)
            for (int64_t ic : sizes.ic)
              forEachForm({c, w, h, n}, ic, style, b, canMatter, lookAt);
        }
}

Ranking Emitter::rankTiles() {
  const bool searches = schedule == Schedule::Search, hasNeighbours = onChip.hasNeighbours;
  const size_t most = !searches ? kCandidates : hasNeighbours ? kSearched : kSearchedAlone;
  const size_t ofSize = hasNeighbours && !packsPlanes() ? 0 : hasNeighbours ? kOfSizePacked : searches ? kOfSizeAlone : kOfSize;
  Shortlist best(*this, most, ofSize);
  // Where the list scheduler has the last word, a search also keeps what pipelined would show it.
  Shortlist ofPipelined(*this, searches && asksScheduler() ? kCandidates : 0, hasNeighbours ? kOfSizePacked : kOfSize);
  // The best tiles of a product of rows are often one size in many forms: where it may cut them, a search also wants others.
  Shortlist ofSizes(*this, searches && canCut() && !onChip.splits.empty() ? most : 0, kOfSizeRows);
  Shortlist *const lists[] = {&best, &ofPipelined, &ofSizes};
  auto canMatter = [&](double estimate) {
    return llvm::any_of(lists, [&](const Shortlist *list) { return list->takes(estimate); });
  };
  auto lookAt = [&](const Tile &t, Buffers &b) {
    if (unpacked && !allocate(b)) // what it costs depends on the banks of its slots
      return;
    const cost::KernelWork work = tileWork(t, b);
    // Places are looked for only where they can matter.
    const double atBest = estimate(t, b, work, /*ownBanks=*/true);
    assert(atBest >= leastEstimate(t) && "tiles were left out that are better than it seemed");
    if (!canMatter(atBest) || (!unpacked && !allocate(b)))
      return;
    const double cycles = estimate(t, b, work, b.ownBanks);
    for (Shortlist *list : lists)
      list->insert(cycles, t);
  };
  Ranking ranking;
  if (network.rankings && plansTiles() && schedule == Schedule::Pipelined)
    if (auto unplanned = network.rankings->find(rankingKey(/*planned=*/false)); unplanned != network.rankings->end())
      ranking = unplanned->second;
  std::stable_sort(ranking.begin(), ranking.end(), isFaster);
  if (ranking.empty()) {
    forEachTile(canMatter, lookAt);
    ranking = best.ranking();
  }
  if (ranking.empty())
    return ranking;
  const double least = ranking.front().first;
  if (asksScheduler())
    planAll(ranking, ofPipelined, least);
  else if (plansTiles()) // a search tries the others in their order
    planFirst(ranking, least);
  if (searches && canCut() && !onChip.splits.empty())
    ranking = withSizesAndSplits(ranking, ofSizes.ranking());
  if (searches)
    addVariants(ranking);
  return ranking;
}

/// The tile that is fastest in the eyes of the list scheduler, of so many.
size_t Emitter::fastestPlanned(llvm::ArrayRef<std::pair<double, Tile>> tiles, double least) {
  size_t first = 0;
  double cycles = std::numeric_limits<double>::infinity();
  for (auto [i, entry] : llvm::enumerate(tiles))
    if (i && triedOperations > kMostTried)
      ++untried;
    else if (double planned = rankWays(entry.second, entry.first, least).front().first; planned < cycles)
      std::tie(cycles, first) = std::pair(planned, i);
  return first;
}

/// Of the best tiles the one goes first that is fastest in the eyes of the list scheduler.
void Emitter::planFirst(Ranking &ranking, double least) {
  const auto first = ranking.begin() + long(fastestPlanned(llvm::ArrayRef(ranking).take_front(kCandidates), least));
  std::rotate(ranking.begin(), first, first + 1);
}

/// Closed forms do not see who waits for whom: the list scheduler does. Beside other kernels, waiting costs nothing, but for a tile
/// whose loads take as long as its passes.
void Emitter::planAll(Ranking &ranking, const Shortlist &ofPipelined, double least) {
  // A search begins with what pipelined takes.
  if (schedule == Schedule::Search) {
    const auto &first = ofPipelined.ranking()[fastestPlanned(ofPipelined.ranking(), least)];
    llvm::erase_if(ranking, [&](const auto &other) { return givesSameProgram(other.second, first.second); });
    ranking.insert(ranking.begin(), first);
  }
  Ranking others; // the same tiles, loaded in other ways
  size_t tried = 0;
  for (auto &[estimate, candidate] : ranking) {
    if (tried && triedOperations > kMostTried) { // the others keep what the closed form says, and come behind
      untried += ranking.size() - tried;
      break;
    }
    ++tried;
    Ranking ways = rankWays(candidate, estimate, least);
    std::tie(estimate, candidate) = ways.front();
    if (schedule == Schedule::Search)
      others.insert(others.end(), ways.begin() + 1, ways.end());
  }
  if (schedule != Schedule::Search) {
    auto first = std::min_element(ranking.begin(), ranking.begin() + long(tried), isFaster);
    std::rotate(ranking.begin(), first, first + 1);
  }
  ranking.insert(ranking.end(), others.begin(), others.end());
  std::stable_sort(ranking.begin() + 1, ranking.end(), isFaster);
  // Tiles of one size that it cannot tell apart, loaded in one way, make room for others.
  constexpr double kForEachAlike = 0.01;
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 1; i < ranking.size(); ++i) {
    const double estimate = ranking[i].first;
    const Tile &t = ranking[i].second;
    auto isAlike = [&](const auto &other) {
      auto agrees = [&](const KnobRule &rule) {
        return rule.chooser != Chooser::Scheduler || t.agreesOn(rule.knob, other.second);
      };
      return other.first == estimate && other.second.tile == t.tile && other.second.tileK == t.tileK &&
             llvm::all_of(knobRules(), agrees);
    };
    const auto alike = std::count_if(ranking.begin(), ranking.begin() + long(i), isAlike);
    order.push_back({estimate * (1 + kForEachAlike * double(alike)), i});
  }
  llvm::sort(order);
  others.assign(1, ranking.front());
  for (auto [estimate, i] : order)
    others.push_back(ranking[i]);
  ranking = std::move(others);
}

/// For a search: variants of the ranked tiles that may be worth a simulation though no estimate can say so.
void Emitter::addVariants(Ranking &ranking) const {
  struct Variant {
    plan::TileKnob knob;
    size_t most;                             ///< variants
    bool (*make)(const Emitter &e, Tile &t); ///< makes the variant of the tile; whether there is one
  };
  static const Variant variants[] = {
      {plan::TileKnob::WideStart, SIZE_MAX,
       [](const Emitter &e, Tile &t) {
         t.wideStart = true;
         return e.onChip.hasNeighbours && e.canBeginWide(t) && !t.splitTiles();
       }},
      {plan::TileKnob::MaxLineBuffer, SIZE_MAX,
       [](const Emitter &e, Tile &t) {
         t.maxLineBuffer = !t.maxLineBuffer;
         t.lineBuffer = 1;
         Buffers b;
         return e.carried && !e.onChip.banding && (!t.maxLineBuffer || e.canHaveMaxLineBuffer(t)) && e.fitsDrained(t, b) &&
                e.allocate(b);
       }},
      // How long the array waits for results is known when the whole network is planned.
      {plan::TileKnob::DrainByBlock, kByBlock,
       [](const Emitter &e, Tile &t) {
         t.drainByBlock = true;
         return e.onChip.hasNeighbours && t.singleAccumulator && t.tile[C] > int64_t(e.machine.cols);
       }},
  };
  for (const Variant &variant : variants) {
    if (plan::TileKnobs::isSet(variant.knob, kernel.plan))
      continue;
    for (size_t i = 0, made = 0, count = ranking.size(); i < count && made < variant.most; ++i) {
      std::pair<double, Tile> entry = ranking[i];
      if (!variant.make(*this, entry.second))
        continue;
      ranking.push_back(entry);
      ++made;
    }
  }
}

llvm::Error Emitter::choose() {
  if (llvm::Error error = checkRequest())
    return error;
  tapShare = contraction() ? usefulTaps() : 1;
  // A kernel like this may have ranked the tiles.
  Ranking own, &ranking = network.rankings ? (*network.rankings)[rankingKey(plansTiles())] : own;
  if (ranking.empty())
    ranking = rankTiles();
  if (ranking.empty())
    return llvm::createStringError("%s", whyNoneFits().c_str());
  const KernelPlan &request = kernel.plan;
  size_t pick = 0;
  for (std::string why; !canBeEncoded(ranking[pick].second, why);)
    if (++pick == ranking.size())
      return llvm::createStringError("%s%s: no tile has instructions that can be encoded; the last one has %s",
                                     request.place().c_str(), kernel.name.c_str(), why.c_str());
  auto [best, chosen] = ranking[pick];
  if (onChip.hasNeighbours && request.wideStart)
    chosen.wideStart = *request.wideStart;
  takeTile(chosen);
  recordChoice(best);
  if (schedule == Schedule::Search)
    recordAlternatives(llvm::ArrayRef(ranking).drop_front(pick + 1));
  if (!tile.overlap)
    schedule = Schedule::Serial;
  plan(tile, buffers);
  emptySlots();
  network.tileBytes.resize(layer + 1);
  for (const Buffer &buffer : buffers.all)
    if (buffer.memory != unsigned(isa::Memory::Accumulator))
      network.tileBytes[layer] += uint64_t(buffer.bytes);
  if (!overlaps() || !allocate(buffers, network.nextOnChip, &network.nextOnChip))
    allocate(buffers);
  return llvm::Error::success();
}

void Emitter::recordChoice(double estimate) {
  network.choices.resize(layer + 1);
  network.choices[layer] = describeTile(estimate);
  network.chosen.resize(layer + 1);
  network.chosen[layer] = planOf(tile);
}

/// The next best tiles, as far as they can be encoded.
void Emitter::recordAlternatives(llvm::ArrayRef<std::pair<double, Tile>> others) {
  network.alternatives.resize(layer + 1);
  std::string why;
  for (const auto &[estimate, other] : others)
    if (canBeEncoded(other, why)) {
      KernelPlan plan = planOf(other);
      plan.banks.reset();
      network.alternatives[layer].push_back(plan);
    }
}

/// A plan that gets the tile again.
KernelPlan Emitter::planOf(const Tile &tile) const {
  KernelPlan chosen;
  for (const KnobRule &rule : knobRules())
    if (rule.isOf(*this) && (!rule.matters || rule.matters(*this, tile)))
      tile.copyTo(chosen, rule.knob);
  chosen.tile[P0] *= kernel.outputsPerVector;
  chosen.banks = onChip.banks;
  return chosen;
}

std::string Emitter::describeTile(double estimate) const {
  constexpr const char *kOrders[] = {"positions outer", "channels outer", "k outer", "k outer, then channels"};
  std::string description;
  llvm::raw_string_ostream text(description);
  text << "tile " << tile.tile[P2] << " x " << tile.tile[P1] << " x " << tile.tile[P0] << " positions, " << tile.tile[C]
       << " channels";
  if (contraction())
    text << " from " << tile.tileK;
  text << ", depth " << tile.depth;
  if (!tile.overlap)
    text << ", no overlap";
  if (contraction())
    text << ", " << kOrders[size_t(tile.loopOrder)];
  if (tile.stationary != Stationary::None)
    text << ", stationary " << nameOf(tile.stationary);
  if (tile.singleAccumulator)
    text << ", single accumulator" << (tile.drainByBlock ? " drained by block" : "");
  if (kernel.outputsPerVector > 1)
    text << ", pixel packing of " << kernel.outputsPerVector << " outputs";
  if (contraction() && kernel.anchor->pixels.count > 1)
    text << ", pixel packing of " << kernel.anchor->pixels.count << " inputs";
  if (pairsRows())
    text << ", pairs of rows";
  if (hasSumLineBuffer(tile))
    text << ", sum line buffer";
  if (tile.maxLineBuffer)
    text << ", max line buffer";
  if (tile.lineBuffer > 1)
    text << ", line buffer of " << tile.lineBuffer << " tiles";
  if (tile.arrayChannels)
    text << ", " << tile.arrayChannels << " channels on the array";
  if (tile.drain)
    text << ", drained by " << tile.drain << " channels";
  if (onChip.banding)
    text << ", " << onChip.banding->rows.size() << " row tiles";
  text << ", estimate " << uint64_t(estimate) << " cycles";
  if (untried)
    text << " (" << untried << " tiles not planned)";
  return description;
}

/// The smallest tile that is asked for.
Tile Emitter::leastTile() const {
  const KernelPlan &request = kernel.plan;
  auto orLeast = [](int64_t size, int64_t least) { return size ? size : least; };
  const bool needsSlots = request.stationary.value_or(Stationary::None) != Stationary::None || isKOuter(request.loopOrder);
  Tile least = clampTile(Tile::of({orLeast(request.tile[C], takesAllChannels() ? channels() : channelUnit()),
                                   orLeast(request.tile[P0], 1), orLeast(request.tile[P1], 1), orLeast(request.tile[P2], 1)},
                                  contraction() ? orLeast(request.tileK, unpacked ? kernel.anchor->ic : machine.rows) : 1,
                                  orLeast(request.depth, needsSlots ? 2 : 1)));
  least.take(plan::TileKnob::LoopOrder, request);
  least.take(plan::TileKnob::Stationary, request);
  return least;
}

llvm::Error Emitter::check() {
  if (!kernel.copies.empty()) // no tiles
    return llvm::Error::success();
  Tile least = leastTile();
  least.overlap = overlaps();
  Buffers b;
  std::string why;
  // Most kernels are done here.
  if (isPossible(least) && fitsDrained(least, b) && allocate(b) && canBeEncoded(least, why))
    return llvm::Error::success();
  return choose();
}

/// What the smallest tile that is asked for needs of each memory.
std::string Emitter::whyNoneFits() const {
  const KernelPlan &request = kernel.plan;
  const Tile least = leastTile();
  std::map<unsigned, std::pair<int64_t, int64_t>> needed; ///< and what there is
  for (const Buffer &buffer : plan(least).all) {
    needed[buffer.memory].first += buffer.bytes * buffer.slots;
    needed[buffer.memory].second = capacityOf(buffer);
  }
  std::string text;
  for (auto [memory, bytes] : needed) {
    bool acc = memory == unsigned(isa::Memory::Accumulator);
    const timing::MemoryParams &params = acc ? machine.accumulator : machine.scratchpads[memory];
    text += (text.empty() ? "" : ", ") + std::to_string(bytes.first) + " bytes of " + (acc ? "accumulator" : params.name) +
            " (the machine has " + std::to_string(params.capacityBytes);
    if (bytes.second < int64_t(params.capacityBytes))
      text += ", " + std::to_string(bytes.second) + " of them beside tensors that stay on chip";
    text += ")";
  }
  if (request.hasTileKnobs())
    return request.place() + "kernel '" + kernel.name + "': no tile that is asked for fits machine '" + machine.name +
           "'; the smallest one needs " + text;
  return kernel.name + ": no tile fits machine '" + machine.name + "'; the smallest one needs " + text;
}
