//===- OpenClNetwork.cpp - A network on an OpenCL device ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/opencl/OpenClNetwork.h"

#include <algorithm>
#include <chrono>

using namespace tw;
using namespace tw::runtime;
using namespace tw::runtime::opencl;

namespace {
// source: The OpenCL Specification 1.2, header cl.h
constexpr uint64_t kReadWrite = 1, kReadOnly = 4;
constexpr uint32_t kRegion = 0x1220, kBuildLog = 0x1183, kTrue = 1;

/// cl_buffer_region.
struct Region {
  size_t origin, size;
};

uint64_t bytesOf(const gpu::Tensor &tensor) {
  uint64_t bytes = gpu::bytesOf(tensor.element);
  for (int64_t size : tensor.shape)
    bytes *= uint64_t(size);
  return bytes;
}
/// An error if a number of the input is no place of its dim.
template <typename T> Status checkPlaces(const gpu::Tensor &tensor, const void *bytes, int64_t extent) {
  const T *begin = static_cast<const T *>(bytes), *end = begin + bytesOf(tensor) / sizeof(T);
  const T *outside = std::find_if(begin, end, [=](int64_t place) { return place < -extent || place >= extent; });
  return outside == end ? Status()
                        : userError("input '" + tensor.name + "': index " + std::to_string(int64_t(*outside)) +
                                    " is out of range for a dim of " + std::to_string(extent));
}
} // namespace

Status OpenClNetwork::check(int32_t result, const std::string &what) const {
  return result ? userError("OpenCL device " + info.name + " fails at " + what + ": " + errorName(result)) : Status();
}

StatusOr<std::unique_ptr<OpenClNetwork>> OpenClNetwork::load(tw::opencl::Program program, std::shared_ptr<Loader> loader,
                                                             const DeviceInfo &device) {
  std::unique_ptr<OpenClNetwork> network(new OpenClNetwork(std::move(program), std::move(loader), device));
  if (Status status = network->initialise(); !status)
    return status.error();
  return network;
}

OpenClNetwork::~OpenClNetwork() {
  for (Handle kernel : kernels)
    api.releaseKernel(kernel);
  for (Handle part : parts)
    api.releaseMemory(part);
  for (Handle memory : {arena, constants})
    if (memory)
      api.releaseMemory(memory);
  if (built)
    api.releaseProgram(built);
  if (queue)
    api.releaseQueue(queue);
  if (context)
    api.releaseContext(context);
}

Status OpenClNetwork::initialise() {
  const std::string where = "OpenCL device " + info.name;
  if (held.needsDouble && !info.hasDouble)
    return userError(where + " has no double precision (cl_khr_fp64), which the network needs");
  if (info.alignment > tw::opencl::kAlignment)
    return userError(where + " wants tensors at multiples of " + std::to_string(info.alignment) + " bytes, but they lie at " +
                     std::to_string(tw::opencl::kAlignment));
  for (uint64_t bytes : {held.arenaBytes, uint64_t(held.constants.size())})
    if (bytes > info.largestBuffer)
      return userError(where + " has buffers of " + std::to_string(info.largestBuffer) +
                       " bytes at most, but the network needs " + std::to_string(bytes));
  int32_t error = 0;
  const intptr_t properties[] = {0x1084 /* CL_CONTEXT_PLATFORM */, reinterpret_cast<intptr_t>(info.platform), 0};
  context = api.createContext(properties, 1, &info.device, nullptr, nullptr, &error);
  if (Status status = check(error, "making a context"); !status)
    return status;
  queue = api.createQueue(context, info.device, 0, &error);
  if (Status status = check(error, "making a queue"); !status)
    return status;
  arena = api.createBuffer(context, kReadWrite, std::max<uint64_t>(held.arenaBytes, tw::opencl::kAlignment), nullptr, &error);
  if (Status status = check(error, "allocating " + std::to_string(held.arenaBytes) + " bytes"); !status)
    return status;
  constants =
      api.createBuffer(context, kReadOnly, std::max<uint64_t>(held.constants.size(), tw::opencl::kAlignment), nullptr, &error);
  if (Status status = check(error, "allocating weights"); !status)
    return status;
  if (!held.constants.empty())
    if (Status status = check(
            api.enqueueWrite(queue, constants, kTrue, 0, held.constants.size(), held.constants.data(), 0, nullptr, nullptr),
            "copying weights");
        !status)
      return status;
  if (held.steps.empty())
    return {};
  const char *text = held.source.c_str();
  const size_t length = held.source.size();
  built = api.createProgram(context, 1, &text, &length, &error);
  if (Status status = check(error, "taking the kernels"); !status)
    return status;
  const std::string options = std::string(tw::opencl::kBuildOptions) + (info.roundsDivisions ? tw::opencl::kRoundedOption : "");
  if (const int32_t result = api.buildProgram(built, 1, &info.device, options.c_str(), nullptr, nullptr)) {
    std::string log(1 << 16, '\0');
    api.getBuildInfo(built, info.device, kBuildLog, log.size(), log.data(), nullptr);
    log.resize(std::min(log.size(), log.find('\0')));
    return internalError("the compiler of " + where + " refuses the kernels: " + errorName(result) + "\n" + log);
  }
  for (const tw::opencl::Step &step : held.steps) {
    Handle kernel = api.createKernel(built, step.kernel.c_str(), &error);
    if (Status status = check(error, "finding kernel " + step.kernel); !status)
      return status;
    kernels.push_back(kernel);
    for (size_t i = 0; i < step.arguments.size(); ++i) {
      StatusOr<Handle> memory = memoryOf(step.arguments[i]);
      if (!memory)
        return memory.error();
      if (Status status = check(api.setArgument(kernel, uint32_t(i), sizeof(Handle), &*memory), "setting an argument"); !status)
        return status;
    }
  }
  return {};
}

StatusOr<Handle> OpenClNetwork::memoryOf(const tw::opencl::Argument &argument) {
  const Region region{size_t(argument.place.offset), size_t(std::max<uint64_t>(argument.bytes, 1))};
  int32_t error = 0;
  Handle part = api.createSubBuffer(argument.place.isConstant ? constants : arena, 0, kRegion, &region, &error);
  if (Status status = check(error, "naming a part of its memory"); !status)
    return status.error();
  parts.push_back(part);
  return part;
}

Status OpenClNetwork::setInput(size_t index, const void *bytes) {
  const gpu::Tensor &tensor = held.inputs[index];
  for (const tw::opencl::IndexInput &places : held.indexInputs) {
    if (places.input != index)
      continue;
    Status status = tensor.element == gpu::Element::I64   ? checkPlaces<int64_t>(tensor, bytes, places.extent)
                    : tensor.element == gpu::Element::I32 ? checkPlaces<int32_t>(tensor, bytes, places.extent)
                                                          : Status();
    if (!status)
      return status;
  }
  const uint64_t size = bytesOf(tensor);
  return size ? check(api.enqueueWrite(queue, arena, kTrue, tensor.place.offset, size, bytes, 0, nullptr, nullptr),
                      "copying an input")
              : Status();
}

Status OpenClNetwork::getOutput(size_t index, void *bytes) {
  const gpu::Tensor &tensor = held.outputs[index];
  const uint64_t size = bytesOf(tensor);
  return size ? check(api.enqueueRead(queue, arena, kTrue, tensor.place.offset, size, bytes, 0, nullptr, nullptr),
                      "copying an output")
              : Status();
}

StatusOr<double> OpenClNetwork::run() {
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < kernels.size(); ++i) {
    const tw::opencl::Step &step = held.steps[i];
    size_t global[3], local[3];
    std::copy(step.global.begin(), step.global.end(), global);
    std::copy(step.local.begin(), step.local.end(), local);
    if (Status status = check(api.enqueueKernel(queue, kernels[i], 3, nullptr, global, local, 0, nullptr, nullptr),
                              "launching kernel " + step.kernel);
        !status)
      return status.error();
  }
  if (Status status = check(api.finish(queue), "running kernels"); !status)
    return status.error();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
