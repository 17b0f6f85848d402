//===- EmitterRequest.cpp - Whether a request can be met -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Emitter.h"

#include "llvm/Support/FormatVariadic.h"

using namespace tw;
using namespace tw::accel;

bool Emitter::isAskedFor(const Tile &t) const {
  const KernelPlan &r = kernel.plan;
  return (!r.loopOrder || *r.loopOrder == loopOrderOf(t)) && (!r.stationary || *r.stationary == stationaryOf(t)) &&
         (!r.overlap || *r.overlap == t.overlap) && (!r.singleAccumulator || *r.singleAccumulator == t.oneSum);
}

llvm::Error Emitter::checkRequest() const {
  const KernelPlan &r = kernel.plan;
  auto refuseAs = [&](const char *knob, const std::string &what, auto found, const std::string &allowed) {
    return llvm::createStringError(
        llvm::formatv("{0}{1} is {2} but kernel '{3}' {4}", r.placeOf({knob}), what, found, kernel.name, allowed).str());
  };
  auto refuse = [&](const char *knob, auto found, const std::string &allowed) { return refuseAs(knob, knob, found, allowed); };
  const std::string withBase = std::string("has schedule ") + nameOf(schedule);
  const int64_t unit = channelUnit(), all = roundUp(channels(), unit);
  if (r.tile[C] && (r.tile[C] % unit || r.tile[C] > all))
    return refuseAs("tile", "size of channels", r.tile[C], llvm::formatv("allows multiples of {0} up to {1}", unit, all));
  if (r.tile[C] && takesAllChannels() && r.tile[C] != all)
    return refuseAs(
        "tile", "size of channels", r.tile[C],
        llvm::formatv("{0} all of them and needs {1}", packsRows() ? "has pixels side by side with" : "reduces over", all));
  for (unsigned axis = P0; axis < kAxes; ++axis) {
    const char *name = axis == P0 ? "size along x" : axis == P1 ? "size along y" : "size along n";
    const int64_t together = axis == P0 ? kernel.outputsPerVector : 1;
    if (r.tile[axis] > kernel.extent[axis])
      return refuseAs("tile", name, r.tile[axis] * together, llvm::formatv("has {0} there", kernel.extent[axis] * together));
    if (kernel.pool && axis != P2 && r.tile[axis] && r.tile[axis] != kernel.extent[axis])
      return refuseAs("tile", name, r.tile[axis], llvm::formatv("sums over all positions and needs {0}", kernel.extent[axis]));
    if (const int64_t most = axis == P0 ? bandColumns() : bandRows(); axis != P2 && r.tile[axis] > most)
      return refuseAs("tile", name, r.tile[axis], llvm::formatv("has row tiles of {0}", most));
    if (r.tile[axis] > 1 && kernel.anchor && kernel.anchor->batchAxis == axis)
      return refuseAs("tile", name, r.tile[axis], "has weights of its own for each and needs 1");
  }
  if (r.banks && (*r.banks)[1] > int64_t(machine.scratchpads[0].banks))
    return refuseAs("banks", "the end of banks", (*r.banks)[1],
                    llvm::formatv("has {0} of them in {1}", machine.scratchpads[0].banks, machine.scratchpads[0].name));
  if (r.banks && r.afterPrevious)
    return refuse("after_previous", *r.afterPrevious ? "true" : "false", "has banks of its own");
  if (r.bankExclusive.value_or(false) && !overlaps())
    return refuse("bank_exclusive", "true", withBase + ", where no kernel waits for another's buffers");
  if (r.afterPrevious && !overlaps())
    return refuse("after_previous", *r.afterPrevious ? "true" : "false",
                  withBase + ", where no kernel waits for another's buffers");
  if ((r.banks || r.afterPrevious) && onChip.banding)
    return refuseAs(r.banks ? "banks" : "after_previous", r.banks ? "the first of banks" : "after_previous",
                    r.banks ? std::to_string((*r.banks)[0]) : "given", "is in a fusion group, beside other kernels");
  for (auto [name, cut] : {std::pair("first_split", r.firstSplit), std::pair("last_split", r.lastSplit)}) {
    if (cut && !canCut())
      return refuse(
          name, llvm::formatv("[{0}, {1}]", cut->tiles, cut->positions).str(),
          "is no product of schedule pipelined or search beside others whose positions along x are rows of one matrix");
    if (cut && cut->positions > kernel.extent[P0])
      return refuseAs(name, llvm::formatv("positions of {0}", name).str(), cut->positions,
                      llvm::formatv("has {0} there", kernel.extent[P0]));
  }
  if (r.lastSplit && isKOuter(r.loopOrder) && !comesLateEnough(*r.lastSplit))
    return refuse("last_split", llvm::formatv("[{0}, {1}]", r.lastSplit->tiles, r.lastSplit->positions).str(),
                  "adds each block of input channels to all positions, and parts of so few would come to their sums too soon");
  if (r.sumLineBuffer.value_or(false) && !canKeepSums())
    return refuse(
        "sum_line_buffer", "true",
        "is no product of schedule pipelined or search beside others whose sums are seen by whole windows that share rows");
  if (r.maxLineBuffer.value_or(false) && !carried)
    return refuse(
        "max_line_buffer", "true",
        "is no product of schedule pipelined or search beside others with whole windows of sums, two of which share rows");
  if (r.smallFirstTile.value_or(false) && (!hasOpenEnds() || !constantWeights() || unpacked))
    return refuse("small_first_tile", "true",
                  "is no contraction with constant weights and unpacked taps that has a program of schedule pipelined or "
                  "search to itself");
  if (r.smallLastTile.value_or(false) && !hasOpenEnds())
    return refuse("small_last_tile", "true", "is no contraction that has a program of schedule pipelined or search to itself");
  if (r.wideStart.value_or(false)) {
    if (!isFirstOfArray())
      return refuse("wide_start", "true",
                    "is not the first contraction of a program of schedule pipelined or search, outside a fusion group");
    if (r.depth == 1)
      return refuse("wide_start", "true", "has depth 1, with one accumulator");
    if (r.singleAccumulator.value_or(false))
      return refuse("wide_start", "true", "has a single accumulator");
    if (isKOuter(r.loopOrder))
      return refuse("wide_start", "true",
                    std::string("has loop order ") + nameOf(*r.loopOrder) + "; with an accumulator for every tile");
    if (unpacked || kernel.anchor->ic <= std::max<int64_t>(r.tileK, machine.rows))
      return refuse("wide_start", "true",
                    llvm::formatv("has no more tiles of input channels ({0} of them)", kernel.anchor->ic));
  }
  if (r.lineBuffer > 1) {
    if (!overlaps())
      return refuse("line_buffer", r.lineBuffer, withBase + ", and only pipelined and search can do that");
    auto sharesRows = [&] {
      if (unpacked)
        return ((canKeepSums() && onChip.keepsSums) || packsOnChip()) && copiedRows(kernel, *unpacked, machine) > 0;
      if (!kernel.anchor || residentInput() || onChip.banding)
        return false;
      const WindowAxis &h = kernel.anchor->axes[1];
      return h.span(1) > h.stride &&
             (!contraction() || (kernel.anchor->pixels.count == 1 && onChip.hasNeighbours && kernel.anchor->groups == 1));
    };
    if (!sharesRows())
      return refuse("line_buffer", r.lineBuffer, "has no tiles whose windows share rows of an input in DRAM");
    if (r.depth == 1)
      return refuse("depth", r.depth, "has tiles that share rows and needs 2 or more");
  }
  if (r.arrayChannels.value_or(0) && !overlaps())
    return refuse("array_channels", *r.arrayChannels, withBase + ", and only pipelined and search can do that");
  if (r.arrayChannels.value_or(0) && !canUseBothEngines(kernel, machine))
    return refuse("array_channels", *r.arrayChannels,
                  "is no window of int8 channels, or of floats under --math finite, with constant weights, or machine '" +
                      machine.name + "' has no array of that type with as many rows and columns as lanes");
  if (r.arrayChannels.value_or(0) > channels())
    return refuse("array_channels", *r.arrayChannels, llvm::formatv("has {0} of them", channels()));
  if (r.singleLoader.value_or(false) && (!hasOpenEnds() || unpacked))
    return refuse("single_loader", "true",
                  "is no contraction with unpacked taps that has a program of schedule pipelined or search to itself");
  if (r.singleLoader.value_or(false) && machine.loadEngines == 1)
    return refuse("single_loader", "true", "has one load engine anyway");
  if (!contraction()) {
    const char *allowed = "has no contraction and cannot choose it";
    if (r.tileK)
      return refuse("tile_k", r.tileK, allowed);
    if (r.loopOrder)
      return refuse("loop_order", nameOf(*r.loopOrder), allowed);
    if (r.stationary)
      return refuse("stationary", nameOf(*r.stationary), allowed);
    if (r.singleAccumulator)
      return refuse("single_accumulator", *r.singleAccumulator ? "true" : "false", allowed);
    if (r.drainByBlock)
      return refuse("drain_by_block", *r.drainByBlock ? "true" : "false", allowed);
    if (r.serpentine)
      return refuse("serpentine", *r.serpentine ? "true" : "false", allowed);
  } else {
    const Anchor &a = *kernel.anchor;
    int64_t inputs = roundUp(a.ic, machine.rows);
    if (r.tileK && unpacked && r.tileK != a.ic)
      return refuse("tile_k", r.tileK, llvm::formatv("packs the channels of all its taps and needs {0}", a.ic));
    if (r.tileK && !unpacked && (r.tileK % machine.rows || r.tileK > inputs))
      return refuse("tile_k", r.tileK, llvm::formatv("allows multiples of {0} up to {1}", machine.rows, inputs));
    const bool inputsOuter = isKOuter(r.loopOrder);
    const std::string withOrder = std::string("has loop order ") + nameOf(r.loopOrder.value_or(LoopOrder()));
    if (inputsOuter && (a.groups > 1 || unpacked || a.ic <= machine.rows || r.tileK >= a.ic))
      return refuse("loop_order", nameOf(*r.loopOrder),
                    llvm::formatv("has no more tiles of input channels ({0} of them{1}{2})", a.ic,
                                  r.tileK ? llvm::formatv(", {0} a tile", r.tileK).str() : "",
                                  a.groups > 1 ? llvm::formatv(", {0} groups", a.groups).str() : ""));
    if (onChip.banding && (inputsOuter || r.singleAccumulator.value_or(false)))
      return refuse(inputsOuter ? "loop_order" : "single_accumulator", inputsOuter ? nameOf(*r.loopOrder) : "true",
                    "is in a fusion group, with two accumulators for its tiles");
    if (inputsOuter && r.stationary.value_or(Stationary::None) != Stationary::None)
      return refuse("stationary", nameOf(*r.stationary), withOrder + ", where no operand is stationary");
    if (inputsOuter && r.depth == 1)
      return refuse("depth", r.depth, withOrder + " and needs 2 or more");
    if (r.stationary.value_or(Stationary::None) != Stationary::None && r.depth == 1)
      return refuse("depth", r.depth, std::string("has stationary ") + nameOf(*r.stationary) + " and needs 2 or more");
    if (r.singleAccumulator.value_or(false)) {
      if (r.depth == 1)
        return refuse("depth", r.depth, "has a single accumulator and needs 2 or more");
      if (inputsOuter)
        return refuse("single_accumulator", "true", withOrder + "; with an accumulator for every tile");
      if (!overlaps())
        return refuse("single_accumulator", "true", withBase + ", and only pipelined and search can do that");
    }
    if (r.drainByBlock.value_or(false) && !r.singleAccumulator.value_or(false))
      return refuse("drain_by_block", "true", "has no single_accumulator");
    if (r.serpentine.value_or(false) && !overlaps())
      return refuse("serpentine", "true", withBase + ", and only pipelined and search can do that");
    if (!overlaps() && (inputsOuter || r.stationary.value_or(Stationary::None) != Stationary::None))
      return refuse(inputsOuter ? "loop_order" : "stationary", inputsOuter ? nameOf(*r.loopOrder) : nameOf(*r.stationary),
                    withBase + ", and only pipelined and search can do that");
  }
  if (schedule == Schedule::Serial && (r.depth > 1 || r.overlap.value_or(false)))
    return refuse(r.depth > 1 ? "depth" : "overlap", r.depth > 1 ? std::to_string(r.depth) : "true",
                  withBase + ", with one buffer and no overlap");
  if (r.overlap == false && overlaps())
    return refuse("overlap", "false", withBase + ", which always overlaps");
  if (r.overlap == false && r.depth > 1)
    return refuse("overlap", "false", "has depth " + std::to_string(r.depth));
  return llvm::Error::success();
}
