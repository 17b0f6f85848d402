//===- Emulator.cpp - The device's host side ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Emulator.h"
#include "tests/gpu/emulator/Machine.h"

#include <algorithm>

using namespace tw::ptxemu;

static constexpr uint64_t mapMark = 0x50414d524f534e54; // "TNSORMAP"

DevicePointer Device::allocate(uint64_t bytes, const std::string &name) {
  return memory.allocate(bytes, name.empty() ? "allocation " + std::to_string(memory.allocations.size()) : name);
}

void Device::free(DevicePointer pointer) { memory.free(pointer); }

void Device::write(DevicePointer pointer, const void *values, uint64_t bytes) {
  GlobalMemory::Allocation &allocation = memory.find(pointer, bytes, "write of the host");
  const uint64_t offset = pointer & 0xffffffffu;
  std::memcpy(allocation.bytes.data() + offset, values, bytes);
  std::fill_n(allocation.initialized.begin() + long(offset), bytes, uint8_t(1));
  for (uint64_t g = offset / 16; g < (offset + bytes + 15) / 16; ++g)
    allocation.writers[g] = {};
  unfinishedFrom = launches + 1;
}

void Device::fill(DevicePointer pointer, uint8_t value, uint64_t bytes) {
  write(pointer, std::vector<uint8_t>(bytes, value).data(), bytes);
}

void Device::read(void *values, DevicePointer pointer, uint64_t bytes) {
  const GlobalMemory::Allocation &allocation = memory.find(pointer, bytes, "read of the host");
  memory.checkInitialized(allocation, pointer, bytes);
  std::memcpy(values, allocation.bytes.data() + (pointer & 0xffffffffu), bytes);
  unfinishedFrom = launches + 1;
}

EncodedTensorMap Device::encode(const TensorMap &map) {
  map.check();
  EncodedTensorMap result;
  const uint64_t words[2] = {mapMark, maps.size()};
  std::memcpy(result.bytes.data(), words, sizeof words);
  maps.push_back(map);
  return result;
}

const TensorMap *Device::decode(const uint8_t *bytes) const {
  uint64_t words[2];
  std::memcpy(words, bytes, sizeof words);
  return words[0] == mapMark && words[1] < maps.size() ? &maps[words[1]] : nullptr;
}

static std::vector<uint8_t> placeParameters(const Kernel &kernel, const Arguments &arguments) {
  if (arguments.values.size() != kernel.parameters.size())
    fail(ErrorKind::Launch, "kernel %s takes %zu parameters, the launch has %zu", kernel.name.c_str(), kernel.parameters.size(),
         arguments.values.size());
  std::vector<uint8_t> bytes(kernel.parameterBytes);
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Parameter &parameter = kernel.parameters[i];
    const std::vector<uint8_t> &value = arguments.values[i];
    if (value.size() != parameter.size)
      fail(ErrorKind::Launch, "parameter %zu of kernel %s has %u bytes, the launch gives %zu", i, kernel.name.c_str(),
           parameter.size, value.size());
    std::copy(value.begin(), value.end(), bytes.begin() + parameter.offset);
  }
  return bytes;
}

static void checkShape(const Kernel &kernel, const LaunchShape &shape) {
  const Extent &block = shape.block, &grid = shape.grid, &cluster = shape.cluster;
  const char *name = kernel.name.c_str();
  if (block.count() == 0 || block.count() > 1024 || block.z > 64)
    fail(ErrorKind::Launch, "a block of %u x %u x %u threads; 1 to 1024 are allowed", block.x, block.y, block.z);
  if (grid.count() == 0 || grid.y > 65535 || grid.z > 65535)
    fail(ErrorKind::Launch, "a grid of %u x %u x %u is not allowed", grid.x, grid.y, grid.z);
  const auto total = [](const unsigned(&extents)[3]) { return uint64_t(extents[0]) * extents[1] * extents[2]; };
  if (kernel.maxntid[0] && block.count() > total(kernel.maxntid))
    fail(ErrorKind::Launch, "kernel %s is launched with %llu threads, .maxntid allows %llu", name,
         (unsigned long long)block.count(), (unsigned long long)total(kernel.maxntid));
  if (kernel.reqntid[0] && (block.x != kernel.reqntid[0] || block.y != kernel.reqntid[1] || block.z != kernel.reqntid[2]))
    fail(ErrorKind::Launch, "kernel %s is launched with %u x %u x %u threads, .reqntid wants %u x %u x %u", name, block.x,
         block.y, block.z, kernel.reqntid[0], kernel.reqntid[1], kernel.reqntid[2]);
  if (kernel.cluster[0] && (cluster.x != kernel.cluster[0] || cluster.y != kernel.cluster[1] || cluster.z != kernel.cluster[2]))
    fail(ErrorKind::Launch, "kernel %s is launched with clusters of %u x %u x %u, .reqnctapercluster wants %u x %u x %u", name,
         cluster.x, cluster.y, cluster.z, kernel.cluster[0], kernel.cluster[1], kernel.cluster[2]);
  if (cluster.count() == 0 || cluster.count() > 8)
    fail(ErrorKind::Launch, "a cluster of %llu CTAs; 1 to 8 are portable", (unsigned long long)cluster.count());
  if (grid.x % cluster.x || grid.y % cluster.y || grid.z % cluster.z)
    fail(ErrorKind::Launch, "the grid of %u x %u x %u is no multiple of the cluster of %u x %u x %u", grid.x, grid.y, grid.z,
         cluster.x, cluster.y, cluster.z);
  if (kernel.staticSharedBytes + shape.dynamicSharedBytes > maxSharedBytes)
    fail(ErrorKind::Launch, "kernel %s needs %u bytes of shared memory; a CTA has %u", name,
         kernel.staticSharedBytes + shape.dynamicSharedBytes, maxSharedBytes);
}

LaunchResult Device::launch(const Module &module, const std::string &name, const LaunchShape &shape, const Arguments &arguments,
                            const LaunchOptions &options) {
  const Kernel &kernel = module.kernel(name);
  checkShape(kernel, shape);
  const std::vector<uint8_t> parameters = placeParameters(kernel, arguments);
  // The variables of a module live as long as the device.
  if (loaded != &module) {
    if (loaded)
      modules[loaded] = std::move(memory.moduleVariables);
    auto found = modules.find(&module);
    memory.moduleVariables.clear();
    if (found != modules.end()) {
      memory.moduleVariables = std::move(found->second);
    } else {
      for (const Variable &variable : module.variables) {
        GlobalMemory::Allocation allocation;
        allocation.name = variable.name;
        allocation.address = variable.address;
        allocation.constant = variable.space == Space::Const;
        allocation.bytes = variable.values;
        allocation.bytes.resize(variable.size); // without an initialiser: zeros
        allocation.initialized.assign(variable.size, 1);
        allocation.writers.resize((variable.size + 15) / 16);
        memory.moduleVariables.push_back(std::move(allocation));
      }
    }
    loaded = &module;
  }
  ++launches;
  if (!options.programmatic)
    unfinishedFrom = launches;
  return Grid(*this, module, kernel, shape, parameters, options).run();
}
