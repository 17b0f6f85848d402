//===- FusionType.cpp - How an operator may be fused ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/FusionType.h"

#include <algorithm>
#include <map>
#include <utility>

using namespace tw;
using namespace tw::operators;

namespace {
/// Operators by "domain:Type". Opaque are those whose results have shapes that depend on values, which keep state, are random, or take graphs,
/// sequences or text; and those for which nobody writes kernels.
const std::pair<FusionType, std::vector<const char *>> kTypes[] = {
    {{FusionClass::Injective, Mapping::OneToOne},
     {
      ":Abs", ":Acos", ":Acosh", ":Add", ":Affine", ":And", ":Asin", ":Asinh", ":Atan", ":Atanh",
      ":BatchNormalization", ":BitCast", ":BitShift", ":BitwiseAnd", ":BitwiseNot", ":BitwiseOr", ":BitwiseXor",
      ":Cast", ":CastLike", ":Ceil", ":Celu", ":CenterCropPad", ":Clip", ":Concat", ":Cos", ":Cosh",
      ":DequantizeLinear", ":Div", ":Dropout", ":Elu", ":Equal", ":Erf", ":Exp", ":Floor", ":Gelu", ":Greater",
      ":GreaterOrEqual", ":HardSigmoid", ":HardSwish", ":Identity", ":ImageScaler", ":IsInf", ":IsNaN", ":LeakyRelu",
      ":Less", ":LessOrEqual", ":Log", ":Max", ":Mean", ":Min", ":Mish", ":Mod", ":Mul", ":Neg", ":Not", ":Or",
      ":PRelu", ":Pad", ":ParametricSoftplus", ":Pow", ":QuantizeLinear", ":Reciprocal", ":Relu", ":Round",
      ":ScaledTanh", ":Selu", ":Shrink", ":Sigmoid", ":Sign", ":Sin", ":Sinh", ":Slice", ":Softplus", ":Softsign",
      ":Split", ":Sqrt", ":Sub", ":Sum", ":SwiGLU", ":Swish", ":Tan", ":Tanh", ":ThresholdedRelu", ":Trilu", ":Where",
      ":Xor", "ai.onnx.ml:Binarizer", "ai.onnx.ml:Imputer", "ai.onnx.ml:Scaler", "com.microsoft:BiasAdd",
      "com.microsoft:BiasDropout", "com.microsoft:BiasGelu", "com.microsoft:BitmaskBiasDropout",
      "com.microsoft:BitmaskDropout", "com.microsoft:DequantizeLinear", "com.microsoft:FastGelu",
      "com.microsoft:Gelu", "com.microsoft:MulInteger", "com.microsoft:Pad", "com.microsoft:QLinearAdd",
      "com.microsoft:QLinearConcat", "com.microsoft:QLinearLeakyRelu", "com.microsoft:QLinearMul",
      "com.microsoft:QLinearSigmoid", "com.microsoft:QLinearWhere", "com.microsoft:QuantizeLinear",
      "com.microsoft:QuickGelu", "com.microsoft:Trilu"}},
    {{FusionClass::Injective, Mapping::OneToMany},
     {
      ":BlackmanWindow", ":Constant", ":ConstantOfShape", ":Expand", ":EyeLike", ":Gather", ":GatherElements",
      ":GatherND", ":HammingWindow", ":HannWindow", ":MelWeightMatrix", ":OneHot", ":Range", ":Resize", ":Shape",
      ":Size", ":Tile", ":Upsample", "ai.onnx.ml:ArrayFeatureExtractor", "com.microsoft:GatherBlockQuantized",
      "com.microsoft:GatherND", "com.microsoft:Range", "com.microsoft:TorchEmbedding", "com.microsoft:UnfoldTensor"}},
    {{FusionClass::Injective, Mapping::ManyToMany},
     {
      ":AffineGrid", ":RotaryEmbedding", "com.microsoft:BiasSplitGelu", "com.microsoft:ComplexMul",
      "com.microsoft:ComplexMulConj", "com.microsoft:GemmaRotaryEmbedding", "com.microsoft:RotaryEmbedding"}},
    {{FusionClass::Injective, Mapping::Reorganize},
     {
      ":Flatten", ":Reshape", ":Squeeze", ":Unsqueeze", "com.microsoft:ExpandDims"}},
    {{FusionClass::Injective, Mapping::Shuffle},
     {
      ":DepthToSpace", ":ReverseSequence", ":SpaceToDepth", ":Transpose"}},
    {{FusionClass::Reduction, Mapping::ManyToMany},
     {
      ":ArgMax", ":ArgMin", ":ReduceL1", ":ReduceL2", ":ReduceLogSum", ":ReduceLogSumExp", ":ReduceMax",
      ":ReduceMean", ":ReduceMin", ":ReduceProd", ":ReduceSum", ":ReduceSumSquare", "com.microsoft:QLinearReduceMean",
      "com.microsoft:ReduceSumInteger"}},
    {{FusionClass::ComplexOutFusable, Mapping::ManyToMany},
     {
      ":Attention", ":AveragePool", ":CausalConvWithState", ":Conv", ":ConvInteger", ":ConvTranspose", ":DeformConv",
      ":Einsum", ":Gemm", ":GlobalAveragePool", ":GlobalLpPool", ":GlobalMaxPool", ":GroupNormalization", ":Hardmax",
      ":InstanceNormalization", ":LRN", ":LayerNormalization", ":LogSoftmax", ":LpNormalization", ":LpPool",
      ":MatMul", ":MatMulInteger", ":MaxPool", ":MeanVarianceNormalization", ":QLinearConv", ":QLinearMatMul",
      ":RMSNormalization", ":SimplifiedLayerNormalization", ":Softmax", "com.microsoft:Attention",
      "com.microsoft:BiasSoftmax", "com.microsoft:CausalConvWithState", "com.microsoft:ConvTransposeWithDynamicPads",
      "com.microsoft:DynamicQuantizeMatMul", "com.microsoft:FusedConv", "com.microsoft:FusedGemm",
      "com.microsoft:FusedMatMul", "com.microsoft:FusedMatMulActivation", "com.microsoft:GemmFastGelu",
      "com.microsoft:GroupNorm", "com.microsoft:MatMulBnb4", "com.microsoft:MatMulIntegerToFloat",
      "com.microsoft:MatMulNBits", "com.microsoft:MultiHeadAttention", "com.microsoft:NhwcConv",
      "com.microsoft:NhwcFusedConv", "com.microsoft:NhwcMaxPool", "com.microsoft:QGemm",
      "com.microsoft:QLinearAveragePool", "com.microsoft:QLinearConv", "com.microsoft:QLinearGlobalAveragePool",
      "com.microsoft:QLinearSoftmax", "com.microsoft:SimplifiedLayerNormalization", "com.microsoft:SkipGroupNorm",
      "com.microsoft:SkipLayerNormalization", "com.microsoft:SkipSimplifiedLayerNormalization",
      "com.microsoft:TransposeMatMul"}},
    {{FusionClass::Opaque, Mapping::ManyToMany},
     {
      ":Bernoulli", ":Col2Im", ":Compress", ":ConcatFromSequence", ":CumProd", ":CumSum", ":DFT", ":Det",
      ":DynamicQuantizeLinear", ":GRU", ":GridSample", ":If", ":ImageDecoder", ":LSTM", ":LinearAttention", ":Loop",
      ":MaxRoiPool", ":MaxUnpool", ":Multinomial", ":NegativeLogLikelihoodLoss", ":NonMaxSuppression", ":NonZero",
      ":Optional", ":OptionalGetElement", ":OptionalHasElement", ":RNN", ":RandomNormal", ":RandomNormalLike",
      ":RandomUniform", ":RandomUniformLike", ":RegexFullMatch", ":RoiAlign", ":STFT", ":Scan", ":Scatter",
      ":ScatterElements", ":ScatterND", ":SequenceAt", ":SequenceConstruct", ":SequenceEmpty", ":SequenceErase",
      ":SequenceInsert", ":SequenceLength", ":SequenceMap", ":SoftmaxCrossEntropyLoss", ":SplitToSequence",
      ":StringConcat", ":StringNormalizer", ":StringSplit", ":TensorScatter", ":TfIdfVectorizer", ":TopK", ":Unique",
      "ai.onnx.ml:CategoryMapper", "ai.onnx.ml:FeatureVectorizer", "ai.onnx.ml:LabelEncoder",
      "ai.onnx.ml:LinearClassifier", "ai.onnx.ml:LinearRegressor", "ai.onnx.ml:Normalizer",
      "ai.onnx.ml:OneHotEncoder", "ai.onnx.ml:SVMClassifier", "ai.onnx.ml:SVMRegressor", "ai.onnx.ml:TreeEnsemble",
      "ai.onnx.ml:TreeEnsembleClassifier", "ai.onnx.ml:TreeEnsembleRegressor", "ai.onnx.ml:ZipMap",
      "ai.onnx.preview.training:Adagrad", "ai.onnx.preview.training:Adam", "ai.onnx.preview.training:Momentum",
      "ai.onnx.preview:FlexAttention", "com.microsoft:CDist", "com.microsoft:CropAndResize",
      "com.microsoft:DecoderMaskedMultiHeadAttention", "com.microsoft:DynamicQuantizeLSTM",
      "com.microsoft:EmbedLayerNormalization", "com.microsoft:GatedRelativePositionBias", "com.microsoft:GridSample",
      "com.microsoft:GroupQueryAttention", "com.microsoft:Inverse", "com.microsoft:Irfft",
      "com.microsoft:LinearAttention", "com.microsoft:MoE", "com.microsoft:MurmurHash3",
      "com.microsoft:NGramRepeatBlock", "com.microsoft:PackedAttention", "com.microsoft:PackedMultiHeadAttention",
      "com.microsoft:QAttention", "com.microsoft:QEmbedLayerNormalization", "com.microsoft:QMoE",
      "com.microsoft:RelativePositionBias", "com.microsoft:RemovePadding", "com.microsoft:RestorePadding",
      "com.microsoft:Rfft", "com.microsoft:Unique"}},
};

const std::map<std::string, FusionType> &types() {
  static const std::map<std::string, FusionType> byName = [] {
    std::map<std::string, FusionType> result;
    for (const auto &[type, names] : kTypes)
      for (const char *name : names)
        result.emplace(name, type);
    return result;
  }();
  return byName;
}
} // namespace

std::optional<FusionType> operators::fusionTypeOf(const std::string &domain, const std::string &type) {
  auto found = types().find(domain + ":" + type);
  return found == types().end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> operators::operatorsOf(const FusionType &type) {
  std::vector<std::string> names;
  for (const auto &[name, known] : types())
    if (known == type)
      names.push_back(name);
  return names;
}

bool operators::mayFuse(Mapping first, Mapping second) {
  return second != Mapping::ManyToMany || (first != Mapping::ManyToMany && first != Mapping::OneToMany);
}

Mapping operators::fused(Mapping first, Mapping second) {
  // What says least about the elements wins: the order of DNNFusion's table.
  auto rank = [](Mapping mapping) {
    switch (mapping) {
    case Mapping::OneToOne:
      return 0;
    case Mapping::Reorganize:
      return 1;
    case Mapping::Shuffle:
      return 2;
    case Mapping::OneToMany:
      return 3;
    case Mapping::ManyToMany:
      return 4;
    }
    return 4;
  };
  return rank(first) < rank(second) ? second : first;
}
