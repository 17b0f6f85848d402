// RUN: tilewright-opt %s -graph-convert-qdq -canonicalize | FileCheck %s
// RUN: tilewright-opt %s -graph-convert-qdq=exact=true -canonicalize | FileCheck %s --check-prefix=EXACT

// m[c] = 0.5 * {2, 4} / 8. The relu is the saturation: the zero point is the smallest number.
// CHECK-LABEL: func.func @convolution
// CHECK-SAME: %[[X:.*]]: tensor<1x3x8x8xi8>
// EXACT-LABEL: func.func @convolution
func.func @convolution(%x: tensor<1x3x8x8xi8>) -> tensor<1x2x8x8xi8> {
  // CHECK-DAG: %[[W:.*]] = graph.constant dense<3> : tensor<2x3x1x1xi8>
  // CHECK-DAG: %[[B:.*]] = graph.constant dense<[10, -20]> : tensor<2xi32>
  %w = graph.constant dense<3> : tensor<2x3x1x1xi8>
  %b = graph.constant dense<[10, -20]> : tensor<2xi32>
  %0 = graph.dequantize %x {scales = array<f32: 0.5>, zero_points = array<i32: -7>, axis = 0 : i64} : (tensor<1x3x8x8xi8>) -> tensor<1x3x8x8xf32>
  %1 = graph.dequantize %w {scales = array<f32: 2.0, 4.0>, zero_points = array<i32: 0, 0>, axis = 0 : i64} : (tensor<2x3x1x1xi8>) -> tensor<2x3x1x1xf32>
  %2 = graph.dequantize %b {scales = array<f32: 1.0, 2.0>, zero_points = array<i32: 0, 0>, axis = 0 : i64} : (tensor<2xi32>) -> tensor<2xf32>
  // CHECK: %[[S:.*]] = graph.conv_integer %[[X]], %[[W]] {{.*}}w_zero_points = array<i32: 0>, x_zero_point = -7 : i32
  // CHECK: %[[Y:.*]] = graph.requantize %[[S]], %[[B]] {axis = 1 : i64, multipliers = array<f32: 1.250000e-01, 2.500000e-01>, zero_point = -128 : i32}
  // CHECK: return %[[Y]]
  // EXACT: graph.conv_integer
  // EXACT: graph.add
  // EXACT: graph.dequantize %{{.*}} {axis = 1 : i64, scales = array<f32: 1.000000e+00, 2.000000e+00>
  // EXACT: graph.quantize
  %3 = graph.conv %0, %1, %2 {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x3x8x8xf32>, tensor<2x3x1x1xf32>, tensor<2xf32>) -> tensor<1x2x8x8xf32>
  %4 = graph.relu %3 : tensor<1x2x8x8xf32>
  %5 = graph.quantize %4 {scales = array<f32: 8.0>, zero_points = array<i32: -128>, axis = 0 : i64} : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xi8>
  return %5 : tensor<1x2x8x8xi8>
}

// A bias of 0.3 is no multiple of the accumulator's unit: it stays a float.
// CHECK-LABEL: func.func @float_bias
func.func @float_bias(%x: tensor<1x3x8x8xi8>) -> tensor<1x2x8x8xf32> {
  %w = graph.constant dense<3> : tensor<2x3x1x1xi8>
  // CHECK: %[[B:.*]] = graph.constant dense<{{.*}}> : tensor<2xf32>
  %b = graph.constant dense<[1.0, 0.3]> : tensor<2xf32>
  %0 = graph.dequantize %x {scales = array<f32: 0.5>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<1x3x8x8xi8>) -> tensor<1x3x8x8xf32>
  %1 = graph.dequantize %w {scales = array<f32: 2.0>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<2x3x1x1xi8>) -> tensor<2x3x1x1xf32>
  // CHECK: %[[S:.*]] = graph.conv_integer
  // CHECK: %[[D:.*]] = graph.dequantize %[[S]] {axis = 1 : i64, scales = array<f32: 1.000000e+00>
  // CHECK: %[[C:.*]] = graph.reshape %[[B]] : (tensor<2xf32>) -> tensor<2x1x1xf32>
  // CHECK: graph.add %[[D]], %[[C]]
  %2 = graph.conv %0, %1, %b {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x3x8x8xf32>, tensor<2x3x1x1xf32>, tensor<2xf32>) -> tensor<1x2x8x8xf32>
  return %2 : tensor<1x2x8x8xf32>
}

// A matrix product whose bias is added behind it; a bound of 6 that the type does not give: (6 / 0.5) + 10 = 22.
// CHECK-LABEL: func.func @matmul
func.func @matmul(%x: tensor<4x3xui8>) -> tensor<4x2xui8> {
  %w = graph.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi8>
  // CHECK: %[[B:.*]] = graph.constant dense<[4, 8]> : tensor<2xi32>
  %b = graph.constant dense<[4.0, 8.0]> : tensor<2xf32>
  %0 = graph.dequantize %x {scales = array<f32: 0.5>, zero_points = array<i32: 128>, axis = 0 : i64} : (tensor<4x3xui8>) -> tensor<4x3xf32>
  %1 = graph.dequantize %w {scales = array<f32: 2.0>, zero_points = array<i32: 1>, axis = 0 : i64} : (tensor<3x2xi8>) -> tensor<3x2xf32>
  // CHECK: %[[S:.*]] = graph.matmul_integer %{{.*}}, %{{.*}} {a_zero_point = 128 : i32, b_zero_points = array<i32: 1>}
  // CHECK: %[[R:.*]] = graph.requantize %[[S]], %[[B]] {axis = 1 : i64, multipliers = array<f32: 2.000000e+00>, zero_point = 10 : i32}
  // CHECK: graph.clip %[[R]] {max = 2.200000e+01 : f32, min = 1.000000e+01 : f32} : tensor<4x2xui8>
  %2 = graph.matmul %0, %1 : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %3 = graph.add %2, %b : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %4 = graph.clip %3 {min = 0.0 : f32, max = 6.0 : f32} : tensor<4x2xf32>
  %5 = graph.quantize %4 {scales = array<f32: 0.5>, zero_points = array<i32: 10>, axis = 0 : i64} : (tensor<4x2xf32>) -> tensor<4x2xui8>
  return %5 : tensor<4x2xui8>
}

// Maxima and movements happen on bytes; padding takes the zero point.
// CHECK-LABEL: func.func @movement
// CHECK-SAME: %[[X:.*]]: tensor<1x3x8x8xi8>
func.func @movement(%x: tensor<1x3x8x8xi8>) -> tensor<1x64x4x1xi8> {
  // CHECK: %[[P:.*]] = graph.max_pool %[[X]]
  // CHECK: %[[Q:.*]] = graph.pad %[[P]] {{.*}} value = -7 : i8
  // CHECK: %[[T:.*]] = graph.transpose %[[Q]]
  // CHECK: %[[R:.*]] = graph.reshape %[[T]] : (tensor<1x4x4x16xi8>) -> tensor<1x64x4x1xi8>
  // CHECK: return %[[R]]
  %0 = graph.dequantize %x {scales = array<f32: 0.5>, zero_points = array<i32: -7>, axis = 0 : i64} : (tensor<1x3x8x8xi8>) -> tensor<1x3x8x8xf32>
  %1 = graph.max_pool %0 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nchw"} : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32>
  %2 = graph.pad %1 {low = array<i64: 0, 0, 0, 6>, high = array<i64: 0, 1, 0, 6>, value = 0.0 : f32} : (tensor<1x3x4x4xf32>) -> tensor<1x4x4x16xf32>
  %3 = graph.transpose %2 {perm = array<i64: 0, 2, 1, 3>} : (tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
  %4 = graph.reshape %3 : (tensor<1x4x4x16xf32>) -> tensor<1x64x4x1xf32>
  %5 = graph.quantize %4 {scales = array<f32: 0.5>, zero_points = array<i32: -7>, axis = 0 : i64} : (tensor<1x64x4x1xf32>) -> tensor<1x64x4x1xi8>
  return %5 : tensor<1x64x4x1xi8>
}

// Inputs of other scales are requantised before the concatenation, which then moves bytes.
// CHECK-LABEL: func.func @concat
// CHECK-SAME: %[[A:.*]]: tensor<2xi8>, %[[B:.*]]: tensor<3xi8>
func.func @concat(%a: tensor<2xi8>, %b: tensor<3xi8>) -> tensor<5xi8> {
  // CHECK: %[[D:.*]] = graph.dequantize %[[B]]
  // CHECK: %[[Q:.*]] = graph.quantize %[[D]]
  // CHECK: graph.concat %[[A]], %[[Q]] {axis = 0 : i64} : (tensor<2xi8>, tensor<3xi8>) -> tensor<5xi8>
  %0 = graph.dequantize %a {scales = array<f32: 0.5>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<2xi8>) -> tensor<2xf32>
  %1 = graph.dequantize %b {scales = array<f32: 0.25>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<3xi8>) -> tensor<3xf32>
  %2 = graph.concat %0, %1 {axis = 0 : i64} : (tensor<2xf32>, tensor<3xf32>) -> tensor<5xf32>
  %3 = graph.quantize %2 {scales = array<f32: 0.5>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<5xf32>) -> tensor<5xi8>
  return %3 : tensor<5xi8>
}

// CHECK-LABEL: func.func @global_average
func.func @global_average(%x: tensor<1x3x8x8xi8>) -> tensor<1x3x1x1xi8> {
  // CHECK-NOT: graph.dequantize
  // CHECK: graph.qlinear_global_average_pool %{{.*}} {layout = "nchw", x_scale = 5.000000e-01 : f32, x_zero_point = -7 : i32, y_scale = 2.500000e-01 : f32, y_zero_point = 3 : i32}
  %0 = graph.dequantize %x {scales = array<f32: 0.5>, zero_points = array<i32: -7>, axis = 0 : i64} : (tensor<1x3x8x8xi8>) -> tensor<1x3x8x8xf32>
  %1 = graph.average_pool %0 {kernel = array<i64: 8, 8>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, count_include_pad = false,
    layout = "nchw"} : (tensor<1x3x8x8xf32>) -> tensor<1x3x1x1xf32>
  %2 = graph.quantize %1 {scales = array<f32: 0.25>, zero_points = array<i32: 3>, axis = 0 : i64} : (tensor<1x3x1x1xf32>) -> tensor<1x3x1x1xi8>
  return %2 : tensor<1x3x1x1xi8>
}

// An addition stays float between its dequantize and quantize.
// CHECK-LABEL: func.func @add
func.func @add(%a: tensor<4xi8>, %b: tensor<4xi8>) -> tensor<4xi8> {
  // CHECK-COUNT-2: graph.dequantize
  // CHECK: graph.add
  // CHECK: graph.quantize
  %0 = graph.dequantize %a {scales = array<f32: 0.5>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<4xi8>) -> tensor<4xf32>
  %1 = graph.dequantize %b {scales = array<f32: 0.25>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<4xi8>) -> tensor<4xf32>
  %2 = graph.add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = graph.quantize %2 {scales = array<f32: 0.5>, zero_points = array<i32: 0>, axis = 0 : i64} : (tensor<4xf32>) -> tensor<4xi8>
  return %3 : tensor<4xi8>
}
