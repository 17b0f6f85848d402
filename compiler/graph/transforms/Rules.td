//===- Rules.td - Rewriting rules of the graph dialect -----*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One rule is one record, or several with one name where operands may stand
// either way round. graph-apply-rules applies them (docs/rules.md).
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_RULES_TD
#define COMPILER_GRAPH_TRANSFORMS_RULES_TD

include "compiler/graph/GraphOps.td"
include "mlir/IR/PatternBase.td"

//===----------------------------------------------------------------------===//
// What a record says
//===----------------------------------------------------------------------===//

/// How much of the numbers a rule keeps: an enumerator of RuleClass in Rules.h, and the one of Math from which it is applied.
class RuleClass<string name, string math> {
  string enumerator = name;
  string leastMath = math;
}
def BitExact : RuleClass<"BitExact", "Strict">;      // every bit of every result
def Real : RuleClass<"Real", "Reassociate">;         // the value in real arithmetic; roundings differ
def Approximate : RuleClass<"Approximate", "Fast">;  // the value up to a bound, which `meaning` states

/// `name` is what --disable-rule takes, `meaning` the formula.
class Rule<string name, RuleClass exactness, string meaning> {
  string ruleName = name;
  RuleClass ruleClass = exactness;
  string ruleMeaning = meaning;
  /// The rule is always applied, whatever its cost: no later pass knows the source.
  bit isRequired = 0;
  /// The rule is also part of graph-fold-constants, which always runs.
  bit isCleanup = 0;
  /// The first --math that allows the rule, if not that of the class: "Strict" for folds that every importer makes, and where ONNX leaves
  /// the order of sums open.
  string leastMath = exactness.leastMath;
}

/// Source and result as DRR patterns.
class PatternRule<string name, RuleClass exactness, string meaning, dag source, dag result, list<dag> constraints = []>
    : Rule<name, exactness, meaning>, Pat<source, result, constraints>;

/// A shape that DRR does not express: `void function(mlir::RewritePatternSet &)` of namespace tw::graph adds its patterns.
class CodeRule<string name, RuleClass exactness, string meaning, string function> : Rule<name, exactness, meaning> {
  string functionName = function;
}

/// A rule that `pass` applies, to all ops at once or where the pass's own estimate says so: --rules and --disable-rule say nothing about
/// the rule. Patterns of the pass have the name of the rule as their debug label.
class PassRule<string name, RuleClass exactness, string meaning, string pass> : Rule<name, exactness, meaning> {
  let leastMath = "Strict";
  string passName = pass;
}

//===----------------------------------------------------------------------===//
// Constraints, and results that need code (Rules.cpp)
//===----------------------------------------------------------------------===//

def OneUse : Constraint<CPred<"$0.hasOneUse()">, "one reader">;
def SameType : Constraint<CPred<"$0.getType() == $1.getType()">, "one type">;
def SameRank : Constraint<CPred<"shapeOf($0).size() == shapeOf($1).size()">, "one rank">;
def OfFloats : Constraint<CPred<"::llvm::isa<::mlir::FloatType>(elementOf($0))">, "floats">;
def OfIntegers : Constraint<CPred<"::llvm::isa<::mlir::IntegerType>(elementOf($0))">, "integers">;
def OneElement : Constraint<CPred<"tensorOf($0).getNumElements() == 1">, "one number">;
def NoConstant : Constraint<CPred<"!constantOf($0)">, "no constant">;
class IsNumber<string value> : Constraint<CPred<"isNumber($0, " # value # ")">, "the number " # value>;
def PowersOfTwo : Constraint<CPred<"arePowersOfTwo($0)">, "powers of two whose reciprocals are normal numbers">;
def Invertible : Constraint<CPred<"areInvertible($0)">, "constants whose reciprocals are normal numbers">;
def IsInverse : Constraint<CPred<"::llvm::ArrayRef<int64_t>(inversePermutation($0)) == $1.asArrayRef()">, "inverse permutations">;
def SwapsLastTwo : Constraint<CPred<"swapsLastTwo($0.asArrayRef())">, "a transpose of matrices">;
class IsKind<string kind> : Constraint<CPred<"$0.getValue() == \"" # kind # "\"">, kind>;
def IsLinearKind : Constraint<CPred<"$0.getValue() != \"max\"">, "sum or mean">;
def KeepsOrder : Constraint<CPred<"keepsOrder($0.asArrayRef(), $1.asArrayRef())">, "the dims that stay keep their order">;
def ReducesTo : Constraint<CPred<"reducesTo($0, throughTranspose($1, $2), $3)">, "the result has the shape that it had">;
def Signed : Constraint<CPred<"!elementOf($0).isUnsignedInteger()">, "signed numbers">;
def SeesPixels : Constraint<CPred<"seesPixels($0, $1, $2)">, "windows that all have a pixel inside the image">;
def Widens : Constraint<CPred<"widens(elementOf($0), elementOf($1))">, "a conversion that loses nothing">;
def NarrowsBack : Constraint<CPred<"narrowsBack($0, $1, $2)">, "a float that is widened to f32 and narrowed again">;
def Intersect : Constraint<CPred<"meet($0, $1, $2, $3)">, "intervals that meet">;
def HasPositive : Constraint<CPred<"$0.getValue().isZero() || !$0.getValue().isNegative()">, "an upper bound of 0 at least">;

/// Attributes.
def Composed : NativeCodeCall<"$_builder.getDenseI64ArrayAttr(composed($0, $1))">;
def ThroughTranspose : NativeCodeCall<"$_builder.getDenseI64ArrayAttr(throughTranspose($0, $1))">;
def Larger : NativeCodeCall<"largerOf($0, $1)">;
def Smaller : NativeCodeCall<"smallerOf($0, $1)">;
def NotNegative : NativeCodeCall<"largerOf($0, $_builder.getF32FloatAttr(0))">;
/// Values.
def Reciprocals : NativeCodeCall<"reciprocals($_builder, $_loc, $0)">;
def AsScalar : NativeCodeCall<"createReshape($_builder, $_loc, $0, {})">;
/// Types.
def BroadcastType : NativeCodeCall<"broadcastType($0, $1)">;
def ProductType : NativeCodeCall<"productType($0, $1)">;
def SameTypeAs : NativeCodeCall<"$0.getType()">;
def WithElement : NativeCodeCall<"tensorOf($0).clone(elementOf($1))">;

//===----------------------------------------------------------------------===//
// Always
//===----------------------------------------------------------------------===//

def ConstantFolding : PassRule<"constant-folding", BitExact, "f(constants) -> a constant", "graph-fold-constants">;
def CommonSubexpressions : PassRule<"common-subexpressions", BitExact, "f(A), f(A) -> f(A)", "cse">;
def DeadCode : PassRule<"dead-code", BitExact, "f(A) that nobody reads -> nothing", "cse">;

def BatchNormToScale : CodeRule<"batch-norm-to-scale", Real, "BatchNorm(A) -> A*c + d", "addBatchNormToScale"> {
  let isRequired = 1;
}

//===----------------------------------------------------------------------===//
// Passes: one op for several
//===----------------------------------------------------------------------===//

def LayerNorm : PassRule<"layer-norm", Real, "(A - mean(A)) / Sqrt(mean((A - mean(A))^2) + e) -> LayerNorm(A)", "graph-fuse-layer-norm">;
def ProductOfRepeated : PassRule<"product-of-repeated", BitExact, "A x B, B repeated -> A x B, the rows of A in groups", "graph-decompose-ops">;
def SwappedOperands : PassRule<"swapped-operands", Real, "A x w -> (w^T x A^T)^T, A of one row", "graph-swap-operands">;

//===----------------------------------------------------------------------===//
// Passes: pools where they cost least
//===----------------------------------------------------------------------===//

def PoolOfConcat : PassRule<"pool-of-concat", BitExact, "Pool([A B]) -> [Pool(A) Pool(B)], along channels", "graph-move-pools">;
def PoolOfSums : PassRule<"pool-of-sums", BitExact, "MaxPool(f(Conv(A))) -> f(MaxPool(Conv(A))), f = a bias, Relu, Clip or a quantisation",
                          "graph-move-pools">;
def PoolOfColumns : PassRule<"pool-of-columns", BitExact, "MaxPool(A) -> MaxPool(MaxPool(A)), of columns and then along the row", "graph-move-pools">;

//===----------------------------------------------------------------------===//
// Passes: what no scratchpad holds
//===----------------------------------------------------------------------===//

def MaximumInParts : PassRule<"maximum-in-parts", BitExact, "MaxPool(A) -> MaxPool(MaxPool(A)), of parts of the window; ReduceMax too",
                              "graph-split-reductions">;
def SumInParts : PassRule<"sum-in-parts", Real, "ReduceSum(A) -> ReduceSum(ReduceSum(A)), of parts; ReduceMean and AveragePool too",
                          "graph-split-reductions">;
def SoftmaxInParts : PassRule<"softmax-in-parts", Real, "Softmax(A) -> Exp(A - max(A)) / sum(Exp(A - max(A)))", "graph-split-reductions">;

//===----------------------------------------------------------------------===//
// Passes: quantised networks, Q for QuantizeLinear and DQ for DequantizeLinear
//===----------------------------------------------------------------------===//

def IntegerProduct : PassRule<"integer-product", Real, "Conv(DQ(A), DQ(w)) -> DQ(ConvInteger(A, w)); MatMul too", "graph-convert-qdq">;
def IntegerBias : PassRule<"integer-bias", Real, "DQ(A) + b -> DQ(A + b/s), s the scale and b/s whole", "graph-convert-qdq">;
def ToRequantize : PassRule<"requantize", Real, "Q(DQ(A + b)) -> Requantize(A, b), A of 32 bits", "graph-convert-qdq"> {
  let leastMath = "Exact";
}
def IntegerMean : PassRule<"integer-mean", Real, "Q(GlobalAveragePool(DQ(A))) -> QLinearGlobalAveragePool(A)", "graph-convert-qdq">;
def QuantizeBeforeActivation : PassRule<"quantize-before-activation", BitExact, "Q(Clip(A, a, b)) -> Clip(Q(A), Q(a), Q(b)); Relu is Clip(A, 0, inf)",
                                        "graph-convert-qdq">;
def QuantizeBeforeMove : PassRule<"quantize-before-move", BitExact, "Q([A B]) -> [Q(A) Q(B)]; Q(DQ(A) repeated) -> A repeated", "graph-convert-qdq">;
def QuantizeOfDequantize : PassRule<"quantize-of-dequantize", BitExact, "Q(DQ(A)) -> A, with one scale and zero point", "graph-convert-qdq">;
def MoveBeforeDequantize : PassRule<"move-before-dequantize", BitExact,
                                    "f(DQ(A)) -> DQ(f(A)), f = MaxPool, Reshape, Transpose, Slice, Pad or Concat", "graph-convert-qdq">;

//===----------------------------------------------------------------------===//
// Bit for bit: data movement
//===----------------------------------------------------------------------===//

defvar kTransposes = "(A^T)^T -> A; (A^p)^q -> A^r";
def TransposeBack : PatternRule<"transpose-of-transpose", BitExact, kTransposes, (Graph_TransposeOp (Graph_TransposeOp $a, $p), $q),
                                (replaceWithValue $a), [(IsInverse $p, $q)]>;
def TransposeOfTranspose : PatternRule<"transpose-of-transpose", BitExact, kTransposes,
                                       (Graph_TransposeOp (Graph_TransposeOp $a, $p), $q), (Graph_TransposeOp $a, (Composed $p, $q))>;

let isCleanup = 1 in {
def ReshapeOfReshape : PatternRule<"reshape-of-reshape", BitExact, "Reshape(Reshape(A)) -> Reshape(A)",
                                   (Graph_ReshapeOp (Graph_ReshapeOp $a)), (Graph_ReshapeOp $a)>;
def WidenAndNarrow : PatternRule<"widen-and-narrow", BitExact, "Cast(Cast(A to float32) to the type of A) -> A",
                                 (Graph_CastOp:$y (Graph_CastOp:$wide $a)), (replaceWithValue $a), [(NarrowsBack $a, $wide, $y)]>;
}

def MaxOfTranspose : PatternRule<"max-of-transpose", BitExact, "ReduceMax(A^p) -> ReduceMax(A) over the dims before p",
                                 (Graph_ReduceOp:$y (Graph_TransposeOp $a, $p), $kind, $axes, $keep),
                                 (Graph_ReduceOp $a, $kind, (ThroughTranspose $axes, $p), $keep),
                                 [(IsKind<"max"> $kind), (KeepsOrder $p, $axes), (ReducesTo $a, $axes, $p, $y)]>;
def PoolOfTranspose : CodeRule<"pool-of-transpose", BitExact, "MaxPool(A^p) -> MaxPool(A)^p", "addPoolOfTranspose">;

//===----------------------------------------------------------------------===//
// Bit for bit: what commutes with a maximum
//===----------------------------------------------------------------------===//

def PoolOfCast : PatternRule<"pool-of-widening", BitExact, "MaxPool(widen(A)) -> widen(MaxPool(A)), widen a Cast or DequantizeLinear",
                             (Graph_MaxPoolOp:$y (Graph_CastOp:$wide $a), $kernel, $strides, $pads, $dilations, $layout),
                             (Graph_CastOp (Graph_MaxPoolOp $a, $kernel, $strides, $pads, $dilations, $layout,
                                                            (returnType (WithElement $y, $a)))),
                             [(Widens $a, $wide), (OneUse $wide), (SeesPixels $kernel, $pads, $dilations)]>;
def PoolOfDequantize : CodeRule<"pool-of-widening", BitExact, "MaxPool(widen(A)) -> widen(MaxPool(A)), widen a Cast or DequantizeLinear",
                                "addPoolOfDequantize">;
def MaxOfRelu : PatternRule<"relu-out-of-max", BitExact, "ReduceMax(Relu(A)) -> Relu(ReduceMax(A))",
                            (Graph_ReduceOp:$y (Graph_ReluOp:$relu $a), $kind, $axes, $keep),
                            (Graph_ReluOp (Graph_ReduceOp $a, $kind, $axes, $keep, (returnType (SameTypeAs $y)))),
                            [(IsKind<"max"> $kind), (OneUse $relu)]>;
def MaxOfMax : CodeRule<"max-of-max", BitExact, "ReduceMax(ReduceMax(A)) -> ReduceMax(A)", "addMaxOfMax">;

//===----------------------------------------------------------------------===//
// Bit for bit: element by element
//===----------------------------------------------------------------------===//

def ReluOfRelu : PatternRule<"idempotent", BitExact, "f(f(A)) -> f(A), f = Relu, Abs or Floor", (Graph_ReluOp (Graph_ReluOp:$y $a)),
                             (replaceWithValue $y)>;
def AbsOfAbs : PatternRule<"idempotent", BitExact, "f(f(A)) -> f(A), f = Relu, Abs or Floor", (Graph_AbsOp (Graph_AbsOp:$y $a)),
                           (replaceWithValue $y)>;
def FloorOfFloor : PatternRule<"idempotent", BitExact, "f(f(A)) -> f(A), f = Relu, Abs or Floor", (Graph_FloorOp (Graph_FloorOp:$y $a)),
                               (replaceWithValue $y)>;
def NegOfNeg : PatternRule<"neg-of-neg", BitExact, "-(-A) -> A", (Graph_NegOp (Graph_NegOp $a)), (replaceWithValue $a)>;
def AbsOfNeg : PatternRule<"abs-of-neg", BitExact, "Abs(-A) -> Abs(A)", (Graph_AbsOp (Graph_NegOp $a)), (Graph_AbsOp $a), [(Signed $a)]>;
def ClipOfClip : PatternRule<"clip-of-clip", BitExact, "Clip(Clip(A, a, b), c, d) -> Clip(A, max(a, c), min(b, d)); Relu is Clip(A, 0, inf)",
                             (Graph_ClipOp (Graph_ClipOp $x, $a, $b), $c, $d), (Graph_ClipOp $x, (Larger $a, $c), (Smaller $b, $d)),
                             [(Intersect $a, $b, $c, $d)]>;
def ClipOfRelu : PatternRule<"clip-of-clip", BitExact, "Clip(Clip(A, a, b), c, d) -> Clip(A, max(a, c), min(b, d)); Relu is Clip(A, 0, inf)",
                             (Graph_ClipOp (Graph_ReluOp $x), $c, $d), (Graph_ClipOp $x, (NotNegative $c), $d), [(HasPositive $d)]>;

defvar kNeutral = "A*1, A/1, A-0 -> A";
def MulByOne : PatternRule<"neutral-element", BitExact, kNeutral, (Graph_MulOp:$y $a, $c), (replaceWithValue $a),
                           [(IsNumber<"1"> $c), (SameType $a, $y)]>;
def MulByOneBefore : PatternRule<"neutral-element", BitExact, kNeutral, (Graph_MulOp:$y $c, $a), (replaceWithValue $a),
                                 [(IsNumber<"1"> $c), (SameType $a, $y)]>;
def DivByOne : PatternRule<"neutral-element", BitExact, kNeutral, (Graph_DivOp:$y $a, $c), (replaceWithValue $a),
                           [(IsNumber<"1"> $c), (SameType $a, $y)]>;
def SubZero : PatternRule<"neutral-element", BitExact, kNeutral, (Graph_SubOp:$y $a, $c), (replaceWithValue $a),
                          [(IsNumber<"0"> $c), (SameType $a, $y)]>;
def DivideByPowerOfTwo : PatternRule<"divide-by-power-of-two", BitExact, "A / 2^k -> A * 2^-k", (Graph_DivOp $a, $c),
                                     (Graph_MulOp $a, (Reciprocals $c)), [(PowersOfTwo $c), (NoConstant $a)]>;

//===----------------------------------------------------------------------===//
// Distributivity: bit for bit of integers, in real arithmetic of floats
//===----------------------------------------------------------------------===//

defvar kLeft = [(Graph_MulOp:$left $a, $b), (Graph_MulOp:$left $b, $a)];
defvar kRight = [(Graph_MulOp:$right $a, $c), (Graph_MulOp:$right $c, $a)];
foreach i = [0, 1] in {
  foreach j = [0, 1] in {
    def FactorOut#i#j : PatternRule<"factor-out", Real, "A*B + A*C -> A*(B + C)", (Graph_AddOp kLeft[i], kRight[j]),
                                    (Graph_MulOp $a, (Graph_AddOp $b, $c, (returnType (BroadcastType $b, $c)))),
                                    [(OfFloats $a), (OneUse $left), (OneUse $right)]>;
    def FactorOutInteger#i#j : PatternRule<"factor-out-of-integers", BitExact, "A*B + A*C -> A*(B + C), integers",
                                           (Graph_AddOp kLeft[i], kRight[j]),
                                           (Graph_MulOp $a, (Graph_AddOp $b, $c, (returnType (BroadcastType $b, $c)))),
                                           [(OfIntegers $a), (OneUse $left), (OneUse $right)]>;
  }
}
def DivisorOut : PatternRule<"divisor-out", Real, "A/C + B/C -> (A + B)/C", (Graph_AddOp (Graph_DivOp:$left $a, $c), (Graph_DivOp:$right $b, $c)),
                             (Graph_DivOp (Graph_AddOp $a, $b, (returnType (BroadcastType $a, $b))), $c),
                             [(OfFloats $a), (OneUse $left), (OneUse $right)]>;
def WeightsTogether : PatternRule<"factor-out-of-products", Real, "A x B + A x C -> A x (B + C); A x C + B x C -> (A + B) x C",
                                  (Graph_AddOp:$y (Graph_MatmulOp:$left $a, $b), (Graph_MatmulOp:$right $a, $c)),
                                  (Graph_MatmulOp $a, (Graph_AddOp $b, $c, (returnType (SameTypeAs $b)))),
                                  [(SameType $b, $c), (SameType $left, $y), (OneUse $left), (OneUse $right)]>;
def RowsTogether : PatternRule<"factor-out-of-products", Real, "A x B + A x C -> A x (B + C); A x C + B x C -> (A + B) x C",
                               (Graph_AddOp:$y (Graph_MatmulOp:$left $a, $c), (Graph_MatmulOp:$right $b, $c)),
                               (Graph_MatmulOp (Graph_AddOp $a, $b, (returnType (SameTypeAs $a))), $c),
                               [(SameType $a, $b), (SameType $left, $y), (OneUse $left), (OneUse $right)]>;

defvar kScaled = [(Graph_MulOp:$scaled $a, $c), (Graph_MulOp:$scaled $c, $a)];
foreach i = [0, 1] in {
  def ScaleOutOfSum#i : PatternRule<"scale-out-of-sum", Real, "ReduceSum(A*c) -> ReduceSum(A)*c, c one number; ReduceMean too",
                                    (Graph_ReduceOp:$y kScaled[i], $kind, $axes, $keep),
                                    (Graph_MulOp (Graph_ReduceOp $a, $kind, $axes, $keep, (returnType (SameTypeAs $y))), (AsScalar $c)),
                                    [(OfFloats $a), (IsLinearKind $kind), (OneElement $c), (SameType $a, $scaled), (OneUse $scaled)]>;
  def ScaleOutOfIntegerSum#i : PatternRule<"scale-out-of-integer-sum", BitExact, "ReduceSum(A*c) -> ReduceSum(A)*c, integers",
                                           (Graph_ReduceOp:$y kScaled[i], $kind, $axes, $keep),
                                           (Graph_MulOp (Graph_ReduceOp $a, $kind, $axes, $keep, (returnType (SameTypeAs $y))), (AsScalar $c)),
                                           [(OfIntegers $a), (IsKind<"sum"> $kind), (OneElement $c), (SameType $a, $scaled), (OneUse $scaled)]>;
}
def ShiftOutOfSum : CodeRule<"shift-out-of-sum", BitExact, "ReduceSum(BitShift(A)) -> BitShift(ReduceSum(A)), to the left by one number",
                             "addShiftOutOfSum">;
def SumOfSum : CodeRule<"sum-of-sum", Real, "ReduceSum(ReduceSum(A)) -> ReduceSum(A); ReduceMean too", "addSumOfSum"> {
  let leastMath = "Strict";
}
def SumOfIntegerSum : CodeRule<"sum-of-integer-sum", BitExact, "ReduceSum(ReduceSum(A)) -> ReduceSum(A), integers", "addSumOfIntegerSum">;
def SumOfTranspose : PatternRule<"sum-of-transpose", Real, "ReduceSum(A^p) -> ReduceSum(A) over the dims before p; ReduceMean too",
                                 (Graph_ReduceOp:$y (Graph_TransposeOp $a, $p), $kind, $axes, $keep),
                                 (Graph_ReduceOp $a, $kind, (ThroughTranspose $axes, $p), $keep),
                                 [(OfFloats $a), (IsLinearKind $kind), (KeepsOrder $p, $axes), (ReducesTo $a, $axes, $p, $y)]>;

//===----------------------------------------------------------------------===//
// Real arithmetic: functions
//===----------------------------------------------------------------------===//

defvar kReciprocals = [(Graph_DivOp:$left $one, $a), (Graph_DivOp:$right $oneToo, (Graph_MulOp:$product $a, $b)),
                       (Graph_DivOp:$right $oneToo, (Graph_MulOp:$product $b, $a))];
foreach i = [1, 2] in {
  foreach j = [0, 1] in
    def ReciprocalProduct#i#j
        : PatternRule<"reciprocal-of-product", Real, "Recip(A)*Recip(A*B) -> Square(Recip(A))/B",
                      !if(j, (Graph_MulOp kReciprocals[i], kReciprocals[0]), (Graph_MulOp kReciprocals[0], kReciprocals[i])),
                      (Graph_DivOp (Graph_MulOp $left, $left, (returnType (SameTypeAs $left))), $b),
                      [(OfFloats $a), (IsNumber<"1"> $one), (IsNumber<"1"> $oneToo), (SameType $left, $a), (SameType $right, $product),
                       (OneUse $right), (OneUse $product)]>;
}
def MulByReciprocal : PatternRule<"multiply-by-reciprocal", Real, "A*Recip(B) -> A/B", (Graph_MulOp $a, (Graph_DivOp:$recip $one, $b)),
                                  (Graph_DivOp $a, $b), [(OfFloats $a), (IsNumber<"1"> $one), (SameType $recip, $b), (OneUse $recip)]>;
def ReciprocalTimes : PatternRule<"multiply-by-reciprocal", Real, "A*Recip(B) -> A/B", (Graph_MulOp (Graph_DivOp:$recip $one, $b), $a),
                                  (Graph_DivOp $a, $b), [(OfFloats $a), (IsNumber<"1"> $one), (SameType $recip, $b), (OneUse $recip)]>;
def DivideByConstant : PatternRule<"divide-by-constant", Real, "A / c -> A * (1/c), c constants", (Graph_DivOp $a, $c),
                                   (Graph_MulOp $a, (Reciprocals $c)), [(Invertible $c), (NoConstant $a)]>;
def ProductOfExponentials : PatternRule<"product-of-exponentials", Real, "Exp(A)*Exp(B) -> Exp(A + B)",
                                        (Graph_MulOp:$y (Graph_ExpOp:$left $a), (Graph_ExpOp:$right $b)),
                                        (Graph_ExpOp (Graph_AddOp $a, $b, (returnType (SameTypeAs $y)))), [(OneUse $left), (OneUse $right)]>;
def ProductReduction : CodeRule<"product-reduction-of-exponentials", Real, "ReduceProd(Exp(A)) -> Exp(ReduceSum(A))", "addProductReduction">;
def RootOfSquare : PatternRule<"root-of-square", Real, "Sqrt(A*A) -> Abs(A)", (Graph_SqrtOp (Graph_MulOp $a, $a)), (Graph_AbsOp $a)>;

//===----------------------------------------------------------------------===//
// Real arithmetic: constants through linear operators
//===----------------------------------------------------------------------===//

def BatchNormIntoConv : CodeRule<"batch-norm-into-conv", Real, "BatchNorm(Conv(A, w, b)) -> Conv(A, w*c, b*c + d)", "addBatchNormIntoConv"> {
  let leastMath = "Strict";
}
def ScaleIntoConv : CodeRule<"scale-into-conv", Real, "Conv(A, w, b)*c -> Conv(A, w*c, b*c), c of channels", "addScaleIntoConv">;
def BiasIntoConv : CodeRule<"bias-into-conv", Real, "Conv(A, w, b) + c -> Conv(A, w, b + c), c of channels", "addBiasIntoConv">;
def ScaleIntoProduct : CodeRule<"scale-into-product", Real, "(A x w)*c -> A x (w*c), c of columns", "addScaleIntoProduct">;
def ConstantsTogether : CodeRule<"constants-together", Real, "(A + c) + d -> A + (c + d); (A*c)*d -> A*(c*d)", "addConstantsTogether">;

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

def ProductOfTransposes : PatternRule<"product-of-transposes", Real, "A^T x B^T -> (B x A)^T",
                                      (Graph_MatmulOp:$y (Graph_TransposeOp:$left $a, $p), (Graph_TransposeOp:$right $b, $q)),
                                      (Graph_TransposeOp (Graph_MatmulOp $b, $a, (returnType (ProductType $b, $a))), $p),
                                      [(SwapsLastTwo $p), (SwapsLastTwo $q), (SameRank $a, $b), (OneUse $left), (OneUse $right)]>;
def ProductChain : CodeRule<"product-chain", Real, "(A x B) x C <-> A x (B x C), whichever has fewer multiplications", "addProductChain">;
def ChainWithBias : CodeRule<"product-chain-with-bias", Real,
                             "(A x v + b) x w -> A x (v x w) + b x w, where that has fewer multiplications, v, b and w constants",
                             "addProductChainWithBias">;
def ParallelProducts : CodeRule<"parallel-products", BitExact, "A x B, A x C -> slices of A x [B C], B and C constants", "addParallelProducts">;
def ParallelConvs : CodeRule<"parallel-convolutions", BitExact, "Conv(A, v), Conv(A, w) -> slices of Conv(A, [v w]), 1x1 and constant weights",
                             "addParallelConvolutions">;

//===----------------------------------------------------------------------===//
// Approximations
//===----------------------------------------------------------------------===//

def GeluToSigmoid : CodeRule<"gelu-to-sigmoid", Approximate, "A*(1 + Erf(A/sqrt(2)))/2 -> A*Sigmoid(1.702*A), at most 0.0204 off", "addGeluToSigmoid">;

#endif // COMPILER_GRAPH_TRANSFORMS_RULES_TD
