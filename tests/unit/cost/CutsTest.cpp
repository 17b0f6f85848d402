//===- CutsTest.cpp - Cuts against the graph of all elements ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random small networks as graphs of elements and products. What a cut says comes
// before or after its moment is looked up there, and random programs with little
// memory are run against the sum of both sides.
//===----------------------------------------------------------------------===//
#include "compiler/cost/Cuts.h"
#include "compiler/cost/Needed.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <set>

using namespace tw;
using namespace tw::cost;

namespace {

constexpr int64_t kWidth = 7; ///< of the network's input, at most

/// A product of an input element and a weight; windows without weights have products too.
struct Product {
  int layer = 0, input = 0, weight = -1;
  std::array<int64_t, 3> at{}; ///< input position
};

/// An element of a tensor: what it is made of.
struct Element {
  int layer = -1; ///< -1: of the network's input
  int tensor = 0;
  std::array<int64_t, 3> at{};
  std::vector<int> products, others; ///< others: elements that are added
};

struct Network {
  std::vector<LayerWork> layers;
  std::vector<NetworkTensor> tensors;
  std::vector<Element> elements; ///< in an order in which they can be computed
  std::vector<Product> products;
  int weights = 0;
  std::vector<Grid> grids;                                         ///< of whole tensors
  std::vector<std::vector<std::vector<std::vector<int>>>> indices; ///< tensor, channel, y, x -> element

  int addTensor(int64_t channels, int64_t w, int64_t h) {
    Grid grid;
    grid.size = {w, h, 1};
    grid.stride = {channels, channels * w, channels * w * h};
    grid.channels = channels;
    grids.push_back(grid);
    tensors.push_back({uint64_t(channels * w * h), false, false, false});
    indices.emplace_back(channels, std::vector<std::vector<int>>(size_t(h), std::vector<int>(size_t(w), -1)));
    return int(tensors.size()) - 1;
  }
  int &element(int tensor, int64_t c, int64_t x, int64_t y) { return indices[size_t(tensor)][size_t(c)][size_t(y)][size_t(x)]; }
  void addElement(int tensor, int64_t c, int64_t x, int64_t y, Element e) {
    e.tensor = tensor;
    e.at = {x, y, 0};
    element(tensor, c, x, y) = int(elements.size());
    elements.push_back(std::move(e));
  }

  /// A window or convolution from `from` to channels `first`... of `to`, which may have another tensor `added`.
  void addLayer(Dependence dependence, int from, int to, int64_t first, int64_t channels,
                const std::array<PositionAxis, 3> &window, int added, bool pools) {
    LayerWork layer;
    const bool mixes = dependence == Dependence::Channels;
    const int64_t ic = grids[size_t(from)].channels;
    std::set<int> touched;
    // Weights by channel and tap, as they are met.
    std::map<std::array<int64_t, 4>, int> weightOf;
    std::vector<Element> pooled{size_t(channels)};
    const int index = int(layers.size());
    for (int64_t y = 0; y < window[1].size; ++y)
      for (int64_t x = 0; x < window[0].size; ++x)
        for (int64_t k = 0; k < channels; ++k) {
          Element made;
          made.layer = index;
          for (int64_t ky = 0; ky < window[1].kernel; ++ky)
            for (int64_t kx = 0; kx < window[0].kernel; ++kx)
              for (int64_t c = mixes ? 0 : k; c < (mixes ? ic : k + 1); ++c) {
                int64_t ix = window[0].input(x, kx), iy = window[1].input(y, ky);
                if (ix < 0 || iy < 0)
                  continue;
                int weight = -1;
                if (mixes) {
                  auto [entry, isNew] = weightOf.try_emplace({k, c, ky, kx}, weights);
                  weights += isNew;
                  weight = entry->second;
                }
                touched.insert(element(from, c, ix, iy));
                made.products.push_back(int(products.size()));
                products.push_back({index, element(from, c, ix, iy), weight, {ix, iy, 0}});
              }
          if (added >= 0)
            made.others.push_back(element(added, k, x, y));
          if (pools) {
            Element &sum = pooled[size_t(k)];
            sum.layer = index;
            sum.products.insert(sum.products.end(), made.products.begin(), made.products.end());
            sum.others.insert(sum.others.end(), made.others.begin(), made.others.end());
          } else {
            addElement(to, first + k, x, y, std::move(made));
          }
        }
    if (pools)
      for (int64_t k = 0; k < channels; ++k)
        addElement(to, first + k, 0, 0, std::move(pooled[size_t(k)]));
    layer.dependence = dependence;
    layer.window = window;
    layer.poolsPositions = pools;
    layer.inputs.push_back({unsigned(from), touched.size(), grids[size_t(from)]});
    if (added >= 0)
      layer.inputs.push_back({unsigned(added), tensors[size_t(added)].bytes, grids[size_t(added)]});
    Grid grid = grids[size_t(to)];
    grid.channels = channels;
    grid.offset = first;
    layer.output = {unsigned(to), uint64_t(grid.channels * grid.size[0] * grid.size[1]), grid};
    if (mixes) {
      layer.contraction.emplace();
      layer.contraction->axes = window;
      layer.contraction->ic = uint64_t(ic);
      layer.contraction->oc = uint64_t(channels);
      layer.weights = 0;
      layer.constants = {{nullptr, weightOf.size()}};
    }
    describe(layer, from, added);
    layers.push_back(layer);
  }

  /// What its results take, as element numbers.
  void describe(LayerWork &layer, int from, int added) const {
    const Grid &input = grids[size_t(from)], &output = *layer.output.grid;
    const bool mixes = layer.dependence == Dependence::Channels, pools = layer.poolsPositions;
    LayerWork::Piece piece;
    piece.space.offset = output.offset;
    piece.space.axes = {
        {1, 0}, {output.size[1], output.stride[1]}, {output.size[0], output.stride[0]}, {1, 0}, {output.channels, 1}};
    auto along = [&](size_t a, int64_t size, int64_t stride) -> Access::Axis {
      return {pools ? -1 : a == 0 ? 2 : 1, {}, size, stride};
    };
    Access read, sums, results;
    read.elements = tensors[size_t(from)].bytes;
    for (size_t a = 0; a < 2; ++a) {
      read.axes.push_back(along(a, input.size[a], input.stride[a]));
      read.axes.back().windows = {layer.window[a]};
      sums.axes.push_back(along(a, layer.window[a].size, output.channels * (a == 0 ? 1 : layer.window[0].size)));
      results.axes.push_back({a == 0 ? 2 : 1, {}, output.size[a], output.channels * (a == 0 ? 1 : output.size[0])});
    }
    const Access::Axis channel{4, {}, output.channels, 1};
    read.axes.push_back(mixes ? Access::Axis{-1, {}, input.channels, 1} : channel);
    sums.axes.push_back(channel);
    results.axes.push_back(channel);
    sums.elements = uint64_t(layer.window[0].size * layer.window[1].size * output.channels);
    results.elements = layer.output.bytes;
    piece.reads.push_back(read);
    if (added >= 0) {
      Access other;
      other.use = 1;
      other.elements = tensors[size_t(added)].bytes;
      for (size_t a = 0; a < 2; ++a)
        other.axes.push_back(along(a, grids[size_t(added)].size[a], grids[size_t(added)].stride[a]));
      other.axes.push_back(channel);
      piece.reads.push_back(other);
    }
    layer.pieces = {piece};
    layer.passes = {results};
    if (mixes)
      layer.sums = sums;
  }

  /// A box of one tensor copied to another: axes are channel, x and y.
  struct Move {
    std::array<int64_t, 3> shape, from{}, step{1, 1, 1}, to{}, padLow{}, padHigh{}; ///< shape: padding included
    std::array<size_t, 3> axis{0, 1, 2};                                            ///< of the source, for each of the result
  };

  /// All elements of `to` by copies of boxes of `from`.
  void addMoves(int from, int to, const std::vector<Move> &moves) {
    const auto strides = [](const Grid &grid) { return std::array<int64_t, 3>{1, grid.stride[0], grid.stride[1]}; };
    const std::array<int64_t, 3> source = strides(grids[size_t(from)]), target = strides(grids[size_t(to)]);
    LayerWork layer;
    std::set<int> touched;
    for (const Move &move : moves) {
      LayerWork::Piece piece;
      Access read;
      read.elements = tensors[size_t(from)].bytes;
      for (size_t a = 3; a-- > 0;) {
        const int64_t inside = move.shape[a] - move.padLow[a] - move.padHigh[a], stride = source[move.axis[a]];
        PositionAxis window;
        window.size = move.shape[a];
        window.padLow = move.padLow[a];
        window.inputSize = inside;
        piece.space.axes.push_back({move.shape[a], target[a]});
        piece.space.offset += move.to[a] * target[a];
        read.axes.push_back({int(2 - a), {window}, inside, stride * move.step[a]});
        read.offset += move.from[a] * stride;
      }
      piece.reads.push_back(read);
      layer.pieces.push_back(piece);
      std::array<int64_t, 3> i{};
      for (i[2] = 0; i[2] < move.shape[2]; ++i[2])
        for (i[1] = 0; i[1] < move.shape[1]; ++i[1])
          for (i[0] = 0; i[0] < move.shape[0]; ++i[0]) {
            std::array<int64_t, 3> at{}, result{};
            bool isPadding = false;
            for (size_t a = 0; a < 3; ++a) {
              at[move.axis[a]] = move.from[a] + (i[a] - move.padLow[a]) * move.step[a];
              result[a] = move.to[a] + i[a];
              isPadding |= i[a] < move.padLow[a] || i[a] >= move.shape[a] - move.padHigh[a];
            }
            Element made;
            made.layer = int(layers.size());
            if (!isPadding) {
              made.others = {element(from, at[0], at[1], at[2])};
              touched.insert(made.others[0]);
            }
            addElement(to, result[0], result[1], result[2], std::move(made));
          }
    }
    layer.inputs = {{unsigned(from), touched.size(), {}}};
    layer.output = {unsigned(to), tensors[size_t(to)].bytes, {}};
    layers.push_back(layer);
  }

  /// Per element: whether it hangs on the element `on`.
  std::vector<bool> hangingOn(const std::set<int> &on) const {
    std::vector<bool> hangs(elements.size());
    for (size_t e = 0; e < elements.size(); ++e) {
      hangs[e] = on.count(int(e));
      for (int p : elements[e].products)
        hangs[e] = hangs[e] || hangs[size_t(products[size_t(p)].input)];
      for (int other : elements[e].others)
        hangs[e] = hangs[e] || hangs[size_t(other)];
    }
    return hangs;
  }
};

/// An axis of `inputSize` positions under a window that leaves no result without input; nothing if there is none.
std::optional<PositionAxis> randomAxis(std::mt19937 &random, int64_t inputSize) {
  PositionAxis axis;
  axis.inputSize = inputSize;
  axis.kernel = 1 + int64_t(random() % 3);
  axis.stride = random() % 4 ? 1 : 2;
  axis.dilation = random() % 6 ? 1 : 2;
  axis.padLow = int64_t(random() % 2) * (axis.kernel - 1) / 2;
  const int64_t span = (axis.kernel - 1) * axis.dilation + 1;
  if (inputSize + 2 * axis.padLow < span)
    return std::nullopt;
  axis.size = (inputSize + 2 * axis.padLow - span) / axis.stride + 1;
  if (axis.dilation > 1 && axis.padLow)
    return std::nullopt;
  return axis;
}

/// Slice, Gather, Concat, Pad or Transpose of a tensor; returns the result.
int addRandomMoves(Network &n, std::mt19937 &random, int from) {
  const Grid grid = n.grids[size_t(from)];
  const std::array<int64_t, 3> shape = {grid.channels, grid.size[0], grid.size[1]};
  auto below = [&](int64_t size) { return int64_t(random() % uint64_t(size)); };
  const size_t axis = random() % 3;
  std::array<int64_t, 3> made = shape;
  std::vector<Network::Move> moves;
  const unsigned kind = random() % 4;
  if (kind == 0) { // some indices, which may come twice
    made[axis] = 1 + below(shape[axis] + 1);
    for (int64_t i = 0; i < made[axis]; ++i) {
      Network::Move &move = moves.emplace_back();
      move.shape = shape;
      move.shape[axis] = 1;
      move.from[axis] = below(shape[axis]);
      move.to[axis] = i;
    }
  } else if (kind == 1) {
    Network::Move &move = moves.emplace_back();
    move.step[axis] = random() % 2 ? 1 : random() % 2 ? 2 : -1;
    move.from[axis] = below(shape[axis]);
    const int64_t most = move.step[axis] < 0 ? move.from[axis] + 1 : (shape[axis] - move.from[axis] - 1) / move.step[axis] + 1;
    made[axis] = 1 + below(most);
    move.shape = made;
  } else if (kind == 2) {
    Network::Move &move = moves.emplace_back();
    move.padLow[axis] = below(3);
    move.padHigh[axis] = below(3);
    made[axis] += move.padLow[axis] + move.padHigh[axis];
    move.shape = made;
  } else {
    Network::Move &move = moves.emplace_back();
    std::shuffle(move.axis.begin(), move.axis.end(), random);
    for (size_t a = 0; a < 3; ++a)
      made[a] = shape[move.axis[a]];
    move.shape = made;
  }
  const int to = n.addTensor(made[0], made[1], made[2]);
  n.addMoves(from, to, moves);
  return to;
}

/// `funnel`: convolutions with many positions in front and many channels behind.
Network randomNetwork(std::mt19937 &random, bool funnel = false, bool moves = false) {
  Network n;
  int last = n.addTensor(1 + int64_t(random() % 2), 2 + int64_t(random() % (kWidth - 1)), 1 + int64_t(random() % 3));
  n.tensors[0].input = true;
  const Grid input = n.grids[0];
  for (int64_t c = 0; c < input.channels; ++c)
    for (int64_t y = 0; y < input.size[1]; ++y)
      for (int64_t x = 0; x < input.size[0]; ++x)
        n.addElement(0, c, x, y, {});
  const int depth = 3 + int(random() % 5);
  for (int i = 0; i < depth; ++i) {
    if (moves && random() % 2)
      last = addRandomMoves(n, random, last);
    const Grid grid = n.grids[size_t(last)];
    std::array<PositionAxis, 3> window;
    for (size_t a = 0; a < 2; ++a) {
      std::optional<PositionAxis> axis;
      while (!axis)
        axis = randomAxis(random, grid.size[a]);
      window[a] = *axis;
    }
    const unsigned kind = funnel ? 2 : random() % 10;
    if (kind == 0 && grid.size[0] * grid.size[1] > 1) {
      // All positions as channels of one: a matrix product behind a reshape. Its input has no positions of its own.
      const int from = last;
      last = n.addTensor(2, 1, 1);
      const int64_t channels = grid.channels;
      std::array<PositionAxis, 3> all;
      for (size_t a = 0; a < 2; ++a)
        all[a] = {1, grid.size[a], 1, 1, 0, grid.size[a], false};
      n.addLayer(Dependence::Channels, from, last, 0, 2, all, -1, false);
      LayerWork &layer = n.layers.back();
      layer.window = {};
      layer.contraction->axes = {};
      layer.contraction->ic = uint64_t(channels * grid.size[0] * grid.size[1]);
      Grid flat;
      flat.channels = int64_t(layer.contraction->ic);
      layer.inputs[0].grid = flat;
    } else if (kind == 1) {
      // A tensor in two parts.
      const int from = last;
      last = n.addTensor(3, window[0].size, window[1].size);
      n.addLayer(Dependence::Channels, from, last, 0, 2, window, -1, false);
      int other = from;
      for (int t = 0; t < from; ++t)
        if (n.grids[size_t(t)].size == grid.size && random() % 2)
          other = t;
      n.addLayer(Dependence::Channels, other, last, 2, 1, window, -1, false);
    } else {
      const bool mixes = kind < 7, adds = kind == 9;
      if (adds)
        for (size_t a = 0; a < 2; ++a)
          window[a] = {grid.size[a], 1, 1, 1, 0, grid.size[a], false};
      const bool pools = mixes && random() % 8 == 0;
      const int64_t channels = !mixes ? grid.channels : funnel && i > depth / 2 ? 5 : 1 + int64_t(random() % 2);
      const int from = last;
      last = pools ? n.addTensor(channels, 1, 1) : n.addTensor(channels, window[0].size, window[1].size);
      int added = -1;
      for (int t = 0; t < last; ++t)
        if (n.grids[size_t(t)].channels == channels && n.grids[size_t(t)].size[0] == window[0].size &&
            n.grids[size_t(t)].size[1] == window[1].size && random() % 3 == 0)
          added = t;
      n.addLayer(mixes  ? Dependence::Channels
                 : adds ? Dependence::Elementwise
                        : Dependence::Window,
                 from, last, 0, channels, window, added, pools);
    }
    if (!funnel && random() % 12 == 0) { // nothing is known of it
      n.layers.back().dependence = Dependence::None;
      n.layers.back().output.grid.reset();
      n.layers.back().pieces.clear();
    }
    if (!funnel && random() % 8 == 0) // written in a way that is not known
      for (LayerWork &layer : n.layers)
        if (int(layer.output.tensor) == last)
          layer.output.grid.reset();
  }
  n.tensors[size_t(last)].output = true;
  return n;
}

std::vector<Cut> allCuts(const Network &n) {
  std::vector<Cut> all;
  for (unsigned t = 0; t < n.tensors.size(); ++t)
    for (Cut &cut : cutsAt(t, n.layers, n.tensors))
      all.push_back(std::move(cut));
  return all;
}

bool contains(const Box &box, const std::array<int64_t, 3> &at) {
  for (size_t a = 0; a < 3; ++a)
    if (at[a] < box[a].first || at[a] > box[a].last)
      return false;
  return true;
}

/// What the graph says of a moment.
struct Truth {
  std::set<int> moment;         ///< elements of the box
  std::vector<bool> isBefore;   ///< elements that the box hangs on
  std::vector<bool> hangsOnAll; ///< elements that hang on all of the box
  std::vector<bool> isLate;     ///< weights with uses that together hang on all of the box

  Truth(const Network &n, unsigned tensor, const Box &box)
      : isBefore(n.elements.size()), hangsOnAll(n.elements.size(), true), isLate(size_t(n.weights), true) {
    bool isKnown = true; // else the tensor counts as one position
    for (const LayerWork &layer : n.layers)
      isKnown = isKnown && (layer.output.tensor != tensor || layer.output.grid);
    for (size_t e = 0; e < n.elements.size(); ++e)
      if (n.elements[e].tensor == int(tensor) && (!isKnown || contains(box, n.elements[e].at)))
        moment.insert(int(e));
    for (int e : moment)
      isBefore[size_t(e)] = true;
    for (size_t e = n.elements.size(); e-- > 0;)
      if (isBefore[e]) {
        for (int p : n.elements[e].products)
          isBefore[size_t(n.products[size_t(p)].input)] = true;
        for (int other : n.elements[e].others)
          isBefore[size_t(other)] = true;
      }
    for (int m : moment) {
      std::vector<bool> hangs = n.hangingOn({m}), used(size_t(n.weights));
      hangs[size_t(m)] = false; // an element may be used at once
      for (size_t e = 0; e < hangs.size(); ++e)
        hangsOnAll[e] = hangsOnAll[e] && hangs[e];
      hangs[size_t(m)] = true;
      for (const Product &p : n.products)
        if (p.weight >= 0 && hangs[size_t(p.input)])
          used[size_t(p.weight)] = true;
      for (size_t w = 0; w < used.size(); ++w)
        isLate[w] = isLate[w] && used[w];
    }
  }

  static Box wholeOf(const Network &n, unsigned tensor) {
    Box box;
    for (size_t a = 0; a < 3; ++a)
      box[a] = {0, n.grids[tensor].size[a] - 1};
    return box;
  }

  bool allLate(const Network &n, size_t layer) const {
    for (const Product &p : n.products)
      if (p.layer == int(layer) && p.weight >= 0 && !isLate[size_t(p.weight)])
        return false;
    return true;
  }
};

/// Whether each statement of a cut is true.
bool isTrue(const Network &n, const Cut &cut) {
  Truth truth(n, cut.tensor, cut.box);
  for (const Cut::Before &part : cut.before)
    for (size_t e = 0; e < n.elements.size(); ++e)
      if (n.elements[e].layer == int(part.layer) && (part.whole || contains(part.outputs, n.elements[e].at)) &&
          !truth.isBefore[e])
        return false;
  for (const Cut::After &part : cut.after) {
    for (const Product &p : n.products)
      if (p.layer == int(part.layer) && n.layers[part.layer].dependence != Dependence::Elementwise) {
        if ((part.whole || contains(part.inputs, p.at)) && !truth.hangsOnAll[size_t(p.input)])
          return false;
        if (part.weights && p.weight >= 0 && !truth.isLate[size_t(p.weight)])
          return false;
      }
    for (size_t e = 0; e < n.elements.size(); ++e)
      if (n.elements[e].layer == int(part.layer) && (part.whole || contains(part.outputs, n.elements[e].at)) &&
          !truth.hangsOnAll[e])
        return false;
  }
  return true;
}

/// Memory and bus of a small machine, which forms a product a cycle.
struct Machine {
  uint64_t slots = 1;      ///< room for so many weights
  uint64_t loadCycles = 1; ///< of a weight
};

/// Cycles of a program that forms the products in a random order that dependences allow. The weight that is used last
/// again makes room for the next.
uint64_t run(const Network &n, const Machine &machine, std::mt19937 &random) {
  // Elements by a random mixture of depth first and layer by layer; a product when its input is there.
  std::vector<double> rank(n.elements.size());
  const double byLayer = double(random() % 100) / 10, byX = double(random() % 100) / 10, noise = double(random() % 20);
  std::vector<std::vector<int>> readers(n.elements.size());
  std::vector<int> missing(n.elements.size()), maker(n.products.size());
  for (size_t e = 0; e < n.elements.size(); ++e) {
    const Element &element = n.elements[e];
    rank[e] = byLayer * element.layer + byX * double(element.at[0]) + noise * double(random() % 100) / 100;
    missing[e] = int(element.products.size() + element.others.size());
    for (int p : element.products) {
      maker[size_t(p)] = int(e);
      readers[size_t(n.products[size_t(p)].input)].push_back(p);
    }
  }
  std::vector<std::vector<int>> sums(n.elements.size());
  for (size_t e = 0; e < n.elements.size(); ++e)
    for (int other : n.elements[e].others)
      sums[size_t(other)].push_back(int(e));
  const bool byInput = random() % 2; // partial sums first, or results
  std::set<std::pair<double, int>> ready;
  std::vector<int> order, done;
  auto finish = [&](int first) {
    done.assign(1, first);
    while (!done.empty()) {
      int e = done.back();
      done.pop_back();
      for (int p : readers[size_t(e)])
        ready.insert({rank[size_t(byInput ? e : maker[size_t(p)])] + 1e-7 * n.products[size_t(p)].weight, p});
      for (int sum : sums[size_t(e)])
        if (--missing[size_t(sum)] == 0)
          done.push_back(sum);
    }
  };
  for (size_t e = 0; e < n.elements.size(); ++e)
    if (n.elements[e].layer < 0)
      finish(int(e));
  while (!ready.empty()) {
    int p = ready.begin()->second;
    ready.erase(ready.begin());
    order.push_back(p);
    if (--missing[size_t(maker[size_t(p)])] == 0)
      finish(maker[size_t(p)]);
  }
  EXPECT_EQ(order.size(), n.products.size());
  std::vector<std::vector<size_t>> uses(static_cast<size_t>(n.weights));
  for (size_t i = 0; i < order.size(); ++i)
    if (int w = n.products[size_t(order[i])].weight; w >= 0)
      uses[size_t(w)].push_back(i);
  std::vector<size_t> nextUse(uses.size());
  std::vector<uint64_t> finished(order.size() + 1); // products with weights take a cycle
  std::map<int, uint64_t> loaded;                   // weight -> when it is there
  uint64_t bus = 0, array = 0;
  std::vector<uint64_t> lastUsed(uses.size());
  for (size_t i = 0; i < order.size(); ++i) {
    int w = n.products[size_t(order[i])].weight;
    if (w < 0)
      continue;
    if (!loaded.count(w)) {
      uint64_t room = 0;
      if (loaded.size() == machine.slots) {
        auto next = [&](int v) {
          size_t k = nextUse[size_t(v)];
          return k < uses[size_t(v)].size() ? uses[size_t(v)][k] : SIZE_MAX;
        };
        int victim = loaded.begin()->first;
        for (auto [v, when] : loaded)
          if (next(v) > next(victim) || (next(v) == next(victim) && lastUsed[size_t(v)] < lastUsed[size_t(victim)]))
            victim = v;
        room = lastUsed[size_t(victim)];
        loaded.erase(victim);
      }
      bus = std::max(bus, room) + machine.loadCycles;
      loaded[w] = bus;
    }
    array = std::max(array, loaded[w]) + 1;
    lastUsed[size_t(w)] = array;
    ++nextUse[size_t(w)];
  }
  return array;
}

/// Least cycles by one cut and the weights of layers on neither side: all products with one lie before the moment, or it
/// is loaded behind it. Without `mayBeBefore` it is always loaded.
uint64_t boundBetween(const Network &n, const Cut &cut, const Machine &machine, bool mayBeBefore) {
  std::vector<bool> isWhole(n.layers.size()), isLate(n.layers.size());
  std::vector<const Cut::Before *> made(n.layers.size());
  for (const Cut::Before &part : cut.before) {
    made[part.layer] = &part;
    isWhole[part.layer] = part.whole;
  }
  for (const Cut::After &part : cut.after)
    isLate[part.layer] = part.weights && !isWhole[part.layer];
  uint64_t cycles = 0;
  std::vector<uint64_t> rest(size_t(n.weights));
  std::vector<int> layerOf(size_t(n.weights));
  for (const Element &e : n.elements)
    for (int p : e.products)
      if (int w = n.products[size_t(p)].weight; w >= 0) {
        const bool isBefore =
            made[size_t(e.layer)] && (isWhole[size_t(e.layer)] || contains(made[size_t(e.layer)]->outputs, e.at));
        cycles += isBefore;
        rest[size_t(w)] += !isBefore;
        layerOf[size_t(w)] = e.layer;
      }
  for (size_t w = 0; w < rest.size(); ++w)
    if (isLate[size_t(layerOf[w])])
      cycles += machine.loadCycles;
    else if (!isWhole[size_t(layerOf[w])])
      cycles += mayBeBefore ? std::min(rest[w], machine.loadCycles) : machine.loadCycles;
  const uint64_t onChip = machine.slots * machine.loadCycles;
  return cycles > onChip ? cycles - onChip : 0;
}

/// Least cycles by one cut, on the machine of run().
uint64_t boundOf(const Network &n, const Cut &cut, const Machine &machine) {
  uint64_t before = 0, weightsBefore = 0, after = 0, weightsAfter = 0;
  for (const Cut::Before &part : cut.before)
    if (const LayerWork &layer = n.layers[part.layer]; layer.contraction) {
      Contraction made = part.whole ? *layer.contraction : withOutputs(*layer.contraction, part.outputs);
      before += made.macs();
      weightsBefore += made.weights();
    }
  for (const Cut::After &part : cut.after)
    if (const LayerWork &layer = n.layers[part.layer]; layer.contraction) {
      after += part.whole ? layer.contraction->macs()
               : part.inputs[0].empty() || part.inputs[1].empty() || part.inputs[2].empty()
                   ? 0
                   : withInputs(*layer.contraction, part.inputs).macs();
      if (part.weights)
        weightsAfter += layer.constants[*layer.weights].bytes;
    }
  weightsAfter = weightsAfter > machine.slots ? weightsAfter - machine.slots : 0;
  return std::max(before, weightsBefore * machine.loadCycles) + std::max(after, weightsAfter * machine.loadCycles);
}

constexpr int kNetworks = 3000;

struct Statements {
  int cuts = 0, violations = 0, late = 0,
      found = 0; ///< late: layers whose weights are all late when a whole tensor is complete
};

Statements statementsOf(const char *what, bool moves) {
  std::mt19937 random(1);
  Statements all;
  auto &[cuts, violations, late, found] = all;
  for (int round = 0; round < kNetworks; ++round) {
    Network n = randomNetwork(random, false, moves);
    describeMovement(n.layers, n.tensors);
    for (LayerWork &layer : n.layers) // Element::at numbers the axes of a transposed tensor in another way
      if (layer.output.grid && layer.output.grid->size != n.grids[layer.output.tensor].size) {
        layer.dependence = Dependence::None;
        layer.output.grid.reset();
      }
    std::set<std::pair<size_t, unsigned>> said;
    for (const Cut &cut : allCuts(n)) {
      ++cuts;
      violations += !isTrue(n, cut);
      for (const Cut::After &part : cut.after)
        if (part.weights && n.layers[part.layer].weights && cut.box == Truth::wholeOf(n, cut.tensor))
          said.insert({part.layer, cut.tensor});
    }
    // How many of the layers whose weights are all late when a whole tensor is complete were found.
    for (unsigned t = 1; t < n.tensors.size(); ++t) {
      Truth truth(n, t, Truth::wholeOf(n, t));
      for (size_t i = 0; i < n.layers.size(); ++i)
        if (n.layers[i].weights && truth.allLate(n, i)) {
          ++late;
          found += said.count({i, t}) > 0;
        }
    }
  }
  printf("%s: %d cuts of %d networks: %d violations; of %d late layers %d found\n", what, cuts, kNetworks, violations, late,
         found);
  return all;
}

TEST(CutsTest, EveryStatementOfACutIsTrueInTheGraphOfAllElements) {
  const Statements all = statementsOf("cuts", false);
  EXPECT_EQ(all.violations, 0);
  EXPECT_GT(all.cuts, 1000);
  EXPECT_GT(all.found * 10, all.late * 5);
}

TEST(CutsTest, CutsBehindDataMovementAreTrueAsWell) {
  const Statements all = statementsOf("cuts behind data movement", true);
  EXPECT_EQ(all.violations, 0);
  EXPECT_GT(all.found * 10, all.late);
}

/// Violations among the cuts of random networks of which `plant` says too much.
template <typename Plant> int violationsWith(const char *what, Plant plant) {
  std::mt19937 random(1);
  int cuts = 0, violations = 0;
  for (int round = 0; round < kNetworks; ++round) {
    Network n = randomNetwork(random);
    for (Cut &cut : allCuts(n)) {
      ++cuts;
      plant(n, cut);
      violations += !isTrue(n, cut);
    }
  }
  printf("%s: %d violations in %d cuts\n", what, violations, cuts);
  return violations;
}

TEST(CutsTest, TheWholeTensorIsTooMuchToSayOfEveryCut) {
  EXPECT_GT(violationsWith("the whole tensor instead of the box",
                           [](const Network &n, Cut &cut) { cut.box = Truth::wholeOf(n, cut.tensor); }),
            0);
}

TEST(CutsTest, TheLayerRightBehindHasNoLateWeights) {
  auto plant = [](const Network &n, Cut &cut) {
    for (size_t i = 0; i < n.layers.size(); ++i)
      if (n.layers[i].inputs[0].tensor == cut.tensor && n.layers[i].weights)
        cut.after.push_back({i, false, true, {}, {}});
  };
  EXPECT_GT(violationsWith("late weights right behind the tensor", plant), 0);
}

/// Elements that the results hang on.
std::vector<bool> neededIn(const Network &n) {
  std::vector<bool> needed(n.elements.size());
  for (size_t e = n.elements.size(); e-- > 0;) {
    needed[e] = needed[e] || n.tensors[size_t(n.elements[e].tensor)].output;
    if (!needed[e])
      continue;
    for (int p : n.elements[e].products)
      needed[size_t(n.products[size_t(p)].input)] = true;
    for (int other : n.elements[e].others)
      needed[size_t(other)] = true;
  }
  return needed;
}

struct Asked {
  int layers = 0, violations = 0, parts = 0,
      missing = 0; ///< parts: layers that count with less than all; missing: with less than there is
};

/// What layers of random networks ask for against the graph: products and results, one a cycle, and bytes of the network's input.
Asked askedOf(const char *what, bool moves, bool asksForAll) {
  std::mt19937 random(1);
  timing::MachineParams machine;
  machine.rows = machine.cols = machine.lanes = 1;
  Asked asked;
  for (int round = 0; round < kNetworks; ++round) {
    Network n = randomNetwork(random, false, moves);
    bool isKnown = true;
    for (LayerWork &layer : n.layers) {
      layer.arrayCycles = layer.contraction ? layer.contraction->macs() : 0;
      layer.vectorCycles = layer.passes.empty() ? 0 : layer.output.bytes;
      isKnown &= !layer.pieces.empty();
    }
    const std::vector<bool> needed = neededIn(n);
    const std::vector<LayerWork> works = asksForAll ? n.layers : neededWork(n.layers, n.tensors, machine).layers;
    for (size_t i = 0; i < works.size(); ++i) {
      const bool computes = !n.layers[i].passes.empty();
      uint64_t products = 0, results = 0;
      std::set<int> read, weights;
      for (size_t e = 0; e < n.elements.size(); ++e) {
        const Element &element = n.elements[e];
        if (element.layer != int(i) || !needed[e])
          continue;
        results += computes;
        for (int p : element.products) {
          const Product &product = n.products[size_t(p)];
          products += product.weight >= 0;
          if (product.weight >= 0)
            weights.insert(product.weight);
          if (n.elements[size_t(product.input)].tensor == 0)
            read.insert(product.input);
        }
        for (int other : element.others)
          if (n.elements[size_t(other)].tensor == 0)
            read.insert(other);
      }
      uint64_t bytes = 0; // of one use of the input, if there are several
      for (const TensorUse &use : works[i].inputs)
        bytes = use.tensor == 0 ? std::max(bytes, use.bytes) : bytes;
      const uint64_t constants = works[i].constants.empty() ? 0 : works[i].constants[0].bytes;
      ++asked.layers;
      asked.violations += works[i].arrayCycles > products || works[i].vectorCycles > results || bytes > read.size() ||
                          constants > weights.size();
      asked.parts += computes && works[i].vectorCycles < n.layers[i].vectorCycles && works[i].vectorCycles > 0;
      asked.missing += isKnown && (works[i].arrayCycles < products || works[i].vectorCycles < results);
    }
  }
  printf("%s: %d violations in %d layers, of which %d count in part, %d with less than there is\n", what, asked.violations,
         asked.layers, asked.parts, asked.missing);
  return asked;
}

TEST(CutsTest, WhatALayerMustDoIsWhatResultsHangOn) {
  const Asked asked = askedOf("what results hang on", false, false);
  EXPECT_EQ(asked.violations, 0);
  EXPECT_EQ(asked.missing, 0);
  EXPECT_GT(asked.parts, 100);
  EXPECT_GT(askedOf("all that layers make", false, true).violations, 0);
}

TEST(CutsTest, DataMovementLosesNothingOfWhatResultsHangOn) {
  const Asked asked = askedOf("what results hang on, with data movement", true, false);
  EXPECT_EQ(asked.violations, 0);
  EXPECT_EQ(asked.missing, 0);
  EXPECT_GT(asked.parts, 1000);
  EXPECT_GT(askedOf("all that layers make, with data movement", true, true).violations, 0);
}

struct Runs {
  int cases = 0, violations = 0, beyond = 0;
};

/// Random programs against the largest of what `boundBy` says of all cuts.
template <typename BoundOf> Runs runAll(BoundOf boundBy) {
  std::mt19937 random(2);
  Runs runs;
  for (int round = 0; round < kNetworks / 2; ++round) {
    Network n = randomNetwork(random, true);
    uint64_t bound = 0, products = n.products.size();
    // Loads take about as long as the products.
    const Machine machine{1 + random() % 8, 1 + products * (4 + random() % 8) / (8 * uint64_t(n.weights))};
    for (const Cut &cut : allCuts(n))
      bound = std::max(bound, boundBy(n, cut, machine));
    for (int program = 0; program < 2; ++program) {
      ++runs.cases;
      runs.violations += bound > run(n, machine, random);
      runs.beyond += bound > std::max(products, uint64_t(n.weights) * machine.loadCycles);
    }
  }
  return runs;
}

TEST(CutsTest, NoProgramIsFasterThanBothSidesOfACut) {
  Runs runs = runAll(boundOf);
  printf("%d programs: %d violations, beyond the sums of products and weights in %d\n", runs.cases, runs.violations,
         runs.beyond);
  EXPECT_EQ(runs.violations, 0);
  EXPECT_GT(runs.beyond, 100);
}

TEST(CutsTest, NoProgramIsFasterThanTheWeightsOfLayersInBetween) {
  Runs runs = runAll([](const Network &n, const Cut &cut, const Machine &m) { return boundBetween(n, cut, m, true); });
  printf("layers in between: %d programs, %d violations, beyond the sums in %d\n", runs.cases, runs.violations, runs.beyond);
  EXPECT_EQ(runs.violations, 0);
  EXPECT_GT(runs.beyond, 100);
}

TEST(CutsTest, WeightsInBetweenMayHaveDoneTheirWork) {
  Runs runs = runAll([](const Network &n, const Cut &cut, const Machine &m) { return boundBetween(n, cut, m, false); });
  printf("all weights in between loaded: %d violations in %d programs\n", runs.violations, runs.cases);
  EXPECT_GT(runs.violations, 0);
}

TEST(CutsTest, WeightsThatMayBeThereAlreadyDoNotCount) {
  Runs runs = runAll([](const Network &n, const Cut &cut, const Machine &m) { return boundOf(n, cut, {0, m.loadCycles}); });
  printf("nothing on chip at the moment of a cut: %d violations in %d programs\n", runs.violations, runs.cases);
  EXPECT_GT(runs.violations, 0);
}

} // namespace
