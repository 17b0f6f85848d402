//===- EmitterConstants.cpp - Weights and parameters in the order of use ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Emitter.h"

#include <algorithm>

using namespace tw;
using namespace tw::accel;

namespace {
/// Raw bytes of element `index` of a constant.
const char *element(const mlir::DenseElementsAttr &value, int64_t index, unsigned size) {
  llvm::ArrayRef<char> raw = value.getRawData();
  return raw.data() + (value.isSplat() ? 0 : index * size);
}
} // namespace

void Emitter::packConstants() {
  constantAddress.assign(kernel.tensors.size(), 0);
  parametersAddress.assign(chains.size(), 0);
  auto whole = [&](int tensor) {
    const KernelTensor &t = kernel.tensors[tensor];
    if (t.role != KernelTensor::Constant || constantAddress[tensor])
      return;
    unsigned size = byteSize(t.type);
    const size_t all = size_t(t.elements) * size;
    constantAddress[tensor] = network.addConstant(all, [all, size, value = t.value] {
      std::vector<uint8_t> bytes(all);
      for (size_t at = 0; at < all; at += size)
        memcpy(bytes.data() + at, element(value, int64_t(at / size), size), size);
      return bytes;
    });
  };
  int64_t lanes = machine.lanes;
  auto blocks = [&](int64_t size) { // of all tiles
    int64_t count = 0;
    for (const Range &tile : channelTiles)
      count += ceilDiv(tile.size(), size);
    return count;
  };
  if (contraction() && constantWeights()) {
    // Tiles in the order of use, each one contiguous: [batch][group][channel tile][ic tile][n block][kh][kw][k block][rows][cols].
    const Anchor &a = *kernel.anchor;
    const KernelTensor &w = kernel.tensors[a.weights];
    unsigned size = byteSize(w.type);
    int64_t rows = machine.rows, cols = machine.cols, kw = a.axes[0].kernel, kh = a.weightRows();
    int64_t batches = a.batchAxis ? kernel.extent[*a.batchAxis] : 1;
    int64_t squares = kh * kw * (a.ic / tile.tileK * ceilDiv(tile.tileK, rows) + ceilDiv(a.ic % tile.tileK, rows));
    squares *= blocks(cols);
    const int64_t all = batches * a.groups * squares * rows * cols * size;
    auto pack = [=, a = a, value = w.value, unpacked = unpacked, packedStride = packedStride, ic = tile.tileK,
                 tiles = channelTiles] {
      const uint8_t *raw = reinterpret_cast<const uint8_t *>(element(value, 0, size));
      const int64_t apart = value.isSplat() ? 0 : size;
      std::vector<uint8_t> bytes(size_t(all), 0);
      uint8_t *to = bytes.data(), zero[4] = {uint8_t(a.weightZero), 0, 0, 0};
      // Elements from an output channel's first weight to that of channel k of a tap.
      auto weightOf = [&](int64_t k, int64_t x, int64_t y) {
        if (unpacked) {
          x = k / packedStride[1] % unpacked->axes[0].kernel;
          y = k / packedStride[2] % unpacked->axes[1].kernel;
          k = k / packedStride[0] % unpacked->ic;
        }
        return k * a.weightIc + y * a.weightKh + x * a.weightKw;
      };
      auto packTile = [&](int64_t base, const Range &n0, int64_t k0) {
        int64_t nEnd = a.pairsRows ? cols : n0.end, kEnd = std::min(a.ic, k0 + ic);
        for (int64_t nb = n0.begin; nb < nEnd; nb += cols)
          for (int64_t y = 0; y < kh; ++y)
            for (int64_t x = 0; x < kw; ++x)
              for (int64_t kb = k0; kb < kEnd; kb += rows)
                for (int64_t k = kb; k < kb + rows; ++k) {
                  const int64_t first = base + weightOf(k, x, y);
                  for (int64_t n = nb; n < nb + cols; ++n) {
                    const uint8_t *from = k < kEnd && n < nEnd ? raw + (first + n * a.weightOc) * apart : zero;
                    for (unsigned b = 0; b < size; ++b)
                      *to++ = from[b];
                  }
                }
      };
      for (int64_t batch = 0; batch < batches; ++batch)
        for (int64_t g = 0; g < a.groups; ++g)
          for (const Range &n0 : tiles)
            for (int64_t k0 = 0; k0 < a.ic; k0 += ic)
              packTile(a.weightOffset + batch * a.weightBatch + g * a.weightGroup, n0, k0);
      assert(to == bytes.data() + all && "every byte was packed");
      return bytes;
    };
    weightsAddress = network.addConstant(size_t(all), pack);
  } else if (window() && kernel.anchor->weights >= 0) {
    // [block][tap][lanes], the taps in the order of the vector instruction.
    const Anchor &a = *kernel.anchor;
    const KernelTensor &w = kernel.tensors[a.weights];
    unsigned size = byteSize(w.type);
    const int64_t channels = kernel.extent[C];
    const size_t all = size_t(roundUp(channels, lanes) * windowWeights() * size);
    const int64_t kw = a.axes[0].kernel, kh = a.axes[1].kernel;
    std::vector<std::array<int64_t, 2>> order; // of each tap, once
    auto addTaps = [&](const WindowPart &part) {
      for (int64_t outer = 0; outer < (packsRows() ? part.width : part.height); ++outer)
        for (int64_t inner = 0; inner < (packsRows() ? part.height : part.width); ++inner)
          order.push_back({part.x + (packsRows() ? outer : inner), part.y + (packsRows() ? inner : outer)});
    };
    const auto parts = windowParts(tile);
    llvm::for_each(parts.empty() ? decltype(parts){{0, 0, kw, kh}} : parts, addTaps);
    weightsAddress = network.addConstant(all, [=, a = a, value = w.value, taps = windowWeights()] {
      std::vector<uint8_t> bytes;
      bytes.reserve(all);
      uint8_t zero[4] = {uint8_t(a.weightZero), 0, 0, 0};
      for (int64_t block = 0; block < channels; block += lanes)
        for (int64_t tap = 0; tap < taps; ++tap)
          for (int64_t c = block; c < block + lanes; ++c) {
            const auto [x, y] = order[size_t(tap) % order.size()];
            const uint8_t *from = zero;
            if (c < channels)
              from = reinterpret_cast<const uint8_t *>(
                  element(value, a.weightOffset + c * a.weightOc + y * a.weightKh + x * a.weightKw, size));
            bytes.insert(bytes.end(), from, from + size);
          }
      assert(bytes.size() == all && "every byte was packed");
      return bytes;
    });
  }
  if (tile.arrayChannels) {
    // The last blocks of every tile of channels: [tile][block][tap][rows][cols], with nothing but zeros beside the diagonal.
    const Anchor &a = *kernel.anchor;
    std::vector<Range> last;
    size_t all = 0;
    for (const Range &part : channelTiles) {
      const int64_t count = ceilDiv(part.size(), lanes), most = mostArrayBlocks(tile, count);
      last.push_back({part.begin + (count - most) * lanes, part.end});
      all += size_t(most * diagonalBytes());
    }
    diagonalsAddress = network.addConstant(all, [=, a = a, value = kernel.tensors[a.weights].value, taps = windowWeights()] {
      std::vector<uint8_t> bytes(all, uint8_t(a.weightZero));
      const int64_t kw = a.axes[0].kernel, once = kw * a.axes[1].kernel, size = byteSize(a.weightType);
      uint8_t *square = bytes.data();
      for (const Range &channels : last)
        for (int64_t block = channels.begin; block < channels.end; block += lanes)
          for (int64_t tap = 0; tap < taps; ++tap, square += lanes * lanes * size)
            for (int64_t c = block; c < std::min(block + lanes, channels.end); ++c) {
              const int64_t x = tap % kw, y = tap % once / kw;
              memcpy(square + (c - block) * (lanes + 1) * size,
                     element(value, a.weightOffset + c * a.weightOc + y * a.weightKh + x * a.weightKw, size), size_t(size));
            }
      return bytes;
    });
  }
  for (size_t i = 0; i < kernel.steps.size(); ++i) {
    const Step &step = kernel.steps[i];
    for (const Source &source : step.sources)
      if (source.kind == Source::Tensor)
        whole(source.view.tensor);
    if (chains[i].parameters.empty())
      continue;
    // [group][channel tile][block][parameter][lanes]; a tile's part is one run.
    const int64_t groups = contraction() ? kernel.anchor->groups : 1, channels = this->channels();
    std::vector<mlir::DenseElementsAttr> parameters;
    for (int source : chains[i].parameters)
      parameters.push_back(step.sources[source].parameter);
    const int64_t again = pairsRows() ? lanes / 2 : lanes; // from there on: those of the lower outputs
    const size_t all = size_t(groups * blocks(lanes) * lanes * 4) * parameters.size();
    parametersAddress[i] = network.addConstant(all, [=, tiles = channelTiles] {
      std::vector<uint8_t> bytes;
      bytes.reserve(all);
      for (int64_t g = 0; g < groups; ++g)
        for (const Range &tile : tiles)
          for (int64_t block = tile.begin; block < tile.end; block += lanes)
            for (const mlir::DenseElementsAttr &parameter : parameters)
              for (int64_t lane = 0; lane < lanes; ++lane) {
                uint8_t zero[4] = {};
                const uint8_t *from = zero;
                if (const int64_t c = block + lane % again; c < channels)
                  from = reinterpret_cast<const uint8_t *>(element(parameter, g * channels + c, 4));
                bytes.insert(bytes.end(), from, from + 4);
              }
      assert(bytes.size() == all && "every byte was packed");
      return bytes;
    });
  }
  for (const Copy &copy : kernel.copies)
    whole(copy.from.tensor);
  if (kernel.anchor)
    whole(kernel.anchor->input.tensor);
}
