//===- SequencerTest.cpp - tw_sequencer and tw_queue against the rules ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random programs on the verilated sequencer. A model of sections 2, 3 and 10
// of docs/timing.md steps beside it, with decode(), illegal(), resolve(),
// outOfRange() and bankMask() for what an instruction means; every output is
// compared in every cycle.
//===----------------------------------------------------------------------===//
#include "isa/Legality.h"
#include "isa/Odometer.h"
#include "tests/isa/RandomInstruction.h"
#include "tests/rtl/sequencer/Machines.h"
#include "tests/rtl/sequencer/RandomCode.h"

#include "Odd/VOdd.h"
#include "Plain/VPlain.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <set>

double sc_time_stamp() { return 0; }

using namespace tw;
using namespace tw::isa;
using namespace tw::test;

namespace {

constexpr unsigned kQueues = 11;

/// Words of a verilated port of any width.
template <typename T> uint32_t *wordsOf(T &port) { return reinterpret_cast<uint32_t *>(&port); }

struct Expected {
  Instruction resolved;
  Word first; ///< as it stands in the code
  uint64_t pc, banks;
  bool outOfRange;
  uint64_t visible;
};

/// The rules, one cycle at a time.
class Model {
public:
  Model(const std::vector<Word> &code, uint64_t address, const timing::MachineParams &machine)
      : code(code), address(address), machine(machine), burstBytes(machine.dram.burstBytes),
        base(address & ~uint64_t(burstBytes - 1)), odometers(code.size()) {}

  uint64_t wordsIn(uint64_t bursts) const {
    const uint64_t end = base + bursts * burstBytes;
    return end <= address ? 0 : std::min<uint64_t>(code.size(), (end - address) / kWordBytes);
  }
  uint64_t burstOf(uint64_t word) const { return (address + (word + 1) * kWordBytes - 1 - base) / burstBytes; }

  /// Whether the burst that is `ahead` of the next one is asked for in t, if those before it are granted.
  bool wants(uint64_t t, unsigned ahead) const {
    const uint64_t burst = arrivals.size() + ahead;
    if (t < machine.timing.start_cycles || code.empty() || burst > burstOf(code.size() - 1))
      return false;
    const uint64_t before = wordsIn(burst), after = wordsIn(burst + 1);
    return after - frontier <= machine.prefetchWords || frontier == before;
  }
  bool available(uint64_t t, uint64_t word) const {
    if (word < frontier)
      return true;
    uint64_t ready = 0;
    for (uint64_t burst = 0; burst <= burstOf(word); ++burst) {
      if (burst >= arrivals.size() || arrivals[burst] == UINT64_MAX)
        return false;
      ready = std::max(ready, arrivals[burst]);
    }
    return t >= ready + machine.timing.fetch_cycles;
  }

  // Results of a cycle.
  bool took = false, full = false, fault = false, halt = false;
  std::optional<unsigned> dispatched;

  void step(uint64_t t) {
    took = full = fault = halt = false;
    dispatched.reset();
    for (std::deque<uint64_t> &returns : slotReturns)
      while (!returns.empty() && returns.front() <= t)
        returns.pop_front();
    // In cycle 0 only the missing code is seen.
    if (halted)
      return;
    if (taken == 0 && pc >= code.size()) {
      fault = true;
      return;
    }
    const uint64_t word = pc + taken;
    if (!available(t, word))
      return;
    const unsigned claimed = unsigned(code[pc][0] >> 6) & 15;
    const unsigned length = claimed && pc + claimed <= code.size() ? claimed : 1;
    if (taken + 1 < length)
      return take(word);
    const Decoded decoded = decode(&code[pc], code.size() - pc);
    if (!decoded || illegal(decoded.instruction, machine) || (!loops.empty() && pc + length > loops.back().end)) {
      fault = true;
      return;
    }
    if (const Loop *loop = decoded.instruction.getIf<Loop>()) {
      const uint64_t end = pc + 1 + uint64_t(loop->body_words);
      if (loops.size() == kMaxLoopDepth || (!loops.empty() && end > loops.back().end)) {
        fault = true;
        return;
      }
      if (loops.empty())
        for (uint64_t i = pc; i < std::min<uint64_t>(end, code.size()); ++i)
          odometers[i].reset();
      loops.push_back({pc + 1, end, loop->count});
      take(word);
      return finish(length);
    }
    if (decoded.instruction.getIf<Halt>()) {
      fault = !loops.empty() || pc + 1 != code.size();
      if (!fault) {
        take(word);
        halt = halted = true;
      }
      return;
    }
    if (!resolved) {
      if (loops.empty())
        odometers[pc].reset();
      resolved = resolve(decoded.instruction, odometers[pc]);
    }
    if (!*resolved) {
      take(word);
      return finish(length);
    }
    const Instruction &now = **resolved;
    static const unsigned firstOf[] = {0, 4, 5, 6, 7};
    const unsigned engine = firstOf[unsigned(now.engine())] + unsigned(now.header.unit);
    if (queues[engine].size() + slotReturns[engine].size() >= machine.queueDepth) {
      full = true;
      return;
    }
    const bool out = bool(outOfRange(now, machine));
    queues[engine].push_back({now, code[pc], pc, out ? 0 : bankMask(now, machine), out, t + machine.timing.dispatch_cycles});
    dispatched = engine;
    take(word);
    finish(length);
  }
  void pop(uint64_t t, unsigned engine) {
    queues[engine].pop_front();
    slotReturns[engine].push_back(t + machine.timing.queue_free_cycles);
  }

  const std::vector<Word> &code;
  const uint64_t address;
  const timing::MachineParams &machine;
  const uint64_t burstBytes, base;
  std::vector<uint64_t> arrivals; ///< by burst that was requested
  std::array<std::deque<Expected>, kQueues> queues;
  uint64_t pc = 0, frontier = 0;
  bool halted = false;

private:
  void take(uint64_t word) {
    took = true;
    ++taken;
    if (word == frontier)
      ++frontier;
  }
  void finish(unsigned length) {
    pc += length;
    taken = 0;
    resolved.reset();
    while (!loops.empty() && pc == loops.back().end) {
      if (--loops.back().left) {
        pc = loops.back().begin;
        return;
      }
      loops.pop_back();
    }
  }

  struct Frame {
    uint64_t begin, end;
    int64_t left;
  };
  std::vector<Frame> loops;
  std::vector<OdometerState> odometers;
  unsigned taken = 0;
  std::optional<std::optional<Instruction>> resolved;
  std::array<std::deque<uint64_t>, kQueues> slotReturns;
};

/// The instruction's own bits, addresses cut to their fields.
std::vector<Word> encoded(Instruction instruction) {
  for (const FieldInfo &field : fieldsOf(instruction.opcode())) {
    const std::string name = field.name;
    if (name.size() >= 7 && name.substr(name.size() - 7) == "address")
      set(field, instruction.operandBase(), get(field, instruction.operandBase()) & ((int64_t(1) << field.width) - 1));
  }
  std::vector<Word> words;
  encode(instruction, words);
  return words;
}

struct Counts {
  uint64_t cycles = 0, dispatched = 0, dropped = 0, outOfRange = 0, faults = 0, halts = 0, held = 0;
};

template <typename Rtl> class Bench {
public:
  Bench(const timing::MachineParams &machine)
      : machine(machine), context(std::make_unique<VerilatedContext>()), rtl(context.get()) {}

  /// Runs one program until it halts and all is taken, or faults. Ends the test at the first difference.
  void run(const std::vector<Word> &code, std::mt19937_64 &random) {
    auto chance = [&](unsigned percent) { return random() % 100 < percent; };
    const unsigned grants = chance(50) ? 100 : 40, pops = unsigned(random() % 3) * 30 + 5;
    const uint64_t latency = 1 + random() % 12, jitter = chance(50) ? 1 : 1 + random() % 30;
    const uint64_t address = 64 * (1 + random() % 64);
    Model model(code, address, machine);
    struct Arrival {
      uint64_t burst, slot;
    };
    std::multimap<uint64_t, Arrival> arrivals;
    const unsigned responses = unsigned(sizeof rtl.rsp_slot_i / 4);
    std::set<uint64_t> outstanding;

    rtl.rst_ni = 0;
    rtl.start_i = rtl.stop_i = rtl.fetch_grant_i = rtl.rsp_valid_i = rtl.pop_i = 0;
    clock();
    rtl.rst_ni = 1;
    rtl.code_address_i = address;
    rtl.code_words_i = uint32_t(code.size());
    for (uint64_t t = 0; t < 20000; ++t) {
      ++counts.cycles;
      rtl.start_i = t == 0;
      // Responses.
      rtl.rsp_valid_i = 0;
      for (unsigned i = 0; i < responses && !arrivals.empty() && arrivals.begin()->first <= t; ++i) {
        const Arrival arrival = arrivals.begin()->second;
        arrivals.erase(arrivals.begin());
        model.arrivals[arrival.burst] = t;
        outstanding.erase(arrival.slot);
        rtl.rsp_valid_i = uint8_t(rtl.rsp_valid_i | 1u << i);
        wordsOf(rtl.rsp_slot_i)[i] = uint32_t(arrival.slot);
        for (uint64_t byte = 0; byte < model.burstBytes; ++byte) {
          const uint64_t at = model.base + arrival.burst * model.burstBytes + byte - address;
          const bool inside = model.base + arrival.burst * model.burstBytes + byte >= address && at < code.size() * kWordBytes;
          const uint8_t value =
              inside ? uint8_t(code[at / kWordBytes][at % kWordBytes / 8] >> (at % 8 * 8)) : uint8_t(random());
          reinterpret_cast<uint8_t *>(&rtl.rsp_data_i)[i * model.burstBytes + byte] = value;
        }
      }
      rtl.fetch_grant_i = 0;
      rtl.pop_i = 0;
      rtl.eval();
      // Requests.
      const unsigned perCycle = machine.burstsPerCycle;
      uint8_t grant = 0;
      bool all = true;
      const size_t requested = model.arrivals.size();
      for (unsigned i = 0; i < perCycle; ++i) {
        all = all && model.wants(t, i);
        ASSERT_EQ(rtl.fetch_valid_o >> i & 1, all) << "request " << i << " in cycle " << t;
        if (!all)
          continue;
        uint64_t asked = 0;
        std::memcpy(&asked, wordsOf(rtl.fetch_address_o) + 2 * i, 8);
        ASSERT_EQ(asked, model.base + (requested + i) * model.burstBytes) << "cycle " << t;
        if (grant + 1u == 1u << i && chance(grants))
          grant |= uint8_t(1u << i);
      }
      rtl.fetch_grant_i = grant;
      for (unsigned i = 0; grant >> i & 1; ++i) {
        const uint64_t slot = wordsOf(rtl.fetch_slot_o)[i];
        ASSERT_TRUE(outstanding.insert(slot).second) << "slot " << slot << " twice";
        arrivals.insert({t + latency + random() % jitter, {requested + i, slot}});
      }
      // Heads.
      for (unsigned e = 0; e < kQueues; ++e) {
        const auto &queue = model.queues[e];
        const bool visible = !queue.empty() && queue.front().visible <= t;
        ASSERT_EQ(rtl.head_valid_o >> e & 1, visible) << "queue " << e << ", cycle " << t;
        ASSERT_EQ(rtl.pending_o >> e & 1, !queue.empty()) << "queue " << e << ", cycle " << t;
        if (visible && chance(pops)) {
          rtl.pop_i = uint16_t(rtl.pop_i | 1u << e);
          rtl.select_i = uint8_t(e);
          rtl.eval();
          compare(queue.front());
          if (testing::Test::HasFatalFailure())
            return;
        }
      }
      rtl.eval();
      model.step(t);
      const std::string where = "cycle " + std::to_string(t) + ", pc " + std::to_string(model.pc);
      ASSERT_EQ(bool(rtl.fault_o), model.fault) << where << whyIllegal(model);
      if (model.fault) {
        ASSERT_EQ(rtl.fault_pc_o, model.pc) << where;
        ASSERT_FALSE(rtl.dispatch_valid_o) << where;
        ++counts.faults;
        // Stopped: it holds still.
        clock();
        rtl.stop_i = 1;
        rtl.fetch_grant_i = 0;
        rtl.pop_i = 0;
        rtl.eval();
        ASSERT_FALSE(rtl.dispatch_valid_o) << where;
        ASSERT_EQ(rtl.fetch_valid_o, 0) << where;
        return;
      }
      ASSERT_EQ(bool(rtl.dispatch_valid_o), bool(model.dispatched)) << where;
      if (model.dispatched) {
        ASSERT_EQ(rtl.dispatch_engine_o, *model.dispatched) << where;
        ++counts.dispatched;
      }
      ASSERT_EQ(bool(rtl.halt_o), model.halt) << where;
      ASSERT_EQ(bool(rtl.halted_o), model.halted && !model.halt) << where;
      const bool busy = model.took || grant;
      ASSERT_EQ(bool(rtl.busy_o), busy) << where;
      ASSERT_EQ(bool(rtl.full_o), model.full) << where;
      counts.held += model.full;
      const bool waits = !busy && !model.full && !(model.halted && !model.halt);
      ASSERT_EQ(bool(rtl.dram_wait_o), waits) << where;
      if (waits) {
        const uint64_t last = address + (model.frontier + 1) * kWordBytes - 1;
        const unsigned channels = machine.dram.kind == timing::DramKind::Ideal ? 1 : machine.dram.channels;
        ASSERT_EQ(rtl.dram_channel_o, last / model.burstBytes % channels) << where;
      }
      for (unsigned e = 0; e < kQueues; ++e)
        if (rtl.pop_i >> e & 1)
          model.pop(t, e);
      for (unsigned i = 0; grant >> i & 1; ++i)
        model.arrivals.push_back(UINT64_MAX);
      clock();
      bool empty = true;
      for (const auto &queue : model.queues)
        empty &= queue.empty();
      if (model.halted && empty) {
        ++counts.halts;
        return;
      }
    }
    FAIL() << "the program does not end";
  }

  Counts counts;

private:
  void clock() {
    rtl.clk_i = 0;
    rtl.eval();
    rtl.clk_i = 1;
    rtl.eval();
    rtl.clk_i = 0;
    rtl.eval();
  }
  std::string whyIllegal(const Model &model) const {
    if (model.pc >= model.code.size())
      return ", end of code";
    const Decoded decoded = decode(&model.code[model.pc], model.code.size() - model.pc);
    if (!decoded)
      return ", " + decoded.error;
    return ", " + print(decoded.instruction) + ": " + illegal(decoded.instruction, machine).value_or("legal");
  }
  void compare(const Expected &expected) {
    const std::string text = print(expected.resolved);
    ASSERT_EQ(rtl.head_pc_o, expected.pc);
    const Header &h = expected.resolved.header;
    uint64_t waits = 0, posts = 0;
    for (unsigned i = 0; i < 3; ++i) {
      waits |= uint64_t(h.wait_count[i]) << (18 + 4 * i) | uint64_t(h.wait_semaphore[i]) << (6 * i);
      posts |= uint64_t(h.post_count[i]) << (18 + 4 * i) | uint64_t(h.post_semaphore[i]) << (6 * i);
    }
    ASSERT_EQ(rtl.head_waits_o, waits) << text;
    ASSERT_EQ(rtl.head_posts_o, posts) << text;
    ASSERT_EQ(bool(rtl.head_out_of_range_o), expected.outOfRange)
        << text << outOfRange(expected.resolved, machine).value_or("");
    ASSERT_EQ(rtl.head_banks_o, expected.banks) << text;
    counts.outOfRange += expected.outOfRange;
    const std::vector<Word> words = encoded(expected.resolved);
    Word found;
    for (size_t i = 0; i < words.size(); ++i) {
      std::memcpy(&found, wordsOf(rtl.head_operands_o) + 8 * i, sizeof found);
      if (i == 0) {
        // The header is that of the code.
        constexpr unsigned kHeaderBits = 140;
        const uint64_t low = (uint64_t(1) << (kHeaderBits - 128)) - 1;
        ASSERT_EQ(found[0], expected.first[0]);
        ASSERT_EQ(found[1], expected.first[1]);
        ASSERT_EQ(found[2] & low, expected.first[2] & low);
        ASSERT_EQ(found[2] & ~low, words[0][2] & ~low) << text;
        ASSERT_EQ(found[3], words[0][3]) << text;
      } else {
        ASSERT_EQ(found, words[i]) << "word " << i << " of " << text;
      }
    }
  }

  const timing::MachineParams machine;
  std::unique_ptr<VerilatedContext> context;
  Rtl rtl;
};

template <typename Rtl> void runMany(const timing::MachineParams &machine, unsigned programs, unsigned length, Damage damage) {
  Bench<Rtl> bench(machine);
  uint64_t number = isa::test::seed();
  for (unsigned i = 0; i < programs; ++i, ++number) {
    std::mt19937_64 random(number);
    const std::vector<Word> code = RandomCode(machine, random).make(1 + unsigned(random() % length), damage);
    SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(number) + " " + machine.name);
    bench.run(code, random);
    if (testing::Test::HasFatalFailure())
      return;
  }
  const Counts &counts = bench.counts;
  std::printf("%s: %llu cycles, %llu dispatched, %llu out of range, %llu held, %llu halts, %llu faults\n", machine.name.c_str(),
              (unsigned long long)counts.cycles, (unsigned long long)counts.dispatched, (unsigned long long)counts.outOfRange,
              (unsigned long long)counts.held, (unsigned long long)counts.halts, (unsigned long long)counts.faults);
  // Else the programs have missed what they are for.
  if (damage == Damage::None) {
    EXPECT_EQ(counts.faults, 0u);
    EXPECT_GT(counts.outOfRange, counts.dispatched / 4);
    EXPECT_GT(counts.dispatched - counts.outOfRange, counts.dispatched / 4);
  } else {
    EXPECT_GT(counts.faults, programs / 10);
    EXPECT_GT(counts.halts, programs / 20);
  }
}

TEST(RtlSequencerTest, LegalProgramsOnAPlainMachine) { runMany<VPlain>(plainMachine(), 800, 12, Damage::None); }
TEST(RtlSequencerTest, LegalProgramsOnAnOddMachine) { runMany<VOdd>(oddMachine(), 800, 12, Damage::None); }
TEST(RtlSequencerTest, DamagedInstructionsOnAPlainMachine) { runMany<VPlain>(plainMachine(), 6000, 2, Damage::Instruction); }
TEST(RtlSequencerTest, DamagedInstructionsOnAnOddMachine) { runMany<VOdd>(oddMachine(), 6000, 2, Damage::Instruction); }
TEST(RtlSequencerTest, DamagedLoopsOnAPlainMachine) { runMany<VPlain>(plainMachine(), 1500, 8, Damage::Structure); }
TEST(RtlSequencerTest, DamagedLoopsOnAnOddMachine) { runMany<VOdd>(oddMachine(), 1500, 8, Damage::Structure); }

TEST(RtlSequencerTest, NoCodeIsAFaultInCycleZero) {
  std::mt19937_64 random(1);
  Bench<VPlain>(plainMachine()).run({}, random);
}

} // namespace
