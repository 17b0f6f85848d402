// RUN: tilewright-opt %s -graph-decompose-ops | FileCheck %s
// RUN: tilewright-opt %s "-graph-decompose-ops=keep-axes=true" | FileCheck %s --check-prefix=KEEP

// CHECK-LABEL: func.func @reductions
// KEEP-LABEL: func.func @reductions
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4x5xf32>
func.func @reductions(%x: tensor<2x3x4x5xf32>) -> (tensor<2x3xf32>, tensor<2x1x1x5xf32>, tensor<3x4xf32>) {
  // Before layouts are chosen the mean of an image is a pool, and the others stay as they are.
  // KEEP: %[[P:.*]] = graph.average_pool %{{.*}} {count_include_pad = false, kernel = array<i64: 4, 5>
  // KEEP: graph.reshape %[[P]] : (tensor<2x3x1x1xf32>) -> tensor<2x3xf32>
  // KEEP: graph.reduce %{{.*}} {axes = array<i64: 1, 2>
  // KEEP: graph.reduce %{{.*}} {axes = array<i64: 0, 3>
  %0 = graph.reduce %x {kind = "mean", axes = array<i64: 2, 3>, keepdims = false} : (tensor<2x3x4x5xf32>) -> tensor<2x3xf32>
  // CHECK: %[[F:.*]] = graph.reshape %[[X]] : (tensor<2x3x4x5xf32>) -> tensor<2x12x5xf32>
  // CHECK: %[[S:.*]] = graph.reduce %[[F]] {axes = array<i64: 1>, keepdims = false, kind = "sum"} : (tensor<2x12x5xf32>) -> tensor<2x5xf32>
  // CHECK: graph.reshape %[[S]] : (tensor<2x5xf32>) -> tensor<2x1x1x5xf32>
  %1 = graph.reduce %x {kind = "sum", axes = array<i64: 1, 2>, keepdims = true} : (tensor<2x3x4x5xf32>) -> tensor<2x1x1x5xf32>
  // Axes apart come together at the end.
  // CHECK: %[[T:.*]] = graph.transpose %[[X]] {perm = array<i64: 1, 2, 0, 3>}
  // CHECK: %[[G:.*]] = graph.reshape %[[T]] : (tensor<3x4x2x5xf32>) -> tensor<12x10xf32>
  // CHECK: graph.reduce %[[G]] {{.*}} : (tensor<12x10xf32>) -> tensor<12xf32>
  %2 = graph.reduce %x {kind = "max", axes = array<i64: 0, 3>, keepdims = false} : (tensor<2x3x4x5xf32>) -> tensor<3x4xf32>
  return %0, %1, %2 : tensor<2x3xf32>, tensor<2x1x1x5xf32>, tensor<3x4xf32>
}

// The mean of rows is a sum and a division.
// CHECK-LABEL: func.func @row_mean
func.func @row_mean(%x: tensor<2x3x4xf32>) -> tensor<2x3x1xf32> {
  // CHECK-DAG: %[[N:.*]] = graph.constant dense<4.000000e+00> : tensor<1xf32>
  // CHECK-DAG: %[[F:.*]] = graph.reshape %{{.*}} : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  // CHECK: %[[S:.*]] = graph.reduce %[[F]] {{.*}}kind = "sum"} : (tensor<6x4xf32>) -> tensor<6xf32>
  // CHECK: graph.div %[[S]], %[[N]]
  %0 = graph.reduce %x {kind = "mean", axes = array<i64: 2>, keepdims = true} : (tensor<2x3x4xf32>) -> tensor<2x3x1xf32>
  return %0 : tensor<2x3x1xf32>
}

// CHECK-LABEL: func.func @layer_norm
func.func @layer_norm(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  // CHECK: %[[F:.*]] = graph.reshape %{{.*}} : (tensor<2x3x4xf32>) -> tensor<2x12xf32>
  // CHECK: %[[Y:.*]] = graph.layer_norm %[[F]] {axis = 1 : i64, epsilon = 5.000000e-01 : f32}
  // CHECK: graph.reshape %[[Y]] : (tensor<2x12xf32>) -> tensor<2x3x4xf32>
  %0 = graph.layer_norm %x {axis = 1 : i64, epsilon = 0.5 : f32} : tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// A value that two ops read through one reshape: both work on it as it is.
// CHECK-LABEL: func.func @reshape_read_twice
func.func @reshape_read_twice(%x: tensor<1x2x3xf32>, %w: tensor<3x4xf32>) -> tensor<1x2x4xf32> {
  // CHECK: %[[M:.*]] = graph.matmul %{{.*}} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  // CHECK: %[[E:.*]] = graph.erf %[[M]] : tensor<2x4xf32>
  // CHECK: graph.mul %[[M]], %[[E]] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %0 = graph.matmul %x, %w : (tensor<1x2x3xf32>, tensor<3x4xf32>) -> tensor<1x2x4xf32>
  %1 = graph.erf %0 : tensor<1x2x4xf32>
  %2 = graph.mul %0, %1 : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  return %2 : tensor<1x2x4xf32>
}

// A dequantised tensor is read in the shape of what it is added to.
// CHECK-LABEL: func.func @residual
func.func @residual(%x: tensor<1x2x3xf32>, %w: tensor<3x4xf32>, %r: tensor<1x2x4xi8>) -> tensor<1x2x4xf32> {
  // CHECK-DAG: %[[M:.*]] = graph.matmul
  // CHECK-DAG: %[[D:.*]] = graph.dequantize
  // CHECK: %[[R:.*]] = graph.reshape %[[D]] : (tensor<1x2x4xf32>) -> tensor<2x4xf32>
  // CHECK: graph.add %[[M]], %[[R]]
  %0 = graph.matmul %x, %w : (tensor<1x2x3xf32>, tensor<3x4xf32>) -> tensor<1x2x4xf32>
  %1 = graph.dequantize %r {scales = array<f32: 0.5>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<1x2x4xi8>) -> tensor<1x2x4xf32>
  %2 = graph.add %0, %1 : (tensor<1x2x4xf32>, tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  return %2 : tensor<1x2x4xf32>
}

// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  // CHECK: %[[T:.*]] = graph.transpose %{{.*}} {perm = array<i64: 0, 2, 1>}
  // CHECK: %[[F:.*]] = graph.reshape %[[T]] : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
  // CHECK: %[[S:.*]] = graph.softmax %[[F]] {axis = 1 : i64} : tensor<8x3xf32>
  // CHECK: %[[R:.*]] = graph.reshape %[[S]] : (tensor<8x3xf32>) -> tensor<2x4x3xf32>
  // CHECK: graph.transpose %[[R]] {perm = array<i64: 0, 2, 1>}
  %0 = graph.softmax %x {axis = 1 : i64} : tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// Of products it keeps the batch.
// CHECK-LABEL: func.func @softmax_of_products
func.func @softmax_of_products(%x: tensor<1x2x3x4xf32>, %y: tensor<1x2x4x5xf32>) -> tensor<1x2x3x5xf32> {
  // CHECK: graph.softmax %{{.*}} {axis = 2 : i64} : tensor<2x3x5xf32>
  %0 = graph.matmul %x, %y : (tensor<1x2x3x4xf32>, tensor<1x2x4x5xf32>) -> tensor<1x2x3x5xf32>
  %1 = graph.softmax %0 {axis = 3 : i64} : tensor<1x2x3x5xf32>
  return %1 : tensor<1x2x3x5xf32>
}

// Below opset 13 the dims from the axis on are one vector. floor(1 / 0.00390625) = 256.
// CHECK-LABEL: func.func @qlinear_softmax
func.func @qlinear_softmax(%x: tensor<2x3x4xui8>) -> tensor<2x3x4xui8> {
  // CHECK: %[[C:.*]] = graph.constant dense<2.560000e+02> : tensor<1xf32>
  // CHECK: %[[F:.*]] = graph.reshape %{{.*}} : (tensor<2x3x4xui8>) -> tensor<2x12xui8>
  // CHECK: %[[D:.*]] = graph.dequantize %[[F]] {axis = 0 : i64, scales = array<f32: 1.250000e-01>, zero_points = array<i32: 142>}
  // CHECK: %[[S:.*]] = graph.softmax %[[D]] {axis = 1 : i64}
  // CHECK: %[[M:.*]] = graph.mul %[[S]], %[[C]]
  // CHECK: graph.quantize %[[M]] {axis = 0 : i64, scales = array<f32: 1.000000e+00>, zero_points = array<i32: 5>}
  %0 = graph.qlinear_softmax %x {axis = 1 : i64, opset = 12 : i64, x_scale = 0.125 : f32, x_zero_point = 142 : i32,
    y_scale = 0.00390625 : f32, y_zero_point = 5 : i32} : tensor<2x3x4xui8>
  return %0 : tensor<2x3x4xui8>
}

// CHECK-LABEL: func.func @qlinear_average_pool
func.func @qlinear_average_pool(%x: tensor<1x3x8x8xui8>) -> (tensor<1x3x4x4xui8>, tensor<1x3x1x1xui8>) {
  // The zero point is added before the rounding.
  // CHECK-DAG: %[[S:.*]] = graph.constant dense<2.500000e-01> : tensor<1xf32>
  // CHECK-DAG: %[[Z:.*]] = graph.constant dense<3.000000e+00> : tensor<1xf32>
  // CHECK: %[[D:.*]] = graph.dequantize
  // CHECK: %[[P:.*]] = graph.average_pool %[[D]]
  // CHECK: %[[V:.*]] = graph.div %[[P]], %[[S]]
  // CHECK: %[[A:.*]] = graph.add %[[V]], %[[Z]]
  // CHECK: graph.quantize %[[A]] {axis = 0 : i64, scales = array<f32: 1.000000e+00>, zero_points = array<i32: 0>}
  %0 = graph.qlinear_average_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
    count_include_pad = false, x_scale = 0.5 : f32, x_zero_point = 7 : i32, y_scale = 0.25 : f32, y_zero_point = 3 : i32, layout = "nchw"}
    : (tensor<1x3x8x8xui8>) -> tensor<1x3x4x4xui8>
  // CHECK: graph.qlinear_global_average_pool
  %1 = graph.qlinear_average_pool %x {kernel = array<i64: 8, 8>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    count_include_pad = false, x_scale = 0.5 : f32, x_zero_point = 7 : i32, y_scale = 0.25 : f32, y_zero_point = 3 : i32, layout = "nchw"}
    : (tensor<1x3x8x8xui8>) -> tensor<1x3x1x1xui8>
  return %0, %1 : tensor<1x3x4x4xui8>, tensor<1x3x1x1xui8>
}

// CHECK-LABEL: func.func @matmuls
func.func @matmuls(%a: tensor<2x3x4xf32>, %b: tensor<4x5xf32>, %v: tensor<4xf32>, %c: tensor<2x6x3x4xf32>, %d: tensor<2x6x4x5xf32>)
    -> (tensor<2x3x5xf32>, tensor<5xf32>, tensor<2x6x3x5xf32>) {
  // CHECK: graph.matmul %{{.*}}, %{{.*}} : (tensor<6x4xf32>, tensor<4x5xf32>) -> tensor<6x5xf32>
  %0 = graph.matmul %a, %b : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  // CHECK: graph.matmul %{{.*}}, %{{.*}} : (tensor<1x4xf32>, tensor<4x5xf32>) -> tensor<1x5xf32>
  %1 = graph.matmul %v, %b : (tensor<4xf32>, tensor<4x5xf32>) -> tensor<5xf32>
  // CHECK: graph.matmul %{{.*}}, %{{.*}} : (tensor<12x3x4xf32>, tensor<12x4x5xf32>) -> tensor<12x3x5xf32>
  %2 = graph.matmul %c, %d : (tensor<2x6x3x4xf32>, tensor<2x6x4x5xf32>) -> tensor<2x6x3x5xf32>
  return %0, %1, %2 : tensor<2x3x5xf32>, tensor<5xf32>, tensor<2x6x3x5xf32>
}

// 1 - 1, 2 - (-2), 3 - 1, 4 - (-2) fit int8; 127 - (-1) does not, and the zero points are multiplied by themselves.
// CHECK-LABEL: func.func @weight_zero_points
func.func @weight_zero_points(%a: tensor<3x2xi8>) -> (tensor<3x2xi32>, tensor<3x2xi32>) {
  %b = graph.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  // CHECK-DAG: %[[B:.*]] = graph.constant dense<{{\[\[}}0, 4], [2, 6]]> : tensor<2x2xi8>
  // CHECK-DAG: %[[C:.*]] = graph.constant dense<{{\[\[}}127, -128], [3, 4]]> : tensor<2x2xi8>
  // CHECK-DAG: %[[Z:.*]] = graph.constant dense<{{\[\[}}-1, 0], [-1, 0]]> : tensor<2x2xi8>
  // CHECK: graph.matmul_integer %{{.*}}, %[[B]] {a_zero_point = 5 : i32, b_zero_points = array<i32: 0>}
  %0 = graph.matmul_integer %a, %b {a_zero_point = 5 : i32, b_zero_points = array<i32: 1, -2>} : (tensor<3x2xi8>, tensor<2x2xi8>) -> tensor<3x2xi32>
  %c = graph.constant dense<[[127, -128], [3, 4]]> : tensor<2x2xi8>
  // CHECK: %[[WHOLE:.*]] = graph.matmul_integer %{{.*}}, %[[C]] {a_zero_point = 5 : i32, b_zero_points = array<i32: 0>}
  // CHECK: %[[PART:.*]] = graph.matmul_integer %{{.*}}, %[[Z]] {a_zero_point = 5 : i32, b_zero_points = array<i32: 0>}
  // CHECK: graph.sub %[[WHOLE]], %[[PART]]
  %1 = graph.matmul_integer %a, %c {a_zero_point = 5 : i32, b_zero_points = array<i32: -1, 0>} : (tensor<3x2xi8>, tensor<2x2xi8>) -> tensor<3x2xi32>
  return %0, %1 : tensor<3x2xi32>, tensor<3x2xi32>
}

// CHECK-LABEL: func.func @movement
// CHECK-SAME: %[[X:.*]]: tensor<1x2x9x9xf32>
func.func @movement(%x: tensor<1x2x9x9xf32>, %w: tensor<4x2x3x3xf32>) -> (tensor<1x4x11x12xf32>, tensor<1x2x2x9xf32>, tensor<1x6x9x9xf32>) {
  // CHECK: graph.conv %[[X]], %{{.*}} {{.*}}pads = array<i64: 1, 2, 3, 3>
  %0 = graph.pad %x {low = array<i64: 0, 0, 1, 1>, high = array<i64: 0, 0, 2, 2>, value = 0.0 : f32} : (tensor<1x2x9x9xf32>) -> tensor<1x2x12x12xf32>
  %1 = graph.conv %0, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 1, 1, 1>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x2x12x12xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x11x12xf32>
  // 1 + 2 * 1 = 3, steps of 4.
  // CHECK: graph.slice %[[X]] {starts = array<i64: 0, 0, 3, 0>, steps = array<i64: 1, 1, 4, 1>} : (tensor<1x2x9x9xf32>) -> tensor<1x2x2x9xf32>
  %2 = graph.slice %x {starts = array<i64: 0, 0, 1, 0>, steps = array<i64: 1, 1, 2, 1>} : (tensor<1x2x9x9xf32>) -> tensor<1x2x4x9xf32>
  %3 = graph.slice %2 {starts = array<i64: 0, 0, 1, 0>, steps = array<i64: 1, 1, 2, 1>} : (tensor<1x2x4x9xf32>) -> tensor<1x2x2x9xf32>
  // CHECK: graph.concat %[[X]], %[[X]], %[[X]] {axis = 1 : i64}
  %4 = graph.concat %x, %x {axis = 1 : i64} : (tensor<1x2x9x9xf32>, tensor<1x2x9x9xf32>) -> tensor<1x4x9x9xf32>
  %5 = graph.concat %4, %x {axis = 1 : i64} : (tensor<1x4x9x9xf32>, tensor<1x2x9x9xf32>) -> tensor<1x6x9x9xf32>
  return %1, %3, %5 : tensor<1x4x11x12xf32>, tensor<1x2x2x9xf32>, tensor<1x6x9x9xf32>
}

// What follows a computation comes before the reshape of its result.
// CHECK-LABEL: func.func @sink_reshape
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>, %[[R:.*]]: tensor<2x3x5xf32>
func.func @sink_reshape(%x: tensor<2x3x4xf32>, %r: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %w = graph.constant dense<1.0> : tensor<4x5xf32>
  %b = graph.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xf32>
  // CHECK: %[[M:.*]] = graph.matmul {{.*}} -> tensor<6x5xf32>
  // CHECK: %[[A:.*]] = graph.add %[[M]], %{{.*}} : (tensor<6x5xf32>, tensor<5xf32>) -> tensor<6x5xf32>
  // CHECK: %[[S:.*]] = graph.reshape %[[R]] : (tensor<2x3x5xf32>) -> tensor<6x5xf32>
  // CHECK: %[[B:.*]] = graph.add %[[A]], %[[S]] : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
  // CHECK: graph.reshape %[[B]] : (tensor<6x5xf32>) -> tensor<2x3x5xf32>
  %0 = graph.matmul %x, %w : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  %1 = graph.add %0, %b : (tensor<2x3x5xf32>, tensor<5xf32>) -> tensor<2x3x5xf32>
  %2 = graph.add %1, %r : (tensor<2x3x5xf32>, tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  return %2 : tensor<2x3x5xf32>
}

// The vector varies along a dim that the reshape makes: it stays behind.
// CHECK-LABEL: func.func @reshape_stays
func.func @reshape_stays(%x: tensor<6x5xf32>) -> tensor<2x3x5xf32> {
  %c = graph.constant dense<[[1.0], [2.0], [3.0]]> : tensor<3x1xf32>
  // CHECK: graph.exp
  // CHECK: graph.reshape
  // CHECK: graph.mul {{.*}} -> tensor<2x3x5xf32>
  %0 = graph.exp %x : tensor<6x5xf32>
  %1 = graph.reshape %0 : (tensor<6x5xf32>) -> tensor<2x3x5xf32>
  %2 = graph.mul %1, %c : (tensor<2x3x5xf32>, tensor<3x1xf32>) -> tensor<2x3x5xf32>
  return %2 : tensor<2x3x5xf32>
}

// What is padded with is the zero point: it contributes nothing, and the convolution pads. Another value stays.
// CHECK-LABEL: func.func @integer_pad
// CHECK-SAME: %[[X:.*]]: tensor<1x9x9x2xi8>
func.func @integer_pad(%x: tensor<1x9x9x2xi8>, %w: tensor<3x3x2x4xi8>) -> (tensor<1x8x8x4xi32>, tensor<1x8x8x4xi32>) {
  // CHECK: graph.conv_integer %[[X]], %{{.*}} {{.*}}pads = array<i64: 0, 0, 1, 1>
  // CHECK: %[[P:.*]] = graph.pad %[[X]]
  // CHECK: graph.conv_integer %[[P]], %{{.*}} {{.*}}pads = array<i64: 0, 0, 0, 0>
  %0 = graph.pad %x {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 1, 1, 0>, value = -128 : i8} : (tensor<1x9x9x2xi8>) -> tensor<1x10x10x2xi8>
  %1 = graph.conv_integer %0, %w {x_zero_point = -128 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x10x10x2xi8>, tensor<3x3x2x4xi8>) -> tensor<1x8x8x4xi32>
  %2 = graph.pad %x {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 1, 1, 0>, value = 0 : i8} : (tensor<1x9x9x2xi8>) -> tensor<1x10x10x2xi8>
  %3 = graph.conv_integer %2, %w {x_zero_point = -128 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x10x10x2xi8>, tensor<3x3x2x4xi8>) -> tensor<1x8x8x4xi32>
  return %1, %3 : tensor<1x8x8x4xi32>, tensor<1x8x8x4xi32>
}

// The same for bytes without sign.
// CHECK-LABEL: func.func @unsigned_pad
// CHECK-SAME: %[[X:.*]]: tensor<1x9x9x2xui8>
func.func @unsigned_pad(%x: tensor<1x9x9x2xui8>, %w: tensor<3x3x2x4xi8>) -> tensor<1x8x8x4xi32> {
  // CHECK: graph.conv_integer %[[X]], %{{.*}} {{.*}}pads = array<i64: 1, 1, 0, 0>
  %0 = graph.pad %x {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 0, 0, 0>, value = 200 : ui8} : (tensor<1x9x9x2xui8>) -> tensor<1x10x10x2xui8>
  %1 = graph.conv_integer %0, %w {x_zero_point = 200 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x10x10x2xui8>, tensor<3x3x2x4xi8>) -> tensor<1x8x8x4xi32>
  return %1 : tensor<1x8x8x4xi32>
}

// The axis of a softmax becomes the last one, the others keep their order: with channels last nothing is left to move.
// CHECK-LABEL: func.func @softmax_of_channels
func.func @softmax_of_channels(%x: tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32> {
  // CHECK: graph.transpose %{{.*}} {perm = array<i64: 0, 2, 3, 1>} : (tensor<2x3x4x5xf32>) -> tensor<2x4x5x3xf32>
  // CHECK: graph.softmax %{{.*}} {axis = 1 : i64} : tensor<40x3xf32>
  // CHECK: graph.transpose %{{.*}} {perm = array<i64: 0, 3, 1, 2>} : (tensor<2x4x5x3xf32>) -> tensor<2x3x4x5xf32>
  %0 = graph.softmax %x {axis = 1 : i64} : tensor<2x3x4x5xf32>
  return %0 : tensor<2x3x4x5xf32>
}

// Axes with others between them move together, by one transpose with what lies in front.
// CHECK-LABEL: func.func @apart
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>
func.func @apart(%x: tensor<2x3x4xf32>) -> tensor<3xf32> {
  // CHECK: %[[T:.*]] = graph.transpose %[[X]] {perm = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  // CHECK: %[[F:.*]] = graph.reshape %[[T]] : (tensor<3x4x2xf32>) -> tensor<3x8xf32>
  // CHECK: graph.reduce %[[F]] {axes = array<i64: 1>
  %0 = graph.transpose %x {perm = array<i64: 2, 1, 0>} : (tensor<2x3x4xf32>) -> tensor<4x3x2xf32>
  %1 = graph.reduce %0 {kind = "sum", axes = array<i64: 0, 2>, keepdims = false} : (tensor<4x3x2xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}

// CHECK-LABEL: func.func @apart_but_for_ones
// KEEP-LABEL: func.func @apart_but_for_ones
func.func @apart_but_for_ones(%x: tensor<2x1x4xf32>) -> tensor<1xf32> {
  // CHECK-NOT: graph.transpose
  // CHECK: graph.reduce %{{.*}} : (tensor<1x8xf32>) -> tensor<1xf32>
  // KEEP: graph.reduce %{{.*}} {axes = array<i64: 0, 2>, keepdims = false, kind = "sum"} : (tensor<2x1x4xf32>) -> tensor<1xf32>
  %0 = graph.reduce %x {kind = "sum", axes = array<i64: 0, 2>, keepdims = false} : (tensor<2x1x4xf32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}

// Two queries of each group have the same keys: they are rows of one product, and the keys are not repeated.
// CHECK-LABEL: func.func @grouped
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x1x8xf32>, %[[K:.*]]: tensor<1x2x5x8xf32>
// CHECK-NOT: graph.mul
// CHECK-DAG: %[[A:.*]] = graph.reshape %[[Q]] : (tensor<1x4x1x8xf32>) -> tensor<2x2x8xf32>
// CHECK-DAG: %[[B:.*]] = graph.transpose {{.*}} -> tensor<1x2x8x5xf32>
// CHECK: graph.matmul {{.*}} : (tensor<2x2x8xf32>, tensor<2x8x5xf32>) -> tensor<2x2x5xf32>
func.func @grouped(%q: tensor<1x4x1x8xf32>, %k: tensor<1x2x5x8xf32>) -> tensor<1x4x1x5xf32> {
  %ones = graph.constant dense<1.0> : tensor<1x2x2x5x8xf32>
  %0 = graph.reshape %k : (tensor<1x2x5x8xf32>) -> tensor<1x2x1x5x8xf32>
  %1 = graph.mul %0, %ones : (tensor<1x2x1x5x8xf32>, tensor<1x2x2x5x8xf32>) -> tensor<1x2x2x5x8xf32>
  %2 = graph.reshape %1 : (tensor<1x2x2x5x8xf32>) -> tensor<1x4x5x8xf32>
  %3 = graph.transpose %2 {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x4x5x8xf32>) -> tensor<1x4x8x5xf32>
  %4 = graph.matmul %q, %3 : (tensor<1x4x1x8xf32>, tensor<1x4x8x5xf32>) -> tensor<1x4x1x5xf32>
  return %4 : tensor<1x4x1x5xf32>
}

// The same of bytes that a Concat repeats. Not where all matrices come again behind the last one, nor where each number of a row is repeated.
// CHECK-LABEL: func.func @repeated
// CHECK: graph.matmul_integer {{.*}} : (tensor<2x2x5xi8>, tensor<2x5x8xi8>) -> tensor<2x2x8xi32>
// CHECK: graph.matmul_integer {{.*}} : (tensor<4x1x5xi8>, tensor<4x5x8xi8>) -> tensor<4x1x8xi32>
// CHECK: graph.matmul_integer {{.*}} : (tensor<2x1x5xi8>, tensor<2x5x16xi8>) -> tensor<2x1x16xi32>
func.func @repeated(%p: tensor<4x1x5xi8>, %r: tensor<2x1x5xi8>, %v: tensor<2x1x5x8xi8>, %w: tensor<1x2x5x8xi8>, %u: tensor<2x5x8x1xi8>)
    -> (tensor<4x1x8xi32>, tensor<4x1x8xi32>, tensor<2x1x16xi32>) {
  %0 = graph.concat %v, %v {axis = 1 : i64} : (tensor<2x1x5x8xi8>, tensor<2x1x5x8xi8>) -> tensor<2x2x5x8xi8>
  %1 = graph.reshape %0 : (tensor<2x2x5x8xi8>) -> tensor<4x5x8xi8>
  %2 = graph.matmul_integer %p, %1 {a_zero_point = 0 : i32, b_zero_points = array<i32: 0>} : (tensor<4x1x5xi8>, tensor<4x5x8xi8>) -> tensor<4x1x8xi32>
  %3 = graph.concat %w, %w {axis = 0 : i64} : (tensor<1x2x5x8xi8>, tensor<1x2x5x8xi8>) -> tensor<2x2x5x8xi8>
  %4 = graph.reshape %3 : (tensor<2x2x5x8xi8>) -> tensor<4x5x8xi8>
  %5 = graph.matmul_integer %p, %4 {a_zero_point = 0 : i32, b_zero_points = array<i32: 0>} : (tensor<4x1x5xi8>, tensor<4x5x8xi8>) -> tensor<4x1x8xi32>
  %6 = graph.concat %u, %u {axis = 3 : i64} : (tensor<2x5x8x1xi8>, tensor<2x5x8x1xi8>) -> tensor<2x5x8x2xi8>
  %7 = graph.reshape %6 : (tensor<2x5x8x2xi8>) -> tensor<2x5x16xi8>
  %8 = graph.matmul_integer %r, %7 {a_zero_point = 0 : i32, b_zero_points = array<i32: 0>} : (tensor<2x1x5xi8>, tensor<2x5x16xi8>) -> tensor<2x1x16xi32>
  return %2, %5, %8 : tensor<4x1x8xi32>, tensor<4x1x8xi32>, tensor<2x1x16xi32>
}

// A tensor between constants of one number is padded. Not where the numbers differ, nor where there are two tensors.
// CHECK-LABEL: func.func @padded
// CHECK-SAME: %[[X:.*]]: tensor<1x2x2x3xf32>
// CHECK: graph.pad %[[X]] {high = array<i64: 0, 0, 0, 4>, low = array<i64: 0, 0, 0, 1>, value = 0.000000e+00 : f32}
// CHECK: graph.concat
// CHECK: graph.concat
func.func @padded(%x: tensor<1x2x2x3xf32>) -> (tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>, tensor<1x2x2x7xf32>) {
  %one = graph.constant dense<0.0> : tensor<1x2x2x1xf32>
  %four = graph.constant dense<0.0> : tensor<1x2x2x4xf32>
  %other = graph.constant dense<1.0> : tensor<1x2x2x4xf32>
  %0 = graph.concat %one, %x, %four {axis = 3 : i64} : (tensor<1x2x2x1xf32>, tensor<1x2x2x3xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x8xf32>
  %1 = graph.concat %one, %x, %other {axis = 3 : i64} : (tensor<1x2x2x1xf32>, tensor<1x2x2x3xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x2x8xf32>
  %2 = graph.concat %x, %one, %x {axis = 3 : i64} : (tensor<1x2x2x3xf32>, tensor<1x2x2x1xf32>, tensor<1x2x2x3xf32>) -> tensor<1x2x2x7xf32>
  return %0, %1, %2 : tensor<1x2x2x8xf32>, tensor<1x2x2x8xf32>, tensor<1x2x2x7xf32>
}
