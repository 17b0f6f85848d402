//===- EmitterRequest.cpp - Whether a request can be met -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Emitter.h"

#include "llvm/Support/FormatVariadic.h"

using namespace tw;
using namespace tw::accel;

llvm::Error Emitter::checkRequest() const {
  const KernelPlan &r = kernel.plan;
  auto refuseAs = [&](const char *knob, const std::string &what, auto found, const std::string &allowed) {
    return llvm::createStringError(
        llvm::formatv("{0}{1} is {2} but kernel '{3}' {4}", r.placeOf({knob}), what, found, kernel.name, allowed).str());
  };
  auto refuse = [&](const char *knob, auto found, const std::string &allowed) { return refuseAs(knob, knob, found, allowed); };
  for (unsigned axis : {P0, P1})
    if (const int64_t most = axis == P0 ? bandColumns() : bandRows(); r.tile[axis] > most)
      return refuseAs("tile", axis == P0 ? "size along x" : "size along y", r.tile[axis],
                      llvm::formatv("has row tiles of {0}", most));
  if ((r.banks || r.afterPrevious) && onChip.banding)
    return refuseAs(r.banks ? "banks" : "after_previous", r.banks ? "the first of banks" : "after_previous",
                    r.banks ? std::to_string((*r.banks)[0]) : "given", "is in a fusion group, beside other kernels");
  for (const KnobRule &rule : knobRules()) {
    if (!rule.whyNot || rule.isOf(*this) || Tile().meets(rule.knob, r))
      continue;
    KernelPlan asked;
    plan::TileKnobs::copy(rule.knob, r, asked);
    const std::string text = plan::print(asked); // "name = value"
    const auto [name, value] = llvm::StringRef(text).split(" = ");
    return refuse(name.str().c_str(), value.str(), rule.whyNot(*this));
  }
  if (r.lastSplit && isKOuter(r.loopOrder) && !comesLateEnough(*r.lastSplit))
    return refuse("last_split", llvm::formatv("[{0}, {1}]", r.lastSplit->tiles, r.lastSplit->positions).str(),
                  "adds each block of input channels to all positions, and parts of so few would come to their sums too soon");
  if (r.wideStart.value_or(false)) {
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
    auto sharesRows = [&] {
      if (unpacked)
        return (wanted.sumLineBuffer.value_or(false) || packsOnChip()) && copiedRows(kernel, *unpacked, machine) > 0;
      if (!kernel.anchor || residentInput() || onChip.banding)
        return false;
      const WindowAxis &h = kernel.anchor->axes[1];
      return h.span(1) > h.stride &&
             (!contraction() || (kernel.anchor->pixels.count == 1 && onChip.hasNeighbours && kernel.anchor->groups == 1));
    };
    if (!sharesRows())
      return refuse("line_buffer", r.lineBuffer, "has no tiles whose windows share rows of an input in DRAM");
  }
  if (!contraction())
    return llvm::Error::success();
  const Anchor &a = *kernel.anchor;
  const int64_t inputs = roundUp(a.ic, machine.rows);
  if (r.tileK && unpacked && r.tileK != a.ic)
    return refuse("tile_k", r.tileK, llvm::formatv("packs the channels of all its taps and needs {0}", a.ic));
  if (r.tileK && !unpacked && (r.tileK % machine.rows || r.tileK > inputs))
    return refuse("tile_k", r.tileK, llvm::formatv("allows multiples of {0} up to {1}", machine.rows, inputs));
  const bool isOuter = isKOuter(r.loopOrder);
  if (isOuter && (a.groups > 1 || unpacked || a.ic <= machine.rows || r.tileK >= a.ic))
    return refuse("loop_order", nameOf(*r.loopOrder),
                  llvm::formatv("has no more tiles of input channels ({0} of them{1}{2})", a.ic,
                                r.tileK ? llvm::formatv(", {0} a tile", r.tileK).str() : "",
                                a.groups > 1 ? llvm::formatv(", {0} groups", a.groups).str() : ""));
  if (onChip.banding && (isOuter || r.singleAccumulator.value_or(false)))
    return refuse(isOuter ? "loop_order" : "single_accumulator", isOuter ? nameOf(*r.loopOrder) : "true",
                  "is in a fusion group, with two accumulators for its tiles");
  return llvm::Error::success();
}
