// RUN: tilewright-opt %s -graph-convert-layout -canonicalize | FileCheck %s

// One transpose in, one out; weights and the constant of the addition follow.
// CHECK-LABEL: func.func @chain
// CHECK-SAME: %[[X:.*]]: tensor<1x3x8x8xf32>
func.func @chain(%x: tensor<1x3x8x8xf32>) -> tensor<1x2x4x4xf32> {
  %w = graph.constant dense<[[[[1.0]], [[2.0]], [[3.0]]], [[[4.0]], [[5.0]], [[6.0]]]]> : tensor<2x3x1x1xf32>
  %b = graph.constant dense<[[[7.0]], [[8.0]]]> : tensor<2x1x1xf32>
  // CHECK-DAG: %[[W:.*]] = graph.constant dense<{{\[\[\[\[}}1.000000e+00, 4.000000e+00], [2.000000e+00, 5.000000e+00], [3.000000e+00, 6.000000e+00]]]]> : tensor<1x1x3x2xf32>
  // CHECK-DAG: %[[B:.*]] = graph.constant dense<{{\[\[\[\[}}7.000000e+00, 8.000000e+00]]]]> : tensor<1x1x1x2xf32>
  // 768 bytes there and 768 back, 1.44 times as long as a copy, at 19.2 a cycle, and twice 50 cycles of latency.
  // CHECK: %[[T:.*]] = graph.transpose %[[X]] {graph.conversion = 215 : i64, perm = array<i64: 0, 2, 3, 1>} : (tensor<1x3x8x8xf32>) -> tensor<1x8x8x3xf32>
  // CHECK: %[[C:.*]] = graph.conv %[[T]], %[[W]] {{.*}}layout = "nhwc"{{.*}} -> tensor<1x8x8x2xf32>
  // CHECK: %[[A:.*]] = graph.add %[[C]], %[[B]]
  // CHECK: %[[R:.*]] = graph.relu %[[A]] : tensor<1x8x8x2xf32>
  // CHECK: %[[P:.*]] = graph.max_pool %[[R]] {{.*}}layout = "nhwc"{{.*}} -> tensor<1x4x4x2xf32>
  // CHECK: %[[Y:.*]] = graph.transpose %[[P]] {graph.conversion = {{[0-9]+}} : i64, perm = array<i64: 0, 3, 1, 2>}
  // CHECK: return %[[Y]]
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x3x8x8xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x8x8xf32>
  %1 = graph.add %0, %b : (tensor<1x2x8x8xf32>, tensor<2x1x1xf32>) -> tensor<1x2x8x8xf32>
  %2 = graph.relu %1 : tensor<1x2x8x8xf32>
  %3 = graph.max_pool %2 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nchw"} : (tensor<1x2x8x8xf32>) -> tensor<1x2x4x4xf32>
  return %3 : tensor<1x2x4x4xf32>
}

// Axes follow: channels are dim 3, the image's height dim 1.
// CHECK-LABEL: func.func @axes
func.func @axes(%x: tensor<1x4x8x8xi8>, %w: tensor<4x4x1x1xi8>) -> tensor<1x8x7x8xi8> {
  // CHECK: %[[S:.*]] = graph.conv_integer
  // CHECK: %[[Q:.*]] = graph.requantize %[[S]] {axis = 3 : i64
  // CHECK: %[[C:.*]] = graph.concat %[[Q]], %[[Q]] {axis = 3 : i64} : (tensor<1x8x8x4xi8>, tensor<1x8x8x4xi8>) -> tensor<1x8x8x8xi8>
  // CHECK: %[[L:.*]] = graph.slice %[[C]] {starts = array<i64: 0, 3, 0, 0>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x8x8x8xi8>) -> tensor<1x5x8x8xi8>
  // CHECK: graph.pad %[[L]] {high = array<i64: 0, 2, 0, 0>, low = array<i64: 0, 0, 0, 0>
  %0 = graph.conv_integer %x, %w {x_zero_point = 1 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw"} : (tensor<1x4x8x8xi8>, tensor<4x4x1x1xi8>) -> tensor<1x4x8x8xi32>
  %1 = graph.requantize %0 {multipliers = array<f32: 1.0, 2.0, 3.0, 4.0>, axis = 1 : i64, zero_point = 0 : i32} : (tensor<1x4x8x8xi32>) -> tensor<1x4x8x8xi8>
  %2 = graph.concat %1, %1 {axis = 1 : i64} : (tensor<1x4x8x8xi8>, tensor<1x4x8x8xi8>) -> tensor<1x8x8x8xi8>
  %3 = graph.slice %2 {starts = array<i64: 0, 0, 3, 0>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x8x8x8xi8>) -> tensor<1x8x5x8xi8>
  %4 = graph.pad %3 {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 0, 2, 0>, value = 0 : i8} : (tensor<1x8x5x8xi8>) -> tensor<1x8x7x8xi8>
  %5 = graph.max_pool %4 {kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nchw"} : (tensor<1x8x7x8xi8>) -> tensor<1x8x7x8xi8>
  return %5 : tensor<1x8x7x8xi8>
}

// Squeeze and excitation: what is 1 x 1 needs no transpose to be multiplied.
// CHECK-LABEL: func.func @excitation
func.func @excitation(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32> {
  // CHECK: %[[A:.*]] = graph.conv
  // CHECK: %[[P:.*]] = graph.average_pool %[[A]]
  // CHECK: %[[B:.*]] = graph.conv %[[P]]
  // CHECK: %[[S:.*]] = graph.sigmoid %[[B]] : tensor<1x1x1x4xf32>
  // CHECK: %[[M:.*]] = graph.mul %[[A]], %[[S]] : (tensor<1x8x8x4xf32>, tensor<1x1x1x4xf32>) -> tensor<1x8x8x4xf32>
  // CHECK: graph.transpose %[[M]]
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.average_pool %0 {kernel = array<i64: 8, 8>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, count_include_pad = false,
    layout = "nchw"} : (tensor<1x4x8x8xf32>) -> tensor<1x4x1x1xf32>
  %2 = graph.conv %1, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x4x1x1xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x1x1xf32>
  %3 = graph.sigmoid %2 : tensor<1x4x1x1xf32>
  %4 = graph.mul %0, %3 : (tensor<1x4x8x8xf32>, tensor<1x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  return %4 : tensor<1x4x8x8xf32>
}

// Rows of the weights change places instead of the image: channel 0 of pixels 0, 1, then channel 1, become pixel by pixel.
// CHECK-LABEL: func.func @flatten
func.func @flatten(%x: tensor<1x2x1x4xf32>) -> tensor<1x1xf32> {
  %w = graph.constant dense<[[1.0], [2.0], [3.0], [4.0]]> : tensor<4x1xf32>
  // CHECK: %[[W:.*]] = graph.constant dense<{{\[\[}}1.000000e+00], [3.000000e+00], [2.000000e+00], [4.000000e+00]]> : tensor<4x1xf32>
  // CHECK: %[[P:.*]] = graph.max_pool
  // CHECK: %[[F:.*]] = graph.reshape %[[P]] : (tensor<1x1x2x2xf32>) -> tensor<1x4xf32>
  // CHECK: graph.matmul %[[F]], %[[W]]
  %0 = graph.max_pool %x {kernel = array<i64: 1, 2>, strides = array<i64: 1, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nchw"} : (tensor<1x2x1x4xf32>) -> tensor<1x2x1x2xf32>
  %1 = graph.reshape %0 : (tensor<1x2x1x2xf32>) -> tensor<1x4xf32>
  %2 = graph.matmul %1, %w : (tensor<1x4xf32>, tensor<4x1xf32>) -> tensor<1x1xf32>
  return %2 : tensor<1x1xf32>
}

// One channel: the image lies in memory as it is wanted.
// CHECK-LABEL: func.func @one_channel
func.func @one_channel(%x: tensor<1x1x8x8xf32>, %w: tensor<1x1x3x3xf32>) -> tensor<1x1x6x6xf32> {
  // CHECK-NOT: graph.transpose %arg0
  // CHECK: graph.reshape %{{.*}} : (tensor<1x1x8x8xf32>) -> tensor<1x8x8x1xf32>
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x1x8x8xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x6x6xf32>
  return %0 : tensor<1x1x6x6xf32>
}

// The transpose that a constant part takes is folded, never sunk: that would transpose the other part back, and so on for ever.
// CHECK-LABEL: func.func @constant_part
func.func @constant_part(%x: tensor<1x5x1x8xf32>) -> tensor<1x5x1x6xf32> {
  // CHECK: %[[K:.*]] = graph.constant dense<{{\[\[\[\[}}1.000000e+00, 3.000000e+00, 5.000000e+00, 7.000000e+00, 9.000000e+00], {{\[}}2.0{{.*}}tensor<1x1x2x5xf32>
  // CHECK: %[[P:.*]] = graph.max_pool %{{.*}} -> tensor<1x1x4x5xf32>
  // CHECK: %[[C:.*]] = graph.concat %[[P]], %[[K]] {axis = 2 : i64} : (tensor<1x1x4x5xf32>, tensor<1x1x2x5xf32>) -> tensor<1x1x6x5xf32>
  // CHECK: graph.max_pool %[[C]]
  %k = graph.constant dense<[[[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]], [[7.0, 8.0]], [[9.0, 0.0]]]]> : tensor<1x5x1x2xf32>
  %0 = graph.max_pool %x {kernel = array<i64: 1, 2>, strides = array<i64: 1, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nchw"} : (tensor<1x5x1x8xf32>) -> tensor<1x5x1x4xf32>
  %1 = graph.concat %0, %k {axis = 3 : i64} : (tensor<1x5x1x4xf32>, tensor<1x5x1x2xf32>) -> tensor<1x5x1x6xf32>
  %2 = graph.max_pool %1 {kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nchw"} : (tensor<1x5x1x6xf32>) -> tensor<1x5x1x6xf32>
  return %2 : tensor<1x5x1x6xf32>
}

// A chain of residual blocks from the function's input: one conversion in, which all readers share, and one out.
// CHECK-LABEL: func.func @residual
// CHECK-SAME: %[[X:.*]]: tensor<1x4x8x8xf32>, %{{.*}}: tensor
func.func @residual(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32> {
  // CHECK: %[[T:.*]] = graph.transpose %[[X]] {graph.conversion = {{[0-9]+}} : i64, perm = array<i64: 0, 2, 3, 1>}
  // CHECK: %[[C0:.*]] = graph.conv %[[T]]
  // CHECK: %[[A0:.*]] = graph.add %[[T]], %[[C0]]
  // CHECK: %[[C1:.*]] = graph.conv %[[A0]]
  // CHECK: %[[A1:.*]] = graph.add %[[A0]], %[[C1]]
  // CHECK: %[[Y:.*]] = graph.transpose %[[A1]] {graph.conversion = {{[0-9]+}} : i64, perm = array<i64: 0, 3, 1, 2>}
  // CHECK: return %[[Y]]
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.add %x, %0 : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %2 = graph.conv %1, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %3 = graph.add %1, %2 : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  return %3 : tensor<1x4x8x8xf32>
}

// A channel shuffle and a doubling of rows keep the channels together: both are done channels last.
// CHECK-LABEL: func.func @reshapes
func.func @reshapes(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<1x4x16x8xf32> {
  // CHECK: %[[C:.*]] = graph.conv
  // CHECK: %[[R:.*]] = graph.reshape %[[C]] : (tensor<1x8x8x4xf32>) -> tensor<1x8x8x2x2xf32>
  // CHECK: %[[T:.*]] = graph.transpose %[[R]] {perm = array<i64: 0, 1, 2, 4, 3>}
  // CHECK: %[[F:.*]] = graph.reshape %[[T]] : (tensor<1x8x8x2x2xf32>) -> tensor<1x8x1x8x4xf32>
  // CHECK: %[[D:.*]] = graph.concat %[[F]], %[[F]] {axis = 2 : i64}
  // CHECK: %[[I:.*]] = graph.reshape %[[D]] : (tensor<1x8x2x8x4xf32>) -> tensor<1x16x8x4xf32>
  // CHECK: graph.max_pool %[[I]]
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.reshape %0 : (tensor<1x4x8x8xf32>) -> tensor<1x2x2x8x8xf32>
  %2 = graph.transpose %1 {perm = array<i64: 0, 2, 1, 3, 4>} : (tensor<1x2x2x8x8xf32>) -> tensor<1x2x2x8x8xf32>
  %3 = graph.reshape %2 : (tensor<1x2x2x8x8xf32>) -> tensor<1x4x8x1x8xf32>
  %4 = graph.concat %3, %3 {axis = 3 : i64} : (tensor<1x4x8x1x8xf32>, tensor<1x4x8x1x8xf32>) -> tensor<1x4x8x2x8xf32>
  %5 = graph.reshape %4 : (tensor<1x4x8x2x8xf32>) -> tensor<1x4x16x8xf32>
  %6 = graph.max_pool %5 {kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nchw"} : (tensor<1x4x16x8xf32>) -> tensor<1x4x16x8xf32>
  return %6 : tensor<1x4x16x8xf32>
}

// The model asks for what lies there already: no transpose is left of its own.
// CHECK-LABEL: func.func @head
func.func @head(%x: tensor<1x4x8x8xf32>, %w: tensor<4x4x1x1xf32>) -> tensor<1x128x2xf32> {
  // CHECK: %[[C:.*]] = graph.conv
  // CHECK-NOT: graph.transpose
  // CHECK: %[[R:.*]] = graph.reshape %[[C]] : (tensor<1x8x8x4xf32>) -> tensor<1x128x2xf32>
  // CHECK: return %[[R]]
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x4x8x8xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x8x8xf32>
  %1 = graph.transpose %0 {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x4x8x8xf32>) -> tensor<1x8x8x4xf32>
  %2 = graph.reshape %1 : (tensor<1x8x8x4xf32>) -> tensor<1x128x2xf32>
  return %2 : tensor<1x128x2xf32>
}

// A pool of the whole image reads the function's input as it lies: a row for each channel of each image.
// CHECK-LABEL: func.func @global_pools
// CHECK-SAME: %[[X:.*]]: tensor<2x32x8x8xf32>
func.func @global_pools(%x: tensor<2x32x8x8xf32>) -> (tensor<2x32x1x1xf32>, tensor<2x32x1x1xf32>) {
  // CHECK-NOT: graph.transpose
  // CHECK: %[[R:.*]] = graph.reshape %[[X]] : (tensor<2x32x8x8xf32>) -> tensor<64x64xf32>
  // CHECK: %[[M:.*]] = graph.reduce %[[R]] {axes = array<i64: 1>, keepdims = false, kind = "mean"} : (tensor<64x64xf32>) -> tensor<64xf32>
  // CHECK: graph.reshape %[[M]] : (tensor<64xf32>) -> tensor<2x32x1x1xf32>
  // CHECK: graph.reduce %{{.*}} {axes = array<i64: 1>, keepdims = false, kind = "max"} : (tensor<64x64xf32>) -> tensor<64xf32>
  %0 = graph.average_pool %x {kernel = array<i64: 8, 8>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, count_include_pad = false,
    layout = "nchw"} : (tensor<2x32x8x8xf32>) -> tensor<2x32x1x1xf32>
  %1 = graph.max_pool %x {kernel = array<i64: 8, 8>, strides = array<i64: 3, 3>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nchw"} : (tensor<2x32x8x8xf32>) -> tensor<2x32x1x1xf32>
  return %0, %1 : tensor<2x32x1x1xf32>, tensor<2x32x1x1xf32>
}

// A window that is padded, or less than the image, is a pool.
// CHECK-LABEL: func.func @no_global_pools
func.func @no_global_pools(%x: tensor<1x32x8x8xf32>) -> (tensor<1x32x3x3xf32>, tensor<1x32x2x1xf32>) {
  // CHECK: graph.transpose
  // CHECK: graph.average_pool %{{.*}} layout = "nhwc"
  // CHECK: graph.average_pool %{{.*}} layout = "nhwc"
  %0 = graph.average_pool %x {kernel = array<i64: 8, 8>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, count_include_pad = false,
    layout = "nchw"} : (tensor<1x32x8x8xf32>) -> tensor<1x32x3x3xf32>
  %1 = graph.average_pool %x {kernel = array<i64: 7, 8>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, count_include_pad = false,
    layout = "nchw"} : (tensor<1x32x8x8xf32>) -> tensor<1x32x2x1xf32>
  return %0, %1 : tensor<1x32x3x3xf32>, tensor<1x32x2x1xf32>
}

// Attention to pixels: reductions behind a convolution take its result as it lies, and what they give joins it again.
// CHECK-LABEL: func.func @reductions
func.func @reductions(%x: tensor<2x16x8x8xf32>, %w: tensor<16x16x1x1xf32>) -> (tensor<2x16x8x8xf32>, tensor<2x8x8xf32>, tensor<16xf32>) {
  // CHECK: %[[C:.*]] = graph.conv
  // CHECK-NOT: graph.transpose
  // CHECK: %[[M:.*]] = graph.reduce %[[C]] {axes = array<i64: 3>, keepdims = true, kind = "mean"} : (tensor<2x8x8x16xf32>) -> tensor<2x8x8x1xf32>
  // CHECK: %[[P:.*]] = graph.mul %[[C]], %[[M]] : (tensor<2x8x8x16xf32>, tensor<2x8x8x1xf32>) -> tensor<2x8x8x16xf32>
  // CHECK: %[[Y:.*]] = graph.transpose %[[P]] {graph.conversion
  // CHECK: %[[A:.*]] = graph.reduce %[[C]] {axes = array<i64: 3>, keepdims = false, kind = "max"} : (tensor<2x8x8x16xf32>) -> tensor<2x8x8xf32>
  // CHECK: %[[S:.*]] = graph.reduce %[[C]] {axes = array<i64: 0, 1, 2>, keepdims = false, kind = "sum"} : (tensor<2x8x8x16xf32>) -> tensor<16xf32>
  // CHECK: return %[[Y]], %[[A]], %[[S]]
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<2x16x8x8xf32>, tensor<16x16x1x1xf32>) -> tensor<2x16x8x8xf32>
  %1 = graph.reduce %0 {kind = "mean", axes = array<i64: 1>, keepdims = true} : (tensor<2x16x8x8xf32>) -> tensor<2x1x8x8xf32>
  %2 = graph.mul %0, %1 : (tensor<2x16x8x8xf32>, tensor<2x1x8x8xf32>) -> tensor<2x16x8x8xf32>
  %3 = graph.reduce %0 {kind = "max", axes = array<i64: 1>, keepdims = false} : (tensor<2x16x8x8xf32>) -> tensor<2x8x8xf32>
  %4 = graph.reduce %0 {kind = "sum", axes = array<i64: 0, 2, 3>, keepdims = false} : (tensor<2x16x8x8xf32>) -> tensor<16xf32>
  return %2, %3, %4 : tensor<2x16x8x8xf32>, tensor<2x8x8xf32>, tensor<16xf32>
}

// What is left of a result without its first dims lies as its operand does.
// CHECK-LABEL: func.func @partly_reduced
func.func @partly_reduced(%x: tensor<4x16x8x8xf32>, %w: tensor<16x16x1x1xf32>) -> tensor<16x8x8xf32> {
  // CHECK: %[[C:.*]] = graph.conv
  // CHECK: %[[S:.*]] = graph.reduce %[[C]] {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<4x8x8x16xf32>) -> tensor<8x8x16xf32>
  // CHECK: graph.transpose %[[S]] {graph.conversion = {{[0-9]+}} : i64, perm = array<i64: 2, 0, 1>} : (tensor<8x8x16xf32>) -> tensor<16x8x8xf32>
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<4x16x8x8xf32>, tensor<16x16x1x1xf32>) -> tensor<4x16x8x8xf32>
  %1 = graph.reduce %0 {kind = "sum", axes = array<i64: 0>, keepdims = false} : (tensor<4x16x8x8xf32>) -> tensor<16x8x8xf32>
  return %1 : tensor<16x8x8xf32>
}

// Windows read floats of 16 bits as they are, reductions do not.
// CHECK-LABEL: func.func @global_pool_of_narrow_floats
func.func @global_pool_of_narrow_floats(%x: tensor<2x32x8x8xbf16>) -> tensor<2x32x1x1xbf16> {
  // CHECK: graph.max_pool %{{.*}} layout = "nhwc"
  // CHECK-NOT: graph.reduce
  %0 = graph.max_pool %x {kernel = array<i64: 8, 8>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nchw"} : (tensor<2x32x8x8xbf16>) -> tensor<2x32x1x1xbf16>
  return %0 : tensor<2x32x1x1xbf16>
}
