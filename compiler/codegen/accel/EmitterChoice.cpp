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
      return other.second.size == t.size && other.second.ic == t.ic && ++count > ofSize;
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
  const bool hasOneOrder = x.size[C] >= channels() || tileCount(x) == ceilDiv(channels(), x.size[C]);
  if (x.size != y.size || x.ic != y.ic || x.inputsOuter != y.inputsOuter || x.overlap != y.overlap || x.rolling != y.rolling ||
      x.carriesMaxima != y.carriesMaxima || x.byBlock != y.byBlock || !(x.cut == y.cut) || (x.depth == 1) != (y.depth == 1) ||
      (x.channelsOuter != y.channelsOuter && !hasOneOrder))
    return false;
  const Buffers mine = plan(x), others = plan(y);
  auto hasSameSlots = [](const Buffer &a, const Buffer &b) { return a.slots == b.slots; };
  return std::equal(mine.all.begin(), mine.all.end(), others.all.begin(), others.all.end(), hasSameSlots);
}

/// For a search, of a product of rows: every program once, first those of `best`, then those of `ofSizes`, then all of them with tiles
/// through which positions go in parts.
Ranking Emitter::withSizesAndCuts(const Ranking &best, const Ranking &ofSizes) const {
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
    for (const CutTiles &cut : onChip.cuts) {
      const double estimate = ranking[i].first;
      Tile t = ranking[i].second;
      t.cut = cut;
      if (Buffers b; t.size[P0] == kernel.extent[P0] && (!t.inputsOuter || !cut.last || comesLateEnough(*cut.last)) &&
                     fitsDrained(t, b) && allocate(b))
        add(estimate, t);
    }
  return ranking;
}

/// Whether the parts of the last tiles come late enough to sums that earlier input channels have begun for all positions (docs/design/accumulator.md):
/// of so few that the array is back before they are there, only the whole.
bool Emitter::comesLateEnough(const Cut &last) const {
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
  list(kernel.output.stride);                                                              // of a part: the whole's
  const bool shortWindows = onChip.shortWindows && window() && kernel.anchor->weights < 0; // other kernels ignore it
  list(std::array<int64_t, 5>{onChip.fillsBorders, onChip.storesResult, onChip.hasNeighbours, shortWindows, room.size()});
  list(std::array<int64_t, 8>{room.begin, onChip.weights.begin, onChip.weights.end, onChip.sums.begin, onChip.sums.end,
                              contraction() && onChip.serpentine, canKeepSums() && onChip.keepsSums, planned});
  list(std::array<int64_t, 3>{onChip.arrayChannels, isFirstOfArray(), carried && onChip.carriesMaxima});
  list(kernel.plan.tile); // kernels of a kind may be asked for different parts
  list(std::array<int64_t, 2>{kernel.plan.tileK, kernel.plan.loopOrder ? int64_t(*kernel.plan.loopOrder) : -1});
  auto listCut = [&](const CutTiles &cut) {
    for (const std::optional<Cut> &part : {cut.first, cut.last})
      list(part ? std::array<int64_t, 2>{part->tiles, part->positions} : std::array<int64_t, 2>{});
  };
  listCut({kernel.plan.firstSplit, kernel.plan.lastSplit});
  llvm::for_each(onChip.cuts, listCut);
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
  list(std::array<int64_t, 3>{onChip.banding->strips, onChip.banding->loadsWhole, onChip.banding->carriesMaxima});
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
  if (const unsigned depth = unsigned(kernel.plan.depth)) {
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

/// Whether the request and what is around the kernel allow a form of a tile, and no other form is the same.
bool Emitter::isWorthALook(const Tile &t) const {
  const KernelPlan &request = kernel.plan;
  const bool hasAllPositions = positions(t) == kernel.extent[P0] * kernel.extent[P1] * kernel.extent[P2];
  if (t.panel == Tile::AllWeights && !onChip.banding && request.stationary != Stationary::Resident)
    return false;
  // Kernels of a group have their turns at the accumulator.
  if (onChip.banding && (t.inputsOuter || t.oneSum))
    return false;
  // With one tile there is one sum anyway.
  if (t.oneSum && !request.singleAccumulator &&
      (t.depth == 1 || (t.size[C] >= channels() && hasAllPositions && kernel.anchor->groups == 1)))
    return false;
  if (t.byBlock && !t.oneSum)
    return false;
  if (t.inputsOuter && (t.ic >= kernel.anchor->ic || kernel.anchor->groups > 1 || t.depth == 1))
    return false;
  if (t.panel != Tile::NoPanel && t.depth == 1)
    return false;
  if ((request.firstSplit || request.lastSplit) &&
      (!hasAllPositions || (t.inputsOuter && request.lastSplit && !comesLateEnough(*request.lastSplit))))
    return false;
  if (kernel.anchor && kernel.anchor->batchAxis && t.size[*kernel.anchor->batchAxis] != 1)
    return false;
  const bool asksForWay =
      !onChip.hasNeighbours && (request.smallFirstTile || request.smallLastTile || request.wideStart || request.singleLoader);
  return isAskedFor(t) && (!asksForWay || !waysToLoad(t, /*codeCounts=*/false).empty()) &&
         (!request.wideStart.value_or(false) || canBeginWide(t));
}

/// Every form of a tile that fits.
void Emitter::forEachForm(const Extent &size, int64_t ic, Style style, Buffers &b, CanMatter canMatter, LookAt lookAt) const {
  Tile least = clampTile({size, ic, style.depth});
  if (!canMatter(leastEstimate(least)))
    return;
  // Every one needs as many slots as this one, or more; but where weights stay for parts of positions.
  least.depth = 1;
  if (!least.cut.count() && (!fitsDrained(least, b) || !allocate(b)))
    return;
  for (int form = 0; form < (!contraction() ? 1 : overlaps() ? 20 : 2); ++form) {
    Tile asked{size, ic, style.depth};
    asked.overlap = style.overlap;
    asked.channelsOuter = form % 2 == 1;
    asked.inputsOuter = form == 10 || form == 11;
    asked.oneSum = form >= 12;
    if (!asked.inputsOuter)
      asked.panel = Tile::Panel(asked.oneSum ? form / 2 - 6 : form / 2);
    Tile t = clampTile(asked);
    t.byBlock = kernel.plan.drainByBlock.value_or(false);
    if (!isWorthALook(t))
      continue;
    for (const auto &[carriesMaxima, rolling] : sharings(t)) {
      t.carriesMaxima = carriesMaxima;
      t.rolling = rolling;
      if (fitsDrained(t, b))
        lookAt(t, b);
    }
  }
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
  Shortlist ofSizes(*this, searches && canCut() && !onChip.cuts.empty() ? most : 0, kOfSizeRows);
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
  if (searches && canCut() && !onChip.cuts.empty())
    ranking = withSizesAndCuts(ranking, ofSizes.ranking());
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
  auto keyOf = [](const auto &entry) {
    const auto &[estimate, t] = entry;
    return std::tie(estimate, t.size, t.ic, t.beginsSmall, t.endsSmall, t.beginsWide, t.oneLoader);
  };
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 1; i < ranking.size(); ++i) {
    auto isAlike = [&](const auto &other) { return keyOf(other) == keyOf(ranking[i]); };
    const auto alike = std::count_if(ranking.begin(), ranking.begin() + long(i), isAlike);
    order.push_back({ranking[i].first * (1 + kForEachAlike * double(alike)), i});
  }
  llvm::sort(order);
  others.assign(1, ranking.front());
  for (auto [estimate, i] : order)
    others.push_back(ranking[i]);
  ranking = std::move(others);
}

/// For a search: what may be worth a simulation though no estimate can say so.
void Emitter::addVariants(Ranking &ranking) const {
  const KernelPlan &request = kernel.plan;
  // Beside others, those that may begin wide once more.
  if (onChip.hasNeighbours && !request.wideStart)
    for (size_t i = 0, count = ranking.size(); i < count; ++i)
      if (canBeginWide(ranking[i].second) && !ranking[i].second.cut.count()) {
        ranking.push_back(ranking[i]);
        ranking.back().second.beginsWide = true;
      }
  // Those that carry maxima without, or the other way round.
  if (carried && !onChip.banding && !request.maxLineBuffer)
    for (size_t i = 0, count = ranking.size(); i < count; ++i) {
      auto [estimate, t] = ranking[i];
      t.carriesMaxima = !t.carriesMaxima;
      t.rolling = 1;
      Buffers b;
      if ((!t.carriesMaxima || canCarryMaxima(t)) && fitsDrained(t, b) && allocate(b))
        ranking.push_back({estimate, t});
    }
  // The best with one sum whose results leave by block: how long the array waits for them otherwise is known when all is planned.
  if (onChip.hasNeighbours && !request.drainByBlock)
    for (size_t i = 0, left = kByBlock, count = ranking.size(); i < count && left; ++i)
      if (const Tile &t = ranking[i].second; t.oneSum && t.size[C] > int64_t(machine.cols)) {
        --left;
        ranking.push_back(ranking[i]);
        ranking.back().second.byBlock = true;
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
    chosen.beginsWide = *request.wideStart;
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
  if (schedule == Schedule::DoubleBuffer)
    network.chosen[layer].overlap = tile.overlap;
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

/// What a plan has to say to get the tile again.
KernelPlan Emitter::planOf(const Tile &tile) const {
  KernelPlan chosen;
  chosen.tile = tile.size;
  chosen.tile[P0] *= kernel.outputsPerVector;
  chosen.depth = tile.depth;
  chosen.banks = onChip.banks;
  if (contraction()) {
    chosen.tileK = tile.ic;
    chosen.loopOrder = loopOrderOf(tile);
    chosen.stationary = stationaryOf(tile);
    if (overlaps())
      chosen.singleAccumulator = tile.oneSum;
    if (tile.oneSum)
      chosen.drainByBlock = tile.byBlock;
    if (overlaps() && tile.ic < kernel.anchor->ic)
      chosen.serpentine = onChip.serpentine;
    chosen.firstSplit = tile.cut.first;
    chosen.lastSplit = tile.cut.last;
    if (canKeepSums())
      chosen.sumLineBuffer = onChip.keepsSums;
    if (carried)
      chosen.maxLineBuffer = tile.carriesMaxima;
    if (canBeginSmall(tile))
      chosen.smallFirstTile = tile.beginsSmall;
    if (hasOpenEnds())
      chosen.smallLastTile = tile.endsSmall;
    if (canBeginWide(tile))
      chosen.wideStart = tile.beginsWide;
    if (canShareLoader())
      chosen.singleLoader = tile.oneLoader;
  }
  if (overlaps() && canUseBothEngines(kernel, machine))
    chosen.arrayChannels = onChip.arrayChannels;
  if (canRoll(tile))
    chosen.lineBuffer = tile.rolling;
  return chosen;
}

std::string Emitter::describeTile(double estimate) const {
  std::string description;
  llvm::raw_string_ostream text(description);
  text << "tile " << tile.size[P2] << " x " << tile.size[P1] << " x " << tile.size[P0] << " positions, " << tile.size[C]
       << " channels";
  if (contraction())
    text << " from " << tile.ic;
  text << ", " << tile.depth << " slot" << (tile.depth > 1 ? "s" : "") << ", "
       << (!tile.overlap        ? "serial"
           : tile.channelsOuter ? "channels outer"
                                : "positions outer");
  if (tile.oneSum)
    text << ", one sum" << (tile.byBlock ? " by block" : "");
  if (tile.inputsOuter)
    text << ", inputs outermost";
  else if (tile.panel != Tile::NoPanel)
    text << ", "
         << (tile.panel == Tile::TwoPanels    ? "two panels stay"
             : tile.panel == Tile::AllWeights ? "all weights stay"
                                              : "a panel stays");
  if (kernel.outputsPerVector > 1)
    text << ", " << kernel.outputsPerVector << " outputs side by side";
  if (contraction() && kernel.anchor->pixels.count > 1)
    text << ", " << kernel.anchor->pixels.count << " pixels a vector";
  if (pairsRows())
    text << ", pairs of rows";
  if (keepsSums(tile))
    text << ", sums stay";
  if (tile.carriesMaxima)
    text << ", maxima are carried";
  if (tile.rolling > 1)
    text << ", " << tile.rolling << " share rows";
  if (onChip.arrayChannels)
    text << ", " << onChip.arrayChannels << " channels on the array";
  if (tile.drain)
    text << ", " << tile.drain << " channels leave at a time";
  if (onChip.banding)
    text << ", " << onChip.banding->rows.size() << " bands";
  text << ", estimate " << uint64_t(estimate) << " cycles";
  if (untried)
    text << " (" << untried << " tiles not planned)";
  return description;
}

/// What the smallest tile that is asked for needs of each memory.
std::string Emitter::whyNoneFits() const {
  const KernelPlan &request = kernel.plan;
  auto orLeast = [](int64_t size, int64_t least) { return size ? size : least; };
  const Tile least =
      clampTile({{orLeast(request.tile[C], takesAllChannels() ? channels() : channelUnit()), orLeast(request.tile[P0], 1),
                  orLeast(request.tile[P1], 1), orLeast(request.tile[P2], 1)},
                 contraction() ? orLeast(request.tileK, unpacked ? kernel.anchor->ic : machine.rows) : 1,
                 unsigned(orLeast(
                     request.depth,
                     request.stationary.value_or(Stationary::None) != Stationary::None || isKOuter(request.loopOrder) ? 2 : 1)),
                 request.loopOrder == LoopOrder::ChannelsOuter || request.loopOrder == LoopOrder::KChannelsOuter,
                 false,
                 Tile::Panel(request.stationary.value_or(Stationary::None)),
                 isKOuter(request.loopOrder)});
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
