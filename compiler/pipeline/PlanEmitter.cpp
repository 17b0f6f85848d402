//===- PlanEmitter.cpp - A plan to the steps of a network ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/PlanEmitter.h"

#include "compiler/codegen/accel/ChannelStreaming.h"
#include "compiler/cost/Constants.h"
#include "compiler/plan/Verify.h"
#include "compiler/schedule/Prefetch.h"
#include "compiler/schedule/Sequence.h"
#include "compiler/schedule/ValueFlow.h"
#include "compiler/text/Diagnostics.h"

#include "llvm/ADT/StringExtras.h"

using namespace tw;
using namespace tw::pipeline;
using accel::P0;

namespace {
/// Copies that nobody waits for go through the last banks of the first scratchpad, if there are so many of so many bytes: slots in all of it
/// would keep others out of their banks.
constexpr int64_t kBanksAside = 2, kLeastBanks = 8, kLeastBankBytes = 1024;
} // namespace

PlanEmitter::PlanEmitter(const NetworkKernels &network, const CompileOptions &options, accel::Rankings &rankings,
                         const plan::NetworkPlan &plan, NoGoods &noGoods)
    : network(network), options(options), machine(*options.machine), plan(plan), noGoods(noGoods),
      isFilled(network.tensors.size(), false) {
  program.costModel = options.costModel;
  program.rankings = &rankings;
  program.maxInstructions = options.maxInstructions;
  kernels.reserve(network.layers.size());
  for (size_t i = 0; i < network.layers.size(); ++i)
    planKernel(i);
  findCopiesAside();
}

void PlanEmitter::planKernel(size_t layer) {
  const Layer &source = network.layers[layer];
  const plan::KernelPlan &own = plan.kernels[layer];
  const bool packs = source.isWindow() ? *knobs.packWindows : *knobs.packContractions;
  if (own == source.kernel.plan) {
    isPacked.push_back(source.packed && own.pixelPacking.value_or(packs));
    kernels.push_back(isPacked.back() ? *source.packed : source.kernel);
    return;
  }
  accel::Kernel kernel = source.kernel;
  kernel.plan.take(own);
  if (const plan::KernelPlan key = own.kindKnobs(); key != source.kernel.plan.kindKnobs())
    kernel.kind += plan::print(key);
  llvm::Expected<std::optional<accel::Kernel>> packed = packKernel(kernel, options);
  if (!packed) {
    invalid = llvm::joinErrors(std::move(invalid), packed.takeError());
    packed = std::nullopt;
  }
  isPacked.push_back(*packed && own.pixelPacking.value_or(packs));
  kernels.push_back(isPacked.back() ? std::move(**packed) : std::move(kernel));
}

//===----------------------------------------------------------------------===//
// Scratchpad residency
//===----------------------------------------------------------------------===//

accel::NetworkUses PlanEmitter::describeUses() const {
  const size_t tensors = network.tensors.size();
  accel::NetworkUses uses;
  uses.knobs = knobs;
  uses.shapes = network.shapes;
  uses.alsoInDram = network.isOutput;
  uses.alone = noGoods.alone;
  uses.alone.resize(kernels.size(), false);
  uses.spare = noGoods.spare;
  for (size_t i = 0; i < kernels.size(); ++i) {
    uses.kernels.push_back(&kernels[i]);
    uses.tensorOf.push_back(network.layers[i].tensors);
  }
  uses.cycles = accel::cyclesAlone(uses.kernels, machine);
  uses.wanted.resize(tensors);
  uses.placedFirst.resize(tensors);
  uses.wantedBands.resize(tensors);
  uses.keptFrom.resize(tensors);
  uses.holdsMatrices.assign(tensors, *knobs.residentMatrices);
  return uses;
}

/// What the plan says of results. Kernels that write parts of one tensor must agree.
llvm::Error PlanEmitter::addWanted(accel::NetworkUses &uses) const {
  std::vector<const accel::Kernel *> wantedBy(network.tensors.size());
  for (size_t i = 0; i < kernels.size(); ++i) {
    const plan::KernelPlan &own = kernels[i].plan;
    const size_t tensor = network.layers[i].result();
    if (!own.onChip)
      continue;
    const accel::Kernel *other = wantedBy[tensor];
    if (other && (other->plan.onChip != own.onChip || other->plan.rowTile != own.rowTile))
      return llvm::createStringError("%skernels '%s' and '%s' write parts of one tensor and must agree on %s",
                                     own.placeOf({"on_chip", "row_tile"}).c_str(), other->name.c_str(), kernels[i].name.c_str(),
                                     other->plan.onChip != own.onChip ? "on_chip" : "row_tile");
    wantedBy[tensor] = &kernels[i];
    const bool isOnChip = *own.onChip;
    uses.wanted[tensor] = isOnChip && !own.rowTile; // not as a whole where it passes through in row tiles
    if (network.layers[i].kernel.plan.onChip)
      uses.holdsMatrices[tensor] = isOnChip;
    uses.placedFirst[tensor] = uses.placedFirst[tensor] || own.placedFirst.value_or(false);
    uses.wantedBands[tensor] = isOnChip ? own.rowTile : 0;
    uses.keptFrom[tensor] = isOnChip ? own.onChipFrom : 0;
  }
  return llvm::Error::success();
}

llvm::Expected<accel::Fusion> PlanEmitter::chooseOnChip() {
  if (invalid)
    return std::move(invalid);
  if (const std::vector<std::string> problems = plan::verify(kernels, machine, options.schedule); !problems.empty())
    return llvm::createStringError("%s", llvm::join(problems, "\n").c_str());
  if (!overlaps() || options.across != Across::All)
    return accel::Fusion();
  accel::NetworkUses uses = describeUses();
  if (llvm::Error error = addWanted(uses))
    return std::move(error);
  // A plan that asks for row tiles asks for those alone.
  const bool wantsGroups = llvm::any_of(uses.wantedBands, [](int64_t rows) { return rows > 0; });
  accel::Fusion chosen = knobs.fusion != plan::FusionRule::None || wantsGroups
                             ? accel::chooseGroups(uses, noGoods.groups, machine)
                             : accel::Fusion{{}, accel::chooseResidents(uses, machine), {}};
  std::vector<std::pair<size_t, std::string>> &refused = chosen.residency.refused;
  refused.insert(refused.begin(), chosen.refused.begin(), chosen.refused.end());
  for (const auto &[tensor, why] : refused)
    for (size_t i = 0; i < kernels.size(); ++i)
      if (kernels[i].plan.onChip && network.layers[i].result() == tensor)
        return llvm::createStringError("%sthe result of kernel '%s' cannot stay on chip: %s",
                                       kernels[i].plan.placeOf({"on_chip", "row_tile"}).c_str(), kernels[i].name.c_str(),
                                       why.c_str());
  return chosen;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

llvm::Expected<EmittedNetwork> PlanEmitter::emit(accel::Fusion chosen, double limit, bool isEstimate) {
  fusion = std::make_shared<const accel::Fusion>(std::move(chosen));
  placement = network.place(fusion->groups);
  program.nextAddress = placement.bytes;
  if (llvm::Error error = NetworkKernels::checkDram(placement.bytes, machine))
    return std::move(error);
  for (const auto &[tensor, bytes] : network.constants)
    program.constants.push_back({placement.addresses[tensor], bytes});
  for (uint32_t layer = 0; layer < kernels.size(); ++layer)
    if (llvm::Error error = emitLayer(layer))
      return std::move(error);
  program.choices.resize(kernels.size());
  program.tileBytes.resize(kernels.size());
  program.chosen.resize(kernels.size());
  EmittedNetwork emitted;
  if (llvm::Error error = orderSteps(limit, isEstimate, emitted.cycles))
    return std::move(error);
  emitted.chosen = {crossesKernels() ? knobs : plan::NetworkKnobs(), program.chosen};
  emitted.program = std::move(program);
  emitted.fusion = fusion;
  emitted.placement = std::move(placement);
  return emitted;
}

llvm::Error PlanEmitter::orderSteps(double limit, bool isEstimate, double &cycles) {
  if (overlaps() && options.across == Across::None) {
    program.tiles = schedule::inSequence(std::move(drained), machine);
  } else if (overlaps()) {
    if (knobs.weightPrefetch == plan::WeightPrefetch::Early)
      schedule::prefetch(program.steps, machine, machine.scratchpads[0].capacityBytes - uint64_t(noGoods.spare));
    const cost::CostModel &model = *options.costModel;
    const double scheduled = model.scheduleLimit(limit);
    cost::StepsWork work;
    if (options.priority) {
      Result<schedule::TileProgram> ordered =
          schedule::overlapBy(*options.priority, std::move(program.steps), machine, &work, scheduled, *knobs.bus);
      if (!ordered)
        return llvm::createStringError("priority '%s' is wrong: %s", options.priorityName.c_str(), ordered.message().c_str());
      program.tiles = std::move(*ordered);
    } else {
      program.tiles = schedule::overlap(std::move(program.steps), machine, &work, scheduled, *knobs.priority, *knobs.bus,
                                        /*backwards=*/!isEstimate);
    }
    cycles = cost::checked(model.cyclesOfSteps(work));
  }
  return llvm::Error::success();
}

std::vector<uint64_t> PlanEmitter::addressesOf(size_t layer) const {
  std::vector<uint64_t> addresses;
  for (auto [tensor, operand] : llvm::zip_equal(network.layers[layer].tensors, kernels[layer].tensors))
    addresses.push_back(operand.role == accel::KernelTensor::Constant ? 0 : placement.addresses[tensor]);
  return addresses;
}

PlanEmitter::Place PlanEmitter::placeOf(size_t layer) const {
  const plan::KernelPlan &own = kernels[layer].plan;
  Place place;
  if ((place.banks = own.banks))
    return place;
  place.isBehind = own.afterPrevious.value_or(!*knobs.buffersAtBottom);
  if (own.afterPrevious)
    return place;
  // What runs between the steps of the next kernels lies neither among their row tiles nor where they keep tensors.
  auto split = [&](size_t owner) {
    const std::vector<int64_t> &rooms = fusion->residency.room;
    const int64_t bank = int64_t(machine.scratchpads[0].bankBytes());
    const accel::Group *group = fusion->groupOf(unsigned(owner) + 1);
    int64_t room = int64_t(machine.scratchpads[0].capacityBytes), taken = 0;
    for (size_t other = owner; other < rooms.size() && other <= (group ? group->last() : owner + 1); ++other)
      room = std::min(room, rooms[other]);
    if (group)
      taken = (group->bytes + bank - 1) / bank;
    return std::pair(std::max(taken, int64_t(cost::kRoom * double(room / bank))), room / bank);
  };
  if (isInterleaved(layer)) {
    auto [at, end] = split(layer);
    place.banks = {at, end};
  } else if (layer && isInterleaved(layer - 1)) {
    place.banks = {0, split(layer - 1).first};
  }
  if (place.banks && (*place.banks)[0] >= (*place.banks)[1])
    place.banks.reset();
  if (place.banks)
    place.isBehind = true;
  return place;
}

std::string PlanEmitter::whyNotStreamed(size_t taker) const {
  if (!crossesKernels())
    return "that takes schedule pipelined or search, and layers that do not drain";
  auto reads = [&] {
    const accel::Kernel &kernel = kernels[taker];
    const size_t made = network.layers[taker - 1].result();
    return kernel.anchor && network.layers[taker].tensors[size_t(kernel.anchor->input.tensor)] == made;
  };
  if (taker == 0 || !reads())
    return "it does not read what that makes";
  if (streams(taker - 1) || streams(taker + 1))
    return "a kernel streams with one other";
  if (fusion->groupOf(unsigned(taker)) || fusion->groupOf(unsigned(taker) - 1))
    return "one of them is in a fusion group";
  return accel::whyNotStreamed(kernels[taker - 1], kernels[taker], network.tensors[network.layers[taker - 1].result()].bytes,
                               machine);
}

/// Splits of the positions that a search may want, whatever the tiles: beside vector kernels that take rows that this one makes, or make
/// those that it takes.
std::vector<accel::TileSplits> PlanEmitter::splitsOf(size_t layer) const {
  constexpr int64_t kTiles[] = {1, 2, 4, 6}, kParts = 3;
  const accel::Kernel &kernel = network.layers[layer].kernel;
  const int64_t all = kernel.extent[P0], parts = std::min(all / accel::preloadCycles(machine), kParts);
  std::vector<accel::TileSplits> splits;
  if (!crossesKernels() || !kernel.isProductOfRows() || parts < 2)
    return splits;
  auto reads = [&](size_t maker, size_t reader) {
    const accel::Kernel &by = network.layers[reader].kernel;
    const size_t made = network.layers[maker].result();
    const std::vector<size_t> &tensors = network.layers[reader].tensors;
    return by.anchor ? tensors[size_t(by.anchor->input.tensor)] == made : llvm::is_contained(tensors, made);
  };
  auto isVector = [&](size_t other) {
    return !network.layers[other].kernel.anchor && network.layers[other].kernel.hasRowsApart();
  };
  for (int64_t tiles : kTiles) {
    const plan::Split split{tiles, int64_t(llvm::alignTo(llvm::divideCeil(all, parts), 2))};
    if (layer && isVector(layer - 1) && reads(layer - 1, layer))
      splits.push_back({split, std::nullopt});
    if (layer + 1 < kernels.size() && isVector(layer + 1) && reads(layer, layer + 1))
      splits.push_back({std::nullopt, split});
  }
  return splits;
}

/// What does not depend on where tensors lie.
llvm::Error PlanEmitter::checkTurn(const Turn &turn) const {
  const accel::Kernel &kernel = *turn.kernel;
  if (turn.takes || turn.makes) {
    const size_t taker = turn.takes ? turn.layer : turn.layer + 1;
    if (std::string why = whyNotStreamed(taker); !why.empty())
      return llvm::createStringError("%skernel '%s' cannot take the channels of the one before as they are made: %s",
                                     kernels[taker].plan.placeOf({"channel_streaming"}).c_str(), kernels[taker].name.c_str(),
                                     why.c_str());
  }
  if (kernel.plan.onChip.value_or(false) && !overlaps())
    return llvm::createStringError("%sthe result of kernel '%s' cannot stay on chip: "
                                   "only schedules pipelined and search keep any, not %s",
                                   kernel.plan.placeOf({"on_chip"}).c_str(), kernel.name.c_str(), nameOf(options.schedule));
  if (kernel.plan.spreadSecondHalf.value_or(false) && !turn.canSpread) {
    const char *why = !overlaps()        ? "runs beside no other: only with schedule pipelined or search"
                      : turn.place.banks ? "does not run row by row"
                                         : "has no banks of its own";
    return llvm::createStringError("%sspread_second_half is true but kernel '%s' %s",
                                   kernel.plan.placeOf({"spread_second_half"}).c_str(), kernel.name.c_str(), why);
  }
  return llvm::Error::success();
}

/// Where the kernel finds its tensors on chip, and how the plan's knobs apply to it.
llvm::Error PlanEmitter::findOnChip(Turn &turn) {
  const accel::Kernel &kernel = *turn.kernel;
  const Layer &source = network.layers[turn.layer];
  const accel::Residency &residency = fusion->residency;
  accel::OnChip &onChip = turn.onChip;
  onChip.hasNeighbours = kernels.size() > 1 && options.across != Across::None;
  onChip.isFirst = !isArrayBusy || !onChip.hasNeighbours;
  isArrayBusy |= kernel.anchor && kernel.anchor->kind == accel::Anchor::Contraction;
  onChip.knobs = knobs;
  onChip.splits = splitsOf(turn.layer);
  onChip.room = int64_t(machine.scratchpads[0].capacityBytes) - noGoods.spare;
  if (overlaps())
    onChip.planes = network.planes[source.result()];
  if (turn.group) {
    onChip.banding = &turn.group->kernels[turn.layer - turn.group->first];
    onChip.storesResult = turn.layer == turn.group->last();
  }
  if (residency.tensors.empty())
    return llvm::Error::success();
  onChip.room = residency.room[turn.layer];
  for (auto [i, operand] : llvm::enumerate(kernel.tensors)) {
    const size_t tensor = source.tensors[i];
    const std::optional<accel::Resident> &resident = residency.tensors[tensor];
    onChip.tensors.push_back(operand.role != accel::KernelTensor::Constant && resident ? &*resident : nullptr);
    if (!onChip.tensors.back())
      continue;
    if (resident->from) {
      if (turn.keptFrom && turn.keptFrom != resident->from)
        return llvm::createStringError("%skernel '%s' reads and writes tensors that stay on chip from different positions on",
                                       kernel.plan.placeOf({"on_chip_from", "on_chip"}).c_str(), kernel.name.c_str());
      turn.keptFrom = resident->from;
    }
    if (operand.role == accel::KernelTensor::Result) {
      onChip.storesResult &= network.isOutput[tensor];
      onChip.fillsBorders = (resident->isPadded() || resident->isDense()) && !resident->takesPlace && !isFilled[tensor];
      isFilled[tensor] = true;
    }
  }
  return llvm::Error::success();
}

/// Layers of copies that no kernel waits for: the readers of the result, at least one, find its parts where they lie. Only those that would take
/// many banks from others: what is less than a bank lies in one anyway.
void PlanEmitter::findCopiesAside() {
  std::vector<bool> isRead(network.tensors.size()), isAwaited(network.tensors.size());
  for (size_t layer = 0; layer < kernels.size(); ++layer)
    for (auto [tensor, operand] : llvm::zip_equal(network.layers[layer].tensors, kernels[layer].tensors))
      if (operand.role == accel::KernelTensor::Argument)
        (operand.concatenation.parts.empty() ? isAwaited : isRead)[tensor] = true;
  for (size_t layer = 0; layer < kernels.size(); ++layer) {
    const size_t result = network.layers[layer].result();
    copiesAside.push_back(!kernels[layer].copies.empty() && isRead[result] && !isAwaited[result] &&
                          network.tensors[result].bytes > machine.scratchpads[0].bankBytes());
  }
}

/// The memory that the kernel's buffers may have.
void PlanEmitter::findRoom(Turn &turn) {
  const accel::Kernel &kernel = *turn.kernel;
  const accel::Residency &residency = fusion->residency;
  accel::OnChip &onChip = turn.onChip;
  const uint32_t layer = turn.layer;
  onChip.banks = turn.place.banks;
  const int64_t bank = int64_t(machine.scratchpads[0].bankBytes());
  const int64_t banks = std::min(onChip.room, int64_t(machine.scratchpads[0].capacityBytes)) / bank;
  if (crossesKernels() && copiesAside[layer] && banks >= kLeastBanks && bank >= kLeastBankBytes)
    onChip.banks = {banks - kBanksAside, banks};
  // Side by side, the parameters of the one have a place of their own behind the weights of the other.
  auto parametersBeside = [&](size_t other) {
    return other < kernels.size() && machine.scratchpads.size() > 1 && !kernels[other].anchor && placeOf(other).banks
               ? accel::parameterBytes(kernels[other], machine)
               : 0;
  };
  const int64_t weightBytes = int64_t(machine.scratchpads.back().capacityBytes);
  if (int64_t bytes = parametersBeside(layer + 1); bytes && turn.place.banks && kernel.anchor)
    onChip.weights = {0, std::max<int64_t>(weightBytes - bytes, 0)};
  if (int64_t bytes = parametersBeside(layer); bytes && layer && placeOf(layer - 1).banks && kernels[layer - 1].anchor)
    program.nextOnChip[1] = std::max<int64_t>(weightBytes - bytes, 0);
  // Where tensors stay on chip in the middle, the larger run beside them is as good as banks that are asked for.
  const bool isApart = turn.group || turn.takes || turn.makes || !kernel.copies.empty();
  const accel::Range gap = residency.gap.empty() || isApart ? accel::Range() : residency.gap[layer];
  turn.lowRoom = onChip.room;
  if (!gap.isEmpty() && !onChip.banks)
    onChip.banks = {gap.begin / bank, gap.end / bank};
  if (!gap.isEmpty() && (*onChip.banks)[0] * bank >= gap.begin && (*onChip.banks)[1] * bank <= gap.end)
    onChip.room = gap.end;
  if (!turn.takes && !turn.makes)
    return;
  // Tensors of either are there as long as both run.
  const size_t other = turn.takes ? layer - 1 : layer + 1, taker = std::max<size_t>(layer, other);
  const accel::StreamingShares shares = accel::streamingShares(kernels[taker - 1], kernels[taker], machine);
  onChip.streaming = turn.takes ? accel::Streaming::Taker : accel::Streaming::Maker;
  onChip.weights = turn.takes ? shares.takerWeights : shares.makerWeights;
  onChip.sums = turn.takes ? shares.takerSums : shares.makerSums;
  if (!residency.room.empty())
    onChip.room = std::min(onChip.room, residency.room[other]);
  const int64_t shared = onChip.room / bank;
  if (!onChip.banks && shared > 1)
    onChip.banks = turn.takes ? std::array<int64_t, 2>{shared / 2, shared} : std::array<int64_t, 2>{0, shared / 2};
}

llvm::Error PlanEmitter::emitLayer(uint32_t layer) {
  Turn turn{layer, &kernels[layer], {}, fusion->groupOf(layer), streams(layer), streams(layer + 1), {}, {}};
  const plan::KernelPlan &asked = network.layers[layer].kernel.plan;
  const bool hasProposedPlace = turn.group && ((kernels[layer].plan.banks && !asked.banks) ||
                                               (kernels[layer].plan.afterPrevious && !asked.afterPrevious));
  if (turn.takes || turn.makes || hasProposedPlace) {
    turn.own = kernels[layer];
    turn.kernel = &turn.own;
    if (hasProposedPlace) { // groups have their places
      turn.own.plan.banks = asked.banks;
      turn.own.plan.afterPrevious = asked.afterPrevious;
    }
  }
  turn.place = turn.group || !turn.kernel->copies.empty() ? Place() : placeOf(layer);
  turn.canSpread = overlaps() && turn.place.banks && !turn.kernel->anchor && !turn.kernel->pool && turn.kernel->extent[P0] > 1;
  if (llvm::Error error = checkTurn(turn))
    return error;
  if (turn.takes || turn.makes) {
    const size_t taker = turn.takes ? layer : layer + 1;
    accel::planStreamed(turn.own, accel::streamingShares(kernels[taker - 1], kernels[taker], machine), turn.takes, machine);
    (turn.takes ? streamMiddle : streamBegin) = program.steps.size();
  }
  if (llvm::Error error = findOnChip(turn))
    return error;
  if (turn.group && layer == turn.group->first)
    groupBegin = program.steps.size();
  findRoom(turn);
  if (llvm::Error error = emitTurn(turn))
    return error;
  if (turn.group && layer == turn.group->last()) {
    std::stable_sort(program.steps.begin() + long(groupBegin), program.steps.end(),
                     [isTurned = turn.group->hasRing()](const schedule::Step &a, const schedule::Step &b) {
                       return a.band != b.band ? a.band < b.band : isTurned && a.behind > b.behind;
                     });
    schedule::numberBySteps(program.steps, groupBegin);
  }
  if (turn.takes)
    accel::interleaveStreamed(program.steps, streamBegin, streamMiddle);
  if (overlaps() && options.across == Across::None) {
    drained.push_back(schedule::overlap(std::exchange(program.steps, {}), machine));
    program.nextOnChip = {};
  }
  record(turn);
  return llvm::Error::success();
}

/// In its banks; without them if no tile fits there and the banks are no demand.
llvm::Error PlanEmitter::emitTurn(Turn &turn) {
  const accel::Kernel &kernel = *turn.kernel;
  auto takePlace = [&](bool isBehind) {
    if (!isBehind)
      program.nextOnChip = {};
    // Before and behind a group, what its kernels have on chip comes last.
    for (const accel::Group &other : fusion->groups)
      if (turn.layer + 1 == other.first || turn.layer == other.last() + 1)
        program.nextOnChip[0] = std::max(program.nextOnChip[0], other.bytes);
  };
  text::DiagnosticText text(network.context());
  auto emitIt = [&] {
    const bool spreads = turn.onChip.banks && turn.canSpread && kernel.plan.spreadSecondHalf.value_or(false);
    if (turn.keptFrom || spreads)
      return emitParts(turn, spreads);
    return accel::emitKernel(kernel, machine, options.schedule, addressesOf(turn.layer), turn.onChip, turn.layer, program);
  };
  takePlace(turn.place.isBehind || turn.onChip.banks);
  const size_t steps = program.steps.size(), constants = program.constants.size();
  const uint64_t nextAddress = program.nextAddress, instructions = program.instructions;
  llvm::Error error = emitIt();
  if (error && turn.onChip.banks && !network.layers[turn.layer].kernel.plan.banks) {
    llvm::consumeError(std::move(error));
    program.steps.resize(steps); // without a first part that fitted
    program.constants.resize(constants);
    program.nextAddress = nextAddress;
    program.instructions = instructions;
    turn.onChip.banks.reset();
    turn.onChip.room = turn.lowRoom;
    takePlace(turn.place.isBehind);
    error = emitIt();
  }
  return error ? learn(std::move(error), turn, text.str()) : llvm::Error::success();
}

/// A kernel for whose tiles there is no room: what took the room is left out the next time.
llvm::Error PlanEmitter::learn(llvm::Error error, const Turn &turn, const std::string &details) {
  auto isAsked = [&](const accel::BandedTensor &tensor) {
    for (size_t i = 0; i < kernels.size(); ++i)
      if (kernels[i].plan.rowTile && network.layers[i].result() == tensor.tensor)
        return true;
    return false;
  };
  const int64_t capacity = int64_t(machine.scratchpads[0].capacityBytes) - noGoods.spare;
  if (turn.group && llvm::none_of(turn.group->tensors, isAsked)) {
    const std::pair<unsigned, unsigned> group(turn.group->first, turn.group->last());
    noGoods.isNew = !llvm::is_contained(noGoods.groups, group);
    noGoods.groups.push_back(group);
  } else if (turn.onChip.room < capacity && !turn.kernel->plan.banks) {
    noGoods.alone.resize(kernels.size(), false);
    noGoods.isNew = !noGoods.alone[turn.layer];
    noGoods.alone[turn.layer] = true;
  }
  if (details.empty())
    return error;
  return llvm::createStringError("%s\n%s", llvm::toString(std::move(error)).c_str(), details.c_str());
}

/// The knobs that the kernel's plan has, beyond those that emitKernel() has recorded.
void PlanEmitter::record(const Turn &turn) {
  const accel::Kernel &kernel = *turn.kernel;
  const Layer &source = network.layers[turn.layer];
  const accel::Residency &residency = fusion->residency;
  program.chosen.resize(turn.layer + 1);
  plan::KernelPlan &chosen = program.chosen[turn.layer];
  const bool isCopy = !kernel.copies.empty();
  if (overlaps() && options.across != Across::None && kernels.size() > 1 && !turn.group && !turn.onChip.banks && !isCopy)
    chosen.afterPrevious = turn.place.isBehind;
  if (*kernel.plan.under(knobs).bankExclusive && !isCopy)
    chosen.bankExclusive = true;
  if (turn.takes || (turn.layer && whyNotStreamed(turn.layer).empty() &&
                     accel::streamsInTime(kernels[turn.layer - 1], kernels[turn.layer],
                                          network.tensors[network.layers[turn.layer - 1].result()].bytes, machine)))
    chosen.channelStreaming = turn.takes;
  if (source.packed)
    chosen.pixelPacking = isPacked[turn.layer];
  if (overlaps() && kernel.anchor && kernel.anchor->weights >= 0 && machine.loadEngines > 1)
    chosen.firstLoader = kernel.plan.firstLoader.value_or(knobs.weightLoader == plan::WeightLoader::First);
  if (isCopy)
    return;
  const bool onArray = kernel.anchor && kernel.anchor->kind == accel::Anchor::Contraction;
  chosen.engine = onArray ? plan::Engine::Tensor : plan::Engine::Vector;
  if (!residency.tensors.empty()) {
    const std::optional<accel::Resident> &resident = residency.tensors[source.result()];
    chosen.onChip = resident.has_value();
    chosen.onChipFrom = resident ? resident->from : 0;
    if (resident && resident->placedFirst)
      chosen.placedFirst = true;
  }
  if (turn.onChip.banding && turn.onChip.banding->output) {
    chosen.onChip = true;
    chosen.rowTile = turn.group->rowsPerBand;
  }
}

/// A kernel whose halves have different room, or of whose tensors the second half stays on chip. What is chosen for the first part stands
/// for the kernel: it is what a plan file can ask for. The second part has tiles like it where they fit; what stays on chip may leave it
/// less room.
llvm::Error PlanEmitter::emitParts(const Turn &turn, bool spreads) {
  const accel::Kernel &kernel = *turn.kernel;
  const uint32_t layer = turn.layer;
  const int64_t at = turn.keptFrom ? turn.keptFrom : (kernel.extent[P0] + 1) / 2;
  const std::vector<uint64_t> addresses = addressesOf(layer);
  auto emitPart = [&](const accel::Kernel &part, const accel::OnChip &where) {
    return accel::emitKernel(part, machine, options.schedule, addresses, where, layer, program);
  };
  accel::OnChip first = turn.onChip, second = turn.onChip;
  for (const accel::Resident *&resident : first.tensors)
    if (resident && resident->from) {
      first.storesResult |= size_t(&resident - first.tensors.data()) == size_t(kernel.output.tensor);
      resident = nullptr;
    }
  if (llvm::Error error = emitPart(kernel.part(0, at), first))
    return error;
  const plan::KernelPlan chosen = program.chosen[layer];
  const std::string text = program.choices[layer];
  const uint64_t bytes = program.tileBytes[layer];
  accel::Kernel rest = kernel.part(at, kernel.extent[P0]);
  rest.plan = {};
  rest.plan.serpentine = kernel.plan.serpentine;
  rest.plan.bankExclusive = kernel.plan.bankExclusive;
  if (spreads)
    second.banks.reset();
  second.fillsBorders = false;
  accel::Kernel alike = rest;
  alike.plan.tile = chosen.tile;
  alike.plan.tileK = chosen.tileK;
  alike.plan.loopOrder = chosen.loopOrder;
  alike.plan.depth = chosen.depth;
  alike.plan.stationary = chosen.stationary;
  alike.kind += plan::print(alike.plan);
  llvm::Error error = emitPart(alike, second);
  if (error) {
    llvm::consumeError(std::move(error));
    error = emitPart(rest, second);
  }
  if (error)
    return error;
  program.chosen[layer] = chosen;
  program.choices[layer] = text;
  if (spreads) {
    program.chosen[layer].spreadSecondHalf = true;
    program.choices[layer] += ", the second half in all banks";
  }
  program.tileBytes[layer] = bytes;
  return llvm::Error::success();
}
