//===- CBundle.cpp - A GPU program for C programs -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/gpu/CBundle.h"
#include "runtime/gpu/Driver.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>
#include <string_view>

using namespace tw;
using namespace tw::runtime;
using namespace tw::gpu;

asm(".section .rodata\n"
    "tw_gpu_loader_begin:\n"
    ".incbin \"" TW_GPU_LOADER "\"\n"
    "tw_gpu_loader_end:\n"
    ".previous\n");
extern "C" __attribute__((visibility("hidden"))) const char tw_gpu_loader_begin[], tw_gpu_loader_end[];

namespace {

/// Of a block on sm_86 and sm_89, the least of sm_80 and later.
constexpr uint32_t kCommonSharedBytes = 101376;

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

template <typename NumbersT> std::string list(const NumbersT &numbers) {
  std::string text = "{";
  for (auto number : numbers)
    text += (text.size() > 1 ? ", " : "") + std::to_string(number);
  return text + (numbers.empty() ? "0}" : "}");
}

const char *typeOf(Element element) {
  switch (element) {
  case Element::F32:
    return "float";
  case Element::F64:
    return "double";
  case Element::Bf16:
  case Element::F16:
    return "uint16_t";
  case Element::I8:
    return "int8_t";
  case Element::I16:
    return "int16_t";
  case Element::I32:
    return "int32_t";
  case Element::I64:
    return "int64_t";
  case Element::Bool:
    return "uint8_t";
  }
  return "";
}

uint64_t countOf(const Tensor &tensor) {
  uint64_t count = 1;
  for (int64_t size : tensor.shape)
    count *= uint64_t(size);
  return count;
}

const Variant &variantOf(const Program &program, const Step &step) {
  auto fits = [](const Variant &variant) {
    return std::all_of(variant.launches.begin(), variant.launches.end(),
                       [](const Launch &launch) { return launch.sharedBytes <= kCommonSharedBytes; });
  };
  const Variant &chosen = step.variants[step.chosen];
  if (program.architecture != Architecture::Sm80 || fits(chosen))
    return chosen;
  auto found = std::find_if(step.variants.begin(), step.variants.end(), fits);
  return found == step.variants.end() ? chosen : *found;
}

/// Names of parameters: those of the model as C has them, each once.
std::vector<std::string> parameterNames(const Program &program) {
  std::vector<std::string> names;
  std::set<std::string> taken{"network"};
  for (const std::vector<Tensor> *tensors : {&program.inputs, &program.outputs})
    for (size_t i = 0; i < tensors->size(); ++i) {
      // A letter in front: no keyword of C is one of these.
      std::string name = tensors == &program.inputs ? "in_" : "out_";
      for (char c : (*tensors)[i].name)
        name += std::isalnum(static_cast<unsigned char>(c)) && static_cast<unsigned char>(c) < 128 ? c : '_';
      if ((*tensors)[i].name.empty() || !taken.insert(name).second)
        taken.insert(name += std::to_string(i));
      names.push_back(name);
    }
  return names;
}

std::string headerText(const Program &program, const std::string &name, const std::string &model) {
  const std::vector<std::string> names = parameterNames(program);
  std::string upper = name;
  for (char &c : upper)
    c = char(std::toupper(static_cast<unsigned char>(c)));
  std::string comment, parameters;
  size_t number = 0;
  for (const std::vector<Tensor> *tensors : {&program.inputs, &program.outputs})
    for (const Tensor &tensor : *tensors) {
      std::string shape;
      for (int64_t size : tensor.shape)
        shape += (shape.empty() ? "" : "x") + std::to_string(size);
      const std::string &parameter = names[number++];
      comment += "   " + parameter + ": " + std::to_string(countOf(tensor)) + " of " + nameOf(tensor.element) +
                 (shape.empty() ? "" : ", " + shape) + "\n";
      parameters +=
          std::string(", ") + (tensors == &program.inputs ? "const " : "") + typeOf(tensor.element) + " *" + parameter;
    }
  std::string safeModel = replaced(model, "*/", "* /");
  return "/* " + safeModel + " on a GPU, " + nameOf(program.architecture) +
         (program.architecture == Architecture::Sm80 ? " and later" : "") +
         ". Written by tilewright compile --target gpu.\n   Compile " + name +
         ".c with the program; it opens libcuda.so.1. */\n" + "#ifndef " + upper + "_H\n#define " + upper +
         "_H\n\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n" + "typedef struct " + name +
         "_network " + name + "_network;\n\n" +
         "/* The network on the first GPU. `folder`: where kernels and weights.bin lie. NULL: " + name +
         "_error() says why. */\n" + name + "_network *" + name + "_load(const char *folder);\n\n" +
         "/* Runs it once and waits. Tensors are dense and row-major, in the memory of the host:\n" + comment +
         "   0, or not: " + name + "_error() says why. */\n" + "int " + name + "_run(" + name + "_network *network" +
         parameters + ");\n\n" + "/* What went wrong last in this thread: \"no GPU here: ...\" where there is none. */\n" +
         "const char *" + name + "_error(void);\n\nvoid " + name + "_free(" + name +
         "_network *network);\n\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
}

std::string loaderText(const Program &program, const std::string &name, std::vector<uint32_t> &kernelsUsed) {
  std::vector<const Launch *> launches;
  for (const Step &step : program.steps)
    for (const Launch &launch : variantOf(program, step).launches)
      launches.push_back(&launch);
  std::string arguments, launchText;
  size_t count = 0, most = 0;
  // Kernels and maps of other variants are not loaded: these are, in the order of their first use.
  std::vector<uint32_t> mapsUsed;
  std::vector<uint32_t> shared(program.kernels.size(), 0);
  auto numberIn = [](std::vector<uint32_t> &used, uint32_t index) {
    auto found = std::find(used.begin(), used.end(), index);
    if (found == used.end())
      found = used.insert(found, index);
    return std::to_string(found - used.begin());
  };
  for (const Launch *launch : launches) {
    shared[launch->kernel] = std::max(shared[launch->kernel], launch->sharedBytes);
    launchText += "  {" + numberIn(kernelsUsed, launch->kernel) + ", " + std::to_string(launch->grid) + ", " +
                  std::to_string(launch->block) + ", " + std::to_string(launch->cluster) + ", " +
                  std::to_string(launch->sharedBytes) + ", " + std::to_string(int(launch->overlaps)) + ", " +
                  std::to_string(count) + ", " + std::to_string(launch->arguments.size()) + "},\n";
    for (const Argument &argument : launch->arguments) {
      if (auto *map = std::get_if<MapIndex>(&argument))
        arguments += "  {'t', " + numberIn(mapsUsed, map->index) + "},\n";
      else if (auto *place = std::get_if<Place>(&argument))
        arguments += std::string("  {'") + (place->isConstant ? 'w' : 'm') + "', " + std::to_string(place->offset) + "},\n";
      else
        arguments += "  {'n', " + std::to_string(std::get<uint32_t>(argument)) + "},\n";
    }
    count += launch->arguments.size();
    most = std::max(most, launch->arguments.size());
  }
  std::string kernels, maps;
  for (uint32_t i : kernelsUsed)
    kernels += "  {\"" + program.kernels[i].name + "\", " + std::to_string(i) + ", " + std::to_string(shared[i]) + "},\n";
  for (uint32_t i : mapsUsed) {
    const TensorMap &map = program.maps[i];
    maps += "  {" + std::to_string(runtime::gpu::tensorMapType(map.element)) + ", " + std::to_string(map.dims.size()) + ", " +
            std::to_string(runtime::gpu::tensorMapSwizzle(map.swizzleBytes)) + ", " +
            std::to_string(int(map.place.isConstant)) + ", " + std::to_string(map.place.offset) + ", " + list(map.dims) + ", " +
            list(map.strides) + ", " + list(map.box) + ", " + list(map.elementStrides) + ", " + list(map.lower) + ", " +
            list(map.upper) + ", " + std::to_string(map.channels) + ", " + std::to_string(map.pixels) + "},\n";
  }
  auto tensors = [](const std::vector<Tensor> &all) {
    std::string text;
    for (const Tensor &tensor : all)
      text += "  {" + std::to_string(tensor.place.offset) + ", " +
              std::to_string(countOf(tensor) * tw::gpu::bytesOf(tensor.element)) + "},\n";
    return text;
  };
  const bool isAmpere = program.architecture == Architecture::Sm80;
  std::string text =
      "/* Written by tilewright compile --target gpu: what a driver is told, and the functions that tell it. */\n#include \"" +
      name + ".h\"\n\n" + "#define ARCHITECTURE \"" + nameOf(program.architecture) + (isAmpere ? " and later" : "") +
      "\"\n#define CAPABILITY " + (isAmpere ? "80" : "90") + "\n#define ONLY_THIS_CAPABILITY " + (isAmpere ? "0" : "1") +
      "\n#define KERNELS " + std::to_string(kernelsUsed.size()) + "\n#define TENSOR_MAPS " + std::to_string(mapsUsed.size()) +
      "\n#define MOST_ARGUMENTS " + std::to_string(most) + "\n#define MEMORY_BYTES " +
      std::to_string(std::max<uint64_t>(program.arenaBytes, 1)) + "ull\n#define WEIGHTS_BYTES " +
      std::to_string(program.constants.size()) + "ull\n\n";
  text += "static const struct { const char *name; unsigned file, shared_bytes; } kernels[] = {\n" + kernels + "};\n";
  text += "/* n: a number; m, w: an offset in memory or weights; t: a tensor map. */\n"
          "typedef struct { char kind; uint64_t value; } Argument;\nstatic const Argument arguments[] = {\n" +
          arguments + "};\n";
  text += "typedef struct { unsigned kernel, grid, block, cluster, shared_bytes; int overlaps; unsigned first_argument, "
          "argument_count; } Launch;\nstatic const Launch launches[] = {\n" +
          launchText + "};\n";
  if (!maps.empty())
    text +=
        "typedef struct {\n  int type;\n  unsigned rank;\n  int swizzle, is_weight;\n  uint64_t offset, dims[5], strides[5];\n"
        "  uint32_t box[5], element_strides[5];\n  int lower[2], upper[2];\n  unsigned channels, pixels;\n} TensorMap;\n"
        "static const TensorMap maps[] = {\n" +
        maps + "};\n";
  text += "typedef struct { uint64_t offset, bytes; } Tensor;\nstatic const Tensor inputs[] = {\n" + tensors(program.inputs) +
          "};\nstatic const Tensor outputs[] = {\n" + tensors(program.outputs) + "};\n";
  text += replaced(std::string(tw_gpu_loader_begin, tw_gpu_loader_end), "NETWORK", name);
  const std::vector<std::string> names = parameterNames(program);
  std::string parameters, in, out;
  for (size_t i = 0; i < names.size(); ++i) {
    const bool isInput = i < program.inputs.size();
    const Tensor &tensor = isInput ? program.inputs[i] : program.outputs[i - program.inputs.size()];
    parameters += std::string(", ") + (isInput ? "const " : "") + typeOf(tensor.element) + " *" + names[i];
    std::string &all = isInput ? in : out;
    all += (all.empty() ? "" : ", ") + names[i];
  }
  return text + "int " + name + "_run(" + name + "_network *network" + parameters + ") {\n  const void *const in[] = {" +
         (in.empty() ? "0" : in) + "};\n  void *const out[] = {" + (out.empty() ? "0" : out) +
         "};\n  return run(network, in, out);\n}\n";
}

} // namespace

runtime::gpu::CBundle runtime::gpu::toC(const Program &program, const std::string &name, const std::string &model) {
  CBundle bundle;
  bundle.header = headerText(program, name, model);
  bundle.loader = loaderText(program, name, bundle.kernels);
  std::sort(bundle.kernels.begin(), bundle.kernels.end());
  return bundle;
}
