//===- Request.h - What a schedule file asks of a kernel ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A request says as much of a kernel's schedule as somebody wants to say; the
// rest stays the compiler's choice. docs/schedule-file.md has its keys.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_ACCEL_REQUEST_H
#define COMPILER_CODEGEN_ACCEL_REQUEST_H

#include "compiler/schedule/Overlap.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <array>
#include <optional>
#include <string>
#include <tuple>

namespace tw::accel {

/// A kernel function's request: a dictionary. Beside the keys of a directive it has the directive's location, as "tile_at".
inline constexpr llvm::StringLiteral kRequestAttr = "tilewright.schedule";

/// A schedule file's base: the schedule that decides what the file leaves open.
inline constexpr llvm::StringLiteral kBaseAttr = "tilewright.base";

/// A schedule file's order of operations of all kernels: schedule::Order.
inline constexpr llvm::StringLiteral kOperationOrderAttr = "tilewright.order";

/// Who has the data bus, loads or stores: schedule::Bus.
inline constexpr llvm::StringLiteral kBusAttr = "tilewright.bus";

/// Who loads constants: Loaders.
inline constexpr llvm::StringLiteral kLoadersAttr = "tilewright.loaders";

/// Who loads constants, and other weights: the second load engine, where there is one, or the one that loads activations.
enum class Loaders { Apart, One };

/// Where weights lie that would come too late: Weights.
inline constexpr llvm::StringLiteral kWeightsAttr = "tilewright.weights";

/// Where weights lie that would come too late: in slots, as all others, or where nothing else does before (schedule::prefetch()).
enum class Weights { Slots, Early };

/// Where a result lies that its kernel makes of one that nobody else needs any more, element by element: Places.
inline constexpr llvm::StringLiteral kPlacesAttr = "tilewright.places";

/// Each tensor on chip has a place of its own, or such a result takes that of what it is made of.
enum class Places { Own, Shared };

/// Spellings, by index.
constexpr const char *kOperationOrderNames[] = {"steps", "deadlines", "interleaved"};
constexpr const char *kBusNames[] = {"shared", "turns"};
constexpr const char *kLoadersNames[] = {"apart", "one"};
constexpr const char *kWeightsNames[] = {"slots", "early"};
constexpr const char *kPlacesNames[] = {"own", "shared"};
constexpr const char *kOrderNames[] = {"positions_outer", "channels_outer", "inputs_outer", "inputs_channels_outer"};
constexpr const char *kPanelNames[] = {"none", "one", "and_tile", "two", "all"};
constexpr const char *kEngineNames[] = {"tensor", "vector"};

/// How all kernels are scheduled together, under pipelined and search.
struct Ways {
  schedule::Order order = schedule::Order::Steps; ///< which operation has an engine first
  schedule::Bus bus = schedule::Bus::Shared;      ///< who has the data bus
  Loaders loaders = Loaders::Apart;
  Weights weights = Weights::Slots;
  Places places = Places::Own;

  bool operator==(const Ways &other) const {
    return std::tie(order, bus, loaders, weights, places) ==
           std::tie(other.order, other.bus, other.loaders, other.weights, other.places);
  }
};

/// What a schedule file's module asks of them. What is missing is not asked for.
struct WaysRequest {
  std::optional<schedule::Order> order;
  std::optional<schedule::Bus> bus;
  std::optional<Loaders> loaders;
  std::optional<Weights> weights;
  std::optional<Places> places;

  WaysRequest() = default;
  explicit WaysRequest(const Ways &all)
      : order(all.order), bus(all.bus), loaders(all.loaders), weights(all.weights), places(all.places) {}

  /// With the first of each where nothing is asked for.
  Ways orFirst() const {
    return {order.value_or(schedule::Order()), bus.value_or(schedule::Bus()), loaders.value_or(Loaders()),
            weights.value_or(Weights()), places.value_or(Places())};
  }
};

/// Calls visit(attribute, spellings, member) for each of them.
template <typename Visit> void forEachWay(Visit visit) {
  visit(kOperationOrderAttr, llvm::ArrayRef(kOperationOrderNames), &WaysRequest::order);
  visit(kBusAttr, llvm::ArrayRef(kBusNames), &WaysRequest::bus);
  visit(kLoadersAttr, llvm::ArrayRef(kLoadersNames), &WaysRequest::loaders);
  visit(kWeightsAttr, llvm::ArrayRef(kWeightsNames), &WaysRequest::weights);
  visit(kPlacesAttr, llvm::ArrayRef(kPlacesNames), &WaysRequest::places);
}

/// Tiles of a product that each hold all positions: `positions` of them at a time go through all of these tiles before the next ones do.
struct Cut {
  int64_t tiles = 0, positions = 0;
  bool operator==(const Cut &other) const { return tiles == other.tiles && positions == other.positions; }
};

/// What is 0, empty or missing is not asked for.
struct TileRequest {
  std::array<int64_t, 4> size{}; ///< channels, then positions along x, y and n
  int64_t ic = 0;
  std::optional<unsigned> order; ///< of kOrderNames: channelsOuter + 2 * inputsOuter of the tile
  unsigned depth = 0;
  std::optional<unsigned> panel; ///< of kPanelNames: Tile::Panel
  std::optional<bool> overlap;
  std::optional<std::array<int64_t, 2>> banks; ///< of scratchpad 0, first and end: where the kernel's buffers lie
  std::optional<bool> behind; ///< its buffers lie behind those of the kernel before, not where the memories begin
  std::optional<bool> oneSum, byBlock, beginsSmall, endsSmall, beginsWide, oneLoader;
  std::optional<bool> wholeBanks;       ///< its buffers begin with a bank that those of the kernel before do not use
  std::optional<bool> spreads;          ///< the second half of its positions has buffers in all banks
  std::optional<bool> serpentine;       ///< every second tile takes the last input channels first
  std::optional<bool> keepsSums;        ///< rows of windows find the sums that they share with those above
  std::optional<bool> carriesMaxima;    ///< the same, as maxima in the scratchpad, with tiles of any number of rows
  std::optional<bool> asMade;           ///< it takes the channels of the kernel before as that makes them
  int64_t rolling = 0;                  ///< tiles one below the other that share a piece of memory
  std::optional<Cut> first, last;       ///< the tiles that come first, and last
  std::optional<bool> packed;           ///< neighbouring pixels side by side in the array
  std::optional<bool> onChip;           ///< the kernel's result
  std::optional<bool> placedFirst;      ///< on chip as a whole: it has its place before the results that are not
  int64_t bands = 0;                    ///< rows of the last kernel's result in a band of it; 0: not in bands
  int64_t keptFrom = 0;                 ///< position along x from which on it stays on chip
  std::optional<unsigned> engine;       ///< of kEngineNames
  std::optional<int64_t> arrayChannels; ///< of a window of the vector engine: so many are computed on the array
  /// file:line:column of the directives.
  std::string tileAt, buffersAt, keepAt, assignAt;

  bool hasTile() const {
    return llvm::any_of(size, [](int64_t s) { return s != 0; }) || ic || order || packed || first || last;
  }
  bool hasBuffers() const {
    return depth || panel || banks || behind || wholeBanks || overlap || oneSum || byBlock || beginsSmall || endsSmall ||
           beginsWide || oneLoader || spreads || serpentine || keepsSums || carriesMaxima || asMade || rolling;
  }
  /// The place to name where no single directive is at fault.
  const std::string &at() const { return hasTile() ? tileAt : hasBuffers() ? buffersAt : onChip ? keepAt : assignAt; }
};

/// Reads a dictionary of keys. Errors: unknown keys, values of the wrong type or out of range.
mlir::FailureOr<TileRequest> parseRequest(mlir::DictionaryAttr keys, llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

/// The request of a kernel function, empty if it has none.
mlir::FailureOr<TileRequest> requestOf(mlir::func::FuncOp function);

/// The directives that ask for `request`, a line for each, of the kernel with that handle.
std::string printRequest(const std::string &handle, const TileRequest &request);

/// A schedule file (compiler/directives/ScheduleFile.h) that asks for `ways` and, by the name of the kernel, for `choices`.
std::string printScheduleFile(const std::string &base, const WaysRequest &ways,
                              llvm::ArrayRef<std::pair<std::string, TileRequest>> choices);

/// "place: ", if there is one.
inline std::string placed(const std::string &place) { return place.empty() ? "" : place + ": "; }

/// "a, b or c".
std::string alternatives(llvm::ArrayRef<const char *> names);

} // namespace tw::accel

#endif // COMPILER_CODEGEN_ACCEL_REQUEST_H
