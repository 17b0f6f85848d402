//===- OnnxImport.cpp - ONNX to the graph dialect -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/OnnxImport.h"
#include "compiler/frontend/OnnxNode.h"
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/graph/Messages.h"
#include "compiler/graph/ModelNodes.h"
#include "isa/Printable.h"
#include "isa/files/InputFile.h"
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
    "Add", "And", "BatchNormalization", "Div", "Dropout", "Equal", "Gemm", "Greater", "Less", "Mul", "Or", "PRelu",
    "Pow", "Sub", "Upsample",           "Xor"};

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
  GraphImporter(mlir::MLIRContext &context, onnx::ModelProto &model, const ImportOptions &options)
      : context(context), model(model), graph(*model.mutable_graph()), options(options), budget(options.maxConstantBytes) {}

  mlir::OwningOpRef<mlir::ModuleOp> run();

private:
  void readOpsets();
  void readInitializers();
  /// Which nodes the network's results need, and which names these nodes; the others are not imported.
  void findUses();
  /// The network inputs as arguments of @main.
  void readInputs(mlir::ModuleOp module);
  /// Whether a network input is a constant, which is then defined. `fixed`: its shape by --shape.
  bool bindConstant(const onnx::ValueInfoProto &input, const std::optional<std::vector<int64_t>> &fixed);
  /// `constant` for `input`, once it is known to fit.
  Tensor bind(const onnx::ValueInfoProto &input, const ConstantRef &constant);
  void readDeclaredTypes();
  std::string nameOf(int index) const;
  void importNode(int index);
  /// Whether a node reads what another one makes that is not known; then all that it makes is unknown, too.
  bool dependsOnUnknown(const onnx::NodeProto &proto);
  /// Counts the constants that a node has made; throws if they are too many.
  void count(const Node &node, const std::vector<Tensor> &results, const onnx::NodeProto &proto);
  /// All nodes without an implementation, if a result of one of them is not known.
  void refuseUnknown(mlir::ModuleOp module);
  static void declareTypes(const Node &node, std::vector<Tensor> &results);
  /// Nothing if the shapes of the results are not known.
  std::vector<Tensor> importResults(Node &node, const onnx::NodeProto &proto, int index);
  void importOutputs();
  mlir::Value outputOf(const Node &node, const Tensor &tensor, ElementKind kind);
  mlir::StringAttr halfAttr() { return mlir::StringAttr::get(&context, elementName(ElementKind::F16)); }

  void define(const std::string &name, Tensor tensor);
  const Tensor *lookup(const std::string &name, int nodeIndex);
  int64_t opsetOf(const std::string &domain) const;
  mlir::Location locationOf(StringRef name, StringRef op = "") { return graph::nodeLocation(&context, name, op); }
  /// What `kind` of the model is in the function.
  ElementKind imported(ElementKind kind) const { return options.widenFloats ? widened(kind) : kind; }
  /// Type and shape that a ValueInfoProto declares; nothing if it leaves a dim open.
  std::optional<std::pair<ElementKind, Shape>> declaredType(const onnx::ValueInfoProto &info) const;

  mlir::MLIRContext &context;
  const onnx::ModelProto &model;
  onnx::GraphProto &graph; ///< loses its initializers while they are read
  const ImportOptions &options;

  std::map<std::string, int64_t> opsets;
  std::map<std::string, Tensor> tensors;
  std::set<std::string> initializerNames;
  /// Names that a needed node or the network's result reads, and the last node that does: nodes.size() for the result.
  std::map<std::string, int> lastUse;
  std::vector<bool> needed;
  /// The node that produces a name, to tell an unsorted graph from a missing tensor.
  std::map<std::string, int> producers;
  std::map<std::string, std::pair<ElementKind, Shape>> declared;
  /// Tensors of unknown shape, the nodes at fault, and how many nodes behind them could not be looked at.
  std::set<std::string> unknown;
  std::vector<graph::UnsupportedNode> faults;
  size_t notLookedAt = 0;

  graph::ConstantBudget budget;
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
      throw ImportError{"operator domain \"" + printable(opset.domain()) + "\" is imported twice"};
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
  throw ImportError{"the model imports no operators of domain \"" + printable(domain) + "\""};
}

void GraphImporter::define(const std::string &name, Tensor tensor) {
  if (!tensors.emplace(name, std::move(tensor)).second)
    throw ImportError{"name \"" + printable(name) + "\" is given to two tensors"};
}

void GraphImporter::readInitializers() {
  if (graph.sparse_initializer_size())
    throw ImportError{"sparse initializers are not supported"};
  for (onnx::TensorProto &proto : *graph.mutable_initializer()) {
    try {
      Tensor constant = decodeConstant(proto, options.widenFloats);
      if (auto problem = budget.add(uint64_t(constant.constant->size())))
        throw ImportError{*problem};
      define(proto.name(), constant);
    } catch (const ImportError &error) {
      throw ImportError{"initializer \"" + printable(proto.name()) + "\": " + error.message};
    }
    initializerNames.insert(proto.name());
    onnx::TensorProto().Swap(&proto);
  }
}

void GraphImporter::findUses() {
  for (int i = 0; i < graph.node_size(); ++i)
    for (const std::string &name : graph.node(i).output())
      if (!producers.emplace(name, i).second && !name.empty())
        throw ImportError{graph::nodeTitle(nameOf(i), graph::operatorTitle(graph.node(i).domain(), graph.node(i).op_type())) +
                          ": name \"" + printable(name) + "\" is given to two tensors"};
  needed.assign(size_t(graph.node_size()), false);
  std::vector<int> open;
  auto read = [&](const std::string &name, int reader) {
    auto [use, isNew] = lastUse.emplace(name, reader);
    use->second = std::max(use->second, reader);
    auto producer = producers.find(name);
    if (isNew && producer != producers.end() && !needed[size_t(producer->second)]) {
      needed[size_t(producer->second)] = true;
      open.push_back(producer->second);
    }
  };
  for (const onnx::ValueInfoProto &output : graph.output())
    read(output.name(), graph.node_size());
  while (!open.empty()) {
    const int node = open.back();
    open.pop_back();
    for (const std::string &name : graph.node(node).input())
      read(name, node);
  }
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
    text += (text.empty() ? "" : ", ") + (dim.has_dim_value()       ? std::to_string(dim.dim_value())
                                          : dim.dim_param().empty() ? std::string("?")
                                                                    : printable(dim.dim_param()));
  return "[" + text + "]";
}

/// `1,3,224,224`, with names for the open dims.
static std::string shapeExample(const onnx::TensorShapeProto &shape) {
  std::string text;
  for (const onnx::TensorShapeProto::Dimension &dim : shape.dim())
    text += (text.empty() ? "" : ",") + (dim.has_dim_value() && dim.dim_value() > 0 ? std::to_string(dim.dim_value()) : "D");
  return text;
}

/// Whether a user who wrote `given` may mean `name`: as it is, or as messages print it.
static bool isNameOf(const std::string &given, const std::string &name) {
  return given == name || (!given.empty() && given == printable(name));
}

template <typename T> static auto find(const std::map<std::string, T> &map, const std::string &name) {
  return llvm::find_if(map, [&](const auto &entry) { return isNameOf(entry.first, name); });
}

/// Whether a tensor of shape `found` serves for `wanted`: leading ones do not matter, and -1 is any number.
static bool agree(ArrayRef<int64_t> found, ArrayRef<int64_t> wanted) {
  while (!found.empty() && found.front() == 1 && found.size() != wanted.size())
    found = found.drop_front();
  while (!wanted.empty() && wanted.front() == 1 && found.size() != wanted.size())
    wanted = wanted.drop_front();
  return found.size() == wanted.size() && llvm::all_of(llvm::zip(found, wanted), [](auto dims) {
           return std::get<0>(dims) < 0 || std::get<0>(dims) == std::get<1>(dims);
         });
}

/// Appends the number that `text` is as an element of `kind`; false if it is none.
static bool appendNumber(std::vector<uint8_t> &bytes, ElementKind kind, const std::string &text) {
  auto append = [&](const void *value) {
    auto *from = static_cast<const uint8_t *>(value);
    bytes.insert(bytes.end(), from, from + elementBytes(kind));
    return true;
  };
  if (kind == ElementKind::Bool) {
    const uint8_t value = text == "true" || text == "1";
    return (value || text == "false" || text == "0") && append(&value);
  }
  if (isFloat(kind)) {
    double value;
    if (text.empty() || StringRef(text).getAsDouble(value))
      return false;
    const float single = float(value);
    const uint16_t half = kind == ElementKind::F16 ? floatToHalf(single) : floatToBfloat(single);
    return append(kind == ElementKind::F64   ? static_cast<const void *>(&value)
                  : kind == ElementKind::F32 ? static_cast<const void *>(&single)
                                             : &half);
  }
  const bool isSigned =
      kind == ElementKind::I8 || kind == ElementKind::I16 || kind == ElementKind::I32 || kind == ElementKind::I64;
  const unsigned bits = 8 * elementBytes(kind);
  int64_t value = 0;
  uint64_t natural = 0;
  if (isSigned ? StringRef(text).getAsInteger(10, value) || !llvm::isIntN(bits, value)
               : StringRef(text).getAsInteger(10, natural) || !llvm::isUIntN(bits, natural))
    return false;
  return append(isSigned ? static_cast<const void *>(&value) : &natural);
}

bool GraphImporter::bindConstant(const onnx::ValueInfoProto &input, const std::optional<std::vector<int64_t>> &fixed) {
  auto fail = [&](const std::string &text) { throw ImportError{"input \"" + printable(input.name()) + "\" " + text}; };
  auto bound = find(options.constants, input.name());
  auto text = find(options.values, input.name());
  if (bound == options.constants.end() && text == options.values.end())
    return false;
  const onnx::TypeProto::Tensor &type = input.type().tensor_type();
  auto kind = elementKindOf(type.elem_type());
  if (!kind)
    fail("has element type " + onnxTypeName(type.elem_type()) + ", which no constant can have");
  HostTensor tensor;
  if (bound != options.constants.end()) {
    tensor = bound->second;
    if (tensor.type != *kind)
      fail(std::string("is given a constant of ") + elementName(tensor.type) + ", the model declares " + elementName(*kind));
  } else {
    tensor.type = *kind;
    llvm::SmallVector<StringRef> numbers;
    StringRef(text->second).split(numbers, ',');
    for (StringRef number : numbers)
      if (!appendNumber(tensor.bytes, *kind, number.str()))
        fail("is given the constant \"" + printable(text->second) + "\", expected a number of " + elementName(*kind) +
             ", several with commas between them, or a file .npy or .pb");
    if (numbers.size() > 1) {
      tensor.shape = {int64_t(numbers.size())};
    } else {
      // One number for all elements.
      if (fixed)
        tensor.shape = *fixed;
      else
        for (const onnx::TensorShapeProto::Dimension &dim : type.shape().dim())
          tensor.shape.push_back(dim.has_dim_value() && dim.dim_value() > 0 ? dim.dim_value() : 1);
      ConstantRef number = makeConstant(*kind, {}, tensor.bytes);
      return define(input.name(), bind(input, evalExpand(number, tensor.shape))), true;
    }
  }
  auto count = countTensorElements(tensor.shape);
  if (!count || tensor.bytes.size() != size_t(*count) * elementBytes(*kind))
    fail("is given a constant whose shape and data do not agree");
  if (fixed && !agree(tensor.shape, *fixed))
    fail("is " + formatShape(*fixed) + " by --shape, but its constant is " + formatShape(tensor.shape));
  define(input.name(), bind(input, makeConstant(std::move(tensor))));
  return true;
}

Tensor GraphImporter::bind(const onnx::ValueInfoProto &input, const ConstantRef &constant) {
  auto fail = [&](const std::string &text) { throw ImportError{"input \"" + printable(input.name()) + "\" " + text}; };
  const onnx::TypeProto::Tensor &type = input.type().tensor_type();
  bool fits = !type.has_shape() || type.shape().dim_size() == int(constant->shape.size());
  for (size_t i = 0; fits && type.has_shape() && i < constant->shape.size(); ++i) {
    const onnx::TensorShapeProto::Dimension &dim = type.shape().dim(int(i));
    fits = !dim.has_dim_value() || dim.dim_value() <= 0 || dim.dim_value() == constant->shape[i];
  }
  if (!fits)
    fail("is given a constant of shape " + formatShape(constant->shape) + ", the model allows " + declaredDims(type.shape()));
  if (auto problem = budget.add(uint64_t(constant->size())))
    fail("is given a constant: " + *problem);
  Tensor tensor = imported(constant->kind) == constant->kind ? constant : evalCast(constant, imported(constant->kind));
  tensor.declared = constant->kind;
  return tensor;
}

void GraphImporter::readInputs(mlir::ModuleOp module) {
  size_t nextInOrder = 0;
  std::string open;
  std::set<std::string> seen;
  llvm::SmallVector<mlir::Type> types;
  llvm::SmallVector<std::pair<std::string, Tensor>> arguments;
  llvm::SmallVector<bool> halves;
  for (const onnx::ValueInfoProto &input : graph.input()) {
    // Before IR version 4 every initializer was an input, too.
    if (initializerNames.count(input.name()))
      continue;
    auto fail = [&](const std::string &text) { throw ImportError{"input \"" + printable(input.name()) + "\" " + text}; };
    if (input.name().empty() || seen.count(input.name()))
      fail(input.name().empty() ? "has no name" : "is given twice");
    if (!input.type().has_tensor_type())
      fail("is not a tensor");
    const onnx::TypeProto::Tensor &type = input.type().tensor_type();
    auto kind = elementKindOf(type.elem_type());
    seen.insert(input.name());
    std::optional<std::vector<int64_t>> shape;
    std::string source = "was given";
    if (auto given = find(options.shapes, input.name()); given != options.shapes.end())
      shape = given->second;
    const bool isFixed = shape.has_value();
    if (bindConstant(input, shape))
      continue;
    const GivenShape *file = nullptr;
    for (const GivenShape &given : options.given)
      if (isNameOf(given.input, input.name()))
        file = &given;
    while (!file && nextInOrder < options.given.size()) {
      const GivenShape &given = options.given[nextInOrder++];
      file = given.input.empty() ? &given : nullptr;
    }
    if (isFixed && file && !agree(file->shape, *shape))
      fail("is " + formatShape(*shape) + " by --shape, but " + printable(file->where) + " holds " + formatShape(file->shape));
    if (!kind)
      fail("has element type " + onnxTypeName(type.elem_type()) + ", which is not supported");
    // Some exporters write -1 or 0 for an open dim.
    auto isOpen = [](const onnx::TensorShapeProto::Dimension &dim) { return !dim.has_dim_value() || dim.dim_value() <= 0; };
    const bool dynamic = !type.has_shape() || llvm::any_of(type.shape().dim(), isOpen);
    if (!shape && dynamic && file) {
      shape = file->shape;
      source = "is given in " + printable(file->where) + " a tensor of";
      for (size_t i = 0; i < shape->size(); ++i)
        if ((*shape)[i] < 0)
          (*shape)[i] = type.has_shape() && int(i) < type.shape().dim_size() && !isOpen(type.shape().dim(int(i)))
                            ? type.shape().dim(int(i)).dim_value()
                            : 1;
    }
    if (shape) {
      bool fits = !type.has_shape() || type.shape().dim_size() == int(shape->size());
      for (size_t i = 0; fits && type.has_shape() && i < shape->size(); ++i)
        fits = isOpen(type.shape().dim(int(i))) || type.shape().dim(int(i)).dim_value() == (*shape)[i];
      if (!fits)
        fail(source + " shape " + formatShape(*shape) + ", the model allows " + declaredDims(type.shape()));
    } else if (dynamic) {
      open += (open.empty() ? "" : "; ") + ("input \"" + printable(input.name()) + "\" has ") +
              (type.has_shape() ? "open dims " + declaredDims(type.shape()) : "no shape") + ": fix them with --shape " +
              printable(input.name()) + "=" + (type.has_shape() ? shapeExample(type.shape()) : "D,D,..");
      continue;
    } else {
      shape.emplace();
      for (const onnx::TensorShapeProto::Dimension &dim : type.shape().dim())
        shape->push_back(dim.dim_value());
    }
    if (shape->size() > kMaxRank)
      fail("has " + std::to_string(shape->size()) + " dims, at most " + std::to_string(kMaxRank) + " are allowed");
    auto count = countTensorElements(*shape);
    if (!count || *count == 0)
      fail("has shape " + formatShape(*shape) + ": every dim must be at least 1, and at most 2^31 elements are allowed");
    // The machines have bfloat16 in memory, but no float16.
    const bool isHalf = *kind == ElementKind::F16 && options.widenFloats;
    const ElementKind stored = isHalf ? ElementKind::F32 : *kind;
    arguments.emplace_back(input.name(), Tensor(*kind, *shape, nullptr));
    types.push_back(mlir::RankedTensorType::get(*shape, mlirElementType(context, stored)));
    halves.push_back(isHalf);
  }
  std::string names;
  for (const std::string &name : seen)
    names += (names.empty() ? "" : ", ") + printable(name);
  auto check = [&](const char *what, const std::string &name) {
    if (llvm::none_of(seen, [&](const std::string &input) { return isNameOf(name, input); }))
      throw ImportError{std::string(what) + " is given for \"" + printable(name) + "\", the inputs of the model are: " + names};
  };
  for (auto &entry : options.shapes)
    check("a shape", entry.first);
  for (auto &entry : options.constants)
    check("a constant", entry.first);
  for (auto &entry : options.values)
    check("a constant", entry.first);
  if (!open.empty())
    throw ImportError{open};

  function = mlir::func::FuncOp::create(locationOf(graph.name().empty() ? "main" : graph.name()), "main",
                                        mlir::FunctionType::get(&context, types, {}));
  module.push_back(function);
  mlir::Block *body = function.addEntryBlock();
  builder.reset(new FunctionBuilder{mlir::OpBuilder::atBlockEnd(body), options.widenFloats, budget, nullptr, {}});
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
  const bool isRounded =
      rounding && mlir::getElementTypeOrSelf(rounding.getY()).isF16() && rounding.getX().getType() == value.getType();
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
    auto fail = [&](const std::string &text) { throw ImportError{"output \"" + printable(output.name()) + "\" " + text}; };
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
        fits = !shape.dim(i).has_dim_value() || shape.dim(i).dim_value() <= 0 ||
               shape.dim(i).dim_value() == tensor.shape[size_t(i)];
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
    throw ImportError{
        "input \"" + printable(name) + "\" is produced by " +
        (producer->second == nodeIndex
             ? std::string("the node itself")
             : graph::nodeTitle(nameOf(producer->second), graph.node(producer->second).op_type()) + " further down") +
        ": nodes must stand in an order in which they can run"};
  throw ImportError{"input \"" + printable(name) + "\" is no input, no initializer and produced by no node"};
}

std::vector<Tensor> GraphImporter::importResults(Node &node, const onnx::NodeProto &proto, int index) {
  if (node.domain().empty() && node.opset() < 7 && llvm::is_contained(kChangedInOpset7, node.type()))
    throw ImportError{"this operator is of opset " + std::to_string(node.opset()) + ", expected 7 or newer: convert the model"};
  if (proto.output_size() == 0)
    throw ImportError{"the node has no outputs"};
  std::string reason = "this operator is not supported";
  for (const onnx::AttributeProto &attr : proto.attribute())
    if (attr.has_g() || attr.graphs_size())
      reason = "attribute " + printable(attr.name()) + " holds a graph: control flow is not supported";
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
    if (type == declared.end() || llvm::is_contained(type->second.second, 0)) {
      faults.push_back({nameOf(index), graph::operatorTitle(proto.domain(), proto.op_type()), reason});
      unknown.insert(proto.output().begin(), proto.output().end());
      return {};
    }
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
std::string GraphImporter::nameOf(int index) const {
  const onnx::NodeProto &proto = graph.node(index);
  return !proto.name().empty()                             ? proto.name()
         : proto.output_size() && !proto.output(0).empty() ? proto.output(0)
                                                           : "node" + std::to_string(index);
}

bool GraphImporter::dependsOnUnknown(const onnx::NodeProto &proto) {
  if (llvm::none_of(proto.input(), [&](const std::string &name) { return unknown.count(name) != 0; }))
    return false;
  unknown.insert(proto.output().begin(), proto.output().end());
  return true;
}

void GraphImporter::count(const Node &node, const std::vector<Tensor> &results, const onnx::NodeProto &proto) {
  uint64_t made = 0, read = 0;
  std::set<const ConstantBytes *> known;
  for (size_t i = 0; i < node.numInputs(); ++i)
    if (node.has(i) && node.input(i, "").constant)
      if (const Constant &x = *node.input(i, "").constant; known.insert(x.storage.get()).second)
        read += uint64_t(x.stored()) * elementBytes(x.kind);
  for (size_t i = 0; i < results.size() && i < size_t(proto.output_size()); ++i)
    if (results[i].constant && lastUse.count(proto.output(int(i))) && known.insert(results[i].constant->storage.get()).second)
      made += uint64_t(results[i].constant->size());
  if (auto problem = made ? budget.add(made, read) : std::nullopt)
    node.fail(*problem);
}

void GraphImporter::refuseUnknown(mlir::ModuleOp module) {
  if (faults.empty())
    return;
  std::vector<graph::UnsupportedNode> others = graph::findUnsupported(module);
  faults.insert(faults.end(), others.begin(), others.end());
  std::string text = graph::describeUnsupported(faults);
  if (notLookedAt)
    text += notLookedAt == 1 ? "\n1 node that needs their results was not looked at"
                             : "\n" + std::to_string(notLookedAt) + " nodes that need their results were not looked at";
  throw ImportError{text};
}

void GraphImporter::importNode(int index) {
  const onnx::NodeProto &proto = graph.node(index);
  const std::string name = nameOf(index);
  if (dependsOnUnknown(proto)) {
    ++notLookedAt;
    return;
  }
  try {
    std::vector<const Tensor *> inputs;
    for (const std::string &input : proto.input())
      inputs.push_back(input.empty() ? nullptr : lookup(input, index));
    // Trailing inputs that are left out are as if they were not there.
    while (!inputs.empty() && !inputs.back())
      inputs.pop_back();
    Node node(*builder, proto, locationOf(name, graph::operatorTitle(proto.domain(), proto.op_type())),
              opsetOf(normalDomain(proto.domain())), std::move(inputs));
    std::vector<Tensor> results = importResults(node, proto, index);
    if (results.empty())
      return;
    count(node, results, proto);
    declareTypes(node, results);
    for (int i = 0; i < proto.output_size(); ++i) {
      const std::string &output = proto.output(i);
      if (output.empty())
        continue;
      if (size_t(i) < results.size())
        define(output, results[size_t(i)]);
      else if (lastUse.count(output))
        throw ImportError{"output " + std::to_string(i) + " (\"" + printable(output) + "\") is used, but only the first " +
                          std::to_string(results.size()) + " of this operator are supported"};
    }
  } catch (const ImportError &error) {
    throw ImportError{graph::nodeTitle(name, graph::operatorTitle(proto.domain(), proto.op_type())) + ": " + error.message};
  }
  // Large constants go when nobody needs them.
  for (const std::string &input : proto.input())
    if (auto use = lastUse.find(input); use != lastUse.end() && use->second <= index)
      tensors.erase(input);
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
    if (needed[size_t(i)])
      importNode(i);
    names.push_back(mlir::StringAttr::get(&context, printable(nameOf(i))));
  }
  function->setAttr(graph::kModelNodesAttr, mlir::ArrayAttr::get(&context, names));
  refuseUnknown(*module);
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
  return llvm::createStringError(llvm::inconvertibleErrorCode(), Twine(printable(file)) + ": " + text);
}

static llvm::Error parseModel(onnx::ModelProto &model, StringRef bytes, StringRef file) {
  google::protobuf::LogSilencer silencer;
  if (bytes.size() >= size_t(std::numeric_limits<int>::max()))
    return fileError(file, "the model is larger than 2 GiB, the limit of its file format");
  google::protobuf::io::ArrayInputStream stream(bytes.data(), int(bytes.size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(std::numeric_limits<int>::max());
  // A graph in a node in a graph takes three messages. Parsing takes some hundred bytes of stack for each.
  constexpr int kMostNested = 3000;
  coded.SetRecursionLimit(kMostNested);
  if (!model.ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
    return fileError(file, "not a valid ONNX model: its bytes are damaged or cut off, or its graphs are nested more than " +
                               Twine(kMostNested / 3) + " deep");
  if (!model.has_graph())
    return fileError(file, "not an ONNX model: it has no graph");
  return llvm::Error::success();
}

static llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importParsed(mlir::MLIRContext &context, onnx::ModelProto &model,
                                                                      StringRef file, const ImportOptions &options) {
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
      return fileError(file, "the imported graph is not valid: " + graph::sentenceOf(message).value_or(message));
    return module;
  } catch (const ImportError &error) {
    return fileError(file, error.message);
  }
}

llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importOnnx(mlir::MLIRContext &context, StringRef bytes, StringRef file,
                                                             const ImportOptions &options) {
  onnx::ModelProto model;
  if (llvm::Error error = parseModel(model, bytes, file))
    return error;
  return importParsed(context, model, file, options);
}

llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importOnnxFile(mlir::MLIRContext &context, StringRef path,
                                                                 const ImportOptions &options) {
  auto bytes = files::readFile(path.str());
  if (!bytes)
    return llvm::createStringError(llvm::inconvertibleErrorCode(), bytes.message());
  onnx::ModelProto model;
  if (llvm::Error error = parseModel(model, *bytes, path))
    return error;
  *bytes = std::string(); // the model has its own
  return importParsed(context, model, path, options);
}

} // namespace tw::frontend
