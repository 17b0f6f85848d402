//===- Mutate.cpp - Plants one fault in a program -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/e2e/mutants/Mutate.h"

#include "isa/Legality.h"

#include <functional>
#include <map>

using namespace tw;
using namespace tw::e2e;
using isa::Instruction;

namespace {

/// A program's instructions, and back.
struct Listing {
  std::vector<Instruction> code;
  std::vector<uint32_t> words, layers;
  /// Instructions with equal numbers run one after the other: no loop begins or ends between them.
  std::vector<unsigned> blocks;

  explicit Listing(const isa::Program &program);
  isa::Program apply(isa::Program program) const;
  std::string describe(size_t i) const { return "word " + std::to_string(words[i]) + " " + isa::print(code[i]).substr(0, 100); }
};

Listing::Listing(const isa::Program &program) {
  std::vector<uint32_t> ends;
  unsigned block = 0;
  for (uint32_t word = 0; word < program.code.size();) {
    while (!ends.empty() && ends.back() <= word)
      ends.pop_back(), ++block;
    Instruction instruction = isa::decode(&program.code[word], program.code.size() - word).instruction;
    const isa::Loop *loop = instruction.getIf<isa::Loop>();
    block += loop != nullptr;
    code.push_back(instruction);
    words.push_back(word);
    layers.push_back(program.layerOf.empty() ? 0 : program.layerOf[word]);
    blocks.push_back(block);
    word += instruction.words();
    if (loop)
      ends.push_back(uint32_t(word + loop->body_words)), ++block;
  }
}

isa::Program Listing::apply(isa::Program program) const {
  program.code.clear();
  std::vector<uint32_t> layerOf;
  for (size_t i = 0; i < code.size(); ++i) {
    isa::encode(code[i], program.code);
    layerOf.resize(program.code.size(), layers[i]);
  }
  if (!program.layerOf.empty())
    program.layerOf = layerOf;
  return program;
}

/// An on-chip operand, with every byte that it may touch in all executions.
struct Operand {
  int64_t memory = 0;
  int64_t *address = nullptr;
  int64_t unit = 1; ///< bytes of one step of the address
  int64_t begin = 0, end = 0;
  int64_t step = 1; ///< one vector, in units
  bool write = false;
};

std::vector<Operand> operandsOf(Instruction &instruction, const timing::MachineParams &machine) {
  std::vector<Operand> operands;
  auto add = [&](int64_t memory, int64_t &address, int64_t span, int64_t isa::Level::*stride, int64_t step, bool write,
                 int64_t unit = 1) {
    int64_t low = address, high = address + span;
    for (int64_t i = 0; i < instruction.header.num_levels; ++i) {
      const isa::Level &level = instruction.levels[i];
      int64_t last = (level.wrap ? std::min(level.wrap, level.count) : level.count) - 1, move = level.*stride * last;
      (move < 0 ? low : high) += move;
    }
    operands.push_back({memory, &address, unit, low * unit, high * unit, step, write});
  };
  const int64_t lanes = machine.lanes;
  auto vector = [&](int64_t type) { return lanes * isa::elementBytes(isa::VectorType(type)); };
  if (auto *load = instruction.getIf<isa::Load>()) {
    add(load->memory, load->address, load->span, &isa::Level::stride_b, lanes << load->element_log2, true);
  } else if (auto *store = instruction.getIf<isa::Store>()) {
    add(store->memory, store->address, store->span, &isa::Level::stride_b, lanes << store->element_log2, false);
  } else if (auto *preload = instruction.getIf<isa::Preload>()) {
    add(preload->memory, preload->address, preload->span, &isa::Level::stride_b, preload->row_stride, false);
  } else if (auto *tensor = instruction.getIf<isa::Tensor>()) {
    add(tensor->memory, tensor->address, tensor->span, &isa::Level::stride_b,
        machine.rows * timing::elementBytes(machine.arrayType), false);
    add(int64_t(isa::Memory::Accumulator), tensor->acc_address, tensor->acc_span, &isa::Level::stride_c, 1, true,
        machine.accumulatorRowBytes());
  } else if (auto *v = instruction.getIf<isa::Vector>()) {
    add(v->a_memory, v->a_address, v->a_span, &isa::Level::stride_b, vector(v->a_type), false);
    if (v->b_enable)
      add(v->b_memory, v->b_address, v->b_span, &isa::Level::stride_c, vector(v->b_type), false);
    if (v->p_count)
      add(v->p_memory, v->p_address, v->p_span, &isa::Level::stride_a, lanes * 4, false);
    add(v->d_memory, v->d_address, v->d_span, &isa::Level::stride_d, vector(v->d_type), true);
  }
  return operands;
}

/// One place where a fault can be planted: an instruction and one of its waits, posts or operands.
struct Place {
  size_t instruction = 0;
  int slot = 0;
};

class Mutator {
public:
  Mutator(const isa::Program &program, const timing::MachineParams &machine, std::mt19937_64 &random)
      : listing(program), program(program), machine(machine), random(random) {}

  /// Empty if there is no place.
  std::string plant(FaultClass fault);
  Listing listing;

private:
  std::vector<Place> places(int slots, const std::function<bool(const isa::Header &, int)> &fits) const;
  std::optional<Place> choose(const std::vector<Place> &from) {
    return from.empty() ? std::nullopt : std::optional<Place>(from[random() % from.size()]);
  }
  isa::Header &header(const Place &place) { return listing.code[place.instruction].header; }
  std::optional<Place> waitFor(const Place &post) const;
  std::string flipMask();
  std::string swap();
  std::string mergeSlots();
  std::string shiftAddress();
  std::string accumulate();
  std::string visitTwice();
  std::string storeAway();

  const isa::Program &program;
  const timing::MachineParams &machine;
  std::mt19937_64 &random;
};

std::vector<Place> Mutator::places(int slots, const std::function<bool(const isa::Header &, int)> &fits) const {
  std::vector<Place> result;
  for (size_t i = 0; i < listing.code.size(); ++i)
    for (int slot = 0; slot < slots; ++slot)
      if (fits(listing.code[i].header, slot))
        result.push_back({i, slot});
  return result;
}

/// The wait that takes a post's token, if posts and waits are counted as they stand in the text.
std::optional<Place> Mutator::waitFor(const Place &post) const {
  const int64_t semaphore = listing.code[post.instruction].header.post_semaphore[post.slot];
  int64_t before = 0, taken = 0;
  for (size_t i = 0; i < post.instruction; ++i)
    for (int s = 0; s < isa::kMaxPosts; ++s)
      if (listing.code[i].header.post_semaphore[s] == semaphore)
        before += listing.code[i].header.post_count[s];
  for (size_t i = 0; i < listing.code.size(); ++i)
    for (int s = 0; s < isa::kMaxWaits; ++s) {
      const isa::Header &header = listing.code[i].header;
      if (header.wait_semaphore[s] == semaphore && (taken += header.wait_count[s]) > before)
        return Place{i, s};
    }
  return std::nullopt;
}

std::string Mutator::flipMask() {
  std::optional<Place> place = choose(places(2, [](const isa::Header &h, int isPost) {
    return h.num_levels > 0 && (isPost ? h.post_count[0] : h.wait_count[0]) > 0;
  }));
  if (!place)
    return "";
  const int64_t level = int64_t(random() % uint64_t(header(*place).num_levels));
  (place->slot ? header(*place).post_mask : header(*place).wait_mask) ^= int64_t(1) << level;
  return std::string(place->slot ? "post" : "wait") + " mask, level " + std::to_string(level) + ", of " +
         listing.describe(place->instruction);
}

std::string Mutator::swap() {
  std::vector<std::pair<size_t, size_t>> pairs;
  std::map<std::pair<timing::EngineKind, int64_t>, size_t> previous;
  for (size_t i = 0; i < listing.code.size(); ++i) {
    if (listing.code[i].engine() == timing::EngineKind::Sequencer)
      continue;
    auto [it, isFirst] = previous.insert({{listing.code[i].engine(), listing.code[i].header.unit}, i});
    if (!isFirst && listing.blocks[it->second] == listing.blocks[i])
      pairs.push_back({it->second, i});
    it->second = i;
  }
  if (pairs.empty())
    return "";
  auto [first, second] = pairs[random() % pairs.size()];
  std::string place = listing.describe(first) + " <-> " + listing.describe(second);
  std::swap(listing.code[first], listing.code[second]);
  return place;
}

std::string Mutator::mergeSlots() {
  struct Slot {
    size_t instruction;
    int64_t memory, begin, end;
  };
  std::vector<Slot> slots;
  for (size_t i = 0; i < listing.code.size(); ++i)
    for (const Operand &operand : operandsOf(listing.code[i], machine))
      if (operand.write)
        slots.push_back({i, operand.memory, operand.begin, operand.end});
  std::vector<std::pair<Slot, Slot>> pairs;
  for (const Slot &kept : slots)
    for (const Slot &lost : slots) {
      bool isRing = kept.memory == lost.memory && kept.end - kept.begin == lost.end - lost.begin &&
                    (kept.end <= lost.begin || lost.end <= kept.begin) &&
                    listing.code[kept.instruction].engine() == listing.code[lost.instruction].engine();
      // Everybody who uses a part of the slot must use nothing else with the same operand, so that it can move.
      for (Instruction &other : listing.code)
        for (const Operand &o : operandsOf(other, machine)) {
          bool meets = o.memory == lost.memory && o.begin < lost.end && lost.begin < o.end;
          isRing &= !meets || (o.begin >= lost.begin && o.end <= lost.end);
        }
      if (isRing)
        pairs.push_back({kept, lost});
    }
  if (pairs.empty())
    return "";
  auto [kept, lost] = pairs[random() % pairs.size()];
  std::string place = "slot of " + listing.describe(lost.instruction) + " onto that of " + listing.describe(kept.instruction);
  for (Instruction &other : listing.code)
    for (const Operand &o : operandsOf(other, machine))
      if (o.memory == lost.memory && o.begin >= lost.begin && o.end <= lost.end)
        *o.address += (kept.begin - lost.begin) / o.unit;
  return place;
}

std::string Mutator::shiftAddress() {
  for (int attempt = 0; attempt < 100; ++attempt) {
    size_t i = random() % listing.code.size();
    Instruction &instruction = listing.code[i];
    std::vector<Operand> operands = operandsOf(instruction, machine);
    if (operands.empty())
      continue;
    const Operand &o = operands[random() % operands.size()];
    const int64_t by = random() % 2 ? o.step : -o.step, size = isa::memoryOf(isa::Memory(o.memory), machine)->capacityBytes;
    if (o.begin + by * o.unit < 0 || o.end + by * o.unit > size)
      continue;
    std::string place = listing.describe(i) + ", operand " + std::to_string(&o - operands.data()) + " by " + std::to_string(by);
    *o.address += by;
    return place;
  }
  return "";
}

std::string Mutator::accumulate() {
  std::vector<size_t> overwriting;
  for (size_t i = 0; i < listing.code.size(); ++i)
    if (const auto *tensor = listing.code[i].getIf<isa::Tensor>())
      if (!tensor->accumulate || tensor->clear_mask)
        overwriting.push_back(i);
  if (overwriting.empty())
    return "";
  const size_t i = overwriting[random() % overwriting.size()];
  isa::Tensor &tensor = listing.code[i].as<isa::Tensor>();
  tensor.accumulate = 1;
  tensor.clear_mask = 0;
  return listing.describe(i);
}

std::string Mutator::visitTwice() {
  std::vector<Place> dimensions;
  for (size_t i = 0; i < listing.code.size(); ++i)
    if (const auto *tensor = listing.code[i].getIf<isa::Tensor>())
      for (int d = 0; d < 3; ++d)
        if (tensor->counts[size_t(d)] > 1)
          dimensions.push_back({i, d});
  std::optional<Place> place = choose(dimensions);
  if (!place)
    return "";
  isa::Tensor &tensor = listing.code[place->instruction].as<isa::Tensor>();
  const size_t d = size_t(place->slot);
  // Rows and columns of one stride meet; a single dimension stands still.
  tensor.acc_strides[d] = d && tensor.counts[d - 1] > 1 ? tensor.acc_strides[d - 1] : 0;
  return "dimension " + std::to_string(d) + " of " + listing.describe(place->instruction);
}

std::string Mutator::storeAway() {
  std::vector<size_t> stores;
  for (size_t i = 0; i < listing.code.size(); ++i)
    if (listing.code[i].getIf<isa::Store>())
      stores.push_back(i);
  if (stores.empty())
    return "";
  const size_t i = stores[random() % stores.size()], constant = random() % (program.constants.size() + 1);
  const bool isCode = constant == program.constants.size();
  listing.code[i].as<isa::Store>().dram_address = int64_t(isCode ? program.codeAddress : program.constants[constant].address);
  return (isCode ? "onto the code: " : "onto constant " + std::to_string(constant) + ": ") + listing.describe(i);
}

std::string Mutator::plant(FaultClass fault) {
  auto waits = [](const isa::Header &h, int slot) { return h.wait_count[slot] > 0; };
  auto posts = [](const isa::Header &h, int slot) { return h.post_count[slot] > 0; };
  std::optional<Place> place;
  switch (fault) {
  case FaultClass::DropWait: {
    place = choose(places(isa::kMaxWaits, waits));
    if (!place)
      return "";
    std::string text = "wait " + std::to_string(place->slot) + " of " + listing.describe(place->instruction);
    header(*place).wait_count[place->slot] = 0;
    return text;
  }
  case FaultClass::DropPost:
  case FaultClass::DropPair:
  case FaultClass::SurplusPost: {
    place = choose(places(isa::kMaxPosts, posts));
    if (!place)
      return "";
    std::string text = "post " + std::to_string(place->slot) + " of " + listing.describe(place->instruction);
    if (fault == FaultClass::DropPair)
      if (std::optional<Place> wait = waitFor(*place)) {
        text += ", wait of " + listing.describe(wait->instruction);
        --header(*wait).wait_count[wait->slot];
      }
    header(*place).post_count[place->slot] += fault == FaultClass::SurplusPost ? 1 : -1;
    return text;
  }
  case FaultClass::FlipMask:
    return flipMask();
  case FaultClass::Swap:
    return swap();
  case FaultClass::MergeSlots:
    return mergeSlots();
  case FaultClass::ShiftAddress:
    return shiftAddress();
  case FaultClass::Accumulate:
    return accumulate();
  case FaultClass::VisitTwice:
    return visitTwice();
  case FaultClass::StoreAway:
    return storeAway();
  }
  return "";
}

} // namespace

std::optional<Mutant> e2e::mutate(const isa::Program &program, const timing::MachineParams &machine, FaultClass fault,
                                  std::mt19937_64 &random) {
  Mutator mutator(program, machine, random);
  std::string place = mutator.plant(fault);
  if (place.empty())
    return std::nullopt;
  return Mutant{mutator.listing.apply(program), place};
}
