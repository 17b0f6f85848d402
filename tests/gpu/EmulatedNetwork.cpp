//===- EmulatedNetwork.cpp - A GPU program on the PTX emulator ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/EmulatedNetwork.h"

#include <algorithm>

using namespace tw;
using namespace tw::test;

uint64_t test::bytesOf(const gpu::Tensor &tensor) {
  uint64_t bytes = gpu::bytesOf(tensor.element);
  for (int64_t size : tensor.shape)
    bytes *= uint64_t(size);
  return bytes;
}

static ptxemu::Type typeOf(gpu::Element element) {
  switch (element) {
  case gpu::Element::F32:
    return ptxemu::Type::F32;
  case gpu::Element::Bf16:
    return ptxemu::Type::BF16;
  case gpu::Element::F16:
    return ptxemu::Type::F16;
  default:
    return ptxemu::Type::U8;
  }
}

EmulatedNetwork::EmulatedNetwork(gpu::Program program) : held(std::move(program)) {
  arena = device.allocate(std::max<uint64_t>(held.arenaBytes, 1), "arena");
  constants = device.upload(held.constants, "constants");
  for (const gpu::Kernel &kernel : held.kernels)
    modules.push_back(ptxemu::Module::parse(kernel.ptx));
  for (const gpu::TensorMap &map : held.maps) {
    ptxemu::TensorMap encoded;
    encoded.type = typeOf(map.element);
    encoded.rank = unsigned(map.dims.size());
    encoded.address = addressOf(map.place);
    std::copy(map.dims.begin(), map.dims.end(), encoded.dims.begin());
    std::copy(map.strides.begin(), map.strides.end(), encoded.strides.begin());
    std::copy(map.box.begin(), map.box.end(), encoded.box.begin());
    std::copy(map.elementStrides.begin(), map.elementStrides.end(), encoded.elementStrides.begin());
    encoded.swizzle = map.swizzleBytes == 128  ? ptxemu::Swizzle::B128
                      : map.swizzleBytes == 64 ? ptxemu::Swizzle::B64
                                               : ptxemu::Swizzle::B32;
    if (map.isIm2col()) {
      encoded.im2col = true;
      std::copy(map.lower.begin(), map.lower.end(), encoded.lowerCorner.begin());
      std::copy(map.upper.begin(), map.upper.end(), encoded.upperCorner.begin());
      encoded.channelsPerPixel = map.channels;
      encoded.pixelsPerColumn = map.pixels;
    }
    maps.push_back(device.encode(encoded));
  }
}

std::vector<std::vector<uint8_t>> EmulatedNetwork::run(const std::vector<std::vector<uint8_t>> &inputs, size_t variant,
                                                       const ptxemu::LaunchOptions &options) {
  for (size_t i = 0; i < inputs.size(); ++i)
    device.write(addressOf(held.inputs.at(i).place), inputs[i].data(), inputs[i].size());
  for (const gpu::Step &step : held.steps)
    for (const gpu::Launch &launch : step.variants[std::min(variant, step.variants.size() - 1)].launches) {
      ptxemu::Arguments arguments;
      for (const gpu::Argument &argument : launch.arguments)
        if (auto *map = std::get_if<gpu::MapIndex>(&argument))
          arguments.add(maps[map->index]);
        else if (auto *place = std::get_if<gpu::Place>(&argument))
          arguments.add(addressOf(*place));
        else
          arguments.add(std::get<uint32_t>(argument));
      ptxemu::LaunchShape shape;
      shape.grid.x = launch.grid;
      shape.block.x = launch.block;
      shape.cluster.x = launch.cluster;
      shape.dynamicSharedBytes = launch.sharedBytes;
      ptxemu::LaunchOptions asked = options;
      asked.programmatic = launch.overlaps;
      device.launch(*modules[launch.kernel], held.kernels[launch.kernel].name, shape, arguments, asked);
    }
  std::vector<std::vector<uint8_t>> outputs;
  for (const gpu::Tensor &tensor : held.outputs) {
    outputs.emplace_back(bytesOf(tensor));
    device.read(outputs.back().data(), addressOf(tensor.place), outputs.back().size());
  }
  return outputs;
}
