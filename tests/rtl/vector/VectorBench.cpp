//===- VectorBench.cpp - The vector engine between flat memories ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tests/rtl/vector/VectorBench.h"

#include "Vtw_vector.h"
#include "isa/Legality.h"
#include "verilated.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

using namespace tw;
using namespace tw::test;

VectorBench::VectorBench(const timing::MachineParams &machine)
    : lanes(machine.lanes), context(std::make_unique<VerilatedContext>()), model(std::make_unique<Vtw_vector>(context.get())) {
  model->rst_ni = 0;
  clock();
  clock();
  model->rst_ni = 1;
}

VectorBench::~VectorBench() { model->final(); }

void VectorBench::clock() {
  model->clk_i = 0;
  model->eval();
  model->clk_i = 1;
  model->eval();
}

void VectorBench::read(bool valid, int64_t memory, uint64_t address, const core::MachineState &state,
                       std::vector<uint32_t> &data) {
  std::fill(data.begin(), data.end(), 0xa5a5a5a5);
  if (!valid)
    return;
  uint64_t size = state.memorySize(memory), bytes = 4 * data.size();
  if (address >= size)
    throw std::runtime_error("read behind the end of a memory");
  // Bytes behind the end are 0, and not used.
  std::fill(data.begin(), data.end(), 0);
  std::memcpy(data.data(), state.memory(memory) + address, std::min(bytes, size - address));
}

std::vector<VectorBench::Times> VectorBench::run(const std::vector<isa::Vector> &instructions,
                                                 const std::vector<uint64_t> &gaps, core::MachineState &state) {
  std::vector<Times> times(instructions.size());
  size_t started = 0, freed = 0, retired = 0;
  uint64_t earliest = gaps.empty() ? 0 : gaps[0];
  std::vector<uint32_t> a(lanes), b(lanes);
  for (uint64_t cycle = 0; retired < instructions.size(); ++cycle) {
    if (cycle > 10'000'000)
      throw std::runtime_error("the engine hangs");
    // Inputs of this cycle; ready_o and retire_o depend on none of them.
    std::memcpy(model->a_rd_data_i.data(), a.data(), 4 * lanes);
    std::memcpy(model->b_rd_data_i.data(), b.data(), 4 * lanes);
    model->start_i = 0;
    model->clk_i = 0;
    model->eval();
    if (freed < started && model->ready_o && cycle > times[freed].start) {
      times[freed].issueFree = cycle;
      ++freed;
      if (freed < instructions.size())
        earliest = cycle + gaps[freed];
    }
    if (model->retire_o) {
      if (retired == started)
        throw std::runtime_error("more retirements than instructions");
      times[retired++].retire = cycle;
    }
    if (started < instructions.size() && freed == started && model->ready_o && cycle >= earliest) {
      std::vector<isa::Word> words;
      isa::encode(isa::Instruction{isa::Operands(instructions[started])}, words);
      std::memcpy(model->operands_i.data(), words.data(), 5 * sizeof(isa::Word));
      model->start_i = 1;
      times[started++].start = cycle;
    }
    model->eval();
    if (model->a_rd_valid_o && model->b_rd_valid_o && model->a_rd_memory_o == model->b_rd_memory_o) {
      uint64_t bank = isa::memoryOf(isa::Memory(model->a_rd_memory_o), state.machine())->bankBytes();
      if (model->a_rd_address_o / bank == model->b_rd_address_o / bank)
        throw std::runtime_error("two reads of one bank in one cycle");
    }
    read(model->a_rd_valid_o, model->a_rd_memory_o, model->a_rd_address_o, state, a);
    read(model->b_rd_valid_o, model->b_rd_memory_o, model->b_rd_address_o, state, b);
    if (model->d_wr_valid_o) {
      uint8_t *memory = state.memory(model->d_wr_memory_o);
      const uint8_t *data = reinterpret_cast<const uint8_t *>(model->d_wr_data_o.data());
      for (uint64_t i = 0; i < 4 * uint64_t(lanes); ++i) {
        if (!(model->d_wr_mask_o >> i & 1))
          continue;
        if (model->d_wr_address_o + i >= state.memorySize(model->d_wr_memory_o))
          throw std::runtime_error("write behind the end of a memory");
        memory[model->d_wr_address_o + i] = data[i];
      }
    }
    model->clk_i = 1;
    model->eval();
  }
  return times;
}
