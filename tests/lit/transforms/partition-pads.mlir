// RUN: tilewright-opt %s -graph-partition-kernels=array=fp32 | FileCheck %s
// RUN: tilewright-opt %s -graph-partition-kernels=cpu-only=true | FileCheck %s --check-prefix=CPU

// A sum reads a tensor with padded channels itself, and what a slice leaves of one. One that two ops read, or whose rows are padded, is
// padded first.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:[^:]*]]: tensor<1x4x4x8xf32>, %[[Y:[^:]*]]: tensor<1x8x8x8xf32>, %[[Z:[^:]*]]: tensor<1x4x4x8xf32>, %[[R:[^:]*]]: tensor<1x3x4x16xf32>
// CHECK-DAG: call @plain(%[[X]])
// CHECK-DAG: call @walked(%[[X]], %[[Y]])
// CHECK-DAG: %[[P:.*]] = call @padded_twice(%[[Z]])
// CHECK-DAG: call @twice(%[[X]], %[[P]])
// CHECK-DAG: %[[Q:.*]] = call @padded_rows(%[[R]])
// CHECK-DAG: call @rows(%[[X]], %[[Q]])
// CHECK: func.func private @plain
// CHECK-SAME: tilewright.nodes = ["plain", "padded"]
// CHECK: func.func private @walked
// CHECK-SAME: tilewright.nodes = ["walked", "sliced", "padded_too"]
// CPU-DAG: func.func private @padded(
// CPU-DAG: func.func private @plain(
func.func @main(%x: tensor<1x4x4x8xf32>, %y: tensor<1x8x8x8xf32>, %z: tensor<1x4x4x8xf32>, %r: tensor<1x3x4x16xf32>)
    -> (tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>) {
  %w = graph.constant dense<1.0> : tensor<1x1x8x16xf32>
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x4x4x8xf32>, tensor<1x1x8x16xf32>) -> tensor<1x4x4x16xf32> loc("plain")
  %1 = graph.pad %x {low = array<i64: 0, 0, 0, 4>, high = array<i64: 0, 0, 0, 4>, value = 0.0 : f32} : (tensor<1x4x4x8xf32>) -> tensor<1x4x4x16xf32> loc("padded")
  %2 = graph.add %0, %1 : (tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32> loc("plain")

  %3 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x4x4x8xf32>, tensor<1x1x8x16xf32>) -> tensor<1x4x4x16xf32> loc("walked")
  %4 = graph.slice %y {starts = array<i64: 0, 0, 0, 0>, steps = array<i64: 1, 2, 2, 1>} : (tensor<1x8x8x8xf32>) -> tensor<1x4x4x8xf32> loc("sliced")
  %5 = graph.pad %4 {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 0, 0, 8>, value = 0.0 : f32} : (tensor<1x4x4x8xf32>) -> tensor<1x4x4x16xf32> loc("padded_too")
  %6 = graph.add %5, %3 : (tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32> loc("walked")

  %7 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x4x4x8xf32>, tensor<1x1x8x16xf32>) -> tensor<1x4x4x16xf32> loc("twice")
  %8 = graph.pad %z {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 0, 0, 8>, value = 0.0 : f32} : (tensor<1x4x4x8xf32>) -> tensor<1x4x4x16xf32> loc("padded_twice")
  %9 = graph.add %7, %8 : (tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32> loc("twice")

  %10 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x4x4x8xf32>, tensor<1x1x8x16xf32>) -> tensor<1x4x4x16xf32> loc("rows")
  %11 = graph.pad %r {low = array<i64: 0, 1, 0, 0>, high = array<i64: 0, 0, 0, 0>, value = 0.0 : f32} : (tensor<1x3x4x16xf32>) -> tensor<1x4x4x16xf32> loc("padded_rows")
  %12 = graph.add %10, %11 : (tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32> loc("rows")
  return %2, %6, %9, %8, %12 : tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>
}
