// What constants do to a convolution's or matrix product's result goes into its weights and bias.
// RUN: tilewright-opt %s -graph-apply-rules=only=scale-into-conv,bias-into-conv,scale-into-product,constants-together,product-chain-with-bias | FileCheck %s

// CHECK-LABEL: @batch_norm_spelled_out
// CHECK-DAG: %[[W:.*]] = graph.constant dense<{{\[\[\[\[}}2.000000e+00]]], {{\[\[\[}}9.000000e+00]]]]> : tensor<2x1x1x1xf32>
// CHECK-DAG: %[[B:.*]] = graph.constant dense<[3.000000e+00, 1.000000e+01]> : tensor<2xf32>
// CHECK: graph.conv %arg0, %[[W]], %[[B]]
// CHECK-NEXT: return
func.func @batch_norm_spelled_out(%x: tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = graph.constant dense<[[[[1.0]]], [[[3.0]]]]> : tensor<2x1x1x1xf32>
  %b = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %factor = graph.constant dense<[[[2.0]], [[3.0]]]> : tensor<2x1x1xf32>
  %offset = graph.constant dense<[[[[1.0]], [[4.0]]]]> : tensor<1x2x1x1xf32>
  %y = graph.conv %x, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
                             layout = "nchw"} : (tensor<1x1x4x4xf32>, tensor<2x1x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %scaled = graph.mul %factor, %y : (tensor<2x1x1xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %shifted = graph.add %scaled, %offset : (tensor<1x2x4x4xf32>, tensor<1x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  return %shifted : tensor<1x2x4x4xf32>
}

// A factor of columns, not of channels, and a result that something else reads too: both stay.
// CHECK-LABEL: @stays
// CHECK: graph.conv
// CHECK: graph.mul
// CHECK: graph.mul
func.func @stays(%x: tensor<1x1x2x2xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) {
  %w = graph.constant dense<[[[[1.0]]], [[[3.0]]]]> : tensor<2x1x1x1xf32>
  %columns = graph.constant dense<[2.0, 3.0]> : tensor<2xf32>
  %two = graph.constant dense<2.0> : tensor<f32>
  %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
                          layout = "nchw"} : (tensor<1x1x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  %a = graph.mul %y, %columns : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %b = graph.mul %y, %two : (tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
  return %y, %a, %b : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>
}

// CHECK-LABEL: @matrix_product
// CHECK: %[[W:.*]] = graph.constant dense<{{\[\[}}2.000000e+00, 6.000000e+00], [6.000000e+00, 1.200000e+01]]> : tensor<2x2xf32>
// CHECK: graph.matmul %arg0, %[[W]]
// CHECK-NEXT: return
func.func @matrix_product(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %factor = graph.constant dense<[2.0, 3.0]> : tensor<2xf32>
  %y = graph.matmul %x, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %scaled = graph.mul %y, %factor : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  return %scaled : tensor<3x2xf32>
}

// 2*3*1 multiplications for each row, not 2*3 + 3*1 twice; b x w is a constant too. What others read of the first product stays.
// CHECK-LABEL: @chain_with_bias
// CHECK-DAG: %[[VW:.*]] = graph.matmul %{{.*}}, %{{.*}} : (tensor<2x3xf32>, tensor<3x1xf32>) -> tensor<2x1xf32>
// CHECK-DAG: %[[P:.*]] = graph.matmul %arg0, %[[VW]] : (tensor<8x2xf32>, tensor<2x1xf32>) -> tensor<8x1xf32>
// CHECK-DAG: %[[B:.*]] = graph.constant dense<1.400000e+01> : tensor<1xf32>
// CHECK: graph.add %[[P]], %[[B]]
// CHECK: %[[X:.*]] = graph.matmul %arg1
// CHECK: %[[Y:.*]] = graph.add %[[X]]
// CHECK: %[[Z:.*]] = graph.matmul %[[Y]]
// CHECK: return %{{.*}}, %[[Y]], %[[Z]]
func.func @chain_with_bias(%x: tensor<8x2xf32>, %t: tensor<8x2xf32>) -> (tensor<8x1xf32>, tensor<8x3xf32>, tensor<8x1xf32>) {
  %v = graph.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %b = graph.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %w = graph.constant dense<[[1.0], [2.0], [3.0]]> : tensor<3x1xf32>
  %xv = graph.matmul %x, %v : (tensor<8x2xf32>, tensor<2x3xf32>) -> tensor<8x3xf32>
  %s = graph.add %xv, %b : (tensor<8x3xf32>, tensor<3xf32>) -> tensor<8x3xf32>
  %y = graph.matmul %s, %w : (tensor<8x3xf32>, tensor<3x1xf32>) -> tensor<8x1xf32>
  %tv = graph.matmul %t, %v : (tensor<8x2xf32>, tensor<2x3xf32>) -> tensor<8x3xf32>
  %u = graph.add %tv, %b : (tensor<8x3xf32>, tensor<3xf32>) -> tensor<8x3xf32>
  %z = graph.matmul %u, %w : (tensor<8x3xf32>, tensor<3x1xf32>) -> tensor<8x1xf32>
  return %y, %u, %z : tensor<8x1xf32>, tensor<8x3xf32>, tensor<8x1xf32>
}

// Products that a type does not hold stay apart, and those that lose bits: 1e-30 times 1e-30 is no number above 0.
// CHECK-LABEL: @no_overflow
// CHECK-COUNT-2: graph.mul
// CHECK-COUNT-2: graph.mul
// CHECK: graph.matmul
// CHECK-NEXT: graph.mul
func.func @no_overflow(%x: tensor<2xf32>, %m: tensor<3x2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<3x2xf32>) {
  %huge = graph.constant dense<1.0e30> : tensor<f32>
  %tiny = graph.constant dense<1.0e-30> : tensor<f32>
  %w = graph.constant dense<1.0e20> : tensor<2x2xf32>
  %a = graph.mul %x, %huge : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %b = graph.mul %a, %huge : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %c = graph.mul %x, %tiny : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = graph.mul %c, %tiny : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %p = graph.matmul %m, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %q = graph.mul %p, %huge : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  return %b, %d, %q : tensor<2xf32>, tensor<2xf32>, tensor<3x2xf32>
}

// Integers wrap: they are no real numbers. Floats become one summand.
// CHECK-LABEL: @summands
// CHECK-DAG: %[[SUM:.*]] = graph.constant dense<[3.000000e+00, 4.000000e+00]> : tensor<2xf32>
// CHECK-DAG: graph.add %arg0, %[[SUM]]
// CHECK-DAG: %[[I:.*]] = graph.add %arg1
// CHECK-DAG: graph.add %[[I]]
func.func @summands(%x: tensor<2xf32>, %i: tensor<2xi32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %one = graph.constant dense<1.0> : tensor<f32>
  %more = graph.constant dense<[2.0, 3.0]> : tensor<2xf32>
  %two = graph.constant dense<2> : tensor<i32>
  %a = graph.add %x, %one : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %b = graph.add %more, %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %c = graph.add %i, %two : (tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
  %d = graph.add %c, %two : (tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
  return %b, %d : tensor<2xf32>, tensor<2xi32>
}
