//===- Box.h - Copying boxes of elements ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_FUNCTIONAL_BOX_H
#define SIMULATOR_FUNCTIONAL_BOX_H

#include <array>
#include <cstdint>
#include <cstring>

namespace tw::functional {

/// A box of up to 5 dimensions seen from two memories. Dimension 0 is one contiguous run of `runBytes` in both.
struct Box {
  int64_t runBytes = 0;
  std::array<int64_t, 4> counts{}; ///< dimensions 1 to 4
  std::array<int64_t, 4> sourceStrides{}, targetStrides{};

  /// Makes runs as long as they get without a change of order: drops dimensions of extent 1 and joins the run with the next
  /// dimension where both memories continue without a gap.
  void merge() {
    Box merged;
    merged.runBytes = runBytes;
    merged.counts.fill(1);
    unsigned kept = 0;
    for (unsigned d = 0; d < 4; ++d) {
      if (counts[d] == 1)
        continue;
      if (kept == 0 && sourceStrides[d] == merged.runBytes && targetStrides[d] == merged.runBytes) {
        merged.runBytes *= counts[d];
        continue;
      }
      merged.counts[kept] = counts[d];
      merged.sourceStrides[kept] = sourceStrides[d];
      merged.targetStrides[kept] = targetStrides[d];
      ++kept;
    }
    *this = merged;
  }

  /// Calls run(source offset, target offset) for every run, dimension 1 fastest.
  template <typename Run> void forEachRun(Run run) const {
    for (int64_t i4 = 0; i4 < counts[3]; ++i4)
      for (int64_t i3 = 0; i3 < counts[2]; ++i3)
        for (int64_t i2 = 0; i2 < counts[1]; ++i2) {
          int64_t source = i2 * sourceStrides[1] + i3 * sourceStrides[2] + i4 * sourceStrides[3];
          int64_t target = i2 * targetStrides[1] + i3 * targetStrides[2] + i4 * targetStrides[3];
          for (int64_t i1 = 0; i1 < counts[0]; ++i1, source += sourceStrides[0], target += targetStrides[0])
            run(source, target);
        }
  }

  /// Copies every run; the memories do not overlap.
  void copy(const uint8_t *source, uint8_t *target) const {
    switch (runBytes) {
    case 1:
      return copyFixed<1>(source, target);
    case 4:
      return copyFixed<4>(source, target);
    case 8:
      return copyFixed<8>(source, target);
    case 16:
      return copyFixed<16>(source, target);
    case 32:
      return copyFixed<32>(source, target);
    case 64:
      return copyFixed<64>(source, target);
    default:
      forEachRun([&](int64_t from, int64_t to) { std::memcpy(target + to, source + from, runBytes); });
    }
  }

private:
  template <unsigned Bytes> void copyFixed(const uint8_t *source, uint8_t *target) const {
    forEachRun([&](int64_t from, int64_t to) { std::memcpy(target + to, source + from, Bytes); });
  }
};

} // namespace tw::functional

#endif // SIMULATOR_FUNCTIONAL_BOX_H
