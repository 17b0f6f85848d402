// RUN: tilewright-opt %s -split-input-file -graph-split-reductions="columns=4 scratchpad=1024" | FileCheck %s
// RUN: tilewright-opt %s -split-input-file -graph-split-reductions="columns=4 scratchpad=1024 overlaps=false" | FileCheck %s --check-prefix=APART
// RUN: tilewright-opt %s -split-input-file -graph-split-reductions="columns=4 scratchpad=1024 array=bf16" | FileCheck %s --check-prefix=BF16

// A pixel of 4 channels has 16 bytes: 1024 bytes hold windows of 60 pixels beside a result, and two of 30.

// The mean of an image: of 3 x 10 pixels at a time, then of those means.
// CHECK-LABEL: func.func @image
// CHECK: %[[P:.*]] = graph.average_pool %{{.*}} {{{.*}}kernel = array<i64: 3, 10>{{.*}}strides = array<i64: 3, 10>{{.*}}} : (tensor<1x12x10x4xf32>) -> tensor<1x4x1x4xf32>
// CHECK: %[[Y:.*]] = graph.average_pool %[[P]] {{{.*}}kernel = array<i64: 4, 1>{{.*}}} : (tensor<1x4x1x4xf32>) -> tensor<1x1x1x4xf32>
// CHECK: return %[[Y]]
// In 16 bits it is held as a whole.
// BF16-LABEL: func.func @image
// BF16-COUNT-1: graph.average_pool
// BF16-NEXT: return
func.func @image(%x: tensor<1x12x10x4xf32>) -> tensor<1x1x1x4xf32> {
  %0 = graph.average_pool %x {kernel = array<i64: 12, 10>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, count_include_pad = false,
    layout = "nhwc"} : (tensor<1x12x10x4xf32>) -> tensor<1x1x1x4xf32>
  return %0 : tensor<1x1x1x4xf32>
}

// -----

// Windows that begin at multiples of a part.
// CHECK-LABEL: func.func @strided
// CHECK: %[[P:.*]] = graph.max_pool %{{.*}} {{{.*}}kernel = array<i64: 2, 10>{{.*}}strides = array<i64: 2, 10>{{.*}}} : (tensor<1x4x30x40xf32>) -> tensor<1x4x15x4xf32>
// CHECK: %[[Y:.*]] = graph.max_pool %[[P]] {{{.*}}kernel = array<i64: 5, 1>{{.*}}strides = array<i64: 1, 1>{{.*}}} : (tensor<1x4x15x4xf32>) -> tensor<1x4x11x4xf32>
// CHECK: return %[[Y]]
func.func @strided(%x: tensor<1x4x30x40xf32>) -> tensor<1x4x11x4xf32> {
  %0 = graph.max_pool %x {kernel = array<i64: 10, 10>, strides = array<i64: 2, 10>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nchw"} : (tensor<1x4x30x40xf32>) -> tensor<1x4x11x4xf32>
  return %0 : tensor<1x4x11x4xf32>
}

// -----

// Windows that share pixels: rows of a window, then their maxima below one another, with the border of each.
// CHECK-LABEL: func.func @shared
// CHECK: %[[P:.*]] = graph.max_pool %{{.*}} {{{.*}}kernel = array<i64: 1, 11>, layout = "nhwc", pads = array<i64: 0, 2, 0, 1>, strides = array<i64: 1, 1>} : (tensor<1x20x20x4xf32>) -> tensor<1x20x13x4xf32>
// CHECK: %[[Y:.*]] = graph.max_pool %[[P]] {{{.*}}kernel = array<i64: 11, 1>, layout = "nhwc", pads = array<i64: 3, 0, 0, 0>, strides = array<i64: 1, 1>} : (tensor<1x20x13x4xf32>) -> tensor<1x13x13x4xf32>
// CHECK: return %[[Y]]
func.func @shared(%x: tensor<1x20x20x4xf32>) -> tensor<1x13x13x4xf32> {
  %0 = graph.max_pool %x {kernel = array<i64: 11, 11>, strides = array<i64: 1, 1>, pads = array<i64: 3, 2, 0, 1>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x20x20x4xf32>) -> tensor<1x13x13x4xf32>
  return %0 : tensor<1x13x13x4xf32>
}

// -----

// A mean whose border cuts windows stays: its parts have no equal weights.
// CHECK-LABEL: func.func @cut
// CHECK-COUNT-1: graph.average_pool
// CHECK-NEXT: return
func.func @cut(%x: tensor<1x20x20x4xf32>) -> tensor<1x11x11x4xf32> {
  %0 = graph.average_pool %x {kernel = array<i64: 11, 11>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 0, 0>, count_include_pad = false,
    layout = "nhwc"} : (tensor<1x20x20x4xf32>) -> tensor<1x11x11x4xf32>
  return %0 : tensor<1x11x11x4xf32>
}

// -----

// A row of 251 numbers is prime and too long, one of 240 has room, one of 600 becomes rows of 120: of which there is room for two.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: %[[X:.*]]: tensor<2x251xf32>, %[[Y:.*]]: tensor<2x240xf32>, %[[Z:.*]]: tensor<2x600xf32>
// CHECK: graph.reduce %[[X]]
// CHECK: graph.reduce %[[Y]]
// CHECK: %[[R:.*]] = graph.reshape %[[Z]] : (tensor<2x600xf32>) -> tensor<10x120xf32>
// CHECK: %[[S:.*]] = graph.reduce %[[R]] {axes = array<i64: 1>, keepdims = false, kind = "max"} : (tensor<10x120xf32>) -> tensor<10xf32>
// CHECK: %[[T:.*]] = graph.reshape %[[S]] : (tensor<10xf32>) -> tensor<2x5xf32>
// CHECK: graph.reduce %[[T]] {axes = array<i64: 1>, keepdims = false, kind = "max"} : (tensor<2x5xf32>) -> tensor<2xf32>
func.func @rows(%x: tensor<2x251xf32>, %y: tensor<2x240xf32>, %z: tensor<2x600xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %0 = graph.reduce %x {kind = "sum", axes = array<i64: 1>, keepdims = false} : (tensor<2x251xf32>) -> tensor<2xf32>
  %1 = graph.reduce %y {kind = "sum", axes = array<i64: 1>, keepdims = false} : (tensor<2x240xf32>) -> tensor<2xf32>
  %2 = graph.reduce %z {kind = "max", axes = array<i64: 1>, keepdims = false} : (tensor<2x600xf32>) -> tensor<2xf32>
  return %0, %1, %2 : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// Rows whose numbers lie apart: 4 of them side by side.
// CHECK-LABEL: func.func @apart
// CHECK: graph.reduce %{{.*}} {axes = array<i64: 1>, keepdims = false, kind = "mean"} : (tensor<8x20x5xf32>) -> tensor<8x5xf32>
// CHECK: graph.reduce %{{.*}} {axes = array<i64: 1>, keepdims = false, kind = "mean"} : (tensor<2x4x5xf32>) -> tensor<2x5xf32>
func.func @apart(%x: tensor<2x80x5xf32>) -> tensor<2x5xf32> {
  %0 = graph.reduce %x {kind = "mean", axes = array<i64: 1>, keepdims = false} : (tensor<2x80x5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

// A softmax whose row has room in place, and not beside its result.
// CHECK-LABEL: func.func @softmax
// CHECK: graph.softmax
// APART-LABEL: func.func @softmax
// APART-NOT: graph.softmax
// APART: %[[M:.*]] = graph.reduce %[[X:.*]] {axes = array<i64: 1>, keepdims = false, kind = "max"} : (tensor<3x100xf32>) -> tensor<3xf32>
// APART: %[[N:.*]] = graph.reshape %[[M]] : (tensor<3xf32>) -> tensor<3x1xf32>
// APART: %[[D:.*]] = graph.sub %[[X]], %[[N]]
// APART: %[[E:.*]] = graph.exp %[[D]]
// APART: %[[S:.*]] = graph.reduce %[[E]] {axes = array<i64: 1>, keepdims = false, kind = "sum"} : (tensor<3x100xf32>) -> tensor<3xf32>
// APART: %[[T:.*]] = graph.reshape %[[S]] : (tensor<3xf32>) -> tensor<3x1xf32>
// APART: graph.div %[[E]], %[[T]]
func.func @softmax(%x: tensor<3x100xf32>) -> tensor<3x100xf32> {
  %0 = graph.softmax %x {axis = 1 : i64} : tensor<3x100xf32>
  return %0 : tensor<3x100xf32>
}
