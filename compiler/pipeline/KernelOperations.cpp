//===- KernelOperations.cpp - How much a kernel computes ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/pipeline/KernelOperations.h"
#include "compiler/graph/Graph.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <onnx/onnx_pb.h>

using namespace mlir;
using namespace tw;

namespace {

using Shape = std::vector<int64_t>;

/// Dims that nobody knows count as 1.
uint64_t elements(llvm::ArrayRef<int64_t> shape) {
  uint64_t count = 1;
  for (int64_t dim : shape)
    count = llvm::SaturatingMultiply(count, uint64_t(dim < 0 ? 1 : dim));
  return count;
}

Shape shapeOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? tensor.getShape().vec() : Shape();
}

/// How operators multiply and add (source: ONNX and ONNX Runtime, operators of these names).
enum class Sums { None, MatMul, Gemm, Conv, QLinearConv, ConvTranspose, Recurrent, Attention, PackedAttention };

Sums sumsOf(const onnx::NodeProto &node) {
  if (node.domain() == "com.microsoft" && (node.op_type() == "Attention" || node.op_type() == "QAttention"))
    return Sums::PackedAttention;
  return llvm::StringSwitch<Sums>(node.op_type())
      .Cases("MatMul", "MatMulInteger", "QLinearMatMul", "FusedMatMul", "MatMulIntegerToFloat", "DynamicQuantizeMatMul",
             "MatMulNBits", Sums::MatMul)
      .Cases("Gemm", "FusedGemm", "QGemm", "GemmFastGelu", Sums::Gemm)
      .Cases("Conv", "ConvInteger", "DeformConv", "FusedConv", Sums::Conv)
      .Case("QLinearConv", Sums::QLinearConv)
      .Case("ConvTranspose", Sums::ConvTranspose)
      .Cases("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM", Sums::Recurrent)
      .Cases("Attention", "MultiHeadAttention", Sums::Attention)
      .Default(Sums::None);
}

} // namespace

static uint64_t elementsOf(llvm::ArrayRef<Shape> outputs) {
  uint64_t made = 0;
  for (const Shape &shape : outputs)
    made = llvm::SaturatingAdd(made, elements(shape));
  return made;
}

uint64_t pipeline::macsOf(const onnx::NodeProto &node, llvm::ArrayRef<Shape> inputs, llvm::ArrayRef<Shape> outputs) {
  const uint64_t made = elementsOf(outputs);
  auto input = [&](size_t i) { return i < inputs.size() ? inputs[i] : Shape(); };
  // Elements of an input under one index of its dim `dim`, counted from the back where negative.
  auto under = [&](size_t i, int64_t dim) -> uint64_t {
    const Shape shape = input(i);
    const int64_t at = dim < 0 ? int64_t(shape.size()) + dim : dim;
    if (at < 0 || at >= int64_t(shape.size()) || shape[at] <= 0)
      return 1;
    return elements(shape) / uint64_t(shape[at]);
  };
  auto times = [](uint64_t a, uint64_t b) { return llvm::SaturatingMultiply(a, b); };
  uint64_t sums = 0;
  switch (sumsOf(node)) {
  case Sums::None:
    break;
  case Sums::MatMul:
    sums = input(0).empty() ? 0 : times(made, uint64_t(std::max<int64_t>(input(0).back(), 0)));
    break;
  case Sums::Gemm:
    if (!outputs.empty() && !outputs[0].empty() && outputs[0][0] > 0)
      sums = times(made, elements(input(0)) / uint64_t(outputs[0][0]));
    break;
  case Sums::Conv:
    sums = times(made, under(1, 0));
    break;
  case Sums::QLinearConv:
    sums = times(made, under(3, 0));
    break;
  case Sums::ConvTranspose:
    sums = times(elements(input(0)), under(1, 0));
    break;
  case Sums::Recurrent: // for each step and each element of the batch
    sums = times(under(0, -1), llvm::SaturatingAdd(elements(input(1)), elements(input(2))));
    break;
  case Sums::Attention: // scores, and values weighted with them: each query with each key
    if (input(1).size() >= 2)
      sums = times(times(elements(input(0)), 2), uint64_t(std::max<int64_t>(input(1)[input(1).size() - 2], 0)));
    break;
  case Sums::PackedAttention: // queries, keys and values of one matrix, then as above
    if (input(0).size() == 3 && !outputs.empty())
      sums = llvm::SaturatingAdd(times(under(0, -1), elements(input(1))),
                                 times(times(elements(outputs[0]), 2), uint64_t(std::max<int64_t>(input(0)[1], 0))));
    break;
  }
  return sums;
}

uint64_t pipeline::operationsOf(const onnx::NodeProto &node, llvm::ArrayRef<Shape> inputs, llvm::ArrayRef<Shape> outputs) {
  return std::max(elementsOf(outputs), macsOf(node, inputs, outputs));
}

/// Whether the loops sum products of elements of two tensors.
static bool sumsProducts(linalg::LinalgOp loops) {
  bool multiplies = false, adds = false;
  for (Operation &op : *loops.getBlock()) {
    multiplies |= mlir::isa<arith::MulFOp, arith::MulIOp>(op);
    adds |= mlir::isa<arith::AddFOp, arith::AddIOp>(op);
  }
  return multiplies && adds && loops.getNumReductionLoops() > 0 && loops.getNumDpsInputs() > 1;
}

/// Adds up what `ofNode` says of a node that is evaluated and `ofLoops` of loops.
static uint64_t sumOf(func::FuncOp kernel,
                      uint64_t (*ofNode)(const onnx::NodeProto &, llvm::ArrayRef<Shape>, llvm::ArrayRef<Shape>),
                      uint64_t (*ofLoops)(linalg::LinalgOp)) {
  uint64_t sum = 0;
  auto add = [&](uint64_t count) { sum = llvm::SaturatingAdd(sum, count); };
  kernel.walk([&](Operation *op) {
    if (auto fallback = dyn_cast<graph::FallbackOp>(op)) {
      onnx::ModelProto model;
      if (!model.ParseFromString(fallback.getModel().str()) || model.graph().node_size() != 1)
        return;
      const llvm::SmallVector<Shape> inputs(llvm::map_range(fallback.getInputs().getTypes(), shapeOf)),
          outputs(llvm::map_range(fallback->getResultTypes(), shapeOf));
      // The operands are the names that the node reads, each once.
      llvm::StringMap<Shape> shapes;
      for (auto [i, shape] : llvm::enumerate(inputs))
        if (int(i) < model.graph().input_size())
          shapes[model.graph().input(int(i)).name()] = shape;
      llvm::SmallVector<Shape> read;
      for (const std::string &name : model.graph().node(0).input())
        read.push_back(shapes.lookup(name));
      add(ofNode(model.graph().node(0), read, outputs));
    } else if (auto loops = dyn_cast<linalg::LinalgOp>(op); loops && !mlir::isa<linalg::FillOp>(op)) {
      add(ofLoops(loops));
    }
  });
  return sum;
}

static uint64_t iterationsOf(linalg::LinalgOp loops) {
  const llvm::SmallVector<int64_t, 4> ranges = loops.getStaticLoopRanges();
  return elements(ranges);
}

uint64_t pipeline::macsOf(func::FuncOp kernel) {
  return sumOf(kernel, macsOf, [](linalg::LinalgOp loops) { return sumsProducts(loops) ? iterationsOf(loops) : 0; });
}

uint64_t pipeline::operationsOf(func::FuncOp kernel) {
  const uint64_t operations = sumOf(kernel, operationsOf, iterationsOf);
  uint64_t results = 0;
  for (Type type : kernel.getResultTypes())
    results = llvm::SaturatingAdd(results, elements(shapeOf(type)));
  return std::max(operations, results);
}
