//===- ProgramFiles.cpp - A GPU program as a folder -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/files/InputFile.h"
#include "runtime/gpu/GpuNetwork.h"
#include "runtime/gpu/JsonReader.h"

#include <fstream>

using namespace tw;
using namespace tw::runtime;
using namespace tw::gpu;
using runtime::gpu::failJson, runtime::gpu::JsonReader, runtime::gpu::wholeNumber;
using json = runtime::gpu::Json;

namespace {
constexpr int kVersion = 1;

/// Limits of sm_90, and of what is plausible beyond.
constexpr uint64_t kMostBlocks = 0x7fffffff, kMostThreads = 1024, kMostCluster = 8, kMostShared = 232448;
constexpr uint64_t kMostBytes = uint64_t(1) << 40;
constexpr int64_t kMostDim = int64_t(1) << 32, kMostStride = int64_t(1) << 40;

Element readElement(const JsonReader &entry) {
  const std::string name = entry.text("element");
  std::string names;
  for (int i = 0; i <= int(Element::Bool); ++i) {
    if (name == nameOf(Element(i)))
      return Element(i);
    names += (i ? ", " : "") + std::string(nameOf(Element(i)));
  }
  failJson(entry.place("element"), name, "one of " + names);
}

/// Folders of version 1 without one are for sm_90a.
Architecture readArchitecture(const JsonReader &document) {
  if (!document.has("architecture"))
    return Architecture::Sm90a;
  const std::string name = document.text("architecture");
  for (Architecture architecture : {Architecture::Sm80, Architecture::Sm90a})
    if (name == nameOf(architecture))
      return architecture;
  failJson(document.place("architecture"), name, "sm_80 or sm_90a");
}

json toJson(const Place &place) { return {{place.isConstant ? "weights" : "memory", place.offset}}; }
Place toPlace(const JsonReader &entry) {
  const bool isConstant = entry.has("weights");
  return {isConstant, entry.number(isConstant ? "weights" : "memory", 0, kMostBytes)};
}

json toJson(const Tensor &tensor) {
  return {{"name", tensor.name}, {"element", nameOf(tensor.element)}, {"shape", tensor.shape}, {"at", toJson(tensor.place)}};
}
Tensor toTensor(const JsonReader &entry) {
  return {entry.text("name"), readElement(entry), entry.numbers<int64_t>("shape", 0, 1, kMostDim), toPlace(entry.object("at"))};
}

json toJson(const Launch &launch) {
  json arguments = json::array();
  for (const Argument &argument : launch.arguments)
    if (auto *map = std::get_if<MapIndex>(&argument))
      arguments.push_back({{"map", map->index}});
    else if (auto *place = std::get_if<Place>(&argument))
      arguments.push_back(toJson(*place));
    else
      arguments.push_back(std::get<uint32_t>(argument));
  return {{"kernel", launch.kernel},
          {"grid", launch.grid},
          {"block", launch.block},
          {"cluster", launch.cluster},
          {"shared_bytes", launch.sharedBytes},
          {"overlaps", launch.overlaps},
          {"arguments", arguments}};
}
Launch toLaunch(const JsonReader &entry) {
  Launch launch;
  launch.kernel = uint32_t(entry.number("kernel", 0, UINT32_MAX));
  launch.grid = uint32_t(entry.number("grid", 1, kMostBlocks));
  launch.block = uint32_t(entry.number("block", 1, kMostThreads));
  launch.cluster = uint32_t(entry.number("cluster", 1, kMostCluster));
  launch.sharedBytes = uint32_t(entry.number("shared_bytes", 0, kMostShared));
  launch.overlaps = entry.flag("overlaps");
  for (const json &argument : entry.array("arguments")) {
    const std::string place = entry.place("arguments") + "[" + std::to_string(launch.arguments.size()) + "]";
    if (argument.is_number())
      launch.arguments.push_back(uint32_t(wholeNumber(argument, place, 0, UINT32_MAX)));
    else if (const JsonReader reader(argument, place); reader.has("map"))
      launch.arguments.push_back(MapIndex{uint32_t(reader.number("map", 0, UINT32_MAX))});
    else
      launch.arguments.push_back(toPlace(reader));
  }
  return launch;
}

/// Every index and place lies inside.
std::string problemOf(const Program &program) {
  auto isInside = [&](const Place &place) {
    return place.offset < (place.isConstant ? program.constants.size() : program.arenaBytes);
  };
  for (const std::vector<Tensor> *tensors : {&program.inputs, &program.outputs})
    for (const Tensor &tensor : *tensors) {
      uint64_t bytes = tw::gpu::bytesOf(tensor.element);
      for (int64_t size : tensor.shape) {
        if (size < 0 || (size && bytes > program.arenaBytes / uint64_t(size)))
          return "tensor '" + tensor.name + "' is larger than the memory";
        bytes *= uint64_t(size);
      }
      if (tensor.place.isConstant || tensor.place.offset > program.arenaBytes - bytes)
        return "tensor '" + tensor.name + "' lies outside of the memory";
    }
  for (const TensorMap &map : program.maps)
    if (!isInside(map.place) || map.dims.empty() || map.dims.size() > 5 || map.strides.size() + 1 != map.dims.size() ||
        map.elementStrides.size() != map.dims.size() ||
        (map.isIm2col() ? map.dims.size() != 4 || map.lower.size() != 2 || map.upper.size() != 2
                        : map.box.size() != map.dims.size()))
      return "a tensor map is malformed";
  for (const Step &step : program.steps) {
    if (step.chosen >= step.variants.size())
      return "step '" + step.name + "' has no variant " + std::to_string(step.chosen);
    for (const Variant &variant : step.variants)
      for (const Launch &launch : variant.launches) {
        if (launch.kernel >= program.kernels.size())
          return "step '" + step.name + "' has no kernel " + std::to_string(launch.kernel);
        for (const Argument &argument : launch.arguments) {
          auto *map = std::get_if<MapIndex>(&argument);
          auto *place = std::get_if<Place>(&argument);
          if ((map && map->index >= program.maps.size()) || (place && !isInside(*place)))
            return "an argument of step '" + step.name + "' lies outside";
        }
      }
  }
  return "";
}
} // namespace

runtime::gpu::ProgramFiles runtime::gpu::toFiles(const Program &program) {
  json document = {{"version", kVersion},
                   {"architecture", nameOf(program.architecture)},
                   {"memory_bytes", program.arenaBytes},
                   {"weights_bytes", program.constants.size()}};
  for (const char *key : {"inputs", "outputs", "kernels", "maps", "steps"})
    document[key] = json::array();
  for (const Tensor &tensor : program.inputs)
    document["inputs"].push_back(toJson(tensor));
  for (const Tensor &tensor : program.outputs)
    document["outputs"].push_back(toJson(tensor));
  ProgramFiles files;
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    document["kernels"].push_back({{"name", program.kernels[i].name}, {"file", "kernels/" + std::to_string(i) + ".ptx"}});
    files.kernels.push_back(program.kernels[i].ptx);
  }
  for (const TensorMap &map : program.maps) {
    json entry = {{"element", nameOf(map.element)},
                  {"at", toJson(map.place)},
                  {"dims", map.dims},
                  {"strides_bytes", map.strides},
                  {"element_strides", map.elementStrides},
                  {"swizzle_bytes", map.swizzleBytes}};
    if (map.isIm2col())
      entry.update({{"lower", map.lower}, {"upper", map.upper}, {"channels", map.channels}, {"pixels", map.pixels}});
    else
      entry["box"] = map.box;
    document["maps"].push_back(std::move(entry));
  }
  for (const Step &step : program.steps) {
    json variants = json::array();
    for (const Variant &variant : step.variants) {
      json launches = json::array();
      for (const Launch &launch : variant.launches)
        launches.push_back(toJson(launch));
      variants.push_back({{"name", variant.name}, {"estimate_us", variant.microseconds}, {"launches", launches}});
    }
    document["steps"].push_back({{"name", step.name},
                                 {"nodes", step.nodes},
                                 {"kind", step.kind},
                                 {"why", step.why},
                                 {"chosen", step.chosen},
                                 {"variants", variants}});
  }
  files.json = document.dump(1) + "\n";
  files.weights.assign(program.constants.begin(), program.constants.end());
  return files;
}

std::vector<std::string> runtime::gpu::kernelFilesOf(const std::string &folder) {
  std::vector<std::string> names;
  // Not files::readFile(): what is read in order to be replaced is no input.
  std::ifstream file(folder + "/program.json", std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  try {
    const json document = parseJson(text);
    for (const JsonReader &kernel : JsonReader(document, "").list("kernels"))
      if (std::string file = kernel.text("file"); file == "kernels/" + std::to_string(names.size()) + ".ptx")
        names.push_back(std::move(file));
  } catch (const std::exception &) {
    names.clear();
  }
  return names;
}

StatusOr<Program> runtime::gpu::fromFolder(const std::string &folder, bool needsWeights) {
  auto read = [&](const std::string &name) { return files::readFile(folder + "/" + name); };
  Result<std::string> text = read("program.json");
  if (!text)
    return userError(text.message());
  const std::string where = folder + "/program.json: ";
  Program program;
  try {
    const json parsed = runtime::gpu::parseJson(*text);
    const JsonReader document(parsed, "");
    const uint64_t bytes = document.number("weights_bytes", 0, kMostBytes);
    if (needsWeights) {
      Result<std::string> weights = read("weights.bin");
      if (!weights)
        return userError(weights.message());
      if (weights->size() != bytes)
        return userError(folder + "/weights.bin has " + std::to_string(weights->size()) + " bytes but program.json says " +
                         std::to_string(bytes));
      program.constants.assign(weights->begin(), weights->end());
    } else {
      program.constants.resize(bytes);
    }
    document.number("version", kVersion, kVersion);
    program.architecture = readArchitecture(document);
    program.arenaBytes = document.number("memory_bytes", 0, kMostBytes);
    for (const JsonReader &tensor : document.list("inputs"))
      program.inputs.push_back(toTensor(tensor));
    for (const JsonReader &tensor : document.list("outputs"))
      program.outputs.push_back(toTensor(tensor));
    for (const JsonReader &kernel : document.list("kernels")) {
      const std::string file = kernel.text("file");
      if (file.find("..") != std::string::npos)
        return userError(where + "kernel file '" + file + "' lies outside of the folder");
      Result<std::string> ptx = read(file);
      if (!ptx)
        return userError(ptx.message());
      program.kernels.push_back({kernel.text("name"), std::move(*ptx), ""});
    }
    for (const JsonReader &entry : document.list("maps")) {
      TensorMap map;
      map.element = readElement(entry);
      map.place = toPlace(entry.object("at"));
      map.dims = entry.numbers<uint64_t>("dims", 0, 1, kMostDim);
      const size_t rank = map.dims.size();
      if (rank < 1 || rank > 5)
        failJson(entry.place("dims"), map.dims, "1 to 5 numbers");
      map.strides = entry.numbers<uint64_t>("strides_bytes", rank - 1, 1, kMostStride);
      map.elementStrides = entry.numbers<uint32_t>("element_strides", rank, 1, 8);
      map.swizzleBytes = unsigned(entry.number("swizzle_bytes", 32, 128));
      if (entry.has("pixels")) {
        map.lower = entry.numbers<int32_t>("lower", 2, -32768, 32767);
        map.upper = entry.numbers<int32_t>("upper", 2, -32768, 32767);
        map.channels = uint32_t(entry.number("channels", 1, 256));
        map.pixels = uint32_t(entry.number("pixels", 1, 1024));
      } else {
        map.box = entry.numbers<uint32_t>("box", rank, 1, 256);
      }
      program.maps.push_back(std::move(map));
    }
    for (const JsonReader &entry : document.list("steps")) {
      Step step;
      step.name = entry.text("name");
      step.nodes = entry.texts("nodes");
      step.kind = entry.text("kind");
      step.why = entry.text("why");
      step.chosen = uint32_t(entry.number("chosen", 0, UINT32_MAX));
      for (const JsonReader &each : entry.list("variants")) {
        Variant variant;
        variant.name = each.text("name");
        variant.microseconds = each.real("estimate_us");
        for (const JsonReader &launch : each.list("launches"))
          variant.launches.push_back(toLaunch(launch));
        step.variants.push_back(std::move(variant));
      }
      program.steps.push_back(std::move(step));
    }
  } catch (const std::exception &error) {
    return userError(where + error.what());
  }
  if (std::string problem = problemOf(program); !problem.empty())
    return userError(where + problem);
  return program;
}
