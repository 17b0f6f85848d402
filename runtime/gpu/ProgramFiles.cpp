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

/// A whole number of this key between two others.
uint64_t number(const json &value, const char *key, uint64_t least, uint64_t most) {
  const json &found = value.at(key);
  if (!found.is_number_integer() || found.is_number_float() || (!found.is_number_unsigned() && found.get<int64_t>() < 0) ||
      found.get<uint64_t>() < least || found.get<uint64_t>() > most)
    throw std::invalid_argument(std::string("'") + key + "' is " + found.dump() + " but must be a whole number from " +
                                std::to_string(least) + " to " + std::to_string(most));
  return found.get<uint64_t>();
}

/// `count` whole numbers of this key.
template <typename T> std::vector<T> numbers(const json &value, const char *key, size_t count, int64_t least, int64_t most) {
  const json &found = value.at(key);
  bool isGood = found.is_array() && found.size() == count;
  std::vector<T> result;
  for (size_t i = 0; isGood && i < count; ++i) {
    isGood = found[i].is_number_integer() &&
             (found[i].is_number_unsigned() ? found[i].get<uint64_t>() <= uint64_t(most)
                                            : found[i].get<int64_t>() >= least && found[i].get<int64_t>() <= most);
    if (isGood)
      result.push_back(found[i].get<T>());
  }
  if (!isGood)
    throw std::invalid_argument(std::string("'") + key + "' is " + found.dump() + " but must be " + std::to_string(count) +
                                " whole numbers from " + std::to_string(least) + " to " + std::to_string(most));
  return result;
}

/// Limits of sm_90, and of what is plausible beyond.
constexpr uint64_t kMostBlocks = 0x7fffffff, kMostThreads = 1024, kMostCluster = 8, kMostShared = 232448;
constexpr uint64_t kMostBytes = uint64_t(1) << 40;
constexpr int64_t kMostDim = int64_t(1) << 32, kMostStride = int64_t(1) << 40;

Element elementNamed(const std::string &name) {
  for (int i = 0; i <= int(Element::Bool); ++i)
    if (name == nameOf(Element(i)))
      return Element(i);
  throw std::invalid_argument("element type '" + name + "' is none");
}

json toJson(const Place &place) { return {{place.isConstant ? "weights" : "memory", place.offset}}; }
Place toPlace(const json &value) {
  const bool isConstant = value.contains("weights");
  return {isConstant, number(value, isConstant ? "weights" : "memory", 0, kMostBytes)};
}

json toJson(const Tensor &tensor) {
  return {{"name", tensor.name}, {"element", nameOf(tensor.element)}, {"shape", tensor.shape}, {"at", toJson(tensor.place)}};
}
Tensor toTensor(const json &value) {
  return {value.at("name"), elementNamed(value.at("element")),
          numbers<int64_t>(value, "shape", value.at("shape").size(), 1, kMostDim), toPlace(value.at("at"))};
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
  Launch launch;
  launch.kernel = uint32_t(number(value, "kernel", 0, UINT32_MAX));
  launch.grid = uint32_t(number(value, "grid", 1, kMostBlocks));
  launch.block = uint32_t(number(value, "block", 1, kMostThreads));
  launch.cluster = uint32_t(number(value, "cluster", 1, kMostCluster));
  launch.sharedBytes = uint32_t(number(value, "shared_bytes", 0, kMostShared));
  launch.overlaps = value.at("overlaps");
  for (const json &argument : value.at("arguments"))
    if (argument.is_number())
      launch.arguments.push_back(uint32_t(number({{"argument", argument}}, "argument", 0, UINT32_MAX)));
    else if (argument.contains("map"))
      launch.arguments.push_back(MapIndex{uint32_t(number(argument, "map", 0, UINT32_MAX))});
    else
      launch.arguments.push_back(toPlace(argument));
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
    const uint64_t bytes = number(document, "weights_bytes", 0, kMostBytes);
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
    program.arenaBytes = number(document, "memory_bytes", 0, kMostBytes);
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
      const size_t rank = entry.at("dims").size();
      if (rank < 1 || rank > 5)
        return userError(where + "a tensor map has " + std::to_string(rank) + " dims but must have 1 to 5");
      map.dims = numbers<uint64_t>(entry, "dims", rank, 1, kMostDim);
      map.strides = numbers<uint64_t>(entry, "strides_bytes", rank - 1, 1, kMostStride);
      map.elementStrides = numbers<uint32_t>(entry, "element_strides", rank, 1, 8);
      map.swizzleBytes = unsigned(number(entry, "swizzle_bytes", 32, 128));
      if (entry.contains("pixels")) {
        map.lower = numbers<int32_t>(entry, "lower", 2, -32768, 32767);
        map.upper = numbers<int32_t>(entry, "upper", 2, -32768, 32767);
        map.channels = uint32_t(number(entry, "channels", 1, 256));
        map.pixels = uint32_t(number(entry, "pixels", 1, 1024));
      } else {
        map.box = numbers<uint32_t>(entry, "box", rank, 1, 256);
      }
      program.maps.push_back(std::move(map));
    }
    for (const json &entry : document.at("steps")) {
      Step step;
      step.name = entry.at("name");
      step.nodes = entry.at("nodes").get<std::vector<std::string>>();
      step.kind = entry.at("kind");
      step.why = entry.at("why");
      step.chosen = uint32_t(number(entry, "chosen", 0, UINT32_MAX));
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
