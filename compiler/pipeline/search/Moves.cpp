//===- Moves.cpp - Changes of single decisions ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/search/Moves.h"

using namespace tw::pipeline;

SearchPoint tw::pipeline::neighbourOf(const SearchPoint &point, llvm::ArrayRef<Move> moves) {
  SearchPoint neighbour = point;
  for (const Move &move : moves)
    neighbour.decisions[move.decision] = move.candidate;
  return neighbour;
}

int64_t Locality::cyclesAround(const Measurement &measurement, const Move &move) const {
  int64_t sum = 0;
  const size_t layer = firstLayer(move);
  for (size_t i = layer ? layer - 1 : 0; i <= lastLayer(move) + 1 && i < measurement.layerCycles.size(); ++i)
    sum += int64_t(measurement.layerCycles[i]);
  return sum;
}
