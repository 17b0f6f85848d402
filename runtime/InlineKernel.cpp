//===- InlineKernel.cpp - One operator from the command line --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/InlineKernel.h"
#include "compiler/graph/Graph.h"
#include "runtime/Tensors.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

#include <charconv>
#include <cmath>

using namespace tw;
using namespace tw::runtime;

/// Elements of a tensor above which a description is taken for a slip.
static constexpr int64_t kMaxElements = int64_t(1) << 28;

bool runtime::isInlineKernel(const std::string &model) { return model.rfind("gemm:", 0) == 0 || model.rfind("conv:", 0) == 0; }

static std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

static bool number(const std::string &text, int64_t low, int64_t &value) {
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size() && value >= low && value <= (1 << 24);
}

template <size_t N> static bool extents(const std::string &text, std::array<int64_t, N> &values) {
  std::vector<std::string> parts = split(text, 'x');
  if (parts.size() != N)
    return false;
  for (size_t i = 0; i < N; ++i)
    if (!number(parts[i], 1, values[i]))
      return false;
  return true;
}

StatusOr<InlineKernel> runtime::parseInlineKernel(const std::string &text) {
  InlineKernel kernel;
  std::vector<std::string> parts = split(text, ':');
  kernel.isConv = parts[0] == "conv";
  auto bad = [&](const std::string &found, const std::string &allowed) {
    return userError("kernel '" + text + "': '" + found + "' must be " + allowed);
  };
  const char *form = kernel.isConv ? "conv:NxHxWxC:KHxKWxOC:sSTRIDE:pPAD:TYPE" : "gemm:MxNxK:TYPE";
  if (parts.size() < (kernel.isConv ? 4u : 3u) || (!kernel.isConv && parts.size() > 3))
    return userError("kernel '" + text + "' must have the form " + form);
  if (kernel.isConv) {
    if (!extents(parts[1], kernel.input))
      return bad(parts[1], "an input NxHxWxC of positive numbers");
    if (!extents(parts[2], kernel.window))
      return bad(parts[2], "a window KHxKWxOC of positive numbers");
    for (size_t i = 3; i + 1 < parts.size(); ++i) {
      const std::string &part = parts[i];
      int64_t *value = part.empty()     ? nullptr
                       : part[0] == 's' ? &kernel.stride
                       : part[0] == 'p' ? &kernel.pad
                       : part[0] == 'g' ? &kernel.groups
                                        : nullptr;
      if (!value || !number(part.substr(1), part[0] == 'p' ? 0 : 1, *value))
        return bad(part, "sSTRIDE, pPAD or gGROUPS, as in s1:p1");
    }
  } else if (!extents(parts[1], kernel.gemm)) {
    return bad(parts[1], "MxNxK, three positive numbers");
  }
  if (parts.back() == "int8")
    kernel.type = timing::ArrayType::Int8;
  else if (parts.back() == "bf16")
    kernel.type = timing::ArrayType::Bf16;
  else if (parts.back() == "fp32")
    kernel.type = timing::ArrayType::Fp32;
  else
    return bad(parts.back(), "one of the types int8, bf16, fp32");

  auto [n, h, w, c] = kernel.input;
  auto [kh, kw, oc] = kernel.window;
  if (kernel.isConv) {
    if (kh > h + 2 * kernel.pad || kw > w + 2 * kernel.pad)
      return bad(parts[2], "a window no larger than the padded input, " + std::to_string(h + 2 * kernel.pad) + "x" +
                               std::to_string(w + 2 * kernel.pad));
    if (c % kernel.groups || oc % kernel.groups)
      return bad("g" + std::to_string(kernel.groups),
                 "a divisor of the " + std::to_string(c) + " input and " + std::to_string(oc) + " output channels");
  }
  auto tooLarge = [](std::initializer_list<int64_t> factors) {
    int64_t product = 1;
    for (int64_t factor : factors)
      if ((product *= factor) > kMaxElements) // a factor has at most 24 bits and the product 28 before it
        return true;
    return false;
  };
  auto [gm, gn, gk] = kernel.gemm;
  if (kernel.isConv ? tooLarge({n, h + 2 * kernel.pad, w + 2 * kernel.pad, c}) || tooLarge({kh, kw, c / kernel.groups, oc}) ||
                          tooLarge({n, h + 2 * kernel.pad, w + 2 * kernel.pad, oc})
                    : tooLarge({gm, gk}) || tooLarge({gk, gn}) || tooLarge({gm, gn}))
    return userError("kernel '" + text + "' has a tensor of more than " + std::to_string(kMaxElements) + " elements");
  return kernel;
}

HostTensor runtime::inlineKernelWeights(const InlineKernel &kernel, uint64_t seed) {
  ElementKind type = kernel.type == timing::ArrayType::Int8   ? ElementKind::I8
                     : kernel.type == timing::ArrayType::Bf16 ? ElementKind::BF16
                                                              : ElementKind::F32;
  std::vector<int64_t> shape = {kernel.gemm[2], kernel.gemm[1]};
  if (kernel.isConv)
    shape = {kernel.window[0], kernel.window[1], kernel.input[3] / kernel.groups, kernel.window[2]};
  return randomTensor({"w", type, shape}, seed);
}

float runtime::requantizeMultiplier(const InlineKernel &kernel) {
  int64_t reduction = kernel.isConv ? kernel.window[0] * kernel.window[1] * kernel.input[3] / kernel.groups : kernel.gemm[2];
  // Factors uniform over the int8 range have variance (256^2 - 1) / 12 = 5461; a third of 127 as the standard deviation of
  // the results then leaves saturation to one value in 370.
  return float(127.0 / 3 / (5461.25 * std::sqrt(double(reduction))));
}

mlir::OwningOpRef<mlir::ModuleOp> runtime::buildInlineKernel(mlir::MLIRContext &context, const InlineKernel &kernel,
                                                             uint64_t seed) {
  context.loadDialect<mlir::func::FuncDialect, graph::GraphDialect>();
  mlir::OpBuilder b(&context);
  bool isInt8 = kernel.type == timing::ArrayType::Int8;
  mlir::Type element = isInt8                                   ? mlir::Type(b.getI8Type())
                       : kernel.type == timing::ArrayType::Bf16 ? mlir::Type(b.getBF16Type())
                                                                : mlir::Type(b.getF32Type());
  // In bf16 the graph computes in f32 between casts, as a network does; weights are bf16 values.
  mlir::Type sum = isInt8 ? mlir::Type(b.getI32Type()) : mlir::Type(b.getF32Type());
  mlir::Type factor = isInt8 ? element : sum;

  auto [n, h, w, c] = kernel.input;
  auto [kh, kw, oc] = kernel.window;
  std::vector<int64_t> xShape, yShape;
  if (kernel.isConv) {
    xShape = {n, h, w, c};
    yShape = {n, (h + 2 * kernel.pad - kh) / kernel.stride + 1, (w + 2 * kernel.pad - kw) / kernel.stride + 1, oc};
  } else {
    xShape = {kernel.gemm[0], kernel.gemm[2]};
    yShape = {kernel.gemm[0], kernel.gemm[1]};
  }

  auto loc = mlir::NameLoc::get(b.getStringAttr(kernel.isConv ? "conv" : "gemm"));
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(loc);
  b.setInsertionPointToEnd(module->getBody());
  auto yType = mlir::RankedTensorType::get(yShape, element);
  auto function =
      b.create<mlir::func::FuncOp>(loc, "main", b.getFunctionType({mlir::RankedTensorType::get(xShape, element)}, {yType}));
  function.setArgAttr(0, graph::kNameAttr, b.getStringAttr("x"));
  function.setResultAttr(0, graph::kNameAttr, b.getStringAttr("y"));
  b.setInsertionPointToStart(function.addEntryBlock());

  HostTensor weights = inlineKernelWeights(kernel, seed);
  if (weights.type == ElementKind::BF16)
    weights = *fitTo(weights, {"w", ElementKind::F32, weights.shape});
  mlir::Value weight = b.create<graph::ConstantOp>(
      loc,
      mlir::DenseElementsAttr::getFromRawBuffer(mlir::RankedTensorType::get(weights.shape, factor),
                                                {reinterpret_cast<const char *>(weights.bytes.data()), weights.bytes.size()}));
  mlir::Value x = function.getArgument(0), y;
  if (element != factor)
    x = b.create<graph::CastOp>(loc, mlir::RankedTensorType::get(xShape, factor), x);
  auto sumType = mlir::RankedTensorType::get(yShape, sum);
  if (kernel.isConv) {
    llvm::SmallVector<int64_t> strides(2, kernel.stride), pads(4, kernel.pad), dilations(2, 1);
    if (isInt8)
      y = b.create<graph::ConvIntegerOp>(loc, sumType, x, weight, 0, b.getDenseI32ArrayAttr({0}),
                                         b.getDenseI64ArrayAttr(strides), b.getDenseI64ArrayAttr(pads),
                                         b.getDenseI64ArrayAttr(dilations), kernel.groups, "nhwc");
    else
      y = b.create<graph::ConvOp>(loc, sumType, x, weight, mlir::Value(), b.getDenseI64ArrayAttr(strides),
                                  b.getDenseI64ArrayAttr(pads), b.getDenseI64ArrayAttr(dilations), kernel.groups, "nhwc");
  } else if (isInt8) {
    y = b.create<graph::MatmulIntegerOp>(loc, sumType, x, weight, 0, b.getDenseI32ArrayAttr({0}));
  } else {
    y = b.create<graph::MatmulOp>(loc, sumType, x, weight);
  }
  if (isInt8) {
    y = b.create<graph::RequantizeOp>(loc, yType, y, mlir::Value(), b.getDenseF32ArrayAttr({requantizeMultiplier(kernel)}),
                                      int64_t(yShape.size()) - 1, 0);
  }
  if (element != mlir::cast<mlir::RankedTensorType>(y.getType()).getElementType())
    y = b.create<graph::CastOp>(loc, yType, y);
  b.create<mlir::func::ReturnOp>(loc, y);
  return module;
}
