//===- RandomCode.cpp - Programs for the sequencer ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/rtl/sequencer/RandomCode.h"

#include "isa/Legality.h"
#include "tests/isa/RandomInstruction.h"

#include <algorithm>

using namespace tw;
using namespace tw::isa;
using namespace tw::test;

int64_t RandomCode::capacity(int64_t memory) const { return int64_t(memoryOf(Memory(memory), machine)->capacityBytes); }

/// A multiple of `unit`, often close to the memory's begin or end.
int64_t RandomCode::address(int64_t memory, int64_t unit) {
  const int64_t units = capacity(memory) / unit;
  switch (in(0, 3)) {
  case 0:
    return in(0, 60) * unit;
  case 1:
    return (units - in(0, 200)) * unit;
  default:
    return in(0, units) * unit;
  }
}

/// What accesses of `width` need at the strides that go up, and seldom one unit less or more; or anything.
int64_t RandomCode::span(int64_t width, std::initializer_list<std::pair<int64_t, int64_t>> walks) {
  for (const auto &[stride, count] : walks)
    width += std::max<int64_t>(stride, 0) * (count - 1);
  return std::clamp<int64_t>(chance(80) ? width + (chance(70) ? 0 : in(-1, 1)) : in(1, 1000), 1, (1 << 20) - 1);
}

void RandomCode::header(Instruction &instruction, unsigned extents) {
  Header &h = instruction.header;
  const unsigned engine = unsigned(instruction.engine());
  if (engine == unsigned(timing::EngineKind::Load))
    h.unit = in(0, machine.loadEngines - 1);
  if (engine == unsigned(timing::EngineKind::Store))
    h.unit = in(0, machine.storeEngines - 1);
  for (unsigned i = 0; i < 3; ++i) {
    h.wait_semaphore[i] = chance(70) ? in(0, machine.semaphores - 1) : 0;
    h.wait_count[i] = chance(50) ? in(1, std::min<int64_t>(15, machine.semaphoreMax)) : 0;
    h.post_semaphore[i] = chance(70) ? in(0, machine.semaphores - 1) : 0;
    h.post_count[i] = chance(50) ? in(1, std::min<int64_t>(15, machine.semaphoreMax)) : 0;
  }
  h.num_levels = chance(40) ? 0 : chance(60) ? in(1, 2) : in(1, 6);
  const int64_t all = (int64_t(1) << h.num_levels) - 1;
  h.wait_mask = chance(50) ? in(0, 63) & all : 0;
  h.post_mask = chance(50) ? in(0, 63) & all : 0;
  h.predicate_mask = in(0, 63) & all;
  h.predicate = chance(60) ? 0 : in(0, 4);
  for (unsigned e = 0; e < 2; ++e) {
    h.edge_level[e] = in(0, 7);
    h.edge_index[e] = in(0, 7);
    if (extents && h.num_levels && chance(40)) {
      h.edge_level[e] = in(0, h.num_levels - 1);
      h.edge_index[e] = in(0, extents - 1);
      h.edge_value[e] = chance(90) ? in(1, 4) : in(1, 65535);
    }
  }
}

/// Strides are multiples of these units; 0: there is no such address.
void RandomCode::levels(Instruction &instruction, int64_t a, int64_t b, int64_t c, int64_t d) {
  auto stride = [&](int64_t unit, int64_t bits) {
    if (chance(1))
      return unit * in(-(int64_t(1) << (bits - 1)) / std::max<int64_t>(unit, 1),
                       ((int64_t(1) << (bits - 1)) - 1) / std::max<int64_t>(unit, 1));
    return unit * in(chance(70) ? 0 : -12, 12);
  };
  for (int64_t i = 0; i < instruction.header.num_levels; ++i) {
    Level &level = instruction.levels[size_t(i)];
    level.count = chance(95) ? in(1, 4) : pick<int64_t>({65535, 65534, 300});
    level.wrap = chance(60) ? 0 : chance(90) ? in(1, 5) : in(1, 255);
    level.stride_a = stride(a, 32);
    level.stride_b = stride(b, 24);
    level.stride_c = stride(c, 24);
    level.stride_d = stride(d, 24);
  }
}

void RandomCode::box(Load &load) {
  load.element_log2 = in(0, 2);
  const int64_t bytes = int64_t(1) << load.element_log2;
  load.memory = machine.scratchpads.size() > 1 ? in(0, 1) : 0;
  load.address = address(load.memory, bytes);
  load.dram_address = chance(50) ? in(0, 40) * bytes : int64_t(machine.dram.capacityBytes) - in(0, 200) * bytes;
  for (unsigned d = 0; d < 5; ++d) {
    load.counts[d] = in(1, chance(90) ? 4 : 20);
    load.low[d] = chance(70) ? 0 : in(0, load.counts[d]);
    load.high[d] = chance(70) ? 0 : in(0, load.counts[d] - load.low[d]);
  }
  for (unsigned d = 0; d < 4; ++d) {
    load.strides[d] = chance(99) ? bytes * in(chance(90) ? 0 : -1, 8) : -8388608;
    load.dram_strides[d] = chance(99) ? bytes * in(-1, 8) : -2147483648ll;
  }
  load.span = span(bytes, {{bytes, load.counts[0]},
                           {load.strides[0], load.counts[1]},
                           {load.strides[1], load.counts[2]},
                           {load.strides[2], load.counts[3]},
                           {load.strides[3], load.counts[4]}});
  load.fill = load.element_log2 == 2 ? in(0, 0xffffffffll) : in(0, (int64_t(1) << (8 * bytes)) - 1);
  load.broadcast = in(0, 1);
}

void RandomCode::vector(Vector &v) {
  auto memory = [&] { return pick<int64_t>({0, machine.scratchpads.size() > 1 ? 1 : 0, 7}); };
  auto zero = [&](int64_t type) { return type == 0 ? in(-128, 127) : type == 1 ? in(0, 255) : 0; };
  auto floating = [](int64_t type) { return isFloat(VectorType(type)); };
  auto bytesOf = [](int64_t type) { return int64_t(elementBytes(VectorType(type))); };
  const int64_t lanes = machine.lanes;
  for (unsigned d = 0; d < 4; ++d)
    v.counts[d] = in(1, 3);
  v.a_memory = memory();
  v.a_type = in(0, 4);
  v.a_address = address(v.a_memory, bytesOf(v.a_type));
  v.a_zero_point = zero(v.a_type);
  v.window_op = in(0, 4);
  const bool mac = v.window_op == 3;
  v.window = {1, 1};
  if (v.window_op != 0)
    v.window = {in(1, 3), in(1, 3)};
  if (mac && chance(5))
    v.window = {in(1, 20), in(1, 20)};
  for (unsigned d = 0; d < 4; ++d)
    v.a_strides[d] = bytesOf(v.a_type) * (chance(99) ? lanes * in(0, 2) + in(0, 1) : -2097152);
  for (unsigned d = 0; d < 2; ++d)
    v.a_window_strides[d] = bytesOf(v.a_type) * in(0, 8);
  if (chance(30)) {
    v.window_step = in(1, 7);
    v.a_strides[0] = v.window_step * v.a_window_strides[0];
  }
  v.b_enable = mac || chance(60);
  v.b_memory = memory();
  v.b_type = in(0, 4);
  while (mac && floating(v.a_type) != floating(v.b_type))
    v.b_type = in(0, 4);
  const int64_t unitB = v.b_enable ? bytesOf(v.b_type) : 1;
  v.b_address = address(v.b_memory, unitB);
  for (unsigned d = 0; d < 4; ++d)
    v.b_strides[d] = unitB * in(0, 2 * lanes);
  v.b_tap_stride = unitB * in(0, lanes);
  const auto &c = v.counts, &a = v.a_strides, &b = v.b_strides, &d = v.d_strides;
  v.a_span = span(lanes * bytesOf(v.a_type), {{a[0], c[0]},
                                              {a[1], c[1]},
                                              {a[2], c[2]},
                                              {a[3], c[3]},
                                              {v.a_window_strides[0], v.window[0]},
                                              {v.a_window_strides[1], v.window[1]}});
  v.b_span = mac ? span(lanes * unitB, {{b[3], c[3]}, {v.b_tap_stride, v.window[0] * v.window[1]}})
                 : span(lanes * bytesOf(v.b_type), {{b[0], c[0]}, {b[1], c[1]}, {b[2], c[2]}, {b[3], c[3]}});
  v.b_zero_point = v.b_enable ? zero(v.b_type) : in(-256, 255);
  v.b_convert = mac ? 0 : in(0, 2);
  v.b_scale = in(0, 7);
  v.p_count = chance(40) ? 0 : in(1, 4);
  v.p_memory = memory();
  v.p_address = address(v.p_memory, 4);
  v.p_span = span(v.counts[3] * v.p_count * lanes * 4, {});
  if (v.window_op != 0 && !mac) {
    v.lane_reduce = in(0, 1);
    v.tail_lanes = v.lane_reduce ? in(0, lanes) : 0;
  }
  for (unsigned i = 0; i < 8; ++i)
    v.immediates[i] = in(0, 0xffffffffll);

  // A chain that keeps to the rules.
  const bool hasB = v.b_enable && !mac, bFloat = v.b_convert != 0 || floating(v.b_type);
  bool x = floating(v.a_type), saved = x;
  v.num_stages = in(0, std::min<int64_t>(12, machine.vectorStages));
  auto operandOf = [&](bool wantFloat) -> int64_t {
    for (;;) {
      const int64_t operand = pick<int64_t>({1, 2, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23});
      if ((operand == 1 && hasB && bFloat == wantFloat) || (operand == 2 && saved == wantFloat) ||
          (operand >= 8 && operand < 8 + v.p_count) || operand >= 16)
        return operand;
    }
  };
  for (int64_t s = 0; s < v.num_stages; ++s) {
    int64_t &op = v.stage_op[size_t(s)], &operand = v.stage_operand[size_t(s)];
    switch (in(0, 7)) {
    case 0:
      op = x ? pick<int64_t>({26, 27, 28, 29, 30, 32, 33, 34, 35, 36, 41, 42}) : 40;
      x = x && op != 41 && op != 42;
      if (op == 40)
        x = true;
      break;
    case 1:
      op = x ? pick<int64_t>({24, 43}) : 44;
      operand = 16 + in(0, op == 43 ? 7 : 6);
      x = op != 43;
      break;
    case 2:
      op = 45;
      saved = x;
      break;
    case 3:
      op = 47;
      x = saved;
      break;
    case 4:
      if (hasB) {
        op = x && bFloat && chance(50) ? 25 : 46;
        operand = op == 25 ? 16 + in(0, 7) : 0;
        x = op == 25 ? x : bFloat;
      }
      break;
    default:
      op = x ? in(16, 23) : in(1, 12);
      operand = operandOf(x);
    }
  }
  v.d_type = x ? in(3, 4) : in(0, 2);
  v.d_memory = memory();
  v.d_address = address(v.d_memory, bytesOf(v.d_type));
  for (unsigned i = 0; i < 4; ++i)
    v.d_strides[i] = bytesOf(v.d_type) * (lanes * in(0, 2) + in(0, 1) - (chance(5) ? 1 : 0));
  v.d_span = span(lanes * bytesOf(v.d_type), {{d[0], c[0]}, {d[1], c[1]}, {d[2], c[2]}, {d[3], c[3]}});
}

Instruction RandomCode::candidate(Opcode opcode) {
  Instruction instruction(makeOperands(opcode));
  const int64_t bytes = timing::elementBytes(machine.arrayType);
  const bool int8 = machine.arrayType == timing::ArrayType::Int8;
  auto scratchpad = [&] { return machine.scratchpads.size() > 1 ? in(0, 1) : 0; };
  if (opcode == Opcode::Load || opcode == Opcode::Store) {
    Load load;
    box(load);
    const int64_t unit = int64_t(1) << load.element_log2;
    if (opcode == Opcode::Load) {
      instruction.operands = load;
    } else {
      Store store;
      store.dram_address = load.dram_address;
      store.memory = load.memory;
      store.address = load.address;
      store.span = load.span;
      store.element_log2 = load.element_log2;
      store.counts = load.counts;
      store.dram_strides = load.dram_strides;
      store.strides = load.strides;
      instruction.operands = store;
    }
    header(instruction, 5);
    levels(instruction, unit, unit, 0, 0);
  } else if (opcode == Opcode::Preload) {
    Preload preload;
    preload.memory = scratchpad();
    preload.address = address(preload.memory, bytes);
    preload.k_count = in(1, machine.rows);
    preload.n_count = in(1, machine.cols);
    preload.transpose = in(0, 1);
    preload.row_stride = bytes * in(chance(90) ? 0 : -1, 20);
    preload.span = span(bytes * (preload.transpose ? preload.k_count : preload.n_count),
                        {{preload.row_stride, preload.transpose ? preload.n_count : preload.k_count}});
    preload.is_signed = int8 ? in(0, 1) : 0;
    preload.zero_point = !int8 ? 0 : preload.is_signed ? in(-128, 127) : in(0, 255);
    instruction.operands = preload;
    header(instruction, 0);
    levels(instruction, 0, bytes, 0, 0);
  } else if (opcode == Opcode::Tensor) {
    Tensor tensor;
    tensor.memory = scratchpad();
    tensor.address = address(tensor.memory, bytes);
    tensor.acc_address = in(0, chance(50) ? 30 : int64_t(machine.accumulatorRows()));
    tensor.k_count = in(1, machine.rows);
    for (unsigned d = 0; d < 3; ++d) {
      tensor.counts[d] = in(1, 4);
      tensor.strides[d] = bytes * in(chance(90) ? 0 : -1, 8);
      tensor.acc_strides[d] = chance(99) ? in(chance(90) ? 0 : -1, 4) : -524288;
    }
    const auto &counts = tensor.counts, &strides = tensor.strides, &accStrides = tensor.acc_strides;
    tensor.span = span(bytes * tensor.k_count, {{strides[0], counts[0]}, {strides[1], counts[1]}, {strides[2], counts[2]}});
    tensor.acc_span = span(1, {{accStrides[0], counts[0]}, {accStrides[1], counts[1]}, {accStrides[2], counts[2]}});
    tensor.swap = in(0, 1);
    tensor.accumulate = in(0, 1);
    tensor.is_signed = int8 ? in(0, 1) : 0;
    tensor.zero_point = !int8 ? 0 : tensor.is_signed ? in(-128, 127) : in(0, 255);
    instruction.operands = tensor;
    header(instruction, 3);
    levels(instruction, 0, bytes, 1, 0);
    instruction.as<Tensor>().clear_mask = in(0, 63) & ((int64_t(1) << instruction.header.num_levels) - 1);
  } else {
    Vector v;
    vector(v);
    instruction.operands = v;
    header(instruction, 4);
    auto unit = [](int64_t type) { return int64_t(elementBytes(VectorType(type))); };
    levels(instruction, v.p_count ? 4 : 0, unit(v.a_type), v.b_enable ? unit(v.b_type) : 0, unit(v.d_type));
  }
  return instruction;
}

Instruction RandomCode::instruction(Opcode opcode) {
  for (;;) {
    Instruction result = candidate(opcode);
    if (fits(result) && !illegal(result, machine))
      return result;
  }
}

void RandomCode::append(std::vector<Word> &out, bool damaged) {
  const Opcode opcode = pick({Opcode::Load, Opcode::Store, Opcode::Preload, Opcode::Tensor, Opcode::Vector, Opcode::Vector});
  Instruction good = instruction(opcode);
  if (!damaged)
    return encode(good, out);
  if (chance(10)) {
    // What the sequencer itself executes.
    Loop loop;
    loop.count = in(0, 2);
    loop.body_words = chance(90) ? in(0, 9) : in(0, 65535);
    Instruction own = chance(30) ? Instruction(Halt{}) : Instruction(loop);
    const FieldInfo &field = headerFields().begin()[random() % headerFields().size()];
    if (chance(50))
      set(field, &own.header, isa::test::randomValue(field, random));
    return encode(own, out);
  }
  if (Vector *v = good.getIf<Vector>(); v && chance(60)) {
    // The chain and what it depends on.
    for (int64_t n = in(1, 2); n > 0; --n) {
      const size_t stage = size_t(in(0, std::min<int64_t>(11, v->num_stages)));
      switch (in(0, 9)) {
      case 0:
        v->b_enable ^= 1;
        break;
      case 1:
        v->p_count = in(0, 4);
        break;
      case 2:
        v->num_stages = std::clamp<int64_t>(v->num_stages + in(-1, 1), 0, 12);
        break;
      case 3:
        (chance(50) ? v->d_type : v->b_type) = in(0, 4);
        break;
      case 4:
        v->b_convert = in(0, 2);
        break;
      case 5:
        v->window_op = in(0, 4);
        break;
      case 6:
        (chance(50) ? v->lane_reduce : v->tail_lanes) ^= 1;
        break;
      case 7:
        v->stage_op[stage] = isa::kStageOpEnumeration.cases.begin()[random() % isa::kStageOpEnumeration.cases.size()].value;
        break;
      default:
        v->stage_operand[stage] = pick<int64_t>({0, 1, 2, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23, 22, 23});
      }
    }
    return encode(good, out);
  }
  if (chance(50)) {
    // Another value in a field; several fields have to agree, so that this often stays legal.
    std::mt19937_64 &r = random;
    const FieldSpan spans[] = {headerFields(), levelFields(), fieldsOf(opcode), fieldsOf(opcode)};
    for (int64_t n = in(1, 2); n > 0; --n) {
      const unsigned which = unsigned(in(0, 3));
      const FieldInfo &field = spans[which].begin()[random() % spans[which].size()];
      void *base = which == 0 ? static_cast<void *>(&good.header)
                   : which == 1
                       ? static_cast<void *>(&good.levels[size_t(in(0, std::max<int64_t>(0, good.header.num_levels - 1)))])
                       : good.operandBase();
      const int64_t old = get(field, base);
      set(field, base, chance(50) ? isa::test::randomValue(field, r) : old + in(-2, 2));
      if (!fits(good))
        set(field, base, old);
    }
    return encode(good, out);
  }
  std::vector<Word> words;
  encode(good, words);
  for (int64_t n = in(1, 3); n > 0; --n) {
    // The header as often as all the rest.
    const int64_t bit = chance(50) ? in(0, 139) : in(0, int64_t(words.size()) * int64_t(kWordBits) - 1);
    words[size_t(bit) / kWordBits][size_t(bit) % kWordBits / 64] ^= uint64_t(1) << (bit % 64);
  }
  out.insert(out.end(), words.begin(), words.end());
}

void RandomCode::body(std::vector<Word> &out, unsigned length, unsigned depth, Damage damage) {
  const size_t room = machine.loopBufferWords;
  for (unsigned i = 0; i < length; ++i) {
    const unsigned limit = damage == Damage::Structure ? 5 : 4;
    if (depth < limit && chance(depth ? 35 : 25)) {
      std::vector<Word> inner;
      body(inner, unsigned(in(1, depth ? 2 : 4)), depth + 1, damage);
      if (damage != Damage::Structure && inner.size() + (depth ? 1 : 0) > room)
        continue;
      Loop loop;
      loop.count = in(1, 3);
      loop.body_words = int64_t(inner.size());
      if (damage == Damage::Structure && chance(8))
        loop.body_words = std::max<int64_t>(0, loop.body_words + in(-2, 2));
      encode(Instruction(loop), out);
      out.insert(out.end(), inner.begin(), inner.end());
    } else {
      append(out, false);
    }
  }
}

std::vector<Word> RandomCode::make(unsigned length, Damage damage) {
  std::vector<Word> code;
  for (;;) {
    code.clear();
    body(code, length, 0, damage);
    // A loop around loops may have outgrown the buffer.
    bool good = true;
    for (size_t pc = 0; pc < code.size() && damage != Damage::Structure;) {
      const Decoded decoded = decode(&code[pc], code.size() - pc);
      good &= bool(decoded) && !illegal(decoded.instruction, machine);
      pc += decoded.instruction.words();
    }
    if (good)
      break;
  }
  if (damage == Damage::Instruction) {
    append(code, true);
    append(code, false);
  }
  if (damage == Damage::Structure && chance(20)) {
    if (chance(50))
      code.resize(code.size() - std::min<size_t>(code.size(), size_t(in(0, 3))));
    return code;
  }
  if (damage == Damage::Structure && chance(10))
    encode(Instruction(Halt{}), code);
  encode(Instruction(Halt{}), code);
  return code;
}
