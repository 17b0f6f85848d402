// RUN: tilewright-opt %s -graph-fold-constants | FileCheck %s
// RUN: tilewright-opt %s -graph-fold-constants=keep-quantized=true | FileCheck %s --check-prefix=KEEP

// CHECK-LABEL: func.func @arithmetic
func.func @arithmetic() -> (tensor<2x2xf32>, tensor<2xi32>) {
  %a = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %b = graph.constant dense<[10.0, 20.0]> : tensor<2xf32>
  %0 = graph.add %a, %b : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %1 = graph.clip %0 {min = 12.0 : f32, max = 23.0 : f32} : tensor<2x2xf32>
  %c = graph.constant dense<[7, -7]> : tensor<2xi32>
  %d = graph.constant dense<2> : tensor<2xi32>
  // Integers divide towards zero.
  %2 = graph.div %c, %d : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  // CHECK-DAG: %[[SUM:.*]] = graph.constant dense<{{\[\[}}1.200000e+01, 2.200000e+01], [1.300000e+01, 2.300000e+01]]>
  // CHECK-DAG: %[[QUOTIENT:.*]] = graph.constant dense<[3, -3]> : tensor<2xi32>
  // CHECK: return %[[SUM]], %[[QUOTIENT]]
  return %1, %2 : tensor<2x2xf32>, tensor<2xi32>
}

// Division by zero is left to the run time.
// CHECK-LABEL: func.func @division_by_zero
func.func @division_by_zero() -> tensor<1xi32> {
  %c = graph.constant dense<[7]> : tensor<1xi32>
  %d = graph.constant dense<[0]> : tensor<1xi32>
  // CHECK: graph.div
  %0 = graph.div %c, %d : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi32>
  return %0 : tensor<1xi32>
}

// CHECK-LABEL: func.func @movement
func.func @movement() -> (tensor<3x2xi8>, tensor<2xi8>, tensor<1x4xi8>, tensor<3x4xi8>) {
  %a = graph.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %0 = graph.transpose %a {perm = array<i64: 1, 0>} : (tensor<2x3xi8>) -> tensor<3x2xi8>
  %1 = graph.slice %a {starts = array<i64: 1, 2>, steps = array<i64: 1, -2>} : (tensor<2x3xi8>) -> tensor<1x2xi8>
  %2 = graph.reshape %1 : (tensor<1x2xi8>) -> tensor<2xi8>
  %3 = graph.concat %1, %1 {axis = 1 : i64} : (tensor<1x2xi8>, tensor<1x2xi8>) -> tensor<1x4xi8>
  // One row in front, one column behind.
  %4 = graph.pad %a {low = array<i64: 1, 0>, high = array<i64: 0, 1>, value = 9 : i8} : (tensor<2x3xi8>) -> tensor<3x4xi8>
  // CHECK-DAG: %[[T:.*]] = graph.constant dense<{{\[\[}}1, 4], [2, 5], [3, 6]]> : tensor<3x2xi8>
  // CHECK-DAG: %[[S:.*]] = graph.constant dense<[6, 4]> : tensor<2xi8>
  // CHECK-DAG: %[[C:.*]] = graph.constant dense<{{\[\[}}6, 4, 6, 4]]> : tensor<1x4xi8>
  // CHECK-DAG: %[[P:.*]] = graph.constant dense<{{\[\[}}9, 9, 9, 9], [1, 2, 3, 9], [4, 5, 6, 9]]> : tensor<3x4xi8>
  // CHECK: return %[[T]], %[[S]], %[[C]], %[[P]]
  return %0, %2, %3, %4 : tensor<3x2xi8>, tensor<2xi8>, tensor<1x4xi8>, tensor<3x4xi8>
}

// CHECK-LABEL: func.func @quantised
// KEEP-LABEL: func.func @quantised
func.func @quantised() -> (tensor<2x2xf32>, tensor<4xui8>) {
  %a = graph.constant dense<[[130, 131], [120, 110]]> : tensor<2x2xui8>
  // KEEP: graph.dequantize
  %0 = graph.dequantize %a {scales = array<f32: 0.5, 2.0>, zero_points = array<i32: 128, 100>, axis = 1 : i64}
    : (tensor<2x2xui8>) -> tensor<2x2xf32>
  // Halves go to the even neighbour; what is out of range saturates.
  %b = graph.constant dense<[0.5, 1.5, 1.0e9, -1.0e9]> : tensor<4xf32>
  %1 = graph.quantize %b {scales = array<f32: 1.0>, zero_points = array<i32: 3>, axis = 0 : i64} : (tensor<4xf32>) -> tensor<4xui8>
  // CHECK-DAG: %[[X:.*]] = graph.constant dense<{{\[\[}}1.000000e+00, 6.200000e+01], [-4.000000e+00, 2.000000e+01]]>
  // CHECK-DAG: %[[Q:.*]] = graph.constant dense<[3, 5, 255, 0]> : tensor<4xui8>
  // CHECK: return %[[X]], %[[Q]]
  return %0, %1 : tensor<2x2xf32>, tensor<4xui8>
}

// CHECK-LABEL: func.func @identities
// CHECK-SAME: %[[X:.*]]: tensor<2x3xf32>
func.func @identities(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = graph.cast %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = graph.reshape %0 : (tensor<2x3xf32>) -> tensor<6xf32>
  %2 = graph.reshape %1 : (tensor<6xf32>) -> tensor<2x3xf32>
  %3 = graph.transpose %2 {perm = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = graph.slice %3 {starts = array<i64: 0, 0>, steps = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // This one reverses.
  // CHECK: %[[R:.*]] = graph.slice %[[X]]
  %5 = graph.slice %3 {starts = array<i64: 0, 2>, steps = array<i64: 1, -1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: return %[[X]], %[[R]]
  return %4, %5 : tensor<2x3xf32>, tensor<2x3xf32>
}

// CHECK-LABEL: func.func @sums
func.func @sums() -> (tensor<2x2xf32>, tensor<1x1x1x1xf32>, tensor<2xi32>, tensor<2x1xf32>, tensor<2xi8>) {
  %a = graph.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %0 = graph.matmul %a, %a : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %x = graph.constant dense<[[[[1.0, 2.0], [3.0, 4.0]]]]> : tensor<1x1x2x2xf32>
  %w = graph.constant dense<[[[[1.0, 10.0], [100.0, 1000.0]]]]> : tensor<1x1x2x2xf32>
  %1 = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, group = 1 : i64,
    layout = "nchw"} : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x1x1xf32>
  // Sums of integers are exact: these do not fit a float.
  %b = graph.constant dense<[[16777216, 1], [-16777217, 0]]> : tensor<2x2xi32>
  %2 = graph.reduce %b {kind = "sum", axes = array<i64: 1>, keepdims = false} : (tensor<2x2xi32>) -> tensor<2xi32>
  %3 = graph.reduce %a {kind = "max", axes = array<i64: 1>, keepdims = true} : (tensor<2x2xf32>) -> tensor<2x1xf32>
  %c = graph.constant dense<[30, -1000]> : tensor<2xi32>
  %4 = graph.requantize %c {multipliers = array<f32: 0.25>, axis = 0 : i64, zero_point = 3 : i32} : (tensor<2xi32>) -> tensor<2xi8>
  // CHECK-DAG: %[[M:.*]] = graph.constant dense<{{\[\[}}7.000000e+00, 1.000000e+01], [1.500000e+01, 2.200000e+01]]>
  // CHECK-DAG: %[[C:.*]] = graph.constant dense<4.321000e+03> : tensor<1x1x1x1xf32>
  // CHECK-DAG: %[[S:.*]] = graph.constant dense<[16777217, -16777217]> : tensor<2xi32>
  // CHECK-DAG: %[[X:.*]] = graph.constant dense<{{\[\[}}2.000000e+00], [4.000000e+00]]>
  // 7.5 goes to 8.
  // CHECK-DAG: %[[R:.*]] = graph.constant dense<[11, -128]> : tensor<2xi8>
  // CHECK: return %[[M]], %[[C]], %[[S]], %[[X]], %[[R]]
  return %0, %1, %2, %3, %4 : tensor<2x2xf32>, tensor<1x1x1x1xf32>, tensor<2xi32>, tensor<2x1xf32>, tensor<2xi8>
}

// A gigabyte of equal elements stays one.
// CHECK-LABEL: func.func @splats
func.func @splats() -> tensor<16384x16384xf32> {
  %a = graph.constant dense<2.0> : tensor<16384x16384xf32>
  %0 = graph.transpose %a {perm = array<i64: 1, 0>} : (tensor<16384x16384xf32>) -> tensor<16384x16384xf32>
  %1 = graph.leaky_relu %0 {alpha = 0.5 : f32} : tensor<16384x16384xf32>
  %2 = graph.mul %1, %a : (tensor<16384x16384xf32>, tensor<16384x16384xf32>) -> tensor<16384x16384xf32>
  // CHECK: graph.constant dense<4.000000e+00> : tensor<16384x16384xf32>
  // CHECK-NEXT: return
  return %2 : tensor<16384x16384xf32>
}
