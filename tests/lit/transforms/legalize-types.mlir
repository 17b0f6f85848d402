// RUN: tilewright-opt %s -graph-partition-kernels=array=bf16 -graph-legalize-types -canonicalize | FileCheck %s

// The input becomes bf16 once, for the convolution; element by element it is read as it is. Between kernels there is bf16; what
// leaves the network stays f32, also through the transpose.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<1x8x8x4xf32>
// CHECK: %[[N:.*]] = call @tilewright_cast_0(%[[X]]) : (tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xbf16>
// CHECK: %[[A:.*]] = call @abs(%[[X]]) : (tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xbf16>
// CHECK: %[[C:.*]] = call @conv(%[[N]], %[[A]]) : (tensor<1x8x8x4xbf16>, tensor<1x8x8x4xbf16>) -> tensor<1x8x8x4xbf16>
// CHECK: %[[P:.*]] = call @pool(%[[C]]) : (tensor<1x8x8x4xbf16>) -> tensor<1x4x4x4xbf16>
// CHECK: %[[E:.*]] = call @second(%[[P]]) : (tensor<1x4x4x4xbf16>) -> tensor<1x4x4x4xf32>
// CHECK: %[[T:.*]] = call @transpose(%[[E]]) : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
// CHECK: return %[[T]]

// CHECK: func.func private @conv(%[[A:.*]]: tensor<1x8x8x4xbf16>, %[[B:.*]]: tensor<1x8x8x4xbf16>)
// CHECK-DAG: %[[W:.*]] = graph.constant dense<1.500000e+00> : tensor<1x1x4x4xbf16>
// CHECK-DAG: %[[AW:.*]] = graph.cast %[[A]] : (tensor<1x8x8x4xbf16>) -> tensor<1x8x8x4xf32>
// CHECK-DAG: %[[BW:.*]] = graph.cast %[[B]] : (tensor<1x8x8x4xbf16>) -> tensor<1x8x8x4xf32>
// CHECK-DAG: %[[WW:.*]] = graph.cast %[[W]]
// CHECK: %[[S:.*]] = graph.conv %[[AW]], %[[WW]]
// CHECK: %[[R:.*]] = graph.add %[[S]], %[[BW]] : (tensor<1x8x8x4xf32>, tensor<1x8x8x4xf32>)
// CHECK: graph.cast %[[R]] : (tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xbf16>

// A maximum is taken of the bf16 numbers themselves.
// CHECK: func.func private @pool
// CHECK-NOT: graph.cast
// CHECK: graph.max_pool %{{.*}} : (tensor<1x8x8x4xbf16>) -> tensor<1x4x4x4xbf16>
// CHECK-NOT: graph.cast
// CHECK: return
func.func @main(%x: tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32> {
  %w = graph.constant dense<1.5> : tensor<1x1x4x4xf32>
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x8x8x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x8x8x4xf32> loc("conv")
  %y = graph.abs %x : tensor<1x8x8x4xf32> loc("abs")
  %1 = graph.add %0, %y : (tensor<1x8x8x4xf32>, tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32> loc("add")
  %2 = graph.max_pool %1 {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    layout = "nhwc"} : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32> loc("pool")
  %3 = graph.conv %2, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x4x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x4x4x4xf32> loc("second")
  %4 = graph.transpose %3 {perm = array<i64: 0, 3, 1, 2>} : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32> loc("transpose")
  return %4 : tensor<1x4x4x4xf32>
}
