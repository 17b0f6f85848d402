// RUN: tilewright-opt %s -graph-convert-layout -canonicalize | FileCheck %s

// [0 1 2 3] becomes [0 2 1 3]: the rows of the weights behind change places, as do constants and depthwise taps between.
// CHECK-LABEL: func.func @shuffle
// CHECK-SAME: %[[X:.*]]: tensor<1x2x2x4xf32>
func.func @shuffle(%x: tensor<1x2x2x4xf32>) -> tensor<1x2x2x1xf32> {
  %k = graph.constant dense<[10.0, 20.0, 30.0, 40.0]> : tensor<4xf32>
  %d = graph.constant dense<[[[[1.0, 2.0, 3.0, 4.0]]]]> : tensor<1x1x1x4xf32>
  %w = graph.constant dense<[[[[5.0], [6.0], [7.0], [8.0]]]]> : tensor<1x1x4x1xf32>
  // CHECK-DAG: %[[K:.*]] = graph.constant dense<[1.000000e+01, 3.000000e+01, 2.000000e+01, 4.000000e+01]> : tensor<4xf32>
  // CHECK-DAG: %[[D:.*]] = graph.constant dense<{{.*}}1.000000e+00, 3.000000e+00, 2.000000e+00, 4.000000e+00{{.*}}> : tensor<1x1x1x4xf32>
  // CHECK-DAG: %[[W:.*]] = graph.constant dense<{{.*}}5.000000e+00], [7.000000e+00], [6.000000e+00], [8.000000e+00]{{.*}}> : tensor<1x1x4x1xf32>
  // CHECK: %[[A:.*]] = graph.add %[[X]], %[[K]]
  // CHECK: %[[E:.*]] = graph.conv %[[A]], %[[D]]
  // CHECK: %[[Y:.*]] = graph.conv %[[E]], %[[W]]
  // CHECK: return %[[Y]]
  %0 = graph.reshape %x : (tensor<1x2x2x4xf32>) -> tensor<1x2x2x2x2xf32>
  %1 = graph.transpose %0 {perm = array<i64: 0, 1, 2, 4, 3>} : (tensor<1x2x2x2x2xf32>) -> tensor<1x2x2x2x2xf32>
  %2 = graph.reshape %1 : (tensor<1x2x2x2x2xf32>) -> tensor<1x2x2x4xf32>
  %3 = graph.add %2, %k : (tensor<1x2x2x4xf32>, tensor<4xf32>) -> tensor<1x2x2x4xf32>
  %4 = graph.conv %3, %d {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 4 : i64, layout = "nhwc"} : (tensor<1x2x2x4xf32>, tensor<1x1x1x4xf32>) -> tensor<1x2x2x4xf32>
  %5 = graph.conv %4, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nhwc"} : (tensor<1x2x2x4xf32>, tensor<1x1x4x1xf32>) -> tensor<1x2x2x1xf32>
  return %5 : tensor<1x2x2x1xf32>
}

// Halves of a shuffle, as ShuffleNetV2 has them: runs of what lies there. [0 3 1 4 2 5]: the first half is 0 1 and 3, the second 2 and 4 5.
// CHECK-LABEL: func.func @halves
// CHECK-SAME: %[[X:.*]]: tensor<1x2x2x6xf32>
func.func @halves(%x: tensor<1x2x2x6xf32>) -> tensor<1x2x2x2xf32> {
  %w = graph.constant dense<[[[[1.0], [2.0], [3.0]]]]> : tensor<1x1x3x1xf32>
  // CHECK-DAG: %[[V:.*]] = graph.constant dense<{{.*}}1.000000e+00], [3.000000e+00], [2.000000e+00]{{.*}}> : tensor<1x1x3x1xf32>
  // CHECK-DAG: %[[W:.*]] = graph.constant dense<{{.*}}2.000000e+00], [1.000000e+00], [3.000000e+00]{{.*}}> : tensor<1x1x3x1xf32>
  // CHECK: %[[A:.*]] = graph.slice %[[X]] {starts = array<i64: 0, 0, 0, 0>{{.*}} -> tensor<1x2x2x2xf32>
  // CHECK: %[[B:.*]] = graph.slice %[[X]] {starts = array<i64: 0, 0, 0, 3>{{.*}} -> tensor<1x2x2x1xf32>
  // CHECK: %[[L:.*]] = graph.concat %[[A]], %[[B]]
  // CHECK: %[[C:.*]] = graph.slice %[[X]] {starts = array<i64: 0, 0, 0, 2>{{.*}} -> tensor<1x2x2x1xf32>
  // CHECK: %[[D:.*]] = graph.slice %[[X]] {starts = array<i64: 0, 0, 0, 4>{{.*}} -> tensor<1x2x2x2xf32>
  // CHECK: %[[R:.*]] = graph.concat %[[C]], %[[D]]
  // CHECK: graph.conv %[[L]], %[[V]]
  // CHECK: graph.conv %[[R]], %[[W]]
  %0 = graph.reshape %x : (tensor<1x2x2x6xf32>) -> tensor<1x2x2x2x3xf32>
  %1 = graph.transpose %0 {perm = array<i64: 0, 1, 2, 4, 3>} : (tensor<1x2x2x2x3xf32>) -> tensor<1x2x2x3x2xf32>
  %2 = graph.reshape %1 : (tensor<1x2x2x3x2xf32>) -> tensor<1x2x2x6xf32>
  %3 = graph.slice %2 {starts = array<i64: 0, 0, 0, 0>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x2x6xf32>) -> tensor<1x2x2x3xf32>
  %4 = graph.slice %2 {starts = array<i64: 0, 0, 0, 3>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x2x6xf32>) -> tensor<1x2x2x3xf32>
  %5 = graph.conv %3, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nhwc"} : (tensor<1x2x2x3xf32>, tensor<1x1x3x1xf32>) -> tensor<1x2x2x1xf32>
  %6 = graph.conv %4, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nhwc"} : (tensor<1x2x2x3xf32>, tensor<1x1x3x1xf32>) -> tensor<1x2x2x1xf32>
  %7 = graph.concat %5, %6 {axis = 3 : i64} : (tensor<1x2x2x1xf32>, tensor<1x2x2x1xf32>) -> tensor<1x2x2x2xf32>
  return %7 : tensor<1x2x2x2xf32>
}

// The order of a result is seen: the shuffle stays, whoever else reads it.
// CHECK-LABEL: func.func @seen
func.func @seen(%x: tensor<1x2x2x4xf32>) -> (tensor<1x2x2x4xf32>, tensor<1x2x2x1xf32>) {
  %w = graph.constant dense<[[[[5.0], [6.0], [7.0], [8.0]]]]> : tensor<1x1x4x1xf32>
  // CHECK: graph.transpose
  // CHECK: %[[S:.*]] = graph.reshape
  // CHECK: graph.conv %[[S]]
  // CHECK: return %[[S]]
  %0 = graph.reshape %x : (tensor<1x2x2x4xf32>) -> tensor<1x2x2x2x2xf32>
  %1 = graph.transpose %0 {perm = array<i64: 0, 1, 2, 4, 3>} : (tensor<1x2x2x2x2xf32>) -> tensor<1x2x2x2x2xf32>
  %2 = graph.reshape %1 : (tensor<1x2x2x2x2xf32>) -> tensor<1x2x2x4xf32>
  %3 = graph.conv %2, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nhwc"} : (tensor<1x2x2x4xf32>, tensor<1x1x4x1xf32>) -> tensor<1x2x2x1xf32>
  return %2, %3 : tensor<1x2x2x4xf32>, tensor<1x2x2x1xf32>
}

// Per-channel multipliers and biases of integers follow; channels backwards are a shuffle as well.
// CHECK-LABEL: func.func @backwards
// CHECK-SAME: %[[X:.*]]: tensor<1x2x2x3xi32>
func.func @backwards(%x: tensor<1x2x2x3xi32>, %y: tensor<1x2x2x3xi8>) -> tensor<1x2x2x1xi32> {
  %b = graph.constant dense<[1, 2, 3]> : tensor<3xi32>
  %w = graph.constant dense<[[[[5], [6], [7]]]]> : tensor<1x1x3x1xi8>
  // CHECK-DAG: %[[B:.*]] = graph.constant dense<[3, 2, 1]> : tensor<3xi32>
  // CHECK-DAG: %[[W:.*]] = graph.constant dense<{{.*}}7], [6], [5]{{.*}}> : tensor<1x1x3x1xi8>
  // CHECK: %[[Q:.*]] = graph.requantize %[[X]], %[[B]] {axis = 3 : i64, multipliers = array<f32: 3.000000e-01, 2.000000e-01, 1.000000e-01>
  // CHECK: graph.conv_integer %[[Q]], %[[W]]
  %0 = graph.slice %x {starts = array<i64: 0, 0, 0, 2>, steps = array<i64: 1, 1, 1, -1>} : (tensor<1x2x2x3xi32>) -> tensor<1x2x2x3xi32>
  %1 = graph.requantize %0, %b {multipliers = array<f32: 0.1, 0.2, 0.3>, axis = 3 : i64, zero_point = 0 : i32} : (tensor<1x2x2x3xi32>, tensor<3xi32>) -> tensor<1x2x2x3xi8>
  %2 = graph.conv_integer %1, %w {x_zero_point = 0 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>,
    dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nhwc"} : (tensor<1x2x2x3xi8>, tensor<1x1x3x1xi8>) -> tensor<1x2x2x1xi32>
  return %2 : tensor<1x2x2x1xi32>
}
