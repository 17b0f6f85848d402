//===- Kernel.h - What one linalg kernel asks of the machine -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tensorised form of a kernel function: at most one anchor (a contraction for
// the array, or a window for the vector engine) followed by vector steps, or plain
// copies. Every tensor is dense and row-major in DRAM; a view says how the
// kernel's four canonical axes walk it.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_ACCEL_KERNEL_H
#define COMPILER_CODEGEN_ACCEL_KERNEL_H

#include "compiler/plan/KernelPlan.h"
#include "isa/Isa.h"
#include "isa/timing/InstructionTiming.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <array>
#include <optional>

namespace tw::accel {

/// Element types of the vector engine; the name keeps clear of MLIR's VectorType.
using LaneType = isa::VectorType;
using plan::KernelPlan;

unsigned byteSize(LaneType type);

/// Canonical axes, innermost first: channels, then positions along w, h and n.
enum Axis : unsigned { C, P0, P1, P2 };
constexpr unsigned kAxes = 4;
using Extent = std::array<int64_t, kAxes>;

/// A concatenation that is read where its parts lie: [outer, size, inner], of which each part has some indices along the middle axis.
struct Concatenation {
  struct Part {
    int tensor;         ///< of the kernel, with role Part
    int64_t begin, end; ///< along the middle axis
  };
  int64_t size = 0, inner = 1;
  std::vector<Part> parts; ///< in their order, without gaps; empty: the tensor lies in one place
};

/// A dense tensor in DRAM the kernel uses.
struct KernelTensor {
  enum Role { Argument, Result, Constant, Part } role = Argument;
  unsigned index = 0; ///< of the argument or result
  mlir::DenseElementsAttr value;
  LaneType type = LaneType::F32;
  int64_t elements = 0;
  Concatenation concatenation; ///< of an argument
};

/// How the canonical axes walk a tensor: elements per step, 0 where the axis is broadcast.
struct View {
  int tensor = -1;
  Extent stride{};
  int64_t offset = 0; ///< element of the first channel that is not padding
  /// Padding of an operand of an elementwise step: the number of channels before and behind the tensor's. Their elements are `padPattern`.
  int64_t padLow = 0, padHigh = 0;
  uint32_t padPattern = 0;

  bool isPadded() const { return padLow || padHigh; }
  /// Of `channels` along C those that the tensor has.
  int64_t channelsRead(int64_t channels) const { return channels - padLow - padHigh; }
  /// Whether both read the same elements of one tensor, in the same order.
  bool readsLike(const View &other) const {
    return tensor == other.tensor && stride == other.stride && offset == other.offset && padLow == other.padLow &&
           padHigh == other.padHigh && padPattern == other.padPattern;
  }
};

/// One position axis of a convolution or pooling window.
struct WindowAxis {
  int64_t size = 1; ///< output positions
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t padLow = 0;
  int64_t inputSize = 1; ///< without padding
  /// Input positions that `count` output positions span.
  int64_t span(int64_t count) const { return (count - 1) * stride + (kernel - 1) * dilation + 1; }
  /// Whether the tap of that output position reads input, not padding.
  bool readsInput(int64_t output, int64_t tap) const {
    int64_t at = output * stride - padLow + tap * dilation;
    return at >= 0 && at < inputSize;
  }
  /// Pairs of an output position and a tap that read input.
  int64_t usefulTaps() const {
    int64_t useful = 0;
    for (int64_t output = 0; output < size; ++output)
      for (int64_t tap = 0; tap < kernel; ++tap)
        useful += readsInput(output, tap);
    return useful;
  }
};

/// timing::newColumns() of a window: columns are of taps one behind the other along `across`.
inline int64_t newColumns(const WindowAxis &along, const WindowAxis &across) {
  return timing::newColumns(along.kernel, across.kernel, along.dilation == 1 ? along.stride : 0);
}

/// The operation that reads a window of its input: on the array (Contraction) or on the vector engine (Window).
struct Anchor {
  enum Kind { Contraction, Window } kind = Contraction;
  View input; ///< strides of the input along its own axes
  LaneType inputType = LaneType::F32;
  std::array<WindowAxis, 3> axes;        ///< P0, P1, P2
  int64_t inputZero = 0, weightZero = 0; ///< zero points
  uint32_t padPattern = 0;               ///< fill pattern outside the input
  isa::WindowOp windowOp = isa::WindowOp::None;
  LaneType resultType = LaneType::F32; ///< I32 or F32

  /// Contraction: groups of ic x oc channels; strides of the weights in elements. Depthwise windows use the strides of
  /// taps and channels (weightOc).
  int64_t groups = 1, ic = 1, oc = 1;
  int weights = -1;
  LaneType weightType = LaneType::F32;
  int64_t weightOffset = 0;
  int64_t weightKw = 0, weightKh = 0, weightIc = 0, weightOc = 0, weightGroup = 0;
  int64_t inputGroup = 0; ///< elements from one group's first input channel to the next group's
  /// A batch axis of the output that the weights have too (activations as weights): P1 or P2.
  std::optional<unsigned> batchAxis;
  int64_t weightBatch = 0;

  /// Contractions: outputs one below the other share what both read: its weights are in the columns of both. What only one of them reads
  /// goes to sums of its own. axes[1] counts the outputs as ever; the weights have the rows of taps of both (weightRows()), those of the
  /// lower output half of the columns behind those of the upper one.
  bool pairsRows = false;
  int64_t weightRows() const { return axes[1].kernel + (pairsRows ? axes[1].stride : 0); }

  /// Neighbours along P0 whose channels lie side by side in one vector, so that `ic` (windows: extent[C]) counts the channels of all.
  /// axes[0] then counts such vectors, which begin `step` pixels after one another, the first one `padLow` pixels before the input; it
  /// has no padding.
  /// Contractions: of the last vector in a row of a window only the first `lastCount` pixels are used.
  struct Pixels {
    int64_t count = 1, step = 1, padLow = 0, inputSize = 1, lastCount = 1;
    int64_t beyond = 0; ///< pixels behind those of a vector that its lanes read as well
    /// Pixels from the first to the last of so many vectors.
    int64_t span(int64_t vectors) const { return (vectors - 1) * step + count + beyond; }
  } pixels;

  /// axes[0] of a window with one pixel a vector.
  WindowAxis row() const {
    WindowAxis w = axes[0];
    if (pixels.count > 1) {
      w.size *= pixels.count;
      w.stride = 1;
      w.padLow = pixels.padLow;
      w.inputSize = pixels.inputSize;
    }
    return w;
  }
};

/// What feeds one block argument of a step.
struct Source {
  enum Kind { Value, Tensor, Parameter } kind = Tensor;
  int value = -1; ///< index of an earlier step, or -1 for the anchor
  View view;      ///< Tensor: its view; Value: strides only say which axes are broadcast (0) or walked (1)
  LaneType type = LaneType::F32;
  mlir::DenseElementsAttr parameter; ///< one element per channel
};

/// One linalg.generic: elementwise, a reduction over all channels, or a sum over all positions of an image.
struct Step {
  mlir::linalg::GenericOp op;
  std::vector<Source> sources; ///< one per input
  bool reducesChannels = false;
  isa::WindowOp reduceOp = isa::WindowOp::None;
  bool sumsPositions = false; ///< steps from here on have one position along P0 and P1
  int64_t zero = 0;           ///< reductions: taken off every element
  LaneType type = LaneType::F32;
};

/// A box of a source written to a box of the result.
struct Copy {
  View from, to;
  std::vector<int64_t> shape; ///< extents, outermost first (any rank)
  std::vector<int64_t> fromStride, toStride;
  std::vector<int64_t> padLow, padHigh; ///< parts of shape that are filled
  uint32_t fill = 0;
  LaneType type = LaneType::F32;
};

struct Kernel {
  std::string name;
  std::string kind; ///< the function without names and the values of constants: what tiles depend on
  std::vector<std::string> nodes;
  std::vector<KernelTensor> tensors;
  Extent extent{1, 1, 1, 1}; ///< of the iteration space all steps share
  std::optional<Anchor> anchor;
  /// Contractions whose taps the load engine packs: what the vector engine makes of each element of the input before the array takes
  /// it. It turns zero into what the anchor is padded with.
  std::optional<Step> conversion;
  std::vector<Step> steps;
  std::vector<Copy> copies;
  View output;
  LaneType outputType = LaneType::F32;
  bool outputReduced = false;   ///< the result has one channel
  uint64_t macs = 0;            ///< products of the definition that do not fall into the padding
  plan::KernelPlan plan;        ///< what is decided already: by a plan file, or by a proposal
  bool isFinite = false;        ///< no value is infinite, as no integer is: zero times any is zero
  int64_t outputsPerVector = 1; ///< neighbours along P0 whose channels lie side by side in C (packPixels())
  std::optional<size_t> pool;   ///< the step that sums all positions of an image
  /// Along P0 and P1: windows of a contraction's sums, of which the first step takes the largest. `extent` counts windows then, the
  /// anchor's axes count sums, those in the padding of windows too, which no window takes.
  std::optional<std::array<WindowAxis, 2>> maxima;

  /// Whether its positions are rows of matrices, each made of the same row of its input: P0 counts those of a matrix, P1 the matrices.
  bool makesMatrixRows() const {
    auto isPointwise = [](const WindowAxis &w) {
      return w.kernel == 1 && w.stride == 1 && w.padLow == 0 && w.inputSize == w.size;
    };
    return extent[P2] == 1 && !pool && !maxima && (extent[P1] == 1 || (anchor && anchor->batchAxis == P1)) &&
           (!anchor || (anchor->pixels.count == 1 && isPointwise(anchor->axes[0]) && isPointwise(anchor->axes[1])));
  }

  /// Whether each position along P0 reads the same position of what the kernel reads, and no other.
  bool hasRowsApart() const {
    return copies.empty() && !pool && !maxima && outputsPerVector == 1 && extent[P0] > 1 &&
           (!anchor || (anchor->kind == Anchor::Contraction && anchor->axes[0].kernel == 1 && anchor->axes[0].stride == 1 &&
                        anchor->axes[0].padLow == 0 && anchor->axes[0].inputSize == extent[P0] && anchor->pixels.count == 1));
  }

  /// A product of one matrix, whose rows are positions along P0.
  bool isProductOfRows() const {
    return anchor && anchor->kind == Anchor::Contraction && hasRowsApart() && extent[P1] * extent[P2] * anchor->groups == 1;
  }

  /// The same for positions [begin, end) along P0 alone, of a kernel that has them apart.
  Kernel part(int64_t begin, int64_t end) const {
    Kernel part = *this;
    part.kind += " from " + std::to_string(begin) + " to " + std::to_string(end);
    part.extent[P0] = end - begin;
    part.output.offset += begin * output.stride[P0];
    if (anchor) {
      part.anchor->input.offset += begin * anchor->input.stride[P0];
      part.anchor->axes[0].size = part.anchor->axes[0].inputSize = end - begin;
    }
    for (Step &step : part.steps)
      for (Source &source : step.sources)
        if (source.kind == Source::Tensor)
          source.view.offset += begin * source.view.stride[P0];
    return part;
  }

  /// The anchor's positions along an axis, without sums in the padding of windows.
  WindowAxis positions(unsigned axis) const {
    WindowAxis positions = anchor->axes[axis - P0];
    if (maxima && axis <= P1) {
      positions.size = window(axis).inputSize;
      positions.padLow -= window(axis).padLow * positions.stride;
    }
    return positions;
  }

  /// What the vector engine looks through: its input, or the sums.
  const WindowAxis &window(unsigned axis) const { return maxima ? (*maxima)[axis - P0] : anchor->axes[axis - P0]; }

  /// Rows of sums that windows one below the other share, where all windows are whole; else 0.
  int64_t sharedSums() const {
    if (!maxima)
      return 0;
    const WindowAxis &h = (*maxima)[1];
    return h.padLow || h.span(h.size) > h.inputSize ? 0 : std::max<int64_t>(h.kernel - h.stride, 0);
  }

  /// Rows of sums that windows one below the other share, if two do and no third, and the rows that there are end with a window: their maxima
  /// can be carried down. Padding above is no more than the first windows would share. Else 0.
  int64_t carriedSums() const {
    if (!maxima)
      return 0;
    const WindowAxis &h = (*maxima)[1];
    const int64_t shared = std::max<int64_t>(h.kernel - h.stride, 0);
    const bool isWhole = h.span(h.size) - h.padLow <= h.inputSize && (h.padLow == 0 || h.padLow == shared);
    return isWhole && shared <= h.stride ? shared : 0;
  }

  /// The sums that a box of results is made of: how many, and where they begin.
  Extent sums(Extent box) const {
    for (unsigned axis = P0; maxima && axis <= P1; ++axis)
      box[axis] = (*maxima)[axis - P0].span(box[axis]);
    return box;
  }
  Extent firstSums(Extent origin) const {
    for (unsigned axis = P0; maxima && axis <= P1; ++axis)
      origin[axis] *= (*maxima)[axis - P0].stride;
    return origin;
  }

  /// Of the anchor's input as it lies in DRAM.
  LaneType loadedType() const { return conversion ? conversion->sources[0].type : anchor->inputType; }

  /// What step `step` makes of a box of the iteration space; without it: what the kernel does.
  Extent made(Extent box, std::optional<size_t> step = std::nullopt) const {
    if (pool && step.value_or(steps.size()) >= *pool)
      box[P0] = box[P1] = 1;
    return box;
  }
};

/// Whether the kernel's loads can read argument `tensor` where the parts of that concatenation lie: as weights that are no constant, with
/// axes that stay within it.
bool canReadParts(const Kernel &kernel, int tensor, const Concatenation &concatenation);

/// Recognises a kernel function. Failure explains itself on the function's location.
mlir::FailureOr<Kernel> matchKernel(mlir::func::FuncOp function);

} // namespace tw::accel

#endif // COMPILER_CODEGEN_ACCEL_KERNEL_H
