//===- Bundle.cpp - A network for OpenCL in C programs --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/opencl/Bundle.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace tw;
using namespace tw::opencl;

namespace {

constexpr const char *kHeader = R"(/* @MODEL@ for OpenCL, made by tilewright. Compile @NAME@.c and link it with -lOpenCL. */
#ifndef @UPPER@_H
#define @UPPER@_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

@TENSORS@
/* Opens a device and loads the network from @NAME@.cl and @NAME@.weights.bin in `folder`. `device`: a number, a part of the name of a device
 * or of its platform, or null for the first one. Null: it failed, and @NAME@_error() says why. */
typedef struct @NAME@_network @NAME@_network;
@NAME@_network *@NAME@_open(const char *folder, const char *device);

/* Runs the network once. 0, or 1: it failed, and @NAME@_error() says why. One thread at a time may use a network. */
int @NAME@_run(@NAME@_network *network@PARAMETERS@);

void @NAME@_close(@NAME@_network *network);

/* What failed last. */
const char *@NAME@_error(void);

#ifdef __cplusplus
}
#endif

#endif
)";

constexpr const char *kLoader =
    R"(/* @MODEL@ for OpenCL, made by tilewright: loads @NAME@.cl and @NAME@.weights.bin, and runs them. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include "@NAME@.h"
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = @STEPS@, ARGUMENTS = @ARGUMENTS@, ALIGNMENT = @ALIGNMENT@ };
static const size_t memory_bytes = @MEMORY@, weights_bytes = @WEIGHTS@;

/* A kernel over a grid of work-items, and its arguments. */
static const struct {
  const char *kernel;
  size_t global[3], local[3];
  int first, count;
} steps[STEPS + 1] = {
@STEP_ROWS@  {0, {0, 0, 0}, {0, 0, 0}, 0, 0}};

/* A part of the memory or of the weights. */
static const struct {
  int is_weight;
  size_t offset, bytes;
} arguments[ARGUMENTS + 1] = {
@ARGUMENT_ROWS@  {0, 0, 0}};

struct @NAME@_network {
  cl_context context;
  cl_command_queue queue;
  cl_program program;
  cl_mem memory, weights, parts[ARGUMENTS + 1];
  cl_kernel kernels[STEPS + 1];
};

static char message[4096];

const char *@NAME@_error(void) { return message; }

static int fail(const char *what, cl_int error) {
  snprintf(message, sizeof message, "@NAME@: %s fails: OpenCL error %d", what, (int)error);
  return 0;
}

static char *read_file(const char *folder, const char *name, size_t *bytes) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  long size = -1;
  if (file && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0)
    text = malloc((size_t)size + 1);
  if (!text || fread(text, 1, (size_t)size, file) != (size_t)size) {
    snprintf(message, sizeof message, "@NAME@: cannot read %.4000s", path);
    free(text);
    text = NULL;
  }
  if (file)
    fclose(file);
  *bytes = text ? (size_t)size : 0;
  return text;
}

static cl_device_id find_device(const char *wanted, cl_platform_id *platform) {
  cl_platform_id platforms[16];
  cl_device_id devices[16];
  cl_uint platform_count = 0, count = 0;
  int number = 0;
  if (clGetPlatformIDs(16, platforms, &platform_count) != CL_SUCCESS || platform_count == 0) {
    snprintf(message, sizeof message, "@NAME@: no platform of OpenCL is installed");
    return NULL;
  }
  for (cl_uint i = 0; i < platform_count && i < 16; ++i) {
    char name[512] = "", platform_name[256] = "", text[16];
    clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof platform_name - 1, platform_name, NULL);
    if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 16, devices, &count) != CL_SUCCESS)
      continue;
    for (cl_uint j = 0; j < count && j < 16; ++j, ++number) {
      clGetDeviceInfo(devices[j], CL_DEVICE_NAME, sizeof name - 1, name, NULL);
      snprintf(text, sizeof text, "%d", number);
      if (!wanted || strcmp(wanted, text) == 0 || (!strtol(wanted, NULL, 10) && *wanted != '0' && (strstr(name, wanted) || strstr(platform_name, wanted)))) {
        *platform = platforms[i];
        return devices[j];
      }
    }
  }
  snprintf(message, sizeof message, "@NAME@: there is no device '%s' among %d", wanted ? wanted : "", number);
  return NULL;
}

static int load(@NAME@_network *network, const char *folder, const char *wanted) {
  cl_platform_id platform;
  cl_device_id device = find_device(wanted, &platform);
  if (!device)
    return 0;
  cl_int error;
  cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
  network->context = clCreateContext(properties, 1, &device, NULL, NULL, &error);
  if (error)
    return fail("clCreateContext", error);
  network->queue = clCreateCommandQueue(network->context, device, 0, &error);
  if (error)
    return fail("clCreateCommandQueue", error);
  network->memory = clCreateBuffer(network->context, CL_MEM_READ_WRITE, memory_bytes ? memory_bytes : ALIGNMENT, NULL, &error);
  if (error)
    return fail("clCreateBuffer", error);
  network->weights = clCreateBuffer(network->context, CL_MEM_READ_ONLY, weights_bytes ? weights_bytes : ALIGNMENT, NULL, &error);
  if (error)
    return fail("clCreateBuffer", error);
  size_t bytes;
  char *weights = read_file(folder, "@NAME@.weights.bin", &bytes);
  if (!weights)
    return 0;
  if (bytes != weights_bytes) {
    free(weights);
    snprintf(message, sizeof message, "@NAME@: @NAME@.weights.bin has %zu bytes, not %zu", bytes, weights_bytes);
    return 0;
  }
  error = bytes ? clEnqueueWriteBuffer(network->queue, network->weights, CL_TRUE, 0, bytes, weights, 0, NULL, NULL) : CL_SUCCESS;
  free(weights);
  if (error)
    return fail("clEnqueueWriteBuffer", error);
  char *source = read_file(folder, "@NAME@.cl", &bytes);
  if (!source)
    return 0;
  network->program = clCreateProgramWithSource(network->context, 1, (const char **)&source, &bytes, &error);
  free(source);
  if (error)
    return fail("clCreateProgramWithSource", error);
  cl_device_fp_config config = 0;
  clGetDeviceInfo(device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, NULL);
  error = clBuildProgram(network->program, 1, &device,
                         config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT ? "@OPTIONS@@ROUNDED@" : "@OPTIONS@", NULL, NULL);
  if (error)
    return fail("clBuildProgram", error);
  for (int i = 0; i < STEPS; ++i) {
    network->kernels[i] = clCreateKernel(network->program, steps[i].kernel, &error);
    if (error)
      return fail("clCreateKernel", error);
    for (int j = 0; j < steps[i].count; ++j) {
      const int number = steps[i].first + j;
      cl_buffer_region region = {arguments[number].offset, arguments[number].bytes};
      network->parts[number] = clCreateSubBuffer(arguments[number].is_weight ? network->weights : network->memory, 0,
                                                 CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
      if (error)
        return fail("clCreateSubBuffer", error);
      error = clSetKernelArg(network->kernels[i], (cl_uint)j, sizeof(cl_mem), &network->parts[number]);
      if (error)
        return fail("clSetKernelArg", error);
    }
  }
  return 1;
}

@NAME@_network *@NAME@_open(const char *folder, const char *device) {
  @NAME@_network *network = calloc(1, sizeof *network);
  if (!network) {
    snprintf(message, sizeof message, "@NAME@: no memory");
    return NULL;
  }
  if (load(network, folder, device))
    return network;
  @NAME@_close(network);
  return NULL;
}

int @NAME@_run(@NAME@_network *network@PARAMETERS@) {
  cl_int error;
@INPUTS@  for (int i = 0; i < STEPS; ++i) {
    error = clEnqueueNDRangeKernel(network->queue, network->kernels[i], 3, NULL, steps[i].global, steps[i].local, 0, NULL, NULL);
    if (error)
      return !fail(steps[i].kernel, error);
  }
@OUTPUTS@  error = clFinish(network->queue);
  return error ? !fail("clFinish", error) : 0;
}

void @NAME@_close(@NAME@_network *network) {
  if (!network)
    return;
  for (int i = 0; i < STEPS; ++i)
    if (network->kernels[i])
      clReleaseKernel(network->kernels[i]);
  for (int i = 0; i < ARGUMENTS; ++i)
    if (network->parts[i])
      clReleaseMemObject(network->parts[i]);
  if (network->memory)
    clReleaseMemObject(network->memory);
  if (network->weights)
    clReleaseMemObject(network->weights);
  if (network->program)
    clReleaseProgram(network->program);
  if (network->queue)
    clReleaseCommandQueue(network->queue);
  if (network->context)
    clReleaseContext(network->context);
  free(network);
}
)";

uint64_t bytesOf(const gpu::Tensor &tensor) {
  uint64_t bytes = gpu::bytesOf(tensor.element);
  for (int64_t size : tensor.shape)
    bytes *= uint64_t(size);
  return bytes;
}

/// The text with what its marks stand for.
std::string filled(const char *pattern, llvm::ArrayRef<std::pair<std::string, std::string>> values) {
  std::string text;
  for (llvm::StringRef rest = pattern; !rest.empty();) {
    auto [before, behind] = rest.split('@');
    text += before;
    if (before.size() == rest.size())
      break;
    auto [mark, next] = behind.split('@');
    const auto *value = llvm::find_if(values, [name = mark](const auto &each) { return each.first == name; });
    assert(value != values.end() && "every mark has a value");
    text += value->second;
    rest = next;
  }
  return text;
}

} // namespace

Bundle opencl::writeBundle(const Program &program, const cpu::BundleOptions &options) {
  llvm::StringSet<> taken;
  for (const char *name : {"NETWORK", "ERROR"})
    taken.insert(name);
  const std::vector<std::string> inputs = cpu::argumentNames(options.inputs, "input_", taken),
                                 outputs = cpu::argumentNames(options.outputs, "output_", taken);
  std::string tensors, parameters, reads, writes;
  auto copy = [&](const gpu::Tensor &tensor, const std::string &name, const char *function) {
    const uint64_t bytes = bytesOf(tensor);
    return bytes ? "  error = " + std::string(function) + "(network->queue, network->memory, CL_TRUE, " +
                       std::to_string(tensor.place.offset) + ", " + std::to_string(bytes) + ", " + name +
                       ", 0, NULL, NULL);\n  if (error)\n    return !fail(\"" + function + "\", error);\n"
                 : std::string();
  };
  for (auto [spec, name, tensor] : llvm::zip(options.inputs, inputs, program.inputs)) {
    tensors += cpu::tensorLines(options.name, "Input", spec, name);
    parameters += ", const " + std::string(cpu::cType(spec.type)) + " *" + name;
    writes += copy(tensor, name, "clEnqueueWriteBuffer");
  }
  for (auto [spec, name, tensor] : llvm::zip(options.outputs, outputs, program.outputs)) {
    tensors += cpu::tensorLines(options.name, "Output", spec, name);
    parameters += ", " + std::string(cpu::cType(spec.type)) + " *" + name;
    reads += copy(tensor, name, "clEnqueueReadBuffer");
  }
  std::string stepRows, argumentRows;
  size_t first = 0;
  auto list = [](const std::array<uint64_t, 3> &sizes) {
    return "{" + std::to_string(sizes[0]) + ", " + std::to_string(sizes[1]) + ", " + std::to_string(sizes[2]) + "}";
  };
  for (const Step &step : program.steps) {
    stepRows += "  {\"" + step.kernel + "\", " + list(step.global) + ", " + list(step.local) + ", " + std::to_string(first) +
                ", " + std::to_string(step.arguments.size()) + "},\n";
    for (const Argument &argument : step.arguments)
      argumentRows += "  {" + std::string(argument.place.isConstant ? "1" : "0") + ", " +
                      std::to_string(argument.place.offset) + ", " + std::to_string(std::max<uint64_t>(argument.bytes, 1)) +
                      "},\n";
    first += step.arguments.size();
  }
  const std::pair<std::string, std::string> values[] = {{"NAME", options.name},
                                                        {"UPPER", llvm::StringRef(options.name).upper()},
                                                        {"MODEL", cpu::commentText(options.model)},
                                                        {"TENSORS", tensors},
                                                        {"PARAMETERS", parameters},
                                                        {"INPUTS", writes},
                                                        {"OUTPUTS", reads},
                                                        {"STEPS", std::to_string(program.steps.size())},
                                                        {"ARGUMENTS", std::to_string(first)},
                                                        {"ALIGNMENT", std::to_string(kAlignment)},
                                                        {"MEMORY", std::to_string(program.arenaBytes)},
                                                        {"WEIGHTS", std::to_string(program.constants.size())},
                                                        {"STEP_ROWS", stepRows},
                                                        {"ARGUMENT_ROWS", argumentRows},
                                                        {"OPTIONS", kBuildOptions},
                                                        {"ROUNDED", kRoundedOption}};
  return {filled(kHeader, values), filled(kLoader, values), program.source,
          std::string(program.constants.begin(), program.constants.end())};
}
