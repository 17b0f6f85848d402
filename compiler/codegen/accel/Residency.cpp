//===- Residency.cpp - Tensors that stay on chip ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Residency.h"

#include "compiler/codegen/accel/Emitter.h"
#include "compiler/cost/Constants.h"
#include "compiler/memory/Placement.h"
#include "isa/timing/Dram.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/Sequence.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

using namespace tw;
using namespace tw::accel;

int64_t Resident::at(int64_t offset) const {
  offset -= from * channels;
  int64_t channel = offset % channels, pixel = offset / channels % width, row = offset / channels / width;
  return address + (row + padLow[1]) * rowBytes + (pixel + padLow[0]) * pixelBytes + channel / lanes * blockBytes +
         channel % lanes * elementBytes;
}

int64_t Resident::stride(int64_t elements) const {
  if (elements % (channels * width) == 0)
    return elements / (channels * width) * rowBytes;
  if (elements % channels == 0)
    return elements / channels * pixelBytes;
  return elements * elementBytes;
}

bool Resident::canWalk(int64_t elements, int64_t count) const {
  if (count <= 1 || elements % (channels * width) == 0)
    return true;
  if (elements % channels == 0)
    return rowBytes == width * pixelBytes || (count - 1) * (elements / channels) < width;
  return false; // along the channels: only whole vectors have a place of their own
}

bool Resident::hasFormOf(const Resident &other) const {
  auto form = [](const Resident &r) {
    return std::tie(r.bytes, r.channels, r.width, r.rows, r.from, r.elementBytes, r.lanes, r.blockBytes, r.pixelBytes,
                    r.rowBytes, r.padLow, r.padHigh);
  };
  return form(*this) == form(other) && (padPattern == other.padPattern || !(isPadded() || isDense()));
}

std::vector<KernelCycles> accel::cyclesAlone(const std::vector<const Kernel *> &kernels, const timing::MachineParams &machine) {
  const timing::Ratio peak = timing::dramPeakBytesPerCycle(machine);
  const double bytesPerCycle =
      std::min(double(peak.numerator) / double(peak.denominator), machine.loadEngines * timing::loadBytesPerCycle(machine));
  std::vector<KernelCycles> all;
  for (const Kernel *kernel : kernels) {
    const cost::LayerWork work = workOf(*kernel, machine);
    all.push_back({double(cost::layerTraffic(work, machine).referenceBytes) / bytesPerCycle,
                   double(std::max(work.arrayCycles, work.vectorCycles + work.windowVectorCycles))});
  }
  return all;
}

namespace {
/// One use of a tensor by a kernel.
struct Use {
  size_t kernel;
  bool writes;
  View view;
  bool isAnchor;          ///< the anchor's input, with its windows
  bool isWeights = false; ///< the anchor's weights, of which each position along one axis has its own
};

/// Whether the channels of a pixel from `offset` on begin with a vector, or lie in one.
bool liesInVectors(const Resident &r, int64_t offset, int64_t count) {
  const int64_t first = offset % r.channels, lane = first % r.lanes;
  return first + count <= r.channels && (lane == 0 || lane + count <= r.lanes);
}

/// A tensor that could stay on chip, whatever else does.
struct Candidate {
  size_t tensor;
  Resident resident;
  unsigned begin, end; ///< kernels
  size_t saved;        ///< transfers
  double value = 0;
};

/// Groups of kernels that have no kernel in common, by kernel and by tensor.
class Reservations {
public:
  explicit Reservations(const std::vector<Reserved> &reserved) {
    for (const Reserved &group : reserved) {
      groups.push_back(&group);
      tensors.insert(tensors.end(), group.tensors.begin(), group.tensors.end());
    }
    llvm::sort(groups, [](const Reserved *a, const Reserved *b) { return a->first < b->first; });
    llvm::sort(tensors);
    for (size_t i = 1; i < groups.size(); ++i)
      assert(groups[i - 1]->last < groups[i]->first && "a kernel is in one group at most");
  }
  bool isBanded(size_t tensor) const { return std::binary_search(tensors.begin(), tensors.end(), tensor); }
  /// Those with a kernel of [begin, end], both included.
  llvm::ArrayRef<const Reserved *> during(unsigned begin, unsigned end) const {
    auto from = llvm::partition_point(groups, [&](const Reserved *group) { return group->last < begin; });
    auto to = std::partition_point(from, groups.end(), [&](const Reserved *group) { return group->first <= end; });
    return llvm::ArrayRef(groups).slice(size_t(from - groups.begin()), size_t(to - from));
  }

private:
  std::vector<const Reserved *> groups; ///< in the order of their kernels
  std::vector<size_t> tensors;          ///< sorted
};

/// One range of the scratchpad, and who has it.
struct Place {
  memory::LiveRange range;
  std::vector<size_t> tenants; ///< in the order of their lives
};

/// Kernels that are looked at to say what leaves for a group: all of a network that has no more.
constexpr unsigned kWindow = 150;
} // namespace

class ResidentChooser::Network {
public:
  Network(const NetworkUses &uses, const timing::MachineParams &machine);
  Residency choose(const std::vector<Reserved> &reserved) const;
  int64_t bytesLeaving(const Residency &whole, const Reserved &group) const;
  std::optional<RowsBetween> rowsBetween(unsigned writer) const;

private:
  const NetworkUses &uses;
  const timing::MachineParams &machine;
  /// A vector of the array's results is one of the vector engine's, and one of its inputs.
  const bool isUniform = machine.lanes == machine.rows && machine.lanes == machine.cols;
  const int64_t capacity = int64_t(machine.scratchpads[0].capacityBytes) - uses.spare;
  std::vector<bool> possible;        ///< per tensor
  std::vector<std::vector<Use>> all; ///< per tensor
  std::vector<Candidate> candidates; ///< by tensor
  memory::LiveSteps alive;           ///< candidates, by kernel
  std::vector<std::pair<size_t, std::string>> refused;

  /// Of some candidates those that stay, and where.
  struct Selection {
    std::vector<Candidate> candidates; ///< the most valuable first
    std::vector<Place> places;
    std::vector<size_t> leftOut;                         ///< candidates that lack room, in the order in which they were tried
    std::vector<std::pair<size_t, std::string>> refused; ///< tensors for which there is another reason
  };
  Selection select(llvm::ArrayRef<size_t> from, const std::vector<Reserved> &reserved) const;
  std::vector<std::vector<Use>> collect(std::vector<bool> &possible) const;
  void findCandidates();
  std::optional<bool> wanted(size_t t) const { return t < uses.wanted.size() ? uses.wanted[t] : std::nullopt; }
  std::optional<Resident> layout(size_t tensor, const std::vector<Use> &list, bool mayBePlanar = true) const;
  bool suits(const Resident &resident, const Use &use) const;
  bool suitsAsWeights(const Resident &resident, const Anchor &anchor) const;
  bool canTakePlace(const std::vector<Use> &writes, const std::vector<Use> &reads) const;
  bool holdsMatrices(size_t tensor) const { return tensor < uses.holdsMatrices.size() && uses.holdsMatrices[tensor]; }
};

ResidentChooser::Network::Network(const NetworkUses &uses, const timing::MachineParams &machine)
    : uses(uses), machine(machine), possible(uses.shapes.size(), true), all(collect(possible)) {
  findCandidates();
}

std::vector<std::vector<Use>> ResidentChooser::Network::collect(std::vector<bool> &possible) const {
  std::vector<std::vector<Use>> result(uses.shapes.size());
  for (size_t k = 0; k < uses.kernels.size(); ++k) {
    const Kernel &kernel = *uses.kernels[k];
    auto tensorOf = [&](int index) { return uses.tensorOf[k][size_t(index)]; };
    auto reads = [&](const View &view, bool isAnchor) {
      if (kernel.tensors[size_t(view.tensor)].role == KernelTensor::Argument)
        result[tensorOf(view.tensor)].push_back({k, false, view, isAnchor});
    };
    auto excludes = [&](int tensor) {
      if (kernel.tensors[size_t(tensor)].role != KernelTensor::Constant)
        possible[tensorOf(tensor)] = false;
    };
    if (kernel.anchor) {
      reads(kernel.anchor->input, true);
      // Activations as weights are loaded to the weight memory, or read where they were written.
      const Anchor &a = *kernel.anchor;
      if (a.kind == Anchor::Contraction && a.batchAxis && kernel.tensors[size_t(a.weights)].role == KernelTensor::Argument &&
          holdsMatrices(tensorOf(a.weights)))
        result[tensorOf(a.weights)].push_back({k, false, {a.weights, {}, a.weightOffset}, false, true});
      else if (a.weights >= 0)
        excludes(a.weights);
    }
    for (const Step &step : kernel.steps)
      for (const Source &source : step.sources)
        if (source.kind == Source::Tensor)
          reads(source.view, false);
    for (const Copy &copy : kernel.copies) {
      excludes(copy.from.tensor);
      excludes(copy.to.tensor);
    }
    if (kernel.copies.empty())
      result[tensorOf(kernel.output.tensor)].push_back({k, true, kernel.output, false});
    for (size_t i = 0; i < kernel.tensors.size(); ++i)
      if (kernel.tensors[i].role == KernelTensor::Part || !kernel.tensors[i].concatenation.parts.empty())
        excludes(int(i));
  }
  return result;
}

/// Pitches and padding that all uses can live with.
std::optional<Resident> ResidentChooser::Network::layout(size_t tensor, const std::vector<Use> &list, bool mayBePlanar) const {
  std::vector<int64_t> shape = uses.shapes[tensor];
  // What a product writes as the channels of several matrices, another may read as those of one.
  const std::optional<Anchor> &writer = uses.kernels[list.front().kernel]->anchor;
  const bool writesMatrices = list.front().writes && writer && writer->kind == Anchor::Contraction && writer->batchAxis;
  auto needsMore = [&](const Use &use) {
    const std::optional<Anchor> &anchor = uses.kernels[use.kernel]->anchor;
    return use.isAnchor && anchor->kind == Anchor::Contraction && anchor->pixels.count == 1 && use.view.stride[C] == 1 &&
           anchor->groups * anchor->ic > shape.back();
  };
  while (writesMatrices && shape.size() > 1 && llvm::any_of(list, needsMore)) {
    const int64_t pixels = shape.back();
    shape.pop_back();
    shape.back() *= pixels;
  }
  Resident r;
  r.channels = shape.back();
  r.width = shape.size() > 1 ? shape[shape.size() - 2] : 1;
  for (size_t i = 0; i + 2 < shape.size(); ++i)
    r.rows *= shape[i];
  if (tensor < uses.keptFrom.size() && uses.keptFrom[tensor]) {
    r.from = uses.keptFrom[tensor];
    auto hasRows = [&](const Use &use) {
      const Kernel &kernel = *uses.kernels[use.kernel];
      return !use.isAnchor && kernel.hasRowsApart() && kernel.extent[P0] == r.width && use.view.stride[P0] == r.channels;
    };
    if (r.rows > 1 || r.from >= r.width || !llvm::all_of(list, hasRows) ||
        llvm::any_of(llvm::drop_begin(list), [&](const Use &use) { return use.kernel != list[0].kernel + 1; }))
      return std::nullopt;
    r.width -= r.from;
  }
  bool pads = false;
  for (const Use &use : list) {
    const Kernel &kernel = *uses.kernels[use.kernel];
    r.elementBytes = byteSize(kernel.tensors[size_t(use.view.tensor)].type);
    r.hasVectorReaders |= !use.writes && !use.isWeights && !(use.isAnchor && kernel.anchor->kind == Anchor::Contraction);
    if (!use.isAnchor)
      continue;
    const Anchor &a = *kernel.anchor;
    for (unsigned axis = P0; axis < kAxes; ++axis) {
      WindowAxis w = a.axes[axis - P0];
      int64_t high = w.span(w.size) - w.padLow - w.inputSize;
      int64_t elements = a.input.stride[axis];
      if (const Anchor::Pixels &pixels = a.pixels; axis == P0 && pixels.count > 1) {
        high = pixels.span(w.span(w.size)) - pixels.padLow - pixels.inputSize;
        elements /= pixels.step;
        w.padLow = pixels.padLow;
        w.inputSize = pixels.inputSize;
      }
      if (w.padLow == 0 && high <= 0)
        continue;
      int dimension = elements == r.channels ? 0 : elements == r.channels * r.width ? 1 : -1;
      if (dimension < 0 || w.inputSize != (dimension == 0 ? r.width : r.rows))
        return std::nullopt;
      if (pads && r.padPattern != a.padPattern)
        return std::nullopt;
      pads = true;
      r.padPattern = a.padPattern;
      r.padLow[size_t(dimension)] = std::max(r.padLow[size_t(dimension)], w.padLow);
      r.padHigh[size_t(dimension)] = std::max(r.padHigh[size_t(dimension)], std::max<int64_t>(high, 0));
    }
  }
  // A step of one column is one of a row too where there is one column.
  if (r.width == 1 && (r.padLow[0] || r.padHigh[0]))
    return std::nullopt;
  // Kernels take all positions of a channel at once where the accumulator holds two such tiles.
  r.lanes = machine.lanes;
  r.isPlanar =
      mayBePlanar && !uses.alsoInDram[tensor] && r.blocks() > 1 && r.rows * r.width * 2 <= int64_t(machine.accumulatorRows());
  r.pixelBytes = (r.isPlanar ? 1 : r.blocks()) * r.lanes * r.elementBytes;
  // Whoever writes several pixels in a vector leaves no room between them.
  const int64_t together = list.empty() || !list[0].writes ? 1 : uses.kernels[list[0].kernel]->outputsPerVector;
  if (together > 1 && together * r.channels == r.lanes)
    r.pixelBytes = r.channels * r.elementBytes;
  r.rowBytes = (r.width + r.padLow[0] + r.padHigh[0]) * r.pixelBytes;
  int64_t plane = (r.rows + r.padLow[1] + r.padHigh[1]) * r.rowBytes;
  r.blockBytes = r.isPlanar ? plane : r.lanes * r.elementBytes;
  r.bytes = r.isPlanar ? r.blocks() * plane : plane;
  r.bytes += r.slackBytes();
  return r;
}

/// The matrix of each position of the batch axis: one of its axes is a run of channels, the other one pixels; whole tiles of the array, or
/// one.
bool ResidentChooser::Network::suitsAsWeights(const Resident &r, const Anchor &a) const {
  const int64_t rows = machine.rows, cols = machine.cols;
  const bool byChannel = a.weightIc == 1;
  const int64_t channels = byChannel ? a.ic : a.oc, pixels = byChannel ? a.oc : a.ic,
                pixel = byChannel ? a.weightOc : a.weightIc;
  if (r.isDense() || a.groups > 1 || (!byChannel && a.weightOc != 1) || (a.ic > rows && a.ic % rows) ||
      (a.oc > cols && a.oc % cols) || pixel % r.channels || !r.canWalk(pixel, pixels) ||
      a.axes[0].kernel * a.axes[1].kernel * a.axes[2].kernel > 1)
    return false;
  return llvm::all_of(llvm::seq<int64_t>(0, a.axes[*a.batchAxis - P0].size),
                      [&](int64_t batch) { return liesInVectors(r, a.weightOffset + batch * a.weightBatch, channels); });
}

bool ResidentChooser::Network::suits(const Resident &r, const Use &use) const {
  const Kernel &kernel = *uses.kernels[use.kernel];
  const View &view = use.view;
  if (byteSize(kernel.tensors[size_t(view.tensor)].type) != r.elementBytes)
    return false;
  if (use.isWeights)
    return suitsAsWeights(r, *kernel.anchor);
  // Channels lie side by side, so that a vector of lanes is one access. One for all is in one lane only: loads spread it.
  if (view.stride[C] != 1 && !(view.stride[C] == 0 && kernel.extent[C] == 1 && !use.writes && !use.isAnchor))
    return false;
  int64_t lanes = machine.lanes, first = view.offset % r.channels;
  int64_t channels = kernel.extent[C], groups = 1;
  if (kernel.anchor && kernel.anchor->kind == Anchor::Contraction) {
    groups = kernel.anchor->groups;
    channels = use.isAnchor ? kernel.anchor->ic : kernel.anchor->oc;
  }
  // Vectors of several pixels are whole ones where they are written.
  const int64_t pixels = use.isAnchor ? kernel.anchor->pixels.count : kernel.outputsPerVector;
  if ((r.isDense() && use.writes && pixels * r.channels != lanes) || (use.isAnchor && kernel.anchor->pixels.beyond) ||
      (pixels > 1 && (!r.isDense() || first || channels != pixels * r.channels)))
    return false;
  channels /= pixels;
  // A kernel may see another shape of the tensor, whose channels are pixels of this one.
  if (view.isPadded()) {
    // Blocks of padding are a vector of zeros; the load engine fills what the last block has behind the tensor's channels, which must be
    // nobody's.
    channels = view.channelsRead(channels);
    if (view.padPattern || view.padLow % lanes || groups > 1 || r.isDense() ||
        (channels % lanes && first + channels != r.channels))
      return false;
  }
  if (view.stride[C] && first + groups * channels > r.channels)
    return false;
  if (use.writes) {
    if (kernel.outputReduced)
      return false;
    // Whole vectors are written: they must not reach into what lies behind.
    if (first % lanes || (groups > 1 && channels % lanes) || (channels % lanes && first + groups * channels != r.channels))
      return false;
  } else if (first % lanes || (groups > 1 && channels % lanes)) {
    return false;
  }
  // A product of several matrices takes one after the other: each may have channels of its own, of what it reads where that is wanted.
  auto hasChannelsApart = [&](unsigned axis) {
    if (!kernel.anchor || kernel.anchor->kind != Anchor::Contraction || kernel.anchor->batchAxis != axis || groups > 1 ||
        pixels > 1 || r.isDense() || !(use.writes || holdsMatrices(uses.tensorOf[use.kernel][size_t(view.tensor)])))
      return false;
    return llvm::all_of(llvm::seq<int64_t>(0, kernel.extent[axis]),
                        [&](int64_t batch) { return liesInVectors(r, view.offset + batch * view.stride[axis], channels); });
  };
  if (use.isAnchor) {
    const Anchor &a = *kernel.anchor;
    for (unsigned axis = P0; axis < kAxes; ++axis) {
      const WindowAxis &w = a.axes[axis - P0];
      if (hasChannelsApart(axis))
        continue;
      if (axis == P0 && pixels > 1) { // from padding to padding
        if (view.stride[P0] != a.pixels.step * r.channels || a.pixels.inputSize != r.width)
          return false;
      } else if (!r.canWalk(view.stride[axis], std::min(w.inputSize, w.span(w.size)))) {
        return false;
      }
    }
    return true;
  }
  for (unsigned axis = P0; axis < kAxes; ++axis)
    if (view.stride[axis] && !(use.writes && hasChannelsApart(axis)) &&
        !r.canWalk(view.stride[axis], use.writes ? kernel.made(kernel.extent)[axis] : kernel.extent[axis]))
      return false;
  return true;
}

/// Whether the only kernel that writes the tensor of `to` is the last one that uses that of `from`, and takes each of its elements for
/// the one in the same place of its result, and no other.
bool ResidentChooser::Network::canTakePlace(const std::vector<Use> &to, const std::vector<Use> &from) const {
  const Use &write = to.front();
  const Kernel &kernel = *uses.kernels[write.kernel];
  if (kernel.pool || kernel.maxima || from.back().kernel != write.kernel)
    return false;
  auto isOther = [&](const Use &use) { return use.kernel != write.kernel; };
  auto isSameElement = [&](const Use &use) {
    return !use.writes && !use.isAnchor && !use.isWeights && !use.view.isPadded() && use.view.offset == write.view.offset &&
           llvm::all_of(llvm::seq<unsigned>(0, kAxes), [&](unsigned axis) {
             return kernel.extent[axis] == 1 || use.view.stride[axis] == write.view.stride[axis];
           });
  };
  return llvm::none_of(llvm::drop_begin(to), [](const Use &use) { return use.writes; }) &&
         llvm::all_of(from, [&](const Use &use) { return isOther(use) || isSameElement(use); });
}

/// Those that fit the scratchpad, and all their kernels.
void ResidentChooser::Network::findCandidates() {
  const std::vector<KernelCycles> cycles = uses.cycles.empty() ? cyclesAlone(uses.kernels, machine) : uses.cycles;
  // All tensors that fit; those of kernels that transfer for more than half of the time that they compute; none.
  const double kTransferShares[] = {0.0, cost::kResident, 1e9};
  const double transferShare = kTransferShares[size_t(*uses.knobs.residency)];
  auto transfers = [&](const Use &use) { return cycles[use.kernel].transfer > transferShare * cycles[use.kernel].compute; };
  // From DRAM the taps of few channels lie side by side; on chip each is a pass of its own. Where those take longer than the transfers
  // do, the tensor had better go.
  auto losesPasses = [&](const Use &use) {
    const Kernel &kernel = *uses.kernels[use.kernel];
    if (!use.isAnchor || !packsTaps(kernel, machine))
      return false;
    const Anchor &a = *kernel.anchor;
    const Extent sums = kernel.sums(kernel.extent);
    const int64_t taps = a.axes[0].kernel * a.axes[1].kernel, rows = machine.rows;
    const int64_t more = (taps * ceilDiv(a.ic, rows) - ceilDiv(taps * a.ic, rows)) * ceilDiv(a.oc, machine.cols);
    return double(more * sums[P0] * sums[P1] * sums[P2]) > cycles[use.kernel].transfer;
  };
  auto isCut = [&](size_t t) { return t < uses.keptFrom.size() && uses.keptFrom[t] > 0; };
  for (size_t t = 0; t < all.size(); ++t) {
    const std::vector<Use> &list = all[t];
    auto refuse = [&](const std::string &why) {
      if (wanted(t) == true)
        refused.push_back({t, why});
    };
    if (wanted(t) == false)
      continue;
    if (!isUniform || !possible[t] || uses.shapes[t].empty() || list.size() < 2 || !list.front().writes) {
      refuse(!isUniform     ? "the machine's lanes, rows and columns are not equally many"
             : !possible[t] ? "a kernel copies it, or takes it as weights of all its results"
                            : "no other kernel of the program reads it");
      continue;
    }
    if (wanted(t) != true && (llvm::none_of(list, transfers) || llvm::any_of(list, losesPasses)))
      continue;
    std::optional<Resident> resident = layout(t, list);
    if (!resident || resident->bytes > capacity * 3 / 4) {
      refuse(!resident && isCut(t)
                 ? "two kernels, one behind the other, do not make and read so many positions of it one by one"
             : !resident ? "its readers need different padding"
                         : std::to_string(resident->bytes) + " bytes are more than three quarters of " +
                               machine.scratchpads[0].name + " (" + std::to_string(capacity * 3 / 4) + ")");
      continue;
    }
    if (auto misfit = llvm::find_if(list, [&](const Use &use) { return !suits(*resident, use); }); misfit != list.end()) {
      refuse("kernel '" + uses.kernels[misfit->kernel]->name + "' cannot use it there");
      continue;
    }
    resident->placedFirst = wanted(t) == true && t < uses.placedFirst.size() && uses.placedFirst[t];
    Candidate candidate{t, *resident, unsigned(list.front().kernel), 0, 0};
    for (const Use &use : list) {
      candidate.end = std::max(candidate.end, unsigned(use.kernel));
      candidate.saved += use.writes ? !uses.alsoInDram[t] : 1;
    }
    alive.add(candidates.size(), {0, candidate.begin, candidate.end, 0});
    candidates.push_back(candidate);
  }
}

/// Takes candidates as long as there is room, those first that save most transfers for their time.
ResidentChooser::Network::Selection ResidentChooser::Network::select(llvm::ArrayRef<size_t> from,
                                                                     const std::vector<Reserved> &reserved) const {
  Selection result;
  const int64_t bank = int64_t(machine.scratchpads[0].bankBytes());
  const Reservations groups(reserved);
  auto refuse = [&](size_t t, const std::string &why) {
    if (wanted(t) == true)
      result.refused.push_back({t, why});
  };
  std::vector<Candidate> &candidates = result.candidates;
  for (size_t index : from) {
    Candidate candidate = this->candidates[index];
    const size_t t = candidate.tensor;
    if (groups.isBanded(t))
      continue;
    const llvm::ArrayRef<const Reserved *> during = groups.during(candidate.begin, candidate.end);
    if (candidate.resident.from && !during.empty()) {
      refuse(t, "its writer or its reader runs in row tiles");
      continue;
    }
    // Kernels side by side are one moment.
    if (!during.empty()) {
      candidate.begin = std::min(candidate.begin, during.front()->first);
      candidate.end = std::max(candidate.end, during.back()->last);
    }
    if (std::any_of(uses.alone.begin() + candidate.begin, uses.alone.begin() + candidate.end + 1,
                    [](bool alone) { return alone; })) {
      refuse(t, "a kernel that runs meanwhile needs the room for its own tiles");
      continue;
    }
    candidate.value = double(candidate.saved) / double(candidate.end - candidate.begin + 1);
    candidates.push_back(candidate);
  }
  std::stable_sort(candidates.begin(), candidates.end(), [&](const Candidate &a, const Candidate &b) {
    auto classOf = [&](const Candidate &c) { return (wanted(c.tensor) == true) + c.resident.placedFirst; };
    const int first = classOf(a), second = classOf(b);
    return first != second ? first > second : a.value > b.value;
  });
  // A result takes the place of what its kernel reads element by element for the last time: the two are one range then. Per candidate, of
  // which ones it can take the place, and which ones can take its own.
  std::vector<std::vector<size_t>> before(candidates.size()), behind(candidates.size());
  llvm::DenseMap<unsigned, llvm::SmallVector<size_t, 2>> endingAt; // by kernel
  const bool sharesPlaces = uses.knobs.resultPlaces == plan::ResultPlaces::Reused;
  for (size_t i = 0; i < candidates.size() && sharesPlaces; ++i)
    endingAt[candidates[i].end].push_back(i);
  for (size_t i = 0; i < candidates.size() && sharesPlaces; ++i)
    for (size_t other : endingAt[candidates[i].begin])
      if (candidates[i].resident.hasFormOf(candidates[other].resident) &&
          canTakePlace(all[candidates[i].tensor], all[candidates[other].tensor])) {
        before[i].push_back(other);
        behind[other].push_back(i);
      }
  unsigned firstKernel = std::numeric_limits<unsigned>::max(); // live ranges count from there
  for (const Candidate &candidate : candidates)
    firstKernel = std::min(firstKernel, candidate.begin);
  auto rangeOf = [&](const Candidate &candidate) {
    return memory::LiveRange{uint64_t(candidate.resident.bytes), candidate.begin - firstKernel, candidate.end - firstKernel, 0};
  };
  constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> at(candidates.size(), kNone); // where a candidate is in the list at hand
  auto placesOf = [&](const std::vector<size_t> &list) {
    for (size_t i = 0; i < list.size(); ++i)
      at[list[i]] = i;
    // Of several whose place it can take, the first one of the list.
    auto predecessor = [&](size_t next) {
      size_t first = kNone;
      for (size_t other : before[next])
        if (at[other] != kNone && (first == kNone || at[other] < at[first]))
          first = other;
      return first;
    };
    std::vector<size_t> successor(list.size(), kNone);
    for (size_t next : list)
      if (size_t first = predecessor(next); first != kNone && successor[at[first]] == kNone)
        successor[at[first]] = next;
    std::vector<Place> places;
    for (size_t first : list) {
      if (predecessor(first) != kNone)
        continue;
      Place place{rangeOf(candidates[first]), {first}};
      for (size_t next = successor[at[first]]; next != kNone; next = successor[at[next]]) {
        place.tenants.push_back(next);
        place.range.end = rangeOf(candidates[next]).end;
      }
      places.push_back(std::move(place));
    }
    for (size_t i : list)
      at[i] = kNone;
    std::vector<memory::LiveRange> ranges;
    for (const Place &place : places)
      ranges.push_back(place.range);
    memory::place(ranges, uint64_t(bank));
    for (auto [place, range] : llvm::zip_equal(places, ranges))
      place.range = range;
    return places;
  };
  // Kernels keep a quarter for their own buffers, or what is reserved for them.
  auto isRangeTooLarge = [&](const memory::LiveRange &range) {
    int64_t end = int64_t(range.address) + int64_t(range.bytes);
    return end > capacity * 3 / 4 ||
           llvm::any_of(groups.during(range.begin + firstKernel, range.end + firstKernel),
                        [&](const Reserved *group) { return roundUp(end, bank) > capacity - group->bytes; });
  };
  auto isTooLarge = [&](const std::vector<Place> &places) {
    return llvm::any_of(places, [&](const Place &place) { return isRangeTooLarge(place.range); });
  };
  std::vector<size_t> chosen;
  std::vector<bool> isChosen(candidates.size(), false);
  memory::GrowingPlacement growing{uint64_t(bank)}; // the places of what is chosen
  auto placeAgain = [&](const std::vector<Place> &places) {
    growing = memory::GrowingPlacement(uint64_t(bank));
    for (const Place &place : places)
      growing.add(place.range);
  };
  // Adds the last one of `chosen`, if all fit then. `canFit`: perhaps in another order.
  auto addLast = [&](bool &canFit) {
    const size_t i = chosen.back();
    auto isThere = [&](size_t other) { return isChosen[other]; };
    if (llvm::any_of(before[i], isThere) || llvm::any_of(behind[i], isThere)) { // places change
      std::vector<Place> places = placesOf(chosen);
      if (isTooLarge(places))
        return false;
      placeAgain(places);
      return true;
    }
    const memory::LiveRange own = rangeOf(candidates[i]);
    const std::vector<size_t> moved = growing.add(own);
    if (llvm::none_of(moved, [&](size_t place) { return isRangeTooLarge(growing[place]); }))
      return true;
    canFit = llvm::all_of(llvm::seq_inclusive(own.begin, own.end),
                          [&](unsigned k) { return int64_t(growing.bytesAt(k)) <= capacity * 3 / 4; });
    growing.undo();
    return false;
  };
  for (size_t i = 0; i < candidates.size(); ++i) {
    chosen.push_back(i);
    bool canFit = true;
    isChosen[i] = addLast(canFit);
    if (isChosen[i])
      continue;
    // Tensors of one size are placed in the order given: the way they come, or the way they go, may need less.
    auto fitsBy = [&](auto &&isBefore) {
      std::vector<size_t> sorted = chosen;
      llvm::stable_sort(sorted, [&](size_t x, size_t y) { return isBefore(candidates[x], candidates[y]); });
      const std::vector<Place> places = placesOf(sorted);
      if (isTooLarge(places))
        return false;
      chosen = std::move(sorted);
      placeAgain(places);
      return true;
    };
    isChosen[i] = canFit && (fitsBy([](const Candidate &x, const Candidate &y) { return x.begin < y.begin; }) ||
                             fitsBy([](const Candidate &x, const Candidate &y) { return x.end > y.end; }));
    if (isChosen[i])
      continue;
    chosen.pop_back();
    result.leftOut.push_back(i);
  }
  result.places = placesOf(chosen);
  for (Place &place : result.places) {
    place.range.begin += firstKernel;
    place.range.end += firstKernel;
  }
  return result;
}

Residency ResidentChooser::Network::choose(const std::vector<Reserved> &reserved) const {
  Selection selection = select(llvm::to_vector(llvm::seq(candidates.size())), reserved);
  Residency result;
  result.tensors.resize(uses.shapes.size());
  result.room.assign(uses.kernels.size(), capacity);
  result.gap.assign(uses.kernels.size(), {});
  const Reservations groups(reserved);
  for (const auto &[t, why] : refused)
    if (!groups.isBanded(t))
      result.refused.push_back({t, why});
  result.refused.insert(result.refused.end(), selection.refused.begin(), selection.refused.end());
  llvm::stable_sort(result.refused, [](const auto &a, const auto &b) { return a.first < b.first; });
  for (size_t i : selection.leftOut)
    if (const size_t t = selection.candidates[i].tensor; wanted(t) == true)
      result.refused.push_back({t, "beside what else stays there meanwhile it does not fit three quarters of " +
                                       machine.scratchpads[0].name + " (" + std::to_string(capacity * 3 / 4) + " bytes)"});
  llvm::stable_sort(selection.leftOut, [&](size_t a, size_t b) {
    auto bytesSaved = [&](const Candidate &c) { return int64_t(c.saved) * c.resident.bytes; };
    return bytesSaved(selection.candidates[a]) > bytesSaved(selection.candidates[b]);
  });
  for (size_t i : selection.leftOut)
    result.leftOut.push_back(selection.candidates[i].tensor);
  // From the end of the scratchpad down, so that the room of every kernel is one run from 0 on.
  const int64_t bank = int64_t(machine.scratchpads[0].bankBytes());
  std::vector<std::vector<Range>> taken(uses.kernels.size());
  for (const Place &place : selection.places) {
    const int64_t address = capacity - int64_t(place.range.address) - roundUp(int64_t(place.range.bytes), bank);
    for (size_t tenant : place.tenants) {
      const Candidate &candidate = selection.candidates[tenant];
      Resident &resident = result.tensors[candidate.tensor].emplace(candidate.resident);
      resident.address = address;
      resident.takesPlace = tenant != place.tenants.front();
    }
    for (unsigned k = place.range.begin; k <= place.range.end; ++k)
      taken[k].push_back({address, address + roundUp(int64_t(place.range.bytes), bank)});
  }
  for (auto [ranges, room, gap] : llvm::zip_equal(taken, result.room, result.gap)) {
    ranges.push_back({capacity, capacity});
    llvm::sort(ranges, [](const Range &a, const Range &b) { return a.begin < b.begin; });
    room = ranges.front().begin;
    int64_t end = ranges.front().end;
    for (const Range &next : llvm::drop_begin(ranges)) {
      const Range between{roundUp(end, bank), next.begin / bank * bank};
      if (between.size() > std::max(room, gap.size()))
        gap = between;
      end = std::max(end, next.end);
    }
  }
  return result;
}

int64_t ResidentChooser::Network::bytesLeaving(const Residency &whole, const Reserved &group) const {
  // A window of that many kernels, with the group in the middle where the network's ends allow it.
  const unsigned count = unsigned(uses.kernels.size()), length = std::max(kWindow, group.last - group.first + 1);
  const unsigned middle = group.first + (group.last - group.first) / 2;
  const unsigned first = std::min(middle - std::min(middle, length / 2), count - std::min(count, length));
  std::vector<size_t> near;
  alive.forEachNeighbour({0, first, std::min(first + length, count) - 1, 0}, [&](size_t i) { near.push_back(i); });
  llvm::sort(near);
  const Selection rest = select(near, {group});
  llvm::DenseSet<size_t> staying;
  for (const Place &place : rest.places)
    for (size_t i : place.tenants)
      staying.insert(rest.candidates[i].tensor);
  int64_t bytes = 0;
  for (size_t i : near) {
    const size_t t = candidates[i].tensor;
    if (whole.tensors[t] && !staying.contains(t) && !llvm::is_contained(group.tensors, t))
      bytes += whole.tensors[t]->bytes;
  }
  return bytes;
}

std::optional<RowsBetween> ResidentChooser::Network::rowsBetween(unsigned writer) const {
  const size_t tensor = uses.tensorOf[writer][size_t(uses.kernels[writer]->output.tensor)];
  const std::vector<Use> &list = all[tensor];
  if (!isUniform || !possible[tensor] || uses.shapes[tensor].empty() || uses.alsoInDram[tensor] || list.size() < 2)
    return std::nullopt;
  // Kernels that follow one another; the last one reads.
  for (auto [i, use] : llvm::enumerate(list))
    if (use.kernel != list[0].kernel + i || use.writes == (i + 1 == list.size()))
      return std::nullopt;
  const unsigned reader = unsigned(list.back().kernel);
  const Use &last = list.back();
  if (!uses.kernels[reader]->anchor || (!last.isAnchor && (!last.view.stride[C] || last.view.isPadded())) ||
      llvm::any_of(list, [](const Use &use) { return use.isWeights; }))
    return std::nullopt;
  std::optional<Resident> resident = layout(tensor, list, /*mayBePlanar=*/false);
  if (!resident || resident->isDense() || !llvm::all_of(list, [&](const Use &use) { return suits(*resident, use); }))
    return std::nullopt;
  if (uses.kernels[reader]->maxima) // bands are of rows of sums, of which some are made twice
    return std::nullopt;
  const Anchor &anchor = *uses.kernels[reader]->anchor;
  for (const Use &use : list) {
    const Kernel &kernel = *uses.kernels[use.kernel];
    int64_t rows = use.isAnchor ? anchor.axes[1].inputSize : kernel.extent[P1];
    int64_t width = use.isAnchor ? anchor.axes[0].inputSize : kernel.extent[P0];
    if (kernel.pool || kernel.extent[P2] != 1 || use.view.offset >= (use.writes ? resident->channels : 1) ||
        use.view.stride[P0] != resident->channels || use.view.stride[P1] != resident->channels * resident->width ||
        rows != resident->rows || width != resident->width)
      return std::nullopt;
  }
  // Rows of matrices are rows of one pixel.
  const bool areOfMatrices = uses.kernels[reader]->makesMatrixRows();
  if (llvm::any_of(list, [&](const Use &use) { return uses.kernels[use.kernel]->makesMatrixRows() != areOfMatrices; }))
    return std::nullopt;
  if (areOfMatrices) {
    resident->rows *= std::exchange(resident->width, 1);
    resident->rowBytes = resident->pixelBytes;
  }
  return RowsBetween{*resident, unsigned(list[0].kernel), reader, last.isAnchor ? -1 : last.view.tensor};
}

ResidentChooser::ResidentChooser(const NetworkUses &uses, const timing::MachineParams &machine)
    : network(std::make_unique<const Network>(uses, machine)) {}

ResidentChooser::~ResidentChooser() = default;

Residency ResidentChooser::choose(const std::vector<Reserved> &reserved) const { return network->choose(reserved); }

int64_t ResidentChooser::bytesLeaving(const Residency &whole, const Reserved &group) const {
  return network->bytesLeaving(whole, group);
}

std::optional<RowsBetween> ResidentChooser::rowsBetween(unsigned writer) const { return network->rowsBetween(writer); }

Residency accel::chooseResidents(const NetworkUses &uses, const timing::MachineParams &machine,
                                 const std::vector<Reserved> &reserved) {
  return ResidentChooser(uses, machine).choose(reserved);
}

std::optional<RowsBetween> accel::rowsBetween(const NetworkUses &uses, unsigned writer, const timing::MachineParams &machine) {
  return ResidentChooser(uses, machine).rowsBetween(writer);
}
