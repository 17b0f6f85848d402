//===- Passes.td - Passes on the graph dialect -------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_PASSES_TD
#define COMPILER_GRAPH_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def FoldConstantsPass : Pass<"graph-fold-constants", "::mlir::ModuleOp"> {
  let summary = "evaluate ops whose operands are constants, and remove those that change nothing";
  let options = [
    Option<"keepQuantized", "keep-quantized", "bool", "false",
           "do not evaluate dequantize: graph-convert-qdq wants to see it">,
    Option<"maxConstantBytes", "max-constant-bytes", "uint64_t", "::tw::graph::kMaxConstantBytes",
           "bytes of constants that may be made, beside those that there are">
  ];
  let dependentDialects = ["::tw::graph::GraphDialect"];
}

def ApplyRulesPass : Pass<"graph-apply-rules", "::mlir::ModuleOp"> {
  let summary = "the rewriting rules of Rules.td that options allow, where the ops around cost no more than before";
  let description = [{
    docs/rules.md. The pass's own options: all rules of `--math exact`, or those of `only`, whatever they cost.
  }];
  let options = [ListOption<"only", "only", "std::string", "names of rules">];
  let dependentDialects = ["::tw::graph::GraphDialect"];
}

def FuseLayerNormPass : Pass<"graph-fuse-layer-norm", "::mlir::ModuleOp"> {
  let summary = "layer normalisation spelled out becomes one op, whose rows stay on chip";
  let dependentDialects = ["::tw::graph::GraphDialect"];
}

def ConvertQdqPass : Pass<"graph-convert-qdq", "::mlir::ModuleOp"> {
  let summary = "dequantize, float op, quantize becomes one op on integers";
  let options = [
    Option<"exact", "exact", "bool", "false",
           "keep the two roundings of dequantize and quantize after a convolution instead of one multiplication">
  ];
  let dependentDialects = ["::tw::graph::GraphDialect"];
}

def DecomposeOpsPass : Pass<"graph-decompose-ops", "::mlir::ModuleOp"> {
  let summary = "ops without a kernel form of their own become ops that have one";
  let options = [
    Option<"keepAxes", "keep-axes", "bool", "false",
           "graph-convert-layout has yet to choose layouts: reductions keep their axes, and reductions of images become pools">
  ];
  let dependentDialects = ["::tw::graph::GraphDialect"];
}

def ConvertLayoutPass : Pass<"graph-convert-layout", "::mlir::ModuleOp"> {
  let summary = "channels last: convolutions and pools in NHWC, transposes sunk, folded and cancelled";
  let description = [{
    A minimum cut gives every value its layout (docs/design/layout.md). Reductions, and pools whose window is the image, take either layout:
    such a pool that reads the model's layout becomes a reduction of rows.
  }];
  let options = [
    Option<"rows", "rows", "int64_t", "16", "rows of the machine's array, 0 without one">,
    Option<"columns", "columns", "int64_t", "16", "columns of the machine's array, and lanes of a vector">,
    Option<"loadEngines", "load-engines", "int64_t", "2", "load engines of the machine">,
    Option<"dramBytes", "dram-bytes", "double", "19.2", "bytes that DRAM moves in a cycle">,
    Option<"dramLatency", "dram-latency", "int64_t", "50", "cycles from a request to its data">
  ];
  let dependentDialects = ["::tw::graph::GraphDialect"];
}

def SplitReductionsPass : Pass<"graph-split-reductions", "::mlir::ModuleOp"> {
  let summary = "windows and rows that no scratchpad holds become reductions of parts and one reduction of their results";
  let description = [{
    A pool whose window, of a vector of channels, is larger than the scratchpad becomes two pools: one of parts of the window, so large that
    the scratchpad holds two, and one of the parts' results. Parts lie side by side where windows begin at multiples of a part or there is one
    window; else parts are the rows of a window. A reduction of such a row is split likewise. A softmax of such a row becomes the ops of its
    definition. A window or row without such parts, as a row of a prime number of elements, stays as it is, for a target that has room.
  }];
  let options = [
    Option<"columns", "columns", "int64_t", "16", "lanes of a vector">,
    Option<"scratchpad", "scratchpad", "int64_t", "262144", "bytes of the machine's first scratchpad">,
    Option<"array", "array", "std::string", "\"fp32\"", "element type of the machine's array: int8, bf16 or fp32">,
    Option<"overlaps", "overlaps", "bool", "true", "a row that has little room is computed in place, as pipelined and search do">
  ];
  let dependentDialects = ["::tw::graph::GraphDialect"];
}

def MovePoolsPass : Pass<"graph-move-pools", "::mlir::ModuleOp"> {
  let summary = "pools in front of concatenations, maxima of a convolution's sums in front of what never falls, and of columns first";
  let description = [{
    A pool of a concatenation of channels becomes a concatenation of pools, each of which can run beside the kernel that it
    follows: where nothing else reads the concatenation or its inputs, and where all inputs but the last fill whole vectors.

    max_pool(f(conv(x))) becomes f(max_pool(conv(x))), where f is a bias, relu, clip or requantisation:
    graph-partition-kernels makes one kernel of them, which finds the maxima in the accumulator, and what
    the pool does not keep is never written. Windows of two tiles share sums, which the array makes twice: only where the
    vector engine would take longer than the array, or where DRAM has to move the convolution's result.

    A window's maximum is that of its columns' maxima. Along a row these lie one pixel apart, so that several of them share a vector where
    channels are few: such a pool becomes one of columns and one along the row, if both together are done sooner; behind a
    convolution whose outputs may lie side by side it becomes f(max_pool_columns(conv(x))) and one along the row. Where the
    pixels of a row are no multiple of those in a vector the convolution makes a few more, which no window sees.
  }];
  let options = [
    Option<"rows", "rows", "int64_t", "16", "rows of the machine's array">,
    Option<"columns", "columns", "int64_t", "16", "columns of the machine's array, and lanes of a vector">,
    Option<"sums", "sums", "int64_t", "16384", "elements of the machine's accumulator">,
    Option<"scratchpad", "scratchpad", "int64_t", "262144", "bytes of the machine's first scratchpad">,
    Option<"dramBytes", "dram-bytes", "double", "19.2", "bytes that DRAM moves in a cycle">,
    Option<"array", "array", "std::string", "\"fp32\"", "element type of the machine's array: int8, bf16 or fp32">,
    Option<"packsPixels", "packs-pixels", "bool", "true", "neighbouring pixels may lie side by side, as modulo and search have them">,
    Option<"finiteMath", "finite-math", "bool", "false", "floats are finite: outputs may share the columns as those of integers do">
  ];
  let dependentDialects = ["::tw::graph::GraphDialect"];
}

def SwapOperandsPass : Pass<"graph-swap-operands", "::mlir::ModuleOp"> {
  let summary = "products of one row and a constant become products of the constant and a column";
  let description = [{
    The array holds a tile of the second operand while rows of the first stream through it. One row takes a cycle, but the next tile
    comes no sooner than `preload-cycles` after this one. With the operands swapped the constant streams, a cycle for each of its
    columns, and each result is a vector of its own. Done where that takes less time by a tenth, DRAM included; what is made of
    each element of the result goes along.
  }];
  let options = [
    Option<"rows", "rows", "int64_t", "16", "rows of the machine's array">,
    Option<"columns", "columns", "int64_t", "16", "columns of the machine's array">,
    Option<"preloadCycles", "preload-cycles", "int64_t", "20", "from one tile of weights to the next at least">,
    Option<"dramBytes", "dram-bytes", "double", "19.2", "bytes that DRAM moves in a cycle">,
    Option<"array", "array", "std::string", "\"fp32\"", "element type of the machine's array: int8, bf16 or fp32">
  ];
  let dependentDialects = ["::tw::graph::GraphDialect"];
}

def PartitionKernelsPass : Pass<"graph-partition-kernels", "::mlir::ModuleOp"> {
  let summary = "group ops into kernel functions, each for one target";
  let description = [{
    @main keeps calls, constants and reshapes. Every other op moves to a private function with the attributes
    `tilewright.nodes` (names of its ONNX nodes), `tilewright.target` (the first target that takes its ops; of the pass's own
    options, "accel" before "cpu") and `tilewright.reason` (why no target that is preferred takes them). A kernel has at most one convolution, matrix product, pool, reduction or data movement; the
    element-by-element ops that follow it belong to it.

    On the accelerator, borders that could be elsewhere are then moved where the kernels that they change cost less (docs/fusion.md). Ops element by
    element that a reduction of rows alone reads belong to it, if it has room for a row of each tensor.

    On targets without a machine, transposes and forward slices of a gather's table belong to the gather that alone reads them.

    On the accelerator a transpose that one contraction alone reads belongs to it, where the load engine can read the
    tensor as it lies at no more cost:
    - an operand of a matrix product whose elements of a row stay side by side, or become the weights' inner dimension;
    - the NCHW image of a convolution with constant weights whose taps the accelerator lays side by side, if it takes no
      more cycles to read a row of taps of each channel apart, with up to two load engines, than to transpose the image,
      one element a cycle, and to read the rows of taps of all channels at once. What the array takes meanwhile hides as
      much of either.
    The conversion of a network's input that such a convolution alone reads belongs to it if the scratchpad has room for it, and
    windows of a row share pixels with their neighbours only, or DRAM would have little time left beside it and neither the
    vector engine, which then packs the taps, nor the load engines, which lay the channels of a pixel side by side, need longer
    than the array; one from f32 to bf16 is left to graph-legalize-types, which finds `tilewright.converts` on the kernel's
    argument.
    A softmax along the rows of a product belongs to it if the accumulator holds enough rows: they never leave the chip.
    So does the mean of all positions of a convolution's result if there is room for all of a block of channels, twice, and
    a maximum over windows of a convolution's sums.
    A transpose behind a contraction, a window or element-by-element ops belongs to them if channels stay innermost.
    Padded channels of a tensor that one element-by-element op alone reads belong to its kernel, and the slice in front of them.

    Ops that the accelerator takes, and that stand with those that they read from and are read by between ops of other targets, go to the
    next target where crossing the link to the host takes longer than the accelerator saves: of each tensor its latency and its bytes, against
    what bytes and operations take on either side. The pass's own options have no link.

    Calls come as late as their readers allow, what the longest chain of kernels leads to first. But a result of more than half of the
    scratchpad that a matrix product alone reads as its rows is made right before that, so that both kernels can run side by side.
  }];
  let options = [
    Option<"array", "array", "std::string", "\"fp32\"", "element type of the machine's array: int8, bf16 or fp32">,
    Option<"rows", "rows", "int64_t", "16", "rows of the machine's array">,
    Option<"columns", "columns", "int64_t", "16", "columns of the machine's array">,
    Option<"loadEngines", "load-engines", "int64_t", "2", "load engines of the machine">,
    Option<"dramBytes", "dram-bytes", "double", "19.2", "bytes that the machine's DRAM moves in a cycle at its peak">,
    Option<"sums", "sums", "int64_t", "16384", "elements of the machine's accumulator">,
    Option<"scratchpad", "scratchpad", "int64_t", "262144", "bytes of the machine's first scratchpad">,
    Option<"cpuOnly", "cpu-only", "bool", "false", "give every kernel to the CPU">
  ];
  let dependentDialects = ["::tw::graph::GraphDialect", "::mlir::func::FuncDialect"];
}

def LegalizeTypesPass : Pass<"graph-legalize-types", "::mlir::ModuleOp"> {
  let summary = "f32 tensors between kernels become floats of 16 bits";
  let description = [{
    Arithmetic inside a kernel stays f32; convolutions and matrix products take narrow operands and give f32. The network's
    inputs and outputs stay what they are; with f16 those that the model has in float16 are f16 again. An argument with
    `tilewright.converts` is narrowed by its kernel.
  }];
  let options = [Option<"target", "target", "std::string", "\"accel\"", "the target of kernels that convert">,
                 Option<"narrow", "narrow", "std::string", "\"bf16\"", "the narrow type: bf16 or f16">];
  let dependentDialects = ["::tw::graph::GraphDialect", "::mlir::func::FuncDialect"];
}

#endif // COMPILER_GRAPH_TRANSFORMS_PASSES_TD
