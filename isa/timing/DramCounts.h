//===- DramCounts.h - What each bank of a DRAM did --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef ISA_TIMING_DRAMCOUNTS_H
#define ISA_TIMING_DRAMCOUNTS_H

#include <cstdint>
#include <vector>

namespace tw::timing {

/// Accesses of one burst each. A hit is a column in a row that had been used before, a miss the first in a row of a closed bank, a
/// conflict the first after another row of the bank; they sum to reads and writes, but an ideal memory has no rows.
struct DramBankCounts {
  uint64_t reads = 0, writes = 0;
  uint64_t rowHits = 0, rowMisses = 0, rowConflicts = 0;

  void add(const DramBankCounts &other) {
    reads += other.reads;
    writes += other.writes;
    rowHits += other.rowHits;
    rowMisses += other.rowMisses;
    rowConflicts += other.rowConflicts;
  }
};

struct DramChannelCounts {
  std::vector<DramBankCounts> banks; ///< by DramLocation::flatBank; an ideal memory counts as one
  uint64_t refreshes = 0;            ///< of a rank or of a bank

  DramBankCounts sum() const {
    DramBankCounts all;
    for (const DramBankCounts &bank : banks)
      all.add(bank);
    return all;
  }
};

} // namespace tw::timing

#endif // ISA_TIMING_DRAMCOUNTS_H
