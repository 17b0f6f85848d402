//===- OpenClCompiler.cpp - Linalg as kernels in OpenCL C -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/opencl/OpenClCompiler.h"
#include "compiler/codegen/cpu/MemoryPlan.h"
#include "compiler/codegen/gpu/Contraction.h"
#include "compiler/codegen/gpu/Reductions.h"
#include "compiler/codegen/gpu/Scalars.h"
#include "compiler/codegen/opencl/KernelText.h"
#include "compiler/codegen/opencl/Scalars.h"
#include "compiler/graph/transforms/KernelTarget.h"
#include "compiler/loops/LowerGraph.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace tw;
using namespace tw::opencl;
using gpu::Place;

namespace {

constexpr int64_t kSmallGroup = 64, kLargeGroup = 256; ///< work-items of a group of elements
constexpr int64_t kManyElements = 1 << 14;             ///< from here on groups are large
constexpr int64_t kRowGroup = 64;                      ///< work-items that share a row
constexpr int64_t kLeastRow = 32;                      ///< elements of a row that they share
/// Sums of so many terms and more, of which there are no more than so many, get a group each.
constexpr int64_t kLongSum = 256, kMostGroupSums = 4096;
/// Of a tiled product: work-items of a group, sums of each of them, and terms that a tile holds. The sums of a work-item are neighbours, so that
/// a processor adds up a row of them as a vector. Measured with PoCL on 512^3: four times as fast as 16x16 work-items with 4x4 sums that lie apart.
constexpr int64_t kRowItems = 16, kColumnItems = 8, kMostRowSums = 4, kMostColumnSums = 8, kTileDepth = 16;
/// The same for a processor: sums of a work-item, which is a group by itself; of narrow matrices fewer columns.
constexpr int64_t kProcessorRows = 4, kProcessorColumns = 16;
constexpr int64_t kLeastTiled = 8; ///< rows, columns and terms of a product that is tiled

uint64_t bytesOf(RankedTensorType type) {
  return uint64_t(type.getNumElements()) * gpu::bytesOf(*gpu::elementOf(type.getElementType()));
}

std::string text(int64_t number) { return std::to_string(number); }

/// A name as C has it.
std::string identifier(llvm::StringRef name) {
  std::string result;
  for (char c : name)
    result += llvm::isAlnum(c) ? c : '_';
  return result;
}

/// Whether a kernel function only finds elements elsewhere: transposes, reshapes and slices.
bool onlyMoves(func::FuncOp function) {
  if (!function.getBody().hasOneBlock() || function.getNumArguments() != 1 || function.getNumResults() != 1)
    return false;
  return llvm::all_of(function.getBody().front(), [](Operation &op) {
    if (isa<tensor::EmptyOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp, func::ReturnOp>(op))
      return true;
    auto generic = dyn_cast<linalg::LinalgOp>(op);
    return generic && generic.getNumReductionLoops() == 0 && generic.getNumDpsInputs() == 1 &&
           isa<ShapedType>(generic->getOperand(0).getType()) && generic.getBlock()->without_terminator().empty() &&
           generic.getBlock()->getTerminator()->getOperand(0) == generic.getBlock()->getArgument(0) &&
           generic.getMatchingIndexingMap(generic.getDpsInputOperand(0)).isProjectedPermutation();
  });
}

/// A sum over two tensors whose results are matrices: operand `a` has the rows, `b` the columns, along which the result's last dim runs.
struct TiledProduct {
  linalg::LinalgOp op;
  unsigned a = 0, b = 1;
  llvm::SmallVector<unsigned> batch, rows, columns, depth; ///< loops
  llvm::SmallVector<int64_t> sizes;                        ///< of all loops
  int64_t sizeOf(llvm::ArrayRef<unsigned> dims) const { return ShapedType::getNumElements(shapeOf(dims)); }
  llvm::SmallVector<int64_t> shapeOf(llvm::ArrayRef<unsigned> dims) const {
    llvm::SmallVector<int64_t> shape;
    for (unsigned dim : dims)
      shape.push_back(sizes[dim]);
    return shape;
  }
};

bool isOneNumber(Value value) {
  if (auto fill = value.getDefiningOp<linalg::FillOp>())
    value = fill.value();
  auto constant = value.getDefiningOp<arith::ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  return constant && (!isa<ShapedType>(value.getType()) || (dense && dense.isSplat()));
}

std::optional<TiledProduct> matchTiled(linalg::LinalgOp op) {
  if (op.getNumDpsInputs() != 2 || op.getNumDpsInits() != 1 || !op.getNumReductionLoops() ||
      !isOneNumber(op.getDpsInitOperand(0)->get()) || op.hasIndexSemantics())
    return std::nullopt;
  for (unsigned i : {0u, 1u})
    if (!isa<ShapedType>(op.getDpsInputOperand(i)->get().getType()))
      return std::nullopt;
  TiledProduct result;
  result.op = op;
  AffineMap out = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  if (!out.isProjectedPermutation() || out.getNumResults() == 0)
    return std::nullopt;
  AffineMap maps[] = {op.getMatchingIndexingMap(op.getDpsInputOperand(0)), op.getMatchingIndexingMap(op.getDpsInputOperand(1))};
  const llvm::SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  result.sizes = sizes;
  // The last dim that is more than one number.
  for (unsigned i = out.getNumResults(); i-- > 0;)
    if (const unsigned dim = out.getDimPosition(i); sizes[dim] > 1) {
      if (maps[0].isFunctionOfDim(dim) == maps[1].isFunctionOfDim(dim))
        return std::nullopt;
      result.b = maps[1].isFunctionOfDim(dim);
      result.a = 1 - result.b;
      break;
    }
  for (unsigned dim = 0; dim < sizes.size(); ++dim) {
    const bool inA = maps[result.a].isFunctionOfDim(dim), inB = maps[result.b].isFunctionOfDim(dim);
    if (!out.isFunctionOfDim(dim))
      result.depth.push_back(dim);
    else if (inA && inB)
      result.batch.push_back(dim);
    else if (inB)
      result.columns.push_back(dim);
    else
      result.rows.push_back(dim);
  }
  const bool isWorthIt = result.sizeOf(result.rows) >= kLeastTiled && result.sizeOf(result.columns) >= kLeastTiled &&
                         result.sizeOf(result.depth) >= kLeastTiled;
  return isWorthIt ? std::optional(result) : std::nullopt;
}

class OpenClCompiler {
public:
  OpenClCompiler(ModuleOp module, DeviceType type)
      : isForProcessor(type == DeviceType::Processor), copy(module.clone()), module(*copy), symbols(*copy) {}
  llvm::Expected<Program> run();

private:
  Place bufferFor(RankedTensorType type);
  /// Where a tensor lies that does: written before, or a constant.
  Place placeOf(Value value);
  /// KernelText::Source.
  Value sourceOf(Value value);
  void use(Place place);

  llvm::Error compileMain(func::FuncOp main);
  llvm::Error compileCall(func::CallOp call);
  /// Elements of `root` into `to`, and of what has to lie in memory before.
  llvm::Error compileRoot(Value root, Place to);
  llvm::Error materialise(Value value);
  bool mustLieInMemory(Value value, Value root);
  llvm::Error compileElements(Value root, Place to, const std::string &kind);
  llvm::Error compileRows(Value root, llvm::ArrayRef<linalg::LinalgOp> reductions, Place to);
  llvm::Error compileLongSums(Value root, linalg::LinalgOp reduction, Place to);
  llvm::Error compileProduct(Value root, const TiledProduct &product, Place to);
  llvm::Error compileProductForProcessor(Value root, const TiledProduct &product, Place to);
  llvm::Error addStep(const std::string &kind, const KernelText &body, Value root, Place to, std::array<int64_t, 3> global,
                      std::array<int64_t, 3> local);
  KernelText textOfKernel() {
    return KernelText([this](Value value) { return sourceOf(value); });
  }

  const bool isForProcessor;
  OwningOpRef<ModuleOp> copy;
  ModuleOp module;
  SymbolTable symbols;
  Program program;
  std::vector<cpu::PlannedBuffer> buffers;
  llvm::DenseMap<Value, Place> places; ///< buffers by their number, until memory is planned
  llvm::DenseSet<Value> inMemory;      ///< of the function that is compiled
  llvm::DenseMap<Attribute, Place> constantPlaces;
  llvm::DenseMap<Value, Value> bound; ///< arguments of kernel functions, and results of calls that only move
  llvm::StringMap<std::string> kernelByText;
  std::string kernels, functionName;
  std::vector<std::string> nodes;
};

Place OpenClCompiler::bufferFor(RankedTensorType type) {
  cpu::PlannedBuffer buffer;
  buffer.bytes = int64_t(llvm::alignTo(std::max<uint64_t>(bytesOf(type), 1), kAlignment));
  buffer.firstStep = buffer.lastStep = int64_t(program.steps.size());
  buffers.push_back(buffer);
  return {false, buffers.size() - 1};
}

void OpenClCompiler::use(Place place) {
  if (!place.isConstant)
    buffers[place.offset].lastStep = int64_t(program.steps.size());
}

Place OpenClCompiler::placeOf(Value value) {
  if (auto known = places.find(value); known != places.end())
    return known->second;
  auto constant = value.getDefiningOp<arith::ConstantOp>();
  auto [place, isNew] = constantPlaces.try_emplace(constant.getValue());
  if (isNew) {
    const std::vector<uint8_t> bytes = gpu::bytesOfConstant(value);
    place->second = {true, llvm::alignTo(program.constants.size(), kAlignment)};
    program.constants.resize(place->second.offset + std::max<size_t>(bytes.size(), 1));
    std::copy(bytes.begin(), bytes.end(), program.constants.begin() + int64_t(place->second.offset));
  }
  return place->second;
}

Value OpenClCompiler::sourceOf(Value value) {
  if (places.count(value))
    return {};
  if (auto other = bound.find(value); other != bound.end())
    return other->second;
  if (auto constant = value.getDefiningOp<arith::ConstantOp>()) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!dense || !dense.isSplat())
      return {};
  }
  return value;
}

llvm::Error OpenClCompiler::addStep(const std::string &kind, const KernelText &body, Value root, Place to,
                                    std::array<int64_t, 3> global, std::array<int64_t, 3> local) {
  if (!body.problem().empty())
    return llvm::createStringError("kernel '%s': %s", functionName.c_str(), body.problem().c_str());
  Step step;
  step.name = functionName;
  step.nodes = nodes;
  step.kind = kind;
  step.arguments.push_back({to, bytesOf(tensorOf(root))});
  use(to);
  std::string parameters = "__global " + memoryType(tensorOf(root).getElementType()) + " *restrict out";
  bool needsDouble = tensorOf(root).getElementType().isF64();
  for (auto [i, leaf] : llvm::enumerate(body.leaves())) {
    const RankedTensorType type = tensorOf(leaf);
    if (type.getNumElements() > INT32_MAX)
      return llvm::createStringError("kernel '%s' reads a tensor of 2^31 elements or more", functionName.c_str());
    parameters += ", __global const " + memoryType(type.getElementType()) + " *restrict x" + text(int64_t(i));
    step.arguments.push_back({placeOf(leaf), bytesOf(type)});
    use(step.arguments.back().place);
    needsDouble |= type.getElementType().isF64();
  }
  program.needsDouble |= needsDouble || body.text().find("double ") != std::string::npos;
  for (unsigned i = 0; i < 3; ++i) {
    step.global[i] = uint64_t(llvm::alignTo(uint64_t(global[i]), uint64_t(local[i])));
    step.local[i] = uint64_t(local[i]);
  }
  std::string rest = "(" + parameters + ") {\n" + body.text() + "}\n";
  const std::string group = text(local[0]) + ", " + text(local[1]) + ", " + text(local[2]);
  auto [name, isNew] = kernelByText.try_emplace(group + rest);
  if (isNew) {
    name->second = "k" + text(int64_t(kernelByText.size()) - 1) + "_" + identifier(functionName);
    std::string list;
    for (const std::string &node : nodes)
      list += (list.empty() ? ": " : ", ") + node;
    std::replace_if(
        list.begin(), list.end(), [](char c) { return c < ' ' || c == '\\'; }, '_');
    kernels += "// " + kind + list + "\n__kernel __attribute__((reqd_work_group_size(" + group + ")))\nvoid " + name->second +
               rest + "\n";
  }
  step.kernel = name->second;
  program.steps.push_back(std::move(step));
  return llvm::Error::success();
}

llvm::Error OpenClCompiler::compileElements(Value root, Place to, const std::string &kind) {
  const RankedTensorType type = tensorOf(root);
  const int64_t elements = type.getNumElements(), group = elements < kManyElements ? kSmallGroup : kLargeGroup;
  if (elements > INT32_MAX - kLargeGroup)
    return llvm::createStringError("kernel '%s' makes a tensor of 2^31 elements or more", functionName.c_str());
  KernelText body = textOfKernel();
  body.line("const int element = get_global_id(0);");
  if (elements % group)
    body.open("if (element < " + text(elements) + ")");
  const std::string value = body.at(root, body.delinearised("element", type.getShape()));
  body.line(store(type.getElementType(), "out", "element", value));
  if (elements % group)
    body.close();
  return addStep(kind, body, root, to, {elements, 1, 1}, {group, 1, 1});
}

/// What a sum that several work-items share begins with for all of them but the first.
std::string neutralOf(Operation *combiner) {
  return isa<arith::MaximumFOp>(combiner) ? "-INFINITY" : isa<arith::MinimumFOp>(combiner) ? "INFINITY" : "0";
}

/// The reduction at `index` by all work-items of a group: each has every kRowGroup-th term, then halves are added up in local memory.
/// Returns the result, which all of them have.
std::string reduceByGroup(KernelText &body, linalg::LinalgOp op, const Index &index) {
  Operation *combiner = gpu::combinerOf(op);
  const std::string type = scalarType(tensorOf(op->getResult(0)).getElementType()), group = text(kRowGroup);
  const std::string part = body.fresh("part"), parts = body.fresh("parts"), k = body.fresh("k"), half = body.fresh("half");
  Index dims = body.loopsAt(op, 0, index);
  llvm::SmallVector<unsigned> reduced;
  llvm::SmallVector<int64_t> sizes;
  for (unsigned dim = 0; dim < dims.size(); ++dim)
    if (dims[dim].empty()) {
      reduced.push_back(dim);
      sizes.push_back(op.getStaticLoopRanges()[dim]);
    }
  const std::string initial = body.at(op.getDpsInitOperand(0)->get(), index);
  body.line(type + " " + part + " = " + neutralOf(combiner) + ";");
  body.open("for (int " + k + " = lane; " + k + " < " + text(ShapedType::getNumElements(sizes)) + "; " + k + " += " + group +
            ")");
  const Index inner = body.delinearised(k, sizes);
  for (auto [dim, place] : llvm::zip(reduced, inner))
    dims[dim] = place;
  body.line(part + " = " + body.body(op, dims, {}, {part})[0] + ";");
  body.close();
  body.line("__local " + type + " " + parts + "[" + group + "];");
  body.line(parts + "[lane] = " + part + ";");
  body.line("barrier(CLK_LOCAL_MEM_FENCE);");
  auto combined = [&](const std::string &x, const std::string &y) { return scalarExpression(combiner, {x, y}); };
  body.open("for (int " + half + " = " + text(kRowGroup / 2) + "; " + half + " > 0; " + half + " /= 2)");
  body.open("if (lane < " + half + ")");
  body.line(parts + "[lane] = " + combined(parts + "[lane]", parts + "[lane + " + half + "]") + ";");
  body.close();
  body.line("barrier(CLK_LOCAL_MEM_FENCE);");
  body.close();
  return body.named(type, combined(initial, parts + "[0]"), "total");
}

/// A group for each row: softmax and layer normalisation in one kernel. On a processor the group is one work-item.
llvm::Error OpenClCompiler::compileRows(Value root, llvm::ArrayRef<linalg::LinalgOp> reductions, Place to) {
  const RankedTensorType type = tensorOf(root);
  const int64_t width = type.getShape().back(), rows = type.getNumElements() / width;
  KernelText body = textOfKernel();
  body.line(isForProcessor ? "const int row = get_group_id(0);" : "const int lane = get_local_id(0), row = get_group_id(0);");
  Index index = body.delinearised("row", type.getShape().drop_back());
  for (linalg::LinalgOp reduction : reductions)
    body.setElement(reduction->getResult(0),
                    isForProcessor ? body.at(reduction->getResult(0), index) : reduceByGroup(body, reduction, index));
  if (isForProcessor)
    body.open("for (int column = 0; column < " + text(width) + "; ++column)");
  else
    body.open("for (int column = lane; column < " + text(width) + "; column += " + text(kRowGroup) + ")");
  index.push_back("column");
  const std::string value = body.at(root, index);
  body.line(store(type.getElementType(), "out", "row * " + text(width) + " + column", value));
  body.close();
  const int64_t items = isForProcessor ? 1 : kRowGroup;
  return addStep("rows", body, root, to, {rows * items, 1, 1}, {items, 1, 1});
}

/// A group for each of a few long sums.
llvm::Error OpenClCompiler::compileLongSums(Value root, linalg::LinalgOp reduction, Place to) {
  const RankedTensorType type = tensorOf(root);
  KernelText body = textOfKernel();
  body.line("const int lane = get_local_id(0), element = get_group_id(0);");
  const Index index = body.delinearised("element", type.getShape());
  body.setElement(reduction->getResult(0), reduceByGroup(body, reduction, index));
  body.open("if (lane == 0)");
  const std::string value = body.at(root, index);
  body.line(store(type.getElementType(), "out", "element", value));
  body.close();
  return addStep("reduction", body, root, to, {type.getNumElements() * kRowGroup, 1, 1}, {kRowGroup, 1, 1});
}

/// Tiles of both operands in local memory, and a block of sums in registers for each work-item. Windows of a convolution are rows of a matrix
/// that nobody makes: where an element of it lies follows from its row and its term.
llvm::Error OpenClCompiler::compileProduct(Value root, const TiledProduct &product, Place to) {
  linalg::LinalgOp op = product.op;
  const int64_t rows = product.sizeOf(product.rows), columns = product.sizeOf(product.columns),
                depth = product.sizeOf(product.depth);
  auto sumsOf = [](int64_t size, int64_t items, int64_t most) {
    return std::clamp<int64_t>(int64_t(llvm::divideCeil(size, items)), 1, most);
  };
  const int64_t rowSums = sumsOf(rows, kRowItems, kMostRowSums), columnSums = sumsOf(columns, kColumnItems, kMostColumnSums);
  const int64_t tileRows = rowSums * kRowItems, tileColumns = columnSums * kColumnItems;
  KernelText body = textOfKernel();
  const std::string threads = text(kRowItems * kColumnItems), block = "[" + text(rowSums) + "][" + text(columnSums) + "];";
  const std::string rowOfItem = sum(opencl::product("ty", rowSums), "m"),
                    columnOfItem = sum(opencl::product("tx", columnSums), "n");
  struct Operand {
    unsigned number;
    std::string tile, first;
    int64_t size, all; ///< rows or columns of a tile, and of the matrix
    llvm::ArrayRef<unsigned> loops;
  };
  const Operand operands[] = {{product.a, "tile_a", "first_row", tileRows, rows, product.rows},
                              {product.b, "tile_b", "first_column", tileColumns, columns, product.columns}};
  auto typeOf = [&](unsigned operand) { return scalarType(tensorOf(op.getDpsInputOperand(operand)->get()).getElementType()); };
  const std::string sumType = scalarType(tensorOf(op->getResult(0)).getElementType());
  for (const Operand &operand : operands)
    body.line("__local " + typeOf(operand.number) + " " + operand.tile + "[" + text(kTileDepth) + "][" + text(operand.size) +
              "];");
  body.line("const int tx = get_local_id(0), ty = get_local_id(1), thread = ty * " + text(kColumnItems) + " + tx;");
  body.line("const int first_column = get_group_id(0) * " + text(tileColumns) + ", first_row = get_group_id(1) * " +
            text(tileRows) + ";");
  const Index batch = body.delinearised("get_group_id(2)", product.shapeOf(product.batch));
  Index dims(op.getNumLoops(), "0");
  auto set = [&](llvm::ArrayRef<unsigned> loops, const Index &values) {
    for (auto [loop, value] : llvm::zip(loops, values))
      dims[loop] = value;
  };
  set(product.batch, batch);
  auto overBlock = [&](llvm::function_ref<void()> inner) {
    body.line("#pragma unroll");
    body.open("for (int m = 0; m < " + text(rowSums) + "; ++m)");
    body.line("#pragma unroll");
    body.open("for (int n = 0; n < " + text(columnSums) + "; ++n)");
    inner();
    body.close();
    body.close();
  };
  body.line(sumType + " sums" + block);
  const Index none(size_t(tensorOf(op->getResult(0)).getRank()), "0");
  const std::string initial = body.at(op.getDpsInitOperand(0)->get(), none);
  overBlock([&] { body.line("sums[m][n] = " + initial + ";"); });
  body.open("for (int first_k = 0; first_k < " + text(depth) + "; first_k += " + text(kTileDepth) + ")");
  for (const Operand &operand : operands) {
    OpOperand *input = op.getDpsInputOperand(operand.number);
    AffineMap map = op.getMatchingIndexingMap(input);
    // Neighbouring work-items read neighbours in memory.
    const bool termsAreNeighbours = llvm::any_of(product.depth, [&](unsigned dim) {
      return map.getNumResults() && map.getResult(map.getNumResults() - 1).isFunctionOfDim(dim);
    });
    body.open("for (int t = thread; t < " + text(operand.size * kTileDepth) + "; t += " + threads + ")");
    const std::string line = termsAreNeighbours ? quotient("t", kTileDepth) : remainder("t", operand.size),
                      term = termsAreNeighbours ? remainder("t", kTileDepth) : quotient("t", operand.size);
    body.line("const int line = " + line + ", term = " + term + ";");
    body.line("const int at = " + operand.first + " + line, k = first_k + term;");
    body.line(typeOf(operand.number) + " value = 0;");
    std::string condition;
    if (operand.all % operand.size)
      condition = "at < " + text(operand.all);
    if (depth % kTileDepth)
      condition += (condition.empty() ? "" : " && ") + ("k < " + text(depth));
    if (condition.empty())
      body.open("");
    else
      body.open("if (" + condition + ")");
    set(operand.loops, body.delinearised("at", product.shapeOf(operand.loops)));
    set(product.depth, body.delinearised("k", product.shapeOf(product.depth)));
    body.line("value = " + body.operand(op, operand.number, dims) + ";");
    body.close();
    body.line(operand.tile + "[term][line] = value;");
    body.close();
  }
  body.line("barrier(CLK_LOCAL_MEM_FENCE);");
  const std::string terms =
      depth % kTileDepth ? "min(" + text(kTileDepth) + ", " + text(depth) + " - first_k)" : text(kTileDepth);
  body.line("const int terms = " + terms + ";");
  // A copy, which stays in registers between two barriers.
  body.line(sumType + " block" + block);
  overBlock([&] { body.line("block[m][n] = sums[m][n];"); });
  body.open("for (int k = 0; k < terms; ++k)");
  overBlock([&] {
    llvm::SmallVector<std::string> inputs(2);
    inputs[product.a] = body.named(typeOf(product.a), "tile_a[k][" + rowOfItem + "]", "a");
    inputs[product.b] = body.named(typeOf(product.b), "tile_b[k][" + columnOfItem + "]", "b");
    body.line("block[m][n] = " + body.body(op, dims, inputs, {"block[m][n]"})[0] + ";");
  });
  body.close();
  overBlock([&] { body.line("sums[m][n] = block[m][n];"); });
  body.line("barrier(CLK_LOCAL_MEM_FENCE);");
  body.close();
  overBlock([&] {
    body.line("const int row = first_row + " + rowOfItem + ", column = first_column + " + columnOfItem + ";");
    std::string condition;
    if (rows % tileRows)
      condition = "row < " + text(rows);
    if (columns % tileColumns)
      condition += (condition.empty() ? "" : " && ") + ("column < " + text(columns));
    if (!condition.empty())
      body.open("if (" + condition + ")");
    set(product.rows, body.delinearised("row", product.shapeOf(product.rows)));
    set(product.columns, body.delinearised("column", product.shapeOf(product.columns)));
    Index index;
    for (AffineExpr expr : op.getMatchingIndexingMap(op.getDpsInitOperand(0)).getResults())
      index.push_back(dims[cast<AffineDimExpr>(expr).getPosition()]);
    body.setElement(op->getResult(0), body.named(sumType, "sums[m][n]", "total"));
    const std::string value = body.at(root, index);
    body.line(store(tensorOf(root).getElementType(), "out", body.linearised(index, tensorOf(root).getShape()), value));
    if (!condition.empty())
      body.close();
  });
  return addStep("matrix product", body, root, to,
                 {int64_t(llvm::divideCeil(columns, tileColumns)) * kColumnItems,
                  int64_t(llvm::divideCeil(rows, tileRows)) * kRowItems, product.sizeOf(product.batch)},
                 {kColumnItems, kRowItems, 1});
}

/// A block of sums for each work-item, which adds up its rows as vectors and reads both operands where they lie. The last blocks begin earlier
/// where sizes are no multiples of theirs, and write what no other block does.
llvm::Error OpenClCompiler::compileProductForProcessor(Value root, const TiledProduct &product, Place to) {
  linalg::LinalgOp op = product.op;
  struct Side {
    std::string name, counter, group;  ///< of a line of the matrix, of one in the block, and the dim of groups
    int64_t block, all;                ///< lines of a block, and of the matrix
    llvm::SmallVector<unsigned> loops; ///< of more than one iteration
    std::string text() const { return std::to_string(block); }
  };
  auto manyOf = [&](llvm::ArrayRef<unsigned> loops) {
    llvm::SmallVector<unsigned> many;
    llvm::copy_if(loops, std::back_inserter(many), [&](unsigned loop) { return product.sizes[loop] > 1; });
    return many;
  };
  const int64_t columns = product.sizeOf(product.columns);
  const Side rows{"row", "m", "1", kProcessorRows, product.sizeOf(product.rows), manyOf(product.rows)},
      cols{"column", "n", "0", columns < kProcessorColumns ? kLeastTiled : kProcessorColumns, columns, manyOf(product.columns)};
  KernelText body = textOfKernel();
  const Index batch = body.delinearised("get_group_id(2)", product.shapeOf(product.batch));
  Index dims(op.getNumLoops(), "0");
  auto set = [&](llvm::ArrayRef<unsigned> loops, const Index &values) {
    for (auto [loop, value] : llvm::zip(loops, values))
      dims[loop] = value;
  };
  set(product.batch, batch);
  // A loop over the lines of a block.
  auto count = [&](const Side &side, const std::string &begin, llvm::function_ref<void()> inner) {
    body.open("for (int " + side.counter + " = " + begin + "; " + side.counter + " < " + side.text() + "; ++" + side.counter +
              ")");
    inner();
    body.close();
  };
  for (const Side &side : {rows, cols}) {
    body.line("const int own_" + side.name + " = get_group_id(" + side.group + ") * " + side.text() + ", first_" + side.name +
              " = min(own_" + side.name + ", " + text(side.all - side.block) + ");");
    if (side.loops.size() == 1)
      continue;
    // The dims of every line, which no step of the sums finds again.
    body.line("int " + side.name + "s[" + side.text() + "][" + text(int64_t(side.loops.size())) + "];");
    count(side, "0", [&] {
      body.line("const int " + side.name + " = first_" + side.name + " + " + side.counter + ";");
      for (auto [i, dim] : llvm::enumerate(body.delinearised(side.name, product.shapeOf(side.loops))))
        body.line(side.name + "s[" + side.counter + "][" + text(int64_t(i)) + "] = " + dim + ";");
    });
  }
  // The same; inside it `dims` are those of the line.
  auto over = [&](const Side &side, const std::string &begin, llvm::function_ref<void()> inner) {
    count(side, begin, [&] {
      for (auto [i, loop] : llvm::enumerate(side.loops))
        dims[loop] = side.loops.size() == 1 ? body.named("int", "first_" + side.name + " + " + side.counter, side.name)
                                            : side.name + "s[" + side.counter + "][" + text(int64_t(i)) + "]";
      inner();
    });
  };
  auto typeOf = [&](unsigned operand) { return scalarType(tensorOf(op.getDpsInputOperand(operand)->get()).getElementType()); };
  const std::string sumType = scalarType(tensorOf(op->getResult(0)).getElementType());
  body.line(sumType + " sums[" + rows.text() + "][" + cols.text() + "];");
  const Index none(size_t(tensorOf(op->getResult(0)).getRank()), "0");
  const std::string initial = body.at(op.getDpsInitOperand(0)->get(), none);
  count(rows, "0", [&] { count(cols, "0", [&] { body.line("sums[m][n] = " + initial + ";"); }); });
  Index outer = dims;
  for (unsigned loop : product.depth)
    outer[loop] = "";
  body.loops(op, outer, [&](const Index &all) {
    for (unsigned loop : product.depth)
      dims[loop] = all[loop];
    body.line(typeOf(product.b) + " b[" + cols.text() + "];");
    over(cols, "0", [&] { body.line("b[n] = " + body.operand(op, product.b, dims) + ";"); });
    body.line("#pragma unroll");
    over(rows, "0", [&] {
      llvm::SmallVector<std::string> inputs(2);
      inputs[product.a] = body.named(typeOf(product.a), body.operand(op, product.a, dims), "a");
      count(cols, "0", [&] {
        inputs[product.b] = body.named(typeOf(product.b), "b[n]", "b");
        body.line("sums[m][n] = " + body.body(op, dims, inputs, {"sums[m][n]"})[0] + ";");
      });
    });
  });
  over(rows, "own_row - first_row", [&] {
    over(cols, "own_column - first_column", [&] {
      Index index;
      for (AffineExpr expr : op.getMatchingIndexingMap(op.getDpsInitOperand(0)).getResults())
        index.push_back(dims[cast<AffineDimExpr>(expr).getPosition()]);
      body.setElement(op->getResult(0), body.named(sumType, "sums[m][n]", "total"));
      const std::string value = body.at(root, index);
      body.line(store(tensorOf(root).getElementType(), "out", body.linearised(index, tensorOf(root).getShape()), value));
    });
  });
  return addStep("matrix product", body, root, to,
                 {int64_t(llvm::divideCeil(cols.all, cols.block)), int64_t(llvm::divideCeil(rows.all, rows.block)),
                  product.sizeOf(product.batch)},
                 {1, 1, 1});
}

llvm::Error OpenClCompiler::materialise(Value value) {
  Place place = bufferFor(tensorOf(value));
  if (llvm::Error error = compileRoot(value, place))
    return error;
  places[value] = place;
  inMemory.insert(value);
  return llvm::Error::success();
}

/// Whether elements of `value` cost something: they are computed, not found.
bool isComputed(Value value) {
  auto op = value.getDefiningOp<linalg::LinalgOp>();
  return op && !isa<linalg::FillOp>(*op) && !op.getBlock()->without_terminator().empty();
}

/// What a sum reads more than once is computed once: elements that several results of a reduction need. Sums that another op reads are kept,
/// but for the one that the root is made of.
bool OpenClCompiler::mustLieInMemory(Value value, Value root) {
  if (!isComputed(value) || places.count(value))
    return false;
  auto op = value.getDefiningOp<linalg::LinalgOp>();
  if (op.getNumReductionLoops())
    return gpu::reductionBehind(root) != op;
  std::function<bool(Value)> isReused = [&](Value read) {
    return llvm::any_of(read.getUses(), [&](OpOperand &use) {
      if (isa<tensor::PadOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::ExtractSliceOp>(use.getOwner()))
        return isReused(use.getOwner()->getResult(0));
      auto reader = dyn_cast<linalg::LinalgOp>(use.getOwner());
      if (!reader || !reader.getNumReductionLoops() || reader.isDpsInit(&use))
        return false;
      AffineMap map = reader.getMatchingIndexingMap(&use);
      if (!map.isProjectedPermutation()) // windows
        return true;
      const llvm::SmallVector<int64_t> sizes = reader.getStaticLoopRanges();
      for (unsigned dim = 0; dim < sizes.size(); ++dim)
        if (!map.isFunctionOfDim(dim) && sizes[dim] > 1)
          return true;
      return false;
    });
  };
  return isReused(value);
}

llvm::Error OpenClCompiler::compileRoot(Value root, Place to) {
  if (tensorOf(root).getNumElements() == 0)
    return llvm::Error::success();
  if (llvm::SmallVector<linalg::LinalgOp> reductions = gpu::rowReductions(root, inMemory, kLeastRow); !reductions.empty())
    return compileRows(root, reductions, to);
  std::function<llvm::Error(Value)> visit = [&](Value value) -> llvm::Error {
    Operation *op = value.getDefiningOp();
    if (!op || isa<func::CallOp>(op) || places.count(value))
      return llvm::Error::success();
    auto visitAll = [&](ValueRange values) -> llvm::Error {
      for (Value operand : values)
        if (isa<ShapedType>(operand.getType()))
          if (llvm::Error error = visit(operand))
            return error;
      return llvm::Error::success();
    };
    if (llvm::Error error = visitAll(op->getOperands()))
      return error;
    for (Region &region : op->getRegions()) // tables of which elements are read at computed places
      for (auto extract : region.getOps<tensor::ExtractOp>())
        if (llvm::Error error = visitAll(extract.getTensor()))
          return error;
    return value != root && mustLieInMemory(value, root) ? materialise(value) : llvm::Error::success();
  };
  if (llvm::Error error = visit(root))
    return error;
  linalg::LinalgOp reduction = gpu::reductionBehind(root);
  if (!reduction)
    return compileElements(root, to, "elements");
  if (std::optional<TiledProduct> product = matchTiled(reduction))
    return isForProcessor ? compileProductForProcessor(root, *product, to) : compileProduct(root, *product, to);
  const int64_t elements = tensorOf(root).getNumElements();
  if (!isForProcessor && gpu::termsOf(reduction) >= kLongSum && elements <= kMostGroupSums && gpu::combinerOf(reduction))
    return compileLongSums(root, reduction, to);
  return compileElements(root, to, "reduction");
}

llvm::Error OpenClCompiler::compileCall(func::CallOp call) {
  auto function = symbols.lookup<func::FuncOp>(call.getCallee());
  if (!function || function.isExternal() || !function.getBody().hasOneBlock())
    return llvm::createStringError("@main calls @%s, which is no kernel", call.getCallee().str().c_str());
  for (auto [argument, operand] : llvm::zip(function.getArguments(), call.getOperands())) {
    bound[argument] = operand;
    Value given = operand;
    while (isa_and_nonnull<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(given.getDefiningOp()))
      given = given.getDefiningOp()->getOperand(0);
    auto extent = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), loops::kIndexExtentAttr);
    if (auto input = dyn_cast<BlockArgument>(given); input && extent)
      program.indexInputs.push_back({input.getArgNumber(), extent.getInt()});
  }
  Operation *terminator = function.getBody().front().getTerminator();
  if (onlyMoves(function)) {
    bound[call.getResult(0)] = terminator->getOperand(0);
    return llvm::Error::success();
  }
  functionName = function.getName().str();
  nodes.clear();
  if (auto names = function->getAttrOfType<ArrayAttr>(graph::kNodesAttr))
    for (auto name : names.getAsRange<StringAttr>())
      nodes.push_back(name.getValue().str());
  inMemory.clear();
  for (BlockArgument argument : function.getArguments())
    inMemory.insert(argument);
  for (auto [result, root] : llvm::zip(call.getResults(), terminator->getOperands())) {
    if (places.count(root)) { // another result is made of it
      places[result] = placeOf(root);
      continue;
    }
    Place place = bufferFor(tensorOf(result));
    if (llvm::Error error = compileRoot(root, place))
      return error;
    places[result] = place;
    if (root.getDefiningOp() && !root.getDefiningOp<arith::ConstantOp>()) {
      places[root] = place;
      inMemory.insert(root);
    }
  }
  return llvm::Error::success();
}

llvm::Error OpenClCompiler::compileMain(func::FuncOp main) {
  auto describe = [&](Value value, Place place) -> llvm::Expected<gpu::Tensor> {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    const std::optional<gpu::Element> element = type ? gpu::elementOf(type.getElementType()) : std::nullopt;
    if (!element || !type.hasStaticShape()) {
      std::string text;
      llvm::raw_string_ostream(text) << value.getType();
      return llvm::createStringError("@main has a tensor %s, but OpenCL code has tensors of fixed shape", text.c_str());
    }
    return gpu::Tensor{"", *element, {type.getShape().begin(), type.getShape().end()}, place};
  };
  for (BlockArgument argument : main.getArguments()) {
    llvm::Expected<gpu::Tensor> tensor = describe(argument, {});
    if (!tensor)
      return tensor.takeError();
    tensor->place = places[argument] = bufferFor(tensorOf(argument));
    program.inputs.push_back(std::move(*tensor));
  }
  Block &block = main.getBody().front();
  for (Operation &op : block.without_terminator()) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      if (llvm::Error error = compileCall(call))
        return error;
    } else if (!isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp, arith::ConstantOp>(op)) {
      return llvm::createStringError("@main holds '%s' but may hold calls, reshapes and constants",
                                     op.getName().getStringRef().str().c_str());
    }
  }
  // What a kernel has written is the result itself, reshaped or not, the first time that it is returned.
  llvm::DenseSet<uint64_t> returned;
  for (Value value : block.getTerminator()->getOperands()) {
    Value written = value;
    while (isa_and_nonnull<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(written.getDefiningOp()))
      written = written.getDefiningOp()->getOperand(0);
    auto known = places.find(written);
    const bool isOwn = known != places.end() && !isa<BlockArgument>(written) && returned.insert(known->second.offset).second;
    Place place = isOwn ? known->second : bufferFor(tensorOf(value));
    if (!isOwn) {
      functionName = "copy";
      nodes.clear();
      inMemory.clear();
      if (llvm::Error error = compileRoot(value, place))
        return error;
    }
    llvm::Expected<gpu::Tensor> tensor = describe(value, place);
    if (!tensor)
      return tensor.takeError();
    program.outputs.push_back(std::move(*tensor));
  }
  return llvm::Error::success();
}

llvm::Expected<Program> OpenClCompiler::run() {
  auto main = symbols.lookup<func::FuncOp>("main");
  if (!main || main.isExternal() || !main.getBody().hasOneBlock())
    return llvm::createStringError("the module has no function @main");
  // Each call has a function of its own, whose arguments are that call's operands.
  llvm::StringMap<unsigned> calls;
  for (auto call : main.getOps<func::CallOp>())
    if (calls[call.getCallee()]++)
      if (auto function = symbols.lookup<func::FuncOp>(call.getCallee()))
        call.setCallee(symbols.insert(function.clone()).getValue());
  if (llvm::Error error = compileMain(main))
    return std::move(error);
  // Inputs and outputs stay as they are, so that a network can run again, and its results be read.
  const int64_t last = int64_t(program.steps.size());
  for (gpu::Tensor &input : program.inputs)
    buffers[input.place.offset].firstStep = 0;
  for (std::vector<gpu::Tensor> *tensors : {&program.inputs, &program.outputs})
    for (gpu::Tensor &tensor : *tensors)
      buffers[tensor.place.offset].lastStep = last;
  program.arenaBytes = uint64_t(cpu::planMemory(buffers));
  auto settle = [&](Place &place) {
    if (!place.isConstant)
      place.offset = uint64_t(buffers[place.offset].offset);
  };
  for (std::vector<gpu::Tensor> *tensors : {&program.inputs, &program.outputs})
    for (gpu::Tensor &tensor : *tensors)
      settle(tensor.place);
  for (Step &step : program.steps)
    for (Argument &argument : step.arguments)
      settle(argument.place);
  program.constants.resize(llvm::alignTo(program.constants.size(), kAlignment));
  program.source = std::string("// Kernels of a network, in OpenCL C 1.2. x0, x1, ... are tensors in row-major order.\n") +
                   (program.needsDouble ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" : "") +
                   "#pragma OPENCL FP_CONTRACT OFF\n\n" + withFunctions(kernels);
  return std::move(program);
}

} // namespace

llvm::Expected<Program> opencl::compileForOpenCl(ModuleOp module, DeviceType type) {
  return OpenClCompiler(module, type).run();
}
