//===- LayerJoin.cpp - The layers of two targets side by side -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/LayerJoin.h"

#include <algorithm>
#include <map>
#include <numeric>

using namespace tw;
using namespace tw::runtime;

static void addLayers(const std::vector<LayerRow> &rows, std::vector<const LayerRow *> &layers) {
  for (const LayerRow &row : rows)
    if (row.members.empty())
      layers.push_back(&row);
    else
      addLayers(row.members, layers);
}

std::vector<JoinedLayers> runtime::joinLayers(const std::vector<LayerRow> &rows, const std::vector<KernelTime> &kernels) {
  std::vector<const LayerRow *> layers;
  addLayers(rows, layers);
  // Layers come first, then kernels: each belongs to the part of the first that it shares nodes with.
  std::vector<size_t> parts(layers.size() + kernels.size());
  std::iota(parts.begin(), parts.end(), size_t(0));
  auto partOf = [&](size_t item) {
    while (parts[item] != item)
      item = parts[item];
    return item;
  };
  auto nodesOf = [&](size_t item) -> const std::vector<std::string> & {
    return item < layers.size() ? layers[item]->nodes : kernels[item - layers.size()].nodes;
  };
  std::map<std::string, size_t> firstWith;
  for (size_t item = 0; item < parts.size(); ++item)
    for (const std::string &node : nodesOf(item)) {
      auto [first, isNew] = firstWith.emplace(node, item);
      if (isNew)
        continue;
      auto [low, high] = std::minmax(partOf(first->second), partOf(item));
      parts[high] = low;
    }

  std::map<size_t, JoinedLayers> joined;
  for (size_t item = 0; item < parts.size(); ++item) {
    JoinedLayers &part = joined[partOf(item)];
    for (const std::string &node : nodesOf(item))
      if (std::find(part.nodes.begin(), part.nodes.end(), node) == part.nodes.end())
        part.nodes.push_back(node);
    if (item < layers.size()) {
      part.layers.push_back(layers[item]->name);
      part.cycles = part.cycles.value_or(0) + layers[item]->result.critical;
    } else {
      const KernelTime &kernel = kernels[item - layers.size()];
      part.kernels.push_back(kernel.kernel);
      part.seconds = part.seconds.value_or(0) + kernel.seconds;
    }
  }
  std::vector<JoinedLayers> result;
  for (auto &[first, part] : joined)
    result.push_back(std::move(part));
  return result;
}
