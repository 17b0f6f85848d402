//===- Tensors.h - Host tensors: making, fitting, comparing -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_TENSORS_H
#define RUNTIME_TENSORS_H

#include "compiler/frontend/HostTensor.h"
#include "isa/Program.h"
#include "runtime/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tw::runtime {

using frontend::ElementKind;
using frontend::HostTensor;

/// An input or output of a network.
struct TensorSpec {
  std::string name;
  ElementKind type = ElementKind::F32;
  std::vector<int64_t> shape;
  /// A float16 of the network that its devices hold as float.
  bool isWidened = false;

  ElementKind stored() const { return isWidened ? ElementKind::F32 : type; }
};

/// The spec of a program's input or output.
TensorSpec specOf(const isa::TensorInfo &info);
/// 1 for a scalar.
int64_t elementCount(const std::vector<int64_t> &shape);
/// "int8", "float", ...: as ONNX writes them; shape as "1x3x224x224", "scalar".
std::string shapeText(const std::vector<int64_t> &shape);

/// Every element as a double; int64 beyond 2^53 are rounded.
std::vector<double> toDoubles(const HostTensor &tensor);

/// `tensor` as an input that `spec` describes. The shape must be the same; leading dims of 1 may be missing or too many.
/// Where types differ, float16 and bfloat16 become float, and float is rounded to them (NumPy has no bfloat16).
StatusOr<HostTensor> fitTo(const HostTensor &tensor, const TensorSpec &spec);

/// `tensor`, which is of `spec.type`, as the devices hold it: of `spec.stored()`.
HostTensor toStored(HostTensor tensor, const TensorSpec &spec);
/// The other way: name, type and shape of `spec` for what the devices give. A float16 is rounded to nearest even, and infinite beyond
/// its range.
HostTensor fromStored(HostTensor tensor, const TensorSpec &spec);

/// Splits `tensor` along dim 0 into inputs for `spec`; its dim 0 must be a multiple of spec's, the rest equal.
StatusOr<std::vector<HostTensor>> splitBatch(const HostTensor &tensor, const TensorSpec &spec);
/// Tensors of one type and shape, one behind the other along dim 0. Precondition: at least one.
HostTensor stack(const std::vector<HostTensor> &tensors);

/// Floats uniform in [-1, 1), 8-bit integers over their whole range, int32 in [-1000, 1000], other integers in 0..9.
/// Equal seeds give equal tensors on every host.
HostTensor randomTensor(const TensorSpec &spec, uint64_t seed);
/// One for each of `specs`, each with a seed of its own.
std::vector<HostTensor> randomTensors(const std::vector<TensorSpec> &specs, uint64_t seed);

/// The coarsest numbers that the values of a network go through.
enum class Precision : uint8_t { Single, Half, Bfloat, Quantised };

/// How far an output may be from what is expected: the larger of two limits counts.
struct Tolerance {
  /// Of |actual - expected|, as a part of the expected values' range.
  double ofRange = 0;
  /// Of |actual - expected|.
  double absolute = 0;
  /// Why, for people; empty where the user chose.
  std::string reason;
};

/// What is taken for rounding in an output of `type` (docs/files.md has the table). Integers are
/// exact, but those of 8 bits in a quantised network; floats are rounded as the network's numbers or their own type.
Tolerance defaultTolerance(ElementKind type, Precision precision);
/// "0.02 of the output's range or 1 (reason)".
std::string text(const Tolerance &tolerance);

/// How far two tensors lie apart.
struct Comparison {
  std::string name;
  int64_t elements = 0;
  /// Elements that are not equal as numbers; two NaN are equal.
  int64_t differing = 0;
  /// Largest |actual - expected|; infinite where one is NaN or the infinities differ.
  double maxAbsError = 0;
  /// Differing elements of which one side at least is infinite or NaN, and the largest difference of the others.
  int64_t notFinite = 0;
  double maxFiniteError = 0;
  /// max - min of the finite expected values, or their largest magnitude where that is more: floats are rounded by a part of it.
  double expectedRange = 0;
  /// maxAbsError / expectedRange; 0 if nothing differs.
  double maxRelativeError = 0;
  /// Sizes of the differences with their number, ascending; left empty where there are more than a few.
  std::vector<std::pair<double, int64_t>> sizes;
  /// Rows along dim 0 whose largest element (the first of equals) has the same index; 0 of 0 for a tensor that is no row of scores.
  int64_t top1Agree = 0, top1Rows = 0;
  /// What it is judged by; the default is equality.
  Tolerance tolerance;

  /// The tolerance as a limit of |actual - expected|.
  double largestAllowed() const;
  /// A NaN or infinity where another value is expected is beyond every tolerance.
  bool isWithinTolerance() const;
};

/// Compares element by element. Both must be floats, or neither, of any width; leading dims of 1 may be missing or too
/// many, all others must be the same.
StatusOr<Comparison> compare(const HostTensor &actual, const HostTensor &expected);
/// One line for people.
std::string text(const Comparison &comparison);

} // namespace tw::runtime

#endif // RUNTIME_TENSORS_H
