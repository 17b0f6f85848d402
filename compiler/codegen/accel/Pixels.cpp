//===- Pixels.cpp - Neighbouring pixels side by side in the array ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A contraction of few output channels leaves columns of the array empty, one of few
// input channels rows. Where the channels of several neighbours along a row take their
// place, a pass makes several outputs of a row at once, from several pixels of each
// row of the window: the same contraction with more channels, fewer positions and
// weights of zero where an output does not read a pixel.
//===----------------------------------------------------------------------===//

#include "compiler/codegen/accel/Emitter.h"

#include <numeric>

using namespace tw;
using namespace tw::accel;

namespace {
constexpr double kLeastGain = 1.15;      ///< how many times faster: packed tensors may have to come from or go to DRAM
constexpr double kShareOfOthers = 0.25; ///< of what engines do beside the busiest one: how much of it delays something

/// `outputs` of a row in the columns, from vectors of `inputs` pixels.
struct Form {
  int64_t outputs = 1, inputs = 1;
  int64_t taps = 1;             ///< vectors along a row that the outputs read
  int64_t tapStep = 1, step = 1; ///< pixels from one to the next: of those, and of all vectors that any outputs read
};

class Packer {
public:
  Packer(const Kernel &kernel, const timing::MachineParams &machine) : kernel(kernel), machine(machine) {}
  std::optional<Kernel> run() const;

private:
  const Kernel &kernel;
  const timing::MachineParams &machine;

  const Anchor &anchor() const { return *kernel.anchor; }
  const WindowAxis &row() const { return anchor().axes[0]; }
  bool isPossible() const;
  bool isInteger() const { return machine.arrayType == timing::ArrayType::Int8; }
  Form formOf(int64_t outputs, int64_t inputs) const;
  Anchor anchorOf(const Form &form) const;
  double cyclesOf(const Form &form) const;
  Kernel rewrite(const Form &form) const;
  mlir::DenseElementsAttr weightsOf(const Form &form) const;
};

bool Packer::isPossible() const {
  if (!kernel.anchor || anchor().kind != Anchor::Contraction || kernel.outputReduced || kernel.pool || kernel.maxima)
    return false;
  const Anchor &a = anchor();
  if (a.groups != 1 || a.batchAxis || a.axes[2].kernel != 1 || (row().dilation != 1 && row().kernel != 1))
    return false;
  if (a.oc != kernel.extent[C] || row().size != kernel.extent[P0] || (a.input.stride[P0] == 0 && row().size > 1))
    return false;
  if (kernel.tensors[size_t(a.weights)].role != KernelTensor::Constant || a.weights == a.input.tensor)
    return false;
  for (const Step &step : kernel.steps) {
    if (step.reducesChannels)
      return false;
    for (const Source &source : step.sources)
      if (source.kind == Source::Tensor && source.view.tensor == a.weights)
        return false;
  }
  return true;
}

Form Packer::formOf(int64_t outputs, int64_t inputs) const {
  const int64_t stride = row().stride;
  Form form{outputs, inputs};
  // A single tap reads every stride-th pixel only.
  if (inputs == 1 && row().kernel == 1) {
    form.taps = outputs;
    form.tapStep = stride;
    return form;
  }
  const int64_t pixels = row().kernel + stride * (outputs - 1);
  form.taps = ceilDiv(pixels, inputs);
  if (inputs == 1)
    return form;
  form.step = form.taps > 1 ? 0 : stride * outputs;
  // Steps that have most in common with that of the outputs need fewest vectors.
  const int64_t leastStep = ceilDiv(pixels - inputs, std::max<int64_t>(form.taps - 1, 1));
  for (int64_t tapStep = leastStep; form.taps > 1 && tapStep <= inputs; ++tapStep)
    if (int64_t step = std::gcd(tapStep, stride * outputs); step >= form.step) {
      form.tapStep = tapStep;
      form.step = step;
    }
  return form;
}

Anchor Packer::anchorOf(const Form &form) const {
  Anchor a = anchor();
  WindowAxis &w = a.axes[0];
  w.size /= form.outputs;
  w.kernel = form.taps;
  w.stride *= form.outputs;
  w.dilation = form.tapStep;
  a.ic *= form.inputs;
  a.oc *= form.outputs;
  a.weightOffset = 0;
  a.weightOc = 1;
  a.weightIc = a.oc;
  a.weightKw = a.ic * a.weightIc;
  a.weightKh = w.kernel * a.weightKw;
  if (form.inputs == 1)
    return a;
  a.pixels = {form.inputs, form.step, w.padLow, w.inputSize};
  a.input.stride[P0] *= form.step;
  w.stride /= form.step;
  w.dilation = form.taps > 1 ? form.tapStep / form.step : 1;
  w.padLow = 0;
  w.inputSize = w.span(w.size);
  return a;
}

/// Of the busiest engine, if nothing else delays it, and a part of the others'.
double Packer::cyclesOf(const Form &form) const {
  const Anchor a = anchorOf(form);
  const int64_t kw = a.axes[0].kernel, kh = a.axes[1].kernel, rows = machine.rows, size = byteSize(a.inputType);
  const int64_t positions = a.axes[0].size * a.axes[1].size * a.axes[2].size;
  const int64_t least = ceilDiv(rows, machine.preloadRowsPerCycle) + 6; // so long takes a preload
  const double vector = double(positions * ceilDiv(a.oc, machine.lanes));
  auto cycles = [&](int64_t passes, double loads) {
    const double tensor = double(passes * ceilDiv(a.oc, machine.cols) * std::max(positions, least));
    return std::max({tensor, loads, vector}) + (loads + vector) * kShareOfOthers;
  };
  // The load engine writes a burst at a time.
  auto bursts = [&](int64_t channels) { return std::max(1.0, double(channels * size) / 64); };
  double loads = 0;
  if (form.inputs > 1)
    loads = double(a.axes[0].inputSize * a.axes[1].span(a.axes[1].size) * a.axes[2].size) * bursts(a.ic);
  const double apart = cycles(kw * kh * ceilDiv(a.ic, rows), loads);
  if (!packsTaps(a, machine))
    return apart;
  loads = double(positions * kh) * (a.input.stride[C] == 1 ? bursts(kw * a.ic) : double(a.ic) / machine.loadEngines);
  return std::min(apart, cycles(ceilDiv(kw * kh * a.ic, rows), loads));
}

/// [rows of taps][taps][input channels][output channels], all of the form's.
mlir::DenseElementsAttr Packer::weightsOf(const Form &form) const {
  const Anchor &from = anchor(), to = anchorOf(form);
  const KernelTensor &weights = kernel.tensors[size_t(from.weights)];
  const int64_t size = byteSize(weights.type), rows = from.axes[1].kernel;
  std::vector<char> bytes(size_t(rows * to.weightKh * size), 0);
  if (isInteger())
    std::fill(bytes.begin(), bytes.end(), char(from.weightZero));
  llvm::ArrayRef<char> raw = weights.value.getRawData();
  for (int64_t tap = 0; tap < form.taps; ++tap)
    for (int64_t pixel = 0; pixel < form.inputs; ++pixel)
      for (int64_t output = 0; output < form.outputs; ++output) {
        // Vectors may overlap: a pixel counts in the first one.
        int64_t x = tap * form.tapStep + pixel - output * row().stride;
        if (x < 0 || x >= row().kernel || (tap > 0 && pixel < form.inputs - form.tapStep))
          continue;
        for (int64_t y = 0; y < rows; ++y)
          for (int64_t c = 0; c < from.ic; ++c)
            for (int64_t n = 0; n < from.oc; ++n) {
              int64_t source = from.weightOffset + y * from.weightKh + x * from.weightKw + c * from.weightIc + n * from.weightOc;
              int64_t target = y * to.weightKh + tap * to.weightKw + (pixel * from.ic + c) * to.weightIc + output * from.oc + n;
              std::copy_n(raw.begin() + (weights.value.isSplat() ? 0 : source * size), size, bytes.begin() + target * size);
            }
      }
  auto type = mlir::RankedTensorType::get({rows * to.weightKh}, weights.value.getElementType());
  return mlir::DenseElementsAttr::getFromRawBuffer(type, bytes);
}

Kernel Packer::rewrite(const Form &form) const {
  Kernel packed = kernel;
  packed.kind += llvm::formatv(" {0} outputs of {1} pixels", form.outputs, form.inputs).str();
  packed.outputsPerVector = form.outputs;
  packed.anchor = anchorOf(form);
  packed.extent[C] = packed.anchor->oc;
  packed.extent[P0] = packed.anchor->axes[0].size;
  KernelTensor &weights = packed.tensors[size_t(anchor().weights)];
  weights.value = weightsOf(form);
  weights.elements = weights.value.getNumElements();
  auto widen = [&](View &view) { view.stride[P0] *= form.outputs; };
  widen(packed.output);
  for (Step &step : packed.steps)
    for (Source &source : step.sources) {
      if (source.kind == Source::Tensor)
        widen(source.view);
      if (source.kind != Source::Parameter || source.parameter.isSplat())
        continue;
      std::vector<char> bytes;
      for (int64_t output = 0; output < form.outputs; ++output)
        llvm::append_range(bytes, source.parameter.getRawData());
      auto type = mlir::RankedTensorType::get({packed.extent[C]}, source.parameter.getElementType());
      source.parameter = mlir::DenseElementsAttr::getFromRawBuffer(type, bytes);
    }
  packed.request.size[P0] /= form.outputs;
  return packed;
}

std::optional<Kernel> Packer::run() const {
  if (!isPossible())
    return std::nullopt;
  const Anchor &a = anchor();
  const int64_t width = row().size;
  // Neighbours must be so in DRAM, or all see the same.
  auto isDense = [&](const View &view) {
    return (view.stride[C] == 1 && view.stride[P0] == a.oc) || (view.stride[C] == 0 && view.stride[P0] == 0);
  };
  bool sharesColumns = isInteger() && isDense(kernel.output);
  for (const Step &step : kernel.steps)
    for (const Source &source : step.sources)
      if (source.kind == Source::Tensor)
        sharesColumns &= isDense(source.view);
      else if (source.kind == Source::Value)
        sharesColumns &= bool(source.view.stride[C]) == bool(source.view.stride[P0]);
  const bool sharesRows = a.input.stride[C] == 1 && a.input.stride[P0] == a.ic;
  // What a schedule file asks for may leave no choice.
  const TileRequest &request = kernel.request;
  auto suits = [&](const Form &form) {
    const Anchor packed = anchorOf(form);
    return request.size[P0] % form.outputs == 0 &&
           (!request.ic || !packsTaps(packed, machine) ||
            request.ic == packed.ic * packed.axes[0].kernel * packed.axes[1].kernel);
  };
  Form best;
  const double plain = cyclesOf(formOf(1, 1));
  double least = plain;
  for (int64_t outputs = 1; outputs <= (sharesColumns ? std::max<int64_t>(machine.cols / a.oc, 1) : 1); ++outputs) {
    if (width % outputs)
      continue;
    for (int64_t inputs = 1; inputs == 1 || (sharesRows && inputs * a.ic <= machine.rows); ++inputs) {
      // Zero times a number is zero, but zero times infinity is not.
      if (inputs > 1 && !isInteger() && row().kernel % inputs)
        continue;
      if (inputs > row().kernel + row().stride * (outputs - 1))
        break;
      Form form = formOf(outputs, inputs);
      if (request.packed != true && !suits(form))
        continue;
      if (double cycles = cyclesOf(form); cycles < least) {
        least = cycles;
        best = form;
      }
    }
  }
  if (best.outputs * best.inputs == 1 || least * kLeastGain > plain)
    return std::nullopt;
  return rewrite(best);
}
} // namespace

std::optional<Kernel> accel::packPixels(const Kernel &kernel, const timing::MachineParams &machine) {
  return Packer(kernel, machine).run();
}
