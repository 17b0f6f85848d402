//===- Quantised.cpp - Operands with scales and zero points ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Quantised.h"

using namespace tw;
using namespace tw::operators;

std::vector<float> operators::spread(const Call &call, size_t i, const HostTensor &parameter, const Shape &shape) {
  std::vector<float> values(size_t(countOf(shape)));
  if (countOf(parameter) == 1) {
    std::fill(values.begin(), values.end(), float(realAt(parameter, 0)));
    return values;
  }
  if (broadcast(parameter.shape, shape) != shape)
    call.fail("input " + std::to_string(i) + " has shape " + textOf(call.input(i).shape) +
              ", expected one element, or one for each row or column of " + textOf(shape));
  walk<1>(shape, {broadcastStrides(parameter.shape, shape)},
          [&](int64_t to, const std::array<int64_t, 1> &from) { values[size_t(to)] = float(realAt(parameter, from[0])); });
  return values;
}

std::vector<uint32_t> operators::centred(const Call &call, size_t i, const HostTensor &zeroPoint, bool hasZeroPoint) {
  const HostTensor &x = call.input(i);
  if (!isQuantisedInteger(x.type))
    failType(call, i, x);
  std::vector<uint32_t> values(size_t(countOf(x)));
  if (x.type == ElementKind::I8)
    std::transform(data<int8_t>(x), data<int8_t>(x) + values.size(), values.begin(),
                   [](int8_t each) { return uint32_t(each); });
  else
    std::copy_n(data<uint8_t>(x), values.size(), values.begin());
  if (!hasZeroPoint)
    return values;
  call.requireSameType(x, zeroPoint);
  if (countOf(zeroPoint) == 1) {
    const uint32_t zero = uint32_t(integerAt(zeroPoint, 0));
    for (uint32_t &each : values)
      each -= zero;
    return values;
  }
  if (broadcast(zeroPoint.shape, x.shape) != x.shape)
    call.fail("a zero point of shape " + textOf(zeroPoint.shape) + " does not repeat to input " + std::to_string(i) +
              " of shape " + textOf(x.shape));
  walk<1>(x.shape, {broadcastStrides(zeroPoint.shape, x.shape)}, [&](int64_t to, const std::array<int64_t, 1> &from) {
    values[size_t(to)] -= uint32_t(integerAt(zeroPoint, from[0]));
  });
  return values;
}

std::vector<float> operators::centredFloats(const Call &call, size_t i, const HostTensor &zeroPoint) {
  const HostTensor &x = call.input(i);
  if (x.type < ElementKind::F8E4M3FN || x.type > ElementKind::F8E5M2FNUZ)
    failType(call, i, x);
  call.requireSameType(x, zeroPoint);
  std::vector<float> values = spread(call, i, zeroPoint, x.shape);
  for (size_t at = 0; at < values.size(); ++at)
    values[at] = float(realAt(x, int64_t(at))) - values[at];
  return values;
}

void operators::storeQuantised(HostTensor &y, int64_t i, float value, float zeroPoint) {
  switch (y.type) {
  case ElementKind::I8:
    data<int8_t>(y)[i] = fromReal<int8_t>(std::nearbyint(value) + zeroPoint);
    return;
  case ElementKind::U8:
    data<uint8_t>(y)[i] = fromReal<uint8_t>(std::nearbyint(value) + zeroPoint);
    return;
  case ElementKind::F8E4M3FN:
  case ElementKind::F8E4M3FNUZ:
  case ElementKind::F8E5M2:
  case ElementKind::F8E5M2FNUZ:
    setReal(y, i, value + zeroPoint);
    return;
  default:
    throw Error{std::string("the result's zero point is of ") + frontend::elementName(y.type) +
                ", expected int8, uint8 or a float of 8 bits"};
  }
}
