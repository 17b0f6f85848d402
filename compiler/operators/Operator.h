//===- Operator.h - One ONNX operator on host tensors -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What every operator computes, in plain loops over tensors in memory: the
// meaning of what no kernel computes, and of what depends on constants. One
// table, a function for each operator; a family of operators is one file.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_OPERATORS_OPERATOR_H
#define COMPILER_OPERATORS_OPERATOR_H

#include "compiler/operators/Value.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace onnx {
class AttributeProto;
class GraphProto;
class NodeProto;
class TensorProto;
} // namespace onnx

namespace tw::operators {

/// Runs the graph of an attribute on `inputs`, its inputs in their order; it sees the names of the graphs around it.
using RunGraph = std::function<std::vector<Value>(const onnx::GraphProto &graph, std::vector<Value> inputs)>;

/// One node that is computed now: attributes, inputs, and results. Functions throw Error.
class Call {
public:
  /// `opset`: version of the node's domain. `inputs`: empty where the node leaves an optional input out.
  /// `folder`: of files that tensors of attributes may name; empty: none.
  Call(const onnx::NodeProto &node, int64_t opset, std::vector<Value> inputs, RunGraph runGraph = {}, std::string folder = "");

  const std::string &type() const;
  int64_t opset() const { return version; }
  [[noreturn]] void fail(const std::string &text) const;

  //===--- Attributes. A default makes it optional. ---===//
  bool hasAttr(const char *name) const;
  int64_t intAttr(const char *name, std::optional<int64_t> fallback = std::nullopt) const;
  bool flagAttr(const char *name, bool fallback) const { return intAttr(name, fallback) != 0; }
  float floatAttr(const char *name, std::optional<float> fallback = std::nullopt) const;
  std::string stringAttr(const char *name, std::optional<std::string> fallback = std::nullopt) const;
  std::vector<int64_t> intsAttr(const char *name, std::optional<std::vector<int64_t>> fallback = std::nullopt) const;
  std::vector<float> floatsAttr(const char *name, std::optional<std::vector<float>> fallback = std::nullopt) const;
  std::vector<std::string> stringsAttr(const char *name, std::optional<std::vector<std::string>> fallback = std::nullopt) const;
  HostTensor tensorAttr(const char *name) const;
  const onnx::GraphProto &graphAttr(const char *name) const;
  /// The attribute, or null. Its type is not checked.
  const onnx::AttributeProto *attr(const char *name) const;

  //===--- Inputs ---===//
  size_t numInputs() const { return inputs.size(); }
  /// Whether input `i` is given; an optional that is empty counts as given, see value().
  bool has(size_t i) const;
  /// A tensor; fails if it is left out, or no tensor.
  const HostTensor &input(size_t i) const;
  /// The same, shared.
  const std::shared_ptr<const HostTensor> &shared(size_t i) const;
  const Value &value(size_t i) const;
  const std::vector<Value> &sequence(size_t i) const;
  /// All elements of an input as integers, or of a scalar input its one element.
  std::vector<int64_t> ints(size_t i) const;
  int64_t intScalar(size_t i) const;
  double realScalar(size_t i) const;
  /// `axis`, counted from the end if negative; fails unless in [0, rank), or with `behind` in [0, rank].
  int64_t axis(int64_t axis, int64_t rank, bool behind = false) const;
  /// The same for a list; sorted, without duplicates.
  std::vector<int64_t> axes(std::vector<int64_t> axes, int64_t rank) const;
  /// Fails unless both are of one type.
  void requireSameType(const HostTensor &a, const HostTensor &b) const;

  //===--- Results ---===//
  size_t numOutputs() const;
  /// Whether the node names result `i`.
  bool wants(size_t i) const;
  /// Sets result `i`; who asks for a result that the node does not name has it thrown away.
  void set(size_t i, Value value);
  /// Makes result `i` a tensor of zeros (or empty strings), to be filled before the call ends.
  HostTensor &output(size_t i, ElementKind kind, const Shape &shape);
  /// All results, those of output() among them; missing ones are empty.
  std::vector<Value> takeOutputs();

  std::vector<Value> run(const onnx::GraphProto &graph, std::vector<Value> arguments) const;

private:
  const onnx::NodeProto &node;
  int64_t version;
  std::vector<Value> inputs;
  RunGraph runGraph;
  std::string folder;
  std::vector<Value> outputs;
  /// Those being filled.
  std::vector<std::shared_ptr<HostTensor>> open;
};

using Evaluate = void (*)(Call &);

/// An operator, all versions of it: functions ask Call::opset() where a version matters.
struct Operator {
  Evaluate evaluate = nullptr;
  /// Inputs whose values, not just types and shapes, decide the types and shapes of results.
  std::set<unsigned> shapeInputs = {};
  /// Types or shapes of results depend on values of any input, or on graphs.
  bool isDynamic = false;
  /// Equal inputs may give different results: it must not be computed twice, nor at compile time.
  bool isRandom = false;
};

/// Keyed by "domain:Type", ONNX's own domain being the empty string: ":Add".
using Table = std::unordered_map<std::string, Operator>;

/// All operators.
const Table &table();
/// Null if there is none.
const Operator *find(const std::string &domain, const std::string &type);

//===--- Families, a file each ---===//
void addElementwise(Table &table);     ///< arithmetic, comparisons, logic, activations, bits, Where, Clip
void addTypes(Table &table);           ///< Cast, CastLike, BitCast, QuantizeLinear and relatives
void addMovement(Table &table);        ///< reshapes, slices, gathers, scatters, pads, constants, ranges
void addReductions(Table &table);      ///< Reduce*, ArgMax, TopK, CumSum, Softmax, norms, losses, Unique, NonZero
void addContractions(Table &table);    ///< MatMul, Gemm, Einsum, Conv*, pools, Det
void addImages(Table &table);          ///< Resize, GridSample, RoiAlign, NonMaxSuppression, Col2Im, ImageDecoder
void addRecurrent(Table &table);       ///< RNN, GRU, LSTM, Attention and relatives, states
void addControlFlow(Table &table);     ///< If, Loop, Scan, sequences, optionals
void addSignals(Table &table);         ///< DFT, STFT, windows, random numbers, strings, text
void addRuntimeDomain(Table &table);   ///< com.microsoft
void addMachineLearning(Table &table); ///< ai.onnx.ml, ai.onnx.preview.training

} // namespace tw::operators

#endif // COMPILER_OPERATORS_OPERATOR_H
