//===- OnnxRuntime.cpp - ONNX Runtime as a yardstick ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Stopwatch.h"
#include "runtime/external/Externals.h"
#include "runtime/external/KernelModel.h"
#include "runtime/external/Library.h"
#include "runtime/external/OrtApi.h"

#include <algorithm>
#include <filesystem>

using namespace tw;
using namespace tw::runtime;

namespace {

std::optional<ort::ElementType> ortType(ElementKind type) {
  switch (type) {
  case ElementKind::F32:
    return ort::ElementType::Float;
  case ElementKind::F16:
    return ort::ElementType::Float16;
  case ElementKind::BF16:
    return ort::ElementType::BFloat16;
  case ElementKind::F64:
    return ort::ElementType::Double;
  case ElementKind::I8:
    return ort::ElementType::Int8;
  case ElementKind::U8:
    return ort::ElementType::UInt8;
  case ElementKind::I16:
    return ort::ElementType::Int16;
  case ElementKind::U16:
    return ort::ElementType::UInt16;
  case ElementKind::I32:
    return ort::ElementType::Int32;
  case ElementKind::U32:
    return ort::ElementType::UInt32;
  case ElementKind::I64:
    return ort::ElementType::Int64;
  case ElementKind::U64:
    return ort::ElementType::UInt64;
  case ElementKind::Bool:
    return ort::ElementType::Bool;
  }
  return std::nullopt;
}

/// A session with its inputs and outputs bound to memory of ours.
class OrtDevice : public Device {
public:
  OrtDevice(const ort::Api *api, const ExternalModel &model) : api(api), model(model) {}
  ~OrtDevice() override {
    for (auto &values : {inputValues, outputValues})
      for (ort::Value *value : values)
        api->releaseValue(value);
    if (session)
      api->releaseSession(session);
    if (memory)
      api->releaseMemoryInfo(memory);
    if (options)
      api->releaseSessionOptions(options);
    if (env)
      api->releaseEnv(env);
  }

  const std::vector<TensorSpec> &inputs() const override { return model.inputs; }
  const std::vector<TensorSpec> &outputs() const override { return model.outputs; }
  Status create(unsigned threads);
  StatusOr<Launch> launch(const std::vector<HostTensor> &inputs) override;

private:
  Status check(ort::Status *status) const {
    if (!status)
      return {};
    std::string message = api->getErrorMessage(status);
    api->releaseStatus(status);
    return userError(model.name + ": ONNX Runtime: " + message);
  }
  /// Names of inputs or outputs, in their order.
  Status readNames(bool isInput, std::vector<std::string> &names);
  /// A tensor for each of `specs`, with memory of its own.
  Status bind(const std::vector<TensorSpec> &specs, const std::vector<int64_t> *kernelShape, std::vector<HostTensor> &tensors,
              std::vector<ort::Value *> &values);

  const ort::Api *api;
  ExternalModel model;
  ort::Env *env = nullptr;
  ort::SessionOptions *options = nullptr;
  ort::MemoryInfo *memory = nullptr;
  ort::Session *session = nullptr;
  std::vector<std::string> inputNames, outputNames;
  std::vector<const char *> inputTexts, outputTexts;
  std::vector<HostTensor> inputTensors, outputTensors;
  std::vector<ort::Value *> inputValues, outputValues;
};

Status OrtDevice::readNames(bool isInput, std::vector<std::string> &names) {
  size_t count = 0;
  ort::Allocator *allocator = nullptr;
  if (Status status = check(isInput ? api->sessionGetInputCount(session, &count) : api->sessionGetOutputCount(session, &count));
      !status)
    return status;
  if (Status status = check(api->getAllocatorWithDefaultOptions(&allocator)); !status)
    return status;
  for (size_t i = 0; i < count; ++i) {
    char *name = nullptr;
    if (Status status = check(isInput ? api->sessionGetInputName(session, i, allocator, &name)
                                      : api->sessionGetOutputName(session, i, allocator, &name));
        !status)
      return status;
    names.push_back(name);
    if (Status status = check(api->allocatorFree(allocator, name)); !status)
      return status;
  }
  size_t ours = (isInput ? model.inputs : model.outputs).size();
  if (count != ours)
    return userError(model.name + ": ONNX Runtime sees " + std::to_string(count) + (isInput ? " inputs" : " outputs") +
                     " where our compiler sees " + std::to_string(ours));
  return {};
}

Status OrtDevice::bind(const std::vector<TensorSpec> &specs, const std::vector<int64_t> *kernelShape,
                       std::vector<HostTensor> &tensors, std::vector<ort::Value *> &values) {
  for (const TensorSpec &spec : specs) {
    HostTensor tensor{spec.name, spec.type, kernelShape ? *kernelShape : spec.shape, {}};
    if (std::any_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t dim) { return dim < 0; }))
      return userError(model.name + ": '" + spec.name +
                       "' has a shape that only a run knows; ONNX Runtime is compared where all shapes are known before");
    if (kernelShape && spec.type == ElementKind::I8)
      tensor.type = ElementKind::U8;
    tensor.bytes.resize(frontend::elementBytes(tensor.type) * size_t(elementCount(tensor.shape)));
    tensors.push_back(std::move(tensor));
  }
  for (HostTensor &tensor : tensors) {
    ort::Value *value = nullptr;
    if (Status status =
            check(api->createTensorWithDataAsOrtValue(memory, tensor.bytes.data(), tensor.bytes.size(), tensor.shape.data(),
                                                      tensor.shape.size(), *ortType(tensor.type), &value));
        !status)
      return status;
    values.push_back(value);
  }
  return {};
}

Status OrtDevice::create(unsigned threads) {
  std::string bytes = model.kernel ? onnxModelOf(*model.kernel, model.seed) : "";
  Status status;
  auto ok = [&](ort::Status *result) {
    status = check(result);
    return bool(status);
  };
  if (!ok(api->createEnv(ort::kLogError, "tilewright", &env)) || !ok(api->createSessionOptions(&options)) ||
      !ok(api->setSessionGraphOptimizationLevel(options, ort::kEnableAll)) ||
      !ok(api->setIntraOpNumThreads(options, int(threads))) || !ok(api->setInterOpNumThreads(options, 1)) ||
      !ok(api->createCpuMemoryInfo(ort::kArenaAllocator, ort::kDefaultMemory, &memory)) ||
      !ok(model.kernel ? api->createSessionFromArray(env, bytes.data(), bytes.size(), options, &session)
                       : api->createSession(env, model.name.c_str(), options, &session)))
    return status;
  for (bool isInput : {true, false}) {
    std::vector<std::string> &names = isInput ? inputNames : outputNames;
    if (Status status = readNames(isInput, names); !status)
      return status;
    for (const std::string &name : names)
      (isInput ? inputTexts : outputTexts).push_back(name.c_str());
  }
  std::optional<KernelShapes> shapes;
  if (model.kernel)
    shapes = shapesOf(*model.kernel);
  if (Status status = bind(model.inputs, shapes ? &shapes->x : nullptr, inputTensors, inputValues); !status)
    return status;
  return bind(model.outputs, shapes ? &shapes->y : nullptr, outputTensors, outputValues);
}

/// int8 <-> uint8 with zero point 128.
void shiftBy128(HostTensor &tensor) {
  for (uint8_t &byte : tensor.bytes)
    byte ^= 128;
}

StatusOr<Launch> OrtDevice::launch(const std::vector<HostTensor> &inputs) {
  const bool isShifted = model.kernel && model.kernel->type == timing::ArrayType::Int8;
  for (size_t i = 0; i < inputs.size(); ++i) {
    // The memory is bound: only its contents change.
    HostTensor tensor = model.kernel ? toChannelsFirst(*model.kernel, inputs[i]) : inputs[i];
    std::copy(tensor.bytes.begin(), tensor.bytes.end(), inputTensors[i].bytes.begin());
    if (isShifted)
      shiftBy128(inputTensors[i]);
  }
  Launch launch;
  Stopwatch watch;
  ort::Status *status = api->run(session, nullptr, inputTexts.data(), inputValues.data(), inputValues.size(),
                                 outputTexts.data(), outputTexts.size(), outputValues.data());
  launch.wallSeconds = watch.wallSeconds();
  launch.cpuSeconds = watch.cpuSeconds();
  if (Status failure = check(status); !failure)
    return failure.error();
  launch.outputs = outputTensors;
  for (size_t i = 0; i < launch.outputs.size(); ++i) {
    HostTensor &output = launch.outputs[i];
    if (isShifted) {
      shiftBy128(output);
      output.type = ElementKind::I8;
    }
    if (model.kernel)
      output = toChannelsLast(*model.kernel, output);
    output.name = model.outputs[i].name;
  }
  return launch;
}

class OnnxRuntime : public External {
public:
  const char *name() const override { return "ort"; }

  std::optional<std::string> whyNot(const ExternalModel &model) const override {
    if (model.kernel)
      return model.kernel->type == timing::ArrayType::Bf16
                 ? std::optional<std::string>("ONNX Runtime has no bf16 products on the CPU")
                 : std::nullopt;
    if (std::filesystem::path(model.name).extension() != ".onnx")
      return "ONNX Runtime takes ONNX files and inline kernels";
    if (model.hasConstantInputs)
      return "ONNX Runtime does not know the constants that --const gives";
    return std::nullopt;
  }

  StatusOr<std::unique_ptr<Device>> load(const ExternalModel &model, const std::string &path, unsigned threads) override {
    StatusOr<Library> library = Library::open("ONNX Runtime", "--ort", path, {"libonnxruntime.so.1", "libonnxruntime.so"});
    if (!library)
      return library.error();
    const ort::ApiBase *(*getApiBase)() = nullptr;
    if (!library->find(ort::kEntryPoint, getApiBase))
      return userError("'" + library->file() + "' is not ONNX Runtime: it has no function " + ort::kEntryPoint);
    const ort::ApiBase *base = getApiBase();
    const ort::Api *api = base ? base->getApi(ort::kApiVersion) : nullptr;
    if (!api)
      return userError("'" + library->file() + "' is ONNX Runtime " + (base ? base->getVersionString() : "of no version") +
                       ", expected 1." + std::to_string(ort::kApiVersion) + " or newer");
    found = std::string("ONNX Runtime ") + base->getVersionString();
    auto device = std::make_unique<OrtDevice>(api, model);
    if (Status status = device->create(threads); !status)
      return status.error();
    return std::unique_ptr<Device>(std::move(device));
  }

  std::string version() const override { return found; }

private:
  std::string found;
};

} // namespace

std::unique_ptr<External> runtime::makeOnnxRuntime() { return std::make_unique<OnnxRuntime>(); }
