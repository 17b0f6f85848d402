//===- Knobs.td - Every choice of a schedule ------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One record per knob. plan-tblgen writes from it the fields of KernelPlan,
// NetworkKnobs and TileKnobs with ==, parse and print, the values that a search
// may try, and the tables of docs/schedule-file.md.
//===--------------------------------------------------------------------------===//

/// What a knob's value is. `cpp` is the type of a plan's field: a value-initialised field leaves the knob open. `plain` is the type of a
/// tile's field, which always has a value.
class KnobType<string cppType, string plainType, string allowedText> {
  string cpp = cppType;
  string plain = plainType;
  string allowed = allowedText; ///< what a value may be, for messages and documentation
  list<string> spellings = [];
  string enumName = "";
}
def Flag : KnobType<"std::optional<bool>", "bool", "true or false">;
def Count : KnobType<"int64_t", "int64_t", "a positive number">;
def Number : KnobType<"std::optional<int64_t>", "int64_t", "a number, 0 or more">;
def TileSizes : KnobType<"Sizes", "Sizes", "four sizes, [channels, x, y, n], 0 where the compiler chooses">;
def BankRange : KnobType<"std::optional<Banks>", "std::optional<Banks>", "two numbers, [first, end), the first less than the end">;
def TileSplit : KnobType<"std::optional<Split>", "std::optional<Split>", "two positive numbers, [tiles, positions along x]">;
/// One of some names; the enumeration's values have their order.
class Choice<string name, list<string> names> : KnobType<"std::optional<" # name # ">", name, ""> {
  let enumName = name;
  let spellings = names;
}

/// The values of a knob that a search may try, beside the one that is chosen.
class Candidates;
def NoValues : Candidates;                                       ///< follows from other knobs
def AllValues : Candidates;                                      ///< of a flag or a choice
class OneOf<list<int> numbers> : Candidates { list<int> values = numbers; }
/// explore::variationsOf() makes them of the kernel's shape.
def FromShape : Candidates;

class Knob<string knobName, KnobType knobType, string meaning> {
  string name = knobName;
  KnobType type = knobType;
  string doc = meaning;
  string when = "";          ///< where it applies; empty: everywhere
  string theDefault = "";    ///< network knobs: the spelling of the simplest value
  Candidates candidates = NoValues;
}
class KernelKnob<string name, KnobType type, string meaning> : Knob<name, type, meaning> {
  bit ofTile = false;      ///< every tile has a value of the knob, in a field of TileKnobs
  string tileValue = "";   ///< the initialiser of that field
  bit ofKind = false;      ///< kernels that differ in the knob are of different kinds: they share no ranking of tiles
  bit needsTiles = true;   ///< kernels without tiles, changes of layout, cannot have the knob
  string fromNetwork = ""; ///< the network knob that holds where this knob is open
}
/// A knob of which every tile has a value.
class TileKnob<string name, KnobType type, string meaning> : KernelKnob<name, type, meaning> {
  let ofTile = true;
  let ofKind = true;
}
class NetworkKnob<string name, KnobType type, string meaning, string value> : Knob<name, type, meaning> {
  let theDefault = value;
  let candidates = AllValues;
}

//===- Knobs of a kernel ------------------------------------------------------===//

def : TileKnob<"tile", TileSizes, "output channels, then positions along the innermost three axes, of a tile"> {
  let ofKind = false; // no fusion group depends on it
  let tileValue = "1, 1, 1, 1";
  let candidates = FromShape;
}
def : TileKnob<"tile_k", Count, "input channels of a tile (the k block)"> {
  let ofKind = false; // no fusion group depends on it
  let tileValue = "1";
  let when = "contractions";
  let candidates = FromShape;
}
def : TileKnob<"loop_order", Choice<"LoopOrder", ["positions_outer", "channels_outer", "k_outer", "k_channels_outer"]>,
               "the outer loop over tiles; k_outer and k_channels_outer: every accumulator-resident output tile consumes a k block "
               "before any consumes the next one"> {
  let ofKind = false; // no fusion group depends on it
  let when = "contractions";
  let candidates = AllValues;
}
def : KernelKnob<"pixel_packing", Flag, "neighbouring pixels share the rows and columns of the array, or the vector lanes"> {
  let when = "kernels with few channels";
}
def : TileKnob<"first_split", TileSplit, "so many first tiles take the positions in parts of so many"> {
  let ofKind = false; // no fusion group depends on it
  let when = "products of one matrix whose tiles hold all positions, beside other kernels";
  let candidates = FromShape;
}
def : TileKnob<"last_split", TileSplit, "the same for the last tiles"> {
  let ofKind = false; // no fusion group depends on it
  let when = "products of one matrix whose tiles hold all positions, beside other kernels";
  let candidates = FromShape;
}
def : TileKnob<"depth", Count, "slots of every streamed operand's buffer"> {
  let tileValue = "1";
  let candidates = OneOf<[1, 2, 3, 4, 5, 6]>;
}
def : TileKnob<"stationary", Choice<"Stationary", ["none", "single", "prefetch", "double", "resident"]>,
               "how much of the outer loop's operand stays on chip while the inner loop runs: nothing, all its k blocks, these and a "
               "tile of the next ones, two such sets, or the weights of the whole kernel"> {
  let when = "contractions";
  let candidates = AllValues;
}
def : KernelKnob<"banks", BankRange, "banks of the first scratchpad in which the kernel's buffers lie"> {
  let when = "kernels outside fusion groups";
  let candidates = FromShape;
}
def : KernelKnob<"after_previous", Flag, "the kernel's buffers lie behind those of the kernel before, not where the memories begin"> {
  let when = "kernels outside fusion groups without banks of their own";
  let candidates = FromShape;
}
def : TileKnob<"overlap", Flag, "engines work side by side"> {
  let tileValue = "true";
  let when = "schedule double_buffer";
}
def : TileKnob<"single_accumulator", Flag, "one accumulator slot, whatever the depth: larger tiles, but the array waits for each to drain"> {
  let when = "contractions of depth 2 or more";
  let candidates = AllValues;
}
def : TileKnob<"drain_by_block", Flag, "results leave the accumulator one block of columns at a time, and the next tile begins as these do"> {
  let when = "contractions with a single accumulator";
  let candidates = AllValues;
}
def : TileKnob<"small_first_tile", Flag, "the first tile takes its k block in pieces that begin small"> {
  let when = "a contraction that is its program's only kernel";
}
def : TileKnob<"small_last_tile", Flag, "the last tile's results leave in parts while others are still made"> {
  let when = "a contraction that is its program's only kernel";
}
def : TileKnob<"wide_start", Flag, "the first tiles take each k block together, so that operands that arrive are used at once"> {
  let when = "the first contraction of a program";
  let candidates = AllValues;
}
def : TileKnob<"single_loader", Flag, "one load engine brings both operands, each tile when its turn comes"> {
  let when = "a contraction that is its program's only kernel";
}
// Tiles are chosen as for the network's weight_loader, so kernels that differ in the knob share a ranking.
def : KernelKnob<"first_loader", Flag, "the first load engine, which brings activations, brings the weights too"> {
  let when = "kernels with weights, on machines with two load engines or more";
  let candidates = AllValues;
}
def : KernelKnob<"bank_exclusive", Flag, "the kernel's buffers begin with a bank that those of the kernel before do not use"> {
  let fromNetwork = "exclusive_banks";
  let candidates = AllValues;
}
def : KernelKnob<"spread_second_half", Flag, "the second half of the positions has buffers in all banks"> {
  let when = "kernels that work row by row and have banks of their own";
}
def : TileKnob<"serpentine", Flag, "every second tile takes the last k block first and finds on chip what it shares with the tile before"> {
  let fromNetwork = "serpentine_contractions";
  let when = "contractions";
  let candidates = AllValues;
}
def : TileKnob<"sum_line_buffer", Flag, "windows of sums find the rows that they share with the windows above in the accumulator"> {
  let fromNetwork = "sum_line_buffers";
  let when = "contractions whose sums are pooled by whole windows";
  let candidates = AllValues;
}
def : TileKnob<"max_line_buffer", Flag, "windows of sums find the maxima of those rows in a line buffer in the scratchpad"> {
  let fromNetwork = "max_line_buffers";
  let when = "contractions whose sums are pooled by whole windows";
  let candidates = AllValues;
}
def : KernelKnob<"channel_streaming", Flag, "the kernel takes each block of channels as the kernel before makes it"> {
  let when = "products and convolutions with constant weights, on machines with a scratchpad for weights";
  let candidates = AllValues;
}
def : TileKnob<"line_buffer", Count, "so many tiles below one another share a circular line buffer, and each loads only its new rows"> {
  let tileValue = "1";
  let when = "windows over an input in DRAM whose rows neighbouring tiles share";
  let candidates = OneOf<[1, 2, 3, 4, 6, 8]>;
}
def : KernelKnob<"on_chip", Flag, "the result stays in the scratchpad for its readers"> {
  let needsTiles = false;
  let candidates = FromShape;
}
def : KernelKnob<"row_tile", Count, "depth-first fusion: the result passes through the scratchpad, so many rows of the fusion group's last result at a time"> {
  let needsTiles = false;
  let when = "kernels whose result stays on chip";
  let candidates = FromShape;
}
def : KernelKnob<"on_chip_from", Count, "position along x from which on the result stays on chip"> {
  let needsTiles = false;
  let when = "kernels whose result stays on chip as a whole";
}
def : KernelKnob<"placed_first", Flag, "the result has its place in the scratchpad before those of other kernels"> {
  let needsTiles = false;
  let when = "kernels whose result stays on chip as a whole";
}
def : KernelKnob<"engine", Choice<"Engine", ["tensor", "vector"]>, "the engine that computes the kernel"> {
  let ofKind = true;
  let needsTiles = false;
}
def : TileKnob<"array_channels", Number, "so many channels of a window are computed on the array, the others on the vector engine"> {
  let needsTiles = false;
  let when = "windows with constant weights, on machines with as many rows and columns as lanes";
  let candidates = FromShape;
}

//===- Knobs of the whole network ---------------------------------------------===//
// Schedules `pipelined` and `search` have them. Those with a kernel knob of the same meaning hold for kernels whose plan leaves that open.

def : NetworkKnob<"priority", Choice<"Priority", ["program_order", "alap", "interleaved"]>,
                  "which ready operation the list scheduler issues first: that of the earliest step, that with the latest start (ALAP) first, "
                  "or ALAP for kernels without array work only", "program_order">;
def : NetworkKnob<"bus", Choice<"Bus", ["shared", "alternating"]>, "loads and stores share the DRAM data bus, or alternate on it", "shared">;
def : NetworkKnob<"weight_loader", Choice<"WeightLoader", ["second", "first"]>,
                  "the load engine of weights: the second one, or the one that loads activations", "second">;
def : NetworkKnob<"weight_prefetch", Choice<"WeightPrefetch", ["slots", "early"]>,
                  "weights that DRAM would bring too late wait for it in slots, or come early to free memory", "slots">;
def : NetworkKnob<"result_places", Choice<"ResultPlaces", ["own", "reused"]>,
                  "results on chip have places of their own, or may reuse that of a dead operand (in-place update)", "own">;
def : NetworkKnob<"residency", Choice<"ResidencyRule", ["all", "worthwhile", "none"]>,
                  "which results stay on chip: all that fit, those of transfer-bound kernels, or none", "all">;
def : NetworkKnob<"fusion", Choice<"FusionRule", ["none", "transfers", "overlap"]>,
                  "depth-first fusion groups: none, those that save transfers, or also those that let engines overlap", "none">;
def : NetworkKnob<"tall_row_tiles", Flag, "row tiles of fusion groups have two rows at least where shared rows would be loaded again", "false">;
def : NetworkKnob<"resident_matrices", Flag, "operands of batched products (attention heads) may stay on chip", "false">;
def : NetworkKnob<"pack_contractions", Flag, "contractions that can have pixels packed in the array do", "false">;
def : NetworkKnob<"pack_windows", Flag, "windows that can have pixels packed in the vector lanes do", "false">;
def : NetworkKnob<"short_pooling", Flag, "pooling is split into short instructions, so that it does not block the vector queue", "false">;
def : NetworkKnob<"exclusive_banks", Flag, "bank_exclusive of all kernels", "false">;
def : NetworkKnob<"buffers_at_bottom", Flag, "buffers of all kernels begin where the memories do", "false">;
def : NetworkKnob<"serpentine_contractions", Flag, "serpentine of all contractions", "false">;
def : NetworkKnob<"sum_line_buffers", Flag, "sum_line_buffer of all kernels that can have one", "false">;
def : NetworkKnob<"max_line_buffers", Flag, "max_line_buffer is allowed to all kernels that can have one", "false">;
def : NetworkKnob<"planned_tiles", Flag, "of the best tiles by the closed form, the list scheduler says which is taken", "false">;
