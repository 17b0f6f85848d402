//===- OneDnn.cpp - oneDNN as a yardstick ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Through the C API of oneDNN 2, that of libdnnl.so.2. Descriptors are structs
// there; the library alone fills and reads them, so they are only memory here.
//===----------------------------------------------------------------------===//
#include "runtime/Stopwatch.h"
#include "runtime/external/Externals.h"
#include "runtime/external/KernelModel.h"
#include "runtime/external/Library.h"

#include <cstddef>

using namespace tw;
using namespace tw::runtime;

namespace {

// source: dnnl_types.h of oneDNN 2.6
constexpr int kBf16 = 2, kF32 = 3, kS8 = 5;
constexpr int kAnyLayout = 1;
constexpr int kForwardInference = 96, kConvolutionAuto = 3;
constexpr int kSourceDesc = 129, kWeightsDesc = 131, kDestinationDesc = 133;
constexpr int kSource = 1, kWeights = 33, kDestination = 17;
constexpr int kCpu = 1;
constexpr int kMajorVersion = 2;
/// The library allocates.
void *const kAllocate = reinterpret_cast<void *>(~size_t(0));

/// A descriptor. The largest, that of a convolution, takes 5976 bytes in version 2.6.
struct Descriptor {
  alignas(64) std::byte bytes[16384]{};
};
using Handle = void *;
struct Argument {
  int what;
  Handle memory;
};
/// The first members; others follow.
struct Version {
  int major, minor, patch;
};
using Dims = int64_t[12];

/// What we call; names are as in the C API, without dnnl_. A function gives 0 on success.
struct Api {
  const Version *(*version)();
  int (*engineCreate)(Handle *, int kind, size_t index);
  int (*streamCreate)(Handle *, Handle engine, unsigned flags);
  int (*streamWait)(Handle stream);
  int (*memoryDescInitByStrides)(Descriptor *, int rank, const int64_t *dims, int type, const int64_t *strides);
  int (*memoryDescInitByTag)(Descriptor *, int rank, const int64_t *dims, int type, int tag);
  int (*memoryCreate)(Handle *, const void *desc, Handle engine, void *data);
  int (*matmulDescInit)(Descriptor *, const Descriptor *source, const Descriptor *weights, const Descriptor *bias,
                        const Descriptor *destination);
  int (*convolutionForwardDescInit)(Descriptor *, int propagation, int algorithm, const Descriptor *source,
                                    const Descriptor *weights, const Descriptor *bias, const Descriptor *destination,
                                    const int64_t *strides, const int64_t *padLow, const int64_t *padHigh);
  int (*primitiveAttrCreate)(Handle *);
  int (*primitiveAttrSetOutputScales)(Handle, int64_t count, int mask, const float *);
  int (*primitiveDescCreate)(Handle *, const Descriptor *, Handle attributes, Handle engine, Handle hint);
  const void *(*primitiveDescQueryMd)(Handle, int what, int index);
  int (*reorderPrimitiveDescCreate)(Handle *, const void *source, Handle sourceEngine, const void *destination,
                                    Handle destinationEngine, Handle attributes);
  int (*primitiveCreate)(Handle *, Handle desc);
  int (*primitiveExecute)(Handle, Handle stream, int count, const Argument *);
  void (*setThreads)(int); ///< of OpenMP, with which Debian's library is built
};

/// The name of the first function that `library` lacks, or null.
const char *readApi(const Library &library, Api &api) {
  const char *missing = nullptr;
  auto read = [&](const char *name, auto *&function) {
    if (!library.find(name, function) && !missing)
      missing = name;
  };
  read("dnnl_version", api.version);
  read("dnnl_engine_create", api.engineCreate);
  read("dnnl_stream_create", api.streamCreate);
  read("dnnl_stream_wait", api.streamWait);
  read("dnnl_memory_desc_init_by_strides", api.memoryDescInitByStrides);
  read("dnnl_memory_desc_init_by_tag", api.memoryDescInitByTag);
  read("dnnl_memory_create", api.memoryCreate);
  read("dnnl_matmul_desc_init", api.matmulDescInit);
  read("dnnl_convolution_forward_desc_init", api.convolutionForwardDescInit);
  read("dnnl_primitive_attr_create", api.primitiveAttrCreate);
  read("dnnl_primitive_attr_set_output_scales", api.primitiveAttrSetOutputScales);
  read("dnnl_primitive_desc_create", api.primitiveDescCreate);
  read("dnnl_primitive_desc_query_md", api.primitiveDescQueryMd);
  read("dnnl_reorder_primitive_desc_create", api.reorderPrimitiveDescCreate);
  read("dnnl_primitive_create", api.primitiveCreate);
  read("dnnl_primitive_execute", api.primitiveExecute);
  read("omp_set_num_threads", api.setThreads);
  return missing;
}

/// One product with its weights in the layout that oneDNN prefers. Input and output keep ours: NHWC for convolutions, rows for matrices.
/// The library's objects live as long as the process.
class DnnlDevice : public Device {
public:
  DnnlDevice(const Api &api, const ExternalModel &model, unsigned threads) : api(api), model(model), threads(threads) {}
  const std::vector<TensorSpec> &inputs() const override { return model.inputs; }
  const std::vector<TensorSpec> &outputs() const override { return model.outputs; }

  /// False if the library refuses something, which `refused` then names.
  bool create(std::string &refused);

  StatusOr<Launch> launch(const std::vector<HostTensor> &inputs) override {
    std::copy(inputs[0].bytes.begin(), inputs[0].bytes.end(), x.bytes.begin());
    Launch launch;
    api.setThreads(int(threads));
    Stopwatch watch;
    int status = api.primitiveExecute(primitive, stream, 3, arguments);
    status = status ? status : api.streamWait(stream);
    launch.wallSeconds = watch.wallSeconds();
    launch.cpuSeconds = watch.cpuSeconds();
    if (status)
      return userError(model.name + ": oneDNN: the product ends with status " + std::to_string(status));
    launch.outputs.push_back(y);
    return launch;
  }

private:
  const Api &api;
  ExternalModel model;
  unsigned threads;
  HostTensor x, y;
  Handle primitive = nullptr, stream = nullptr;
  Argument arguments[3]{};
};

bool DnnlDevice::create(std::string &refused) {
  const InlineKernel &kernel = *model.kernel;
  const int type = kernel.type == timing::ArrayType::Int8 ? kS8 : kernel.type == timing::ArrayType::Bf16 ? kBf16 : kF32;
  const KernelShapes shapes = shapesOf(kernel);
  auto accepts = [&](int status, const char *what) {
    if (status)
      refused = std::string(what) + " (status " + std::to_string(status) + ")";
    return status == 0;
  };
  /// Logical dims are NCHW and OIHW; `channelsLast`: the values lie as NHWC.
  auto describe = [&](Descriptor &desc, const std::vector<int64_t> &shape, bool channelsLast, bool anyLayout) {
    Dims dims{}, strides{};
    int64_t stride = 1;
    std::copy(shape.begin(), shape.end(), dims);
    std::vector<size_t> order(shape.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    if (channelsLast && kernel.isConv)
      order = {0, 2, 3, 1};
    for (size_t i = order.size(); i-- > 0; stride *= shape[order[i]])
      strides[order[i]] = stride;
    return anyLayout ? api.memoryDescInitByTag(&desc, int(shape.size()), dims, type, kAnyLayout)
                     : api.memoryDescInitByStrides(&desc, int(shape.size()), dims, type, strides);
  };
  // Weights of groups have a dim of their own in front.
  std::vector<int64_t> w = shapes.w;
  if (kernel.isConv && kernel.groups > 1) {
    w.insert(w.begin(), kernel.groups);
    w[1] /= kernel.groups;
  }
  api.setThreads(int(threads));
  Handle engine = nullptr, attributes = nullptr, desc = nullptr, reorderDesc = nullptr, reorder = nullptr, plain = nullptr;
  Descriptor xDesc, wDesc, wPlain, yDesc, product;
  if (!accepts(api.engineCreate(&engine, kCpu, 0), "an engine on the CPU") ||
      !accepts(api.streamCreate(&stream, engine, 1), "a stream") ||
      !accepts(describe(xDesc, shapes.x, true, false), "the input") ||
      !accepts(describe(yDesc, shapes.y, true, false), "the output") ||
      !accepts(describe(wDesc, w, false, true), "the weights") || !accepts(describe(wPlain, w, false, false), "the weights"))
    return false;
  if (kernel.isConv) {
    const Dims strides{kernel.stride, kernel.stride}, pads{kernel.pad, kernel.pad};
    if (!accepts(api.convolutionForwardDescInit(&product, kForwardInference, kConvolutionAuto, &xDesc, &wDesc, nullptr, &yDesc,
                                                strides, pads, pads),
                 "the convolution"))
      return false;
  } else if (!accepts(api.matmulDescInit(&product, &xDesc, &wDesc, nullptr, &yDesc), "the matrix product")) {
    return false;
  }
  if (!accepts(api.primitiveAttrCreate(&attributes), "attributes"))
    return false;
  const float multiplier = kernel.type == timing::ArrayType::Int8 ? requantizeMultiplier(kernel) : 1;
  if (kernel.type == timing::ArrayType::Int8 &&
      !accepts(api.primitiveAttrSetOutputScales(attributes, 1, 0, &multiplier), "a scale of the output"))
    return false;
  if (!accepts(api.primitiveDescCreate(&desc, &product, attributes, engine, nullptr), "the kernel") ||
      !accepts(api.primitiveCreate(&primitive, desc), "the kernel"))
    return false;

  // The weights in the layout that it chose; one that needs sums of the weights for int8 inputs appends them.
  HostTensor weights = weightsOf(kernel, model.seed);
  const void *chosen = api.primitiveDescQueryMd(desc, kWeightsDesc, 0);
  auto allocate = [](const TensorSpec &spec) {
    return HostTensor{spec.name, spec.type, spec.shape,
                      std::vector<uint8_t>(frontend::elementBytes(spec.type) * size_t(elementCount(spec.shape)))};
  };
  x = allocate(model.inputs[0]);
  y = allocate(model.outputs[0]);
  Handle memories[3] = {};
  if (!accepts(api.memoryCreate(&memories[0], api.primitiveDescQueryMd(desc, kSourceDesc, 0), engine, x.bytes.data()),
               "the input's memory") ||
      !accepts(api.memoryCreate(&memories[1], chosen, engine, kAllocate), "the weights' memory") ||
      !accepts(api.memoryCreate(&memories[2], api.primitiveDescQueryMd(desc, kDestinationDesc, 0), engine, y.bytes.data()),
               "the output's memory") ||
      !accepts(api.memoryCreate(&plain, &wPlain, engine, weights.bytes.data()), "the weights' memory") ||
      !accepts(api.reorderPrimitiveDescCreate(&reorderDesc, &wPlain, engine, chosen, engine, nullptr), "the weights' layout") ||
      !accepts(api.primitiveCreate(&reorder, reorderDesc), "the weights' layout"))
    return false;
  const Argument moves[2] = {{kSource, plain}, {kDestination, memories[1]}};
  if (!accepts(api.primitiveExecute(reorder, stream, 2, moves), "the weights' layout") ||
      !accepts(api.streamWait(stream), "the weights' layout"))
    return false;
  arguments[0] = {kSource, memories[0]};
  arguments[1] = {kWeights, memories[1]};
  arguments[2] = {kDestination, memories[2]};
  return true;
}

class OneDnn : public External {
public:
  const char *name() const override { return "dnnl"; }

  std::optional<std::string> whyNot(const ExternalModel &model) const override {
    if (!model.kernel)
      return "oneDNN runs single products, not networks: give an inline kernel (gemm:... or conv:...)";
    return std::nullopt;
  }

  StatusOr<std::unique_ptr<Device>> load(const ExternalModel &model, const std::string &path, unsigned threads) override {
    StatusOr<Library> library = Library::open("oneDNN", "--dnnl", path, {"libdnnl.so.2"});
    if (!library)
      return library.error();
    if (const char *missing = readApi(*library, api))
      return userError("'" + library->file() + "' is not oneDNN 2 built with OpenMP: it has no function " + missing);
    const Version *version = api.version();
    found = "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
            std::to_string(version->patch);
    if (version->major != kMajorVersion)
      return userError("'" + library->file() + "' is " + found + ", expected version " + std::to_string(kMajorVersion));
    auto device = std::make_unique<DnnlDevice>(api, model, threads);
    if (std::string refused; !device->create(refused))
      return userError(model.name + ": oneDNN refuses " + refused);
    return std::unique_ptr<Device>(std::move(device));
  }

  std::string version() const override { return found; }

private:
  Api api{};
  std::string found;
};

} // namespace

std::unique_ptr<External> runtime::makeOneDnn() { return std::make_unique<OneDnn>(); }
