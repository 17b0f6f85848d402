//===- Signals.cpp - Fourier transforms and windows -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Signals.h"
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/operators/Elements.h"
#include "compiler/operators/Operator.h"

using namespace tw;
using namespace tw::operators;

namespace {

using Complex = std::complex<double>;
constexpr double kPi = 3.14159265358979323846;
/// Elements of one transform, at most.
constexpr int64_t kMostLength = int64_t(1) << 26;

/// a * b; std::complex's product also looks after infinities, which takes most of its time.
inline Complex product(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

/// The discrete Fourier transform of one length.
class Fourier {
public:
  Fourier(int64_t length, bool isInverse) : length(size_t(length)), sign(isInverse ? 1 : -1) {
    padded = 1;
    while (padded < this->length)
      padded *= 2;
    if (padded == this->length) {
      makeRoots();
      return;
    }
    // source: L. Bluestein, A linear filtering approach to the computation of discrete Fourier transform, 1970: a convolution with a chirp.
    while (padded < 2 * this->length - 1)
      padded *= 2;
    makeRoots();
    chirp.resize(this->length);
    filter.assign(padded, 0);
    for (size_t k = 0; k < this->length; ++k) {
      // The angle is pi k^2 / n, which repeats every 2 n.
      const double angle = sign * kPi * double((k * k) % (2 * this->length)) / double(this->length);
      chirp[k] = {std::cos(angle), std::sin(angle)};
      filter[k] = std::conj(chirp[k]);
      if (k != 0)
        filter[padded - k] = filter[k];
    }
    radix2(filter, false);
  }

  /// Unscaled, in place. Precondition: `x` is of the length.
  void run(std::vector<Complex> &x) {
    if (chirp.empty()) {
      radix2(x, sign > 0);
      return;
    }
    room.assign(padded, 0);
    for (size_t k = 0; k < length; ++k)
      room[k] = product(x[k], chirp[k]);
    radix2(room, false);
    for (size_t k = 0; k < padded; ++k)
      room[k] = product(room[k], filter[k]);
    radix2(room, true);
    for (size_t k = 0; k < length; ++k)
      x[k] = product(room[k], chirp[k]) / double(padded);
  }

private:
  void makeRoots() {
    roots.resize(padded / 2);
    for (size_t k = 0; k < roots.size(); ++k)
      roots[k] = {std::cos(2 * kPi * double(k) / double(padded)), -std::sin(2 * kPi * double(k) / double(padded))};
  }

  /// source: J. Cooley and J. Tukey, An algorithm for the machine calculation of complex Fourier series, 1965
  void radix2(std::vector<Complex> &x, bool isInverse) const {
    for (size_t i = 1, reversed = 0; i < padded; ++i) {
      size_t bit = padded / 2;
      for (; reversed & bit; bit /= 2)
        reversed ^= bit;
      reversed |= bit;
      if (i < reversed)
        std::swap(x[i], x[reversed]);
    }
    for (size_t half = 1; half < padded; half *= 2)
      for (size_t first = 0; first < padded; first += 2 * half)
        for (size_t k = 0; k < half; ++k) {
          const Complex root = roots[k * (padded / 2 / half)];
          const Complex odd = product(x[first + half + k], isInverse ? std::conj(root) : root);
          x[first + half + k] = x[first + k] - odd;
          x[first + k] += odd;
        }
  }

  size_t length, padded;
  double sign;
  /// exp(-2 pi i k / padded).
  std::vector<Complex> roots;
  std::vector<Complex> chirp, filter, room;
};

void requireFloat(const Call &call, const HostTensor &x) {
  if (!visitFloat(x.type, [](auto) {}))
    call.fail(std::string("it takes floats of 16 bits and more, not ") + frontend::elementName(x.type));
}

int64_t lengthOf(const Call &call, int64_t length, const char *what) {
  if (length < 1 || length > kMostLength)
    call.fail(std::string(what) + " is " + std::to_string(length) + ", expected 1 to 2^26");
  return length;
}

// source: ONNX, operator DFT
void evaluateDft(Call &call) {
  const HostTensor &x = call.input(0);
  requireFloat(call, x);
  const int64_t rank = int64_t(x.shape.size());
  if (rank < 2 || (x.shape.back() != 1 && x.shape.back() != 2))
    call.fail("input has shape " + textOf(x.shape) +
              ", expected a last dim of 1 for real or 2 for complex numbers, and one before");
  const int64_t given = call.opset() < 20 ? call.intAttr("axis", 1) : call.has(2) ? call.intScalar(2) : -2;
  const int64_t axis = call.axis(given, rank);
  if (axis == rank - 1)
    call.fail("axis is " + std::to_string(given) + ", the last one, which holds real and imaginary parts");
  const bool isInverse = call.flagAttr("inverse", false), isOnesided = call.flagAttr("onesided", false);
  const bool isComplex = x.shape.back() == 2, isToReal = isInverse && isOnesided;
  if (isOnesided && !isInverse && isComplex)
    call.fail("onesided needs real numbers");
  if (isToReal && !isComplex)
    call.fail("the inverse of a onesided transform needs complex numbers");
  const int64_t in = x.shape[size_t(axis)];
  const int64_t length = lengthOf(call,
                                  call.has(1) ? call.intScalar(1)
                                  : isToReal  ? 2 * (in - 1)
                                              : in,
                                  "the transform's length");
  const int64_t half = length / 2 + 1;
  Shape shape = x.shape;
  shape[size_t(axis)] = isOnesided && !isInverse ? half : length;
  shape.back() = isToReal ? 1 : 2;
  HostTensor &y = call.output(0, x.type, shape);
  if (countOf(y) == 0)
    return;
  Fourier fourier(length, isInverse);
  std::vector<Complex> row;
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < rank - 1; ++i)
    (i < axis ? outer : inner) *= i == axis ? 1 : shape[size_t(i)];
  const int64_t parts = x.shape.back(), out = shape[size_t(axis)];
  // What is beyond the length is left out; what is missing is zero.
  const int64_t used = std::min(in, isToReal ? half : length);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      row.assign(size_t(length), 0);
      for (int64_t k = 0; k < used; ++k) {
        const int64_t from = ((o * in + k) * inner + i) * parts;
        row[size_t(k)] = {realAt(x, from), isComplex ? realAt(x, from + 1) : 0};
        // The other side has the conjugates.
        if (isToReal && k > 0 && 2 * k < length)
          row[size_t(length - k)] = std::conj(row[size_t(k)]);
        else if (isToReal)
          row[size_t(k)] = row[size_t(k)].real();
      }
      fourier.run(row);
      for (int64_t k = 0; k < out; ++k) {
        const Complex value = isInverse ? row[size_t(k)] / double(length) : row[size_t(k)];
        const int64_t to = ((o * out + k) * inner + i) * shape.back();
        setReal(y, to, value.real());
        if (!isToReal)
          setReal(y, to + 1, value.imag());
      }
    }
}

// source: ONNX, operator STFT
void evaluateStft(Call &call) {
  const HostTensor &signal = call.input(0);
  requireFloat(call, signal);
  const size_t rank = signal.shape.size();
  if ((rank != 2 && rank != 3) || (rank == 3 && signal.shape[2] != 1 && signal.shape[2] != 2))
    call.fail("signal has shape " + textOf(signal.shape) + ", expected [batches, length, 1 or 2]");
  const bool isComplex = rank == 3 && signal.shape[2] == 2;
  const int64_t step = call.intScalar(1);
  if (step < 1)
    call.fail("frame_step is " + std::to_string(step) + ", expected at least 1");
  const HostTensor *window = call.has(2) ? &call.input(2) : nullptr;
  if (window && window->shape.size() != 1)
    call.fail("window has shape " + textOf(window->shape) + ", expected one dim");
  if (!window && !call.has(3))
    call.fail("neither window nor frame_length is given");
  const int64_t length = lengthOf(call, call.has(3) ? call.intScalar(3) : window->shape[0], "frame_length");
  if (window && window->shape[0] != length)
    call.fail("window has " + std::to_string(window->shape[0]) + " elements, and a frame " + std::to_string(length));
  if (isComplex && call.hasAttr("onesided") && call.intAttr("onesided") != 0)
    call.fail("onesided needs real numbers");
  const bool isOnesided = !isComplex && call.flagAttr("onesided", true);
  const int64_t samples = signal.shape[1];
  const int64_t frames = samples < length ? 0 : (samples - length) / step + 1, bins = isOnesided ? length / 2 + 1 : length;
  HostTensor &y = call.output(0, signal.type, {signal.shape[0], frames, bins, 2});
  if (countOf(y) == 0)
    return;
  Fourier fourier(length, false);
  std::vector<Complex> row(static_cast<size_t>(length));
  int64_t to = 0;
  for (int64_t batch = 0; batch < signal.shape[0]; ++batch)
    for (int64_t frame = 0; frame < frames; ++frame) {
      for (int64_t k = 0; k < length; ++k) {
        const int64_t from = (batch * samples + frame * step + k) * (isComplex ? 2 : 1);
        const double weight = window ? realAt(*window, k) : 1;
        row[size_t(k)] = {weight * realAt(signal, from), isComplex ? weight * realAt(signal, from + 1) : 0};
      }
      fourier.run(row);
      for (int64_t k = 0; k < bins; ++k) {
        setReal(y, to++, row[size_t(k)].real());
        setReal(y, to++, row[size_t(k)].imag());
      }
    }
}

/// A sum of cosines: a0 - a1 cos(x) + a2 cos(2 x).
void makeWindow(Call &call, double a0, double a1, double a2) {
  const int64_t size = call.intScalar(0);
  if (size < 0 || size > kMostLength)
    call.fail("size is " + std::to_string(size) + ", expected 0 to 2^26");
  const bool isPeriodic = call.flagAttr("periodic", true);
  HostTensor &y = call.output(0, kindAttr(call, "output_datatype", ElementKind::F32), {size});
  const double period = double(isPeriodic ? size : size - 1);
  for (int64_t i = 0; i < size; ++i) {
    const double x = 2 * kPi * double(i) / period;
    // A symmetric window of one element is its middle.
    setReal(y, i, period == 0 ? a0 + a1 + a2 : a0 - a1 * std::cos(x) + a2 * std::cos(2 * x));
  }
}

// source: ONNX, operators HannWindow, HammingWindow and BlackmanWindow
void evaluateHann(Call &call) { makeWindow(call, 0.5, 0.5, 0); }
void evaluateHamming(Call &call) { makeWindow(call, 25.0 / 46, 21.0 / 46, 0); }
void evaluateBlackman(Call &call) { makeWindow(call, 0.42, 0.5, 0.08); }

// source: ONNX, operator MelWeightMatrix
void evaluateMelWeightMatrix(Call &call) {
  const int64_t bands = call.intScalar(0), length = call.intScalar(1), rate = call.intScalar(2);
  const double lower = call.realScalar(3), upper = call.realScalar(4);
  if (bands < 0 || bands > kMostLength || length < 0 || length > kMostLength || rate < 1)
    call.fail("num_mel_bins is " + std::to_string(bands) + ", dft_length " + std::to_string(length) + " and sample_rate " +
              std::to_string(rate) + ", expected 0 to 2^26, 0 to 2^26 and at least 1");
  if (!(lower >= 0 && upper >= lower && std::isfinite(upper)))
    call.fail("the edges are " + std::to_string(lower) + " and " + std::to_string(upper) + " Hz, expected 0 <= lower <= upper");
  const int64_t bins = length / 2 + 1;
  HostTensor &y = call.output(0, kindAttr(call, "output_datatype", ElementKind::F32), {bins, bands});
  const double low = 2595 * std::log10(1 + lower / 700), high = 2595 * std::log10(1 + upper / 700);
  /// The spectrum's bin at edge `i`; those behind the end hold nothing.
  auto binAt = [&](int64_t i) {
    const double mel = low + double(i) * (high - low) / double(bands + 2);
    const double hertz = 700 * (std::pow(10, mel / 2595) - 1);
    return int64_t(std::clamp(std::floor(double(length + 1) * hertz / double(rate)), 0.0, 1e15));
  };
  for (int64_t band = 0; band < bands; ++band) {
    const int64_t left = binAt(band), middle = binAt(band + 1), right = binAt(band + 2);
    for (int64_t bin = left; bin < std::min(middle, bins); ++bin)
      setReal(y, bin * bands + band, double(bin - left) / double(middle - left));
    if (middle < bins)
      setReal(y, middle * bands + band, 1);
    for (int64_t bin = middle; bin < std::min(right, bins); ++bin)
      setReal(y, bin * bands + band, double(right - bin) / double(right - middle));
  }
}

} // namespace

ElementKind operators::kindAttr(const Call &call, const char *name, ElementKind fallback) {
  if (!call.hasAttr(name))
    return fallback;
  const int64_t number = call.intAttr(name);
  const auto kind = number < 0 || number > 1000 ? std::nullopt : frontend::elementKindOf(int32_t(number));
  if (!kind || *kind == ElementKind::String || *kind == ElementKind::Complex64 || *kind == ElementKind::Complex128)
    call.fail(std::string(name) + " is " + std::to_string(number) + ", which is no type of numbers");
  return *kind;
}

void operators::addSignals(Table &table) {
  addRandom(table);
  addStrings(table);
  table[":DFT"] = {evaluateDft, /*shapeInputs=*/{1, 2}};
  table[":STFT"] = {evaluateStft, /*shapeInputs=*/{1, 3}};
  table[":HannWindow"] = {evaluateHann, /*shapeInputs=*/{0}};
  table[":HammingWindow"] = {evaluateHamming, /*shapeInputs=*/{0}};
  table[":BlackmanWindow"] = {evaluateBlackman, /*shapeInputs=*/{0}};
  table[":MelWeightMatrix"] = {evaluateMelWeightMatrix, /*shapeInputs=*/{0, 1}};
}
