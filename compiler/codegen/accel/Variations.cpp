//===- Variations.cpp - What a kernel's request could say instead ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Variations.h"

#include "llvm/Support/MathExtras.h"

using namespace tw;
using namespace tw::accel;

namespace {
constexpr int64_t kMultiples[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32}; ///< of the array's rows or columns, or of the lanes
constexpr int64_t kParts[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32}; ///< of an axis of positions
constexpr unsigned kMostDepth = 6;
constexpr int64_t kCutTiles[] = {1, 2, 3, 4, 5, 6, 8, 10, 12};
constexpr int64_t kMostCutParts = 6;
constexpr int64_t kRollingTiles[] = {1, 2, 3, 4, 6, 8};
constexpr int64_t kBankBorders = 16; ///< places for buffers begin and end at most at so many
} // namespace

std::vector<Variation> accel::variationsOf(const TileRequest &chosen, const Kernel &kernel,
                                           const timing::MachineParams &machine) {
  const TileRequest &asked = kernel.request;
  const bool isContraction = kernel.anchor && kernel.anchor->kind == Anchor::Contraction;
  std::vector<Variation> variations;
  auto vary = [&](const char *key, const auto &values, auto member) {
    TileRequest own = chosen;
    Variation variation{key, {}};
    for (const auto &value : values)
      if (!(member(own) == value))
        variation.values.push_back([member, value](TileRequest &request) { member(request) = value; });
    if (!variation.values.empty())
      variations.push_back(std::move(variation));
  };
  auto flip = [&](const char *key, std::optional<bool> TileRequest::*flag) {
    if (chosen.*flag && !(asked.*flag))
      vary(key, std::array<bool, 2>{false, true}, [flag](TileRequest &r) -> std::optional<bool> & { return r.*flag; });
  };
  auto indices = [](size_t count) {
    std::vector<unsigned> all;
    for (unsigned i = 0; i < count; ++i)
      all.push_back(i);
    return all;
  };
  auto multiples = [](int64_t unit, int64_t extent) {
    std::vector<int64_t> all;
    for (int64_t multiple : kMultiples)
      if (multiple * unit < extent)
        all.push_back(multiple * unit);
    all.push_back(int64_t(llvm::alignTo(uint64_t(extent), uint64_t(unit))));
    return all;
  };

  if (!asked.size[C])
    vary("channels",
         multiples(isContraction ? machine.cols : machine.lanes, isContraction ? kernel.anchor->oc : kernel.extent[C]),
         [](TileRequest &r) -> int64_t & { return r.size[C]; });
  for (unsigned axis : {P0, P1, P2}) {
    const bool isFixed = (kernel.pool && axis != P2) || (kernel.anchor && kernel.anchor->batchAxis == axis);
    if (kernel.extent[axis] == 1 || isFixed || asked.size[axis])
      continue;
    std::vector<int64_t> sizes;
    for (int64_t parts : kParts)
      if (int64_t size = int64_t(llvm::divideCeil(kernel.extent[axis], parts)) * (axis == P0 ? kernel.outputsPerVector : 1);
          sizes.empty() || size < sizes.back())
        sizes.push_back(size);
    vary(axis == P0   ? "width"
         : axis == P1 ? "height"
                      : "images",
         sizes, [axis](TileRequest &r) -> int64_t & { return r.size[axis]; });
  }
  if (chosen.ic && !asked.ic && chosen.ic % machine.rows == 0)
    vary("inputs", multiples(machine.rows, kernel.anchor->ic), [](TileRequest &r) -> int64_t & { return r.ic; });
  if (chosen.order && !asked.order)
    vary("order", indices(std::size(kOrderNames)), [](TileRequest &r) -> std::optional<unsigned> & { return r.order; });
  if (kernel.isProductOfRows()) {
    std::vector<std::optional<Cut>> cuts{std::nullopt};
    for (int64_t tiles : kCutTiles)
      for (int64_t parts = 2; parts <= std::min(kMostCutParts, kernel.extent[P0]); ++parts)
        cuts.push_back(Cut{tiles, int64_t(llvm::divideCeil(kernel.extent[P0], parts))});
    if (!asked.first)
      vary("first tiles", cuts, [](TileRequest &r) -> std::optional<Cut> & { return r.first; });
    if (!asked.last)
      vary("last tiles", cuts, [](TileRequest &r) -> std::optional<Cut> & { return r.last; });
  }
  if (chosen.depth && !asked.depth) {
    std::vector<unsigned> depths = indices(kMostDepth + 1);
    depths.erase(depths.begin());
    vary("depth", depths, [](TileRequest &r) -> unsigned & { return r.depth; });
  }
  if (chosen.panel && !asked.panel)
    vary("panel", indices(std::size(kPanelNames)), [](TileRequest &r) -> std::optional<unsigned> & { return r.panel; });
  if (chosen.rolling && !asked.rolling)
    vary("rolling", kRollingTiles, [](TileRequest &r) -> int64_t & { return r.rolling; });
  flip("one sum", &TileRequest::oneSum);
  flip("by block", &TileRequest::byBlock);
  flip("wide begin", &TileRequest::beginsWide);
  flip("serpentine", &TileRequest::serpentine);
  flip("sums", &TileRequest::keepsSums);
  flip("maxima", &TileRequest::carriesMaxima);
  flip("whole banks", &TileRequest::wholeBanks);
  flip("as made", &TileRequest::asMade);
  if ((chosen.banks || chosen.behind) && !asked.banks && !asked.behind) {
    Variation place{"place", {}};
    auto add = [&](std::optional<std::array<int64_t, 2>> banks, std::optional<bool> behind) {
      if (banks != chosen.banks || behind != chosen.behind)
        place.values.push_back([=](TileRequest &r) {
          r.banks = banks;
          r.behind = behind;
        });
    };
    for (bool behind : {false, true})
      add(std::nullopt, behind);
    const int64_t banks = machine.scratchpads[0].banks, step = std::max<int64_t>(1, banks / kBankBorders);
    for (int64_t first = 0; first < banks; first += step)
      for (int64_t end = first + step; end <= banks; end += step)
        add({{first, end}}, std::nullopt);
    variations.push_back(std::move(place));
  }
  if (chosen.arrayChannels && !asked.arrayChannels) {
    std::vector<int64_t> channels;
    for (int64_t all = 0; all <= kernel.extent[C]; all += machine.lanes)
      channels.push_back(all);
    vary("array channels", channels, [](TileRequest &r) -> std::optional<int64_t> & { return r.arrayChannels; });
  }
  return variations;
}
