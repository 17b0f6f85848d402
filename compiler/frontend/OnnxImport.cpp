//===- OnnxImport.cpp - ONNX to the graph dialect -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/OnnxImport.h"
#include "compiler/frontend/OnnxNode.h"
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/frontend/TensorFile.h"
#include "compiler/graph/ModelNodes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/IR/Verifier.h"
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <limits>
#include <memory>
#include <onnx/onnx_pb.h>

namespace tw::frontend {

using llvm::ArrayRef;
using llvm::StringRef;
using llvm::Twine;

/// The versions of ONNX's own operators that the import functions know.
static constexpr int64_t kLastOpset = 21;

/// Operators whose meaning changed in opset 7 without their form showing it. source: ONNX Operators, version histories
static constexpr llvm::StringLiteral kChangedInOpset7[] = {
    "Add", "And", "BatchNormalization", "Div", "Dropout", "Equal", "Gemm", "Greater", "Less",
    "Mul", "Or",  "PRelu",              "Pow", "Sub",     "Upsample", "Xor"};

/// ONNX writes its own domain in two ways.
static std::string normalDomain(const std::string &domain) { return domain == "ai.onnx" ? "" : domain; }

static const ImportTable &importTable() {
  static const ImportTable table = [] {
    ImportTable table;
    addDataImports(table);
    addMathImports(table);
    addNnImports(table);
    addQuantizedImports(table);
    return table;
  }();
  return table;
}

namespace {

/// Imports the graph of one model. Throws ImportError.
class GraphImporter {
public:
  GraphImporter(mlir::MLIRContext &context, const onnx::ModelProto &model, const ImportOptions &options)
      : context(context), model(model), graph(model.graph()), options(options) {}

  mlir::OwningOpRef<mlir::ModuleOp> run();

private:
  void readOpsets();
  void readInitializers();
  void findUses();
  /// The network inputs as arguments of @main.
  void readInputs(mlir::ModuleOp module);
  void readDeclaredTypes();
  void importNode(const onnx::NodeProto &proto, int index);
  static void declareTypes(const Node &node, std::vector<Tensor> &results);
  std::vector<Tensor> importResults(Node &node, const onnx::NodeProto &proto);
  void importOutputs();
  mlir::Value outputOf(const Node &node, const Tensor &tensor, ElementKind kind);
  mlir::StringAttr halfAttr() { return mlir::StringAttr::get(&context, elementName(ElementKind::F16)); }

  void define(const std::string &name, Tensor tensor);
  const Tensor *lookup(const std::string &name, int nodeIndex);
  int64_t opsetOf(const std::string &domain) const;
  mlir::Location locationOf(StringRef name) { return mlir::NameLoc::get(mlir::StringAttr::get(&context, name)); }
  /// What `kind` of the model is in the function.
  ElementKind imported(ElementKind kind) const { return options.widenFloats ? widened(kind) : kind; }
  /// Type and shape that a ValueInfoProto declares; nothing if it leaves a dim open.
  std::optional<std::pair<ElementKind, Shape>> declaredType(const onnx::ValueInfoProto &info) const;

  mlir::MLIRContext &context;
  const onnx::ModelProto &model;
  const onnx::GraphProto &graph;
  const ImportOptions &options;

  std::map<std::string, int64_t> opsets;
  std::map<std::string, Tensor> tensors;
  std::set<std::string> initializerNames;
  /// Names that a node or the network's result needs.
  std::set<std::string> used;
  /// The node that produces a name, to tell an unsorted graph from a missing tensor.
  std::map<std::string, int> producers;
  std::map<std::string, std::pair<ElementKind, Shape>> declared;

  mlir::func::FuncOp function;
  std::unique_ptr<FunctionBuilder> builder;
};

} // namespace

//===----------------------------------------------------------------------===//
// Names, types, opsets
//===----------------------------------------------------------------------===//

void GraphImporter::readOpsets() {
  for (const onnx::OperatorSetIdProto &opset : model.opset_import())
    if (!opsets.emplace(normalDomain(opset.domain()), opset.version()).second)
      throw ImportError{"operator domain \"" + opset.domain() + "\" is imported twice"};
  auto own = opsets.find("");
  if (own == opsets.end())
    return;
  if (own->second < 1 || own->second > kLastOpset)
    throw ImportError{"opset is " + std::to_string(own->second) + ", expected 7 to " + std::to_string(kLastOpset)};
}

int64_t GraphImporter::opsetOf(const std::string &domain) const {
  auto found = opsets.find(domain);
  if (found != opsets.end())
    return found->second;
  // ONNX Runtime reads models that leave its own domain out.
  if (domain == "com.microsoft")
    return 1;
  throw ImportError{"the model imports no operators of domain \"" + domain + "\""};
}

void GraphImporter::define(const std::string &name, Tensor tensor) {
  if (!tensors.emplace(name, std::move(tensor)).second)
    throw ImportError{"name \"" + name + "\" is given to two tensors"};
}

void GraphImporter::readInitializers() {
  if (graph.sparse_initializer_size())
    throw ImportError{"sparse initializers are not supported"};
  for (const onnx::TensorProto &proto : graph.initializer()) {
    try {
      define(proto.name(), decodeConstant(proto, options.widenFloats));
    } catch (const ImportError &error) {
      throw ImportError{"initializer \"" + proto.name() + "\": " + error.message};
    }
    initializerNames.insert(proto.name());
  }
}

void GraphImporter::findUses() {
  for (int i = 0; i < graph.node_size(); ++i) {
    used.insert(graph.node(i).input().begin(), graph.node(i).input().end());
    for (const std::string &name : graph.node(i).output())
      producers.emplace(name, i);
  }
  for (const onnx::ValueInfoProto &output : graph.output())
    used.insert(output.name());
}

std::optional<std::pair<ElementKind, Shape>> GraphImporter::declaredType(const onnx::ValueInfoProto &info) const {
  if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape())
    return std::nullopt;
  auto kind = elementKindOf(info.type().tensor_type().elem_type());
  if (!kind)
    return std::nullopt;
  Shape shape;
  for (const onnx::TensorShapeProto::Dimension &dim : info.type().tensor_type().shape().dim()) {
    if (!dim.has_dim_value() || dim.dim_value() < 0)
      return std::nullopt;
    shape.push_back(dim.dim_value());
  }
  return std::pair(imported(*kind), shape);
}

void GraphImporter::readDeclaredTypes() {
  for (auto *list : {&graph.value_info(), &graph.output()})
    for (const onnx::ValueInfoProto &info : *list)
      if (auto type = declaredType(info))
        declared.emplace(info.name(), *type);
}

//===----------------------------------------------------------------------===//
// Inputs and outputs
//===----------------------------------------------------------------------===//

/// `[batch, 3, ?, 224]`.
static std::string declaredDims(const onnx::TensorShapeProto &shape) {
  std::string text;
  for (const onnx::TensorShapeProto::Dimension &dim : shape.dim())
    text += (text.empty() ? "" : ", ") + (dim.has_dim_value()        ? std::to_string(dim.dim_value())
                                          : dim.dim_param().empty() ? std::string("?")
                                                                    : dim.dim_param());
  return "[" + text + "]";
}

/// `1,3,224,224`, with names for the open dims.
static std::string shapeExample(const onnx::TensorShapeProto &shape) {
  std::string text;
  for (const onnx::TensorShapeProto::Dimension &dim : shape.dim())
    text += (text.empty() ? "" : ",") + (dim.has_dim_value() && dim.dim_value() > 0 ? std::to_string(dim.dim_value()) : "D");
  return text;
}

void GraphImporter::readInputs(mlir::ModuleOp module) {
  std::string open;
  std::set<std::string> seen;
  llvm::SmallVector<mlir::Type> types;
  llvm::SmallVector<std::pair<std::string, Tensor>> arguments;
  llvm::SmallVector<bool> halves;
  for (const onnx::ValueInfoProto &input : graph.input()) {
    // Before IR version 4 every initializer was an input, too.
    if (initializerNames.count(input.name()))
      continue;
    auto fail = [&](const std::string &text) { throw ImportError{"input \"" + input.name() + "\" " + text}; };
    if (input.name().empty() || seen.count(input.name()))
      fail(input.name().empty() ? "has no name" : "is given twice");
    if (!input.type().has_tensor_type())
      fail("is not a tensor");
    const onnx::TypeProto::Tensor &type = input.type().tensor_type();
    auto kind = elementKindOf(type.elem_type());
    if (auto bound = options.constants.find(input.name()); bound != options.constants.end()) {
      if (!kind || bound->second.type != *kind)
        fail(std::string("is given a constant of ") + elementName(bound->second.type) + ", the model declares " +
             onnxTypeName(type.elem_type()));
      auto count = countTensorElements(bound->second.shape);
      if (!count || bound->second.bytes.size() != size_t(*count) * elementBytes(*kind))
        fail("is given a constant whose shape and data do not agree");
      ConstantRef constant = makeConstant(bound->second);
      seen.insert(input.name());
      Tensor tensor = imported(*kind) == *kind ? constant : evalCast(*constant, imported(*kind));
      tensor.declared = *kind;
      define(input.name(), tensor);
      continue;
    }
    if (!kind)
      fail("has element type " + onnxTypeName(type.elem_type()) + ", which is not supported");
    seen.insert(input.name());
    std::vector<int64_t> shape;
    auto given = options.shapes.find(input.name());
    if (given != options.shapes.end()) {
      shape = given->second;
      bool fits = !type.has_shape() || type.shape().dim_size() == int(shape.size());
      for (size_t i = 0; fits && type.has_shape() && i < shape.size(); ++i) {
        const onnx::TensorShapeProto::Dimension &dim = type.shape().dim(int(i));
        fits = !dim.has_dim_value() || dim.dim_value() <= 0 || dim.dim_value() == shape[i];
      }
      if (!fits)
        fail("was given shape " + formatShape(shape) + ", the model allows " + declaredDims(type.shape()));
    } else {
      bool dynamic = !type.has_shape();
      for (const onnx::TensorShapeProto::Dimension &dim : type.shape().dim()) {
        // Some exporters write -1 or 0 for an open dim.
        dynamic |= !dim.has_dim_value() || dim.dim_value() <= 0;
        shape.push_back(dim.dim_value());
      }
      if (dynamic) {
        open += (open.empty() ? "" : "; ") + ("input \"" + input.name() + "\" has ") +
                (type.has_shape() ? "open dims " + declaredDims(type.shape()) : "no shape") + ": fix them with --shape " +
                input.name() + "=" + (type.has_shape() ? shapeExample(type.shape()) : "D,D,..");
        continue;
      }
    }
    auto count = countTensorElements(shape);
    if (!count || *count == 0)
      fail("has shape " + formatShape(shape) + ": every dim must be at least 1, and at most 2^31 elements are allowed");
    // The machines have bfloat16 in memory, but no float16.
    const bool isHalf = *kind == ElementKind::F16 && options.widenFloats;
    const ElementKind stored = isHalf ? ElementKind::F32 : *kind;
    arguments.emplace_back(input.name(), Tensor(*kind, shape, nullptr));
    types.push_back(mlir::RankedTensorType::get(shape, mlirElementType(context, stored)));
    halves.push_back(isHalf);
  }
  std::string names;
  for (const std::string &name : seen)
    names += (names.empty() ? "" : ", ") + name;
  for (auto &entry : options.shapes)
    if (!seen.count(entry.first))
      throw ImportError{"a shape is given for \"" + entry.first + "\", the inputs of the model are: " + names};
  for (auto &entry : options.constants)
    if (!seen.count(entry.first))
      throw ImportError{"a constant is given for \"" + entry.first + "\", the inputs of the model are: " + names};
  if (!open.empty())
    throw ImportError{open};

  function = mlir::func::FuncOp::create(locationOf(graph.name().empty() ? "main" : graph.name()), "main",
                                        mlir::FunctionType::get(&context, types, {}));
  module.push_back(function);
  mlir::Block *body = function.addEntryBlock();
  builder.reset(new FunctionBuilder{mlir::OpBuilder::atBlockEnd(body), options.widenFloats, nullptr, {}});
  for (auto [i, named] : llvm::enumerate(arguments)) {
    auto &[name, argument] = named;
    argument.value = body->getArgument(unsigned(i));
    function.setArgAttr(unsigned(i), graph::kNameAttr, mlir::StringAttr::get(&context, name));
    if (halves[i])
      function.setArgAttr(unsigned(i), graph::kWidenedFromAttr, halfAttr());
    const ElementKind declared = argument.kind;
    if (halves[i])
      argument.kind = ElementKind::F32;
    onnx::NodeProto none;
    Tensor tensor = Node(*builder, none, locationOf(name), 0, {}).cast(argument, imported(declared));
    tensor.declared = declared;
    define(name, tensor);
  }
}

/// What the network returns for `tensor`, which the model declares of `kind`. A float16 stays float32: whoever takes it rounds it.
mlir::Value GraphImporter::outputOf(const Node &node, const Tensor &tensor, ElementKind kind) {
  if (kind == imported(kind))
    return node.value(tensor);
  if (kind == ElementKind::BF16)
    return node.value(node.cast(tensor, kind));
  if (tensor.constant)
    return node.value(node.convert(tensor, kind));
  // A Cast that rounds what is rounded then has nothing to do.
  mlir::Value value = node.value(tensor);
  auto widening = value.getDefiningOp<graph::CastOp>();
  auto rounding = widening ? widening.getX().getDefiningOp<graph::CastOp>() : graph::CastOp();
  const bool isRounded = rounding && mlir::getElementTypeOrSelf(rounding.getY()).isF16() && rounding.getX().getType() == value.getType();
  return isRounded ? rounding.getX() : value;
}

void GraphImporter::importOutputs() {
  if (graph.output_size() == 0)
    throw ImportError{"the graph has no outputs"};
  llvm::SmallVector<mlir::Value> values;
  llvm::SmallVector<mlir::Type> types;
  llvm::SmallVector<bool> halves;
  onnx::NodeProto none;
  for (const onnx::ValueInfoProto &output : graph.output()) {
    auto fail = [&](const std::string &text) { throw ImportError{"output \"" + output.name() + "\" " + text}; };
    auto found = tensors.find(output.name());
    if (found == tensors.end())
      fail("is produced by no node");
    const Tensor &tensor = found->second;
    int32_t declaredElement = output.type().tensor_type().elem_type();
    auto kind = elementKindOf(declaredElement);
    if (declaredElement != 0 && (!kind || imported(*kind) != tensor.kind))
      fail("is of " + std::string(elementName(tensor.declared)) + ", the model declares " + onnxTypeName(declaredElement));
    if (output.type().tensor_type().has_shape()) {
      const onnx::TensorShapeProto &shape = output.type().tensor_type().shape();
      bool fits = shape.dim_size() == int(tensor.shape.size());
      for (int i = 0; fits && i < shape.dim_size(); ++i)
        fits = !shape.dim(i).has_dim_value() || shape.dim(i).dim_value() <= 0 || shape.dim(i).dim_value() == tensor.shape[size_t(i)];
      if (!fits)
        fail("has shape " + formatShape(tensor.shape) + ", the model declares " + declaredDims(shape));
    }
    if (llvm::is_contained(tensor.shape, 0))
      fail("has shape " + formatShape(tensor.shape) + ": every dim must be at least 1");
    Node node(*builder, none, locationOf(output.name()), 0, {});
    values.push_back(outputOf(node, tensor, kind.value_or(tensor.declared)));
    halves.push_back(kind.value_or(tensor.declared) == ElementKind::F16 && options.widenFloats);
    types.push_back(values.back().getType());
  }
  builder->ops.create<mlir::func::ReturnOp>(function.getLoc(), values);
  function.setFunctionType(mlir::FunctionType::get(&context, function.getArgumentTypes(), types));
  for (int i = 0; i < graph.output_size(); ++i) {
    function.setResultAttr(unsigned(i), graph::kNameAttr, mlir::StringAttr::get(&context, graph.output(i).name()));
    if (halves[size_t(i)])
      function.setResultAttr(unsigned(i), graph::kWidenedFromAttr, halfAttr());
  }
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

const Tensor *GraphImporter::lookup(const std::string &name, int nodeIndex) {
  auto found = tensors.find(name);
  if (found != tensors.end())
    return &found->second;
  auto producer = producers.find(name);
  if (producer != producers.end() && producer->second >= nodeIndex)
    throw ImportError{"input \"" + name + "\" is produced by " +
                      (producer->second == nodeIndex
                           ? std::string("the node itself")
                           : "a later node, \"" + graph.node(producer->second).name() + "\" (" +
                                 graph.node(producer->second).op_type() + ")") +
                      ": nodes must stand in an order in which they can run"};
  throw ImportError{"input \"" + name + "\" is no input, no initializer and produced by no node"};
}

std::vector<Tensor> GraphImporter::importResults(Node &node, const onnx::NodeProto &proto) {
  for (const onnx::AttributeProto &attr : proto.attribute())
    if (attr.has_g() || attr.graphs_size())
      throw ImportError{"attribute " + attr.name() + " holds a graph: control flow is not supported"};
  if (node.domain().empty() && node.opset() < 7 && llvm::is_contained(kChangedInOpset7, node.type()))
    throw ImportError{"this operator is of opset " + std::to_string(node.opset()) + ", expected 7 or newer: convert the model"};
  if (proto.output_size() == 0)
    throw ImportError{"the node has no outputs"};
  std::string reason = "this operator is not supported";
  mlir::Block &body = function.getBody().front();
  mlir::Operation *last = body.empty() ? nullptr : &body.back();
  auto import = importTable().find(normalDomain(proto.domain()) + ":" + proto.op_type());
  if (import != importTable().end()) {
    try {
      std::vector<Tensor> results = import->second(node);
      bool isFallback = !results.empty() && results[0].value && results[0].value.getDefiningOp<graph::FallbackOp>();
      if (!isFallback)
        node.checkAttrsUsed();
      return results;
    } catch (const Inexpressible &problem) {
      reason = problem.reason;
    }
    // What the import function has begun; the constants that stand before it may stay.
    while (!body.empty() && &body.back() != last && !mlir::isa<graph::ConstantOp>(body.back()))
      body.back().erase();
  }
  std::vector<std::pair<ElementKind, Shape>> results;
  for (const std::string &name : proto.output()) {
    auto type = declared.find(name);
    if (type == declared.end() || llvm::is_contained(type->second.second, 0))
      throw ImportError{reason + ", and it cannot be left to another device because the model does not declare the shape of its "
                                 "result \"" + name + "\""};
    results.push_back(type->second);
  }
  return node.emitFallback(results, reason);
}

/// Float results are of the type of the first float input, but where the node names a type.
void GraphImporter::declareTypes(const Node &node, std::vector<Tensor> &results) {
  static constexpr llvm::StringLiteral kNamesType[] = {"Cast", "CastLike", "Constant", "ConstantOfShape"};
  if (llvm::is_contained(kNamesType, node.type()))
    return;
  for (size_t i = 0; i < node.numInputs(); ++i)
    if (node.has(i) && node.input(i, "").kind == ElementKind::F32) {
      for (Tensor &result : results)
        if (result.kind == ElementKind::F32)
          result.declared = node.input(i, "").declared;
      return;
    }
}

/// What a node is called: by itself, by its first result, or by its place.
static std::string nodeName(const onnx::NodeProto &proto, int index) {
  return !proto.name().empty()                                  ? proto.name()
         : proto.output_size() && !proto.output(0).empty() ? proto.output(0)
                                                               : "node" + std::to_string(index);
}

void GraphImporter::importNode(const onnx::NodeProto &proto, int index) {
  const std::string name = nodeName(proto, index);
  try {
    std::vector<const Tensor *> inputs;
    for (const std::string &input : proto.input())
      inputs.push_back(input.empty() ? nullptr : lookup(input, index));
    // Trailing inputs that are left out are as if they were not there.
    while (!inputs.empty() && !inputs.back())
      inputs.pop_back();
    Node node(*builder, proto, locationOf(name), opsetOf(normalDomain(proto.domain())), std::move(inputs));
    std::vector<Tensor> results = importResults(node, proto);
    declareTypes(node, results);
    for (int i = 0; i < proto.output_size(); ++i) {
      const std::string &output = proto.output(i);
      if (output.empty())
        continue;
      if (size_t(i) < results.size())
        define(output, results[size_t(i)]);
      else if (used.count(output))
        throw ImportError{"output " + std::to_string(i) + " (\"" + output + "\") is used, but only the first " +
                          std::to_string(results.size()) + " of this operator are supported"};
    }
  } catch (const ImportError &error) {
    throw ImportError{"node \"" + name + "\" (" + proto.op_type() + "): " + error.message};
  }
}

mlir::OwningOpRef<mlir::ModuleOp> GraphImporter::run() {
  readOpsets();
  findUses();
  readInitializers();
  readDeclaredTypes();
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(locationOf(graph.name().empty() ? "main" : graph.name()));
  readInputs(*module);
  mlir::Block &body = function.getBody().front();
  llvm::SmallVector<mlir::Attribute> names;
  for (int i = 0; i < graph.node_size(); ++i) {
    importNode(graph.node(i), i);
    names.push_back(mlir::StringAttr::get(&context, nodeName(graph.node(i), i)));
  }
  function->setAttr(graph::kModelNodesAttr, mlir::ArrayAttr::get(&context, names));
  importOutputs();
  // What a node began before it became a fallback, and conversions that nobody reads.
  for (mlir::Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (mlir::isa<graph::ConstantOp, graph::CastOp>(op) && op.use_empty())
      op.erase();
  return module;
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

static llvm::Error fileError(StringRef file, const Twine &text) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), file + ": " + text);
}

llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importOnnx(mlir::MLIRContext &context, StringRef bytes, StringRef file,
                                                             const ImportOptions &options) {
  google::protobuf::LogSilencer silencer;
  onnx::ModelProto model;
  if (bytes.size() >= size_t(std::numeric_limits<int>::max()))
    return fileError(file, "the model is larger than 2 GiB, the limit of its file format");
  google::protobuf::io::ArrayInputStream stream(bytes.data(), int(bytes.size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(std::numeric_limits<int>::max());
  // Deeper than any model: a TensorProto lies in an AttributeProto of a NodeProto of a GraphProto.
  coded.SetRecursionLimit(64);
  if (!model.ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
    return fileError(file, "not a valid ONNX model: its bytes are damaged or cut off");
  if (!model.has_graph())
    return fileError(file, "not an ONNX model: it has no graph");
  context.loadDialect<graph::GraphDialect, mlir::func::FuncDialect>();
  try {
    mlir::OwningOpRef<mlir::ModuleOp> module = GraphImporter(context, model, options).run();
    std::string message;
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
      if (message.empty())
        message = diagnostic.str();
      return mlir::success();
    });
    if (failed(mlir::verify(*module)))
      return fileError(file, "the imported graph is not valid: " + message);
    return module;
  } catch (const ImportError &error) {
    return fileError(file, error.message);
  } catch (const std::bad_alloc &) {
    return fileError(file, "the model does not fit into memory");
  }
}

llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importOnnxFile(mlir::MLIRContext &context, StringRef path,
                                                                 const ImportOptions &options) {
  auto bytes = readFile(path.str());
  if (!bytes)
    return llvm::createStringError(llvm::inconvertibleErrorCode(), bytes.message());
  return importOnnx(context, *bytes, path, options);
}

} // namespace tw::frontend
