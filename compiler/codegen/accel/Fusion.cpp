//===- Fusion.cpp - Kernels side by side, a band of rows at a time ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Fusion.h"

#include "compiler/codegen/accel/Chain.h"
#include "compiler/codegen/accel/Emitter.h"
#include "compiler/cost/Constants.h"

#include "isa/timing/Dram.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

using namespace tw;
using namespace tw::accel;

Range BandedTensor::rowsOfRun(size_t run) const {
  const size_t first = run * bandsPerRun, end = std::min(first + bandsPerRun, bands.size());
  Range rows = bands[first];
  for (size_t band = first; band < end; ++band)
    rows.end = std::max(rows.end, bands[band].end);
  return rows;
}

int64_t BandedTensor::slotRows() const {
  int64_t rows = ring;
  for (size_t run = 0; !ring && run < runs(); ++run)
    rows = std::max(rows, rowsOfRun(run).size());
  return rows;
}

std::vector<std::pair<Range, int64_t>> BandedTensor::pieces(Range rows) const {
  if (!ring)
    return {{rows, 0}};
  std::vector<std::pair<Range, int64_t>> pieces;
  for (int64_t row = rows.begin, end; row < rows.end; row = end) {
    const int64_t place = placeOf(row);
    end = std::min(rows.end, row + ring - place);
    pieces.push_back({{row, end}, (place - (row - bands[0].begin)) * layout.rowBytes});
  }
  return pieces;
}

Resident BandedTensor::inRun(size_t run) const {
  Resident r = layout;
  r.address = slots[run % slots.size()] - rowsOfRun(run).begin * r.rowBytes;
  return r;
}

/// Each begins where the one before ends.
const BandedTensor *Group::outputOf(size_t i) const {
  auto it = llvm::partition_point(tensors, [&](const BandedTensor &t) { return t.reader <= i; });
  return it == tensors.end() || it->firstWriter > i ? nullptr : &*it;
}

const BandedTensor *Group::readBy(size_t i) const {
  auto it = llvm::partition_point(tensors, [&](const BandedTensor &t) { return t.reader < i; });
  return it == tensors.end() || it->reader != i ? nullptr : &*it;
}

const BandedTensor *Group::inputOf(size_t i) const {
  const BandedTensor *tensor = readBy(i);
  return tensor && tensor->addend < 0 ? tensor : nullptr;
}

const BandedTensor *Group::addendOf(size_t i) const {
  const BandedTensor *tensor = readBy(i);
  return tensor && tensor->addend >= 0 ? tensor : nullptr;
}

const Group *Fusion::groupOf(unsigned kernel) const {
  auto it = llvm::partition_point(groups, [&](const Group &group) { return group.last() < kernel; });
  return it == groups.end() || it->first > kernel ? nullptr : &*it;
}

bool Fusion::isSameChoice(const Fusion &other) const {
  auto isSameGroup = [](const Group &a, const Group &b) {
    return a.first == b.first && a.last() == b.last() && a.rowsPerBand == b.rowsPerBand;
  };
  auto isSameResident = [](const std::optional<Resident> &a, const std::optional<Resident> &b) {
    return a.has_value() == b.has_value() && (!a || a->address == b->address);
  };
  return std::equal(groups.begin(), groups.end(), other.groups.begin(), other.groups.end(), isSameGroup) &&
         llvm::equal(residency.tensors, other.residency.tensors, isSameResident);
}

namespace {
constexpr int64_t kAlignment = 256;   ///< of buffers: what rounding may cost each
constexpr int64_t kGoodPass = 64;     ///< positions that hide a preload well
constexpr int64_t kRoomForOthers = 8; ///< beside them, this part of the accumulator at least
constexpr int64_t kRing = -1;
/// Rows that a run holds for each that it shares with the next one, the most of them first, a ring before them; 0: no runs, but two
/// slots of a band each.
constexpr int64_t kRunLengths[] = {kRing, 8, 4, 2, 1, 0};
constexpr int64_t kLeastPerRun = 3; ///< bands: when a run ends, the last two are still to be read
constexpr int64_t kLineRoom = 5;    ///< quarters of a line of maxima, as the last strip may be narrower than its slot

/// Cycles that a group saves at most, and what it must save to be worth it.
struct Gain {
  double most = 0, least = 0;
};

bool isContraction(const Kernel &kernel) { return kernel.anchor && kernel.anchor->kind == Anchor::Contraction; }

class Fuser {
public:
  Fuser(const NetworkUses &uses, const std::vector<std::pair<unsigned, unsigned>> &banned, const timing::MachineParams &machine)
      : uses(uses), banned(banned), machine(machine), residents(uses, machine), whole(residents.choose()),
        capacity(int64_t(machine.scratchpads[0].capacityBytes) - uses.spare), shaped(rowsOfMatrices(uses.kernels, machine)) {
    for (auto [kernel, rows] : llvm::zip_equal(uses.kernels, shaped))
      kernels.push_back(rows ? &*rows : kernel);
    for (const Kernel *kernel : uses.kernels) {
      carried.push_back(carriedSums(*kernel, machine));
      arrayChannels.push_back(accel::arrayChannels(*kernel, machine));
    }
    for (const Kernel *kernel : kernels) {
      weightsOf.push_back(weightBytes(*kernel));
      parametersOf.push_back(parameterBytes(*kernel));
      hasPackedTaps.push_back(packsTaps(*kernel, machine));
      partsOf.push_back(int64_t(windowParts(*kernel).size()));
    }
  }
  Fusion run();

private:
  const NetworkUses &uses;
  const std::vector<std::pair<unsigned, unsigned>> &banned;
  const timing::MachineParams &machine;
  const double bytesPerCycle = std::min(dramBytesPerCycle(machine), machine.loadEngines *timing::loadBytesPerCycle(machine));
  const ResidentChooser residents;
  Residency whole; ///< what stays on chip without groups
  int64_t capacity;
  /// Those that make rows of matrices, as if these were the rows of one image that is one pixel wide, with a step for each instruction.
  std::vector<std::optional<Kernel>> shaped;
  std::vector<const Kernel *> kernels;          ///< in that form
  std::vector<int64_t> carried;                 ///< per kernel: carriedSums()
  std::vector<int64_t> weightsOf, parametersOf; ///< per kernel: bytes
  std::vector<bool> hasPackedTaps;              ///< per kernel
  std::vector<int64_t> partsOf;                 ///< per kernel: windowParts()
  std::vector<int64_t> arrayChannels;           ///< per kernel: arrayChannels()
  /// Per kernel: what it writes, if that can go on in bands.
  std::vector<std::optional<RowsBetween>> edges;

  static std::vector<std::optional<Kernel>> rowsOfMatrices(const std::vector<const Kernel *> &kernels,
                                                           const timing::MachineParams &machine);
  /// Of an image, or a matrix.
  int64_t rowsOfOne(unsigned k) const { return shaped[k] ? uses.kernels[k]->extent[P0] : kernels[k]->extent[P1]; }
  /// How many times weights of the size are used: each matrix may have its own.
  int64_t weightSets(unsigned k) const {
    return kernels[k]->anchor && kernels[k]->anchor->batchAxis ? kernels[k]->extent[P1] / rowsOfOne(k) : 1;
  }
  unsigned weightMemory() const { return machine.scratchpads.size() > 1 ? 1 : 0; }
  size_t outputOf(unsigned k) const { return uses.tensorOf[k][size_t(kernels[k]->output.tensor)]; }
  bool isAddend(unsigned k, int tensor, const Group *group) const {
    const BandedTensor *addend = group ? group->addendOf(k - group->first) : nullptr;
    return addend && addend->addend == tensor;
  }
  /// How its reader goes through the rows.
  WindowAxis rowsRead(const Group &group, const BandedTensor &tensor) const;
  bool isWhole(unsigned k, int tensor) const { return whole.tensors[uses.tensorOf[k][size_t(tensor)]].has_value(); }
  int64_t weightBytes(const Kernel &kernel) const;
  int64_t parameterBytes(const Kernel &kernel) const;
  /// Rows of sums that its windows find in the accumulator, if it keeps them.
  int64_t sharedSums(const Kernel &kernel) const {
    return kernel.plan.sumLineBuffer.value_or(*uses.knobs.sumLineBuffers) ? kernel.sharedSums() : 0;
  }
  /// Rows of sums that it need not make in bands of so many rows.
  int64_t sumsFound(unsigned k, const Banding *banding, int64_t rows) const {
    return !banding ? 0 : banding->maxLineBuffer ? carried[k] : banding->strips && rows == 1 ? sharedSums(*kernels[k]) : 0;
  }
  /// Blocks of channels of each row of its window that the array computes, on average and at most.
  int64_t blocksOf(unsigned k) const { return ceilDiv(kernels[k]->extent[C], machine.lanes); }
  double arrayBlocks(unsigned k) const { return double(blocksOf(k) * arrayChannels[k]) / double(kernels[k]->extent[C]); }
  int64_t mostArrayBlocks(unsigned k) const { return accel::mostArrayBlocks(*kernels[k], arrayChannels[k], blocksOf(k)); }
  int64_t sumsMade(const Kernel &kernel, int64_t rows, const Banding *banding) const;
  /// Bytes of a step of the kernel's own loop over `rows` of its result: what is streamed through scratchpad 0. Load engines that take
  /// turns need two slots each.
  int64_t streamBytes(unsigned k, const Group &group, int64_t rows, int64_t alignment, unsigned engines) const;
  /// Bytes of weights that may stay.
  int64_t weightLimit() const { return int64_t(machine.scratchpads[weightMemory()].capacityBytes) / (weightMemory() ? 2 : 4); }
  std::vector<unsigned> findAlike() const;
  bool cutRows(Group &group) const;
  bool layRuns(Group &group, int64_t length, bool largeGoRound) const;
  void placeSums(Group &group) const;
  std::array<int64_t, 2> leastBytes(unsigned k, bool goesOn) const;
  int64_t askedBeside(const Group &group) const;
  bool place(Group &group, std::string *why = nullptr) const;
  std::optional<Group> plan(unsigned first, unsigned last, int64_t rowsPerBand, std::string *why = nullptr) const;
  cost::EngineCycles cyclesOf(unsigned k, const Group *group) const;
  Gain mostGainOf(const Group &group) const;
  double costOf(const Group &group) const;
  std::vector<Reserved> reserve(const std::vector<Group> &groups) const;
  void settle(Fusion &fusion);
  bool isWanted(const Group &group) const { return rowsWanted(group.first) > 0; }
  int64_t rowsWanted(unsigned k) const { return outputOf(k) < uses.wantedBands.size() ? uses.wantedBands[outputOf(k)] : 0; }
  void takeWanted(Fusion &fusion) const;
};

std::vector<std::optional<Kernel>> Fuser::rowsOfMatrices(const std::vector<const Kernel *> &kernels,
                                                         const timing::MachineParams &machine) {
  std::vector<std::optional<Kernel>> all(kernels.size());
  for (auto [kernel, rows] : llvm::zip_equal(kernels, all)) {
    if (!kernel->makesMatrixRows())
      continue;
    rows = *kernel;
    rows->extent[P1] *= std::exchange(rows->extent[P0], 1);
    if (std::optional<Anchor> &anchor = rows->anchor) {
      anchor->axes[0] = {};
      anchor->axes[1].size = anchor->axes[1].inputSize = rows->extent[P1];
    }
    // A step for each instruction; one that has no form is refused, with a reason, when the kernel is emitted.
    if (kernel->steps.size() > 1 && kernel->steps[0].op) {
      mlir::ScopedDiagnosticHandler quiet(rows->steps[0].op.getContext(), [](mlir::Diagnostic &) { return mlir::success(); });
      (void)chainsOf(*rows, machine.vectorStages);
    }
  }
  return all;
}

int64_t Fuser::weightBytes(const Kernel &kernel) const {
  const Anchor *a = kernel.anchor ? &*kernel.anchor : nullptr;
  if (!a || a->weights < 0)
    return 0;
  int64_t taps = a->axes[0].kernel * a->axes[1].kernel, size = byteSize(a->weightType);
  if (a->kind == Anchor::Window)
    return taps * roundUp(kernel.extent[C], machine.lanes) * size;
  int64_t inputs = packsTaps(kernel, machine) ? roundUp(taps * a->ic, machine.rows) : taps * roundUp(a->ic, machine.rows);
  return a->groups * inputs * roundUp(a->oc, machine.cols) * size;
}

int64_t Fuser::parameterBytes(const Kernel &kernel) const {
  int64_t count = 0;
  for (const Step &step : kernel.steps)
    count += llvm::count_if(step.sources, [](const Source &source) { return source.kind == Source::Parameter; });
  return count * roundUp(kernel.extent[C], machine.lanes) * 4;
}

int64_t Fuser::streamBytes(unsigned k, const Group &group, int64_t rows, int64_t alignment, unsigned engines) const {
  const Kernel &kernel = *kernels[k];
  const Anchor *a = kernel.anchor ? &*kernel.anchor : nullptr;
  int64_t width = kernel.extent[P0], channels = roundUp(kernel.extent[C], machine.lanes), bytes = 0;
  auto add = [&](int64_t more) { bytes += 2 * roundUp(more, alignment); };
  if (a && !group.inputOf(k - group.first) && !isWhole(k, a->input.tensor)) {
    int64_t size = byteSize(a->inputType);
    Extent sums = kernel.sums({1, width, rows, 1});
    const Banding &banding = group.kernels[k - group.first];
    const int64_t found = sumsFound(k, &banding, rows);
    sums[P1] = std::max(found, sums[P1] - found);
    if (banding.maxLineBuffer)
      bytes += roundUp(width * channels / machine.lanes * machine.accumulatorRowBytes() * kLineRoom / 4, alignment);
    const int64_t row = a->axes[0].kernel * a->ic, column = a->axes[1].span(sums[P1]) * row;
    if (banding.copiedRows && rows == 1) { // a slot for each strip, and one more
      const int64_t columns = kernel.sums({1, ceilDiv(width, int64_t(banding.strips)), 1, 1})[P0];
      const int64_t loaded = std::max(a->axes[1].span(sharedSums(kernel)) * row, column - banding.copiedRows * row);
      for (unsigned part = 0; part < engines; ++part) {
        const int64_t plain = plainElements(*a, {1, ceilDiv(columns, engines), 1, 1}, loaded / row);
        const int64_t packed = ceilDiv(columns, engines) * loaded + machine.rows;
        add(((packsOnChip(kernel, *a) ? plain : packed) + machine.lanes) * byteSize(kernel.loadedType()));
      }
      bytes += (banding.strips + 1) * roundUp((columns * column + machine.rows + machine.lanes) * size, alignment);
    } else if (packsOnChip(kernel, *a)) {
      for (unsigned parts = std::min(machine.loadEngines, 2u), part = 0; part < parts; ++part)
        add((plainElements(*a, {1, ceilDiv(sums[P0], parts), 1, 1}, a->axes[1].span(sums[P1])) + machine.lanes) *
            byteSize(kernel.loadedType()));
      add((sums[P0] * column + machine.rows + machine.lanes) * size);
    } else if (kernel.conversion) {
      for (unsigned parts = std::min(machine.loadEngines, 2u), part = 0; part < parts; ++part)
        add((ceilDiv(sums[P0], parts) * column + machine.rows + machine.lanes) * byteSize(kernel.loadedType()));
      add((sums[P0] * column + machine.rows + machine.lanes) * size);
    } else if (packsTaps(kernel, machine))
      for (unsigned engine = 0; engine < engines; ++engine)
        add((sums[P0] * column + machine.rows) * size);
    else
      add(a->axes[1].span(sums[P1]) * a->axes[0].span(sums[P0]) *
          (a->kind == Anchor::Contraction ? roundUp(a->ic, machine.rows) : channels) * size);
  }
  const BandedTensor *input = group.inputOf(k - group.first);
  if (const int64_t parts = partsOf[k]; parts && !(input && input->ring))
    bytes += roundUp(rows * width * channels * parts * byteSize(partType(*a)), alignment);
  for (const Step &step : kernel.steps) {
    for (const Source &source : step.sources) {
      if (source.kind != Source::Tensor)
        continue;
      if (!isWhole(k, source.view.tensor) && !isAddend(k, source.view.tensor, &group))
        add(rows * width * (source.view.stride[C] ? channels : machine.lanes) * byteSize(source.type));
      else if (source.view.isPadded()) // a vector of zeros
        add(machine.lanes * byteSize(source.type));
    }
    if (&step != &kernel.steps.back())
      add(rows * width * (step.reducesChannels ? machine.lanes : channels) * byteSize(step.type) / 2); // one slot
  }
  if (!group.outputOf(k - group.first) && !isWhole(k, kernel.output.tensor))
    add(rows * width * channels * byteSize(kernel.outputType));
  return bytes;
}

WindowAxis Fuser::rowsRead(const Group &group, const BandedTensor &tensor) const {
  if (tensor.addend < 0)
    return kernels[group.first + tensor.reader]->anchor->axes[1];
  WindowAxis same;
  same.size = same.inputSize = tensor.rows;
  return same;
}

/// The rows of every kernel in every band, from the last kernel back. A band is a part of a matrix, or whole ones.
bool Fuser::cutRows(Group &group) const {
  const int64_t all = kernels[group.last()]->extent[P1];
  const int64_t one = rowsOfOne(group.last());
  for (int64_t row = 0, end = 0; row < all; row = end) {
    end = std::min(row + group.rowsPerBand, all);
    if (row / one != (end - 1) / one)
      end = end / one * one;
    group.kernels.back().rows.push_back({row, end});
  }
  for (BandedTensor &tensor : llvm::reverse(group.tensors)) {
    const WindowAxis w = rowsRead(group, tensor);
    int64_t done = 0, needed = 0; // rows made, and where the last band ends
    for (const Range &rows : group.kernels[tensor.reader].rows) {
      Range band{needed, needed};
      if (!rows.isEmpty())
        band = {rows.begin * w.stride - w.padLow, (rows.end - 1) * w.stride - w.padLow + (w.kernel - 1) * w.dilation + 1};
      needed = band.end;
      tensor.bands.push_back(band);
      Range made{std::max(done, band.begin), std::min(band.end, tensor.rows)};
      if (made.isEmpty())
        made = {done, done};
      done = made.end;
      for (size_t i = tensor.firstWriter; i < tensor.reader; ++i)
        group.kernels[i].rows.push_back(made);
    }
  }
  return group.kernels.back().rows.size() > 1;
}

/// Chooses how bands follow one another in memory and in time. Those that a window of the vector engine reads are written by that engine
/// too: it keeps nobody out of their banks, and they may be runs. Who waits for none of the next band's rows is a band behind: what is to
/// be read next is then there when its engine is free. False if runs of that length lose rows that are still to be read, and for rings
/// if there can be none. `largeGoRound`: windows that could be done in parts may read rings too.
bool Fuser::layRuns(Group &group, int64_t length, bool largeGoRound) const {
  bool hasRing = false;
  for (Banding &kernel : group.kernels)
    kernel.behind = 0;
  for (BandedTensor &tensor : group.tensors) {
    llvm::MutableArrayRef<Banding> writers(&group.kernels[tensor.firstWriter], tensor.reader - tensor.firstWriter);
    const WindowAxis window = rowsRead(group, tensor);
    const int64_t shared = window.span(1) - window.stride; // rows of two neighbouring bands
    const bool isRun = length && kernels[group.first + tensor.reader]->anchor->kind == Anchor::Window && shared > 0;
    const int64_t step = group.kernels[tensor.reader].rows[0].size() * window.stride;
    // A window of one row reads all rows of a ring. Packed taps are loaded again for each band: where that is more than twice, it had
    // better be taller.
    bool loadsAgain = false;
    for (size_t i = tensor.firstWriter; i < tensor.reader; ++i)
      if (const Kernel &writer = *uses.kernels[group.first + i]; packsTaps(writer, machine))
        loadsAgain |= writer.anchor->axes[1].span(step) > 2 * step * writer.anchor->axes[1].stride;
    const bool isRing = length == kRing && isRun && window.dilation == 1 && !loadsAgain &&
                        (largeGoRound || !partsOf[group.first + tensor.reader]) &&
                        llvm::all_of(group.kernels[tensor.reader].rows, [](const Range &rows) { return rows.size() == 1; });
    hasRing |= isRing;
    tensor.ring = isRing ? window.kernel : 0;
    const int64_t perShared = length == kRing ? kRunLengths[1] : length;
    tensor.bandsPerRun = isRing  ? tensor.bands.size()
                         : isRun ? size_t(std::max(ceilDiv(perShared * shared, step), kLeastPerRun))
                                 : 1;
    tensor.slots.assign(isRun ? 1 : 2, 0);
    if (tensor.arrayFrom)
      tensor.layout.blockBytes = tensor.slotRows() * tensor.layout.rowBytes;
    const size_t lead = isRun || shared <= 0;
    // All parts of a band are written in one turn.
    if (llvm::any_of(writers, [&](const Banding &writer) { return writer.behind != writers.front().behind; }))
      return false;
    group.kernels[tensor.reader].behind = writers.front().behind + uint32_t(lead);
    // With a band, its rows of padding are written, and rows that begin another run: not over one that is still to be read.
    llvm::SmallVector<Range, 64> rowsOfRun;
    for (size_t run = 0; !isRing && run < tensor.runs(); ++run)
      rowsOfRun.push_back(tensor.rowsOfRun(run));
    for (size_t band = 0; !isRing && band < tensor.bands.size(); ++band) {
      const int64_t end = tensor.bands[band].end > tensor.rows ? tensor.bands[band].end : writers.front().rows[band].end;
      for (size_t unread = band - std::min(band, lead); unread <= band; ++unread) {
        const size_t run = tensor.runOf(unread), next = run + tensor.slots.size();
        if (next >= rowsOfRun.size() || rowsOfRun[next].isEmpty())
          continue;
        const int64_t written = end - rowsOfRun[next].begin;
        if (written > 0 && written > tensor.bands[unread].begin - rowsOfRun[run].begin)
          return false;
      }
    }
  }
  return length != kRing || hasRing;
}

/// Kernels take turns at half of the accumulator where there are several. Sums that stay from band to band have a place of their own, in
/// as few strips as fit in banks of their own, or else anywhere.
void Fuser::placeSums(Group &group) const {
  const int64_t row = machine.accumulatorRowBytes(), all = int64_t(machine.accumulator.capacityBytes);
  const int64_t bank = int64_t(machine.accumulator.bankBytes());
  int64_t kept = 0;
  unsigned others = 0;
  auto usesArray = [&](size_t i) {
    const unsigned k = group.first + unsigned(i);
    return isContraction(*kernels[k]) || mostArrayBlocks(k);
  };
  for (auto [i, banding] : llvm::enumerate(group.kernels)) {
    const Kernel &kernel = *kernels[group.first + i];
    banding.own[Banding::Sums] = {0, all};
    banding.strips = 0;
    banding.copiedRows = 0;
    for (int64_t unit : {bank, row})
      for (unsigned strips = 2; strips <= cost::kMostStrips && sharedSums(kernel) && !banding.strips; ++strips) {
        const int64_t columns = kernel.window(P0).span(ceilDiv(kernel.extent[P0], strips));
        const int64_t sums = kernel.window(P1).kernel * columns * ceilDiv(kernel.extent[C], machine.cols);
        const int64_t begin = roundUp(kept, unit), end = begin + strips * roundUp(sums * row, unit);
        if (end > all - all / kRoomForOthers)
          continue;
        banding.own[Banding::Sums] = {begin, kept = end};
        banding.strips = strips;
        banding.copiedRows = copiedRows(kernel, *kernel.anchor, machine);
      }
    banding.maxLineBuffer =
        carried[group.first + i] && !banding.strips && kernel.plan.maxLineBuffer.value_or(group.maxLineBuffers);
    others += usesArray(i) && !banding.strips;
  }
  const int64_t half = kept + (all - kept) / row / 2 * row;
  unsigned turn = 0;
  for (auto [i, banding] : llvm::enumerate(group.kernels))
    if (usesArray(i) && !banding.strips)
      banding.own[Banding::Sums] = others == 1 ? Range{kept, all} : turn++ % 2 ? Range{half, all} : Range{kept, half};
}

/// Bytes of the tensors that are asked for as a whole while the group runs.
int64_t Fuser::askedBeside(const Group &group) const {
  int64_t bytes = 0;
  for (size_t t = 0; t < std::min(uses.wanted.size(), whole.tensors.size()); ++t) {
    if (uses.wanted[t] != true || !whole.tensors[t] ||
        llvm::any_of(group.tensors, [&](const BandedTensor &b) { return b.tensor == t; }))
      continue;
    auto isUsed = [&](unsigned k) { return llvm::is_contained(uses.tensorOf[k], t); };
    const auto all = llvm::seq<unsigned>(0, unsigned(uses.tensorOf.size()));
    if (llvm::any_of(all, [&](unsigned k) { return k <= group.last() && isUsed(k); }) &&
        llvm::any_of(all, [&](unsigned k) { return k >= group.first && isUsed(k); }))
      bytes += roundUp(whole.tensors[t]->bytes, int64_t(machine.scratchpads[0].bankBytes()));
  }
  return bytes;
}

/// What a kernel of a group, and its result if that goes on in bands, take of scratchpad 0 and of that for weights at least: no longer group
/// takes less.
std::array<int64_t, 2> Fuser::leastBytes(unsigned k, bool goesOn) const {
  std::array<int64_t, 2> bytes{};
  bytes[weightMemory()] += std::min(weightsOf[k], weightLimit()) + parametersOf[k];
  if (goesOn && edges[k] && edges[k]->firstWriter == k && edges[k]->reader == k + 1) {
    // Windows may find their rows in a run, all others in two slots of a band each.
    const Anchor &anchor = *kernels[k + 1]->anchor;
    const int64_t rows = edges[k]->addend >= 0 ? 2 : anchor.kind == Anchor::Contraction ? 2 * anchor.axes[1].span(1) : 1;
    bytes[0] += rows * edges[k]->layout.rowBytes;
  }
  return bytes;
}

/// Gives bands and buffers their places.
bool Fuser::place(Group &group, std::string *why) const {
  const unsigned wm = weightMemory();
  const Kernel *before = group.first ? kernels[group.first - 1] : nullptr;
  const bool isShared =
      uses.knobs.priority == plan::Priority::Interleaved && before && !before->anchor && before->copies.empty();
  const int64_t room = std::min(int64_t((isShared ? cost::kGroupRoomBeside : cost::kGroupRoom) * double(capacity)),
                                capacity - askedBeside(group));
  placeSums(group);
  std::vector<int64_t> mostRows; // of a band
  for (const Banding &kernel : group.kernels) {
    mostRows.push_back(0);
    for (const Range &rows : kernel.rows)
      mostRows.back() = std::max(mostRows.back(), rows.size());
  }
  std::vector<int64_t> slotBytes(group.tensors.size(), 0); // as layRuns() has them
  auto placeAll = [&](Group::Banks banks, bool isRoomy, unsigned engines) {
    std::array<int64_t, 2> at{};
    auto alignment = [&](unsigned memory, bool ownBanks) {
      return ownBanks ? int64_t(machine.scratchpads[memory].bankBytes()) : kAlignment;
    };
    auto align = [&](unsigned memory) { at[memory] = roundUp(at[memory], alignment(memory, banks != Group::Banks::Shared)); };
    for (auto [tensor, bytes] : llvm::zip_equal(group.tensors, slotBytes)) {
      align(0);
      for (int64_t &slot : tensor.slots) {
        // The vector engine writes the one while the array reads the other.
        if (tensor.addend < 0 && isContraction(*kernels[group.first + tensor.reader]))
          align(0);
        slot = at[0] = roundUp(at[0], kAlignment);
        if (const int64_t before = tensor.arrayFrom * tensor.layout.blockBytes; before && banks != Group::Banks::Shared)
          slot = at[0] = roundUp(at[0] + before, alignment(0, true)) - before;
        at[0] += bytes;
      }
    }
    for (size_t i = 0; i < group.kernels.size(); ++i) {
      const unsigned k = group.first + unsigned(i);
      const Kernel &kernel = *kernels[k];
      int64_t most = mostRows[i];
      if (!isRoomy)
        most = std::min(most, ceilDiv(kGoodPass, kernel.extent[P0]));
      align(0);
      // What one step leaves to the next is read and written at the same time.
      const bool copies = group.kernels[i].copiedRows && most == 1, hasSteps = kernel.steps.size() > 1 || copies;
      const bool slotsOwnBanks = banks == Group::Banks::Own || (banks == Group::Banks::OfKernel && hasSteps);
      int64_t bytes = streamBytes(k, group, most, alignment(0, slotsOwnBanks), engines);
      group.kernels[i].own[Banding::Streams] = {at[0], at[0] + bytes};
      group.kernels[i].loadsWhole = copies && engines == 1;
      at[0] += bytes;
    }
    for (Banding::Use use : {Banding::Weights, Banding::Parameters}) {
      align(wm);
      for (size_t i = 0; i < group.kernels.size(); ++i) {
        const Kernel &kernel = *kernels[group.first + i];
        // Those of the next matrix come while these are used. Weights that are too many to stay leave half of their memory to the others.
        int64_t weights = weightsOf[group.first + i] * std::min<int64_t>(weightSets(group.first + unsigned(i)), 2);
        if (const BandedTensor *input = group.inputOf(i); input && input->ring) // Emitter::windowWeights()
          weights = weights / input->ring * (2 * input->ring - 1);
        weights = std::min(weights, weightLimit());
        int64_t bytes = (use == Banding::Weights) == isContraction(kernel) ? weights : 0;
        if (use == Banding::Parameters)
          bytes += parametersOf[group.first + i];
        else if (const int64_t most = mostArrayBlocks(group.first + unsigned(i))) { // squares for each tap; in a ring as above
          const WindowAxis &w = kernel.anchor->axes[0], &h = kernel.anchor->axes[1];
          const BandedTensor *input = group.inputOf(i);
          bytes += most * w.kernel * (input && input->ring ? 2 * h.kernel - 1 : h.kernel) * machine.rows * machine.cols *
                   byteSize(kernel.anchor->inputType);
        }
        bytes = bytes ? roundUp(bytes, kAlignment) + 2 * kAlignment : 0;
        group.kernels[i].own[use] = {at[wm], at[wm] + bytes};
        at[wm] += bytes;
      }
    }
    align(0);
    group.bytes = at[0];
    group.banks = banks;
    return at[0] <= room && (!wm || at[1] <= int64_t(machine.scratchpads[1].capacityBytes));
  };
  // What makes no difference is tried once: runs of windows, rows that a step need not hold, engines that share taps.
  auto readsWindows = [&](const BandedTensor &tensor) {
    return tensor.addend < 0 && kernels[group.first + tensor.reader]->anchor->kind == Anchor::Window;
  };
  const bool hasRuns = llvm::any_of(group.tensors, readsWindows);
  bool hasTaps = false, hasRoomy = false;
  for (size_t i = 0; i < group.kernels.size(); ++i) {
    hasTaps |= hasPackedTaps[group.first + i] || group.kernels[i].copiedRows;
    hasRoomy |= mostRows[i] > ceilDiv(kGoodPass, kernels[group.first + i]->extent[P0]);
  }
  const llvm::ArrayRef<int64_t> lengths = hasRuns ? llvm::ArrayRef(kRunLengths) : llvm::ArrayRef(kRunLengths).take_back();
  bool areThere = false; // all rows, as long as they are needed
  auto placeRuns = [&](bool largeGoRound) {
    std::array<bool, std::size(kRunLengths)> losesRows{};
    for (Group::Banks banks : {Group::Banks::Own, Group::Banks::OfKernel, Group::Banks::Shared})
      for (auto [length, loses] : llvm::zip(lengths, losesRows)) {
        if (loses || (loses = !layRuns(group, length, largeGoRound)))
          continue;
        areThere = true;
        for (auto [tensor, bytes] : llvm::zip_equal(group.tensors, slotBytes))
          bytes = tensor.slotBytes();
        for (bool isRoomy : {true, false})
          for (unsigned engines = isRoomy && hasTaps ? std::min(machine.loadEngines, 2u) : 1; engines > 0; --engines)
            if ((isRoomy || hasRoomy) && placeAll(banks, isRoomy, engines))
              return true;
      }
    return false;
  };
  // Large windows are sooner done in parts, which read no ring; but that takes less room.
  auto isLarge = [&](size_t i) { return partsOf[group.first + i] > 0; };
  if (placeRuns(false) || (llvm::any_of(llvm::seq(group.kernels.size()), isLarge) && placeRuns(true)))
    return true;
  if (why && !areThere)
    *why = "a row belongs to more than two row tiles of " + std::to_string(group.rowsPerBand) + " rows";
  else if (why)
    *why = "row tiles of " + std::to_string(group.rowsPerBand) + " rows and the buffers beside them take " +
           std::to_string(group.bytes) + " bytes of " + machine.scratchpads[0].name + ", which has " + std::to_string(room) +
           " for them";
  return false;
}

std::optional<Group> Fuser::plan(unsigned first, unsigned last, int64_t rowsPerBand, std::string *why) const {
  Group group;
  group.first = first;
  group.rowsPerBand = rowsPerBand;
  group.kernels.resize(last - first + 1);
  for (unsigned k = first; k < last; k = edges[k]->reader) {
    BandedTensor tensor;
    tensor.tensor = outputOf(k);
    tensor.firstWriter = k - first;
    tensor.reader = edges[k]->reader - first;
    tensor.addend = edges[k]->addend;
    tensor.layout = edges[k]->layout;
    tensor.rows = tensor.layout.rows;
    tensor.layout.padLow[1] = tensor.layout.padHigh[1] = 0;
    if (const int64_t most = mostArrayBlocks(edges[k]->reader); tensor.addend < 0 && most && most < tensor.layout.blocks()) {
      tensor.arrayFrom = tensor.layout.blocks() - most;
      tensor.layout.isPlanar = true;
      tensor.layout.rowBytes /= tensor.layout.blocks();
      tensor.layout.pixelBytes /= tensor.layout.blocks();
    }
    group.tensors.push_back(std::move(tensor));
  }
  if (!cutRows(group)) {
    if (why)
      *why = "row tiles of " + std::to_string(rowsPerBand) + " rows are not two or more";
    return std::nullopt;
  }
  // A row of maxima takes room, and where that is scarce buffers share banks.
  std::optional<Group> best;
  auto hasLineBuffer = [](const Banding &banding) { return banding.maxLineBuffer; };
  for (bool maxLineBuffers : {false, true}) {
    group.maxLineBuffers = maxLineBuffers;
    if ((maxLineBuffers && !*uses.knobs.maxLineBuffers) || !place(group, why) ||
        (maxLineBuffers && llvm::none_of(group.kernels, hasLineBuffer)))
      continue;
    if (!best || mostGainOf(group).most > mostGainOf(*best).most)
      best = group;
  }
  return best;
}

/// Sums of a block of columns for `rows` rows of the result. Tiles of windows make again what they share; they are about as high as
/// wide where the rows allow it; where sums are kept, and all rows follow one another or it goes on from band to band, one row high. Where
/// maxima are carried from band to band, rows are made once.
int64_t Fuser::sumsMade(const Kernel &kernel, int64_t rows, const Banding *banding) const {
  const int64_t width = kernel.extent[P0], positions = width * rows * kernel.extent[P2];
  if (!kernel.maxima || !rows)
    return positions;
  const auto &[w, h] = *kernel.maxima;
  const int64_t held = int64_t(machine.accumulatorRows()) / 2;
  auto fitting = [](const WindowAxis &axis, int64_t sums, int64_t most) {
    return std::clamp<int64_t>((sums - axis.kernel) / axis.stride + 1, 1, most);
  };
  const int64_t high = fitting(h, int64_t(std::sqrt(double(held))), rows), wide = fitting(w, held / h.span(high), width);
  const double again = double(positions) * double(h.span(high) * w.span(wide)) / double(high * wide);
  if (banding && banding->maxLineBuffer)
    return int64_t(double(positions * h.stride * w.span(wide)) / double(wide));
  const bool goesOn = banding && banding->strips;
  const int64_t shared = sharedSums(kernel);
  if (!shared || (!goesOn && rows < kernel.extent[P1]))
    return int64_t(again);
  const int64_t strip = fitting(w, held / h.kernel, width), sumRows = rows * h.stride + (goesOn ? 0 : shared);
  return int64_t(std::min(again, double(sumRows * kernel.extent[P2] * width * w.span(strip)) / double(strip)));
}

/// What the engines and the DRAM have to do for a kernel, in a group or on its own.
cost::EngineCycles Fuser::cyclesOf(unsigned k, const Group *group) const {
  const Kernel &kernel = *kernels[k];
  const Banding *banding = group ? &group->kernels[k - group->first] : nullptr;
  const BandedTensor *input = group ? group->inputOf(k - group->first) : nullptr;
  const BandedTensor *output = group ? group->outputOf(k - group->first) : nullptr;
  const Anchor *a = kernel.anchor ? &*kernel.anchor : nullptr;
  const int64_t lanes = machine.lanes, width = kernel.extent[P0], blocks = ceilDiv(kernel.extent[C], lanes);
  cost::EngineCycles cycles;
  double positions = double(width * kernel.extent[P1] * kernel.extent[P2]);
  std::vector<Range> bands = banding ? banding->rows : std::vector<Range>{{0, kernel.extent[P1]}};
  double loads = 0, rereads = 0;
  auto addTensor = [&](int tensor, bool isBanded, int64_t bytes) {
    if (!isBanded && !isWhole(k, tensor))
      loads += double(bytes);
  };
  int64_t weights = weightsOf[k];
  double passes = 0;
  if (a && a->kind == Anchor::Contraction) {
    int64_t taps = a->axes[0].kernel * a->axes[1].kernel;
    bool isPacked = packsTaps(kernel, machine) && !input;
    passes = double(a->groups * ceilDiv(a->oc, machine.cols)) *
             double(isPacked ? ceilDiv(taps * a->ic, machine.rows) : taps * ceilDiv(a->ic, machine.rows));
    // Tiles that the accumulator holds twice: of few channels, where they are of many positions.
    const int64_t most = int64_t(machine.accumulatorRows()) / 2;
    const double least = double(preloadCycles(machine));
    for (const Range &rows : bands) {
      int64_t left = sumsMade(kernel, rows.size(), banding);
      for (int64_t part; left > 0; left -= part) {
        part = std::min(left, most);
        const int64_t tiles = ceilDiv(part * ceilDiv(a->oc, machine.cols), most);
        cycles.array += passes * std::max(double(part), least) + 2 * cost::kVisit * double(tiles);
      }
    }
    if (weights > weightLimit())
      rereads = double(bands.size() - 1);
  }
  loads += double(weights * weightSets(k)) * (1 + rereads) + double(parametersOf[k]);
  if (a) {
    int64_t pixels = a->axes[0].inputSize * a->axes[2].inputSize, rows = 0; // rows that bands share are loaded for each
    for (const Range &band : bands) {
      const int64_t sums = kernel.sums({1, 1, band.size(), 1})[P1] - sumsFound(k, banding, band.size());
      const bool keeps = banding && banding->strips && band.size() == 1;
      rows += std::min(a->axes[1].span(sums) - (keeps ? banding->copiedRows : 0), a->axes[1].inputSize);
    }
    pixels *= group ? rows : a->axes[1].inputSize;
    addTensor(a->input.tensor, input,
              pixels * (a->kind == Anchor::Contraction ? a->ic * a->groups : kernel.extent[C]) * byteSize(kernel.loadedType()));
  }
  const size_t count = std::max<size_t>(kernel.steps.size(), 1);
  double last = 0;
  for (size_t i = 0; i < count; ++i) {
    last = double(blocks);
    if (i == 0 && a && (a->kind == Anchor::Window || kernel.maxima)) {
      const WindowAxis &w = kernel.window(P0), &h = kernel.window(P1);
      const int64_t columns = newColumns(w, h);
      last *= double(h.kernel * columns);
      if (const double onArray = arrayBlocks(k)) {
        const double perBlock = last / double(blocks), taps = double(w.kernel * h.kernel);
        last += onArray * (1 - perBlock);
        for (const Range &rows : bands)
          cycles.array +=
              onArray * taps * std::max(double(width * rows.size() * kernel.extent[P2]), double(preloadCycles(machine)));
      }
      // What comes before the first output of a band, and of a row.
      const int64_t before = w.kernel * int64_t(bands.size()) + (w.kernel - columns) * kernel.extent[P1];
      cycles.vector += double(blocks * h.kernel * before);
    }
    cycles.vector += positions * last + 2 * cost::kVisit * double(bands.size());
    if (i < kernel.steps.size())
      for (const Source &source : kernel.steps[i].sources)
        if (source.kind == Source::Tensor && source.view.stride[P0])
          addTensor(source.view.tensor, isAddend(k, source.view.tensor, group),
                    int64_t(positions) * (source.view.stride[C] ? kernel.extent[C] : 1) * byteSize(source.type));
  }
  addTensor(kernel.output.tensor, output,
            (kernel.pool ? kernel.extent[P2] : int64_t(positions)) * (kernel.outputReduced ? 1 : kernel.extent[C]) *
                byteSize(kernel.outputType));
  // Rows of two runs are written twice.
  if (output) {
    double rows = -double(output->rows);
    for (size_t run = 0; run < output->runs(); ++run) {
      const Range made = output->rowsOfRun(run);
      rows += double(std::max<int64_t>(std::min(made.end, output->rows) - std::max<int64_t>(made.begin, 0), 0));
    }
    cycles.vector += std::max(rows, 0.0) * double(width) * last + 2 * cost::kVisit * double(bands.size());
  }
  cycles.dram = loads / bytesPerCycle;
  return cycles;
}

std::vector<Reserved> Fuser::reserve(const std::vector<Group> &groups) const {
  std::vector<Reserved> reserved;
  for (const Group &group : groups) {
    reserved.push_back({group.first, group.last(), group.bytes, {}});
    for (const BandedTensor &tensor : group.tensors)
      reserved.back().tensors.push_back(tensor.tensor);
  }
  return reserved;
}

/// Cycles that the group saves, by what limits its kernels one by one and all together, if no other tensor has to leave for it.
Gain Fuser::mostGainOf(const Group &group) const {
  cost::EngineCycles together;
  double apart = 0, firstBand = 0, dram = 0;
  for (unsigned k = group.first; k <= group.last(); ++k) {
    cost::EngineCycles alone = cyclesOf(k, nullptr);
    apart += alone.longest();
    dram += alone.dram;
    cost::EngineCycles own = cyclesOf(k, &group);
    together += own;
    firstBand += own.longest() / double(group.kernels[0].rows.size());
  }
  // How much longer kernels take whose buffers share banks, by Group::Banks.
  const double shared[] = {cost::kSharedBank * cost::kSharedBank, cost::kCrowding * cost::kCrowding, 1};
  double gain = apart - together.longest() * shared[size_t(group.banks)] - firstBand;
  // Neighbours overlap without a group as well: what it saves for certain is transfers.
  if (uses.knobs.fusion != plan::FusionRule::Overlap)
    gain = std::min(gain, dram - together.dram);
  return {gain, cost::kEstimateError * apart};
}

/// Cycles that it takes to move the tensors that have to leave for it.
double Fuser::costOf(const Group &group) const {
  return 2 * double(residents.bytesLeaving(whole, reserve({group}).front())) / bytesPerCycle;
}

/// Groups that a schedule file asks for.
void Fuser::takeWanted(Fusion &fusion) const {
  for (unsigned k = 0; k < uses.kernels.size();) {
    unsigned last = k;
    while (last < uses.kernels.size() && rowsWanted(last) && rowsWanted(last) == rowsWanted(k))
      ++last;
    if (last == k) {
      ++k;
      continue;
    }
    std::string why;
    for (unsigned i = k; i < last && why.empty(); ++i)
      if (!edges[i])
        why = "it is not read by the next kernel alone, row by row, with its anchor or behind it";
    if (why.empty() && last < uses.kernels.size() && rowsWanted(last))
      why =
          "kernel '" + uses.kernels[last]->name + "' beside it has row tiles of " + std::to_string(rowsWanted(last)) + " rows";
    std::optional<Group> group = why.empty() ? plan(k, last, rowsWanted(k), &why) : std::nullopt;
    if (group)
      fusion.groups.push_back(std::move(*group));
    else
      fusion.refused.push_back({outputOf(k), why});
    k = last + 1;
  }
}

/// What stays as a whole depends on the room beside the groups, and their buffers on what stays: the first shrinks until both
/// agree, so that a schedule file that asks for the result gets it.
void Fuser::settle(Fusion &fusion) {
  fusion.residency = residents.choose(reserve(fusion.groups));
  const std::vector<size_t> leftOut = fusion.residency.leftOut; // before they are not asked for any more
  NetworkUses rest = uses;
  rest.wanted.resize(uses.shapes.size());
  bool isLast = false; // chance of a tensor that is asked for: no group left that could have made room for it
  while (!fusion.groups.empty()) {
    whole = std::move(fusion.residency);
    for (size_t t = 0; t < whole.tensors.size(); ++t)
      if (!whole.tensors[t] && (isLast || rest.wanted[t] != true))
        rest.wanted[t] = false;
    const size_t count = fusion.groups.size();
    llvm::erase_if(fusion.groups, [&](Group &group) {
      std::string why;
      if (place(group, &why))
        return false;
      if (isWanted(group))
        fusion.refused.push_back({group.tensors[0].tensor, why});
      return true;
    });
    isLast = fusion.groups.size() == count;
    fusion.residency = chooseResidents(rest, machine, reserve(fusion.groups));
    auto isSame = [](const auto &a, const auto &b) { return a.has_value() == b.has_value(); };
    if (std::equal(whole.tensors.begin(), whole.tensors.end(), fusion.residency.tensors.begin(), isSame))
      break;
  }
  fusion.residency.leftOut = leftOut;
}

/// Per kernel a number: those of one number are alike in all that a group of them gains, whatever the constants. Where something is asked for of
/// single tensors each is of its own kind.
std::vector<unsigned> Fuser::findAlike() const {
  std::vector<unsigned> kinds(kernels.size());
  std::iota(kinds.begin(), kinds.end(), 0);
  if (llvm::is_contained(uses.wanted, std::optional<bool>(true)))
    return kinds;
  std::map<std::string, unsigned> known;
  for (unsigned k = 0; k < kernels.size(); ++k) {
    std::string text = uses.kernels[k]->kind;
    llvm::raw_string_ostream stream(text);
    stream << '|' << arrayChannels[k] << ' ';
    for (int tensor = 0; tensor < int(uses.tensorOf[k].size()); ++tensor)
      stream << (kernels[k]->tensors[size_t(tensor)].role != KernelTensor::Constant && isWhole(k, tensor));
    if (edges[k]) {
      const Resident &r = edges[k]->layout;
      stream << '|' << edges[k]->reader - k << ' ' << k - edges[k]->firstWriter << ' ' << edges[k]->addend;
      for (int64_t value : {r.bytes, r.channels, r.width, r.rows, r.elementBytes, r.lanes, int64_t(r.isPlanar), r.blockBytes,
                            r.pixelBytes, r.rowBytes, r.padLow[0], r.padLow[1], r.padHigh[0], r.padHigh[1]})
        stream << ' ' << value;
    }
    kinds[k] = known.try_emplace(std::move(stream.str()), unsigned(known.size())).first->second;
  }
  return kinds;
}

Fusion Fuser::run() {
  Fusion fusion;
  const unsigned count = unsigned(uses.kernels.size());
  edges.resize(count);
  auto pairsRows = [&](unsigned k) { return uses.kernels[k]->anchor && uses.kernels[k]->anchor->pairsRows; };
  for (unsigned k = 0; k + 1 < count; ++k) {
    edges[k] = residents.rowsBetween(k);
    // A band may begin or end between two outputs of a pair.
    if (edges[k] && llvm::any_of(llvm::seq_inclusive(edges[k]->firstWriter, edges[k]->reader), pairsRows))
      edges[k].reset();
  }
  takeWanted(fusion);
  auto isFree = [&](unsigned k) {
    bool isAsked = outputOf(k) < uses.wanted.size() && uses.wanted[outputOf(k)];
    return edges[k] && !isAsked && !fusion.groupOf(k) && !fusion.groupOf(k + 1);
  };
  std::vector<std::array<int64_t, 2>> least;
  for (unsigned k = 0; k < count; ++k)
    least.push_back(leastBytes(k, /*goesOn=*/true));
  auto hasRoom = [&](std::array<int64_t, 2> bytes) {
    return bytes[0] <= int64_t(cost::kGroupRoom * double(capacity)) &&
           (!weightMemory() || bytes[1] <= int64_t(machine.scratchpads[1].capacityBytes));
  };
  // best[k]: of the kernels before k, what groups of them save; and the group that ends there.
  const std::vector<unsigned> kinds = findAlike();
  std::map<std::pair<unsigned, unsigned>, unsigned>
      sequences; // of kinds: the first one and the number of the others, to its own
  auto sequenceOf = [&](unsigned first, unsigned others) {
    return sequences.try_emplace({kinds[first], others}, unsigned(sequences.size()) + 1).first->second;
  };
  std::map<std::tuple<unsigned, int64_t, bool>, Gain>
      gains; // of groups of such kernels, by the rows of a band and what is before them
  auto gainOf = [&](unsigned first, unsigned last, int64_t perBand, unsigned sequence) {
    const Kernel *before = first ? kernels[first - 1] : nullptr;
    auto [known, isNew] = gains.try_emplace({sequence, perBand, before && !before->anchor && before->copies.empty()});
    if (isNew)
      if (std::optional<Group> group = plan(first, last, perBand))
        known->second = mostGainOf(*group);
    return known->second;
  };
  std::vector<double> best(count + 1, 0);
  std::vector<std::optional<Group>> ends(count + 1);
  for (unsigned end = 1; end <= count; ++end) {
    best[end] = best[end - 1];
    struct Possible {
      double most; ///< that is saved up to `end`
      Gain gain;
      unsigned first;
      int64_t perBand;
    };
    std::vector<Possible> possible;
    std::array<int64_t, 2> bytes = leastBytes(end - 1, /*goesOn=*/false);
    unsigned sequence = sequenceOf(end - 1, 0);
    for (unsigned first = end - 1; first > 0 && isFree(first - 1) && edges[first - 1]->reader < end;) {
      --first;
      bytes = {bytes[0] + least[first][0], bytes[1] + least[first][1]};
      if (!hasRoom(bytes))
        break;
      sequence = sequenceOf(first, sequence);
      if (edges[first]->firstWriter < first || llvm::is_contained(banned, std::pair(first, end - 1)))
        continue;
      const int64_t rows = kernels[end - 1]->extent[P1], one = rowsOfOne(end - 1);
      const bool isTall = *uses.knobs.tallRowTiles && packsTaps(*kernels[first], machine);
      for (int64_t perBand = rows / 2; perBand > isTall; --perBand) {
        const bool isEqual = perBand > one ? perBand % one == 0 && rows % perBand == 0 : one % perBand == 0;
        if (!isEqual && (perBand > one || (perBand & (perBand - 1))))
          continue;
        if (const Gain gain = gainOf(first, end - 1, perBand, sequence); gain.most > gain.least)
          possible.push_back({best[first] + gain.most, gain, first, perBand});
      }
    }
    // What has to leave takes long to find out: of the most promising ones only.
    llvm::stable_sort(possible, [](const Possible &a, const Possible &b) { return a.most > b.most; });
    for (const auto &[most, gain, first, perBand] : possible) {
      if (most <= best[end])
        break;
      Group group = *plan(first, end - 1, perBand);
      const double cost = costOf(group);
      if (gain.most - cost > gain.least && most - cost > best[end]) {
        best[end] = most - cost;
        ends[end] = std::move(group);
      }
    }
  }
  std::vector<Group> chosen;
  for (unsigned end = count; end > 0;) {
    unsigned next = end - 1;
    if (best[end] > best[end - 1]) {
      next = ends[end]->first;
      chosen.push_back(std::move(*ends[end]));
    }
    end = next;
  }
  std::move(chosen.begin(), chosen.end(), std::back_inserter(fusion.groups));
  llvm::sort(fusion.groups, [](const Group &a, const Group &b) { return a.first < b.first; });
  settle(fusion);
  for (Group &group : fusion.groups)
    for (const BandedTensor &tensor : group.tensors) {
      for (size_t i = tensor.firstWriter; i < tensor.reader; ++i)
        group.kernels[i].output = &tensor;
      group.kernels[tensor.firstWriter].fillsBorders = true;
      (tensor.addend < 0 ? group.kernels[tensor.reader].input : group.kernels[tensor.reader].addend) = &tensor;
    }
  return fusion;
}
} // namespace

Fusion accel::chooseGroups(const NetworkUses &uses, const std::vector<std::pair<unsigned, unsigned>> &banned,
                           const timing::MachineParams &machine) {
  return Fuser(uses, banned, machine).run();
}
