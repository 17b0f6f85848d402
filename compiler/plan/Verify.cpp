//===- Verify.cpp - Whether kernels and a machine allow a plan -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/plan/Verify.h"

#include "llvm/Support/FormatVariadic.h"

using namespace tw;
using namespace tw::plan;
using accel::Anchor, accel::C, accel::P0, accel::P1, accel::P2;

namespace {
class KernelVerifier {
public:
  KernelVerifier(const accel::Kernel &kernel, const timing::MachineParams &machine, Schedule schedule,
                 std::vector<std::string> &problems)
      : kernel(kernel), plan(kernel.plan), machine(machine), schedule(schedule), problems(problems) {}

  void run() {
    if (!kernel.copies.empty())
      return;
    checkTile();
    checkPlaces();
    checkSchedule();
    checkEngine();
    checkLoader();
    isContraction() ? checkContraction() : checkOther();
  }

private:
  const accel::Kernel &kernel;
  const KernelPlan &plan;
  const timing::MachineParams &machine;
  const Schedule schedule;
  std::vector<std::string> &problems;

  bool isContraction() const { return kernel.anchor && kernel.anchor->kind == Anchor::Contraction; }
  bool isWindow() const { return kernel.anchor && kernel.anchor->kind == Anchor::Window; }
  bool overlaps() const { return overlapsKernels(schedule); }
  std::string withSchedule() const { return std::string("has schedule ") + nameOf(schedule); }

  template <typename Value> void refuse(const char *knob, const std::string &what, const Value &found, const std::string &why) {
    problems.push_back(
        llvm::formatv("{0}{1} is {2} but kernel '{3}' {4}", plan.placeOf({knob}), what, found, kernel.name, why));
  }
  void refuse(const char *knob, std::optional<bool> found, const std::string &why) {
    if (found)
      refuse(knob, knob, *found ? "true" : "false", why);
  }

  void checkTile() {
    const int64_t unit = isContraction() ? int64_t(machine.cols) : int64_t(machine.lanes);
    const int64_t channels = isContraction() ? kernel.anchor->oc : kernel.extent[C];
    const int64_t all = int64_t(llvm::divideCeil(channels, unit)) * unit;
    const bool packsPixels = isWindow() && kernel.anchor->pixels.count > 1;
    const bool reduces = llvm::any_of(kernel.steps, [](const accel::Step &step) { return step.reducesChannels; });
    if (plan.tile[C] % unit || plan.tile[C] > all)
      refuse("tile", "size of channels", plan.tile[C], llvm::formatv("allows multiples of {0} up to {1}", unit, all));
    else if (plan.tile[C] && (packsPixels || reduces) && plan.tile[C] != all)
      refuse(
          "tile", "size of channels", plan.tile[C],
          llvm::formatv("{0} all of them and needs {1}", packsPixels ? "has pixels side by side with" : "reduces over", all));
    for (unsigned axis : {P0, P1, P2}) {
      const char *name = axis == P0 ? "size along x" : axis == P1 ? "size along y" : "size along n";
      const int64_t size = plan.tile[axis], extent = kernel.extent[axis], together = axis == P0 ? kernel.outputsPerVector : 1;
      if (size > extent)
        refuse("tile", name, size * together, llvm::formatv("has {0} there", extent * together));
      else if (kernel.pool && axis != P2 && size && size != extent)
        refuse("tile", name, size, llvm::formatv("sums over all positions and needs {0}", extent));
      else if (size > 1 && kernel.anchor && kernel.anchor->batchAxis == axis)
        refuse("tile", name, size, "has weights of its own for each and needs 1");
    }
    for (auto [name, split] : {std::pair("first_split", plan.firstSplit), std::pair("last_split", plan.lastSplit)})
      if (split && split->positions > kernel.extent[P0])
        refuse(name, llvm::formatv("positions of {0}", name), split->positions,
               llvm::formatv("has {0} there", kernel.extent[P0]));
  }

  void checkPlaces() {
    const timing::MemoryParams &scratchpad = machine.scratchpads[0];
    if (plan.banks && (*plan.banks)[1] > int64_t(scratchpad.banks))
      refuse("banks", "the end of banks", (*plan.banks)[1],
             llvm::formatv("has {0} of them in {1}", scratchpad.banks, scratchpad.name));
    if (plan.banks)
      refuse("after_previous", plan.afterPrevious, "has banks of its own");
  }

  void checkEngine() {
    if (plan.arrayChannels && plan.engine == Engine::Tensor)
      refuse("array_channels", "array_channels", *plan.arrayChannels, "has engine tensor");
    else if (plan.arrayChannels.value_or(0) > kernel.extent[C])
      refuse("array_channels", "array_channels", *plan.arrayChannels, llvm::formatv("has {0} of them", kernel.extent[C]));
  }

  void checkLoader() {
    if (!kernel.anchor || kernel.anchor->weights < 0)
      refuse("first_loader", plan.firstLoader, "has no weights");
    else if (machine.loadEngines == 1)
      refuse("first_loader", plan.firstLoader, "runs on machine '" + machine.name + "', which has one load engine");
    else if (!overlaps())
      refuse("first_loader", plan.firstLoader, withSchedule() + ", and only pipelined and search can do that");
  }

  /// Knobs that only some schedules have.
  void checkSchedule() {
    const std::string only = withSchedule() + ", and only pipelined and search can do that";
    if (!overlaps()) {
      const std::string noWait = withSchedule() + ", where no kernel waits for another's buffers";
      if (plan.bankExclusive.value_or(false))
        refuse("bank_exclusive", plan.bankExclusive, noWait);
      refuse("after_previous", plan.afterPrevious, noWait);
      if (plan.lineBuffer > 1)
        refuse("line_buffer", "line_buffer", plan.lineBuffer, only);
      if (plan.arrayChannels.value_or(0))
        refuse("array_channels", "array_channels", *plan.arrayChannels, only);
    }
    if (plan.lineBuffer > 1 && plan.depth == 1)
      refuse("depth", "depth", plan.depth, "has tiles that share rows and needs 2 or more");
    if (schedule == Schedule::Serial && plan.depth > 1)
      refuse("depth", "depth", plan.depth, withSchedule() + ", with one buffer and no overlap");
    if (schedule == Schedule::Serial && plan.overlap.value_or(false))
      refuse("overlap", plan.overlap, withSchedule() + ", with one buffer and no overlap");
    if (plan.overlap == false && overlaps())
      refuse("overlap", plan.overlap, withSchedule() + ", which always overlaps");
    if (plan.overlap == false && plan.depth > 1)
      refuse("overlap", plan.overlap, "has depth " + std::to_string(plan.depth));
  }

  void checkOther() {
    const char *why = "has no contraction and cannot choose it";
    if (plan.tileK)
      refuse("tile_k", "tile_k", plan.tileK, why);
    if (plan.loopOrder)
      refuse("loop_order", "loop_order", nameOf(*plan.loopOrder), why);
    if (plan.stationary)
      refuse("stationary", "stationary", nameOf(*plan.stationary), why);
    refuse("single_accumulator", plan.singleAccumulator, why);
    refuse("drain_by_block", plan.drainByBlock, why);
    refuse("serpentine", plan.serpentine, why);
  }

  void checkContraction() {
    const bool isKOuter = plan.loopOrder && *plan.loopOrder >= LoopOrder::KOuter;
    const bool isStationary = plan.stationary.value_or(Stationary::None) != Stationary::None;
    const std::string withOrder = std::string("has loop order ") + nameOf(plan.loopOrder.value_or(LoopOrder()));
    const std::string only = withSchedule() + ", and only pipelined and search can do that";
    if (isKOuter && isStationary)
      refuse("stationary", "stationary", nameOf(*plan.stationary), withOrder + ", where no operand is stationary");
    if (isKOuter && plan.depth == 1)
      refuse("depth", "depth", plan.depth, withOrder + " and needs 2 or more");
    if (isStationary && plan.depth == 1)
      refuse("depth", "depth", plan.depth, std::string("has stationary ") + nameOf(*plan.stationary) + " and needs 2 or more");
    if (isKOuter && !overlaps())
      refuse("loop_order", "loop_order", nameOf(*plan.loopOrder), only);
    if (isStationary && !overlaps())
      refuse("stationary", "stationary", nameOf(*plan.stationary), only);
    if (plan.serpentine.value_or(false) && !overlaps())
      refuse("serpentine", plan.serpentine, only);
    if (plan.drainByBlock.value_or(false) && !plan.singleAccumulator.value_or(false))
      refuse("drain_by_block", plan.drainByBlock, "has no single_accumulator");
    if (!plan.singleAccumulator.value_or(false))
      return;
    if (plan.depth == 1)
      refuse("depth", "depth", plan.depth, "has a single accumulator and needs 2 or more");
    if (isKOuter)
      refuse("single_accumulator", plan.singleAccumulator, withOrder + "; with an accumulator for every tile");
    if (!overlaps())
      refuse("single_accumulator", plan.singleAccumulator, only);
  }
};
} // namespace

std::vector<std::string> plan::verify(const std::vector<accel::Kernel> &kernels, const timing::MachineParams &machine,
                                      Schedule schedule) {
  std::vector<std::string> problems;
  for (const accel::Kernel &kernel : kernels)
    KernelVerifier(kernel, machine, schedule, problems).run();
  return problems;
}
