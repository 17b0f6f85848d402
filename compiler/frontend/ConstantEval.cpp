//===- ConstantEval.cpp - ONNX operators on constants ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/ConstantEval.h"
#include "compiler/frontend/ImportError.h"
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/operators/Elements.h"
#include "compiler/operators/Operator.h"
#include <cassert>
#include <onnx/onnx_pb.h>

namespace tw::frontend {

using llvm::ArrayRef;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

const std::shared_ptr<const HostTensor> &ConstantElements::get() {
  if (make) {
    tensor = std::make_shared<const HostTensor>(make());
    make = nullptr; // and what it holds
  }
  return tensor;
}

void ConstantElements::release(Make again) {
  make = std::move(again);
  tensor = nullptr;
}

int64_t Constant::count() const {
  int64_t product = 1;
  for (int64_t dim : shape)
    product *= dim;
  return product;
}

int64_t Constant::integer(int64_t i) const { return operators::integerAt(*storage->get(), splat ? 0 : i); }
double Constant::real(int64_t i) const { return operators::realAt(*storage->get(), splat ? 0 : i); }

std::shared_ptr<const HostTensor> Constant::tensor() const {
  const std::shared_ptr<const HostTensor> &stored = storage->get();
  const std::vector<int64_t> dims(shape.begin(), shape.end());
  if (!splat && stored->shape == dims)
    return stored;
  HostTensor whole{"", kind, dims, {}};
  if (!splat) {
    whole.bytes = stored->bytes;
  } else {
    const std::vector<uint8_t> &one = stored->bytes;
    whole.bytes.resize(size_t(size()));
    for (size_t at = 0; at < whole.bytes.size(); at += one.size())
      std::copy(one.begin(), one.end(), whole.bytes.begin() + std::ptrdiff_t(at));
  }
  return std::make_shared<const HostTensor>(std::move(whole));
}

/// A constant whose elements `make` gives when they are needed; a splat's one element. `make` holds what it reads.
static ConstantRef produce(ElementKind kind, ArrayRef<int64_t> shape, bool splat, ConstantElements::Make make) {
  const std::vector<int64_t> dims = shape.vec();
  auto count = countTensorElements(dims);
  if (!count)
    throw ImportError{"the result would have shape " + formatShape(shape) + ": at most 2^31 elements are allowed"};
  auto result = std::make_shared<Constant>();
  result->kind = kind;
  result->shape.assign(shape.begin(), shape.end());
  result->splat = splat && *count != 0;
  const size_t bytes = size_t(result->stored()) * elementBytes(kind);
  auto complete = [=, isSplat = result->splat, make = std::move(make)] {
    HostTensor made = bytes ? make() : HostTensor();
    assert(made.bytes.size() == bytes && "of the type and shape that was said");
    return HostTensor{"", kind, isSplat ? std::vector<int64_t>() : dims, std::move(made.bytes)};
  };
  // A chain of results that wait for a reader is no longer than memory is large.
  result->storage = bytes < kManyBytes ? std::make_shared<ConstantElements>(complete())
                                       : std::make_shared<ConstantElements>(ConstantElements::Make(std::move(complete)));
  return result;
}

ConstantRef makeInts(ArrayRef<int64_t> values) { return makeConstant(operators::makeInts(values.vec())); }

ConstantRef makeSplat(ElementKind kind, ArrayRef<int64_t> shape, double value) {
  return produce(kind, shape, true, [kind, value] {
    HostTensor one = operators::makeTensor(kind, {});
    operators::setReal(one, 0, value);
    return one;
  });
}

ConstantRef makeConstant(ElementKind kind, ArrayRef<int64_t> shape, std::vector<uint8_t> bytes) {
  auto result = std::make_shared<Constant>();
  result->kind = kind;
  result->shape.assign(shape.begin(), shape.end());
  result->splat = result->count() != 0 && bytes.size() == elementBytes(kind);
  result->storage = std::make_shared<ConstantElements>(
      HostTensor{"", kind, result->splat ? std::vector<int64_t>() : shape.vec(), std::move(bytes)});
  return result;
}

ConstantRef makeConstant(HostTensor tensor) {
  auto result = std::make_shared<Constant>();
  result->name = std::move(tensor.name);
  result->kind = tensor.type;
  result->shape.assign(tensor.shape.begin(), tensor.shape.end());
  result->storage = std::make_shared<ConstantElements>(std::move(tensor));
  return result;
}

std::vector<int64_t> integersOf(const Constant &x) {
  if (x.count() > (1 << 16))
    throw ImportError{"a list of " + std::to_string(x.count()) + " integers is too long: at most 2^16 are allowed"};
  std::vector<int64_t> values(size_t(x.count()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = x.integer(int64_t(i));
  return values;
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

/// A node of ONNX's own operator `type`.
static onnx::NodeProto nodeOf(StringRef type) {
  onnx::NodeProto node;
  node.set_op_type(type.str());
  node.add_output("y");
  return node;
}

static void setInt(onnx::NodeProto &node, const char *name, int64_t value) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

/// The version of ONNX's own operators that nodes of nodeOf() are of.
static constexpr int64_t kOpset = 13;

/// Result 0 of the node.
static HostTensor run(const onnx::NodeProto &node, int64_t opset, std::vector<operators::Value> inputs) {
  const operators::Operator *op = operators::find("", node.op_type());
  assert(op && "one of ONNX's own operators");
  try {
    operators::Call call(node, opset, std::move(inputs));
    op->evaluate(call);
    return *call.takeOutputs().at(0).tensor;
  } catch (const operators::Error &error) {
    throw ImportError{error.message};
  }
}

ConstantRef evalElementwise(const onnx::NodeProto &node, int64_t opset, ArrayRef<ConstantRef> inputs) {
  // `dense`: the shape of what is no splat.
  Shape shape, dense;
  bool splat = true;
  std::vector<operators::Value> empty;
  for (const ConstantRef &x : inputs) {
    auto wider = graph::broadcastShapes(shape, x->shape);
    if (!wider)
      throw ImportError{llvm::toString(wider.takeError())};
    shape = *wider;
    if (!x->splat)
      dense = llvm::cantFail(graph::broadcastShapes(dense, x->shape));
    splat &= x->splat;
    empty.push_back(operators::makeTensor(x->kind, {0}));
  }
  // On no elements, the operator says whether it takes the types, and of which type its result is.
  const ElementKind kind = run(node, opset, std::move(empty)).type;
  // Where the others have the result's shape, one element stands for a splat.
  const bool areScalars = splat || dense == shape;
  return produce(kind, shape, splat, [node, opset, areScalars, inputs = inputs.vec()] {
    std::vector<operators::Value> values;
    for (const ConstantRef &x : inputs)
      values.emplace_back(x->splat && areScalars ? x->storage->get() : x->tensor());
    return run(node, opset, std::move(values));
  });
}

ConstantRef evalElementwise(const char *type, ArrayRef<ConstantRef> inputs) {
  return evalElementwise(nodeOf(type), kOpset, inputs);
}

ConstantRef evalBinary(BinaryKind kind, const ConstantRef &a, const ConstantRef &b) {
  static const char *const types[] = {"Add", "Sub", "Mul", "Div", "Min", "Max"};
  if (kind == BinaryKind::Div && !isFloat(a->kind))
    for (int64_t i = 0, e = b->stored(); i < e; ++i)
      if (b->integer(i) == 0)
        throw ImportError{"an integer is divided by 0"};
  return evalElementwise(types[size_t(kind)], {a, b});
}

ConstantRef evalCast(const ConstantRef &x, ElementKind kind) {
  return produce(kind, x->shape, x->splat, [x, kind] { return operators::toKind(*x->storage->get(), kind); });
}

ConstantRef evalReduce(StringRef type, const ConstantRef &x, ArrayRef<int64_t> axes, bool keepdims) {
  if (axes.empty())
    return x;
  Shape shape;
  int64_t reduced = 1;
  for (size_t i = 0; i < x->shape.size(); ++i) {
    const bool gone = llvm::is_contained(axes, int64_t(i));
    reduced *= gone ? x->shape[i] : 1;
    if (!gone || keepdims)
      shape.push_back(gone ? 1 : x->shape[i]);
  }
  if (reduced == 0 && type != "ReduceSum" && type != "ReduceProd")
    throw ImportError{"a dim of 0 elements is reduced"};
  onnx::NodeProto node = nodeOf(type);
  setInt(node, "keepdims", keepdims);
  onnx::AttributeProto &list = *node.add_attribute();
  list.set_name("axes");
  list.set_type(onnx::AttributeProto::INTS);
  for (int64_t axis : axes)
    list.add_ints(axis);
  constexpr int64_t kAxesAreAttribute = 11;
  // One element says whether the operator takes the type.
  run(node, kAxesAreAttribute, {operators::makeTensor(x->kind, std::vector<int64_t>(x->shape.size(), 1))});
  return produce(x->kind, shape, false, [x, node] { return run(node, kAxesAreAttribute, {x->tensor()}); });
}

ConstantRef evalQuantize(const ConstantRef &x, ArrayRef<float> scales, ArrayRef<int32_t> zeroPoints, int64_t axis,
                         ElementKind kind) {
  const bool isPerTensor = scales.size() == 1;
  const std::vector<int64_t> dims = isPerTensor ? std::vector<int64_t>() : std::vector<int64_t>{int64_t(scales.size())};
  HostTensor scale = operators::makeTensor(ElementKind::F32, dims), zero = operators::makeTensor(kind, dims);
  for (size_t i = 0; i < scales.size(); ++i) {
    operators::setReal(scale, int64_t(i), scales[i]);
    operators::setInteger(zero, int64_t(i), zeroPoints[i]);
  }
  onnx::NodeProto node = nodeOf("QuantizeLinear");
  setInt(node, "axis", axis);
  const bool splat = x->splat && isPerTensor;
  return produce(kind, x->shape, splat, [=] {
    return run(node, kOpset, {splat ? x->storage->get() : x->tensor(), scale, zero});
  });
}

//===----------------------------------------------------------------------===//
// Moving elements
//===----------------------------------------------------------------------===//

static std::vector<int64_t> stridesOf(ArrayRef<int64_t> shape) { return operators::stridesOf(shape.vec()); }

/// The view of `x` with element (i0, i1, ..) at base + i0 * strides[0] + .., copied into row-major order.
static ConstantRef strided(const ConstantRef &x, int64_t base, std::vector<int64_t> strides, ArrayRef<int64_t> shape) {
  return produce(x->kind, shape, x->splat, [x, base, strides, dims = shape.vec()] {
    const HostTensor &from = *x->storage->get();
    if (x->splat)
      return from;
    HostTensor y = operators::makeTensor(x->kind, dims);
    operators::copyBlock(dims, from, base, strides, y, 0, operators::stridesOf(dims));
    return y;
  });
}

ConstantRef evalReshape(const ConstantRef &x, ArrayRef<int64_t> shape) {
  if (x->shape == Shape(shape.begin(), shape.end()))
    return x;
  auto result = std::make_shared<Constant>(*x);
  result->shape.assign(shape.begin(), shape.end());
  assert(result->count() == x->count() && "a reshape keeps the elements");
  return result;
}

ConstantRef evalTranspose(const ConstantRef &x, ArrayRef<int64_t> perm) {
  const std::vector<int64_t> from = stridesOf(x->shape);
  std::vector<int64_t> strides;
  Shape shape;
  for (int64_t dim : perm) {
    strides.push_back(from[size_t(dim)]);
    shape.push_back(x->shape[size_t(dim)]);
  }
  return strided(x, 0, strides, shape);
}

ConstantRef evalSlice(const ConstantRef &x, ArrayRef<int64_t> starts, ArrayRef<int64_t> steps, ArrayRef<int64_t> sizes) {
  std::vector<int64_t> strides = stridesOf(x->shape);
  int64_t base = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    base += starts[i] * strides[i];
    // A step beyond the dim is never taken; without this the product could overflow.
    strides[i] *= sizes[i] > 1 ? steps[i] : 1;
  }
  return strided(x, base, strides, sizes);
}

ConstantRef evalExpand(const ConstantRef &x, ArrayRef<int64_t> shape) {
  if (x->shape == Shape(shape.begin(), shape.end()))
    return x;
  return strided(x, 0, operators::broadcastStrides({x->shape.begin(), x->shape.end()}, shape.vec()), shape);
}

ConstantRef evalConcat(ArrayRef<ConstantRef> inputs, int64_t axis) {
  Shape shape = inputs.front()->shape;
  shape[size_t(axis)] = 0;
  for (const ConstantRef &input : inputs)
    shape[size_t(axis)] += input->shape[size_t(axis)];
  return produce(inputs.front()->kind, shape, false, [inputs = inputs.vec(), axis] {
    std::vector<std::shared_ptr<const HostTensor>> tensors;
    std::vector<const HostTensor *> parts;
    for (const ConstantRef &input : inputs) {
      tensors.push_back(input->tensor());
      parts.push_back(tensors.back().get());
    }
    return operators::concatenated(parts, axis);
  });
}

ConstantRef evalGather(const ConstantRef &x, const ConstantRef &indices, int64_t axis) {
  Shape shape(x->shape.begin(), x->shape.begin() + axis);
  shape.append(indices->shape.begin(), indices->shape.end());
  shape.append(x->shape.begin() + axis + 1, x->shape.end());
  // The operator would say so when the elements are read.
  const int64_t limit = x->shape[size_t(axis)];
  for (int64_t i = 0, e = indices->stored(); i < e; ++i)
    if (int64_t index = indices->integer(i); index < -limit || index >= limit)
      throw ImportError{"index is " + std::to_string(index) + ", expected " + std::to_string(-limit) + " to " +
                        std::to_string(limit - 1)};
  onnx::NodeProto node = nodeOf("Gather");
  setInt(node, "axis", axis);
  return produce(x->kind, shape, x->splat, [x, indices, node] {
    return x->splat ? *x->storage->get() : run(node, kOpset, {x->tensor(), indices->tensor()});
  });
}

ConstantRef evalPad(const ConstantRef &x, ArrayRef<int64_t> low, ArrayRef<int64_t> high, const Constant &value) {
  Shape shape;
  for (size_t i = 0; i < x->shape.size(); ++i)
    shape.push_back(x->shape[i] + low[i] + high[i]);
  const std::vector<int64_t> strides = stridesOf(shape);
  int64_t base = 0;
  for (size_t i = 0; i < strides.size(); ++i)
    base += low[i] * strides[i];
  return produce(x->kind, shape, false,
                 [x, value = value.storage->get(), strides, base, dims = std::vector<int64_t>(shape.begin(), shape.end())] {
                   HostTensor y = operators::makeTensor(x->kind, dims);
                   operators::take(*value, y, [](int64_t) { return 0; });
                   const std::shared_ptr<const HostTensor> inner = x->tensor();
                   operators::copyBlock(inner->shape, *inner, 0, operators::stridesOf(inner->shape), y, base, strides);
                   return y;
                 });
}

} // namespace tw::frontend
