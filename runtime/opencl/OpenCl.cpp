//===- OpenCl.cpp - OpenCL through the ordinary loader --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/opencl/OpenCl.h"

#include <algorithm>
#include <dlfcn.h>

using namespace tw;
using namespace tw::runtime;
using namespace tw::runtime::opencl;

namespace {
// source: The OpenCL Specification 1.2, header cl.h
constexpr uint32_t kPlatformName = 0x0902, kDeviceType = 0x1000, kDeviceName = 0x102B, kDeviceExtensions = 0x1030,
                   kDeviceMemory = 0x101F, kLargestBuffer = 0x1010, kAlignmentBits = 0x1019, kSingleConfig = 0x101B,
                   kAvailable = 0x1027;
constexpr uint64_t kAllDevices = 0xFFFFFFFF, kProcessorDevice = 1 << 1, kRoundsDivisions = 1 << 7;

constexpr std::pair<int32_t, const char *> kErrors[] = {
    {-1, "CL_DEVICE_NOT_FOUND"},         {-2, "CL_DEVICE_NOT_AVAILABLE"},
    {-3, "CL_COMPILER_NOT_AVAILABLE"},   {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
    {-5, "CL_OUT_OF_RESOURCES"},         {-6, "CL_OUT_OF_HOST_MEMORY"},
    {-11, "CL_BUILD_PROGRAM_FAILURE"},   {-13, "CL_MISALIGNED_SUB_BUFFER_OFFSET"},
    {-30, "CL_INVALID_VALUE"},           {-43, "CL_INVALID_BUILD_OPTIONS"},
    {-46, "CL_INVALID_KERNEL_NAME"},     {-52, "CL_INVALID_KERNEL_ARGS"},
    {-54, "CL_INVALID_WORK_GROUP_SIZE"}, {-55, "CL_INVALID_WORK_ITEM_SIZE"},
    {-61, "CL_INVALID_BUFFER_SIZE"},     {-1001, "CL_PLATFORM_NOT_FOUND_KHR"}};
} // namespace

std::string runtime::opencl::errorName(int32_t error) {
  for (auto [number, name] : kErrors)
    if (number == error)
      return std::string(name) + " (" + std::to_string(error) + ")";
  return "error " + std::to_string(error);
}

Loader::~Loader() = default; // platforms keep threads: the library stays

Status Loader::initialise() {
  for (const char *name : {"libOpenCL.so.1", "libOpenCL.so"})
    if (!library)
      library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return userError("no OpenCL here: libOpenCL.so.1, the loader, cannot be opened (Debian: ocl-icd-libopencl1)");
  std::string missing;
  auto find = [&](auto &function, const char *symbol) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, symbol));
    if (!function && missing.empty())
      missing = symbol;
  };
  find(functions.getPlatforms, "clGetPlatformIDs");
  find(functions.getPlatformInfo, "clGetPlatformInfo");
  find(functions.getDevices, "clGetDeviceIDs");
  find(functions.getDeviceInfo, "clGetDeviceInfo");
  find(functions.createContext, "clCreateContext");
  find(functions.createQueue, "clCreateCommandQueue");
  find(functions.createBuffer, "clCreateBuffer");
  find(functions.createSubBuffer, "clCreateSubBuffer");
  find(functions.createProgram, "clCreateProgramWithSource");
  find(functions.buildProgram, "clBuildProgram");
  find(functions.getBuildInfo, "clGetProgramBuildInfo");
  find(functions.createKernel, "clCreateKernel");
  find(functions.setArgument, "clSetKernelArg");
  find(functions.enqueueKernel, "clEnqueueNDRangeKernel");
  find(functions.enqueueRead, "clEnqueueReadBuffer");
  find(functions.enqueueWrite, "clEnqueueWriteBuffer");
  find(functions.finish, "clFinish");
  find(functions.releaseMemory, "clReleaseMemObject");
  find(functions.releaseKernel, "clReleaseKernel");
  find(functions.releaseProgram, "clReleaseProgram");
  find(functions.releaseQueue, "clReleaseCommandQueue");
  find(functions.releaseContext, "clReleaseContext");
  if (!missing.empty())
    return userError("no OpenCL here: the loader has no " + missing + ": OpenCL 1.2 is needed");

  uint32_t count = 0;
  const int32_t result = functions.getPlatforms(0, nullptr, &count);
  if (result || !count)
    return userError("no OpenCL here: the loader knows no platform (Debian: pocl-opencl-icd runs kernels on the processor)");
  std::vector<Handle> platforms(count);
  functions.getPlatforms(count, platforms.data(), nullptr);
  auto text = [](auto &&get) {
    size_t bytes = 0;
    if (get(0, nullptr, &bytes) || !bytes)
      return std::string();
    std::string value(bytes, '\0');
    get(bytes, value.data(), nullptr);
    value.resize(std::min(value.size(), value.find('\0')));
    return value;
  };
  for (Handle platform : platforms) {
    const std::string name = text([&](size_t bytes, void *value, size_t *needed) {
      return functions.getPlatformInfo(platform, kPlatformName, bytes, value, needed);
    });
    uint32_t devices = 0;
    if (functions.getDevices(platform, kAllDevices, 0, nullptr, &devices) || !devices)
      continue;
    std::vector<Handle> handles(devices);
    functions.getDevices(platform, kAllDevices, devices, handles.data(), nullptr);
    for (Handle handle : handles) {
      auto number = [&](uint32_t what, auto value) {
        functions.getDeviceInfo(handle, what, sizeof value, &value, nullptr);
        return value;
      };
      auto words = [&](uint32_t what) {
        return text([&](size_t bytes, void *value, size_t *needed) {
          return functions.getDeviceInfo(handle, what, bytes, value, needed);
        });
      };
      if (!number(kAvailable, uint32_t(0)))
        continue;
      DeviceInfo info;
      info.platform = platform;
      info.device = handle;
      info.platformName = name;
      info.name = words(kDeviceName);
      info.type =
          number(kDeviceType, uint64_t(0)) & kProcessorDevice ? tw::opencl::DeviceType::Processor : tw::opencl::DeviceType::Gpu;
      info.hasDouble = words(kDeviceExtensions).find("cl_khr_fp64") != std::string::npos;
      info.roundsDivisions = number(kSingleConfig, uint64_t(0)) & kRoundsDivisions;
      info.mostBytes = number(kDeviceMemory, uint64_t(0));
      info.largestBuffer = number(kLargestBuffer, uint64_t(0));
      info.alignment = number(kAlignmentBits, uint32_t(0)) / 8;
      found.push_back(std::move(info));
    }
  }
  return found.empty() ? userError("no OpenCL here: no platform has a device") : Status();
}

StatusOr<std::shared_ptr<Loader>> Loader::open() {
  std::shared_ptr<Loader> loader(new Loader);
  if (Status status = loader->initialise(); !status)
    return status.error();
  return loader;
}

StatusOr<DeviceInfo> Loader::choose(const std::string &which) const {
  if (which.empty())
    return found.front();
  std::string list;
  for (size_t i = 0; i < found.size(); ++i) {
    const bool isNumber = which.find_first_not_of("0123456789") == std::string::npos;
    if (isNumber ? which == std::to_string(i) : (found[i].name + " " + found[i].platformName).find(which) != std::string::npos)
      return found[i];
    list += "\n  " + std::to_string(i) + ": " + found[i].name + " (" + found[i].platformName + ")";
  }
  return userError("--device is '" + which +
                   "' but must be the number of a device, or a part of its name or its platform's:" + list);
}
