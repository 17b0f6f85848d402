//===- ProgramFiles.cpp - A GPU program as a folder -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/files/InputFile.h"
#include "runtime/gpu/GpuNetwork.h"

#include <nlohmann/json.hpp>

using namespace tw;
using namespace tw::runtime;
using namespace tw::gpu;
using json = nlohmann::ordered_json;

namespace {
constexpr int kVersion = 1;

Element elementNamed(const std::string &name) {
  for (int i = 0; i <= int(Element::Bool); ++i)
    if (name == nameOf(Element(i)))
      return Element(i);
  throw std::invalid_argument("element type '" + name + "' is none");
}

json toJson(const Place &place) { return {{place.isConstant ? "weights" : "memory", place.offset}}; }
Place toPlace(const json &value) {
  const bool isConstant = value.contains("weights");
  return {isConstant, value.at(isConstant ? "weights" : "memory")};
}

json toJson(const Tensor &tensor) {
  return {{"name", tensor.name}, {"element", nameOf(tensor.element)}, {"shape", tensor.shape}, {"at", toJson(tensor.place)}};
}
Tensor toTensor(const json &value) {
  return {value.at("name"), elementNamed(value.at("element")), value.at("shape"), toPlace(value.at("at"))};
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
Launch toLaunch(const json &value) {
  Launch launch{value.at("kernel"),
                value.at("grid"),
                value.at("block"),
                value.at("cluster"),
                value.at("shared_bytes"),
                value.at("overlaps"),
                {}};
  for (const json &argument : value.at("arguments"))
    if (argument.is_number())
      launch.arguments.push_back(argument.get<uint32_t>());
    else if (argument.contains("map"))
      launch.arguments.push_back(MapIndex{argument.at("map")});
    else
      launch.arguments.push_back(toPlace(argument));
  return launch;
}

/// Every index and place lies inside.
std::string problemOf(const Program &program) {
  auto isInside = [&](const Place &place) {
    return place.offset <= (place.isConstant ? program.constants.size() : program.arenaBytes);
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
  json document = {{"version", kVersion}, {"memory_bytes", program.arenaBytes}, {"weights_bytes", program.constants.size()}};
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

StatusOr<Program> runtime::gpu::fromFolder(const std::string &folder, bool needsWeights) {
  auto read = [&](const std::string &name) { return files::readFile(folder + "/" + name); };
  Result<std::string> text = read("program.json");
  if (!text)
    return userError(text.message());
  const std::string where = folder + "/program.json: ";
  Program program;
  try {
    const json document = json::parse(*text);
    const uint64_t bytes = document.at("weights_bytes");
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
    if (document.at("version") != kVersion)
      return userError(where + "version is " + document.at("version").dump() + " but must be " + std::to_string(kVersion));
    program.arenaBytes = document.at("memory_bytes");
    for (const json &tensor : document.at("inputs"))
      program.inputs.push_back(toTensor(tensor));
    for (const json &tensor : document.at("outputs"))
      program.outputs.push_back(toTensor(tensor));
    for (const json &kernel : document.at("kernels")) {
      const std::string file = kernel.at("file");
      if (file.find("..") != std::string::npos)
        return userError(where + "kernel file '" + file + "' lies outside of the folder");
      Result<std::string> ptx = read(file);
      if (!ptx)
        return userError(ptx.message());
      program.kernels.push_back({kernel.at("name"), std::move(*ptx)});
    }
    for (const json &entry : document.at("maps")) {
      TensorMap map;
      map.element = elementNamed(entry.at("element"));
      map.place = toPlace(entry.at("at"));
      map.dims = entry.at("dims").get<std::vector<uint64_t>>();
      map.strides = entry.at("strides_bytes").get<std::vector<uint64_t>>();
      map.elementStrides = entry.at("element_strides").get<std::vector<uint32_t>>();
      map.swizzleBytes = entry.at("swizzle_bytes");
      if (entry.contains("pixels")) {
        map.lower = entry.at("lower").get<std::vector<int32_t>>();
        map.upper = entry.at("upper").get<std::vector<int32_t>>();
        map.channels = entry.at("channels");
        map.pixels = entry.at("pixels");
      } else {
        map.box = entry.at("box").get<std::vector<uint32_t>>();
      }
      program.maps.push_back(std::move(map));
    }
    for (const json &entry : document.at("steps")) {
      Step step;
      step.name = entry.at("name");
      step.nodes = entry.at("nodes").get<std::vector<std::string>>();
      step.kind = entry.at("kind");
      step.why = entry.at("why");
      step.chosen = entry.at("chosen");
      for (const json &value : entry.at("variants")) {
        Variant variant{value.at("name"), value.at("estimate_us"), {}};
        for (const json &launch : value.at("launches"))
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
