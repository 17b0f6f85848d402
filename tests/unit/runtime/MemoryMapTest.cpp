//===- MemoryMapTest.cpp - What lies in the on-chip memories when ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/MemoryMap.h"
#include "tests/unit/systemc/Pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace tw;
using namespace tw::runtime;
using namespace tw::test;

namespace {

stats::SimResult traced(const isa::Program &program, const Pipeline &pipeline) {
  std::vector<std::vector<uint8_t>> outputs;
  systemc::SimOptions options;
  options.trace = true;
  return runWith(program, pipeline.inputs(), smallMachine(), outputs, options);
}

/// Even tiles are of layer 0, odd ones of layer 1: each layer has halves of buffers of its own.
isa::Program twoLayers(const Pipeline &pipeline) {
  isa::Program program = pipeline.program();
  program.layers.resize(2);
  program.layers[0].name = "even";
  program.layers[1].name = "odd";
  uint32_t layer = 1;
  for (size_t word = 0; word < program.code.size(); ++word) {
    const isa::Decoded decoded = isa::decode(&program.code[word], program.code.size() - word);
    EXPECT_TRUE(bool(decoded));
    if (const isa::Load *load = decoded.instruction.getIf<isa::Load>();
        load && load->address % 4096 == 0 && load->address < 4096)
      layer = 0;
    else if (load && load->address == 2048)
      layer = 1;
    program.layerOf.resize(word + decoded.instruction.words(), layer);
    word += decoded.instruction.words() - 1;
  }
  return program;
}

void expectNoOverlaps(const MemoryMap &map) {
  for (const MemoryMap::Memory &memory : map.memories) {
    const uint64_t rows = (memory.bytes + memory.rowBytes - 1) / memory.rowBytes;
    std::vector<timing::Cycle> free(rows, 0);
    for (const MemoryMap::Span &span : memory.spans) {
      EXPECT_LT(span.begin, span.end);
      EXPECT_EQ(span.begin % map.step, 0u);
      ASSERT_LE(span.firstRow + span.numRows, rows) << memory.name;
      for (uint32_t row = span.firstRow; row < span.firstRow + span.numRows; ++row) {
        EXPECT_GE(span.begin, free[row]) << memory.name << " row " << row;
        free[row] = span.end;
      }
    }
  }
}

} // namespace

TEST(MemoryMapTest, BuffersLiveFromWriteToLastRead) {
  const Pipeline pipeline(2); // no buffer is used twice
  const isa::Program program = twoLayers(pipeline);
  const stats::SimResult result = traced(program, pipeline);
  ASSERT_FALSE(result.fault);
  const MemoryMap map = memoryMap(program, smallMachine(), result);
  ASSERT_EQ(map.memories.size(), smallMachine().scratchpads.size() + 1);
  EXPECT_EQ(map.memories.back().name, "accumulator");
  EXPECT_EQ(map.step, 1u);
  expectNoOverlaps(map);

  // The first load writes bytes 0 to 512, which the first tensor instruction reads.
  const MemoryMap::Memory &scratchpad = map.memories.front();
  const stats::InstructionRecord *load = nullptr, *tensor = nullptr;
  for (const stats::InstructionRecord &record : result.instructions) {
    if (!load && record.engine == stats::kFirstLoad)
      load = &record;
    if (!tensor && record.engine == stats::kTensor)
      tensor = &record;
  }
  ASSERT_TRUE(load && tensor);
  auto first = std::find_if(scratchpad.spans.begin(), scratchpad.spans.end(),
                            [](const MemoryMap::Span &span) { return span.firstRow == 0; });
  ASSERT_NE(first, scratchpad.spans.end());
  EXPECT_EQ(first->begin, load->start);
  EXPECT_EQ(first->end, tensor->retire);
  EXPECT_EQ(first->layer, 0u);
  EXPECT_EQ(first->numRows, std::max<uint64_t>(1, 512 / scratchpad.rowBytes));
  EXPECT_TRUE(std::any_of(scratchpad.spans.begin(), scratchpad.spans.end(),
                          [](const MemoryMap::Span &span) { return span.layer == 1; }));
}

TEST(MemoryMapTest, LongRunsHaveLargerSteps) {
  const Pipeline pipeline(40);
  const isa::Program program = twoLayers(pipeline);
  const stats::SimResult result = traced(program, pipeline);
  const MemoryMap fine = memoryMap(program, smallMachine(), result), coarse = memoryMap(program, smallMachine(), result, 8);
  EXPECT_GT(coarse.step, fine.step);
  expectNoOverlaps(coarse);
  for (const MemoryMap::Memory &memory : coarse.memories)
    EXPECT_LE(memory.spans.size(), 8u);
}

TEST(MemoryMapTest, WithoutATimelineNothingIsKnown) {
  const Pipeline pipeline(2);
  for (const MemoryMap::Memory &memory : memoryMap(pipeline.program(), smallMachine(), stats::SimResult()).memories)
    EXPECT_TRUE(memory.spans.empty());
}
