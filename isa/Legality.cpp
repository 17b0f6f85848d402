//===- Legality.cpp - What a machine accepts --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/Legality.h"

#include "isa/Odometer.h"

#include <algorithm>
#include <cassert>
#include <initializer_list>
#include <type_traits>

namespace tw::isa {

using timing::MachineParams;
using timing::MemoryParams;

namespace {

/// What a message calls a value. Most instructions are legal and need no message, so the text is put together last.
struct Name {
  const char *prefix = "", *text;
  int64_t index = -1, level = -1;
  Name(const char *text) : text(text) {}
  Name(const char *prefix, const char *text) : prefix(prefix), text(text) {}
  Name at(size_t i) const {
    Name name = *this;
    name.index = int64_t(i);
    return name;
  }
  Name ofLevel(int64_t i) const {
    Name name = *this;
    name.level = i;
    return name;
  }
  std::string str() const {
    return (level < 0 ? "" : "level " + std::to_string(level) + ": ") + prefix + text +
           (index < 0 ? "" : "[" + std::to_string(index) + "]");
  }
};

/// The first broken rule wins; every check after it is skipped.
class Checker {
public:
  Checker(const Instruction &instruction, const MachineParams &machine) : instruction(instruction), machine(machine) {}

  std::optional<std::string> run() {
    checkHeader();
    checkLevels();
    checkEdges();
    std::visit([&](const auto &operands) { check(operands); }, instruction.operands);
    if (problem.empty())
      return std::nullopt;
    return std::string(instruction.info().mnemonic) + ": " + problem;
  }

private:
  void fail(const std::string &text) {
    if (problem.empty())
      problem = text;
  }
  void atLeastOne(const Name &name, int64_t value) {
    if (value < 1)
      fail(name.str() + " is " + std::to_string(value) + ", must be at least 1");
  }
  template <size_t N> void atLeastOne(const Name &name, const std::array<int64_t, N> &values) {
    for (size_t i = 0; i < N; ++i)
      atLeastOne(name.at(i), values[i]);
  }
  void atMost(const Name &name, int64_t value, int64_t maximum, const char *of) {
    if (value > maximum)
      fail(name.str() + " is " + std::to_string(value) + ", the machine has " + of + " = " + std::to_string(maximum));
  }
  /// `bytes` is a power of two.
  void aligned(const Name &name, int64_t value, int64_t bytes) {
    if (value & (bytes - 1))
      fail(name.str() + " is " + std::to_string(value) + ", not a multiple of the element size " + std::to_string(bytes));
  }
  template <size_t N> void aligned(const Name &name, const std::array<int64_t, N> &values, int64_t bytes) {
    for (size_t i = 0; i < N; ++i)
      aligned(name.at(i), values[i], bytes);
  }
  void alignedLevels(int64_t Level::*stride, const Name &name, int64_t bytes) {
    for (int64_t i = 0; i < instruction.header.num_levels; ++i)
      aligned(name.ofLevel(i), instruction.levels[i].*stride, bytes);
  }
  void unusedStride(int64_t Level::*stride, const Name &name) {
    for (int64_t i = 0; i < instruction.header.num_levels; ++i)
      if (instruction.levels[i].*stride != 0)
        fail(name.ofLevel(i).str() + " is " + std::to_string(instruction.levels[i].*stride) +
             ", but the instruction has no such address");
  }
  void inMask(const Name &name, int64_t mask) {
    if (mask >> instruction.header.num_levels)
      fail(name.str() + " is " + std::to_string(mask) + ", but there are only " +
           std::to_string(instruction.header.num_levels) + " levels");
  }
  void exists(const Name &name, int64_t memory) {
    if (!memoryOf(Memory(memory), machine))
      fail(name.str() + " is " + caseName(kMemoryEnumeration, memory) + ", which this machine has not got");
  }
  void isScratchpad(const Name &name, int64_t memory) {
    if (Memory(memory) == Memory::Accumulator)
      fail(name.str() + " is accumulator, must be a scratchpad");
    exists(name, memory);
  }
  void zeroPoint(const Name &name, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high)
      fail(name.str() + " is " + std::to_string(value) + ", allowed is " + std::to_string(low) + " to " + std::to_string(high));
  }

  void checkHeader() {
    const Header &h = instruction.header;
    int64_t units = 1;
    if (instruction.engine() == timing::EngineKind::Load)
      units = machine.loadEngines;
    else if (instruction.engine() == timing::EngineKind::Store)
      units = machine.storeEngines;
    if (h.unit >= units)
      fail("unit is " + std::to_string(h.unit) + ", the machine has " + std::to_string(units));
    auto semaphores = [&](const Name &semaphoreName, const Name &countName, const auto &semaphore, const auto &count) {
      for (size_t i = 0; i < count.size(); ++i) {
        if (count[i] == 0)
          continue;
        if (semaphore[i] >= machine.semaphores)
          fail(semaphoreName.at(i).str() + " is " + std::to_string(semaphore[i]) + ", the machine has " +
               std::to_string(machine.semaphores));
        atMost(countName.at(i), count[i], machine.semaphoreMax, "semaphore_max");
      }
    };
    semaphores("wait_semaphore", "wait_count", h.wait_semaphore, h.wait_count);
    semaphores("post_semaphore", "post_count", h.post_semaphore, h.post_count);
    inMask("wait_mask", h.wait_mask);
    inMask("post_mask", h.post_mask);
    inMask("predicate_mask", h.predicate_mask);
    if (instruction.engine() != timing::EngineKind::Sequencer)
      return;
    Header plain;
    plain.opcode = h.opcode;
    plain.words = h.words;
    for (const FieldInfo &field : headerFields())
      if (get(field, &h) != get(field, &plain))
        fail(nameOf(field) + " is " + std::to_string(get(field, &h)) + ", must be 0 for the sequencer");
  }

  void checkLevels() {
    for (int64_t i = 0; i < instruction.header.num_levels; ++i)
      atLeastOne(Name("count").ofLevel(i), instruction.levels[i].count);
  }

  void checkEdges() {
    const Header &h = instruction.header;
    for (size_t e = 0; e < h.edge_value.size(); ++e) {
      if (h.edge_value[e] == 0)
        continue;
      std::string slot = "[" + std::to_string(e) + "]";
      if (h.edge_level[e] >= h.num_levels)
        fail("edge_level" + slot + " is " + std::to_string(h.edge_level[e]) + ", but there are only " +
             std::to_string(h.num_levels) + " levels");
      Instruction copy = instruction;
      if (!countOf(copy, h.edge_index[e]))
        fail("edge_index" + slot + " is " + std::to_string(h.edge_index[e]) + ", but counts has no such element");
    }
  }

  void check(const Halt &) {}

  void check(const Loop &loop) {
    atLeastOne("count", loop.count);
    atLeastOne("body_words", loop.body_words);
    atMost("body_words", loop.body_words, machine.loopBufferWords, "loop_buffer_words");
  }

  template <typename T> void checkBox(const T &box) {
    const int64_t bytes = int64_t(1) << box.element_log2;
    isScratchpad("memory", box.memory);
    atLeastOne("span", box.span);
    atLeastOne("counts", box.counts);
    aligned("dram_address", box.dram_address, bytes);
    aligned("address", box.address, bytes);
    aligned("dram_strides", box.dram_strides, bytes);
    aligned("strides", box.strides, bytes);
    alignedLevels(&Level::stride_a, "stride_a", bytes);
    alignedLevels(&Level::stride_b, "stride_b", bytes);
    unusedStride(&Level::stride_c, "stride_c");
    unusedStride(&Level::stride_d, "stride_d");
  }

  void check(const Load &load) {
    checkBox(load);
    for (size_t i = 0; i < load.counts.size(); ++i)
      if (load.low[i] + load.high[i] > load.counts[i])
        fail("low + high of dimension " + std::to_string(i) + " is " + std::to_string(load.low[i] + load.high[i]) +
             ", more than counts[" + std::to_string(i) + "] = " + std::to_string(load.counts[i]));
    const int64_t bits = 8 << load.element_log2;
    if (bits < 32 && load.fill >> bits)
      fail("fill is " + std::to_string(load.fill) + ", more than an element holds");
  }

  void check(const Store &store) { checkBox(store); }

  /// Preload and tensor: sign and zero point belong to int8 arrays.
  template <typename T> void checkArrayOperand(const T &o) {
    if (machine.arrayType == timing::ArrayType::Int8) {
      zeroPoint("zero_point", o.zero_point, o.is_signed ? -128 : 0, o.is_signed ? 127 : 255);
      return;
    }
    if (o.is_signed)
      fail("is_signed is 1, must be 0 on a float array");
    zeroPoint("zero_point", o.zero_point, 0, 0);
  }

  void check(const Preload &preload) {
    const int64_t bytes = timing::elementBytes(machine.arrayType);
    isScratchpad("memory", preload.memory);
    atLeastOne("span", preload.span);
    atLeastOne("k_count", preload.k_count);
    atLeastOne("n_count", preload.n_count);
    atMost("k_count", preload.k_count, machine.rows, "rows");
    atMost("n_count", preload.n_count, machine.cols, "cols");
    aligned("address", preload.address, bytes);
    aligned("row_stride", preload.row_stride, bytes);
    alignedLevels(&Level::stride_b, "stride_b", bytes);
    unusedStride(&Level::stride_a, "stride_a");
    unusedStride(&Level::stride_c, "stride_c");
    unusedStride(&Level::stride_d, "stride_d");
    checkArrayOperand(preload);
  }

  void check(const Tensor &tensor) {
    const int64_t bytes = timing::elementBytes(machine.arrayType);
    isScratchpad("memory", tensor.memory);
    atLeastOne("span", tensor.span);
    atLeastOne("acc_span", tensor.acc_span);
    atLeastOne("counts", tensor.counts);
    atLeastOne("k_count", tensor.k_count);
    atMost("k_count", tensor.k_count, machine.rows, "rows");
    aligned("address", tensor.address, bytes);
    aligned("strides", tensor.strides, bytes);
    alignedLevels(&Level::stride_b, "stride_b", bytes);
    unusedStride(&Level::stride_a, "stride_a");
    unusedStride(&Level::stride_d, "stride_d");
    inMask("clear_mask", tensor.clear_mask);
    checkArrayOperand(tensor);
  }

  void checkVectorOperand(const char *letter, int64_t memory, int64_t type, int64_t address, int64_t span,
                          const std::array<int64_t, 4> &strides) {
    const int64_t bytes = elementBytes(VectorType(type));
    exists({letter, "_memory"}, memory);
    atLeastOne({letter, "_span"}, span);
    aligned({letter, "_address"}, address, bytes);
    aligned({letter, "_strides"}, strides, bytes);
  }

  void vectorZeroPoint(const Name &name, int64_t type, int64_t value) {
    switch (VectorType(type)) {
    case VectorType::I8:
      return zeroPoint(name, value, -128, 127);
    case VectorType::U8:
      return zeroPoint(name, value, 0, 255);
    default:
      return zeroPoint(name, value, 0, 0);
    }
  }

  void check(const Vector &v) {
    const bool mac = WindowOp(v.window_op) == WindowOp::Mac;
    atLeastOne("counts", v.counts);
    atLeastOne("window", v.window);
    checkVectorOperand("a", v.a_memory, v.a_type, v.a_address, v.a_span, v.a_strides);
    aligned("a_window_strides", v.a_window_strides, elementBytes(VectorType(v.a_type)));
    alignedLevels(&Level::stride_b, "stride_b", elementBytes(VectorType(v.a_type)));
    vectorZeroPoint("a_zero_point", v.a_type, v.a_zero_point);
    checkVectorOperand("d", v.d_memory, v.d_type, v.d_address, v.d_span, v.d_strides);
    alignedLevels(&Level::stride_d, "stride_d", elementBytes(VectorType(v.d_type)));
    if (v.b_enable) {
      checkVectorOperand("b", v.b_memory, v.b_type, v.b_address, v.b_span, v.b_strides);
      aligned("b_tap_stride", v.b_tap_stride, elementBytes(VectorType(v.b_type)));
      alignedLevels(&Level::stride_c, "stride_c", elementBytes(VectorType(v.b_type)));
      vectorZeroPoint("b_zero_point", v.b_type, v.b_zero_point);
    } else {
      unusedStride(&Level::stride_c, "stride_c");
    }
    if (v.p_count > 0) {
      exists("p_memory", v.p_memory);
      atLeastOne("p_span", v.p_span);
      aligned("p_address", v.p_address, 4);
      alignedLevels(&Level::stride_a, "stride_a", 4);
    } else {
      unusedStride(&Level::stride_a, "stride_a");
    }

    if (WindowOp(v.window_op) == WindowOp::None && (v.window[0] != 1 || v.window[1] != 1))
      fail("window is " + std::to_string(v.window[0]) + " x " + std::to_string(v.window[1]) +
           ", must be 1 x 1 without a window_op");
    if (mac && !v.b_enable)
      fail("window_op is mac, but b_enable is 0");
    if (mac && isFloat(VectorType(v.a_type)) != isFloat(VectorType(v.b_type)))
      fail("window_op is mac, but a_type and b_type are not both integer or "
           "both float");
    if (mac && Conversion(v.b_convert) != Conversion::None)
      fail("window_op is mac, but b_convert is not none");
    if (v.lane_reduce && (WindowOp(v.window_op) == WindowOp::None || mac))
      fail("lane_reduce is 1, but window_op is neither max nor sum nor sum_squares");
    if (!v.lane_reduce && v.tail_lanes)
      fail("tail_lanes is " + std::to_string(v.tail_lanes) + ", but lane_reduce is 0");
    atMost("tail_lanes", v.tail_lanes, machine.lanes, "lanes");
    if (mac && v.window[0] * v.window[1] > kMaxMacTaps)
      fail("window is " + std::to_string(v.window[0]) + " x " + std::to_string(v.window[1]) +
           ", but window_op mac takes at most " + std::to_string(kMaxMacTaps) + " taps");
    atMost("num_stages", v.num_stages, machine.vectorStages, "stages");
    if (v.window_step != 0 && v.a_strides[0] != v.window_step * v.a_window_strides[0])
      fail("window_step is " + std::to_string(v.window_step) + ", but a_strides[0] = " + std::to_string(v.a_strides[0]) +
           " is not so many times a_window_strides[0] = " + std::to_string(v.a_window_strides[0]));
    checkChain(v, mac);
  }

  enum class Domain { Int, Float };

  void checkChain(const Vector &v, bool mac) {
    auto domainOf = [](int64_t type) { return isFloat(VectorType(type)) ? Domain::Float : Domain::Int; };
    const Domain b = Conversion(v.b_convert) == Conversion::None ? domainOf(v.b_type) : Domain::Float;
    Domain x = domainOf(v.a_type), saved = x;
    for (size_t s = 0; s < v.stage_op.size() && problem.empty(); ++s) {
      const StageOp op = StageOp(v.stage_op[s]);
      const StageOperand operand = StageOperand(v.stage_operand[s]);
      auto failStage = [&](const std::string &text) {
        fail("stage " + std::to_string(s) + " (" + caseName(kStageOpEnumeration, v.stage_op[s]) + "): " + text);
      };
      auto operandName = [&]() -> std::string { return caseName(kStageOperandEnumeration, v.stage_operand[s]); };
      auto needDomain = [&](Domain wanted, Domain found, const char *what) {
        if (wanted != found)
          failStage(std::string(what) + " is " + (found == Domain::Int ? "an integer" : "a float") + ", must be " +
                    (wanted == Domain::Int ? "an integer" : "a float"));
      };
      auto needB = [&] {
        if (!v.b_enable || mac)
          failStage(std::string("source B is not available: ") + (mac ? "window_op is mac" : "b_enable is 0"));
      };
      auto noOperand = [&] {
        if (operand != StageOperand::None)
          failStage("takes no operand, found " + operandName());
      };
      // y of a binary stage; parameters and immediates are bit patterns and
      // take the stage's domain.
      auto binary = [&](Domain domain) {
        needDomain(domain, x, "the chain's value");
        if (operand == StageOperand::None)
          failStage("needs an operand");
        else if (operand == StageOperand::B) {
          needB();
          needDomain(domain, b, "operand b");
        } else if (operand == StageOperand::Saved)
          needDomain(domain, saved, "operand saved");
        else if (operand >= StageOperand::P0 && operand <= StageOperand::P3 &&
                 int64_t(operand) - int64_t(StageOperand::P0) >= v.p_count)
          failStage("operand " + operandName() + ", but p_count is " + std::to_string(v.p_count));
      };
      auto constants = [&](int64_t number) {
        const int64_t first = int64_t(operand) - int64_t(StageOperand::Imm0);
        if (first < 0)
          failStage("the operand must be an immediate, found " + operandName());
        else if (first + number > kMaxImmediates)
          failStage("needs " + std::to_string(number) + " immediates from " + operandName() + " on");
      };
      auto unary = [&](Domain from, Domain to) {
        noOperand();
        needDomain(from, x, "the chain's value");
        x = to;
      };
      if (int64_t(s) >= v.num_stages) {
        if (op != StageOp::Nop || operand != StageOperand::None)
          failStage("beyond num_stages = " + std::to_string(v.num_stages));
        continue;
      }
      switch (op) {
      case StageOp::Nop:
        noOperand();
        break;
      case StageOp::Iadd:
      case StageOp::Isub:
      case StageOp::Irsub:
      case StageOp::Imul:
      case StageOp::Imax:
      case StageOp::Imin:
      case StageOp::Idiv:
      case StageOp::Iridiv:
      case StageOp::Ishr:
      case StageOp::Iand:
      case StageOp::Ior:
      case StageOp::Ixor:
        binary(Domain::Int);
        break;
      case StageOp::Fadd:
      case StageOp::Fsub:
      case StageOp::Frsub:
      case StageOp::Fmul:
      case StageOp::Fdiv:
      case StageOp::Frdiv:
      case StageOp::Fmax:
      case StageOp::Fmin:
        binary(Domain::Float);
        break;
      case StageOp::Ffma:
        needDomain(Domain::Float, x, "the chain's value");
        constants(2);
        break;
      case StageOp::FfmaB:
        needDomain(Domain::Float, x, "the chain's value");
        needB();
        needDomain(Domain::Float, b, "source B");
        constants(1);
        break;
      case StageOp::Fabs:
      case StageOp::Fneg:
      case StageOp::Ffloor:
      case StageOp::Fsqrt:
      case StageOp::Frsqrt:
      case StageOp::Fexp:
      case StageOp::Fsigmoid:
      case StageOp::Ftanh:
      case StageOp::Ferf:
      case StageOp::Flog:
        unary(Domain::Float, Domain::Float);
        break;
      case StageOp::I2f:
        unary(Domain::Int, Domain::Float);
        break;
      case StageOp::F2i:
      case StageOp::F2iTrunc:
        unary(Domain::Float, Domain::Int);
        break;
      case StageOp::Quantize:
        needDomain(Domain::Float, x, "the chain's value");
        constants(1);
        x = Domain::Int;
        break;
      case StageOp::Dequantize:
        needDomain(Domain::Int, x, "the chain's value");
        constants(2);
        x = Domain::Float;
        break;
      case StageOp::Save:
        noOperand();
        saved = x;
        break;
      case StageOp::LoadB:
        noOperand();
        needB();
        x = b;
        break;
      case StageOp::LoadSaved:
        noOperand();
        x = saved;
        break;
      }
    }
    if (x != domainOf(v.d_type))
      fail(std::string("the chain ends with ") + (x == Domain::Int ? "an integer" : "a float") + ", but d_type is " +
           caseName(kVectorTypeEnumeration, v.d_type));
  }

  const Instruction &instruction;
  const MachineParams &machine;
  std::string problem;
};

/// Offsets a strided walk reaches: [low, high] of the first byte of an access.
/// Products stay below 2^52 and sums below 2^55.
struct Reach {
  int64_t low = 0, high = 0;
  void walk(int64_t stride, int64_t steps) {
    if (steps <= 0)
      return;
    (stride < 0 ? low : high) += stride * steps;
  }
};

class RangeChecker {
public:
  RangeChecker(const Instruction &instruction, const MachineParams &machine) : instruction(instruction), machine(machine) {}

  std::optional<std::string> run() {
    std::visit([&](const auto &operands) { check(operands); }, instruction.operands);
    if (problem.empty())
      return std::nullopt;
    return std::string(instruction.info().mnemonic) + ": " + problem;
  }

private:
  void fail(const std::string &text) {
    if (problem.empty())
      problem = text;
  }

  /// [address, address + span) lies in the memory of `capacity` units, and the
  /// walk with accesses of `width` units in it.
  void region(const char *prefix, const char *memory, int64_t address, int64_t span, int64_t capacity, const Reach &reach,
              int64_t width) {
    if (address < 0 || address + span > capacity)
      return fail(std::string(prefix) + "address " + std::to_string(address) + " + " + prefix + "span " + std::to_string(span) +
                  " is not within " + memory + " of " + std::to_string(capacity));
    if (reach.low < 0 || reach.high + width > span)
      fail(std::string(prefix) + "span is " + std::to_string(span) + ", but accesses reach from " + prefix + "address + " +
           std::to_string(reach.low) + " to + " + std::to_string(reach.high + width - 1));
  }
  void region(const char *prefix, int64_t memory, int64_t address, int64_t span, const Reach &reach, int64_t width) {
    region(prefix, caseName(kMemoryEnumeration, memory), address, span,
           int64_t(memoryOf(Memory(memory), machine)->capacityBytes), reach, width);
  }
  void dram(const DramRange &range) {
    if (range.begin < 0 || range.end > int64_t(machine.dram.capacityBytes))
      fail("dram bytes " + std::to_string(range.begin) + " to " + std::to_string(range.end - 1) +
           " are not within the capacity " + std::to_string(machine.dram.capacityBytes));
  }

  void check(const Halt &) {}
  void check(const Loop &) {}

  template <typename T> Reach scratchpadReach(const T &box) {
    const int64_t bytes = int64_t(1) << box.element_log2;
    Reach reach;
    reach.walk(bytes, box.counts[0] - 1);
    for (size_t d = 1; d < box.counts.size(); ++d)
      reach.walk(box.strides[d - 1], box.counts[d] - 1);
    return reach;
  }

  void check(const Load &load) {
    const int64_t bytes = int64_t(1) << load.element_log2;
    region("", load.memory, load.address, load.span, scratchpadReach(load), bytes);
    for (size_t d = 0; d < load.counts.size(); ++d)
      if (load.low[d] + load.high[d] > load.counts[d])
        fail("low + high of dimension " + std::to_string(d) + " is " + std::to_string(load.low[d] + load.high[d]) +
             ", more than counts[" + std::to_string(d) + "] = " + std::to_string(load.counts[d]));
    dram(dramBytesOf(load));
  }

  void check(const Store &store) {
    const int64_t bytes = int64_t(1) << store.element_log2;
    region("", store.memory, store.address, store.span, scratchpadReach(store), bytes);
    dram(dramBytesOf(store));
  }

  void check(const Preload &preload) {
    const int64_t bytes = timing::elementBytes(machine.arrayType);
    const int64_t rows = preload.transpose ? preload.n_count : preload.k_count;
    const int64_t row = preload.transpose ? preload.k_count : preload.n_count;
    Reach reach;
    reach.walk(preload.row_stride, rows - 1);
    region("", preload.memory, preload.address, preload.span, reach, row * bytes);
  }

  void check(const Tensor &tensor) {
    Reach in, out;
    for (size_t d = 0; d < tensor.counts.size(); ++d) {
      in.walk(tensor.strides[d], tensor.counts[d] - 1);
      out.walk(tensor.acc_strides[d], tensor.counts[d] - 1);
    }
    region("", tensor.memory, tensor.address, tensor.span, in, tensor.k_count * timing::elementBytes(machine.arrayType));
    region("acc_", "accumulator rows", tensor.acc_address, tensor.acc_span, int64_t(machine.accumulatorRows()), out, 1);
  }

  void check(const Vector &v) {
    const int64_t lanes = machine.lanes;
    Reach a, b, d;
    for (size_t i = 0; i < v.counts.size(); ++i) {
      a.walk(v.a_strides[i], v.counts[i] - 1);
      d.walk(v.d_strides[i], v.counts[i] - 1);
    }
    for (size_t i = 0; i < v.window.size(); ++i)
      a.walk(v.a_window_strides[i], v.window[i] - 1);
    region("a_", v.a_memory, v.a_address, v.a_span, a, lanes * elementBytes(VectorType(v.a_type)));
    if (v.b_enable) {
      if (WindowOp(v.window_op) == WindowOp::Mac) {
        b.walk(v.b_strides[3], v.counts[3] - 1);
        b.walk(v.b_tap_stride, v.window[0] * v.window[1] - 1);
      } else {
        for (size_t i = 0; i < v.counts.size(); ++i)
          b.walk(v.b_strides[i], v.counts[i] - 1);
      }
      region("b_", v.b_memory, v.b_address, v.b_span, b, lanes * elementBytes(VectorType(v.b_type)));
    }
    if (v.p_count > 0)
      region("p_", v.p_memory, v.p_address, v.p_span, Reach{}, v.counts[3] * v.p_count * lanes * 4);
    region("d_", v.d_memory, v.d_address, v.d_span, d, lanes * elementBytes(VectorType(v.d_type)));
  }

  const Instruction &instruction;
  const MachineParams &machine;
  std::string problem;
};

} // namespace

const MemoryParams *memoryOf(Memory memory, const MachineParams &machine) {
  if (memory == Memory::Accumulator)
    return &machine.accumulator;
  return size_t(memory) < machine.scratchpads.size() ? &machine.scratchpads[size_t(memory)] : nullptr;
}

std::optional<std::string> illegal(const Instruction &instruction, const MachineParams &machine) {
  return Checker(instruction, machine).run();
}

std::optional<std::string> outOfRange(const Instruction &resolved, const MachineParams &machine) {
  assert(resolved.header.num_levels == 0 && "resolve() first");
  return RangeChecker(resolved, machine).run();
}

DramRange dramBytesOf(const Load &load) {
  const int64_t bytes = int64_t(1) << load.element_log2;
  Reach reach;
  for (size_t d = 0; d < load.counts.size(); ++d) {
    const int64_t inside = load.counts[d] - load.low[d] - load.high[d];
    if (inside <= 0)
      return {};
    reach.walk(d == 0 ? (load.broadcast ? 0 : bytes) : load.dram_strides[d - 1], inside - 1);
  }
  return {load.dram_address + reach.low, load.dram_address + reach.high + bytes};
}

DramRange dramBytesOf(const Store &store) {
  const int64_t bytes = int64_t(1) << store.element_log2;
  Reach reach;
  reach.walk(bytes, store.counts[0] - 1);
  for (size_t d = 1; d < store.counts.size(); ++d)
    reach.walk(store.dram_strides[d - 1], store.counts[d] - 1);
  return {store.dram_address + reach.low, store.dram_address + reach.high + bytes};
}

Regions regionsOf(const Instruction &resolved, const MachineParams &machine) {
  Regions regions;
  auto add = [&](int64_t memory, int64_t address, int64_t span, bool write) {
    regions.add({Memory(memory), uint64_t(address), uint64_t(address + span), write});
  };
  std::visit(
      [&](const auto &o) {
        using T = std::decay_t<decltype(o)>;
        if constexpr (std::is_same_v<T, Load>) {
          add(o.memory, o.address, o.span, true);
        } else if constexpr (std::is_same_v<T, Store> || std::is_same_v<T, Preload>) {
          add(o.memory, o.address, o.span, false);
        } else if constexpr (std::is_same_v<T, Tensor>) {
          add(o.memory, o.address, o.span, false);
          const int64_t row = machine.accumulatorRowBytes();
          add(int64_t(Memory::Accumulator), o.acc_address * row, o.acc_span * row, true);
        } else if constexpr (std::is_same_v<T, Vector>) {
          add(o.a_memory, o.a_address, o.a_span, false);
          if (o.b_enable)
            add(o.b_memory, o.b_address, o.b_span, false);
          if (o.p_count > 0)
            add(o.p_memory, o.p_address, o.p_span, false);
          add(o.d_memory, o.d_address, o.d_span, true);
        }
      },
      resolved.operands);
  return regions;
}

unsigned firstBank(Memory memory, const MachineParams &machine) {
  unsigned first = 0;
  for (size_t i = 0; i < machine.scratchpads.size(); ++i) {
    if (memory != Memory::Accumulator && i == size_t(memory))
      break;
    first += machine.scratchpads[i].banks;
  }
  return first;
}

uint64_t bankMask(const Instruction &resolved, const MachineParams &machine) {
  uint64_t mask = 0;
  for (const Region &region : regionsOf(resolved, machine)) {
    const MemoryParams &memory = *memoryOf(region.memory, machine);
    const uint64_t first = region.begin / memory.bankBytes(), last = (region.end - 1) / memory.bankBytes();
    const unsigned base = firstBank(region.memory, machine);
    assert(last < memory.banks && base + memory.banks <= 64 && "out of range, or more than 64 banks");
    for (uint64_t bank = first; bank <= last; ++bank)
      mask |= uint64_t(1) << (base + bank);
  }
  return mask;
}

} // namespace tw::isa
