//===- OnnxImport.cpp - ONNX to the graph dialect -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/OnnxImport.h"
#include "compiler/frontend/InlineFunctions.h"
#include "compiler/frontend/OnnxNode.h"
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/graph/Aliases.h"
#include "compiler/graph/Messages.h"
#include "compiler/graph/ModelNodes.h"
#include "compiler/operators/Elements.h"
#include "compiler/operators/Evaluator.h"
#include "compiler/operators/Multiply.h"
#include "isa/Printable.h"
#include "isa/files/InputFile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/IR/Verifier.h"
#include <deque>
#include <filesystem>
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

/// The versions of ONNX's own operators that import functions and the host know.
static constexpr int64_t kLastOpset = 28;

/// Operators whose meaning changed in opset 7: what they broadcast stands in attributes before. source: ONNX Operators, version histories
static constexpr llvm::StringLiteral kChangedInOpset7[] = {
    "Add", "And", "BatchNormalization", "Div", "Dropout", "Equal", "Gemm", "Greater", "Less", "Mul", "Or", "PRelu",
    "Pow", "Sub", "Upsample",           "Xor"};

/// Bytes of tensors that one node may make while it is imported.
static constexpr uint64_t kMostEvaluated = uint64_t(1) << 30;

/// ONNX writes its own domain in two ways.
static std::string normalDomain(const std::string &domain) { return domain == "ai.onnx" ? "" : domain; }

static const ImportTable &foldTable() {
  static const ImportTable table = [] {
    ImportTable table;
    addFolds(table);
    return table;
  }();
  return table;
}

static const ImportTable &importTable() {
  static const ImportTable table = [] {
    ImportTable table;
    addDataImports(table);
    addMathImports(table);
    addNnImports(table);
    addComposedImports(table);
    addRecurrentImports(table);
    addQuantizedImports(table);
    return table;
  }();
  return table;
}

namespace {

/// Imports the graph of one model. Throws ImportError.
class GraphImporter {
public:
  GraphImporter(mlir::MLIRContext &context, onnx::ModelProto &model, std::string folder, const ImportOptions &options)
      : context(context), model(model), graph(*model.mutable_graph()), folder(std::move(folder)), options(options),
        budget(options.maxConstantBytes) {}

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
  static std::string nameOf(const onnx::NodeProto &proto, int index);
  void importNode(const onnx::NodeProto &proto, const std::string &name);
  /// Whether a node reads what another one makes that is not known; then all that it makes is unknown, too.
  bool dependsOnUnknown(const onnx::NodeProto &proto);
  /// Leaves a node to the remainder, and makes its results unknown.
  void leave(const onnx::NodeProto &proto, const std::string &name, const std::string &reason);
  /// If on a constant: the branch that is taken stands in its place.
  bool inlineBranch(const onnx::NodeProto &proto, const std::string &name);
  bool readsOnlyConstants(const onnx::NodeProto &proto) const;
  /// All that the node and graphs in it read, by name; nothing if something of it is no constant.
  std::optional<std::vector<std::pair<std::string, operators::Value>>> constantReads(const onnx::NodeProto &proto);
  /// Computes a node of constants. False if the host has no such operator, or it must not be computed yet.
  bool compute(const onnx::NodeProto &proto);
  void defineValue(const std::string &name, const operators::Value &value);
  /// Types and shapes of the results of a node that the host computes, if they do not hang on values.
  std::optional<std::vector<std::pair<ElementKind, Shape>>> resultTypes(const Node &node, const onnx::NodeProto &proto);
  void fillRemainder();
  /// Counts the constants that a node has made; throws if they are too many.
  void count(const Node &node, const std::vector<Tensor> &results, const onnx::NodeProto &proto);
  /// All nodes without an implementation, if a result of one of them is not known.
  void refuseUnknown(mlir::ModuleOp module);
  static void declareTypes(const Node &node, std::vector<Tensor> &results);
  /// Nothing if the shapes of the results are not known.
  std::vector<Tensor> importResults(Node &node, const onnx::NodeProto &proto, const std::string &name);
  void importOutputs();
  void readAliases();
  void leaveOutput(const std::string &name);
  static operators::Value hostTensorOf(const Tensor &tensor);
  std::vector<std::string> frontier();
  mlir::Value outputOf(const Node &node, const Tensor &tensor, ElementKind kind);
  mlir::StringAttr halfAttr() { return mlir::StringAttr::get(&context, elementName(ElementKind::F16)); }

  void define(const std::string &name, Tensor tensor);
  const Tensor *lookup(const std::string &name);
  int64_t opsetOf(const onnx::NodeProto &proto) const;
  mlir::Location locationOf(StringRef name, StringRef op = "") { return graph::nodeLocation(&context, name, op); }
  /// What `kind` of the model is in the function.
  ElementKind imported(ElementKind kind) const { return options.widenFloats ? widened(kind) : kind; }
  /// Type and shape that a ValueInfoProto declares; nothing if it leaves a dim open.
  std::optional<std::pair<ElementKind, Shape>> declaredType(const onnx::ValueInfoProto &info) const;

  mlir::MLIRContext &context;
  onnx::ModelProto &model;
  onnx::GraphProto &graph; ///< loses its initializers while they are read
  const std::string folder;
  const ImportOptions &options;

  std::map<std::string, int64_t> opsets;
  std::map<std::string, Tensor> tensors;
  std::set<std::string> initializerNames;
  /// Constants and inputs that no kernel can hold.
  std::map<std::string, operators::Value> hostValues;
  /// Nodes, each behind those whose results it reads.
  std::vector<int> order;
  /// Names that a needed node or the network's result reads, and the last place in `order` where one does: nodes.size() for the result.
  std::map<std::string, int> lastUse;
  std::vector<bool> needed;
  /// The node that produces a name.
  std::map<std::string, int> producers;
  std::map<std::string, std::pair<ElementKind, Shape>> declared;
  /// Tensors of unknown shape, the nodes at fault, and how many nodes behind them could not be looked at.
  std::set<std::string> unknown;
  std::vector<graph::UnsupportedNode> faults;
  size_t notLookedAt = 0;
  /// Nodes of the remainder, and nodes of branches that stand in place of an If.
  std::vector<const onnx::NodeProto *> left;
  std::deque<onnx::NodeProto> inlined;
  std::vector<Remainder::Port> inputPorts;
  /// Names of inputs that no argument of @main can be, with their types.
  std::map<std::string, onnx::ValueInfoProto> hostInputs;

  graph::ConstantBudget budget;
  mlir::func::FuncOp function;
  std::unique_ptr<FunctionBuilder> builder;
};

} // namespace

//===----------------------------------------------------------------------===//
// Names, types, opsets
//===----------------------------------------------------------------------===//

/// Throws ImportError for a version of ONNX's own operators that nothing knows.
static void checkOpset(int64_t version) {
  if (version < 1 || version > kLastOpset)
    throw ImportError{"opset is " + std::to_string(version) + ", expected 7 to " + std::to_string(kLastOpset)};
}

void GraphImporter::readOpsets() {
  for (const onnx::OperatorSetIdProto &opset : model.opset_import())
    if (!opsets.emplace(normalDomain(opset.domain()), opset.version()).second)
      throw ImportError{"operator domain \"" + printable(opset.domain()) + "\" is imported twice"};
  auto own = opsets.find("");
  if (own != opsets.end())
    checkOpset(own->second);
}

int64_t GraphImporter::opsetOf(const onnx::NodeProto &proto) const {
  const std::string domain = normalDomain(proto.domain());
  if (std::optional<int64_t> version = operators::functionOpset(proto)) {
    if (domain.empty())
      checkOpset(*version);
    return *version;
  }
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
      if (auto kind = elementKindOf(proto.data_type()); kind && isHostOnly(*kind)) {
        Result<HostTensor> tensor = decodeTensor(proto, folder);
        if (!tensor)
          throw ImportError{tensor.message()};
        if (!hostValues.emplace(proto.name(), std::move(*tensor)).second)
          throw ImportError{"it is given twice"};
        initializerNames.insert(proto.name());
        onnx::TensorProto().Swap(&proto);
        continue;
      }
      Tensor constant = decodeConstant(proto, options.widenFloats, folder);
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
  try {
    order = operators::inOrder(graph);
  } catch (const operators::Error &error) {
    throw ImportError{error.message};
  }
  std::vector<int> placeOf(order.size());
  for (size_t place = 0; place < order.size(); ++place)
    placeOf[size_t(order[place])] = int(place);
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
    operators::forEachRead(graph.node(node), [&](const std::string &name) { read(name, placeOf[size_t(node)]); });
  }
}

std::optional<std::pair<ElementKind, Shape>> GraphImporter::declaredType(const onnx::ValueInfoProto &info) const {
  if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape())
    return std::nullopt;
  auto kind = elementKindOf(info.type().tensor_type().elem_type());
  if (!kind || isHostOnly(*kind))
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
      if (isHostOnly(*kind) || !appendNumber(tensor.bytes, *kind, number.str()))
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
  if (isHostOnly(*kind)) {
    hostValues[input.name()] = operators::Value(std::move(tensor));
    return true;
  }
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
    seen.insert(input.name());
    if (!input.type().has_tensor_type()) {
      if (!options.remainder)
        fail("is not a tensor");
      hostInputs[input.name()] = input;
      unknown.insert(input.name());
      inputPorts.push_back({input.name(), std::nullopt, {}, false, false});
      continue;
    }
    const onnx::TypeProto::Tensor &type = input.type().tensor_type();
    auto kind = elementKindOf(type.elem_type());
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
    if (options.remainder && count && (*count == 0 || isHostOnly(*kind))) {
      hostInputs[input.name()] = input;
      unknown.insert(input.name());
      inputPorts.push_back({input.name(), kind, *shape, true, false});
      continue;
    }
    if (isHostOnly(*kind))
      fail("has element type " + onnxTypeName(type.elem_type()) + ", which only the host has");
    if (!count || *count == 0)
      fail("has shape " + formatShape(*shape) + ": every dim must be at least 1, and at most 2^31 elements are allowed");
    // The machines have bfloat16 in memory, but no float16.
    const bool isHalf = *kind == ElementKind::F16 && options.widenFloats;
    const ElementKind stored = isHalf ? ElementKind::F32 : *kind;
    inputPorts.push_back({input.name(), kind, *shape, true, true});
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
  builder.reset(
      new FunctionBuilder{mlir::OpBuilder::atBlockEnd(body), options.widenFloats, budget, folder, opsets, nullptr, {}});
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
  auto addResult = [&](const std::string &name, const Tensor &tensor, ElementKind kind) {
    Node node(*builder, none, locationOf(name), 0, {});
    values.push_back(outputOf(node, tensor, kind));
    halves.push_back(kind == ElementKind::F16 && options.widenFloats);
    types.push_back(values.back().getType());
  };
  std::vector<std::string> names;
  auto isLeft = [&](const std::string &name) { return unknown.count(name) || hostValues.count(name); };
  for (const onnx::ValueInfoProto &output : graph.output()) {
    auto fail = [&](const std::string &text) { throw ImportError{"output \"" + printable(output.name()) + "\" " + text}; };
    auto found = tensors.find(output.name());
    if (found == tensors.end() && isLeft(output.name()) && options.remainder)
      continue;
    if (found == tensors.end())
      fail("is produced by no node");
    if (options.remainder &&
        (llvm::is_contained(found->second.shape, 0) || (options.leavesConstantResults && found->second.constant))) {
      leaveOutput(output.name());
      continue;
    }
    names.push_back(output.name());
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
    addResult(output.name(), tensor, kind.value_or(tensor.declared));
  }
  for (const std::string &name : frontier())
    if (auto found = tensors.find(name); !llvm::is_contained(names, name)) {
      names.push_back(name);
      addResult(name, found->second, found->second.declared);
    }
  builder->ops.create<mlir::func::ReturnOp>(function.getLoc(), values);
  function.setFunctionType(mlir::FunctionType::get(&context, function.getArgumentTypes(), types));
  for (size_t i = 0; i < names.size(); ++i) {
    function.setResultAttr(unsigned(i), graph::kNameAttr, mlir::StringAttr::get(&context, names[i]));
    if (halves[i])
      function.setResultAttr(unsigned(i), graph::kWidenedFromAttr, halfAttr());
  }
  if (options.remainder)
    options.remainder->results = names;
  readAliases();
}

/// The model's metadata "tilewright.alias": OUTPUT=INPUT, with commas between several.
void GraphImporter::readAliases() {
  for (const onnx::StringStringEntryProto &property : model.metadata_props()) {
    if (property.key() != "tilewright.alias")
      continue;
    std::vector<std::pair<std::string, std::string>> aliases;
    llvm::SmallVector<StringRef> texts;
    StringRef(property.value()).split(texts, ',');
    for (StringRef text : texts) {
      const auto [output, input] = text.trim().split('=');
      if (output.empty() || input.empty())
        throw ImportError{"metadata \"tilewright.alias\" is \"" + printable(property.value()) +
                          "\" but must be OUTPUT=INPUT,.."};
      aliases.emplace_back(output.str(), input.str());
    }
    if (llvm::Error error = graph::setAliases(function, aliases))
      throw ImportError{"metadata \"tilewright.alias\": " + printable(llvm::toString(std::move(error)))};
  }
}

void GraphImporter::leaveOutput(const std::string &name) {
  // A constant without elements: nothing computes it.
  const Tensor &tensor = tensors.find(name)->second;
  if (!tensor.constant)
    throw ImportError{"output \"" + printable(name) + "\" has shape " + formatShape(tensor.shape) +
                      ": every dim must be at least 1"};
  hostValues[name] = operators::Value(operators::toKind(*hostTensorOf(tensor).tensor, tensor.declared));
}

/// A constant as the host takes it.
operators::Value GraphImporter::hostTensorOf(const Tensor &tensor) { return operators::Value(tensor.constant->tensor()); }

/// What the remainder reads of @main's results: no constants, and no inputs of the network, which it has itself.
std::vector<std::string> GraphImporter::frontier() {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const Remainder::Port &port : inputPorts)
    seen.insert(port.name);
  for (const onnx::NodeProto *node : left)
    operators::forEachRead(*node, [&](const std::string &name) {
      auto found = tensors.find(name);
      if (found != tensors.end() && !found->second.constant && seen.insert(name).second)
        names.push_back(name);
    });
  return names;
}

void GraphImporter::fillRemainder() {
  Remainder &rest = *options.remainder;
  rest.folder = folder;
  rest.inputs = inputPorts;
  for (const onnx::ValueInfoProto &output : graph.output()) {
    Remainder::Port port{output.name(), std::nullopt, {}, false, llvm::is_contained(rest.results, output.name())};
    if (output.type().has_tensor_type()) {
      port.kind = elementKindOf(output.type().tensor_type().elem_type());
      port.hasShape = output.type().tensor_type().has_shape();
      for (const onnx::TensorShapeProto::Dimension &dim : output.type().tensor_type().shape().dim())
        port.shape.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
    }
    rest.outputs.push_back(std::move(port));
  }
  auto isMain = [](const Remainder::Port &port) { return port.isMain; };
  if (left.empty() && llvm::all_of(rest.outputs, isMain) && llvm::all_of(rest.inputs, isMain))
    return;
  auto made = std::make_shared<onnx::ModelProto>();
  *made->mutable_opset_import() = model.opset_import();
  for (const auto &[domain, version] : opsets)
    if (llvm::none_of(made->opset_import(),
                      [&, name = domain](const auto &opset) { return normalDomain(opset.domain()) == name; })) {
      onnx::OperatorSetIdProto &opset = *made->add_opset_import();
      opset.set_domain(domain);
      opset.set_version(version);
    }
  onnx::GraphProto &part = *made->mutable_graph();
  std::set<std::string> seen;
  auto read = [&](const std::string &name) {
    if (!seen.insert(name).second)
      return;
    if (auto host = hostValues.find(name); host != hostValues.end()) {
      *part.add_initializer() = encodeTensor(*host->second.tensor, name);
    } else if (auto found = tensors.find(name); found != tensors.end()) {
      if (found->second.constant) {
        // What was widened is as the model has it again.
        const HostTensor tensor = *hostTensorOf(found->second).tensor;
        *part.add_initializer() = encodeTensor(operators::toKind(tensor, found->second.declared), name);
      } else {
        part.add_input()->set_name(name);
      }
    } else if (hostInputs.count(name)) {
      *part.add_input() = hostInputs[name];
    }
  };
  for (const onnx::NodeProto *node : left) {
    operators::forEachRead(*node, read);
    *part.add_node() = *node;
  }
  for (const Remainder::Port &port : rest.outputs)
    if (!port.isMain) {
      read(port.name);
      part.add_output()->set_name(port.name);
    }
  for (const graph::UnsupportedNode &node : faults)
    rest.nodes.push_back({node.name, node.op, node.reason});
  rest.model = std::move(made);
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

const Tensor *GraphImporter::lookup(const std::string &name) {
  auto found = tensors.find(name);
  if (found != tensors.end())
    return &found->second;
  throw ImportError{"input \"" + printable(name) + "\" is no input, no initializer and produced by no node"};
}

std::vector<Tensor> GraphImporter::importResults(Node &node, const onnx::NodeProto &proto, const std::string &name) {
  if (node.domain().empty() && node.opset() < 7 && llvm::is_contained(kChangedInOpset7, node.type())) {
    const bool isAsLater = (!node.hasAttr("broadcast") || node.type() == "Gemm" || node.intAttr("broadcast") == 0) &&
                           !node.hasAttr("axis") && (!node.hasAttr("is_test") || node.intAttr("is_test") != 0) &&
                           node.type() != "Upsample";
    if (!isAsLater)
      throw ImportError{"this operator is of opset " + std::to_string(node.opset()) +
                        ", expected 7 or newer: convert the model"};
    node.ignoreAttr("broadcast");
    node.ignoreAttr("consumed_inputs");
  }
  if (proto.output_size() == 0)
    throw ImportError{"the node has no outputs"};
  std::string reason = graph::kNoKernel.str();
  mlir::Block &body = function.getBody().front();
  mlir::Operation *last = body.empty() ? nullptr : &body.back();
  std::vector<std::pair<ElementKind, Shape>> types;
  const std::string key = normalDomain(proto.domain()) + ":" + proto.op_type();
  if (auto fold = foldTable().find(key); fold != foldTable().end() && node.allConstant()) {
    try {
      return fold->second(node);
    } catch (const Inexpressible &) {
    }
  }
  auto import = importTable().find(key);
  if (import != importTable().end()) {
    try {
      std::vector<Tensor> results = import->second(node);
      auto fallback =
          results.empty() || !results[0].value ? graph::FallbackOp() : results[0].value.getDefiningOp<graph::FallbackOp>();
      if (!fallback) {
        node.checkAttrsUsed();
        if (results.size() >= size_t(proto.output_size()) ||
            llvm::none_of(llvm::seq(int(results.size()), proto.output_size()),
                          [&](int i) { return lastUse.count(proto.output(i)) != 0; }))
          return results;
        reason = "output " + std::to_string(results.size()) + " (\"" + printable(proto.output(int(results.size()))) +
                 "\") is read, which no kernel computes";
      } else if (!readsOnlyConstants(proto)) {
        return results;
      }
    } catch (const Inexpressible &problem) {
      reason = problem.reason;
    }
    // What the import function has begun; the constants that stand before it may stay.
    while (!body.empty() && &body.back() != last && !mlir::isa<graph::ConstantOp>(body.back()))
      body.back().erase();
  }
  if (compute(proto))
    return {};
  const operators::Operator *host = operators::find(proto.domain(), proto.op_type());
  if (!host) {
    if (import == importTable().end())
      reason = "this operator is not supported";
    // A target of a plug-in may take it, if its results are known.
  }
  for (const std::string &output : proto.output()) {
    auto type = declared.find(output);
    if (type == declared.end() || llvm::is_contained(type->second.second, 0)) {
      types.clear();
      break;
    }
    types.push_back(type->second);
  }
  if (types.empty())
    if (auto found = resultTypes(node, proto))
      types = std::move(*found);
  if (types.empty()) {
    leave(proto, name, host ? reason + "; the shape of its result is known when it runs" : reason);
    return {};
  }
  return node.emitFallback(types, reason);
}

void GraphImporter::leave(const onnx::NodeProto &proto, const std::string &name, const std::string &reason) {
  faults.push_back({name, graph::operatorTitle(proto.domain(), proto.op_type()), reason});
  unknown.insert(proto.output().begin(), proto.output().end());
  left.push_back(&proto);
}

bool GraphImporter::readsOnlyConstants(const onnx::NodeProto &proto) const {
  bool isKnown = true;
  operators::forEachRead(proto, [&](const std::string &name) {
    auto found = tensors.find(name);
    isKnown &= hostValues.count(name) || (found != tensors.end() && found->second.constant);
  });
  return isKnown;
}

std::optional<std::vector<std::pair<std::string, operators::Value>>>
GraphImporter::constantReads(const onnx::NodeProto &proto) {
  if (!readsOnlyConstants(proto))
    return std::nullopt;
  bool isTooLarge = false; // a tensor of equal elements is small only as a constant
  operators::forEachRead(proto, [&](const std::string &name) {
    auto found = tensors.find(name);
    isTooLarge |= found != tensors.end() && uint64_t(found->second.constant->size()) > kMostEvaluated;
  });
  if (isTooLarge)
    return std::nullopt;
  std::vector<std::pair<std::string, operators::Value>> reads;
  std::set<std::string> seen;
  operators::forEachRead(proto, [&](const std::string &name) {
    if (!seen.insert(name).second)
      return;
    auto host = hostValues.find(name);
    reads.emplace_back(name, host != hostValues.end() ? host->second : hostTensorOf(tensors.find(name)->second));
  });
  return reads;
}

bool GraphImporter::compute(const onnx::NodeProto &proto) {
  const operators::Operator *host = operators::find(proto.domain(), proto.op_type());
  if (!host || host->isRandom)
    return false;
  auto reads = constantReads(proto);
  if (!reads)
    return false;
  std::vector<std::string> names;
  std::vector<operators::Value> values;
  for (auto &[name, value] : *reads) {
    names.push_back(name);
    values.push_back(std::move(value));
  }
  try {
    const operators::ByteLimit limit(std::min(options.maxConstantBytes, kMostEvaluated));
    onnx::ModelProto alone = operators::modelOf(proto, opsets, names);
    std::vector<operators::Value> results = operators::Evaluator(alone, folder).run(std::move(values));
    // A sequence is no initializer.
    if (llvm::any_of(results, [](const operators::Value &value) { return value.form != operators::Value::Form::Tensor; }))
      return false;
    for (int i = 0; i < alone.graph().output_size(); ++i)
      defineValue(alone.graph().output(i).name(), results[size_t(i)]);
  } catch (const operators::Error &error) {
    if (auto problem = budget.check(error.bytes))
      throw ImportError{*problem};
    std::string text = error.message; // the node's own name is said by who catches
    if (const size_t end = text.find("): "); text.rfind("node \"", 0) == 0 && end != std::string::npos)
      text.erase(0, end + 3);
    throw ImportError{text};
  }
  return true;
}

void GraphImporter::defineValue(const std::string &name, const operators::Value &value) {
  if (isHostOnly(value.tensor->type)) {
    hostValues[name] = value;
    return;
  }
  if (auto problem = budget.add(value.tensor->bytes.size()))
    throw ImportError{*problem};
  define(name, constantOf(*value.tensor, options.widenFloats));
}

std::optional<std::vector<std::pair<ElementKind, Shape>>> GraphImporter::resultTypes(const Node &node,
                                                                                     const onnx::NodeProto &proto) {
  const operators::Operator *host = operators::find(proto.domain(), proto.op_type());
  if (!host || host->isDynamic)
    return std::nullopt;
  std::vector<std::string> names;
  std::vector<operators::Value> values;
  bool isKnown = true;
  // Values that do not matter are zeros.
  auto add = [&](const std::string &name, const Tensor &x, bool matters) {
    if (llvm::is_contained(names, name))
      return;
    names.push_back(name);
    if (uint64_t(operators::countOf({x.shape.begin(), x.shape.end()})) * elementBytes(x.kind) > kMostEvaluated) {
      isKnown = false;
      return;
    }
    if (x.constant) {
      values.push_back(hostTensorOf(x));
      return;
    }
    isKnown &= !matters;
    values.push_back(operators::makeTensor(x.kind, {x.shape.begin(), x.shape.end()}));
  };
  for (unsigned i = 0; i < node.numInputs(); ++i)
    if (node.has(i))
      add(proto.input(int(i)), node.input(i, ""), host->shapeInputs.count(i) != 0);
  for (auto &[name, x] : node.captures())
    add(name, *x, false);
  if (!isKnown)
    return std::nullopt;
  std::vector<std::pair<ElementKind, Shape>> types;
  try {
    const operators::ByteLimit limit(kMostEvaluated);
    const operators::WithoutProducts withoutProducts;
    onnx::ModelProto alone = operators::modelOf(proto, opsets, names);
    std::vector<operators::Value> results = operators::Evaluator(alone, folder).run(std::move(values));
    size_t next = 0;
    for (const std::string &output : proto.output()) {
      if (output.empty()) {
        types.emplace_back(ElementKind::F32, Shape{1}); // nobody reads it
        continue;
      }
      const operators::Value &value = results[next++];
      if (value.form != operators::Value::Form::Tensor || isHostOnly(value.tensor->type) ||
          value.tensor->shape.size() > kMaxRank || llvm::is_contained(value.tensor->shape, 0))
        return std::nullopt;
      types.emplace_back(imported(value.tensor->type), Shape(value.tensor->shape.begin(), value.tensor->shape.end()));
    }
  } catch (const operators::Error &) {
    return std::nullopt; // with zeros; the run says what is wrong with real values
  }
  return types;
}

bool GraphImporter::inlineBranch(const onnx::NodeProto &proto, const std::string &name) {
  if (proto.op_type() != "If" || !normalDomain(proto.domain()).empty() || proto.input_size() != 1)
    return false;
  auto condition = tensors.find(proto.input(0));
  if (condition == tensors.end() || !condition->second.constant || condition->second.constant->count() != 1)
    return false;
  const std::string wanted = condition->second.constant->integer(0) ? "then_branch" : "else_branch";
  for (const onnx::AttributeProto &attribute : proto.attribute()) {
    if (attribute.name() != wanted || !attribute.has_g())
      continue;
    InlinedGraph branch = inlineGraph(attribute.g(), name + "/");
    if (branch.results.size() != size_t(proto.output_size()))
      return false;
    for (onnx::TensorProto &tensor : branch.initializers) {
      Result<HostTensor> decoded = decodeTensor(tensor, folder);
      if (!decoded)
        throw ImportError{"initializer \"" + printable(tensor.name()) + "\": " + decoded.message()};
      defineValue(tensor.name(), operators::Value(std::move(*decoded)));
    }
    for (onnx::NodeProto &node : branch.nodes) {
      inlined.push_back(std::move(node));
      // Names inside are read inside.
      operators::forEachRead(inlined.back(), [&](const std::string &read) { lastUse.emplace(read, graph.node_size()); });
    }
    for (const std::string &result : branch.results)
      lastUse.emplace(result, graph.node_size());
    const size_t first = inlined.size() - branch.nodes.size();
    for (size_t i = 0; i < branch.nodes.size(); ++i)
      importNode(inlined[first + i], nameOf(inlined[first + i], int(i)));
    for (int i = 0; i < proto.output_size(); ++i) {
      if (proto.output(i).empty())
        continue;
      onnx::NodeProto &same = inlined.emplace_back();
      same.set_op_type("Identity");
      same.set_name(name);
      same.add_input(branch.results[size_t(i)]);
      same.add_output(proto.output(i));
      importNode(same, name);
    }
    return true;
  }
  return false;
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
std::string GraphImporter::nameOf(int index) const { return nameOf(graph.node(index), index); }

std::string GraphImporter::nameOf(const onnx::NodeProto &proto, int index) {
  return !proto.name().empty()                             ? proto.name()
         : proto.output_size() && !proto.output(0).empty() ? proto.output(0)
                                                           : "node" + std::to_string(index);
}

bool GraphImporter::dependsOnUnknown(const onnx::NodeProto &proto) {
  bool isUnknown = false;
  operators::forEachRead(proto, [&](const std::string &name) { isUnknown |= unknown.count(name) != 0; });
  return isUnknown;
}

void GraphImporter::count(const Node &node, const std::vector<Tensor> &results, const onnx::NodeProto &proto) {
  uint64_t made = 0, read = 0;
  std::set<const ConstantElements *> known;
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
  // What even the host has no operator for runs nowhere, whatever its shape.
  std::vector<graph::UnsupportedNode> nowhere;
  if (options.remainder) {
    for (const onnx::NodeProto *node : left)
      if (!operators::find(node->domain(), node->op_type()))
        nowhere.push_back(
            {nameOf(*node, 0), graph::operatorTitle(node->domain(), node->op_type()), "this operator is not supported"});
    if (nowhere.empty())
      return;
  }
  if (faults.empty())
    return;
  if (options.remainder) {
    faults = std::move(nowhere);
    notLookedAt = 0;
  }
  std::vector<graph::UnsupportedNode> others = graph::findUnsupported(module);
  faults.insert(faults.end(), others.begin(), others.end());
  std::string text = graph::describeUnsupported(faults);
  if (notLookedAt)
    text += notLookedAt == 1 ? "\n1 node that needs their results was not looked at"
                             : "\n" + std::to_string(notLookedAt) + " nodes that need their results were not looked at";
  throw ImportError{text};
}

void GraphImporter::importNode(const onnx::NodeProto &proto, const std::string &name) {
  if (dependsOnUnknown(proto)) {
    if (options.remainder)
      leave(proto, name, "it reads what is known when the network runs");
    else
      unknown.insert(proto.output().begin(), proto.output().end());
    ++notLookedAt;
    return;
  }
  try {
    std::string whatHostHas; // of what it reads
    operators::forEachRead(proto, [&](const std::string &read) {
      auto found = hostValues.find(read);
      if (found == hostValues.end() || !whatHostHas.empty())
        return;
      const operators::Value &value = found->second;
      const char *type = value.form == operators::Value::Form::Tensor ? elementName(value.tensor->type) : "sequence";
      whatHostHas = "it reads \"" + printable(read) + "\" of type " + type + ", which only the host has";
    });
    if (!whatHostHas.empty()) {
      if (compute(proto))
        return;
      if (!options.remainder)
        throw ImportError{whatHostHas};
      return leave(proto, name, whatHostHas);
    }
    if (inlineBranch(proto, name))
      return;
    std::vector<const Tensor *> inputs;
    std::set<std::string> own(proto.input().begin(), proto.input().end());
    for (const std::string &input : proto.input())
      inputs.push_back(input.empty() ? nullptr : lookup(input));
    // Trailing inputs that are left out are as if they were not there.
    while (!inputs.empty() && !inputs.back())
      inputs.pop_back();
    Node node(*builder, proto, locationOf(name, graph::operatorTitle(proto.domain(), proto.op_type())), opsetOf(proto),
              std::move(inputs));
    node.ignoreAttr(operators::kOpsetAttr);
    std::vector<std::pair<std::string, const Tensor *>> captured;
    operators::forEachRead(proto, [&](const std::string &read) {
      if (own.insert(read).second)
        captured.emplace_back(read, lookup(read));
    });
    node.capture(std::move(captured));
    std::vector<Tensor> results = importResults(node, proto, name);
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
    }
  } catch (const ImportError &error) {
    // A node of a branch says where.
    if (StringRef(error.message).starts_with("node \""))
      throw;
    throw ImportError{graph::nodeTitle(name, graph::operatorTitle(proto.domain(), proto.op_type())) + ": " + error.message};
  }
}

mlir::OwningOpRef<mlir::ModuleOp> GraphImporter::run() {
  inlineFunctions(model);
  readOpsets();
  findUses();
  readInitializers();
  readDeclaredTypes();
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(locationOf(graph.name().empty() ? "main" : graph.name()));
  readInputs(*module);
  mlir::Block &body = function.getBody().front();
  std::map<int, std::pair<size_t, size_t>> branches; // in `inlined`, of the node that they replace
  for (int place = 0; place < graph.node_size(); ++place) {
    const int i = order[size_t(place)];
    if (!needed[size_t(i)])
      continue;
    const size_t before = inlined.size();
    importNode(graph.node(i), nameOf(i));
    if (inlined.size() > before)
      branches[i] = {before, inlined.size()};
    // Large constants go when nobody needs them, but the remainder may.
    operators::forEachRead(graph.node(i), [&](const std::string &input) {
      if (auto use = lastUse.find(input); use != lastUse.end() && use->second <= place && left.empty())
        tensors.erase(input);
    });
  }
  llvm::SmallVector<mlir::Attribute> names, types;
  auto list = [&](const onnx::NodeProto &node, int index) {
    names.push_back(mlir::StringAttr::get(&context, printable(nameOf(node, index))));
    types.push_back(mlir::StringAttr::get(&context, printable(graph::operatorTitle(node.domain(), node.op_type()))));
  };
  for (int i = 0; i < graph.node_size(); ++i) {
    list(graph.node(i), i);
    if (auto branch = branches.find(i); branch != branches.end())
      for (size_t inner = branch->second.first; inner < branch->second.second; ++inner)
        if (nameOf(inlined[inner], 0) != nameOf(i)) // the If's result under its own name
          list(inlined[inner], 0);
  }
  function->setAttr(graph::kModelNodesAttr, mlir::ArrayAttr::get(&context, names));
  function->setAttr(graph::kModelOperatorsAttr, mlir::ArrayAttr::get(&context, types));
  refuseUnknown(*module);
  importOutputs();
  if (options.remainder)
    fillRemainder();
  // What a node began before it became a fallback, and conversions that nobody reads.
  for (mlir::Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (mlir::isa<graph::ConstantOp, graph::CastOp>(op) && op.use_empty())
      op.erase();
  return module;
}

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

std::vector<ImportedOperator> importedOperators() {
  std::map<std::string, ImportedOperator> all;
  for (auto &[name, op] : operators::table())
    all[name] = {name, false};
  for (const auto &entry : importTable())
    all[entry.getKey().str()] = {entry.getKey().str(), true};
  std::vector<ImportedOperator> list;
  for (auto &[name, op] : all)
    list.push_back(op);
  return list;
}

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
                                                                      StringRef file, const std::string &folder,
                                                                      const ImportOptions &options) {
  context.loadDialect<graph::GraphDialect, mlir::func::FuncDialect>();
  try {
    mlir::OwningOpRef<mlir::ModuleOp> module = GraphImporter(context, model, folder, options).run();
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
  } catch (const operators::Error &error) {
    return fileError(file, error.message);
  }
}

llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importOnnx(mlir::MLIRContext &context, StringRef bytes, StringRef file,
                                                             const ImportOptions &options) {
  onnx::ModelProto model;
  if (llvm::Error error = parseModel(model, bytes, file))
    return error;
  return importParsed(context, model, file, "", options);
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
  const std::string folder = std::filesystem::path(path.str()).parent_path().string();
  return importParsed(context, model, path, folder.empty() ? "." : folder, options);
}

} // namespace tw::frontend
