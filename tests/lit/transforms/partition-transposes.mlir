// RUN: tilewright-opt %s -split-input-file -graph-partition-kernels=array=fp32 | FileCheck %s
// RUN: tilewright-opt %s -split-input-file -graph-partition-kernels=array=int8 | FileCheck %s --check-prefix=INT8
// RUN: tilewright-opt %s -split-input-file -graph-partition-kernels=cpu-only=true | FileCheck %s --check-prefix=CPU

// An image of few channels is read as it lies. One that two kernels read is transposed, as is one of many channels.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<1x3x16x16xf32>, %[[Y:.*]]: tensor<1x3x16x16xf32>, %[[Z:.*]]: tensor<1x32x16x16xf32>
// CHECK-DAG: call @stem(%[[X]])
// CHECK-DAG: %[[T:.*]] = call @shared(%[[Y]])
// CHECK-DAG: call @one(%[[T]])
// CHECK-DAG: call @other(%[[T]])
// CHECK-DAG: %[[U:.*]] = call @wide(%[[Z]])
// CHECK-DAG: call @many(%[[U]])
// CHECK: func.func private @stem(%[[I:.*]]: tensor<1x3x16x16xf32>)
// CHECK-SAME: tilewright.nodes = ["input", "stem"]
// CHECK: %[[N:.*]] = graph.transpose %[[I]]
// CHECK: graph.conv %[[N]]
// The CPU has no such reader.
// CPU: func.func private @input
// INT8: func.func private @input
func.func @main(%x: tensor<1x3x16x16xf32>, %y: tensor<1x3x16x16xf32>, %z: tensor<1x32x16x16xf32>) -> (tensor<1x8x8x16xf32>, tensor<1x8x8x16xf32>, tensor<1x8x8x16xf32>, tensor<1x8x8x16xf32>) {
  %w = graph.constant dense<1.0> : tensor<3x3x3x16xf32>
  %v = graph.constant dense<1.0> : tensor<3x3x32x16xf32>
  %0 = graph.transpose %x {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x3x16x16xf32>) -> tensor<1x16x16x3xf32> loc("input")
  %1 = graph.conv %0, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x16x16x3xf32>, tensor<3x3x3x16xf32>) -> tensor<1x8x8x16xf32> loc("stem")
  %2 = graph.transpose %y {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x3x16x16xf32>) -> tensor<1x16x16x3xf32> loc("shared")
  %3 = graph.conv %2, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x16x16x3xf32>, tensor<3x3x3x16xf32>) -> tensor<1x8x8x16xf32> loc("one")
  %4 = graph.conv %2, %w {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x16x16x3xf32>, tensor<3x3x3x16xf32>) -> tensor<1x8x8x16xf32> loc("other")
  %5 = graph.transpose %z {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x32x16x16xf32>) -> tensor<1x16x16x32xf32> loc("wide")
  %6 = graph.conv %5, %v {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nhwc"} : (tensor<1x16x16x32xf32>, tensor<3x3x32x16xf32>) -> tensor<1x8x8x16xf32> loc("many")
  return %1, %3, %4, %6 : tensor<1x8x8x16xf32>, tensor<1x8x8x16xf32>, tensor<1x8x8x16xf32>, tensor<1x8x8x16xf32>
}

// -----

// Attention: heads side by side are read where they lie, keys as columns of the weights, and the context is written side by
// side. Rows that would come apart are transposed first.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[Q:.*]]: tensor<1x8x2x16xf32>, %[[K:.*]]: tensor<1x8x2x16xf32>, %[[R:.*]]: tensor<2x8x16xf32>
// CHECK-DAG: %[[S:.*]] = call @scores(%[[Q]], %[[K]]) : (tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>) -> tensor<2x8x8xf32>
// CHECK-DAG: %[[T:.*]] = call @rows(%[[R]])
// CHECK: call @context(%[[T]], %[[S]]) : {{.*}} -> tensor<1x16x2x8xf32>
// CHECK: func.func private @scores
// CHECK-SAME: tilewright.nodes = ["query", "key", "scores"]
// CHECK: func.func private @context
// CHECK-SAME: tilewright.nodes = ["context", "heads"]
// CPU: func.func private @query
// INT8: func.func private @query
func.func @main(%q: tensor<1x8x2x16xf32>, %k: tensor<1x8x2x16xf32>, %r: tensor<2x8x16xf32>) -> tensor<1x16x2x8xf32> {
  %0 = graph.transpose %q {perm = array<i64: 0, 2, 1, 3>} : (tensor<1x8x2x16xf32>) -> tensor<1x2x8x16xf32> loc("query")
  %1 = graph.reshape %0 : (tensor<1x2x8x16xf32>) -> tensor<2x8x16xf32>
  %2 = graph.transpose %k {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x8x2x16xf32>) -> tensor<1x2x16x8xf32> loc("key")
  %3 = graph.reshape %2 : (tensor<1x2x16x8xf32>) -> tensor<2x16x8xf32>
  %4 = graph.matmul %1, %3 : (tensor<2x8x16xf32>, tensor<2x16x8xf32>) -> tensor<2x8x8xf32> loc("scores")
  %5 = graph.transpose %r {perm = array<i64: 0, 2, 1>} : (tensor<2x8x16xf32>) -> tensor<2x16x8xf32> loc("rows")
  %6 = graph.matmul %5, %4 : (tensor<2x16x8xf32>, tensor<2x8x8xf32>) -> tensor<2x16x8xf32> loc("context")
  %7 = graph.reshape %6 : (tensor<2x16x8xf32>) -> tensor<1x2x16x8xf32>
  %8 = graph.transpose %7 {perm = array<i64: 0, 2, 1, 3>} : (tensor<1x2x16x8xf32>) -> tensor<1x16x2x8xf32> loc("heads")
  return %8 : tensor<1x16x2x8xf32>
}
