//===- RuntimeDomain.h - What operators of com.microsoft share --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_OPERATORS_RUNTIMEDOMAIN_H
#define COMPILER_OPERATORS_RUNTIMEDOMAIN_H

#include "compiler/operators/Reals.h"

#include <initializer_list>
#include <onnx/onnx_pb.h>

namespace tw::operators {

/// A node of ONNX's own operator `type` that takes over those attributes of `call` that `names` names.
onnx::NodeProto nodeLike(const Call &call, const char *type, std::initializer_list<const char *> names, int outputs = 1);
void addInts(onnx::NodeProto &node, const char *name, const std::vector<int64_t> &values);
void addInt(onnx::NodeProto &node, const char *name, int64_t value);
/// Results of such a node in version `opset`.
std::vector<Value> runOnnx(const Call &call, const onnx::NodeProto &node, int64_t opset, std::vector<Value> inputs);
/// All inputs of `call`.
std::vector<Value> inputsOf(const Call &call);

/// [N, .., C] to [N, C, ..], and back.
HostTensor channelsFirst(const HostTensor &x);
HostTensor channelsLast(const HostTensor &x);

/// x * Phi(x), Phi the normal distribution.
template <typename T> T gelu(T x) { return T(0.5) * x * (1 + std::erf(x * T(0.70710678118654752440))); }
/// Its approximation by tanh, of the constants that ONNX Runtime computes with.
template <typename T> T fastGelu(T x) {
  return T(0.5) * x * (1 + std::tanh(x * (T(0.7978845608028654) + T(0.035677408136300125) * x * x)));
}

/// The matrix product a * b of numpy.matmul.
HostTensor matmul(const Call &call, const HostTensor &a, const HostTensor &b);
/// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta along rows of `size`; without `hasMean`, the mean is left 0. `beta` may be null.
template <typename T>
void normalizeRows(std::vector<T> &x, int64_t size, double epsilon, bool hasMean, const T *gamma, const T *beta,
                   T *means = nullptr, T *inverses = nullptr) {
  for (int64_t row = 0; row < (size ? int64_t(x.size()) / size : 0); ++row) {
    T *values = x.data() + row * size;
    double mean = 0, square = 0;
    if (hasMean) {
      for (int64_t i = 0; i < size; ++i)
        mean += double(values[i]);
      mean /= double(size);
    }
    for (int64_t i = 0; i < size; ++i)
      square += (double(values[i]) - mean) * (double(values[i]) - mean);
    const double inverse = 1 / std::sqrt(square / double(size) + epsilon);
    for (int64_t i = 0; i < size; ++i)
      values[i] = T((double(values[i]) - mean) * inverse) * gamma[i] + (beta ? beta[i] : T(0));
    if (means)
      means[row] = T(mean);
    if (inverses)
      inverses[row] = T(inverse);
  }
}

/// com.microsoft EmbedLayerNormalization of tables that are floats already; null where the node has none.
struct Embedding {
  const HostTensor &ids, *segments, &words, &positions, *segmentTable, &gamma, &beta, *mask, *positionIds;
};
void evaluateEmbedding(Call &call, const Embedding &embedding);

/// Element `i` of numbers of `bits` bits that are packed into bytes, the low bits first.
inline int32_t packedAt(const uint8_t *bytes, int64_t i, int64_t bits) {
  const int64_t perByte = 8 / bits;
  return (bytes[i / perByte] >> (i % perByte * bits)) & ((1 << bits) - 1);
}
/// `bits`; fails unless so many are packed.
inline int64_t requireBits(const Call &call, int64_t bits) {
  if (bits != 2 && bits != 4 && bits != 8)
    call.fail("bits is " + std::to_string(bits) + ", expected 2, 4 or 8");
  return bits;
}

void addRuntimeAttention(Table &table);
void addRuntimeExperts(Table &table);
void addRuntimePacked(Table &table);
void addRuntimeTransforms(Table &table);
void addRuntimeQuantized(Table &table);
void addRuntimeNorms(Table &table);

} // namespace tw::operators

#endif // COMPILER_OPERATORS_RUNTIMEDOMAIN_H
