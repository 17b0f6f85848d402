//===- MemoryTest.cpp - On-chip memory in RTL -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "VMemory.h"
#include "verilated.h"
#include "verilated_syms.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace {

// As in tw_memory_bench.sv.
constexpr uint32_t kBytes = 2048, kBankBytes = 256, kRowBytes = 16;

struct MemoryBench {
  VerilatedContext context;
  VMemory top{&context};

  MemoryBench() {
    top.rst_ni = 0;
    clock();
    top.rst_ni = 1;
  }
  void clock() {
    top.clk_i = 0;
    top.eval();
    top.clk_i = 1;
    top.eval();
  }
  void address(void *port, unsigned index, uint64_t value) {
    uint8_t *bytes = static_cast<uint8_t *>(port);
    for (unsigned bit = 0; bit < 28; ++bit) {
      const unsigned at = 28 * index + bit;
      bytes[at / 8] = uint8_t((bytes[at / 8] & ~(1 << at % 8)) | (value >> bit & 1) << at % 8);
    }
  }
};

TEST(MemoryTest, StartsAsZeros) {
  MemoryBench bench;
  for (uint32_t at = 0; at < kBytes; at += kRowBytes) {
    bench.top.rd_valid_i = 1;
    bench.address(&bench.top.rd_address_i, 0, at);
    bench.clock();
    for (unsigned word = 0; word < kRowBytes / 4; ++word)
      EXPECT_EQ(bench.top.rd_data_o[word], 0u) << at;
  }
}

TEST(MemoryTest, RandomAccessesMatchBytes) {
  MemoryBench bench;
  std::mt19937 random(1);
  auto draw = [&](uint32_t count) { return uint32_t(random() % count); };
  std::array<uint8_t, kBytes> bytes{};
  for (int cycle = 0; cycle < 20000; ++cycle) {
    // Every port gets a bank of its own, as if an instruction owned it. A write may run on into the next bank if no other
    // port has it.
    std::array<uint32_t, 8> banks;
    std::iota(banks.begin(), banks.end(), 0);
    std::shuffle(banks.begin(), banks.end(), random);
    bench.top.rd_valid_i = draw(8);
    bench.top.wr_valid_i = draw(4);
    std::array<uint32_t, 3> from;
    std::array<std::array<int, kRowBytes>, 3> wanted;
    for (unsigned p = 0; p < 3; ++p) {
      from[p] = banks[p] * kBankBytes + (draw(4) ? draw(kBankBytes) : kBankBytes - 1 - draw(kRowBytes));
      bench.address(&bench.top.rd_address_i, p, from[p]);
    }
    for (unsigned p = 0; p < 3; ++p)
      for (uint32_t i = 0; i < kRowBytes; ++i) {
        const uint32_t at = from[p] + i;
        wanted[p][i] = at < kBytes ? bytes[at] : 0;
        for (unsigned other = 0; other < 3; ++other)
          if (other != p && (bench.top.rd_valid_i >> other & 1) && at / kBankBytes == banks[other])
            wanted[p][i] = -1; // the owner of that bank reads
      }
    bench.top.wr_mask_i = uint32_t(draw(4) ? random() : ~0u);
    for (unsigned word = 0; word < 8; ++word)
      bench.top.wr_data_i[word] = uint32_t(random());
    for (unsigned p = 0; p < 2; ++p) {
      const uint32_t to = banks[p] * kBankBytes + draw(kBankBytes);
      bench.address(&bench.top.wr_address_i, p, to);
      for (uint32_t i = 0; i < kRowBytes; ++i) {
        const uint32_t at = to + i, bit = kRowBytes * p + i;
        if (at >= kBytes || at / kBankBytes == banks[1 - p]) {
          bench.top.wr_mask_i &= ~(1u << bit);
          continue;
        }
        uint8_t value;
        std::memcpy(&value, reinterpret_cast<uint8_t *>(&bench.top.wr_data_i) + bit, 1);
        if ((bench.top.wr_valid_i >> p & 1) && (bench.top.wr_mask_i >> bit & 1))
          bytes[at] = value;
      }
    }
    bench.clock();
    for (unsigned p = 0; p < 3; ++p)
      for (uint32_t i = 0; i < kRowBytes; ++i) {
        const uint8_t got = reinterpret_cast<uint8_t *>(&bench.top.rd_data_o)[kRowBytes * p + i];
        if (!(bench.top.rd_valid_i >> p & 1))
          ASSERT_EQ(got, 0) << "cycle " << cycle;
        else if (wanted[p][i] >= 0)
          ASSERT_EQ(got, wanted[p][i]) << "cycle " << cycle << " port " << p << " address " << from[p] << " byte " << i;
      }
  }
}

/// A harness reads the image from the banks' arrays: even_q and odd_q of every scope ...gen_bank[b].u_bank.
TEST(MemoryTest, ImageIsReadable) {
  MemoryBench bench;
  bench.top.wr_valid_i = 1;
  bench.top.wr_mask_i = 0xffff;
  for (unsigned word = 0; word < 4; ++word)
    bench.top.wr_data_i[word] = 0x01010101 * (word + 1);
  bench.address(&bench.top.wr_address_i, 0, 5 * kBankBytes + 3 * kRowBytes); // bank 5, row 3: odd, pair 1
  bench.clock();
  const VerilatedScope *scope = bench.context.scopeFind("TOP.tw_memory_bench.u_memory.gen_bank[5].u_bank");
  ASSERT_NE(scope, nullptr);
  const VerilatedVar *odd = scope->varFind("odd_q");
  ASSERT_NE(odd, nullptr);
  EXPECT_EQ(odd->entSize(), kRowBytes);
  const uint8_t *row = static_cast<const uint8_t *>(odd->datap()) + kRowBytes;
  EXPECT_EQ(row[0], 1);
  EXPECT_EQ(row[15], 4);
}

} // namespace
