//===- Images.h - Parts of the family of image operators --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_OPERATORS_IMAGES_H
#define COMPILER_OPERATORS_IMAGES_H

#include "compiler/operators/Operator.h"

namespace tw::operators {

void addResize(Table &table);       ///< Resize, Upsample
void addSampling(Table &table);     ///< GridSample, AffineGrid
void addImageDecoder(Table &table); ///< ImageDecoder

/// The weights of the four samples around a place `ratio`, in [0, 1], behind the second of them: cubic convolution with parameter `a`.
/// source: R. Keys, Cubic convolution interpolation for digital image processing, 1981
void cubicWeights(double ratio, double a, double weights[4]);

} // namespace tw::operators

#endif // COMPILER_OPERATORS_IMAGES_H
