//===- Pixels.cpp - Neighbouring pixels side by side -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A contraction of few output channels leaves columns of the array empty, one of few
// input channels rows. Where the channels of several neighbours along a row take their
// place, a pass makes several outputs of a row at once, from several pixels of each
// row of the window: the same contraction with more channels, fewer positions and
// weights of zero where an output does not read a pixel.
//
// A window over few channels leaves lanes of the vector engine empty. The channels of
// neighbours along a row are one run of elements, so that whole vectors of lanes may
// hold several outputs; their taps begin a pixel's channels after one another.
//===----------------------------------------------------------------------===//

#include "compiler/codegen/accel/Emitter.h"

#include "compiler/cost/Constants.h"

#include <numeric>

using namespace tw;
using namespace tw::accel;

namespace {
/// `outputs` of a row in the columns, from vectors of `inputs` pixels. Zero times a number is zero, but zero times infinity is not: where
/// there may be one (Kernel::isFinite), a vector has pixels of one output only. With float types the last vector of a window may be short.
struct Form {
  int64_t outputs = 1, inputs = 1;
  int64_t taps = 1;              ///< vectors along a row that the outputs read
  int64_t tapStep = 1, step = 1; ///< pixels from one to the next: of those, and of all vectors that any outputs read
  bool pairsRows = false;        ///< Anchor::pairsRows
};

/// The channels of neighbours lie side by side in DRAM, or all see the same.
bool isDense(const View &view, int64_t channels) {
  return !view.isPadded() &&
         ((view.stride[C] == 1 && view.stride[P0] == channels) || (view.stride[C] == 0 && view.stride[P0] == 0));
}

/// Whether the steps and their result can have several outputs of a row in a vector.
bool canShareVectors(const Kernel &kernel, int64_t channels) {
  bool can = isDense(kernel.output, channels);
  for (const Step &step : kernel.steps)
    for (const Source &source : step.sources)
      if (source.kind == Source::Tensor)
        can &= isDense(source.view, channels);
      else if (source.kind == Source::Value)
        can &= bool(source.view.stride[C]) == bool(source.view.stride[P0]);
  return can;
}

/// Whether some step takes all channels of an output together, or the anchor's weights as well: then an output has its own vectors.
bool needsOutputsApart(const Kernel &kernel) {
  return llvm::any_of(kernel.steps, [&](const Step &step) {
    return step.reducesChannels || llvm::any_of(step.sources, [&](const Source &source) {
             return source.kind == Source::Tensor && source.view.tensor == kernel.anchor->weights;
           });
  });
}

/// The kernel with `outputs` neighbours along P0 in a vector.
Kernel sideBySide(const Kernel &kernel, int64_t outputs, const Anchor &anchor, mlir::DenseElementsAttr weights,
                  const std::string &kind) {
  Kernel packed = kernel;
  packed.kind += kind;
  packed.outputsPerVector = outputs;
  packed.anchor = anchor;
  packed.extent[C] *= outputs;
  packed.extent[P0] = anchor.axes[0].size;
  if (packed.maxima)
    (*packed.maxima)[0].size = (*packed.maxima)[0].inputSize = packed.extent[P0];
  if (anchor.weights >= 0) {
    KernelTensor &tensor = packed.tensors[size_t(anchor.weights)];
    tensor.value = weights;
    tensor.elements = weights.getNumElements();
  }
  auto widen = [&](View &view) { view.stride[P0] *= outputs; };
  widen(packed.output);
  for (Step &step : packed.steps)
    for (Source &source : step.sources) {
      if (source.kind == Source::Tensor)
        widen(source.view);
      if (source.kind != Source::Parameter || source.parameter.isSplat())
        continue;
      std::vector<char> bytes;
      for (int64_t output = 0; output < outputs; ++output)
        llvm::append_range(bytes, source.parameter.getRawData());
      auto type = mlir::RankedTensorType::get({packed.extent[C]}, source.parameter.getElementType());
      source.parameter = mlir::DenseElementsAttr::getFromRawBuffer(type, bytes);
    }
  packed.plan.tile[P0] /= outputs;
  return packed;
}

/// Of contractions.
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
  bool canPairRows() const;
  Form formOf(int64_t outputs, int64_t inputs) const;
  Anchor anchorOf(const Form &form) const;
  struct Cycles {
    double array = 0; ///< if nothing else delays it
    double all = 0;   ///< those of the busiest engine, and a part of the others'
  };
  Cycles cyclesOf(const Form &form) const;
  Kernel rewrite(const Form &form) const;
  mlir::DenseElementsAttr weightsOf(const Form &form) const;
};

bool Packer::isPossible() const {
  const bool seesSeveral = kernel.maxima && (*kernel.maxima)[0].kernel != 1; // of the sums in a row
  if (!kernel.anchor || anchor().kind != Anchor::Contraction || kernel.outputReduced || kernel.pool || seesSeveral)
    return false;
  const Anchor &a = anchor();
  if (a.groups != 1 || a.batchAxis || a.axes[2].kernel != 1 || (row().dilation != 1 && row().kernel != 1))
    return false;
  if (a.oc != kernel.extent[C] || row().size != kernel.extent[P0] || (a.input.stride[P0] == 0 && row().size > 1))
    return false;
  if (kernel.tensors[size_t(a.weights)].role != KernelTensor::Constant || a.weights == a.input.tensor)
    return false;
  return !needsOutputsApart(kernel);
}

/// Two outputs, one below the other, meet in the columns where no vector has to be written behind its own pixel.
bool Packer::canPairRows() const {
  const WindowAxis &column = anchor().axes[1];
  if (isInteger() || machine.lanes != machine.cols || anchor().oc * 2 > machine.cols || kernel.conversion || kernel.maxima ||
      column.kernel <= column.stride || column.dilation != 1 || column.size != kernel.extent[P1] || column.size == 1)
    return false;
  auto isWhole = [&](const View &view) {
    return !view.isPadded() && view.stride[C] == 1 && view.stride[P0] == anchor().oc && view.stride[P1] > 0;
  };
  auto isSum = [](const Source &source) { return source.kind == Source::Value && source.value == -1; };
  for (const Step &step : kernel.steps)
    for (const Source &source : step.sources)
      if ((isSum(source) && &step != &kernel.steps.front()) ||
          (source.kind == Source::Tensor && &step == &kernel.steps.front() && !isWhole(source.view)))
        return false;
  return isWhole(kernel.output) && kernel.output.offset == 0 &&
         (kernel.steps.empty() || llvm::count_if(kernel.steps[0].sources, isSum) == 1);
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
  form.step = stride * outputs;
  if (form.taps > 1) {
    // Integers may be read twice, and from behind the window; what lies there need not be a number.
    form.tapStep = isInteger() ? ceilDiv(pixels - inputs, form.taps - 1) : inputs;
    form.step = std::gcd(form.tapStep, form.step);
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
  a.pairsRows = form.pairsRows;
  a.weightIc = a.pairsRows ? machine.cols : a.oc;
  a.weightKw = a.ic * a.weightIc;
  a.weightKh = w.kernel * a.weightKw;
  if (form.inputs == 1)
    return a;
  a.pixels = {form.inputs, form.step, w.padLow, w.inputSize, form.inputs};
  if (!isInteger())
    a.pixels.lastCount = row().kernel + row().stride * (form.outputs - 1) - (form.taps - 1) * form.inputs;
  a.input.stride[P0] *= form.step;
  w.stride /= form.step;
  w.dilation = form.taps > 1 ? form.tapStep / form.step : 1;
  w.padLow = 0;
  w.inputSize = w.span(w.size);
  return a;
}

Packer::Cycles Packer::cyclesOf(const Form &form) const {
  const Anchor a = anchorOf(form);
  const int64_t kw = a.axes[0].kernel, kh = a.weightRows(), rows = machine.rows, size = byteSize(a.inputType);
  const int64_t together = a.pairsRows ? 2 : 1; // sums of both, one after the other, for each result
  const int64_t positions = a.axes[0].size * ceilDiv(a.axes[1].size, together) * a.axes[2].size;
  const int64_t least = preloadCycles(machine);
  const double vector = double(positions * together * together * ceilDiv(a.oc, machine.lanes));
  auto cycles = [&](int64_t passes, double loads) {
    const double tensor = double(passes * ceilDiv(a.oc, machine.cols) * std::max(positions, least));
    return Cycles{tensor, std::max({tensor, loads, vector}) + (loads + vector) * cost::kHiddenEngines};
  };
  // The load engine writes a burst at a time.
  auto bursts = [&](int64_t channels) { return std::max(1.0, double(channels * size) / kBurst); };
  double loads = 0;
  if (form.inputs > 1)
    loads = double(a.axes[1].span(a.axes[1].size) * a.axes[2].size) * bursts(a.pixels.inputSize * anchor().ic);
  const Cycles apart = cycles(kw * kh * ceilDiv(a.ic, rows), loads);
  if (!packsTaps(a, machine))
    return apart;
  loads = double(positions * kh) * (a.input.stride[C] == 1 ? bursts(kw * a.ic) : double(a.ic) / machine.loadEngines);
  const Cycles packed = cycles(ceilDiv(kw * kh * a.ic, rows), loads);
  return packed.all < apart.all ? packed : apart;
}

/// [rows of taps][taps][input channels][output channels], all of the form's.
mlir::DenseElementsAttr Packer::weightsOf(const Form &form) const {
  const Anchor &from = anchor(), to = anchorOf(form);
  const KernelTensor &weights = kernel.tensors[size_t(from.weights)];
  const int64_t size = byteSize(weights.type), rows = to.weightRows();
  std::vector<char> bytes(size_t(rows * to.weightKh * size), char(from.weightZero));
  llvm::ArrayRef<char> raw = weights.value.getRawData();
  for (int64_t tap = 0; tap < form.taps; ++tap)
    for (int64_t pixel = 0; pixel < form.inputs; ++pixel)
      for (int64_t output = 0; output < form.outputs; ++output) {
        // Vectors may overlap: a pixel counts in the first one.
        int64_t x = tap * form.tapStep + pixel - output * row().stride;
        if (x < 0 || x >= row().kernel || (tap > 0 && pixel < form.inputs - form.tapStep))
          continue;
        for (int64_t lower = 0; lower <= int64_t(form.pairsRows); ++lower)
          for (int64_t y = 0; y < from.axes[1].kernel; ++y)
            for (int64_t c = 0; c < from.ic; ++c)
              for (int64_t n = 0; n < from.oc; ++n) {
                int64_t source =
                    from.weightOffset + y * from.weightKh + x * from.weightKw + c * from.weightIc + n * from.weightOc;
                int64_t target = (y + lower * from.axes[1].stride) * to.weightKh + tap * to.weightKw +
                                 (pixel * from.ic + c) * to.weightIc + lower * (machine.cols / 2) + output * from.oc + n;
                std::copy_n(raw.begin() + (weights.value.isSplat() ? 0 : source * size), size, bytes.begin() + target * size);
              }
      }
  auto type = mlir::RankedTensorType::get({rows * to.weightKh}, weights.value.getElementType());
  return mlir::DenseElementsAttr::getFromRawBuffer(type, bytes);
}

Kernel Packer::rewrite(const Form &form) const {
  return sideBySide(
      kernel, form.outputs, anchorOf(form), weightsOf(form),
      llvm::formatv(" {0} outputs of {1} pixels{2}", form.outputs, form.inputs, form.pairsRows ? " in pairs" : "").str());
}

std::optional<Kernel> Packer::run() const {
  if (!isPossible())
    return std::nullopt;
  const Anchor &a = anchor();
  const int64_t width = row().size;
  const bool sharesColumns = kernel.isFinite && canShareVectors(kernel, a.oc);
  // A load fills what lies in front of a row and behind it.
  const int64_t padding = std::max(row().padLow, row().span(width) - row().padLow - row().inputSize);
  const bool sharesRows =
      !kernel.conversion && a.input.stride[C] == 1 && a.input.stride[P0] == a.ic && padding * a.ic + machine.rows <= kMaxFill;
  // What a schedule file asks for may leave no choice.
  const KernelPlan &request = kernel.plan;
  auto suits = [&](const Form &form) {
    const Anchor packed = anchorOf(form);
    return request.tile[P0] % form.outputs == 0 && (!kernel.conversion || packsTaps(packed, machine)) &&
           (!request.tileK || !packsTaps(packed, machine) ||
            request.tileK == packed.ic * packed.axes[0].kernel * packed.axes[1].kernel);
  };
  Form best;
  const Cycles plain = cyclesOf(formOf(1, 1));
  double least = plain.all;
  for (int64_t outputs = 1; outputs <= (sharesColumns ? std::max<int64_t>(machine.cols / a.oc, 1) : 1); ++outputs) {
    if (width % outputs)
      continue;
    for (int64_t inputs = 1; inputs == 1 || (sharesRows && inputs * a.ic <= machine.rows); ++inputs) {
      if (inputs > row().kernel + row().stride * (outputs - 1))
        break;
      for (bool pairsRows : {false, true}) {
        Form form = formOf(outputs, inputs);
        form.pairsRows = pairsRows;
        if (pairsRows && (outputs > 1 || !canPairRows() || packsTaps(anchorOf(form), machine)))
          continue;
        if (request.pixelPacking != true ? !suits(form) : kernel.conversion && !packsTaps(anchorOf(form), machine))
          continue;
        // Taps that the load engine packs may need fewer passes; beside other kernels its work hides behind them.
        if (const Cycles cycles = cyclesOf(form); cycles.array <= plain.array && cycles.all < least) {
          least = cycles.all;
          best = form;
        }
      }
    }
  }
  if ((best.outputs * best.inputs == 1 && !best.pairsRows) || least * cost::kLeastGain > plain.all)
    return std::nullopt;
  return rewrite(best);
}

/// [rows of taps][taps][channels of all outputs].
mlir::DenseElementsAttr repeatWeights(const Anchor &anchor, mlir::DenseElementsAttr value, int64_t size, int64_t channels,
                                      int64_t outputs) {
  std::vector<char> bytes;
  for (int64_t y = 0; y < anchor.axes[1].kernel; ++y)
    for (int64_t x = 0; x < anchor.axes[0].kernel; ++x)
      for (int64_t i = 0; i < outputs * channels; ++i) {
        int64_t from = anchor.weightOffset + y * anchor.weightKh + x * anchor.weightKw + i % channels * anchor.weightOc;
        llvm::append_range(bytes, value.getRawData().slice(value.isSplat() ? 0 : size_t(from * size), size_t(size)));
      }
  auto type = mlir::RankedTensorType::get({int64_t(bytes.size()) / size}, value.getElementType());
  return mlir::DenseElementsAttr::getFromRawBuffer(type, bytes);
}

/// What a single channel is read with says nothing of where others would be: beside it, as its neighbours are.
Kernel withChannelStrides(Kernel kernel) {
  for (Step &step : kernel.steps)
    for (Source &source : step.sources)
      if (kernel.extent[C] == 1 && source.view.stride[P0] <= 1)
        source.view.stride[C] = source.view.stride[P0];
  return kernel;
}

/// Windows that move by one pixel: whole vectors of as many outputs as leave no lane empty, or of fewer that divide the row.
std::optional<Kernel> packWindow(const Kernel &given, const timing::MachineParams &machine) {
  const Kernel kernel = withChannelStrides(given);
  Anchor a = *kernel.anchor;
  WindowAxis &row = a.axes[0];
  const WindowAxis column = a.axes[1];
  const int64_t lanes = machine.lanes, channels = kernel.extent[C],
                outputs = std::gcd(row.size, lanes / std::gcd(channels, lanes));
  if (outputs == 1 || kernel.pool || row.stride != 1 || row.size != kernel.extent[P0] ||
      (kernel.plan.pixelPacking != true && kernel.plan.tile[P0] % outputs))
    return std::nullopt;
  if (a.input.stride[C] != 1 || a.input.stride[P0] != channels || needsOutputsApart(kernel) ||
      !canShareVectors(kernel, channels))
    return std::nullopt;
  // Vectors go down the rows, so that neighbours share taps; the first one of each column of outputs has none to share.
  auto perOutput = [](const WindowAxis &along, const WindowAxis &across) { return across.kernel * newColumns(along, across); };
  const int64_t taps = row.kernel * column.kernel, columns = row.size / outputs, rows = kernel.extent[P1];
  const int64_t plain =
      ceilDiv(channels, lanes) * (taps + row.size * rows * (row.kernel == 1 ? perOutput(column, row) : perOutput(row, column)));
  const int64_t down = perOutput(column, row), blocks = ceilDiv(outputs * channels, lanes);
  const int64_t packed = blocks * (taps + columns * (rows * down + taps - down));
  if (double(packed) * cost::kLeastGain > double(plain))
    return std::nullopt;
  mlir::DenseElementsAttr weights;
  if (a.weights >= 0) {
    const KernelTensor &tensor = kernel.tensors[size_t(a.weights)];
    weights = repeatWeights(a, tensor.value, byteSize(tensor.type), channels, outputs);
    a.weightOffset = 0;
    a.weightOc = 1;
    a.weightKw = outputs * channels;
    a.weightKh = row.kernel * a.weightKw;
  }
  a.pixels = {outputs, 1, row.padLow, row.inputSize};
  a.pixels.beyond = ceilDiv(blocks * lanes - outputs * channels, channels);
  a.oc *= outputs;
  row.size /= outputs;
  row.stride = outputs;
  row.padLow = 0;
  row.inputSize = row.span(row.size);
  return sideBySide(kernel, outputs, a, weights, llvm::formatv(" {0} outputs", outputs).str());
}
} // namespace

std::optional<Kernel> accel::packPixels(const Kernel &kernel, const timing::MachineParams &machine) {
  if (kernel.anchor && kernel.anchor->kind == Anchor::Window)
    return packWindow(kernel, machine);
  return Packer(kernel, machine).run();
}
