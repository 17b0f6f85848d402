//===- Prefetch.cpp - Weights on chip long before their kernel -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Prefetch.h"

#include "compiler/cost/Constants.h"
#include "compiler/schedule/SpaceMap.h"
#include "isa/timing/Dram.h"
#include "isa/timing/InstructionTiming.h"

#include <algorithm>
#include <optional>

using namespace tw;
using namespace tw::schedule;

namespace {
/// That weights fill one after the other, side by side: what does not fit the rest of one goes on in the next.
constexpr uint64_t kBanksTogether = 4;

/// What one load brings. Positions count the operations of the steps.
struct Value {
  Region place{};                 ///< where kernels put it
  std::vector<Operation *> users; ///< the load, and those that read it
  uint32_t begin, end;            ///< positions of the first and the last of them
  bool isParameter = false;
  bool stays = false;
  uint32_t notBefore = 0; ///< Operation::notBefore, of the load
};

struct Run;

struct Bank {
  unsigned space;
  uint64_t begin, end;
  bool mayHold;                                     ///< what moves
  std::vector<std::pair<uint32_t, uint32_t>> taken; ///< positions, first and last, for which it has what stays; sorted
  int64_t last = -1;                                ///< for which it has what has moved there
  const Run *run = nullptr;                         ///< that fills it, or will
};

/// Banks side by side that are being filled.
struct Run {
  size_t bank = 0, end = 0; ///< the one that is next, and behind the last one
  uint64_t next = 0;        ///< address
};

class Prefetcher {
public:
  Prefetcher(std::vector<Step> &steps, const timing::MachineParams &machine, uint64_t room)
      : steps(steps), machine(machine), room(room) {}
  bool run();

private:
  struct Move {
    Value *value;
    unsigned space;
    uint64_t address;
    std::vector<Region> banks; ///< that it is the first in
  };

  std::vector<Step> &steps;
  const timing::MachineParams &machine;
  uint64_t room; ///< of the first scratchpad
  std::vector<Value> values;
  std::vector<Bank> banks;       ///< of all scratchpads
  std::vector<size_t> firstBank; ///< of each of them

  template <typename Visit> void forEachOperation(Visit visit) {
    uint32_t position = 0;
    for (uint32_t step = 0; step < steps.size(); ++step) {
      for (Operation &load : steps[step].loads)
        visit(load, position++, step);
      for (Block &block : steps[step].compute)
        for (Operation &operation : block.operations)
          visit(operation, position++, step);
    }
  }
  bool isScratchpad(const Region &region) const { return region.space < machine.scratchpads.size(); }
  void findValues();
  std::vector<uint32_t> findStarts() const;
  void keepThoseInTime();
  void findTimes();
  int64_t takenUntil(const Bank &bank, const Value &value) const;
  int64_t freeSince(size_t first, size_t end, const Run &run, const Value &value) const;
  bool open(Run &run, const Value &value, uint64_t bytes);
  std::optional<Move> place(Run &run, Value &value);
  void apply(const Move &move) const;
};

/// Whether the region is the weights of a preload or the parameters of a vector instruction.
bool isOperand(const Operation &operation, const Region &region) {
  if (operation.instruction->getIf<isa::Preload>())
    return true;
  auto *vector = operation.instruction->getIf<isa::Vector>();
  return vector && vector->p_count && !region.write && region.space == unsigned(vector->p_memory) &&
         region.begin == uint64_t(vector->p_address);
}

/// Whether the load writes every byte of the region.
bool isDense(const isa::Load &load, const Region &region) {
  int64_t bytes = int64_t(1) << load.element_log2;
  for (int64_t count : load.counts)
    bytes *= count;
  return uint64_t(bytes) == region.end - region.begin;
}

void Prefetcher::findValues() {
  std::vector<SpaceMap<int32_t>> owners; // values, by the bytes that hold them
  std::vector<int32_t> operands;         // that an operation reads
  for (size_t space = 0; space < machine.scratchpads.size(); ++space)
    owners.emplace_back(kChipPageLog2, -1);
  forEachOperation([&](Operation &operation, uint32_t position, uint32_t) {
    const bool isVector = operation.instruction->getIf<isa::Vector>();
    operands.clear();
    for (const Region &region : operation.regions) {
      if (!isScratchpad(region) || region.write)
        continue;
      const bool mayMove = isOperand(operation, region);
      owners[region.space].look(region.begin, region.end, [&](int32_t owner) {
        if (mayMove && std::find(operands.begin(), operands.end(), owner) == operands.end())
          operands.push_back(owner);
        else if (!mayMove && owner >= 0)
          values[size_t(owner)].stays = true;
      });
    }
    // Of an operand that is in several pieces none moves.
    for (int32_t owner : operands)
      if (owner >= 0) {
        Value &value = values[size_t(owner)];
        value.stays |= operands.size() > 1 || (value.users.size() > 1 && value.isParameter != isVector);
        value.isParameter = isVector;
        value.end = position;
        value.users.push_back(&operation);
      }
    for (const Region &region : operation.regions) {
      if (!isScratchpad(region) || !region.write)
        continue;
      int32_t owner = -1;
      if (auto *load = operation.instruction->getIf<isa::Load>(); load && isDense(*load, region)) {
        owner = int32_t(values.size());
        values.push_back({region, {&operation}, position, position});
      }
      owners[region.space].assign(region.begin, region.end, owner, [](int32_t) {});
    }
  });
  for (Value &value : values)
    value.stays |= value.users.size() == 1;
}

/// Per step: 0 if its loads are in time where they are; else the step with which the array is when loads for this one may begin. Found
/// from the end: how late loads are that begin with their step, as those behind it are late already.
std::vector<uint32_t> Prefetcher::findStarts() const {
  const timing::Ratio peak = timing::dramPeakBytesPerCycle(machine);
  const double bytesPerCycle =
      std::min(cost::kMixedBandwidth * double(peak.numerator) / double(peak.denominator), timing::loadBytesPerCycle(machine));
  std::vector<double> loads(steps.size(), 0), array(steps.size(), 0);
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const Operation &operation : steps[i].loads) {
      const isa::Load &load = operation.instruction->as<isa::Load>();
      int64_t bytes = int64_t(1) << load.element_log2;
      for (unsigned d = 0; d < 5; ++d)
        bytes *= load.counts[d] - load.low[d] - load.high[d];
      loads[i] += double(bytes) / bytesPerCycle;
    }
    for (const Block &block : steps[i].compute) {
      uint64_t pass = 0;
      for (const Operation &operation : block.operations) {
        if (auto *tensor = operation.instruction->getIf<isa::Tensor>())
          pass = std::max(pass, timing::timeOf(*tensor, machine).occupancy);
        else if (auto *preload = operation.instruction->getIf<isa::Preload>())
          pass = std::max(pass, timing::timeOf(*preload, machine).occupancy);
      }
      array[i] += double(block.count * pass);
    }
  }
  std::vector<uint32_t> starts(steps.size(), 0);
  double late = 0, latest = 0;
  for (size_t i = steps.size(), end = i; i-- > 0;) {
    late = std::max(0.0, late + loads[i] - array[i]);
    latest = std::max(latest, late);
    if (late > 0 && i > 0)
      continue;
    const size_t first = late > 0 ? i : i + 1;
    size_t start = first;
    for (double lead = 0; start > 1 && lead < cost::kPrefetchLead * latest;)
      lead += array[--start];
    std::fill(starts.begin() + long(first), starts.begin() + long(end), uint32_t(std::max<size_t>(start, 1)));
    end = i;
    latest = 0;
  }
  return starts;
}

void Prefetcher::keepThoseInTime() {
  const std::vector<uint32_t> starts = findStarts();
  auto next = values.begin();
  forEachOperation([&](Operation &, uint32_t position, uint32_t step) {
    if (next == values.end() || next->begin != position)
      return;
    next->stays |= starts[step] == 0;
    next->notBefore = starts[step];
    ++next;
  });
}

/// When the banks have what stays: from its write, or the first read of what nothing has written, to its last use.
void Prefetcher::findTimes() {
  std::vector<const Operation *> moving;
  for (const Value &value : values)
    if (!value.stays)
      moving.insert(moving.end(), value.users.begin(), value.users.end());
  std::sort(moving.begin(), moving.end());
  std::vector<SpaceMap<uint32_t>> uses; // the last ones
  for (size_t space = 0; space < machine.scratchpads.size(); ++space) {
    const uint64_t bytes = machine.scratchpads[space].bankBytes();
    uses.emplace_back(kChipPageLog2, 0);
    firstBank.push_back(banks.size());
    for (uint64_t bank = 0; bank < machine.scratchpads[space].banks; ++bank)
      banks.push_back({unsigned(space), bank * bytes, (bank + 1) * bytes, space > 0 || (bank + 1) * bytes <= room, {}});
  }
  forEachOperation([&](Operation &operation, uint32_t position, uint32_t) {
    const bool moves = std::binary_search(moving.begin(), moving.end(), &operation);
    for (const Region &region : operation.regions) {
      if (!isScratchpad(region) || (moves && (operation.instruction->getIf<isa::Load>() || isOperand(operation, region))))
        continue;
      const size_t first = firstBank[region.space] + region.begin / machine.scratchpads[region.space].bankBytes();
      for (size_t bank = first; bank < banks.size() && banks[bank].space == region.space && banks[bank].begin < region.end;
           ++bank) {
        uint32_t since = position;
        uses[region.space].forRange(std::max(region.begin, banks[bank].begin), std::min(region.end, banks[bank].end),
                                    [&](uint32_t &last) {
                                      if (!region.write)
                                        since = std::min(since, last);
                                      last = position;
                                    });
        auto &taken = banks[bank].taken;
        for (; !taken.empty() && taken.back().second >= since; taken.pop_back())
          since = std::min(since, taken.back().first);
        taken.push_back({since, position});
      }
    }
  });
}

/// The last position, of those up to the value's last, for which the bank has something that stays; -1: none.
int64_t Prefetcher::takenUntil(const Bank &bank, const Value &value) const {
  auto isBehind = [](uint32_t position, const auto &times) { return position < times.first; };
  auto next = std::upper_bound(bank.taken.begin(), bank.taken.end(), value.end, isBehind);
  return next == bank.taken.begin() ? -1 : int64_t(std::prev(next)->second);
}

/// The last position for which one of the banks has something; the value's own, or later, where there is no room for it.
int64_t Prefetcher::freeSince(size_t first, size_t end, const Run &run, const Value &value) const {
  int64_t since = -1;
  for (size_t i = first; i < end; ++i) {
    const bool isFree = banks[i].mayHold && (!banks[i].run || banks[i].run == &run);
    since = std::max({since, isFree ? banks[i].last : int64_t(value.begin), takenUntil(banks[i], value)});
  }
  return since;
}

/// Takes the banks side by side that have been free longest; fewer, but as many as the value needs, if they are not to be had.
bool Prefetcher::open(Run &run, const Value &value, uint64_t bytes) {
  std::optional<Run> found;
  for (uint64_t together = value.isParameter ? 1 : kBanksTogether; together > 0 && !found; --together) {
    int64_t longest = value.begin;
    for (size_t i = 0; i < banks.size(); ++i) {
      const uint64_t bankBytes = banks[i].end - banks[i].begin;
      const size_t end = i + std::max(together, (bytes + bankBytes - 1) / bankBytes);
      if (end > banks.size() || banks[end - 1].space != banks[i].space)
        continue;
      // Of several the last ones: the kernels' activations are in the first scratchpad.
      if (const int64_t since = freeSince(i, end, run, value); since < value.begin && since <= longest) {
        longest = since;
        found = {i, end, banks[i].begin};
      }
    }
  }
  if (!found)
    return false;
  for (size_t i = run.bank; i < run.end; ++i)
    banks[i].run = nullptr;
  run = *found;
  for (size_t i = run.bank; i < run.end; ++i)
    banks[i].run = &run;
  return true;
}

std::optional<Prefetcher::Move> Prefetcher::place(Run &run, Value &value) {
  const uint64_t widest = uint64_t(machine.lanes) * 4; // vectors are read whole
  const uint64_t bytes = (value.place.end - value.place.begin + widest - 1) / widest * widest;
  auto isThere = [&] {
    if (run.bank == run.end || run.next + bytes > banks[run.end - 1].end)
      return false;
    for (size_t i = run.bank; i < run.end && banks[i].begin < run.next + bytes; ++i)
      if (takenUntil(banks[i], value) >= int64_t(value.begin))
        return false;
    return true;
  };
  if (!isThere() && !open(run, value, bytes))
    return std::nullopt;
  Move move{&value, banks[run.bank].space, run.next, {}};
  const uint64_t end = run.next + bytes;
  for (size_t i = run.bank; i < run.end; ++i) {
    if (banks[i].begin >= run.next && banks[i].begin < end)
      move.banks.push_back({banks[i].space, banks[i].begin, banks[i].end, true});
    banks[i].last = std::max(banks[i].last, int64_t(value.end));
  }
  run.next = end;
  for (; run.bank < run.end && banks[run.bank].end <= end; ++run.bank)
    banks[run.bank].run = nullptr;
  return move;
}

void Prefetcher::apply(const Move &move) const {
  const Region &place = move.value->place;
  auto moved = [&](auto from) { return decltype(from)(move.address + (uint64_t(from) - place.begin)); };
  for (Operation *user : move.value->users) {
    isa::Instruction &instruction = user->instruction.edit();
    if (auto *load = instruction.getIf<isa::Load>()) {
      load->memory = move.space;
      load->address = moved(load->address);
      instruction.header.unit = machine.loadEngines - 1;
    } else if (auto *preload = instruction.getIf<isa::Preload>()) {
      preload->memory = move.space;
      preload->address = moved(preload->address);
    } else if (auto *vector = instruction.getIf<isa::Vector>()) {
      vector->p_memory = move.space;
      vector->p_address = moved(vector->p_address);
    }
    for (Region &region : user->regions)
      if (region.space == place.space && region.begin >= place.begin && region.end <= place.end)
        region = {move.space, moved(region.begin), moved(region.end), region.write};
  }
  // The first load to a bank waits for all that read it before: an engine that reads a bank keeps others out of it.
  Operation &load = *move.value->users.front();
  load.notBefore = move.value->notBefore;
  load.regions.insert(load.regions.end(), move.banks.begin(), move.banks.end());
}

bool Prefetcher::run() {
  findValues();
  keepThoseInTime();
  findTimes();
  Run weights, parameters; // engines that read banks at the same time share none
  std::vector<Move> moves;
  for (Value &value : values) {
    if (value.stays)
      continue;
    std::optional<Move> move = place(value.isParameter ? parameters : weights, value);
    if (!move)
      return false;
    moves.push_back(std::move(*move));
  }
  for (const Move &move : moves)
    apply(move);
  return !moves.empty();
}
} // namespace

bool schedule::prefetch(std::vector<Step> &steps, const timing::MachineParams &machine, uint64_t room) {
  return Prefetcher(steps, machine, room).run();
}
