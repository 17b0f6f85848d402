// RUN: tilewright-opt %s -graph-fuse-layer-norm -canonicalize | FileCheck %s

// CHECK-LABEL: func.func @layer_norm
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>
// CHECK-NEXT: %[[Y:.*]] = graph.layer_norm %[[X]] {axis = 1 : i64, epsilon = 5.000000e-01 : f32}
// CHECK-NEXT: return %[[Y]]
func.func @layer_norm(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %epsilon = graph.constant dense<0.5> : tensor<1xf32>
  %mean = graph.reduce %x {kind = "mean", axes = array<i64: 1>, keepdims = true} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %centred = graph.sub %x, %mean : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %square = graph.mul %centred, %centred : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %variance = graph.reduce %square {kind = "mean", axes = array<i64: 1>, keepdims = true} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %sum = graph.add %epsilon, %variance : (tensor<1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %deviation = graph.sqrt %sum : tensor<2x1xf32>
  %y = graph.div %centred, %deviation : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// Means over a dim that others follow are no rows.
// CHECK-LABEL: func.func @inner_dim
// CHECK-NOT: graph.layer_norm
// CHECK: return
func.func @inner_dim(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %epsilon = graph.constant dense<0.5> : tensor<1xf32>
  %mean = graph.reduce %x {kind = "mean", axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %centred = graph.sub %x, %mean : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  %square = graph.mul %centred, %centred : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %variance = graph.reduce %square {kind = "mean", axes = array<i64: 0>, keepdims = true} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %sum = graph.add %variance, %epsilon : (tensor<1x4xf32>, tensor<1xf32>) -> tensor<1x4xf32>
  %deviation = graph.sqrt %sum : tensor<1x4xf32>
  %y = graph.div %centred, %deviation : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// The variance of another tensor, and a row that might not fit a small scratchpad.
// CHECK-LABEL: func.func @others
// CHECK-NOT: graph.layer_norm
// CHECK: return
func.func @others(%x: tensor<2x4xf32>, %z: tensor<2x4xf32>, %long: tensor<1x1025xf32>) -> (tensor<2x4xf32>, tensor<1x1025xf32>) {
  %epsilon = graph.constant dense<0.5> : tensor<1xf32>
  %mean = graph.reduce %x {kind = "mean", axes = array<i64: 1>, keepdims = true} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %centred = graph.sub %x, %mean : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %square = graph.mul %z, %z : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %variance = graph.reduce %square {kind = "mean", axes = array<i64: 1>, keepdims = true} : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %sum = graph.add %variance, %epsilon : (tensor<2x1xf32>, tensor<1xf32>) -> tensor<2x1xf32>
  %deviation = graph.sqrt %sum : tensor<2x1xf32>
  %y = graph.div %centred, %deviation : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %m = graph.reduce %long {kind = "mean", axes = array<i64: 1>, keepdims = true} : (tensor<1x1025xf32>) -> tensor<1x1xf32>
  %c = graph.sub %long, %m : (tensor<1x1025xf32>, tensor<1x1xf32>) -> tensor<1x1025xf32>
  %s = graph.mul %c, %c : (tensor<1x1025xf32>, tensor<1x1025xf32>) -> tensor<1x1025xf32>
  %v = graph.reduce %s {kind = "mean", axes = array<i64: 1>, keepdims = true} : (tensor<1x1025xf32>) -> tensor<1x1xf32>
  %e = graph.add %v, %epsilon : (tensor<1x1xf32>, tensor<1xf32>) -> tensor<1x1xf32>
  %d = graph.sqrt %e : tensor<1x1xf32>
  %r = graph.div %c, %d : (tensor<1x1025xf32>, tensor<1x1xf32>) -> tensor<1x1025xf32>
  return %y, %r : tensor<2x4xf32>, tensor<1x1025xf32>
}
