//===- Contractions.cpp - Products of matrices ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Multiply.h"
#include "compiler/operators/Quantised.h"

using namespace tw;
using namespace tw::operators;

MatrixProduct::MatrixProduct(const Shape &a, const Shape &b) {
  if (a.empty() || b.empty())
    throw Error{"inputs have shapes " + textOf(a) + " and " + textOf(b) + ": neither may be a scalar"};
  const Shape left = a.size() == 1 ? Shape{1, a[0]} : a, right = b.size() == 1 ? Shape{b[0], 1} : b;
  m = left[left.size() - 2];
  k = left.back();
  n = right.back();
  if (right[right.size() - 2] != k)
    throw Error{"shapes " + textOf(a) + " and " + textOf(b) + " do not fit: " + std::to_string(k) + " columns on the left, " +
                std::to_string(right[right.size() - 2]) + " rows on the right"};
  const Shape leftBatch(left.begin(), left.end() - 2), rightBatch(right.begin(), right.end() - 2);
  batch = broadcast(leftBatch, rightBatch);
  aStrides = broadcastStrides(leftBatch, batch);
  bStrides = broadcastStrides(rightBatch, batch);
  for (int64_t &stride : aStrides)
    stride *= m * k;
  for (int64_t &stride : bStrides)
    stride *= k * n;
  full = batch;
  full.push_back(m);
  full.push_back(n);
  result = batch;
  if (a.size() > 1)
    result.push_back(m);
  if (b.size() > 1)
    result.push_back(n);
}

namespace {

void evaluateMatMul(Call &call) {
  const HostTensor &a = call.input(0), &b = call.input(1);
  call.requireSameType(a, b);
  const MatrixProduct product(a.shape, b.shape);
  HostTensor &y = call.output(0, a.type, product.result);
  if (!visitNumber(a.type, [&](auto zero) {
        using T = decltype(zero);
        Widened<T, Product<T>> left(a), right(b);
        Narrowed<T, Product<T>> to(y);
        product.run(left.data(), right.data(), to.data());
      }))
    failType(call, 0, a);
}

void evaluateGemm(Call &call) {
  const HostTensor *a = &call.input(0), *b = &call.input(1);
  call.requireSameType(*a, *b);
  if (a->shape.size() != 2 || b->shape.size() != 2)
    call.fail("inputs 0 and 1 have shapes " + textOf(a->shape) + " and " + textOf(b->shape) + ", expected matrices");
  HostTensor leftTurned, rightTurned;
  if (call.flagAttr("transA", false)) {
    leftTurned = transposed(*a, {1, 0});
    a = &leftTurned;
  }
  if (call.flagAttr("transB", false)) {
    rightTurned = transposed(*b, {1, 0});
    b = &rightTurned;
  }
  const float alpha = call.floatAttr("alpha", 1.0f), beta = call.floatAttr("beta", 1.0f);
  const MatrixProduct product(a->shape, b->shape);
  HostTensor &y = call.output(0, a->type, product.result);
  Shape biasStrides{0, 0};
  if (call.has(2)) {
    call.requireSameType(*a, call.input(2));
    if (broadcast(call.input(2).shape, y.shape) != y.shape)
      call.fail("input 2 has shape " + textOf(call.input(2).shape) + ", which does not broadcast to " + textOf(y.shape));
    biasStrides = broadcastStrides(call.input(2).shape, y.shape);
  }
  if (!visitNumber(a->type, [&](auto zero) {
        using T = decltype(zero);
        using C = Product<T>;
        Widened<T, C> left(*a), right(*b);
        Narrowed<T, C> to(y);
        product.run(left.data(), right.data(), to.data());
        if (alpha == 1 && beta == 1 && !call.has(2))
          return;
        const T *bias = call.has(2) ? data<T>(call.input(2)) : nullptr;
        walk<1>(y.shape, {biasStrides}, [&](int64_t i, const std::array<int64_t, 1> &at) {
          const C added = bias ? C(Computed<T>(bias[at[0]])) : C(0);
          if (kIsFloat<T>)
            to[i] = C(alpha) * to[i] + (bias ? C(beta) * added : C(0));
          else if (alpha == 1 && beta == 1)
            to[i] += added;
          else
            to[i] = C(fromReal<T>(double(alpha) * double(T(to[i])) + double(beta) * double(T(added))));
        });
      }))
    failType(call, 0, *a);
}

//===----------------------------------------------------------------------===//
// Quantised
//===----------------------------------------------------------------------===//

/// A parameter of the rows of `a` or the columns of `b`: [M] stands for [M, 1].
HostTensor asRows(HostTensor parameter) {
  if (parameter.shape.size() == 1)
    parameter.shape.push_back(1);
  return parameter;
}

void evaluateMatMulInteger(Call &call) {
  const HostTensor &a = call.input(0), &b = call.input(1);
  const MatrixProduct product(a.shape, b.shape);
  const auto left = centred(call, 0, call.has(2) ? asRows(call.input(2)) : HostTensor(), call.has(2));
  const auto right = centred(call, 1, call.has(3) ? call.input(3) : HostTensor(), call.has(3));
  HostTensor &y = call.output(0, ElementKind::I32, product.result);
  product.run(left.data(), right.data(), data<uint32_t>(y));
}

void evaluateQLinearMatMul(Call &call) {
  const HostTensor &a = call.input(0), &b = call.input(3), &yZero = call.input(7);
  const MatrixProduct product(a.shape, b.shape);
  HostTensor &y = call.output(0, yZero.type, product.result);
  const std::vector<float> aScale = spread(call, 1, asRows(call.input(1)), product.full),
                           bScale = spread(call, 4, call.input(4), product.full);
  const std::vector<float> yScale = spread(call, 6, asRows(call.input(6)), product.full),
                           zero = spread(call, 7, asRows(yZero), product.full);
  auto scaled = [&](auto sums) {
    for (size_t i = 0; i < zero.size(); ++i)
      storeQuantised(y, int64_t(i), float(sums[i]) * (aScale[i] * bScale[i] / yScale[i]), zero[i]);
  };
  const size_t count = size_t(countOf(y));
  if (isQuantisedInteger(a.type)) {
    const auto left = centred(call, 0, asRows(call.input(2)), true), right = centred(call, 3, call.input(5), true);
    std::vector<uint32_t> sums(count);
    product.run(left.data(), right.data(), sums.data());
    scaled(std::vector<int32_t>(sums.begin(), sums.end()));
  } else {
    const auto left = centredFloats(call, 0, asRows(call.input(2))), right = centredFloats(call, 3, call.input(5));
    std::vector<float> sums(count);
    product.run(left.data(), right.data(), sums.data());
    scaled(sums);
  }
}

//===----------------------------------------------------------------------===//
// Det
//===----------------------------------------------------------------------===//

/// Of a matrix of `size` rows, by elimination with the greatest pivot of each column.
double determinant(std::vector<double> &matrix, int64_t size) {
  double result = 1;
  auto at = [&](int64_t row, int64_t column) -> double & { return matrix[size_t(row * size + column)]; };
  for (int64_t column = 0; column < size; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < size; ++row)
      if (std::fabs(at(row, column)) > std::fabs(at(pivot, column)))
        pivot = row;
    if (at(pivot, column) == 0)
      return 0;
    if (pivot != column) {
      std::swap_ranges(&at(pivot, 0), &at(pivot, 0) + size, &at(column, 0));
      result = -result;
    }
    result *= at(column, column);
    for (int64_t row = column + 1; row < size; ++row) {
      const double factor = at(row, column) / at(column, column);
      for (int64_t i = column; i < size; ++i)
        at(row, i) -= factor * at(column, i);
    }
  }
  return result;
}

void evaluateDet(Call &call) {
  const HostTensor &x = call.input(0);
  requireRank(call, 0, x, 2);
  const int64_t size = x.shape.back();
  if (x.shape[x.shape.size() - 2] != size)
    call.fail("input 0 has shape " + textOf(x.shape) + ", expected square matrices");
  HostTensor &y = call.output(0, x.type, Shape(x.shape.begin(), x.shape.end() - 2));
  if (!frontend::isFloat(x.type))
    failType(call, 0, x);
  std::vector<double> matrix(size_t(size * size));
  for (int64_t i = 0; i < countOf(y); ++i) {
    for (size_t j = 0; j < matrix.size(); ++j)
      matrix[j] = realAt(x, i * size * size + int64_t(j));
    setReal(y, i, determinant(matrix, size));
  }
}

} // namespace

void operators::addContractions(Table &table) {
  table[":MatMul"].evaluate = evaluateMatMul;
  table[":Gemm"].evaluate = evaluateGemm;
  table[":MatMulInteger"].evaluate = evaluateMatMulInteger;
  table[":QLinearMatMul"].evaluate = evaluateQLinearMatMul;
  table[":Det"].evaluate = evaluateDet;
  addEinsum(table);
  addConvolutions(table);
  addPooling(table);
}
