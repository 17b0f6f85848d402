//===- Multiply.h - Products of matrices ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_OPERATORS_MULTIPLY_H
#define COMPILER_OPERATORS_MULTIPLY_H

#include "compiler/operators/Widened.h"

namespace tw::operators {

/// While it lives, this thread's products of matrices are left out: for results of which shapes and types matter alone.
class WithoutProducts {
public:
  WithoutProducts() : before(isOn) { isOn = true; }
  ~WithoutProducts() { isOn = before; }
  WithoutProducts(const WithoutProducts &) = delete;
  WithoutProducts &operator=(const WithoutProducts &) = delete;
  static inline thread_local bool isOn = false;

private:
  const bool before;
};

/// What products and sums of T are made in: float or double, or integers that wrap.
template <typename T>
using Product = std::conditional_t<kIsFloat<T>, Computed<T>, std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>;

/// c[m, n] += a[m, k] * b[k, n] row by row, for products of few rows; all as in multiply().
template <typename C>
void multiplyRows(int64_t m, int64_t n, int64_t k, const C *a, int64_t aRow, const C *b, int64_t bRow, C *c, int64_t cRow) {
  // A part of a row of c stays in the first cache.
  constexpr int64_t kColumns = 2048;
  for (int64_t first = 0; first < n; first += kColumns)
    for (int64_t i = 0; i < m; ++i) {
      const int64_t columns = std::min(kColumns, n - first);
      C *__restrict to = c + i * cRow + first;
      for (int64_t at = 0; at < k; ++at) {
        const C *from = b + at * bRow + first;
        const C factor = a[i * aRow + at];
        for (int64_t j = 0; j < columns; ++j)
          to[j] += factor * from[j];
      }
    }
}

/// c[m, n] += a[m, k] * b[k, n], all row-major with the given elements from row to row. Each sum runs along k in order.
/// C: float, double, uint32_t or uint64_t.
template <typename C>
void multiply(int64_t m, int64_t n, int64_t k, const C *a, int64_t aRow, const C *b, int64_t bRow, C *c, int64_t cRow) {
  constexpr int64_t kRows = 4, kWidth = 32 / int64_t(sizeof(C));
  typedef C Vector __attribute__((vector_size(32), aligned(alignof(C))));
  // A block of b, turned into panels of kWidth columns, stays in the second cache while all rows of a pass; kRows x kWidth sums
  // stay in registers.
  constexpr int64_t kColumns = 256, kDepth = 256;
  const int64_t rows = m / kRows * kRows;
  if (WithoutProducts::isOn)
    return;
  if (rows == 0)
    return multiplyRows(m, n, k, a, aRow, b, bRow, c, cRow);
  std::vector<C> panels(size_t(std::min(k, kDepth) * ((std::min(n, kColumns) + kWidth - 1) / kWidth * kWidth)));
  for (int64_t firstColumn = 0; firstColumn < n; firstColumn += kColumns) {
    const int64_t columns = std::min(kColumns, n - firstColumn);
    for (int64_t first = 0; first < k; first += kDepth) {
      const int64_t depth = std::min(kDepth, k - first);
      for (int64_t j = 0; j < columns; j += kWidth) {
        const int64_t width = std::min(kWidth, columns - j);
        for (int64_t at = 0; at < depth; ++at) {
          C *to = panels.data() + j * depth + at * kWidth;
          std::copy_n(b + (first + at) * bRow + firstColumn + j, width, to);
          std::fill(to + width, to + kWidth, C(0));
        }
      }
      for (int64_t i = 0; i < rows; i += kRows) {
        const C *a0 = a + i * aRow + first, *a1 = a0 + aRow, *a2 = a1 + aRow, *a3 = a2 + aRow;
        for (int64_t j = 0; j < columns; j += kWidth) {
          const size_t bytes = size_t(std::min(kWidth, columns - j)) * sizeof(C);
          C *to = c + i * cRow + firstColumn + j;
          Vector sum0{}, sum1{}, sum2{}, sum3{};
          std::memcpy(&sum0, to, bytes);
          std::memcpy(&sum1, to + cRow, bytes);
          std::memcpy(&sum2, to + 2 * cRow, bytes);
          std::memcpy(&sum3, to + 3 * cRow, bytes);
          const C *panel = panels.data() + j * depth;
          for (int64_t at = 0; at < depth; ++at, panel += kWidth) {
            const Vector row = *reinterpret_cast<const Vector *>(panel);
            sum0 += row * a0[at];
            sum1 += row * a1[at];
            sum2 += row * a2[at];
            sum3 += row * a3[at];
          }
          std::memcpy(to, &sum0, bytes);
          std::memcpy(to + cRow, &sum1, bytes);
          std::memcpy(to + 2 * cRow, &sum2, bytes);
          std::memcpy(to + 3 * cRow, &sum3, bytes);
        }
      }
    }
  }
  multiplyRows(m - rows, n, k, a + rows * aRow, aRow, b, bRow, c + rows * cRow, cRow);
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
