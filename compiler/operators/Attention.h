//===- Attention.h - What operators of attention share ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_OPERATORS_ATTENTION_H
#define COMPILER_OPERATORS_ATTENTION_H

#include "compiler/operators/Reals.h"

#include <functional>

namespace tw::operators {

/// A tensor [batch, heads, length, size].
template <typename T> struct Heads {
  int64_t batch = 0, heads = 0, length = 0, size = 0;
  std::vector<T> elements;

  Heads() = default;
  Heads(int64_t batch, int64_t heads, int64_t length, int64_t size)
      : batch(batch), heads(heads), length(length), size(size), elements(zeros<T>({batch, heads, length, size})) {}
  /// Of a tensor of rank 4 of this shape.
  explicit Heads(const HostTensor &x)
      : batch(x.shape[0]), heads(x.shape[1]), length(x.shape[2]), size(x.shape[3]), elements(realsOf<T>(x)) {}

  T *at(int64_t b, int64_t h, int64_t i = 0) { return elements.data() + ((b * heads + h) * length + i) * size; }
  const T *at(int64_t b, int64_t h, int64_t i = 0) const { return elements.data() + ((b * heads + h) * length + i) * size; }
  HostTensor tensor(ElementKind kind) const { return tensorOf(elements, kind, {batch, heads, length, size}); }
};

/// Heads of x[batch, length, ..]: element (b, l, h, s) is x[(b * length + l) * stride + first + h * size + s].
template <typename T>
Heads<T> splitHeads(const std::vector<T> &x, int64_t first, int64_t batch, int64_t length, int64_t heads, int64_t size,
                    int64_t stride) {
  Heads<T> y(batch, heads, length, size);
  if (y.elements.empty())
    return y;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t l = 0; l < length; ++l)
      for (int64_t h = 0; h < heads; ++h)
        std::copy_n(x.data() + (b * length + l) * stride + first + h * size, size, y.at(b, h, l));
  return y;
}
/// The tensor [batch, length, heads * size].
template <typename T> HostTensor mergeHeads(const Heads<T> &x, ElementKind kind) {
  std::vector<T> y(x.elements.size());
  for (int64_t b = 0; b < x.batch; ++b)
    for (int64_t l = 0; l < x.length; ++l)
      for (int64_t h = 0; h < x.heads; ++h)
        std::copy_n(x.at(b, h, l), x.size, y.data() + ((b * x.length + l) * x.heads + h) * x.size);
  return tensorOf(y, kind, {x.batch, x.length, x.heads * x.size});
}
/// `a` and behind it `b`, along the length.
template <typename T> Heads<T> concatenate(const Heads<T> &a, const Heads<T> &b) {
  Heads<T> y(b.batch, b.heads, a.length + b.length, b.size);
  for (int64_t i = 0; i < b.batch; ++i)
    for (int64_t h = 0; h < b.heads; ++h) {
      std::copy_n(a.at(i, h), a.length * b.size, y.at(i, h));
      std::copy_n(b.at(i, h), b.length * b.size, y.at(i, h, a.length));
    }
  return y;
}

/// A number of heads, an attribute: at least 1, and few enough to be counted with.
inline int64_t headsAttr(const Call &call, const char *name, std::optional<int64_t> fallback = std::nullopt) {
  const int64_t heads = call.intAttr(name, fallback);
  if (heads < 1 || heads > (int64_t(1) << 31))
    call.fail(std::string(name) + " is " + std::to_string(heads) + ", expected 1 to 2^31");
  return heads;
}

/// A tensor that broadcasts to [batch, heads, queries, keys] and is added to scores, or, of bools, says which scores count.
class ScoreBias {
public:
  /// Fails unless it broadcasts. A last dim that is shorter than `keys` masks what is behind it if `pads`.
  ScoreBias(const Call &call, const HostTensor &x, const char *name, const Shape &scores, bool pads);
  template <typename T> void addTo(T *row, int64_t b, int64_t h, int64_t i) const {
    const int64_t from = b * strides[0] + h * strides[1] + i * strides[2];
    for (int64_t j = 0; j < keys; ++j) {
      const int64_t at = from + j * strides[3];
      if (j >= length || (isBool && x.bytes[size_t(at)] == 0))
        row[j] = -std::numeric_limits<T>::infinity();
      else if (!isBool)
        row[j] += T(realAt(x, at));
    }
  }

private:
  const HostTensor &x;
  bool isBool;
  int64_t keys, length;
  Shape strides;
};

/// softmax(softcap(scale * q * k) + bias) * v.
template <typename T> struct Attend {
  Attend(const Heads<T> &q, const Heads<T> &k, const Heads<T> &v) : q(q), k(k), v(v) {}

  const Heads<T> &q, &k, &v;
  T scale = 1;
  /// Scores s become softcap * tanh(s / softcap); 0: they stay.
  T softcap = 0;
  /// Adds to row `i` of the scores of a head, which are 0 before; minus infinity masks. A row without a score that counts gives zeros.
  std::function<void(int64_t b, int64_t h, int64_t i, T *row)> addBias;
  /// For each head a score beside those of the keys, of a value that is zero; or empty.
  std::vector<T> sinks;
  /// Where the scores go if it is set: scaled, behind the cap, behind the bias, or the probabilities.
  enum Stage { Scaled, Capped, Biased, Probabilities } stage = Scaled;
  Heads<T> *scores = nullptr;

  Heads<T> run() const {
    Heads<T> y(q.batch, q.heads, q.length, v.size);
    const int64_t keys = k.length, group = q.heads / k.heads;
    std::vector<T> row(static_cast<size_t>(keys)), bias(static_cast<size_t>(keys));
    if (scores)
      *scores = Heads<T>(q.batch, q.heads, q.length, keys);
    for (int64_t b = 0; b < q.batch; ++b)
      for (int64_t h = 0; h < q.heads; ++h) {
        const std::vector<T> columns = turned(k.at(b, h / group), keys, k.size);
        for (int64_t i = 0; i < q.length; ++i) {
          auto keep = [&](Stage now) {
            if (scores && stage == now)
              std::copy(row.begin(), row.end(), scores->at(b, h, i));
          };
          std::fill(row.begin(), row.end(), T(0));
          multiplyAdd(1, keys, q.size, q.at(b, h, i), columns.data(), row.data());
          for (T &each : row)
            each *= scale;
          keep(Scaled);
          if (softcap != 0)
            for (T &each : row)
              each = softcap * std::tanh(each / softcap);
          keep(Capped);
          std::fill(bias.begin(), bias.end(), T(0));
          if (addBias)
            addBias(b, h, i, bias.data());
          bool isMasked = true;
          for (int64_t j = 0; j < keys; ++j) {
            row[size_t(j)] += bias[size_t(j)];
            isMasked &= bias[size_t(j)] == -std::numeric_limits<T>::infinity();
          }
          keep(Biased);
          if (isMasked)
            std::fill(row.begin(), row.end(), T(0));
          else
            softmaxRow(row.data(), keys, sinks.empty() ? nullptr : &sinks[size_t(h)]);
          keep(Probabilities);
          multiplyAdd(1, v.size, keys, row.data(), v.at(b, h / group), y.at(b, h, i));
        }
      }
    return y;
  }
};

/// Turns the first 2 * `half` elements of x in pairs: neighbours with `isInterleaved`, else (i, half + i).
template <typename T> void rotate(T *x, int64_t half, const T *cosines, const T *sines, bool isInterleaved) {
  for (int64_t i = 0; i < half; ++i) {
    T &a = isInterleaved ? x[2 * i] : x[i], &b = isInterleaved ? x[2 * i + 1] : x[half + i];
    const T first = cosines[i] * a - sines[i] * b;
    b = sines[i] * a + cosines[i] * b;
    a = first;
  }
}

/// Where a rotary embedding finds its tables and positions.
struct RotaryInputs {
  size_t cosines, sines;
  std::optional<size_t> positions;
  /// One position stands for that of the first step of every sequence.
  bool mayBeOffset;
};
void evaluateRotary(Call &call, const RotaryInputs &inputs);

/// Attention, FlexAttention, RotaryEmbedding.
void addAttention(Table &table);

} // namespace tw::operators

#endif // COMPILER_OPERATORS_ATTENTION_H
