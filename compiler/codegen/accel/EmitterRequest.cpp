//===- EmitterRequest.cpp - Whether a request can be met -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Emitter.h"

#include "llvm/Support/FormatVariadic.h"

using namespace tw;
using namespace tw::accel;

bool Emitter::isAskedFor(const Tile &t) const {
  const TileRequest &r = kernel.request;
  return (!r.order || *r.order == t.channelsOuter + 2u * t.inputsOuter) && (!r.panel || *r.panel == t.panel) &&
         (!r.overlap || *r.overlap == t.overlap) && (!r.oneSum || *r.oneSum == t.oneSum);
}

llvm::Error Emitter::checkRequest() const {
  const TileRequest &r = kernel.request;
  auto refuse = [&](const std::string &place, const std::string &what, auto found, const std::string &allowed) {
    return llvm::createStringError(
        llvm::formatv("{0}{1} is {2} but kernel '{3}' {4}", placed(place), what, found, kernel.name, allowed).str());
  };
  const std::string withBase = "has base " + std::string(nameOf(schedule));
  const int64_t unit = channelUnit(), all = roundUp(channels(), unit);
  if (r.size[C] && (r.size[C] % unit || r.size[C] > all))
    return refuse(r.tileAt, "size of channels", r.size[C], llvm::formatv("allows multiples of {0} up to {1}", unit, all));
  if (r.size[C] && takesAllChannels() && r.size[C] != all)
    return refuse(
        r.tileAt, "size of channels", r.size[C],
        llvm::formatv("{0} all of them and needs {1}", packsRows() ? "has pixels side by side with" : "reduces over", all));
  for (unsigned axis = P0; axis < kAxes; ++axis) {
    const char *name = axis == P0 ? "size along x" : axis == P1 ? "size along y" : "size along n";
    const int64_t together = axis == P0 ? kernel.outputsPerVector : 1;
    if (r.size[axis] > kernel.extent[axis])
      return refuse(r.tileAt, name, r.size[axis] * together, llvm::formatv("has {0} there", kernel.extent[axis] * together));
    if (kernel.pool && axis != P2 && r.size[axis] && r.size[axis] != kernel.extent[axis])
      return refuse(r.tileAt, name, r.size[axis], llvm::formatv("sums over all positions and needs {0}", kernel.extent[axis]));
    if (const int64_t most = axis == P0 ? bandColumns() : bandRows(); axis != P2 && r.size[axis] > most)
      return refuse(r.tileAt, name, r.size[axis], llvm::formatv("has bands of {0}", most));
    if (r.size[axis] > 1 && kernel.anchor && kernel.anchor->batchAxis == axis)
      return refuse(r.tileAt, name, r.size[axis], "has weights of its own for each and needs 1");
  }
  if (r.banks && (*r.banks)[1] > int64_t(machine.scratchpads[0].banks))
    return refuse(r.buffersAt, "the end of banks", (*r.banks)[1],
                  llvm::formatv("has {0} of them in {1}", machine.scratchpads[0].banks, machine.scratchpads[0].name));
  if (r.banks && r.behind)
    return refuse(r.buffersAt, "behind", *r.behind ? "true" : "false", "has banks of its own");
  if (r.wholeBanks.value_or(false) && !overlaps())
    return refuse(r.buffersAt, "whole_banks", "true", withBase + ", where no kernel waits for another's buffers");
  if (r.behind && !overlaps())
    return refuse(r.buffersAt, "behind", *r.behind ? "true" : "false",
                  withBase + ", where no kernel waits for another's buffers");
  if ((r.banks || r.behind) && onChip.banding)
    return refuse(r.buffersAt, r.banks ? "the first of banks" : "behind", r.banks ? std::to_string((*r.banks)[0]) : "given",
                  "runs in bands, beside other kernels");
  for (auto [name, cut] : {std::pair("first", r.first), std::pair("last", r.last)}) {
    if (cut && !canCut())
      return refuse(r.tileAt, name, llvm::formatv("[{0}, {1}]", cut->tiles, cut->positions).str(),
                    "is no product of base pipelined or search beside others whose positions along x are rows of one matrix");
    if (cut && cut->positions > kernel.extent[P0])
      return refuse(r.tileAt, llvm::formatv("positions of {0}", name).str(), cut->positions,
                    llvm::formatv("has {0} there", kernel.extent[P0]));
  }
  if (r.last && r.order.value_or(0) >= 2 && !comesLateEnough(*r.last))
    return refuse(r.tileAt, "last", llvm::formatv("[{0}, {1}]", r.last->tiles, r.last->positions).str(),
                  "adds each block of input channels to all positions, and parts of so few would come to their sums too soon");
  if (r.keepsSums.value_or(false) && !canKeepSums())
    return refuse(
        r.buffersAt, "keeps_sums", "true",
        "is no product of base pipelined or search beside others whose sums are seen by whole windows that share rows");
  if (r.carriesMaxima.value_or(false) && !carried)
    return refuse(
        r.buffersAt, "carries_maxima", "true",
        "is no product of base pipelined or search beside others with whole windows of sums, two of which share rows");
  if (r.beginsSmall.value_or(false) && (!hasOpenEnds() || !constantWeights() || unpacked))
    return refuse(
        r.buffersAt, "begins_small", "true",
        "is no contraction with constant weights and unpacked taps that has a program of base pipelined or search to itself");
  if (r.endsSmall.value_or(false) && !hasOpenEnds())
    return refuse(r.buffersAt, "ends_small", "true",
                  "is no contraction that has a program of base pipelined or search to itself");
  if (r.beginsWide.value_or(false)) {
    if (!isFirstOfArray())
      return refuse(r.buffersAt, "begins_wide", "true",
                    "is not the first contraction of a program of base pipelined or search, out of bands");
    if (r.depth == 1)
      return refuse(r.buffersAt, "begins_wide", "true", "has depth 1, with one sum");
    if (r.oneSum.value_or(false))
      return refuse(r.buffersAt, "begins_wide", "true", "has one sum");
    if (r.order.value_or(0) >= 2)
      return refuse(r.buffersAt, "begins_wide", "true",
                    "has order " + std::string(kOrderNames[*r.order]) + ", with a sum for every tile");
    if (unpacked || kernel.anchor->ic <= std::max<int64_t>(r.ic, machine.rows))
      return refuse(r.buffersAt, "begins_wide", "true",
                    llvm::formatv("has no more tiles of input channels ({0} of them)", kernel.anchor->ic));
  }
  if (r.rolling > 1) {
    if (!overlaps())
      return refuse(r.buffersAt, "rolling", r.rolling, withBase + ", and only pipelined and search can do that");
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
      return refuse(r.buffersAt, "rolling", r.rolling, "has no tiles whose windows share rows of an input in DRAM");
    if (r.depth == 1)
      return refuse(r.buffersAt, "depth", r.depth, "has tiles that share rows and needs 2 or more");
  }
  if (r.arrayChannels.value_or(0) && !overlaps())
    return refuse(r.assignAt, "array_channels", *r.arrayChannels, withBase + ", and only pipelined and search can do that");
  if (r.arrayChannels.value_or(0) && !canUseBothEngines(kernel, machine))
    return refuse(r.assignAt, "array_channels", *r.arrayChannels,
                  "is no window of int8 channels, or of floats under --math finite, with constant weights, or machine '" +
                      machine.name + "' has no array of that type with as many rows and columns as lanes");
  if (r.arrayChannels.value_or(0) > channels())
    return refuse(r.assignAt, "array_channels", *r.arrayChannels, llvm::formatv("has {0} of them", channels()));
  if (r.oneLoader.value_or(false) && (!hasOpenEnds() || unpacked))
    return refuse(r.buffersAt, "one_loader", "true",
                  "is no contraction with unpacked taps that has a program of base pipelined or search to itself");
  if (r.oneLoader.value_or(false) && machine.loadEngines == 1)
    return refuse(r.buffersAt, "one_loader", "true", "has one load engine anyway");
  if (!contraction()) {
    const char *allowed = "has no contraction and cannot choose it";
    if (r.ic)
      return refuse(r.tileAt, "ic", r.ic, allowed);
    if (r.order)
      return refuse(r.tileAt, "order", kOrderNames[*r.order], allowed);
    if (r.panel)
      return refuse(r.buffersAt, "panel", kPanelNames[*r.panel], allowed);
    if (r.oneSum)
      return refuse(r.buffersAt, "one_sum", *r.oneSum ? "true" : "false", allowed);
    if (r.byBlock)
      return refuse(r.buffersAt, "by_block", *r.byBlock ? "true" : "false", allowed);
    if (r.serpentine)
      return refuse(r.buffersAt, "serpentine", *r.serpentine ? "true" : "false", allowed);
  } else {
    const Anchor &a = *kernel.anchor;
    int64_t inputs = roundUp(a.ic, machine.rows);
    if (r.ic && unpacked && r.ic != a.ic)
      return refuse(r.tileAt, "ic", r.ic, llvm::formatv("packs the channels of all its taps and needs {0}", a.ic));
    if (r.ic && !unpacked && (r.ic % machine.rows || r.ic > inputs))
      return refuse(r.tileAt, "ic", r.ic, llvm::formatv("allows multiples of {0} up to {1}", machine.rows, inputs));
    const bool inputsOuter = r.order.value_or(0) >= 2;
    const std::string withOrder = "has order " + std::string(kOrderNames[r.order.value_or(0)]);
    if (inputsOuter && (a.groups > 1 || unpacked || a.ic <= machine.rows || r.ic >= a.ic))
      return refuse(r.tileAt, "order", kOrderNames[*r.order],
                    llvm::formatv("has no more tiles of input channels ({0} of them{1}{2})", a.ic,
                                  r.ic ? llvm::formatv(", {0} a tile", r.ic).str() : "",
                                  a.groups > 1 ? llvm::formatv(", {0} groups", a.groups).str() : ""));
    if (onChip.banding && (inputsOuter || r.oneSum.value_or(false)))
      return refuse(inputsOuter ? r.tileAt : r.buffersAt, inputsOuter ? "order" : "one_sum",
                    inputsOuter ? kOrderNames[*r.order] : "true", "runs in bands, with two sums for its tiles");
    if (inputsOuter && r.panel.value_or(0))
      return refuse(r.buffersAt, "panel", kPanelNames[*r.panel], withOrder + ", without panels");
    if (inputsOuter && r.depth == 1)
      return refuse(r.buffersAt, "depth", r.depth, withOrder + " and needs 2 or more");
    if (r.panel.value_or(0) && r.depth == 1)
      return refuse(r.buffersAt, "depth", r.depth, "has panel " + std::string(kPanelNames[*r.panel]) + " and needs 2 or more");
    if (r.oneSum.value_or(false)) {
      if (r.depth == 1)
        return refuse(r.buffersAt, "depth", r.depth, "has one sum and needs 2 or more");
      if (inputsOuter)
        return refuse(r.buffersAt, "one_sum", "true", withOrder + ", with a sum for every tile");
      if (!overlaps())
        return refuse(r.buffersAt, "one_sum", "true", withBase + ", and only pipelined and search can do that");
    }
    if (r.byBlock.value_or(false) && !r.oneSum.value_or(false))
      return refuse(r.buffersAt, "by_block", "true", "is not asked to have one_sum");
    if (r.serpentine.value_or(false) && !overlaps())
      return refuse(r.buffersAt, "serpentine", "true", withBase + ", and only pipelined and search can do that");
    if (!overlaps() && (inputsOuter || r.panel.value_or(0)))
      return refuse(inputsOuter ? r.tileAt : r.buffersAt, inputsOuter ? "order" : "panel",
                    inputsOuter ? kOrderNames[*r.order] : kPanelNames[*r.panel],
                    withBase + ", and only pipelined and search can do that");
  }
  if (schedule == Schedule::Serial && (r.depth > 1 || r.overlap.value_or(false)))
    return refuse(r.buffersAt, r.depth > 1 ? "depth" : "overlap", r.depth > 1 ? std::to_string(r.depth) : "true",
                  withBase + ", with one buffer and no overlap");
  if (r.overlap == false && overlaps())
    return refuse(r.buffersAt, "overlap", "false", withBase + ", which always overlaps");
  if (r.overlap == false && r.depth > 1)
    return refuse(r.buffersAt, "overlap", "false", "has depth " + std::to_string(r.depth));
  return llvm::Error::success();
}
