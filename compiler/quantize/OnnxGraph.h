//===- OnnxGraph.h - Changing ONNX models in place --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_QUANTIZE_ONNXGRAPH_H
#define COMPILER_QUANTIZE_ONNXGRAPH_H

#include "compiler/frontend/HostTensor.h"
#include "llvm/Support/Error.h"
#include <map>
#include <onnx/onnx_pb.h>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tw::quantize {

/// A tensor as the importer sees it.
struct TensorInfo {
  frontend::ElementKind kind = frontend::ElementKind::F32;
  std::vector<int64_t> shape;
  bool isConstant = false;
  /// Of a float constant that a node gives and one of kReadsConstants reads.
  std::vector<float> values;
};
using TensorInfos = std::map<std::string, TensorInfo>;

/// `node "name" (OpType)`, for messages.
std::string nodeText(const onnx::NodeProto &node);
const onnx::AttributeProto *findAttribute(const onnx::NodeProto &node, const std::string &name);
int64_t intAttribute(const onnx::NodeProto &node, const std::string &name, int64_t fallback);
float floatAttribute(const onnx::NodeProto &node, const std::string &name, float fallback);
void setAttribute(onnx::NodeProto &node, const std::string &name, int64_t value);
void removeAttribute(onnx::NodeProto &node, const std::string &name);

onnx::TensorProto floatTensor(const std::string &name, const std::vector<int64_t> &shape, const std::vector<float> &values);
onnx::TensorProto intTensor(const std::string &name, const std::vector<int64_t> &values);
onnx::TensorProto int32Tensor(const std::string &name, const std::vector<int64_t> &shape, const std::vector<int32_t> &values);
onnx::TensorProto int8Tensor(const std::string &name, const std::vector<int64_t> &shape, const std::vector<int8_t> &values);
onnx::TensorProto uint8Tensor(const std::string &name, const std::vector<int64_t> &shape, const std::vector<uint8_t> &values);

/// The names and initializers of a graph under change.
class GraphNames {
public:
  explicit GraphNames(onnx::GraphProto &graph);

  /// A name that no tensor or node has.
  std::string fresh(const std::string &base);
  /// Adds an initializer and returns its name.
  std::string add(onnx::TensorProto tensor);
  const onnx::TensorProto *initializer(const std::string &name) const;
  /// The elements and shape of a float initializer; nothing if `name` is none.
  std::optional<std::vector<float>> floats(const std::string &name) const;
  std::vector<int64_t> shape(const std::string &name) const;

private:
  onnx::GraphProto &graph;
  std::map<std::string, int> initializers;
  std::set<std::string> names;
};

/// Removes initializers that nothing reads, and their entries among the inputs.
void removeUnusedInitializers(onnx::GraphProto &graph);

/// Operators whose constant operands must be initializers, so that they can be quantised or folded.
extern const std::set<std::string> kReadsConstants;

/// Results of nodes that are constants, and have values in `tensors`, become initializers.
void materializeConstants(onnx::GraphProto &graph, const TensorInfos &tensors);

/// Constants become initializers; Dropout and Identity disappear where their result is no output; batch normalisations
/// are folded into convolutions whose only reader they are. Nodes that nothing reads go.
void simplify(onnx::GraphProto &graph);

/// Brings a model of opset 7 to 12 to opset 13; newer ones stay. Errors name the first node whose operator changed in a
/// way that is not translated.
llvm::Error upgradeOpset(onnx::ModelProto &model, const TensorInfos &tensors);

} // namespace tw::quantize

#endif // COMPILER_QUANTIZE_ONNXGRAPH_H
