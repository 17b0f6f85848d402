//===- OnnxNode.h - One node during import ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The view of a NodeProto that the import functions of the operators work on:
// typed attributes and inputs on one side, graph ops on the other.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_FRONTEND_ONNXNODE_H
#define COMPILER_FRONTEND_ONNXNODE_H

#include "compiler/frontend/ConstantEval.h"
#include "compiler/frontend/ImportError.h"
#include "compiler/graph/ConstantBudget.h"
#include "compiler/graph/Graph.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace onnx {
class AttributeProto;
class ModelProto;
class NodeProto;
class TensorProto;
} // namespace onnx

namespace tw::frontend {

/// A value of the ONNX graph during import: a constant, a value of the function, or both once a constant has been used.
struct Tensor {
  ElementKind kind = ElementKind::F32;
  /// The type that the model gives it: float16 or bfloat16 where `kind` is what that is widened to.
  ElementKind declared = ElementKind::F32;
  Shape shape;
  ConstantRef constant;
  mlir::Value value;

  Tensor() = default;
  Tensor(ConstantRef constant)
      : kind(constant->kind), declared(constant->kind), shape(constant->shape), constant(std::move(constant)) {}
  Tensor(ElementKind kind, llvm::ArrayRef<int64_t> shape, mlir::Value value)
      : kind(kind), declared(kind), shape(shape.begin(), shape.end()), value(value) {}

  int64_t rank() const { return int64_t(shape.size()); }
};

/// float for float16 and bfloat16; other kinds stay.
inline ElementKind widened(ElementKind kind) {
  return kind == ElementKind::F16 || kind == ElementKind::BF16 ? ElementKind::F32 : kind;
}

/// The MLIR element type of a kind.
mlir::Type mlirElementType(mlir::MLIRContext &context, ElementKind kind);

/// The last version of ONNX's own operators whose attributes the import functions all know. What newer versions add, the host computes.
inline constexpr int64_t kLastKnownOpset = 21;

/// Where ops of one function are created: constants before everything else, other ops at the end.
struct FunctionBuilder {
  mlir::OpBuilder ops;
  bool widenFloats;
  graph::ConstantBudget &budget;
  std::string folder;                    ///< of files that tensors of the model may name
  std::map<std::string, int64_t> opsets; ///< of the model
  mlir::Operation *lastConstant = nullptr;
  /// One graph.constant per constant. The reference keeps the address from being reused.
  std::map<const Constant *, std::pair<ConstantRef, mlir::Value>> materialised;
};

class Node {
public:
  /// `inputs`: null where the node leaves an optional input out.
  Node(FunctionBuilder &builder, const onnx::NodeProto &proto, mlir::Location loc, int64_t opset,
       std::vector<const Tensor *> inputs);

  /// What graphs in the node read from around it.
  void capture(std::vector<std::pair<std::string, const Tensor *>> values) { captured = std::move(values); }
  const std::vector<std::pair<std::string, const Tensor *>> &captures() const { return captured; }

  const onnx::NodeProto &source() const { return proto; }
  /// Version of the operator's domain.
  int64_t opset() const { return version; }
  llvm::StringRef type() const;
  llvm::StringRef domain() const;
  /// Its own name, or that of its first result.
  std::string name() const;

  //===--- Problems ---===//
  /// The node is wrong.
  [[noreturn]] void fail(const llvm::Twine &text) const;
  /// The node cannot be expressed in the graph dialect.
  [[noreturn]] void inexpressible(const llvm::Twine &text) const;
  /// The value, or fail() with its error.
  template <typename T> T check(llvm::Expected<T> value) const {
    if (!value)
      fail(llvm::toString(value.takeError()));
    return std::move(*value);
  }

  //===--- Attributes. A default makes it optional. An attribute that no import function asked for is an error. ---===//
  bool hasAttr(llvm::StringRef name);
  int64_t intAttr(llvm::StringRef name, std::optional<int64_t> fallback = std::nullopt);
  float floatAttr(llvm::StringRef name, std::optional<float> fallback = std::nullopt);
  std::string stringAttr(llvm::StringRef name, std::optional<std::string> fallback = std::nullopt);
  std::vector<int64_t> intsAttr(llvm::StringRef name, std::optional<std::vector<int64_t>> fallback = std::nullopt);
  std::vector<float> floatsAttr(llvm::StringRef name);
  /// Empty if it is missing.
  std::vector<std::string> stringsAttr(llvm::StringRef name);
  Tensor tensorAttr(llvm::StringRef name);
  bool flagAttr(llvm::StringRef name, bool fallback);
  /// An attribute that says nothing about inference.
  void ignoreAttr(llvm::StringRef name) { usedAttrs.insert(name.str()); }
  /// Fails if an attribute has not been asked for.
  void checkAttrsUsed() const;

  //===--- Inputs ---===//
  size_t numInputs() const { return inputs.size(); }
  size_t numOutputs() const;
  /// Whether the node names output `i`.
  bool wants(size_t i) const;
  bool has(size_t i) const { return i < inputs.size() && inputs[i]; }
  /// Fails if input `i` is left out; `name` is ONNX's name for it.
  const Tensor &input(size_t i, llvm::StringRef name) const;
  /// Like input(); inexpressible unless it is a constant.
  const ConstantRef &constant(size_t i, llvm::StringRef name) const;
  /// A constant list of integers, of rank 1 (or a scalar).
  std::vector<int64_t> ints(size_t i, llvm::StringRef name) const;
  /// A constant of one element.
  const ConstantRef &scalar(size_t i, llvm::StringRef name) const;
  void checkInputCount(size_t least, size_t most) const;
  bool allConstant() const;

  /// `axis`, counted from the end if negative; fails unless in [0, rank) or, with `behind`, [0, rank].
  int64_t axis(int64_t axis, int64_t rank, bool behind = false) const;
  /// The same for a list; sorted, without duplicates.
  std::vector<int64_t> axes(std::vector<int64_t> axes, int64_t rank) const;
  /// inexpressible unless x is of float, float16 or bfloat16.
  void requireFloat(const Tensor &x) const;
  void requireSameType(const Tensor &a, const Tensor &b) const;

  //===--- Results ---===//
  /// The value of `x` in the function; a constant becomes a graph.constant.
  mlir::Value value(const Tensor &x) const;
  mlir::OpBuilder &builder() const { return functionBuilder.ops; }
  mlir::Location loc() const { return location; }
  mlir::RankedTensorType tensorType(ElementKind kind, llvm::ArrayRef<int64_t> shape) const;
  /// What `kind` of the model is in the function.
  ElementKind imported(ElementKind kind) const { return functionBuilder.widenFloats ? widened(kind) : kind; }

  /// Creates and verifies an op with one result; of constants only, it is computed, and no op is left.
  template <typename OpT, typename... Args> Tensor emit(ElementKind kind, llvm::ArrayRef<int64_t> shape, Args &&...args) const {
    checkResult(kind, shape, takesAnyElement<OpT>);
    auto op = functionBuilder.ops.create<OpT>(location, tensorType(kind, shape), std::forward<Args>(args)...);
    verifyOp(op, takesAnyElement<OpT>);
    return fold(op, kind, shape);
  }
  template <typename OpT> Tensor emitUnary(const Tensor &x) const { return emit<OpT>(x.kind, x.shape, value(x)); }
  /// Counts a constant that the node makes for itself; fails if there is no room for it.
  void countConstants(llvm::ArrayRef<int64_t> shape, ElementKind kind) const;
  /// graph.fallback with these results.
  std::vector<Tensor> emitFallback(llvm::ArrayRef<std::pair<ElementKind, Shape>> results, llvm::StringRef reason) const;
  /// The same of another node, alone in `model`, whose inputs are `operands`.
  std::vector<Tensor> emitFallback(const onnx::ModelProto &model, llvm::ArrayRef<Tensor> operands,
                                   llvm::ArrayRef<std::pair<ElementKind, Shape>> results, llvm::StringRef reason) const;

  //===--- Small graphs. On constants, what can be computed is. ---===//
  Tensor reshape(const Tensor &x, llvm::ArrayRef<int64_t> shape) const;
  Tensor transpose(const Tensor &x, llvm::ArrayRef<int64_t> perm) const;
  Tensor slice(const Tensor &x, llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> steps,
               llvm::ArrayRef<int64_t> sizes) const;
  /// `value` is one number of the type of `x`.
  Tensor pad(const Tensor &x, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high, const Constant &value) const;
  Tensor concat(llvm::ArrayRef<Tensor> inputs, int64_t axis) const;
  /// One of Add, Sub, Mul, Div, Min, Max.
  Tensor binary(BinaryKind kind, const Tensor &a, const Tensor &b) const;
  /// graph.elementwise; inexpressible where the function is not one of such elements.
  Tensor elementwise(graph::Function function, llvm::ArrayRef<Tensor> x) const;
  Tensor cast(const Tensor &x, ElementKind kind) const;
  /// What the model's Cast to `kind` gives: rounded to that type, whatever it is imported as.
  Tensor convert(const Tensor &x, ElementKind kind) const;
  Tensor reduce(llvm::StringRef kind, const Tensor &x, llvm::ArrayRef<int64_t> axes, bool keepdims) const;

private:
  const onnx::AttributeProto *findAttr(llvm::StringRef name, int type);
  /// Whether elements of OpT may be of types that the accelerator has not.
  template <typename OpT>
  static constexpr bool takesAnyElement =
      llvm::is_one_of<OpT, graph::ElementwiseOp, graph::CastOp, graph::GatherOp, graph::ReshapeOp, graph::TransposeOp,
                      graph::SliceOp, graph::ConcatOp>::value;
  void checkResult(ElementKind kind, llvm::ArrayRef<int64_t> shape, bool anyElement) const;
  void verifyOp(mlir::Operation *op, bool anyElement) const;
  /// The result of `op`: computed, where its operands are constants. Quantised constants stay so: their dequantize op tells later passes.
  Tensor fold(mlir::Operation *op, ElementKind kind, llvm::ArrayRef<int64_t> shape) const;

  FunctionBuilder &functionBuilder;
  const onnx::NodeProto &proto;
  mlir::Location location;
  int64_t version;
  std::vector<const Tensor *> inputs;
  std::vector<std::pair<std::string, const Tensor *>> captured;
  std::set<std::string> usedAttrs;
};

/// Decodes a tensor of the model as it is in the function (float16 and bfloat16 widened on request); throws ImportError.
Tensor decodeConstant(const onnx::TensorProto &proto, bool widenFloats, const std::string &folder = "");
/// The same of a tensor. Precondition: its type is not the host's alone.
Tensor constantOf(HostTensor tensor, bool widenFloats);

/// Imports one node: returns its results, the first of which always exist.
using ImportFunction = std::vector<Tensor> (*)(Node &);
/// Keyed by "domain:OpType"; ONNX's own domain is the empty string.
using ImportTable = llvm::StringMap<ImportFunction>;

/// Constants, shapes and moving data.
void addDataImports(ImportTable &table);
/// Element by element, matrices, reductions.
void addMathImports(ImportTable &table);
/// Convolution, pooling, normalisation.
void addNnImports(ImportTable &table);
/// What no op of the graph dialect computes, for nodes of constants.
void addFolds(ImportTable &table);
/// Activations, norms, attention, fused operators: made of other ops.
void addComposedImports(ImportTable &table);
/// RNN, GRU and LSTM.
void addRecurrentImports(ImportTable &table);
/// The convolution of Conv and FusedConv, of inputs 0 to 2.
Tensor importConvolution(Node &n);
/// Quantised operators of ONNX and ONNX Runtime.
void addQuantizedImports(ImportTable &table);

} // namespace tw::frontend

#endif // COMPILER_FRONTEND_ONNXNODE_H
