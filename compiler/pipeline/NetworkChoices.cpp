//===- NetworkChoices.cpp - The ways to compile a network ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is gained on one side is lost on the other: the list scheduler weighs
// it (docs/design/search.md).
//===----------------------------------------------------------------------===//

#include "compiler/pipeline/NetworkCompiler.h"

#include "isa/timing/Dram.h"

using namespace tw;
using namespace tw::pipeline;

namespace {
constexpr double kLeastGain = 1.01;    ///< by the estimate, for what gains little
constexpr double kLeastBeside = 1.003; ///< the same, for parts of products, whose weights are loaded again
constexpr double kLeastShared =
    1.0015; ///< the same, for channels of a window on the array: where it gains less, a search begins worse
constexpr double kLeastMaxima = 1.003;  ///< the same, for maxima that are carried
constexpr double kLeastEarly = 1.03;    ///< the same, for weights on chip early, as DRAM is slower than it expects
constexpr double kLeastTurns = 0.99;    ///< the same, for turns at the data bus where they take long
constexpr double kLeastPlanned = 1.005; ///< the same, for tiles by the plans of kernels alone
constexpr double kLeastAsMade = 1.001;  ///< the same, for channels that are taken as they are made
constexpr double kMakerWeights =
    0.375;                            ///< of the memory for weights, for a kernel that makes channels that are taken meanwhile
constexpr int64_t kTurnBytes = 16384; ///< of weights in a tile of kernels that take turns: runs that DRAM likes
constexpr int64_t kMostTurns = 8;     ///< of such tiles on chip
constexpr ptrdiff_t kRowsTried = 3;   ///< of a band, fewer and more than chosen
constexpr size_t kTriedFirst = 4;     ///< tensors that could stay on chip if others did not
constexpr size_t kTriedBeside = 3;    ///< layers that could run beside the contractions next to them
constexpr double kBesideSplit = 0.6875;         ///< of the room in scratchpad 0, for those contractions
constexpr int64_t kMostParts = 4;               ///< of the positions that go through some tiles before others
constexpr int64_t kCutTiles[] = {1, 2, 4, 6};   ///< that positions may go through in parts, as a search would have it
constexpr int64_t kCutParts = 3;                ///< so many
constexpr double kWorthRefining = 1.02;         ///< of the best estimate so far
constexpr size_t kMostWeighedKernels = 1 << 17; ///< kernels times ways: what deep networks may take

/// Where a layer's room may be cut in two, so that it and its neighbours share no bank: its own is the upper part.
constexpr double kBankSplits[] = {0.625, 0.8125, 0.75, 0.5};
constexpr size_t kSplitBeside = 4; ///< the pick of 0.75: of a kernel that runs between the steps of the next one

int64_t tapsOf(const accel::Kernel &kernel) { return kernel.anchor->axes[0].kernel * kernel.anchor->axes[1].kernel; }

/// Of one output channel.
int64_t positionsOf(const accel::Kernel &kernel) {
  return kernel.extent[accel::P0] * kernel.extent[accel::P1] * kernel.extent[accel::P2];
}
} // namespace

NetworkCompiler::Place NetworkCompiler::placeOf(size_t layer) const {
  const accel::TileRequest &request = layers[layer].kernel.request;
  Place place;
  if ((place.banks = request.banks))
    return place;
  place.isBehind = request.behind.value_or(!choice.fromBottom);
  if (request.behind)
    return place;
  auto picked = [&](size_t other) -> size_t {
    if (other >= layers.size())
      return 0;
    const size_t pick = pickOf(DecisionOn::Place, other);
    return pick || other > layer || !isInterleaved(other) ? pick : kSplitBeside;
  };
  // What runs between the steps of the next kernels lies neither among their bands nor where they keep tensors.
  auto split = [&](size_t owner) {
    const std::vector<int64_t> &rooms = fusion->residency.room;
    const int64_t bank = int64_t(machine.scratchpads[0].bankBytes());
    const accel::Group *group = fusion->groupOf(unsigned(owner) + 1);
    int64_t room = int64_t(machine.scratchpads[0].capacityBytes), taken = 0;
    for (size_t other = owner; other < rooms.size() && other <= (group ? group->last() : owner + 1); ++other)
      if (other == owner || isInterleaved(owner))
        room = std::min(room, rooms[other]);
    if (group && isInterleaved(owner))
      taken = (group->bytes + bank - 1) / bank;
    return std::pair(std::max(taken, int64_t(kBankSplits[picked(owner) - 2] * double(room / bank))), room / bank);
  };
  auto isShared = [&](size_t other) { // with the layer behind it
    const Beside *own = besideOf(other), *next = besideOf(other + 1);
    return (own && own->apart && (own->behind || own->columns)) || (next && next->apart && next->before);
  };
  if (isShared(layer) || (layer && isShared(layer - 1))) {
    int64_t room = int64_t(machine.scratchpads[0].capacityBytes);
    for (size_t other = layer ? layer - 1 : 0; other <= layer + 1 && other < fusion->residency.room.size(); ++other)
      if (other == layer || isShared(std::min(layer, other)))
        room = std::min(room, fusion->residency.room[other]);
    const int64_t banks = room / int64_t(machine.scratchpads[0].bankBytes()), at = int64_t(kBesideSplit * double(banks));
    place.banks = isApart(layer) ? std::array<int64_t, 2>{at, banks} : std::array<int64_t, 2>{0, at};
  } else if (picked(layer) == 1) {
    place.isBehind = !place.isBehind;
  } else if (picked(layer) > 1) {
    auto [at, end] = split(layer);
    place.banks = {at, end};
  } else {
    for (size_t owner : {layer - 1, layer + 1})
      if (picked(owner) > 1)
        place.banks = {0, split(owner).first};
  }
  if (place.banks && (*place.banks)[0] >= (*place.banks)[1])
    place.banks.reset();
  if (place.banks)
    place.isBehind = true;
  return place;
}

int64_t NetworkCompiler::arrayChannels(const Layer &layer) const {
  const accel::Kernel &kernel = layer.form(choice);
  if (kernel.request.arrayChannels || !overlaps())
    return kernel.request.arrayChannels.value_or(0);
  auto own = llvm::find_if(choice.bothEngines, [&](const BothEngines &b) { return b.layer == size_t(&layer - layers.data()); });
  return own != choice.bothEngines.end() && accel::canUseBothEngines(kernel, machine) ? own->arrayChannels : 0;
}

bool NetworkCompiler::isReadBy(size_t layer, size_t by) const {
  const Layer &reader = layers[by];
  const size_t range = layers[layer].ranges[size_t(layers[layer].kernel.output.tensor)];
  return reader.kernel.anchor ? reader.ranges[size_t(reader.kernel.anchor->input.tensor)] == range
                              : llvm::is_contained(reader.ranges, range);
}

llvm::SmallVector<Beside> NetworkCompiler::waysBeside(size_t layer) const {
  llvm::SmallVector<Beside> ways;
  const accel::Kernel &kernel = layers[layer].kernel;
  if (kernel.anchor || !kernel.copies.empty())
    return ways;
  const bool reduces = reducesChannels(layer);
  // Passes of half of the positions hide their preloads.
  const int64_t least = 2 * int64_t((machine.rows + machine.preloadRowsPerCycle - 1) / machine.preloadRowsPerCycle);
  auto isProduct = [&](const accel::Kernel &other) {
    return other.anchor && other.anchor->kind == accel::Anchor::Contraction && !other.request.size[accel::P0] &&
           other.extent[accel::P1] * other.extent[accel::P2] == 1 && other.extent[accel::P0] >= least;
  };
  const bool before = reduces && layer && isProduct(layers[layer - 1].kernel) && isReadBy(layer - 1, layer);
  const bool behind = layer + 1 < layers.size() && isProduct(layers[layer + 1].kernel) && isReadBy(layer, layer + 1) &&
                      layers[layer + 1].kernel.extent[accel::P0] == kernel.extent[accel::P0] && !kernel.request.size[accel::C];
  for (bool apart : {true, false}) {
    if (before && apart)
      ways.push_back({layer, true, false, 0, false, true, true});
    if (before)
      ways.push_back({layer, true, false, 0, false, apart});
    if (behind)
      ways.push_back({layer, false, true, 0, false, apart});
    if (before && behind)
      ways.push_back({layer, true, true, 0, false, apart});
    if (behind && !reduces && !kernel.request.size[accel::P0] && !layers[layer + 1].kernel.request.ic)
      for (int64_t columns : {2 * leastColumns(), leastColumns()})
        for (bool together : {false, true})
          if (!together || !layers[layer + 1].kernel.request.order)
            ways.push_back({layer, false, false, columns, together, apart});
  }
  return ways;
}

llvm::SmallVector<int64_t> NetworkCompiler::cutsBeside(size_t layer, bool before) const {
  auto isHalved = [&](const Beside &way) { return before ? way.before : way.behind; };
  // In a scratchpad for all operands weights that stay take room that tensors have.
  if (machine.scratchpads.size() == 1 || !reducesChannels(layer) || llvm::none_of(waysBeside(layer), isHalved))
    return {};
  const accel::Kernel &own = layers[layer].kernel, &product = layers[before ? layer - 1 : layer + 1].kernel;
  if (own.request.hasTile() || product.request.hasTile())
    return {};
  // Blocks of columns that take the array as long as the layer takes the vector engine.
  auto ceilDiv = [](int64_t a, int64_t b) { return int64_t(llvm::divideCeil(a, b)); };
  const int64_t vectors = own.extent[accel::P0] * ceilDiv(own.extent[accel::C], machine.lanes) * int64_t(own.steps.size());
  const int64_t block = product.extent[accel::P0] * ceilDiv(product.anchor->ic, machine.rows);
  llvm::SmallVector<int64_t> tiles;
  for (int64_t count = std::min({ceilDiv(product.anchor->oc, machine.cols), ceilDiv(vectors, block), cutSlots()}); count;
       count /= 2)
    tiles.push_back(count);
  return tiles;
}

std::vector<accel::CutTiles> NetworkCompiler::cutsOf(size_t layer) const {
  const accel::Kernel &kernel = layers[layer].kernel;
  const int64_t all = kernel.extent[accel::P0], parts = std::min(all / accel::preloadCycles(machine), kCutParts);
  std::vector<accel::CutTiles> cuts;
  if (!hasWays() || !kernel.isProductOfRows() || parts < 2)
    return cuts;
  // A kernel for the vector engine takes rows that it makes, or makes those that it takes.
  auto isVector = [&](size_t other) { return !layers[other].kernel.anchor && layers[other].kernel.hasRowsApart(); };
  for (int64_t tiles : kCutTiles) {
    const accel::Cut cut{tiles, int64_t(llvm::alignTo(llvm::divideCeil(all, parts), 2))};
    if (layer && isVector(layer - 1) && isReadBy(layer - 1, layer))
      cuts.push_back({cut, std::nullopt});
    if (layer + 1 < layers.size() && isVector(layer + 1) && isReadBy(layer, layer + 1))
      cuts.push_back({std::nullopt, cut});
  }
  return cuts;
}

/// So few that passes just hide their preloads, in parts that are about equal.
int64_t NetworkCompiler::cutPositions(size_t layer) const {
  const int64_t all = layers[layer].kernel.extent[accel::P0];
  const int64_t parts = std::clamp<int64_t>(all / accel::preloadCycles(machine), 1, kMostParts),
                each = (all + parts - 1) / parts;
  return each + each % 2;
}

/// The tiles that let the layer, or the one next to it, begin with a part of its input.
void NetworkCompiler::askForParts(size_t layer, accel::Kernel &kernel) const {
  const Beside *own = besideOf(layer), *next = besideOf(layer + 1), *before = layer ? besideOf(layer - 1) : nullptr;
  if ((next && next->before && !next->stays) || (before && before->behind)) {
    kernel.request.size[accel::P0] = (kernel.extent[accel::P0] + 1) / 2;
    kernel.request.order = kernel.request.order.value_or(0); // one half after the other
  }
  auto cut = [&](const Beside *beside, int64_t Beside::*tiles, std::optional<accel::Cut> accel::TileRequest::*cut) {
    if (!beside || !(beside->*tiles))
      return;
    kernel.request.size[accel::P0] = kernel.extent[accel::P0];
    kernel.request.*cut = accel::Cut{beside->*tiles, cutPositions(beside->layer)};
    const int64_t inputTiles = std::max<int64_t>(cutSlots() / (beside->*tiles), 1);
    kernel.request.ic = int64_t(llvm::alignTo(llvm::divideCeil(kernel.anchor->ic, inputTiles), machine.rows));
    // A slot has a bank to itself: as many columns as that holds, as all other tiles have that width too.
    const int64_t columns = int64_t(machine.cols), bank = int64_t(machine.scratchpads.back().bankBytes());
    const int64_t most = bank / (kernel.request.ic * columns * timing::elementBytes(machine.arrayType)) * columns;
    const int64_t channelTiles = int64_t(llvm::divideCeil(kernel.anchor->oc, std::max(most, columns)));
    kernel.request.size[accel::C] = int64_t(llvm::alignTo(llvm::divideCeil(kernel.anchor->oc, channelTiles), columns));
  };
  cut(next, &Beside::last, &accel::TileRequest::last);
  cut(before, &Beside::first, &accel::TileRequest::first);
  if (own && (own->last || own->first)) // two tiles hide each other's latency
    kernel.request.size[accel::P0] = cutPositions(layer) / 2;
  if (before && before->columns)
    kernel.request.ic = std::min(before->columns, kernel.anchor->ic);
  if (before && before->together)
    kernel.request.order = 3; // of kOrderNames: all positions of some results take these channels, before the next channels
  if (own && own->behind)     // rows as well
    kernel.request.size[accel::C] = kernel.extent[accel::C];
  if (own && own->columns) {
    kernel.request.size[accel::C] = std::min(own->columns, kernel.extent[accel::C]);
    if (own->columns > leastColumns()) // the fewest of as many positions as there is room for
      kernel.request.size[accel::P0] = kernel.extent[accel::P0];
  }
}

/// Where buffers lie, and where results stay: what matters to neighbours.
llvm::Error NetworkCompiler::listPlaces(llvm::function_ref<void(size_t, unsigned, DecisionOn, const char *)> add) {
  const bool hasPlaces = overlaps() && options.across != Across::None && machine.scratchpads[0].banks > 1;
  for (size_t i = 0; i < layers.size(); ++i) {
    const accel::TileRequest &request = layers[i].kernel.request;
    const bool isFree = layers[i].kernel.copies.empty() && !request.banks && !request.behind;
    add(i, hasPlaces && isFree ? 2 + std::size(kBankSplits) : 1, DecisionOn::Place, "place of ");
  }
  llvm::Expected<accel::NetworkUses> uses = describeUses();
  if (!uses)
    return uses.takeError();
  result.elsewhere.resize(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    const size_t range = layers[i].ranges[size_t(layers[i].kernel.output.tensor)];
    unsigned reach = 0;
    if (overlaps() && options.across == Across::All && !uses->wanted[range]) {
      const accel::TileRequest &chosen = network.chosen[i];
      if (chosen.onChip.value_or(false))
        result.elsewhere[i].push_back(Stay::Away);
      accel::NetworkUses alone = *uses; // with all the room there is
      alone.wanted.assign(ranges.size(), false);
      alone.wanted[range] = true;
      alone.holdsMatrices[range] = true;
      if ((!chosen.onChip.value_or(false) || chosen.bands) && accel::chooseResidents(alone, machine).refused.empty())
        result.elsewhere[i].push_back(Stay::Whole);
      const std::optional<accel::RowsBetween> edge = accel::rowsBetween(*uses, unsigned(i), machine);
      if (!chosen.bands && edge)
        result.elsewhere[i].push_back(Stay::Bands);
      if (chosen.bands && edge)
        reach = edge->reader - unsigned(i) - 1;
    }
    add(i, 1 + unsigned(result.elsewhere[i].size()), DecisionOn::Result, "result of ");
    result.decisions.back().reach = reach;
  }
  return llvm::Error::success();
}

/// What ties a layer to its neighbours in time.
void NetworkCompiler::listBeside(llvm::function_ref<void(size_t, unsigned, DecisionOn, const char *)> add) {
  result.otherwise.resize(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    std::vector<Beside> &others = result.otherwise[i];
    if (hasWays()) {
      others.push_back({i});
      llvm::append_range(others, waysBeside(i));
      for (bool before : {true, false})
        for (int64_t tiles : cutsBeside(i, before)) {
          others.push_back({i});
          (before ? others.back().last : others.back().first) = tiles;
        }
      for (int64_t last : cutsBeside(i, true))
        for (int64_t first : cutsBeside(i, false))
          if (first == last) {
            others.push_back({i});
            others.back().last = others.back().first = last;
          }
      const std::vector<Beside> &chosen = result.weighed.front().beside;
      auto own = llvm::find_if(chosen, [&](const Beside &way) { return way.layer == i; });
      llvm::erase(others, own == chosen.end() ? Beside{i} : *own);
    }
    add(i, 1 + unsigned(others.size()), DecisionOn::Beside, "neighbours of ");
    result.decisions.back().reach = !others.empty(); // the next layer's tile changes too
  }
}

size_t NetworkCompiler::endOfChain(size_t layer) const {
  const std::vector<accel::TileRequest> &chosen = network.chosen;
  auto bandsOf = [&](size_t i) {
    return i < chosen.size() && chosen[i].onChip && !layers[i].kernel.request.onChip ? chosen[i].bands : 0;
  };
  size_t end = layer;
  if (layer == 0 || bandsOf(layer - 1) != bandsOf(layer))
    while (bandsOf(end) && bandsOf(end) == bandsOf(layer))
      ++end;
  return end;
}

/// The nearest ones: far from what was chosen, other chains would be.
void NetworkCompiler::listRows(llvm::function_ref<void(size_t, unsigned, DecisionOn, const char *)> add) {
  result.chains.resize(layers.size());
  for (size_t i = 0; i < layers.size(); ++i) {
    ChainRows &chain = result.chains[i];
    const size_t end = endOfChain(i);
    if (end > i && accel::packsTaps(layers[i].kernel, machine)) {
      chain.last = unsigned(end) - 1;
      const auto *own = llvm::lower_bound(kBands, network.chosen[i].bands);
      const auto *above = own + (own != std::end(kBands) && *own == network.chosen[i].bands);
      chain.others.assign(own - std::min<ptrdiff_t>(kRowsTried, own - std::begin(kBands)), own);
      chain.others.insert(chain.others.end(), above, above + std::min<ptrdiff_t>(kRowsTried, std::end(kBands) - above));
    }
    add(i, 1 + unsigned(chain.others.size()), DecisionOn::Rows, "rows of bands from ");
    result.decisions.back().isProbed = true;
    result.decisions.back().reach = unsigned(end - i);
  }
}

/// A layer by itself streams as fast with two slots as with three, and in one order as in another: what they bring is known beside its
/// neighbours only.
void NetworkCompiler::listForms(llvm::function_ref<void(size_t, unsigned, DecisionOn, const char *)> add) {
  for (size_t i = 0; i < layers.size(); ++i)
    add(i, hasWays() && !layers[i].kernel.request.depth ? 1 + kMoreSlots : 1, DecisionOn::Depth, "depth of ");
  for (size_t i = 0; i < layers.size(); ++i) {
    const accel::Kernel &kernel = layers[i].kernel;
    const bool isContraction = kernel.anchor && kernel.anchor->kind == accel::Anchor::Contraction;
    const bool isAsked = kernel.request.panel && kernel.request.order;
    add(i, hasWays() && isContraction && !isAsked ? accel::Tile::kForms : 1, DecisionOn::Form, "form of ");
  }
}

llvm::Error NetworkCompiler::listDecisions() {
  std::map<std::string, unsigned> kinds;
  for (const Layer &layer : layers)
    kinds.try_emplace(layer.kernel.kind, unsigned(kinds.size()));
  auto add = [&](size_t layer, unsigned candidates, DecisionOn what, const char *name) {
    const accel::Kernel &kernel = layers[layer].kernel;
    result.decisions.push_back(
        {unsigned(layer), candidates, kDecisionsOnLayer * kinds[kernel.kind] + unsigned(what), name + kernel.name});
  };
  network.candidates.resize(layers.size());
  for (size_t i = 0; i < layers.size(); ++i)
    add(i, network.candidates[i], DecisionOn::Tile, "");
  if (layers.size() > 1) {
    if (llvm::Error error = listPlaces(add))
      return error;
    listBeside(add);
    listRows(add);
    listForms(add);
  }
  if (result.weighed.size() > 1)
    result.decisions.push_back({std::nullopt, unsigned(result.weighed.size()), 0, "the whole network"});
  return llvm::Error::success();
}

llvm::Expected<std::optional<accel::Fusion>> NetworkCompiler::chooseOnChip() {
  // All that fit, those that save time in transfers, none; then the same in bands where those save transfers, and where they let
  // engines work at the same time.
  constexpr double kTransferShares[] = {0.0, 0.5, 1e9};
  const unsigned shares = std::size(kTransferShares), bands = choice.residency / shares;
  if (!overlaps() || options.across != Across::All)
    return choice.residency ? std::nullopt : std::optional<accel::Fusion>(accel::Fusion());
  if (bands > 2)
    return std::nullopt;
  llvm::Expected<accel::NetworkUses> uses = describeUses();
  if (!uses)
    return uses.takeError();
  uses->transferShare = kTransferShares[choice.residency % shares];
  uses->mayFuseForOverlap = bands == 2;
  uses->tallBands = choice.tallBands;
  uses->keepsSums = choice.keepsSums;
  uses->carriesMaxima = choice.carriesMaxima;
  uses->isInterleaved = choice.ways.order == schedule::Order::Interleaved;
  // A schedule file that asks for bands asks for those alone.
  const bool wantsBands = llvm::any_of(uses->wantedBands, [](int64_t rows) { return rows > 0; }) || !uses->likesBands.empty();
  uses->onlyLiked = !bands && !uses->likesBands.empty();
  accel::Fusion chosen = bands || wantsBands ? accel::chooseGroups(*uses, lessons.banned, machine)
                                             : accel::Fusion{{}, accel::chooseResidents(*uses, machine), {}};
  chosen.residency.refused.insert(chosen.residency.refused.begin(), chosen.refused.begin(), chosen.refused.end());
  for (const auto &[range, why] : chosen.residency.refused) {
    auto wantedBy = llvm::find_if(layers, [range = range](const Layer &layer) {
      return layer.kernel.request.onChip && layer.ranges[size_t(layer.kernel.output.tensor)] == range;
    });
    if (wantedBy == layers.end()) // a search would like it
      continue;
    return llvm::createStringError("%sthe result of kernel '%s' cannot stay on chip: %s",
                                   accel::placed(wantedBy->kernel.request.keepAt).c_str(), wantedBy->kernel.name.c_str(),
                                   why.c_str());
  }
  return chosen;
}

llvm::Expected<bool> NetworkCompiler::weigh(const NetworkChoice &next, double leastGain) {
  choice = next;
  llvm::Expected<std::optional<accel::Fusion>> chosen = chooseOnChip();
  if (!chosen)
    return chosen.takeError();
  if (!*chosen)
    return false;
  fusion = std::make_shared<const accel::Fusion>(std::move(**chosen));
  NetworkChoice plain; // what only residency rules tell apart
  plain.residency = next.residency;
  plain.keptFirst = next.keptFirst;
  plain.ways = options.ways.orFirst();
  if (next == plain) {
    if (llvm::any_of(fusions, [&](const auto &other) { return other->isSameChoice(*fusion); }))
      return true;
    fusions.push_back(fusion);
  }
  network = emptyNetwork;
  result = emptyResult;
  weighedKernels += layers.size();
  const double least = weighed.empty() ? std::numeric_limits<double>::infinity() : weighed.front().cycles / leastGain;
  const double limit = inFull ? std::numeric_limits<double>::infinity() : least;
  llvm::Expected<double> cycles = emitWith(limit);
  if (!cycles)
    return cycles.takeError();
  const bool isBest = weighed.empty() || *cycles < least;
  auto place = isBest ? weighed.begin()
                      : std::find_if(weighed.begin() + 1, weighed.end(), [&](const Weighed &w) { return *cycles < w.cycles; });
  weighed.insert(place, {*cycles, next, !fusion->groups.empty(), fusion->residency.leftOut});
  if (isBest) {
    bestNetwork = std::move(network);
    bestResult = std::move(result);
    bestFusion = fusion;
  }
  return true;
}

void NetworkCompiler::recallBest() {
  choice = weighed.front().choice;
  fusion = bestFusion;
}

void NetworkCompiler::weighToo(const NetworkChoice &next, double leastGain) {
  if (weighedKernels >= kMostWeighedKernels) {
    ++notWeighed;
    return;
  }
  const Lessons learned = lessons;
  if (llvm::Expected<bool> done = weigh(next, leastGain); !done)
    llvm::consumeError(done.takeError());
  lessons = learned;
}

/// The best choice in which all that fits stays.
void NetworkCompiler::weighResidents() {
  auto keeping = llvm::find_if(weighed, [&](const Weighed &w) { return w.choice.residency == 0; });
  if (keeping != weighed.end() && keeping->cycles < kWorthRefining * weighed.front().cycles)
    weighLeftOut(*keeping);
}

/// Of tensors that need the same room those with most readers for their time stay. What each is worth is not in that rule: others
/// first, one after the other.
void NetworkCompiler::weighLeftOut(Weighed base) {
  llvm::SmallVector<size_t> tried;
  auto isUntried = [&](size_t tensor) { return !llvm::is_contained(tried, tensor); };
  while (tried.size() < kTriedFirst && llvm::any_of(base.leftOut, isUntried)) {
    NetworkChoice next = base.choice;
    next.keptFirst.push_back(*llvm::find_if(base.leftOut, isUntried));
    tried.push_back(next.keptFirst.back());
    weighToo(next);
    auto found = llvm::find_if(weighed, [&](const Weighed &w) { return w.choice.keptFirst == next.keptFirst; });
    if (found != weighed.end() && found->cycles < base.cycles)
      base = *found;
  }
}

/// Each once more with what `way` says. A choice that takes room, or brings loads again, must be worth it.
void NetworkCompiler::weighEachWith(bool NetworkChoice::*way, double leastGain) {
  const std::vector<Weighed> without = weighed;
  for (const Weighed &other : without) {
    NetworkChoice next = other.choice;
    next.*way = true;
    weighToo(next, leastGain);
  }
}

/// Results that take the place of what they are made of: room for others.
void NetworkCompiler::weighPlaces() {
  if (!hasWays() || options.ways.places || layers.size() < 2)
    return;
  auto takesPlace = [](const std::optional<accel::Resident> &r) { return r && r->takesPlace; };
  const std::vector<Weighed> apart = weighed;
  for (const Weighed &other : apart) {
    if (other.cycles >= kWorthRefining * apart.front().cycles)
      break;
    choice = other.choice;
    choice.ways.places = accel::Places::Shared;
    llvm::Expected<std::optional<accel::Fusion>> fusion = chooseOnChip();
    if (!fusion)
      llvm::consumeError(fusion.takeError());
    else if (*fusion && llvm::any_of((*fusion)->residency.tensors, takesPlace))
      weighToo(NetworkChoice(choice));
  }
}

/// Sums of windows that stay for the row below: fewer passes, but tiles of one row load more of their input again.
void NetworkCompiler::weighSums() {
  auto shares = [](const Layer &l) { return l.kernel.sharedSums() > 0 && !l.kernel.request.keepsSums; };
  if (hasWays() && layers.size() > 1 && llvm::any_of(layers, shares))
    weighEachWith(&NetworkChoice::keepsSums, kLeastGain);
}

/// Or their maxima stay (docs/design/accumulator.md): fewer passes and loads, but more instructions of the vector engine, and room for them.
void NetworkCompiler::weighMaxima() {
  auto carries = [&](const Layer &l) {
    return !l.kernel.request.carriesMaxima && l.kernel.carriedSums() > 0 && accel::carriedSums(l.kernel, machine) > 0;
  };
  if (hasWays() && layers.size() > 1 && llvm::any_of(layers, carries))
    weighEachWith(&NetworkChoice::carriesMaxima, kLeastMaxima);
}

/// What products of several matrices read on chip: the heads of attention. It takes room from everything between.
void NetworkCompiler::weighMatrices() {
  auto readsMatrices = [](const Layer &l) { return l.kernel.anchor && l.kernel.anchor->batchAxis; };
  if (hasWays() && options.across == Across::All && llvm::any_of(layers, readsMatrices))
    weighEachWith(&NetworkChoice::keepsMatrices, kLeastGain);
}

/// What they write: a chain of them takes all the room that it can use, but where each head is loaded DRAM may be what is scarce.
void NetworkCompiler::weighContexts() {
  auto writesMatrices = [](const Layer &l) { return l.kernel.anchor && l.kernel.anchor->batchAxis; };
  if (hasWays() && options.across == Across::All && llvm::any_of(layers, writesMatrices) && weighed.front().hasGroups)
    weighLeftOut(weighed.front());
}

/// The best, and the best without groups, once more with pixels side by side in the array, where that takes fewer passes; then in the
/// lanes of the vector engine.
void NetworkCompiler::weighPixels() {
  for (bool windows : {false, true}) {
    auto isPacked = [&](const Layer &l) { return l.isWindow() == windows && l.packed && !l.kernel.request.packed; };
    if (llvm::none_of(layers, isPacked))
      continue;
    NetworkChoice best = weighed.front().choice, apart = best;
    if (auto found = llvm::find_if(weighed, [](const Weighed &w) { return !w.hasGroups; }); found != weighed.end())
      apart = found->choice;
    for (NetworkChoice *next : {&best, &apart})
      (windows ? next->packsWindows : next->packs) = true;
    weighToo(best);
    if (apart.residency != best.residency)
      weighToo(apart);
  }
}

/// Pooling that lets its neighbours' vector work in between.
void NetworkCompiler::weighWindows() {
  auto isPooling = [](const Layer &l) {
    return l.kernel.anchor && l.kernel.anchor->kind == accel::Anchor::Window && l.kernel.anchor->weights < 0;
  };
  if (!overlaps() || options.across != Across::All || llvm::none_of(layers, isPooling))
    return;
  NetworkChoice next = weighed.front().choice;
  next.shortWindows = true;
  weighToo(next, kLeastGain);
}

/// Closed forms do not see who waits for whom. The list scheduler does, of a kernel alone: what hides beside its neighbours then counts.
void NetworkCompiler::weighTiles() {
  double array = 0; // if it never waits
  for (const Layer &layer : layers)
    array += double(accel::workOf(layer.kernel, machine).arrayCycles);
  if (!hasWays() || layers.size() < 2 || weighed.front().cycles < kLeastPlanned * array)
    return;
  NetworkChoice next = weighed.front().choice;
  next.plansTiles = true;
  weighToo(next, kLeastPlanned);
}

/// Contractions that find the last tiles of an operand on chip: fewer bytes, but loads come less evenly (docs/design/loop-orders.md).
void NetworkCompiler::weighSerpentine() {
  auto hasParts = [&](const auto &layer) {
    const accel::Kernel &kernel = layer.value().form(weighed.front().choice);
    return kernel.anchor && kernel.anchor->kind == accel::Anchor::Contraction && !kernel.request.serpentine &&
           bestNetwork.chosen[layer.index()].ic < kernel.anchor->ic;
  };
  if (!hasWays() || layers.size() < 2 || llvm::none_of(llvm::enumerate(layers), hasParts))
    return;
  NetworkChoice next = weighed.front().choice;
  next.serpentine = true;
  weighToo(next);
}

/// Other places for buffers, as banks that two engines want cost time; and other orders.
void NetworkCompiler::weighOrders() {
  if (!hasWays() || layers.size() < 2)
    return;
  NetworkChoice next = weighed.front().choice;
  next.fromBottom = true;
  weighToo(next);
  // A kernel between the steps of the next one has less room beside chains in bands: without them it may gain more.
  const auto apart = llvm::find_if(weighed, [](const Weighed &w) { return !w.hasGroups; });
  std::optional<NetworkChoice> close;
  if (apart != weighed.begin() && apart != weighed.end() && apart->cycles < kWorthRefining * weighed.front().cycles)
    close = apart->choice;
  for (schedule::Order order : {schedule::Order::Deadlines, schedule::Order::Interleaved}) {
    next = weighed.front().choice;
    next.ways.order = order;
    if (!options.ways.order)
      weighToo(next);
  }
  if (close && !options.ways.order) {
    close->ways.order = schedule::Order::Interleaved;
    weighToo(*close);
  }
  auto packsTaps = [&](const Layer &l) { return accel::packsTaps(l.kernel, machine); };
  next = weighed.front().choice;
  next.tallBands = true;
  if (weighed.front().hasGroups && llvm::any_of(layers, packsTaps))
    weighToo(next);
}

/// The array waits for a normalisation, unless that begins with half of the rows while it computes the others, and goes on beside the
/// next product's first half: weights are loaded twice then, and both need room. The last one first, as nothing can follow it.
void NetworkCompiler::weighParts() {
  size_t tried = 0;
  for (size_t i = layers.size(); hasWays() && i-- > 0 && tried < kTriedBeside;) {
    const NetworkChoice base = weighed.front().choice;
    const auto ways = waysBeside(i);
    tried += !ways.empty();
    for (const Beside &way : ways) {
      NetworkChoice next = base;
      next.beside.push_back(way);
      weighToo(next, kLeastBeside);
    }
  }
}

/// Only the last tiles of the product before a normalisation, and the first ones of that behind it, make some positions before others: few
/// weights have to stay for that, and none comes twice.
void NetworkCompiler::weighCuts() {
  if (!hasWays())
    return;
  for (size_t i = layers.size(); i-- > 0;)
    for (bool before : {true, false}) {
      const NetworkChoice base = weighed.front().choice;
      for (int64_t count : cutsBeside(i, before)) {
        NetworkChoice next = base;
        Beside cut{i};
        if (auto same = llvm::find_if(next.beside, [&](const Beside &way) { return way.layer == i; });
            same != next.beside.end()) {
          if (same->last)
            cut = *same;
          next.beside.erase(same);
        }
        (before ? cut.last : cut.first) = count;
        next.beside.push_back(cut);
        weighToo(next, kLeastBeside);
      }
    }
}

/// Where nothing runs beside a product yet, its result has no room as a whole or DRAM no time for it: the first half goes there and comes
/// back while the array makes the second one, which stays.
void NetworkCompiler::weighHalves() {
  for (size_t i = layers.size(); hasWays() && options.across == Across::All && i-- > 1;) {
    NetworkChoice next = weighed.front().choice;
    const auto ways = waysBeside(i);
    const auto spread = llvm::find_if(ways, [](const Beside &way) { return way.spreads; });
    const bool isBeside = llvm::any_of(next.beside, [&](const Beside &way) { return way.layer == i; });
    if (spread == ways.end() || isBeside || layers[i - 1].kernel.request.onChip)
      continue;
    next.beside.push_back(*spread);
    next.beside.back().stays = true;
    weighToo(next);
  }
}

/// Where the vector engine has more to do than the array, windows may leave some channels to it: as many as makes both equally busy over
/// the kernels that run side by side, or fewer, in halves of a block of lanes.
void NetworkCompiler::weighEngines() {
  const int64_t unit = std::max<int64_t>(machine.lanes / 2, 1);
  for (size_t i = 0; hasWays() && i < layers.size(); ++i) {
    const accel::Kernel &kernel = layers[i].form(weighed.front().choice);
    if (kernel.request.arrayChannels || !accel::canUseBothEngines(kernel, machine))
      continue;
    size_t first = i, last = i;
    while (first > 0 && bestNetwork.chosen[first - 1].bands)
      --first;
    while (bestNetwork.chosen[last].bands)
      ++last;
    if (first == last)
      continue;
    double array = 0, vector = 0;
    for (size_t k = first; k <= last; ++k) {
      const cost::LayerWork work = accel::workOf(layers[k].kernel, machine);
      array += double(work.arrayCycles);
      vector += double(work.vectorCycles + work.windowVectorCycles);
    }
    const cost::LayerWork own = accel::workOf(kernel, machine);
    const double share = (vector - array) / double(own.windowVectorCycles + own.windowArrayCycles);
    const int64_t even = int64_t(std::min(share, 1.0) * double(kernel.extent[accel::C])) / unit * unit;
    const NetworkChoice base = weighed.front().choice;
    for (int64_t channels = even; channels > 0; channels -= unit) {
      NetworkChoice next = base;
      next.bothEngines.push_back({i, channels});
      weighToo(next, weighed.front().choice == base ? kLeastShared : 1);
    }
  }
}

std::string NetworkCompiler::whyNotAsMade(size_t layer) const {
  if (!hasWays())
    return "that takes base pipelined or search, and layers that do not drain";
  if (machine.scratchpads.size() == 1 || machine.rows != machine.cols || machine.lanes != machine.cols)
    return "machine '" + machine.name + "' has no scratchpad for weights alone, or not as many lanes, rows and columns";
  if (layer == 0 || !isReadBy(layer - 1, layer))
    return "it does not read what that makes";
  if (takesAsMade(layer - 1) || takesAsMade(layer + 1))
    return "a kernel takes turns with one other";
  if (fusion->groupOf(unsigned(layer)) || fusion->groupOf(unsigned(layer) - 1))
    return "one of them runs in bands";
  for (const Layer *each : {&layers[layer - 1], &layers[layer]}) {
    const accel::Kernel &kernel = each->form(choice);
    const std::optional<accel::Anchor> &a = kernel.anchor;
    auto reduces = [](const accel::Step &step) { return step.reducesChannels; };
    if (!a || a->kind != accel::Anchor::Contraction || a->groups > 1 || a->batchAxis || a->pairsRows || a->pixels.count > 1 ||
        kernel.outputsPerVector > 1 || kernel.pool || kernel.maxima || kernel.outputReduced || kernel.conversion ||
        accel::packsTaps(*a, machine) || kernel.tensors[size_t(a->weights)].role != accel::KernelTensor::Constant ||
        llvm::any_of(kernel.steps, reduces))
      return "both must be products or convolutions with constant weights, one vector of channels for each pixel";
  }
  // A channel that is taken is one that is made: neither a part of a concatenation nor another shape of the tensor.
  const accel::Kernel &maker = layers[layer - 1].kernel;
  const accel::Anchor &taker = *layers[layer].kernel.anchor;
  const int64_t channels = maker.anchor->oc;
  const uint64_t bytes = uint64_t(positionsOf(maker) * channels * accel::byteSize(maker.outputType));
  auto isPixels = [&](int64_t elements) { return elements % channels == 0; };
  if (taker.ic != channels || ranges[layers[layer - 1].ranges[size_t(maker.output.tensor)]].bytes != bytes ||
      taker.input.stride[accel::C] != 1 || !isPixels(taker.input.offset) ||
      !llvm::all_of(llvm::drop_begin(taker.input.stride), isPixels))
    return "its channels are not those that are made";
  const Turns turns = turnsOf(layer);
  if (turns.makerSums.isEmpty())
    return "the accumulator does not hold all its sums and a tile of the other's";
  for (bool takes : {false, true}) {
    accel::Kernel kernel = layers[layer - !takes].form(choice);
    askForTurns(kernel, turns, takes);
    if (kernel.request.depth < 2)
      return "weights have no room for two tiles of each";
  }
  return "";
}

bool NetworkCompiler::hurriesAsMade(size_t layer) const {
  if (!whyNotAsMade(layer).empty())
    return false;
  const timing::Ratio peak = timing::dramPeakBytesPerCycle(machine);
  auto loadsLonger = [&](const accel::Kernel &kernel) {
    const int64_t weights = tapsOf(kernel) * kernel.anchor->ic * kernel.anchor->oc;
    const double bytes = double(weights * int64_t(timing::elementBytes(machine.arrayType)));
    const double rate = std::min(double(peak.numerator) / double(peak.denominator), timing::loadBytesPerCycle(machine));
    const double loads = bytes / rate;
    return loads > double(weights * positionsOf(kernel)) / double(machine.rows * machine.cols);
  };
  return loadsLonger(layers[layer].kernel) && !loadsLonger(layers[layer - 1].kernel);
}

/// Weights of all taps between as many channels as the array has rows and columns.
int64_t NetworkCompiler::blockBytes(const accel::Kernel &kernel) const {
  return tapsOf(kernel) * int64_t(machine.rows) * int64_t(machine.cols) * int64_t(timing::elementBytes(machine.arrayType));
}

int64_t NetworkCompiler::blocksInTurn(const accel::Kernel &kernel, int64_t channels) const {
  const int64_t bytes = std::min(kTurnBytes, int64_t(machine.scratchpads.back().capacityBytes) / kMostTurns);
  const int64_t all = int64_t(llvm::divideCeil(channels, machine.cols)),
                most = std::max<int64_t>(bytes / blockBytes(kernel), 1);
  return int64_t(llvm::divideCeil(all, llvm::divideCeil(all, most))); // in equal parts
}

/// All sums of the one that takes, as each block of channels adds to all; of weights rather more for it, as it needs them faster.
NetworkCompiler::Turns NetworkCompiler::turnsOf(size_t layer) const {
  const accel::Kernel &maker = layers[layer - 1].kernel, &taker = layers[layer].kernel;
  const int64_t row = machine.accumulatorRowBytes(), all = int64_t(machine.accumulator.capacityBytes);
  const int64_t tile = blocksInTurn(taker, taker.anchor->oc) * int64_t(machine.cols);
  const int64_t tileSums = int64_t(llvm::alignTo(positionsOf(taker) * row * tile / int64_t(machine.cols), accel::kBurst));
  const int64_t sums = tileSums * int64_t(llvm::divideCeil(taker.anchor->oc, tile));
  const timing::MemoryParams &weights = machine.scratchpads.back();
  const int64_t at = int64_t(kMakerWeights * double(weights.banks)) * int64_t(weights.bankBytes());
  // The taker's last tile may lie in a bank of the maker's: it is not at work there when a result leaves.
  Turns turns{{0, at}, {at, int64_t(weights.capacityBytes)}, {sums, all}, {0, sums}};
  if (turns.makerSums.size() < positionsOf(maker) * row)
    turns.makerSums = {};
  return turns;
}

void NetworkCompiler::askForTurns(accel::Kernel &kernel, const Turns &turns, bool takes) const {
  accel::TileRequest &request = kernel.request;
  const int64_t rows = int64_t(machine.rows), cols = int64_t(machine.cols);
  auto ask = [](auto &key, auto value) {
    if (!key)
      key = value;
  };
  for (unsigned axis = accel::P0; axis < accel::kAxes; ++axis)
    ask(request.size[axis], kernel.extent[axis]);
  // A block of channels is made at a time, from some of the inputs after the others, and taken for some of the results after the others.
  ask(request.size[accel::C], takes ? blocksInTurn(kernel, kernel.anchor->oc) * cols : cols);
  ask(request.ic, takes ? rows : blocksInTurn(kernel, kernel.anchor->ic) * rows);
  ask(request.order, takes ? 2u : 1u); // of kOrderNames
  ask(request.panel, 0u);
  ask(request.serpentine, false);
  const int64_t parameters =
      4 * request.size[accel::C] * llvm::count_if(kernel.steps, [](const accel::Step &step) {
        return llvm::any_of(step.sources, [](const accel::Source &source) { return source.kind == accel::Source::Parameter; });
      });
  const int64_t blocks = int64_t(llvm::divideCeil(request.size[accel::C], cols) * llvm::divideCeil(request.ic, rows));
  const int64_t tile = blocks * blockBytes(kernel) + parameters;
  ask(request.depth, unsigned(std::min((takes ? turns.takerWeights : turns.makerWeights).size() / tile, kMostTurns)));
  const int64_t tiles = std::min(int64_t(request.depth), int64_t(llvm::divideCeil(kernel.anchor->oc, request.size[accel::C])));
  ask(request.oneSum, !takes && turns.makerSums.size() < tiles * positionsOf(kernel) * machine.accumulatorRowBytes());
}

void NetworkCompiler::mergeTurns(size_t begin, size_t middle) {
  std::map<uint32_t, std::array<std::vector<schedule::Step>, 2>> bands;
  for (size_t i = begin; i < network.steps.size(); ++i)
    bands[network.steps[i].band][i >= middle].push_back(std::move(network.steps[i]));
  network.steps.resize(begin);
  for (auto &[band, steps] : bands) {
    auto &[maker, taker] = steps;
    // Evenly, as loads come evenly then. The maker first: its last results leave meanwhile.
    for (size_t m = 0, t = 0; m < maker.size() || t < taker.size();) {
      const bool isTaker = m == maker.size() || (t < taker.size() && t * maker.size() < m * taker.size());
      network.steps.push_back(std::move(isTaker ? taker[t++] : maker[m++]));
      network.steps.back().band = 0;
    }
  }
}

/// Weights that come later than the array has time for them come while the kernel before is still at work: its channels are taken as they are
/// made.
void NetworkCompiler::weighAsMade() {
  for (size_t i = 1; hasWays() && i < layers.size(); ++i) {
    recallBest();
    if (layers[i].kernel.request.asMade || !hurriesAsMade(i))
      continue;
    NetworkChoice next = choice;
    next.asMade.push_back(i);
    weighToo(next, kLeastAsMade);
  }
}

/// Buffers that begin with a bank waste the rest of the one before, and find more banks for themselves: worth a look where kernels for
/// the vector engine could run beside products.
void NetworkCompiler::weighBanks() {
  auto hasWaysBeside = [&](size_t layer) { return !waysBeside(layer).empty(); };
  NetworkChoice next = weighed.front().choice;
  if (!hasWays() || next.wholeBanks || llvm::none_of(llvm::seq<size_t>(0, layers.size()), hasWaysBeside))
    return;
  next.wholeBanks = true;
  weighToo(next);
}

/// Loads and stores that take turns.
void NetworkCompiler::weighBus() {
  if (!hasWays() || options.ways.bus || machine.dram.kind == timing::DramKind::Ideal)
    return;
  NetworkChoice next = weighed.front().choice;
  next.ways.bus = schedule::Bus::Turns;
  // A shared bus turns round whenever the write buffer has been emptied, which the estimate does not see. Where that takes less time than
  // to turn round, a tie is none.
  const timing::DramParams &dram = machine.dram;
  const uint32_t turn = dram.nRTW + dram.nCWL + dram.nWTRL - dram.nBurst; // ticks without data, there and back
  const bool turnsLongest = (dram.writeHighWatermark - dram.writeLowWatermark) * dram.nBurst < turn * dram.channels;
  weighToo(next, turnsLongest ? kLeastTurns : 1);
}

/// Weights by the engine that loads activations: streams of two engines meet in rows of one bank (docs/design/dram-bus.md). Tiles of a layer alone
/// are ranked both ways.
void NetworkCompiler::weighLoaders() {
  if (!hasWays() || options.ways.loaders || machine.loadEngines == 1 || layers.size() < 2)
    return;
  NetworkChoice next = weighed.front().choice;
  next.ways.loaders = accel::Loaders::One;
  weighToo(next);
}

/// Weights that would come too late, early to where nothing else lies (docs/design/prefetch.md). With one scratchpad for all operands, slots go round
/// in all of it.
void NetworkCompiler::weighWeights() {
  if (!hasWays() || options.ways.weights || machine.scratchpads.size() == 1 || layers.size() < 2)
    return;
  NetworkChoice next = weighed.front().choice;
  next.ways.weights = accel::Weights::Early;
  weighToo(next, kLeastEarly);
}

llvm::Error NetworkCompiler::emit() {
  mainFunction = module.lookupSymbol<mlir::func::FuncOp>("main");
  if (!mainFunction || mainFunction.isExternal())
    return llvm::createStringError("the module has no function @main");
  if (llvm::Error error = placeTensors())
    return error;
  if (llvm::Error error = describe(true))
    return error;
  if (llvm::Error error = describe(false))
    return error;
  if (llvm::Error error = matchKernels())
    return error;
  emptyNetwork = network;
  emptyResult = result;
  if (fixedChoice) {
    for (size_t i = 0; i < layers.size(); ++i)
      if (unsigned pick = pickOf(DecisionOn::Beside, i)) {
        llvm::erase_if(fixedChoice->beside, [&](const Beside &way) { return way.layer == i; });
        if (const Beside &way = first->otherwise[i][pick - 1]; !way.isNone())
          fixedChoice->beside.push_back(way);
      }
    if (llvm::Expected<bool> done = weigh(*fixedChoice); !done)
      return done.takeError();
  } else {
    NetworkChoice rule;
    rule.ways = options.ways.orFirst();
    for (;; ++rule.residency) {
      llvm::Expected<bool> exists = weigh(rule);
      if (!exists)
        return exists.takeError();
      if (!*exists)
        break;
    }
    weighPlaces();
    weighSums();
    weighMaxima();
    weighMatrices();
    weighResidents();
    weighPixels();
    weighWindows();
    weighSerpentine();
    weighBanks();
    weighOrders();
    weighContexts();
    weighParts();
    weighHalves();
    weighCuts();
    weighBanks();
    weighBus();
    weighLoaders();
    weighWeights();
    weighEngines();
    weighAsMade();
    weighTiles();
  }
  network = std::move(bestNetwork);
  result = std::move(bestResult);
  recallBest();
  if (notWeighed)
    result.notes.push_back("of the ways to compile the network as a whole " + std::to_string(notWeighed) +
                           " were not weighed: it has " + std::to_string(layers.size()) + " kernels");
  result.weighed = {weighed.front().choice};
  auto addNew = [&](const NetworkChoice &other) {
    if (!llvm::is_contained(result.weighed, other))
      result.weighed.push_back(other);
  };
  llvm::for_each(others, addNew);
  for (const Weighed &w : weighed)
    addNew(w.choice);
  if (!fixedChoice && hasWays() && layers.size() > 1)
    llvm::for_each(otherOrders(weighed.front().choice), addNew);
  return llvm::Error::success();
}

/// The same work in every order of operations and transfers that is left open. They are not weighed: a search may want them once it has
/// changed the layers.
std::vector<NetworkChoice> NetworkCompiler::otherOrders(const NetworkChoice &choice) const {
  std::vector<NetworkChoice> result{choice};
  auto vary = [&](auto accel::Ways::*member, auto others) {
    for (size_t i = 0, count = result.size(); i < count; ++i)
      for (auto value : others) {
        NetworkChoice other = result[i];
        other.ways.*member = value;
        result.push_back(other);
      }
  };
  using schedule::Order, schedule::Bus;
  if (!options.ways.order)
    vary(&accel::Ways::order, std::initializer_list<Order>{Order::Steps, Order::Deadlines, Order::Interleaved});
  if (!options.ways.bus && machine.dram.kind != timing::DramKind::Ideal)
    vary(&accel::Ways::bus, std::initializer_list<Bus>{Bus::Shared, Bus::Turns});
  if (!options.ways.loaders && machine.loadEngines > 1)
    vary(&accel::Ways::loaders, std::initializer_list<accel::Loaders>{accel::Loaders::Apart, accel::Loaders::One});
  return result;
}

llvm::Expected<std::vector<NetworkChoice>> NetworkCompiler::weighAll() {
  inFull = true;
  if (llvm::Error error = emit())
    return error;
  return std::move(result.weighed);
}
