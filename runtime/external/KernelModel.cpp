//===- KernelModel.cpp - Inline kernels for other runtimes ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/external/KernelModel.h"

#include <cassert>
#include <cstring>
#include <onnx/onnx_pb.h>

using namespace tw;
using namespace tw::runtime;

KernelShapes runtime::shapesOf(const InlineKernel &kernel) {
  auto [m, n, k] = kernel.gemm;
  if (!kernel.isConv)
    return {{m, k}, {k, n}, {m, n}};
  auto [images, h, w, c] = kernel.input;
  auto [kh, kw, oc] = kernel.window;
  auto extent = [&](int64_t size, int64_t window) { return (size + 2 * kernel.pad - window) / kernel.stride + 1; };
  return {{images, c, h, w}, {oc, c / kernel.groups, kh, kw}, {images, oc, extent(h, kh), extent(w, kw)}};
}

/// Moves the dims of `tensor`: dim i of the result is dim order[i].
static HostTensor transposed(const HostTensor &tensor, const std::array<size_t, 4> &order) {
  assert(tensor.shape.size() == 4 && "a tensor of four dims");
  const size_t bytes = frontend::elementBytes(tensor.type);
  std::array<size_t, 4> strides{}, sizes{}, steps{};
  size_t stride = bytes;
  for (size_t i = 4; i-- > 0; stride *= size_t(tensor.shape[i]))
    strides[i] = stride;
  HostTensor result{tensor.name, tensor.type, {}, std::vector<uint8_t>(tensor.bytes.size())};
  for (size_t i = 0; i < 4; ++i) {
    result.shape.push_back(tensor.shape[order[i]]);
    sizes[i] = size_t(tensor.shape[order[i]]);
    steps[i] = strides[order[i]];
  }
  uint8_t *to = result.bytes.data();
  for (size_t a = 0; a < sizes[0]; ++a)
    for (size_t b = 0; b < sizes[1]; ++b)
      for (size_t c = 0; c < sizes[2]; ++c)
        for (size_t d = 0; d < sizes[3]; ++d, to += bytes)
          std::memcpy(to, tensor.bytes.data() + a * steps[0] + b * steps[1] + c * steps[2] + d * steps[3], bytes);
  return result;
}

HostTensor runtime::toChannelsFirst(const InlineKernel &kernel, const HostTensor &tensor) {
  return kernel.isConv ? transposed(tensor, {0, 3, 1, 2}) : tensor;
}

HostTensor runtime::toChannelsLast(const InlineKernel &kernel, const HostTensor &tensor) {
  return kernel.isConv ? transposed(tensor, {0, 2, 3, 1}) : tensor;
}

HostTensor runtime::weightsOf(const InlineKernel &kernel, uint64_t seed) {
  HostTensor weights = inlineKernelWeights(kernel, seed);
  return kernel.isConv ? transposed(weights, {3, 2, 0, 1}) : weights;
}

static void addInitializer(onnx::GraphProto &graph, const std::string &name, int type, const std::vector<int64_t> &shape,
                           const void *data, size_t bytes) {
  onnx::TensorProto &tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (int64_t size : shape)
    tensor.add_dims(size);
  tensor.set_raw_data(data, bytes);
}

static void describe(onnx::ValueInfoProto &info, const std::string &name, int type, const std::vector<int64_t> &shape) {
  info.set_name(name);
  info.mutable_type()->mutable_tensor_type()->set_elem_type(type);
  for (int64_t size : shape)
    info.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(size);
}

std::string runtime::onnxModelOf(const InlineKernel &kernel, uint64_t seed) {
  assert(kernel.type != timing::ArrayType::Bf16 && "no bf16 here");
  const bool isInt8 = kernel.type == timing::ArrayType::Int8;
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.set_producer_name("tilewright");
  model.add_opset_import()->set_version(13);
  onnx::GraphProto &graph = *model.mutable_graph();
  graph.set_name(kernel.isConv ? "conv" : "gemm");
  KernelShapes shapes = shapesOf(kernel);
  const int type = isInt8 ? onnx::TensorProto::UINT8 : onnx::TensorProto::FLOAT;
  describe(*graph.add_input(), "x", type, shapes.x);
  describe(*graph.add_output(), "y", type, shapes.y);
  HostTensor weights = weightsOf(kernel, seed);
  addInitializer(graph, "w", isInt8 ? onnx::TensorProto::INT8 : onnx::TensorProto::FLOAT, shapes.w, weights.bytes.data(),
                 weights.bytes.size());
  onnx::NodeProto &node = *graph.add_node();
  node.set_name(graph.name());
  node.add_output("y");
  if (isInt8) {
    const float multiplier = requantizeMultiplier(kernel), one = 1;
    const uint8_t middle = 128;
    const int8_t zero = 0;
    addInitializer(graph, "x_scale", onnx::TensorProto::FLOAT, {}, &multiplier, sizeof(float));
    addInitializer(graph, "one", onnx::TensorProto::FLOAT, {}, &one, sizeof(float));
    addInitializer(graph, "middle", onnx::TensorProto::UINT8, {}, &middle, 1);
    addInitializer(graph, "zero", onnx::TensorProto::INT8, {}, &zero, 1);
    node.set_op_type(kernel.isConv ? "QLinearConv" : "QLinearMatMul");
    for (const char *input : {"x", "x_scale", "middle", "w", "one", "zero", "one", "middle"})
      node.add_input(input);
  } else {
    node.set_op_type(kernel.isConv ? "Conv" : "MatMul");
    for (const char *input : {"x", "w"})
      node.add_input(input);
  }
  if (kernel.isConv) {
    auto attribute = [&](const char *name, std::initializer_list<int64_t> values) {
      onnx::AttributeProto &entry = *node.add_attribute();
      entry.set_name(name);
      entry.set_type(onnx::AttributeProto::INTS);
      for (int64_t value : values)
        entry.add_ints(value);
    };
    attribute("strides", {kernel.stride, kernel.stride});
    attribute("pads", {kernel.pad, kernel.pad, kernel.pad, kernel.pad});
    onnx::AttributeProto &group = *node.add_attribute();
    group.set_name("group");
    group.set_type(onnx::AttributeProto::INT);
    group.set_i(kernel.groups);
  }
  return model.SerializeAsString();
}
