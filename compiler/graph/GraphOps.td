//===- GraphOps.td - Operations of the graph dialect -------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// fl(x) below is x rounded to fp32, rne(x) x rounded to the nearest integer,
// ties to even, sat(x) x saturated to the result's type.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_GRAPHOPS_TD
#define COMPILER_GRAPH_GRAPHOPS_TD

include "compiler/graph/GraphDialect.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===----------------------------------------------------------------------===//
// Types and attributes
//===----------------------------------------------------------------------===//

def Graph_Float : StaticShapeTensorOf<[F32, BF16, F16]>;
def Graph_F32 : StaticShapeTensorOf<[F32]>;
def Graph_Int8 : StaticShapeTensorOf<[I8, UI<8>]>;
def Graph_I32 : StaticShapeTensorOf<[I32]>;
def Graph_Number : StaticShapeTensorOf<[F32, BF16, F16, I8, UI<8>, I32, I64]>;
def Graph_Tensor : StaticShapeTensorOf<[F32, BF16, F16, I8, UI<8>, I32, I64, I1]>;
/// What ops without arithmetic of the accelerator take: what ONNX calls a number, and bool.
def Graph_Element : StaticShapeTensorOf<[F32, BF16, F16, F64, I8, UI<8>, I16, UI<16>, I32, UI<32>, I64, UI<64>, I1]>;
/// What an op that runs nowhere yet may produce: every element type ONNX and MLIR share.
def Graph_AnyTensor : StaticShapeTensorOf<[AnyFloat, AnyInteger, AnyComplex]>;

def Graph_Layout : ConfinedAttr<StrAttr, [
    AttrConstraint<CPred<"::llvm::is_contained({\"nchw\", \"nhwc\"}, ::llvm::cast<::mlir::StringAttr>($_self).getValue())">,
                   "being nchw or nhwc">]>;
def Graph_ReduceKind : ConfinedAttr<StrAttr, [
    AttrConstraint<CPred<"::llvm::is_contained({\"max\", \"sum\", \"mean\"}, ::llvm::cast<::mlir::StringAttr>($_self).getValue())">,
                   "being max, sum or mean">]>;

//===----------------------------------------------------------------------===//
// Base classes
//===----------------------------------------------------------------------===//

class Graph_Op<string mnemonic, list<Trait> traits = []>
    : Op<Graph_Dialect, mnemonic, !listconcat([Pure], traits)> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

class Graph_UnaryOp<string mnemonic, string text> : Graph_Op<mnemonic, [SameOperandsAndResultType]> {
  let summary = text;
  let arguments = (ins Graph_Number:$x);
  let results = (outs Graph_Number:$y);
  let assemblyFormat = "operands attr-dict `:` type($y)";
}

class Graph_FloatUnaryOp<string mnemonic, string text> : Graph_Op<mnemonic, [SameOperandsAndResultType]> {
  let summary = text;
  let arguments = (ins Graph_Float:$x);
  let results = (outs Graph_Float:$y);
  let assemblyFormat = "operands attr-dict `:` type($y)";
}

class Graph_BinaryOp<string mnemonic, string text> : Graph_Op<mnemonic, [SameOperandsAndResultElementType]> {
  let summary = text;
  let description = "numpy broadcasting; integers wrap modulo their width.";
  let arguments = (ins Graph_Number:$a, Graph_Number:$b);
  let results = (outs Graph_Number:$y);
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Constants, convolutions, matrix products
//===----------------------------------------------------------------------===//

def Graph_ConstantOp : Graph_Op<"constant", [ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "a tensor known at compile time";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Graph_AnyTensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
}

def Graph_ConvOp : Graph_Op<"conv"> {
  let summary = "2-D convolution";
  let description = [{
    x: nchw [N,C,H,W], nhwc [N,H,W,C]. w: nchw [O,C/group,kh,kw], nhwc [kh,kw,C/group,O]. bias [O]. y as x with O channels.
    pads = [top, left, bottom, right], zeros.
  }];
  let arguments = (ins Graph_Float:$x, Graph_Float:$w, Optional<Graph_Float>:$bias,
                   DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations,
                   I64Attr:$group, Graph_Layout:$layout);
  let results = (outs Graph_Float:$y);
  let hasVerifier = 1;
}

def Graph_ConvIntegerOp : Graph_Op<"conv_integer"> {
  let summary = "2-D convolution of 8-bit integers: sum((x - x_zero_point) * (w - w_zero_points[o])) modulo 2^32";
  let description = [{
    Shapes as graph.conv; padded positions contribute nothing. w_zero_points has one element, or one per output channel.
  }];
  let arguments = (ins Graph_Int8:$x, Graph_Int8:$w, I32Attr:$x_zero_point, DenseI32ArrayAttr:$w_zero_points,
                   DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations,
                   I64Attr:$group, Graph_Layout:$layout);
  let results = (outs Graph_I32:$y);
  let hasVerifier = 1;
}

def Graph_MatmulOp : Graph_Op<"matmul", [SameOperandsAndResultElementType]> {
  let summary = "matrix product with numpy semantics: leading dims broadcast, rank 1 is a row (a) or a column (b)";
  let arguments = (ins Graph_Float:$a, Graph_Float:$b);
  let results = (outs Graph_Float:$y);
  let hasVerifier = 1;
}

def Graph_MatmulIntegerOp : Graph_Op<"matmul_integer"> {
  let summary = "matrix product of 8-bit integers: sum((a - a_zero_point) * (b - b_zero_points[n])) modulo 2^32";
  let description = "Shapes as graph.matmul. b_zero_points has one element, or one per column of b.";
  let arguments = (ins Graph_Int8:$a, Graph_Int8:$b, I32Attr:$a_zero_point, DenseI32ArrayAttr:$b_zero_points);
  let results = (outs Graph_I32:$y);
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Between real and quantised numbers
//===----------------------------------------------------------------------===//

def Graph_RequantizeOp : Graph_Op<"requantize"> {
  let summary = "sat(rne(fl(fl(x + bias) * multipliers[c])) + zero_point)";
  let description = [{
    x + bias is an int32 sum modulo 2^32. multipliers has one element, or one per index of dim `axis`; bias has one element
    per index of dim `axis`.
  }];
  let arguments = (ins Graph_I32:$x, Optional<Graph_I32>:$bias, DenseF32ArrayAttr:$multipliers, I64Attr:$axis,
                   I32Attr:$zero_point);
  let results = (outs Graph_Int8:$y);
  let hasVerifier = 1;
}

def Graph_QuantizeOp : Graph_Op<"quantize"> {
  let summary = "sat(rne(fl(x / scales[c])) + zero_points[c])";
  let arguments = (ins Graph_F32:$x, DenseF32ArrayAttr:$scales, DenseI32ArrayAttr:$zero_points, I64Attr:$axis);
  let results = (outs Graph_Int8:$y);
  let hasVerifier = 1;
}

def Graph_DequantizeOp : Graph_Op<"dequantize"> {
  let summary = "fl(fl(x - zero_points[c]) * scales[c])";
  let arguments = (ins AnyTypeOf<[Graph_Int8, Graph_I32]>:$x, DenseF32ArrayAttr:$scales, DenseI32ArrayAttr:$zero_points,
                   I64Attr:$axis);
  let results = (outs Graph_F32:$y);
  let hasVerifier = 1;
}

def Graph_CastOp : Graph_Op<"cast"> {
  let summary = "conversion of the element type as ONNX Cast does it";
  let description = "To bool: x != 0. From float to an integer: towards zero. To a float: rne.";
  let arguments = (ins Graph_Element:$x);
  let results = (outs Graph_Element:$y);
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Element by element
//===----------------------------------------------------------------------===//

def Graph_AddOp : Graph_BinaryOp<"add", "a + b">;
def Graph_SubOp : Graph_BinaryOp<"sub", "a - b">;
def Graph_MulOp : Graph_BinaryOp<"mul", "a * b">;
def Graph_DivOp : Graph_BinaryOp<"div", "a / b; integers towards zero">;
def Graph_MinOp : Graph_BinaryOp<"min", "the smaller; NaN if either is NaN">;
def Graph_MaxOp : Graph_BinaryOp<"max", "the larger; NaN if either is NaN">;

def Graph_ReluOp : Graph_UnaryOp<"relu", "max(x, 0)">;
def Graph_NegOp : Graph_UnaryOp<"neg", "-x">;
def Graph_AbsOp : Graph_UnaryOp<"abs", "|x|">;
def Graph_SigmoidOp : Graph_FloatUnaryOp<"sigmoid", "1 / (1 + exp(-x))">;
def Graph_TanhOp : Graph_FloatUnaryOp<"tanh", "tanh(x)">;
def Graph_HardSwishOp : Graph_FloatUnaryOp<"hard_swish", "x * max(0, min(1, x / 6 + 0.5))">;
def Graph_ExpOp : Graph_FloatUnaryOp<"exp", "exp(x)">;
def Graph_SqrtOp : Graph_FloatUnaryOp<"sqrt", "square root">;
def Graph_FloorOp : Graph_FloatUnaryOp<"floor", "the largest integer not above x">;
def Graph_ErfOp : Graph_FloatUnaryOp<"erf", "the error function">;

def Graph_ClipOp : Graph_UnaryOp<"clip", "min(max(x, lo), hi)"> {
  let arguments = (ins Graph_Number:$x, F32Attr:$min, F32Attr:$max);
}
def Graph_HardSigmoidOp : Graph_FloatUnaryOp<"hard_sigmoid", "max(0, min(1, alpha * x + beta))"> {
  let arguments = (ins Graph_Float:$x, F32Attr:$alpha, F32Attr:$beta);
}
def Graph_LeakyReluOp : Graph_FloatUnaryOp<"leaky_relu", "x < 0 ? alpha * x : x"> {
  let arguments = (ins Graph_Float:$x, F32Attr:$alpha);
}

/// Functions of numbers at one place. Without a note: of floats, of any ONNX type of 16 bits and more.
class Graph_Function<string name, int value, string text> : I32EnumAttrCase<name, value, text>;
def Graph_FunctionEnum : I32EnumAttr<"Function", "a function of the numbers at one place", [
    // To i1, of numbers; equal of i1, too.
    Graph_Function<"Equal", 0, "equal">,
    Graph_Function<"Less", 1, "less">,
    Graph_Function<"LessOrEqual", 2, "less_or_equal">,
    Graph_Function<"Greater", 3, "greater">,
    Graph_Function<"GreaterOrEqual", 4, "greater_or_equal">,
    // To i1, of floats.
    Graph_Function<"IsNan", 5, "is_nan">,
    // Of i1 and, bit by bit, of integers.
    Graph_Function<"And", 6, "and">,
    Graph_Function<"Or", 7, "or">,
    Graph_Function<"Xor", 8, "xor">,
    Graph_Function<"Not", 9, "not">,
    // Of unsigned integers: bits that are shifted by the width or more are gone.
    Graph_Function<"ShiftLeft", 10, "shift_left">,
    Graph_Function<"ShiftRight", 11, "shift_right">,
    // A condition of i1 and two tensors of any type.
    Graph_Function<"Select", 12, "select">,
    // The remainder with the sign of the divisor, of integers, and with that of the dividend, of numbers. Integers: that by 0 is 0.
    Graph_Function<"Mod", 13, "mod">,
    Graph_Function<"Fmod", 14, "fmod">,
    Graph_Function<"Pow", 15, "pow">,
    // Of numbers: -1, 0 or 1, and NaN of NaN.
    Graph_Function<"Sign", 16, "sign">,
    Graph_Function<"Ceil", 17, "ceil">,
    Graph_Function<"Round", 18, "round">, // ties to even
    Graph_Function<"Log", 19, "log">,
    Graph_Function<"Log1p", 20, "log1p">, // log(1 + x)
    Graph_Function<"Sin", 21, "sin">,
    Graph_Function<"Cos", 22, "cos">,
    Graph_Function<"Tan", 23, "tan">,
    Graph_Function<"Asin", 24, "asin">,
    Graph_Function<"Acos", 25, "acos">,
    Graph_Function<"Atan", 26, "atan">,
    Graph_Function<"Sinh", 27, "sinh">,
    Graph_Function<"Cosh", 28, "cosh">,
    Graph_Function<"Asinh", 29, "asinh">,
    Graph_Function<"Acosh", 30, "acosh">,
    Graph_Function<"Atanh", 31, "atanh">]> {
  let cppNamespace = "::tw::graph";
  let genSpecializedAttr = 0;
}
def Graph_FunctionAttr : EnumAttr<Graph_Dialect, Graph_FunctionEnum, "function">;

def Graph_ElementwiseOp : Graph_Op<"elementwise"> {
  let summary = "a function of the numbers at one place";
  let description = [{
    numpy broadcasting. The operands have one element type, but for the condition of a selection; that is the result's too, or i1 where
    the function compares. The accelerator has none of these functions.
  }];
  let arguments = (ins Graph_FunctionAttr:$function, Variadic<Graph_Element>:$x);
  let results = (outs Graph_Element:$y);
  let assemblyFormat = "$function $x attr-dict `:` functional-type($x, $y)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Operands of the function.
    static unsigned arityOf(Function function);
    /// Whether its result is i1, whatever its operands are.
    static bool isPredicate(Function function);
    /// Whether it is a function of elements of `type`; of a selection, those that are selected.
    static bool isDefinedFor(Function function, mlir::Type type);
  }];
}

//===----------------------------------------------------------------------===//
// Reductions, normalisation
//===----------------------------------------------------------------------===//

def Graph_SoftmaxOp : Graph_Op<"softmax", [SameOperandsAndResultType]> {
  let summary = "exp(x - max) / sum(exp(x - max)) along `axis`";
  let arguments = (ins Graph_Float:$x, I64Attr:$axis);
  let results = (outs Graph_Float:$y);
  let assemblyFormat = "operands attr-dict `:` type($y)";
  let hasVerifier = 1;
}

def Graph_LayerNormOp : Graph_Op<"layer_norm", [SameOperandsAndResultType]> {
  let summary = "(x - mean) / sqrt(mean of (x - mean)^2 + epsilon), the means over the dims from `axis` on";
  let description = "Scale and bias are ops of their own.";
  let arguments = (ins Graph_Float:$x, I64Attr:$axis, F32Attr:$epsilon);
  let results = (outs Graph_Float:$y);
  let assemblyFormat = "operands attr-dict `:` type($y)";
  let hasVerifier = 1;
}

def Graph_ReduceOp : Graph_Op<"reduce", [SameOperandsAndResultElementType]> {
  let summary = "maximum, sum or mean over `axes` (ascending)";
  let arguments = (ins Graph_Number:$x, Graph_ReduceKind:$kind, DenseI64ArrayAttr:$axes, BoolAttr:$keepdims);
  let results = (outs Graph_Number:$y);
  let hasVerifier = 1;
}

def Graph_BatchNormOp : Graph_Op<"batch_norm", [AllTypesMatch<["x", "y"]>]> {
  let summary = "(x - mean[c]) / sqrt(var[c] + epsilon) * scale[c] + b[c], c the index of dim 1";
  let arguments = (ins Graph_Float:$x, Graph_Float:$scale, Graph_Float:$b, Graph_Float:$mean, Graph_Float:$var,
                   F32Attr:$epsilon);
  let results = (outs Graph_Float:$y);
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

def Graph_MaxPoolOp : Graph_Op<"max_pool", [SameOperandsAndResultElementType]> {
  let summary = "2-D maximum; padded positions do not take part";
  let arguments = (ins Graph_Number:$x, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                   DenseI64ArrayAttr:$dilations, Graph_Layout:$layout);
  let results = (outs Graph_Number:$y);
  let hasVerifier = 1;
}

def Graph_AveragePoolOp : Graph_Op<"average_pool", [SameOperandsAndResultElementType]> {
  let summary = "2-D mean: the sum over the window / the kernel's size (count_include_pad) or / the positions inside x";
  let arguments = (ins Graph_Float:$x, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                   BoolAttr:$count_include_pad, Graph_Layout:$layout);
  let results = (outs Graph_Float:$y);
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Data movement
//===----------------------------------------------------------------------===//

def Graph_ConcatOp : Graph_Op<"concat"> {
  let summary = "the inputs one behind the other along `axis`";
  let arguments = (ins Variadic<Graph_Element>:$inputs, I64Attr:$axis);
  let results = (outs Graph_Element:$y);
  let hasVerifier = 1;
}

def Graph_ReshapeOp : Graph_Op<"reshape"> {
  let summary = "the same elements in row-major order under the result's shape";
  let arguments = (ins Graph_Element:$x);
  let results = (outs Graph_Element:$y);
  let hasVerifier = 1;
}

def Graph_TransposeOp : Graph_Op<"transpose"> {
  let summary = "dim i of y is dim perm[i] of x";
  let arguments = (ins Graph_Element:$x, DenseI64ArrayAttr:$perm);
  let results = (outs Graph_Element:$y);
  let hasVerifier = 1;
}

def Graph_SliceOp : Graph_Op<"slice"> {
  let summary = "y[i] = x[starts + i * steps]; steps may be negative, sizes are the result's";
  let arguments = (ins Graph_Element:$x, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$steps);
  let results = (outs Graph_Element:$y);
  let hasVerifier = 1;
}

def Graph_PadOp : Graph_Op<"pad"> {
  let summary = "x with `low` elements of `value` before and `high` behind, per dim";
  let arguments = (ins Graph_Tensor:$x, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high, TypedAttrInterface:$value);
  let results = (outs Graph_Tensor:$y);
  let hasVerifier = 1;
}

def Graph_GatherOp : Graph_Op<"gather"> {
  let summary = "y[o, k, i] = x[o, indices[o, k, i], i]";
  let description = [{
    x [O, N, I], indices [O or 1, K, I or 1], y [O, K, I]. An index that is negative counts from the end; one outside of the dim, the model's
    fault, reads the element next to it.
  }];
  let arguments = (ins Graph_Element:$x, StaticShapeTensorOf<[I32, I64]>:$indices);
  let results = (outs Graph_Element:$y);
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// ONNX Runtime's integer operators
//===----------------------------------------------------------------------===//

def Graph_QLinearAddOp : Graph_Op<"qlinear_add", [SameOperandsAndResultElementType]> {
  let summary = "com.microsoft QLinearAdd: the quantised sum of the dequantised inputs, numpy broadcasting";
  let arguments = (ins Graph_Int8:$a, Graph_Int8:$b, F32Attr:$a_scale, I32Attr:$a_zero_point, F32Attr:$b_scale,
                   I32Attr:$b_zero_point, F32Attr:$y_scale, I32Attr:$y_zero_point);
  let results = (outs Graph_Int8:$y);
  let hasVerifier = 1;
}

def Graph_QLinearAveragePoolOp : Graph_Op<"qlinear_average_pool", [SameOperandsAndResultElementType]> {
  let summary = "com.microsoft QLinearAveragePool: the quantised mean of the dequantised input";
  let arguments = (ins Graph_Int8:$x, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                   BoolAttr:$count_include_pad, F32Attr:$x_scale, I32Attr:$x_zero_point, F32Attr:$y_scale,
                   I32Attr:$y_zero_point, Graph_Layout:$layout);
  let results = (outs Graph_Int8:$y);
  let hasVerifier = 1;
}

def Graph_QLinearGlobalAveragePoolOp : Graph_Op<"qlinear_global_average_pool", [SameOperandsAndResultElementType]> {
  let summary = "com.microsoft QLinearGlobalAveragePool: sat(rne(fl(sum(x - x_zero_point)) * m) + y_zero_point)";
  let description = "m = fl(x_scale / fl(y_scale * fl(H * W))); the sum is an int32.";
  let arguments = (ins Graph_Int8:$x, F32Attr:$x_scale, I32Attr:$x_zero_point, F32Attr:$y_scale, I32Attr:$y_zero_point,
                   Graph_Layout:$layout);
  let results = (outs Graph_Int8:$y);
  let hasVerifier = 1;
}

def Graph_QLinearSoftmaxOp : Graph_Op<"qlinear_softmax", [SameOperandsAndResultType]> {
  let summary = "com.microsoft QLinearSoftmax along `axis`";
  let description = "`opset` is the node's attribute: below 13 the dims from `axis` on are one vector.";
  let arguments = (ins Graph_Int8:$x, I64Attr:$axis, F32Attr:$x_scale, I32Attr:$x_zero_point, F32Attr:$y_scale,
                   I32Attr:$y_zero_point, I64Attr:$opset);
  let results = (outs Graph_Int8:$y);
  let assemblyFormat = "operands attr-dict `:` type($y)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Everything else
//===----------------------------------------------------------------------===//

def Graph_FallbackOp : Graph_Op<"fallback"> {
  let summary = "an ONNX operator outside this dialect";
  let description = [{
    `model` is a serialised ModelProto whose graph is the node alone; its inputs, what the node and graphs in it read, are this op's.
    `node_attributes` are the node's attributes for people, `opset` is the version of the operator's domain. `kinds` are the element types of
    inputs and results (frontend::ElementKind), which survive the lowering of types. `reason` says why the node is here.
  }];
  let arguments = (ins Variadic<Graph_AnyTensor>:$inputs, StrAttr:$onnx_op, StrAttr:$domain, I64Attr:$opset,
                   DictionaryAttr:$node_attributes, StrAttr:$model, DenseI32ArrayAttr:$kinds, StrAttr:$reason);
  let results = (outs Variadic<Graph_AnyTensor>:$outputs);
}

#endif // COMPILER_GRAPH_GRAPHOPS_TD
