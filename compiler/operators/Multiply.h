//===- Multiply.h - Products of matrices ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_OPERATORS_MULTIPLY_H
#define COMPILER_OPERATORS_MULTIPLY_H

#include "compiler/operators/Widened.h"

namespace tw::operators {

/// What products and sums of T are made in: float or double, or integers that wrap.
template <typename T>
using Product = std::conditional_t<kIsFloat<T>, Computed<T>, std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>;

/// c[m, n] += a[m, k] * b[k, n], all row-major with the given elements from row to row. Each sum runs along k in order. C: float, double, uint32_t
/// or uint64_t.
template <typename C>
void multiply(int64_t m, int64_t n, int64_t k, const C *a, int64_t aRow, const C *b, int64_t bRow, C *c, int64_t cRow) {
  // A block of b stays in the second cache while all rows of a pass; the rows of c that are worked on in the first.
  constexpr int64_t kColumns = 512, kDepth = 128, kRows = 4;
  for (int64_t firstColumn = 0; firstColumn < n; firstColumn += kColumns) {
    const int64_t columns = std::min(kColumns, n - firstColumn);
    for (int64_t first = 0; first < k; first += kDepth) {
      const int64_t end = std::min(k, first + kDepth);
      int64_t i = 0;
      for (; i + kRows <= m; i += kRows) {
        C *__restrict c0 = c + i * cRow + firstColumn, *__restrict c1 = c0 + cRow, *__restrict c2 = c1 + cRow, *__restrict c3 = c2 + cRow;
        const C *a0 = a + i * aRow, *a1 = a0 + aRow, *a2 = a1 + aRow, *a3 = a2 + aRow;
        int64_t at = first;
        for (; at + 2 <= end; at += 2) {
          const C *b0 = b + at * bRow + firstColumn, *b1 = b0 + bRow;
          const C a00 = a0[at], a01 = a0[at + 1], a10 = a1[at], a11 = a1[at + 1];
          const C a20 = a2[at], a21 = a2[at + 1], a30 = a3[at], a31 = a3[at + 1];
          for (int64_t j = 0; j < columns; ++j) {
            c0[j] = (c0[j] + a00 * b0[j]) + a01 * b1[j];
            c1[j] = (c1[j] + a10 * b0[j]) + a11 * b1[j];
            c2[j] = (c2[j] + a20 * b0[j]) + a21 * b1[j];
            c3[j] = (c3[j] + a30 * b0[j]) + a31 * b1[j];
          }
        }
        if (at < end) {
          const C *b0 = b + at * bRow + firstColumn;
          const C a00 = a0[at], a10 = a1[at], a20 = a2[at], a30 = a3[at];
          for (int64_t j = 0; j < columns; ++j) {
            c0[j] += a00 * b0[j];
            c1[j] += a10 * b0[j];
            c2[j] += a20 * b0[j];
            c3[j] += a30 * b0[j];
          }
        }
      }
      for (; i < m; ++i) {
        C *__restrict c0 = c + i * cRow + firstColumn;
        for (int64_t at = first; at < end; ++at) {
          const C *b0 = b + at * bRow + firstColumn;
          const C a00 = a[i * aRow + at];
          for (int64_t j = 0; j < columns; ++j)
            c0[j] += a00 * b0[j];
        }
      }
    }
  }
}

/// The shapes of a product of matrices as MatMul makes it.
struct MatrixProduct {
  int64_t m = 1, n = 1, k = 1;
  Shape batch, aStrides, bStrides; ///< shape of the batch; where each operand's matrices lie
  Shape full;                      ///< [batch..., m, n]
  Shape result;                    ///< the same without the dims that operands of rank 1 lack
  /// Throws Error if the shapes do not fit.
  MatrixProduct(const Shape &a, const Shape &b);

  /// c: zeros of shape `full`.
  template <typename C> void run(const C *a, const C *b, C *c) const {
    if (std::all_of(bStrides.begin(), bStrides.end(), [](int64_t stride) { return stride == 0; })) {
      // One matrix on the right: the rows of all on the left, which lie one behind the other unless they repeat.
      bool isDense = true;
      int64_t expected = m * k;
      for (size_t i = batch.size(); i-- > 0; expected *= batch[i])
        isDense &= batch[i] == 1 || aStrides[i] == expected;
      if (isDense)
        return multiply(countOf(batch) * m, n, k, a, k, b, n, c, n);
    }
    walk<2>(batch, {aStrides, bStrides}, [&](int64_t i, const std::array<int64_t, 2> &at) {
      multiply(m, n, k, a + at[0], k, b + at[1], n, c + i * m * n, n);
    });
  }
};

} // namespace tw::operators

#endif // COMPILER_OPERATORS_MULTIPLY_H
