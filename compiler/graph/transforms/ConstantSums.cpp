//===- ConstantSums.cpp - Ops that sum or compare many constants ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products, windows, reductions and normalisations of constants, by
// their definitions. Floats are summed in double and rounded once; integers
// are exact, modulo the width of the result.
//===----------------------------------------------------------------------===//
#include "compiler/graph/Graph.h"
#include "compiler/graph/GraphShapes.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace tw::graph {

namespace {

int64_t product(ArrayRef<int64_t> dims) {
  int64_t result = 1;
  for (int64_t dim : dims)
    result *= dim;
  return result;
}

/// Calls `visit(position, index)` for every index of `shape`, in row-major order.
template <typename Visit> void forEachIndex(ArrayRef<int64_t> shape, Visit visit) {
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t position = 0, count = product(shape); position < count; ++position) {
    visit(position, index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

bool isFloat(Value value) { return isa<FloatType>(elementOf(value)); }

/// Elements of a constant as numbers of type T, double or int64_t.
template <typename T> std::vector<T> read(Value value) {
  if constexpr (std::is_same_v<T, double>) {
    std::vector<float> floats = readFloats(constantOf(value));
    return {floats.begin(), floats.end()};
  } else {
    return readIntegers(constantOf(value));
  }
}

DenseElementsAttr make(Value result, const std::vector<double> &values) {
  return makeFloats(tensorOf(result), std::vector<float>(values.begin(), values.end()));
}
DenseElementsAttr make(Value result, const std::vector<int64_t> &values) { return makeIntegers(tensorOf(result), values); }

/// Sums of integers wrap.
double multiplyAdd(double a, double b, double sum) { return sum + a * b; }
int64_t multiplyAdd(int64_t a, int64_t b, int64_t sum) { return int64_t(uint64_t(sum) + uint64_t(a) * uint64_t(b)); }
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }
int64_t larger(int64_t a, int64_t b) { return std::max(a, b); }

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

/// Where the image of a tensor lies: dims of height, width and channels.
struct ImageDims {
  size_t channels, height;
  explicit ImageDims(StringRef layout) : channels(layout == "nhwc" ? 3 : 1), height(layout == "nhwc" ? 1 : 2) {}
};

/// Calls `visit(tap row, tap column, input row, input column)` for the taps of an output pixel that are inside the image.
template <typename Visit>
void forEachTap(ArrayRef<int64_t> kernel, ArrayRef<int64_t> strides, ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations,
                int64_t height, int64_t width, int64_t row, int64_t column, Visit visit) {
  for (int64_t i = 0; i < kernel[0]; ++i) {
    int64_t y = row * strides[0] - pads[0] + i * dilations[0];
    for (int64_t j = 0; j < kernel[1] && y >= 0 && y < height; ++j)
      if (int64_t x = column * strides[1] - pads[1] + j * dilations[1]; x >= 0 && x < width)
        visit(i, j, y, x);
  }
}

template <typename T, typename OpT> std::vector<T> convolve(OpT op, T xZeroPoint, function_ref<T(int64_t)> wZeroPoint) {
  std::vector<T> x = read<T>(op.getX()), w = read<T>(op.getW());
  ImageDims dims(op.getLayout());
  const bool nhwc = op.getLayout() == "nhwc";
  ArrayRef<int64_t> xShape = shapeOf(op.getX()), wShape = shapeOf(op.getW()), yShape = shapeOf(op.getY());
  SmallVector<int64_t> xStrides = rowMajorStrides(xShape), wStrides = rowMajorStrides(wShape);
  // Weights are [O, C / group, kh, kw], or [kh, kw, C / group, O].
  const size_t wOut = nhwc ? 3 : 0, wIn = nhwc ? 2 : 1, wHeight = nhwc ? 0 : 2;
  const int64_t inputs = wShape[wIn], outputs = wShape[wOut] / int64_t(op.getGroup());
  std::vector<T> y(size_t(product(yShape)));
  forEachIndex(yShape, [&](int64_t position, ArrayRef<int64_t> index) {
    const int64_t o = index[dims.channels], first = o / outputs * inputs;
    T sum = 0, zero = wZeroPoint(o);
    forEachTap(wShape.slice(wHeight, 2), op.getStrides(), op.getPads(), op.getDilations(), xShape[dims.height],
               xShape[dims.height + 1], index[dims.height], index[dims.height + 1],
               [&](int64_t i, int64_t j, int64_t row, int64_t column) {
                 const int64_t xAt = index[0] * xStrides[0] + row * xStrides[dims.height] + column * xStrides[dims.height + 1];
                 const int64_t wAt = o * wStrides[wOut] + i * wStrides[wHeight] + j * wStrides[wHeight + 1];
                 for (int64_t c = 0; c < inputs; ++c)
                   sum = multiplyAdd(x[size_t(xAt + (first + c) * xStrides[dims.channels])] - xZeroPoint,
                                     w[size_t(wAt + c * wStrides[wIn])] - zero, sum);
               });
    y[size_t(position)] = sum;
  });
  return y;
}

DenseElementsAttr evaluateConv(ConvOp op) {
  std::vector<double> y = convolve<double>(op, 0, [](int64_t) { return 0.0; });
  if (op.getBias()) {
    std::vector<double> bias = read<double>(op.getBias());
    const size_t channels = ImageDims(op.getLayout()).channels;
    forEachIndex(shapeOf(op.getY()),
                 [&](int64_t i, ArrayRef<int64_t> index) { y[size_t(i)] += bias[size_t(index[channels])]; });
  }
  return make(op.getY(), y);
}

DenseElementsAttr evaluateConvInteger(ConvIntegerOp op) {
  ArrayRef<int32_t> zeroPoints = op.getWZeroPoints();
  return make(op.getY(), convolve<int64_t>(op, int32_t(op.getXZeroPoint()), [&](int64_t o) -> int64_t {
                return zeroPoints[zeroPoints.size() == 1 ? 0 : size_t(o)];
              }));
}

/// One number for each window: `reduce(numbers inside the image, their count)`.
template <typename T, typename OpT, typename Reduce> std::vector<T> slide(OpT op, ArrayRef<int64_t> dilations, Reduce reduce) {
  std::vector<T> x = read<T>(op.getX()), y(size_t(tensorOf(op.getY()).getNumElements()));
  ImageDims dims(op.getLayout());
  ArrayRef<int64_t> shape = shapeOf(op.getX());
  SmallVector<int64_t> strides = rowMajorStrides(shape);
  std::vector<T> numbers;
  forEachIndex(shapeOf(op.getY()), [&](int64_t position, ArrayRef<int64_t> index) {
    numbers.clear();
    const int64_t base = index[0] * strides[0] + index[dims.channels] * strides[dims.channels];
    forEachTap(op.getKernel(), op.getStrides(), op.getPads(), dilations, shape[dims.height], shape[dims.height + 1],
               index[dims.height], index[dims.height + 1], [&](int64_t, int64_t, int64_t row, int64_t column) {
                 numbers.push_back(x[size_t(base + row * strides[dims.height] + column * strides[dims.height + 1])]);
               });
    y[size_t(position)] = reduce(numbers);
  });
  return y;
}

template <typename T> DenseElementsAttr evaluateMaxPool(MaxPoolOp op, T least) {
  return make(op.getY(), slide<T>(op, op.getDilations(), [&](const std::vector<T> &numbers) {
                T result = least;
                for (T number : numbers)
                  result = larger(number, result);
                return result;
              }));
}

DenseElementsAttr evaluateAveragePool(AveragePoolOp op) {
  const double all = double(product(op.getKernel()));
  return make(op.getY(), slide<double>(op, {1, 1}, [&](const std::vector<double> &numbers) {
                double sum = 0;
                for (double number : numbers)
                  sum += number;
                return sum / (op.getCountIncludePad() ? all : double(numbers.size()));
              }));
}

DenseElementsAttr evaluateGlobalAverage(QLinearGlobalAveragePoolOp op) {
  std::vector<int64_t> x = read<int64_t>(op.getX()), y(size_t(tensorOf(op.getY()).getNumElements()));
  ImageDims dims(op.getLayout());
  ArrayRef<int64_t> shape = shapeOf(op.getX());
  const int64_t area = shape[dims.height] * shape[dims.height + 1], channels = shape[dims.channels];
  const bool nhwc = op.getLayout() == "nhwc";
  const float multiplier = op.getXScale().convertToFloat() / (op.getYScale().convertToFloat() * float(area));
  const int64_t zeroPoint = int32_t(op.getYZeroPoint()), least = elementOf(op.getY()).isUnsignedInteger() ? 0 : -128;
  for (size_t i = 0; i < y.size(); ++i) {
    const int64_t image = int64_t(i) / channels, channel = int64_t(i) % channels;
    int64_t sum = 0;
    for (int64_t p = 0; p < area; ++p)
      sum += x[size_t(nhwc ? (image * area + p) * channels + channel : (image * channels + channel) * area + p)] -
             int32_t(op.getXZeroPoint());
    const double mean = std::nearbyint(float(int32_t(sum)) * multiplier) + double(zeroPoint);
    y[i] = int64_t(std::clamp(mean, double(least), double(least + 255)));
  }
  return make(op.getY(), y);
}

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

template <typename T, typename OpT> DenseElementsAttr multiply(OpT op, T aZeroPoint, function_ref<T(int64_t)> bZeroPoint) {
  std::vector<T> a = read<T>(op.getA()), b = read<T>(op.getB());
  // Rank 1 is a row or a column.
  SmallVector<int64_t> aShape(shapeOf(op.getA())), bShape(shapeOf(op.getB()));
  if (aShape.size() == 1)
    aShape.insert(aShape.begin(), 1);
  if (bShape.size() == 1)
    bShape.push_back(1);
  const int64_t m = aShape[aShape.size() - 2], k = aShape.back(), n = bShape.back();
  const size_t rank = std::max(aShape.size(), bShape.size()) - 2;
  auto leading = [&](ArrayRef<int64_t> shape) { return padRank(shape.drop_back(2), rank); };
  SmallVector<int64_t> aDims = leading(aShape), bDims = leading(bShape), dims;
  for (size_t i = 0; i < rank; ++i)
    dims.push_back(std::max(aDims[i], bDims[i]));
  SmallVector<int64_t> aStrides = rowMajorStrides(aDims), bStrides = rowMajorStrides(bDims);
  std::vector<T> y(size_t(product(dims) * m * n));
  forEachIndex(dims, [&](int64_t position, ArrayRef<int64_t> index) {
    int64_t aAt = 0, bAt = 0;
    for (size_t i = 0; i < rank; ++i) {
      aAt += aDims[i] == 1 ? 0 : index[i] * aStrides[i];
      bAt += bDims[i] == 1 ? 0 : index[i] * bStrides[i];
    }
    const T *left = a.data() + aAt * m * k, *right = b.data() + bAt * k * n;
    T *to = y.data() + position * m * n;
    for (int64_t row = 0; row < m; ++row)
      for (int64_t i = 0; i < k; ++i)
        for (int64_t column = 0; column < n; ++column) {
          T &sum = to[row * n + column];
          sum = multiplyAdd(left[row * k + i] - aZeroPoint, right[i * n + column] - bZeroPoint(column), sum);
        }
  });
  return make(op.getY(), y);
}

DenseElementsAttr evaluateMatmulInteger(MatmulIntegerOp op) {
  ArrayRef<int32_t> zeroPoints = op.getBZeroPoints();
  return multiply<int64_t>(op, int32_t(op.getAZeroPoint()),
                           [&](int64_t column) -> int64_t { return zeroPoints[zeroPoints.size() == 1 ? 0 : size_t(column)]; });
}

//===----------------------------------------------------------------------===//
// Reductions and normalisation
//===----------------------------------------------------------------------===//

template <typename T> DenseElementsAttr evaluateReduce(ReduceOp op) {
  std::vector<T> x = read<T>(op.getX()), y(size_t(tensorOf(op.getY()).getNumElements()), T(0));
  SmallVector<int64_t> kept(shapeOf(op.getX()));
  int64_t count = 1;
  for (int64_t axis : op.getAxes()) {
    count *= kept[size_t(axis)];
    kept[size_t(axis)] = 1;
  }
  SmallVector<int64_t> strides = rowMajorStrides(kept);
  std::vector<bool> seen(y.size(), false);
  forEachIndex(shapeOf(op.getX()), [&](int64_t position, ArrayRef<int64_t> index) {
    size_t at = 0;
    for (size_t i = 0; i < strides.size(); ++i)
      at += kept[i] == 1 ? 0 : size_t(index[i] * strides[i]);
    const T number = x[size_t(position)];
    y[at] = op.getKind() != "max" ? multiplyAdd(number, T(1), y[at]) : seen[at] ? larger(number, y[at]) : number;
    seen[at] = true;
  });
  if (op.getKind() == "mean")
    for (T &sum : y)
      sum /= T(count);
  return make(op.getY(), y);
}

/// Rows of numbers along dim `axis`: `normalise(first element, their count, their distance)`.
void forEachRow(ArrayRef<int64_t> shape, int64_t axis, function_ref<void(int64_t, int64_t, int64_t)> normalise) {
  const int64_t behind = product(shape.drop_front(size_t(axis) + 1)), count = shape[size_t(axis)];
  for (int64_t outer = 0, e = product(shape.take_front(size_t(axis))); outer < e; ++outer)
    for (int64_t inner = 0; inner < behind; ++inner)
      normalise(outer * count * behind + inner, count, behind);
}

DenseElementsAttr evaluateSoftmax(SoftmaxOp op) {
  std::vector<double> x = read<double>(op.getX());
  forEachRow(shapeOf(op.getX()), int64_t(op.getAxis()), [&](int64_t first, int64_t count, int64_t apart) {
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < count; ++i)
      most = larger(x[size_t(first + i * apart)], most);
    for (int64_t i = 0; i < count; ++i)
      sum += x[size_t(first + i * apart)] = std::exp(x[size_t(first + i * apart)] - most);
    for (int64_t i = 0; i < count; ++i)
      x[size_t(first + i * apart)] /= sum;
  });
  return make(op.getY(), x);
}

DenseElementsAttr evaluateLayerNorm(LayerNormOp op) {
  std::vector<double> x = read<double>(op.getX());
  const int64_t count = product(shapeOf(op.getX()).drop_front(size_t(op.getAxis())));
  for (size_t first = 0; first < x.size(); first += size_t(count)) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < count; ++i)
      mean += x[first + size_t(i)] / double(count);
    for (int64_t i = 0; i < count; ++i) {
      x[first + size_t(i)] -= mean;
      variance += x[first + size_t(i)] * x[first + size_t(i)] / double(count);
    }
    for (int64_t i = 0; i < count; ++i)
      x[first + size_t(i)] /= std::sqrt(variance + double(op.getEpsilon().convertToFloat()));
  }
  return make(op.getY(), x);
}

DenseElementsAttr evaluateBatchNorm(BatchNormOp op) {
  std::vector<double> x = read<double>(op.getX()), scale = read<double>(op.getScale()), b = read<double>(op.getB()),
                      mean = read<double>(op.getMean()), variance = read<double>(op.getVar());
  forEachIndex(shapeOf(op.getX()), [&](int64_t i, ArrayRef<int64_t> index) {
    const size_t c = size_t(index[1]);
    x[size_t(i)] =
        (x[size_t(i)] - mean[c]) / std::sqrt(variance[c] + double(op.getEpsilon().convertToFloat())) * scale[c] + b[c];
  });
  return make(op.getY(), x);
}

DenseElementsAttr evaluateRequantize(RequantizeOp op) {
  std::vector<int64_t> x = read<int64_t>(op.getX()), bias;
  if (op.getBias())
    bias = read<int64_t>(op.getBias());
  const int64_t zeroPoint = int32_t(op.getZeroPoint()), least = elementOf(op.getY()).isUnsignedInteger() ? 0 : -128;
  ArrayRef<float> multipliers = op.getMultipliers();
  const bool hasAxis = multipliers.size() > 1 || !bias.empty();
  forEachIndex(shapeOf(op.getX()), [&](int64_t i, ArrayRef<int64_t> index) {
    const size_t c = hasAxis ? size_t(index[size_t(op.getAxis())]) : 0;
    const int32_t sum = int32_t(uint32_t(x[size_t(i)]) + (bias.empty() ? 0 : uint32_t(bias[c])));
    const float scaled = std::nearbyint(float(sum) * multipliers[multipliers.size() > 1 ? c : 0]);
    x[size_t(i)] = int64_t(std::clamp(double(scaled) + double(zeroPoint), double(least), double(least + 255)));
  });
  return make(op.getY(), x);
}

} // namespace

int64_t evaluationSteps(Operation *op) {
  auto isSplat = [](Value operand) { return constantOf(operand) && constantOf(operand).isSplat(); };
  if ((isElementwise(op) || isa<ReshapeOp, TransposeOp, SliceOp>(op)) && llvm::all_of(op->getOperands(), isSplat))
    return 1;
  auto count = [](Value value) { return double(tensorOf(value).getNumElements()); };
  double each =
      TypeSwitch<Operation *, double>(op)
          .Case<ConvOp, ConvIntegerOp>([&](auto conv) {
            ArrayRef<int64_t> w = shapeOf(conv.getW());
            return count(conv.getW()) / double(std::max<int64_t>(1, w[conv.getLayout() == "nhwc" ? 3 : 0]));
          })
          .Case<MatmulOp, MatmulIntegerOp>([&](auto matmul) { return double(shapeOf(matmul.getA()).back()); })
          .Case<MaxPoolOp, AveragePoolOp>([&](auto pool) { return double(pool.getKernel()[0]) * double(pool.getKernel()[1]); })
          .Case<ReduceOp, QLinearGlobalAveragePoolOp>(
              [&](auto reduce) { return count(reduce.getX()) / std::max(1.0, count(reduce.getY())); })
          .Default([](Operation *) { return 1.0; });
  return int64_t(std::min(each * count(op->getResult(0)), 9e18));
}

DenseElementsAttr evaluateSums(Operation *op) {
  auto number = [](auto value) { return [value](int64_t) { return value; }; };
  return TypeSwitch<Operation *, DenseElementsAttr>(op)
      .Case([&](ConvOp conv) { return evaluateConv(conv); })
      .Case([&](ConvIntegerOp conv) { return evaluateConvInteger(conv); })
      .Case([&](MatmulOp matmul) { return multiply<double>(matmul, 0, number(0.0)); })
      .Case([&](MatmulIntegerOp matmul) { return evaluateMatmulInteger(matmul); })
      .Case([&](MaxPoolOp pool) {
        Type type = elementOf(pool.getX());
        if (isa<FloatType>(type))
          return evaluateMaxPool<double>(pool, -std::numeric_limits<double>::infinity());
        const bool isUnsigned = type.isUnsignedInteger();
        return evaluateMaxPool<int64_t>(pool, isUnsigned ? 0 : llvm::minIntN(type.getIntOrFloatBitWidth()));
      })
      .Case([&](AveragePoolOp pool) { return evaluateAveragePool(pool); })
      .Case([&](QLinearGlobalAveragePoolOp pool) { return evaluateGlobalAverage(pool); })
      .Case([&](ReduceOp reduce) {
        return isFloat(reduce.getX()) ? evaluateReduce<double>(reduce) : evaluateReduce<int64_t>(reduce);
      })
      .Case([&](SoftmaxOp softmax) { return evaluateSoftmax(softmax); })
      .Case([&](LayerNormOp norm) { return evaluateLayerNorm(norm); })
      .Case([&](BatchNormOp norm) { return evaluateBatchNorm(norm); })
      .Case([&](RequantizeOp requantize) { return evaluateRequantize(requantize); })
      .Default([](Operation *) { return nullptr; });
}

} // namespace tw::graph
