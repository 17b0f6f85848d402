//===- Driver.cpp - The CUDA driver, without a toolkit --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values of enumerations and layouts of structs: CUDA driver API reference,
// version 12; checked by every launch on a device.
//===----------------------------------------------------------------------===//
#include "runtime/gpu/Driver.h"

#include <dlfcn.h>
#include <map>

using namespace tw;
using namespace tw::runtime;
using namespace tw::runtime::gpu;

int runtime::gpu::tensorMapType(tw::gpu::Element element) {
  switch (element) {
  case tw::gpu::Element::F32:
    return 7;
  case tw::gpu::Element::Bf16:
    return 9;
  case tw::gpu::Element::F16:
    return 6;
  case tw::gpu::Element::I32:
    return 3;
  default:
    return 0; // bytes
  }
}

int runtime::gpu::tensorMapSwizzle(unsigned bytes) { return bytes == 128 ? 3 : bytes == 64 ? 2 : 1; }

namespace {

using Result = int; ///< CUresult, 0 is success
using Handle = void *;

struct LaunchAttribute {
  int id;
  char pad[4];
  uint32_t value[16];
};
struct LaunchConfig {
  unsigned grid[3], block[3], sharedBytes;
  Handle stream;
  LaunchAttribute *attributes;
  unsigned attributeCount;
};
constexpr int kClusterDimension = 4, kProgrammaticSerialization = 6;  // CUlaunchAttributeID
constexpr int kLocalBytes = 3, kRegisters = 4, kMaxDynamicShared = 8; // CUfunction_attribute
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76;        // CUdevice_attribute
constexpr int kMostShared = 97;                                       // of a block that asks for it
constexpr int kErrorLog = 5, kErrorLogBytes = 6, kInputPtx = 1;       // CUjit_option, CUjitInputType
constexpr int kThreadLocalCapture = 1;                                // CUstreamCaptureMode
constexpr int kNoInterleave = 0, kPromote256 = 3, kZeros = 0;         // of tensor maps

class CudaDriver : public Driver {
public:
  ~CudaDriver() override { // the context stays: others may use it
    if (library)
      dlclose(library);
  }

  Status initialise();

  std::string name() const override { return deviceName; }
  int computeCapability() const override { return capability; }
  int driverVersion() const override { return version; }
  int multiprocessors() const override { return processors; }
  uint32_t sharedBytes() const override { return uint32_t(mostShared); }

  StatusOr<uint64_t> allocate(uint64_t bytes) override {
    uint64_t memory = 0;
    if (Status status = check(memAlloc(&memory, bytes), "allocating " + std::to_string(bytes) + " bytes"); !status)
      return status.error();
    return memory;
  }
  void free(uint64_t memory) override { memFree(memory); }
  Status copyIn(uint64_t to, const void *from, uint64_t bytes) override {
    return bytes ? check(copyHostToDevice(to, from, bytes), "copying to the GPU") : Status();
  }
  Status copyOut(void *to, uint64_t from, uint64_t bytes) override {
    return bytes ? check(copyDeviceToHost(to, from, bytes), "copying from the GPU") : Status();
  }

  StatusOr<std::vector<uint8_t>> assemble(const std::string &ptx) override;
  StatusOr<Function> load(const std::vector<uint8_t> &machineCode, const std::string &name, uint32_t sharedBytes) override;
  StatusOr<EncodedMap> encode(const tw::gpu::TensorMap &map, uint64_t address) override;
  Status launch(const Function &function, const tw::gpu::Launch &launch, void **parameters) override;
  Status synchronize() override { return check(streamSynchronize(stream), "running kernels"); }
  StatusOr<void *> capture(const std::function<Status()> &record) override;
  Status replay(void *graph) override { return check(graphLaunch(graph, stream), "launching a graph"); }
  StatusOr<double> measure(const std::function<Status()> &work) override;

private:
  Status check(Result result, const std::string &what) const {
    if (!result)
      return {};
    const char *text = "unknown error";
    if (errorText)
      errorText(result, &text);
    return userError("the GPU fails at " + what + ": " + text);
  }
  template <typename F> bool find(F *&function, const char *symbol) {
    function = reinterpret_cast<F *>(dlsym(library, symbol));
    if (!function)
      missing = symbol;
    return function;
  }

  void *library = nullptr;
  std::string missing, deviceName;
  int capability = 0, version = 0, processors = 0, mostShared = 0;
  Handle context = nullptr, stream = nullptr, begin = nullptr, end = nullptr;

  Result (*init)(unsigned) = nullptr;
  Result (*getVersion)(int *) = nullptr;
  Result (*getDevice)(int *, int) = nullptr;
  Result (*getName)(char *, int, int) = nullptr;
  Result (*getAttribute)(int *, int, int) = nullptr;
  Result (*retainContext)(Handle *, int) = nullptr;
  Result (*setContext)(Handle) = nullptr;
  Result (*errorText)(Result, const char **) = nullptr;
  Result (*memAlloc)(uint64_t *, size_t) = nullptr;
  Result (*memFree)(uint64_t) = nullptr;
  Result (*copyHostToDevice)(uint64_t, const void *, size_t) = nullptr;
  Result (*copyDeviceToHost)(void *, uint64_t, size_t) = nullptr;
  Result (*loadModule)(Handle *, const void *) = nullptr;
  Result (*getFunction)(Handle *, Handle, const char *) = nullptr;
  Result (*setFunctionAttribute)(Handle, int, int) = nullptr;
  Result (*getFunctionAttribute)(int *, int, Handle) = nullptr;
  Result (*launchKernel)(const LaunchConfig *, Handle, void **, void **) = nullptr;
  Result (*streamCreate)(Handle *, unsigned) = nullptr;
  Result (*streamSynchronize)(Handle) = nullptr;
  Result (*beginCapture)(Handle, int) = nullptr;
  Result (*endCapture)(Handle, Handle *) = nullptr;
  Result (*graphInstantiate)(Handle *, Handle, unsigned long long) = nullptr;
  Result (*graphLaunch)(Handle, Handle) = nullptr;
  Result (*eventCreate)(Handle *, unsigned) = nullptr;
  Result (*eventRecord)(Handle, Handle) = nullptr;
  Result (*eventSynchronize)(Handle) = nullptr;
  Result (*eventElapsed)(float *, Handle, Handle) = nullptr;
  Result (*encodeTiled)(EncodedMap *, int, unsigned, void *, const uint64_t *, const uint64_t *, const uint32_t *,
                        const uint32_t *, int, int, int, int) = nullptr;
  Result (*encodeIm2col)(EncodedMap *, int, unsigned, void *, const uint64_t *, const uint64_t *, const int *, const int *,
                         unsigned, unsigned, const uint32_t *, int, int, int, int) = nullptr;
  Result (*linkCreate)(unsigned, int *, void **, Handle *) = nullptr;
  Result (*linkAdd)(Handle, int, void *, size_t, const char *, unsigned, int *, void **) = nullptr;
  Result (*linkComplete)(Handle, void **, size_t *) = nullptr;
  Result (*linkDestroy)(Handle) = nullptr;
};

Status CudaDriver::initialise() {
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return userError(std::string("no GPU here: ") + dlerror());
  const bool isComplete = find(init, "cuInit") && find(getVersion, "cuDriverGetVersion") && find(getDevice, "cuDeviceGet") &&
                          find(getName, "cuDeviceGetName") && find(getAttribute, "cuDeviceGetAttribute") &&
                          find(retainContext, "cuDevicePrimaryCtxRetain") && find(setContext, "cuCtxSetCurrent") &&
                          find(errorText, "cuGetErrorString") && find(memAlloc, "cuMemAlloc_v2") &&
                          find(memFree, "cuMemFree_v2") && find(copyHostToDevice, "cuMemcpyHtoD_v2") &&
                          find(copyDeviceToHost, "cuMemcpyDtoH_v2") && find(loadModule, "cuModuleLoadData") &&
                          find(getFunction, "cuModuleGetFunction") && find(setFunctionAttribute, "cuFuncSetAttribute") &&
                          find(getFunctionAttribute, "cuFuncGetAttribute") && find(launchKernel, "cuLaunchKernelEx") &&
                          find(streamCreate, "cuStreamCreate") && find(streamSynchronize, "cuStreamSynchronize") &&
                          find(beginCapture, "cuStreamBeginCapture_v2") && find(endCapture, "cuStreamEndCapture") &&
                          find(graphInstantiate, "cuGraphInstantiateWithFlags") && find(graphLaunch, "cuGraphLaunch") &&
                          find(eventCreate, "cuEventCreate") && find(eventRecord, "cuEventRecord") &&
                          find(eventSynchronize, "cuEventSynchronize") && find(eventElapsed, "cuEventElapsedTime") &&
                          find(encodeTiled, "cuTensorMapEncodeTiled") && find(encodeIm2col, "cuTensorMapEncodeIm2col") &&
                          find(linkCreate, "cuLinkCreate_v2") && find(linkAdd, "cuLinkAddData_v2") &&
                          find(linkComplete, "cuLinkComplete") && find(linkDestroy, "cuLinkDestroy");
  if (!isComplete)
    return userError("no GPU here: libcuda.so.1 has no " + missing + ": a driver of CUDA 12 is needed");
  if (Result result = init(0)) {
    const char *text = "unknown error";
    errorText(result, &text);
    return userError(std::string("no GPU here: ") + text);
  }
  int device = 0, major = 0, minor = 0;
  char text[256] = "";
  if (Status status = check(getDevice(&device, 0), "finding a device"); !status)
    return status;
  getVersion(&version);
  getName(text, sizeof text, device);
  deviceName = text;
  getAttribute(&major, kMajor, device);
  getAttribute(&minor, kMinor, device);
  getAttribute(&processors, kMultiprocessors, device);
  getAttribute(&mostShared, kMostShared, device);
  capability = major * 10 + minor;
  if (Status status = check(retainContext(&context, device), "making a context"); !status)
    return status;
  if (Status status = check(setContext(context), "making a context"); !status)
    return status;
  if (Status status = check(streamCreate(&stream, 1), "making a stream"); !status)
    return status;
  if (Status status = check(eventCreate(&begin, 0), "making an event"); !status)
    return status;
  return check(eventCreate(&end, 0), "making an event");
}

StatusOr<std::vector<uint8_t>> CudaDriver::assemble(const std::string &ptx) {
  setContext(context); // of this thread
  char log[4096] = "";
  int names[] = {kErrorLog, kErrorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
  Handle state = nullptr;
  if (Status status = check(linkCreate(2, names, values, &state), "assembling PTX"); !status)
    return status.error();
  void *code = nullptr;
  size_t bytes = 0;
  Result result = linkAdd(state, kInputPtx, const_cast<char *>(ptx.c_str()), ptx.size() + 1, "kernel.ptx", 0, nullptr, nullptr);
  if (!result)
    result = linkComplete(state, &code, &bytes);
  if (Status status = check(result, "assembling PTX"); !status) {
    linkDestroy(state);
    return internalError(status.error().message + "\n" + log);
  }
  std::vector<uint8_t> copy(static_cast<uint8_t *>(code), static_cast<uint8_t *>(code) + bytes);
  linkDestroy(state);
  return copy;
}

StatusOr<Function> CudaDriver::load(const std::vector<uint8_t> &machineCode, const std::string &name, uint32_t sharedBytes) {
  Handle module = nullptr;
  Function function;
  if (Status status = check(loadModule(&module, machineCode.data()), "loading a kernel"); !status)
    return status.error();
  if (Status status = check(getFunction(&function.handle, module, name.c_str()), "finding kernel " + name); !status)
    return status.error();
  if (sharedBytes)
    if (Status status =
            check(setFunctionAttribute(function.handle, kMaxDynamicShared, int(sharedBytes)), "giving a kernel shared memory");
        !status)
      return status.error();
  getFunctionAttribute(&function.registers, kRegisters, function.handle);
  getFunctionAttribute(&function.localBytes, kLocalBytes, function.handle);
  return function;
}

StatusOr<EncodedMap> CudaDriver::encode(const tw::gpu::TensorMap &map, uint64_t address) {
  EncodedMap encoded;
  const int swizzle = tensorMapSwizzle(map.swizzleBytes), type = tensorMapType(map.element);
  const unsigned rank = unsigned(map.dims.size());
  void *at = reinterpret_cast<void *>(address);
  const Result result =
      map.isIm2col()
          ? encodeIm2col(&encoded, type, rank, at, map.dims.data(), map.strides.data(), map.lower.data(), map.upper.data(),
                         map.channels, map.pixels, map.elementStrides.data(), kNoInterleave, swizzle, kPromote256, kZeros)
          : encodeTiled(&encoded, type, rank, at, map.dims.data(), map.strides.data(), map.box.data(),
                        map.elementStrides.data(), kNoInterleave, swizzle, kPromote256, kZeros);
  if (Status status = check(result, "encoding a tensor map"); !status)
    return internalError(status.error().message);
  return encoded;
}

Status CudaDriver::launch(const Function &function, const tw::gpu::Launch &launch, void **parameters) {
  LaunchAttribute attributes[2] = {};
  LaunchConfig config{{launch.grid, 1, 1}, {launch.block, 1, 1}, launch.sharedBytes, stream, attributes, 0};
  if (launch.cluster > 1) {
    LaunchAttribute &attribute = attributes[config.attributeCount++];
    attribute.id = kClusterDimension;
    attribute.value[0] = launch.cluster;
    attribute.value[1] = attribute.value[2] = 1;
  }
  if (launch.overlaps) {
    LaunchAttribute &attribute = attributes[config.attributeCount++];
    attribute.id = kProgrammaticSerialization;
    attribute.value[0] = 1;
  }
  return check(launchKernel(&config, function.handle, parameters, nullptr), "launching a kernel");
}

StatusOr<void *> CudaDriver::capture(const std::function<Status()> &record) {
  if (Status status = check(beginCapture(stream, kThreadLocalCapture), "recording a graph"); !status)
    return status.error();
  Status recorded = record();
  Handle graph = nullptr, executable = nullptr;
  Status ended = check(endCapture(stream, &graph), "recording a graph");
  if (!recorded)
    return recorded.error();
  if (!ended)
    return ended.error();
  if (Status status = check(graphInstantiate(&executable, graph, 0), "making a graph"); !status)
    return status.error();
  return executable;
}

StatusOr<double> CudaDriver::measure(const std::function<Status()> &work) {
  if (Status status = check(eventRecord(begin, stream), "measuring"); !status)
    return status.error();
  if (Status status = work(); !status)
    return status.error();
  if (Status status = check(eventRecord(end, stream), "measuring"); !status)
    return status.error();
  if (Status status = check(eventSynchronize(end), "running kernels"); !status)
    return status.error();
  float milliseconds = 0;
  eventElapsed(&milliseconds, begin, end);
  return double(milliseconds) / 1e3;
}

} // namespace

StatusOr<std::shared_ptr<Driver>> Driver::open() {
  auto driver = std::make_shared<CudaDriver>();
  if (Status status = driver->initialise(); !status)
    return status.error();
  return std::shared_ptr<Driver>(std::move(driver));
}
