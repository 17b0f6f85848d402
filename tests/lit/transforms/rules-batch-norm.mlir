// RUN: tilewright-opt %s -graph-apply-rules=only=batch-norm-into-conv,batch-norm-to-scale -graph-fold-constants | FileCheck %s

// factor = 2 / sqrt(3 + 1) = 1 and 6 / sqrt(8 + 1) = 2; offset = 5 - 1 * 1 = 4 and 1 - 3 * 2 = -5.
// CHECK-LABEL: func.func @into_convolution
func.func @into_convolution(%x: tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = graph.constant dense<[[[[10.0]]], [[[20.0]]]]> : tensor<2x1x1x1xf32>
  %bias = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %scale = graph.constant dense<[2.0, 6.0]> : tensor<2xf32>
  %b = graph.constant dense<[5.0, 1.0]> : tensor<2xf32>
  %mean = graph.constant dense<[1.0, 3.0]> : tensor<2xf32>
  %var = graph.constant dense<[3.0, 8.0]> : tensor<2xf32>
  // CHECK-DAG: %[[W:.*]] = graph.constant dense<{{\[\[\[\[}}1.000000e+01]]], [{{\[\[}}4.000000e+01]]]]> : tensor<2x1x1x1xf32>
  // CHECK-DAG: %[[B:.*]] = graph.constant dense<[5.000000e+00, -1.000000e+00]> : tensor<2xf32>
  // CHECK: graph.conv %{{.*}}, %[[W]], %[[B]]
  // CHECK-NOT: graph.batch_norm
  %0 = graph.conv %x, %w, %bias {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x1x4x4xf32>, tensor<2x1x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %1 = graph.batch_norm %0, %scale, %b, %mean, %var {epsilon = 1.0 : f32}
    : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  return %1 : tensor<1x2x4x4xf32>
}

// The convolution's own result is used too: it stays.
// CHECK-LABEL: func.func @two_uses
func.func @two_uses(%x: tensor<1x1x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) {
  %w = graph.constant dense<10.0> : tensor<1x1x1x1xf32>
  %two = graph.constant dense<2.0> : tensor<1xf32>
  %three = graph.constant dense<3.0> : tensor<1xf32>
  // CHECK-DAG: %[[F:.*]] = graph.constant dense<1.000000e+00> : tensor<1x1x1xf32>
  // CHECK-DAG: %[[O:.*]] = graph.constant dense<0.000000e+00> : tensor<1x1x1xf32>
  // CHECK: %[[C:.*]] = graph.conv
  // CHECK: %[[M:.*]] = graph.mul %[[C]], %[[F]]
  // CHECK: graph.add %[[M]], %[[O]]
  %0 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>,
    group = 1 : i64, layout = "nchw"} : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %1 = graph.batch_norm %0, %two, %two, %two, %three {epsilon = 1.0 : f32}
    : (tensor<1x1x4x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  return %0, %1 : tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>
}

// Statistics that come at run time.
// CHECK-LABEL: func.func @run_time
func.func @run_time(%x: tensor<2x3xf32>, %p: tensor<3xf32>) -> tensor<2x3xf32> {
  // CHECK: %[[V:.*]] = graph.add %[[P:.*]], %{{.*}} : (tensor<3xf32>, tensor<1xf32>)
  // CHECK: %[[D:.*]] = graph.sqrt %[[V]]
  // CHECK: %[[F:.*]] = graph.div %[[P]], %[[D]]
  // CHECK: %[[S:.*]] = graph.mul %{{.*}}, %[[F]]
  // CHECK: %[[O:.*]] = graph.sub %{{.*}}, %[[S]]
  // CHECK: %[[M:.*]] = graph.mul %{{.*}}, %[[F]]
  // CHECK: graph.add %[[M]], %[[O]]
  %0 = graph.batch_norm %x, %p, %p, %p, %p {epsilon = 0.5 : f32}
    : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
